-- What 057_histories.pl plays histories with, and the views that show where one
-- did not come out as it should.  An order is known by its history and its
-- number in that, k: two of one history may have the same order number.

CREATE EXTENSION notify_claim;

CREATE TABLE placed (history int, k int, machine text, order_no text, start text, steps text[],
	final text, messages text, ended text, PRIMARY KEY (history, k));
-- what comes, in turn: a delivery, or (number null) the application, and the answer
CREATE TABLE op (history int, n int, k int, event text, number int, answer text,
	PRIMARY KEY (history, n));
CREATE TABLE played (history int PRIMARY KEY, answers text[]);
-- the claims that there have to be in the end
CREATE TABLE due (history int, k int, number int, event text, answer text);
CREATE TABLE verdict (event text, status text, verdict text, PRIMARY KEY (event, status));
-- what the sessions were answered, each in turn
CREATE TABLE answered (at bigint GENERATED ALWAYS AS IDENTITY, n int, session int,
	history int, k int, number int, answer text);

CREATE FUNCTION place_orders() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT DISTINCT machine FROM notify_transition LOOP
		EXECUTE format('CREATE TABLE %I (order_no text PRIMARY KEY, status text NOT NULL)', name);
		PERFORM notify_machine_add(name::regclass, 'order_no', 'status');
		EXECUTE format('INSERT INTO %I SELECT order_no, start FROM placed WHERE machine = %L', name, name);
	END LOOP;
END $$;

CREATE FUNCTION collect_orders() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT machine FROM notify_machine LOOP
		EXECUTE format('UPDATE placed AS p SET ended = o.status FROM %I AS o'
			' WHERE p.machine = %L AND p.order_no = o.order_no', name, name);
	END LOOP;
END $$;

CREATE FUNCTION deliver(order_no text, event text, number int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a record;
BEGIN
	SELECT * INTO a FROM handle_notify(order_no || '.' || number, event, order_no,
		convert_to(event || number, 'UTF8'), data => jsonb_build_object('n', number));
	RETURN CASE WHEN a.status <> 'SUCCESS' THEN a.status || ' ' ELSE '' END || a.outcome
		|| CASE WHEN a.replayed THEN ' replayed' ELSE '' END || coalesce(' ' || a.result::text, '');
END $$;

-- The application tries its steps; returns how many it made.
CREATE FUNCTION act(history int, k int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	p placed;
	step text;
	made int := 0;
	n int;
BEGIN
	SELECT * INTO p FROM placed WHERE placed.history = act.history AND placed.k = act.k;
	FOREACH step IN ARRAY p.steps LOOP
		EXECUTE format('UPDATE %I SET status = $2 WHERE order_no = $3 AND status = $1 AND $4 <=
			(SELECT count(*) FROM notify_claim WHERE order_no = $3 AND outcome = ''APPLIED''
			AND biz_key LIKE %L)', p.machine, '%:' || p.machine || '.%')
			USING split_part(step, ' ', 1), split_part(step, ' ', 2), p.order_no,
				split_part(step, ' ', 3)::int;
		GET DIAGNOSTICS n = ROW_COUNT;
		made := made + n;
	END LOOP;
	RETURN made;
END $$;

-- Plays every second history, the odd or the even ones.
CREATE PROCEDURE play(odd int) LANGUAGE plpgsql AS $$
DECLARE
	o record;
	answers text[] := '{}';
	answer text;
BEGIN
	FOR o IN
		SELECT op.*, p.order_no, lead(op.n) OVER (PARTITION BY history ORDER BY n) IS NULL AS is_last
		FROM op JOIN placed AS p USING (history, k) WHERE history % 2 = odd ORDER BY history, n
	LOOP
		IF o.number IS NULL THEN
			answer := act(o.history, o.k);
		ELSE
			answer := deliver(o.order_no, o.event, o.number);
		END IF;
		answers := answers || answer;
		IF o.is_last THEN
			INSERT INTO played VALUES (o.history, answers);
			COMMIT;
			answers := '{}';
		END IF;
	END LOOP;
END $$;

-- A statement of a session, unless it found the order held.
CREATE FUNCTION session_deliver(n int, session int, history int, k int, order_no text, event text, number int)
RETURNS void LANGUAGE sql AS $$
	INSERT INTO answered (n, session, history, k, number, answer)
	SELECT n, session, history, k, number, answer FROM deliver(order_no, event, number) AS answer
	WHERE answer <> 'FAIL BUSY'
$$;

CREATE FUNCTION session_act(n int, session int, history int, k int)
RETURNS void LANGUAGE sql AS $$
	INSERT INTO answered (n, session, history, k) SELECT n, session, history, k FROM act(history, k)
$$;

-- An answer is expected without the result where that is open.
CREATE FUNCTION is_expected(answer text, expected text) RETURNS bool LANGUAGE sql AS $$
	SELECT coalesce(CASE WHEN expected LIKE '%{%' THEN answer ELSE split_part(answer, ' {', 1) END = expected, false)
$$;

CREATE VIEW claim AS
SELECT c.*, split_part(biz_key, ':', 2) AS event,
	substring(biz_key from '([0-9]+):')::int AS number,
	split_part(split_part(biz_key, ':', 2), '.', 1) AS machine
FROM notify_claim AS c;

CREATE VIEW wrong_status AS
SELECT history, k, machine, start, final, ended FROM placed WHERE ended IS DISTINCT FROM final;

CREATE VIEW wrong_messages AS
WITH sent AS (
	SELECT aggregatetype AS machine, aggregateid AS order_no,
		string_agg(concat_ws(' ', type, payload ->> 'from', payload ->> 'to',
			substring(payload ->> 'biz_key' from '([0-9]+):')), ', ' ORDER BY seq) AS messages
	FROM notify_outbox GROUP BY 1, 2)
SELECT history, k, placed.machine, placed.messages AS expected, sent.messages
FROM placed FULL JOIN sent USING (machine, order_no)
WHERE placed.messages IS DISTINCT FROM coalesce(sent.messages, '');

CREATE VIEW wrong_claims AS
SELECT history, k, d.event, d.number, d.answer, c.outcome, c.result_json
FROM due AS d JOIN placed AS p USING (history, k)
FULL JOIN claim AS c ON c.order_no = p.order_no AND c.event = d.event AND c.number = d.number
WHERE d.answer IS NULL OR NOT is_expected(c.outcome || ' ' || c.result_json::text, d.answer)
	OR (c.claim_state = 'PARKED') <> (c.outcome = 'PARKED')
	OR c.claim_state NOT IN ('PARKED', 'DONE');

-- Whenever a claim was closed, that was right at the status it is said to have been at.
CREATE VIEW wrong_reasons AS
SELECT c.order_no, c.event, c.number, c.result_json, v.verdict
FROM claim AS c LEFT JOIN verdict AS v ON v.event = c.event AND v.status = c.result_json ->> 'skipped'
WHERE outcome = 'SKIPPED' AND c.result_json ->> 'reason' IS DISTINCT FROM v.verdict;

CREATE VIEW wrong_links AS
SELECT c.order_no, c.biz_key, o.payload, b.attempts, b.last_error
FROM claim AS c FULL JOIN notify_outbox AS o ON o.id = c.message_id FULL JOIN notify_body AS b ON b.claim = c.id
WHERE c.id IS NULL OR (c.message_id IS NULL) <> (o.id IS NULL)
	OR (c.outcome = 'PARKED') <> (b.claim IS NOT NULL) OR b.attempts > 0
	OR o.id IS NOT NULL AND (o.payload ->> 'biz_key' <> c.biz_key
		OR o.payload -> 'data' IS DISTINCT FROM jsonb_build_object('n', c.number)
		OR (o.payload ->> 'from', o.payload ->> 'to') IS DISTINCT FROM
			(c.result_json ->> 'from', c.result_json ->> 'status'));

CREATE VIEW wrong_answers AS
SELECT history, n, k, event, number, answer AS expected, answers[n] AS answer, answers
FROM op LEFT JOIN played USING (history)
WHERE NOT is_expected(answers[n], answer);

-- Of the sessions' answers one was the first; no session was told less than
-- before; each is one that the claim has had.
CREATE VIEW wrong_in_sessions AS
SELECT 'not one first answer' AS what, history, k, number, array_agg(answer ORDER BY at) AS answers
FROM answered WHERE number IS NOT NULL
GROUP BY history, k, number HAVING count(*) FILTER (WHERE answer NOT LIKE '% replayed %') <> 1
UNION ALL
SELECT 'less than before', history, k, number, array_agg(answer ORDER BY at)
FROM (SELECT *, split_part(answer, ' ', 1) AS outcome,
		lag(split_part(answer, ' ', 1)) OVER (PARTITION BY history, k, number, session ORDER BY at) AS earlier
	FROM answered WHERE number IS NOT NULL) AS a
WHERE earlier <> 'PARKED' AND outcome <> earlier
GROUP BY history, k, number
UNION ALL
SELECT 'neither parked nor what it is', history, k, a.number, array_agg(a.answer ORDER BY at)
FROM answered AS a JOIN placed AS p USING (history, k)
JOIN claim AS c ON c.machine = p.machine AND c.order_no = p.order_no AND c.number = a.number
WHERE a.answer !~ '^PARKED (replayed )?{"parked": "."}$'
	AND replace(a.answer, ' replayed', '') <> c.outcome || ' ' || c.result_json::text
GROUP BY history, k, a.number;
