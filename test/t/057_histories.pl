# Whatever the order that events come in, however often each, and whatever the
# application does in between: the order's status and the sequence of its messages
# are those of the order that they belong into.  Where that is open, because one
# excludes another, the one that has waited longest is applied.
#
# Random machines, random sets of deliveries with all their permutations, one or
# two orders at once, in one session and in four; a model in lib says what has to
# come of it.
#
# HISTORIES=n plays so many, 20000 unless it is set (make histories).  Set
# NOTIFY_CLAIM_SEED to the seed that a failed run has printed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Histories;
use List::Util qw(min shuffle);
use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{NOTIFY_CLAIM_SEED} // int(rand(2**31));
my $wanted = $ENV{HISTORIES} // 20_000;
my $batch = 20_000;
my $workers = 4;
my $dir = PostgreSQL::Test::Utils::tempdir;
my $node = start_node('histories', "client_min_messages = warning\nsynchronous_commit = off\n");
my ($database, %file, %seen, $histories);

###
### What is played.
###

# Adds a row to a table's file; NULL for what is undefined.
sub put
{
	my ($table, @row) = @_;

	print { $file{$table} } join("\t", map { $_ // '\N' } @row) . "\n";
	return;
}

sub put_machine
{
	my ($machine) = @_;

	put('notify_event', $_, $machine->{name}) foreach sort keys %{ $machine->{events} };
	put('notify_transition', $machine->{name}, @{$_}{qw(event from to type)}) foreach @{ $machine->{edges} };
	foreach my $event (sort keys %{ $machine->{events} })
	{
		put('verdict', $event, $_, verdict($machine, $event, $_)) foreach @{ $machine->{statuses} };
	}
	return;
}

# What happens to an order: its deliveries in the given order, some of them again
# later, the application now and then and, because it gets to it some time, at last.
sub sequence
{
	my ($k, $plan, @numbers) = @_;
	my @ops;

	foreach my $number (reverse @numbers)
	{
		unshift @ops, $number;
		splice(@ops, 1 + int(rand(@ops)), 0, $number) while chance(0.2);
	}
	@ops = map { $_, chance(0.6) ? undef : () } @ops if @{ $plan->{steps} };
	return map { [ $k, $_ ] } @ops, undef, grep { chance(0.2) } @numbers;
}

# Both in their order, one among the other.
sub interleave
{
	my @sequences = @_;
	my @turns = shuffle(map { ($_) x @{ $sequences[$_] } } 0 .. $#sequences);

	return map { shift @{ $sequences[$_] } } @turns;
}

# An order, and what has to become of it: as the model's order has ended, or for a
# plan with a run of its own as that has.
sub put_order
{
	my ($history, $k, $order_no, $plan, $order) = @_;
	my $end = $plan->{run} // $order;

	put('placed', $history, $k, $plan->{machine}{name}, $order_no, $plan->{start},
		'{' . join(',', map { "$_->{from} $_->{to} $_->{after}" } @{ $plan->{steps} }) . '}',
		$end->{status}, join(', ', @{ $end->{messages} }), undef);
	foreach my $number (0 .. $#{ $plan->{deliveries} })
	{
		my $event = $plan->{deliveries}[$number];
		my $answer = $end->{claims}{$number}
		  // (verdict($plan->{machine}, $event, $end->{status}) eq 'early' ? 'PARKED' : 'SKIPPED');

		put('due', $history, $k, $number, $event, $answer);
	}
	return;
}

# A history of one or two orders, which may have the same number if they are not
# of the same machine.
sub put_history
{
	my @plans = map { $_->[0] } @_;
	my @ops = interleave(map { [ sequence($_, $_[$_][0], @{ $_[$_][1] }) ] } 0 .. $#_);
	my @orders = map { new_order($_) } @plans;
	my $history = ++$histories;
	my $shared = @plans > 1 && $plans[0]{machine} != $plans[1]{machine} && chance(0.5);
	my $n = 0;

	foreach my $op (@ops)
	{
		my ($k, $number) = @$op;
		my $released = $orders[$k]{released};
		my $answer = defined $number ? deliver($orders[$k], $number) : act($orders[$k]);

		next if !defined $number && !$answer && chance(0.8);    # in vain
		put('op', $history, ++$n, $k, defined $number ? $plans[$k]{deliveries}[$number] : undef,
			$number, $answer);
		$seen{ $answer =~ s/ \{.*//r }++ if defined $number;
		$seen{steps} += $answer unless defined $number;
		$seen{chains}++ if $orders[$k]{released} > $released + 1;
	}
	foreach my $k (0 .. $#orders)
	{
		my ($order, $run) = ($orders[$k], $plans[$k]{run});

		put_order($history, $k, $shared ? "h$history" : "h$history-$k", $plans[$k], $order);
		$seen{$_} += $order->{$_} foreach qw(released choices closed);
		die "the model contradicts itself in history $history, seed $seed"
		  if $run && join(', ', $run->{status}, @{ $run->{messages} }) ne
		  join(', ', $order->{status}, @{ $order->{messages} });
	}
	$seen{two}++ if @plans > 1;
	return;
}

# Plans with an order of their own, each with a new machine or the last plan's.
sub make_plans
{
	my ($count) = @_;
	my (@plans, $machine);
	my $machines = 0;

	while ($count > 0)
	{
		my $size = pick(1, 2, 2, (3) x 3, (4) x 6, (5) x 4, (6) x 5);
		my $plan = $machine && chance(0.75) ? random_plan($machine, $size) : undef;

		while (!$plan)
		{
			$machine = random_machine('m' . ($machines + 1), $size + (chance(0.5) || $size == 1));
			$plan = random_plan($machine, $size) or next;
			$machines++;
			put_machine($machine);
		}
		push @plans, $plan;
		$count -= $plan->{count} = (1, 1, 2, 6, 24, 120, 60)[$size];
	}
	return @plans;
}

sub put_histories
{
	my ($count, @plans) = @_;

	foreach my $plan (@plans)
	{
		foreach my $numbers (permutations(scalar @{ $plan->{deliveries} }, $plan->{count}))
		{
			my $other = pick(@plans);
			put_history([ $plan, $numbers ],
				chance(0.1) ? [ $other, [ shuffle(0 .. $#{ $other->{deliveries} }) ] ] : ());
		}
	}
	return;
}

# Plans where events may exclude each other, mostly with what begins them last.
sub put_forks
{
	my ($count) = @_;
	my $end = $histories + $count;

	for (my $i = 1; $histories < $end; $i++)
	{
		my $machine = random_machine("f$i", 3 + int(rand(4)));

		put_machine($machine);
		foreach (1 .. 8)
		{
			my $plan = random_fork($machine, 3 + int(rand(4))) or next;
			my @others = 1 .. $#{ $plan->{deliveries} };

			put_history([ $plan, chance(0.7) ? [ shuffle(@others), 0 ] : [ shuffle(0, @others) ] ]) foreach 1 .. 8;
		}
	}
	return;
}

###
### Several sessions.
###

# The statements of a round's histories, each with its session.  "ops" is which of
# a history's lists.
sub make_statements
{
	my ($n, $ops, @round) = @_;
	my @statements;

	foreach my $h (@round)
	{
		foreach my $op (@{ $h->{$ops} })
		{
			my ($k, $number) = @$op;
			my $session = int(rand($workers));
			my $level = pick(('READ COMMITTED') x 3, ('REPEATABLE READ') x 2, 'SERIALIZABLE');
			my $place = "$$n, $session, $h->{id}, $k";
			my $call =
			  defined $number
			  ? "session_deliver($place, '$h->{order_no}[$k]', '$h->{plans}[$k]{deliveries}[$number]', $number)"
			  : "session_act($place)";

			# the snapshot is taken, and others come in between
			push @statements, { n => $$n++, session => $session, sql => join("\n",
				"BEGIN ISOLATION LEVEL $level;",
				'SELECT 1 \g /dev/null',
				"SELECT pg_sleep(0.002 * random()), $call \\g /dev/null",
				'COMMIT;') };
		}
	}
	return @statements;
}

# Lets the sessions run them, again where one was told to try again.
sub run_statements
{
	my ($sessions, @statements) = @_;

	foreach my $try (1 .. 200)
	{
		my @errors;

		foreach my $s (0 .. $#$sessions)
		{
			$sessions->[$s]->send(join("\n", map { $_->{sql} } grep { $_->{session} == $s } @statements) || ';');
		}
		foreach my $session (@$sessions)
		{
			push @errors, grep { $_ ne 'ERROR 40001' } split /\n/, $session->receive;
		}
		die "session: @errors, seed $seed" if @errors;
		my %done = map { $_ => 1 } split /\n/,
		  $sessions->[0]->query("SELECT n FROM answered WHERE n >= $statements[0]{n}");
		@statements = grep { !$done{ $_->{n} } } @statements;
		return unless @statements;
		$seen{retries} += @statements;
	}
	die "statements are told to try again forever, seed $seed: $statements[0]{sql}";
}

# Histories of one or two orders whose deliveries are spread over the sessions; then
# the application makes what steps are left, and everything comes once more.
sub place_session_histories
{
	my ($count, @plans) = @_;
	my @histories;

	foreach (1 .. $count)
	{
		my @own = map { pick(@plans) } 0 .. chance(0.3);
		my $h = { id => ++$histories, plans => \@own, order_no => [ map { "s$histories-$_" } 0 .. $#own ] };

		$h->{ops} = [ interleave(map {
			my @numbers = shuffle(0 .. $#{ $own[$_]{deliveries} });
			[ sequence($_, $own[$_], @numbers) ] } 0 .. $#own) ];
		$h->{steps} = [ map { [ $_, undef ] } 0 .. $#own ];
		$h->{again} = [ map {
			my $k = $_;
			map { [ $k, $_ ] } 0 .. $#{ $own[$k]{deliveries} } } 0 .. $#own ];
		put_order($h->{id}, $_, $h->{order_no}[$_], $own[$_]) foreach 0 .. $#own;
		push @histories, $h;
	}
	return @histories;
}

sub play_in_sessions
{
	my @histories = @_;
	my @sessions = map { NotifyClaim::Session->new($node, '-d', $node->connstr($database)) } 1 .. $workers;
	my $n = 0;

	while (my @round = splice(@histories, 0, 10))
	{
		run_statements(\@sessions, make_statements(\$n, $_, @round)) foreach qw(ops steps again);
	}
	$_->quit foreach @sessions;
	return;
}

###
### A batch.
###

sub none
{
	my ($query, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($database, "$query LIMIT 5"), '', "$name, seed $seed");
	return;
}

# Plays so many histories, in a database of their own.
sub play_batch
{
	my ($count) = @_;
	my %columns = (
		notify_event => '(event_type, machine)',
		notify_transition => '(machine, event_type, from_status, to_status, message_type)',
		map { $_ => '' } qw(placed op due verdict));
	my (@plans, @in_sessions);

	srand($seed);
	note("NOTIFY_CLAIM_SEED=$seed");
	%seen = ();
	$histories = 0;
	$database = "histories_$seed";
	foreach my $table (sort keys %columns)
	{
		open($file{$table}, '>', "$dir/$table") or die $!;
	}
	@plans = make_plans($count);
	put_histories($count, @plans);
	$seen{ordered} = $histories;
	put_forks($count * 0.1);
	my $played = $histories;
	@in_sessions = place_session_histories($count * 0.015, @plans);
	close($_) foreach values %file;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, "\\i $FindBin::RealBin/lib/histories.sql");
	$node->safe_psql($database, join('', map { "\\copy $_ $columns{$_} FROM '$dir/$_'\n" } sort keys %columns)
		  . "SELECT place_orders();\nANALYZE;");
	my @players = map { NotifyClaim::Session->new($node, '-d', $node->connstr($database)) } 0, 1;
	$players[$_]->send("CALL play($_);") foreach 0, 1;
	is(join('', map { $_->receive } @players), '', "the histories are played, seed $seed");
	$_->quit foreach @players;
	play_in_sessions(@in_sessions);
	$node->safe_psql($database, 'SELECT collect_orders(); ANALYZE');

	note(join(', ', "$played histories", scalar(@in_sessions) . ' in sessions', map { "$_ $seen{$_}" } sort keys %seen));
	is($node->safe_psql($database, 'SELECT count(*) FROM played'), $played, "all were played, seed $seed");
	none('SELECT * FROM wrong_status', 'the orders end where they should');
	none('SELECT * FROM wrong_messages', 'the messages are those that there should be, in their order');
	none('SELECT * FROM wrong_claims', 'the claims are applied, skipped or parked as they should');
	none('SELECT * FROM wrong_reasons', 'what is skipped is, where it says that it is');
	none('SELECT * FROM wrong_links', 'claims, messages and kept bodies fit');
	none('SELECT * FROM wrong_answers', 'all answers are as they should be');
	none('SELECT * FROM wrong_in_sessions', 'the sessions were answered alike');
	none('SELECT * FROM notify_review', 'there is nothing to review');
	$node->safe_psql('postgres', "DROP DATABASE $database") if Test::More->builder->is_passing;
	return;
}

END { diag("NOTIFY_CLAIM_SEED=$seed") if $? || !Test::More->builder->is_passing }

for (my $left = $wanted; $left > 0; $left -= $batch)
{
	play_batch(min($left, $batch));
	last unless Test::More->builder->is_passing;
	cmp_ok($seen{ordered}, '>=', min($left, $batch), 'so many histories have an order of their own');
	is(join(' ', grep { !$seen{$_} } 'APPLIED', 'PARKED', 'SKIPPED', 'APPLIED replayed', 'PARKED replayed',
			'SKIPPED replayed', qw(steps released chains closed choices two)), '',
		'of everything there is some') if $left >= 1000;
	$seed++;
}
$node->stop;
done_testing();
