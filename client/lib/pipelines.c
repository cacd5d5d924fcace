/* Pipelines: defining, listing, showing. */
#include "client/lib/internal.h"

#include <stdlib.h>

enum { LIST_PAGE = 1000 };

static ProtobufCMessage *ask(struct reeve_client *client, const char *method, ProtobufCMessage *request,
    const uint8_t *request_id, struct reeve_failure *failure)
{
	return client_call(client, &reeve__v1__pipeline_service__descriptor, method, request, request_id, 0, failure);
}

/* --- from messages ----------------------------------------------------------------------------------------------- */

/* What a stage points to. */
struct stage_parts {
	int32_t priority;
};

/* One or several pipelines, with the messages that own their strings. */
struct pipelines_result {
	struct reeve_pipelines all;
	struct pages pages;
	void **blocks; /* arrays of stages and of parts, two for each pipeline */
};

static void set(const char **field, const char *text)
{
	if (text)
		*field = text;
}

static void pipeline_from_message(struct reeve_pipeline *pipeline, const Reeve__V1__Pipeline *message, void **blocks)
{
	struct reeve_stage *stages = blocks[0] = allocate(message->n_stages + 1, sizeof *stages);
	struct stage_parts *parts = blocks[1] = allocate(message->n_stages + 1, sizeof *parts);

	for (size_t i = 0; i < message->n_stages; i++) {
		const Reeve__V1__PipelineStage *from = message->stages[i];

		stages[i] = (struct reeve_stage){
		    .name = from->name,
		    .type = from->type,
		    .next = from->next,
		    .max_attempts = from->max_attempts,
		    .timeout_ms = from->timeout_ms,
		};
		stages[i].retry = from->retry;
		if (from->priority) {
			parts[i].priority = from->priority->value;
			stages[i].priority = &parts[i].priority;
		}
	}
	*pipeline = (struct reeve_pipeline){
	    .name = message->name,
	    .n_stages = message->n_stages,
	    .stages = stages,
	    .max_steps = message->max_steps,
	    .id = message->id,
	    .created_us = message->created_us,
	    .source = message->source,
	    .wire = message,
	};
}

/* Creates a result from messages in the answers, which it takes over. */
static struct reeve_pipelines *result_create(const struct pages *pages, Reeve__V1__Pipeline *const *messages, size_t count)
{
	struct pipelines_result *result = allocate(1, sizeof *result);

	result->pages = *pages;
	result->blocks = allocate(2 * count + 1, sizeof *result->blocks);
	result->all.count = count;
	result->all.pipelines = allocate(count + 1, sizeof *result->all.pipelines);
	for (size_t i = 0; i < count; i++)
		pipeline_from_message(&result->all.pipelines[i], messages[i], &result->blocks[2 * i]);
	return &result->all;
}

void reeve_pipelines_free(struct reeve_pipelines *pipelines)
{
	struct pipelines_result *result = (struct pipelines_result *)pipelines;

	if (!pipelines)
		return;
	for (size_t i = 0; i < 2 * pipelines->count; i++)
		free(result->blocks[i]);
	pages_free(&result->pages);
	free(result->blocks);
	free(pipelines->pipelines);
	free(result);
}

/* A single pipeline. The public part is first: a pointer to it is one to this struct. */
struct pipeline_result {
	struct reeve_pipeline pipeline;
	struct reeve_pipelines *all;
};

static struct reeve_pipeline *one_of(ProtobufCMessage *response, Reeve__V1__Pipeline *message, struct reeve_failure *failure)
{
	struct pipeline_result *result;
	struct pages pages = {0};

	if (!message) {
		fail(failure, STATUS(INTERNAL), "the manager answered without the pipeline");
		protobuf_c_message_free_unpacked(response, NULL);
		return NULL;
	}
	result = allocate(1, sizeof *result);
	pages_add(&pages, response);
	result->all = result_create(&pages, &message, 1);
	result->pipeline = result->all->pipelines[0];
	return &result->pipeline;
}

void reeve_pipeline_free(struct reeve_pipeline *pipeline)
{
	struct pipeline_result *result = (struct pipeline_result *)pipeline;

	if (!pipeline)
		return;
	reeve_pipelines_free(result->all);
	free(result);
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

/* The messages of a stage. */
struct stage_message {
	Reeve__V1__PipelineStage stage;
	Reeve__V1__NewPriority priority;
};

static void stage_to_message(struct stage_message *to, const struct reeve_stage *stage)
{
	reeve__v1__pipeline_stage__init(&to->stage);
	set(&to->stage.name, stage->name);
	set(&to->stage.type, stage->type);
	set(&to->stage.next, stage->next);
	to->stage.max_attempts = stage->max_attempts;
	to->stage.timeout_ms = stage->timeout_ms;
	to->stage.retry = (Reeve__V1__RetryPolicy *)stage->retry;
	if (stage->priority) {
		reeve__v1__new_priority__init(&to->priority);
		to->priority.value = *stage->priority;
		to->stage.priority = &to->priority;
	}
}

struct reeve_pipeline *reeve_pipeline_define(struct reeve_client *client, const struct reeve_pipeline *pipeline,
    const uint8_t *request_id, bool *changed, struct reeve_failure *failure)
{
	Reeve__V1__DefinePipelineRequest request = REEVE__V1__DEFINE_PIPELINE_REQUEST__INIT;
	Reeve__V1__Pipeline message = REEVE__V1__PIPELINE__INIT;
	Reeve__V1__DefinePipelineResponse *response;
	struct stage_message *stages = allocate(pipeline->n_stages + 1, sizeof *stages);

	set(&message.name, pipeline->name);
	message.max_steps = pipeline->max_steps;
	message.stages = allocate(pipeline->n_stages + 1, sizeof *message.stages);
	message.n_stages = pipeline->n_stages;
	for (size_t i = 0; i < pipeline->n_stages; i++) {
		stage_to_message(&stages[i], &pipeline->stages[i]);
		message.stages[i] = &stages[i].stage;
	}
	request.pipeline = &message;
	response = (Reeve__V1__DefinePipelineResponse *)ask(client, "Define", &request.base, request_id, failure);
	free(message.stages);
	free(stages);
	if (!response)
		return NULL;
	if (changed)
		*changed = response->changed;
	return one_of(&response->base, response->pipeline, failure);
}

struct reeve_pipeline *reeve_pipeline_show(struct reeve_client *client, const char *name, struct reeve_failure *failure)
{
	Reeve__V1__ShowPipelineRequest request = REEVE__V1__SHOW_PIPELINE_REQUEST__INIT;
	Reeve__V1__ShowPipelineResponse *response;

	set(&request.name, name);
	response = (Reeve__V1__ShowPipelineResponse *)ask(client, "Show", &request.base, NULL, failure);
	return response ? one_of(&response->base, response->pipeline, failure) : NULL;
}

struct reeve_pipelines *reeve_pipeline_list(struct reeve_client *client, struct reeve_failure *failure)
{
	Reeve__V1__ListPipelinesRequest request = REEVE__V1__LIST_PIPELINES_REQUEST__INIT;
	Reeve__V1__ListPipelinesResponse *page;
	Reeve__V1__Pipeline **all = NULL;
	struct reeve_pipelines *result;
	struct pages pages = {0};
	size_t count = 0;

	request.limit = LIST_PAGE;
	do {
		page = (Reeve__V1__ListPipelinesResponse *)ask(client, "List", &request.base, NULL, failure);
		if (!page) {
			free(all);
			pages_free(&pages);
			return NULL;
		}
		pages_add(&pages, page);
		all = gather(all, &count, page->pipelines, page->n_pipelines);
		if (page->n_pipelines > 0)
			request.after_name = page->pipelines[page->n_pipelines - 1]->name;
	} while (page->more && page->n_pipelines > 0);
	result = result_create(&pages, all, count);
	free(all);
	return result;
}
