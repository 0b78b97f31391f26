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

	MarkGUCPrefixReserved("notify_claim");
}
