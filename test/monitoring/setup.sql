-- What test/monitoring/run watches: something of everything.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE ROLE watcher LOGIN;
SELECT notify_grant('watcher', 'monitor');
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text NOT NULL);
CREATE FUNCTION refuse(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE sql AS $$ SELECT 'no' $$;
SELECT notify_machine_add('biz_order', 'order_no', 'status'), notify_channel_add('shop'), notify_channel_add('quiet');
SELECT notify_transition_add('PAY', 'NEW', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('SHIP', 'PAID', 'SHIPPED');
SELECT notify_event_add('push', 'PUSHED'), notify_event_add('refused', check_function => 'public.refuse');
INSERT INTO biz_order VALUES ('1', 'NEW'), ('2', 'NEW');
-- A dead letter before another message of its order, a conflict, a refusal, one that
-- is parked, one that is skipped.
SELECT FROM handle_notify('D1', 'push', 'dead', 'a'::bytea);
SELECT FROM handle_notify('D2', 'push', 'dead', 'a'::bytea);
SELECT notify_outbox_nack(token, seq, 'no broker') FROM (SELECT * FROM notify_outbox_lease('relay', 1)) AS l;
SELECT FROM handle_notify('T1', 'PAY', '1', 'a'::bytea);
SELECT FROM handle_notify('T1', 'PAY', '1', 'b'::bytea);
SELECT FROM handle_notify('T2', 'PAY', '1', 'a'::bytea, 'shop');
SELECT FROM handle_notify('T3', 'SHIP', '2', 'a'::bytea);
SELECT FROM handle_notify('T4', 'refused', '2', 'a'::bytea);
SELECT FROM handle_notify('T5', 'unheard of', '2', 'a'::bytea);
SELECT FROM handle_notify('T6', 'push', '3', 'a'::bytea, 'shop');
-- The application's mistake, counted under no channel.
DO $$ BEGIN
	PERFORM handle_notify('T7', NULL, '1', 'a'::bytea, NULL);
EXCEPTION WHEN null_value_not_allowed OR invalid_parameter_value THEN NULL;
END $$;
