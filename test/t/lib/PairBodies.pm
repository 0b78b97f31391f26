# Random forms and XML: pairs of name and value, in any order, both of them bytes;
# their spellings, copies that differ, and the readers of the oracle, which know
# nothing of the writers.
package PairBodies;

use strict;
use warnings;

use Bodies;
use Exporter 'import';
use List::Util qw(shuffle);

our @EXPORT =
  qw(says_pairs change_pairs @form_names random_form spell_form read_form
	@xml_names random_xml spell_xml read_xml);

sub says_pairs
{
	my ($ignore, @pairs) = @_;

	return join('&', sort map { unpack('H*', $_->[0]) . '=' . unpack('H*', $_->[1]) }
		  grep { !$ignore->{ $_->[0] } } @pairs);
}

sub random_bytes
{
	return join('', map { chr(chance(0.7) ? 0x20 + int(rand(0x5f)) : int(rand(256))) }
		  1 .. int(rand(chance(0.1) ? 40 : 6)));
}

our @form_names = ('a', 'b', 'ab', 'sign', 'a.b', 'a&b', '=', 'c d', '+', '%', 'größe', '货', '\\');

sub random_form
{
	# one at least, with an equals sign, or it is no form
	return map { [ chance(0.6) ? pick(@form_names) : random_bytes(), random_bytes() ] }
	  0 .. (chance(0.05) ? 40 : int(rand(6)));
}

sub spell_bytes
{
	my ($bytes, $plain) = @_;
	my $encoding = pick(0, 0.2, 1);

	return join('', map {
			$_ eq ' ' && chance(0.5) ? '+'
			  : $_ =~ $plain && !chance($encoding) ? $_
			  : sprintf(chance(0.5) ? '%%%02x' : '%%%02X', ord) } split(//, $bytes));
}

sub spell_form
{
	my $equals = 0;
	my @spelled = map {
		my $bare = $equals && $_->[1] eq '' && $_->[0] ne '' && chance(0.5);
		$equals = 1;
		spell_bytes($_->[0], qr/[^\x00-\x20\x7f-\xff%&+=]/)
		  . ($bare ? '' : '=' . spell_bytes($_->[1], qr/[^\x00-\x20\x7f-\xff%&+]/))
	} shuffle(@_);

	return join('&', (chance(0.1) ? '' : ()), @spelled, (chance(0.1) ? ('', '') : ()));
}

sub read_form
{
	my ($bytes) = @_;
	my @pairs;

	return undef unless $bytes =~ /=/;
	foreach my $segment (grep { $_ ne '' } split(/&/, $bytes))
	{
		my @pair = $segment =~ /^(.*?)(?:=(.*))?$/s;

		return undef if $segment =~ /[^\x21-\x7e]/ || $segment =~ /%(?![0-9a-fA-F]{2})/;
		$pair[1] //= '';
		s/\+/ /g, s/%(..)/chr(hex($1))/ge foreach @pair;
		push @pairs, \@pair;
	}
	return \@pairs;
}

our @xml_names = ('a', 'b', 'ab', 'sign', 'nonce_str', '_a.b-c', 'A', 'x1');

sub random_xml
{
	return map { [ chance(0.7) ? pick(@xml_names) : random_xml_name(), random_xml_value() ] }
	  1 .. (chance(0.05) ? 40 : int(rand(6)));
}

sub random_xml_name
{
	my @first = ('A' .. 'Z', 'a' .. 'z', '_');

	return join('', pick(@first), map { pick(@first, 0 .. 9, '-', '.') } 1 .. int(rand(5)));
}

sub random_xml_value
{
	return utf8(map { random_xml_code_point() } 1 .. int(rand(chance(0.1) ? 40 : 6)));
}

sub random_xml_code_point
{
	my $code = random_code_point();

	return pick(0x3c, 0x3e, 0x26, 0x5d, 0x09, 0x0a, 0x0d, 0x20)
	  if chance(0.3) || $code < 0x20 || ($code & ~0x7ff) == 0xd800 || $code == 0xffff;
	return $code;
}

# A run of characters without references to numbers, as text or section.
sub spell_run
{
	my ($run) = @_;
	my %names = ('<' => 'lt', '>' => 'gt', '&' => 'amp', '"' => 'quot', "'" => 'apos');

	return "<![CDATA[$run]]>" if $run !~ /\]\]>/ && chance(0.4);
	$run =~ s/>/\0/g if $run =~ /^>|\]>/ || chance(0.5);
	$run =~ s/([<&])/&$names{$1};/g;
	$run =~ s/(["'])/chance(0.5) ? "&$names{$1};" : $1/ge;
	$run =~ s/\0/&gt;/g;
	return $run;
}

# A line may end in any way, but a carriage return that is meant is referred to.
sub spell_content
{
	my @codes = code_points($_[0]);
	my $text = '';
	my $run = '';

	foreach my $i (0 .. $#codes)
	{
		my $refer = $codes[$i] == 0x0d || chance(0.15);

		if ($refer || chance(0.1))
		{
			$text .= spell_run($run);
			$run = '';
		}
		if ($refer)
		{
			$text .= sprintf(pick('&#%d;', '&#x%x;', '&#x%X;', '&#x00%x;'), $codes[$i]);
		}
		elsif ($codes[$i] == 0x0a)
		{
			$run .= pick("\n", "\r\n", ($codes[ $i + 1 ] // 0) == 0x0a ? () : "\r");
		}
		else
		{
			$run .= utf8($codes[$i]);
		}
	}
	return $text . spell_run($run);
}

sub spell_xml
{
	my (@pairs) = @_;
	my $text = pick('', '', '<?xml version="1.0" encoding="UTF-8"?>', "<?xml version='1.0'?>",
		'<?xml version="1.0" encoding="utf-8" standalone="yes" ?>');

	return $text . space() . '<xml' . space() . '/>' . space() if !@pairs && chance(0.5);
	$text .= space() . '<xml' . space() . '>' . space();
	foreach my $pair (shuffle(@pairs))
	{
		$text .= $pair->[1] eq '' && chance(0.5) ? "<$pair->[0]" . space() . '/>'
		  : "<$pair->[0]" . space() . '>' . spell_content($pair->[1]) . "</$pair->[0]" . space() . '>';
		$text .= space();
	}
	return "$text</xml" . space() . '>' . space();
}

sub read_xml
{
	my ($bytes) = @_;
	my $s = qr/[ \t\r\n]/;
	my $quote = qr/["']/;
	my @pairs;

	return undef if !is_utf8($bytes) || $bytes =~ /[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]/;
	if ($bytes =~ /\G<\?xml/gc)
	{
		return undef
		  unless $bytes =~ /\G$s+version$s*=$s*($quote)1\.0\1
				(?:$s+encoding$s*=$s*($quote)(?i:utf-8)\2)?
				(?:$s+standalone$s*=$s*($quote)(?i:yes|no)\3)?$s*\?>/gcx;
	}
	return undef unless $bytes =~ /\G$s*<xml$s*(\/?)>$s*/gc;
	unless ($1)
	{
		while ($bytes =~ /\G<([A-Za-z_][A-Za-z0-9_.-]*)$s*(\/?)>/gc)
		{
			my ($name, $value) = ($1, '');

			unless ($2)
			{
				$value = read_content(\$bytes);
				return undef unless defined $value && $bytes =~ /\G<\/\Q$name\E$s*>/gc;
			}
			push @pairs, [ $name, $value ];
			$bytes =~ /\G$s*/gc;
		}
		return undef unless $bytes =~ /\G<\/xml$s*>$s*/gc;
	}
	return $bytes =~ /\G\z/gc ? \@pairs : undef;
}

sub read_content
{
	my ($text) = @_;
	my %meanings = (lt => '<', gt => '>', amp => '&', quot => '"', apos => "'");
	my $value = '';

	for (;;)
	{
		if ($$text =~ /\G<!\[CDATA\[(.*?)\]\]>/gcs || $$text =~ /\G([^<&]+)/gc)
		{
			my $run = $1;
			return undef if $run =~ /\]\]>/;
			$run =~ s/\r\n?/\n/g;
			$value .= $run;
		}
		elsif ($$text =~ /\G&(lt|gt|amp|quot|apos);/gc)
		{
			$value .= $meanings{$1};
		}
		elsif ($$text =~ /\G&#(?:x0*([0-9a-fA-F]{1,6})|0*([0-9]{1,7}));/gc)
		{
			my $code = defined $1 ? hex($1) : $2;
			return undef
			  if $code > 0x10ffff || ($code & ~0x7ff) == 0xd800 || ($code & ~1) == 0xfffe
			  || $code < 0x20 && $code != 9 && $code != 10 && $code != 13;
			$value .= utf8($code);
		}
		else
		{
			return $value;
		}
	}
}

# Pairs of which one is added, dropped, given another name or value.
sub change_pairs
{
	my ($random, @pairs) = @_;
	my $says = says_pairs({}, @pairs);

	for (;;)
	{
		my @changed = map { [@$_] } @pairs;
		my ($new) = $random->();
		my $i = int(rand(@changed));
		my $how = rand();

		if (!@changed || $how < 0.2) { push @changed, $new // next; }
		elsif ($how < 0.3) { push @changed, $changed[$i]; }
		elsif ($how < 0.5) { splice(@changed, $i, 1); }
		elsif ($how < 0.6) { $changed[$i][0] = ($new // next)->[0]; }
		elsif ($how < 0.7) { $changed[$i][1] = ($new // next)->[1]; }
		else
		{
			my $j = int(rand(@changed));
			($changed[$i][1], $changed[$j][1]) = ($changed[$j][1], $changed[$i][1]);
		}
		return @changed if @changed && says_pairs({}, @changed) ne $says;
	}
}

1;
