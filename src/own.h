/*-------------------------------------------------------------------------
 *
 * own.h
 *		Types and prototypes for statements on the extension's own tables, grouped
 *		by the file that defines them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NCLAIM_OWN_H
#define NCLAIM_OWN_H

#include "executor/spi.h"
#include "fmgr.h"
#include "utils/snapshot.h"

/* in plan.c */

typedef struct NClaimPlan
{
	SPIPlanPtr	spi;			/* NULL: not prepared */
	uint64		serial;			/* of the preparation */
	int			generation;		/* of the generic plan that we had made */
} NClaimPlan;

extern void nclaim_plan_prepare(NClaimPlan *plan, const char *sql, int nargs,
								Oid *argtypes);
extern bool nclaim_plan_is_current(const NClaimPlan *plan);
extern bool nclaim_plan_is_same(const NClaimPlan *seen, const NClaimPlan *plan);
extern PlannedStmt *nclaim_plan_statement(const NClaimPlan *plan);
extern bool nclaim_plan_lock(const NClaimPlan *plan, Oid table);
extern const char *nclaim_plan_query(const NClaimPlan *plan);
extern Node *nclaim_plan_without_relabel(Node *node);
extern SPIPlanPtr nclaim_plan_ready(NClaimPlan *plan);
extern void nclaim_plan_free(NClaimPlan *plan);
extern void nclaim_plan_retire(NClaimPlan *plan);

/* in statements.c */

typedef enum NClaimOwnStatement
{
	NCLAIM_FIND_CLAIM,
	NCLAIM_INSERT_CLAIM,
	NCLAIM_CLOSE_CLAIM,
	NCLAIM_FIND_PARKED,
	NCLAIM_FIND_PARKED_EVENTS,
	NCLAIM_FIND_PARKED_MACHINES,
	NCLAIM_FIND_PARKED_ORDERS,
	NCLAIM_FIND_REOPENED,
	NCLAIM_READ_CLAIM,
	NCLAIM_READ_BODY,
	NCLAIM_PUT_BODY,
	NCLAIM_DELETE_BODY,
	NCLAIM_NOTE_FAILURE,
	NCLAIM_INSERT_MESSAGE,
	NCLAIM_FIND_CHANNEL,
	NCLAIM_FIND_CHANNEL_CLAIM,
	NCLAIM_FIND_CHANNEL_REVIEW,
	NCLAIM_FIND_RULE,
	NCLAIM_FIND_EVENT,
	NCLAIM_FIND_EVENTS,
	NCLAIM_FIND_MACHINES,
	NCLAIM_FIND_MACHINE,
	NCLAIM_FIND_TRANSITIONS,
	NCLAIM_FIND_REVIEW,
	NCLAIM_FIND_HOLDER,
	NCLAIM_LOCK_REVIEW,
	NCLAIM_FIND_CONFLICT,
	NCLAIM_FIND_REFUSAL,
	NCLAIM_FIND_ALLOWED,
	NCLAIM_FIND_REFUSED,
	NCLAIM_INSERT_REVIEW,
	NCLAIM_COUNT_REVIEW,
	NCLAIM_INSERT_VARIANT,
	NCLAIM_COUNT_VARIANT,
	NCLAIM_OVERTAKE_CONFLICT,
	NCLAIM_FIND_OPEN_REFUSAL,
	NCLAIM_OVERTAKE_REFUSAL,
	NCLAIM_IMPORT_CLAIMS,
	NCLAIM_COUNT_KNOWN,

	/* in relay_statements.c */
	NCLAIM_FIND_WORK,
	NCLAIM_LOCK_PARTITION,
	NCLAIM_MOVE_MARK,
	NCLAIM_FIND_LEASES,
	NCLAIM_FIND_TOKENS,
	NCLAIM_LOCK_ENDING,
	NCLAIM_TAKE_SLOT,
	NCLAIM_DELETE_SLOT,
	NCLAIM_SET_FIRST_SLOT,
	NCLAIM_ADD_SLOT,
	NCLAIM_LOCK_LEASE,
	NCLAIM_SET_LEASE,
	NCLAIM_SET_HELD,
	NCLAIM_EMPTY_SLOT,
	NCLAIM_FIND_MESSAGES,
	NCLAIM_FIND_DUE,
	NCLAIM_FIND_HELD_MESSAGES,
	NCLAIM_FIND_BLOCKING,
	NCLAIM_SET_DUE,
	NCLAIM_DELETE_HELD,
	NCLAIM_HOLD_ORDERS,
	NCLAIM_WAKE_HELD,
	NCLAIM_SHORTEN_HELD,
	NCLAIM_FIND_ORDERS,
	NCLAIM_DELETE_MESSAGES,
	NCLAIM_DELETE_RANGE,
	NCLAIM_DELETE_ATTEMPTS,
	NCLAIM_COUNT_ATTEMPTS,
	NCLAIM_BURY_MESSAGES,
	NCLAIM_LOCK_DEAD,
	NCLAIM_REDRIVE_MESSAGE,
	NCLAIM_LOCK_OLD_DEAD,
	NCLAIM_PURGE_DEAD,
	NCLAIM_FIND_OLD_MESSAGES,

	/* in purge_statements.c */
	NCLAIM_ADD_PURGE_MARKS,
	NCLAIM_FIND_RETENTIONS,
	NCLAIM_READ_PURGE_MARKS,
	NCLAIM_MOVE_PURGE_MARKS,
	NCLAIM_FIND_CLAIMS,
	NCLAIM_FIND_KEPT,
	NCLAIM_LOOK_AT_CLAIMS,
	NCLAIM_LOCK_CLAIMS,
	NCLAIM_DELETE_CLAIMS,
	NCLAIM_DELETE_BODIES,
	NCLAIM_DELETE_VARIANTS,
	NCLAIM_DELETE_DECISIONS,
	NCLAIM_DELETE_REVIEWS,
	NCLAIM_KEEP_CLAIMS,
	NCLAIM_FORGET_KEPT,
	NCLAIM_FIND_OLD_REVIEWS,
} NClaimOwnStatement;

#define NCLAIM_FIRST_RELAY_STATEMENT	NCLAIM_FIND_WORK
#define NCLAIM_FIRST_PURGE_STATEMENT	NCLAIM_ADD_PURGE_MARKS
#define NCLAIM_OWN_STATEMENTS	(NCLAIM_FIND_OLD_REVIEWS + 1)

#define NCLAIM_MAX_OWN_ARGS		13

typedef struct NClaimOwnSql
{
	const char *sql;			/* "@" stands for the extension's schema */
	int			nargs;
	Oid			argtypes[NCLAIM_MAX_OWN_ARGS];
} NClaimOwnSql;

extern const NClaimOwnSql nclaim_own_statements[];

/* Scalar subqueries with LIMIT are never hashed, as EXISTS might be. */
#define NCLAIM_THERE_IS(query) "(SELECT 1 FROM " query " LIMIT 1) IS NOT NULL"

/* in relay_statements.c */

extern const NClaimOwnSql nclaim_relay_statements[];

/* in purge_statements.c */

extern const NClaimOwnSql nclaim_purge_statements[];

/* in extension.c */

extern void nclaim_extension_init(void);
extern void nclaim_begin(FunctionCallInfo fcinfo);
extern void nclaim_begin_procedure(FunctionCallInfo fcinfo, const char *name);
extern void nclaim_commit(FunctionCallInfo fcinfo);
extern void nclaim_end_procedure(void);
extern bool nclaim_extension_is_known(Oid nspoid);
extern Oid	nclaim_extension_namespace(void);
extern Oid	nclaim_extension_claim_table(void);
extern Oid	nclaim_extension_channel_table(void);
extern Oid	nclaim_extension_moved_function(void);
extern void nclaim_own_enter(Oid *userid, int *sec_context);
extern char *nclaim_own_sql(const char *sql);
extern const NClaimPlan *nclaim_own_plan(NClaimOwnStatement statement);
extern void nclaim_own_make_plan(NClaimOwnStatement statement);
extern uint64 nclaim_own_execute(NClaimOwnStatement statement, Datum *values,
								 const char *nulls, Snapshot snapshot);
extern uint64 nclaim_own_run(const char *sql, int nargs,
							 const char *const *texts);
extern void nclaim_raise_not_serializable(const char *detail);
extern char *nclaim_own_text(SPITupleTable *rows, uint64 row, int column);
extern Datum nclaim_own_value(SPITupleTable *rows, uint64 row, int column);

/* Condition that a column equals a parameter, null being a value too. */
#define NCLAIM_SAME(column, param) \
	"(" column " OPERATOR(pg_catalog.=) " param \
	" OR (" column " IS NULL AND " param " IS NULL))"

/* in find.c */

#define NCLAIM_MAX_COLUMNS	8

/* The first row of a statement. */
typedef struct NClaimRow
{
	Datum		values[NCLAIM_MAX_COLUMNS];
	bool		nulls[NCLAIM_MAX_COLUMNS];
} NClaimRow;

typedef enum NClaimFound
{
	NCLAIM_FOUND_UNKNOWN,		/* the executor has to look for it */
	NCLAIM_FOUND_NONE,
	NCLAIM_FOUND_ROW,
} NClaimFound;

extern NClaimFound nclaim_find_directly(NClaimOwnStatement statement, Datum *values,
										Snapshot snapshot, NClaimRow *row);
extern bool nclaim_find(NClaimOwnStatement statement, Datum *values,
						Snapshot snapshot, NClaimRow *row);

/* in insert.c */

extern bool nclaim_insert(NClaimOwnStatement statement, Datum *values,
						  const char *nulls, int64 *returned);

#endif							/* NCLAIM_OWN_H */
