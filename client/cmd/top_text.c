/* The screen of `reeve top`: totals, and three tables that share the rows below them. */
#include "client/cmd/top.h"

#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/queue.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"
#include "common/mem.h"

#include <inttypes.h>
#include <reeve/v1/admin_calls.h>
#include <reeve/v1/task_calls.h>
#include <stdlib.h>
#include <string.h>

enum { RUNNING_MAX = 500, HEAD_ROWS = 5, TABLES = 3 };

static const char *const sort_names[] = {
    [TOP_BY_WAITING] = "waiting", [TOP_BY_OLDEST] = "oldest", [TOP_BY_EXECUTING] = "executing", [TOP_BY_NAME] = "name"};

bool top_read(struct top_data *data, struct reeve_client *client, struct reeve_failure *failure)
{
	Reeve__V1__StatsRequest stats = REEVE__V1__STATS_REQUEST__INIT;
	Reeve__V1__ListQueuesRequest queues = REEVE__V1__LIST_QUEUES_REQUEST__INIT;
	Reeve__V1__ListWorkersRequest workers = REEVE__V1__LIST_WORKERS_REQUEST__INIT;
	Reeve__V1__ListRequest running = {.status = TASK(EXECUTING), .limit = RUNNING_MAX};

	*data = (struct top_data){.completed_rate = -1, .failed_rate = -1};
	data->stats = reeve_admin_stats(client, &stats, NULL, failure);
	data->queues = data->stats ? reeve_queues(client, &queues, failure) : NULL;
	data->workers = data->queues ? reeve_admin_list_workers(client, &workers, NULL, failure) : NULL;
	data->running = data->workers ? reeve_task_list(client, &running, NULL, failure) : NULL;
	data->now_us = reeve_client_now_us(client);
	return data->running != NULL;
}

void top_free(struct top_data *data)
{
	reeve_free(data->stats);
	reeve_free(data->queues);
	reeve_free(data->workers);
	reeve_free(data->running);
	*data = (struct top_data){0};
}

/* ---- order ---- */

static enum top_sort sorted_by;

static int descending(int64_t one, int64_t other)
{
	return (one < other) - (one > other);
}

static int compare_queues(const void *a, const void *b)
{
	const Reeve__V1__QueueCounts *one = *(Reeve__V1__QueueCounts *const *)a,
	                             *other = *(Reeve__V1__QueueCounts *const *)b;
	int order = 0;

	if (sorted_by == TOP_BY_WAITING)
		order = descending(one->queued + one->failed + one->delayed, other->queued + other->failed + other->delayed);
	else if (sorted_by == TOP_BY_EXECUTING)
		order = descending(one->executing, other->executing);
	else if (sorted_by == TOP_BY_OLDEST && !one->oldest_due_us != !other->oldest_due_us)
		order = one->oldest_due_us ? -1 : 1;
	else if (sorted_by == TOP_BY_OLDEST)
		order = descending(other->oldest_due_us, one->oldest_due_us);
	if (!order)
		order = strcmp(one->queue, other->queue);
	return order ? order : strcmp(one->type, other->type);
}

static int compare_workers(const void *a, const void *b)
{
	const Reeve__V1__Worker *one = *(Reeve__V1__Worker *const *)a, *other = *(Reeve__V1__Worker *const *)b;
	int order = sorted_by == TOP_BY_NAME ? 0 : descending(one->holding, other->holding);

	return order ? order : strcmp(one->name, other->name);
}

static int compare_running(const void *a, const void *b)
{
	const Reeve__V1__Task *one = *(Reeve__V1__Task *const *)a, *other = *(Reeve__V1__Task *const *)b;
	int order = sorted_by == TOP_BY_NAME ? strcmp(one->queue, other->queue) : 0;

	return order ? order : descending(other->started_us, one->started_us);
}

/* Sorts an array of pointers, which may be NULL if it is empty. */
static void order(void *items, size_t count, int (*compare)(const void *, const void *))
{
	if (count > 1)
		qsort(items, count, sizeof(void *), compare);
}

static void sort(struct top_data *data, enum top_sort by)
{
	sorted_by = by;
	order(data->queues->queues, data->queues->n_queues, compare_queues);
	order(data->workers->workers, data->workers->n_workers, compare_workers);
	order(data->running->tasks, data->running->n_tasks, compare_running);
}

/* ---- the head ---- */

/* Writes a line, cut to the width. */
static void put_line(FILE *out, int columns, const char *line)
{
	char *clean = terminal_one_line(line);
	int width;
	size_t bytes = terminal_cut(clean, columns, &width);

	fprintf(out, "%.*s\n", (int)bytes, clean);
	free(clean);
}

static void put_title(FILE *out, const struct top_view *view)
{
	char interval[40], line[200];
	char time[80];

	terminal_time(clock_wall_us(), time, sizeof time);
	time[strcspn(time, ".")] = '\0'; /* the second is enough */
	snprintf(line, sizeof line, "reeve top   %s   every %s   by %s%s", time,
	    duration_format(view->interval_ms, interval, sizeof interval), sort_names[view->sort],
	    view->paused ? "   PAUSED" : "");
	put_line(out, view->columns, line);
}

static void put_totals(FILE *out, const struct top_view *view, const struct top_data *data)
{
	const Reeve__V1__StatsResponse *stats = data->stats;
	const char *more = data->workers->next_after ? "+" : ""; /* the answer has the first thousand workers */
	const Reeve__V1__QueueCounts *oldest = NULL;
	int64_t slots = 0, holding = 0;
	char line[400], age[32];

	for (size_t i = 0; i < data->workers->n_workers; i++) {
		slots += data->workers->workers[i]->concurrency;
		holding += data->workers->workers[i]->holding;
	}
	for (size_t i = 0; i < data->queues->n_queues; i++) {
		const Reeve__V1__QueueCounts *queue = data->queues->queues[i];

		if (queue->oldest_due_us && (!oldest || queue->oldest_due_us < oldest->oldest_due_us))
			oldest = queue;
	}
	snprintf(line, sizeof line,
	    "tasks: %" PRId64 " queued, %" PRId64 " delayed, %" PRId64 " executing, %" PRId64 " failed   oldest: %s%s%s",
	    stats->queued, stats->delayed, stats->executing, stats->failed,
	    terminal_age(data->now_us, oldest ? oldest->oldest_due_us : 0, age, sizeof age), oldest ? " in " : "",
	    oldest ? oldest->queue : "");
	put_line(out, view->columns, line);
	snprintf(line, sizeof line, "workers: %" PRId64 " alive, %" PRId64 "%s of %" PRId64 "%s slots busy",
	    stats->workers_alive, holding, more, slots, more);
	put_line(out, view->columns, line);
	if (data->completed_rate >= 0)
		snprintf(line, sizeof line, "throughput: %.1f completed/s, %.1f dead or cancelled/s", data->completed_rate,
		    data->failed_rate);
	else
		snprintf(line, sizeof line, "throughput: …");
	put_line(out, view->columns, line);
}

/* ---- the tables ---- */

static const struct column worker_columns[] = {
    COL_TEXT("WORKER", "name"),
    COL_WORD("STATE", "state", .as = AS_STATE),
    COL_WORD("MODE", "mode"),
    COL_NUMBER("SLOTS", "concurrency"),
    COL_NUMBER("HOLDS", "holding"),
    COL_NUMBER("COMPLETED", "completed"),
    COL_NUMBER("FAILED", "failed"),
    COL_NUMBER("HEARD", "heartbeat_us", .as = AS_AGE),
    {0},
};

static const struct column running_columns[] = {
    COL_NUMBER("RUNNING", "id"),
    COL_TEXT("QUEUE", "queue"),
    COL_TEXT("TYPE", "type"),
    COL_NUMBER("ATTEMPT", "attempt"),
    COL_NUMBER("RUNS", "started_us", .as = AS_AGE),
    COL_TEXT("ON", "worker"),
    COL_TEXT("REMARK", "remark"),
    {0},
};

struct part {
	const struct column *columns;
	void *const *items;
	size_t count;
	int rows; /* its share of the screen, with the heading */
};

/* Shares the rows: each part gets what it needs as long as it is no more than its share of what is left. */
static void share(struct part parts[TABLES], int rows)
{
	bool settled[TABLES] = {false};
	int open = TABLES;

	for (bool changed = true; changed && open;) {
		changed = false;
		for (int i = 0; i < TABLES; i++) {
			int needs = (int)(parts[i].count < 1000 ? parts[i].count : 1000) + 1;

			if (!settled[i] && needs <= rows / open) {
				parts[i].rows = needs;
				rows -= needs;
				settled[i] = changed = true;
				open--;
			}
		}
	}
	for (int i = 0; i < TABLES; i++)
		if (!settled[i]) {
			parts[i].rows = rows / open;
			rows -= rows / open--;
		}
}

/* Writes a table in its rows; the last one says how many items are left out. */
static void put_table(FILE *out, const struct top_view *view, const struct part *part, int64_t now_us)
{
	struct table *table = table_create(part->columns);
	size_t shown = part->rows > 1 ? (size_t)part->rows - 1 : 0;

	if (part->rows < 1) {
		table_destroy(table);
		return;
	}
	if (shown < part->count && shown)
		shown--;
	for (size_t i = 0; i < part->count && i < shown; i++)
		fields_row(table, part->columns, part->items[i], now_us);
	table_write(table, out, view->columns, terminal_has_colour(stdout));
	if (part->rows > 1 && shown < part->count)
		fprintf(out, "… %zu more\n", part->count - shown);
	table_destroy(table);
}

char *top_text(const struct top_view *view, struct top_data *data)
{
	static const char keys[] = "q quit   s sort   p pause";
	char *text = NULL;
	size_t size;
	FILE *out = mem_stream(&text, &size);

	put_title(out, view);
	if (*view->problem || !data)
		put_line(out, view->columns, *view->problem ? view->problem : "waiting for a manager");
	if (data) {
		sort(data, view->sort);
		struct part parts[TABLES] = {
		    {queue_count_columns, (void *const *)data->queues->queues, data->queues->n_queues, 0},
		    {worker_columns, (void *const *)data->workers->workers, data->workers->n_workers, 0},
		    {running_columns, (void *const *)data->running->tasks, data->running->n_tasks, 0},
		};
		put_totals(out, view, data);
		/* The title, the totals, perhaps a problem; an empty line before each table; the keys. */
		share(parts, view->rows - HEAD_ROWS - (*view->problem != '\0') - TABLES);
		for (int i = 0; i < TABLES; i++) {
			if (parts[i].rows > 0)
				fputc('\n', out);
			put_table(out, view, &parts[i], data->now_us);
		}
	}
	fflush(out);
	/* The keys stand in the last row. */
	for (int lines = terminal_lines(text); lines < view->rows - 1; lines++)
		fputc('\n', out);
	put_line(out, view->columns, keys);
	fclose(out);
	return text;
}
