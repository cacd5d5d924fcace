/*
 * Measures what each maintenance job of a manager costs in a database filled by bench/growth.sql: the manager's own
 * statements with its session settings, in the order in which a manager runs them.
 *
 *	bench-growth [CONNINFO [LABEL]]
 *
 * Without LABEL it creates the schema, which bench/growth.sql needs. Without CONNINFO it prints the names of the
 * statements that it measures; it fails if a job of manager/jobs/table.c is missing here.
 *
 * A job that works page by page runs to its end. The figures of each job are the time of the longest call, the maximum
 * number of table and index pages that a call touched, and, if it moved rows, the time per row. Other load on the
 * machine changes the times, but not the pages.
 */
#include "bench/growth.h"
#include "bench/report.h"
#include "manager/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 5, CALLS_MAX = 100000 };

static void print_measured(void)
{
	for (int job = 0; job < JOBS; job++)
		if (!growth_knows((enum job_name)job))
			give_up("the job '%s' is not measured", manager_jobs[job].name);
	for (int i = 0; i < growth_measured_count; i++)
		puts(sql_statements[growth_measured[i].statement].name);
}

/* Returns the number of table and index pages that this database has touched so far. No other client uses it. */
static int64_t pages(struct bench *b, PGconn *pg)
{
	database_run(pg, "select pg_stat_force_next_flush()");
	return database_number(
	    b->watch, "select blks_hit + blks_read from pg_stat_database where datname = current_database()");
}

static void figure(const struct bench *b, const char *job, const char *what, double value, const char *unit)
{
	char name[100];

	snprintf(name, sizeof name, "growth_%s%s_%s", job, what, b->label);
	report(name, value, unit);
}

static void measure(struct bench *b, const struct measured *job)
{
	PGconn *const sessions[] = {b->maintenance, b->hot, b->hashed, b->plain};
	PGconn *pg = sessions[job->session];
	int64_t longest_ns = 0, total_ns = 0, max_pages = 0, rows = 0;
	struct made made = {0, true};

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
	if (job->end)
		/* as autovacuum does, so that no job reads rows that an earlier one has deleted */
		database_run(b->watch, "vacuum");
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

	if (argc > 3)
		give_up("bench-growth [CONNINFO [LABEL]]");
	if (argc == 1) {
		print_measured();
		return 0;
	}
	if (argc == 2) {
		database_migrate(argv[1]);
		return 0;
	}
	b.label = argv[2];
	b.maintenance = database_connect(argv[1], false, false);
	b.hot = database_connect(argv[1], true, false);
	b.hashed = database_connect(argv[1], true, true);
	b.plain = database_connect(argv[1], false, false);
	b.watch = database_connect(argv[1], false, false);
	database_run(b.maintenance, "set statement_timeout = 0");
	b.manager = database_number(b.watch, "select max(id) from managers");
	b.newest_task = database_number(b.watch, "select max(task_id) from task_history");
	b.first_alive = database_number(b.watch, "select min(worker_id) from assignments where closed_at is null");
	b.batch = database_number(b.watch, "select max(id) from batches where phase = 'ended'");
	b.callback = database_number(b.watch, "select max(id) from callbacks where state = 'waiting'");
	b.due_batch = database_number(b.watch, "select id from batches where name = 'due'");
	b.releasing_batch = database_number(b.watch, "select id from batches where name = 'releasing'");
	b.failing_batch = database_number(b.watch, "select id from batches where name = 'failing'");
	for (int i = 0; i < growth_measured_count; i++)
		measure(&b, &growth_measured[i]);
	measure_recount(&b, "live_recount", "select count(*) from tasks");
	measure_recount(&b, "counts_recount", "select (select count(*) from tasks) + (select count(*) from task_history)");
	PQfinish(b.maintenance);
	PQfinish(b.hot);
	PQfinish(b.hashed);
	PQfinish(b.plain);
	PQfinish(b.watch);
	params_free(&b.params);
	return 0;
}
