/*-------------------------------------------------------------------------
 *
 * statements.c
 *		The statements on the extension's own tables that are run often.
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

/* Partition of an outbox message's order. */
#define PARTITION(m) \
	"(pg_catalog.hashtext(" m ".aggregateid::pg_catalog.text) OPERATOR(pg_catalog.&) 31)"

/* A number in a partition, and what notify_outbox_partition_idx has. */
#define KEY(partition, seq) \
	"(((" partition ")::pg_catalog.int8 OPERATOR(pg_catalog.<<) 57) OPERATOR(pg_catalog.|) " seq ")"
#define MESSAGE_KEY(m) KEY(PARTITION(m), m ".seq")

/* A partition's messages after a number, oldest first. */
#define MESSAGES_AFTER(m, partition, seq) \
	"@.notify_outbox AS " m " WHERE " MESSAGE_KEY(m) " OPERATOR(pg_catalog.>) " KEY(partition, seq) \
	" AND " MESSAGE_KEY(m) " OPERATOR(pg_catalog.<) " KEY(partition " OPERATOR(pg_catalog.+) 1", "0") \
	" ORDER BY " MESSAGE_KEY(m)

/*
 * The messages $2 of partition $1.  As a condition, "= ANY" is one that the
 * planner may choose to filter the partition by, all of it.
 */
#define MESSAGES \
	"pg_catalog.unnest($2) AS s (seq), LATERAL (SELECT k.* FROM @.notify_outbox AS k" \
	" WHERE " MESSAGE_KEY("k") " OPERATOR(pg_catalog.=) " KEY("$1", "s.seq") " LIMIT 1) AS m"

/* The same as a condition. */
#define IS_MESSAGE(m) \
	m ".ctid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT i.ctid FROM pg_catalog.unnest($2) AS s (seq)," \
	" LATERAL (SELECT k.ctid FROM @.notify_outbox AS k" \
	" WHERE " MESSAGE_KEY("k") " OPERATOR(pg_catalog.=) " KEY("$1", "s.seq") " LIMIT 1) AS i))"

/* How often a message has failed; as a join that may be a scan for each row. */
#define ATTEMPTS(column, m) \
	"(SELECT a." column " FROM @.notify_outbox_attempt AS a WHERE a.seq OPERATOR(pg_catalog.=) " m ".seq)"

/* Before a number of a partition that is not decided none of its order is done. */
#define UNDECIDED(partition) \
	"(SELECT p.low OPERATOR(pg_catalog.+) 1 FROM @.notify_outbox_partition AS p" \
	" WHERE p.partition OPERATOR(pg_catalog.=) " partition ")"

/* Rows of notify_outbox_held, but those that somebody else is at. */
#define LOCKED_HELD(condition) \
	"(SELECT l.ctid AS tid FROM (SELECT m.aggregatetype, m.aggregateid" \
	" FROM " MESSAGES " GROUP BY m.aggregatetype, m.aggregateid) AS g" \
	" JOIN @.notify_outbox_held AS l ON " SAME_ORDER("l", "g") " WHERE " condition \
	" FOR NO KEY UPDATE OF l SKIP LOCKED)"

#define SAME_ORDER(a, b) \
	a ".aggregateid OPERATOR(pg_catalog.=) " b ".aggregateid" \
	" AND " a ".aggregatetype OPERATOR(pg_catalog.=) " b ".aggregatetype"

/* What a consumer gets of a message, before its attempt. */
#define MESSAGE \
	"m.seq, m.id, m.aggregatetype::pg_catalog.text, m.aggregateid::pg_catalog.text," \
	" m.type::pg_catalog.text, m.payload, m.created_at"

/* The rows of partition $1 in notify_outbox_leased. */
#define LEASES \
	"@.notify_outbox_leased AS l WHERE l.partition OPERATOR(pg_catalog.=) $1" \
	" AND l.slot OPERATOR(pg_catalog.>=) (SELECT p.first_slot" \
	" FROM @.notify_outbox_partition AS p WHERE p.partition OPERATOR(pg_catalog.=) $1)"

/* Scalar subqueries with LIMIT are never hashed, as EXISTS might be. */
#define THERE_IS(query) "(SELECT 1 FROM " query " LIMIT 1) IS NOT NULL"

/* In the statements below "@" stands for the extension's schema. */
const NClaimOwnSql nclaim_own_statements[NCLAIM_OWN_STATEMENTS] = {
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
	/* Beginning with $1, without those whose bit is in $2. */
	[NCLAIM_FIND_WORK] = {
		"SELECT p.partition FROM (SELECT w.* FROM @.notify_outbox_partition AS w"
		" WHERE (($2 OPERATOR(pg_catalog.>>) w.partition) OPERATOR(pg_catalog.&) 1) OPERATOR(pg_catalog.=) 0"
		" ORDER BY (w.partition OPERATOR(pg_catalog.-) $1) OPERATOR(pg_catalog.&) 31 OFFSET 0) AS p"
		" WHERE ((SELECT m.id FROM " MESSAGES_AFTER("m", "p.partition", "p.low") " LIMIT 1) IS NOT NULL"
		" OR " THERE_IS("@.notify_outbox_held AS h WHERE h.partition OPERATOR(pg_catalog.=) p.partition"
						" AND h.due_at OPERATOR(pg_catalog.<=) $3") ")"
		" AND ($5 OR NOT (" THERE_IS("@.notify_outbox_leased AS l WHERE l.partition OPERATOR(pg_catalog.=) p.partition"
									 " AND l.slot OPERATOR(pg_catalog.>=) p.first_slot"
									 " AND l.leased_until OPERATOR(pg_catalog.>) $3"
									 " AND pg_catalog.cardinality(l.seqs) OPERATOR(pg_catalog.>) 0") "))"
		" LIMIT $4",
		5, {INT4OID, INT8OID, TIMESTAMPTZOID, INT4OID, BOOLOID}
	},
	/* The mark is decided once all transactions that it knew of are over. */
	[NCLAIM_LOCK_PARTITION] = {
		"SELECT p.low, p.mark_seq,"
		" pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) OPERATOR(pg_catalog.>=) p.mark_xmax,"
		" p.first_slot, "
		THERE_IS("@.notify_outbox_held AS h WHERE h.partition OPERATOR(pg_catalog.=) p.partition")
		" FROM @.notify_outbox_partition AS p WHERE p.partition OPERATOR(pg_catalog.=) $1"
		" FOR NO KEY UPDATE SKIP LOCKED",
		1, {INT4OID}
	},
	[NCLAIM_MOVE_MARK] = {
		"UPDATE @.notify_outbox_partition AS p SET low = $2, mark_seq = $3, mark_xmax = $4"
		" WHERE p.partition OPERATOR(pg_catalog.=) $1",
		4, {INT4OID, INT8OID, INT8OID, XID8OID}
	},
	[NCLAIM_FIND_LEASES] = {
		"SELECT l.slot, l.leased_until, l.seqs, l.uses FROM @.notify_outbox_leased AS l"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.>=) $2"
		" ORDER BY l.leased_until",
		2, {INT4OID, INT4OID}
	},
	[NCLAIM_FIND_TOKENS] = {
		"SELECT pg_catalog.string_agg(l.token::pg_catalog.text, ' ' ORDER BY l.slot) FROM " LEASES,
		1, {INT4OID}
	},
	[NCLAIM_LOCK_ENDING] = {
		"SELECT l.seqs FROM @.notify_outbox_leased AS l"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=) $2"
		" AND l.leased_until OPERATOR(pg_catalog.<=) $3 FOR NO KEY UPDATE SKIP LOCKED",
		3, {INT4OID, INT4OID, TIMESTAMPTZOID}
	},
	[NCLAIM_TAKE_SLOT] = {
		"UPDATE @.notify_outbox_leased AS l SET uses = l.uses OPERATOR(pg_catalog.+) 1, token = $3,"
		" consumer = $4, leased_until = $5, held = $6, seqs = $7, acked = '{}'"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=)"
		" (SELECT k.slot FROM @.notify_outbox_leased AS k"
		" WHERE k.partition OPERATOR(pg_catalog.=) $1 AND k.slot OPERATOR(pg_catalog.=) $2"
		" AND pg_catalog.cardinality(k.seqs) OPERATOR(pg_catalog.=) 0 FOR NO KEY UPDATE SKIP LOCKED)",
		7, {INT4OID, INT4OID, UUIDOID, VARCHAROID, TIMESTAMPTZOID, BOOLOID, INT8ARRAYOID}
	},
	[NCLAIM_DELETE_SLOT] = {
		"DELETE FROM @.notify_outbox_leased AS l"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=)"
		" (SELECT k.slot FROM @.notify_outbox_leased AS k"
		" WHERE k.partition OPERATOR(pg_catalog.=) $1 AND k.slot OPERATOR(pg_catalog.=) $2"
		" AND pg_catalog.cardinality(k.seqs) OPERATOR(pg_catalog.=) 0 FOR UPDATE SKIP LOCKED)",
		2, {INT4OID, INT4OID}
	},
	[NCLAIM_SET_FIRST_SLOT] = {
		"UPDATE @.notify_outbox_partition AS p SET first_slot = $2"
		" WHERE p.partition OPERATOR(pg_catalog.=) $1",
		2, {INT4OID, INT4OID}
	},
	[NCLAIM_ADD_SLOT] = {
		"INSERT INTO @.notify_outbox_leased (partition, slot, uses, token, consumer, leased_until, held, seqs, acked)"
		" VALUES ($1, $2, 1, $3, $4, $5, $6, $7, '{}')",
		7, {INT4OID, INT4OID, UUIDOID, VARCHAROID, TIMESTAMPTZOID, BOOLOID, INT8ARRAYOID}
	},
	[NCLAIM_LOCK_LEASE] = {
		"SELECT l.slot, l.leased_until, l.held, l.seqs, l.acked FROM " LEASES
		" AND l.token OPERATOR(pg_catalog.=) $2 FOR NO KEY UPDATE",
		2, {INT4OID, UUIDOID}
	},
	[NCLAIM_SET_LEASE] = {
		"UPDATE @.notify_outbox_leased AS l SET uses = l.uses OPERATOR(pg_catalog.+) 1,"
		" leased_until = $3, held = $4, seqs = $5, acked = $6"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=) $2",
		6, {INT4OID, INT4OID, TIMESTAMPTZOID, BOOLOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[NCLAIM_SET_HELD] = {
		"UPDATE @.notify_outbox_leased AS l SET held = true"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=) $2",
		2, {INT4OID, INT4OID}
	},
	[NCLAIM_EMPTY_SLOT] = {
		"UPDATE @.notify_outbox_leased AS l SET seqs = '{}'"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=) $2",
		2, {INT4OID, INT4OID}
	},
	/* Whether any order of the partition is held is asked but once. */
	[NCLAIM_FIND_MESSAGES] = {
		"SELECT " MESSAGE ", 1, "
		THERE_IS("@.notify_outbox_held AS p WHERE p.partition OPERATOR(pg_catalog.=) $1") " AND "
		THERE_IS("@.notify_outbox_held AS h WHERE " SAME_ORDER("h", "m"))
		" FROM " MESSAGES_AFTER("m", "$1", "$2") " LIMIT $3",
		3, {INT4OID, INT8OID, INT4OID}
	},
	[NCLAIM_FIND_DUE] = {
		"SELECT h.aggregatetype, h.aggregateid, h.first_seq FROM @.notify_outbox_held AS h"
		" WHERE h.partition OPERATOR(pg_catalog.=) $1 AND h.due_at OPERATOR(pg_catalog.<=) $2"
		" ORDER BY h.due_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED",
		3, {INT4OID, TIMESTAMPTZOID, INT4OID}
	},
	/* Also whether a message waits behind a dead letter. */
	[NCLAIM_FIND_HELD_MESSAGES] = {
		"SELECT " MESSAGE ", COALESCE(" ATTEMPTS("attempts", "m") ", 0) OPERATOR(pg_catalog.+) 1, "
		ATTEMPTS("retry_at", "m") ", "
		THERE_IS("@.notify_outbox_dead AS d WHERE " SAME_ORDER("d", "m")
				 " AND d.seq OPERATOR(pg_catalog.<) m.seq AND d.blocks")
		" FROM @.notify_outbox AS m"
		" WHERE m.aggregatetype OPERATOR(pg_catalog.=) $1 AND m.aggregateid OPERATOR(pg_catalog.=) $2"
		" AND m.seq OPERATOR(pg_catalog.>=) $3 ORDER BY m.seq LIMIT $4",
		4, {VARCHAROID, VARCHAROID, INT8OID, INT4OID}
	},
	[NCLAIM_FIND_BLOCKING] = {
		"SELECT 1 FROM @.notify_outbox_dead AS d WHERE d.aggregatetype OPERATOR(pg_catalog.=) $1"
		" AND d.aggregateid OPERATOR(pg_catalog.=) $2 AND d.blocks LIMIT 1",
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_SET_DUE] = {
		"UPDATE @.notify_outbox_held AS h SET due_at = $3,"
		" first_seq = LEAST($4, (SELECT p.low OPERATOR(pg_catalog.+) 1 FROM @.notify_outbox_partition AS p"
		" WHERE p.partition OPERATOR(pg_catalog.=) h.partition))"
		" WHERE h.aggregatetype OPERATOR(pg_catalog.=) $1 AND h.aggregateid OPERATOR(pg_catalog.=) $2",
		4, {VARCHAROID, VARCHAROID, TIMESTAMPTZOID, INT8OID}
	},
	[NCLAIM_DELETE_HELD] = {
		"DELETE FROM @.notify_outbox_held AS h WHERE h.aggregatetype OPERATOR(pg_catalog.=) $1"
		" AND h.aggregateid OPERATOR(pg_catalog.=) $2",
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_HOLD_ORDERS] = {
		"INSERT INTO @.notify_outbox_held AS h (aggregatetype, aggregateid, first_seq, due_at)"
		" SELECT m.aggregatetype, m.aggregateid, LEAST(pg_catalog.min(m.seq), " UNDECIDED("$1") "), $3"
		" FROM " MESSAGES " GROUP BY m.aggregatetype, m.aggregateid"
		" ON CONFLICT (aggregateid, aggregatetype) DO UPDATE SET due_at = excluded.due_at,"
		" first_seq = LEAST(h.first_seq, excluded.first_seq)",
		3, {INT4OID, INT8ARRAYOID, TIMESTAMPTZOID}
	},
	/* Orders that are held, and whose messages $2 nobody has any more. */
	[NCLAIM_WAKE_HELD] = {
		"UPDATE @.notify_outbox_held AS h SET due_at = $3"
		" FROM " LOCKED_HELD("true") " AS w WHERE h.ctid OPERATOR(pg_catalog.=) w.tid",
		3, {INT4OID, INT8ARRAYOID, TIMESTAMPTZOID}
	},
	/* The same where the messages are leased for a shorter time. */
	[NCLAIM_SHORTEN_HELD] = {
		"UPDATE @.notify_outbox_held AS h SET due_at = $3"
		" FROM " LOCKED_HELD("l.due_at OPERATOR(pg_catalog.>) $3") " AS w WHERE h.ctid OPERATOR(pg_catalog.=) w.tid",
		3, {INT4OID, INT8ARRAYOID, TIMESTAMPTZOID}
	},
	[NCLAIM_FIND_ORDERS] = {
		"SELECT m.seq, m.aggregatetype, m.aggregateid FROM " MESSAGES " ORDER BY m.seq",
		2, {INT4OID, INT8ARRAYOID}
	},
	[NCLAIM_DELETE_MESSAGES] = {
		"DELETE FROM @.notify_outbox AS m WHERE " IS_MESSAGE("m"),
		2, {INT4OID, INT8ARRAYOID}
	},

	/*
	 * The same where they are most of what the partition has between $3 and
	 * $4.  With IS TRUE the planner takes "= ANY" for no join.
	 */
	[NCLAIM_DELETE_RANGE] = {
		"DELETE FROM @.notify_outbox AS m"
		" WHERE " MESSAGE_KEY("m") " OPERATOR(pg_catalog.>=) " KEY("$1", "$3")
		" AND " MESSAGE_KEY("m") " OPERATOR(pg_catalog.<=) " KEY("$1", "$4")
		" AND (m.seq OPERATOR(pg_catalog.=) ANY (SELECT pg_catalog.unnest($2))) IS TRUE",
		4, {INT4OID, INT8ARRAYOID, INT8OID, INT8OID}
	},
	[NCLAIM_DELETE_ATTEMPTS] = {
		"DELETE FROM @.notify_outbox_attempt AS a WHERE a.seq OPERATOR(pg_catalog.=) ANY ($1)",
		1, {INT8ARRAYOID}
	},
	[NCLAIM_COUNT_ATTEMPTS] = {
		"INSERT INTO @.notify_outbox_attempt AS a (seq, attempts, last_error, failed_at, retry_at)"
		" SELECT m.seq, 1, $3, $4,"
		" $4 OPERATOR(pg_catalog.+) (LEAST($5, $6) OPERATOR(pg_catalog.*) '1 ms'::pg_catalog.interval)"
		" FROM " MESSAGES
		" ON CONFLICT (seq) DO UPDATE SET attempts = a.attempts OPERATOR(pg_catalog.+) 1,"
		" last_error = COALESCE(excluded.last_error, a.last_error), failed_at = excluded.failed_at,"
		" retry_at = $4 OPERATOR(pg_catalog.+) (LEAST($5 OPERATOR(pg_catalog.*)"
		" pg_catalog.power(2, LEAST(a.attempts, 60)), $6) OPERATOR(pg_catalog.*) '1 ms'::pg_catalog.interval)",
		6, {INT4OID, INT8ARRAYOID, TEXTOID, TIMESTAMPTZOID, FLOAT8OID, FLOAT8OID}
	},

	/*
	 * Of the messages $2 those that have had $3 attempts, and with "heads
	 * only" ($7) the first of an order alone.
	 */
	[NCLAIM_BURY_MESSAGES] = {
		"WITH dead AS (DELETE FROM @.notify_outbox AS m"
		" WHERE " IS_MESSAGE("m") " AND " ATTEMPTS("attempts", "m") " OPERATOR(pg_catalog.>=) $3"
		" AND (NOT $7 OR (SELECT 1 FROM @.notify_outbox AS e WHERE " SAME_ORDER("e", "m")
		" AND e.seq OPERATOR(pg_catalog.<) m.seq LIMIT 1) IS NULL)"
		" RETURNING m.seq, m.id, m.aggregatetype, m.aggregateid, m.type, m.payload, m.created_at, "
		ATTEMPTS("attempts", "m") " AS attempts, " ATTEMPTS("last_error", "m") " AS last_error),"
		" counted AS (DELETE FROM @.notify_outbox_attempt AS a USING dead"
		" WHERE a.seq OPERATOR(pg_catalog.=) dead.seq)"
		" INSERT INTO @.notify_outbox_dead (seq, id, aggregatetype, aggregateid, type, payload, created_at,"
		" reason, attempts, last_error, dead_at, blocks)"
		" SELECT dead.seq, dead.id, dead.aggregatetype, dead.aggregateid, dead.type, dead.payload, dead.created_at,"
		" $6, dead.attempts, dead.last_error, $4, $5 FROM dead RETURNING seq, aggregatetype, aggregateid, attempts",
		7, {INT4OID, INT8ARRAYOID, INT4OID, TIMESTAMPTZOID, BOOLOID, VARCHAROID, BOOLOID}
	},
	[NCLAIM_LOCK_DEAD] = {
		"SELECT 1 FROM @.notify_outbox_partition AS p WHERE p.partition OPERATOR(pg_catalog.=)"
		" (SELECT " PARTITION("d") " FROM @.notify_outbox_dead AS d WHERE d.seq OPERATOR(pg_catalog.=) $1)"
		" FOR NO KEY UPDATE",
		1, {INT8OID}
	},
	[NCLAIM_REDRIVE_MESSAGE] = {
		"WITH back AS (DELETE FROM @.notify_outbox_dead AS d WHERE d.seq OPERATOR(pg_catalog.=) $1 RETURNING d.*),"
		" put AS (INSERT INTO @.notify_outbox (seq, id, aggregatetype, aggregateid, type, payload, created_at)"
		" OVERRIDING SYSTEM VALUE SELECT b.seq, b.id, b.aggregatetype, b.aggregateid, b.type, b.payload, b.created_at"
		" FROM back AS b)"
		" INSERT INTO @.notify_outbox_held AS h (aggregatetype, aggregateid, first_seq, due_at)"
		" SELECT b.aggregatetype, b.aggregateid, LEAST(b.seq, " UNDECIDED(PARTITION("b")) "), $2 FROM back AS b"
		" ON CONFLICT (aggregateid, aggregatetype) DO UPDATE SET due_at = excluded.due_at,"
		" first_seq = LEAST(h.first_seq, excluded.first_seq)",
		2, {INT8OID, TIMESTAMPTZOID}
	},
	[NCLAIM_LOCK_OLD_DEAD] = {
		"SELECT 1 FROM @.notify_outbox_partition AS p WHERE p.partition OPERATOR(pg_catalog.=) ANY"
		" (ARRAY(SELECT " PARTITION("d") " FROM @.notify_outbox_dead AS d"
		" WHERE d.dead_at OPERATOR(pg_catalog.<) $1 AND d.blocks))"
		" ORDER BY p.partition FOR NO KEY UPDATE",
		1, {TIMESTAMPTZOID}
	},
	/* What waited behind one is looked at again. */
	[NCLAIM_PURGE_DEAD] = {
		"WITH gone AS (DELETE FROM @.notify_outbox_dead AS d WHERE d.dead_at OPERATOR(pg_catalog.<) $1"
		" RETURNING d.aggregatetype, d.aggregateid),"
		" woken AS (UPDATE @.notify_outbox_held AS h SET due_at = $2 FROM gone AS g"
		" WHERE " SAME_ORDER("h", "g") ")"
		" SELECT pg_catalog.count(*) FROM gone",
		2, {TIMESTAMPTZOID, TIMESTAMPTZOID}
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
	[NCLAIM_INSERT_REVIEW] = {
		"INSERT INTO @.notify_review AS r (kind, channel, biz_key, claim, order_no, digest_rule,"
		" digest_mode, first_hash, payload_hash, raw_body, data, reason, first_seen, last_seen)"
		" SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13"
		" WHERE COALESCE($4, 0) OPERATOR(pg_catalog.=) COALESCE((SELECT c.id FROM @.notify_claim AS c"
		" WHERE c.biz_key OPERATOR(pg_catalog.=) $3 AND c.channel OPERATOR(pg_catalog.=) $2), 0)"
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
};
