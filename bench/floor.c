/*
 * The floor: the cost of a task through bare libpq, with the manager's own tables, statements and session settings.
 *
 *	bench-floor CONNINFO TASKS BATCH CONNECTIONS
 *
 * Each connection is a process with a route and two worker rows of its own. Three phases are timed over all
 * connections: insert all tasks (submit calls of BATCH tasks); drain them (read a page, claim, complete); cycle
 * (all three, page by page). A second run in the same database shows whether plans flip in the drain: its tables were
 * drained, analyzed and filled again. As in the manager, a process submits on one session and claims and completes on
 * another with different settings. It never uses both at once.
 */
#include "bench/database.h"
#include "bench/report.h"
#include "common/uuid.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 10000, WORKERS = 2, KEPT_DAYS = 30, BUFFER_MS = 30000, TIMEOUT_MS = 60000, LEASE_MS = 30000 };

/* The process of one connection. */
struct floor {
	PGconn *submit, *hot;
	struct params params;
	int route;
	char type[20];
	int64_t workers[WORKERS];
	int batch;
	int64_t fetch_id;
	int64_t page_ns, claim_ns, complete_ns;
};

/* Inserts a worker row directly: the registration of workers is not measured. */
static int64_t worker_insert(struct floor *f)
{
	char sql[200];

	snprintf(sql, sizeof sql, "insert into reeve.workers (name, lease_ms) values ('%s-%d', %d) returning id", f->type,
	    (int)getpid(), LEASE_MS);
	return database_number(f->hot, sql);
}

static void begin(struct floor *f, const char *conninfo, int number, int batch)
{
	*f = (struct floor){.batch = batch};
	f->submit = database_connect(conninfo, true, true);
	f->hot = database_connect(conninfo, true, false);
	snprintf(f->type, sizeof f->type, "floor%d", number);
	f->route = database_route(f->submit, "default", f->type);
	for (int i = 0; i < WORKERS; i++)
		f->workers[i] = worker_insert(f);
}

/* Submits one batch of tasks in one call. */
static void insert(struct floor *f)
{
	struct params *p = &f->params;
	uint8_t request[UUID_BYTES];
	struct timespec t;
	char details[200];

	clock_gettime(CLOCK_REALTIME, &t);
	uuid7_make(t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000, request);
	params_array_begin(p, PARAMS_UUID);
	params_add_uuid(p, request);
	params_array_end(p);
	static const enum params_type types[] = {PARAMS_INT4, PARAMS_INT4, PARAMS_TIME, PARAMS_INT8, PARAMS_TEXT,
	    PARAMS_TEXT, PARAMS_TEXT, PARAMS_TEXT, PARAMS_INT4, PARAMS_INT4, PARAMS_INT8, PARAMS_INT8, PARAMS_INT8};
	for (size_t column = 0; column < sizeof types / sizeof *types; column++) {
		if (types[column] == PARAMS_TIME) { /* all run now */
			params_null(p);
			continue;
		}
		params_array_begin(p, types[column]);
		for (int i = 0; i < f->batch; i++)
			switch (column) {
			case 0: params_add_int4(p, 1); break;
			case 1: params_add_int4(p, f->route); break;
			case 3: params_add_int8(p, 0); break;
			case 4: params_add_text(p, "default"); break;
			case 5: params_add_text(p, f->type); break;
			case 6:
				details_write(details, i);
				params_add_text(p, details);
				break;
			case 7: params_add_text(p, "bench"); break;
			case 8: params_add_int4(p, 0); break;
			case 9: params_add_int4(p, 5); break;
			case 10: params_add_int8(p, TIMEOUT_MS); break;
			case 11: params_add_int8(p, 1000); break;
			case 12: params_add_int8(p, 3600000); break;
			}
		params_array_end(p);
	}
	PGresult *result = database_call(f->submit, SQL_SUBMIT_PLAIN, p);

	if (PQntuples(result) != f->batch)
		give_up("submitted %d tasks, got %d", f->batch, PQntuples(result));
	PQclear(result);
}

static void add_ids(struct params *p, const PGresult *rows, int from, int n)
{
	params_array_begin(p, PARAMS_INT8);
	for (int i = from; i < from + n; i++)
		params_add_int8(p, row_int8(rows, i, 0));
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int i = from; i < from + n; i++)
		params_add_time(p, row_time(rows, i, 1));
	params_array_end(p);
}

/* Claims rows [from, from + n) of a page, split over the workers, and completes the claimed ones. Returns how many it
 * completed. */
static int claim_and_complete(struct floor *f, const PGresult *page, int from, int n)
{
	struct params *p = &f->params;

	add_ids(p, page, from, n);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < n; i++)
		params_add_int4(p, i % WORKERS + 1);
	params_array_end(p);
	f->fetch_id++;
	for (int column = 0; column < 2; column++) {
		params_array_begin(p, PARAMS_INT8);
		for (int i = 0; i < WORKERS; i++)
			params_add_int8(p, column ? f->fetch_id : f->workers[i]);
		params_array_end(p);
	}
	params_int8(p, BUFFER_MS);
	int64_t t0 = now_ns();
	PGresult *won = database_call(f->hot, SQL_CLAIM, p);
	int64_t t1 = now_ns();

	n = PQntuples(won);
	add_ids(p, won, 0, n);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < n; i++)
		params_add_text(p, "");
	params_array_end(p);
	params_int4(p, KEPT_DAYS);
	PQclear(won);
	int64_t t2 = now_ns();
	PGresult *ended = database_call(f->hot, SQL_COMPLETE, p);

	f->complete_ns += now_ns() - t2;
	f->claim_ns += t1 - t0;
	n = PQntuples(ended);
	PQclear(ended);
	return n;
}

/* Add parameters that are arrays of one element. */
static void add_int4(struct params *p, int32_t value)
{
	params_array_begin(p, PARAMS_INT4);
	params_add_int4(p, value);
	params_array_end(p);
}

static void add_int8(struct params *p, int64_t value)
{
	params_array_begin(p, PARAMS_INT8);
	params_add_int8(p, value);
	params_array_end(p);
}

static void add_time(struct params *p, int64_t us)
{
	params_array_begin(p, PARAMS_TIME);
	params_add_time(p, us);
	params_array_end(p);
}

/* Claims and completes tasks until none are left. Returns how many it completed. */
static int64_t drain(struct floor *f)
{
	int64_t run_at = TIME_BEGIN, id = 0, done = 0;

	for (;;) {
		struct params *p = &f->params;

		/* One stream and one shard. */
		add_int4(p, f->route);
		add_int4(p, 0);
		add_time(p, run_at);
		add_int8(p, id);
		add_time(p, 0);
		add_int4(p, PAGE);
		add_int4(p, 1);
		add_int4(p, 0);
		add_int8(p, INT64_MAX);
		int64_t t0 = now_ns();
		PGresult *page = database_call(f->hot, SQL_READY_PAGE, p);
		int n = PQntuples(page);

		f->page_ns += now_ns() - t0;
		for (int from = 0; from < n; from += f->batch)
			done += claim_and_complete(f, page, from, n - from < f->batch ? n - from : f->batch);
		if (n > 0) {
			id = row_int8(page, n - 1, 0);
			run_at = row_time(page, n - 1, 2);
		}
		PQclear(page);
		if (n == 0)
			return done;
	}
}

static void phase_run(struct floor *f, char what, int tasks)
{
	int64_t done = 0;

	if (what == 'i') {
		for (int i = 0; i < tasks; i += f->batch)
			insert(f);
		return;
	}
	if (what == 'd')
		done = drain(f);
	for (int i = 0; what == 'c' && i < tasks; i += PAGE) {
		for (int k = 0; k < PAGE; k += f->batch)
			insert(f);
		done += drain(f);
	}
	if (done != tasks)
		give_up("expected %d tasks, completed %lld", tasks, (long long)done);
	fprintf(stderr, "  floor %c: claim %.0f/s  complete %.0f/s  page %.0f/s\n", what,
	    (double)done * 1e9 / (double)f->claim_ns, (double)done * 1e9 / (double)f->complete_ns,
	    (double)done * 1e9 / (double)f->page_ns);
}

/* Runs one phase in a process per connection. Returns the seconds until the last one ended. */
static double phase(const char *conninfo, char what, int tasks, int batch, int connections)
{
	int ready[2], go[2], status, bad = 0;
	char c;

	if (pipe(ready) || pipe(go))
		give_up("no pipe");
	for (int number = 1; number <= connections; number++) {
		pid_t child = fork();

		if (child < 0)
			give_up("cannot fork");
		if (child)
			continue;
		struct floor f;

		close(go[1]);
		close(ready[0]);
		begin(&f, conninfo, number, batch);
		close(ready[1]);
		if (read(go[0], &c, 1) < 0)
			give_up("cannot wait for the start");
		phase_run(&f, what, tasks / connections);
		exit(0);
	}
	close(go[0]);
	close(ready[1]);
	if (read(ready[0], &c, 1) < 0) /* end of file: all have begun */
		give_up("cannot wait for the processes");
	close(ready[0]);
	int64_t t0 = now_ns();

	close(go[1]);
	while (wait(&status) > 0)
		bad |= status;
	if (bad)
		exit(1);
	return (double)(now_ns() - t0) / 1e9;
}

static void maintain(const char *conninfo, const char *sql)
{
	PGconn *pg = database_connect(conninfo, false, false);

	database_run(pg, sql);
	PQfinish(pg);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		give_up("usage: bench-floor CONNINFO TASKS BATCH CONNECTIONS");
	const char *conninfo = argv[1];
	int tasks = atoi(argv[2]), batch = atoi(argv[3]), connections = atoi(argv[4]);

	if (batch < 1 || batch > PAGE || PAGE % batch || connections < 1 || tasks < PAGE * connections)
		give_up("BATCH must divide %d, and there must be as many tasks for each connection", PAGE);
	tasks -= tasks % (PAGE * connections);
	database_migrate(conninfo);
	double inserted = phase(conninfo, 'i', tasks, batch, connections);

	maintain(conninfo, "analyze tasks");
	double drained = phase(conninfo, 'd', tasks, batch, connections);
	double cycled = phase(conninfo, 'c', tasks, batch, connections);

	maintain(conninfo, "analyze tasks");
	report("insert", tasks / inserted, "tasks/s");
	report("drain", tasks / drained, "tasks/s");
	report("cycle", tasks / cycled, "tasks/s");
	return 0;
}
