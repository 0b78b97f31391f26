# A text body stands for its UTF-8 bytes whatever the server encoding, so that
# one notice has one digest; limits count characters of that encoding.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('encoding');
$node->init;
$node->start;

# "größe" in each encoding, sent as it is
my %spelled = (LATIN1 => "gr\xf6\xdfe", UTF8 => "gr\xc3\xb6\xc3\x9fe", SQL_ASCII => "gr\xc3\xb6\xc3\x9fe");

foreach my $encoding (sort keys %spelled)
{
	my $database = lc "db_$encoding";
	$node->safe_psql('postgres',
		"CREATE DATABASE $database ENCODING $encoding LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	$node->safe_psql($database, q{
		CREATE EXTENSION notify_claim;
		SELECT notify_event_add('push', message_type => 'PUSHED');
	});
	local $ENV{PGCLIENTENCODING} = $encoding;
	my $body = $spelled{$encoding};
	is( $node->safe_psql($database, "SELECT outcome, replayed FROM handle_notify('T', 'push', '$body', '$body', data => '\"$body\"')"),
		'APPLIED|f', "a text body in $encoding");
	is( $node->safe_psql($database, q{SELECT payload_hash = encode(sha256('\x6772c3b6c39f65'), 'hex') FROM notify_claim}),
		't', "is digested as UTF-8 in $encoding");
	is( $node->safe_psql($database, "SELECT outcome, replayed FROM handle_notify('T', 'push', '$body', '\\x6772c3b6c39f65'::bytea)"),
		'APPLIED|t', "and its bytes are the same notice in $encoding");
	is( $node->safe_psql($database, q{SELECT payload ->> 'data' = aggregateid FROM notify_outbox}),
		't', "what comes along is not changed in $encoding");
}

# 160 characters of two bytes each
is( $node->safe_psql('db_utf8', "SELECT outcome FROM handle_notify(repeat(U&'\\00e4', 155), 'push', '1', 'b')"),
	'APPLIED', 'the limit of a key counts characters');

# Bytes that are no UTF-8 have no UTF-8 bytes to stand for.
my ($status, $stdout, $stderr) = $node->psql('db_sql_ascii',
	"SELECT outcome FROM handle_notify('T2', 'push', '1', E'\\xff'::text)");
like($stderr, qr/invalid byte sequence for encoding "UTF8"/, 'a text that is no UTF-8 is refused');
is( $node->safe_psql('db_sql_ascii', q{SELECT outcome FROM handle_notify('T2', 'push', '1', '\xff'::bytea)}),
	'APPLIED', 'as bytes it is taken');

$node->stop;
done_testing();
