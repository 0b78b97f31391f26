-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION notify_claim" to load this file. \quit

--
-- Tables
--
-- No row is seeded here: it would collide with the dumped one at restore.
-- Keys are COLLATE "C": they are compared bytewise whatever the locale, and a
-- change of the C library's collations cannot corrupt their indexes.
-- No table refers to another by a foreign key: pg_restore -j would load one
-- before the other. The declaring functions lock what they refer to.
-- Constraints name their operators' schema and their operands' types: in a
-- schema where others may create objects, an operator of theirs that fits
-- varchar exactly would be taken otherwise.
--

CREATE TABLE @extschema@.notify_machine (
	machine varchar(64) COLLATE "C" NOT NULL PRIMARY KEY,
	order_table regclass NOT NULL,
	order_table_name text COLLATE "C" NOT NULL,
	order_column text COLLATE "C" NOT NULL,
	status_column text COLLATE "C" NOT NULL,
	CONSTRAINT notify_machine_reserved
		CHECK (machine::pg_catalog.text OPERATOR(pg_catalog.<>) ALL
			   (ARRAY['', 'event', 'notify_review']::pg_catalog.text[]))
);
COMMENT ON TABLE @extschema@.notify_machine IS
'State machines: an order table with its key and status columns. Use notify_machine_add(), notify_machine_set() and notify_machine_drop().';
COMMENT ON COLUMN @extschema@.notify_machine.machine IS 'name of the machine; the aggregatetype of its outbox messages';
COMMENT ON COLUMN @extschema@.notify_machine.order_table IS 'the order table; decides while it exists';
COMMENT ON COLUMN @extschema@.notify_machine.order_table_name IS 'the order table''s qualified name; decides where order_table no longer exists';
COMMENT ON COLUMN @extschema@.notify_machine.order_column IS 'column that holds the order number';
COMMENT ON COLUMN @extschema@.notify_machine.status_column IS 'column that holds the status';

CREATE TABLE @extschema@.notify_event (
	event_type varchar(158) COLLATE "C" NOT NULL PRIMARY KEY,
	machine varchar(64) COLLATE "C",
	message_type varchar(255) COLLATE "C",
	on_early varchar(16) COLLATE "C" NOT NULL DEFAULT 'retry',
	CONSTRAINT notify_event_name
		CHECK (event_type::pg_catalog.text OPERATOR(pg_catalog.~) '[^[:space:]]'::pg_catalog.text
			   AND event_type::pg_catalog.text OPERATOR(pg_catalog.!~) ':'::pg_catalog.text),
	CONSTRAINT notify_event_message
		CHECK (message_type IS NULL OR
			   (machine IS NULL AND message_type::pg_catalog.text OPERATOR(pg_catalog.<>) ''::pg_catalog.text)),
	CONSTRAINT notify_event_on_early
		CHECK (on_early::pg_catalog.text OPERATOR(pg_catalog.=) ANY
			   (ARRAY['retry', 'skip']::pg_catalog.text[]))
);
COMMENT ON TABLE @extschema@.notify_event IS
'Event types that handle_notify() accepts. Use notify_event_add(), notify_event_set() and notify_event_drop().';
COMMENT ON COLUMN @extschema@.notify_event.event_type IS 'event type as passed to handle_notify(); never contains a colon';
COMMENT ON COLUMN @extschema@.notify_event.machine IS 'machine whose transitions the event takes; NULL: deduplicate and publish only';
COMMENT ON COLUMN @extschema@.notify_event.message_type IS 'type of the outbox message of an event without a machine; NULL writes none';
COMMENT ON COLUMN @extschema@.notify_event.on_early IS 'what to do with an event that is not legal yet: retry (answer FAIL, keep nothing) or skip (acknowledge and record)';

CREATE TABLE @extschema@.notify_transition (
	machine varchar(64) COLLATE "C" NOT NULL,
	event_type varchar(158) COLLATE "C",
	from_status text COLLATE "C",
	to_status text COLLATE "C",
	message_type varchar(255) COLLATE "C",
	CONSTRAINT notify_transition_step
		CHECK (event_type IS NOT NULL OR (to_status IS NOT NULL AND message_type IS NULL)),
	CONSTRAINT notify_transition_changes
		CHECK (from_status OPERATOR(pg_catalog.<>) to_status),
	CONSTRAINT notify_transition_message
		CHECK (message_type::pg_catalog.text OPERATOR(pg_catalog.<>) ''::pg_catalog.text)
);
-- It has no key that a publication could go by: event and status may be null.
ALTER TABLE @extschema@.notify_transition REPLICA IDENTITY FULL;
CREATE UNIQUE INDEX notify_transition_event_idx
	ON @extschema@.notify_transition (machine, event_type, from_status) NULLS NOT DISTINCT
	WHERE event_type IS NOT NULL;
CREATE UNIQUE INDEX notify_transition_step_idx
	ON @extschema@.notify_transition (machine, from_status, to_status) NULLS NOT DISTINCT
	WHERE event_type IS NULL;
COMMENT ON TABLE @extschema@.notify_transition IS
'Legal steps of each machine. Use notify_transition_add() and notify_transition_drop(), or plain DML: every session sees a change with its next call.';
COMMENT ON COLUMN @extschema@.notify_transition.machine IS 'machine that the step belongs to';
COMMENT ON COLUMN @extschema@.notify_transition.event_type IS 'event that takes the step; NULL: a step that others make';
COMMENT ON COLUMN @extschema@.notify_transition.from_status IS 'status before; NULL: any status without a step of its own for this event, except the target';
COMMENT ON COLUMN @extschema@.notify_transition.to_status IS 'status after; NULL: the status stays and only the message is written';
COMMENT ON COLUMN @extschema@.notify_transition.message_type IS 'type of the outbox message; NULL writes none';
COMMENT ON INDEX @extschema@.notify_transition_event_idx IS 'one step per machine, event and status';
COMMENT ON INDEX @extschema@.notify_transition_step_idx IS 'each step of others once';

CREATE TABLE @extschema@.notify_claim (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	channel varchar(64) COLLATE "C" NOT NULL,
	biz_key varchar(160) COLLATE "C" NOT NULL,
	order_no varchar(64) COLLATE "C" NOT NULL,
	payload_hash char(64) COLLATE "C" NOT NULL,
	digest_rule bigint,
	digest_mode varchar(8) COLLATE "C" NOT NULL,
	claim_state varchar(16) COLLATE "C" NOT NULL DEFAULT 'CLAIMED',
	outcome varchar(16) COLLATE "C" NOT NULL,
	result_json jsonb,
	message_id uuid,
	created_at timestamptz NOT NULL,
	CONSTRAINT uk_biz_key UNIQUE (biz_key, channel)
);
CREATE INDEX notify_claim_order_no_idx ON @extschema@.notify_claim (order_no);
COMMENT ON TABLE @extschema@.notify_claim IS
'One row per notification that was processed, with the answer that a repeat gets. Written by handle_notify() only; deleting a row makes the next delivery a first one.';
COMMENT ON COLUMN @extschema@.notify_claim.id IS 'number of the claim';
COMMENT ON COLUMN @extschema@.notify_claim.channel IS 'channel that delivered the notification';
COMMENT ON COLUMN @extschema@.notify_claim.biz_key IS 'channel transaction id, a colon, event type; the last colon splits them';
COMMENT ON COLUMN @extschema@.notify_claim.order_no IS 'order number in the order table''s own spelling';
COMMENT ON COLUMN @extschema@.notify_claim.payload_hash IS 'SHA-256 of the first body, lower-case hexadecimal';
COMMENT ON COLUMN @extschema@.notify_claim.digest_rule IS 'rule that made the digest; NULL: the bytes as they are';
COMMENT ON COLUMN @extschema@.notify_claim.digest_mode IS 'mode that made the digest';
COMMENT ON COLUMN @extschema@.notify_claim.claim_state IS 'DONE; CLAIMED is never seen committed';
COMMENT ON COLUMN @extschema@.notify_claim.outcome IS 'APPLIED or SKIPPED';
COMMENT ON COLUMN @extschema@.notify_claim.result_json IS 'result that the first delivery got and every repeat gets';
COMMENT ON COLUMN @extschema@.notify_claim.message_id IS 'id of the outbox message; NULL: none was written';
COMMENT ON COLUMN @extschema@.notify_claim.created_at IS 'when the first delivery was processed';
COMMENT ON CONSTRAINT uk_biz_key ON @extschema@.notify_claim IS 'decides between two deliveries at the same instant';
COMMENT ON INDEX @extschema@.notify_claim_order_no_idx IS 'finds everything on record about an order';

CREATE TABLE @extschema@.notify_outbox (
	seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id uuid NOT NULL,
	aggregatetype varchar(255) COLLATE "C" NOT NULL,
	aggregateid varchar(255) COLLATE "C" NOT NULL,
	type varchar(255) COLLATE "C" NOT NULL,
	payload jsonb NOT NULL,
	created_at timestamptz NOT NULL
);
COMMENT ON TABLE @extschema@.notify_outbox IS
'Messages for consumers, committed with the change that they tell of. INSERT and DELETE only; the columns are those of Debezium''s outbox event router.';
COMMENT ON COLUMN @extschema@.notify_outbox.seq IS 'rises in commit order within one order';
COMMENT ON COLUMN @extschema@.notify_outbox.id IS 'id of the message; consumers recognise repeats by it';
COMMENT ON COLUMN @extschema@.notify_outbox.aggregatetype IS 'machine; event for an event without one';
COMMENT ON COLUMN @extschema@.notify_outbox.aggregateid IS 'order number';
COMMENT ON COLUMN @extschema@.notify_outbox.type IS 'message type of the transition or event';
COMMENT ON COLUMN @extschema@.notify_outbox.payload IS 'type, biz_key, channel, event_type, order_no, from, to, data';
COMMENT ON COLUMN @extschema@.notify_outbox.created_at IS 'when the message was written';

-- Without these a dump silently loses the claims, and a restore applies every
-- late duplicate again.
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_machine', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_event', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_transition', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_claim', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_claim_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox_seq_seq', '');

COMMENT ON SEQUENCE @extschema@.notify_claim_id_seq IS 'numbers of notify_claim';
COMMENT ON SEQUENCE @extschema@.notify_outbox_seq_seq IS 'numbers of notify_outbox; CACHE stays 1, or the order of an order''s messages is lost';

--
-- The one call of the application
--

CREATE FUNCTION @extschema@.handle_notify(
	channel_txn_id text, event_type text, order_no text, raw_body bytea,
	channel text DEFAULT 'default', data jsonb DEFAULT NULL,
	OUT status text, OUT outcome text, OUT result jsonb, OUT replayed boolean,
	OUT first_seen timestamptz, OUT ack_status integer, OUT ack_body text)
RETURNS record
AS 'MODULE_PATHNAME', 'notify_claim_handle_bytea'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.handle_notify(text, text, text, bytea, text, jsonb) IS
'Processes a notification exactly once; call as SELECT * FROM handle_notify(...), COMMIT whatever it answers, and send ack_status and ack_body to the peer.';

CREATE FUNCTION @extschema@.handle_notify(
	channel_txn_id text, event_type text, order_no text, raw_body text,
	channel text DEFAULT 'default', data jsonb DEFAULT NULL,
	OUT status text, OUT outcome text, OUT result jsonb, OUT replayed boolean,
	OUT first_seen timestamptz, OUT ack_status integer, OUT ack_body text)
RETURNS record
AS 'MODULE_PATHNAME', 'notify_claim_handle_text'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.handle_notify(text, text, text, text, text, jsonb) IS
'Like handle_notify with a bytea body; the text stands for its UTF-8 bytes. Drivers should pass bytea.';

--
-- Declaring state machines
--

CREATE FUNCTION @extschema@.notify_machine_add(
	order_table regclass, order_column text, status_column text, machine text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_machine_add'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_machine_add(regclass, text, text, text) IS
'Declares a state machine over an order table; it is named after the table unless a name is given. For the table''s owner.';

CREATE FUNCTION @extschema@.notify_machine_set(
	machine text, order_table regclass DEFAULT NULL, order_column text DEFAULT NULL, status_column text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_machine_set'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_machine_set(text, regclass, text, text) IS
'Points a machine at another table or other columns, for instance after a rename; NULL leaves a setting as it is. For the owner of both tables.';

CREATE FUNCTION @extschema@.notify_machine_drop(machine text)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_machine_drop'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_machine_drop(text) IS
'Drops a machine with its events and transitions. Claims stay, and repeats are still answered.';

CREATE FUNCTION @extschema@.notify_machine_check(
	machine text, OUT finding text, OUT status text, OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'notify_claim_machine_check'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_machine_check(text) IS
'What stands out in a machine: statuses in the table that no transition knows, dead ends, cycles, forks, statuses that nothing leads to. Reads the whole order table.';

CREATE FUNCTION @extschema@.notify_event_add(
	event_type text, message_type text DEFAULT NULL, machine text DEFAULT NULL, on_early text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_event_add'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_event_add(text, text, text, text) IS
'Declares an event type: without a machine it is only deduplicated and published as message_type. An event''s first transition declares it as well.';

CREATE FUNCTION @extschema@.notify_event_set(
	event_type text, message_type text DEFAULT NULL, on_early text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_event_set'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_event_set(text, text, text) IS
'Changes an event''s settings; NULL leaves a setting as it is, an empty message_type writes no message any more.';

CREATE FUNCTION @extschema@.notify_event_drop(event_type text)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_event_drop'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_event_drop(text) IS
'Drops an event type with its transitions. New notifications of it are answered NO_RULE, repeats as before.';

CREATE FUNCTION @extschema@.notify_transition_add(
	event_type text, from_status text, to_status text, message_type text DEFAULT NULL, machine text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_transition_add'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_transition_add(text, text, text, text, text) IS
'Declares a legal step. event_type NULL: a step that others make; from_status NULL: from any other status; to_status NULL: nothing changes, only the message is written.';

CREATE FUNCTION @extschema@.notify_transition_drop(
	event_type text, from_status text, to_status text, machine text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_transition_drop'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_transition_drop(text, text, text, text) IS
'Drops the step that was declared with the same arguments.';

--
-- Every session's cache hears of a change.  By row, and always: logical
-- replication fires no statement triggers for what it applies.
--

CREATE FUNCTION @extschema@.notify_definition_changed()
RETURNS trigger
AS 'MODULE_PATHNAME', 'notify_claim_definition_changed'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_definition_changed() IS
'Trigger function of notify_machine, notify_event and notify_transition: tells every session to read them again.';

CREATE TRIGGER notify_machine_changing
	BEFORE INSERT OR UPDATE OR DELETE ON @extschema@.notify_machine
	FOR EACH ROW EXECUTE FUNCTION @extschema@.notify_definition_changed();
CREATE TRIGGER notify_machine_changed
	AFTER INSERT OR UPDATE OR DELETE ON @extschema@.notify_machine
	FOR EACH ROW EXECUTE FUNCTION @extschema@.notify_definition_changed();
CREATE TRIGGER notify_machine_truncated
	AFTER TRUNCATE ON @extschema@.notify_machine
	FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.notify_definition_changed();
ALTER TABLE @extschema@.notify_machine
	ENABLE ALWAYS TRIGGER notify_machine_changing, ENABLE ALWAYS TRIGGER notify_machine_changed, ENABLE ALWAYS TRIGGER notify_machine_truncated;
COMMENT ON TRIGGER notify_machine_changing ON @extschema@.notify_machine IS 'tells every session to read the table again, also if the statement fails';
COMMENT ON TRIGGER notify_machine_changed ON @extschema@.notify_machine IS 'tells every session to read the table again';
COMMENT ON TRIGGER notify_machine_truncated ON @extschema@.notify_machine IS 'tells every session to read the table again';

CREATE TRIGGER notify_event_changing
	BEFORE INSERT OR UPDATE OR DELETE ON @extschema@.notify_event
	FOR EACH ROW EXECUTE FUNCTION @extschema@.notify_definition_changed();
CREATE TRIGGER notify_event_changed
	AFTER INSERT OR UPDATE OR DELETE ON @extschema@.notify_event
	FOR EACH ROW EXECUTE FUNCTION @extschema@.notify_definition_changed();
CREATE TRIGGER notify_event_truncated
	AFTER TRUNCATE ON @extschema@.notify_event
	FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.notify_definition_changed();
ALTER TABLE @extschema@.notify_event
	ENABLE ALWAYS TRIGGER notify_event_changing, ENABLE ALWAYS TRIGGER notify_event_changed, ENABLE ALWAYS TRIGGER notify_event_truncated;
COMMENT ON TRIGGER notify_event_changing ON @extschema@.notify_event IS 'tells every session to read the table again, also if the statement fails';
COMMENT ON TRIGGER notify_event_changed ON @extschema@.notify_event IS 'tells every session to read the table again';
COMMENT ON TRIGGER notify_event_truncated ON @extschema@.notify_event IS 'tells every session to read the table again';

CREATE TRIGGER notify_transition_changing
	BEFORE INSERT OR UPDATE OR DELETE ON @extschema@.notify_transition
	FOR EACH ROW EXECUTE FUNCTION @extschema@.notify_definition_changed();
CREATE TRIGGER notify_transition_changed
	AFTER INSERT OR UPDATE OR DELETE ON @extschema@.notify_transition
	FOR EACH ROW EXECUTE FUNCTION @extschema@.notify_definition_changed();
CREATE TRIGGER notify_transition_truncated
	AFTER TRUNCATE ON @extschema@.notify_transition
	FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.notify_definition_changed();
ALTER TABLE @extschema@.notify_transition
	ENABLE ALWAYS TRIGGER notify_transition_changing, ENABLE ALWAYS TRIGGER notify_transition_changed, ENABLE ALWAYS TRIGGER notify_transition_truncated;
COMMENT ON TRIGGER notify_transition_changing ON @extschema@.notify_transition IS 'tells every session to read the table again, also if the statement fails';
COMMENT ON TRIGGER notify_transition_changed ON @extschema@.notify_transition IS 'tells every session to read the table again';
COMMENT ON TRIGGER notify_transition_truncated ON @extschema@.notify_transition IS 'tells every session to read the table again';

--
-- Privileges
--

CREATE FUNCTION @extschema@.notify_grant(role name, privileges text)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_grant'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_grant(name, text) IS
'Grants a role the narrow set of privileges for its duty: app may call handle_notify(). The order table''s own privileges are yours to grant.';

REVOKE ALL ON TABLE
	@extschema@.notify_machine, @extschema@.notify_event, @extschema@.notify_transition,
	@extschema@.notify_claim, @extschema@.notify_outbox
FROM PUBLIC;
REVOKE ALL ON SEQUENCE @extschema@.notify_claim_id_seq, @extschema@.notify_outbox_seq_seq FROM PUBLIC;
REVOKE ALL ON FUNCTION
	@extschema@.handle_notify(text, text, text, bytea, text, jsonb),
	@extschema@.handle_notify(text, text, text, text, text, jsonb),
	@extschema@.notify_machine_add(regclass, text, text, text),
	@extschema@.notify_machine_set(text, regclass, text, text),
	@extschema@.notify_machine_drop(text),
	@extschema@.notify_machine_check(text),
	@extschema@.notify_event_add(text, text, text, text),
	@extschema@.notify_event_set(text, text, text),
	@extschema@.notify_event_drop(text),
	@extschema@.notify_transition_add(text, text, text, text, text),
	@extschema@.notify_transition_drop(text, text, text, text),
	@extschema@.notify_definition_changed(),
	@extschema@.notify_grant(name, text)
FROM PUBLIC;
