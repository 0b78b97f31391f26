/*-------------------------------------------------------------------------
 *
 * digest.c
 *		SHA-256 of a body.  The only file that knows OpenSSL.
 *
 * The algorithm is fetched once per backend, lazily: an explicit fetch is
 * cheaper than the implicit one that every EVP_Digest() with EVP_sha256()
 * makes (ossl-guide-libcrypto-introduction(7), "Performance"), and one in the
 * postmaster would be shared over fork.  Its context is kept as well: one for
 * each digest is a good part of what a short body costs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include "utils/builtins.h"

#include "notify_claim.h"

#define SHA256_BYTES	32

StaticAssertDecl(NCLAIM_DIGEST_LEN == 2 * SHA256_BYTES,
				 "a digest is a SHA-256 in hexadecimal");

static const EVP_MD *
sha256(void)
{
	static EVP_MD *fetched = NULL;

	if (fetched == NULL)
	{
		fetched = EVP_MD_fetch(NULL, "SHA256", NULL);
		if (fetched == NULL)
		{
			ERR_clear_error();
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("OpenSSL offers no SHA-256"),
					 errhint("Check the providers in the server's OpenSSL configuration.")));
		}
	}
	return fetched;
}

/*
 * Writes the SHA-256 of the bytes as NCLAIM_DIGEST_LEN lower-case hexadecimal
 * digits and a terminating zero.  Raises where OpenSSL has no SHA-256.
 */
void
nclaim_digest(const void *bytes, size_t length, char *digest)
{
	static EVP_MD_CTX *context = NULL;
	unsigned char raw[EVP_MAX_MD_SIZE];
	unsigned int rawlen;

	if (context == NULL)
		context = EVP_MD_CTX_new();
	if (context == NULL || EVP_DigestInit_ex2(context, sha256(), NULL) != 1 ||
		EVP_DigestUpdate(context, bytes, length) != 1 ||
		EVP_DigestFinal_ex(context, raw, &rawlen) != 1)
	{
		ERR_clear_error();
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("could not compute a SHA-256 digest")));
	}
	Assert(rawlen == SHA256_BYTES);
	hex_encode((const char *) raw, rawlen, digest);
	digest[NCLAIM_DIGEST_LEN] = '\0';
}
