-- Data for plots.gnuplot: medians, as blocks with names.
\pset tuples_only on
\pset format unaligned
\pset fieldsep ' '
CREATE VIEW median AS
	SELECT cell, variant, percentile_cont(0.5) WITHIN GROUP (ORDER BY per_second) AS per_second FROM speed GROUP BY 1, 2;
CREATE VIEW point AS
	SELECT format('clients-%s-%s', substring(cell FROM '^\w+'), variant) AS block,
		   COALESCE(substring(cell FROM '(\d+) clients'), '2')::float8 AS x, per_second
	FROM median WHERE cell ~ '^(replay|new)(, \d+ clients)?$' AND variant IN ('handle', 'plpgsql', 'nothing', 'insert')
	UNION ALL
	SELECT 'repeats-' || variant, CASE cell WHEN 'new' THEN 0 WHEN 'replay' THEN 100 ELSE substring(cell FROM '^\d+')::float8 END, per_second
	FROM median WHERE (cell IN ('new', 'replay') OR cell ~ 'repeats$') AND variant IN ('handle', 'plpgsql', 'cte', 'client')
	UNION ALL
	SELECT 'growth-' || substring(cell FROM '\w+(?=,)'), 10 ^ substring(cell FROM '10\^(\d)')::int, per_second
	FROM median WHERE cell ~ 'claims$' AND variant = 'handle';
SELECT format(E'# %s\n%s\n\n', block, string_agg(x || ' ' || per_second, E'\n' ORDER BY x)) FROM point GROUP BY block ORDER BY block;
