/*-------------------------------------------------------------------------
 *
 * find.c
 *		Finding a row of the extension's own tables, without the executor where
 *		the planner's plan is an index scan and nothing else.
 *
 * To start and end the executor costs several times what the index scan does.
 * Whether it can be left out is the planner's decision: only where the generic
 * plan of the statement is a scan of an index by parameters, of a plain table,
 * without any other condition, is that scan made here.  Row level security shows
 * as a condition, a partitioned table as an Append, one that another node has as
 * a custom scan.  What the scan meets is the same, predicate locks included: those
 * are the index's and the table's access methods'.
 *
 * Privileges are asked for and locks are taken as by the executor, but no lock is
 * waited for: where one is not to be had at once the executor does that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "notify_claim.h"

#define MAX_KEYS	4

/* How a statement's row is found, as its plan has it. */
typedef struct Way
{
	NClaimPlan	plan;			/* that was looked at */
	bool		direct;			/* by what follows */
	Oid			table;
	Oid			index;
	int			nkeys;
	ScanKeyData keys[MAX_KEYS];
	int			params[MAX_KEYS];	/* which parameter each key is */
	int			ncolumns;
	AttrNumber	columns[NCLAIM_MAX_COLUMNS];
} Way;

static Way	ways[NCLAIM_OWN_STATEMENTS];

/* A condition "column of the index = parameter" as a key; false for another. */
static bool
take_key(Way *way, Node *clause, Relation index)
{
	OpExpr	   *op = (OpExpr *) clause;
	Node	   *left;
	Node	   *right;
	AttrNumber	column;
	int			strategy;
	Oid			lefttype;
	Oid			righttype;
	Param	   *param;

	if (!IsA(clause, OpExpr) || list_length(op->args) != 2 || way->nkeys == MAX_KEYS)
		return false;
	left = nclaim_plan_without_relabel(linitial(op->args));
	right = nclaim_plan_without_relabel(lsecond(op->args));
	if (!IsA(left, Var) || ((Var *) left)->varno != INDEX_VAR || !IsA(right, Param))
		return false;
	param = (Param *) right;
	if (param->paramkind != PARAM_EXTERN)
		return false;
	column = ((Var *) left)->varattno;
	get_op_opfamily_properties(op->opno, index->rd_opfamily[column - 1], false,
							   &strategy, &lefttype, &righttype);
	ScanKeyEntryInitialize(&way->keys[way->nkeys], 0, column, strategy, righttype,
						   op->inputcollid, op->opfuncid, (Datum) 0);
	way->params[way->nkeys++] = param->paramid - 1;
	return true;
}

/*
 * A column of the result as one of the table; false for anything else.  Columns
 * of an index-only scan are the index's.
 */
static bool
take_column(Way *way, const TargetEntry *entry, Relation index)
{
	Var		   *var = (Var *) nclaim_plan_without_relabel((Node *) entry->expr);
	AttrNumber	column;

	if (!IsA(var, Var) || var->varattno <= 0 || way->ncolumns == NCLAIM_MAX_COLUMNS)
		return false;
	column = var->varno == INDEX_VAR ?
		index->rd_index->indkey.values[var->varattno - 1] : var->varattno;
	if (column <= 0)
		return false;
	way->columns[way->ncolumns++] = column;
	return true;
}

/* The conditions of an index scan and nothing else, or NULL. */
static List *
index_conditions(const Plan *plan, Oid *index)
{
	const IndexScan *scan = (const IndexScan *) plan;
	const IndexOnlyScan *only = (const IndexOnlyScan *) plan;

	if (plan->qual != NIL || plan->initPlan != NIL)
		return NIL;
	if (IsA(plan, IndexScan) && scan->indexorderby == NIL &&
		ScanDirectionIsForward(scan->indexorderdir))
	{
		*index = scan->indexid;
		return scan->indexqual;
	}
	if (IsA(plan, IndexOnlyScan) && only->indexorderby == NIL &&
		ScanDirectionIsForward(only->indexorderdir))
	{
		*index = only->indexid;
		return only->indexqual;
	}
	return NIL;
}

/* Fills in the way, if the plan allows it. */
static bool
take_plan(Way *way, const PlannedStmt *statement)
{
	List	   *conditions;
	RangeTblEntry *table;
	Relation	index;
	bool		taken = true;
	ListCell   *cell;

	if (statement == NULL)
		return false;
	conditions = index_conditions(statement->planTree, &way->index);
	table = linitial_node(RangeTblEntry, statement->rtable);
	if (conditions == NIL || statement->commandType != CMD_SELECT ||
		statement->rowMarks != NIL || statement->subplans != NIL ||
		table->rtekind != RTE_RELATION ||
		((Scan *) statement->planTree)->scanrelid != 1)
		return false;
	way->table = table->relid;
	if (!nclaim_plan_lock(&way->plan, way->table))
		return false;
	index = index_open(way->index, AccessShareLock);
	foreach(cell, conditions)
		taken = taken && take_key(way, lfirst(cell), index);
	foreach(cell, statement->planTree->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		taken = taken && (entry->resjunk || take_column(way, entry, index));
	}
	index_close(index, NoLock);
	return taken;
}

/* Looks at the statement's plan, which is made if it is not. */
static void
make_way(Way *way, NClaimOwnStatement statement)
{
	const NClaimPlan *plan = nclaim_own_plan(statement);
	MemoryContext caller;

	memset(way, 0, sizeof(*way));
	nclaim_own_make_plan(statement);
	if (!nclaim_plan_is_current(plan))
		return;
	way->plan = *plan;
	caller = MemoryContextSwitchTo(TopMemoryContext);
	way->direct = take_plan(way, nclaim_plan_statement(plan));
	MemoryContextSwitchTo(caller);
}

/* Copies a value that goes away to the current memory context, if it is not null. */
static void
keep_value(NClaimRow *row, int n, TupleDesc desc, AttrNumber column)
{
	Form_pg_attribute attribute = TupleDescAttr(desc, column - 1);

	if (!row->nulls[n])
		row->values[n] = datumCopy(row->values[n], attribute->attbyval, attribute->attlen);
}

static void
take_row(const Way *way, TupleTableSlot *slot, NClaimRow *row)
{
	for (int i = 0; i < way->ncolumns; i++)
	{
		row->values[i] = slot_getattr(slot, way->columns[i], &row->nulls[i]);
		keep_value(row, i, slot->tts_tupleDescriptor, way->columns[i]);
	}
}

/* Scans the index for the first row; both locks are held. */
static NClaimFound
scan(const Way *way, Datum *values, NClaimRow *row)
{
	Relation	table = table_open(way->table, NoLock);
	Relation	index = index_open(way->index, NoLock);
	TupleTableSlot *slot = table_slot_create(table, NULL);
	IndexScanDesc desc = nclaim_index_beginscan(table, index, GetActiveSnapshot(), way->nkeys);
	ScanKeyData keys[MAX_KEYS];
	NClaimFound found;

	for (int i = 0; i < way->nkeys; i++)
	{
		keys[i] = way->keys[i];
		keys[i].sk_argument = values[way->params[i]];
	}
	index_rescan(desc, keys, way->nkeys, NULL, 0);
	if (!index_getnext_slot(desc, ForwardScanDirection, slot))
		found = NCLAIM_FOUND_NONE;
	else if (desc->xs_recheck)
		found = NCLAIM_FOUND_UNKNOWN;
	else
	{
		found = NCLAIM_FOUND_ROW;
		take_row(way, slot, row);
	}
	index_endscan(desc);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(table, NoLock);
	return found;
}

/* Locks table and index as the executor would, if nobody has to be waited for. */
static bool
lock(const Way *way)
{
	if (!ConditionalLockRelationOid(way->table, AccessShareLock))
		return false;
	if (ConditionalLockRelationOid(way->index, AccessShareLock))
		return true;
	UnlockRelationOid(way->table, AccessShareLock);
	return false;
}

/*
 * Finds the first row of a statement that reads, under a new snapshot of the
 * transaction's or under the one given; none of the values is null.  The row's
 * values go to the current memory context.  Returns NCLAIM_FOUND_UNKNOWN where the
 * executor is needed, or somebody would have to be waited for.  Needs no SPI
 * connection and makes no plan.
 */
NClaimFound
nclaim_find_directly(NClaimOwnStatement statement, Datum *values,
					 Snapshot snapshot, NClaimRow *row)
{
	Way		   *way = &ways[statement];
	const NClaimPlan *plan = nclaim_own_plan(statement);
	Oid			userid;
	int			sec_context;
	NClaimFound found;

	if (!way->direct || !nclaim_plan_is_same(&way->plan, plan) || !lock(way))
		return NCLAIM_FOUND_UNKNOWN;
	/* Locking may have brought news. */
	if (!nclaim_plan_is_same(&way->plan, plan))
		return NCLAIM_FOUND_UNKNOWN;

	nclaim_own_enter(&userid, &sec_context);
	nclaim_check_permissions(nclaim_plan_statement(plan));
	/* As SPI_execute_snapshot() does. */
	CommandCounterIncrement();
	if (snapshot == InvalidSnapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	else
	{
		PushCopiedSnapshot(snapshot);
		UpdateActiveSnapshotCommandId();
	}
	found = scan(way, values, row);
	PopActiveSnapshot();
	SetUserIdAndSecContext(userid, sec_context);
	return found;
}

/*
 * Finds that row, by the executor if need be.  Returns false where there is none.
 * Needs an SPI connection; raises what the statement raises.
 */
bool
nclaim_find(NClaimOwnStatement statement, Datum *values, Snapshot snapshot,
			NClaimRow *row)
{
	Way		   *way = &ways[statement];
	NClaimFound found;
	SPITupleTable *rows;
	uint64		n;

	if (!nclaim_plan_is_same(&way->plan, nclaim_own_plan(statement)))
		make_way(way, statement);
	found = nclaim_find_directly(statement, values, snapshot, row);
	if (found != NCLAIM_FOUND_UNKNOWN)
		return found == NCLAIM_FOUND_ROW;

	n = nclaim_own_execute(statement, values, NULL, snapshot);
	rows = SPI_tuptable;
	for (int i = 0; n > 0 && i < rows->tupdesc->natts; i++)
	{
		row->values[i] = SPI_getbinval(rows->vals[0], rows->tupdesc, i + 1, &row->nulls[i]);
		keep_value(row, i, rows->tupdesc, i + 1);
	}
	SPI_freetuptable(rows);
	return n > 0;
}
