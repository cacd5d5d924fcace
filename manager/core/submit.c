/* One struct submit for each call, until it is committed. */
#include "manager/core/submit.h"

#include "common/uuid.h"
#include "manager/core/db_clock.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"
#include "manager/core/spans.h"
#include "manager/core/task_events.h"
#include "manager/core/verbose.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_MS = 24 * 3600 * 1000, AHEAD_MS = 3600 * 1000 };

/* The values that a task gets from its pipeline. */
struct begin {
	char *stage, *type, *policy, *queue;
};

struct submits {
	struct base *base;
	struct submits_neighbours to;
};

struct submits *submits_create(struct base *base, const struct submits_neighbours *neighbours)
{
	struct submits *s = mem_calloc(1, sizeof *s);
	*s = (struct submits){base, *neighbours};
	return s;
}

void submits_destroy(struct submits *submits)
{
	free(submits);
}

struct submit {
	struct store_submit op;
	struct submits *submits;
	struct store_task *tasks;
	char **policies;      /* those that come from queues: copies, as the settings may change until the commit */
	struct begin *begins; /* one for each task; NULL: no task has a pipeline */
	struct store_pipelines_start starts;
	submit_done *done;
	void *arg;
};

bool request_id_timely(const struct db_clock *db_clock, const uint8_t *request_id, struct reeve_error *error)
{
	int64_t ms = uuid7_time_ms(request_id), now = db_clock_us(db_clock) / 1000;
	int64_t clock = db_clock_shown_us(db_clock) / 1000, set_back = db_clock_set_back_us(db_clock) / 1000;
	if (ms < 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the request id is not a UUID of version 7");
	if (now == 0)
		return true; /* just started: the database decides whether it knows the id */
	/* After the clock was set back some managers report the clock and others the estimate, so both are accepted. For an
	 * id from before that time the estimate alone decides: it may have been forgotten while the clock was ahead. */
	if (set_back && ms >= set_back && ms >= clock - KEPT_MS && ms <= clock + AHEAD_MS)
		return true;
	if (ms < now - KEPT_MS)
		return error_set(error, STATUS(FAILED_PRECONDITION),
		    "the request id is more than a day old: its outcome is not known any more");
	if (ms > now + AHEAD_MS)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "the request id is from the future; take its time from the manager's Ping");
	return true;
}

static void submit_free(struct submit *s)
{
	for (int i = 0; i < s->op.count; i++) {
		free(s->policies[i]);
		if (s->begins) {
			free(s->begins[i].stage);
			free(s->begins[i].type);
			free(s->begins[i].policy);
			free(s->begins[i].queue);
		}
	}
	free(s->begins);
	free(s->starts.names);
	free(s->policies);
	free(s);
}

/* Applies the result of one task. */
static void finish_task(struct submits *submits, const struct store_task *t, const struct store_created *m)
{
	struct core_counters *counters = &submits->base->counters;
	bool repeated = m->restarted && !m->recalled;
	counters->restarted += repeated;
	if (m->created) {
		counters->submitted++;
		traffic_submitted(&submits->base->traffic, t->route);
		spans_submitted(submits->to.spans, t, m);
		verbose_log(submits->to.verbose, t->route, m->id, "submitted by %s", t->source);
		task_ready(submits->to.events,
		    &(struct ready_task){m->id, m->version, m->run_at_us, t->route, t->priority, (int32_t)strlen(t->details)});
	} else if (m->restarted && m->waits) {
		task_ready(
		    submits->to.events, &(struct ready_task){m->id, m->version, m->run_at_us, m->route, m->priority, -1});
	}
	if (m->created || repeated)
		return;
	counters->duplicates += !m->restarted;
	/* An earlier copy of the call created or restarted it. The manager of that copy may have died before it notified
	 * the others. */
	if (!m->existing || m->restarted)
		tasks_may_be_ready(submits->to.events, t->route, t->priority);
}

/* Applies the results. Call it before the answer, after which the tasks are no longer valid. */
static void apply(const struct submit *s)
{
	for (int i = 0; i < s->op.count; i++)
		finish_task(s->submits, &s->tasks[i], &s->op.created[i]);
	task_events_end(s->submits->to.events, false);
}

static void on_submitted(struct store_op *op, const struct reeve_error *error)
{
	struct submit *s = (struct submit *)op;
	struct reeve_error mismatch;
	if (!error && s->op.created_count != s->op.count) {
		if (s->op.created_count < 0)
			error_set(&mismatch, STATUS(ABORTED), "the request id has expired; use a new one");
		else
			error_set(&mismatch, STATUS(INVALID_ARGUMENT), "the request id was used for another call");
		error = &mismatch;
	}
	if (!error)
		apply(s);
	s->done(s->arg, error ? NULL : s->op.created, error);
	submit_free(s);
}

static void on_routes(void *arg, const struct reeve_error *error)
{
	struct submit *s = arg;
	if (error) {
		s->done(s->arg, NULL, error);
		submit_free(s);
		return;
	}
	for (int i = 0; i < s->op.count; i++)
		if (!s->tasks[i].route) /* a known route keeps its number, even if it has been forgotten since */
			s->tasks[i].route = routes_find(s->submits->to.routes, s->tasks[i].queue, s->tasks[i].type);
	store_submit(s->submits->base->store, &s->op);
}

/* Fills in the settings that the submitter left to the queue. */
static void fill_in(struct submit *s, struct store_task *t)
{
	const struct store_queue *q = queues_get(s->submits->to.queues, t->queue);
	t->batched = q->batches || q->state == STORE_QUEUE_STOPPING || q->state == STORE_QUEUE_STOPPED;
	if (!t->max_attempts)
		t->max_attempts = q->max_attempts;
	if (!t->timeout_ms)
		t->timeout_ms = q->timeout_ms;
	if (!t->own_priority)
		t->priority = q->priority;
	if (t->retry_given) {
		if (!t->retry_base_ms && !t->pipeline_id) /* linear without a start: the delays begin with the resting period */
			t->retry_base_ms = q->resting_ms;
		return;
	}
	t->retry_base_ms = q->retry_base_ms;
	t->retry_max_ms = q->retry_max_ms;
	if (q->retry_policy)
		t->retry_policy = s->policies[t - s->tasks] = mem_strdup(q->retry_policy);
}

static void submit_routed(struct submit *s)
{
	struct routes *routes = s->submits->to.routes;
	struct store_task *tasks = s->tasks;
	int count = s->op.count;
	bool known = true;
	for (int i = 0; i < count; i++) {
		fill_in(s, &tasks[i]);
		known &= (tasks[i].route = routes_find(routes, tasks[i].queue, tasks[i].type)) != 0;
	}
	if (known) {
		store_submit(s->submits->base->store, &s->op);
		return;
	}
	const char **names = mem_calloc(2 * (size_t)count, sizeof *names);
	int unknown = 0;
	for (int i = 0; i < count; i++)
		if (!tasks[i].route) {
			names[unknown] = tasks[i].queue;
			names[count + unknown] = tasks[i].type;
			unknown++;
		}
	routes_ensure(routes, unknown, names, names + count, s->op.op.deadline_ms, s->op.op.origin, on_routes, s);
	free(names);
}

static char *copy_or_null(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

/* Applies the first stages of the pipelines to their tasks. */
static void on_started(struct store_op *op, const struct reeve_error *error)
{
	struct submit *s = (struct submit *)((char *)op - offsetof(struct submit, starts));
	if (error) {
		s->done(s->arg, NULL, error);
		submit_free(s);
		return;
	}
	if (s->starts.repeated) { /* the answer is that of the first time */
		store_submit(s->submits->base->store, &s->op);
		return;
	}
	const struct store_pipeline_start *start = s->starts.starts;
	for (int i = 0; i < s->op.count; i++) {
		struct store_task *t = &s->tasks[i];
		struct begin *b = &s->begins[i];
		if (!t->pipeline)
			continue;
		*b = (struct begin){mem_strdup(start->stage), mem_strdup(start->type), copy_or_null(start->retry_policy),
		    copy_or_null(start->queue)};
		t->pipeline_id = start->pipeline_id;
		t->stage = b->stage;
		t->type = b->type;
		t->queue = b->queue ? b->queue : t->queue;
		t->priority = start->has_priority ? start->priority : t->priority;
		t->own_priority |= start->has_priority;
		t->max_attempts = start->max_attempts;
		t->timeout_ms = start->timeout_ms;
		t->retry_given = true;
		t->retry_base_ms = start->retry_base_ms;
		t->retry_max_ms = start->retry_max_ms;
		t->retry_policy = b->policy;
		start++;
	}
	submit_routed(s);
}

/* Continues when the settings are known: with the pipelines, if there are any, then with the routes. */
static void on_queues(void *arg, const struct reeve_error *error)
{
	struct submit *s = arg;
	if (error) {
		s->done(s->arg, NULL, error);
		submit_free(s);
		return;
	}
	int n = 0;
	for (int i = 0; i < s->op.count; i++)
		n += s->tasks[i].pipeline != NULL;
	if (!n) {
		submit_routed(s);
		return;
	}
	const char **names = mem_calloc(3 * (size_t)n, sizeof *names);
	s->begins = mem_calloc((size_t)s->op.count, sizeof *s->begins);
	s->starts = (struct store_pipelines_start){
	    .op.done = on_started,
	    .op.deadline_ms = s->op.op.deadline_ms,
	    .op.origin = s->op.op.origin,
	    .request_id = s->op.request_id,
	    .names = names,
	    .queues = names + n,
	    .stages = names + 2 * n,
	};
	for (int i = 0; i < s->op.count; i++)
		if (s->tasks[i].pipeline) {
			s->starts.names[s->starts.count] = s->tasks[i].pipeline;
			s->starts.stages[s->starts.count] = s->tasks[i].stage;
			s->starts.queues[s->starts.count++] = s->tasks[i].queue;
		}
	store_pipelines_start(s->submits->base->store, &s->starts);
}

void submit_tasks(struct submits *submits, const uint8_t *request_id, struct store_task *tasks, int count,
    int64_t deadline_ms, uint64_t origin, submit_done *done, void *arg)
{
	struct submit *s = mem_calloc(1, sizeof *s);
	s->submits = submits;
	s->tasks = tasks;
	s->policies = mem_calloc((size_t)count, sizeof *s->policies);
	s->done = done;
	s->arg = arg;
	s->op = (struct store_submit){
	    .op.done = on_submitted, .op.deadline_ms = deadline_ms, .op.origin = origin, .count = count, .tasks = tasks};
	memcpy(s->op.request_id, request_id, sizeof s->op.request_id);
	queues_ready(submits->to.queues, deadline_ms, on_queues, s);
}
