/*-------------------------------------------------------------------------
 *
 * ignore.c
 *		What a digest leaves out of a body.
 *
 * A tree of names.  It lives in the memory context that is current where it is
 * made and added to, and its owner frees it with that.  Names of JSON are kept
 * as canonical text spells them, so a body's names need no unescaping.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FRONTEND
#include "postgres.h"
#else
#include "postgres_fe.h"
#endif

#include "canonical.h"

struct NClaimIgnore
{
	char	   *name;
	size_t		length;
	bool		ignored;		/* with all that is below */
	NClaimIgnore *child;
	NClaimIgnore *sibling;
};

NClaimIgnore *
nclaim_ignore_make(void)
{
	return palloc0(sizeof(NClaimIgnore));
}

static NClaimIgnore *
find_child(const NClaimIgnore *parent, const char *name, size_t length)
{
	NClaimIgnore *child = parent->child;

	while (child != NULL &&
		   (child->length != length || memcmp(child->name, name, length) != 0))
		child = child->sibling;
	return child;
}

static NClaimIgnore *
make_child(NClaimIgnore *parent, const char *name, size_t length)
{
	NClaimIgnore *child = find_child(parent, name, length);

	if (child == NULL)
	{
		child = nclaim_ignore_make();
		child->name = palloc(length);
		memcpy(child->name, name, length);
		child->length = length;
		child->sibling = parent->child;
		parent->child = child;
	}
	return child;
}

/*
 * Reads one step of a path, up to a dot or the end, as canonical text.  Returns
 * what comes after it, or NULL where it is empty or has a wrong escape.
 */
static const char *
read_step(const char *path, StringInfo step)
{
	while (*path != '\0' && *path != '.')
	{
		if (*path == '\\')
		{
			path++;
			if (*path != '.' && *path != '\\')
				return NULL;
		}
		nclaim_append_json_byte(step, *path++);
	}
	return step->len == 0 ? NULL : path;
}

/* Adds a path; returns false where it is malformed, with some steps added. */
static bool
add_path(NClaimIgnore *ignore, const char *path)
{
	StringInfoData step;

	initStringInfo(&step);
	for (;;)
	{
		resetStringInfo(&step);
		path = read_step(path, &step);
		if (path == NULL)
			break;
		ignore = make_child(ignore, step.data, step.len);
		if (*path == '\0')
		{
			ignore->ignored = true;
			break;
		}
		path++;
	}
	pfree(step.data);
	return path != NULL;
}

/*
 * Adds what is to be ignored: in JSON a path, of names that are joined by dots,
 * where a backslash stands before a dot or backslash of a name; else a name.
 * It is in the encoding of the bodies.  Returns false where it is malformed;
 * then it ignores nothing.
 */
bool
nclaim_ignore_add(NClaimIgnore *ignore, NClaimMode mode, const char *entry)
{
	if (mode == NCLAIM_JSON)
		return add_path(ignore, entry);
	if (*entry == '\0')
		return false;
	make_child(ignore, entry, strlen(entry))->ignored = true;
	return true;
}

/*
 * Looks up a member, by the canonical text of its name in JSON, by its decoded
 * name else.  Sets whether it is ignored, and returns what is ignored below it,
 * NULL for nothing.
 */
const NClaimIgnore *
nclaim_ignore_step(const NClaimIgnore *ignore, const char *name, size_t length,
				   bool *ignored)
{
	const NClaimIgnore *child = find_child(ignore, name, length);

	*ignored = child != NULL && child->ignored;
	return child != NULL && child->child != NULL ? child : NULL;
}
