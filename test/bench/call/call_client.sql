\set seen 0
SELECT 1 AS seen, order_no AS claimed_order, payload_hash, outcome, result_json, created_at FROM client.claim WHERE biz_key = :key::text || ':' || :event AND channel = 'default' \aset
\if :seen = 0
BEGIN;
\set found 0
\set written 0
SELECT 1 AS found, status AS from_status, CASE WHEN :event = 'seen' AND status = 'PENDING_PAY' THEN status WHEN :event <> 'pay' THEN '' WHEN status = 'PENDING_PAY' THEN 'PAID' ELSE 'PENDING_PAY' END AS to_status, CASE WHEN :event = 'void' THEN 0 ELSE 1 END AS legal, CASE WHEN :event = 'seen' THEN 'order.seen' WHEN status = 'PENDING_PAY' THEN 'order.paid' ELSE 'order.unpaid' END AS message_type FROM client.orders WHERE order_no = :order_no::text FOR NO KEY UPDATE \aset
\if :found = 1
WITH c AS (INSERT INTO client.claim (channel, biz_key, order_no, payload_hash, digest_mode, claim_state, outcome, result_json, message_id, created_at) VALUES ('default', :key::text || ':' || :event, :order_no::text, :hash, 'raw', 'DONE', CASE WHEN :legal = 1 THEN 'APPLIED' ELSE 'SKIPPED' END, CASE WHEN :legal = 1 THEN jsonb_build_object('from', :from_status::text, 'status', :to_status::text) ELSE jsonb_build_object('skipped', :from_status::text, 'reason', 'stale') END, CASE WHEN :legal = 1 THEN gen_random_uuid() END, clock_timestamp()) ON CONFLICT DO NOTHING RETURNING *) INSERT INTO client.outbox (id, aggregatetype, aggregateid, type, payload, created_at) SELECT message_id, 'order', order_no, :message_type::text, jsonb_build_object('type', :message_type::text, 'biz_key', biz_key, 'channel', channel, 'event_type', :event::text, 'order_no', order_no, 'from', :from_status::text, 'to', :to_status::text, 'data', NULL), created_at FROM c WHERE :legal = 1 RETURNING 1 AS written \aset
\if :written = 1
UPDATE client.orders SET status = :to_status WHERE order_no = :order_no::text AND status = :from_status;
\endif
\endif
COMMIT;
\endif
