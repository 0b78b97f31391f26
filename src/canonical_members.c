/*-------------------------------------------------------------------------
 *
 * canonical_members.c
 *		Arrays of a body's members, and their order.
 *
 * The sort is a merge sort: a body comes from outside, and one could be made
 * for which quicksort takes quadratic time.  Arrays are allocated in the
 * current memory context.
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

/* Members that are sorted by insertion. */
#define SHORT_RUN	12

/*
 * Returns the array, or NULL where there is none yet, with room for one more
 * than the count of its elements.
 */
void *
nclaim_grow(void *array, int count, int *allocated, size_t size)
{
	if (count < *allocated)
		return array;
	*allocated = Max(16, 2 * count);
	if (array == NULL)
		return NCLAIM_ALLOC_HUGE(*allocated * size);
	return NCLAIM_REALLOC_HUGE(array, *allocated * size);
}

/* Adds a member; the pointer returned is good until the next one. */
NClaimMember *
nclaim_members_add(NClaimMembers *members, int name, int name_length, int end)
{
	NClaimMember *member;

	members->member = nclaim_grow(members->member, members->count,
								  &members->allocated, sizeof(NClaimMember));
	member = &members->member[members->count++];
	member->name = name;
	member->name_length = name_length;
	member->end = end;
	member->object = 0;
	return member;
}

void
nclaim_members_free(NClaimMembers *members)
{
	if (members->member != NULL)
		pfree(members->member);
}

static inline int
compare_bytes(const char *a, int a_length, const char *b, int b_length)
{
	int			result = memcmp(a, b, Min(a_length, b_length));

	return result != 0 ? result : a_length - b_length;
}

/*
 * Returns which of two members of the text comes first, as memcmp() does: by
 * name, then by what follows it.
 */
int
nclaim_members_compare(const NClaimMember *a, const NClaimMember *b,
					   const char *base)
{
	int			a_value = a->name + a->name_length;
	int			b_value = b->name + b->name_length;
	int			result = compare_bytes(base + a->name, a->name_length,
									   base + b->name, b->name_length);

	return result != 0 ? result :
		compare_bytes(base + a_value, a->end - a_value,
					  base + b_value, b->end - b_value);
}

static void
sort_run(NClaimMember *member, int count, const char *base)
{
	for (int i = 1; i < count; i++)
	{
		NClaimMember moving = member[i];
		int			j = i;

		while (j > 0 && nclaim_members_compare(&member[j - 1], &moving, base) > 0)
		{
			member[j] = member[j - 1];
			j--;
		}
		member[j] = moving;
	}
}

/* Merges two neighbours, of left and of right members. */
static void
merge(const NClaimMember *from, int left, int right, NClaimMember *to,
	  const char *base)
{
	const NClaimMember *a = from;
	const NClaimMember *b = from + left;
	const NClaimMember *a_end = b;
	const NClaimMember *b_end = b + right;

	NCLAIM_CHECK_FOR_INTERRUPTS();
	if (right == 0 || nclaim_members_compare(b - 1, b, base) <= 0)
	{
		memcpy(to, from, (left + right) * sizeof(NClaimMember));
		return;
	}
	while (a < a_end && b < b_end)
	{
		NCLAIM_CHECK_FOR_INTERRUPTS();
		*to++ = nclaim_members_compare(a, b, base) <= 0 ? *a++ : *b++;
	}
	memcpy(to, a, (a_end - a) * sizeof(NClaimMember));
	memcpy(to + (a_end - a), b, (b_end - b) * sizeof(NClaimMember));
}

static void
merge_runs(NClaimMember *member, int count, const char *base)
{
	NClaimMember *scratch = NCLAIM_ALLOC_HUGE(count * sizeof(NClaimMember));
	NClaimMember *from = member;
	NClaimMember *to = scratch;

	for (int64 run = SHORT_RUN; run < count; run *= 2)
	{
		NClaimMember *merged = to;

		for (int64 i = 0; i < count; i += 2 * run)
		{
			int			left = Min(run, count - i);
			int			right = Min(run, count - i - left);

			merge(from + i, left, right, to + i, base);
		}
		to = from;
		from = merged;
	}
	if (from != member)
		memcpy(member, from, count * sizeof(NClaimMember));
	pfree(scratch);
}

/* Sorts members of the text in the order of nclaim_members_compare(). */
void
nclaim_members_sort(NClaimMember *member, int count, const char *base)
{
	for (int64 i = 0; i < count; i += SHORT_RUN)
	{
		NCLAIM_CHECK_FOR_INTERRUPTS();
		sort_run(member + i, Min(SHORT_RUN, count - i), base);
	}
	if (count > SHORT_RUN)
		merge_runs(member, count, base);
}
