/*-------------------------------------------------------------------------
 *
 * canonical_json.c
 *		The canonical form of a JSON body.
 *
 * Two passes, neither of them recursive.  The first reads the body by
 * PostgreSQL's lexer and writes its canonical text, each object's members in
 * the body's order.  It keeps the members of the open objects on a stack; when
 * an object is closed they are sorted.  An object whose members have to change
 * places, or to go, is remembered with its sorted members.  The second pass
 * copies the text and takes the members of those objects in their order.  So
 * every byte is copied once, however deep it lies.
 *
 * All of that lives in the current memory context and is freed at the end.
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

/* As NClaimMember.object; else the first of the objects from its start on. */
#define IGNORED	(-1)

typedef enum Expect
{
	EXPECT_VALUE,
	EXPECT_VALUE_OR_END,
	EXPECT_NAME,
	EXPECT_NAME_OR_END,
	EXPECT_COLON,
	EXPECT_COMMA_OR_END,
	EXPECT_NOTHING,
} Expect;

/* An open object or array. */
typedef struct Container
{
	bool		is_object;
	int			first;			/* its first member in Body.members */
	int			object;			/* itself in Body.object */
	const NClaimIgnore *ignore; /* what is ignored of it, or NULL */
} Container;

/*
 * An object, in the order in which they open.  One whose members stay as they
 * are is only kept where another follows it.
 */
typedef struct Object
{
	int			start;			/* its text, with the braces */
	int			end;
	bool		changed;
	int			first;			/* its members in Body.changed */
	int			count;
	int			next;			/* the first object after it */
} Object;

typedef struct Body
{
	StringInfoData text;
	Expect		expect;
	const NClaimIgnore *ignore; /* what is ignored of the next value */
	int			depth;
	Container	open[NCLAIM_JSON_DEPTH];
	NClaimMembers members;		/* of the open objects */
	NClaimMembers changed;		/* of the changed objects */
	Object	   *object;
	int			nobjects;
	int			allocated;
} Body;

static inline Container *
innermost(Body *body)
{
	return &body->open[body->depth - 1];
}

static bool
open_container(Body *body, bool is_object)
{
	Container  *container;

	if (body->depth == NCLAIM_JSON_DEPTH)
		return false;
	container = &body->open[body->depth++];
	container->is_object = is_object;
	container->ignore = body->ignore;
	if (is_object)
	{
		container->first = body->members.count;
		container->object = body->nobjects;
		body->object = nclaim_grow(body->object, body->nobjects,
								   &body->allocated, sizeof(Object));
		body->object[body->nobjects++].start = body->text.len;
	}
	appendStringInfoCharMacro(&body->text, is_object ? '{' : '[');
	body->expect = is_object ? EXPECT_NAME_OR_END : EXPECT_VALUE_OR_END;
	return true;
}

static void
start_member(Body *body, const JsonLexContext *lex)
{
	bool		ignored = false;
	int			name = body->text.len + 1;
	int			object = body->nobjects;
	int			length;

	appendStringInfoCharMacro(&body->text, '"');
	nclaim_canonical_string(lex->token_start + 1,
							lex->token_terminator - lex->token_start - 2,
							&body->text);
	length = body->text.len - name;
	appendStringInfoCharMacro(&body->text, '"');
	body->ignore = innermost(body)->ignore;
	if (body->ignore != NULL)
		body->ignore = nclaim_ignore_step(body->ignore, body->text.data + name,
										  length, &ignored);
	nclaim_members_add(&body->members, name, length, name)->object =
		ignored ? IGNORED : object;
	body->expect = EXPECT_COLON;
}

static void
end_value(Body *body)
{
	if (body->depth == 0)
	{
		body->expect = EXPECT_NOTHING;
		return;
	}
	if (innermost(body)->is_object)
		body->members.member[body->members.count - 1].end = body->text.len;
	body->expect = EXPECT_COMMA_OR_END;
}

static bool
is_sorted(const NClaimMember *member, int count, const char *base)
{
	for (int i = 1; i < count; i++)
	{
		if (nclaim_members_compare(&member[i - 1], &member[i], base) > 0)
			return false;
	}
	return true;
}

/* Do two neighbours have the same name? */
static bool
has_repeat(const NClaimMember *member, int count, const char *base)
{
	for (int i = 1; i < count; i++)
	{
		if (member[i - 1].name_length == member[i].name_length &&
			memcmp(base + member[i - 1].name, base + member[i].name,
				   member[i].name_length) == 0)
			return true;
	}
	return false;
}

static bool
has_ignored(const NClaimMember *member, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (member[i].object == IGNORED)
			return true;
	}
	return false;
}

/* Remembers an object with its sorted members, but for the ignored ones. */
static void
change_object(Body *body, Object *object, const NClaimMember *member, int count)
{
	object->changed = true;
	object->first = body->changed.count;
	for (int i = 0; i < count; i++)
	{
		if (member[i].object != IGNORED)
			nclaim_members_add(&body->changed, member[i].name,
							   member[i].name_length, member[i].end)->object =
				member[i].object;
	}
	object->count = body->changed.count - object->first;
	object->end = body->text.len;
	object->next = body->nobjects;
}

/* Returns false where a name is repeated. */
static bool
close_object(Body *body, const Container *container)
{
	int			count = body->members.count - container->first;
	NClaimMember *member = count == 0 ? NULL : &body->members.member[container->first];
	Object	   *object = &body->object[container->object];
	bool		sorted = is_sorted(member, count, body->text.data);

	if (!sorted)
		nclaim_members_sort(member, count, body->text.data);
	if (has_repeat(member, count, body->text.data))
		return false;
	if (!sorted || has_ignored(member, count))
		change_object(body, object, member, count);
	else if (container->object == body->nobjects - 1)
		body->nobjects--;
	else
		object->changed = false;
	body->members.count = container->first;
	return true;
}

/* Closes the innermost container, if it is one of that kind. */
static bool
close_container(Body *body, bool is_object)
{
	const Container *container = innermost(body);

	if (container->is_object != is_object)
		return false;
	appendStringInfoCharMacro(&body->text, is_object ? '}' : ']');
	if (is_object && !close_object(body, container))
		return false;
	body->depth--;
	end_value(body);
	return true;
}

static bool
add_scalar(Body *body, const JsonLexContext *lex)
{
	int			length = lex->token_terminator - lex->token_start;

	if (lex->token_type == JSON_TOKEN_STRING)
	{
		appendStringInfoCharMacro(&body->text, '"');
		nclaim_canonical_string(lex->token_start + 1, length - 2, &body->text);
		appendStringInfoCharMacro(&body->text, '"');
	}
	else if (lex->token_type != JSON_TOKEN_NUMBER)
		appendBinaryStringInfo(&body->text, lex->token_start, length);
	else if (!nclaim_canonical_number(lex->token_start, length, &body->text))
		return false;
	end_value(body);
	return true;
}

/* A token where a value can start. */
static bool
add_value(Body *body, const JsonLexContext *lex)
{
	switch (lex->token_type)
	{
		case JSON_TOKEN_OBJECT_START:
			return open_container(body, true);
		case JSON_TOKEN_ARRAY_START:
			return open_container(body, false);
		case JSON_TOKEN_STRING:
		case JSON_TOKEN_NUMBER:
		case JSON_TOKEN_TRUE:
		case JSON_TOKEN_FALSE:
		case JSON_TOKEN_NULL:
			return add_scalar(body, lex);
		default:
			return false;
	}
}

static void
add_comma(Body *body)
{
	const Container *container = innermost(body);

	appendStringInfoCharMacro(&body->text, ',');
	body->ignore = container->ignore;
	body->expect = container->is_object ? EXPECT_NAME : EXPECT_VALUE;
}

/* Returns whether the token may stand where it stands. */
static bool
add_token(Body *body, const JsonLexContext *lex)
{
	JsonTokenType type = lex->token_type;

	switch (body->expect)
	{
		case EXPECT_VALUE_OR_END:
			if (type == JSON_TOKEN_ARRAY_END)
				return close_container(body, false);
			return add_value(body, lex);
		case EXPECT_VALUE:
			return add_value(body, lex);
		case EXPECT_NAME_OR_END:
		case EXPECT_NAME:
			if (type == JSON_TOKEN_OBJECT_END && body->expect == EXPECT_NAME_OR_END)
				return close_container(body, true);
			if (type != JSON_TOKEN_STRING)
				return false;
			start_member(body, lex);
			return true;
		case EXPECT_COLON:
			appendStringInfoCharMacro(&body->text, ':');
			body->expect = EXPECT_VALUE;
			return type == JSON_TOKEN_COLON;
		case EXPECT_COMMA_OR_END:
			if (type == JSON_TOKEN_OBJECT_END || type == JSON_TOKEN_ARRAY_END)
				return close_container(body, type == JSON_TOKEN_OBJECT_END);
			add_comma(body);
			return type == JSON_TOKEN_COMMA;
		case EXPECT_NOTHING:
			return false;
	}
	return false;
}

static bool
read_body(Body *body, const char *bytes, size_t length)
{
	JsonLexContext *lex = nclaim_json_lexer(bytes, length);
	bool		valid;

	do
	{
		NCLAIM_CHECK_FOR_INTERRUPTS();
		valid = json_lex(lex) == JSON_SUCCESS;
	} while (valid && lex->token_type != JSON_TOKEN_END && add_token(body, lex));
	valid = valid && lex->token_type == JSON_TOKEN_END &&
		body->expect == EXPECT_NOTHING;
	pfree(lex);
	return valid;
}

/* Copies the text, with the members of changed objects in their order. */
static void
write_body(const Body *body, StringInfo canonical)
{
	struct
	{
		const Object *object;
		int			member;		/* the next one to copy */
		int			end;		/* of the text around the object */
	}			inside[NCLAIM_JSON_DEPTH];
	int			depth = 0;
	const char *from = body->text.data;
	int			start = 0;		/* the text to copy */
	int			end = body->text.len;
	int			next = 0;		/* the first object in it, or one beyond */

	for (;;)
	{
		const Object *object;

		NCLAIM_CHECK_FOR_INTERRUPTS();
		while (next < body->nobjects && body->object[next].start < end &&
			   !body->object[next].changed)
			next++;
		if (next < body->nobjects && body->object[next].start < end)
		{
			object = &body->object[next];
			appendBinaryStringInfo(canonical, from + start, object->start + 1 - start);
			inside[depth].object = object;
			inside[depth].member = 0;
			inside[depth++].end = end;
		}
		else
		{
			appendBinaryStringInfo(canonical, from + start, end - start);
			if (depth == 0)
				return;
			object = inside[depth - 1].object;
		}
		if (inside[depth - 1].member < object->count)
		{
			int			i = inside[depth - 1].member++;
			const NClaimMember *member = &body->changed.member[object->first + i];

			if (i > 0)
				appendStringInfoCharMacro(canonical, ',');
			start = member->name - 1;
			end = member->end;
			next = member->object;
		}
		else
		{
			start = object->end - 1;
			end = inside[--depth].end;
			next = object->next;
		}
	}
}

/*
 * Appends the body's canonical form, without what is ignored (NULL: nothing).
 * Returns false for what is not JSON in UTF-8, repeats a name in an object,
 * nests too deep or has a number whose exponent is out of all reason.
 */
bool
nclaim_canonical_json(const NClaimIgnore *ignore, const char *bytes,
					  size_t length, StringInfo canonical)
{
	Body		body = {.expect = EXPECT_VALUE,.ignore = ignore};
	bool		valid;

	if (!nclaim_is_utf8(bytes, length))
		return false;
	initStringInfo(&body.text);
	enlargeStringInfo(&body.text, length);
	valid = read_body(&body, bytes, length);
	if (valid)
	{
		enlargeStringInfo(canonical, body.text.len);
		write_body(&body, canonical);
	}
	pfree(body.text.data);
	nclaim_members_free(&body.members);
	nclaim_members_free(&body.changed);
	if (body.object != NULL)
		pfree(body.object);
	return valid;
}
