/*-------------------------------------------------------------------------
 *
 * visit.c
 *		Looking through one partition of the outbox for what is free.
 *
 * A partition's low mark keeps away from the index entries of messages that are
 * done with, which stay as long as anybody's snapshot may see them.  That numbers
 * are drawn before they are committed makes "the highest number seen" no mark: a
 * lower one may still appear.  But a transaction has its xid before it draws a
 * number (outbox.c), so of the numbers up to one that is visible, all belong to
 * transactions before the next xid that is given out after that was seen.  (Not
 * before a snapshot's xmax, which may be lower than xids that are running.)  When
 * none of these is running any more, those numbers are decided.
 *
 * The mark also passes messages of orders that are held (held.c), which are
 * found by their order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"

#include "relay.h"

/* So many messages of orders in hand are much to pass on each look. */
#define MANY_PASSED		1000

/* How many of the next messages are read at once after some were passed. */
#define NEXT_MESSAGES	1000

/* The mark moves in steps of so many numbers: some dozens of a partition's. */
#define MARK_STEP		4096

/* A partition that is looked through. */
typedef struct Visit
{
	int64		low;
	int64		mark;			/* 0: none */
	bool		decided;		/* the mark is */
	int			first_slot;
	bool		held;			/* orders of the partition are */
	NClaimSeqs	leased;			/* messages that others have in hand */
	HTAB	   *busy;			/* orders of those messages, or NULL */
	bool		found;			/* a message that keeps the mark back */
	int64		first;			/* the first such */
	int64		last;			/* the last one looked at */
	bool		ended;			/* there is none after it */
	int			passed;			/* how many were of orders in hand */
} Visit;

/*
 * Adds the message of an SPI row to the batch, and its number to "seqs".  The row
 * is not copied: the table shall stay as long as the batch.
 */
void
nclaim_batch_add(NClaimBatch *batch, SPITupleTable *rows, uint64 row,
				 NClaimSeqs *seqs)
{
	if (batch->desc == NULL)
		batch->desc = rows->tupdesc;
	batch->messages = lappend(batch->messages, rows->vals[row]);
	nclaim_seqs_add(seqs, DatumGetInt64(nclaim_own_value(rows, row, 1)));
	batch->remaining--;
}

/* Locks the partition; false where another call has it. */
static bool
lock_partition(int partition, Visit *visit)
{
	Datum		value = Int32GetDatum(partition);
	bool		locked = nclaim_own_execute(NCLAIM_LOCK_PARTITION, &value, NULL,
											InvalidSnapshot) > 0;

	if (locked)
	{
		visit->low = DatumGetInt64(nclaim_own_value(SPI_tuptable, 0, 1));
		visit->mark = DatumGetInt64(nclaim_own_value(SPI_tuptable, 0, 2));
		visit->decided = DatumGetBool(nclaim_own_value(SPI_tuptable, 0, 3));
		visit->first_slot = DatumGetInt32(nclaim_own_value(SPI_tuptable, 0, 4));
		visit->held = DatumGetBool(nclaim_own_value(SPI_tuptable, 0, 5));
	}
	SPI_freetuptable(SPI_tuptable);
	return locked;
}

/* The tokens of the partition's leases, as one text, or NULL. */
static char *
read_tokens(int partition, Snapshot snapshot)
{
	Datum		value = Int32GetDatum(partition);

	nclaim_own_execute(NCLAIM_FIND_TOKENS, &value, NULL, snapshot);
	return nclaim_own_text(SPI_tuptable, 0, 1);
}

/* Raises 40001 where the transaction's snapshot does not see the last leases. */
static void
check_snapshot(int partition)
{
	char	   *seen;
	char	   *latest;

	if (!IsolationUsesXactSnapshot())
		return;
	seen = read_tokens(partition, InvalidSnapshot);
	latest = read_tokens(partition, GetLatestSnapshot());
	if (latest != NULL && (seen == NULL || strcmp(seen, latest) != 0))
		nclaim_raise_not_serializable(NULL);
}

/*
 * Ends a lease that has run out: its messages count an attempt.  False where it
 * was extended meanwhile, or somebody is at it.
 */
static bool
end_lease(int partition, int slot, TimestampTz now)
{
	NClaimSeqs	seqs = {0};
	Datum		values[3] = {
		Int32GetDatum(partition),
		Int32GetDatum(slot),
		TimestampTzGetDatum(now)
	};

	if (nclaim_own_execute(NCLAIM_LOCK_ENDING, values, NULL, InvalidSnapshot) == 0)
		return false;
	nclaim_seqs_read(&seqs, nclaim_own_value(SPI_tuptable, 0, 1));
	nclaim_held_expired(partition, &seqs, now);
	nclaim_own_execute(NCLAIM_EMPTY_SLOT, values, NULL, InvalidSnapshot);
	return true;
}

/*
 * Reads the partition's leases: which slots are free, and what others have in
 * hand.
 */
static void
read_leases(const NClaimBatch *batch, NClaimShare *share, Visit *visit)
{
	Datum		values[2] = {Int32GetDatum(share->partition), Int32GetDatum(visit->first_slot)};
	SPITupleTable *rows;

	share->nslots = nclaim_own_execute(NCLAIM_FIND_LEASES, values, NULL, InvalidSnapshot);
	rows = SPI_tuptable;
	share->slots = palloc(Max(share->nslots, 1) * sizeof(NClaimSlot));
	for (int i = 0; i < share->nslots; i++)
	{
		NClaimSlot *slot = &share->slots[i];
		TimestampTz until = DatumGetTimestampTz(nclaim_own_value(rows, i, 2));
		NClaimSeqs	seqs = {0};

		slot->slot = DatumGetInt32(nclaim_own_value(rows, i, 1));
		slot->uses = DatumGetInt32(nclaim_own_value(rows, i, 4));
		nclaim_seqs_read(&seqs, nclaim_own_value(rows, i, 3));
		slot->free = seqs.n == 0 ||
			(until <= batch->now && end_lease(share->partition, slot->slot, batch->now));
		if (slot->free)
		{
			visit->held |= seqs.n > 0;
			continue;
		}
		for (int j = 0; j < seqs.n; j++)
			nclaim_seqs_add(&visit->leased, seqs.seqs[j]);
	}
	nclaim_seqs_sort(&visit->leased);
	SPI_freetuptable(rows);
}

/* The orders of which others have messages in hand. */
static HTAB *
find_busy(int partition, const NClaimSeqs *leased)
{
	HTAB	   *busy = NULL;
	Datum		values[2] = {Int32GetDatum(partition), nclaim_seqs_array(leased)};
	uint64		n = nclaim_own_execute(NCLAIM_FIND_ORDERS, values, NULL, InvalidSnapshot);

	for (uint64 i = 0; i < n; i++)
		nclaim_orders_add(&busy, nclaim_own_value(SPI_tuptable, i, 2),
						  nclaim_own_value(SPI_tuptable, i, 3));
	SPI_freetuptable(SPI_tuptable);
	return busy;
}

/*
 * Takes what is free of the rows; the orders that are held are held.c's.  True
 * once the batch is complete.
 */
static bool
take_messages(NClaimBatch *batch, NClaimShare *share, Visit *visit,
			  SPITupleTable *rows, uint64 n)
{
	for (uint64 i = 0; i < n; i++)
	{
		visit->last = DatumGetInt64(nclaim_own_value(rows, i, 1));
		if (DatumGetBool(nclaim_own_value(rows, i, 9)))
			continue;			/* the order is held */
		if (!visit->found)
		{
			visit->found = true;
			visit->first = visit->last;
		}
		if (nclaim_orders_have(visit->busy, nclaim_own_value(rows, i, 3),
							   nclaim_own_value(rows, i, 4)))
		{
			visit->passed++;
			continue;
		}
		nclaim_batch_add(batch, rows, i, &share->seqs);
		if (batch->remaining == 0)
			return true;
	}
	return false;
}

/*
 * What others have in hand keeps the look, and the mark, from passing many messages:
 * hold those orders too, so that the next look passes them.  Whoever ends such a
 * lease learns of it from the lease's row.
 */
static void
set_aside(const NClaimBatch *batch, const NClaimShare *share)
{
	Datum		values[3];

	values[0] = Int32GetDatum(share->partition);
	values[2] = TimestampTzGetDatum(DT_NOEND);
	for (int i = 0; i < share->nslots; i++)
	{
		NClaimSeqs	seqs = {0};

		values[1] = Int32GetDatum(share->slots[i].slot);
		if (share->slots[i].free ||
			nclaim_own_execute(NCLAIM_LOCK_ENDING, values, NULL, InvalidSnapshot) == 0)
			continue;
		nclaim_seqs_read(&seqs, nclaim_own_value(SPI_tuptable, 0, 1));
		if (seqs.n == 0)
			continue;
		nclaim_held_set_aside(share->partition, &seqs, batch->now);
		nclaim_own_execute(NCLAIM_SET_HELD, values, NULL, InvalidSnapshot);
	}
}

/*
 * Takes the partition's free messages, oldest first, but for what lies behind many
 * of orders in hand.
 */
static void
take_free(NClaimBatch *batch, NClaimShare *share, Visit *visit)
{
	int			limit = batch->remaining;
	bool		stop = false;

	visit->last = visit->low;
	while (!stop && !visit->ended)
	{
		Datum		values[3] = {
			Int32GetDatum(share->partition),
			Int64GetDatum(visit->last),
			Int32GetDatum(limit)
		};
		int			before = batch->remaining;
		uint64		n = nclaim_own_execute(NCLAIM_FIND_MESSAGES, values, NULL, InvalidSnapshot);
		SPITupleTable *rows = SPI_tuptable;

		CHECK_FOR_INTERRUPTS();
		stop = take_messages(batch, share, visit, rows, n) || visit->passed >= MANY_PASSED;
		visit->ended = !stop && n < limit;
		limit = NEXT_MESSAGES;
		if (batch->remaining == before)
			SPI_freetuptable(rows);
	}
}

/*
 * Moves the mark: up to what is decided and done with, and sets the next one
 * where none is set or the last has served.
 */
static void
move_mark(int partition, const Visit *visit)
{
	int64		low = visit->low;
	bool		sets;
	Datum		values[4];
	char		nulls[4] = {' ', ' ', ' ', ' '};

	if (visit->mark > 0 && !visit->decided)
		return;
	if (visit->mark > 0)
		low = Max(low, visit->found ? Min(visit->mark, visit->first - 1) : visit->mark);
	sets = visit->last >= low + MARK_STEP;
	if (visit->mark == 0 && !sets)
		return;
	nulls[2] = nulls[3] = sets ? ' ' : 'n';
	values[0] = Int32GetDatum(partition);
	values[1] = Int64GetDatum(low);
	values[2] = Int64GetDatum(visit->last);
	values[3] = FullTransactionIdGetDatum(ReadNextFullTransactionId());
	nclaim_own_execute(NCLAIM_MOVE_MARK, values, nulls, InvalidSnapshot);
}

/*
 * Looks through a partition and adds what is free to the batch; nothing where
 * another call has it locked, it was looked through before, or others have messages
 * of it in hand and only idle ones are wanted.  Needs an SPI
 * connection, in whose memory the share is.  Above READ COMMITTED it raises 40001
 * where another call has changed what it reads.
 */
void
nclaim_visit(NClaimBatch *batch, int partition, bool only_idle)
{
	Visit		visit = {0};
	NClaimShare *share;

	/* What it gave is not written yet: it would be given again. */
	if ((batch->visited & ((uint32) 1 << partition)) != 0)
		return;
	if (!lock_partition(partition, &visit))
		return;
	check_snapshot(partition);
	share = palloc0(sizeof(NClaimShare));
	share->partition = partition;
	read_leases(batch, share, &visit);
	if (visit.leased.n > 0)
	{
		if (only_idle)
			return;
		visit.busy = find_busy(partition, &visit.leased);
	}
	batch->visited |= (uint32) 1 << partition;
	if (visit.held)
		nclaim_held_take(batch, partition, visit.busy, &share->seqs);
	share->held = share->seqs.n > 0;
	if (!batch->full && batch->remaining > 0)
	{
		take_free(batch, share, &visit);
		move_mark(partition, &visit);
		if (visit.passed >= MANY_PASSED)
			set_aside(batch, share);
	}
	if (share->seqs.n > 0)
		batch->shares = lappend(batch->shares, share);
}
