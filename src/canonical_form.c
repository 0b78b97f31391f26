/*-------------------------------------------------------------------------
 *
 * canonical_form.c
 *		Bodies that are pairs of name and value, and the canonical form of
 *		application/x-www-form-urlencoded.
 *
 * Pairs are a multiset: their order does not count.  Their canonical form is
 * that of a form with sorted pairs, in which all but the unreserved characters
 * of RFC 3986 is percent-encoded.  Pairs live in the current memory context
 * until nclaim_pairs_finish().
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

/* Bytes that are encoded at a time, so that little memory is set aside. */
#define PIECE	4096

void
nclaim_pairs_start(NClaimPairs *pairs, const NClaimIgnore *ignore)
{
	memset(pairs, 0, sizeof(NClaimPairs));
	initStringInfo(&pairs->text);
	pairs->ignore = ignore;
}

/*
 * Adds the pair that the text ends with: from the offset on its name, so many
 * bytes, and then its value.
 */
void
nclaim_pairs_add(NClaimPairs *pairs, int name, int name_length)
{
	bool		ignored = false;

	if (pairs->ignore != NULL)
		nclaim_ignore_step(pairs->ignore, pairs->text.data + name, name_length,
						   &ignored);
	if (ignored)
		pairs->text.len = name;
	else
		nclaim_members_add(&pairs->members, name, name_length, pairs->text.len);
}

static bool
is_unreserved(unsigned char byte)
{
	return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
		(byte >= '0' && byte <= '9') ||
		byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

static void
append_piece(StringInfo canonical, const char *bytes, int length)
{
	static const char digits[] = "0123456789ABCDEF";
	char	   *to;

	enlargeStringInfo(canonical, 3 * length);
	to = canonical->data + canonical->len;
	for (int i = 0; i < length; i++)
	{
		unsigned char byte = bytes[i];

		if (is_unreserved(byte))
			*to++ = byte;
		else
		{
			*to++ = '%';
			*to++ = digits[byte >> 4];
			*to++ = digits[byte & 15];
		}
	}
	*to = '\0';
	canonical->len = to - canonical->data;
}

static void
append_encoded(StringInfo canonical, const char *bytes, int length)
{
	const char *end = bytes + length;

	while (bytes < end)
	{
		int			piece = Min(end - bytes, PIECE);

		append_piece(canonical, bytes, piece);
		bytes += piece;
	}
}

/* Appends the pairs' canonical form, NULL to do without, and frees them. */
void
nclaim_pairs_finish(NClaimPairs *pairs, StringInfo canonical)
{
	const NClaimMember *member = pairs->members.member;
	const char *base = pairs->text.data;

	if (canonical != NULL)
	{
		nclaim_members_sort(pairs->members.member, pairs->members.count, base);
		for (int i = 0; i < pairs->members.count; i++, member++)
		{
			int			value = member->name + member->name_length;

			NCLAIM_CHECK_FOR_INTERRUPTS();
			if (i > 0)
				appendStringInfoCharMacro(canonical, '&');
			append_encoded(canonical, base + member->name, member->name_length);
			appendStringInfoCharMacro(canonical, '=');
			append_encoded(canonical, base + value, member->end - value);
		}
	}
	nclaim_members_free(&pairs->members);
	pfree(pairs->text.data);
}

/*
 * Appends the bytes that a name or value of a form stands for.  Returns false
 * where it has a bad percent sign or what is not printable ASCII.
 */
bool
nclaim_form_decode(StringInfo out, const char *bytes, size_t length)
{
	const char *end = bytes + length;
	char	   *to;

	enlargeStringInfo(out, length);
	to = out->data + out->len;

	while (bytes < end)
	{
		unsigned char byte = *bytes++;

		if (byte < 0x21 || byte > 0x7e)
			return false;
		if (byte == '+')
			byte = ' ';
		else if (byte == '%')
		{
			if (end - bytes < 2 ||
				nclaim_hex_digit(bytes[0]) < 0 || nclaim_hex_digit(bytes[1]) < 0)
				return false;
			byte = nclaim_hex_digit(bytes[0]) << 4 | nclaim_hex_digit(bytes[1]);
			bytes += 2;
		}
		*to++ = byte;
	}
	*to = '\0';
	out->len = to - out->data;

	return true;
}

static bool
add_segment(NClaimPairs *pairs, const char *segment, const char *end)
{
	const char *equals = memchr(segment, '=', end - segment);
	int			name = pairs->text.len;
	int			name_length;

	if (!nclaim_form_decode(&pairs->text, segment,
							(equals == NULL ? end : equals) - segment))
		return false;
	name_length = pairs->text.len - name;
	if (equals != NULL &&
		!nclaim_form_decode(&pairs->text, equals + 1, end - equals - 1))
		return false;
	nclaim_pairs_add(pairs, name, name_length);
	return true;
}

static bool
read_form(NClaimPairs *pairs, const char *bytes, const char *end)
{
	while (bytes < end)
	{
		const char *segment_end = memchr(bytes, '&', end - bytes);

		NCLAIM_CHECK_FOR_INTERRUPTS();
		if (segment_end == NULL)
			segment_end = end;
		if (segment_end > bytes && !add_segment(pairs, bytes, segment_end))
			return false;
		bytes = segment_end < end ? segment_end + 1 : end;
	}
	return true;
}

/*
 * Appends the body's canonical form, without the ignored names (NULL: none).
 * Returns false for what is no form; as almost any text could be one, it has
 * to have an equals sign.
 */
bool
nclaim_canonical_form(const NClaimIgnore *ignore, const char *bytes,
					  size_t length, StringInfo canonical)
{
	NClaimPairs pairs;
	bool		valid;

	if (memchr(bytes, '=', length) == NULL)
		return false;
	nclaim_pairs_start(&pairs, ignore);
	valid = read_form(&pairs, bytes, bytes + length);
	nclaim_pairs_finish(&pairs, valid ? canonical : NULL);
	return valid;
}
