/*-------------------------------------------------------------------------
 *
 * stat_memory.c
 *		Shared memory of the statistics: a fixed number of entries, each for a
 *		channel and an event type of a database.
 *
 * It is there where the library is in shared_preload_libraries.  Entries are
 * found by probing on from the hash of their key in an array of such hashes, which
 * is small enough to be read to its end where all places are taken.  A key is
 * written once, under the lock, and its hash last; who sees the hash reads the key
 * without a lock.  Counters are atomics that anybody adds to.  Entries are never
 * removed, so a backend may keep pointers to them; a reset sets counters to zero.
 *
 * What finds no room is counted in the channel's entry for undeclared event types,
 * or if there is none in the database's for undeclared channels.  That one finds
 * room among the first places, or else is the entry "rest", of all databases.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "stats.h"

/* How many databases have an entry of their own for undeclared channels. */
#define DATABASES		64

typedef struct StatMemory
{
	LWLock	   *lock;			/* of who adds an entry */
	pg_atomic_uint64 since;		/* when counting began */
	NClaimStatEntry rest;		/* what found no room */
	NClaimStatEntry entries[FLEXIBLE_ARRAY_MEMBER]; /* places() of them */
} StatMemory;

static StatMemory *memory = NULL;

/* Behind the entries: the hash of each one's key; 0: the place is free. */
static pg_atomic_uint32 *hashes = NULL;

static shmem_request_hook_type next_request_hook = NULL;
static shmem_startup_hook_type next_startup_hook = NULL;

static int
places(void)
{
	return DATABASES + nclaim_max_stat_entries;
}

static Size
hashes_offset(void)
{
	return MAXALIGN(add_size(offsetof(StatMemory, entries),
							 mul_size(places(), sizeof(NClaimStatEntry))));
}

static Size
memory_size(void)
{
	return add_size(hashes_offset(), mul_size(places(), sizeof(pg_atomic_uint32)));
}

static void
request_memory(void)
{
	if (next_request_hook)
		next_request_hook();
	RequestAddinShmemSpace(memory_size());
	RequestNamedLWLockTranche("notify_claim", 1);
}

/* An entry of nothing, in memory that is not shared yet. */
static void
init_entry(NClaimStatEntry *entry)
{
	memset(entry, 0, sizeof(*entry));
	for (int i = 0; i < NCLAIM_STATS; i++)
		pg_atomic_init_u64(&entry->values[i], 0);
	for (int i = 0; i < lengthof(entry->ticks); i++)
		pg_atomic_init_u64(&entry->ticks[i], 0);
	pg_atomic_init_u64(&entry->since, 0);
	pg_atomic_init_u64(&entry->checked, 0);
	pg_atomic_init_u64(&entry->warned, 0);
}

static void
zero_entry(NClaimStatEntry *entry)
{
	for (int i = 0; i < NCLAIM_STATS; i++)
		pg_atomic_write_u64(&entry->values[i], 0);
	for (int i = 0; i < lengthof(entry->ticks); i++)
		pg_atomic_write_u64(&entry->ticks[i], 0);
	pg_atomic_write_u64(&entry->checked, 0);
	pg_atomic_write_u64(&entry->warned, 0);
}

/* Begins to count, from nothing, while nobody else does. */
void
nclaim_stat_init_memory(void)
{
	pg_atomic_init_u64(&memory->since, (uint64) GetCurrentTimestamp());
	init_entry(&memory->rest);
	for (int i = 0; i < places(); i++)
	{
		init_entry(&memory->entries[i]);
		pg_atomic_init_u32(&hashes[i], 0);
	}
}

static bool
is_free(int place)
{
	if (pg_atomic_read_u32(&hashes[place]) == 0)
		return true;
	pg_read_barrier();
	return false;
}

static bool
is_of(const NClaimStatEntry *entry, Oid database, const char *channel,
	  const char *event_type)
{
	return entry->database == database && strcmp(entry->channel, channel) == 0 &&
		strcmp(entry->event_type, event_type) == 0;
}

static uint32
hash_key(Oid database, const char *channel, const char *event_type)
{
	uint32		hash = hash_combine(murmurhash32(database),
									hash_combine(string_hash(channel, strlen(channel) + 1),
												 string_hash(event_type, strlen(event_type) + 1)));

	return hash == 0 ? 1 : hash;
}

/*
 * The place of the key, or a free one for it, or -1 where there is none.  The
 * places that a key may have are filled one after the other.
 */
static int
find_place(Oid database, const char *channel, const char *event_type)
{
	uint32		hash = hash_key(database, channel, event_type);
	bool		of_database = channel[0] == '\0' && event_type[0] == '\0';
	int			first = of_database ? 0 : DATABASES;
	int			n = of_database ? DATABASES : nclaim_max_stat_entries;

	for (int i = 0; i < n; i++)
	{
		int			place = first + (int) ((hash + (uint64) i) % n);
		uint32		found = pg_atomic_read_u32(&hashes[place]);

		if (found == 0)
			return place;
		pg_read_barrier();
		if (found == hash && is_of(&memory->entries[place], database, channel, event_type))
			return place;
	}
	return -1;
}

/* Whoever adds entries holds the lock, or is alone. */
static void
fill_place(int place, Oid database, const char *channel, const char *event_type)
{
	NClaimStatEntry *entry = &memory->entries[place];

	entry->database = database;
	strlcpy(entry->channel, channel, sizeof(entry->channel));
	strlcpy(entry->event_type, event_type, sizeof(entry->event_type));
	pg_write_barrier();
	pg_atomic_write_u32(&hashes[place], hash_key(database, channel, event_type));
}

/*
 * The entry of this database for a channel and an event type, made if need be, or
 * the one for what finds no room.  To be called only where nclaim_stat_enabled().
 */
NClaimStatEntry *
nclaim_stat_entry(const char *channel, const char *event_type)
{
	int			place = find_place(MyDatabaseId, channel, event_type);

	if (place >= 0 && is_free(place))
	{
		LWLockAcquire(memory->lock, LW_EXCLUSIVE);
		place = find_place(MyDatabaseId, channel, event_type);
		if (place >= 0 && is_free(place))
			fill_place(place, MyDatabaseId, channel, event_type);
		LWLockRelease(memory->lock);
	}
	if (place >= 0)
		return &memory->entries[place];
	if (event_type[0] != '\0')
		return nclaim_stat_entry(channel, "");
	if (channel[0] != '\0')
		return nclaim_stat_entry("", "");
	return &memory->rest;
}

/*
 * The next entry of any database from *position on, which begins with 0 and is
 * moved past it; after the last one NULL.
 */
NClaimStatEntry *
nclaim_stat_next_of_all(int *position)
{
	while (*position < places())
	{
		int			place = (*position)++;

		if (!is_free(place))
			return &memory->entries[place];
	}
	return NULL;
}

/* The same of this database, and last the rest where it belongs to it. */
NClaimStatEntry *
nclaim_stat_next(int *position)
{
	NClaimStatEntry *entry;

	while ((entry = nclaim_stat_next_of_all(position)) != NULL)
	{
		if (entry->database == MyDatabaseId)
			return entry;
	}
	return (*position)++ == places() && find_place(MyDatabaseId, "", "") < 0 ?
		&memory->rest : NULL;
}

/*
 * Sets the counters of this database to zero; returns since when they count.  Those
 * of a database that is gone are emptied, and the next start gives their places
 * away.
 */
TimestampTz
nclaim_stat_reset(void)
{
	TimestampTz now = GetCurrentTimestamp();
	NClaimStatEntry *entry;
	int			position = 0;

	while ((entry = nclaim_stat_next(&position)) != NULL)
		zero_entry(entry);
	pg_atomic_write_u64(&nclaim_stat_entry("", "")->since, (uint64) now);

	position = 0;
	while ((entry = nclaim_stat_next_of_all(&position)) != NULL)
	{
		if (entry->database == MyDatabaseId ||
			SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(entry->database)))
			continue;
		zero_entry(entry);
		pg_atomic_write_u64(&entry->since, 0);
	}
	return now;
}

/* Since when are this database's calls counted? */
TimestampTz
nclaim_stat_since(void)
{
	uint64		reset = pg_atomic_read_u64(&nclaim_stat_entry("", "")->since);

	return (TimestampTz) (reset != 0 ? reset : pg_atomic_read_u64(&memory->since));
}

/* The lesser of two that may be 0 for none. */
uint64
nclaim_stat_least(uint64 a, uint64 b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Adds what a transaction has counted: of NCLAIM_STATS values those up to "last". */
void
nclaim_stat_add(NClaimStatEntry *entry, const uint64 *values, int last)
{
	for (int i = 0; i <= last; i++)
	{
		pg_atomic_uint64 *place = &entry->values[i];
		uint64		before;

		if (values[i] == 0)
			continue;
		if (i != NCLAIM_STAT_MIN_US && i != NCLAIM_STAT_MAX_US)
		{
			pg_atomic_fetch_add_u64(place, values[i]);
			continue;
		}
		before = pg_atomic_read_u64(place);
		while ((i == NCLAIM_STAT_MAX_US ? before < values[i] :
				nclaim_stat_least(before, values[i]) != before) &&
			   !pg_atomic_compare_exchange_u64(place, &before, values[i]))
			;
	}
}

/* The tick that a time belongs to. */
uint32
nclaim_stat_tick_of(TimestampTz at)
{
	return (uint32) (at / USECS_PER_SEC / NCLAIM_TICK);
}

/* Adds to what is counted of a tick, which is the present one or nearly so. */
void
nclaim_stat_tick(NClaimStatEntry *entry, uint32 tick, NClaimRate rate, uint32 n)
{
	pg_atomic_uint64 *place = &entry->ticks[tick % NCLAIM_TICKS * NCLAIM_RATES + rate];
	uint64		before = pg_atomic_read_u64(place);
	uint64		after;

	if (n == 0)
		return;
	do
		after = before >> 32 == tick ? before + n : (uint64) tick << 32 | n;
	while (!pg_atomic_compare_exchange_u64(place, &before, after));
}

/*
 * How much was counted in the last minutes before the end of a tick, to
 * NCLAIM_TICK.  What is part of something else is asked for first: it is counted
 * last.
 */
uint64
nclaim_stat_rate(NClaimStatEntry *entry, NClaimRate rate, int minutes, uint32 tick)
{
	uint64		sum = 0;

	pg_read_barrier();
	for (uint32 i = 0; i <= minutes * 60 / NCLAIM_TICK; i++)
	{
		uint64		value = pg_atomic_read_u64(&entry->ticks[(tick - i) % NCLAIM_TICKS * NCLAIM_RATES + rate]);

		if (value >> 32 == tick - i)
			sum += (uint32) value;
	}
	return sum;
}

/* Is there shared memory to count in? */
bool
nclaim_stat_enabled(void)
{
	return memory != NULL;
}

/* When counting began, of all databases. */
pg_atomic_uint64 *
nclaim_stat_began(void)
{
	return &memory->since;
}

/* The entry for what found no room, of all databases. */
NClaimStatEntry *
nclaim_stat_rest(void)
{
	return &memory->rest;
}

/* Adds the figures of an entry that was read to those of another. */
static void
add_entry(NClaimStatEntry *to, NClaimStatEntry *from)
{
	uint64		values[NCLAIM_STATS];

	for (int i = 0; i < NCLAIM_STATS; i++)
		values[i] = pg_atomic_read_u64(&from->values[i]);
	nclaim_stat_add(to, values, NCLAIM_STATS - 1);
	for (int i = 0; i < lengthof(from->ticks); i++)
	{
		uint64		value = pg_atomic_read_u64(&from->ticks[i]);

		if (value >> 32 >= pg_atomic_read_u64(&to->ticks[i]) >> 32)
			nclaim_stat_tick(to, value >> 32, i % NCLAIM_RATES, (uint32) value);
	}
	pg_atomic_write_u64(&to->since, Max(pg_atomic_read_u64(&to->since), pg_atomic_read_u64(&from->since)));
	pg_atomic_write_u64(&to->checked, pg_atomic_read_u64(&from->checked));
	pg_atomic_write_u64(&to->warned, pg_atomic_read_u64(&from->warned));
}

/*
 * Puts an entry that was read into its place, or adds it to where its calls would
 * be counted now, while nobody else does anything.
 */
void
nclaim_stat_put(NClaimStatEntry *entry)
{
	const char *channel = entry->channel;
	const char *event_type = entry->event_type;
	int			place = find_place(entry->database, channel, event_type);

	if (place < 0)
		place = find_place(entry->database, channel, event_type = "");
	if (place < 0)
		place = find_place(entry->database, channel = "", event_type);
	if (place >= 0 && is_free(place))
		fill_place(place, entry->database, channel, event_type);
	add_entry(place < 0 ? &memory->rest : &memory->entries[place], entry);
}

static void
start_memory(void)
{
	bool		found;

	if (next_startup_hook)
		next_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	memory = ShmemInitStruct("notify_claim", memory_size(), &found);
	hashes = (pg_atomic_uint32 *) ((char *) memory + hashes_offset());
	if (!found)
	{
		memory->lock = &GetNamedLWLockTranche("notify_claim")->lock;
		nclaim_stat_init_memory();
	}
	LWLockRelease(AddinShmemInitLock);
	if (!IsUnderPostmaster)
		on_shmem_exit(nclaim_stat_save, (Datum) 0);
	if (!found)
		nclaim_stat_load();
}

/* Called once, when the library is loaded by the postmaster. */
void
nclaim_stat_memory_init(void)
{
	next_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	next_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_memory;
}
