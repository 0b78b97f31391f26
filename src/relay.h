/*-------------------------------------------------------------------------
 *
 * relay.h
 *		Types and prototypes of what consumes the outbox, grouped by the file
 *		that defines them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NCLAIM_RELAY_H
#define NCLAIM_RELAY_H

#include "access/tupdesc.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "notify_claim.h"

/* As the expression of notify_outbox_partition_idx has it. */
#define NCLAIM_PARTITIONS	32

/* in seqs.c */

/* A set of messages' numbers, sorted. */
typedef struct NClaimSeqs
{
	int			n;
	int			max;
	int64	   *seqs;
} NClaimSeqs;

extern void nclaim_seqs_add(NClaimSeqs *set, int64 seq);
extern void nclaim_seqs_sort(NClaimSeqs *set);
extern bool nclaim_seqs_has(const NClaimSeqs *set, int64 seq);
extern void nclaim_seqs_read(NClaimSeqs *set, Datum array);
extern Datum nclaim_seqs_array(const NClaimSeqs *set);
extern void nclaim_seqs_split(const NClaimSeqs *set, const NClaimSeqs *by,
							  NClaimSeqs *in, NClaimSeqs *rest);

/* in orders.c */

extern void nclaim_orders_add(HTAB **orders, Datum aggregatetype,
							  Datum aggregateid);
extern bool nclaim_orders_have(HTAB *orders, Datum aggregatetype,
							   Datum aggregateid);

/* in token.c */

extern void nclaim_token_make(pg_uuid_t *token, uint32 partitions);
extern uint32 nclaim_token_partitions(const pg_uuid_t *token);

/* in visit.c */

/* A row of notify_outbox_leased. */
typedef struct NClaimSlot
{
	int			slot;
	int			uses;
	bool		free;
} NClaimSlot;

/* What a partition gives to a batch. */
typedef struct NClaimShare
{
	int			partition;
	bool		held;			/* some of its orders are held */
	NClaimSeqs	seqs;
	NClaimSlot *slots;			/* of the partition, the longest unused first */
	int			nslots;
} NClaimShare;

/* What one call leases. */
typedef struct NClaimBatch
{
	const char *consumer;
	TimestampTz now;
	TimestampTz until;
	int			remaining;		/* how many more it may take */
	bool		full;			/* takes no more, whatever remains */
	uint32		visited;		/* partitions that were looked through */
	pg_uuid_t	token;
	List	   *messages;		/* of HeapTuple */
	TupleDesc	desc;			/* of the messages: notify_outbox' columns and
								 * the attempt come first */
	List	   *shares;			/* what each partition gave */
} NClaimBatch;

extern void nclaim_batch_add(NClaimBatch *batch, SPITupleTable *rows,
							 uint64 row, NClaimSeqs *seqs);
extern void nclaim_visit(NClaimBatch *batch, int partition, bool only_idle);

/* in lease.c */

extern void nclaim_lease(NClaimBatch *batch);

/* in held.c */

extern void nclaim_held_take(NClaimBatch *batch, int partition, HTAB *busy,
							 NClaimSeqs *seqs);
extern void nclaim_held_expired(int partition, const NClaimSeqs *seqs,
								TimestampTz now);
extern void nclaim_held_set_aside(int partition, const NClaimSeqs *seqs,
								  TimestampTz now);
extern void nclaim_held_failed(int partition, int64 seq,
							   const NClaimSeqs *later, const char *error,
							   TimestampTz now);
extern void nclaim_held_give_back(int partition, const NClaimSeqs *seqs,
								  TimestampTz now);
extern void nclaim_held_shortened(int partition, const NClaimSeqs *seqs,
								  TimestampTz until);
extern void nclaim_held_done(int partition, const NClaimSeqs *done,
							 TimestampTz now);

/* in dead.c */

extern void nclaim_dead_bury(int partition, Datum seqs, TimestampTz now,
							 const char *reason, bool heads_only);

#endif							/* NCLAIM_RELAY_H */
