/*-------------------------------------------------------------------------
 *
 * park.c
 *		Releasing what is parked for an order that has moved.
 *
 * The order table's trigger notes orders; the outermost of the calls in progress
 * releases what is parked for them, in a loop: a release moves the order again,
 * which may enable the next one.  No recursion, and messages come in the order
 * of the transitions.  What is noted lives as long as the outermost call; an
 * error forgets it.
 *
 * A release runs as the order table's owner, in a subtransaction of its own.  An
 * error leaves the claim parked, and what has woken it goes through; but what
 * the caller has to know reaches the caller.
 *
 * The order's row is locked by whoever moves it, and by whoever parks for it, so
 * neither can miss the other; what is parked is looked for by the latest
 * snapshot, because it may be newer than the transaction's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "notify_claim.h"

/* An order that has moved, or is to be looked at. */
typedef struct Moved
{
	Oid			relid;			/* its table, or a partition */
	bool		closes;			/* what has become stale is closed */
	char		order_no[FLEXIBLE_ARRAY_MEMBER];
} Moved;

/* What became of one parked claim. */
typedef enum Release
{
	LEFT_PARKED,				/* still early, or not to be told */
	CLOSED,
	APPLIED,
	FAILED,
} Release;

static int	level = 0;			/* calls in progress that look at what is
								 * noted */
static List *noted = NIL;		/* of Moved, in noted_context */
static MemoryContext noted_context;

static void
leave(void *arg)
{
	if (--level == 0)
		noted = NIL;
}

/*
 * Begins a call that releases what is noted until the current memory context,
 * the SPI connection's, goes away.
 */
void
nclaim_park_enter(void)
{
	MemoryContextCallback *callback = palloc(sizeof(MemoryContextCallback));

	callback->func = leave;
	callback->arg = NULL;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	if (level++ == 0)
	{
		noted = NIL;
		noted_context = CurrentMemoryContext;
	}
}

/* Is a call in progress that will look at what is noted? */
bool
nclaim_park_active(void)
{
	return level > 0;
}

/*
 * Notes an order that has moved, or is to be looked at; "closes" says whether
 * what has become stale is closed, or left.
 */
void
nclaim_park_note(Oid relid, const char *order_no, bool closes)
{
	MemoryContext caller = MemoryContextSwitchTo(noted_context);
	Moved	   *moved = palloc(offsetof(Moved, order_no) + strlen(order_no) + 1);

	moved->relid = relid;
	moved->closes = closes;
	strcpy(moved->order_no, order_no);
	noted = lappend(noted, moved);
	MemoryContextSwitchTo(caller);
}

/* Errors that are never held back: the whole transaction has to know. */
static bool
is_for_the_caller(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE ||
		sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ||
		sqlerrcode == ERRCODE_QUERY_CANCELED ||
		ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_INSUFFICIENT_RESOURCES;
}

/* Is the time over that an event may be parked for, from then on? */
static bool
is_over(TimestampTz since, const NClaimEvent *event)
{
	Datum		expires = DirectFunctionCall2(timestamptz_pl_interval,
											  TimestampTzGetDatum(since),
											  IntervalPGetDatum(&event->park_for));

	return DatumGetTimestampTz(expires) < GetCurrentTimestamp();
}

/*
 * Has the event been parked for longer than it may be?  That counts from the
 * first delivery, or from when a person reopened it.
 */
static bool
has_expired(const NClaimNotice *notice, const NClaimEvent *event)
{
	Datum		value = Int64GetDatum(notice->claim);
	bool		isnull = true;

	if (!is_over(notice->first_seen, event))
		return false;
	nclaim_own_execute(NCLAIM_FIND_REOPENED, &value, NULL, GetLatestSnapshot());
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	SPI_freetuptable(SPI_tuptable);
	return isnull || is_over(DatumGetTimestampTz(value), event);
}

/* Did a person allow the claim's event in spite of its check? */
static bool
was_allowed(int64 claim)
{
	Datum		value = Int64GetDatum(claim);
	bool		allowed = nclaim_own_execute(NCLAIM_FIND_ALLOWED, &value, NULL,
											 GetLatestSnapshot()) > 0;

	SPI_freetuptable(SPI_tuptable);
	return allowed;
}

/* Is there nothing to do at the row's status? */
static bool
is_left(const NClaimEvent *event, const NClaimOrderRow *row, bool closes)
{
	const NClaimEdge *edge;
	NClaimVerdict verdict = nclaim_graph_classify(event->machine->graph, event->event_type,
												  row->status_isnull, row->status, &edge);

	return verdict == NCLAIM_EARLY || (!closes && verdict != NCLAIM_LEGAL);
}

/*
 * Acts on a parked claim of the machine with the order's row locked: applies it,
 * closes it, or leaves it.  The row of an order at which nothing is to be done is
 * not locked.  A row that is held by another transaction, or gone, leaves it; one
 * that is gone does not keep it from expiring.
 */
static Release
release_claim(int64 id, const char *machine, bool closes, instr_time start)
{
	NClaimNotice notice;
	NClaimAnswer answer = {0};
	NClaimEvent *event;
	NClaimOrderTable *table;
	NClaimOrderRow row = {0};
	Datum		key;
	char	   *state;
	bool		present;
	bool		expired;

	if (!nclaim_claim_read(id, &notice, &state) || strcmp(state, "PARKED") != 0)
		return LEFT_PARKED;
	notice.start = start;
	event = nclaim_event_ready(notice.event_type);
	if (event == NULL || event->machine == NULL ||
		strcmp(event->machine->name, machine) != 0)
		return LEFT_PARKED;
	table = &event->machine->table;
	key = nclaim_column_in(&table->key, notice.order_no);
	present = nclaim_order_read(table, key, &row);
	expired = closes && has_expired(&notice, event);
	if (!expired && (!present || is_left(event, &row, closes)))
		return LEFT_PARKED;
	if (present && !nclaim_order_lock(table, key, &row))
		return LEFT_PARKED;
	nclaim_claim_read_body(&notice);
	if (expired)
	{
		if (nclaim_apply_skip(&notice, row.status_text, "expired", &answer))
			nclaim_review_expired(&notice);
		return CLOSED;
	}
	if (event->check.function != NULL || event->action.function != NULL)
		nclaim_claim_need_body(&notice);
	notice.allowed = event->check.function != NULL && was_allowed(id);
	if (nclaim_apply_locked(&notice, table, key, &row, &answer) != NCLAIM_ANSWERED ||
		strcmp(answer.outcome, "PARKED") == 0)
		return LEFT_PARKED;
	return strcmp(answer.outcome, "APPLIED") == 0 ? APPLIED : CLOSED;
}

/* Counts a release that failed, and keeps its error. */
static void
note_failure(int64 id, const ErrorData *error)
{
	Datum		values[2] = {
		Int64GetDatum(id),
		CStringGetTextDatum(psprintf("%s: %s", unpack_sql_state(error->sqlerrcode),
									 error->message))
	};

	nclaim_own_execute(NCLAIM_NOTE_FAILURE, values, NULL, GetLatestSnapshot());
}

/*
 * Does that as the owner of the machine's table, in a subtransaction.  Raises
 * what is for the caller.
 */
static Release
try_claim(int64 id, NClaimMachine *machine, bool closes, instr_time start)
{
	MemoryContext context = CurrentMemoryContext;
	MemoryContext scratch = AllocSetContextCreate(context, "notify_claim release",
												  ALLOCSET_DEFAULT_SIZES);
	ResourceOwner owner = CurrentResourceOwner;
	volatile Release release = FAILED;
	ErrorData  *error = NULL;
	int			nnoted = list_length(noted);

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(scratch);
	PG_TRY();
	{
		NClaimOwner before;

		nclaim_owner_enter(machine, &before);
		release = release_claim(id, machine->name, closes, start);
		nclaim_owner_leave(&before);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		/* No order has moved. */
		noted = list_truncate(noted, nnoted);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	MemoryContextDelete(scratch);
	CurrentResourceOwner = owner;
	if (error == NULL)
		return release;
	if (is_for_the_caller(error->sqlerrcode))
		ReThrowError(error);
	note_failure(id, error);
	return FAILED;
}

/*
 * The numbers of what is parked for the order under the snapshot, the longest first;
 * mostly there is nothing.
 */
static int64 *
read_parked(const char *order_no, Snapshot snapshot, uint64 *count)
{
	Datum		value = CStringGetTextDatum(order_no);
	NClaimRow	first;
	int64	   *ids;
	bool		isnull;

	*count = 0;
	if (!nclaim_find(NCLAIM_FIND_PARKED, &value, snapshot, &first))
		return NULL;
	*count = nclaim_own_execute(NCLAIM_FIND_PARKED, &value, NULL, snapshot);
	ids = palloc(*count * sizeof(int64) + 1);
	for (uint64 i = 0; i < *count; i++)
		ids[i] = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i],
											 SPI_tuptable->tupdesc, 1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return ids;
}

/*
 * The same under the latest snapshot.  Raises 40001 at SERIALIZABLE where the
 * transaction's own does not see the same.
 */
static int64 *
find_parked(const char *order_no, uint64 *count)
{
	int64	   *ids = read_parked(order_no, GetLatestSnapshot(), count);
	int64	   *seen;
	uint64		nseen;

	if (*count == 0 || !IsolationIsSerializable())
		return ids;
	seen = read_parked(order_no, InvalidSnapshot, &nseen);
	if (nseen != *count || memcmp(ids, seen, nseen * sizeof(int64)) != 0)
		nclaim_raise_not_serializable("What is parked for the order has changed since the transaction's snapshot was taken.");
	return ids;
}

/* Is the claim among those whose release has failed? */
static bool
has_failed(int64 id, List *failed)
{
	ListCell   *cell;

	foreach(cell, failed)
	{
		if (*(int64 *) lfirst(cell) == id)
			return true;
	}
	return false;
}

/*
 * Releases what is parked for an order of the machine, until nothing of it is
 * legal.  What fails is added to *failed, and what is there is not tried.
 * Returns how many claims were applied, and sets *changed if any was applied or
 * closed.
 */
static int64
release_order(const char *name, const Moved *moved, instr_time start,
			  List **failed, bool *changed)
{
	int64		applied = 0;
	bool		again;

	do
	{
		uint64		count;
		int64	   *ids = find_parked(moved->order_no, &count);

		again = false;
		for (uint64 i = 0; i < count && !again; i++)
		{
			NClaimMachine *machine = nclaim_machine_find(name);
			Release		release;

			if (machine->problem.sqlerrcode != 0 || machine->by_name)
				return applied;
			if (has_failed(ids[i], *failed))
				continue;
			release = try_claim(ids[i], machine, moved->closes, start);
			if (release == FAILED)
				*failed = lappend(*failed, &ids[i]);
			*changed |= release == APPLIED || release == CLOSED;
			again = release == APPLIED;
			applied += again;
		}
		CHECK_FOR_INTERRUPTS();
	} while (again);
	return applied;
}

/*
 * Releases what is parked for the orders that were noted, and for those that
 * move meanwhile, if this is the outermost call; "start" is when it began.  What
 * fails is tried once.  Returns how many claims were applied, and sets *changed if any was applied or
 * closed.  Raises only what is for the caller.
 */
int64
nclaim_park_drain(instr_time start, bool *changed)
{
	int64		applied = 0;
	List	   *failed = NIL;	/* of int64 */

	if (level > 1)
		return 0;
	for (int i = 0; i < list_length(noted); i++)
	{
		Moved	   *moved = list_nth(noted, i);
		ListCell   *cell;

		foreach(cell, nclaim_machines_of(moved->relid))
			applied += release_order(lfirst(cell), moved, start, &failed, changed);
	}
	list_free_deep(noted);
	noted = NIL;
	return applied;
}
