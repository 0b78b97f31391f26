-- handle_notify in PL/pgSQL, for an order table that is known when it is written:
-- its steps, its answers and its limits, but for parking and the review queue. The
-- session sets lock_timeout.
CREATE FUNCTION plpgsql.handle_notify(
	channel_txn_id text, event_type text, order_no text, raw_body bytea,
	channel text DEFAULT 'default', data jsonb DEFAULT NULL,
	OUT status text, OUT outcome text, OUT result jsonb, OUT replayed boolean,
	OUT first_seen timestamptz, OUT ack_status integer, OUT ack_body text)
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
	started CONSTANT timestamptz := clock_timestamp();
	key CONSTANT varchar(160) := channel_txn_id || ':' || event_type;
	digest CONSTANT text := encode(sha256(raw_body), 'hex');
	known record;
	step record;
	current text;
	message uuid;
	moved integer;
BEGIN
	IF channel_txn_id IS NULL OR event_type IS NULL OR order_no IS NULL OR raw_body IS NULL OR channel IS NULL THEN
		RAISE null_value_not_allowed;
	ELSIF channel_txn_id !~ '\S' OR event_type !~ '\S' OR order_no !~ '\S' OR event_type ~ ':' THEN
		RAISE invalid_parameter_value;
	ELSIF length(channel_txn_id) + 1 + length(event_type) > 160 OR length(order_no) > 64 THEN
		RAISE string_data_right_truncation;
	END IF;
	ack_status := 200;
	ack_body := 'SUCCESS';

	LOOP
		SELECT c.order_no, c.payload_hash, c.outcome, c.result_json, c.created_at INTO known
			FROM plpgsql.claim AS c WHERE c.biz_key = key AND c.channel = handle_notify.channel;
		IF FOUND THEN
			first_seen := known.created_at;
			IF known.payload_hash = digest AND known.order_no = order_no THEN
				status := 'SUCCESS';
				outcome := known.outcome;
				result := known.result_json;
				replayed := true;
			ELSE
				status := 'FAIL';
				outcome := 'CONFLICT';
				replayed := false;
			END IF;
			EXIT;
		END IF;

		SELECT o.status INTO current FROM plpgsql.orders AS o
			WHERE o.order_no = handle_notify.order_no FOR NO KEY UPDATE SKIP LOCKED;
		IF FOUND THEN
			SELECT t.to_status, t.message_type INTO step FROM plpgsql.transition AS t
				WHERE t.event_type = handle_notify.event_type AND t.from_status = current;
			replayed := false;
			first_seen := clock_timestamp();
			status := 'SUCCESS';
			IF FOUND THEN
				outcome := 'APPLIED';
				result := jsonb_build_object('from', current, 'status', step.to_status);
				message := gen_random_uuid();
			ELSE
				outcome := 'SKIPPED';
				result := jsonb_build_object('skipped', current, 'reason', 'stale');
			END IF;
			INSERT INTO plpgsql.claim (channel, biz_key, order_no, payload_hash, digest_mode, claim_state, outcome, result_json, message_id, created_at)
				VALUES (channel, key, order_no, digest, 'raw', 'DONE', outcome, result, message, first_seen)
				ON CONFLICT DO NOTHING;
			CONTINUE WHEN NOT FOUND;
			EXIT WHEN outcome = 'SKIPPED';
			INSERT INTO plpgsql.outbox (id, aggregatetype, aggregateid, type, payload, created_at)
				VALUES (message, 'order', order_no, step.message_type,
						jsonb_build_object('type', step.message_type, 'biz_key', key, 'channel', channel,
										   'event_type', event_type, 'order_no', order_no,
										   'from', current, 'to', step.to_status, 'data', data),
						first_seen);
			IF step.to_status <> current THEN
				UPDATE plpgsql.orders AS o SET status = step.to_status
					WHERE o.order_no = handle_notify.order_no AND o.status = current;
				GET DIAGNOSTICS moved = ROW_COUNT;
				IF moved <> 1 THEN
					RAISE triggered_data_change_violation;
				END IF;
			END IF;
			EXIT;
		END IF;

		PERFORM FROM plpgsql.orders AS o WHERE o.order_no = handle_notify.order_no;
		IF NOT FOUND OR clock_timestamp() > started + interval '150 ms' THEN
			outcome := CASE WHEN FOUND THEN 'BUSY' ELSE 'NO_ORDER' END;
			status := 'FAIL';
			replayed := false;
			EXIT;
		END IF;
		PERFORM pg_sleep(0.002);
	END LOOP;
	IF status = 'FAIL' THEN
		ack_status := 500;
		ack_body := 'FAIL';
	END IF;
END
$$;
