-- Channels: declaring them, what they are answered, what they accept.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;
\getenv abs_srcdir PG_ABS_SRCDIR
\set attempt :abs_srcdir '/include/attempt.sql'
\set ECHO none
\i :attempt
\set ECHO all
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY', 'PENDING', 'PAID', message_type => 'ORDER_PAID');
INSERT INTO biz_order SELECT 'O' || n, 'PENDING' FROM generate_series(1, 20) AS n;
CREATE VIEW channel AS
SELECT c.channel, coalesce(r.mode, 'raw') AS digest, r.ignore, c.ok_status, c.ok_body, c.fail_status, c.fail_body,
       c.max_body, c.keep_body, c.retain, c.on_conflict, c.on_no_rule
FROM notify_channel AS c LEFT JOIN notify_digest_rule AS r ON r.id = c.digest_rule ORDER BY c.channel;

-- the presets
SELECT notify_channel_add(p, preset => p)
FROM unnest('{adyen,alipay,github,paypal,stripe,wechat_v2,wechat_v3}'::text[]) AS p;
SELECT notify_channel_add('plain');
\x
TABLE channel;
\x
-- each can be overridden, in every part
SELECT notify_channel_add('own', preset => 'alipay', digest => 'json', ignore => '{b,a,b}', ok_status => 299, ok_body => 'yes',
	fail_status => 503, fail_body => 'no', max_body => 10, keep_body => false, retain => '1 year', on_conflict => 'ack', on_no_rule => 'ack');
SELECT * FROM channel WHERE channel = 'own';
-- an ignore list goes with its digest: another digest begins with an empty one
SELECT notify_channel_add('own2', preset => 'alipay', digest => 'xml');
SELECT digest, ignore, ok_body FROM channel WHERE channel = 'own2';

-- the identical thing twice does nothing, a contradiction is an error
SELECT attempt($$SELECT notify_channel_add('own', preset => 'alipay', digest => 'json', ignore => '{a,b}', ok_status => 299, ok_body => 'yes',
	fail_status => 503, fail_body => 'no', max_body => 10, keep_body => false, retain => '365.25 days', on_conflict => 'ack', on_no_rule => 'ack')$$);
SELECT attempt($$SELECT notify_channel_add('own', preset => 'alipay', digest => 'json', ignore => '{a,b}', ok_status => 299, ok_body => 'yes',
	fail_status => 503, fail_body => 'no', max_body => 10, keep_body => false, retain => '1 year', on_conflict => 'ack', on_no_rule => 'ack')$$);
SELECT attempt($$SELECT notify_channel_add('plain')$$);
SELECT attempt($$SELECT notify_channel_add('plain', max_body => 1)$$);
SELECT attempt($$SELECT notify_channel_add('plain', digest => 'json')$$);

-- what cannot be declared
SELECT attempt($$SELECT notify_channel_add(NULL)$$);
SELECT attempt($$SELECT notify_channel_add('')$$);
SELECT attempt($$SELECT notify_channel_add(E' \t')$$);
SELECT attempt($$SELECT notify_channel_add(repeat('ä', 64))$$);
SELECT attempt($$SELECT notify_channel_add(repeat('ä', 65))$$);
SELECT attempt($$SELECT notify_channel_add('x', preset => 'visa')$$);
SELECT attempt($$SELECT notify_channel_add('x', digest => 'yaml')$$);
SELECT attempt($$SELECT notify_channel_add('x', digest => 'raw', ignore => '{a}')$$);
SELECT attempt($$SELECT notify_channel_add('x', ignore => '{a}')$$);
SELECT attempt($$SELECT notify_channel_add('x', digest => 'json', ignore => '{a,NULL}')$$);
SELECT attempt($$SELECT notify_channel_add('x', digest => 'json', ignore => '{a..b}')$$);
SELECT attempt($$SELECT notify_channel_add('x', digest => 'form', ignore => '{""}')$$);
SELECT attempt($$SELECT notify_channel_add('x', ok_status => 199)$$);
SELECT attempt($$SELECT notify_channel_add('x', fail_status => 600)$$);
SELECT attempt($$SELECT notify_channel_add('x', max_body => -1)$$);
SELECT attempt($$SELECT notify_channel_add('x', retain => '0')$$);
SELECT attempt($$SELECT notify_channel_add('x', retain => '-1 day')$$);
SELECT attempt($$SELECT notify_channel_add('x', on_conflict => 'drop')$$);
SELECT attempt($$SELECT notify_channel_add('x', on_no_rule => '')$$);
SELECT attempt($$SELECT notify_channel_set('x', max_body => 1)$$);
SELECT attempt($$SELECT notify_channel_set('default', max_body => 1)$$);
SELECT attempt($$SELECT notify_channel_drop('x')$$);
SELECT attempt($$SELECT notify_channel_drop(NULL)$$);
SELECT attempt($$INSERT INTO notify_channel VALUES (' ', NULL, 200, '', 500, '', NULL, false, '1 day', 'fail', 'fail')$$);
SELECT attempt($$UPDATE notify_channel SET max_body = 0 WHERE channel = 'plain'$$);
SELECT attempt($$UPDATE notify_channel SET retain = '0' WHERE channel = 'plain'$$);
SELECT attempt($$UPDATE notify_channel SET ok_status = 100 WHERE channel = 'plain'$$);
SELECT attempt($$UPDATE notify_channel SET on_conflict = 'drop' WHERE channel = 'plain'$$);

-- what the peer is answered: the channel's present setting, also for a replay
SELECT c, h.status, h.outcome, h.ack_status, h.ack_body
FROM unnest('{adyen,alipay,github,paypal,stripe,wechat_v2,wechat_v3,plain,default}'::text[]) WITH ORDINALITY AS u(c, n),
     LATERAL handle_notify('A1', 'PAY', 'O' || n, ''::bytea, channel => c) AS h;
SELECT c, h.status, h.outcome, h.ack_status, h.ack_body
FROM unnest('{adyen,alipay,github,paypal,stripe,wechat_v2,wechat_v3,plain,default}'::text[]) AS c,
     LATERAL handle_notify('A2', 'PAY', 'none', ''::bytea, channel => c) AS h;
SELECT notify_channel_set('alipay', ok_status => 202, ok_body => 'SUCCESS');
SELECT status, outcome, replayed, ack_status, ack_body FROM handle_notify('A1', 'PAY', 'O2', ''::bytea, channel => 'alipay');
-- case 22: one key of two channels is two keys
SELECT channel, biz_key FROM notify_claim ORDER BY channel;
-- named arguments, text and bytea
SELECT outcome, ack_status FROM handle_notify(channel => 'wechat_v3', raw_body => '{"amount": 1}', order_no => 'O10', event_type => 'PAY', channel_txn_id => 'A3');
SELECT outcome, replayed FROM handle_notify(channel => 'wechat_v3', raw_body => '{"amount":1.0}'::bytea, order_no => 'O10', event_type => 'PAY', channel_txn_id => 'A3');

-- policies change the status, never the outcome
SELECT status, outcome, ack_status, ack_body FROM handle_notify('B1', 'nothing', 'O1', ''::bytea, channel => 'plain');
SELECT notify_channel_set('plain', on_no_rule => 'ack');
SELECT status, outcome, ack_status, ack_body FROM handle_notify('B1', 'nothing', 'O1', ''::bytea, channel => 'plain');
SELECT status, outcome, ack_status, ack_body FROM handle_notify('A1', 'PAY', 'O8', 'other'::bytea, channel => 'plain');
SELECT notify_channel_set('plain', on_conflict => 'ack');
SELECT status, outcome, replayed, result, ack_status, ack_body FROM handle_notify('A1', 'PAY', 'O8', 'other'::bytea, channel => 'plain');
SELECT status, outcome FROM handle_notify('B2', 'PAY', 'none', ''::bytea, channel => 'plain');
SELECT id, channel, hits FROM notify_review ORDER BY id;

-- case 32: max_body, exactly, one more, none; nothing at all; no body
SELECT notify_channel_set('plain', max_body => 1000);
SELECT attempt($$SELECT outcome FROM handle_notify('C1', 'PAY', 'O11', convert_to(repeat('x', 1000), 'UTF8'), channel => 'plain')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('C2', 'PAY', 'O12', convert_to(repeat('x', 1001), 'UTF8'), channel => 'plain')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('C3', 'PAY', 'O12', repeat('ä', 501), channel => 'plain')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('C4', 'PAY', 'O12', ''::bytea, channel => 'plain')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('C5', 'PAY', 'O13', NULL::bytea, channel => 'plain')$$);
SELECT biz_key, order_no FROM notify_claim WHERE biz_key LIKE 'C%' ORDER BY id;
SELECT notify_channel_set('plain', max_body => 0);
SELECT attempt($$SELECT outcome FROM handle_notify('C2', 'PAY', 'O13', convert_to(repeat('x', 1001), 'UTF8'), channel => 'plain')$$);
-- 25 MB is what GitHub sends at most
SELECT attempt($$SELECT outcome FROM handle_notify('C6', 'PAY', 'O14', convert_to(repeat('x', 26214401), 'UTF8'), channel => 'github')$$);

-- unknown channels
SELECT attempt($$SELECT outcome FROM handle_notify('D1', 'PAY', 'O15', ''::bytea, channel => 'Plain')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('D1', 'PAY', 'O15', ''::bytea, channel => repeat('x', 300))$$);
SELECT attempt($$SELECT outcome FROM handle_notify('D1', 'PAY', 'O15', ''::bytea, channel => repeat('ä', 64) || 'x')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('D1', 'PAY', 'O15', ''::bytea, channel => NULL)$$);
SELECT attempt($$SELECT notify_digest('nobody', 'x')$$);
SELECT attempt($$SELECT notify_digest(NULL, 'x')$$);
SELECT attempt($$SELECT notify_digest('plain', NULL::bytea)$$);

-- a row overrides the channel that needs none, and dropping it brings it back
SELECT ack_status, ack_body FROM handle_notify('D2', 'PAY', 'none', ''::bytea);
SELECT notify_channel_add('default', digest => 'json', fail_status => 503, fail_body => 'later');
SELECT ack_status, ack_body FROM handle_notify('D2', 'PAY', 'none', ''::bytea);
SELECT attempt($$SELECT notify_channel_drop('default')$$);
SELECT ack_status, ack_body FROM handle_notify('D2', 'PAY', 'none', ''::bytea);

-- what is rolled back was never seen, and plain DML is seen at once
BEGIN;
SELECT notify_channel_add('brief', ok_body => 'brief');
SELECT outcome, ack_body FROM handle_notify('E1', 'PAY', 'O15', ''::bytea, channel => 'brief');
ROLLBACK;
SELECT attempt($$SELECT outcome FROM handle_notify('E1', 'PAY', 'O15', ''::bytea, channel => 'brief')$$);
BEGIN;
SELECT outcome, ack_body FROM handle_notify('E1', 'PAY', 'O15', ''::bytea, channel => 'plain');
SAVEPOINT s;
UPDATE notify_channel SET ok_body = 'changed' WHERE channel = 'plain';
SELECT replayed, ack_body FROM handle_notify('E1', 'PAY', 'O15', ''::bytea, channel => 'plain');
ROLLBACK TO s;
SELECT replayed, ack_body FROM handle_notify('E1', 'PAY', 'O15', ''::bytea, channel => 'plain');
COMMIT;

-- keep_body
SELECT biz_key, convert_from(raw_body, 'UTF8') AS body, data FROM notify_body JOIN notify_claim ON id = claim ORDER BY id;
SELECT notify_channel_set('plain', keep_body => true);
SELECT outcome FROM handle_notify('F1', 'PAY', 'O16', 'kept', channel => 'plain', data => '{"a": 1}');
SELECT biz_key, convert_from(raw_body, 'UTF8') AS body, data, attempts, last_error FROM notify_body JOIN notify_claim ON id = claim WHERE biz_key = 'F1:PAY';

-- rules are immutable
SELECT attempt($$UPDATE notify_digest_rule SET ignore = '{}'$$);
SELECT attempt($$DELETE FROM notify_digest_rule$$);
SELECT attempt($$TRUNCATE notify_digest_rule$$);
SELECT attempt($$INSERT INTO notify_digest_rule (mode, ignore) VALUES ('raw', '{}')$$);
SELECT attempt($$SELECT notify_rule_is_immutable()$$);
-- and shared: the same digest twice is one rule
SELECT mode, ignore, count(*) FROM notify_digest_rule GROUP BY 1, 2 HAVING count(*) > 1;
-- where two sessions made the same one at once there are two, which are alike
INSERT INTO notify_digest_rule (mode, ignore) SELECT mode, ignore FROM notify_digest_rule WHERE mode = 'xml' AND ignore = '{nonce_str,sign}';
UPDATE notify_channel SET digest_rule = (SELECT max(id) FROM notify_digest_rule) WHERE channel = 'wechat_v2';
SELECT attempt($$SELECT notify_channel_add('wechat_v2', preset => 'wechat_v2')$$);
-- one that is gone is an error where it is needed, never a pass
ALTER TABLE notify_digest_rule DISABLE TRIGGER USER;
BEGIN;
DELETE FROM notify_digest_rule;
SELECT attempt($$SELECT outcome FROM handle_notify('A3', 'PAY', 'O10', '{"amount": 1}', channel => 'wechat_v3')$$);
SELECT notify_channel_set('wechat_v3', digest => 'raw');
SELECT attempt($$SELECT outcome FROM handle_notify('A3', 'PAY', 'O10', '{"amount": 1}', channel => 'wechat_v3')$$);
ROLLBACK;
ALTER TABLE notify_digest_rule ENABLE TRIGGER USER;
SELECT outcome, replayed FROM handle_notify('A3', 'PAY', 'O10', '{"amount": 1}', channel => 'wechat_v3');

-- a channel with claims or open reviews stays
SELECT attempt($$SELECT notify_channel_drop('plain')$$);
SELECT attempt($$SELECT notify_channel_drop('own')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('G1', 'PAY', 'O17', ''::bytea, channel => 'own')$$);
DELETE FROM notify_claim WHERE channel = 'plain';
SELECT attempt($$SELECT notify_channel_drop('plain')$$);
SELECT notify_review_resolve(id, 'DISMISS', 'closing the channel') FROM notify_review_open;
SELECT attempt($$SELECT notify_channel_drop('plain')$$);
SELECT attempt($$SELECT outcome FROM handle_notify('G1', 'PAY', 'O17', ''::bytea, channel => 'plain')$$);

-- a schema that is dropped and made anew forgets everything
DROP VIEW channel;
DROP EXTENSION notify_claim CASCADE;
CREATE EXTENSION notify_claim;
SELECT notify_event_add('push');
SELECT attempt($$SELECT outcome FROM handle_notify('A1', 'push', 'O17', ''::bytea, channel => 'stripe')$$);
SELECT notify_channel_add('stripe', digest => 'form', ignore => '{b}');
SELECT digest = encode(sha256('a=1'), 'hex') AS digest, canonical, mode FROM notify_digest('stripe', 'a=1&b=2');

DROP TABLE biz_order;
DROP EXTENSION notify_claim CASCADE;
DROP FUNCTION attempt;
