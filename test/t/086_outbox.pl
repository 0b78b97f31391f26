# Consumers of the outbox that die, are too slow or are too many, and a server that
# stops under them: whatever step it happens at, a message is its consumer's, or
# free, or done with, as was last committed.  Nothing is lost, no order is in two
# hands, and what comes again has its id and the next attempt.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Broker qw(append classify records summary @FAULTS);
use List::Util qw(uniq);
use NotifyClaim;
use POSIX 'WNOHANG';
use PostgreSQL::Test::Utils;
use Relay;
use Test::More;
use Time::HiRes qw(usleep);

my $dir = PostgreSQL::Test::Utils::tempdir;
my $node = start_node('outbox', q{
	max_connections = 40
	max_prepared_transactions = 5
	restart_after_crash = on
	log_statement = none
	notify_claim.retry_delay = 0
}, init => { allows_streaming => 1 });
my %ids;
my @relays;

create_orders($node);

# Writes the messages "order.0", "order.1" ... of an order: a payment and refunds.
sub write_messages
{
	my ($order, $count) = @_;

	$node->safe_psql('postgres', qq{
		INSERT INTO biz_order VALUES ('$order', 'PENDING_PAY');
		SELECT handle_notify('$order.' || n, CASE n WHEN 0 THEN 'PAY' ELSE 'REFUND' END, '$order', '\\x00'::bytea)
		FROM generate_series(0, $count - 1) AS n});
	return;
}

# Leases messages: { token, seqs => [n], list => "order.n:attempt ..." by number }.
# A message must have the id that it had before.
sub lease
{
	my ($session, %args) = @_;
	my $arguments = join(', ', q{'a consumer'}, map { "$_ => '$args{$_}'" } sort keys %args);
	my $lease = { token => '', seqs => [], list => '' };
	my @rows = split /\n/, $session->query(qq{
		SELECT token, seq, id, split_part(payload ->> 'biz_key', ':', 1) || ':' || attempt
		FROM notify_outbox_lease($arguments) ORDER BY aggregateid, seq});

	return { %$lease, list => $rows[0] } if @rows && $rows[0] !~ /\|/;
	foreach my $row (@rows)
	{
		my ($token, $seq, $id, $name) = split /\|/, $row;

		$lease->{token} = $token;
		push @{ $lease->{seqs} }, $seq;
		$lease->{list} .= ($lease->{list} && ' ') . $name;
		is($id, $ids{$seq}, "$name: the same id") if $ids{$seq};
		$ids{$seq} = $id;
	}
	return $lease;
}

# The same, as soon as there is something.
sub lease_soon
{
	my ($session, %args) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $lease = lease($session, %args);

	while ($lease->{list} eq '' && time < $end)
	{
		usleep(10_000);
		$lease = lease($session, %args);
	}
	return $lease;
}

sub list
{
	my ($lease) = @_;
	return join(',', sort { $a <=> $b } @{ $lease->{seqs} });
}

# Calls with a lease, as SQL.
sub ack     { my ($lease) = @_; return "SELECT notify_outbox_ack('$lease->{token}', '{" . list($lease) . "}')"; }
sub nack    { my ($lease) = @_; return "SELECT notify_outbox_nack('$lease->{token}', $lease->{seqs}[0], 'bad')"; }
sub extend  { my ($lease) = @_; return "SELECT notify_outbox_extend('$lease->{token}')"; }
sub release { my ($lease) = @_; return "SELECT notify_outbox_release('$lease->{token}')"; }

# What a lease's token can still do, all of it.
sub powers
{
	my ($session, $lease) = @_;

	return join(' ', map { $session->query($_) } ack($lease), nack($lease), extend($lease), release($lease));
}

# How many messages are undelivered, how many are dead letters?
sub left
{
	return $node->safe_psql('postgres', q{
		SELECT concat_ws(' ', (SELECT count(*) FROM notify_outbox), (SELECT count(*) FROM notify_outbox_dead))});
}

# Passes where nothing is left, and sees to it that nothing is for what comes next.
sub nothing_left
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(left(), '0 0', "$name: nothing is left");
	$node->safe_psql('postgres', q{
		TRUNCATE notify_outbox, notify_outbox_dead, notify_outbox_held, notify_outbox_attempt, notify_outbox_leased});
	return;
}

###
### A dead consumer, and one that is too slow.
###

my $first = NotifyClaim::Session->new($node);
my $second = NotifyClaim::Session->new($node);
my $lease;

write_messages('dead', 2);
$lease = lease($first, lease => '1 ms');
is($lease->{list}, 'dead.0:1 dead.1:1', 'dead consumer: it had two messages');
is($second->query('SELECT pg_terminate_backend(' . $first->pid . ')'), 't', 'dead consumer: its session is gone');
$first->lost;
$lease = lease_soon($second);
is($lease->{list}, 'dead.0:2 dead.1:2', 'dead consumer: its messages come again');
is($second->query(ack($lease)), '{' . list($lease) . '}', 'dead consumer: and are done');

$first = NotifyClaim::Session->new($node);
write_messages('slow', 3);
$lease = lease($first, lease => '1 ms');
$first->query('SELECT pg_sleep(0.01)');
is(powers($first, $lease), '{} f f 0', 'slow consumer: its lease counts for nothing, before anybody else has leased');
my $next = lease($second);
is($next->{list}, 'slow.0:2 slow.1:2 slow.2:2', 'slow consumer: its messages go to another');
isnt($next->{token}, $lease->{token}, 'slow consumer: with another token');
is(powers($first, $lease), '{} f f 0', 'slow consumer: nor after that');
is(lease($first)->{list}, '', 'slow consumer: and has not touched what the other has');
is($second->query(ack($next)), '{' . list($next) . '}', 'slow consumer: the other acks all of it');
is($first->query(ack($lease)), '{}', 'slow consumer: an old token acks nothing that another has acked');

# An ack that is in time and commits late; on a slow machine it takes a longer lease.
my $ms = 100;
write_messages('late', 2);
while (1)
{
	$lease = lease_soon($first, lease => "$ms ms");
	$first->query('BEGIN');
	last if $first->query(ack($lease)) ne '{}';
	$first->query('ROLLBACK');
	$ms *= 4;
}
$first->query("SELECT pg_sleep(0.01 + $ms / 1000.0)");
is(lease($second)->{list}, '', 'late commit of an ack: meanwhile nobody gets the messages, nor waits for them');
$first->query('COMMIT');
is(lease($second)->{list}, '', 'late commit of an ack: they are done');
nothing_left('slow and dead consumers');
$_->quit foreach $first, $second;

###
### At each step a consumer's session is ended, its backend killed, or the server
### stopped.
###

# Ends the sessions with a fault; the server is there again afterwards.
sub strike
{
	my ($fault, @sessions) = @_;

	if ($fault eq 'terminated')
	{
		$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $_->pid . ')') foreach @sessions;
	}
	elsif ($fault eq 'killed')
	{
		# which tells that the postmaster has noticed
		my $witness = NotifyClaim::Session->new($node);

		kill('KILL', $sessions[0]->pid) or die $!;
		$witness->lost;
	}
	else
	{
		$node->stop('immediate');
	}
	$_->lost foreach @sessions;
	$node->start if $fault eq 'stopped';
	$node->poll_query_until('postgres', 'SELECT 1', '1') or die 'the server does not come back';
	return;
}

# A consumer that waits for its commit to be confirmed, which nobody does.
sub unanswered
{
	my ($session, $sql) = @_;

	$session->query('SET synchronous_commit = on');
	$session->send($sql);
	$node->poll_query_until('postgres',
		'SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = \'SyncRep\' AND pid = ' . $session->pid)
	  or die 'it does not wait';
	return;
}

# What a consumer with two messages has done when it is struck, in a transaction
# that is open or has been committed, or whose commit is not answered.
my %steps = (
	leased => sub { },
	acking => sub { $_[0]->query('BEGIN'), $_[0]->query(ack($_[1])) },
	acked => sub { $_[0]->query(ack($_[1])) },
	ack_unanswered => sub { unanswered($_[0], ack($_[1])) },
	nacking => sub { $_[0]->query('BEGIN'), $_[0]->query(nack($_[1])) },
	nack_unanswered => sub { unanswered($_[0], nack($_[1])) },
	extending => sub { $_[0]->query('BEGIN'), $_[0]->query(extend($_[1])) },
	releasing => sub { $_[0]->query('BEGIN'), $_[0]->query(release($_[1])) },
	release_unanswered => sub { unanswered($_[0], release($_[1])) });

$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'\nsynchronous_commit = local\n");
$node->reload;
foreach my $fault ('terminated', 'killed', 'stopped')
{
	my (%sessions, %leases);

	foreach my $step (sort keys %steps)
	{
		my $name = "$fault, $step";

		write_messages("$fault-$step", 2);
		$sessions{$step} = NotifyClaim::Session->new($node);
		$leases{$step} = lease($sessions{$step}, lease => '1 hour');
		is($leases{$step}{list}, "$fault-$step.0:1 $fault-$step.1:1", "$name: it has two messages");
	}
	$steps{$_}->($sessions{$_}, $leases{$_}) foreach sort keys %steps;
	write_messages("$fault-leasing", 2);
	$sessions{leasing} = NotifyClaim::Session->new($node);
	unanswered($sessions{leasing}, q{SELECT FROM notify_outbox_lease('a consumer', lease => '1 ms')});
	strike($fault, values %sessions);

	my $session = NotifyClaim::Session->new($node);
	foreach my $step ('leased', 'acking', 'acked', 'ack_unanswered', 'extending')
	{
		is( $session->query(ack($leases{$step})), '{' . list($leases{$step}) . '}',
			"$fault, $step: its token acks");
	}
	$session->query('SELECT pg_sleep(0.01)');
	$lease = lease($session);
	is( $lease->{list},
		join(' ', map { "$fault-$_" } 'leasing.0:2', 'leasing.1:2', 'nack_unanswered.0:2', 'nack_unanswered.1:1',
			'release_unanswered.0:1', 'release_unanswered.1:1'),
		"$fault: what was given back or is no longer leased comes again, and nothing else");
	is(lease($session)->{list}, '', "$fault: once");
	is($session->query(ack($lease)), '{' . list($lease) . '}', "$fault: and is done");
	is($session->query(nack($leases{nacking})), 't', "$fault, nacking: its token nacks");
	is($session->query(release($leases{releasing})), '2', "$fault, releasing: its token releases");
	foreach my $step ('nack_unanswered', 'release_unanswered')
	{
		is(powers($session, $leases{$step}), '{} f f 0', "$fault, $step: its token is good for nothing");
	}
	$lease = lease($session);
	is( $lease->{list},
		join(' ', map { "$fault-$_" } 'nacking.0:2', 'nacking.1:1', 'releasing.0:1', 'releasing.1:1'),
		"$fault: what is given back now comes again");
	$session->query(ack($lease));
	nothing_left($fault);

	# In the lease call's transaction.
	write_messages("$fault-open", 2);
	my $victim = NotifyClaim::Session->new($node);
	$victim->query('BEGIN');
	is(lease($victim)->{list}, "$fault-open.0:1 $fault-open.1:1", "$fault, leasing: it has two messages");
	is(lease($session)->{list}, '', "$fault, leasing: another gets nothing, and does not wait");
	$session->quit;
	strike($fault, $victim);
	$session = NotifyClaim::Session->new($node);
	$lease = lease($session);
	is( $lease->{list}, "$fault-open.0:1 $fault-open.1:1",
		"$fault, leasing: they come again, and count as never leased");
	$session->query(ack($lease));
	nothing_left("$fault, leasing");
	$session->quit;
}

###
### Numbers that appear late.
###

# Many messages of other orders go through, thrice: once for a mark to be set, once
# for it to be reached, below which nobody looks any more.
sub pass_others
{
	my ($session) = @_;

	foreach (1 .. 3)
	{
		$session->query(q{
			INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
				SELECT gen_random_uuid(), 'other', n::text, 'OTHER', '{}', now() FROM generate_series(1, 4000) AS n;
			DO $$
			DECLARE
				n integer;
			BEGIN
				FOR i IN 1 .. 20 LOOP
					SELECT count(notify_outbox_ack(token, seqs)) INTO n
						FROM (SELECT token, array_agg(seq) AS seqs
							FROM notify_outbox_lease('another', max => 2000) GROUP BY token) AS leased;
					COMMIT;
					EXIT WHEN n = 0;
				END LOOP;
			END $$});
	}
	return;
}

# Is the partition's mark past the number?
sub is_passed
{
	my ($session, $order, $seq) = @_;

	return $session->query(
		"SELECT low >= $seq FROM notify_outbox_partition WHERE partition = hashtext('$order') & 31");
}

my $session = NotifyClaim::Session->new($node);
my @late = map { NotifyClaim::Session->new($node) } 1 .. 4;
my $refund = sub { "SELECT outcome FROM handle_notify('$_[0].1', 'REFUND', '$_[0]', '\\x00'::bytea)" };

write_messages("late-$_", 1) foreach 0 .. 4;
$session->query(ack(lease($session)));
foreach my $n (0 .. 3)
{
	$late[$n]->query($n == 1 ? 'BEGIN ISOLATION LEVEL SERIALIZABLE' : 'BEGIN');
	$late[$n]->query('SAVEPOINT a') if $n == 2;
	is($late[$n]->query($refund->("late-$n")), 'APPLIED', "late $n: written, not committed");
}
$late[3]->query(q{PREPARE TRANSACTION 'late'});
is($session->query($refund->('late-4')), 'APPLIED', 'late: a higher number is committed before');
$lease = lease($session);
is($lease->{list}, 'late-4.1:1', 'late: and leased');
$session->query(ack($lease));
pass_others($session);
is(left(), '0 0', 'late: all the others are done');
is($late[0]->query('COMMIT'), '', 'late 0: committed');
$lease = lease($session);
is($lease->{list}, 'late-0.1:1', 'late 0: delivered');
$session->query(ack($lease));
pass_others($session);
$late[1]->query('COMMIT');
$late[2]->query('RELEASE SAVEPOINT a; COMMIT');
$lease = lease($session);
is($lease->{list}, 'late-1.1:1 late-2.1:1', 'late 1 and 2: delivered');
my $last = $lease->{seqs}[1];
$session->query(ack($lease));
pass_others($session);
is(is_passed($session, 'late-4', $last), 'f', 'late 3: the mark waits for a prepared transaction');
strike('stopped', $session, @late);
$session = NotifyClaim::Session->new($node);
pass_others($session);
$session->query(q{COMMIT PREPARED 'late'});
$lease = lease($session);
is($lease->{list}, 'late-3.1:1', 'late 3: delivered');
$session->query(ack($lease));
pass_others($session);
is(is_passed($session, 'late-4', $last), 't', 'late: the mark goes on once all are decided');
nothing_left('late');

# Not even where the order is held, here because a later message of it is a dead
# letter: an event without a machine draws its numbers under no order's lock.
my $writer = NotifyClaim::Session->new($node);
my $push = sub { "SELECT outcome FROM handle_notify('$_[0]', 'push', 'shared', '\\x00'::bytea)" };
$writer->query('BEGIN');
is($writer->query($push->('held.0')), 'APPLIED', 'late, held: written, not committed');
$session->query($push->("held.$_")) foreach 1, 2;
$lease = lease($session, max => 1);
is($lease->{list}, 'held.1:1', 'late, held: the first of two that are committed');
$session->query(nack($lease));
$lease = lease($session, max => 1);
is($session->query(ack($lease)), '{' . list($lease) . '}', 'late, held: is done after it failed');
$session->query('SET notify_claim.max_attempts = 1');
$lease = lease($session);
is($session->query(nack($lease)), 't', 'late, held: the second is a dead letter');
$writer->query('COMMIT');
pass_others($session);
is($session->query("SELECT notify_outbox_redrive(" . list($lease) . ')'), '', 'late, held: it is put back');
pass_others($session);
nothing_left('late, held');
$writer->quit;

###
### Dead letters.
###

# One is put back while later messages of its order are leased, which flow past it.
$session->query(q{SET notify_claim.max_attempts = 1; SET notify_claim.dead_letter = 'flow'});
write_messages('back', 1);
my $dead = lease($session);
is($session->query(nack($dead)), 't', 'put back: a dead letter');
pass_others($session);
is(is_passed($session, 'back', list($dead)), 't', 'put back: nobody looks for it there any more');
$session->query('SET notify_claim.max_attempts = 10');
$session->query($refund->('back'));
$lease = lease($session);
$session->query(nack($lease));
$lease = lease($session);
is($lease->{list}, 'back.1:2', 'put back: a later one has failed, and is leased again');
$session->query('SELECT notify_outbox_redrive(' . list($dead) . ')');
is(lease($session)->{list}, '', 'put back: not leased while another has messages of the order');
is($session->query(ack($lease)), '{' . list($lease) . '}', 'put back: the later one is done');
$lease = lease($session);
is($lease->{list}, 'back.0:1', 'put back: then it comes');
$session->query(ack($lease));
nothing_left('put back');

# One is put back in a transaction that stays open, while a lease of its order has
# run out.
$session->query(q{SET notify_claim.max_attempts = 1});
write_messages('open', 1);
$dead = lease($session);
$session->query(nack($dead));
$session->query('SET notify_claim.max_attempts = 10');
$session->query($refund->('open'));
is(lease($session, lease => '1 ms')->{list}, 'open.1:1', 'put back and open: a lease');
my $operator = NotifyClaim::Session->new($node);
$operator->query('BEGIN');
$operator->query('SELECT notify_outbox_redrive(' . list($dead) . ')');
$session->query('SELECT pg_sleep(0.01)');
is(lease($session)->{list}, '', 'put back and open: nothing of the order is leased, and nobody waits');
$operator->query('COMMIT');
$operator->quit;
$lease = lease($session);
is($lease->{list}, 'open.0:1 open.1:2', 'put back: then all of it, in order');
$session->query(ack($lease));
nothing_left('put back and open');

# One is purged while a lease call has just found that others wait for it.
$session->query(q{SET notify_claim.max_attempts = 1; SET notify_claim.dead_letter = 'wait'});
write_messages('purged', 2);
is($session->query(nack(lease($session))), 't', 'purged: a dead letter');
$session->query('BEGIN');
is(lease($session)->{list}, '', 'purged: the next one waits for it');
my $purger = NotifyClaim::Session->new($node);
my $watcher = NotifyClaim::Session->new($node);
$purger->send(q{SELECT notify_outbox_dead_purge('0')});
$watcher->wait_for_lock($purger);
$session->query('COMMIT');
is($purger->receive, '1', 'purged: the dead letter is gone');
$_->quit foreach $purger, $watcher;
$lease = lease($session);
is($lease->{list}, 'purged.1:1', 'purged: the next one waits no longer');
$session->query(ack($lease));
nothing_left('purged');
$session->quit;

# Starts a relay that reaches for everything.
sub relay
{
	my ($name, %params) = @_;

	return start_relay(node => $node, name => $name, %params);
}

# Ends the relays that are left.
sub end_relays
{
	end_processes('TERM', @relays);
	@relays = ();
	return;
}

# Waits until the query is true.
sub wait_for
{
	my ($query) = @_;

	$node->poll_query_until('postgres', $query) or die "waiting for $query";
	return;
}

# What the broker has of an order, each message's first publication.
sub published
{
	my ($broker, $order) = @_;
	my @names = grep { /^$order\./ } map { $_->[4] =~ s/:.*//r } grep { $_->[0] eq 'published' } records($broker);

	return join(' ', uniq(@names));
}

# A message ends whoever publishes it.  It becomes a dead letter, no other one does.
foreach my $policy ('wait', 'flow')
{
	my $broker = "$dir/$policy";
	my ($poison, $other) = ("poison-$policy", "other-$policy");

	$node->append_conf('postgresql.conf', "notify_claim.max_attempts = 4\nnotify_claim.dead_letter = $policy\n");
	$node->reload;
	write_messages($_, 2) foreach $poison, $other;
	append($broker);
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	for (my $n = 1; time < $end && left() ne ($policy eq 'wait' ? '1 1' : '0 1'); $n++)
	{
		@relays = (relay($n, broker => $broker, lease => [0.1], poison => "$poison.0:PAY")) unless @relays;
		@relays = () if waitpid($relays[0], WNOHANG) == $relays[0];
		usleep(10_000);
	}
	is(published($broker, $other), "$other.0 $other.1", "poison, $policy: another order flows");
	is( published($broker, $poison), $policy eq 'wait' ? '' : "$poison.1",
		"poison, $policy: its own order, by the policy");
	is( $node->safe_psql('postgres', q{
			SELECT split_part(payload ->> 'biz_key', ':', 1), reason, attempts, last_error FROM notify_outbox_dead}),
		"$poison.0|EXPIRED|4|", "poison, $policy: the one dead letter");
	end_relays();

	$node->safe_psql('postgres', 'SELECT notify_outbox_redrive(seq) FROM notify_outbox_dead');
	@relays = (relay('cured', broker => $broker));
	wait_for('SELECT NOT EXISTS (SELECT FROM notify_outbox)');
	end_relays();
	is( published($broker, $poison), $policy eq 'wait' ? "$poison.0 $poison.1" : "$poison.1 $poison.0",
		"poison, $policy: cured and put back, the order is complete");
	nothing_left("poison, $policy");
}

###
### Many consumers.
###

# So many messages of each of the orders are drained by sixteen relays, which take
# turns with the parameters; returns the records.
sub drain
{
	my ($name, $orders, $count, @params) = @_;
	my $broker = "$dir/$name";
	my %plan;

	foreach my $order (1 .. $orders)
	{
		$plan{"$name-$order.$_:" . ($_ ? 'REFUND' : 'PAY')} = [ $order, $_ ] foreach 0 .. $count - 1;
	}
	$node->safe_psql('postgres', qq{
		INSERT INTO biz_order SELECT '$name-' || o, 'PENDING_PAY' FROM generate_series(1, $orders) AS o;
		SELECT handle_notify(order_no || '.' || n, CASE n WHEN 0 THEN 'PAY' ELSE 'REFUND' END, order_no, '\\x00'::bytea)
		FROM generate_series(0, $count - 1) AS n, biz_order WHERE order_no LIKE '$name-%'});
	append($broker);
	@relays = map { relay("relay-$_", broker => $broker, seed => $_, %{ $params[ $_ % @params ] }) } 1 .. 16;
	wait_for('SELECT NOT EXISTS (SELECT FROM notify_outbox)');
	end_relays();

	my @records = records($broker);
	my $result = classify(\%plan, 0, @records);
	note("$name: " . summary($result));
	is("$result->{once} $result->{again}", $orders * $count . ' 0', "$name: everything was delivered once");
	is(join(' ', @{ $result->{$_} }), '', "$name: $_") foreach @FAULTS;
	cmp_ok(uniq(map { $_->[2] } grep { $_->[0] eq 'leased' } @records), '>', 1, "$name: by more than one");
	is(join(', ', map { "@$_" } grep { $_->[0] eq 'failed' } @records), '', "$name: nobody has given up");
	return @records;
}

sub errors
{
	return join(', ', uniq(sort map { "@{$_}[ 2 .. $#$_ ]" } grep { $_->[0] eq 'error' } @_));
}

is(errors(drain('hot', 1, 400, { max => [ 1, 7 ] })), '', 'hot: no error');
is(errors(drain('wide', 1000, 2, { max => [ 1, 50 ] })), '', 'wide: no error');
like(
	errors(drain('levels', 200, 4, map { +{ max => [ 1, 10 ], level => $_ } } 'repeatable read', 'serializable')),
	qr/^(?:40001 (?:repeatable read|serializable)(?:, |$))*$/, 'levels: no error but 40001');
nothing_left('many consumers');

# Above READ COMMITTED with a snapshot from before: what others have leased since
# then is not leased again.  The slots of two leases in one partition are free, and
# one is locked while the others lease.
foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	my ($old, $holder, $other) = map { NotifyClaim::Session->new($node) } 1 .. 3;
	my @orders = split /\n/, $node->safe_psql('postgres', qq{
		SELECT o FROM (SELECT '$level-' || n AS o FROM generate_series(1, 1000) AS n) AS orders
		WHERE hashtext(o) & 31 = 7 LIMIT 3});
	my @leases;

	foreach my $n (0, 1)
	{
		write_messages($orders[$n], 1);
		push @leases, lease($other, lease => $n + 1 . ' hours');
	}
	$other->query(ack($_)) foreach @leases;
	write_messages($orders[2], 1);
	$old->query("BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM notify_machine");
	$holder->query('BEGIN');
	is($holder->query(extend($leases[0])), 'f', "$level: a lease that is over");
	$lease = lease($other);
	is($lease->{list}, "$orders[2].0:1", "$level: a message is leased");
	$holder->query('COMMIT');
	like(lease($old)->{list}, qr/^(?:ERROR 40001)?$/, "$level: and not by an older snapshot as well");
	$old->query('ROLLBACK');
	is($other->query(ack($lease)), '{' . list($lease) . '}', "$level: it is done");
	nothing_left($level);
	$_->quit foreach $old, $holder, $other;
}

END
{
	my $status = $?;
	end_processes('KILL', @relays);
	$? = $status;
}

$node->stop;
done_testing();
