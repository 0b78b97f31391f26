-- Leasing the outbox: order, acknowledgement, attempts, dead letters, the low mark.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE FUNCTION put(VARIADIC orders text[]) RETURNS void LANGUAGE sql AS $$
	INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
	SELECT gen_random_uuid(), 'orders', o, 'MOVED', jsonb_build_object('n', n), now()
	FROM unnest(orders) WITH ORDINALITY AS t (o, n) ORDER BY n
$$;
-- leases and keeps what came; answers with order, number and attempt of each message
CREATE TABLE got (consumer text, token uuid, seq bigint, id uuid, place bigint, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION take(who text, max int DEFAULT 100, lease interval DEFAULT '1 hour') RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
	WITH leased AS (
		SELECT l.*, row_number() OVER () AS place FROM notify_outbox_lease(who, max, lease) AS l
	), kept AS (
		INSERT INTO got SELECT who, l.token, l.seq, l.id, l.place FROM leased AS l
	)
	SELECT string_agg(format('%s:%s/%s', l.aggregateid, l.seq, l.attempt), ' ' ORDER BY l.seq) INTO answer FROM leased AS l;
	RETURN coalesce(answer, '-');
END $$;
CREATE FUNCTION token_of(who text) RETURNS uuid LANGUAGE sql AS
	$$ SELECT token FROM got WHERE consumer = who ORDER BY at DESC LIMIT 1 $$;
CREATE FUNCTION ack(who text, VARIADIC seqs bigint[]) RETURNS bigint[] LANGUAGE sql AS
	$$ SELECT notify_outbox_ack(token_of(who), seqs) $$;
CREATE VIEW state AS SELECT
	(SELECT coalesce(array_agg(seq ORDER BY seq), '{}') FROM notify_outbox) AS messages,
	(SELECT coalesce(array_agg(s ORDER BY s), '{}') FROM notify_outbox_leased, unnest(seqs) AS s) AS leased,
	(SELECT coalesce(array_agg(aggregateid ORDER BY aggregateid), '{}') FROM notify_outbox_held) AS held,
	(SELECT coalesce(array_agg(seq ORDER BY seq), '{}') FROM notify_outbox_attempt) AS attempts,
	(SELECT coalesce(array_agg(seq ORDER BY seq), '{}') FROM notify_outbox_dead) AS dead;

-- nothing to do
SELECT take('r1');

-- one order goes to one consumer at a time, in order; another order to another
SELECT put('A', 'A', 'B', 'A', 'B', 'C');
SELECT take('r1', 2) IN ('A:1/1 A:2/1', 'B:3/1 B:5/1', 'C:6/1 A:1/1', 'A:1/1 C:6/1', 'B:3/1 C:6/1', 'C:6/1 B:3/1') AS some;
SELECT notify_outbox_release(token_of('r1'));
SELECT take('r1');
SELECT count(DISTINCT token) AS tokens FROM got WHERE consumer = 'r1' AND token = token_of('r1');
SELECT bool_and(g.id = o.id) AS same_ids, count(*) FROM got AS g JOIN notify_outbox AS o USING (seq) WHERE g.token = token_of('r1');
-- each order's messages came in order
SELECT count(*) FROM got AS a JOIN got AS b USING (token) JOIN notify_outbox AS x ON x.seq = a.seq JOIN notify_outbox AS y ON y.seq = b.seq
WHERE x.aggregateid = y.aggregateid AND a.seq < b.seq AND a.place > b.place;
SELECT put('A', 'D');
SELECT take('r2');
SELECT take('r3');

-- acknowledged are the first of each order, as far as they are named
SELECT ack('r1', 2, 3, 6);
SELECT ack('r1', 2, 3, 6);
TABLE state;
-- others' messages, unknown ones, none, and ones that somebody removed
SELECT ack('r1', 8, 99, -1), notify_outbox_ack(token_of('r1'), '{}'), ack('r2', 1);
DELETE FROM notify_outbox WHERE seq = 5;
SELECT ack('r1', 1, 2, 4, 5);
TABLE state;
SELECT take('r3');
SELECT ack('r3', 7), ack('r1', 1), notify_outbox_extend(token_of('r1')), notify_outbox_release(token_of('r1'));
SELECT ack('r2', 8);
TABLE state;

-- an old token acknowledges nothing, and past its time a lease counts for nothing
SELECT put('E', 'E', 'E');
SELECT take('slow', lease => '1 microsecond');
SELECT ack('slow', 9, 10, 11), notify_outbox_nack(token_of('slow'), 9), notify_outbox_extend(token_of('slow')), notify_outbox_release(token_of('slow'));
SELECT take('quick', 2);
SELECT ack('slow', 9, 10, 11), notify_outbox_nack(token_of('slow'), 9), notify_outbox_extend(token_of('slow')), notify_outbox_release(token_of('slow'));
SELECT seq, attempts, last_error, failed_at = retry_at AS at_once FROM notify_outbox_attempt ORDER BY seq;
SELECT ack('quick', 9);
-- what comes for the order meanwhile waits for its turn
SELECT put('E');
SELECT take('r3');
SELECT ack('quick', 10), take('r3');
SELECT count(DISTINCT id) FROM got WHERE seq IN (9, 10, 11);
SELECT ack('r3', 12, 11);
SELECT take('r3');
TABLE state;
-- an extended lease lasts, from then on
SELECT put('E');
SELECT take('r3', lease => '10 s'), notify_outbox_extend(token_of('r3'), '1 hour');
SELECT leased_until > now() + interval '30 min' AS extended FROM notify_outbox_leased WHERE seqs <> '{}';
SELECT notify_outbox_extend(token_of('r3'), '1 microsecond'), notify_outbox_extend(token_of('r3'));
SELECT take('r3'), ack('r3', 13);

-- a refused message comes again after a pause that doubles; the order's later ones are given back with it
SET notify_claim.retry_delay = '1min';
SET notify_claim.retry_delay_max = '5min';
SELECT put('F', 'G', 'F', 'F');
SELECT take('r1');
SELECT notify_outbox_nack(token_of('r1'), 16, 'broker says no');
SELECT notify_outbox_nack(token_of('r1'), 16), notify_outbox_nack(token_of('r1'), 17);
SELECT seq, attempts, last_error, retry_at - failed_at AS pause FROM notify_outbox_attempt;
SELECT ack('r1', 14, 15, 16, 17);
SELECT take('r1');
CREATE FUNCTION come_due() RETURNS void LANGUAGE sql AS $$
	UPDATE notify_outbox_attempt SET retry_at = failed_at; UPDATE notify_outbox_held SET due_at = now() WHERE due_at < 'infinity' $$;
SELECT come_due();
SELECT take('r1');
SELECT notify_outbox_nack(token_of('r1'), 16);
SELECT seq, attempts, last_error, retry_at - failed_at AS pause FROM notify_outbox_attempt;
SELECT come_due();
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 16, 'again');
SELECT seq, attempts, last_error, retry_at - failed_at AS pause FROM notify_outbox_attempt;
SELECT come_due();
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 16, 'again');
SELECT seq, attempts, last_error, retry_at - failed_at AS pause FROM notify_outbox_attempt;
-- given back without an attempt
SELECT come_due();
SELECT take('r1'), notify_outbox_release(token_of('r1')), take('r2'), ack('r2', 16, 17);
SELECT take('r1');
TABLE state;
-- one of an order's later messages is refused, the earlier ones are still in hand
SELECT put('F', 'F', 'F');
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 19, 'no');
SELECT take('r2'), ack('r1', 18, 19, 20);
SELECT take('r2');
SELECT come_due();
SELECT take('r2'), ack('r2', 19, 20);
-- the same with the earlier one given back
SELECT put('F', 'F');
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 22, 'no'), notify_outbox_release(token_of('r1')), take('r1');
SELECT ack('r1', 21), take('r1');
SELECT come_due();
SELECT take('r1'), ack('r1', 22), take('r1');

-- after so many attempts it is a dead letter, and its order waits
SET notify_claim.retry_delay = 0;
SET notify_claim.max_attempts = 2;
SELECT put('P', 'P', 'Q');
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 23, 'poison'), ack('r1', 25);
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 23, 'still poison');
SELECT seq, aggregateid, reason, attempts, last_error, blocks FROM notify_outbox_dead;
SELECT put('P', 'Q');
SELECT take('r1');
SELECT ack('r1', 27), take('r1');
SELECT aggregateid, first_seq, due_at FROM notify_outbox_held;
SELECT d.id = g.id AS same_id, d.payload FROM notify_outbox_dead AS d JOIN got AS g USING (seq) LIMIT 1;
-- put back in its place, it has all attempts ahead
SELECT notify_outbox_redrive(23);
SELECT attempt('SELECT notify_outbox_redrive(23)'), attempt('SELECT notify_outbox_redrive(NULL)');
SELECT take('r1', 1);
SELECT take('r2'), ack('r1', 23), take('r2'), ack('r2', 24, 26);
-- it may die again; purged, its order waits no longer
SELECT put('P', 'P');
SELECT take('r1', lease => '1 microsecond'), take('r1', lease => '1 microsecond');
SELECT take('r1'), (SELECT string_agg(concat_ws(' ', seq, reason, attempts, last_error), ', ') FROM notify_outbox_dead) AS dead;
SELECT attempt($$SELECT notify_outbox_dead_purge('1 hour')$$), attempt($$SELECT notify_outbox_dead_purge('-1 s')$$), attempt('SELECT notify_outbox_dead_purge(NULL)');
SELECT take('r1'), notify_outbox_dead_purge('0'), take('r1'), ack('r1', 29), take('r1');
-- a dead letter without later ones blocks those that come later, too
SELECT put('P');
SELECT take('r1', lease => '1 microsecond'), take('r1'), notify_outbox_nack(token_of('r1'), 30, 'dead');
SELECT take('r1'), put('P'), take('r1');
SELECT notify_outbox_redrive(30), take('r1'), ack('r1', 30, 31);
-- with flow the later ones go on, and a redriven one comes late
SET notify_claim.dead_letter = flow;
SELECT put('P', 'P', 'P');
SELECT take('r1', lease => '1 microsecond'), take('r1', 1), notify_outbox_nack(token_of('r1'), 32, 'dead');
SELECT take('r1', 1);
SELECT notify_outbox_redrive(32), take('r2'), ack('r1', 33);
-- it was redriven while the order was in hand, and comes before what was left
SELECT take('r2'), ack('r2', 32, 34), take('r2');
SELECT ack('r2', 34), take('r2');
TABLE state;
-- one that lies between two that are in hand, and one dead letter behind another
SET notify_claim.max_attempts = 1;
SELECT put('V', 'V', 'V');
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 36, 'dead'), ack('r1', 35), take('r2'), notify_outbox_release(token_of('r2'));
SELECT put('V');
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 37, 'dead'), notify_outbox_redrive(36), notify_outbox_redrive(37);
SELECT take('r1', 2), notify_outbox_nack(token_of('r1'), 36, 'dead'), take('r2', 1), notify_outbox_redrive(36), ack('r2', 37);
SELECT take('r1'), ack('r1', 36, 38), take('r1');
TABLE state;
SET notify_claim.dead_letter = wait;
SELECT put('V', 'V', 'V');
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 40, 'dead'), notify_outbox_nack(token_of('r1'), 39, 'dead'), take('r1');
SELECT notify_outbox_redrive(39), take('r1'), ack('r1', 39), take('r1'), notify_outbox_redrive(40), take('r1'), ack('r1', 40, 41);
TABLE state;
SET notify_claim.dead_letter = flow;
-- all that have had their attempts die at once
SET notify_claim.max_attempts = 1;
SELECT put('P', 'R', 'P');
SELECT take('r1', lease => '1 microsecond'), take('r1');
SELECT seq, aggregateid, reason, attempts, last_error, blocks FROM notify_outbox_dead ORDER BY seq;
RESET notify_claim.dead_letter;
SELECT put('P', 'R', 'P');
SELECT take('r1', lease => '1 microsecond'), take('r1');
SELECT seq, aggregateid, blocks FROM notify_outbox_dead WHERE seq > 44 ORDER BY seq;
SELECT notify_outbox_dead_purge('0'), take('r1', lease => '1 microsecond'), take('r1');
SELECT notify_outbox_dead_purge('0'), take('r1');
TABLE state;

-- what has ended its consumer half the attempts is leased alone
SET notify_claim.max_attempts = 4;
SELECT put('S', 'S', 'T');
SELECT take('r1', lease => '1 microsecond'), take('r1', lease => '1 microsecond');
SELECT concat_ws(' ', take('r1'), take('r1'), take('r1')) IN ('S:48/3 T:50/3 -', 'T:50/3 S:48/3 -') AS alone;
SELECT g.consumer, array_agg(g.seq) FROM got AS g WHERE g.seq IN (48, 50) AND g.token IN (SELECT token FROM notify_outbox_leased WHERE seqs <> '{}') GROUP BY token, g.consumer ORDER BY 2;
SELECT bool_and(notify_outbox_ack(token, seqs) = seqs) FROM notify_outbox_leased WHERE seqs <> '{}';
SELECT take('r1'), ack('r1', 49), take('r1');
RESET notify_claim.max_attempts;
RESET notify_claim.retry_delay;

-- orders are told apart by type and number, and one dead letter says nothing of the other
SET notify_claim.max_attempts = 1;
INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
SELECT gen_random_uuid(), t, 'X', 'MOVED', '{}', now() FROM unnest('{orders,parcels,orders,parcels}'::text[]) AS t;
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 51);
SELECT ack('r1', 52, 53, 54), take('r1'), notify_outbox_redrive(51), take('r1'), ack('r1', 51, 53);
RESET notify_claim.max_attempts;

-- the low mark moves when what is before it is done with, and not past what is in hand
CREATE PROCEDURE drain(who text, INOUT total bigint DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE t uuid; s bigint[];
BEGIN
	LOOP
		SELECT token, array_agg(seq) INTO t, s FROM notify_outbox_lease(who) GROUP BY token;
		COMMIT;
		EXIT WHEN t IS NULL;
		total := total + cardinality(notify_outbox_ack(t, s));
		COMMIT;
	END LOOP;
END $$;
SELECT put(VARIADIC array_agg('M' || n % 100)) FROM generate_series(1, 6000) AS n;
SELECT take('slow', 1) <> '-' AS taken;
CALL drain('r1');
SELECT put(VARIADIC array_agg('M' || n % 100)) FROM generate_series(1, 6000) AS n;
CALL drain('r1');
SELECT count(*) FILTER (WHERE low > 6055) > 15 AS moved FROM notify_outbox_partition AS p
WHERE NOT EXISTS (SELECT FROM notify_outbox_leased AS l WHERE l.partition = p.partition AND seqs <> '{}');
SELECT p.low < l.seqs[1] AS before_it FROM notify_outbox_partition AS p JOIN notify_outbox_leased AS l USING (partition) WHERE l.seqs <> '{}';
SELECT notify_outbox_release(token_of('slow'));
CALL drain('r1');
TABLE state;
-- it passes what waits behind a dead letter
SET notify_claim.max_attempts = 1;
SELECT put('W', 'W');
SELECT take('r1'), notify_outbox_nack(token_of('r1'), 12055);
SELECT put(VARIADIC array_agg('W'::text)) FROM generate_series(1, 5000) AS n;
SELECT take('r1');
SELECT put(VARIADIC array_agg('W'::text)) FROM generate_series(1, 5000) AS n;
SELECT take('r1');
SELECT take('r1');
SELECT p.low, p.mark_seq FROM notify_outbox_partition AS p JOIN notify_outbox_held AS h USING (partition);
SELECT notify_outbox_redrive(12055);
SELECT take('r1', 3);
CALL drain('r2');
SELECT notify_outbox_release(token_of('r1'));
CALL drain('r2');
TABLE state;
RESET notify_claim.max_attempts;

-- a lease's row is replaced after some dozens of leases
SELECT put(VARIADIC array_agg('U'::text)) FROM generate_series(1, 200) AS n;
DO $$ BEGIN FOR n IN 1..200 LOOP
	PERFORM notify_outbox_ack(token, ARRAY[seq]) FROM notify_outbox_lease('r1', 1);
	COMMIT;
END LOOP; END $$;
SELECT count(*) <= 2 AS few, max(uses) <= 64 AS bounded, min(slot) = p.first_slot AND p.first_slot >= 3 AS replaced
FROM notify_outbox_leased AS l JOIN notify_outbox_partition AS p USING (partition)
WHERE partition = hashtext('U') & 31 GROUP BY p.first_slot;
TABLE state;

-- more than one look passes: orders that are in hand, and many that wait behind them; the next look passes them
SELECT o AS one, p AS other FROM (SELECT 'O' || n AS o, lead('O' || n) OVER (PARTITION BY hashtext('O' || n) & 31 ORDER BY n) AS p
	FROM generate_series(1, 100) AS n) AS o WHERE p IS NOT NULL ORDER BY 1 LIMIT 1 \gset
SELECT put(VARIADIC array_agg(:'one'::text)) FROM generate_series(1, 3000);
SELECT put(:'other');
SELECT take('r1', 1) <> '-' AS taken, take('r2') AS first_look, take('r2') LIKE :'other' || ':%' AS other;
SELECT array_agg(aggregateid::text) = ARRAY[:'one'] AS held FROM notify_outbox_held;
SELECT bool_and(notify_outbox_ack(token, seqs) = seqs) AS acked FROM notify_outbox_leased WHERE seqs <> '{}';
SELECT take('r3', 1) LIKE :'one' || ':%' AS woken, notify_outbox_release(token_of('r3'));
SELECT come_due();
CALL drain('r2');
TABLE state;
-- a row of notify_outbox_leased that is in use stays, while another is replaced; a new lease knows nothing of the last
SELECT put(:'one');
SELECT take('slow') <> '-' AS taken;
SELECT put(VARIADIC array_agg(:'other'::text)) FROM generate_series(1, 200);
DO $$ DECLARE last bigint := 0; BEGIN FOR n IN 1..200 LOOP
	ASSERT (SELECT notify_outbox_ack(token, ARRAY[last, seq]) = ARRAY[seq] FROM notify_outbox_lease('r1', 1)), n;
	SELECT max(a) INTO last FROM notify_outbox_leased, unnest(acked) AS a;
	COMMIT;
END LOOP; END $$;
SELECT ack('slow', seq) = ARRAY[seq] AS acked FROM notify_outbox;
TABLE state;
-- acknowledged between others of their partition, near each other and far apart
SELECT put(VARIADIC ARRAY[:'one', :'other', :'one'] || array_fill(:'other'::text, ARRAY[150]) || ARRAY[:'one']);
SELECT take('r1', 1000) <> '-' AS taken;
CREATE VIEW ones AS SELECT array_agg(seq ORDER BY seq) AS seqs FROM notify_outbox WHERE aggregateid = :'one';
SELECT notify_outbox_ack(token_of('r1'), seqs[1:2]) = seqs[1:2] AS acked FROM ones;
SELECT aggregateid = :'one' AS one, count(*) FROM notify_outbox GROUP BY 1 ORDER BY 1;
SELECT notify_outbox_release(token_of('r1')), put(VARIADIC array_fill(:'other'::text, ARRAY[150]) || ARRAY[:'one']) IS NOT NULL AS put, take('r1', 1000) <> '-' AS taken;
SELECT seqs[2] - seqs[1] AS apart, notify_outbox_ack(token_of('r1'), seqs) = seqs AS acked FROM ones;
SELECT aggregateid = :'one' AS one, count(*) FROM notify_outbox GROUP BY 1 ORDER BY 1;
SELECT notify_outbox_release(token_of('r1'));
CALL drain('r1');
TABLE state;
-- a held order whose lease is made shorter; a pause after very many attempts
SELECT put('Y');
SELECT take('r1') <> '-' AS taken, notify_outbox_nack(token_of('r1'), (SELECT min(seq) FROM notify_outbox), 'no');
UPDATE notify_outbox_attempt SET attempts = 1500;
SELECT come_due();
SET notify_claim.max_attempts = 1000000;
SELECT take('r1') <> '-' AS taken, notify_outbox_extend(token_of('r1'), '1 microsecond'), take('r2') <> '-' AS again,
	notify_outbox_nack(token_of('r2'), (SELECT min(seq) FROM notify_outbox), 'no');
SELECT attempts, retry_at - failed_at AS pause FROM notify_outbox_attempt;
SELECT take('r1');
SELECT h.due_at = a.retry_at AS same FROM notify_outbox_held AS h, notify_outbox_attempt AS a;
SELECT come_due();
SELECT take('r1') <> '-' AS taken, ack('r1', (SELECT min(seq) FROM notify_outbox)) <> '{}' AS acked;
RESET notify_claim.max_attempts;
SELECT take('r1');
TABLE state;

-- messages of handle_notify, and large payloads
SELECT notify_event_add('push', message_type => 'PUSHED');
SELECT outcome FROM handle_notify('T1', 'push', 'O-1', 'b', data => jsonb_build_object('x', repeat('y', 100000)));
SELECT aggregatetype, aggregateid, type, payload ->> 'order_no' AS order_no, length(payload -> 'data' ->> 'x') AS length, attempt, created_at <= now() AS past
FROM notify_outbox_lease('r1', lease => '1 microsecond');

-- bad input, and rights
SELECT attempt($$SELECT notify_outbox_lease(NULL)$$), attempt($$SELECT notify_outbox_lease(' ')$$), attempt($$SELECT notify_outbox_lease(repeat('x', 256))$$);
SELECT attempt($$SELECT notify_outbox_lease('r', NULL)$$), attempt($$SELECT notify_outbox_lease('r', 0)$$), attempt($$SELECT notify_outbox_lease('r', 10001)$$);
SELECT attempt($$SELECT notify_outbox_lease('r', lease => NULL)$$), attempt($$SELECT notify_outbox_lease('r', lease => '0')$$), attempt($$SELECT notify_outbox_lease('r', lease => '400000 years')$$);
SELECT attempt($$SELECT notify_outbox_ack(NULL, '{1}')$$), attempt($$SELECT notify_outbox_ack(gen_random_uuid(), NULL)$$), attempt($$SELECT notify_outbox_ack(gen_random_uuid(), '{1,NULL}')$$);
SELECT attempt($$SELECT notify_outbox_nack(NULL, 1)$$), attempt($$SELECT notify_outbox_nack(gen_random_uuid(), NULL)$$);
SELECT attempt($$SELECT notify_outbox_extend(NULL)$$), attempt($$SELECT notify_outbox_extend(gen_random_uuid(), NULL)$$), attempt($$SELECT notify_outbox_release(NULL)$$);
SELECT notify_outbox_ack(gen_random_uuid(), '{1}'), notify_outbox_nack(gen_random_uuid(), 1), notify_outbox_extend(gen_random_uuid()), notify_outbox_release(gen_random_uuid());
CREATE ROLE regress_notify_relay;
SET ROLE regress_notify_relay;
SELECT attempt($$SELECT notify_outbox_lease('r')$$), attempt($$SELECT notify_outbox_redrive(1)$$), attempt($$TABLE notify_outbox_dead$$);
RESET ROLE;
SELECT notify_grant('regress_notify_relay', 'relay');
SET ROLE regress_notify_relay;
SELECT token, array_agg(seq) AS seqs, sum(attempt) AS attempt FROM notify_outbox_lease('r') GROUP BY token \gset
SELECT :attempt AS attempt, notify_outbox_extend(:'token'), notify_outbox_nack(:'token', (:'seqs'::bigint[])[1]), notify_outbox_release(:'token'), notify_outbox_ack(:'token', :'seqs');
SELECT attempt('SELECT notify_outbox_redrive(1)'), notify_outbox_dead_purge('1 day');
SELECT (SELECT count(*) FROM notify_outbox_dead) AS dead, (SELECT count(*) FROM notify_outbox_held) AS held, (SELECT count(*) FROM notify_outbox_attempt) AS attempts, (SELECT count(*) > 0 FROM notify_outbox_leased) AS leases;
SELECT attempt('TABLE notify_outbox'), attempt('DELETE FROM notify_outbox'), attempt('UPDATE notify_outbox_partition SET low = 0'), attempt('DELETE FROM notify_outbox_held'),
	attempt($$SELECT outcome FROM handle_notify('T2', 'push', 'O-1', 'b'::bytea)$$);
SET notify_claim.retry_delay = '2s';
RESET notify_claim.retry_delay;
SELECT attempt('SET notify_claim.max_attempts = 1'), attempt('SET notify_claim.dead_letter = flow');
RESET ROLE;

-- a transaction that may not write, and one of a snapshot
SELECT put('Z');
BEGIN READ ONLY;
SELECT attempt($$SELECT notify_outbox_lease('r')$$);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT take('r1'), ack('r1', seq) = ARRAY[seq] AS acked FROM (SELECT max(seq) AS seq FROM notify_outbox) AS m;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT put('Z');
SELECT take('r1');
ROLLBACK;
SELECT take('r1');

DROP OWNED BY regress_notify_relay;
DROP ROLE regress_notify_relay;
DROP VIEW state;
DROP TABLE got;
DROP FUNCTION attempt, put, take, token_of, ack, come_due;
DROP PROCEDURE drain;
DROP EXTENSION notify_claim CASCADE;
