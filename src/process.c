/*-------------------------------------------------------------------------
 *
 * process.c
 *		The steps of handle_notify.
 *
 * Order row first, then the claim: it is the lock order that application code
 * takes, the claim can be inserted in its final form, and nothing has to be
 * undone.  There is no subtransaction on any path.
 *
 * A held order is polled for with SKIP LOCKED instead of being queued for: a
 * duplicate that waits for the first delivery is answered from the claim as
 * soon as that commits, without ever holding the row, and the deadline is
 * exact.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/guc.h"

#include "compat.h"
#include "notify_claim.h"

/* A claim that is lost, then not found: purged in between, over and over. */
#define MAX_LOST_RACES	10

#define MIN_SLEEP_US	500
#define MAX_SLEEP_US	10000

static NClaimProgress
answer_no_rule(const NClaimNotice *notice, NClaimAnswer *answer)
{
	if (nclaim_probe_again(notice, answer))
		return NCLAIM_ANSWERED;
	if (notice->settings->ack_no_rule)
		PreventCommandIfReadOnly("handle_notify");
	nclaim_answer_with(answer, notice->settings->ack_no_rule, "NO_RULE", NULL);
	if (nclaim_log_due("no rule", notice->channel, notice->event_type))
		ereport(LOG_SERVER_ONLY,
				(errmsg("notification of undeclared event type \"%s\" in channel \"%s\"",
						notice->event_type, notice->channel),
				 errhint("Declare it with notify_transition_add() or notify_event_add()."),
				 errhidestmt(true),
				 errhidecontext(true)));
	return NCLAIM_ANSWERED;
}

/* At the deadline, with an order that exists and could not be locked. */
static NClaimProgress
give_up(const NClaimNotice *notice, NClaimOrderTable *table, Datum key,
		NClaimAnswer *answer)
{
	switch (nclaim_order_hold(table, key))
	{
		case NCLAIM_FREE:
			return NCLAIM_LOOK_AGAIN;
		case NCLAIM_HIDDEN:
			return nclaim_answer_without_claim(notice, answer, "NO_ORDER", NULL);
		case NCLAIM_HELD:
			break;
	}
	return nclaim_answer_without_claim(notice, answer, "BUSY", NULL);
}

/* Steps 3 to 8 for an event with a machine. */
static NClaimProgress
process_order(const NClaimNotice *notice, NClaimOrderTable *table,
			  bool deadline_passed, NClaimAnswer *answer)
{
	NClaimOrderRow row;
	Datum		key = nclaim_column_in(&table->key, notice->order_no);

	if (nclaim_order_lock(table, key, &row))
		return nclaim_apply_locked(notice, table, key, &row, answer);
	if (!nclaim_order_exists(table, key))
		return nclaim_answer_without_claim(notice, answer, "NO_ORDER", NULL);
	return deadline_passed ? give_up(notice, table, key, answer) : NCLAIM_IS_HELD;
}

/*
 * How much of the busy timeout is left, in microseconds; 0 or less once it has
 * passed.  By the monotonic clock: the deadline does not move with the time of
 * day.
 */
long
nclaim_time_left(instr_time start)
{
	instr_time	spent;

	INSTR_TIME_SET_CURRENT(spent);
	INSTR_TIME_SUBTRACT(spent, start);
	return nclaim_busy_timeout * 1000L - (long) INSTR_TIME_GET_MICROSEC(spent);
}

/*
 * Sleeps before the order's row is asked for again, not beyond the deadline, and
 * not uninterruptibly; *sleep_us begins with 0 and grows.
 */
void
nclaim_wait_for_order(long *sleep_us, instr_time start)
{
	long		left_us = Max(nclaim_time_left(start), 0);
	double		jitter = 0.75 + 0.5 * pg_prng_double(&pg_global_prng_state);
	long		us;

	*sleep_us = *sleep_us == 0 ? MIN_SLEEP_US : Min(2 * *sleep_us, MAX_SLEEP_US);
	us = Min((long) (*sleep_us * jitter), left_us);
	if (us < 1000)
		pg_usleep(us);
	else
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 us / 1000, nclaim_wait_event());
		ResetLatch(MyLatch);
	}
	CHECK_FOR_INTERRUPTS();
}

/*
 * No wait inside the call may be longer than the busy timeout.  Returns the
 * nest level to be closed with AtEOXact_GUC().
 */
int
nclaim_limit_waits(void)
{
	int			nestlevel = NewGUCNestLevel();

	if (LockTimeout == 0 || LockTimeout > nclaim_busy_timeout)
	{
		char		timeout[16];

		snprintf(timeout, sizeof(timeout), "%d", nclaim_busy_timeout);
		(void) set_config_option("lock_timeout", timeout, PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	}
	return nestlevel;
}

/*
 * Processes a notice whose arguments were checked, and fills *answer, whose
 * texts and result live in the current memory context.  A notice that is about a
 * claim is processed again, one that was probed is not probed first.  Needs an SPI
 * connection.
 */
void
nclaim_process(const NClaimNotice *notice, NClaimAnswer *answer)
{
	long		sleep_us = 0;
	int			lost = 0;
	bool		probed = notice->probed;

	memset(answer, 0, sizeof(*answer));
	while (notice->claim != 0 || probed || !nclaim_claim_answer(notice, answer))
	{
		NClaimEvent *event = nclaim_event_ready(notice->event_type);
		NClaimProgress progress;

		probed = false;
		if (event != NULL)
			nclaim_stat_event(notice);
		if (event == NULL)
			progress = answer_no_rule(notice, answer);
		else if (event->machine == NULL)
			progress = nclaim_apply_event(notice, event, answer);
		else
			progress = process_order(notice, &event->machine->table,
									 nclaim_time_left(notice->start) <= 0, answer);

		if (progress == NCLAIM_ANSWERED)
			return;
		if (progress == NCLAIM_IS_HELD)
			nclaim_wait_for_order(&sleep_us, notice->start);
		else if (++lost >= MAX_LOST_RACES)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not claim the notification: it or its declaration keeps changing"),
					 errhint("The transaction might succeed if retried.")));
	}
}

/*
 * Does that as the owner of the event's order table: who decides about the
 * notice needs no rights on it.
 */
void
nclaim_process_as_owner(const NClaimNotice *notice, NClaimAnswer *answer)
{
	NClaimEvent *event = nclaim_event_find(notice->event_type);
	NClaimOwner before;

	nclaim_owner_enter(event == NULL ? NULL : event->machine, &before);
	nclaim_process(notice, answer);
	nclaim_owner_leave(&before);
}
