-- What test/examples/run needs in its database.
SET client_min_messages = warning;
CREATE EXTENSION notify_claim;

-- Any number of refunds may be noted for a paid order: an order's messages are many.
CREATE TABLE biz_order (order_no text PRIMARY KEY, status text NOT NULL);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUND_RECORDED');
-- Its message has a type of 510 bytes.
SELECT notify_transition_add('LONG', 'PAID', NULL, message_type => repeat('é', 255));
INSERT INTO biz_order SELECT 'SO-' || n, 'PAID' FROM generate_series(0, 19) AS n;

-- Messages of another kind
CREATE TABLE parcel (parcel_no text PRIMARY KEY, status text NOT NULL);
SELECT notify_machine_add('parcel', 'parcel_no', 'status');
SELECT notify_transition_add('SCAN', 'MOVING', NULL, message_type => 'PARCEL_SEEN', machine => 'parcel');
INSERT INTO parcel VALUES ('PA-1', 'MOVING');

-- All messages that were committed; the outbox has those that are not acked.
CREATE TABLE written (
	seq bigint PRIMARY KEY,
	id uuid NOT NULL,
	aggregatetype text NOT NULL,
	aggregateid text NOT NULL,
	type text NOT NULL,
	payload text NOT NULL
);
CREATE FUNCTION write_down() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO written VALUES (NEW.seq, NEW.id, NEW.aggregatetype, NEW.aggregateid, NEW.type, NEW.payload)
		ON CONFLICT DO NOTHING;		-- a dead letter that is put back
	RETURN NULL;
END $$;
CREATE TRIGGER write_down AFTER INSERT ON notify_outbox
	FOR EACH ROW EXECUTE FUNCTION write_down();

-- Transactions of one or two notices, every tenth rolled back. They wait for each
-- other's orders and commit in another order than they draw numbers. Every fiftieth
-- order number is notified again with another body: an alarm.
CREATE SEQUENCE writer;
CREATE SEQUENCE rolled_back;
CREATE PROCEDURE write_messages(transactions integer) LANGUAGE plpgsql AS $$
DECLARE
	writer integer := nextval('writer');
	txn text;
	order_no text;
	answer text;
BEGIN
	FOR i IN 1..transactions LOOP
		FOREACH order_no IN ARRAY ARRAY(
			SELECT DISTINCT 'SO-' || o FROM (VALUES ((i + 5 * writer) % 20), ((i * writer) % 20)) AS v (o) ORDER BY 1)
		LOOP
			txn := format('%s-%s-%s', writer, i, order_no);
			FOR body IN 1..CASE WHEN i % 50 = 0 THEN 2 ELSE 1 END LOOP
				LOOP
					SELECT outcome INTO answer FROM handle_notify(txn, 'REFUND', order_no, int4send(body),
						data => jsonb_build_object('amount', 98765432109876543210.0123456789, 'note', E'"\\\t\n€ ' || i));
					EXIT WHEN answer <> 'BUSY';
				END LOOP;
			END LOOP;
		END LOOP;
		IF i % 10 = 1 THEN
			ROLLBACK;
			PERFORM nextval('rolled_back');
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END $$;

-- The relay may do what notify_grant gives it, and no more.
SELECT notify_grant('relay', 'relay');
