# Behind pgbouncer in transaction mode: the outbox is drained by relays that share
# two connections, whichever of them a call gets, and deliveries are answered alike
# whatever the client before has left behind in the connection.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Broker qw(append classify records summary @FAULTS);
use List::Util qw(first);
use NotifyClaim;
use POSIX 'WNOHANG';
use PostgreSQL::Test::Utils;
use Relay;
use Test::More;
use Time::HiRes qw(usleep);

my $port = 6432;    # names the socket in our own folder, nothing else
my $dir = PostgreSQL::Test::Utils::tempdir;
my $sockets = PostgreSQL::Test::Utils::tempdir_short;
my $program = first { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin';
my $connection = "host=$sockets port=$port dbname=postgres";
my ($pooler, @relays);

die "pgbouncer is missing: install the package of that name\n" unless $program;
my $node = start_node('pooler', "notify_claim.retry_delay = 0\n");

# Starts pgbouncer with two connections for each role.
sub start_pooler
{
	open(my $ini, '>', "$dir/pgbouncer.ini") or die $!;
	print $ini '[databases]' . "\n* = host=" . $node->host . ' port=' . $node->port . qq{
[pgbouncer]
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
listen_port = $port
unix_socket_dir = $sockets
auth_type = trust
auth_file = $dir/users.txt
logfile = $dir/pgbouncer.log
pidfile = $dir/pgbouncer.pid
};
	close($ini);
	open(my $users, '>', "$dir/users.txt") or die $!;
	print $users map { qq("$_" ""\n) } 'postgres', 'relay', 'app';
	close($users);

	$pooler = fork() // die $!;
	return if $pooler;
	open(STDIN, '<', '/dev/null');
	open(STDOUT, '>', '/dev/null');
	open(STDERR, '>', '/dev/null');
	exec($program, '-q', "$dir/pgbouncer.ini") or POSIX::_exit(1);
}

# A session through the pooler.
sub session
{
	my ($user) = @_;
	return NotifyClaim::Session->new($node, '-d', "$connection user=$user");
}

END
{
	my $status = $?;
	end_processes('KILL', @relays);
	end_processes('KILL', $pooler // ());
	$? = $status;
}

create_orders($node);
$node->safe_psql('postgres', q{
	CREATE ROLE relay LOGIN;
	CREATE ROLE app LOGIN;
	SELECT notify_grant('relay', 'relay'), notify_grant('app', 'app');
	GRANT SELECT, UPDATE ON biz_order TO app;
	INSERT INTO biz_order SELECT 'o' || n, 'PENDING_PAY' FROM generate_series(0, 100) AS n});
start_pooler();
foreach (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
{
	last if -S "$sockets/.s.PGSQL.$port";
	die "pgbouncer does not start:\n" . slurp_file("$dir/pgbouncer.log") if waitpid($pooler, WNOHANG);
	usleep(10_000);
}

###
### Each call of a relay gets another connection than the one before.
###

my $sender = session('app');
my ($relay, @holders) = map { session('relay') } 0 .. 2;
my $last = '';
my ($token, $seq, $answer);

is($sender->notify('first', 'PAY', 'o0'), 'APPLIED', 'delivered through the pooler');
$sender->quit;
$holders[0]->query('BEGIN');

# Makes a call of the relay, and leaves the other connection to the next one: one of
# two holders has a transaction open.
sub on_another
{
	my ($sql) = @_;
	my $answer = $relay->query("SELECT coalesce(($sql)::text, 'nothing'), pg_backend_pid()");
	my ($result, $pid) = $answer =~ /^(.*)\|(\d+)$/;

	isnt($pid, $last, 'another connection') if $last;
	$last = $pid // '';
	$holders[1]->query('BEGIN');
	$holders[0]->query('COMMIT');
	@holders = reverse @holders;
	return $result // $answer;
}

my $lease = q{SELECT concat_ws(' ', token, seq, attempt) FROM notify_outbox_lease('a relay', lease => '1 hour')};
foreach my $attempt (1, 2)
{
	$answer = on_another($lease);
	($token, $seq) = split / /, $answer;
	is($answer, "$token $seq $attempt", "leased, attempt $attempt");
	is(on_another($lease), 'nothing', 'nothing is leased twice');
	is(on_another("SELECT notify_outbox_extend('$token', '1 hour')"), 'true', 'extended');
	is(on_another("SELECT notify_outbox_release('$token')"), '1', 'released');
	$answer = on_another($lease);
	($token, $seq) = split / /, $answer;
	is($answer, "$token $seq $attempt", 'leased again, not counted');
	is(on_another("SELECT notify_outbox_nack('$token', $seq, 'bad')"), 'true', 'nacked') if $attempt == 1;
}
is(on_another("SELECT notify_outbox_ack('$token', '{$seq}')"), "{$seq}", 'acked');
is(on_another("SELECT notify_outbox_ack('$token', '{$seq}')"), "{$seq}", 'acked once more');
$_->quit foreach $relay, @holders;

###
### Deliveries and six relays at once, in connections with any settings.
###

# What nobody must call or read by accident.
$node->safe_psql('postgres', q{
	CREATE SCHEMA hostile;
	GRANT USAGE ON SCHEMA hostile TO app, relay;
	DO $$
	DECLARE
		operand text;
	BEGIN
		FOREACH operand IN ARRAY ARRAY['text', 'varchar', 'bigint', 'integer', 'uuid', 'timestamptz'] LOOP
			EXECUTE format('CREATE FUNCTION hostile.trap(%1$s, %1$s) RETURNS boolean LANGUAGE plpgsql
				AS $trap$ BEGIN RAISE $raise$trapped$raise$; END $trap$;
				CREATE OPERATOR hostile.= (FUNCTION = hostile.trap, LEFTARG = %1$s, RIGHTARG = %1$s);
				CREATE OPERATOR hostile.> (FUNCTION = hostile.trap, LEFTARG = %1$s, RIGHTARG = %1$s)', operand);
		END LOOP;
	END $$;
	CREATE TABLE hostile.notify_outbox ();
	CREATE TABLE hostile.notify_outbox_leased ();
	CREATE TABLE hostile.notify_claim ();
	CREATE TABLE hostile.biz_order ()});

# Some have left settings and temporary tables behind, in each connection others.  A
# pooler may keep apart what the server reports of settings: search_path since 18.
foreach my $user ('app', 'relay')
{
	my @two = map { session($user) } 1, 2;

	$two[$_]->query('BEGIN') foreach 0, 1;
	$two[0]->query(q{
		SET test.left_by = 'one';
		SET search_path = hostile, pg_catalog, public;
		CREATE TEMP TABLE notify_outbox ();
		CREATE TEMP TABLE notify_outbox_leased ();
		CREATE TEMP TABLE notify_claim ();
		CREATE TEMP TABLE biz_order ()});
	$two[1]->query(q{
		SET test.left_by = 'another';
		SET search_path = public;
		SET enable_indexscan = off});
	$two[$_]->query('COMMIT') foreach 0, 1;
	$_->quit foreach @two;
}

# Who has left what he set in a role's connections?
sub left_by
{
	my ($user) = @_;
	my @two = map { session($user) } 1, 2;

	$_->query('BEGIN') foreach @two;
	my @names = sort map { $_->query('SHOW test.left_by') } @two;
	$_->quit foreach @two;
	return join(' ', @names);
}

my $broker = "$dir/broker";
my @senders = map { session('app') } 1 .. 3;
my (%plan, %answers);

$senders[0]->query('SET search_path = hostile, pg_catalog, public');
append($broker);
@relays = map {
	start_relay(node => $node, connection => $connection, user => 'relay', broker => $broker, name => $_, seed => $_,
		max => [ 1, 10 ])
} 1 .. 6;
foreach my $n (1 .. 300)
{
	my ($order, $place) = (1 + $n % 100, int(($n - 1) / 100));
	my @notice = ("o$order.$place", $place ? 'REFUND' : 'PAY', "o$order");

	$plan{"$notice[0]:$notice[1]"} = [ $order, $place ];
	$answers{ $senders[ $n % 3 ]->notify(@notice) }++;
	$answers{ $senders[ ($n + 1) % 3 ]->notify(@notice) }++;
}
is( join(', ', map { "$_ $answers{$_}" } sort keys %answers), 'APPLIED 300, APPLIED replayed 300',
	'deliveries and repeats');
$_->quit foreach @senders;
$node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM notify_outbox)')
  or die 'the outbox is not drained';
end_processes('TERM', @relays);
@relays = ();

my @records = records($broker);
my $result = classify(\%plan, 0, @records);
note(summary($result));
is("$result->{once} $result->{again}", '300 0', 'everything was delivered once');
is(join(' ', @{ $result->{$_} }), '', $_) foreach @FAULTS;
is(join(', ', map { "@$_" } grep { $_->[0] =~ /^(?:error|failed)$/ } @records), '', 'no error');
foreach my $user ('app', 'relay')
{
	is(left_by($user), 'another one', "$user: these were its two connections");
}

end_processes('KILL', $pooler);
$pooler = undef;
$node->stop;
done_testing();
