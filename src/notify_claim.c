/*-------------------------------------------------------------------------
 *
 * notify_claim.c
 *		Module magic and initialization.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "stats.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/*
 * Also runs where the library is loaded by pg_upgrade or CREATE EXTENSION, so
 * it never raises.
 */
void
_PG_init(void)
{
	nclaim_guc_init();
	nclaim_extension_init();
	nclaim_handle_init();
	nclaim_machine_init();
	nclaim_stat_init();
	if (process_shared_preload_libraries_in_progress)
		nclaim_stat_memory_init();
}
