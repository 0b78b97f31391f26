/*-------------------------------------------------------------------------
 *
 * claim.c
 *		The claim: finding it, comparing with it, inserting it.
 *
 * A claim is inserted once, in its final form, and never updated here.  The
 * unique index on (biz_key, channel) decides between two at the same instant.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "compat.h"
#include "notify_claim.h"

/* The one mode so far: the bytes as they are. */
#define DIGEST_MODE		"raw"

/* What of a stored claim the comparison and the answer need. */
typedef struct StoredClaim
{
	char	   *order_no;
	char	   *digest_mode;
	char	   *payload_hash;
	char	   *outcome;
	Jsonb	   *result;			/* or NULL */
	TimestampTz created_at;
} StoredClaim;

/* Looks for the claim of the notice's key, under a new snapshot or the given. */
static bool
find_claim(const NClaimNotice *notice, Snapshot snapshot)
{
	Datum		values[2] = {
		CStringGetTextDatum(notice->biz_key),
		CStringGetTextDatum(notice->channel)
	};

	return nclaim_own_execute(NCLAIM_FIND_CLAIM, values, NULL, snapshot) > 0;
}

/*
 * Reads the claim of the notice's key under a new snapshot.  Returns false
 * where there is none.
 */
static bool
read_claim(const NClaimNotice *notice, StoredClaim *claim)
{
	HeapTuple	tuple;
	TupleDesc	desc;
	Datum		value;
	bool		isnull;

	if (!find_claim(notice, InvalidSnapshot))
	{
		SPI_freetuptable(SPI_tuptable);
		return false;
	}
	tuple = SPI_tuptable->vals[0];
	desc = SPI_tuptable->tupdesc;
	claim->order_no = SPI_getvalue(tuple, desc, 1);
	claim->digest_mode = SPI_getvalue(tuple, desc, 2);
	claim->payload_hash = SPI_getvalue(tuple, desc, 3);
	claim->outcome = SPI_getvalue(tuple, desc, 4);
	value = SPI_getbinval(tuple, desc, 5, &isnull);
	claim->result = isnull ? NULL : DatumGetJsonbPCopy(value);
	claim->created_at = DatumGetTimestampTz(SPI_getbinval(tuple, desc, 6, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return true;
}

/*
 * Is the notice's order number the claim's?  The same text is; otherwise the
 * key column of the event's machine decides, if it still can, whatever else
 * keeps the table from being used.  No order row is looked at.  Raises what the
 * key's input function raises for the notice's number.
 */
static bool
same_order(const NClaimNotice *notice, const char *claimed)
{
	NClaimEvent *event;
	NClaimColumn *key;
	Datum		value;
	Datum		claimed_value;

	if (strcmp(notice->order_no, claimed) == 0)
		return true;
	event = nclaim_event_find(notice->event_type);
	if (event == NULL || event->machine == NULL || !event->machine->table.key_known)
		return false;
	key = &event->machine->table.key;
	value = nclaim_column_in(key, notice->order_no);
	return strcmp(nclaim_column_out(key, value), claimed) == 0 ||
		(nclaim_column_reads(key, claimed, &claimed_value) &&
		 nclaim_column_equal(key, value, claimed_value));
}

/* One line a minute per key; the body is nobody's business in a log. */
static void
log_conflict(const NClaimNotice *notice, const StoredClaim *claim)
{
	if (!nclaim_log_due("conflict", notice->channel, notice->biz_key))
		return;
	ereport(LOG_SERVER_ONLY,
			(errmsg("conflicting notification in channel \"%s\" under key \"%s\"",
					notice->channel, notice->biz_key),
			 errdetail_log("Claimed for order \"%s\" with SHA-256 %s; now order \"%s\" with SHA-256 %s.",
						   claim->order_no, claim->payload_hash,
						   notice->order_no, notice->digest),
			 errhidestmt(true),
			 errhidecontext(true)));
}

/*
 * Answers the notice from its claim, if there is one that this transaction can
 * see: with the first answer where content and order number are the same, or
 * else as a conflict.  Returns false where there is no claim.
 */
bool
nclaim_claim_answer(const NClaimNotice *notice, NClaimAnswer *answer)
{
	StoredClaim claim;
	NClaimJson	json = {0};

	if (!read_claim(notice, &claim))
		return false;

	answer->seen = true;
	answer->first_seen = claim.created_at;
	if (strcmp(claim.digest_mode, DIGEST_MODE) == 0 &&
		nclaim_digest_equal(claim.payload_hash, notice->digest) &&
		same_order(notice, claim.order_no))
	{
		answer->success = true;
		answer->outcome = claim.outcome;
		answer->result = claim.result;
		answer->replayed = true;
		return true;
	}

	log_conflict(notice, &claim);
	nclaim_json_open(&json);
	nclaim_json_value(&json, "conflict", NULL);
	nclaim_json_value(&json, "first", claim.result);
	answer->success = false;
	answer->outcome = "CONFLICT";
	answer->result = nclaim_json_close(&json);
	return true;
}

/*
 * Is there a claim of the notice's key that was committed after this
 * transaction's snapshot, and that it therefore cannot answer from?
 */
bool
nclaim_claim_is_invisible(const NClaimNotice *notice)
{
	return IsolationUsesXactSnapshot() && find_claim(notice, GetLatestSnapshot());
}

/*
 * Inserts the claim.  Returns false where another transaction has committed
 * one under the key; waits for one that has not decided yet, under
 * lock_timeout.  Raises 40001 where the other claim is invisible to the
 * transaction's snapshot.
 */
bool
nclaim_claim_insert(const NClaimNotice *notice, const NClaimClaim *claim)
{
	Datum		values[10] = {
		CStringGetTextDatum(notice->channel),
		CStringGetTextDatum(notice->biz_key),
		CStringGetTextDatum(claim->order_no),
		CStringGetTextDatum(notice->digest),
		CStringGetTextDatum(DIGEST_MODE),
		CStringGetTextDatum("DONE"),
		CStringGetTextDatum(claim->outcome),
		JsonbPGetDatum(claim->result),
		UUIDPGetDatum(claim->message_id),
		TimestampTzGetDatum(claim->created_at)
	};
	char		nulls[10];

	memset(nulls, ' ', sizeof(nulls));
	if (claim->message_id == NULL)
		nulls[8] = 'n';
	return nclaim_own_execute(NCLAIM_INSERT_CLAIM, values, nulls, InvalidSnapshot) == 1;
}
