-- Savepoints and exception blocks: no phantom claim (promise 6).
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no int PRIMARY KEY, status text);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_event_add('push', message_type => 'PUSHED');
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 9) AS n;
CREATE VIEW kept AS
SELECT (SELECT count(*) FROM notify_claim) AS claims, (SELECT count(*) FROM notify_outbox WHERE aggregatetype <> 'notify_review') AS messages,
       (SELECT count(*) FROM biz_order WHERE status = 'PAID') AS paid;

-- rolled back as a whole
BEGIN;
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
SELECT outcome, replayed FROM handle_notify('T1', 'push', '1', 'b');
ROLLBACK;
TABLE kept;

-- to a savepoint: the next delivery in the same transaction is the first
BEGIN;
SAVEPOINT s;
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
ROLLBACK TO s;
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
RELEASE s;
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
COMMIT;
TABLE kept;

-- an exception block of PL/pgSQL
CREATE FUNCTION pay_or_not(n int, fail boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a record;
BEGIN
	BEGIN
		SELECT * INTO a FROM handle_notify('T' || n, 'PAY', n::text, 'b');
		IF fail THEN RAISE 'no'; END IF;
		RETURN a.outcome || ' ' || a.replayed;
	EXCEPTION WHEN raise_exception THEN
		RETURN 'undone';
	END;
END $$;
SELECT pay_or_not(2, true), pay_or_not(2, false), pay_or_not(2, true), pay_or_not(2, false);
TABLE kept;

-- conflicts, early and missing orders spoil nothing in a transaction
BEGIN;
SELECT outcome FROM handle_notify('T2', 'PAY', '2', 'other');
SELECT outcome FROM handle_notify('T3', 'PAY', '33', 'b');
SELECT outcome FROM handle_notify('T3', 'UNHEARD', '3', 'b');
SELECT outcome FROM handle_notify('T3', 'PAY', '3', 'b');
COMMIT;
TABLE kept;

-- declarations are rolled back too, and every cache hears of it
BEGIN;
SELECT notify_transition_add('REFUND', 'PAID', 'REFUNDED');
SELECT outcome FROM handle_notify('T3', 'REFUND', '3', 'b');
ROLLBACK;
SELECT outcome FROM handle_notify('T3', 'REFUND', '3', 'b');
BEGIN;
SAVEPOINT s;
SELECT notify_transition_add('REFUND', 'PAID', 'REFUNDED');
SELECT outcome FROM handle_notify('T3', 'REFUND', '3', 'b');
ROLLBACK TO s;
SELECT outcome FROM handle_notify('T3', 'REFUND', '3', 'b');
COMMIT;

-- also one that is seen in the middle of a statement that fails
WITH t AS (DELETE FROM notify_transition WHERE event_type = 'PAY' RETURNING 1)
SELECT 1 / (length(h.outcome) - length(h.outcome)) FROM t, LATERAL (SELECT * FROM handle_notify('C1', 'PAY', '9', 'b')) AS h;
SELECT outcome FROM handle_notify('C1', 'PAY', '9', 'b');
WITH t AS (INSERT INTO notify_transition VALUES ('biz_order', 'PAY', 'PAID', 'PAID2') RETURNING 1)
SELECT 1 / (length(h.outcome) - length(h.outcome)) FROM t, LATERAL (SELECT * FROM handle_notify('C2', 'PAY', '9', 'b')) AS h;
SELECT outcome FROM handle_notify('C2', 'PAY', '9', 'b');

-- a procedure that commits between two calls
CREATE PROCEDURE pay_all(a int, b int) LANGUAGE plpgsql AS $$
BEGIN
	FOR n IN a..b LOOP
		PERFORM handle_notify('T' || n, 'PAY', n::text, 'b');
		COMMIT;
		ALTER TABLE biz_order ALTER status SET DEFAULT 'PENDING';
		PERFORM handle_notify('T' || n, 'PAY', n::text, 'b');
		ROLLBACK;
	END LOOP;
END $$;
CALL pay_all(4, 8);
TABLE kept;

DROP VIEW kept;
DROP TABLE biz_order;
DROP FUNCTION pay_or_not;
DROP PROCEDURE pay_all;
DROP EXTENSION notify_claim CASCADE;
