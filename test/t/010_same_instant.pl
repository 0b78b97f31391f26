# Fifty sessions deliver one new notification at the same instant, each 30 ms
# away from its COMMIT: fifty full answers, one first processing and 49 repeats
# of it, no BUSY and no error; one claim, one transition, one message.
#
# On a machine that is overloaded 30 ms may well become more than the 150 ms of
# notify_claim.busy_timeout.  So there are several rounds, until one has no BUSY,
# and in none may there be a BUSY that was not due: one whose caller had called
# less than 150 ms before the first delivery had committed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run;
use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;

my $sessions = 50;
my $node = start_node('same_instant', "max_connections = 100\n");

create_orders($node);
$node->safe_psql('postgres', q{
	CREATE TABLE answer (run text, client int, status text, outcome text, result text,
		replayed text, first_seen text, ack_status text, ack_body text, nulls int,
		called timestamptz, ended timestamptz DEFAULT clock_timestamp())});

# Each client calls once, in a transaction, over a connection that has just been
# made, and notes its answer when it has seen the COMMIT.
sub deliver
{
	my ($run, $notice) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir . "/$run.sql";
	my ($out, $err);

	PostgreSQL::Test::Utils::append_to_file($script, qq{
SELECT clock_timestamp() AS called \\gset
BEGIN;
SELECT status, outcome, result, replayed, first_seen, ack_status, ack_body,
	num_nulls(status, outcome, result, replayed, first_seen, ack_status, ack_body) AS nulls
FROM $notice \\gset
\\sleep 30 ms
COMMIT;
INSERT INTO answer VALUES ('$run', :client_id, ':status', ':outcome', ':result',
	':replayed', ':first_seen', ':ack_status', ':ack_body', :nulls, ':called');
});
	my $ok = IPC::Run::run(
		[
			'pgbench', '-n', '-c', $sessions, '-j', 2, '-t', 1, '-f', $script,
			$node->connstr('postgres')
		],
		'>', \$out, '2>', \$err);
	ok($ok, "$run: no session got an error");
	diag($err) unless $ok;
	return;
}

# What the sessions were answered, as "count status outcome replayed result".
sub answers
{
	my ($run) = @_;

	return $node->safe_psql('postgres', qq{
		SELECT count(*), status, outcome, replayed, result, ack_status, ack_body
		FROM answer WHERE run = '$run'
		GROUP BY 2, 3, 4, 5, 6, 7 ORDER BY 3, 4});
}

sub others { return $sessions - 1 }

# Every field of every answer is there and says the same as the claim.
sub answers_are_the_claims
{
	my ($run, $key) = @_;

	is( $node->safe_psql('postgres', qq{
			SELECT count(*), sum(a.nulls)
			FROM answer AS a JOIN notify_claim AS c
				ON c.created_at = a.first_seen::timestamptz AND c.outcome = a.outcome
				AND c.result_json = a.result::jsonb
			WHERE a.run = '$run' AND c.biz_key = '$key'}),
		"$sessions|0",
		"$run: every answer is complete and the claim's");
	return;
}

my $paid = '{"from": "PENDING_PAY", "status": "PAID"}';
my $round = 0;
my $busy = 1;
while ($busy > 0 && $round < 10)
{
	$round++;
	$node->safe_psql('postgres', "INSERT INTO biz_order VALUES ('A$round', 'PENDING_PAY')");
	deliver("round $round", call("T$round", 'PAY', "A$round"));
	$busy = $node->safe_psql('postgres',
		"SELECT count(*) FROM answer WHERE run = 'round $round' AND outcome = 'BUSY'");
	note("$busy times BUSY in round $round");
	is( answers("round $round"),
		"1|SUCCESS|APPLIED|f|$paid|200|SUCCESS\n"
		  . ($sessions - 1 - $busy) . "|SUCCESS|APPLIED|t|$paid|200|SUCCESS"
		  . ($busy > 0 ? "\n$busy|FAIL|BUSY|f||500|FAIL" : ''),
		"round $round: one first answer, all others are its replays");
	is( $node->safe_psql('postgres', qq{
			SELECT count(*) FROM answer AS busy JOIN answer AS first USING (run)
			WHERE run = 'round $round' AND busy.outcome = 'BUSY'
				AND first.outcome = 'APPLIED' AND first.replayed = 'f'
				AND first.ended - busy.called < '150 ms'}),
		'0', "round $round: no BUSY that was not due");
	promises_kept($node, "round $round", "$round $round $round");
}
is($busy, '0', 'fifty answers and no BUSY');
answers_are_the_claims("round $round", "T$round:PAY");

# What follows is about the answers, whatever the time they take: it has more of
# it.  The same, with a trigger of the application that makes the window wider.
$node->safe_psql('postgres', q{
	ALTER DATABASE postgres SET notify_claim.busy_timeout = '30s';
	TRUNCATE notify_claim, notify_outbox, biz_order, moved;
	INSERT INTO biz_order VALUES ('B', 'PENDING_PAY');
	CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$;
	CREATE TRIGGER dawdle AFTER UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION dawdle()});
deliver('trigger', call('T-B', 'PAY', 'B'));
is( answers('trigger'),
	"1|SUCCESS|APPLIED|f|$paid|200|SUCCESS\n"
	  . others() . "|SUCCESS|APPLIED|t|$paid|200|SUCCESS",
	'sleeping trigger: one first answer, all others are its replays');
answers_are_the_claims('trigger', 'T-B:PAY');
promises_kept($node, 'sleeping trigger', '1 1 1');
$node->safe_psql('postgres', 'DROP TRIGGER dawdle ON biz_order');

# Without a machine the sessions meet at the unique index.
my $pushed = '{"from": null, "status": null}';
deliver('event', call('T-A', 'push', 'A'));
is( answers('event'),
	"1|SUCCESS|APPLIED|f|$pushed|200|SUCCESS\n"
	  . others() . "|SUCCESS|APPLIED|t|$pushed|200|SUCCESS",
	'event without a machine: one first answer, all others are its replays');
answers_are_the_claims('event', 'T-A:push');
promises_kept($node, 'event without a machine', '2 1 2');

# Every session has a body of its own: the first one is claimed, all others are
# conflicts with it, and none of them gets through.
$node->safe_psql('postgres', q{INSERT INTO biz_order VALUES ('C', 'PENDING_PAY')});
deliver('bodies', "handle_notify('T-C', 'PAY', 'C', decode(lpad(':client_id', 2, '0'), 'hex'))");
is( $node->safe_psql('postgres', q{
		SELECT count(*), status, outcome, replayed, ack_status, ack_body,
			(result::jsonb -> 'first') IS NOT NULL
		FROM answer WHERE run = 'bodies' GROUP BY 2, 3, 4, 5, 6, 7 ORDER BY 3}),
	"1|SUCCESS|APPLIED|f|200|SUCCESS|f\n" . others() . '|FAIL|CONFLICT|f|500|FAIL|t',
	'fifty bodies: one is processed, all others are conflicts');
is( $node->safe_psql('postgres', q{
		SELECT count(*) FROM answer AS a, notify_claim AS c
		WHERE a.run = 'bodies' AND a.outcome = 'APPLIED' AND c.biz_key = 'T-C:PAY'
			AND c.payload_hash = encode(sha256(decode(lpad(a.client::text, 2, '0'), 'hex')), 'hex')}),
	'1', 'fifty bodies: the claim has the digest of the one processed');
promises_kept($node, 'fifty bodies', '3 2 3');

is($node->safe_psql('postgres', 'SELECT order_no, was, became FROM moved ORDER BY 1'),
	"B|PENDING_PAY|PAID\nC|PENDING_PAY|PAID", 'each order moved once');

$node->stop;
done_testing();
