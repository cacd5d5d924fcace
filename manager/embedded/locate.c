/*
 * Finds PostgreSQL: runs `postgres -V` in each folder that may have its programs, and chooses the newest version, or
 * the one that a cluster needs.
 */
#include "manager/embedded/locate.h"

#include "common/mem.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct search {
	int wanted; /* 0: any */
	int others; /* the newest other version that was found; 0: none */
	struct locate_programs best;
};

/* Runs a command and writes the first line of its output into `line`. Returns false if it fails or writes nothing. The
 * command must be a constant, apart from quoted paths. */
static bool first_line_of(const char *command, char *line, size_t size)
{
	FILE *pipe = popen(command, "re");
	if (!pipe)
		return false;
	char *got = fgets(line, (int)size, pipe);
	char rest[256];
	while (got && fgets(rest, sizeof rest, pipe))
		continue;
	if (pclose(pipe) != 0 || !got)
		return false;
	line[strcspn(line, "\n")] = '\0';
	return line[0] != '\0';
}

/* Returns the major version of the programs in a folder, or 0 if it does not have both. */
static int version_in(const char *folder)
{
	char path[PATH_MAX + 32], line[256];
	int major = 0;

	if (strchr(folder, '\''))
		return 0;
	snprintf(path, sizeof path, "%s/initdb", folder);
	if (access(path, X_OK) != 0)
		return 0;
	snprintf(path, sizeof path, "%s/postgres", folder);
	if (access(path, X_OK) != 0)
		return 0;
	snprintf(path, sizeof path, "'%s/postgres' -V 2>/dev/null", folder);
	if (!first_line_of(path, line, sizeof line) || sscanf(line, "postgres (PostgreSQL) %d", &major) != 1)
		return 0;
	return major;
}

static void consider(struct search *search, const char *folder)
{
	int major = version_in(folder);

	if (major == 0 || strlen(folder) >= sizeof search->best.folder)
		return;
	if (search->wanted && major != search->wanted) {
		if (major > search->others)
			search->others = major;
		return;
	}
	if (major <= search->best.major)
		return;
	search->best.major = major;
	strcpy(search->best.folder, folder);
}

static void consider_path(struct search *search)
{
	const char *path = getenv("PATH");
	char *copy = mem_strdup(path ? path : ""), *rest = NULL;

	for (char *folder = strtok_r(copy, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest))
		consider(search, folder);
	free(copy);
}

bool locate_postgres(int major, struct locate_programs *found, struct reeve_error *error)
{
	struct search search = {.wanted = major};
	char folder[PATH_MAX];
	glob_t matches;

	if (first_line_of("pg_config --bindir 2>/dev/null", folder, sizeof folder))
		consider(&search, folder);
	if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &matches) == 0) {
		for (size_t i = 0; i < matches.gl_pathc; i++)
			consider(&search, matches.gl_pathv[i]);
		globfree(&matches);
	}
	consider_path(&search);
	*found = search.best;
	if (found->major)
		return true;
	if (search.others)
		return error_set(error, STATUS(FAILED_PRECONDITION),
		    "needs PostgreSQL %d, but only version %d is installed: install the package postgresql-%d", major,
		    search.others, major);
	if (major)
		return error_set(error, STATUS(NOT_FOUND),
		    "no PostgreSQL server is installed; version %d is needed: install the package postgresql-%d", major, major);
	return error_set(error, STATUS(NOT_FOUND),
	    "no PostgreSQL server is installed (looked where pg_config says, in /usr/lib/postgresql/*/bin and in "
	    "PATH): "
	    "install the package postgresql");
}
