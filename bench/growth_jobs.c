/* The statements of the jobs, in the order in which a manager runs them; their parameters, and what their answers say.
 */
#include "bench/growth.h"

#include "bench/report.h"
#include "manager/store/store.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	DAYS = 30,
	SWEEP_ROWS = 200,
	ARCHIVE_BYTES = 4 * 1024 * 1024,
	ROUTES = 100,
	ALIVE = 50,
	FETCHES = 200,
	COUNTERS = 100,
	BUCKETS = 21,
	LEASE_MS = 15000,
	WAITED_FOR = 1000,
	CALLS = 16,      /* as growth.sql has them */
	LATE_ROWS = 1000 /* rows that became old during the run: not waited for, up to this many */
};

/* --- parameters --------------------------------------------------------------------------------------------------- */

static void add_nothing(struct bench *b)
{
	(void)b;
}

static void add_days(struct bench *b)
{
	params_int4(&b->params, DAYS);
}

/* Days without partitions yet. */
static void add_more_days(struct bench *b)
{
	params_int4(&b->params, DAYS + 10);
}

static void add_days_and_place(struct bench *b)
{
	add_days(b);
	params_time(&b->params, b->key);
	params_int8(&b->params, b->id);
}

static void add_no_archive(struct bench *b)
{
	params_bool(&b->params, false);
}

static void add_partition(struct bench *b)
{
	params_text(&b->params, b->partition);
}

static void add_partition_and_place(struct bench *b)
{
	add_partition(b);
	params_int8(&b->params, b->id);
}

static void add_manager(struct bench *b)
{
	params_int8(&b->params, b->manager);
}

static void add_archive_place(struct bench *b)
{
	add_partition_and_place(b);
	params_int8(&b->params, ARCHIVE_BYTES);
	add_manager(b);
}

static void add_tick(struct bench *b)
{
	add_manager(b);
	params_null(&b->params);
}

static void add_expired(struct bench *b)
{
	params_int8(&b->params, SWEEP_ROWS);
	params_time(&b->params, STORE_TIME_NEVER);
	params_int8(&b->params, 0);
	params_int8(&b->params, INT32_MAX);
	params_time(&b->params, STORE_TIME_BEGIN);
	params_int8(&b->params, 0);
}

static void add_lost(struct bench *b)
{
	params_int8(&b->params, SWEEP_ROWS);
	params_null(&b->params);
	params_int8(&b->params, 0);
	params_int8(&b->params, 0);
}

static void add_batches(struct bench *b)
{
	params_int8(&b->params, 100);
	params_int8(&b->params, 0);
	params_bool(&b->params, true);
}

static void add_inbox(struct bench *b)
{
	params_int8(&b->params, 0);
	params_int4(&b->params, 1000);
}

static void add_hundred(struct bench *b)
{
	params_int4(&b->params, 100);
}

static void add_callbacks(struct bench *b)
{
	params_int4(&b->params, 16);
	params_int4(&b->params, 4);
	params_int8(&b->params, 30000);
	params_array_begin(&b->params, PARAMS_TEXT);
	params_array_end(&b->params);
	params_array_begin(&b->params, PARAMS_INT4);
	params_array_end(&b->params);
	params_null(&b->params);
}

/* The rows from the first to the one where expired_find ended. */
static void add_expired_place(struct bench *b)
{
	params_int8(&b->params, 0);
	params_int8(&b->params, INT32_MAX);
	params_time(&b->params, STORE_TIME_BEGIN);
	params_int8(&b->params, 0);
	params_time(&b->params, b->expired_key);
	params_int8(&b->params, b->expired_id);
}

static void add_range(struct bench *b, int64_t first, int count)
{
	params_array_begin(&b->params, PARAMS_INT8);
	for (int i = 0; i < count; i++)
		params_add_int8(&b->params, first + i);
	params_array_end(&b->params);
}

static void add_same(struct bench *b, int64_t value, int count)
{
	params_array_begin(&b->params, PARAMS_INT8);
	for (int i = 0; i < count; i++)
		params_add_int8(&b->params, value);
	params_array_end(&b->params);
}

static void add_same_int4(struct bench *b, int32_t value, int count)
{
	params_array_begin(&b->params, PARAMS_INT4);
	for (int i = 0; i < count; i++)
		params_add_int4(&b->params, value);
	params_array_end(&b->params);
}

static void add_same_time(struct bench *b, int64_t value, int count)
{
	params_array_begin(&b->params, PARAMS_TIME);
	for (int i = 0; i < count; i++)
		params_add_time(&b->params, value);
	params_array_end(&b->params);
}

static void add_routes(struct bench *b)
{
	params_array_begin(&b->params, PARAMS_INT4);
	for (int i = 1; i <= ROUTES; i++)
		params_add_int4(&b->params, i);
	params_array_end(&b->params);
}

/* All living workers, which have nothing of what they were assigned: every attempt is looked up. */
static void add_holdings(struct bench *b)
{
	add_range(b, b->first_alive, ALIVE);
	add_same(b, FETCHES, ALIVE);
	add_same(b, 0, ALIVE);
	add_same_int4(b, 0, 0);
	add_same(b, 0, 0);
	add_same_int4(b, 0, 0);
	add_same(b, 0, 0);
	add_same_time(b, 0, 0);
}

static void add_due_batch(struct bench *b)
{
	params_int8(&b->params, b->due_batch);
}

static void add_releasing_batch(struct bench *b)
{
	params_int8(&b->params, b->releasing_batch);
	params_int8(&b->params, 1000);
}

static void add_failing_batch(struct bench *b)
{
	params_int8(&b->params, b->failing_batch);
	params_int8(&b->params, 1000);
}

static void add_batch_event(struct bench *b)
{
	params_int8(&b->params, b->batch);
	params_text(&b->params, "batch_end");
}

/* Deliveries of the last callbacks. */
static void add_outcomes(struct bench *b)
{
	add_range(b, b->callback - CALLS + 1, CALLS);
	add_same_int4(b, 1, CALLS);
	for (int delivered = 1; delivered >= 0; delivered--) {
		params_array_begin(&b->params, PARAMS_BOOL);
		for (int i = 0; i < CALLS; i++)
			params_add_bool(&b->params, delivered);
		params_array_end(&b->params);
	}
	add_same(b, 0, CALLS);
	add_same_int4(b, 200, CALLS);
	params_null(&b->params);
	add_same_int4(b, 1, CALLS);
}

/* The first page of each route's stream, half of it for another manager. */
static void add_pages(struct bench *b)
{
	add_routes(b);
	add_same_int4(b, 0, ROUTES);
	add_same_time(b, STORE_TIME_BEGIN, ROUTES);
	add_same(b, 0, ROUTES);
	add_same_time(b, STORE_TIME_BEGIN, ROUTES);
	add_same_int4(b, 100, ROUTES);
	add_same_int4(b, 2, ROUTES);
	add_same_int4(b, 0, ROUTES);
	add_same(b, 1 << 20, ROUTES);
}

static void add_streams(struct bench *b)
{
	add_routes(b);
	params_int4(&b->params, INT32_MAX);
	params_int4(&b->params, 10);
}

static void add_late(struct bench *b)
{
	params_int4(&b->params, 1);
	params_int4(&b->params, 0);
	params_time(&b->params, STORE_TIME_BEGIN);
	params_int8(&b->params, 0);
	params_time(&b->params, STORE_TIME_NEVER);
	params_int8(&b->params, 100);
}

static void add_waited_for(struct bench *b)
{
	add_range(b, b->newest_task - WAITED_FOR / 2, WAITED_FOR);
}

static void add_archive_file(struct bench *b)
{
	add_partition(b);
	params_text(&b->params, "/var/lib/reeve/archive.jsonl.gz");
	params_int8(&b->params, 1);
	params_text(&b->params, "m50");
	add_manager(b);
}

/* Counters that have changed, all of them. */
static void add_counters(struct bench *b)
{
	add_manager(b);
	params_text(&b->params, "m50");
	params_array_begin(&b->params, PARAMS_TEXT);
	for (int i = 0; i < COUNTERS; i++) {
		char name[20];
		snprintf(name, sizeof name, "counter%d", i);
		params_add_text(&b->params, name);
	}
	params_array_end(&b->params);
	add_same(b, now_ns(), COUNTERS);
}

/* The numbers of as many routes as a manager keeps apart. */
static void add_activity(struct bench *b)
{
	params_array_begin(&b->params, PARAMS_INT8);
	for (int route = 0; route < ROUTES; route++)
		params_add_int8(&b->params, route);
	params_array_end(&b->params);
	for (int column = 0; column < 9; column++)
		add_same(b, 7, ROUTES);
	params_int4(&b->params, BUCKETS);
	add_same(b, 1, ROUTES * BUCKETS);
	add_same(b, 1, ROUTES * BUCKETS);
}

static void add_fleet(struct bench *b)
{
	params_int8(&b->params, ROUTES);
	params_int8(&b->params, LEASE_MS);
}

static void add_no_fingerprint(struct bench *b)
{
	params_text(&b->params, "");
}

/* The uses of a hundred identities. */
static void add_uses(struct bench *b)
{
	params_array_begin(&b->params, PARAMS_INT8);
	for (int i = 1; i <= 100; i++)
		params_add_int8(&b->params, i);
	params_array_end(&b->params);
	params_time(&b->params, now_ns() / 1000);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static struct made deleted(struct bench *b, const PGresult *result)
{
	int64_t rows = atoll(PQcmdTuples((PGresult *)result));

	(void)b;
	return (struct made){rows, rows > LATE_ROWS};
}

/* Returns the number of removed rows, and notes where their page ends. */
static struct made page(struct bench *b, const PGresult *result)
{
	b->key = row_null(result, 0, 2) ? STORE_TIME_BEGIN : row_time(result, 0, 1);
	b->id = row_null(result, 0, 2) ? 0 : row_int8(result, 0, 2);
	return (struct made){row_int8(result, 0, 0), b->id != 0};
}

static struct made told(struct bench *b, const PGresult *result)
{
	(void)b;
	return (struct made){0, row_bool(result, 0, 0)};
}

static struct made partition_found(struct bench *b, const PGresult *result)
{
	bool some = PQntuples(result) && !row_null(result, 0, 0);

	snprintf(b->partition, sizeof b->partition, "%s", some ? row_text(result, 0, 0) : "");
	b->id = 0;
	return (struct made){0, false};
}

static struct made archived(struct bench *b, const PGresult *result)
{
	int n = PQntuples(result);
	bool more = n && !row_null(result, n - 1, 0);

	b->id = more ? row_int8(result, n - 1, 0) : 0;
	return (struct made){more ? n : 0, more};
}

static struct made forgotten(struct bench *b, const PGresult *result)
{
	bool more = !row_null(result, 0, 0);

	b->id = more ? row_int8(result, 0, 0) : 0;
	return (struct made){more ? 5000 : 0, more};
}

static struct made once(struct bench *b, const PGresult *result)
{
	(void)b, (void)result;
	return (struct made){0, false};
}

/* Notes where the rows found end. */
static struct made expired_found(struct bench *b, const PGresult *result)
{
	int end = PQntuples(result) - 1;

	if (end < 0)
		give_up("no attempt is past its time");
	b->expired_key = row_time(result, end, 1);
	b->expired_id = row_int8(result, end, 2);
	return (struct made){0, false};
}

/* --- the jobs ----------------------------------------------------------------------------------------------------- */

const struct measured growth_measured[] = {
    {JOB_HEARTBEAT, "manager_heartbeat", SQL_MANAGER_HEARTBEAT, add_tick, NULL, HOT},
    {JOB_WATCH, "workers_watch", SQL_WORKERS_WATCH, add_nothing, NULL, HOT},
    {JOB_EXPIRE, "expired_find", SQL_EXPIRED_FIND, add_expired, expired_found, HASHED},
    {JOB_EXPIRE, "expired_advance", SQL_EXPIRED_ADVANCE, add_expired_place, once, HASHED},
    {JOB_SWEEP, "lost_find", SQL_LOST_FIND, add_lost, NULL, HASHED},
    {JOBS, "requeue_find", SQL_REQUEUE_FIND, add_holdings, NULL, HASHED},
    {JOB_ROUTES, "routes_load", SQL_ROUTES_LOAD, add_nothing, NULL, HASHED},
    {JOB_QUEUES, "queues_load", SQL_QUEUES_LOAD, add_nothing, NULL, HASHED},
    {JOB_QUEUE_STOPS, "queue_stops", SQL_QUEUE_STOPS, add_nothing, NULL, HASHED},
    {JOB_IDENTITIES, "identities_load", SQL_IDENTITIES_LOAD, add_no_fingerprint, NULL, HASHED},
    {JOB_IDENTITY_USES, "identities_used", SQL_IDENTITIES_USED, add_uses, NULL, HOT},
    {JOB_LIMITS, "limits_room", SQL_LIMITS_ROOM, add_nothing, NULL, HASHED},
    {JOB_BATCHES, "batches_due", SQL_BATCHES_DUE, add_batches, NULL, HOT},
    {JOB_BATCHES, "batch_step", SQL_BATCH_STEP, add_due_batch, once, HOT},
    {JOB_BATCHES, "batch_release", SQL_BATCH_RELEASE, add_releasing_batch, once, HOT},
    {JOB_BATCHES, "batch_blocked", SQL_BATCH_BLOCKED, add_failing_batch, NULL, HOT},
    {JOB_INBOX, "inbox_ingest", SQL_INBOX_INGEST, add_inbox, NULL, HOT},
    {JOB_SCHEDULES, "schedules_fire", SQL_SCHEDULES_FIRE, add_hundred, NULL, HOT},
    {JOB_CALLBACKS, "callbacks_take", SQL_CALLBACKS_TAKE, add_callbacks, NULL, HOT},
    {JOB_CALLBACKS, "callbacks_report", SQL_CALLBACKS_REPORT, add_batch_event, NULL, HOT},
    {JOB_CALLBACKS, "callbacks_finish", SQL_CALLBACKS_FINISH, add_outcomes, once, HOT},
    {JOB_STREAMS, "ready_page", SQL_READY_PAGE, add_pages, NULL, HOT},
    {JOB_STREAMS_LIST, "ready_streams", SQL_READY_STREAMS, add_streams, NULL, HOT},
    {JOB_STREAMS_LATE, "ready_late", SQL_READY_LATE, add_late, NULL, HOT},
    {JOB_WAITS_OTHERS, "wait_poll", SQL_WAIT_POLL, add_waited_for, NULL, PLAIN},
    {JOB_COUNTS, "counts_fold", SQL_COUNTS_FOLD, add_nothing, told, HOT},
    {JOB_STATISTICS, "executions_roll", SQL_EXECUTIONS_ROLL, add_nothing, told, HOT},
    {JOB_STATISTICS, "executions_roll_idle", SQL_EXECUTIONS_ROLL, add_nothing, NULL, HOT},
    /* the jobs of maintenance_ops.c, in its order */
    {JOB_TABLES, "history_make_partitions", SQL_HISTORY_MAKE_PARTITIONS, add_days, NULL, MAINTENANCE},
    {JOB_TABLES, "history_take_over", SQL_HISTORY_TAKE_OVER, add_nothing, told, MAINTENANCE},
    /* PostgreSQL reads the default partition for each new one, so that it must be empty, as it usually is. */
    {JOB_TABLES, "history_make_partitions_new", SQL_HISTORY_MAKE_PARTITIONS, add_more_days, once, MAINTENANCE},
    {JOB_ARCHIVE, "archive_next", SQL_ARCHIVE_NEXT, add_manager, partition_found, MAINTENANCE},
    {JOB_ARCHIVE, "archive_page", SQL_ARCHIVE_PAGE, add_archive_place, archived, MAINTENANCE},
    {JOB_ARCHIVE, "archive_note", SQL_ARCHIVE_NOTE, add_archive_file, once, MAINTENANCE},
    {JOB_ARCHIVE, "archive_release", SQL_ARCHIVE_RELEASE, add_manager, once, MAINTENANCE},
    {JOB_COUNTERS, "metrics_own", SQL_METRICS_OWN, add_counters, NULL, MAINTENANCE},
    {JOB_ACTIVITY, "activity_add", SQL_ACTIVITY_ADD, add_activity, NULL, MAINTENANCE},
    {JOB_DEPTHS, "depths_sample", SQL_DEPTHS_SAMPLE, add_hundred, NULL, MAINTENANCE},
    {JOB_SCRAPES, "fleet", SQL_FLEET, add_fleet, NULL, PLAIN},
    {JOB_TABLES, "history_over", SQL_HISTORY_OVER, add_no_archive, partition_found, MAINTENANCE},
    {JOB_TABLES, "history_forget", SQL_HISTORY_FORGET, add_partition_and_place, forgotten, MAINTENANCE},
    {JOB_TABLES, "history_drop_partition", SQL_HISTORY_DROP_PARTITION, add_partition, once, MAINTENANCE},
    {JOB_TABLES, "purge_requests", SQL_PURGE_REQUESTS, add_nothing, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_hours", SQL_PURGE_HOURS, add_nothing, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_keys", SQL_PURGE_KEYS, add_nothing, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_attempts", SQL_PURGE_ATTEMPTS, add_days_and_place, page, MAINTENANCE},
    {JOB_TABLES, "purge_events", SQL_PURGE_EVENTS, add_days_and_place, page, MAINTENANCE},
    {JOB_TABLES, "purge_worker_events", SQL_PURGE_WORKER_EVENTS, add_days, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_queue_events", SQL_PURGE_QUEUE_EVENTS, add_days, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_schedule_runs", SQL_PURGE_SCHEDULE_RUNS, add_days, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_schedule_events", SQL_PURGE_SCHEDULE_EVENTS, add_days, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_assignments", SQL_PURGE_ASSIGNMENTS, add_days_and_place, page, MAINTENANCE},
    {JOB_TABLES, "purge_pull_clients", SQL_PURGE_PULL_CLIENTS, add_nothing, NULL, MAINTENANCE},
    {JOB_TABLES, "purge_callbacks", SQL_PURGE_CALLBACKS, add_days, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_batches", SQL_PURGE_BATCHES, add_days_and_place, page, MAINTENANCE},
    {JOB_TABLES, "purge_workers", SQL_PURGE_WORKERS, add_days, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_unused_workers", SQL_PURGE_UNUSED_WORKERS, add_days_and_place, page, MAINTENANCE},
    {JOB_TABLES, "purge_worker_commands", SQL_PURGE_WORKER_COMMANDS, add_nothing, NULL, MAINTENANCE},
    {JOB_TABLES, "clock_forget", SQL_CLOCK_FORGET, add_nothing, NULL, MAINTENANCE},
    {JOB_TABLES, "purge_managers", SQL_PURGE_MANAGERS, add_days, NULL, MAINTENANCE},
    {JOB_TABLES, "purge_metrics", SQL_PURGE_METRICS, add_nothing, NULL, MAINTENANCE},
    {JOB_TABLES, "purge_identities", SQL_PURGE_IDENTITIES, add_nothing, NULL, MAINTENANCE},
    {JOB_TABLES, "purge_executions", SQL_PURGE_EXECUTIONS, add_nothing, NULL, MAINTENANCE},
    {JOB_TABLES, "purge_activity", SQL_PURGE_ACTIVITY, add_nothing, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_depths", SQL_PURGE_DEPTHS, add_nothing, deleted, MAINTENANCE},
    {JOB_TABLES, "purge_routes", SQL_PURGE_ROUTES, add_days_and_place, page, MAINTENANCE},
    {JOB_TABLES, "purge_pipelines", SQL_PURGE_PIPELINES, add_days_and_place, page, MAINTENANCE},
};

const int growth_measured_count = sizeof growth_measured / sizeof *growth_measured;

/* These jobs read and write no table, or the same as another job here. */
static const enum job_name other_jobs[] = {
    JOB_NOTIFY,                                                      /* only notifies */
    JOB_TRACES,                                                      /* only calls a collector */
    JOB_STREAMS_ALL,                                                 /* reads pages, as JOB_STREAMS does */
    JOB_DISPATCH,                                                    /* claims, as after each submit and report */
    JOB_FETCHES, JOB_WAITS, JOB_DEADLINES, JOB_SESSIONS, JOB_MEMORY, /* the manager's memory */
};
bool growth_knows(enum job_name job)
{
	for (int i = 0; i < growth_measured_count; i++)
		if (growth_measured[i].job == job)
			return true;
	for (size_t i = 0; i < sizeof other_jobs / sizeof *other_jobs; i++)
		if (other_jobs[i] == job)
			return true;
	return false;
}
