/*-------------------------------------------------------------------------
 *
 * arguments.c
 *		Reading and checking arguments of SQL-callable functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "notify_claim.h"

/* Raises 22004 for a null argument. */
void
nclaim_require_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", name)));
}

/* Returns a text argument; raises 22004 where it is null. */
char *
nclaim_text_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	nclaim_require_arg(fcinfo, n, name);
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* Returns a text argument, or NULL. */
char *
nclaim_optional_text_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/*
 * Returns a bytea argument that is not null, or the UTF-8 bytes of a text one,
 * and its length in bytes.
 */
char *
nclaim_body_arg(FunctionCallInfo fcinfo, int n, bool is_text, int *length)
{
	struct varlena *body = PG_GETARG_VARLENA_PP(n);
	char	   *bytes = VARDATA_ANY(body);

	*length = VARSIZE_ANY_EXHDR(body);
	if (is_text)
	{
		char	   *utf8 = pg_server_to_any(bytes, *length, PG_UTF8);

		if (utf8 != bytes)
			*length = strlen(utf8);
		bytes = utf8;
	}
	return bytes;
}

/*
 * Returns an interval argument as text, or NULL.  Raises 22023 for one that is
 * not positive.
 */
char *
nclaim_interval_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	Interval	zero = {0};

	if (PG_ARGISNULL(n))
		return NULL;
	if (!DatumGetBool(DirectFunctionCall2(interval_gt, PG_GETARG_DATUM(n),
										  IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be positive", name)));
	return DatumGetCString(DirectFunctionCall1(interval_out, PG_GETARG_DATUM(n)));
}

/* The length of a text in characters. */
int
nclaim_characters(const char *text)
{
	return pg_mbstrlen_with_len(text, strlen(text));
}

/* Has a text more characters than that?  Mostly its bytes tell. */
bool
nclaim_is_longer(const char *text, int limit)
{
	return strlen(text) > limit && nclaim_characters(text) > limit;
}

/* Is the text empty, or white space alone? */
bool
nclaim_is_blank(const char *text)
{
	const char *c = text;

	while (scanner_isspace(*c))
		c++;
	return *c == '\0';
}

/* Raises 22023 for an empty text and one of white space alone. */
void
nclaim_check_not_blank(const char *text, const char *name)
{
	if (nclaim_is_blank(text))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be blank", name)));
}

/*
 * Raises 22023 for an event type that is blank or has a colon, 22001 for one
 * that no key has room for.
 */
void
nclaim_check_event_type(const char *event_type)
{
	nclaim_check_not_blank(event_type, "event_type");
	if (strchr(event_type, ':') != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("event type must not contain a colon"),
				 errdetail("The last colon of a key separates transaction id and event type."),
				 errhint("Use a dot instead.")));
	if (nclaim_is_longer(event_type, NCLAIM_MAX_KEY - 2))
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("event type is longer than %d characters", NCLAIM_MAX_KEY - 2)));
}

/* Raises 22023 for a blank order number, 22001 for one over the limit. */
void
nclaim_check_order_no(const char *order_no)
{
	nclaim_check_not_blank(order_no, "order_no");
	if (nclaim_is_longer(order_no, NCLAIM_MAX_ORDER_NO))
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("order number is longer than %d characters", NCLAIM_MAX_ORDER_NO)));
}
