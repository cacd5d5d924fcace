/*
 * Access tokens: "reeve_ID_SECRET". The id is that of an identity in the database, which has the SHA-256 of the secret.
 * As a secret is random, a fast hash protects it.
 */
#ifndef REEVE_COMMON_ACCESS_TOKEN_H
#define REEVE_COMMON_ACCESS_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ACCESS_SECRET_BYTES = 44, /* the text of a new secret, 43 characters for 256 random bits, with its NUL */
	ACCESS_TOKEN_BYTES = 80,  /* the text of a new token, with its NUL */
	ACCESS_HASH_BYTES = 32,
	ACCESS_HASH_TEXT = 2 * ACCESS_HASH_BYTES + 1, /* in hexadecimal digits, with the NUL */
};

/* Makes a random secret. Without random numbers it aborts. */
void access_secret_make(char secret[ACCESS_SECRET_BYTES]);

void access_hash(const char *secret, size_t length, uint8_t hash[ACCESS_HASH_BYTES]);

/* Writes the hash of a secret in hexadecimal digits. */
void access_hash_text(const char *secret, char text[ACCESS_HASH_TEXT]);

/* Compares in constant time. */
bool access_hash_equal(const uint8_t a[ACCESS_HASH_BYTES], const uint8_t b[ACCESS_HASH_BYTES]);

void access_token_write(int64_t id, const char *secret, char token[ACCESS_TOKEN_BYTES]);

/* Reads a token of this length: its id, and the place of its secret, which reaches to the end. Returns false if it is
 * no access token. */
bool access_token_read(const char *token, size_t length, int64_t *id, const char **secret);

#endif
