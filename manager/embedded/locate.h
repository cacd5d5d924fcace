/* Finds PostgreSQL's server programs, which Debian keeps outside PATH. */
#ifndef REEVE_EMBEDDED_LOCATE_H
#define REEVE_EMBEDDED_LOCATE_H

#include "common/error.h"

#include <limits.h>

struct locate_programs {
	char folder[PATH_MAX]; /* contains initdb and postgres */
	int major;             /* such as 15; 0: none found */
};

/* Searches pg_config's folder, /usr/lib/postgresql and PATH for the newest version, or for version `major` if it is not
 * 0. Returns false with *error if there is none: NOT_FOUND, or FAILED_PRECONDITION if only other versions are
 * installed. The message names the package to install. Runs child processes and waits for them. */
bool locate_postgres(int major, struct locate_programs *found, struct reeve_error *error);

#endif
