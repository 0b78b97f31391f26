/*-------------------------------------------------------------------------
 *
 * resolve.c
 *		Which order table does a machine mean?
 *
 * OIDs do not survive a dump and names do not survive a rename, so both are
 * stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#include "notify_claim.h"

/* A relation's name, qualified and quoted. */
char *
nclaim_relation_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* The table of that qualified name, or InvalidOid. */
Oid
nclaim_table_by_name(const char *name)
{
	char	   *raw = pstrdup(name);
	List	   *parts;
	Oid			nspoid;

	if (!SplitIdentifierString(raw, '.', &parts) || list_length(parts) != 2)
		return InvalidOid;
	nspoid = get_namespace_oid((char *) linitial(parts), true);
	return OidIsValid(nspoid) ?
		get_relname_relid((char *) lsecond(parts), nspoid) : InvalidOid;
}

/*
 * Which table does a machine mean?  The OID decides while it lives; once it is
 * gone, the name.  Two living tables are one too many, which is a problem, as
 * is none.
 */
void
nclaim_resolve_table(NClaimMachine *machine, Oid declared)
{
	NClaimProblem *problem = &machine->problem;
	char	   *relname = get_rel_name(declared);

	machine->named = nclaim_table_by_name(machine->table_name);
	machine->relid = relname != NULL ? declared : machine->named;
	machine->by_name = relname == NULL;
	if (!OidIsValid(machine->relid))
	{
		problem->sqlerrcode = ERRCODE_UNDEFINED_TABLE;
		problem->message = psprintf("order table %s of machine \"%s\" does not exist",
									machine->table_name, machine->name);
		problem->hint = "Point the machine at another table with notify_machine_set(), or drop it.";
	}
	else if (OidIsValid(machine->named) && machine->named != machine->relid)
	{
		problem->sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
		problem->message = psprintf("order table of machine \"%s\" is ambiguous",
									machine->name);
		problem->hint = psprintf("The table that it was declared for is now %s, and another one is named %s. Choose one with notify_machine_set().",
								 nclaim_relation_name(declared),
								 machine->table_name);
	}
}

/* Raises the problem, if there is one. */
void
nclaim_problem_raise(const NClaimProblem *problem)
{
	if (problem->sqlerrcode != 0)
		ereport(ERROR,
				(errcode(problem->sqlerrcode),
				 errmsg("%s", problem->message),
				 problem->hint == NULL ? 0 : errhint("%s", problem->hint)));
}
