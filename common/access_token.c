/* Uses libcrypto's SHA-256 and comparison. */
#include "common/access_token.h"

#include "common/mem.h"
#include "common/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char prefix[] = "reeve_";

void access_secret_make(char secret[ACCESS_SECRET_BYTES])
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint8_t random[ACCESS_SECRET_BYTES - 1];
	ssize_t got;

	do
		got = getrandom(random, sizeof random, 0);
	while (got < 0 && errno == EINTR);
	if (got != sizeof random)
		abort();
	for (size_t i = 0; i < sizeof random; i++)
		secret[i] = digits[random[i] % (sizeof digits - 1)]; /* 64 digits: each is as likely as the others */
	secret[sizeof random] = '\0';
	OPENSSL_cleanse(random, sizeof random);
}

void access_hash(const char *secret, size_t length, uint8_t hash[ACCESS_HASH_BYTES])
{
	mem_check(EVP_Digest(secret, length, hash, NULL, EVP_sha256(), NULL));
}

void access_hash_text(const char *secret, char text[ACCESS_HASH_TEXT])
{
	uint8_t hash[ACCESS_HASH_BYTES];

	access_hash(secret, strlen(secret), hash);
	text_hex(hash, sizeof hash, text);
}

bool access_hash_equal(const uint8_t a[ACCESS_HASH_BYTES], const uint8_t b[ACCESS_HASH_BYTES])
{
	return CRYPTO_memcmp(a, b, ACCESS_HASH_BYTES) == 0;
}

void access_token_write(int64_t id, const char *secret, char token[ACCESS_TOKEN_BYTES])
{
	snprintf(token, ACCESS_TOKEN_BYTES, "%s%lld_%s", prefix, (long long)id, secret);
}

bool access_token_read(const char *token, size_t length, int64_t *id, const char **secret)
{
	const char *at = token + sizeof prefix - 1, *end = token + length;
	int64_t number = 0;

	if (length < sizeof prefix - 1 || memcmp(token, prefix, sizeof prefix - 1) != 0)
		return false;
	for (int digits = 0; at < end && *at >= '0' && *at <= '9' && digits < 18; digits++)
		number = number * 10 + (*at++ - '0');
	if (number == 0 || at == end || *at != '_' || at + 1 == end)
		return false;
	*id = number;
	*secret = at + 1;
	return true;
}
