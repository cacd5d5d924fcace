/* BatchService: opens and closes batches, and shows them, their reports and their callbacks. */
#include "manager/service/check.h"
#include "manager/service/filter.h"
#include "manager/service/read_method.h"

#include <reeve/v1/batch.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* Up to 2,000 callbacks are counted for each batch of an answer. So an answer holds no more batches than
 * BATCHES_PAGE. */
enum { LIST_DEFAULT = 100, LIST_MAX = 1000, BATCHES_PAGE = 250, REPORT_MAX = 10000, REPORT_PAGE = 250 };

static const char *text_or_null(const char *text)
{
	return *text ? text : NULL;
}

/* Checks what all changing calls need. */
static bool check_change(const struct services *s, const struct rpc_call *call, struct reeve_error *error)
{
	return service_has_request_id(s, call, error) && check_source("actor", rpc_call_actor(call), error);
}

/* --- Open -------------------------------------------------------------------------------------------------------- */

struct open_call {
	struct store_batch_open op;
	struct rpc_call *call;
};

static void on_opened(struct store_op *op, const struct reeve_error *error)
{
	struct open_call *c = (struct open_call *)op;
	Reeve__V1__OpenBatchResponse response = REEVE__V1__OPEN_BATCH_RESPONSE__INIT;
	response.id = c->op.id;
	if (error)
		rpc_call_fail_error(c->call, error);
	else
		rpc_call_reply(c->call, &response.base);
	free(c);
}

static bool check_open(const Reeve__V1__OpenBatchRequest *r, struct reeve_error *error)
{
	if (!check_name("name", r->name, false, error) || !check_name("queue", r->queue, true, error) ||
	    !check_name("callback_type", r->callback_type, true, error) ||
	    !check_name("entry_type", r->entry_type, true, error) || !check_name("exit_type", r->exit_type, true, error))
		return false;
	if (*r->callback_url && !check_callback_url("callback_url", r->callback_url, error))
		return false;
	return !*r->callback_secret || check_callback_secret("callback_secret", r->callback_secret, error);
}

static void open_batch(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__OpenBatchRequest *request = (const Reeve__V1__OpenBatchRequest *)message;
	struct reeve_error error;
	if (!check_change(s, call, &error) || !check_open(request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct open_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->op = (struct store_batch_open){
	    .op.done = on_opened,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .name = request->name,
	    .queue = *request->queue ? request->queue : "default",
	    .callback_url = text_or_null(request->callback_url),
	    .callback_secret = text_or_null(request->callback_secret),
	    .callback_type = text_or_null(request->callback_type),
	    .entry_type = text_or_null(request->entry_type),
	    .exit_type = text_or_null(request->exit_type),
	    .callback_tasks = request->callback_tasks,
	    .source = rpc_call_actor(call),
	};
	memcpy(c->op.request_id, rpc_call_request_id(call), sizeof c->op.request_id);
	store_batch_open(s->core->base.store, &c->op);
}

/* --- Close ------------------------------------------------------------------------------------------------------- */

struct close_call {
	struct store_batch_close op;
	struct rpc_call *call;
	struct services *services;
};

static void on_closed(struct store_op *op, const struct reeve_error *error)
{
	struct close_call *c = (struct close_call *)op;
	Reeve__V1__CloseBatchResponse response = REEVE__V1__CLOSE_BATCH_RESPONSE__INIT;
	response.batch = c->op.batch;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else {
		rpc_call_reply(c->call, &response.base);
		jobs_ask(c->services->core->base.jobs, JOB_BATCHES);
	}
	if (c->op.batch)
		protobuf_c_message_free_unpacked(c->op.batch, NULL);
	free(c);
}

static void close_batch(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__CloseBatchRequest *request = (const Reeve__V1__CloseBatchRequest *)message;
	struct reeve_error error;
	if (!check_change(s, call, &error) || !check_range("id", request->id, 1, INT64_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct close_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_batch_close){
	    .op.done = on_closed,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .id = request->id,
	};
	memcpy(c->op.request_id, rpc_call_request_id(call), sizeof c->op.request_id);
	store_batch_close(s->core->base.store, &c->op);
}

/* --- List and Report --------------------------------------------------------------------------------------------- */

/* If no batch is found, the queue must be one with tasks, live or in the history. A batch may be opened before its
 * first task. */
static void on_listed(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	const Reeve__V1__ListBatchesRequest *request = (const Reeve__V1__ListBatchesRequest *)r->request;
	const Reeve__V1__ListBatchesResponse *out = (const Reeve__V1__ListBatchesResponse *)r->response;
	struct reeve_error unknown;
	if (!error && !out->n_batches && !out->next_before_id && request->before_id == INT64_MAX &&
	    !check_known_names(r->services, "", request->queue, "", &unknown))
		error = &unknown;
	reading_end(r, error);
}

static const struct read_method list = {
    SQL_BATCH_LIST,
    .rules = {{"queue", RULE_NAME_OR_NONE}, {"limit", RULE_NUMBER, .max = LIST_MAX, .otherwise = LIST_DEFAULT, .cap = BATCHES_PAGE},
        {"before_id", RULE_NUMBER, .max = INT64_MAX, .otherwise = INT64_MAX}},
    .names = NAMES_FRESH,
    .done = on_listed,
};

/* Cuts the tasks to the requested number, and to what fits in an answer. */
static void on_reported(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	const Reeve__V1__BatchReportRequest *request = (const Reeve__V1__BatchReportRequest *)r->request;
	Reeve__V1__BatchReportResponse *out = (Reeve__V1__BatchReportResponse *)r->response;
	struct reeve_error unknown;
	if (!error && !out->batch) {
		error_set(&unknown, STATUS(NOT_FOUND), "there is no batch %lld", (long long)request->id);
		error = &unknown;
	}
	out->more = reading_cut(r, out->tasks, &out->n_tasks, request->limit);
	reading_end(r, error);
}

static const struct read_method report = {
    SQL_BATCH_REPORT,
    .rules = {{"id", RULE_NUMBER, .min = 1, .max = INT64_MAX}, {"after_id", RULE_NUMBER, .max = INT64_MAX},
        {"limit", RULE_NUMBER, .max = REPORT_MAX, .otherwise = REPORT_PAGE, .cap = REPORT_PAGE}},
    .done = on_reported,
};

/* --- Callbacks --------------------------------------------------------------------------------------------------- */

static const struct read_method callbacks = {
    SQL_CALLBACKS_LIST,
    .rules = {{"batch_id", RULE_NUMBER, .max = INT64_MAX},
        {"state", RULE_NUMBER, .max = REEVE__V1__CALLBACK_STATE__CALLBACK_STATE_GIVEN_UP}, {"limit", RULE_NUMBER, .max = LIST_MAX, .otherwise = LIST_DEFAULT},
        {"before_id", RULE_NUMBER, .max = INT64_MAX, .otherwise = INT64_MAX}},
};

const struct rpc_entry batch_methods[] = {
	{"Open", open_batch, RPC_ORDINARY, NULL},
	{"Close", close_batch, RPC_ORDINARY, NULL},
	{"List", read_method, RPC_OPERATOR, &list},
	{"Report", read_method, RPC_OPERATOR, &report},
	{"Callbacks", read_method, RPC_OPERATOR, &callbacks},
	{0},
};
