/* Metrics: setting and reading them. */
#include "client/lib/internal.h"

#include <stdlib.h>

static ProtobufCMessage *ask(
    struct reeve_client *client, const char *method, ProtobufCMessage *request, struct reeve_failure *failure)
{
	return client_call(client, &reeve__v1__metric_service__descriptor, method, request, NULL, 0, failure);
}

bool reeve_metrics_put(struct reeve_client *client, const struct reeve_metric_value *values, size_t count, int64_t *at_us,
    struct reeve_failure *failure)
{
	Reeve__V1__PutMetricsRequest request = REEVE__V1__PUT_METRICS_REQUEST__INIT;
	Reeve__V1__PutMetricsResponse *response;
	Reeve__V1__MetricValue *messages, **pointers;

	if (count < 1 || count > REEVE_METRICS_AT_ONCE)
		return fail(failure, STATUS(INVALID_ARGUMENT), "there are %zu metrics; a call takes 1 to %d", count,
		    REEVE_METRICS_AT_ONCE);
	messages = allocate(count, sizeof *messages);
	pointers = allocate(count, sizeof *pointers);
	for (size_t i = 0; i < count; i++) {
		reeve__v1__metric_value__init(&messages[i]);
		if (values[i].category)
			messages[i].category = values[i].category;
		if (values[i].name)
			messages[i].name = values[i].name;
		messages[i].value = values[i].value;
		pointers[i] = &messages[i];
	}
	request.n_metrics = count;
	request.metrics = pointers;
	response = (Reeve__V1__PutMetricsResponse *)ask(client, "Put", &request.base, failure);
	free(messages);
	free(pointers);
	if (!response)
		return false;
	if (at_us)
		*at_us = response->at_us;
	reeve__v1__put_metrics_response__free_unpacked(response, NULL);
	return true;
}

struct metrics_result {
	struct reeve_metrics metrics;
	Reeve__V1__ListMetricsResponse *response;
};

struct reeve_metrics *reeve_metrics(
    struct reeve_client *client, const struct reeve_metrics_query *query, struct reeve_failure *failure)
{
	Reeve__V1__ListMetricsRequest request = REEVE__V1__LIST_METRICS_REQUEST__INIT;
	Reeve__V1__ListMetricsResponse *response;
	struct metrics_result *result;

	if (query->category)
		request.category = query->category;
	if (query->after_category)
		request.after_category = query->after_category;
	if (query->after_name)
		request.after_name = query->after_name;
	request.limit = query->limit;
	response = (Reeve__V1__ListMetricsResponse *)ask(client, "List", &request.base, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->metrics.more = response->more;
	result->metrics.count = response->n_metrics;
	result->metrics.metrics = allocate(response->n_metrics, sizeof *result->metrics.metrics);
	for (size_t i = 0; i < response->n_metrics; i++) {
		const Reeve__V1__Metric *message = response->metrics[i];

		result->metrics.metrics[i] = (struct reeve_metric){
		    .category = message->category,
		    .name = message->name,
		    .value = message->value,
		    .changed_us = message->changed_us,
		    .updated_us = message->updated_us,
		    .source = message->source,
		    .wire = message,
		};
	}
	return &result->metrics;
}

void reeve_metrics_free(struct reeve_metrics *metrics)
{
	struct metrics_result *result = (struct metrics_result *)metrics;

	if (!metrics)
		return;
	reeve__v1__list_metrics_response__free_unpacked(result->response, NULL);
	free(metrics->metrics);
	free(result);
}
