-- What is on record about an order, and the health of it all.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text NOT NULL);
CREATE FUNCTION refuse(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE sql AS
	$$ SELECT 'amount ' || convert_from(raw_body, 'UTF8') || ', expected 10' WHERE raw_body <> '10' $$;
CREATE FUNCTION fail(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE plpgsql AS
	$$ BEGIN RAISE 'the ledger is closed'; END $$;
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'NEW', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('SHIP', 'PAID', 'SHIPPED', message_type => 'ORDER_SHIPPED');
SELECT notify_transition_add('CREDIT', 'PAID', NULL, message_type => 'CREDITED');
SELECT notify_transition_add('SIGN', 'SHIPPED', 'SIGNED', message_type => 'ORDER_SIGNED');
SELECT notify_event_set('PAY', check_function => 'public.refuse'), notify_event_set('CREDIT', action_function => 'public.fail'),
	notify_event_add('push', 'PUSHED');
CREATE FUNCTION notify(txn text, event text, order_no text, body text, channel text DEFAULT 'default') RETURNS text LANGUAGE sql AS
	$$ SELECT outcome || CASE WHEN replayed THEN ' replayed' ELSE '' END FROM handle_notify(txn, event, order_no, body::bytea, channel) $$;
-- Without times and ids.
CREATE FUNCTION history(order_no text) RETURNS TABLE (n bigint, channel text, txn text, event text, outcome text, reason text,
	"from" text, "to" text, review text, parked text, error text, message text, message_state text) LANGUAGE sql AS $$
	SELECT row_number() OVER (), h.channel, channel_txn_id, event_type, outcome,
		regexp_replace(replace(reason, current_user, 'me'), 'last at .*', 'last at ...'), from_status, to_status,
		review_state, parked_state, error, (SELECT type FROM notify_outbox WHERE id = message_id), message_state
	FROM notify_history(order_no) AS h
$$;
CREATE VIEW health AS SELECT parked, parked_age > '0' AS parked_ages, reviews_open, review_age > '0' AS review_ages, skipped_last_hour,
	outbox_depth, outbox_age > '0' AS outbox_ages, dead_letters, orders_blocked FROM notify_health;
\pset null '-'

-- nothing on record
SELECT * FROM notify_history('O1');
SELECT * FROM notify_history(NULL);
TABLE health;
-- parked, refused, applied, released, with an error, skipped, and with other content
INSERT INTO biz_order VALUES ('O1', 'NEW'), ('O2', 'NEW'), ('O3', 'NEW');
SELECT notify('T1', 'SHIP', 'O1', 'a'), notify('T2', 'CREDIT', 'O1', 'a'), notify('T3', 'PAY', 'O1', '1'), notify('T3', 'PAY', 'O1', '2');
SELECT * FROM history('O1');
TABLE health;
SELECT notify('T4', 'PAY', 'O1', '10'), notify('T4', 'PAY', 'O1', '10'), notify('T4', 'PAY', 'O1', '11'), notify('T4', 'PAY', 'O2', '10');
SELECT notify('T5', 'PAY', 'O1', '10'), notify('T6', 'push', 'O1', 'a'), notify('T7', 'unheard of', 'O1', 'a');
SELECT * FROM history('O1');
-- of other content each delivery is told of
SELECT notify('T4', 'PAY', 'O1', '11'), notify('T4', 'PAY', 'O1', '11');
SELECT reason, message_state FROM history('O1') WHERE outcome = 'CONFLICT';
-- the other order knows of its delivery as well, and what fails stays parked
SELECT notify('T9', 'CREDIT', 'O2', 'a'), notify('T10', 'PAY', 'O2', '10');
SELECT * FROM history('O2');
-- what people decide
SELECT notify_review_resolve(id, 'DISMISS', 'typed wrongly') FROM notify_review WHERE kind = 'PAYLOAD_CONFLICT';
SELECT notify_review_resolve(id, 'DISMISS', 'a test') FROM notify_review WHERE kind = 'CHECK_REFUSED';
SELECT notify('T8', 'SIGN', 'O3', 'a');
SELECT notify_parked_close(claim, 'lost in transit') FROM notify_parked WHERE order_no = 'O3';
SELECT * FROM history('O1') WHERE outcome IN ('DISMISS', 'CONFLICT', 'REJECTED');
SELECT * FROM history('O3');
TABLE health;
-- and what becomes of messages
CREATE TEMP TABLE batch AS SELECT * FROM notify_outbox_lease('relay');
SELECT * FROM history('O1') WHERE message_state IS NOT NULL;
SELECT notify_outbox_nack(token, seq, 'no broker') FROM batch WHERE seq = (SELECT min(seq) FROM batch WHERE aggregateid = 'O1' AND aggregatetype = 'biz_order');
SELECT notify_outbox_ack(token, array_agg(seq)) IS NOT NULL AS acked FROM batch GROUP BY token;
SELECT * FROM history('O1') WHERE message_state IS NOT NULL;
SET notify_claim.max_attempts = 1;
UPDATE notify_outbox_attempt SET retry_at = '-infinity';
UPDATE notify_outbox_held SET due_at = '-infinity';
SELECT count(notify_outbox_nack(token, seq, 'still no broker')) FROM notify_outbox_lease('relay') WHERE aggregateid = 'O1';
SELECT * FROM history('O1') WHERE message_state IS NOT NULL;
TABLE health;
SELECT notify_outbox_dead_purge('0');
SELECT * FROM history('O1') WHERE message_state IS NOT NULL;

RESET notify_claim.max_attempts;
-- one refusal of two orders: each has its own
INSERT INTO biz_order VALUES ('O4', 'NEW'), ('O5', 'NEW'), ('O6', 'NEW'), ('3', 'NEW');
SELECT notify('T11', 'PAY', 'O4', '3'), notify('T11', 'PAY', 'O5', '4');
SELECT outcome, reason, review, message_state FROM history('O4');
SELECT outcome, reason, review, message_state FROM history('O5');
-- until one is right after all
SELECT notify('T11', 'PAY', 'O5', '10');
SELECT outcome, reason, review, message_state FROM history('O4');
SELECT outcome, reason, review, message_state FROM history('O5');
-- an error is over once the event is not parked any more; bodies stay here
SELECT notify_channel_add('kept', keep_body => true);
SELECT notify('T12', 'CREDIT', 'O6', 'a', 'kept'), notify('T13', 'PAY', 'O6', '10', 'kept');
SELECT outcome, parked, error FROM history('O6') WHERE event = 'CREDIT';
CREATE OR REPLACE FUNCTION fail(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE sql AS '';
SELECT notify_unpark('O6');
SELECT outcome, parked, error, message FROM history('O6') WHERE event = 'CREDIT';
-- a message is on record without its claim, a review's alarm is not an order's of that number
SELECT count(*) FROM notify_review WHERE id = 3;
SELECT notify('T14', 'PAY', '3', '10');
DELETE FROM notify_claim WHERE order_no = '3';
SELECT * FROM history('3');
-- all that is found by an index
SET enable_seqscan = off;
DISCARD PLANS;
BEGIN;
CREATE TEMP TABLE seqscans AS SELECT relname, seq_scan FROM pg_stat_xact_user_tables WHERE relname ~ '^notify_';
SELECT count(*) FROM notify_history('O5');
SELECT relname FROM pg_stat_xact_user_tables AS s JOIN seqscans AS b USING (relname) WHERE s.seq_scan > b.seq_scan;
COMMIT;
RESET enable_seqscan;
-- what was skipped lately is found by its index
CREATE FUNCTION uses_index() RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE plan text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) SELECT skipped_last_hour FROM notify_health' INTO plan;
	RETURN plan ~ '"notify_claim_skipped_idx"[^{]*"Index Cond": "\(created_at > ';
END $$;
SELECT uses_index();
DROP FUNCTION uses_index;
-- in psql as it is, one line for each fact
SELECT count(*) = (SELECT count(*) FROM history('O1')) AS complete, bool_and(at <= after) AS oldest_first
FROM (SELECT at, lead(at, 1, 'infinity') OVER () AS after FROM notify_history('O1')) AS h;
DROP FUNCTION history, notify;
DROP VIEW health;
DROP TABLE biz_order, batch, seqscans;
DROP FUNCTION refuse, fail;
DROP EXTENSION notify_claim;
