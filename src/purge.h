/*-------------------------------------------------------------------------
 *
 * purge.h
 *		Types and prototypes of retention, grouped by the file that defines
 *		them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NCLAIM_PURGE_H
#define NCLAIM_PURGE_H

#include "relay.h"

/* in purge.c */

/* Channels that are purged together: what is older than the cutoff goes. */
typedef struct NClaimRetention
{
	TimestampTz cutoff;
	Datum		names;			/* text[], of the channels */
	bool		others;			/* and those that are not declared */

	/* for purge_claims.c */
	int64		position;		/* in notify_purge_kept, then in notify_claim */
	int64		low;			/* its claims up to this number are done with */
	bool		begun;
	bool		decided;		/* the mark was, when this purge began */
	bool		undecided;		/* some channel's was not */
	int64		mark;
	int64		left;			/* the first claim that is left where it is */
} NClaimRetention;

/* What one call is to do, and what it has done. */
typedef struct NClaimPurge
{
	FunctionCallInfo fcinfo;
	TimestampTz now;			/* when it was called: ages are as of then */
	Interval   *older_than;		/* NULL: what each channel retains */
	char	   *channel;		/* NULL: all */
	bool		force;
	int			batch;
	TimestampTz outbox_cutoff;	/* DT_NOBEGIN: no messages */
	int64		claims;
	int64		messages;
} NClaimPurge;

#define NCLAIM_PURGE_BATCH	1000	/* as the default of notify_purge's
									 * argument */

extern void nclaim_purge(NClaimPurge *purge);
extern Datum nclaim_counts(FunctionCallInfo fcinfo, int64 first, int64 second);

/* in purge_claims.c */

extern void nclaim_purge_begin(NClaimRetention *retention);
extern bool nclaim_purge_kept(NClaimRetention *retention, int batch, int64 *count);
extern bool nclaim_purge_claims(NClaimRetention *retention, int batch, int64 *count);
extern bool nclaim_purge_reviews(NClaimRetention *retention, int batch, int64 *count);

/* in purge_outbox.c */

/* Messages by their age, one partition after the other. */
typedef struct NClaimOutboxPurge
{
	TimestampTz cutoff;
	int			partition;
	int64		position;		/* in the partition */
} NClaimOutboxPurge;

extern bool nclaim_purge_outbox(NClaimOutboxPurge *purge, int batch, int64 *count);

#endif							/* NCLAIM_PURGE_H */
