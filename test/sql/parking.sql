-- Parked events: what comes too early is applied once it is legal.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE biz_order (order_no int PRIMARY KEY, status text, version int DEFAULT 0);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'biz_order'::regclass;
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUNDED');
SELECT notify_transition_add(NULL, 'PAID', 'PACKED');
SELECT notify_transition_add('SHIP', 'PACKED', 'SHIPPED', message_type => 'ORDER_SHIPPED');
SELECT notify_transition_add('DELIVER', 'SHIPPED', 'DELIVERED', message_type => 'ORDER_DELIVERED');
SELECT notify_transition_add('CANCEL', 'PENDING', 'CANCELLED', message_type => 'ORDER_CANCELLED');
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 60) AS n;
CREATE VIEW message AS SELECT seq, aggregateid AS order_no, type, payload ->> 'from' AS "from", payload ->> 'to' AS "to", payload ->> 'data' AS data
FROM notify_outbox WHERE aggregatetype = 'biz_order' ORDER BY seq;
CREATE VIEW claim AS SELECT id, biz_key, order_no, claim_state, outcome, result_json, message_id IS NOT NULL AS message FROM notify_claim ORDER BY id;

-- case 25: the refund first, then the payment
SELECT status, outcome, result, replayed, ack_status FROM handle_notify('R1', 'REFUND', '01', 'r', data => '{"fee": 2}');
SELECT status, outcome, result, replayed FROM handle_notify('R1', 'REFUND', '1', 'r');
SELECT outcome FROM handle_notify('R1', 'REFUND', '1', 'other');
SELECT channel, channel_txn_id, event_type, machine, order_no, parked_at, awaits, age < '1 hour' AS age, expires - since AS expires, attempts, last_error FROM notify_parked;
SELECT convert_from(raw_body, 'UTF8') AS body, data FROM notify_body;
TABLE message;
SELECT outcome, result FROM handle_notify('P1', 'PAY', '1', 'p');
SELECT * FROM biz_order WHERE order_no = 1;
TABLE message;
TABLE claim;
SELECT count(*) FROM notify_parked;
SELECT count(*) FROM notify_body;
SELECT status, outcome, result, replayed FROM handle_notify('R1', 'REFUND', '1', 'r');
-- first_seen is the first delivery's
SELECT first_seen = created_at AS first_seen FROM notify_claim, handle_notify('R1', 'REFUND', '1', 'r') WHERE biz_key = 'R1:REFUND';

-- case 45 and a chain: the warehouse packs without a callback, and releases two
SELECT outcome FROM handle_notify('D2', 'DELIVER', '2', 'd');
SELECT outcome FROM handle_notify('S2', 'SHIP', '2', 's');
SELECT outcome FROM handle_notify('P2', 'PAY', '2', 'p');
SELECT status FROM biz_order WHERE order_no = 2;
SET client_min_messages = notice;
UPDATE biz_order SET status = 'PACKED' WHERE order_no = 2;
UPDATE biz_order SET version = 7 WHERE order_no = 2;
SET client_min_messages = warning;
SELECT * FROM biz_order WHERE order_no = 2;
SELECT type, "from", "to" FROM message WHERE order_no = '2';
-- case 45: an order on hold, a status that no step knows
UPDATE biz_order SET status = 'ON_HOLD' WHERE order_no = 3;
SELECT outcome, result FROM handle_notify('P3', 'PAY', '3', 'p');
UPDATE biz_order SET status = 'PENDING' WHERE order_no = 3;
SELECT status FROM biz_order WHERE order_no = 3;
-- and one without a status, and one that is inserted
UPDATE biz_order SET status = NULL WHERE order_no = 4;
SELECT outcome, result FROM handle_notify('P4', 'PAY', '4', 'p');
DELETE FROM biz_order WHERE order_no = 4;
SELECT outcome FROM handle_notify('P4', 'PAY', '4', 'p');
INSERT INTO biz_order VALUES (4, 'PENDING');
SELECT status FROM biz_order WHERE order_no = 4;
-- case 26: three events in all six orders come to the same end
SELECT p, string_agg(DISTINCT b.status, ' ') AS status,
       (SELECT string_agg(m.type, ' ' ORDER BY m.seq) FROM message AS m WHERE m.order_no = min(b.order_no)::text) AS messages
FROM (SELECT row_number() OVER (ORDER BY a, c, e) + 10 AS n, ARRAY[a, c, e] AS p
	  FROM unnest('{PAY,REFUND,LATER}'::text[]) AS a, unnest('{PAY,REFUND,LATER}'::text[]) AS c, unnest('{PAY,REFUND,LATER}'::text[]) AS e
	  WHERE a <> c AND c <> e AND a <> e) AS x,
     LATERAL (SELECT count(*) FROM unnest(p) WITH ORDINALITY AS u(event, i), LATERAL handle_notify('X' || n || i, replace(event, 'LATER', 'SHIP'), n::text, 'b')) AS done,
     LATERAL (SELECT * FROM biz_order WHERE order_no = n) AS b
GROUP BY p ORDER BY p;
UPDATE biz_order SET status = 'PACKED' WHERE order_no BETWEEN 11 AND 16;
SELECT DISTINCT status, (SELECT string_agg(m.type, ' ' ORDER BY m.seq) FROM message AS m WHERE m.order_no = b.order_no::text) AS messages
FROM biz_order AS b WHERE order_no BETWEEN 11 AND 16;
-- two machines' orders in one UPDATE
SELECT outcome FROM generate_series(17, 19) AS n, handle_notify('S' || n, 'SHIP', n::text, 's');
SET client_min_messages = notice;
UPDATE biz_order SET status = 'PACKED' WHERE order_no BETWEEN 17 AND 20;
SET client_min_messages = warning;
SELECT order_no, status FROM biz_order WHERE order_no BETWEEN 17 AND 20 ORDER BY 1;
-- stale by then: closed
SELECT outcome FROM handle_notify('P21', 'SHIP', '21', 's');
SELECT outcome FROM handle_notify('C21', 'CANCEL', '21', 'c');
SELECT status, outcome, result, replayed FROM handle_notify('P21', 'SHIP', '21', 's');
-- a fork: of two that exclude each other the older one wins, whatever comes first in the alphabet
UPDATE biz_order SET status = 'ON_HOLD' WHERE order_no IN (22, 23);
SELECT outcome FROM handle_notify('C22', 'CANCEL', '22', 'c');
SELECT outcome FROM handle_notify('P22', 'PAY', '22', 'p');
SELECT outcome FROM handle_notify('P23', 'PAY', '23', 'p');
SELECT outcome FROM handle_notify('C23', 'CANCEL', '23', 'c');
UPDATE biz_order SET status = 'PENDING' WHERE order_no IN (22, 23);
SELECT order_no, status FROM biz_order WHERE order_no IN (22, 23) ORDER BY 1;
SELECT biz_key, outcome, result_json FROM claim WHERE order_no IN ('22', '23');

-- policies
SELECT notify_event_set('SHIP', on_early => 'retry');
SELECT outcome FROM handle_notify('S24', 'SHIP', '24', 's');
SELECT notify_event_set('SHIP', on_early => 'skip');
SELECT outcome, result FROM handle_notify('S24', 'SHIP', '24', 's');
SELECT notify_event_set('SHIP', on_early => 'park');
-- parked only where the trigger would see it
ALTER TABLE biz_order DISABLE TRIGGER zz_notify_claim;
SELECT outcome FROM handle_notify('S25', 'SHIP', '25', 's');
ALTER TABLE biz_order ENABLE ALWAYS TRIGGER zz_notify_claim;
SELECT outcome FROM handle_notify('S25', 'SHIP', '25', 's');
ALTER TABLE biz_order ENABLE REPLICA TRIGGER zz_notify_claim;
SELECT outcome FROM handle_notify('S26', 'SHIP', '26', 's');
ALTER TABLE biz_order ENABLE TRIGGER zz_notify_claim;

-- case 47: what fails stays parked with its error, and what woke it goes through
ALTER TABLE biz_order ADD CONSTRAINT small CHECK (version < 100);
CREATE FUNCTION bump(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE sql AS
	'UPDATE public.biz_order SET version = version + convert_from($3, ''UTF8'')::int WHERE order_no = $1::int';
SELECT notify_event_set('REFUND', action_function => 'bump');
SELECT outcome FROM handle_notify('R27', 'REFUND', '27', '500');
SELECT outcome FROM handle_notify('R27b', 'REFUND', '27', '5');
SELECT outcome FROM handle_notify('P27', 'PAY', '27', 'p');
SELECT * FROM biz_order WHERE order_no = 27;
SELECT channel_txn_id, attempts, last_error FROM notify_parked WHERE order_no = '27';
SELECT type FROM message WHERE order_no = '27';
SELECT status, outcome, replayed FROM handle_notify('R27', 'REFUND', '27', '500');
-- by hand
SELECT notify_unpark('27');
SELECT attempts FROM notify_parked WHERE order_no = '27';
ALTER TABLE biz_order DROP CONSTRAINT small;
SELECT notify_unpark('027');
SELECT * FROM biz_order WHERE order_no = 27;
SELECT notify_unpark('27'), notify_unpark('99', 'biz_order');
SELECT attempt($$SELECT notify_unpark('no number', 'biz_order')$$);
SELECT attempt($$SELECT notify_unpark('1', 'nothing')$$);
SELECT attempt($$SELECT notify_unpark(NULL)$$);
SELECT notify_event_set('REFUND', action_function => '');
-- what the transaction has to know is not held back
CREATE FUNCTION raise_it(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RAISE 'no' USING ERRCODE = convert_from(raw_body, 'UTF8');
END $$;
SELECT notify_event_set('REFUND', check_function => 'raise_it');
SELECT outcome FROM unnest('{40001,40P01,53100,53200,23505,55P03,42501,XX000,P0001,57014}'::text[]) WITH ORDINALITY AS u(code, n),
	handle_notify('E' || n, 'REFUND', (29 + n)::text, code);
SELECT code, attempt(format($$UPDATE biz_order SET status = 'PAID' WHERE order_no = %s RETURNING status$$, 29 + n))
FROM unnest('{40001,40P01,53100,53200,23505,55P03,42501,XX000,P0001}'::text[]) WITH ORDINALITY AS u(code, n);
\set VERBOSITY sqlstate
UPDATE biz_order SET status = 'PAID' WHERE order_no = 39;
\set VERBOSITY default
SELECT order_no, status FROM biz_order WHERE order_no BETWEEN 30 AND 39 ORDER BY 1;
SELECT order_no, attempts, last_error FROM notify_parked WHERE channel_txn_id LIKE 'E%';
SELECT notify_event_set('REFUND', check_function => '');
SELECT notify_unpark_all();
-- a check refuses at the release: the claim says so, a person is told, and the payment goes through
CREATE FUNCTION refuse(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE sql AS $$ SELECT 'too much' WHERE raw_body = 'much' $$;
SELECT notify_event_set('REFUND', check_function => 'refuse', action_function => 'bump');
SELECT outcome FROM handle_notify('R41', 'REFUND', '41', 'much', data => '{"d": 1}');
SELECT outcome FROM handle_notify('P41', 'PAY', '41', 'p');
SELECT status FROM biz_order WHERE order_no = 41;
SELECT status, outcome, result, replayed FROM handle_notify('R41', 'REFUND', '41', 'much');
SELECT kind, reason, hits, state, r.claim = c.id AS claim FROM notify_review AS r JOIN notify_claim AS c USING (biz_key) WHERE biz_key = 'R41:REFUND';
SELECT attempt($$SELECT notify_review_resolve(id, 'ALLOW', 'x') FROM notify_review WHERE biz_key = 'R41:REFUND'$$);
SELECT notify_event_set('REFUND', action_function => '');
SELECT notify_review_resolve(id, 'ALLOW', 'it was agreed') FROM notify_review WHERE biz_key = 'R41:REFUND';
SELECT status, outcome, result, replayed FROM handle_notify('R41', 'REFUND', '41', 'much');
SELECT type, data FROM message WHERE order_no = '41';
-- dismissed, it stays as it is
SELECT outcome FROM handle_notify('R42', 'REFUND', '42', 'much');
UPDATE biz_order SET status = 'PAID' WHERE order_no = 42;
SELECT notify_review_resolve(id, 'DISMISS', 'no') FROM notify_review WHERE biz_key = 'R42:REFUND';
SELECT status, outcome, replayed FROM handle_notify('R42', 'REFUND', '42', 'much');
-- allowed before it was parked: not asked at the release either
SELECT outcome FROM handle_notify('R43', 'REFUND', '43', 'few');
UPDATE biz_order SET status = 'PAID' WHERE order_no = 44;
SELECT outcome FROM handle_notify('R44', 'REFUND', '44', 'much');
UPDATE biz_order SET status = 'ON_HOLD' WHERE order_no = 44;
SELECT notify_review_resolve(id, 'ALLOW', 'yes') FROM notify_review WHERE biz_key = 'R44:REFUND';
UPDATE biz_order SET status = 'PAID' WHERE order_no IN (43, 44);
SELECT biz_key, outcome FROM claim WHERE order_no IN ('43', '44');
SELECT notify_event_set('REFUND', check_function => '');

-- case 48: not for ever
SELECT notify_event_set('SHIP', park_for => '1 day');
SELECT outcome FROM handle_notify('S45', 'SHIP', '45', 's', data => '{"w": 1}');
SELECT outcome FROM handle_notify('S46', 'SHIP', '46', 's');
UPDATE notify_claim SET created_at = created_at - interval '25 hours' WHERE biz_key IN ('S45:SHIP', 'S46:SHIP');
UPDATE biz_order SET status = 'PACKED' WHERE order_no = 45;
SELECT status FROM biz_order WHERE order_no = 45;
SELECT notify_unpark_all();
SELECT status, outcome, result, replayed FROM handle_notify('S45', 'SHIP', '45', 's');
SELECT status, outcome, result, replayed FROM handle_notify('S46', 'SHIP', '46', 's');
SELECT kind, biz_key, state FROM notify_review WHERE kind = 'PARKED_EXPIRED' ORDER BY id;
SELECT attempt($$SELECT notify_review_resolve(id, 'ALLOW', 'x') FROM notify_review WHERE biz_key = 'S45:SHIP'$$) LIKE '22023: %' AS refused;
SELECT notify_reopen(id, 'the parcel is real') FROM claim WHERE biz_key = 'S45:SHIP';
SELECT status FROM biz_order WHERE order_no = 45;
SELECT notify_review_resolve(id, 'DISMISS', 'never mind') FROM notify_review WHERE biz_key = 'S46:SHIP';
SELECT biz_key, state FROM notify_review WHERE kind = 'PARKED_EXPIRED' ORDER BY id;
SELECT notify_event_set('SHIP', park_for => '35 days');
SELECT attempt($$SELECT notify_event_set('SHIP', park_for => '0')$$);
SELECT attempt($$SELECT notify_event_add('NEW', park_for => '-1 day')$$);

-- closed by a person
SELECT outcome FROM handle_notify('S47', 'SHIP', '47', 's');
SELECT notify_parked_close(claim, 'was sent to the wrong shop') FROM notify_parked WHERE channel_txn_id = 'S47';
SELECT status, outcome, result, replayed FROM handle_notify('S47', 'SHIP', '47', 's');
UPDATE biz_order SET status = 'PACKED' WHERE order_no = 47;
SELECT status FROM biz_order WHERE order_no = 47;
SELECT attempt(format($$SELECT notify_parked_close(%s, 'again')$$, id)) FROM claim WHERE biz_key = 'S47:SHIP';
SELECT attempt($$SELECT notify_parked_close(0, 'x')$$);
SELECT attempt($$SELECT notify_parked_close(1, ' ')$$);
SELECT attempt($$SELECT notify_parked_close(NULL, 'x')$$);
-- and reopened: legal, early, still stale
SELECT notify_reopen(id, 'it was ours after all') FROM claim WHERE biz_key = 'S47:SHIP';
SELECT biz_key, outcome, result_json, message FROM claim WHERE biz_key = 'S47:SHIP';
SELECT outcome FROM handle_notify('S48', 'SHIP', '48', 's');
SELECT notify_parked_close(claim, 'no') FROM notify_parked WHERE channel_txn_id = 'S48';
SELECT notify_reopen(id, 'yes', raw_body => 's') FROM claim WHERE biz_key = 'S48:SHIP';
SELECT attempt(format($$SELECT notify_reopen(%s, 'again')$$, id)) FROM claim WHERE biz_key = 'S48:SHIP';
SELECT outcome FROM handle_notify('C48', 'CANCEL', '48', 'c');
SELECT notify_reopen(id, 'still') FROM claim WHERE biz_key = 'S48:SHIP';
SELECT biz_key, outcome, result_json FROM claim WHERE biz_key = 'S48:SHIP';
SELECT attempt(format($$SELECT notify_reopen(%s, 'x', raw_body => 'another')$$, id)) FROM claim WHERE biz_key = 'S48:SHIP';
SELECT notify_event_set('SHIP', action_function => 'bump');
SELECT attempt(format($$SELECT notify_reopen(%s, 'x')$$, id)) FROM claim WHERE biz_key = 'S48:SHIP';
SELECT notify_event_set('SHIP', action_function => '');
SELECT attempt($$SELECT notify_reopen(0, 'x')$$);
SELECT attempt($$SELECT notify_reopen(1, 'x')$$);
SELECT verb, review IS NOT NULL AS review, note FROM notify_decision ORDER BY id;
-- case 27: a transition declared too late
SELECT outcome, result FROM handle_notify('L49', 'CANCEL', '19', 'c');
SELECT notify_transition_add('CANCEL', 'SHIPPED', 'RETURNED', message_type => 'RETURNED');
SELECT notify_reopen(id, 'declared too late', data => '{"late": true}') FROM claim WHERE biz_key = 'L49:CANCEL';
SELECT status FROM biz_order WHERE order_no = 19;
SELECT type, data FROM message WHERE order_no = '19' ORDER BY seq DESC LIMIT 1;

-- declarations with something parked
SELECT outcome FROM handle_notify('D50', 'DELIVER', '50', 'd');
SELECT attempt($$SELECT notify_machine_drop('biz_order')$$);
SELECT attempt($$SELECT notify_event_drop('DELIVER')$$);
SELECT notify_transition_drop('DELIVER', 'SHIPPED', 'DELIVERED');
SELECT order_no, awaits FROM notify_parked WHERE event_type = 'DELIVER';
SELECT notify_transition_add('DELIVER', 'PENDING', 'DELIVERED', message_type => 'ORDER_DELIVERED');
SELECT status FROM biz_order WHERE order_no = 50;
SELECT notify_transition_drop('DELIVER', 'PENDING', 'DELIVERED');
SELECT notify_transition_add('DELIVER', 'SHIPPED', 'DELIVERED', message_type => 'ORDER_DELIVERED');

-- what the trigger did not see
SELECT outcome FROM generate_series(51, 53) AS n, handle_notify('S' || n, 'SHIP', n::text, 's');
SET session_replication_role = replica;
UPDATE biz_order SET status = 'PACKED' WHERE order_no BETWEEN 51 AND 53;
RESET session_replication_role;
SELECT order_no, status FROM biz_order WHERE order_no BETWEEN 51 AND 53 ORDER BY 1;
SELECT notify_unpark_all(1), notify_unpark_all(1), notify_unpark_all(), notify_unpark_all();
SELECT order_no, status FROM biz_order WHERE order_no BETWEEN 51 AND 53 ORDER BY 1;
SELECT attempt($$SELECT notify_unpark_all(0)$$);

-- ways to move an order
SELECT outcome FROM generate_series(54, 58) AS n, handle_notify('S' || n, 'SHIP', n::text, 's');
INSERT INTO biz_order VALUES (54, 'x') ON CONFLICT (order_no) DO UPDATE SET status = 'PACKED';
MERGE INTO biz_order AS b USING (VALUES (55)) AS v (n) ON b.order_no = v.n WHEN MATCHED THEN UPDATE SET status = 'PACKED';
WITH moved AS (UPDATE biz_order SET status = 'PACKED' WHERE order_no = 56 RETURNING 1) SELECT count(*) FROM moved;
DO $$
BEGIN
	BEGIN
		UPDATE biz_order SET status = 'PACKED' WHERE order_no = 57;
		RAISE 'undone';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
	UPDATE biz_order SET status = 'PACKED' WHERE order_no = 58;
END $$;
SELECT order_no, status FROM biz_order WHERE order_no BETWEEN 54 AND 58 ORDER BY 1;
SELECT order_no FROM notify_parked ORDER BY 1;
-- an order that gets the number of another
UPDATE biz_order SET order_no = 157 WHERE order_no = 57;
INSERT INTO biz_order VALUES (57, 'PACKED');
SELECT order_no, status FROM biz_order WHERE order_no IN (57, 157) ORDER BY 1;
-- the trigger function on a table of no machine, and called in other ways
CREATE TABLE other (a int);
CREATE TRIGGER t AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION notify_order_moved();
INSERT INTO other VALUES (1);
CREATE TRIGGER t2 BEFORE UPDATE ON other FOR EACH ROW EXECUTE FUNCTION notify_order_moved();
SELECT attempt($$UPDATE other SET a = 2$$);
SELECT attempt($$SELECT notify_order_moved()$$);

--
-- Whoever moves the order needs no rights beyond it; the release has the owner's
--
CREATE ROLE regress_notify_mover;
CREATE ROLE regress_notify_owner;
CREATE SCHEMA shop AUTHORIZATION regress_notify_owner;
CREATE TABLE shop.orders (order_no int PRIMARY KEY, status text, moved_by text);
CREATE TABLE shop.journal (who text, what text);
CREATE FUNCTION shop.journalize() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO journal VALUES (current_user, new.status); RETURN NULL; END $$;
CREATE TRIGGER journalize AFTER UPDATE ON shop.orders FOR EACH ROW WHEN (new.status = 'DONE') EXECUTE FUNCTION shop.journalize();
ALTER TABLE shop.orders OWNER TO regress_notify_owner;
ALTER TABLE shop.journal OWNER TO regress_notify_owner;
SELECT notify_machine_add('shop.orders', 'order_no', 'status', machine => 'shop');
SELECT notify_transition_add('END', 'READY', 'DONE', message_type => 'ENDED', machine => 'shop');
SELECT notify_transition_add(NULL, 'NEW', 'READY', machine => 'shop');
INSERT INTO shop.orders VALUES (1, 'NEW');
SELECT outcome FROM handle_notify('Z1', 'END', '1', 'z');
GRANT USAGE ON SCHEMA shop TO regress_notify_mover;
GRANT SELECT (order_no), UPDATE (status) ON shop.orders TO regress_notify_mover;
SET ROLE regress_notify_mover;
CREATE TEMP TABLE journal (who text, what text);
GRANT ALL ON journal TO PUBLIC;
UPDATE shop.orders SET status = 'READY' WHERE order_no = 1;
SELECT attempt($$SELECT count(*) FROM notify_claim$$);
SELECT attempt($$SELECT notify_unpark_all()$$);
SELECT count(*) FROM pg_temp.journal;
RESET ROLE;
SELECT order_no, status FROM shop.orders;
TABLE shop.journal;
SELECT outcome, claim_state FROM notify_claim WHERE biz_key = 'Z1:END';

--
-- Partitions, whose columns may stand in another order
--
CREATE TABLE parts (id int, status text, order_no int PRIMARY KEY) PARTITION BY RANGE (order_no);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 (junk int, order_no int PRIMARY KEY, id int, status text);
ALTER TABLE parts_2 DROP COLUMN junk;
SELECT notify_machine_add('parts', 'order_no', 'status', machine => 'parts');
SELECT notify_transition_add('PART', 'READY', 'DONE', machine => 'parts');
SELECT notify_transition_add(NULL, 'NEW', 'READY', machine => 'parts');
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
INSERT INTO parts (order_no, status) VALUES (1, 'NEW'), (11, 'NEW');
SELECT outcome FROM unnest('{1,11}'::text[]) AS n, handle_notify('Q' || n, 'PART', n, 'q');
UPDATE parts SET status = 'READY';
SELECT order_no, status FROM parts ORDER BY 1;
-- a partition without the trigger: nothing is parked any more
ALTER TABLE parts_2 DISABLE TRIGGER zz_notify_claim;
INSERT INTO parts (order_no, status) VALUES (2, 'NEW');
SELECT outcome FROM handle_notify('Q2', 'PART', '2', 'q');
ALTER TABLE parts_2 ENABLE TRIGGER zz_notify_claim;
SELECT outcome FROM handle_notify('Q2', 'PART', '2', 'q');

--
-- Upkeep
--
-- a table that is made anew: the machine has to be told, and the trigger comes with it
ALTER TABLE parts RENAME TO old_parts;
SELECT notify_parked_close(claim, 'table is going') FROM notify_parked WHERE machine = 'parts';
DROP TABLE old_parts;
CREATE TABLE parts (order_no int PRIMARY KEY, status text);
SELECT notify_machine_set('parts', 'parts');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'parts'::regclass;
INSERT INTO parts VALUES (1, 'NEW'), (2, 'NEW');
SELECT outcome FROM handle_notify('Q4', 'PART', '2', 'q');
UPDATE parts SET status = 'READY';
SELECT * FROM parts ORDER BY 1;
-- dropped by mistake: declared again, it is there again
DROP TRIGGER zz_notify_claim ON parts;
SELECT notify_machine_add('parts', 'order_no', 'status', machine => 'parts', attach => false);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'parts'::regclass;
SELECT notify_machine_add('parts', 'order_no', 'status', machine => 'parts');
SELECT notify_machine_add('parts', 'order_no', 'status', machine => 'parts');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'parts'::regclass;
-- the trigger protects the claims, and goes with the last machine
SELECT attempt($$DROP EXTENSION notify_claim$$) LIKE '2BP01:%' AS refused;
SELECT notify_machine_add('parts', 'order_no', 'status', machine => 'second');
SELECT notify_machine_drop('parts');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'parts'::regclass;
SELECT notify_machine_drop('second');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'parts'::regclass;

DROP VIEW message, claim;
DROP SCHEMA shop CASCADE;
DROP TABLE biz_order, other, parts, pg_temp.journal;
DROP OWNED BY regress_notify_mover, regress_notify_owner;
DROP ROLE regress_notify_mover, regress_notify_owner;
DROP FUNCTION bump, raise_it, refuse, attempt;
DROP EXTENSION notify_claim;
