/*-------------------------------------------------------------------------
 *
 * review_wait.c
 *		Locking a review's row before a deadline.
 *
 * An UPDATE that waits for its row begins anew with each version that others
 * put in its way, and lock_timeout with it: behind a queue of transactions the
 * wait has no end.  So the row is asked for with SKIP LOCKED, and whoever holds
 * it is waited for with no more than what is left of the call's time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/guc.h"

#include "notify_claim.h"

/* For a holder that cannot be waited for by its transaction id. */
#define POLL_US		1000

/*
 * Who holds the open review's row?  Returns false where it is not open any
 * more; *holder is invalid where nobody does.
 */
static bool
find_holder(int64 review, TransactionId *holder)
{
	Datum		value = Int64GetDatum(review);
	bool		isnull;
	bool		open = nclaim_own_execute(NCLAIM_FIND_HOLDER, &value, NULL,
										  InvalidSnapshot) > 0;

	*holder = !open ? InvalidTransactionId :
		DatumGetTransactionId(SPI_getbinval(SPI_tuptable->vals[0],
											SPI_tuptable->tupdesc, 1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return open;
}

/* Waits for a transaction to end, for that many microseconds at most. */
static void
wait_for_holder(TransactionId holder, long left_us)
{
	char		timeout[16];
	int			left_ms = Max(left_us / 1000, 1);

	if (!TransactionIdIsNormal(holder) || !TransactionIdIsInProgress(holder) ||
		TransactionIdIsCurrentTransactionId(holder))
	{
		pg_usleep(POLL_US);
		CHECK_FOR_INTERRUPTS();
		return;
	}
	if (LockTimeout == 0 || LockTimeout > left_ms)
	{
		snprintf(timeout, sizeof(timeout), "%d", left_ms);
		(void) set_config_option("lock_timeout", timeout, PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	}
	XactLockTableWait(holder, NULL, NULL, XLTW_None);
}

/*
 * Locks the row of an open review; "start" is when the call began.  Returns
 * false where it is not open any more.  Raises 55P03 where the busy timeout has
 * passed, but at least a millisecond, 40001 where the row was changed after the
 * transaction's snapshot.
 */
bool
nclaim_review_lock(int64 review, instr_time start)
{
	Datum		value = Int64GetDatum(review);
	bool		waited = false;

	for (;;)
	{
		TransactionId holder;
		long		left_us = nclaim_time_left(start);
		int			nestlevel;

		if (nclaim_own_execute(NCLAIM_LOCK_REVIEW, &value, NULL, InvalidSnapshot) > 0)
			break;
		if (!find_holder(review, &holder))
			return false;
		if (left_us <= 0 && waited)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not obtain lock on review " INT64_FORMAT " in time",
							review),
					 errhint("Other deliveries or a decision hold it; try again.")));
		nestlevel = NewGUCNestLevel();
		wait_for_holder(holder, left_us);
		AtEOXact_GUC(true, nestlevel);
		waited = true;
	}
	SPI_freetuptable(SPI_tuptable);
	return true;
}
