/* Signs callbacks by Standard Webhooks 1.0.0: the header webhook-signature is "v1," and the base64 of the HMAC-SHA256
 * of "ID.TIMESTAMP.BODY", with the secret as key. */
#ifndef REEVE_MANAGER_CALLBACKS_SIGNATURE_H
#define REEVE_MANAGER_CALLBACKS_SIGNATURE_H

#include <stddef.h>
#include <stdint.h>

enum { CALLBACK_SECRET_MAX = 512, CALLBACK_SIGNATURE_BYTES = 64 };

/* Returns why `secret` is invalid, as a phrase to follow the field's name, or NULL if it is valid: 1 to 512 bytes that
 * are the key, or "whsec_" and the key in base64. */
const char *callback_secret_problem(const char *secret);

/* Writes the signature, "v1,…", into `out` and returns it. `id` is the message's id; `timestamp` is in seconds since
 * 1970. */
const char *callback_sign(const char *secret, const char *id, int64_t timestamp, const char *body, size_t length,
    char out[CALLBACK_SIGNATURE_BYTES]);

#endif
