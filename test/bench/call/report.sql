-- The report of test/bench/call. Reads what was measured, the file speeds.
\pset pager off
\pset footer off
\pset border 0
\pset null ''
\pset format aligned
\pset tuples_only off
CREATE TABLE speed (cell text, variant text, round int, per_second float8);
\copy speed FROM 'speeds'

-- Of handle's speed to each other variant's in the same round.
CREATE VIEW ratio AS
	SELECT cell, s.variant, percentile_cont(0.5) WITHIN GROUP (ORDER BY s.per_second) AS per_second,
		   percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY h.per_second / s.per_second) AS ratio
	FROM speed AS s JOIN speed AS h USING (cell, round) WHERE h.variant = 'handle' GROUP BY 1, 2;

\echo
\echo Calls per second, and handle_notify in proportion
SELECT cell, variant, round(per_second) AS "calls/s", round(ratio[2]::numeric, 2) AS "handle/it",
	   round(ratio[1]::numeric, 2) AS lower_quartile, round(ratio[3]::numeric, 2) AS upper_quartile
FROM ratio ORDER BY cell DESC, per_second DESC;

\echo Targets
SELECT target, round(measured::numeric, 2) AS measured, wanted,
	   CASE WHEN measured >= wanted THEN 'met' ELSE 'missed' END AS result
FROM (VALUES ('replay', 'nothing', 0.85), ('replay', 'plpgsql', 1.9), ('new', 'plpgsql', 1.15), ('new', 'cte', 1.05),
			 ('new', 'client', 2.2), ('new', 'insert', 0.60)) AS t (cell, variant, wanted)
JOIN (SELECT cell, variant, format('%s: of %s''s rate', cell, variant) AS target, ratio[2] AS measured FROM ratio) AS r USING (cell, variant)
ORDER BY cell DESC, variant;
