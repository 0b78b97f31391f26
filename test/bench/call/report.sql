-- The report of test/bench/call/run. Reads what was measured: the files speeds, facts
-- and cold.
\pset pager off
\pset footer off
\pset border 0
\pset null ''
\pset format aligned
\pset tuples_only off
CREATE TABLE speed (no serial, cell text, variant text, round int, per_second float8);
\copy speed (cell, variant, round, per_second) FROM 'speeds'
CREATE TABLE fact (no serial, name text, value numeric);
\copy fact (name, value) FROM 'facts'
CREATE TABLE cold (call int, us float8);
\copy cold FROM 'cold'

-- Of handle's speed to each other variant's in the same round.
CREATE VIEW ratio AS
	SELECT min(s.no) AS no, cell, s.variant, percentile_cont(0.5) WITHIN GROUP (ORDER BY s.per_second) AS per_second,
		   percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY h.per_second / s.per_second) AS ratio
	FROM speed AS s JOIN speed AS h USING (cell, round) WHERE h.variant = 'handle' GROUP BY 2, 3;
-- Of the speed in a cell to that in another one in the same round.
CREATE FUNCTION cells_ratio(cell text, other text, variant text DEFAULT 'handle') RETURNS float8 LANGUAGE sql RETURN (
	SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a.per_second / b.per_second)
	FROM speed AS a JOIN speed AS b USING (variant, round) WHERE a.cell = $1 AND b.cell = $2 AND a.variant = $3);
CREATE FUNCTION fact(name text) RETURNS float8 LANGUAGE sql RETURN (SELECT max(value) FROM fact WHERE fact.name = $1);

\echo
\echo Calls per second, and handle_notify in proportion
SELECT cell, variant, round(per_second) AS "calls/s", round(ratio[2]::numeric, 2) AS "handle/it",
	   round(ratio[1]::numeric, 2) AS lower_quartile, round(ratio[3]::numeric, 2) AS upper_quartile
FROM ratio ORDER BY min(no) OVER (PARTITION BY cell), per_second DESC;

\echo Figures
SELECT name, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY value)::numeric, 3)::float8 AS figure, max(value)::float8 AS largest
FROM fact GROUP BY name ORDER BY min(no);

\echo The SELECT of any claim among 10^7: its rate, of that among 10^4
SELECT round(cells_ratio('replay of any, 10^7 claims', 'replay of any, 10^4 claims', 'select')::numeric, 2) AS ratio;

\echo A purge beside new notifications: their rate, of that before
SELECT round(cells_ratio('new, 10^7 claims, beside a purge', 'new, 10^7 claims, before a purge')::numeric, 2) AS ratio;

\echo The first calls of a new connection, in microseconds
SELECT call, percentile_cont(0.5) WITHIN GROUP (ORDER BY us) AS us FROM cold GROUP BY call ORDER BY call;

\echo Targets
SELECT target, round(measured::numeric, 2) AS measured, CASE WHEN at_most THEN 'at most' ELSE 'at least' END AS wanted, round(bound, 2) AS " ",
	   CASE WHEN CASE WHEN at_most THEN measured <= bound ELSE measured >= bound END THEN 'met' ELSE 'missed' END AS result
FROM (SELECT t.no, format('%s: of %s''s rate', cell, variant) AS target, ratio[2] AS measured, t.bound, false AS at_most
	  FROM (VALUES (1, 'replay', 'nothing', 0.85), (2, 'replay', 'plpgsql', 1.9), (10, 'new', 'plpgsql', 1.15), (11, 'new', 'cte', 1.05),
				   (12, 'new', 'client', 2.2), (13, 'new', 'insert', 0.60), (14, 'new, 0.5 ms of network', 'client', 5),
				   (30, 'replay, 1 MB', 'hash', 1 / 1.3)) AS t (no, cell, variant, bound)
	  JOIN ratio USING (cell, variant)
	  UNION ALL
	  SELECT no, format('%s: of the rate with %s', cell, other), cells_ratio(cell, other), bound, false
	  FROM (VALUES (20, 'replay, 10^7 claims', 'replay, 10^4 claims', 1 / 1.3), (21, 'new, 10^7 claims', 'new, 10^4 claims', 1 / 1.3),
				   (22, 'replay of any, 10^7 claims', 'replay of any, 10^4 claims', 1 / 1.3),
				   (40, 'hot order, 32 clients', 'hot order, 2 clients', 0.6)) AS t (no, cell, other, bound)
	  UNION ALL
	  SELECT no, name, fact(name), bound, true
	  FROM (VALUES (3, 'instructions per replay', 25000), (4, 'WAL bytes per replay', 0), (5, 'transaction numbers per replay', 0),
				   (15, 'WAL bytes per new notification', 1200), (16, 'transaction numbers per new notification', 1),
				   (17, 'multixacts per new notification', 0), (18, 'dead claims', 0),
				   (41, 'BUSY of one hot order, 32 clients, %', 8), (42, 'BUSY of one hot key, 32 clients, %', 0)) AS t (no, name, bound)) AS t
WHERE measured IS NOT NULL ORDER BY no;
