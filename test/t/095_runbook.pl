# The runbook: each of its statements runs, on a server where something is there to
# find; and it has a chapter for each alert rule, and no other.

use strict;
use warnings;

use FindBin;
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

my ($statements, $rows) = (0, 0);
while ($runbook =~ /^```sql\n(.*?)^```$/msg)
{
	foreach my $statement (split /(?<=;)\n/, $1)
	{
		my ($status, $out, $err) = $node->psql('postgres', $statement, on_error_stop => 1);

		is("$status $err", '0 ', $statement);
		$statements++;
		$rows++ if $out ne '';
	}
}
cmp_ok($statements, '>=', 30, 'statements were found');
cmp_ok($rows, '>=', 20, 'and most show something');
is($node->safe_psql('postgres', 'SELECT parked, reviews_open, dead_letters, orders_blocked FROM notify_health'), '0|0|0|0',
	'what can be done was done');
$node->stop;
done_testing();
