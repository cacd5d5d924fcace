/* Where a program finds its access token. */
#ifndef REEVE_COMMON_TOKEN_FILE_H
#define REEVE_COMMON_TOKEN_FILE_H

#include "common/error.h"

#include <stdbool.h>

/* A token, or the file with it. Zeros: there is none. */
struct token_source {
	char *text;       /* the token, or NULL */
	char *path;       /* else the file that has it, or NULL */
	bool own;         /* the file is of `reeve dev`: no other user may be able to read or write it */
	const char *from; /* where `text` comes from, for messages; may be NULL */
};

/* Finds where the token is: `option`, else the file `file`, else $REEVE_ACCESS_TOKEN, else the file
 * $REEVE_ACCESS_TOKEN_FILE, else $REEVE_ATTEMPT_ACCESS_TOKEN, which a worker gives its programs, else the file that
 * `reeve dev` writes for one of the managers (token_file_of). Options may be NULL. Free it with token_source_free. */
struct token_source token_source_find(const char *option, const char *file, const char *urls);
void token_source_free(struct token_source *source);

/* Returns the token of a source, "" if there is none, or NULL with *error set. The caller must free it. */
char *token_read(const struct token_source *source, struct reeve_error *error);

/* Returns the path of this user's file with the access token for a manager on this machine, as `reeve dev` writes it:
 * ~/.local/state/reeve/tokens/URL. Ways to write one URL ("localhost", a "/" at the end) have the same file. The caller
 * must free it. NULL: the user has no home. */
char *token_file_of(const char *url);

#endif
