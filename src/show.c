/*-------------------------------------------------------------------------
 *
 * show.c
 *		Bodies as a person sees them: what their digest is made of, and what
 *		differs between two.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_digest_bytea);
PG_FUNCTION_INFO_V1(notify_claim_digest_text);
PG_FUNCTION_INFO_V1(notify_claim_review_diff);

/* A body with more to show than this is shown as a whole. */
#define MAX_MEMBERS		10000
#define MAX_SIZE		((Size) 16 * 1024 * 1024)

/* One side of a comparison: the members of a body, sorted. */
typedef struct Side
{
	const char *body;			/* NULL: none */
	int			length;
	StringInfoData canonical;
	NClaimDigest digest;
	int			nmembers;
	int			max;
	Size		size;			/* bytes of all members */
	struct Member *members;
} Side;

typedef struct Member
{
	const char *path;
	const char *value;
} Member;

/* The bytes in bytea's hexadecimal form. */
static char *
hex_text(const char *bytes, int length)
{
	char	   *hex;
	uint64		end;

	if (length > MaxAllocSize / 2 - 3)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("body of %d bytes is too long to be shown", length)));
	hex = palloc(2 * (Size) length + 3);
	strcpy(hex, "\\x");
	end = 2 + hex_encode(bytes, length, hex + 2);
	hex[end] = '\0';
	return hex;
}

/*
 * Bytes as text in the server's encoding, or in hexadecimal where they are no
 * UTF-8 that it can represent.
 */
static char *
readable(const char *bytes, int length)
{
	int			encoding = GetDatabaseEncoding();
	Oid			conversion;
	char	   *converted;

	if (pg_encoding_verifymbstr(PG_UTF8, bytes, length) != length)
		return hex_text(bytes, length);
	if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII)
		return pnstrdup(bytes, length);
	conversion = FindDefaultConversionProc(PG_UTF8, encoding);
	if (!OidIsValid(conversion))
		return hex_text(bytes, length);
	converted = palloc_extended((Size) length * MAX_CONVERSION_GROWTH + 1,
								MCXT_ALLOC_HUGE);
	if (pg_do_encoding_conversion_buf(conversion, PG_UTF8, encoding,
									  (unsigned char *) unconstify(char *, bytes),
									  length, (unsigned char *) converted,
									  Min((Size) length * MAX_CONVERSION_GROWTH + 1, INT_MAX),
									  true) != length)
		return hex_text(bytes, length);
	return converted;
}

/*
 * notify_digest(channel, raw_body).  Raises 42704 for an unknown channel.
 */
static Datum
show_digest(FunctionCallInfo fcinfo, bool body_is_text)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext spi;
	StringInfoData canonical;
	NClaimDigest digest;
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {0};
	char	   *channel = nclaim_text_arg(fcinfo, 0, "channel");
	char	   *body;
	int			length;

	nclaim_require_arg(fcinfo, 1, "raw_body");
	body = nclaim_body_arg(fcinfo, 1, body_is_text, &length);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);

	nclaim_begin(fcinfo);
	initStringInfo(&canonical);
	nclaim_rule_digest(&nclaim_channel_find(channel)->rule, body, length, &digest,
					   &canonical);
	spi = MemoryContextSwitchTo(caller);
	values[0] = CStringGetTextDatum(digest.hex);
	values[1] = CStringGetTextDatum(readable(canonical.data, canonical.len));
	values[2] = CStringGetTextDatum(nclaim_mode_name(digest.mode));
	MemoryContextSwitchTo(spi);
	SPI_finish();
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

Datum
notify_claim_digest_bytea(PG_FUNCTION_ARGS)
{
	return show_digest(fcinfo, false);
}

Datum
notify_claim_digest_text(PG_FUNCTION_ARGS)
{
	return show_digest(fcinfo, true);
}

static void
add_member(void *arg, const char *path, size_t path_length,
		   const char *value, size_t value_length)
{
	Side	   *side = arg;

	/*
	 * A body could be made whose paths are longer than itself many times
	 * over.
	 */
	side->size += path_length + value_length;
	if (side->size > MAX_SIZE || side->nmembers == MAX_MEMBERS)
	{
		side->size = MAX_SIZE + 1;
		return;
	}
	if (side->nmembers == side->max)
	{
		side->max = Max(64, 2 * side->max);
		side->members = side->members == NULL ?
			palloc_extended(side->max * sizeof(Member), MCXT_ALLOC_HUGE) :
			repalloc_huge(side->members, side->max * sizeof(Member));
	}
	side->members[side->nmembers].path = readable(path, path_length);
	side->members[side->nmembers++].value = readable(value, value_length);
}

static int
compare_members(const void *a, const void *b)
{
	const Member *x = a;
	const Member *y = b;
	int			order = strcmp(x->path, y->path);

	return order != 0 ? order : strcmp(x->value, y->value);
}

/* Fills in the members of a body as the mode sees them. */
static void
list_members(Side *side, NClaimMode mode)
{
	side->nmembers = 0;
	side->size = 0;
	if (side->body == NULL)
		return;
	if (mode == NCLAIM_RAW)
		nclaim_canonical_members(NCLAIM_RAW, side->body, side->length, add_member, side);
	else
		nclaim_canonical_members(mode, side->canonical.data, side->canonical.len,
								 add_member, side);
	qsort(side->members, side->nmembers, sizeof(Member), compare_members);
}

static void
put_row(ReturnSetInfo *result, const char *member, const char *first,
		const char *last)
{
	bool		nulls[3] = {false, first == NULL, last == NULL};
	Datum		values[3] = {
		CStringGetTextDatum(member),
		first == NULL ? (Datum) 0 : CStringGetTextDatum(first),
		last == NULL ? (Datum) 0 : CStringGetTextDatum(last)
	};

	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Leaves on each side what the other has not. */
static void
drop_common(Side *first, Side *last)
{
	int			i = 0;
	int			j = 0;
	int			nfirst = 0;
	int			nlast = 0;

	while (i < first->nmembers || j < last->nmembers)
	{
		int			order = i == first->nmembers ? 1 : j == last->nmembers ? -1 :
			compare_members(&first->members[i], &last->members[j]);

		if (order < 0)
			first->members[nfirst++] = first->members[i];
		if (order > 0)
			last->members[nlast++] = last->members[j];
		i += order <= 0;
		j += order >= 0;
	}
	first->nmembers = nfirst;
	last->nmembers = nlast;
}

/* A row for each member that differs, those of one path side by side. */
static void
put_differences(ReturnSetInfo *result, Side *first, Side *last)
{
	int			i = 0;
	int			j = 0;

	drop_common(first, last);
	while (i < first->nmembers || j < last->nmembers)
	{
		int			order = i == first->nmembers ? 1 : j == last->nmembers ? -1 :
			strcmp(first->members[i].path, last->members[j].path);
		const Member *a = order <= 0 ? &first->members[i++] : NULL;
		const Member *b = order >= 0 ? &last->members[j++] : NULL;
		const char *path = a != NULL ? a->path : b->path;

		put_row(result, *path == '\0' ? "(body)" : path,
				a == NULL ? NULL : a->value, b == NULL ? NULL : b->value);
	}
}

/* Takes a body from column n of the row, digested under the rule. */
static void
read_side(Side *side, SPITupleTable *rows, int n, const NClaimRule *rule)
{
	bool		isnull;
	Datum		value = SPI_getbinval(rows->vals[0], rows->tupdesc, n, &isnull);
	bytea	   *body;

	memset(side, 0, sizeof(*side));
	if (isnull)
		return;
	body = DatumGetByteaPP(value);
	side->body = VARDATA_ANY(body);
	side->length = VARSIZE_ANY_EXHDR(body);
	initStringInfo(&side->canonical);
	nclaim_rule_digest(rule, side->body, side->length, &side->digest,
					   &side->canonical);
}

/*
 * The rows of a review.  What has no place in a body is named in parentheses.
 */
static void
put_diff(ReturnSetInfo *result, SPITupleTable *rows)
{
	bool		conflict = strcmp(nclaim_own_text(rows, 0, 1), "PAYLOAD_CONFLICT") == 0;
	char	   *first_order = nclaim_own_text(rows, 0, 2);
	char	   *last_order = nclaim_own_text(rows, 0, 3);
	bool		isnull;
	Datum		rule_id = SPI_getbinval(rows->vals[0], rows->tupdesc, 4, &isnull);
	NClaimRule	rule;
	Side		first;
	Side		last;

	nclaim_rule_read(isnull ? 0 : DatumGetInt64(rule_id), &rule);
	read_side(&first, rows, 5, &rule);
	read_side(&last, rows, 6, &rule);

	if (first_order != NULL && strcmp(first_order, last_order) != 0)
		put_row(result, "(order number)", first_order, last_order);
	if (conflict && first.body == NULL)
	{
		if (strcmp(nclaim_own_text(rows, 0, 7), nclaim_own_text(rows, 0, 8)) != 0)
			put_row(result, "(digest)", nclaim_own_text(rows, 0, 7), nclaim_own_text(rows, 0, 8));
		ereport(NOTICE,
				(errmsg("the first body was not kept"),
				 errhint("Switch keep_body on with notify_channel_set(), for notifications to come.")));
		return;
	}
	if (conflict && first.digest.mode != last.digest.mode)
		first.digest.mode = last.digest.mode = NCLAIM_RAW;
	list_members(&first, first.digest.mode);
	list_members(&last, last.digest.mode);
	if (first.size > MAX_SIZE || last.size > MAX_SIZE)
	{
		list_members(&first, NCLAIM_RAW);
		list_members(&last, NCLAIM_RAW);
	}
	put_differences(result, &first, &last);
}

/*
 * notify_review_diff(id).  Raises 42704 for an unknown review.
 */
Datum
notify_claim_review_diff(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *id;

	nclaim_require_arg(fcinfo, 0, "id");
	id = psprintf(INT64_FORMAT, PG_GETARG_INT64(0));
	InitMaterializedSRF(fcinfo, 0);
	nclaim_begin(fcinfo);
	if (nclaim_own_run("SELECT r.kind, c.order_no, r.order_no, r.digest_rule, b.raw_body, r.raw_body,"
					   " r.first_hash, r.payload_hash"
					   " FROM @.notify_review AS r"
					   " LEFT JOIN @.notify_claim AS c ON c.id OPERATOR(pg_catalog.=) r.claim"
					   " AND r.kind OPERATOR(pg_catalog.=) 'PAYLOAD_CONFLICT'"
					   " LEFT JOIN @.notify_body AS b ON b.claim OPERATOR(pg_catalog.=) c.id"
					   " WHERE r.id OPERATOR(pg_catalog.=) $1::pg_catalog.int8",
					   1, &id) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("review %s does not exist", id)));
	put_diff(result, SPI_tuptable);
	SPI_finish();
	return (Datum) 0;
}
