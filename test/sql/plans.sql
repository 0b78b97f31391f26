-- A session that began over empty tables, vacuumed and analyzed, keeps to its indexes while they grow.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no int PRIMARY KEY, status text) WITH (autovacuum_enabled = off);
ALTER TABLE notify_claim SET (autovacuum_enabled = off);
ALTER TABLE notify_outbox SET (autovacuum_enabled = off);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
VACUUM (ANALYZE) biz_order, notify_claim, notify_outbox, notify_event, notify_machine, notify_transition;
SELECT relname, relpages, reltuples FROM pg_class WHERE relname IN ('biz_order', 'notify_claim', 'notify_outbox') ORDER BY 1;

-- a session's counters are flushed when a statement has ended
CREATE VIEW scans AS
SELECT max(seq_scan) FILTER (WHERE relname = 'notify_claim') AS claims,
       max(seq_scan) FILTER (WHERE relname = 'biz_order') AS orders,
       max(seq_scan) FILTER (WHERE relname = 'notify_outbox') AS messages,
       sum(idx_scan) FILTER (WHERE relname IN ('notify_claim', 'biz_order')) AS indexed
FROM pg_stat_user_tables;

-- the plans are made now, over nothing
SELECT outcome FROM handle_notify('T0', 'PAY', '0', 'b');
DELETE FROM notify_claim;
INSERT INTO biz_order VALUES (0, 'PENDING');
SELECT outcome FROM handle_notify('T0', 'PAY', '0', 'b');
DELETE FROM notify_claim;
DELETE FROM notify_outbox;
DELETE FROM biz_order;
VACUUM (ANALYZE) biz_order, notify_claim, notify_outbox;
INSERT INTO biz_order VALUES (0, 'PENDING');
SELECT outcome FROM handle_notify('T0', 'PAY', '0', 'b');
-- and the tables grow without anybody telling the planner
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 100000) AS n;
INSERT INTO notify_claim (channel, biz_key, order_no, payload_hash, digest_mode, outcome, created_at)
SELECT 'default', 'X' || n || ':PAY', n, repeat('0', 64), 'raw', 'APPLIED', now() FROM generate_series(1, 100000) AS n;
INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
SELECT gen_random_uuid(), 'biz_order', n, 'ORDER_PAID', '{}', now() FROM generate_series(1, 100000) AS n;
SELECT pg_stat_force_next_flush();
SELECT * FROM scans \gset before_
SELECT count(*) FILTER (WHERE outcome = 'APPLIED' AND NOT replayed) AS applied
FROM generate_series(1, 100) AS n, LATERAL handle_notify('T' || n, 'PAY', n::text, 'b');
SELECT count(*) FILTER (WHERE outcome = 'APPLIED' AND replayed) AS replayed
FROM generate_series(1, 100) AS n, LATERAL handle_notify('T' || n, 'PAY', n::text, 'b');
SELECT count(*) FILTER (WHERE outcome = 'NO_ORDER') AS no_order
FROM generate_series(1, 10) AS n, LATERAL handle_notify('N' || n, 'PAY', (-n)::text, 'b');
SELECT pg_stat_force_next_flush();
SELECT claims - :before_claims AS claims, orders - :before_orders AS orders, messages - :before_messages AS messages,
       indexed - :before_indexed > 210 AS indexed FROM scans;

-- an index with a collation of its own serves as well
CREATE TABLE collated (k text NOT NULL COLLATE "C", s text);
CREATE UNIQUE INDEX ON collated (k COLLATE "POSIX");
INSERT INTO collated VALUES ('A', 'PENDING');
SELECT notify_machine_add('collated', 'k', 's');
SELECT notify_transition_add('PAY2', 'PENDING', 'PAID', machine => 'collated');
SELECT outcome FROM handle_notify('T', 'PAY2', 'A', 'b');
SELECT pg_stat_force_next_flush();
SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'collated';

-- a user's trigger is planned as usual
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXPLAIN (COSTS OFF) SELECT * FROM notify_outbox LOOP RAISE WARNING '%', line; END LOOP;
	RETURN NEW;
END $$;
CREATE TRIGGER look BEFORE UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION look();
SELECT outcome FROM handle_notify('T200', 'PAY', '200', 'b');

-- nor does a setting of the session's that forbids index scans make a plan that stays
SELECT pg_stat_force_next_flush();
SELECT * FROM scans \gset before_
DISCARD PLANS;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
DROP TRIGGER look ON biz_order;
SELECT outcome FROM handle_notify('T300', 'PAY', '300', 'b');
RESET enable_indexscan;
RESET enable_indexonlyscan;
SELECT outcome FROM handle_notify('T301', 'PAY', '301', 'b');
SELECT pg_stat_force_next_flush();
SELECT claims - :before_claims AS claims, orders - :before_orders AS orders FROM scans;

-- a session that asks for custom plans gets right answers all the same
SET plan_cache_mode = force_custom_plan;
SELECT outcome, replayed FROM handle_notify('T200', 'PAY', '200', 'b');
RESET plan_cache_mode;

DROP VIEW scans;
DROP TABLE biz_order, collated;
DROP FUNCTION look;
DROP EXTENSION notify_claim CASCADE;
