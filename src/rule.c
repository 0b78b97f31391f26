/*-------------------------------------------------------------------------
 *
 * rule.c
 *		Digest rules: what two deliveries of one notification have in common.
 *
 * Rules are immutable rows.  A channel points at one; a claim records the one
 * that made its digest, and redeliveries are compared under that, so that a
 * channel's settings may change without turning old claims into conflicts.
 * Nothing is kept here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_rule_is_immutable);

static const char *const mode_names[] = {
	[NCLAIM_RAW] = "raw",
	[NCLAIM_JSON] = "json",
	[NCLAIM_FORM] = "form",
	[NCLAIM_XML] = "xml",
};

/* Name of a mode, as it is stored. */
const char *
nclaim_mode_name(NClaimMode mode)
{
	return mode_names[mode];
}

/* Finds the mode of that name; returns false where there is none. */
bool
nclaim_mode_find(const char *name, NClaimMode *mode)
{
	for (int i = 0; i < lengthof(mode_names); i++)
	{
		if (strcmp(name, mode_names[i]) == 0)
		{
			*mode = (NClaimMode) i;
			return true;
		}
	}
	return false;
}

/*
 * Makes the tree of what is ignored out of entries in the server's encoding, in
 * the current memory context.  Raises 22023 for an entry that is malformed.
 */
NClaimIgnore *
nclaim_rule_ignore(NClaimMode mode, char **entries, int n)
{
	NClaimIgnore *ignore = nclaim_ignore_make();

	for (int i = 0; i < n; i++)
	{
		char	   *utf8 = pg_server_to_any(entries[i], strlen(entries[i]), PG_UTF8);

		if (!nclaim_ignore_add(ignore, mode, utf8))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("malformed entry \"%s\" of ignore", entries[i]),
					 mode == NCLAIM_JSON ?
					 errhint("An entry is a path of member names, joined by dots; \"\\.\" is a dot within a name, \"\\\\\" a backslash.") :
					 errhint("An entry is the name of a field.")));
	}
	return ignore;
}

/*
 * Reads a rule, as last committed, into the current memory context; 0 is the
 * rule of raw.  Needs an SPI connection.  Raises 42704 where there is none.
 */
void
nclaim_rule_read(int64 id, NClaimRule *rule)
{
	MemoryContext context = CurrentMemoryContext;
	Datum		value = Int64GetDatum(id);
	SPITupleTable *rows;
	char	  **entries;
	Datum	   *elements;
	int			n;
	bool		isnull;

	rule->id = id;
	rule->mode = NCLAIM_RAW;
	rule->ignore = NULL;
	if (id == 0)
		return;
	if (nclaim_own_execute(NCLAIM_FIND_RULE, &value, NULL, GetLatestSnapshot()) == 0 ||
		!nclaim_mode_find(SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1),
						  &rule->mode))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("digest rule " INT64_FORMAT " does not exist", id),
				 errhint("Rules in notify_digest_rule must be kept as long as claims and channels refer to them.")));
	rows = SPI_tuptable;
	deconstruct_array(DatumGetArrayTypeP(SPI_getbinval(rows->vals[0], rows->tupdesc, 2, &isnull)),
					  TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	entries = palloc(n * sizeof(char *) + 1);
	for (int i = 0; i < n; i++)
		entries[i] = TextDatumGetCString(elements[i]);

	MemoryContextSwitchTo(context);
	rule->ignore = nclaim_rule_ignore(rule->mode, entries, n);
	SPI_freetuptable(rows);
}

/*
 * Digests a body.  One that the rule's mode cannot read is digested as it is,
 * which the digest's mode then says.  Where "canonical" is given, it gets what
 * was digested.
 */
void
nclaim_rule_digest(const NClaimRule *rule, const char *bytes, size_t length,
				   NClaimDigest *digest, StringInfo canonical)
{
	MemoryContext context;
	MemoryContext caller;
	StringInfoData form;

	digest->unknown = false;
	digest->mode = NCLAIM_RAW;
	if (rule->mode == NCLAIM_RAW)
	{
		nclaim_digest(bytes, length, digest->hex);
		if (canonical != NULL)
			appendBinaryStringInfo(canonical, bytes, length);
		return;
	}

	context = AllocSetContextCreate(CurrentMemoryContext, "notify_claim canonical form",
									ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	initStringInfo(&form);
	if (nclaim_canonical(rule->mode, rule->ignore, bytes, length, &form))
	{
		digest->mode = rule->mode;
		bytes = form.data;
		length = form.len;
	}
	nclaim_digest(bytes, length, digest->hex);
	if (canonical != NULL)
		appendBinaryStringInfo(canonical, bytes, length);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/* Reads a digest as it is stored, with the mode that made it. */
void
nclaim_digest_read(const char *mode, const char *hex, NClaimDigest *digest)
{
	digest->unknown = strcmp(mode, NCLAIM_UNKNOWN_MODE) == 0;
	digest->mode = NCLAIM_RAW;
	if (!digest->unknown && !nclaim_mode_find(mode, &digest->mode))
		elog(ERROR, "unrecognized digest mode");
	strlcpy(digest->hex, hex, sizeof(digest->hex));
}

/*
 * Are two digests the same?  Made by different modes they never are.  One that
 * is not known is the same as any.
 */
bool
nclaim_digest_same(const NClaimDigest *a, const NClaimDigest *b)
{
	return a->unknown || b->unknown ||
		(a->mode == b->mode && strcmp(a->hex, b->hex) == 0);
}

/*
 * Trigger of notify_digest_rule: raises 55000.
 */
Datum
notify_claim_rule_is_immutable(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager",
						"notify_rule_is_immutable")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("digest rules cannot be changed or deleted"),
			 errdetail("Claims are compared under the rule that they were made by."),
			 errhint("Give the channel another rule with notify_channel_set().")));
	PG_RETURN_NULL();
}
