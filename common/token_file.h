/* Where a program finds its access token. */
#ifndef REEVE_COMMON_TOKEN_FILE_H
#define REEVE_COMMON_TOKEN_FILE_H

#include "common/error.h"

#include <stdbool.h>

/* Finds the access token: `option`, else $REEVE_ACCESS_TOKEN, else the content of the file `file` or $REEVE_ACCESS_TOKEN_FILE,
 * else $REEVE_ATTEMPT_ACCESS_TOKEN, which a worker gives its programs, else the content of the file that `reeve dev` writes
 * for the first manager (token_file_of). Sets *token, which the caller must free, or to NULL if there is none. Returns false
 * with *error set if a file cannot be used. */
bool token_find(const char *option, const char *file, const char *urls, char **token, struct reeve_error *error);

/* Returns the path of this user's file with the access token for a manager on this machine, as `reeve dev` writes it:
 * ~/.local/state/reeve/tokens/URL. The caller must free it. NULL: the user has no home. */
char *token_file_of(const char *urls);

#endif
