/* Attempts are remembered from their claim on, the latest ones of them. */
#include "manager/core/spans.h"

#include "common/hash.h"
#include "manager/core/routes.h"

#include <stdlib.h>
#include <string.h>

enum { RUNNING_MAX = 20000 };

struct running {
	int64_t id, token;
	int64_t worker;
	int attempt;
	char traceparent[TRACEPARENT_BYTES];
	UT_hash_handle hh;
};

struct spans {
	struct base *base;
	struct routes *routes;
	struct running *running; /* in the order of their claims */
	int submitted, assigned; /* the place of the traceparent among the texts of a task */
};

static int place_of(const char *const *columns, int count)
{
	int i = 0;
	while (i < count && strcmp(columns[i], "traceparent") != 0)
		i++;
	return i;
}

struct spans *spans_create(struct base *base, struct routes *routes)
{
	struct spans *s = mem_calloc(1, sizeof *s);
	*s = (struct spans){base, routes, NULL, place_of(sql_columns_submitted, SQL_SUBMITTED),
	    place_of(sql_columns_assigned, SQL_ASSIGNED)};
	return s;
}

static void forget(struct spans *s, struct running *r)
{
	HASH_DEL(s->running, r);
	free(r);
}

void spans_destroy(struct spans *s)
{
	struct running *next = s->running;
	HASH_CLEAR(hh, s->running);
	while (next) {
		struct running *r = next;
		next = r->hh.next;
		free(r);
	}
	free(s);
}

/* Returns whether the trace is sampled. */
static bool is_sampled(const struct spans *s, const char *traceparent)
{
	return s->base->host.span && traceparent && strlen(traceparent) == TRACEPARENT_BYTES - 1 &&
	    strchr("13579bdf", traceparent[TRACEPARENT_BYTES - 2]);
}

static void put(const struct spans *s, struct span *span, int route)
{
	const struct route *r = routes_get(s->routes, route);
	span->queue = r ? r->queue : "";
	span->type = r ? r->type : "";
	s->base->host.span(s->base->host.arg, span);
}

const char **spans_traceparent(const struct spans *s, struct store_task *task)
{
	return &task->texts[s->submitted];
}

void spans_submitted(struct spans *s, const struct store_task *task, const struct store_created *created)
{
	const char *traceparent = task->texts[s->submitted];
	if (!is_sampled(s, traceparent))
		return;
	put(s,
	    &(struct span){
	        .kind = SPAN_SUBMIT,
	        .traceparent = traceparent,
	        .root = task->begins_trace,
	        .task = created->id,
	        .from_us = created->version,
	        .to_us = created->version,
	    },
	    task->route);
}

static void remember(struct spans *s, const struct store_claimed *claimed, int64_t incarnation)
{
	struct running *r = NULL;
	HASH_FIND(hh, s->running, &claimed->id, sizeof claimed->id, r);
	if (!r) {
		if (HASH_COUNT(s->running) >= RUNNING_MAX)
			forget(s, s->running);
		r = mem_calloc(1, sizeof *r);
		r->id = claimed->id;
		/* The analyzer misses that `forget` unlinks what it frees. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		HASH_ADD(hh, s->running, id, sizeof r->id, r);
	}
	r->token = claimed->token;
	r->worker = incarnation;
	r->attempt = claimed->attempt;
	memcpy(r->traceparent, claimed->texts[s->assigned], sizeof r->traceparent);
}

void spans_claimed(struct spans *s, const struct store_claimed *claimed, int64_t due_us, int64_t incarnation)
{
	if (!is_sampled(s, claimed->texts[s->assigned]))
		return;
	remember(s, claimed, incarnation);
	if (!due_us)
		return;
	put(s,
	    &(struct span){
	        .kind = SPAN_WAIT,
	        .traceparent = claimed->texts[s->assigned],
	        .task = claimed->id,
	        .attempt = claimed->attempt,
	        .from_us = due_us < claimed->token ? due_us : claimed->token,
	        .to_us = claimed->token,
	    },
	    claimed->route);
}

void spans_ended(struct spans *s, const struct store_result *result, int64_t now_us)
{
	struct running *r;
	if (!s->running)
		return;
	HASH_FIND(hh, s->running, &result->id, sizeof result->id, r);
	if (!r || r->token != result->token)
		return;
	put(s,
	    &(struct span){
	        .kind = SPAN_RUN,
	        .traceparent = r->traceparent,
	        .task = r->id,
	        .attempt = r->attempt,
	        .worker = r->worker,
	        .from_us = r->token,
	        .to_us = now_us > r->token ? now_us : r->token,
	        .outcome = store_outcome_name(result->outcome),
	        .problem = result->outcome == STORE_COMPLETED ? NULL
	            : result->error                           ? result->error
	                                                      : "",
	        .error_code = result->outcome == STORE_COMPLETED ? NULL : result->error_code,
	    },
	    result->route);
	forget(s, r);
}
