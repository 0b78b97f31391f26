-- What a backend keeps does not grow with calls, errors and changes.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE biz_order (order_no int PRIMARY KEY, status varchar(5));
INSERT INTO biz_order VALUES (1, 'A'), (2, 'A');
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT count(notify_transition_add('E' || n, 'S' || n, 'S' || n + 1)) FROM generate_series(1, 40) AS n;

-- everything that was cached, in contexts of ours and of the plans that we keep
CREATE VIEW kept AS
SELECT count(*) AS contexts, sum(total_bytes) AS bytes FROM pg_backend_memory_contexts
WHERE name LIKE 'notify_claim%' OR ident LIKE '%notify_%' OR ident LIKE '%biz_order%' OR name IN ('CachedPlan', 'CachedPlanSource', 'SPI Plan');
CREATE FUNCTION call(txn text, event text, ord text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT outcome FROM handle_notify(txn, event, ord, 'b'));
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;

-- definitions that raise while they are read
INSERT INTO notify_transition VALUES ('biz_order', 'E1', 'TOO LONG', 'S1');
SELECT DISTINCT call('T', 'E1', '1') FROM generate_series(1, 100);
SELECT * FROM kept \gset before_
SELECT DISTINCT call('T', 'E1', '1') FROM generate_series(1, 3000);
SELECT contexts - :before_contexts < 10 AS contexts, bytes - :before_bytes < 200000 AS bytes FROM kept;
DELETE FROM notify_transition WHERE from_status = 'TOO LONG';

-- definitions that change, in one transaction
CREATE PROCEDURE change_and_call(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR n IN 1..times LOOP
		UPDATE notify_transition SET message_type = 'M' || n WHERE event_type = 'E2';
		PERFORM handle_notify('T' || n % 2, 'E1', '1', 'b');
		IF n % 10 = 0 THEN
			ALTER TABLE biz_order ALTER status SET DEFAULT 'A';
			PERFORM handle_notify('T' || n % 2, 'E2', '1', 'b');
		END IF;
	END LOOP;
END $$;
BEGIN;
CALL change_and_call(50);
SELECT * FROM kept \gset before_
CALL change_and_call(500);
SELECT contexts - :before_contexts < 10 AS contexts, bytes - :before_bytes < 200000 AS bytes FROM kept;
COMMIT;

-- a table that is gone
ALTER TABLE biz_order RENAME status TO state;
SELECT DISTINCT call('T', 'E1', '1') FROM generate_series(1, 100);
SELECT * FROM kept \gset before_
SELECT DISTINCT call('T', 'E1', '1') FROM generate_series(1, 3000);
SELECT contexts - :before_contexts < 10 AS contexts, bytes - :before_bytes < 200000 AS bytes FROM kept;
ALTER TABLE biz_order RENAME state TO status;

-- plans that the session has made again and again
CREATE PROCEDURE replan_and_call(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR n IN 1..times LOOP
		PERFORM set_config('plan_cache_mode', CASE n % 2 WHEN 0 THEN 'force_custom_plan' ELSE 'auto' END, false);
		PERFORM set_config('search_path', CASE n % 3 WHEN 0 THEN 'public' ELSE 'public, pg_temp' END, false);
		PERFORM handle_notify('T' || n, 'E1', '1', 'b');
	END LOOP;
END $$;
CALL replan_and_call(50);
SELECT * FROM kept \gset before_
CALL replan_and_call(1000);
SELECT contexts - :before_contexts < 10 AS contexts, bytes - :before_bytes < 200000 AS bytes FROM kept;
RESET plan_cache_mode;
RESET search_path;

DROP VIEW kept;
DROP TABLE biz_order;
DROP FUNCTION call;
DROP PROCEDURE change_and_call, replan_and_call;
DROP EXTENSION notify_claim CASCADE;
