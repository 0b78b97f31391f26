-- Releases that fail, in every way; and what must not be lost then.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE o (id int PRIMARY KEY, status text, n int DEFAULT 0);
INSERT INTO o SELECT g, 'NEW' FROM generate_series(1, 40) AS g;
SELECT notify_machine_add('o', 'id', 'status');
SELECT notify_transition_add('PAY', 'NEW', 'PAID', message_type => 'PAID');
SELECT notify_transition_add('REFUND', 'PAID', 'REFUNDED', message_type => 'REFUNDED');
CREATE VIEW parked AS SELECT order_no, event_type, attempts, last_error FROM notify_parked;
CREATE FUNCTION explode(order_no text, event_type text, raw_body bytea)
RETURNS void LANGUAGE plpgsql AS $$BEGIN
	RAISE EXCEPTION '% explodes', order_no USING ERRCODE = convert_from(raw_body, 'UTF8');
END$$;

-- an action that fails after the release's own UPDATE: tried once, by each that wakes it
SELECT notify_event_set('REFUND', action_function => 'explode');
SELECT outcome FROM handle_notify('1', 'REFUND', '1', 'P0001');
UPDATE o SET status = 'PAID' WHERE id = 1;
TABLE parked;
SELECT notify_unpark('1');
SELECT notify_unpark_all();
TABLE parked;
SELECT outcome FROM handle_notify('2', 'REFUND', '2', 'P0001');
SELECT outcome FROM handle_notify('2', 'PAY', '2', '');
TABLE parked;
SELECT * FROM o WHERE id IN (1, 2) ORDER BY id;
SELECT aggregateid, type FROM notify_outbox ORDER BY seq;
SELECT count(notify_parked_close(claim, 'test')) FROM notify_parked;
SELECT notify_event_set('REFUND', action_function => '');

-- triggers of the table's that fail before and behind ours
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
	IF NEW.status = 'REFUNDED' THEN RAISE 'refused by %', TG_NAME; END IF;
	RETURN NULL;
END$$;
CREATE TRIGGER aaa AFTER UPDATE ON o FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT outcome FROM handle_notify('3', 'REFUND', '3', '');
UPDATE o SET status = 'PAID' WHERE id = 3;
TABLE parked;
ALTER TRIGGER aaa ON o RENAME TO zzz;
SELECT notify_unpark('3');
TABLE parked;
DROP TRIGGER zzz ON o;
SELECT notify_unpark('3');
TABLE parked;

-- what the transaction has to know reaches it, and the session is usable after it
SELECT notify_event_set('REFUND', action_function => 'explode');
SELECT outcome FROM handle_notify('4', 'REFUND', '4', '40001');
UPDATE o SET status = 'PAID' WHERE id = 4;
ROLLBACK;
BEGIN;
SAVEPOINT s;
UPDATE o SET status = 'PAID' WHERE id = 4;
ROLLBACK TO s;
SELECT outcome FROM handle_notify('4', 'PAY', '4', '');
ROLLBACK;
DO $$BEGIN
	UPDATE o SET status = 'PAID' WHERE id = 4;
EXCEPTION WHEN serialization_failure THEN
	RAISE WARNING '%', SQLERRM;
END$$;
SELECT outcome FROM handle_notify('5', 'REFUND', '5', '53200');
DO $$BEGIN
	UPDATE o SET status = 'PAID' WHERE id = 5;
EXCEPTION WHEN out_of_memory THEN
	RAISE WARNING '%', SQLERRM;
END$$;
SELECT id, status FROM o WHERE id IN (4, 5) ORDER BY id;
TABLE parked;
SELECT count(notify_parked_close(claim, 'test')) FROM notify_parked;

-- an action that parks more than was there at first, all of it poison: each is tried once
CREATE FUNCTION park_many(order_no text, event_type text, raw_body bytea)
RETURNS void LANGUAGE plpgsql AS $$BEGIN
	PERFORM public.handle_notify('many' || g, 'BAD', order_no, 'P0001'::bytea) FROM generate_series(1, 100) AS g;
END$$;
SELECT notify_transition_add('FINISH', 'REFUNDED', 'FINISHED');
SELECT notify_transition_add('BAD', 'FINISHED', NULL);
SELECT notify_event_set('BAD', action_function => 'explode');
SELECT notify_event_set('REFUND', action_function => 'park_many');
SELECT outcome FROM handle_notify('6', 'REFUND', '6', '');
SELECT outcome FROM handle_notify('6', 'FINISH', '6', '');
UPDATE o SET status = 'PAID' WHERE id = 6;
SELECT status FROM o WHERE id = 6;
SELECT count(*), min(attempts), max(attempts) FROM parked;
-- an action that moves another order and takes that back
CREATE FUNCTION move_and_take_back(order_no text, event_type text, raw_body bytea)
RETURNS void LANGUAGE plpgsql AS $$BEGIN
	BEGIN
		UPDATE public.o SET status = 'FINISHED' WHERE id = 8;
		RAISE 'taken back';
	EXCEPTION WHEN raise_exception THEN
		NULL;
	END;
END$$;
SELECT notify_event_set('REFUND', action_function => 'move_and_take_back');
SELECT outcome FROM handle_notify('8', 'BAD', '8', 'P0001');
SELECT outcome FROM handle_notify('7', 'REFUND', '7', '');
UPDATE o SET status = 'PAID' WHERE id = 7;
SELECT id, status FROM o WHERE id IN (7, 8) ORDER BY id;
SELECT * FROM parked WHERE order_no = '8';
SELECT count(notify_parked_close(claim, 'test')) FROM notify_parked;
SELECT notify_event_set('REFUND', action_function => '');

-- row level security that is forced on the owner does not hide what is parked
CREATE ROLE regress_notify_owner;
CREATE ROLE regress_notify_app;
SELECT notify_grant('regress_notify_app', 'app');
CREATE SCHEMA other AUTHORIZATION regress_notify_owner;
GRANT USAGE ON SCHEMA other TO regress_notify_app;
CREATE TABLE other.hidden (id int PRIMARY KEY, status text);
ALTER TABLE other.hidden OWNER TO regress_notify_owner;
ALTER TABLE other.hidden ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON other.hidden TO regress_notify_app USING (true);
GRANT SELECT, UPDATE ON other.hidden TO regress_notify_app;
INSERT INTO other.hidden VALUES (1, 'NEW'), (2, 'NEW');
SELECT notify_machine_add('other.hidden', 'id', 'status', machine => 'hidden');
SELECT notify_transition_add('H_PAY', 'NEW', 'PAID', machine => 'hidden');
SELECT notify_transition_add('H_REFUND', 'PAID', 'REFUNDED', machine => 'hidden');
SET ROLE regress_notify_app;
SELECT outcome FROM handle_notify('1', 'H_REFUND', '1', '');
UPDATE other.hidden SET status = 'PAID' WHERE id = 1;
TABLE other.hidden ORDER BY id;
RESET ROLE;
-- and the owner itself, whose own calls it does hold for, in one session and with the release's search_path
GRANT EXECUTE ON FUNCTION handle_notify(text, text, text, bytea, text, jsonb) TO regress_notify_owner;
SET ROLE regress_notify_owner;
SET search_path = pg_catalog, other, pg_temp;
SELECT outcome FROM public.handle_notify('2', 'H_REFUND', '2', ''::bytea);
CREATE POLICY owner ON other.hidden TO regress_notify_owner USING (id = 2);
SELECT outcome FROM public.handle_notify('1', 'H_PAY', '1', ''::bytea);
SELECT outcome FROM public.handle_notify('2', 'H_REFUND', '2', ''::bytea);
SELECT outcome FROM public.handle_notify('2', 'H_PAY', '2', ''::bytea);
TABLE other.hidden;
RESET search_path;
RESET ROLE;

-- the key's type is read as the table's owner too
CREATE FUNCTION spy(int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN
	RAISE WARNING 'read as %, path %', current_user, current_setting('search_path');
	RETURN true;
END$$;
CREATE TABLE other.spied (id int PRIMARY KEY, status text);
CREATE DOMAIN key AS int;
ALTER TABLE other.spied ALTER id TYPE key;
ALTER TABLE other.spied OWNER TO regress_notify_owner;
INSERT INTO other.spied VALUES (1, 'NEW');
SELECT notify_machine_add('other.spied', 'id', 'status', machine => 'spied');
SELECT notify_transition_add('S_PAY', 'NEW', 'PAID', machine => 'spied');
SELECT notify_transition_add('S_REFUND', 'PAID', 'REFUNDED', machine => 'spied');
SELECT outcome FROM handle_notify('1', 'S_REFUND', '1', '');
ALTER DOMAIN key ADD CHECK (spy(value)) NOT VALID;
SELECT notify_unpark('1', 'spied');
ALTER DOMAIN key DROP CONSTRAINT key_check;
SELECT count(notify_parked_close(claim, 'test')) FROM notify_parked;

-- a table that is made anew with the trigger: nothing is parked before the machine is told
SELECT outcome FROM handle_notify('9', 'REFUND', '9', '');
CREATE TABLE saved AS TABLE o;
DROP TABLE o;
CREATE TABLE o (id int PRIMARY KEY, status text, n int);
INSERT INTO o TABLE saved;
CREATE TRIGGER zz_notify_claim AFTER INSERT OR UPDATE ON o FOR EACH ROW EXECUTE FUNCTION notify_order_moved();
SELECT outcome FROM handle_notify('10', 'REFUND', '10', '');
UPDATE o SET status = 'PAID' WHERE id = 9;
SELECT notify_unpark_all();
SELECT attempt($$SELECT notify_unpark('9')$$);
SELECT order_no, status FROM o JOIN parked ON order_no = id::text;
SELECT notify_machine_set('o');
SELECT status FROM o WHERE id = 9;
SELECT outcome FROM handle_notify('10', 'REFUND', '10', '');
-- a column that is renamed
ALTER TABLE o RENAME status TO state;
UPDATE o SET state = 'PAID' WHERE id = 10;
SELECT notify_machine_set('o', status_column => 'state');
SELECT state FROM o WHERE id = 10;
ALTER TABLE o RENAME state TO status;
SELECT notify_machine_set('o', status_column => 'status');
-- a trigger that does not fire for every change does not count
DROP TRIGGER zz_notify_claim ON o;
CREATE TRIGGER zz_notify_claim AFTER INSERT OR UPDATE OF status ON o FOR EACH ROW EXECUTE FUNCTION notify_order_moved();
SELECT outcome FROM handle_notify('11', 'REFUND', '11', '');
DROP TRIGGER zz_notify_claim ON o;
CREATE TRIGGER zz_notify_claim AFTER UPDATE ON o FOR EACH ROW WHEN (NEW.n > 0) EXECUTE FUNCTION notify_order_moved();
SELECT outcome FROM handle_notify('11', 'REFUND', '11', '');
DROP TRIGGER zz_notify_claim ON o;
SELECT notify_machine_drop('spied');
SELECT notify_machine_drop('o');
SELECT notify_machine_add('o', 'id', 'status');

-- while transitions are declared one by one nothing is closed, but what is legal is applied
SELECT notify_transition_add('PAY', 'NEW', 'PAID', machine => 'o');
UPDATE o SET status = 'ON_HOLD' WHERE id = 12;
SELECT outcome FROM handle_notify('12', 'PAY', '12', '');
SELECT notify_transition_add(NULL, 'ON_HOLD', 'CHECKED', machine => 'o');
SELECT notify_transition_add(NULL, 'CHECKED', 'NEW', machine => 'o');
SELECT order_no, event_type, awaits FROM notify_parked;
SET client_min_messages = notice;
SELECT notify_transition_drop('PAY', 'NEW', 'PAID');
SELECT order_no, event_type, awaits FROM notify_parked;
SELECT notify_transition_add('PAY', 'ON_HOLD', 'PAID', machine => 'o');
SET client_min_messages = warning;
SELECT status FROM o WHERE id = 12;
SELECT count(*) FROM notify_parked;
SELECT notify_transition_add('PAY', 'NEW', 'PAID', machine => 'o');
SELECT notify_transition_add('REFUND', 'PAID', 'REFUNDED', machine => 'o');

-- reopened where the channel keeps bodies, with data, early still
SELECT notify_channel_add('keeps', keep_body => true);
SELECT notify_event_set('REFUND', on_early => 'skip');
SELECT outcome FROM handle_notify('13', 'REFUND', '13', 'body', channel => 'keeps');
SELECT notify_event_set('REFUND', on_early => 'park');
SELECT max(id) AS claim FROM notify_claim \gset
SELECT notify_reopen(:claim, 'should wait', data => '{"fee": 1}');
SELECT convert_from(raw_body, 'UTF8') AS body, data, attempts FROM notify_body WHERE claim = :claim;
-- a body that was not kept has to be given where it is needed
SELECT notify_event_set('REFUND', on_early => 'skip');
SELECT outcome FROM handle_notify('14', 'REFUND', '14', 'body');
SELECT notify_event_set('REFUND', on_early => 'park');
SELECT max(id) AS claim FROM notify_claim \gset
SELECT attempt(format($$SELECT notify_reopen(%s, 'should wait')$$, :claim));
SELECT outcome FROM handle_notify('14', 'REFUND', '14', 'body');
SELECT notify_reopen(:claim, 'should wait', raw_body => 'body');
-- the time that it may be parked for begins anew
UPDATE notify_claim SET created_at = created_at - interval '1 year' WHERE id = :claim;
SELECT age < '1 hour' AS age, expires > now() AS lives FROM notify_parked WHERE claim = :claim;
UPDATE o SET status = 'PAID' WHERE id = 14;
SELECT outcome FROM notify_claim WHERE id = :claim;
-- given up, it is reopened with the body that its review kept
CREATE FUNCTION show_body(order_no text, event_type text, raw_body bytea)
RETURNS void LANGUAGE plpgsql AS $$BEGIN
	RAISE WARNING 'body %', convert_from(raw_body, 'UTF8');
END$$;
SELECT notify_event_set('REFUND', action_function => 'show_body');
SELECT outcome FROM handle_notify('15', 'REFUND', '15', 'late', data => '{"fee": 2}');
SELECT max(id) AS claim FROM notify_claim \gset
UPDATE notify_claim SET created_at = created_at - interval '1 year' WHERE id = :claim;
UPDATE o SET status = 'PAID' WHERE id = 15;
SELECT outcome, result_json FROM notify_claim WHERE id = :claim;
SELECT notify_reopen(:claim, 'in time for us');
SELECT kind, state FROM notify_review WHERE claim = :claim;
SELECT notify_event_set('REFUND', action_function => '');

-- a conflict beside it leaves a refusal open that is about the claim
CREATE FUNCTION refuse(order_no text, event_type text, raw_body bytea)
RETURNS text LANGUAGE sql AS $$SELECT 'never'$$;
SELECT notify_event_set('REFUND', check_function => 'refuse');
SELECT outcome FROM handle_notify('16', 'REFUND', '16', 'bad');
UPDATE o SET status = 'PAID' WHERE id = 16;
SELECT outcome FROM handle_notify('16', 'REFUND', '16', 'other');
SELECT kind, state, hits FROM notify_review WHERE biz_key = '16:REFUND' ORDER BY kind;
SELECT notify_review_resolve(id, 'ALLOW', 'is good') FROM notify_review WHERE biz_key = '16:REFUND' AND kind = 'CHECK_REFUSED';
SELECT status FROM o WHERE id = 16;
SELECT kind, state FROM notify_review WHERE biz_key = '16:REFUND' ORDER BY kind;

-- a machine on a partition of a machine's table
CREATE TABLE parts (id int PRIMARY KEY, status text) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (100);
SELECT notify_machine_add('parts', 'id', 'status');
SELECT notify_machine_add('part', 'id', 'status');
SELECT notify_machine_drop('parts');
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgfoid = 'notify_order_moved()'::regprocedure AND tgrelid IN ('parts'::regclass, 'part'::regclass) ORDER BY 1;
SELECT notify_machine_drop('part');

DROP TABLE o, parts, saved;
DROP SCHEMA other CASCADE;
DROP DOMAIN key;
DROP FUNCTION refuse(), refuse(text, text, bytea), explode, park_many, move_and_take_back, show_body, spy, attempt;
DROP EXTENSION notify_claim CASCADE;
REVOKE ALL ON SCHEMA public FROM regress_notify_app;
DROP ROLE regress_notify_owner, regress_notify_app;
