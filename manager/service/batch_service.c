/* BatchService: tasks that are counted together, and what is told of them. */
#include "manager/service/check.h"
#include "manager/service/services.h"

#include <reeve/v1/batch.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_DEFAULT = 100, LIST_MOST = 1000 };

/* --- Callbacks --------------------------------------------------------------------------------------------------- */

struct callbacks_call {
	struct store_read op;
	struct rpc_call *call;
	Reeve__V1__CallbacksRequest request;
	Reeve__V1__CallbacksResponse *response;
};

static void on_callbacks(struct store_op *op, const struct reeve_error *error)
{
	struct callbacks_call *c = (struct callbacks_call *)op;
	if (error)
		rpc_call_fail_error(c->call, error);
	else
		rpc_call_reply(c->call, &c->response->base);
	reeve__v1__callbacks_response__free_unpacked(c->response, NULL);
	free(c);
}

static bool check_callback_state(const char *state, struct reeve_error *error)
{
	return !*state || !strcmp(state, "waiting") || !strcmp(state, "delivered") || !strcmp(state, "given_up") ||
	       error_set(error, STATUS(INVALID_ARGUMENT), "state is \"%s\"; it must be waiting, delivered or given_up", state);
}

static void callbacks(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__CallbacksRequest *request = (const Reeve__V1__CallbacksRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("batch_id", request->batch_id, 0, INT64_MAX, &error) ||
	    !check_callback_state(request->state, &error) ||
	    !check_range("limit", request->limit, 0, LIST_MOST, &error) ||
	    !check_range("before_id", request->before_id, 0, INT64_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct callbacks_call *c = calloc(1, sizeof *c);
	c->call = call;
	c->request = *request;
	c->request.limit = request->limit ? request->limit : LIST_DEFAULT;
	c->response = malloc(sizeof *c->response);
	reeve__v1__callbacks_response__init(c->response);
	c->op = (struct store_read){
	    .op.done = on_callbacks,
	    .op.deadline_ms = service_deadline(s, call),
	    .kind = STORE_CALLBACKS,
	    .request = &c->request,
	    .response = c->response,
	};
	store_read(s->core->store, &c->op);
}

/* In the contract, and not built yet. */
static void unbuilt(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	(void)service;
	(void)message;
	rpc_call_fail(call, STATUS(UNIMPLEMENTED), "not built yet");
}

rpc_method *const batch_methods[] = {unbuilt, unbuilt, unbuilt, unbuilt, callbacks};
