# The review queue under load and in trouble: a storm of conflicts under one key,
# a decision about an order that is held, sessions that are killed, and what the
# server log says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('review', "restart_after_crash = on\n");

create_orders($node);
$node->safe_psql('postgres', q{
	INSERT INTO biz_order SELECT n::text, 'PENDING_PAY' FROM generate_series(1, 9) AS n;
	CREATE FUNCTION refuse(order_no text, event_type text, raw_body bytea) RETURNS text
		LANGUAGE sql AS $$ SELECT 'refused' WHERE raw_body = 'bad' $$;
	DO $$ BEGIN PERFORM notify_event_set('PAY', check_function => 'refuse'); END $$;

	CREATE PROCEDURE storm(deliveries int, different text) LANGUAGE plpgsql AS $$
	DECLARE
		got text;
	BEGIN
		FOR n IN 1 .. deliveries LOOP
			SELECT outcome INTO STRICT got FROM handle_notify('T1', 'PAY', '1',
				convert_to('secret other' || coalesce(different || n, ''), 'UTF8'));
			COMMIT;
			IF got <> 'CONFLICT' THEN
				RAISE '%', got;
			END IF;
		END LOOP;
	END $$});

# What a storm must leave as it is.
sub all_but_reviews
{
	return $node->safe_psql('postgres', q{
		SELECT * FROM notify_claim;
		SELECT * FROM biz_order ORDER BY 1;
		SELECT * FROM moved;
		SELECT * FROM notify_outbox WHERE aggregatetype <> 'notify_review'});
}

# One key, 10,000 deliveries of one other content from 8 sessions at once, then
# 1,000 different ones.

my @sessions = map { NotifyClaim::Session->new($node) } 1 .. 8;
is($sessions[0]->notify('T1', 'PAY', '1'), 'APPLIED', 'the first content');
my $before = all_but_reviews();
my $start = -s $node->logfile;
foreach my $n (0 .. 7)
{
	$sessions[$n]->query(q{SET notify_claim.busy_timeout = '60s'});
	$sessions[$n]->send("CALL storm(1250, NULL); CALL storm(125, '$n/');");
}
is(join(' ', map { $_->receive } @sessions), ' ' x 7, '11,000 deliveries from 8 sessions');
is( $node->safe_psql('postgres', q{
		SELECT kind, biz_key, hits, variants, state FROM notify_review;
		SELECT count(*), count(DISTINCT payload_hash) FROM notify_review_variant;
		SELECT count(*) FROM notify_review_open;
		SELECT count(*) FROM notify_outbox WHERE aggregatetype = 'notify_review'}),
	"PAYLOAD_CONFLICT|T1:PAY|11000|1001|OPEN\n1001|1001\n1\n1",
	'leave one open review that has counted them all, and one alarm');
is(all_but_reviews(), $before, 'and nothing else');
my $log = slurp_file($node->logfile, $start);
is(scalar(() = $log =~ /LOG:  notification for review/g), 1, 'one line in the log');
like($log, qr/LOG:  notification for review: PAYLOAD_CONFLICT in channel "default" under key "T1:PAY"/,
	'with channel and key');
like($log, qr/DETAIL:  Review 1: order "1", first digest [0-9a-f]{64}, now [0-9a-f]{64}\./,
	'order number and digests');
unlike($log, qr/secret/, 'and no body');
unlike($log, qr/deadlock|ERROR/, 'nobody was in anybody\'s way');

# A verdict stops it.
my ($one, $two, $three) = @sessions;
is($one->query(q{SELECT notify_review_resolve(id, 'DISMISS', 'a storm') FROM notify_review_open}),
	'DISMISSED', 'one verdict');
is($two->notify('T1', 'PAY', '1', 'abcdef'), 'APPLIED replayed', 'and the peer is answered SUCCESS');

# A refusal is allowed while somebody else holds the order.
my $bad = unpack 'H*', 'bad';
is($one->notify('T2', 'PAY', '2', $bad), 'REJECTED', 'refused');
$two->query(q{BEGIN; SELECT FROM biz_order WHERE order_no = '2' FOR UPDATE});
$one->query(q{SET notify_claim.busy_timeout = '1ms'});
my $allow = q{SELECT notify_review_resolve(id, 'ALLOW', 'go on') FROM notify_review_open};
is($one->query($allow), 'BUSY', 'an order that is held');
is($node->safe_psql('postgres', q{SELECT hits, state FROM notify_review WHERE biz_key = 'T2:PAY'}),
	'1|OPEN', 'leaves the review open');
$one->query(q{SET notify_claim.busy_timeout = '60s'});
$one->send($allow);
$two->wait_for_poll($one);
$two->query('COMMIT');
is($one->receive, 'APPLIED', 'one that is waited for does not');
is($node->safe_psql('postgres', q{SELECT status FROM biz_order WHERE order_no = '2'}), 'PAID',
	'the order is paid');
# meanwhile the order has moved, and with it the verdict
is($one->notify('T3', 'PAY', '3', $bad), 'REJECTED', 'refused');
$two->query(q{BEGIN; UPDATE biz_order SET status = 'CANCELLED' WHERE order_no = '3'});
$one->send($allow);
$two->wait_for_poll($one);
$two->query('COMMIT');
is($one->receive, 'SKIPPED', 'an order that was moved while it was waited for');
# a redelivery that passes and a verdict: who has the order's row decides
is($one->notify('T4', 'PAY', '4', $bad), 'REJECTED', 'refused');
$two->query('BEGIN');
is($two->notify('T4', 'PAY', '4', '00'), 'APPLIED', 'the right content, uncommitted');
$one->send($allow);
$two->wait_for_poll($one);
$two->query('COMMIT');
is($one->receive, 'ERROR 55000', 'there is nothing left to allow');

# Killed in the middle of a verdict, and of the first delivery of a conflict.
is($one->notify('T5', 'PAY', '5', $bad), 'REJECTED', 'refused');
$two->query('BEGIN');
is($two->query($allow), 'APPLIED', 'allowed, and not committed');
$three->query('BEGIN');
is($three->notify('T2', 'PAY', '2', 'ff'), 'CONFLICT', 'a conflict, and not committed');
is(kill('KILL', $two->pid), 1, 'a backend is killed');
$_->lost foreach @sessions;
$node->poll_query_until('postgres', 'SELECT 1', '1') or die 'the server does not come back';
($one, $two) = map { NotifyClaim::Session->new($node) } 1 .. 2;
is( $node->safe_psql('postgres', q{
		SELECT biz_key, kind, state FROM notify_review WHERE state = 'OPEN';
		SELECT count(*) FROM notify_claim WHERE biz_key = 'T5:PAY';
		SELECT status FROM biz_order WHERE order_no = '5'}),
	"T5:PAY|CHECK_REFUSED|OPEN\n0\nPENDING_PAY", 'killed: nothing of either is there');
is($one->query($allow), 'APPLIED', 'decided again');

# What a rolled back alarm leaves is the line in the log, at most one a minute.
$start = -s $node->logfile;
foreach (1 .. 3)
{
	$one->query('BEGIN');
	is($one->notify('T2', 'PAY', '2', 'ff'), 'CONFLICT', 'a conflict');
	$one->query('ROLLBACK');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM notify_review WHERE kind = 'PAYLOAD_CONFLICT' AND biz_key = 'T2:PAY'}),
	'0', 'rolled back');
is(scalar(() = slurp_file($node->logfile, $start) =~ /notification for review: PAYLOAD_CONFLICT/g), 1,
	'it is in the log all the same, once');

promises_kept($node, 'in the end', '5 4 4');
$_->quit foreach $one, $two;
$node->stop;
done_testing();
