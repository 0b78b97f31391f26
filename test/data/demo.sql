-- An order table and its state machine, for the demo.

CREATE TABLE biz_order (
	order_no text PRIMARY KEY,
	status text NOT NULL,
	amount numeric(12,2) NOT NULL,
	currency char(3) NOT NULL DEFAULT 'CNY'
);

SELECT notify_machine_add('biz_order'::regclass, 'order_no', 'status');

-- What the payment channel and the carrier tell us
SELECT notify_transition_add('PAY_SUCCESS', 'PENDING_PAY', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('PAY_SUCCESS', 'CANCELLED', NULL, message_type => 'PAID_AFTER_CANCEL');
SELECT notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUND_RECORDED');
SELECT notify_transition_add('REFUND', 'SHIPPED', NULL, message_type => 'REFUND_RECORDED');
SELECT notify_transition_add('SHIP_NOTICE', 'PACKED', 'SHIPPED', message_type => 'ORDER_SHIPPED');

-- What the application does by itself
SELECT notify_transition_add(NULL, 'PENDING_PAY', 'CANCELLED');
SELECT notify_transition_add(NULL, 'PAID', 'PACKED');
SELECT notify_transition_add(NULL, 'PAID', 'SHIPPED');
