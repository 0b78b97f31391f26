/*-------------------------------------------------------------------------
 *
 * column.c
 *		Values of a key or status column, whatever its type.
 *
 * A text becomes a value through the type's own input function, with the
 * column's length limit, and never through a cast or as text of a query.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "notify_claim.h"

/*
 * Fills *column from the attribute, in the current memory context; the
 * operator is set separately.
 */
void
nclaim_column_describe(NClaimColumn *column, Form_pg_attribute att)
{
	Oid			function;
	bool		varlena;
	char		category;
	bool		preferred;

	column->attnum = att->attnum;
	column->type = att->atttypid;
	column->typmod = att->atttypmod;
	column->byval = att->attbyval;
	column->len = att->attlen;
	column->padded = getBaseType(att->atttypid) == BPCHAROID;
	get_type_category_preferred(att->atttypid, &category, &preferred);
	column->is_date = category == TYPCATEGORY_DATETIME ||
		category == TYPCATEGORY_TIMESPAN;
	column->column_collation = att->attcollation;
	column->name = pstrdup(quote_identifier(NameStr(att->attname)));

	getTypeInputInfo(column->type, &function, &column->ioparam);
	fmgr_info_cxt(function, &column->in, CurrentMemoryContext);
	getTypeOutputInfo(column->type, &function, &varlena);
	fmgr_info_cxt(function, &column->out, CurrentMemoryContext);
}

/*
 * Sets how the column's values are compared.  Returns false for an invalid
 * operator.
 */
bool
nclaim_column_set_operator(NClaimColumn *column, Oid eq_operator, Oid collation)
{
	if (!OidIsValid(eq_operator))
		return false;
	column->eq_operator = eq_operator;
	column->collation = collation;
	fmgr_info_cxt(get_opcode(eq_operator), &column->eq, CurrentMemoryContext);
	return true;
}

/*
 * Compares the column's values by their type's default btree equality.
 * Returns false where there is none.
 */
bool
nclaim_column_default_operator(NClaimColumn *column)
{
	TypeCacheEntry *type = lookup_type_cache(column->type, TYPECACHE_EQ_OPR |
											 TYPECACHE_BTREE_OPFAMILY);

	return OidIsValid(type->btree_opf) &&
		nclaim_column_set_operator(column, type->eq_opr, column->column_collation);
}

/*
 * Returns the column's value for a text, in the current memory context.
 * Raises what the input function raises: 22P02, 22001, 22003, a domain's 23514.
 */
Datum
nclaim_column_in(NClaimColumn *column, const char *text)
{
	return InputFunctionCall(&column->in, unconstify(char *, text),
							 column->ioparam, column->typmod);
}

/*
 * Dates are written in a style that every session reads alike, as pg_dump
 * writes them.
 */
static char *
out_in_iso_style(NClaimColumn *column, Datum value)
{
	int			nestlevel = NewGUCNestLevel();
	char	   *out;

	(void) set_config_option("datestyle", "ISO", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("intervalstyle", "postgres", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	out = OutputFunctionCall(&column->out, value);
	AtEOXact_GUC(true, nestlevel);
	return out;
}

/* Returns a value as text, in the current memory context. */
char *
nclaim_column_out(NClaimColumn *column, Datum value)
{
	char	   *out = column->is_date ? out_in_iso_style(column, value) :
		OutputFunctionCall(&column->out, value);

	if (column->padded)
	{
		int			len = strlen(out);

		while (len > 0 && out[len - 1] == ' ')
			len--;
		out[len] = '\0';
	}
	return out;
}

/* Are two values of the column, neither of them null, equal? */
bool
nclaim_column_equal(NClaimColumn *column, Datum a, Datum b)
{
	return DatumGetBool(FunctionCall2Coll(&column->eq, column->collation, a, b));
}

/* The qualified name of a collation. */
static char *
collation_name(Oid collation)
{
	HeapTuple	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	Form_pg_collation form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	name = quote_qualified_identifier(get_namespace_name(form->collnamespace),
									  NameStr(form->collname));
	ReleaseSysCache(tuple);
	return name;
}

/*
 * Returns the condition that the column of table "o" equals a parameter, with
 * every name in it qualified.
 */
char *
nclaim_column_equals_param(const NClaimColumn *column, int param)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(column->eq_operator));
	Form_pg_operator operator;
	StringInfoData buf;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", column->eq_operator);
	operator = (Form_pg_operator) GETSTRUCT(tuple);

	initStringInfo(&buf);
	appendStringInfo(&buf, "o.%s OPERATOR(%s.%s) $%d", column->name,
					 quote_identifier(get_namespace_name(operator->oprnamespace)),
					 NameStr(operator->oprname), param);
	ReleaseSysCache(tuple);

	/* An index with a collation of its own needs the same in the condition. */
	if (column->collation != column->column_collation)
		appendStringInfo(&buf, " COLLATE %s", collation_name(column->collation));
	return buf.data;
}
