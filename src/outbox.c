/*-------------------------------------------------------------------------
 *
 * outbox.c
 *		Writing outbox messages, in the transaction of what they tell.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "notify_claim.h"

/* aggregatetype of a message of an event that has no machine */
#define NO_MACHINE		"event"

/* aggregatetype of an alarm */
#define REVIEW			"notify_review"

/*
 * Makes a random uuid (RFC 9562, version 4) for a message, in the current memory
 * context.  Random bytes are drawn for several at once: that costs hardly more than
 * for one.
 */
pg_uuid_t *
nclaim_message_id(void)
{
	static pg_uuid_t drawn[16];
	static int	left = 0;
	pg_uuid_t  *id = palloc(sizeof(pg_uuid_t));

	if (left == 0)
	{
		if (!pg_strong_random(drawn, sizeof(drawn)))
			elog(ERROR, "could not generate random values");
		left = lengthof(drawn);
	}
	*id = drawn[--left];
	id->data[6] = (id->data[6] & 0x0f) | 0x40;
	id->data[8] = (id->data[8] & 0x3f) | 0x80;
	return id;
}

static Jsonb *
make_payload(const NClaimNotice *notice, const NClaimClaim *claim,
			 const NClaimMessage *message)
{
	NClaimJson	json = {0};

	nclaim_json_open(&json);
	nclaim_json_text(&json, "type", message->type);
	nclaim_json_text(&json, "biz_key", notice->biz_key);
	nclaim_json_text(&json, "channel", notice->channel);
	nclaim_json_text(&json, "event_type", notice->event_type);
	nclaim_json_text(&json, "order_no", claim->order_no);
	nclaim_json_text(&json, "from", message->from);
	nclaim_json_text(&json, "to", message->to);
	nclaim_json_value(&json, "data", notice->data);
	return nclaim_json_close(&json);
}

static void
insert_message(Datum id, const char *aggregatetype, const char *aggregateid,
			   const char *type, Jsonb *payload, TimestampTz created_at)
{
	Datum		values[6] = {
		id,
		CStringGetTextDatum(aggregatetype),
		CStringGetTextDatum(aggregateid),
		CStringGetTextDatum(type),
		JsonbPGetDatum(payload),
		TimestampTzGetDatum(created_at)
	};

	/* Before it draws its number: visit.c counts on that. */
	(void) GetTopTransactionId();
	if (!nclaim_insert(NCLAIM_INSERT_MESSAGE, values, NULL, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a trigger or rule on table notify_outbox kept the message from being written")));
}

/*
 * Writes the claim's message.  The caller holds the order's lock, so that the
 * sequence number is drawn in commit order.
 */
void
nclaim_outbox_insert(const NClaimNotice *notice, const NClaimClaim *claim,
					 const NClaimMessage *message)
{
	insert_message(UUIDPGetDatum(claim->message_id),
				   message->machine == NULL ? NO_MACHINE : message->machine,
				   claim->order_no, message->type,
				   make_payload(notice, claim, message), claim->created_at);
}

/* Writes the message that tells of a new review. */
void
nclaim_outbox_alarm(const NClaimNotice *notice, const char *kind, int64 review,
					const char *order_no, const char *first_hash,
					const char *payload_hash)
{
	NClaimJson	json = {0};

	nclaim_json_open(&json);
	nclaim_json_text(&json, "kind", kind);
	nclaim_json_text(&json, "channel", notice->channel);
	nclaim_json_text(&json, "biz_key", notice->biz_key);
	nclaim_json_text(&json, "order_no", order_no);
	nclaim_json_text(&json, "first_hash", first_hash);
	nclaim_json_text(&json, "payload_hash", payload_hash);
	insert_message(UUIDPGetDatum(nclaim_message_id()), REVIEW,
				   psprintf(INT64_FORMAT, review), kind,
				   nclaim_json_close(&json), GetCurrentTimestamp());
}
