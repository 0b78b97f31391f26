/*-------------------------------------------------------------------------
 *
 * apply.c
 *		What a notice does: to an order whose row is locked, or without one.
 *
 * The same for a first delivery, which makes a claim, and for a claim that is
 * there already and is processed again: one that was parked and is released, or
 * one that a person has reopened or allowed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/uuid.h"

#include "compat.h"
#include "notify_claim.h"

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

/* Fills in an answer. */
void
nclaim_answer_with(NClaimAnswer *answer, bool success, const char *outcome,
				   Jsonb *result)
{
	answer->success = success;
	answer->outcome = outcome;
	answer->result = result;
}

/*
 * Probes once more, as a new command: the first delivery may have committed
 * since the last time.  True where that answers the notice.  Where it is
 * invisible to the transaction's snapshot this raises 40001.  What is processed
 * again has its claim and is not answered from it.
 */
bool
nclaim_probe_again(const NClaimNotice *notice, NClaimAnswer *answer)
{
	if (notice->claim != 0)
		return false;
	if (nclaim_claim_answer(notice, answer))
		return true;
	if (nclaim_claim_is_invisible(notice))
		nclaim_raise_not_serializable("The notification was claimed after the transaction's snapshot was taken.");
	return false;
}

/* An answer that leaves no claim. */
NClaimProgress
nclaim_answer_without_claim(const NClaimNotice *notice, NClaimAnswer *answer,
							const char *outcome, Jsonb *result)
{
	if (!nclaim_probe_again(notice, answer))
		nclaim_answer_with(answer, false, outcome, result);
	return NCLAIM_ANSWERED;
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
 * Inserts the claim, or closes the one that is processed again, and writes its
 * message where it has one.  Returns false where the race for it was lost.
 */
static bool
put_claim(const NClaimNotice *notice, const char *order_no, const char *state,
		  const char *outcome, Jsonb *result, const NClaimMessage *message,
		  NClaimAnswer *answer)
{
	NClaimClaim claim = {
		.id = notice->claim,
		.order_no = order_no,
		.state = state,
		.outcome = outcome,
		.result = result,
		.created_at = GetCurrentTimestamp(),
	};

	if (message != NULL && message->type != NULL)
		claim.message_id = nclaim_message_id();
	if (notice->claim != 0 ? !nclaim_claim_close(notice, &claim) :
		!nclaim_claim_insert(notice, &claim))
		return false;
	if (notice->claim == 0 && !notice->allowed)
		nclaim_review_overtaken(notice);
	if (claim.message_id != NULL)
		nclaim_outbox_insert(notice, &claim, message);

	nclaim_answer_with(answer, true, outcome, result);
	answer->seen = true;
	answer->first_seen = notice->claim != 0 ? notice->first_seen : claim.created_at;
	answer->claim = claim.id;
	return true;
}

static bool
write_claim(const NClaimNotice *notice, const char *order_no,
			const char *outcome, Jsonb *result, const NClaimMessage *message,
			NClaimAnswer *answer)
{
	return put_claim(notice, order_no, "DONE", outcome, result, message, answer);
}

/*
 * The event's check function refused the notice: that goes to a person.  A claim
 * that is there already is answered SUCCESS, as every stored claim is.
 */
static NClaimProgress
refuse(const NClaimNotice *notice, const char *order_no, const char *reason,
	   NClaimAnswer *answer)
{
	NClaimJson	json = {0};
	Jsonb	   *result;

	nclaim_json_open(&json);
	nclaim_json_text(&json, "rejected", reason);
	result = nclaim_json_close(&json);
	if (notice->claim != 0 &&
		!write_claim(notice, order_no, "REJECTED", result, NULL, answer))
		return NCLAIM_LOOK_AGAIN;
	if (!nclaim_review_refuse(notice, order_no, reason))
		return NCLAIM_LOOK_AGAIN;
	if (notice->claim == 0)
		nclaim_answer_with(answer, false, "REJECTED", result);
	return NCLAIM_ANSWERED;
}

/*
 * Asks the event's check function, if it has one and no person has allowed the
 * notice.  Returns false where it refused, or the notice is answered already:
 * *progress then says how to go on.
 */
static bool
check_passes(const NClaimNotice *notice, NClaimHook *check, const char *order_no,
			 NClaimAnswer *answer, NClaimProgress *progress)
{
	char	   *reason;

	if (check->function == NULL || notice->allowed)
		return true;
	*progress = NCLAIM_ANSWERED;
	if (nclaim_probe_again(notice, answer))
		return false;
	reason = nclaim_hook_check(check, notice, order_no);
	if (reason == NULL)
		return true;
	if (!nclaim_probe_again(notice, answer))
		*progress = refuse(notice, order_no, reason, answer);
	return false;
}

/* Runs the event's action function, if it has one. */
static void
act(const NClaimNotice *notice, NClaimHook *action, const char *order_no)
{
	if (action->function != NULL)
		nclaim_hook_action(action, notice, order_no);
}

/* An event without a machine: recognise repeats, and publish. */
NClaimProgress
nclaim_apply_event(const NClaimNotice *notice, NClaimEvent *event,
				   NClaimAnswer *answer)
{
	NClaimMessage message = {NULL, event->message_type, NULL, NULL};
	NClaimProgress progress;

	if (!check_passes(notice, &event->check, notice->order_no, answer, &progress))
		return progress;
	if (!write_claim(notice, notice->order_no, "APPLIED",
					 applied_result(NULL, NULL), &message, answer))
		return NCLAIM_LOOK_AGAIN;
	act(notice, &event->action, notice->order_no);
	return NCLAIM_ANSWERED;
}

/*
 * Acknowledges an event that has no effect.  Returns false where the race for
 * the claim was lost.
 */
bool
nclaim_apply_skip(const NClaimNotice *notice, const char *status,
				  const char *reason, NClaimAnswer *answer)
{
	return write_claim(notice, notice->order_no, "SKIPPED",
					   status_result("skipped", status, reason), NULL, answer);
}

/* An event that is not legal yet. */
static NClaimProgress
apply_early(const NClaimNotice *notice, const NClaimEvent *event,
			const NClaimOrderRow *row, NClaimAnswer *answer)
{
	bool		parks = event->on_early == NCLAIM_PARK && !event->machine->by_name &&
		event->machine->table.releases;

	if (notice->claim != 0 && strcmp(notice->claim_outcome, "PARKED") == 0)
	{
		nclaim_answer_with(answer, true, "PARKED", NULL);
		return NCLAIM_ANSWERED;
	}
	if (parks)
		return put_claim(notice, row->order_no, "PARKED", "PARKED",
						 status_result("parked", row->status_text, NULL), NULL,
						 answer) ? NCLAIM_ANSWERED : NCLAIM_LOOK_AGAIN;
	if (event->on_early == NCLAIM_SKIP)
		return write_claim(notice, row->order_no, "SKIPPED",
						   status_result("skipped", row->status_text, "early"),
						   NULL, answer) ? NCLAIM_ANSWERED : NCLAIM_LOOK_AGAIN;
	return nclaim_answer_without_claim(notice, answer, "EARLY",
									   status_result("early", row->status_text, NULL));
}

/* An event that is not legal at the order's status. */
static NClaimProgress
apply_illegal(const NClaimNotice *notice, const NClaimEvent *event,
			  const NClaimOrderRow *row, NClaimVerdict verdict,
			  NClaimAnswer *answer)
{
	const char *reason = verdict == NCLAIM_ALREADY ? "already" : "stale";

	if (verdict == NCLAIM_EARLY)
		return apply_early(notice, event, row, answer);
	return write_claim(notice, row->order_no, "SKIPPED",
					   status_result("skipped", row->status_text, reason),
					   NULL, answer) ? NCLAIM_ANSWERED : NCLAIM_LOOK_AGAIN;
}

/* Check, claim, message, UPDATE, action, in this order. */
static NClaimProgress
apply_legal(const NClaimNotice *notice, NClaimEvent *event,
			Datum key, const NClaimOrderRow *row, const Step *step,
			NClaimAnswer *answer)
{
	NClaimMachine *machine = event->machine;
	NClaimMessage message;
	NClaimProgress progress;

	if (!check_passes(notice, &event->check, row->order_no, answer, &progress))
		return progress;

	message.machine = machine->name;
	message.type = step->message_type;
	message.from = step->from_text;
	message.to = step->to_text;
	if (!write_claim(notice, row->order_no, "APPLIED",
					 applied_result(step->from_text, step->to_text), &message,
					 answer))
		return NCLAIM_LOOK_AGAIN;
	if (step->changes)
		nclaim_order_update(&machine->table, key, step->from, step->to);
	act(notice, &event->action, row->order_no);
	return NCLAIM_ANSWERED;
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
NClaimProgress
nclaim_apply_locked(const NClaimNotice *notice, const NClaimOrderTable *locked,
					Datum key, const NClaimOrderRow *row, NClaimAnswer *answer)
{
	NClaimEvent *event = nclaim_event_ready(notice->event_type);
	NClaimMachine *machine;
	NClaimVerdict verdict;
	const NClaimEdge *edge;
	Step		step;

	if (event == NULL || event->machine == NULL ||
		!nclaim_order_same(&event->machine->table, locked))
		return NCLAIM_LOOK_AGAIN;
	machine = event->machine;
	nclaim_check_order_no(row->order_no);

	verdict = nclaim_graph_classify(machine->graph, event->event_type,
									row->status_isnull, row->status, &edge);
	if (verdict != NCLAIM_LEGAL)
		return apply_illegal(notice, event, row, verdict, answer);
	take_step(machine->graph, edge, row, &machine->table.status, &step);
	return apply_legal(notice, event, key, row, &step, answer);
}
