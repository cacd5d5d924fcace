/*
 * Builds a definition field by field. Adding a schedule puts all its fields, editing one puts the named fields. The
 * database checks what only it can: zones, cron expressions, batches.
 */
#include "manager/service/schedule_change.h"

#include "common/check_task.h"
#include "common/json_names.h"
#include "common/limits.h"
#include "manager/service/check.h"
#include "manager/service/schedule_task.h"
#include "manager/service/setting.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef Reeve__V1__Schedule schedule;

/* --- fields ------------------------------------------------------------------------------------------------------- */

static bool check_cron(const char *field, const char *cron, struct reeve_error *error)
{
	size_t length = strlen(cron);
	return length <= LIMIT_CRON_BYTES ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "%s has %zu bytes; at most %d are allowed", field, length,
	        LIMIT_CRON_BYTES);
}

static bool put_manual(json_t *change, const ProtobufCMessage *message, struct reeve_error *error)
{
	if (!((const schedule *)message)->manual)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "schedule.manual is false; give cron or every_ms, so that it runs automatically");
	json_object_set_new(change, "manual", json_true());
	return true;
}

static bool put_catch_up(json_t *change, const ProtobufCMessage *message, struct reeve_error *error)
{
	const schedule *s = (const schedule *)message;
	Reeve__V1__CatchUpPolicy policy = s->catch_up ? s->catch_up : REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ONE;
	bool all = policy == REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ALL;
	char word[JSON_NAME_BYTES];
	if (!check_range("schedule.catch_up", s->catch_up, 0, REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ALL, error) ||
	    (all && !check_range("schedule.max_catch_up", s->max_catch_up, 1, LIMIT_CATCH_UP, error)))
		return false;
	if (!all && s->max_catch_up)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule.max_catch_up needs catch_up ALL");
	json_enum_word(&reeve__v1__catch_up_policy__descriptor, (int)policy, word);
	json_object_set_new(change, "catch_up", json_string(word));
	json_object_set_new(change, "max_catch_up", json_integer(all ? s->max_catch_up : 1));
	return true;
}

static const struct setting schedule_settings[] = {
    {"cron", SETTING_NAME, .check = check_cron},
    {"every_ms", SETTING_NUMBER, .min = LIMIT_EVERY_MIN_MS, .max = DAYS_MS(LIMIT_EVERY_DAYS)},
    {"manual", SETTING_OWN, .put = put_manual},
    {"zone", SETTING_NAME_OR_NONE, .otherwise = "UTC"},
    {"start_us", SETTING_NUMBER, .min = 1, .max = LIMIT_TIME_US},
    {"queue_action", SETTING_WORD, .min = 1, .max = REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_RESUME},
    {"action_queue", .kind = SETTING_NAME},
    {"catch_up", SETTING_OWN, .put = put_catch_up},
    {"max_catch_up", SETTING_OWN, .put = put_catch_up},
    {"concurrency_policy", SETTING_WORD, .max = REEVE__V1__CONCURRENCY_POLICY__CONCURRENCY_POLICY_QUEUE,
        .otherwise = "queue"},
    {0},
};

/* --- checks ------------------------------------------------------------------------------------------------------- */

/* Checks a task whose time the schedule determines. */
static bool check_scheduled_task(const Reeve__V1__TaskSpec *task, int64_t max_details_bytes, struct reeve_error *error)
{
	if (task->run_at_us)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "schedule.task.run_at_us cannot be used: the schedule sets the time; use delay_ms");
	if (task->version)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "schedule.task.version cannot be used: each run has its own key");
	return check_task("schedule.task", task, max_details_bytes, error);
}

static bool check_ways(const schedule *s, struct reeve_error *error)
{
	int ways = (*s->cron != 0) + (s->every_ms != 0) + s->manual;
	if (ways == 1)
		return true;
	if (!ways)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule needs one of cron, every_ms and manual");
	return error_set(error, STATUS(INVALID_ARGUMENT), "schedule.cron, every_ms and manual cannot be combined");
}

static bool check_work(const schedule *s, int64_t max_details_bytes, struct reeve_error *error)
{
	bool acts = s->queue_action || *s->action_queue;
	if (acts && s->task)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule.task and schedule.queue_action cannot be combined");
	if (!acts && !s->task)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule needs a task or a queue_action");
	if (!acts)
		return check_scheduled_task(s->task, max_details_bytes, error);
	return check_range(
	           "schedule.queue_action", s->queue_action, 1, REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_RESUME, error) &&
	    check_name("schedule.action_queue", s->action_queue, false, error);
}

/* Puts the caller's name before the task's source, as a submit does. */
static void name_source(json_t *task, const struct rpc_call *call)
{
	const char *source = json_string_value(json_object_get(task, "source"));
	char *qualified = source && *source ? rpc_identity_qualify(rpc_call_identity(call), source) : NULL;
	if (qualified)
		json_object_set_new(task, "source", json_string(qualified));
	free(qualified);
}

char *schedule_addition(const struct services *services, const struct rpc_call *call, const ProtobufCMessage *request,
    struct reeve_error *error)
{
	const schedule *s = ((const Reeve__V1__AddScheduleRequest *)request)->schedule;
	int64_t max_details_bytes = services->core->base.options.max_details_bytes;
	if (!s) {
		error_set(error, STATUS(INVALID_ARGUMENT), "schedule is missing");
		return NULL;
	}
	if (!check_name("schedule.name", s->name, false, error) || !check_ways(s, error) ||
	    !check_work(s, max_details_bytes, error))
		return NULL;
	json_t *change = json_object();
	bool good = settings_put_all(change, schedule_settings, "schedule", &s->base, error);
	if (good && s->task) {
		json_t *task = json_object();
		schedule_task_put_all(task, s->task);
		name_source(task, call);
		json_object_set_new(change, "task", task);
	}
	char *text = good ? json_dumps(change, JSON_COMPACT) : NULL;
	json_decref(change);
	return text;
}

/* Checks the named fields of the task. Required fields that are not named are replaced by valid ones. */
static bool check_named(
    const Reeve__V1__TaskSpec *task, const json_t *named, int64_t max_details_bytes, struct reeve_error *error)
{
	Reeve__V1__TaskSpec probe = *task;
	static char some[] = "x";
	if (!json_object_get(named, "type") && !json_object_get(named, "pipeline"))
		probe.type = some;
	if (!json_object_get(named, "key"))
		probe.key = some;
	return check_scheduled_task(&probe, max_details_bytes, error);
}

static bool put_task_field(json_t *change, const char *field, const schedule *s, struct reeve_error *error)
{
	static const Reeve__V1__TaskSpec defaults = REEVE__V1__TASK_SPEC__INIT;
	json_t *task = json_object_get(change, "task");
	if (!task)
		json_object_set_new(change, "task", task = json_object());
	return schedule_task_put(task, field, s->task ? s->task : &defaults) ||
	    error_set(
	        error, STATUS(INVALID_ARGUMENT), "fields has \"task.%.100s\"; a schedule's task has no such field", field);
}

static bool put_named(json_t *change, const char *field, const schedule *s, struct reeve_error *error)
{
	bool of_task = !strncmp(field, "task.", 5);
	return of_task ? put_task_field(change, field + 5, s, error)
	               : setting_put(change, schedule_settings, field, "schedule", &s->base, error);
}

static bool is_named(const Reeve__V1__EditScheduleRequest *request, const char *field)
{
	for (size_t i = 0; i < request->n_fields; i++)
		if (!strcmp(request->fields[i], field))
			return true;
	return false;
}

static bool check_together(
    const Reeve__V1__EditScheduleRequest *request, const json_t *change, struct reeve_error *error)
{
	int ways = (json_object_get(change, "cron") != NULL) + (json_object_get(change, "every_ms") != NULL) +
	    (json_object_get(change, "manual") != NULL);
	if (ways > 1)
		return error_set(error, STATUS(INVALID_ARGUMENT), "fields: cron, every_ms and manual cannot be combined");
	if (is_named(request, "max_catch_up") && !is_named(request, "catch_up"))
		return error_set(error, STATUS(INVALID_ARGUMENT), "fields has max_catch_up without catch_up; name both");
	if (json_object_get(change, "task") &&
	    (json_object_get(change, "queue_action") || json_object_get(change, "action_queue")))
		return error_set(error, STATUS(INVALID_ARGUMENT), "fields: a task and a queue_action cannot be combined");
	return true;
}

char *schedule_change(const struct services *services, const struct rpc_call *call, const ProtobufCMessage *message,
    struct reeve_error *error)
{
	const Reeve__V1__EditScheduleRequest *request = (const Reeve__V1__EditScheduleRequest *)message;
	const schedule *s = request->schedule;
	size_t count = request->n_fields;
	int64_t max_details_bytes = services->core->base.options.max_details_bytes;
	static const Reeve__V1__TaskSpec defaults = REEVE__V1__TASK_SPEC__INIT;
	if (!s) {
		error_set(error, STATUS(INVALID_ARGUMENT), "schedule is missing");
		return NULL;
	}
	if (!check_name("schedule.name", s->name, false, error))
		return NULL;
	json_t *change = json_object();
	bool good = settings_count_check(count, error);
	for (size_t i = 0; good && i < count; i++)
		good = put_named(change, request->fields[i], s, error);
	json_t *task = json_object_get(change, "task");
	name_source(task, call);
	good = good && check_together(request, change, error) &&
	    (!task || check_named(s->task ? s->task : &defaults, task, max_details_bytes, error));
	char *text = good ? json_dumps(change, JSON_COMPACT) : NULL;
	json_decref(change);
	return text;
}
