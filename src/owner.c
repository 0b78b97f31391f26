/*-------------------------------------------------------------------------
 *
 * owner.c
 *		Working on an order as the owner of its table.
 *
 * Who moves an order, or decides about one, may have no rights beyond that; what
 * follows from it is done as the owner of the table, the way ON UPDATE CASCADE
 * does.  Triggers, policies and functions find names in pg_catalog and the
 * table's schema alone meanwhile: who moves an order must not choose what its
 * owner runs.  Row level security that is forced on the owner does not hold
 * meanwhile, as it does not for ON UPDATE CASCADE: what is parked must not be
 * missed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "notify_claim.h"

/*
 * Becomes the owner of the machine's table, until nclaim_owner_leave() or an
 * abort.  Without a machine, or a table, the user stays who it is.  Raises 55000
 * where the table that was declared is gone and another one has its name.
 */
void
nclaim_owner_enter(const NClaimMachine *machine, NClaimOwner *before)
{
	HeapTuple	tuple = machine == NULL ? NULL :
		SearchSysCache1(RELOID, ObjectIdGetDatum(machine->relid));
	Form_pg_class form;

	before->nestlevel = NewGUCNestLevel();
	GetUserIdAndSecContext(&before->userid, &before->sec_context);
	if (!HeapTupleIsValid(tuple))
		return;
	if (machine->by_name && machine->problem.sqlerrcode == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("order table of machine \"%s\" is not the one that it was declared for",
						machine->name),
				 errhint("Confirm the table of that name with notify_machine_set().")));
	form = (Form_pg_class) GETSTRUCT(tuple);
	(void) set_config_option("search_path",
							 psprintf("pg_catalog, %s, pg_temp",
									  quote_identifier(get_namespace_name(form->relnamespace))),
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	SetUserIdAndSecContext(form->relowner,
						   before->sec_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	ReleaseSysCache(tuple);
}

/* Becomes the user again.  What was set meanwhile is not kept. */
void
nclaim_owner_leave(const NClaimOwner *before)
{
	SetUserIdAndSecContext(before->userid, before->sec_context);
	AtEOXact_GUC(false, before->nestlevel);
}
