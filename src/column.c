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
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "notify_claim.h"

/*
 * Can the type's functions keep what they like between calls?  Those of a
 * domain, an array, a composite or a range may run code of users', which may
 * call us, and what they keep cannot be shared with a call within the call.
 */
static bool
is_plain(Oid type)
{
	char		typtype = get_typtype(type);

	return typtype == TYPTYPE_ENUM ||
		(typtype == TYPTYPE_BASE && !OidIsValid(get_element_type(type)));
}

/* The function for one call, in the current memory context. */
static FmgrInfo *
for_call(const NClaimColumn *column, FmgrInfo *function)
{
	FmgrInfo   *own;

	if (column->plain)
		return function;
	own = palloc(sizeof(FmgrInfo));
	fmgr_info_copy(own, function, CurrentMemoryContext);
	return own;
}

/*
 * May the text of a value depend on settings?  Not that of strings, integers,
 * enums, booleans and UUIDs.
 */
static bool
is_styled(Oid type)
{
	Oid			base = getBaseType(type);
	char		category;
	bool		preferred;

	get_type_category_preferred(base, &category, &preferred);
	return !(category == TYPCATEGORY_STRING || category == TYPCATEGORY_ENUM ||
			 category == TYPCATEGORY_BOOLEAN || base == UUIDOID ||
			 (category == TYPCATEGORY_NUMERIC &&
			  base != FLOAT4OID && base != FLOAT8OID));
}

/*
 * Fills *column from the attribute, in the current memory context; the
 * operator is set separately.
 */
void
nclaim_column_describe(NClaimColumn *column, Form_pg_attribute att)
{
	Oid			function;
	bool		varlena;
	int32		typmod = att->atttypmod;
	Oid			base = getBaseTypeAndTypmod(att->atttypid, &typmod);

	column->attnum = att->attnum;
	column->type = att->atttypid;
	column->typmod = att->atttypmod;
	column->byval = att->attbyval;
	column->len = att->attlen;
	column->plain = is_plain(column->type);
	column->padded = base == BPCHAROID;
	column->styled = is_styled(base);
	column->lossy = typmod >= 0;
	column->column_collation = att->attcollation;
	column->name = pstrdup(quote_identifier(NameStr(att->attname)));

	getTypeInputInfo(column->type, &function, &column->ioparam);
	fmgr_info_cxt(function, &column->in, CurrentMemoryContext);
	getTypeInputInfo(base, &function, &column->base_ioparam);
	fmgr_info_cxt(function, &column->base_in, CurrentMemoryContext);
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
 * Raises what the input function raises: 22P02, 22001, 22003, a domain's 23514;
 * and 22P02 where the column's limit would make another value of it, as
 * numeric(10) makes 43 of 42.6.
 */
Datum
nclaim_column_in(NClaimColumn *column, const char *text)
{
	Datum		value = InputFunctionCall(for_call(column, &column->in), unconstify(char *, text),
										  column->ioparam, column->typmod);

	if (column->lossy &&
		!nclaim_column_equal(column, value,
							 InputFunctionCall(for_call(column, &column->base_in),
											   unconstify(char *, text),
											   column->base_ioparam, -1)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("value \"%s\" does not fit into column %s of type %s",
						text, column->name,
						format_type_with_typemod(column->type, column->typmod))));
	return value;
}

/*
 * Like nclaim_column_in(), but for a text that the type refuses it returns
 * false, as far as the type reports that without raising.
 */
bool
nclaim_column_reads(NClaimColumn *column, const char *text, Datum *value)
{
	return nclaim_input_reads(for_call(column, &column->in), text, column->ioparam,
							  column->typmod, value);
}

static void
set_style(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Writes a value in a style that does not depend on the session and that every
 * session reads alike, as pg_dump does.
 */
static char *
out_in_one_style(NClaimColumn *column, Datum value)
{
	int			nestlevel = NewGUCNestLevel();
	char	   *out;

	set_style("datestyle", "ISO");
	set_style("intervalstyle", "postgres");
	set_style("timezone", "UTC");
	set_style("bytea_output", "hex");
	set_style("extra_float_digits", "1");
	out = OutputFunctionCall(for_call(column, &column->out), value);
	AtEOXact_GUC(true, nestlevel);
	return out;
}

/* Returns a value as text, in the current memory context. */
char *
nclaim_column_out(NClaimColumn *column, Datum value)
{
	char	   *out = column->styled ? out_in_one_style(column, value) :
		OutputFunctionCall(for_call(column, &column->out), value);

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
	return DatumGetBool(FunctionCall2Coll(for_call(column, &column->eq),
										  column->collation, a, b));
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
 * Returns the condition that the column of table "o" equals a parameter.  Names
 * are qualified and operands have the operator's own types, so that no other
 * operator of its name can be meant.
 */
char *
nclaim_column_equals_param(const NClaimColumn *column, int param)
{
	StringInfoData buf;

	initStringInfo(&buf);
	generate_operator_clause(&buf, psprintf("o.%s", column->name), column->type,
							 column->eq_operator,
							 psprintf("$%d", param), column->type);

	/* An index with a collation of its own needs the same in the condition. */
	if (column->collation != column->column_collation)
		appendStringInfo(&buf, " COLLATE %s", collation_name(column->collation));
	return buf.data;
}
