-- A producer of test/bench/outbox.
INSERT INTO plain_outbox (id, aggregatetype, aggregateid, type, payload, created_at)
SELECT * FROM messages(:batch, 1000);
