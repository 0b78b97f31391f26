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

typedef struct Duty
{
	const char *name;
	const char *grants[3];		/* "@" stands for the extension's schema */
} Duty;

static const Duty duties[] = {
	{"app", {
			"EXECUTE ON FUNCTION"
			" @.handle_notify(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.bytea, pg_catalog.text, pg_catalog.jsonb),"
			" @.handle_notify(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.jsonb)"
	}},
	{"reviewer", {
			"SELECT ON TABLE @.notify_review, @.notify_review_variant, @.notify_review_open, @.notify_decision, @.notify_parked",
			"EXECUTE ON FUNCTION"
			" @.notify_review_diff(pg_catalog.int8),"
			" @.notify_review_resolve(pg_catalog.int8, pg_catalog.text, pg_catalog.text, pg_catalog.text),"
			" @.notify_unpark(pg_catalog.text, pg_catalog.text),"
			" @.notify_unpark_all(pg_catalog.int4),"
			" @.notify_parked_close(pg_catalog.int8, pg_catalog.text),"
			" @.notify_reopen(pg_catalog.int8, pg_catalog.text, pg_catalog.bytea, pg_catalog.jsonb),"
			" @.notify_digest(pg_catalog.text, pg_catalog.bytea),"
			" @.notify_digest(pg_catalog.text, pg_catalog.text),"
			" @.notify_history(pg_catalog.text)"
	}},
	{"relay", {
			"SELECT ON TABLE @.notify_outbox_leased, @.notify_outbox_held, @.notify_outbox_attempt, @.notify_outbox_dead",
			"EXECUTE ON FUNCTION"
			" @.notify_outbox_lease(pg_catalog.text, pg_catalog.int4, pg_catalog.interval),"
			" @.notify_outbox_ack(pg_catalog.uuid, pg_catalog._int8),"
			" @.notify_outbox_nack(pg_catalog.uuid, pg_catalog.int8, pg_catalog.text),"
			" @.notify_outbox_extend(pg_catalog.uuid, pg_catalog.interval),"
			" @.notify_outbox_release(pg_catalog.uuid),"
			" @.notify_outbox_redrive(pg_catalog.int8),"
			" @.notify_outbox_dead_purge(pg_catalog.interval)"
	}},
	{"monitor", {
			"SELECT ON TABLE @.notify_stat, @.notify_rate, @.notify_health",
			"EXECUTE ON FUNCTION @.notify_stat_calls(), @.notify_stat_rates(), @.notify_stat_since()"
	}},
};

static const Duty *
find_duty(const char *name)
{
	for (int i = 0; i < lengthof(duties); i++)
	{
		if (strcmp(duties[i].name, name) == 0)
			return &duties[i];
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized set of privileges \"%s\"", name),
			 errhint("Sets are \"app\", \"monitor\", \"relay\" and \"reviewer\".")));
}

/*
 * notify_grant(role, privileges).  Raises 42704 for an unknown role, 22023 for
 * an unknown set.
 */
Datum
notify_claim_grant(PG_FUNCTION_ARGS)
{
	char	   *role;
	const Duty *duty;

	nclaim_require_arg(fcinfo, 0, "role");
	role = NameStr(*PG_GETARG_NAME(0));
	duty = find_duty(nclaim_text_arg(fcinfo, 1, "privileges"));

	nclaim_begin(fcinfo);
	if (!nclaim_may_use_schema(nclaim_extension_namespace(),
							   get_role_oid(role, false)))
		run_grant("USAGE ON SCHEMA @", role);
	for (int i = 0; i < lengthof(duty->grants) && duty->grants[i] != NULL; i++)
		run_grant(duty->grants[i], role);
	SPI_finish();
	PG_RETURN_VOID();
}
