/*-------------------------------------------------------------------------
 *
 * insert.c
 *		Inserting a row into the extension's own tables, without starting the
 *		executor where the planner's plan is an insertion and nothing else.
 *
 * Most of what a statement that inserts one row costs is to start and to end it.
 * As in find.c the planner decides whether that can be left out: only where the
 * plan of the statement inserts one row of parameters, constants and a sequence's
 * number into a plain table without a trigger.  A rule, a policy, a partitioned
 * table, a table that another node has and a default that is computed show in the
 * plan.  The row then takes the executor's own functions for privileges,
 * constraints, tables and indexes, in the order of ExecInsert().
 *
 * Of ON CONFLICT DO NOTHING only the case without a conflict is done here.  The row
 * is inserted speculatively, so that nobody waits for one that is taken back, and it
 * is in no stream of changes.  Where there is another row, what to do about it is
 * left to the executor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "notify_claim.h"

typedef enum SourceKind
{
	SOURCE_CONSTANT,
	SOURCE_PARAMETER,
	SOURCE_NUMBER,				/* of a sequence */
} SourceKind;

/* Where the value of a column comes from. */
typedef struct Source
{
	SourceKind	kind;
	Datum		constant;
	bool		isnull;
	int			param;
	Oid			sequence;
	bool		coerced;		/* the parameter, by what follows */
	FmgrInfo	function;
	Oid			collation;
	Datum		typmod;
	Datum		is_explicit;
} Source;

/* How a statement's row is inserted, as its plan has it. */
typedef struct Way
{
	NClaimPlan	plan;			/* that was looked at */
	MemoryContext context;		/* of the lists below */
	bool		direct;			/* by what follows */
	Oid			table;
	List	   *arbiters;		/* NIL: a duplicate is an error */
	AttrNumber	returned;		/* 0: none */
	int			nsources;
	Source	   *sources;		/* in the order of the columns */
} Way;

static Way	ways[NCLAIM_OWN_STATEMENTS];

/*
 * A call that makes a parameter as long as its column allows, as varchar() and
 * bpchar() do: built in, for what a user has defined may call us.
 */
static bool
take_coercion(Source *source, const FuncExpr *call)
{
	if (call->funcid >= FirstNormalObjectId || list_length(call->args) != 3 ||
		!IsA(lsecond(call->args), Const) || exprType(lsecond(call->args)) != INT4OID ||
		!IsA(lthird(call->args), Const) || exprType(lthird(call->args)) != BOOLOID)
		return false;
	fmgr_info(call->funcid, &source->function);
	source->coerced = true;
	source->collation = call->inputcollid;
	source->typmod = lsecond_node(Const, call->args)->constvalue;
	source->is_explicit = lthird_node(Const, call->args)->constvalue;
	return source->function.fn_strict;
}

/* The value of a column; false for what only the executor can compute. */
static bool
take_source(Source *source, Node *node)
{
	node = nclaim_plan_without_relabel(node);
	if (IsA(node, Const))
	{
		Const	   *constant = (Const *) node;

		source->kind = SOURCE_CONSTANT;
		source->isnull = constant->constisnull;
		if (!source->isnull)
			source->constant = datumCopy(constant->constvalue, constant->constbyval, constant->constlen);
		return true;
	}
	if (IsA(node, NextValueExpr) && ((NextValueExpr *) node)->typeId == INT8OID)
	{
		source->kind = SOURCE_NUMBER;
		source->sequence = ((NextValueExpr *) node)->seqid;
		return true;
	}
	if (IsA(node, FuncExpr))
	{
		if (!take_coercion(source, (FuncExpr *) node))
			return false;
		node = nclaim_plan_without_relabel(linitial(((FuncExpr *) node)->args));
	}
	if (!IsA(node, Param) || ((Param *) node)->paramkind != PARAM_EXTERN)
		return false;
	source->kind = SOURCE_PARAMETER;
	source->param = ((Param *) node)->paramid - 1;
	return true;
}

/* The column that is returned, or none; false for anything else. */
static bool
take_returned(Way *way, const ModifyTable *plan)
{
	TargetEntry *entry;

	way->returned = 0;
	if (plan->returningLists == NIL)
		return true;
	entry = linitial_node(TargetEntry, linitial_node(List, plan->returningLists));
	if (!IsA(entry->expr, Var) || ((Var *) entry->expr)->varattno <= 0)
		return false;
	way->returned = ((Var *) entry->expr)->varattno;
	return true;
}

/* Is the table, which is locked, such that its rows are inserted as they are? */
static bool
table_is_plain(Oid table)
{
	Relation	rel = table_open(table, NoLock);
	TupleConstr *constraints = RelationGetDescr(rel)->constr;
	bool		plain = rel->rd_rel->relkind == RELKIND_RELATION &&
		!rel->rd_rel->relispartition && rel->trigdesc == NULL &&
		(constraints == NULL || !nclaim_has_generated(constraints));

	table_close(rel, NoLock);
	return plain;
}

/* Fills in the way, if the plan allows it. */
static bool
take_plan(Way *way, const PlannedStmt *statement)
{
	const ModifyTable *plan;
	const Plan *row;
	ListCell   *cell;

	if (statement == NULL)
		return false;
	plan = (const ModifyTable *) statement->planTree;
	if (!IsA(plan, ModifyTable) || plan->operation != CMD_INSERT ||
		list_length(plan->resultRelations) != 1 || plan->withCheckOptionLists != NIL ||
		(plan->onConflictAction != ONCONFLICT_NONE && plan->onConflictAction != ONCONFLICT_NOTHING) ||
		!take_returned(way, plan))
		return false;
	row = outerPlan(plan);
	if (!IsA(row, Result) || outerPlan(row) != NULL ||
		((const Result *) row)->resconstantqual != NULL)
		return false;
	way->table = list_nth_node(RangeTblEntry, statement->rtable,
							   linitial_int(plan->resultRelations) - 1)->relid;
	if (!nclaim_plan_lock(&way->plan, way->table) || !table_is_plain(way->table))
		return false;
	way->arbiters = list_copy(plan->arbiterIndexes);
	way->sources = palloc0(list_length(row->targetlist) * sizeof(Source));
	foreach(cell, row->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resjunk || !take_source(&way->sources[way->nsources++], (Node *) entry->expr))
			return false;
	}
	Assert(plan->onConflictAction == ONCONFLICT_NONE || way->arbiters != NIL);
	return true;
}

static void
forget_sources(void *context)
{
	MemoryContextDelete(context);
}

/*
 * Looks at the statement's plan, which is made if it is not.  An outer call may still
 * be using what was kept of the one before.
 */
static void
make_way(Way *way, NClaimOwnStatement statement)
{
	MemoryContext caller;

	if (way->context != NULL)
		nclaim_retire(forget_sources, way->context);
	memset(way, 0, sizeof(*way));
	nclaim_own_make_plan(statement);
	if (!nclaim_plan_is_current(nclaim_own_plan(statement)))
		return;
	way->plan = *nclaim_own_plan(statement);
	way->context = AllocSetContextCreate(TopMemoryContext, "notify_claim insertion",
										 ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(way->context);
	way->direct = take_plan(way, nclaim_plan_statement(&way->plan));
	MemoryContextSwitchTo(caller);
}

static Datum
source_value(Source *source, const Datum *values, const char *nulls, bool *isnull)
{
	switch (source->kind)
	{
		case SOURCE_CONSTANT:
			*isnull = source->isnull;
			return source->constant;
		case SOURCE_NUMBER:
			*isnull = false;
			return Int64GetDatum(nextval_internal(source->sequence, false));
		case SOURCE_PARAMETER:
			break;
	}
	*isnull = nulls != NULL && nulls[source->param] == 'n';
	if (*isnull)
		return (Datum) 0;
	if (!source->coerced)
		return values[source->param];
	return FunctionCall3Coll(&source->function, source->collation, values[source->param],
							 source->typmod, source->is_explicit);
}

static void
fill_slot(const Way *way, const Datum *values, const char *nulls, TupleTableSlot *slot)
{
	for (int i = 0; i < way->nsources; i++)
		slot->tts_values[i] = source_value(&way->sources[i], values, nulls, &slot->tts_isnull[i]);
	ExecStoreVirtualTuple(slot);
}

/*
 * Inserts the row in the slot.  Returns false where there is another one under
 * the key, and nothing is inserted.
 */
static bool
insert_row(const Way *way, ResultRelInfo *table, TupleTableSlot *slot, EState *estate)
{
	Relation	rel = table->ri_RelationDesc;
	bool		conflict = false;
	uint32		token;

	slot->tts_tableOid = RelationGetRelid(rel);
	if (RelationGetDescr(rel)->constr != NULL)
		ExecConstraints(table, slot, estate);
	if (way->arbiters == NIL)
	{
		table_tuple_insert(rel, slot, estate->es_output_cid, 0, NULL);
		nclaim_insert_index_tuples(table, slot, estate, NIL, NULL);
		return true;
	}
	if (!nclaim_check_indexes(table, slot, estate, way->arbiters))
		return false;
	token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
	table_tuple_insert_speculative(rel, slot, estate->es_output_cid, 0, NULL, token);
	nclaim_insert_index_tuples(table, slot, estate, way->arbiters, &conflict);
	table_tuple_complete_speculative(rel, slot, token, !conflict);
	SpeculativeInsertionLockRelease(GetCurrentTransactionId());
	return !conflict;
}

/* Makes the row and inserts it; the table is locked. */
static bool
make_row(const Way *way, const Datum *values, const char *nulls, int64 *returned)
{
	EState	   *estate = CreateExecutorState();
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
	Relation	rel = table_open(way->table, NoLock);
	ResultRelInfo *table = makeNode(ResultRelInfo);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);
	bool		inserted;
	bool		isnull;

	Assert(way->nsources == RelationGetDescr(rel)->natts);
	estate->es_snapshot = GetActiveSnapshot();
	estate->es_output_cid = GetCurrentCommandId(true);
	InitResultRelInfo(table, rel, 0, NULL, 0);
	ExecOpenIndices(table, way->arbiters != NIL);
	fill_slot(way, values, nulls, slot);
	inserted = insert_row(way, table, slot, estate);
	if (inserted && returned != NULL)
		*returned = DatumGetInt64(slot_getattr(slot, way->returned, &isnull));
	ExecCloseIndices(table);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	MemoryContextSwitchTo(caller);
	FreeExecutorState(estate);
	return inserted;
}

/* As SPI's. */
static void
add_context(void *query)
{
	errcontext("SQL statement \"%s\"", (const char *) query);
}

/*
 * Inserts the row as the tables' owner, under a new snapshot.  Returns false where
 * the executor has to do it, with nothing inserted.
 */
static bool
insert_directly(NClaimOwnStatement statement, Datum *values, const char *nulls,
				int64 *returned)
{
	const NClaimPlan *plan = nclaim_own_plan(statement);
	Way			way = ways[statement];	/* a nested call may change that */
	ErrorContextCallback callback = {
		.previous = error_context_stack,
		.callback = add_context,
	};
	Oid			userid;
	int			sec_context;
	bool		inserted;

	if (!way.direct || XactReadOnly || IsInParallelMode() ||
		!ConditionalLockRelationOid(way.table, RowExclusiveLock))
		return false;
	/* Locking may have brought news. */
	if (!nclaim_plan_is_same(&way.plan, plan))
		return false;

	callback.arg = unconstify(char *, nclaim_plan_query(plan));
	error_context_stack = &callback;
	nclaim_own_enter(&userid, &sec_context);
	nclaim_check_permissions(nclaim_plan_statement(plan));
	/* As SPI_execute_snapshot() does. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	inserted = make_row(&way, values, nulls, returned);
	PopActiveSnapshot();
	CommandCounterIncrement();
	SetUserIdAndSecContext(userid, sec_context);
	error_context_stack = callback.previous;
	return inserted;
}

/*
 * Inserts the row of a statement that inserts one, by the executor if need be, and
 * fills in the number that it returns; "returned" is NULL where it returns none.
 * Returns false where it has ON CONFLICT DO NOTHING and there is another row.  Needs
 * an SPI connection; raises what the statement raises.
 */
bool
nclaim_insert(NClaimOwnStatement statement, Datum *values, const char *nulls,
			  int64 *returned)
{
	bool		isnull;

	if (!nclaim_plan_is_same(&ways[statement].plan, nclaim_own_plan(statement)))
		make_way(&ways[statement], statement);
	if (insert_directly(statement, values, nulls, returned))
		return true;
	if (nclaim_own_execute(statement, values, nulls, InvalidSnapshot) == 0)
		return false;
	if (returned != NULL)
	{
		*returned = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
												1, &isnull));
		SPI_freetuptable(SPI_tuptable);
	}
	return true;
}
