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

#define MAX_OWN_ARGS	13

typedef struct OwnStatement
{
	const char *sql;
	int			nargs;
	Oid			argtypes[MAX_OWN_ARGS];
} OwnStatement;

/* Conditions as the partial indexes of notify_review have them. */
#define IS_KIND(kind) \
	"r.kind::pg_catalog.text OPERATOR(pg_catalog.=) '" kind "'::pg_catalog.text"
#define IS_STATE(state) \
	"r.state::pg_catalog.text OPERATOR(pg_catalog.=) '" state "'::pg_catalog.text"

/* In the statements below "@" stands for the extension's schema. */
static const OwnStatement own_statements[NCLAIM_OWN_STATEMENTS] = {
	[NCLAIM_FIND_CLAIM] = {
		"SELECT c.order_no, c.digest_mode, c.payload_hash, c.outcome, c.result_json, c.created_at,"
		" c.id, c.digest_rule"
		" FROM @.notify_claim AS c"
		" WHERE c.biz_key OPERATOR(pg_catalog.=) $1 AND c.channel OPERATOR(pg_catalog.=) $2",
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_INSERT_CLAIM] = {
		"INSERT INTO @.notify_claim AS c (channel, biz_key, order_no, payload_hash, digest_rule,"
		" digest_mode, claim_state, outcome, result_json, message_id, created_at)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
		" ON CONFLICT (biz_key, channel) DO NOTHING RETURNING c.id",
		11, {VARCHAROID, VARCHAROID, VARCHAROID, BPCHAROID, INT8OID, VARCHAROID,
		VARCHAROID, VARCHAROID, JSONBOID, UUIDOID, TIMESTAMPTZOID}
	},
	[NCLAIM_INSERT_BODY] = {
		"INSERT INTO @.notify_body (claim, raw_body, data) VALUES ($1, $2, $3)",
		3, {INT8OID, BYTEAOID, JSONBOID}
	},
	[NCLAIM_INSERT_MESSAGE] = {
		"INSERT INTO @.notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)"
		" VALUES ($1, $2, $3, $4, $5, $6)",
		6, {UUIDOID, VARCHAROID, VARCHAROID, VARCHAROID, JSONBOID, TIMESTAMPTZOID}
	},
	[NCLAIM_FIND_CHANNEL] = {
		"SELECT c.digest_rule, c.ok_status, c.ok_body, c.fail_status, c.fail_body, c.max_body,"
		" c.keep_body, c.on_conflict, c.on_no_rule"
		" FROM @.notify_channel AS c WHERE c.channel OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_CHANNEL_CLAIM] = {
		"SELECT 1 FROM @.notify_claim AS c WHERE c.channel OPERATOR(pg_catalog.=) $1"
		" AND c.id OPERATOR(pg_catalog.>) $2 LIMIT 1",
		2, {VARCHAROID, INT8OID}
	},
	[NCLAIM_FIND_CHANNEL_REVIEW] = {
		"SELECT 1 FROM @.notify_review AS r WHERE r.channel OPERATOR(pg_catalog.=) $1"
		" AND " IS_STATE("OPEN") " LIMIT 1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_RULE] = {
		"SELECT r.mode, r.ignore FROM @.notify_digest_rule AS r"
		" WHERE r.id OPERATOR(pg_catalog.=) $1",
		1, {INT8OID}
	},
	[NCLAIM_FIND_EVENT] = {
		"SELECT e.machine, e.event_type, e.message_type, e.on_early, e.check_function, e.action_function"
		" FROM @.notify_event AS e WHERE e.event_type OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_EVENTS] = {
		"SELECT e.machine, e.event_type, e.message_type, e.on_early, e.check_function, e.action_function"
		" FROM @.notify_event AS e WHERE e.machine OPERATOR(pg_catalog.=) $1",
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
	[NCLAIM_FIND_REVIEW] = {
		"SELECT r.kind, r.state, r.channel, r.biz_key, r.order_no, r.digest_rule, r.digest_mode,"
		" r.payload_hash, r.raw_body, r.data, r.reason, r.variants"
		" FROM @.notify_review AS r WHERE r.id OPERATOR(pg_catalog.=) $1",
		1, {INT8OID}
	},
	[NCLAIM_FIND_HOLDER] = {
		"SELECT r.xmax FROM @.notify_review AS r WHERE r.id OPERATOR(pg_catalog.=) $1"
		" AND " IS_STATE("OPEN"),
		1, {INT8OID}
	},
	[NCLAIM_LOCK_REVIEW] = {
		"SELECT 1 FROM @.notify_review AS r WHERE r.id OPERATOR(pg_catalog.=) $1"
		" AND " IS_STATE("OPEN") " FOR NO KEY UPDATE SKIP LOCKED",
		1, {INT8OID}
	},
	[NCLAIM_FIND_CONFLICT] = {
		"SELECT r.id, r.state FROM @.notify_review AS r"
		" WHERE r.claim OPERATOR(pg_catalog.=) $1"
		" AND " IS_KIND("PAYLOAD_CONFLICT"),
		1, {INT8OID}
	},
	[NCLAIM_FIND_REFUSAL] = {
		"SELECT r.id, r.digest_rule FROM @.notify_review AS r"
		" WHERE r.biz_key OPERATOR(pg_catalog.=) $1 AND r.channel OPERATOR(pg_catalog.=) $2"
		" AND " IS_KIND("CHECK_REFUSED") " AND " IS_STATE("OPEN"),
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_FIND_REFUSED] = {
		"SELECT v.order_no FROM @.notify_review AS r"
		" JOIN @.notify_review_variant AS v ON v.review OPERATOR(pg_catalog.=) r.id"
		" WHERE r.claim OPERATOR(pg_catalog.=) $1"
		" AND " IS_KIND("CHECK_REFUSED") " AND " IS_STATE("DISMISSED")
		" AND v.digest_mode OPERATOR(pg_catalog.=) $2"
		" AND v.payload_hash OPERATOR(pg_catalog.=) $3",
		3, {INT8OID, VARCHAROID, BPCHAROID}
	},
	[NCLAIM_INSERT_REVIEW] = {
		"INSERT INTO @.notify_review AS r (kind, channel, biz_key, claim, order_no, digest_rule,"
		" digest_mode, first_hash, payload_hash, raw_body, data, reason, first_seen, last_seen)"
		" SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13"
		" WHERE COALESCE($4, 0) OPERATOR(pg_catalog.=) COALESCE((SELECT c.id FROM @.notify_claim AS c"
		" WHERE c.biz_key OPERATOR(pg_catalog.=) $3 AND c.channel OPERATOR(pg_catalog.=) $2), 0)"
		" ON CONFLICT DO NOTHING RETURNING r.id",
		13, {VARCHAROID, VARCHAROID, VARCHAROID, INT8OID, VARCHAROID, INT8OID, VARCHAROID,
		BPCHAROID, BPCHAROID, BYTEAOID, JSONBOID, TEXTOID, TIMESTAMPTZOID}
	},

	/*
	 * The body of a content that was the last one already is not written
	 * again.
	 */
	[NCLAIM_COUNT_REVIEW] = {
		"UPDATE @.notify_review AS r SET hits = r.hits OPERATOR(pg_catalog.+) 1,"
		" order_no = $2, digest_mode = $3, payload_hash = $4, data = $6, reason = $7, last_seen = $8,"
		" raw_body = CASE WHEN r.digest_mode OPERATOR(pg_catalog.=) $3"
		" AND r.payload_hash OPERATOR(pg_catalog.=) $4 THEN r.raw_body ELSE $5 END"
		" WHERE r.id OPERATOR(pg_catalog.=) $1 AND " IS_STATE("OPEN"),
		8, {INT8OID, VARCHAROID, VARCHAROID, BPCHAROID, BYTEAOID, JSONBOID, TEXTOID, TIMESTAMPTZOID}
	},
	[NCLAIM_INSERT_VARIANT] = {
		"INSERT INTO @.notify_review_variant (review, digest_mode, payload_hash, order_no, first_seen)"
		" VALUES ($1, $2, $3, $4, $5)"
		" ON CONFLICT (review, digest_mode, payload_hash, order_no) DO NOTHING",
		5, {INT8OID, VARCHAROID, BPCHAROID, VARCHAROID, TIMESTAMPTZOID}
	},
	[NCLAIM_COUNT_VARIANT] = {
		"UPDATE @.notify_review AS r SET variants = r.variants OPERATOR(pg_catalog.+) 1"
		" WHERE r.id OPERATOR(pg_catalog.=) $1",
		1, {INT8OID}
	},
	/* An open conflict with a claim of the key that exists no longer. */
	[NCLAIM_OVERTAKE_CONFLICT] = {
		"UPDATE @.notify_review AS r SET state = 'OVERTAKEN', resolved_at = $3"
		" WHERE r.biz_key OPERATOR(pg_catalog.=) $1 AND r.channel OPERATOR(pg_catalog.=) $2"
		" AND " IS_KIND("PAYLOAD_CONFLICT") " AND " IS_STATE("OPEN")
		" AND NOT EXISTS (SELECT 1 FROM @.notify_claim AS c WHERE c.id OPERATOR(pg_catalog.=) r.claim)",
		3, {VARCHAROID, VARCHAROID, TIMESTAMPTZOID}
	},
	[NCLAIM_OVERTAKE_REFUSAL] = {
		"UPDATE @.notify_review AS r SET state = 'OVERTAKEN', resolved_at = $3"
		" WHERE r.biz_key OPERATOR(pg_catalog.=) $1 AND r.channel OPERATOR(pg_catalog.=) $2"
		" AND " IS_KIND("CHECK_REFUSED") " AND " IS_STATE("OPEN"),
		3, {VARCHAROID, VARCHAROID, TIMESTAMPTZOID}
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
	Oid			channel;
	NClaimPlan	plans[NCLAIM_OWN_STATEMENTS];
}			own;

static void
relation_changed(Datum arg, Oid relid)
{
	bool		definition = relid == own.definitions[0] ||
		relid == own.definitions[1] || relid == own.definitions[2];

	if (!OidIsValid(relid) || relid == own.claim || relid == own.channel || definition)
	{
		own.valid = false;
		own.invalidations++;
	}
	if (!OidIsValid(relid) || definition)
		nclaim_machine_invalidate();
	if (!OidIsValid(relid) || relid == own.channel)
		nclaim_channel_invalidate();
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
	own.channel = own_table("notify_channel");
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
		nclaim_channel_invalidate();
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

/* OID of the table of channels. */
Oid
nclaim_extension_channel_table(void)
{
	return own.channel;
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

/*
 * A value of what a statement returned as text, or NULL, in the current memory
 * context; columns are counted from 1.
 */
char *
nclaim_own_text(SPITupleTable *rows, uint64 row, int column)
{
	return SPI_getvalue(rows->vals[row], rows->tupdesc, column);
}
