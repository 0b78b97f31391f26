-- The message of the same commit, in the shape that Debezium's outbox event router expects.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
SELECT attname, format_type(atttypid, atttypmod) AS type, attnotnull, attidentity <> '' AS identity
FROM pg_attribute WHERE attrelid = 'notify_outbox'::regclass AND attnum > 0 ORDER BY attnum;
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text);
SELECT notify_machine_add('biz_order', 'order_no', 'status', machine => 'orders');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('SHIP', 'PAID', 'SHIPPED', message_type => 'ORDER_SHIPPED');
SELECT notify_transition_add('QUIET', 'SHIPPED', 'DONE');
SELECT notify_event_add('push', message_type => 'PUSHED');
INSERT INTO biz_order VALUES ('A', 'PENDING'), ('B', 'PENDING');

-- one message for each step that has a message type, in the order of the steps, each step with its own data
SELECT outcome FROM handle_notify('T1', 'PAY', 'A', 'b', data => '{"amount": 10}');
SELECT outcome FROM handle_notify('T1', 'PAY', 'B', 'b', data => '{"amount": 10}');
SELECT outcome FROM handle_notify('T2', 'PAY', 'B', 'b');
SELECT outcome FROM handle_notify('T3', 'SHIP', 'A', 'b', data => '{"waybill": "SF123"}');
SELECT outcome FROM handle_notify('T3', 'SHIP', 'A', 'b', data => '{"waybill": "other data of a repeat"}');
SELECT outcome FROM handle_notify('T4', 'QUIET', 'A', 'b', data => '{"x": 1}');
SELECT outcome FROM handle_notify('T5', 'PAY', 'A', 'b');
SELECT outcome FROM handle_notify('T6', 'push', 'A', 'b');
SELECT seq, aggregatetype, aggregateid, type, payload FROM notify_outbox WHERE aggregatetype <> 'notify_review' ORDER BY seq;
-- every member is there, whatever its value
SELECT DISTINCT array_agg(k ORDER BY k COLLATE "C") FROM notify_outbox, LATERAL jsonb_object_keys(payload) AS k WHERE aggregatetype <> 'notify_review' GROUP BY seq;
-- a message and its claim know each other; ids are random UUIDs, no two alike
SELECT c.biz_key, c.outcome, o.type FROM notify_claim c LEFT JOIN notify_outbox o ON o.id = c.message_id ORDER BY c.id;
SELECT count(DISTINCT id), bool_and(id::text ~ '^.{14}4') AS version_4 FROM notify_outbox;
-- what takes no part in deciding is no part of the claim
SELECT count(*) FROM notify_claim c WHERE c::text LIKE '%waybill%';

DROP TABLE biz_order;
DROP EXTENSION notify_claim CASCADE;
