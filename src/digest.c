/*-------------------------------------------------------------------------
 *
 * digest.c
 *		SHA-256 of a body.  The only file that knows OpenSSL.
 *
 * The algorithm is fetched once per backend, lazily: an explicit fetch is
 * cheaper than the implicit one that every EVP_Digest() with EVP_sha256()
 * makes (ossl-guide-libcrypto-introduction(7), "Performance"), and one in the
 * postmaster would be shared over fork.  The one-shot EVP_Digest() leaves no
 * handle behind that an error could leak.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <openssl/crypto.h>
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
	unsigned char raw[EVP_MAX_MD_SIZE];
	unsigned int rawlen;

	if (EVP_Digest(bytes, length, raw, &rawlen, sha256(), NULL) != 1)
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

/*
 * Are two digests, as nclaim_digest() writes them, the same?
 */
bool
nclaim_digest_equal(const char *a, const char *b)
{
	return CRYPTO_memcmp(a, b, NCLAIM_DIGEST_LEN) == 0;
}
