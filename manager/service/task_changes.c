/* TaskService: manual changes of tasks, selected by their ids or by a filter. */
#include "common/json_names.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "manager/core/edit.h"
#include "manager/service/check.h"
#include "manager/service/filter.h"
#include "manager/service/reading.h"
#include "manager/service/setting.h"
#include "manager/service/task_methods.h"

#include <jansson.h>
#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>
#include <string.h>

struct edit_call {
	struct store_edit op;
	struct rpc_call *call;
	struct filter_narrowed narrowed;
	char *warning; /* a name of the filter that is not known, or NULL */
	char *change;  /* of an update, or NULL */
};

static void edit_call_free(struct edit_call *c)
{
	free(c->warning);
	free(c->change);
	free(c);
}

static const char *edit_note(const struct store_edit *op, const struct store_edited *t)
{
	bool executing = !strcmp(t->status, "executing");
	switch (t->refusal) {
	case STORE_REFUSED_EXECUTING: return "it is executing: only its priority and attempts can be changed";
	case STORE_REFUSED_ATTEMPTS: return "max_attempts is below the attempts already made";
	case STORE_REFUSED_KEY: return "another task of the queue has the key";
	case STORE_REFUSED_BATCH: return "it is in a batch, or a manager has not ingested it yet: it stays in its queue";
	case STORE_REFUSED_STOPPED: return "the queue is stopped";
	case STORE_REFUSED_STAGE: return "it is in no pipeline with such a stage";
	default: break;
	}
	if (t->changed) {
		if (!executing || op->kind == STORE_UPDATE || op->kind == STORE_PURGE)
			return "";
		if (t->pulled)
			return "its pull client takes no commands: it ends when that reports, or expires";
		return op->kind != STORE_RETRY ? "its worker stops it"
		    : op->hanged               ? "its worker stops it; then the attempt has failed (hanged)"
		                               : "its worker stops it; then it starts again";
	}
	switch (op->kind) {
	case STORE_CANCEL: return executing ? "a cancel has been asked for already" : "it has ended";
	case STORE_DISCARD: return executing ? "it is being discarded already" : "it has ended";
	case STORE_RETRY:
		if (t->stopping)
			return "its worker is stopping it already";
		if (op->hanged && !executing)
			return "it is not executing";
		if (!strcmp(t->status, "completed") || !strcmp(t->status, "dead") || !strcmp(t->status, "cancelled"))
			return "its time in the history is over";
		return executing && !op->executing ? "it is executing: only a retry with `executing` set starts it again"
		                                   : "a cancel has been asked for";
	case STORE_UPDATE: return "it has ended";
	case STORE_PURGE: return "it has not ended";
	}
	return "";
}

/* The responses have the same fields. */
static const ProtobufCMessageDescriptor *const responses[] = {
    [STORE_CANCEL] = &reeve__v1__cancel_response__descriptor,
    [STORE_DISCARD] = &reeve__v1__discard_response__descriptor,
    [STORE_RETRY] = &reeve__v1__retry_response__descriptor,
    [STORE_UPDATE] = &reeve__v1__update_response__descriptor,
    [STORE_PURGE] = &reeve__v1__purge_response__descriptor,
};

_Static_assert(sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__RetryResponse) &&
        sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__UpdateResponse) &&
        sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__DiscardResponse) &&
        sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__PurgeResponse),
    "the responses of changes have the same fields");

static void on_edited(struct store_op *op, const struct reeve_error *error)
{
	struct edit_call *c = (struct edit_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
		edit_call_free(c);
		return;
	}
	if (c->op.found == 0 && c->op.missing_count > 0) {
		rpc_call_fail(c->call, STATUS(NOT_FOUND), "there is no task %lld%s", (long long)c->op.missing[0],
		    c->op.missing_count > 1 ? ", nor any other of those" : "");
		edit_call_free(c);
		return;
	}
	Reeve__V1__CancelResponse response = REEVE__V1__CANCEL_RESPONSE__INIT;
	Reeve__V1__ChangedTask *tasks = mem_calloc((size_t)c->op.found + 1, sizeof *tasks);
	response.n_tasks = (size_t)c->op.found;
	response.tasks = mem_calloc(response.n_tasks + 1, sizeof *response.tasks);
	for (size_t i = 0; i < response.n_tasks; i++) {
		int status;
		const struct store_edited *t = &c->op.tasks[i];
		reeve__v1__changed_task__init(&tasks[i]);
		tasks[i].id = t->id;
		if (json_enum_number(&reeve__v1__task_status__descriptor, t->status, &status))
			tasks[i].status = (Reeve__V1__TaskStatus)status;
		tasks[i].changed = t->changed;
		tasks[i].note = (char *)edit_note(&c->op, t);
		response.tasks[i] = &tasks[i];
	}
	response.n_not_found = (size_t)c->op.missing_count;
	response.not_found = c->op.missing;
	response.next_after_id = c->op.next_after_id;
	if (c->warning)
		response.warning = c->warning;
	response.base.descriptor = responses[c->op.kind];
	rpc_call_reply(c->call, &response.base);
	free(response.tasks);
	free(tasks);
	edit_call_free(c);
}

/* The fields that all changes have in common. */
struct change_request {
	enum store_edit_kind kind;
	const int64_t *ids;
	size_t n_ids;
	const Reeve__V1__TaskFilter *filter;
	bool dry_run;
	bool waiting_only;  /* it is an update that executing tasks do not allow */
	const char *reason; /* "" or NULL: none */
};

static bool check_change(const struct services *s, const struct rpc_call *call, const struct change_request *r,
    struct filter_narrowed *narrowed, struct reeve_error *error)
{
	if ((r->reason && !check_text("reason", r->reason, error)) || !service_has_request_id(s, call, error) ||
	    !check_source("actor", rpc_call_actor(call), error))
		return false;
	if (!r->filter && r->dry_run)
		return error_set(error, STATUS(INVALID_ARGUMENT), "dry_run needs a filter");
	if (!r->filter)
		return check_ids(r->ids, r->n_ids, error);
	if (r->n_ids)
		return error_set(error, STATUS(INVALID_ARGUMENT), "ids and filter cannot be combined");
	return filter_check(r->filter, error) && filter_narrow(r->filter, r->kind, r->waiting_only, narrowed, error);
}

struct preview_call {
	struct reading reading;
	struct filter_narrowed narrowed;
};

/* Reads the tasks that a dry run matches. */
static void preview(struct services *s, struct rpc_call *call, const struct change_request *r)
{
	struct preview_call *c = mem_calloc(1, sizeof *c);
	struct reeve_error none; /* the filter has been checked */
	filter_narrow(r->filter, r->kind, r->waiting_only, &c->narrowed, &none);
	reading_begin(&c->reading, s, call, STORE_MATCHING, &c->narrowed.filter.base, responses[r->kind], reading_done);
	c->reading.op.edit = r->kind;
	reading_send(&c->reading);
}

/* Begins a change. Returns NULL if the call has been answered, is answered by a dry run, or calls the method again. */
static struct edit_call *edit_begin(struct services *s, struct rpc_call *call, const ProtobufCMessage *message,
    rpc_method *method, const struct change_request *r)
{
	struct reeve_error error;
	struct edit_call *c = mem_calloc(1, sizeof *c);
	if (!check_change(s, call, r, &c->narrowed, &error)) {
		rpc_call_fail_error(call, &error);
		free(c);
		return NULL;
	}
	if (filter_wait(s, call, message, method, r->filter)) {
		free(c);
		return NULL;
	}
	if (r->dry_run) {
		preview(s, call, r);
		free(c);
		return NULL;
	}
	c->call = call;
	c->warning = s->names_warning && *s->names_warning ? mem_strdup(s->names_warning) : NULL;
	c->op = (struct store_edit){
	    .op = service_op(s, call, on_edited),
	    .kind = r->kind,
	    .count = (int)r->n_ids,
	    .ids = r->ids,
	    .filter = r->filter ? &c->narrowed.filter.base : NULL,
	    .actor = rpc_call_actor(call),
	    .reason = r->reason ? r->reason : "",
	};
	memcpy(c->op.request_id, rpc_call_request_id(call), sizeof c->op.request_id);
	return c;
}

void task_cancel(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__CancelRequest *request = (const Reeve__V1__CancelRequest *)message;
	struct services *s = service;
	struct edit_call *c = edit_begin(s, call, message, task_cancel,
	    &(struct change_request){
	        STORE_CANCEL, request->ids, request->n_ids, request->filter, request->dry_run, false, request->reason});
	if (!c)
		return;
	edit_tasks(s->core->edits, &c->op);
}

void task_discard(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__DiscardRequest *request = (const Reeve__V1__DiscardRequest *)message;
	struct services *s = service;
	struct edit_call *c = edit_begin(s, call, message, task_discard,
	    &(struct change_request){
	        STORE_DISCARD, request->ids, request->n_ids, request->filter, request->dry_run, false, request->reason});
	if (!c)
		return;
	if (!*request->reason)
		c->op.reason = "discarded by request";
	edit_tasks(s->core->edits, &c->op);
}

void task_retry(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__RetryRequest *request = (const Reeve__V1__RetryRequest *)message;
	struct services *s = service;
	if (request->filter && request->executing) {
		rpc_call_fail(call, STATUS(INVALID_ARGUMENT), "executing needs ids; a filter names the status");
		return;
	}
	if (request->hanged && request->filter && !filter_executing(request->filter)) {
		rpc_call_fail(call, STATUS(INVALID_ARGUMENT),
		    "hanged is for executing tasks: the filter needs their status alone, or running_longer_ms");
		return;
	}
	struct edit_call *c = edit_begin(s, call, message, task_retry,
	    &(struct change_request){
	        STORE_RETRY, request->ids, request->n_ids, request->filter, request->dry_run, false, NULL});
	if (!c)
		return;
	c->op.executing = request->executing || request->hanged || c->narrowed.executing;
	c->op.hanged = request->hanged;
	edit_tasks(s->core->edits, &c->op);
}

void task_purge(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__PurgeRequest *request = (const Reeve__V1__PurgeRequest *)message;
	struct services *s = service;
	struct edit_call *c = edit_begin(s, call, message, task_purge,
	    &(struct change_request){
	        STORE_PURGE, request->ids, request->n_ids, request->filter, request->dry_run, false, request->reason});
	if (!c)
		return;
	c->op.details_only = request->details_only;
	edit_tasks(s->core->edits, &c->op);
}

/* --- Update: the new values of columns -----------------------------------------------------------------------------
 */

static bool put_priority(json_t *change, const ProtobufCMessage *message, struct reeve_error *error)
{
	int64_t priority = ((const Reeve__V1__UpdateRequest *)message)->priority->value;
	return check_range("priority.value", priority, -LIMIT_PRIORITY, LIMIT_PRIORITY, error) &&
	    !json_object_set_new(change, "priority", json_integer(priority));
}

static bool put_details(json_t *change, const ProtobufCMessage *message, struct reeve_error *error)
{
	const char *details = ((const Reeve__V1__UpdateRequest *)message)->details->value;
	return utf8_valid(details, strlen(details)) ? !json_object_set_new(change, "details", json_string(details))
	                                            : error_set(error, STATUS(INVALID_ARGUMENT), "details is not UTF-8");
}

static const struct setting task_settings[] = {
    {"priority", SETTING_OWN, .put = put_priority},
    {"run_at_us", SETTING_NUMBER, .column = "run_at", .max = LIMIT_TIME_US},
    {"max_attempts", SETTING_NUMBER, .max = LIMIT_ATTEMPTS},
    {"details", SETTING_OWN, .put = put_details},
    {"queue", .kind = SETTING_NAME},
    {"timeout_ms", SETTING_NUMBER, .max = DAYS_MS(LIMIT_TIMEOUT_DAYS)},
    {"key", .kind = SETTING_NAME},
    {"stage", .kind = SETTING_NAME},
    {0},
};

static bool check_update(
    const struct services *s, const Reeve__V1__UpdateRequest *r, const json_t *change, struct reeve_error *error)
{
	const int64_t max_details = s->core->base.options.max_details_bytes;
	if (r->details && (int64_t)strlen(r->details->value) > max_details)
		return error_set(error, STATUS(INVALID_ARGUMENT), "details has %zu bytes; at most %lld are allowed",
		    strlen(r->details->value), (long long)max_details);
	if (*r->key && (r->filter || r->n_ids != 1))
		return error_set(error, STATUS(INVALID_ARGUMENT), "key is for one task: give one id");
	return json_object_size(change) ||
	    error_set(error, STATUS(INVALID_ARGUMENT),
	        "nothing to change: give priority, run_at_us, max_attempts, details, queue, timeout_ms, key or stage");
}

/* Returns the new values for tasks_update.sql, or NULL with *error set. */
static char *update_json(const struct services *s, const Reeve__V1__UpdateRequest *r, struct reeve_error *error)
{
	json_t *change = json_object();
	bool good = settings_put_all(change, task_settings, "", &r->base, error) && check_update(s, r, change, error);
	char *text = good ? json_dumps(change, JSON_COMPACT) : NULL;
	json_decref(change);
	return text;
}

void task_update(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__UpdateRequest *request = (const Reeve__V1__UpdateRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	char *change = update_json(s, request, &error);
	if (!change) {
		rpc_call_fail_error(call, &error);
		return;
	}
	bool waiting_only = request->run_at_us || request->details || *request->queue || request->timeout_ms ||
	    *request->key || *request->stage;
	struct edit_call *c = edit_begin(s, call, message, task_update,
	    &(struct change_request){
	        STORE_UPDATE, request->ids, request->n_ids, request->filter, request->dry_run, waiting_only, NULL});
	if (!c) {
		free(change);
		return;
	}
	c->op.change = c->change = change;
	edit_tasks(s->core->edits, &c->op);
}
