/*
 * Builds a definition field by field. Adding a schedule puts all its fields, editing one puts the named fields. The
 * database checks what only it can: zones, cron expressions, batches.
 */
#include "manager/service/schedule_change.h"

#include "common/json_names.h"
#include "manager/service/check.h"
#include "manager/service/check_task.h"
#include "manager/service/schedule_task.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MIN_MS 100
#define EVERY_MAX_MS (3650 * DAY_MS)
#define START_MAX_US INT64_C(253402300799000000)

enum { FIELDS_MAX = 100, CATCH_UP_MAX = 1000, CRON_MAX_BYTES = 255 };

typedef Reeve__V1__Schedule schedule;

/* --- fields ------------------------------------------------------------------------------------------------------- */

static void put(json_t *change, const char *name, json_t *value)
{
	json_object_set_new(change, name, value);
}

/* Puts the name of an enum's value. */
static void put_word(json_t *change, const char *name, const ProtobufCEnumDescriptor *descriptor, int value)
{
	char word[JSON_NAME_BYTES];
	bool known = json_enum_word(descriptor, value, word);
	put(change, name, known ? json_string(word) : json_null());
}

static bool put_cron(json_t *change, const schedule *s, struct reeve_error *error)
{
	size_t length = strlen(s->cron);
	if (!length)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule.cron is empty");
	if (length > CRON_MAX_BYTES)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule.cron has %zu bytes; at most %d are taken",
		    length, CRON_MAX_BYTES);
	put(change, "cron", json_string(s->cron));
	return true;
}

static bool put_every(json_t *change, const schedule *s, struct reeve_error *error)
{
	if (!check_range("schedule.every_ms", s->every_ms, EVERY_MIN_MS, EVERY_MAX_MS, error))
		return false;
	put(change, "every_ms", json_integer(s->every_ms));
	return true;
}

static bool put_manual(json_t *change, const schedule *s, struct reeve_error *error)
{
	if (!s->manual)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "schedule.manual is false; give cron or every_ms to have it come by itself");
	put(change, "manual", json_true());
	return true;
}

static bool put_zone(json_t *change, const schedule *s, struct reeve_error *error)
{
	if (!check_name("schedule.zone", s->zone, true, error))
		return false;
	put(change, "zone", json_string(*s->zone ? s->zone : "UTC"));
	return true;
}

static bool put_start(json_t *change, const schedule *s, struct reeve_error *error)
{
	if (!check_range("schedule.start_us", s->start_us, 1, START_MAX_US, error))
		return false;
	put(change, "start_us", json_integer(s->start_us));
	return true;
}

static bool put_action(json_t *change, const schedule *s, struct reeve_error *error)
{
	if (!check_range("schedule.queue_action", s->queue_action, 1, REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_RESUME, error))
		return false;
	put_word(change, "queue_action", &reeve__v1__queue_action__descriptor, (int)s->queue_action);
	return true;
}

static bool put_action_queue(json_t *change, const schedule *s, struct reeve_error *error)
{
	if (!check_name("schedule.action_queue", s->action_queue, false, error))
		return false;
	put(change, "action_queue", json_string(s->action_queue));
	return true;
}

static bool put_catch_up(json_t *change, const schedule *s, struct reeve_error *error)
{
	Reeve__V1__CatchUpPolicy policy = s->catch_up ? s->catch_up : REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ONE;
	bool all = policy == REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ALL;
	if (!check_range("schedule.catch_up", s->catch_up, 0, REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ALL, error) ||
	    (all && !check_range("schedule.max_catch_up", s->max_catch_up, 1, CATCH_UP_MAX, error)))
		return false;
	if (!all && s->max_catch_up)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule.max_catch_up is for catch_up ALL");
	put_word(change, "catch_up", &reeve__v1__catch_up_policy__descriptor, (int)policy);
	put(change, "max_catch_up", json_integer(all ? s->max_catch_up : 1));
	return true;
}

static bool put_concurrency_policy(json_t *change, const schedule *s, struct reeve_error *error)
{
	Reeve__V1__ConcurrencyPolicy queue = REEVE__V1__CONCURRENCY_POLICY__CONCURRENCY_POLICY_QUEUE;
	if (!check_range("schedule.concurrency_policy", s->concurrency_policy, 0, queue, error))
		return false;
	put_word(change, "concurrency_policy", &reeve__v1__concurrency_policy__descriptor,
	    (int)(s->concurrency_policy ? s->concurrency_policy : queue));
	return true;
}

static const struct {
	const char *field;
	bool (*put)(json_t *change, const schedule *s, struct reeve_error *error);
} puts_by_field[] = {
    {"cron", put_cron},
    {"every_ms", put_every},
    {"manual", put_manual},
    {"zone", put_zone},
    {"start_us", put_start},
    {"queue_action", put_action},
    {"action_queue", put_action_queue},
    {"catch_up", put_catch_up},
    {"max_catch_up", put_catch_up},
    {"concurrency_policy", put_concurrency_policy},
};

enum { PUTS = sizeof puts_by_field / sizeof *puts_by_field };

static bool put_field(json_t *change, const char *field, const schedule *s, struct reeve_error *error)
{
	for (int i = 0; i < PUTS; i++)
		if (!strcmp(puts_by_field[i].field, field))
			return puts_by_field[i].put(change, s, error);
	return error_set(
	    error, STATUS(INVALID_ARGUMENT), "fields has \"%.100s\"; there is no such field to set", field);
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

/* Checks a task whose time the schedule determines. */
static bool check_scheduled_task(const Reeve__V1__TaskSpec *task, int64_t max_details_bytes, struct reeve_error *error)
{
	if (task->run_at_us)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "schedule.task.run_at_us cannot be used: the schedule sets the time; use delay_ms");
	if (task->version)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "schedule.task.version cannot be used: each run has its own key");
	return check_task("schedule.task", task, max_details_bytes, error);
}

static bool check_ways(const schedule *s, struct reeve_error *error)
{
	int ways = (*s->cron != 0) + (s->every_ms != 0) + s->manual;
	if (ways == 1)
		return true;
	if (!ways)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule has none of cron, every_ms and manual");
	return error_set(error, STATUS(INVALID_ARGUMENT), "schedule has more than one of cron, every_ms and manual");
}

static bool check_deed(const schedule *s, int64_t max_details_bytes, struct reeve_error *error)
{
	bool acts = s->queue_action || *s->action_queue;
	if (acts && s->task)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule has both a task and a queue_action");
	if (!acts && !s->task)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule has neither a task nor a queue_action");
	return acts || check_scheduled_task(s->task, max_details_bytes, error);
}

char *schedule_addition(const struct services *services, const ProtobufCMessage *request, struct reeve_error *error)
{
	const schedule *s = ((const Reeve__V1__AddScheduleRequest *)request)->schedule;
	int64_t max_details_bytes = services->core->base.options.max_details_bytes;
	if (!s) {
		error_set(error, STATUS(INVALID_ARGUMENT), "schedule is missing");
		return NULL;
	}
	if (!check_name("schedule.name", s->name, false, error) || !check_ways(s, error) ||
	    !check_deed(s, max_details_bytes, error))
		return NULL;
	json_t *change = json_object();
	bool acts = !s->task;
	bool good = (!*s->cron || put_cron(change, s, error)) && (!s->every_ms || put_every(change, s, error)) &&
	            (!s->manual || put_manual(change, s, error)) && put_zone(change, s, error) &&
	            (!s->start_us || put_start(change, s, error)) && put_catch_up(change, s, error) &&
	            put_concurrency_policy(change, s, error) &&
	            (!acts || (put_action(change, s, error) && put_action_queue(change, s, error)));
	if (good && s->task) {
		json_t *task = json_object();
		schedule_task_put_all(task, s->task);
		put(change, "task", task);
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
		put(change, "task", task = json_object());
	return schedule_task_put(task, field, s->task ? s->task : &defaults) ||
	       error_set(error, STATUS(INVALID_ARGUMENT),
	           "fields has \"task.%.100s\"; a schedule's task has no such field", field);
}

static bool put_named(json_t *change, const char *field, const schedule *s, struct reeve_error *error)
{
	bool of_task = !strncmp(field, "task.", 5);
	return of_task ? put_task_field(change, field + 5, s, error) : put_field(change, field, s, error);
}

static bool check_together(const json_t *change, struct reeve_error *error)
{
	int ways = (json_object_get(change, "cron") != NULL) + (json_object_get(change, "every_ms") != NULL) +
	           (json_object_get(change, "manual") != NULL);
	if (ways > 1)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "fields has more than one of cron, every_ms and manual");
	if (json_object_get(change, "task") &&
	    (json_object_get(change, "queue_action") || json_object_get(change, "action_queue")))
		return error_set(error, STATUS(INVALID_ARGUMENT), "fields has both a task and a queue_action");
	return true;
}

char *schedule_change(const struct services *services, const ProtobufCMessage *message, struct reeve_error *error)
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
	if (!count) {
		error_set(error, STATUS(INVALID_ARGUMENT), "fields is empty: it names the fields to change");
		return NULL;
	}
	json_t *change = json_object();
	bool good = check_range("fields", (int64_t)count, 1, FIELDS_MAX, error);
	for (size_t i = 0; good && i < count; i++)
		good = put_named(change, request->fields[i], s, error);
	const json_t *task = json_object_get(change, "task");
	good = good && check_together(change, error) &&
	       (!task || check_named(s->task ? s->task : &defaults, task, max_details_bytes, error));
	char *text = good ? json_dumps(change, JSON_COMPACT) : NULL;
	json_decref(change);
	return text;
}
