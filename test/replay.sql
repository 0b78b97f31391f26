-- Replays a delivery log in a database that has the extension and its machines,
-- and reports; run by test/demo, which also says what a log looks like. Reads
-- log.copy, the log in COPY's format, and writes steps.sql.
\pset pager off
\pset footer off
\pset border 0
\pset null ''

CREATE SCHEMA replay;

CREATE TABLE replay.line (
	no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	line text NOT NULL
);

-- What a line says, and what came of it.
CREATE TABLE replay.step (
	no bigint PRIMARY KEY,
	kind text NOT NULL,			-- delivery, insert, update
	at text,
	actor text,
	note text,
	order_no text,
	machine text,
	channel text,
	channel_txn_id text,
	event_type text,
	body bytea,
	data jsonb,
	new_row jsonb,
	new_status text,
	status_before text,
	status_after text,
	error_code text,
	error_message text,
	answer jsonb
);

\copy replay.line (line) FROM 'log.copy'

--
-- Reading the log
--

-- Member of an object as text; the member must be there, but may be null.
CREATE FUNCTION replay.member(object jsonb, name text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	IF NOT object ? name THEN
		RAISE EXCEPTION 'no "%"', name;
	END IF;
	RETURN object ->> name;
END $$;

CREATE FUNCTION replay.body(object jsonb) RETURNS bytea
LANGUAGE plpgsql AS $$
BEGIN
	IF object ? 'body_base64' THEN
		RETURN decode(object ->> 'body_base64', 'base64');
	END IF;
	IF jsonb_typeof(object -> 'body') NOT IN ('string', 'null') THEN
		RAISE EXCEPTION '"body" is not a string: it has to be the exact text that was received';
	END IF;
	RETURN convert_to(replay.member(object, 'body'), 'UTF8');
END $$;

-- The machine of an order that the line does not name by an event.
CREATE FUNCTION replay.machine(object jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	machines text[] := ARRAY(SELECT machine FROM notify_machine);
BEGIN
	IF object ? 'machine' AND object ->> 'machine' = ANY (machines) THEN
		RETURN object ->> 'machine';
	ELSIF object ? 'machine' OR cardinality(machines) <> 1 THEN
		RAISE EXCEPTION '"machine" has to be one of: %', array_to_string(machines, ', ');
	END IF;
	RETURN machines[1];
END $$;

CREATE FUNCTION replay.read_line(no bigint, object jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	step replay.step;
BEGIN
	IF jsonb_typeof(object) <> 'object' THEN
		RAISE EXCEPTION 'not a JSON object';
	END IF;
	step.no := no;
	step.at := object ->> 'time';
	step.note := object ->> 'note';
	step.order_no := replay.member(object, 'order_no');
	IF object ? 'by' THEN
		step.actor := object ->> 'by';
		step.machine := replay.machine(object);
		IF object ? 'insert' THEN
			step.kind := 'insert';
			step.new_row := object -> 'insert';
			IF jsonb_typeof(step.new_row) <> 'object' THEN
				RAISE EXCEPTION '"insert" is not a JSON object';
			END IF;
		ELSE
			step.kind := 'update';
			step.new_status := replay.member(object, 'status');
		END IF;
	ELSE
		step.kind := 'delivery';
		step.channel_txn_id := replay.member(object, 'channel_txn_id');
		step.event_type := replay.member(object, 'event_type');
		step.channel := CASE WHEN object ? 'channel' THEN object ->> 'channel' ELSE 'default' END;
		step.body := replay.body(object);
		step.data := object -> 'data';
		-- Of an undeclared event: any, to show the order's status.
		step.machine := coalesce(
			(SELECT e.machine FROM notify_event e WHERE e.event_type = step.event_type),
			(SELECT min(m.machine) FROM notify_machine m
			 WHERE NOT EXISTS (SELECT FROM notify_event e WHERE e.event_type = step.event_type)));
	END IF;
	INSERT INTO replay.step SELECT step.*;
END $$;

DO $$
DECLARE
	l record;
	message text;
	detail text;
BEGIN
	FOR l IN SELECT no, line FROM replay.line WHERE line ~ '[^[:space:]]' ORDER BY no
	LOOP
		PERFORM replay.read_line(l.no, l.line::jsonb);
	END LOOP;
	IF NOT EXISTS (SELECT FROM replay.step) THEN
		RAISE EXCEPTION 'the log is empty';
	END IF;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RAISE EXCEPTION '%', concat_ws(': ', 'line ' || l.no, message, nullif(detail, ''));
END $$;

--
-- Replaying it
--

-- Present status of a step's order; NULL where there is none.
CREATE FUNCTION replay.status(step replay.step) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	m notify_machine;
	status text;
BEGIN
	SELECT * INTO m FROM notify_machine WHERE machine = step.machine;
	IF FOUND THEN
		EXECUTE format('SELECT %I::text FROM %s WHERE %I = %L',
					   m.status_column, m.order_table, m.order_column, step.order_no)
			INTO status;
	END IF;
	RETURN status;
EXCEPTION WHEN data_exception THEN
	RETURN NULL;			-- an order number that the column's type refuses
END $$;

CREATE FUNCTION replay.before(step_no bigint) RETURNS void
BEGIN ATOMIC
	UPDATE replay.step SET status_before = replay.status(step) WHERE no = step_no;
END;

CREATE FUNCTION replay.after(step_no bigint, code text, message text, row_count bigint, answer text) RETURNS void
BEGIN ATOMIC
	UPDATE replay.step
		SET status_after = replay.status(step),
			error_code = nullif(code, '00000'),
			error_message = CASE WHEN code <> '00000' THEN message
								 WHEN kind = 'update' AND row_count = 0 THEN 'no such order' END,
			answer = nullif(after.answer, '')::jsonb
		WHERE no = step_no;
END;

-- The one statement that a step is.
CREATE FUNCTION replay.statement(step replay.step) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	m notify_machine;
	row_json jsonb;
	columns text;
BEGIN
	SELECT * INTO m FROM notify_machine WHERE machine = step.machine;
	CASE step.kind
		WHEN 'delivery' THEN
			RETURN format('SELECT to_jsonb(a) AS answer FROM handle_notify(%L, %L, %L, %L::bytea, channel => %L, data => %L::jsonb) AS a \gset',
						  step.channel_txn_id, step.event_type, step.order_no, step.body, step.channel, step.data);
		WHEN 'update' THEN
			RETURN format('UPDATE %s SET %I = %L WHERE %I = %L;',
						  m.order_table, m.status_column, step.new_status, m.order_column, step.order_no);
		WHEN 'insert' THEN
			row_json := step.new_row || jsonb_build_object(m.order_column, step.order_no);
			SELECT string_agg(quote_ident(name), ', ') INTO columns FROM jsonb_object_keys(row_json) AS name;
			RETURN format('INSERT INTO %s (%s) SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, %3$L);',
						  m.order_table, columns, row_json);
	END CASE;
END $$;

\pset format unaligned
\pset tuples_only on
\o steps.sql
SELECT format(E'\\set answer \'\'\nSELECT replay.before(%s);\n%s\nSELECT replay.after(%1$s, :\'SQLSTATE\', :\'LAST_ERROR_MESSAGE\', :ROW_COUNT, :\'answer\');',
			  no, replay.statement(step))
	FROM replay.step ORDER BY no;
\o /dev/null
\set ON_ERROR_STOP off
\i steps.sql
\set ON_ERROR_STOP on
\o
\pset tuples_only off
\pset format aligned

--
-- The report
--

CREATE FUNCTION replay.ack(answer jsonb) RETURNS text
RETURN concat_ws(' ', answer ->> 'ack_status', nullif(answer ->> 'ack_body', ''));

-- As much of an ack as the table of all steps has room for.
CREATE FUNCTION replay.short_ack(answer jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	ack text := regexp_replace(replay.ack(answer), '\s+', ' ', 'g');
BEGIN
	RETURN CASE WHEN length(ack) > 20 THEN left(ack, 17) || '...' ELSE ack END;
END $$;

SELECT at AS "time",
	   channel,
	   CASE kind WHEN 'delivery' THEN concat(channel_txn_id, ':', event_type) ELSE concat('(', actor, ')') END AS key,
	   order_no AS "order",
	   status_before AS before,
	   CASE WHEN error_code IS NOT NULL THEN 'ERROR ' || error_code
			WHEN error_message IS NOT NULL THEN 'nothing'
			WHEN kind = 'insert' THEN 'created'
			WHEN kind = 'update' THEN 'updated'
			ELSE concat_ws(' ', answer ->> 'outcome', answer -> 'result' ->> 'reason') END AS outcome,
	   status_after AS after,
	   CASE WHEN (answer ->> 'replayed')::boolean THEN 'replayed' END AS replayed,
	   replay.short_ack(answer) AS ack,
	   regexp_replace(coalesce(error_message, note, ''), '\s+', ' ', 'g') AS note
	FROM replay.step ORDER BY no;

SELECT EXISTS (SELECT FROM replay.step WHERE replay.short_ack(answer) <> replay.ack(answer)) AS shortened \gset
\if :shortened
\echo Acks in full
SELECT DISTINCT channel, replay.ack(answer) AS ack
	FROM replay.step WHERE replay.short_ack(answer) <> replay.ack(answer) ORDER BY 1, 2;
\endif

SELECT DISTINCT format('\echo Orders in %s', order_table) || E'\n'
	   || format('SELECT * FROM %s ORDER BY %I LIMIT 50;', order_table, order_column) AS orders
	FROM notify_machine \g (format=unaligned tuples_only=on) steps.sql
\i steps.sql

\echo Claims
SELECT channel, biz_key AS key, order_no AS "order", outcome, result_json AS result, digest_mode AS digest,
	   left(payload_hash, 8) AS hash
	FROM notify_claim ORDER BY id LIMIT 50;

SELECT EXISTS (SELECT FROM notify_parked) AS parked \gset
\if :parked
\echo Parked
SELECT claim, channel, concat(channel_txn_id, ':', event_type) AS key, order_no AS "order", parked_at,
	   array_to_string(awaits, ', ') AS awaits, attempts, last_error
	FROM notify_parked ORDER BY claim LIMIT 50;
\endif

SELECT EXISTS (SELECT FROM notify_review_open) AS reviews \gset
\if :reviews
\echo Reviews
SELECT id, kind, channel, concat(channel_txn_id, ':', event_type) AS key, order_no AS "order", hits, variants, reason
	FROM notify_review_open ORDER BY id LIMIT 50;
SELECT format('\echo Review %s: %s', id,
			  CASE WHEN kind = 'CHECK_REFUSED' THEN 'what was refused'
				   WHEN EXISTS (SELECT FROM notify_review_diff(id) WHERE member = '(digest)')
				   THEN 'what differs (the channel keeps no bodies)'
				   ELSE 'what differs' END)
	   || format(E'\nSELECT * FROM notify_review_diff(%s);', id) AS diffs
	FROM notify_review_open ORDER BY id LIMIT 50 \g (format=unaligned tuples_only=on) steps.sql
\i steps.sql
\endif

-- Of an alarm the key, the channel and the order number.
\echo Outbox
SELECT seq, aggregatetype, aggregateid, type, payload ->> 'from' AS "from", payload ->> 'to' AS "to",
	   CASE WHEN aggregatetype = 'notify_review' THEN (payload - '{kind,first_hash,payload_hash}'::text[])::text
			ELSE payload ->> 'data' END AS data
	FROM notify_outbox ORDER BY seq LIMIT 50;

--
-- The other receiver: it writes each delivery into a log table with a unique
-- index on channel, transaction id and event type. Where the index lets it pass,
-- it sets the status that the event stands for, without a look at the present
-- one or at the amount, and tells its consumers. It always answers SUCCESS.
--

CREATE TABLE replay.seen (key text PRIMARY KEY, no bigint NOT NULL);
CREATE TABLE replay.other_order (id text PRIMARY KEY, status text);
CREATE TABLE replay.wrong_move (no bigint PRIMARY KEY, order_no text, from_status text, to_status text);

CREATE FUNCTION replay.plural(n integer, noun text) RETURNS text
RETURN concat(n, ' ', noun, CASE WHEN n <> 1 THEN 's' END);

-- "A, B and C"; of more than "most" the others are only counted.
CREATE FUNCTION replay.enumerate(items text[], most integer DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	n integer;
BEGIN
	IF cardinality(items) > most THEN
		items := items[:most] || format('%s more', cardinality(items) - most);
	END IF;
	n := cardinality(items);
	RETURN concat_ws(' and ', nullif(array_to_string(items[:n - 1], ', '), ''), items[n]);
END $$;

-- What has become of a delivery by now; of a parked one, since it was answered.
CREATE FUNCTION replay.outcome(step replay.step) RETURNS text
LANGUAGE sql STABLE AS $$
	SELECT CASE WHEN step.answer ->> 'outcome' <> 'PARKED' THEN step.answer ->> 'outcome'
				ELSE (SELECT c.outcome FROM notify_claim AS c
					  WHERE c.channel = step.channel
					  AND c.biz_key = concat(step.channel_txn_id, ':', step.event_type)) END;
$$;

CREATE FUNCTION replay.unique_index_only() RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	s replay.step;
	first replay.step;
	step_key text;
	step_id text;
	current text;
	edge notify_transition;
	told boolean := false;
	refused integer := 0;
	astray integer := 0;
	lost integer := 0;
	changed integer := 0;
	harm text[];
BEGIN
	FOR s IN SELECT * FROM replay.step WHERE error_code IS NULL ORDER BY no
	LOOP
		step_id := concat(s.machine, ':', s.order_no);
		IF s.kind = 'insert' THEN
			INSERT INTO replay.other_order VALUES (step_id, s.status_after);
			CONTINUE;
		ELSIF s.kind = 'update' THEN
			UPDATE replay.other_order SET status = s.new_status WHERE id = step_id;
			CONTINUE;
		END IF;

		step_key := jsonb_build_array(s.channel, s.channel_txn_id, s.event_type);
		INSERT INTO replay.seen VALUES (step_key, s.no) ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			SELECT * INTO first FROM replay.step WHERE no = (SELECT no FROM replay.seen WHERE key = step_key);
			IF notify_digest(first.channel, first.body) IS DISTINCT FROM notify_digest(s.channel, s.body)
				OR s.answer ->> 'outcome' = 'CONFLICT' THEN
				changed := changed + 1;
			ELSIF first.answer ->> 'outcome' = 'NO_ORDER' AND replay.outcome(s) = 'APPLIED'
				AND NOT (s.answer ->> 'replayed')::boolean THEN
				lost := lost + 1;
			END IF;
			CONTINUE;
		END IF;

		refused := refused + (replay.outcome(s) = 'REJECTED')::integer;
		SELECT status INTO current FROM replay.other_order WHERE id = step_id;
		-- The legal step, else what the event stands for.
		SELECT * INTO edge FROM notify_transition t
			WHERE t.machine = s.machine AND t.event_type = s.event_type
			ORDER BY (t.from_status = current) IS TRUE DESC, t.to_status IS NULL, t.from_status NULLS FIRST
			LIMIT 1;
		CONTINUE WHEN NOT FOUND OR current IS NULL;
		UPDATE replay.other_order SET status = coalesce(edge.to_status, status) WHERE id = step_id;
		IF edge.to_status = current OR (edge.to_status IS NULL AND edge.from_status <> current) THEN
			astray := astray + (edge.message_type IS NOT NULL)::integer;
		ELSIF edge.from_status <> current THEN
			INSERT INTO replay.wrong_move VALUES (s.no, s.order_no, current, edge.to_status);
			told := told OR edge.message_type IS NOT NULL;
		END IF;
	END LOOP;

	harm := ARRAY(
		SELECT format('moved %s from %s to %s', replay.enumerate(array_agg(DISTINCT order_no), 5),
					  from_status, to_status)
		FROM replay.wrong_move GROUP BY from_status, to_status ORDER BY min(no));
	IF told THEN
		harm := harm || 'told its consumers so'::text;
	END IF;
	IF refused > 0 THEN
		harm := harm || format('accepted %s that a check refuses', replay.plural(refused, 'notification'));
	END IF;
	IF astray > 0 THEN
		harm := harm || format('sent %s twice or too early', replay.plural(astray, 'message'));
	END IF;
	IF lost > 0 THEN
		harm := harm || format('lost %s that came before %s', replay.plural(lost, 'notification'),
							   CASE lost WHEN 1 THEN 'its order' ELSE 'their orders' END);
	END IF;
	IF changed > 0 THEN
		harm := harm || format('overlooked %s with other content', replay.plural(changed, 'repeat'));
	END IF;
	RETURN format('A receiver with only a unique index on (channel, transaction id, event type) would have %s.',
				  coalesce(nullif(replay.enumerate(harm), ''), 'come to no harm with this log'));
END $$;

\pset tuples_only on
\pset format unaligned
SELECT replay.unique_index_only();
