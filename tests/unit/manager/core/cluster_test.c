/* Several managers: which of them are alive, and how they share the tasks. */
#include "manager/core/cluster.h"

#include "manager/core/dispatch.h"
#include "manager/core/ready.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>

static struct core *core;
static int route;
static struct fake_fetch fetch;

/* Creates one of two managers, of which the other has the odd ids, with a stream of priority 0 and a Fetch with
 * `slots`. */
static void begin_with(int slots, const struct core_options *options)
{
	route = fake_route("q", "t");
	core = fake_core_with(options);
	fake.other_managers = 1;
	fake_pass(core, 1500);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = slots, .wait_ms = 15000});
	while (fake_count(FAKE_STREAMS))
		fake_stream(route, 0);
}

static void begin(int slots)
{
	begin_with(slots, &(struct core_options){0});
}

static struct store_candidate task(int64_t id, int64_t run_at_us)
{
	return (struct store_candidate){.id = id, .version = run_at_us, .run_at_us = run_at_us, .bytes = 10};
}

Test(cluster, managers_with_new_heartbeats_are_live)
{
	core = fake_core();
	fake.other_managers = 2;
	fake_pass(core, 10000);
	cr_expect_eq(cluster_alive(core->cluster), 3);
	fake.others_seq = 1; /* their heartbeats stop */
	fake_pass(core, 2500);
	cr_expect_eq(cluster_alive(core->cluster), 3, "not at once");
	fake_pass(core, 3000);
	cr_expect_eq(cluster_alive(core->cluster), 1);
	fake.others_seq = 0;
	fake_pass(core, 1500);
	cr_expect_eq(cluster_alive(core->cluster), 3);
	fake.other_managers = 0; /* they have stopped, and their rows are no longer in the answer */
	fake_pass(core, 1500);
	cr_expect_eq(cluster_alive(core->cluster), 1);
	fake_end(core);
}

/* Otherwise all managers would regard each other as gone, and send no notifications. */
Test(cluster, that_all_rows_are_locked_says_nothing_of_others)
{
	core = fake_core();
	fake.other_managers = 2;
	fake_pass(core, 10000);
	fake.own_seq = fake.others_seq = 1;
	fake_pass(core, 20000);
	cr_expect_eq(cluster_alive(core->cluster), 3);
	fake.own_seq = 0; /* only the others' rows are */
	fake_pass(core, 6000);
	cr_expect_eq(cluster_alive(core->cluster), 1);
	fake_end(core);
}

Test(cluster, alone_a_manager_reads_everything)
{
	route = fake_route("q", "t");
	core = fake_core();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	cr_expect_eq(fake_page_taken(route, 0)->shards, 1);
	fake_end(core);
}

Test(cluster, with_another_it_reads_its_own_shard)
{
	begin(1);
	struct store_page *page = fake_page_taken(route, 0);
	int64_t due = fake_db_us() - 1000;

	cr_expect_eq(page->shards, 2);
	cr_expect_eq(page->shard, 0);
	page->other = task(11, due);
	fake_page(page, 2, (struct store_candidate[]){task(12, due), task(14, due)}, 0);
	cr_expect_neq(fake_tries(fake_claim_taken(), 12), 0);
	fake_end(core);
}

static void note(int64_t id)
{
	int64_t at_us = fake_db_us() - 1000;

	ready_note(core->cache, route, 0, id, at_us, at_us, 10);
	dispatch_run(core->dispatch);
}

/* Notes 12, then, while its claim is in flight or after its answer, 14 and 15 of the other's shard. Returns whether the
 * next Fetch, of two slots, is to get 15 as well. */
static bool takes_the_newest(int slots, bool answered)
{
	struct store_claim *claim;

	begin(slots);
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	note(12);
	claim = fake_claim_taken();
	if (answered)
		fake_claim(claim, 0);
	note(14);
	note(15);
	if (!answered)
		fake_claim(claim, 0);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 2, .wait_ms = 15000});
	claim = fake_claim_taken();
	cr_expect_neq(fake_tries(claim, 14), 0);
	bool takes = fake_tries(claim, 15) != 0;
	fake_claim(claim, 0);
	fake_end(core);
	return takes;
}

/* Leaving it to the other manager would take several round trips. */
Test(cluster, a_new_task_of_the_other_is_taken_if_a_fetch_has_capacity)
{
	cr_expect(takes_the_newest(3, false));
}

Test(cluster, so_it_is_between_two_fetches_of_a_worker)
{
	cr_expect(takes_the_newest(3, true));
}

Test(cluster, without_capacity_a_new_task_is_left_to_the_other)
{
	cr_expect_not(takes_the_newest(1, false));
	cr_expect_not(takes_the_newest(2, false), "the room is for the one that waits already");
}

/* Room of Fetches for other queues does not count. */
Test(cluster, of_a_call_of_many_tasks_as_many_are_taken_as_fit)
{
	struct fake_fetch others;

	fake_route("r", "t");
	begin(3);
	fake_fetch(core, &others,
	    (struct fetch_request){.incarnation = 2,
	        .fetch_id = 1,
	        .slots = 1000,
	        .queue_count = 1,
	        .queues = (const char *[]){"r"},
	        .wait_ms = 15000});
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	for (int64_t id = 101; id <= 140; id++)
		ready_note(core->cache, route, 0, id, fake_db_us(), fake_db_us() - 1000, 10);
	cr_expect_geq(ready_size(core->cache), 20, "all of its own shard");
	cr_expect_leq(ready_size(core->cache), 20 + 3);
	fake_end(core);
}

/* The other shard is read when none of its own tasks is left: a manager without work takes what there is. */
Test(cluster, with_nothing_of_its_own_it_takes_the_others)
{
	begin(10);
	struct store_page *page = fake_page_taken(route, 0);
	int64_t due = fake_db_us() - 1000;

	page->other = task(11, due);
	fake_page(page, 0, NULL, 0);
	page = fake_page_taken(route, 0);
	cr_expect_eq(page->shards, 1);
	cr_expect(page->after_run_at_us < due || (page->after_run_at_us == due && page->after_id < 11), "from there on");
	fake_page(page, 1, (struct store_candidate[]){task(11, due)}, 0);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 11);
	fake_end(core);
}

/* The manager is busy with its own shard; a page has shown that 11 is the first task of the other shard. Returns true
 * if 11 is tried after a while. `noted`: a task to note before that; may be NULL. */
static bool takes_the_others(const struct store_candidate *noted)
{
	struct store_page *page = fake_page_taken(route, 0);
	int64_t due = fake_db_us() - 1000;
	struct store_candidate rows[60];

	for (int i = 0; i < 60; i++)
		rows[i] = task(12 + 2 * i, due + i);
	page->other = task(11, due);
	fake_page(page, 60, rows, 0);
	struct store_claim *claim = fake_claim_taken();
	bool tried = false;
	int64_t id = 1;
	if (noted)
		ready_note(core->cache, route, 0, noted->id, noted->version, noted->run_at_us, noted->bytes);
	for (; id < 95 && !tried; id++) {
		tried = fake_tries(claim, 11) != 0;
		fake_claim(claim, 0);
		fake_pass(core, 50);
		while (fake_count(FAKE_PAGE))
			fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
		fake_fetch(
		    core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = id + 1, .slots = 1, .wait_ms = 15000});
		claim = fake_take(FAKE_CLAIM);
		if (!claim)
			break;
	}
	/* Task 11 was tried after the rows of its own shard that had been read; now it is won, and the entire stream is
	 * read. */
	if (claim)
		fake_claim(claim, 0);
	return tried || fetch.ids[0] == 11;
}

/* The first task of the other shard is tried after a while; if it can be claimed, the others are read too. */
Test(cluster, what_the_other_does_not_take_is_taken_after_a_while)
{
	begin(1);
	cr_expect(takes_the_others(NULL));
	fake_end(core);
}

/* A task that is too long to send is not tried, however long it has waited. */
Test(cluster, a_task_that_is_too_long_hides_no_other)
{
	begin_with(1, &(struct core_options){.max_sent_bytes = 1000});
	struct store_candidate earlier = task(9, fake_db_us() - 900);

	earlier.bytes = 1001;
	cr_expect(takes_the_others(&earlier));
	fake_end(core);
}

Test(cluster, pages_show_no_task_of_the_other_that_is_too_long)
{
	begin_with(1, &(struct core_options){.max_sent_bytes = 1000});
	cr_expect_eq(fake_page_taken(route, 0)->other_bytes, 1000);
	fake_end(core);
}

/* Answers all requested pages: no task of our own shard is left; of the other shard, those with the odd ids from
 * `first` to 15, due at `due`. */
static void answer_pages(int64_t due, int64_t first)
{
	struct store_page *page;

	while ((page = fake_take(FAKE_PAGE))) {
		struct store_candidate rows[3];
		int count = 0;

		for (int64_t id = first; id <= 15; id += 2)
			if (page->after_run_at_us < due || (page->after_run_at_us == due && page->after_id < id))
				rows[count++] = task(id, due);
		if (page->shards == 2 && count)
			page->other = rows[0];
		fake_page(page, page->shards == 2 || page->limit == 0 ? 0 : count, rows, 0);
	}
}

/* The other manager takes the first skipped task, but not the next, because it has no Fetch for more. The rows are too
 * old for the rescan of the last seconds. */
Test(cluster, all_skipped_tasks_are_claimed_in_turn)
{
	begin(2);
	struct store_page *page = fake_page_taken(route, 0);
	int64_t due = fake_db_us() - 600 * INT64_C(1000000), first = 11;
	struct store_candidate rows[31];
	bool tried[16] = {0};

	for (int i = 0; i < 31; i++)
		rows[i] = task(100 + 2 * i, due + i);
	page->other = task(11, due);
	fake_page(page, 31, rows, 0);
	for (int64_t id = 1; id < 100 && !tried[15]; id++) {
		struct store_claim *claim = fake_take(FAKE_CLAIM);
		int64_t lost = 0;
		for (int64_t other = 11; claim && other <= 15; other += 2)
			if (fake_tries(claim, other)) {
				tried[other] = true;
				first = other + 2;
				lost = other == 11 ? other : 0;
			}
		if (claim)
			fake_claim(claim, lost);
		fake_pass(core, 50);
		answer_pages(due, first);
		struct store_poll *look = fake_take(FAKE_POLL); /* it won nothing: is its worker alive? */
		if (look)
			fake_ok(look);
		if (fetch.answered)
			fake_fetch(core, &fetch,
			    (struct fetch_request){.incarnation = 1, .fetch_id = id + 1, .slots = 2, .wait_ms = 15000});
	}
	cr_expect(tried[11]);
	cr_expect(tried[13]);
	cr_expect(tried[15]);
	fake_end(core);
}

/* To find the first skipped task again is no reason to let the tasks of other types wait. */
Test(cluster, a_lost_try_of_the_others_task_delays_no_other_type)
{
	enum { FRESH = 500 };
	int other = fake_route("q", "other");
	begin(1);
	struct store_page *page = fake_page_taken(route, 0);
	struct store_candidate rows[10];
	int64_t due = fake_db_us() - 1000000;
	struct store_claim *claim;

	for (int i = 0; i < 10; i++)
		rows[i] = task(12 + 2 * i, due + i);
	page->other = task(11, due);
	fake_page(page, 10, rows, 0);
	for (int64_t id = 2; (claim = fake_take(FAKE_CLAIM)) && !fake_tries(claim, 11); id++) {
		fake_claim(claim, 0);
		fake_pass(core, 60);
		while (fake_count(FAKE_PAGE))
			fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
		fake_fetch(
		    core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = id, .slots = 1, .wait_ms = 15000});
	}
	cr_assert_not_null(claim);
	fake_claim(claim, 11);
	struct store_poll *look = fake_take(FAKE_POLL); /* it won nothing: is its worker alive? */
	look->lost = false;
	fake_ok(look);
	ready_note(core->cache, other, 0, FRESH, fake_db_us(), fake_db_us() - 1000, 10);
	dispatch_run(core->dispatch);
	cr_expect_neq(fake_tries(fake_claim_taken(), FRESH), 0);
	fake_end(core);
}

/* The others take over the shard of a manager that is gone, from the beginning. */
Test(cluster, the_shard_of_one_that_is_gone_is_taken_over)
{
	begin(10);
	struct store_page *page = fake_page_taken(route, 0);
	int64_t due = fake_db_us() - 1000;

	fake_page(page, 0, NULL, 0);
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	fake.others_seq = 1;
	for (int i = 0; i < 100 && cluster_alive(core->cluster) > 1; i++) {
		fake_pass(core, 100);
		while (cluster_alive(core->cluster) > 1 && fake_count(FAKE_PAGE))
			fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	}
	cr_assert_eq(cluster_alive(core->cluster), 1);
	while (fake_count(FAKE_STREAMS))
		fake_stream(route, 0);
	page = NULL;
	while (fake_count(FAKE_PAGE)) {
		page = fake_take(FAKE_PAGE);
		if (page->shards == 1)
			break;
		fake_page(page, 0, NULL, 0);
		page = NULL;
	}
	cr_assert_not_null(page);
	cr_expect_eq(page->after_run_at_us, STORE_TIME_BEGIN);
	fake_page(page, 1, (struct store_candidate[]){task(11, due)}, 0);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 11);
	fake_end(core);
}

/* Each type gets each n-th id if as many types are submitted in turn. */
Test(cluster, types_that_are_submitted_in_turn_have_tasks_in_all_shards)
{
	for (int shards = 2; shards <= 4; shards++)
		for (int64_t step = 1; step <= 1000; step++) {
			int last[4] = {0};

			for (int i = 1; i < 3000; i++) {
				last[ready_shard_of(i * step, shards)] = i;
				for (int shard = 0; shard < shards; shard++)
					cr_assert_lt(i - last[shard], 1500, "%d shards, each %d-th id", shards, (int)step);
			}
		}
}

/* tests/e2e/schema.sh has the same ids for the function in SQL. */
Test(cluster, shards_are_those_of_the_database)
{
	static const int64_t ids[] = {1, 118, 361, 88570, 1743392197, 34315188682438};
	static const int shards[] = {1, 1, 0, 0, 5, 6};

	for (int i = 0; i < 6; i++)
		cr_expect_eq(ready_shard_of(ids[i], 7), shards[i]);
}
