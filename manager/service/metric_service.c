/* MetricService: metrics of applications. */
#include "common/limits.h"
#include "manager/access/scope.h"
#include "manager/service/check.h"
#include "manager/service/method.h"

#include <jansson.h>
#include <math.h>
#include <reeve/v1/metric.pb-c.h>
#include <stdio.h>
#include <string.h>

static bool check_metric(size_t i, const Reeve__V1__MetricValue *m, struct reeve_error *error)
{
	char field[64];
	snprintf(field, sizeof field, "metrics[%zu].category", i);
	if (!check_name(field, m->category, false, error))
		return false;
	if (!strcmp(m->category, "manager"))
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "%s: \"manager\" is the category of the managers' own counters", field);
	snprintf(field, sizeof field, "metrics[%zu].name", i);
	if (!check_name(field, m->name, false, error))
		return false;
	return m->exact_case == REEVE__V1__METRIC_VALUE__EXACT_INTEGER || isfinite(m->value) ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "metrics[%zu].value is not a finite number", i);
}

/* Put and Add have the same fields. */
_Static_assert(
    sizeof(Reeve__V1__PutMetricsRequest) == sizeof(Reeve__V1__AddMetricsRequest), "as metrics_change takes them");

static char *metrics_change(const struct services *services, const struct rpc_call *call,
    const ProtobufCMessage *message, struct reeve_error *error)
{
	const Reeve__V1__PutMetricsRequest *request = (const Reeve__V1__PutMetricsRequest *)message;
	(void)services;
	(void)call;
	if (!check_range("the number of metrics", (int64_t)request->n_metrics, 1, LIMIT_CALL_METRICS, error))
		return NULL;
	for (size_t i = 0; i < request->n_metrics; i++)
		if (!check_metric(i, request->metrics[i], error))
			return NULL;
	json_t *change = json_array();
	for (size_t i = 0; i < request->n_metrics; i++) {
		const Reeve__V1__MetricValue *m = request->metrics[i];
		json_t *value = m->exact_case == REEVE__V1__METRIC_VALUE__EXACT_INTEGER ? json_integer((json_int_t)m->integer)
		                                                                        : json_real(m->value);
		json_array_append_new(
		    change, json_pack("{ss ss so}", "category", m->category, "name", m->name, "value", value));
	}
	char *text = json_dumps(change, JSON_COMPACT);
	json_decref(change);
	return text;
}

static bool metrics_allow(
    const struct rpc_identity *identity, const ProtobufCMessage *message, struct reeve_error *error)
{
	const Reeve__V1__PutMetricsRequest *request = (const Reeve__V1__PutMetricsRequest *)message;
	bool good = true;
	for (size_t i = 0; good && i < request->n_metrics; i++)
		good = scope_metric(identity, "metrics.category", request->metrics[i]->category, error);
	return good;
}

const struct rpc_entry metric_methods[] = {
    {"Put", write_method, RPC_ORDINARY, MAY_SET_METRICS,
        METHOD(SQL_METRICS_PUT, .change = metrics_change, .allow = metrics_allow)},
    {"Add", write_method, RPC_ORDINARY, MAY_SET_METRICS,
        METHOD(SQL_METRICS_ADD, .change = metrics_change, .allow = metrics_allow)},
    {"List", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_METRICS_LIST,
            .rules = {{"category", RULE_NAME_OR_NONE}, {"after_category", RULE_NAME_OR_NONE},
                {"after_name", RULE_NAME_OR_NONE},
                {"limit", RULE_NUMBER, .max = LIMIT_LIST_LONG, .otherwise = LIMIT_LIST}})},
    {0},
};
