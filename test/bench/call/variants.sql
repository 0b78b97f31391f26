-- For each variant a schema of its own with the same tables and indexes, and in each
-- the same orders and claims; and the functions that do next to nothing.
SET client_min_messages = warning;
CREATE TABLE handle.transition AS
	SELECT event_type, from_status, COALESCE(to_status, from_status) AS to_status, message_type FROM notify_transition;

CREATE PROCEDURE make_variant(variant text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE SCHEMA %I', variant);
	EXECUTE format('SET LOCAL search_path = %I, public', variant);
	CREATE TABLE orders (LIKE handle.orders INCLUDING ALL);
	CREATE TABLE transition (LIKE handle.transition INCLUDING ALL, PRIMARY KEY (event_type, from_status));
	CREATE TABLE claim (LIKE notify_claim INCLUDING ALL);
	CREATE TABLE outbox (LIKE notify_outbox INCLUDING ALL);
	INSERT INTO orders SELECT * FROM handle.orders;
	INSERT INTO transition SELECT * FROM handle.transition;
	INSERT INTO claim OVERRIDING SYSTEM VALUE SELECT * FROM notify_claim ORDER BY id;
	INSERT INTO outbox OVERRIDING SYSTEM VALUE SELECT * FROM notify_outbox ORDER BY seq;
	PERFORM setval(pg_get_serial_sequence('claim', 'id'), max(id)) FROM claim;
	PERFORM setval(pg_get_serial_sequence('outbox', 'seq'), max(seq)) FROM outbox;
END
$$;
CALL make_variant('plpgsql');
CALL make_variant('cte');
CALL make_variant('client');
CALL make_variant('floor');

CREATE FUNCTION floor.nothing(
	channel_txn_id text, event_type text, order_no text, raw_body bytea,
	channel text DEFAULT 'default', data jsonb DEFAULT NULL,
	OUT status text, OUT outcome text, OUT result jsonb, OUT replayed boolean,
	OUT first_seen timestamptz, OUT ack_status integer, OUT ack_body text)
LANGUAGE C AS 'floor', 'bench_nothing';
CREATE FUNCTION floor.hash(
	channel_txn_id text, event_type text, order_no text, raw_body bytea,
	channel text DEFAULT 'default', data jsonb DEFAULT NULL,
	OUT status text, OUT outcome text, OUT result jsonb, OUT replayed boolean,
	OUT first_seen timestamptz, OUT ack_status integer, OUT ack_body text)
LANGUAGE C AS 'floor', 'bench_hash';
