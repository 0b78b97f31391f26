-- DDL and changed declarations between two calls: the next call sees them.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE SEQUENCE txn;
CREATE FUNCTION pay(ord text) RETURNS text LANGUAGE sql AS $$
	SELECT attempt(format($q$SELECT outcome || ' ' || coalesce(result::text, '') FROM handle_notify('T%s', 'PAY', %L, 'b')$q$, nextval('txn'), ord)) $$;
CREATE TABLE biz_order (order_no int PRIMARY KEY, status text);
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 50) AS n;
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT pay('1');

-- the table
ALTER TABLE biz_order ADD extra int DEFAULT 1;
SELECT pay('2');
ALTER TABLE biz_order RENAME TO renamed;
SELECT pay('3');
CREATE SCHEMA elsewhere;
ALTER TABLE renamed SET SCHEMA elsewhere;
SELECT pay('4');
ALTER SCHEMA elsewhere RENAME TO somewhere;
SELECT pay('5');
ALTER TABLE somewhere.renamed SET SCHEMA public;
ALTER TABLE renamed RENAME TO biz_order;
SELECT pay('6');
ALTER TABLE biz_order ALTER order_no TYPE bigint, ALTER status TYPE varchar(10);
SELECT pay('7');
ALTER TABLE biz_order DROP CONSTRAINT biz_order_pkey;
SELECT pay('8');
INSERT INTO biz_order VALUES (9, 'PENDING');
SELECT pay('9');
DELETE FROM biz_order WHERE order_no = 9 AND extra IS NOT NULL AND ctid = (SELECT min(ctid) FROM biz_order WHERE order_no = 9);
ALTER TABLE biz_order ADD UNIQUE (order_no);
SELECT pay('9');
CREATE UNIQUE INDEX ON biz_order (status, order_no);
SELECT pay('10');
VACUUM FULL biz_order;
SELECT pay('11');
REINDEX TABLE notify_claim;
VACUUM FULL notify_claim, notify_outbox;
SELECT pay('12');
ALTER TABLE biz_order SET UNLOGGED;
SELECT pay('13');
ALTER TABLE biz_order SET LOGGED;
SELECT pay('13');
CREATE TABLE heir () INHERITS (biz_order);
SELECT pay('14');
DROP TABLE heir;
SELECT pay('14');

-- a partition of a partition
CREATE TABLE tree (k int, region text, s text, PRIMARY KEY (k, region)) PARTITION BY LIST (region);
CREATE TABLE tree_eu PARTITION OF tree FOR VALUES IN ('EU') PARTITION BY RANGE (k);
CREATE TABLE tree_eu_1 PARTITION OF tree_eu FOR VALUES FROM (1) TO (100);
INSERT INTO tree SELECT n, 'EU', 'PENDING' FROM generate_series(1, 9) AS n;
SELECT notify_machine_add('tree', 'k', 's', machine => 'tree'), notify_transition_add('LEAF', 'PENDING', 'PAID', machine => 'tree');
SELECT outcome FROM handle_notify('L1', 'LEAF', '1', 'b');
ALTER TABLE tree_eu_1 SET UNLOGGED;
SELECT attempt($$SELECT outcome FROM handle_notify('L2', 'LEAF', '2', 'b')$$);
ALTER TABLE tree_eu_1 SET LOGGED;
SELECT outcome FROM handle_notify('L2', 'LEAF', '2', 'b');
SELECT notify_machine_drop('tree');
DROP TABLE tree;

-- an operator whose schema is renamed, and that moves to another one
CREATE SCHEMA ops;
CREATE OPERATOR ops.= (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq);
CREATE OPERATOR ops.< (LEFTARG = text, RIGHTARG = text, FUNCTION = text_lt);
CREATE OPERATOR CLASS ops.text_ops FOR TYPE text USING btree AS OPERATOR 1 ops.<, OPERATOR 3 ops.=, FUNCTION 1 bttextcmp(text, text);
CREATE TABLE own_ops (k text NOT NULL, s text);
CREATE UNIQUE INDEX ON own_ops (k ops.text_ops);
INSERT INTO own_ops SELECT n, 'PENDING' FROM generate_series(1, 9) AS n;
SELECT notify_machine_add('own_ops', 'k', 's', machine => 'ops'), notify_transition_add('OPS', 'PENDING', 'PAID', machine => 'ops');
SELECT outcome FROM handle_notify('P1', 'OPS', '1', 'b');
ALTER SCHEMA ops RENAME TO ops2;
SELECT outcome FROM handle_notify('P2', 'OPS', '2', 'b');
ALTER OPERATOR ops2.= (text, text) SET SCHEMA somewhere;
SELECT outcome FROM handle_notify('P3', 'OPS', '3', 'b');
SELECT notify_machine_drop('ops');
DROP TABLE own_ops;
DROP SCHEMA ops2 CASCADE;
DROP OPERATOR somewhere.= (text, text);

-- its columns
ALTER TABLE biz_order RENAME status TO state;
SELECT pay('15');
SELECT notify_machine_set('biz_order', status_column => 'state');
SELECT pay('15');
ALTER TABLE biz_order DROP COLUMN state;
SELECT pay('16');
ALTER TABLE biz_order ADD state text DEFAULT 'PENDING';
SELECT pay('16');
CREATE TYPE order_state AS ENUM ('PENDING', 'PAID');
ALTER TABLE biz_order ALTER state DROP DEFAULT, ALTER state TYPE order_state USING state::order_state;
SELECT pay('17');
-- a label that is gone is an error that names the machine, not a guess
ALTER TYPE order_state RENAME VALUE 'PAID' TO 'SETTLED';
SELECT pay('18');
SELECT outcome FROM handle_notify('T0', 'PAY', '18', 'b');
UPDATE notify_transition SET to_status = 'SETTLED' WHERE to_status = 'PAID';
SELECT pay('18');
ALTER TYPE order_state ADD VALUE 'SHIPPED';
SELECT notify_transition_add('SHIP', 'SETTLED', 'SHIPPED');
SELECT attempt($$SELECT outcome FROM handle_notify('S', 'SHIP', '18', 'b')$$);

-- declarations, by plain DML too
UPDATE notify_transition SET message_type = 'OTHER' WHERE event_type = 'PAY';
SELECT pay('19');
SELECT type FROM notify_outbox ORDER BY seq DESC LIMIT 1;
DELETE FROM notify_transition WHERE event_type = 'PAY';
SELECT pay('20');
INSERT INTO notify_transition VALUES ('biz_order', 'PAY', 'PENDING', 'SETTLED');
SELECT pay('20');
UPDATE notify_event SET event_type = 'PAY2' WHERE event_type = 'PAY';
SELECT pay('21');
UPDATE notify_event SET event_type = 'PAY' WHERE event_type = 'PAY2';
SELECT pay('21');
UPDATE notify_machine SET machine = 'm2';
SELECT pay('22');
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
UPDATE notify_event SET machine = 'm2';
UPDATE notify_transition SET machine = 'm2';
SELECT pay('22');
SELECT DISTINCT aggregatetype FROM notify_outbox;
TRUNCATE notify_transition;
SELECT pay('23');
INSERT INTO notify_transition VALUES ('m2', 'PAY', 'PENDING', 'SETTLED', 'M');
SELECT pay('23');
SET session_replication_role = replica;
DELETE FROM notify_transition;
RESET session_replication_role;
SELECT pay('24');
INSERT INTO notify_transition VALUES ('m2', 'PAY', 'PENDING', 'SETTLED', 'M');

-- another table takes the name: two living tables are one too many
CREATE TABLE new_order (order_no int PRIMARY KEY, state order_state);
INSERT INTO new_order VALUES (1, 'PENDING'), (2, 'PENDING'), (3, 'PENDING');
BEGIN;
ALTER TABLE biz_order RENAME TO old_order;
SELECT pay('25');
ALTER TABLE new_order RENAME TO biz_order;
SELECT pay('26');
ROLLBACK;
SELECT pay('25');
ALTER TABLE biz_order RENAME TO old_order;
ALTER TABLE new_order RENAME TO biz_order;
SELECT pay('27');
SELECT count(*) FROM biz_order WHERE state <> 'PENDING';
SELECT notify_machine_set('m2', 'biz_order');
SELECT pay('1');
SELECT pay('27');
-- the table is gone, and comes back under its name
DROP TABLE biz_order;
SELECT pay('1');
SELECT attempt($$SELECT * FROM notify_machine_check('m2')$$);
SELECT attempt($$SELECT notify_machine_set('m2', status_column => 'x')$$);
CREATE TABLE biz_order (order_no text PRIMARY KEY, state text);
INSERT INTO biz_order VALUES ('A', 'PENDING');
SELECT pay('A');
SELECT pay('A');

-- sessions that share nothing but the backend
DISCARD PLANS;
INSERT INTO biz_order VALUES ('B', 'PENDING'), ('C', 'PENDING'), ('D', 'PENDING');
SELECT pay('B');
SET search_path = pg_catalog;
SELECT public.handle_notify('P1', 'PAY', 'C', 'b') IS NOT NULL;
SET search_path = public, somewhere;
SELECT pay('D');
RESET search_path;
DISCARD ALL;
SELECT pay('D');
SET client_min_messages = warning;

DROP TABLE biz_order, old_order;
DROP TYPE order_state;
DROP SCHEMA somewhere;
DROP FUNCTION pay, attempt;
DROP SEQUENCE txn;
DROP EXTENSION notify_claim CASCADE;
