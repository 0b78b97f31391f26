/*-------------------------------------------------------------------------
 *
 * plan.c
 *		SPI plans that outlive the call, and how they are planned.
 *
 * Every statement of this extension finds its rows by a key, so a generic
 * plan is right from the first call.  It is made with sequential scans
 * switched off: over a table that was vacuumed or analyzed while it was
 * empty a sequential scan looks free, and the plan would be kept while the
 * table grows (the planner's minimum of ten pages holds for tables that were
 * never vacuumed only, see table_block_relation_estimate_size()).  JIT is
 * switched off because before PostgreSQL 18 a disabled scan that cannot be
 * avoided costs 1e10, which is above jit_above_cost.
 *
 * The settings hold while the plan is made (for what the planner folds into
 * constants as well) and never while it runs: a user's trigger must be planned
 * as its owner meant it to be.  So the plan is made ahead of the execution,
 * and the conditions under which plancache.c would make it again by itself are
 * looked at beforehand.  Should it have done so all the same, the plan's
 * generation tells, and the plan is prepared afresh.
 *
 * Nothing here locks.  Plans live in the backend until they are retired.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/resowner.h"
#include "utils/rls.h"

#include "compat.h"
#include "notify_claim.h"

static CachedPlanSource *
plan_source(const NClaimPlan *plan)
{
	return (CachedPlanSource *) linitial(SPI_plan_get_plan_sources(plan->spi));
}

/*
 * Will plancache.c use the generic plan as it is?  The conditions are those
 * of RevalidateCachedQuery() and CheckCachedPlan(), but for a plan that depends
 * on the role or on a snapshot, of which ours have none.
 */
static bool
plan_is_valid(const CachedPlanSource *source)
{
	return source->is_valid &&
		source->gplan != NULL &&
		source->gplan->is_valid &&
		nclaim_search_path_matches(source) &&
		(!source->dependsOnRLS ||
		 (source->rewriteRoleId == GetUserId() &&
		  source->rewriteRowSecurity == row_security));
}

/*
 * Is the plan made, and would plancache.c use it as it is?
 */
bool
nclaim_plan_is_current(const NClaimPlan *plan)
{
	return plan->spi != NULL && plan_is_valid(plan_source(plan)) &&
		plan_source(plan)->gplan->generation == plan->generation;
}

/* Is the plan current, and the one that "seen" is a copy of? */
bool
nclaim_plan_is_same(const NClaimPlan *seen, const NClaimPlan *plan)
{
	return seen->serial == plan->serial && seen->generation == plan->generation &&
		nclaim_plan_is_current(plan);
}

/*
 * The plan itself, which is current; NULL where rules have made several statements,
 * or none, out of one.
 */
PlannedStmt *
nclaim_plan_statement(const NClaimPlan *plan)
{
	List	   *statements = plan_source(plan)->gplan->stmt_list;

	return list_length(statements) == 1 ? linitial_node(PlannedStmt, statements) : NULL;
}

/*
 * Locks a table of the plan for reading, as a plan that was made in another
 * transaction has it not locked.  Returns false where the plan is out of date by then.
 */
bool
nclaim_plan_lock(const NClaimPlan *plan, Oid table)
{
	LockRelationOid(table, AccessShareLock);
	return nclaim_plan_is_current(plan);
}

/* The text of the statement. */
const char *
nclaim_plan_query(const NClaimPlan *plan)
{
	return plan_source(plan)->query_string;
}

/* An expression of a plan without changes of its type that change no bit of it. */
Node *
nclaim_plan_without_relabel(Node *node)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

/*
 * Prepares a statement of the current user.  The plan is kept until
 * nclaim_plan_free() or nclaim_plan_retire().  Needs an SPI connection.
 */
void
nclaim_plan_prepare(NClaimPlan *plan, const char *sql, int nargs, Oid *argtypes)
{
	static uint64 serial = 0;
	SPIPlanPtr	spi = SPI_prepare_cursor(sql, nargs, argtypes,
										 CURSOR_OPT_GENERIC_PLAN);

	if (spi == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql,
			 SPI_result_code_string(SPI_result));
	if (SPI_keepplan(spi) != 0)
		elog(ERROR, "could not keep the plan of \"%s\"", sql);
	plan->serial = ++serial;
	plan->generation = 0;
	plan->spi = spi;
}

void
nclaim_plan_free(NClaimPlan *plan)
{
	if (plan->spi != NULL)
		SPI_freeplan(plan->spi);
	plan->spi = NULL;
}

static void
release_plan(void *arg)
{
	SPI_freeplan((SPIPlanPtr) arg);
}

/* Forgets a plan that an outer call may still be executing. */
void
nclaim_plan_retire(NClaimPlan *plan)
{
	SPIPlanPtr	spi = plan->spi;

	plan->spi = NULL;
	if (spi != NULL)
		nclaim_retire(release_plan, spi);
}

static void
set_for_planning(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Returns the plan, ready to be executed by the current user: if a new one
 * has to be made, it is made now, under the settings described above.  Copy
 * nothing out of *plan: the result stays good until the call ends even if a
 * trigger calls us again and *plan changes.
 */
SPIPlanPtr
nclaim_plan_ready(NClaimPlan *plan)
{
	CachedPlanSource *source = plan_source(plan);
	CachedPlan *cached;
	int			nestlevel;

	if (plan_is_valid(source))
	{
		if (source->gplan->generation == plan->generation)
			return plan->spi;
		if (plan->generation != 0)
		{
			NClaimPlan	old = *plan;

			nclaim_plan_prepare(plan, source->query_string,
								source->num_params, source->param_types);
			nclaim_plan_retire(&old);
			source = plan_source(plan);
		}
	}

	nestlevel = NewGUCNestLevel();
	set_for_planning("enable_seqscan", "off");
	set_for_planning("enable_bitmapscan", "off");
	set_for_planning("enable_indexscan", "on");
	set_for_planning("enable_indexonlyscan", "on");
	set_for_planning("enable_tidscan", "on");
	set_for_planning("enable_nestloop", "on");
	set_for_planning("jit", "off");
	cached = SPI_plan_get_cached_plan(plan->spi);
	if (cached == NULL)
		elog(ERROR, "\"%s\" is not a single statement", source->query_string);
	ReleaseCachedPlan(cached, CurrentResourceOwner);
	AtEOXact_GUC(true, nestlevel);

	/* What the planner folds may have called us and prepared it afresh. */
	plan->generation = plan_source(plan)->gplan == NULL ? 0 :
		plan_source(plan)->gplan->generation;
	return plan->spi;
}
