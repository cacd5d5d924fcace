/* The access token of the identity "admin", which a manager creates at its start. */
#ifndef REEVE_MANAGER_STORE_ADMIN_TOKEN_H
#define REEVE_MANAGER_STORE_ADMIN_TOKEN_H

#include "common/error.h"

#include <stdbool.h>

/* Gives the identity "admin", which it creates if necessary, a new access token. `only_first`: only if no admin has
 * one. Writes the token to the file, which only this user can read, or to standard output (NULL), and then commits it.
 * *created: there is a new token. Blocks. Returns false with *error set if it failed. */
bool admin_token_create(
    const char *conninfo, bool only_first, const char *file, bool *created, struct reeve_error *error);

#endif
