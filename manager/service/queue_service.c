/* QueueService: settings, control and status of queues. */
#include "manager/core/queue_ends.h"
#include "manager/service/check.h"
#include "manager/service/method.h"
#include "manager/service/retry.h"

#include <jansson.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/queue.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 100 };

#define PERIOD_MAX_MS (365 * DAY_MS)
#define KEEP_MAX_MS (36500 * DAY_MS)
#define UNKNOWN_QUEUE "there is no queue \"{queue}\": it has no settings and never had a task"

/* --- Set: the new values of columns -------------------------------------------------------------------------------- */

typedef Reeve__V1__QueueSettings settings;

static json_t *text_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static bool put_retry_limit(json_t *change, const settings *s, struct reeve_error *error)
{
	if (!check_range("settings.retry_limit", s->retry_limit, -1, ATTEMPTS_MAX - 1, error))
		return false;
	json_object_set_new(
	    change, "max_attempts", s->retry_limit < 0 ? json_null() : json_integer(s->retry_limit + 1));
	return true;
}

static bool put_retry(json_t *change, const settings *s, struct reeve_error *error)
{
	const Reeve__V1__RetryPolicy *retry = s->retry;
	if (retry && !retry_check("settings.retry", retry, error))
		return false;
	char *policy = retry ? retry_json(retry) : NULL;
	bool from_resting = retry && !retry->base_ms && retry->kind == REEVE__V1__RETRY_KIND__RETRY_KIND_LINEAR;
	json_object_set_new(change, "retry_policy", policy ? json_loads(policy, 0, NULL) : json_null());
	json_object_set_new(
	    change, "retry_base_ms", retry && !from_resting ? json_integer(retry_base_ms(retry)) : json_null());
	json_object_set_new(change, "retry_max_ms", retry ? json_integer(retry_max_ms(retry)) : json_null());
	free(policy);
	return true;
}

static bool put_url(json_t *change, const settings *s, struct reeve_error *error)
{
	json_object_set_new(change, "callback_url", text_or_null(s->callback_url));
	return !*s->callback_url || check_callback_url("settings.callback_url", s->callback_url, error);
}

static bool put_secret(json_t *change, const settings *s, struct reeve_error *error)
{
	json_object_set_new(change, "callback_secret", text_or_null(s->callback_secret));
	return !*s->callback_secret || check_callback_secret("settings.callback_secret", s->callback_secret, error);
}

static const struct setting {
	const char *field;
	enum { OWN, FLAG, NAME, PERIOD, DAYS } kind;
	const char *column;                                                        /* NULL: it has the field's name */
	bool (*put)(json_t *change, const settings *s, struct reeve_error *error); /* of OWN */
} fields[] = {
    {"retry_limit", OWN, .put = put_retry_limit},
    {"retry", OWN, .put = put_retry},
    {"resting_ms", PERIOD, .column = NULL},
    {"waiting_ms", PERIOD, .column = NULL},
    {"autostart", FLAG, .column = NULL},
    {"verbose", FLAG, .column = "is_verbose"},
    {"batches", FLAG, .column = NULL},
    {"callback_url", OWN, .put = put_url},
    {"callback_secret", OWN, .put = put_secret},
    {"callback_tasks", FLAG, .column = NULL},
    {"callback_type", NAME, .column = NULL},
    {"entry_type", NAME, .column = NULL},
    {"exit_type", NAME, .column = NULL},
    {"keep_completed_ms", DAYS, .column = "keep_completed_days"},
    {"keep_dead_ms", DAYS, .column = "keep_dead_days"},
    {"keep_cancelled_ms", DAYS, .column = "keep_cancelled_days"},
};

static const struct setting *find_field(const char *name)
{
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (!strcmp(fields[i].field, name))
			return &fields[i];
	return NULL;
}

/* Returns the new value of a column, or NULL with the problem in *error. */
static json_t *value_of(const struct setting *f, const char *path, const void *at, struct reeve_error *error)
{
	int64_t ms = f->kind == PERIOD || f->kind == DAYS ? *(const int64_t *)at : 0;
	switch (f->kind) {
	case FLAG:
		return json_boolean(*(const protobuf_c_boolean *)at);
	case NAME:
		return check_name(path, *(char *const *)at, true, error) ? text_or_null(*(char *const *)at) : NULL;
	case PERIOD:
		return check_range(path, ms, 0, PERIOD_MAX_MS, error) ? json_integer(ms) : NULL;
	default:
		if (!check_range(path, ms, 0, KEEP_MAX_MS, error))
			return NULL;
		if (!(ms % DAY_MS))
			return ms ? json_integer(ms / DAY_MS) : json_null();
		error_set(error, STATUS(INVALID_ARGUMENT), "%s is %lld; it must be whole days of %lld ms", path, (long long)ms,
		    (long long)DAY_MS);
		return NULL;
	}
}

static bool put_field(json_t *change, const struct setting *f, const settings *s, struct reeve_error *error)
{
	char path[64];
	if (f->kind == OWN)
		return f->put(change, s, error);
	snprintf(path, sizeof path, "settings.%s", f->field);
	const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field_by_name(s->base.descriptor, f->field);
	json_t *value = value_of(f, path, (const char *)s + d->offset, error);
	return value && !json_object_set_new(change, f->column ? f->column : f->field, value);
}

static char *set_change(const struct services *services, const ProtobufCMessage *request, struct reeve_error *error)
{
	static const settings defaults = REEVE__V1__QUEUE_SETTINGS__INIT;
	const Reeve__V1__SetQueueRequest *r = (const Reeve__V1__SetQueueRequest *)request;
	(void)services;
	if (r->n_fields == 0) {
		error_set(error, STATUS(INVALID_ARGUMENT), "fields is empty: it names the settings to change");
		return NULL;
	}
	bool good = check_range("fields", (int64_t)r->n_fields, 1, FIELDS_MAX, error);
	json_t *change = json_object();
	for (size_t i = 0; good && i < r->n_fields; i++) {
		const struct setting *f = find_field(r->fields[i]);
		good = f ? put_field(change, f, r->settings ? r->settings : &defaults, error)
		         : error_set(error, STATUS(INVALID_ARGUMENT), "fields[%zu] is \"%.100s\"; there is no such setting", i,
		               r->fields[i]);
	}
	char *text = good ? json_dumps(change, JSON_COMPACT) : NULL;
	json_decref(change);
	return text;
}

/* --- Status ------------------------------------------------------------------------------------------------------- */

/* A status call reads the queue's workers in a second read after its status. */
struct status_call {
	struct reading workers;
	struct reading *status;
};

static void on_workers_read(struct store_op *op, const struct reeve_error *error)
{
	struct status_call *c = (struct status_call *)op;
	struct reading *status = c->status;
	Reeve__V1__QueueStatusResponse *response = (Reeve__V1__QueueStatusResponse *)status->response;
	Reeve__V1__ListWorkersResponse *found = (Reeve__V1__ListWorkersResponse *)c->workers.response;

	response->workers = found->workers;
	response->n_workers = found->n_workers;
	response->more_workers = found->next_after != 0;
	found->workers = NULL;
	found->n_workers = 0;
	reading_free(&c->workers);
	reading_end(status, error);
}

static void on_status_read(struct store_op *op, const struct reeve_error *error)
{
	enum { WORKERS_SHOWN = 100 };
	struct reading *r = (struct reading *)op;
	Reeve__V1__QueueStatusResponse *response = (Reeve__V1__QueueStatusResponse *)r->response;
	Reeve__V1__ListWorkersRequest request = REEVE__V1__LIST_WORKERS_REQUEST__INIT;
	if (error || !response->state) {
		method_done(op, error);
		return;
	}
	struct status_call *c = mem_calloc(1, sizeof *c);
	c->status = r;
	request.queue = response->queue;
	request.limit = WORKERS_SHOWN;
	reading_begin_of(&c->workers, r->services, r->call, SQL_WORKER_LIST, &request.base, on_workers_read);
	reading_send(&c->workers);
}

/* --- Control ------------------------------------------------------------------------------------------------------ */

static void on_purged(void *arg, int64_t tasks, const struct reeve_error *error)
{
	struct reading *r = arg;
	struct reeve_error after;
	((Reeve__V1__ControlQueueResponse *)r->response)->tasks = tasks;
	if (error && tasks) {
		error_set(&after, (reeve_status)error->code, "%s; %lld tasks were cancelled before that", error->message, (long long)tasks);
		error = &after;
	}
	reading_end(r, error);
}

/* Until the purge, `tasks` of the response is the newest task's id (queue_control.sql). */
static void on_controlled(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	struct core *core = r->services->core;
	const Reeve__V1__ControlQueueRequest *request = (const Reeve__V1__ControlQueueRequest *)r->request;
	int64_t newest = ((const Reeve__V1__ControlQueueResponse *)r->response)->tasks;
	if (request->action == REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_STOP) {
		queue_stops_poll(core->queue_stops);
		jobs_ask(core->base.jobs, JOB_BATCHES);
	}
	if (error || request->action != REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_PURGE)
		on_purged(r, 0, error);
	else
		queue_purge(core->queue_stops, request->queue, newest, r->op.actor, op->deadline_ms, on_purged, r);
}

const struct rpc_entry queue_methods[] = {
	{"Set", write_method, RPC_OPERATOR, METHOD(SQL_QUEUE_SET, .rules = {{"queue", RULE_NAME}}, .change = set_change)},
	{"Describe", read_method, RPC_OPERATOR,
	    METHOD(SQL_QUEUE_DESCRIBE, .rules = {{"queue", RULE_NAME}}, .found = "state", .missing = UNKNOWN_QUEUE)},
	{"Status", read_method, RPC_OPERATOR,
	    METHOD(SQL_QUEUE_STATUS, .rules = {{"queue", RULE_NAME}}, .found = "state", .missing = UNKNOWN_QUEUE, .done = on_status_read)},
	{"Control", write_method, RPC_OPERATOR,
	    METHOD(SQL_QUEUE_CONTROL, .rules = {{"queue", RULE_NAME},
	        {"action", RULE_NUMBER, .min = 1, .max = REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_DELETE}}, .done = on_controlled)},
	{0},
};
