/*-------------------------------------------------------------------------
 *
 * guc.c
 *		Settings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "notify_claim.h"

int			nclaim_busy_timeout = 150;
int			nclaim_max_attempts = 10;
int			nclaim_retry_delay = 1000;
int			nclaim_retry_delay_max = 300000;
int			nclaim_dead_letter = NCLAIM_DEAD_WAIT;
int			nclaim_budget = 200;
double		nclaim_replay_alarm_ratio = 0.5;
int			nclaim_replay_alarm_count = 100;
int			nclaim_max_stat_entries = 500;

static const struct config_enum_entry dead_letter_values[] = {
	{"wait", NCLAIM_DEAD_WAIT, false},
	{"flow", NCLAIM_DEAD_FLOW, false},
	{NULL, 0, false}
};

/* Settings of the statistics; their size is fixed when the server starts. */
static void
define_statistics(void)
{
	DefineCustomIntVariable("notify_claim.budget",
							"How long a call of handle_notify may take before it is counted as over budget.",
							NULL,
							&nclaim_budget,
							200,
							1,
							INT_MAX,
							PGC_SUSET,
							GUC_UNIT_MS,
							NULL,
							NULL,
							NULL);

	DefineCustomRealVariable("notify_claim.replay_alarm_ratio",
							 "Above which part of replays among a channel's calls a warning is logged.",
							 "Of the last five minutes. 1 logs none.",
							 &nclaim_replay_alarm_ratio,
							 0.5,
							 0.0,
							 1.0,
							 PGC_SUSET,
							 0,
							 NULL,
							 NULL,
							 NULL);

	DefineCustomIntVariable("notify_claim.replay_alarm_count",
							"How many calls of a channel there must be before its replays are warned of.",
							NULL,
							&nclaim_replay_alarm_count,
							100,
							1,
							INT_MAX,
							PGC_SUSET,
							0,
							NULL,
							NULL,
							NULL);

	/* Without preload it has no effect, but is none that nobody knows. */
	DefineCustomIntVariable("notify_claim.max_stat_entries",
							"How many pairs of channel and event type are counted apart, of all databases.",
							NULL,
							&nclaim_max_stat_entries,
							500,
							1,
							1000000,
							process_shared_preload_libraries_in_progress ? PGC_POSTMASTER : PGC_SIGHUP,
							0,
							NULL,
							NULL,
							NULL);
}

/*
 * Declares the settings; called once, when the library is loaded.
 */
void
nclaim_guc_init(void)
{
	DefineCustomIntVariable("notify_claim.busy_timeout",
							"How long handle_notify waits for an order that another transaction holds.",
							"It is also the upper bound of lock_timeout during the call.",
							&nclaim_busy_timeout,
							150,
							1,
							60000,
							PGC_USERSET,
							GUC_UNIT_MS,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("notify_claim.max_attempts",
							"After how many attempts an outbox message becomes a dead letter.",
							"An attempt counts where the consumer says that it failed, or its lease runs out.",
							&nclaim_max_attempts,
							10,
							1,
							1000000,
							PGC_SUSET,
							0,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("notify_claim.retry_delay",
							"How long an outbox message that failed once is not leased.",
							"Each further failure doubles the time, up to notify_claim.retry_delay_max.",
							&nclaim_retry_delay,
							1000,
							0,
							INT_MAX,
							PGC_USERSET,
							GUC_UNIT_MS,
							NULL,
							NULL,
							NULL);

	DefineCustomIntVariable("notify_claim.retry_delay_max",
							"How long an outbox message that failed is not leased, at most.",
							NULL,
							&nclaim_retry_delay_max,
							300000,
							0,
							INT_MAX,
							PGC_USERSET,
							GUC_UNIT_MS,
							NULL,
							NULL,
							NULL);

	DefineCustomEnumVariable("notify_claim.dead_letter",
							 "What the later messages of an order do when one becomes a dead letter.",
							 "With \"wait\" they wait until it is put back or purged, with \"flow\" they are delivered.",
							 &nclaim_dead_letter,
							 NCLAIM_DEAD_WAIT,
							 dead_letter_values,
							 PGC_SUSET,
							 0,
							 NULL,
							 NULL,
							 NULL);

	define_statistics();
	MarkGUCPrefixReserved("notify_claim");
}
