/*-------------------------------------------------------------------------
 *
 * seqs.c
 *		Sets of messages' numbers, and their arrays in SQL.
 *
 * They live in the memory context that was current when the first member came.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"

#include "compat.h"
#include "relay.h"

static int
compare_seqs(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

/* Adds a number; the set is sorted again by nclaim_seqs_sort(). */
void
nclaim_seqs_add(NClaimSeqs *set, int64 seq)
{
	if (set->n == set->max)
	{
		set->max = Max(16, 2 * set->max);
		set->seqs = set->seqs == NULL ? palloc(set->max * sizeof(int64)) :
			repalloc(set->seqs, set->max * sizeof(int64));
	}
	set->seqs[set->n++] = seq;
}

void
nclaim_seqs_sort(NClaimSeqs *set)
{
	if (set->n > 1)
		qsort(set->seqs, set->n, sizeof(int64), compare_seqs);
}

/* Is the number in the set, which is sorted? */
bool
nclaim_seqs_has(const NClaimSeqs *set, int64 seq)
{
	return set->n > 0 &&
		bsearch(&seq, set->seqs, set->n, sizeof(int64), compare_seqs) != NULL;
}

/*
 * Adds the members of a bigint[] and sorts the set.  Raises 22004 for an element
 * that is null.
 */
void
nclaim_seqs_read(NClaimSeqs *set, Datum array)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	nclaim_deconstruct_int8_array(DatumGetArrayTypeP(array), &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("message numbers must not be null")));
		nclaim_seqs_add(set, DatumGetInt64(elements[i]));
	}
	nclaim_seqs_sort(set);
}

/* The set as a bigint[]. */
Datum
nclaim_seqs_array(const NClaimSeqs *set)
{
	Datum	   *elements = palloc(Max(set->n, 1) * sizeof(Datum));

	for (int i = 0; i < set->n; i++)
		elements[i] = Int64GetDatum(set->seqs[i]);
	return PointerGetDatum(nclaim_construct_int8_array(elements, set->n));
}

/* Adds what is in both to "in", what is in "set" alone to "rest". */
void
nclaim_seqs_split(const NClaimSeqs *set, const NClaimSeqs *by, NClaimSeqs *in,
				  NClaimSeqs *rest)
{
	for (int i = 0; i < set->n; i++)
		nclaim_seqs_add(nclaim_seqs_has(by, set->seqs[i]) ? in : rest, set->seqs[i]);
}
