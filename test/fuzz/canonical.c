/*-------------------------------------------------------------------------
 *
 * canonical.c
 *		libFuzzer harness of the canonical forms; see test/fuzz/run.
 *
 * The first byte picks the mode and what is ignored: '0' JSON, '1' form, '2'
 * XML, each without anything ignored, and '3' to ';' the same with the lists
 * below.  The rest is the body.  In the environment, MODE=json, form or xml
 * overrules the byte.
 *
 * What is checked, beside what the sanitizers see, stands above each function.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "canonical.h"
#include "compat.h"

#define NMODES	3
#define NLISTS	4
#define NENTRIES	3

static const char *const mode_name[NMODES] = {"json", "form", "xml"};

static const char *const json_list[NLISTS][NENTRIES] = {
	{NULL}, {"a"}, {"a.b", "b", "c.d.e"}, {"a\\.b", "\\\\", "\n.\""}
};
static const char *const name_list[NLISTS][NENTRIES] = {
	{NULL}, {"a"}, {"sign", "b", ""}, {"a.b", "\\", "c d"}
};

#define check(condition) \
	((condition) ? (void) 0 : fail(#condition, __LINE__))

static void
fail(const char *condition, int line)
{
	fprintf(stderr, "line %d: does not hold: %s\n", line, condition);
	abort();
}

static const NClaimIgnore *
ignore_of(NClaimMode mode, int list)
{
	static NClaimIgnore *made[NMODES][NLISTS];
	NClaimIgnore **ignore = &made[mode - NCLAIM_JSON][list];

	if (list > 0 && *ignore == NULL)
	{
		const char *const *entry = (mode == NCLAIM_JSON ? json_list : name_list)[list];

		*ignore = nclaim_ignore_make();
		for (int i = 0; i < NENTRIES && entry[i] != NULL; i++)
			check(nclaim_ignore_add(*ignore, mode, entry[i]) == (entry[i][0] != '\0'));
	}
	return *ignore;
}

/* The canonical form of the text is that one. */
static void
check_canonical(NClaimMode mode, const NClaimIgnore *ignore,
				const StringInfoData *text, const StringInfoData *expected)
{
	StringInfoData canonical;
	char	   *exact = malloc(text->len);	/* so that reads beyond it show */

	memcpy(exact, text->data, text->len);
	initStringInfo(&canonical);
	check(nclaim_canonical(mode, ignore, exact, text->len, &canonical));
	check(canonical.len == expected->len);
	check(memcmp(canonical.data, expected->data, canonical.len) == 0);
	pfree(canonical.data);
	free(exact);
}

/* The UTF-16 of the string that starts there, and what comes after it. */
static const char *
naive_string(const char *s, StringInfo units)
{
	static const char letters[] = "bfnrt";
	static const char meanings[] = "\b\f\n\r\t";

	for (s++; *s != '"';)
	{
		uint16		unit[2] = {0};
		int			nunits = 1;

		if (*s == '\\' && s[1] == 'u')
		{
			char		digits[5] = {s[2], s[3], s[4], s[5]};

			unit[0] = strtoul(digits, NULL, 16);
			s += 6;
		}
		else if (*s == '\\')
		{
			const char *letter = strchr(letters, s[1]);

			unit[0] = letter == NULL ? s[1] : meanings[letter - letters];
			s += 2;
		}
		else
		{
			uint32		code = utf8_to_unicode((const unsigned char *) s);

			unit[0] = code;
			if (code > 0xFFFF)
			{
				unit[0] = 0xD800 + ((code - 0x10000) >> 10);
				unit[1] = 0xDC00 + ((code - 0x10000) & 0x3FF);
				nunits = 2;
			}
			s += pg_encoding_mblen(PG_UTF8, s);
		}
		appendBinaryStringInfo(units, (char *) unit, nunits * sizeof(uint16));
	}
	return s + 1;
}

/* What we do not take of valid JSON. */
typedef struct Limits
{
	bool		beyond;
	bool		uncertain;		/* an exponent close to the limit */
} Limits;

static const char *
naive_number(const char *s, Limits *limits)
{
	size_t		mantissa = strspn(s, "-.0123456789");
	bool		zero = strcspn(s, "123456789") >= mantissa;
	size_t		digits;

	s += mantissa;
	if (*s != 'e' && *s != 'E')
		return s;
	s++;
	s += strspn(s, "+-");
	s += strspn(s, "0");
	digits = strspn(s, "0123456789");
	limits->beyond |= !zero && digits > 18;
	limits->uncertain |= !zero && digits == 18;
	return s + digits;
}

static const char *
space_end(const char *s)
{
	return s + strspn(s, " \t\r\n");
}

static const char *naive_value(const char *s, int depth, Limits *limits);

/* An object whose names are compared each with each. */
static const char *
naive_object(const char *s, int depth, Limits *limits)
{
	StringInfoData names[64];
	int			nnames = 0;

	for (s = space_end(s + 1); *s != '}'; s = space_end(s + (*s == ',')))
	{
		if (nnames == lengthof(names))
		{
			limits->uncertain = true;
			nnames--;
			pfree(names[nnames].data);
		}
		initStringInfo(&names[nnames]);
		s = space_end(naive_string(s, &names[nnames]));
		for (int i = 0; i < nnames; i++)
			limits->beyond |= names[i].len == names[nnames].len &&
				memcmp(names[i].data, names[nnames].data, names[i].len) == 0;
		nnames++;
		s = space_end(naive_value(space_end(s + 1), depth, limits));
	}
	while (nnames > 0)
		pfree(names[--nnames].data);
	return s + 1;
}

/* What comes after a value of valid JSON; notes what is beyond our limits. */
static const char *
naive_value(const char *s, int depth, Limits *limits)
{
	StringInfoData units;

	if (*s == '{' || *s == '[')
		limits->beyond |= ++depth > NCLAIM_JSON_DEPTH;
	if (*s == '{')
		return naive_object(s, depth, limits);
	if (*s == '[')
	{
		for (s = space_end(s + 1); *s != ']'; s = space_end(s + (*s == ',')))
			s = space_end(naive_value(s, depth, limits));
		return s + 1;
	}
	if (*s == '"')
	{
		initStringInfo(&units);
		s = naive_string(s, &units);
		pfree(units.data);
		return s;
	}
	if (*s == '-' || isdigit((unsigned char) *s))
		return naive_number(s, limits);
	return s + strspn(s, "truefalsn");
}

/* JSON has a canonical form just where PostgreSQL parses it, but for limits. */
static void
check_accepted(const char *bytes, size_t length, bool accepted)
{
	JsonLexContext *lex;
	Limits		limits = {0};
	char	   *text;

	if (!nclaim_is_utf8(bytes, length))
	{
		check(!accepted);
		return;
	}
	lex = nclaim_json_lexer(bytes, length);
	if (pg_parse_json(lex, &nullSemAction) != JSON_SUCCESS)
		check(!accepted);
	else
	{
		text = pnstrdup(bytes, length);

		naive_value(space_end(text), 0, &limits);
		check(limits.uncertain || accepted == !limits.beyond);
		pfree(text);
	}
	pfree(lex);
}

/*
 * White space between tokens, and letters and digits of strings written as
 * escapes, change nothing.
 */
static void
check_respelled(const NClaimIgnore *ignore, const char *bytes, size_t length,
				const StringInfoData *canonical)
{
	JsonLexContext *lex = nclaim_json_lexer(bytes, length);
	StringInfoData text;

	initStringInfo(&text);
	while (json_lex(lex) == JSON_SUCCESS && lex->token_type != JSON_TOKEN_END)
	{
		bool		is_string = lex->token_type == JSON_TOKEN_STRING;

		appendStringInfoString(&text, "\r\n\t ");
		for (const char *s = lex->token_start; s < lex->token_terminator; s++)
		{
			if (is_string && *s == '\\')
			{
				int			kept = s[1] == 'u' ? 6 : 2;

				appendBinaryStringInfo(&text, s, kept);
				s += kept - 1;
			}
			else if (is_string && isalnum((unsigned char) *s))
				appendStringInfo(&text, "\\u%04X", *s);
			else
				appendStringInfoChar(&text, *s);
		}
	}
	check_canonical(NCLAIM_JSON, ignore, &text, canonical);
	pfree(text.data);
	pfree(lex);
}

typedef struct Paths
{
	StringInfoData text;
	NClaimMembers members;
} Paths;

/* A leaf's value is canonical. */
static void
json_member(void *arg, const char *path, size_t path_length,
			const char *value, size_t value_length)
{
	Paths	   *paths = arg;
	StringInfoData leaf;

	nclaim_members_add(&paths->members, paths->text.len, path_length,
					   paths->text.len + path_length);
	appendBinaryStringInfo(&paths->text, path, path_length);
	initStringInfo(&leaf);
	appendBinaryStringInfo(&leaf, value, value_length);
	check_canonical(NCLAIM_JSON, NULL, &leaf, &leaf);
	pfree(leaf.data);
}

/* No two leaves have the same path. */
static void
check_members(const StringInfoData *canonical)
{
	Paths		paths = {0};

	initStringInfo(&paths.text);
	nclaim_canonical_members(NCLAIM_JSON, canonical->data, canonical->len,
							 json_member, &paths);
	check(paths.members.count > 0);
	nclaim_members_sort(paths.members.member, paths.members.count, paths.text.data);
	for (int i = 1; i < paths.members.count; i++)
		check(nclaim_members_compare(&paths.members.member[i - 1],
									 &paths.members.member[i], paths.text.data) < 0);
	nclaim_members_free(&paths.members);
	pfree(paths.text.data);
}

static void
fuzz_json(const NClaimIgnore *ignore, const char *bytes, size_t length)
{
	StringInfoData canonical;
	bool		accepted;

	initStringInfo(&canonical);
	accepted = nclaim_canonical(NCLAIM_JSON, ignore, bytes, length, &canonical);
	check_accepted(bytes, length, accepted);
	if (accepted)
	{
		check_canonical(NCLAIM_JSON, ignore, &canonical, &canonical);
		check_canonical(NCLAIM_JSON, NULL, &canonical, &canonical);
		check_accepted(canonical.data, canonical.len, true);
		check_respelled(ignore, bytes, length, &canonical);
		check_members(&canonical);
	}
	else
		check(canonical.len == 0);
	pfree(canonical.data);
}

/* Puts the pair before the others, every byte encoded. */
static void
form_member(void *arg, const char *path, size_t path_length,
			const char *value, size_t value_length)
{
	StringInfo text = arg;
	StringInfoData pair;

	initStringInfo(&pair);
	for (size_t i = 0; i < path_length; i++)
		appendStringInfo(&pair, "%%%02x", (unsigned char) path[i]);
	appendStringInfoChar(&pair, '=');
	for (size_t i = 0; i < value_length; i++)
		appendStringInfo(&pair, "%%%02x", (unsigned char) value[i]);
	appendStringInfoChar(&pair, '&');
	appendBinaryStringInfo(&pair, text->data, text->len);
	pfree(text->data);
	*text = pair;
}

/* The same as an element, every byte of ASCII as a reference. */
static void
xml_member(void *arg, const char *path, size_t path_length,
		   const char *value, size_t value_length)
{
	StringInfo text = arg;
	StringInfoData pair;

	initStringInfo(&pair);
	appendStringInfo(&pair, "<%.*s>", (int) path_length, path);
	for (size_t i = 0; i < value_length; i++)
	{
		if (IS_HIGHBIT_SET(value[i]))
			appendStringInfoChar(&pair, value[i]);
		else
			appendStringInfo(&pair, "&#x%x;", value[i]);
	}
	appendStringInfo(&pair, "</%.*s>", (int) path_length, path);
	appendBinaryStringInfo(&pair, text->data, text->len);
	pfree(text->data);
	*text = pair;
}

/* Line feeds for the ends of lines of XML, and %20 for +, change nothing. */
static void
check_replaced(NClaimMode mode, const NClaimIgnore *ignore, const char *bytes,
			   size_t length, const StringInfoData *canonical)
{
	StringInfoData text;

	initStringInfo(&text);
	for (size_t i = 0; i < length; i++)
	{
		if (mode == NCLAIM_FORM && bytes[i] == '+')
			appendStringInfoString(&text, "%20");
		else if (mode == NCLAIM_FORM || bytes[i] != '\r')
			appendStringInfoChar(&text, bytes[i]);
		else if (i + 1 == length || bytes[i + 1] != '\n')
			appendStringInfoChar(&text, '\n');
	}
	check_canonical(mode, ignore, &text, canonical);
	pfree(text.data);
}

/*
 * A canonical form is a form with that canonical form, and the members that it
 * lists, in another order, have it too.
 */
static void
fuzz_pairs(NClaimMode mode, const NClaimIgnore *ignore, const char *bytes,
		   size_t length)
{
	StringInfoData canonical;
	StringInfoData text;

	initStringInfo(&canonical);
	initStringInfo(&text);
	if (!nclaim_canonical(mode, ignore, bytes, length, &canonical))
		check(canonical.len == 0);
	else
		check_replaced(mode, ignore, bytes, length, &canonical);
	if (canonical.len > 0)
	{
		check_canonical(NCLAIM_FORM, ignore, &canonical, &canonical);
		nclaim_canonical_members(mode, canonical.data, canonical.len,
								 mode == NCLAIM_XML ? xml_member : form_member,
								 &text);
		if (mode == NCLAIM_XML)
		{
			StringInfoData pairs = text;

			initStringInfo(&text);
			appendStringInfo(&text, "<xml>%s</xml>", pairs.data);
			pfree(pairs.data);
		}
		check_canonical(mode, NULL, &text, &canonical);
	}
	pfree(text.data);
	pfree(canonical.data);
}

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *forced = getenv("MODE");
	int			mode;
	const NClaimIgnore *ignore;

	if (size == 0)
		return 0;
	mode = data[0] % NMODES;
	for (int i = 0; forced != NULL && i < NMODES; i++)
	{
		if (strcmp(forced, mode_name[i]) == 0)
			mode = i;
	}
	ignore = ignore_of(NCLAIM_JSON + mode, data[0] / NMODES % NLISTS);
	if (NCLAIM_JSON + mode == NCLAIM_JSON)
		fuzz_json(ignore, (const char *) data + 1, size - 1);
	else
		fuzz_pairs(NCLAIM_JSON + mode, ignore, (const char *) data + 1, size - 1);
	return 0;
}
