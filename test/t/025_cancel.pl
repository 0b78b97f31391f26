# A call that is cancelled, that runs into statement_timeout or whose backend is
# terminated, at every place where something has been written or not, and while
# it waits: the error reaches the caller, nothing stays, the backend is as good
# as new, and the redelivery is processed as the first.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('cancel');

# The caller has no rights beyond its own: a call that is cut off while it works
# as the owner of the extension's tables must not leave them behind.
create_orders($node);
create_breakpoints($node);
$node->safe_psql('postgres', q{
	CREATE ROLE app LOGIN;
	SELECT notify_grant('app', 'app');
	GRANT SELECT, UPDATE ON biz_order TO app});

my @places = (
	'before the claim',
	'after the claim',
	'after the message',
	'after the order',
	'returned',
	'in COMMIT',
	'polling');
my $holder = NotifyClaim::Session->new($node);
my $n = 0;

sub app_session
{
	my $session = NotifyClaim::Session->new($node, '-U', 'app');
	$session->query(q{SET notify_claim.busy_timeout = '60s'});
	return $session;
}

# A new order for the case; the holder stops calls at the place.
sub hold
{
	my ($place) = @_;

	$n++;
	$node->safe_psql('postgres', "INSERT INTO biz_order VALUES ('$n', 'PENDING_PAY')");
	$holder->query(
		$place == 6
		? "BEGIN; SELECT 1 FROM biz_order WHERE order_no = '$n' FOR UPDATE"
		: "SELECT pg_advisory_lock($place)");
	return;
}

# Delivers order n's notice, in an open transaction, up to the place.
sub stop_there
{
	my ($victim, $place) = @_;

	$victim->send_notify("T$n", 'PAY', $n);
	if ($place == 4 || $place == 5)
	{
		is($victim->receive, 'APPLIED', "$places[$place]: the call returned");
		$victim->send('COMMIT') if $place == 5;
	}
	$holder->wait_for_lock($victim) if $place < 4 || $place == 5;
	$holder->wait_for_poll($victim) if $place == 6;
	return;
}

sub let_go
{
	my ($place) = @_;

	$holder->query($place == 6 ? 'ROLLBACK' : "SELECT pg_advisory_unlock($place)");
	return;
}

# Nothing is left of order n's notice, and its redelivery is a first one.
sub nothing_left
{
	my ($victim, $name) = @_;

	is( $node->safe_psql('postgres', qq{
			SELECT (SELECT count(*) FROM notify_claim WHERE order_no = '$n'),
				(SELECT count(*) FROM moved WHERE order_no = '$n'),
				(SELECT count(*) FROM notify_outbox WHERE aggregateid = '$n'),
				(SELECT status FROM biz_order WHERE order_no = '$n')}),
		'0|0|0|PENDING_PAY',
		"$name: nothing of the call is there");
	is($victim->notify("T$n", 'PAY', $n), 'APPLIED',
		"$name: the redelivery is processed as the first");
	is($victim->notify("T$n", 'PAY', $n), 'APPLIED replayed',
		"$name: and the next one is a replay");
	return;
}

# The session is what it was before the call.
sub as_good_as_new
{
	my ($victim, $name) = @_;

	is( $victim->query(q{SELECT current_user, current_setting('lock_timeout'),
			current_setting('enable_seqscan'), count(*)
			FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'}),
		'app|0|on|0',
		"$name: user, settings and locks are the session's own");
	is($victim->query('SELECT count(*) FROM notify_claim'),
		'ERROR 42501', "$name: and so are its rights");
	return;
}

my $victim = app_session();
as_good_as_new($victim, 'at first');

foreach my $place (0 .. 3, 5, 6)
{
	my $name = "cancelled $places[$place]";

	hold($place);
	$victim->query('BEGIN');
	stop_there($victim, $place);
	$holder->query('SELECT pg_cancel_backend(' . $victim->pid . ')');
	is($victim->receive, 'ERROR 57014', "$name: the caller gets 57014");
	let_go($place);
	$victim->query('ROLLBACK');
	as_good_as_new($victim, $name);
	nothing_left($victim, $name);
}

# The transaction goes on from a savepoint.
foreach my $place (0 .. 3, 6)
{
	my $name = "cancelled $places[$place] in a subtransaction";

	hold($place);
	$victim->query('BEGIN; SAVEPOINT a');
	stop_there($victim, $place);
	$holder->query('SELECT pg_cancel_backend(' . $victim->pid . ')');
	is($victim->receive, 'ERROR 57014', "$name: the caller gets 57014");
	let_go($place);
	$victim->query('ROLLBACK TO a');
	nothing_left($victim, $name);
	is($victim->query('COMMIT'), '', "$name: the transaction commits");
	as_good_as_new($victim, $name);
}

# However soon the timeout strikes, the outcome is the same.  (It does not cover
# COMMIT.)
foreach my $place (0 .. 3, 6)
{
	my $name = "statement_timeout $places[$place]";

	hold($place);
	$victim->query('BEGIN');
	$victim->query(q{SET LOCAL statement_timeout = '200ms'});
	is($victim->notify("T$n", 'PAY', $n), 'ERROR 57014', "$name: the caller gets 57014");
	let_go($place);
	$victim->query('ROLLBACK');
	as_good_as_new($victim, $name);
	nothing_left($victim, $name);
}

foreach my $place (0 .. 6)
{
	my $name = "terminated $places[$place]";

	hold($place);
	$victim->query('BEGIN');
	stop_there($victim, $place);
	$holder->query('SELECT pg_terminate_backend(' . $victim->pid . ')');
	like($victim->lost, qr/^FATAL 57P01$/m, "$name: the connection ends with 57P01");
	let_go($place);
	$victim = app_session();
	nothing_left($victim, $name);
}

$victim->quit;
$holder->quit;
promises_kept($node, 'in the end', "$n $n $n");

$node->stop;
done_testing();
