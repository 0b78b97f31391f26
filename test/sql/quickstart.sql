-- README.md's quick start, line for line: test/t/090_readme.pl compares the two.
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text NOT NULL);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY_SUCCESS', 'PENDING_PAY', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('SHIP_NOTICE', 'PAID', 'SHIPPED', message_type => 'ORDER_SHIPPED');
INSERT INTO biz_order VALUES ('SO-1', 'PENDING_PAY');

-- A payment notice; the same notice again; its key with another amount
SELECT outcome, result, replayed, ack_status, ack_body
  FROM handle_notify('PX-77', 'PAY_SUCCESS', 'SO-1', '{"amount":"10.00"}'::bytea);
SELECT outcome, result, replayed, ack_status, ack_body
  FROM handle_notify('PX-77', 'PAY_SUCCESS', 'SO-1', '{"amount":"10.00"}'::bytea);
SELECT outcome, result, replayed, ack_status, ack_body
  FROM handle_notify('PX-77', 'PAY_SUCCESS', 'SO-1', '{"amount":"1.00"}'::bytea);

-- A job ships the order; the channel sends the payment again under a new id
UPDATE biz_order SET status = 'SHIPPED' WHERE order_no = 'SO-1';
SELECT outcome, result, replayed, ack_status, ack_body
  FROM handle_notify('PX-78', 'PAY_SUCCESS', 'SO-1', '{"amount":"10.00"}'::bytea);
SELECT o.*, m.seq, m.type, m.payload ->> 'to' AS "to" FROM biz_order AS o, notify_outbox AS m;

DROP TABLE biz_order;
DROP EXTENSION notify_claim;
