#include "tests/faults/plan.h"

#include <stddef.h>
#include <stdio.h>

enum { STEPS_MAX = 8 };

/* The ends of steps, with cumulative percentages. */
static const struct {
	const char *way;
	unsigned below;
} ways[] = {
    {"", 60}, {">a", 66}, {">b", 72}, {">c", 78}, {">d", 84}, {".", 91}, {"!", 95}, {"-", 98}, {">nowhere", 100}};

void plan_draw(uint64_t (*draw)(void *arg, uint64_t below), void *arg, char *plan)
{
	size_t used = (size_t)snprintf(plan, PLAN_BYTES, "plan=");

	if (draw(arg, 100) < 3) {
		snprintf(plan, PLAN_BYTES, "plan=2>b/1 loop"); /* until max_steps is reached */
		return;
	}
	for (uint64_t steps = 1 + draw(arg, STEPS_MAX); steps > 0; steps--) {
		unsigned ms = 1 + (unsigned)draw(arg, 60), at = (unsigned)draw(arg, 100);
		char fails[16] = "";
		size_t i = 0;

		if (draw(arg, 100) < 15)
			snprintf(fails, sizeof fails, "f%u", 1 + (unsigned)draw(arg, 2));
		while (ways[i].below <= at)
			i++;
		used +=
		    (size_t)snprintf(plan + used, PLAN_BYTES - used, "%u%s%s%s", ms, fails, ways[i].way, steps > 1 ? "/" : "");
	}
}
