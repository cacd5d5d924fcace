/* MetricService: metrics of applications. */
#include "manager/service/check.h"
#include "manager/service/read_method.h"

#include <math.h>
#include <reeve/v1/metric.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PUT_MAX = 1000, LIST_DEFAULT = 1000, LIST_MAX = 10000 };

/* --- Put --------------------------------------------------------------------------------------------------------- */

struct put_call {
	struct store_metrics_put op;
	struct rpc_call *call;
	struct store_metric metrics[];
};

static void on_put(struct store_op *op, const struct reeve_error *error)
{
	struct put_call *c = (struct put_call *)op;
	Reeve__V1__PutMetricsResponse response = REEVE__V1__PUT_METRICS_RESPONSE__INIT;
	response.at_us = c->op.at_us;
	if (error)
		rpc_call_fail_error(c->call, error);
	else
		rpc_call_reply(c->call, &response.base);
	free(c);
}

static bool check_metric(size_t i, const Reeve__V1__MetricValue *m, struct reeve_error *error)
{
	char field[64];
	snprintf(field, sizeof field, "metrics[%zu].category", i);
	if (!check_name(field, m->category, false, error))
		return false;
	if (!strcmp(m->category, "manager"))
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s: \"manager\" is the category of the managers' own counters", field);
	snprintf(field, sizeof field, "metrics[%zu].name", i);
	if (!check_name(field, m->name, false, error))
		return false;
	return isfinite(m->value) ||
	       error_set(error, STATUS(INVALID_ARGUMENT), "metrics[%zu].value is not a finite number", i);
}

static bool check_put(const struct rpc_call *call, const Reeve__V1__PutMetricsRequest *request, struct reeve_error *error)
{
	if (!check_source("actor", rpc_call_actor(call), error) ||
	    !check_range("the number of metrics", (int64_t)request->n_metrics, 1, PUT_MAX, error))
		return false;
	for (size_t i = 0; i < request->n_metrics; i++)
		if (!check_metric(i, request->metrics[i], error))
			return false;
	return true;
}

static void put(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__PutMetricsRequest *request = (const Reeve__V1__PutMetricsRequest *)message;
	struct reeve_error error;
	if (!check_put(call, request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct put_call *c = mem_calloc(1, sizeof *c + sizeof *c->metrics * request->n_metrics);
	c->call = call;
	for (size_t i = 0; i < request->n_metrics; i++)
		c->metrics[i] = (struct store_metric){
		    request->metrics[i]->category, request->metrics[i]->name, request->metrics[i]->value};
	c->op = (struct store_metrics_put){
	    .op.done = on_put,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .count = (int)request->n_metrics,
	    .metrics = c->metrics,
	    .source = rpc_call_actor(call),
	};
	store_metrics_put(s->core->base.store, &c->op);
}

/* --- List -------------------------------------------------------------------------------------------------------- */

/* Cuts the metrics to the requested number, and to what fits in an answer. */
static void on_listed(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	Reeve__V1__ListMetricsResponse *out = (Reeve__V1__ListMetricsResponse *)r->response;
	out->more = reading_cut(r, out->metrics, &out->n_metrics, ((Reeve__V1__ListMetricsRequest *)r->request)->limit);
	reading_end(r, error);
}

static const struct read_method list = {
    SQL_METRICS_LIST,
    .rules = {{"category", RULE_NAME_OR_NONE}, {"after_category", RULE_NAME_OR_NONE}, {"after_name", RULE_NAME_OR_NONE},
        {"limit", RULE_NUMBER, .max = LIST_MAX, .otherwise = LIST_DEFAULT}},
    .done = on_listed,
};

const struct rpc_entry metric_methods[] = {
	{"Put", put, RPC_ORDINARY, NULL},
	{"List", read_method, RPC_OPERATOR, &list},
	{0},
};
