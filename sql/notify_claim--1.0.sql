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
	on_early varchar(16) COLLATE "C" NOT NULL DEFAULT 'park',
	park_for interval NOT NULL DEFAULT '35 days',
	check_function text COLLATE "C",
	action_function text COLLATE "C",
	CONSTRAINT notify_event_name
		CHECK (event_type::pg_catalog.text OPERATOR(pg_catalog.~) '[^[:space:]]'::pg_catalog.text
			   AND event_type::pg_catalog.text OPERATOR(pg_catalog.!~) ':'::pg_catalog.text),
	CONSTRAINT notify_event_message
		CHECK (message_type IS NULL OR
			   (machine IS NULL AND message_type::pg_catalog.text OPERATOR(pg_catalog.<>) ''::pg_catalog.text)),
	CONSTRAINT notify_event_on_early
		CHECK (on_early::pg_catalog.text OPERATOR(pg_catalog.=) ANY
			   (ARRAY['park', 'retry', 'skip']::pg_catalog.text[])),
	CONSTRAINT notify_event_park_for
		CHECK (park_for OPERATOR(pg_catalog.>) '0'::pg_catalog.interval)
);
COMMENT ON TABLE @extschema@.notify_event IS
'Event types that handle_notify() accepts. Use notify_event_add(), notify_event_set() and notify_event_drop().';
COMMENT ON COLUMN @extschema@.notify_event.event_type IS 'event type as passed to handle_notify(); never contains a colon';
COMMENT ON COLUMN @extschema@.notify_event.machine IS 'machine whose transitions the event takes; NULL: deduplicate and publish only';
COMMENT ON COLUMN @extschema@.notify_event.message_type IS 'type of the outbox message of an event without a machine; NULL writes none';
COMMENT ON COLUMN @extschema@.notify_event.on_early IS 'what to do with an event that is not legal yet: park (acknowledge, and apply it once it is legal), retry (answer FAIL, keep nothing) or skip (acknowledge and record)';
COMMENT ON COLUMN @extschema@.notify_event.park_for IS 'how long an event stays parked before it is given up';
COMMENT ON COLUMN @extschema@.notify_event.check_function IS 'function (order_no text, event_type text, raw_body bytea) that returns a reason to refuse a legal event, or null; NULL: none';
COMMENT ON COLUMN @extschema@.notify_event.action_function IS 'function (order_no text, event_type text, raw_body bytea) that runs after an event was applied; NULL: none';

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

CREATE TABLE @extschema@.notify_digest_rule (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	mode varchar(8) COLLATE "C" NOT NULL,
	ignore text[] COLLATE "C" NOT NULL,
	CONSTRAINT notify_digest_rule_mode
		CHECK (mode::pg_catalog.text OPERATOR(pg_catalog.=) ANY
			   (ARRAY['json', 'form', 'xml']::pg_catalog.text[]))
);
COMMENT ON TABLE @extschema@.notify_digest_rule IS
'What makes a body''s digest. Rows never change: a claim is compared under the rule that it was made by. Written by notify_channel_add() and notify_channel_set().';
COMMENT ON COLUMN @extschema@.notify_digest_rule.id IS 'number of the rule, as claims and channels refer to it';
COMMENT ON COLUMN @extschema@.notify_digest_rule.mode IS 'how a body is read: json, form or xml; one that cannot be read so is digested as it is (raw)';
COMMENT ON COLUMN @extschema@.notify_digest_rule.ignore IS 'what the digest leaves out: paths of member names (json) or names (form, xml)';

CREATE TABLE @extschema@.notify_channel (
	channel varchar(64) COLLATE "C" NOT NULL PRIMARY KEY,
	digest_rule bigint,
	ok_status integer NOT NULL,
	ok_body text COLLATE "C" NOT NULL,
	fail_status integer NOT NULL,
	fail_body text COLLATE "C" NOT NULL,
	max_body integer,
	keep_body boolean NOT NULL,
	retain interval NOT NULL,
	on_conflict varchar(8) COLLATE "C" NOT NULL,
	on_no_rule varchar(8) COLLATE "C" NOT NULL,
	CONSTRAINT notify_channel_name
		CHECK (channel::pg_catalog.text OPERATOR(pg_catalog.~) '[^[:space:]]'::pg_catalog.text),
	CONSTRAINT notify_channel_status
		CHECK (ok_status OPERATOR(pg_catalog.>=) 200 AND ok_status OPERATOR(pg_catalog.<=) 599
			   AND fail_status OPERATOR(pg_catalog.>=) 200 AND fail_status OPERATOR(pg_catalog.<=) 599),
	CONSTRAINT notify_channel_max_body
		CHECK (max_body OPERATOR(pg_catalog.>) 0),
	CONSTRAINT notify_channel_retain
		CHECK (retain OPERATOR(pg_catalog.>) '0'::pg_catalog.interval),
	CONSTRAINT notify_channel_policy
		CHECK (on_conflict::pg_catalog.text OPERATOR(pg_catalog.=) ANY (ARRAY['fail', 'ack']::pg_catalog.text[])
			   AND on_no_rule::pg_catalog.text OPERATOR(pg_catalog.=) ANY (ARRAY['fail', 'ack']::pg_catalog.text[]))
);
COMMENT ON TABLE @extschema@.notify_channel IS
'Who sends notifications, how their bodies are compared and what they are answered. Use notify_channel_add(), notify_channel_set() and notify_channel_drop(). The channel default needs no row.';
COMMENT ON COLUMN @extschema@.notify_channel.channel IS 'name as passed to handle_notify()';
COMMENT ON COLUMN @extschema@.notify_channel.digest_rule IS 'rule in notify_digest_rule that digests new notifications; NULL: the bytes as they are (raw)';
COMMENT ON COLUMN @extschema@.notify_channel.ok_status IS 'HTTP status that makes the peer stop sending';
COMMENT ON COLUMN @extschema@.notify_channel.ok_body IS 'response body that goes with ok_status';
COMMENT ON COLUMN @extschema@.notify_channel.fail_status IS 'HTTP status that makes the peer send again';
COMMENT ON COLUMN @extschema@.notify_channel.fail_body IS 'response body that goes with fail_status';
COMMENT ON COLUMN @extschema@.notify_channel.max_body IS 'longest body accepted, in bytes; NULL: no limit of its own';
COMMENT ON COLUMN @extschema@.notify_channel.keep_body IS 'keep the first body in notify_body, so that a reviewer can see what a conflict changed';
COMMENT ON COLUMN @extschema@.notify_channel.retain IS 'how long claims are kept; longer than the peer goes on sending';
COMMENT ON COLUMN @extschema@.notify_channel.on_conflict IS 'status of a CONFLICT: fail (FAIL, the peer sends again) or ack (SUCCESS)';
COMMENT ON COLUMN @extschema@.notify_channel.on_no_rule IS 'status of a NO_RULE: fail (FAIL, the peer sends again) or ack (SUCCESS)';

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
CREATE INDEX notify_claim_parked_idx ON @extschema@.notify_claim (order_no, id)
	WHERE claim_state::pg_catalog.text OPERATOR(pg_catalog.=) 'PARKED'::pg_catalog.text;
CREATE INDEX notify_claim_skipped_idx ON @extschema@.notify_claim (created_at)
	WHERE outcome::pg_catalog.text OPERATOR(pg_catalog.=) 'SKIPPED'::pg_catalog.text;
COMMENT ON TABLE @extschema@.notify_claim IS
'One row per notification that was processed, with the answer that a repeat gets. Written by handle_notify() and notify_import() only; deleting a row, as notify_purge() does with old ones, makes the next delivery a first one.';
COMMENT ON COLUMN @extschema@.notify_claim.id IS 'number of the claim';
COMMENT ON COLUMN @extschema@.notify_claim.channel IS 'channel that delivered the notification';
COMMENT ON COLUMN @extschema@.notify_claim.biz_key IS 'channel transaction id, a colon, event type; the last colon splits them';
COMMENT ON COLUMN @extschema@.notify_claim.order_no IS 'order number in the order table''s own spelling';
COMMENT ON COLUMN @extschema@.notify_claim.payload_hash IS 'SHA-256 of the first body''s canonical form, lower-case hexadecimal';
COMMENT ON COLUMN @extschema@.notify_claim.digest_rule IS 'rule in notify_digest_rule that redeliveries are compared under; NULL: the bytes as they are (raw)';
COMMENT ON COLUMN @extschema@.notify_claim.digest_mode IS 'mode that made the digest; raw under a rule of another mode: the body could not be read so; none: the claim was imported, and any content is its';
COMMENT ON COLUMN @extschema@.notify_claim.claim_state IS 'DONE, or PARKED while it waits to become legal; CLAIMED is never seen committed';
COMMENT ON COLUMN @extschema@.notify_claim.outcome IS 'APPLIED, SKIPPED, PARKED, or REJECTED (refused when it was released, or a refusal that a person confirmed)';
COMMENT ON COLUMN @extschema@.notify_claim.result_json IS 'result that the first delivery got and every repeat gets';
COMMENT ON COLUMN @extschema@.notify_claim.message_id IS 'id of the outbox message; NULL: none was written';
COMMENT ON COLUMN @extschema@.notify_claim.created_at IS 'when the first delivery was processed';
COMMENT ON CONSTRAINT uk_biz_key ON @extschema@.notify_claim IS 'decides between two deliveries at the same instant';
COMMENT ON INDEX @extschema@.notify_claim_order_no_idx IS 'finds everything on record about an order';
COMMENT ON INDEX @extschema@.notify_claim_parked_idx IS 'finds what is parked for an order; nearly empty';
COMMENT ON INDEX @extschema@.notify_claim_skipped_idx IS 'counts what was skipped lately';

CREATE TABLE @extschema@.notify_outbox (
	seq bigint GENERATED ALWAYS AS IDENTITY,
	id uuid NOT NULL,
	aggregatetype varchar(255) COLLATE "C" NOT NULL,
	aggregateid varchar(255) COLLATE "C" NOT NULL,
	type varchar(255) COLLATE "C" NOT NULL,
	payload jsonb NOT NULL,
	created_at timestamptz NOT NULL,
	PRIMARY KEY (aggregateid, seq)
);
-- The partition and the number of a message in one: with two columns the planner
-- sometimes prefers the primary key, and all of it. src/statements.c has the same
-- expression.
CREATE INDEX notify_outbox_partition_idx ON @extschema@.notify_outbox
	((((pg_catalog.hashtext(aggregateid::pg_catalog.text) OPERATOR(pg_catalog.&) 31)::pg_catalog.int8
	OPERATOR(pg_catalog.<<) 57) OPERATOR(pg_catalog.|) seq));
COMMENT ON TABLE @extschema@.notify_outbox IS
'Messages for consumers, committed with the change that they tell of. INSERT and DELETE only; the columns are those of Debezium''s outbox event router.';
COMMENT ON COLUMN @extschema@.notify_outbox.seq IS 'rises in commit order within one order';
COMMENT ON COLUMN @extschema@.notify_outbox.id IS 'id of the message; consumers recognise repeats by it';
COMMENT ON COLUMN @extschema@.notify_outbox.aggregatetype IS 'machine; event for an event without one; notify_review for an alarm';
COMMENT ON COLUMN @extschema@.notify_outbox.aggregateid IS 'order number; of an alarm, the review''s id';
COMMENT ON COLUMN @extschema@.notify_outbox.type IS 'message type of the transition or event; of an alarm, the review''s kind';
COMMENT ON COLUMN @extschema@.notify_outbox.payload IS 'type, biz_key, channel, event_type, order_no, from, to, data; of an alarm: kind, channel, biz_key, order_no, first_hash, payload_hash';
COMMENT ON COLUMN @extschema@.notify_outbox.created_at IS 'when the message was written';
COMMENT ON INDEX @extschema@.notify_outbox_partition_idx IS 'finds the messages that a lease may take, oldest first';

-- Delivery state, by partitions of the orders: few rows that are updated in place
-- (HOT), so that neither leases nor an old snapshot slow the next lease down.
-- A CHECK would be read anew by each such update.
CREATE TABLE @extschema@.notify_outbox_partition (
	partition integer NOT NULL PRIMARY KEY,
	low bigint NOT NULL DEFAULT 0,
	mark_seq bigint,
	mark_xmax xid8,
	first_slot integer NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
COMMENT ON TABLE @extschema@.notify_outbox_partition IS
'How far the partitions of notify_outbox are done with. Written by notify_outbox_lease() only, which locks the row of the partition that it looks through.';
COMMENT ON COLUMN @extschema@.notify_outbox_partition.partition IS 'number of the partition, from the hash of aggregateid';
COMMENT ON COLUMN @extschema@.notify_outbox_partition.low IS 'messages up to this number are done with, or belong to an order in notify_outbox_held';
COMMENT ON COLUMN @extschema@.notify_outbox_partition.mark_seq IS 'all numbers up to this one were drawn when the mark was set';
COMMENT ON COLUMN @extschema@.notify_outbox_partition.mark_xmax IS 'first transaction that was to come then; once none before it is running, the numbers up to mark_seq are decided';
COMMENT ON COLUMN @extschema@.notify_outbox_partition.first_slot IS 'first of its rows in notify_outbox_leased';
-- These rows are never dumped: a restored outbox is looked through from its start.
INSERT INTO @extschema@.notify_outbox_partition (partition)
SELECT pg_catalog.generate_series(0, 31);

CREATE TABLE @extschema@.notify_outbox_leased (
	partition integer NOT NULL,
	slot integer NOT NULL,
	uses integer NOT NULL,
	token uuid NOT NULL,
	consumer varchar(255) COLLATE "C" NOT NULL,
	leased_until timestamptz NOT NULL,
	held boolean NOT NULL,
	seqs bigint[] NOT NULL,
	acked bigint[] NOT NULL,
	PRIMARY KEY (partition, slot)
) WITH (fillfactor = 10);
COMMENT ON TABLE @extschema@.notify_outbox_leased IS
'Leases of notify_outbox, one row for each partition of a lease; rows are used again some dozen times. Written by notify_outbox_lease() and what is done with its token.';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.partition IS 'partition of the messages';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.slot IS 'number of the row within its partition';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.uses IS 'how often it was written; after some dozens of leases another row takes its place';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.token IS 'token that the lease was answered with';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.consumer IS 'name that the consumer gave';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.leased_until IS 'until when what is outstanding is the consumer''s';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.held IS 'some messages are of orders in notify_outbox_held';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.seqs IS 'numbers of the messages that are outstanding; {}: the row is free';
COMMENT ON COLUMN @extschema@.notify_outbox_leased.acked IS 'numbers of the lease''s messages that are done with';

CREATE TABLE @extschema@.notify_outbox_held (
	aggregatetype varchar(255) COLLATE "C" NOT NULL,
	aggregateid varchar(255) COLLATE "C" NOT NULL,
	partition integer GENERATED ALWAYS AS
		(pg_catalog.hashtext(aggregateid::pg_catalog.text) OPERATOR(pg_catalog.&) 31) STORED,
	first_seq bigint NOT NULL,
	due_at timestamptz NOT NULL,
	PRIMARY KEY (aggregateid, aggregatetype)
);
CREATE INDEX notify_outbox_held_due_idx ON @extschema@.notify_outbox_held (partition, due_at);
COMMENT ON TABLE @extschema@.notify_outbox_held IS
'Orders of which a message failed, or has become a dead letter. Their messages are leased from here until none is left.';
COMMENT ON COLUMN @extschema@.notify_outbox_held.aggregatetype IS 'aggregatetype of the order''s messages';
COMMENT ON COLUMN @extschema@.notify_outbox_held.aggregateid IS 'order number';
COMMENT ON COLUMN @extschema@.notify_outbox_held.partition IS 'partition of the order';
COMMENT ON COLUMN @extschema@.notify_outbox_held.first_seq IS 'its messages are looked for from this number on';
COMMENT ON COLUMN @extschema@.notify_outbox_held.due_at IS 'when its messages are looked at again; infinity: they wait behind a dead letter';
COMMENT ON INDEX @extschema@.notify_outbox_held_due_idx IS 'finds the orders that are due';

CREATE TABLE @extschema@.notify_outbox_attempt (
	seq bigint NOT NULL PRIMARY KEY,
	attempts integer NOT NULL,
	last_error text COLLATE "C",
	failed_at timestamptz NOT NULL,
	retry_at timestamptz NOT NULL
);
COMMENT ON TABLE @extschema@.notify_outbox_attempt IS
'Messages of notify_outbox that could not be delivered so far. Written by notify_outbox_nack() and notify_outbox_lease().';
COMMENT ON COLUMN @extschema@.notify_outbox_attempt.seq IS 'number of the message';
COMMENT ON COLUMN @extschema@.notify_outbox_attempt.attempts IS 'how many times it failed, or its lease ran out';
COMMENT ON COLUMN @extschema@.notify_outbox_attempt.last_error IS 'reason that notify_outbox_nack() was given; NULL: none was, or the lease ran out';
COMMENT ON COLUMN @extschema@.notify_outbox_attempt.failed_at IS 'when it failed last';
COMMENT ON COLUMN @extschema@.notify_outbox_attempt.retry_at IS 'when it may be leased again';

CREATE TABLE @extschema@.notify_outbox_dead (
	seq bigint NOT NULL PRIMARY KEY,
	id uuid NOT NULL,
	aggregatetype varchar(255) COLLATE "C" NOT NULL,
	aggregateid varchar(255) COLLATE "C" NOT NULL,
	type varchar(255) COLLATE "C" NOT NULL,
	payload jsonb NOT NULL,
	created_at timestamptz NOT NULL,
	reason varchar(16) COLLATE "C" NOT NULL CHECK (reason IN ('NACKED', 'EXPIRED')),
	attempts integer NOT NULL,
	last_error text COLLATE "C",
	dead_at timestamptz NOT NULL,
	blocks boolean NOT NULL
);
CREATE INDEX notify_outbox_dead_order_idx ON @extschema@.notify_outbox_dead (aggregateid, seq);
COMMENT ON TABLE @extschema@.notify_outbox_dead IS
'Messages that were given up after notify_claim.max_attempts attempts. notify_outbox_redrive() puts one back, notify_outbox_dead_purge() removes old ones.';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.seq IS 'number that the message has in notify_outbox';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.id IS 'id of the message; consumers recognise repeats by it';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.aggregatetype IS 'as in notify_outbox';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.aggregateid IS 'as in notify_outbox';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.type IS 'as in notify_outbox';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.payload IS 'as in notify_outbox';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.created_at IS 'when the message was written';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.reason IS 'NACKED: the consumer said that it failed; EXPIRED: the consumer was not heard of again';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.attempts IS 'how many attempts there were';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.last_error IS 'last reason that notify_outbox_nack() was given';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.dead_at IS 'when it was given up';
COMMENT ON COLUMN @extschema@.notify_outbox_dead.blocks IS 'the later messages of its order wait until it is put back or purged';
COMMENT ON INDEX @extschema@.notify_outbox_dead_order_idx IS 'finds the dead letters of an order';

CREATE TABLE @extschema@.notify_body (
	claim bigint NOT NULL PRIMARY KEY,
	raw_body bytea,
	data jsonb,
	attempts integer NOT NULL DEFAULT 0,
	last_error text COLLATE "C"
);
COMMENT ON TABLE @extschema@.notify_body IS
'First bodies of the claims that are parked or whose channel keeps them (keep_body). Written by handle_notify() only.';
COMMENT ON COLUMN @extschema@.notify_body.claim IS 'claim in notify_claim';
COMMENT ON COLUMN @extschema@.notify_body.raw_body IS 'body of the first delivery, as it came';
COMMENT ON COLUMN @extschema@.notify_body.data IS 'data that the first delivery brought for consumers';
COMMENT ON COLUMN @extschema@.notify_body.attempts IS 'how often releasing the parked claim failed';
COMMENT ON COLUMN @extschema@.notify_body.last_error IS 'error of the last of these attempts';

CREATE TABLE @extschema@.notify_review (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind varchar(32) COLLATE "C" NOT NULL,
	channel varchar(64) COLLATE "C" NOT NULL,
	biz_key varchar(160) COLLATE "C" NOT NULL,
	claim bigint,
	order_no varchar(64) COLLATE "C" NOT NULL,
	digest_rule bigint,
	digest_mode varchar(8) COLLATE "C" NOT NULL,
	first_hash char(64) COLLATE "C" NOT NULL,
	payload_hash char(64) COLLATE "C" NOT NULL,
	raw_body bytea NOT NULL,
	data jsonb,
	reason text COLLATE "C",
	hits bigint NOT NULL DEFAULT 1,
	variants bigint NOT NULL DEFAULT 1,
	state varchar(16) COLLATE "C" NOT NULL DEFAULT 'OPEN',
	first_seen timestamptz NOT NULL,
	last_seen timestamptz NOT NULL,
	resolved_by text COLLATE "C",
	resolved_at timestamptz,
	note text COLLATE "C",
	CONSTRAINT notify_review_kind
		CHECK (kind::pg_catalog.text OPERATOR(pg_catalog.=) ANY
			   (ARRAY['PAYLOAD_CONFLICT', 'CHECK_REFUSED', 'PARKED_EXPIRED']::pg_catalog.text[])),
	CONSTRAINT notify_review_state
		CHECK (state::pg_catalog.text OPERATOR(pg_catalog.=) ANY
			   (ARRAY['OPEN', 'DISMISSED', 'ALLOWED', 'OVERTAKEN']::pg_catalog.text[]))
);
CREATE UNIQUE INDEX notify_review_open_idx
	ON @extschema@.notify_review (biz_key, channel, kind)
	WHERE state::pg_catalog.text OPERATOR(pg_catalog.=) 'OPEN'::pg_catalog.text;
CREATE UNIQUE INDEX notify_review_conflict_idx
	ON @extschema@.notify_review (claim)
	WHERE kind::pg_catalog.text OPERATOR(pg_catalog.=) 'PAYLOAD_CONFLICT'::pg_catalog.text;
CREATE INDEX notify_review_claim_idx ON @extschema@.notify_review (claim);
CREATE INDEX notify_review_closed_idx ON @extschema@.notify_review (resolved_at)
	WHERE state::pg_catalog.text OPERATOR(pg_catalog.<>) 'OPEN'::pg_catalog.text;
CREATE INDEX notify_review_order_no_idx ON @extschema@.notify_review (order_no);
COMMENT ON TABLE @extschema@.notify_review IS
'What a person has to decide: other content under a known key (PAYLOAD_CONFLICT), events that a check function refused (CHECK_REFUSED), parked events that were given up (PARKED_EXPIRED). Work through notify_review_open with notify_review_diff() and notify_review_resolve().';
COMMENT ON COLUMN @extschema@.notify_review.id IS 'number of the review';
COMMENT ON COLUMN @extschema@.notify_review.kind IS 'PAYLOAD_CONFLICT, CHECK_REFUSED or PARKED_EXPIRED';
COMMENT ON COLUMN @extschema@.notify_review.channel IS 'channel that delivered the notification';
COMMENT ON COLUMN @extschema@.notify_review.biz_key IS 'channel transaction id, a colon, event type';
COMMENT ON COLUMN @extschema@.notify_review.claim IS 'claim that the content conflicts with, or that the decision made; NULL: none yet';
COMMENT ON COLUMN @extschema@.notify_review.order_no IS 'order number of the last delivery';
COMMENT ON COLUMN @extschema@.notify_review.digest_rule IS 'rule that the contents were digested by; NULL: the bytes as they are (raw)';
COMMENT ON COLUMN @extschema@.notify_review.digest_mode IS 'mode that made payload_hash';
COMMENT ON COLUMN @extschema@.notify_review.first_hash IS 'digest of the claim, or of the content refused first';
COMMENT ON COLUMN @extschema@.notify_review.payload_hash IS 'digest of the last delivery';
COMMENT ON COLUMN @extschema@.notify_review.raw_body IS 'body of the last delivery that brought another content than the one before it';
COMMENT ON COLUMN @extschema@.notify_review.data IS 'data of the last delivery';
COMMENT ON COLUMN @extschema@.notify_review.reason IS 'why the last delivery was refused';
COMMENT ON COLUMN @extschema@.notify_review.hits IS 'how many deliveries';
COMMENT ON COLUMN @extschema@.notify_review.variants IS 'how many different contents; each is in notify_review_variant';
COMMENT ON COLUMN @extschema@.notify_review.state IS 'OPEN, or what became of it: DISMISSED, ALLOWED, or OVERTAKEN where the notification was applied after all';
COMMENT ON COLUMN @extschema@.notify_review.first_seen IS 'when the first of the deliveries came';
COMMENT ON COLUMN @extschema@.notify_review.last_seen IS 'when the last of the deliveries came';
COMMENT ON COLUMN @extschema@.notify_review.resolved_by IS 'role that decided; NULL where no person did';
COMMENT ON COLUMN @extschema@.notify_review.resolved_at IS 'when it was decided or overtaken';
COMMENT ON COLUMN @extschema@.notify_review.note IS 'why it was decided so';
COMMENT ON INDEX @extschema@.notify_review_open_idx IS 'one open review per channel, key and kind';
COMMENT ON INDEX @extschema@.notify_review_conflict_idx IS 'one review of conflicting content per claim: its decision holds while the claim is kept';
COMMENT ON INDEX @extschema@.notify_review_claim_idx IS 'finds the reviews about a claim';
COMMENT ON INDEX @extschema@.notify_review_closed_idx IS 'finds the closed reviews, oldest first';
COMMENT ON INDEX @extschema@.notify_review_order_no_idx IS 'finds the reviews about an order';

CREATE TABLE @extschema@.notify_review_variant (
	review bigint NOT NULL,
	digest_mode varchar(8) COLLATE "C" NOT NULL,
	payload_hash char(64) COLLATE "C" NOT NULL,
	order_no varchar(64) COLLATE "C" NOT NULL,
	first_seen timestamptz NOT NULL,
	PRIMARY KEY (review, digest_mode, payload_hash, order_no)
);
CREATE INDEX notify_review_variant_order_no_idx ON @extschema@.notify_review_variant (order_no);
COMMENT ON INDEX @extschema@.notify_review_variant_order_no_idx IS 'finds what came with an order number';
COMMENT ON TABLE @extschema@.notify_review_variant IS
'Each distinct content that a review is about, once.';
COMMENT ON COLUMN @extschema@.notify_review_variant.review IS 'review in notify_review';
COMMENT ON COLUMN @extschema@.notify_review_variant.digest_mode IS 'mode that made the digest';
COMMENT ON COLUMN @extschema@.notify_review_variant.payload_hash IS 'digest of the content';
COMMENT ON COLUMN @extschema@.notify_review_variant.order_no IS 'order number that it came with';
COMMENT ON COLUMN @extschema@.notify_review_variant.first_seen IS 'when it came first';

CREATE TABLE @extschema@.notify_decision (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	claim bigint,
	review bigint,
	verb varchar(16) COLLATE "C" NOT NULL,
	who text COLLATE "C" NOT NULL,
	at timestamptz NOT NULL,
	note text COLLATE "C" NOT NULL
);
CREATE INDEX notify_decision_claim_idx ON @extschema@.notify_decision (claim);
CREATE INDEX notify_decision_review_idx ON @extschema@.notify_decision (review);
COMMENT ON INDEX @extschema@.notify_decision_claim_idx IS 'finds the decisions about a claim';
COMMENT ON INDEX @extschema@.notify_decision_review_idx IS 'finds the decisions about a review';
COMMENT ON TABLE @extschema@.notify_decision IS
'What people decided about reviews and claims, in their order. Written by notify_review_resolve(), notify_parked_close() and notify_reopen(); a decision is kept as long as the claim or review that it is about.';
COMMENT ON COLUMN @extschema@.notify_decision.id IS 'number of the decision';
COMMENT ON COLUMN @extschema@.notify_decision.claim IS 'claim that it is about or that it made; NULL: none';
COMMENT ON COLUMN @extschema@.notify_decision.review IS 'review in notify_review that it closed; NULL: none';
COMMENT ON COLUMN @extschema@.notify_decision.verb IS 'what was decided: DISMISS, ALLOW, CLOSE or REOPEN';
COMMENT ON COLUMN @extschema@.notify_decision.who IS 'role that decided';
COMMENT ON COLUMN @extschema@.notify_decision.at IS 'when it was decided';
COMMENT ON COLUMN @extschema@.notify_decision.note IS 'why it was decided so';

-- How far retention has come: no index of notify_claim is needed for it.
CREATE TABLE @extschema@.notify_purge_mark (
	channel varchar(64) COLLATE "C" NOT NULL PRIMARY KEY,
	low bigint NOT NULL,
	mark bigint,
	mark_xmax xid8
) WITH (fillfactor = 50);
COMMENT ON TABLE @extschema@.notify_purge_mark IS
'Up to where notify_purge() is done with the claims of a channel. Written by it only; without its rows it looks through notify_claim from the start.';
COMMENT ON COLUMN @extschema@.notify_purge_mark.channel IS 'channel; the one without a name stands for those that are not declared any more';
COMMENT ON COLUMN @extschema@.notify_purge_mark.low IS 'claims up to this number are gone, or in notify_purge_kept';
COMMENT ON COLUMN @extschema@.notify_purge_mark.mark IS 'all numbers up to this one were drawn when the mark was set';
COMMENT ON COLUMN @extschema@.notify_purge_mark.mark_xmax IS 'first transaction that was to come then; once none before it is running, the numbers up to mark are decided';

CREATE TABLE @extschema@.notify_purge_kept (
	claim bigint NOT NULL PRIMARY KEY
);
COMMENT ON TABLE @extschema@.notify_purge_kept IS
'Claims that notify_purge() has passed and must keep for now: parked, under review, decided about lately, or locked by others. It looks at them again each time.';
COMMENT ON COLUMN @extschema@.notify_purge_kept.claim IS 'claim in notify_claim';

CREATE VIEW @extschema@.notify_review_open AS
SELECT r.id, r.kind, r.channel,
	   pg_catalog.regexp_replace(r.biz_key, ':[^:]*$', '') AS channel_txn_id,
	   pg_catalog.regexp_replace(r.biz_key, '^.*:', '') AS event_type,
	   r.order_no, r.reason, r.hits, r.variants, r.payload_hash, r.first_seen, r.last_seen,
	   pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) r.first_seen AS age
FROM @extschema@.notify_review AS r
WHERE r.state::pg_catalog.text OPERATOR(pg_catalog.=) 'OPEN'::pg_catalog.text
ORDER BY r.first_seen, r.id;
COMMENT ON VIEW @extschema@.notify_review_open IS
'Open reviews, oldest first. Look at one with notify_review_diff(id), decide it with notify_review_resolve(id, verdict, note).';
COMMENT ON COLUMN @extschema@.notify_review_open.id IS 'number of the review';
COMMENT ON COLUMN @extschema@.notify_review_open.kind IS 'PAYLOAD_CONFLICT: other content under a known key; CHECK_REFUSED: refused by the event''s check function; PARKED_EXPIRED: parked for too long';
COMMENT ON COLUMN @extschema@.notify_review_open.channel IS 'channel that delivered the notification';
COMMENT ON COLUMN @extschema@.notify_review_open.channel_txn_id IS 'channel''s transaction id';
COMMENT ON COLUMN @extschema@.notify_review_open.event_type IS 'event type';
COMMENT ON COLUMN @extschema@.notify_review_open.order_no IS 'order number of the last delivery';
COMMENT ON COLUMN @extschema@.notify_review_open.reason IS 'why the last delivery was refused';
COMMENT ON COLUMN @extschema@.notify_review_open.hits IS 'how many deliveries';
COMMENT ON COLUMN @extschema@.notify_review_open.variants IS 'how many different contents';
COMMENT ON COLUMN @extschema@.notify_review_open.payload_hash IS 'digest of the last delivery; pass it to notify_review_resolve() to decide about this content only';
COMMENT ON COLUMN @extschema@.notify_review_open.first_seen IS 'when the first of the deliveries came';
COMMENT ON COLUMN @extschema@.notify_review_open.last_seen IS 'when the last of the deliveries came';
COMMENT ON COLUMN @extschema@.notify_review_open.age IS 'how long it has been waiting';

-- Without these a dump silently loses the claims, and a restore applies every
-- late duplicate again.
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_machine', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_event', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_transition', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_digest_rule', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_digest_rule_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_channel', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_claim', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_claim_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox_seq_seq', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox_held', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox_attempt', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox_dead', '');
-- Leases and transaction numbers mean nothing in another cluster.
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox_partition', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_outbox_leased', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_purge_mark', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_purge_kept', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_body', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_review', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_review_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_review_variant', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_decision', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.notify_decision_id_seq', '');

COMMENT ON SEQUENCE @extschema@.notify_digest_rule_id_seq IS 'numbers of notify_digest_rule';
COMMENT ON SEQUENCE @extschema@.notify_claim_id_seq IS 'numbers of notify_claim';
COMMENT ON SEQUENCE @extschema@.notify_review_id_seq IS 'numbers of notify_review';
COMMENT ON SEQUENCE @extschema@.notify_decision_id_seq IS 'numbers of notify_decision';
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
	order_table regclass, order_column text, status_column text, machine text DEFAULT NULL, attach boolean DEFAULT true)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_machine_add'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_machine_add(regclass, text, text, text, boolean) IS
'Declares a state machine over an order table; it is named after the table unless a name is given. Attaches the trigger that releases parked events, unless attach is false. For the table''s owner.';

CREATE FUNCTION @extschema@.notify_machine_set(
	machine text, order_table regclass DEFAULT NULL, order_column text DEFAULT NULL, status_column text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_machine_set'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_machine_set(text, regclass, text, text) IS
'Points a machine at another table or other columns, for instance after a rename; NULL leaves a setting as it is. Applies what is parked and legal there. For the owner of both tables.';

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
	event_type text, message_type text DEFAULT NULL, machine text DEFAULT NULL, on_early text DEFAULT NULL,
	check_function text DEFAULT NULL, action_function text DEFAULT NULL, park_for interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_event_add'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_event_add(text, text, text, text, text, text, interval) IS
'Declares an event type: without a machine it is only deduplicated and published as message_type. An event''s first transition declares it as well.';

CREATE FUNCTION @extschema@.notify_event_set(
	event_type text, message_type text DEFAULT NULL, on_early text DEFAULT NULL,
	check_function text DEFAULT NULL, action_function text DEFAULT NULL, park_for interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_event_set'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_event_set(text, text, text, text, text, interval) IS
'Changes an event''s settings; NULL leaves a setting as it is, an empty text removes the message_type or the function.';

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
'Declares a legal step. event_type NULL: a step that others make; from_status NULL: from any other status; to_status NULL: nothing changes, only the message is written. Applies what is parked and legal now, closes nothing.';

CREATE FUNCTION @extschema@.notify_transition_drop(
	event_type text, from_status text, to_status text, machine text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_transition_drop'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_transition_drop(text, text, text, text) IS
'Drops the step that was declared with the same arguments. What is parked stays so until its order moves: run notify_unpark_all() once the transitions are complete.';

--
-- Channels
--

CREATE FUNCTION @extschema@.notify_channel_add(
	channel text, preset text DEFAULT NULL, digest text DEFAULT NULL, ignore text[] DEFAULT NULL,
	ok_status integer DEFAULT NULL, ok_body text DEFAULT NULL,
	fail_status integer DEFAULT NULL, fail_body text DEFAULT NULL,
	max_body integer DEFAULT NULL, keep_body boolean DEFAULT NULL, retain interval DEFAULT NULL,
	on_conflict text DEFAULT NULL, on_no_rule text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_channel_add'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_channel_add(text, text, text, text[], integer, text, integer, text, integer, boolean, interval, text, text) IS
'Declares a channel. preset is one of stripe, alipay, wechat_v2, wechat_v3, paypal, adyen, github; every argument given overrides it. digest is raw, json, form or xml; ignore lists what the digest leaves out.';

CREATE FUNCTION @extschema@.notify_channel_set(
	channel text, preset text DEFAULT NULL, digest text DEFAULT NULL, ignore text[] DEFAULT NULL,
	ok_status integer DEFAULT NULL, ok_body text DEFAULT NULL,
	fail_status integer DEFAULT NULL, fail_body text DEFAULT NULL,
	max_body integer DEFAULT NULL, keep_body boolean DEFAULT NULL, retain interval DEFAULT NULL,
	on_conflict text DEFAULT NULL, on_no_rule text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_channel_set'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_channel_set(text, text, text, text[], integer, text, integer, text, integer, boolean, interval, text, text) IS
'Changes a channel; NULL leaves a setting as it is, max_body 0 removes the limit. Claims are still compared under the digest that they were made by.';

CREATE FUNCTION @extschema@.notify_channel_drop(channel text)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_channel_drop'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_channel_drop(text) IS
'Drops a channel that has no claims and no open reviews. Dropping default brings back what it is without a row.';

CREATE FUNCTION @extschema@.notify_digest(
	channel text, raw_body bytea, OUT digest text, OUT canonical text, OUT mode text)
RETURNS record
AS 'MODULE_PATHNAME', 'notify_claim_digest_bytea'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_digest(text, bytea) IS
'The digest that a new notification with this body would have in the channel, what it is the SHA-256 of, and the mode that made it. Where two bodies'' digests differ, their canonical forms show why.';

CREATE FUNCTION @extschema@.notify_digest(
	channel text, raw_body text, OUT digest text, OUT canonical text, OUT mode text)
RETURNS record
AS 'MODULE_PATHNAME', 'notify_claim_digest_text'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_digest(text, text) IS
'Like notify_digest with a bytea body; the text stands for its UTF-8 bytes.';

--
-- Reviews
--

CREATE FUNCTION @extschema@.notify_review_diff(
	id bigint, OUT member text, OUT first text, OUT last text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'notify_claim_review_diff'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 20;
COMMENT ON FUNCTION @extschema@.notify_review_diff(bigint) IS
'What differs between the claim''s first content and the last delivery, member by member; NULL: the member is not there. Needs the first body: see keep_body of notify_channel_set().';

CREATE FUNCTION @extschema@.notify_review_resolve(
	id bigint, verdict text, note text, payload_hash text DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'notify_claim_review_resolve'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_review_resolve(bigint, text, text, text) IS
'Decides a review. DISMISS: the peer is answered SUCCESS from now on and nothing is done. ALLOW, of a refusal: the stored notification is processed now without its check; returns the outcome, and BUSY, EARLY, NO_ORDER and NO_RULE leave the review open. payload_hash: only if the last content is still that one.';

--
-- Parked events
--

CREATE FUNCTION @extschema@.notify_order_moved()
RETURNS trigger
AS 'MODULE_PATHNAME', 'notify_claim_order_moved'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_order_moved() IS
'Trigger function of order tables: applies the parked events of an order that has moved. On a table of no machine it does nothing.';

CREATE FUNCTION @extschema@.notify_unpark(order_no text, machine text DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'notify_claim_unpark'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_unpark(text, text) IS
'Applies the parked events of an order that have become legal, and closes those that are stale or have expired; returns how many were applied. For what the order table''s trigger did not see.';

CREATE FUNCTION @extschema@.notify_unpark_all(max_orders integer DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'notify_claim_unpark_all'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_unpark_all(integer) IS
'Does what notify_unpark() does for all orders with parked events, the longest parked first, or until something has changed for max_orders of them; passes over orders that another transaction holds.';

CREATE FUNCTION @extschema@.notify_parked_close(claim bigint, note text)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_parked_close'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_parked_close(bigint, text) IS
'Gives a parked event up: it is answered SKIPPED from now on.';

CREATE FUNCTION @extschema@.notify_reopen(
	claim bigint, note text, raw_body bytea DEFAULT NULL, data jsonb DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME', 'notify_claim_reopen'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_reopen(bigint, text, bytea, jsonb) IS
'Processes a skipped event again, for instance after a transition was declared too late; returns the outcome. raw_body is needed where the first body was not kept and the event has a check or an action, or is parked again.';

CREATE VIEW @extschema@.notify_parked AS
SELECT c.id AS claim, c.channel,
	   pg_catalog.regexp_replace(c.biz_key, ':[^:]*$', '') AS channel_txn_id,
	   e.event_type, e.machine, c.order_no,
	   (c.result_json OPERATOR(pg_catalog.->>) 'parked') COLLATE "C" AS parked_at,
	   (SELECT pg_catalog.array_agg(t.from_status ORDER BY t.from_status)
		FROM @extschema@.notify_transition AS t
		WHERE t.machine OPERATOR(pg_catalog.=) e.machine
		AND t.event_type OPERATOR(pg_catalog.=) e.event_type
		AND t.from_status IS NOT NULL) AS awaits,
	   s.since,
	   pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) s.since AS age,
	   s.since OPERATOR(pg_catalog.+) e.park_for AS expires,
	   b.attempts, b.last_error
FROM @extschema@.notify_claim AS c
CROSS JOIN LATERAL (SELECT COALESCE(pg_catalog.max(d.at), c.created_at) AS since
	FROM @extschema@.notify_decision AS d
	WHERE d.claim OPERATOR(pg_catalog.=) c.id
	AND d.verb::pg_catalog.text OPERATOR(pg_catalog.=) 'REOPEN'::pg_catalog.text) AS s
LEFT JOIN @extschema@.notify_body AS b ON b.claim OPERATOR(pg_catalog.=) c.id
LEFT JOIN @extschema@.notify_event AS e
	ON e.event_type::pg_catalog.text OPERATOR(pg_catalog.=) pg_catalog.regexp_replace(c.biz_key, '^.*:', '')
WHERE c.claim_state::pg_catalog.text OPERATOR(pg_catalog.=) 'PARKED'::pg_catalog.text
ORDER BY c.id;
COMMENT ON VIEW @extschema@.notify_parked IS
'Events that came too early and wait for their order, the longest parked first.';
COMMENT ON COLUMN @extschema@.notify_parked.claim IS 'claim in notify_claim, for notify_parked_close()';
COMMENT ON COLUMN @extschema@.notify_parked.channel IS 'channel that delivered the notification';
COMMENT ON COLUMN @extschema@.notify_parked.channel_txn_id IS 'channel''s transaction id';
COMMENT ON COLUMN @extschema@.notify_parked.event_type IS 'event type';
COMMENT ON COLUMN @extschema@.notify_parked.machine IS 'machine of the event';
COMMENT ON COLUMN @extschema@.notify_parked.order_no IS 'order number';
COMMENT ON COLUMN @extschema@.notify_parked.parked_at IS 'status of the order when the event came';
COMMENT ON COLUMN @extschema@.notify_parked.awaits IS 'statuses in which the event is legal';
COMMENT ON COLUMN @extschema@.notify_parked.since IS 'when the event came, or was last reopened';
COMMENT ON COLUMN @extschema@.notify_parked.age IS 'how long it has been parked';
COMMENT ON COLUMN @extschema@.notify_parked.expires IS 'when it is given up';
COMMENT ON COLUMN @extschema@.notify_parked.attempts IS 'how often releasing it failed';
COMMENT ON COLUMN @extschema@.notify_parked.last_error IS 'error of the last time';

--
-- Every session's cache hears of a change.  By row, and always: logical
-- replication fires no statement triggers for what it applies.
--

CREATE FUNCTION @extschema@.notify_definition_changed()
RETURNS trigger
AS 'MODULE_PATHNAME', 'notify_claim_definition_changed'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_definition_changed() IS
'Trigger function of notify_machine, notify_event, notify_transition and notify_channel: tells every session to read them again.';

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

CREATE TRIGGER notify_channel_changing
	BEFORE INSERT OR UPDATE OR DELETE ON @extschema@.notify_channel
	FOR EACH ROW EXECUTE FUNCTION @extschema@.notify_definition_changed();
CREATE TRIGGER notify_channel_changed
	AFTER INSERT OR UPDATE OR DELETE ON @extschema@.notify_channel
	FOR EACH ROW EXECUTE FUNCTION @extschema@.notify_definition_changed();
CREATE TRIGGER notify_channel_truncated
	AFTER TRUNCATE ON @extschema@.notify_channel
	FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.notify_definition_changed();
ALTER TABLE @extschema@.notify_channel
	ENABLE ALWAYS TRIGGER notify_channel_changing, ENABLE ALWAYS TRIGGER notify_channel_changed, ENABLE ALWAYS TRIGGER notify_channel_truncated;
COMMENT ON TRIGGER notify_channel_changing ON @extschema@.notify_channel IS 'tells every session to read the table again, also if the statement fails';
COMMENT ON TRIGGER notify_channel_changed ON @extschema@.notify_channel IS 'tells every session to read the table again';
COMMENT ON TRIGGER notify_channel_truncated ON @extschema@.notify_channel IS 'tells every session to read the table again';

CREATE FUNCTION @extschema@.notify_rule_is_immutable()
RETURNS trigger
AS 'MODULE_PATHNAME', 'notify_claim_rule_is_immutable'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_rule_is_immutable() IS
'Trigger function of notify_digest_rule: refuses to change or delete what claims were made by.';

CREATE TRIGGER notify_digest_rule_immutable
	BEFORE UPDATE OR DELETE OR TRUNCATE ON @extschema@.notify_digest_rule
	FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.notify_rule_is_immutable();
COMMENT ON TRIGGER notify_digest_rule_immutable ON @extschema@.notify_digest_rule IS 'claims are compared under the rule that they were made by';

--
-- Consuming the outbox
--

CREATE FUNCTION @extschema@.notify_outbox_lease(
	consumer text, max integer DEFAULT 100, lease interval DEFAULT '30 seconds',
	OUT token uuid, OUT seq bigint, OUT id uuid, OUT aggregatetype text, OUT aggregateid text,
	OUT type text, OUT payload jsonb, OUT created_at timestamptz, OUT attempt integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'notify_claim_outbox_lease'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 100;
COMMENT ON FUNCTION @extschema@.notify_outbox_lease(text, integer, interval) IS
'Leases messages of the outbox to a consumer, in order for each order; call as SELECT * FROM notify_outbox_lease(...), COMMIT, publish them, then call notify_outbox_ack().';

CREATE FUNCTION @extschema@.notify_outbox_ack(token uuid, seqs bigint[])
RETURNS bigint[]
AS 'MODULE_PATHNAME', 'notify_claim_outbox_ack'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_outbox_ack(uuid, bigint[]) IS
'Removes leased messages that were published, and returns the numbers of those that are done with; {} once the lease is lost.';

CREATE FUNCTION @extschema@.notify_outbox_nack(token uuid, seq bigint, reason text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME', 'notify_claim_outbox_nack'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_outbox_nack(uuid, bigint, text) IS
'Says that a leased message could not be published: it is leased again after a pause, or becomes a dead letter. Gives back the later messages of its order. False once the lease is lost.';

CREATE FUNCTION @extschema@.notify_outbox_extend(token uuid, lease interval DEFAULT '30 seconds')
RETURNS boolean
AS 'MODULE_PATHNAME', 'notify_claim_outbox_extend'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_outbox_extend(uuid, interval) IS
'Makes a lease last from now on for the time given. False once it is lost, or nothing of it is outstanding.';

CREATE FUNCTION @extschema@.notify_outbox_release(token uuid)
RETURNS integer
AS 'MODULE_PATHNAME', 'notify_claim_outbox_release'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_outbox_release(uuid) IS
'Gives back what is outstanding of a lease, without counting it as an attempt, and returns how many messages that were.';

CREATE FUNCTION @extschema@.notify_outbox_redrive(seq bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_outbox_redrive'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_outbox_redrive(bigint) IS
'Puts a dead letter back into the outbox, in its order''s place and with all its attempts ahead.';

CREATE FUNCTION @extschema@.notify_outbox_dead_purge(older_than interval)
RETURNS bigint
AS 'MODULE_PATHNAME', 'notify_claim_outbox_dead_purge'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_outbox_dead_purge(interval) IS
'Removes dead letters that were given up longer ago, for good, and returns how many; messages that waited behind them wait no longer.';

--
-- Statistics
--

CREATE FUNCTION @extschema@.notify_stat_calls(
	OUT channel text, OUT event_type text, OUT received bigint,
	OUT applied bigint, OUT skipped bigint, OUT parked bigint, OUT early bigint, OUT conflict bigint, OUT rejected bigint,
	OUT busy bigint, OUT no_order bigint, OUT no_rule bigint, OUT replayed bigint,
	OUT rolled_back bigint, OUT conflict_rolled_back bigint, OUT over_budget bigint,
	OUT total_ms double precision, OUT min_ms double precision, OUT max_ms double precision,
	OUT p50 double precision, OUT p95 double precision, OUT p99 double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'notify_claim_stat_calls'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 20;
COMMENT ON FUNCTION @extschema@.notify_stat_calls() IS
'What the view notify_stat shows.';

CREATE FUNCTION @extschema@.notify_stat_rates(
	OUT channel text, OUT minutes integer, OUT received bigint, OUT replayed bigint, OUT conflicts bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'notify_claim_stat_rates'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 60;
COMMENT ON FUNCTION @extschema@.notify_stat_rates() IS
'The calls of the last 1, 5 and 15 minutes, for each channel and event type. Use the view notify_rate.';

CREATE FUNCTION @extschema@.notify_stat_since()
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'notify_claim_stat_since'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_stat_since() IS
'Since when calls are counted; NULL: they are not, add notify_claim to shared_preload_libraries and restart the server.';

CREATE FUNCTION @extschema@.notify_stat_reset()
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'notify_claim_stat_reset'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_stat_reset() IS
'Sets the statistics of this database to zero, and returns since when they count.';

CREATE VIEW @extschema@.notify_stat AS
SELECT s.channel COLLATE "C" AS channel, s.event_type COLLATE "C" AS event_type, s.received,
	   s.applied, s.skipped, s.parked, s.early, s.conflict, s.rejected, s.busy, s.no_order, s.no_rule, s.replayed,
	   s.rolled_back, s.conflict_rolled_back, s.over_budget, s.total_ms, s.min_ms, s.max_ms, s.p50, s.p95, s.p99
FROM @extschema@.notify_stat_calls() AS s
ORDER BY 1, 2;
COMMENT ON VIEW @extschema@.notify_stat IS
'Calls of handle_notify() by channel and event type. A call counts once, when its transaction commits: under its outcome, or under replayed alone.';
COMMENT ON COLUMN @extschema@.notify_stat.channel IS 'channel; NULL: calls whose channel is not declared or was not given, and those that found no room (notify_claim.max_stat_entries)';
COMMENT ON COLUMN @extschema@.notify_stat.event_type IS 'event type; NULL: those that are not declared, or found no room';
COMMENT ON COLUMN @extschema@.notify_stat.received IS 'calls that were committed; the sum of applied to replayed';
COMMENT ON COLUMN @extschema@.notify_stat.applied IS 'answered APPLIED';
COMMENT ON COLUMN @extschema@.notify_stat.skipped IS 'answered SKIPPED';
COMMENT ON COLUMN @extschema@.notify_stat.parked IS 'answered PARKED';
COMMENT ON COLUMN @extschema@.notify_stat.early IS 'answered EARLY';
COMMENT ON COLUMN @extschema@.notify_stat.conflict IS 'answered CONFLICT';
COMMENT ON COLUMN @extschema@.notify_stat.rejected IS 'answered REJECTED';
COMMENT ON COLUMN @extschema@.notify_stat.busy IS 'answered BUSY';
COMMENT ON COLUMN @extschema@.notify_stat.no_order IS 'answered NO_ORDER';
COMMENT ON COLUMN @extschema@.notify_stat.no_rule IS 'answered NO_RULE';
COMMENT ON COLUMN @extschema@.notify_stat.replayed IS 'answered with the first answer, whatever that was';
COMMENT ON COLUMN @extschema@.notify_stat.rolled_back IS 'calls that raised an error, or were rolled back, also to a savepoint; they count nowhere else';
COMMENT ON COLUMN @extschema@.notify_stat.conflict_rolled_back IS 'of these, calls that had been answered CONFLICT or REJECTED: their reviews are lost. The application must commit whatever the answer is';
COMMENT ON COLUMN @extschema@.notify_stat.over_budget IS 'committed calls that took longer than notify_claim.budget';
COMMENT ON COLUMN @extschema@.notify_stat.total_ms IS 'time that committed calls took, in milliseconds; it ends before COMMIT';
COMMENT ON COLUMN @extschema@.notify_stat.min_ms IS 'time of the shortest call, in milliseconds; NULL: there was none';
COMMENT ON COLUMN @extschema@.notify_stat.max_ms IS 'time of the longest call, in milliseconds; NULL: there was none';
COMMENT ON COLUMN @extschema@.notify_stat.p50 IS 'half of the calls took at most so long, in milliseconds, to a quarter; NULL: there was none';
COMMENT ON COLUMN @extschema@.notify_stat.p95 IS '95 % of the calls took at most so long, in milliseconds, to a quarter; NULL: there was none';
COMMENT ON COLUMN @extschema@.notify_stat.p99 IS '99 % of the calls took at most so long, in milliseconds, to a quarter; NULL: there was none';

CREATE VIEW @extschema@.notify_rate AS
WITH r AS MATERIALIZED (
	SELECT k.* FROM @extschema@.notify_stat_rates() AS k
), c (channel) AS (
	SELECT d.channel::pg_catalog.text COLLATE "C" FROM @extschema@.notify_channel AS d
	UNION SELECT 'default'::pg_catalog.text COLLATE "C"
	UNION SELECT r.channel COLLATE "C" FROM r WHERE r.channel IS NOT NULL OR r.received OPERATOR(pg_catalog.>) 0
), s AS (
	SELECT c.channel, w.minutes, @extschema@.notify_stat_since() IS NOT NULL AS counted,
		   COALESCE(pg_catalog.sum(r.received), 0)::pg_catalog.int8 AS received,
		   COALESCE(pg_catalog.sum(r.replayed), 0)::pg_catalog.int8 AS replayed,
		   COALESCE(pg_catalog.sum(r.conflicts), 0)::pg_catalog.int8 AS conflicts
	FROM c CROSS JOIN (VALUES (1), (5), (15)) AS w (minutes)
	LEFT JOIN r ON r.minutes OPERATOR(pg_catalog.=) w.minutes
		AND (r.channel COLLATE "C" OPERATOR(pg_catalog.=) c.channel OR (r.channel IS NULL AND c.channel IS NULL))
	GROUP BY c.channel, w.minutes
)
SELECT s.channel, s.minutes,
	   CASE WHEN s.counted THEN s.received END AS received,
	   CASE WHEN s.counted THEN s.replayed END AS replayed,
	   CASE WHEN s.counted THEN COALESCE(s.replayed::pg_catalog.float8 OPERATOR(pg_catalog./)
										 NULLIF(s.received, 0)::pg_catalog.float8, 0) END AS ratio,
	   CASE WHEN s.counted THEN s.conflicts END AS conflicts
FROM s
ORDER BY s.channel, s.minutes;
COMMENT ON VIEW @extschema@.notify_rate IS
'Calls of handle_notify() that were committed in the last 1, 5 and 15 minutes, for each channel. All NULL: they are not counted, add notify_claim to shared_preload_libraries and restart the server.';
COMMENT ON COLUMN @extschema@.notify_rate.channel IS 'channel; NULL: calls that found no room in the statistics (notify_claim.max_stat_entries)';
COMMENT ON COLUMN @extschema@.notify_rate.minutes IS 'how many minutes back, and up to ten seconds more';
COMMENT ON COLUMN @extschema@.notify_rate.received IS 'calls';
COMMENT ON COLUMN @extschema@.notify_rate.replayed IS 'of these, how many were answered with the first answer';
COMMENT ON COLUMN @extschema@.notify_rate.ratio IS 'replayed in relation to received; 0 where nothing was received';
COMMENT ON COLUMN @extschema@.notify_rate.conflicts IS 'of the calls, how many were answered CONFLICT';

CREATE VIEW @extschema@.notify_health AS
WITH parked AS (
	SELECT pg_catalog.count(*) AS n,
		   pg_catalog.min(COALESCE(d.reopened, c.created_at)) AS since
	FROM @extschema@.notify_claim AS c
	LEFT JOIN LATERAL (SELECT pg_catalog.max(e.at) AS reopened
					   FROM @extschema@.notify_decision AS e
					   WHERE e.claim OPERATOR(pg_catalog.=) c.id
					   AND e.verb::pg_catalog.text OPERATOR(pg_catalog.=) 'REOPEN'::pg_catalog.text) AS d ON true
	WHERE c.claim_state::pg_catalog.text OPERATOR(pg_catalog.=) 'PARKED'::pg_catalog.text
), reviews AS (
	SELECT pg_catalog.count(*) AS n, pg_catalog.min(r.first_seen) AS since
	FROM @extschema@.notify_review AS r
	WHERE r.state::pg_catalog.text OPERATOR(pg_catalog.=) 'OPEN'::pg_catalog.text
), skipped AS (
	SELECT pg_catalog.count(*) AS n
	FROM @extschema@.notify_claim AS c
	WHERE c.outcome::pg_catalog.text OPERATOR(pg_catalog.=) 'SKIPPED'::pg_catalog.text
	AND c.created_at OPERATOR(pg_catalog.>) (pg_catalog.statement_timestamp() OPERATOR(pg_catalog.-) '1 hour'::pg_catalog.interval)
), heads AS (
	SELECT d.aggregatetype, d.aggregateid, pg_catalog.min(d.seq) AS seq
	FROM @extschema@.notify_outbox_dead AS d WHERE d.blocks
	GROUP BY d.aggregatetype, d.aggregateid
), messages AS (
	SELECT pg_catalog.count(*) AS n,
		   pg_catalog.min(m.created_at) FILTER (WHERE h.seq IS NULL OR m.seq OPERATOR(pg_catalog.<) h.seq) AS since
	FROM @extschema@.notify_outbox AS m
	LEFT JOIN heads AS h ON h.aggregateid OPERATOR(pg_catalog.=) m.aggregateid
		AND h.aggregatetype OPERATOR(pg_catalog.=) m.aggregatetype
), dead AS (
	SELECT pg_catalog.count(*) AS n FROM @extschema@.notify_outbox_dead
), blocked AS (
	SELECT pg_catalog.count(*) AS n
	FROM heads AS h
	WHERE EXISTS (SELECT FROM @extschema@.notify_outbox AS m
				  WHERE m.aggregateid OPERATOR(pg_catalog.=) h.aggregateid
				  AND m.aggregatetype OPERATOR(pg_catalog.=) h.aggregatetype
				  AND m.seq OPERATOR(pg_catalog.>) h.seq)
), lost AS (
	SELECT pg_catalog.sum(s.conflict_rolled_back)::pg_catalog.int8 AS n FROM @extschema@.notify_stat AS s
), replays AS (
	SELECT COALESCE(pg_catalog.sum(r.replayed)::pg_catalog.float8 OPERATOR(pg_catalog./)
					NULLIF(pg_catalog.sum(r.received), 0)::pg_catalog.float8, 0) AS ratio
	FROM @extschema@.notify_rate AS r
	WHERE r.minutes OPERATOR(pg_catalog.=) 5
)
SELECT parked.n AS parked, COALESCE(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) parked.since, '0'::pg_catalog.interval) AS parked_age,
	   reviews.n AS reviews_open, COALESCE(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) reviews.since, '0'::pg_catalog.interval) AS review_age,
	   CASE WHEN counted.since IS NOT NULL THEN COALESCE(lost.n, 0) END AS conflicts_rolled_back,
	   skipped.n AS skipped_last_hour,
	   messages.n AS outbox_depth, COALESCE(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) messages.since, '0'::pg_catalog.interval) AS outbox_age,
	   dead.n AS dead_letters, blocked.n AS orders_blocked,
	   CASE WHEN counted.since IS NOT NULL THEN replays.ratio END AS replay_ratio,
	   counted.since AS counted_since
FROM parked, reviews, skipped, messages, dead, blocked, lost, replays,
	 @extschema@.notify_stat_since() AS counted (since);
COMMENT ON VIEW @extschema@.notify_health IS
'One row for a pager. Ages are zero where there is nothing; NULL is what only the statistics know where they are off. Reads all of notify_outbox.';
COMMENT ON COLUMN @extschema@.notify_health.parked IS 'events that wait to become legal, see notify_parked';
COMMENT ON COLUMN @extschema@.notify_health.parked_age IS 'how long the oldest of them has waited';
COMMENT ON COLUMN @extschema@.notify_health.reviews_open IS 'reviews that wait for a person, see notify_review_open';
COMMENT ON COLUMN @extschema@.notify_health.review_age IS 'how long the oldest of them has waited';
COMMENT ON COLUMN @extschema@.notify_health.conflicts_rolled_back IS 'calls answered CONFLICT or REJECTED whose transaction was rolled back, so that their review is lost; since counted_since';
COMMENT ON COLUMN @extschema@.notify_health.skipped_last_hour IS 'notifications of the last hour that were skipped';
COMMENT ON COLUMN @extschema@.notify_health.outbox_depth IS 'messages in the outbox, those in hand included';
COMMENT ON COLUMN @extschema@.notify_health.outbox_age IS 'age of the oldest of them, without those that wait behind a dead letter';
COMMENT ON COLUMN @extschema@.notify_health.dead_letters IS 'messages that were given up, see notify_outbox_dead';
COMMENT ON COLUMN @extschema@.notify_health.orders_blocked IS 'orders with messages that wait behind a dead letter';
COMMENT ON COLUMN @extschema@.notify_health.replay_ratio IS 'part of the last five minutes'' calls that was answered with the first answer';
COMMENT ON COLUMN @extschema@.notify_health.counted_since IS 'since when calls are counted; NULL: they are not, add notify_claim to shared_preload_libraries and restart the server';

--
-- What happened to an order
--

-- Runs as the owner of the tables. Its body was parsed once: no search_path matters.
CREATE FUNCTION @extschema@.notify_history(
	order_no text,
	OUT at timestamptz, OUT channel text, OUT channel_txn_id text, OUT event_type text, OUT outcome text, OUT reason text,
	OUT from_status text, OUT to_status text, OUT review_state text, OUT parked_state text, OUT error text,
	OUT message_id uuid, OUT message_state text)
RETURNS SETOF record
LANGUAGE sql STABLE CALLED ON NULL INPUT SECURITY DEFINER PARALLEL UNSAFE ROWS 20
BEGIN ATOMIC
	WITH claims AS (
		SELECT c.* FROM @extschema@.notify_claim AS c
		WHERE c.order_no::pg_catalog.text OPERATOR(pg_catalog.=) $1
	), reviews AS (
		SELECT r.* FROM @extschema@.notify_review AS r
		WHERE r.id OPERATOR(pg_catalog.=) ANY (ARRAY(
			SELECT k.id FROM @extschema@.notify_review AS k WHERE k.order_no::pg_catalog.text OPERATOR(pg_catalog.=) $1
			UNION SELECT k.id FROM @extschema@.notify_review AS k
			WHERE k.claim OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT c.id FROM claims AS c))
			UNION SELECT v.review FROM @extschema@.notify_review_variant AS v
			WHERE v.order_no::pg_catalog.text OPERATOR(pg_catalog.=) $1))
	), variants AS (
		-- Of a review those that are about the order; the first also says how often it came.
		SELECT v.*, c.order_no AS claimed, pg_catalog.row_number() OVER (PARTITION BY v.review ORDER BY v.first_seen, v.payload_hash) AS n,
			   r.kind, r.channel, r.biz_key, r.state, r.variants, r.hits, r.last_seen,
			   CASE WHEN v.payload_hash OPERATOR(pg_catalog.=) r.payload_hash AND v.digest_mode OPERATOR(pg_catalog.=) r.digest_mode
						 AND v.order_no OPERATOR(pg_catalog.=) r.order_no THEN r.reason END AS reason
		FROM reviews AS r JOIN @extschema@.notify_review_variant AS v ON v.review OPERATOR(pg_catalog.=) r.id
		LEFT JOIN @extschema@.notify_claim AS c ON c.id OPERATOR(pg_catalog.=) r.claim
		WHERE v.order_no::pg_catalog.text OPERATOR(pg_catalog.=) $1 OR c.order_no::pg_catalog.text OPERATOR(pg_catalog.=) $1
	), decisions AS (
		SELECT d.* FROM @extschema@.notify_decision AS d
		WHERE d.id OPERATOR(pg_catalog.=) ANY (ARRAY(
			SELECT k.id FROM @extschema@.notify_decision AS k
			WHERE k.review OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT r.id FROM reviews AS r))
			UNION SELECT k.id FROM @extschema@.notify_decision AS k
			WHERE k.claim OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT c.id FROM claims AS c))))
	), messages AS (
		SELECT o.id, o.aggregatetype, o.aggregateid, o.type, o.payload, o.created_at,
			   CASE WHEN EXISTS (SELECT FROM @extschema@.notify_outbox_leased AS l
								 WHERE l.partition OPERATOR(pg_catalog.=)
									(pg_catalog.hashtext(o.aggregateid::pg_catalog.text) OPERATOR(pg_catalog.&) 31)
								 AND o.seq OPERATOR(pg_catalog.=) ANY (l.seqs)
								 AND l.leased_until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp())
					THEN 'leased' ELSE 'waiting' END AS state,
			   (SELECT a.attempts FROM @extschema@.notify_outbox_attempt AS a WHERE a.seq OPERATOR(pg_catalog.=) o.seq) AS attempts,
			   (SELECT a.last_error FROM @extschema@.notify_outbox_attempt AS a WHERE a.seq OPERATOR(pg_catalog.=) o.seq) AS last_error,
			   NULL::pg_catalog.timestamptz AS dead_at, NULL::pg_catalog.text AS died
		FROM @extschema@.notify_outbox AS o
		WHERE o.aggregateid::pg_catalog.text OPERATOR(pg_catalog.=)
			ANY (ARRAY(SELECT $1 UNION SELECT r.id::pg_catalog.text FROM reviews AS r))
		AND CASE WHEN o.aggregatetype::pg_catalog.text OPERATOR(pg_catalog.=) 'notify_review'
			THEN o.aggregateid::pg_catalog.text OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT r.id::pg_catalog.text FROM reviews AS r))
			ELSE o.aggregateid::pg_catalog.text OPERATOR(pg_catalog.=) $1 END
		UNION ALL
		SELECT d.id, d.aggregatetype, d.aggregateid, d.type, d.payload, d.created_at, 'dead', d.attempts, d.last_error,
			   d.dead_at, pg_catalog.lower(d.reason::pg_catalog.text)
		FROM @extschema@.notify_outbox_dead AS d
		WHERE d.aggregateid::pg_catalog.text OPERATOR(pg_catalog.=)
			ANY (ARRAY(SELECT $1 UNION SELECT r.id::pg_catalog.text FROM reviews AS r))
		AND CASE WHEN d.aggregatetype::pg_catalog.text OPERATOR(pg_catalog.=) 'notify_review'
			THEN d.aggregateid::pg_catalog.text OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT r.id::pg_catalog.text FROM reviews AS r))
			ELSE d.aggregateid::pg_catalog.text OPERATOR(pg_catalog.=) $1 END
	), facts (at, kind, id, channel, biz_key, outcome, reason, from_status, to_status,
			  review_state, parked_state, attempts, error, message_id, message_state) AS (
		SELECT c.created_at, 1, c.id, c.channel, c.biz_key, c.outcome,
			   COALESCE(c.result_json OPERATOR(pg_catalog.->>) 'reason', c.result_json OPERATOR(pg_catalog.->>) 'rejected'),
			   COALESCE(c.result_json OPERATOR(pg_catalog.->>) 'from', c.result_json OPERATOR(pg_catalog.->>) 'skipped',
						c.result_json OPERATOR(pg_catalog.->>) 'parked'),
			   c.result_json OPERATOR(pg_catalog.->>) 'status',
			   NULL,
			   CASE WHEN c.claim_state::pg_catalog.text OPERATOR(pg_catalog.=) 'PARKED' THEN 'waiting' END,
			   b.attempts, b.last_error, c.message_id, CASE WHEN c.message_id IS NOT NULL THEN 'gone' END
		FROM claims AS c
		LEFT JOIN @extschema@.notify_body AS b ON b.claim OPERATOR(pg_catalog.=) c.id
			AND c.claim_state::pg_catalog.text OPERATOR(pg_catalog.=) 'PARKED'
		UNION ALL
		SELECT v.first_seen, 2, v.review, v.channel, v.biz_key,
			   CASE v.kind::pg_catalog.text WHEN 'PAYLOAD_CONFLICT' THEN 'CONFLICT' WHEN 'CHECK_REFUSED' THEN 'REJECTED'
			   ELSE 'EXPIRED' END,
			   NULLIF(pg_catalog.concat_ws('; ',
				   CASE WHEN v.kind::pg_catalog.text OPERATOR(pg_catalog.<>) 'PAYLOAD_CONFLICT' THEN v.reason
						WHEN v.claimed OPERATOR(pg_catalog.<>) v.order_no
						THEN pg_catalog.format('other order number: %s, the first one was %s', v.order_no, v.claimed)
						ELSE 'other content under a known key' END,
				   CASE WHEN v.n OPERATOR(pg_catalog.=) 1 AND v.hits OPERATOR(pg_catalog.>) v.variants
						THEN pg_catalog.format('%s deliveries, the last at %s', v.hits, v.last_seen) END), ''),
			   NULL, NULL, pg_catalog.lower(v.state::pg_catalog.text), NULL, NULL, NULL, m.id,
			   CASE WHEN v.n OPERATOR(pg_catalog.=) 1 THEN COALESCE(m.state, 'gone') END
		FROM variants AS v
		LEFT JOIN messages AS m ON v.n OPERATOR(pg_catalog.=) 1 AND m.aggregatetype::pg_catalog.text OPERATOR(pg_catalog.=) 'notify_review'
			AND m.aggregateid::pg_catalog.text OPERATOR(pg_catalog.=) v.review::pg_catalog.text
		UNION ALL
		SELECT r.resolved_at, 3, r.id, r.channel, r.biz_key, r.state, NULL, NULL, NULL,
			   pg_catalog.lower(r.state::pg_catalog.text), NULL, NULL, NULL, NULL, NULL
		FROM reviews AS r
		WHERE r.state::pg_catalog.text OPERATOR(pg_catalog.=) 'OVERTAKEN'
		UNION ALL
		SELECT d.at, 4, d.id, COALESCE(r.channel, c.channel), COALESCE(r.biz_key, c.biz_key),
			   d.verb, pg_catalog.format('%s: %s', d.who, d.note),
			   NULL, NULL, pg_catalog.lower(r.state::pg_catalog.text), NULL, NULL, NULL, NULL, NULL
		FROM decisions AS d
		LEFT JOIN reviews AS r ON r.id OPERATOR(pg_catalog.=) d.review
		LEFT JOIN claims AS c ON c.id OPERATOR(pg_catalog.=) d.claim
		UNION ALL
		-- Messages whose claim is gone, and those that were given up.
		SELECT m.created_at, 5, 0, m.payload OPERATOR(pg_catalog.->>) 'channel', m.payload OPERATOR(pg_catalog.->>) 'biz_key',
			   'MESSAGE', m.type, m.payload OPERATOR(pg_catalog.->>) 'from', m.payload OPERATOR(pg_catalog.->>) 'to',
			   NULL, NULL, NULL, NULL, m.id, m.state
		FROM messages AS m
		WHERE m.aggregatetype::pg_catalog.text OPERATOR(pg_catalog.<>) 'notify_review'
		AND NOT EXISTS (SELECT FROM claims AS c WHERE c.message_id OPERATOR(pg_catalog.=) m.id)
		UNION ALL
		SELECT m.dead_at, 6, 0, m.payload OPERATOR(pg_catalog.->>) 'channel', m.payload OPERATOR(pg_catalog.->>) 'biz_key',
			   'DEAD_LETTER', m.died, NULL, NULL, NULL, NULL, NULL, NULL, m.id, m.state
		FROM messages AS m
		WHERE m.dead_at IS NOT NULL
	)
	SELECT f.at, f.channel, pg_catalog.regexp_replace(f.biz_key, ':[^:]*$', ''),
		   pg_catalog.regexp_replace(f.biz_key, '^.*:', ''), f.outcome, f.reason, f.from_status, f.to_status,
		   f.review_state, f.parked_state,
		   COALESCE(CASE WHEN f.attempts OPERATOR(pg_catalog.>) 0 THEN pg_catalog.format('attempt %s: %s', f.attempts, f.error) END,
					CASE WHEN m.attempts OPERATOR(pg_catalog.>) 0 THEN pg_catalog.format('attempt %s: %s', m.attempts, m.last_error) END),
		   f.message_id, COALESCE(m.state, f.message_state)
	FROM facts AS f LEFT JOIN messages AS m ON m.id OPERATOR(pg_catalog.=) f.message_id
	ORDER BY f.at, f.kind, f.id;
END;
COMMENT ON FUNCTION @extschema@.notify_history(text) IS
'Everything on record about an order, one line for each fact, oldest first: notifications with what became of them and of their messages (waiting, leased, dead, or gone: acknowledged or purged), conflicts and refusals, what people decided, and dead letters. Takes the order number in the order table''s own spelling.';

--
-- Retention
--

CREATE PROCEDURE @extschema@.notify_purge(
	older_than interval DEFAULT NULL, batch integer DEFAULT 1000, channel text DEFAULT NULL,
	force boolean DEFAULT false, outbox_older_than interval DEFAULT NULL,
	INOUT claims bigint DEFAULT NULL, INOUT messages bigint DEFAULT NULL)
AS 'MODULE_PATHNAME', 'notify_claim_purge'
LANGUAGE C;
COMMENT ON PROCEDURE @extschema@.notify_purge(interval, integer, text, boolean, interval, bigint, bigint) IS
'Deletes the claims that are older than their channel retains them, or than older_than, with all that is about them, in batches that are committed, and tells how many. Not parked ones, nor those under review or decided about lately. outbox_older_than: also messages of that age.';

CREATE PROCEDURE @extschema@.notify_maintenance(
	INOUT applied bigint DEFAULT NULL, INOUT claims bigint DEFAULT NULL)
AS 'MODULE_PATHNAME', 'notify_claim_maintenance'
LANGUAGE C;
COMMENT ON PROCEDURE @extschema@.notify_maintenance(bigint, bigint) IS
'What is to be done regularly: notify_unpark_all(), which also gives up what has been parked for too long, and notify_purge(). Tells how many parked events were applied and how many claims deleted.';

CREATE FUNCTION @extschema@.notify_import(
	source regclass, txn_column name, order_column name,
	event_type text DEFAULT NULL, event_column name DEFAULT NULL, time_column name DEFAULT NULL,
	channel text DEFAULT 'default', dry_run boolean DEFAULT false,
	OUT read bigint, OUT imported bigint, OUT known bigint, OUT refused bigint, OUT examples text[])
RETURNS record
AS 'MODULE_PATHNAME', 'notify_claim_import'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_import(regclass, name, name, text, name, name, text, boolean) IS
'Takes over what a hand-made table or view says was processed: the channel''s transaction id, the event type (one for all, or a column), the order number, and when. Its repeats are answered SUCCESS from then on, whatever their content. Tells how many rows were read, imported, known already and refused, with examples of these; dry_run writes nothing.';

--
-- Privileges
--

CREATE FUNCTION @extschema@.notify_grant(role name, privileges text)
RETURNS void
AS 'MODULE_PATHNAME', 'notify_claim_grant'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.notify_grant(name, text) IS
'Grants a role the narrow set of privileges for its duty: app may call handle_notify(), reviewer may read and decide reviews and parked events, relay may consume the outbox and its dead letters, monitor may read the statistics. The order table''s own privileges are yours to grant.';

-- The trigger function of order tables stays executable by PUBLIC: who attaches a
-- partition to one needs it.
REVOKE ALL ON TABLE
	@extschema@.notify_machine, @extschema@.notify_event, @extschema@.notify_transition,
	@extschema@.notify_digest_rule, @extschema@.notify_channel,
	@extschema@.notify_claim, @extschema@.notify_outbox, @extschema@.notify_outbox_partition,
	@extschema@.notify_outbox_leased, @extschema@.notify_outbox_held, @extschema@.notify_outbox_attempt,
	@extschema@.notify_outbox_dead, @extschema@.notify_body,
	@extschema@.notify_review, @extschema@.notify_review_variant, @extschema@.notify_decision,
	@extschema@.notify_purge_mark, @extschema@.notify_purge_kept,
	@extschema@.notify_review_open, @extschema@.notify_parked,
	@extschema@.notify_stat, @extschema@.notify_rate, @extschema@.notify_health
FROM PUBLIC;
REVOKE ALL ON SEQUENCE
	@extschema@.notify_digest_rule_id_seq, @extschema@.notify_claim_id_seq, @extschema@.notify_outbox_seq_seq,
	@extschema@.notify_review_id_seq, @extschema@.notify_decision_id_seq
FROM PUBLIC;
REVOKE ALL ON FUNCTION
	@extschema@.handle_notify(text, text, text, bytea, text, jsonb),
	@extschema@.handle_notify(text, text, text, text, text, jsonb),
	@extschema@.notify_machine_add(regclass, text, text, text, boolean),
	@extschema@.notify_machine_set(text, regclass, text, text),
	@extschema@.notify_machine_drop(text),
	@extschema@.notify_machine_check(text),
	@extschema@.notify_event_add(text, text, text, text, text, text, interval),
	@extschema@.notify_event_set(text, text, text, text, text, interval),
	@extschema@.notify_event_drop(text),
	@extschema@.notify_transition_add(text, text, text, text, text),
	@extschema@.notify_transition_drop(text, text, text, text),
	@extschema@.notify_channel_add(text, text, text, text[], integer, text, integer, text, integer, boolean, interval, text, text),
	@extschema@.notify_channel_set(text, text, text, text[], integer, text, integer, text, integer, boolean, interval, text, text),
	@extschema@.notify_channel_drop(text),
	@extschema@.notify_digest(text, bytea),
	@extschema@.notify_digest(text, text),
	@extschema@.notify_unpark(text, text),
	@extschema@.notify_unpark_all(integer),
	@extschema@.notify_parked_close(bigint, text),
	@extschema@.notify_reopen(bigint, text, bytea, jsonb),
	@extschema@.notify_review_diff(bigint),
	@extschema@.notify_review_resolve(bigint, text, text, text),
	@extschema@.notify_outbox_lease(text, integer, interval),
	@extschema@.notify_outbox_ack(uuid, bigint[]),
	@extschema@.notify_outbox_nack(uuid, bigint, text),
	@extschema@.notify_outbox_extend(uuid, interval),
	@extschema@.notify_outbox_release(uuid),
	@extschema@.notify_outbox_redrive(bigint),
	@extschema@.notify_outbox_dead_purge(interval),
	@extschema@.notify_stat_calls(),
	@extschema@.notify_stat_rates(),
	@extschema@.notify_stat_since(),
	@extschema@.notify_stat_reset(),
	@extschema@.notify_history(text),
	@extschema@.notify_import(regclass, name, name, text, name, name, text, boolean),
	@extschema@.notify_definition_changed(),
	@extschema@.notify_rule_is_immutable(),
	@extschema@.notify_grant(name, text)
FROM PUBLIC;
REVOKE ALL ON PROCEDURE
	@extschema@.notify_purge(interval, integer, text, boolean, interval, bigint, bigint),
	@extschema@.notify_maintenance(bigint, bigint)
FROM PUBLIC;

-- What monitoring needs, nothing of any order; also in notify_grant(role, 'monitor').
GRANT SELECT ON TABLE
	@extschema@.notify_stat, @extschema@.notify_rate, @extschema@.notify_health
TO pg_monitor;
GRANT EXECUTE ON FUNCTION
	@extschema@.notify_stat_calls(), @extschema@.notify_stat_rates(), @extschema@.notify_stat_since()
TO pg_monitor;
