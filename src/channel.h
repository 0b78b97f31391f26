/*-------------------------------------------------------------------------
 *
 * channel.h
 *		Types and prototypes of channels and digests, grouped by the file that
 *		defines them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NCLAIM_CHANNEL_H
#define NCLAIM_CHANNEL_H

#include "fmgr.h"

#include "canonical.h"

/* in digest.c */

#define NCLAIM_DIGEST_LEN	64

extern void nclaim_digest(const void *bytes, size_t length, char *digest);

/* in rule.c */

/* What makes a body's digest. */
typedef struct NClaimRule
{
	int64		id;				/* in notify_digest_rule; 0: raw needs none */
	NClaimMode	mode;
	NClaimIgnore *ignore;
} NClaimRule;

/* A body's digest, and the mode that made it. */
typedef struct NClaimDigest
{
	bool		unknown;		/* of a claim that was imported */
	NClaimMode	mode;
	char		hex[NCLAIM_DIGEST_LEN + 1];
} NClaimDigest;

extern const char *nclaim_mode_name(NClaimMode mode);
extern bool nclaim_mode_find(const char *name, NClaimMode *mode);
extern NClaimIgnore *nclaim_rule_ignore(NClaimMode mode, char **entries, int n);
extern void nclaim_rule_read(int64 id, NClaimRule *rule);
extern void nclaim_rule_digest(const NClaimRule *rule, const char *bytes,
							   size_t length, NClaimDigest *digest,
							   StringInfo canonical);
extern void nclaim_digest_read(const char *mode, const char *hex,
							   NClaimDigest *digest);
extern bool nclaim_digest_same(const NClaimDigest *a, const NClaimDigest *b);

/* digest_mode and payload_hash of a claim whose content is not known. */
#define NCLAIM_UNKNOWN_MODE "none"
#define NCLAIM_UNKNOWN_DIGEST \
	"0000000000000000000000000000000000000000000000000000000000000000"

/* in channel.c */

/* A channel as declared. */
typedef struct NClaimChannel
{
	MemoryContext context;		/* holds all of it */
	NClaimRule	rule;
	int			ok_status;
	char	   *ok_body;
	int			fail_status;
	char	   *fail_body;
	int			max_body;		/* bytes; 0: no limit */
	bool		keep_body;
	bool		ack_conflict;
	bool		ack_no_rule;
	bool		valid;			/* nothing has come in since it was read */
} NClaimChannel;

#define NCLAIM_MAX_CHANNEL	64	/* characters */
#define NCLAIM_DEFAULT_CHANNEL	"default"

extern void nclaim_channel_invalidate(void);
extern const NClaimChannel *nclaim_channel_cached(const char *name);
extern const NClaimChannel *nclaim_channel_find(const char *name);
extern const NClaimChannel *nclaim_channel_known(const char *name);
extern void nclaim_channel_lock(bool exclusive);
extern void nclaim_channel_unlock(void);
extern void nclaim_channel_hold(const char *name);
extern void nclaim_channel_check_body(const NClaimChannel *channel,
									  const char *name, int length);

/* in preset.c */

/* A channel's settings, as texts for SQL; NULL for null. */
typedef enum NClaimSetting
{
	NCLAIM_OK_STATUS,
	NCLAIM_OK_BODY,
	NCLAIM_FAIL_STATUS,
	NCLAIM_FAIL_BODY,
	NCLAIM_MAX_BODY,
	NCLAIM_KEEP_BODY,
	NCLAIM_RETAIN,
	NCLAIM_ON_CONFLICT,
	NCLAIM_ON_NO_RULE,
} NClaimSetting;

#define NCLAIM_SETTINGS		(NCLAIM_ON_NO_RULE + 1)

typedef struct NClaimPreset
{
	const char *name;
	NClaimMode	mode;
	const char *const *ignore;	/* sorted bytewise, ends with NULL */
	const char *settings[NCLAIM_SETTINGS];
} NClaimPreset;

extern const NClaimPreset *nclaim_preset_find(const char *name);

#endif							/* NCLAIM_CHANNEL_H */
