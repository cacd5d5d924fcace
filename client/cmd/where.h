/*
 * Conditions as they are typed: `status=dead,failed queue=mail error~"no route" older=1h`. Tasks match that match all.
 *
 * A condition is a name, = (or for `error` ~: contains), and a value up to the next white space, or in quotes. In '…' a quote
 * is written twice; in "…" a backslash stands before a quote, a backslash, or n, t, r.
 */
#ifndef REEVE_CLIENT_WHERE_H
#define REEVE_CLIENT_WHERE_H

#include "common/error.h"

#include <reeve/client.h>

/* The conditions' names, for the help. */
#define WHERE_NAMES "status, queue, type, error, code, older, newer, running_longer, batch, key, source"

struct where {
	struct reeve_where conditions;
	char *text; /* where its text is kept */
};

/* Reads conditions, at least one. False: *error says what is wrong, and shows the place on two further lines. where_free() it
 * in any case. */
bool where_parse(struct where *where, const char *text, struct reeve_error *error);
void where_free(struct where *where);

#endif
