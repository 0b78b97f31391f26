/*-------------------------------------------------------------------------
 *
 * handle.c
 *		handle_notify: the arguments, the limits of the call, the answer.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_handle_bytea);
PG_FUNCTION_INFO_V1(notify_claim_handle_text);

/* The key's parts, checked; too long a part is never copied. */
static char *
make_key(const char *channel_txn_id, const char *event_type)
{
	int			length;

	nclaim_check_not_blank(channel_txn_id, "channel_txn_id");
	nclaim_check_not_blank(event_type, "event_type");
	length = nclaim_characters(channel_txn_id) + 1 + nclaim_characters(event_type);
	if (length > NCLAIM_MAX_KEY)
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("notification key of %d characters is longer than %d characters",
						length, NCLAIM_MAX_KEY),
				 errdetail("The key is the channel's transaction id, a colon and the event type.")));
	nclaim_check_event_type(event_type);
	return psprintf("%s:%s", channel_txn_id, event_type);
}

/* Reads and checks all arguments but the channel and the length of the body. */
static void
read_notice(FunctionCallInfo fcinfo, bool body_is_text, NClaimNotice *notice)
{
	static const char *const names[] = {
		"channel_txn_id", "event_type", "order_no", "raw_body", "channel"
	};

	for (int i = 0; i < lengthof(names); i++)
		nclaim_require_arg(fcinfo, i, names[i]);

	memset(notice, 0, sizeof(*notice));
	INSTR_TIME_SET_CURRENT(notice->start);
	notice->event_type = nclaim_text_arg(fcinfo, 1, names[1]);
	notice->biz_key = make_key(nclaim_text_arg(fcinfo, 0, names[0]),
							   notice->event_type);
	notice->order_no = nclaim_text_arg(fcinfo, 2, names[2]);
	nclaim_check_order_no(notice->order_no);
	notice->body = nclaim_body_arg(fcinfo, 3, body_is_text, &notice->length);
	notice->channel = nclaim_text_arg(fcinfo, 4, names[4]);
	notice->data = PG_ARGISNULL(5) ? NULL : PG_GETARG_JSONB_P(5);
}

/* Finds the channel, and digests the body as that says. */
static void
digest_notice(NClaimNotice *notice)
{
	notice->settings = nclaim_channel_find(notice->channel);
	nclaim_stat_channel(notice);
	nclaim_channel_check_body(notice->settings, notice->channel, notice->length);
	notice->rule = &notice->settings->rule;
	nclaim_rule_digest(notice->rule, notice->body, notice->length,
					   &notice->digest, NULL);
}

/* The answer as the function's row, in the current memory context. */
static Datum
answer_row(FunctionCallInfo fcinfo, const NClaimChannel *channel,
		   const NClaimAnswer *answer)
{
	TupleDesc	desc;
	Datum		values[7];
	bool		nulls[7] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);

	values[0] = CStringGetTextDatum(answer->success ? "SUCCESS" : "FAIL");
	values[1] = CStringGetTextDatum(answer->outcome);
	nulls[2] = answer->result == NULL;
	values[2] = JsonbPGetDatum(answer->result);
	values[3] = BoolGetDatum(answer->replayed);
	nulls[4] = !answer->seen;
	values[4] = TimestampTzGetDatum(answer->first_seen);
	values[5] = Int32GetDatum(answer->success ? channel->ok_status : channel->fail_status);
	values[6] = CStringGetTextDatum(answer->success ? channel->ok_body : channel->fail_body);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

/*
 * The routine behind both forms.  Raises bad input before anything is looked
 * at; what else is raised leaves nothing behind either.
 */
static Datum
handle_notify(FunctionCallInfo fcinfo, bool body_is_text)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext spi;
	NClaimStatCall *call = nclaim_stat_begin();
	NClaimNotice notice;
	NClaimAnswer answer;
	int			nestlevel;
	bool		changed = false;
	Datum		row;

	read_notice(fcinfo, body_is_text, &notice);
	notice.call = call;
	nclaim_begin(fcinfo);
	nclaim_park_enter();
	nestlevel = nclaim_limit_waits();
	digest_notice(&notice);
	nclaim_process(&notice, &answer);
	nclaim_park_drain(notice.start, &changed);
	nclaim_stat_end(&notice, &answer);
	AtEOXact_GUC(true, nestlevel);

	spi = MemoryContextSwitchTo(caller);
	row = answer_row(fcinfo, notice.settings, &answer);
	MemoryContextSwitchTo(spi);
	SPI_finish();
	return row;
}

Datum
notify_claim_handle_bytea(PG_FUNCTION_ARGS)
{
	return handle_notify(fcinfo, false);
}

Datum
notify_claim_handle_text(PG_FUNCTION_ARGS)
{
	return handle_notify(fcinfo, true);
}
