/* Commands that make one call: rows of the table of commands say all about them. */
#ifndef REEVE_CLIENT_CMD_CALL_H
#define REEVE_CLIENT_CMD_CALL_H

#include "client/cmd/list.h"
#include "common/options.h"

struct call {
	struct option_table options; /* they fill in the request: OPTION_FIELD, and CALL_LIMIT */
	const char *operand;         /* the request's field that the operand fills in: a name, or an id; NULL: none */
	const char *noun;            /* what the operand names: "queue" */
	bool optional;               /* the operand may be left out */
	const char *preset;          /* a field of the request that has a fixed value; NULL: none */
	int value;
	bool changes; /* the call changes something */
	/* The call. If it has `items`, these are listed, else its columns are the lines that describe the answer. */
	struct list list;
	const char *part; /* the answer's field that is described, instead of all of it; NULL: all */
	int width;        /* of the lines' headings */
	/* Prints the answer, or its part, instead of the lines; not as JSON. NULL: prints the lines. */
	void (*print)(const struct call *call, const void *request, const void *answer, int64_t now_us);
	/* The same, but also as JSON. */
	void (*print_json)(const struct call *call, const void *request, const void *answer);
	const char *done; /* for `print`: "paused" */
	/* Completes the request, and checks it, before the call. Returns what is wrong, or NULL. */
	const char *(*complete)(void *request);
	/* Called if the list is empty. Returns the exit code; EXIT_OK: then "no …" is reported. */
	int (*empty)(struct reeve_client *client, const void *request);
};

/* The values of the options. */
struct call_options {
	struct option_message request;
	int64_t limit;
};

/* The command of an action on what NAME names: a call of the service's Control. The file defines print_controlled and
 * print_controlled_json. */
#define CALL_CONTROL(what, field, example, of_service, verb, action, word, help)                                       \
	{                                                                                                                  \
		.options = {.program = "reeve " what " " verb,                                                                 \
		    .usage = "NAME [--json]",                                                                                  \
		    .summary = help,                                                                                           \
		    .epilogue = "Example: reeve " what " " verb " " example},                                                  \
		.operand = field, .noun = what, .preset = "action", .value = action, .changes = true,                          \
		.list = {.service = of_service, .method = "Control"}, .print = print_controlled,                               \
		.print_json = print_controlled_json, .done = word                                                              \
	}

/* The option --limit of a list: how many items it prints; the call's own field is the size of a page. */
#define LIST_LIMIT(place, items)                                                                                       \
	OPT_INTEGER('n', "limit", place, 1, 10000000, "N", "maximum number of " items, .default_value = "100")
#define CALL_LIMIT(items) LIST_LIMIT(OPTION_AT(struct call_options, limit), items)

/* Parses the options, connects, calls and prints. Returns the exit code. */
int call_run(const struct call *call, int argc, char **argv);

/* Prints an answer as the call's command does. */
void call_print(
    const struct call *call, struct reeve_client *client, const void *request, const void *answer, bool json);

#endif
