/*-------------------------------------------------------------------------
 *
 * stat_count.c
 *		Counting the calls of handle_notify.
 *
 * A call counts when its top transaction commits, so until then what was
 * answered is collected in the backend, by entry and by subtransaction.  A call
 * that raises is one that was begun and not ended when its (sub)transaction is
 * rolled back.  Nothing here touches a table or takes a lock but where a channel
 * or an event type is met for the first time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "stats.h"

/* A call that was begun and has not ended; one inside another comes first. */
struct NClaimStatCall
{
	NClaimStatCall *outer;
	int			level;			/* of its subtransaction */
	NClaimStatEntry *channel;	/* entry for its undeclared event types */
	NClaimStatEntry *entry;
};

/* What was answered in a subtransaction. */
typedef struct Pending
{
	struct Pending *next;
	int			level;
	NClaimStatEntry *entry;
	int			last;			/* of the values, that is not zero */
	uint64		values[NCLAIM_STATS];
} Pending;

/* What the session's last calls were counted in; entries are never removed. */
static NClaimStatEntry *unknown = NULL;
static NClaimStatEntry *last_channel = NULL;
static NClaimStatEntry *last_event = NULL;

/* Both live in TopTransactionContext. */
static NClaimStatCall *calls = NULL;
static Pending *pendings = NULL;

static const char *const answers[NCLAIM_ANSWERS] = {
	"APPLIED", "SKIPPED", "PARKED", "EARLY", "CONFLICT", "REJECTED", "BUSY",
	"NO_ORDER", "NO_RULE"
};

/* The entry for the key, which often is the last one. */
static NClaimStatEntry *
find_entry(NClaimStatEntry **last, const char *channel, const char *event_type)
{
	if (*last == NULL || strcmp((*last)->channel, channel) != 0 ||
		strcmp((*last)->event_type, event_type) != 0)
		*last = nclaim_stat_entry(channel, event_type);
	return *last;
}

/* A call begins.  Returns NULL where nothing is counted. */
NClaimStatCall *
nclaim_stat_begin(void)
{
	NClaimStatCall *call;

	if (!nclaim_stat_enabled())
		return NULL;
	call = MemoryContextAlloc(TopTransactionContext, sizeof(*call));
	call->outer = calls;
	call->level = GetCurrentTransactionNestLevel();
	call->channel = call->entry = find_entry(&unknown, "", "");
	calls = call;
	return call;
}

/* The call's channel is one that is declared. */
void
nclaim_stat_channel(const NClaimNotice *notice)
{
	if (notice->call != NULL)
		notice->call->channel = notice->call->entry = find_entry(&last_channel, notice->channel, "");
}

/* The call's event type is one that is declared. */
void
nclaim_stat_event(const NClaimNotice *notice)
{
	if (notice->call != NULL)
		notice->call->entry = find_entry(&last_event, notice->channel, notice->event_type);
}

static Pending *
find_pending(NClaimStatEntry *entry, int level)
{
	Pending    *pending = pendings;

	while (pending != NULL && (pending->entry != entry || pending->level != level))
		pending = pending->next;
	return pending;
}

static Pending *
add_pending(NClaimStatEntry *entry, int level)
{
	Pending    *pending = find_pending(entry, level);

	if (pending == NULL)
	{
		pending = MemoryContextAllocZero(TopTransactionContext, sizeof(*pending));
		pending->entry = entry;
		pending->level = level;
		pending->next = pendings;
		pendings = pending;
	}
	return pending;
}

/* Which value counts the answer? */
static NClaimStat
answer_stat(const NClaimAnswer *answer)
{
	int			i = 0;

	if (answer->replayed)
		return NCLAIM_STAT_REPLAYED;
	while (i < NCLAIM_STAT_REPLAYED && strcmp(answers[i], answer->outcome) != 0)
		i++;
	if (i == NCLAIM_STAT_REPLAYED)
		elog(ERROR, "unrecognized outcome \"%s\"", answer->outcome);
	return i;
}

/* The call ends, and was answered so. */
void
nclaim_stat_end(const NClaimNotice *notice, const NClaimAnswer *answer)
{
	NClaimStatCall *call = notice->call;
	NClaimStat	stat = answer_stat(answer);
	instr_time	spent;
	uint64		us;
	int			bucket;
	Pending    *pending;
	uint64	   *values;

	if (call == NULL)
		return;
	INSTR_TIME_SET_CURRENT(spent);
	INSTR_TIME_SUBTRACT(spent, notice->start);
	us = INSTR_TIME_GET_MICROSEC(spent);
	bucket = NCLAIM_STAT_BUCKET + nclaim_latency_bucket(us);
	if (call->entry == call->channel && stat != NCLAIM_STAT_NO_RULE)
		nclaim_stat_event(notice);	/* answered from the claim */
	pending = add_pending(call->entry, call->level);
	pending->last = Max(pending->last, bucket);
	values = pending->values;
	values[stat]++;
	values[NCLAIM_STAT_OVER_BUDGET] += us > nclaim_budget * UINT64CONST(1000);
	values[NCLAIM_STAT_TOTAL_US] += us;
	values[NCLAIM_STAT_MIN_US] = nclaim_stat_least(values[NCLAIM_STAT_MIN_US], us + 1);
	values[NCLAIM_STAT_MAX_US] = Max(values[NCLAIM_STAT_MAX_US], us);
	values[bucket]++;
	calls = call->outer;
	if (answer->replayed)
		nclaim_stat_alarm(call->channel);
	pfree(call);
}

static uint64
sum_answers(const uint64 *values)
{
	uint64		sum = 0;

	for (int i = 0; i < NCLAIM_ANSWERS; i++)
		sum += values[i];
	return sum;
}

static void
merge(uint64 *into, const uint64 *from)
{
	for (int i = 0; i < NCLAIM_STATS; i++)
	{
		if (i == NCLAIM_STAT_MIN_US)
			into[i] = nclaim_stat_least(into[i], from[i]);
		else if (i == NCLAIM_STAT_MAX_US)
			into[i] = Max(into[i], from[i]);
		else
			into[i] += from[i];
	}
}

/* What was answered is committed, in that tick. */
static void
count_committed(const Pending *pending, uint32 tick)
{
	NClaimStatEntry *entry = pending->entry;
	const uint64 *values = pending->values;

	nclaim_stat_add(entry, values, pending->last);
	nclaim_stat_tick(entry, tick, NCLAIM_RATE_RECEIVED, sum_answers(values));
	nclaim_stat_tick(entry, tick, NCLAIM_RATE_REPLAYED, values[NCLAIM_STAT_REPLAYED]);
	nclaim_stat_tick(entry, tick, NCLAIM_RATE_CONFLICT, values[NCLAIM_STAT_CONFLICT]);
}

/* So many calls are rolled back, some of them with a verdict. */
static void
count_rolled_back(NClaimStatEntry *entry, uint64 n, uint64 verdicts)
{
	pg_atomic_fetch_add_u64(&entry->values[NCLAIM_STAT_ROLLED_BACK], n);
	pg_atomic_fetch_add_u64(&entry->values[NCLAIM_STAT_CONFLICT_ROLLED_BACK], verdicts);
}

/* What was begun or answered at the level, or inside it, is rolled back. */
static void
roll_back(int level)
{
	Pending   **place = &pendings;

	while (calls != NULL && calls->level >= level)
	{
		NClaimStatCall *call = calls;

		count_rolled_back(call->entry, 1, 0);
		calls = call->outer;
		pfree(call);
	}
	while (*place != NULL)
	{
		Pending    *pending = *place;
		const uint64 *values = pending->values;

		if (pending->level >= level)
		{
			count_rolled_back(pending->entry, sum_answers(values),
							  values[NCLAIM_STAT_CONFLICT] + values[NCLAIM_STAT_REJECTED]);
			*place = pending->next;
			pfree(pending);
		}
		else
			place = &pending->next;
	}
}

/* What was answered at the level is the outer one's. */
static void
hand_over(int level)
{
	Pending   **place = &pendings;

	while (*place != NULL)
	{
		Pending    *pending = *place;
		Pending    *outer;

		if (pending->level == level &&
			(outer = find_pending(pending->entry, level - 1)) != NULL)
		{
			merge(outer->values, pending->values);
			outer->last = Max(outer->last, pending->last);
			*place = pending->next;
			pfree(pending);
			continue;
		}
		if (pending->level == level)
			pending->level--;
		place = &pending->next;
	}
}

static void
end_transaction(XactEvent event, void *arg)
{
	uint32		tick;

	if (calls == NULL && pendings == NULL)
		return;
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			tick = nclaim_stat_tick_of(GetCurrentTimestamp());
			for (Pending *pending = pendings; pending != NULL; pending = pending->next)
				count_committed(pending, tick);
			break;
		case XACT_EVENT_ABORT:
			roll_back(1);
			break;
		default:
			return;
	}
	calls = NULL;
	pendings = NULL;
}

static void
end_subtransaction(SubXactEvent event, SubTransactionId mine,
				   SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		roll_back(GetCurrentTransactionNestLevel());
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		hand_over(GetCurrentTransactionNestLevel());
}

/* Called once, when the library is loaded. */
void
nclaim_stat_init(void)
{
	RegisterXactCallback(end_transaction, NULL);
	RegisterSubXactCallback(end_subtransaction, NULL);
}
