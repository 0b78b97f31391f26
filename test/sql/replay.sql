-- A repeat is answered with the first answer, and costs nothing.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add(NULL, 'PAID', 'SHIPPED');
SELECT notify_event_add('push', message_type => 'PUSHED');
SELECT notify_event_add('quiet');
INSERT INTO biz_order VALUES ('A1', 'PENDING'), ('Ä2 "x"', 'SHIPPED');

-- case 1: twenty calls, one effect
CREATE TEMP TABLE answer AS
SELECT n, a.* FROM generate_series(1, 20) AS n, LATERAL handle_notify('T1', 'PAY', 'A1', 'body '::bytea || repeat('x', n * 0)::bytea) AS a;
SELECT count(*) FILTER (WHERE NOT replayed) AS first, count(*) FILTER (WHERE replayed) AS replays,
       count(DISTINCT (status, outcome, result, first_seen, ack_status, ack_body)) AS answers
FROM answer;
SELECT count(*) FROM notify_claim;
SELECT count(*) FROM notify_outbox;
SELECT * FROM biz_order ORDER BY order_no COLLATE "C";

-- case 14: field by field, with nulls and text that is not ASCII, for each kind of answer that is kept
CREATE TEMP TABLE given (step int, kind text, answer jsonb);
DO $$
DECLARE
	notice text[];
BEGIN
	FOREACH notice SLICE 1 IN ARRAY ARRAY[['T2', 'PAY', 'Ä2 "x"'], ['T3', 'push', 'größe 货'], ['T4', 'quiet', '-']]
	LOOP
		FOR step IN 1..3 LOOP
			INSERT INTO given SELECT step, notice[2], to_jsonb(a) FROM handle_notify(notice[1], notice[2], notice[3], 'b') AS a;
		END LOOP;
	END LOOP;
END $$;
SELECT kind, min(answer ->> 'status') AS status, min(answer ->> 'outcome') AS outcome, min((answer -> 'result')::text) AS result,
       array_agg(answer -> 'replayed' ORDER BY step) AS replayed, count(DISTINCT answer - 'replayed') AS different
FROM given GROUP BY kind ORDER BY kind;

-- what happens to the order later does not matter
UPDATE biz_order SET status = 'SHIPPED' WHERE order_no = 'A1';
SELECT outcome, result, replayed FROM handle_notify('T1', 'PAY', 'A1', 'body ');
DELETE FROM biz_order WHERE order_no = 'A1';
SELECT outcome, result, replayed FROM handle_notify('T1', 'PAY', 'A1', 'body ');
SELECT notify_transition_drop('PAY', 'PENDING', 'PAID');
SELECT notify_event_drop('PAY');
SELECT outcome, result, replayed FROM handle_notify('T1', 'PAY', 'A1', 'body ');
SELECT notify_machine_drop('biz_order');
DROP TABLE biz_order;
SELECT outcome, result, replayed FROM handle_notify('T1', 'PAY', 'A1', 'body ');

-- a replay draws no transaction id and no sequence value
BEGIN;
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', 'A1', 'body ');
SELECT pg_current_xact_id_if_assigned();
COMMIT;
SELECT last_value FROM notify_claim_id_seq;
SELECT last_value FROM notify_outbox_seq_seq;

-- nor does it write any WAL: on its second run, for with checksums a first read may log a page
CREATE FUNCTION wal_of(stmt text, OUT records bigint, OUT bytes bigint) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, WAL, FORMAT JSON) ' || stmt INTO plan;
	records := plan -> 0 -> 'Plan' -> 'WAL Records';
	bytes := plan -> 0 -> 'Plan' -> 'WAL Bytes';
END $$;
SELECT records > 0 AS first_writes FROM wal_of($$SELECT * FROM handle_notify('T9', 'push', 'P', 'b')$$);
SELECT 'first replay' AS run FROM wal_of($$SELECT * FROM handle_notify('T9', 'push', 'P', 'b')$$);
SELECT * FROM wal_of($$SELECT * FROM handle_notify('T9', 'push', 'P', 'b')$$);

-- a replay is answered in a read-only transaction too; anything new is not
BEGIN READ ONLY;
SELECT outcome, replayed FROM handle_notify('T9', 'push', 'P', 'b');
\set VERBOSITY sqlstate
SELECT outcome, replayed FROM handle_notify('T10', 'push', 'P', 'b');
\set VERBOSITY default
ROLLBACK;

DROP FUNCTION wal_of;
DROP EXTENSION notify_claim CASCADE;
