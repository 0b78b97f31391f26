/*-------------------------------------------------------------------------
 *
 * stat_show.c
 *		The statistics in SQL.
 *
 * Where the library is not in shared_preload_libraries there are none; the
 * functions then return no row and say how to switch them on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "stats.h"

PG_FUNCTION_INFO_V1(notify_claim_stat_calls);
PG_FUNCTION_INFO_V1(notify_claim_stat_rates);
PG_FUNCTION_INFO_V1(notify_claim_stat_reset);
PG_FUNCTION_INFO_V1(notify_claim_stat_since);

#define CALL_COLUMNS	22

/* Are there statistics?  Says in a NOTICE what to do where there are none. */
static bool
statistics_are_on(void)
{
	if (nclaim_stat_enabled())
		return true;
	ereport(NOTICE,
			(errmsg("notify_claim counts nothing"),
			 errhint("Add notify_claim to shared_preload_libraries and restart the server.")));
	return false;
}

/* A text that is empty for null. */
static Datum
text_value(const char *text, bool *isnull)
{
	*isnull = text[0] == '\0';

	return *isnull ? (Datum) 0 : CStringGetTextDatum(text);
}

static Datum
ms_value(double us, bool *isnull)
{
	*isnull = us < 0;
	return Float8GetDatum(us / 1000);
}

/* Puts the entry's figures, as they are at one time or nearly so. */
static void
put_entry(ReturnSetInfo *result, NClaimStatEntry *entry)
{
	static const double quantiles[] = {0.5, 0.95, 0.99};
	uint64		stats[NCLAIM_STATS];
	uint64		received = 0;
	Datum		values[CALL_COLUMNS];
	bool		nulls[CALL_COLUMNS] = {0};
	int			n = 0;

	for (int i = 0; i < NCLAIM_STATS; i++)
		stats[i] = pg_atomic_read_u64(&entry->values[i]);
	for (int i = 0; i < NCLAIM_ANSWERS; i++)
		received += stats[i];
	if (entry->event_type[0] == '\0' && received + stats[NCLAIM_STAT_ROLLED_BACK] == 0)
		return;
	values[n] = text_value(entry->channel, &nulls[n]);
	n++;
	values[n] = text_value(entry->event_type, &nulls[n]);
	n++;
	values[n++] = Int64GetDatum((int64) received);
	for (int i = 0; i <= NCLAIM_STAT_OVER_BUDGET; i++)
		values[n++] = Int64GetDatum((int64) stats[i]);
	values[n++] = Float8GetDatum(stats[NCLAIM_STAT_TOTAL_US] / 1000.0);
	values[n] = ms_value((double) stats[NCLAIM_STAT_MIN_US] - 1, &nulls[n]);
	n++;
	values[n] = ms_value(received == 0 ? -1 : (double) stats[NCLAIM_STAT_MAX_US], &nulls[n]);
	n++;
	for (int i = 0; i < lengthof(quantiles); i++, n++)
	{
		double		us = nclaim_latency_quantile(stats + NCLAIM_STAT_BUCKET, quantiles[i]);

		/* What is known better than to a quarter. */
		if (received > 0)
			us = Max(Min(us, stats[NCLAIM_STAT_MAX_US]), (double) stats[NCLAIM_STAT_MIN_US] - 1);
		values[n] = ms_value(us, &nulls[n]);
	}
	Assert(n == CALL_COLUMNS);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* notify_stat_calls(): what notify_stat shows. */
Datum
notify_claim_stat_calls(PG_FUNCTION_ARGS)
{
	NClaimStatEntry *entry;
	int			position = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (!statistics_are_on())
		return (Datum) 0;
	while ((entry = nclaim_stat_next(&position)) != NULL)
		put_entry((ReturnSetInfo *) fcinfo->resultinfo, entry);
	return (Datum) 0;
}

/* notify_stat_rates(): an entry's last minutes, by entry. */
Datum
notify_claim_stat_rates(PG_FUNCTION_ARGS)
{
	static const int windows[] = {1, 5, NCLAIM_RATE_MINUTES};
	uint32		tick = nclaim_stat_tick_of(GetCurrentTimestamp());
	ReturnSetInfo *result;
	NClaimStatEntry *entry;
	int			position = 0;

	InitMaterializedSRF(fcinfo, 0);
	result = (ReturnSetInfo *) fcinfo->resultinfo;
	if (!statistics_are_on())
		return (Datum) 0;
	while ((entry = nclaim_stat_next(&position)) != NULL)
	{
		for (int i = 0; i < lengthof(windows); i++)
		{
			bool		nulls[2 + NCLAIM_RATES] = {0};
			Datum		values[2 + NCLAIM_RATES] = {
				text_value(entry->channel, &nulls[0]),
				Int32GetDatum(windows[i])
			};

			for (int j = NCLAIM_RATES - 1; j >= 0; j--)
				values[2 + j] = Int64GetDatum((int64) nclaim_stat_rate(entry, j, windows[i], tick));
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}

/* notify_stat_reset(): since when the statistics count now; null without them. */
Datum
notify_claim_stat_reset(PG_FUNCTION_ARGS)
{
	if (!statistics_are_on())
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(nclaim_stat_reset());
}

/* notify_stat_since(): since when they count; null without them. */
Datum
notify_claim_stat_since(PG_FUNCTION_ARGS)
{
	if (!nclaim_stat_enabled())
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(nclaim_stat_since());
}
