/*
 * Makes calls with request ids that the test chooses, and the same call to several managers at once, each over its own
 * connection. `reeve` never does that, because it does not reveal a call's id.
 *
 *	resend id [SECONDS]                           prints a request id for now, or for this many seconds later
 *	resend submit ID QUEUE KEY[@VERSION] COUNT URL...   COUNT tasks of the type `nothing` with that key; '' means none
 *	resend cancel|purge ID TASK URL...
 *	resend cancel-where ID QUEUE URL...            cancels the tasks of the queue, by a filter
 *	resend schedule ID METHOD REQUEST URL...       a call of ScheduleService; the request and the answer are JSON
 *
 * Writes a line for each URL, in their order: the ids in the answer. A `+` follows the id of a task that already
 * existed (of a cancel: that it did not change), a `!` that of a task that runs again, and `> N` means that a filter
 * continues after task N. For an error the line is "CODE: message"; then the exit code is 4.
 */
#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "common/rpc/client.h"
#include "common/uuid.h"

#include <inttypes.h>
#include <pthread.h>
#include <reeve/v1/schedule.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URLS_MAX = 64, TASKS_MAX = 10000, TIMEOUT_MS = 60000, ALIVE_MS = 10000 };

struct sender {
	pthread_t thread;
	struct rpc_client *client;
	ProtobufCMessage *response; /* NULL: see error */
	struct reeve_error error;
};

static struct sender senders[URLS_MAX];
static int sender_count;
static pthread_barrier_t begin;
static uint8_t request_id[UUID_BYTES];
static const ProtobufCServiceDescriptor *service = &reeve__v1__task_service__descriptor;
static const char *method;
static ProtobufCMessage *request;

static int usage(void)
{
	fputs(
	    "usage: resend id [SECONDS] | submit ID QUEUE KEY COUNT URL... | cancel|purge ID TASK URL... | cancel-where ID QUEUE URL... |\n       "
	    "schedule ID METHOD REQUEST URL...\n",
	    stderr);
	return EXIT_USAGE;
}

/* Parses an id in the usual form, or as just the 32 digits. */
static bool parse_id(const char *text)
{
	int i = 0;

	for (; *text && i < UUID_BYTES; text += 2, i++) {
		unsigned byte;

		text += *text == '-';
		if (sscanf(text, "%2x", &byte) != 1 || !text[1])
			return false;
		request_id[i] = (uint8_t)byte;
	}
	return i == UUID_BYTES && !*text;
}

static void print_id(void)
{
	for (int i = 0; i < UUID_BYTES; i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", request_id[i]);
	putchar('\n');
}

static void *send_one(void *arg)
{
	struct sender *sender = arg;
	struct rpc_call_options options = {.timeout_ms = TIMEOUT_MS, .request_id = request_id};

	pthread_barrier_wait(&begin);
	sender->response = rpc_client_call(sender->client, service, method, request, &options, &sender->error);
	return NULL;
}

static bool print_answer(const struct sender *sender)
{
	if (!sender->response) {
		printf("%s: %s\n", status_name(sender->error.code), sender->error.message);
		return false;
	}
	if (service != &reeve__v1__task_service__descriptor) {
		json_t *json = json_from_message(sender->response);

		json_dumpf(json, stdout, JSON_COMPACT);
		json_decref(json);
	} else if (!strcmp(method, "Submit")) {
		const Reeve__V1__SubmitResponse *submitted = (const void *)sender->response;

		for (size_t i = 0; i < submitted->n_tasks; i++)
			printf("%s%" PRId64 "%s", i ? " " : "", submitted->tasks[i]->id,
			    submitted->tasks[i]->restarted      ? "!"
			        : submitted->tasks[i]->existing ? "+"
			                                        : "");
	} else {
		const Reeve__V1__CancelResponse *cancelled = (const void *)sender->response;

		for (size_t i = 0; i < cancelled->n_tasks; i++)
			printf("%s%" PRId64 "%s", i ? " " : "", cancelled->tasks[i]->id, cancelled->tasks[i]->changed ? "" : "+");
		if (cancelled->next_after_id)
			printf(" > %" PRId64, cancelled->next_after_id);
	}
	putchar('\n');
	return true;
}

/* Sends the call to all managers at the same moment, once each is alive. Returns the exit code. */
static int send_all(char **urls, int count)
{
	int code = EXIT_OK;

	sender_count = count;
	for (int i = 0; i < count; i++) {
		struct rpc_client_options options = {.urls = urls[i], .actor = "resend"};

		senders[i].client = rpc_client_create(&options, &senders[i].error);
		if (!senders[i].client) {
			fprintf(stderr, "resend: %s\n", senders[i].error.message);
			exit(EXIT_USAGE);
		}
	}
	pthread_barrier_init(&begin, NULL, (unsigned)count);
	for (int i = 0; i < count; i++)
		rpc_client_alive(senders[i].client, ALIVE_MS);
	for (int i = 0; i < count; i++)
		pthread_create(&senders[i].thread, NULL, send_one, &senders[i]);
	for (int i = 0; i < count; i++)
		pthread_join(senders[i].thread, NULL);
	for (int i = 0; i < count; i++) {
		if (!print_answer(&senders[i]))
			code = EXIT_REFUSED;
		if (senders[i].response)
			protobuf_c_message_free_unpacked(senders[i].response, NULL);
		rpc_client_destroy(senders[i].client);
	}
	pthread_barrier_destroy(&begin);
	return code;
}

static int submit(char *queue, char *key, int count, char **urls, int url_count)
{
	Reeve__V1__SubmitRequest message = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__TaskSpec spec = REEVE__V1__TASK_SPEC__INIT;
	Reeve__V1__TaskSpec *specs[TASKS_MAX];

	char *at = strchr(key, '@');

	if (at) {
		*at = '\0';
		spec.version = atoll(at + 1);
	}
	spec.queue = queue;
	spec.key = key;
	spec.type = (char *)"nothing";
	for (int i = 0; i < count; i++)
		specs[i] = &spec;
	message.n_tasks = (size_t)count;
	message.tasks = specs;
	method = "Submit";
	request = &message.base;
	return send_all(urls, url_count);
}

static int cancel(int64_t task, char **urls, int url_count)
{
	Reeve__V1__CancelRequest message = REEVE__V1__CANCEL_REQUEST__INIT;

	message.n_ids = 1;
	message.ids = &task;
	method = "Cancel";
	request = &message.base;
	return send_all(urls, url_count);
}

static int purge(int64_t task, char **urls, int url_count)
{
	Reeve__V1__PurgeRequest message = REEVE__V1__PURGE_REQUEST__INIT;

	message.n_ids = 1;
	message.ids = &task;
	method = "Purge";
	request = &message.base;
	return send_all(urls, url_count);
}

static int cancel_where(char *queue, char **urls, int url_count)
{
	Reeve__V1__CancelRequest message = REEVE__V1__CANCEL_REQUEST__INIT;
	Reeve__V1__TaskFilter filter = REEVE__V1__TASK_FILTER__INIT;

	filter.queue = queue;
	message.filter = &filter;
	method = "Cancel";
	request = &message.base;
	return send_all(urls, url_count);
}

static int schedule(const char *name, const char *text, char **urls, int url_count)
{
	json_t *json = json_loads(text, 0, NULL);
	const ProtobufCMethodDescriptor *called;
	struct reeve_error error = {0};
	int code;

	service = &reeve__v1__schedule_service__descriptor;
	method = name;
	called = protobuf_c_service_descriptor_get_method_by_name(service, name);
	request = called && json ? json_to_message(json, called->input, &error) : NULL;
	json_decref(json);
	if (!request) {
		fprintf(stderr, "resend: no such request: %s\n", error.message);
		return EXIT_USAGE;
	}
	code = send_all(urls, url_count);
	protobuf_c_message_free_unpacked(request, NULL);
	return code;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "id")) {
		uuid7_make(clock_wall_us() / 1000 + (argc == 3 ? atoll(argv[2]) * 1000 : 0), request_id);
		print_id();
		return EXIT_OK;
	}
	if (argc < 3 || !parse_id(argv[2]))
		return usage();
	if (!strcmp(argv[1], "submit") && argc >= 7 && argc - 6 <= URLS_MAX) {
		int count = atoi(argv[5]);

		return count >= 1 && count <= TASKS_MAX ? submit(argv[3], argv[4], count, argv + 6, argc - 6) : usage();
	}
	if (!strcmp(argv[1], "cancel-where") && argc >= 5 && argc - 4 <= URLS_MAX)
		return cancel_where(argv[3], argv + 4, argc - 4);
	if (!strcmp(argv[1], "schedule") && argc >= 6 && argc - 5 <= URLS_MAX)
		return schedule(argv[3], argv[4], argv + 5, argc - 5);
	if (!strcmp(argv[1], "cancel") && argc >= 5 && argc - 4 <= URLS_MAX)
		return cancel(atoll(argv[3]), argv + 4, argc - 4);
	if (!strcmp(argv[1], "purge") && argc >= 5 && argc - 4 <= URLS_MAX)
		return purge(atoll(argv[3]), argv + 4, argc - 4);
	return usage();
}
