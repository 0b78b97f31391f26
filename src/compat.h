/*-------------------------------------------------------------------------
 *
 * compat.h
 *		The only place that looks at PG_VERSION_NUM; newest version first.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NCLAIM_COMPAT_H
#define NCLAIM_COMPAT_H

#include "common/jsonapi.h"
#include "mb/pg_wchar.h"

#ifdef FRONTEND
#define NCLAIM_CHECK_FOR_INTERRUPTS() ((void) 0)
#define NCLAIM_ALLOC_HUGE(size) palloc(size)
#define NCLAIM_REALLOC_HUGE(pointer, size) repalloc(pointer, size)
#else
#include "miscadmin.h"
#include "utils/memutils.h"
#define NCLAIM_CHECK_FOR_INTERRUPTS() CHECK_FOR_INTERRUPTS()
#define NCLAIM_ALLOC_HUGE(size) \
	MemoryContextAllocHuge(CurrentMemoryContext, size)
#define NCLAIM_REALLOC_HUGE(pointer, size) repalloc_huge(pointer, size)
#endif

/* A lexer over UTF-8, to be freed by pfree(); strings keep their escapes. */
static inline JsonLexContext *
nclaim_json_lexer(const char *bytes, size_t length)
{
#if PG_VERSION_NUM >= 170000
	return makeJsonLexContextCstringLen(NULL, bytes, length, PG_UTF8, false);
#else
	return makeJsonLexContextCstringLen(unconstify(char *, bytes), (int) length,
										PG_UTF8, false);
#endif
}

/* At the beginning of a function that does not return. */
#if PG_VERSION_NUM >= 180000
#define NCLAIM_NORETURN pg_noreturn
#else
#define NCLAIM_NORETURN pg_attribute_noreturn()
#endif

#ifndef FRONTEND

#include "access/genam.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#endif
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/jsonb.h"
#include "utils/plancache.h"
#include "utils/regproc.h"
#include "utils/wait_event.h"

/*
 * A JSON value under construction; zero it before the first push.
 */
typedef struct NClaimJson
{
#if PG_VERSION_NUM >= 190000
	JsonbInState state;
#else
	JsonbParseState *state;
#endif
	JsonbValue *result;			/* complete after the last WJB_END_OBJECT */
} NClaimJson;

static inline void
nclaim_json_push(NClaimJson *json, JsonbIteratorToken token, JsonbValue *value)
{
#if PG_VERSION_NUM >= 190000
	pushJsonbValue(&json->state, token, value);
	json->result = json->state.result;
#else
	json->result = pushJsonbValue(&json->state, token, value);
#endif
}

static inline ArrayType *
nclaim_construct_int8_array(Datum *elements, int n)
{
#if PG_VERSION_NUM >= 160000
	return construct_array_builtin(elements, n, INT8OID);
#else
	return construct_array(elements, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
#endif
}

/* deconstruct_array_builtin() does not know this type. */
static inline void
nclaim_deconstruct_int8_array(ArrayType *array, Datum **elements, bool **nulls, int *n)
{
	deconstruct_array(array, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  elements, nulls, n);
}

/* Would the statement's names be looked up as they were when it was parsed? */
static inline bool
nclaim_search_path_matches(const CachedPlanSource *source)
{
#if PG_VERSION_NUM >= 170000
	return source->search_path == NULL ||
		SearchPathMatchesCurrentEnvironment(source->search_path);
#else
	return source->search_path == NULL ||
		OverrideSearchPathMatchesCurrent(source->search_path);
#endif
}

/* Begins a scan of the index by "nkeys" keys. */
static inline IndexScanDesc
nclaim_index_beginscan(Relation table, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(table, index, snapshot, NULL, nkeys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(table, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(table, index, snapshot, nkeys, 0);
#endif
}

/* Raises where the current user may not do what the statement does, as the executor. */
static inline void
nclaim_check_permissions(const PlannedStmt *statement)
{
#if PG_VERSION_NUM >= 160000
	(void) ExecCheckPermissions(statement->rtable, statement->permInfos, true);
#else
	(void) ExecCheckRTPerms(statement->rtable, true);
#endif
}

/* Has the table a column that is computed from others? */
static inline bool
nclaim_has_generated(const TupleConstr *constraints)
{
#if PG_VERSION_NUM >= 180000
	return constraints->has_generated_stored || constraints->has_generated_virtual;
#else
	return constraints->has_generated_stored;
#endif
}

/*
 * Waits for a row in these unique indexes that is not committed; false where there
 * is one in the end.
 */
static inline bool
nclaim_check_indexes(ResultRelInfo *table, TupleTableSlot *slot, EState *estate,
					 List *indexes)
{
	ItemPointerData other;
#if PG_VERSION_NUM >= 180000
	ItemPointerData none;

	ItemPointerSetInvalid(&none);
	return ExecCheckIndexConstraints(table, slot, estate, &other, &none, indexes);
#else
	return ExecCheckIndexConstraints(table, slot, estate, &other, indexes);
#endif
}

/*
 * Inserts a row that is in the table into its indexes; *conflict is set where one
 * of "arbiters" has another row, or has one that is not committed.
 */
static inline void
nclaim_insert_index_tuples(ResultRelInfo *table, TupleTableSlot *slot, EState *estate,
						   List *arbiters, bool *conflict)
{
#if PG_VERSION_NUM >= 190000
	list_free(ExecInsertIndexTuples(table, estate, arbiters == NIL ? 0 : EIIT_NO_DUPE_ERROR,
									slot, arbiters, conflict));
#elif PG_VERSION_NUM >= 160000
	list_free(ExecInsertIndexTuples(table, slot, estate, false, arbiters != NIL, conflict,
									arbiters, false));
#else
	list_free(ExecInsertIndexTuples(table, slot, estate, false, arbiters != NIL, conflict,
									arbiters));
#endif
}

/* The wait event of a call that waits for an order's row. */
static inline uint32
nclaim_wait_event(void)
{
#if PG_VERSION_NUM >= 170000
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew("NotifyClaimOrder");
	return event;
#else
	return PG_WAIT_EXTENSION;
#endif
}

/*
 * Reads a text by the type's input function; false where that refuses it.
 * Before 16 every refusal raises, as some do later.
 */
static inline bool
nclaim_input_reads(FmgrInfo *in, const char *text, Oid ioparam, int32 typmod,
				   Datum *value)
{
#if PG_VERSION_NUM >= 160000
	ErrorSaveContext escontext = {T_ErrorSaveContext};

	return InputFunctionCallSafe(in, unconstify(char *, text), ioparam, typmod,
								 (Node *) &escontext, value);
#else
	*value = InputFunctionCall(in, unconstify(char *, text), ioparam, typmod);
	return true;
#endif
}

/* A possibly qualified name as a list; raises what is wrong with it. */
static inline List *
nclaim_name_list(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return stringToQualifiedNameList(name, NULL);
#else
	return stringToQualifiedNameList(name);
#endif
}

static inline bool
nclaim_owns_table(Oid relid, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, role);
#else
	return pg_class_ownercheck(relid, role);
#endif
}

static inline bool
nclaim_may_execute(Oid function, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK;
#else
	return pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

static inline bool
nclaim_may_use_schema(Oid nspoid, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(NamespaceRelationId, nspoid, role, ACL_USAGE) == ACLCHECK_OK;
#else
	return pg_namespace_aclcheck(nspoid, role, ACL_USAGE) == ACLCHECK_OK;
#endif
}

#endif							/* not FRONTEND */

#endif							/* NCLAIM_COMPAT_H */
