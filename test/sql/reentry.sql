-- Code of the table owner's that runs while a definition is read, and calls
-- handle_notify when the definition has just changed.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
SELECT notify_event_add('inner', message_type => 'INNER');
SELECT notify_event_add('dummy');

CREATE SEQUENCE run;
CREATE FUNCTION meddle() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	UPDATE public.notify_event SET message_type = 'INNER' || nextval('public.run') WHERE event_type = 'inner';
	PERFORM public.handle_notify('R' || currval('public.run'), 'inner', '1', 'b');
	RETURN true;
END $$;
-- it says that it is immutable, as it has to in an index
CREATE FUNCTION meddle_immutable() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN public.meddle(); END $$;
CREATE DOMAIN meddling AS text CHECK (VALUE IS NULL OR public.meddle());

CREATE TABLE biz_order (order_no int NOT NULL, status meddling);
CREATE UNIQUE INDEX a_partial ON biz_order (order_no) WHERE meddle_immutable();
CREATE UNIQUE INDEX b_whole ON biz_order (order_no);
SET session_replication_role = replica;
INSERT INTO biz_order SELECT n, 'PENDING' FROM generate_series(1, 9) AS n;
RESET session_replication_role;
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
SELECT outcome, result FROM handle_notify('T1', 'PAY', '1', 'b');
SELECT outcome, result FROM handle_notify('T2', 'PAY', '2', 'b');
SELECT outcome, result FROM handle_notify('T1', 'PAY', '01', 'b');
DISCARD PLANS;
ALTER TABLE biz_order ADD extra int;
SELECT outcome, result FROM handle_notify('T3', 'PAY', '3', 'b');
SELECT outcome, result FROM handle_notify('T4', 'PAY', '4', 'b');
SELECT string_agg(biz_key || ' ' || outcome, ', ' ORDER BY id) FROM notify_claim WHERE biz_key LIKE 'T%';
SELECT count(*) = (SELECT count(*) FROM notify_outbox WHERE type LIKE 'INNER%') AS inner_messages FROM notify_claim WHERE biz_key LIKE '%:inner';

-- the check of a domain is one thing for each call, also of a call within it
CREATE FUNCTION nest(text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF $1 LIKE 'outer%' THEN PERFORM public.handle_notify('N' || $1, 'NEST', 'inner', 'b'); END IF;
	RETURN upper($1);
END $$;
CREATE DOMAIN nesting AS text CHECK (upper(VALUE) = public.nest(VALUE) AND VALUE <> 'outer-bad');
CREATE TABLE nest_order (k nesting PRIMARY KEY, s text);
SELECT notify_machine_add('nest_order', 'k', 's', machine => 'nest'), notify_transition_add('NEST', 'PENDING', 'PAID', machine => 'nest');
INSERT INTO nest_order VALUES ('outer1', 'PENDING'), ('inner', 'PENDING');
SELECT outcome FROM handle_notify('N1', 'NEST', 'outer1', 'b');
SELECT outcome FROM handle_notify('N2', 'NEST', 'outer2', 'b');
SELECT outcome FROM handle_notify('N3', 'NEST', 'outer-bad', 'b');

DROP TABLE nest_order;
DROP DOMAIN nesting;
DROP FUNCTION nest;
DROP TABLE biz_order;
DROP DOMAIN meddling;
DROP FUNCTION meddle_immutable, meddle;
DROP SEQUENCE run;
DROP EXTENSION notify_claim CASCADE;
