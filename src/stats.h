/*-------------------------------------------------------------------------
 *
 * stats.h
 *		Types and prototypes of the statistics, grouped by the file that
 *		defines them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NCLAIM_STATS_H
#define NCLAIM_STATS_H

#include "mb/pg_wchar.h"
#include "port/atomics.h"

#include "notify_claim.h"

/* in latency.c */

/* Four for each power of two of microseconds; the last begins at two hours. */
#define NCLAIM_BUCKETS		128

extern int	nclaim_latency_bucket(uint64 us);
extern double nclaim_latency_quantile(const uint64 *buckets, double fraction);

/* in stat_memory.c */

/* What an entry has of the calls; each that counts has one of the first ten. */
typedef enum NClaimStat
{
	NCLAIM_STAT_APPLIED,
	NCLAIM_STAT_SKIPPED,
	NCLAIM_STAT_PARKED,
	NCLAIM_STAT_EARLY,
	NCLAIM_STAT_CONFLICT,
	NCLAIM_STAT_REJECTED,
	NCLAIM_STAT_BUSY,
	NCLAIM_STAT_NO_ORDER,
	NCLAIM_STAT_NO_RULE,
	NCLAIM_STAT_REPLAYED,
	NCLAIM_STAT_ROLLED_BACK,
	NCLAIM_STAT_CONFLICT_ROLLED_BACK,
	NCLAIM_STAT_OVER_BUDGET,
	NCLAIM_STAT_TOTAL_US,
	NCLAIM_STAT_MIN_US,			/* and 1; 0: none yet */
	NCLAIM_STAT_MAX_US,
	NCLAIM_STAT_BUCKET,			/* the first of NCLAIM_BUCKETS */
} NClaimStat;

#define NCLAIM_ANSWERS		(NCLAIM_STAT_REPLAYED + 1)
#define NCLAIM_STATS		(NCLAIM_STAT_BUCKET + NCLAIM_BUCKETS)

/* What it has of the last minutes. */
typedef enum NClaimRate
{
	NCLAIM_RATE_RECEIVED,
	NCLAIM_RATE_REPLAYED,
	NCLAIM_RATE_CONFLICT,
} NClaimRate;

#define NCLAIM_RATES		(NCLAIM_RATE_CONFLICT + 1)
#define NCLAIM_RATE_MINUTES	15

/* A time span in which such calls are counted, in seconds. */
#define NCLAIM_TICK			10
#define NCLAIM_TICKS		(NCLAIM_RATE_MINUTES * 60 / NCLAIM_TICK + 1)

/* What is counted for a channel and an event type of a database. */
typedef struct NClaimStatEntry
{
	/* Written once, before the entry is found. */
	Oid			database;
	char		channel[NCLAIM_MAX_CHANNEL * MAX_MULTIBYTE_CHAR_LEN + 1];
	char		event_type[NCLAIM_MAX_KEY * MAX_MULTIBYTE_CHAR_LEN + 1];	/* "": undeclared ones */

	/* Anybody's, without a lock. */
	pg_atomic_uint64 values[NCLAIM_STATS];
	pg_atomic_uint64 ticks[NCLAIM_TICKS * NCLAIM_RATES];	/* tick << 32 | count */

	/* Last reset, of a database's entry for undeclared channels; 0: none. */
	pg_atomic_uint64 since;

	/* Seconds, of a channel's entry for undeclared event types. */
	pg_atomic_uint64 checked;	/* when the channel's replays were looked at */
	pg_atomic_uint64 warned;	/* when there was a warning of them */
} NClaimStatEntry;

extern void nclaim_stat_memory_init(void);
extern bool nclaim_stat_enabled(void);
extern NClaimStatEntry *nclaim_stat_entry(const char *channel,
										  const char *event_type);
extern void nclaim_stat_init_memory(void);
extern NClaimStatEntry *nclaim_stat_next_of_all(int *position);
extern NClaimStatEntry *nclaim_stat_next(int *position);
extern NClaimStatEntry *nclaim_stat_rest(void);
extern pg_atomic_uint64 *nclaim_stat_began(void);
extern void nclaim_stat_put(NClaimStatEntry *entry);
extern TimestampTz nclaim_stat_reset(void);
extern TimestampTz nclaim_stat_since(void);
extern uint64 nclaim_stat_least(uint64 a, uint64 b);
extern void nclaim_stat_add(NClaimStatEntry *entry, const uint64 *values,
							int last);
extern uint32 nclaim_stat_tick_of(TimestampTz at);
extern void nclaim_stat_tick(NClaimStatEntry *entry, uint32 tick,
							 NClaimRate rate, uint32 n);
extern uint64 nclaim_stat_rate(NClaimStatEntry *entry, NClaimRate rate,
							   int minutes, uint32 tick);

/* in stat_file.c */

extern void nclaim_stat_load(void);
extern void nclaim_stat_save(int code, Datum arg);

/* in stat_alarm.c */

extern void nclaim_stat_alarm(NClaimStatEntry *channel);

#endif							/* NCLAIM_STATS_H */
