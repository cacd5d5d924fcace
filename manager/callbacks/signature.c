/* Uses libcrypto's HMAC and base64. */
#include "manager/callbacks/signature.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "whsec_";

/* Writes the key's bytes and returns their number, or −1 if the secret's base64 is invalid. */
static int key_of(const char *secret, unsigned char key[CALLBACK_SECRET_MAX])
{
	size_t n = strlen(secret), padding = 0;
	if (strncmp(secret, prefix, strlen(prefix)) != 0) {
		memcpy(key, secret, n);
		return (int)n;
	}
	secret += strlen(prefix);
	n -= strlen(prefix);
	if (n == 0 || n % 4 || strspn(secret, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") != n)
		return -1;
	while (padding < 2 && secret[n - 1 - padding] == '=')
		padding++;
	if (strcspn(secret, "=") != n - padding) /* the decoder reads '=' as a zero anywhere */
		return -1;
	int length = EVP_DecodeBlock(key, (const unsigned char *)secret, (int)n);
	return length < 0 ? -1 : length - (int)padding;
}

const char *callback_secret_problem(const char *secret)
{
	unsigned char key[CALLBACK_SECRET_MAX];
	if (!*secret)
		return "is empty";
	if (strlen(secret) > CALLBACK_SECRET_MAX)
		return "is longer than 512 bytes";
	return key_of(secret, key) < 0 ? "begins with whsec_, and is not base64 after that" : NULL;
}

const char *callback_sign(const char *secret, const char *id, int64_t timestamp, const char *body, size_t length,
    char out[CALLBACK_SIGNATURE_BYTES])
{
	unsigned char key[CALLBACK_SECRET_MAX], digest[EVP_MAX_MD_SIZE];
	char head[96], sha256[] = "SHA256";
	size_t digest_length = 0;
	int key_length = strlen(secret) > sizeof key ? 0 : key_of(secret, key);
	int head_length = snprintf(head, sizeof head, "%s.%lld.", id, (long long)timestamp);
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);
	const OSSL_PARAM parameters[] = {
	    OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, sha256, 0), OSSL_PARAM_construct_end()};
	/* These fail only without memory. */
	if (!EVP_MAC_init(context, key, key_length < 0 ? 0 : (size_t)key_length, parameters) ||
	    !EVP_MAC_update(context, (unsigned char *)head, (size_t)head_length) ||
	    !EVP_MAC_update(context, (const unsigned char *)body, length) ||
	    !EVP_MAC_final(context, digest, &digest_length, sizeof digest))
		abort();
	EVP_MAC_CTX_free(context);
	EVP_MAC_free(mac);
	memcpy(out, "v1,", 3);
	EVP_EncodeBlock((unsigned char *)out + 3, digest, (int)digest_length);
	return out;
}
