# Unreliable consumers drain the outbox while notifications come in, some of them
# rolled back: they are killed, lose their connections, sleep past their leases, say
# that a message failed, give messages back or forget them, and the server is
# stopped in between.  The broker that they publish to tells what has become of
# each message: published once or several times, and never lost, invented or out of
# order (lib/Broker.pm).  Then the same with dead letters that are put back.
#
# MESSAGES=n has so many, 2000 unless it is set (make outbox-chaos).  Set
# NOTIFY_CLAIM_SEED to the seed that a failed run has printed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Broker qw(append classify records summary @FAULTS @RETRIABLE);
use List::Util qw(min);
use NotifyClaim;
use POSIX ();
use PostgreSQL::Test::Utils;
use Relay;
use Test::More;
use Time::HiRes qw(time usleep);

my $seed = $ENV{NOTIFY_CLAIM_SEED} // int(rand(2**31));
my $messages = $ENV{MESSAGES} // 2000;
my $producers = 3;
my $relays = 16;
my $restart_every = 8000;    # messages
my $dir = PostgreSQL::Test::Utils::tempdir;
my (%children, %total, $node);

###
### The checker finds what it is there to find.
###

my %plan = (a1 => [ 'a', 0 ], a2 => [ 'a', 1 ], a3 => [ 'a', 2 ], b1 => [ 'b', 0 ], n1 => ['n'], n2 => ['n']);
my $id = 'id';

# A lease, at the given time and for 10 seconds, of "seq:key" or "seq:key:attempt".
sub leased
{
	my ($token, $time, @messages) = @_;

	return [ 'leased', $token, 'relay', $time, $time, $time + 10, map { "$_->[0]:" . ($_->[2] // 1) . ":$id:$_->[1]" }
		  map { [ split /:/ ] } @messages ];
}

# Some published by the lease, and acked at the given time.
sub acked
{
	my ($token, $time, @messages) = @_;
	my @pairs = map { [ split /:/ ] } @messages;
	my $list = join(',', map { $_->[0] } @pairs);

	return ((map { [ 'published', $token, $_->[0], $id, $_->[1] ] } @pairs),
		[ 'ended', $token, $time, 'ack', $list ], [ 'acked', $token, $time, $list ]);
}

# Of a history of $plan's messages: what is found, as "fault key..., ...".
sub found
{
	my ($flow, @records) = @_;
	my $result = classify(\%plan, $flow, @records);

	return join(', ', map { @{ $result->{$_} } ? "$_ @{ $result->{$_} }" : () } @FAULTS)
	  . " / $result->{once} $result->{again}";
}

# Published by the lease, not acked.
sub published
{
	my ($token, @messages) = @_;

	return map { [ 'published', $token, $_->[0], $id, $_->[1] ] } map { [ split /:/ ] } @messages;
}

my @three = ('1:a1', '2:a2', '3:a3');
my @again = ('1:a1:2', '2:a2:2', '3:a3:2');
my @rest = (leased('rest', 500, '11:b1', '12:n1', '13:n2'), acked('rest', 501, '12:n1', '11:b1', '13:n2'));
my @all = (leased('t1', 100, @three), acked('t1', 101, @three), @rest);
my @late = (leased('t1', 100, @three), leased('t2', 110, @again), acked('t2', 111, @three),
	published('t1', '1:a1', '2:a2'));
my @released = (leased('t1', 100, @three), [ 'ended', 't1', 103, 'release', '1,2,3' ]);
my @flow = (leased('t1', 100, '1:a1'), [ 'redriven', 'a1' ], leased('t2', 111, '2:a2', '3:a3'),
	acked('t2', 112, '2:a2', '3:a3'), leased('t3', 120, '1:a1'), acked('t3', 121, '1:a1'), @rest);
my @histories = (
	[ ' / 6 0', 'everything once', 0, @all ],
	[ ' / 4 2', 'again, after its lease', 0, @late, @rest ],
	[ ' / 6 0', 'leased again after it was given back', 0, @released, leased('t2', 104, @three),
		acked('t2', 105, @three), @rest ],
	[ ' / 4 2', 'a repeat is not out of order', 0, leased('t1', 100, '1:a1', '2:a2'),
		acked('t1', 101, '1:a1', '2:a2'), leased('t2', 110, '3:a3'),
		published('t2', '3:a3'), published('t1', '1:a1', '2:a2'), @rest ],
	[ 'lost a2 a3 / 4 0', 'never published', 0, leased('t1', 100, @three), published('t1', '1:a1'), @rest ],
	[ 'lost a3 / 5 0', 'acked and never published', 0, leased('t1', 100, @three), published('t1', '1:a1', '2:a2'),
		[ 'acked', 't1', 101, '1,2,3' ], @rest ],
	[ 'invented x / 6 0', 'not in the plan', 0, @all, published('t1', '9:x') ],
	[ 'invented x / 6 0', 'leased, and not in the plan', 0, @all, leased('t2', 110, '9:x') ],
	[ 'invented a1 / 5 1', 'a second message for one key', 0, @all, [ 'published', 't1', 1, 'other', 'a1' ] ],
	[ 'disordered a3 / 6 0', 'published before an earlier one', 0, leased('t1', 100, @three),
		acked('t1', 101, '1:a1', '3:a3', '2:a2'), @rest ],
	[ 'disordered a3 / 6 0', 'acked before an earlier one', 0, leased('t1', 100, @three), published('t1', @three),
		[ 'acked', 't1', 101, '1,3' ], @rest ],
	[ 'shared a1 / 6 0', 'two have an order at once', 0, leased('t1', 100, @three), leased('t2', 105, '1:a1:2'),
		acked('t2', 106, '1:a1'), published('t1', '2:a2', '3:a3'), @rest ],
	[ 'unfenced a1 a2 a3 / 4 2', 'acked by a lease and by the next one', 0, @late,
		[ 'acked', 't1', 112, '1,2,3' ], @rest ],
	[ 'unfenced a1 / 6 0', 'leased again after it was acked', 0, @all, leased('t2', 112, '1:a1:2') ],
	[ 'uncounted a1 a2 a3 / 6 0', 'leased again with the same attempt', 0, leased('t1', 100, @three),
		leased('t2', 110, @three), acked('t2', 111, @three), @rest ],
	[ ' / 6 0', 'flow past a dead letter', 1, @flow ],
	[ 'disordered a2 a3 / 6 0', 'no wait for a dead letter', 0, @flow ]);

is(found(@{$_}[ 2 .. $#$_ ]), $_->[0], "checker: $_->[1]") foreach @histories;

###
### Notifications.
###

# The notices of a producer, by order: a payment, refunds, mostly a shipment; a few
# orders are hot.  Some are of an event without a machine, with few order numbers.
sub make_orders
{
	my ($prefix, $count) = @_;
	my @orders;

	while ($count > 0)
	{
		my $order = "$prefix-" . @orders;
		my $refunds = min($count, rand() < 0.05 ? 40 : int(rand(8)));
		my @events = ('PAY', ('REFUND') x $refunds, rand() < 0.7 ? 'SHIP' : ());
		my @notices = map { [ "$order.$_", $events[$_], $order ] } 0 .. $#events;

		push @notices, [ "$order.push", 'push', 'hot-' . int(rand(3)) ] if rand() < 0.3;
		push @orders, { name => $order, notices => \@notices };
		$count -= @notices;
	}
	return @orders;
}

# What has to arrive of the orders.  An event without a machine draws its message's
# number under no order's lock: such messages have no place among themselves.
sub make_plan
{
	my %plan;

	foreach my $notice (map { @{ $_->{notices} } } @_)
	{
		my ($txn, $event, $order) = @$notice;
		my ($place) = $txn =~ /\.(\d+)$/;

		$plan{"$txn:$event"} = [ defined $place ? $order : "event $order", $place ];
	}
	return %plan;
}

# A statement that delivers the notices and tells whether all were accepted.
sub delivery
{
	my $values = join(', ', map { "('$_->[0]', '$_->[1]', '$_->[2]')" } @_);

	return "SELECT bool_and(h.status = 'SUCCESS') FROM (VALUES $values) AS v (txn, event, order_no), "
	  . q{LATERAL handle_notify(v.txn, v.event, v.order_no, '\x00'::bytea) AS h};
}

# A transaction that delivers the notices and may not commit, and may deliver others
# too, which never do.
sub attempt
{
	my ($name, @notices) = @_;
	my $deliver = delivery(@notices);
	my $phantoms = delivery(map { [ "$name.$_->[0]", 'REFUND', $_->[2] ] } @notices);
	my $sleep = sprintf('SELECT FROM pg_sleep(%f)', rand() < 0.05 ? 0.5 : rand(0.02));

	return "BEGIN; $deliver; $sleep; ROLLBACK" if rand() < 0.3;
	return "BEGIN; SAVEPOINT a; $phantoms; ROLLBACK TO a; $deliver; $sleep; COMMIT" if rand() < 0.5;
	return "BEGIN; $deliver; $phantoms; $sleep; ROLLBACK" if rand() < 0.5;
	return "BEGIN; $deliver; $sleep; COMMIT";
}

# Delivers the notices of the orders, each order's in its order, until all are
# accepted.
sub produce
{
	my ($producer, $stopped, @orders) = @_;
	my $sender = Relay::Consumer->new(%$producer, stopped => $stopped);
	my @open;
	my $n = 0;

	while (!$stopped->() && (@orders || @open))
	{
		push @open, splice(@orders, 0, 20 - @open);
		my @notices =
		  map { splice(@{ $_->{notices} }, 0, 1 + rand(3)) } @open[ map { rand(@open) } 1 .. 1 + rand(5) ];
		next unless @notices;
		$n++;
		$sender->ask('notify', attempt("phantom.$producer->{name}.$n", @notices)) if rand() < 0.3;
		until (($sender->ask('notify', delivery(@notices)) // '') eq 't')
		{
			last if $stopped->();
		}
		@open = grep { @{ $_->{notices} } } @open;
	}
	return;
}

###
### Faults.
###

sub restart
{
	rand() < 0.7 ? $node->stop('immediate') : $node->kill9;
	start_again($node);
	return;
}

# Ends some backend's connection.
sub terminate
{
	my @pids = split /\n/, $node->safe_psql('postgres', q{
		SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid});

	$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $pids[ rand(@pids) ] . ')') if @pids;
	return;
}

# Kills a relay, and starts another in its place.
sub replace
{
	my @pids = grep { $children{$_}{max} } sort keys %children;
	my $pid = $pids[ rand(@pids) ];
	my $relay = delete $children{$pid};

	end_processes('KILL', $pid);
	start_child(%$relay, seed => int(rand(2**31)));
	return;
}

# Puts dead letters back, all or some, which is noted before.
sub redrive
{
	my ($broker, $share) = @_;
	my @dead = grep { rand() < $share } split /\n/, $node->safe_psql('postgres',
		q{SELECT seq || ' ' || (payload ->> 'biz_key') FROM notify_outbox_dead ORDER BY random()});
	my $sql = join(";\n", map { 'SELECT notify_outbox_redrive(' . (split / /)[0] . ')' } @dead);

	append($broker, 'redriven', (split / /)[1]) foreach @dead;
	$node->safe_psql('postgres', $sql) if @dead;
	return scalar @dead;
}

###
### All of it.
###

# Starts a relay, or a producer with its orders.
sub start_child
{
	my (%child) = @_;
	my $pid = $child{orders}
	  ? start_process($child{broker}, sub { srand($child{seed}); produce(\%child, $_[0], @{ $child{orders} }) })
	  : start_relay(%child);

	$children{$pid} = \%child;
	return;
}

# Waits for what has ended by itself; how many producers are left?
sub reap
{
	while ((my $pid = waitpid(-1, POSIX::WNOHANG)) > 0)
	{
		delete $children{$pid};
	}
	return scalar grep { $_->{orders} } values %children;
}

# Plays until all messages are written, and the outbox is empty or nothing moves any
# more; returns how often what has happened.
sub disturb
{
	my ($phase, $count) = @_;
	my %times = map { $_ => 0 } 'restarts', 'terminated', 'killed', 'redriven';
	my ($state, $moved) = ('', time);
	my $base = $node->safe_psql('postgres', 'SELECT count(*) FROM notify_claim');

	while (1)
	{
		my $producing = reap();
		my ($written, $left) = split / /, $node->safe_psql('postgres', q{
			SELECT concat_ws(' ', (SELECT count(*) FROM notify_claim),
				(SELECT count(*) FROM notify_outbox) + (SELECT count(*) FROM notify_outbox_dead))});

		last if !$producing && $left == 0;
		($state, $moved) = ("$written $left", time) if $state ne "$written $left";
		last if time - $moved > 60;
		$times{redriven} += redrive($phase->{broker}, $producing && rand() < 0.7 ? 0.3 : 1) if $phase->{dead};
		if ($written - $base >= min($restart_every, $count) * ($times{restarts} + 0.5))
		{
			$times{restarts}++;
			restart();
		}
		elsif ($producing || rand() < 0.2)
		{
			my $how = rand() < 0.5 ? 'terminated' : 'killed';

			$times{$how}++;
			$how eq 'killed' ? replace() : terminate();
		}
		usleep(rand(200_000));
	}
	return \%times;
}

sub play
{
	my ($name, $count, $phase, %relay) = @_;
	my @orders = map { [ make_orders("$name.$_", $count / $producers) ] } 1 .. $producers;
	my %expected = make_plan(map { @$_ } @orders);
	my $begin = time;

	$phase->{broker} = "$dir/$name";
	append($phase->{broker});
	$node->append_conf('postgresql.conf', "notify_claim.$_ = $phase->{settings}{$_}\n")
	  foreach sort keys %{ $phase->{settings} };
	$node->reload;
	$node->safe_psql('postgres', "COPY biz_order FROM STDIN;\n"
		  . join('', map { "$_->{name}\tPENDING_PAY\n" } map { @$_ } @orders) . "\\.\n");
	foreach my $n (1 .. $relays)
	{
		start_child(%relay, node => $node, broker => $phase->{broker}, name => "relay-$n", user => 'relay',
			level => $n % 4 ? 'read committed' : $n % 8 ? 'repeatable read' : 'serializable',
			seed => int(rand(2**31)), max => [ 1, 10, 100 ], lease => [ 0.2, 0.6 ], pause => 0.03);
	}
	foreach my $n (1 .. $producers)
	{
		start_child(node => $node, broker => $phase->{broker}, name => $n, seed => int(rand(2**31)),
			orders => $orders[ $n - 1 ]);
	}

	my $times = disturb($phase, scalar keys %expected);
	end_processes('TERM', keys %children);
	%children = ();
	judge("$name, seed $seed", $phase, \%expected, records($phase->{broker}));
	note("$name: ", scalar keys %expected, sprintf(' messages in %d s; ', time - $begin),
		join(', ', map { "$_ $times->{$_}" } sort keys %$times));
	cmp_ok($times->{redriven}, '>', 0, "$name, seed $seed: there were dead letters") if $phase->{dead};
	return;
}

sub judge
{
	my ($name, $phase, $expected, @records) = @_;
	my $result = classify($expected, $phase->{flow}, @records);
	my (%errors, %failed);

	foreach my $record (@records)
	{
		my ($what, $call, $state, @level) = @$record;

		$errors{"$call $state @level"}++ if $what eq 'error' && !grep { $_ eq $state } @RETRIABLE;
		$failed{"@$record"}++ if $what eq 'failed';
	}
	note("$name: " . summary($result));
	note("$name: errors: " . join(', ', map { "$_ $errors{$_}" } sort keys %errors));
	is($node->safe_psql('postgres', q{
			SELECT (SELECT count(*) FROM notify_outbox), (SELECT count(*) FROM notify_outbox_dead),
				(SELECT count(*) FROM notify_outbox_attempt)}), '0|0|0', "$name: nothing is left");
	is(join(' ', grep { defined } @{ $result->{$_} }[ 0 .. 9 ]), '', "$name: $_") foreach @FAULTS;
	is($result->{once} + $result->{again}, scalar keys %$expected, "$name: all were delivered");
	$total{$_} += $result->{$_} foreach 'once', 'again';
	is(join(', ', grep { !/ 40001 (?:repeatable read|serializable)$/ } sort keys %errors),
		'', "$name: errors that nobody expects");
	is(join(', ', keys %failed), '', "$name: no relay or producer has given up");
	return;
}

END
{
	my $status = $?;
	end_processes('KILL', keys %children);
	$? = $status;
}

note("NOTIFY_CLAIM_SEED=$seed");
srand($seed);
$node = start_node('outbox_chaos', "max_connections = 60\nlog_statement = none\nautovacuum_naptime = 5s\n");
create_orders($node);
$node->safe_psql('postgres', q{CREATE ROLE relay LOGIN; SELECT notify_grant('relay', 'relay')});

my %unreliable = (slow => 0.05, nack => 0.02, rude => 0.3, gap => 0.1, bits => 0.3, twice => 0.2,
	extend => 0.1, release => 0.1, forget => 0.02);
my %never = (max_attempts => 1000000, retry_delay => 0);
my %soon = (max_attempts => 2, retry_delay => '2ms', retry_delay_max => '10ms');

play('killed', 0.5 * $messages, { settings => {%never} }, %unreliable);
play('wait', 0.25 * $messages, { settings => { %soon, dead_letter => 'wait' }, dead => 1 },
	%unreliable, nack => 0.2);
play('flow', 0.25 * $messages, { settings => { %soon, dead_letter => 'flow' }, dead => 1, flow => 1 },
	%unreliable, nack => 0.2);
cmp_ok($total{$_}, '>', 0, "all of it, seed $seed: $_") foreach 'once', 'again';

$node->stop;
done_testing();
