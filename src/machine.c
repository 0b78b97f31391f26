/*-------------------------------------------------------------------------
 *
 * machine.c
 *		Events and state machines as declared, cached.
 *
 * The cache is filled entry by entry, and dropped as a whole by whatever may
 * have changed it: a write to notify_machine, notify_event or
 * notify_transition (their statement triggers send a relcache invalidation),
 * DDL on one of the order tables, a change to an enum.  An entry is read
 * under the latest snapshot, whatever the isolation level, and is of no use
 * once an invalidation has come in since the cache was begun: nobody ever
 * goes by a definition older than the last one committed.
 *
 * Pointers into the cache stay good until the transaction ends, because what
 * is dropped is freed only then: a user's trigger may call us again while an
 * outer call still executes one of the plans.  They may be out of date after
 * any statement: find the event again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "notify_claim.h"

/* How often a definition is read again when it changes meanwhile. */
#define MAX_ATTEMPTS	3

/* Longest key: 158 characters of up to four bytes, and the zero. */
#define NAME_BYTES	640

typedef struct EventEntry
{
	char		name[NAME_BYTES];	/* hash key */
	NClaimEvent *event;			/* NULL: not loaded */
} EventEntry;

typedef struct MachineEntry
{
	char		name[NAME_BYTES];	/* hash key */
	NClaimMachine *machine;		/* NULL: not loaded */
} MachineEntry;

static uint64 epoch = 1;		/* rises when the cache is out of date */
static uint64 relation_changes = 1; /* rises with every relcache invalidation */

typedef struct Cache
{
	MemoryContext context;
	uint64		epoch;			/* when the cache was begun */
	HTAB	   *events;
	HTAB	   *machines;
	List	   *loaded;			/* of NClaimMachine */
} Cache;

static Cache *cache = NULL;		/* lives in its own context */

/* Drops the cache at the next look-up. */
void
nclaim_machine_invalidate(void)
{
	epoch++;
}

/*
 * DDL on an order table.  Where a machine has none, any relation may be the
 * one that it lacks.
 */
static void
relation_changed(Datum arg, Oid relid)
{
	ListCell   *cell;

	relation_changes++;
	if (cache == NULL)
		return;
	foreach(cell, cache->loaded)
	{
		NClaimMachine *machine = lfirst(cell);

		if (!OidIsValid(relid) || machine->table == NULL ||
			machine->table->relid == relid)
			epoch++;
	}
}

static void
catalog_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	epoch++;
}

/*
 * Registers for invalidations; called once, when the library is loaded.
 */
void
nclaim_machine_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(ENUMOID, catalog_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, catalog_changed, (Datum) 0);
}

/* Frees a cache that nobody can be using any more. */
static void
free_cache(void *arg)
{
	Cache	   *old = arg;
	ListCell   *cell;

	foreach(cell, old->loaded)
	{
		NClaimMachine *machine = lfirst(cell);

		if (machine->table != NULL)
			nclaim_order_free(machine->table);
	}
	MemoryContextDelete(old->context);
}

static HTAB *
make_table(MemoryContext context, const char *name, Size entrysize)
{
	HASHCTL		ctl;

	ctl.keysize = NAME_BYTES;
	ctl.entrysize = entrysize;
	ctl.hcxt = context;
	return hash_create(name, 16, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

static void
begin_cache(void)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "notify_claim machines",
												  ALLOCSET_DEFAULT_SIZES);
	Cache	   *fresh = MemoryContextAllocZero(context, sizeof(Cache));

	fresh->context = context;
	fresh->epoch = epoch;
	fresh->events = make_table(context, "notify_claim events", sizeof(EventEntry));
	fresh->machines = make_table(context, "notify_claim machines", sizeof(MachineEntry));
	cache = fresh;
}

/* Hears of all commits so far, and begins a new cache if one of them matters. */
static void
refresh_cache(void)
{
	AcceptInvalidationMessages();
	if (cache != NULL && cache->epoch != epoch)
	{
		MemoryContextCallback *callback;

		callback = MemoryContextAlloc(TopTransactionContext, sizeof(*callback));
		callback->func = free_cache;
		callback->arg = cache;
		cache = NULL;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	}
	if (cache == NULL)
		begin_cache();
}

/* Column n of the only row that was read, or NULL; in the cache's context. */
static char *
cached_text(int n)
{
	char	   *text = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, n);

	return text == NULL ? NULL : MemoryContextStrdup(cache->context, text);
}

/* Reads a machine into the cache; NULL where there is none of that name. */
static NClaimMachine *
load_machine(const char *name)
{
	Datum		key = CStringGetTextDatum(name);
	MemoryContext caller = CurrentMemoryContext;
	NClaimMachine *machine;
	Oid			declared;
	bool		isnull;

	if (nclaim_own_execute(NCLAIM_FIND_MACHINE, &key, NULL, true) == 0)
		return NULL;

	machine = MemoryContextAllocZero(cache->context, sizeof(NClaimMachine));
	machine->name = MemoryContextStrdup(cache->context, name);
	declared = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0],
											  SPI_tuptable->tupdesc, 1, &isnull));
	machine->table_name = cached_text(2);
	machine->order_column = cached_text(3);
	machine->status_column = cached_text(4);
	SPI_freetuptable(SPI_tuptable);

	MemoryContextSwitchTo(cache->context);
	machine->checked = relation_changes;
	nclaim_resolve_table(machine, declared);
	if (machine->problem.sqlerrcode == 0)
	{
		NClaimOrderTable *table = palloc(sizeof(NClaimOrderTable));

		nclaim_order_describe(table, machine->relid,
							  machine->order_column, machine->status_column,
							  &machine->problem);
		if (machine->problem.sqlerrcode == 0)
			machine->table = table;
	}
	cache->loaded = lappend(cache->loaded, machine);
	MemoryContextSwitchTo(caller);
	return machine;
}

/* The machine of that name in the cache, loaded if need be; or NULL. */
static NClaimMachine *
cached_machine(const char *name)
{
	MachineEntry *entry;
	NClaimMachine *machine;
	bool		found;

	entry = hash_search(cache->machines, name, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->machine;
	machine = load_machine(name);
	if (machine != NULL)
	{
		entry = hash_search(cache->machines, name, HASH_ENTER, &found);
		entry->machine = machine;
	}
	return machine;
}

/* The event of that type in the cache, loaded if need be; or NULL. */
static NClaimEvent *
cached_event(const char *event_type)
{
	EventEntry *entry;
	NClaimEvent *event;
	Datum		key;
	char	   *machine;
	bool		found;

	entry = hash_search(cache->events, event_type, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->event;

	key = CStringGetTextDatum(event_type);
	if (nclaim_own_execute(NCLAIM_FIND_EVENT, &key, NULL, true) == 0)
		return NULL;
	event = MemoryContextAllocZero(cache->context, sizeof(NClaimEvent));
	event->event_type = MemoryContextStrdup(cache->context, event_type);
	machine = cached_text(1);
	event->message_type = cached_text(2);
	event->skip_early = strcmp(SPI_getvalue(SPI_tuptable->vals[0],
											SPI_tuptable->tupdesc, 3),
							   "skip") == 0;
	SPI_freetuptable(SPI_tuptable);

	if (machine != NULL)
	{
		event->machine = cached_machine(machine);
		if (event->machine == NULL)
			return NULL;		/* dropped in between, and the epoch tells */
	}
	entry = hash_search(cache->events, event_type, HASH_ENTER, &found);
	entry->event = event;
	return event;
}

/* Has no other table taken the name of the machine's since it was resolved? */
static void
check_table_name(NClaimMachine *machine)
{
	if (machine->checked == relation_changes)
		return;
	machine->checked = relation_changes;
	if (nclaim_table_by_name(machine->table_name) != machine->named)
		epoch++;
}

/*
 * An event and its machine are read under snapshots of their own; whether they
 * belong together is known if nothing has changed since the cache was begun.
 * Under a storm of changes the last reading has to do: every part of it is
 * later than the call.
 */
static bool
found_is_current(int attempt)
{
	AcceptInvalidationMessages();
	return cache->epoch == epoch || attempt >= MAX_ATTEMPTS;
}

/*
 * Returns the event of that type as last committed, or NULL if there is none.
 * A machine whose table cannot be used is no error here.
 */
NClaimEvent *
nclaim_event_find(const char *event_type)
{
	NClaimEvent *event;
	int			attempt = 0;

	do
	{
		refresh_cache();
		event = cached_event(event_type);
		if (event != NULL && event->machine != NULL)
			check_table_name(event->machine);
	} while (!found_is_current(++attempt));
	return event;
}

/*
 * Returns the machine of that name as last committed.  Raises 42704 if there is
 * none; one whose table cannot be used is no error here.
 */
NClaimMachine *
nclaim_machine_find(const char *name)
{
	NClaimMachine *machine;
	int			attempt = 0;

	do
	{
		refresh_cache();
		machine = cached_machine(name);
		if (machine != NULL)
			check_table_name(machine);
	} while (!found_is_current(++attempt));

	if (machine == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("machine \"%s\" does not exist", name)));
	return machine;
}

/* Names the transition whose status the column's type refuses. */
static void
transition_context(void *arg)
{
	errcontext("transitions of machine \"%s\"", ((NClaimMachine *) arg)->name);
}

/*
 * Reads a usable machine's transitions into its graph.  Raises what the status
 * type's input function raises for a status that it does not know any more.
 */
static void
load_graph(NClaimMachine *machine)
{
	Datum		key = CStringGetTextDatum(machine->name);
	ErrorContextCallback context;
	MemoryContext caller;
	NClaimGraph *graph;
	SPITupleTable *rows;
	uint64		nrows;

	nrows = nclaim_own_execute(NCLAIM_FIND_TRANSITIONS, &key, NULL, true);
	rows = SPI_tuptable;

	context.callback = transition_context;
	context.arg = machine;
	context.previous = error_context_stack;
	error_context_stack = &context;
	caller = MemoryContextSwitchTo(cache->context);
	graph = nclaim_graph_make(&machine->table->status, (int) nrows);
	for (uint64 i = 0; i < nrows; i++)
		nclaim_graph_edge(graph,
						  SPI_getvalue(rows->vals[i], rows->tupdesc, 1),
						  SPI_getvalue(rows->vals[i], rows->tupdesc, 2),
						  SPI_getvalue(rows->vals[i], rows->tupdesc, 3),
						  SPI_getvalue(rows->vals[i], rows->tupdesc, 4));
	nclaim_graph_close(graph);
	MemoryContextSwitchTo(caller);
	error_context_stack = context.previous;

	SPI_freetuptable(rows);
	machine->graph = graph;
}

/*
 * Raises what is wrong with the machine's table, or locks it and reads the
 * transitions.  Returns false where DDL may have come in between the reading
 * of the definition and the lock: *locked is then the table, and when the same
 * one is found again it was read under the lock.
 */
static bool
make_ready(NClaimMachine *machine, Oid *locked)
{
	bool		read_under_lock;

	nclaim_problem_raise(&machine->problem);
	read_under_lock = *locked == machine->relid;
	*locked = machine->relid;
	LockRelationOid(machine->relid, RowShareLock);
	if (cache->epoch != epoch && !read_under_lock)
		return false;
	if (machine->graph == NULL)
		load_graph(machine);
	return true;
}

/*
 * Like nclaim_event_find(), and the event's machine, if it has one, is ready
 * to be used: its table is locked against DDL until the transaction ends, and
 * its graph is there.  Raises what is wrong with the table, and what the
 * status type's input function raises for a status that it does not know any
 * more.
 */
NClaimEvent *
nclaim_event_ready(const char *event_type)
{
	Oid			locked = InvalidOid;
	NClaimEvent *event;

	do
	{
		event = nclaim_event_find(event_type);
	} while (event != NULL && event->machine != NULL &&
			 !make_ready(event->machine, &locked));
	return event;
}

/* The same for a machine. */
NClaimMachine *
nclaim_machine_ready(const char *name)
{
	Oid			locked = InvalidOid;
	NClaimMachine *machine;

	do
	{
		machine = nclaim_machine_find(name);
	} while (!make_ready(machine, &locked));
	return machine;
}
