-- The same key with other content, or for another order.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no bigint PRIMARY KEY, status text);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_event_add('push', message_type => 'PUSHED');
INSERT INTO biz_order VALUES (42, 'PENDING'), (43, 'PENDING');
SELECT outcome, result FROM handle_notify('T1', 'PAY', '42', '{"amount": 10}');
CREATE TEMP TABLE before AS
SELECT (SELECT jsonb_agg(c) FROM notify_claim c) AS claims, (SELECT jsonb_agg(o) FROM notify_outbox o WHERE aggregatetype = 'biz_order') AS messages,
       (SELECT jsonb_agg(b ORDER BY order_no) FROM biz_order b) AS orders;

-- other content
SELECT status, outcome, result, replayed, first_seen = (SELECT created_at FROM notify_claim) AS first_seen, ack_status, ack_body
FROM handle_notify('T1', 'PAY', '42', '{"amount": 1}');
-- case 16 under raw: other white space is other content
SELECT outcome FROM handle_notify('T1', 'PAY', '42', '{"amount":10}');
SELECT outcome FROM handle_notify('T1', 'PAY', '42', '');
-- case 44: one payment for two orders
SELECT outcome, result FROM handle_notify('T1', 'PAY', '43', '{"amount": 10}');
SELECT outcome FROM handle_notify('T1', 'PAY', '99', '{"amount": 10}');

-- the order number is the key column's, not a text
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '042', '{"amount": 10}');
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', ' 42 ', '{"amount": 10}');
SELECT order_no FROM notify_claim;
-- for an event without a machine it is a text
SELECT outcome FROM handle_notify('P1', 'push', '42', 'b');
SELECT outcome FROM handle_notify('P1', 'push', '042', 'b');

-- case 15: nothing of claim, order or messages has changed
DELETE FROM notify_claim WHERE biz_key = 'P1:push';
SELECT claims = (SELECT jsonb_agg(c) FROM notify_claim c) AS claims, messages = (SELECT jsonb_agg(o) FROM notify_outbox o WHERE aggregatetype = 'biz_order') AS messages,
       orders = (SELECT jsonb_agg(b ORDER BY order_no) FROM biz_order b) AS orders
FROM before;
SELECT outcome, result, replayed FROM handle_notify('T1', 'PAY', '42', '{"amount": 10}');

-- the first result is in the answer whatever it was
UPDATE biz_order SET status = 'PAID' WHERE order_no = 43;
SELECT outcome, result FROM handle_notify('T2', 'PAY', '43', 'one');
SELECT outcome, result FROM handle_notify('T2', 'PAY', '43', 'two');

-- whatever keeps the table from being used does not keep its key from being read
ALTER TABLE biz_order RENAME status TO state;
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '042', '{"amount": 10}');
ALTER TABLE biz_order RENAME state TO status;
ALTER TABLE biz_order SET UNLOGGED;
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '042', '{"amount": 10}');
ALTER TABLE biz_order SET LOGGED;

-- another spelling of the order after its table is gone cannot be told to be the same
DROP TABLE biz_order;
SELECT outcome FROM handle_notify('T1', 'PAY', '42', '{"amount": 10}');
SELECT outcome FROM handle_notify('T1', 'PAY', '042', '{"amount": 10}');

DROP EXTENSION notify_claim CASCADE;
