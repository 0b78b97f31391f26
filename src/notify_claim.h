/*-------------------------------------------------------------------------
 *
 * notify_claim.h
 *		Types and prototypes, grouped by the file that defines them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NOTIFY_CLAIM_H
#define NOTIFY_CLAIM_H

#include "executor/spi.h"
#include "fmgr.h"
#include "lib/ilist.h"
#include "portability/instr_time.h"
#include "utils/jsonb.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "canonical.h"

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

/* in plan.c */

typedef struct NClaimPlan
{
	SPIPlanPtr	spi;			/* NULL: not prepared */
	uint64		serial;			/* of the preparation */
	int			generation;		/* of the generic plan that we had made */
} NClaimPlan;

extern void nclaim_plan_prepare(NClaimPlan *plan, const char *sql, int nargs,
								Oid *argtypes);
extern bool nclaim_plan_is_current(const NClaimPlan *plan);
extern bool nclaim_plan_is_same(const NClaimPlan *seen, const NClaimPlan *plan);
extern PlannedStmt *nclaim_plan_statement(const NClaimPlan *plan);
extern Node *nclaim_plan_without_relabel(Node *node);
extern SPIPlanPtr nclaim_plan_ready(NClaimPlan *plan);
extern void nclaim_plan_free(NClaimPlan *plan);
extern void nclaim_plan_retire(NClaimPlan *plan);

/* in statements.c */

typedef enum NClaimOwnStatement
{
	NCLAIM_FIND_CLAIM,
	NCLAIM_INSERT_CLAIM,
	NCLAIM_CLOSE_CLAIM,
	NCLAIM_FIND_PARKED,
	NCLAIM_FIND_PARKED_EVENTS,
	NCLAIM_FIND_PARKED_MACHINES,
	NCLAIM_FIND_PARKED_ORDERS,
	NCLAIM_FIND_REOPENED,
	NCLAIM_READ_CLAIM,
	NCLAIM_READ_BODY,
	NCLAIM_PUT_BODY,
	NCLAIM_DELETE_BODY,
	NCLAIM_NOTE_FAILURE,
	NCLAIM_INSERT_MESSAGE,
	NCLAIM_FIND_CHANNEL,
	NCLAIM_FIND_CHANNEL_CLAIM,
	NCLAIM_FIND_CHANNEL_REVIEW,
	NCLAIM_FIND_RULE,
	NCLAIM_FIND_EVENT,
	NCLAIM_FIND_EVENTS,
	NCLAIM_FIND_MACHINES,
	NCLAIM_FIND_MACHINE,
	NCLAIM_FIND_TRANSITIONS,
	NCLAIM_FIND_REVIEW,
	NCLAIM_FIND_HOLDER,
	NCLAIM_LOCK_REVIEW,
	NCLAIM_FIND_CONFLICT,
	NCLAIM_FIND_REFUSAL,
	NCLAIM_FIND_ALLOWED,
	NCLAIM_FIND_REFUSED,
	NCLAIM_INSERT_REVIEW,
	NCLAIM_COUNT_REVIEW,
	NCLAIM_INSERT_VARIANT,
	NCLAIM_COUNT_VARIANT,
	NCLAIM_OVERTAKE_CONFLICT,
	NCLAIM_FIND_OPEN_REFUSAL,
	NCLAIM_OVERTAKE_REFUSAL,
	NCLAIM_IMPORT_CLAIMS,
	NCLAIM_COUNT_KNOWN,

	/* in relay_statements.c */
	NCLAIM_FIND_WORK,
	NCLAIM_LOCK_PARTITION,
	NCLAIM_MOVE_MARK,
	NCLAIM_FIND_LEASES,
	NCLAIM_FIND_TOKENS,
	NCLAIM_LOCK_ENDING,
	NCLAIM_TAKE_SLOT,
	NCLAIM_DELETE_SLOT,
	NCLAIM_SET_FIRST_SLOT,
	NCLAIM_ADD_SLOT,
	NCLAIM_LOCK_LEASE,
	NCLAIM_SET_LEASE,
	NCLAIM_SET_HELD,
	NCLAIM_EMPTY_SLOT,
	NCLAIM_FIND_MESSAGES,
	NCLAIM_FIND_DUE,
	NCLAIM_FIND_HELD_MESSAGES,
	NCLAIM_FIND_BLOCKING,
	NCLAIM_SET_DUE,
	NCLAIM_DELETE_HELD,
	NCLAIM_HOLD_ORDERS,
	NCLAIM_WAKE_HELD,
	NCLAIM_SHORTEN_HELD,
	NCLAIM_FIND_ORDERS,
	NCLAIM_DELETE_MESSAGES,
	NCLAIM_DELETE_RANGE,
	NCLAIM_DELETE_ATTEMPTS,
	NCLAIM_COUNT_ATTEMPTS,
	NCLAIM_BURY_MESSAGES,
	NCLAIM_LOCK_DEAD,
	NCLAIM_REDRIVE_MESSAGE,
	NCLAIM_LOCK_OLD_DEAD,
	NCLAIM_PURGE_DEAD,
	NCLAIM_FIND_OLD_MESSAGES,

	/* in purge_statements.c */
	NCLAIM_ADD_PURGE_MARKS,
	NCLAIM_FIND_RETENTIONS,
	NCLAIM_READ_PURGE_MARKS,
	NCLAIM_MOVE_PURGE_MARKS,
	NCLAIM_FIND_CLAIMS,
	NCLAIM_FIND_KEPT,
	NCLAIM_LOOK_AT_CLAIMS,
	NCLAIM_LOCK_CLAIMS,
	NCLAIM_DELETE_CLAIMS,
	NCLAIM_DELETE_BODIES,
	NCLAIM_DELETE_VARIANTS,
	NCLAIM_DELETE_DECISIONS,
	NCLAIM_DELETE_REVIEWS,
	NCLAIM_KEEP_CLAIMS,
	NCLAIM_FORGET_KEPT,
	NCLAIM_FIND_OLD_REVIEWS,
} NClaimOwnStatement;

#define NCLAIM_FIRST_RELAY_STATEMENT	NCLAIM_FIND_WORK
#define NCLAIM_FIRST_PURGE_STATEMENT	NCLAIM_ADD_PURGE_MARKS
#define NCLAIM_OWN_STATEMENTS	(NCLAIM_FIND_OLD_REVIEWS + 1)

#define NCLAIM_MAX_OWN_ARGS		13

typedef struct NClaimOwnSql
{
	const char *sql;			/* "@" stands for the extension's schema */
	int			nargs;
	Oid			argtypes[NCLAIM_MAX_OWN_ARGS];
} NClaimOwnSql;

extern const NClaimOwnSql nclaim_own_statements[];

/* Scalar subqueries with LIMIT are never hashed, as EXISTS might be. */
#define NCLAIM_THERE_IS(query) "(SELECT 1 FROM " query " LIMIT 1) IS NOT NULL"

/* in relay_statements.c */

extern const NClaimOwnSql nclaim_relay_statements[];

/* in purge_statements.c */

extern const NClaimOwnSql nclaim_purge_statements[];

/* in extension.c */

extern void nclaim_extension_init(void);
extern void nclaim_begin(FunctionCallInfo fcinfo);
extern void nclaim_begin_procedure(FunctionCallInfo fcinfo, const char *name);
extern void nclaim_commit(FunctionCallInfo fcinfo);
extern void nclaim_end_procedure(void);
extern bool nclaim_extension_is_known(Oid nspoid);
extern Oid	nclaim_extension_namespace(void);
extern Oid	nclaim_extension_claim_table(void);
extern Oid	nclaim_extension_channel_table(void);
extern Oid	nclaim_extension_moved_function(void);
extern void nclaim_own_enter(Oid *userid, int *sec_context);
extern char *nclaim_own_sql(const char *sql);
extern const NClaimPlan *nclaim_own_plan(NClaimOwnStatement statement);
extern void nclaim_own_make_plan(NClaimOwnStatement statement);
extern uint64 nclaim_own_execute(NClaimOwnStatement statement, Datum *values,
								 const char *nulls, Snapshot snapshot);
extern uint64 nclaim_own_run(const char *sql, int nargs,
							 const char *const *texts);
extern void nclaim_raise_not_serializable(const char *detail);
extern char *nclaim_own_text(SPITupleTable *rows, uint64 row, int column);
extern Datum nclaim_own_value(SPITupleTable *rows, uint64 row, int column);

/* Condition that a column equals a parameter, null being a value too. */
#define NCLAIM_SAME(column, param) \
	"(" column " OPERATOR(pg_catalog.=) " param \
	" OR (" column " IS NULL AND " param " IS NULL))"

/* in find.c */

#define NCLAIM_MAX_COLUMNS	8

/* The first row of a statement. */
typedef struct NClaimRow
{
	Datum		values[NCLAIM_MAX_COLUMNS];
	bool		nulls[NCLAIM_MAX_COLUMNS];
} NClaimRow;

typedef enum NClaimFound
{
	NCLAIM_FOUND_UNKNOWN,		/* the executor has to look for it */
	NCLAIM_FOUND_NONE,
	NCLAIM_FOUND_ROW,
} NClaimFound;

extern NClaimFound nclaim_find_directly(NClaimOwnStatement statement, Datum *values,
										Snapshot snapshot, NClaimRow *row);
extern bool nclaim_find(NClaimOwnStatement statement, Datum *values,
						Snapshot snapshot, NClaimRow *row);

/* in insert.c */

extern bool nclaim_insert(NClaimOwnStatement statement, Datum *values,
						  const char *nulls, bool contested, int64 *returned);

/* in digest.c */

#define NCLAIM_DIGEST_LEN	64

extern void nclaim_digest(const void *bytes, size_t length, char *digest);

/* in rule.c */

/* What makes a body's digest. */
typedef struct NClaimRule
{
	int64		id;				/* in notify_digest_rule; 0: raw needs none */
	NClaimMode	mode;
	NClaimIgnore *ignore;
} NClaimRule;

/* A body's digest, and the mode that made it. */
typedef struct NClaimDigest
{
	bool		unknown;		/* of a claim that was imported */
	NClaimMode	mode;
	char		hex[NCLAIM_DIGEST_LEN + 1];
} NClaimDigest;

extern const char *nclaim_mode_name(NClaimMode mode);
extern bool nclaim_mode_find(const char *name, NClaimMode *mode);
extern NClaimIgnore *nclaim_rule_ignore(NClaimMode mode, char **entries, int n);
extern void nclaim_rule_read(int64 id, NClaimRule *rule);
extern void nclaim_rule_digest(const NClaimRule *rule, const char *bytes,
							   size_t length, NClaimDigest *digest,
							   StringInfo canonical);
extern void nclaim_digest_read(const char *mode, const char *hex,
							   NClaimDigest *digest);
extern bool nclaim_digest_same(const NClaimDigest *a, const NClaimDigest *b);

/* digest_mode and payload_hash of a claim whose content is not known. */
#define NCLAIM_UNKNOWN_MODE "none"
#define NCLAIM_UNKNOWN_DIGEST \
	"0000000000000000000000000000000000000000000000000000000000000000"

/* in channel.c */

/* A channel as declared. */
typedef struct NClaimChannel
{
	MemoryContext context;		/* holds all of it */
	NClaimRule	rule;
	int			ok_status;
	char	   *ok_body;
	int			fail_status;
	char	   *fail_body;
	int			max_body;		/* bytes; 0: no limit */
	bool		keep_body;
	bool		ack_conflict;
	bool		ack_no_rule;
	bool		valid;			/* nothing has come in since it was read */
} NClaimChannel;

#define NCLAIM_MAX_CHANNEL	64	/* characters */
#define NCLAIM_DEFAULT_CHANNEL	"default"

extern void nclaim_channel_invalidate(void);
extern const NClaimChannel *nclaim_channel_cached(const char *name);
extern const NClaimChannel *nclaim_channel_find(const char *name);
extern const NClaimChannel *nclaim_channel_known(const char *name);
extern void nclaim_channel_lock(bool exclusive);
extern void nclaim_channel_unlock(void);
extern void nclaim_channel_hold(const char *name);
extern void nclaim_channel_check_body(const NClaimChannel *channel,
									  const char *name, int length);

/* in preset.c */

/* A channel's settings, as texts for SQL; NULL for null. */
typedef enum NClaimSetting
{
	NCLAIM_OK_STATUS,
	NCLAIM_OK_BODY,
	NCLAIM_FAIL_STATUS,
	NCLAIM_FAIL_BODY,
	NCLAIM_MAX_BODY,
	NCLAIM_KEEP_BODY,
	NCLAIM_RETAIN,
	NCLAIM_ON_CONFLICT,
	NCLAIM_ON_NO_RULE,
} NClaimSetting;

#define NCLAIM_SETTINGS		(NCLAIM_ON_NO_RULE + 1)

typedef struct NClaimPreset
{
	const char *name;
	NClaimMode	mode;
	const char *const *ignore;	/* sorted bytewise, ends with NULL */
	const char *settings[NCLAIM_SETTINGS];
} NClaimPreset;

extern const NClaimPreset *nclaim_preset_find(const char *name);

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

/* in column.c */

/* A key or status column: how its values are read, written and compared. */
typedef struct NClaimColumn
{
	AttrNumber	attnum;
	Oid			type;
	int32		typmod;
	bool		byval;
	int16		len;
	bool		plain;			/* its functions run no code of users' */
	bool		padded;			/* char(n): trailing blanks mean nothing */
	bool		styled;			/* its text depends on settings */
	bool		lossy;			/* the column's limit may change a value */
	Oid			ioparam;
	FmgrInfo	in;
	Oid			base_ioparam;
	FmgrInfo	base_in;		/* of the type itself, without the limit */
	FmgrInfo	out;
	Oid			eq_operator;
	FmgrInfo	eq;
	Oid			collation;		/* under which the values are compared */
	Oid			column_collation;	/* the column's own */
	char	   *name;			/* quoted */
} NClaimColumn;

extern void nclaim_column_describe(NClaimColumn *column, Form_pg_attribute att);
extern bool nclaim_column_set_operator(NClaimColumn *column, Oid eq_operator,
									   Oid collation);
extern bool nclaim_column_default_operator(NClaimColumn *column);
extern Datum nclaim_column_in(NClaimColumn *column, const char *text);
extern bool nclaim_column_reads(NClaimColumn *column, const char *text,
								Datum *value);
extern char *nclaim_column_out(NClaimColumn *column, Datum value);
extern bool nclaim_column_equal(NClaimColumn *column, Datum a, Datum b);
extern char *nclaim_column_equals_param(const NClaimColumn *column, int param);

/* in order.c */

/* Why a table cannot be used as an order table; sqlerrcode 0: it can. */
typedef struct NClaimProblem
{
	int			sqlerrcode;
	char	   *message;
	char	   *hint;			/* or NULL */
} NClaimProblem;

typedef struct NClaimOrderPlans
{
	NClaimPlan	read;
	NClaimPlan	lock;
	NClaimPlan	update;
} NClaimOrderPlans;

/*
 * An order table with its key and status columns.  Where there is a problem,
 * only what has to do with the key is filled in, and that if key_known says so.
 */
typedef struct NClaimOrderTable
{
	Oid			relid;
	Oid			nspoid;
	bool		key_known;
	char	   *name;			/* qualified and quoted */
	NClaimColumn key;
	NClaimColumn status;
	bool		key_is_unique;	/* a unique index covers exactly the key */
	bool		status_is_key;	/* some unique index has the status column */
	bool		releases;		/* the trigger that releases what is parked is
								 * on */
	List	   *relids;			/* the table, and those above and below it */
	NClaimOrderPlans plans[2];	/* second: where forced row security does not
								 * hold */
} NClaimOrderTable;

/* The row of an order, as it was read. */
typedef struct NClaimOrderRow
{
	char	   *order_no;		/* in the table's own spelling */
	Datum		status;
	bool		status_isnull;
	char	   *status_text;	/* NULL where the status is */
} NClaimOrderRow;

extern void nclaim_order_describe(NClaimOrderTable *table, Oid relid,
								  const char *order_column,
								  const char *status_column,
								  NClaimProblem *problem);
extern bool nclaim_order_same(const NClaimOrderTable *a,
							  const NClaimOrderTable *b);

/* in order_row.c */

extern void nclaim_order_free(NClaimOrderTable *table);
extern bool nclaim_order_read(NClaimOrderTable *table, Datum key,
							  NClaimOrderRow *row);
extern bool nclaim_order_exists(NClaimOrderTable *table, Datum key);
extern bool nclaim_order_lock(NClaimOrderTable *table, Datum key,
							  NClaimOrderRow *row);
extern void nclaim_order_update(NClaimOrderTable *table, Datum key,
								Datum from, Datum to);
extern SPITupleTable *nclaim_order_statuses(NClaimOrderTable *table,
											int sample);

/* in heldrow.c */

typedef enum NClaimHold
{
	NCLAIM_HELD,				/* by another transaction, or cannot be told */
	NCLAIM_HIDDEN,				/* by a policy */
	NCLAIM_FREE,				/* it is locked now */
} NClaimHold;

extern NClaimHold nclaim_order_hold(NClaimOrderTable *table, Datum key);

/* in graph.c */

#define NCLAIM_ANY		(-1)	/* an edge from any status */
#define NCLAIM_NONE		(-2)	/* an edge that changes nothing */

typedef struct NClaimEdge
{
	char	   *event_type;		/* NULL: a step that others make */
	int			from;			/* status, or NCLAIM_ANY */
	int			to;				/* status, or NCLAIM_NONE */
	char	   *message_type;	/* NULL: no message */
} NClaimEdge;

typedef struct NClaimGraph
{
	NClaimColumn *column;		/* of the statuses */
	int			nstatuses;
	Datum	   *status;
	char	  **status_text;
	int			nedges;
	NClaimEdge *edge;
	bool	   *reach;			/* nstatuses squared: in one step or more */
} NClaimGraph;

typedef enum NClaimVerdict
{
	NCLAIM_LEGAL,
	NCLAIM_ALREADY,
	NCLAIM_EARLY,
	NCLAIM_STALE,
} NClaimVerdict;

extern NClaimGraph *nclaim_graph_make(NClaimColumn *column, int nedges);
extern void nclaim_graph_edge(NClaimGraph *graph, const char *event_type,
							  const char *from_status, const char *to_status,
							  const char *message_type);
extern void nclaim_graph_close(NClaimGraph *graph);
extern int	nclaim_graph_find(const NClaimGraph *graph, Datum status);
extern bool nclaim_graph_leads(const NClaimGraph *graph, int edge, int status);
extern NClaimVerdict nclaim_graph_classify(const NClaimGraph *graph,
										   const char *event_type,
										   bool isnull, Datum status,
										   const NClaimEdge **edge);

/* in hook.c */

/* A check or action function of an event. */
typedef struct NClaimHook
{
	char	   *function;		/* qualified and quoted; NULL: none */
	NClaimPlan	plan;
} NClaimHook;

struct NClaimNotice;

extern char *nclaim_hook_name(const char *name, Oid result_type);
extern char *nclaim_hook_check(NClaimHook *hook,
							   const struct NClaimNotice *notice,
							   const char *order_no);
extern void nclaim_hook_action(NClaimHook *hook,
							   const struct NClaimNotice *notice,
							   const char *order_no);

/* in definition.c */

typedef struct NClaimMachine
{
	char	   *name;
	char	   *table_name;		/* qualified, as declared */
	char	   *order_column;
	char	   *status_column;
	Oid			relid;			/* the table meant, or InvalidOid */
	Oid			named;			/* table of that name, or InvalidOid */
	bool		by_name;		/* the table declared is gone */
	NClaimProblem problem;		/* why the order table cannot be used */
	NClaimOrderTable table;
	NClaimGraph *graph;			/* NULL until the machine is ready */
} NClaimMachine;

/* What becomes of an event that is not legal yet. */
typedef enum NClaimOnEarly
{
	NCLAIM_PARK,
	NCLAIM_RETRY,
	NCLAIM_SKIP,
} NClaimOnEarly;

typedef struct NClaimEvent
{
	char	   *event_type;
	NClaimMachine *machine;		/* NULL: none */
	char	   *message_type;	/* of an event without a machine, or NULL */
	NClaimOnEarly on_early;
	Interval	park_for;
	NClaimHook	check;
	NClaimHook	action;
} NClaimEvent;

/* A transition as it is stored; NULL for null. */
typedef struct NClaimStep
{
	char	   *event_type;
	char	   *from_status;
	char	   *to_status;
	char	   *message_type;
} NClaimStep;

/*
 * What is decided by together: a machine with its events and transitions, or an
 * event without a machine.
 */
typedef struct NClaimDefinition
{
	MemoryContext context;		/* holds all of it */
	NClaimMachine *machine;		/* NULL: none; without table_name: missing */
	List	   *events;			/* of NClaimEvent */
	List	   *steps;			/* of NClaimStep */
	uint32		type_hash[2];	/* of the key's and the status's type */

	/* for machine.c */
	dlist_node	node;
	bool		valid;			/* nothing has come in since it was read */
	uint64		checked;		/* when the table's name was looked up */
} NClaimDefinition;

extern NClaimDefinition *nclaim_definition_read(const char *event_type,
												const char *machine);
extern void nclaim_definition_make_graph(NClaimDefinition *definition);
extern void nclaim_definition_free(NClaimDefinition *definition);

/* in machine.c */

extern void nclaim_machine_init(void);
extern void nclaim_machine_invalidate(void);
extern NClaimEvent *nclaim_event_find(const char *event_type);
extern NClaimMachine *nclaim_machine_find(const char *name);
extern NClaimEvent *nclaim_event_ready(const char *event_type);
extern NClaimMachine *nclaim_machine_ready(const char *name);
extern List *nclaim_machines_of(Oid relid);

/* in resolve.c */

extern char *nclaim_relation_name(Oid relid);
extern Oid	nclaim_table_by_name(const char *name);
extern void nclaim_resolve_table(NClaimMachine *machine, Oid declared);
extern void nclaim_problem_raise(const NClaimProblem *problem);

/* in declare.c */

extern void nclaim_require_table_owner(Oid relid);
extern NClaimMachine *nclaim_owned_machine(const char *name);
extern void nclaim_lock_machine(const char *name);
extern void nclaim_require_machine_owner(const NClaimMachine *machine);
extern void nclaim_check_nothing_is_left(const char *machine,
										 const char *event_type);
extern void nclaim_check_nothing_is_parked(const NClaimMachine *machine,
										   const char *event_type);

/* in declare_event.c */

/* An event about to be declared; NULL for null, or for a default. */
typedef struct NClaimEventSettings
{
	const char *event_type;
	const char *message_type;
	const char *machine;
	const char *on_early;
	const char *check_function;
	const char *action_function;
	const char *park_for;
} NClaimEventSettings;

extern bool nclaim_event_insert(const NClaimEventSettings *event);

/* in check.c */

extern void nclaim_machine_notice(const char *name);

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
	bool		contested;		/* no order is locked for it */
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
