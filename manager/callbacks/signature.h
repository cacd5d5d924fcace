/* Signs callbacks as Standard Webhooks 1.0.0 describes it: the header webhook-signature has "v1," and in base64 the
 * HMAC-SHA256, by the secret, of "ID.TIMESTAMP.BODY". */
#ifndef REEVE_MANAGER_CALLBACKS_SIGNATURE_H
#define REEVE_MANAGER_CALLBACKS_SIGNATURE_H

#include <stddef.h>
#include <stdint.h>

enum { CALLBACK_SECRET_MOST = 512, CALLBACK_SIGNATURE_BYTES = 64 };

/* Why `secret` is none, as a phrase that follows the field's name, or NULL if it is one: 1 to 512 bytes of text, taken as
 * they are, or "whsec_" and a key in base64. */
const char *callback_secret_problem(const char *secret);

/* Writes "v1,…" to `out` and returns it. `id` is the message's, `timestamp` seconds since 1970. */
const char *callback_sign(const char *secret, const char *id, int64_t timestamp, const char *body, size_t length,
    char out[CALLBACK_SIGNATURE_BYTES]);

#endif
