/*-------------------------------------------------------------------------
 *
 * parked.c
 *		What people and cron do about parked events, and skipped ones.
 *
 * All of it works on the order as the owner of its table, and takes the locks in
 * the order of everywhere: order row, claim, review.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_unpark);
PG_FUNCTION_INFO_V1(notify_claim_unpark_all);
PG_FUNCTION_INFO_V1(notify_claim_parked_close);
PG_FUNCTION_INFO_V1(notify_claim_reopen);

/* Begins a function that may move orders; *start is the time. */
static int
begin(FunctionCallInfo fcinfo, instr_time *start)
{
	INSTR_TIME_SET_CURRENT(*start);
	nclaim_begin(fcinfo);
	nclaim_park_enter();
	return nclaim_limit_waits();
}

/*
 * Locks an order's row, waiting for others until the deadline.  Returns false
 * where there is none, with *row unset; raises 55P03.
 */
static bool
lock_order(NClaimOrderTable *table, const char *order_no, instr_time start,
		   NClaimOrderRow *row)
{
	Datum		key = nclaim_column_in(&table->key, order_no);
	long		sleep_us = 0;

	while (!nclaim_order_lock(table, key, row))
	{
		if (!nclaim_order_exists(table, key))
			return false;
		if (nclaim_time_left(start) <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not obtain lock on order \"%s\" in time", order_no),
					 errhint("Another transaction holds it; try again.")));
		nclaim_wait_for_order(&sleep_us, start);
	}
	return true;
}

/*
 * Does that as the owner of the machine's table, where there is a machine that
 * can be used.  Returns the row's status as text, or NULL.
 */
static char *
lock_order_of(const char *name, const char *order_no, instr_time start)
{
	NClaimMachine *machine;
	NClaimOwner before;
	NClaimOrderRow row = {0};

	if (name == NULL || nclaim_machine_find(name)->problem.sqlerrcode != 0)
		return NULL;
	nclaim_owner_enter(nclaim_machine_find(name), &before);
	machine = nclaim_machine_ready(name);
	(void) lock_order(&machine->table, order_no, start, &row);
	nclaim_owner_leave(&before);
	return row.status_text;
}

/* The order number as the key's type spells it, read as the table's owner. */
static const char *
spell_order_no(const char *name, const char *order_no)
{
	NClaimMachine *machine = nclaim_machine_find(name);
	NClaimOwner before;
	Datum		key;

	nclaim_problem_raise(&machine->problem);
	nclaim_owner_enter(machine, &before);
	key = nclaim_column_in(&machine->table.key, order_no);
	order_no = nclaim_column_out(&machine->table.key, key);
	nclaim_owner_leave(&before);
	return order_no;
}

/* Releases what is parked for the order number, as it may be spelled. */
static int64
unpark(const char *name, const char *order_no, instr_time start)
{
	bool		changed = false;

	order_no = spell_order_no(name, order_no);
	(void) lock_order_of(name, order_no, start);
	nclaim_park_note(nclaim_machine_find(name)->relid, order_no, true);
	return nclaim_park_drain(start, &changed);
}

/*
 * The machines that have something parked under this number as it is stored, or,
 * if there is none, the only one that has anything parked.
 */
static SPITupleTable *
find_machines(const char *order_no, uint64 *count)
{
	Datum		value = CStringGetTextDatum(order_no);

	*count = nclaim_own_execute(NCLAIM_FIND_PARKED_MACHINES, &value, NULL,
								GetLatestSnapshot());
	if (*count == 0)
	{
		*count = nclaim_own_execute(NCLAIM_FIND_PARKED_MACHINES, &value, "n",
									GetLatestSnapshot());
		if (*count > 1)
			*count = 0;
	}
	return SPI_tuptable;
}

/*
 * notify_unpark(order_no, machine).  Without a machine: all that have something
 * parked under this number.  Raises 42704 for an unknown machine, 55P03 where the
 * order is held for too long.
 */
Datum
notify_claim_unpark(PG_FUNCTION_ARGS)
{
	const char *order_no = nclaim_text_arg(fcinfo, 0, "order_no");
	char	   *name = nclaim_optional_text_arg(fcinfo, 1);
	instr_time	start;
	int			nestlevel = begin(fcinfo, &start);
	int64		applied = 0;

	if (name != NULL)
		applied = unpark(name, order_no, start);
	else
	{
		uint64		nrows;
		SPITupleTable *rows = find_machines(order_no, &nrows);

		for (uint64 i = 0; i < nrows; i++)
			applied += unpark(nclaim_own_text(rows, i, 1), order_no, start);
	}
	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	PG_RETURN_INT64(applied);
}

/* Tells once that a machine's orders are passed over. */
static void
pass_over(NClaimUnparking *unparking, const char *name)
{
	MemoryContext caller = MemoryContextSwitchTo(unparking->context);
	String	   *node = makeString(pstrdup(name));

	if (!list_member(unparking->passed_over, node))
	{
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("what is parked for machine \"%s\" was passed over", name),
				 errdetail("The table that it was declared for does not exist any more."),
				 errhint("Confirm the table of that name with notify_machine_set().")));
		unparking->passed_over = lappend(unparking->passed_over, node);
	}
	MemoryContextSwitchTo(caller);
}

/*
 * The orders of a machine, or of all where name is NULL, for which something is
 * parked, the longest parked first; of NClaimParkedOrder, in the current memory
 * context.  Needs an SPI connection.
 */
List *
nclaim_parked_orders(const char *name)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum		value = name == NULL ? (Datum) 0 : CStringGetTextDatum(name);
	uint64		nrows = nclaim_own_execute(NCLAIM_FIND_PARKED_ORDERS, &value,
										   name == NULL ? "n" : " ", GetLatestSnapshot());
	SPITupleTable *rows = SPI_tuptable;
	List	   *orders = NIL;

	MemoryContextSwitchTo(caller);
	for (uint64 i = 0; i < nrows; i++)
	{
		NClaimParkedOrder *order = palloc(sizeof(NClaimParkedOrder));

		order->machine = nclaim_own_text(rows, i, 1);
		order->order_no = nclaim_own_text(rows, i, 2);
		orders = lappend(orders, order);
	}
	SPI_freetuptable(rows);
	return orders;
}

/*
 * Releases what is parked for the order; "closes" says whether what has become
 * stale is closed.  An order that another transaction holds is passed over.
 * Returns how many were applied; sets *changed where anything was.
 */
static int64
unpark_order(NClaimUnparking *unparking, const NClaimParkedOrder *order,
			 bool closes, instr_time start, bool *changed)
{
	NClaimMachine *machine = nclaim_machine_find(order->machine);

	if (!OidIsValid(machine->relid) || machine->by_name)
	{
		pass_over(unparking, machine->name);
		return 0;
	}
	nclaim_park_note(machine->relid, order->order_no, closes);
	return nclaim_park_drain(start, changed);
}

/*
 * Does that for all orders of a machine, or of all where name is NULL, until
 * something has changed for so many.
 */
static int64
unpark_many(const char *name, int max_orders, bool closes, instr_time start)
{
	NClaimUnparking unparking = {CurrentMemoryContext};
	int64		applied = 0;
	ListCell   *cell;

	foreach(cell, nclaim_parked_orders(name))
	{
		bool		changed = false;

		applied += unpark_order(&unparking, lfirst(cell), closes, start, &changed);
		max_orders -= changed;
		if (max_orders == 0)
			break;
	}
	return applied;
}

/*
 * Applies what has become legal of what is parked for the machine, after its
 * declaration has changed.  Nothing is closed: the next change of the declaration
 * may make that legal.  Needs an SPI connection.
 */
void
nclaim_unpark_machine(const char *name)
{
	instr_time	start;
	int			nestlevel;

	INSTR_TIME_SET_CURRENT(start);
	nclaim_park_enter();
	nestlevel = nclaim_limit_waits();
	(void) unpark_many(name, PG_INT32_MAX, false, start);
	AtEOXact_GUC(true, nestlevel);
}

/*
 * Releases what is parked for one order, and closes what has become stale, as a
 * call of its own.  Returns how many were applied.
 */
int64
nclaim_unpark_parked(FunctionCallInfo fcinfo, NClaimUnparking *unparking,
					 const NClaimParkedOrder *order)
{
	instr_time	start;
	int			nestlevel = begin(fcinfo, &start);
	bool		changed = false;
	int64		applied = unpark_order(unparking, order, true, start, &changed);

	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	return applied;
}

/*
 * notify_unpark_all(max_orders)
 */
Datum
notify_claim_unpark_all(PG_FUNCTION_ARGS)
{
	int			max_orders = PG_ARGISNULL(0) ? PG_INT32_MAX : PG_GETARG_INT32(0);
	instr_time	start;
	int			nestlevel;
	int64		applied;

	if (max_orders < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be positive", "max_orders")));
	nestlevel = begin(fcinfo, &start);
	applied = unpark_many(NULL, max_orders, true, start);
	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	PG_RETURN_INT64(applied);
}

/* Reads a claim of a state and outcome.  Raises 42704 or 55000. */
static void
read_claim(int64 id, const char *outcome, NClaimNotice *notice)
{
	char	   *state;

	if (!nclaim_claim_read(id, notice, &state))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("claim " INT64_FORMAT " does not exist", id)));
	if (strcmp(notice->claim_outcome, outcome) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("claim " INT64_FORMAT " is not %s, but %s", id, outcome,
						notice->claim_outcome)));
}

/* Records who decided what about a claim. */
static void
record_decision(int64 claim, const char *verb, const char *note)
{
	const char *values[] = {
		psprintf(INT64_FORMAT, claim), verb,
		GetUserNameFromId(GetUserId(), false), note
	};

	nclaim_own_run("INSERT INTO @.notify_decision (claim, verb, who, at, note)"
				   " VALUES ($1::pg_catalog.int8, $2, $3, pg_catalog.clock_timestamp(), $4)",
				   lengthof(values), values);
}

static void
raise_changed(int64 claim)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("claim " INT64_FORMAT " was changed meanwhile", claim),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * notify_parked_close(claim, note).  Raises 42704 for an unknown claim, 55000 for
 * one that is not parked, 55P03 where its order is held for too long.
 */
Datum
notify_claim_parked_close(PG_FUNCTION_ARGS)
{
	NClaimNotice notice;
	NClaimAnswer answer = {0};
	NClaimEvent *event;
	instr_time	start;
	int			nestlevel;
	char	   *note;
	char	   *status;

	nclaim_require_arg(fcinfo, 0, "claim");
	note = nclaim_text_arg(fcinfo, 1, "note");
	nclaim_check_not_blank(note, "note");
	nestlevel = begin(fcinfo, &start);
	read_claim(PG_GETARG_INT64(0), "PARKED", &notice);
	event = nclaim_event_find(notice.event_type);
	status = lock_order_of(event == NULL || event->machine == NULL ? NULL :
						   event->machine->name, notice.order_no, start);
	if (!nclaim_apply_skip(&notice, status, "closed", &answer))
		raise_changed(notice.claim);
	record_decision(notice.claim, "CLOSE", note);
	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	PG_RETURN_VOID();
}

/* Takes the body that is given, or sees to it that there is one. */
static void
take_body(FunctionCallInfo fcinfo, int n, NClaimNotice *notice)
{
	NClaimEvent *event = nclaim_event_find(notice->event_type);
	NClaimDigest digest;

	if (!PG_ARGISNULL(n))
	{
		notice->body = nclaim_body_arg(fcinfo, n, false, &notice->length);
		nclaim_rule_digest(notice->rule, notice->body, notice->length, &digest, NULL);
		if (!nclaim_digest_same(&digest, &notice->digest))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the body given is not that of claim " INT64_FORMAT,
							notice->claim)));
		return;
	}
	if (event != NULL &&
		(event->check.function != NULL || event->action.function != NULL))
		nclaim_claim_need_body(notice);
}

/* The review of an event that was given up has nothing left to decide. */
static void
close_expired(int64 claim)
{
	const char *value = psprintf(INT64_FORMAT, claim);

	nclaim_own_run("UPDATE @.notify_review AS r SET state = 'OVERTAKEN',"
				   " resolved_at = pg_catalog.clock_timestamp()"
				   " WHERE r.claim OPERATOR(pg_catalog.=) $1::pg_catalog.int8"
				   " AND r.kind OPERATOR(pg_catalog.=) 'PARKED_EXPIRED'"
				   " AND r.state OPERATOR(pg_catalog.=) 'OPEN'",
				   1, &value);
}

/*
 * notify_reopen(claim, note, raw_body, data).  Returns the outcome; one that
 * leaves the claim as it was records nothing.  Raises 42704 for an unknown claim,
 * 55000 for one that was not skipped or whose body is needed and missing, 22023
 * for another body.
 */
Datum
notify_claim_reopen(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	NClaimNotice notice;
	NClaimAnswer answer;
	instr_time	start;
	int			nestlevel;
	char	   *note;
	char	   *outcome;
	bool		changed = false;

	nclaim_require_arg(fcinfo, 0, "claim");
	note = nclaim_text_arg(fcinfo, 1, "note");
	nclaim_check_not_blank(note, "note");
	nestlevel = begin(fcinfo, &start);
	read_claim(PG_GETARG_INT64(0), "SKIPPED", &notice);
	notice.start = start;
	nclaim_claim_read_body(&notice);
	take_body(fcinfo, 2, &notice);
	if (!PG_ARGISNULL(3))
		notice.data = PG_GETARG_JSONB_P(3);
	if (notice.settings == NULL)
		notice.settings = nclaim_channel_find(notice.channel);
	nclaim_process_as_owner(&notice, &answer);
	if (answer.claim != 0)
	{
		close_expired(notice.claim);
		record_decision(notice.claim, "REOPEN", note);
	}
	nclaim_park_drain(start, &changed);
	AtEOXact_GUC(true, nestlevel);
	outcome = MemoryContextStrdup(caller, answer.outcome);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(outcome));
}
