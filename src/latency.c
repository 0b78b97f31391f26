/*-------------------------------------------------------------------------
 *
 * latency.c
 *		Buckets of latencies, and quantiles from them.
 *
 * Each power of two of microseconds has four buckets, so that a quantile is off
 * by less than a quarter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "stats.h"

/* The bucket that so many microseconds belong to. */
int
nclaim_latency_bucket(uint64 us)
{
	int			power;

	if (us < 4)
		return (int) us;
	power = pg_leftmost_one_pos64(us);
	return Min(4 * (power - 1) + (int) ((us >> (power - 2)) & 3), NCLAIM_BUCKETS - 1);
}

/* The least number of microseconds in a bucket. */
static double
bucket_start(int bucket)
{
	if (bucket < 4)
		return bucket;
	return (double) ((uint64) (4 + bucket % 4) << (bucket / 4 - 1));
}

/*
 * The latency in microseconds below which the fraction of the counted ones is,
 * interpolated within its bucket; -1 where none was counted.
 */
double
nclaim_latency_quantile(const uint64 *buckets, double fraction)
{
	uint64		total = 0;
	double		below = 0;
	double		rank;

	for (int i = 0; i < NCLAIM_BUCKETS; i++)
		total += buckets[i];
	if (total == 0)
		return -1;
	rank = fraction * total;
	for (int i = 0; i < NCLAIM_BUCKETS; i++)
	{
		if (buckets[i] > 0 && below + buckets[i] >= rank)
			return bucket_start(i) +
				(bucket_start(i + 1) - bucket_start(i)) * (rank - below) / buckets[i];
		below += buckets[i];
	}
	return bucket_start(NCLAIM_BUCKETS);
}
