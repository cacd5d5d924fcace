/* BatchService: opens and closes batches, and shows them, their reports and their callbacks. */
#include "common/limits.h"
#include "manager/access/scope.h"
#include "manager/callbacks/url.h"
#include "manager/service/check.h"
#include "manager/service/method.h"
#include "manager/service/ownership.h"

#include <reeve/v1/batch.pb-c.h>
#include <stdlib.h>

/* Up to 2,000 callbacks are counted for each batch of an answer. So an answer holds no more batches than
 * BATCHES_PAGE. */
enum { BATCHES_PAGE = 250, REPORT_PAGE = 250 };

static bool check_open(const ProtobufCMessage *request, struct reeve_error *error)
{
	const Reeve__V1__OpenBatchRequest *r = (const Reeve__V1__OpenBatchRequest *)request;
	if (!check_name("name", r->name, false, error) || !check_name("queue", r->queue, true, error) ||
	    !check_name("callback_type", r->callback_type, true, error) ||
	    !check_name("entry_type", r->entry_type, true, error) || !check_name("exit_type", r->exit_type, true, error))
		return false;
	if (*r->callback_url && !check_callback_url("callback_url", r->callback_url, error))
		return false;
	return !*r->callback_secret || check_callback_secret("callback_secret", r->callback_secret, error);
}

static bool allow_type(
    const struct rpc_identity *identity, const char *field, const char *type, struct reeve_error *error)
{
	return !*type || scope_type(identity, field, type, error);
}

static bool allow_open(const struct rpc_identity *identity, const ProtobufCMessage *request, struct reeve_error *error)
{
	const Reeve__V1__OpenBatchRequest *r = (const Reeve__V1__OpenBatchRequest *)request;
	char *hosts = scope_callback_hosts(identity);
	bool callback = !*r->callback_url || callback_url_allowed(r->callback_url, hosts);
	free(hosts);
	if (!callback)
		return error_set(
		    error, STATUS(PERMISSION_DENIED), "callback_url: \"%s\" may not use this host", identity->name);
	return scope_queue(identity, "queue", *r->queue ? r->queue : "default", error) &&
	    allow_type(identity, "callback_type", r->callback_type, error) &&
	    allow_type(identity, "entry_type", r->entry_type, error) &&
	    allow_type(identity, "exit_type", r->exit_type, error);
}

/* A submitter sees the reports of its own batches. */
static bool report_complete(struct reading *r, struct reeve_error *error)
{
	const Reeve__V1__BatchReportResponse *out = (const Reeve__V1__BatchReportResponse *)r->response;
	return scope_owns(rpc_call_identity(r->call), out->batch->source) ||
	    error_set(error, STATUS(NOT_FOUND), "there is no batch %lld", (long long)out->batch->id);
}

static bool close_complete(struct reading *r, struct reeve_error *error)
{
	(void)error;
	jobs_ask(r->services->core->base.jobs, JOB_BATCHES);
	return true;
}

static void close_batch(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__CloseBatchRequest *request = (const Reeve__V1__CloseBatchRequest *)message;
	if (!foreign_wait(service, call, message, close_batch, NULL, 0, &request->id, 1))
		write_method(service, call, message);
}

/* Only operators see what a receiver has answered: else the manager would explore its network for everybody who may
 * read. */
static bool callbacks_complete(struct reading *r, struct reeve_error *error)
{
	const Reeve__V1__CallbacksResponse *out = (const Reeve__V1__CallbacksResponse *)r->response;
	(void)error;
	for (size_t i = 0; i < out->n_callbacks && !(rpc_call_identity(r->call)->roles & MAY_OPERATE); i++) {
		Reeve__V1__Callback *callback = out->callbacks[i];
		callback->last_status = 0;
		if (!*callback->last_error)
			continue;
		free((char *)(uintptr_t)callback->last_error);
		callback->last_error = mem_strdup("failed");
	}
	return true;
}

/* A batch may be opened in a queue before its first task. */
static bool list_complete(struct reading *r, struct reeve_error *error)
{
	const Reeve__V1__ListBatchesRequest *request = (const Reeve__V1__ListBatchesRequest *)r->request;
	Reeve__V1__ListBatchesResponse *out = (Reeve__V1__ListBatchesResponse *)r->response;
	(void)error;
	if (out->n_batches || out->next_before_id || request->before_id != INT64_MAX)
		reading_warn(r, "");
	return true;
}

const struct rpc_entry batch_methods[] = {
    {"Open", write_method, RPC_ORDINARY, MAY_SUBMIT, METHOD(SQL_BATCH_OPEN, .check = check_open, .allow = allow_open)},
    {"Close", close_batch, RPC_ORDINARY, MAY_CLOSE,
        METHOD(SQL_BATCH_CLOSE, SQL_BATCH_GET, .rules = {{"id", RULE_NUMBER, .min = 1, .max = INT64_MAX}},
            .complete = close_complete)},
    {"List", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_BATCH_LIST,
            .rules = {{"limit", RULE_NUMBER, .max = LIMIT_LIST, .otherwise = DEFAULT_LIST, .cap = BATCHES_PAGE},
                {"before_id", RULE_NUMBER, .max = INT64_MAX, .otherwise = INT64_MAX}},
            .names = true, .complete = list_complete)},
    {"Report", read_method, RPC_OPERATOR, MAY_READ_OWN,
        METHOD(SQL_BATCH_REPORT,
            .rules = {{"id", RULE_NUMBER, .min = 1, .max = INT64_MAX}, {"after_id", RULE_NUMBER, .max = INT64_MAX},
                {"limit", RULE_NUMBER, .max = LIMIT_LIST_LONG, .otherwise = REPORT_PAGE, .cap = REPORT_PAGE},
                {"tasks", RULE_NUMBER, .max = REEVE__V1__BATCH_TASKS__BATCH_TASKS_PENDING}},
            .found = "batch", .missing = "there is no batch {id}", .complete = report_complete)},
    {"Callbacks", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_CALLBACKS_LIST,
            .rules = {{"batch_id", RULE_NUMBER, .max = INT64_MAX},
                {"state", RULE_NUMBER, .max = REEVE__V1__CALLBACK_STATE__CALLBACK_STATE_GIVEN_UP},
                {"limit", RULE_NUMBER, .max = LIMIT_LIST, .otherwise = DEFAULT_LIST},
                {"before_id", RULE_NUMBER, .max = INT64_MAX, .otherwise = INT64_MAX}},
            .complete = callbacks_complete)},
    {0},
};
