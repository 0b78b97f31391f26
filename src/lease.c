/*-------------------------------------------------------------------------
 *
 * lease.c
 *		Leasing messages of the outbox.
 *
 * Messages are never updated.  Orders are spread over a fixed number of
 * partitions, and a lease is a row that names messages of one partition; these
 * few rows are updated in place.  Whoever leases locks the partition's row, with
 * SKIP LOCKED, so that nobody ever waits, and then looks by newer snapshots at,
 * in this order: leases, orders that are held, messages.  What ends a lease
 * changes the lease's row and what it leaves behind in one transaction, without
 * the partition's lock: read in that order, a message is still leased, or its
 * order is held, or it is free.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "relay.h"

/*
 * So often a row of notify_outbox_leased is written: under an old snapshot none of
 * its versions goes away, and whoever looks for the last one meets them all.
 */
#define MAX_USES		128

/*
 * One call in so many begins anywhere, the others where nobody has messages in
 * hand: what a dead consumer keeps busy shall not wait as long as there is other
 * work.
 */
#define ANYWHERE		32

/* What the session's last call has leased. */
typedef enum Last
{
	LAST_EMPTY,
	LAST_PART,
	LAST_COMPLETE,
} Last;

/* The number of the partition's next row; there was always one before it. */
static int
next_slot(const NClaimShare *share)
{
	int			next = 0;

	for (int i = 0; i < share->nslots; i++)
		next = Max(next, share->slots[i].slot + 1);
	return next;
}

/* Takes rows out of use that were used often enough, and are free. */
static void
retire_slots(NClaimShare *share)
{
	Datum		values[2] = {Int32GetDatum(share->partition)};
	int			first = INT_MAX;
	bool		retired = false;

	for (int i = 0; i < share->nslots; i++)
	{
		NClaimSlot *slot = &share->slots[i];

		values[1] = Int32GetDatum(slot->slot);
		if (slot->free && slot->uses >= MAX_USES &&
			nclaim_own_execute(NCLAIM_DELETE_SLOT, values, NULL, InvalidSnapshot) > 0)
		{
			slot->free = false;
			retired = true;
		}
		else
			first = Min(first, slot->slot);
	}
	if (!retired)
		return;
	values[1] = Int32GetDatum(Min(first, next_slot(share)));
	nclaim_own_execute(NCLAIM_SET_FIRST_SLOT, values, NULL, InvalidSnapshot);
}

/* Writes down who has the share, in a row that is free or a new one. */
static void
write_share(const NClaimBatch *batch, NClaimShare *share)
{
	Datum		values[7];
	bool		written = false;

	retire_slots(share);
	nclaim_seqs_sort(&share->seqs);
	values[0] = Int32GetDatum(share->partition);
	values[2] = UUIDPGetDatum(&batch->token);
	values[3] = CStringGetTextDatum(batch->consumer);
	values[4] = TimestampTzGetDatum(batch->until);
	values[5] = BoolGetDatum(share->held);
	values[6] = nclaim_seqs_array(&share->seqs);
	for (int i = 0; i < share->nslots && !written; i++)
	{
		if (!share->slots[i].free)
			continue;
		values[1] = Int32GetDatum(share->slots[i].slot);
		written = nclaim_own_execute(NCLAIM_TAKE_SLOT, values, NULL, InvalidSnapshot) > 0;
	}
	if (!written)
	{
		values[1] = Int32GetDatum(next_slot(share));
		nclaim_own_execute(NCLAIM_ADD_SLOT, values, NULL, InvalidSnapshot);
	}
}

static int
random_number(int below)
{
	return (int) pg_prng_uint64_range(&pg_global_prng_state, 0, below - 1);
}

/*
 * Finds partitions with something to do, beginning at one and without those whose
 * bit is in "passed", nor, if only idle ones are wanted, those of which others have
 * messages in hand.  Returns how many, up to the limit; the rows are SPI's.
 */
static int
find_work(const NClaimBatch *batch, int start, uint32 passed, int limit, bool only_idle)
{
	Datum		values[5] = {
		Int32GetDatum(start),
		Int64GetDatum((int64) passed),
		TimestampTzGetDatum(batch->now),
		Int32GetDatum(limit),
		BoolGetDatum(!only_idle)
	};

	return (int) nclaim_own_execute(NCLAIM_FIND_WORK, values, NULL, InvalidSnapshot);
}

/*
 * Visits partitions with something to do until the batch is complete.  Mostly the
 * first of them completes it, so not all are asked for at once.
 */
static void
visit_partitions(NClaimBatch *batch, int start, bool only_idle)
{
	uint32		passed = batch->visited;
	int			limit = 1;
	bool		more = true;

	while (more && !batch->full && batch->remaining > 0)
	{
		int			n = find_work(batch, start, passed, limit, only_idle);
		SPITupleTable *rows = SPI_tuptable;

		more = n == limit;
		limit *= 2;
		for (int i = 0; i < n && !batch->full && batch->remaining > 0; i++)
		{
			int			partition = DatumGetInt32(nclaim_own_value(rows, i, 1));

			passed |= (uint32) 1 << partition;
			nclaim_visit(batch, partition, only_idle);
		}
		SPI_freetuptable(rows);
	}
}

/* Visits the first partition with something to do, whoever has messages in hand. */
static void
visit_anywhere(NClaimBatch *batch, int start)
{
	SPITupleTable *rows;

	if (find_work(batch, start, 0, 1, false) == 0)
		return;
	rows = SPI_tuptable;
	nclaim_visit(batch, DatumGetInt32(nclaim_own_value(rows, 0, 1)), false);
	SPI_freetuptable(rows);
}

/*
 * Leases what is free, up to "remaining" messages, beginning at a partition by
 * chance.  Needs an SPI connection, in whose memory the messages are.  Above READ
 * COMMITTED it raises 40001 where another call has changed what it reads.
 */
void
nclaim_lease(NClaimBatch *batch)
{
	static Last last = LAST_EMPTY;
	int			start = random_number(NCLAIM_PARTITIONS);
	uint32		partitions = 0;
	ListCell   *cell;

	if (last == LAST_EMPTY && find_work(batch, start, 0, 1, false) == 0)
		return;
	if (random_number(ANYWHERE) == 0)
		visit_anywhere(batch, start);
	else if (last == LAST_COMPLETE)
		nclaim_visit(batch, start, true);
	visit_partitions(batch, start, true);
	visit_partitions(batch, start, false);
	last = batch->remaining == 0 ? LAST_COMPLETE :
		batch->messages == NIL ? LAST_EMPTY : LAST_PART;
	foreach(cell, batch->shares)
		partitions |= (uint32) 1 << ((NClaimShare *) lfirst(cell))->partition;
	nclaim_token_make(&batch->token, partitions);
	foreach(cell, batch->shares)
		write_share(batch, (NClaimShare *) lfirst(cell));
}
