# Random JSON: values, their spellings, copies that differ, and the reader of the
# oracle, which knows nothing of the writer.
#
# A value is a kind and what belongs to it: null, true and false have nothing; a
# number has sign, digits and exponent; a string a list of code points, lone
# surrogates included; an array its values, and an object its members, of which
# each is a list of code points and a value.
package JsonBodies;

use strict;
use warnings;

use Bodies;
use Exporter 'import';
use List::Util qw(shuffle);
use Storable qw(dclone);

our @EXPORT =
  qw(@names name_key object random_json says_json spell_json change_json
	repeat_member read_json);

sub number
{
	my ($sign, $digits, $exponent) = @_;

	$digits =~ s/^0+//;
	$exponent += length($1) if $digits =~ s/(0*)$//;
	return $digits eq '' ? [ 'number', '', '0', 0 ] : [ 'number', $sign, $digits, $exponent ];
}

sub random_digits { my ($n) = @_; return join('', map { int(rand(10)) } 1 .. $n); }

sub random_number
{
	my $sign = chance(0.3) ? '-' : '';
	my $kind = rand();

	return number('', '0', 0) if $kind < 0.1;
	return number($sign, random_digits(1 + int(rand(4))), 0) if $kind < 0.4;
	return number($sign, random_digits(1 + int(rand(6))), -2) if $kind < 0.6;
	return number($sign, random_digits(40), -int(rand(45))) if $kind < 0.75;
	return number($sign, random_digits(1 + int(rand(25))), int(rand(60)) - 40) if $kind < 0.9;
	return number($sign, random_digits(1 + int(rand(5))),
		pick(1, -1) * (pick(1000, 1_000_000_000, 999_999_999_999_999_000) - int(rand(900))));
}

# Half of the names come from here, so that lists of what to ignore meet them.
our @names = map { [ code_points($_) ] }
  ('a', 'b', 'ab', 'sign', 'b.c', '\\', 'a"', ' ', "\t", 'größe', '货', '😀', '[0]', "\x7f");

# Keeps the two halves of a surrogate pair, which would be another character,
# from standing beside each other.
sub string
{
	my (@codes) = @_;

	foreach my $i (reverse 1 .. $#codes)
	{
		splice(@codes, $i, 0, 0x20)
		  if ($codes[ $i - 1 ] & ~0x3ff) == 0xd800 && ($codes[$i] & ~0x3ff) == 0xdc00;
	}
	return [@codes];
}

sub random_string
{
	return string(map { random_code_point() } 1 .. int(rand(chance(0.1) ? 40 : 6)));
}

sub name_key { my ($codes) = @_; return join(',', @$codes); }

# An object of members with different names.
sub object
{
	my (@members) = @_;
	my %seen;

	return [ 'object', [ grep { !$seen{ name_key($_->[0]) }++ } @members ] ];
}

# At depth 6 there are only scalars; from 0.34 on as the least kind only others.
sub random_json
{
	my ($depth, $least) = @_;
	my $kind = $least ? $least + rand(1 - $least) : rand();
	my $count = chance(0.03) ? 10 + int(rand(60)) : int(rand(5));

	$depth = 6 if $count > 5;
	$kind /= 3 if $depth >= 6;
	return random_number() if $kind < 0.12;
	return [ 'string', random_string() ] if $kind < 0.24;
	return [ pick('null', 'true', 'false') ] if $kind < 0.34;
	return [ 'array', [ map { random_json($depth + 1) } 1 .. $count ] ] if $kind < 0.6;
	return object(map { [ chance(0.5) ? pick(@names) : random_string(), random_json($depth + 1) ] }
		  1 .. $count);
}

# What a value says, without the ignored members: the same text for the same
# content, another for any other.
sub says_json
{
	my ($value, $ignore) = @_;
	my ($kind, @rest) = @$value;
	my %members;

	return "$rest[0]$rest[1]e$rest[2]" if $kind eq 'number';
	return "'" . name_key($rest[0]) . "'" if $kind eq 'string';
	return '[' . join(';', map { says_json($_, $ignore) } @{ $rest[0] }) . ']' if $kind eq 'array';
	return $kind unless $kind eq 'object';
	foreach my $member (@{ $rest[0] })
	{
		my $name = name_key($member->[0]);
		my $below = $ignore && $ignore->{$name};
		$members{$name} = says_json($member->[1], $below) unless $below && $below->{ignored};
	}
	return '{' . join(';', map { "$_:$members{$_}" } sort keys %members) . '}';
}

# What follows a backslash, and what it stands for.
my %meanings = ('"' => 0x22, '\\' => 0x5c, '/' => 0x2f, b => 8, f => 0x0c, n => 0x0a, r => 0x0d, t => 9);

sub spell_string
{
	my ($codes) = @_;
	my %short = reverse %meanings;
	my $escaping = pick(0, 0.1, 1);
	my $text = '';

	foreach my $code (@$codes)
	{
		my $must = $code < 0x20 || $code == 0x22 || $code == 0x5c || ($code & ~0x7ff) == 0xd800;

		if (defined $short{$code} && ($must || chance($escaping)) && chance(0.5))
		{
			$text .= "\\$short{$code}";
		}
		elsif ($must || chance($escaping))
		{
			my @units = $code < 0x10000 ? ($code)
			  : (0xd800 + ($code - 0x10000 >> 10), 0xdc00 + ($code & 0x3ff));
			$text .= '\\u' . sprintf(chance(0.5) ? '%04x' : '%04X', $_) foreach @units;
		}
		else
		{
			$text .= utf8($code);
		}
	}
	return "\"$text\"";
}

sub spell_exponent
{
	my ($exponent) = @_;

	return '' if $exponent == 0 && chance(0.8);
	return pick('e', 'E') . ($exponent < 0 ? '-' : pick('', '+', $exponent == 0 ? '-' : ''))
	  . pick('', '', '00') . abs($exponent);
}

# Puts the point anywhere, before, in or after the digits.
sub spell_number
{
	my (undef, $sign, $digits, $exponent) = @_;
	my $zeros = pick(0, 0, 0, 1, 5);
	my $shift;

	return pick('', '-') . pick('0', '0.0', '0.000') . spell_exponent(int(rand(2000)) - 1000)
	  if $digits eq '0';
	$digits .= '0' x $zeros;
	$exponent -= $zeros;
	# without an exponent where that is short, or with one
	$shift = $exponent <= 0 && $exponent > -60 && chance(0.7) ? -$exponent
	  : int(rand(length($digits) + pick(1, 1, 10)));
	if ($exponent > 0 && $exponent < 60 && chance(0.7))
	{
		$digits .= '0' x $exponent;
		($exponent, $shift) = (0, 0);
	}
	$digits = '0' x ($shift + 1 - length($digits)) . $digits if length($digits) <= $shift;
	substr($digits, -$shift, 0, '.') if $shift > 0;
	return $sign . $digits . spell_exponent($exponent + $shift);
}

sub spell_json
{
	my ($value) = @_;
	my ($kind, @rest) = @$value;
	my @parts;

	return space() . spell_number(@$value) . space() if $kind eq 'number';
	return space() . spell_string($rest[0]) . space() if $kind eq 'string';
	return space() . $kind . space() unless $kind eq 'array' || $kind eq 'object';
	@parts = $kind eq 'array' ? map { spell_json($_) } @{ $rest[0] }
	  : map { space() . spell_string($_->[0]) . space() . ':' . spell_json($_->[1]) }
	  shuffle(@{ $rest[0] });
	@parts = (space()) unless @parts;
	return space() . ($kind eq 'array' ? '[' : '{') . join(',', @parts)
	  . ($kind eq 'array' ? ']' : '}') . space();
}

# Another value in the place of this one.
sub other_json
{
	my ($value) = @_;
	my ($kind, @rest) = @{ dclone($value) };

	return pick(random_json(5), [ 'null' ], [ 'array', [ dclone($value) ] ],
		[ 'string', [ code_points(spell_json($value)) ] ])
	  if chance(0.15);
	if ($kind eq 'number')
	{
		my ($sign, $digits, $exponent) = @rest;
		my $zeros = int(rand(40));
		my $how = rand();

		return number($sign eq '' ? '-' : '', $digits, $exponent) if $how < 0.1;
		return number($sign, $digits, $exponent + pick(-1, 1)) if $how < 0.2;
		return number($sign, $digits . '0' x $zeros . '1', $exponent - $zeros - 1) if $how < 0.3;
		substr($digits, rand(length($digits)), 1, int(rand(10)));
		return number($sign, $digits, $exponent);
	}
	return [ 'string', other_string($rest[0]) ] if $kind eq 'string';
	return other_array($rest[0]) if $kind eq 'array';
	return other_object($rest[0]) if $kind eq 'object';
	return pick([ 'null' ], [ 'true' ], [ 'false' ], number('', pick(0, 1), 0), [ 'array', [] ],
		[ 'object', [] ], [ 'string', [] ], [ 'string', [ code_points($kind) ] ]);
}

sub other_string
{
	my ($codes) = @_;
	my @codes = @$codes;

	splice(@codes, rand(@codes + 1), int(rand(2)), random_code_point()) if chance(0.7);
	splice(@codes, rand(@codes), 1) if @codes && chance(0.4);
	return string(@codes);
}

sub other_array
{
	my ($values) = @_;
	my $i = int(rand(@$values + 1));

	if (@$values > 1 && chance(0.5))
	{
		my $j = int(rand(@$values));
		$i = int(rand(@$values));
		@$values[ $i, $j ] = @$values[ $j, $i ];
	}
	else
	{
		splice(@$values, $i, int(rand(2)), chance(0.5) ? random_json(5) : ());
	}
	return [ 'array', $values ];
}

sub other_object
{
	my ($members) = @_;
	my $member = pick(@$members);

	if (!@$members || chance(0.3))
	{
		push @$members, [ random_string(), pick([ 'null' ], random_json(5)) ];
	}
	elsif (chance(0.3))
	{
		$member->[0] = other_string($member->[0]);
	}
	elsif (@$members > 1 && chance(0.3))
	{
		my $other = pick(@$members);
		($member->[1], $other->[1]) = ($other->[1], $member->[1]);
	}
	else
	{
		splice(@$members, rand(@$members), 1);
	}
	return object(@$members);
}

# The places where a value stands in another.
sub places
{
	my ($value) = @_;
	my ($kind, $content) = @$value;
	my @places = $kind eq 'array' ? map { \$_ } @$content
	  : $kind eq 'object' ? map { \$_->[1] } @$content : ();

	return map { ($_, places($$_)) } @places;
}

# A copy that differs in one place.
sub change_json
{
	my ($value) = @_;

	for (;;)
	{
		my $whole = [ 'array', [ dclone($value) ] ];
		my $place = pick(places($whole));

		$$place = other_json($$place);
		return $whole->[1][0] if says_json($whole->[1][0]) ne says_json($value);
	}
}

# A copy in which an object repeats the name of a member, or undef.
sub repeat_member
{
	my ($value) = @_;
	my $whole = [ 'array', [ dclone($value) ] ];
	my @objects = grep { $_->[0] eq 'object' && @{ $_->[1] } } map { $$_ } places($whole);
	my ($object, $member);

	return undef unless @objects;
	$object = pick(@objects);
	$member = pick(@{ $object->[1] });
	push @{ $object->[1] }, [ $member->[0], chance(0.5) ? $member->[1] : random_json(5) ];
	return $whole->[1][0];
}

# Reads a text; undef where it is no JSON, repeats a name, or has an exponent that
# is not compared.
sub read_json
{
	my ($bytes) = @_;
	my $value;

	return undef unless is_utf8($bytes);
	$value = read_value(\$bytes);
	return $value && $bytes =~ /\G[ \t\r\n]*\z/gc ? $value : undef;
}

sub read_value
{
	my ($text) = @_;

	$$text =~ /\G[ \t\r\n]*/gc;
	return [$1] if $$text =~ /\G(null|true|false)/gc;
	return read_number($1, $2, $3 // '', $4 // '0')
	  if $$text =~ /\G(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?/gc;
	if ($$text =~ /\G"/gc)
	{
		my $codes = read_string($text);
		return $codes && [ 'string', $codes ];
	}
	return read_members($text, ']', \&read_value, sub { [ 'array', [@_] ] }) if $$text =~ /\G\[/gc;
	return read_members($text, '}', \&read_member, sub { object(@_) }) if $$text =~ /\G\{/gc;
	return undef;
}

sub read_number
{
	my ($sign, $whole, $fraction, $exponent) = @_;
	my $number;

	return number('', '0', 0) if "$whole$fraction" =~ /^0+$/;
	$exponent =~ s/^([-+]?)0+(?=.)/$1/;
	return undef if $exponent =~ /[0-9]{19}/;
	$number = number($sign, "$whole$fraction", $exponent - length($fraction));
	return abs($number->[3]) < 10**18 ? $number : undef;
}

sub read_string
{
	my ($text) = @_;
	my (@codes, @joined);

	until ($$text =~ /\G"/gc)
	{
		if ($$text =~ /\G([^"\\\x00-\x1f]+)/gc) { push @codes, code_points($1); }
		elsif ($$text =~ m{\G\\(["\\/bfnrt])}gc) { push @codes, $meanings{$1}; }
		elsif ($$text =~ /\G\\u([0-9a-fA-F]{4})/gc) { push @codes, hex($1); }
		else { return undef; }
	}
	foreach my $code (@codes)
	{
		if (@joined && ($joined[-1] & ~0x3ff) == 0xd800 && ($code & ~0x3ff) == 0xdc00)
		{
			$joined[-1] = 0x10000 + (($joined[-1] & 0x3ff) << 10) + ($code & 0x3ff);
		}
		else
		{
			push @joined, $code;
		}
	}
	return \@joined;
}

sub read_member
{
	my ($text) = @_;
	my ($name, $value);

	return undef unless $$text =~ /\G[ \t\r\n]*"/gc;
	$name = read_string($text);
	return undef unless $name && $$text =~ /\G[ \t\r\n]*:/gc;
	$value = read_value($text);
	return $value && [ $name, $value ];
}

sub read_members
{
	my ($text, $end, $read, $make) = @_;
	my @members;
	my $whole;

	return $make->() if $$text =~ /\G[ \t\r\n]*\Q$end\E/gc;
	do
	{
		my $member = $read->($text);
		return undef unless $member;
		push @members, $member;
	} while ($$text =~ /\G[ \t\r\n]*,/gc);
	return undef unless $$text =~ /\G[ \t\r\n]*\Q$end\E/gc;
	$whole = $make->(@members);
	return @{ $whole->[1] } == @members ? $whole : undef;
}

1;
