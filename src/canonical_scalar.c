/*-------------------------------------------------------------------------
 *
 * canonical_scalar.c
 *		The canonical spelling of numbers and strings of JSON.
 *
 * A number is sign, significant digits and decimal exponent; its digits are
 * never turned into a binary number, so nothing is lost, and an exponent costs
 * nothing.  A string is unescaped, but for what JSON must escape and for what
 * UTF-8 cannot hold.
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

/* More zeros than these are spelled as an exponent. */
#define MAX_ZEROS	20

/* That many always fit into an int64, with a body's length added. */
#define MAX_EXPONENT_DIGITS 18
#define MAX_EXPONENT	INT64CONST(999999999999999999)

/* A number other than zero: digits, without the point, times 10 ^ exponent. */
typedef struct Number
{
	const char *digits;
	const char *point;			/* a point among the digits, or NULL */
	int			ndigits;
	int			length;			/* of the digits with the point */
	int64		exponent;
} Number;

/* Reads what follows the e; false where it has too many digits. */
static bool
read_exponent(const char *s, const char *end, int64 *exponent)
{
	bool		negative = *s == '-';

	if (*s == '-' || *s == '+')
		s++;
	while (s < end && *s == '0')
		s++;
	if (end - s > MAX_EXPONENT_DIGITS)
		return false;
	for (; s < end; s++)
		*exponent = 10 * *exponent + (*s - '0');
	if (negative)
		*exponent = -*exponent;
	return true;
}

/*
 * Cuts zeros and the point off both ends of the digits between first and end,
 * whose point is number->point, or end where they have none.  False for zero.
 */
static bool
trim_digits(Number *number, const char *first, const char *end)
{
	const char *last = end;

	while (first < end && (*first == '0' || *first == '.'))
		first++;
	if (first == end)
		return false;
	while (last[-1] == '0' || last[-1] == '.')
		last--;
	number->digits = first;
	number->length = last - first;
	number->exponent += number->point >= last ? number->point - last :
		number->point + 1 - last;
	if (number->point < first || number->point >= last)
		number->point = NULL;
	number->ndigits = number->length - (number->point != NULL);
	return true;
}

static void
append_digits(StringInfo out, const Number *number)
{
	int			whole;

	if (number->point == NULL)
	{
		appendBinaryStringInfo(out, number->digits, number->length);
		return;
	}
	whole = number->point - number->digits;
	appendBinaryStringInfo(out, number->digits, whole);
	appendBinaryStringInfo(out, number->point + 1, number->length - whole - 1);
}

static void
append_zeros(StringInfo out, int count)
{
	static const char zeros[MAX_ZEROS + 1] = "00000000000000000000";

	appendBinaryStringInfo(out, zeros, count);
}

static void
append_number(StringInfo out, const Number *number)
{
	int64		whole = number->ndigits + number->exponent;
	int			start = out->len;
	char	   *point;

	if (number->exponent >= 0 && number->exponent <= MAX_ZEROS)
	{
		append_digits(out, number);
		append_zeros(out, number->exponent);
	}
	else if (number->exponent < 0 && whole > 0)
	{
		append_digits(out, number);
		appendStringInfoChar(out, '.');
		point = out->data + start + whole;

		memmove(point + 1, point, number->ndigits - whole);
		*point = '.';
	}
	else if (number->exponent < 0 && whole >= -MAX_ZEROS)
	{
		appendBinaryStringInfo(out, "0.", 2);
		append_zeros(out, -whole);
		append_digits(out, number);
	}
	else
	{
		append_digits(out, number);
		appendStringInfo(out, "e" INT64_FORMAT, number->exponent);
	}
}

/*
 * Appends the canonical spelling of a number as the lexer delivers it.  False
 * where the exponent is beyond what is compared.
 */
bool
nclaim_canonical_number(const char *token, int length, StringInfo out)
{
	const char *end = token + length;
	const char *first = token + (*token == '-');
	const char *mantissa_end = first;
	Number		number = {0};

	for (; mantissa_end < end && (*mantissa_end | 0x20) != 'e'; mantissa_end++)
	{
		if (*mantissa_end == '.')
			number.point = mantissa_end;
	}
	if (number.point == NULL)
		number.point = mantissa_end;
	if (!trim_digits(&number, first, mantissa_end))
	{
		appendStringInfoChar(out, '0');
		return true;
	}
	if (mantissa_end < end)
	{
		int64		exponent = 0;

		if (!read_exponent(mantissa_end + 1, end, &exponent))
			return false;
		number.exponent += exponent;
		/* else the canonical spelling would not be read again */
		if (number.exponent < -MAX_EXPONENT || number.exponent > MAX_EXPONENT)
			return false;
	}
	if (*token == '-')
		appendStringInfoChar(out, '-');
	append_number(out, &number);
	return true;
}

/* The value of a hexadecimal digit, -1 for what is none. */
int
nclaim_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Is all of it valid UTF-8 without a zero byte? */
bool
nclaim_is_utf8(const char *bytes, size_t length)
{
	return pg_encoding_verifymbstr(PG_UTF8, bytes, length) == (int) length;
}

/* Appends a code point other than zero as UTF-8. */
void
nclaim_append_code_point(StringInfo out, uint32 code_point)
{
	char		utf8[MAX_MULTIBYTE_CHAR_LEN + 1] = {0};

	unicode_to_utf8(code_point, (unsigned char *) utf8);
	appendStringInfoString(out, utf8);
}

/* Appends what stands for a byte or a lone surrogate. */
static void
append_escape(StringInfo out, uint32 code)
{
	static const char digits[] = "0123456789abcdef";
	char		escape[6] = {'\\', 'u', digits[code >> 12], digits[code >> 8 & 15],
	digits[code >> 4 & 15], digits[code & 15]};

	appendBinaryStringInfo(out, escape, sizeof(escape));
}

/* Appends a byte of a string, escaped where JSON demands it. */
void
nclaim_append_json_byte(StringInfo out, unsigned char byte)
{
	if (byte < 0x20)
		append_escape(out, byte);
	else
	{
		if (byte == '"' || byte == '\\')
			appendStringInfoChar(out, '\\');
		appendStringInfoChar(out, byte);
	}
}

/* The number of the four hexadecimal digits. */
static uint32
four_digits(const char *s)
{
	uint32		value = 0;

	for (int i = 0; i < 4; i++)
		value = 16 * value + nclaim_hex_digit(s[i]);
	return value;
}

/*
 * Appends what the digits after a \u stand for, and returns what follows them:
 * those of a second surrogate are taken along.
 */
static const char *
unescape_unicode(const char *s, const char *end, StringInfo out)
{
	uint32		code = four_digits(s);

	s += 4;
	if (is_utf16_surrogate_first(code) &&
		end - s >= 6 && s[0] == '\\' && s[1] == 'u' &&
		is_utf16_surrogate_second(four_digits(s + 2)))
	{
		code = surrogate_pair_to_codepoint(code, four_digits(s + 2));
		s += 6;
	}
	if (is_utf16_surrogate_first(code) || is_utf16_surrogate_second(code))
		append_escape(out, code);
	else if (code < 0x80)
		nclaim_append_json_byte(out, code);
	else
		nclaim_append_code_point(out, code);
	return s;
}

/* Appends what follows a backslash, unescaped, and returns what comes after. */
static const char *
unescape(const char *s, const char *end, StringInfo out)
{
	static const char letters[] = "bfnrt";
	static const char meanings[] = "\b\f\n\r\t";
	const char *letter;

	if (*s == 'u')
		return unescape_unicode(s + 1, end, out);
	letter = strchr(letters, *s);
	nclaim_append_json_byte(out, letter == NULL ? *s : meanings[letter - letters]);
	return s + 1;
}

/*
 * Appends the canonical spelling of what stands between the quotes of a string
 * that the lexer has accepted.
 */
void
nclaim_canonical_string(const char *token, int length, StringInfo out)
{
	const char *s = token;
	const char *end = token + length;

	while (s < end)
	{
		const char *backslash = memchr(s, '\\', end - s);

		if (backslash == NULL)
			backslash = end;
		appendBinaryStringInfo(out, s, backslash - s);
		s = backslash;
		if (s < end)
			s = unescape(s + 1, end, out);
	}
}
