# Dump and restore: a restored database has the claims, the messages, the
# machines, the sequences and the grants.  It answers every old notice as the
# original did and goes on with new ones where that stopped.
#
# The extension and the order table are in schemas whose names need quoting.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('dump');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $ext = '"Notify Claim-1"';
my $app = '"Shop\'s Orders"';

sub create_database
{
	my ($server, $dbname) = @_;

	$server->safe_psql('postgres',
		"CREATE DATABASE $dbname TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'");
	return;
}

create_database($node, 'shop');
$node->safe_psql('postgres', 'CREATE ROLE clerk LOGIN; CREATE ROLE auditor');
$node->safe_psql('shop', qq{
	SET client_min_messages = warning;
	CREATE SCHEMA $ext;
	CREATE EXTENSION notify_claim SCHEMA $ext;
	CREATE SCHEMA $app;
	SET search_path = $ext, $app;
	CREATE TYPE $app."Order State" AS ENUM ('offen', 'bezahlt', 'verschickt', 'zurückerstattet');
	CREATE TABLE $app."Order List" ("No." bigint PRIMARY KEY, "State" "Order State" NOT NULL);
	INSERT INTO "Order List" SELECT n, 'offen' FROM generate_series(1, 20) AS n;
	CREATE FUNCTION $app.refuse(order_no text, event_type text, raw_body bytea) RETURNS text
	LANGUAGE sql AS 'SELECT CASE WHEN raw_body = ''nein'' THEN ''refused'' END';
	CREATE FUNCTION $app.act(order_no text, event_type text, raw_body bytea) RETURNS void
	LANGUAGE sql AS '';
	DO \$\$ BEGIN
		PERFORM notify_machine_add('"Order List"', 'No.', 'State', machine => 'Aufträge');
		PERFORM notify_transition_add('PAY', 'offen', 'bezahlt', message_type => 'ORDER_PAID');
		PERFORM notify_transition_add('SHIP', 'bezahlt', 'verschickt', message_type => 'ORDER_SHIPPED');
		PERFORM notify_transition_add('REFUND', 'bezahlt', NULL, message_type => 'REFUND_RECORDED');
		PERFORM notify_transition_add('CANCEL', NULL, 'zurückerstattet',
			message_type => 'ÜBERRASCHUNG');
		PERFORM notify_transition_add(NULL, 'verschickt', 'zurückerstattet');
		PERFORM notify_event_set('SHIP', on_early => 'skip');
		PERFORM notify_event_add('push', 'PUSHED');
	END \$\$;
	DO \$\$ BEGIN
		PERFORM notify_channel_add('kasse', preset => 'alipay', max_body => 1000);
		PERFORM notify_channel_add('default', digest => 'json', ignore => '{"zeit","a\\\\.b"}');
		PERFORM notify_event_set('push', check_function => 'refuse', action_function => 'act');
	END \$\$;
	SELECT notify_grant('clerk', 'app');
	SELECT notify_grant('auditor', 'reviewer');
	GRANT USAGE ON SCHEMA $app TO clerk;
	GRANT SELECT, UPDATE ON $app."Order List" TO clerk;

	CREATE TABLE $app.notice (
		n int PRIMARY KEY, txn text, event text, order_no text, body bytea, data jsonb);
	INSERT INTO notice VALUES
		(1, 'T1', 'PAY', '1', '\\x00ff', NULL), (2, 'T2', 'PAY', '002', 'x', '{"amount": "10.00"}'),
		(3, 'T3', 'PAY', '1', 'y', NULL), (4, 'T4', 'REFUND', '1', 'z', '{"Grund": "zurück"}'),
		(5, 'T5', 'SHIP', '1', 'x', NULL), (6, 'T6', 'PAY', '1', 'x', NULL),
		(7, 'T7', 'SHIP', '3', 'x', NULL), (8, 'T8', 'CANCEL', '2', 'x', NULL),
		(9, 'Tä:9', 'push', 'irgendwas', '', '[1, null]'), (10, 'T10', 'CANCEL', '2', 'x', NULL);
	CREATE TABLE $app.answer AS
		SELECT n.n, h.* FROM notice AS n,
			LATERAL handle_notify(n.txn, n.event, n.order_no, n.body, data => n.data) AS h;

	-- what a person decided, and what is left to decide
	SELECT handle_notify('K1', 'PAY', '4', 'a=1&sign=x'::bytea, 'kasse');
	SELECT handle_notify('K1', 'PAY', '4', 'a=2&sign=x'::bytea, 'kasse');
	SELECT handle_notify('K2', 'PAY', '5', 'a=1&sign=x'::bytea, 'kasse');
	SELECT handle_notify('K2', 'PAY', '5', 'a=' || n || '&sign=x', 'kasse') FROM generate_series(2, 3) AS n;
	SELECT handle_notify('K3', 'push', 'x', 'nein'::bytea, 'kasse', '{"a": 1}');
	SELECT handle_notify('K4', 'push', 'x', 'nein'::bytea, 'kasse');
	SELECT notify_review_resolve(id, 'DISMISS', 'geprüft') FROM notify_review
		WHERE biz_key IN ('K1:PAY', 'K4:push') ORDER BY id;
	SELECT notify_channel_set('kasse', ignore => '{notify_time}');

	-- what waits for its order
	SELECT handle_notify('K5', 'REFUND', '8', 'parked', data => '{"a": 2}');

	-- a message that failed, a dead letter with others waiting behind it, and a lease
	SELECT notify_grant('clerk', 'relay');
	SET notify_claim.retry_delay = 0;
	CREATE TEMP TABLE leased AS SELECT * FROM notify_outbox_lease('relay');
	SELECT notify_outbox_nack(token, seq, 'kaputt')
		FROM (SELECT token, min(seq) AS seq FROM leased WHERE aggregateid IN ('1', '2') AND aggregatetype = 'Aufträge'
			GROUP BY token, aggregateid) AS l;
	SELECT notify_outbox_release(token) FROM leased LIMIT 1;
	TRUNCATE leased;
	INSERT INTO leased SELECT * FROM notify_outbox_lease('relay', lease => '1 hour');
	SET notify_claim.max_attempts = 2;
	SELECT notify_outbox_nack(token, min(seq), 'tot') FROM leased
		WHERE aggregateid = '1' AND aggregatetype = 'Aufträge' GROUP BY token;
	SELECT notify_outbox_ack(token, array_agg(seq)) FROM leased WHERE aggregateid = 'irgendwas' GROUP BY token;
});
is( $node->safe_psql('shop', qq{
		SET search_path = $ext;
		SELECT aggregateid, due_at = 'infinity' FROM notify_outbox_held ORDER BY 1;
		SELECT attempts, last_error FROM notify_outbox_attempt ORDER BY seq;
		SELECT aggregateid, attempts, last_error, blocks FROM notify_outbox_dead;
		SELECT sum(cardinality(seqs)) > 4 FROM notify_outbox_leased}),
	"1|f\n2|f\n1|kaputt\n1|2|tot|t\nt", 'and messages in all states');
is( $node->safe_psql('shop', qq{
		SET search_path = $ext, $app;
		SELECT kind, biz_key, state, hits, variants FROM notify_review ORDER BY id}) . "\n",
	<<'END',
PAYLOAD_CONFLICT|K1:PAY|DISMISSED|1|1
PAYLOAD_CONFLICT|K2:PAY|OPEN|2|2
CHECK_REFUSED|K3:push|OPEN|1|1
CHECK_REFUSED|K4:push|DISMISSED|1|1
END
	'and reviews in all states');
is( $node->safe_psql('shop', "SELECT n, outcome, replayed, result FROM $app.answer ORDER BY n") . "\n",
	<<'END',
1|APPLIED|f|{"from": "offen", "status": "bezahlt"}
2|APPLIED|f|{"from": "offen", "status": "bezahlt"}
3|SKIPPED|f|{"reason": "already", "skipped": "bezahlt"}
4|APPLIED|f|{"from": "bezahlt", "status": "bezahlt"}
5|APPLIED|f|{"from": "bezahlt", "status": "verschickt"}
6|SKIPPED|f|{"reason": "stale", "skipped": "verschickt"}
7|SKIPPED|f|{"reason": "early", "skipped": "offen"}
8|APPLIED|f|{"from": "bezahlt", "status": "zurückerstattet"}
9|APPLIED|f|{"from": null, "status": null}
10|SKIPPED|f|{"reason": "already", "skipped": "zurückerstattet"}
END
	'there is something to dump');

# Everything that the extension keeps, and what its sequences will give next.
sub contents
{
	my ($server, $dbname) = @_;

	return $server->safe_psql($dbname, qq{
		SET search_path = $ext, $app;
		SELECT * FROM notify_claim ORDER BY id;
		SELECT * FROM notify_outbox ORDER BY seq;
		SELECT machine, order_table::text, order_table_name, order_column, status_column
			FROM notify_machine ORDER BY machine;
		SELECT * FROM notify_event ORDER BY event_type;
		SELECT * FROM notify_transition ORDER BY machine, event_type, from_status, to_status;
		SELECT * FROM notify_channel ORDER BY channel;
		SELECT * FROM notify_digest_rule ORDER BY id;
		SELECT * FROM notify_outbox_held ORDER BY aggregateid;
		SELECT * FROM notify_outbox_attempt ORDER BY seq;
		SELECT * FROM notify_outbox_dead ORDER BY seq;
		SELECT * FROM notify_body ORDER BY claim;
		SELECT * FROM notify_review ORDER BY id;
		SELECT * FROM notify_review_variant ORDER BY review, payload_hash;
		SELECT * FROM notify_decision ORDER BY id;
		SELECT last_value, is_called FROM notify_claim_id_seq;
		SELECT last_value, is_called FROM notify_outbox_seq_seq;
		SELECT last_value, is_called FROM notify_digest_rule_id_seq;
		SELECT last_value, is_called FROM notify_review_id_seq;
		SELECT last_value, is_called FROM notify_decision_id_seq;
		SELECT * FROM "Order List" ORDER BY 1});
}

sub grants
{
	my ($server, $dbname) = @_;

	return $server->safe_psql($dbname, qq{
		SELECT n.nspacl FROM pg_namespace AS n WHERE n.nspname = 'Notify Claim-1';
		SELECT p.oid::regprocedure, p.proacl
		FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
		WHERE d.deptype = 'e'
			AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim')
		ORDER BY 1;
		SELECT c.relname, c.relacl
		FROM pg_depend AS d JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
		WHERE d.deptype = 'e'
			AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim')
		ORDER BY 1});
}

my $contents = contents($node, 'shop');
my $grants = grants($node, 'shop');
like($grants, qr/handle_notify.*clerk=X/, 'the clerk may call');

# Are the two the same?  If not, shows the lines that are in one of them only.
sub same_lines
{
	my ($got, $expected, $name) = @_;
	my %got = map { $_ => 1 } split /\n/, $got;
	my %expected = map { $_ => 1 } split /\n/, $expected;

	is( join("\n", 'too much:', (grep { !$expected{$_} } sort keys %got),
			'missing:', (grep { !$got{$_} } sort keys %expected)),
		"too much:\nmissing:", $name);
	return;
}

# The same contents; then it has to work.
sub restored
{
	my ($server, $dbname, $name, $same_grants) = @_;

	same_lines(contents($server, $dbname), $contents, "$name: the same contents");
	same_lines(grants($server, $dbname), $grants, "$name: the same grants") if $same_grants;

	is( $server->safe_psql($dbname, qq{
			SET search_path = $ext, $app;
			SELECT count(*), bool_and(h.replayed), bool_and(
				(a.status, a.outcome, a.result, a.first_seen, a.ack_status, a.ack_body)
				IS NOT DISTINCT FROM (h.status, h.outcome, h.result, h.first_seen, h.ack_status, h.ack_body))
			FROM answer AS a JOIN notice AS n USING (n),
				LATERAL handle_notify(n.txn, n.event, n.order_no, n.body, data => n.data) AS h}),
		'10|t|t', "$name: every old notice is replayed, field by field");
	is( $server->safe_psql($dbname, qq{
			SET search_path = $ext, $app;
			SELECT outcome, replayed FROM handle_notify('K1', 'PAY', '4', 'sign=z&a=1'::bytea, 'kasse');
			SELECT outcome, replayed FROM handle_notify('K1', 'PAY', '4', 'a=99'::bytea, 'kasse');
			SELECT outcome, replayed FROM handle_notify('K4', 'push', 'x', 'nein'::bytea, 'kasse');
			SELECT * FROM notify_review_diff(2)}),
		"APPLIED|t\nAPPLIED|t\nREJECTED|t\na|1|3",
		"$name: claims are compared under their own rule, and decisions hold");
	same_lines(contents($server, $dbname), $contents, "$name: which changes nothing");
	is( $server->safe_psql($dbname, qq{
			SET search_path = $ext, $app;
			SELECT string_agg(DISTINCT h.outcome, ' ') FROM notice AS n,
				LATERAL handle_notify(n.txn, n.event, n.order_no, n.body || '!') AS h}),
		'CONFLICT', "$name: other contents are conflicts");
	is( $server->safe_psql($dbname, qq{
			SET search_path = $ext, $app;
			SELECT outcome FROM handle_notify('K2', 'PAY', '5', 'a=4'::bytea, 'kasse');
			SELECT hits, variants FROM notify_review WHERE id = 2;
			SELECT notify_review_resolve(3, 'ALLOW', 'doch');
			SELECT count(*), count(DISTINCT id), max(id) FROM notify_review;
			SELECT max(id) FROM notify_decision}),
		"CONFLICT\n3|3\nAPPLIED\n14|14|14\n3",
		"$name: open reviews go on, new ones get new numbers");

	my $role = $same_grants ? 'SET ROLE clerk;' : '';
	is( $server->safe_psql($dbname, qq{
			$role
			SELECT outcome FROM $ext.handle_notify('N1', 'PAY', '10', ''::bytea);
			SELECT outcome FROM $ext.handle_notify('N2', 'SHIP', '10', ''::bytea);
			SELECT outcome FROM $ext.handle_notify('N3', 'push', '10', ''::bytea);
			RESET ROLE;
			SELECT string_agg(id::text, ' ' ORDER BY id)
				FROM $ext.notify_claim WHERE biz_key LIKE 'N%';
			SELECT string_agg(seq::text || ' ' || type, ' ' ORDER BY seq)
				FROM $ext.notify_outbox WHERE payload ->> 'biz_key' LIKE 'N%';
			SELECT "State" FROM $app."Order List" WHERE "No." = 10}),
		"APPLIED\nAPPLIED\nAPPLIED\n16 17 18\n24 ORDER_PAID 25 ORDER_SHIPPED 26 PUSHED\nverschickt",
		"$name: new notices are processed, and the numbers go on");
	is( $server->safe_psql($dbname, qq{
			SET search_path = $ext;
			CREATE TEMP TABLE leased AS SELECT * FROM notify_outbox_lease('relay');
			SELECT (SELECT array_agg(seq) FROM notify_outbox) @> array_agg(seq),
				count(*) = (SELECT count(*) FROM notify_outbox
					WHERE (aggregateid, aggregatetype) NOT IN (('1', 'Aufträge'), ('2', 'Aufträge'))),
				max(attempt) FROM leased;
			UPDATE notify_outbox_held SET due_at = now() WHERE due_at < 'infinity';
			SELECT aggregateid, attempt FROM notify_outbox_lease('relay') ORDER BY seq LIMIT 1;
			SELECT notify_outbox_redrive(seq) FROM notify_outbox_dead;
			SELECT aggregateid, attempt FROM notify_outbox_lease('relay') ORDER BY seq}),
		"t|t|1\n2|2\n\n1|1\n1|1\n1|1", "$name: nothing is leased, failed messages and dead letters are as they were");
	is( $server->safe_psql($dbname, qq{
			SET client_min_messages = warning;
			SET search_path = $ext, $app;
			UPDATE "Order List" SET "State" = 'bezahlt' WHERE "No." = 8;
			SELECT outcome FROM handle_notify('K5', 'REFUND', '8', 'parked');
			SELECT type, payload ->> 'data' FROM notify_outbox ORDER BY seq DESC LIMIT 1}),
		"APPLIED\nREFUND_RECORDED|{\"a\": 2}", "$name: what was parked is released");
	is( $server->safe_psql($dbname, qq{
			SET client_min_messages = warning;
			SET search_path = $ext, $app;
			SELECT notify_transition_add('RETURN', 'verschickt', 'offen');
			SELECT outcome FROM handle_notify('N4', 'RETURN', '10', ''::bytea);
			SELECT notify_machine_drop('Aufträge');
			DROP EXTENSION notify_claim}),
		"\nAPPLIED\n", "$name: machines can be changed and dropped, and so can the extension");
	return;
}

sub run
{
	my ($name, @command) = @_;

	return $node->command_ok(\@command, $name);
}

# The whole database, in each format.

my @psql = ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/log");

run('pg_dump', 'pg_dump', '-f', "$dir/shop.sql", 'shop');
create_database($node, 'plain');
run('psql', @psql, '-1', '-f', "$dir/shop.sql", '-d', 'plain');
restored($node, 'plain', 'plain', 1);

run('pg_dump -Fc', 'pg_dump', '-Fc', '-f', "$dir/shop.dump", 'shop');
create_database($node, 'custom');
run('pg_restore', 'pg_restore', '-e', '-d', 'custom', "$dir/shop.dump");
restored($node, 'custom', 'custom', 1);

run('pg_dump -Fd', 'pg_dump', '-Fd', '-j', 2, '-f', "$dir/shop.dir", 'shop');
create_database($node, 'parallel');
restored($node, 'parallel', 'parallel', 1)
  if run('pg_restore -j', 'pg_restore', '-e', '-j', 2, '-d', 'parallel', "$dir/shop.dir");

# Definitions first, data afterwards.
create_database($node, 'halves');
run('pg_restore -s', 'pg_restore', '-e', '-s', '-d', 'halves', "$dir/shop.dump");
run('pg_restore -a', 'pg_restore', '-e', '-a', '-d', 'halves', "$dir/shop.dump");
restored($node, 'halves', 'in two halves', 1);

# Schema by schema, into a database where the extension has been created: the
# application's as it is, with the trigger of the order table, and the extension's
# data.

run('pg_dump -n, application', 'pg_dump', '-n', $app, '-f', "$dir/app.sql", 'shop');
run('pg_dump -n, extension', 'pg_dump', '-n', $ext, '-f', "$dir/ext.sql", 'shop');
run('pg_dump -n -a, extension', 'pg_dump', '-n', $ext, '-a', '-f', "$dir/ext-data.sql", 'shop');
create_database($node, 'parts');
$node->safe_psql('parts', "CREATE SCHEMA $ext; CREATE EXTENSION notify_claim SCHEMA $ext");
run('psql, application', @psql, '-f', "$dir/app.sql", '-d', 'parts');
run('psql, extension', @psql, '-f', "$dir/ext-data.sql", '-d', 'parts');
restored($node, 'parts', 'schema by schema', 0);
like(PostgreSQL::Test::Utils::slurp_file("$dir/ext.sql"),
	qr/^COPY "Notify Claim-1"\.notify_claim /m, 'pg_dump -n, extension: the claims are in it');

# The usual case: extension and orders in public.

create_database($node, 'usual');
create_orders($node, 'usual');
my $answers = q{
	SELECT h.* FROM (VALUES ('T1', 'PAY', 'A'), ('T2', 'SHIP', 'A'), ('T3', 'push', 'A')) AS n,
		LATERAL handle_notify(column1, column2, column3, ''::bytea) AS h};
$node->safe_psql('usual', q{INSERT INTO biz_order VALUES ('A', 'PENDING_PAY')});
is( $node->safe_psql('usual', qq{
		SELECT count(*) FROM ($answers) AS a WHERE outcome = 'APPLIED' AND NOT replayed}),
	'3', 'usual: three notices');
my $first = $node->safe_psql('usual', $answers);
run('pg_dump, usual', 'pg_dump', '-f', "$dir/usual.sql", 'usual');
create_database($node, 'usual_restored');
run('psql, usual', @psql, '-f', "$dir/usual.sql", '-d', 'usual_restored');
is($node->safe_psql('usual_restored', $answers), $first, 'usual: the same answers');
promises_kept($node, 'usual', '3 2 3', 'usual_restored');

# The whole cluster, onto another server.

run('pg_dumpall', 'pg_dumpall', '--no-role-passwords', '-f', "$dir/all.sql");
my $other = start_node('restored');
$other->command_ok([ 'psql', '-X', '-q', '-o', "$dir/log", '-f', "$dir/all.sql", '-d', 'postgres' ],
	'psql, cluster');
restored($other, 'shop', 'on another server', 1);

$other->stop;
$node->stop;
done_testing();
