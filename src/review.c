/*-------------------------------------------------------------------------
 *
 * review.c
 *		Putting on record what a person has to decide.
 *
 * One open row per channel, key and kind, however often and with however many
 * contents the peer pushes: a delivery counts it up, and each distinct content
 * is noted once.  Only a new row alarms.  Deliveries under one key queue for
 * the row's lock, under lock_timeout; it is taken after the order's row and
 * the claim, like everywhere.
 *
 * A decision about a conflict holds while the claim is kept, so a claim has at
 * most one such row, and the unique index on it decides between a delivery and
 * a decision at the same instant.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "notify_claim.h"

/* kind of a review */
#define REFUSED		"CHECK_REFUSED"

/* A row that is found, then lost: decided or deleted, over and over. */
#define MAX_LOST_RACES	10

/* One delivery, as it is recorded. */
typedef struct Delivery
{
	const NClaimNotice *notice;
	const char *kind;
	int64		claim;			/* 0: none */
	int64		rule;			/* 0: none */
	const NClaimDigest *digest; /* under that rule */
	const char *order_no;
	const char *first_hash;
	const char *reason;			/* or NULL */
	TimestampTz at;
} Delivery;

static Datum
text_or_null(const char *text, char *null)
{
	*null = text == NULL ? 'n' : ' ';
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

NCLAIM_NORETURN static void
raise_keeps_changing(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not record the notification for review: its review keeps changing"),
			 errhint("The transaction might succeed if retried.")));
}

/* Column 1 of the row that was returned, and its end. */
static int64
returned_id(void)
{
	bool		isnull;
	int64		id = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
												 SPI_tuptable->tupdesc, 1, &isnull));

	SPI_freetuptable(SPI_tuptable);
	return id;
}

/* Notes the content; returns false where it was noted before. */
static bool
note_variant(int64 review, const Delivery *delivery)
{
	Datum		values[5] = {
		Int64GetDatum(review),
		CStringGetTextDatum(nclaim_mode_name(delivery->digest->mode)),
		CStringGetTextDatum(delivery->digest->hex),
		CStringGetTextDatum(delivery->order_no),
		TimestampTzGetDatum(delivery->at)
	};

	return nclaim_own_execute(NCLAIM_INSERT_VARIANT, values, NULL, InvalidSnapshot) == 1;
}

/*
 * Counts the delivery; returns false where the review is open no longer.  Its row
 * is waited for until the call's deadline.
 */
static bool
count_delivery(int64 review, const Delivery *delivery)
{
	char		nulls[8];
	Datum		values[8] = {
		Int64GetDatum(review),
		CStringGetTextDatum(delivery->order_no),
		CStringGetTextDatum(nclaim_mode_name(delivery->digest->mode)),
		CStringGetTextDatum(delivery->digest->hex),
		nclaim_notice_body(delivery->notice),
		JsonbPGetDatum(delivery->notice->data),
		(Datum) 0,
		TimestampTzGetDatum(delivery->at)
	};

	if (!nclaim_review_lock(review, delivery->notice->start))
		return false;
	memset(nulls, ' ', sizeof(nulls));
	if (delivery->notice->data == NULL)
		nulls[5] = 'n';
	values[6] = text_or_null(delivery->reason, &nulls[6]);
	if (nclaim_own_execute(NCLAIM_COUNT_REVIEW, values, nulls, InvalidSnapshot) == 0)
		return false;
	if (note_variant(review, delivery))
		nclaim_own_execute(NCLAIM_COUNT_VARIANT, values, NULL, InvalidSnapshot);
	return true;
}

/* One line a minute per key; the body is nobody's business in a log. */
static void
log_alarm(int64 review, const Delivery *delivery)
{
	const NClaimNotice *notice = delivery->notice;

	if (!nclaim_log_due(delivery->kind, notice->channel, notice->biz_key))
		return;
	ereport(LOG_SERVER_ONLY,
			(errmsg("notification for review: %s in channel \"%s\" under key \"%s\"",
					delivery->kind, notice->channel, notice->biz_key),
			 errdetail_log("Review " INT64_FORMAT ": order \"%s\", first digest %s, now %s.",
						   review, delivery->order_no, delivery->first_hash,
						   delivery->digest->hex),
			 errhint("See notify_review_open and notify_review_diff()."),
			 errhidestmt(true),
			 errhidecontext(true)));
}

/*
 * Opens a review and alarms.  Returns its id, or 0 where there is an open one or
 * the key's claim is not the one given, or none, by now.
 */
static int64
open_review(const Delivery *delivery)
{
	const NClaimNotice *notice = delivery->notice;
	char		nulls[13];
	Datum		values[13] = {
		CStringGetTextDatum(delivery->kind),
		CStringGetTextDatum(notice->channel),
		CStringGetTextDatum(notice->biz_key),
		Int64GetDatum(delivery->claim),
		CStringGetTextDatum(delivery->order_no),
		Int64GetDatum(delivery->rule),
		CStringGetTextDatum(nclaim_mode_name(delivery->digest->mode)),
		CStringGetTextDatum(delivery->first_hash),
		CStringGetTextDatum(delivery->digest->hex),
		nclaim_notice_body(notice),
		JsonbPGetDatum(notice->data),
		(Datum) 0,
		TimestampTzGetDatum(delivery->at)
	};
	int64		review;

	nclaim_channel_hold(notice->channel);
	memset(nulls, ' ', sizeof(nulls));
	if (delivery->claim == 0)
		nulls[3] = 'n';
	if (delivery->rule == 0)
		nulls[5] = 'n';
	if (notice->data == NULL)
		nulls[10] = 'n';
	values[11] = text_or_null(delivery->reason, &nulls[11]);
	if (nclaim_own_execute(NCLAIM_INSERT_REVIEW, values, nulls, InvalidSnapshot) == 0)
		return 0;
	review = returned_id();
	note_variant(review, delivery);
	nclaim_outbox_alarm(notice, delivery->kind, review, delivery->order_no,
						delivery->first_hash, delivery->digest->hex);
	log_alarm(review, delivery);
	return review;
}

/*
 * Finds the claim's review of conflicting content.  Returns 0 where there is
 * none; *state says what became of it.
 */
static int64
find_conflict(int64 claim, char **state)
{
	Datum		value = Int64GetDatum(claim);

	if (nclaim_own_execute(NCLAIM_FIND_CONFLICT, &value, NULL, InvalidSnapshot) == 0)
	{
		SPI_freetuptable(SPI_tuptable);
		return 0;
	}
	*state = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2);
	return returned_id();
}

/* Closes an open conflict with an earlier claim of the key, now deleted. */
static void
overtake_conflict(const Delivery *delivery)
{
	Datum		values[3] = {
		CStringGetTextDatum(delivery->notice->biz_key),
		CStringGetTextDatum(delivery->notice->channel),
		TimestampTzGetDatum(delivery->at)
	};

	nclaim_own_execute(NCLAIM_OVERTAKE_CONFLICT, values, NULL, InvalidSnapshot);
}

/* Has the key another claim by now, or none? */
static bool
claim_is_gone(const Delivery *delivery)
{
	Datum		values[2] = {
		CStringGetTextDatum(delivery->notice->biz_key),
		CStringGetTextDatum(delivery->notice->channel)
	};
	bool		isnull;
	bool		gone = nclaim_own_execute(NCLAIM_FIND_CLAIM, values, NULL,
										  InvalidSnapshot) == 0 ||
		DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
									SPI_tuptable->tupdesc, 7, &isnull)) != delivery->claim;

	SPI_freetuptable(SPI_tuptable);
	return gone;
}

/*
 * Records content that conflicts with a claim, and closes a refusal of the key
 * that was left open beside it.  Returns the review's id, or 0 where a person
 * has decided that other content under this key counts as the claim's: nothing
 * is written then; NCLAIM_NO_CLAIM where the claim is gone.  Raises 40001 where
 * the review keeps changing or its row is invisible to the transaction's
 * snapshot, 55P03 after waiting for the busy timeout.
 */
int64
nclaim_review_conflict(const NClaimNotice *notice, const NClaimConflict *conflict)
{
	Delivery	delivery = {
		.notice = notice,
		.kind = "PAYLOAD_CONFLICT",
		.claim = conflict->claim,
		.rule = conflict->rule,
		.digest = conflict->digest,
		.order_no = conflict->order_no,
		.first_hash = conflict->payload_hash,
		.at = GetCurrentTimestamp(),
	};

	for (int i = 0; i < MAX_LOST_RACES; i++)
	{
		char	   *state = NULL;
		int64		review = find_conflict(conflict->claim, &state);

		if (review != 0 && strcmp(state, "DISMISSED") == 0)
			return 0;
		if (review != 0 && count_delivery(review, &delivery))
			return review;
		if (review == 0 && (review = open_review(&delivery)) != 0)
		{
			nclaim_review_overtaken(notice);
			return review;
		}
		if (claim_is_gone(&delivery))
			return NCLAIM_NO_CLAIM;
		overtake_conflict(&delivery);
	}
	raise_keeps_changing();
}

/*
 * Was this content refused before a person confirmed the refusal that the claim
 * records?
 */
bool
nclaim_review_refused(const NClaimNotice *notice, int64 claim,
					  const NClaimDigest *digest)
{
	Datum		values[3] = {
		Int64GetDatum(claim),
		CStringGetTextDatum(nclaim_mode_name(digest->mode)),
		CStringGetTextDatum(digest->hex)
	};
	uint64		nrows = nclaim_own_execute(NCLAIM_FIND_REFUSED, values, NULL,
										   InvalidSnapshot);
	SPITupleTable *rows = SPI_tuptable;
	bool		found = false;

	for (uint64 i = 0; i < nrows && !found; i++)
		found = nclaim_claim_same_order(notice, SPI_getvalue(rows->vals[i],
															 rows->tupdesc, 1));
	SPI_freetuptable(rows);
	return found;
}

/*
 * The key's open refusal, and the rule that its contents are digested by.
 * Returns 0 where there is none.
 */
static int64
find_refusal(const NClaimNotice *notice, int64 *rule)
{
	Datum		values[2] = {
		CStringGetTextDatum(notice->biz_key),
		CStringGetTextDatum(notice->channel)
	};
	Datum		value;
	bool		isnull;

	if (nclaim_own_execute(NCLAIM_FIND_REFUSAL, values, NULL, InvalidSnapshot) == 0)
	{
		SPI_freetuptable(SPI_tuptable);
		return 0;
	}
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull);
	*rule = isnull ? 0 : DatumGetInt64(value);
	return returned_id();
}

/*
 * Records that the event's check function refused the notice; order_no is in
 * the table's own spelling.  Returns false where the refusal was decided or
 * the key claimed meanwhile, by another claim than the one that is processed
 * again.  Raises like nclaim_review_conflict().
 */
bool
nclaim_review_refuse(const NClaimNotice *notice, const char *order_no,
					 const char *reason)
{
	NClaimDigest digest;
	Delivery	delivery = {
		.notice = notice,
		.kind = REFUSED,
		.claim = notice->claim,
		.rule = notice->rule->id,
		.digest = &digest,
		.order_no = order_no,
		.reason = reason,
		.at = GetCurrentTimestamp(),
	};
	int64		review = find_refusal(notice, &delivery.rule);

	nclaim_notice_digest(notice, delivery.rule, &digest);
	delivery.first_hash = digest.hex;
	return review != 0 ? count_delivery(review, &delivery) :
		open_review(&delivery) != 0;
}

/* Tells a person of a parked event that was given up. */
void
nclaim_review_expired(const NClaimNotice *notice)
{
	Delivery	delivery = {
		.notice = notice,
		.kind = "PARKED_EXPIRED",
		.claim = notice->claim,
		.rule = notice->rule->id,
		.digest = &notice->digest,
		.order_no = notice->order_no,
		.first_hash = notice->digest.hex,
		.at = GetCurrentTimestamp(),
	};

	(void) open_review(&delivery);
}

/*
 * Closes the key's open refusal: the notification was claimed after all.  By
 * the latest snapshot, for the refusal may be newer than the transaction's.
 */
void
nclaim_review_overtaken(const NClaimNotice *notice)
{
	Datum		values[3] = {
		CStringGetTextDatum(notice->biz_key),
		CStringGetTextDatum(notice->channel),
		CStringGetTextDatum(REFUSED)
	};
	NClaimRow	row;

	if (!nclaim_find(NCLAIM_FIND_OPEN_REFUSAL, values, GetLatestSnapshot(), &row))
		return;
	values[2] = TimestampTzGetDatum(GetCurrentTimestamp());
	nclaim_own_execute(NCLAIM_OVERTAKE_REFUSAL, values, NULL, GetLatestSnapshot());
}
