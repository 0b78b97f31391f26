-- Key and status columns of any type, tables of any shape and name.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;

-- Walks one order of a table through PENDING -> PAID with the given spellings, and tells how it went.
CREATE FUNCTION walk(tab regclass, key_column text, status_column text, ord text, respelled text,
                     from_status text DEFAULT 'PENDING', to_status text DEFAULT 'PAID') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	m text := 'm' || tab::oid;
	a record; b record; c record; d record; claimed text; message record;
BEGIN
	PERFORM notify_machine_add(tab, key_column, status_column, machine => m);
	PERFORM notify_transition_add(m, from_status, to_status, message_type => 'PAID', machine => m);
	SELECT * INTO a FROM handle_notify('T', m, respelled, 'b');
	SELECT * INTO b FROM handle_notify('T', m, respelled, 'b');
	SELECT * INTO c FROM handle_notify('T', m, ord, 'b');
	SELECT * INTO d FROM handle_notify('T2', m, ord, 'b');
	SELECT order_no INTO claimed FROM notify_claim WHERE biz_key = 'T:' || m;
	SELECT aggregateid, payload INTO message FROM notify_outbox WHERE aggregatetype = m;
	RETURN concat_ws(' | ', a.outcome, a.result, b.replayed, c.replayed, d.result, claimed, message.aggregateid, message.payload ->> 'order_no');
END $$;

-- key types; the order number is kept in the key column's own spelling
CREATE TABLE k_text (k text PRIMARY KEY, s text);
INSERT INTO k_text VALUES ('A 1', 'PENDING');
SELECT walk('k_text', 'k', 's', 'A 1', 'A 1');
CREATE TABLE k_varchar (k varchar(20) PRIMARY KEY, s text);
INSERT INTO k_varchar VALUES ('A1', 'PENDING');
SELECT walk('k_varchar', 'k', 's', 'A1', 'A1');
CREATE TABLE k_char (k char(8) PRIMARY KEY, s text);
INSERT INTO k_char VALUES ('A1', 'PENDING');
SELECT walk('k_char', 'k', 's', 'A1', 'A1  ');
CREATE TABLE k_bigint (k bigint PRIMARY KEY, s text);
INSERT INTO k_bigint VALUES (42, 'PENDING');
SELECT walk('k_bigint', 'k', 's', '42', '0042');
CREATE TABLE k_smallint (k smallint PRIMARY KEY, s text);
INSERT INTO k_smallint VALUES (42, 'PENDING');
SELECT walk('k_smallint', 'k', 's', '42', ' 42');
CREATE TABLE k_uuid (k uuid PRIMARY KEY, s text);
INSERT INTO k_uuid VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'PENDING');
SELECT walk('k_uuid', 'k', 's', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{A0EEBC999C0B4EF8BB6D6BB9BD380A11}');
CREATE TABLE k_numeric (k numeric PRIMARY KEY, s text);
INSERT INTO k_numeric VALUES (1.50, 'PENDING');
SELECT walk('k_numeric', 'k', 's', '1.50', '1.5');
CREATE TABLE k_date (k date PRIMARY KEY, s text);
INSERT INTO k_date VALUES ('2026-02-01', 'PENDING');
SELECT walk('k_date', 'k', 's', '2026-02-01', '20260201');
SET datestyle = 'German';
SELECT outcome, replayed FROM handle_notify('T', 'm' || 'k_date'::regclass::oid, '01.02.2026', 'b');
RESET datestyle;
CREATE DOMAIN order_number AS bigint CHECK (VALUE > 0);
CREATE TABLE k_domain (k order_number PRIMARY KEY, s text);
INSERT INTO k_domain VALUES (7, 'PENDING');
SELECT walk('k_domain', 'k', 's', '7', '07');
CREATE TYPE branch AS ENUM ('north', 'south');
CREATE TABLE k_enum (k branch PRIMARY KEY, s text);
INSERT INTO k_enum VALUES ('south', 'PENDING');
SELECT walk('k_enum', 'k', 's', 'south', 'south');
-- the index's operator class and collation are the index's business
CREATE TABLE k_pattern (k text NOT NULL, s text);
CREATE UNIQUE INDEX ON k_pattern (k text_pattern_ops);
INSERT INTO k_pattern VALUES ('A1', 'PENDING');
SELECT walk('k_pattern', 'k', 's', 'A1', 'A1');
CREATE TABLE k_collated (k text NOT NULL COLLATE "C", s text);
CREATE UNIQUE INDEX ON k_collated (k COLLATE "POSIX") INCLUDE (s);
INSERT INTO k_collated VALUES ('A1', 'PENDING');
SELECT walk('k_collated', 'k', 's', 'A1', 'A1');
-- what the key's type refuses is bad input also where the claim is known
SELECT outcome FROM handle_notify('T', 'm' || 'k_bigint'::regclass::oid, 'forty-two', 'b');
SELECT outcome FROM handle_notify('N', 'm' || 'k_domain'::regclass::oid, '-1', 'b');
SELECT outcome FROM handle_notify('N', 'm' || 'k_varchar'::regclass::oid, 'longer than twenty characters', 'b');

-- a limit that would make another order number of it refuses it
CREATE TABLE k_limited (k numeric(10,0) PRIMARY KEY, s text);
INSERT INTO k_limited VALUES (42, 'PENDING'), (43, 'PENDING');
SELECT walk('k_limited', 'k', 's', '42', '42.0');
SELECT outcome FROM handle_notify('N', 'm' || 'k_limited'::regclass::oid, '42.6', 'b');
SELECT outcome FROM handle_notify('N', 'm' || 'k_varchar'::regclass::oid, 'A1' || repeat(' ', 30), 'b');
CREATE DOMAIN limited AS numeric(4,1);
CREATE TABLE k_limited_domain (k limited PRIMARY KEY, s text);
INSERT INTO k_limited_domain VALUES (1.3, 'PENDING');
SELECT walk('k_limited_domain', 'k', 's', '1.3', '1.30');
SELECT outcome FROM handle_notify('N', 'm' || 'k_limited_domain'::regclass::oid, '1.26', 'b');
SELECT * FROM k_limited UNION ALL SELECT * FROM k_limited_domain ORDER BY k;
-- one spelling, whatever the session's settings
CREATE TABLE k_bytea (k bytea PRIMARY KEY, s text);
INSERT INTO k_bytea VALUES ('\x0102', 'PENDING');
SET bytea_output = escape;
SELECT walk('k_bytea', 'k', 's', '\x0102', '\001\002');
RESET bytea_output;
CREATE TABLE k_time (k timestamptz PRIMARY KEY, s text);
INSERT INTO k_time VALUES ('2026-02-01 00:00+00', 'PENDING');
SET timezone = 'Asia/Shanghai';
SELECT walk('k_time', 'k', 's', '2026-02-01 00:00:00+00', '2026-02-01 08:00');
RESET timezone;

-- status types
CREATE TABLE s_varchar (k int PRIMARY KEY, s varchar(10));
INSERT INTO s_varchar VALUES (1, 'PENDING');
SELECT walk('s_varchar', 'k', 's', '1', '1');
CREATE TABLE s_char (k int PRIMARY KEY, s char(10));
INSERT INTO s_char VALUES (1, 'PENDING');
SELECT walk('s_char', 'k', 's', '1', '1');
CREATE TYPE order_status AS ENUM ('PENDING', 'PAID', 'SHIPPED');
CREATE TABLE s_enum (k int PRIMARY KEY, s order_status);
INSERT INTO s_enum VALUES (1, 'PENDING');
SELECT walk('s_enum', 'k', 's', '1', '1');
CREATE TABLE s_integer (k int PRIMARY KEY, s integer);
INSERT INTO s_integer VALUES (1, 10);
SELECT walk('s_integer', 'k', 's', '1', '1', '010', '020');
SELECT from_status, to_status FROM notify_transition WHERE machine = 'm' || 's_integer'::regclass::oid;
CREATE DOMAIN status_code AS text CHECK (VALUE ~ '^[A-Z]+$');
CREATE TABLE s_domain (k int PRIMARY KEY, s status_code);
INSERT INTO s_domain VALUES (1, 'PENDING');
SELECT walk('s_domain', 'k', 's', '1', '1');
-- statuses that the type does not know are refused when the transition is declared
SELECT notify_transition_add('x', 'PAID', 'SENT', machine => 'm' || 's_enum'::regclass::oid);
SELECT notify_transition_add('x', 'paid', 'SENT', machine => 'm' || 's_domain'::regclass::oid);
SELECT notify_transition_add('x', 'PAID', 'MUCH TOO LONG', machine => 'm' || 's_varchar'::regclass::oid);
SELECT notify_transition_add('x', 'one', '2', machine => 'm' || 's_integer'::regclass::oid);
SELECT count(*) FROM notify_event WHERE event_type = 'x';
-- what the column takes for one status is one; a step is dropped by the words that declared it
CREATE TABLE s_numeric (k int PRIMARY KEY, s numeric);
SELECT notify_machine_add('s_numeric', 'k', 's', machine => 'numeric');
SELECT notify_transition_add('n', '1', '2', machine => 'numeric');
SELECT notify_transition_add('n', '1.0', '3', machine => 'numeric');
SELECT notify_transition_add('n', '01.50', '02', machine => 'numeric');
SELECT from_status, to_status FROM notify_transition WHERE machine = 'numeric' ORDER BY 1;
SELECT notify_transition_drop('n', '01.50', '02', machine => 'numeric');
SELECT from_status, to_status FROM notify_transition WHERE machine = 'numeric' ORDER BY 1;

-- names that need quoting, a schema of its own, columns that have names of keywords, of the table and of its alias
CREATE SCHEMA "Sch""ema";
CREATE TABLE "Sch""ema"."Order" ("Order" text PRIMARY KEY, "select" text, o text, "sta tus; --" text);
INSERT INTO "Sch""ema"."Order" VALUES ('A1', 'x', 'PENDING', 'PENDING');
SELECT notify_machine_add('"Sch""ema"."Order"', 'Order', 'sta tus; --');
SELECT notify_transition_add('quoted', 'PENDING', 'PAID', message_type => 'm', machine => 'Order');
SELECT outcome, result FROM handle_notify('Q', 'quoted', 'A1', 'b');
SELECT notify_machine_add('"Sch""ema"."Order"', 'Order', 'o', machine => '"o''');
SELECT notify_transition_add('"o''', 'PENDING', 'PAID', message_type => 'm', machine => '"o''');
SELECT outcome, result FROM handle_notify('Q', '"o''', 'A1', 'b');
TABLE "Sch""ema"."Order";
SELECT machine, order_table_name FROM notify_machine WHERE machine IN ('Order', '"o''') ORDER BY 1;

-- partitioned by key; partitioned by time, where no unique index covers exactly the key
CREATE TABLE p_key (k bigint PRIMARY KEY, s text) PARTITION BY HASH (k);
CREATE TABLE p_key0 PARTITION OF p_key FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p_key1 PARTITION OF p_key FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO p_key SELECT n, 'PENDING' FROM generate_series(1, 10) AS n;
SELECT walk('p_key', 'k', 's', '5', '05');
SELECT k, s FROM p_key WHERE s <> 'PENDING';
CREATE TABLE p_time (k bigint, at date, s text, PRIMARY KEY (k, at)) PARTITION BY RANGE (at);
CREATE TABLE p_time_1 PARTITION OF p_time FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE p_time_2 PARTITION OF p_time FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
INSERT INTO p_time VALUES (1, '2026-01-10', 'PENDING'), (2, '2026-02-10', 'PENDING'), (3, '2026-01-10', 'PENDING'), (3, '2026-02-10', 'PENDING');
SELECT walk('p_time', 'k', 's', '2', '02');
\set VERBOSITY sqlstate
SELECT outcome FROM handle_notify('two', 'm' || 'p_time'::regclass::oid, '3', 'b');
\set VERBOSITY default
SELECT count(*) FROM notify_claim WHERE biz_key LIKE 'two:%';
SELECT * FROM p_time ORDER BY k, at;
SELECT outcome FROM handle_notify('none', 'm' || 'p_time'::regclass::oid, '99', 'b');
-- the same in a plain table: no index, one that is partial, one that is checked at commit
CREATE TABLE no_index (k bigint, s text);
INSERT INTO no_index VALUES (1, 'PENDING'), (2, 'PENDING'), (2, 'PENDING');
SELECT walk('no_index', 'k', 's', '1', '1');
CREATE TABLE partial (k bigint, s text);
CREATE UNIQUE INDEX ON partial (k) WHERE s = 'PENDING';
INSERT INTO partial VALUES (1, 'PENDING'), (1, 'CLOSED');
SELECT walk('partial', 'k', 's', '1', '1');
CREATE TABLE deferred (k bigint UNIQUE DEFERRABLE INITIALLY DEFERRED, s text);
BEGIN;
INSERT INTO deferred VALUES (1, 'PENDING'), (1, 'PENDING');
SELECT walk('deferred', 'k', 's', '1', '1');
ROLLBACK;
-- a status that is part of a unique index
CREATE TABLE unique_status (k bigint PRIMARY KEY, s text UNIQUE);
INSERT INTO unique_status VALUES (1, 'PENDING');
SELECT walk('unique_status', 'k', 's', '1', '1');
INSERT INTO unique_status VALUES (2, 'PENDING');
SELECT outcome FROM handle_notify('T3', 'm' || 'unique_status'::regclass::oid, '2', 'b');
SELECT count(*) FROM notify_claim WHERE biz_key LIKE 'T3:%';
-- two partitions of a table are order tables of their own
SELECT walk('p_key1', 'k', 's', (SELECT min(k) FROM p_key1 WHERE s = 'PENDING')::text, (SELECT min(k) FROM p_key1 WHERE s = 'PENDING')::text) LIKE 'APPLIED%' AS applied;

SET client_min_messages = error;
DROP EXTENSION notify_claim CASCADE;
DROP SCHEMA "Sch""ema" CASCADE;
DROP TABLE k_text, k_varchar, k_char, k_bigint, k_smallint, k_uuid, k_numeric, k_date, k_domain, k_enum, k_pattern, k_collated, k_limited, k_limited_domain, k_bytea, k_time, s_numeric,
	s_varchar, s_char, s_enum, s_integer, s_domain, p_key, p_time, no_index, partial, deferred, unique_status;
DROP DOMAIN order_number, status_code, limited;
DROP TYPE branch, order_status;
DROP FUNCTION walk;
