/*-------------------------------------------------------------------------
 *
 * token.c
 *		Fencing tokens of leases.
 *
 * A token is a uuid: 32 bits that say in which partitions its lease has
 * messages, and 96 random ones.  A number drawn from a sequence would come again
 * after a failover that lost its last draws, and an old token would then fit a
 * new lease.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"

#include "relay.h"

/* A token for messages in the given partitions. */
void
nclaim_token_make(pg_uuid_t *token, uint32 partitions)
{
	if (!pg_strong_random(token->data, UUID_LEN))
		elog(ERROR, "could not generate random values");
	partitions = pg_hton32(partitions);
	memcpy(token->data, &partitions, sizeof(partitions));
}

/* The partitions in which a token's lease may have messages. */
uint32
nclaim_token_partitions(const pg_uuid_t *token)
{
	uint32		partitions;

	memcpy(&partitions, token->data, sizeof(partitions));
	return pg_ntoh32(partitions);
}
