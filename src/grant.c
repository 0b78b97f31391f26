/*-------------------------------------------------------------------------
 *
 * grant.c
 *		notify_grant: the narrow set of privileges for a duty.
 *
 * The GRANTs run as the caller, with the caller's grant options: the function
 * gives nothing that plain GRANT would refuse.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "compat.h"
#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_grant);

static void
run_grant(const char *what, const char *role)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "GRANT %s TO %s", nclaim_own_sql(what),
					 quote_identifier(role));
	if (SPI_execute(sql.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not execute \"%s\"", sql.data);
}

/*
 * notify_grant(role, privileges).  Raises 42704 for an unknown role, 22023 for
 * an unknown set.
 */
Datum
notify_claim_grant(PG_FUNCTION_ARGS)
{
	char	   *role;
	char	   *privileges;

	nclaim_require_arg(fcinfo, 0, "role");
	role = NameStr(*PG_GETARG_NAME(0));
	privileges = nclaim_text_arg(fcinfo, 1, "privileges");
	if (strcmp(privileges, "app") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized set of privileges \"%s\"", privileges),
				 errhint("The set is \"app\".")));

	nclaim_begin(fcinfo);
	if (!nclaim_may_use_schema(nclaim_extension_namespace(),
							   get_role_oid(role, false)))
		run_grant("USAGE ON SCHEMA @", role);
	run_grant("EXECUTE ON FUNCTION"
			  " @.handle_notify(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.bytea, pg_catalog.text, pg_catalog.jsonb),"
			  " @.handle_notify(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.jsonb)",
			  role);
	SPI_finish();
	PG_RETURN_VOID();
}
