/*-------------------------------------------------------------------------
 *
 * trigger.c
 *		The order tables' trigger: it sees who moves an order, whoever that is.
 *
 * A plain row trigger that compares the statuses itself: with UPDATE OF it would
 * miss what other triggers change, and both OF and WHEN stand in the way of ALTER
 * TABLE.  Its name sorts behind those of others.  Its function is executable by
 * PUBLIC, and does nothing on a table of no machine.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "executor/spi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "notify_claim.h"

#define TRIGGER_NAME	"zz_notify_claim"

PG_FUNCTION_INFO_V1(notify_claim_order_moved);

/* A column of the trigger's relation, which may be a partition, by its name. */
static Datum
value_of(Relation rel, HeapTuple tuple, const char *column, bool *isnull)
{
	int			attnum = SPI_fnumber(RelationGetDescr(rel), column);

	*isnull = true;
	return attnum <= 0 ? (Datum) 0 :
		SPI_getbinval(tuple, RelationGetDescr(rel), attnum, isnull);
}

/* Is the column's value in both rows the same?  Null is a value too. */
static bool
same_value(Relation rel, HeapTuple old, HeapTuple new, const char *column,
		   NClaimColumn *describes)
{
	bool		old_isnull;
	bool		new_isnull;
	Datum		old_value = value_of(rel, old, column, &old_isnull);
	Datum		new_value = value_of(rel, new, column, &new_isnull);

	return old_isnull || new_isnull ? old_isnull == new_isnull :
		nclaim_column_equal(describes, old_value, new_value);
}

/*
 * Notes the order of a row that was inserted, or whose status or number has
 * changed, for the machine.  "old" is NULL for an inserted row.
 */
static void
note_order(NClaimMachine *machine, Relation rel, HeapTuple old, HeapTuple new)
{
	NClaimOrderTable *table = &machine->table;
	Datum		key;
	bool		isnull;

	if (machine->problem.sqlerrcode != 0)
		return;
	if (old != NULL &&
		same_value(rel, old, new, machine->status_column, &table->status) &&
		same_value(rel, old, new, machine->order_column, &table->key))
		return;
	key = value_of(rel, new, machine->order_column, &isnull);
	if (!isnull)
		nclaim_park_note(RelationGetRelid(rel), nclaim_column_out(&table->key, key), true);
}

static void
check_trigger_call(FunctionCallInfo fcinfo)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!(TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ||
		  TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called by a trigger AFTER INSERT OR UPDATE FOR EACH ROW",
						"notify_order_moved")));
}

/*
 * The trigger's function.  Notes the order, and releases what is parked for it
 * unless a call in progress is going to.
 */
Datum
notify_claim_order_moved(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	bool		outermost = !nclaim_park_active();
	HeapTuple	old;
	HeapTuple	new;
	ListCell   *cell;
	instr_time	start;
	int64		applied = 0;
	int			nestlevel;
	bool		changed = false;

	check_trigger_call(fcinfo);
	new = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple :
		trigger->tg_trigtuple;
	old = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_trigtuple : NULL;

	INSTR_TIME_SET_CURRENT(start);
	nclaim_begin(fcinfo);
	nestlevel = nclaim_limit_waits();
	if (outermost)
		nclaim_park_enter();
	foreach(cell, nclaim_machines_of(RelationGetRelid(trigger->tg_relation)))
		note_order(nclaim_machine_find(lfirst(cell)), trigger->tg_relation, old, new);
	if (outermost)
		applied = nclaim_park_drain(start, &changed);
	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	if (applied > 0)
		ereport(NOTICE,
				(errmsg_plural("%lld parked notification was applied",
							   "%lld parked notifications were applied",
							   applied, (long long) applied)));
	return PointerGetDatum(NULL);
}

/* Does a trigger on the table call the function, or one that is ours to drop? */
static bool
is_attached(Oid relid, bool ours)
{
	const char *values[] = {
		psprintf("%u", relid),
		psprintf("%u", nclaim_extension_moved_function()),
		ours ? "t" : "f"
	};

	return nclaim_own_run("SELECT 1 FROM pg_catalog.pg_trigger AS t"
						  " WHERE t.tgrelid OPERATOR(pg_catalog.=) $1::pg_catalog.oid"
						  " AND t.tgfoid OPERATOR(pg_catalog.=) $2::pg_catalog.oid"
						  " AND ($3 OPERATOR(pg_catalog.<>) 't' OR ("
						  "t.tgname OPERATOR(pg_catalog.=) '" TRIGGER_NAME "'"
						  " AND t.tgparentid OPERATOR(pg_catalog.=) 0::pg_catalog.oid))",
						  lengthof(values), values) > 0;
}

static void
run(const char *sql)
{
	if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not execute \"%s\"", sql);
}

/*
 * Attaches the trigger to an order table, as the current user, unless one that
 * calls the function is there.  Raises what CREATE TRIGGER raises.
 */
void
nclaim_trigger_attach(Oid relid)
{
	if (is_attached(relid, false))
		return;
	LockRelationOid(relid, ShareRowExclusiveLock);
	if (!is_attached(relid, false))
		run(psprintf("CREATE TRIGGER " TRIGGER_NAME
					 " AFTER INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s",
					 nclaim_relation_name(relid), nclaim_own_sql("@.notify_order_moved()")));
}

/*
 * Takes the trigger off a table that is no machine's any more, as the current
 * user.  One of another name, or of the table above, was not made for it, and
 * stays.
 */
void
nclaim_trigger_detach(Oid relid)
{
	if (get_rel_name(relid) != NULL && is_attached(relid, true) &&
		nclaim_machines_of(relid) == NIL)
		run(psprintf("DROP TRIGGER " TRIGGER_NAME " ON %s", nclaim_relation_name(relid)));
}

/*
 * A machine's table is another one now, or a new one of the name: the trigger goes
 * with it, unless the old one is there and had none.
 */
void
nclaim_trigger_move(Oid from, Oid to)
{
	bool		was_attached = get_rel_name(from) == NULL || is_attached(from, false);

	if (from == to)
		return;
	if (was_attached)
		nclaim_trigger_attach(to);
	nclaim_trigger_detach(from);
}
