-- What each database of test/bench/call/run begins with: orders, and claims of some.
--   :orders   how many orders there are
--   :known    how many claims are there: keys 1000000000000000001 and following
--   :body     of every notification
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;

-- An order is paid and unpaid in turn, so that "pay" is always legal. "seen" changes
-- nothing, "void" is never legal.
CREATE SCHEMA handle;
CREATE TABLE handle.orders (order_no varchar(64) PRIMARY KEY, status varchar(16) NOT NULL, amount numeric NOT NULL);
INSERT INTO handle.orders SELECT 1000000000000 + n, 'PENDING_PAY', 10.00 FROM generate_series(1, :orders) AS n;
SELECT notify_machine_add('handle.orders', 'order_no', 'status', 'order');
SELECT notify_transition_add('pay', 'PENDING_PAY', 'PAID', 'order.paid');
SELECT notify_transition_add('pay', 'PAID', 'PENDING_PAY', 'order.unpaid');
SELECT notify_transition_add('seen', 'PENDING_PAY', NULL, 'order.seen');
SELECT notify_transition_add('void', 'LOST', 'VOID', 'order.void');

SELECT count(*) FROM generate_series(1, :known) AS n,
	LATERAL handle_notify((1000000000000000000 + n)::text, 'pay', (1000000000001 + (1000000000000000000 + n) % :orders)::text, :'body'::bytea);
