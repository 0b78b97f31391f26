/*-------------------------------------------------------------------------
 *
 * check.c
 *		notify_machine_check: what stands out in a state machine.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "notify_claim.h"

/* Rows of the order table that the notice after a declaration looks at. */
#define NOTICE_SAMPLE	10000

typedef struct Finding
{
	const char *finding;
	const char *status;
	const char *detail;
} Finding;

static List *
add_finding(List *findings, const char *finding, const char *status,
			const char *detail)
{
	Finding    *f = palloc(sizeof(Finding));

	f->finding = finding;
	f->status = status;
	f->detail = detail;
	return lappend(findings, f);
}

/* To how many different statuses does a step lead from s? */
static int
count_targets(const NClaimGraph *graph, int s)
{
	bool	   *target = palloc0(sizeof(bool) * Max(graph->nstatuses, 1));
	int			n = 0;

	for (int i = 0; i < graph->nedges; i++)
	{
		int			to = graph->edge[i].to;

		if (to != NCLAIM_NONE && !target[to] && nclaim_graph_leads(graph, i, s))
		{
			target[to] = true;
			n++;
		}
	}
	pfree(target);
	return n;
}

static bool
has_step_to(const NClaimGraph *graph, int s)
{
	for (int i = 0; i < graph->nedges; i++)
	{
		if (graph->edge[i].to == s)
			return true;
	}
	return false;
}

/* What the transitions alone show. */
static List *
check_graph(const NClaimGraph *graph)
{
	List	   *findings = NIL;

	for (int s = 0; s < graph->nstatuses; s++)
	{
		const char *status = graph->status_text[s];
		int			targets = count_targets(graph, s);

		if (targets == 0)
			findings = add_finding(findings, "dead end", status,
								   "no step leads out of it: an order ends here");
		if (targets > 1)
			findings = add_finding(findings, "fork", status,
								   psprintf("steps lead from it to %d statuses: the first event that arrives decides", targets));
		if (graph->reach[s * graph->nstatuses + s])
			findings = add_finding(findings, "cycle", status,
								   "steps lead from it back to it: an event that comes twice may be legal twice");
		if (!has_step_to(graph, s))
			findings = add_finding(findings, "unreachable", status,
								   "no step leads to it: orders must be created with it");
	}
	return findings;
}

/*
 * What the rows of the order table show, of the first "sample" unless 0.  With
 * no step declared yet there is nothing to compare them with.
 */
static List *
check_rows(NClaimOrderTable *table, const NClaimGraph *graph, int sample,
		   List *findings)
{
	SPITupleTable *rows;

	if (graph->nedges == 0)
		return findings;

	rows = nclaim_order_statuses(table, sample);
	for (uint64 i = 0; i < rows->numvals; i++)
	{
		bool		isnull;
		Datum		status = SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &isnull);

		if (nclaim_graph_find(graph, status) < 0)
			findings = add_finding(findings, "unknown status",
								   nclaim_column_out(&table->status, status),
								   "orders have it and no step names it: events that need a certain status are early");
	}
	return findings;
}

/* Raises 42704 where there is no machine of that name. */
static List *
check_machine(const char *name, int sample)
{
	NClaimMachine *machine = nclaim_machine_ready(name);

	return check_rows(&machine->table, machine->graph, sample,
					  check_graph(machine->graph));
}

/*
 * Tells the user what stands out in a machine that was just changed; of the
 * order table's rows only a sample is read.  Needs an SPI connection.
 */
void
nclaim_machine_notice(const char *name)
{
	List	   *findings = check_machine(name, NOTICE_SAMPLE);
	StringInfoData detail;
	ListCell   *cell;

	if (findings == NIL)
		return;
	initStringInfo(&detail);
	foreach(cell, findings)
	{
		Finding    *f = lfirst(cell);

		appendStringInfo(&detail, "%s%s \"%s\": %s.",
						 detail.len == 0 ? "" : "\n", f->finding, f->status,
						 f->detail);
	}
	ereport(NOTICE,
			(errmsg_plural("machine \"%s\": %d finding",
						   "machine \"%s\": %d findings",
						   list_length(findings), name, list_length(findings)),
			 errdetail_internal("%s", detail.data)));
}

PG_FUNCTION_INFO_V1(notify_claim_machine_check);

/*
 * notify_machine_check(machine): one row per finding.  The order table is read
 * as the caller.
 */
Datum
notify_claim_machine_check(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *name = nclaim_text_arg(fcinfo, 0, "machine");
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	nclaim_begin(fcinfo);
	foreach(cell, check_machine(name, 0))
	{
		Finding    *f = lfirst(cell);
		Datum		values[3] = {
			CStringGetTextDatum(f->finding),
			CStringGetTextDatum(f->status),
			CStringGetTextDatum(f->detail)
		};
		bool		nulls[3] = {0};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	SPI_finish();
	return (Datum) 0;
}
