/*-------------------------------------------------------------------------
 *
 * review_resolve.c
 *		What a person decides about a review.
 *
 * The locks are taken in the order of everywhere: order row, claim, review
 * row.  So a decision goes by what the review said when it was read, and what
 * came in since is found when its row is locked in the end: that undoes the
 * decision.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_review_resolve);

/* A review with the notification that it is about. */
typedef struct Review
{
	int64		id;
	char	   *kind;
	char	   *state;
	char	   *reason;
	char	   *payload_hash;
	int64		variants;
	int64		claim;			/* or 0 */
	bool		any_content;	/* the decision is not about the last one
								 * alone */
	NClaimRule	rule;
	NClaimNotice notice;
} Review;

static int64
int64_of(SPITupleTable *rows, int n)
{
	bool		isnull;
	Datum		value = SPI_getbinval(rows->vals[0], rows->tupdesc, n, &isnull);

	return isnull ? 0 : DatumGetInt64(value);
}

/* The notification of the review as it was delivered last. */
static void
read_notice(Review *review, SPITupleTable *rows)
{
	NClaimNotice *notice = &review->notice;
	Datum		value;
	bytea	   *body;
	bool		isnull;

	memset(notice, 0, sizeof(*notice));
	INSTR_TIME_SET_CURRENT(notice->start);
	notice->channel = nclaim_own_text(rows, 0, 3);
	notice->biz_key = nclaim_own_text(rows, 0, 4);
	notice->event_type = strrchr(notice->biz_key, ':') + 1;
	notice->order_no = nclaim_own_text(rows, 0, 5);
	body = DatumGetByteaPCopy(SPI_getbinval(rows->vals[0], rows->tupdesc, 9, &isnull));
	notice->body = VARDATA(body);
	notice->length = VARSIZE(body) - VARHDRSZ;
	value = SPI_getbinval(rows->vals[0], rows->tupdesc, 10, &isnull);
	notice->data = isnull ? NULL : DatumGetJsonbPCopy(value);
	nclaim_digest_read(nclaim_own_text(rows, 0, 7), review->payload_hash, &notice->digest);
	notice->rule = &review->rule;
	notice->allowed = true;
}

/*
 * Reads a review.  Raises 42704 where there is none, 40001 where it is newer
 * than the transaction's snapshot.
 */
static void
read_review(int64 id, Review *review)
{
	Datum		value = Int64GetDatum(id);
	SPITupleTable *rows;

	if (nclaim_own_execute(NCLAIM_FIND_REVIEW, &value, NULL, InvalidSnapshot) == 0)
	{
		if (IsolationUsesXactSnapshot() &&
			nclaim_own_execute(NCLAIM_FIND_REVIEW, &value, NULL, GetLatestSnapshot()) > 0)
			nclaim_raise_not_serializable(NULL);
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("review " INT64_FORMAT " does not exist", id)));
	}
	rows = SPI_tuptable;
	review->id = id;
	review->any_content = false;
	review->kind = nclaim_own_text(rows, 0, 1);
	review->state = nclaim_own_text(rows, 0, 2);
	review->payload_hash = nclaim_own_text(rows, 0, 8);
	review->reason = nclaim_own_text(rows, 0, 11);
	review->variants = int64_of(rows, 12);
	review->claim = int64_of(rows, 13);
	read_notice(review, rows);
	nclaim_rule_read(int64_of(rows, 6), &review->rule);
	SPI_freetuptable(rows);
}

static void
raise_other_content(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("review " INT64_FORMAT " is about another content by now", id),
			 errhint("Look at it again, and pass the payload_hash of the content that you decide about.")));
}

NCLAIM_NORETURN static void
raise_claim_is_gone(int64 claim)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("claim " INT64_FORMAT " does not exist any more", claim),
			 errhint("DISMISS the review.")));
}

static void
raise_decided(int64 id, const char *state)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("review " INT64_FORMAT " is not open: it was closed as %s", id, state),
			 errhint("See resolved_by, resolved_at and note in notify_review.")));
}

/*
 * Closes the review and records who decided what.  Raises 55000 where somebody
 * else closed it, or another content came since it was read that the decision
 * is not about; 55P03 where its row is held for too long.
 */
static void
close_review(const Review *review, const char *state, const char *verb,
			 const char *note, int64 claim)
{
	const char *values[] = {
		psprintf(INT64_FORMAT, review->id), state,
		GetUserNameFromId(GetUserId(), false), note,
		claim == 0 ? NULL : psprintf(INT64_FORMAT, claim),
		verb, review->any_content ? NULL : review->payload_hash,
		nclaim_mode_name(review->notice.digest.mode), review->notice.order_no,
		psprintf(INT64_FORMAT, review->variants)
	};
	Review		now;

	if (!nclaim_review_lock(review->id, review->notice.start) ||
		nclaim_own_run("UPDATE @.notify_review AS r SET state = $2, resolved_by = $3,"
					   " resolved_at = pg_catalog.clock_timestamp(), note = $4,"
					   " claim = COALESCE($5::pg_catalog.int8, r.claim)"
					   " WHERE r.id OPERATOR(pg_catalog.=) $1::pg_catalog.int8"
					   " AND r.state OPERATOR(pg_catalog.=) 'OPEN'"
					   " AND ($7 IS NULL OR (r.payload_hash OPERATOR(pg_catalog.=) $7"
					   " AND r.digest_mode OPERATOR(pg_catalog.=) $8"
					   " AND r.order_no OPERATOR(pg_catalog.=) $9"
					   " AND r.variants OPERATOR(pg_catalog.=) $10::pg_catalog.int8))",
					   lengthof(values), values) == 0)
	{
		read_review(review->id, &now);
		if (strcmp(now.state, "OPEN") != 0)
			raise_decided(review->id, now.state);
		raise_other_content(review->id);
	}
	nclaim_own_run("INSERT INTO @.notify_decision (claim, review, verb, who, at, note)"
				   " SELECT r.claim, r.id, $6, $3, r.resolved_at, $4 FROM @.notify_review AS r"
				   " WHERE r.id OPERATOR(pg_catalog.=) $1::pg_catalog.int8",
				   lengthof(values), values);
}

/*
 * The key was claimed while its refusal was open: nothing is left to decide, and
 * nothing was done.
 */
static const char *
overtaken(const Review *review, const char *verb, const char *note,
		  const NClaimAnswer *answer)
{
	close_review(review, "OVERTAKEN", verb, note, answer->claim);
	return "OVERTAKEN";
}

/*
 * Confirms a refusal: the claim that is inserted answers what was refused, and
 * makes a conflict of any other content.  Returns the outcome.
 */
static const char *
dismiss_refusal(const Review *review, const char *note)
{
	NClaimJson	json = {0};
	NClaimClaim claim = {
		.order_no = review->notice.order_no,
		.state = "DONE",
		.outcome = "REJECTED",
		.created_at = GetCurrentTimestamp(),
	};
	NClaimAnswer answer = {0};

	nclaim_json_open(&json);
	nclaim_json_text(&json, "rejected", review->reason);
	claim.result = nclaim_json_close(&json);
	if (nclaim_claim_insert(&review->notice, &claim))
	{
		close_review(review, "DISMISSED", "DISMISS", note, claim.id);
		return claim.outcome;
	}
	if (!nclaim_claim_answer(&review->notice, &answer))
		nclaim_raise_not_serializable(NULL);
	return overtaken(review, "DISMISS", note, &answer);
}

/*
 * Processes what was refused, without its check.  Returns the outcome; one that
 * leaves no claim, or leaves it as it is, leaves the review open.
 */
static const char *
allow_refusal(Review *review, const char *note)
{
	NClaimNotice *notice = &review->notice;
	NClaimNotice claimed;
	NClaimAnswer answer;
	char	   *state;

	if (review->claim != 0)
	{
		if (!nclaim_claim_read(review->claim, &claimed, &state))
			raise_claim_is_gone(review->claim);
		notice->claim = review->claim;
		notice->claim_outcome = "REJECTED";
		notice->first_seen = claimed.first_seen;
	}
	nclaim_process_as_owner(notice, &answer);
	if (answer.claim == 0)
		return answer.outcome;
	if (answer.replayed)
		return overtaken(review, "ALLOW", note, &answer);
	close_review(review, "ALLOWED", "ALLOW", note, answer.claim);
	return answer.outcome;
}

/* Has the content of the last delivery come for another order as well? */
static bool
for_several_orders(const Review *review)
{
	const char *values[] = {
		psprintf(INT64_FORMAT, review->id), review->payload_hash,
		nclaim_mode_name(review->notice.digest.mode)
	};

	return nclaim_own_run("SELECT 1 FROM @.notify_review_variant AS v"
						  " WHERE v.review OPERATOR(pg_catalog.=) $1::pg_catalog.int8"
						  " AND v.payload_hash OPERATOR(pg_catalog.=) $2"
						  " AND v.digest_mode OPERATOR(pg_catalog.=) $3",
						  lengthof(values), values) > 1;
}

/*
 * A person decides about what was looked at: the content of that digest, or the
 * only one there is.  Raises 55000 where that can be another one.
 */
static void
check_content(const Review *review, bool allow, const char *payload_hash)
{
	if (payload_hash != NULL && strcmp(payload_hash, review->payload_hash) != 0)
		raise_other_content(review->id);
	if (allow && payload_hash == NULL && review->variants > 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("review " INT64_FORMAT " is about " INT64_FORMAT " contents",
						review->id, review->variants),
				 errhint("Look at the last one, and pass its payload_hash to allow that.")));
	if (allow && review->variants > 1 && for_several_orders(review))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("review " INT64_FORMAT " is about one content for several orders",
						review->id),
				 errhint("DISMISS it, and have the application pass a transaction id for each order.")));
}

static const char *
resolve_refusal(Review *review, bool allow, const char *note,
				const char *payload_hash)
{
	check_content(review, allow, payload_hash);
	review->notice.settings = nclaim_channel_find(review->notice.channel);
	if (allow)
		return allow_refusal(review, note);
	if (review->claim == 0)
		return dismiss_refusal(review, note);
	/* Refused when it was released: the claim says so already. */
	close_review(review, "DISMISSED", "DISMISS", note, 0);
	return "REJECTED";
}

static const char *
resolve_other(Review *review, bool allow, const char *note,
			  const char *payload_hash)
{
	if (allow && strcmp(review->kind, "PARKED_EXPIRED") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("review " INT64_FORMAT " is about an event that was given up, which cannot be allowed",
						review->id),
				 errhint("Process it again with notify_reopen(" INT64_FORMAT ", note), or DISMISS it.",
						 review->claim)));
	if (allow)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("review " INT64_FORMAT " is about a conflict, which cannot be allowed",
						review->id),
				 errdetail("The first content under the key was processed."),
				 errhint("DISMISS it, and correct the order where that is needed.")));
	check_content(review, allow, payload_hash);
	review->any_content = payload_hash == NULL;
	close_review(review, "DISMISSED", "DISMISS", note, 0);
	return "DISMISSED";
}

/*
 * notify_review_resolve(id, verdict, note, payload_hash).  Returns DISMISSED
 * for a conflict; for a refusal the outcome that repeats get from now on, one
 * that leaves the review open, or OVERTAKEN where the key was claimed meanwhile.  Raises 42704 for an unknown review, 55000
 * for one that is closed or about other content, 55P03 after waiting for the
 * busy timeout.
 */
Datum
notify_claim_review_resolve(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	char	   *verdict;
	char	   *note;
	char	   *payload_hash = nclaim_optional_text_arg(fcinfo, 3);
	Review		review;
	bool		allow;
	const char *outcome;
	int			nestlevel;
	bool		changed = false;

	nclaim_require_arg(fcinfo, 0, "id");
	verdict = nclaim_text_arg(fcinfo, 1, "verdict");
	note = nclaim_text_arg(fcinfo, 2, "note");
	nclaim_check_not_blank(note, "note");
	allow = strcmp(verdict, "ALLOW") == 0;
	if (!allow && strcmp(verdict, "DISMISS") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized verdict \"%s\"", verdict),
				 errhint("Verdicts are \"DISMISS\" and, for a refusal, \"ALLOW\".")));

	nclaim_begin(fcinfo);
	nclaim_park_enter();
	nestlevel = nclaim_limit_waits();
	read_review(PG_GETARG_INT64(0), &review);
	if (strcmp(review.state, "OPEN") != 0)
		raise_decided(review.id, review.state);
	outcome = strcmp(review.kind, "CHECK_REFUSED") == 0 ?
		resolve_refusal(&review, allow, note, payload_hash) :
		resolve_other(&review, allow, note, payload_hash);
	nclaim_park_drain(review.notice.start, &changed);
	AtEOXact_GUC(true, nestlevel);
	outcome = MemoryContextStrdup(caller, outcome);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(outcome));
}
