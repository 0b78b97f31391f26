/*-------------------------------------------------------------------------
 *
 * declare.c
 *		Declaring machines.
 *
 * Declaring the identical thing twice does nothing, a contradiction raises
 * 42710.  A machine is its order table's owner's to declare; an event without
 * a machine, the extension's owner's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_machine_add);
PG_FUNCTION_INFO_V1(notify_claim_machine_set);
PG_FUNCTION_INFO_V1(notify_claim_machine_drop);
PG_FUNCTION_INFO_V1(notify_claim_definition_changed);

/* Raises 42501 unless the user owns the table. */
void
nclaim_require_table_owner(Oid relid)
{
	if (!nclaim_owns_table(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
}

/* For the owner of the machine's table; where that is gone, the extension's. */
void
nclaim_require_machine_owner(const NClaimMachine *machine)
{
	nclaim_require_table_owner(OidIsValid(machine->relid) ? machine->relid :
							   nclaim_extension_claim_table());
}

/* Finds a machine that the user may change.  Raises 42704 or 42501. */
NClaimMachine *
nclaim_owned_machine(const char *name)
{
	NClaimMachine *machine = nclaim_machine_find(name);

	nclaim_require_machine_owner(machine);
	return machine;
}

/* For what the transaction's snapshot cannot see. */
static void
raise_changed_meanwhile(void)
{
	nclaim_raise_not_serializable("The machine was changed after the transaction's snapshot was taken.");
}

/*
 * Raises 40001 where something of the machine, or of the event if one is given,
 * was declared after the snapshot of the transaction that has just deleted it.
 */
void
nclaim_check_nothing_is_left(const char *machine, const char *event_type)
{
	Datum		key = CStringGetTextDatum(machine);
	uint64		nrows;

	if (!IsolationUsesXactSnapshot())
		return;
	if (event_type == NULL &&
		nclaim_own_execute(NCLAIM_FIND_EVENTS, &key, NULL, GetLatestSnapshot()) > 0)
		raise_changed_meanwhile();
	nrows = nclaim_own_execute(NCLAIM_FIND_TRANSITIONS, &key, NULL,
							   GetLatestSnapshot());
	for (uint64 i = 0; i < nrows; i++)
	{
		char	   *of = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);

		if (event_type == NULL || (of != NULL && strcmp(of, event_type) == 0))
			raise_changed_meanwhile();
	}
}

/*
 * Like nclaim_owned_machine(), and nobody can drop the machine until the
 * transaction ends.  Raises 40001 where it is newer than the transaction's
 * snapshot.
 */
void
nclaim_lock_machine(const char *name)
{
	nclaim_owned_machine(name);
	if (nclaim_own_run("SELECT 1 FROM @.notify_machine AS m"
					   " WHERE m.machine OPERATOR(pg_catalog.=) $1 FOR KEY SHARE",
					   1, &name) > 0)
		return;
	nclaim_machine_find(name);	/* gone meanwhile: raises */
	raise_changed_meanwhile();
}

/* Raises 22023 for a name that no machine can have, 22001 for a long one. */
static void
check_machine_name(const char *name)
{
	nclaim_check_not_blank(name, "machine");
	if (nclaim_is_longer(name, NCLAIM_MAX_NAME))
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("machine name is longer than %d characters", NCLAIM_MAX_NAME)));
	if (strcmp(name, "event") == 0 || strcmp(name, "notify_review") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("machine name \"%s\" is reserved", name),
				 errdetail("It is the aggregate type of messages that belong to no machine."),
				 errhint("Pass another name as argument \"machine\".")));
}

/* A machine of another owner's is none of the user's. */
static void
require_usable_table(Oid relid, const char *order_column,
					 const char *status_column)
{
	NClaimProblem problem = {0};
	NClaimOrderTable table;

	nclaim_require_table_owner(relid);
	nclaim_order_describe(&table, relid, order_column, status_column,
						  &problem);
	nclaim_problem_raise(&problem);
}

/* Raises 42P01 for an OID that is no relation's. */
static Oid
relation_arg(FunctionCallInfo fcinfo, int n)
{
	Oid			relid = PG_GETARG_OID(n);

	if (get_rel_name(relid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return relid;
}

/*
 * notify_machine_add(order_table, order_column, status_column, machine, attach)
 */
Datum
notify_claim_machine_add(PG_FUNCTION_ARGS)
{
	char	   *order_column;
	char	   *status_column;
	char	   *name = nclaim_optional_text_arg(fcinfo, 3);
	const char *values[5];
	Oid			relid;

	nclaim_require_arg(fcinfo, 0, "order_table");
	relid = relation_arg(fcinfo, 0);
	order_column = nclaim_text_arg(fcinfo, 1, "order_column");
	status_column = nclaim_text_arg(fcinfo, 2, "status_column");
	if (name == NULL)
		name = get_rel_name(relid);
	check_machine_name(name);

	nclaim_begin(fcinfo);
	require_usable_table(relid, order_column, status_column);
	values[0] = name;
	values[1] = psprintf("%u", relid);
	values[2] = nclaim_relation_name(relid);
	values[3] = order_column;
	values[4] = status_column;
	if (nclaim_own_run("INSERT INTO @.notify_machine (machine, order_table, order_table_name, order_column, status_column)"
					   " VALUES ($1, $2::pg_catalog.oid::pg_catalog.regclass, $3, $4, $5)"
					   " ON CONFLICT (machine) DO NOTHING",
					   5, values) == 0 &&
		nclaim_own_run("SELECT 1 FROM @.notify_machine AS m"
					   " WHERE m.machine OPERATOR(pg_catalog.=) $1"
					   " AND m.order_table OPERATOR(pg_catalog.=) $2::pg_catalog.oid"
					   " AND m.order_column OPERATOR(pg_catalog.=) $4"
					   " AND m.status_column OPERATOR(pg_catalog.=) $5",
					   5, values) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("machine \"%s\" already exists with another table or other columns", name),
				 errhint("Pass argument \"machine\" to give this one a name of its own, or change the other with notify_machine_set().")));
	if (PG_ARGISNULL(4) || PG_GETARG_BOOL(4))
		nclaim_trigger_attach(relid);
	nclaim_machine_notice(name);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * notify_machine_set(machine, order_table, order_column, status_column)
 */
Datum
notify_claim_machine_set(PG_FUNCTION_ARGS)
{
	char	   *name = nclaim_text_arg(fcinfo, 0, "machine");
	Oid			relid = PG_ARGISNULL(1) ? InvalidOid : relation_arg(fcinfo, 1);
	char	   *order_column = nclaim_optional_text_arg(fcinfo, 2);
	char	   *status_column = nclaim_optional_text_arg(fcinfo, 3);
	NClaimMachine *machine;
	const char *values[5];
	Oid			old;

	nclaim_begin(fcinfo);
	machine = nclaim_owned_machine(name);
	old = machine->by_name ? InvalidOid : machine->relid;
	if (!OidIsValid(relid))
		relid = machine->relid;
	if (!OidIsValid(relid))
		nclaim_problem_raise(&machine->problem);
	if (order_column == NULL)
		order_column = machine->order_column;
	if (status_column == NULL)
		status_column = machine->status_column;
	require_usable_table(relid, order_column, status_column);

	values[0] = name;
	values[1] = psprintf("%u", relid);
	values[2] = nclaim_relation_name(relid);
	values[3] = order_column;
	values[4] = status_column;
	nclaim_own_run("UPDATE @.notify_machine SET"
				   " order_table = $2::pg_catalog.oid::pg_catalog.regclass,"
				   " order_table_name = $3, order_column = $4, status_column = $5"
				   " WHERE machine OPERATOR(pg_catalog.=) $1",
				   5, values);
	nclaim_trigger_move(old, relid);
	nclaim_unpark_machine(name);
	nclaim_machine_notice(name);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * Keeps deliveries away from the machine's table until the transaction ends, and
 * raises 2BP01 where something is parked for the event, or for any of the
 * machine's.
 */
void
nclaim_check_nothing_is_parked(const NClaimMachine *machine, const char *event_type)
{
	Datum		values[2] = {
		CStringGetTextDatum(machine->name),
		event_type == NULL ? (Datum) 0 : CStringGetTextDatum(event_type)
	};

	if (OidIsValid(machine->relid))
		LockRelationOid(machine->relid, ExclusiveLock);
	if (nclaim_own_execute(NCLAIM_FIND_PARKED_EVENTS, values,
						   event_type == NULL ? " n" : "  ", GetLatestSnapshot()) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 event_type == NULL ?
				 errmsg("machine \"%s\" has parked events", machine->name) :
				 errmsg("event type \"%s\" has parked events", event_type),
				 errhint("See notify_parked; notify_parked_close() gives one up.")));
}

/*
 * notify_machine_drop(machine)
 */
Datum
notify_claim_machine_drop(PG_FUNCTION_ARGS)
{
	const char *name = nclaim_text_arg(fcinfo, 0, "machine");
	NClaimMachine *machine;
	Oid			relid;

	nclaim_begin(fcinfo);
	machine = nclaim_owned_machine(name);
	relid = machine->relid;
	nclaim_check_nothing_is_parked(machine, NULL);
	nclaim_own_run("DELETE FROM @.notify_machine WHERE machine OPERATOR(pg_catalog.=) $1",
				   1, &name);
	nclaim_own_run("DELETE FROM @.notify_transition WHERE machine OPERATOR(pg_catalog.=) $1",
				   1, &name);
	nclaim_own_run("DELETE FROM @.notify_event WHERE machine OPERATOR(pg_catalog.=) $1",
				   1, &name);
	nclaim_check_nothing_is_left(name, NULL);
	nclaim_trigger_detach(relid);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * Trigger of the tables of definitions and of notify_channel, before and
 * after each row and for TRUNCATE: tells every session's cache when the
 * transaction commits, and this one's with the next command.  The one before
 * the row counts where the row is seen in the middle of a statement that fails
 * later: what was told before it was seen is told again by the rollback.
 */
Datum
notify_claim_definition_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager",
						"notify_definition_changed")));
	CacheInvalidateRelcache(trigger->tg_relation);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ?
						   trigger->tg_newtuple : trigger->tg_trigtuple);
}
