-- What goes wrong on the way leaves nothing behind: the whole call fails, and a retry works.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE biz_order (order_no int PRIMARY KEY, status text, note text);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 20) AS n;
CREATE FUNCTION pay(n int) RETURNS text LANGUAGE sql AS $$
	SELECT attempt(format($q$SELECT outcome || ' ' || replayed FROM handle_notify('T%s', 'PAY', '%s', 'b')$q$, n, n)) $$;
CREATE FUNCTION left_behind(n int, OUT status text, OUT claims bigint, OUT messages bigint) LANGUAGE sql AS $$
	SELECT (SELECT status FROM biz_order WHERE order_no = n),
	       (SELECT count(*) FROM notify_claim WHERE order_no = n::text),
	       (SELECT count(*) FROM notify_outbox WHERE aggregateid = n::text) $$;

-- case 11: the DBA's constraint or trigger refuses the message, or the claim
ALTER TABLE notify_outbox ADD CONSTRAINT no_messages CHECK (type <> 'ORDER_PAID') NOT VALID;
SELECT split_part(pay(1), E'\n', 1) AS pay;
SELECT * FROM left_behind(1);
ALTER TABLE notify_outbox DROP CONSTRAINT no_messages;
SELECT pay(1);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON notify_outbox FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT pay(2);
SELECT * FROM left_behind(2);
DROP TRIGGER refuse ON notify_outbox;
SELECT pay(2);
CREATE TRIGGER refuse BEFORE INSERT ON notify_claim FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT pay(3);
SELECT * FROM left_behind(3);
DROP TRIGGER refuse ON notify_claim;
SELECT pay(3);

-- case 12: the UPDATE raises; a 23505 of the user's is never taken for a duplicate claim
ALTER TABLE biz_order ADD CONSTRAINT unpaid CHECK (status <> 'PAID') NOT VALID;
SELECT pay(4);
SELECT * FROM left_behind(4);
ALTER TABLE biz_order DROP CONSTRAINT unpaid;
SELECT pay(4);
CREATE TABLE ledger (what text UNIQUE);
INSERT INTO ledger VALUES ('paid');
CREATE FUNCTION book() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ledger VALUES ('paid'); RETURN NULL; END $$;
CREATE TRIGGER book AFTER UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION book();
SELECT pay(5);
SELECT * FROM left_behind(5);
DROP TRIGGER book ON biz_order;
SELECT pay(5);

-- case 30: a trigger of the user's turns the status into something else, or keeps the row as it is
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_ARGV[0] = 'null' THEN RETURN NULL; END IF;
	NEW.status := nullif(TG_ARGV[0], 'nothing');
	RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION meddle('FROZEN');
SELECT pay(6);
SELECT * FROM left_behind(6);
DROP TRIGGER meddle ON biz_order;
CREATE TRIGGER meddle BEFORE UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION meddle('null');
SELECT pay(6);
SELECT * FROM left_behind(6);
DROP TRIGGER meddle ON biz_order;
CREATE TRIGGER meddle BEFORE UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION meddle('nothing');
SELECT pay(6);
SELECT * FROM left_behind(6);
DROP TRIGGER meddle ON biz_order;
CREATE RULE meddle AS ON UPDATE TO biz_order DO INSTEAD NOTHING;
SELECT pay(6);
SELECT * FROM left_behind(6);
DROP RULE meddle ON biz_order;
SELECT pay(6);

-- a trigger of the user's may call handle_notify itself, for another order and for the same
SELECT notify_event_add('audit', message_type => 'AUDITED');
CREATE FUNCTION nested() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM handle_notify('T' || NEW.order_no, 'audit', NEW.order_no::text, 'b');
	IF NEW.order_no = 7 THEN
		PERFORM handle_notify('T8', 'PAY', '8', 'b');
	END IF;
	NEW.note := (SELECT outcome || ' ' || replayed FROM handle_notify('T' || NEW.order_no, 'PAY', NEW.order_no::text, 'b'));
	RETURN NEW;
END $$;
CREATE TRIGGER nested BEFORE UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION nested();
SELECT pay(7);
SELECT * FROM biz_order WHERE order_no IN (7, 8) ORDER BY 1;
SELECT seq - min(seq) OVER () AS seq, aggregateid, type FROM notify_outbox WHERE aggregateid IN ('7', '8') ORDER BY seq;
DROP TRIGGER nested ON biz_order;

-- a cancelled call
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
CREATE TRIGGER slow AFTER UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION slow();
SET statement_timeout = '200ms';
\set VERBOSITY sqlstate
SELECT outcome FROM handle_notify('T9', 'PAY', '9', 'b');
\set VERBOSITY default
RESET statement_timeout;
DROP TRIGGER slow ON biz_order;
SELECT * FROM left_behind(9);
SELECT pay(9);

-- the call's limits are gone when it returns, and when it raises
SET lock_timeout = '7s';
SELECT pay(10);
SHOW lock_timeout;
SELECT outcome FROM handle_notify('T', 'PAY', 'no number', 'b');
SHOW lock_timeout;
CREATE FUNCTION show_limits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.note := current_setting('lock_timeout') || ' ' || current_setting('enable_seqscan') || ' ' || current_setting('jit'); RETURN NEW; END $$;
CREATE TRIGGER show_limits BEFORE UPDATE ON biz_order FOR EACH ROW EXECUTE FUNCTION show_limits();
SET jit = on;
SELECT pay(11);
SET notify_claim.busy_timeout = '1s';
SELECT pay(12);
SET lock_timeout = '20ms';
SELECT pay(13);
SET lock_timeout = 0;
SELECT pay(14);
SELECT note FROM biz_order WHERE order_no BETWEEN 11 AND 14 ORDER BY order_no;
SELECT left(attempt('SET notify_claim.busy_timeout = 0'), 5), left(attempt('SET notify_claim.busy_timeout = 60001'), 5),
       left(attempt('SET notify_claim.nonsense = 0'), 5);
RESET jit;
RESET lock_timeout;
RESET notify_claim.busy_timeout;

DROP TABLE biz_order, ledger;
DROP FUNCTION pay, left_behind, attempt, refuse, book, meddle, nested, slow, show_limits;
DROP EXTENSION notify_claim CASCADE;
