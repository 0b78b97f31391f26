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

/* With so many failed attempts a message is leased alone. */
#define SUSPECT_ATTEMPTS ((nclaim_max_attempts + 1) / 2)

/* An order that somebody has in hand is looked at again after so long. */
#define LOOK_AGAIN_MS	1000

/* An order that is due. */
typedef struct Due
{
	Datum		order[2];		/* aggregatetype and aggregateid */
	Datum		first_seq;
} Due;

/* It is looked at again then, from that number on. */
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

/* May the message be what ends its consumers? */
static bool
is_suspect(SPITupleTable *rows, uint64 row)
{
	return DatumGetInt32(nclaim_own_value(rows, row, 8)) > SUSPECT_ATTEMPTS;
}

/*
 * Takes what can be leased now of an order's messages, of which there are some.
 * A suspect is leased by itself: the others of its batch shall not die of it.
 */
static void
take_messages(NClaimBatch *batch, Due *due, SPITupleTable *rows, uint64 n,
			  NClaimSeqs *seqs)
{
	Datum		first_seq = nclaim_own_value(rows, 0, 1);
	TimestampTz at = message_due(rows, 0, batch->now);

	if (at > batch->now)
	{
		set_due(due, at, first_seq);
		return;
	}
	if (is_suspect(rows, 0))
	{
		if (batch->messages != NIL)
			return;
		batch->full = true;
		n = 1;
	}
	for (uint64 i = 0; i < n; i++)
	{
		if (i > 0 && (is_suspect(rows, i) || message_due(rows, i, batch->now) > batch->now))
			break;
		nclaim_batch_add(batch, rows, i, seqs);
	}
	set_due(due, batch->until, first_seq);
}

static void
take_order(NClaimBatch *batch, Due *due, NClaimSeqs *seqs)
{
	Datum		values[4] = {
		due->order[0],
		due->order[1],
		due->first_seq,
		Int32GetDatum(batch->remaining)
	};
	uint64		n = nclaim_own_execute(NCLAIM_FIND_HELD_MESSAGES, values, NULL,
									   InvalidSnapshot);
	SPITupleTable *rows = SPI_tuptable;
	int			before = batch->remaining;

	if (n == 0)
		let_go(due);
	else
		take_messages(batch, due, rows, n, seqs);
	if (batch->remaining == before)
		SPI_freetuptable(rows);
}

/*
 * Takes messages of the partition's orders that are due, but for those that others
 * have in hand.
 */
void
nclaim_held_take(NClaimBatch *batch, int partition, HTAB *busy, NClaimSeqs *seqs)
{
	Datum		values[3] = {
		Int32GetDatum(partition),
		TimestampTzGetDatum(batch->now),
		Int32GetDatum(batch->remaining)
	};
	uint64		n = nclaim_own_execute(NCLAIM_FIND_DUE, values, NULL, InvalidSnapshot);
	SPITupleTable *rows = SPI_tuptable;

	for (uint64 i = 0; i < n && !batch->full && batch->remaining > 0; i++)
	{
		Due			due;

		due.order[0] = nclaim_own_value(rows, i, 1);
		due.order[1] = nclaim_own_value(rows, i, 2);
		due.first_seq = nclaim_own_value(rows, i, 3);
		if (nclaim_orders_have(busy, due.order[0], due.order[1]))
			set_due(&due, TimestampTzPlusMilliseconds(batch->now, LOOK_AGAIN_MS), due.first_seq);
		else
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

/* Holds the orders of the messages, to be looked at then. */
static void
hold_orders(int partition, Datum seqs, TimestampTz at)
{
	Datum		values[3] = {Int32GetDatum(partition), seqs, TimestampTzGetDatum(at)};

	nclaim_own_execute(NCLAIM_HOLD_ORDERS, values, NULL, InvalidSnapshot);
}

/* The lease of the messages has run out; its row is locked. */
void
nclaim_held_expired(int partition, const NClaimSeqs *seqs, TimestampTz now)
{
	Datum		array = nclaim_seqs_array(seqs);

	count_attempts(partition, array, NULL, now, 0);
	hold_orders(partition, array, now);
	nclaim_dead_bury(partition, array, now, "EXPIRED", nclaim_dead_letter == NCLAIM_DEAD_WAIT);
}

/*
 * Others have the messages in hand, in a lease whose row is locked, and keep the
 * mark from passing much that cannot be leased: hold their orders too.
 */
void
nclaim_held_set_aside(int partition, const NClaimSeqs *seqs, TimestampTz now)
{
	hold_orders(partition, nclaim_seqs_array(seqs),
				TimestampTzPlusMilliseconds(now, LOOK_AGAIN_MS));
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
	hold_orders(partition, nclaim_seqs_array(&back), now);
	nclaim_dead_bury(partition, failed, now, "NACKED", false);
}

static void
look_again(NClaimOwnStatement statement, int partition, Datum seqs, TimestampTz at)
{
	Datum		values[3] = {Int32GetDatum(partition), seqs, TimestampTzGetDatum(at)};

	nclaim_own_execute(statement, values, NULL, InvalidSnapshot);
}

/*
 * The messages are given back; what is held of their orders can be leased now.
 * Where somebody else is at an order's row, that is found out a little later.
 */
void
nclaim_held_give_back(int partition, const NClaimSeqs *seqs, TimestampTz now)
{
	look_again(NCLAIM_WAKE_HELD, partition, nclaim_seqs_array(seqs), now);
}

/* The lease of the messages ends earlier than it was to. */
void
nclaim_held_shortened(int partition, const NClaimSeqs *seqs, TimestampTz until)
{
	look_again(NCLAIM_SHORTEN_HELD, partition, nclaim_seqs_array(seqs), until);
}

/* The messages are done with.  To be called while they are still there. */
void
nclaim_held_done(int partition, const NClaimSeqs *done, TimestampTz now)
{
	Datum		array = nclaim_seqs_array(done);

	look_again(NCLAIM_WAKE_HELD, partition, array, now);
	nclaim_own_execute(NCLAIM_DELETE_ATTEMPTS, &array, NULL, InvalidSnapshot);
}
