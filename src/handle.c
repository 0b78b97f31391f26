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
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_handle_bytea);
PG_FUNCTION_INFO_V1(notify_claim_handle_text);

/*
 * What is known of one of both forms: cheap to find out, but not beside a call
 * that does nothing else.
 */
typedef struct Form
{
	Oid			function;		/* InvalidOid: nothing is known */
	Oid			nspoid;
	TupleDesc	desc;			/* of its row */
} Form;

static Form forms[2];

/* The function may be another, or in another schema. */
static void
function_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	for (int i = 0; i < lengthof(forms); i++)
		forms[i].function = InvalidOid;
}

/*
 * Registers for invalidations; called once, when the library is loaded.
 */
void
nclaim_handle_init(void)
{
	CacheRegisterSyscacheCallback(PROCOID, function_changed, (Datum) 0);
}

static const Form *
find_form(FunctionCallInfo fcinfo, bool body_is_text)
{
	Form	   *form = &forms[body_is_text ? 1 : 0];
	MemoryContext caller;
	TupleDesc	desc;

	if (form->function == fcinfo->flinfo->fn_oid)
		return form;
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	form->nspoid = get_func_namespace(fcinfo->flinfo->fn_oid);
	caller = MemoryContextSwitchTo(TopMemoryContext);
	desc = BlessTupleDesc(CreateTupleDescCopy(desc));
	MemoryContextSwitchTo(caller);
	/* An outer call may still be going to use the row's type. */
	if (form->desc != NULL)
		FreeTupleDesc(form->desc);
	form->desc = desc;
	form->function = fcinfo->flinfo->fn_oid;
	return form;
}

/* The key's parts, checked; too long a part is never copied. */
static char *
make_key(const char *channel_txn_id, const char *event_type)
{
	char	   *key;

	nclaim_check_not_blank(channel_txn_id, "channel_txn_id");
	nclaim_check_not_blank(event_type, "event_type");
	key = nclaim_is_longer(channel_txn_id, NCLAIM_MAX_KEY) ||
		nclaim_is_longer(event_type, NCLAIM_MAX_KEY) ? NULL :
		psprintf("%s:%s", channel_txn_id, event_type);
	if (key == NULL || nclaim_is_longer(key, NCLAIM_MAX_KEY))
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("notification key of %d characters is longer than %d characters",
						nclaim_characters(channel_txn_id) + 1 + nclaim_characters(event_type), NCLAIM_MAX_KEY),
				 errdetail("The key is the channel's transaction id, a colon and the event type.")));
	nclaim_check_event_type(event_type);
	return key;
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

/* Digests the body as the channel says. */
static void
digest_body(NClaimNotice *notice, const NClaimChannel *settings)
{
	notice->settings = settings;
	nclaim_stat_channel(notice);
	nclaim_channel_check_body(settings, notice->channel, notice->length);
	notice->rule = &settings->rule;
	nclaim_rule_digest(notice->rule, notice->body, notice->length,
					   &notice->digest, NULL);
}

/*
 * Answers a repeat with next to nothing: no SPI connection, no lock timeout, as
 * nothing is waited for.  That takes what earlier calls of the session have found
 * out.  Returns false where the notice has to be processed, which can go on from
 * what is known by now.
 */
static bool
answer_repeat(const Form *form, NClaimNotice *notice, NClaimAnswer *answer)
{
	const NClaimChannel *settings = nclaim_channel_cached(notice->channel);
	NClaimFound found;

	if (settings == NULL || !nclaim_extension_is_known(form->nspoid))
		return false;
	digest_body(notice, settings);
	found = nclaim_claim_repeat(notice, answer);
	/* What was locked for that may have brought news. */
	if (!settings->valid)
		return false;
	notice->probed = found == NCLAIM_FOUND_NONE;
	return found == NCLAIM_FOUND_ROW;
}

/* Processes the notice, with all that takes. */
static void
process_notice(NClaimNotice *notice, NClaimAnswer *answer)
{
	int			nestlevel;
	bool		changed = false;
	const NClaimChannel *settings;

	nclaim_park_enter();
	nestlevel = nclaim_limit_waits();
	settings = nclaim_channel_find(notice->channel);
	if (settings != notice->settings)
		digest_body(notice, settings);
	nclaim_process(notice, answer);
	nclaim_park_drain(notice->start, &changed);
	AtEOXact_GUC(true, nestlevel);
}

/* The answer as the function's row, in the current memory context. */
static Datum
answer_row(const Form *form, const NClaimChannel *channel,
		   const NClaimAnswer *answer)
{
	Datum		values[7];
	bool		nulls[7] = {0};

	values[0] = CStringGetTextDatum(answer->success ? "SUCCESS" : "FAIL");
	values[1] = CStringGetTextDatum(answer->outcome);
	nulls[2] = answer->result == NULL;
	values[2] = JsonbPGetDatum(answer->result);
	values[3] = BoolGetDatum(answer->replayed);
	nulls[4] = !answer->seen;
	values[4] = TimestampTzGetDatum(answer->first_seen);
	values[5] = Int32GetDatum(answer->success ? channel->ok_status : channel->fail_status);
	values[6] = CStringGetTextDatum(answer->success ? channel->ok_body : channel->fail_body);
	return HeapTupleGetDatum(heap_form_tuple(form->desc, values, nulls));
}

/*
 * The routine behind both forms.  Raises bad input before anything is looked
 * at; what else is raised leaves nothing behind either.
 */
static Datum
handle_notify(FunctionCallInfo fcinfo, bool body_is_text)
{
	MemoryContext caller = CurrentMemoryContext;
	const Form *form = find_form(fcinfo, body_is_text);
	NClaimStatCall *call = nclaim_stat_begin();
	NClaimNotice notice;
	NClaimAnswer answer = {0};
	Datum		row;

	read_notice(fcinfo, body_is_text, &notice);
	notice.call = call;
	if (answer_repeat(form, &notice, &answer))
	{
		nclaim_stat_end(&notice, &answer);
		return answer_row(form, notice.settings, &answer);
	}

	nclaim_begin(fcinfo);
	process_notice(&notice, &answer);
	nclaim_stat_end(&notice, &answer);
	MemoryContextSwitchTo(caller);
	row = answer_row(form, notice.settings, &answer);
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
