-- Check and action functions.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE SCHEMA shop;
CREATE TABLE shop.orders (order_no int PRIMARY KEY, status text, amount numeric, currency text, paid_at timestamptz, version int DEFAULT 0);
CREATE TABLE shop.ledger (order_no text, event_type text, body text);
SELECT notify_machine_add('shop.orders', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUNDED');
SELECT notify_event_add('push', message_type => 'PUSHED');
INSERT INTO shop.orders SELECT n, 'PENDING', 10.00, 'EUR' FROM generate_series(1, 30) AS n;

CREATE FUNCTION shop.check_amount(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	paid jsonb := convert_from(raw_body, 'UTF8');
	o shop.orders;
BEGIN
	SELECT * INTO STRICT o FROM shop.orders AS x WHERE x.order_no = check_amount.order_no::int;
	IF (paid ->> 'amount')::numeric IS DISTINCT FROM o.amount OR paid ->> 'currency' IS DISTINCT FROM o.currency THEN
		RETURN format('amount %s %s, expected %s %s', paid ->> 'amount', paid ->> 'currency', o.amount, o.currency);
	END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION shop.paid(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE sql AS $$
	UPDATE shop.orders SET paid_at = now(), version = version + 1 WHERE order_no = $1::int
$$;
CREATE FUNCTION shop.log(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE sql AS $$
	INSERT INTO shop.ledger VALUES ($1, $2, encode($3, 'escape'))
$$;

-- set by name, as the search_path finds it; stored qualified
SET search_path = shop, public;
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'check_amount', action_function => 'paid')$$);
SET search_path = public;
SELECT event_type, check_function, action_function FROM notify_event ORDER BY event_type;
SELECT attempt($$SELECT notify_event_set('PAY', on_early => 'skip')$$);
SELECT event_type, check_function, action_function FROM notify_event WHERE event_type = 'PAY';
-- validated when they are set
CREATE FUNCTION shop.boolean(text, text, bytea) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION shop.many(text, text, bytea) RETURNS SETOF text LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION shop.two(text, text) RETURNS text LANGUAGE sql AS 'SELECT $1';
CREATE PROCEDURE shop.proc(text, text, bytea) LANGUAGE sql AS '';
CREATE FUNCTION shop.agg_step(text, text, text, bytea) RETURNS text LANGUAGE sql AS 'SELECT $1';
CREATE AGGREGATE shop.agg(text, text, bytea) (sfunc = shop.agg_step, stype = text);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.boolean')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.many')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.two')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.proc')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.agg')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.paid')$$);
SELECT attempt($$SELECT notify_event_set('PAY', action_function => 'shop.check_amount')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'check_amount')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'nowhere.check_amount')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'a.b.c.d')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.check_amount(text, text, bytea)')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.two(text, text)')$$);
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.nothing(text)')$$);
SELECT attempt($$SELECT notify_event_add('x', check_function => 'shop.nothing')$$);
CREATE FUNCTION pg_temp.check_it(text, text, bytea) RETURNS text LANGUAGE sql AS 'SELECT NULL';
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'pg_temp.check_it')$$);
SELECT event_type, check_function, action_function FROM notify_event ORDER BY event_type;
-- with an event
SELECT attempt($$SELECT notify_event_add('REFUND', machine => 'orders', action_function => 'shop.log')$$);
SELECT attempt($$SELECT notify_event_set('REFUND', action_function => 'shop.log')$$);
SELECT attempt($$SELECT notify_event_add('REFUND', machine => 'orders', action_function => 'shop.log')$$);
SELECT attempt($$SELECT notify_event_add('audit', check_function => 'shop.check_amount', action_function => 'shop.log')$$);
SELECT attempt($$SELECT notify_event_add('audit', check_function => 'shop.check_amount')$$);
SELECT attempt($$SELECT notify_event_add('audit', check_function => 'shop.check_amount', action_function => 'shop.log')$$);

-- case 20: numbers are compared as numbers; case 51: the action raises a version column
SELECT status, outcome, result, replayed, first_seen, ack_status FROM handle_notify('T1', 'PAY', '1', '{"amount": "1.00", "currency": "EUR"}');
SELECT outcome, result FROM handle_notify('T1', 'PAY', '1', '{"amount": "10.00", "currency": "USD"}');
SELECT status, amount, paid_at, version FROM shop.orders WHERE order_no = 1;
SELECT count(*) FROM notify_claim;
SELECT outcome FROM handle_notify('T1', 'PAY', '1', '{"amount": "10.0", "currency": "EUR"}');
SELECT status, amount, paid_at IS NOT NULL AS paid, version FROM shop.orders WHERE order_no = 1;
-- a repeat runs neither
SELECT outcome, replayed FROM handle_notify('T1', 'PAY', '1', '{"amount": "10.0", "currency": "EUR"}');
SELECT version FROM shop.orders WHERE order_no = 1;
-- what is not legal is not checked
SELECT outcome, result FROM handle_notify('T2', 'PAY', '1', '{"amount": "99", "currency": "EUR"}');
SELECT outcome, result FROM handle_notify('T3', 'PAY', '99', '{"amount": "99", "currency": "EUR"}');
-- an edge that changes nothing and an event without a machine run them too; the order number is in the table's spelling
SELECT outcome FROM handle_notify('T4', 'REFUND', '01', 'refund 1');
SELECT outcome FROM handle_notify('T5', 'REFUND', ' 1 ', '\x00ff'::bytea);
SELECT outcome, result FROM handle_notify('T6', 'audit', '2', '{"amount": "2", "currency": "EUR"}');
SELECT outcome, result FROM handle_notify('T6', 'audit', '2', '{"amount": "10", "currency": "EUR"}');
TABLE shop.ledger;
SELECT id, kind, biz_key, order_no, reason, hits, variants, state, claim FROM notify_review ORDER BY id;

-- an error in either undoes the call
SELECT attempt($$SELECT outcome FROM handle_notify('U1', 'PAY', '3', 'no JSON')$$);
CREATE FUNCTION shop.fails(text, text, bytea) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'out of ink' USING ERRCODE = 'P0099'; END $$;
SELECT notify_event_set('PAY', action_function => 'shop.fails');
SELECT attempt($$SELECT outcome FROM handle_notify('U1', 'PAY', '3', '{"amount": 10, "currency": "EUR"}')$$);
SELECT status, version FROM shop.orders WHERE order_no = 3;
SELECT count(*) FROM notify_claim WHERE biz_key LIKE 'U%';
-- the transient ones as well: they are nobody's to remember
CREATE FUNCTION shop.busy(text, text, bytea) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'later' USING ERRCODE = '40001'; END $$;
SELECT notify_event_set('PAY', check_function => 'shop.busy', action_function => '');
SELECT attempt($$SELECT outcome FROM handle_notify('U1', 'PAY', '3', '{"amount": 10, "currency": "EUR"}')$$);
SELECT check_function, action_function FROM notify_event WHERE event_type = 'PAY';

-- replaced: the new one counts; dropped: an error, never a pass; another type, or another one of the name: the same
CREATE FUNCTION shop.chk(text, text, bytea) RETURNS text LANGUAGE sql AS $$ SELECT 'first' $$;
SELECT notify_event_set('PAY', check_function => 'shop.chk');
SELECT attempt($$SELECT result FROM handle_notify('V1', 'PAY', '4', 'x')$$);
CREATE OR REPLACE FUNCTION shop.chk(text, text, bytea) RETURNS text LANGUAGE sql AS $$ SELECT 'second' $$;
SELECT attempt($$SELECT result FROM handle_notify('V1', 'PAY', '4', 'x')$$);
DROP FUNCTION shop.chk;
SELECT attempt($$SELECT result FROM handle_notify('V1', 'PAY', '4', 'x')$$);
CREATE FUNCTION shop.chk(text, text, text) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION shop.chk(anyelement, text, bytea) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION shop.chk(text, text, VARIADIC bytea[]) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION shop.chk(text, text, bytea, int DEFAULT 1) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION public.chk(text, text, bytea) RETURNS text LANGUAGE sql AS 'SELECT NULL';
SELECT attempt($$SELECT result FROM handle_notify('V1', 'PAY', '4', 'x')$$);
DROP FUNCTION shop.chk(text, text, text), shop.chk(anyelement, text, bytea), shop.chk(text, text, bytea[]), shop.chk(text, text, bytea, int), public.chk;
CREATE FUNCTION shop.chk(text, text, bytea) RETURNS varchar LANGUAGE sql AS 'SELECT NULL::varchar';
SELECT attempt($$SELECT result FROM handle_notify('V1', 'PAY', '4', 'x')$$);
DROP FUNCTION shop.chk;
CREATE FUNCTION shop.chk(text, text, bytea) RETURNS SETOF text LANGUAGE sql AS 'SELECT $1 LIMIT 0';
SELECT attempt($$SELECT result FROM handle_notify('V1', 'PAY', '4', 'x')$$);
DROP FUNCTION shop.chk;
ALTER SCHEMA shop RENAME TO shop2;
CREATE SCHEMA shop;
SELECT attempt($$SELECT result FROM handle_notify('V1', 'PAY', '4', 'x')$$);
DROP SCHEMA shop;
SELECT attempt($$SELECT result FROM handle_notify('V1', 'PAY', '4', 'x')$$);
ALTER SCHEMA shop2 RENAME TO shop;
CREATE FUNCTION shop.chk(text, text, bytea) RETURNS text LANGUAGE sql AS 'SELECT NULL';
SELECT attempt($$SELECT outcome FROM handle_notify('V1', 'PAY', '4', 'x')$$);
SELECT kind, reason, hits, variants, state FROM notify_review WHERE biz_key = 'V1:PAY';

-- names are found in pg_catalog alone, whatever the caller's search_path, unless the function sets one
CREATE FUNCTION shop.loose(text, text, bytea) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM orders); END $$;
CREATE FUNCTION shop.strict(text, text, bytea) RETURNS text LANGUAGE plpgsql SET search_path = shop AS $$ BEGIN RETURN (SELECT count(*) || ' ' || current_setting('search_path') FROM orders); END $$;
CREATE FUNCTION shop.path(text, text, bytea) RETURNS text LANGUAGE sql AS $$ SELECT current_setting('search_path') $$;
SET search_path = shop, public;
SELECT notify_event_set('PAY', check_function => 'loose');
SELECT attempt($$SELECT result FROM handle_notify('W1', 'PAY', '5', 'x')$$);
SELECT notify_event_set('PAY', check_function => 'strict');
SELECT attempt($$SELECT result FROM handle_notify('W1', 'PAY', '5', 'x')$$);
SELECT notify_event_set('PAY', check_function => 'path');
SELECT attempt($$SELECT result FROM handle_notify('W1', 'PAY', '5', 'x')$$);
SHOW search_path;
CREATE TEMP TABLE orders (order_no int);
SELECT notify_event_set('PAY', check_function => 'loose');
SELECT attempt($$SELECT result FROM handle_notify('W2', 'PAY', '5', 'x')$$);
DROP TABLE pg_temp.orders;
SET search_path = public;

-- they see what the transaction has done, and the check comes before anything is written
CREATE FUNCTION shop.sees(o text, e text, b bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN format('%s, %s claims of it', (SELECT status FROM shop.orders WHERE order_no = o::int),
		(SELECT count(*) FROM public.notify_claim WHERE biz_key = 'X1:PAY'));
END $$;
CREATE FUNCTION shop.acts(o text, e text, b bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO shop.ledger VALUES (o, e, shop.sees(o, e, b) || ', ' || (SELECT count(*) FROM public.notify_outbox WHERE (aggregatetype, aggregateid) = ('orders', o)) || ' messages');
END $$;
SELECT notify_event_set('PAY', check_function => 'shop.sees', action_function => 'shop.acts');
BEGIN;
UPDATE shop.orders SET amount = 11 WHERE order_no = 6;
SELECT result FROM handle_notify('X1', 'PAY', '6', 'x');
COMMIT;
SELECT notify_event_set('PAY', check_function => '');
SELECT outcome FROM handle_notify('X1', 'PAY', '6', 'x');
SELECT body FROM shop.ledger WHERE order_no = '6';
-- the refusal of before is closed: it was applied after all
SELECT state, resolved_by, note FROM notify_review WHERE biz_key = 'X1:PAY';

-- one that moves the order itself is an interference like a trigger's
CREATE FUNCTION shop.meddles(o text, e text, b bytea) RETURNS text LANGUAGE plpgsql AS $$ BEGIN UPDATE shop.orders SET status = 'GONE' WHERE order_no = o::int; RETURN NULL; END $$;
SELECT notify_event_set('PAY', check_function => 'shop.meddles', action_function => '');
SELECT attempt($$SELECT outcome FROM handle_notify('Y1', 'PAY', '7', 'x')$$);
SELECT status FROM shop.orders WHERE order_no = 7;
-- one that calls, or changes its own event, does no harm
CREATE FUNCTION shop.calls(o text, e text, b bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.handle_notify('Y2', 'PAY', o, b);
	PERFORM public.handle_notify('Y3', 'push', o, b);
	PERFORM public.notify_event_set('PAY', check_function => 'shop.path', action_function => '');
END $$;
SELECT notify_event_set('PAY', check_function => '', action_function => 'shop.calls');
SELECT attempt($$SELECT outcome FROM handle_notify('Y2', 'PAY', '8', 'x')$$);
SELECT biz_key, outcome FROM notify_claim WHERE biz_key LIKE 'Y%' ORDER BY id;
SELECT attempt($$SELECT result FROM handle_notify('Y4', 'PAY', '9', 'x')$$);
CREATE FUNCTION shop.drops(o text, e text, b bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.notify_machine_drop('orders');
	RETURN NULL;
END $$;
SELECT notify_event_set('PAY', check_function => 'shop.drops');
BEGIN;
SELECT attempt($$SELECT outcome FROM handle_notify('Y5', 'PAY', '10', 'x')$$);
ROLLBACK;

-- run as the caller, who needs to be allowed to
CREATE ROLE regress_notify_hook;
GRANT USAGE ON SCHEMA shop TO regress_notify_hook;
GRANT SELECT, UPDATE ON shop.orders TO regress_notify_hook;
SELECT notify_grant('regress_notify_hook', 'app');
CREATE FUNCTION shop.who(text, text, bytea) RETURNS text LANGUAGE sql AS 'SELECT current_user::text';
SELECT notify_event_set('PAY', check_function => 'shop.who');
SET ROLE regress_notify_hook;
SELECT attempt($$SELECT result FROM handle_notify('Z1', 'PAY', '11', 'x')$$);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION shop.who FROM PUBLIC;
SET ROLE regress_notify_hook;
SELECT attempt($$SELECT result FROM handle_notify('Z1', 'PAY', '11', 'x')$$);
RESET ROLE;
-- also one that the planner inlines, in a plan that another user made
CREATE FUNCTION shop.inlined(text, text, bytea) RETURNS text STABLE LANGUAGE sql AS $$ SELECT $1 || ' inlined' $$;
REVOKE EXECUTE ON FUNCTION shop.inlined FROM PUBLIC;
SELECT notify_event_set('PAY', check_function => 'shop.inlined');
SELECT attempt($$SELECT result FROM handle_notify('Z1', 'PAY', '11', 'x')$$);
SET ROLE regress_notify_hook;
SELECT attempt($$SELECT result FROM handle_notify('Z1', 'PAY', '11', 'x')$$);
RESET ROLE;
-- what a function sets goes with it
CREATE FUNCTION shop.sets(text, text, bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	SET search_path = shop;
	SET lock_timeout = '1h';
	SET application_name = 'set by a check';
	RETURN current_setting('application_name');
END $$;
SELECT notify_event_set('PAY', check_function => 'shop.sets');
SELECT attempt($$SELECT result FROM handle_notify('Z1', 'PAY', '11', 'x')$$);
SELECT name, setting FROM pg_settings WHERE name IN ('search_path', 'lock_timeout', 'application_name') AND setting IN ('shop', '3600000', 'set by a check');
GRANT EXECUTE ON FUNCTION shop.who TO regress_notify_hook;
REVOKE USAGE ON SCHEMA shop FROM regress_notify_hook;
SELECT notify_event_set('push', check_function => 'shop.who');
SET ROLE regress_notify_hook;
SELECT attempt($$SELECT result FROM handle_notify('Z2', 'push', '11', 'x')$$);
RESET ROLE;
-- whose the event is, theirs it is to set
SET ROLE regress_notify_hook;
SELECT attempt($$SELECT notify_event_set('PAY', check_function => 'shop.path')$$);
RESET ROLE;

DROP OWNED BY regress_notify_hook;
DROP ROLE regress_notify_hook;
DROP SCHEMA shop CASCADE;
DROP EXTENSION notify_claim CASCADE;
DROP FUNCTION attempt;
