/*-------------------------------------------------------------------------
 *
 * json.c
 *		Small JSON objects, member by member.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/numeric.h"

#include "compat.h"
#include "notify_claim.h"

static void
push_name(NClaimJson *json, const char *name)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, name);
	value.val.string.len = strlen(name);
	nclaim_json_push(json, WJB_KEY, &value);
}

/* Starts an object in zeroed *json. */
void
nclaim_json_open(NClaimJson *json)
{
	nclaim_json_push(json, WJB_BEGIN_OBJECT, NULL);
}

/* Adds a member with a string, or null.  The text must outlive the object. */
void
nclaim_json_text(NClaimJson *json, const char *name, const char *text)
{
	JsonbValue	value;

	push_name(json, name);
	if (text == NULL)
		value.type = jbvNull;
	else
	{
		value.type = jbvString;
		value.val.string.val = unconstify(char *, text);
		value.val.string.len = strlen(text);
	}
	nclaim_json_push(json, WJB_VALUE, &value);
}

/* Adds a member with a number. */
void
nclaim_json_number(NClaimJson *json, const char *name, int64 number)
{
	JsonbValue	value;

	push_name(json, name);
	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	nclaim_json_push(json, WJB_VALUE, &value);
}

/* Adds a member with a JSON value, or null.  It must outlive the object. */
void
nclaim_json_value(NClaimJson *json, const char *name, Jsonb *jsonb)
{
	JsonbValue	value;

	push_name(json, name);
	if (jsonb == NULL)
		value.type = jbvNull;
	else if (JB_ROOT_IS_SCALAR(jsonb))
		(void) JsonbExtractScalar(&jsonb->root, &value);
	else
	{
		value.type = jbvBinary;
		value.val.binary.data = &jsonb->root;
		value.val.binary.len = VARSIZE(jsonb) - VARHDRSZ;
	}
	nclaim_json_push(json, WJB_VALUE, &value);
}

/* Ends the object and returns it, in the current memory context. */
Jsonb *
nclaim_json_close(NClaimJson *json)
{
	nclaim_json_push(json, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(json->result);
}
