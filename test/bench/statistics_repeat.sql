-- A repeat, for test/bench/statistics.
\set n random(1, 10000)
SELECT * FROM handle_notify('T' || :n, 'push', 'O' || :n, '{"id": 1}'::bytea);
