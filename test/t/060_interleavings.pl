# The interleavings that wait for an order's row.  That wait is a poll, which
# isolationtester does not see; so the sessions are driven from here.  (The waits
# at the unique index of the claim are in test/specs, but for those whose error
# at SERIALIZABLE has not the same text in all versions.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Interleaving;
use NotifyClaim;
use Test::More;

my $node = start_node('interleavings');

create_orders($node);
stage($node);

my $paid = '1 claims, 1 transitions, 1 messages, A PAID, B PENDING_PAY';
my $other_paid = '1 claims, 1 transitions, 1 messages, A PENDING_PAY, B PAID';
my $shipped = '2 claims, 2 transitions, 2 messages, A SHIPPED, B PENDING_PAY';

# Same key, same body.

play('the first commits', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = APPLIED replayed | ERROR 40001', 'b: COMMIT', 'c: pay = APPLIED replayed');
play('the first rolls back', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay = polls', 'a: ROLLBACK',
	'b: = APPLIED', 'b: COMMIT', 'c: pay = APPLIED replayed');
play('both roll back', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay = polls', 'a: ROLLBACK',
	'b: = APPLIED', 'b: ROLLBACK', 'c: pay = APPLIED');
play('the first rolls back to a savepoint and goes on', $paid,
	'a: BEGIN', 'a: SAVEPOINT a', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay = polls', 'a: ROLLBACK TO a',
	'b: = APPLIED', 'b: COMMIT', 'a: ROLLBACK', 'c: pay = APPLIED replayed');
play('the first rolls back to a savepoint and delivers again', $paid,
	'a: BEGIN', 'a: SAVEPOINT a', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay = polls', 'a: ROLLBACK TO a',
	'b: = APPLIED', 'a: pay = polls', 'b: COMMIT', 'a: = APPLIED replayed | ERROR 40001', 'a: COMMIT');
play('the first releases its savepoint', $paid,
	'a: BEGIN', 'a: SAVEPOINT a', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay = polls',
	'a: RELEASE a', 'a: COMMIT', 'b: = APPLIED replayed | ERROR 40001', 'b: COMMIT');
play('two wait', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay = polls', 'c: BEGIN', 'c: pay = polls',
	'a: COMMIT', 'b: = APPLIED replayed | ERROR 40001', 'c: = APPLIED replayed | ERROR 40001',
	'b: COMMIT', 'c: COMMIT');

# The same without an order, where the wait is one for a lock.
my $pushed = '1 claims, 0 transitions, 1 messages, A PENDING_PAY, B PENDING_PAY';
play('no order, the first rolls back to a savepoint and delivers again', $pushed,
	'a: BEGIN', 'a: SAVEPOINT a', 'a: push = APPLIED', 'b: BEGIN', 'b: push = locks', 'a: ROLLBACK TO a',
	'b: = APPLIED', 'a: push = locks', 'b: COMMIT', 'a: = APPLIED replayed | ERROR 40001', 'a: COMMIT');
play('another order, the first rolls back to a savepoint and delivers again', $other_paid,
	'a: BEGIN', 'a: SAVEPOINT a', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay/order = locks',
	'a: ROLLBACK TO a', 'b: = APPLIED', 'a: pay = locks', 'b: COMMIT', 'a: = CONFLICT | ERROR 40001', 'a: COMMIT');

# Same key, other body.

play('another body, the first commits', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay/body = polls', 'a: COMMIT',
	'b: = CONFLICT | ERROR 40001', 'b: COMMIT', 'c: pay = APPLIED replayed');
play('another body, the first rolls back', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay/body = polls', 'a: ROLLBACK',
	'b: = APPLIED', 'b: COMMIT', 'c: pay = CONFLICT');

# Same key, other order, which a third transaction holds: the conflict is found
# while waiting for it.

play('another order, the first commits', $paid,
	'c: BEGIN', 'c: holdB', 'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay/order = polls',
	'a: COMMIT', 'c: COMMIT', 'b: = CONFLICT | ERROR 40001', 'b: COMMIT');
play('another order, the first rolls back', $other_paid,
	'c: BEGIN', 'c: holdB', 'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay/order = polls',
	'a: ROLLBACK', 'c: COMMIT', 'b: = APPLIED', 'b: COMMIT');

# Another notice of the same order.

play('another key, the first commits',
	'2 claims, 1 transitions, 1 messages, A PAID, B PENDING_PAY | ' . $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay/other = polls', 'a: COMMIT',
	'b: = SKIPPED | ERROR 40001', 'b: COMMIT');
play('another key, the first rolls back', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay/other = polls', 'a: ROLLBACK',
	'b: = APPLIED', 'b: COMMIT');
play('the next event, the first commits', "$shipped | $paid",
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: ship = polls', 'a: COMMIT',
	'b: = APPLIED | ERROR 40001', 'b: COMMIT');
play('the next event, the first rolls back',
	'0 claims, 0 transitions, 0 messages, A PENDING_PAY, B PENDING_PAY',
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: ship = polls', 'a: ROLLBACK',
	'b: = EARLY', 'b: COMMIT');

# The application moves or holds the order meanwhile.

play('the application cancels', '1 claims, 0 transitions, 0 messages, A CANCELLED, B PENDING_PAY'
	  . ' | 0 claims, 0 transitions, 0 messages, A CANCELLED, B PENDING_PAY',
	'a: BEGIN', 'a: cancel', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = SKIPPED | ERROR 40001', 'b: COMMIT');
play('the application ships, and the incident does not happen',
	'1 claims, 0 transitions, 0 messages, A SHIPPED, B PENDING_PAY',
	'a: BEGIN', 'a: deliver', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = SKIPPED | ERROR 40001', 'b: COMMIT', 'b: pay = SKIPPED replayed | SKIPPED');
play('the application changes its mind', $paid,
	'a: BEGIN', 'a: cancel', 'b: BEGIN', 'b: pay = polls', 'a: ROLLBACK',
	'b: = APPLIED', 'b: COMMIT');
play('the application deletes the order', '0 claims, 0 transitions, 0 messages, B PENDING_PAY',
	'a: BEGIN', 'a: delete', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = NO_ORDER | ERROR 40001', 'b: COMMIT');
play('the application replaces the order', $paid,
	'a: BEGIN', 'a: delete', 'a: insert', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = APPLIED | ERROR 40001', 'b: COMMIT', 'b: pay = APPLIED replayed | APPLIED');
play('the application only looks', $paid,
	'a: BEGIN', 'a: hold', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = APPLIED', 'b: COMMIT');

# The application holds the order and then calls: whoever polls is not in its way.

play('the holder calls and commits', $paid,
	'a: BEGIN', 'a: hold', 'b: BEGIN', 'b: pay = polls', 'a: pay = APPLIED', 'a: COMMIT',
	'b: = APPLIED replayed | ERROR 40001', 'b: COMMIT');
play('the holder calls and rolls back', $paid,
	'a: BEGIN', 'a: hold', 'b: BEGIN', 'b: pay = polls', 'a: pay = APPLIED', 'a: ROLLBACK',
	'b: = APPLIED', 'b: COMMIT');
play('the holder cancels and calls', '1 claims, 0 transitions, 0 messages, A CANCELLED, B PENDING_PAY',
	'a: BEGIN', 'a: cancel', 'b: BEGIN', 'b: pay = polls', 'a: pay = SKIPPED', 'a: COMMIT',
	'b: = SKIPPED replayed | ERROR 40001', 'b: COMMIT');

# A duplicate is answered from the claim, not from the order: that the order is
# held again by then does not matter.  Which of the two gets the row is open, so
# the duplicate's transaction ends before the other's answer is waited for.

play('the order is held again', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: pay = polls',
	'c: BEGIN READ WRITE', 'c: hold = locks', 'a: COMMIT',
	'b: = APPLIED replayed | ERROR 40001', 'b: COMMIT', 'c: =', 'c: COMMIT');

# Two transactions with two notices each, in opposite order.

play('crossed, the impatient one commits', '2 claims, 2 transitions, 2 messages, A PAID, B PAID',
	'a: BEGIN', 'b: BEGIN', 'a: pay = APPLIED', 'b: payB = APPLIED', 'a: payB = polls',
	'b: impatient', 'b: pay = BUSY', 'b: COMMIT',
	'a: = APPLIED replayed | ERROR 40001', 'a: COMMIT',
	'a: pay = APPLIED replayed | APPLIED', 'a: payB = APPLIED replayed');
play('crossed, the impatient one rolls back', '2 claims, 2 transitions, 2 messages, A PAID, B PAID',
	'a: BEGIN', 'b: BEGIN', 'a: pay = APPLIED', 'b: payB = APPLIED', 'a: payB = polls',
	'b: impatient', 'b: pay = BUSY', 'b: ROLLBACK',
	'a: = APPLIED', 'a: COMMIT', 'b: payB = APPLIED replayed', 'b: pay = APPLIED replayed');
play('crossed with a lock of the application', $paid,
	'b: BEGIN', 'b: holdB', 'a: BEGIN', 'a: pay = APPLIED', 'b: hold = locks',
	'a: impatient', 'a: payB = BUSY', 'a: COMMIT', 'b: =  | ERROR 40001', 'b: COMMIT');
play('crossed with a claim', '2 claims, 1 transitions, 2 messages, A PAID, B PENDING_PAY',
	'a: BEGIN', 'a: hold', 'b: BEGIN', 'b: push = APPLIED', 'a: push = locks',
	'b: impatient', 'b: pay = BUSY', 'b: COMMIT',
	'a: = APPLIED replayed | ERROR 40001', 'a: ROLLBACK', 'b: pay = APPLIED');

leave();
$node->stop;
done_testing();
