/*-------------------------------------------------------------------------
 *
 * orders.c
 *		Sets of orders, by the hash of their messages' aggregate.
 *
 * Two orders with the same 64 bits are taken for one: its messages then wait for
 * each other, no more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"

#include "relay.h"

static uint64
hash_order(Datum aggregatetype, Datum aggregateid)
{
	uint64		hash = 0;
	Datum		parts[2] = {aggregatetype, aggregateid};

	for (int i = 0; i < 2; i++)
	{
		struct varlena *part = PG_DETOAST_DATUM_PACKED(parts[i]);

		hash = DatumGetUInt64(hash_any_extended((unsigned char *) VARDATA_ANY(part),
												VARSIZE_ANY_EXHDR(part), hash));
	}
	return hash;
}

/* Adds an order, both parts of its key of type text, and makes the set first. */
void
nclaim_orders_add(HTAB **orders, Datum aggregatetype, Datum aggregateid)
{
	uint64		hash = hash_order(aggregatetype, aggregateid);

	if (*orders == NULL)
	{
		HASHCTL		control = {0};

		control.keysize = sizeof(uint64);
		control.entrysize = sizeof(uint64);
		control.hcxt = CurrentMemoryContext;
		*orders = hash_create("notify_claim orders", 128, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	(void) hash_search(*orders, &hash, HASH_ENTER, NULL);
}

/* Is the order in the set? */
bool
nclaim_orders_have(HTAB *orders, Datum aggregatetype, Datum aggregateid)
{
	uint64		hash;

	if (orders == NULL)
		return false;
	hash = hash_order(aggregatetype, aggregateid);
	return hash_search(orders, &hash, HASH_FIND, NULL) != NULL;
}
