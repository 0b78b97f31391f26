-- A consumer of notify_outbox: what test/bench/outbox runs again and again. The
-- messages travel to the client in one value, as those of outbox_plain.sql do.
SELECT (array_agg(token))[1] AS token, array_agg(seq) AS seqs, string_agg(payload::text, ',') AS messages, count(*) AS n
	FROM notify_outbox_lease('bench', :batch) \gset
\if :n > 0
SELECT notify_outbox_ack(:token, :seqs);
\else
\sleep 2 ms
\endif
