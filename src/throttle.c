/*-------------------------------------------------------------------------
 *
 * throttle.c
 *		At most one server log line a minute per subject and backend.
 *
 * Subjects come from outside, so their number is bounded: when the table is
 * full it is emptied, and some lines come more often.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "notify_claim.h"

#define MAX_SUBJECTS	1024
#define INTERVAL_MS		60000

typedef struct Subject
{
	uint64		hash;			/* hash key */
	TimestampTz logged;
} Subject;

static HTAB *subjects = NULL;

static uint64
hash_more(const char *text, uint64 seed)
{
	return DatumGetUInt64(hash_any_extended((const unsigned char *) text,
											strlen(text), seed));
}

static void
make_subjects(void)
{
	HASHCTL		ctl;

	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(Subject);
	ctl.hcxt = TopMemoryContext;
	subjects = hash_create("notify_claim log subjects", MAX_SUBJECTS, &ctl,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * Is a line of this kind due for the channel and name?  True the first time
 * and then once a minute.
 */
bool
nclaim_log_due(const char *kind, const char *channel, const char *name)
{
	uint64		hash = hash_more(name, hash_more(channel, hash_more(kind, 0)));
	TimestampTz now = GetCurrentTimestamp();
	Subject    *subject;
	bool		found;

	if (subjects != NULL && hash_get_num_entries(subjects) >= MAX_SUBJECTS)
	{
		hash_destroy(subjects);
		subjects = NULL;
	}
	if (subjects == NULL)
		make_subjects();

	subject = hash_search(subjects, &hash, HASH_ENTER, &found);
	if (found && !TimestampDifferenceExceeds(subject->logged, now, INTERVAL_MS))
		return false;
	subject->logged = now;
	return true;
}
