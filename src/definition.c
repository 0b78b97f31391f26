/*-------------------------------------------------------------------------
 *
 * definition.c
 *		Reading what is declared about an event or a machine.
 *
 * A definition is read as a whole, under one snapshot, the latest whatever the
 * isolation level.  Reading one may run code of the table's owner (the check of
 * a domain, say), which may call us.  It is therefore built apart, in a context
 * that goes away with the call if something raises, and handed out when it is
 * complete.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "notify_claim.h"

/* The event in row i of FIND_EVENT or FIND_EVENTS. */
static NClaimEvent *
make_event(NClaimMachine *machine, SPITupleTable *rows, uint64 i)
{
	NClaimEvent *event = palloc0(sizeof(NClaimEvent));
	const char *on_early;
	Datum		park_for;
	bool		isnull;

	event->machine = machine;
	event->event_type = nclaim_own_text(rows, i, 2);
	event->message_type = nclaim_own_text(rows, i, 3);
	on_early = nclaim_own_text(rows, i, 4);
	event->on_early = strcmp(on_early, "park") == 0 ? NCLAIM_PARK :
		strcmp(on_early, "skip") == 0 ? NCLAIM_SKIP : NCLAIM_RETRY;
	event->check.function = nclaim_own_text(rows, i, 5);
	event->action.function = nclaim_own_text(rows, i, 6);
	park_for = SPI_getbinval(rows->vals[i], rows->tupdesc, 7, &isnull);
	event->park_for = *DatumGetIntervalP(park_for);
	return event;
}

/*
 * Runs a statement with one parameter under the snapshot; the current context
 * is the definition's again afterwards.
 */
static uint64
read_rows(NClaimDefinition *definition, NClaimOwnStatement statement,
		  const char *parameter, Snapshot snapshot)
{
	Datum		value = CStringGetTextDatum(parameter);
	uint64		nrows = nclaim_own_execute(statement, &value, NULL, snapshot);

	MemoryContextSwitchTo(definition->context);
	return nrows;
}

/*
 * Reads the events and transitions of the definition's machine.  What is read
 * goes to the definition's context, which is the current one.
 */
static void
read_parts(NClaimDefinition *definition, Snapshot snapshot)
{
	NClaimMachine *machine = definition->machine;
	SPITupleTable *rows;
	uint64		nrows;

	nrows = read_rows(definition, NCLAIM_FIND_EVENTS, machine->name, snapshot);
	rows = SPI_tuptable;
	for (uint64 i = 0; i < nrows; i++)
		definition->events = lappend(definition->events,
									 make_event(machine, rows, i));
	SPI_freetuptable(rows);

	nrows = read_rows(definition, NCLAIM_FIND_TRANSITIONS, machine->name, snapshot);
	rows = SPI_tuptable;
	for (uint64 i = 0; i < nrows; i++)
	{
		NClaimStep *step = palloc(sizeof(NClaimStep));

		step->event_type = nclaim_own_text(rows, i, 1);
		step->from_status = nclaim_own_text(rows, i, 2);
		step->to_status = nclaim_own_text(rows, i, 3);
		step->message_type = nclaim_own_text(rows, i, 4);
		definition->steps = lappend(definition->steps, step);
	}
	SPI_freetuptable(rows);
}

/* Reads a machine, with all that belongs to it.  False: there is none. */
static bool
read_machine(NClaimDefinition *definition, const char *name, Snapshot snapshot,
			 Oid *declared)
{
	NClaimMachine *machine = palloc0(sizeof(NClaimMachine));
	SPITupleTable *rows;
	bool		isnull;

	if (read_rows(definition, NCLAIM_FIND_MACHINE, name, snapshot) == 0)
		return false;
	rows = SPI_tuptable;
	machine->name = pstrdup(name);
	*declared = DatumGetObjectId(SPI_getbinval(rows->vals[0], rows->tupdesc, 1,
											   &isnull));
	machine->table_name = nclaim_own_text(rows, 0, 2);
	machine->order_column = nclaim_own_text(rows, 0, 3);
	machine->status_column = nclaim_own_text(rows, 0, 4);
	SPI_freetuptable(rows);

	definition->machine = machine;
	read_parts(definition, snapshot);
	return true;
}

/* Stands for the machine of an event that was deleted by plain DML. */
static NClaimMachine *
missing_machine(char *name, const char *event_type)
{
	NClaimMachine *machine = palloc0(sizeof(NClaimMachine));

	machine->name = name;
	machine->problem.sqlerrcode = ERRCODE_UNDEFINED_OBJECT;
	machine->problem.message = psprintf("machine \"%s\" of event type \"%s\" does not exist",
										name, event_type);
	machine->problem.hint = "Declare the machine again, or drop the event with notify_event_drop().";
	return machine;
}

/*
 * Reads an event's definition: its machine's, or else its own.  False: there is
 * no such event.
 */
static bool
read_event(NClaimDefinition *definition, const char *event_type, Snapshot snapshot,
		   Oid *declared)
{
	SPITupleTable *rows;
	char	   *machine;

	if (read_rows(definition, NCLAIM_FIND_EVENT, event_type, snapshot) == 0)
		return false;
	rows = SPI_tuptable;
	machine = nclaim_own_text(rows, 0, 1);
	if (machine != NULL && read_machine(definition, machine, snapshot, declared))
		return true;
	if (machine != NULL)
		definition->machine = missing_machine(machine, event_type);
	definition->events = list_make1(make_event(definition->machine, rows, 0));
	SPI_freetuptable(rows);
	return true;
}

/* Finds and describes the order table of a machine that was read. */
static void
describe_table(NClaimDefinition *definition, Oid declared)
{
	NClaimMachine *machine = definition->machine;
	NClaimOrderTable *table = &machine->table;

	nclaim_resolve_table(machine, declared);
	if (!OidIsValid(machine->relid))
		return;
	nclaim_order_describe(table, machine->relid, machine->order_column,
						  machine->status_column, &machine->problem);
	if (table->key_known)
		definition->type_hash[0] =
			GetSysCacheHashValue1(TYPEOID, ObjectIdGetDatum(table->key.type));
	if (machine->problem.sqlerrcode == 0)
		definition->type_hash[1] =
			GetSysCacheHashValue1(TYPEOID, ObjectIdGetDatum(table->status.type));
}

/*
 * Reads the definition of an event or, where event_type is NULL, of a machine.
 * Returns NULL where there is none.  It is the caller's to free.  A table that
 * cannot be used is no error.
 */
NClaimDefinition *
nclaim_definition_read(const char *event_type, const char *name)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "notify_claim definition",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	NClaimDefinition *definition = palloc0(sizeof(NClaimDefinition));
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	Oid			declared = InvalidOid;
	bool		found;

	definition->context = context;
	found = event_type != NULL ?
		read_event(definition, event_type, snapshot, &declared) :
		read_machine(definition, name, snapshot, &declared);
	UnregisterSnapshot(snapshot);
	if (found && OidIsValid(declared))
		describe_table(definition, declared);
	MemoryContextSwitchTo(caller);

	if (!found)
	{
		MemoryContextDelete(context);
		return NULL;
	}
	MemoryContextSetParent(context, TopMemoryContext);
	return definition;
}

/* Names the machine whose status the column's type refuses. */
static void
transition_context(void *arg)
{
	errcontext("transitions of machine \"%s\"", ((NClaimMachine *) arg)->name);
}

/*
 * Makes the graph of a usable machine.  Raises what the status type's input
 * function raises for a status that it does not know any more, and 42710 where
 * transitions contradict each other.
 */
void
nclaim_definition_make_graph(NClaimDefinition *definition)
{
	NClaimMachine *machine = definition->machine;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "notify_claim graph",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	ErrorContextCallback callback;
	NClaimGraph *graph;
	ListCell   *cell;

	callback.callback = transition_context;
	callback.arg = machine;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	graph = nclaim_graph_make(&machine->table.status,
							  list_length(definition->steps));
	foreach(cell, definition->steps)
	{
		NClaimStep *step = lfirst(cell);

		nclaim_graph_edge(graph, step->event_type, step->from_status,
						  step->to_status, step->message_type);
	}
	nclaim_graph_close(graph);
	error_context_stack = callback.previous;
	MemoryContextSwitchTo(caller);

	MemoryContextSetParent(context, definition->context);
	machine->graph = graph;
}

/* Frees a definition and its plans; nobody may be using them. */
void
nclaim_definition_free(NClaimDefinition *definition)
{
	ListCell   *cell;

	foreach(cell, definition->events)
	{
		NClaimEvent *event = lfirst(cell);

		nclaim_plan_free(&event->check.plan);
		nclaim_plan_free(&event->action.plan);
	}
	if (definition->machine != NULL)
		nclaim_order_free(&definition->machine->table);
	MemoryContextDelete(definition->context);
}
