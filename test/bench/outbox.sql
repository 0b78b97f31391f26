-- A database of test/bench/outbox: both queues, and what fills and times them.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;

-- The plain queue: the columns of notify_outbox, and an index on seq.
CREATE TABLE plain_outbox (LIKE notify_outbox INCLUDING DEFAULTS INCLUDING IDENTITY, PRIMARY KEY (seq));

-- How many messages were ever taken out of a queue.
CREATE VIEW lease_taken AS
	SELECT coalesce(pg_sequence_last_value('notify_outbox_seq_seq'), 0) - count(*) AS taken FROM notify_outbox;
CREATE VIEW plain_taken AS
	SELECT coalesce(pg_sequence_last_value('plain_outbox_seq_seq'), 0) - count(*) AS taken FROM plain_outbox;

-- The session that holds an old snapshot.
CREATE VIEW pin AS
	SELECT pid FROM pg_stat_activity
	WHERE datname = current_database() AND backend_xmin IS NOT NULL AND query LIKE 'SELECT pg\_sleep(%';

-- Messages as handle_notify writes them, of all orders in turn.
CREATE FUNCTION messages(many bigint, orders integer, OUT id uuid, OUT aggregatetype text, OUT aggregateid text,
	OUT type text, OUT payload jsonb, OUT created_at timestamptz)
RETURNS SETOF record LANGUAGE sql AS $$
	SELECT gen_random_uuid(), 'biz_order', order_no, 'ORDER_PAID',
		   jsonb_build_object('type', 'ORDER_PAID', 'biz_key', format('T%s:PAY_SUCCESS', n), 'channel', 'default',
							  'event_type', 'PAY_SUCCESS', 'order_no', order_no, 'from', 'PENDING_PAY', 'to', 'PAID',
							  'data', jsonb_build_object('amount', n, 'currency', 'EUR')),
		   clock_timestamp()
	FROM (SELECT n, 'O' || n % orders AS order_no
		  FROM (SELECT floor(random() * orders)::bigint AS first) AS f, generate_series(first, first + many - 1) AS n) AS m
$$;

-- Takes everything out of both queues.
CREATE PROCEDURE empty() LANGUAGE plpgsql AS $$
DECLARE
	token uuid;
	seqs bigint[];
BEGIN
	DELETE FROM plain_outbox;
	COMMIT;
	LOOP
		SELECT (array_agg(l.token))[1], array_agg(l.seq) INTO token, seqs FROM notify_outbox_lease('empty', 10000) AS l;
		COMMIT;
		EXIT WHEN token IS NULL;
		PERFORM notify_outbox_ack(token, seqs);
		COMMIT;
	END LOOP;
END $$;

-- Sees to it that each queue has a backlog.
CREATE PROCEDURE fill(backlog bigint, orders integer) LANGUAGE plpgsql AS $$
BEGIN
	IF backlog = 0 THEN
		CALL empty();
	ELSE
		INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
		SELECT * FROM messages(backlog - (SELECT count(*) FROM notify_outbox WHERE aggregateid <> 'blocked'), orders);
		COMMIT;
		INSERT INTO plain_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
		SELECT * FROM messages(backlog - (SELECT count(*) FROM plain_outbox), orders);
	END IF;
END $$;

-- Has messages of one order wait for a dead letter.
CREATE PROCEDURE block_order(waiting bigint) LANGUAGE plpgsql AS $$
DECLARE
	token uuid;
	seq bigint;
BEGIN
	SET notify_claim.max_attempts = 1;
	INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
	SELECT id, aggregatetype, 'blocked', type, payload, created_at FROM messages(1, 1);
	COMMIT;
	SELECT l.token, l.seq INTO token, seq FROM notify_outbox_lease('block', 1) AS l;
	COMMIT;
	PERFORM notify_outbox_nack(token, seq, 'refused');
	COMMIT;
	INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
	SELECT id, aggregatetype, 'blocked', type, payload, created_at FROM messages(waiting, 1);
	COMMIT;
	IF (SELECT count(*) FROM notify_outbox_dead) <> 1 OR EXISTS (SELECT FROM notify_outbox_lease('block', 1)) THEN
		RAISE 'the order is not blocked';
	END IF;
END $$;

-- Times of single fetches of 100 messages, from both queues in turn.
CREATE TABLE fetched (state text, queue text, ms float8);
CREATE PROCEDURE time_fetches(state text, fetches integer) LANGUAGE plpgsql AS $$
DECLARE
	start timestamptz;
	ms float8;
	token uuid;
	seqs bigint[];
	payloads text;
BEGIN
	-- The first one, which plans, does not count.
	FOR round IN 0 .. fetches LOOP
		start := clock_timestamp();
		SELECT (array_agg(l.token))[1], array_agg(l.seq), string_agg(l.payload::text, ',') INTO token, seqs, payloads
		FROM notify_outbox_lease('fetch', 100) AS l;
		COMMIT;
		ms := extract(epoch FROM clock_timestamp() - start) * 1000;
		IF cardinality(notify_outbox_ack(token, seqs)) < 50 THEN
			RAISE 'too few messages';
		END IF;
		IF round > 0 THEN
			INSERT INTO fetched VALUES (state, 'lease', ms);
		END IF;
		COMMIT;
		start := clock_timestamp();
		SELECT array_agg(seq), string_agg(payload::text, ',') INTO seqs, payloads
		FROM (SELECT seq, payload FROM plain_outbox ORDER BY seq LIMIT 100 FOR UPDATE SKIP LOCKED) AS m;
		ms := extract(epoch FROM clock_timestamp() - start) * 1000;
		DELETE FROM plain_outbox WHERE seq = ANY (seqs);
		IF round > 0 THEN
			INSERT INTO fetched VALUES (state, 'plain', ms);
		END IF;
		COMMIT;
	END LOOP;
END $$;
