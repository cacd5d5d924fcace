/* `reeve audit`. */
#include "client/cmd/command.h"
#include "client/cmd/list.h"
#include "common/json_names.h"
#include "common/limits.h"

#include <reeve/v1/task_calls.h>
#include <stdlib.h>
#include <string.h>

struct audit_options {
	struct option_message request;
	const char *events;
	bool all;
};

static const struct option_spec specs[] = {
    OPT_TIME(0, "since", OPTION_FIELD("since_us"),
        "only events from this time on: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), \"5m ago\""),
    OPT_TIME(0, "until", OPTION_FIELD("until_us"), "only events before this time"),
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "only events of this queue and its tasks"),
    OPT_NAME('t', "type", OPTION_FIELD("type"), "TYPE", "only events of tasks of this type"),
    OPT_TEXT(0, "event", OPTION_AT(struct audit_options, events), "EVENT[,EVENT]",
        "only these events, such as failed,dead or queue_paused"),
    OPT_NAME(0, "worker", OPTION_FIELD("worker"), "NAME", "only events with this worker"),
    OPT_NAME(
        0, "actor", OPTION_FIELD("actor"), "NAME", "only events by this identity or caller: shop, or shop/ann@host"),
    OPT_INTEGER('n', "limit", OPTION_FIELD("limit"), 1, LIMIT_CALL_EVENTS, "N",
        "the newest N events; if not set, " LIMIT_TEXT(DEFAULT_CALL_EVENTS)),
    OPT_FLAG('a', "all", OPTION_AT(struct audit_options, all), "all events"),
    {0},
};

static const struct option_table table = {
    .program = "reeve audit",
    .usage = "[ID] [--since TIME] [--until TIME] [--queue NAME] [--type TYPE] [--event EVENT] [--worker NAME] "
             "[--actor NAME] [--limit N | --all] [--json]",
    .summary = "Shows the newest events of one task, or of all tasks, workers, queues and schedules, by time: the "
               "newest is last.",
    .epilogue = "Examples:\n"
                "  reeve audit 17\n"
                "  reeve audit --limit 20\n"
                "  reeve audit --queue mail --event dead,cancelled\n"
                "  reeve audit --actor shop --since '1d ago'\n"
                "  reeve audit --since '5m ago' --all --json\n"
                "  reeve audit --since '2026-01-14 08:00' --until '2026-01-14 09:00'",
    .specs = specs,
};

#define EVENT_COLUMNS                                                                                                  \
	COL_WORD("EVENT", "event"), COL_NUMBER("ATTEMPT", "attempt", .as = AS_NUMBER), COL_TEXT("WORKER", "worker"),       \
	    COL_TEXT("ACTOR", "actor"), COL_TEXT("NOTE", "note"),                                                          \
	{                                                                                                                  \
		0                                                                                                              \
	}

static const struct column columns[] = {
    COL_WORD("TIME", "at_us", .as = AS_TIME), COL_NUMBER("TASK", "task_id", .as = AS_NUMBER), EVENT_COLUMNS};

static const struct column one_task_columns[] = {COL_WORD("TIME", "at_us", .as = AS_TIME), EVENT_COLUMNS};

/* Prints the newest events. */
static int print_newest(
    const struct list *list, struct reeve_client *client, Reeve__V1__AuditRequest *request, bool json)
{
	struct reeve_failure failure = {0};
	Reeve__V1__AuditResponse *audit = reeve_audit(client, request, &failure);

	if (!audit)
		return command_failed(&failure);
	list_print_answer(list, client, audit, INT64_MAX, json);
	if (audit->more)
		command_log("there are older events than these; --all shows them, --since, --until and --limit choose");
	reeve_free(audit);
	return EXIT_OK;
}

/* Parses events, separated by commas, into a list of up to LIMIT_EVENT_KINDS. Returns false after a message if one is
 * unknown. */
static bool take_events(const char *text, Reeve__V1__AuditRequest *request)
{
	char word[JSON_NAME_BYTES];
	int event;

	for (const char *at = text; at && *at; at += strcspn(at, ","), at += *at == ',') {
		size_t length = strcspn(at, ",");

		snprintf(word, sizeof word, "%.*s", (int)length, at);
		if (length >= sizeof word || request->n_events == LIMIT_EVENT_KINDS ||
		    !json_enum_number(&reeve__v1__audit_event_kind__descriptor, word, &event) || !event)
			return false;
		request->events[request->n_events++] = (Reeve__V1__AuditEventKind)event;
	}
	return !text || request->n_events;
}

int command_audit(int argc, char **argv)
{
	struct list list = {
	    .service = &reeve__v1__task_service__descriptor, .method = "Audit", .items = "events", .columns = columns};
	Reeve__V1__AuditEventKind events[LIMIT_EVENT_KINDS];
	Reeve__V1__AuditRequest request = REEVE__V1__AUDIT_REQUEST__INIT;
	struct audit_options options = {.request.message = &request.base};
	struct shared_options shared = {0};
	struct reeve_client *client;
	char words[1024];
	int operands, code;

	if (!command_options(&table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands > 1)
		return command_usage(&table, "too many arguments: give one task's ID");
	request.events = events;
	if (!take_events(options.events, &request))
		return command_usage(&table, "--event: \"%s\" has an unknown event; there are %s", options.events,
		    json_enum_words(&reeve__v1__audit_event_kind__descriptor, words, sizeof words) + strlen("unspecified, "));
	if (operands && (*request.queue || *request.type))
		return command_usage(&table, "--queue and --type cannot be combined with an ID");
	if (options.all && request.limit)
		return command_usage(&table, "--all and --limit cannot be combined");
	if (request.until_us && request.until_us <= request.since_us)
		return command_usage(&table, "--until is not after --since");
	if (operands == 1 && !command_number(argv[1], &request.task_id))
		return command_usage(&table, "\"%s\" is not a task id; ids are whole numbers from 1", argv[1]);
	if (request.task_id)
		list.columns = one_task_columns;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	if (options.all) {
		if (!request.since_us && !request.task_id)
			request.since_us = 1; /* 0 would mean the last hour */
		code = list_print(&list, client, &request, INT64_MAX, shared.json, NULL);
	} else {
		code = print_newest(&list, client, &request, shared.json);
	}
	reeve_client_destroy(client);
	return code;
}
