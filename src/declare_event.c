/*-------------------------------------------------------------------------
 *
 * declare_event.c
 *		Declaring events.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"

#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_event_add);
PG_FUNCTION_INFO_V1(notify_claim_event_set);
PG_FUNCTION_INFO_V1(notify_claim_event_drop);

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
		nclaim_require_machine_owner(event->machine);
	else
		nclaim_require_table_owner(nclaim_extension_claim_table());
	return event;
}

static void
check_on_early(const char *on_early)
{
	if (on_early != NULL && strcmp(on_early, "park") != 0 &&
		strcmp(on_early, "retry") != 0 &&
		strcmp(on_early, "skip") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid policy \"%s\" for early events", on_early),
				 errhint("Use \"park\", \"retry\" or \"skip\".")));
}

/*
 * Inserts an event unless one of that type exists; returns whether it did.
 * on_early and park_for NULL take the defaults.
 */
bool
nclaim_event_insert(const NClaimEventSettings *event)
{
	const char *values[7] = {
		event->event_type, event->message_type, event->machine, event->on_early,
		event->check_function, event->action_function, event->park_for
	};

	if (nclaim_own_run("INSERT INTO @.notify_event (event_type, message_type, machine, check_function, action_function)"
					   " VALUES ($1, $2, $3, $5, $6) ON CONFLICT (event_type) DO NOTHING",
					   7, values) == 0)
		return false;
	if (event->on_early != NULL || event->park_for != NULL)
		nclaim_own_run("UPDATE @.notify_event AS e SET on_early = COALESCE($4, e.on_early),"
					   " park_for = COALESCE($7::pg_catalog.interval, e.park_for)"
					   " WHERE e.event_type OPERATOR(pg_catalog.=) $1",
					   7, values);
	return true;
}

/* Is there an event with these settings? */
static bool
event_is(const NClaimEventSettings *event)
{
	const char *values[7] = {
		event->event_type, event->message_type, event->machine, event->on_early,
		event->check_function, event->action_function, event->park_for
	};

	return nclaim_own_run("SELECT 1 FROM @.notify_event AS e"
						  " WHERE e.event_type OPERATOR(pg_catalog.=) $1"
						  " AND " NCLAIM_SAME("e.message_type", "$2")
						  " AND " NCLAIM_SAME("e.machine", "$3")
						  " AND ($4 IS NULL OR e.on_early OPERATOR(pg_catalog.=) $4)"
						  " AND " NCLAIM_SAME("e.check_function", "$5")
						  " AND " NCLAIM_SAME("e.action_function", "$6")
						  " AND ($7 IS NULL OR e.park_for OPERATOR(pg_catalog.=) $7::pg_catalog.interval)",
						  7, values) > 0;
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
 * check_function, action_function, park_for)
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
	event.park_for = nclaim_interval_arg(fcinfo, 6, "park_for");
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
 * action_function, park_for)
 */
Datum
notify_claim_event_set(PG_FUNCTION_ARGS)
{
	const char *event_type = nclaim_text_arg(fcinfo, 0, "event_type");
	const char *values[6];
	NClaimEvent *event;

	values[0] = event_type;
	values[1] = nclaim_optional_text_arg(fcinfo, 1);
	values[2] = nclaim_optional_text_arg(fcinfo, 2);
	values[3] = function_arg(fcinfo, 3, TEXTOID);
	values[4] = function_arg(fcinfo, 4, VOIDOID);
	values[5] = nclaim_interval_arg(fcinfo, 5, "park_for");
	check_on_early(values[2]);

	nclaim_begin(fcinfo);
	event = owned_event(event_type);
	check_message_type(values[1], event->machine == NULL ? NULL : event->machine->name);
	nclaim_own_run("UPDATE @.notify_event AS e SET "
				   CHANGED("message_type", "$2") ", "
				   "on_early = COALESCE($3, e.on_early), "
				   CHANGED("check_function", "$4") ", "
				   CHANGED("action_function", "$5") ", "
				   "park_for = COALESCE($6::pg_catalog.interval, e.park_for)"
				   " WHERE e.event_type OPERATOR(pg_catalog.=) $1",
				   6, values);
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
	if (event->machine != NULL)
		nclaim_check_nothing_is_parked(event->machine, event_type);
	nclaim_own_run("DELETE FROM @.notify_event WHERE event_type OPERATOR(pg_catalog.=) $1",
				   1, &event_type);
	nclaim_own_run("DELETE FROM @.notify_transition WHERE event_type OPERATOR(pg_catalog.=) $1",
				   1, &event_type);
	if (event->machine != NULL)
		nclaim_check_nothing_is_left(event->machine->name, event_type);
	SPI_finish();
	PG_RETURN_VOID();
}
