# Definitions that logical replication brings count with the next call as well:
# its apply worker fires row triggers only, and those only where they are ALWAYS.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->start;
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(allows_streaming => 'logical');
$subscriber->start;

foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql('postgres', q{
		CREATE EXTENSION notify_claim;
		CREATE TABLE biz_order (order_no int PRIMARY KEY, status text);
		INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 20) AS n;
	});
}
$publisher->safe_psql('postgres', q{
	SELECT notify_machine_add('biz_order', 'order_no', 'status', attach => false);
	SELECT notify_transition_add('PAY', 'PENDING', 'PAID');
	CREATE PUBLICATION definitions FOR TABLE notify_event, notify_transition, notify_channel;
});
$subscriber->safe_psql('postgres', q{
	SELECT notify_machine_add('biz_order', 'order_no', 'status', attach => false);
	CREATE SUBSCRIPTION definitions CONNECTION '} . $publisher->connstr . q{ dbname=postgres'
		PUBLICATION definitions;
});
$subscriber->poll_query_until('postgres',
	q{SELECT count(*) = 3 FROM pg_subscription_rel WHERE srsubstate = 'r'})
  or die 'the initial copy has not arrived';

my $session = $subscriber->background_psql('postgres');
my $n = 0;

sub after
{
	my ($sql, $expected, $name) = @_;

	$publisher->safe_psql('postgres', $sql);
	$publisher->wait_for_catchup('definitions');
	$n++;
	is( $session->query("SELECT outcome || ' ' || coalesce(result ->> 'status', '-') FROM handle_notify('T$n', 'PAY', '$n', 'b')"),
		$expected, $name);
	return;
}

after('SELECT 1', 'APPLIED PAID', 'copied');
after(q{UPDATE notify_transition SET to_status = 'SETTLED'}, 'APPLIED SETTLED', 'an UPDATE');
after(q{SELECT notify_transition_drop('PAY', 'PENDING', 'SETTLED')}, 'EARLY -', 'a DELETE');
after(q{SELECT notify_transition_add('PAY', 'PENDING', 'CLOSED')}, 'APPLIED CLOSED', 'an INSERT');
$publisher->safe_psql('postgres', q{SELECT notify_channel_add('default', fail_body => 'later')});
$publisher->wait_for_catchup('definitions');
is($session->query(q{SELECT ack_body FROM handle_notify('none', 'PAY', '0', 'b')}), 'later', 'a channel');
after('TRUNCATE notify_transition', 'EARLY -', 'a TRUNCATE');
after(q{SELECT notify_event_drop('PAY')}, 'NO_RULE -', 'an event that is gone');

$session->quit;
$subscriber->stop;
$publisher->stop;
done_testing();
