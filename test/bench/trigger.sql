-- The session of test/bench/trigger.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE attached (order_no bigint PRIMARY KEY, status text NOT NULL, version int DEFAULT 0) WITH (fillfactor = 50);
CREATE TABLE plain (LIKE attached INCLUDING ALL) WITH (fillfactor = 50);
DO $$
BEGIN
	PERFORM notify_machine_add('attached', 'order_no', 'status');
	PERFORM notify_machine_add('plain', 'order_no', 'status', attach => false);
	PERFORM notify_transition_add('PAY', 'PENDING', 'PAID', machine => 'attached');
	PERFORM notify_transition_add('SHIP', 'PACKED', 'SHIPPED', machine => 'attached');
END $$;
INSERT INTO attached SELECT n, 'PENDING' FROM generate_series(1, 1000) AS n;
INSERT INTO plain SELECT n, 'PENDING' FROM generate_series(1, 1000) AS n;
-- Some claims, so that the index of what is parked is one of many.
DO $$ BEGIN PERFORM handle_notify('T' || n, 'PAY', n::text, 'b') FROM generate_series(1, 500) AS n; END $$;
VACUUM ANALYZE;

CREATE TABLE sample (what text, round int, attached_us float8, plain_us float8);
CREATE FUNCTION spend(tab text, assignment text, rows int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	start timestamptz := clock_timestamp();
BEGIN
	IF rows = 1 THEN
		FOR n IN 1 .. 100 LOOP
			EXECUTE format('UPDATE %I SET %s WHERE order_no = $1', tab, assignment) USING n;
		END LOOP;
		RETURN extract(epoch FROM clock_timestamp() - start) * 1e4;
	END IF;
	EXECUTE format('UPDATE %I SET %s', tab, assignment);
	RETURN extract(epoch FROM clock_timestamp() - start) * 1e6 / 1000;
END $$;
CREATE PROCEDURE measure(rounds int) LANGUAGE plpgsql AS $$
DECLARE
	w record;
	attached_us float8;
	plain_us float8;
BEGIN
	FOR round IN 1 .. rounds LOOP
		FOR w IN SELECT * FROM (VALUES ('status changed, 1000 rows', 'status = ''S'' || version, version = version + 1', 1000),
				('status kept, 1000 rows', 'version = version + 1', 1000),
				('status changed, 1 row', 'status = ''S'' || version, version = version + 1', 1),
				('status kept, 1 row', 'version = version + 1', 1)) AS v (what, assignment, rows) ORDER BY random() LOOP
			-- whichever comes first
			IF random() < 0.5 THEN
				attached_us := spend('attached', w.assignment, w.rows);
				plain_us := spend('plain', w.assignment, w.rows);
			ELSE
				plain_us := spend('plain', w.assignment, w.rows);
				attached_us := spend('attached', w.assignment, w.rows);
			END IF;
			INSERT INTO sample VALUES (w.what, round, attached_us, plain_us);
			COMMIT;
		END LOOP;
	END LOOP;
END $$;
CALL measure(10);
TRUNCATE sample;
CALL measure(:rounds);

SELECT what,
	   round((percentile_cont(0.5) WITHIN GROUP (ORDER BY attached_us))::numeric, 1) AS attached_us,
	   round((percentile_cont(0.5) WITHIN GROUP (ORDER BY plain_us))::numeric, 1) AS plain_us,
	   round((percentile_cont(0.5) WITHIN GROUP (ORDER BY attached_us - plain_us))::numeric, 1) AS more_us,
	   round((percentile_cont(0.25) WITHIN GROUP (ORDER BY attached_us - plain_us))::numeric, 1) AS lower_quartile,
	   round((percentile_cont(0.75) WITHIN GROUP (ORDER BY attached_us - plain_us))::numeric, 1) AS upper_quartile
FROM sample GROUP BY what ORDER BY what;
