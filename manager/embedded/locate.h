/* Finding PostgreSQL's server programs, which Debian keeps outside PATH. */
#ifndef REEVE_EMBEDDED_LOCATE_H
#define REEVE_EMBEDDED_LOCATE_H

#include "common/error.h"

#include <limits.h>

struct locate_programs {
	char folder[PATH_MAX]; /* holds initdb and postgres */
	int major;             /* 15 */
};

/* Looks where pg_config says, under /usr/lib/postgresql and in PATH, and takes the newest version; with `major` above 0
 * only that one. False: none, *error says which package to install. Starts and awaits child processes. */
bool locate_postgres(int major, struct locate_programs *found, struct reeve_error *error);

#endif
