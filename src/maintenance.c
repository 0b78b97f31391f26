/*-------------------------------------------------------------------------
 *
 * maintenance.c
 *		notify_maintenance: what is to be done regularly, in one call.
 *
 * What is parked is released or given up, some orders in each transaction, so
 * that their rows are not locked for long; then what is old enough is deleted.
 * An error of the first does not keep the second from being done, and is raised
 * in the end; a call that is cancelled ends at once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "purge.h"

PG_FUNCTION_INFO_V1(notify_claim_maintenance);

/* For so many orders a transaction may change something. */
#define MAX_ORDERS	100

/*
 * Releases what is parked for some orders, in a subtransaction: the transaction
 * is one at READ COMMITTED, so nothing is lost by catching what it raises.
 * Returns the error, or NULL; *more says whether there may be more.
 */
static ErrorData *
unpark_some(FunctionCallInfo fcinfo, int64 *applied, bool *more)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	*more = false;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		*applied += nclaim_unpark_orders(fcinfo, MAX_ORDERS, more);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		*more = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/* The same until all orders were looked at, or an error, which is told. */
static ErrorData *
unpark_all(FunctionCallInfo fcinfo, int64 *applied)
{
	ErrorData  *error;
	bool		more;

	do
	{
		error = unpark_some(fcinfo, applied, &more);
		nclaim_commit(fcinfo);
		CHECK_FOR_INTERRUPTS();
	} while (more);
	if (error != NULL)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not release what is parked: %s", error->message),
				 errdetail("What is old enough is deleted all the same.")));
	return error;
}

/*
 * notify_maintenance(applied, claims).  Raises 2D000 where it cannot commit, and
 * what releasing or deleting raised.
 */
Datum
notify_claim_maintenance(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	NClaimPurge purge = {
		.fcinfo = fcinfo,
		.batch = NCLAIM_PURGE_BATCH,
		.outbox_cutoff = DT_NOBEGIN
	};
	int64		applied = 0;
	ErrorData  *error;
	Datum		row;

	nclaim_begin_procedure(fcinfo, "notify_maintenance");
	error = unpark_all(fcinfo, &applied);
	purge.now = GetCurrentTimestamp();
	nclaim_purge(&purge);
	if (error != NULL)
		ReThrowError(error);
	MemoryContextSwitchTo(caller);
	row = nclaim_counts(fcinfo, applied, purge.claims);
	nclaim_end_procedure();
	return row;
}
