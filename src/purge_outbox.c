/*-------------------------------------------------------------------------
 *
 * purge_outbox.c
 *		Removing outbox messages by their age, for those who relay by change
 *		data capture and never acknowledge.
 *
 * What a consumer has in hand stays, and so does what belongs to an order that is
 * held: a message of it failed, or it waits behind a dead letter.  A partition that
 * another call has locked is left for the next time, so that nobody waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "purge.h"

/* Locks the partition until the batch is committed; false where another has it. */
static bool
lock_partition(int partition)
{
	Datum		value = Int32GetDatum(partition);
	bool		locked = nclaim_own_execute(NCLAIM_LOCK_PARTITION, &value, NULL,
											InvalidSnapshot) > 0;

	SPI_freetuptable(SPI_tuptable);
	return locked;
}

/* Deletes the old of the partition's next messages; returns whether there may be more. */
static bool
purge_partition(NClaimOutboxPurge *purge, int batch, int64 *count)
{
	NClaimSeqs	old = {0};
	bool		any_old = false;
	Datum		find[5] = {
		Int32GetDatum(purge->partition),
		Int64GetDatum(purge->position),
		Int32GetDatum(batch),
		TimestampTzGetDatum(purge->cutoff),
		TimestampTzGetDatum(GetCurrentTimestamp())
	};
	Datum		values[2] = {Int32GetDatum(purge->partition)};
	uint64		n;

	if (!lock_partition(purge->partition))
		return false;
	n = nclaim_own_execute(NCLAIM_FIND_OLD_MESSAGES, find, NULL, InvalidSnapshot);
	for (uint64 i = 0; i < n; i++)
	{
		bool		is_old = DatumGetBool(nclaim_own_value(SPI_tuptable, i, 2));

		purge->position = DatumGetInt64(nclaim_own_value(SPI_tuptable, i, 1));
		any_old |= is_old;
		if (is_old && !DatumGetBool(nclaim_own_value(SPI_tuptable, i, 3)))
			nclaim_seqs_add(&old, purge->position);
	}
	SPI_freetuptable(SPI_tuptable);
	values[1] = nclaim_seqs_array(&old);
	if (old.n > 0)
	{
		*count += nclaim_own_execute(NCLAIM_DELETE_MESSAGES, values, NULL, InvalidSnapshot);
		nclaim_own_execute(NCLAIM_DELETE_ATTEMPTS, &values[1], NULL, InvalidSnapshot);
	}
	return n == batch && any_old;
}

/*
 * Removes a batch of messages.  Returns whether there may be more, and adds to
 * *count.
 */
bool
nclaim_purge_outbox(NClaimOutboxPurge *purge, int batch, int64 *count)
{
	int64		before = *count;

	while (purge->partition < NCLAIM_PARTITIONS && *count == before)
	{
		if (purge_partition(purge, batch, count))
			break;
		purge->partition++;
		purge->position = 0;
	}
	return purge->partition < NCLAIM_PARTITIONS;
}
