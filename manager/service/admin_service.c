/* AdminService: views and control of the system. */
#include "common/clock.h"
#include "common/json_names.h"
#include "common/limits.h"
#include "common/rpc/tls.h"
#include "manager/core/dispatch.h"
#include "manager/service/check.h"
#include "manager/service/counters.h"
#include "manager/service/filter.h"
#include "manager/service/method.h"
#include "manager/service/scrape.h"

#include <jansson.h>
#include <reeve/v1/admin.pb-c.h>
#include <stdio.h>
#include <stdlib.h>

static bool reaches_database(const struct services *s)
{
	return store_up(s->core->base.store) && core_database_fresh(s->core);
}

static void ping(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;
	(void)message;
	response.now_us = core_clock_us(s->core);
	if (rpc_call_identity(call)) {
		response.manager = (char *)s->manager_name;
		response.version = (char *)REEVE_VERSION;
	}
	response.database_up = reaches_database(s);
	response.max_details_bytes = (uint32_t)s->core->base.options.max_details_bytes;
	response.max_message_bytes = (uint32_t)s->max_message_bytes;
	response.idle_ping_ms = (uint32_t)rpc_server_idle_ping_ms(s->server);
	response.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	rpc_call_reply(call, &response.base);
}

static void who_am_i(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const struct services *s = service;
	const struct rpc_identity *identity = rpc_call_identity(call);
	Reeve__V1__Role roles[REEVE__V1__ROLE__ROLE_ADMIN];
	Reeve__V1__WhoAmIResponse response = REEVE__V1__WHO_AM_IRESPONSE__INIT;
	bool admin = identity->roles & ROLE(ADMIN);
	(void)message;
	response.name = identity->name;
	response.manager = s->manager_name;
	response.version = REEVE_VERSION;
	response.roles = roles;
	for (int role = admin ? REEVE__V1__ROLE__ROLE_ADMIN : 1; role <= REEVE__V1__ROLE__ROLE_ADMIN; role++)
		if (identity->roles & UINT32_C(1) << role)
			roles[response.n_roles++] = (Reeve__V1__Role)role;
	rpc_call_reply(call, &response.base);
}

static void counter_add(Reeve__V1__StatsResponse *out, const char *name, int64_t value)
{
	Reeve__V1__Counter *c = mem_malloc(sizeof *c);
	reeve__v1__counter__init(c);
	c->name = mem_strdup(name);
	c->value = value;
	out->counters = mem_realloc(out->counters, sizeof *out->counters * (out->n_counters + 1));
	out->counters[out->n_counters++] = c;
}

static bool stats_complete(struct reading *r, struct reeve_error *error)
{
	struct counter counters[COUNTERS_MAX];
	int count = counters_read(r->services, counters);
	(void)error;
	for (int i = 0; i < count; i++)
		counter_add((Reeve__V1__StatsResponse *)r->response, counters[i].name, counters[i].value);
	return true;
}

/* --- control of workers ------------------------------------------------------------------------------------------- */

/* Answers the parked Fetches of the workers here with the command; other managers are notified by the statement. */
static void on_controlled(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	const Reeve__V1__ControlWorkersRequest *request = (const Reeve__V1__ControlWorkersRequest *)r->request;
	const Reeve__V1__ListWorkersResponse *found = (const Reeve__V1__ListWorkersResponse *)r->response;
	Reeve__V1__ControlWorkersResponse answer = REEVE__V1__CONTROL_WORKERS_RESPONSE__INIT;
	bool scale = request->action == REEVE__V1__WORKER_ACTION__WORKER_ACTION_SCALE;
	struct store_worker_command command = {.kind = "concurrency", .value = (int32_t)request->concurrency};
	const char *names[LIMIT_LIST];
	char word[JSON_NAME_BYTES];
	struct reeve_error unknown;
	if (!scale && json_enum_word(&reeve__v1__worker_action__descriptor, (int)request->action, word))
		snprintf(command.kind, sizeof command.kind, "%.11s", word);
	for (size_t i = 0; !error && i < found->n_workers; i++) {
		dispatch_commands(r->services->core->dispatch, found->workers[i]->incarnation, &command, 1);
		if (i < LIMIT_LIST)
			names[answer.n_names++] = found->workers[i]->name;
	}
	answer.notified = (uint32_t)found->n_workers;
	answer.names = names;
	if (!error && !answer.notified) {
		if (*request->name)
			error_set(&unknown, STATUS(NOT_FOUND), "no worker named \"%s\" is alive (pull clients take no commands)",
			    request->name);
		else
			error_set(&unknown, STATUS(NOT_FOUND), "no worker is alive");
		error = &unknown;
	}
	reading_end_with(r, &answer.base, error);
}

static bool check_control(const ProtobufCMessage *request, struct reeve_error *error)
{
	const Reeve__V1__ControlWorkersRequest *r = (const Reeve__V1__ControlWorkersRequest *)request;
	if (r->all && *r->name)
		return error_set(error, STATUS(INVALID_ARGUMENT), "name and all cannot be combined");
	if (!r->all && !check_name("name", r->name, false, error))
		return false;
	if (r->action == REEVE__V1__WORKER_ACTION__WORKER_ACTION_SCALE)
		return check_range("concurrency", r->concurrency, 0, LIMIT_CONCURRENCY, error);
	return r->concurrency == 0 ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "concurrency is %u; only SCALE takes one", r->concurrency);
}

/* --- measures for alerts -------------------------------------------------------------------------------------------
 */

static bool is_of_time(Reeve__V1__CheckKind kind)
{
	return kind == REEVE__V1__CHECK_KIND__CHECK_KIND_RUNNING || kind == REEVE__V1__CHECK_KIND__CHECK_KIND_SCHEDULES;
}

static bool check_questions(const ProtobufCMessage *request, struct reeve_error *error)
{
	const Reeve__V1__CheckRequest *r = (const Reeve__V1__CheckRequest *)request;
	unsigned asked = 0;
	for (size_t i = 0; i < r->n_questions; i++) {
		const Reeve__V1__CheckQuestion *q = r->questions[i];
		if (!check_range("questions.kind", q->kind, REEVE__V1__CHECK_KIND__CHECK_KIND_DEAD,
		        REEVE__V1__CHECK_KIND__CHECK_KIND_QUEUE_LENGTH, error))
			return false;
		if (asked & 1U << q->kind)
			return error_set(error, STATUS(INVALID_ARGUMENT), "questions.kind: %d occurs twice", q->kind);
		asked |= 1U << q->kind;
		if (!check_range(
		        "questions.longer_ms", q->longer_ms, 0, is_of_time(q->kind) ? DAYS_MS(LIMIT_AGE_DAYS) : 0, error))
			return false;
	}
	return true;
}

static bool check_complete(struct reading *r, struct reeve_error *error)
{
	Reeve__V1__CheckResponse *out = (Reeve__V1__CheckResponse *)r->response;
	if (!names_known((const Reeve__V1__CheckRequest *)r->request, out, error))
		return false;
	free((char *)out->manager);
	out->manager = mem_strdup(r->services->manager_name);
	return true;
}

/* A health check must not wait for an unreachable database: another manager may reach it. */
static bool check_ready(const struct services *s, struct reeve_error *error)
{
	const char *problem = store_problem(s->core->base.store);
	return reaches_database(s) ||
	    error_set(error, STATUS(UNAVAILABLE), "manager \"%s\" does not reach its database%s%s", s->manager_name,
	        *problem ? ": " : "", problem);
}

/* --- diagnosis ---------------------------------------------------------------------------------------------------- */

#define DOCTOR_OLDER_MS (5 * INT64_C(60000))

/* Returns this manager's certificates and lists that expire soon. */
static json_t *expiring(const struct services *s)
{
	struct tls_ending endings[TLS_FILES];
	int count = s->tls ? tls_endings(s->tls, endings) : 0;
	char text[TLS_ENDING_TEXT];
	json_t *list = json_array();
	for (int i = 0; i < count; i++)
		json_array_append_new(list,
		    json_pack("{ss ss sI}", "path", endings[i].path, "problem", tls_ending_text(&endings[i], text), "left_s",
		        (json_int_t)endings[i].left_s));
	return list;
}

/* Returns what the database should have, and what only this manager knows (doctor.sql). */
static char *expectations(
    const struct services *s, const struct rpc_call *call, const ProtobufCMessage *request, struct reeve_error *error)
{
	(void)call;
	(void)request;
	(void)error;
	json_t *definitions = json_object();
	for (int i = 0; i < sql_definition_count; i++)
		json_object_set_new(definitions, sql_definitions[i].name, json_string(sql_definitions[i].hash));
	json_t *expected = json_pack("{ss si ss so sI so}", "release", REEVE_VERSION, "version", (int)SQL_VERSION, "tables",
	    sql_tables, "definitions", definitions, "clock_ms", (json_int_t)(clock_wall_us() - services_now_us(s)) / 1000,
	    "expiring", expiring(s));
	char *text = json_dumps(expected, JSON_COMPACT);
	json_decref(expected);
	return text;
}

static bool doctor_complete(struct reading *r, struct reeve_error *error)
{
	(void)error;
	((Reeve__V1__DoctorResponse *)r->response)->manager = mem_strdup(r->services->manager_name);
	return true;
}

/* --- activity ----------------------------------------------------------------------------------------------------- */

#define ACTIVITY_SINCE_US (3600 * INT64_C(1000000))

static struct traffic_times times_of(const int64_t *buckets, size_t count)
{
	struct traffic_times times = {0};
	for (size_t i = 0; i < count && i < TRAFFIC_BUCKETS; i++)
		times.count[i] = buckets[i];
	return times;
}

/* Adds what follows from the buckets. */
static bool activity_complete(struct reading *r, struct reeve_error *error)
{
	Reeve__V1__ActivityResponse *out = (Reeve__V1__ActivityResponse *)r->response;
	(void)error;
	out->n_bounds_ms = TRAFFIC_BOUNDS;
	out->bounds_ms = mem_calloc(TRAFFIC_BOUNDS, sizeof *out->bounds_ms);
	for (int i = 0; i < TRAFFIC_BOUNDS; i++)
		out->bounds_ms[i] = (double)traffic_bounds_us[i] / 1000;
	for (size_t i = 0; i < out->n_points; i++) {
		Reeve__V1__ActivityPoint *point = out->points[i];
		struct traffic_times waited = times_of(point->waited, point->n_waited);
		struct traffic_times took = times_of(point->took, point->n_took);
		point->wait_median_ms = traffic_quantile_ms(&waited, 50);
		point->wait_p95_ms = traffic_quantile_ms(&waited, 95);
		point->duration_median_ms = traffic_quantile_ms(&took, 50);
		point->duration_p95_ms = traffic_quantile_ms(&took, 95);
	}
	return true;
}

const struct rpc_entry admin_methods[] = {
    {"Ping", ping, RPC_LEASE, RPC_ANYONE, NULL},
    {"WhoAmI", who_am_i, RPC_OPERATOR, MAY_ANY_IDENTITY, NULL},
    {"ListQueues", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_QUEUE_COUNTS, .rules = {{"page", RULE_PAGE}}, .names = true)},
    {"ListWorkers", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_WORKER_LIST,
            .rules = {{"queue", RULE_NAME_OR_NONE}, {"limit", RULE_NUMBER, .max = LIMIT_LIST, .otherwise = LIMIT_LIST},
                {"after", RULE_NUMBER, .max = INT64_MAX}})},
    {"Stats", read_method, RPC_OPERATOR, MAY_READ, METHOD(SQL_STATS, .complete = stats_complete)},
    {"ControlWorkers", write_method, RPC_OPERATOR, MAY_OPERATE,
        METHOD(SQL_WORKER_CONTROL,
            .rules = {{"action", RULE_NUMBER, .min = 1, .max = REEVE__V1__WORKER_ACTION__WORKER_ACTION_SCALE}},
            .check = check_control, .done = on_controlled)},
    {"Check", read_method, RPC_LEASE, MAY_READ,
        METHOD(SQL_CHECK, .rules = {{"queue", RULE_NAME_OR_NONE}, {"type", RULE_NAME_OR_NONE}}, .quick = true,
            .check = check_questions, .ready = check_ready, .complete = check_complete)},
    {"Doctor", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_DOCTOR,
            .rules = {{"older_ms", RULE_NUMBER, .max = DAYS_MS(LIMIT_AGE_DAYS), .otherwise = DOCTOR_OLDER_MS}},
            .change = expectations, .complete = doctor_complete)},
    {"Activity", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_ACTIVITY,
            .rules = {{"by", RULE_NUMBER, .min = 1, .max = REEVE__V1__ACTIVITY_GROUPING__ACTIVITY_GROUPING_TYPE},
                {"since_us", RULE_SINCE, .otherwise = ACTIVITY_SINCE_US}},
            .names = true, .complete = activity_complete)},
    {"Scrape", scrape_method, RPC_OPERATOR, MAY_READ, NULL},
    {0},
};
