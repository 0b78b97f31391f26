/*-------------------------------------------------------------------------
 *
 * dead.c
 *		Dead letters of the outbox.
 *
 * What puts one back or removes it locks its partition first, so that no call that
 * leases ever waits for that: it passes over the partition.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "relay.h"

PG_FUNCTION_INFO_V1(notify_claim_outbox_redrive);
PG_FUNCTION_INFO_V1(notify_claim_outbox_dead_purge);

/* One line a minute for each order. */
static void
log_dead_letter(SPITupleTable *rows, uint64 row)
{
	const char *type = nclaim_own_text(rows, row, 2);
	const char *id = nclaim_own_text(rows, row, 3);

	if (nclaim_log_due("dead letter", type, id))
		ereport(LOG_SERVER_ONLY,
				(errmsg("outbox message %s is a dead letter after %s attempts",
						nclaim_own_text(rows, row, 1), nclaim_own_text(rows, row, 4)),
				 errdetail("It is of %s \"%s\".", type, id),
				 errhidestmt(true),
				 errhidecontext(true)));
}

/*
 * Moves those of the messages that have had all their attempts to the dead
 * letters; with "heads_only" no message that has an earlier one of its order
 * before it.  Their orders are held already.
 */
void
nclaim_dead_bury(int partition, Datum seqs, TimestampTz now, const char *reason,
				 bool heads_only)
{
	Datum		values[7] = {
		Int32GetDatum(partition),
		seqs,
		Int32GetDatum(nclaim_max_attempts),
		TimestampTzGetDatum(now),
		BoolGetDatum(nclaim_dead_letter == NCLAIM_DEAD_WAIT),
		CStringGetTextDatum(reason),
		BoolGetDatum(heads_only)
	};
	uint64		n = nclaim_own_execute(NCLAIM_BURY_MESSAGES, values, NULL, InvalidSnapshot);

	for (uint64 i = 0; i < n; i++)
		log_dead_letter(SPI_tuptable, i);
	SPI_freetuptable(SPI_tuptable);
}

/*
 * notify_outbox_redrive(seq).  Raises 42704 where there is no such dead letter.
 */
Datum
notify_claim_outbox_redrive(PG_FUNCTION_ARGS)
{
	Datum		values[2];

	nclaim_require_arg(fcinfo, 0, "seq");
	values[0] = PG_GETARG_DATUM(0);
	values[1] = TimestampTzGetDatum(GetCurrentTimestamp());
	nclaim_begin(fcinfo);
	nclaim_own_execute(NCLAIM_LOCK_DEAD, values, NULL, InvalidSnapshot);
	if (nclaim_own_execute(NCLAIM_REDRIVE_MESSAGE, values, NULL, InvalidSnapshot) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no dead letter %lld", (long long) PG_GETARG_INT64(0)),
				 errhint("Table notify_outbox_dead has the dead letters.")));
	SPI_finish();
	PG_RETURN_VOID();
}

/* notify_outbox_dead_purge(older_than).  Raises 22023 for a negative interval. */
Datum
notify_claim_outbox_dead_purge(PG_FUNCTION_ARGS)
{
	TimestampTz now = GetCurrentTimestamp();
	Interval	zero = {0};
	Datum		values[2];
	int64		count;

	nclaim_require_arg(fcinfo, 0, "older_than");
	if (DatumGetBool(DirectFunctionCall2(interval_lt, PG_GETARG_DATUM(0),
										 IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be negative", "older_than")));
	values[0] = DirectFunctionCall2(timestamptz_mi_interval, TimestampTzGetDatum(now),
									PG_GETARG_DATUM(0));
	values[1] = TimestampTzGetDatum(now);
	nclaim_begin(fcinfo);
	nclaim_own_execute(NCLAIM_LOCK_OLD_DEAD, values, NULL, InvalidSnapshot);
	nclaim_own_execute(NCLAIM_PURGE_DEAD, values, NULL, InvalidSnapshot);
	count = DatumGetInt64(nclaim_own_value(SPI_tuptable, 0, 1));
	SPI_finish();
	PG_RETURN_INT64(count);
}
