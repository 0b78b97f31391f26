-- Fills the claims up to :rows, with keys that follow and the content of the others.
INSERT INTO notify_claim (channel, biz_key, order_no, payload_hash, digest_mode, claim_state, outcome, result_json, message_id, created_at)
	SELECT c.channel, (1000000000000000000 + n) || ':pay', 1000000000001 + (1000000000000000000 + n) % :orders, c.payload_hash,
		   c.digest_mode, c.claim_state, c.outcome, c.result_json, gen_random_uuid(), c.created_at
	FROM (SELECT * FROM notify_claim ORDER BY id LIMIT 1) AS c, generate_series(:known + 1, :rows) AS n;
-- what the SELECT of the claim reads
CREATE SCHEMA floor;
CREATE VIEW floor.claim AS TABLE notify_claim;
VACUUM ANALYZE;
