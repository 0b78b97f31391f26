/*-------------------------------------------------------------------------
 *
 * order.c
 *		The user's order table: what it must be like, and the statements on it.
 *
 * The statements run as the caller: the caller's privileges and row level
 * security apply, and so do the table's triggers.  Values are parameters of
 * the columns' own types; the comparison is that of the key's unique index,
 * so that the index serves it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_inherits.h"
#include "commands/extension.h"
#include "nodes/bitmapset.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "notify_claim.h"

/* Notes the first problem. */
static void
note_problem(NClaimProblem *problem, int sqlerrcode, char *message, char *hint)
{
	if (problem->sqlerrcode != 0)
		return;
	problem->sqlerrcode = sqlerrcode;
	problem->message = message;
	problem->hint = hint;
}

/*
 * Is the relation of a kind whose rows commit with ours and stay?  "whole"
 * is the order table, where "rel" is a partition of it.
 */
static void
check_relation(Relation rel, Relation whole, NClaimProblem *problem)
{
	char		kind = rel->rd_rel->relkind;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		note_problem(problem, ERRCODE_WRONG_OBJECT_TYPE,
					 psprintf("\"%s\" is not a table that can hold orders",
							  RelationGetRelationName(rel)),
					 rel == whole ?
					 "An order table is a plain or a partitioned table." :
					 "A partition that is a foreign table does not commit together with the claim.");
	else if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		note_problem(problem, ERRCODE_FEATURE_NOT_SUPPORTED,
					 psprintf("order table \"%s\" is %s",
							  RelationGetRelationName(rel),
							  rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ?
							  "temporary" : "unlogged"),
					 "Claims outlive a crash and the session, and so must the orders.");
	else if (IsSystemRelation(rel) ||
			 getExtensionOfObject(RelationRelationId, RelationGetRelid(rel)) ==
			 get_extension_oid("notify_claim", false))
		note_problem(problem, ERRCODE_WRONG_OBJECT_TYPE,
					 psprintf("\"%s\" is not a table that can hold orders",
							  RelationGetRelationName(rel)),
					 "An order table is a table of the application.");
	else if (kind == RELKIND_RELATION && rel == whole &&
			 find_inheritance_children(RelationGetRelid(rel), NoLock) != NIL)
		note_problem(problem, ERRCODE_FEATURE_NOT_SUPPORTED,
					 psprintf("order table \"%s\" has inheritance children",
							  RelationGetRelationName(rel)),
					 "No unique index reaches into the children; use declarative partitioning.");
}

/* Would a new status move the row to another partition? */
static bool
partitioned_by(Relation rel, const char *column)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), column);
	Bitmapset  *attnums;

	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return false;
	attnums = bms_make_singleton(attnum - FirstLowInvalidHeapAttributeNumber);
	return has_partition_attrs(rel, attnums, NULL);
}

/* Is the column in a unique index that a lock or an UPDATE goes by? */
static bool
is_in_key(Relation rel, const char *column)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), column);
	Bitmapset  *keys = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);
	bool		found = bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber,
									  keys);

	bms_free(keys);
	return found;
}

/*
 * Looks at the order table and at the relations above and below it, if it is
 * partitioned or a partition.
 */
static void
check_relations(NClaimOrderTable *table, Relation whole,
				const char *status_column, NClaimProblem *problem)
{
	ListCell   *cell;

	table->relids = list_make1_oid(RelationGetRelid(whole));
	if (whole->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		table->relids = find_all_inheritors(RelationGetRelid(whole), NoLock, NULL);
	if (whole->rd_rel->relispartition)
		table->relids = list_concat(table->relids,
									get_partition_ancestors(RelationGetRelid(whole)));

	foreach(cell, table->relids)
	{
		Relation	rel = try_relation_open(lfirst_oid(cell), AccessShareLock);

		if (rel == NULL)
			continue;
		check_relation(rel, whole, problem);
		if (problem->sqlerrcode == 0 && partitioned_by(rel, status_column))
			note_problem(problem, ERRCODE_FEATURE_NOT_SUPPORTED,
						 psprintf("status column \"%s\" is in the partition key of \"%s\"",
								  status_column, RelationGetRelationName(rel)),
						 "A new status would move the row to another partition, and whoever waits for the row would fail.");
		if (problem->sqlerrcode == 0 && is_in_key(rel, status_column))
			table->status_is_key = true;
		relation_close(rel, AccessShareLock);
	}
}

/* Finds a user column by name; NULL, with the problem noted, if there is none. */
static Form_pg_attribute
find_column(Relation rel, const char *name, NClaimProblem *problem)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);

	if (attnum > 0)
		return TupleDescAttr(RelationGetDescr(rel), attnum - 1);

	note_problem(problem, ERRCODE_UNDEFINED_COLUMN,
				 psprintf("column \"%s\" of order table \"%s\" does not exist",
						  name, RelationGetRelationName(rel)),
				 "Check the name; notify_machine_set() corrects a machine whose column was renamed.");
	return NULL;
}

/*
 * Looks for a unique index on exactly the key column and takes its operator
 * and collation.  A partial one, an invalid one and one that is checked at
 * commit promise nothing.
 */
static bool
use_unique_index(Relation rel, NClaimColumn *key)
{
	bool		found = false;
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);
		Form_pg_index form = index->rd_index;

		if (index->rd_rel->relam == BTREE_AM_OID &&
			form->indisunique && form->indisvalid && form->indisready &&
			form->indimmediate && form->indnkeyatts == 1 &&
			form->indkey.values[0] == key->attnum &&
			heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL))
			found = nclaim_column_set_operator(key,
											   get_opfamily_member(index->rd_opfamily[0],
																   index->rd_opcintype[0],
																   index->rd_opcintype[0],
																   BTEqualStrategyNumber),
											   index->rd_indcollation[0]);
		index_close(index, AccessShareLock);
		if (found)
			break;
	}
	list_free(indexes);
	return found;
}

static void
note_no_equality(const char *column, NClaimProblem *problem)
{
	note_problem(problem, ERRCODE_UNDEFINED_FUNCTION,
				 psprintf("column \"%s\" is of a type without a default btree equality operator",
						  column), NULL);
}

/* Describes the key column, or notes why it will not do. */
static void
describe_key(NClaimOrderTable *table, Relation rel, const char *order_column,
			 NClaimProblem *problem)
{
	Form_pg_attribute key = find_column(rel, order_column, problem);

	if (key == NULL)
		return;
	nclaim_column_describe(&table->key, key);
	table->key_is_unique = use_unique_index(rel, &table->key);
	table->key_known = table->key_is_unique ||
		nclaim_column_default_operator(&table->key);
	if (!table->key_known)
		note_no_equality(order_column, problem);
}

/* The same for the status column. */
static void
describe_status(NClaimOrderTable *table, Relation rel,
				const char *order_column, const char *status_column,
				NClaimProblem *problem)
{
	Form_pg_attribute status = find_column(rel, status_column, problem);

	if (status == NULL)
		return;
	if (strcmp(order_column, status_column) == 0)
		note_problem(problem, ERRCODE_INVALID_PARAMETER_VALUE,
					 psprintf("column \"%s\" cannot be both the order number and the status",
							  order_column), NULL);
	else if (status->attgenerated != '\0' ||
			 status->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
		note_problem(problem, ERRCODE_FEATURE_NOT_SUPPORTED,
					 psprintf("status column \"%s\" is generated", status_column),
					 "A status must be a column that can be updated.");
	else
	{
		nclaim_column_describe(&table->status, status);
		if (!nclaim_column_default_operator(&table->status))
			note_no_equality(status_column, problem);
	}
}

/*
 * Describes an order table, in the current memory context.  Where it cannot
 * be used, *problem says why; nothing is raised for that.
 */
void
nclaim_order_describe(NClaimOrderTable *table, Oid relid,
					  const char *order_column, const char *status_column,
					  NClaimProblem *problem)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	memset(table, 0, sizeof(*table));
	if (rel == NULL)
	{
		note_problem(problem, ERRCODE_UNDEFINED_TABLE,
					 psprintf("relation with OID %u does not exist", relid), NULL);
		return;
	}

	table->relid = relid;
	table->nspoid = RelationGetNamespace(rel);
	table->name = quote_qualified_identifier(get_namespace_name(table->nspoid),
											 RelationGetRelationName(rel));
	check_relation(rel, rel, problem);
	describe_key(table, rel, order_column, problem);
	describe_status(table, rel, order_column, status_column, problem);
	if (problem->sqlerrcode == 0)
		check_relations(table, rel, status_column, problem);
	relation_close(rel, AccessShareLock);
}

/* Do two descriptions mean the same columns of the same table? */
bool
nclaim_order_same(const NClaimOrderTable *a, const NClaimOrderTable *b)
{
	return a->relid == b->relid &&
		a->key.attnum == b->key.attnum &&
		a->status.attnum == b->status.attnum;
}

/* Frees the table's plans; nobody may be executing them. */
void
nclaim_order_free(NClaimOrderTable *table)
{
	nclaim_plan_free(&table->count);
	nclaim_plan_free(&table->lock);
	nclaim_plan_free(&table->update);
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
 * Is there an order with this key that the caller may see?  A plain read,
 * which waits for nobody:
 *
 *	SELECT 1 FROM table AS o WHERE o.key = $1
 *
 * Raises 21000 where there are several.
 */
bool
nclaim_order_exists(NClaimOrderTable *table, Datum key)
{
	SPIPlanPtr	plan = table->count.spi != NULL ?
		nclaim_plan_ready(&table->count) :
		order_plan(table, &table->count,
				   psprintf("SELECT 1 FROM %s AS o WHERE %s", table->name,
							nclaim_column_equals_param(&table->key, 1)), 1);
	int			result = SPI_execute_plan(plan, &key, NULL, false, 2);

	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not read table %s: %s", table->name,
			 SPI_result_code_string(result));
	SPI_freetuptable(SPI_tuptable);
	if (SPI_processed > 1)
		raise_not_unique(table);
	return SPI_processed == 1;
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
	SPIPlanPtr	plan;
	int			result;
	HeapTuple	tuple;
	Datum		value;
	bool		isnull;

	if (!table->key_is_unique && !nclaim_order_exists(table, key))
		return false;

	plan = table->lock.spi != NULL ?
		nclaim_plan_ready(&table->lock) :
		order_plan(table, &table->lock,
				   psprintf("SELECT o.%s, o.%s FROM %s AS o WHERE %s FOR %s SKIP LOCKED",
							table->key.name, table->status.name, table->name,
							nclaim_column_equals_param(&table->key, 1),
							table->status_is_key ? "UPDATE" : "NO KEY UPDATE"), 1);
	result = SPI_execute_plan(plan, &key, NULL, false, 0);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not lock a row of table %s: %s", table->name,
			 SPI_result_code_string(result));
	if (SPI_processed == 0)
	{
		SPI_freetuptable(SPI_tuptable);
		return false;
	}
	if (SPI_processed > 1)
		raise_not_unique(table);

	tuple = SPI_tuptable->vals[0];
	value = SPI_getbinval(tuple, SPI_tuptable->tupdesc, 1, &isnull);
	row->order_no = nclaim_column_out(&table->key, value);
	value = SPI_getbinval(tuple, SPI_tuptable->tupdesc, 2, &row->status_isnull);
	row->status = row->status_isnull ? (Datum) 0 :
		datumCopy(value, table->status.byval, table->status.len);
	row->status_text = row->status_isnull ? NULL :
		nclaim_column_out(&table->status, value);
	SPI_freetuptable(SPI_tuptable);
	return true;
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
	SPIPlanPtr	plan = table->update.spi != NULL ?
		nclaim_plan_ready(&table->update) :
		order_plan(table, &table->update,
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
