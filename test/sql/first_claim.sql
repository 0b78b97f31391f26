-- A notification that is seen for the first time.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text, amount numeric);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY_SUCCESS', 'PENDING_PAY', 'PAID', message_type => 'ORDER_PAID');
INSERT INTO biz_order VALUES ('A1', 'PENDING_PAY', 10), ('A2', 'PENDING_PAY', 20);

-- the clock is the only thing that cannot be foretold
SELECT status, outcome, result, replayed, first_seen BETWEEN now() AND clock_timestamp() AS seen_now,
       ack_status, ack_body
FROM handle_notify('T1', 'PAY_SUCCESS', 'A1', '{"amount": "10.00"}'::bytea);

-- one claim in its final form, one transition, one message, and they agree
SELECT id, channel, biz_key, order_no, payload_hash = encode(sha256('{"amount": "10.00"}'), 'hex') AS hash_is_sha256,
       digest_rule, digest_mode, claim_state, outcome, result_json
FROM notify_claim;
SELECT * FROM biz_order ORDER BY order_no;
SELECT o.seq, o.id = c.message_id AS claimed, o.aggregatetype, o.aggregateid, o.type, o.payload, o.created_at = c.created_at AS same_time
FROM notify_outbox o, notify_claim c;

-- named arguments, data for the consumers, the text form
SELECT outcome, result
FROM handle_notify(raw_body => 'geld für 货', order_no => 'A2', event_type => 'PAY_SUCCESS', channel_txn_id => 'T2',
                   data => '{"amount": 20, "tags": ["a", null]}');
SELECT payload_hash = encode(sha256(convert_to('geld für 货', 'UTF8')), 'hex') AS hash_of_utf8 FROM notify_claim WHERE order_no = 'A2';
SELECT payload -> 'data' AS data FROM notify_outbox WHERE aggregateid = 'A2';

-- the result type is fixed, so that FROM needs no column list
SELECT pg_get_function_arguments(p.oid), provolatile, proparallel, proisstrict
FROM pg_proc p WHERE proname = 'handle_notify' ORDER BY p.oid;

DROP TABLE biz_order;
DROP EXTENSION notify_claim CASCADE;
