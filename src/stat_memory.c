/*-------------------------------------------------------------------------
 *
 * stat_memory.c
 *		Shared memory of the statistics: a fixed number of entries, each for a
 *		channel and an event type of a database.
 *
 * It is there where the library is in shared_preload_libraries.  Entries are
 * found by probing on from the hash of their key.  One is written once, under the
 * lock, and "ready" is set last; who sees it ready reads its key without a lock.
 * Counters are atomics that anybody adds to.  Entries are never removed, so a
 * backend may keep pointers to them; a reset sets counters to zero.  What finds
 * no room is counted in the entry "rest", of all databases.
 *
 * A clean shutdown writes the memory to a file, which the next start reads and
 * removes; after a crash there is none, and all begins at zero.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "stats.h"

#define STAT_FILE		PGSTAT_STAT_PERMANENT_DIRECTORY "/notify_claim.stat"
#define STAT_MAGIC		0x6e630001

typedef struct StatMemory
{
	LWLock	   *lock;			/* of who adds an entry */
	pg_atomic_uint64 since;		/* when counting began */
	NClaimStatEntry rest;		/* what found no room */
	NClaimStatEntry entries[FLEXIBLE_ARRAY_MEMBER]; /* nclaim_max_stat_entries */
} StatMemory;

/* What the file begins with; the entry for the rest follows, then the others. */
typedef struct StatFile
{
	uint32		magic;
	uint32		entry_size;
	uint32		entries;
	uint64		since;
} StatFile;

static StatMemory *memory = NULL;
static shmem_request_hook_type next_request_hook = NULL;
static shmem_startup_hook_type next_startup_hook = NULL;

static Size
memory_size(void)
{
	return add_size(offsetof(StatMemory, entries),
					mul_size(nclaim_max_stat_entries, sizeof(NClaimStatEntry)));
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
	pg_atomic_init_u32(&entry->ready, 0);
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
}

/* Begins to count, from nothing. */
static void
init_memory(void)
{
	pg_atomic_init_u64(&memory->since, (uint64) GetCurrentTimestamp());
	init_entry(&memory->rest);
	for (int i = 0; i < nclaim_max_stat_entries; i++)
		init_entry(&memory->entries[i]);
}

/* Was nothing counted in the entry since it was last set to zero? */
static bool
is_zero(NClaimStatEntry *entry)
{
	for (int i = 0; i < NCLAIM_STATS; i++)
	{
		if (pg_atomic_read_u64(&entry->values[i]) != 0)
			return false;
	}
	return true;
}

static bool
is_ready(NClaimStatEntry *entry)
{
	if (pg_atomic_read_u32(&entry->ready) == 0)
		return false;
	pg_read_barrier();
	return true;
}

/*
 * The entry of the key, or the place for it, or NULL where there is none.  The
 * places that an entry may have are filled one after the other.
 */
static NClaimStatEntry *
find_place(Oid database, const char *channel, const char *event_type)
{
	uint32		start = hash_combine(murmurhash32(database),
									 hash_combine(string_hash(channel, strlen(channel) + 1),
												  string_hash(event_type, strlen(event_type) + 1)));

	for (int i = 0; i < nclaim_max_stat_entries; i++)
	{
		NClaimStatEntry *entry = &memory->entries[(start + (uint64) i) % nclaim_max_stat_entries];

		if (!is_ready(entry) ||
			(entry->database == database && strcmp(entry->channel, channel) == 0 &&
			 strcmp(entry->event_type, event_type) == 0))
			return entry;
	}
	return NULL;
}

static void
fill_place(NClaimStatEntry *entry, Oid database, const char *channel,
		   const char *event_type)
{
	entry->database = database;
	strlcpy(entry->channel, channel, sizeof(entry->channel));
	strlcpy(entry->event_type, event_type, sizeof(entry->event_type));
	pg_write_barrier();
	pg_atomic_write_u32(&entry->ready, 1);
}

/*
 * The entry of this database for a channel and an event type, made if need be, or
 * the one for the rest.  To be called only where nclaim_stat_enabled().
 */
NClaimStatEntry *
nclaim_stat_entry(const char *channel, const char *event_type)
{
	NClaimStatEntry *entry = find_place(MyDatabaseId, channel, event_type);

	if (entry != NULL && !is_ready(entry))
	{
		LWLockAcquire(memory->lock, LW_EXCLUSIVE);
		entry = find_place(MyDatabaseId, channel, event_type);
		if (entry != NULL && !is_ready(entry))
			fill_place(entry, MyDatabaseId, channel, event_type);
		LWLockRelease(memory->lock);
	}
	return entry == NULL ? &memory->rest : entry;
}

/*
 * The next entry of this database from *position on, which begins with 0 and is
 * moved past it; after the last one the entry for the rest, then NULL.
 */
NClaimStatEntry *
nclaim_stat_next(int *position)
{
	while (*position < nclaim_max_stat_entries)
	{
		NClaimStatEntry *entry = &memory->entries[(*position)++];

		if (is_ready(entry) && entry->database == MyDatabaseId)
			return entry;
	}
	return (*position)++ == nclaim_max_stat_entries ? &memory->rest : NULL;
}

/*
 * Sets the counters of this database to zero, and those of the rest; returns since
 * when they count.
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

/* Adds what a transaction has counted, NCLAIM_STATS values. */
void
nclaim_stat_add(NClaimStatEntry *entry, const uint64 *values)
{
	for (int i = 0; i < NCLAIM_STATS; i++)
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

/* How much was counted in the last minutes, to NCLAIM_TICK. */
uint64
nclaim_stat_rate(NClaimStatEntry *entry, NClaimRate rate, int minutes)
{
	uint32		tick = nclaim_stat_tick_of(GetCurrentTimestamp());
	uint64		sum = 0;

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

/* Puts an entry that was read into its place; what finds none any more is lost. */
static void
load_entry(const NClaimStatEntry *from)
{
	NClaimStatEntry *entry = find_place(from->database, from->channel, from->event_type);

	if (entry != NULL)
		memcpy(entry, from, sizeof(*entry));
}

static bool
read_memory(FILE *file)
{
	StatFile	head;
	NClaimStatEntry entry;

	if (fread(&head, sizeof(head), 1, file) != 1 || head.magic != STAT_MAGIC ||
		head.entry_size != sizeof(entry) ||
		fread(&memory->rest, sizeof(entry), 1, file) != 1)
		return false;
	pg_atomic_write_u64(&memory->since, head.since);
	for (uint32 i = 0; i < head.entries; i++)
	{
		if (fread(&entry, sizeof(entry), 1, file) != 1)
			return false;
		entry.channel[sizeof(entry.channel) - 1] = '\0';
		entry.event_type[sizeof(entry.event_type) - 1] = '\0';
		load_entry(&entry);
	}
	return true;
}

/*
 * Reads the file of the last clean shutdown, if there is one, and removes it: it is
 * not to be read again after a crash.
 */
static void
load_memory(void)
{
	FILE	   *file = AllocateFile(STAT_FILE, PG_BINARY_R);

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not read file \"%s\": %m", STAT_FILE)));
		return;
	}
	if (!read_memory(file))
	{
		ereport(LOG,
				(errmsg("ignoring invalid data in file \"%s\"", STAT_FILE)));
		init_memory();
	}
	FreeFile(file);
	unlink(STAT_FILE);
}

/* Is the entry worth keeping?  Not the places that a reset has left, but its time. */
static bool
is_kept(NClaimStatEntry *entry)
{
	return is_ready(entry) &&
		(!is_zero(entry) || pg_atomic_read_u64(&entry->since) != 0);
}

static bool
write_memory(FILE *file)
{
	StatFile	head = {STAT_MAGIC, sizeof(NClaimStatEntry), 0, pg_atomic_read_u64(&memory->since)};

	for (int i = 0; i < nclaim_max_stat_entries; i++)
		head.entries += is_kept(&memory->entries[i]);
	if (fwrite(&head, sizeof(head), 1, file) != 1 ||
		fwrite(&memory->rest, sizeof(NClaimStatEntry), 1, file) != 1)
		return false;
	for (int i = 0; i < nclaim_max_stat_entries; i++)
	{
		if (is_kept(&memory->entries[i]) &&
			fwrite(&memory->entries[i], sizeof(NClaimStatEntry), 1, file) != 1)
			return false;
	}
	return true;
}

/* Writes the file when the postmaster ends; not after a crash. */
static void
save_memory(int code, Datum arg)
{
	FILE	   *file;
	bool		written;

	if (code != 0 || memory == NULL)
		return;
	file = AllocateFile(STAT_FILE ".tmp", PG_BINARY_W);
	written = file != NULL && write_memory(file);
	if (file != NULL && FreeFile(file) != 0)
		written = false;
	if (written)
		(void) durable_rename(STAT_FILE ".tmp", STAT_FILE, LOG);
	else
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", STAT_FILE ".tmp")));
		unlink(STAT_FILE ".tmp");
	}
}

static void
start_memory(void)
{
	bool		found;

	if (next_startup_hook)
		next_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	memory = ShmemInitStruct("notify_claim", memory_size(), &found);
	if (!found)
	{
		memory->lock = &GetNamedLWLockTranche("notify_claim")->lock;
		init_memory();
	}
	LWLockRelease(AddinShmemInitLock);
	if (!IsUnderPostmaster)
		on_shmem_exit(save_memory, (Datum) 0);
	if (!found)
		load_memory();
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
