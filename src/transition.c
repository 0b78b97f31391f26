/*-------------------------------------------------------------------------
 *
 * transition.c
 *		Declaring transitions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_transition_add);
PG_FUNCTION_INFO_V1(notify_claim_transition_drop);

/* The arguments that name a step, its machine found. */
typedef struct StepArgs
{
	char	   *machine;
	char	   *event_type;		/* or NULL */
	char	   *from_status;	/* or NULL */
	char	   *to_status;		/* or NULL */
} StepArgs;

/* The event's machine, or else the only one there is. */
static char *
default_machine(const char *event_type)
{
	NClaimEvent *event = event_type == NULL ? NULL :
		nclaim_event_find(event_type);
	uint64		machines;

	if (event != NULL && event->machine != NULL)
		return pstrdup(event->machine->name);

	machines = nclaim_own_run("SELECT m.machine FROM @.notify_machine AS m LIMIT 2",
							  0, NULL);
	if (machines != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg(machines == 0 ? "there is no machine yet" :
						"machine must be named: there are several"),
				 errhint(machines == 0 ? "Declare one with notify_machine_add()." :
						 "Pass argument \"machine\".")));
	return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

/*
 * Reads the arguments event_type, from_status, to_status and, as number
 * machine_arg, machine.  The user must own the machine's table.
 */
static void
read_step(FunctionCallInfo fcinfo, int machine_arg, StepArgs *step)
{
	step->event_type = nclaim_optional_text_arg(fcinfo, 0);
	step->from_status = nclaim_optional_text_arg(fcinfo, 1);
	step->to_status = nclaim_optional_text_arg(fcinfo, 2);
	step->machine = nclaim_optional_text_arg(fcinfo, machine_arg);
	if (step->event_type != NULL)
		nclaim_check_event_type(step->event_type);
	if (step->machine == NULL)
		step->machine = default_machine(step->event_type);
	nclaim_owned_machine(step->machine);
}

/*
 * Spells the statuses as they were stored, where the status type still reads
 * them.
 */
static void
respell_step(StepArgs *step)
{
	NClaimMachine *machine = nclaim_machine_find(step->machine);
	NClaimColumn *column = &machine->table.status;
	Datum		value;

	if (machine->problem.sqlerrcode != 0)
		return;
	if (step->from_status != NULL &&
		nclaim_column_reads(column, step->from_status, &value))
		step->from_status = nclaim_column_out(column, value);
	if (step->to_status != NULL &&
		nclaim_column_reads(column, step->to_status, &value))
		step->to_status = nclaim_column_out(column, value);
}

/* A status as the column spells it. */
static char *
spell_status(NClaimMachine *machine, char *status)
{
	NClaimColumn *column = &machine->table.status;

	return status == NULL ? NULL :
		nclaim_column_out(column, nclaim_column_in(column, status));
}

/*
 * Spells the statuses as the column does.  Raises 22023 for a step that says
 * nothing, and what the status type raises for a status that it does not know.
 */
static void
check_step(StepArgs *step, const char *message_type)
{
	NClaimMachine *machine = nclaim_machine_find(step->machine);

	nclaim_problem_raise(&machine->problem);
	step->from_status = spell_status(machine, step->from_status);
	step->to_status = spell_status(machine, step->to_status);
	if (step->event_type == NULL && step->to_status == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step without an event must have a target status")));
	if (step->event_type == NULL && message_type != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step without an event cannot have a message type"),
				 errdetail("Others make the step; no message is written for it.")));
	if (step->from_status != NULL && step->to_status != NULL &&
		strcmp(step->from_status, step->to_status) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("step leads from status \"%s\" to itself", step->from_status),
				 errhint("Pass NULL as to_status for an event that leaves the status as it is.")));
}

/* An event's first transition declares the event. */
static void
require_event_of(const StepArgs *step)
{
	const char *values[2] = {step->event_type, step->machine};
	NClaimEventSettings event = {
		.event_type = step->event_type,.machine = step->machine
	};

	if (!nclaim_event_insert(&event) &&
		nclaim_own_run("SELECT 1 FROM @.notify_event AS e"
					   " WHERE e.event_type OPERATOR(pg_catalog.=) $1"
					   " AND e.machine OPERATOR(pg_catalog.=) $2 FOR KEY SHARE",
					   2, values) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("event type \"%s\" does not belong to machine \"%s\"",
						step->event_type, step->machine),
				 errhint("An event belongs to one machine or to none; drop it with notify_event_drop() first.")));
}

/*
 * notify_transition_add(event_type, from_status, to_status, message_type,
 * machine)
 */
Datum
notify_claim_transition_add(PG_FUNCTION_ARGS)
{
	char	   *message_type = nclaim_optional_text_arg(fcinfo, 3);
	const char *values[5];
	StepArgs	step;

	if (message_type != NULL)
		nclaim_check_not_blank(message_type, "message_type");
	nclaim_begin(fcinfo);
	read_step(fcinfo, 4, &step);
	nclaim_lock_machine(step.machine);
	check_step(&step, message_type);
	if (step.event_type != NULL)
		require_event_of(&step);

	values[0] = step.machine;
	values[1] = step.event_type;
	values[2] = step.from_status;
	values[3] = step.to_status;
	values[4] = message_type;
	if (nclaim_own_run("INSERT INTO @.notify_transition (machine, event_type, from_status, to_status, message_type)"
					   " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
					   5, values) == 0 &&
		nclaim_own_run("SELECT 1 FROM @.notify_transition AS t"
					   " WHERE t.machine OPERATOR(pg_catalog.=) $1"
					   " AND " NCLAIM_SAME("t.event_type", "$2")
					   " AND " NCLAIM_SAME("t.from_status", "$3")
					   " AND " NCLAIM_SAME("t.to_status", "$4")
					   " AND " NCLAIM_SAME("t.message_type", "$5"),
					   5, values) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("event type \"%s\" already has another transition from the same status",
						step.event_type),
				 errhint("Drop that one with notify_transition_drop() first.")));
	nclaim_unpark_machine(step.machine);
	nclaim_machine_notice(step.machine);
	SPI_finish();
	PG_RETURN_VOID();
}

/* Deletes the step as it is spelled; returns whether it was there. */
static bool
delete_step(const StepArgs *step)
{
	const char *values[4] = {
		step->machine, step->event_type, step->from_status, step->to_status
	};

	return nclaim_own_run("DELETE FROM @.notify_transition AS t"
						  " WHERE t.machine OPERATOR(pg_catalog.=) $1"
						  " AND " NCLAIM_SAME("t.event_type", "$2")
						  " AND " NCLAIM_SAME("t.from_status", "$3")
						  " AND " NCLAIM_SAME("t.to_status", "$4"),
						  4, values) > 0;
}

/*
 * Nothing that is parked is closed because of a transition that is gone: the next
 * one may be there in its place.
 */
static void
notice_parked(const char *machine)
{
	Datum		values[2] = {CStringGetTextDatum(machine), (Datum) 0};

	if (nclaim_own_execute(NCLAIM_FIND_PARKED_EVENTS, values, " n",
						   GetLatestSnapshot()) > 0)
		ereport(NOTICE,
				(errmsg("machine \"%s\" has parked events", machine),
				 errdetail("They are classified again when their orders move."),
				 errhint("Run notify_unpark_all() once the transitions are complete.")));
	SPI_freetuptable(SPI_tuptable);
}

/*
 * notify_transition_drop(event_type, from_status, to_status, machine)
 *
 * A status that the type does not know any more can be dropped as it is stored.
 */
Datum
notify_claim_transition_drop(PG_FUNCTION_ARGS)
{
	StepArgs	step;
	bool		dropped;

	nclaim_begin(fcinfo);
	read_step(fcinfo, 3, &step);
	dropped = delete_step(&step);
	if (!dropped)
	{
		respell_step(&step);
		dropped = delete_step(&step);
	}
	if (!dropped)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("machine \"%s\" has no such transition", step.machine)));
	notice_parked(step.machine);
	SPI_finish();
	PG_RETURN_VOID();
}
