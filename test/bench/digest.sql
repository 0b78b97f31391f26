-- The session of test/bench/digest.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
CREATE TABLE body (mode text, bytes bytea);
CREATE TABLE sample (mode text, round int, digest_ms float8, raw_ms float8);

-- About 1 MB of what notifications are made of.
INSERT INTO body
SELECT 'json', convert_to(format('{"id":"evt_1","items":[%s]}', string_agg(format(
	'{"id": "it_%s", "amount": %s.%s, "currency": "EUR", "paid": true, "note": "Gr\u00fc\u00dfe \"%s\"", "tags": ["a", "b", null], "seller": {"name": "Müller & Co", "account": %s}}',
	n, n, n % 100, n, n * 7919), ', ')), 'UTF8')
FROM generate_series(1, 6300) AS n;
INSERT INTO body
SELECT 'form', convert_to(string_agg(format('field_%s=value+%s%%2C%%E4%%BB%%8A%%E5%%A4%%A9&amount_%s=%s.00', n, n, n, n), '&'), 'UTF8')
FROM generate_series(1, 18000) AS n;
INSERT INTO body
SELECT 'xml', convert_to('<xml>' || string_agg(format('<field_%s><![CDATA[value %s]]></field_%s><total_%s>%s &amp; more</total_%s>', n, n, n, n, n, n), E'\n') || '</xml>', 'UTF8')
FROM generate_series(1, 9500) AS n;

DO $$
DECLARE
	b body;
BEGIN
	PERFORM notify_event_add('push');
	PERFORM notify_channel_add('raw');
	FOR b IN TABLE body LOOP
		PERFORM notify_channel_add(b.mode, digest => b.mode);
		PERFORM handle_notify(b.mode, 'push', 'o', b.bytes, channel => b.mode);
		PERFORM handle_notify(b.mode, 'push', 'o', b.bytes, channel => 'raw');
	END LOOP;
	IF EXISTS (SELECT FROM notify_claim WHERE digest_mode <> channel) THEN
		RAISE 'a body is not what it should be';
	END IF;
END $$;

CREATE FUNCTION replay_ms(key text, body bytea, channel text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	start timestamptz := clock_timestamp();
BEGIN
	IF NOT (SELECT replayed FROM handle_notify(key, 'push', 'o', body, channel => replay_ms.channel)) THEN
		RAISE 'not a replay';
	END IF;
	RETURN extract(epoch FROM clock_timestamp() - start) * 1000;
END $$;
CREATE PROCEDURE measure(rounds int) LANGUAGE plpgsql AS $$
DECLARE
	b body;
	digest_ms float8;
	raw_ms float8;
BEGIN
	FOR round IN 1 .. rounds LOOP
		FOR b IN SELECT * FROM body ORDER BY random() LOOP
			-- whichever comes first
			IF random() < 0.5 THEN
				digest_ms := replay_ms(b.mode, b.bytes, b.mode);
				raw_ms := replay_ms(b.mode, b.bytes, 'raw');
			ELSE
				raw_ms := replay_ms(b.mode, b.bytes, 'raw');
				digest_ms := replay_ms(b.mode, b.bytes, b.mode);
			END IF;
			INSERT INTO sample VALUES (b.mode, round, digest_ms, raw_ms);
		END LOOP;
	END LOOP;
END $$;
CALL measure(10);
TRUNCATE sample;
CALL measure(:rounds);

SELECT mode, (SELECT octet_length(bytes) FROM body AS b WHERE b.mode = s.mode) AS bytes,
	   round((percentile_cont(0.5) WITHIN GROUP (ORDER BY digest_ms))::numeric, 2) AS digest_ms,
	   round((percentile_cont(0.5) WITHIN GROUP (ORDER BY raw_ms))::numeric, 2) AS raw_ms,
	   round((percentile_cont(0.5) WITHIN GROUP (ORDER BY digest_ms / raw_ms))::numeric, 1) AS times_raw,
	   round((percentile_cont(0.25) WITHIN GROUP (ORDER BY digest_ms / raw_ms))::numeric, 1) AS lower_quartile,
	   round((percentile_cont(0.75) WITHIN GROUP (ORDER BY digest_ms / raw_ms))::numeric, 1) AS upper_quartile
FROM sample AS s GROUP BY mode ORDER BY mode;
