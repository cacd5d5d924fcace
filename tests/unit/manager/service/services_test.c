/*
 * The services, with a store and a server of their own.
 *
 * Every operation that a call starts at the store carries the origin of its caller: a role serves origins in turn, so
 * one caller's calls do not wait for another's. That test makes a call of each method in the services' tables. It fills
 * in requests by the names of their fields; a new method may need more names.
 */
#include "manager/service/scrape.h"
#include "manager/service/services.h"
#include "tests/unit/manager/core/fake_answers.h"
#include "tests/unit/manager/service/fake_calls.h"

#include <criterion/criterion.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/batch.pb-c.h>
#include <reeve/v1/metric.pb-c.h>
#include <reeve/v1/pipeline.pb-c.h>
#include <reeve/v1/queue.pb-c.h>
#include <reeve/v1/schedule.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/token.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- requests ------------------------------------------------------------------------------------------------------
 */

/* What fields get, in messages whose name begins with `message`, or in all. */
static const struct {
	const char *message, *field;
	int64_t number;
	const char *text; /* NULL: the number */
} values[] = {
    {"", "name", 0, "name"},
    {"", "queue", 0, "queue"},
    {"", "type", 0, "type"},
    {"", "category", 0, "category"},
    {"SetQueue", "fields", 0, "verbose"},
    {"EditSchedule", "fields", 0, "every_ms"},
    {"", "every_ms", 1000, NULL},
    {"Activity", "by", 1, NULL},
    {"", "id", 1, NULL},
    {"", "ids", 1, NULL},
    {"", "task_id", 1, NULL},
    {"Audit", "task_id", 0, NULL}, /* not with a queue or type */
    {"", "incarnation", 1, NULL},
    {"", "token", 1, NULL},
    {"", "seq", 1, NULL},
    {"", "fetch_id", 1, NULL},
    {"", "slots", 1, NULL},
    {"", "run_ms", 1, NULL},
    {"", "action", 1, NULL},
    {"", "kind", 1, NULL},
    {"Register", "concurrency", 1, NULL},
    {"Update", "max_attempts", 1, NULL},
    {"Result", "outcome", 1, NULL},
    {"", "hash", 0, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
    {"Rights", "roles", 1, NULL},
    /* messages, with what is in them */
    {"Submit", "tasks", 0, NULL},
    {"Report", "results", 0, NULL},
    {"Progress", "attempts", 0, NULL},
    {"Heartbeat", "in_flight", 0, NULL},
    {"Heartbeat", "remarks", 0, NULL},
    {"PutMetrics", "metrics", 0, NULL},
    {"AddMetrics", "metrics", 0, NULL},
    {"Check", "questions", 0, NULL},
    {"DefinePipeline", "pipeline", 0, NULL},
    {"Pipeline", "stages", 0, NULL},
    {"", "schedule", 0, NULL},
    {"Schedule", "task", 0, NULL},
    {"SetQueue", "settings", 0, NULL},
    {"CreateToken", "rights", 0, NULL},
};

static ProtobufCMessage *filled(const ProtobufCMessageDescriptor *descriptor);

/* Sets a singular field, or the one element of a repeated one. */
static void put(const ProtobufCFieldDescriptor *field, char *message, size_t value)
{
	bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
	char *at = repeated ? calloc(1, sizeof(int64_t)) : message + field->offset;

	if (repeated) {
		memcpy(message + field->offset, &at, sizeof at);
		*(size_t *)(void *)(message + field->quantifier_offset) = 1;
	}
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		*(ProtobufCMessage **)(void *)at = filled(field->descriptor);
	else if (field->type == PROTOBUF_C_TYPE_STRING)
		*(char **)(void *)at = strdup(values[value].text);
	else if (field->type == PROTOBUF_C_TYPE_INT64)
		*(int64_t *)(void *)at = values[value].number;
	else
		*(int32_t *)(void *)at = (int32_t)values[value].number;
}

/* Returns a message in which the fields of the table are set. */
static ProtobufCMessage *filled(const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);

	descriptor->message_init(message);
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		const ProtobufCFieldDescriptor *field =
		    protobuf_c_message_descriptor_get_field_by_name(descriptor, values[i].field);
		bool text = field && field->type == PROTOBUF_C_TYPE_STRING;

		if (field && text == (values[i].text != NULL) &&
		    !strncmp(descriptor->short_name, values[i].message, strlen(values[i].message)))
			put(field, (char *)message, i);
	}
	return message;
}

/* --- the test ------------------------------------------------------------------------------------------------------
 */

static struct services services;
static int calls;

/* Returns how many operations the call waits for; all must be its caller's. Ends them. */
static int take_operations(const char *name)
{
	/* What the manager reads for all. */
	static const bool own[FAKE_KINDS] = {[FAKE_PAGE] = true, [FAKE_STREAMS] = true};
	struct store_op *op;
	int count = 0;

	for (enum fake_kind kind = 0; kind < FAKE_KINDS; kind++)
		while (!own[kind] && (op = fake_take(kind))) {
			count++;
			if (kind == FAKE_FLEET) { /* for all callers of Scrape */
				fake_ok(op);
				continue;
			}
			cr_expect_eq(
			    op->origin, ORIGIN, "%s starts an operation (%d) of the origin %d", name, (int)kind, (int)op->origin);
			fake_fail(op, STATUS(UNAVAILABLE));
		}
	return count;
}

static void call_method(const ProtobufCServiceDescriptor *service, const struct rpc_entry *entry)
{
	const ProtobufCMethodDescriptor *method = protobuf_c_service_descriptor_get_method_by_name(service, entry->name);
	struct rpc_call call = {.entry = entry};
	ProtobufCMessage *request = filled(method->input);
	char name[80];

	snprintf(name, sizeof name, "%s.%s", service->short_name, entry->name);
	cr_expect_neq(entry->roles, 0, "%s may be called by nobody", name);
	uuid7_make(fake_db_us() / 1000, call.request_id);
	entry->serve(&services, &call, request);
	fake_turn(services.core); /* the names that the request has may be read again first */
	if (!fake.full && strcmp(entry->name, "Ping") && strcmp(entry->name, "WhoAmI")) /* these need no database */
		cr_expect_gt(take_operations(name), 0, "%s starts no operation: %s", name, call.problem);
	cr_expect_eq(call.answers, 1, "%s is answered %d times", name, call.answers);
	protobuf_c_message_free_unpacked(request, NULL);
	calls++;
}

void rpc_server_add(struct rpc_server *server, const ProtobufCServiceDescriptor *descriptor,
    const struct rpc_entry *methods, void *service)
{
	(void)server;
	cr_assert_eq(service, &services);
	for (const struct rpc_entry *entry = methods; entry->name; entry++)
		call_method(descriptor, entry);
}

Test(services, operations_have_their_callers_origin)
{
	fake_route("queue", "type");
	services = (struct services){.core = fake_core(), .manager_name = "manager", .max_message_bytes = 8 << 20};
	services.scrape = scrape_create(&services);
	services_add(&services); /* calls each method */
	cr_expect_gt(calls, 40);
	scrape_destroy(services.scrape);
	fake_end(services.core);
}

/* With the address sanitizer, this also shows whether a method uses a call that it has answered. */
Test(services, a_call_is_answered_once_if_the_store_refuses_its_operations_at_once)
{
	fake_route("queue", "type");
	services = (struct services){.core = fake_core(), .manager_name = "manager", .max_message_bytes = 8 << 20};
	services.scrape = scrape_create(&services);
	fake.full = true;
	services_add(&services);
	cr_expect_gt(calls, 40);
	fake.full = false;
	scrape_destroy(services.scrape);
	fake_end(services.core);
}

/* --- single methods ------------------------------------------------------------------------------------------------
 */

/* Calls a method; the call is valid until the next one. */
static struct rpc_call *call_of(const struct rpc_entry *entry, const char *name, const ProtobufCMessage *request)
{
	static struct rpc_call call;

	while (strcmp(entry->name, name))
		entry++;
	call = (struct rpc_call){.entry = entry};
	uuid7_make(fake_db_us() / 1000, call.request_id);
	entry->serve(&services, &call, request);
	return &call;
}

static void expect_invalid(const struct rpc_entry *entry, const char *name, const ProtobufCMessage *request)
{
	const struct rpc_call *call = call_of(entry, name, request);

	cr_expect_eq(call->answers, 1, "%s waits", name);
	cr_expect_eq(call->code, STATUS(INVALID_ARGUMENT), "%s: %s", name, call->problem);
}

static void scrape_by(struct rpc_call *call)
{
	static Reeve__V1__ScrapeRequest request = REEVE__V1__SCRAPE_REQUEST__INIT;

	*call = (struct rpc_call){0};
	scrape_method(&services, call, &request.base);
}

Test(services, scrapers_share_what_the_database_answers_and_do_not_wait_for_long)
{
	struct rpc_call calls_of[3];
	struct store_fleet *op;

	services = (struct services){.core = fake_core(), .manager_name = "manager", .max_message_bytes = 8 << 20};
	services.scrape = scrape_create(&services);
	scrape_by(&calls_of[0]);
	scrape_by(&calls_of[1]);
	cr_expect_eq(fake_count(FAKE_FLEET), 1);
	cr_expect_eq(calls_of[0].answers + calls_of[1].answers, 0);
	op = fake_take(FAKE_FLEET);
	op->count = 0;
	fake_ok(op);
	cr_expect_eq(calls_of[0].answers, 1);
	cr_expect_eq(calls_of[1].answers, 1);
	scrape_by(&calls_of[2]); /* a moment later */
	cr_expect_eq(calls_of[2].answers, 1);
	cr_expect_eq(fake_count(FAKE_FLEET), 0);
	fake_pass(services.core, 5000);
	scrape_by(&calls_of[0]);
	scrape_by(&calls_of[1]);
	cr_expect_eq(fake_count(FAKE_FLEET), 1);
	fake_pass(services.core, 1900);
	cr_expect_eq(calls_of[0].answers, 0);
	fake_pass(services.core, 100); /* the database does not answer in time */
	cr_expect_eq(calls_of[0].answers, 1);
	cr_expect_eq(calls_of[1].answers, 1);
	scrape_by(&calls_of[2]);
	fake_fail(fake_take(FAKE_FLEET), STATUS(UNAVAILABLE));
	fake_pass(services.core, 1);
	cr_expect_eq(calls_of[2].answers, 1);
	cr_expect_eq(calls_of[0].answers, 1);
	fake_end(services.core);
	scrape_destroy(services.scrape);
}

/* Requests are checked before anything is asked of the database, even whether a name is known by now. */
Test(services, an_invalid_request_is_refused_at_once_without_a_database)
{
	static char page[300];
	Reeve__V1__CheckQuestion question = REEVE__V1__CHECK_QUESTION__INIT, *questions[] = {&question};
	Reeve__V1__CheckRequest check = REEVE__V1__CHECK_REQUEST__INIT;
	Reeve__V1__TaskFilter filter = REEVE__V1__TASK_FILTER__INIT;
	Reeve__V1__ListRequest list = REEVE__V1__LIST_REQUEST__INIT;
	Reeve__V1__ErrorsRequest errors = REEVE__V1__ERRORS_REQUEST__INIT;
	Reeve__V1__ListBatchesRequest batches = REEVE__V1__LIST_BATCHES_REQUEST__INIT;
	Reeve__V1__CancelRequest cancel = REEVE__V1__CANCEL_REQUEST__INIT;
	int64_t id = 1;

	services = (struct services){.core = fake_core(), .manager_name = "manager", .max_message_bytes = 8 << 20};
	fake.down = true;
	question.kind = REEVE__V1__CHECK_KIND__CHECK_KIND_DEAD;
	check.questions = questions;
	check.n_questions = 1;
	cr_expect_eq(call_of(admin_methods, "Check", &check.base)->code, STATUS(UNAVAILABLE));
	question.kind = 99;
	expect_invalid(admin_methods, "Check", &check.base);
	list.queue = filter.queue = errors.queue = batches.queue = "unknown";
	list.limit = 1000000;
	expect_invalid(task_methods, "List", &list.base);
	list.limit = 0;
	list.filter = &filter;
	filter.older_ms = -1;
	expect_invalid(task_methods, "List", &list.base);
	memset(page, 'x', sizeof page - 1);
	errors.page = page;
	expect_invalid(task_methods, "Errors", &errors.base);
	batches.limit = -1;
	expect_invalid(batch_methods, "List", &batches.base);
	filter.older_ms = 0;
	cancel.filter = &filter;
	cancel.ids = &id;
	cancel.n_ids = 1;
	expect_invalid(task_methods, "Cancel", &cancel.base);
	fake_end(services.core);
}

/* Calls ControlWorkers while a Fetch is parked; the statement ends with this error, or returns the Fetch's worker.
 * Returns how often the Fetch is answered. */
static int answers_to_the_parked(reeve_status error)
{
	Reeve__V1__ControlWorkersRequest request = REEVE__V1__CONTROL_WORKERS_REQUEST__INIT;
	struct fake_fetch fetch;
	struct store_read *op;

	fake_route("queue", "type");
	services = (struct services){.core = fake_core(), .manager_name = "manager", .max_message_bytes = 8 << 20};
	fake_fetch(services.core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	request.name = "worker";
	request.action = REEVE__V1__WORKER_ACTION__WORKER_ACTION_PAUSE;
	struct rpc_call *call = call_of(admin_methods, "ControlWorkers", &request.base);
	cr_assert_not_null(op = fake_take(FAKE_READ), "%s", call->problem);
	Reeve__V1__ListWorkersResponse *told = (Reeve__V1__ListWorkersResponse *)op->response;
	told->workers = calloc(1, sizeof *told->workers);
	told->workers[told->n_workers++] = calloc(1, sizeof **told->workers);
	reeve__v1__worker__init(told->workers[0]);
	told->workers[0]->incarnation = 1;
	told->workers[0]->name = strdup("worker");
	if (error)
		fake_fail(op, error);
	else
		fake_ok(op);
	fake_pass(services.core, 1);
	cr_expect_eq(call->answers, 1);
	cr_expect_eq(call->code, error);
	int answered = fetch.answered;
	cr_expect_eq(fetch.commands, answered);
	fake_end(services.core);
	return answered;
}

Test(services, a_control_of_workers_answers_their_parked_fetches)
{
	cr_expect_eq(answers_to_the_parked(STATUS(OK)), 1);
}

/* The worker would act on a command that was never recorded. */
Test(services, a_control_of_workers_that_has_failed_answers_none)
{
	cr_expect_eq(answers_to_the_parked(STATUS(UNAVAILABLE)), 0);
}

/* The manager's only thread converts a page's rows. */
Test(services, a_page_is_short_whatever_a_message_may_contain)
{
	Reeve__V1__ListPipelinesRequest request = REEVE__V1__LIST_PIPELINES_REQUEST__INIT;
	struct store_read *op;

	services = (struct services){.core = fake_core(), .manager_name = "manager", .max_message_bytes = 8 << 20};
	cr_assert_gt(services.core->base.options.max_answer_bytes, 1 << 20);
	call_of(pipeline_methods, "List", &request.base);
	cr_assert_not_null(op = fake_take(FAKE_READ));
	cr_expect_eq(op->max_bytes, 1 << 20);
	fake_ok(op);
	fake_pass(services.core, 1);
	fake_end(services.core);
}
