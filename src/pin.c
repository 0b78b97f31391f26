/*-------------------------------------------------------------------------
 *
 * pin.c
 *		Freeing what an outer call may still be using.
 *
 * A user's trigger may call us while an outer call still executes a plan or
 * reads a definition that has become out of date meanwhile.  What is retired
 * is therefore freed when the last call has ended, whichever way: each call
 * holds a pin that goes away with its SPI context.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "notify_claim.h"

typedef struct Retired
{
	struct Retired *next;
	void		(*release) (void *arg);
	void	   *arg;
} Retired;

static int	pins = 0;
static Retired *retired = NULL;

static void
unpin(void *arg)
{
	if (--pins > 0)
		return;
	while (retired != NULL)
	{
		Retired    *first = retired;

		retired = first->next;
		first->release(first->arg);
		pfree(first);
	}
}

/* Pins everything until the current memory context is reset or deleted. */
void
nclaim_pin(void)
{
	MemoryContextCallback *callback = palloc(sizeof(MemoryContextCallback));

	callback->func = unpin;
	callback->arg = NULL;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	pins++;
}

/* Has release(arg) called as soon as no call can be using it any more. */
void
nclaim_retire(void (*release) (void *arg), void *arg)
{
	Retired    *entry;

	if (pins == 0)
	{
		release(arg);
		return;
	}
	entry = MemoryContextAlloc(TopMemoryContext, sizeof(Retired));
	entry->release = release;
	entry->arg = arg;
	entry->next = retired;
	retired = entry;
}
