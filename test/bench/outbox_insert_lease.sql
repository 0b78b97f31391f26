-- A producer of test/bench/outbox.
INSERT INTO notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
SELECT * FROM messages(:batch, 1000);
