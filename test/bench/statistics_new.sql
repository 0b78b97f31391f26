-- A new notification, for test/bench/statistics.
SELECT h.* FROM nextval('fresh') AS n, LATERAL handle_notify('N' || n, 'push', 'O' || n, '{"id": 1}'::bytea) AS h;
