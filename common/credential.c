/* HMAC-SHA256 by libcrypto. */
#include "common/credential.h"

#include "common/mem.h"
#include "common/text.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

enum { MASTER_MIN_BYTES = 16 }; /* with a shorter master no credential is valid */

static const char prefix[] = "reeve_a";

static void sign(const uint8_t *key, size_t length, const char *text, uint8_t out[CREDENTIAL_KEY_BYTES])
{
	mem_check(HMAC(EVP_sha256(), key, (int)length, (const uint8_t *)text, strlen(text), out, NULL));
}

void credential_key(
    const uint8_t *master, size_t length, int64_t identity, int64_t incarnation, uint8_t key[CREDENTIAL_KEY_BYTES])
{
	char text[64];

	snprintf(text, sizeof text, "%" PRId64 "_%" PRId64, identity, incarnation);
	sign(master, length, text, key);
}

void credential_write(
    const struct credential *credential, const uint8_t key[CREDENTIAL_KEY_BYTES], char text[CREDENTIAL_BYTES])
{
	uint8_t mac[CREDENTIAL_KEY_BYTES];
	size_t length = (size_t)snprintf(text, CREDENTIAL_BYTES, "%s%" PRId64 "_%" PRId64 "_%" PRId64 "_%" PRId64, prefix,
	    credential->identity, credential->incarnation, credential->task_id, credential->token);

	sign(key, CREDENTIAL_KEY_BYTES, text, mac);
	text[length++] = '_';
	text_hex(mac, sizeof mac, text + length);
}

bool credential_is(const char *text, size_t length)
{
	return length >= sizeof prefix - 1 && !memcmp(text, prefix, sizeof prefix - 1);
}

bool credential_read(
    const char *text, size_t length, const uint8_t *master, size_t master_length, struct credential *credential)
{
	char given[CREDENTIAL_BYTES], signed_text[CREDENTIAL_BYTES];
	uint8_t key[CREDENTIAL_KEY_BYTES];

	if (!credential_is(text, length) || length >= sizeof given || master_length < MASTER_MIN_BYTES)
		return false;
	memcpy(given, text, length);
	given[length] = '\0';
	if (sscanf(given + sizeof prefix - 1, "%" SCNd64 "_%" SCNd64 "_%" SCNd64 "_%" SCNd64 "_", &credential->identity,
	        &credential->incarnation, &credential->task_id, &credential->token) != 4)
		return false;
	credential_key(master, master_length, credential->identity, credential->incarnation, key);
	credential_write(credential, key, signed_text);
	return strlen(signed_text) == length && CRYPTO_memcmp(given, signed_text, length) == 0;
}
