/* Where a program finds its access token. */
#ifndef REEVE_COMMON_TOKEN_FILE_H
#define REEVE_COMMON_TOKEN_FILE_H

#include "common/error.h"

#include <stdbool.h>

/* A token, and the file that it was read from. Owned strings; NULL: there is none. */
struct found_token {
	char *text, *path;
};

/* Finds the access token: `option`, else the content of `file`, else $REEVE_ACCESS_TOKEN, else the content of the file
 * $REEVE_ACCESS_TOKEN_FILE, else $REEVE_ATTEMPT_ACCESS_TOKEN, which a worker gives its programs, else the content of the file that
 * `reeve dev` writes for the first manager (token_file_of). Returns false with *error set if what it finds cannot be used. */
bool token_find(
    const char *option, const char *file, const char *urls, struct found_token *token, struct reeve_error *error);

/* Reads the token of a file. The caller must free it. NULL with *error set: there is none. The file of `reeve dev` must be this
 * user's alone. */
char *token_read(const char *path, const char *urls, struct reeve_error *error);

/* Returns the path of this user's file with the access token for a manager on this machine, as `reeve dev` writes it:
 * ~/.local/state/reeve/tokens/URL. The caller must free it. NULL: the user has no home. */
char *token_file_of(const char *urls);

#endif
