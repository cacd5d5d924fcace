/* Lists that managers answer page by page. */
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
	bool more; /* there may be further pages, also if this one is empty */
};

struct listing {
	const struct column *columns;
	const char *name; /* of what is listed: "tasks" */
	const char *hint; /* what to do if there are more than the limit: "--limit and the filters choose"; NULL: that is not said */
	/* Reads the page of at most `limit` items that follows those read before; `arg` keeps where that is. */
	struct listing_page (*read)(void *arg, uint32_t limit, struct reeve_failure *failure);
	void (*add_row)(void *arg, struct table *table, const void *items, size_t i);
	const void *(*wire)(const void *items, size_t i); /* for reeve_json */
	void (*release)(void *items);
};

/* Prints up to `limit` items: as JSON, or all in one table, so that its columns agree. Returns the exit code, after the user was
 * told of an error; *listed, if not NULL, is how many there were: if none, it is the caller who says so. */
int listing_print(const struct listing *listing, void *arg, int64_t limit, bool json, int64_t *listed);

#endif
