/*-------------------------------------------------------------------------
 *
 * order_row.c
 *		The statements on an order's row: reading, locking and moving it.
 *
 * They run as the current user: its privileges and row level security apply, and
 * so do the table's triggers.  Values are parameters of the columns' own types;
 * the comparison is that of the key's unique index, so that the index serves it.
 * The plans live as long as the description of the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"

#include "notify_claim.h"

/* Frees the table's plans; nobody may be executing them. */
void
nclaim_order_free(NClaimOrderTable *table)
{
	for (int i = 0; i < lengthof(table->plans); i++)
	{
		nclaim_plan_free(&table->plans[i].read);
		nclaim_plan_free(&table->plans[i].lock);
		nclaim_plan_free(&table->plans[i].update);
	}
}

/*
 * The plans for the present security context: a plan that was made where forced
 * row security holds filters rows, also where it does not hold.
 */
static NClaimOrderPlans *
plans_of(NClaimOrderTable *table)
{
	return &table->plans[InNoForceRLSOperation() ? 1 : 0];
}

/*
 * Returns the plan, prepared if need be.  Parameters: 1 the key, 2 the new
 * status, 3 the old one.
 */
static SPIPlanPtr
order_plan(NClaimOrderTable *table, NClaimPlan *plan, const char *sql,
		   int nargs)
{
	if (plan->spi == NULL)
	{
		Oid			argtypes[3] = {table->key.type, table->status.type, table->status.type};

		nclaim_plan_prepare(plan, sql, nargs, argtypes);
	}
	return nclaim_plan_ready(plan);
}

static void
raise_not_unique(const NClaimOrderTable *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 errmsg("order number is not unique in table %s", table->name),
			 errhint("Create a unique index on column %s, or remove the duplicates.",
					 table->key.name)));
}

/*
 * Takes the only row that a statement returned: order number and status.
 * Returns false where there was none; raises 21000 for several.
 */
static bool
take_row(NClaimOrderTable *table, NClaimOrderRow *row)
{
	Datum		value;
	bool		isnull;

	if (SPI_processed > 1)
		raise_not_unique(table);
	if (SPI_processed == 0)
	{
		SPI_freetuptable(SPI_tuptable);
		return false;
	}
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	row->order_no = nclaim_column_out(&table->key, value);
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2,
						  &row->status_isnull);
	row->status = row->status_isnull ? (Datum) 0 :
		datumCopy(value, table->status.byval, table->status.len);
	row->status_text = row->status_isnull ? NULL :
		nclaim_column_out(&table->status, value);
	SPI_freetuptable(SPI_tuptable);
	return true;
}

/*
 * Reads an order that the user may see.  A plain read, which waits for nobody:
 *
 *	SELECT o.key, o.status FROM table AS o WHERE o.key = $1
 *
 * Returns false where there is none; raises 21000 where there are several.
 * *row lives in the current memory context.
 */
bool
nclaim_order_read(NClaimOrderTable *table, Datum key, NClaimOrderRow *row)
{
	NClaimPlan *kept = &plans_of(table)->read;
	SPIPlanPtr	plan = kept->spi != NULL ?
		nclaim_plan_ready(kept) :
		order_plan(table, kept,
				   psprintf("SELECT o.%s, o.%s FROM %s AS o WHERE %s",
							table->key.name, table->status.name, table->name,
							nclaim_column_equals_param(&table->key, 1)), 1);
	int			result = SPI_execute_plan(plan, &key, NULL, false, 2);

	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not read table %s: %s", table->name,
			 SPI_result_code_string(result));
	return take_row(table, row);
}

/* Is there an order with this key that the user may see?  Read in the same way. */
bool
nclaim_order_exists(NClaimOrderTable *table, Datum key)
{
	NClaimOrderRow row;

	return nclaim_order_read(table, key, &row);
}

/*
 * Locks the order's row if nobody else holds it, and reads it under the lock:
 *
 *	SELECT o.key, o.status FROM table AS o WHERE o.key = $1
 *	FOR NO KEY UPDATE SKIP LOCKED
 *
 * FOR UPDATE where a new status is a new key of some unique index: the UPDATE
 * needs that lock then, and a stronger one later could wait.  Returns false
 * where no row was locked: there is none, or another transaction holds it.
 * *row lives in the current memory context.  Where no unique index covers the
 * key the rows are counted first; raises 21000 where there are several.
 */
bool
nclaim_order_lock(NClaimOrderTable *table, Datum key, NClaimOrderRow *row)
{
	NClaimPlan *kept = &plans_of(table)->lock;
	SPIPlanPtr	plan;
	int			result;

	if (!table->key_is_unique && !nclaim_order_exists(table, key))
		return false;

	plan = kept->spi != NULL ?
		nclaim_plan_ready(kept) :
		order_plan(table, kept,
				   psprintf("SELECT o.%s, o.%s FROM %s AS o WHERE %s FOR %s SKIP LOCKED",
							table->key.name, table->status.name, table->name,
							nclaim_column_equals_param(&table->key, 1),
							table->status_is_key ? "UPDATE" : "NO KEY UPDATE"), 1);
	result = SPI_execute_plan(plan, &key, NULL, false, 0);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not lock a row of table %s: %s", table->name,
			 SPI_result_code_string(result));
	return take_row(table, row);
}

/*
 * Moves the order's status:
 *
 *	UPDATE table AS o SET status = $2 WHERE o.key = $1 AND o.status = $3
 *	RETURNING o.status
 *
 * Exactly one row must come back, with the new status; anything else is a
 * user's trigger or rule that interfered, and raises 27000.
 */
void
nclaim_order_update(NClaimOrderTable *table, Datum key, Datum from, Datum to)
{
	Datum		values[3] = {key, to, from};
	NClaimPlan *kept = &plans_of(table)->update;
	SPIPlanPtr	plan = kept->spi != NULL ?
		nclaim_plan_ready(kept) :
		order_plan(table, kept,
				   psprintf("UPDATE %s AS o SET %s = $2 WHERE %s AND %s RETURNING o.%s",
							table->name, table->status.name,
							nclaim_column_equals_param(&table->key, 1),
							nclaim_column_equals_param(&table->status, 3),
							table->status.name), 3);
	int			result = SPI_execute_plan(plan, values, NULL, false, 0);
	Datum		status = (Datum) 0;
	bool		isnull = true;

	if (result == SPI_OK_UPDATE_RETURNING && SPI_processed == 1)
		status = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
							   &isnull);
	if (isnull || !nclaim_column_equal(&table->status, status, to))
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a trigger or rule on table %s kept the status from becoming \"%s\"",
						table->name, nclaim_column_out(&table->status, to)),
				 errdetail("Rows that the UPDATE changed: " UINT64_FORMAT ".", SPI_processed),
				 errhint("The status that a notification sets must be left as it is.")));
	SPI_freetuptable(SPI_tuptable);
}

/*
 * Returns the distinct statuses of the table, of the first "sample" rows where
 * that is not 0.  The result has one column and lives in SPI's context.
 */
SPITupleTable *
nclaim_order_statuses(NClaimOrderTable *table, int sample)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT o.%s FROM ", table->status.name);
	if (sample > 0)
		appendStringInfo(&sql, "(SELECT o.%s FROM %s AS o LIMIT %d) AS o",
						 table->status.name, table->name, sample);
	else
		appendStringInfo(&sql, "%s AS o", table->name);
	appendStringInfo(&sql, " WHERE o.%s IS NOT NULL GROUP BY 1", table->status.name);
	if (SPI_execute(sql.data, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read table %s", table->name);
	return SPI_tuptable;
}
