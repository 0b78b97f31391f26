-- One sample of the backend's memory, for test/bench/memory. The backend is idle
-- while the first line runs. :calls is how many calls it has made.
\set rss `sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' /proc/$BACKEND/status`
INSERT INTO bench.sample VALUES (:calls, clock_timestamp(), :rss);
INSERT INTO bench.context
	SELECT :calls, name, coalesce(ident, ''), count(*), sum(total_bytes), sum(used_bytes)
	FROM pg_backend_memory_contexts GROUP BY 2, 3;
SELECT bench.sample_line(:calls);
