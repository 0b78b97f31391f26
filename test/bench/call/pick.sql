\set n :n + 1
\set key CASE WHEN random(1, 100) <= :duplicates THEN 1000000000000000000 + :oldest + random(1, :known) ELSE :first + :n * 64 + :client_id END
\set order_no 1000000000001 + :key % :orders
