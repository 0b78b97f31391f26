# A replay long after the first answer, and after the server was restarted or has
# crashed, is the first answer in every field but "replayed".

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use Test::More;

my $node = start_node('replay');

create_orders($node);
$node->safe_psql('postgres', q{
	INSERT INTO biz_order SELECT chr(64 + n), 'PENDING_PAY' FROM generate_series(1, 6) AS n;
	SELECT notify_event_set('SHIP', on_early => 'skip');
	CREATE TABLE notice (n int PRIMARY KEY, txn text, event text, order_no text, body bytea, data jsonb);
	INSERT INTO notice VALUES
		(1, 'T1', 'PAY', 'A', 'paid', '{"amount": "10.00"}'),
		(2, 'T2', 'PAY', 'A', '', NULL),                  -- already
		(3, 'T3', 'SHIP', 'B', '\x00', NULL),             -- early
		(4, 'T4', 'REFUND', 'A', '\xfffe', NULL),         -- nothing changes
		(5, 'T5', 'SHIP', 'A', 'shipped', '[]'),
		(6, 'T6', 'PAY', 'A', 'late', NULL),              -- stale
		(7, 'T7', 'push', '订单-一', 'pushed', 'null'),   -- no machine: NULLs in the result
		(8, ' T7 ', 'push', 'Ä', 'pushed', NULL),
		(9, 't7', 'push', 'Ä', 'pushed', NULL);
	CREATE TABLE answer AS
		SELECT n.n, h.* FROM notice AS n,
			LATERAL handle_notify(n.txn, n.event, n.order_no, n.body, data => n.data) AS h
		ORDER BY n.n});
is( $node->safe_psql('postgres', q{
		SELECT count(*), bool_or(replayed), count(DISTINCT first_seen),
			string_agg(outcome || coalesce(' ' || (result ->> 'reason'), ''), ', ' ORDER BY n)
		FROM answer}),
	'9|f|9|APPLIED, SKIPPED already, SKIPPED early, APPLIED, APPLIED, SKIPPED stale, '
	  . 'APPLIED, APPLIED, APPLIED',
	'the first answers');

sub same_answers
{
	my ($name) = @_;

	is( $node->safe_psql('postgres', q{
			SELECT count(*), bool_and(h.replayed),
				bool_and(to_jsonb(a) - 'n' - 'replayed' = to_jsonb(h) - 'replayed'),
				bool_and(a.result::text = h.result::text)
			FROM answer AS a JOIN notice AS n USING (n),
				LATERAL handle_notify(n.txn, n.event, n.order_no, n.body, data => n.data) AS h}),
		'9|t|t|t', $name);
	is( $node->safe_psql('postgres', q{
			SELECT string_agg(h.outcome || ' ' || h.replayed, ', ') FROM notice AS n,
				LATERAL handle_notify(n.txn, n.event, n.order_no, n.body || '.', data => n.data) AS h
			WHERE n IN (1, 7)}),
		'CONFLICT false, CONFLICT false', "$name: other contents are not");
	promises_kept($node, $name, '9 2 6');
	return;
}

same_answers('at once');
is( $node->safe_psql('postgres', q{
		SELECT count(*) FROM notice AS n,
			LATERAL handle_notify(n.txn, n.event, n.order_no, n.body, data => '"other data"') AS h
		WHERE h.replayed}),
	'9', 'data takes no part in deciding');

$node->restart;
same_answers('after a restart');
$node->stop('immediate');
$node->start;
same_answers('after a crash');

# The world has moved on.
$node->safe_psql('postgres', q{
	UPDATE biz_order SET status = 'CANCELLED' WHERE order_no = 'B';
	UPDATE biz_order SET status = 'somewhere else' WHERE order_no = 'C'});
same_answers('after the orders have moved');
$node->safe_psql('postgres', 'VACUUM FULL notify_claim; REINDEX TABLE notify_claim; VACUUM ANALYZE');
same_answers('after VACUUM FULL and REINDEX');
$node->safe_psql('postgres', q{DELETE FROM biz_order});
same_answers('after the orders are gone');
$node->safe_psql('postgres', q{
	SET client_min_messages = warning;
	SELECT notify_machine_drop('biz_order');
	SELECT notify_event_drop('push');
	DROP TABLE biz_order CASCADE});
is( $node->safe_psql('postgres', q{
		SELECT count(*), bool_and(h.replayed),
			bool_and(to_jsonb(a) - 'n' - 'replayed' = to_jsonb(h) - 'replayed')
		FROM answer AS a JOIN notice AS n USING (n),
			LATERAL handle_notify(n.txn, n.event, n.order_no, n.body, data => n.data) AS h}),
	'9|t|t', 'after the machine and the table are gone');

$node->stop;
done_testing();
