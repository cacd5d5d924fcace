/* PipelineService: defines and shows pipelines. */
#include "manager/service/pipeline.h"
#include "manager/service/check.h"
#include "manager/service/services.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_DEFAULT = 100, LIST_MAX = 1000 };

/* --- Define ------------------------------------------------------------------------------------------------------ */

struct define_call {
	struct store_pipeline_define op;
	struct rpc_call *call;
	char *stages;
};

static void on_defined(struct store_op *op, const struct reeve_error *error)
{
	struct define_call *c = (struct define_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else {
		Reeve__V1__DefinePipelineResponse response = REEVE__V1__DEFINE_PIPELINE_RESPONSE__INIT;
		response.pipeline = pipeline_message(&c->op.pipeline);
		response.changed = c->op.changed;
		rpc_call_reply(c->call, &response.base);
		reeve__v1__pipeline__free_unpacked(response.pipeline, NULL);
	}
	free(c->stages);
	free(c);
}

static void define(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__Pipeline *pipeline = ((const Reeve__V1__DefinePipelineRequest *)message)->pipeline;
	static const Reeve__V1__Pipeline nothing = REEVE__V1__PIPELINE__INIT;
	struct reeve_error error;
	if (!service_has_request_id(s, call, &error) || !check_source("actor", rpc_call_actor(call), &error) ||
	    !pipeline_check(pipeline ? pipeline : &nothing, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct define_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->stages = pipeline_stages_json(pipeline);
	c->op = (struct store_pipeline_define){
	    .op.done = on_defined,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .name = pipeline->name,
	    .stages = c->stages,
	    .actor = rpc_call_actor(call),
	    .max_steps = pipeline->max_steps ? (int32_t)pipeline->max_steps : STEPS_DEFAULT,
	};
	memcpy(c->op.request_id, rpc_call_request_id(call), sizeof c->op.request_id);
	store_pipeline_define(s->core->base.store, &c->op);
}

/* --- List and Show ----------------------------------------------------------------------------------------------- */

struct list_call {
	struct store_pipelines op;
	struct rpc_call *call;
};

static void on_listed(struct store_op *op, const struct reeve_error *error)
{
	struct list_call *c = (struct list_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
		free(c);
		return;
	}
	Reeve__V1__ListPipelinesResponse response = REEVE__V1__LIST_PIPELINES_RESPONSE__INIT;
	response.pipelines = mem_calloc((size_t)c->op.count + 1, sizeof *response.pipelines);
	for (int i = 0; i < c->op.count; i++)
		response.pipelines[response.n_pipelines++] = pipeline_message(&c->op.pipelines[i]);
	response.more = c->op.more;
	rpc_call_reply(c->call, &response.base);
	for (size_t i = 0; i < response.n_pipelines; i++)
		reeve__v1__pipeline__free_unpacked(response.pipelines[i], NULL);
	free(response.pipelines);
	free(c);
}

static void list(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__ListPipelinesRequest *request = (const Reeve__V1__ListPipelinesRequest *)message;
	struct reeve_error error;
	if (!check_name("after_name", request->after_name, true, &error) ||
	    !check_range("limit", request->limit, 0, LIST_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct list_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->op = (struct store_pipelines){
	    .op.done = on_listed,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .after_name = request->after_name,
	    .limit = request->limit ? (int)request->limit : LIST_DEFAULT,
	    .max_bytes = s->core->base.options.max_answer_bytes,
	};
	store_pipelines(s->core->base.store, &c->op);
}

static void on_shown(struct store_op *op, const struct reeve_error *error)
{
	struct list_call *c = (struct list_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else if (!c->op.count) {
		rpc_call_fail(c->call, STATUS(NOT_FOUND), "there is no pipeline \"%s\"", c->op.name);
	} else {
		Reeve__V1__ShowPipelineResponse response = REEVE__V1__SHOW_PIPELINE_RESPONSE__INIT;
		response.pipeline = pipeline_message(&c->op.pipelines[0]);
		rpc_call_reply(c->call, &response.base);
		reeve__v1__pipeline__free_unpacked(response.pipeline, NULL);
	}
	free(c);
}

static void show(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__ShowPipelineRequest *request = (const Reeve__V1__ShowPipelineRequest *)message;
	struct reeve_error error;
	if (!check_name("name", request->name, false, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct list_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->op = (struct store_pipelines){
	    .op.done = on_shown, .op.deadline_ms = service_deadline(s, call), .op.origin = rpc_call_origin(call), .name = request->name};
	store_pipelines(s->core->base.store, &c->op);
}

const struct rpc_entry pipeline_methods[] = {
	{"Define", define, RPC_ORDINARY, NULL},
	{"List", list, RPC_OPERATOR, NULL},
	{"Show", show, RPC_OPERATOR, NULL},
	{0},
};
