/* Measures for monitoring. */
#include "client/lib/internal.h"

#include <stdlib.h>

struct check_result {
	struct reeve_measures measures;
	Reeve__V1__CheckResponse *response;
};

static void measure_from_message(struct reeve_check_measure *measure, const Reeve__V1__CheckMeasure *message)
{
	measure->kind = (enum reeve_check_kind)message->kind;
	measure->count = message->count;
	measure->longest_ms = message->longest_ms;
	measure->n_examples = message->n_examples;
	measure->examined = message->examined;
	measure->examples = allocate(message->n_examples, sizeof *measure->examples);
	for (size_t i = 0; i < message->n_examples; i++) {
		const Reeve__V1__CheckExample *example = message->examples[i];

		measure->examples[i] = (struct reeve_check_example){
		    .count = example->count,
		    .ms = example->ms,
		    .task_id = example->task_id,
		    .queue = example->queue,
		    .type = example->type,
		    .name = example->name,
		    .waits_for = example->waits_for,
		    .wire = example,
		};
	}
}

static Reeve__V1__CheckResponse *ask(
    struct reeve_client *client, const struct reeve_check_query *query, struct reeve_failure *failure)
{
	Reeve__V1__CheckRequest request = REEVE__V1__CHECK_REQUEST__INIT;
	Reeve__V1__CheckQuestion *questions = allocate(query->count, sizeof *questions);
	Reeve__V1__CheckResponse *response;

	if (query->queue)
		request.queue = query->queue;
	if (query->type)
		request.type = query->type;
	request.n_questions = query->count;
	request.questions = allocate(query->count, sizeof *request.questions);
	for (size_t i = 0; i < query->count; i++) {
		reeve__v1__check_question__init(&questions[i]);
		questions[i].kind = (Reeve__V1__CheckKind)query->questions[i].kind;
		questions[i].longer_ms = query->questions[i].longer_ms;
		request.questions[i] = &questions[i];
	}
	response = (Reeve__V1__CheckResponse *)client_call(client, &reeve__v1__admin_service__descriptor, "Check",
	    &request.base, NULL, query->timeout_ms, failure);
	free(request.questions);
	free(questions);
	return response;
}

struct reeve_measures *reeve_measure(
    struct reeve_client *client, const struct reeve_check_query *query, struct reeve_failure *failure)
{
	Reeve__V1__CheckResponse *response = ask(client, query, failure);
	struct check_result *result;

	if (response && response->n_measures != query->count) {
		reeve__v1__check_response__free_unpacked(response, NULL);
		fail(failure, STATUS(INTERNAL), "the manager's answer has not what was asked for");
		return NULL;
	}
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->measures.manager = response->manager;
	result->measures.count = response->n_measures;
	result->measures.measures = allocate(response->n_measures, sizeof *result->measures.measures);
	for (size_t i = 0; i < response->n_measures; i++)
		measure_from_message(&result->measures.measures[i], response->measures[i]);
	return &result->measures;
}

void reeve_measures_free(struct reeve_measures *measures)
{
	struct check_result *result = (struct check_result *)measures;

	if (!measures)
		return;
	for (size_t i = 0; i < measures->count; i++)
		free(measures->measures[i].examples);
	free(measures->measures);
	reeve__v1__check_response__free_unpacked(result->response, NULL);
	free(result);
}
