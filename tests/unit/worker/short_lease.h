/* A fixture with a lease of a second, or of what the test sets, and files in the script's directory. Each file that
 * includes this has its own. */
#ifndef REEVE_TESTS_SHORT_LEASE_H
#define REEVE_TESTS_SHORT_LEASE_H

#include "fixture.h"

#include <dirent.h>

enum { LEASE_MS = 1000, HEARTBEAT_MS = 150 };

static struct fixture fixture;

static inline void short_lease(void)
{
	fixture.script.lease_ms = LEASE_MS;
	fixture.script.heartbeat_ms = HEARTBEAT_MS;
}

static inline const char *own(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", fixture.script.directory, name);
	return path;
}

/* Writes a handlers file; @ is replaced by the script's directory. */
static inline const char *write_handlers(const char *handlers)
{
	FILE *out = fopen(own("handlers.ini"), "w");

	for (; *handlers; handlers++)
		if (*handlers == '@')
			fputs(fixture.script.directory, out);
		else
			fputc(*handlers, out);
	fclose(out);
	return own("handlers.ini");
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

static inline void hold_heartbeats(bool hold)
{
	script_lock(&fixture.script);
	fixture.script.hold_heartbeats = hold;
	script_unlock(&fixture.script);
}

/* Returns the latest time at which the worker's current lease ends. */
static inline int64_t lease_end_ms(void)
{
	int64_t end_ms;

	script_lock(&fixture.script);
	end_ms = fixture.script.renewed_ms + fixture.script.lease_ms;
	script_unlock(&fixture.script);
	return end_ms;
}

static inline void sleep_until(int64_t until_ms)
{
	while (clock_monotonic_ms() < until_ms)
		usleep(1000);
}

#endif
