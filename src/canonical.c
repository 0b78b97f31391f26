/*-------------------------------------------------------------------------
 *
 * canonical.c
 *		What two deliveries of the same body have in common, and the members of
 *		that.
 *
 * Nothing is kept: what a function allocates, in the current memory context, it
 * frees.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FRONTEND
#include "postgres.h"
#else
#include "postgres_fe.h"
#endif

#include "canonical.h"
#include "compat.h"

/*
 * Appends to an empty string the canonical form of a body, of at most
 * MaxAllocSize bytes, without what is ignored (NULL: nothing).  Bodies that
 * differ in anything else have different ones.  Returns false, with nothing
 * appended, where the body cannot be parsed.  Raises nothing but what comes of
 * the limits of memory and strings, and a cancelled query.
 */
bool
nclaim_canonical(NClaimMode mode, const NClaimIgnore *ignore,
				 const char *bytes, size_t length, StringInfo canonical)
{
	Assert(length <= MaxAllocSize);
	switch (mode)
	{
		case NCLAIM_RAW:
			break;
		case NCLAIM_JSON:
			return nclaim_canonical_json(ignore, bytes, length, canonical);
		case NCLAIM_FORM:
			return nclaim_canonical_form(ignore, bytes, length, canonical);
		case NCLAIM_XML:
			return nclaim_canonical_xml(ignore, bytes, length, canonical);
	}
	appendBinaryStringInfo(canonical, bytes, length);
	return true;
}

/* A container of JSON that the listing is in. */
typedef struct Level
{
	bool		is_object;
	int			element;		/* the number of an array's next one */
	int			path_length;	/* of the container itself */
} Level;

typedef struct Listing
{
	const char *next;
	const char *end;
	Level		level[NCLAIM_JSON_DEPTH];
	int			depth;
	StringInfoData path;
	NClaimMemberCallback callback;
	void	   *arg;
} Listing;

/* Returns what comes after the string that starts there. */
static const char *
string_end(const char *s, const char *end)
{
	for (s++; s < end && *s != '"'; s++)
	{
		if (*s == '\\')
			s++;
	}
	return Min(s + 1, end);
}

/* Appends to the path the name of the next member, and steps over it. */
static void
step_into_member(Listing *listing, bool below_top)
{
	const char *s = listing->next + 1;
	const char *end = string_end(listing->next, listing->end);

	if (below_top)
		appendStringInfoCharMacro(&listing->path, '.');
	for (; s < end - 1; s++)
	{
		if (*s == '.' || *s == '\\' || *s == '[')
			appendStringInfoCharMacro(&listing->path, '\\');
		appendStringInfoCharMacro(&listing->path, *s);
	}
	listing->next = end + strlen(":");
}

/* Goes to the next value of the innermost container. */
static void
step(Listing *listing)
{
	Level	   *level;

	if (listing->depth == 0)
		return;
	level = &listing->level[listing->depth - 1];
	listing->path.len = level->path_length;
	if (level->is_object)
		step_into_member(listing, listing->depth > 1);
	else
		appendStringInfo(&listing->path, "[%d]", level->element++);
}

static void
report(Listing *listing, const char *value_end)
{
	listing->callback(listing->arg, listing->path.data, listing->path.len,
					  listing->next, value_end - listing->next);
	listing->next = value_end;
}

/* Reports a leaf, or goes into a container. */
static void
list_value(Listing *listing)
{
	const char *s = listing->next;
	Level	   *level;

	if (*s == '"')
		report(listing, string_end(s, listing->end));
	else if (*s != '{' && *s != '[')
	{
		while (s < listing->end && *s != ',' && *s != '}' && *s != ']')
			s++;
		report(listing, s);
	}
	else if (listing->end - s >= 2 && (s[1] == '}' || s[1] == ']'))
		report(listing, s + 2);
	else
	{
		Assert(listing->depth < NCLAIM_JSON_DEPTH);
		level = &listing->level[listing->depth++];
		level->is_object = *s == '{';
		level->element = 0;
		level->path_length = listing->path.len;
		listing->next++;
	}
}

static void
list_json(Listing *listing)
{
	while (listing->next < listing->end)
	{
		NCLAIM_CHECK_FOR_INTERRUPTS();
		if (*listing->next == '}' || *listing->next == ']')
		{
			listing->depth--;
			listing->next++;
		}
		else
		{
			if (*listing->next == ',')
				listing->next++;
			step(listing);
			list_value(listing);
		}
	}
}

static void
list_pair(Listing *listing, const char *end)
{
	StringInfoData value;
	const char *equals = memchr(listing->next, '=', end - listing->next);

	initStringInfo(&value);
	resetStringInfo(&listing->path);
	nclaim_form_decode(&listing->path, listing->next, equals - listing->next);
	nclaim_form_decode(&value, equals + 1, end - equals - 1);
	listing->callback(listing->arg, listing->path.data, listing->path.len,
					  value.data, value.len);
	pfree(value.data);
}

static void
list_pairs(Listing *listing)
{
	while (listing->next < listing->end)
	{
		const char *end = memchr(listing->next, '&', listing->end - listing->next);

		NCLAIM_CHECK_FOR_INTERRUPTS();
		if (end == NULL)
			end = listing->end;
		list_pair(listing, end);
		listing->next = end < listing->end ? end + 1 : end;
	}
}

/*
 * Calls back for each member of a canonical form, as nclaim_canonical() makes
 * it, in order.
 *
 * In JSON these are the scalars and the empty arrays and objects, as they are
 * spelled there.  Their paths are names, joined by dots, and numbers of elements,
 * "items[0].price"; a dot, backslash or opening bracket in the spelling of a
 * name has a backslash before it.  In forms and XML they are the pairs, decoded,
 * which may be any bytes; else it is the body, under an empty path.
 */
void
nclaim_canonical_members(NClaimMode mode, const char *canonical,
						 size_t length, NClaimMemberCallback callback,
						 void *arg)
{
	Listing		listing = {.next = canonical,.end = canonical + length,
	.callback = callback,.arg = arg};

	if (mode == NCLAIM_RAW)
	{
		callback(arg, "", 0, canonical, length);
		return;
	}
	initStringInfo(&listing.path);
	if (mode == NCLAIM_JSON)
		list_json(&listing);
	else
		list_pairs(&listing);
	pfree(listing.path.data);
}
