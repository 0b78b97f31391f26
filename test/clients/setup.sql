-- What test/clients/run needs in its database.
CREATE EXTENSION notify_claim;

CREATE TABLE biz_order (order_no text PRIMARY KEY, status text NOT NULL);
SELECT notify_machine_add('biz_order', 'order_no', 'status');
SELECT notify_transition_add('PAY_SUCCESS', 'PENDING_PAY', 'PAID', message_type => 'ORDER_PAID');

SELECT notify_event_add('push', message_type => 'PUSHED');

-- The first attempt on an order named after an SQLSTATE fails with it; a
-- sequence does not roll back.
CREATE SEQUENCE attempt;
CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.order_no LIKE '%-40___' AND nextval('attempt') % 2 = 1 THEN
		RAISE EXCEPTION 'try again' USING ERRCODE = right(NEW.order_no, 5);
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER fail_once BEFORE UPDATE ON biz_order
	FOR EACH ROW EXECUTE FUNCTION fail_once();

-- The clients' role has what an application needs, and no more.
CREATE ROLE app LOGIN PASSWORD :'password';
SELECT notify_grant('app', 'app');
GRANT SELECT (order_no, status), UPDATE (status) ON biz_order TO app;
GRANT USAGE ON SEQUENCE attempt TO app;
