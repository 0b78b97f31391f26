-- A repeat is found without the executor where the plan allows that; whatever the
-- table becomes in between, it is found.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
SELECT notify_event_add('push', 'PUSHED');
CREATE FUNCTION notify(txn text, body text DEFAULT 'a', order_no text DEFAULT 'O1', channel text DEFAULT 'default') RETURNS text LANGUAGE sql AS
	$$ SELECT outcome || CASE WHEN replayed THEN ' replayed' ELSE '' END FROM handle_notify(txn, 'push', order_no, body::bytea, channel) $$;
SELECT notify('T1'), notify('T1'), notify('T1', 'b'), notify('T1', 'a', 'O2');

-- by the rule of the claim, not by the one that the channel has now
SELECT notify_channel_add('shop', digest => 'json');
SELECT notify('T1', '{"a": 1}', channel => 'shop'), notify('T1', '{"a": 1 }', channel => 'shop');
SELECT notify_channel_set('shop', ignore => '{b}');
SELECT n, notify('T1', '{"a": 1, "b": 2}', channel => 'shop'), notify('T1', '{"a": 1}', channel => 'shop') FROM generate_series(1, 2) AS n;

-- in one statement, and what a savepoint takes back
SELECT n, notify('T2') FROM generate_series(1, 3) AS n;
BEGIN;
SAVEPOINT s;
SELECT notify('T3'), notify('T3');
ROLLBACK TO s;
SELECT notify('T3', 'b'), notify('T3', 'b');
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT notify('T4'), notify('T4'), notify('T1');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT notify('T5'), notify('T5'), notify('T1');
-- what was read is known to the others
SELECT count(*) > 0 AS predicate_locks FROM pg_locks WHERE mode = 'SIReadLock' AND relation = 'uk_biz_key'::regclass AND pid = pg_backend_pid();
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT notify('T1');
SELECT count(*) > 0 AS predicate_locks FROM pg_locks WHERE mode = 'SIReadLock' AND relation = 'uk_biz_key'::regclass AND pid = pg_backend_pid();
COMMIT;

-- the table rewritten, with another shape, with other indexes
VACUUM FULL notify_claim;
SELECT notify('T1');
CLUSTER notify_claim USING uk_biz_key;
SELECT notify('T1');
REINDEX TABLE notify_claim;
SELECT notify('T1');
ALTER TABLE notify_claim ADD COLUMN shop text DEFAULT 'main';
SELECT notify('T1'), notify('T6'), notify('T6');
ALTER TABLE notify_claim DROP COLUMN shop;
SELECT notify('T1'), notify('T6');
CREATE UNIQUE INDEX notify_claim_wide ON notify_claim (channel, biz_key) INCLUDE (order_no);
ALTER TABLE notify_claim DROP CONSTRAINT uk_biz_key;
SELECT notify('T1'), notify('T7'), notify('T7');
ALTER TABLE notify_claim ADD CONSTRAINT uk_biz_key UNIQUE (biz_key, channel);
DROP INDEX notify_claim_wide;
SELECT notify('T1'), notify('T7');
BEGIN;
ALTER TABLE notify_claim DROP CONSTRAINT uk_biz_key;
CREATE UNIQUE INDEX ON notify_claim (biz_key, channel);
SELECT notify('T1');
ROLLBACK;
SELECT notify('T1');

-- by an index that also finds others
BEGIN;
ALTER TABLE notify_claim DROP CONSTRAINT uk_biz_key;
CREATE INDEX ON notify_claim (biz_key);
SELECT notify('T1'), notify('T1', '{"a": 1}', channel => 'shop'), notify('T2');
ROLLBACK;

-- row level security that holds for others
ALTER TABLE notify_claim ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT notify('T1'), notify('T8'), notify('T8');
ALTER TABLE notify_claim DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;

-- the function changed
ALTER FUNCTION handle_notify(text, text, text, bytea, text, jsonb) COST 10;
SELECT notify('T1');

-- a partitioned table in its place
ALTER EXTENSION notify_claim DROP TABLE notify_claim;
ALTER TABLE notify_claim RENAME TO old_claim;
CREATE SEQUENCE claim_ids START 1000;
CREATE TABLE notify_claim (LIKE old_claim INCLUDING DEFAULTS, UNIQUE (biz_key, channel)) PARTITION BY HASH (biz_key);
ALTER TABLE notify_claim ALTER id SET DEFAULT nextval('claim_ids');
CREATE TABLE claim_0 PARTITION OF notify_claim FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE claim_1 PARTITION OF notify_claim FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT notify('T1'), notify('T1');
DELETE FROM notify_claim;
INSERT INTO notify_claim SELECT * FROM old_claim;
SELECT notify('T1'), notify('T1', 'b'), notify('T10'), notify('T10');
SELECT tableoid::regclass <> 'notify_claim'::regclass AS in_partition, count(*) > 0 AS found FROM notify_claim GROUP BY 1;
-- and purged: all but what is under an open review
CALL notify_purge(older_than => '1 microsecond', force => true);
SELECT array_agg(biz_key::text ORDER BY id) FROM notify_claim;
SELECT notify('T1'), notify('T10');
DROP TABLE notify_claim;
ALTER TABLE old_claim RENAME TO notify_claim;
SELECT notify('T1'), notify('T10');
DROP FUNCTION notify;
DROP EXTENSION notify_claim CASCADE;
DROP TABLE notify_claim;
DROP SEQUENCE claim_ids;
