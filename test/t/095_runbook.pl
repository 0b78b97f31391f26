# The runbook: each of its statements runs, as the role that it names and no more, on
# a server where something is there to find; and it has a chapter for each alert rule,
# and no other.

use strict;
use warnings;

use FindBin;
use IPC::Run;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;

my $runbook = slurp_file('docs/runbook.md');
my $alerts = slurp_file('contrib/monitoring/alerts.yml');
my @rules = $alerts =~ /^ +- alert: (\w+)$/mg;

is(join(' ', $runbook =~ /^## (Notify\w+)$/mg), join(' ', @rules), 'a chapter for each alert, in their order');
is(join(' ', $alerts =~ /runbook: 'docs\/runbook\.md#(\w+)'/g), join(' ', map { lc } @rules), 'and each alert refers to its own');

# A conflict (review 1), a refusal's worth of dead letters, an order that waits behind
# one, something parked, something leased.
my $node = start_node('runbook', "shared_preload_libraries = 'notify_claim'\nnotify_claim.max_attempts = 1\n");
create_orders($node);
$node->safe_psql('postgres', q{
	SELECT notify_channel_add('default', keep_body => true);
	SELECT notify_event_set('SHIP', on_early => 'park'), notify_event_set('REFUND', on_early => 'park');
	INSERT INTO biz_order VALUES ('SO-1', 'PENDING_PAY'), ('SO-2', 'PENDING_PAY');
	SELECT FROM handle_notify('T1', 'PAY', 'SO-2', '{"amount": 1}'::bytea);
	SELECT FROM handle_notify('T1', 'PAY', 'SO-2', '{"amount": 2}'::bytea);
	SELECT FROM handle_notify('T2', 'SHIP', 'SO-1', 'a'::bytea);
	SELECT FROM handle_notify('T3', 'REFUND', 'SO-1', 'a'::bytea);
	SELECT FROM handle_notify('T4', 'REFUND', 'SO-2', 'a'::bytea);
	SELECT FROM handle_notify('T5', 'push', 'P', 'a'::bytea);
	SELECT notify_outbox_nack(token, seq, 'no such exchange')
		FROM (SELECT * FROM notify_outbox_lease('relay', 100, '1h') WHERE aggregateid = 'SO-2' ORDER BY seq LIMIT 1) AS l});
is( $node->safe_psql('postgres', 'SELECT parked, reviews_open, dead_letters, orders_blocked, outbox_depth > 1, conflicts_rolled_back FROM notify_health'),
	'2|1|1|1|t|0', 'something is there to find');

# One role for each set of privileges, with nothing else.
my @sets = qw(monitor reviewer relay);
$node->safe_psql('postgres', "CREATE ROLE $_ LOGIN; SELECT notify_grant('$_', '$_')") foreach @sets;
$node->safe_psql('postgres', 'CREATE ROLE watcher LOGIN IN ROLE pg_monitor; CREATE ROLE stranger LOGIN');
my %logins = ((map { $_ => [$_] } @sets), monitor => [qw(monitor watcher)], pg_monitor => ['watcher'], owner => ['postgres']);
is($node->safe_psql('postgres', q{SELECT extowner::regrole FROM pg_extension WHERE extname = 'notify_claim'}), 'postgres', 'the owner');

# Another session's call, for statements that look at sessions.
my $other = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'BEGIN',
		'-c', q{SELECT FROM handle_notify('T6', 'push', 'P', 'a'::bytea), pg_sleep(600)} ], '>', \my $said, '2>', \my $wrong);
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'})
	or die 'the other session does not sleep';

my ($blocks, $statements, $rows) = (0, 0, 0);
while ($runbook =~ /^```sql\n(.*?)^```$/msg)
{
	my $block = $1;
	my ($role) = $block =~ /\A-- (\w+)\n/;

	$blocks++;
	ok(defined $role && $logins{$role}, 'a block says whose it is') or diag($block);
	next if !defined $role || !$logins{$role};
	foreach my $statement (split /(?<=;)\n/, $block =~ s/\A.*\n//r)
	{
		foreach my $login (@{ $logins{$role} })
		{
			my ($status, $out, $err) = $node->psql('postgres', $statement, on_error_stop => 1, extra_params => [ '-U', $login ]);

			is("$status $err", '0 ', "$login: $statement");
			unlike($out, qr/insufficient privilege/, 'and may see what it shows');
			$rows++ if $out ne '' && $login eq $logins{$role}[0];
		}
		$statements++;
	}
}
cmp_ok($blocks, '>=', 20, 'blocks were found');
cmp_ok($statements, '>=', 35, 'statements were found');
cmp_ok($rows, '>=', 24, 'and most show something');

# That the roles tell anything: nobody else may, nor the one for the other.
foreach my $denied ([ 'stranger', 'SELECT FROM notify_health' ], [ 'stranger', 'SELECT FROM notify_outbox_dead' ],
	[ 'relay', 'SELECT FROM notify_outbox' ], [ 'reviewer', 'SELECT FROM notify_channel' ], [ 'monitor', 'SELECT FROM notify_parked' ],
	[ 'monitor', 'SHOW shared_preload_libraries' ])
{
	my ($status, $out, $err) = $node->psql('postgres', $denied->[1], extra_params => [ '-U', $denied->[0] ]);

	like($err, qr/permission denied|must be superuser/, "$denied->[0] may not: $denied->[1]");
}
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
$other->finish;
is($node->safe_psql('postgres', 'SELECT parked, reviews_open, dead_letters, orders_blocked FROM notify_health'), '0|0|0|0',
	'what can be done was done');
$node->stop;
done_testing();
