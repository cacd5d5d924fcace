/* Lists that managers return in pages. */
#ifndef REEVE_CLIENT_CMD_LIST_H
#define REEVE_CLIENT_CMD_LIST_H

#include "client/cmd/table.h"

#include <reeve/client.h>
#include <stdbool.h>
#include <stdint.h>

/* A call that lists items. */
struct list {
	const ProtobufCServiceDescriptor *service;
	const char *method;
	const char *items;  /* the response's field with the items; also what they are called in messages: "tasks" */
	const char *name;   /* what they are called, if not so; or NULL */
	const char *hint;   /* advice if there are more than the limit: "--limit and the filters choose"; NULL: none */
	const char *unsent; /* fields that the manager does not send in lists, separated by spaces; NULL: none */
	const struct column *columns;
};

/* Reads and prints up to `limit` items (INT64_MAX: all), as JSON or in one table, so that its columns align. Returns
 * the exit code, after an error message if it failed. *listed (unless NULL) is set to their number; the caller must
 * then report an empty list. */
int list_print(
    const struct list *list, struct reeve_client *client, void *request, int64_t limit, bool json, int64_t *listed);

/* Prints the items of one answer, up to `limit`; reports an empty list. */
void list_print_answer(
    const struct list *list, struct reeve_client *client, const void *answer, int64_t limit, bool json);

#endif
