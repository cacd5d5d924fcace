/* The job runs at least every two seconds, so a lost notification or a jump of the database's clock delays a firing
 * only briefly. */
#include "manager/core/schedules.h"

#include "common/log.h"

#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 50 };

struct schedules {
	struct base *base;
	struct store_schedules_fire query;
};

static void log_run(struct schedules *s, const struct store_fired_task *t)
{
	const char *colon = *t->note ? ": " : "";
	long long late_ms = t->late_us / 1000;
	if (!strcmp(t->outcome, "later")) {
		if (remarks_new(&s->base->remarks, REMARK_RUN_WAITS, t->schedule, t->scheduled_us, base_now(s->base)))
			log_warn(NULL, "schedule \"%s\": the run of %s waits: %s", t->name, t->scheduled, t->note);
		return;
	}
	s->base->counters.firings++;
	if (t->task)
		log_info(NULL, "schedule \"%s\": the run of %s, %lld ms later, %s task %lld%s%s", t->name, t->scheduled,
		    late_ms, !strcmp(t->outcome, "existing") ? "found" : "submitted", (long long)t->task, colon, t->note);
	else if (!strcmp(t->outcome, "acted"))
		log_info(
		    NULL, "schedule \"%s\": the run of %s, %lld ms later%s%s", t->name, t->scheduled, late_ms, colon, t->note);
	else
		log_warn(NULL, "schedule \"%s\": the run of %s was %s%s%s", t->name, t->scheduled, t->outcome, colon, t->note);
}

static void on_polled(struct store_op *op, const struct reeve_error *error)
{
	struct schedules *s = (struct schedules *)((char *)op - offsetof(struct schedules, query));
	jobs_done(s->base->jobs, JOB_SCHEDULES, error, false);
	if (error)
		return;
	for (int i = 0; i < s->query.count; i++)
		log_run(s, &s->query.firings[i]);
	int64_t wait_us = s->query.next_us;
	if (wait_us != STORE_TIME_NEVER)
		jobs_at(s->base->jobs, JOB_SCHEDULES, base_now(s->base) + (wait_us <= 0 ? 0 : wait_us / 1000 + 1));
}

static bool fire_due(void *arg)
{
	struct schedules *s = arg;
	s->query = (struct store_schedules_fire){.op.done = on_polled, .limit = AT_ONCE};
	store_schedules_fire(s->base->store, &s->query);
	return true;
}

struct schedules *schedules_create(struct base *base)
{
	struct schedules *s = mem_calloc(1, sizeof *s);
	s->base = base;
	jobs_bind(base->jobs, JOB_SCHEDULES, fire_due, s);
	return s;
}

void schedules_destroy(struct schedules *schedules)
{
	free(schedules);
}
