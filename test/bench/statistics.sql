-- What the servers of test/bench/statistics begin with.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
SELECT notify_event_add('push');
SELECT count(handle_notify('T' || n, 'push', 'O' || n, '{"id": 1}'::bytea)) FROM generate_series(1, 10000) AS n;
CREATE SEQUENCE fresh;
VACUUM ANALYZE;
