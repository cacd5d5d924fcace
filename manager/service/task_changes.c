/* TaskService: manual changes of tasks, selected by their ids or by a filter. */
#include "common/json_names.h"
#include "common/limits.h"
#include "manager/core/edit.h"
#include "manager/service/check.h"
#include "manager/service/filter.h"
#include "manager/service/reading.h"
#include "manager/service/task_methods.h"

#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>
#include <string.h>

struct edit_call {
	struct store_edit op;
	struct rpc_call *call;
	struct filter_narrowed narrowed;
	char *warning; /* a name of the filter that is not known, or NULL */
};

static void edit_call_free(struct edit_call *c)
{
	free(c->warning);
	free(c);
}

static const char *edit_note(const struct store_edit *op, const struct store_edited *t)
{
	bool executing = !strcmp(t->status, "executing");
	if (t->refused)
		return executing ? "it is executing: only its priority and attempts can be changed"
		                 : "max_attempts is below the attempts already made";
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
			return "its worker has been told to stop already";
		if (op->hanged && !executing)
			return "it is not executing";
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
	bool changes_due; /* it is an update of the due time */
};

static bool check_change(const struct services *s, const struct rpc_call *call, const struct change_request *r,
    struct filter_narrowed *narrowed, struct reeve_error *error)
{
	if (!service_has_request_id(s, call, error) || !check_source("actor", rpc_call_actor(call), error))
		return false;
	if (!r->filter && r->dry_run)
		return error_set(error, STATUS(INVALID_ARGUMENT), "dry_run needs a filter");
	if (!r->filter)
		return check_ids(r->ids, r->n_ids, error);
	if (r->n_ids)
		return error_set(error, STATUS(INVALID_ARGUMENT), "ids and filter cannot be combined");
	return filter_check(r->filter, error) && filter_narrow(r->filter, r->kind, r->changes_due, narrowed, error);
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
	filter_narrow(r->filter, r->kind, r->changes_due, &c->narrowed, &none);
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
	    .reason = "",
	    .run_at_us = STORE_TIME_BEGIN,
	};
	memcpy(c->op.request_id, rpc_call_request_id(call), sizeof c->op.request_id);
	return c;
}

void task_cancel(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__CancelRequest *request = (const Reeve__V1__CancelRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_text("reason", request->reason, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct edit_call *c = edit_begin(s, call, message, task_cancel,
	    &(struct change_request){STORE_CANCEL, request->ids, request->n_ids, request->filter, request->dry_run, false});
	if (!c)
		return;
	c->op.reason = request->reason;
	edit_tasks(s->core->edits, &c->op);
}

void task_discard(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__DiscardRequest *request = (const Reeve__V1__DiscardRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_text("reason", request->reason, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct edit_call *c = edit_begin(s, call, message, task_discard,
	    &(struct change_request){
	        STORE_DISCARD, request->ids, request->n_ids, request->filter, request->dry_run, false});
	if (!c)
		return;
	c->op.reason = *request->reason ? request->reason : "discarded by request";
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
	    &(struct change_request){STORE_RETRY, request->ids, request->n_ids, request->filter, request->dry_run, false});
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
	struct reeve_error error;
	if (!check_text("reason", request->reason, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct edit_call *c = edit_begin(s, call, message, task_purge,
	    &(struct change_request){STORE_PURGE, request->ids, request->n_ids, request->filter, request->dry_run, false});
	if (!c)
		return;
	c->op.reason = request->reason;
	c->op.details_only = request->details_only;
	edit_tasks(s->core->edits, &c->op);
}

void task_update(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__UpdateRequest *request = (const Reeve__V1__UpdateRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("run_at_us", request->run_at_us, 0, LIMIT_TIME_US, &error) ||
	    !check_range("max_attempts", request->max_attempts, 0, LIMIT_ATTEMPTS, &error) ||
	    (request->priority &&
	        !check_range("priority.value", request->priority->value, -LIMIT_PRIORITY, LIMIT_PRIORITY, &error))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (!request->priority && !request->run_at_us && !request->max_attempts) {
		rpc_call_fail(call, STATUS(INVALID_ARGUMENT), "nothing to change: give priority, run_at_us or max_attempts");
		return;
	}
	struct edit_call *c = edit_begin(s, call, message, task_update,
	    &(struct change_request){
	        STORE_UPDATE, request->ids, request->n_ids, request->filter, request->dry_run, request->run_at_us != 0});
	if (!c)
		return;
	c->op.set_priority = request->priority != NULL;
	c->op.priority = request->priority ? request->priority->value : 0;
	c->op.run_at_us = request->run_at_us ? request->run_at_us : STORE_TIME_BEGIN;
	c->op.max_attempts = (int32_t)request->max_attempts;
	edit_tasks(s->core->edits, &c->op);
}
