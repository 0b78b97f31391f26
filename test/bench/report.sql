-- The report of test/bench/memory. Reads errors.copy, what the session printed on
-- stderr, and leaks, the server log's warnings about leaks.
\pset pager off
\pset footer off
\pset border 0
\pset null ''

CREATE TABLE bench.error (line text);
\copy bench.error FROM 'errors.copy' (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')
CREATE TABLE bench.leak (line text);
\copy bench.leak FROM 'leaks' (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')

\echo
\echo Calls
SELECT name AS kind, expected, calls, statements AS "as statements", surprises
	FROM bench.kind ORDER BY expected ~ '\d', no;
SELECT sum(calls) AS calls, sum(calls) FILTER (WHERE expected ~ '\d') AS raised,
	   sum(statements) AS "as statements", sum(surprises) AS surprises
	FROM bench.kind;

-- What came to something else than its kind says.
CREATE VIEW bench.wrong AS
	SELECT name AS kind, got, count(*) FROM bench.surprise GROUP BY 1, 2
	UNION ALL
	SELECT 'statements', format('%s: %s instead of %s', sqlstate, coalesce(got, 0), coalesce(expected, 0)), 1
	FROM (SELECT coalesce(substring(line FROM 'ERROR:  (\w{5})$'), line) AS sqlstate, count(*) AS got
		  FROM bench.error GROUP BY 1) AS e
	FULL JOIN (SELECT expected AS sqlstate, sum(statements) AS expected
			   FROM bench.kind WHERE statements > 0 GROUP BY 1) AS k USING (sqlstate)
	WHERE got IS DISTINCT FROM expected;
SELECT * FROM bench.wrong LIMIT 20;

SELECT min(calls) AS "from", (SELECT max(calls) FROM bench.sample) AS "to"
	FROM bench.sample WHERE calls >= :calls / 10 \gset

\echo Memory contexts of which more bytes are in use than after :from calls, and the one of them that grew most
WITH grown AS (
	SELECT name, ident, coalesce(b.n, 0) - coalesce(a.n, 0) AS n,
		   coalesce(b.total, 0) - coalesce(a.total, 0) AS total, coalesce(b.used, 0) - coalesce(a.used, 0) AS used
	FROM (SELECT * FROM bench.context WHERE calls = :from) AS a
	FULL JOIN (SELECT * FROM bench.context WHERE calls = :to) AS b USING (name, ident)
)
SELECT name, sum(n) AS contexts, sum(total) AS total, sum(used) AS used,
	   left(regexp_replace((array_agg(ident ORDER BY used DESC))[1], '\s+', ' ', 'g'), 60) AS ident, max(used) AS "its used"
	FROM grown GROUP BY name HAVING sum(used) >= 256 ORDER BY sum(used) DESC LIMIT 20;

\pset tuples_only on
\pset format unaligned
SELECT DISTINCT regexp_replace(line, '^.*WARNING: *', '') FROM bench.leak LIMIT 10;
-- Allocators and catalog caches move by some hundred kilobytes from sample to sample,
-- so medians over the second to fourth and the last three tenths of the calls are
-- compared. A leak of 3 bytes in each call, or of 200 in the rarest kind of call,
-- would show.
WITH sums AS (
	SELECT s.calls, s.rss, (SELECT sum(c.used) FROM bench.context AS c WHERE c.calls = s.calls) AS used FROM bench.sample AS s
), medians AS (
	SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY rss) FILTER (WHERE calls >= :calls * 0.7)
		   - percentile_cont(0.5) WITHIN GROUP (ORDER BY rss) FILTER (WHERE calls BETWEEN :calls * 0.1 AND :calls * 0.4) AS rss,
		   percentile_cont(0.5) WITHIN GROUP (ORDER BY used) FILTER (WHERE calls >= :calls * 0.7)
		   - percentile_cont(0.5) WITHIN GROUP (ORDER BY used) FILTER (WHERE calls BETWEEN :calls * 0.1 AND :calls * 0.4) AS used
	FROM sums
)
SELECT CASE WHEN rss < 1365 AND used < 87381 AND NOT EXISTS (SELECT FROM bench.wrong) AND NOT EXISTS (SELECT FROM bench.leak)
			THEN 'flat' ELSE 'NOT flat' END
	   || format(': over %s calls RssAnon grew by %s kB, the memory contexts by %s kB in use; warnings about leaks in the log: %s; calls that came to something else than expected: %s',
				 (:calls * 0.6)::bigint, round(rss), round(used / 1024), (SELECT count(*) FROM bench.leak), (SELECT count(*) FROM bench.wrong))
	FROM medians;
