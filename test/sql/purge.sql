-- Retention: what notify_purge() deletes, and what it keeps.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE biz_order (order_no int PRIMARY KEY, status text);
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 9) AS n;
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('SHIP', 'PAID', 'SHIPPED');
SELECT notify_event_add('push', message_type => 'PUSHED');
CREATE FUNCTION refuse(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE sql
	AS $$ SELECT 'no' WHERE raw_body <> 'good' $$;
SELECT notify_event_add('checked', check_function => 'refuse');
SELECT notify_channel_add('week', retain => '7 days', keep_body => true);
SELECT notify_channel_add('year', retain => '1 year');
-- a claim of that age
CREATE FUNCTION claim(txn text, age interval, event text DEFAULT 'push', order_no text DEFAULT '1', channel text DEFAULT 'default',
	body text DEFAULT 'good') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text := (SELECT outcome FROM handle_notify(txn, event, order_no, body::bytea, channel));
BEGIN
	UPDATE notify_claim AS c SET created_at = now() - age WHERE c.biz_key = txn || ':' || event AND c.channel = claim.channel;
	RETURN answer;
END $$;
CREATE VIEW state AS
SELECT (SELECT string_agg(format('%s/%s', left(channel, 1), split_part(biz_key, ':', 1)), ' ' ORDER BY id) FROM notify_claim) AS claims,
       (SELECT string_agg(coalesce(c.biz_key, '?'), ' ' ORDER BY k.claim) FROM notify_purge_kept AS k LEFT JOIN notify_claim AS c ON c.id = k.claim) AS kept,
       (SELECT count(*) FROM notify_body) AS bodies, (SELECT count(*) FROM notify_review) AS reviews,
       (SELECT count(*) FROM notify_review_variant) AS variants, (SELECT count(*) FROM notify_decision) AS decisions;

-- arguments
SELECT attempt($$CALL notify_purge(batch => NULL)$$);
SELECT attempt($$CALL notify_purge(batch => 0)$$);
SELECT attempt($$CALL notify_purge(batch => 100001)$$);
SELECT attempt($$CALL notify_purge('0')$$);
SELECT attempt($$CALL notify_purge('-1 day')$$);
SELECT attempt($$CALL notify_purge(force => NULL)$$);
SELECT attempt($$CALL notify_purge(outbox_older_than => '-1 s')$$);
-- it commits, so it is called by itself
SELECT attempt($$CALL notify_purge()$$);
BEGIN;
CALL notify_purge();
ROLLBACK;
DO $$ DECLARE c bigint; m bigint; BEGIN BEGIN CALL notify_purge(claims => c, messages => m); EXCEPTION WHEN division_by_zero THEN END; END $$;
CALL notify_purge(channel => 'none');
-- ages are compared as times: a year is more than its 12 months of 30 days
CALL notify_purge('361 days', channel => 'year');
CALL notify_purge(channel => '');
-- with nothing there, also in a procedure
CALL notify_purge();
SET default_transaction_isolation = 'serializable';
DO $$
DECLARE c bigint; m bigint;
BEGIN
	CALL notify_purge(claims => c, messages => m);
	RAISE WARNING '% and %, then %', c, m, current_setting('transaction_isolation');
END $$;
RESET default_transaction_isolation;

--
-- How old
--
SELECT string_agg(claim(c || age, (age || ' days')::interval, channel => c), ' ') FROM unnest(ARRAY['default', 'week', 'year']) AS c,
	unnest(ARRAY[400, 368, 363, 36, 34, 8, 6]) AS a (age);
TABLE state;
-- less than a channel retains
CALL notify_purge('36 days');
CALL notify_purge('6 days', channel => 'week');
CALL notify_purge('34 days', channel => 'default');
TABLE state;
-- longer
CALL notify_purge('399 days');
TABLE state;
-- one channel's
CALL notify_purge(channel => 'week');
CALL notify_purge('365 days', channel => 'default');
TABLE state;
-- everyone's own
CALL notify_purge();
TABLE state;
CALL notify_purge();
-- a longer retention counts at once, a shorter one too
SELECT notify_channel_set('year', retain => '6000 years');
SELECT notify_channel_add('default', retain => '40 days');
SELECT claim('a', '38 days'), claim('b', '41 days'), claim('c', '3000 years', channel => 'year');
CALL notify_purge();
TABLE state;
SELECT notify_channel_set('year', retain => '1 year');
SELECT notify_channel_drop('default');
CALL notify_purge();
TABLE state;
-- forced
CALL notify_purge('5 days', force => true, channel => 'week');
CALL notify_purge('1 microsecond', force => true);
TABLE state;

--
-- The window is the retention
--
SELECT claim('T', '1 year', 'PAY', '2'), claim('P', '1 year', order_no => '2');
SELECT outcome, replayed FROM handle_notify('T', 'PAY', '2', 'good'::bytea);
CALL notify_purge();
-- case 41: the status keeps a step from being made again; a message is written again
SELECT outcome, result, replayed FROM handle_notify('T', 'PAY', '2', 'good'::bytea);
SELECT outcome, replayed FROM handle_notify('P', 'push', '2', 'good'::bytea);
CALL notify_purge('1 microsecond', force => true);

--
-- Not what is parked, under review, or decided about lately
--
SELECT claim('parked', '1 year', 'SHIP', '3'), claim('conflict', '1 year'), claim('plain', '1 year');
SELECT outcome FROM handle_notify('conflict', 'push', '1', 'other'::bytea);
-- a refusal that was left open beside the claim of its key
SELECT outcome FROM handle_notify('refused', 'checked', '1', 'bad'::bytea);
SELECT claim('beside', '1 year');
UPDATE notify_review SET biz_key = 'beside:push' WHERE biz_key = 'refused:checked';
CALL notify_purge();
TABLE state;
-- passed only once, and looked at each time
CALL notify_purge();
TABLE state;
-- a person decides: that holds for as long as the channel retains claims
SELECT notify_review_resolve(id, 'DISMISS', 'same') FROM notify_review WHERE kind = 'PAYLOAD_CONFLICT';
SELECT notify_parked_close(claim, 'too late') FROM notify_parked;
UPDATE notify_review SET state = 'OVERTAKEN', resolved_at = now() WHERE kind = 'CHECK_REFUSED';
CALL notify_purge();
TABLE state;
SELECT outcome, replayed FROM handle_notify('conflict', 'push', '1', 'other'::bytea);
UPDATE notify_review SET resolved_at = now() - interval '1 year' WHERE kind = 'PAYLOAD_CONFLICT';
CALL notify_purge();
TABLE state;
UPDATE notify_decision SET at = now() - interval '1 year' WHERE verb = 'DISMISS';
CALL notify_purge();
TABLE state;
UPDATE notify_review SET last_seen = now() - interval '1 year' WHERE kind = 'PAYLOAD_CONFLICT';
UPDATE notify_decision SET at = now() - interval '1 year';
CALL notify_purge();
TABLE state;
-- the same where no person decided
SELECT claim('overtaken', '1 year');
SELECT outcome FROM handle_notify('overtaken', 'push', '1', 'other'::bytea);
UPDATE notify_review SET state = 'OVERTAKEN', resolved_at = now(), last_seen = now() - interval '1 year' WHERE biz_key = 'overtaken:push';
CALL notify_purge();
UPDATE notify_review SET resolved_at = now() - interval '1 year' WHERE biz_key = 'overtaken:push';
CALL notify_purge();
TABLE state;
-- the refusal has no claim and goes by its own age
UPDATE notify_review SET resolved_at = now() - interval '1 year';
CALL notify_purge();
TABLE state;
UPDATE notify_review SET last_seen = now() - interval '1 year';
CALL notify_purge();
TABLE state;
-- its decision with it, and no others
SELECT count(handle_notify('r' || n, 'checked', '1', 'bad'::bytea, c)) FROM generate_series(1, 2) AS n, unnest(ARRAY['week', 'year']) AS c;
SELECT notify_review_resolve(id, 'DISMISS', 'no') FROM notify_review WHERE biz_key = 'r1:checked' ORDER BY id;
DELETE FROM notify_claim;
UPDATE notify_review SET first_seen = first_seen - interval '10 days', last_seen = last_seen - interval '10 days',
	resolved_at = resolved_at - interval '10 days';
SELECT channel, biz_key, state FROM notify_review ORDER BY id;
CALL notify_purge();
SELECT channel, biz_key, state FROM notify_review ORDER BY id;
SELECT count(*) FROM notify_review_variant AS v WHERE NOT EXISTS (SELECT FROM notify_review AS r WHERE r.id = v.review);
SELECT count(*) FROM notify_decision AS d WHERE NOT EXISTS (SELECT FROM notify_review AS r WHERE r.id = d.review);
TABLE state;
DELETE FROM notify_review;
DELETE FROM notify_review_variant;
DELETE FROM notify_decision;
-- a claim goes with its body, its reviews, their variants and decisions
SELECT claim('full', '1 year', channel => 'week'), claim('other', '1 day', channel => 'week');
SELECT count(handle_notify(t, 'push', '1', ('x' || n)::bytea, 'week')) FROM generate_series(1, 2) AS n, unnest(ARRAY['full', 'other']) AS t;
SELECT notify_review_resolve(id, 'DISMISS', 'same') FROM notify_review_open;
TABLE state;
UPDATE notify_review SET last_seen = now() - interval '1 year', resolved_at = now() - interval '1 year';
UPDATE notify_decision SET at = now() - interval '1 year';
CALL notify_purge();
TABLE state;
SELECT biz_key FROM notify_review;
SELECT count(*) FROM notify_review_variant JOIN notify_review ON id = review;
SELECT count(*) FROM notify_decision JOIN notify_review AS r ON r.id = review;
CALL notify_purge('1 microsecond', force => true);
-- what was parked and is applied at last is as old as its first delivery
SELECT notify_event_set('SHIP', park_for => '10 years');
SELECT claim('late', '1 year', 'SHIP', '4');
CALL notify_purge();
UPDATE biz_order SET status = 'PAID' WHERE order_no = 4;
SELECT outcome, created_at < now() - interval '1 month' AS old FROM notify_claim WHERE biz_key = 'late:SHIP';
CALL notify_purge();
SELECT biz_key FROM notify_claim WHERE biz_key = 'late:SHIP';
-- a claim that somebody has deleted is forgotten
SELECT claim('lost', '1 year', 'SHIP', '5');
CALL notify_purge();
DELETE FROM notify_claim WHERE biz_key = 'lost:SHIP';
CALL notify_purge();
TABLE state;

--
-- Batches, oldest first
--
TRUNCATE notify_claim, notify_review, notify_review_variant, notify_decision, notify_body;
CREATE TABLE deleted (xid xid8 DEFAULT pg_current_xact_id(), id bigint, level text DEFAULT current_setting('transaction_isolation'));
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO deleted (id) VALUES (old.id); RETURN NULL; END $$;
CREATE TRIGGER note AFTER DELETE ON notify_claim FOR EACH ROW EXECUTE FUNCTION note();
SELECT count(claim('n' || n, '40 days')) FROM generate_series(1, 25) AS n;
-- some are not in the order of their age, and one is parked
UPDATE notify_claim SET created_at = now() WHERE biz_key IN ('n3:push', 'n14:push');
SELECT claim('p', '40 days', 'SHIP', '6');
SELECT count(claim('m' || n, '1 day')) FROM generate_series(1, 25) AS n;
SET default_transaction_isolation = 'serializable';
CALL notify_purge(batch => 10);
RESET default_transaction_isolation;
SELECT DISTINCT level FROM deleted;
SELECT count(*) AS batches, max(n) AS largest, bool_and(first > coalesce(before, 0)) AS ordered
FROM (SELECT count(*) AS n, min(id) AS first, lag(max(id)) OVER (ORDER BY min(id)) AS before FROM deleted GROUP BY xid) AS b;
SELECT count(*), min(biz_key), max(biz_key) FROM notify_claim WHERE biz_key LIKE 'n%';
-- they go when they are old enough
UPDATE notify_claim SET created_at = now() - interval '40 days' WHERE biz_key LIKE 'n%' OR biz_key LIKE 'm%';
CALL notify_purge(batch => 10);
SELECT biz_key FROM notify_claim;
DROP TRIGGER note ON notify_claim;
-- a batch that is old and another's does not end the walk
SELECT claim('w1', '9 days', channel => 'week'), count(claim('y' || n, '9 days', channel => 'year')), claim('w2', '9 days', channel => 'week')
FROM generate_series(1, 5) AS n;
SELECT claim('w3', '9 days', channel => 'week');
CALL notify_purge(batch => 2);
SELECT string_agg(biz_key, ' ' ORDER BY id) FROM notify_claim WHERE channel <> 'default';
DELETE FROM notify_claim WHERE channel <> 'default';

--
-- Where it has come to
--
-- As many times as it takes: another session's transaction may hold the marks back.
CREATE PROCEDURE purge_up_to(key text) LANGUAGE plpgsql AS $$
DECLARE
	c bigint;
	m bigint;
BEGIN
	FOR n IN 1 .. 1000 LOOP
		CALL notify_purge(claims => c, messages => m);
		EXIT WHEN (SELECT min(low) FROM notify_purge_mark) >= (SELECT id - 1 FROM notify_claim WHERE biz_key = key);
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
CALL purge_up_to('p:SHIP');
SELECT m.channel, m.low >= c.id AS done FROM notify_purge_mark AS m, notify_claim AS c WHERE c.biz_key = 'p:SHIP' ORDER BY 1;
-- It stays before what is left, though that of others is passed.
SELECT claim('w', '1 day', channel => 'week'), claim('y', '300 days', channel => 'year'), claim('d', '34 days'), claim('y2', '1 day', channel => 'year');
CALL purge_up_to('w:push');
SELECT m.channel, c.biz_key AS first_left FROM notify_purge_mark AS m
	LEFT JOIN LATERAL (SELECT biz_key FROM notify_claim WHERE id > m.low AND channel = m.channel ORDER BY id LIMIT 1) AS c ON true ORDER BY 1;
SELECT count(*) FROM notify_purge_mark AS m JOIN notify_claim AS c ON c.channel = m.channel AND c.id <= m.low AND c.id NOT IN (SELECT claim FROM notify_purge_kept);
-- A channel that is declared later begins where those have come that are not declared.
SELECT notify_channel_add('later', retain => '1 day');
SELECT claim('l', '2 days', channel => 'later');
CALL notify_purge();
SELECT low > 0 AS not_from_the_start FROM notify_purge_mark WHERE channel = 'later';
TABLE state;
-- It can be lost: all is looked through again.
DELETE FROM notify_purge_mark;
DELETE FROM notify_purge_kept;
CALL notify_purge();
TABLE state;

--
-- Channels that are not declared any more: as those that retain longest
--
SELECT notify_channel_add('nearly', retain => '364 days');
SELECT claim('g1', '368 days', channel => 'later'), claim('g2', '363 days', channel => 'later');
DELETE FROM notify_channel WHERE channel = 'later';
CALL notify_purge();
TABLE state;
SELECT notify_channel_add('later', retain => '1 day');
CALL notify_purge();
TABLE state;

--
-- The caller needs nothing but EXECUTE
--
CREATE ROLE regress_notify_cron;
SELECT claim('cron', '1 year');
SET ROLE regress_notify_cron;
CALL notify_purge();
RESET ROLE;
GRANT EXECUTE ON PROCEDURE notify_purge(interval, integer, text, boolean, interval, bigint, bigint) TO regress_notify_cron;
CREATE SCHEMA hostile AUTHORIZATION regress_notify_cron;
SET ROLE regress_notify_cron;
SET search_path = hostile, public;
CREATE FUNCTION hostile.lt(varchar, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR hostile.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = hostile.lt);
CREATE TEMP TABLE notify_claim AS SELECT 1 AS id;
CALL public.notify_purge();
SELECT current_user;
SELECT count(*) FROM public.notify_claim;
RESET ROLE;
RESET search_path;
DROP TABLE pg_temp.notify_claim;
TABLE state;
DROP SCHEMA hostile CASCADE;
DROP OWNED BY regress_notify_cron;
DROP ROLE regress_notify_cron;

--
-- Messages by age
--
TRUNCATE notify_claim, notify_outbox;
SELECT count(claim(n::text, '1 day', order_no => (n % 10)::text)) FROM generate_series(1, 100) AS n;
UPDATE notify_outbox SET created_at = created_at - interval '10 days' WHERE aggregateid < '8';
CALL notify_purge();
CALL notify_purge(outbox_older_than => '11 days');
-- in hand, of an order with a failed message, of one that waits behind a dead letter
CREATE TEMP TABLE leased AS SELECT * FROM notify_outbox_lease('r', max => 1000, lease => '1 hour');
CALL notify_purge(outbox_older_than => '9 days', batch => 3);
SET notify_claim.max_attempts = 1;
SELECT notify_outbox_nack(token, min(seq), 'dead') FROM leased WHERE aggregateid = '1' GROUP BY token;
RESET notify_claim.max_attempts;
SET notify_claim.retry_delay = '1h';
SELECT notify_outbox_nack(token, min(seq), 'failed') FROM leased WHERE aggregateid = '2' GROUP BY token;
RESET notify_claim.retry_delay;
SELECT notify_outbox_ack(token, array_agg(seq)) = array_agg(seq ORDER BY seq) AS acked FROM leased WHERE aggregateid = '3' GROUP BY token;
SELECT notify_outbox_release(token) > 0 FROM leased LIMIT 1;
UPDATE notify_outbox SET created_at = created_at - interval '10 days';
TRUNCATE leased;
INSERT INTO leased SELECT * FROM notify_outbox_lease('r', max => 1, lease => '1 hour');
CALL notify_purge(outbox_older_than => '9 days', batch => 3);
SELECT aggregateid, count(*) FROM notify_outbox WHERE seq NOT IN (SELECT seq FROM leased) GROUP BY 1 ORDER BY 1;
SELECT count(*) AS leased FROM notify_outbox WHERE seq IN (SELECT seq FROM leased);
SELECT count(*) AS attempts FROM notify_outbox_attempt;
SELECT count(*) AS dead FROM notify_outbox_dead;
-- an attempt goes with its message
DELETE FROM notify_outbox_held;
CALL notify_purge(outbox_older_than => '9 days');
SELECT aggregateid, count(*) FROM notify_outbox WHERE seq NOT IN (SELECT seq FROM leased) GROUP BY 1 ORDER BY 1;
SELECT count(*) AS attempts FROM notify_outbox_attempt;

--
-- Its statements keep to indexes, also where they were planned over nothing
--
TRUNCATE notify_claim, notify_outbox, notify_review, notify_review_variant, notify_decision, notify_body, notify_purge_kept, notify_purge_mark;
ALTER TABLE notify_claim SET (autovacuum_enabled = off);
ALTER TABLE notify_outbox SET (autovacuum_enabled = off);
VACUUM (ANALYZE) notify_claim, notify_outbox, notify_review, notify_review_variant, notify_decision, notify_body, notify_purge_kept, notify_purge_mark;
INSERT INTO notify_claim (channel, biz_key, order_no, payload_hash, digest_mode, claim_state, outcome, created_at)
SELECT 'week', n || ':push', n, repeat('0', 64), 'raw', CASE WHEN n = 1 THEN 'PARKED' ELSE 'DONE' END, 'APPLIED',
	now() - interval '10 days' * (n < 100)::int FROM generate_series(1, 20000) AS n;
INSERT INTO notify_body (claim) SELECT id FROM notify_claim;
INSERT INTO notify_review (kind, channel, biz_key, claim, order_no, digest_mode, first_hash, payload_hash, raw_body, state, first_seen, last_seen, resolved_at)
SELECT 'PAYLOAD_CONFLICT', channel, biz_key, id, order_no, 'raw', repeat('0', 64), repeat('1', 64), '', 'DISMISSED', created_at, created_at, created_at
	FROM notify_claim;
INSERT INTO notify_review_variant SELECT id, 'raw', payload_hash, order_no, first_seen FROM notify_review;
INSERT INTO notify_decision (claim, review, verb, who, at, note) SELECT claim, id, 'DISMISS', 'x', resolved_at, 'x' FROM notify_review;
INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
SELECT gen_random_uuid(), 'x', order_no, 'x', '{}', created_at FROM notify_claim;
CREATE VIEW scans AS
SELECT relname, seq_scan, idx_tup_fetch FROM pg_stat_user_tables
WHERE relname IN ('notify_claim', 'notify_outbox', 'notify_review', 'notify_review_variant', 'notify_decision', 'notify_body');
SELECT pg_stat_force_next_flush();
CREATE TEMP TABLE before AS TABLE scans;
CALL notify_purge(batch => 50, outbox_older_than => '9 days');
CALL notify_purge(batch => 50, outbox_older_than => '9 days');
SELECT pg_stat_force_next_flush();
SELECT relname, s.seq_scan - b.seq_scan AS sequential, s.idx_tup_fetch - b.idx_tup_fetch BETWEEN 1 AND 5000 AS few FROM scans AS s JOIN before AS b USING (relname) ORDER BY 1;
SELECT (SELECT count(*) FROM notify_claim) AS claims, (SELECT count(*) FROM notify_body) AS bodies, (SELECT count(*) FROM notify_review) AS reviews,
       (SELECT count(*) FROM notify_review_variant) AS variants, (SELECT count(*) FROM notify_decision) AS decisions, (SELECT count(*) FROM notify_outbox) AS messages;

DROP VIEW scans, state;
DROP FUNCTION claim, note, attempt;
DROP PROCEDURE purge_up_to;
DROP TABLE biz_order, deleted;
DROP EXTENSION notify_claim CASCADE;
DROP FUNCTION refuse;
