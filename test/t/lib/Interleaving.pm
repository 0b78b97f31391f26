# Plays interleavings of notifications over sessions that may have to wait, each
# at READ COMMITTED, REPEATABLE READ and SERIALIZABLE, all sessions at the same
# level.  Every step that is said to wait is seen to wait before the next one is
# taken.
package Interleaving;

use strict;
use warnings;

use Exporter 'import';
use NotifyClaim;
use Test::More;

our @EXPORT = qw(stage set_stage play leave);

# Two orders for each play, A and B, and notices for them.
my %notice = (
	'pay' => [ 'T1-%d', 'PAY', 'A-%d', '01' ],
	'pay/body' => [ 'T1-%d', 'PAY', 'A-%d', '02' ],
	'pay/order' => [ 'T1-%d', 'PAY', 'B-%d', '01' ],
	'pay/other' => [ 'T2-%d', 'PAY', 'A-%d', '01' ],
	'ship' => [ 'T3-%d', 'SHIP', 'A-%d', '01' ],
	'payB' => [ 'T4-%d', 'PAY', 'B-%d', '01' ],
	'push' => [ 'T5-%d', 'push', 'A-%d', '01' ]);

# What else the sessions do.
my $hold = q{DO 'BEGIN PERFORM FROM biz_order WHERE order_no = ''%s-%%d'' FOR UPDATE; END'};
my %statement = (
	'hold' => sprintf($hold, 'A'),
	'holdB' => sprintf($hold, 'B'),
	'cancel' => q{UPDATE biz_order SET status = 'CANCELLED'
		WHERE order_no = 'A-%d' AND status = 'PENDING_PAY'},
	'deliver' => q{UPDATE biz_order SET status = 'SHIPPED' WHERE order_no = 'A-%d'},
	'delete' => q{DELETE FROM biz_order WHERE order_no = 'A-%d'},
	'insert' => q{INSERT INTO biz_order VALUES ('A-%d', 'PENDING_PAY')},
	'PREPARE' => q{PREPARE TRANSACTION 'p-%d'},
	'COMMIT PREPARED' => q{COMMIT PREPARED 'p-%d'},
	'ROLLBACK PREPARED' => q{ROLLBACK PREPARED 'p-%d'},
	'impatient' => q{SET LOCAL notify_claim.busy_timeout = '1ms'});

# What is done before each play, and looked at in the end.
my $beginning = '';
my $ending = q{
	SELECT (SELECT count(*) FROM notify_claim WHERE biz_key LIKE 'T_-%d:%') || ' claims, '
		|| (SELECT count(*) FROM moved WHERE by_call AND order_no LIKE '_-%d') || ' transitions, '
		|| (SELECT count(*) FROM notify_outbox WHERE aggregateid LIKE '_-%d') || ' messages'
		|| (SELECT coalesce(string_agg(', ' || left(order_no, 1) || ' ' || status, ''
				ORDER BY order_no), '')
			FROM biz_order WHERE order_no LIKE '_-%d');
	SELECT * FROM broken};

my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
my (%session, $n, $level);

# The server that the plays are given on; create_orders() has been there.
sub stage
{
	my ($node) = @_;

	%session = map { $_ => NotifyClaim::Session->new($node) } qw(a b c watcher);
	$n = 0;
	return;
}

# Sets what plays about something else need: "notices" and "statements" beside
# those above, "beginning" and "ending" instead of them.
sub set_stage
{
	my (%set) = @_;

	%notice = (%notice, %{ $set{notices} // {} });
	%statement = (%statement, %{ $set{statements} // {} });
	$beginning = $set{beginning} // $beginning;
	$ending = $set{ending} // $ending;
	return;
}

sub leave
{
	$_->quit foreach values %session;
	return;
}

# The text with the play's number for each %d.
sub numbered
{
	my ($text) = @_;

	return $text =~ s/%d/$n/gr;
}

# Takes one step, "session: what" or "session: what = outcome", and returns the
# outcome that it had.
#
#	what		BEGIN; a notice or statement from above; nothing: what the
#				session was left waiting for; or any other SQL
#	outcome		polls, locks: has to wait, in this way; else what it prints,
#				"X or Y" where both will do
sub step
{
	my ($who, $what, $outcome) = @_;
	my $session = $session{$who};

	$what = "BEGIN ISOLATION LEVEL $levels[$level]" if $what eq 'BEGIN';
	if ($notice{$what})
	{
		$session->send_notify(map { numbered($_) } @{ $notice{$what} });
	}
	elsif ($what ne '')
	{
		$session->send(numbered($statement{$what} // $what));
	}
	return $outcome
	  if $outcome eq 'polls' && $session{watcher}->wait_for_poll($session);
	return $outcome
	  if $outcome eq 'locks' && $session{watcher}->wait_for_lock($session);
	return $session->receive;
}

# "X | Y | Z": one for each level; the last one given holds for all above it.
sub at_level
{
	my ($text) = @_;
	my @texts = split / \| /, $text;

	return $texts[$level] // $texts[-1];
}

# What became of the play's claims, orders and messages, and of the promises.
sub the_end
{
	return $session{watcher}->query(numbered($ending));
}

# Plays the steps at each level.  Every step must have its outcome, and in the
# end claims, transitions, messages and orders must be as given, and no promise
# broken.
sub play
{
	my ($name, $end, @steps) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach (0 .. $#levels)
	{
		my (@got, @expected);

		$level = $_;
		$n++;
		$session{watcher}->query("$beginning; INSERT INTO biz_order VALUES ('A-$n', 'PENDING_PAY'), ('B-$n', 'PENDING_PAY')");
		$session{$_}->query(q{SET notify_claim.busy_timeout = '60s'}) foreach qw(a b c);
		foreach my $step (@steps)
		{
			my ($who, $what, $outcome) = $step =~ /^(\w): ?(.*?)(?: ?= ?(.*))?$/ or die $step;
			my $got;

			$outcome = defined $outcome ? at_level($outcome) // '' : '';
			$got = step($who, $what, $outcome);
			$got = $outcome if grep { $_ eq $got } split / or /, $outcome;
			push @expected, "$who: $what = $outcome";
			push @got, "$who: $what = $got";
		}
		is( join("\n", @got, the_end()), join("\n", @expected, at_level($end)),
			"$name, $levels[$level]");
	}
	return;
}

1;
