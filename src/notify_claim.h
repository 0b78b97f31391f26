/*-------------------------------------------------------------------------
 *
 * notify_claim.h
 *		Types and prototypes of what answers a notification, grouped by the file
 *		that defines them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NOTIFY_CLAIM_H
#define NOTIFY_CLAIM_H

#include "fmgr.h"
#include "portability/instr_time.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "channel.h"
#include "machine.h"
#include "own.h"

/* in guc.c */

/* Values of notify_claim.dead_letter. */
typedef enum NClaimDeadLetter
{
	NCLAIM_DEAD_WAIT,
	NCLAIM_DEAD_FLOW,
} NClaimDeadLetter;

extern int	nclaim_busy_timeout;	/* milliseconds */
extern int	nclaim_max_attempts;
extern int	nclaim_retry_delay; /* milliseconds */
extern int	nclaim_retry_delay_max; /* milliseconds */
extern int	nclaim_dead_letter; /* NClaimDeadLetter */
extern int	nclaim_budget;		/* milliseconds */
extern double nclaim_replay_alarm_ratio;
extern int	nclaim_replay_alarm_count;
extern int	nclaim_max_stat_entries;

extern void nclaim_guc_init(void);

/* in pin.c */

extern void nclaim_pin(void);
extern void nclaim_retire(void (*release) (void *arg), void *arg);

/* in json.c */

struct NClaimJson;				/* in compat.h */

extern void nclaim_json_open(struct NClaimJson *json);
extern void nclaim_json_text(struct NClaimJson *json, const char *name,
							 const char *text);
extern void nclaim_json_number(struct NClaimJson *json, const char *name,
							   int64 number);
extern void nclaim_json_value(struct NClaimJson *json, const char *name,
							  Jsonb *jsonb);
extern Jsonb *nclaim_json_close(struct NClaimJson *json);

/* in throttle.c */

extern bool nclaim_log_due(const char *kind, const char *channel,
						   const char *name);

/* in claim.c */

/* A notification, as its arguments say. */
typedef struct NClaimNotice
{
	const char *channel;
	const NClaimChannel *settings;	/* of the channel */
	const char *event_type;
	const char *order_no;
	const char *biz_key;
	const char *body;			/* NULL: of a claim, and not kept */
	int			length;			/* bytes */
	Jsonb	   *data;			/* or NULL */
	const NClaimRule *rule;
	NClaimDigest digest;		/* of the body under the rule */
	int64		claim;			/* that is processed again; 0: a delivery */
	const char *claim_outcome;	/* of it */
	TimestampTz first_seen;		/* of it */
	instr_time	start;			/* of the call */
	bool		allowed;		/* by a person: nothing is checked or compared */
	bool		probed;			/* there was no claim just now */
	struct NClaimStatCall *call;	/* in the statistics; NULL: not counted */
} NClaimNotice;

/* What handle_notify answers. */
typedef struct NClaimAnswer
{
	bool		success;		/* status SUCCESS or FAIL */
	const char *outcome;
	Jsonb	   *result;			/* or NULL */
	bool		replayed;
	bool		seen;			/* is there a first_seen? */
	TimestampTz first_seen;
	int64		claim;			/* id of the claim answered from or made */
} NClaimAnswer;

/* A claim about to be inserted; id is filled in then. */
typedef struct NClaimClaim
{
	int64		id;
	const char *order_no;		/* in the table's own spelling */
	const char *state;			/* DONE or PARKED */
	const char *outcome;
	Jsonb	   *result;
	pg_uuid_t  *message_id;		/* NULL: no message */
	TimestampTz created_at;
} NClaimClaim;

extern Datum nclaim_notice_body(const NClaimNotice *notice);
extern void nclaim_claim_need_body(const NClaimNotice *notice);
extern void nclaim_claim_read_body(NClaimNotice *notice);
extern void nclaim_notice_digest(const NClaimNotice *notice, int64 id,
								 NClaimDigest *digest);
extern NClaimFound nclaim_claim_repeat(const NClaimNotice *notice,
									   NClaimAnswer *answer);
extern bool nclaim_claim_answer(const NClaimNotice *notice,
								NClaimAnswer *answer);
extern bool nclaim_claim_is_invisible(const NClaimNotice *notice);
extern bool nclaim_claim_insert(const NClaimNotice *notice,
								NClaimClaim *claim);
extern bool nclaim_claim_close(const NClaimNotice *notice,
							   const NClaimClaim *claim);
extern bool nclaim_claim_read(int64 id, NClaimNotice *notice, char **state);
extern bool nclaim_claim_same_order(const NClaimNotice *notice,
									const char *claimed);

/* in review.c */

/* A claim, and other content that came under its key. */
typedef struct NClaimConflict
{
	int64		claim;
	int64		rule;			/* 0: none */
	const char *order_no;		/* of the notice, as the claim spells it if it
								 * can */
	const char *payload_hash;
	const NClaimDigest *digest; /* of the notice, under the claim's rule */
} NClaimConflict;

/* The claim is gone. */
#define NCLAIM_NO_CLAIM		(-1)

extern int64 nclaim_review_conflict(const NClaimNotice *notice,
									const NClaimConflict *conflict);
extern bool nclaim_review_refused(const NClaimNotice *notice, int64 claim,
								  const NClaimDigest *digest);
extern bool nclaim_review_refuse(const NClaimNotice *notice,
								 const char *order_no, const char *reason);
extern void nclaim_review_expired(const NClaimNotice *notice);
extern void nclaim_review_overtaken(const NClaimNotice *notice);

/* in review_wait.c */

extern bool nclaim_review_lock(int64 review, instr_time start);

/* in outbox.c */

/* What a message tells, beside the notification itself. */
typedef struct NClaimMessage
{
	const char *machine;		/* NULL: an event without one */
	const char *type;
	const char *from;			/* or NULL */
	const char *to;				/* or NULL */
} NClaimMessage;

extern pg_uuid_t *nclaim_message_id(void);
extern void nclaim_outbox_insert(const NClaimNotice *notice,
								 const NClaimClaim *claim,
								 const NClaimMessage *message);
extern void nclaim_outbox_alarm(const NClaimNotice *notice, const char *kind,
								int64 review, const char *order_no,
								const char *first_hash,
								const char *payload_hash);

/* in arguments.c */

#define NCLAIM_MAX_KEY		160 /* characters */
#define NCLAIM_MAX_ORDER_NO 64	/* characters */
#define NCLAIM_MAX_NAME		64	/* characters, of a machine */

extern char *nclaim_text_arg(FunctionCallInfo fcinfo, int n, const char *name);
extern char *nclaim_optional_text_arg(FunctionCallInfo fcinfo, int n);
extern void nclaim_require_arg(FunctionCallInfo fcinfo, int n,
							   const char *name);
extern char *nclaim_body_arg(FunctionCallInfo fcinfo, int n, bool is_text,
							 int *length);
extern char *nclaim_interval_arg(FunctionCallInfo fcinfo, int n,
								 const char *name);
extern int	nclaim_characters(const char *text);
extern bool nclaim_is_blank(const char *text);
extern bool nclaim_is_longer(const char *text, int limit);
extern void nclaim_check_not_blank(const char *text, const char *name);
extern void nclaim_check_event_type(const char *event_type);
extern void nclaim_check_order_no(const char *order_no);

/* in apply.c */

/* How far a notice has come. */
typedef enum NClaimProgress
{
	NCLAIM_ANSWERED,			/* the answer is complete */
	NCLAIM_LOOK_AGAIN,			/* something moved: probe and find again */
	NCLAIM_IS_HELD,				/* another transaction holds the order */
} NClaimProgress;

extern void nclaim_answer_with(NClaimAnswer *answer, bool success,
							   const char *outcome, Jsonb *result);
extern bool nclaim_probe_again(const NClaimNotice *notice,
							   NClaimAnswer *answer);
extern NClaimProgress nclaim_answer_without_claim(const NClaimNotice *notice,
												  NClaimAnswer *answer,
												  const char *outcome,
												  Jsonb *result);
extern NClaimProgress nclaim_apply_event(const NClaimNotice *notice,
										 NClaimEvent *event,
										 NClaimAnswer *answer);
extern NClaimProgress nclaim_apply_locked(const NClaimNotice *notice,
										  const NClaimOrderTable *locked,
										  Datum key,
										  const NClaimOrderRow *row,
										  NClaimAnswer *answer);
extern bool nclaim_apply_skip(const NClaimNotice *notice, const char *status,
							  const char *reason, NClaimAnswer *answer);

/* in owner.c */

/* Who was it before? */
typedef struct NClaimOwner
{
	Oid			userid;
	int			sec_context;
	int			nestlevel;
} NClaimOwner;

extern void nclaim_owner_enter(const NClaimMachine *machine,
							   NClaimOwner *before);
extern void nclaim_owner_leave(const NClaimOwner *before);

/* in park.c */

extern void nclaim_park_enter(void);
extern void nclaim_park_note(Oid relid, const char *order_no, bool closes);
extern int64 nclaim_park_drain(instr_time start, bool *changed);
extern bool nclaim_park_active(void);

/* in trigger.c */

extern void nclaim_trigger_attach(Oid relid);
extern void nclaim_trigger_detach(Oid relid);
extern void nclaim_trigger_move(Oid from, Oid to);

/* in parked.c */

/* An order for which something is parked. */
typedef struct NClaimParkedOrder
{
	char	   *machine;
	char	   *order_no;
} NClaimParkedOrder;

/* What is known of a release of many. */
typedef struct NClaimUnparking
{
	MemoryContext context;		/* of what follows */
	List	   *passed_over;	/* names of machines */
} NClaimUnparking;

extern void nclaim_unpark_machine(const char *name);
extern List *nclaim_parked_orders(const char *name);
extern int64 nclaim_unpark_parked(FunctionCallInfo fcinfo,
								  NClaimUnparking *unparking,
								  const NClaimParkedOrder *order);

/* in handle.c */

extern void nclaim_handle_init(void);

/* in process.c */

extern int	nclaim_limit_waits(void);
extern long nclaim_time_left(instr_time start);
extern void nclaim_wait_for_order(long *sleep_us, instr_time start);
extern void nclaim_process(const NClaimNotice *notice, NClaimAnswer *answer);
extern void nclaim_process_as_owner(const NClaimNotice *notice,
									NClaimAnswer *answer);

/* in stat_count.c */

typedef struct NClaimStatCall NClaimStatCall;

extern void nclaim_stat_init(void);
extern NClaimStatCall *nclaim_stat_begin(void);
extern void nclaim_stat_channel(const NClaimNotice *notice);
extern void nclaim_stat_event(const NClaimNotice *notice);
extern void nclaim_stat_end(const NClaimNotice *notice,
							const NClaimAnswer *answer);

#endif							/* NOTIFY_CLAIM_H */
