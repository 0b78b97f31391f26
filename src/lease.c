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
#include "common/pg_prng.h"
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

/* How a partition is looked through. */
typedef enum Look
{
	LOOK_IDLE,					/* not if others have messages in hand */
	LOOK_ANY,					/* whoever has messages in hand */
	LOOK_LAST,					/* so too, and there is nothing else to do */
} Look;

/* What the session's last call has leased. */
typedef enum Last
{
	LAST_EMPTY,
	LAST_PART,
	LAST_COMPLETE,
} Last;

/* A row of notify_outbox_leased. */
typedef struct Slot
{
	int			slot;
	int			uses;
	bool		free;
} Slot;

/* What a partition gives to a batch. */
typedef struct Share
{
	int			partition;
	bool		held;			/* some of its orders are held */
	NClaimSeqs	seqs;
	Slot	   *slots;			/* of the partition, the longest unused first */
	int			nslots;
} Share;

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

/* Adds the row's message to the batch; the rows shall stay. */
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
read_leases(const NClaimBatch *batch, Share *share, Visit *visit)
{
	Datum		values[2] = {Int32GetDatum(share->partition), Int32GetDatum(visit->first_slot)};
	SPITupleTable *rows;

	share->nslots = nclaim_own_execute(NCLAIM_FIND_LEASES, values, NULL, InvalidSnapshot);
	rows = SPI_tuptable;
	share->slots = palloc(Max(share->nslots, 1) * sizeof(Slot));
	for (int i = 0; i < share->nslots; i++)
	{
		Slot	   *slot = &share->slots[i];
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
take_messages(NClaimBatch *batch, Share *share, Visit *visit,
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
set_aside(const NClaimBatch *batch, const Share *share)
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
take_free(NClaimBatch *batch, Share *share, Visit *visit)
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

/* Looks through a partition, and takes what is free. */
static void
visit_partition(NClaimBatch *batch, int partition, Look look)
{
	Visit		visit = {0};
	Share	   *share;

	/* What it gave is not written yet: it would be given again. */
	if ((batch->visited & ((uint32) 1 << partition)) != 0)
		return;
	if (!lock_partition(partition, &visit))
		return;
	check_snapshot(partition);
	share = palloc0(sizeof(Share));
	share->partition = partition;
	read_leases(batch, share, &visit);
	if (visit.leased.n > 0)
	{
		if (look == LOOK_IDLE)
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
		if (look == LOOK_LAST && visit.passed >= MANY_PASSED)
			set_aside(batch, share);
	}
	if (share->seqs.n > 0)
		batch->shares = lappend(batch->shares, share);
}

/* The number of the partition's next row; there was always one before it. */
static int
next_slot(const Share *share)
{
	int			next = 0;

	for (int i = 0; i < share->nslots; i++)
		next = Max(next, share->slots[i].slot + 1);
	return next;
}

/* Takes rows out of use that were used often enough, and are free. */
static void
retire_slots(Share *share)
{
	Datum		values[2] = {Int32GetDatum(share->partition)};
	int			first = INT_MAX;
	bool		retired = false;

	for (int i = 0; i < share->nslots; i++)
	{
		Slot	   *slot = &share->slots[i];

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
write_share(const NClaimBatch *batch, Share *share)
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
 * bit is in "passed".  Returns how many, up to the limit; the rows are SPI's.
 */
static int
find_work(const NClaimBatch *batch, int start, uint32 passed, int limit, Look look)
{
	Datum		values[5] = {
		Int32GetDatum(start),
		Int64GetDatum((int64) passed),
		TimestampTzGetDatum(batch->now),
		Int32GetDatum(limit),
		BoolGetDatum(look != LOOK_IDLE)
	};

	return (int) nclaim_own_execute(NCLAIM_FIND_WORK, values, NULL, InvalidSnapshot);
}

/*
 * Visits partitions with something to do until the batch is complete.  Mostly the
 * first of them completes it, so not all are asked for at once.
 */
static void
visit_partitions(NClaimBatch *batch, int start, Look look)
{
	uint32		passed = batch->visited;
	int			limit = 1;
	bool		more = true;

	while (more && !batch->full && batch->remaining > 0)
	{
		int			n = find_work(batch, start, passed, limit, look);
		SPITupleTable *rows = SPI_tuptable;

		more = n == limit;
		limit *= 2;
		for (int i = 0; i < n && !batch->full && batch->remaining > 0; i++)
		{
			int			partition = DatumGetInt32(nclaim_own_value(rows, i, 1));

			passed |= (uint32) 1 << partition;
			visit_partition(batch, partition, look);
		}
		SPI_freetuptable(rows);
	}
}

/* Visits the first partition with something to do, whoever has messages in hand. */
static void
visit_anywhere(NClaimBatch *batch, int start)
{
	SPITupleTable *rows;

	if (find_work(batch, start, 0, 1, LOOK_ANY) == 0)
		return;
	rows = SPI_tuptable;
	visit_partition(batch, DatumGetInt32(nclaim_own_value(rows, 0, 1)), LOOK_ANY);
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

	if (last == LAST_EMPTY && find_work(batch, start, 0, 1, LOOK_LAST) == 0)
		return;
	if (random_number(ANYWHERE) == 0)
		visit_anywhere(batch, start);
	else if (last == LAST_COMPLETE)
		visit_partition(batch, start, LOOK_IDLE);
	visit_partitions(batch, start, LOOK_IDLE);
	visit_partitions(batch, start, LOOK_LAST);
	last = batch->remaining == 0 ? LAST_COMPLETE :
		batch->messages == NIL ? LAST_EMPTY : LAST_PART;
	foreach(cell, batch->shares)
		partitions |= (uint32) 1 << ((Share *) lfirst(cell))->partition;
	nclaim_token_make(&batch->token, partitions);
	foreach(cell, batch->shares)
		write_share(batch, (Share *) lfirst(cell));
}
