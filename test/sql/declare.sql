-- Declaring machines, events and transitions.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text, pay_status text);

-- a machine is named after its table; the identical thing again does nothing, a contradiction is refused
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'status')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'status')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'pay_status')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'pay_status', machine => 'pay')$$);
SELECT * FROM notify_machine ORDER BY machine;

-- machine => defaults to the event's, else to the only one
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'PAID')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'PAID', 'ORDER_PAID', machine => 'pay')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'FAILED', 'PAID', 'ORDER_PAID')$$);
SELECT attempt($$SELECT notify_transition_add(NULL, 'PAID', 'SETTLED')$$);
SELECT attempt($$SELECT notify_transition_add(NULL, 'PAID', 'SETTLED', machine => 'pay')$$);
SELECT attempt($$SELECT notify_transition_add(NULL, 'PAID', 'SETTLED', machine => 'pay')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'PAID', 'ORDER_PAID')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'PAID', 'OTHER')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'SETTLED', 'ORDER_PAID')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'PAID', machine => 'biz_order')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', NULL, NULL)$$);
SELECT attempt($$SELECT notify_transition_add('PAY', NULL, NULL)$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'X', 'Y', machine => 'nobody')$$);
SELECT * FROM notify_event ORDER BY event_type;
SELECT * FROM notify_transition ORDER BY event_type, from_status, to_status;

-- steps that say nothing
SELECT attempt($$SELECT notify_transition_add(NULL, 'PAID', NULL, machine => 'pay')$$);
SELECT attempt($$SELECT notify_transition_add(NULL, 'PAID', 'X', 'MESSAGE', machine => 'pay')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PAID', 'PAID')$$);
SELECT attempt($$SELECT notify_transition_add('P:Y', 'PAID', 'X')$$);
SELECT attempt($$SELECT notify_transition_add(' ', 'PAID', 'X')$$);
SELECT attempt(format($$SELECT notify_transition_add(%L, 'PAID', 'X', machine => 'pay')$$, repeat('x', 159)));

SELECT attempt($$SELECT notify_transition_add('PAY', 'X', 'Y', ' ')$$);

-- events
SELECT attempt($$SELECT notify_event_add('push', message_type => '')$$);
SELECT attempt($$SELECT notify_event_add('push', message_type => 'PUSHED')$$);
SELECT attempt($$SELECT notify_event_add('push', message_type => 'PUSHED')$$);
SELECT attempt($$SELECT notify_event_add('push', message_type => 'PUSHED', on_early => 'park')$$);
SELECT attempt($$SELECT notify_event_add('push')$$);
SELECT attempt($$SELECT notify_event_add('push', machine => 'pay')$$);
SELECT attempt($$SELECT notify_transition_add('push', 'X', 'Y', machine => 'pay')$$);
SELECT attempt($$SELECT notify_event_add('odd', message_type => 'M', machine => 'pay')$$);
SELECT attempt($$SELECT notify_event_add('odd', on_early => 'wait')$$);
SELECT attempt($$SELECT notify_event_add('odd', machine => 'nobody')$$);
SELECT attempt($$SELECT notify_event_add(NULL)$$);
SELECT attempt($$SELECT notify_event_set('push', message_type => 'PUSHED2', on_early => 'skip')$$);
SELECT attempt($$SELECT notify_event_set('push')$$);
SELECT * FROM notify_event WHERE event_type = 'push';
SELECT attempt($$SELECT notify_event_set('push', message_type => '')$$);
SELECT * FROM notify_event WHERE event_type = 'push';
SELECT attempt($$SELECT notify_event_set('push', on_early => 'wait')$$);
SELECT attempt($$SELECT notify_event_set('PAY', message_type => 'M')$$);
SELECT attempt($$SELECT notify_event_set('nothing', on_early => 'skip')$$);
SELECT attempt($$SELECT notify_event_set(NULL, on_early => 'skip')$$);

-- dropping, also where a publication asks for a replica identity
SET client_min_messages = error;
CREATE PUBLICATION everything FOR ALL TABLES;
SET client_min_messages = warning;
SELECT attempt($$SELECT notify_transition_drop('PAY', 'PENDING', 'SETTLED')$$);
SELECT attempt($$SELECT notify_transition_drop('PAY', 'PENDING', 'PAID')$$);
SELECT attempt($$SELECT notify_transition_drop('PAY', 'PENDING', 'PAID')$$);
SELECT attempt($$SELECT notify_transition_drop('PAY', NULL, NULL)$$);
SELECT attempt($$SELECT notify_transition_drop(NULL, 'PAID', 'SETTLED', machine => 'pay')$$);
SELECT attempt($$SELECT notify_event_drop('PAY')$$);
SELECT attempt($$SELECT notify_event_drop('PAY')$$);
SELECT attempt($$SELECT notify_event_drop(NULL)$$);
SELECT attempt($$SELECT notify_machine_drop('pay')$$);
SELECT attempt($$SELECT notify_machine_drop('pay')$$);
SELECT attempt($$SELECT notify_machine_drop(NULL)$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'PAID', 'ORDER_PAID')$$);
SELECT attempt($$SELECT notify_machine_drop('biz_order')$$);
SELECT (SELECT count(*) FROM notify_machine), (SELECT count(*) FROM notify_transition), (SELECT array_agg(event_type) FROM notify_event);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'PAID')$$);

DROP PUBLICATION everything;

-- names
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'status', machine => 'event')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'status', machine => 'notify_review')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'status', machine => '')$$);
SELECT attempt(format($$SELECT notify_machine_add('biz_order', 'order_no', 'status', machine => %L)$$, repeat('x', 65)));
CREATE TABLE event (k text PRIMARY KEY, s text);
SELECT attempt($$SELECT notify_machine_add('event', 'k', 's')$$);
DROP TABLE event;
-- plain DML cannot say more than the functions
SELECT attempt($$INSERT INTO notify_machine VALUES ('event', 'biz_order', 'public.biz_order', 'order_no', 'status')$$);
SELECT attempt($$INSERT INTO notify_event VALUES ('a:b')$$);
SELECT attempt($$INSERT INTO notify_event VALUES (E' \t')$$);
SELECT attempt($$INSERT INTO notify_event VALUES ('a', NULL, NULL, 'wait')$$);
SELECT attempt($$INSERT INTO notify_event VALUES ('a', NULL, '')$$);
SELECT attempt($$INSERT INTO notify_transition VALUES ('nobody', 'a', 'b', 'b')$$);
SELECT attempt($$INSERT INTO notify_transition VALUES ('nobody', 'a', 'b', 'c', '')$$);

-- tables and columns that are refused, with a reason
SELECT attempt($$SELECT notify_machine_add(NULL, 'order_no', 'status')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', NULL, 'status')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', NULL)$$);
SELECT attempt($$SELECT notify_machine_add(0, 'order_no', 'status')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'nothing', 'status')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'nothing')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'xmin')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order', 'order_no', 'order_no')$$);
CREATE VIEW a_view AS TABLE biz_order;
SELECT attempt($$SELECT notify_machine_add('a_view', 'order_no', 'status')$$);
CREATE MATERIALIZED VIEW a_matview AS TABLE biz_order;
SELECT attempt($$SELECT notify_machine_add('a_matview', 'order_no', 'status')$$);
SELECT attempt($$SELECT notify_machine_add('biz_order_pkey', 'order_no', 'status')$$);
CREATE TEMP TABLE a_temp (k int PRIMARY KEY, s text);
SELECT attempt($$SELECT notify_machine_add('a_temp', 'k', 's')$$);
CREATE UNLOGGED TABLE an_unlogged (k int PRIMARY KEY, s text);
SELECT attempt($$SELECT notify_machine_add('an_unlogged', 'k', 's')$$);
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE a_foreign (k int, s text) SERVER nowhere;
SELECT attempt($$SELECT notify_machine_add('a_foreign', 'k', 's')$$);
CREATE TABLE parent (k int PRIMARY KEY, s text);
CREATE TABLE child () INHERITS (parent);
SELECT attempt($$SELECT notify_machine_add('parent', 'k', 's')$$);
CREATE TABLE generated (k int PRIMARY KEY, n int, s text GENERATED ALWAYS AS ('x') STORED, i int GENERATED ALWAYS AS IDENTITY, j json, p point);
SELECT attempt($$SELECT notify_machine_add('generated', 'k', 's')$$);
SELECT attempt($$SELECT notify_machine_add('generated', 'k', 'i')$$);
SELECT attempt($$SELECT notify_machine_add('generated', 'k', 'j')$$);
SELECT attempt($$SELECT notify_machine_add('generated', 'p', 'n')$$);
CREATE TABLE by_status (k int, s text, at date) PARTITION BY LIST (s);
SELECT attempt($$SELECT notify_machine_add('by_status', 'k', 's')$$);
CREATE TABLE by_time (k int, s text, at date) PARTITION BY RANGE (at);
CREATE TABLE by_time_1 PARTITION OF by_time FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY LIST (s);
CREATE TABLE by_time_1_paid PARTITION OF by_time_1 FOR VALUES IN ('PAID');
SELECT attempt($$SELECT notify_machine_add('by_time', 'k', 's')$$);
SELECT attempt($$SELECT notify_machine_add('by_time_1_paid', 'k', 's')$$);
CREATE TABLE with_foreign (k int, s text) PARTITION BY RANGE (k);
CREATE FOREIGN TABLE with_foreign_1 PARTITION OF with_foreign FOR VALUES FROM (1) TO (10) SERVER nowhere;
SELECT attempt($$SELECT notify_machine_add('with_foreign', 'k', 's')$$);
CREATE TABLE with_unlogged (k int, s text) PARTITION BY RANGE (k);
CREATE UNLOGGED TABLE with_unlogged_1 PARTITION OF with_unlogged FOR VALUES FROM (1) TO (10);
SELECT attempt($$SELECT notify_machine_add('with_unlogged', 'k', 's')$$);
SELECT attempt($$SELECT notify_machine_add('pg_catalog.pg_class', 'oid', 'relkind')$$);
SELECT attempt($$SELECT notify_machine_add('notify_claim', 'id', 'claim_state')$$);
SELECT count(*) FROM notify_machine;

-- what stands out is told after each declaration, and on request
SET client_min_messages = notice;
INSERT INTO biz_order VALUES ('1', 'PENDING'), ('2', 'LOST'), ('3', NULL);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', 'ORDER_PAID');
SET client_min_messages = warning;
SELECT notify_transition_add('PAY', 'PAID', NULL), notify_transition_add('UNDO', 'PAID', 'PENDING'), notify_transition_add('SHIP', 'PAID', 'SHIPPED');
SELECT * FROM notify_machine_check('biz_order');
SELECT attempt($$SELECT * FROM notify_machine_check('nobody')$$);
SELECT attempt($$SELECT * FROM notify_machine_check(NULL)$$);

-- pointing a machine elsewhere
CREATE TABLE other_order (ref text PRIMARY KEY, state text);
SELECT attempt($$SELECT notify_machine_set('biz_order', status_column => 'pay_status')$$);
SELECT * FROM notify_machine;
SELECT attempt($$SELECT notify_machine_set('biz_order', 'other_order')$$);
SELECT attempt($$SELECT notify_machine_set('biz_order', 'other_order', 'ref', 'state')$$);
SELECT * FROM notify_machine;
SELECT attempt($$SELECT notify_machine_set('nobody', 'other_order', 'ref', 'state')$$);
SELECT attempt($$SELECT notify_machine_set('biz_order', 'a_view', 'order_no', 'status')$$);
SELECT attempt($$SELECT notify_machine_set(NULL)$$);

SET client_min_messages = error;
DROP SERVER nowhere CASCADE;
DROP FOREIGN DATA WRAPPER nowhere;
DROP VIEW a_view;
DROP MATERIALIZED VIEW a_matview;
DROP TABLE biz_order, other_order, a_temp, an_unlogged, parent, child, generated, by_status, by_time, with_foreign, with_unlogged;
DROP FUNCTION attempt;
DROP EXTENSION notify_claim CASCADE;
