/*-------------------------------------------------------------------------
 *
 * declare.c
 *		Declaring machines and events.
 *
 * Declaring the identical thing twice does nothing, a contradiction raises
 * 42710.  A machine is its order table's owner's to declare; an event without
 * a machine, the extension's owner's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
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
PG_FUNCTION_INFO_V1(notify_claim_event_add);
PG_FUNCTION_INFO_V1(notify_claim_event_set);
PG_FUNCTION_INFO_V1(notify_claim_event_drop);
PG_FUNCTION_INFO_V1(notify_claim_definition_changed);

/* Raises 42501 unless the user owns the table. */
void
nclaim_require_table_owner(Oid relid)
{
	if (!nclaim_owns_table(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
}

/* For the owner of the machine's table; where that is gone, the extension's. */
static void
require_machine_owner(const NClaimMachine *machine)
{
	nclaim_require_table_owner(OidIsValid(machine->relid) ? machine->relid :
							   nclaim_extension_claim_table());
}

/* Finds a machine that the user may change.  Raises 42704 or 42501. */
NClaimMachine *
nclaim_owned_machine(const char *name)
{
	NClaimMachine *machine = nclaim_machine_find(name);

	require_machine_owner(machine);
	return machine;
}

/* For what the transaction's snapshot cannot see. */
static void
raise_changed_meanwhile(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("The machine was changed after the transaction's snapshot was taken."),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * Raises 40001 where something of the machine, or of the event if one is given,
 * was declared after the snapshot of the transaction that has just deleted it.
 */
static void
check_nothing_is_left(const char *machine, const char *event_type)
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

/* Finds an event that the user may change.  Raises 42704 or 42501. */
static NClaimEvent *
owned_event(const char *event_type)
{
	NClaimEvent *event = nclaim_event_find(event_type);

	if (event == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("event type \"%s\" does not exist", event_type)));
	if (event->machine != NULL)
		require_machine_owner(event->machine);
	else
		nclaim_require_table_owner(nclaim_extension_claim_table());
	return event;
}

/* Raises 22023 for a name that no machine can have, 22001 for a long one. */
static void
check_machine_name(const char *name)
{
	nclaim_check_not_blank(name, "machine");
	if (nclaim_characters(name) > NCLAIM_MAX_NAME)
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

static void
check_on_early(const char *on_early)
{
	if (on_early != NULL && strcmp(on_early, "retry") != 0 &&
		strcmp(on_early, "skip") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid policy \"%s\" for early events", on_early),
				 errhint("Use \"retry\" or \"skip\".")));
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

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
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
 * notify_machine_add(order_table, order_column, status_column, machine)
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
	values[2] = qualified_name(relid);
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

	nclaim_begin(fcinfo);
	machine = nclaim_owned_machine(name);
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
	values[2] = qualified_name(relid);
	values[3] = order_column;
	values[4] = status_column;
	nclaim_own_run("UPDATE @.notify_machine SET"
				   " order_table = $2::pg_catalog.oid::pg_catalog.regclass,"
				   " order_table_name = $3, order_column = $4, status_column = $5"
				   " WHERE machine OPERATOR(pg_catalog.=) $1",
				   5, values);
	nclaim_machine_notice(name);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * notify_machine_drop(machine)
 */
Datum
notify_claim_machine_drop(PG_FUNCTION_ARGS)
{
	const char *name = nclaim_text_arg(fcinfo, 0, "machine");

	nclaim_begin(fcinfo);
	nclaim_owned_machine(name);
	nclaim_own_run("DELETE FROM @.notify_machine WHERE machine OPERATOR(pg_catalog.=) $1",
				   1, &name);
	nclaim_own_run("DELETE FROM @.notify_transition WHERE machine OPERATOR(pg_catalog.=) $1",
				   1, &name);
	nclaim_own_run("DELETE FROM @.notify_event WHERE machine OPERATOR(pg_catalog.=) $1",
				   1, &name);
	check_nothing_is_left(name, NULL);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * Inserts an event unless one of that type exists; returns whether it did.
 * on_early NULL takes the default.
 */
bool
nclaim_event_insert(const NClaimEventSettings *event)
{
	const char *values[6] = {
		event->event_type, event->message_type, event->machine, event->on_early,
		event->check_function, event->action_function
	};

	return nclaim_own_run(event->on_early != NULL ?
						  "INSERT INTO @.notify_event (event_type, message_type, machine, on_early, check_function, action_function)"
						  " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (event_type) DO NOTHING" :
						  "INSERT INTO @.notify_event (event_type, message_type, machine, check_function, action_function)"
						  " VALUES ($1, $2, $3, $5, $6) ON CONFLICT (event_type) DO NOTHING",
						  6, values) > 0;
}

/* Is there an event with these settings? */
static bool
event_is(const NClaimEventSettings *event)
{
	const char *values[6] = {
		event->event_type, event->message_type, event->machine, event->on_early,
		event->check_function, event->action_function
	};

	return nclaim_own_run("SELECT 1 FROM @.notify_event AS e"
						  " WHERE e.event_type OPERATOR(pg_catalog.=) $1"
						  " AND " NCLAIM_SAME("e.message_type", "$2")
						  " AND " NCLAIM_SAME("e.machine", "$3")
						  " AND ($4 IS NULL OR e.on_early OPERATOR(pg_catalog.=) $4)"
						  " AND " NCLAIM_SAME("e.check_function", "$5")
						  " AND " NCLAIM_SAME("e.action_function", "$6"),
						  6, values) > 0;
}

/* An event of a machine has no message type of its own.  Raises 22023. */
static void
check_message_type(const char *message_type, const char *machine)
{
	if (machine != NULL && message_type != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("event of a machine cannot have a message type of its own"),
				 errhint("Pass the message type to notify_transition_add().")));
}

/*
 * A check or action function as it is stored; an empty text, which removes it,
 * and NULL stay as they are.
 */
static const char *
function_arg(FunctionCallInfo fcinfo, int n, Oid result_type)
{
	char	   *name = nclaim_optional_text_arg(fcinfo, n);

	return name == NULL || *name == '\0' ? name : nclaim_hook_name(name, result_type);
}

/* The same for a new event, where there is nothing to remove. */
static const char *
new_function_arg(FunctionCallInfo fcinfo, int n, Oid result_type)
{
	const char *function = function_arg(fcinfo, n, result_type);

	return function == NULL || *function == '\0' ? NULL : function;
}

/*
 * notify_event_add(event_type, message_type, machine, on_early,
 * check_function, action_function)
 */
Datum
notify_claim_event_add(PG_FUNCTION_ARGS)
{
	NClaimEventSettings event;

	event.event_type = nclaim_text_arg(fcinfo, 0, "event_type");
	event.message_type = nclaim_optional_text_arg(fcinfo, 1);
	event.machine = nclaim_optional_text_arg(fcinfo, 2);
	event.on_early = nclaim_optional_text_arg(fcinfo, 3);
	event.check_function = new_function_arg(fcinfo, 4, TEXTOID);
	event.action_function = new_function_arg(fcinfo, 5, VOIDOID);
	nclaim_check_event_type(event.event_type);
	check_on_early(event.on_early);
	if (event.message_type != NULL)
		nclaim_check_not_blank(event.message_type, "message_type");
	check_message_type(event.message_type, event.machine);

	nclaim_begin(fcinfo);
	if (event.machine != NULL)
		nclaim_lock_machine(event.machine);
	else
		nclaim_require_table_owner(nclaim_extension_claim_table());
	if (!nclaim_event_insert(&event) && !event_is(&event))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("event type \"%s\" already exists with other settings",
						event.event_type),
				 errhint("Change it with notify_event_set().")));
	if (event.machine != NULL)
		nclaim_machine_notice(event.machine);
	SPI_finish();
	PG_RETURN_VOID();
}

/* New value of a column: what is null stays, what is empty becomes null. */
#define CHANGED(column, param) \
	column " = CASE WHEN " param " IS NULL THEN e." column \
	" WHEN " param " OPERATOR(pg_catalog.=) '' THEN NULL ELSE " param " END"

/*
 * notify_event_set(event_type, message_type, on_early, check_function,
 * action_function)
 */
Datum
notify_claim_event_set(PG_FUNCTION_ARGS)
{
	const char *event_type = nclaim_text_arg(fcinfo, 0, "event_type");
	const char *values[5];
	NClaimEvent *event;

	values[0] = event_type;
	values[1] = nclaim_optional_text_arg(fcinfo, 1);
	values[2] = nclaim_optional_text_arg(fcinfo, 2);
	values[3] = function_arg(fcinfo, 3, TEXTOID);
	values[4] = function_arg(fcinfo, 4, VOIDOID);
	check_on_early(values[2]);

	nclaim_begin(fcinfo);
	event = owned_event(event_type);
	check_message_type(values[1], event->machine == NULL ? NULL : event->machine->name);
	nclaim_own_run("UPDATE @.notify_event AS e SET "
				   CHANGED("message_type", "$2") ", "
				   "on_early = COALESCE($3, e.on_early), "
				   CHANGED("check_function", "$4") ", "
				   CHANGED("action_function", "$5")
				   " WHERE e.event_type OPERATOR(pg_catalog.=) $1",
				   5, values);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * notify_event_drop(event_type)
 */
Datum
notify_claim_event_drop(PG_FUNCTION_ARGS)
{
	const char *event_type = nclaim_text_arg(fcinfo, 0, "event_type");
	NClaimEvent *event;

	nclaim_begin(fcinfo);
	event = owned_event(event_type);
	nclaim_own_run("DELETE FROM @.notify_event WHERE event_type OPERATOR(pg_catalog.=) $1",
				   1, &event_type);
	nclaim_own_run("DELETE FROM @.notify_transition WHERE event_type OPERATOR(pg_catalog.=) $1",
				   1, &event_type);
	if (event->machine != NULL)
		check_nothing_is_left(event->machine->name, event_type);
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
