/* A task as JSON. */
#include "manager/store/submit_json.h"

#include <jansson.h>

char *submit_json(const struct store_task *task)
{
	json_t *policy = task->retry_policy ? json_loads(task->retry_policy, 0, NULL) : json_null();
	json_t *spec = json_pack("{ss ss ss sI sI si si si sI sI sI so ss}", "queue", task->queue, "type", task->type,
	    "details", task->details, "version", (json_int_t)task->task_version, "delay_ms", (json_int_t)task->delay_ms,
	    "priority", (int)task->priority, "route_id", task->route, "max_attempts", (int)task->max_attempts, "timeout_ms",
	    (json_int_t)task->timeout_ms, "retry_base_ms", (json_int_t)task->retry_base_ms, "retry_max_ms",
	    (json_int_t)task->retry_max_ms, "retry_policy", policy, "source", task->source);
	for (int i = 0; i < SQL_SUBMITTED; i++)
		if (task->texts[i])
			json_object_set_new(spec, sql_columns_submitted[i], json_string(task->texts[i]));
	if (task->key_ttl_ms)
		json_object_set_new(spec, "key_ttl_ms", json_integer(task->key_ttl_ms));
	if (task->run_at_us != STORE_TIME_BEGIN)
		json_object_set_new(spec, "run_at_us", json_integer(task->run_at_us));
	if (task->batch_id)
		json_object_set_new(spec, "batch_id", json_integer(task->batch_id));
	if (task->pipeline_id) {
		json_object_set_new(spec, "pipeline_id", json_integer(task->pipeline_id));
		json_object_set_new(spec, "stage", json_string(task->stage));
		json_object_set_new(spec, "step", json_integer(1));
	}
	char *json = json_dumps(spec, JSON_COMPACT);
	json_decref(spec);
	return json;
}
