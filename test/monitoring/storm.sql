-- A peer that sends again what it has sent, for test/monitoring/run.
\set i random(1, 500)
SELECT count(handle_notify('L0.:i', 'push', 'O0', 'a'::bytea, 'shop'));
