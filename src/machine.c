/*-------------------------------------------------------------------------
 *
 * machine.c
 *		Events and state machines as declared, cached.
 *
 * A definition is what is decided by together: a machine with its events and
 * transitions, or an event without a machine.  It is read as a whole, under
 * one snapshot, the latest whatever the isolation level, and its order table
 * is described.  It is marked invalid by whatever may have changed it: a write
 * to notify_machine, notify_event or notify_transition (their triggers send a
 * relcache invalidation), DDL on the order table or one of its partitions, a
 * change to an enum, a type, an operator or a collation that its statements
 * name; and by a table that takes the name of the order table.  So nobody goes
 * by a definition older than the last one committed.
 *
 * Reading one may run code of the table's owner (the check of a domain, say),
 * which may call us.  A definition is therefore built apart, in a context that
 * goes away with the call if it raises, and linked into the cache when it is
 * complete.  One that is dropped is freed when the last call has ended, so
 * pointers into it stay good; after any statement they may be out of date, and
 * the event has to be found again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "notify_claim.h"

/* Longest key: 158 characters of up to four bytes, and the zero. */
#define NAME_BYTES	640

typedef struct Definition
{
	dlist_node	node;			/* in "definitions", once it is linked */
	MemoryContext context;		/* holds all of it */
	bool		valid;
	uint64		checked;		/* when the table's name was looked up */
	NClaimMachine *machine;		/* NULL: an event without one; without a
								 * table_name: missing */
	List	   *events;			/* of NClaimEvent */
	List	   *steps;			/* of Step, as text */
	uint32		type_hash[2];	/* of the key's and the status's type */
} Definition;

typedef struct Step
{
	char	   *event_type;
	char	   *from_status;
	char	   *to_status;
	char	   *message_type;
} Step;

typedef struct Entry
{
	char		name[NAME_BYTES];	/* hash key */
	Definition *definition;
	NClaimEvent *event;			/* NULL in the table of machines */
} Entry;

static dlist_head definitions = DLIST_STATIC_INIT(definitions);
static HTAB *events = NULL;
static HTAB *machines = NULL;

/* Rises with every invalidation that may concern a definition. */
static uint64 changes = 1;

/* Rises with every relcache invalidation: a table may have taken a name. */
static uint64 relation_changes = 1;

/* All definitions are to be read again. */
void
nclaim_machine_invalidate(void)
{
	dlist_iter	iter;

	changes++;
	dlist_foreach(iter, &definitions)
		dlist_container(Definition, node, iter.cur)->valid = false;
}

/*
 * DDL on an order table, or one of its partitions.  Where there is a problem,
 * any relation may be what it depends on.
 */
static void
relation_changed(Datum arg, Oid relid)
{
	dlist_iter	iter;

	changes++;
	relation_changes++;
	dlist_foreach(iter, &definitions)
	{
		Definition *definition = dlist_container(Definition, node, iter.cur);
		NClaimMachine *machine = definition->machine;

		if (machine != NULL &&
			(!OidIsValid(relid) || machine->problem.sqlerrcode != 0 ||
			 list_member_oid(machine->table.relids, relid)))
			definition->valid = false;
	}
}

static void
type_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	dlist_iter	iter;

	changes++;
	dlist_foreach(iter, &definitions)
	{
		Definition *definition = dlist_container(Definition, node, iter.cur);

		if (hashvalue == 0 || hashvalue == definition->type_hash[0] ||
			hashvalue == definition->type_hash[1])
			definition->valid = false;
	}
}

static void
catalog_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	nclaim_machine_invalidate();
}

/*
 * Registers for invalidations; called once, when the library is loaded.
 */
void
nclaim_machine_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPEOID, type_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(ENUMOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(OPEROID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(COLLOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, catalog_changed, (Datum) 0);
}

/* Column n of row i of what was read, or NULL; in the current context. */
static char *
text_of(SPITupleTable *rows, uint64 i, int n)
{
	char	   *text = SPI_getvalue(rows->vals[i], rows->tupdesc, n);

	return text == NULL ? NULL : pstrdup(text);
}

static NClaimEvent *
make_event(NClaimMachine *machine, char *event_type, char *message_type,
		   const char *on_early)
{
	NClaimEvent *event = palloc0(sizeof(NClaimEvent));

	event->machine = machine;
	event->event_type = event_type;
	event->message_type = message_type;
	event->skip_early = strcmp(on_early, "skip") == 0;
	return event;
}

/*
 * Runs a statement with one parameter under the snapshot; the current context
 * is the definition's again afterwards.
 */
static uint64
read_rows(Definition *definition, NClaimOwnStatement statement,
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
read_parts(Definition *definition, Snapshot snapshot)
{
	NClaimMachine *machine = definition->machine;
	SPITupleTable *rows;
	uint64		nrows;

	nrows = read_rows(definition, NCLAIM_FIND_EVENTS, machine->name, snapshot);
	rows = SPI_tuptable;
	for (uint64 i = 0; i < nrows; i++)
		definition->events = lappend(definition->events,
									 make_event(machine, text_of(rows, i, 1),
												text_of(rows, i, 2),
												text_of(rows, i, 3)));
	SPI_freetuptable(rows);

	nrows = read_rows(definition, NCLAIM_FIND_TRANSITIONS, machine->name, snapshot);
	rows = SPI_tuptable;
	for (uint64 i = 0; i < nrows; i++)
	{
		Step	   *step = palloc(sizeof(Step));

		step->event_type = text_of(rows, i, 1);
		step->from_status = text_of(rows, i, 2);
		step->to_status = text_of(rows, i, 3);
		step->message_type = text_of(rows, i, 4);
		definition->steps = lappend(definition->steps, step);
	}
	SPI_freetuptable(rows);
}

/* Reads a machine, with all that belongs to it.  False: there is none. */
static bool
read_machine(Definition *definition, const char *name, Snapshot snapshot,
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
	machine->table_name = text_of(rows, 0, 2);
	machine->order_column = text_of(rows, 0, 3);
	machine->status_column = text_of(rows, 0, 4);
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
read_event(Definition *definition, const char *event_type, Snapshot snapshot,
		   Oid *declared)
{
	SPITupleTable *rows;
	char	   *machine;

	if (read_rows(definition, NCLAIM_FIND_EVENT, event_type, snapshot) == 0)
		return false;
	rows = SPI_tuptable;
	machine = text_of(rows, 0, 1);
	if (machine != NULL && read_machine(definition, machine, snapshot, declared))
		return true;
	if (machine != NULL)
		definition->machine = missing_machine(machine, event_type);
	definition->events = list_make1(make_event(definition->machine,
											   pstrdup(event_type),
											   text_of(rows, 0, 2),
											   text_of(rows, 0, 3)));
	return true;
}

/* Finds and describes the order table of a machine that was read. */
static void
describe_table(Definition *definition, Oid declared)
{
	NClaimMachine *machine = definition->machine;
	NClaimOrderTable *table = &machine->table;

	definition->checked = relation_changes;
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

static void
release_definition(void *arg)
{
	Definition *definition = arg;

	if (definition->machine != NULL)
		nclaim_order_free(&definition->machine->table);
	MemoryContextDelete(definition->context);
}

static void
forget(HTAB *table, const char *name, const Definition *definition)
{
	Entry	   *entry = hash_search(table, name, HASH_FIND, NULL);

	if (entry != NULL && entry->definition == definition)
		(void) hash_search(table, name, HASH_REMOVE, NULL);
}

/* Takes a definition out of the cache. */
static void
drop(Definition *definition)
{
	ListCell   *cell;

	foreach(cell, definition->events)
		forget(events, ((NClaimEvent *) lfirst(cell))->event_type, definition);
	if (definition->machine != NULL)
		forget(machines, definition->machine->name, definition);
	dlist_delete(&definition->node);
	nclaim_retire(release_definition, definition);
}

/* Enters a name; whatever was cached under it goes. */
static void
enter(HTAB *table, const char *name, Definition *definition, NClaimEvent *event)
{
	Entry	   *entry = hash_search(table, name, HASH_FIND, NULL);

	if (entry != NULL)
		drop(entry->definition);
	entry = hash_search(table, name, HASH_ENTER, NULL);
	entry->definition = definition;
	entry->event = event;
}

static HTAB *
make_index(const char *name)
{
	HASHCTL		ctl;

	ctl.keysize = NAME_BYTES;
	ctl.entrysize = sizeof(Entry);
	ctl.hcxt = TopMemoryContext;
	return hash_create(name, 16, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/* Makes a complete definition part of the cache. */
static void
link_definition(Definition *definition)
{
	ListCell   *cell;

	if (events == NULL)
		events = make_index("notify_claim events");
	if (machines == NULL)
		machines = make_index("notify_claim machines");

	MemoryContextSetParent(definition->context, TopMemoryContext);
	dlist_push_head(&definitions, &definition->node);
	foreach(cell, definition->events)
		enter(events, ((NClaimEvent *) lfirst(cell))->event_type, definition,
			  lfirst(cell));
	if (definition->machine != NULL && definition->machine->table_name != NULL)
		enter(machines, definition->machine->name, definition, NULL);
}

/*
 * Reads the definition of an event or, where event_type is NULL, of a machine,
 * and caches it.  Returns NULL where there is none.
 */
static Definition *
load(const char *event_type, const char *name)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "notify_claim definition",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Definition *definition = palloc0(sizeof(Definition));
	uint64		before = changes;
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
	definition->valid = changes == before;
	link_definition(definition);
	return definition;
}

/* The cached definition, unless something has come in that concerns it. */
static Definition *
cached(HTAB *table, const char *name, NClaimEvent **event)
{
	Entry	   *entry = table == NULL ? NULL :
		hash_search(table, name, HASH_FIND, NULL);
	Definition *definition;

	if (entry == NULL)
		return NULL;
	definition = entry->definition;
	if (definition->machine != NULL && definition->machine->table_name != NULL &&
		definition->checked != relation_changes)
	{
		definition->checked = relation_changes;
		if (nclaim_table_by_name(definition->machine->table_name) !=
			definition->machine->named)
			definition->valid = false;
	}
	if (!definition->valid)
		return NULL;
	*event = entry->event;
	return definition;
}

static Definition *
find_event(const char *event_type, NClaimEvent **event)
{
	Definition *definition;
	ListCell   *cell;

	AcceptInvalidationMessages();
	definition = cached(events, event_type, event);
	if (definition != NULL)
		return definition;
	definition = load(event_type, NULL);
	if (definition == NULL)
		return NULL;
	foreach(cell, definition->events)
	{
		*event = lfirst(cell);
		if (strcmp((*event)->event_type, event_type) == 0)
			return definition;
	}
	elog(ERROR, "event type \"%s\" is not one of its machine's", event_type);
}

/* Raises 42704 where there is none. */
static Definition *
find_machine(const char *name)
{
	NClaimEvent *event;
	Definition *definition;

	AcceptInvalidationMessages();
	definition = cached(machines, name, &event);
	if (definition == NULL)
		definition = load(NULL, name);
	if (definition == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("machine \"%s\" does not exist", name)));
	return definition;
}

/*
 * Returns the event of that type as last committed, or NULL if there is none.
 * A machine whose table cannot be used is no error here.
 */
NClaimEvent *
nclaim_event_find(const char *event_type)
{
	NClaimEvent *event;

	return find_event(event_type, &event) == NULL ? NULL : event;
}

/*
 * Returns the machine of that name as last committed.  Raises 42704 if there is
 * none; one whose table cannot be used is no error here.
 */
NClaimMachine *
nclaim_machine_find(const char *name)
{
	return find_machine(name)->machine;
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
static void
make_graph(Definition *definition)
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
		Step	   *step = lfirst(cell);

		nclaim_graph_edge(graph, step->event_type, step->from_status,
						  step->to_status, step->message_type);
	}
	nclaim_graph_close(graph);
	error_context_stack = callback.previous;
	MemoryContextSwitchTo(caller);

	MemoryContextSetParent(context, definition->context);
	machine->graph = graph;
}

/*
 * Raises what keeps the user or anybody from using the machine's table, or
 * locks it and makes the graph.  Returns false where DDL may have come in
 * between the reading of the definition and the lock: *locked is then the
 * table, and when the same one is found again it was read under the lock.
 */
static bool
make_ready(Definition *definition, Oid *locked)
{
	NClaimMachine *machine = definition->machine;
	bool		read_under_lock;

	nclaim_problem_raise(&machine->problem);
	if (!nclaim_may_use_schema(machine->table.nspoid, GetUserId()))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_SCHEMA,
					   get_namespace_name(machine->table.nspoid));
	read_under_lock = *locked == machine->relid;
	*locked = machine->relid;
	LockRelationOid(machine->relid, RowShareLock);
	if (!definition->valid && !read_under_lock)
		return false;
	if (machine->graph == NULL)
		make_graph(definition);
	return true;
}

/*
 * Like nclaim_event_find(), and the event's machine, if it has one, is ready
 * to be used: its table is locked against DDL until the transaction ends, and
 * its graph is there.  Raises what keeps the table from being used, and what
 * is wrong with the transitions.
 */
NClaimEvent *
nclaim_event_ready(const char *event_type)
{
	Oid			locked = InvalidOid;
	NClaimEvent *event;
	Definition *definition;

	do
	{
		definition = find_event(event_type, &event);
		if (definition == NULL)
			return NULL;
	} while (definition->machine != NULL && !make_ready(definition, &locked));
	return event;
}

/* The same for a machine. */
NClaimMachine *
nclaim_machine_ready(const char *name)
{
	Oid			locked = InvalidOid;
	Definition *definition;

	do
	{
		definition = find_machine(name);
	} while (!make_ready(definition, &locked));
	return definition->machine;
}
