/*-------------------------------------------------------------------------
 *
 * relay_statements.c
 *		The statements that consume the outbox, and deal with dead letters.
 *
 * extension.c prepares and runs them.  Nothing here is ever changed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "notify_claim.h"

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

/* In the statements below "@" stands for the extension's schema. */
const NClaimOwnSql nclaim_relay_statements[] = {
	/* Beginning with $1, without those whose bit is in $2. */
	[NCLAIM_FIND_WORK - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT p.partition FROM (SELECT w.* FROM @.notify_outbox_partition AS w"
		" WHERE (($2 OPERATOR(pg_catalog.>>) w.partition) OPERATOR(pg_catalog.&) 1) OPERATOR(pg_catalog.=) 0"
		" ORDER BY (w.partition OPERATOR(pg_catalog.-) $1) OPERATOR(pg_catalog.&) 31 OFFSET 0) AS p"
		" WHERE ((SELECT m.id FROM " MESSAGES_AFTER("m", "p.partition", "p.low") " LIMIT 1) IS NOT NULL"
		" OR " NCLAIM_THERE_IS("@.notify_outbox_held AS h WHERE h.partition OPERATOR(pg_catalog.=) p.partition"
							   " AND h.due_at OPERATOR(pg_catalog.<=) $3") ")"
		" AND ($5 OR NOT (" NCLAIM_THERE_IS("@.notify_outbox_leased AS l WHERE l.partition OPERATOR(pg_catalog.=) p.partition"
											" AND l.slot OPERATOR(pg_catalog.>=) p.first_slot"
											" AND l.leased_until OPERATOR(pg_catalog.>) $3"
											" AND pg_catalog.cardinality(l.seqs) OPERATOR(pg_catalog.>) 0") "))"
		" LIMIT $4",
		5, {INT4OID, INT8OID, TIMESTAMPTZOID, INT4OID, BOOLOID}
	},
	/* The mark is decided once all transactions that it knew of are over. */
	[NCLAIM_LOCK_PARTITION - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT p.low, p.mark_seq,"
		" pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) OPERATOR(pg_catalog.>=) p.mark_xmax,"
		" p.first_slot, "
		NCLAIM_THERE_IS("@.notify_outbox_held AS h WHERE h.partition OPERATOR(pg_catalog.=) p.partition")
		" FROM @.notify_outbox_partition AS p WHERE p.partition OPERATOR(pg_catalog.=) $1"
		" FOR NO KEY UPDATE SKIP LOCKED",
		1, {INT4OID}
	},
	[NCLAIM_MOVE_MARK - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_partition AS p SET low = $2, mark_seq = $3, mark_xmax = $4"
		" WHERE p.partition OPERATOR(pg_catalog.=) $1",
		4, {INT4OID, INT8OID, INT8OID, XID8OID}
	},
	[NCLAIM_FIND_LEASES - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT l.slot, l.leased_until, l.seqs, l.uses FROM @.notify_outbox_leased AS l"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.>=) $2"
		" ORDER BY l.leased_until",
		2, {INT4OID, INT4OID}
	},
	[NCLAIM_FIND_TOKENS - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT pg_catalog.string_agg(l.token::pg_catalog.text, ' ' ORDER BY l.slot) FROM " LEASES,
		1, {INT4OID}
	},
	[NCLAIM_LOCK_ENDING - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT l.seqs FROM @.notify_outbox_leased AS l"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=) $2"
		" AND l.leased_until OPERATOR(pg_catalog.<=) $3 FOR NO KEY UPDATE SKIP LOCKED",
		3, {INT4OID, INT4OID, TIMESTAMPTZOID}
	},
	[NCLAIM_TAKE_SLOT - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_leased AS l SET uses = l.uses OPERATOR(pg_catalog.+) 1, token = $3,"
		" consumer = $4, leased_until = $5, held = $6, seqs = $7, acked = '{}'"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=)"
		" (SELECT k.slot FROM @.notify_outbox_leased AS k"
		" WHERE k.partition OPERATOR(pg_catalog.=) $1 AND k.slot OPERATOR(pg_catalog.=) $2"
		" AND pg_catalog.cardinality(k.seqs) OPERATOR(pg_catalog.=) 0 FOR NO KEY UPDATE SKIP LOCKED)",
		7, {INT4OID, INT4OID, UUIDOID, VARCHAROID, TIMESTAMPTZOID, BOOLOID, INT8ARRAYOID}
	},
	[NCLAIM_DELETE_SLOT - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"DELETE FROM @.notify_outbox_leased AS l"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=)"
		" (SELECT k.slot FROM @.notify_outbox_leased AS k"
		" WHERE k.partition OPERATOR(pg_catalog.=) $1 AND k.slot OPERATOR(pg_catalog.=) $2"
		" AND pg_catalog.cardinality(k.seqs) OPERATOR(pg_catalog.=) 0 FOR UPDATE SKIP LOCKED)",
		2, {INT4OID, INT4OID}
	},
	[NCLAIM_SET_FIRST_SLOT - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_partition AS p SET first_slot = $2"
		" WHERE p.partition OPERATOR(pg_catalog.=) $1",
		2, {INT4OID, INT4OID}
	},
	[NCLAIM_ADD_SLOT - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"INSERT INTO @.notify_outbox_leased (partition, slot, uses, token, consumer, leased_until, held, seqs, acked)"
		" VALUES ($1, $2, 1, $3, $4, $5, $6, $7, '{}')",
		7, {INT4OID, INT4OID, UUIDOID, VARCHAROID, TIMESTAMPTZOID, BOOLOID, INT8ARRAYOID}
	},
	[NCLAIM_LOCK_LEASE - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT l.slot, l.leased_until, l.held, l.seqs, l.acked FROM " LEASES
		" AND l.token OPERATOR(pg_catalog.=) $2 FOR NO KEY UPDATE",
		2, {INT4OID, UUIDOID}
	},
	[NCLAIM_SET_LEASE - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_leased AS l SET uses = l.uses OPERATOR(pg_catalog.+) 1,"
		" leased_until = $3, held = $4, seqs = $5, acked = $6"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=) $2",
		6, {INT4OID, INT4OID, TIMESTAMPTZOID, BOOLOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[NCLAIM_SET_HELD - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_leased AS l SET held = true"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=) $2",
		2, {INT4OID, INT4OID}
	},
	[NCLAIM_EMPTY_SLOT - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_leased AS l SET seqs = '{}'"
		" WHERE l.partition OPERATOR(pg_catalog.=) $1 AND l.slot OPERATOR(pg_catalog.=) $2",
		2, {INT4OID, INT4OID}
	},
	/* Whether any order of the partition is held is asked but once. */
	[NCLAIM_FIND_MESSAGES - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT " MESSAGE ", 1, "
		NCLAIM_THERE_IS("@.notify_outbox_held AS p WHERE p.partition OPERATOR(pg_catalog.=) $1") " AND "
		NCLAIM_THERE_IS("@.notify_outbox_held AS h WHERE " SAME_ORDER("h", "m"))
		" FROM " MESSAGES_AFTER("m", "$1", "$2") " LIMIT $3",
		3, {INT4OID, INT8OID, INT4OID}
	},
	[NCLAIM_FIND_DUE - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT h.aggregatetype, h.aggregateid, h.first_seq FROM @.notify_outbox_held AS h"
		" WHERE h.partition OPERATOR(pg_catalog.=) $1 AND h.due_at OPERATOR(pg_catalog.<=) $2"
		" ORDER BY h.due_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED",
		3, {INT4OID, TIMESTAMPTZOID, INT4OID}
	},
	/* Also whether a message waits behind a dead letter. */
	[NCLAIM_FIND_HELD_MESSAGES - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT " MESSAGE ", COALESCE(" ATTEMPTS("attempts", "m") ", 0) OPERATOR(pg_catalog.+) 1, "
		ATTEMPTS("retry_at", "m") ", "
		NCLAIM_THERE_IS("@.notify_outbox_dead AS d WHERE " SAME_ORDER("d", "m")
						" AND d.seq OPERATOR(pg_catalog.<) m.seq AND d.blocks")
		" FROM @.notify_outbox AS m"
		" WHERE m.aggregatetype OPERATOR(pg_catalog.=) $1 AND m.aggregateid OPERATOR(pg_catalog.=) $2"
		" AND m.seq OPERATOR(pg_catalog.>=) $3 ORDER BY m.seq LIMIT $4",
		4, {VARCHAROID, VARCHAROID, INT8OID, INT4OID}
	},
	[NCLAIM_FIND_BLOCKING - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT 1 FROM @.notify_outbox_dead AS d WHERE d.aggregatetype OPERATOR(pg_catalog.=) $1"
		" AND d.aggregateid OPERATOR(pg_catalog.=) $2 AND d.blocks LIMIT 1",
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_SET_DUE - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_held AS h SET due_at = $3,"
		" first_seq = LEAST($4, (SELECT p.low OPERATOR(pg_catalog.+) 1 FROM @.notify_outbox_partition AS p"
		" WHERE p.partition OPERATOR(pg_catalog.=) h.partition))"
		" WHERE h.aggregatetype OPERATOR(pg_catalog.=) $1 AND h.aggregateid OPERATOR(pg_catalog.=) $2",
		4, {VARCHAROID, VARCHAROID, TIMESTAMPTZOID, INT8OID}
	},
	[NCLAIM_DELETE_HELD - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"DELETE FROM @.notify_outbox_held AS h WHERE h.aggregatetype OPERATOR(pg_catalog.=) $1"
		" AND h.aggregateid OPERATOR(pg_catalog.=) $2",
		2, {VARCHAROID, VARCHAROID}
	},
	[NCLAIM_HOLD_ORDERS - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"INSERT INTO @.notify_outbox_held AS h (aggregatetype, aggregateid, first_seq, due_at)"
		" SELECT m.aggregatetype, m.aggregateid, LEAST(pg_catalog.min(m.seq), " UNDECIDED("$1") "), $3"
		" FROM " MESSAGES " GROUP BY m.aggregatetype, m.aggregateid"
		" ON CONFLICT (aggregateid, aggregatetype) DO UPDATE SET due_at = excluded.due_at,"
		" first_seq = LEAST(h.first_seq, excluded.first_seq)",
		3, {INT4OID, INT8ARRAYOID, TIMESTAMPTZOID}
	},
	/* Orders that are held, and whose messages $2 nobody has any more. */
	[NCLAIM_WAKE_HELD - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_held AS h SET due_at = $3"
		" FROM " LOCKED_HELD("true") " AS w WHERE h.ctid OPERATOR(pg_catalog.=) w.tid",
		3, {INT4OID, INT8ARRAYOID, TIMESTAMPTZOID}
	},
	/* The same where the messages are leased for a shorter time. */
	[NCLAIM_SHORTEN_HELD - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"UPDATE @.notify_outbox_held AS h SET due_at = $3"
		" FROM " LOCKED_HELD("l.due_at OPERATOR(pg_catalog.>) $3") " AS w WHERE h.ctid OPERATOR(pg_catalog.=) w.tid",
		3, {INT4OID, INT8ARRAYOID, TIMESTAMPTZOID}
	},
	[NCLAIM_FIND_ORDERS - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT m.seq, m.aggregatetype, m.aggregateid FROM " MESSAGES " ORDER BY m.seq",
		2, {INT4OID, INT8ARRAYOID}
	},
	[NCLAIM_DELETE_MESSAGES - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"DELETE FROM @.notify_outbox AS m WHERE " IS_MESSAGE("m"),
		2, {INT4OID, INT8ARRAYOID}
	},

	/*
	 * The same where they are most of what the partition has between $3 and
	 * $4.  With IS TRUE the planner takes "= ANY" for no join.
	 */
	[NCLAIM_DELETE_RANGE - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"DELETE FROM @.notify_outbox AS m"
		" WHERE " MESSAGE_KEY("m") " OPERATOR(pg_catalog.>=) " KEY("$1", "$3")
		" AND " MESSAGE_KEY("m") " OPERATOR(pg_catalog.<=) " KEY("$1", "$4")
		" AND (m.seq OPERATOR(pg_catalog.=) ANY (SELECT pg_catalog.unnest($2))) IS TRUE",
		4, {INT4OID, INT8ARRAYOID, INT8OID, INT8OID}
	},
	[NCLAIM_DELETE_ATTEMPTS - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"DELETE FROM @.notify_outbox_attempt AS a WHERE a.seq OPERATOR(pg_catalog.=) ANY ($1)",
		1, {INT8ARRAYOID}
	},
	[NCLAIM_COUNT_ATTEMPTS - NCLAIM_FIRST_RELAY_STATEMENT] = {
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
	[NCLAIM_BURY_MESSAGES - NCLAIM_FIRST_RELAY_STATEMENT] = {
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
	[NCLAIM_LOCK_DEAD - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT 1 FROM @.notify_outbox_partition AS p WHERE p.partition OPERATOR(pg_catalog.=)"
		" (SELECT " PARTITION("d") " FROM @.notify_outbox_dead AS d WHERE d.seq OPERATOR(pg_catalog.=) $1)"
		" FOR NO KEY UPDATE",
		1, {INT8OID}
	},
	[NCLAIM_REDRIVE_MESSAGE - NCLAIM_FIRST_RELAY_STATEMENT] = {
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
	[NCLAIM_LOCK_OLD_DEAD - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT 1 FROM @.notify_outbox_partition AS p WHERE p.partition OPERATOR(pg_catalog.=) ANY"
		" (ARRAY(SELECT " PARTITION("d") " FROM @.notify_outbox_dead AS d"
		" WHERE d.dead_at OPERATOR(pg_catalog.<) $1 AND d.blocks))"
		" ORDER BY p.partition FOR NO KEY UPDATE",
		1, {TIMESTAMPTZOID}
	},
	/* What waited behind one is looked at again. */
	[NCLAIM_PURGE_DEAD - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"WITH gone AS (DELETE FROM @.notify_outbox_dead AS d WHERE d.dead_at OPERATOR(pg_catalog.<) $1"
		" RETURNING d.aggregatetype, d.aggregateid),"
		" woken AS (UPDATE @.notify_outbox_held AS h SET due_at = $2 FROM gone AS g"
		" WHERE " SAME_ORDER("h", "g") ")"
		" SELECT pg_catalog.count(*) FROM gone",
		2, {TIMESTAMPTZOID, TIMESTAMPTZOID}
	},

	/*
	 * What is in hand, or of an order that is held, is not to be removed by
	 * its age.
	 */
	[NCLAIM_FIND_OLD_MESSAGES - NCLAIM_FIRST_RELAY_STATEMENT] = {
		"SELECT m.seq, m.created_at OPERATOR(pg_catalog.<) $4, "
		NCLAIM_THERE_IS("@.notify_outbox_held AS h WHERE " SAME_ORDER("h", "m")) " OR "
		NCLAIM_THERE_IS(LEASES " AND l.leased_until OPERATOR(pg_catalog.>) $5"
						" AND m.seq OPERATOR(pg_catalog.=) ANY (l.seqs)")
		" FROM " MESSAGES_AFTER("m", "$1", "$2") " LIMIT $3",
		5, {INT4OID, INT8OID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID}
	},
};
