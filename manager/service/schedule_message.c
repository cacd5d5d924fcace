/*
 * Builds a definition field by field. Adding a schedule puts all its fields, editing one puts the named fields. The
 * database checks what only it can: zones, cron expressions, batches.
 */
#include "manager/service/schedule_message.h"

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

static const char *const actions[] = {
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_START] = "start",
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_STOP] = "stop",
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_PAUSE] = "pause",
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_RESUME] = "resume",
};
static const char *const catch_up_names[] = {
    [REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_UNSPECIFIED] = "one",
    [REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_SKIP] = "skip",
    [REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ONE] = "one",
    [REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ALL] = "all",
};
static const char *const concurrency_names[] = {
    [REEVE__V1__CONCURRENCY_POLICY__CONCURRENCY_POLICY_UNSPECIFIED] = "queue",
    [REEVE__V1__CONCURRENCY_POLICY__CONCURRENCY_POLICY_FORBID] = "forbid",
    [REEVE__V1__CONCURRENCY_POLICY__CONCURRENCY_POLICY_QUEUE] = "queue",
    [REEVE__V1__CONCURRENCY_POLICY__CONCURRENCY_POLICY_ALLOW] = "allow",
};

enum { ACTIONS = sizeof actions / sizeof *actions };
enum { CATCH_UPS = sizeof catch_up_names / sizeof *catch_up_names };
enum { CONCURRENCIES = sizeof concurrency_names / sizeof *concurrency_names };

/* --- fields ------------------------------------------------------------------------------------------------------- */

static void put(json_t *change, const char *name, json_t *value)
{
	json_object_set_new(change, name, value);
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
	if (!check_range("schedule.queue_action", s->queue_action, 1, ACTIONS - 1, error))
		return false;
	put(change, "queue_action", json_string(actions[s->queue_action]));
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
	bool all = s->catch_up == REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ALL;
	if (!check_range("schedule.catch_up", s->catch_up, 0, CATCH_UPS - 1, error) ||
	    (all && !check_range("schedule.max_catch_up", s->max_catch_up, 1, CATCH_UP_MAX, error)))
		return false;
	if (!all && s->max_catch_up)
		return error_set(error, STATUS(INVALID_ARGUMENT), "schedule.max_catch_up is for catch_up ALL");
	put(change, "catch_up", json_string(catch_up_names[s->catch_up]));
	put(change, "max_catch_up", json_integer(all ? s->max_catch_up : 1));
	return true;
}

static bool put_concurrency_policy(json_t *change, const schedule *s, struct reeve_error *error)
{
	if (!check_range("schedule.concurrency_policy", s->concurrency_policy, 0, CONCURRENCIES - 1, error))
		return false;
	put(change, "concurrency_policy", json_string(concurrency_names[s->concurrency_policy]));
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

char *schedule_addition(const schedule *s, int64_t max_details_bytes, struct reeve_error *error)
{
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

char *schedule_change(
    const schedule *s, const char *const *fields, size_t count, int64_t max_details_bytes, struct reeve_error *error)
{
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
		good = put_named(change, fields[i], s, error);
	const json_t *task = json_object_get(change, "task");
	good = good && check_together(change, error) &&
	       (!task || check_named(s->task ? s->task : &defaults, task, max_details_bytes, error));
	char *text = good ? json_dumps(change, JSON_COMPACT) : NULL;
	json_decref(change);
	return text;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static char *copy(const char *text)
{
	return text && *text ? mem_strdup(text) : (char *)protobuf_c_empty_string;
}

/* Returns the index of a name in the array; 0: not found. */
static int number_of(const char *const *names, int count, const char *name)
{
	for (int i = 1; name && i < count; i++)
		if (!strcmp(names[i], name))
			return i;
	return 0;
}

static Reeve__V1__RunOutcome outcome_of(const char *name)
{
	int outcome = REEVE__V1__RUN_OUTCOME__RUN_OUTCOME_UNSPECIFIED;
	if (name)
		json_enum_number(&reeve__v1__run_outcome__descriptor, name, &outcome);
	return (Reeve__V1__RunOutcome)outcome;
}

schedule *schedule_message(const struct store_schedule *from)
{
	schedule *s = mem_malloc(sizeof *s);
	reeve__v1__schedule__init(s);
	s->name = copy(from->name);
	s->cron = copy(from->cron);
	s->zone = copy(from->zone);
	s->every_ms = from->every_ms;
	s->start_us = from->every_ms ? from->start_us : 0;
	s->manual = !from->cron && !from->every_ms;
	s->task = from->spec ? schedule_task_from(from->spec) : NULL;
	s->queue_action = number_of(actions, ACTIONS, from->queue_action);
	s->action_queue = copy(from->action_queue);
	s->catch_up = number_of(catch_up_names, CATCH_UPS, from->catch_up);
	s->max_catch_up = s->catch_up == REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_ALL ? (uint32_t)from->max_catch_up : 0;
	s->concurrency_policy = number_of(concurrency_names, CONCURRENCIES, from->concurrency_policy);
	s->paused = from->paused;
	s->next_us = from->next_us;
	s->last_scheduled_us = from->last_scheduled_us;
	s->last_us = from->last_us;
	s->last_outcome = outcome_of(from->last_outcome);
	s->last_task_id = from->last_task_id;
	s->waits_for = from->waits_for;
	s->source = copy(from->source);
	s->created_us = from->created_us;
	s->updated_us = from->updated_us;
	s->n_scheduled_us = (size_t)from->scheduled_count;
	s->scheduled_us = mem_malloc(sizeof *s->scheduled_us * (s->n_scheduled_us + 1));
	for (size_t i = 0; i < s->n_scheduled_us; i++)
		s->scheduled_us[i] = from->scheduled_us[i];
	return s;
}

Reeve__V1__ScheduleRun *schedule_run_message(const struct store_schedule_run *from)
{
	static const char *const statuses[] = {"", "queued", "executing", "failed", "completed", "dead", "cancelled"};
	Reeve__V1__ScheduleRun *r = mem_malloc(sizeof *r);
	reeve__v1__schedule_run__init(r);
	r->id = from->id;
	r->scheduled_us = from->scheduled_us;
	r->at_us = from->at_us;
	r->outcome = outcome_of(from->outcome);
	r->task_id = from->task_id;
	r->task_status = number_of(statuses, sizeof statuses / sizeof *statuses, from->task_status);
	r->actor = copy(from->actor);
	r->note = copy(from->note);
	return r;
}
