-- Kinds of transitions.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text, refund_status text DEFAULT 'NONE', touched int DEFAULT 0);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.touched := OLD.touched + 1; RETURN NEW; END';
CREATE TRIGGER touch BEFORE UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION touch();
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('PAY', 'FAILED', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('PAY', 'CANCELLED', NULL, message_type => 'PAID_AFTER_CANCEL');
SELECT notify_transition_add('FAIL', 'PENDING', 'FAILED');
SELECT notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUND_RECORDED');
SELECT notify_transition_add(NULL, 'PAID', 'PACKED');
SELECT notify_transition_add('SHIP', 'PACKED', 'SHIPPED', message_type => 'ORDER_SHIPPED');
SELECT notify_transition_add('CLOSE', NULL, 'CLOSED', message_type => 'ORDER_CLOSED');
SELECT notify_transition_add('NOTE', NULL, NULL, message_type => 'NOTED');
SELECT notify_transition_add('NOTE', 'CLOSED', NULL, message_type => 'NOTED_LATE');

CREATE FUNCTION try(txn text, event text, ord text) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s %s -> %s, touched %s, message %s', a.outcome, a.result, b.status, b.touched, c.message_id IS NOT NULL)
	FROM handle_notify(txn, event, ord, 'b') AS a, notify_claim AS c, biz_order AS b
	WHERE c.biz_key = txn || ':' || event AND b.order_no = ord $$;
CREATE FUNCTION try_later(txn text, event text, ord text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN PERFORM handle_notify(txn, event, ord, 'b'); RETURN try(txn, event, ord); END $$;

-- a change; case 28: failed, then success; case 6: late for a shipped order; case 8: paid twice
INSERT INTO biz_order (order_no, status) VALUES ('A', 'PENDING'), ('F', 'PENDING'), ('S', 'SHIPPED'), ('P', 'PAID');
SELECT try_later('T1', 'PAY', 'A');
SELECT try_later('T2', 'FAIL', 'F');
SELECT try_later('T3', 'PAY', 'F');
SELECT try_later('T4', 'PAY', 'S');
SELECT try_later('T5', 'PAY', 'P');
SELECT try_later('T6', 'PAY', 'P');
-- a step of others in between
SELECT outcome, result FROM handle_notify('S1', 'SHIP', 'A', 'b');
UPDATE biz_order SET status = 'PACKED' WHERE order_no = 'A';
SELECT try_later('S1', 'SHIP', 'A');
-- case 46: three partial refunds, money after cancellation: recorded and told, nothing changed
INSERT INTO biz_order (order_no, status) VALUES ('R', 'PAID'), ('C', 'CANCELLED');
SELECT try_later('R' || n, 'REFUND', 'R') FROM generate_series(1, 3) AS n;
SELECT try_later('C1', 'PAY', 'C');
SELECT aggregateid, type, payload ->> 'from' AS "from", payload ->> 'to' AS "to" FROM notify_outbox WHERE aggregateid IN ('R', 'C') ORDER BY seq;
-- else-edges: any status but their own target, known or not, but not null
INSERT INTO biz_order (order_no, status) VALUES ('E1', 'PENDING'), ('E2', 'CLOSED'), ('E3', 'NEVER HEARD OF'), ('E4', NULL);
SELECT try_later('E', 'CLOSE', 'E1');
SELECT try_later('E2', 'CLOSE', 'E2');
SELECT try_later('E3', 'CLOSE', 'E3');
SELECT outcome, result FROM handle_notify('E4', 'CLOSE', 'E4', 'b');
-- an edge of its own goes before the else-edge
SELECT try_later('N1', 'NOTE', 'E1');
SELECT try_later('N2', 'NOTE', 'P');
SELECT type FROM notify_outbox WHERE payload ->> 'event_type' = 'NOTE' ORDER BY seq;
-- case 4: two refunds by another machine on the same table, of which one can be made
SELECT notify_machine_add('biz_order', 'order_no', 'refund_status', machine => 'refund');
SELECT notify_transition_add('REFUND_DONE', 'NONE', 'REFUNDED', message_type => 'REFUNDED', machine => 'refund');
SELECT outcome, result FROM handle_notify('RF1', 'REFUND_DONE', 'P', 'b');
SELECT outcome, result FROM handle_notify('RF2', 'REFUND_DONE', 'P', 'b');
SELECT status, refund_status, touched FROM biz_order WHERE order_no = 'P';
SELECT aggregatetype, type, payload ->> 'from' AS "from", payload ->> 'to' AS "to" FROM notify_outbox WHERE aggregateid = 'P' ORDER BY seq;
-- no machine at all
SELECT notify_event_add('repo.push', message_type => 'PUSHED');
SELECT outcome, result FROM handle_notify('D1', 'repo.push', 'refs/heads/main', '{}');
SELECT aggregatetype, aggregateid, type, payload -> 'from' AS "from", payload -> 'to' AS "to" FROM notify_outbox WHERE type = 'PUSHED';
-- a message type is optional
SELECT notify_event_set('repo.push', message_type => '');
SELECT outcome FROM handle_notify('D2', 'repo.push', 'refs/heads/main', '{}');
SELECT message_id FROM notify_claim WHERE biz_key = 'D2:repo.push';
-- not declared, no such order: nothing is kept, and the redelivery is a first delivery (case 29)
SELECT outcome, result, status, replayed, first_seen FROM handle_notify('X', 'UNHEARD', 'A', 'b');
SELECT outcome, result, status, replayed, first_seen FROM handle_notify('X', 'PAY', 'nobody', 'b');
SELECT count(*) FROM notify_claim WHERE biz_key LIKE 'X:%';
INSERT INTO biz_order (order_no, status) VALUES ('nobody', 'PENDING');
SELECT outcome, result, replayed FROM handle_notify('X', 'PAY', 'nobody', 'b');
SELECT notify_transition_add('UNHEARD', 'SHIPPED', 'DELIVERED', machine => 'biz_order');
SELECT outcome, result, replayed FROM handle_notify('X', 'UNHEARD', 'A', 'b');

DROP FUNCTION try_later, try;
DROP TABLE biz_order;
DROP FUNCTION touch;
DROP EXTENSION notify_claim CASCADE;
