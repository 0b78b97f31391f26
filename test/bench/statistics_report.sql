-- The report of test/bench/statistics. Reads what was measured, the file speeds.
\pset pager off
\pset footer off
\pset border 0
\pset format aligned
\pset tuples_only off
CREATE TABLE speed (script text, counted float8, plain float8);
\copy speed FROM 'speeds'
SELECT script AS notification, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY counted)) AS "calls/s counted",
	   round(percentile_cont(0.5) WITHIN GROUP (ORDER BY plain)) AS "calls/s without",
	   round(ratio[2]::numeric, 3) AS ratio, round(ratio[1]::numeric, 3) AS lower_quartile, round(ratio[3]::numeric, 3) AS upper_quartile
FROM speed JOIN (SELECT script, percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY counted / plain) AS ratio
	FROM speed GROUP BY 1) AS r USING (script)
GROUP BY script, ratio ORDER BY script DESC;
