# The first delivery is in a prepared transaction.  As long as that is not decided
# nobody gets an answer from it; the decision, which comes from another session,
# decides for all who wait.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Interleaving;
use NotifyClaim;
use Test::More;

my $node = start_node('prepared', "max_prepared_transactions = 10\n");

create_orders($node);
stage($node);

my $paid = '1 claims, 1 transitions, 1 messages, A PAID, B PENDING_PAY';
my $other_paid = '1 claims, 1 transitions, 1 messages, A PENDING_PAY, B PAID';
my $pushed = '1 claims, 0 transitions, 1 messages, A PENDING_PAY, B PENDING_PAY';

# When it is rolled back, whoever waited may be faster than the release of its
# predicate locks, and be told to try again at SERIALIZABLE.

play('prepared and committed', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'a: PREPARE', 'b: BEGIN', 'b: pay = polls', 'c: COMMIT PREPARED',
	'b: = APPLIED replayed | ERROR 40001', 'b: COMMIT');
play('prepared and rolled back', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'a: PREPARE', 'b: BEGIN', 'b: pay = polls', 'c: ROLLBACK PREPARED',
	'b: = APPLIED | APPLIED | APPLIED or ERROR 40001', 'b: COMMIT',
	'b: pay = APPLIED replayed | APPLIED replayed | APPLIED replayed or APPLIED');
play('prepared, another order, committed', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'a: PREPARE', 'b: BEGIN', 'b: pay/order = locks',
	'c: COMMIT PREPARED', 'b: = CONFLICT | ERROR 40001', 'b: COMMIT');
play('prepared, another order, rolled back', $other_paid,
	'a: BEGIN', 'a: pay = APPLIED', 'a: PREPARE', 'b: BEGIN', 'b: pay/order = locks',
	'c: ROLLBACK PREPARED', 'b: = APPLIED | APPLIED | APPLIED or ERROR 40001', 'b: COMMIT',
	'b: pay/order = APPLIED replayed | APPLIED replayed | APPLIED replayed or APPLIED');
play('prepared, no order, committed', $pushed,
	'a: BEGIN', 'a: push = APPLIED', 'a: PREPARE', 'b: BEGIN', 'b: push = locks', 'c: COMMIT PREPARED',
	'b: = APPLIED replayed | ERROR 40001', 'b: COMMIT');
play('prepared, no order, rolled back', $pushed,
	'a: BEGIN', 'a: push = APPLIED', 'a: PREPARE', 'b: BEGIN', 'b: push = locks', 'c: ROLLBACK PREPARED',
	'b: = APPLIED | APPLIED | APPLIED or ERROR 40001', 'b: COMMIT',
	'b: push = APPLIED replayed | APPLIED replayed | APPLIED replayed or APPLIED');
play('prepared, and the application waits', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'a: PREPARE', 'b: BEGIN', 'b: cancel = locks', 'c: COMMIT PREPARED',
	'b: =  | ERROR 40001', 'b: COMMIT');
play('prepared, and other notices of the order have to wait', $paid,
	'a: BEGIN', 'a: pay = APPLIED', 'a: PREPARE',
	'b: BEGIN', 'b: impatient', 'b: pay/other = BUSY', 'b: ship = BUSY', 'b: COMMIT', 'c: COMMIT PREPARED');

leave();
$node->stop;
done_testing();
