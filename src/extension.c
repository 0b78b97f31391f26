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
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "notify_claim.h"

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
	Oid			moved;			/* function notify_order_moved() */
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

	if (!OidIsValid(nspoid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"notify_claim\" was dropped meanwhile")));
	if (own.valid && own.nspoid == nspoid)
		return;

	own.valid = false;
	own.nspoid = nspoid;
	own.claim = own_table("notify_claim");
	own.definitions[0] = own_table("notify_machine");
	own.definitions[1] = own_table("notify_event");
	own.definitions[2] = own_table("notify_transition");
	own.channel = own_table("notify_channel");
	own.moved = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
								CStringGetDatum("notify_order_moved"),
								PointerGetDatum(buildoidvector(NULL, 0)),
								ObjectIdGetDatum(nspoid));
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

/*
 * Begins a procedure of several transactions, where it may end the one that it
 * is called in.  Pins hold until SPI_finish(), whatever is committed before.
 * Raises 2D000 or 25006 with nothing done.
 */
void
nclaim_begin_procedure(FunctionCallInfo fcinfo, const char *name)
{
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("%s cannot be called inside a transaction block or a function", name),
				 errdetail("It commits what it has done, batch by batch."),
				 errhint("CALL it as a statement of its own.")));
	PreventCommandIfReadOnly(name);
	find_tables(fcinfo);
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	nclaim_pin();
	nclaim_commit(fcinfo);
}

/*
 * Commits, and begins a transaction at READ COMMITTED, whatever the session's
 * default: it works with what others do at the same time.  The tables may have
 * another schema or owner by then.  Raises 42704 where the extension is gone.
 */
void
nclaim_commit(FunctionCallInfo fcinfo)
{
	SPI_commit();
	(void) set_config_option("transaction_isolation", "read committed",
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL,
							 true, 0, false);
	find_tables(fcinfo);
}

/* Ends a procedure; its caller goes on in a transaction of the session's own kind. */
void
nclaim_end_procedure(void)
{
	SPI_commit();
	SPI_finish();
}

/* Are the tables in that schema known, as nclaim_begin() would find them? */
bool
nclaim_extension_is_known(Oid nspoid)
{
	return own.valid && own.nspoid == nspoid;
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

/* OID of the trigger function of order tables. */
Oid
nclaim_extension_moved_function(void)
{
	return own.moved;
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

/*
 * Becomes the tables' owner; undone by SetUserIdAndSecContext() with what was, or
 * by an abort.
 */
void
nclaim_own_enter(Oid *userid, int *sec_context)
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

/* The text of one of the extension's statements. */
static const NClaimOwnSql *
own_statement(NClaimOwnStatement statement)
{
	if (statement >= NCLAIM_FIRST_PURGE_STATEMENT)
		return &nclaim_purge_statements[statement - NCLAIM_FIRST_PURGE_STATEMENT];
	if (statement >= NCLAIM_FIRST_RELAY_STATEMENT)
		return &nclaim_relay_statements[statement - NCLAIM_FIRST_RELAY_STATEMENT];
	return &nclaim_own_statements[statement];
}

/* Prepares and plans a statement as the current user, if that is still to be done. */
static SPIPlanPtr
own_plan(NClaimOwnStatement statement)
{
	NClaimPlan *plan = &own.plans[statement];

	if (plan->spi == NULL)
	{
		const NClaimOwnSql *own_sql = own_statement(statement);
		Oid			argtypes[NCLAIM_MAX_OWN_ARGS];

		memcpy(argtypes, own_sql->argtypes, sizeof(argtypes));
		nclaim_plan_prepare(plan, nclaim_own_sql(own_sql->sql), own_sql->nargs, argtypes);
	}
	return nclaim_plan_ready(plan);
}

/* The plan of one of the extension's statements, made or not. */
const NClaimPlan *
nclaim_own_plan(NClaimOwnStatement statement)
{
	return &own.plans[statement];
}

/* Makes that plan, as the tables' owner.  Needs an SPI connection. */
void
nclaim_own_make_plan(NClaimOwnStatement statement)
{
	Oid			userid;
	int			sec_context;

	nclaim_own_enter(&userid, &sec_context);
	(void) own_plan(statement);
	SetUserIdAndSecContext(userid, sec_context);
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
	SPIPlanPtr	spi;
	Oid			userid;
	int			sec_context;
	int			result;

	nclaim_own_enter(&userid, &sec_context);
	spi = own_plan(statement);
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
	Oid			argtypes[NCLAIM_MAX_OWN_ARGS];
	Datum		values[NCLAIM_MAX_OWN_ARGS];
	char		nulls[NCLAIM_MAX_OWN_ARGS];
	Oid			userid;
	int			sec_context;
	int			result;

	Assert(nargs <= NCLAIM_MAX_OWN_ARGS);
	for (int i = 0; i < nargs; i++)
	{
		argtypes[i] = TEXTOID;
		nulls[i] = texts[i] == NULL ? 'n' : ' ';
		values[i] = texts[i] == NULL ? (Datum) 0 : CStringGetTextDatum(texts[i]);
	}

	nclaim_own_enter(&userid, &sec_context);
	result = SPI_execute_with_args(nclaim_own_sql(sql), nargs, argtypes,
								   values, nulls, false, 0);
	return owner_leave(userid, sec_context, result);
}

/*
 * Raises 40001 for what the transaction's snapshot cannot see; "detail" says what
 * that is, or is NULL.
 */
void
nclaim_raise_not_serializable(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 detail == NULL ? 0 : errdetail("%s", detail),
			 errhint("The transaction might succeed if retried.")));
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

/*
 * The value itself, which lives as long as the rows; 0 for NULL.
 */
Datum
nclaim_own_value(SPITupleTable *rows, uint64 row, int column)
{
	bool		isnull;
	Datum		value = SPI_getbinval(rows->vals[row], rows->tupdesc, column, &isnull);

	return isnull ? (Datum) 0 : value;
}
