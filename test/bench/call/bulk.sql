-- All of a staging table in one statement; prints facts.
SET client_min_messages = warning;
SET synchronous_commit = off;
\pset fieldsep '\t'
CREATE FUNCTION rss_anon() RETURNS bigint LANGUAGE sql RETURN
	substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\s*(\d+) kB')::bigint;
CREATE TABLE staging (txn text, order_no text, body bytea);
INSERT INTO staging SELECT 5000000000000000000 + n, 1000000000001 + n % 100000, '{"event":"payment.succeeded","amount":"10.00"}'
	FROM generate_series(1, 1100000) AS n;
VACUUM ANALYZE staging;
BEGIN;
SELECT count(*) AS applied FROM (SELECT * FROM staging LIMIT 100000) AS s, LATERAL handle_notify(s.txn, 'pay', s.order_no, s.body) AS h WHERE h.outcome = 'APPLIED' \gset
SELECT rss_anon() AS before \gset
COMMIT;
BEGIN;
SELECT clock_timestamp() AS start \gset
SELECT count(*) AS applied FROM (SELECT * FROM staging OFFSET 100000) AS s, LATERAL handle_notify(s.txn, 'pay', s.order_no, s.body) AS h WHERE h.outcome = 'APPLIED' \gset
SELECT extract(epoch FROM clock_timestamp() - :'start') AS seconds \gset
SELECT count(*) AS locks FROM pg_locks WHERE pid = pg_backend_pid() \gset
COMMIT;
SELECT 'notifications of one statement', :applied
UNION ALL SELECT 'notifications per second of one statement', round(:applied / :seconds)
UNION ALL SELECT 'locks of one statement', :locks
UNION ALL SELECT 'RssAnon after it, more than after a tenth of it, kB', rss_anon() - :before;
DROP TABLE staging;
