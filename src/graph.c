/*-------------------------------------------------------------------------
 *
 * graph.c
 *		The graph of a state machine, and what a status means for an event.
 *
 * Statuses are compared as the status column compares them.  A graph lives in
 * the memory context that it was made in and does not change after
 * nclaim_graph_close().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"

#include "notify_claim.h"

/* Makes an empty graph over the column's values, for so many edges. */
NClaimGraph *
nclaim_graph_make(NClaimColumn *column, int nedges)
{
	NClaimGraph *graph = palloc0(sizeof(NClaimGraph));

	graph->column = column;
	graph->edge = palloc0(sizeof(NClaimEdge) * Max(nedges, 1));
	graph->status = palloc(sizeof(Datum) * Max(2 * nedges, 1));
	graph->status_text = palloc(sizeof(char *) * Max(2 * nedges, 1));
	return graph;
}

/*
 * Returns the number of the graph's status that equals a value of the column,
 * or -1.
 */
int
nclaim_graph_find(const NClaimGraph *graph, Datum status)
{
	for (int i = 0; i < graph->nstatuses; i++)
	{
		if (nclaim_column_equal(graph->column, graph->status[i], status))
			return i;
	}
	return -1;
}

/* The number of a status given as text; it is added if it is new. */
static int
add_status(NClaimGraph *graph, const char *text)
{
	Datum		value = nclaim_column_in(graph->column, text);
	int			i = nclaim_graph_find(graph, value);

	if (i < 0)
	{
		i = graph->nstatuses++;
		graph->status[i] = value;
		graph->status_text[i] = nclaim_column_out(graph->column, value);
	}
	return i;
}

static bool
same_event(const char *a, const char *b)
{
	return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* Has the event two edges from what the column says is one status? */
static void
check_contradiction(const NClaimGraph *graph, const NClaimEdge *edge)
{
	for (int i = 0; i < graph->nedges; i++)
	{
		if (graph->edge[i].from == edge->from &&
			same_event(graph->edge[i].event_type, edge->event_type))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("event type \"%s\" has two transitions from the same status",
							edge->event_type),
					 edge->from == NCLAIM_ANY ? 0 :
					 errdetail("The status column takes both spellings of status \"%s\" for one.",
							   graph->status_text[edge->from])));
	}
}

/*
 * Adds an edge; the arguments are copied.  Raises what the status type's input
 * function raises for a status that it does not know, and 42710 for one that
 * contradicts another.
 */
void
nclaim_graph_edge(NClaimGraph *graph, const char *event_type,
				  const char *from_status, const char *to_status,
				  const char *message_type)
{
	NClaimEdge *edge = &graph->edge[graph->nedges];

	edge->event_type = event_type == NULL ? NULL : pstrdup(event_type);
	edge->from = from_status == NULL ? NCLAIM_ANY : add_status(graph, from_status);
	edge->to = to_status == NULL ? NCLAIM_NONE : add_status(graph, to_status);
	edge->message_type = message_type == NULL ? NULL : pstrdup(message_type);
	check_contradiction(graph, edge);
	graph->nedges++;
}

/* Does the event have an edge of its own from the status? */
static bool
has_own_edge(const NClaimGraph *graph, const char *event_type, int status)
{
	for (int i = 0; i < graph->nedges; i++)
	{
		if (graph->edge[i].from == status && status >= 0 &&
			same_event(graph->edge[i].event_type, event_type))
			return true;
	}
	return false;
}

/*
 * Can the edge be taken from the status (-1: one that the graph does not
 * know)?  An edge from any status can where its event has no edge of its own
 * and the status is not its target.
 */
bool
nclaim_graph_leads(const NClaimGraph *graph, int edge, int status)
{
	const NClaimEdge *e = &graph->edge[edge];

	if (e->from != NCLAIM_ANY)
		return e->from == status;
	return (status < 0 || e->to != status) &&
		!has_own_edge(graph, e->event_type, status);
}

/* Completes the graph: which status can be reached from which? */
void
nclaim_graph_close(NClaimGraph *graph)
{
	int			n = graph->nstatuses;
	bool	   *reach = palloc0(sizeof(bool) * Max(n * n, 1));

	for (int i = 0; i < graph->nedges; i++)
	{
		if (graph->edge[i].to == NCLAIM_NONE)
			continue;
		for (int s = 0; s < n; s++)
		{
			if (nclaim_graph_leads(graph, i, s))
				reach[s * n + graph->edge[i].to] = true;
		}
	}

	for (int via = 0; via < n; via++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int from = 0; from < n; from++)
		{
			if (!reach[from * n + via])
				continue;
			for (int to = 0; to < n; to++)
				reach[from * n + to] |= reach[via * n + to];
		}
	}
	graph->reach = reach;
}

/* The event's edge from the status, or NULL: its own before the else-edge. */
static const NClaimEdge *
legal_edge(const NClaimGraph *graph, const char *event_type, int status)
{
	for (int i = 0; i < graph->nedges; i++)
	{
		if (same_event(graph->edge[i].event_type, event_type) &&
			nclaim_graph_leads(graph, i, status))
			return &graph->edge[i];
	}
	return NULL;
}

/*
 * Classifies an event at a status, by the rules of the design's section 5:
 * legal, with the edge in *edge; or else already in the target, early, or
 * stale.
 */
NClaimVerdict
nclaim_graph_classify(const NClaimGraph *graph, const char *event_type,
					  bool isnull, Datum status, const NClaimEdge **edge)
{
	int			n = graph->nstatuses;
	int			s;
	bool		in_target = false;
	bool		source_ahead = false;	/* some from-status is reachable */
	bool		change_ahead = false;	/* ... whose edge changes the status */

	*edge = NULL;
	if (isnull)
		return NCLAIM_EARLY;

	s = nclaim_graph_find(graph, status);
	*edge = legal_edge(graph, event_type, s);
	if (*edge != NULL)
		return NCLAIM_LEGAL;
	if (s < 0)
		return NCLAIM_EARLY;

	for (int i = 0; i < graph->nedges; i++)
	{
		const NClaimEdge *e = &graph->edge[i];

		if (!same_event(e->event_type, event_type))
			continue;
		if (e->to == s)
			in_target = true;
		if (e->from >= 0 && graph->reach[s * n + e->from])
		{
			source_ahead = true;
			if (e->to != NCLAIM_NONE)
				change_ahead = true;
		}
	}

	if (change_ahead && !graph->reach[s * n + s])
		return NCLAIM_EARLY;
	if (in_target)
		return NCLAIM_ALREADY;
	return source_ahead ? NCLAIM_EARLY : NCLAIM_STALE;
}
