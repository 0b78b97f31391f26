/*-------------------------------------------------------------------------
 *
 * outbox.c
 *		Writing outbox messages, in the transaction of what they tell.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/uuid.h"

#include "compat.h"
#include "notify_claim.h"

/* aggregatetype of a message of an event that has no machine */
#define NO_MACHINE		"event"

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

/*
 * Writes the claim's message.  The caller holds the order's lock, so that the
 * sequence number is drawn in commit order.
 */
void
nclaim_outbox_insert(const NClaimNotice *notice, const NClaimClaim *claim,
					 const NClaimMessage *message)
{
	Datum		values[6] = {
		UUIDPGetDatum(claim->message_id),
		CStringGetTextDatum(message->machine == NULL ? NO_MACHINE : message->machine),
		CStringGetTextDatum(claim->order_no),
		CStringGetTextDatum(message->type),
		JsonbPGetDatum(make_payload(notice, claim, message)),
		TimestampTzGetDatum(claim->created_at)
	};

	if (nclaim_own_execute(NCLAIM_INSERT_MESSAGE, values, NULL, InvalidSnapshot) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a trigger or rule on table notify_outbox kept the message from being written")));
}
