# kill -9 of a backend inside a call, at every place where something has been
# written or not: the server restarts by itself, nothing of the call is there,
# and the redelivery is processed as the first.  After the commit it is the
# other way round: everything is there, and the redelivery is a replay.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('kill', "restart_after_crash = on\n",
	init => { allows_streaming => 1 });

create_orders($node);
create_breakpoints($node);
$node->safe_psql('postgres', q{
	INSERT INTO biz_order SELECT n::text, 'PENDING_PAY' FROM generate_series(0, 6) AS n});

sub status
{
	my ($order) = @_;
	return $node->safe_psql('postgres', "SELECT status FROM biz_order WHERE order_no = '$order'");
}

# Kills the session's backend as hard as it gets.  Another session tells when
# the postmaster has noticed; then it is a matter of waiting for recovery.
sub crash
{
	my ($victim, $witness) = @_;

	is(kill('KILL', $victim->pid), 1, 'backend killed');
	$victim->lost;
	$witness->lost;
	$node->poll_query_until('postgres', 'SELECT 1', '1')
	  or die 'the server does not come back';
	return;
}

my @places = (
	'before the claim',
	'after the claim',
	'after the message',
	'after the order',
	'after the call returned',
	'in COMMIT');

foreach my $place (0 .. $#places)
{
	my $name = $places[$place];
	my $before = counts($node);
	my $victim = NotifyClaim::Session->new($node);
	my $holder = NotifyClaim::Session->new($node);

	$holder->query("SELECT pg_advisory_lock($place)");
	$victim->query('BEGIN');
	$victim->send_notify("T$place", 'PAY', $place);
	if ($place >= 4)
	{
		is($victim->receive, 'APPLIED', "$name: the call returned");
		$victim->send('COMMIT') if $place == 5;
	}
	$holder->wait_for_lock($victim) if $place != 4;
	crash($victim, $holder);

	is(counts($node), $before, "$name: nothing of the call is there");
	is(status($place), 'PENDING_PAY', "$name: the order has not moved");

	my $retry = NotifyClaim::Session->new($node);
	is($retry->notify("T$place", 'PAY', $place), 'APPLIED',
		"$name: the redelivery is processed as the first");
	is($retry->notify("T$place", 'PAY', $place), 'APPLIED replayed',
		"$name: and the next one is a replay");
	$retry->quit;
	my $n = $place + 1;
	promises_kept($node, $name, "$n $n $n");
}

# Committed, but its client was never told: parked there by a synchronous
# standby that does not exist.
$node->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
$node->reload;
my $victim = NotifyClaim::Session->new($node);
my $witness = NotifyClaim::Session->new($node);
$victim->send_notify('T6', 'PAY', '6');
$witness->wait_for_state($victim, "wait_event = 'SyncRep'");
is($witness->query(q{SET notify_claim.busy_timeout = 1}), '', 'a short timeout');
is($witness->notify('T6', 'PAY', '6'), 'BUSY',
	'committed, not acknowledged: nobody gets an answer from it yet');
$node->safe_psql('postgres', q{ALTER SYSTEM RESET synchronous_standby_names});
crash($victim, $witness);

my $retry = NotifyClaim::Session->new($node);
is($retry->notify('T6', 'PAY', '6'), 'APPLIED replayed',
	'committed, not acknowledged: the redelivery is a replay');
$retry->quit;
is(status('6'), 'PAID', 'committed, not acknowledged: the order has moved');
promises_kept($node, 'committed, not acknowledged', '7 7 7');

$node->stop;
done_testing();
