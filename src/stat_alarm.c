/*-------------------------------------------------------------------------
 *
 * stat_alarm.c
 *		A warning in the server log where a channel sends mostly repeats.
 *
 * Any call that was answered with a replay may find that out, all of them together
 * once a second for a channel, and say it once a minute.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/elog.h"
#include "utils/guc.h"

#include "stats.h"

#define CHECK_SECONDS	1
#define WARN_SECONDS	60

/* The ratio is that of so many minutes. */
#define ALARM_MINUTES	5

/* Is the time over since "then"?  True for one only of those who ask at once. */
static bool
is_time(pg_atomic_uint64 *then, uint64 seconds)
{
	uint64		now = GetCurrentTimestamp() / USECS_PER_SEC;
	uint64		before = pg_atomic_read_u64(then);

	/* Where the clock was put back the difference is huge. */
	return now - before >= seconds &&
		pg_atomic_compare_exchange_u64(then, &before, now);
}

/* Writes it to the server log alone: the client has nothing to do with it. */
static void
warn(const char *channel, uint64 received, uint64 replayed)
{
	int			nestlevel = NewGUCNestLevel();

	(void) set_config_option("client_min_messages", "error", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	ereport(WARNING,
			(errmsg("replay ratio of channel \"%s\" is %.2f, above notify_claim.replay_alarm_ratio",
					channel, (double) replayed / received),
			 errdetail("In %d minutes %llu of %llu calls were answered with a replay.",
					   ALARM_MINUTES, (unsigned long long) replayed, (unsigned long long) received),
			 errhint("The peer may not be getting the answers. The view notify_stat shows which events it sends again."),
			 errhidestmt(true),
			 errhidecontext(true)));
	AtEOXact_GUC(true, nestlevel);
}

/* Warns where too much of what the channel sends is repeats. */
void
nclaim_stat_alarm(NClaimStatEntry *channel)
{
	NClaimStatEntry *entry;
	uint64		received = 0;
	uint64		replayed = 0;
	uint32		tick;
	int			position = 0;

	if (channel->channel[0] == '\0' || nclaim_replay_alarm_ratio >= 1 ||
		!is_time(&channel->checked, CHECK_SECONDS))
		return;
	tick = nclaim_stat_tick_of(GetCurrentTimestamp());
	while ((entry = nclaim_stat_next(&position)) != NULL)
	{
		if (strcmp(entry->channel, channel->channel) != 0)
			continue;
		replayed += nclaim_stat_rate(entry, NCLAIM_RATE_REPLAYED, ALARM_MINUTES, tick);
		received += nclaim_stat_rate(entry, NCLAIM_RATE_RECEIVED, ALARM_MINUTES, tick);
	}
	if (received > 0 && received >= nclaim_replay_alarm_count &&
		replayed > nclaim_replay_alarm_ratio * received &&
		is_time(&channel->warned, WARN_SECONDS))
		warn(channel->channel, received, replayed);
}
