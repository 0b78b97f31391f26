-- An order table, its state machine, and the channels that the notices come
-- from, for the demo.

CREATE TABLE biz_order (
	order_no text PRIMARY KEY,
	status text NOT NULL,
	amount numeric(12,2) NOT NULL,
	currency char(3) NOT NULL DEFAULT 'CNY'
);

SELECT notify_machine_add('biz_order'::regclass, 'order_no', 'status');

-- What the payment channels and the carrier tell us
SELECT notify_transition_add('PAY_SUCCESS', 'PENDING_PAY', 'PAID', message_type => 'ORDER_PAID');
SELECT notify_transition_add('PAY_SUCCESS', 'CANCELLED', NULL, message_type => 'PAID_AFTER_CANCEL');
SELECT notify_transition_add('REFUND', 'PAID', NULL, message_type => 'REFUND_RECORDED');
SELECT notify_transition_add('REFUND', 'SHIPPED', NULL, message_type => 'REFUND_RECORDED');
SELECT notify_transition_add('SHIP_NOTICE', 'PACKED', 'SHIPPED', message_type => 'ORDER_SHIPPED');

-- What the application does by itself
SELECT notify_transition_add(NULL, 'PENDING_PAY', 'CANCELLED');
SELECT notify_transition_add(NULL, 'PAID', 'PACKED');
SELECT notify_transition_add(NULL, 'PAID', 'SHIPPED');

-- How the providers' bodies are compared and what they are answered; the
-- incident's channel is "default", which needs no declaration
SELECT notify_channel_add(provider, preset => provider)
	FROM unnest('{stripe,alipay,wechat_v2,wechat_v3,adyen}'::text[]) AS provider;

-- Is the amount the order's? The XML and the form are searched, not parsed: good
-- enough for a demo.
CREATE FUNCTION check_payment(order_no text, event_type text, raw_body bytea) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
	body text;
	notice jsonb;
	paid record;
	expected record;
BEGIN
	body := convert_from(raw_body, 'UTF8');
	notice := CASE WHEN body LIKE '{%' THEN body END;
	SELECT amount::numeric * unit AS amount, upper(code) AS currency INTO STRICT paid FROM (VALUES
		(notice ->> 'amount', 1, notice ->> 'currency'),								-- the incident's
		(notice #>> '{data,object,amount}', 0.01, notice #>> '{data,object,currency}'),	-- Stripe
		(notice #>> '{amount,total}', 0.01, notice #>> '{amount,currency}'),			-- WeChat Pay v3
		(notice #>> '{amount,value}', 0.01, notice #>> '{amount,currency}'),			-- Adyen
		(substring(body FROM '<total_fee>(?:<!\[CDATA\[)?(\d+)'), 0.01, 'CNY'),			-- WeChat Pay v2
		(substring(body FROM '(?:^|&)total_amount=([\d.]+)'), 1, 'CNY')					-- Alipay
	) AS format (amount, unit, code) WHERE amount ~ '^[\d.]+$';
	SELECT o.amount, o.currency INTO STRICT expected FROM public.biz_order AS o WHERE o.order_no = $1;
	IF (paid.amount, paid.currency) IS DISTINCT FROM (expected.amount, expected.currency::text) THEN
		RETURN format('amount %s %s, expected %s %s', paid.amount, paid.currency, expected.amount, expected.currency);
	END IF;
	RETURN NULL;
EXCEPTION WHEN no_data_found OR too_many_rows OR data_exception THEN
	RETURN 'no amount that can be read';
END $$;
SELECT notify_event_set('PAY_SUCCESS', check_function => 'check_payment');
