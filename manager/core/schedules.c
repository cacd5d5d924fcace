/* One look at a time. Whatever is missed, a word of another manager or a leap of the database's clock, is found before
 * long: it is asked every two seconds at least, which costs the database next to nothing. */
#include "manager/core/schedules.h"

#include "common/log.h"

#include <stdlib.h>
#include <string.h>

enum { AGAIN_MS = 2000, AFTER_ERROR_MS = 1000, AT_ONCE = 50 };

struct schedules {
	struct core *core;
	bool busy, changed;
	int64_t next_ms;
	struct store_schedules_tick look;
};

struct schedules *schedules_create(struct core *core)
{
	struct schedules *s = mem_calloc(1, sizeof *s);
	s->core = core;
	return s;
}

void schedules_destroy(struct schedules *schedules)
{
	free(schedules);
}

static void tell(struct schedules *s, const struct store_tick_made *t)
{
	const char *colon = *t->note ? ": " : "";
	long long late_ms = t->late_us / 1000;
	if (!strcmp(t->outcome, "later")) {
		if (remarks_new(&s->core->remarks, REMARK_TICK_WAITS, t->schedule, t->planned_us, core_now(s->core)))
			log_warn(NULL, "schedule \"%s\": the tick of %s waits: %s", t->name, t->planned, t->note);
		return;
	}
	s->core->counters.ticks++;
	if (t->task)
		log_info(NULL, "schedule \"%s\": the tick of %s, %lld ms later, %s task %lld%s%s", t->name, t->planned,
		    late_ms, !strcmp(t->outcome, "existing") ? "found" : "submitted", (long long)t->task, colon,
		    t->note);
	else if (!strcmp(t->outcome, "acted"))
		log_info(NULL, "schedule \"%s\": the tick of %s, %lld ms later%s%s", t->name, t->planned, late_ms,
		    colon, t->note);
	else
		log_warn(NULL, "schedule \"%s\": the tick of %s was %s%s%s", t->name, t->planned, t->outcome, colon,
		    t->note);
}

static void on_looked(struct store_op *op, const struct reeve_error *error)
{
	struct schedules *s = (struct schedules *)((char *)op - offsetof(struct schedules, look));
	int64_t wait_ms = AFTER_ERROR_MS;
	s->busy = false;
	if (!error) {
		for (int i = 0; i < s->look.count; i++)
			tell(s, &s->look.ticks[i]);
		wait_ms = s->look.next_us >= AGAIN_MS * 1000 ? AGAIN_MS
		          : s->look.next_us <= 0             ? 0
		                                             : s->look.next_us / 1000 + 1;
	}
	s->next_ms = s->changed ? 0 : core_now(s->core) + wait_ms;
	s->changed = false;
	core_alarm(s->core, s->next_ms);
}

void schedules_look(struct schedules *s)
{
	s->changed = s->busy; /* what is under way may have looked before */
	s->next_ms = 0;
	if (!s->busy)
		core_alarm(s->core, core_now(s->core));
}

int64_t schedules_turn(struct schedules *s, int64_t now_ms)
{
	if (s->busy)
		return INT64_MAX;
	if (now_ms < s->next_ms)
		return s->next_ms;
	s->busy = true;
	s->look = (struct store_schedules_tick){.op.done = on_looked, .limit = AT_ONCE};
	store_schedules_tick(s->core->store, &s->look);
	return INT64_MAX;
}
