-- Bad input raises, with an SQLSTATE to act on, and keeps nothing.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no integer PRIMARY KEY, status text);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID');
SELECT notify_event_add('push');
INSERT INTO biz_order VALUES (1, 'PENDING');

-- also: an error inside an exception block leaves nothing behind
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE FUNCTION deliver(txn text, event text, ord text, body text DEFAULT 'b', ch text DEFAULT 'default') RETURNS text LANGUAGE sql AS $$
	SELECT attempt(format('SELECT outcome FROM handle_notify(%L, %L, %L, %L::bytea, %L)', txn, event, ord, body, ch)) $$;

-- case 23: null, empty, blank
SELECT deliver(NULL, 'PAY', '1');
SELECT deliver('T', NULL, '1');
SELECT deliver('T', 'PAY', NULL);
SELECT deliver('T', 'PAY', '1', NULL);
SELECT deliver('T', 'PAY', '1', 'b', NULL);
SELECT deliver('', 'PAY', '1');
SELECT deliver('T', '', '1');
SELECT deliver('T', 'PAY', '');
SELECT deliver(E' \t\r\n', 'PAY', '1');
SELECT deliver('T', E'\n', '1');
SELECT deliver('T', 'PAY', '   ');

-- a colon separates the parts of the key
SELECT deliver('T', 'PAY:DONE', '1');
SELECT deliver('T:1', 'push', '1');
SELECT biz_key FROM notify_claim;

-- case 21: one limit, one error, in characters
SELECT deliver(repeat('x', 10000), 'PAY', '1');
SELECT deliver(string_agg(md5(n::text), ''), 'PAY', '1') FROM generate_series(1, 313) AS n;
SELECT deliver(repeat('x', 100000), 'PAY', '1');
SELECT deliver(repeat('x', 157), 'PAY', '1');
SELECT deliver(repeat('货', 155), 'push', '1');
SELECT length(biz_key), octet_length(biz_key) FROM notify_claim WHERE biz_key LIKE '货%';
SELECT deliver('T', repeat('E', 160), '1');
SELECT deliver('T', 'PAY', repeat('1', 65));
SELECT deliver('T', 'push', repeat('货', 64));

-- the channel, and what the key column's type refuses
SELECT deliver('T', 'PAY', '1', 'b', 'stripe');
SELECT deliver('T', 'PAY', 'one');
SELECT deliver('T', 'PAY', '99999999999');

-- nothing of this was kept, and none of it spoiled what comes after
SELECT count(*) FROM notify_claim;
SELECT deliver('T', 'PAY', '1');

-- case 24: keys are compared bytewise, never trimmed or folded
SELECT deliver(t, 'push', '1') FROM (VALUES ('case'), ('Case'), ('case '), (' case'), ('e' || U&'\0301'), (U&'\00e9')) AS k(t);
SELECT octet_length(biz_key), replace(biz_key, U&'\0301', '+') AS key FROM notify_claim WHERE length(biz_key) BETWEEN 6 AND 10 ORDER BY id;
SELECT outcome, replayed FROM handle_notify('case', 'push', '1', 'b');

-- an event type is declared by its exact name
SELECT deliver('T', 'Push', '1');
SELECT deliver('T', 'push ', '1');

DROP TABLE biz_order;
DROP FUNCTION deliver, attempt;
DROP EXTENSION notify_claim CASCADE;
