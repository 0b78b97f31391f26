-- Who may do what: an application with EXECUTE and its own order table, and nothing else.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE ROLE regress_notify_app;
CREATE ROLE regress_notify_shop;
CREATE ROLE regress_notify_other;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE SCHEMA shop AUTHORIZATION regress_notify_shop;
SET ROLE regress_notify_shop;
CREATE TABLE shop.orders (order_no text PRIMARY KEY, status text, secret text);
RESET ROLE;

-- nothing is granted to anyone by the installation
SET ROLE regress_notify_app;
SELECT attempt($$SELECT outcome FROM handle_notify('T', 'PAY', '1', 'b'::bytea)$$);
SELECT attempt($$SELECT outcome FROM handle_notify('T', 'PAY', '1', 'b'::text)$$);
SELECT attempt($$SELECT notify_event_add('x')$$);
SELECT attempt($$SELECT notify_grant('regress_notify_app', 'app')$$);
SELECT attempt($$SELECT count(*) FROM notify_claim$$);
SELECT attempt($$SELECT count(*) FROM notify_outbox$$);
SELECT attempt($$DELETE FROM notify_transition$$);
SELECT attempt($$SELECT nextval('notify_claim_id_seq')$$);
RESET ROLE;

-- the owner of the order table declares its machine, given EXECUTE; nobody else's, and no event without a machine
GRANT EXECUTE ON FUNCTION notify_machine_add(regclass, text, text, text, boolean), notify_machine_set(text, regclass, text, text), notify_machine_drop(text),
	notify_transition_add(text, text, text, text, text), notify_transition_drop(text, text, text, text),
	notify_event_add(text, text, text, text, text, text, interval), notify_event_set(text, text, text, text, text, interval), notify_event_drop(text)
	TO regress_notify_shop, regress_notify_other;
CREATE TABLE dba_table (k int PRIMARY KEY, s text);
SELECT notify_machine_add('dba_table', 'k', 's');
SELECT notify_event_add('push', message_type => 'PUSHED');
SET ROLE regress_notify_shop;
SELECT attempt($$SELECT notify_machine_add('shop.orders', 'order_no', 'status')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PENDING', 'PAID', 'ORDER_PAID', machine => 'orders')$$);
SELECT attempt($$SELECT notify_event_set('PAY', on_early => 'skip')$$);
SELECT attempt($$SELECT notify_event_add('SHIP', machine => 'orders')$$);
SELECT attempt($$SELECT notify_event_add('other.push')$$);
SELECT attempt($$SELECT notify_event_set('push', message_type => 'HIJACKED')$$);
SELECT attempt($$SELECT notify_event_drop('push')$$);
SELECT attempt($$SELECT notify_machine_add('dba_table', 'k', 's', machine => 'mine')$$);
SELECT attempt($$SELECT notify_transition_add('HIJACK', 'a', 'b', machine => 'dba_table')$$);
SELECT attempt($$SELECT notify_machine_set('dba_table', 'shop.orders', 'order_no', 'status')$$);
SELECT attempt($$SELECT notify_machine_set('orders', 'dba_table', 'k', 's')$$);
SELECT attempt($$SELECT notify_machine_drop('dba_table')$$);
SET ROLE regress_notify_other;
SELECT attempt($$SELECT notify_machine_add('shop.orders', 'order_no', 'status', machine => 'theirs')$$);
SELECT attempt($$SELECT notify_transition_add('PAY', 'PAID', 'FREE', machine => 'orders')$$);
SELECT attempt($$SELECT notify_transition_drop('PAY', 'PENDING', 'PAID')$$);
SELECT attempt($$SELECT notify_event_set('PAY', on_early => 'retry')$$);
SELECT attempt($$SELECT notify_event_drop('PAY')$$);
SELECT attempt($$SELECT notify_machine_set('orders', status_column => 'secret')$$);
SELECT attempt($$SELECT notify_machine_drop('orders')$$);
RESET ROLE;
SELECT event_type, machine, message_type, on_early FROM notify_event ORDER BY 1;

-- notify_grant
SELECT attempt($$SELECT notify_grant('regress_notify_app', 'root')$$);
SELECT attempt($$SELECT notify_grant('regress_notify_nobody', 'app')$$);
SELECT attempt($$SELECT notify_grant(NULL, 'app')$$);
SELECT attempt($$SELECT notify_grant('regress_notify_app', NULL)$$);
SELECT notify_grant('regress_notify_app', 'app');
SELECT p.oid::regprocedure AS granted FROM pg_proc p, pg_depend d
WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'notify_claim')
	AND has_function_privilege('regress_notify_app', p.oid, 'EXECUTE') ORDER BY 1;

-- the order table is the caller's business: its privileges decide
INSERT INTO shop.orders VALUES ('1', 'PENDING', 'x'), ('2', 'PENDING', 'x'), ('3', 'PENDING', 'x');
SET ROLE regress_notify_app;
SELECT attempt($$SELECT outcome FROM handle_notify('T1', 'PAY', '1', 'b')$$);
RESET ROLE;
GRANT USAGE ON SCHEMA shop TO regress_notify_app;
SET ROLE regress_notify_app;
SELECT attempt($$SELECT outcome FROM handle_notify('T1', 'PAY', '1', 'b')$$);
RESET ROLE;
GRANT SELECT (order_no, status) ON shop.orders TO regress_notify_app;
SET ROLE regress_notify_app;
SELECT attempt($$SELECT outcome FROM handle_notify('T1', 'PAY', '1', 'b')$$);
RESET ROLE;
SELECT count(*) FROM notify_claim;
GRANT UPDATE (status) ON shop.orders TO regress_notify_app;
SET ROLE regress_notify_app;
SELECT outcome, result, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
SELECT outcome, result, replayed FROM handle_notify('T1', 'PAY', '1', 'b');
SELECT outcome FROM handle_notify('T1', 'PAY', '2', 'b');
SELECT outcome FROM handle_notify('P1', 'push', 'x', 'b');
RESET ROLE;
-- nor does a plan made for one role serve another that may less
SET ROLE regress_notify_other;
SELECT attempt($$SELECT outcome FROM handle_notify('T2', 'PAY', '2', 'b')$$);
RESET ROLE;
SELECT notify_grant('regress_notify_other', 'app');
SET ROLE regress_notify_other;
SELECT attempt($$SELECT outcome FROM handle_notify('T2', 'PAY', '2', 'b')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('T1', 'PAY', '1', 'b')$$);
RESET ROLE;
SELECT order_no, status FROM shop.orders ORDER BY 1;

-- row level security of the caller's: what a policy hides does not exist
ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;
SET ROLE regress_notify_app;
SELECT outcome FROM handle_notify('T2', 'PAY', '2', 'b');
RESET ROLE;
CREATE POLICY see ON shop.orders FOR SELECT TO regress_notify_app USING (order_no <> '3');
SET ROLE regress_notify_app;
SELECT outcome FROM handle_notify('T3', 'PAY', '3', 'b');
-- seen, but hidden from UPDATE: not taken for a row that another transaction holds
SELECT outcome FROM handle_notify('T2', 'PAY', '2', 'b');
RESET ROLE;
CREATE POLICY move ON shop.orders FOR UPDATE TO regress_notify_app USING (true) WITH CHECK (status <> 'PAID');
SET ROLE regress_notify_app;
SELECT attempt($$SELECT outcome FROM handle_notify('T2', 'PAY', '2', 'b')$$);
RESET ROLE;
DROP POLICY move ON shop.orders;
CREATE POLICY move ON shop.orders FOR UPDATE TO regress_notify_app USING (true);
SELECT count(*) FROM notify_claim WHERE order_no <> '1';
SET ROLE regress_notify_app;
SELECT outcome FROM handle_notify('T2', 'PAY', '2', 'b');
-- a replay reads no order row
SELECT outcome, replayed FROM handle_notify('T2', 'PAY', '2', 'b');
RESET ROLE;
-- the table's owner is under policies only where they are forced
ALTER TABLE shop.orders FORCE ROW LEVEL SECURITY;
SELECT notify_grant('regress_notify_shop', 'app');
SET ROLE regress_notify_shop;
SELECT outcome FROM handle_notify('T3', 'PAY', '3', 'b');
RESET ROLE;
ALTER TABLE shop.orders NO FORCE ROW LEVEL SECURITY;
SET ROLE regress_notify_shop;
SELECT outcome FROM handle_notify('T3', 'PAY', '3', 'b');
RESET ROLE;

-- a hostile search_path: operators, types, functions and tables of our names come first
CREATE SCHEMA hostile AUTHORIZATION regress_notify_app;
SET ROLE regress_notify_app;
CREATE TABLE hostile.seen (what text, who name);
CREATE FUNCTION hostile.spy(text, text) RETURNS boolean LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO hostile.seen VALUES ('text', current_user); RETURN true; END $$;
CREATE OPERATOR hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.spy);
CREATE FUNCTION hostile.spy(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO hostile.seen VALUES ('varchar', current_user); RETURN true; END $$;
CREATE OPERATOR hostile.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = hostile.spy);
CREATE DOMAIN hostile.jsonb AS text;
CREATE DOMAIN hostile.regclass AS text;
CREATE FUNCTION hostile.gen_random_uuid() RETURNS uuid LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO hostile.seen VALUES ('uuid', current_user); RETURN NULL; END $$;
CREATE TABLE hostile.notify_claim (biz_key text, channel text);
CREATE TABLE hostile.notify_event (event_type text);
CREATE TABLE hostile.orders (order_no text, status text);
CREATE TEMP TABLE notify_claim (biz_key text, channel text);
CREATE TEMP TABLE notify_outbox (seq int);
CREATE TEMP TABLE notify_event (event_type text);
SET search_path = hostile, pg_temp, public, pg_catalog;
SELECT outcome, replayed FROM public.handle_notify('T1', 'PAY', '1', 'b');
SELECT outcome, replayed FROM public.handle_notify('T4', 'PAY', '2', 'b');
SELECT outcome, replayed FROM public.handle_notify('P2', 'push', '2', 'b');
RESET ROLE;
SET ROLE regress_notify_shop;
SET search_path = hostile, pg_temp, public, pg_catalog;
SELECT public.notify_transition_add('REFUND', 'PAID', 'REFUNDED', machine => 'orders'),
       public.notify_transition_drop('REFUND', 'PAID', 'REFUNDED', machine => 'orders'),
       public.notify_event_set('REFUND', on_early => 'skip'), public.notify_event_drop('REFUND');
RESET ROLE;
RESET search_path;
SELECT DISTINCT what, who FROM hostile.seen;
SELECT biz_key FROM public.notify_claim ORDER BY id;
SELECT count(*) FROM hostile.notify_claim;

-- what runs inside the call on the order table runs as the caller, with the caller's search_path
CREATE FUNCTION shop.who() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN NEW.secret := current_user || ' ' || current_setting('search_path'); RETURN NEW; END $$;
CREATE TRIGGER who BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.who();
INSERT INTO shop.orders VALUES ('5', 'PENDING');
GRANT USAGE ON SCHEMA public TO regress_notify_app;
SET ROLE regress_notify_app;
SET search_path = shop, public;
SELECT outcome FROM handle_notify('T5', 'PAY', '5', 'b');
RESET ROLE;
RESET search_path;
SELECT secret FROM shop.orders WHERE order_no = '5';

-- operators that fit a domain or varchar exactly, in a schema where others may create objects, are not taken either:
-- not for the order table's statements, and not for the extension's own constraints
CREATE SCHEMA lib;
GRANT USAGE, CREATE ON SCHEMA lib TO regress_notify_app;
CREATE OPERATOR lib.= (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq);
CREATE OPERATOR lib.< (LEFTARG = text, RIGHTARG = text, FUNCTION = text_lt);
CREATE OPERATOR CLASS lib.text_ops FOR TYPE text USING btree AS OPERATOR 1 lib.<, OPERATOR 3 lib.=, FUNCTION 1 bttextcmp(text, text);
CREATE DOMAIN lib.number AS text;
CREATE TABLE lib_order (k lib.number NOT NULL, s text);
CREATE UNIQUE INDEX ON lib_order (k lib.text_ops);
INSERT INTO lib_order VALUES ('1', 'PENDING'), ('2', 'PENDING');
SELECT notify_machine_add('lib_order', 'k', 's'), notify_transition_add('LIB', 'PENDING', 'PAID', machine => 'lib_order');
SET ROLE regress_notify_app;
CREATE FUNCTION lib.spy(lib.number, lib.number) RETURNS boolean LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO hostile.seen VALUES ('domain', current_user); RETURN true; END $$;
CREATE OPERATOR lib.= (LEFTARG = lib.number, RIGHTARG = lib.number, FUNCTION = lib.spy);
RESET ROLE;
SELECT outcome FROM handle_notify('L', 'LIB', '1', 'b');
TABLE lib_order ORDER BY k;
DROP EXTENSION notify_claim CASCADE;
DROP TABLE lib_order;
CREATE SCHEMA planted;
GRANT USAGE, CREATE ON SCHEMA planted TO regress_notify_app;
SET ROLE regress_notify_app;
CREATE FUNCTION planted.spy(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO hostile.seen VALUES ('planted', current_user); RETURN true; END $$;
CREATE OPERATOR planted.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = planted.spy);
CREATE OPERATOR planted.<> (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = planted.spy);
CREATE OPERATOR planted.~ (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = planted.spy);
CREATE OPERATOR planted.!~ (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = planted.spy);
RESET ROLE;
CREATE EXTENSION notify_claim SCHEMA planted;
SELECT planted.notify_machine_add('dba_table', 'k', 's');
SELECT planted.notify_transition_add('P', 'a', 'b', message_type => 'M');
SELECT planted.notify_event_add('push', message_type => 'PUSHED', on_early => 'skip');
SELECT outcome FROM planted.handle_notify('T', 'push', '1', 'b');
SELECT attempt($$INSERT INTO planted.notify_event VALUES ('a:b')$$) ~ '^23514' AS refused;
SELECT DISTINCT what, who FROM hostile.seen;
DROP EXTENSION notify_claim CASCADE;
CREATE EXTENSION notify_claim;
DROP SCHEMA planted, lib CASCADE;

DROP SCHEMA hostile CASCADE;
DROP TABLE pg_temp.notify_claim, pg_temp.notify_outbox, pg_temp.notify_event;
DROP EXTENSION notify_claim CASCADE;
DROP SCHEMA shop CASCADE;
DROP TABLE dba_table;
DROP FUNCTION attempt;
REVOKE USAGE ON SCHEMA public FROM regress_notify_app;
DROP ROLE regress_notify_app, regress_notify_shop, regress_notify_other;
