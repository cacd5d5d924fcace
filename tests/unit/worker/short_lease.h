/* A fixture with a lease of a second, or of what the test sets, and a handlers file. */
#ifndef REEVE_TESTS_SHORT_LEASE_H
#define REEVE_TESTS_SHORT_LEASE_H

#include "own_files.h"

enum { LEASE_MS = 1000, HEARTBEAT_MS = 150 };

static inline void short_lease(void)
{
	fixture.script.lease_ms = LEASE_MS;
	fixture.script.heartbeat_ms = HEARTBEAT_MS;
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
