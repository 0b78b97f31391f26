/*-------------------------------------------------------------------------
 *
 * purge_statements.c
 *		The statements of retention.
 *
 * extension.c prepares and runs them.  Nothing here is ever changed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "notify_claim.h"

#define PURGE(statement) [statement - NCLAIM_FIRST_PURGE_STATEMENT]

/* Conditions as the partial indexes of notify_review have them. */
#define IS_OPEN \
	"r.state::pg_catalog.text OPERATOR(pg_catalog.=) 'OPEN'::pg_catalog.text"
#define IS_CLOSED \
	"r.state::pg_catalog.text OPERATOR(pg_catalog.<>) 'OPEN'::pg_catalog.text"

/* What an interval that no timestamp goes back by means is forever. */
#define BACK(from, age) \
	"CASE WHEN " age " OPERATOR(pg_catalog.>) '5000 years'::pg_catalog.interval" \
	" THEN '-infinity'::pg_catalog.timestamptz ELSE " from " OPERATOR(pg_catalog.-) " age " END"

/* Is the row's channel one of "names", or if "others" is true one that is not declared? */
#define IS_OF(row, names, others) \
	"(" row ".channel::pg_catalog.text OPERATOR(pg_catalog.=) ANY (" names ")" \
	" OR (" others " AND " row ".channel OPERATOR(pg_catalog.<>) 'default'" \
	" AND NOT (" NCLAIM_THERE_IS("@.notify_channel AS x WHERE x.channel OPERATOR(pg_catalog.=) " row ".channel") ")))"

/* Is a claim to be kept, however old it is?  What is decided holds for a time. */
#define IS_OPENLY_REVIEWED \
	NCLAIM_THERE_IS("@.notify_review AS r WHERE r.biz_key OPERATOR(pg_catalog.=) c.biz_key" \
					" AND r.channel OPERATOR(pg_catalog.=) c.channel AND " IS_OPEN)
#define WAS_REVIEWED_AFTER(at) \
	NCLAIM_THERE_IS("@.notify_review AS r WHERE r.claim OPERATOR(pg_catalog.=) c.id" \
					" AND GREATEST(r.last_seen, r.resolved_at) OPERATOR(pg_catalog.>=) " at)
#define WAS_DECIDED_AFTER(at) \
	NCLAIM_THERE_IS("@.notify_decision AS d WHERE d.claim OPERATOR(pg_catalog.=) c.id" \
					" AND d.at OPERATOR(pg_catalog.>=) " at)

/* Number, is it of these channels, and is it that old? */
#define LOOK(names, others, at) \
	"SELECT c.id, " IS_OF("c", names, others) ", c.created_at OPERATOR(pg_catalog.<) " at \
	" FROM @.notify_claim AS c"

/* In the statements below "@" stands for the extension's schema. */
const NClaimOwnSql nclaim_purge_statements[] = {

	/*
	 * A channel's claims from before it was declared were passed as those of
	 * a channel that is not.
	 */
	PURGE(NCLAIM_ADD_PURGE_MARKS) = {
		"INSERT INTO @.notify_purge_mark (channel, low)"
		" SELECT k.channel, COALESCE((SELECT m.low FROM @.notify_purge_mark AS m"
		" WHERE m.channel OPERATOR(pg_catalog.=) ''), 0)"
		" FROM (SELECT c.channel FROM @.notify_channel AS c"
		" UNION ALL SELECT d.name FROM pg_catalog.unnest($1) AS d (name)) AS k"
		" ON CONFLICT (channel) DO NOTHING",
		1, {TEXTARRAYOID}
	},

	/*
	 * Channels with their cutoff, those that retain longest first, whether $2
	 * is less than they retain, and what they retain.  Those that are not
	 * declared count as the longest.  Ages are compared as times: how long a
	 * month is depends on when.
	 */
	PURGE(NCLAIM_FIND_RETENTIONS) = {
		"SELECT n.channel::pg_catalog.text, COALESCE(n.asked, n.retained) AS cutoff,"
		" n.declared AND n.asked OPERATOR(pg_catalog.>) n.retained, n.retain::pg_catalog.text"
		" FROM (SELECT k.*, CASE WHEN $2 IS NOT NULL THEN " BACK("$1", "$2") " END AS asked,"
		" COALESCE(" BACK("$1", "k.retain") ", pg_catalog.min(" BACK("$1", "k.retain") ") OVER ()) AS retained FROM ("
		"SELECT m.channel, COALESCE(c.retain, CASE WHEN m.channel OPERATOR(pg_catalog.=) 'default'"
		" THEN $3::pg_catalog.interval END) AS retain,"
		" c.channel IS NOT NULL OR m.channel OPERATOR(pg_catalog.=) 'default' AS declared"
		" FROM @.notify_purge_mark AS m LEFT JOIN @.notify_channel AS c"
		" ON c.channel OPERATOR(pg_catalog.=) m.channel) AS k) AS n"
		" WHERE $4 IS NULL OR (n.declared AND n.channel OPERATOR(pg_catalog.=) $4)"
		" ORDER BY cutoff, n.channel",
		4, {TIMESTAMPTZOID, INTERVALOID, TEXTOID, VARCHAROID}
	},

	/* Where to begin, the mark, is it decided, and is some mark not? */
	PURGE(NCLAIM_READ_PURGE_MARKS) = {
		"SELECT pg_catalog.min(k.low), pg_catalog.min(k.mark),"
		" pg_catalog.bool_and(COALESCE(k.decided, false)), pg_catalog.bool_or(NOT COALESCE(k.decided, true))"
		" FROM (SELECT m.low, m.mark,"
		" pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) OPERATOR(pg_catalog.>=) m.mark_xmax AS decided"
		" FROM @.notify_purge_mark AS m WHERE m.channel::pg_catalog.text OPERATOR(pg_catalog.=) ANY ($1)) AS k",
		1, {TEXTARRAYOID}
	},
	PURGE(NCLAIM_MOVE_PURGE_MARKS) = {
		"UPDATE @.notify_purge_mark AS m SET low = GREATEST(m.low, $2),"
		" mark = COALESCE($3, m.mark), mark_xmax = COALESCE($4, m.mark_xmax)"
		" WHERE m.channel::pg_catalog.text OPERATOR(pg_catalog.=) ANY ($1)",
		4, {TEXTARRAYOID, INT8OID, INT8OID, XID8OID}
	},
	PURGE(NCLAIM_FIND_CLAIMS) = {
		LOOK("$1", "$2", "$3") " WHERE c.id OPERATOR(pg_catalog.>) $4 ORDER BY c.id LIMIT $5",
		5, {TEXTARRAYOID, BOOLOID, TIMESTAMPTZOID, INT8OID, INT4OID}
	},
	PURGE(NCLAIM_FIND_KEPT) = {
		"SELECT k.claim FROM @.notify_purge_kept AS k WHERE k.claim OPERATOR(pg_catalog.>) $1"
		" ORDER BY k.claim LIMIT $2",
		2, {INT8OID, INT4OID}
	},
	PURGE(NCLAIM_LOOK_AT_CLAIMS) = {
		LOOK("$1", "$2", "$3") " WHERE c.id OPERATOR(pg_catalog.=) ANY ($4)",
		4, {TEXTARRAYOID, BOOLOID, TIMESTAMPTZOID, INT8ARRAYOID}
	},
	PURGE(NCLAIM_LOCK_CLAIMS) = {
		"SELECT c.id FROM @.notify_claim AS c WHERE c.id OPERATOR(pg_catalog.=) ANY ($1)"
		" AND c.claim_state OPERATOR(pg_catalog.<>) 'PARKED' FOR UPDATE SKIP LOCKED",
		1, {INT8ARRAYOID}
	},
	PURGE(NCLAIM_DELETE_CLAIMS) = {
		"DELETE FROM @.notify_claim AS c WHERE c.id OPERATOR(pg_catalog.=) ANY ($1)"
		" AND NOT (" IS_OPENLY_REVIEWED ")"
		" AND NOT (" WAS_REVIEWED_AFTER("$2") ")"
		" AND NOT (" WAS_DECIDED_AFTER("$2") ")"
		" RETURNING c.id",
		2, {INT8ARRAYOID, TIMESTAMPTZOID}
	},
	PURGE(NCLAIM_DELETE_BODIES) = {
		"DELETE FROM @.notify_body AS b WHERE b.claim OPERATOR(pg_catalog.=) ANY ($1)",
		1, {INT8ARRAYOID}
	},

	/* Of the claims $1, or of the reviews $2. */
	PURGE(NCLAIM_DELETE_VARIANTS) = {
		"DELETE FROM @.notify_review_variant AS v WHERE v.review OPERATOR(pg_catalog.=) ANY"
		" ($2 OPERATOR(pg_catalog.||) ARRAY(SELECT r.id FROM @.notify_review AS r"
		" WHERE r.claim OPERATOR(pg_catalog.=) ANY ($1)))",
		2, {INT8ARRAYOID, INT8ARRAYOID}
	},
	PURGE(NCLAIM_DELETE_DECISIONS) = {
		"DELETE FROM @.notify_decision AS d WHERE d.id OPERATOR(pg_catalog.=) ANY"
		" (ARRAY(SELECT e.id FROM @.notify_decision AS e WHERE e.claim OPERATOR(pg_catalog.=) ANY ($1)"
		" UNION ALL SELECT e.id FROM @.notify_decision AS e WHERE e.review OPERATOR(pg_catalog.=) ANY ($2)))",
		2, {INT8ARRAYOID, INT8ARRAYOID}
	},
	PURGE(NCLAIM_DELETE_REVIEWS) = {
		"DELETE FROM @.notify_review AS r WHERE r.id OPERATOR(pg_catalog.=) ANY"
		" ($2 OPERATOR(pg_catalog.||) ARRAY(SELECT q.id FROM @.notify_review AS q"
		" WHERE q.claim OPERATOR(pg_catalog.=) ANY ($1)))",
		2, {INT8ARRAYOID, INT8ARRAYOID}
	},
	PURGE(NCLAIM_KEEP_CLAIMS) = {
		"INSERT INTO @.notify_purge_kept (claim) SELECT pg_catalog.unnest($1)"
		" ON CONFLICT (claim) DO NOTHING",
		1, {INT8ARRAYOID}
	},
	PURGE(NCLAIM_FORGET_KEPT) = {
		"DELETE FROM @.notify_purge_kept AS k WHERE k.claim OPERATOR(pg_catalog.=) ANY ($1)",
		1, {INT8ARRAYOID}
	},
	/* Closed reviews without a claim. */
	PURGE(NCLAIM_FIND_OLD_REVIEWS) = {
		"SELECT r.id FROM @.notify_review AS r WHERE " IS_CLOSED
		" AND r.resolved_at OPERATOR(pg_catalog.<) $3 AND r.last_seen OPERATOR(pg_catalog.<) $3"
		" AND " IS_OF("r", "$1", "$2")
		" AND NOT (" NCLAIM_THERE_IS("@.notify_claim AS c WHERE c.id OPERATOR(pg_catalog.=) r.claim") ")"
		" ORDER BY r.resolved_at LIMIT $4",
		4, {TEXTARRAYOID, BOOLOID, TIMESTAMPTZOID, INT4OID}
	},
};
