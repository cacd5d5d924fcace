/* The tasks of fault-submitter: random kinds, types and plans. */
#include "tests/faults/plan.h"
#include "tests/faults/submitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of tasks. The duration of a run is random, between min_ms and max_ms. */
static const struct kind {
	const char *name;
	int min_ms, max_ms;
	const char *rest; /* of the details */
	uint32_t max_attempts;
	int64_t timeout_ms, delay_ms;
} kinds[] = {
    {"tiny", 0, 1, "then=complete", 20, 8000, 0},
    {"short", 1, 50, "then=complete", 20, 8000, 0},
    {"medium", 100, 600, "then=complete", 20, 8000, 0},
    {"long", 1500, 4000, "then=complete", 20, 8000, 0},
    {"recover", 5, 60, "fail=2", 20, 8000, 0},
    {"fail", 5, 60, "then=fail", 3, 8000, 0},
    {"fatal", 5, 60, "then=fatal", 5, 8000, 0},
    {"delayed", 5, 60, "then=complete", 20, 8000, 1500},
    {"hang", 0, 0, "then=hang", 2, 1000, 0},
    {"stubborn", 1500, 2500, "stubborn", 2, 1000, 0},
    {"crash", 5, 60, "crash=1", 20, 8000, 0},
    {"poison", 5, 60, "then=crash", 3, 8000, 0},
};

uint64_t draw(struct submitter *me, uint64_t below)
{
	uint64_t x = me->random; /* splitmix64 */

	me->random = x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (x ^ (x >> 31)) % below;
}

static const char *choose(struct submitter *me, const struct choices *choices)
{
	unsigned at = (unsigned)draw(me, choices->total);
	int i = 0;

	while (at >= choices->list[i].weight)
		at -= choices->list[i++].weight;
	return choices->list[i].name;
}

static const struct kind *kind_of(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

bool read_choices(struct choices *choices, const char *text)
{
	char *copy = strdup(text), *rest = NULL;

	if (!copy)
		abort();
	*choices = (struct choices){0};
	for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		struct choice *choice = &choices->list[choices->count];

		if (choices->count == CHOICES_MAX || sscanf(word, "%63[^=]=%u", choice->name, &choice->weight) != 2) {
			free(copy);
			return false;
		}
		choices->total += choice->weight;
		choices->count++;
	}
	free(copy);
	return choices->total > 0;
}

bool known_kinds(const struct choices *mix)
{
	for (int i = 0; i < mix->count; i++)
		if (!kind_of(mix->list[i].name))
			return false;
	return true;
}

static uint64_t draw_for_plan(void *me, uint64_t below)
{
	return draw(me, below);
}

static void add_piped_task(struct submitter *me, struct call *call)
{
	char *name = call->names[call->count], *details = call->details[call->count], plan[PLAN_BYTES];

	plan_draw(draw_for_plan, me, plan);
	snprintf(name, sizeof call->names[0], "%.64s-%ld", options.name, atomic_fetch_add(&numbers, 1) + 1);
	snprintf(details, sizeof call->details[0], "%.100s %s", name, plan);
	call->specs[call->count++] = (Reeve__V1__TaskSpec){.pipeline = options.pipeline,
	    .details = details,
	    .priority = options.priority + (int32_t)draw(me, 3),
	    .queue = options.queue,
	    .batch_id = call->batch,
	    .key = draw(me, 100) < options.keyed ? name : NULL};
}

static void add_plain_task(struct submitter *me, struct call *call)
{
	const struct kind *kind = kind_of(choose(me, &options.mix));
	static Reeve__V1__RetryPolicy retry = {.base_ms = 100, .max_ms = 1000};
	int run_ms = kind->min_ms + (int)draw(me, (uint64_t)(kind->max_ms - kind->min_ms) + 1);
	char *name = call->names[call->count], *details = call->details[call->count];

	snprintf(name, sizeof call->names[0], "%.120s-%ld", options.name, atomic_fetch_add(&numbers, 1) + 1);
	snprintf(details, sizeof call->details[0], "%s run=%d %s", name, run_ms, kind->rest);
	call->specs[call->count++] = (Reeve__V1__TaskSpec){.type = choose(me, &options.types),
	    .details = details,
	    .max_attempts = kind->max_attempts,
	    .timeout_ms = kind->timeout_ms,
	    .delay_ms = kind->delay_ms,
	    .retry = &retry,
	    .priority = options.priority + (int32_t)draw(me, 3),
	    .queue = options.queue,
	    .batch_id = call->batch,
	    .key = draw(me, 100) < options.keyed ? name : NULL};
}

void add_task(struct submitter *me, struct call *call)
{
	if (options.pipeline && draw(me, 100) < options.piped)
		add_piped_task(me, call);
	else
		add_plain_task(me, call);
}
