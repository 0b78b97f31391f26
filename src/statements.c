/*-------------------------------------------------------------------------
 *
 * statements.c
 *		The statements on the extension's own tables that handle_notify, reviews
 *		and parked events run often.
 *
 * extension.c prepares and runs them.  Nothing here is ever changed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "notify_claim.h"

/* Conditions as the partial indexes of notify_review have them. */
#define IS_KIND(kind) \
	"r.kind::pg_catalog.text OPERATOR(pg_catalog.=) '" kind "'::pg_catalog.text"
#define IS_STATE(state) \
	"r.state::pg_catalog.text OPERATOR(pg_catalog.=) '" state "'::pg_catalog.text"

/* Parked claims with their events, of which the machine's are asked for. */
#define PARKED \
	"@.notify_claim AS c JOIN @.notify_event AS e ON e.event_type::pg_catalog.text" \
	" OPERATOR(pg_catalog.=) pg_catalog.regexp_replace(c.biz_key, '^.*:', '')" \
	" WHERE c.claim_state::pg_catalog.text OPERATOR(pg_catalog.=) 'PARKED'::pg_catalog.text" \
	" AND e.machine IS NOT NULL"

/* In the statements below "@" stands for the extension's schema. */
const NClaimOwnSql nclaim_own_statements[] = {
	[NCLAIM_FIND_CLAIM] = {
		"SELECT c.order_no, c.digest_mode, c.payload_hash, c.outcome, c.result_json, c.created_at,"
		" c.id, c.digest_rule"
		" FROM @.notify_claim AS c"
		" WHERE c.biz_key OPERATOR(pg_catalog.=) $1 AND c.channel OPERATOR(pg_catalog.=) $2",
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_INSERT_CLAIM] = {
		"INSERT INTO @.notify_claim AS c (channel, biz_key, order_no, payload_hash, digest_rule,"
		" digest_mode, claim_state, outcome, result_json, message_id, created_at)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
		" ON CONFLICT (biz_key, channel) DO NOTHING RETURNING c.id",
		11, {VARCHAROID, VARCHAROID, VARCHAROID, BPCHAROID, INT8OID, VARCHAROID,
		VARCHAROID, VARCHAROID, JSONBOID, UUIDOID, TIMESTAMPTZOID}
	},
	[NCLAIM_CLOSE_CLAIM] = {
		"UPDATE @.notify_claim AS c SET claim_state = $3, outcome = $4, result_json = $5, message_id = $6"
		" WHERE c.id OPERATOR(pg_catalog.=) $1 AND c.outcome OPERATOR(pg_catalog.=) $2",
		6, {INT8OID, VARCHAROID, VARCHAROID, VARCHAROID, JSONBOID, UUIDOID}
	},
	[NCLAIM_FIND_PARKED] = {
		"SELECT c.id FROM @.notify_claim AS c"
		" WHERE c.order_no OPERATOR(pg_catalog.=) $1"
		" AND c.claim_state::pg_catalog.text OPERATOR(pg_catalog.=) 'PARKED'::pg_catalog.text"
		" ORDER BY c.id",
		1, {VARCHAROID}
	},
	/* Parked events; those of an event without a machine are none. */
	[NCLAIM_FIND_PARKED_EVENTS] = {
		"SELECT 1 FROM " PARKED " AND e.machine OPERATOR(pg_catalog.=) $1"
		" AND ($2 IS NULL OR e.event_type OPERATOR(pg_catalog.=) $2) LIMIT 1",
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_FIND_PARKED_MACHINES] = {
		"SELECT DISTINCT e.machine FROM " PARKED
		" AND ($1 IS NULL OR c.order_no OPERATOR(pg_catalog.=) $1)",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_PARKED_ORDERS] = {
		"SELECT e.machine, c.order_no FROM " PARKED
		" AND ($1 IS NULL OR e.machine OPERATOR(pg_catalog.=) $1)"
		" GROUP BY e.machine, c.order_no ORDER BY pg_catalog.min(c.id)",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_REOPENED] = {
		"SELECT pg_catalog.max(d.at) FROM @.notify_decision AS d WHERE d.claim OPERATOR(pg_catalog.=) $1"
		" AND d.verb OPERATOR(pg_catalog.=) 'REOPEN'",
		1, {INT8OID}
	},
	[NCLAIM_READ_CLAIM] = {
		"SELECT c.channel, c.biz_key, c.order_no, c.digest_rule, c.digest_mode, c.payload_hash, c.outcome,"
		" c.created_at, c.claim_state"
		" FROM @.notify_claim AS c WHERE c.id OPERATOR(pg_catalog.=) $1",
		1, {INT8OID}
	},
	/* The review of one that was given up has it after that. */
	[NCLAIM_READ_BODY] = {
		"SELECT k.raw_body, k.data FROM ("
		"SELECT 0::pg_catalog.int8 AS n, b.raw_body, b.data FROM @.notify_body AS b"
		" WHERE b.claim OPERATOR(pg_catalog.=) $1"
		" UNION ALL SELECT r.id, r.raw_body, r.data FROM @.notify_review AS r"
		" WHERE r.claim OPERATOR(pg_catalog.=) $1 AND " IS_KIND("PARKED_EXPIRED")
		") AS k ORDER BY k.n LIMIT 1",
		1, {INT8OID}
	},
	[NCLAIM_PUT_BODY] = {
		"INSERT INTO @.notify_body (claim, raw_body, data) VALUES ($1, $2, $3)"
		" ON CONFLICT (claim) DO UPDATE SET raw_body = excluded.raw_body, data = excluded.data,"
		" attempts = 0, last_error = NULL",
		3, {INT8OID, BYTEAOID, JSONBOID}
	},
	[NCLAIM_DELETE_BODY] = {
		"DELETE FROM @.notify_body AS b WHERE b.claim OPERATOR(pg_catalog.=) $1",
		1, {INT8OID}
	},
	/* Who else has the row locked is about to count, or has it closed. */
	[NCLAIM_NOTE_FAILURE] = {
		"UPDATE @.notify_body AS b SET attempts = b.attempts OPERATOR(pg_catalog.+) 1, last_error = $2"
		" WHERE b.claim OPERATOR(pg_catalog.=) (SELECT l.claim FROM @.notify_body AS l"
		" WHERE l.claim OPERATOR(pg_catalog.=) $1 FOR NO KEY UPDATE SKIP LOCKED)",
		2, {INT8OID, TEXTOID}
	},
	[NCLAIM_INSERT_MESSAGE] = {
		"INSERT INTO @.notify_outbox (id, aggregatetype, aggregateid, type, payload, created_at)"
		" VALUES ($1, $2, $3, $4, $5, $6)",
		6, {UUIDOID, VARCHAROID, VARCHAROID, VARCHAROID, JSONBOID, TIMESTAMPTZOID}
	},
	[NCLAIM_FIND_CHANNEL] = {
		"SELECT c.digest_rule, c.ok_status, c.ok_body, c.fail_status, c.fail_body, c.max_body,"
		" c.keep_body, c.on_conflict, c.on_no_rule"
		" FROM @.notify_channel AS c WHERE c.channel OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_CHANNEL_CLAIM] = {
		"SELECT 1 FROM @.notify_claim AS c WHERE c.channel OPERATOR(pg_catalog.=) $1"
		" AND c.id OPERATOR(pg_catalog.>) $2 LIMIT 1",
		2, {VARCHAROID, INT8OID}
	},
	[NCLAIM_FIND_CHANNEL_REVIEW] = {
		"SELECT 1 FROM @.notify_review AS r WHERE r.channel OPERATOR(pg_catalog.=) $1"
		" AND " IS_STATE("OPEN") " LIMIT 1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_RULE] = {
		"SELECT r.mode, r.ignore FROM @.notify_digest_rule AS r"
		" WHERE r.id OPERATOR(pg_catalog.=) $1",
		1, {INT8OID}
	},
	[NCLAIM_FIND_EVENT] = {
		"SELECT e.machine, e.event_type, e.message_type, e.on_early, e.check_function, e.action_function, e.park_for"
		" FROM @.notify_event AS e WHERE e.event_type OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_EVENTS] = {
		"SELECT e.machine, e.event_type, e.message_type, e.on_early, e.check_function, e.action_function, e.park_for"
		" FROM @.notify_event AS e WHERE e.machine OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_MACHINES] = {
		"SELECT m.machine, m.order_table FROM @.notify_machine AS m",
		0
	},
	[NCLAIM_FIND_MACHINE] = {
		"SELECT m.order_table, m.order_table_name, m.order_column, m.status_column"
		" FROM @.notify_machine AS m WHERE m.machine OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_TRANSITIONS] = {
		"SELECT t.event_type, t.from_status, t.to_status, t.message_type"
		" FROM @.notify_transition AS t WHERE t.machine OPERATOR(pg_catalog.=) $1",
		1, {VARCHAROID}
	},
	[NCLAIM_FIND_REVIEW] = {
		"SELECT r.kind, r.state, r.channel, r.biz_key, r.order_no, r.digest_rule, r.digest_mode,"
		" r.payload_hash, r.raw_body, r.data, r.reason, r.variants, r.claim"
		" FROM @.notify_review AS r WHERE r.id OPERATOR(pg_catalog.=) $1",
		1, {INT8OID}
	},
	[NCLAIM_FIND_HOLDER] = {
		"SELECT r.xmax FROM @.notify_review AS r WHERE r.id OPERATOR(pg_catalog.=) $1"
		" AND " IS_STATE("OPEN"),
		1, {INT8OID}
	},
	[NCLAIM_LOCK_REVIEW] = {
		"SELECT 1 FROM @.notify_review AS r WHERE r.id OPERATOR(pg_catalog.=) $1"
		" AND " IS_STATE("OPEN") " FOR NO KEY UPDATE SKIP LOCKED",
		1, {INT8OID}
	},
	[NCLAIM_FIND_CONFLICT] = {
		"SELECT r.id, r.state FROM @.notify_review AS r"
		" WHERE r.claim OPERATOR(pg_catalog.=) $1"
		" AND " IS_KIND("PAYLOAD_CONFLICT"),
		1, {INT8OID}
	},
	[NCLAIM_FIND_REFUSAL] = {
		"SELECT r.id, r.digest_rule FROM @.notify_review AS r"
		" WHERE r.biz_key OPERATOR(pg_catalog.=) $1 AND r.channel OPERATOR(pg_catalog.=) $2"
		" AND " IS_KIND("CHECK_REFUSED") " AND " IS_STATE("OPEN"),
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_FIND_ALLOWED] = {
		"SELECT 1 FROM @.notify_review AS r WHERE r.claim OPERATOR(pg_catalog.=) $1"
		" AND " IS_KIND("CHECK_REFUSED") " AND " IS_STATE("ALLOWED"),
		1, {INT8OID}
	},
	[NCLAIM_FIND_REFUSED] = {
		"SELECT v.order_no FROM @.notify_review AS r"
		" JOIN @.notify_review_variant AS v ON v.review OPERATOR(pg_catalog.=) r.id"
		" WHERE r.claim OPERATOR(pg_catalog.=) $1"
		" AND " IS_KIND("CHECK_REFUSED") " AND " IS_STATE("DISMISSED")
		" AND v.digest_mode OPERATOR(pg_catalog.=) $2"
		" AND v.payload_hash OPERATOR(pg_catalog.=) $3",
		3, {INT8OID, VARCHAROID, BPCHAROID}
	},
	/* The claim is not deleted before that is committed: purge_claims.c. */
	[NCLAIM_INSERT_REVIEW] = {
		"INSERT INTO @.notify_review AS r (kind, channel, biz_key, claim, order_no, digest_rule,"
		" digest_mode, first_hash, payload_hash, raw_body, data, reason, first_seen, last_seen)"
		" SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13"
		" WHERE COALESCE($4, 0) OPERATOR(pg_catalog.=) COALESCE((SELECT c.id FROM @.notify_claim AS c"
		" WHERE c.biz_key OPERATOR(pg_catalog.=) $3 AND c.channel OPERATOR(pg_catalog.=) $2"
		" FOR KEY SHARE), 0)"
		" ON CONFLICT DO NOTHING RETURNING r.id",
		13, {VARCHAROID, VARCHAROID, VARCHAROID, INT8OID, VARCHAROID, INT8OID, VARCHAROID,
		BPCHAROID, BPCHAROID, BYTEAOID, JSONBOID, TEXTOID, TIMESTAMPTZOID}
	},

	/*
	 * The body of a content that was the last one already is not written
	 * again.
	 */
	[NCLAIM_COUNT_REVIEW] = {
		"UPDATE @.notify_review AS r SET hits = r.hits OPERATOR(pg_catalog.+) 1,"
		" order_no = $2, digest_mode = $3, payload_hash = $4, data = $6, reason = $7, last_seen = $8,"
		" raw_body = CASE WHEN r.digest_mode OPERATOR(pg_catalog.=) $3"
		" AND r.payload_hash OPERATOR(pg_catalog.=) $4 THEN r.raw_body ELSE $5 END"
		" WHERE r.id OPERATOR(pg_catalog.=) $1 AND " IS_STATE("OPEN"),
		8, {INT8OID, VARCHAROID, VARCHAROID, BPCHAROID, BYTEAOID, JSONBOID, TEXTOID, TIMESTAMPTZOID}
	},
	[NCLAIM_INSERT_VARIANT] = {
		"INSERT INTO @.notify_review_variant (review, digest_mode, payload_hash, order_no, first_seen)"
		" VALUES ($1, $2, $3, $4, $5)"
		" ON CONFLICT (review, digest_mode, payload_hash, order_no) DO NOTHING",
		5, {INT8OID, VARCHAROID, BPCHAROID, VARCHAROID, TIMESTAMPTZOID}
	},
	[NCLAIM_COUNT_VARIANT] = {
		"UPDATE @.notify_review AS r SET variants = r.variants OPERATOR(pg_catalog.+) 1"
		" WHERE r.id OPERATOR(pg_catalog.=) $1",
		1, {INT8OID}
	},
	/* An open conflict with a claim of the key that exists no longer. */
	[NCLAIM_OVERTAKE_CONFLICT] = {
		"UPDATE @.notify_review AS r SET state = 'OVERTAKEN', resolved_at = $3"
		" WHERE r.biz_key OPERATOR(pg_catalog.=) $1 AND r.channel OPERATOR(pg_catalog.=) $2"
		" AND " IS_KIND("PAYLOAD_CONFLICT") " AND " IS_STATE("OPEN")
		" AND NOT EXISTS (SELECT 1 FROM @.notify_claim AS c WHERE c.id OPERATOR(pg_catalog.=) r.claim)",
		3, {VARCHAROID, VARCHAROID, TIMESTAMPTZOID}
	},
	[NCLAIM_FIND_OPEN_REFUSAL] = {
		"SELECT r.id FROM @.notify_review AS r"
		" WHERE r.biz_key OPERATOR(pg_catalog.=) $1 AND r.channel OPERATOR(pg_catalog.=) $2"
		" AND r.kind OPERATOR(pg_catalog.=) $3 AND " IS_STATE("OPEN"),
		3, {VARCHAROID, VARCHAROID, VARCHAROID}
	},
	[NCLAIM_OVERTAKE_REFUSAL] = {
		"UPDATE @.notify_review AS r SET state = 'OVERTAKEN', resolved_at = $3"
		" WHERE r.biz_key OPERATOR(pg_catalog.=) $1 AND r.channel OPERATOR(pg_catalog.=) $2"
		" AND r.claim IS NULL AND " IS_KIND("CHECK_REFUSED") " AND " IS_STATE("OPEN"),
		3, {VARCHAROID, VARCHAROID, TIMESTAMPTZOID}
	},
	/* Numbered in the order of the arrays. */
	[NCLAIM_IMPORT_CLAIMS] = {
		"INSERT INTO @.notify_claim (channel, biz_key, order_no, payload_hash,"
		" digest_mode, claim_state, outcome, result_json, created_at)"
		" SELECT $1, s.biz_key, s.order_no, '" NCLAIM_UNKNOWN_DIGEST "', '" NCLAIM_UNKNOWN_MODE "', 'DONE', 'APPLIED',"
		" '{\"from\": null, \"status\": null, \"reason\": \"imported\"}', s.created_at"
		" FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3), pg_catalog.unnest($4))"
		" AS s (biz_key, order_no, created_at)"
		" ON CONFLICT (biz_key, channel) DO NOTHING",
		4, {VARCHAROID, TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID}
	},
	/* How many of these keys have a claim. */
	[NCLAIM_COUNT_KNOWN] = {
		"SELECT pg_catalog.count(*) FROM pg_catalog.unnest($2) AS s (biz_key)"
		" WHERE " NCLAIM_THERE_IS("@.notify_claim AS c WHERE c.biz_key OPERATOR(pg_catalog.=) s.biz_key"
								  " AND c.channel OPERATOR(pg_catalog.=) $1"),
		2, {VARCHAROID, TEXTARRAYOID}
	},
};
