-- The report of test/bench/outbox. Reads what was measured, the files rates and fetches.
\pset pager off
\pset footer off
\pset border 0
\pset null ''
\pset format aligned
\pset tuples_only off

CREATE TABLE rate (snapshot text, orders int, backlog int, consumers int, batch int, queue text, round int, per_second float8);
\copy rate FROM 'rates'
CREATE TABLE fetched (state text, queue text, ms float8);
\copy fetched FROM 'fetches'

CREATE VIEW ratio AS
	SELECT l.snapshot, l.orders, l.backlog, l.batch, l.consumers,
		   percentile_cont(0.5) WITHIN GROUP (ORDER BY l.per_second) AS lease,
		   percentile_cont(0.5) WITHIN GROUP (ORDER BY p.per_second) AS plain,
		   percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY l.per_second / p.per_second) AS ratio
	FROM rate AS l JOIN rate AS p USING (snapshot, orders, backlog, batch, consumers, round)
	WHERE l.queue = 'lease' AND p.queue = 'plain'
	GROUP BY 1, 2, 3, 4, 5;
CREATE VIEW fetch_time AS
	SELECT state, queue, percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY ms) AS ms, max(ms) AS worst
	FROM fetched GROUP BY 1, 2;

\echo
\echo Messages per second
SELECT snapshot, orders, backlog, batch, consumers, round(lease) AS notify_outbox, round(plain) AS plain,
	   round(ratio[2]::numeric, 2) AS ratio, round(ratio[1]::numeric, 2) AS lower_quartile, round(ratio[3]::numeric, 2) AS upper_quartile
FROM ratio ORDER BY snapshot, orders DESC, backlog, batch DESC, consumers;

\echo A single fetch of 100, in milliseconds
SELECT state, CASE queue WHEN 'lease' THEN 'notify_outbox' ELSE queue END AS queue, round(ms[2]::numeric, 2) AS ms,
	   round(ms[1]::numeric, 2) AS lower_quartile, round(ms[3]::numeric, 2) AS upper_quartile, round(worst::numeric, 2) AS worst
FROM fetch_time ORDER BY queue, state COLLATE "C";

\echo Targets
SELECT target, "in", round(measured::numeric, 2) AS measured,
	   CASE WHEN CASE WHEN at_most THEN measured <= wanted ELSE measured >= wanted END THEN 'met' ELSE 'missed' END AS result
FROM (SELECT 1, 'batch 100 no slower than the plain queue', format('backlog %s, %s consumers', backlog, consumers), ratio[2], 1.0, false, backlog, consumers
	  FROM ratio WHERE snapshot = 'none' AND orders > 1 AND batch = 100
	  UNION ALL
	  SELECT 2, 'old snapshot: 3 times faster after 10^5 messages', format('backlog %s, batch %s, %s consumers', backlog, batch, consumers), ratio[2], 3.0, false, backlog, consumers - batch
	  FROM ratio WHERE snapshot = 'old'
	  UNION ALL
	  SELECT 3, 'fetch flat within 2 times of a queue in use', state, f.ms[2] / in_use.ms[2], 2.0, true, 0, 0
	  FROM fetch_time AS f, (SELECT ms FROM fetch_time WHERE state = 'in use' AND queue = 'lease') AS in_use
	  WHERE queue = 'lease' AND state LIKE 'old snapshot%') AS t (no, target, "in", measured, wanted, at_most, a, b)
ORDER BY no, a, b, "in";
