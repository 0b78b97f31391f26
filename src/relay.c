/*-------------------------------------------------------------------------
 *
 * relay.c
 *		What consumers of the outbox call.
 *
 * A lease's row is locked by what ends or extends it.  Past its time a lease
 * counts for nothing, whether somebody else has leased its messages or not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "relay.h"

PG_FUNCTION_INFO_V1(notify_claim_outbox_lease);
PG_FUNCTION_INFO_V1(notify_claim_outbox_ack);
PG_FUNCTION_INFO_V1(notify_claim_outbox_nack);
PG_FUNCTION_INFO_V1(notify_claim_outbox_extend);
PG_FUNCTION_INFO_V1(notify_claim_outbox_release);

#define MAX_BATCH		10000
#define MAX_CONSUMER	255

/*
 * Columns of a leased message, after the token.  The rows of the two statements
 * that read messages have these in common, and differ in what follows.
 */
#define MESSAGE_COLUMNS	8

/*
 * Messages are dense where of the numbers between them, of which others belong to
 * other partitions, they may be one in so many of their own.
 */
#define SPARSE			2

/* A lease's row: its messages of one partition. */
typedef struct Lease
{
	int			partition;
	int			slot;
	TimestampTz until;
	bool		held;			/* some of its orders are held */
	NClaimSeqs	seqs;			/* outstanding */
	NClaimSeqs	acked;
} Lease;

/* When does a lease from now on run out?  Raises 22004 and 22023. */
static TimestampTz
lease_end(FunctionCallInfo fcinfo, int n, TimestampTz now)
{
	TimestampTz until;

	nclaim_require_arg(fcinfo, n, "lease");
	(void) nclaim_interval_arg(fcinfo, n, "lease");
	until = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
													TimestampTzGetDatum(now),
													PG_GETARG_DATUM(n)));
	if (TIMESTAMP_NOT_FINITE(until))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be finite", "lease")));
	return until;
}

static const char *
consumer_arg(FunctionCallInfo fcinfo)
{
	char	   *consumer = nclaim_text_arg(fcinfo, 0, "consumer");

	nclaim_check_not_blank(consumer, "consumer");
	if (nclaim_is_longer(consumer, MAX_CONSUMER))
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("consumer is longer than %d characters", MAX_CONSUMER)));
	return consumer;
}

static int
max_arg(FunctionCallInfo fcinfo)
{
	int			max;

	nclaim_require_arg(fcinfo, 1, "max");
	max = PG_GETARG_INT32(1);
	if (max < 1 || max > MAX_BATCH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be between 1 and %d", "max", MAX_BATCH)));
	return max;
}

static void
put_messages(ReturnSetInfo *result, const NClaimBatch *batch)
{
	Datum		values[MESSAGE_COLUMNS + 1];
	bool		nulls[MESSAGE_COLUMNS + 1] = {0};
	ListCell   *cell;

	values[0] = UUIDPGetDatum(&batch->token);
	foreach(cell, batch->messages)
	{
		for (int i = 1; i <= MESSAGE_COLUMNS; i++)
			values[i] = heap_getattr((HeapTuple) lfirst(cell), i, batch->desc, &nulls[i]);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

/*
 * notify_outbox_lease(consumer, max, lease).  An empty set where nothing is free.
 */
Datum
notify_claim_outbox_lease(PG_FUNCTION_ARGS)
{
	NClaimBatch batch = {0};

	batch.consumer = consumer_arg(fcinfo);
	batch.remaining = max_arg(fcinfo);
	batch.now = GetCurrentTimestamp();
	batch.until = lease_end(fcinfo, 2, batch.now);
	InitMaterializedSRF(fcinfo, 0);
	nclaim_begin(fcinfo);
	nclaim_lease(&batch);
	put_messages((ReturnSetInfo *) fcinfo->resultinfo, &batch);
	SPI_finish();
	return (Datum) 0;
}

/* Locks what the token has leased in the partition, if anything. */
static bool
find_lease(const pg_uuid_t *token, int partition, Lease *lease)
{
	Datum		values[2] = {Int32GetDatum(partition), UUIDPGetDatum(token)};
	bool		found;

	memset(lease, 0, sizeof(*lease));
	lease->partition = partition;
	if ((nclaim_token_partitions(token) & ((uint32) 1 << partition)) == 0)
		return false;
	found = nclaim_own_execute(NCLAIM_LOCK_LEASE, values, NULL, InvalidSnapshot) > 0;
	if (found)
	{
		lease->slot = DatumGetInt32(nclaim_own_value(SPI_tuptable, 0, 1));
		lease->until = DatumGetTimestampTz(nclaim_own_value(SPI_tuptable, 0, 2));
		lease->held = DatumGetBool(nclaim_own_value(SPI_tuptable, 0, 3));
		nclaim_seqs_read(&lease->seqs, nclaim_own_value(SPI_tuptable, 0, 4));
		nclaim_seqs_read(&lease->acked, nclaim_own_value(SPI_tuptable, 0, 5));
	}
	SPI_freetuptable(SPI_tuptable);
	return found;
}

/* Is the lease the consumer's, and anything of it outstanding? */
static bool
is_valid(const Lease *lease)
{
	return lease->seqs.n > 0 && lease->until > GetCurrentTimestamp();
}

static void
write_lease(Lease *lease)
{
	Datum		values[6];

	nclaim_seqs_sort(&lease->acked);
	values[0] = Int32GetDatum(lease->partition);
	values[1] = Int32GetDatum(lease->slot);
	values[2] = TimestampTzGetDatum(lease->until);
	values[3] = BoolGetDatum(lease->held);
	values[4] = nclaim_seqs_array(&lease->seqs);
	values[5] = nclaim_seqs_array(&lease->acked);
	nclaim_own_execute(NCLAIM_SET_LEASE, values, NULL, InvalidSnapshot);
}

/* Reads the orders of the lease's outstanding messages, by number. */
static uint64
find_orders(const Lease *lease)
{
	Datum		values[2] = {
		Int32GetDatum(lease->partition),
		nclaim_seqs_array(&lease->seqs)
	};

	return nclaim_own_execute(NCLAIM_FIND_ORDERS, values, NULL, InvalidSnapshot);
}

/*
 * Moves from "done" to "rest" what has an earlier message of its order in "rest".
 */
static void
keep_order(const Lease *lease, NClaimSeqs *done, NClaimSeqs *rest)
{
	HTAB	   *waiting = NULL;
	NClaimSeqs	early = {0};
	NClaimSeqs	kept = {0};
	uint64		n = find_orders(lease);

	for (uint64 i = 0; i < n; i++)
	{
		int64		seq = DatumGetInt64(nclaim_own_value(SPI_tuptable, i, 1));
		Datum		type = nclaim_own_value(SPI_tuptable, i, 2);
		Datum		id = nclaim_own_value(SPI_tuptable, i, 3);

		if (nclaim_seqs_has(rest, seq))
			nclaim_orders_add(&waiting, type, id);
		else if (nclaim_orders_have(waiting, type, id))
			nclaim_seqs_add(&early, seq);
	}
	SPI_freetuptable(SPI_tuptable);
	nclaim_seqs_split(done, &early, rest, &kept);
	nclaim_seqs_sort(rest);
	*done = kept;
}

/* Deletes messages of a partition, in one go through its index where they are dense. */
static void
delete_messages(int partition, const NClaimSeqs *done)
{
	int64		first = done->seqs[0];
	int64		last = done->seqs[done->n - 1];
	bool		dense = last - first < (int64) done->n * NCLAIM_PARTITIONS * SPARSE;
	Datum		values[4] = {
		Int32GetDatum(partition),
		nclaim_seqs_array(done),
		Int64GetDatum(first),
		Int64GetDatum(last)
	};

	nclaim_own_execute(dense ? NCLAIM_DELETE_RANGE : NCLAIM_DELETE_MESSAGES, values, NULL,
					   InvalidSnapshot);
}

/* Removes what is "wanted" of the lease's outstanding messages, if it may be. */
static void
ack_lease(Lease *lease, const NClaimSeqs *wanted)
{
	NClaimSeqs	done = {0};
	NClaimSeqs	rest = {0};

	nclaim_seqs_split(&lease->seqs, wanted, &done, &rest);
	if (done.n > 0 && rest.n > 0)
		keep_order(lease, &done, &rest);
	if (done.n == 0)
		return;
	if (lease->held)
		nclaim_held_done(lease->partition, &done, GetCurrentTimestamp());
	delete_messages(lease->partition, &done);
	lease->seqs = rest;
	for (int i = 0; i < done.n; i++)
		nclaim_seqs_add(&lease->acked, done.seqs[i]);
	write_lease(lease);
}

/*
 * notify_outbox_ack(token, seqs): the numbers that are done with, in their order.
 * What was acked before is among them until the lease's row has another lease.
 */
Datum
notify_claim_outbox_ack(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	NClaimSeqs	wanted = {0};
	NClaimSeqs	done = {0};
	const pg_uuid_t *token;
	Datum		result;

	nclaim_require_arg(fcinfo, 0, "token");
	nclaim_require_arg(fcinfo, 1, "seqs");
	token = PG_GETARG_UUID_P(0);
	nclaim_seqs_read(&wanted, PG_GETARG_DATUM(1));
	nclaim_begin(fcinfo);
	for (int i = 0; i < NCLAIM_PARTITIONS; i++)
	{
		Lease		lease;
		NClaimSeqs	others = {0};

		if (!find_lease(token, i, &lease))
			continue;
		if (is_valid(&lease))
			ack_lease(&lease, &wanted);
		nclaim_seqs_split(&lease.acked, &wanted, &done, &others);
	}
	nclaim_seqs_sort(&done);
	MemoryContextSwitchTo(caller);
	result = nclaim_seqs_array(&done);
	SPI_finish();
	PG_RETURN_DATUM(result);
}

/* The later messages of the number's order in the lease; false: it is gone. */
static bool
find_later(const Lease *lease, int64 seq, NClaimSeqs *later)
{
	HTAB	   *order = NULL;
	uint64		n = find_orders(lease);

	for (uint64 i = 0; i < n; i++)
	{
		int64		other = DatumGetInt64(nclaim_own_value(SPI_tuptable, i, 1));
		Datum		type = nclaim_own_value(SPI_tuptable, i, 2);
		Datum		id = nclaim_own_value(SPI_tuptable, i, 3);

		if (other == seq)
			nclaim_orders_add(&order, type, id);
		else if (nclaim_orders_have(order, type, id))
			nclaim_seqs_add(later, other);
	}
	SPI_freetuptable(SPI_tuptable);
	return order != NULL;
}

static void
nack_lease(Lease *lease, int64 seq, const char *reason)
{
	NClaimSeqs	back = {0};
	NClaimSeqs	rest = {0};
	NClaimSeqs	gone = {0};

	if (find_later(lease, seq, &back))
	{
		nclaim_held_failed(lease->partition, seq, &back, reason, GetCurrentTimestamp());
		lease->held = true;
	}
	nclaim_seqs_add(&back, seq);
	nclaim_seqs_sort(&back);
	nclaim_seqs_split(&lease->seqs, &back, &gone, &rest);
	lease->seqs = rest;
	write_lease(lease);
}

/* notify_outbox_nack(token, seq, reason): was the message still the consumer's? */
Datum
notify_claim_outbox_nack(PG_FUNCTION_ARGS)
{
	const pg_uuid_t *token;
	const char *reason = nclaim_optional_text_arg(fcinfo, 2);
	int64		seq;
	bool		done = false;

	nclaim_require_arg(fcinfo, 0, "token");
	nclaim_require_arg(fcinfo, 1, "seq");
	token = PG_GETARG_UUID_P(0);
	seq = PG_GETARG_INT64(1);
	nclaim_begin(fcinfo);
	for (int i = 0; i < NCLAIM_PARTITIONS && !done; i++)
	{
		Lease		lease;

		done = find_lease(token, i, &lease) && is_valid(&lease) &&
			nclaim_seqs_has(&lease.seqs, seq);
		if (done)
			nack_lease(&lease, seq, reason);
	}
	SPI_finish();
	PG_RETURN_BOOL(done);
}

/* notify_outbox_extend(token, lease): is anything outstanding that was extended? */
Datum
notify_claim_outbox_extend(PG_FUNCTION_ARGS)
{
	const pg_uuid_t *token;
	TimestampTz until = lease_end(fcinfo, 1, GetCurrentTimestamp());
	bool		extended = false;

	nclaim_require_arg(fcinfo, 0, "token");
	token = PG_GETARG_UUID_P(0);
	nclaim_begin(fcinfo);
	for (int i = 0; i < NCLAIM_PARTITIONS; i++)
	{
		Lease		lease;

		if (!find_lease(token, i, &lease) || !is_valid(&lease))
			continue;
		if (lease.held && until < lease.until)
			nclaim_held_shortened(i, &lease.seqs, until);
		lease.until = until;
		write_lease(&lease);
		extended = true;
	}
	SPI_finish();
	PG_RETURN_BOOL(extended);
}

/* notify_outbox_release(token): how many messages were given back. */
Datum
notify_claim_outbox_release(PG_FUNCTION_ARGS)
{
	const pg_uuid_t *token;
	int			count = 0;

	nclaim_require_arg(fcinfo, 0, "token");
	token = PG_GETARG_UUID_P(0);
	nclaim_begin(fcinfo);
	for (int i = 0; i < NCLAIM_PARTITIONS; i++)
	{
		Lease		lease;

		if (!find_lease(token, i, &lease) || !is_valid(&lease))
			continue;
		nclaim_held_give_back(i, &lease.seqs, GetCurrentTimestamp());
		count += lease.seqs.n;
		lease.seqs.n = 0;
		write_lease(&lease);
	}
	SPI_finish();
	PG_RETURN_INT32(count);
}
