# Which statements a new notification and a repeat start the executor for: none on the
# extension's own tables, where these are plain ones; and all that a DBA has added to
# such a table counts, whichever way its rows take.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use NotifyClaim;
use Test::More;

my $node = start_node('direct', "session_preload_libraries = 'auto_explain'\nwal_level = logical\n");

$node->safe_psql('postgres', q{
	CREATE EXTENSION notify_claim;
	CREATE TABLE biz_order (order_no text PRIMARY KEY, status text);
	INSERT INTO biz_order SELECT n::text, 'PENDING' FROM generate_series(1, 15) AS n;
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
# made, and one whose statements are told.  Returns its result, its error, which of
# "claim", "message" and "probe" went through the executor, and all that psql was told.
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
	return ($out, $err =~ /ERROR:  (.*)/ ? $1 : '', "@ways", $err);
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

# The tables in the hands of a role that is no superuser
my $given = q{
	CREATE ROLE owner; CREATE ROLE other;
	GRANT SELECT, UPDATE ON biz_order TO owner, other;
	DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT c.oid::regclass FROM pg_class AS c JOIN pg_depend AS d ON d.objid = c.oid AND d.deptype = 'e' WHERE c.relkind = 'r'
		LOOP
			EXECUTE format('ALTER TABLE %s OWNER TO owner', t);
		END LOOP;
	END $$;};

# Each a change to the tables, what then goes through the executor (undef where the
# statement fails: auto_explain does not tell), the outcome or the error, and what the
# row has.
my @changes = (
	[ 'an index more', 'CREATE INDEX ON notify_claim (payload_hash, order_no)', '', 'APPLIED' ],
	[ 'an index by an expression', 'CREATE INDEX ON notify_claim (lower_key(biz_key)) WHERE lower_key(biz_key) IS NOT NULL', '', 'APPLIED' ],
	[ 'indexes of other kinds', 'CREATE INDEX ON notify_claim USING gin (result_json); CREATE INDEX ON notify_outbox USING hash (id); CREATE INDEX ON notify_outbox USING brin (created_at)', '', 'APPLIED' ],
	[ 'another unique index', qq{$known; CREATE UNIQUE INDEX more ON notify_claim (order_no) WHERE order_no = '1'}, undef, 'duplicate key value violates unique constraint "more"' ],
	[ 'another unique index of messages', 'CREATE UNIQUE INDEX more ON notify_outbox (type)', undef, 'duplicate key value violates unique constraint "more"' ],
	[ 'an exclusion constraint', qq{$known; ALTER TABLE notify_claim ADD CONSTRAINT more EXCLUDE USING hash (order_no WITH =) WHERE (order_no = '1')}, undef, 'conflicting key value violates exclusion constraint "more"' ],
	[ 'a deferrable constraint', 'ALTER TABLE notify_claim ADD CONSTRAINT more UNIQUE (id, order_no) DEFERRABLE', 'claim', 'APPLIED' ],
	[ 'a check', q{ALTER TABLE notify_claim ADD CONSTRAINT more CHECK (order_no <> '1')}, undef, 'new row for relation "notify_claim" violates check constraint "more"' ],
	[ 'a check of messages', q{ALTER TABLE notify_outbox ADD CONSTRAINT more CHECK (aggregateid <> '1')}, undef, 'new row for relation "notify_outbox" violates check constraint "more"' ],
	[ 'a column that has to be given', 'ALTER TABLE notify_claim ADD COLUMN more int NOT NULL', undef, 'null value in column "more" of relation "notify_claim" violates not-null constraint' ],
	[ 'a column with a default', 'ALTER TABLE notify_claim ADD COLUMN gone int, ADD COLUMN more int DEFAULT 7; ALTER TABLE notify_claim DROP COLUMN gone', '', 'APPLIED', '"more": 7' ],
	[ 'a default that is computed', 'ALTER TABLE notify_claim ADD COLUMN more int DEFAULT three()', 'claim', 'APPLIED', '"more": 3' ],
	[ 'a generated column', 'ALTER TABLE notify_claim ADD COLUMN more text GENERATED ALWAYS AS (order_no || channel) STORED', 'claim', 'APPLIED', '"more": "1default"' ],
	[ 'a generated column of messages', 'ALTER TABLE notify_outbox ADD COLUMN more text GENERATED ALWAYS AS (aggregateid || type) STORED', 'message', 'APPLIED', '"more": "1ORDER_PAID"' ],
	[ 'a trigger that changes the row', 'CREATE TRIGGER t BEFORE INSERT ON notify_claim FOR EACH ROW EXECUTE FUNCTION changes()', 'claim', 'APPLIED', '"channel": "DEFAULT"' ],
	[ 'a trigger that keeps the row away', 'CREATE TRIGGER t BEFORE INSERT ON notify_outbox FOR EACH ROW EXECUTE FUNCTION keeps()', undef, 'a trigger or rule on table notify_outbox kept the message from being written' ],
	[ 'a trigger after the row', 'CREATE TRIGGER t AFTER INSERT ON notify_claim FOR EACH ROW EXECUTE FUNCTION raises()', undef, 'no' ],
	[ 'a trigger of the statement', 'CREATE TRIGGER t AFTER INSERT ON notify_outbox EXECUTE FUNCTION raises()', undef, 'no' ],
	[ 'a trigger that another has', 'CREATE TRIGGER t AFTER INSERT ON biz_order EXECUTE FUNCTION raises()', '', 'APPLIED' ],
	[ 'a rule that does more', 'CREATE RULE r AS ON INSERT TO notify_outbox DO ALSO INSERT INTO seen VALUES (NEW.type)', 'message', 'APPLIED' ],
	[ 'row level security', 'ALTER TABLE notify_claim ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', '', 'APPLIED' ],
	[ 'a child table', 'CREATE TABLE child () INHERITS (notify_outbox)', '', 'APPLIED' ],
	[ 'a foreign key to the table', 'CREATE TABLE child (claim bigint REFERENCES notify_claim)', 'claim', 'APPLIED' ],
	[ 'a shorter column', q{UPDATE pg_attribute SET atttypmod = 4 + 9 WHERE attrelid = 'notify_outbox'::regclass AND attname = 'type'}, undef, 'value too long for type character varying(9)' ],
	[ 'a rule that does nothing', q{CREATE RULE r AS ON INSERT TO notify_outbox WHERE NEW.aggregateid = '1' DO INSTEAD NOTHING}, undef, 'a trigger or rule on table notify_outbox kept the message from being written' ],
	[ 'an owner who is no superuser', $given, '', 'APPLIED' ],
	[ 'an owner who may not insert', "$given REVOKE INSERT ON notify_outbox FROM owner", undef, 'permission denied for table notify_outbox' ],
	[ 'an owner who may not read', "$given REVOKE SELECT ON notify_claim FROM owner", undef, 'permission denied for table notify_claim' ],
	[ 'an owner who may not read reviews', "$given REVOKE SELECT ON notify_review FROM owner", undef, 'permission denied for table notify_review' ],
	[ 'a table that is of another owner', "$given ALTER TABLE notify_outbox OWNER TO other", undef, 'permission denied for table notify_outbox' ],
	[ 'a rule into a table of another owner', "$given CREATE RULE r AS ON INSERT TO notify_outbox DO INSTEAD INSERT INTO seen VALUES (NEW.type)", undef, 'permission denied for table seen' ],
	[ 'a view', q{ALTER EXTENSION notify_claim DROP TABLE notify_claim; ALTER TABLE notify_claim RENAME TO base; CREATE VIEW notify_claim AS SELECT * FROM base WHERE order_no <> '1' WITH CHECK OPTION}, undef,
		'new row violates check option for view "notify_claim"' ]);
# Later versions have no identity column in a partition.
push @changes,
	[ 'a partition of another table', q{CREATE TABLE more (LIKE notify_claim) PARTITION BY LIST (order_no); ALTER TABLE more ATTACH PARTITION notify_claim FOR VALUES IN ('4')}, undef,
	'new row for relation "notify_claim" violates partition constraint' ] if $node->pg_version < 17;

foreach my $change (@changes)
{
	my ($name, $setup, $expected_ways, $expected, $has) = @{$change};

	($out, $error, $ways) = watch($setup, $pay);
	($outcome, $row) = made($out);
	is($error eq '' ? $outcome : $error, $expected, $name);
	is($ways, $expected_ways, "$name: what goes through the executor") if defined $expected_ways;
	like($row, qr/\Q$has\E/, "$name: in the row") if defined $has;
}

# An error tells where it came from
(undef, $error, $ways, my $told) = watch(q{ALTER TABLE notify_claim ADD CONSTRAINT more CHECK (order_no <> '1')}, $pay);
like($told, qr/^CONTEXT:  SQL statement "INSERT INTO public\.notify_claim AS c \(/m, 'an error has the statement in its context');

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

# Where both of two deliveries have found no claim, the one that comes second to the
# unique index takes back its own: neither a row nor a stream of changes keeps it.
$node->safe_psql('postgres', q{
	CREATE FUNCTION held(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			IF current_setting('application_name') = 'first' THEN
				PERFORM pg_advisory_xact_lock(4711);
			END IF;
			RETURN $1;
		END $$;
	CREATE INDEX held_idx ON notify_claim (held(biz_key));
	ALTER TABLE notify_claim DROP CONSTRAINT uk_biz_key;
	ALTER TABLE notify_claim ADD CONSTRAINT uk_biz_key UNIQUE (biz_key, channel);
	CREATE PUBLICATION p FOR TABLE notify_claim});
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
my ($holder, $first, $second) = map { NotifyClaim::Session->new($node) } 1 .. 3;
$first->query(q{SET application_name = 'first'; SET notify_claim.busy_timeout = '60s'});
foreach my $event ('PAY', 'push')
{
	$holder->query('SELECT pg_advisory_lock(4711)');
	$first->send("SELECT outcome FROM handle_notify('race', '$event', '1', 'b')");
	$holder->wait_for_lock($first);
	is($second->query("SELECT outcome FROM handle_notify('race', '$event', '2', 'b')"), 'APPLIED', "$event: the second one is first at the unique index");
	$holder->query('SELECT pg_advisory_unlock(4711)');
	is($first->receive, 'CONFLICT', "$event: the first is told");
}
is( $node->safe_psql('postgres', q{
		SELECT count(*), (SELECT count(*) FROM notify_claim)
		FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')
		WHERE chr(get_byte(data, 0)) = 'I'}), '2|2', 'what was taken back is in no stream');
is($second->query("SELECT outcome, replayed FROM handle_notify('race', 'PAY', '2', 'b')"), 'APPLIED|t', 'and a repeat is one');

# Several that wait for one: nobody waits for what another of them has taken back.
foreach my $end ('ROLLBACK', 'COMMIT')
{
	my @waiting = map { NotifyClaim::Session->new($node) } 1 .. 4;

	$second->query("BEGIN; SELECT handle_notify('$end', 'PAY', '11', 'b')");
	foreach my $n (0 .. $#waiting)
	{
		$waiting[$n]->query(q{SET notify_claim.busy_timeout = '60s'});
		$waiting[$n]->send("SELECT outcome FROM handle_notify('$end', 'PAY', '" . ($n + 12) . "', 'b')");
		$holder->wait_for_lock($waiting[$n]);
	}
	$second->query($end);
	is(join(' ', sort map { $_->receive } @waiting), ($end eq 'COMMIT' ? 'CONFLICT' : 'APPLIED') . ' CONFLICT' x 3, "$end: what those who waited are answered");
	$_->quit foreach @waiting;
}
$_->quit foreach $holder, $first, $second;

done_testing();
