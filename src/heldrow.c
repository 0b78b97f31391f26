/*-------------------------------------------------------------------------
 *
 * heldrow.c
 *		Is an order's row held by another transaction, or hidden by a policy?
 *
 * SKIP LOCKED says the same for both: no row.  Where row level security
 * applies to the caller, a row that the caller can see and that no running
 * transaction holds is one whose UPDATE policy hides it.
 *
 * The row is looked up as the order table's owner, who may read the system
 * columns; nothing of it but its holder's state is used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/itemptr.h"
#include "storage/procarray.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "notify_claim.h"

/* One look at a row version: which it is, who marked it, and does that run? */
typedef struct RowLook
{
	Oid			relid;
	ItemPointerData tid;
	TransactionId xmin;
	TransactionId xmax;
	bool		held;
} RowLook;

/*
 * Finds the version that the statement's snapshot sees:
 *
 *	SELECT o.tableoid, o.ctid FROM table AS o WHERE o.key = $1
 */
static bool
find_version(NClaimOrderTable *table, Datum key, RowLook *look)
{
	char	   *sql = psprintf("SELECT o.tableoid, o.ctid FROM %s AS o WHERE %s",
							   table->name,
							   nclaim_column_equals_param(&table->key, 1));
	Relation	rel = table_open(table->relid, AccessShareLock);
	Oid			owner = rel->rd_rel->relowner;
	Oid			userid;
	int			sec_context;
	int			result;
	bool		isnull;

	table_close(rel, AccessShareLock);
	GetUserIdAndSecContext(&userid, &sec_context);
	SetUserIdAndSecContext(owner, sec_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	result = SPI_execute_with_args(sql, 1, &table->key.type, &key, NULL, false, 1);
	SetUserIdAndSecContext(userid, sec_context);

	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not read table %s: %s", table->name,
			 SPI_result_code_string(result));
	if (SPI_processed == 0)
		return false;
	look->relid = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0],
												 SPI_tuptable->tupdesc, 1, &isnull));
	look->tid = *(ItemPointer) DatumGetPointer(SPI_getbinval(SPI_tuptable->vals[0],
															 SPI_tuptable->tupdesc, 2, &isnull));
	return true;
}

/*
 * Reads who marked the version.  False where that cannot be told: the version
 * is gone, or the table is not a heap.
 */
static bool
look_at_version(RowLook *look)
{
	Relation	rel = table_open(look->relid, AccessShareLock);
	HeapTupleData tuple;
	Buffer		buffer;
	bool		found = false;

	tuple.t_self = look->tid;
	if (rel->rd_rel->relam == HEAP_TABLE_AM_OID &&
		heap_fetch(rel, SnapshotAny, &tuple, &buffer, false))
	{
		uint16		infomask;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		infomask = tuple.t_data->t_infomask;
		look->xmin = HeapTupleHeaderGetRawXmin(tuple.t_data);
		look->xmax = HeapTupleHeaderGetRawXmax(tuple.t_data);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		ReleaseBuffer(buffer);

		if (infomask & HEAP_XMAX_INVALID)
			look->held = false;
		else if (infomask & HEAP_XMAX_IS_MULTI)
			look->held = MultiXactIdIsRunning(look->xmax,
											  HEAP_XMAX_IS_LOCKED_ONLY(infomask));
		else
			look->held = TransactionIdIsInProgress(look->xmax);
		found = true;
	}
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Why could the order's row not be locked?  To be asked when it exists for the
 * caller.  Between two looks that find the same version, marked by the same
 * transaction, which does not run, nobody can have held it; so if locking it in
 * between fails too, only a policy is left.  Any doubt answers NCLAIM_HELD.
 */
NClaimHold
nclaim_order_hold(NClaimOrderTable *table, Datum key)
{
	RowLook		before;
	RowLook		after;
	NClaimOrderRow row;

	if (check_enable_rls(table->relid, InvalidOid, true) != RLS_ENABLED)
		return NCLAIM_HELD;
	if (!find_version(table, key, &before) || !look_at_version(&before) ||
		before.held)
		return NCLAIM_HELD;
	if (nclaim_order_lock(table, key, &row))
		return NCLAIM_FREE;
	if (find_version(table, key, &after) && look_at_version(&after) &&
		!after.held &&
		before.relid == after.relid &&
		ItemPointerEquals(&before.tid, &after.tid) &&
		before.xmin == after.xmin && before.xmax == after.xmax)
		return NCLAIM_HIDDEN;
	return NCLAIM_HELD;
}
