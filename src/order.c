/*-------------------------------------------------------------------------
 *
 * order.c
 *		The user's order table: what it must be like.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "nodes/bitmapset.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "notify_claim.h"

/* Notes the first problem. */
static void
note_problem(NClaimProblem *problem, int sqlerrcode, char *message, char *hint)
{
	if (problem->sqlerrcode != 0)
		return;
	problem->sqlerrcode = sqlerrcode;
	problem->message = message;
	problem->hint = hint;
}

/*
 * Is the relation of a kind whose rows commit with ours and stay?  "whole"
 * is the order table, where "rel" is a partition of it.
 */
static void
check_relation(Relation rel, Relation whole, NClaimProblem *problem)
{
	char		kind = rel->rd_rel->relkind;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		note_problem(problem, ERRCODE_WRONG_OBJECT_TYPE,
					 psprintf("\"%s\" is not a table that can hold orders",
							  RelationGetRelationName(rel)),
					 rel == whole ?
					 "An order table is a plain or a partitioned table." :
					 "A partition that is a foreign table does not commit together with the claim.");
	else if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		note_problem(problem, ERRCODE_FEATURE_NOT_SUPPORTED,
					 psprintf("order table \"%s\" is %s",
							  RelationGetRelationName(rel),
							  rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ?
							  "temporary" : "unlogged"),
					 "Claims outlive a crash and the session, and so must the orders.");
	else if (IsSystemRelation(rel) ||
			 getExtensionOfObject(RelationRelationId, RelationGetRelid(rel)) ==
			 get_extension_oid("notify_claim", false))
		note_problem(problem, ERRCODE_WRONG_OBJECT_TYPE,
					 psprintf("\"%s\" is not a table that can hold orders",
							  RelationGetRelationName(rel)),
					 "An order table is a table of the application.");
	else if (kind == RELKIND_RELATION && rel == whole &&
			 find_inheritance_children(RelationGetRelid(rel), NoLock) != NIL)
		note_problem(problem, ERRCODE_FEATURE_NOT_SUPPORTED,
					 psprintf("order table \"%s\" has inheritance children",
							  RelationGetRelationName(rel)),
					 "No unique index reaches into the children; use declarative partitioning.");
}

/* Would a new status move the row to another partition? */
static bool
partitioned_by(Relation rel, const char *column)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), column);
	Bitmapset  *attnums;

	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return false;
	attnums = bms_make_singleton(attnum - FirstLowInvalidHeapAttributeNumber);
	return has_partition_attrs(rel, attnums, NULL);
}

/* Is the column in a unique index that a lock or an UPDATE goes by? */
static bool
is_in_key(Relation rel, const char *column)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), column);
	Bitmapset  *keys = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);
	bool		found = bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber,
									  keys);

	bms_free(keys);
	return found;
}

/*
 * Does the trigger that releases what is parked fire for the relation's rows, in
 * sessions that replicate nothing?
 */
static bool
has_release_trigger(Relation rel)
{
	int			n = rel->trigdesc == NULL ? 0 : rel->trigdesc->numtriggers;

	for (int i = 0; i < n; i++)
	{
		Trigger    *trigger = &rel->trigdesc->triggers[i];

		if (trigger->tgfoid == nclaim_extension_moved_function() &&
			TRIGGER_TYPE_MATCHES(trigger->tgtype, TRIGGER_TYPE_ROW,
								 TRIGGER_TYPE_AFTER, TRIGGER_TYPE_UPDATE) &&
			trigger->tgnattr == 0 && trigger->tgqual == NULL &&
			(trigger->tgenabled == TRIGGER_FIRES_ON_ORIGIN ||
			 trigger->tgenabled == TRIGGER_FIRES_ALWAYS))
			return true;
	}
	return false;
}

/*
 * Looks at the order table and at the relations above and below it, if it is
 * partitioned or a partition.
 */
static void
check_relations(NClaimOrderTable *table, Relation whole,
				const char *status_column, NClaimProblem *problem)
{
	List	   *ancestors = NIL;
	ListCell   *cell;

	table->relids = list_make1_oid(RelationGetRelid(whole));
	if (whole->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		table->relids = find_all_inheritors(RelationGetRelid(whole), NoLock, NULL);
	if (whole->rd_rel->relispartition)
		ancestors = get_partition_ancestors(RelationGetRelid(whole));
	table->relids = list_concat(table->relids, ancestors);
	table->releases = true;

	foreach(cell, table->relids)
	{
		Relation	rel = try_relation_open(lfirst_oid(cell), AccessShareLock);

		if (rel == NULL)
			continue;
		check_relation(rel, whole, problem);
		if (problem->sqlerrcode == 0 && partitioned_by(rel, status_column))
			note_problem(problem, ERRCODE_FEATURE_NOT_SUPPORTED,
						 psprintf("status column \"%s\" is in the partition key of \"%s\"",
								  status_column, RelationGetRelationName(rel)),
						 "A new status would move the row to another partition, and whoever waits for the row would fail.");
		if (problem->sqlerrcode == 0 && is_in_key(rel, status_column))
			table->status_is_key = true;
		if (!list_member_oid(ancestors, RelationGetRelid(rel)))
			table->releases &= has_release_trigger(rel);
		relation_close(rel, AccessShareLock);
	}
}

/* Finds a user column by name; NULL, with the problem noted, if there is none. */
static Form_pg_attribute
find_column(Relation rel, const char *name, NClaimProblem *problem)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);

	if (attnum > 0)
		return TupleDescAttr(RelationGetDescr(rel), attnum - 1);

	note_problem(problem, ERRCODE_UNDEFINED_COLUMN,
				 psprintf("column \"%s\" of order table \"%s\" does not exist",
						  name, RelationGetRelationName(rel)),
				 "Check the name; notify_machine_set() corrects a machine whose column was renamed.");
	return NULL;
}

/*
 * Looks for a unique index on exactly the key column and takes its operator
 * and collation.  A partial one, an invalid one and one that is checked at
 * commit promise nothing.
 */
static bool
use_unique_index(Relation rel, NClaimColumn *key)
{
	bool		found = false;
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);
		Form_pg_index form = index->rd_index;

		if (index->rd_rel->relam == BTREE_AM_OID &&
			form->indisunique && form->indisvalid && form->indisready &&
			form->indimmediate && form->indnkeyatts == 1 &&
			form->indkey.values[0] == key->attnum &&
			heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL))
			found = nclaim_column_set_operator(key,
											   get_opfamily_member(index->rd_opfamily[0],
																   index->rd_opcintype[0],
																   index->rd_opcintype[0],
																   BTEqualStrategyNumber),
											   index->rd_indcollation[0]);
		index_close(index, AccessShareLock);
		if (found)
			break;
	}
	list_free(indexes);
	return found;
}

static void
note_no_equality(const char *column, NClaimProblem *problem)
{
	note_problem(problem, ERRCODE_UNDEFINED_FUNCTION,
				 psprintf("column \"%s\" is of a type without a default btree equality operator",
						  column), NULL);
}

/* Describes the key column, or notes why it will not do. */
static void
describe_key(NClaimOrderTable *table, Relation rel, const char *order_column,
			 NClaimProblem *problem)
{
	Form_pg_attribute key = find_column(rel, order_column, problem);

	if (key == NULL)
		return;
	nclaim_column_describe(&table->key, key);
	table->key_is_unique = use_unique_index(rel, &table->key);
	table->key_known = table->key_is_unique ||
		nclaim_column_default_operator(&table->key);
	if (!table->key_known)
		note_no_equality(order_column, problem);
}

/* The same for the status column. */
static void
describe_status(NClaimOrderTable *table, Relation rel,
				const char *order_column, const char *status_column,
				NClaimProblem *problem)
{
	Form_pg_attribute status = find_column(rel, status_column, problem);

	if (status == NULL)
		return;
	if (strcmp(order_column, status_column) == 0)
		note_problem(problem, ERRCODE_INVALID_PARAMETER_VALUE,
					 psprintf("column \"%s\" cannot be both the order number and the status",
							  order_column), NULL);
	else if (status->attgenerated != '\0' ||
			 status->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
		note_problem(problem, ERRCODE_FEATURE_NOT_SUPPORTED,
					 psprintf("status column \"%s\" is generated", status_column),
					 "A status must be a column that can be updated.");
	else
	{
		nclaim_column_describe(&table->status, status);
		if (!nclaim_column_default_operator(&table->status))
			note_no_equality(status_column, problem);
	}
}

/*
 * Describes an order table, in the current memory context.  Where it cannot
 * be used, *problem says why; nothing is raised for that.
 */
void
nclaim_order_describe(NClaimOrderTable *table, Oid relid,
					  const char *order_column, const char *status_column,
					  NClaimProblem *problem)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	memset(table, 0, sizeof(*table));
	if (rel == NULL)
	{
		note_problem(problem, ERRCODE_UNDEFINED_TABLE,
					 psprintf("relation with OID %u does not exist", relid), NULL);
		return;
	}

	table->relid = relid;
	table->nspoid = RelationGetNamespace(rel);
	table->name = quote_qualified_identifier(get_namespace_name(table->nspoid),
											 RelationGetRelationName(rel));
	check_relation(rel, rel, problem);
	describe_key(table, rel, order_column, problem);
	describe_status(table, rel, order_column, status_column, problem);
	if (problem->sqlerrcode == 0)
		check_relations(table, rel, status_column, problem);
	relation_close(rel, AccessShareLock);
}

/* Do two descriptions mean the same columns of the same table? */
bool
nclaim_order_same(const NClaimOrderTable *a, const NClaimOrderTable *b)
{
	return a->relid == b->relid &&
		a->key.attnum == b->key.attnum &&
		a->status.attnum == b->status.attnum;
}
