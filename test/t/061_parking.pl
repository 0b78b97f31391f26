# The interleavings of parking: an early notification comes in while another
# transaction makes it legal, delivers it too, or decides about it.  Whoever
# parks locks the order's row, as whoever moves it does, so neither can miss the
# other, in whichever order they come and however old their snapshots are.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Interleaving;
use NotifyClaim;
use Test::More;

my $node = start_node('parking', "max_prepared_transactions = 10\n");

create_orders($node);
create_parking($node);
stage($node);
set_stage(
	notices => {
		'sign' => [ 'T6-%d', 'SIGN', 'A-%d', '01' ],
		'refund' => [ 'T7-%d', 'REFUND', 'A-%d', '01' ],
		'ship/other' => [ 'T8-%d', 'SHIP', 'A-%d', '01' ],
		'ship/body' => [ 'T3-%d', 'SHIP', 'A-%d', '02' ],
		'ship/order' => [ 'T3-%d', 'SHIP', 'B-%d', '01' ],
		'credit' => [ 'T7-%d', 'CREDIT', 'A-%d', '01' ],
		'shipB' => [ 'T9-%d', 'SHIP', 'B-%d', '01' ] },
	statements => {
		'snapshot' => q{DO 'BEGIN END'},
		'share' => q{DO 'BEGIN PERFORM FROM biz_order WHERE order_no = ''A-%d'' FOR KEY SHARE; END'},

		# Ways to move the order to PAID.
		'paid' => q{UPDATE biz_order SET status = 'PAID' WHERE order_no = 'A-%d' AND status = 'PENDING_PAY'},
		'bulk' => q{UPDATE biz_order SET status = 'PAID' WHERE order_no LIKE '_-%d' AND status = 'PENDING_PAY'},
		'upsert' => q{INSERT INTO biz_order AS o VALUES ('A-%d', 'PAID')
			ON CONFLICT (order_no) DO UPDATE SET status = 'PAID' WHERE o.status = 'PENDING_PAY'},
		'replace' => q{DO $$ BEGIN
			DELETE FROM biz_order WHERE order_no = 'A-%d' AND status = 'PENDING_PAY';
			IF found THEN
				INSERT INTO biz_order VALUES ('A-%d', 'PAID');
			END IF;
		END $$},
		'renumber' => q{DO $$ BEGIN
			DELETE FROM biz_order WHERE order_no = 'A-%d' AND status = 'PENDING_PAY';
			IF found THEN
				UPDATE biz_order SET status = 'PAID' WHERE order_no = 'B-%d';
				UPDATE biz_order SET order_no = 'A-%d' WHERE order_no = 'B-%d';
			END IF;
		END $$},
		'returned' => q{UPDATE biz_order SET status = 'RETURNED' WHERE order_no = 'A-%d' AND status = 'SIGNED'},
		'replica' => q{SET LOCAL session_replication_role = replica},

		# The first claim of each play has the number 1.
		'unpark' => q{SELECT notify_unpark('A-%d')},
		'unpark_all' => q{SELECT notify_unpark_all()},
		'close' => q{SELECT notify_parked_close(1, 'gave up')},
		'reopen' => q{SELECT notify_reopen(1, 'after all', '\x01')},

		'poison' => q{INSERT INTO poison VALUES ('A-%d', '23514')},
		'cure' => q{DELETE FROM poison} },
	beginning => q{
		DELETE FROM biz_order;
		DELETE FROM notify_claim;
		DELETE FROM notify_body;
		DELETE FROM notify_outbox;
		DELETE FROM notify_review;
		DELETE FROM notify_decision;
		DELETE FROM moved;
		DELETE FROM poison;
		SELECT setval('notify_claim_id_seq', 1, false)},

	# Orders that have moved; claims, with failed attempts; messages; what was decided.
	ending => q{
		SELECT concat_ws('; ',
			(SELECT string_agg(left(order_no, 1) || ' ' || status, ', ' ORDER BY order_no)
				FROM biz_order WHERE order_no LIKE 'A%' OR status <> 'PENDING_PAY'),
			(SELECT string_agg(split_part(biz_key, ':', 2) || ' ' || outcome
					|| CASE WHEN attempts > 0 THEN ' ' || attempts ELSE '' END, ', ' ORDER BY biz_key)
				FROM notify_claim AS c LEFT JOIN notify_body AS b ON b.claim = c.id),
			(SELECT string_agg(type, ' ' ORDER BY aggregateid, seq) FROM notify_outbox),
			(SELECT string_agg(verb, ' ' ORDER BY id) FROM notify_decision));
		SELECT * FROM astray});

my $notice = 'NOTICE:  00000';
my $shipped = 'A SHIPPED; PAY APPLIED, SHIP APPLIED; ORDER_PAID ORDER_SHIPPED';
my $signed = 'A SIGNED; PAY APPLIED, SHIP APPLIED, SIGN APPLIED; ORDER_PAID ORDER_SHIPPED ORDER_SIGNED';
my $pushed = 'A SHIPPED; SHIP APPLIED; ORDER_SHIPPED';
my $pushed_signed = 'A SIGNED; SHIP APPLIED, SIGN APPLIED; ORDER_SHIPPED ORDER_SIGNED';
my $parked = 'A PENDING_PAY; SHIP PARKED';

# Park against enable, whoever it is that enables.

my %mover = (
	'pay' => {
		waits => 'polls', alone => 'APPLIED', releases => 'APPLIED', again => 'APPLIED replayed',
		shipped => $shipped, signed => $signed },
	'paid' => { shipped => $pushed },
	'bulk' => { shipped => $pushed =~ s/SHIPPED;/SHIPPED, B PAID;/r },
	'upsert' => { shipped => $pushed },
	'replace' => { shipped => $pushed },
	'renumber' => { shipped => $pushed });

foreach my $move (sort keys %mover)
{
	my %m = (
		waits => 'locks', alone => '', releases => $notice, again => '',
		signed => $mover{$move}{shipped}
		  =~ s/A SHIPPED/A SIGNED/r =~ s/SHIP APPLIED/SHIP APPLIED, SIGN APPLIED/r
		  =~ s/ORDER_SHIPPED/ORDER_SHIPPED ORDER_SIGNED/r,
		%{ $mover{$move} });
	my $released = "$m{releases} | $m{releases} | ERROR 40001";
	my $again = "$m{again} | $m{again} | $m{releases}";

	play("$move: parked after the snapshot", $m{shipped},
		'b: BEGIN', 'b: snapshot', 'a: ship = PARKED', "b: $move = $released", 'b: COMMIT',
		"c: $move = $again", 'c: ship = APPLIED replayed');
	play("$move waits, the notice commits", $m{shipped},
		'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', "b: $move = $m{waits}", 'a: COMMIT',
		"b: = $released", 'b: COMMIT', "c: $move = $again", 'c: ship = APPLIED replayed');
	play("$move waits, the notice rolls back", $m{shipped},
		'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', "b: $move = $m{waits}", 'a: ROLLBACK',
		"b: = $m{alone}", 'b: COMMIT', 'c: ship = APPLIED');
	play("$move waits, the notice rolls back to a savepoint and comes again", $m{shipped},
		'a: BEGIN', 'a: SAVEPOINT a', 'a: ship = PARKED', 'b: BEGIN', "b: $move = $m{waits}",
		'a: ROLLBACK TO a', "b: = $m{alone}", 'a: ship = polls', 'b: COMMIT',
		'a: = APPLIED | ERROR 40001', 'a: COMMIT', 'c: ship = APPLIED replayed | APPLIED');
	play("$move waits, the notice releases its savepoint", $m{shipped},
		'a: BEGIN', 'a: SAVEPOINT a', 'a: ship = PARKED', 'b: BEGIN', "b: $move = $m{waits}",
		'a: RELEASE a', 'a: COMMIT', "b: = $released", 'b: COMMIT', "c: $move = $again",
		'c: ship = APPLIED replayed');
	play("$move first and commits", $m{shipped},
		'b: BEGIN', "b: $move = $m{alone}", 'a: BEGIN', 'a: ship = polls', 'b: COMMIT',
		'a: = APPLIED | ERROR 40001', 'a: COMMIT', 'c: ship = APPLIED replayed | APPLIED');
	play("$move first and rolls back", $m{shipped},
		'b: BEGIN', "b: $move = $m{alone}", 'a: BEGIN', 'a: ship = polls', 'b: ROLLBACK',
		'a: = PARKED', 'a: COMMIT', "c: $move = $m{releases}", 'c: ship = APPLIED replayed');
	play("$move first, rolls back to a savepoint and moves again", $m{shipped},
		'b: BEGIN', 'b: SAVEPOINT a', "b: $move = $m{alone}", 'a: BEGIN', 'a: ship = polls',
		'b: ROLLBACK TO a', 'a: = PARKED', "b: $move = $m{waits}", 'a: COMMIT',
		"b: = $released", 'b: COMMIT', "c: $move = $again", 'c: ship = APPLIED replayed');
	play("$move releases, rolls back to a savepoint, and more is parked", $m{signed},
		'c: ship = PARKED', 'b: BEGIN', 'b: SAVEPOINT a', "b: $move = $m{releases}",
		'a: BEGIN', 'a: sign = polls', 'b: ROLLBACK TO a', 'a: = PARKED', 'a: COMMIT',
		"b: $move = $released", 'b: COMMIT', "c: $move = $again",
		'c: ship = APPLIED replayed', 'c: sign = APPLIED replayed');
	play("$move releases and rolls back", $m{shipped},
		'c: ship = PARKED', 'b: BEGIN', "b: $move = $m{releases}", 'a: ship = PARKED replayed',
		'b: ROLLBACK', 'a: ship = PARKED replayed', "c: $move = $m{releases}",
		'c: ship = APPLIED replayed');
}


# The order becomes one where the event can never be legal.
my $stale = 'A CANCELLED; SHIP SKIPPED';
play('cancelled: parked after the snapshot', $stale,
	'b: BEGIN', 'b: snapshot', 'a: ship = PARKED', 'b: cancel =  |  | ERROR 40001', 'b: COMMIT',
	'c: cancel', 'c: ship = SKIPPED replayed');
play('cancelled while the notice is parked', $stale,
	'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', 'b: cancel = locks', 'a: COMMIT',
	'b: =  |  | ERROR 40001', 'b: COMMIT', 'c: cancel', 'c: ship = SKIPPED replayed');
play('cancelled, and the cancellation is rolled back to a savepoint', $pushed,
	'c: ship = PARKED', 'b: BEGIN', 'b: SAVEPOINT a', 'b: cancel', 'a: ship = PARKED replayed',
	'b: ROLLBACK TO a', "b: paid = $notice", 'b: COMMIT', 'a: ship = APPLIED replayed');

# Others hold the order meanwhile.
play('the holder moves it', $pushed,
	'a: BEGIN', 'a: hold', 'b: BEGIN', 'b: ship = polls', 'a: paid', 'a: COMMIT',
	'b: = APPLIED | ERROR 40001', 'b: COMMIT', 'c: ship = APPLIED replayed | APPLIED');
play('a foreign key holds it', $pushed,
	'c: BEGIN', 'c: share', 'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', 'b: paid = locks',
	'c: COMMIT', 'a: COMMIT', "b: = $notice | $notice | ERROR 40001", 'b: COMMIT',
	"c: paid =  |  | $notice");
play('the notice comes too late to be parked', $parked,
	'b: BEGIN', 'b: pay = APPLIED', 'a: BEGIN', 'a: impatient', 'a: ship = BUSY', 'a: COMMIT',
	'b: ROLLBACK', 'a: ship = PARKED');
play('the one who parks makes it legal, and only then ends', $shipped,
	'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', 'b: pay = polls', 'a: pay = APPLIED',
	'a: ship = APPLIED replayed', 'a: COMMIT', 'b: = APPLIED replayed | ERROR 40001', 'b: COMMIT');

# A transaction that is prepared holds the order too.
play('the one who parks is prepared', $shipped,
	'a: BEGIN', 'a: ship = PARKED', 'a: PREPARE', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT PREPARED',
	'b: = APPLIED | APPLIED | ERROR 40001', 'b: COMMIT',
	'c: pay = APPLIED replayed | APPLIED replayed | APPLIED', 'c: ship = APPLIED replayed');
play('the one who enables is prepared', $signed,
	'c: ship = PARKED', 'b: BEGIN', 'b: pay = APPLIED', 'b: PREPARE', 'a: BEGIN', 'a: sign = polls',
	'b: COMMIT PREPARED', 'a: = APPLIED | ERROR 40001', 'a: COMMIT', 'c: sign = APPLIED replayed | APPLIED');
play('the one who enables is prepared and rolls back', $parked =~ s/$/, SIGN PARKED/r,
	'c: ship = PARKED', 'b: BEGIN', 'b: pay = APPLIED', 'b: PREPARE', 'a: BEGIN', 'a: sign = polls',
	'b: ROLLBACK PREPARED', 'a: = PARKED', 'a: COMMIT', 'c: ship = PARKED replayed');

# A chain, whose links were parked at different times.
my $returned = 'A CREDITED; PAY APPLIED, SHIP APPLIED, SIGN APPLIED, CREDIT APPLIED;'
  . ' ORDER_PAID ORDER_SHIPPED ORDER_SIGNED ORDER_CREDITED';
play('a chain, parked before and after the snapshot', $signed,
	'c: sign = PARKED', 'b: BEGIN', 'b: snapshot', 'a: ship = PARKED',
	'b: pay = APPLIED | APPLIED | ERROR 40001', 'b: COMMIT',
	'c: pay = APPLIED replayed | APPLIED replayed | APPLIED', 'c: sign = APPLIED replayed');
play('a chain with a link that changes nothing',
	'A SHIPPED; PAY APPLIED, SHIP APPLIED, REFUND APPLIED; ORDER_PAID REFUND_RECORDED ORDER_SHIPPED',
	'c: refund = PARKED', 'b: BEGIN', 'b: snapshot', 'a: ship = PARKED',
	'b: pay = APPLIED | APPLIED | ERROR 40001', 'b: COMMIT',
	'c: pay = APPLIED replayed | APPLIED replayed | APPLIED', 'c: refund = APPLIED replayed');
play('a chain that goes on after the application has done its part', $returned,
	'c: credit = PARKED', 'c: sign = PARKED', 'b: BEGIN', 'b: snapshot', 'c: ship = PARKED',
	'b: pay = APPLIED | APPLIED | ERROR 40001', 'b: COMMIT', 'c: pay = APPLIED replayed | APPLIED replayed | APPLIED',
	"c: returned = $notice", 'c: credit = APPLIED replayed');
play('a chain, the transaction has a link itself', $signed,
	'b: BEGIN', 'b: sign = PARKED', 'b: pay = APPLIED', 'a: BEGIN', 'a: ship = polls', 'b: COMMIT',
	'a: = APPLIED | ERROR 40001', 'a: COMMIT', 'c: ship = APPLIED replayed | APPLIED');
play('a chain of the transaction itself, and it rolls back to between', $signed,
	'b: BEGIN', 'b: sign = PARKED', 'b: SAVEPOINT a', 'b: ship = PARKED', 'b: pay = APPLIED',
	'b: ROLLBACK TO a', 'a: BEGIN', 'a: ship = polls', 'b: pay = APPLIED', 'b: sign = PARKED replayed',
	'b: COMMIT', 'a: = APPLIED | ERROR 40001', 'a: COMMIT', 'c: ship = APPLIED replayed | APPLIED');

# Park against park.

foreach my $second ('sign', 'ship/other')
{
	my $first = 'ship';
	my $end = $second eq 'sign' ? $signed :
	  'A SHIPPED; PAY APPLIED, SHIP APPLIED, SHIP SKIPPED; ORDER_PAID ORDER_SHIPPED';
	my $then = $second eq 'sign' ? 'APPLIED' : 'SKIPPED';

	play("ship and $second, both commit", $end,
		'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', "b: $second = polls", 'a: COMMIT',
		'b: = PARKED', 'b: COMMIT', 'c: pay = APPLIED', 'c: ship = APPLIED replayed',
		"c: $second = $then replayed");
	play("ship and $second, the first rolls back", $parked =~ s/SHIP/\U$second/r =~ s{/.*?(?= )}{}r,
		'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', "b: $second = polls", 'a: ROLLBACK',
		'b: = PARKED', 'b: COMMIT', "c: $second = PARKED replayed");
	play("ship and $second, the first rolls back to a savepoint and comes again", $end,
		'a: BEGIN', 'a: SAVEPOINT a', 'a: ship = PARKED', 'b: BEGIN', "b: $second = polls",
		'a: ROLLBACK TO a', 'b: = PARKED', 'a: ship = polls', 'b: ROLLBACK', 'a: = PARKED', 'a: COMMIT',
		"b: $second = PARKED", 'c: pay = APPLIED', 'c: ship = APPLIED replayed',
		"c: $second = $then replayed");
	play("ship and $second, a third enables both", $end,
		'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', "b: $second = polls", 'c: BEGIN', 'c: snapshot',
		'a: COMMIT', 'b: = PARKED', 'b: COMMIT', 'c: pay = APPLIED | APPLIED | ERROR 40001', 'c: COMMIT',
		'a: pay = APPLIED replayed | APPLIED replayed | APPLIED', 'a: ship = APPLIED replayed',
		"a: $second = $then replayed");
}
play('two orders, crossed', 'A PENDING_PAY; SHIP PARKED, SIGN PARKED, SHIP PARKED',
	'a: BEGIN', 'b: BEGIN', 'a: ship = PARKED', 'b: shipB = PARKED', 'a: shipB = polls',
	'b: impatient', 'b: sign = BUSY', 'b: COMMIT', 'a: = PARKED replayed | ERROR 40001', 'a: COMMIT',
	'a: ship = PARKED replayed | PARKED', 'a: sign = PARKED');

# Park against its duplicate.

play('a duplicate, the first commits', $parked,
	'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', 'b: ship = polls', 'a: COMMIT',
	'b: = PARKED replayed | ERROR 40001', 'b: COMMIT', 'c: ship = PARKED replayed');
play('a duplicate, the first rolls back', $parked,
	'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', 'b: ship = polls', 'a: ROLLBACK',
	'b: = PARKED', 'b: COMMIT', 'c: ship = PARKED replayed');
play('a duplicate, both roll back', $shipped,
	'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', 'b: ship = polls', 'a: ROLLBACK',
	'b: = PARKED', 'b: ROLLBACK', 'c: pay = APPLIED', 'c: ship = APPLIED');
play('a duplicate, the first rolls back to a savepoint and goes on', $shipped,
	'a: BEGIN', 'a: SAVEPOINT a', 'a: ship = PARKED', 'b: BEGIN', 'b: ship = polls', 'a: ROLLBACK TO a',
	'b: = PARKED', 'a: pay = polls', 'b: COMMIT', 'a: = APPLIED | APPLIED | ERROR 40001', 'a: COMMIT',
	'c: pay = APPLIED replayed | APPLIED replayed | APPLIED', 'c: ship = APPLIED replayed');
play('a duplicate, the first rolls back to a savepoint and comes again', $parked,
	'a: BEGIN', 'a: SAVEPOINT a', 'a: ship = PARKED', 'b: BEGIN', 'b: ship = polls', 'a: ROLLBACK TO a',
	'b: = PARKED', 'a: ship = polls', 'b: COMMIT', 'a: = PARKED replayed | ERROR 40001', 'a: COMMIT');
foreach my $other ('ship/body', 'ship/order')
{
	# What is waited for at the other order is a third transaction.
	my @hold = $other eq 'ship/order' ? ('c: BEGIN', 'c: holdB') : ();
	my @free = @hold ? ('c: COMMIT') : ();

	play("$other, the first commits", $parked,
		@hold, 'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', "b: $other = polls", 'a: COMMIT', @free,
		'b: = CONFLICT | ERROR 40001', 'b: ROLLBACK', 'c: ship = PARKED replayed');
	play("$other, the first rolls back", $parked,
		@hold, 'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', "b: $other = polls", 'a: ROLLBACK', @free,
		'b: = PARKED', 'b: COMMIT', "c: $other = PARKED replayed");
}
play('a duplicate and the enabling event', $shipped,
	'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', 'b: ship = polls', 'c: BEGIN', 'c: pay = polls',
	'a: COMMIT', 'c: = APPLIED | APPLIED | ERROR 40001', 'c: COMMIT',
	'b: = PARKED replayed or APPLIED replayed | ERROR 40001', 'b: COMMIT', 'c: pay = APPLIED replayed | APPLIED replayed | APPLIED',
	'c: ship = APPLIED replayed');
play('a duplicate while it is released', $shipped,
	'c: ship = PARKED', 'a: BEGIN', 'a: pay = APPLIED', 'b: BEGIN', 'b: ship = PARKED replayed',
	'a: COMMIT', 'b: ship = APPLIED replayed | PARKED replayed', 'b: COMMIT', 'c: ship = APPLIED replayed');

# Releasing by hand, against enabling.  What no trigger sees is done as a replica.

play('unpark waits for the one that enables', $shipped,
	'c: ship = PARKED', 'b: BEGIN', 'b: pay = APPLIED', 'a: BEGIN', 'a: unpark = polls', 'b: COMMIT',
	'a: = 0 | ERROR 40001', 'a: COMMIT');
play('unpark waits for the one that enables, which rolls back', $parked,
	'c: ship = PARKED', 'b: BEGIN', 'b: pay = APPLIED', 'a: BEGIN', 'a: unpark = polls', 'b: ROLLBACK',
	'a: = 0', 'a: COMMIT');
play('unpark waits for one that no trigger sees', $pushed,
	'c: ship = PARKED', 'b: BEGIN', 'b: replica', 'b: paid', 'a: BEGIN', 'a: unpark = polls', 'b: COMMIT',
	'a: = 1 | ERROR 40001', 'a: COMMIT', 'c: unpark = 0 | 1');
play('unpark_all passes over the one that enables', $shipped,
	'c: ship = PARKED', 'b: BEGIN', 'b: pay = APPLIED', 'a: BEGIN', 'a: unpark_all = 0', 'b: COMMIT',
	'a: COMMIT', 'c: unpark_all = 0');
play('unpark_all passes over one that no trigger sees', $pushed,
	'c: ship = PARKED', 'b: BEGIN', 'b: replica', 'b: paid', 'a: BEGIN', 'a: unpark_all = 0', 'b: COMMIT',
	'a: unpark_all = 1 | 0 or ERROR 40001', 'a: COMMIT', 'c: unpark_all = 0 | 1');
play('unpark finds nothing, and then it is enabled', $shipped,
	'c: ship = PARKED', 'a: BEGIN', 'a: unpark = 0', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = APPLIED', 'b: COMMIT', 'c: ship = APPLIED replayed');
play('unpark_all finds nothing, and is in nobody\'s way', $shipped,
	'c: ship = PARKED', 'a: BEGIN', 'a: unpark_all = 0', 'b: BEGIN', 'b: pay = APPLIED', 'b: COMMIT',
	'a: unpark_all = 0', 'a: COMMIT', 'c: ship = APPLIED replayed');
foreach my $verb ('unpark', 'unpark_all')
{
	play("$verb, and the next event comes", $pushed_signed,
		'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
		'a: BEGIN', "a: $verb = 1", 'b: BEGIN', 'b: sign = polls', 'a: COMMIT',
		'b: = APPLIED | ERROR 40001', 'b: COMMIT', 'c: sign = APPLIED replayed | APPLIED');
	play("$verb rolls back, and the next event is parked", $pushed_signed,
		'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
		'a: BEGIN', 'a: SAVEPOINT a', "a: $verb = 1", 'b: BEGIN', 'b: sign = polls', 'a: ROLLBACK TO a',
		'b: = PARKED', 'b: COMMIT', "a: $verb = 2 | 2 | ERROR 40001", 'a: COMMIT', "c: $verb = 0 | 0 | 2");
	play("$verb and a duplicate", $pushed,
		'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
		'a: BEGIN', "a: $verb = 1", 'b: BEGIN', 'b: ship = PARKED replayed', 'a: COMMIT',
		'b: ship = APPLIED replayed | PARKED replayed', 'b: COMMIT', 'c: ship = APPLIED replayed');
	play("$verb while another parks", $parked,
		'a: BEGIN', 'a: ship = PARKED', 'b: BEGIN', "b: $verb = 0", 'a: COMMIT', "b: $verb = 0 | 0 | 0 or ERROR 40001",
		'b: COMMIT', 'c: ship = PARKED replayed');
	play("$verb and unpark_all, which passes over it", $pushed,
		'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
		'a: BEGIN', "a: $verb = 1", 'b: BEGIN', 'b: unpark_all = 0', 'a: COMMIT', 'b: unpark_all = 0 | 0',
		'b: COMMIT');
	play("$verb and unpark, which waits", $pushed,
		'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
		'a: BEGIN', "a: $verb = 1", 'b: BEGIN', 'b: unpark = polls', 'a: COMMIT',
		'b: = 0 | ERROR 40001', 'b: COMMIT');
	play("$verb rolls back, and unpark waits", $pushed,
		'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
		'a: BEGIN', "a: $verb = 1", 'b: BEGIN', 'b: unpark = polls', 'a: ROLLBACK', 'b: = 1', 'b: COMMIT');
}

# Giving it up, against enabling, releasing, a duplicate and itself.

my $closed = 'A PAID; PAY APPLIED, SHIP SKIPPED; ORDER_PAID; CLOSE';
play('close, then it is enabled', $closed,
	'c: ship = PARKED', 'a: BEGIN', 'a: close', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = APPLIED', 'b: COMMIT', 'c: ship = SKIPPED replayed');
play('close rolls back, and it is enabled', $shipped,
	'c: ship = PARKED', 'a: BEGIN', 'a: close', 'b: BEGIN', 'b: pay = polls', 'a: ROLLBACK',
	'b: = APPLIED', 'b: COMMIT', 'c: ship = APPLIED replayed');
play('close rolls back to a savepoint, and it is enabled', $shipped,
	'c: ship = PARKED', 'a: BEGIN', 'a: SAVEPOINT a', 'a: close', 'b: BEGIN', 'b: pay = polls',
	'a: ROLLBACK TO a', 'b: = APPLIED', 'b: COMMIT', 'a: close = ERROR 55000 | ERROR 55000', 'a: COMMIT');
play('close waits for the one that enables', $shipped,
	'c: ship = PARKED', 'b: BEGIN', 'b: pay = APPLIED', 'a: BEGIN', 'a: close = polls', 'b: COMMIT',
	'a: = ERROR 40001', 'a: COMMIT', 'a: close = ERROR 55000');
play('close waits for the one that enables, which rolls back', $parked =~ s/PARKED/SKIPPED; CLOSE/r,
	'c: ship = PARKED', 'b: BEGIN', 'b: pay = APPLIED', 'a: BEGIN', 'a: close = polls', 'b: ROLLBACK',
	'a: =', 'a: COMMIT', 'c: ship = SKIPPED replayed');
play('close, parked after the snapshot', $parked =~ s/PARKED/SKIPPED; CLOSE/r,
	'a: BEGIN', 'a: snapshot', 'b: ship = PARKED', 'a: close', 'a: COMMIT', 'b: ship = SKIPPED replayed');
play('close twice', $parked =~ s/PARKED/SKIPPED; CLOSE/r,
	'c: ship = PARKED', 'a: BEGIN', 'a: close', 'b: BEGIN', 'b: close = polls', 'a: COMMIT',
	'b: = ERROR 40001', 'b: COMMIT', 'b: close = ERROR 55000');
play('close twice, the first rolls back', $parked =~ s/PARKED/SKIPPED; CLOSE/r,
	'c: ship = PARKED', 'a: BEGIN', 'a: close', 'b: BEGIN', 'b: close = polls', 'a: ROLLBACK',
	'b: =', 'b: COMMIT', 'c: ship = SKIPPED replayed');
play('close and unpark', 'A PAID; SHIP SKIPPED; CLOSE',
	'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
	'a: BEGIN', 'a: close', 'b: BEGIN', 'b: unpark = polls', 'a: COMMIT', 'b: = 0', 'b: COMMIT');
play('close and unpark_all', 'A PAID; SHIP SKIPPED; CLOSE',
	'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
	'a: BEGIN', 'a: close', 'b: BEGIN', 'b: unpark_all = 0', 'a: COMMIT', 'b: unpark_all = 0', 'b: COMMIT');
play('unpark and close', $pushed,
	'c: ship = PARKED', 'c: BEGIN', 'c: replica', 'c: paid', 'c: COMMIT',
	'a: BEGIN', 'a: unpark = 1', 'b: BEGIN', 'b: close = polls', 'a: COMMIT', 'b: = ERROR 40001', 'b: COMMIT');
play('close and a duplicate', $parked =~ s/PARKED/SKIPPED; CLOSE/r,
	'c: ship = PARKED', 'a: BEGIN', 'a: close', 'b: BEGIN', 'b: ship = PARKED replayed', 'a: COMMIT',
	'b: ship = SKIPPED replayed | PARKED replayed', 'b: COMMIT');
play('close while another is parked', 'A PENDING_PAY; SHIP SKIPPED, SIGN PARKED; CLOSE',
	'c: ship = PARKED', 'a: BEGIN', 'a: sign = PARKED', 'b: BEGIN', 'b: close = polls', 'a: COMMIT',
	'b: =', 'b: COMMIT');
play('close, and another is parked instead, after the snapshot',
	'A SHIPPED; PAY APPLIED, SHIP SKIPPED, SHIP APPLIED; ORDER_PAID ORDER_SHIPPED; CLOSE',
	'c: ship = PARKED', 'b: BEGIN', 'b: snapshot', 'a: close', 'a: ship/other = PARKED',
	'b: pay = APPLIED | APPLIED | ERROR 40001', 'b: COMMIT',
	'c: pay = APPLIED replayed | APPLIED replayed | APPLIED', 'c: ship/other = APPLIED replayed');

# Taking it up again.

my $reopened = $shipped . '; CLOSE REOPEN';
my @closed = ('c: ship = PARKED', 'c: close');
play('reopen, then it is enabled', $reopened,
	@closed, 'a: BEGIN', 'a: reopen = PARKED', 'b: BEGIN', 'b: pay = polls', 'a: COMMIT',
	'b: = APPLIED | APPLIED | ERROR 40001', 'b: COMMIT',
	'c: pay = APPLIED replayed | APPLIED replayed | APPLIED', 'c: ship = APPLIED replayed');
play('reopen rolls back, and it is enabled', $closed,
	@closed, 'a: BEGIN', 'a: reopen = PARKED', 'b: BEGIN', 'b: pay = polls', 'a: ROLLBACK',
	'b: = APPLIED', 'b: COMMIT', 'c: ship = SKIPPED replayed');
play('reopen rolls back to a savepoint and comes again', $reopened,
	@closed, 'a: BEGIN', 'a: SAVEPOINT a', 'a: reopen = PARKED', 'b: BEGIN', 'b: pay = polls',
	'a: ROLLBACK TO a', 'b: = APPLIED', 'a: reopen = polls', 'b: COMMIT', 'a: = APPLIED | ERROR 40001',
	'a: COMMIT', 'c: reopen = ERROR 55000 | APPLIED');
play('reopen waits for the one that enables', $reopened,
	@closed, 'b: BEGIN', 'b: pay = APPLIED', 'a: BEGIN', 'a: reopen = polls', 'b: COMMIT',
	'a: = APPLIED | ERROR 40001', 'a: COMMIT', 'c: reopen = ERROR 55000 | APPLIED');
play('reopen waits for the one that enables, which rolls back', $reopened,
	@closed, 'b: BEGIN', 'b: pay = APPLIED', 'a: BEGIN', 'a: reopen = polls', 'b: ROLLBACK',
	'a: = PARKED', 'a: COMMIT', 'c: pay = APPLIED');
play('reopen after the snapshot', $reopened,
	@closed, 'b: BEGIN', 'b: snapshot', 'a: reopen = PARKED', 'b: pay = APPLIED | APPLIED | ERROR 40001',
	'b: COMMIT', 'c: pay = APPLIED replayed | APPLIED replayed | APPLIED');
play('reopen releases what waits for it', $signed . '; CLOSE REOPEN',
	@closed, 'c: pay = APPLIED', 'a: BEGIN', 'a: snapshot', 'b: sign = PARKED',
	'a: reopen = APPLIED | APPLIED | ERROR 40001', 'a: COMMIT', 'c: reopen = ERROR 55000 | ERROR 55000 | APPLIED',
	'c: sign = APPLIED replayed');
play('reopen, and what waits for it comes', $signed . '; CLOSE REOPEN',
	@closed, 'c: pay = APPLIED', 'a: BEGIN', 'a: reopen = APPLIED', 'b: BEGIN', 'b: sign = polls',
	'a: COMMIT', 'b: = APPLIED | ERROR 40001', 'b: COMMIT', 'c: sign = APPLIED replayed | APPLIED');
play('reopen twice', $parked . '; CLOSE REOPEN',
	@closed, 'a: BEGIN', 'a: reopen = PARKED', 'b: BEGIN', 'b: reopen = polls', 'a: COMMIT',
	'b: = ERROR 40001', 'b: COMMIT', 'b: reopen = ERROR 55000');
play('reopen and a duplicate', $parked . '; CLOSE REOPEN',
	@closed, 'a: BEGIN', 'a: reopen = PARKED', 'b: BEGIN', 'b: ship = SKIPPED replayed', 'a: COMMIT',
	'b: ship = PARKED replayed | SKIPPED replayed', 'b: COMMIT');
play('reopen and close', $parked =~ s/PARKED/SKIPPED; CLOSE REOPEN CLOSE/r,
	@closed, 'a: BEGIN', 'a: reopen = PARKED', 'b: close = ERROR 55000', 'a: COMMIT', 'b: close');
play('reopen while unpark_all runs', $parked . '; CLOSE REOPEN',
	@closed, 'a: BEGIN', 'a: reopen = PARKED', 'b: BEGIN', 'b: unpark_all = 0', 'b: unpark = 0',
	'a: COMMIT', 'b: COMMIT', 'b: unpark = 0');

# A release that fails.

play('poison, and the enabling transaction rolls back to a savepoint',
	'A PAID; PAY APPLIED, SHIP PARKED 1; ORDER_PAID',
	'c: ship = PARKED', 'c: poison', 'a: BEGIN', 'a: SAVEPOINT a', 'a: pay = APPLIED', 'a: ROLLBACK TO a',
	'a: ship = PARKED replayed', 'a: pay = APPLIED', 'a: COMMIT', 'b: ship = PARKED replayed');
play('poison, and nothing of it is left', $parked,
	'c: ship = PARKED', 'c: poison', 'a: BEGIN', 'a: paid', 'a: ROLLBACK', 'b: ship = PARKED replayed');
play('poison, parked after the snapshot',
	'A PAID; SHIP PARKED 1',
	'c: poison', 'a: BEGIN', 'a: snapshot', 'c: ship = PARKED', 'a: paid =  |  | ERROR 40001', 'a: COMMIT', 'c: paid');
play('poison, cured in the same transaction', $shipped,
	'c: ship = PARKED', 'c: poison', 'a: BEGIN', 'a: pay = APPLIED', 'a: SAVEPOINT a', 'a: unpark = 0',
	'a: ROLLBACK TO a', 'a: cure', 'a: unpark = 1', 'a: COMMIT', 'b: ship = APPLIED replayed');
play('poison, and what comes after it is applied',
	'A PAID; PAY APPLIED, SHIP PARKED 1, REFUND APPLIED; ORDER_PAID REFUND_RECORDED',
	'c: ship = PARKED', 'c: refund = PARKED', 'c: poison', 'a: BEGIN', 'a: SAVEPOINT a', 'a: pay = APPLIED',
	'b: refund = PARKED replayed', 'a: ROLLBACK TO a', 'a: pay = APPLIED', 'a: COMMIT', 'b: refund = APPLIED replayed');
play('poison, and the session goes on with another order',
	'A PAID, B SHIPPED; PAY APPLIED, SHIP PARKED 1, PAY APPLIED, SHIP APPLIED; ORDER_PAID ORDER_PAID ORDER_SHIPPED',
	'c: ship = PARKED', 'c: shipB = PARKED', 'c: poison', 'a: BEGIN', 'a: pay = APPLIED', 'a: payB = APPLIED', 'a: COMMIT',
	'b: shipB = APPLIED replayed');
play('poison in a bulk UPDATE',
	'A PAID, B SHIPPED; SHIP PARKED 1, SHIP APPLIED; ORDER_SHIPPED',
	'c: ship = PARKED', 'c: shipB = PARKED', 'c: poison', "a: bulk = $notice", 'b: shipB = APPLIED replayed');
play('poison, released by two at once', $shipped,
	'c: ship = PARKED', 'c: poison', 'c: pay = APPLIED', 'a: BEGIN', 'a: unpark = 0', 'b: BEGIN', 'b: unpark = polls',
	'c: cure', 'a: COMMIT', 'b: = 1 | 0', 'b: COMMIT', 'c: unpark = 0 | 1');
foreach my $state ('40001', '40P01', '57014', '53200')
{
	play("an error that is not held back, $state",
		'A SHIPPED, B PAID; PAY APPLIED, SHIP APPLIED, PAY APPLIED; ORDER_PAID ORDER_SHIPPED ORDER_PAID',
		'c: ship = PARKED', "c: INSERT INTO poison VALUES ('A-%d', '$state')", 'a: BEGIN', 'a: SAVEPOINT a',
		"a: pay = ERROR $state", 'a: ROLLBACK TO a', 'b: BEGIN', 'b: ship = PARKED replayed', 'c: cure',
		"a: paid = $notice | ERROR $state", 'a: ROLLBACK', 'b: COMMIT', "a: payB = APPLIED", 'c: pay = APPLIED');
}

leave();
$node->stop;
done_testing();
