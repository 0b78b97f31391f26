/*-------------------------------------------------------------------------
 *
 * extension.c
 *		The extension's own tables: where they are, and statements on them.
 *
 * They are reached as their owner, the way foreign-key triggers reach theirs:
 * a role that may execute a function needs no rights on the tables behind it.
 * The switch encloses one statement on an own table, never one of the user's.
 *
 * What is kept, for the backend's life: the schema's name, the owner and the
 * OIDs of the tables, read again after any invalidation that may concern
 * them, and one plan per statement.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "notify_claim.h"

#define MAX_OWN_ARGS	11

typedef struct OwnStatement
{
	const char *sql;
	int			nargs;
	Oid			argtypes[MAX_OWN_ARGS];
} OwnStatement;

/* In the statements below "@" stands for the extension's schema. */
static const OwnStatement own_statements[NCLAIM_OWN_STATEMENTS] = {
	[NCLAIM_FIND_CLAIM] = {
		"SELECT c.order_no, c.digest_mode, c.payload_hash, c.outcome, c.result_json, c.created_at"
		" FROM @.notify_claim AS c"
		" WHERE c.biz_key OPERATOR(pg_catalog.=) $1 AND c.channel OPERATOR(pg_catalog.=) $2",
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_INSERT_CLAIM] = {
		"INSERT INTO @.notify_claim (channel, biz_key, order_no, payload_hash, digest_mode,"
		" claim_state, outcome, result_json, message_id, created_at)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
		" ON CONFLICT (biz_key, channel) DO NOTHING",
		10, {VARCHAROID, VARCHAROID, VARCHAROID, BPCHAROID, VARCHAROID,
		VARCHAROID, VARCHAROID, JSONBOID, UUIDOID, TIMESTAMPTZOID}
	},
	[NCLAIM_INSERT_MESSAGE] = {
		"INSERT INTO @.notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)"
		" VALUES ($1, $2, $3, $4, $5, $6)",
		6, {UUIDOID, VARCHAROID, VARCHAROID, VARCHAROID, JSONBOID, TIMESTAMPTZOID}
	},
	[NCLAIM_FIND_EVENT] = {
		"SELECT e.machine, e.message_type, e.on_early FROM @.notify_event AS e"
		" WHERE e.event_type OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_EVENTS] = {
		"SELECT e.event_type, e.message_type, e.on_early FROM @.notify_event AS e"
		" WHERE e.machine OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_MACHINE] = {
		"SELECT m.order_table, m.order_table_name, m.order_column, m.status_column"
		" FROM @.notify_machine AS m WHERE m.machine OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_TRANSITIONS] = {
		"SELECT t.event_type, t.from_status, t.to_status, t.message_type"
		" FROM @.notify_transition AS t WHERE t.machine OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
};

static struct
{
	bool		valid;
	uint64		invalidations;	/* counts what may have made us invalid */
	Oid			nspoid;
	char	   *schema;			/* quoted */
	Oid			owner;
	Oid			claim;
	Oid			definitions[3]; /* notify_machine, _event, _transition */
	NClaimPlan	plans[NCLAIM_OWN_STATEMENTS];
}			own;

static void
relation_changed(Datum arg, Oid relid)
{
	bool		definition = relid == own.definitions[0] ||
		relid == own.definitions[1] || relid == own.definitions[2];

	if (!OidIsValid(relid) || relid == own.claim || definition)
	{
		own.valid = false;
		own.invalidations++;
	}
	if (!OidIsValid(relid) || definition)
		nclaim_machine_invalidate();
}

static void
namespace_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	own.valid = false;
	own.invalidations++;
}

/*
 * Registers for invalidations; called once, when the library is loaded.
 */
void
nclaim_extension_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, namespace_changed, (Datum) 0);
}

static Oid
own_table(const char *name)
{
	Oid			relid = get_relname_relid(name, own.nspoid);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" of extension \"notify_claim\" does not exist in schema \"%s\"",
						name, get_namespace_name(own.nspoid)),
				 errhint("The extension's tables and functions must stay in one schema.")));
	return relid;
}

/* Finds the extension's tables, if they are not known. */
static void
find_tables(FunctionCallInfo fcinfo)
{
	Oid			nspoid = get_func_namespace(fcinfo->flinfo->fn_oid);
	uint64		invalidations = own.invalidations;
	const char *schema;
	HeapTuple	tuple;

	if (own.valid && own.nspoid == nspoid)
		return;

	own.valid = false;
	own.nspoid = nspoid;
	own.claim = own_table("notify_claim");
	own.definitions[0] = own_table("notify_machine");
	own.definitions[1] = own_table("notify_event");
	own.definitions[2] = own_table("notify_transition");
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(own.claim));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", own.claim);
	own.owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);

	schema = quote_identifier(get_namespace_name(nspoid));
	if (own.schema == NULL || strcmp(own.schema, schema) != 0)
	{
		char	   *old = own.schema;

		for (int i = 0; i < NCLAIM_OWN_STATEMENTS; i++)
			nclaim_plan_retire(&own.plans[i]);
		own.schema = MemoryContextStrdup(TopMemoryContext, schema);
		if (old != NULL)
			pfree(old);
		nclaim_machine_invalidate();
	}

	/* What arrived meanwhile may concern what was read. */
	own.valid = own.invalidations == invalidations;
}

/*
 * Begins an SQL-callable function: finds the extension's tables, connects to
 * SPI, and pins what the call will use; SPI_finish() ends it.  The tables are
 * those in the schema of the function itself, so no search_path decides.
 * Raises 42P01 where one is missing.
 */
void
nclaim_begin(FunctionCallInfo fcinfo)
{
	find_tables(fcinfo);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	nclaim_pin();
}

/* OID of the extension's schema. */
Oid
nclaim_extension_namespace(void)
{
	return own.nspoid;
}

/* OID of the claim table, whose owner the extension's statements run as. */
Oid
nclaim_extension_claim_table(void)
{
	return own.claim;
}

/*
 * Returns the statement with the extension's schema in place of each "@".
 */
char *
nclaim_own_sql(const char *sql)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (; *sql != '\0'; sql++)
	{
		if (*sql == '@')
			appendStringInfoString(&buf, own.schema);
		else
			appendStringInfoChar(&buf, *sql);
	}
	return buf.data;
}

/* Becomes the tables' owner; undone by owner_leave(), or by an abort. */
static void
owner_enter(Oid *userid, int *sec_context)
{
	GetUserIdAndSecContext(userid, sec_context);
	SetUserIdAndSecContext(own.owner,
						   *sec_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
}

/* Becomes the user again, and returns the number of the statement's rows. */
static uint64
owner_leave(Oid userid, int sec_context, int result)
{
	SetUserIdAndSecContext(userid, sec_context);
	if (result < 0)
		elog(ERROR, "statement on the extension's tables failed: %s",
			 SPI_result_code_string(result));
	return SPI_processed;
}

/*
 * Runs one of the extension's statements as the tables' owner, with a new
 * snapshot of the transaction's, or with the one given.  Returns the number of
 * rows; rows are in SPI_tuptable.  Needs an SPI connection; raises what the
 * statement raises.
 */
uint64
nclaim_own_execute(NClaimOwnStatement statement, Datum *values,
				   const char *nulls, Snapshot snapshot)
{
	NClaimPlan *plan = &own.plans[statement];
	SPIPlanPtr	spi;
	Oid			userid;
	int			sec_context;
	int			result;

	owner_enter(&userid, &sec_context);
	if (plan->spi == NULL)
	{
		Oid			argtypes[MAX_OWN_ARGS];

		memcpy(argtypes, own_statements[statement].argtypes, sizeof(argtypes));
		nclaim_plan_prepare(plan, nclaim_own_sql(own_statements[statement].sql),
							own_statements[statement].nargs, argtypes);
	}
	spi = nclaim_plan_ready(plan);
	result = SPI_execute_snapshot(spi, values, nulls, snapshot, InvalidSnapshot,
								  false, true, 0);
	return owner_leave(userid, sec_context, result);
}

/*
 * Runs a statement that is too rare to keep a plan for; otherwise like
 * nclaim_own_execute().  "@" in the text stands for the extension's schema.
 * A NULL pointer in "texts" is an SQL NULL; all parameters are of type text.
 */
uint64
nclaim_own_run(const char *sql, int nargs, const char *const *texts)
{
	Oid			argtypes[MAX_OWN_ARGS];
	Datum		values[MAX_OWN_ARGS];
	char		nulls[MAX_OWN_ARGS];
	Oid			userid;
	int			sec_context;
	int			result;

	Assert(nargs <= MAX_OWN_ARGS);
	for (int i = 0; i < nargs; i++)
	{
		argtypes[i] = TEXTOID;
		nulls[i] = texts[i] == NULL ? 'n' : ' ';
		values[i] = texts[i] == NULL ? (Datum) 0 : CStringGetTextDatum(texts[i]);
	}

	owner_enter(&userid, &sec_context);
	result = SPI_execute_with_args(nclaim_own_sql(sql), nargs, argtypes,
								   values, nulls, false, 0);
	return owner_leave(userid, sec_context, result);
}
