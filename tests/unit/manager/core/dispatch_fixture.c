#include "tests/unit/manager/core/dispatch_fixture.h"

#include "manager/core/ready.h"

#include <criterion/criterion.h>

struct core *core;
int route;

void begin_with(const struct core_options *options, int count)
{
	struct fake_fetch fetch;

	route = fake_route("q", "t");
	core = fake_core_with(options);
	/* A first Fetch makes the ready cache read; its wait is over before the test goes on. */
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 100, .fetch_id = 1, .wait_ms = 1});
	fake_stream(route, 0);
	fake_pass(core, 2);
	cr_assert_eq(fetch.answered, 1);
	fake_page_of(fake_page_taken(route, 0), 1, count, fake_db_us() - 1000000);
	cr_assert_eq(fake_count(FAKE_CLAIM), 0);
}

void begin(int count)
{
	begin_with(&(struct core_options){0}, count);
}

void note(int64_t id, int route_id, int32_t priority, int32_t bytes)
{
	ready_note(core->cache, route_id, priority, id, fake_db_us(), fake_db_us(), bytes);
}
