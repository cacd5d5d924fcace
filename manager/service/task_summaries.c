/* TaskService: what went wrong, and how attempts went, in groups. */
#include "manager/service/check.h"
#include "manager/service/filter.h"
#include "manager/service/task_methods.h"

#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>

#define DAY_US (DAY_MS * 1000)

enum { ERRORS_DEFAULT = 100, ERRORS_MOST = 10000 };

struct summary_call {
	struct store_read op;
	struct rpc_call *call;
	size_t most_bytes;
	union {
		Reeve__V1__ErrorsRequest errors;
		Reeve__V1__ExecutionsRequest executions;
	} request;
	union {
		Reeve__V1__ErrorsResponse errors;
		Reeve__V1__ExecutionsResponse executions;
	} *response;
};

static void end(struct summary_call *c, const struct reeve_error *error)
{
	ProtobufCMessage *response = (ProtobufCMessage *)c->response;
	if (error)
		rpc_call_fail_error(c->call, error);
	else
		rpc_call_reply(c->call, response);
	protobuf_c_message_free_unpacked(response, NULL);
	free(c);
}

/* As many groups as were asked for and fit into an answer. */
static void on_errors(struct store_op *op, const struct reeve_error *error)
{
	struct summary_call *c = (struct summary_call *)op;
	Reeve__V1__ErrorsResponse *response = &c->response->errors;
	size_t all = response->n_groups, bytes = 0, n = 0;
	while (n < all && n < c->request.errors.limit && bytes < c->most_bytes)
		bytes += reeve__v1__error_group__get_packed_size(response->groups[n++]) + 8;
	response->more = n < all;
	for (size_t i = n; i < all; i++)
		reeve__v1__error_group__free_unpacked(response->groups[i], NULL);
	response->n_groups = n;
	end(c, error);
}

static void on_executions(struct store_op *op, const struct reeve_error *error)
{
	end((struct summary_call *)op, error);
}

static struct summary_call *begin(struct services *s, struct rpc_call *call, enum store_read_kind kind,
    const ProtobufCMessageDescriptor *response, void (*done)(struct store_op *op, const struct reeve_error *error))
{
	struct summary_call *c = calloc(1, sizeof *c);
	c->call = call;
	c->most_bytes = (size_t)s->core->options.max_answer_bytes;
	c->response = malloc(response->sizeof_message);
	response->message_init((ProtobufCMessage *)c->response);
	c->op = (struct store_read){
	    .op.done = done,
	    .op.deadline_ms = service_deadline(s, call),
	    .kind = kind,
	    .request = &c->request,
	    .response = c->response,
	};
	return c;
}

void task_errors(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ErrorsRequest *request = (const Reeve__V1__ErrorsRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("by", request->by, 0, REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_CODE, &error) ||
	    !check_known_names(s, "", request->queue, request->type, &error) ||
	    !check_range("since_us", request->since_us, 0, INT64_C(253402300799000000), &error) ||
	    !check_range("limit", request->limit, 0, ERRORS_MOST, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct summary_call *c = begin(s, call, STORE_ERRORS, &reeve__v1__errors_response__descriptor, on_errors);
	c->request.errors = *request;
	if (!request->since_us)
		c->request.errors.since_us = core_database_us(s->core) - DAY_US;
	if (!request->limit)
		c->request.errors.limit = ERRORS_DEFAULT;
	store_read(s->core->store, &c->op);
}

void task_executions(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ExecutionsRequest *request = (const Reeve__V1__ExecutionsRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("by", request->by, 0, REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE, &error) ||
	    !check_known_names(s, "", request->queue, request->type, &error) ||
	    !check_range("since_us", request->since_us, 0, INT64_C(253402300799000000), &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct summary_call *c =
	    begin(s, call, STORE_EXECUTIONS, &reeve__v1__executions_response__descriptor, on_executions);
	c->request.executions = *request;
	if (!request->since_us)
		c->request.executions.since_us = core_database_us(s->core) - DAY_US;
	store_read(s->core->store, &c->op);
}
