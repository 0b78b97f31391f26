# A broker for the tests: a file that consumers of the outbox append to, and what
# its records tell about each message.
#
# A record is a line of words, written at once.  Times are the machine's; "list"
# is numbers with commas between them, "message" is number:attempt:id:key, where
# the key is the notification's own, the payload's biz_key.
#
#	leased token consumer sent answered until message...    what a lease call answered
#	until token until                              it was extended
#	published token seq id key
#	ended token time how list        about to be: ack, nack, back (given back by a
#	                                 nack of an earlier one of the order), release
#	acked token time list            what an ack call answered
#	redriven key                     about to be redriven, after it was a dead letter
#	error call state level           an SQL state, or "lost" for the connection
#	failed text                      a consumer that ended by itself
#
# "until" is the earliest moment at which the lease may have run out: its time
# counts from before the call was sent.
package Broker;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(max min uniq);

our @EXPORT_OK = qw(append records classify summary @FAULTS @RETRIABLE);

# What must never happen.
#
#	lost        never published
#	invented    published or leased, and no message of the plan: never committed, or
#	            a second message for one key
#	disordered  published for the first time before an earlier message of its order
#	            was; or acked while an earlier one was outstanding
#	shared      leased, while somebody else had messages of its order
#	unfenced    acked by two leases, or leased again after it was acked
#	uncounted   leased again with the same attempt, and nobody had given it back
our @FAULTS = qw(lost invented disordered shared unfenced uncounted);

# SQL states and the like of a connection that was ended, not of a statement.
our @RETRIABLE = qw(57P01 57P02 57P03 lost);

# Appends a record.  A writer may be killed in the middle: what does not end with
# a full stop is none, and the next one begins on a line of its own.  Without words
# only the file is made.
sub append
{
	my ($file, @words) = @_;

	open(my $handle, '>>', $file) or die "$file: $!";
	!@words || syswrite($handle, "\n@words .\n") or die "$file: $!";
	close($handle);
	return;
}

# All records, as arrays of words.
sub records
{
	my ($file) = @_;
	my @records;

	open(my $handle, '<', $file) or die "$file: $!";
	while (my $line = <$handle>)
	{
		push @records, [ split / /, $line ] if $line =~ s/ \.\n\z//;
	}
	close($handle);
	return @records;
}

# Reads the records into { leases => {token => lease}, published => {key => [{seq,
# id, at}]}, acks => [[lease, time, seq...]], redriven => {key => 1} }; a lease is
# { consumer, sent, answered, until, messages => {seq => {attempt, id, key}}, ended
# => {seq => time}, returned => {seq => 1} }.
sub digest
{
	my $seen = { leases => {}, published => {}, acks => [], redriven => {} };
	my $at = 0;

	foreach my $record (@_)
	{
		my ($what, $token, @words) = @$record;
		my $lease = $seen->{leases}{$token};

		$at++;
		if ($what eq 'leased')
		{
			my ($consumer, $sent, $answered, $until, @messages) = @words;

			$lease = { consumer => $consumer, sent => $sent, answered => $answered, until => $until };
			foreach my $message (@messages)
			{
				my ($seq, $attempt, $id, $key) = split /:/, $message, 4;
				$lease->{messages}{$seq} = { attempt => $attempt, id => $id, key => $key };
			}
			$seen->{leases}{$token} = $lease;
		}
		elsif ($what eq 'until')
		{
			$lease->{until} = $words[0];
		}
		elsif ($what eq 'published')
		{
			my ($seq, $id, $key) = @words;
			push @{ $seen->{published}{$key} }, { seq => $seq, id => $id, at => $at };
		}
		elsif ($what eq 'ended')
		{
			my ($time, $how, $list) = @words;
			foreach my $seq (split /,/, $list)
			{
				$lease->{ended}{$seq} //= $time;
				$lease->{returned}{$seq} = 1 if $how =~ /^(?:back|release)$/;
			}
		}
		elsif ($what eq 'acked')
		{
			push @{ $seen->{acks} }, [ $lease // {}, $words[0], split /,/, $words[1] // '' ];
		}
		elsif ($what eq 'redriven')
		{
			$seen->{redriven}{$token} = 1;
		}
	}
	return $seen;
}

# Classifies what the records tell of the messages of a plan, { key => [order,
# place] }; the place is undefined for messages that have none among themselves.
# Returns { once => n, again => n } and for each of @FAULTS the keys; what was
# published several times with one id is "again".  With "flow" the later messages
# of an order do not wait for a dead letter.
#
# Delivery is at least once, and a consumer that is too slow may publish what
# others have published meanwhile, with messages after it: those who read the
# broker drop repeats by their id.  So the order that counts is that of first
# publications.  It must be the plan's, whoever published and however late: nobody
# is given a message before the earlier ones of its order are done with, or along
# with it and after them.
sub classify
{
	my ($plan, $flow, @records) = @_;
	my $seen = digest(@records);
	my %result = (once => 0, again => 0, map { $_ => [] } @FAULTS);

	foreach my $key (keys %$plan)
	{
		my $times = @{ $seen->{published}{$key} // [] };

		push @{ $result{lost} }, $key unless $times;
		$result{ $times == 1 ? 'once' : 'again' }++ if $times;
	}
	$result{invented} = invented($plan, $seen);
	$result{disordered} = [ disordered_publications($plan, $flow, $seen), disordered_acks($plan, $seen) ];
	$result{shared} = shared($plan, $seen);
	$result{unfenced} = unfenced($seen);
	$result{uncounted} = uncounted($seen);
	$result{$_} = [ sort(uniq(@{ $result{$_} })) ] foreach @FAULTS;
	return \%result;
}

# The numbers of a classification, with some of the keys where there is a fault.
sub summary
{
	my ($result) = @_;
	my @words = ("once $result->{once}, again $result->{again}");

	foreach my $fault (@FAULTS)
	{
		my @keys = @{ $result->{$fault} };
		push @words, "$fault " . @keys . (@keys ? " ($keys[0]" . (@keys > 1 ? ' ...' : '') . ')' : '');
	}
	return join(', ', @words);
}

# All that was published or leased under a key: hashes with seq and id.
sub messages_by_key
{
	my ($seen) = @_;
	my %messages;

	push @{ $messages{$_} }, @{ $seen->{published}{$_} } foreach keys %{ $seen->{published} };
	foreach my $lease (values %{ $seen->{leases} })
	{
		foreach my $seq (keys %{ $lease->{messages} })
		{
			my $message = $lease->{messages}{$seq};
			push @{ $messages{ $message->{key} } }, { seq => $seq, id => $message->{id} };
		}
	}
	return \%messages;
}

sub invented
{
	my ($plan, $seen) = @_;
	my $messages = messages_by_key($seen);

	return [ grep { !$plan->{$_} || uniq(map { "$_->{seq} $_->{id}" } @{ $messages->{$_} }) > 1 } keys %$messages ];
}

# { order => [key in its place] }, of messages that have one.
sub by_order
{
	my ($plan) = @_;
	my %orders;

	foreach my $key (keys %$plan)
	{
		my ($order, $place) = @{ $plan->{$key} };
		$orders{$order}[$place] = $key if defined $place;
	}
	return \%orders;
}

sub disordered_publications
{
	my ($plan, $flow, $seen) = @_;
	my $orders = by_order($plan);
	my @found;

	foreach my $keys (values %$orders)
	{
		my $last = 0;

		foreach my $key (grep { defined } @$keys)
		{
			my $first = $seen->{published}{$key} // next;

			next if $flow && $seen->{redriven}{$key};
			push @found, $key if $first->[0]{at} < $last;
			$last = max($last, $first->[0]{at});
		}
	}
	return @found;
}

sub disordered_acks
{
	my ($plan, $seen) = @_;
	my @found;

	foreach my $ack (@{ $seen->{acks} })
	{
		my ($lease, undef, @seqs) = @$ack;
		my %outstanding;

		$lease->{acked}{$_} = 1 foreach @seqs;
		foreach my $seq (sort { $a <=> $b } keys %{ $lease->{messages} })
		{
			my $key = $lease->{messages}{$seq}{key};
			my $order = ($plan->{$key} // next)->[0];

			$outstanding{$order} = 1 unless $lease->{acked}{$seq};
			push @found, $key if $outstanding{$order} && $lease->{acked}{$seq};
		}
	}
	return @found;
}

# The time that somebody had messages of an order for sure begins with the answer to
# the lease call, and ends before the last of them is given away.
sub shared
{
	my ($plan, $seen) = @_;
	my (%spans, @found);

	foreach my $lease (values %{ $seen->{leases} })
	{
		my %span;

		foreach my $seq (keys %{ $lease->{messages} })
		{
			my $key = $lease->{messages}{$seq}{key};
			my $order = ($plan->{$key} // next)->[0];
			my $end = min($lease->{until}, $lease->{ended}{$seq} // $lease->{until});

			$span{$order} = { begin => $lease->{answered}, end => $end, key => $key }
			  if $end > ($span{$order} // { end => $lease->{answered} })->{end};
		}
		push @{ $spans{$_} }, $span{$_} foreach keys %span;
	}
	foreach my $spans (values %spans)
	{
		my $last = 0;

		foreach my $span (sort { $a->{begin} <=> $b->{begin} } @$spans)
		{
			push @found, $span->{key} if $span->{begin} < $last;
			$last = max($last, $span->{end});
		}
	}
	return \@found;
}

sub unfenced
{
	my ($seen) = @_;
	my (%acked, @found);

	foreach my $ack (@{ $seen->{acks} })
	{
		my ($lease, $time, @seqs) = @$ack;

		foreach my $seq (@seqs)
		{
			my $first = $acked{$seq} //= { lease => $lease, time => $time };
			push @found, ($lease->{messages}{$seq} // { key => "number $seq" })->{key}
			  if $first->{lease} != $lease || !$lease->{messages}{$seq};
		}
	}
	foreach my $lease (values %{ $seen->{leases} })
	{
		push @found, map { $lease->{messages}{$_}{key} }
		  grep { $acked{$_} && $acked{$_}{time} < $lease->{sent} } keys %{ $lease->{messages} };
	}
	return \@found;
}

# Of several leases of a message with the same attempt all but the last have given
# it back.  After a redrive attempts begin anew.
sub uncounted
{
	my ($seen) = @_;
	my (%kept, @found);

	foreach my $lease (values %{ $seen->{leases} })
	{
		foreach my $seq (keys %{ $lease->{messages} })
		{
			my ($attempt, $key) = @{ $lease->{messages}{$seq} }{qw(attempt key)};

			next if $seen->{redriven}{$key} || $lease->{returned}{$seq};
			push @found, $key if $kept{"$seq $attempt"}++;
		}
	}
	return \@found;
}

1;
