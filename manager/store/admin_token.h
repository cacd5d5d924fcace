/* The access token of the identity "admin", which a manager creates at its start. */
#ifndef REEVE_MANAGER_STORE_ADMIN_TOKEN_H
#define REEVE_MANAGER_STORE_ADMIN_TOKEN_H

#include "common/error.h"

#include <stdbool.h>

/* Gives the identity "admin" a new access token, or creates it. If `only_first`, does so only if no admin has one. The token is
 * written to the file, with permissions for this user alone, or without a file (NULL) to standard output; *created says whether
 * there is a new one. It is committed only after it was written. Blocks. Returns false with *error set if it failed. */
bool admin_token_create(
    const char *conninfo, bool only_first, const char *file, bool *created, struct reeve_error *error);

#endif
