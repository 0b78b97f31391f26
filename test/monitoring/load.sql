-- What a client of test/monitoring/run sends again and again.
\set i :i + 1
SELECT count(handle_notify('L:client_id.:i', 'push', 'O:client_id', 'a'::bytea, 'shop'));
SELECT count(handle_notify('L:client_id.:i', 'push', 'O:client_id', (CASE WHEN :i % 10 = 0 THEN 'b' ELSE 'a' END)::bytea, 'shop'));
BEGIN;
SELECT count(handle_notify('L:client_id.:i', 'push', 'O:client_id', (CASE WHEN :i % 20 = 0 THEN 'b' ELSE 'a' END)::bytea, 'shop'));
ROLLBACK;
