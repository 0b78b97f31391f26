/*-------------------------------------------------------------------------
 *
 * maintenance.c
 *		notify_maintenance: what is to be done regularly, in one call.
 *
 * What is parked is released or given up, some orders in each transaction, so
 * that their rows are not locked for long; then what is old enough is deleted.
 * An error keeps nothing else from being done, and is raised in the end; a call
 * that is cancelled ends at once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "purge.h"

PG_FUNCTION_INFO_V1(notify_claim_maintenance);

/* So many orders are looked at in each transaction. */
#define MAX_ORDERS	100

/* So many failures are told. */
#define MAX_TOLD	10

/*
 * Releases what is parked for an order, in a subtransaction: the transaction is
 * one at READ COMMITTED, so nothing is lost by catching what it raises.  Returns
 * the error, or NULL.
 */
static ErrorData *
unpark_order(FunctionCallInfo fcinfo, NClaimUnparking *unparking,
			 const NClaimParkedOrder *order, int64 *applied)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		/* A procedure has none, and a body that is toasted needs one. */
		PushActiveSnapshot(GetTransactionSnapshot());
		*applied += nclaim_unpark_parked(fcinfo, unparking, order);
		PopActiveSnapshot();
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(unparking->context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

static void
tell(const NClaimParkedOrder *order, const ErrorData *error)
{
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("could not release what is parked for order \"%s\": %s",
					order->order_no, error->message)));
}

/*
 * Does that for all orders: one that fails keeps the others from nothing.  Returns
 * the first error; the first ones are told.  Orders are read once: what is parked
 * meanwhile waits for the next time.
 */
static ErrorData *
unpark_all(FunctionCallInfo fcinfo, int64 *applied)
{
	NClaimUnparking unparking = {CurrentMemoryContext};
	List	   *orders;
	ErrorData  *first = NULL;
	int			n = 0;
	int			failed = 0;
	ListCell   *cell;

	PushActiveSnapshot(GetTransactionSnapshot());
	orders = nclaim_parked_orders(NULL);
	PopActiveSnapshot();
	foreach(cell, orders)
	{
		ErrorData  *error = unpark_order(fcinfo, &unparking, lfirst(cell), applied);

		if (error != NULL && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			ReThrowError(error);
		if (error != NULL && failed++ < MAX_TOLD)
			tell(lfirst(cell), error);
		if (first == NULL)
			first = error;
		else if (error != NULL)
			FreeErrorData(error);
		if (++n % MAX_ORDERS == 0)
		{
			nclaim_commit(fcinfo);
			CHECK_FOR_INTERRUPTS();
		}
	}
	nclaim_commit(fcinfo);
	return first;
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
