# What parking has to come to: random machines without cycles, sets of deliveries
# for them, and the model.
#
# A machine is { name, statuses => [name], edges => [{event, from, to, type}],
# events => {event => {from => edge}}, reach => {from => {to => 1}} }.  "event" is
# undefined for a step that the application makes, "to" for an edge that changes
# nothing, "type" for one without a message.
#
# A plan is { machine, start, deliveries => [event], steps => [{from, to, after}] }:
# what comes for one order, and what the application does to it meanwhile: a step
# once the order is in its from-status and so many deliveries have been applied
# (an application that first wants to see the notice that changes no status).
package Histories;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(any shuffle);

our @EXPORT = qw(chance pick random_machine random_plan random_fork
  new_order deliver act verdict permutations);

sub chance { return rand() < $_[0]; }
sub pick { return $_[ rand(@_) ]; }

###
### The model.
###

# The only order in which the deliveries, in whichever order they come, can be
# applied with the steps in between: { status, messages => [text], claims =>
# {number => answer}, statuses => [name] }.  Undefined where at some point two of
# them are legal, or one and a step.
sub in_order
{
	my ($plan) = @_;
	my $events = $plan->{machine}{events};
	my %open = map { $_ => $plan->{deliveries}[$_] } 0 .. $#{ $plan->{deliveries} };
	my @steps = @{ $plan->{steps} };
	my $run = { status => $plan->{start}, messages => [], claims => {}, statuses => [ $plan->{start} ] };

	while (1)
	{
		my @legal = grep { $events->{ $open{$_} }{ $run->{status} } } sort keys %open;
		my $step = @steps && $steps[0]{from} eq $run->{status}
		  && keys %{ $run->{claims} } >= $steps[0]{after};

		return undef if @legal + ($step ? 1 : 0) > 1;
		return $run unless @legal || $step;
		if ($step) { $run->{status} = (shift @steps)->{to} }
		else
		{
			my $event = delete $open{ $legal[0] };
			apply($run, $legal[0], $events->{$event}{ $run->{status} });
		}
		push @{ $run->{statuses} }, $run->{status};
	}
}

# Takes an event's edge: the status, the message, the claim's answer.
sub apply
{
	my ($order, $number, $edge) = @_;
	my $to = $edge->{to} // $edge->{from};

	push @{ $order->{messages} }, "$edge->{type} $edge->{from} $to $number" if defined $edge->{type};
	$order->{claims}{$number} = qq(APPLIED {"from": "$edge->{from}", "status": "$to"});
	$order->{status} = $to;
	return;
}

# What a status means for an event, in a machine without cycles and else-edges.
sub verdict
{
	my ($machine, $event, $status) = @_;
	my @edges = values %{ $machine->{events}{$event} };
	my $ahead = sub { $machine->{reach}{$status}{ $_[0]{from} } };

	return 'legal' if $machine->{events}{$event}{$status};
	return 'early' if any { defined $_->{to} && $ahead->($_) } @edges;
	return 'already' if any { defined $_->{to} && $_->{to} eq $status } @edges;
	return 'early' if any { $ahead->($_) } @edges;
	return 'stale';
}

# An order of a plan that nothing has come for yet.
sub new_order
{
	my ($plan) = @_;

	return {
		plan => $plan, status => $plan->{start}, messages => [], claims => {}, parked => [],
		released => 0, choices => 0, closed => 0 };
}

# The answer to a delivery.
sub deliver
{
	my ($order, $number) = @_;
	my $machine = $order->{plan}{machine};
	my $event = $order->{plan}{deliveries}[$number];
	my $claims = $order->{claims};
	my $verdict = verdict($machine, $event, $order->{status});

	return $claims->{$number} =~ s/^(\w+)/$1 replayed/r if $claims->{$number};
	if ($verdict eq 'legal')
	{
		apply($order, $number, $machine->{events}{$event}{ $order->{status} });
		my $answer = $claims->{$number};
		release($order);
		return $answer;
	}
	$claims->{$number} =
	  $verdict eq 'early'
	  ? qq(PARKED {"parked": "$order->{status}"})
	  : qq(SKIPPED {"reason": "$verdict", "skipped": "$order->{status}"});
	push @{ $order->{parked} }, $number if $verdict eq 'early';
	return $claims->{$number};
}

# The oldest that is legal, until none is; what can never become legal is closed,
# with which reason depends on when it is looked at.
sub release
{
	my ($order) = @_;
	my ($machine, $events) = @{ $order->{plan} }{qw(machine deliveries)};
	my $parked = $order->{parked};
	my $is = sub { verdict($machine, $events->[ $_[0] ], $order->{status}) };

	while (my @legal = grep { $is->($_) eq 'legal' } @$parked)
	{
		my $number = $legal[0];
		@$parked = grep { $_ != $number } @$parked;
		apply($order, $number, $machine->{events}{ $events->[$number] }{ $order->{status} });
		$order->{released}++;
		# a younger one was legal too, and is no longer
		$order->{choices}++ if any { $_ != $number && $is->($_) ne 'legal' } @legal;
	}
	foreach my $number (grep { $is->($_) ne 'early' } @$parked)
	{
		$order->{claims}{$number} = 'SKIPPED';
		$order->{closed}++;
	}
	@$parked = grep { $is->($_) eq 'early' } @$parked;
	return;
}

# The application tries its steps; returns how many it made.
sub act
{
	my ($order) = @_;
	my $made = 0;

	foreach my $step (@{ $order->{plan}{steps} })
	{
		next unless $order->{status} eq $step->{from};
		next unless (grep { /^APPLIED/ } values %{ $order->{claims} }) >= $step->{after};
		$order->{status} = $step->{to};
		$made++;
		release($order);
	}
	return $made;
}

###
### Random machines and plans.
###

# Adds an edge unless the event has one from there.
sub add_edge
{
	my ($machine, $event, $from, $to) = @_;
	my $edge = { event => $event, from => $from, to => $to };

	if (defined $event)
	{
		return if $machine->{events}{$event}{$from};
		$edge->{type} = pick('M1' .. 'M4') if chance(0.9);
		$machine->{events}{$event}{$from} = $edge;
	}
	else
	{
		return if any { !defined $_->{event} && $_->{from} eq $from && $_->{to} eq $to } @{ $machine->{edges} };
	}
	push @{ $machine->{edges} }, $edge;
	return;
}

# A machine of up to 8 statuses, and at least so many, along a path, with further
# edges beside it.  Each of its event types changes the status or never does.
sub random_machine
{
	my ($name, $least) = @_;
	my $machine = { name => $name, edges => [], events => {}, reach => {} };
	my @statuses = (shuffle('A' .. 'H'))[ 0 .. $least - 1 + int(rand(9 - $least)) ];
	my @events = map { "$name.E$_" } 1 .. 6;
	my @changing = @events[ 0 .. 3 + int(rand(3)) ];
	my @fresh = @changing;
	my $last = $#statuses;

	foreach my $i (0 .. $last - 1)
	{
		my $event = chance(0.25) ? undef : @fresh && chance(0.8) ? shift @fresh : pick(@changing);
		add_edge($machine, $event, @statuses[ $i, $i + 1 ]);
	}
	foreach (1 .. int(rand(5)))
	{
		my ($i, $j) = sort { $a <=> $b } map { int(rand(@statuses)) } 1 .. 2;
		my $event = chance(0.25) ? undef : pick(@changing);
		add_edge($machine, $event, @statuses[ $i, $j ]) if $i != $j;
	}
	foreach my $event (@events[ @changing .. $#events ])
	{
		add_edge($machine, $event, pick(@statuses), undef) foreach 1 .. 1 + int(rand(3));
	}
	foreach my $i (reverse 0 .. $last)
	{
		foreach my $edge (grep { $_->{from} eq $statuses[$i] && defined $_->{to} } @{ $machine->{edges} })
		{
			$machine->{reach}{ $statuses[$i] }{$_} = 1 foreach $edge->{to}, keys %{ $machine->{reach}{ $edge->{to} } };
		}
	}
	$machine->{statuses} = \@statuses;
	return $machine;
}

# A random way through the machine with so many deliveries, as a plan.
sub random_walk
{
	my ($machine, $start, $size) = @_;
	my $plan = { machine => $machine, start => $start, deliveries => [], steps => [] };
	my $status = $start;

	while (@{ $plan->{deliveries} } < $size || chance(0.5))
	{
		my @edges = grep { $_->{from} eq $status } @{ $machine->{edges} };
		@edges = grep { !defined $_->{event} } @edges if @{ $plan->{deliveries} } >= $size;
		my $edge = pick(@edges) or last;
		if (defined $edge->{event}) { push @{ $plan->{deliveries} }, $edge->{event} }
		else { push @{ $plan->{steps} }, { %$edge, after => scalar @{ $plan->{deliveries} } } }
		$status = $edge->{to} // $status;
	}
	return $plan;
}

# A plan with so many deliveries that have an order to be applied in, some of them
# perhaps ones that this leaves out; undefined where the machine has none.
sub random_plan
{
	my ($machine, $size) = @_;
	my $strays = $size > 1 && chance(0.2) ? 1 : 0;

	foreach (1 .. 40)
	{
		my $plan = random_walk($machine, pick(@{ $machine->{statuses} }[ (0) x 6, 0 .. $#{ $machine->{statuses} } ]),
			$size - $strays);
		push @{ $plan->{deliveries} }, pick(sort keys %{ $machine->{events} }) if $strays;
		my $run = in_order($plan) or next;
		next unless @{ $plan->{deliveries} } == $size && keys %{ $run->{claims} } == $size - $strays;
		$plan->{run} = $run;
		return $plan;
	}
	return undef;
}

# A plan of deliveries that may exclude each other: the first begins a way through
# the machine, the others are legal somewhere behind it.  Undefined where there are
# none.
sub random_fork
{
	my ($machine, $size) = @_;
	my $start = $machine->{statuses}[0];
	my $plan = random_walk($machine, $start, 1 + int(rand($size - 1)));
	my $events = $machine->{events};
	my @behind = grep { any { $machine->{reach}{$start}{$_} } keys %{ $events->{$_} } } sort keys %$events;

	return undef unless @behind && @{ $plan->{deliveries} };
	push @{ $plan->{deliveries} }, pick(@behind) while @{ $plan->{deliveries} } < $size;
	$_->{after} = 0 foreach @{ $plan->{steps} };
	return $plan;
}

# All permutations of the numbers below n, or so many random ones.
sub permutations
{
	my ($n, $random) = @_;
	my @permutations = ([]);

	return map { [ shuffle(0 .. $n - 1) ] } 1 .. $random if $n > 5;
	foreach my $number (0 .. $n - 1)
	{
		@permutations = map {
			my $p = $_;
			map { [ @{$p}[ 0 .. $_ - 1 ], $number, @{$p}[ $_ .. $#$p ] ] } 0 .. @$p
		} @permutations;
	}
	return @permutations;
}

1;
