/* The dispatcher: halted queues and waiting periods. */
#include "tests/unit/manager/core/dispatch_fixture.h"

#include "manager/core/dispatch_internal.h"
#include "manager/core/ready.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* Changes the settings of the queue "q" and waits until a heartbeat has reported them. */
static void set_queue(struct store_queue settings)
{
	settings.name = "q";
	fake.queues[0] = settings;
	fake.queue_count = 1;
	fake.queue_changes++;
	fake_pass(core, 1100);
}

Test(dispatch, a_queue_that_is_halted_gives_nothing)
{
	struct fake_fetch fetch;

	begin(3);
	set_queue((struct store_queue){.state = STORE_QUEUE_PAUSED});
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_pass(core, 3000);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	cr_expect_eq(fetch.answered, 0);

	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING});
	fake_stream(route, 0);
	while (fake_count(FAKE_PAGE))
		fake_page_of(fake_take(FAKE_PAGE), 1, 3, fake_db_us() - 1000000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 3);
	fake_end(core);
}

/* Claims try no more tasks of a queue than its limit lets execute, as far as known. */
Test(dispatch, a_limit_gives_as_many_as_may_execute)
{
	struct fake_fetch fetch, more;

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .limited = true, .max_running = 2});
	fake_stream(route, 0);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 10});
	while (fake_count(FAKE_PAGE))
		fake_page_of(fake_take(FAKE_PAGE), 1, 4, fake_db_us() - 1000000);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 2);
	cr_expect(claim->limited);
	claim->tries[1].blocked = true; /* another manager has the other permit */
	fake_claim(claim, 2);
	cr_expect_eq(fetch.count, 1);
	/* The room is read again and again while a Fetch waits; what was left waits in its order. */
	fake_fetch(core, &more, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 10});
	fake_pass(core, 300);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	struct store_rooms *rooms = fake_take(FAKE_ROOMS);
	rooms->rooms = &(struct store_queue_room){"q", 1};
	rooms->count = 1;
	fake_ok(rooms);
	claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_eq(claim->tries[0].id, 2);
	fake_claim(claim, 0);
	cr_expect_eq(more.ids[0], 2);
	fake_end(core);
}

/* Tasks of a queue whose limit is reached are not read, while those of others are. When the queue has room again, they
 * still go before lower priorities. */
Test(dispatch, priorities_keep_their_order_when_a_limit_lets_more_execute)
{
	struct fake_fetch first, next;

	begin(0);
	int other = fake_route("q", "u"), free_route = fake_route("r", "t");
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .limited = true, .max_running = 1});
	fake_fetch(core, &first, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 1});
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	ready_rewind(core->cache, route, 9, STORE_TIME_BEGIN);
	base_dispatch(&core->base);
	fake_page_of(fake_page_taken(route, 9), 9, 1, fake_db_us() - 1000000);
	fake_claim(fake_claim_taken(), 0);
	cr_assert_eq(first.ids[0], 9);

	fake_fetch(core, &next, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 4});
	note(5, route, 5, 10);
	ready_rewind(core->cache, other, 7, STORE_TIME_BEGIN);
	for (int i = 0; i < 3; i++) {
		ready_rewind(core->cache, free_route, i, STORE_TIME_BEGIN);
		base_dispatch(&core->base);
		fake_page(fake_page_taken(free_route, i), 0, NULL, 0);
	}
	cr_assert_eq(fake_count(FAKE_PAGE), 0);
	fake_pass(core, 300);
	struct store_rooms *rooms = fake_take(FAKE_ROOMS);
	rooms->rooms = &(struct store_queue_room){"q", 1};
	rooms->count = 1;
	fake_ok(rooms);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "priority 7 is being read");
	fake_page_of(fake_page_taken(other, 7), 7, 1, fake_db_us() - 1000000);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_neq(fake_tries(claim, 7), 0);
	fake_claim(claim, 0);
	fake_end(core);
}

/* Answers pages as if tasks from `first` to `last` were waiting, which were due an hour ago. */
static void answer_pages(int64_t due_us, int64_t first, int64_t last)
{
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));) {
		int64_t from = first;

		if (page->after_run_at_us >= due_us + first)
			from = page->after_run_at_us - due_us + (page->after_id >= page->after_run_at_us - due_us);
		if (from <= last)
			fake_page_of(page, from, (int)(last - from + 1), due_us + from);
		else
			fake_page(page, 0, NULL, 0);
	}
}

/* A claim finds that a queue has a limit, or is halted, which is known here before the claim's answer comes. */
Test(dispatch, a_task_that_its_changed_queue_kept_back_is_read_again)
{
	struct fake_fetch fetch, more;

	begin(0);
	int64_t due_us = fake_db_us() - INT64_C(3600000000);
	ready_rewind(core->cache, route, 0, due_us);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	answer_pages(due_us, 1, 3);
	struct store_claim *claim = fake_claim_taken();
	cr_assert_eq(claim->count, 3);
	fake_fetch(core, &more, (struct fetch_request){.incarnation = 1, .fetch_id = 2});
	fake.queues[0] = (struct store_queue){.name = "q", .state = STORE_QUEUE_RUNNING, .limited = true, .max_running = 2};
	fake.queue_count = 1;
	fake.queue_changes++;
	for (int i = 0; i < 60; i++) {
		answer_pages(due_us, 1, 3);
		fake_pass(core, 20);
	}
	cr_assert_eq(fake_count(FAKE_PAGE), 0);
	fake_claim(claim, 3);
	cr_expect_eq(fetch.count, 2);
	for (int i = 0; i < 10 && !fake_count(FAKE_CLAIM); i++) {
		answer_pages(due_us, 3, 3);
		fake_pass(core, 20);
	}
	claim = fake_claim_taken();
	cr_expect(claim->limited);
	fake_claim(claim, 0);
	cr_expect_eq(more.ids[0], 3);
	fake_end(core);
}

/* A claim finds that a queue has a limit before this manager has loaded any settings. */
Test(dispatch, a_task_that_was_kept_back_before_the_first_load_is_read_again)
{
	struct fake_fetch fetch, more;

	fake_settings_later = true;
	begin(3);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_claim(fake_claim_taken(), 3);
	fake_fetch(core, &more, (struct fetch_request){.incarnation = 1, .fetch_id = 2});
	fake.queues[0] = (struct store_queue){.name = "q", .state = STORE_QUEUE_RUNNING, .limited = true, .max_running = 2};
	fake.queue_count = 1;
	fake_settings_later = false;
	fake_pass(core, 20);
	fake_stream(route, 0);
	fake_page_of(fake_page_taken(route, 0), 3, 1, fake_db_us() - 1000000);
	cr_expect(fake_claim_taken()->limited);
	fake_end(core);
}

/* No worker gets a task in the waiting period of the queue's start or batch, however long it has been up. */
Test(dispatch, a_queue_waits_after_its_start)
{
	struct fake_fetch fetch, unparked;

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .waiting_ms = 5000, .waiting_left_ms = 3000});
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	fake_fetch(core, &unparked, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .wait_ms = -1});
	cr_expect_eq(unparked.answered, 1);
	cr_expect_gt(unparked.retry_after_ms, 2000);
	fake_pass(core, 2500);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "the queue gives its tasks to no worker yet");
	fake_pass(core, 700);
	while (fake_count(FAKE_PAGE))
		fake_page_of(fake_take(FAKE_PAGE), 1, 1, fake_db_us() - 1000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 1);
	fake_end(core);
}

/* The slots of a worker that rest for a queue are for other queues. */
Test(dispatch, a_fetch_takes_fewer_tasks_of_a_queue)
{
	struct fake_fetch fetch;
	const struct fetch_limit limits[] = {{.queue = "q", .slots = 1}};

	begin(3);
	fake_fetch(core, &fetch,
	    (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 3, .limit_count = 1, .limits = limits});
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 1);
	fake_end(core);
}

Test(dispatch, a_fetch_takes_fewer_tasks_of_a_type)
{
	struct fake_fetch fetch;
	const struct fetch_limit limits[] = {
	    {.type = "u", .slots = 0}, {.type = "t", .slots = 2}, {.queue = "q", .slots = 3}};

	begin(3);
	fake_fetch(core, &fetch,
	    (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 3, .limit_count = 3, .limits = limits});
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 2);
	fake_end(core);
}

Test(dispatch, a_worker_waits_before_its_first_task)
{
	struct fake_fetch fresh, busy, unparked;

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .waiting_ms = 5000});
	fake_fetch(core, &fresh, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .idle_ms = 2000});
	fake_stream(route, 0);
	fake_pass(core, 2900);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "the queue gives its tasks to no worker yet");
	fake_fetch(
	    core, &unparked, (struct fetch_request){.incarnation = 3, .fetch_id = 1, .wait_ms = -1, .idle_ms = 1000});
	cr_expect_eq(unparked.answered, 1);
	cr_expect_eq(unparked.retry_after_ms, 4000);
	/* A worker that has had a task does not wait. */
	fake_fetch(core, &busy, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .slots = 1});
	fake_page_of(fake_page_taken(route, 0), 1, 2, fake_db_us() - 1000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(busy.count, 1);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_pass(core, 200);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fresh.count, 1);
	fake_end(core);
}

Test(dispatch, the_worker_that_has_waited_longest_is_let_first)
{
	struct fake_fetch young, old;

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .waiting_ms = 5000});
	fake_fetch(core, &young, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 1, .idle_ms = 1000});
	fake_fetch(core, &old, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .slots = 1, .idle_ms = 3000});
	fake_stream(route, 0);
	fake_pass(core, 1900);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "the queue gives its tasks to no worker yet");
	fake_pass(core, 200);
	fake_page_of(fake_page_taken(route, 0), 1, 2, fake_db_us() - 1000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(old.count, 1);
	cr_expect_eq(young.answered, 0);
	fake_pass(core, 1700);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_pass(core, 300);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(young.count, 1);
	fake_end(core);
}

/* Another worker that accepts the same types has ended before. */
Test(dispatch, workers_that_a_queue_does_not_let_yet_are_passed_over)
{
	struct fake_fetch ended, waits, gets;
	const char *const types[] = {"t", "u"};

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .waiting_ms = 5000});
	fake_fetch(core, &ended, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	note(1, route, 0, 10);
	base_dispatch(&core->base);
	fake_claim(fake_claim_taken(), 0);
	cr_assert_eq(ended.count, 1);

	fake_fetch(core, &waits, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .idle_ms = 1000});
	fake_fetch(core, &gets, (struct fetch_request){.incarnation = 3, .fetch_id = 1, .type_count = 2, .types = types});
	note(2, route, 0, 10);
	base_dispatch(&core->base);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(gets.count, 1);
	cr_expect_eq(waits.answered, 0);
	fake_end(core);
}

/* Lets a Fetch wait that excludes the only task in memory. */
static void begin_with_excluded_task(struct fake_fetch *fetch)
{
	static const int64_t excluded[] = {1};

	begin(1);
	fake_fetch(
	    core, fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .exclude_count = 1, .exclude = excluded});
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	dispatch_run(core->dispatch);
	cr_assert_eq(fake_count(FAKE_CLAIM), 0);
}

Test(dispatch, an_announced_task_is_read_although_those_in_memory_are_excluded)
{
	struct fake_fetch fetch;

	begin_with_excluded_task(&fetch);
	ready_rewind(core->cache, route, 0, fake_db_us() - 1000000);
	base_dispatch(&core->base);
	fake_page_of(fake_page_taken(route, 0), 2, 1, fake_db_us() - 1000000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 1);
	cr_expect_eq(fetch.ids[0], 2);
	fake_end(core);
}

Test(dispatch, an_excluded_task_goes_to_the_next_worker_that_takes_it)
{
	struct fake_fetch fetch, next;

	begin_with_excluded_task(&fetch);
	fake_fetch(core, &next, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(next.count, 1);
	cr_expect_eq(fetch.answered, 0);
	fake_end(core);
}

enum { MANY = 2000, LOG_MANY = 11 };
static struct fake_fetch many[MANY];

/* Parks Fetches with profiles of their own, all of which accept the type "t", and exclude these tasks. */
static void fetch_with_many_profiles(const int64_t *exclude, int exclude_count)
{
	char other[16];
	const char *const types[] = {"t", other};

	for (int i = 0; i < MANY; i++) {
		snprintf(other, sizeof other, "other%d", i);
		fake_fetch(core, &many[i],
		    (struct fetch_request){.incarnation = 1000 + i,
		        .fetch_id = 1,
		        .slots = 1,
		        .type_count = 2,
		        .types = types,
		        .exclude_count = exclude_count,
		        .exclude = exclude});
	}
}

Test(dispatch, tasks_that_all_of_many_profiles_exclude_are_compared_with_each_fetch_once)
{
	static const int64_t excluded[] = {1, 2};
	const char *const t[] = {"t"};
	struct fake_fetch last;
	int64_t before;

	begin(0);
	fetch_with_many_profiles(excluded, 2);
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	before = match_steps(core->dispatch->matching);
	note(1, route, 0, 10);
	note(2, route, 0, 10);
	dispatch_run(core->dispatch);
	cr_expect_leq(match_steps(core->dispatch->matching) - before, 3 * LOG_MANY * MANY, "%lld steps",
	    (long long)(match_steps(core->dispatch->matching) - before));
	before = match_steps(core->dispatch->matching);
	for (int i = 0; i < 100; i++)
		dispatch_run(core->dispatch);
	cr_expect_eq(match_steps(core->dispatch->matching), before, "nothing has changed");
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);

	/* A Fetch that takes one of them gets it. */
	fake_fetch(core, &last,
	    (struct fetch_request){
	        .incarnation = 1, .fetch_id = 1, .type_count = 1, .types = t, .exclude_count = 1, .exclude = excluded});
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(last.count, 1);
	cr_expect_eq(last.ids[0], 2);

	/* A new task goes to the oldest Fetch. */
	note(3, route, 0, 10);
	dispatch_run(core->dispatch);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(many[0].count, 1);
	cr_expect_eq(many[0].ids[0], 3);
	fake_end(core);
}

Test(dispatch, many_profiles_that_get_a_task_each_get_them_in_order_of_arrival)
{
	int64_t before;
	int got = 0;

	begin(0);
	fetch_with_many_profiles(NULL, 0);
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	for (int id = 1; id <= MANY; id++)
		note(id, route, 0, 10);
	before = match_steps(core->dispatch->matching);
	dispatch_run(core->dispatch);
	cr_expect_leq(match_steps(core->dispatch->matching) - before, 4 * LOG_MANY * MANY, "%lld steps",
	    (long long)(match_steps(core->dispatch->matching) - before));
	while (fake_count(FAKE_CLAIM)) {
		fake_claim(fake_claim_taken(), 0);
		while (got < MANY && many[got].answered)
			got++;
		for (int i = 0; i < MANY; i++)
			cr_assert(i < got ? many[i].count == 1 && many[i].ids[0] == i + 1 : !many[i].answered, "%d of %d", i, got);
	}
	cr_expect_eq(got, MANY);
	fake_end(core);
}

/* Returns how many Fetches were checked for the end of their waiting period since the last call, each once. */
static int checked(void)
{
	int count = 0;

	for (struct fetch *f = core->dispatch->fetches; f; f = f->next) {
		count += f->waiting_until_ms != 0;
		f->waiting_until_ms = 0;
	}
	return count;
}

/* A thousand Fetches of twenty profiles, of which the workers started 3 ms apart. While all are in the waiting period,
 * a new task checks one Fetch of each profile, however many there are. Then each gets a task when its own period ends.
 */
Test(dispatch, many_workers_of_many_profiles_wait_before_their_first_task)
{
	enum { FETCHES = 1000, PROFILES = 20, APART_MS = 3 };
	static struct fake_fetch fetches[FETCHES];
	int place[FETCHES]; /* in the order in which their periods end */
	char other[16];
	const char *const types[] = {"t", other};
	int64_t begun_ms;

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .waiting_ms = 5000});
	begun_ms = fake.now_ms;
	for (int i = 0; i < FETCHES; i++) {
		place[i] = i * 617 % FETCHES;
		snprintf(other, sizeof other, "other%d", i % PROFILES);
		fake_fetch(core, &fetches[i],
		    (struct fetch_request){.incarnation = 1000 + i,
		        .fetch_id = 1,
		        .slots = 1,
		        .type_count = 2,
		        .types = types,
		        .idle_ms = 4000 - place[i] * APART_MS});
	}
	for (int id = 1; id <= FETCHES; id++) {
		int64_t before = demand_compared(core->dispatch->demand);

		checked();
		note(id, route, 0, 10);
		dispatch_run(core->dispatch);
		int seen = checked();
		cr_assert(seen > 0 && seen <= PROFILES, "%d Fetches were checked", seen);
		cr_assert_leq(demand_compared(core->dispatch->demand) - before, 4 * PROFILES);
	}
	cr_assert_eq(fake_count(FAKE_CLAIM), 0);
	for (int at = 0; at < FETCHES; at++) {
		fake_pass(core, begun_ms + 1000 + at * APART_MS - fake.now_ms);
		while (fake_count(FAKE_PAGE))
			fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
		while (fake_count(FAKE_CLAIM))
			fake_claim(fake_claim_taken(), 0);
		for (int i = 0; i < FETCHES; i++)
			cr_assert(
			    place[i] <= at ? fetches[i].count == 1 && fetches[i].ids[0] == place[i] + 1 : !fetches[i].answered,
			    "%d at %d", place[i], at);
	}
	fake_end(core);
}
