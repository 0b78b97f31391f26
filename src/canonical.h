/*-------------------------------------------------------------------------
 *
 * canonical.h
 *		Canonical forms of bodies, in code that the server and the fuzz harness
 *		share: no function here raises an error of its own, and only memory and
 *		strings of PostgreSQL's common library are used.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NCLAIM_CANONICAL_H
#define NCLAIM_CANONICAL_H

#include "lib/stringinfo.h"

typedef enum NClaimMode
{
	NCLAIM_RAW,
	NCLAIM_JSON,
	NCLAIM_FORM,
	NCLAIM_XML,
} NClaimMode;

/* What a digest leaves out: a tree of names; only the root has none. */
typedef struct NClaimIgnore NClaimIgnore;

/* One member of a body, as it stands in the canonical form. */
typedef void (*NClaimMemberCallback) (void *arg,
									  const char *path, size_t path_length,
									  const char *value, size_t value_length);

/* in ignore.c */

extern NClaimIgnore *nclaim_ignore_make(void);
extern bool nclaim_ignore_add(NClaimIgnore *ignore, NClaimMode mode,
							  const char *entry);
extern const NClaimIgnore *nclaim_ignore_step(const NClaimIgnore *ignore,
											  const char *name, size_t length,
											  bool *ignored);

/* in canonical.c */

extern bool nclaim_canonical(NClaimMode mode, const NClaimIgnore *ignore,
							 const char *bytes, size_t length,
							 StringInfo canonical);
extern void nclaim_canonical_members(NClaimMode mode, const char *canonical,
									 size_t length,
									 NClaimMemberCallback callback, void *arg);

/* in canonical_members.c */

/*
 * A member of an object, or a pair: offsets into the text that holds it.  Its
 * value follows its name.
 */
typedef struct NClaimMember
{
	int			name;
	int			name_length;
	int			end;
	int			object;			/* of JSON: see canonical_json.c */
} NClaimMember;

/* A growing array of them, empty when zeroed. */
typedef struct NClaimMembers
{
	NClaimMember *member;
	int			count;
	int			allocated;
} NClaimMembers;

extern void *nclaim_grow(void *array, int count, int *allocated, size_t size);
extern NClaimMember *nclaim_members_add(NClaimMembers *members, int name,
										int name_length, int end);
extern int	nclaim_members_compare(const NClaimMember *a, const NClaimMember *b,
								   const char *base);
extern void nclaim_members_sort(NClaimMember *member, int count,
								const char *base);
extern void nclaim_members_free(NClaimMembers *members);

/* in canonical_scalar.c */

extern bool nclaim_canonical_number(const char *token, int length,
									StringInfo out);
extern void nclaim_canonical_string(const char *token, int length,
									StringInfo out);
extern void nclaim_append_json_byte(StringInfo out, unsigned char byte);
extern void nclaim_append_code_point(StringInfo out, uint32 code_point);
extern int	nclaim_hex_digit(char c);
extern bool nclaim_is_utf8(const char *bytes, size_t length);

/* in canonical_json.c */

#define NCLAIM_JSON_DEPTH	512 /* deeper bodies have no canonical form */

extern bool nclaim_canonical_json(const NClaimIgnore *ignore, const char *bytes,
								  size_t length, StringInfo canonical);

/* in canonical_form.c */

/* The decoded pairs of a body, as they are found. */
typedef struct NClaimPairs
{
	StringInfoData text;		/* name and value of each */
	NClaimMembers members;
	const NClaimIgnore *ignore;
} NClaimPairs;

extern void nclaim_pairs_start(NClaimPairs *pairs, const NClaimIgnore *ignore);
extern void nclaim_pairs_add(NClaimPairs *pairs, int name, int name_length);
extern void nclaim_pairs_finish(NClaimPairs *pairs, StringInfo canonical);
extern bool nclaim_form_decode(StringInfo out, const char *bytes,
							   size_t length);
extern bool nclaim_canonical_form(const NClaimIgnore *ignore, const char *bytes,
								  size_t length, StringInfo canonical);

/* in canonical_xml.c */

extern bool nclaim_canonical_xml(const NClaimIgnore *ignore, const char *bytes,
								 size_t length, StringInfo canonical);

#endif							/* NCLAIM_CANONICAL_H */
