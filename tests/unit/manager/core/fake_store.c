/* Operations in one list, and a variable as the clock. */
#include "tests/unit/manager/core/fake_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct given {
	enum fake_kind kind;
	struct store_op *op;
	struct given *prev, *next;
};

struct fake fake;
bool fake_settings_later;
static struct given *all;
static struct store_route routes[FAKE_ROUTES_MAX];
static bool retired[FAKE_ROUTES_MAX];
static int route_count;
static struct core *under_test;

static void give(enum fake_kind kind, struct store_op *op)
{
	struct given *given;
	struct reeve_error error;

	if (fake.full && op->deadline_ms) {
		error_set(&error, STATUS(RESOURCE_EXHAUSTED), "too much is waiting for the database");
		op->done(op, &error);
		return;
	}
	given = calloc(1, sizeof *given);
	given->kind = kind;
	given->op = op;
	DL_APPEND(all, given);
}

#define GIVEN(name, kind, type)                                                                                        \
	void store_##name(struct store *store, struct type *op)                                                            \
	{                                                                                                                  \
		(void)store;                                                                                                   \
		give(kind, &op->op);                                                                                           \
	}

GIVEN(submit, FAKE_SUBMIT, store_submit)
GIVEN(queues, FAKE_QUEUES, store_queues)
GIVEN(rooms, FAKE_ROOMS, store_rooms)
GIVEN(pick, FAKE_PICK, store_pick)
GIVEN(routes, FAKE_ROUTES, store_routes)
GIVEN(page, FAKE_PAGE, store_page)
GIVEN(streams, FAKE_STREAMS, store_streams)
GIVEN(claim, FAKE_CLAIM, store_claim)
GIVEN(redeliver, FAKE_REDELIVER, store_redeliver)
GIVEN(report, FAKE_REPORT, store_report)
GIVEN(expire, FAKE_EXPIRE, store_expire)
GIVEN(edit, FAKE_EDIT, store_edit)
GIVEN(poll, FAKE_POLL, store_poll)
GIVEN(worker_commands, FAKE_COMMANDS, store_worker_commands)
GIVEN(ended, FAKE_ENDED, store_ended)
GIVEN(manager_heartbeat, FAKE_MANAGER_HEARTBEAT, store_manager_heartbeat)
GIVEN(notify, FAKE_NOTIFY, store_notify)
GIVEN(maintenance, FAKE_MAINTENANCE, store_maintenance)
GIVEN(roll, FAKE_ROLL, store_roll)
GIVEN(fold, FAKE_FOLD, store_fold)
GIVEN(activity, FAKE_ACTIVITY, store_activity)
GIVEN(depths, FAKE_DEPTHS, store_depths)
GIVEN(fleet, FAKE_FLEET, store_fleet)
GIVEN(watch, FAKE_WATCH, store_watch)
GIVEN(lose, FAKE_LOSE, store_lose)
GIVEN(sweep, FAKE_SWEEP, store_sweep)
GIVEN(heartbeat, FAKE_HEARTBEAT, store_heartbeat)
GIVEN(requeue, FAKE_REQUEUE, store_requeue)
GIVEN(batches_due, FAKE_BATCHES, store_batches_due)
GIVEN(batch_move, FAKE_BATCH_MOVE, store_batch_move)
GIVEN(schedules_fire, FAKE_SCHEDULES, store_schedules_fire)
GIVEN(ingest, FAKE_INGEST, store_ingest)
GIVEN(rescan, FAKE_RESCAN, store_rescan)
GIVEN(pipelines_start, FAKE_PIPELINES, store_pipelines_start)
GIVEN(queue_stops, FAKE_QUEUE_STOPS, store_queue_stops)
GIVEN(queue_end, FAKE_QUEUE_END, store_queue_end)
GIVEN(read, FAKE_READ, store_read)
GIVEN(register, FAKE_REGISTER, store_register)
GIVEN(leave, FAKE_LEAVE, store_leave)
GIVEN(extend, FAKE_EXTEND, store_extend)
GIVEN(remarks, FAKE_REMARKS, store_remarks)
GIVEN(progress, FAKE_PROGRESS, store_progress)
GIVEN(metrics_own, FAKE_METRICS, store_metrics_own)
GIVEN(own, FAKE_OWN, store_own)
GIVEN(foreign, FAKE_FOREIGN, store_foreign)

void store_read_drop(struct store_op *op)
{
	struct reeve_error error;
	struct given *given;

	DL_SEARCH_SCALAR(all, given, op, op);
	assert(given);
	DL_DELETE(all, given);
	free(given);
	error_set(&error, STATUS(CANCELLED), "the caller has gone");
	op->done(op, &error);
}

void store_expire_waiting(struct store *store)
{
	(void)store;
}

void store_others(struct store *store, bool alive)
{
	(void)store, (void)alive;
}

const char *store_problem(const struct store *store)
{
	(void)store;
	return "";
}

bool store_up(const struct store *store)
{
	(void)store;
	return !fake.down;
}

int64_t store_manager_id(const struct store *store)
{
	(void)store;
	return FAKE_MANAGER;
}

const char *store_outcome_name(enum store_outcome outcome)
{
	return outcome == STORE_COMPLETED ? "completed" : "otherwise";
}

int64_t fake_db_us(void)
{
	return fake.now_ms * 1000 + fake.clock_us;
}

static int64_t now_ms(void)
{
	return fake.now_ms;
}

static void timer_set(void *arg, int64_t at_ms)
{
	(void)arg;
	if (at_ms < fake.alarm_ms)
		fake.alarm_ms = at_ms;
}

/* Runs the dispatcher at once, because there are no answers to send first, and once more if it requests that. */
static void dispatch_due(void *arg)
{
	static bool under_way, again;

	(void)arg;
	again = true;
	if (under_way || !under_test || fake.dispatch_later)
		return;
	under_way = true;
	while (again) {
		again = false;
		core_dispatch(under_test);
	}
	under_way = false;
}

int fake_route(const char *queue, const char *type)
{
	assert(route_count < FAKE_ROUTES_MAX);
	routes[route_count] = (struct store_route){route_count + 1, queue, type};
	return ++route_count;
}

void fake_route_retired(int route, bool is)
{
	retired[route - 1] = is;
}

void *fake_take(enum fake_kind kind)
{
	struct given *given;

	DL_FOREACH (all, given) {
		if (given->kind != kind)
			continue;
		struct store_op *op = given->op;
		DL_DELETE(all, given);
		free(given);
		return op;
	}
	return NULL;
}

int fake_count(enum fake_kind kind)
{
	struct given *given;
	int count = 0;

	DL_FOREACH (all, given)
		count += given->kind == kind;
	return count;
}

void fake_ok(void *op)
{
	struct store_op *o = op;
	o->done(o, NULL);
}

void fake_fail(void *op, reeve_status code)
{
	struct store_op *o = op;
	struct reeve_error error;

	error_set(&error, code, "the fake store said so");
	o->done(o, &error);
}

/* --- Recurring operations ---------------------------------------------------------------------------------------- */

/* Computes the same sum as manager_heartbeat.sql. */
static int64_t fingerprint_of_routes(void)
{
	int64_t sum = 0;
	for (int i = 0; i < route_count; i++) {
		int64_t x = (int64_t)routes[i].id * 2654435761 % 4294967296;
		sum += retired[i] ? 0 : x ^ (x >> 16);
	}
	return sum;
}

static void answer_routes(struct store_routes *op)
{
	struct store_route *answer = calloc((size_t)(op->count ? op->count : route_count) + 1, sizeof *answer);
	op->found = 0;
	for (int i = 0; op->count == 0 && i < route_count; i++)
		if (!retired[i])
			answer[op->found++] = routes[i];
	for (int i = 0; i < op->count; i++) {
		int k = 0;
		while (k < route_count && (strcmp(routes[k].queue, op->queues[i]) || strcmp(routes[k].type, op->types[i])))
			k++;
		if (k == route_count)
			fake_route(strdup(op->queues[i]), strdup(op->types[i]));
		retired[k] = false;
		answer[op->found++] = routes[k];
	}
	op->routes = answer;
	fake_ok(op);
	free(answer);
}

static void fingerprint(char *out, size_t size)
{
	snprintf(out, size, "%d", fake.queue_changes);
}

static void answer_queues(struct store_queues *op)
{
	op->queues = fake.queues;
	op->count = fake.queue_count;
	fingerprint(op->fingerprint, sizeof op->fingerprint);
	fake_ok(op);
}

static void answer_manager_heartbeat(struct store_manager_heartbeat *op)
{
	struct store_peer peers[1 + FAKE_WORKERS_MAX];

	assert(fake.other_managers <= FAKE_WORKERS_MAX);
	char queues[STORE_FINGERPRINT];

	fingerprint(queues, sizeof queues);
	op->queues = queues;
	op->now_us = fake_db_us();
	if (op->now_us > fake.shown_us)
		fake.shown_us = op->now_us;
	else if (op->estimate_us > fake.estimate_us)
		fake.estimate_us = op->estimate_us;
	if (op->now_us < fake.shown_us) {
		op->ahead_us = fake.estimate_us > fake.shown_us ? fake.estimate_us : fake.shown_us;
		op->set_back_us = fake.set_back_us;
	}
	op->routes = fingerprint_of_routes();
	op->newest_assignment = fake.assignments;
	op->peers = peers;
	op->peer_count = 1 + fake.other_managers;
	for (int i = 0; i < op->peer_count; i++) {
		int64_t stands_at = i == fake.own_place ? fake.own_seq : fake.others_seq;
		peers[i] = (struct store_peer){FAKE_MANAGER - fake.own_place + i, stands_at ? stands_at : fake.now_ms};
	}
	fake_ok(op);
}

static void answer_notify(struct store_notify *op)
{
	fake.notifier++;
	snprintf(fake.woken, sizeof fake.woken, "%s", op->payload);
	fake_ok(op);
}

static void answer_expire(struct store_expire *op)
{
	fake.expired_polls++;
	op->count = 0;
	op->more = false;
	fake_ok(op);
}

static void answer_watch(struct store_watch *op)
{
	fake.watch_polls++;
	op->beats = fake.beats;
	op->count = fake.workers;
	fake_ok(op);
}

static void answer_sweep(struct store_sweep *op)
{
	fake.sweeps++;
	op->count = 0;
	op->more = false;
	fake_ok(op);
}

static void answer_batches(struct store_batches_due *op)
{
	fake.batch_polls++;
	fake.batches_due = *op;
	op->due = fake.batches;
	op->count = fake.batch_count;
	fake_ok(op);
}

static void answer_schedules(struct store_schedules_fire *op)
{
	fake.schedule_polls++;
	op->firings = NULL;
	op->count = 0;
	op->next_us = fake.schedule_next_us;
	fake_ok(op);
}

static void answer_ingest(struct store_ingest *op)
{
	fake.ingest_polls++;
	op->walked = 0;
	fake_ok(op);
}

static void answer_maintenance(struct store_maintenance *op)
{
	op->more = false;
	fake_ok(op);
}

static void answer_roll(struct store_roll *op)
{
	op->more = false;
	fake_ok(op);
}

static void answer_fold(struct store_fold *op)
{
	fake.folds++;
	op->inbox = fake.inbox;
	op->more = fake.folds_more > 0;
	fake.folds_more -= op->more;
	fake_ok(op);
}

static void answer_recurring(void)
{
	static const enum fake_kind recurring[] = {FAKE_MANAGER_HEARTBEAT, FAKE_QUEUES, FAKE_ROUTES, FAKE_NOTIFY,
	    FAKE_EXPIRE, FAKE_WATCH, FAKE_SWEEP, FAKE_MAINTENANCE, FAKE_BATCHES, FAKE_SCHEDULES, FAKE_INGEST, FAKE_ROLL,
	    FAKE_FOLD, FAKE_ACTIVITY, FAKE_DEPTHS};

	for (size_t i = 0; i < sizeof recurring / sizeof *recurring; i++)
		for (void *op; !(fake_settings_later && recurring[i] == FAKE_QUEUES) &&
		     !(fake.ingesting && recurring[i] == FAKE_INGEST) && !(fake.adding && recurring[i] == FAKE_ACTIVITY) &&
		     (op = fake_take(recurring[i]));) {
			if (fake.down) {
				fake_fail(op, STATUS(UNAVAILABLE));
				continue;
			}
			switch (recurring[i]) {
			case FAKE_MANAGER_HEARTBEAT: answer_manager_heartbeat(op); break;
			case FAKE_ROLL: answer_roll(op); break;
			case FAKE_FOLD: answer_fold(op); break;
			case FAKE_QUEUES: answer_queues(op); break;
			case FAKE_ROUTES: answer_routes(op); break;
			case FAKE_NOTIFY: answer_notify(op); break;
			case FAKE_EXPIRE: answer_expire(op); break;
			case FAKE_WATCH: answer_watch(op); break;
			case FAKE_SWEEP: answer_sweep(op); break;
			case FAKE_BATCHES: answer_batches(op); break;
			case FAKE_SCHEDULES: answer_schedules(op); break;
			case FAKE_INGEST: answer_ingest(op); break;
			case FAKE_ACTIVITY:
			case FAKE_DEPTHS: fake_ok(op); break;
			default: answer_maintenance(op); break;
			}
		}
}

void fake_turn(struct core *core)
{
	if (fake.alarm_ms <= fake.now_ms) {
		fake.alarm_ms = INT64_MAX;
		core_turn(core);
	}
	answer_recurring();
}

void fake_pass(struct core *core, int64_t ms)
{
	int64_t until = fake.now_ms + ms;
	int turns = 0;

	while (fake.alarm_ms <= until) {
		turns = fake.alarm_ms > fake.now_ms ? 0 : turns + 1;
		assert(turns < 100); /* else a timer fires again and again without time passing */
		if (fake.alarm_ms > fake.now_ms)
			fake.now_ms = fake.alarm_ms;
		fake_turn(core);
	}
	fake.now_ms = until;
	answer_recurring();
}

/* --- The core ----------------------------------------------------------------------------------------------------- */

struct core *fake_core_with(const struct core_options *options)
{
	struct core_options o = *options;
	const struct core_host host = {.now_ms = now_ms, .dispatch = dispatch_due};
	const struct jobs_host jobs_host = {.now_ms = now_ms, .alarm = timer_set};

	o.lease_ms = o.lease_ms ? o.lease_ms : 15000;
	o.heartbeat_ms = o.heartbeat_ms ? o.heartbeat_ms : 4000;
	o.expiry_grace_ms = o.expiry_grace_ms ? o.expiry_grace_ms : 30000;
	o.fetch_wait_ms = o.fetch_wait_ms ? o.fetch_wait_ms : 15000;
	o.max_answer_bytes = o.max_answer_bytes ? o.max_answer_bytes : 4 << 20;
	o.ready_limit = o.ready_limit ? o.ready_limit : 20000;
	o.priorities_limit = o.priorities_limit ? o.priorities_limit : 1024;
	o.streams_limit = o.streams_limit ? o.streams_limit : 100000;
	o.claim_limit = o.claim_limit ? o.claim_limit : 1000;
	fake = (struct fake){.now_ms = 1000000,
	    .alarm_ms = INT64_MAX,
	    .clock_us = INT64_C(1700000000000000),
	    .schedule_next_us = STORE_TIME_NEVER};
	struct core *core = core_create(NULL, jobs_create(manager_jobs, JOBS, &jobs_host), &o, &host);

	under_test = core;
	fake_pass(core, 1);
	return core;
}

struct core *fake_core(void)
{
	return fake_core_with(&(struct core_options){0});
}

struct core *fake_core_with_worker(void)
{
	struct core *core = fake_core();
	fake.workers = 1;
	fake.beats[0] = (struct store_beat){.incarnation = 5, .seq = 1, .lease_ms = 15000};
	fake_pass(core, 1000);
	return core;
}

void fake_end(struct core *core)
{
	struct jobs *jobs = core->base.jobs;
	jobs_stop(jobs);
	while (all) {
		struct given *given = all;
		struct store_op *op = given->op;
		DL_DELETE(all, given);
		free(given);
		fake_fail(op, STATUS(UNAVAILABLE));
	}
	core_destroy(core);
	jobs_destroy(jobs);
	under_test = NULL;
}
