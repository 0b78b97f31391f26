/*-------------------------------------------------------------------------
 *
 * preset.c
 *		What providers send and want to be answered.
 *
 * "ignore" holds what may differ between deliveries of one notification.  A
 * field that a provider does not document to be stable, like Alipay's
 * notify_time, counts as one that differs; nothing that says what happened to
 * an order or to money is ignored anywhere.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "notify_claim.h"

#define NO_LIMIT		NULL
#define KEEP			"true"
#define DROP			"false"
#define RETAIN			"35 days"	/* Adyen sends again for up to 30 */
#define GITHUB_MAX		"26214400"	/* 25 MB */

#define WECHAT_V2(code, message) \
	"<xml><return_code><![CDATA[" code "]]></return_code>" \
	"<return_msg><![CDATA[" message "]]></return_msg></xml>"

static const char *const nothing[] = {NULL};

/*
 * The batch of the standard format, and one item of it alone.  The signature
 * is over some of the item's fields and changes with the key.
 */
static const char *const adyen[] = {
	"NotificationRequestItem.additionalData.hmacSignature",
	"NotificationRequestItem.eventDate",
	"additionalData.hmacSignature",
	"eventDate",
	"notificationItems.NotificationRequestItem.additionalData.hmacSignature",
	"notificationItems.NotificationRequestItem.eventDate",
	NULL
};

static const char *const alipay[] = {"notify_time", "sign", NULL};

static const char *const wechat_v2[] = {"nonce_str", "sign", NULL};

/*
 * Of the envelope around the decrypted resource.  The ciphertext is not here:
 * who hands in the envelope as it came would have every change ignored.
 */
static const char *const wechat_v3[] = {
	"create_time", "id", "resource.nonce", NULL
};

static const NClaimPreset presets[] = {
	{"adyen", NCLAIM_JSON, adyen,
	{"200", "[accepted]", "500", "", NO_LIMIT, KEEP, RETAIN, "fail", "fail"}},
	{"alipay", NCLAIM_FORM, alipay,
	{"200", "success", "500", "fail", NO_LIMIT, KEEP, RETAIN, "fail", "fail"}},
	{"github", NCLAIM_JSON, nothing,
	{"200", "", "500", "", GITHUB_MAX, KEEP, RETAIN, "fail", "fail"}},
	{"paypal", NCLAIM_JSON, nothing,
	{"200", "", "500", "", NO_LIMIT, KEEP, RETAIN, "fail", "fail"}},
	{"stripe", NCLAIM_JSON, nothing,
	{"200", "", "500", "", NO_LIMIT, KEEP, RETAIN, "fail", "fail"}},
	{"wechat_v2", NCLAIM_XML, wechat_v2,
		{"200", WECHAT_V2("SUCCESS", "OK"), "500", WECHAT_V2("FAIL", "FAIL"),
	NO_LIMIT, KEEP, RETAIN, "fail", "fail"}},
	{"wechat_v3", NCLAIM_JSON, wechat_v3,
		{"204", "", "500", "{\"code\":\"FAIL\",\"message\":\"FAIL\"}",
	NO_LIMIT, KEEP, RETAIN, "fail", "fail"}},
};

/* What a channel is where nothing is said. */
static const NClaimPreset plain = {
	"", NCLAIM_RAW, nothing,
	{"200", "SUCCESS", "500", "FAIL", NO_LIMIT, DROP, RETAIN, "fail", "fail"}
};

/*
 * Returns the preset of that name; NULL stands for a channel without one.
 * Raises 22023 for a name that is none.
 */
const NClaimPreset *
nclaim_preset_find(const char *name)
{
	if (name == NULL)
		return &plain;
	for (int i = 0; i < lengthof(presets); i++)
	{
		if (strcmp(presets[i].name, name) == 0)
			return &presets[i];
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized preset \"%s\"", name),
			 errhint("Presets are \"adyen\", \"alipay\", \"github\", \"paypal\", \"stripe\", \"wechat_v2\" and \"wechat_v3\".")));
}
