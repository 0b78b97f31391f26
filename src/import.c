/*-------------------------------------------------------------------------
 *
 * import.c
 *		notify_import: claims of what was processed before there were claims.
 *
 * The source is read as the caller, through a cursor, with its privileges and row
 * level security; the claims are written as the owner of their table, batch by
 * batch, all in the caller's transaction.  The content is not known, so any
 * redelivery for the same order is a repeat.  Rows come in the order of their
 * time, so that claims are numbered in it, as retention expects.
 *
 * A dry run reads in the order of the keys instead: so it knows without keeping
 * them which rows of the source have the same one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_import);

#define BATCH			1000
#define MAX_EXAMPLES	10
#define MAX_UNDECLARED	10

/* So many bytes of a value are shown. */
#define SHOWN_BYTES		80

/* Columns of the source. */
enum
{
	TXN = 1,
	EVENT,
	ORDER_NO,
	AT
};

/* What one call is to do, and what it has done. */
typedef struct Import
{
	const char *channel;
	bool		dry_run;
	MemoryContext context;		/* of what follows */
	int64		read;
	int64		imported;
	int64		known;
	int64		refused;
	List	   *examples;		/* of text Datum */
	List	   *event_types;	/* seen, and not declared */
	char	   *last_event_type;
	char	   *last_key;		/* of a dry run */
} Import;

/* Claims about to be inserted. */
typedef struct Batch
{
	int			n;
	Datum		keys[BATCH];
	Datum		order_nos[BATCH];
	Datum		times[BATCH];
} Batch;

/* Why a row can be no claim: what handle_notify() would refuse; or NULL. */
static const char *
find_reason(const char *txn, const char *event_type, const char *order_no)
{
	if (txn == NULL || event_type == NULL || order_no == NULL)
		return "is null in part";
	if (nclaim_is_blank(txn) || nclaim_is_blank(event_type) || nclaim_is_blank(order_no))
		return "is blank in part";
	if (strchr(event_type, ':') != NULL)
		return "has a colon in the event type";
	if (nclaim_characters(txn) + 1 + nclaim_characters(event_type) > NCLAIM_MAX_KEY)
		return psprintf("has a key longer than %d characters", NCLAIM_MAX_KEY);
	if (nclaim_characters(order_no) > NCLAIM_MAX_ORDER_NO)
		return psprintf("has an order number longer than %d characters", NCLAIM_MAX_ORDER_NO);
	return NULL;
}

/* A value as an example shows it. */
static const char *
shown(const char *value)
{
	int			length;

	if (value == NULL)
		return "NULL";
	length = strlen(value);
	if (length <= SHOWN_BYTES)
		return psprintf("\"%s\"", value);
	return psprintf("\"%s...\"", pnstrdup(value, pg_mbcliplen(value, length, SHOWN_BYTES)));
}

static void
refuse(Import *import, const char *txn, const char *event_type,
	   const char *order_no, const char *reason)
{
	MemoryContext caller;
	char	   *example;

	import->refused++;
	if (list_length(import->examples) >= MAX_EXAMPLES)
		return;
	example = psprintf("transaction id %s, event type %s, order %s %s",
					   shown(txn), shown(event_type), shown(order_no), reason);
	caller = MemoryContextSwitchTo(import->context);
	import->examples = lappend(import->examples, pstrdup(example));
	MemoryContextSwitchTo(caller);
}

/* Notes an event type that is not declared, one look for each run of rows. */
static void
note_event_type(Import *import, const char *event_type)
{
	MemoryContext caller;
	ListCell   *cell;

	if (import->last_event_type != NULL && strcmp(import->last_event_type, event_type) == 0)
		return;
	if (import->last_event_type != NULL)
		pfree(import->last_event_type);
	import->last_event_type = MemoryContextStrdup(import->context, event_type);
	foreach(cell, import->event_types)
	{
		if (strcmp(lfirst(cell), event_type) == 0)
			return;
	}
	if (list_length(import->event_types) > MAX_UNDECLARED ||
		nclaim_event_find(event_type) != NULL)
		return;
	caller = MemoryContextSwitchTo(import->context);
	import->event_types = lappend(import->event_types, pstrdup(event_type));
	MemoryContextSwitchTo(caller);
}

/* The rows' time; what is not given, or still to come, is now. */
static Datum
time_of(SPITupleTable *rows, uint64 row, TimestampTz now)
{
	bool		isnull;
	Datum		at = SPI_getbinval(rows->vals[row], rows->tupdesc, AT, &isnull);

	return TimestampTzGetDatum(isnull ? now : Min(DatumGetTimestampTz(at), now));
}

/* Is the key the one of the row before?  In a dry run they are in order. */
static bool
is_repeated(Import *import, const char *key)
{
	bool		repeated = import->last_key != NULL && strcmp(import->last_key, key) == 0;

	if (!repeated)
	{
		if (import->last_key != NULL)
			pfree(import->last_key);
		import->last_key = MemoryContextStrdup(import->context, key);
	}
	return repeated;
}

/* Adds what can be a claim of the rows to the batch. */
static void
read_rows(Import *import, SPITupleTable *rows, Batch *batch)
{
	TimestampTz now = GetCurrentTimestamp();

	batch->n = 0;
	for (uint64 i = 0; i < rows->numvals; i++)
	{
		char	   *txn = nclaim_own_text(rows, i, TXN);
		char	   *event_type = nclaim_own_text(rows, i, EVENT);
		char	   *order_no = nclaim_own_text(rows, i, ORDER_NO);
		const char *reason = find_reason(txn, event_type, order_no);
		char	   *key;

		import->read++;
		if (reason != NULL)
		{
			refuse(import, txn, event_type, order_no, reason);
			continue;
		}
		note_event_type(import, event_type);
		key = psprintf("%s:%s", txn, event_type);
		if (import->dry_run && is_repeated(import, key))
		{
			import->known++;
			continue;
		}
		batch->keys[batch->n] = CStringGetTextDatum(key);
		batch->order_nos[batch->n] = CStringGetTextDatum(order_no);
		batch->times[batch->n++] = time_of(rows, i, now);
	}
}

/* Inserts the batch, or counts what that would do. */
static void
write_batch(Import *import, Batch *batch)
{
	int64		imported;
	Datum		values[4] = {
		CStringGetTextDatum(import->channel),
		PointerGetDatum(construct_array(batch->keys, batch->n, TEXTOID, -1, false, TYPALIGN_INT)),
		PointerGetDatum(construct_array(batch->order_nos, batch->n, TEXTOID, -1, false, TYPALIGN_INT)),
		PointerGetDatum(construct_array(batch->times, batch->n, TIMESTAMPTZOID, sizeof(TimestampTz),
										FLOAT8PASSBYVAL, TYPALIGN_DOUBLE))
	};

	if (batch->n == 0)
		return;
	if (import->dry_run)
	{
		nclaim_own_execute(NCLAIM_COUNT_KNOWN, values, NULL, InvalidSnapshot);
		imported = batch->n - DatumGetInt64(nclaim_own_value(SPI_tuptable, 0, 1));
		SPI_freetuptable(SPI_tuptable);
	}
	else
		imported = nclaim_own_execute(NCLAIM_IMPORT_CLAIMS, values, NULL, InvalidSnapshot);
	import->imported += imported;
	import->known += batch->n - imported;
}

/* A column of the source, quoted; "s" is the source. */
static char *
column_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	nclaim_require_arg(fcinfo, n, name);
	return psprintf("s.%s", quote_identifier(NameStr(*PG_GETARG_NAME(n))));
}

/*
 * SELECT (s.txn)::text, $1 or (s.event)::text, (s.order)::text, (s.time)::timestamptz
 * FROM source AS s ORDER BY 4, or in a dry run by the first two.  Raises 22004 and
 * 22023.
 */
static char *
source_query(FunctionCallInfo fcinfo, bool dry_run)
{
	StringInfoData buf;
	char	   *txn = column_arg(fcinfo, 1, "txn_column");
	char	   *order_no = column_arg(fcinfo, 2, "order_column");
	const char *event_type = "$1";
	char	   *at = PG_ARGISNULL(5) ? NULL : column_arg(fcinfo, 5, "time_column");

	if (PG_ARGISNULL(3) == PG_ARGISNULL(4))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("one of the arguments \"%s\" and \"%s\" must be given", "event_type", "event_column"),
				 errhint("The event type is the same for all rows, or in a column.")));
	if (!PG_ARGISNULL(4))
		event_type = psprintf("(%s)::pg_catalog.text", column_arg(fcinfo, 4, "event_column"));
	initStringInfo(&buf);
	appendStringInfo(&buf, "SELECT (%s)::pg_catalog.text, %s, (%s)::pg_catalog.text, ", txn, event_type, order_no);
	if (at != NULL)
		appendStringInfo(&buf, "(%s)::pg_catalog.timestamptz", at);
	else
		appendStringInfoString(&buf, "NULL::pg_catalog.timestamptz");
	appendStringInfo(&buf, " FROM %s AS s", nclaim_relation_name(PG_GETARG_OID(0)));
	if (dry_run)
		appendStringInfo(&buf, " ORDER BY (%s)::pg_catalog.text COLLATE pg_catalog.\"C\", %s COLLATE pg_catalog.\"C\"",
						 txn, event_type);
	else if (at != NULL)
		appendStringInfoString(&buf, " ORDER BY 4");
	return buf.data;
}

/* Opens a cursor on the source, as the caller. */
static Portal
open_source(FunctionCallInfo fcinfo, bool dry_run)
{
	Oid			argtypes[1] = {TEXTOID};
	Datum		values[1] = {PG_GETARG_DATUM(3)};

	return SPI_cursor_open_with_args(NULL, source_query(fcinfo, dry_run), 1, argtypes, values,
									 PG_ARGISNULL(3) ? "n" : " ", false, 0);
}

/* Tells of event types that no notification of can be known by. */
static void
tell_undeclared(const Import *import)
{
	StringInfoData buf;
	ListCell   *cell;

	if (import->event_types == NIL)
		return;
	initStringInfo(&buf);
	foreach(cell, import->event_types)
		appendStringInfo(&buf, "%s\"%s\"", buf.len == 0 ? "" : ", ", (char *) lfirst(cell));
	ereport(NOTICE,
			(errmsg("event types that are not declared: %s", buf.data),
			 errhint("A repeat is recognised by its transaction id and the very event type that handle_notify() is passed.")));
}

static Datum
result_row(FunctionCallInfo fcinfo, const Import *import)
{
	TupleDesc	desc;
	Datum		values[5];
	bool		nulls[5] = {0};
	Datum		examples[MAX_EXAMPLES];
	int			n = 0;
	ListCell   *cell;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	foreach(cell, import->examples)
		examples[n++] = CStringGetTextDatum(lfirst(cell));
	values[0] = Int64GetDatum(import->read);
	values[1] = Int64GetDatum(import->imported);
	values[2] = Int64GetDatum(import->known);
	values[3] = Int64GetDatum(import->refused);
	values[4] = PointerGetDatum(construct_array(examples, n, TEXTOID, -1, false, TYPALIGN_INT));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * Does with the rows what is to be done, in an SPI connection of its own: what is
 * allocated goes with that.
 */
static void
import_rows(Import *import, SPITupleTable *rows, Batch *batch)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	read_rows(import, rows, batch);
	write_batch(import, batch);
	SPI_finish();
}

/* Reads the source to its end. */
static void
import_all(FunctionCallInfo fcinfo, Import *import)
{
	Portal		source = open_source(fcinfo, import->dry_run);
	Batch	   *batch = palloc(sizeof(Batch));
	bool		more;

	if (!import->dry_run)
	{
		PreventCommandIfReadOnly("notify_import");
		/* Before claims draw their numbers: purge_claims.c counts on that. */
		(void) GetTopTransactionId();
	}
	do
	{
		SPITupleTable *rows;

		SPI_cursor_fetch(source, true, BATCH);
		rows = SPI_tuptable;
		more = SPI_processed == BATCH;
		import_rows(import, rows, batch);
		SPI_freetuptable(rows);
		CHECK_FOR_INTERRUPTS();
	} while (more);
	SPI_cursor_close(source);
}

/*
 * notify_import(source, txn_column, order_column, event_type, event_column,
 * time_column, channel, dry_run).  Raises 22004 and 22023 for bad arguments, 42704
 * for an unknown channel, and what reading the source raises.
 */
Datum
notify_claim_import(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	Import		import = {0};
	Datum		row;

	nclaim_require_arg(fcinfo, 0, "source");
	if (get_rel_name(PG_GETARG_OID(0)) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("there is no relation with OID %u", PG_GETARG_OID(0))));
	import.channel = nclaim_text_arg(fcinfo, 6, "channel");
	nclaim_require_arg(fcinfo, 7, "dry_run");
	import.dry_run = PG_GETARG_BOOL(7);
	nclaim_begin(fcinfo);
	import.context = CurrentMemoryContext;
	(void) nclaim_channel_find(import.channel);
	nclaim_channel_hold(import.channel);
	import_all(fcinfo, &import);
	tell_undeclared(&import);
	MemoryContextSwitchTo(caller);
	row = result_row(fcinfo, &import);
	SPI_finish();
	return row;
}
