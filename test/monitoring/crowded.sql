-- A database with more pairs of channel and event type than the statistics have room
-- for (notify_claim.max_stat_entries in test/monitoring/run), and calls without a
-- channel before and after they are full: the views have one row of NULLs for both.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
SELECT notify_grant('watcher', 'monitor');
SELECT notify_channel_add('channel ' || n) FROM generate_series(1, 20) AS n;
SELECT notify_event_add('push', 'PUSHED'), notify_event_add('pull', 'PULLED');
\set ON_ERROR_STOP off
SELECT FROM handle_notify('B1', NULL, '1', 'a'::bytea, NULL);
SELECT count(handle_notify('C', event_type, '1', 'a'::bytea, 'channel ' || n))
FROM generate_series(1, 20) AS n, (VALUES ('push'), ('pull')) AS e (event_type);
SELECT FROM handle_notify('B2', NULL, '1', 'a'::bytea, NULL);
