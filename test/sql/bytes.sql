-- A body is bytes, whatever they are (cases 31 to 33).
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
SELECT notify_event_add('push');
CREATE TABLE body (name text PRIMARY KEY, bytes bytea);
INSERT INTO body VALUES
	('empty', ''),
	('nul', '\x00'),
	('nul inside', '\x610062'),
	('nul escape', '{"a": "\\u0000"}'),
	('lone surrogate', '{"a": "\\ud800"}'),
	('invalid utf8', '\xff'),
	('gbk', '\xbbf5bfee'),
	('25 MB', convert_to(repeat('0123456789abcdef', 25 * 65536), 'UTF8'));
ALTER TABLE body ALTER bytes SET STORAGE EXTERNAL;

SELECT name, a.outcome, a.replayed
FROM body, LATERAL handle_notify(name, 'push', '1', bytes) AS a ORDER BY name;
SELECT name, length(bytes), c.payload_hash = encode(sha256(bytes), 'hex') AS sha256, c.digest_mode
FROM body JOIN notify_claim c ON c.biz_key = name || ':push' ORDER BY name;
SELECT payload_hash FROM notify_claim WHERE biz_key = 'gbk:push';
SELECT name, a.outcome, a.replayed
FROM body, LATERAL handle_notify(name, 'push', '1', bytes) AS a ORDER BY name;
-- one byte more or less is other content
SELECT name, a.outcome
FROM body, LATERAL handle_notify(name, 'push', '1', bytes || '\x00') AS a ORDER BY name;

-- text stands for its UTF-8 bytes
SELECT a.outcome, a.replayed FROM handle_notify('text', 'push', '1', 'größe 货'::text) AS a;
SELECT a.outcome, a.replayed FROM handle_notify('text', 'push', '1', convert_to('größe 货', 'UTF8')) AS a;
-- a literal of no type is a text, so that a backslash in it is a backslash
SELECT a.outcome FROM handle_notify('untyped', 'push', '1', '\x00') AS a;
SELECT payload_hash = encode(sha256('\\x00'), 'hex') AS four_characters FROM notify_claim WHERE biz_key = 'untyped:push';
-- data may be any JSON
SELECT notify_event_set('push', message_type => 'PUSHED');
SELECT a.outcome FROM unnest(ARRAY['1', '"text"', 'null', '[1, [2]]', '{"a": {"b": 1.10}}', '{}', '[]', 'true']::jsonb[]) WITH ORDINALITY AS d(value, n),
	LATERAL handle_notify('data' || n, 'push', '1', 'b'::bytea, data => d.value) AS a;
SELECT jsonb_agg(payload -> 'data' ORDER BY seq) FROM notify_outbox WHERE aggregatetype <> 'notify_review';

DROP TABLE body;
DROP EXTENSION notify_claim CASCADE;
