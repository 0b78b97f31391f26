-- notify_maintenance(): what is parked, then what is old enough, in one call for cron.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE biz_order (order_no int PRIMARY KEY, status text);
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 260) AS n;
CREATE TABLE poison (order_no text, sqlstate text);
CREATE FUNCTION act(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	state text := (SELECT p.sqlstate FROM public.poison AS p WHERE p.order_no = $1);
BEGIN
	IF state IS NOT NULL THEN
		RAISE 'poison' USING errcode = state;
	END IF;
END $$;
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID');
SELECT notify_transition_add('SHIP', 'PAID', 'SHIPPED');
SELECT notify_event_add('push');
SELECT notify_event_set('SHIP', action_function => 'act');
CREATE VIEW state AS SELECT split_part(biz_key, ':', 2) AS event, claim_state, outcome, result_json ->> 'reason' AS reason, count(*)
FROM notify_claim GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

SELECT attempt($$CALL notify_maintenance()$$);
BEGIN;
CALL notify_maintenance();
ROLLBACK;
CALL notify_maintenance();

-- parked, and what the trigger has not seen; one for longer than it may be; one that has not become legal; and old claims
SELECT count(handle_notify('S' || n, 'SHIP', n::text, 'b'::bytea)) FROM generate_series(1, 255) AS n;
SELECT count(handle_notify('P' || n, 'push', '1', 'b'::bytea)) FROM generate_series(1, 30) AS n;
ALTER TABLE biz_order DISABLE TRIGGER USER;
UPDATE biz_order SET status = 'PAID' WHERE order_no <= 250;
ALTER TABLE biz_order ENABLE TRIGGER USER;
UPDATE notify_claim SET created_at = now() - interval '36 days' WHERE biz_key IN ('S251:SHIP', 'P1:push', 'P2:push');
CREATE TABLE moved (xid xid8 DEFAULT pg_current_xact_id());
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.moved DEFAULT VALUES; RETURN NULL; END $$;
CREATE TRIGGER note AFTER UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION note();
TABLE state;
CALL notify_maintenance();
TABLE state;
SELECT kind, biz_key, state FROM notify_review;
-- some orders in each transaction
SELECT count(*) AS transactions, max(n) AS largest FROM (SELECT count(*) AS n FROM moved GROUP BY xid) AS t;
SELECT biz_key FROM notify_purge_kept JOIN notify_claim ON id = claim;
CALL notify_maintenance();

-- an error that is for the caller keeps nothing else from being done, no other order either, and is raised in the end
TRUNCATE moved;
INSERT INTO poison VALUES ('252', '53100');
ALTER TABLE biz_order DISABLE TRIGGER USER;
UPDATE biz_order SET status = 'PAID' WHERE order_no BETWEEN 252 AND 253;
ALTER TABLE biz_order ENABLE TRIGGER USER;
UPDATE notify_claim SET created_at = now() - interval '36 days' WHERE biz_key IN ('P3:push', 'P4:push');
\set VERBOSITY terse
CALL notify_maintenance();
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
TABLE state;
-- the session is as it was before
SELECT current_user = session_user AS same, current_setting('transaction_isolation'), current_setting('lock_timeout') = '0' AS no_timeout;
-- any other error is kept beside the event
UPDATE poison SET sqlstate = 'P0001';
CALL notify_maintenance();
TABLE state;
SELECT order_no, attempts, last_error FROM notify_parked WHERE attempts > 0;
DELETE FROM poison;
CALL notify_maintenance();
TABLE state;

-- for whoever was granted EXECUTE; the orders are moved as their table's owner
CREATE ROLE regress_notify_cron;
SET ROLE regress_notify_cron;
CALL notify_maintenance();
RESET ROLE;
GRANT EXECUTE ON PROCEDURE notify_maintenance(bigint, bigint) TO regress_notify_cron;
ALTER TABLE biz_order DISABLE TRIGGER USER;
UPDATE biz_order SET status = 'PAID' WHERE order_no = 254;
ALTER TABLE biz_order ENABLE TRIGGER USER;
UPDATE notify_claim SET created_at = now() - interval '36 days' WHERE biz_key = 'P5:push';
SET ROLE regress_notify_cron;
CALL notify_maintenance();
SELECT current_user;
RESET ROLE;

DROP OWNED BY regress_notify_cron;
DROP ROLE regress_notify_cron;
DROP VIEW state;
DROP TABLE biz_order, poison, moved;
DROP FUNCTION act, note, attempt;
DROP EXTENSION notify_claim CASCADE;
