# Consumers of the outbox, each a process of its own with a psql of its own, that
# publish to the broker of Broker.pm and are as unreliable as they are told to be.
package Relay;

use strict;
use warnings;

use Broker;
use Exporter 'import';
use POSIX ();

our @EXPORT = qw(start_process start_relay end_processes);

# Starts a process that runs the code, with a function that tells whether it is to
# end: after SIGTERM, or without its parent.  What it says goes nowhere, what it
# dies of to the broker.
sub start_process
{
	my ($broker, $code) = @_;
	my $parent = $$;
	my $pid = fork() // die $!;
	return $pid if $pid;

	my $stopped = 0;
	$SIG{TERM} = sub { $stopped = 1 };
	open(STDIN, '<', '/dev/null');
	open(STDOUT, '>', '/dev/null');
	open(STDERR, '>', '/dev/null');
	eval { $code->(sub { $stopped || getppid() != $parent }); 1 }
	  or Broker::append($broker, 'failed', split ' ', $@);
	POSIX::_exit(0);
}

# Ends the processes with a signal, and waits for them.
sub end_processes
{
	my ($signal, @pids) = @_;

	kill($signal, $_) foreach @pids;
	waitpid($_, 0) foreach @pids;
	return;
}

# Starts a relay that goes on until SIGTERM.  Parameters:
#
#	node, broker, name, seed
#	connection  the node's, unless it is set
#	user        role
#	level       isolation level
#	max, lease  array of a lease's number of messages, of its seconds
#	pause       seconds to sleep at most where there is nothing, or was something
#	poison      key that makes it die
#
# and probabilities, of a batch but for nack:
#
#	slow        the lease runs out before it publishes, or acks
#	nack        of a message: it could not be published
#	rude        it goes on publishing when it has learned that the lease is lost
#	gap         it asks for a message to be acked before an earlier one
#	bits        it acks bit by bit
#	twice       it acks again
#	extend      it extends the lease
#	release     it gives back what it has not come to
#	forget      it does neither that nor ack
sub start_relay
{
	my (%how) = @_;

	return start_process($how{broker}, sub { Relay::Consumer->new(%how, stopped => $_[0])->run });
}

package Relay::Consumer;

use List::Util qw(first);
use NotifyClaim;
use Time::HiRes qw(time usleep);

sub new
{
	my ($class, %how) = @_;

	srand($how{seed} // 0);
	return bless {
		level => 'read committed', max => [100], lease => [3600], pause => 0.01, poison => '', user => 'postgres',
		connection => $how{node}->connstr('postgres'), %how
	}, $class;
}

sub maybe
{
	my ($self, $what) = @_;
	return rand() < ($self->{$what} // 0);
}

# The time as records have it.
sub now
{
	return sprintf('%.6f', time());
}

sub note
{
	my ($self, @words) = @_;

	Broker::append($self->{broker}, @words);
	return;
}

# Connects, however long it takes.
sub connect
{
	my ($self) = @_;
	my $level = $self->{level} =~ s/ /\\\\ /r;
	my $options = $self->{level} eq 'read committed' ? '' : "options='-c default_transaction_isolation=$level'";

	until ($self->{session} || $self->{stopped}->())
	{
		my $session =
		  NotifyClaim::Session->new($self->{node}, '-d', "$self->{connection} user=$self->{user} $options");

		$self->{session} = $session if $session->pid =~ /^\d+$/;
		usleep(50_000) unless $self->{session};
	}
	return;
}

sub disconnect
{
	my ($self) = @_;

	$self->{session}->quit if $self->{session};
	$self->{session} = undef;
	return;
}

# Runs a statement, again where it could not be serialized; undefined where there
# is no answer.
sub ask
{
	my ($self, $call, $sql) = @_;

	while (1)
	{
		$self->connect;
		return undef unless $self->{session};
		my $answer = $self->{session}->query("$sql\n;\\warn <error :ERROR>");

		return $answer if $answer =~ s/\n?^<error false>\z//m;
		my $state = $answer =~ /^(?:ERROR|FATAL|PANIC) (\w+)$/m ? $1 : 'lost';
		$self->note('error', $call, $state, $self->{level});
		$self->disconnect if grep { $_ eq $state } @Broker::RETRIABLE;
		return undef unless $state eq '40001';
	}
}

sub run
{
	my ($self) = @_;

	until ($self->{stopped}->())
	{
		my $batch = $self->lease;
		$self->work($batch) if $batch;
		usleep(rand($self->{pause}) * 1e6);
	}
	$self->disconnect;
	return;
}

# Leases messages: { token, until, messages => [{seq, id, order, key}] }.
sub lease
{
	my ($self) = @_;
	my $max = $self->{max}[ rand(@{ $self->{max} }) ];
	my $seconds = $self->{lease}[ rand(@{ $self->{lease} }) ];
	my $sent = now();
	my $answer = $self->ask('lease', qq{
		SELECT token, seq, attempt, id, aggregatetype || '/' || aggregateid, payload ->> 'biz_key'
		FROM notify_outbox_lease('$self->{name}', max => $max, lease => '$seconds s')});
	my $answered = now();
	my $batch = { seconds => $seconds, until => $sent + $seconds };

	return undef unless length($answer // '');
	foreach my $row (split /\n/, $answer)
	{
		my ($token, $seq, $attempt, $id, $order, $key) = split /\|/, $row;

		$batch->{token} = $token;
		push @{ $batch->{messages} }, { seq => $seq, attempt => $attempt, id => $id, order => $order, key => $key };
	}
	$self->note('leased', $batch->{token}, $self->{name}, $sent, $answered, $batch->{until},
		map { "$_->{seq}:$_->{attempt}:$_->{id}:$_->{key}" } @{ $batch->{messages} });
	return $batch;
}

# Publishes what was leased, as it came, and acks it.
sub work
{
	my ($self, $batch) = @_;
	my @messages = @{ $batch->{messages} };
	my $bits = $self->maybe('bits');
	my ($release, $forget) = ($self->maybe('release'), $self->maybe('forget'));
	my %skipped;

	$self->oversleep($batch) if $self->maybe('slow');
	$self->ack_gap($batch) if $self->maybe('gap');
	$self->extend($batch) if $self->maybe('extend');
	@messages = @messages[ 0 .. rand(@messages) - 1 ] if $release || $forget;
	foreach my $message (@messages)
	{
		next if $skipped{ $message->{order} };
		if ($self->maybe('nack'))
		{
			$skipped{ $message->{order} } = 1;
			return unless $self->nack($batch, $message) || $self->maybe('rude');
			next;
		}
		$self->publish($batch, $message);
		next unless $bits && rand() < 0.5;
		return unless $self->ack($batch) || $self->maybe('rude');
	}
	$self->oversleep($batch) if $self->maybe('slow');
	return if $forget;
	$self->ack($batch);
	$self->ack($batch) if $self->maybe('twice');
	$self->release($batch) if $release;
	return;
}

# Sleeps until the lease has run out.
sub oversleep
{
	my ($self, $batch) = @_;
	my $left = $batch->{until} - time();

	usleep(1e6 * ($left + rand(0.2))) if $left > 0;
	return;
}

sub publish
{
	my ($self, $batch, $message) = @_;

	POSIX::_exit(1) if $message->{key} eq $self->{poison};
	$self->note('published', $batch->{token}, @{$message}{qw(seq id key)});
	$message->{published} = 1;
	return;
}

# Acks all that was published so far, what was acked before too: an answer may have
# been lost.  False where nothing of it is ours.
sub ack
{
	my ($self, $batch) = @_;

	return $self->ack_list($batch, map { $_->{seq} } grep { $_->{published} } @{ $batch->{messages} });
}

sub ack_list
{
	my ($self, $batch, @seqs) = @_;
	my $list = join(',', @seqs);
	my $answer;

	return 1 unless @seqs;
	$self->note('ended', $batch->{token}, now(), 'ack', $list);
	foreach (1 .. 2)
	{
		$answer //= $self->ask('ack', "SELECT notify_outbox_ack('$batch->{token}', '{$list}')");
	}
	return 0 unless defined $answer;
	$answer =~ tr/{}//d;
	$self->note('acked', $batch->{token}, now(), $answer) if length $answer;
	return length $answer;
}

# Asks for a message that has an earlier one of its order before it.
sub ack_gap
{
	my ($self, $batch) = @_;
	my %seen;
	my $message = first { $seen{ $_->{order} }++ } @{ $batch->{messages} };

	$self->ack_list($batch, $message->{seq}) if $message;
	return;
}

sub nack
{
	my ($self, $batch, $message) = @_;
	my @later = map { $_->{seq} }
	  grep { $_->{order} eq $message->{order} && $_->{seq} > $message->{seq} } @{ $batch->{messages} };
	my $now = now();

	$self->note('ended', $batch->{token}, $now, 'nack', $message->{seq});
	$self->note('ended', $batch->{token}, $now, 'back', join(',', @later)) if @later;
	my $answer = $self->ask('nack', "SELECT notify_outbox_nack('$batch->{token}', $message->{seq}, 'by chance')");
	return ($answer // '') eq 't';
}

sub extend
{
	my ($self, $batch) = @_;
	my $until = now() + $batch->{seconds};
	my $answer =
	  $self->ask('extend', "SELECT notify_outbox_extend('$batch->{token}', '$batch->{seconds} s')") // '';

	return unless $answer eq 't';
	$batch->{until} = $until;
	$self->note('until', $batch->{token}, $until);
	return;
}

sub release
{
	my ($self, $batch) = @_;

	$self->note('ended', $batch->{token}, now(), 'release', join(',', map { $_->{seq} } @{ $batch->{messages} }));
	$self->ask('release', "SELECT notify_outbox_release('$batch->{token}')");
	return;
}

1;
