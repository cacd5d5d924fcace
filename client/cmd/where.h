/*
 * Conditions as typed: `status=dead,failed queue=mail error~"no route" older=1h`. Tasks must meet all of them.
 *
 * A condition is a name, = (or for `error` ~: contains), and a value up to the next white space, or in quotes. In '…' a
 * quote is doubled; in "…" a backslash escapes a quote or a backslash, and begins \n, \t and \r.
 */
#ifndef REEVE_CLIENT_WHERE_H
#define REEVE_CLIENT_WHERE_H

#include "common/error.h"

#include <reeve/client.h>

/* The names of the conditions, for the help. */
#define WHERE_NAMES "status, queue, type, error, code, older, newer, running_longer, batch, key, source"

struct where {
	struct reeve_where conditions;
	char *text; /* owns the conditions' strings */
};

/* Parses conditions, at least one. Returns false with *error set, which shows the place on two further lines, if they
 * are invalid. Call where_free() in any case. */
bool where_parse(struct where *where, const char *text, struct reeve_error *error);
void where_free(struct where *where);

#endif
