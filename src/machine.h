/*-------------------------------------------------------------------------
 *
 * machine.h
 *		Types and prototypes of state machines, their events and order tables,
 *		grouped by the file that defines them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NCLAIM_MACHINE_H
#define NCLAIM_MACHINE_H

#include "executor/spi.h"
#include "fmgr.h"
#include "lib/ilist.h"

#include "own.h"

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

#endif							/* NCLAIM_MACHINE_H */
