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
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/uuid.h"

#include "compat.h"
#include "notify_claim.h"

/* A claim that is lost, then not found: purged in between, over and over. */
#define MAX_LOST_RACES	10

#define MIN_SLEEP_US	500
#define MAX_SLEEP_US	10000

/* One step that is legal: the edge taken, copied out of the cache. */
typedef struct Step
{
	Datum		from;
	Datum		to;				/* only where changes is true */
	bool		changes;
	char	   *from_text;
	char	   *to_text;
	char	   *message_type;	/* or NULL */
} Step;

typedef enum Progress
{
	ANSWERED,					/* *answer is complete */
	LOOK_AGAIN,					/* something moved: probe and find again */
	HELD,						/* another transaction holds the order */
} Progress;

static void
answer_with(NClaimAnswer *answer, bool success, const char *outcome,
			Jsonb *result)
{
	answer->success = success;
	answer->outcome = outcome;
	answer->result = result;
}

/*
 * Probes once more, as a new command: the first delivery may have committed
 * since the last time.  True where that answers the notice.  Where it is
 * invisible to the transaction's snapshot this raises 40001.
 */
static bool
probe_again(const NClaimNotice *notice, NClaimAnswer *answer)
{
	if (nclaim_claim_answer(notice, answer))
		return true;
	if (nclaim_claim_is_invisible(notice))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("The notification was claimed after the transaction's snapshot was taken."),
				 errhint("The transaction might succeed if retried.")));
	return false;
}

/* An answer that leaves no claim. */
static Progress
answer_without_claim(const NClaimNotice *notice, NClaimAnswer *answer,
					 const char *outcome, Jsonb *result)
{
	if (!probe_again(notice, answer))
		answer_with(answer, false, outcome, result);
	return ANSWERED;
}

static Progress
answer_no_rule(const NClaimNotice *notice, NClaimAnswer *answer)
{
	if (probe_again(notice, answer))
		return ANSWERED;
	if (notice->settings->ack_no_rule)
		PreventCommandIfReadOnly("handle_notify");
	answer_with(answer, notice->settings->ack_no_rule, "NO_RULE", NULL);
	if (nclaim_log_due("no rule", notice->channel, notice->event_type))
		ereport(LOG_SERVER_ONLY,
				(errmsg("notification of undeclared event type \"%s\" in channel \"%s\"",
						notice->event_type, notice->channel),
				 errhint("Declare it with notify_transition_add() or notify_event_add()."),
				 errhidestmt(true),
				 errhidecontext(true)));
	return ANSWERED;
}

/* {"<name>": <status>}, or with a reason as well. */
static Jsonb *
status_result(const char *name, const char *status, const char *reason)
{
	NClaimJson	json = {0};

	nclaim_json_open(&json);
	nclaim_json_text(&json, name, status);
	if (reason != NULL)
		nclaim_json_text(&json, "reason", reason);
	return nclaim_json_close(&json);
}

static Jsonb *
applied_result(const char *from, const char *to)
{
	NClaimJson	json = {0};

	nclaim_json_open(&json);
	nclaim_json_text(&json, "from", from);
	nclaim_json_text(&json, "status", to);
	return nclaim_json_close(&json);
}

/*
 * Asks the event's check function, if it has one and no person has allowed the
 * notice.  Returns false where it refused: *progress then says how to go on.
 */
static bool
check_passes(const NClaimNotice *notice, NClaimHook *check, const char *order_no,
			 NClaimAnswer *answer, Progress *progress)
{
	NClaimJson	json = {0};
	char	   *reason;

	if (check->function == NULL || notice->allowed)
		return true;
	*progress = ANSWERED;
	if (probe_again(notice, answer))
		return false;
	reason = nclaim_hook_check(check, notice, order_no);
	if (reason == NULL)
		return true;
	if (probe_again(notice, answer))
		return false;
	if (!nclaim_review_refuse(notice, order_no, reason))
		*progress = LOOK_AGAIN;
	nclaim_json_open(&json);
	nclaim_json_text(&json, "rejected", reason);
	answer_with(answer, false, "REJECTED", nclaim_json_close(&json));
	return false;
}

/*
 * Inserts the claim and, where it has one, its message.  Returns false where
 * the race for the key was lost.
 */
static bool
write_claim(const NClaimNotice *notice, const char *order_no,
			const char *outcome, Jsonb *result, const NClaimMessage *message,
			NClaimAnswer *answer)
{
	NClaimClaim claim;

	claim.order_no = order_no;
	claim.outcome = outcome;
	claim.result = result;
	claim.message_id = message == NULL || message->type == NULL ? NULL :
		DatumGetUUIDP(OidFunctionCall0(F_GEN_RANDOM_UUID));
	claim.created_at = GetCurrentTimestamp();

	if (!nclaim_claim_insert(notice, &claim))
		return false;
	if (!notice->allowed)
		nclaim_review_overtaken(notice);
	if (claim.message_id != NULL)
		nclaim_outbox_insert(notice, &claim, message);

	answer_with(answer, true, outcome, result);
	answer->seen = true;
	answer->first_seen = claim.created_at;
	answer->claim = claim.id;
	return true;
}

/* Runs the event's action function, if it has one. */
static void
act(const NClaimNotice *notice, NClaimHook *action, const char *order_no)
{
	if (action->function != NULL)
		nclaim_hook_action(action, notice, order_no);
}

/* An event without a machine: recognise repeats, and publish. */
static Progress
process_event(const NClaimNotice *notice, NClaimEvent *event,
			  NClaimAnswer *answer)
{
	NClaimMessage message = {NULL, event->message_type, NULL, NULL};
	Progress	progress;

	if (!check_passes(notice, &event->check, notice->order_no, answer, &progress))
		return progress;
	if (!write_claim(notice, notice->order_no, "APPLIED",
					 applied_result(NULL, NULL), &message, answer))
		return LOOK_AGAIN;
	act(notice, &event->action, notice->order_no);
	return ANSWERED;
}

/* An event that is not legal at the order's status. */
static Progress
process_illegal(const NClaimNotice *notice, const NClaimEvent *event,
				const NClaimOrderRow *row, NClaimVerdict verdict,
				NClaimAnswer *answer)
{
	const char *reason = verdict == NCLAIM_ALREADY ? "already" :
		verdict == NCLAIM_STALE ? "stale" : "early";

	if (verdict == NCLAIM_EARLY && !event->skip_early)
		return answer_without_claim(notice, answer, "EARLY",
									status_result("early", row->status_text, NULL));
	return write_claim(notice, row->order_no, "SKIPPED",
					   status_result("skipped", row->status_text, reason),
					   NULL, answer) ? ANSWERED : LOOK_AGAIN;
}

/* Check, claim, message, UPDATE, action, in this order. */
static Progress
process_legal(const NClaimNotice *notice, NClaimEvent *event,
			  Datum key, const NClaimOrderRow *row, const Step *step,
			  NClaimAnswer *answer)
{
	NClaimMachine *machine = event->machine;
	NClaimMessage message;
	Progress	progress;

	if (!check_passes(notice, &event->check, row->order_no, answer, &progress))
		return progress;

	message.machine = machine->name;
	message.type = step->message_type;
	message.from = step->from_text;
	message.to = step->to_text;
	if (!write_claim(notice, row->order_no, "APPLIED",
					 applied_result(step->from_text, step->to_text), &message,
					 answer))
		return LOOK_AGAIN;
	if (step->changes)
		nclaim_order_update(&machine->table, key, step->from, step->to);
	act(notice, &event->action, row->order_no);
	return ANSWERED;
}

/*
 * Copies what is needed of the edge: the cache may go away under the
 * statements that follow.  The new status passes through the type's input
 * function now, so that a domain's present constraints apply.
 */
static void
take_step(const NClaimGraph *graph, const NClaimEdge *edge,
		  const NClaimOrderRow *row, NClaimColumn *column, Step *step)
{
	step->from = row->status;
	step->from_text = row->status_text;
	step->changes = edge->to != NCLAIM_NONE;
	step->to_text = step->changes ? pstrdup(graph->status_text[edge->to]) :
		row->status_text;
	step->to = step->changes ? nclaim_column_in(column, step->to_text) : (Datum) 0;
	step->message_type = edge->message_type == NULL ? NULL :
		pstrdup(edge->message_type);
}

/*
 * With the order's row locked: finds the event again, for a transition that
 * was looked up before the lock is a stale one, and acts on what it says.
 */
static Progress
process_locked(const NClaimNotice *notice, const NClaimOrderTable *locked,
			   Datum key, const NClaimOrderRow *row, NClaimAnswer *answer)
{
	NClaimEvent *event = nclaim_event_ready(notice->event_type);
	NClaimMachine *machine;
	NClaimVerdict verdict;
	const NClaimEdge *edge;
	Step		step;

	if (event == NULL || event->machine == NULL ||
		!nclaim_order_same(&event->machine->table, locked))
		return LOOK_AGAIN;
	machine = event->machine;
	nclaim_check_order_no(row->order_no);

	verdict = nclaim_graph_classify(machine->graph, event->event_type,
									row->status_isnull, row->status, &edge);
	if (verdict != NCLAIM_LEGAL)
		return process_illegal(notice, event, row, verdict, answer);
	take_step(machine->graph, edge, row, &machine->table.status, &step);
	return process_legal(notice, event, key, row, &step, answer);
}

/* At the deadline, with an order that exists and could not be locked. */
static Progress
give_up(const NClaimNotice *notice, NClaimOrderTable *table, Datum key,
		NClaimAnswer *answer)
{
	switch (nclaim_order_hold(table, key))
	{
		case NCLAIM_FREE:
			return LOOK_AGAIN;
		case NCLAIM_HIDDEN:
			return answer_without_claim(notice, answer, "NO_ORDER", NULL);
		case NCLAIM_HELD:
			break;
	}
	return answer_without_claim(notice, answer, "BUSY", NULL);
}

/* Steps 3 to 8 for an event with a machine. */
static Progress
process_order(const NClaimNotice *notice, NClaimOrderTable *table,
			  bool deadline_passed, NClaimAnswer *answer)
{
	NClaimOrderRow row;
	Datum		key = nclaim_column_in(&table->key, notice->order_no);

	if (nclaim_order_lock(table, key, &row))
		return process_locked(notice, table, key, &row, answer);
	if (!nclaim_order_exists(table, key))
		return answer_without_claim(notice, answer, "NO_ORDER", NULL);
	return deadline_passed ? give_up(notice, table, key, answer) : HELD;
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

/* Sleeps for about that long, not beyond the deadline, and not uninterruptibly. */
static void
wait_for_order(long sleep_us, instr_time start)
{
	long		left_us = Max(nclaim_time_left(start), 0);
	double		jitter = 0.75 + 0.5 * pg_prng_double(&pg_global_prng_state);

	sleep_us = Min((long) (sleep_us * jitter), left_us);
	if (sleep_us < 1000)
		pg_usleep(sleep_us);
	else
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 sleep_us / 1000, nclaim_wait_event());
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
 * texts and result live in the current memory context.  Needs an SPI
 * connection.
 */
void
nclaim_process(const NClaimNotice *notice, NClaimAnswer *answer)
{
	long		sleep_us = MIN_SLEEP_US;
	int			lost = 0;

	memset(answer, 0, sizeof(*answer));
	while (!nclaim_claim_answer(notice, answer))
	{
		NClaimEvent *event = nclaim_event_ready(notice->event_type);
		Progress	progress;

		if (event == NULL)
			progress = answer_no_rule(notice, answer);
		else if (event->machine == NULL)
			progress = process_event(notice, event, answer);
		else
			progress = process_order(notice, &event->machine->table,
									 nclaim_time_left(notice->start) <= 0, answer);

		if (progress == ANSWERED)
			return;
		if (progress == HELD)
		{
			wait_for_order(sleep_us, notice->start);
			sleep_us = Min(2 * sleep_us, MAX_SLEEP_US);
		}
		else if (++lost >= MAX_LOST_RACES)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not claim the notification: it or its declaration keeps changing"),
					 errhint("The transaction might succeed if retried.")));
	}
}
