/* Lists that managers return in pages. */
#ifndef REEVE_CLIENT_CMD_LISTING_H
#define REEVE_CLIENT_CMD_LISTING_H

#include "client/cmd/table.h"

#include <reeve/client.h>
#include <stdbool.h>
#include <stdint.h>

/* A page of a list; `items` NULL: it could not be read. */
struct listing_page {
	void *items;
	size_t count;
	bool more; /* there may be further pages, even if this one is empty */
};

struct listing {
	const struct column *columns;
	const char *name; /* of the items: "tasks" */
	const char *hint; /* advice if there are more than the limit: "--limit and the filters choose"; NULL: none */
	/* Reads the next page of up to `limit` items; `arg` keeps the position. */
	struct listing_page (*read)(void *arg, uint32_t limit, struct reeve_failure *failure);
	void (*add_row)(void *arg, struct table *table, const void *items, size_t i);
	const void *(*wire)(const void *items, size_t i); /* for reeve_json */
	void (*release)(void *items);
};

/* Prints up to `limit` items, as JSON or in one table, so that its columns align. Returns the exit code, after an error
 * message if it failed. *listed (unless NULL) is set to their number; the caller must then report an empty list. */
int listing_print(const struct listing *listing, void *arg, int64_t limit, bool json, int64_t *listed);

#endif
