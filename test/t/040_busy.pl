# An order that another transaction holds: the call answers BUSY when
# notify_claim.busy_timeout has passed, not before and not at the mercy of the
# holder, and leaves nothing; the retry succeeds and is no replay.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use Test::More;

# No vacuum may take a lock for a moment: the shortest timeout is 1 ms.
my $node = start_node('busy', "max_prepared_transactions = 10\nautovacuum = off\n");

create_orders($node);
$node->safe_psql('postgres', q{INSERT INTO biz_order VALUES ('free', 'PENDING_PAY')});

my $holder = NotifyClaim::Session->new($node);
my $other = NotifyClaim::Session->new($node);
my $caller = NotifyClaim::Session->new($node);
my $n = 0;

sub new_order
{
	my ($status) = @_;

	$n++;
	$node->safe_psql('postgres', sprintf("INSERT INTO biz_order VALUES ('%d', '%s')",
			$n, $status // 'PENDING_PAY'));
	return $n;
}

# Calls, and says whether the answer took at least the time given.  How long it
# took beyond that depends on the machine; that it came at all, while the holder
# sits there, is what counts.  The call goes by the monotonic clock, which may be
# the processor's counter, and the test by the time of day: the two may differ by
# some hundredths of a percent, for which 1 % is left.
sub timed
{
	my ($expression, $ms) = @_;

	return $caller->query(qq{
		SELECT clock_timestamp() AS called \\gset
		SELECT h.*, clock_timestamp() - :'called' >= 0.99 * interval '$ms ms' AS waited FROM $expression AS h});
}

# The timeout.

my $order = new_order();
my $busy = 'FAIL|BUSY|NULL|f|NULL|500|FAIL|t';
$holder->query("BEGIN; SELECT 1 FROM biz_order WHERE order_no = '$order' FOR UPDATE");

is(timed(call('T1', 'PAY', $order), 150), $busy, 'BUSY, after 150 ms');
is($caller->query('SHOW notify_claim.busy_timeout'), '150ms', 'which is the default');
$caller->query(q{SET notify_claim.busy_timeout = '1s'});
is(timed(call('T1', 'PAY', $order), 1000), $busy, 'BUSY, after another timeout');
$caller->query(q{SET notify_claim.busy_timeout = '1ms'});
is(timed(call('T1', 'PAY', $order), 1), $busy, 'BUSY, after the shortest one');
is( $caller->query(q{SET lock_timeout = '1s'; BEGIN; SELECT outcome FROM }
		  . call('T1', 'PAY', $order)
		  . '; SHOW lock_timeout; COMMIT; SHOW lock_timeout; RESET lock_timeout'),
	"BUSY\n1s\n1s", 'the caller\'s lock_timeout is its own again');
is($other->notify('T0', 'PAY', 'free'), 'APPLIED', 'nobody holds another order');
is(counts($node), '1 1 1', 'BUSY leaves nothing');

$holder->query('ROLLBACK');
is($caller->notify('T1', 'PAY', $order), 'APPLIED', 'the retry is processed, and is no replay');
is($caller->notify('T1', 'PAY', $order), 'APPLIED replayed', 'the next one is');
promises_kept($node, 'retry', '2 2 2');

# BUSY in the middle of a transaction: what was done before is kept, and the
# retry may come in the same transaction.

my $first = new_order();
$order = new_order();
$holder->query("BEGIN; SELECT 1 FROM biz_order WHERE order_no = '$order' FOR UPDATE");
$caller->query('BEGIN');
is($caller->notify('T2', 'PAY', $first), 'APPLIED', 'in a transaction: first one order');
is($caller->notify('T3', 'PAY', $order), 'BUSY', 'in a transaction: then one that is held');
$holder->query('COMMIT');
is($caller->notify('T3', 'PAY', $order), 'APPLIED', 'in a transaction: the retry');
is($caller->query('COMMIT'), '', 'in a transaction: COMMIT');
promises_kept($node, 'in a transaction', '4 4 4');

# Whoever holds the order, and however.

$holder->query(q{SET notify_claim.busy_timeout = '60s'});
foreach my $how (
	[ 'FOR UPDATE', "SELECT 1 FROM biz_order WHERE order_no = '%s' FOR UPDATE" ],
	[ 'FOR NO KEY UPDATE', "SELECT 1 FROM biz_order WHERE order_no = '%s' FOR NO KEY UPDATE" ],
	[ 'FOR SHARE', "SELECT 1 FROM biz_order WHERE order_no = '%s' FOR SHARE" ],
	[ 'UPDATE', "UPDATE biz_order SET status = status WHERE order_no = '%s'" ],
	[ 'UPDATE in a subtransaction',
		"SAVEPOINT a; UPDATE biz_order SET status = status WHERE order_no = '%s'; RELEASE a" ],
	[ 'DELETE', "DELETE FROM biz_order WHERE order_no = '%s'" ],
	[ 'a notification', 'SELECT outcome FROM ' . call('T-held-%s', 'PAY', '%1$s') ],
	[ 'an early notification', 'SELECT outcome FROM ' . call('T-held-%s', 'SHIP', '%1$s') ])
{
	my ($name, $sql) = @$how;

	$order = new_order();
	$holder->query('BEGIN; ' . sprintf($sql, $order));
	foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		$caller->query("BEGIN ISOLATION LEVEL $level");
		is($caller->notify("T-$order", 'PAY', $order), 'BUSY', "held by $name: BUSY at $level");
		is($caller->query('COMMIT'), '', "held by $name: COMMIT");
	}
	$holder->query('ROLLBACK');
	is($caller->notify("T-$order", 'PAY', $order), 'APPLIED', "held by $name: the retry");
}

# Several at once.
$order = new_order();
$holder->query("BEGIN; SELECT 1 FROM biz_order WHERE order_no = '$order' FOR SHARE");
$other->query("BEGIN; SELECT 1 FROM biz_order WHERE order_no = '$order' FOR SHARE");
is($caller->notify("T-$order", 'PAY', $order), 'BUSY', 'held by two');
$other->query('ROLLBACK');
is($caller->notify("T-$order", 'PAY', $order), 'BUSY', 'held by one of the two');
$holder->query('ROLLBACK');
is($caller->notify("T-$order", 'PAY', $order), 'APPLIED', 'held by none');

# A prepared transaction, which nobody knows when it ends.
$order = new_order();
$holder->query("BEGIN; UPDATE biz_order SET status = 'CANCELLED' WHERE order_no = '$order'");
$holder->query(q{PREPARE TRANSACTION 'held'});
is($caller->notify("T-$order", 'PAY', $order), 'BUSY', 'held by a prepared transaction');
$holder->query(q{COMMIT PREPARED 'held'});
is($caller->notify("T-$order", 'PAY', $order), 'SKIPPED', 'what that one committed counts');

# A foreign key's lock is none, except where the status is in a unique index.
$order = new_order();
$holder->query("BEGIN; SELECT 1 FROM biz_order WHERE order_no = '$order' FOR KEY SHARE");
is($caller->notify("T-$order", 'PAY', $order), 'APPLIED', 'FOR KEY SHARE holds nobody up');
$holder->query('ROLLBACK');
$order = new_order();
$node->safe_psql('postgres', 'CREATE UNIQUE INDEX biz_order_status ON biz_order (status, order_no)');
$holder->query("BEGIN; SELECT 1 FROM biz_order WHERE order_no = '$order' FOR KEY SHARE");
is($caller->notify("T-$order", 'PAY', $order), 'BUSY', 'but where the status is a key it does');
$holder->query('ROLLBACK');
is($caller->notify("T-$order", 'PAY', $order), 'APPLIED', 'and then no longer');
$node->safe_psql('postgres', 'DROP INDEX biz_order_status');

# Who need not wait for the order does not: a repeat, a conflict, an order that
# does not exist, an event that is not declared.

$order = new_order();
is($caller->notify("T-$order", 'PAY', $order), 'APPLIED', 'an order that is paid');
$holder->query("BEGIN; SELECT 1 FROM biz_order WHERE order_no = '$order' FOR UPDATE");
is($caller->notify("T-$order", 'PAY', $order), 'APPLIED replayed', 'is held: a repeat is answered');
is($caller->notify("T-$order", 'PAY', $order, 'ff'), 'CONFLICT', 'is held: so is a conflict');
is($caller->notify("T-$order", 'PAY', 'free'), 'CONFLICT', 'is held: also with another order number');
is($caller->notify('T-none', 'PAY', 'none'), 'NO_ORDER', 'no such order');
is($caller->notify('T-none', 'none', $order), 'NO_RULE', 'no such event');
is($caller->notify('T-other', 'PAY', $order), 'BUSY', 'is held: another notification has to wait');
$holder->query('ROLLBACK');
is($caller->notify('T-other', 'PAY', $order), 'SKIPPED', 'until it is not');

# An event without an order waits for the claim, and no longer either.

$holder->query('BEGIN; SELECT outcome FROM ' . call('T-push', 'push', 'x'));
$caller->query(q{SET notify_claim.busy_timeout = '1s'});
is($caller->query(qq{
		SELECT clock_timestamp() AS called \\gset
		SELECT outcome FROM } . call('T-push', 'push', 'x') . qq{;
		SELECT clock_timestamp() - :'called' >= '1 s' AS waited;
		SHOW lock_timeout}),
	"ERROR 55P03\nt\n0", 'an event without an order: 55P03, after the timeout');
$holder->query('ROLLBACK');
is($caller->notify('T-push', 'push', 'x'), 'APPLIED', 'and then it is processed');

$_->quit foreach ($holder, $other, $caller);
promises_kept($node, 'in the end');

$node->stop;
done_testing();
