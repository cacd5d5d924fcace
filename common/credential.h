/*
 * Credentials: the access tokens of attempts, with which their handlers submit tasks. A text
 * "reeve_aIDENTITY_INCARNATION_TASK_TOKEN_MAC": the identity of the worker (0: it has no access token), its
 * incarnation, and the attempt. They are not stored. When a worker registers, a manager derives a key for it from the
 * database's key. The worker signs credentials with its key, and any manager can check them.
 */
#ifndef REEVE_COMMON_CREDENTIAL_H
#define REEVE_COMMON_CREDENTIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CREDENTIAL_KEY_BYTES = 32,
	CREDENTIAL_BYTES = 160, /* the text, with its NUL */
};

/* The owner of a credential. */
struct credential {
	int64_t identity, incarnation, task_id, token;
};

/* What an incarnation needs to sign the credentials of its attempts. */
struct credential_signer {
	int64_t identity, incarnation;
	uint8_t key[CREDENTIAL_KEY_BYTES];
	bool known; /* its manager has given a key */
};

/* Makes the key of an incarnation from the database's. */
void credential_key(
    const uint8_t *master, size_t length, int64_t identity, int64_t incarnation, uint8_t key[CREDENTIAL_KEY_BYTES]);

/* Writes a credential with the key of its incarnation. */
void credential_write(
    const struct credential *credential, const uint8_t key[CREDENTIAL_KEY_BYTES], char text[CREDENTIAL_BYTES]);

/* Returns whether a text of this length may be a credential: it begins like one. */
bool credential_is(const char *text, size_t length);

/* Reads a credential. Returns false if the text is not a credential, or is not signed with the key of
 * its incarnation. */
bool credential_read(
    const char *text, size_t length, const uint8_t *master, size_t master_length, struct credential *credential);

#endif
