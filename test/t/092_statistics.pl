# The statistics: which call counts where, exactly and from many sessions at once;
# what a restart keeps and a crash does not; without preload; where there is no room;
# the warning in the log; who may read them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;

my $preload = "shared_preload_libraries = 'notify_claim'\nmax_prepared_transactions = 10\nrestart_after_crash = on\n";
my $counters = q{received, applied, skipped, parked, early, conflict, rejected, busy, no_order, no_rule, replayed,
	rolled_back, conflict_rolled_back};

# A database's figures that are not zero, as "channel/event name=n ...".
sub figures
{
	my ($node, $dbname) = @_;

	return $node->safe_psql($dbname // 'postgres', qq{
		SELECT line FROM (
			SELECT concat_ws(' ', coalesce(t.channel, '-') || '/' || coalesce(t.event_type, '-'),
				(SELECT string_agg(key || '=' || value, ' ' ORDER BY n)
				 FROM json_each_text(row_to_json(s)) WITH ORDINALITY AS e (key, value, n) WHERE value <> '0')) AS line
			FROM notify_stat AS t, LATERAL (SELECT $counters) AS s) AS l
		ORDER BY line COLLATE "C"});
}

# The CRC that ends the file of the statistics.
sub crc32c
{
	my ($bytes) = @_;
	my @table;
	my $crc = 0xffffffff;

	foreach my $n (0 .. 255)
	{
		$n = $n & 1 ? 0x82f63b78 ^ $n >> 1 : $n >> 1 foreach 1 .. 8;
		push @table, $n;
	}
	$crc = $table[ ($crc ^ $_) & 0xff ] ^ $crc >> 8 foreach unpack 'C*', $bytes;
	return $crc ^ 0xffffffff;
}

# Stops the server, hands the file of the statistics over as its header, its entries
# and their size, and starts again with what becomes of them.
sub edit_file
{
	my ($node, $edit) = @_;
	my $name = $node->data_dir . '/pg_stat/notify_claim.stat';

	$node->stop;
	my $bytes = slurp_file($name);
	my (undef, $size) = unpack 'LL', $bytes;
	my @entries = unpack "(a$size)*", substr($bytes, 24, -4);
	$edit->(\@entries, $size);
	$bytes = join '', substr($bytes, 0, 24), @entries;
	open my $file, '>:raw', $name or die $!;
	print $file $bytes, pack('L', crc32c($bytes));
	close $file;
	$node->start;
	return;
}

# Makes what was counted lately older, by so many times ten seconds.
sub age
{
	my ($node, $n) = @_;
	my $now = int((time - 946_684_800) / 10);

	edit_file($node, sub {
		my ($entries) = @_;

		foreach my $entry (@$entries)
		{
			my %found;

			foreach my $at (map { 8 * $_ } 0 .. length($entry) / 8 - 1)
			{
				my ($count, $tick) = unpack 'LL', substr($entry, $at, 8);

				next if abs($tick - $now) > 100;
				$found{$at} = [ $count, $tick ];
				substr($entry, $at, 8) = "\0" x 8;
			}
			foreach my $at (keys %found)
			{
				my ($count, $tick) = @{ $found{$at} };

				substr($entry, $at + 24 * (($tick - $n) % 91 - $tick % 91), 8) = pack 'LL', $count, $tick - $n;
			}
		}
	});
	return;
}

# Sets when channels were last warned of, and looked at: to so many seconds ago.
sub set_warned
{
	my ($node, $ago) = @_;

	edit_file($node, sub {
		my ($entries, $size) = @_;

		foreach my $entry (@$entries)
		{
			substr($entry, $size - 16, 16) = pack 'QQ', (time - 946_684_800 - $ago) x 2 if unpack 'Q', substr($entry, $size - 8);
		}
	});
	return;
}

# Sets them to zero, runs the statements, and compares.
sub counted
{
	my ($node, $name, $sql, @expected) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', 'SELECT notify_stat_reset()');
	$node->psql('postgres', $sql, on_error_stop => 0);
	is(join("\n", grep { /=/ } split /\n/, figures($node)), join("\n", @expected), $name);
	is($node->safe_psql('postgres', q{SELECT count(*) - count(DISTINCT (channel, event_type)) FROM notify_stat}), 0, 'each pair once');
	return;
}

# Which call counts where.

my $node = start_node('counted', $preload);
create_orders($node);
$node->safe_psql('postgres', q{SELECT FROM handle_notify('T0', 'push', '1', 'a'::bytea)});
my $began = $node->safe_psql('postgres', 'SELECT notify_stat_since()');
$node->restart;
is($node->safe_psql('postgres', 'SELECT notify_stat_since()'), $began, 'before any reset they count from the first start on');
is($node->safe_psql('postgres', 'SELECT sum(received) FROM notify_rate WHERE minutes = 15'), 1, 'and a restart keeps the last minutes');
$node->safe_psql('postgres', q{
	INSERT INTO biz_order SELECT n::text, 'PENDING_PAY' FROM generate_series(1, 100) AS n;
	CREATE FUNCTION refuse(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE sql AS $$ SELECT 'no' $$;
	CREATE FUNCTION again(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM public.handle_notify('inner ' || order_no, 'push', order_no, raw_body);
		IF order_no = '99' THEN
			RAISE 'no';
		END IF;
	END $$;
	SELECT notify_event_add('refused', check_function => 'public.refuse'), notify_event_add('outer', action_function => 'public.again'),
		notify_channel_add('shop')});

counted($node, 'no call', 'SELECT 1');
counted($node, 'each outcome under its own name', q{
	SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea);
	SELECT handle_notify('T2', 'PAY', '1', 'a'::bytea);
	SELECT handle_notify('T3', 'SHIP', '2', 'a'::bytea);
	SELECT handle_notify('T1', 'PAY', '1', 'b'::bytea);
	SELECT handle_notify('T1', 'refused', '1', 'a'::bytea);
	SELECT handle_notify('T1', 'PAY', 'none', 'a'::bytea);
	SELECT handle_notify('T4', 'PAY', 'none', 'a'::bytea);
	SELECT handle_notify('T1', 'unheard', '1', 'a'::bytea);
	SELECT handle_notify('T1', 'unheard of', '1', 'a'::bytea);
	SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea, 'shop');
	SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea);
	SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea);
	SELECT handle_notify('T2', 'PAY', '1', 'a'::bytea)},
	'default/- received=2 no_rule=2',
	'default/PAY received=8 applied=1 skipped=1 conflict=2 no_order=1 replayed=3',
	'default/SHIP received=1 early=1',
	'default/refused received=1 rejected=1',
	'shop/PAY received=1 skipped=1');
counted($node, 'parked, and released by nobody that calls', q{
	SELECT notify_event_set('SHIP', on_early => 'park');
	SELECT handle_notify('P1', 'SHIP', '3', 'a'::bytea);
	UPDATE biz_order SET status = 'PAID' WHERE order_no = '3'},
	'default/SHIP received=1 parked=1');
counted($node, 'what raised, by what was known of it', q{
	SELECT handle_notify('R1', 'PAY', NULL, 'a'::bytea);
	SELECT handle_notify('R1', 'PAY:', '5', 'a'::bytea);
	SELECT handle_notify('R1', 'PAY', '5', 'a'::bytea, 'no channel');
	SELECT handle_notify('R1', 'PAY', '5', 'a'::bytea, data => '1'), 1 / (random() * 0)::int;
	SELECT handle_notify('R99', 'outer', '99', 'a'::bytea)},
	'-/- rolled_back=3',
	'default/PAY rolled_back=1',
	'default/outer rolled_back=1',
	'default/push rolled_back=1');
counted($node, 'rolled back, with what was answered', q{
	BEGIN; SELECT handle_notify('B1', 'PAY', '6', 'a'::bytea); ROLLBACK;
	BEGIN; SELECT handle_notify('T1', 'PAY', '1', 'other'::bytea); ROLLBACK;
	BEGIN; SELECT handle_notify('B1', 'refused', '1', 'a'::bytea); SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea); ROLLBACK},
	'default/PAY rolled_back=3 conflict_rolled_back=1',
	'default/refused rolled_back=1 conflict_rolled_back=1');
counted($node, 'to savepoints, and released ones', q{
	BEGIN;
	SELECT handle_notify('S1', 'push', '1', 'a'::bytea);
	SAVEPOINT a;
	SELECT handle_notify('S2', 'push', '1', 'a'::bytea);
	SAVEPOINT b;
	SELECT handle_notify('S3', 'push', '1', 'a'::bytea);
	SELECT handle_notify('S1', 'push', '1', 'b'::bytea);
	RELEASE b;
	SELECT handle_notify('S4', 'push', '1', 'a'::bytea);
	ROLLBACK TO a;
	SELECT handle_notify('S5', 'push', '1', 'a'::bytea);
	RELEASE a;
	SELECT handle_notify('S6', 'push', '1', 'a'::bytea);
	COMMIT},
	'default/push received=3 applied=3 rolled_back=4 conflict_rolled_back=1');
counted($node, 'an error that is caught', q{
	DO $$ BEGIN
		PERFORM handle_notify('E1', 'push', '1', 'a'::bytea);
		BEGIN
			PERFORM handle_notify('E2', 'push', '1', 'a'::bytea);
			PERFORM handle_notify('E99', 'outer', '99', 'a'::bytea);
		EXCEPTION WHEN OTHERS THEN
			PERFORM handle_notify('E3', 'push', '1', 'a'::bytea);
		END;
	END $$},
	'default/outer rolled_back=1', 'default/push received=2 applied=2 rolled_back=2');
counted($node, 'a call inside a call', q{SELECT handle_notify('N1', 'outer', '7', 'a'::bytea)},
	'default/outer received=1 applied=1', 'default/push received=1 applied=1');
$node->safe_psql('postgres', 'SELECT notify_stat_reset()');
$node->safe_psql('postgres', q{BEGIN; SELECT handle_notify('M1', 'push', '1', 'a'::bytea); SAVEPOINT s; SELECT handle_notify('M2', 'push', '1', 'a'::bytea);
	RELEASE s; COMMIT});
is($node->safe_psql('postgres', q{SELECT received, min_ms <= total_ms / 2, max_ms < total_ms, max_ms >= total_ms / 2, min_ms <= p50, p99 <= max_ms
	FROM notify_stat WHERE event_type = 'push'}), '2|t|t|t|t|t', 'the least and the most of several in one transaction');
counted($node, 'prepared counts as committed', q{
	BEGIN; SELECT handle_notify('2P', 'push', '1', 'a'::bytea); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'},
	'default/push received=1 applied=1');
counted($node, 'a conflict that a person dismissed is a replay', q{
	SELECT notify_review_resolve(id, 'DISMISS', 'seen') FROM notify_review WHERE order_no = 'none';
	SELECT handle_notify('T1', 'PAY', '1', 'b'::bytea)},
	'default/PAY received=1 replayed=1');
# case 42
counted($node, 'a thousand replays of one key', q{
	SELECT count(*) FROM generate_series(1, 1000) AS n, LATERAL (SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea) OFFSET 0 * n) AS h},
	'default/PAY received=1000 replayed=1000');
is( $node->safe_psql('postgres', q{
		BEGIN;
		SELECT count(*) FROM generate_series(1, 1000) AS n, LATERAL (SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea) OFFSET 0 * n) AS h;
		SELECT pg_current_xact_id_if_assigned() IS NULL;
		COMMIT}), "1000\nt", 'they write nothing');
{
	my ($holder, $caller) = map { NotifyClaim::Session->new($node) } 1 .. 2;

	$node->safe_psql('postgres', 'SELECT notify_stat_reset()');
	$holder->query(q{BEGIN; UPDATE biz_order SET status = 'CANCELLED' WHERE order_no = '8'});
	is($caller->notify('H1', 'PAY', '8'), 'BUSY', 'a held order');
	$caller->query(q{SET notify_claim.busy_timeout = '1min'});
	$caller->send_notify('H2', 'PAY', '8');
	$node->poll_query_until('postgres',
		sprintf q{SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = %d}, $caller->pid)
	  or die 'it does not wait';
	$node->safe_psql('postgres', sprintf 'SELECT pg_terminate_backend(%d, 60000)', $caller->pid);
	is(figures($node) =~ /^(default\/PAY.*)$/m && $1, 'default/PAY received=1 busy=1 rolled_back=1', 'a session that is ended within a call');
	$_->quit foreach $holder, $caller;
}

# Times.

is( $node->safe_psql('postgres', q{
		SET notify_claim.budget = 1;
		SELECT notify_stat_reset() IS NOT NULL;
		SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea);
		SELECT replayed, total_ms > 0, total_ms = min_ms, min_ms = max_ms, p50 BETWEEN 0.8 * min_ms AND 1.25 * max_ms,
			p50 <= p95 AND p95 <= p99, over_budget = (max_ms > 1)::int
		FROM notify_stat WHERE event_type = 'PAY' AND channel = 'default';
		SELECT min_ms, max_ms, p50, p95, p99 FROM notify_stat WHERE event_type = 'SHIP'}),
	"t\n1|t|t|t|t|t|t\n||||", 'the times of one call, and of none');
$node->safe_psql('postgres', q{
	CREATE FUNCTION slow(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE sql AS $$ SELECT pg_sleep(0.25) $$;
	SELECT notify_event_add('slow', action_function => 'public.slow');
	SELECT FROM handle_notify('W1', 'slow', '1', 'a'::bytea);
	SELECT FROM handle_notify('W1', 'slow', '1', 'a'::bytea)});
is( $node->safe_psql('postgres', q{
		SELECT received, over_budget, max_ms >= 250, min_ms < 200, p99 BETWEEN 0.8 * max_ms AND max_ms, total_ms > max_ms + min_ms - 0.001, p50 < 100
		FROM notify_stat WHERE event_type = 'slow'}), '2|1|t|t|t|t|t', 'a call over the budget');
$node->safe_psql('postgres', 'SELECT notify_stat_reset()');
$node->safe_psql('postgres', q{BEGIN; SELECT FROM handle_notify('W1', 'slow', '1', 'a'::bytea); SAVEPOINT s;
	SELECT FROM handle_notify('W2', 'slow', '1', 'a'::bytea); RELEASE s; COMMIT});
is($node->safe_psql('postgres', q{SELECT received, p50 < 100, p99 > 200 FROM notify_stat WHERE event_type = 'slow'}), '2|t|t', 'a slow one in a subtransaction');
$node->safe_psql('postgres', q{SELECT notify_stat_reset(); SELECT FROM handle_notify('T9', 'refused', '1', 'a'::bytea)});
is($node->safe_psql('postgres', q{SELECT received, conflicts FROM notify_rate WHERE channel = 'default' AND minutes = 1}), '1|0', 'a refusal is no conflict');
is($node->safe_psql('postgres', q{SELECT replay_ratio, conflicts_rolled_back FROM notify_health}), '0|0', 'the health of that');
$node->psql('postgres', q{BEGIN; SELECT handle_notify('M1', 'push', '1', 'b'::bytea); ROLLBACK; SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea)});
is($node->safe_psql('postgres', q{SELECT replay_ratio, conflicts_rolled_back FROM notify_health}), '0.5|1', 'and after a repeat and a conflict rolled back');

# From many sessions at once.

my ($clients, $iterations) = (8, 1250);
my $mix = PostgreSQL::Test::Utils::tempdir . '/mix.sql';
append_to_file($mix, q{
\set i :i + 1
SELECT handle_notify('M:client_id.:i', 'mix', '1', 'a'::bytea);
SELECT handle_notify('M:client_id.:i', 'mix', '1', 'a'::bytea) FROM generate_series(1, 4);
SELECT handle_notify('M:client_id.:i', 'mix', '1', 'b'::bytea);
BEGIN;
SELECT handle_notify('rolled back M:client_id.:i', 'mix', '1', 'a'::bytea);
SELECT handle_notify('M:client_id.:i', 'mix', '1', 'b'::bytea);
ROLLBACK;
BEGIN;
SELECT handle_notify('once more M:client_id.:i', 'mix', '1', 'a'::bytea);
SAVEPOINT s;
SELECT handle_notify('M:client_id.:i', 'mix', '1', 'a'::bytea);
ROLLBACK TO s;
COMMIT;
});
$node->safe_psql('postgres', q{SELECT notify_event_add('mix'), notify_stat_reset()});
$node->command_ok([
		'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $iterations, '-D', 'i=0',
		'-f', $mix, '-d', 'postgres'
	], 'the mix runs');
my $mixed = sprintf 'default/mix received=%d applied=%d conflict=%d replayed=%d rolled_back=%d conflict_rolled_back=%d',
  map { $_ * $clients * $iterations } 7, 2, 1, 4, 3, 1;
is(figures($node) =~ /^(default\/mix.*)$/m && $1, $mixed, '10^5 calls are counted exactly');
is( $node->safe_psql('postgres', q{
		SELECT minutes, received, replayed, ratio = 4.0 / 7, conflicts FROM notify_rate WHERE channel = 'default' AND minutes = 15;
		SELECT r.minutes, received, replayed, ratio, conflicts FROM notify_rate AS r WHERE channel = 'shop'}),
	sprintf("15|%d|%d|t|%d\n1|0|0|0|0\n5|0|0|0|0\n15|0|0|0|0", map { $_ * $clients * $iterations } 7, 4, 1),
	'and by the minute, with zeros for a channel that sends nothing');

# What is kept.

my $minutes = q{SELECT string_agg(received::text, ' ' ORDER BY minutes) FROM notify_rate WHERE channel = 'default'};
$node->safe_psql('postgres', 'SELECT notify_stat_reset()');
$node->safe_psql('postgres', q{SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea)});
foreach my $age ([ 7, '0 1 1' ], [ 22, '0 1 1' ], [ 2, '0 0 1' ], [ 58, '0 0 1' ], [ 2, '0 0 0' ])
{
	age($node, $age->[0]);
	is($node->safe_psql('postgres', $minutes), $age->[1], "another $age->[0]0 seconds later");
}
# So that what follows is over before the next ten seconds begin, or soon after.
sleep 1 while time % 10 > 2;
my $then = $node->safe_psql('postgres', q{SELECT floor(extract(epoch FROM clock_timestamp()) / 10) FROM handle_notify('T1', 'PAY', '1', 'a'::bytea)});
is($node->safe_psql('postgres', $minutes), '1 1 1', 'what is new counts in all of them');
age($node, 6);
my ($still, $now) = split /\|/, $node->safe_psql('postgres', qq{SELECT split_part(($minutes), ' ', 1), floor(extract(epoch FROM clock_timestamp()) / 10)});
is($still, $now == $then ? 1 : 0, 'until the tenth second after the minute');

my $all = 'SELECT md5(string_agg(s::text, chr(10))), count(*), notify_stat_since() FROM notify_stat AS s WHERE received + rolled_back > 0';
my $before = $node->safe_psql('postgres', $all);
$node->restart;
is($node->safe_psql('postgres', $all), $before, 'a clean restart keeps them, and since when they count');
ok(!-e $node->data_dir . '/pg_stat/notify_claim.stat', 'the file is gone once it was read');
$node->kill9;
start_again($node);
is(figures($node), '', 'a crash loses them cleanly');
is($node->safe_psql('postgres', "SELECT count(*), sum(received) FROM notify_rate WHERE minutes = 15"), '2|0', 'by the minute as well');
$node->safe_psql('postgres', q{SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea)});
{
	my $victim = NotifyClaim::Session->new($node);

	kill 'KILL', $victim->pid;
	$victim->lost;
	$node->poll_query_until('postgres', 'SELECT true') or die 'it does not recover';
	is(figures($node), '', 'so does the crash of one session');
}
$node->safe_psql('postgres', q{SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea)});
is(figures($node), 'default/PAY received=1 replayed=1', 'and counting goes on');
$node->stop;
open my $file, '>', $node->data_dir . '/pg_stat/notify_claim.stat' or die $!;
print $file 'x' x 10000;
close $file;
$node->start;
is(figures($node), '', 'a file that cannot be read is none');
like(slurp_file($node->logfile), qr/LOG:  ignoring invalid data in file "pg_stat\/notify_claim.stat"/, 'and the log says so');
$node->safe_psql('postgres', q{SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea); SELECT FROM handle_notify('T2', 'push', '1', 'a'::bytea)});
$node->stop;
truncate $node->data_dir . '/pg_stat/notify_claim.stat', -1 + -s $node->data_dir . '/pg_stat/notify_claim.stat' or die $!;
$node->start;
is(figures($node), '', 'nor is half of one');
foreach my $at (0, 4, 100, 3000)
{
	my $bad;

	$node->safe_psql('postgres', q{SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea)});
	$node->stop;
	open $bad, '+<:raw', $node->data_dir . '/pg_stat/notify_claim.stat' or die $!;
	seek $bad, $at, 0;
	read $bad, my $byte, 1;
	seek $bad, $at, 0;
	print $bad chr(ord($byte) ^ 1);
	close $bad;
	$node->start;
	is(figures($node), '', "nor is one with a bit that is wrong in byte $at");
}
$node->safe_psql('postgres', 'SELECT notify_stat_reset()');
$node->stop;
my $empty = -s $node->data_dir . '/pg_stat/notify_claim.stat';
$node->start;
$node->safe_psql('postgres', q{SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea); SELECT notify_stat_reset()});
$node->stop;
is(-s $node->data_dir . '/pg_stat/notify_claim.stat', $empty, 'places that a reset has left are not kept');
$node->start;

# Databases apart.

$node->safe_psql('postgres', 'CREATE DATABASE other');
create_orders($node, 'other');
$node->safe_psql('other', q{SELECT FROM handle_notify('T1', 'push', '1', 'a'::bytea)});
is(figures($node, 'other') . ' / ' . figures($node), 'default/push received=1 applied=1 / ', 'each database sees its own');
my $since = $node->safe_psql('other', 'SELECT notify_stat_since()');
is($node->safe_psql('postgres', "SELECT notify_stat_reset() = notify_stat_since(), notify_stat_since() > '$since'"), 't|t', 'and resets its own');
like(figures($node, 'other'), qr/push received=1/, 'the other keeps its figures');
is($node->safe_psql('other', 'SELECT notify_stat_since()'), $since, 'and since when they count');

# The warning.

$node->safe_psql('postgres', q{ALTER SYSTEM SET notify_claim.replay_alarm_ratio = 0.6});
$node->safe_psql('postgres', q{ALTER SYSTEM SET notify_claim.replay_alarm_count = 20});
$node->reload;
my $log = -s $node->logfile;
my $session = NotifyClaim::Session->new($node);
my $shop = q{SELECT count(handle_notify('Q' || n, 'push', '1', 'a'::bytea, 'shop')) FROM generate_series(1, %d) AS n};
$session->query(sprintf $shop, 30) foreach 1 .. 2;
$session->query('SELECT pg_sleep(1.1)');
$session->query(sprintf $shop, 1);
my $replays = q{SELECT count(*) FROM generate_series(1, %d) AS n, LATERAL (SELECT handle_notify('T1', 'PAY', '1', 'a'::bytea) OFFSET 0 * n) AS h};
is($session->query(sprintf $replays, 19), 19, 'not enough calls yet');
$session->query('SELECT pg_sleep(1.1)');
is($session->query(sprintf $replays, 1), 1, 'nor with the one that looks');
is(scalar(() = slurp_file($node->logfile, $log) =~ /WARNING/g), 0, 'no warning below the count');
foreach my $i (1 .. 3)
{
	$session->query('SELECT pg_sleep(1.1)');
	is($session->query(sprintf $replays, 1), 1, "replay $i above the count: the client hears nothing");
}
my @warnings = slurp_file($node->logfile, $log) =~ /(WARNING:  .*\n.*DETAIL:  .*)\n/g;
is(scalar @warnings, 1, 'one warning for all of them');
like($warnings[0] // '', qr/replay ratio of channel "default" is 1.00, above .*DETAIL:  In 5 minutes 20 of 20 calls were answered with a replay/s,
	'which names the channel, the ratio and the counts');
$session->quit;
foreach my $ago ([ 30, 0, 'not again within a minute' ], [ 61, 1, 'but after one' ], [ -3600, 1, 'and where the clock was put back' ])
{
	set_warned($node, $ago->[0]);
	$log = -s $node->logfile;
	$node->safe_psql('postgres', sprintf $replays, 1);
	is(scalar(() = slurp_file($node->logfile, $log) =~ /WARNING/g), $ago->[1], $ago->[2]);
}
$node->safe_psql('postgres', 'ALTER SYSTEM SET notify_claim.replay_alarm_ratio = 1');
$node->restart;
set_warned($node, 3600);
$log = -s $node->logfile;
$node->safe_psql('postgres', sprintf $replays, 1);
is(scalar(() = slurp_file($node->logfile, $log) =~ /WARNING/g), 0, 'none with a ratio of 1');
$session = NotifyClaim::Session->new($node);
is($session->query(q{SET notify_claim.replay_alarm_ratio = 0.7; SHOW client_min_messages}), 'notice', 'settings are as they were');
$session->quit;

# Who may read them.

$node->safe_psql('postgres', 'CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher; CREATE ROLE nobody LOGIN; CREATE ROLE support LOGIN');
foreach my $relation ('notify_stat', 'notify_rate', 'notify_health', 'notify_stat_since()')
{
	is($node->psql('postgres', "SELECT FROM $relation", extra_params => [ '-U', 'watcher' ]), 0, "pg_monitor reads $relation");
	isnt($node->psql('postgres', "SELECT FROM $relation", extra_params => [ '-U', 'nobody' ]), 0, "others do not read $relation");
}
foreach my $sql ('SELECT notify_stat_reset()', "SELECT FROM notify_history('1')")
{
	isnt($node->psql('postgres', $sql, extra_params => [ '-U', 'watcher' ]), 0, "pg_monitor may not: $sql");
}
$node->safe_psql('postgres', q{SELECT notify_grant('nobody', 'monitor'), notify_grant('support', 'reviewer')});
is($node->safe_psql('postgres', 'SELECT count(*) FROM notify_health, notify_rate WHERE channel = $$shop$$', extra_params => [ '-U', 'nobody' ]), 3,
	'the grant for monitoring');
is($node->psql('postgres', "SELECT FROM notify_history('1')", extra_params => [ '-U', 'support' ]), 0, 'reviewers ask for histories');
is($node->psql('postgres', "SET notify_claim.budget = 1", extra_params => [ '-U', 'watcher' ]), 3, 'settings that hide something are not for everyone');

# No room.

my $bad = q{SELECT handle_notify('T1', NULL, '1', 'a'::bytea)};
my $ten = q{SELECT count(handle_notify('O' || n, CASE WHEN n % 2 = 0 THEN 'push' ELSE 'mix' END, '1', 'a'::bytea, CASE WHEN n % 3 = 0 THEN 'shop' ELSE 'default' END))
	FROM generate_series(1, 10) AS n};
my $sums = q{SELECT count(*) = count(DISTINCT (channel, event_type)), sum(received), sum(rolled_back) FROM notify_stat;
	SELECT sum(received) FROM notify_rate WHERE minutes = 5};

$node->append_conf('postgresql.conf', 'notify_claim.max_stat_entries = 2');
foreach my $database ('postgres', 'other')
{
	$node->safe_psql($database, 'SELECT notify_stat_reset()');
}
$node->restart;
$node->safe_psql('other', q{SELECT FROM handle_notify('T1', 'push', '1', 'a'::bytea)});
$node->psql('postgres', $bad);
$node->safe_psql('postgres', $ten);
is($node->safe_psql('postgres', $sums), "t|10|1\n10", 'what finds no room is counted together');
is(figures($node, 'other'), 'default/push received=1 replayed=1', 'the other database is not concerned');
$node->restart;
is($node->safe_psql('postgres', $sums), "t|10|1\n10", 'after a restart as well');
is($node->safe_psql('postgres', 'SELECT notify_stat_reset() IS NOT NULL; SELECT coalesce(sum(received), 0), coalesce(sum(rolled_back), 0) FROM notify_stat'), "t\n0|0", 'a reset sets that to zero too');
is(figures($node, 'other'), 'default/push received=1 replayed=1', 'but of one database only');

# A database that is gone gives its places back.
$node->safe_psql('postgres', 'DROP DATABASE other');
$node->safe_psql('postgres', 'SELECT notify_stat_reset()');
$node->restart;
$node->safe_psql('postgres', $ten);
is($node->safe_psql('postgres', 'SELECT count(*) FROM notify_stat WHERE received > 0 AND channel IS NOT NULL'), 2, 'the places of a database that is gone');

# With less room after a restart nothing is lost.
$node->append_conf('postgresql.conf', 'notify_claim.max_stat_entries = 100');
$node->restart;
$node->safe_psql('postgres', 'SELECT notify_stat_reset()');
$node->safe_psql('postgres', $ten);
is($node->safe_psql('postgres', 'SELECT count(*) FROM notify_stat WHERE received > 0'), 4, 'four pairs');
$node->append_conf('postgresql.conf', 'notify_claim.max_stat_entries = 1');
$node->restart;
is($node->safe_psql('postgres', $sums), "t|10|0\n10", 'with less room');
$node->stop;

# Without preload everything else works.

my $plain = start_node('plain');
create_orders($plain);
$plain->safe_psql('postgres', q{INSERT INTO biz_order VALUES ('1', 'PENDING_PAY'); SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea)});
foreach my $sql ('SELECT count(*) FROM notify_stat', 'SELECT count(received) FROM notify_rate', 'SELECT count(notify_stat_reset())',
	'SELECT count(replay_ratio) + count(conflicts_rolled_back) + count(counted_since) FROM notify_health')
{
	my ($status, $out, $err) = $plain->psql('postgres', $sql);

	is("$status $out", '0 0', "without preload: $sql");
	like($err, qr/NOTICE:  notify_claim counts nothing\nHINT:  Add notify_claim to shared_preload_libraries and restart the server/, 'which says why');
}
is($plain->safe_psql('postgres', q{SET client_min_messages = warning; SELECT parked, parked_age, reviews_open, review_age, skipped_last_hour,
	outbox_depth, outbox_age > '0', dead_letters, orders_blocked FROM notify_health}), '0|00:00:00|0|00:00:00|0|1|t|0|0',
	'without preload the rest of notify_health is there');
$plain->append_conf('postgresql.conf', 'notify_claim.max_stat_entries = 10');
$plain->reload;
is(($plain->psql('postgres', "SET client_min_messages = warning; SELECT outcome FROM handle_notify('T1', 'PAY', '1', 'a'::bytea)"))[2], '', 'a setting that is left over is no fault');
$plain->stop;

done_testing();
