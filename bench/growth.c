/*
 * Measures what each maintenance job of a manager costs in a database filled by bench/growth.sql: the manager's own
 * statements with its session settings, in the order in which a manager runs them.
 *
 *	bench-growth CONNINFO [LABEL]
 *
 * Without LABEL it creates the schema, which bench/growth.sql needs.
 *
 * A job that works page by page runs to its end. The figures of each job are the time of the longest call, the maximum
 * number of table and index pages that a call touched, and, if it moved rows, the time per row. Other load on the
 * machine changes the times, but not the pages.
 */
#include "bench/database.h"
#include "bench/report.h"
#include "manager/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAYS = 30, REPEATS = 5, CALLS_MAX = 100000, SWEEP_ROWS = 200, ARCHIVE_BYTES = 4 * 1024 * 1024,
	LATE_ROWS = 1000 /* rows that became old during the run: not waited for, up to this many */ };

struct bench {
	PGconn *maintenance, *hot, *hashed, *watch; /* set up like the manager's connections; `watch` reads the statistics */
	struct params params;
	const char *label;
	int64_t manager;
	char partition[64];
	int64_t key, id; /* the position of a job that works page by page */
};

/* The result of a call. */
struct made {
	int64_t rows;
	bool more;
};

struct job {
	const char *name;
	enum sql_id statement;
	void (*add)(struct bench *b);
	struct made (*end)(struct bench *b, const PGresult *result); /* NULL: repeat the call REPEATS times */
	enum { UPKEEP, HOT, HASHED } session;
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

static void add_arrivals(struct bench *b)
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

/* --- the jobs ----------------------------------------------------------------------------------------------------- */

static const struct job jobs[] = {
    {"manager_heartbeat", SQL_MANAGER_HEARTBEAT, add_tick, NULL, HOT},
    {"workers_watch", SQL_WORKERS_WATCH, add_nothing, NULL, HOT},
    {"expired_find", SQL_EXPIRED_FIND, add_expired, NULL, HASHED},
    {"lost_find", SQL_LOST_FIND, add_lost, NULL, HASHED},
    {"routes_load", SQL_ROUTES_LOAD, add_nothing, NULL, HASHED},
    {"queues_load", SQL_QUEUES_LOAD, add_nothing, NULL, HASHED},
    {"queue_stops", SQL_QUEUE_STOPS, add_nothing, NULL, HASHED},
    {"batches_due", SQL_BATCHES_DUE, add_batches, NULL, HOT},
    {"inbox_ingest", SQL_INBOX_INGEST, add_arrivals, NULL, HOT},
    {"schedules_fire", SQL_SCHEDULES_FIRE, add_hundred, NULL, HOT},
    {"callbacks_take", SQL_CALLBACKS_TAKE, add_callbacks, NULL, HOT},
    {"counts_fold", SQL_COUNTS_FOLD, add_nothing, told, HOT},
    {"executions_roll", SQL_EXECUTIONS_ROLL, add_nothing, told, HOT},
    {"executions_roll_idle", SQL_EXECUTIONS_ROLL, add_nothing, NULL, HOT},
    /* the jobs of maintenance_ops.c, in its order */
    {"history_make_partitions", SQL_HISTORY_MAKE_PARTITIONS, add_days, NULL, UPKEEP},
    {"history_make_partitions_new", SQL_HISTORY_MAKE_PARTITIONS, add_more_days, once, UPKEEP},
    {"history_take_over", SQL_HISTORY_TAKE_OVER, add_nothing, told, UPKEEP},
    {"archive_next", SQL_ARCHIVE_NEXT, add_manager, partition_found, UPKEEP},
    {"archive_page", SQL_ARCHIVE_PAGE, add_archive_place, archived, UPKEEP},
    {"history_over", SQL_HISTORY_OVER, add_no_archive, partition_found, UPKEEP},
    {"history_forget", SQL_HISTORY_FORGET, add_partition_and_place, forgotten, UPKEEP},
    {"history_drop_partition", SQL_HISTORY_DROP_PARTITION, add_partition, once, UPKEEP},
    {"purge_requests", SQL_PURGE_REQUESTS, add_nothing, deleted, UPKEEP},
    {"purge_keys", SQL_PURGE_KEYS, add_nothing, deleted, UPKEEP},
    {"purge_attempts", SQL_PURGE_ATTEMPTS, add_days_and_place, page, UPKEEP},
    {"purge_events", SQL_PURGE_EVENTS, add_days_and_place, page, UPKEEP},
    {"purge_worker_events", SQL_PURGE_WORKER_EVENTS, add_days, deleted, UPKEEP},
    {"purge_queue_events", SQL_PURGE_QUEUE_EVENTS, add_days, deleted, UPKEEP},
    {"purge_schedule_runs", SQL_PURGE_SCHEDULE_RUNS, add_days, deleted, UPKEEP},
    {"purge_schedule_events", SQL_PURGE_SCHEDULE_EVENTS, add_days, deleted, UPKEEP},
    {"purge_assignments", SQL_PURGE_ASSIGNMENTS, add_days_and_place, page, UPKEEP},
    {"purge_pull_clients", SQL_PURGE_PULL_CLIENTS, add_nothing, NULL, UPKEEP},
    {"purge_callbacks", SQL_PURGE_CALLBACKS, add_days, deleted, UPKEEP},
    {"purge_batches", SQL_PURGE_BATCHES, add_days_and_place, page, UPKEEP},
    {"purge_workers", SQL_PURGE_WORKERS, add_days, deleted, UPKEEP},
    {"purge_unused_workers", SQL_PURGE_UNUSED_WORKERS, add_days_and_place, page, UPKEEP},
    {"purge_worker_commands", SQL_PURGE_WORKER_COMMANDS, add_nothing, NULL, UPKEEP},
    {"clock_forget", SQL_CLOCK_FORGET, add_nothing, NULL, UPKEEP},
    {"purge_managers", SQL_PURGE_MANAGERS, add_days, NULL, UPKEEP},
    {"purge_metrics", SQL_PURGE_METRICS, add_nothing, NULL, UPKEEP},
    {"purge_executions", SQL_PURGE_EXECUTIONS, add_nothing, NULL, UPKEEP},
    {"purge_routes", SQL_PURGE_ROUTES, add_days_and_place, page, UPKEEP},
    {"purge_pipelines", SQL_PURGE_PIPELINES, add_days_and_place, page, UPKEEP},
};

/* Returns the number of table and index pages that this database has touched so far. No other client uses it. */
static int64_t pages(struct bench *b, PGconn *pg)
{
	database_run(pg, "select pg_stat_force_next_flush()");
	return database_number(b->watch, "select blks_hit + blks_read from pg_stat_database where datname = current_database()");
}

static void figure(const struct bench *b, const char *job, const char *what, double value, const char *unit)
{
	char name[100];

	snprintf(name, sizeof name, "growth_%s%s_%s", job, what, b->label);
	report(name, value, unit);
}

static void measure(struct bench *b, const struct job *job)
{
	PGconn *pg = job->session == UPKEEP ? b->maintenance : job->session == HOT ? b->hot : b->hashed;
	int64_t longest_ns = 0, total_ns = 0, max_pages = 0, rows = 0;
	struct made made = {0, true};

	if (job->add == add_days_and_place)
		b->key = STORE_TIME_BEGIN, b->id = 0;
	PQclear(PQprepare(pg, sql_statements[job->statement].name, sql_statements[job->statement].text, 0, NULL));
	for (int call = 0; job->end ? made.more : call < REPEATS; call++) {
		if (call == CALLS_MAX)
			give_up("%s has no end", job->name);
		int64_t pages_before = pages(b, pg);

		job->add(b);
		int64_t before_ns = now_ns();
		PGresult *result = database_call(pg, job->statement, &b->params);
		int64_t ns = now_ns() - before_ns, touched = pages(b, pg) - pages_before;

		total_ns += ns;
		longest_ns = ns > longest_ns ? ns : longest_ns;
		max_pages = touched > max_pages ? touched : max_pages;
		made = job->end ? job->end(b, result) : made;
		rows += job->end ? made.rows : 0;
		PQclear(result);
	}
	figure(b, job->name, "", (double)longest_ns / 1e6, "ms");
	figure(b, job->name, "_touched", (double)max_pages, "pages");
	if (rows)
		figure(b, job->name, "_row", (double)total_ns / 1e3 / (double)rows, "us");
}

/* Measures a function that counts everything again after manual changes of rows; it reads all rows. */
static void measure_recount(struct bench *b, const char *function, const char *rows)
{
	char sql[100];
	int64_t begun_ns = now_ns();

	snprintf(sql, sizeof sql, "select %s()", function);
	database_run(b->maintenance, sql);
	figure(b, function, "_row", (double)(now_ns() - begun_ns) / 1e3 / (double)database_number(b->watch, rows), "us");
}

int main(int argc, char **argv)
{
	struct bench b = {.key = STORE_TIME_BEGIN};

	if (argc != 2 && argc != 3)
		give_up("bench-growth CONNINFO [LABEL]");
	if (argc == 2) {
		database_migrate(argv[1]);
		return 0;
	}
	b.label = argv[2];
	b.maintenance = database_connect(argv[1], false, false);
	b.hot = database_connect(argv[1], true, false);
	b.hashed = database_connect(argv[1], true, true);
	b.watch = database_connect(argv[1], false, false);
	database_run(b.maintenance, "set statement_timeout = 0");
	b.manager = database_number(b.watch, "select max(id) from managers");
	for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
		measure(&b, &jobs[i]);
	measure_recount(&b, "live_recount", "select count(*) from tasks");
	measure_recount(&b, "counts_recount", "select (select count(*) from tasks) + (select count(*) from task_history)");
	PQfinish(b.maintenance);
	PQfinish(b.hot);
	PQfinish(b.hashed);
	PQfinish(b.watch);
	params_free(&b.params);
	return 0;
}
