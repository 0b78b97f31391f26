-- The review queue: what goes there, and what people decide.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE biz_order (order_no int PRIMARY KEY, status text, amount numeric, version int DEFAULT 0);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('SHIP', 'PAID', 'SHIPPED');
SELECT notify_event_add('push', message_type => 'PUSHED');
SELECT notify_channel_add('json', digest => 'json', ignore => '{time}', keep_body => true);
SELECT notify_channel_add('form', preset => 'alipay');
SELECT notify_channel_add('xml', preset => 'wechat_v2');
INSERT INTO biz_order SELECT n, 'PENDING', 10 FROM generate_series(1, 40) AS n;
CREATE VIEW review AS
SELECT id, kind, biz_key, claim, order_no, convert_from(raw_body, 'UTF8') AS body, data, reason, hits, variants, state,
       first_hash = payload_hash AS same_hash, resolved_by IS NOT NULL AS decided, note
FROM notify_review ORDER BY id;

--
-- Conflicts
--
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '{"amount": 10, "time": 1}', 'json', '{"d": 1}');
SELECT status, outcome, result, replayed FROM handle_notify('T1', 'PAY', '1', '{"amount": 11, "time": 1}', 'json', '{"d": 2}');
-- again, with what is ignored changed: counted, the body of the first of these stays
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '{"amount": 11, "time": 2}', 'json', '{"d": 3}');
-- another content: its body is kept
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '{"amount": 12, "time": 2, "new": null}', 'json');
-- the first of them again is no new variant
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '{"amount": 11.0}', 'json');
-- one that cannot be read as JSON, and the claim's content for another order
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '{"amount": 10', 'json');
SELECT outcome FROM handle_notify('T1', 'PAY', '2', '{"amount": 10, "time": 1}', 'json');
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '01', '{"amount": 10, "time": 1}', 'json');
-- another spelling of the order is no other content
SELECT outcome FROM handle_notify('T1', 'PAY', ' 01', '{"amount": 11}', 'json');
SELECT outcome FROM handle_notify('T1', 'PAY', '2', '{"amount": 10}', 'json');
\x
TABLE review;
\x
SELECT v.digest_mode, v.order_no, v.payload_hash = c.payload_hash AS same_hash
FROM notify_review_variant AS v, notify_claim AS c ORDER BY v.first_seen;
-- one alarm, durable, without the body
SELECT aggregatetype, aggregateid, type, payload - 'first_hash' - 'payload_hash' AS payload,
       payload ->> 'first_hash' = (SELECT first_hash FROM notify_review) AS first_hash, length(payload ->> 'payload_hash') AS payload_hash
FROM notify_outbox WHERE aggregatetype = 'notify_review';
-- nothing of claim, order and its messages has changed
SELECT outcome, result_json, order_no FROM notify_claim;
SELECT * FROM biz_order WHERE order_no < 3 ORDER BY order_no;
SELECT count(*) FROM notify_outbox WHERE aggregatetype = 'biz_order';

-- what a person sees
SELECT id, kind, channel, channel_txn_id, event_type, order_no, reason, hits, variants, age < '1 hour' AS age FROM notify_review_open;
SELECT * FROM notify_review_diff(1);
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '{"amount": 10.5, "items": [{"n": 1}, 2], "a.b": "x", "empty": {}}', 'json');
SELECT * FROM notify_review_diff(1);
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '{"amount": 10, "time": 1} ', 'json');
SELECT outcome FROM handle_notify('T1', 'PAY', '1', 'not JSON', 'json');
SELECT * FROM notify_review_diff(1);
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '\xff00'::bytea, 'json');
SELECT * FROM notify_review_diff(1);
SELECT attempt($$SELECT count(*) FROM notify_review_diff(0)$$);
SELECT attempt($$SELECT count(*) FROM notify_review_diff(NULL)$$);
-- paths can be made that are longer than the body many times over: it is shown as a whole then
SELECT outcome FROM handle_notify('T1', 'PAY', '1', convert_to(repeat('{"' || repeat('n', 50) || '":', 100) || '[1' || repeat(',1', 9999) || ']' || repeat('}', 100), 'UTF8'), 'json');
SELECT member, length(first) AS first, length(last) AS last FROM notify_review_diff(1);
SELECT outcome FROM handle_notify('T1', 'PAY', '1', convert_to('[1' || repeat(',1', 10000) || ']', 'UTF8'), 'json');
SELECT member, length(first) AS first, length(last) AS last FROM notify_review_diff(1);
-- case 19: a refund under the payment's key
SELECT outcome FROM handle_notify('A1', 'TRADE', '3', 'trade_no=1&total_amount=10.00&sign=x'::bytea, 'form');
SELECT notify_event_add('TRADE');
SELECT outcome FROM handle_notify('A1', 'TRADE', '3', 'trade_no=1&total_amount=10.00&sign=x'::bytea, 'form');
SELECT outcome, result FROM handle_notify('A1', 'TRADE', '3', 'trade_no=1&total_amount=10.00&refund_fee=2%2C50&gmt_refund=%E4%BB%8A&sign=y'::bytea, 'form');
SELECT * FROM notify_review_diff(2);
SELECT outcome FROM handle_notify('X1', 'push', 'x', '<xml><a>1</a><a>2</a><b><![CDATA[<]]></b><sign>1</sign></xml>'::bytea, 'xml');
SELECT outcome FROM handle_notify('X1', 'push', 'x', '<xml><a>1</a><a>3</a><a>4</a><b>&lt;</b><sign>1</sign></xml>'::bytea, 'xml');
SELECT * FROM notify_review_diff(3);
-- without the first body there is not much to compare
SELECT outcome FROM handle_notify('D1', 'push', 'x', 'one');
SELECT outcome FROM handle_notify('D1', 'push', 'y', 'two');
SET client_min_messages = notice;
SELECT member, first = first_hash AS first, last = payload_hash AS last FROM notify_review_diff(4), notify_review WHERE id = 4 AND member = '(digest)';
SELECT * FROM notify_review_diff(4) WHERE member <> '(digest)';
SET client_min_messages = warning;

-- decided: the peer is stopped, and nothing is written
SELECT attempt($$SELECT notify_review_resolve(1, 'ALLOW', 'x')$$);
SELECT attempt($$SELECT notify_review_resolve(1, 'DISMISS', 'x', 'a hash of before')$$);
SELECT notify_review_resolve(1, 'DISMISS', 'the channel was asked');
SELECT attempt($$SELECT notify_review_resolve(1, 'DISMISS', 'again')$$);
BEGIN;
SELECT status, outcome, result, replayed FROM handle_notify('T1', 'PAY', '1', '{"amount": 11}', 'json');
SELECT status, outcome, replayed FROM handle_notify('T1', 'PAY', '1', '{"amount": 9999}', 'json');
SELECT status, outcome, replayed FROM handle_notify('T1', 'PAY', '2', '{"amount": 9999}', 'json');
SELECT pg_current_xact_id_if_assigned() IS NULL AS nothing_written;
COMMIT;
SELECT hits, variants, state, decided, note FROM review WHERE id = 1;
SELECT claim, review, verb, who = current_user AS who, note FROM notify_decision;
-- while the claim is kept
DELETE FROM notify_claim WHERE biz_key = 'T1:PAY';
SELECT outcome, result FROM handle_notify('T1', 'PAY', '1', '{"amount": 10}', 'json');
SELECT outcome, result FROM handle_notify('T1', 'PAY', '1', '{"amount": 11}', 'json');
-- an open conflict with a claim that is gone does not stand in the way
DELETE FROM notify_claim WHERE biz_key = 'T1:PAY';
SELECT outcome, result FROM handle_notify('T1', 'PAY', '1', '{"amount": 12}', 'json');
SELECT outcome, result FROM handle_notify('T1', 'PAY', '1', '{"amount": 11}', 'json');
SELECT id, claim, hits, state, decided FROM review WHERE biz_key = 'T1:PAY';
-- what was dismissed under one rule stays dismissed, what is open is counted under the claim's
SELECT notify_channel_set('json', digest => 'raw');
SELECT outcome, result FROM handle_notify('T1', 'PAY', '1', '{"amount":11.0,"time":9}', 'json');
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', '{ "amount": 12 }', 'json');
SELECT hits, variants FROM review WHERE biz_key = 'T1:PAY' AND state = 'OPEN';
SELECT notify_channel_set('json', digest => 'json', ignore => '{time}');

--
-- Refusals
--
CREATE FUNCTION check_amount(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT format('amount %s, expected %s', convert_from(raw_body, 'UTF8')::jsonb ->> 'amount', amount)
		FROM public.biz_order AS o WHERE o.order_no = check_amount.order_no::int
		AND amount <> (convert_from(raw_body, 'UTF8')::jsonb ->> 'amount')::numeric);
END $$;
CREATE FUNCTION raise_version(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE sql AS
	'UPDATE public.biz_order SET version = version + 1 WHERE order_no = $1::int';
SELECT notify_event_set('PAY', on_early => 'retry', check_function => 'check_amount', action_function => 'raise_version');
SELECT status, outcome, result FROM handle_notify('R1', 'PAY', '11', '{"amount": 1}', 'json', '{"d": 1}');
SELECT outcome FROM handle_notify('R1', 'PAY', '011', '{"amount": 1.0, "time": 1}', 'json', '{"d": 2}');
SELECT id, kind, claim, order_no, body, data, reason, hits, variants, state, same_hash FROM review WHERE biz_key = 'R1:PAY';
SELECT * FROM notify_review_diff(8);
SELECT aggregateid, type, payload ->> 'order_no' AS order_no FROM notify_outbox WHERE type = 'CHECK_REFUSED';
-- allowed: processed now, from what is stored, with its data, without the check
SELECT notify_review_resolve(8, 'ALLOW', 'they paid the rest in cash');
SELECT * FROM biz_order WHERE order_no = 11;
SELECT order_no, outcome, result_json, digest_mode, digest_rule IS NOT NULL AS rule FROM notify_claim WHERE biz_key = 'R1:PAY';
SELECT type, payload ->> 'data' AS data FROM notify_outbox WHERE aggregateid = '11' AND aggregatetype = 'biz_order';
SELECT r.claim = c.id AS claim, state, decided, note FROM review AS r JOIN notify_claim AS c USING (biz_key) WHERE r.id = 8;
SELECT status, outcome, replayed FROM handle_notify('R1', 'PAY', '11', '{"amount": 1}', 'json');
SELECT status, outcome, result -> 'first' AS first FROM handle_notify('R1', 'PAY', '11', '{"amount": 2}', 'json');
-- several contents: only the last one is kept, and it has to be named
SELECT outcome FROM handle_notify('R2', 'PAY', '12', '{"amount": 1}', 'json');
SELECT outcome FROM handle_notify('R2', 'PAY', '12', '{"amount": 2}', 'json');
SELECT id, body, reason, hits, variants, same_hash FROM review WHERE biz_key = 'R2:PAY';
SELECT attempt($$SELECT notify_review_resolve(10, 'ALLOW', 'x')$$);
SELECT attempt($$SELECT notify_review_resolve(10, 'ALLOW', 'x', first_hash) FROM notify_review WHERE id = 10$$);
SELECT attempt($$SELECT notify_review_resolve(10, 'DISMISS', 'x', first_hash) FROM notify_review WHERE id = 10$$);
-- of one content for several orders none can be allowed
BEGIN;
SELECT outcome FROM handle_notify('R2', 'PAY', '13', '{"amount": 2}', 'json');
SELECT attempt($$SELECT notify_review_resolve(10, 'ALLOW', 'x', payload_hash) FROM notify_review WHERE id = 10$$);
SELECT notify_review_resolve(10, 'DISMISS', 'x', payload_hash) FROM notify_review WHERE id = 10;
SELECT order_no, outcome, replayed FROM unnest('{12,13,14}'::text[]) AS order_no, handle_notify('R2', 'PAY', order_no, '{"amount": 2}', 'json');
ROLLBACK;
-- confirmed: what was refused replays with SUCCESS, anything else is a conflict
BEGIN;
SELECT notify_review_resolve(10, 'DISMISS', 'fraud');
SELECT status, outcome, result, replayed FROM handle_notify('R2', 'PAY', '12', '{"amount": 2}', 'json');
SELECT status, outcome, result, replayed FROM handle_notify('R2', 'PAY', '12', '{"amount": 1, "time": 5}', 'json');
SELECT status, outcome, replayed FROM handle_notify('R2', 'PAY', '13', '{"amount": 1}', 'json');
SELECT status, outcome, result, replayed FROM handle_notify('R2', 'PAY', '12', '{"amount": 10}', 'json');
SELECT id, kind, state, hits FROM review WHERE biz_key = 'R2:PAY';
SELECT * FROM biz_order WHERE order_no = 12;
SELECT claim_state, outcome, message_id FROM notify_claim WHERE biz_key = 'R2:PAY';
ROLLBACK;
SELECT notify_review_resolve(10, 'ALLOW', 'right', payload_hash) FROM notify_review WHERE id = 10;
SELECT result, replayed FROM handle_notify('R2', 'PAY', '12', '{"amount": 2}', 'json');
-- applied after all: the refusal is closed, and there is nothing left to decide
SELECT outcome FROM handle_notify('R3', 'PAY', '13', '{"amount": 1}', 'json');
SELECT outcome FROM handle_notify('R3', 'PAY', '13', '{"amount": 10}', 'json');
SELECT id, state, claim, decided FROM review WHERE biz_key = 'R3:PAY';
SELECT attempt($$SELECT notify_review_resolve(13, 'ALLOW', 'x')$$);
SELECT attempt($$SELECT notify_review_resolve(13, 'DISMISS', 'x')$$);
-- so is one that has become stale
SELECT outcome FROM handle_notify('R4', 'PAY', '14', '{"amount": 1}', 'json');
UPDATE biz_order SET status = 'SHIPPED' WHERE order_no = 14;
SELECT outcome, result FROM handle_notify('R4', 'PAY', '14', '{"amount": 1}', 'json');
SELECT id, state FROM review WHERE biz_key = 'R4:PAY';

-- ALLOW goes by what the order is now
SELECT outcome FROM generate_series(21, 25) AS n, handle_notify('S' || n, 'PAY', n::text, '{"amount": 1}', 'json');
UPDATE biz_order SET status = 'SHIPPED' WHERE order_no = 21;
DELETE FROM biz_order WHERE order_no = 22;
UPDATE biz_order SET status = 'ON_HOLD' WHERE order_no = 23;
SELECT id, biz_key, notify_review_resolve(id, 'ALLOW', 'go on') FROM notify_review WHERE biz_key LIKE 'S%' AND order_no <> '25' ORDER BY id;
SELECT notify_event_drop('PAY');
SELECT id, biz_key, notify_review_resolve(id, 'ALLOW', 'go on') FROM notify_review WHERE biz_key = 'S25:PAY';
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_event_set('PAY', on_early => 'retry', check_function => 'check_amount', action_function => 'raise_version');
SELECT id, biz_key, state, decided FROM review WHERE biz_key LIKE 'S%';
SELECT biz_key, outcome, result_json FROM notify_claim WHERE biz_key LIKE 'S%' ORDER BY id;
SELECT verb, review, claim IS NOT NULL AS claim FROM notify_decision ORDER BY id;
-- an error leaves all as it was
CREATE FUNCTION fails(text, text, bytea) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'out of ink'; END $$;
SELECT notify_event_set('PAY', action_function => 'fails');
SELECT attempt($$SELECT notify_review_resolve(id, 'ALLOW', 'go on') FROM notify_review WHERE biz_key = 'S25:PAY'$$);
SELECT notify_event_set('PAY', action_function => 'raise_version');
SELECT state FROM review WHERE biz_key = 'S25:PAY';
-- an event without a machine
SELECT notify_event_set('push', check_function => 'check_amount');
SELECT outcome FROM handle_notify('P1', 'push', '31', '{"amount": 3}', 'json');
SELECT notify_review_resolve(id, 'ALLOW', 'go on') FROM notify_review WHERE biz_key = 'P1:push';
SELECT outcome FROM handle_notify('P2', 'push', '31', '{"amount": 3}', 'json');
SELECT notify_review_resolve(id, 'DISMISS', 'no') FROM notify_review WHERE biz_key = 'P2:push';
SELECT outcome, replayed FROM generate_series(1, 2) AS n, handle_notify('P' || n, 'push', '31', '{"amount": 3}', 'json');
-- contents of one refusal are digested under the rule that it was opened by
SELECT outcome FROM handle_notify('Q1', 'PAY', '32', '{"amount": 1}', 'json');
SELECT notify_channel_set('json', digest => 'raw');
SELECT outcome FROM handle_notify('Q1', 'PAY', '32', '{"amount": 1.0, "time": 7}', 'json');
SELECT hits, variants FROM review WHERE biz_key = 'Q1:PAY';
SELECT notify_review_resolve(id, 'DISMISS', 'no') FROM notify_review WHERE biz_key = 'Q1:PAY';
SELECT outcome, replayed FROM handle_notify('Q1', 'PAY', '32', '{"time": 8, "amount": 1}', 'json');

-- what cannot be decided
SELECT attempt($$SELECT notify_review_resolve(0, 'DISMISS', 'x')$$);
SELECT attempt($$SELECT notify_review_resolve(2, 'dismiss', 'x')$$);
SELECT attempt($$SELECT notify_review_resolve(2, '', 'x')$$);
SELECT attempt($$SELECT notify_review_resolve(2, 'DISMISS', ' ')$$);
SELECT attempt($$SELECT notify_review_resolve(2, 'DISMISS', NULL)$$);
SELECT attempt($$SELECT notify_review_resolve(2, NULL, 'x')$$);
SELECT attempt($$SELECT notify_review_resolve(NULL, 'DISMISS', 'x')$$);

--
-- Roles: a reviewer needs no rights on orders; the application sees no reviews
--
CREATE ROLE regress_notify_reviewer;
CREATE ROLE regress_notify_owner;
CREATE SCHEMA theirs AUTHORIZATION regress_notify_owner;
CREATE TABLE theirs.orders (order_no int PRIMARY KEY, status text, moved_by text);
ALTER TABLE theirs.orders OWNER TO regress_notify_owner;
CREATE FUNCTION theirs.moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.moved_by = current_user; RETURN new; END $$;
CREATE TRIGGER moved BEFORE UPDATE ON theirs.orders FOR EACH ROW EXECUTE FUNCTION theirs.moved();
CREATE FUNCTION theirs.refuse(text, text, bytea) RETURNS text LANGUAGE sql AS $$ SELECT 'asked as ' || current_user $$;
CREATE FUNCTION theirs.act(text, text, bytea) RETURNS void LANGUAGE sql AS
	$$ UPDATE theirs.orders SET status = status || ' by ' || current_user || ' ' || current_setting('search_path') WHERE order_no = 2 $$;
INSERT INTO theirs.orders VALUES (1, 'NEW'), (2, 'act');
-- a trigger whose names are not qualified finds those of the table's schema
CREATE TABLE theirs.journal (who text, entry text);
CREATE FUNCTION theirs.note(text) RETURNS text LANGUAGE sql AS $$ SELECT 'theirs ' || $1 $$;
ALTER TABLE theirs.journal OWNER TO regress_notify_owner;
CREATE FUNCTION theirs.journalize() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO journal SELECT current_user, note(current_setting('search_path')); RETURN NULL; END $$;
CREATE TRIGGER journalize AFTER UPDATE ON theirs.orders FOR EACH ROW WHEN (new.order_no = 1) EXECUTE FUNCTION theirs.journalize();
SELECT notify_machine_add('theirs.orders', 'order_no', 'status', machine => 'theirs');
SELECT notify_transition_add('THEIRS', 'NEW', 'DONE', machine => 'theirs');
SELECT notify_event_set('THEIRS', check_function => 'theirs.refuse', action_function => 'theirs.act');
SELECT outcome, result FROM handle_notify('Z1', 'THEIRS', '1', 'x');
SELECT outcome FROM handle_notify('Z2', 'push', '33', '{"amount": 3}');
SELECT attempt($$SELECT notify_grant('regress_notify_reviewer', 'auditor')$$);
SELECT notify_grant('regress_notify_reviewer', 'reviewer');
SELECT p.oid::regprocedure FROM pg_depend AS d JOIN pg_proc AS p ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim') AND d.deptype = 'e'
	AND has_function_privilege('regress_notify_reviewer', p.oid, 'EXECUTE') ORDER BY p.proname, p.oid::regprocedure::text;
SELECT c.relname, privilege FROM pg_depend AS d JOIN pg_class AS c ON d.objid = c.oid AND d.classid = 'pg_class'::regclass,
	unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) AS privilege
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim') AND d.deptype = 'e' AND c.relkind <> 'S'
	AND has_table_privilege('regress_notify_reviewer', c.oid, privilege) ORDER BY 1;
SET ROLE regress_notify_reviewer;
SELECT attempt($$SELECT * FROM theirs.orders$$);
SELECT kind, reason FROM notify_review_open WHERE channel_txn_id LIKE 'Z%';
-- what the reviewer plants is not found
CREATE TEMP TABLE journal (who text, entry text);
GRANT ALL ON journal TO PUBLIC;
CREATE FUNCTION pg_temp.note(text) RETURNS text LANGUAGE sql AS $$ SELECT 'planted' $$;
SET search_path = pg_temp, public;
SELECT * FROM notify_review_diff((SELECT id FROM notify_review_open WHERE channel_txn_id = 'Z1'));
SELECT notify_review_resolve(id, 'ALLOW', 'by me') FROM notify_review_open WHERE channel_txn_id = 'Z1';
SELECT notify_review_resolve(id, 'DISMISS', 'by me') FROM notify_review_open WHERE channel_txn_id = 'Z2';
SHOW search_path;
SELECT count(*) FROM pg_temp.journal;
RESET search_path;
SELECT verb, who, note FROM notify_decision WHERE note = 'by me' ORDER BY id;
SELECT attempt($$UPDATE notify_review SET state = 'OPEN'$$);
RESET ROLE;
SELECT * FROM theirs.orders ORDER BY 1;
TABLE theirs.journal;
-- a table that only has the name of the one that was declared
INSERT INTO theirs.orders VALUES (3, 'NEW');
SELECT outcome FROM handle_notify('Z3', 'THEIRS', '3', 'x');
DROP TABLE theirs.orders;
CREATE TABLE theirs.orders (order_no int PRIMARY KEY, status text);
INSERT INTO theirs.orders VALUES (2, 'act'), (3, 'NEW');
SELECT attempt($$SELECT notify_review_resolve(id, 'ALLOW', 'x') FROM notify_review WHERE biz_key = 'Z3:THEIRS'$$);
SELECT notify_machine_set('theirs', 'theirs.orders');
SELECT attempt($$SELECT notify_review_resolve(id, 'ALLOW', 'x') FROM notify_review WHERE biz_key = 'Z3:THEIRS'$$);
SELECT biz_key, state, resolved_by FROM notify_review WHERE biz_key LIKE 'Z%' ORDER BY id;

DROP SCHEMA theirs CASCADE;
DROP OWNED BY regress_notify_reviewer, regress_notify_owner;
DROP ROLE regress_notify_reviewer, regress_notify_owner;
DROP VIEW review;
DROP TABLE biz_order;
DROP FUNCTION check_amount, raise_version, fails, attempt;
DROP EXTENSION notify_claim CASCADE;
