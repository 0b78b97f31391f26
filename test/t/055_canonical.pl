# A random document that is spelled anew keeps its digest, and whatever changes
# in it changes its digest, under json, form and xml, with and without a list of
# what to ignore; one that is damaged is taken as what it has become, or as raw
# bytes.  An oracle of its own, in lib, says what is the same.
#
# Set NOTIFY_CLAIM_SEED to the seed that a failed run has printed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Bodies;
use Digest::SHA qw(sha256_hex);
use JsonBodies;
use NotifyClaim;
use PairBodies;
use PostgreSQL::Test::Utils;
use Storable qw(dclone);
use Test::More;

my $seed = $ENV{NOTIFY_CLAIM_SEED} // int(rand(2**31));
my $documents = 200;    # of each kind
my $dir = PostgreSQL::Test::Utils::tempdir;
my @rows;               # see add_row()

note("NOTIFY_CLAIM_SEED=$seed");
srand($seed);

###
### Channels with random lists, and what is sent to them.
###

# A body of a channel, of a mode unless it cannot be read so.  What it says with
# what is ignored tells whether something was ignored.
sub add_row
{
	my ($channel, $kind, $mode, $says, $whole, $body) = @_;

	push @rows, [
		$channel, $kind, defined $says ? $mode : 'raw',
		sha256_hex($says // $body), sha256_hex($whole // $body), unpack('H*', $body) ];
	return;
}

# The tree of a list of paths, by the code points of their names.
sub ignore_tree
{
	my (@paths) = @_;
	my $tree = {};

	foreach my $path (@paths)
	{
		my $node = $tree;
		$node = $node->{ name_key($_) } //= {} foreach @$path;
		$node->{ignored} = 1;
	}
	return $tree;
}

# A path as an entry of the list.
sub entry
{
	my ($path) = @_;

	return join('.', map { my $name = utf8(@$_); $name =~ s/([.\\])/\\$1/g; $name } @$path);
}

# A copy with a random value at the path, in the place of what stands there.
sub plant
{
	my ($value, @path) = @_;
	my ($name, @below) = @path;
	my ($kept, @others);

	return random_json(4) unless @path;
	# now and then through an array
	return [ 'array', [ map { plant($_, @path) } @{ $value->[1] } ] ]
	  if $value->[0] eq 'array' && @{ $value->[1] } && chance(0.8);
	@others = $value->[0] eq 'object' ? @{ dclone($value)->[1] } : ();
	($kept) = grep { name_key($_->[0]) eq name_key($name) } @others;
	return object([ $name, plant($kept ? $kept->[1] : [ 'object', [] ], @below) ], @others);
}

sub add_json
{
	my ($channel, $tree, @paths) = @_;

	foreach (1 .. $documents)
	{
		my $value = random_json(int(rand(3)), chance(0.1) ? 0 : 0.34);
		my $add = sub {
			my ($kind, $what, $body) = @_;
			add_row($channel, $kind, 'json', $what && says_json($what, $tree),
				$what && says_json($what), $body // spell_json($what));
		};

		$value = plant($value, @{ pick(@paths) }) if @paths && chance(0.7);
		foreach (1 .. 3)
		{
			my $body = damage(spell_json($value));
			my $changed = change_json($value);

			$add->('respelled', $value);
			$add->('changed', $changed);
			$add->('changed', change_json($changed)) if chance(0.3);
			$add->('ignored', plant($value, @{ pick(@paths) })) if @paths;
			$add->('damaged', read_json($body), $body);
		}
		my $repeating = repeat_member($value);
		$add->('repeated', undef, spell_json($repeating)) if $repeating;
		check_oracle(says_json($value), says_json(read_json(spell_json($value)) // ['nothing']));
	}
	return;
}

sub add_pairs
{
	my ($channel, $mode, $ignore, $random, $spell, $read) = @_;

	foreach (1 .. $documents)
	{
		my @pairs = $random->();
		my $add = sub {
			my ($kind, $what, $body) = @_;
			add_row($channel, $kind, $mode, $what && says_pairs($ignore, @$what),
				$what && says_pairs({}, @$what), $body // $spell->(@$what));
		};

		foreach (1 .. 3)
		{
			my @changed = change_pairs($random, @pairs);
			my ($other) = change_pairs($random);
			my $body = damage($spell->(@pairs));

			$add->('respelled', \@pairs);
			$add->('changed', \@changed);
			$add->('ignored', [ @pairs, [ pick(sort keys %$ignore), $other->[1] ] ]) if %$ignore;
			$add->('damaged', $read->($body), $body);
		}
		check_oracle(says_pairs({}, @pairs), says_pairs({}, @{ $read->($spell->(@pairs)) // [] }));
	}
	return;
}

# Writing and reading, which know nothing of each other, have to agree.
sub check_oracle
{
	my ($meant, $read) = @_;

	die "the oracle takes $meant for $read, seed $seed" if $meant ne $read;
	return;
}

# Everything random is made before the server, so that the seed is all it takes.
my @channels;

# Adds a channel with the entries of its list.
sub add_channel
{
	my ($channel, $mode, @entries) = @_;
	my $list = join(', ', map { sprintf(q{convert_from('\x%s', 'UTF8')}, unpack('H*', $_)) } @entries);

	push @channels,
	  "SELECT notify_channel_add('$channel', digest => '$mode', ignore => ARRAY[$list]::text[]);\n";
	return;
}

add_channel('json', 'json');
add_json('json', {});
foreach my $list (1 .. 3)
{
	my @paths = map { [ map { pick(@names) } 1 .. 1 + int(rand(3)) ] } 1 .. 4;

	add_channel("json $list", 'json', map { entry($_) } @paths);
	add_json("json $list", ignore_tree(@paths), @paths);
}
foreach my $list (0, 1)
{
	my @form = $list ? map { pick(@form_names) } 1 .. 3 : ();
	my @xml = $list ? map { pick(@xml_names) } 1 .. 3 : ();

	add_channel("form $list", 'form', @form);
	add_pairs("form $list", 'form', { map { $_ => 1 } @form },
		\&random_form, \&spell_form, \&read_form);
	add_channel("xml $list", 'xml', @xml);
	add_pairs("xml $list", 'xml', { map { $_ => 1 } @xml },
		\&random_xml, \&spell_xml, \&read_xml);
}

my $node = start_node('canonical', '', init => { extra => [ '--encoding=UTF8', '--no-locale' ] });
my $file = "$dir/documents";
open(my $out, '>', $file) or die $!;
print $out join("\t", @{$_}[ 0 .. 4 ], "\\\\x$_->[5]") . "\n" foreach @rows;
close($out);
$node->safe_psql('postgres', qq{
	CREATE EXTENSION notify_claim;
	@channels
	CREATE TABLE doc (channel text, kind text, mode text, says text, whole text, body bytea);
	\\copy doc FROM '$file'
	CREATE TABLE digested AS
		SELECT doc.*, d.digest, d.canonical, d.mode AS made
		FROM doc, LATERAL notify_digest(channel, body) AS d});
note($_) foreach split /\n/, $node->safe_psql('postgres', q{
	SELECT channel, kind, made, count(*), count(DISTINCT says) AS different, sum(length(body)) AS bytes
	FROM digested GROUP BY 1, 2, 3 ORDER BY 1, 2, 3});

sub none
{
	my ($query, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql('postgres', "$query LIMIT 5"), '', "$name, seed $seed");
	return;
}

my $shown = q{channel, kind, made, encode(body, 'escape')};

is($node->safe_psql('postgres', 'SELECT count(*) FROM digested'), scalar(@rows), 'all are digested');
is( $node->safe_psql('postgres', q{
		SELECT string_agg(DISTINCT kind || ' ' || made, ', ' ORDER BY kind || ' ' || made) FROM digested}),
	'changed form, changed json, changed xml, damaged form, damaged json, damaged raw, damaged xml, '
	  . 'ignored form, ignored json, ignored xml, repeated raw, respelled form, respelled json, respelled xml',
	'of each kind there are some');
none("SELECT mode, $shown FROM digested WHERE made <> mode", 'each is read as what it is');
none(qq{
	SELECT a.digest, b.digest, encode(a.body, 'escape'), encode(b.body, 'escape')
	FROM digested AS a JOIN digested AS b USING (channel, says) WHERE a.mode = b.mode AND a.digest <> b.digest},
	'what says the same has the same digest');
none(qq{
	SELECT channel, made, encode(a.body, 'escape'), encode(b.body, 'escape')
	FROM digested AS a JOIN digested AS b USING (channel, made, digest) WHERE a.says <> b.says},
	'what says another thing has another digest');
none(qq{
	SELECT $shown FROM digested
	WHERE digest <> encode(sha256(CASE made WHEN 'raw' THEN body ELSE convert_to(canonical, 'UTF8') END), 'hex')},
	'the digest is that of the canonical form');
none(qq{
	SELECT $shown, d.canonical, again.canonical
	FROM digested AS d, LATERAL notify_digest(channel, d.canonical) AS again
	WHERE made IN ('json', 'form') AND d.canonical <> '' AND (again.digest, again.mode) <> (d.digest, made)},
	'the canonical form of a canonical form is itself');
none(qq{
	SELECT $shown, canonical FROM digested
	WHERE made = 'json' AND canonical::json IS NULL},
	'the canonical form of JSON is JSON');
is( $node->safe_psql('postgres', q{
		SELECT bool_and(n > 100) FROM (
			SELECT channel, count(*) AS n FROM digested AS a JOIN digested AS b USING (channel, made, digest)
			WHERE a.whole < b.whole GROUP BY channel HAVING channel ~ '[1-9]') AS c}),
	't', 'where something is ignored it was different');

$node->stop;
done_testing();
