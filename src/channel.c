/*-------------------------------------------------------------------------
 *
 * channel.c
 *		Channels as declared, cached.
 *
 * A channel is read under the latest snapshot when it is first named, and
 * again after any write to notify_channel: the table's triggers send a
 * relcache invalidation.  One that is out of date is freed when the last call
 * has ended, so pointers stay good.  Only channels that have a row are cached,
 * and the default one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "notify_claim.h"

/* Longest name: NCLAIM_MAX_CHANNEL characters of up to four bytes, and the zero. */
#define NAME_BYTES		(4 * NCLAIM_MAX_CHANNEL + 1)

typedef struct Entry
{
	char		name[NAME_BYTES];	/* hash key */
	NClaimChannel *channel;
} Entry;

static HTAB *channels = NULL;

/* Rises with every invalidation that may concern a channel. */
static uint64 changes = 1;

/* All channels are to be read again. */
void
nclaim_channel_invalidate(void)
{
	HASH_SEQ_STATUS status;
	Entry	   *entry;

	changes++;
	if (channels == NULL)
		return;
	hash_seq_init(&status, channels);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->channel->valid = false;
}

static void
release_channel(void *arg)
{
	MemoryContextDelete(((NClaimChannel *) arg)->context);
}

/* Makes a channel part of the cache, in the place of an older state of it. */
static void
enter(const char *name, NClaimChannel *channel)
{
	Entry	   *entry;
	bool		found;

	if (channels == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = NAME_BYTES;
		ctl.entrysize = sizeof(Entry);
		ctl.hcxt = TopMemoryContext;
		channels = hash_create("notify_claim channels", 16, &ctl,
							   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	entry = hash_search(channels, name, HASH_ENTER, &found);
	if (found)
		nclaim_retire(release_channel, entry->channel);
	entry->channel = channel;
}

/* Takes a channel that has no row any more out of the cache. */
static void
forget(const char *name)
{
	Entry	   *entry = channels == NULL ? NULL :
		hash_search(channels, name, HASH_FIND, NULL);

	if (entry == NULL)
		return;
	nclaim_retire(release_channel, entry->channel);
	(void) hash_search(channels, name, HASH_REMOVE, NULL);
}

/* What the default channel is without a row. */
static void
set_defaults(NClaimChannel *channel)
{
	channel->ok_status = 200;
	channel->ok_body = "SUCCESS";
	channel->fail_status = 500;
	channel->fail_body = "FAIL";
}

/* Column n of the row, which is not null, as an integer. */
static int
int_of(SPITupleTable *rows, int n)
{
	bool		isnull;

	return DatumGetInt32(SPI_getbinval(rows->vals[0], rows->tupdesc, n, &isnull));
}

static bool
is_ack(SPITupleTable *rows, int n)
{
	return strcmp(SPI_getvalue(rows->vals[0], rows->tupdesc, n), "ack") == 0;
}

/* Fills in what the row says; everything goes to the channel's context. */
static void
read_row(NClaimChannel *channel, SPITupleTable *rows)
{
	HeapTuple	row = rows->vals[0];
	TupleDesc	desc = rows->tupdesc;
	bool		isnull;
	Datum		rule = SPI_getbinval(row, desc, 1, &isnull);

	nclaim_rule_read(isnull ? 0 : DatumGetInt64(rule), &channel->rule);
	MemoryContextSwitchTo(channel->context);
	channel->ok_status = int_of(rows, 2);
	channel->ok_body = SPI_getvalue(row, desc, 3);
	channel->fail_status = int_of(rows, 4);
	channel->fail_body = SPI_getvalue(row, desc, 5);
	channel->max_body = int_of(rows, 6);
	channel->keep_body = DatumGetBool(SPI_getbinval(row, desc, 7, &isnull));
	channel->ack_conflict = is_ack(rows, 8);
	channel->ack_no_rule = is_ack(rows, 9);
}

/* Reads and caches a channel; NULL where there is none of that name. */
static NClaimChannel *
load(const char *name)
{
	uint64		changes_before = changes;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "notify_claim channel",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	NClaimChannel *channel = palloc0(sizeof(NClaimChannel));
	Datum		value = CStringGetTextDatum(name);

	channel->context = context;
	if (nclaim_own_execute(NCLAIM_FIND_CHANNEL, &value, NULL, GetLatestSnapshot()) > 0)
	{
		SPITupleTable *rows = SPI_tuptable;

		MemoryContextSwitchTo(context);
		read_row(channel, rows);
		SPI_freetuptable(rows);
	}
	else if (strcmp(name, NCLAIM_DEFAULT_CHANNEL) == 0)
		set_defaults(channel);
	else
	{
		MemoryContextSwitchTo(caller);
		MemoryContextDelete(context);
		forget(name);
		return NULL;
	}
	MemoryContextSwitchTo(caller);

	MemoryContextSetParent(context, TopMemoryContext);
	channel->valid = changes == changes_before;
	enter(name, channel);
	return channel;
}

/*
 * Returns the channel of that name as last committed; it stays good until the
 * call ends.  Needs an SPI connection.  Raises 42704 where there is none.
 */
const NClaimChannel *
nclaim_channel_find(const char *name)
{
	const NClaimChannel *channel = nclaim_channel_known(name);

	if (channel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("channel \"%s\" does not exist", name),
				 errhint("Declare it with notify_channel_add().")));
	return channel;
}

/*
 * The same where it is cached, or else NULL, whether it exists or not.  Needs no
 * SPI connection; only a call that holds a pin may keep the pointer.
 */
const NClaimChannel *
nclaim_channel_cached(const char *name)
{
	Entry	   *entry = NULL;

	AcceptInvalidationMessages();
	if (channels != NULL && !nclaim_is_longer(name, NCLAIM_MAX_CHANNEL))
		entry = hash_search(channels, name, HASH_FIND, NULL);
	return entry != NULL && entry->channel->valid ? entry->channel : NULL;
}

/* The same as nclaim_channel_find(); NULL where there is none. */
const NClaimChannel *
nclaim_channel_known(const char *name)
{
	const NClaimChannel *channel = nclaim_channel_cached(name);

	if (channel == NULL && !nclaim_is_longer(name, NCLAIM_MAX_CHANNEL))
		channel = load(name);
	return channel;
}

/* Raises 54000 for a body that is longer than the channel takes. */
void
nclaim_channel_check_body(const NClaimChannel *channel, const char *name,
						  int length)
{
	if (channel->max_body > 0 && length > channel->max_body)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("body of %d bytes is longer than the %d bytes that channel \"%s\" takes",
						length, channel->max_body, name),
				 errhint("Raise max_body with notify_channel_set(), or have the peer send less.")));
}

/*
 * What is recorded must not be left without its channel.  Who records takes the
 * table in a mode that all of them can have at once, until the transaction
 * ends; who drops a channel, in one that excludes it.
 */
void
nclaim_channel_lock(bool exclusive)
{
	LockRelationOid(nclaim_extension_channel_table(),
					exclusive ? ExclusiveLock : RowShareLock);
}

/* Gives back what nclaim_channel_lock(true) took. */
void
nclaim_channel_unlock(void)
{
	UnlockRelationOid(nclaim_extension_channel_table(), ExclusiveLock);
}

/*
 * Keeps the channel from being dropped until the transaction ends.  Raises 42704
 * where it was, 55P03 after lock_timeout.  The default channel needs no row.
 */
void
nclaim_channel_hold(const char *name)
{
	if (strcmp(name, NCLAIM_DEFAULT_CHANNEL) == 0)
		return;
	nclaim_channel_lock(false);
	(void) nclaim_channel_find(name);
}
