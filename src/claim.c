/*-------------------------------------------------------------------------
 *
 * claim.c
 *		The claim: finding it, comparing with it, inserting it.
 *
 * A claim is inserted once; only one that was parked, skipped or refused is ever
 * changed, when it is processed again.  The unique index on (biz_key, channel)
 * decides between two at the same instant.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "compat.h"
#include "notify_claim.h"

/* What of a stored claim the comparison and the answer need. */
typedef struct StoredClaim
{
	int64		id;
	char	   *order_no;
	int64		rule;			/* 0: none */
	NClaimDigest digest;
	char	   *outcome;
	Jsonb	   *result;			/* or NULL */
	TimestampTz created_at;
} StoredClaim;

/* Fills in what a row of NCLAIM_FIND_CLAIM says. */
static void
take_claim(const NClaimRow *row, StoredClaim *claim)
{
	claim->order_no = TextDatumGetCString(row->values[0]);
	nclaim_digest_read(TextDatumGetCString(row->values[1]),
					   TextDatumGetCString(row->values[2]), &claim->digest);
	claim->outcome = TextDatumGetCString(row->values[3]);
	claim->result = row->nulls[4] ? NULL : DatumGetJsonbP(row->values[4]);
	claim->created_at = DatumGetTimestampTz(row->values[5]);
	claim->id = DatumGetInt64(row->values[6]);
	claim->rule = row->nulls[7] ? 0 : DatumGetInt64(row->values[7]);
}

/* Looks for the claim of the notice's key, under a new snapshot or the given. */
static bool
find_claim(const NClaimNotice *notice, Snapshot snapshot, NClaimRow *row)
{
	Datum		values[2] = {
		CStringGetTextDatum(notice->biz_key),
		CStringGetTextDatum(notice->channel)
	};

	return nclaim_find(NCLAIM_FIND_CLAIM, values, snapshot, row);
}

/* The notice's body as a bytea; one that was not kept is empty. */
Datum
nclaim_notice_body(const NClaimNotice *notice)
{
	return PointerGetDatum(cstring_to_text_with_len(notice->body == NULL ? "" : notice->body,
													notice->length));
}

/* Raises 55000 where the body of a claim is needed and was not kept. */
void
nclaim_claim_need_body(const NClaimNotice *notice)
{
	if (notice->body == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the body of claim " INT64_FORMAT " was not kept", notice->claim),
				 errhint("Pass it to notify_reopen() as raw_body: an event that is parked, and one with a check or an action, needs it.")));
}

/*
 * Is the notice's order number the claim's?  The same text is; otherwise the
 * key column of the event's machine decides, if it still can, whatever else
 * keeps the table from being used.  No order row is looked at.  Raises what the
 * key's input function raises for the notice's number.
 */
bool
nclaim_claim_same_order(const NClaimNotice *notice, const char *claimed)
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

/*
 * The notice's digest under a rule that may be another than the channel's
 * present one.
 */
void
nclaim_notice_digest(const NClaimNotice *notice, int64 id, NClaimDigest *digest)
{
	NClaimRule	rule;

	if (id == notice->rule->id)
	{
		*digest = notice->digest;
		return;
	}
	nclaim_rule_read(id, &rule);
	nclaim_rule_digest(&rule, notice->body, notice->length, digest, NULL);
}

/* Does a person's decision hold for content that is not the claim's? */
static bool
was_refused(const NClaimNotice *notice, const StoredClaim *claim,
			const NClaimDigest *digest)
{
	return strcmp(claim->outcome, "REJECTED") == 0 &&
		nclaim_review_refused(notice, claim->id, digest);
}

/*
 * The review that the notice's content goes to, or 0 where it is what was
 * claimed, or a person decided that it counts as that; NCLAIM_NO_CLAIM where
 * the claim is gone.
 */
static int64
find_conflict(const NClaimNotice *notice, const StoredClaim *claim)
{
	NClaimDigest digest;
	NClaimConflict conflict;
	bool		same_order = nclaim_claim_same_order(notice, claim->order_no);

	nclaim_notice_digest(notice, claim->rule, &digest);
	if (same_order && nclaim_digest_same(&claim->digest, &digest))
		return 0;
	if (was_refused(notice, claim, &digest))
		return 0;
	conflict.claim = claim->id;
	conflict.rule = claim->rule;
	conflict.order_no = same_order ? claim->order_no : notice->order_no;
	conflict.payload_hash = claim->digest.hex;
	conflict.digest = &digest;
	return nclaim_review_conflict(notice, &conflict);
}

static void
answer_from(const StoredClaim *claim, NClaimAnswer *answer)
{
	answer->seen = true;
	answer->first_seen = claim->created_at;
	answer->claim = claim->id;
}

static void
answer_replay(const StoredClaim *claim, NClaimAnswer *answer)
{
	answer->success = true;
	answer->outcome = claim->outcome;
	answer->result = claim->result;
	answer->replayed = true;
}

static void
answer_conflict(const NClaimNotice *notice, const StoredClaim *claim,
				int64 review, NClaimAnswer *answer)
{
	NClaimJson	json = {0};

	nclaim_json_open(&json);
	nclaim_json_number(&json, "conflict", review);
	nclaim_json_value(&json, "first", claim->result);
	answer->success = notice->settings->ack_conflict;
	answer->outcome = "CONFLICT";
	answer->result = nclaim_json_close(&json);
}

/*
 * Answers the notice from its claim, if there is one that this transaction can
 * see: with the first answer where content and order number are the same, or
 * else as a conflict, which is put on record.  A notice that a person allowed
 * is not compared.  Returns false where there is no claim.
 */
bool
nclaim_claim_answer(const NClaimNotice *notice, NClaimAnswer *answer)
{
	NClaimRow	row;
	StoredClaim claim;
	int64		review;

	do
	{
		if (!find_claim(notice, InvalidSnapshot, &row))
			return false;
		take_claim(&row, &claim);
		review = notice->allowed ? 0 : find_conflict(notice, &claim);
	} while (review == NCLAIM_NO_CLAIM);

	answer_from(&claim, answer);
	if (review == 0)
		answer_replay(&claim, answer);
	else
		answer_conflict(notice, &claim, review, answer);
	return true;
}

/*
 * Answers a repeat of exactly what was claimed, and does nothing else: returns
 * NCLAIM_FOUND_UNKNOWN where the notice needs another look by
 * nclaim_claim_answer(), NCLAIM_FOUND_NONE where there is no claim.  Needs no SPI
 * connection and waits for nothing.
 */
NClaimFound
nclaim_claim_repeat(const NClaimNotice *notice, NClaimAnswer *answer)
{
	Datum		values[2] = {
		CStringGetTextDatum(notice->biz_key),
		CStringGetTextDatum(notice->channel)
	};
	NClaimRow	row;
	StoredClaim claim;
	NClaimFound found = nclaim_find_directly(NCLAIM_FIND_CLAIM, values, InvalidSnapshot, &row);

	if (found != NCLAIM_FOUND_ROW)
		return found;
	take_claim(&row, &claim);
	if (strcmp(notice->order_no, claim.order_no) != 0 || notice->rule->id != claim.rule ||
		!nclaim_digest_same(&claim.digest, &notice->digest))
		return NCLAIM_FOUND_UNKNOWN;
	answer_from(&claim, answer);
	answer_replay(&claim, answer);
	return NCLAIM_FOUND_ROW;
}

/*
 * Is there a claim of the notice's key that was committed after this
 * transaction's snapshot, and that it therefore cannot answer from?
 */
bool
nclaim_claim_is_invisible(const NClaimNotice *notice)
{
	NClaimRow	row;

	return IsolationUsesXactSnapshot() && find_claim(notice, GetLatestSnapshot(), &row);
}

/* Keeps body and data, for whoever has to compare with them or needs them again. */
static void
keep_body(const NClaimNotice *notice, int64 claim)
{
	Datum		values[3] = {
		Int64GetDatum(claim),
		nclaim_notice_body(notice),
		JsonbPGetDatum(notice->data)
	};

	if (nclaim_own_execute(NCLAIM_PUT_BODY, values,
						   notice->data == NULL ? "  n" : "   ", InvalidSnapshot) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a trigger or rule on table notify_body kept the body from being written")));
}

/*
 * Inserts the claim, with its body where the channel keeps that, and fills in
 * its id.  Returns false where another transaction has committed one under the
 * key; waits for one that has not decided yet, under lock_timeout.  Raises
 * 40001 where the other claim is invisible to the transaction's snapshot, and
 * 42704 where the channel was dropped meanwhile.
 */
bool
nclaim_claim_insert(const NClaimNotice *notice, NClaimClaim *claim)
{
	Datum		values[11] = {
		CStringGetTextDatum(notice->channel),
		CStringGetTextDatum(notice->biz_key),
		CStringGetTextDatum(claim->order_no),
		CStringGetTextDatum(notice->digest.hex),
		Int64GetDatum(notice->rule->id),
		CStringGetTextDatum(nclaim_mode_name(notice->digest.mode)),
		CStringGetTextDatum(claim->state),
		CStringGetTextDatum(claim->outcome),
		JsonbPGetDatum(claim->result),
		UUIDPGetDatum(claim->message_id),
		TimestampTzGetDatum(claim->created_at)
	};
	char		nulls[11];

	nclaim_channel_hold(notice->channel);
	PreventCommandIfReadOnly("handle_notify");
	/* Before it draws its number: purge_claims.c counts on that. */
	(void) GetTopTransactionId();
	memset(nulls, ' ', sizeof(nulls));
	if (notice->rule->id == 0)
		nulls[4] = 'n';
	if (claim->message_id == NULL)
		nulls[9] = 'n';
	if (!nclaim_insert(NCLAIM_INSERT_CLAIM, values, nulls, &claim->id))
		return false;
	if (notice->settings->keep_body || strcmp(claim->state, "PARKED") == 0)
		keep_body(notice, claim->id);
	return true;
}

/*
 * Keeps the body of a claim that is parked again, and drops that of one that is
 * done, unless the channel keeps bodies.
 */
static void
settle_body(const NClaimNotice *notice, const NClaimClaim *claim)
{
	Datum		value = Int64GetDatum(claim->id);

	if (strcmp(claim->state, "PARKED") == 0)
	{
		nclaim_claim_need_body(notice);
		keep_body(notice, claim->id);
	}
	else if (notice->settings == NULL || !notice->settings->keep_body)
		nclaim_own_execute(NCLAIM_DELETE_BODY, &value, NULL, GetLatestSnapshot());
}

/*
 * Gives the claim that the notice is about its new state, outcome and result.
 * Returns false where its outcome is another one by now.  By the latest snapshot:
 * the caller holds the order's row, and the claim may be newer than the
 * transaction's.
 */
bool
nclaim_claim_close(const NClaimNotice *notice, const NClaimClaim *claim)
{
	Datum		values[6] = {
		Int64GetDatum(claim->id),
		CStringGetTextDatum(notice->claim_outcome),
		CStringGetTextDatum(claim->state),
		CStringGetTextDatum(claim->outcome),
		JsonbPGetDatum(claim->result),
		UUIDPGetDatum(claim->message_id)
	};

	if (nclaim_own_execute(NCLAIM_CLOSE_CLAIM, values,
						   claim->message_id == NULL ? "     n" : "      ",
						   GetLatestSnapshot()) == 0)
		return false;
	settle_body(notice, claim);
	return true;
}

/*
 * Reads a claim as a notice to be processed again, without its body and data, by
 * the latest snapshot; *state is its state.  Returns false where there is none.
 */
bool
nclaim_claim_read(int64 id, NClaimNotice *notice, char **state)
{
	Datum		value = Int64GetDatum(id);
	SPITupleTable *rows;
	NClaimRule *rule = palloc(sizeof(NClaimRule));
	int64		rule_id;
	bool		isnull;

	if (nclaim_own_execute(NCLAIM_READ_CLAIM, &value, NULL, GetLatestSnapshot()) == 0)
		return false;
	rows = SPI_tuptable;
	memset(notice, 0, sizeof(*notice));
	notice->claim = id;
	notice->channel = nclaim_own_text(rows, 0, 1);
	notice->biz_key = nclaim_own_text(rows, 0, 2);
	notice->event_type = strrchr(notice->biz_key, ':') + 1;
	notice->order_no = nclaim_own_text(rows, 0, 3);
	nclaim_digest_read(nclaim_own_text(rows, 0, 5), nclaim_own_text(rows, 0, 6),
					   &notice->digest);
	notice->claim_outcome = nclaim_own_text(rows, 0, 7);
	notice->first_seen = DatumGetTimestampTz(SPI_getbinval(rows->vals[0], rows->tupdesc, 8, &isnull));
	*state = nclaim_own_text(rows, 0, 9);
	value = SPI_getbinval(rows->vals[0], rows->tupdesc, 4, &isnull);
	rule_id = isnull ? 0 : DatumGetInt64(value);
	SPI_freetuptable(rows);

	notice->rule = rule;
	nclaim_rule_read(rule_id, rule);
	notice->settings = nclaim_channel_known(notice->channel);
	return true;
}

/* Reads the body and the data of the claim, where they are kept. */
void
nclaim_claim_read_body(NClaimNotice *notice)
{
	Datum		value = Int64GetDatum(notice->claim);
	bytea	   *body;
	bool		isnull;

	if (nclaim_own_execute(NCLAIM_READ_BODY, &value, NULL, GetLatestSnapshot()) > 0)
	{
		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
		if (!isnull)
		{
			body = DatumGetByteaPCopy(value);
			notice->body = VARDATA(body);
			notice->length = VARSIZE(body) - VARHDRSZ;
		}
		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull);
		notice->data = isnull ? NULL : DatumGetJsonbPCopy(value);
	}
	SPI_freetuptable(SPI_tuptable);
}
