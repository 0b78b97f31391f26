-- What the variants did to their tables, but for what is random or of the moment, and
-- without the alarm that handle_notify alone writes; raises where that is not the same.
CREATE VIEW did AS
	SELECT 'handle' AS variant, to_jsonb(c) - '{id,message_id,created_at}'::text[] || jsonb_build_object('message', message_id IS NOT NULL) AS did FROM notify_claim AS c
	UNION ALL SELECT 'handle', to_jsonb(m) - '{seq,id,created_at}'::text[] FROM notify_outbox AS m WHERE aggregatetype <> 'notify_review'
	UNION ALL SELECT 'handle', to_jsonb(o) FROM handle.orders AS o
	UNION ALL
	SELECT 'plpgsql' AS variant, to_jsonb(c) - '{id,message_id,created_at}'::text[] || jsonb_build_object('message', message_id IS NOT NULL) AS did FROM plpgsql.claim AS c
	UNION ALL SELECT 'plpgsql', to_jsonb(m) - '{seq,id,created_at}'::text[] FROM plpgsql.outbox AS m
	UNION ALL SELECT 'plpgsql', to_jsonb(o) FROM plpgsql.orders AS o
	UNION ALL
	SELECT 'cte' AS variant, to_jsonb(c) - '{id,message_id,created_at}'::text[] || jsonb_build_object('message', message_id IS NOT NULL) AS did FROM cte.claim AS c
	UNION ALL SELECT 'cte', to_jsonb(m) - '{seq,id,created_at}'::text[] FROM cte.outbox AS m
	UNION ALL SELECT 'cte', to_jsonb(o) FROM cte.orders AS o
	UNION ALL
	SELECT 'client' AS variant, to_jsonb(c) - '{id,message_id,created_at}'::text[] || jsonb_build_object('message', message_id IS NOT NULL) AS did FROM client.claim AS c
	UNION ALL SELECT 'client', to_jsonb(m) - '{seq,id,created_at}'::text[] FROM client.outbox AS m
	UNION ALL SELECT 'client', to_jsonb(o) FROM client.orders AS o;
CREATE VIEW done_otherwise AS
	SELECT variant, did, count(*) FROM did WHERE variant <> 'handle' GROUP BY 1, 2
	EXCEPT SELECT v.variant, d.did, d.count
	FROM (SELECT did, count(*) FROM did WHERE variant = 'handle' GROUP BY 1) AS d, (VALUES ('plpgsql'), ('cte'), ('client')) AS v (variant);
DO $$
BEGIN
	IF EXISTS (SELECT FROM done_otherwise) THEN
		RAISE 'a variant did not do the same: %', (SELECT d FROM done_otherwise AS d LIMIT 1);
	ELSIF (SELECT count(DISTINCT count) FROM (SELECT count(*) FROM did GROUP BY variant) AS c) <> 1 THEN
		RAISE 'a variant did less: %', (SELECT string_agg(format('%s %s', variant, count), ', ') FROM (SELECT variant, count(*) FROM did GROUP BY 1) AS c);
	ELSIF (SELECT string_agg(format('%s %s', outcome, count), ', ' ORDER BY outcome)
		   FROM (SELECT outcome, count(*) FROM notify_claim WHERE biz_key > '2' GROUP BY 1) AS c) <> 'APPLIED 5, SKIPPED 1' THEN
		RAISE 'something else was checked than was meant';
	END IF;
END
$$;
