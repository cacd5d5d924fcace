/*
 * Conditions as typed: `status=dead,failed queue=mail error~"no route" older=1h`. Tasks must meet all of them.
 *
 * A condition is a name, = (or for `error` ~: contains), and a value up to the next white space, or in quotes. In '…' a
 * quote is doubled; in "…" a backslash escapes a quote or a backslash, and begins \n, \t and \r.
 */
#ifndef REEVE_CLIENT_WHERE_H
#define REEVE_CLIENT_WHERE_H

#include "common/error.h"
#include "common/limits.h"
#include "common/options.h"

#include <reeve/client.h>

/* The names of the conditions, for the help. */
#define WHERE_NAMES                                                                                                    \
	"status, queue, type, error, code, older, newer, running_longer, batch, key, source, pipeline, stage, parent, details.PATH"

struct where {
	Reeve__V1__TaskFilter filter;
	Reeve__V1__DetailsFilter details[LIMIT_DETAILS_CONDITIONS], *each_details[LIMIT_DETAILS_CONDITIONS];
	Reeve__V1__TaskStatus statuses[8];
	char *text; /* owns the conditions' strings */
};

/* The option --running-longer, which fills in the request's filter; `tasks` begins its help. */
#define WHERE_RUNNING_LONGER(tasks)                                                                                    \
	OPT_SPAN(0, "running-longer", OPTION_FIELD("filter.running_longer_ms"), 1, DAYS_MS(LIMIT_AGE_DAYS),                \
	    tasks " executing tasks whose attempt began this long ago or earlier")

/* Parses conditions, at least one. They are added to `more` (NULL: none), the filter of an option. Returns false with
 * *error set, which shows the place on two further lines, if they are invalid. Call where_free() in any case; until
 * then `where` must not be moved. */
bool where_parse(struct where *where, const char *text, const Reeve__V1__TaskFilter *more, struct reeve_error *error);
void where_free(struct where *where);

#endif
