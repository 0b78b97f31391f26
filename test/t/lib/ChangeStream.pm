# Reads what logical decoding puts out, as pg_recvlogical writes it to a file.
#
# Both readers return the transactions in the order in which they came:
#
#	{ xid, lsn, changes => [ { action => 'I' or 'D', relation, row => { column => value } } ] }
#
# "lsn" is where the commit is, as a number.  Values are bytes, NULL is undefined.
# A relation is { name, columns => [ { name, type } ] }, the type as the plugin
# tells it: with pgoutput "OID MODIFIER", with wal2json its name.  What a killed
# pg_recvlogical has left unfinished at the end of its file is left out, as it has
# to be by any consumer.
package ChangeStream;

use strict;
use warnings;

use Exporter 'import';
use JSON::PP;

our @EXPORT = qw(read_pgoutput read_wal2json);

# What is raised where the file ends within a message.
my $cut = "cut\n";

###
### pgoutput, protocol version 1.  A message does not tell its length, and
### pg_recvlogical puts a newline after each.
###

my %message = (
	B => \&read_begin, C => \&read_commit, R => \&read_relation, Y => \&read_type,
	I => \&read_insert, D => \&read_delete);

sub read_pgoutput
{
	my ($bytes) = @_;
	my $in = { bytes => $bytes, at => 0, relations => {}, transactions => [] };

	until ($in->{at} == length $bytes)
	{
		eval {
			my $type = take($in, 1);
			my $read = $message{$type} or die "unexpected message \"$type\" at $in->{at}\n";
			$read->($in);
			take($in, 1) eq "\n" or die "message \"$type\" does not end at $in->{at}\n";
			1;
		} and next;
		last if $@ eq $cut;
		die $@;
	}
	return @{ $in->{transactions} };
}

sub take
{
	my ($in, $length) = @_;

	die $cut if $in->{at} + $length > length $in->{bytes};
	$in->{at} += $length;
	return substr($in->{bytes}, $in->{at} - $length, $length);
}

sub int8 { return unpack('C', take($_[0], 1)); }
sub int16 { return unpack('n', take($_[0], 2)); }
sub int32 { return unpack('N', take($_[0], 4)); }
sub int64 { return unpack('Q>', take($_[0], 8)); }

sub string
{
	my ($in) = @_;
	my $end = index($in->{bytes}, "\0", $in->{at});

	die $cut if $end < 0;
	my $string = take($in, $end - $in->{at});
	take($in, 1);
	return $string;
}

sub read_begin
{
	my ($in) = @_;
	my $lsn = int64($in);
	int64($in);    # when it was committed
	die "a transaction within another\n" if $in->{open};
	$in->{open} = { lsn => $lsn, xid => int32($in), changes => [] };
	return;
}

sub read_commit
{
	my ($in) = @_;
	int8($in);     # flags, unused
	my $lsn = int64($in);
	int64($in);    # where it ends
	int64($in);    # when it was committed
	my $transaction = delete $in->{open} or die "a commit without its transaction\n";
	die "commit at $lsn, announced at $transaction->{lsn}\n" if $lsn != $transaction->{lsn};
	push @{ $in->{transactions} }, $transaction;
	return;
}

sub read_relation
{
	my ($in) = @_;
	my $oid = int32($in);
	my $relation = { name => string($in) . '.' . string($in), columns => [] };
	int8($in);     # replica identity
	foreach (1 .. int16($in))
	{
		int8($in);    # part of the key?
		push @{ $relation->{columns} },
		  { name => string($in), type => int32($in) . ' ' . unpack('l>', take($in, 4)) };
	}
	$in->{relations}{$oid} = $relation;
	return;
}

# A type that is not built in.
sub read_type
{
	my ($in) = @_;
	int32($in);
	string($in);
	string($in);
	return;
}

sub read_insert
{
	my ($in) = @_;
	return read_change($in, 'I', qr/N/);
}

# The old row's key, or with replica identity FULL all of it.
sub read_delete
{
	my ($in) = @_;
	return read_change($in, 'D', qr/[KO]/);
}

sub read_change
{
	my ($in, $action, $kinds) = @_;
	my $relation = $in->{relations}{ int32($in) } or die "a change of an unknown relation\n";
	my $kind = take($in, 1);
	die "unexpected tuple \"$kind\"\n" unless $kind =~ $kinds;

	my $change = { action => $action, relation => $relation, row => {} };
	my $count = int16($in);
	die "$count values for $relation->{name}\n" if $count != @{ $relation->{columns} };
	foreach my $column (@{ $relation->{columns} })
	{
		my $how = take($in, 1);
		die "unexpected value \"$how\"\n" unless $how =~ /[nt]/;
		$change->{row}{ $column->{name} } = $how eq 't' ? take($in, int32($in)) : undef;
	}
	die "a change outside a transaction\n" unless $in->{open};
	push @{ $in->{open}{changes} }, $change;
	return;
}

###
### wal2json, format version 2: a line of JSON for each message.  It has to be told
### to include transaction ids and positions.
###

sub read_wal2json
{
	my ($bytes) = @_;
	my (@transactions, $open);

	foreach my $line ($bytes =~ /^(.*)\n/mg)
	{
		my $message = decode_json($line);
		my $action = $message->{action};

		if ($action eq 'B')
		{
			die "a transaction within another\n" if $open;
			$open = { xid => $message->{xid}, changes => [] };
		}
		elsif ($action eq 'C')
		{
			die "a commit without its transaction\n" unless $open && $open->{xid} == $message->{xid};
			my ($high, $low) = map { hex } split(/\//, $message->{lsn});
			push @transactions, { %$open, lsn => ($high << 32) + $low };
			$open = undef;
		}
		else
		{
			die "a change outside a transaction\n" unless $open;
			push @{ $open->{changes} }, read_json_change($message);
		}
	}
	return @transactions;
}

# A deleted row is told by its key.
sub read_json_change
{
	my ($message) = @_;
	my $columns = { I => 'columns', D => 'identity' }->{ $message->{action} }
	  or die "unexpected action \"$message->{action}\"\n";
	my %row;

	foreach my $column (@{ $message->{$columns} })
	{
		$row{ $column->{name} } = $column->{value};
		utf8::encode($row{ $column->{name} }) if defined $column->{value};
	}
	return {
		action => $message->{action}, row => \%row,
		relation => {
			name => "$message->{schema}.$message->{table}",
			columns => [ map { { name => $_->{name}, type => $_->{type} } } @{ $message->{$columns} } ] } };
}

1;
