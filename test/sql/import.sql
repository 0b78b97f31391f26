-- Coming from a hand-made table: notify_import().
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE biz_order (order_no bigint PRIMARY KEY, status text);
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 50) AS n;
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('REFUND', 'PAID', 'REFUNDED');
SELECT notify_event_add('push', message_type => 'PUSHED');
SELECT notify_channel_add('json', digest => 'json', retain => '1 year', keep_body => true);
CREATE SCHEMA "Old Shop";
CREATE TABLE "Old Shop"."Processed ""Log""" ("Txn" text, kind varchar(20), "order" bigint, "At" timestamp);
INSERT INTO "Old Shop"."Processed ""Log""" VALUES
	('T3', 'PAY', 3, '2026-01-03'), ('T1', 'PAY', 1, '2026-01-01'), ('T2', 'PAY', 2, '2026-01-02'), ('T2', 'REFUND', 2, NULL);
\set log '\'"Old Shop"."Processed ""Log"""\', \'Txn\', \'order\''

-- arguments
SELECT attempt($$SELECT notify_import(NULL, 'a', 'b', 'PAY')$$);
SELECT attempt($$SELECT notify_import('biz_order', NULL, 'b', 'PAY')$$);
SELECT attempt($$SELECT notify_import('biz_order', 'a', NULL, 'PAY')$$);
SELECT attempt($$SELECT notify_import('biz_order', 'a', 'b')$$);
SELECT attempt($$SELECT notify_import('biz_order', 'a', 'b', 'PAY', 'c')$$);
SELECT attempt($$SELECT notify_import('biz_order', 'a', 'b', 'PAY', dry_run => NULL)$$);
SELECT attempt($$SELECT notify_import('biz_order', 'a', 'b', 'PAY', channel => NULL)$$);
SELECT attempt($$SELECT notify_import('biz_order', 'a', 'b', 'PAY', channel => 'none')$$);
SELECT attempt($$SELECT notify_import('biz_order', 'a', 'order_no', 'PAY')$$);
SELECT attempt($$SELECT notify_import('biz_order', 'order_no); DROP TABLE biz_order; --', 'order_no', 'PAY')$$);
SELECT attempt($$SELECT notify_import('none', 'a', 'b', 'PAY')$$);
SELECT attempt($$SELECT notify_import(1::regclass, 'a', 'b', 'PAY')$$);
SELECT attempt($$SELECT notify_import('biz_order', 'order_no', 'order_no', 'PAY', time_column => 'status')$$);

-- a dry run tells the same and writes nothing
SELECT * FROM notify_import(:log, event_column => 'kind', time_column => 'At', dry_run => true);
SELECT count(*) FROM notify_claim;
SELECT * FROM notify_import(:log, event_column => 'kind', time_column => 'At');
SELECT id, channel, biz_key, order_no, payload_hash = repeat('0', 64) AS unknown, digest_rule, digest_mode, claim_state, outcome, result_json, message_id,
       CASE WHEN created_at > now() - interval '1 hour' THEN 'now' ELSE created_at::date::text END AS created_at
FROM notify_claim ORDER BY id;
-- and again
SELECT * FROM notify_import(:log, event_column => 'kind', time_column => 'At', dry_run => true);
SELECT * FROM notify_import(:log, event_column => 'kind', time_column => 'At');
SELECT count(*) FROM notify_claim;

-- a repeat replays, whatever it brings, and nothing is done or filled in
SELECT status, outcome, result, replayed, first_seen::date, ack_body FROM handle_notify('T1', 'PAY', '1', 'anything'::bytea);
SELECT status, outcome, result, replayed FROM handle_notify('T1', 'PAY', '01', 'something else'::bytea, data => '{"a": 1}');
SELECT payload_hash = repeat('0', 64) AS unknown, digest_mode FROM notify_claim WHERE biz_key = 'T1:PAY';
SELECT status FROM biz_order WHERE order_no = 1;
SELECT count(*) FROM notify_outbox;
-- for another order it conflicts
SELECT status, outcome, replayed FROM handle_notify('T1', 'PAY', '2', 'anything'::bytea);
SELECT kind, order_no, first_hash = repeat('0', 64) AS unknown, digest_mode, hits, state FROM notify_review;
SELECT * FROM notify_review_diff(1);
SELECT notify_review_resolve(1, 'DISMISS', 'same');
SELECT status, outcome, replayed FROM handle_notify('T1', 'PAY', '2', 'anything'::bytea);
-- what was not imported is new
SELECT outcome, replayed FROM handle_notify('T9', 'PAY', '9', 'anything'::bytea);
-- it is not processed again by hand, and support sees what it is
SELECT attempt($$SELECT notify_reopen(id, 'test') FROM notify_claim WHERE biz_key = 'T1:PAY'$$);
SELECT at::date, channel_txn_id, event_type, outcome, reason, from_status, to_status, message_state FROM notify_history('3');
-- one event for all, in a channel that compares by a rule and keeps bodies
SELECT * FROM notify_import(:log, 'push', channel => 'json');
SELECT biz_key, digest_rule, digest_mode FROM notify_claim WHERE channel = 'json' ORDER BY biz_key;
SELECT outcome, replayed FROM handle_notify('T1', 'push', '1', '{"a": 1}'::bytea, 'json');
SELECT outcome, replayed FROM handle_notify('T1', 'push', '1', 'no JSON'::bytea, 'json');
SELECT count(*) FROM notify_body;
SELECT attempt($$SELECT notify_channel_add('x', digest => 'none')$$);

--
-- What is refused, repeated, or known
--
CREATE TABLE bad (n int, t text, e text, o text, at timestamptz);
INSERT INTO bad VALUES (1, NULL, 'PAY', '1'), (2, 'a', NULL, '1'), (3, 'a', 'PAY', NULL), (4, '', 'PAY', '1'), (5, 'a', ' ', '1'), (6, 'a', 'PAY', E'\t'),
	(7, 'a', 'PAY:X', '1'), (8, repeat('ä', 157), 'PAY', '1'), (9, 'a', 'PAY', repeat('ä', 65));
INSERT INTO bad VALUES (10, repeat('ä', 156), 'PAY', repeat('ä', 64)), (13, 'T1', 'PAY', '1'), (15, 'a', 'TYPO', '1');
INSERT INTO bad VALUES (11, 'twice', 'PAY', '1', '2026-02-01'), (12, 'twice', 'PAY', '2', '2026-01-01'), (14, 'a:b', 'PAY', '1', now() + interval '1 year');
SET client_min_messages = notice;
SELECT read, imported, known, refused FROM notify_import('bad', 't', 'o', event_column => 'e', time_column => 'at', dry_run => true);
SELECT read, imported, known, refused FROM notify_import('bad', 't', 'o', event_column => 'e', time_column => 'at');
SELECT e.example FROM notify_import('bad', 't', 'o', event_column => 'e', time_column => 'at'), unnest(examples) AS e (example) ORDER BY e.example COLLATE "C";
SELECT read, imported, known, refused, examples[1] FROM notify_import('bad', 't', 'o', 'NOBODY', dry_run => true);
SET client_min_messages = warning;
-- the first of two in time; none in the future
SELECT biz_key, order_no, created_at <= clock_timestamp() AS past FROM notify_claim WHERE biz_key IN ('twice:PAY', 'a:b:PAY') ORDER BY 1;
-- no more examples than are read
INSERT INTO bad SELECT n FROM generate_series(100, 200) AS n;
SELECT read, refused, cardinality(examples) FROM notify_import('bad', 't', 'o', event_column => 'e');

--
-- Many, in the order of their time; from a view; kept by retention
--
CREATE TABLE many AS SELECT n, now() - interval '1 hour' * n AS at FROM generate_series(1, 3500) AS n;
CREATE VIEW part AS SELECT 'M' || n AS t, n % 50 + 1 AS o, at FROM many WHERE n <= 2500;
SELECT read, imported, known, refused FROM notify_import('part', 't', 'o', 'push', time_column => 'at', dry_run => true);
SELECT read, imported, known, refused FROM notify_import('part', 't', 'o', 'push', time_column => 'at');
SELECT count(*), bool_and(created_at >= before) AS in_order
FROM (SELECT created_at, lag(created_at, 1, created_at) OVER (ORDER BY id) AS before FROM notify_claim WHERE biz_key LIKE 'M%') AS c;
SELECT count(*) FROM notify_claim WHERE biz_key LIKE 'M%' AND created_at < now() - interval '35 days';
DELETE FROM notify_claim WHERE biz_key NOT LIKE 'M%';
CALL notify_purge();
SELECT count(*) FROM notify_claim;

--
-- Memory stays flat
--
CREATE TABLE memory (n int, bytes bigint);
CREATE FUNCTION look(n int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF n % 5000 = 0 THEN
		INSERT INTO memory SELECT n, sum(total_bytes) FROM pg_backend_memory_contexts;
	END IF;
	RETURN 'L' || n;
END $$;
CREATE VIEW looked_at AS SELECT look(n) AS t, 1 AS o, 'push' || n % 2 AS e FROM generate_series(1, 30000) AS n;
SELECT imported FROM notify_import('looked_at', 't', 'o', event_column => 'e');
SELECT count(*), max(bytes) - min(bytes) < 500000 AS flat FROM memory;
DELETE FROM memory;
CREATE FUNCTION look_each() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO memory SELECT 1, sum(total_bytes) FROM pg_backend_memory_contexts;
	RETURN NULL;
END $$;
CREATE TRIGGER look AFTER DELETE ON notify_claim EXECUTE FUNCTION look_each();
CALL notify_purge('1 microsecond', batch => 100, force => true);
DROP TRIGGER look ON notify_claim;
SELECT count(*) > 300 AS batches, max(bytes) - min(bytes) < 500000 AS flat FROM memory;

--
-- Read as the caller
--
CREATE ROLE regress_notify_import;
CREATE TABLE theirs (t text, o text);
INSERT INTO theirs VALUES ('seen', '1'), ('hidden', '1');
ALTER TABLE theirs ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON theirs USING (t = 'seen');
CREATE SCHEMA hostile AUTHORIZATION regress_notify_import;
SET ROLE regress_notify_import;
SELECT attempt($$SELECT imported FROM notify_import('theirs', 't', 'o', 'push')$$);
RESET ROLE;
GRANT EXECUTE ON FUNCTION notify_import(regclass, name, name, text, name, name, text, boolean) TO regress_notify_import;
SET ROLE regress_notify_import;
SELECT attempt($$SELECT imported FROM notify_import('theirs', 't', 'o', 'push')$$);
RESET ROLE;
GRANT SELECT ON theirs TO regress_notify_import;
SET ROLE regress_notify_import;
-- a view of the caller's runs as the caller
CREATE FUNCTION hostile.who() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT current_user::text $$;
CREATE VIEW hostile.v AS SELECT t || ' ' || hostile.who() AS t, o FROM theirs;
SELECT attempt($$SELECT imported FROM notify_import('theirs', 't', 'o', 'push')$$);
SELECT attempt($$SELECT imported FROM notify_import('hostile.v', 't', 'o', 'push')$$);
SELECT attempt($$SELECT count(*) FROM notify_claim$$);
SELECT current_user;
RESET ROLE;
SELECT biz_key FROM notify_claim WHERE biz_key ~ 'seen|hidden' ORDER BY 1;
-- all of it is undone with the caller's transaction
BEGIN;
SELECT imported FROM notify_import('theirs', 't', 'o', 'push');
ROLLBACK;
SELECT count(*) FROM notify_claim WHERE biz_key ~ 'hidden';

DROP SCHEMA hostile CASCADE;
DROP TABLE theirs;
DROP OWNED BY regress_notify_import;
DROP ROLE regress_notify_import;
DROP VIEW part, looked_at;
DROP FUNCTION look, look_each;
DROP TABLE memory, many, bad, biz_order;
DROP SCHEMA "Old Shop" CASCADE;
DROP FUNCTION attempt;
DROP EXTENSION notify_claim CASCADE;
