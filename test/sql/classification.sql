-- Legal, already, early or stale: the rules of the design's section 5.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text);

-- One machine per shape; from or to '-' stands for null, event '-' for a step of others.
CREATE TABLE shape (shape text, event text, from_status text, to_status text);
INSERT INTO shape VALUES
	-- a line, with a step of others in the middle
	('line', 'PAY', 'PENDING', 'PAID'), ('line', '-', 'PAID', 'PACKED'), ('line', 'SHIP', 'PACKED', 'SHIPPED'),
	-- "required" comes before "verified" (case 27)
	('verify', 'REQUIRED', 'NEW', 'WAITING'), ('verify', 'VERIFIED', 'WAITING', 'OK'), ('verify', 'VERIFIED', 'NEW', 'OK'),
	-- a cycle: a subscription that is paid, fails and is paid again
	('cycle', 'PAID', 'DUE', 'ACTIVE'), ('cycle', '-', 'ACTIVE', 'DUE'), ('cycle', 'CANCEL', 'ACTIVE', 'CANCELLED'),
	('cycle', 'BEGIN', 'TRIAL', 'ACTIVE'),
	-- a repeat that changes nothing, ahead and behind
	('nochange', 'PAY', 'PENDING', 'PAID'), ('nochange', 'REFUND', 'PAID', '-'), ('nochange', '-', 'PAID', 'CLOSED'),
	('nochange', 'BOTH', 'PENDING', 'PAID'), ('nochange', 'BOTH', 'CLOSED', '-'),
	-- else-edges reach from everywhere
	('else', 'CLOSE', '-', 'CLOSED'), ('else', 'REOPEN', 'CLOSED', 'OPEN'), ('else', 'WORK', 'OPEN', 'DONE'),
	-- any status may be put on hold by others
	('hold', 'PAY', 'PENDING', 'PAID'), ('hold', '-', '-', 'HELD'), ('hold', 'RELEASE', 'HELD', 'PENDING');

CREATE TABLE probe (n serial, shape text, status text, event text, expected text);
INSERT INTO probe (shape, status, event, expected) VALUES
	('line', 'PENDING', 'PAY', 'APPLIED PAID'),
	('line', 'PAID', 'PAY', 'SKIPPED already'),
	('line', 'PACKED', 'PAY', 'SKIPPED stale'),
	('line', 'SHIPPED', 'PAY', 'SKIPPED stale'),
	('line', 'PENDING', 'SHIP', 'EARLY'),          -- two steps ahead, one of them of others
	('line', 'PAID', 'SHIP', 'EARLY'),             -- case 45: the warehouse packs without a callback
	('line', 'PACKED', 'SHIP', 'APPLIED SHIPPED'),
	('line', 'SHIPPED', 'SHIP', 'SKIPPED already'),
	('line', 'ON_HOLD', 'PAY', 'EARLY'),           -- case 45: a status in no edge
	('line', NULL, 'PAY', 'EARLY'),
	('verify', 'OK', 'REQUIRED', 'SKIPPED stale'),
	('verify', 'WAITING', 'REQUIRED', 'SKIPPED already'),
	('verify', 'NEW', 'VERIFIED', 'APPLIED OK'),
	('cycle', 'ACTIVE', 'PAID', 'SKIPPED already'), -- DUE is ahead, but a cycle leads through ACTIVE
	('cycle', 'TRIAL', 'PAID', 'EARLY'),           -- none leads through TRIAL
	('cycle', 'DUE', 'CANCEL', 'EARLY'),           -- rule 5
	('cycle', 'CANCELLED', 'PAID', 'SKIPPED stale'),
	('cycle', 'CANCELLED', 'CANCEL', 'SKIPPED already'),
	('cycle', 'ACTIVE', 'BEGIN', 'SKIPPED already'),
	('cycle', 'DUE', 'BEGIN', 'SKIPPED stale'),
	('nochange', 'PENDING', 'REFUND', 'EARLY'),    -- rule 5: the edge ahead changes nothing
	('nochange', 'PAID', 'REFUND', 'APPLIED PAID'),
	('nochange', 'CLOSED', 'REFUND', 'SKIPPED stale'),
	('nochange', 'PAID', 'BOTH', 'SKIPPED already'), -- rule 4 before rule 5
	('nochange', 'CLOSED', 'BOTH', 'APPLIED CLOSED'),
	('else', 'OPEN', 'CLOSE', 'APPLIED CLOSED'),
	('else', 'CLOSED', 'CLOSE', 'SKIPPED already'),
	('else', 'WHATEVER', 'CLOSE', 'APPLIED CLOSED'),
	('else', NULL, 'CLOSE', 'EARLY'),
	('else', 'OPEN', 'REOPEN', 'SKIPPED already'), -- CLOSED is ahead, on a cycle through OPEN
	('else', 'DONE', 'WORK', 'SKIPPED already'),   -- so is DONE, by way of CLOSED
	('else', 'CLOSED', 'WORK', 'EARLY'),
	('hold', 'HELD', 'PAY', 'EARLY'),
	('hold', 'PAID', 'PAY', 'SKIPPED already'),    -- PENDING is ahead through HELD, on a cycle through PAID
	('hold', 'PENDING', 'RELEASE', 'SKIPPED already'),
	('hold', 'PAID', 'RELEASE', 'EARLY');          -- on a cycle and not in the target: rule 5

-- the same event name would belong to two machines: prefix it
SELECT count(notify_machine_add('biz_order', 'order_no', 'status', machine => s, attach => false)) FROM (SELECT DISTINCT shape AS s FROM shape) AS m;
SELECT count(notify_transition_add(shape || '.' || nullif(event, '-'), nullif(from_status, '-'), nullif(to_status, '-'), machine => shape)) FROM shape;

CREATE FUNCTION classify(n int, event text) RETURNS text LANGUAGE sql AS $$
	SELECT a.outcome || coalesce(' ' || (a.result ->> 'reason'), ' ' || (a.result ->> 'status'), '')
	FROM handle_notify('T' || n, event, 'O' || n, 'b') AS a $$;
INSERT INTO biz_order SELECT 'O' || n, status FROM probe;
CREATE TABLE outcome AS SELECT n, shape, status, event, expected, classify(n, shape || '.' || event) AS actual FROM probe;
SELECT count(*), count(*) FILTER (WHERE actual = expected) AS as_expected FROM outcome;
SELECT * FROM outcome WHERE actual IS DISTINCT FROM expected ORDER BY n;

-- An oracle that walks the edges as the design's text says, over every status and event of every shape.
CREATE FUNCTION oracle(m text, e text, s text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ahead text[];
	f record;
	own boolean := EXISTS (SELECT FROM notify_transition WHERE machine = m AND event_type = e AND from_status = s);
	rest record;
	target text;
BEGIN
	SELECT to_status INTO target FROM notify_transition WHERE machine = m AND event_type = e AND from_status = s;
	IF FOUND THEN RETURN 'APPLIED ' || coalesce(target, s); END IF;
	SELECT to_status INTO target FROM notify_transition
	WHERE machine = m AND event_type = e AND from_status IS NULL AND s IS NOT NULL AND to_status IS DISTINCT FROM s;
	IF FOUND THEN RETURN 'APPLIED ' || coalesce(target, s); END IF;
	IF s IS NULL OR NOT EXISTS (SELECT FROM notify_transition WHERE machine = m AND s IN (from_status, to_status)) THEN
		RETURN 'EARLY';
	END IF;
	WITH RECURSIVE walk(at) AS (
		SELECT t.to_status FROM notify_transition t
		WHERE t.machine = m AND t.to_status IS NOT NULL
			AND (t.from_status = s OR t.from_status IS NULL AND t.to_status <> s AND NOT EXISTS (
				SELECT FROM notify_transition o WHERE o.machine = m AND o.event_type = t.event_type AND o.from_status = s))
		UNION
		SELECT t.to_status FROM walk w, notify_transition t
		WHERE t.machine = m AND t.to_status IS NOT NULL
			AND (t.from_status = w.at OR t.from_status IS NULL AND t.to_status <> w.at AND NOT EXISTS (
				SELECT FROM notify_transition o WHERE o.machine = m AND o.event_type = t.event_type AND o.from_status = w.at))
	) SELECT array_agg(at) INTO ahead FROM walk;
	IF NOT s = ANY (coalesce(ahead, '{}')) AND EXISTS (SELECT FROM notify_transition WHERE machine = m AND event_type = e
			AND from_status = ANY (ahead) AND to_status IS NOT NULL) THEN
		RETURN 'EARLY';
	END IF;
	IF EXISTS (SELECT FROM notify_transition WHERE machine = m AND event_type = e AND to_status = s) THEN RETURN 'SKIPPED already'; END IF;
	IF EXISTS (SELECT FROM notify_transition WHERE machine = m AND event_type = e AND from_status = ANY (ahead)) THEN RETURN 'EARLY'; END IF;
	RETURN 'SKIPPED stale';
END $$;

-- random machines of up to seven statuses, else-edges and steps of others among them
SELECT setseed(0.42);
CREATE TABLE random_edge AS
SELECT DISTINCT ON (m, e, f) 'r' || m AS m, e, f, t FROM (
	SELECT m, CASE WHEN random() < 0.25 THEN NULL ELSE 'r' || m || '.e' || floor(random() * 3) END AS e,
	       CASE WHEN random() < 0.15 THEN NULL ELSE 's' || floor(random() * 7) END AS f,
	       CASE WHEN random() < 0.15 THEN NULL ELSE 's' || floor(random() * 7) END AS t
	FROM generate_series(1, 60) AS m, generate_series(1, 9)) AS x
WHERE f IS DISTINCT FROM t AND (e IS NOT NULL OR t IS NOT NULL)
ORDER BY m, e, f, t;
SELECT count(notify_machine_add('biz_order', 'order_no', 'status', machine => m, attach => false)) > 50 AS machines FROM (SELECT DISTINCT m FROM random_edge) AS x;
SELECT count(notify_transition_add(e, f, t, machine => m)) > 300 AS edges FROM random_edge;
CREATE TABLE history AS
SELECT row_number() OVER () + 1000 AS n, machine, event_type, status
FROM (SELECT machine, event_type FROM notify_event) AS e,
     unnest(ARRAY['s0', 's1', 's2', 's3', 's4', 's5', 's6', 'unknown', NULL,
                  'PENDING', 'PAID', 'PACKED', 'SHIPPED', 'ACTIVE', 'DUE', 'CLOSED', 'OPEN', 'DONE', 'HELD']) AS status;
INSERT INTO biz_order SELECT 'O' || n, status FROM history;
CREATE TABLE verdict AS SELECT *, classify(n::int, event_type) AS actual, oracle(machine, event_type, status) AS expected FROM history;
SELECT count(*) > 3000 AS many, count(*) FILTER (WHERE actual = expected) = count(*) AS as_the_oracle_says, count(DISTINCT split_part(actual, ' s', 1)) > 4 AS of_all_kinds
FROM verdict;
SELECT * FROM verdict WHERE actual IS DISTINCT FROM expected ORDER BY n LIMIT 5;

-- policy skip: acknowledged and recorded, and replayed as that
SELECT notify_event_set('line.SHIP', on_early => 'skip');
INSERT INTO biz_order VALUES ('K', 'PENDING'), ('K2', NULL);
SELECT status, outcome, result, replayed FROM handle_notify('K', 'line.SHIP', 'K', 'b');
SELECT status, outcome, result, replayed FROM handle_notify('K2', 'line.SHIP', 'K2', 'b');
UPDATE biz_order SET status = 'PACKED' WHERE order_no = 'K';
SELECT status, outcome, result, replayed FROM handle_notify('K', 'line.SHIP', 'K', 'b');
-- policy retry: nothing is kept, and the redelivery is processed
SELECT notify_event_set('line.SHIP', on_early => 'retry');
UPDATE biz_order SET status = 'PENDING' WHERE order_no = 'K';
SELECT status, outcome, result, replayed, first_seen FROM handle_notify('K3', 'line.SHIP', 'K', 'b');
SELECT count(*) FROM notify_claim WHERE biz_key = 'K3:line.SHIP';
UPDATE biz_order SET status = 'PACKED' WHERE order_no = 'K';
SELECT status, outcome, result, replayed FROM handle_notify('K3', 'line.SHIP', 'K', 'b');

DROP TABLE biz_order, shape, probe, outcome, random_edge, history, verdict;
DROP FUNCTION classify, oracle;
DROP EXTENSION notify_claim CASCADE;
