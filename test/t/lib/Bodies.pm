# What the random bodies of all kinds are made with: chance, UTF-8, white space,
# and damage to a text.
package Bodies;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(min);

our @EXPORT =
  qw(chance pick utf8 code_points is_utf8 random_code_point space damage);

sub chance { my ($p) = @_; return rand() < $p; }
sub pick { return $_[ rand(@_) ]; }

# Code points as UTF-8, and back.
sub utf8
{
	my $text = join('', map { chr } @_);
	utf8::encode($text);
	return $text;
}

sub code_points
{
	my ($bytes) = @_;
	utf8::decode($bytes);
	return map { ord } split //, $bytes;
}

# Is it UTF-8 without a zero byte?
sub is_utf8
{
	my ($bytes) = @_;

	return $bytes =~ /\A(?: [\x01-\x7f] | [\xc2-\xdf][\x80-\xbf]
		| \xe0[\xa0-\xbf][\x80-\xbf] | [\xe1-\xec\xee\xef][\x80-\xbf]{2} | \xed[\x80-\x9f][\x80-\xbf]
		| \xf0[\x90-\xbf][\x80-\xbf]{2} | [\xf1-\xf3][\x80-\xbf]{3} | \xf4[\x80-\x8f][\x80-\xbf]{2} )*\z/x;
}

sub random_code_point
{
	my $kind = rand();

	return 0x20 + int(rand(0x5f)) if $kind < 0.5;
	return pick(0x22, 0x5c, 0x2f, 0x08, 0x0c, 0x0a, 0x0d, 0x09) if $kind < 0.65;
	return int(rand(0x20)) if $kind < 0.72;
	return pick(0x7f, 0x80, 0xe4, 0x308, 0x7ff, 0x800, 0x2028, 0x8d27, 0xd7ff, 0xe000, 0xfeff, 0xfffd, 0xffff)
	  if $kind < 0.85;
	return pick(0x10000, 0x1f600, 0x10ffff, 0x20000 + int(rand(0x1000))) if $kind < 0.93;
	return 0xd800 + int(rand(0x800));
}

sub space
{
	return chance(0.7) ? '' : join('', map { pick(' ', "\t", "\n", "\r") } 1 .. 1 + int(rand(3)));
}

# Damages a text: cuts it, or puts something in the place of some bytes.  What it
# is then, only the oracle knows.
sub damage
{
	my ($text) = @_;
	my @bytes = (split(//, qq{"\\{}[]:,.-+eE019 \t\n<>&%=;/!uxal\x7f\xff}), map { chr } 0 .. 0x1f);
	my $at = int(rand(length($text) + 1));
	my $length = int(rand(min(4, length($text) - $at + 1)));

	return substr($text, 0, $at) if chance(0.1);
	substr($text, $at, $length,
		pick('', '', pick(@bytes), pick(@bytes, 'ä', "\xef\xbb\xbf", "\xef\xbf\xbe"),
			substr($text, rand(length($text) + 1), rand(20))));
	return $text;
}

1;
