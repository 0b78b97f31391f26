-- Compares what arrived with what was written, for test/examples/run. Reads the
-- file "arrived" of JSON objects, in the order of arrival, and prints how many
-- messages were lost, invented, changed, out of order, and repeats.
CREATE TEMPORARY TABLE line (n bigint GENERATED ALWAYS AS IDENTITY, message jsonb);
\copy line (message) FROM arrived WITH (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')

CREATE TEMPORARY TABLE arrived AS
SELECT n, a.* FROM line, jsonb_to_record(message)
	AS a (stream text, id uuid, seq bigint, aggregateid text, type text, payload text, attempt integer);

-- Out of order: an order's arrival that is neither the successor of the order's
-- arrival before it nor a repeat, at most the successor that is; the first arrival
-- is the order's first message. So nothing arrives before what precedes it, and
-- where a repeat goes back, it goes on from there without leaving one out.
CREATE TEMPORARY TABLE placed AS
SELECT a.n, w.place, lag(w.place, 1, 0::bigint) OVER (PARTITION BY w.aggregatetype, w.aggregateid ORDER BY a.n) AS before
  FROM arrived AS a
  JOIN (SELECT *, row_number() OVER (PARTITION BY aggregatetype, aggregateid ORDER BY seq) AS place FROM written) AS w USING (id);

SELECT (SELECT count(*) FROM written WHERE id NOT IN (SELECT id FROM arrived)),
       (SELECT count(*) FROM arrived WHERE id NOT IN (SELECT id FROM written)),
       (SELECT count(*) FROM arrived AS a JOIN written AS w USING (id)
         WHERE (a.stream, a.seq, a.aggregateid, a.type, a.payload, a.attempt > 0)
               IS DISTINCT FROM (w.aggregatetype, w.seq, w.aggregateid, w.type, w.payload, true)),
       (SELECT count(*) FROM placed WHERE place > before + 1),
       (SELECT count(*) - count(DISTINCT id) FROM arrived);
