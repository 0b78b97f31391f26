/*-------------------------------------------------------------------------
 *
 * purge.c
 *		notify_purge: how long what is kept for whom.
 *
 * Each batch is a transaction of its own, so that a purge that is cancelled loses
 * one batch, and holds back neither VACUUM nor anybody else.  Between batches the
 * extension may change hands or go away; a channel's retention is that of when
 * the purge began.  There is one purge at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "purge.h"

PG_FUNCTION_INFO_V1(notify_claim_purge);

#define MAX_BATCH	100000

/* Claims of channels that are not declared, in notify_purge_mark. */
#define UNDECLARED	""

typedef bool (*PurgeStep) (NClaimRetention *retention, int batch, int64 *count);

/* The texts as a text[]. */
static Datum
text_array(List *texts)
{
	Datum	   *elements = palloc(Max(list_length(texts), 1) * sizeof(Datum));
	int			n = 0;
	ListCell   *cell;

	foreach(cell, texts)
		elements[n++] = CStringGetTextDatum(lfirst(cell));
	return PointerGetDatum(construct_array(elements, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* Raises 22023: claims would go that the row's channel retains. */
static void
raise_retained(SPITupleTable *rows, uint64 row)
{
	const char *channel = nclaim_own_text(rows, row, 1);

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" is less than channel \"%s\" retains claims", "older_than", channel),
			 errdetail("Notifications that come again after that are processed as new ones."),
			 errhint("Channel \"%s\" retains them for %s; pass force => true to purge them all the same.",
					 channel, nclaim_own_text(rows, row, 4))));
}

static TimestampTz
cutoff_of(SPITupleTable *rows, uint64 row)
{
	return DatumGetTimestampTz(nclaim_own_value(rows, row, 2));
}

/*
 * Makes a retention of the rows from "from" to before "to", which have one
 * cutoff.
 */
static NClaimRetention *
make_retention(SPITupleTable *rows, uint64 from, uint64 to)
{
	NClaimRetention *retention = palloc0(sizeof(NClaimRetention));
	List	   *names = NIL;

	for (uint64 i = from; i < to; i++)
	{
		char	   *channel = nclaim_own_text(rows, i, 1);

		names = lappend(names, channel);
		retention->others |= strcmp(channel, UNDECLARED) == 0;
	}
	retention->cutoff = cutoff_of(rows, from);
	retention->names = text_array(names);
	return retention;
}

/*
 * Reads how long claims are kept, those kept longest first, into the current
 * memory context.  Raises 42704 for an unknown channel, 22023 where "older_than"
 * is less than a channel retains.
 */
static List *
find_retentions(const NClaimPurge *purge)
{
	bool		all = purge->channel == NULL;
	Datum		always = text_array(list_make2(NCLAIM_DEFAULT_CHANNEL, UNDECLARED));
	Datum		values[4] = {
		TimestampTzGetDatum(purge->now),
		IntervalPGetDatum(purge->older_than),
		CStringGetTextDatum(nclaim_preset_find(NULL)->settings[NCLAIM_RETAIN]),
		all ? (Datum) 0 : CStringGetTextDatum(purge->channel)
	};
	char		nulls[4] = {' ', purge->older_than == NULL ? 'n' : ' ', ' ', all ? 'n' : ' '};
	List	   *retentions = NIL;
	SPITupleTable *rows;
	uint64		n;

	nclaim_own_execute(NCLAIM_ADD_PURGE_MARKS, &always, NULL, InvalidSnapshot);
	n = nclaim_own_execute(NCLAIM_FIND_RETENTIONS, values, nulls, InvalidSnapshot);
	rows = SPI_tuptable;
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("channel \"%s\" does not exist", purge->channel)));
	for (uint64 i = 0; i < n && !purge->force; i++)
	{
		if (DatumGetBool(nclaim_own_value(rows, i, 3)))
			raise_retained(rows, i);
	}
	for (uint64 from = 0, to; from < n; from = to)
	{
		for (to = from + 1; to < n; to++)
		{
			if (cutoff_of(rows, to) != cutoff_of(rows, from))
				break;
		}
		retentions = lappend(retentions, make_retention(rows, from, to));
	}
	SPI_freetuptable(rows);
	return retentions;
}

/*
 * Each batch has an SPI connection of its own: what it has allocated goes with
 * that.
 */
static void
begin_batch(void)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

/* Commits a batch. */
static void
end_batch(NClaimPurge *purge)
{
	SPI_finish();
	nclaim_commit(purge->fcinfo);
	CHECK_FOR_INTERRUPTS();
}

/* Takes a step until it has nothing left to do. */
static void
take_steps(NClaimPurge *purge, NClaimRetention *retention, PurgeStep step)
{
	bool		more;

	retention->position = 0;
	do
	{
		begin_batch();
		nclaim_purge_begin(retention);
		more = step(retention, purge->batch, &purge->claims);
		end_batch(purge);
	} while (more);
}

static void
purge_outbox(NClaimPurge *purge)
{
	NClaimOutboxPurge outbox = {.cutoff = purge->outbox_cutoff};
	bool		more;

	do
	{
		begin_batch();
		more = nclaim_purge_outbox(&outbox, purge->batch, &purge->messages);
		end_batch(purge);
	} while (more);
}

/*
 * One purge at a time: the session's own lock, which outlives the batches, and
 * goes with an error.  Raises 55P03 where another one is at it.
 */
static void
lock_purges(LOCKTAG *tag)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationRelationId, nclaim_extension_claim_table(), 1);
	if (LockAcquire(tag, ExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("another session is purging"),
				 errhint("Try again when it has ended.")));
}

/*
 * Does what is asked for, and counts it, within a procedure that has begun.
 * Raises like notify_purge.
 */
void
nclaim_purge(NClaimPurge *purge)
{
	LOCKTAG		tag;
	List	   *retentions;
	ListCell   *cell;

	lock_purges(&tag);
	retentions = find_retentions(purge);
	nclaim_commit(purge->fcinfo);
	foreach(cell, retentions)
	{
		NClaimRetention *retention = lfirst(cell);

		take_steps(purge, retention, nclaim_purge_kept);
		take_steps(purge, retention, nclaim_purge_claims);
		take_steps(purge, retention, nclaim_purge_reviews);
	}
	if (purge->outbox_cutoff != DT_NOBEGIN)
		purge_outbox(purge);
	LockRelease(&tag, ExclusiveLock, true);
}

/* How many rows a transaction deletes at most.  Raises 22004 and 22023. */
static int
batch_arg(FunctionCallInfo fcinfo, int n)
{
	int			batch;

	nclaim_require_arg(fcinfo, n, "batch");
	batch = PG_GETARG_INT32(n);
	if (batch < 1 || batch > MAX_BATCH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be from %d to %d", "batch", 1, MAX_BATCH)));
	return batch;
}

/* When that long ago was; DT_NOBEGIN for null. */
static TimestampTz
age_arg(FunctionCallInfo fcinfo, int n, const char *name, TimestampTz now)
{
	if (nclaim_interval_arg(fcinfo, n, name) == NULL)
		return DT_NOBEGIN;
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
												   TimestampTzGetDatum(now),
												   PG_GETARG_DATUM(n)));
}

/* A procedure's row of two counts, in the current memory context. */
Datum
nclaim_counts(FunctionCallInfo fcinfo, int64 first, int64 second)
{
	TupleDesc	desc;
	Datum		values[2] = {Int64GetDatum(first), Int64GetDatum(second)};
	bool		nulls[2] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * notify_purge(older_than, batch, channel, force, outbox_older_than, claims,
 * messages).  Raises 2D000 where it cannot commit, 22004 and 22023 for bad
 * arguments, 42704 for an unknown channel, 55P03 beside another purge.
 */
Datum
notify_claim_purge(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	NClaimPurge purge = {.fcinfo = fcinfo};
	Datum		row;

	if (nclaim_interval_arg(fcinfo, 0, "older_than") != NULL)
		purge.older_than = PG_GETARG_INTERVAL_P(0);
	purge.batch = batch_arg(fcinfo, 1);
	purge.channel = nclaim_optional_text_arg(fcinfo, 2);
	nclaim_require_arg(fcinfo, 3, "force");
	purge.force = PG_GETARG_BOOL(3);
	purge.now = GetCurrentTimestamp();
	purge.outbox_cutoff = age_arg(fcinfo, 4, "outbox_older_than", purge.now);
	nclaim_begin_procedure(fcinfo, "notify_purge");
	nclaim_purge(&purge);
	MemoryContextSwitchTo(caller);
	row = nclaim_counts(fcinfo, purge.claims, purge.messages);
	nclaim_end_procedure();
	return row;
}
