/*-------------------------------------------------------------------------
 *
 * guc.c
 *		Settings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "notify_claim.h"

int			nclaim_busy_timeout = 150;
int			nclaim_max_attempts = 10;
int			nclaim_retry_delay = 1000;
int			nclaim_retry_delay_max = 300000;
int			nclaim_dead_letter = NCLAIM_DEAD_WAIT;

static const struct config_enum_entry dead_letter_values[] = {
	{"wait", NCLAIM_DEAD_WAIT, false},
	{"flow", NCLAIM_DEAD_FLOW, false},
	{NULL, 0, false}
};

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

	MarkGUCPrefixReserved("notify_claim");
}
