/* Reads pages until there are enough items. */
#include "client/cmd/listing.h"

#include "client/cmd/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 1000 };

static void print_items(const struct listing *listing, void *arg, struct table *table, const struct listing_page *page)
{
	for (size_t i = 0; i < page->count; i++) {
		if (table) {
			listing->add_row(arg, table, page->items, i);
			continue;
		}
		command_print_json(listing->wire(page->items, i));
	}
}

/* Returns true if the next page has an item; does not read further pages to find one. */
static bool goes_on(const struct listing *listing, void *arg)
{
	struct listing_page page = listing->read(arg, 1, NULL);
	bool found = page.items && page.count > 0;

	if (page.items)
		listing->release(page.items);
	return found;
}

int listing_print(const struct listing *listing, void *arg, int64_t limit, bool json, int64_t *listed)
{
	struct table *table = json ? NULL : table_create(listing->columns);
	struct reeve_failure failure = {0};
	struct listing_page page = {.more = true};
	int64_t count = 0;
	int code = EXIT_OK;

	while (page.more && count < limit && !ferror(stdout)) {
		page = listing->read(arg, (uint32_t)(limit - count < PAGE ? limit - count : PAGE), &failure);
		if (!page.items) {
			code = command_failed(&failure);
			break;
		}
		print_items(listing, arg, table, &page);
		count += (int64_t)page.count;
		listing->release(page.items);
	}
	if (table && count > 0)
		table_print(table);
	else if (table && code == EXIT_OK && !listed)
		fprintf(stderr, "no %s\n", listing->name);
	if (table)
		table_destroy(table);
	if (code == EXIT_OK && listing->hint && count >= limit && page.more && goes_on(listing, arg))
		command_log("there are more %s than the %" PRId64 " shown; %s", listing->name, count, listing->hint);
	if (listed)
		*listed = count;
	return code;
}
