/* Reads pages until there are enough items. */
#include "client/cmd/list.h"

#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/progress.h"
#include "common/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 1000 };

/* What has been printed of a list. */
struct printing {
	const struct list *list;
	struct reeve_client *client;
	struct table *table; /* NULL: as JSON */
	int64_t count;
	bool excess; /* a page had more items than the limit allows */
};

static const char *name_of(const struct list *list)
{
	return list->name ? list->name : list->items;
}

static ProtobufCMessage **items_of(const struct list *list, const void *answer, size_t *count)
{
	const ProtobufCFieldDescriptor *field;
	ProtobufCMessage ***items = fields_at(answer, list->items, &field);

	*count = *field_count(answer, field);
	return *items;
}

/* Marks strings that were not sent: the JSON must not show them as empty. */
static void leave_out(const char *names, ProtobufCMessage *item)
{
	const ProtobufCFieldDescriptor *field;
	char name[32];
	int length;

	for (; names && sscanf(names, "%31s%n", name, &length) == 1; names += length) {
		const char **text = fields_at(item, name, &field);

		if (text && !**text)
			*text = NULL;
	}
}

static void print_items(struct printing *printing, const void *answer, int64_t limit)
{
	size_t count;
	ProtobufCMessage **items = items_of(printing->list, answer, &count);

	for (size_t i = 0; i < count; i++, printing->count++) {
		printing->excess = printing->count >= limit;
		if (printing->excess)
			return;
		if (printing->table) {
			fields_row(printing->table, printing->list->columns, items[i],
			    printing->client ? reeve_client_now_us(printing->client) : 0);
		} else {
			leave_out(printing->list->unsent, items[i]);
			command_print_json(items[i]);
		}
	}
}

/* Prints the table, if that is the output. */
static void end(struct printing *printing, bool note_empty)
{
	if (!printing->table)
		return;
	if (printing->count > 0)
		table_print(printing->table);
	else if (note_empty)
		fprintf(stderr, "no %s\n", name_of(printing->list));
	table_destroy(printing->table);
}

/* Requests a page of up to `limit` items. */
static void *read_page(const struct printing *printing, void *request, int64_t limit, struct reeve_failure *failure)
{
	const struct list *list = printing->list;
	const ProtobufCMessageDescriptor *descriptor =
	    protobuf_c_service_descriptor_get_method_by_name(list->service, list->method)->input;
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(descriptor, "limit");

	if (field)
		*(uint32_t *)field_at(request, field) = (uint32_t)(limit < PAGE ? limit : PAGE);
	return reeve_call(printing->client, list->service, list->method, request, NULL, failure);
}

int list_print(
    const struct list *list, struct reeve_client *client, void *request, int64_t limit, bool json, int64_t *listed)
{
	struct printing printing = {.list = list, .client = client, .table = json ? NULL : table_create(list->columns)};
	struct reeve_failure failure = {0};
	void *page = NULL; /* the last one read: strings of the request can point into it */
	bool more = true, complete = false, first;
	struct progress progress;
	int64_t pages = 0;
	int code = EXIT_OK;

	progress_begin(&progress, "pages read", -1, 0);
	/* For the hint, one item more than the limit is requested. If the manager's own limit stops before it, it is
	 * looked for on one page more: the next item that matches can be far away. */
	while (code == EXIT_OK && more && !printing.excess && !complete && !ferror(stdout) &&
	    (printing.count < limit || list->hint)) {
		void *before = page;

		complete = printing.count >= limit;
		page = read_page(&printing, request, limit - printing.count + (list->hint != NULL), &failure);
		first = !before;
		reeve_free(before);
		if (json || !page)
			progress_end(&progress);
		if (page) {
			if (first)
				command_warn(page);
			more = reeve_next_page(request, page);
			print_items(&printing, page, limit);
			progress_show(&progress, ++pages);
		} else {
			code = command_failed(&failure);
		}
	}
	progress_end(&progress);
	if (code == EXIT_OK && list->hint && printing.excess) {
		end(&printing, false);
		command_log("there are more %s than the %" PRId64 " shown; %s", name_of(list), printing.count, list->hint);
	} else {
		end(&printing, code == EXIT_OK && !listed);
	}
	reeve_free(page);
	if (listed)
		*listed = printing.count;
	return code;
}

void list_print_answer(
    const struct list *list, struct reeve_client *client, const void *answer, int64_t limit, bool json)
{
	struct printing printing = {.list = list, .client = client, .table = json ? NULL : table_create(list->columns)};

	command_warn(answer);
	print_items(&printing, answer, limit);
	end(&printing, true);
}
