/*-------------------------------------------------------------------------
 *
 * purge_claims.c
 *		Deleting claims that have been kept for long enough, batch by batch.
 *
 * Claims are numbered in the order in which they come, but for what one waits
 * for its number, so the walk over the primary key from where the last one came
 * to meets the oldest first.  It ends at the first batch in which nothing is old:
 * what comes after that was numbered later.  Old claims that were numbered late,
 * as an import does, wait until the walk gets there.
 *
 * A channel's low mark is where the walk begins.  It must not pass a number that
 * was drawn and is not committed: that claim would be kept for ever.  A
 * transaction has its xid before it draws a number (claim.c), so, as in visit.c,
 * all numbers up to one that is visible belong to transactions before the next
 * xid that is given out after that was seen.  That pair is the mark.  A purge that
 * finds it decided, before it looks at anything, and then walks over the claims up
 * to it, moves the low mark there.  A mark that is not decided stays until it is.
 * Channels of one retention share the walk, and their marks move together.
 *
 * What is old and has to be kept goes to notify_purge_kept, so that the marks need
 * not wait for it; each purge looks at that first.  A claim is kept while it is
 * parked, while a review of its key is open, and while what was decided about it
 * is younger than the channel retains claims.  And while others have it locked:
 * nobody is waited for.
 *
 * A claim is locked before it is asked what is open about it, by a command of its
 * own: who opens a review locks the claim against being deleted (FOR KEY SHARE),
 * so either the review is seen here, or the claim is found gone there.  A
 * duplicate that sees the claim replays; one that does not is a first delivery.
 *
 * There is one purge at a time (purge.c), so nobody else moves the marks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/xid8.h"

#include "compat.h"
#include "purge.h"

/* Reads the channels' marks, for each batch anew. */
void
nclaim_purge_begin(NClaimRetention *retention)
{
	nclaim_own_execute(NCLAIM_READ_PURGE_MARKS, &retention->names, NULL, InvalidSnapshot);
	retention->low = DatumGetInt64(nclaim_own_value(SPI_tuptable, 0, 1));
	if (!retention->begun)
	{
		retention->begun = true;
		retention->mark = DatumGetInt64(nclaim_own_value(SPI_tuptable, 0, 2));
		retention->decided = DatumGetBool(nclaim_own_value(SPI_tuptable, 0, 3));
		retention->undecided = DatumGetBool(nclaim_own_value(SPI_tuptable, 0, 4));
		retention->left = PG_INT64_MAX;
	}
	SPI_freetuptable(SPI_tuptable);
}

/* Deletes what is about the claims, or the reviews. */
static void
delete_reviews(Datum claims, Datum reviews)
{
	Datum		values[2] = {claims, reviews};

	nclaim_own_execute(NCLAIM_DELETE_VARIANTS, values, NULL, InvalidSnapshot);
	nclaim_own_execute(NCLAIM_DELETE_DECISIONS, values, NULL, InvalidSnapshot);
	nclaim_own_execute(NCLAIM_DELETE_REVIEWS, values, NULL, InvalidSnapshot);
}

/* Adds the numbers that a statement has returned to the set. */
static void
take_numbers(NClaimSeqs *set)
{
	for (uint64 i = 0; i < SPI_tuptable->numvals; i++)
		nclaim_seqs_add(set, DatumGetInt64(nclaim_own_value(SPI_tuptable, i, 1)));
	SPI_freetuptable(SPI_tuptable);
	nclaim_seqs_sort(set);
}

/* Deletes those of the claims that need not be kept; "gone" says which. */
static void
delete_claims(const NClaimSeqs *old, TimestampTz cutoff, NClaimSeqs *gone)
{
	NClaimSeqs	locked = {0};
	NClaimSeqs	none = {0};
	Datum		values[2] = {nclaim_seqs_array(old), TimestampTzGetDatum(cutoff)};

	if (old->n == 0)
		return;
	nclaim_own_execute(NCLAIM_LOCK_CLAIMS, values, NULL, InvalidSnapshot);
	take_numbers(&locked);
	values[0] = nclaim_seqs_array(&locked);
	nclaim_own_execute(NCLAIM_DELETE_CLAIMS, values, NULL, InvalidSnapshot);
	take_numbers(gone);
	if (gone->n == 0)
		return;
	values[0] = nclaim_seqs_array(gone);
	nclaim_own_execute(NCLAIM_DELETE_BODIES, values, NULL, InvalidSnapshot);
	delete_reviews(values[0], nclaim_seqs_array(&none));
}

/*
 * Looks again at a batch of what was kept.  Returns whether there may be more,
 * and adds to *count.
 */
bool
nclaim_purge_kept(NClaimRetention *retention, int batch, int64 *count)
{
	NClaimSeqs	kept = {0};
	NClaimSeqs	there = {0};
	NClaimSeqs	old = {0};
	NClaimSeqs	gone = {0};
	NClaimSeqs	left = {0};
	Datum		find[2] = {Int64GetDatum(retention->position), Int32GetDatum(batch)};
	Datum		look[4] = {
		retention->names,
		BoolGetDatum(retention->others),
		TimestampTzGetDatum(retention->cutoff)
	};
	Datum		forget;

	nclaim_own_execute(NCLAIM_FIND_KEPT, find, NULL, InvalidSnapshot);
	take_numbers(&kept);
	if (kept.n == 0)
		return false;
	retention->position = kept.seqs[kept.n - 1];
	look[3] = nclaim_seqs_array(&kept);
	nclaim_own_execute(NCLAIM_LOOK_AT_CLAIMS, look, NULL, InvalidSnapshot);
	for (uint64 i = 0; i < SPI_tuptable->numvals; i++)
	{
		int64		id = DatumGetInt64(nclaim_own_value(SPI_tuptable, i, 1));

		nclaim_seqs_add(&there, id);
		if (DatumGetBool(nclaim_own_value(SPI_tuptable, i, 2)) &&
			DatumGetBool(nclaim_own_value(SPI_tuptable, i, 3)))
			nclaim_seqs_add(&old, id);
	}
	SPI_freetuptable(SPI_tuptable);
	nclaim_seqs_sort(&there);
	delete_claims(&old, retention->cutoff, &gone);
	*count += gone.n;
	nclaim_seqs_split(&kept, &there, &left, &gone);
	nclaim_seqs_sort(&gone);
	forget = nclaim_seqs_array(&gone);
	if (gone.n > 0)
		nclaim_own_execute(NCLAIM_FORGET_KEPT, &forget, NULL, InvalidSnapshot);
	return kept.n == batch;
}

/*
 * Moves the channels' marks: all claims up to "looked" were looked at, the last
 * one is retention->position.
 */
static void
move_marks(const NClaimRetention *retention, int64 looked)
{
	int64		low = !retention->decided ? 0 :
		Min(retention->mark, Min(looked, retention->left - 1));
	bool		sets = !retention->undecided && retention->position > retention->low;
	Datum		values[4] = {
		retention->names,
		Int64GetDatum(low),
		Int64GetDatum(retention->position),
		FullTransactionIdGetDatum(ReadNextFullTransactionId())
	};

	if (low > retention->low || sets)
		nclaim_own_execute(NCLAIM_MOVE_PURGE_MARKS, values, sets ? NULL : "  nn", InvalidSnapshot);
}

/*
 * Goes on with the walk over the claims.  Returns whether there may be more, and
 * adds to *count.
 */
bool
nclaim_purge_claims(NClaimRetention *retention, int batch, int64 *count)
{
	NClaimSeqs	old = {0};
	NClaimSeqs	gone = {0};
	NClaimSeqs	deleted = {0};
	NClaimSeqs	kept = {0};
	bool		any_old = false;
	Datum		values[5] = {
		retention->names,
		BoolGetDatum(retention->others),
		TimestampTzGetDatum(retention->cutoff),
		(Datum) 0,
		Int32GetDatum(batch)
	};
	uint64		n;

	retention->position = Max(retention->position, retention->low);
	values[3] = Int64GetDatum(retention->position);
	n = nclaim_own_execute(NCLAIM_FIND_CLAIMS, values, NULL, InvalidSnapshot);
	for (uint64 i = 0; i < n; i++)
	{
		int64		id = DatumGetInt64(nclaim_own_value(SPI_tuptable, i, 1));
		bool		ours = DatumGetBool(nclaim_own_value(SPI_tuptable, i, 2));
		bool		is_old = DatumGetBool(nclaim_own_value(SPI_tuptable, i, 3));

		any_old |= is_old;
		if (ours && is_old)
			nclaim_seqs_add(&old, id);
		else if (ours)
			retention->left = Min(retention->left, id);
		retention->position = id;
	}
	SPI_freetuptable(SPI_tuptable);
	delete_claims(&old, retention->cutoff, &gone);
	*count += gone.n;
	nclaim_seqs_split(&old, &gone, &deleted, &kept);
	values[0] = nclaim_seqs_array(&kept);
	if (kept.n > 0)
		nclaim_own_execute(NCLAIM_KEEP_CLAIMS, values, NULL, InvalidSnapshot);
	move_marks(retention, n < batch ? PG_INT64_MAX : retention->position);
	return n == batch && any_old;
}

/* Deletes a batch of closed reviews that have no claim; returns whether there may be more. */
bool
nclaim_purge_reviews(NClaimRetention *retention, int batch, int64 *count)
{
	NClaimSeqs	reviews = {0};
	NClaimSeqs	none = {0};
	Datum		values[4] = {
		retention->names,
		BoolGetDatum(retention->others),
		TimestampTzGetDatum(retention->cutoff),
		Int32GetDatum(batch)
	};

	nclaim_own_execute(NCLAIM_FIND_OLD_REVIEWS, values, NULL, InvalidSnapshot);
	take_numbers(&reviews);
	if (reviews.n > 0)
		delete_reviews(nclaim_seqs_array(&none), nclaim_seqs_array(&reviews));
	return reviews.n == batch;
}
