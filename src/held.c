/*-------------------------------------------------------------------------
 *
 * held.c
 *		Orders of which a message failed: they are leased by order, when they
 *		are due, until no message is left.
 *
 * A row of notify_outbox_held keeps the partition's mark from mattering to its
 * order, so it is deleted only where the partition is locked: else a look through
 * the partition could pass the order's messages while the row goes away.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "relay.h"

/* An order that somebody has in hand is looked at again after so long. */
#define LOOK_AGAIN_MS	1000

/* An order that is due. */
typedef struct Due
{
	Datum		order[2];		/* aggregatetype and aggregateid */
	Datum		first_seq;
	bool		alone;
} Due;

/* Its messages before "first_seq" are done with, it is looked at again then. */
static void
set_due(const Due *due, TimestampTz at, Datum first_seq)
{
	Datum		values[4] = {due->order[0], due->order[1], TimestampTzGetDatum(at), first_seq};

	nclaim_own_execute(NCLAIM_SET_DUE, values, NULL, InvalidSnapshot);
}

/* Nothing is left of the order but, maybe, a dead letter that others wait for. */
static void
let_go(Due *due)
{
	bool		blocks = nclaim_own_execute(NCLAIM_FIND_BLOCKING, due->order, NULL,
											InvalidSnapshot) > 0;

	if (blocks)
		set_due(due, DT_NOEND, due->first_seq);
	else
		nclaim_own_execute(NCLAIM_DELETE_HELD, due->order, NULL, InvalidSnapshot);
}

/* When can the message be leased? */
static TimestampTz
message_due(SPITupleTable *rows, uint64 row, TimestampTz now)
{
	TimestampTz retry_at = DatumGetTimestampTz(nclaim_own_value(rows, row, 9));
	bool		waits = DatumGetBool(nclaim_own_value(rows, row, 10));

	return waits ? DT_NOEND : Max(retry_at, now);
}

/* Takes the messages that can be leased now, and says when to look again. */
static TimestampTz
take_messages(NClaimBatch *batch, SPITupleTable *rows, uint64 n, NClaimSeqs *seqs)
{
	TimestampTz at = message_due(rows, 0, batch->now);

	if (at > batch->now)
		return at;
	for (uint64 i = 0; i < n && message_due(rows, i, batch->now) <= batch->now; i++)
		nclaim_batch_add(batch, rows, i, seqs);
	return batch->until;
}

static void
take_order(NClaimBatch *batch, Due *due, NClaimSeqs *seqs)
{
	Datum		values[4] = {
		due->order[0],
		due->order[1],
		due->first_seq,
		Int32GetDatum(due->alone ? 1 : batch->remaining)
	};
	uint64		n = nclaim_own_execute(NCLAIM_FIND_HELD_MESSAGES, values, NULL,
									   InvalidSnapshot);
	SPITupleTable *rows = SPI_tuptable;

	if (n == 0)
		let_go(due);
	else
	{
		int			before = batch->remaining;

		set_due(due, take_messages(batch, rows, n, seqs), nclaim_own_value(rows, 0, 1));
		batch->full = due->alone && batch->remaining < before;
	}
	SPI_freetuptable(rows);
}

/* The orders of the messages that others have in hand. */
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
 * Takes messages of the partition's orders that are due; others have "leased" in
 * hand.
 */
void
nclaim_held_take(NClaimBatch *batch, int partition, const NClaimSeqs *leased,
				 NClaimSeqs *seqs)
{
	Datum		values[3] = {
		Int32GetDatum(partition),
		TimestampTzGetDatum(batch->now),
		Int32GetDatum(batch->remaining)
	};
	uint64		n = nclaim_own_execute(NCLAIM_FIND_DUE, values, NULL, InvalidSnapshot);
	SPITupleTable *rows = SPI_tuptable;
	HTAB	   *busy = n > 0 && leased->n > 0 ? find_busy(partition, leased) : NULL;

	for (uint64 i = 0; i < n && !batch->full && batch->remaining > 0; i++)
	{
		Due			due;

		due.order[0] = nclaim_own_value(rows, i, 1);
		due.order[1] = nclaim_own_value(rows, i, 2);
		due.first_seq = nclaim_own_value(rows, i, 3);
		due.alone = DatumGetBool(nclaim_own_value(rows, i, 4));
		if (nclaim_orders_have(busy, due.order[0], due.order[1]))
			set_due(&due, TimestampTzPlusMilliseconds(batch->now, LOOK_AGAIN_MS), due.first_seq);
		else if (!due.alone || batch->messages == NIL)
			take_order(batch, &due, seqs);
	}
	SPI_freetuptable(rows);
}

static void
count_attempts(int partition, Datum seqs, const char *error, TimestampTz now,
			   double delay)
{
	Datum		values[6] = {
		Int32GetDatum(partition),
		seqs,
		error == NULL ? (Datum) 0 : CStringGetTextDatum(error),
		TimestampTzGetDatum(now),
		Float8GetDatum(delay),
		Float8GetDatum((double) nclaim_retry_delay_max)
	};

	nclaim_own_execute(NCLAIM_COUNT_ATTEMPTS, values, error == NULL ? "  n   " : NULL,
					   InvalidSnapshot);
}

/* Holds the orders of the messages; with so many attempts they are leased alone. */
static void
hold_orders(int partition, Datum seqs, TimestampTz now, int alone)
{
	Datum		values[4] = {
		Int32GetDatum(partition),
		seqs,
		TimestampTzGetDatum(now),
		Int32GetDatum(alone)
	};

	nclaim_own_execute(NCLAIM_HOLD_ORDERS, values, NULL, InvalidSnapshot);
}

/*
 * The lease of the messages has run out.  What has come half the way to being a
 * dead letter is leased alone from then on: the others of its batch shall not
 * die of a message that ends consumers.
 */
void
nclaim_held_expired(int partition, const NClaimSeqs *seqs, TimestampTz now)
{
	Datum		array = nclaim_seqs_array(seqs);

	count_attempts(partition, array, NULL, now, 0);
	hold_orders(partition, array, now, (nclaim_max_attempts + 1) / 2);
	nclaim_dead_bury(partition, array, now, "EXPIRED", nclaim_dead_letter == NCLAIM_DEAD_WAIT);
}

/*
 * The message could not be published; the later ones of its order are given back.
 */
void
nclaim_held_failed(int partition, int64 seq, const NClaimSeqs *later,
				   const char *error, TimestampTz now)
{
	NClaimSeqs	back = {0};
	Datum		failed;

	nclaim_seqs_add(&back, seq);
	failed = nclaim_seqs_array(&back);
	for (int i = 0; i < later->n; i++)
		nclaim_seqs_add(&back, later->seqs[i]);
	count_attempts(partition, failed, error, now, nclaim_retry_delay);
	hold_orders(partition, nclaim_seqs_array(&back), now, INT_MAX);
	nclaim_dead_bury(partition, failed, now, "NACKED", false);
}

/* The messages are given back; those of orders that are held can be leased now. */
void
nclaim_held_give_back(int partition, const NClaimSeqs *seqs, TimestampTz now)
{
	Datum		values[3] = {
		Int32GetDatum(partition),
		nclaim_seqs_array(seqs),
		TimestampTzGetDatum(now)
	};

	nclaim_own_execute(NCLAIM_GIVE_BACK_HELD, values, NULL, InvalidSnapshot);
}

/*
 * Of a lease's messages some are done with and the rest are not.  To be called
 * while they are all there.
 */
void
nclaim_held_done(int partition, const NClaimSeqs *all, const NClaimSeqs *done,
				 const NClaimSeqs *rest, TimestampTz now)
{
	Datum		array = nclaim_seqs_array(done);
	Datum		values[5] = {
		Int32GetDatum(partition),
		nclaim_seqs_array(all),
		array,
		nclaim_seqs_array(rest),
		TimestampTzGetDatum(now)
	};

	nclaim_own_execute(NCLAIM_FREE_HELD, values, NULL, InvalidSnapshot);
	nclaim_own_execute(NCLAIM_DELETE_ATTEMPTS, &array, NULL, InvalidSnapshot);
}
