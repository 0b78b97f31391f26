-- A consumer of the plain queue: what test/bench/outbox runs again and again.
BEGIN;
SELECT array_agg(seq) AS seqs, string_agg(payload::text, ',') AS messages, count(*) AS n
	FROM (SELECT seq, payload FROM plain_outbox ORDER BY seq LIMIT :batch FOR UPDATE SKIP LOCKED) AS m \gset
\if :n > 0
DELETE FROM plain_outbox WHERE seq = ANY (:seqs);
\endif
COMMIT;
\if :n = 0
\sleep 2 ms
\endif
