# The outbox relayed by change data capture: pg_recvlogical with pgoutput, by a
# publication of INSERTs only, and with wal2json.  Every committed message comes
# once, what was rolled back never, DELETEs neither; an order's messages come in
# the order of their numbers; a reader that is killed goes on where it has
# confirmed.  Only a dead letter that is put back comes again.  And the columns and the payload are what Debezium's outbox event
# router takes by default and what README.md describes.
#
# The part with wal2json runs where the server has it.  With
# NOTIFY_CLAIM_NEED_WAL2JSON=1 it is an error where it has not.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use ChangeStream;
use Digest::MD5 qw(md5_hex);
use Encode qw(encode_utf8);
use IPC::Run;
use JSON::PP;
use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $dir = PostgreSQL::Test::Utils::tempdir;
my $timeout = $PostgreSQL::Test::Utils::timeout_default;

# A plugin's options, those that make it tell DELETEs too, how to read it, and what
# has come so far.
my @decoders = ({
		plugin => 'pgoutput', read => \&read_pgoutput, received => [],
		options => { proto_version => 1, publication_names => 'outbox' },
		with_deletes => { proto_version => 1, publication_names => 'everything' } });
my %wal2json = (
	'format-version' => 2, 'include-xids' => 1, 'include-lsn' => 1, 'add-tables' => 'public.notify_outbox');
chomp(my $pkglibdir = qx(pg_config --pkglibdir));
my $has_wal2json = -e "$pkglibdir/wal2json.so";
ok($has_wal2json, 'wal2json is there') if $has_wal2json || $ENV{NOTIFY_CLAIM_NEED_WAL2JSON};
push @decoders, {
	plugin => 'wal2json', read => \&read_wal2json, received => [],
	options => { %wal2json, actions => 'insert' }, with_deletes => \%wal2json }
  if $has_wal2json;
note('decoded with ' . join(' and ', map { $_->{plugin} } @decoders));

# Without a timeout the server asks no reader for its position.
my $node = start_node('cdc', "max_prepared_transactions = 10\nwal_sender_timeout = 0\n",
	init => { allows_streaming => 'logical', extra => [ '--encoding=UTF8', '--no-locale' ] });
if ($has_wal2json
	&& $node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}))
{
	# Since CVE-2026-6471 a server decodes only with what is named there.
	$node->append_conf('postgresql.conf', "output_plugin_libraries = 'pgoutput, wal2json'\n");
	$node->reload;
}
create_orders($node);
$node->safe_psql('postgres', q{
	DO $$ BEGIN PERFORM notify_event_set('SHIP', on_early => 'park'); END $$;
	INSERT INTO biz_order SELECT unnest, 'PENDING_PAY'
		FROM unnest('{A,B,C,D,E,F,G,H,I,J}'::text[] || U&'\00c4\000a"\005c\8d27'::text);
	INSERT INTO biz_order SELECT 'L' || n, 'PAID' FROM generate_series(1, 6) AS n;

	-- Every message that was committed, whatever becomes of it in the outbox.
	CREATE TABLE written AS SELECT pg_current_xact_id()::xid AS xid, pg_backend_pid() AS session, *
		FROM notify_outbox WITH NO DATA;
	CREATE FUNCTION record_written() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO written SELECT pg_current_xact_id()::xid, pg_backend_pid(), new.*;
		RETURN NULL;
	END $$;
	CREATE TRIGGER record_written AFTER INSERT ON notify_outbox
		FOR EACH ROW EXECUTE FUNCTION record_written();

	CREATE ROLE cdc LOGIN REPLICATION;
	CREATE PUBLICATION outbox FOR TABLE notify_outbox WITH (publish = 'insert');
	CREATE PUBLICATION everything FOR TABLE notify_outbox});
$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('$_->{plugin}', '$_->{plugin}')")
  foreach @decoders;

# Starts to read a decoder's slot into a file.  The role needs no right on any table.
sub start_reader
{
	my ($decoder, $file, @options) = @_;

	return IPC::Run::start(
		[
			'pg_recvlogical', '-d', $node->connstr('postgres') . ' user=cdc', '-S', $decoder->{plugin}, '--start', '-n',
			(map { ('-o', "$_=$decoder->{options}{$_}") } sort keys %{ $decoder->{options} }),
			'-f', $file, @options
		],
		'<', '/dev/null', '2>', "$file.err", IPC::Run::timeout($timeout));
}

# The transactions in a reader's file.
sub transactions
{
	my ($decoder, $file) = @_;

	return -e $file ? $decoder->{read}->(PostgreSQL::Test::Utils::slurp_file($file)) : ();
}

# Reads all that has been committed and confirms it.  Returns what came.
sub read_to_end
{
	my ($decoder) = @_;
	my $file = "$dir/$decoder->{plugin}-to-end";
	my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');

	unlink $file;
	start_reader($decoder, $file, '-E', $end)->finish
	  or die 'pg_recvlogical: ' . PostgreSQL::Test::Utils::slurp_file("$file.err");
	return transactions($decoder, $file);
}

# The same, noted as received.
sub receive
{
	my ($decoder) = @_;
	my @transactions = read_to_end($decoder);

	push @{ $decoder->{received} }, @transactions;
	return @transactions;
}

# Kills a reader.
sub cut_off
{
	my ($decoder, $reader) = @_;

	$reader->signal('KILL');
	eval { $reader->finish };
	$node->poll_query_until('postgres',
		"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '$decoder->{plugin}'")
	  or die 'the slot stays active';
	return;
}

# What would come with the DELETEs, without taking it.
sub peek_with_deletes
{
	my ($decoder) = @_;
	my $options = join(', ', map { "'$_', '$decoder->{with_deletes}{$_}'" } sort keys %{ $decoder->{with_deletes} });
	my $hex = $node->safe_psql('postgres', qq{
		SELECT encode(data, 'hex')
		FROM pg_logical_slot_peek_binary_changes('$decoder->{plugin}', NULL, NULL, $options)});

	return $decoder->{read}->(join('', map { pack('H*', $_) . "\n" } split(/\n/, $hex)));
}

sub changes
{
	return map { @{ $_->{changes} } } @_;
}

# A column of changes, separated by blanks.
sub column
{
	my ($column, @changes) = @_;

	return join(' ', map { $_->{row}{$column} // 'NULL' } @changes);
}

# Each message as one line: its transaction, its number and id, and a digest of the
# rest; of the transactions, and of what was written.
sub received_lines
{
	my @lines;

	foreach my $transaction (@_)
	{
		foreach my $change (@{ $transaction->{changes} })
		{
			my ($seq, $id, @rest) =
			  map { $change->{row}{$_} // 'NULL' }
			  ('seq', 'id', 'aggregatetype', 'aggregateid', 'type', 'payload', 'created_at');
			push @lines, join(' ', $transaction->{xid}, $change->{action}, $seq, $id, md5_hex(join("\t", @rest)));
		}
	}
	return @lines;
}

sub written_lines
{
	return split /\n/, $node->safe_psql('postgres', q{
		SELECT concat_ws(' ', xid, 'I', seq, id,
			md5(concat_ws(E'\t', aggregatetype, aggregateid, type, payload, created_at)))
		FROM written});
}

# What is in one list and not in the other, or not as often; nothing if they are the same.
sub difference
{
	my ($received, $written) = @_;
	my %count;

	$count{$_}++ foreach @$received;
	$count{$_}-- foreach @$written;
	return join("\n", map { $count{$_} < 0 ? "lost: $_" : "too often: $_" } grep { $count{$_} } sort keys %count);
}

# Passes where all that was written has been received once, in the order of the
# commits and of each order's numbers.
sub complete
{
	my ($decoder, $name) = @_;
	my ($commit, %last, @commits, @numbers) = (0);

	foreach my $transaction (@{ $decoder->{received} })
	{
		push @commits, "$transaction->{lsn} after $commit" if $transaction->{lsn} <= $commit;
		$commit = $transaction->{lsn};
		foreach my $row (map { $_->{row} } @{ $transaction->{changes} })
		{
			my $last = \$last{"$row->{aggregatetype} $row->{aggregateid}"};
			push @numbers, "$row->{aggregateid}: $row->{seq} after $$last" if defined $$last && $row->{seq} <= $$last;
			$$last = $row->{seq};
		}
	}

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$name = "$decoder->{plugin}, $name";
	is(difference([ received_lines(@{ $decoder->{received} }) ], [ written_lines() ]),
		'', "$name: every committed message once, and nothing else");
	is("@commits", '', "$name: in the order of the commits");
	is("@numbers", '', "$name: every order's messages in the order of their numbers");
	return;
}

#
# One session: what is committed comes, what is rolled back does not
#

my $session = NotifyClaim::Session->new($node);
my @rolled_back;

# The id of the message that this transaction has just written.
sub last_id
{
	my $id = $session->query('SELECT id FROM notify_outbox ORDER BY seq DESC LIMIT 1');
	like($id, qr/^[0-9a-f-]{36}$/, 'a message that will be rolled back');
	return $id;
}

is($session->notify('a', 'PAY', 'A'), 'APPLIED', 'committed by itself');
is($session->notify('a', 'PAY', 'A'), 'APPLIED replayed', 'a repeat');
is($session->notify('a', 'PAY', 'A', 'ff'), 'CONFLICT', 'other content, and an alarm');
is($session->notify('p', 'push', 'x'), 'APPLIED', 'an event without a machine');

$session->query('BEGIN');
is($session->notify('b', 'PAY', 'B'), 'APPLIED', 'in a transaction');
$session->query('SAVEPOINT s');
is($session->notify('b1', 'REFUND', 'B'), 'APPLIED', 'after a savepoint');
push @rolled_back, last_id();
$session->query('ROLLBACK TO s');
is($session->notify('b2', 'REFUND', 'B'), 'APPLIED', 'after its rollback');
$session->query('COMMIT');

foreach my $end ('ROLLBACK', 'SELECT 1 / 0; COMMIT')
{
	$session->query('BEGIN');
	is($session->notify('c', 'PAY', 'C'), 'APPLIED', "before $end");
	push @rolled_back, last_id();
	$session->query($end);
}
is($session->notify('c', 'PAY', 'C'), 'APPLIED', 'and once again');

is($session->notify('d', 'SHIP', 'D'), 'PARKED', 'too early');
is($session->notify('d', 'PAY', 'D'), 'APPLIED', 'which releases what is parked');
is($session->notify('e', 'SHIP', 'E'), 'PARKED', 'too early');
is($session->query(q{SET client_min_messages = error; UPDATE biz_order SET status = 'PAID' WHERE order_no = 'E'}),
	'', 'the application releases it');

# A payload that is stored out of line, and what has to be quoted somewhere.
is($session->query(q{
		SELECT FROM handle_notify('f', 'PAY', 'F', ''::bytea, data =>
			jsonb_build_object('random', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 4000) AS n)));
		SELECT FROM handle_notify('k', 'PAY', U&'\00c4\000a"\005c\8d27', ''::bytea, data =>
			jsonb_build_object('text', U&'\00e9\000a\0009"\005c\+01f600', 'none', NULL))}),
	'', 'large and hard ones');

is($session->query(q{
		CREATE TEMP TABLE batch AS SELECT * FROM notify_outbox_lease('relay');
		SELECT cardinality(notify_outbox_ack(token, array_agg(seq)))
			FROM batch WHERE seq <= (SELECT max(seq) - 4 FROM batch) GROUP BY token;
		SELECT notify_outbox_release(token) FROM batch LIMIT 1}),
	"7\n4", 'most are removed before anybody reads the log');

my @types = (
	'ORDER_PAID', 'PAYLOAD_CONFLICT', 'PUSHED', 'ORDER_PAID', 'REFUND_RECORDED', 'ORDER_PAID',
	'ORDER_PAID', 'ORDER_SHIPPED', 'ORDER_SHIPPED', 'ORDER_PAID', 'ORDER_PAID');
foreach my $decoder (@decoders)
{
	my $plugin = $decoder->{plugin};
	my @deleted = map { $_->{row}{seq} } grep { $_->{action} eq 'D' } changes(peek_with_deletes($decoder));
	is(join(' ', sort { $a <=> $b } @deleted),
		$node->safe_psql('postgres', q{
			SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM written
			WHERE seq NOT IN (SELECT seq FROM notify_outbox)}),
		"$plugin: the DELETEs are there for whoever asks for them");

	my @transactions = receive($decoder);
	my %id = map { $_->{row}{id} => 1 } changes(@transactions);
	is(column('type', changes(@transactions)), "@types", "$plugin: the messages");
	is(join(' ', map { scalar(@{ $_->{changes} }) } grep { @{ $_->{changes} } } @transactions),
		'1 1 1 2 1 2 1 1 1', "$plugin: those of one transaction together");
	is(scalar(grep { $id{$_} } @rolled_back), 0, "$plugin: none that was rolled back");
	complete($decoder, 'one session');
}
is(scalar(@rolled_back), 3, 'three were rolled back');

#
# The shape
#

my $columns = 'seq bigint, id uuid, aggregatetype character varying(255), aggregateid character varying(255), '
  . 'type character varying(255), payload jsonb, created_at timestamp with time zone';
my %keys = (
	biz_order => 'biz_key channel data event_type from order_no to type',
	event => 'biz_key channel data event_type from order_no to type',
	notify_review => 'biz_key channel first_hash kind order_no payload_hash');

# The columns of a relation, with their types' names.
sub columns
{
	my ($relation) = @_;

	return join(', ', map {
			my $type = $_->{type};
			$type = $node->safe_psql('postgres', "SELECT format_type($1, $2)") if $type =~ /^(\d+) (-?\d+)$/;
			"$_->{name} $type"
	} @{ $relation->{columns} });
}

foreach my $decoder (@decoders)
{
	my $plugin = $decoder->{plugin};
	my @changes = changes(@{ $decoder->{received} });
	my %name = map { $_->{relation}{name} => 1 } @changes;
	my %shape = map { columns($_->{relation}) => 1 } $changes[0], $changes[-1];
	is(join(' ', keys %name), 'public.notify_outbox', "$plugin: the table");
	is(join("\n", keys %shape), $columns, "$plugin: its columns, with those of Debezium's event router");

	my (%found, @differ);
	foreach my $row (map { $_->{row} } @changes)
	{
		my $payload = decode_json($row->{payload});
		my $alarm = $row->{aggregatetype} eq 'notify_review';
		my $tells = encode_utf8("$payload->{order_no} " . ($payload->{ $alarm ? 'kind' : 'type' } // ''));
		my $expected = ($alarm ? 'A' : $row->{aggregateid}) . " $row->{type}";
		push @differ, "$tells, not $expected" if $tells ne $expected;
		$found{ $row->{aggregatetype} }{ join(' ', sort keys %$payload) } = 1;
	}
	is(join("\n", map { "$_: " . join(' or ', keys %{ $found{$_} }) } sort keys %found),
		join("\n", map { "$_: $keys{$_}" } sort keys %keys), "$plugin: members of the payloads");
	is("@differ", '', "$plugin: which agree with the columns");

	my ($large, $quoted) = map { decode_json($_->{row}{payload})->{data} } @changes[ -2, -1 ];
	is($large->{random}, join('', map { md5_hex($_) } 1 .. 4000), "$plugin: a large payload is whole");
	is_deeply($quoted, { text => "\x{e9}\n\t\"\\\x{1f600}", none => undef }, "$plugin: and one with all kinds of characters");
}

#
# A number that was drawn first and is committed last comes last
#

my $other = NotifyClaim::Session->new($node);
$session->query('BEGIN');
is($session->notify('g', 'PAY', 'G'), 'APPLIED', 'the first draws its number');
is($other->notify('h', 'PAY', 'H'), 'APPLIED', 'the second draws and commits');
$session->query('COMMIT');
foreach my $decoder (@decoders)
{
	my @changes = changes(receive($decoder));
	is(column('aggregateid', @changes), 'H G', "$decoder->{plugin}: in the order of the commits");
	cmp_ok($changes[0]{row}{seq}, '>', $changes[1]{row}{seq}, "$decoder->{plugin}: which is not that of the numbers");
	complete($decoder, 'two sessions');
}

#
# Prepared transactions
#

foreach my $order ('I', 'J')
{
	$session->query('BEGIN');
	is($session->notify($order, 'PAY', $order), 'APPLIED', "to be prepared: $order");
	push @rolled_back, last_id() if $order eq 'J';
	$session->query("PREPARE TRANSACTION '$order'");
}
is(scalar(changes(receive($_))), 0, "$_->{plugin}: nothing comes as long as they are prepared") foreach @decoders;
$_->quit foreach $session, $other;
$node->restart;
foreach my $decoder (@decoders)
{
	# Before PostgreSQL 17 a slot goes back to the position that was saved last.
	my %received = map { $_ => 1 } received_lines(@{ $decoder->{received} });
	is(join("\n", grep { !$received{$_} } received_lines(read_to_end($decoder))),
		'', "$decoder->{plugin}: nor after a restart, but for what has come already");
}
$node->safe_psql('postgres', "COMMIT PREPARED 'I'");
$node->safe_psql('postgres', "ROLLBACK PREPARED 'J'");
foreach my $decoder (@decoders)
{
	is(column('aggregateid', changes(receive($decoder))), 'I', "$decoder->{plugin}: it comes when it is committed");
	complete($decoder, 'prepared');
}

#
# Several sessions, and readers that are killed
#

# Refunds of two orders in each transaction; of ten transactions two are rolled
# back, and in three the second refund is.  Meanwhile a relay takes messages away.
open my $script, '>', "$dir/refund.sql" or die $!;
print $script q{
\set n :n + 1
\set low random(1, 3)
\set high random(4, 6)
\set fate random(1, 10)
BEGIN;
SELECT FROM handle_notify(:round || '-' || :client_id || '-' || :n || 'a', 'REFUND', 'L' || :low, ''::bytea);
SAVEPOINT s;
SELECT FROM handle_notify(:round || '-' || :client_id || '-' || :n || 'b', 'REFUND', 'L' || :high, ''::bytea);
\if :fate <= 2
ROLLBACK;
\elif :fate <= 5
ROLLBACK TO s;
COMMIT;
\else
COMMIT;
\endif
};
close $script;
open $script, '>', "$dir/relay.sql" or die $!;
print $script q{
SELECT notify_outbox_ack(token, array_agg(seq)) FROM notify_outbox_lease('relay', max => 20) GROUP BY token;
};
close $script;

# Starts four sessions with 100 transactions each.
sub start_load
{
	my ($round) = @_;

	return IPC::Run::start(
		[
			'pgbench', '-n', '-c', 4, '-j', 2, '-t', 100, '-D', "round=$round", '-D', 'n=0',
			'-f', "$dir/refund.sql\@9", '-f', "$dir/relay.sql\@1", $node->connstr('postgres')
		],
		'<', '/dev/null', '>', "$dir/load-$round.out", '2>&1', IPC::Run::timeout($timeout));
}

sub finish_load
{
	my ($load, $round) = @_;

	ok($load->finish, "load $round") or diag(PostgreSQL::Test::Utils::slurp_file("$dir/load-$round.out"));
	return;
}

# These confirm every second.
my %reader = map { $_->{plugin} => start_reader($_, "$dir/$_->{plugin}-1st", '-s', 1, '-F', 1) } @decoders;
finish_load(start_load(1), 1);
my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
foreach my $decoder (@decoders)
{
	my $plugin = $decoder->{plugin};
	$node->poll_query_until('postgres',
		"SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = '$plugin'")
	  or die "$plugin confirms nothing";
	cut_off($decoder, $reader{$plugin});
	push @{ $decoder->{received} }, transactions($decoder, "$dir/$plugin-1st");
	complete($decoder, 'four sessions');
}

# These never confirm, and are killed in the middle.
%reader = map { $_->{plugin} => start_reader($_, "$dir/$_->{plugin}-2nd", '-s', 0) } @decoders;
my $load = start_load(2);
foreach my $decoder (@decoders)
{
	my $tries = 100 * $timeout;
	usleep(10_000) while changes(transactions($decoder, "$dir/$decoder->{plugin}-2nd")) < 20 && --$tries > 0;
	cut_off($decoder, $reader{ $decoder->{plugin} });
}
finish_load($load, 2);
finish_load(start_load(3), 3);

foreach my $decoder (@decoders)
{
	my $plugin = $decoder->{plugin};
	my @unconfirmed = received_lines(transactions($decoder, "$dir/$plugin-2nd"));
	my %rest = map { $_ => 1 } received_lines(receive($decoder));
	cmp_ok(scalar(@unconfirmed), '>=', 20, "$plugin: a reader was killed in the middle of its work");
	cmp_ok(scalar(@unconfirmed), '<', scalar(keys %rest), "$plugin: before the end");
	is(join("\n", grep { !$rest{$_} } @unconfirmed), '', "$plugin: what it had not confirmed comes again, the same");
	complete($decoder, 'after it');

	my %id = map { $_->{row}{id} => 1 } changes(@{ $decoder->{received} });
	is(scalar(grep { $id{$_} } @rolled_back), 0, "$plugin: none that was rolled back");
}

# That there was something to get wrong.
is($node->safe_psql('postgres', q{
	SELECT min(sessions) > 1, sum(messages) > 300 FROM (
		SELECT count(DISTINCT session) AS sessions, count(*) AS messages FROM written
		WHERE aggregateid ~ '^L\d' GROUP BY aggregateid) AS l}),
	't|t', 'every order has messages of several sessions');
cmp_ok($node->safe_psql('postgres', 'SELECT max(seq) - count(*) FROM written'), '>', 20 + @rolled_back, 'many were rolled back');
cmp_ok($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM written) - (SELECT count(*) FROM notify_outbox)'),
	'>', 20, 'many were removed');

#
# A dead letter that is put back is inserted again
#

$session = NotifyClaim::Session->new($node);
is($session->notify($_, 'push', 'm'), 'APPLIED', "a message that is to die, and one behind it: $_") foreach 'm1', 'm2';
is($session->query(q{
		SET notify_claim.max_attempts = 1;
		CREATE TEMP TABLE batch AS SELECT * FROM notify_outbox_lease('relay', max => 10000);
		SELECT notify_outbox_nack(token, seq) FROM batch WHERE payload ->> 'biz_key' = 'm1:push';
		SELECT FROM notify_outbox_dead AS d, LATERAL notify_outbox_redrive(d.seq)}),
	't', 'it dies and is put back');
foreach my $decoder (@decoders)
{
	my @changes = changes(receive($decoder));
	is(join(' ', map { decode_json($_->{row}{payload})->{biz_key} } @changes), 'm1:push m2:push m1:push',
		"$decoder->{plugin}: it comes again");
	is_deeply($changes[2]{row}, $changes[0]{row}, "$decoder->{plugin}: with the same id and number");
}
$session->quit;

$node->stop;
done_testing();
