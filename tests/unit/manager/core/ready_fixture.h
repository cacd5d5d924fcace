/* A core with one route and a Fetch, for the tests of the ready cache. */
#ifndef REEVE_TESTS_UNIT_MANAGER_CORE_READY_FIXTURE_H
#define REEVE_TESTS_UNIT_MANAGER_CORE_READY_FIXTURE_H

#include "manager/core/ready.h"
#include "tests/unit/manager/core/fake_answers.h"

static struct core *core;
static int route;
static struct fake_fetch fetch;

/* Creates a core that knows one route with one stream, of priority 0, and has a Fetch with 10 slots. */
static inline void begin_with(const struct core_options *options)
{
	route = fake_route("q", "t");
	core = fake_core_with(options);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
}

static inline void begin(void)
{
	begin_with(&(struct core_options){0});
}

/* Lets time pass and answers each page that is read with no rows and `next_due_us` (0: nothing becomes due later).
 * Returns the number of those pages. */
static inline int pass_quietly(int64_t ms, int64_t next_due_us)
{
	int pages = 0;

	for (int64_t until = fake.now_ms + ms; fake.now_ms < until;) {
		fake_pass(core, until - fake.now_ms < 5 ? until - fake.now_ms : 5);
		for (struct store_page *page; (page = fake_take(FAKE_PAGE)); pages++)
			fake_page(page, 0, NULL, next_due_us);
	}
	return pages;
}

/* Answers the claim: everything in it is won. */
static inline void claim_all(void)
{
	fake_claim(fake_claim_taken(), 0);
}

static inline void fetch_again(int64_t id)
{
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = id});
}

#endif
