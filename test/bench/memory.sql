-- The tables, machines and calls of test/bench/memory. :kinds is a list of kinds,
-- or empty for all of them; declarations change every :changes calls.
CREATE EXTENSION notify_claim;
CREATE SCHEMA bench;
CREATE SCHEMA shop;
-- Kept by DISCARD ALL.
ALTER DATABASE postgres SET client_min_messages = error;
SET client_min_messages = error;

--
-- Order tables, one for each thing that can happen
--

CREATE TABLE shop.biz_order (order_no bigint PRIMARY KEY, status text NOT NULL);
CREATE TYPE shop."Sub state" AS ENUM ('PENDING', 'PAID', 'DONE');
CREATE TABLE shop."Sub order" ("No" varchar(20) PRIMARY KEY, "State" shop."Sub state");
CREATE TABLE shop.nested_order (order_no bigint PRIMARY KEY, status text NOT NULL);
CREATE TABLE shop.secured_order (order_no bigint PRIMARY KEY, status text NOT NULL);
CREATE TABLE shop.held_order (order_no bigint PRIMARY KEY, status text NOT NULL);
CREATE TABLE shop.meddled_order (order_no bigint PRIMARY KEY, status text NOT NULL);
CREATE TABLE shop.refused_order (order_no bigint PRIMARY KEY, status text NOT NULL);
CREATE TABLE shop.checked_order (order_no bigint PRIMARY KEY, status text NOT NULL CHECK (status <> 'PAID'));
CREATE TABLE shop.twice_order (order_no bigint, status text NOT NULL);
CREATE TABLE shop.hooked_order (order_no bigint PRIMARY KEY, status text NOT NULL, version integer DEFAULT 0);
CREATE TABLE shop.poisoned_order (order_no bigint PRIMARY KEY, status text NOT NULL CHECK (status <> 'REFUNDED'));
CREATE TABLE shop.gone_order (order_no bigint PRIMARY KEY, status text NOT NULL);
CREATE DOMAIN shop.narrowed AS text CONSTRAINT labels CHECK (VALUE IN ('PENDING', 'PAID'));
CREATE TABLE shop.narrowed_order (order_no bigint PRIMARY KEY, status shop.narrowed);
INSERT INTO shop.biz_order VALUES (0, 'PENDING');
INSERT INTO shop.held_order VALUES (1, 'PENDING');
INSERT INTO shop.meddled_order VALUES (1, 'PENDING');
INSERT INTO shop.refused_order VALUES (1, 'PENDING'), (2, 'PENDING');
INSERT INTO shop.checked_order VALUES (1, 'PENDING');
INSERT INTO shop.twice_order VALUES (1, 'PENDING'), (1, 'PENDING'), (2, 'PENDING');
INSERT INTO shop.narrowed_order VALUES (1, 'PENDING');
INSERT INTO shop.hooked_order VALUES (0, 'PENDING');

CREATE FUNCTION shop.meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RETURN NULL;
END $$;
CREATE TRIGGER meddle BEFORE UPDATE ON shop.meddled_order FOR EACH ROW EXECUTE FUNCTION shop.meddle();

-- Calls of handle_notify inside a call: one that works, and one that raises.
CREATE FUNCTION shop.nested() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.handle_notify('T' || NEW.order_no, 'inner', NEW.order_no::text, 'b', TG_ARGV[0]);
	RETURN NEW;
END $$;
CREATE TRIGGER nested BEFORE UPDATE ON shop.nested_order FOR EACH ROW EXECUTE FUNCTION shop.nested('default');
CREATE TRIGGER nested BEFORE UPDATE ON shop.refused_order FOR EACH ROW
	WHEN (NEW.order_no = 2) EXECUTE FUNCTION shop.nested('unknown');
CREATE FUNCTION shop.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'no';
END $$;
CREATE TRIGGER refuse AFTER UPDATE ON shop.refused_order FOR EACH ROW
	WHEN (NEW.order_no = 1) EXECUTE FUNCTION shop.refuse();

CREATE FUNCTION bench.declare_sub_order() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.notify_machine_add('shop."Sub order"', 'No', 'State', machine => 'sub');
	PERFORM public.notify_transition_add('sub.pay', 'PENDING', 'PAID', message_type => 'SUB_PAID', machine => 'sub');
	PERFORM public.notify_transition_add(NULL, 'PAID', 'DONE', machine => 'sub');
END $$;
SELECT bench.declare_sub_order();
SELECT notify_machine_add('shop.biz_order', 'order_no', 'status', machine => 'biz');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID', machine => 'biz');
SELECT notify_transition_add('PAY', 'CANCELLED', NULL, message_type => 'PAID_AFTER_CANCEL');
SELECT notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUNDED', machine => 'biz');
SELECT notify_transition_add('SHIP', 'PAID', 'SHIPPED', message_type => 'ORDER_SHIPPED', machine => 'biz');
SELECT notify_transition_add('CANCEL', 'PENDING', 'CANCELLED', machine => 'biz');
SELECT notify_event_set('SHIP', on_early => 'retry');
SELECT notify_event_add('audit', message_type => 'AUDITED');
SELECT notify_event_add('inner', message_type => 'NESTED');
SELECT notify_machine_add(format('shop.%s_order', name)::regclass, 'order_no', 'status', machine => name),
	   notify_transition_add(name, 'PENDING', 'PAID', message_type => 'PAID', machine => name)
	FROM unnest('{nested,secured,held,meddled,refused,checked,gone,narrowed,hooked}'::text[]) AS name;
SELECT notify_machine_add('shop.poisoned_order', 'order_no', 'status', machine => 'poisoned');
SELECT notify_transition_add('poisoned.pay', 'PENDING', 'PAID', message_type => 'PAID', machine => 'poisoned');
SELECT notify_transition_add('poisoned', 'PAID', 'REFUNDED', message_type => 'REFUNDED', machine => 'poisoned');
SELECT notify_machine_add('shop.twice_order', 'order_no', 'status', machine => 'twice');
SELECT notify_transition_add('twice', 'PENDING', NULL, message_type => 'SEEN', machine => 'twice');
DROP TABLE shop.gone_order;

-- A check that refuses or raises, an action that works or raises, channels.
CREATE FUNCTION shop.check_hooked(order_no text, event_type text, raw_body bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF raw_body = 'check raises' THEN
		RAISE EXCEPTION 'no';
	END IF;
	RETURN (SELECT 'refused at ' || o.status FROM shop.hooked_order AS o
		WHERE o.order_no = check_hooked.order_no::bigint AND raw_body = 'bad');
END $$;
CREATE FUNCTION shop.act_hooked(order_no text, event_type text, raw_body bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE shop.hooked_order AS o SET version = version + 1 WHERE o.order_no = act_hooked.order_no::bigint;
	IF raw_body = 'action raises' THEN
		RAISE EXCEPTION 'no';
	END IF;
END $$;
SELECT notify_event_set('hooked', check_function => 'shop.check_hooked', action_function => 'shop.act_hooked');
SELECT notify_channel_add('json', digest => 'json', ignore => '{time,meta.n}', keep_body => true, max_body => 2000000);
SELECT notify_channel_add('form', preset => 'alipay');
ALTER DOMAIN shop.narrowed DROP CONSTRAINT labels;
ALTER DOMAIN shop.narrowed ADD CONSTRAINT labels CHECK (VALUE <> 'PAID');

-- A role that may see orders and one that may not.
CREATE ROLE app;
CREATE ROLE stranger;
SELECT notify_grant('app', 'app'), notify_grant('stranger', 'app');
GRANT USAGE ON SCHEMA shop, bench TO app, stranger;
GRANT SELECT, UPDATE ON shop.secured_order TO app;
ALTER TABLE shop.secured_order ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON shop.secured_order TO app USING (order_no > 0);
CREATE FUNCTION bench.as_app(n bigint) RETURNS SETOF record SECURITY DEFINER LANGUAGE sql AS $$
	SELECT outcome, replayed FROM public.handle_notify('A' || n, 'secured', n::text, 'b') $$;
ALTER FUNCTION bench.as_app(bigint) OWNER TO app;
CREATE FUNCTION bench.as_stranger(n bigint) RETURNS SETOF record SECURITY DEFINER LANGUAGE sql AS $$
	SELECT outcome, replayed FROM public.handle_notify('S' || n, 'PAY', n::text, 'b') $$;
ALTER FUNCTION bench.as_stranger(bigint) OWNER TO stranger;
CREATE FUNCTION bench.impatient(txn text, event text, order_no text) RETURNS SETOF record
SET notify_claim.busy_timeout = 1 LANGUAGE sql AS $$
	SELECT outcome, replayed FROM public.handle_notify(txn, event, order_no, 'b') $$;
-- What is parked, then applied by a call or by an UPDATE, or cannot be and is given up.
CREATE FUNCTION bench.released(n bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.handle_notify('G' || n, 'REFUND', n::text, repeat('b', (n % 30000)::integer));
	PERFORM public.handle_notify('P' || n, 'PAY', n::text, 'b');
	RETURN QUERY SELECT outcome, replayed FROM public.handle_notify('G' || n, 'REFUND', n::text, repeat('b', (n % 30000)::integer));
END $$;
CREATE FUNCTION bench.moved(n bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.handle_notify('G' || n, 'REFUND', n::text, 'b');
	UPDATE shop.biz_order SET status = 'PAID' WHERE order_no = n;
	RETURN QUERY SELECT outcome, replayed FROM public.handle_notify('G' || n, 'REFUND', n::text, 'b');
END $$;
CREATE FUNCTION bench.poisoned(n bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.handle_notify('G' || n, 'poisoned', n::text, 'b');
	UPDATE shop.poisoned_order SET status = 'PAID' WHERE order_no = n;
	PERFORM public.notify_unpark(n::text, 'poisoned');
	PERFORM public.notify_parked_close(claim, 'poison') FROM public.notify_parked WHERE attempts = 2 AND order_no = n::text;
	RETURN QUERY SELECT outcome, replayed FROM public.handle_notify('G' || n, 'poisoned', n::text, 'b');
END $$;
-- A batch of the outbox, of which one in four is done with, one fails, one is given
-- back and one expires.
CREATE FUNCTION bench.relayed(n bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	token uuid;
	seqs bigint[];
BEGIN
	SELECT l.token, array_agg(l.seq) INTO token, seqs
		FROM public.notify_outbox_lease('relay', 50, CASE n % 4 WHEN 3 THEN '1 microsecond' ELSE '1 hour' END::interval) AS l
		GROUP BY l.token;
	CASE n % 4
		WHEN 0 THEN PERFORM public.notify_outbox_ack(token, seqs);
		WHEN 1 THEN
			PERFORM public.notify_outbox_nack(token, seqs[1], 'no');
			PERFORM public.notify_outbox_ack(token, seqs);
		WHEN 2 THEN PERFORM public.notify_outbox_extend(token), public.notify_outbox_release(token);
		ELSE
	END CASE;
	RETURN QUERY SELECT CASE WHEN token IS NULL THEN 'nothing' ELSE 'LEASED' END, false;
END $$;
CREATE FUNCTION bench.replay() RETURNS void LANGUAGE sql AS $$
	SELECT public.handle_notify('T0', 'PAY', '0', 'body 0') $$;
GRANT EXECUTE ON FUNCTION bench.replay TO app;

--
-- Calls
--

CREATE TABLE bench.kind (
	no integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text NOT NULL UNIQUE,
	share integer NOT NULL,		-- of 1000 calls
	expected text NOT NULL,		-- outcome, or SQLSTATE
	source text NOT NULL,		-- of outcome and replayed; $1: number of the call, $2: last new notification
	fill text,					-- table that needs an order of that number
	before text,				-- statements of their own before and after
	after text,
	calls bigint NOT NULL DEFAULT 0,
	surprises bigint NOT NULL DEFAULT 0,
	statements bigint NOT NULL DEFAULT 0
);

INSERT INTO bench.kind (name, share, expected, source, fill) VALUES
	('new', 123, 'APPLIED', $$'T' || $1, 'PAY', $1::text, 'body ' || $1$$, 'shop.biz_order'),
	('new, with data', 60, 'APPLIED', $$'B' || $1, 'PAY', $1::text, convert_to(repeat('body ' || $1, $1::integer % 2000), 'UTF8'), data => jsonb_build_object('amount', $1, 'text', repeat('x', $1::integer % 3000))$$, 'shop.biz_order'),
	('new, of 1 MB', 1, 'APPLIED', $$'M' || $1, 'PAY', $1::text, repeat('y', 1000000 + $1::integer % 100000)$$, 'shop.biz_order'),
	('new, enum', 30, 'APPLIED', $$'E' || $1, 'sub.pay', $1::text, 'b'$$, 'shop."Sub order"'),
	('new, nested call', 10, 'APPLIED', $$'N' || $1, 'nested', $1::text, 'b'$$, 'shop.nested_order'),
	('new, row security', 5, 'APPLIED', $$'A' || $1, 'secured', $1::text, 'b'$$, 'shop.secured_order'),
	('new, event only', 50, 'APPLIED', $$'V' || $1, 'audit', $1::text, 'b'$$, NULL),
	('new, no change', 30, 'APPLIED', $$'R' || $1, 'REFUND', $2::text, 'b'$$, NULL),
	('new, key not unique', 5, 'APPLIED', $$'W' || $1, 'twice', '2', 'b'$$, NULL),
	('replay', 200, 'APPLIED replayed', $$'T' || $2, 'PAY', $2::text, 'body ' || $2$$, NULL),
	('replay, other spelling', 30, 'APPLIED replayed', $$'T' || $2, 'PAY', '0' || $2, convert_to('body ' || $2, 'UTF8')$$, NULL),
	('conflict', 50, 'CONFLICT', $$'T' || $2, 'PAY', $2::text, 'other body'$$, NULL),
	('conflict, order', 20, 'CONFLICT', $$'T' || $2, 'PAY', '1' || $2, 'body ' || $2$$, NULL),
	('new, json', 20, 'APPLIED', $$'J' || $1, 'audit', $1::text, format('{"a": %s, "time": 1}', $1), 'json'$$, NULL),
	('replay, json', 20, 'APPLIED replayed', $$'same', 'audit', '1', format('{"time":%s,"meta":{"n":[%s]},"a":1.0}', $1, $1), 'json'$$, NULL),
	('conflict, form', 10, 'CONFLICT', $$'same', 'audit', '1', format('b=%s&sign=x', $1), 'form'$$, NULL),
	('new, check and action', 20, 'APPLIED', $$'K' || $1, 'hooked', $1::text, 'good'$$, 'shop.hooked_order'),
	('rejected', 10, 'REJECTED', $$'L' || ($1 / 1000), 'hooked', '0', 'bad'$$, NULL),
	('already', 20, 'SKIPPED', $$'Y' || $1, 'PAY', $2::text, 'b'$$, NULL),
	('stale', 30, 'SKIPPED', $$'S' || $1, 'CANCEL', $2::text, 'b'$$, NULL),
	('early', 40, 'EARLY', $$'I' || $1, 'SHIP', $1::text, 'b'$$, 'shop.biz_order'),
	('no order', 40, 'NO_ORDER', $$'O' || $1, 'PAY', (1000000000000 + $1)::text, 'b'$$, NULL),
	('no rule', 10, 'NO_RULE', $$'U' || $1, 'undeclared', $1::text, 'b'$$, NULL),
	('no rule, many types', 10, 'NO_RULE', $$'U' || $1, 'undeclared.' || $1, $1::text, 'b'$$, NULL),
	-- These raise.
	('null', 4, '22004', $$'X', 'PAY', NULL, 'b'$$, NULL),
	('blank', 6, '22023', $$' ', 'PAY', $1::text, 'b'$$, NULL),
	('colon', 6, '22023', $$'X', 'PAY:' || $1, $1::text, 'b'$$, NULL),
	('key too long', 6, '22001', $$repeat('x', 200), 'PAY', $1::text, 'b'$$, NULL),
	('order too long', 4, '22001', $$'X', 'PAY', repeat('1', 100), 'b'$$, NULL),
	('unknown channel', 4, '42704', $$'X' || $1, 'PAY', $1::text, 'b', 'channel ' || $1$$, NULL),
	('no number', 4, '22P02', $$'X' || $1, 'PAY', 'order ' || $1, 'b'$$, NULL),
	('no number, replay', 4, '22P02', $$'T' || $2, 'PAY', 'order ' || $1, 'body ' || $2$$, NULL),
	('update meddled with', 8, '27000', $$'X' || $1, 'meddled', '1', 'b'$$, NULL),
	('order twice', 6, '21000', $$'X' || $1, 'twice', '1', 'b'$$, NULL),
	('constraint', 6, '23514', $$'X' || $1, 'checked', '1', 'b'$$, NULL),
	('trigger raises', 4, 'P0001', $$'X' || $1, 'refused', '1', 'b'$$, NULL),
	('nested call raises', 4, '42704', $$'X' || $1, 'refused', '2', 'b'$$, NULL),
	('no table', 4, '42P01', $$'X' || $1, 'gone', '1', 'b'$$, NULL),
	('body too long', 4, '54000', $$'X' || $1, 'audit', '1', repeat('x', 2000001), 'json'$$, NULL),
	('check raises', 4, 'P0001', $$'X' || $1, 'hooked', '0', 'check raises'$$, NULL),
	('action raises', 4, 'P0001', $$'X' || $1, 'hooked', '0', 'action raises'$$, NULL),
	('status refused', 4, '23514', $$'X' || $1, 'narrowed', '1', 'b'$$, NULL);
UPDATE bench.kind SET source = format('SELECT outcome, replayed FROM public.handle_notify(%s)', source);
INSERT INTO bench.kind (name, share, expected, source, fill) VALUES
	('busy', 1, 'BUSY', 'SELECT * FROM bench.impatient(''H'' || $1, ''held'', ''1'') AS (outcome text, replayed boolean)', NULL),
	('claim held', 4, '55P03', 'SELECT * FROM bench.impatient(''held'', ''audit'', ''1'') AS (outcome text, replayed boolean)', NULL),
	('parked, released by a call', 10, 'APPLIED replayed', 'SELECT * FROM bench.released($1) AS (outcome text, replayed boolean)', 'shop.biz_order'),
	('parked, released by others', 10, 'APPLIED replayed', 'SELECT * FROM bench.moved($1) AS (outcome text, replayed boolean)', 'shop.biz_order'),
	('parked, poison', 10, 'SKIPPED replayed', 'SELECT * FROM bench.poisoned($1) AS (outcome text, replayed boolean)', 'shop.poisoned_order'),
	('relayed', 20, 'LEASED', 'SELECT * FROM bench.relayed($1) AS (outcome text, replayed boolean)', NULL),
	('new, as another role', 5, 'APPLIED', 'SELECT * FROM bench.as_app($1) AS (outcome text, replayed boolean)', 'shop.secured_order'),
	('no privilege', 4, '42501', 'SELECT * FROM bench.as_stranger($1) AS (outcome text, replayed boolean)', 'shop.biz_order');
INSERT INTO bench.kind (name, share, expected, source, before, after)
	SELECT v.name, v.share, k.expected, k.source, v.before, v.after
	FROM (VALUES
		('in a transaction', 2, 'update meddled with', 'BEGIN; SELECT bench.replay()', 'ROLLBACK'),
		('to a savepoint', 2, 'trigger raises', 'BEGIN; SELECT bench.replay(); SAVEPOINT s', 'ROLLBACK TO s; SELECT bench.replay(); COMMIT'))
		AS v (name, share, as_kind, before, after)
	JOIN bench.kind AS k ON k.name = v.as_kind;
INSERT INTO bench.kind (name, share, expected, source, before, after)
	VALUES ('cancelled', 2, '57014', $$SELECT public.handle_notify('H' || $1, 'held', '1', 'b')$$,
			'BEGIN; SET LOCAL notify_claim.busy_timeout = 1000; SET LOCAL statement_timeout = 10', 'ROLLBACK');
DELETE FROM bench.kind WHERE :'kinds' <> '' AND name <> ALL (string_to_array(:'kinds', ';'));

DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM bench.kind) THEN
		RAISE EXCEPTION 'there are no such kinds';
	END IF;
END $$;

CREATE TABLE bench.state (last_new bigint NOT NULL, changes integer NOT NULL, slots integer[] NOT NULL);
INSERT INTO bench.state
	SELECT 0, :changes, array_agg(no ORDER BY md5(no || ' ' || i)) FROM bench.kind, generate_series(1, share) AS i;
CREATE TABLE bench.surprise (no bigint, name text, got text);
CREATE TABLE bench.sample (calls bigint PRIMARY KEY, at timestamptz, rss bigint);
CREATE TABLE bench.context (calls bigint, name text, ident text, n bigint, total bigint, used bigint);

CREATE FUNCTION bench.kind_of(n bigint, slots integer[]) RETURNS integer IMMUTABLE
RETURN slots[n % cardinality(slots) + 1];

-- Is call n, of kind k, a statement of its own? One in five of those that raise.
CREATE FUNCTION bench.is_statement(n bigint, k bench.kind, slots integer[]) RETURNS boolean IMMUTABLE
RETURN k.before IS NOT NULL OR (k.expected ~ '\d' AND (n + n / cardinality(slots)) % 5 = 0);

-- What happens to the declarations, and around them.
CREATE FUNCTION bench.change(i bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	CASE i % 12
		WHEN 0 THEN PERFORM public.notify_transition_add('PAY', 'FROZEN', 'PAID', machine => 'biz');
		WHEN 1 THEN PERFORM public.notify_event_add('extra', message_type => 'EXTRA');
		WHEN 2 THEN PERFORM public.notify_event_set('audit', message_type => 'AUDITED_' || i);
		WHEN 3 THEN UPDATE public.notify_transition SET message_type = 'PAID_' || i WHERE event_type = 'secured';
		WHEN 4 THEN
			PERFORM public.notify_machine_drop('sub');
			PERFORM bench.declare_sub_order();
		WHEN 5 THEN ALTER TABLE shop.biz_order ALTER status SET STATISTICS 100;
		WHEN 6 THEN DELETE FROM public.notify_transition WHERE from_status = 'FROZEN';
		WHEN 7 THEN DELETE FROM public.notify_event WHERE event_type = 'extra';
		WHEN 8 THEN ANALYZE shop."Sub order";
		WHEN 9 THEN
			CREATE TABLE bench.scratch (a integer);
			DROP TABLE bench.scratch;
		WHEN 10 THEN PERFORM public.notify_channel_set('json', ok_body => 'ok ' || i, ignore => ARRAY['time', 'meta.n', 'x' || i % 3]);
		WHEN 11 THEN PERFORM public.notify_event_set('hooked', action_function => 'shop.act_hooked', check_function => '');
			PERFORM public.notify_event_set('hooked', check_function => 'shop.check_hooked');
	END CASE;
END $$;

-- The calls first to last, but for those that are statements of their own.
CREATE FUNCTION bench.calls(first bigint, last bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	slots integer[] := (SELECT s.slots FROM bench.state AS s);
	latest bigint := (SELECT s.last_new FROM bench.state AS s);
	changes integer := (SELECT s.changes FROM bench.state AS s);
	kinds bench.kind[];
	k bench.kind;
	n bigint;
	outcome text;
	replayed boolean;
	got text;
	done integer[];
	wrong integer[];
BEGIN
	FOR k IN SELECT * FROM bench.kind ORDER BY no
	LOOP
		kinds[k.no] := k;
		done[k.no] := 0;
		wrong[k.no] := 0;
		IF k.fill IS NOT NULL THEN
			EXECUTE format('INSERT INTO %s SELECT n, ''PENDING'' FROM generate_series($1, $2) AS n WHERE bench.kind_of(n, $3) = $4', k.fill)
				USING first, last, slots, k.no;
		END IF;
	END LOOP;

	FOR n IN first..last
	LOOP
		IF changes > 0 AND n % nullif(changes, 0) = 0 THEN
			PERFORM bench.change(n / changes);
		END IF;
		k := kinds[bench.kind_of(n, slots)];
		CONTINUE WHEN bench.is_statement(n, k, slots);
		IF k.expected ~ '\d' THEN
			BEGIN
				EXECUTE k.source INTO outcome, replayed USING n, latest;
				got := outcome;
			EXCEPTION WHEN OTHERS THEN
				got := SQLSTATE;
			END;
		ELSE
			EXECUTE k.source INTO outcome, replayed USING n, latest;
			got := outcome || CASE WHEN replayed THEN ' replayed' ELSE '' END;
		END IF;
		done[k.no] := done[k.no] + 1;
		IF got <> k.expected THEN
			wrong[k.no] := wrong[k.no] + 1;
			INSERT INTO bench.surprise VALUES (n, k.name, got);
		END IF;
		IF k.name = 'new' THEN
			latest := n;
		END IF;
	END LOOP;

	UPDATE bench.kind AS b SET calls = b.calls + done[b.no], surprises = b.surprises + wrong[b.no];
	UPDATE bench.state SET last_new = latest;
END $$;

-- The others: to be executed as they are.
CREATE FUNCTION bench.statements(first bigint, last bigint, OUT before text, OUT call text, OUT after text)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	s bench.state := (SELECT s FROM bench.state AS s);
	k record;
	done integer[] := '{}';
BEGIN
	FOR k IN
		SELECT n, b.* FROM generate_series(first, last) AS n JOIN bench.kind AS b ON b.no = bench.kind_of(n, s.slots)
		WHERE bench.is_statement(n, b, s.slots) ORDER BY n
	LOOP
		before := k.before;
		call := replace(replace(k.source, '$1', k.n::text), '$2', s.last_new::text);
		after := k.after;
		done[k.no] := coalesce(done[k.no], 0) + 1;
		RETURN NEXT;
	END LOOP;
	UPDATE bench.kind AS b SET calls = b.calls + done[b.no], statements = b.statements + done[b.no] WHERE done[b.no] > 0;
END $$;

CREATE FUNCTION bench.sample_line(sampled bigint) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s %s %s %s %s %s', lpad(s.calls::text, 8),
				  lpad(extract(epoch FROM s.at - (SELECT min(at) FROM bench.sample))::integer::text, 8),
				  lpad(s.rss::text, 11), lpad((sum(c.total) / 1024)::bigint::text, 12),
				  lpad((sum(c.used) / 1024)::bigint::text, 8), lpad(sum(c.n)::text, 9))
	FROM bench.sample AS s JOIN bench.context AS c USING (calls)
	WHERE s.calls = sampled GROUP BY s.calls $$;

-- The first notification.
SELECT handle_notify('T0', 'PAY', '0', 'body 0');
SELECT handle_notify('same', 'audit', '1', '{"a":1,"meta":{}}', 'json'), handle_notify('same', 'audit', '1', 'a=1', 'form');
