/*-------------------------------------------------------------------------
 *
 * machine.c
 *		Events and state machines as declared, cached.
 *
 * A definition is marked invalid by whatever may have changed it: a write to
 * notify_machine, notify_event or notify_transition (their triggers send a
 * relcache invalidation), DDL on the order table or one of its partitions, a
 * change to an enum, a type, an operator or a collation that its statements
 * name; and by a table that takes the name of the order table.  So nobody goes
 * by a definition older than the last one committed.
 *
 * One that is dropped is freed when the last call has ended, so pointers into
 * it stay good; after any statement they may be out of date, and the event has
 * to be found again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
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

typedef struct Entry
{
	char		name[NAME_BYTES];	/* hash key */
	NClaimDefinition *definition;
	NClaimEvent *event;			/* NULL in the table of machines */
} Entry;

static dlist_head definitions = DLIST_STATIC_INIT(definitions);
static HTAB *events = NULL;
static HTAB *machines = NULL;

/* The machines of a relation that has or had the release trigger. */
typedef struct RelationEntry
{
	Oid			relid;			/* hash key */
	bool		valid;			/* no definition has changed since */
	MemoryContext context;		/* holds the names */
	List	   *names;
} RelationEntry;

static HTAB *relations = NULL;

/* Rises with every invalidation that may concern a definition. */
static uint64 changes = 1;

/* Rises with every relcache invalidation: a table may have taken a name. */
static uint64 relation_changes = 1;

/* Which machine a relation belongs to is to be found again. */
static void
forget_relations(void)
{
	HASH_SEQ_STATUS status;
	RelationEntry *entry;

	if (relations == NULL)
		return;
	hash_seq_init(&status, relations);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->valid = false;
}

/* All definitions are to be read again. */
void
nclaim_machine_invalidate(void)
{
	dlist_iter	iter;

	changes++;
	forget_relations();
	dlist_foreach(iter, &definitions)
		dlist_container(NClaimDefinition, node, iter.cur)->valid = false;
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
	if (relations != NULL &&
		(!OidIsValid(relid) || hash_search(relations, &relid, HASH_FIND, NULL) != NULL))
		forget_relations();
	dlist_foreach(iter, &definitions)
	{
		NClaimDefinition *definition = dlist_container(NClaimDefinition, node, iter.cur);
		NClaimMachine *machine = definition->machine;

		if (machine != NULL &&
			(!OidIsValid(relid) || machine->problem.sqlerrcode != 0 ||
			 list_member_oid(machine->table.relids, relid)))
		{
			definition->valid = false;
			forget_relations();
		}
	}
}

static void
type_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	dlist_iter	iter;

	changes++;
	dlist_foreach(iter, &definitions)
	{
		NClaimDefinition *definition = dlist_container(NClaimDefinition, node, iter.cur);

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

static void
release_definition(void *arg)
{
	nclaim_definition_free((NClaimDefinition *) arg);
}

static void
forget(HTAB *table, const char *name, const NClaimDefinition *definition)
{
	Entry	   *entry = hash_search(table, name, HASH_FIND, NULL);

	if (entry != NULL && entry->definition == definition)
		(void) hash_search(table, name, HASH_REMOVE, NULL);
}

/* Takes a definition out of the cache. */
static void
drop(NClaimDefinition *definition)
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
enter(HTAB *table, const char *name, NClaimDefinition *definition, NClaimEvent *event)
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
link_definition(NClaimDefinition *definition)
{
	ListCell   *cell;

	if (events == NULL)
		events = make_index("notify_claim events");
	if (machines == NULL)
		machines = make_index("notify_claim machines");

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
static NClaimDefinition *
load(const char *event_type, const char *name)
{
	uint64		changes_before = changes;
	uint64		relation_changes_before = relation_changes;
	NClaimDefinition *definition = nclaim_definition_read(event_type, name);

	if (definition == NULL)
		return NULL;
	definition->valid = changes == changes_before;
	definition->checked = relation_changes_before;
	link_definition(definition);
	return definition;
}

/* The cached definition, unless something has come in that concerns it. */
static NClaimDefinition *
cached(HTAB *table, const char *name, NClaimEvent **event)
{
	Entry	   *entry = table == NULL ? NULL :
		hash_search(table, name, HASH_FIND, NULL);
	NClaimDefinition *definition;

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

static NClaimDefinition *
find_event(const char *event_type, NClaimEvent **event)
{
	NClaimDefinition *definition;
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
static NClaimDefinition *
find_machine(const char *name)
{
	NClaimEvent *event;
	NClaimDefinition *definition;

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

/*
 * Raises what keeps the user or anybody from using the machine's table, or
 * locks it and makes the graph.  Returns false where DDL may have come in
 * between the reading of the definition and the lock: *locked is then the
 * table, and when the same one is found again it was read under the lock.
 */
static bool
make_ready(NClaimDefinition *definition, Oid *locked)
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
		nclaim_definition_make_graph(definition);
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
	NClaimDefinition *definition;

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
	NClaimDefinition *definition;

	do
	{
		definition = find_machine(name);
	} while (!make_ready(definition, &locked));
	return definition->machine;
}

/* Is one a partition of the other, at any depth? */
static bool
is_partition_of(Oid relid, Oid table)
{
	return get_rel_relispartition(relid) &&
		list_member_oid(get_partition_ancestors(relid), table);
}

/*
 * Can a machine's table be the relation, or above or below it?  Only those are
 * loaded: others may be locked by anybody.
 */
static bool
is_related(Oid table, Oid relid)
{
	return table == relid || is_partition_of(relid, table) ||
		is_partition_of(table, relid) ||
		(!get_rel_relispartition(relid) && has_superclass(relid));
}

/* The names of the machines of which the relation is the table, or a partition. */
static List *
read_machines_of(Oid relid, MemoryContext context)
{
	SPITupleTable *rows;
	List	   *names = NIL;
	uint64		nrows = nclaim_own_execute(NCLAIM_FIND_MACHINES, NULL, NULL,
										   GetLatestSnapshot());

	rows = SPI_tuptable;
	for (uint64 i = 0; i < nrows; i++)
	{
		const char *name = nclaim_own_text(rows, i, 1);
		NClaimMachine *machine;
		MemoryContext caller;
		bool		isnull;
		Oid			table = DatumGetObjectId(SPI_getbinval(rows->vals[i], rows->tupdesc,
														   2, &isnull));

		if (!is_related(table, relid))
			continue;
		machine = nclaim_machine_find(name);
		if (machine->problem.sqlerrcode != 0 || machine->by_name ||
			!list_member_oid(machine->table.relids, relid))
			continue;
		caller = MemoryContextSwitchTo(context);
		names = lappend(names, pstrdup(name));
		MemoryContextSwitchTo(caller);
	}
	SPI_freetuptable(rows);
	return names;
}

static void
release_names(void *arg)
{
	MemoryContextDelete((MemoryContext) arg);
}

/*
 * Returns the names of the machines of which the relation is the table, or a
 * partition, as last committed; they stay good until the call ends.  Needs an SPI
 * connection.
 */
List *
nclaim_machines_of(Oid relid)
{
	RelationEntry *entry;
	MemoryContext context;
	uint64		changes_before;
	List	   *names;
	bool		found;

	AcceptInvalidationMessages();
	entry = relations == NULL ? NULL :
		hash_search(relations, &relid, HASH_FIND, NULL);
	if (entry != NULL && entry->valid)
		return entry->names;

	changes_before = changes;
	context = AllocSetContextCreate(CurrentMemoryContext, "notify_claim machines",
									ALLOCSET_SMALL_SIZES);
	names = read_machines_of(relid, context);
	MemoryContextSetParent(context, TopMemoryContext);
	if (relations == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(RelationEntry);
		ctl.hcxt = TopMemoryContext;
		relations = hash_create("notify_claim relations", 16, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = hash_search(relations, &relid, HASH_ENTER, &found);
	if (found)
		nclaim_retire(release_names, entry->context);
	entry->context = context;
	entry->names = names;
	entry->valid = changes == changes_before;
	return names;
}
