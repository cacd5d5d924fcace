/* QueueService: settings, control and status of queues. */
#include "common/check_task.h"
#include "common/limits.h"
#include "manager/core/queue_ends.h"
#include "manager/core/queues.h"
#include "manager/service/check.h"
#include "manager/service/method.h"
#include "manager/service/retry.h"
#include "manager/service/setting.h"

#include <jansson.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/queue.pb-c.h>

#define UNKNOWN_QUEUE "there is no queue \"{queue}\": it has no settings and never had a task"

/* --- Set: the new values of columns --------------------------------------------------------------------------------
 */

typedef Reeve__V1__QueueSettings settings;

static bool put_retry_limit(json_t *change, const ProtobufCMessage *message, struct reeve_error *error)
{
	const settings *s = (const settings *)message;
	if (!check_range("settings.retry_limit", s->retry_limit, -1, LIMIT_ATTEMPTS - 1, error))
		return false;
	json_object_set_new(change, "max_attempts", s->retry_limit < 0 ? json_null() : json_integer(s->retry_limit + 1));
	return true;
}

static bool put_max_running(json_t *change, const ProtobufCMessage *message, struct reeve_error *error)
{
	const settings *s = (const settings *)message;
	if (!check_range("settings.max_running", s->max_running, -1, LIMIT_MAX_RUNNING, error))
		return false;
	json_object_set_new(change, "max_running", s->max_running < 0 ? json_null() : json_integer(s->max_running));
	return true;
}

static bool put_retry(json_t *change, const ProtobufCMessage *message, struct reeve_error *error)
{
	const settings *s = (const settings *)message;
	const Reeve__V1__RetryPolicy *retry = s->retry;
	if (retry && !check_retry("settings.retry", retry, error))
		return false;
	retry_put(change, retry);
	if (retry && !retry->base_ms && retry->kind == REEVE__V1__RETRY_KIND__RETRY_KIND_LINEAR)
		json_object_set_new(change, "retry_base_ms", json_null()); /* resting_ms is the base */
	return true;
}

static const struct setting queue_settings[] = {
    {"retry_limit", SETTING_OWN, .put = put_retry_limit},
    {"retry", SETTING_OWN, .put = put_retry},
    {"max_running", SETTING_OWN, .put = put_max_running},
    {"resting_ms", SETTING_NUMBER, .max = DAYS_MS(LIMIT_PERIOD_DAYS)},
    {"waiting_ms", SETTING_NUMBER, .max = DAYS_MS(LIMIT_PERIOD_DAYS)},
    {"autostart", .kind = SETTING_FLAG},
    {"verbose", SETTING_FLAG, .column = "is_verbose"},
    {"batches", .kind = SETTING_FLAG},
    {"callback_url", SETTING_NAME_OR_NONE, .check = check_callback_url},
    {"callback_secret", SETTING_NAME_OR_NONE, .check = check_callback_secret},
    {"callback_tasks", .kind = SETTING_FLAG},
    {"callback_attempts", .kind = SETTING_FLAG},
    {"callback_type", .kind = SETTING_NAME_OR_NONE},
    {"entry_type", .kind = SETTING_NAME_OR_NONE},
    {"exit_type", .kind = SETTING_NAME_OR_NONE},
    {"keep_completed_ms", SETTING_HOURS, .column = "keep_completed_hours", .max = DAYS_MS(LIMIT_DELAY_DAYS)},
    {"keep_dead_ms", SETTING_HOURS, .column = "keep_dead_hours", .max = DAYS_MS(LIMIT_DELAY_DAYS)},
    {"keep_cancelled_ms", SETTING_HOURS, .column = "keep_cancelled_hours", .max = DAYS_MS(LIMIT_DELAY_DAYS)},
    {"key_ttl_ms", SETTING_NUMBER, .max = DAYS_MS(LIMIT_DELAY_DAYS)},
    {"priority", SETTING_NUMBER, .min = -LIMIT_PRIORITY, .max = LIMIT_PRIORITY},
    {"timeout_ms", SETTING_NUMBER, .max = DAYS_MS(LIMIT_TIMEOUT_DAYS)},
    {0},
};

static char *set_change(const struct services *services, const struct rpc_call *call, const ProtobufCMessage *request,
    struct reeve_error *error)
{
	static const settings defaults = REEVE__V1__QUEUE_SETTINGS__INIT;
	const Reeve__V1__SetQueueRequest *r = (const Reeve__V1__SetQueueRequest *)request;
	(void)services;
	(void)call;
	bool good = settings_count_check(r->n_fields, error);
	json_t *change = json_object();
	for (size_t i = 0; good && i < r->n_fields; i++)
		good = setting_put(
		    change, queue_settings, r->fields[i], "settings", r->settings ? &r->settings->base : &defaults.base, error);
	char *text = good ? json_dumps(change, JSON_COMPACT) : NULL;
	json_decref(change);
	return text;
}

static void reload(struct services *s, int64_t deadline_ms, method_reloaded *done, void *arg)
{
	queues_reload(s->core->queues, deadline_ms, done, arg);
}

/* --- Status ------------------------------------------------------------------------------------------------------- */

/* A status call reads the queue's workers in a second read after its status. */
struct status_call {
	struct reading workers;
	struct reading *status;
};

static void on_workers_read(struct store_op *op, const struct reeve_error *error)
{
	struct status_call *c = (struct status_call *)op;
	struct reading *status = c->status;
	Reeve__V1__QueueStatusResponse *response = (Reeve__V1__QueueStatusResponse *)status->response;
	Reeve__V1__ListWorkersResponse *found = (Reeve__V1__ListWorkersResponse *)c->workers.response;

	response->workers = found->workers;
	response->n_workers = found->n_workers;
	response->more_workers = found->next_after != 0;
	found->workers = NULL;
	found->n_workers = 0;
	reading_free(&c->workers);
	reading_end(status, error);
}

static void on_status_read(struct store_op *op, const struct reeve_error *error)
{
	enum { WORKERS_SHOWN = 100 };
	struct reading *r = (struct reading *)op;
	Reeve__V1__QueueStatusResponse *response = (Reeve__V1__QueueStatusResponse *)r->response;
	Reeve__V1__ListWorkersRequest request = REEVE__V1__LIST_WORKERS_REQUEST__INIT;
	if (error || !response->state) {
		method_done(op, error);
		return;
	}
	struct status_call *c = mem_calloc(1, sizeof *c);
	c->status = r;
	request.queue = response->queue;
	request.limit = WORKERS_SHOWN;
	request.batch_id = response->batch ? response->batch->id : 0;
	reading_begin_of(&c->workers, r->services, r->call, SQL_WORKER_LIST, &request.base, on_workers_read);
	reading_send(&c->workers);
}

/* --- Control ------------------------------------------------------------------------------------------------------ */

static void on_purged(void *arg, int64_t tasks, const struct reeve_error *error)
{
	struct reading *r = arg;
	struct reeve_error after;
	((Reeve__V1__ControlQueueResponse *)r->response)->tasks = tasks;
	if (error && tasks) {
		error_set(&after, (reeve_status)error->code, "%s; %lld tasks were cancelled before that", error->message,
		    (long long)tasks);
		error = &after;
	}
	reading_end(r, error);
}

/* Until the purge, `tasks` of the response is the newest task's id (queue_control.sql). */
static void on_controlled(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	struct core *core = r->services->core;
	const Reeve__V1__ControlQueueRequest *request = (const Reeve__V1__ControlQueueRequest *)r->request;
	int64_t newest = ((const Reeve__V1__ControlQueueResponse *)r->response)->tasks;
	if (request->action == REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_STOP) {
		queue_stops_poll(core->queue_stops);
		jobs_ask(core->base.jobs, JOB_BATCHES);
	}
	if (error || request->action != REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_PURGE)
		on_purged(r, 0, error);
	else
		queue_purge(core->queue_stops, request->queue, newest, r->op.actor, op->deadline_ms, on_purged, r);
}

const struct rpc_entry queue_methods[] = {
    {"Set", write_method, RPC_OPERATOR, MAY_OPERATE,
        METHOD(SQL_QUEUE_SET, .rules = {{"queue", RULE_NAME}}, .change = set_change, .reload = reload)},
    {"Describe", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_QUEUE_DESCRIBE, .rules = {{"queue", RULE_NAME}}, .found = "state", .missing = UNKNOWN_QUEUE)},
    {"Status", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_QUEUE_STATUS, .rules = {{"queue", RULE_NAME}}, .found = "state", .missing = UNKNOWN_QUEUE,
            .done = on_status_read)},
    {"Control", write_method, RPC_OPERATOR, MAY_OPERATE,
        METHOD(SQL_QUEUE_CONTROL,
            .rules = {{"queue", RULE_NAME},
                {"action", RULE_NUMBER, .min = 1, .max = REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_DELETE}},
            .reload = reload, .done = on_controlled)},
    {0},
};
