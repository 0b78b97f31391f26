/*-------------------------------------------------------------------------
 *
 * hook.c
 *		Check and action functions of events.
 *
 * They are stored by their qualified name and looked up again for every call:
 * one that was dropped is an error, never a pass.  They run as the current
 * user, as a command of their own, and with a search_path of pg_catalog and
 * pg_temp unless they set one: who moves an order must not choose what its
 * owner runs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "notify_claim.h"

#define NARGS			3

static const Oid arg_types[NARGS] = {TEXTOID, TEXTOID, BYTEAOID};

/*
 * Raises 42P13 for a function that returns something else, or a set, and 42809
 * for what is no plain function.
 */
static void
check_function(Oid function, const char *name, Oid result_type)
{
	if (get_func_prokind(function) != PROKIND_FUNCTION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s is not a plain function", name)));
	if (get_func_rettype(function) != result_type || get_func_retset(function))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("function %s must return %s", name,
						format_type_be(result_type))));
}

/*
 * Finds a function given with its arguments' types, as regprocedure has it.
 * Raises 42883 where there is none, 42P13 where the arguments are others.
 */
static Oid
find_with_arguments(const char *name)
{
	Oid			function = DatumGetObjectId(DirectFunctionCall1(regprocedurein,
																CStringGetDatum(name)));
	Oid		   *types = NULL;
	int			n = 0;

	if (OidIsValid(function))
		(void) get_func_signature(function, &types, &n);
	if (n != NARGS || memcmp(types, arg_types, sizeof(arg_types)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("function %s must take (text, text, bytea)", name),
				 errdetail("The arguments are the order number, the event type and the raw body.")));
	return function;
}

/*
 * Returns the qualified name under which a function is stored that takes
 * (order_no text, event_type text, raw_body bytea) and returns result_type; it
 * may be given with or without the types of its arguments.  Raises 42883 where
 * the search_path finds none, 42P13 or 42809 for a wrong one, and 0A000 for a
 * temporary one.
 */
char *
nclaim_hook_name(const char *name, Oid result_type)
{
	Oid			function = strchr(name, '(') != NULL ? find_with_arguments(name) :
		LookupFuncName(nclaim_name_list(name), NARGS, arg_types, false);

	check_function(function, name, result_type);
	if (isAnyTempNamespace(get_func_namespace(function)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function %s is temporary", name),
				 errdetail("Other sessions could not call it.")));
	return quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
									  get_func_name(function));
}

/* Nothing but what the function itself sets decides what its names mean. */
static int
fix_search_path(void)
{
	int			nestlevel = NewGUCNestLevel();

	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return nestlevel;
}

/*
 * Calls the function; its result is in SPI_tuptable.  Raises 42883 where it
 * does not exist any more (3F000 where its schema does not), 42P13 where it
 * returns something else by now, 42501 where the user may not execute it, and
 * what it raises itself.
 */
static void
call(NClaimHook *hook, Oid result_type, const NClaimNotice *notice,
	 const char *order_no)
{
	int			nestlevel = fix_search_path();
	Datum		values[NARGS] = {
		CStringGetTextDatum(order_no),
		CStringGetTextDatum(notice->event_type),
		nclaim_notice_body(notice)
	};
	char	   *name = pstrdup(hook->function);
	Oid			function = LookupFuncName(nclaim_name_list(name), NARGS, arg_types,
										  false);
	int			result;

	check_function(function, name, result_type);
	/* The executor asks only for what the planner has not inlined. */
	if (!nclaim_may_execute(function, GetUserId()))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(function));
	if (hook->plan.spi == NULL)
	{
		Oid			argtypes[NARGS];

		memcpy(argtypes, arg_types, sizeof(argtypes));
		nclaim_plan_prepare(&hook->plan, psprintf("SELECT %s($1, $2, $3)", name),
							NARGS, argtypes);
	}
	result = SPI_execute_plan(nclaim_plan_ready(&hook->plan), values, NULL, false, 0);
	if (result != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "call of function %s failed: %s", name,
			 SPI_result_code_string(result));
	/* What the function has set goes with what was set for it. */
	AtEOXact_GUC(false, nestlevel);
}

/*
 * Asks the event's check function about a notice, under the order's lock.
 * Returns its reason to refuse it, or NULL.
 */
char *
nclaim_hook_check(NClaimHook *hook, const NClaimNotice *notice,
				  const char *order_no)
{
	char	   *reason;

	call(hook, TEXTOID, notice, order_no);
	reason = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	SPI_freetuptable(SPI_tuptable);
	return reason;
}

/* Runs the event's action function, after the event was applied. */
void
nclaim_hook_action(NClaimHook *hook, const NClaimNotice *notice,
				   const char *order_no)
{
	call(hook, VOIDOID, notice, order_no);
	SPI_freetuptable(SPI_tuptable);
}
