/* A fixture, and files of the test in the script's directory. Each file that includes this has its own. */
#ifndef REEVE_TESTS_OWN_FILES_H
#define REEVE_TESTS_OWN_FILES_H

#include "fixture.h"

#include <dirent.h>

static struct fixture fixture;

/* Returns the path of one of the test's own files. */
static inline const char *own(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", fixture.script.directory, name);
	return path;
}

static inline void unlink_all(void)
{
	DIR *directory = opendir(fixture.script.directory);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "manager"))
			unlink(own(entry->d_name));
	closedir(directory);
}

#endif
