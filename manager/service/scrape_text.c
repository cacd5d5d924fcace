/* The families of metrics, in their order. docs/metrics.md describes them. */
#include "manager/service/scrape_text.h"

#include "common/clock.h"
#include "common/rpc/server.h"
#include "manager/core/cluster.h"
#include "manager/core/ready.h"
#include "manager/core/routes.h"
#include "manager/service/exposition.h"
#include "manager/traces/traces.h"

#include <dirent.h>
#include <reeve/v1/envelope.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- the fleet ------------------------------------------------------------------------------------------------------
 */

void scrape_fleet_drop(struct scrape_fleet *fleet)
{
	free(fleet->rows);
	*fleet = (struct scrape_fleet){0};
}

void scrape_fleet_take(struct scrape_fleet *fleet, const struct store_fleet *op)
{
	size_t count = (size_t)op->count, bytes = count * sizeof *fleet->rows;
	struct store_fleet_row *rows;
	char *text;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(op->rows[i].name) + strlen(op->rows[i].queue) + strlen(op->rows[i].type) +
		    strlen(op->rows[i].word) + 4;
	rows = mem_malloc(bytes + 1);
	text = (char *)(rows + count);
	for (size_t i = 0; i < count; i++) {
		const struct store_fleet_row *from = &op->rows[i];
		struct store_fleet_row *to = &rows[i];

		to->value = from->value;
		to->name = strcpy(text, from->name);
		text += strlen(text) + 1;
		to->queue = strcpy(text, from->queue);
		text += strlen(text) + 1;
		to->type = strcpy(text, from->type);
		text += strlen(text) + 1;
		to->word = strcpy(text, from->word);
		text += strlen(text) + 1;
	}
	scrape_fleet_drop(fleet);
	*fleet = (struct scrape_fleet){op->count, rows};
}

static void put_fleet(struct exposition *x, const struct scrape_fleet *fleet)
{
	static const struct {
		const char *name, *family, *word, *help;
	} families[] = {
	    {"tasks", "reeve_queue_tasks", "status", "Live tasks of all managers by queue, type and status."},
	    {"oldest", "reeve_queue_oldest_due_seconds", NULL,
	        "How long the longest-waiting task has been due, by queue and type; not in halted queues."},
	    {"unserved", "reeve_unserved_tasks", NULL, "Waiting tasks whose type no living worker takes in their queue."},
	    {"history", "reeve_history_tasks", "status", "Finished tasks that are kept, by status."},
	    {"dead", "reeve_dead_tasks_last_hour", NULL,
	        "Tasks that ended dead within the last hour; at most 100000 are counted."},
	    {"workers", "reeve_workers", "mode", "Living workers of all managers by mode."},
	    {"slots", "reeve_worker_slots", NULL, "Slots of living workers."},
	    {"heartbeat", "reeve_worker_heartbeat_age_seconds", NULL,
	        "Age of the oldest last heartbeat of a living worker."},
	    {"pull", "reeve_pull_clients", NULL, "Registered pull clients."},
	    {"callbacks", "reeve_callbacks_waiting", NULL,
	        "Callbacks to be sent or sent again; at most 100000 are counted."},
	    {"schedules", "reeve_schedules", "state", "Schedules, active and paused."},
	    {"late", "reeve_schedule_late_seconds", NULL, "By how much the most overdue schedule is late; 0: none is."},
	};

	for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
		exposition_family(x, families[f].family, EXPOSITION_GAUGE, families[f].help);
		for (int i = 0; i < fleet->count; i++) {
			const struct store_fleet_row *row = &fleet->rows[i];
			const char *word = *row->word ? families[f].word : NULL;

			if (strcmp(row->name, families[f].name) != 0)
				continue;
			if (*row->queue)
				exposition_number(x, LABELS("queue", row->queue, "type", row->type, word, row->word), row->value);
			else
				exposition_number(x, LABELS(word, row->word), row->value);
		}
	}
}

/* --- this manager's traffic -----------------------------------------------------------------------------------------
 */

/* Writes the samples of one route for one family. */
typedef void put_numbers(
    struct exposition *x, const char *queue, const char *type, const struct traffic_numbers *numbers);

static void put_submitted(struct exposition *x, const char *queue, const char *type, const struct traffic_numbers *n)
{
	exposition_integer(x, LABELS("queue", queue, "type", type), n->submitted);
}

static void put_claimed(struct exposition *x, const char *queue, const char *type, const struct traffic_numbers *n)
{
	exposition_integer(x, LABELS("queue", queue, "type", type), n->claimed);
}

static void put_retries(struct exposition *x, const char *queue, const char *type, const struct traffic_numbers *n)
{
	exposition_integer(x, LABELS("queue", queue, "type", type), n->retries);
}

static void put_attempts(struct exposition *x, const char *queue, const char *type, const struct traffic_numbers *n)
{
	for (enum store_outcome o = 0; o < STORE_OUTCOMES; o++)
		if (n->attempts[o] || o == STORE_COMPLETED || o == STORE_FAILED)
			exposition_integer(
			    x, LABELS("queue", queue, "type", type, "outcome", store_outcome_name(o)), n->attempts[o]);
}

static void put_ended(struct exposition *x, const char *queue, const char *type, const struct traffic_numbers *n)
{
	static const char *const names[TRAFFIC_STATUSES] = {"completed", "dead", "cancelled"};

	for (int i = 0; i < TRAFFIC_STATUSES; i++)
		exposition_integer(x, LABELS("queue", queue, "type", type, "status", names[i]), n->ended[i]);
}

static void put_waited(struct exposition *x, const char *queue, const char *type, const struct traffic_numbers *n)
{
	exposition_times(x, LABELS("queue", queue, "type", type), &n->waited);
}

static void put_took(struct exposition *x, const char *queue, const char *type, const struct traffic_numbers *n)
{
	exposition_times(x, LABELS("queue", queue, "type", type), &n->took);
}

#define OTHER "other"

/* Returns whether a route's numbers are among the others': because of its names, or as they are not known here yet. */
static bool is_other(const struct route *route)
{
	return !route || (!strcmp(route->queue, OTHER) && !strcmp(route->type, OTHER));
}

static struct traffic_numbers others_of(const struct core *core)
{
	struct traffic_numbers others = core->base.traffic.others.now;
	const struct traffic_route *r, *tmp;

	HASH_ITER (hh, core->base.traffic.routes, r, tmp)
		if (is_other(routes_get(core->routes, (int)r->route)))
			traffic_add(&others, &r->now, 1);
	return others;
}

static void put_traffic(struct exposition *x, const struct core *core)
{
	static const struct {
		const char *family;
		enum exposition_kind kind;
		put_numbers *put;
		const char *help;
	} families[] = {
	    {"reeve_tasks_submitted", EXPOSITION_COUNTER, put_submitted, "Tasks created by calls to this manager."},
	    {"reeve_claims", EXPOSITION_COUNTER, put_claimed, "Attempts that began by a claim of this manager."},
	    {"reeve_attempts_ended", EXPOSITION_COUNTER, put_attempts, "Attempts that this manager ended, by outcome."},
	    {"reeve_retries", EXPOSITION_COUNTER, put_retries,
	        "Failed attempts after which the task waits for another one."},
	    {"reeve_tasks_ended", EXPOSITION_COUNTER, put_ended, "Tasks that ended through this manager, by status."},
	    {"reeve_task_wait_seconds", EXPOSITION_HISTOGRAM, put_waited, "Time from when a task was due to its claim."},
	    {"reeve_attempt_duration_seconds", EXPOSITION_HISTOGRAM, put_took, "Duration of attempts from claim to end."},
	};
	const struct traffic *traffic = &core->base.traffic;
	const struct traffic_route *r, *tmp;
	struct traffic_numbers others = others_of(core);

	for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
		exposition_family(x, families[f].family, families[f].kind, families[f].help);
		HASH_ITER (hh, traffic->routes, r, tmp) {
			const struct route *route = routes_get(core->routes, (int)r->route);

			if (!is_other(route))
				families[f].put(x, route->queue, route->type, &r->now);
		}
		families[f].put(x, OTHER, OTHER, &others);
	}
}

/* --- this manager ---------------------------------------------------------------------------------------------------
 */

static void put_one(
    struct exposition *x, const char *family, enum exposition_kind kind, const char *help, int64_t value)
{
	exposition_family(x, family, kind, help);
	exposition_integer(x, NO_LABELS, value);
}

static void put_counters(struct exposition *x, const struct services *s)
{
	const struct core *core = s->core;
	const struct core_counters *n = &core->base.counters;
	const struct callbacks_counters *callbacks = callbacks_counters(s->callbacks);
	const struct {
		const char *family, *help;
		int64_t value;
	} counters[] =
	    {
	        {"reeve_claims_lost",
	            "Candidates that this manager tried to claim, and others won, or that did not wait any more.",
	            n->claims_tried - n->claims_won},
	        {"reeve_late_results", "Reports whose attempt had lost its lock.", n->late},
	        {"reeve_duplicate_submits", "Tasks that a key or a repeated call had created already.", n->duplicates},
	        {"reeve_workers_lost", "Workers that this manager marked lost.", n->lost},
	        {"reeve_attempts_extended", "Extensions of attempts.", n->extended},
	        {"reeve_fetches", "Fetch calls.", n->fetches},
	        {"reeve_schedule_firings", "Firings of schedules by this manager.", n->firings},
	        {"reeve_calls", "Calls to this manager.", rpc_server_calls(s->server)},
	        {"reeve_calls_refused", "Calls refused at a limit.", rpc_server_refused(s->server) + n->refused},
	    },
	  gauges[] = {
	      {"reeve_managers", "Living managers, as this one sees it.", cluster_alive(core->cluster)},
	      {"reeve_open_calls", "Open calls, with Fetches that wait.", rpc_server_open_calls(s->server)},
	      {"reeve_connections", "Open connections of callers.", rpc_server_connections(s->server)},
	      {"reeve_ready_cache_tasks", "Candidates in the ready cache.", ready_size(core->cache)},
	      {"reeve_ready_cache_streams", "Streams in the ready cache.", ready_streams(core->cache)},
	  };

	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		put_one(x, counters[i].family, EXPOSITION_COUNTER, counters[i].help, counters[i].value);
	for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
		put_one(x, gauges[i].family, EXPOSITION_GAUGE, gauges[i].help, gauges[i].value);
	exposition_family(x, "reeve_callback_tries", EXPOSITION_COUNTER, "Tries of callbacks by this manager, by result.");
	exposition_integer(x, LABELS("result", "delivered"), callbacks->delivered);
	exposition_integer(x, LABELS("result", "failed"), callbacks->failed);
	exposition_integer(x, LABELS("result", "given_up"), callbacks->given_up);
	if (s->traces) {
		exposition_family(x, "reeve_spans", EXPOSITION_COUNTER, "Spans of traces, by result.");
		exposition_integer(x, LABELS("result", "sent"), traces_counts(s->traces).sent);
		exposition_integer(x, LABELS("result", "lost"), traces_counts(s->traces).lost);
	}
}

static void put_store(struct exposition *x, const struct store *store)
{
	const char *name;
	int64_t count, number;

	exposition_family(x, "reeve_store_operations", EXPOSITION_COUNTER, "Operations of a database connection.");
	for (int i = 0; store_counters(store, i, &name, &count, &number); i++)
		exposition_integer(x, LABELS("connection", name), number);
	exposition_family(x, "reeve_store_batches", EXPOSITION_COUNTER, "Batches of these operations.");
	for (int i = 0; store_counters(store, i, &name, &count, &number); i++)
		exposition_integer(x, LABELS("connection", name), count);
	exposition_family(
	    x, "reeve_statement_duration_seconds", EXPOSITION_SUMMARY, "Time from sending a statement to its result.");
	for (int i = 0; store_statement(store, i, &name, &count, &number); i++)
		if (count)
			exposition_summary(x, LABELS("statement", name), count, number);
}

static int64_t open_files(void)
{
	int64_t count = 0;
	DIR *folder = opendir("/proc/self/fd");

	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count > 3 ? count - 3 : 0; /* ".", ".." and the folder itself */
}

static int64_t resident_bytes(void)
{
	long long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file && fscanf(file, "%*s %lld", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

static void put_process(struct exposition *x, const struct services *s)
{
	struct rpc_server_memory memory = rpc_server_memory(s->server);
	struct rusage usage = {0};
	char schema[16], contract[16];

	getrusage(RUSAGE_SELF, &usage);
	exposition_family(x, "process_cpu_seconds", EXPOSITION_COUNTER, "Processor time of the manager.");
	exposition_number(x, NO_LABELS,
	    (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	        (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
	put_one(x, "process_resident_memory_bytes", EXPOSITION_GAUGE, "Resident memory of the manager.", resident_bytes());
	put_one(x, "process_open_fds", EXPOSITION_GAUGE, "Open files and sockets of the manager.", open_files());
	exposition_family(x, "process_start_time_seconds", EXPOSITION_GAUGE, "When the manager started.");
	exposition_number(x, NO_LABELS, (double)s->started_us / 1e6);
	exposition_family(
	    x, "reeve_call_memory_bytes", EXPOSITION_GAUGE, "Memory of calls: arriving, open, and answers not yet sent.");
	exposition_integer(x, LABELS("part", "incoming"), (int64_t)memory.incoming);
	exposition_integer(x, LABELS("part", "open"), (int64_t)memory.held);
	exposition_integer(x, LABELS("part", "unsent"), (int64_t)memory.unsent);
	snprintf(schema, sizeof schema, "%d", SQL_VERSION);
	snprintf(contract, sizeof contract, "%d", REEVE__V1__CONTRACT__CONTRACT_CURRENT);
	exposition_family(
	    x, "reeve_build_info", EXPOSITION_GAUGE, "The manager's version, and those of its schema and contract.");
	exposition_integer(x, LABELS("version", REEVE_VERSION, "schema", schema, "contract", contract), 1);
}

char *scrape_text(const struct services *s, const struct scrape_fleet *fleet, bool open_metrics)
{
	bool up = store_up(s->core->base.store) && core_database_fresh(s->core);
	struct exposition x = {.open_metrics = open_metrics};
	size_t length;
	char *text;

	x.out = mem_stream(&text, &length);
	put_process(&x, s);
	put_one(&x, "reeve_database_up", EXPOSITION_GAUGE, "Whether the manager reaches its database.", up);
	if (up && fleet)
		put_fleet(&x, fleet);
	put_traffic(&x, s->core);
	put_counters(&x, s);
	put_store(&x, s->core->base.store);
	exposition_end(&x);
	fclose(x.out);
	return text;
}
