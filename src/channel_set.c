/*-------------------------------------------------------------------------
 *
 * channel_set.c
 *		Declaring channels.
 *
 * Channels are the extension's owner's to declare.  Declaring the identical
 * thing twice does nothing, a contradiction raises 42710.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "notify_claim.h"

PG_FUNCTION_INFO_V1(notify_claim_channel_add);
PG_FUNCTION_INFO_V1(notify_claim_channel_set);
PG_FUNCTION_INFO_V1(notify_claim_channel_drop);

/* Where the settings' arguments begin. */
#define FIRST_SETTING	4

/* $1 is the name, $2 the rule, $3 and the following the settings. */
#define SETTINGS \
	"$2::pg_catalog.int8, $3::pg_catalog.int4, $4, $5::pg_catalog.int4, $6, $7::pg_catalog.int4," \
	" $8::pg_catalog.bool, $9::pg_catalog.interval, $10, $11"
#define COLUMNS \
	"digest_rule, ok_status, ok_body, fail_status, fail_body, max_body, keep_body, retain," \
	" on_conflict, on_no_rule"

/* A channel as it is about to be written. */
typedef struct Wanted
{
	NClaimMode	mode;
	char	  **ignore;			/* sorted, each once */
	int			nignore;
	const char *settings[NCLAIM_SETTINGS];
} Wanted;

/* Begins a function for the extension's owner that waits for nobody long. */
static int
begin(FunctionCallInfo fcinfo)
{
	int			nestlevel;

	nclaim_begin(fcinfo);
	nestlevel = nclaim_limit_waits();
	nclaim_require_table_owner(nclaim_extension_claim_table());
	return nestlevel;
}

/* Sorts the entries and leaves each once. */
static void
sort_ignore(Wanted *wanted)
{
	int			n = 0;

	qsort(wanted->ignore, wanted->nignore, sizeof(char *), pg_qsort_strcmp);
	for (int i = 0; i < wanted->nignore; i++)
	{
		if (n == 0 || strcmp(wanted->ignore[n - 1], wanted->ignore[i]) != 0)
			wanted->ignore[n++] = wanted->ignore[i];
	}
	wanted->nignore = n;
}

/* Takes over the entries of a text array. */
static void
set_ignore(Wanted *wanted, ArrayType *array)
{
	Datum	   *elements;
	bool	   *nulls;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls,
					  &wanted->nignore);
	wanted->ignore = palloc(wanted->nignore * sizeof(char *) + 1);
	for (int i = 0; i < wanted->nignore; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("argument \"%s\" must not contain nulls", "ignore")));
		wanted->ignore[i] = TextDatumGetCString(elements[i]);
	}
	sort_ignore(wanted);
}

static void
set_preset(Wanted *wanted, const NClaimPreset *preset)
{
	int			n = 0;

	while (preset->ignore[n] != NULL)
		n++;
	wanted->mode = preset->mode;
	wanted->nignore = n;
	wanted->ignore = palloc(n * sizeof(char *) + 1);
	memcpy(wanted->ignore, preset->ignore, n * sizeof(char *));
	memcpy(wanted->settings, preset->settings, sizeof(wanted->settings));
}

/*
 * The digest's arguments.  A list of what to ignore goes with its mode: another
 * mode begins with an empty one.
 */
static void
set_digest(FunctionCallInfo fcinfo, Wanted *wanted)
{
	char	   *name = nclaim_optional_text_arg(fcinfo, 2);
	NClaimMode	mode = wanted->mode;

	if (name != NULL && !nclaim_mode_find(name, &mode))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized digest \"%s\"", name),
				 errhint("Digests are \"raw\", \"json\", \"form\" and \"xml\".")));
	if (mode != wanted->mode)
		wanted->nignore = 0;
	wanted->mode = mode;
	if (!PG_ARGISNULL(3))
		set_ignore(wanted, PG_GETARG_ARRAYTYPE_P(3));
	if (wanted->mode == NCLAIM_RAW && wanted->nignore > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a raw digest cannot ignore anything"),
				 errhint("Pass \"json\", \"form\" or \"xml\" as digest.")));
	(void) nclaim_rule_ignore(wanted->mode, wanted->ignore, wanted->nignore);
}

static void
check_number(FunctionCallInfo fcinfo, int n, const char *name, int from, int to)
{
	if (!PG_ARGISNULL(n) && (PG_GETARG_INT32(n) < from || PG_GETARG_INT32(n) > to))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be from %d to %d", name, from, to)));
}

static void
check_policy(const char *policy, const char *name)
{
	if (strcmp(policy, "fail") != 0 && strcmp(policy, "ack") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be \"fail\" or \"ack\"", name)));
}

/* A setting's argument as text; NULL where it is null. */
static char *
setting_arg(FunctionCallInfo fcinfo, NClaimSetting setting)
{
	static const Oid types[NCLAIM_SETTINGS] = {
		[NCLAIM_OK_STATUS] = INT4OID,
		[NCLAIM_OK_BODY] = TEXTOID,
		[NCLAIM_FAIL_STATUS] = INT4OID,
		[NCLAIM_FAIL_BODY] = TEXTOID,
		[NCLAIM_MAX_BODY] = INT4OID,
		[NCLAIM_KEEP_BODY] = BOOLOID,
		[NCLAIM_RETAIN] = INTERVALOID,
		[NCLAIM_ON_CONFLICT] = TEXTOID,
		[NCLAIM_ON_NO_RULE] = TEXTOID,
	};
	int			n = FIRST_SETTING + setting;
	Oid			output;
	bool		varlena;

	if (PG_ARGISNULL(n))
		return NULL;
	getTypeOutputInfo(types[setting], &output, &varlena);
	return OidOutputFunctionCall(output, PG_GETARG_DATUM(n));
}

/* The other arguments; what is null stays as it is. */
static void
set_settings(FunctionCallInfo fcinfo, Wanted *wanted)
{
	check_number(fcinfo, FIRST_SETTING + NCLAIM_OK_STATUS, "ok_status", 200, 599);
	check_number(fcinfo, FIRST_SETTING + NCLAIM_FAIL_STATUS, "fail_status", 200, 599);
	check_number(fcinfo, FIRST_SETTING + NCLAIM_MAX_BODY, "max_body", 0, PG_INT32_MAX);
	(void) nclaim_interval_arg(fcinfo, FIRST_SETTING + NCLAIM_RETAIN, "retain");
	for (int i = 0; i < NCLAIM_SETTINGS; i++)
	{
		char	   *value = setting_arg(fcinfo, i);

		if (value != NULL)
			wanted->settings[i] = value;
	}
	if (wanted->settings[NCLAIM_MAX_BODY] != NULL &&
		strcmp(wanted->settings[NCLAIM_MAX_BODY], "0") == 0)
		wanted->settings[NCLAIM_MAX_BODY] = NULL;
	check_policy(wanted->settings[NCLAIM_ON_CONFLICT], "on_conflict");
	check_policy(wanted->settings[NCLAIM_ON_NO_RULE], "on_no_rule");
}

/* The entries as the text of an array. */
static char *
ignore_text(const Wanted *wanted)
{
	Datum	   *elements = palloc(wanted->nignore * sizeof(Datum) + 1);

	for (int i = 0; i < wanted->nignore; i++)
		elements[i] = CStringGetTextDatum(wanted->ignore[i]);
	return OidOutputFunctionCall(F_ARRAY_OUT,
								 PointerGetDatum(construct_array(elements, wanted->nignore,
																 TEXTOID, -1, false,
																 TYPALIGN_INT)));
}

/*
 * Number of the rule that the channel is to have, made if there is none; NULL
 * for raw.  Two sessions may make the same one at once, which does no harm.
 */
static char *
find_rule(const Wanted *wanted)
{
	const char *values[2] = {nclaim_mode_name(wanted->mode), ignore_text(wanted)};

	if (wanted->mode == NCLAIM_RAW)
		return NULL;
	if (nclaim_own_run("SELECT r.id FROM @.notify_digest_rule AS r"
					   " WHERE r.mode OPERATOR(pg_catalog.=) $1"
					   " AND r.ignore OPERATOR(pg_catalog.=) $2::pg_catalog.text[]"
					   " ORDER BY r.id LIMIT 1",
					   2, values) == 0)
		nclaim_own_run("INSERT INTO @.notify_digest_rule AS r (mode, ignore)"
					   " VALUES ($1, $2::pg_catalog.text[]) RETURNING r.id",
					   2, values);
	return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

/* The parameters of a statement that writes the channel. */
static void
statement_values(const char *name, const Wanted *wanted, const char **values)
{
	values[0] = name;
	values[1] = find_rule(wanted);
	memcpy(values + 2, wanted->settings, sizeof(wanted->settings));
}

/* Raises 22023 for a name that no channel can have, 22001 for a long one. */
static void
check_channel_name(const char *name)
{
	nclaim_check_not_blank(name, "channel");
	if (nclaim_is_longer(name, NCLAIM_MAX_CHANNEL))
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("channel name is longer than %d characters",
						NCLAIM_MAX_CHANNEL)));
}

/* Is there a channel like this?  Rules of the same content are the same. */
static bool
channel_is(const char *const *values, const Wanted *wanted)
{
	const char *rule[3] = {
		values[0], nclaim_mode_name(wanted->mode), ignore_text(wanted)
	};

	return nclaim_own_run("SELECT 1 FROM @.notify_channel AS c LEFT JOIN @.notify_digest_rule AS r"
						  " ON r.id OPERATOR(pg_catalog.=) c.digest_rule"
						  " WHERE c.channel OPERATOR(pg_catalog.=) $1"
						  " AND COALESCE(r.mode, 'raw') OPERATOR(pg_catalog.=) $2"
						  " AND COALESCE(r.ignore, '{}'::pg_catalog.text[]) OPERATOR(pg_catalog.=) $3::pg_catalog.text[]",
						  lengthof(rule), rule) > 0 &&
		nclaim_own_run("SELECT 1 FROM @.notify_channel AS c"
					   " WHERE c.channel OPERATOR(pg_catalog.=) $1"
					   " AND c.ok_status OPERATOR(pg_catalog.=) $3::pg_catalog.int4"
					   " AND c.ok_body OPERATOR(pg_catalog.=) $4"
					   " AND c.fail_status OPERATOR(pg_catalog.=) $5::pg_catalog.int4"
					   " AND c.fail_body OPERATOR(pg_catalog.=) $6"
					   " AND " NCLAIM_SAME("c.max_body", "$7::pg_catalog.int4")
					   " AND c.keep_body OPERATOR(pg_catalog.=) $8::pg_catalog.bool"
					   " AND c.retain OPERATOR(pg_catalog.=) $9::pg_catalog.interval"
					   " AND c.on_conflict OPERATOR(pg_catalog.=) $10"
					   " AND c.on_no_rule OPERATOR(pg_catalog.=) $11",
					   2 + NCLAIM_SETTINGS, values) > 0;
}

/*
 * notify_channel_add(channel, preset, digest, ignore, ok_status, ok_body,
 * fail_status, fail_body, max_body, keep_body, retain, on_conflict, on_no_rule)
 */
Datum
notify_claim_channel_add(PG_FUNCTION_ARGS)
{
	char	   *name = nclaim_text_arg(fcinfo, 0, "channel");
	Wanted		wanted;
	const char *values[2 + NCLAIM_SETTINGS];
	int			nestlevel;

	check_channel_name(name);
	set_preset(&wanted, nclaim_preset_find(nclaim_optional_text_arg(fcinfo, 1)));
	set_digest(fcinfo, &wanted);
	set_settings(fcinfo, &wanted);

	nestlevel = begin(fcinfo);
	statement_values(name, &wanted, values);
	if (nclaim_own_run("INSERT INTO @.notify_channel (channel, " COLUMNS ")"
					   " VALUES ($1, " SETTINGS ") ON CONFLICT (channel) DO NOTHING",
					   lengthof(values), values) == 0 &&
		!channel_is(values, &wanted))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("channel \"%s\" already exists with other settings", name),
				 errhint("Change it with notify_channel_set().")));
	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * Reads the rule of a channel; NULL is that of raw.  Raises 42704 where it is
 * gone, if it is needed.
 */
static void
read_rule(const char *id, bool needed, Wanted *wanted)
{
	bool		isnull;

	wanted->mode = NCLAIM_RAW;
	wanted->nignore = 0;
	wanted->ignore = NULL;
	if (id == NULL)
		return;
	if (nclaim_own_run("SELECT r.mode, r.ignore FROM @.notify_digest_rule AS r"
					   " WHERE r.id OPERATOR(pg_catalog.=) $1::pg_catalog.int8",
					   1, &id) == 0)
	{
		if (!needed)
			return;
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("digest rule %s does not exist", id),
				 errhint("Pass the channel another digest.")));
	}
	if (!nclaim_mode_find(nclaim_own_text(SPI_tuptable, 0, 1), &wanted->mode))
		elog(ERROR, "unrecognized digest mode");
	set_ignore(wanted,
			   DatumGetArrayTypePCopy(SPI_getbinval(SPI_tuptable->vals[0],
													SPI_tuptable->tupdesc, 2, &isnull)));
}

/*
 * Reads a channel and keeps others from changing it.  The rule is read by a
 * command of its own: joined to a row that was waited for, it would be that of
 * the row's old state.  Raises 42704.
 */
static void
lock_channel(const char *name, bool rule_needed, Wanted *wanted)
{
	if (nclaim_own_run("SELECT c.digest_rule, c.ok_status, c.ok_body, c.fail_status, c.fail_body, c.max_body,"
					   " c.keep_body, c.retain, c.on_conflict, c.on_no_rule"
					   " FROM @.notify_channel AS c"
					   " WHERE c.channel OPERATOR(pg_catalog.=) $1 FOR UPDATE",
					   1, &name) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 strcmp(name, NCLAIM_DEFAULT_CHANNEL) == 0 ?
				 errmsg("channel \"%s\" has no settings of its own", name) :
				 errmsg("channel \"%s\" does not exist", name),
				 errhint("Declare it with notify_channel_add().")));
	for (int i = 0; i < NCLAIM_SETTINGS; i++)
		wanted->settings[i] = nclaim_own_text(SPI_tuptable, 0, 2 + i);
	read_rule(nclaim_own_text(SPI_tuptable, 0, 1), rule_needed, wanted);
}

/*
 * notify_channel_set, with the arguments of notify_channel_add
 */
Datum
notify_claim_channel_set(PG_FUNCTION_ARGS)
{
	char	   *name = nclaim_text_arg(fcinfo, 0, "channel");
	char	   *preset = nclaim_optional_text_arg(fcinfo, 1);
	Wanted		wanted;
	const char *values[2 + NCLAIM_SETTINGS];
	int			nestlevel = begin(fcinfo);

	lock_channel(name, preset == NULL && PG_ARGISNULL(2), &wanted);
	if (preset != NULL)
		set_preset(&wanted, nclaim_preset_find(preset));
	set_digest(fcinfo, &wanted);
	set_settings(fcinfo, &wanted);
	statement_values(name, &wanted, values);
	nclaim_own_run("UPDATE @.notify_channel SET (" COLUMNS ") = ROW(" SETTINGS ")"
				   " WHERE channel OPERATOR(pg_catalog.=) $1",
				   lengthof(values), values);
	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	PG_RETURN_VOID();
}

/* Raises 2BP01 where the channel has a claim with a higher number. */
static void
check_no_claims(const char *name, int64 number)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int64GetDatum(number)};

	if (nclaim_own_execute(NCLAIM_FIND_CHANNEL_CLAIM, values, NULL,
						   GetLatestSnapshot()) > 0 ||
		nclaim_own_execute(NCLAIM_FIND_CHANNEL_REVIEW, values, NULL,
						   GetLatestSnapshot()) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop channel \"%s\": it has claims or open reviews", name),
				 errhint("A channel can be dropped when its claims have been deleted and its reviews decided.")));
}

/* The number that the last claim got. */
static int64
last_number(void)
{
	bool		isnull;

	nclaim_own_run("SELECT s.last_value FROM @.notify_claim_id_seq AS s", 0, NULL);
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
									   SPI_tuptable->tupdesc, 1, &isnull));
}

/*
 * Raises 2BP01 for a channel that claims or open reviews would be left without,
 * and keeps it from getting some until the transaction ends.
 *
 * Looking through all claims takes time, and whoever makes a claim of any channel
 * would have to wait meanwhile.  So the lock is taken twice, for a moment: the
 * first time to know a number up to which all claims are decided, the second
 * time for those with a higher one.
 */
static void
check_unused(const char *name)
{
	int64		decided;

	nclaim_channel_lock(true);
	decided = last_number();
	nclaim_channel_unlock();
	check_no_claims(name, 0);
	nclaim_channel_lock(true);
	check_no_claims(name, decided);
}

/*
 * notify_channel_drop(channel).  The default channel is there without a row, so
 * its row can always go.
 */
Datum
notify_claim_channel_drop(PG_FUNCTION_ARGS)
{
	const char *name = nclaim_text_arg(fcinfo, 0, "channel");
	Wanted		wanted;
	int			nestlevel = begin(fcinfo);

	lock_channel(name, false, &wanted);
	if (strcmp(name, NCLAIM_DEFAULT_CHANNEL) != 0)
		check_unused(name);
	nclaim_own_run("DELETE FROM @.notify_channel WHERE channel OPERATOR(pg_catalog.=) $1",
				   1, &name);
	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	PG_RETURN_VOID();
}
