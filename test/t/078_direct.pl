# Which statements a new notification and a repeat start the executor for: none on the
# extension's own tables, where these are plain ones; and all that a DBA has added to
# such a table counts, whichever way its rows take.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use Test::More;

my $node = start_node('direct', "session_preload_libraries = 'auto_explain'\n");

$node->safe_psql('postgres', q{
	CREATE EXTENSION notify_claim;
	CREATE TABLE biz_order (order_no text PRIMARY KEY, status text);
	INSERT INTO biz_order SELECT n::text, 'PENDING' FROM generate_series(1, 5) AS n;
	SELECT notify_machine_add('biz_order', 'order_no', 'status'),
		notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID'),
		notify_event_add('push', message_type => 'PUSHED');
	CREATE FUNCTION raises() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$no$$; END';
	CREATE FUNCTION changes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.channel := upper(NEW.channel); RETURN NEW; END';
	CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE FUNCTION lower_key(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN lower($1); END';
	CREATE FUNCTION three() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN 3; END';
	CREATE TABLE seen (biz_key text)});

# A session in a transaction that is rolled back: the setup, calls that have the plans
# made, and one whose statements are told.  Returns its result, its error, and which
# of "claim", "message" and "probe" went through the executor.
sub watch
{
	my ($setup, $call, $isolation) = @_;
	my ($out, $err);

	$node->psql('postgres', qq{
		\\set VERBOSITY sqlstate
		\\set ON_ERROR_STOP
		SET client_min_messages = warning;
		BEGIN ISOLATION LEVEL @{[ $isolation // 'READ COMMITTED' ]};
		$setup;
		DO \$\$ BEGIN
			PERFORM handle_notify('warm', 'PAY', '4', 'b'), handle_notify('warm', 'PAY', '4', 'b'), handle_notify('warm', 'push', '4', 'b');
			EXCEPTION WHEN OTHERS THEN NULL;
		END \$\$;
		SET client_min_messages = notice;
		SET auto_explain.log_level = notice;
		SET auto_explain.log_nested_statements = on;
		SET auto_explain.log_min_duration = 0;
		\\set VERBOSITY default
		$call;
		SET auto_explain.log_min_duration = -1;
		SELECT to_jsonb(c) || jsonb_build_object('message', to_jsonb(o)) FROM notify_claim AS c
			LEFT JOIN notify_outbox AS o ON o.id = c.message_id WHERE c.biz_key ILIKE 't:%'},
		stdout => \$out, stderr => \$err);
	my @ways;
	push @ways, 'probe' if $err =~ /Query Text: SELECT c\.order_no, c\.digest_mode/;
	push @ways, 'claim' if $err =~ /Query Text: INSERT INTO \S*notify_claim /;
	push @ways, 'message' if $err =~ /Query Text: INSERT INTO \S*notify_outbox /;
	return ($out, $err =~ /ERROR:  (.*)/ ? $1 : '', "@ways");
}

my $pay = q{SELECT outcome || CASE WHEN replayed THEN ' replayed' ELSE '' END FROM handle_notify('T', 'PAY', '1', 'b', data => '{"a": 1}')};
(my $push = $pay) =~ s/PAY/push/;

# What is made, but for numbers, ids and times
sub made
{
	my ($out) = @_;
	my ($outcome, $row) = split /\n/, $out;

	return ($outcome, '') if !defined $row;
	$row =~ s/"(id|seq|message_id|created_at|first_seen)": ("[^"]*"|\d+)(, )?//g;
	$row =~ s/, \}/}/g;
	return ($outcome, $row);
}

my ($out, $error, $ways) = watch('', $pay);
my ($outcome, $row) = made($out);
is("$outcome $error $ways", 'APPLIED  ', 'a new notification: nothing through the executor but the order');
# The same by the executor, whose triggers change nothing
(my $by_executor, $error, $ways) = watch(q{
	CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TRIGGER t BEFORE INSERT ON notify_claim FOR EACH ROW EXECUTE FUNCTION same();
	CREATE TRIGGER t BEFORE INSERT ON notify_outbox FOR EACH ROW EXECUTE FUNCTION same()}, $pay);
is("$error $ways", ' claim message', 'triggers: through the executor');
is_deeply([ made($by_executor) ], [ $outcome, $row ], 'which makes the same rows');
like($row, qr/"biz_key": "T:PAY".*"payload": \{"to": "PAID"/, 'of the claim and of the message');

# A claim of the same order
my $known = q{SELECT handle_notify('U', 'push', '1', 'b')};

# Each a change to the tables, what then goes through the executor (auto_explain tells
# of no statement that has failed), the outcome or the error, and what the row has.
my @changes = (
	[ 'an index more', 'CREATE INDEX ON notify_claim (payload_hash, order_no)', '', 'APPLIED' ],
	[ 'an index by an expression', 'CREATE INDEX ON notify_claim (lower_key(biz_key)) WHERE lower_key(biz_key) IS NOT NULL', '', 'APPLIED' ],
	[ 'indexes of other kinds', 'CREATE INDEX ON notify_claim USING gin (result_json); CREATE INDEX ON notify_outbox USING hash (id); CREATE INDEX ON notify_outbox USING brin (created_at)', '', 'APPLIED' ],
	[ 'another unique index', qq{$known; CREATE UNIQUE INDEX more ON notify_claim (order_no) WHERE order_no = '1'}, '', 'duplicate key value violates unique constraint "more"' ],
	[ 'another unique index of messages', 'CREATE UNIQUE INDEX more ON notify_outbox (type)', '', 'duplicate key value violates unique constraint "more"' ],
	[ 'an exclusion constraint', qq{$known; ALTER TABLE notify_claim ADD CONSTRAINT more EXCLUDE USING hash (order_no WITH =) WHERE (order_no = '1')}, '', 'conflicting key value violates exclusion constraint "more"' ],
	[ 'a deferrable constraint', 'ALTER TABLE notify_claim ADD CONSTRAINT more UNIQUE (id, order_no) DEFERRABLE', 'claim', 'APPLIED' ],
	[ 'a check', q{ALTER TABLE notify_claim ADD CONSTRAINT more CHECK (order_no <> '1')}, '', 'new row for relation "notify_claim" violates check constraint "more"' ],
	[ 'a check of messages', q{ALTER TABLE notify_outbox ADD CONSTRAINT more CHECK (aggregateid <> '1')}, '', 'new row for relation "notify_outbox" violates check constraint "more"' ],
	[ 'a column that has to be given', 'ALTER TABLE notify_claim ADD COLUMN more int NOT NULL', '', 'null value in column "more" of relation "notify_claim" violates not-null constraint' ],
	[ 'a column with a default', 'ALTER TABLE notify_claim ADD COLUMN gone int, ADD COLUMN more int DEFAULT 7; ALTER TABLE notify_claim DROP COLUMN gone', '', 'APPLIED', '"more": 7' ],
	[ 'a default that is computed', 'ALTER TABLE notify_claim ADD COLUMN more int DEFAULT three()', 'claim', 'APPLIED', '"more": 3' ],
	[ 'a generated column', 'ALTER TABLE notify_claim ADD COLUMN more text GENERATED ALWAYS AS (order_no || channel) STORED', 'claim', 'APPLIED', '"more": "1default"' ],
	[ 'a generated column of messages', 'ALTER TABLE notify_outbox ADD COLUMN more text GENERATED ALWAYS AS (aggregateid || type) STORED', 'message', 'APPLIED', '"more": "1ORDER_PAID"' ],
	[ 'a trigger that changes the row', 'CREATE TRIGGER t BEFORE INSERT ON notify_claim FOR EACH ROW EXECUTE FUNCTION changes()', 'claim', 'APPLIED', '"channel": "DEFAULT"' ],
	[ 'a trigger that keeps the row away', 'CREATE TRIGGER t BEFORE INSERT ON notify_outbox FOR EACH ROW EXECUTE FUNCTION keeps()', 'message', 'a trigger or rule on table notify_outbox kept the message from being written' ],
	[ 'a trigger after the row', 'CREATE TRIGGER t AFTER INSERT ON notify_claim FOR EACH ROW EXECUTE FUNCTION raises()', '', 'no' ],
	[ 'a trigger of the statement', 'CREATE TRIGGER t AFTER INSERT ON notify_outbox EXECUTE FUNCTION raises()', '', 'no' ],
	[ 'a trigger that another has', 'CREATE TRIGGER t AFTER INSERT ON biz_order EXECUTE FUNCTION raises()', '', 'APPLIED' ],
	[ 'a rule that does more', 'CREATE RULE r AS ON INSERT TO notify_outbox DO ALSO INSERT INTO seen VALUES (NEW.type)', 'message', 'APPLIED' ],
	[ 'row level security', 'ALTER TABLE notify_claim ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', '', 'APPLIED' ],
	[ 'a child table', 'CREATE TABLE child () INHERITS (notify_outbox)', '', 'APPLIED' ],
	[ 'a foreign key to the table', 'CREATE TABLE child (claim bigint REFERENCES notify_claim)', 'claim', 'APPLIED' ],
	[ 'a shorter column', q{UPDATE pg_attribute SET atttypmod = 4 + 9 WHERE attrelid = 'notify_outbox'::regclass AND attname = 'type'}, '', 'value too long for type character varying(9)' ],
	[ 'a rule that does nothing', q{CREATE RULE r AS ON INSERT TO notify_outbox WHERE NEW.aggregateid = '1' DO INSTEAD NOTHING}, 'message', 'a trigger or rule on table notify_outbox kept the message from being written' ],
	[ 'a view', q{ALTER EXTENSION notify_claim DROP TABLE notify_claim; ALTER TABLE notify_claim RENAME TO base; CREATE VIEW notify_claim AS SELECT * FROM base WHERE order_no <> '1' WITH CHECK OPTION}, 'probe',
		'new row violates check option for view "notify_claim"' ]);
# Later versions have no identity column in a partition.
push @changes,
	[ 'a partition of another table', q{CREATE TABLE more (LIKE notify_claim) PARTITION BY LIST (order_no); ALTER TABLE more ATTACH PARTITION notify_claim FOR VALUES IN ('4')}, '',
	'new row for relation "notify_claim" violates partition constraint' ] if $node->pg_version < 17;

foreach my $change (@changes)
{
	my ($name, $setup, $expected_ways, $expected, $has) = @{$change};

	($out, $error, $ways) = watch($setup, $pay);
	($outcome, $row) = made($out);
	is($error eq '' ? $outcome : $error, $expected, $name);
	is($ways, $expected_ways, "$name: what goes through the executor");
	like($row, qr/\Q$has\E/, "$name: in the row") if defined $has;
}

# What a rule adds is done
($out) = watch('CREATE RULE r AS ON INSERT TO notify_outbox DO ALSO INSERT INTO seen VALUES (NEW.type)', "$pay; SELECT count(*) FROM seen");
is((split /\n/, $out)[1], '3', 'a rule sees each message');

# An event without a machine, and repeats
($out, $error, $ways) = watch('', $push);
is((split /\n/, $out)[0] . "$error $ways", 'APPLIED ', 'an event without a machine: nothing through the executor');
foreach my $isolation ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	($out, $error, $ways) = watch('', "$pay; $pay", $isolation);
	is(join(' ', (split /\n/, $out)[0, 1]) . "$error $ways", 'APPLIED APPLIED replayed ', "$isolation: a first one and its repeat: nothing through the executor");
}

# A change that a session learns of later
($out, $error, $ways) = watch('', "CREATE INDEX ON notify_claim (payload_hash); CREATE INDEX ON notify_outbox (created_at); $pay");
is("$error $ways", ' ', 'a table that has changed is looked at again');
($out, $error, $ways) = watch('', "CREATE TRIGGER t BEFORE INSERT ON notify_claim FOR EACH ROW EXECUTE FUNCTION changes(); $pay");
is("$error $ways", ' claim', 'and may need the executor by then');

# As the tables' owner: who calls may not execute what an index has
($out, $error, $ways) = watch(q{
	CREATE ROLE app;
	DO $$ BEGIN PERFORM notify_grant('app', 'app'); END $$;
	GRANT SELECT, UPDATE ON biz_order TO app;
	REVOKE EXECUTE ON FUNCTION lower_key FROM PUBLIC;
	CREATE INDEX ON notify_claim (lower_key(biz_key));
	CREATE INDEX ON notify_outbox (lower_key(aggregateid))}, "SET ROLE app; $pay; RESET ROLE");
is((split /\n/, $out)[0] . "$error $ways", 'APPLIED ', 'a caller who may not execute the function of an index');

done_testing();
