/*-------------------------------------------------------------------------
 *
 * canonical_xml.c
 *		The canonical form of the flat XML of WeChat Pay v2:
 *		<xml><name>value</name>...</xml>, no attributes, nothing nested.
 *
 * The subset needs no XML library, and a body outside of it has no canonical
 * form.  Its elements are pairs, and its form is that of canonical_form.c.
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

#define MAX_CODE_POINT	0x10FFFF

typedef struct Cursor
{
	const char *next;
	const char *end;
	StringInfo text;			/* where names and values go */
} Cursor;

/* Steps over the literal, if it comes next. */
static bool
take(Cursor *cursor, const char *literal)
{
	int			length = strlen(literal);

	if (cursor->end - cursor->next < length ||
		memcmp(cursor->next, literal, length) != 0)
		return false;
	cursor->next += length;
	return true;
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Steps over white space; returns whether there was any. */
static bool
take_space(Cursor *cursor)
{
	const char *start = cursor->next;

	while (cursor->next < cursor->end && is_space(*cursor->next))
		cursor->next++;
	return cursor->next > start;
}

/* Steps over the value in quotes, in any case of letters. */
static bool
take_quoted(Cursor *cursor, const char *value)
{
	int			length = strlen(value);
	const char *s = cursor->next;

	if (cursor->end - s < length + 2 || (*s != '"' && *s != '\'') ||
		s[length + 1] != *s || pg_strncasecmp(s + 1, value, length) != 0)
		return false;
	cursor->next += length + 2;
	return true;
}

/* Steps over a part of the declaration, if it has one of the values. */
static bool
take_attribute(Cursor *cursor, const char *name, const char *value,
			   const char *other)
{
	const char *start = cursor->next;

	if (take(cursor, name))
	{
		take_space(cursor);
		if (take(cursor, "="))
		{
			take_space(cursor);
			if (take_quoted(cursor, value) || take_quoted(cursor, other))
				return true;
		}
	}
	cursor->next = start;
	return false;
}

/* Steps over the declaration; false if it is wrong, true if there is none. */
static bool
read_declaration(Cursor *cursor)
{
	bool		spaced;

	if (!take(cursor, "<?xml"))
		return true;
	if (!take_space(cursor) ||
		!take_attribute(cursor, "version", "1.0", "1.0"))
		return false;
	spaced = take_space(cursor);
	if (spaced && take_attribute(cursor, "encoding", "UTF-8", "UTF-8"))
		spaced = take_space(cursor);
	if (spaced && take_attribute(cursor, "standalone", "yes", "no"))
		take_space(cursor);
	return take(cursor, "?>");
}

static bool
is_name_byte(char c, bool first)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
		(!first && ((c >= '0' && c <= '9') || c == '-' || c == '.'));
}

/* Steps over a name; returns its length, 0 if there is none. */
static int
read_name(Cursor *cursor)
{
	const char *start = cursor->next;

	while (cursor->next < cursor->end &&
		   is_name_byte(*cursor->next, cursor->next == start))
		cursor->next++;
	return cursor->next - start;
}

/* Returns the next ]]> from there on, or NULL. */
static const char *
find_section_end(const char *start, const char *end)
{
	const char *s = start;

	while ((s = memchr(s, '>', end - s)) != NULL)
	{
		if (s - start >= 2 && s[-1] == ']' && s[-2] == ']')
			return s - 2;
		s++;
	}
	return NULL;
}

/* Appends text, each end of line as a line feed. */
static void
append_text(StringInfo out, const char *s, const char *end)
{
	const char *cr;

	while ((cr = memchr(s, '\r', end - s)) != NULL)
	{
		appendBinaryStringInfo(out, s, cr - s);
		appendStringInfoCharMacro(out, '\n');
		s = cr + 1;
		if (s < end && *s == '\n')
			s++;
	}
	appendBinaryStringInfo(out, s, end - s);
}

static bool
read_section(Cursor *cursor)
{
	const char *end = find_section_end(cursor->next, cursor->end);

	if (end == NULL)
		return false;
	append_text(cursor->text, cursor->next, end);
	cursor->next = end + strlen("]]>");
	return true;
}

static bool
read_characters(Cursor *cursor)
{
	const char *start = cursor->next;

	while (cursor->next < cursor->end &&
		   *cursor->next != '<' && *cursor->next != '&')
		cursor->next++;
	if (find_section_end(start, cursor->next) != NULL)
		return false;
	append_text(cursor->text, start, cursor->next);
	return true;
}

/* Is it one of Char in XML 1.0? */
static bool
is_character(uint32 code)
{
	return code == '\t' || code == '\n' || code == '\r' ||
		(code >= 0x20 && code <= 0xD7FF) || (code >= 0xE000 && code <= 0xFFFD) ||
		(code >= 0x10000 && code <= MAX_CODE_POINT);
}

/* A character's number, after the &#. */
static bool
read_number(Cursor *cursor)
{
	int			base = take(cursor, "x") ? 16 : 10;
	const char *start = cursor->next;
	uint32		code = 0;

	for (; cursor->next < cursor->end && *cursor->next != ';'; cursor->next++)
	{
		int			digit = nclaim_hex_digit(*cursor->next);

		if (digit < 0 || digit >= base)
			return false;
		code = code * base + digit;
		if (code > MAX_CODE_POINT)
			return false;
	}
	if (cursor->next == start || !take(cursor, ";") || !is_character(code))
		return false;
	nclaim_append_code_point(cursor->text, code);
	return true;
}

/* A reference, after the ampersand. */
static bool
read_reference(Cursor *cursor)
{
	static const char *const names[] = {"lt;", "gt;", "amp;", "quot;", "apos;"};
	static const char meanings[] = "<>&\"'";

	if (take(cursor, "#"))
		return read_number(cursor);
	for (int i = 0; i < (int) lengthof(names); i++)
	{
		if (take(cursor, names[i]))
		{
			appendStringInfoCharMacro(cursor->text, meanings[i]);
			return true;
		}
	}
	return false;
}

/* An element's content, up to the next tag. */
static bool
read_content(Cursor *cursor)
{
	bool		valid = true;

	while (valid && cursor->next < cursor->end)
	{
		NCLAIM_CHECK_FOR_INTERRUPTS();
		if (take(cursor, "<![CDATA["))
			valid = read_section(cursor);
		else if (*cursor->next == '<')
			return true;
		else if (take(cursor, "&"))
			valid = read_reference(cursor);
		else
			valid = read_characters(cursor);
	}
	return false;
}

/* The end tag of an element of that name. */
static bool
read_end_tag(Cursor *cursor, const char *name, int length)
{
	const char *again;

	if (!take(cursor, "</"))
		return false;
	again = cursor->next;
	if (read_name(cursor) != length || memcmp(again, name, length) != 0)
		return false;
	take_space(cursor);
	return take(cursor, ">");
}

/* An element of the root, after the opening bracket. */
static bool
read_element(Cursor *cursor, NClaimPairs *pairs)
{
	const char *name = cursor->next;
	int			length = read_name(cursor);
	int			start = cursor->text->len;

	if (length == 0)
		return false;
	appendBinaryStringInfo(cursor->text, name, length);
	take_space(cursor);
	if (!take(cursor, "/>"))
	{
		if (!take(cursor, ">") || !read_content(cursor) ||
			!read_end_tag(cursor, name, length))
			return false;
	}
	nclaim_pairs_add(pairs, start, length);
	return true;
}

/* The root element. */
static bool
read_root(Cursor *cursor, NClaimPairs *pairs)
{
	if (!take(cursor, "<xml"))
		return false;
	take_space(cursor);
	if (take(cursor, "/>"))
		return true;
	if (!take(cursor, ">"))
		return false;
	for (;;)
	{
		take_space(cursor);
		if (take(cursor, "</xml"))
			break;
		if (!take(cursor, "<") || !read_element(cursor, pairs))
			return false;
	}
	take_space(cursor);
	return take(cursor, ">");
}

/* Does UTF-8 text consist of XML's characters alone? */
static bool
has_only_characters(const char *s, const char *end)
{
	for (; s < end; s++)
	{
		if ((unsigned char) *s < 0x20 && !is_space(*s))
			return false;
		/* U+FFFE and U+FFFF */
		if ((unsigned char) *s == 0xEF && (unsigned char) s[1] == 0xBF &&
			(unsigned char) s[2] >= 0xBE)
			return false;
	}
	return true;
}

/*
 * Appends the body's canonical form, without the ignored names (NULL: none).
 * Returns false for what is not this kind of XML, in UTF-8.
 */
bool
nclaim_canonical_xml(const NClaimIgnore *ignore, const char *bytes,
					 size_t length, StringInfo canonical)
{
	NClaimPairs pairs;
	Cursor		cursor = {bytes, bytes + length, &pairs.text};
	bool		valid;

	if (!nclaim_is_utf8(bytes, length) ||
		!has_only_characters(bytes, bytes + length))
		return false;
	nclaim_pairs_start(&pairs, ignore);
	valid = read_declaration(&cursor);
	take_space(&cursor);
	valid = valid && read_root(&cursor, &pairs);
	take_space(&cursor);
	valid = valid && cursor.next == cursor.end;
	nclaim_pairs_finish(&pairs, valid ? canonical : NULL);
	return valid;
}
