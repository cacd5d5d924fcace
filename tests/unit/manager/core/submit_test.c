/* Submits, reports and manual changes: their effects on the ready cache, waiting calls and workers. */
#include "manager/core/submit.h"

#include "common/uuid.h"
#include "manager/core/edit.h"
#include "manager/core/ready.h"
#include "manager/core/report.h"
#include "manager/core/waits.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <string.h>

static struct core *core;
static int route;
static struct fake_fetch fetch;
static uint8_t request[UUID_BYTES];

struct told {
	int calls;
	reeve_status code;
	int64_t id;
};

/* Creates a core that knows one route with one empty stream; a Fetch waits. */
static void begin(void)
{
	route = fake_route("q", "t");
	core = fake_core();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	uuid7_make(fake_db_us() / 1000, request);
}

static void on_submitted(void *arg, const struct store_created *created, const struct reeve_error *error)
{
	struct told *told = arg;

	told->calls++;
	told->code = error ? error->code : STATUS(OK);
	told->id = error ? 0 : created[0].id;
}

/* Submits one task and answers the submit. */
static void submit(struct told *told, struct store_task *task, const struct store_created *created, int created_count)
{
	*told = (struct told){0};
	submit_tasks(core->submits, request, task, 1, fake.now_ms + 5000, 0, on_submitted, told);
	fake_turn(core); /* the routes, if they had to be created */
	struct store_submit *op = fake_take(FAKE_SUBMIT);

	cr_assert_not_null(op);
	cr_assert_eq(op->count, 1);
	cr_assert_gt(op->tasks[0].route, 0);
	cr_assert_eq(told->calls, 0, "not before it is committed");
	struct store_created copy = *created;
	op->created = &copy;
	op->created_count = created_count;
	fake_ok(op);
	cr_assert_eq(told->calls, 1);
}

Test(submit, a_created_task_is_claimed_without_a_query)
{
	struct store_task task = {.queue = "q", .type = "t", .details = "d"};
	struct told told;

	begin();
	submit(&told, &task,
	    &(struct store_created){.id = 5, .created = true, .version = fake_db_us(), .run_at_us = fake_db_us()}, 1);
	cr_expect_eq(told.code, STATUS(OK));
	cr_expect_eq(told.id, 5);
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 5);
	fake_end(core);
}

/* A statement wakes a PostgreSQL backend when it is sent, and that may take the processor: answers must not wait for
 * it. */
Test(submit, the_answer_comes_before_the_claim_and_one_claim_is_for_all)
{
	struct store_task tasks[] = {
	    {.queue = "q", .type = "t", .details = "d"}, {.queue = "q", .type = "t", .details = "d"}};
	struct told told;

	begin();
	fake.dispatch_later = true;
	for (int i = 0; i < 2; i++)
		submit(&told, &tasks[i],
		    &(struct store_created){.id = 5 + i, .created = true, .version = fake_db_us(), .run_at_us = fake_db_us()},
		    1);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	core_dispatch(core);
	cr_expect_eq(fake_count(FAKE_CLAIM), 1);
	cr_expect_eq(fake_claim_taken()->count, 2);
	fake_end(core);
}

Test(submit, routes_are_created_first)
{
	struct store_task task = {.queue = "new", .type = "t", .details = "d"};
	struct told told;

	begin();
	submit(&told, &task,
	    &(struct store_created){.id = 5, .created = true, .version = fake_db_us(), .run_at_us = fake_db_us()}, 1);
	cr_expect_eq(told.code, STATUS(OK));
	cr_expect_neq(task.route, route);
	cr_expect_neq(task.route, 0);

	told = (struct told){0};
	fake.down = true;
	task = (struct store_task){.queue = "newer", .type = "t", .details = "d"};
	submit_tasks(core->submits, request, &task, 1, fake.now_ms + 5000, 0, on_submitted, &told);
	fake_turn(core);
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.code, STATUS(UNAVAILABLE));
	cr_expect_eq(fake_count(FAKE_SUBMIT), 0);
	fake_end(core);
}

/* The manager that created the task may have died before it could notify the others. */
Test(submit, what_an_earlier_copy_created_is_queried)
{
	struct store_task task = {.queue = "q", .type = "t", .details = "d"};
	struct told told;

	begin();
	submit(&told, &task, &(struct store_created){.id = 5}, 1);
	cr_expect_eq(told.id, 5);
	cr_expect_eq(fake_page_taken(route, 0)->after_run_at_us, STORE_TIME_BEGIN);
	fake_end(core);
}

Test(submit, a_keys_older_task_is_nothing_new)
{
	struct store_task task = {.queue = "q", .type = "t", .details = "d", .key = "k"};
	struct told told;

	begin();
	submit(&told, &task, &(struct store_created){.id = 5, .existing = true}, 1);
	cr_expect_eq(told.id, 5);
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	fake_end(core);
}

Test(submit, request_ids_of_other_calls_are_refused)
{
	struct store_task task = {.queue = "q", .type = "t", .details = "d"};
	struct told told;

	begin();
	submit(&told, &task, &(struct store_created){.id = 5}, 3);
	cr_expect_eq(told.code, STATUS(INVALID_ARGUMENT));
	submit(&told, &task, &(struct store_created){.id = 5}, -1);
	cr_expect_eq(told.code, STATUS(ABORTED));
	fake_end(core);
}

Test(submit, request_ids_are_good_for_a_day)
{
	struct reeve_error error;
	int64_t now_ms;

	begin();
	now_ms = fake_db_us() / 1000;
	cr_expect(request_id_timely(core->clock, request, &error));
	uuid7_make(now_ms - 23 * 3600 * 1000, request);
	cr_expect(request_id_timely(core->clock, request, &error));
	uuid7_make(now_ms + 60 * 1000, request);
	cr_expect(request_id_timely(core->clock, request, &error));
	memset(request, 0x44, sizeof request);
	cr_expect_not(request_id_timely(core->clock, request, &error));
	cr_expect_eq(error.code, STATUS(INVALID_ARGUMENT));
	fake_end(core);
}

Test(submit, older_request_ids_are_refused)
{
	struct reeve_error error;

	begin();
	/* An id whose time is long ago. */
	uint64_t ms = (uint64_t)(fake_db_us() / 1000 - 25 * 3600 * 1000);
	for (int i = 0; i < 6; i++)
		request[i] = (uint8_t)(ms >> 8 * (5 - i));
	cr_expect_not(request_id_timely(core->clock, request, &error));
	cr_expect_eq(error.code, STATUS(FAILED_PRECONDITION));
	ms = (uint64_t)(fake_db_us() / 1000 + 3 * 3600 * 1000);
	for (int i = 0; i < 6; i++)
		request[i] = (uint8_t)(ms >> 8 * (5 - i));
	cr_expect_not(request_id_timely(core->clock, request, &error));
	cr_expect_eq(error.code, STATUS(INVALID_ARGUMENT));
	fake_end(core);
}

/* --- Reports ------------------------------------------------------------------------------------------------------ */

static int reported;

static void on_reported(struct store_op *op, const struct reeve_error *error)
{
	(void)op;
	cr_expect_null(error);
	reported++;
}

static void on_wait(void *arg, int asked, const int64_t *ended, int count, const struct reeve_error *error)
{
	(void)asked, (void)ended, (void)error;
	*(int *)arg = count;
}

static void wait_for(int64_t id, int *ended)
{
	*ended = -1;
	waits_add(core->waits, &id, 1, 60000, 0, on_wait, ended, NULL);
	struct store_ended *look = fake_take(FAKE_ENDED);

	look->live = &id;
	look->live_count = 1;
	look->ended_count = 0;
	fake_ok(look);
}

Test(report, ended_tasks_are_reported_and_requeued_ones_are_candidates)
{
	struct store_result results[] = {
	    {.id = 1, .token = 1, .outcome = STORE_COMPLETED},
	    {.id = 2, .token = 1, .outcome = STORE_RETURNED},
	    {.id = 3, .token = 1, .outcome = STORE_FAILED},
	    {.id = 4, .token = 1, .outcome = STORE_COMPLETED},
	};
	int first, late;

	begin();
	wait_for(1, &first);
	wait_for(4, &late);
	struct store_report report = {
	    .op.done = on_reported, .incarnation = 1, .actor = "w", .count = 4, .results = results};
	report_results(core->reports, &report);
	struct store_report *op = fake_take(FAKE_REPORT);
	int64_t now = fake_db_us();
	op->results[0].ended = true;
	op->results[0].becomes = "completed";
	op->results[1].becomes = op->results[2].becomes = "failed";
	op->results[1].route = op->results[2].route = route;
	op->results[1].version = op->results[1].due_us = now;
	op->results[2].version = now;
	op->results[2].due_us = now + 1000000;
	op->results[3].ack = STORE_LATE;
	op->results[3].ended = true;
	op->results[3].becomes = "completed";
	fake_ok(op);
	cr_expect_eq(reported, 1);
	cr_expect_eq(first, 1);
	cr_expect_eq(late, -1, "a late result ends nothing");
	fake_page(fake_page_taken(route, 0), 1, &(struct store_candidate){2, now, now, 10}, now + 1000000);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_eq(fake_tries(claim, 2), now);
	fake_claim(claim, 0);
	cr_expect_eq(core->base.counters.late, 1);
	fake_end(core);
}

/* A report whose connection broke during the first try: the changes of that try were never applied here. */
Test(report, after_an_unknown_try_everything_is_read)
{
	struct store_result results[] = {{.id = 1, .token = 1, .outcome = STORE_RETURNED}};

	begin();
	struct store_report report = {.op.done = on_reported, .incarnation = 1, .count = 1, .results = results};
	report_results(core->reports, &report);
	struct store_report *op = fake_take(FAKE_REPORT);
	op->results[0].ack = STORE_REPEATED;
	op->results[0].ended = true;
	op->results[0].becomes = "completed";
	op->op.again = true;
	fake_ok(op);
	cr_expect_eq(fake_count(FAKE_STREAMS), 1);
	fake_end(core);
}

/* --- Manual changes ----------------------------------------------------------------------------------------------- */

static int edited;

static void on_edited(struct store_op *op, const struct reeve_error *error)
{
	(void)op;
	edited += !error;
}

static void edit_tried(enum store_edit_kind kind, struct store_edited *tasks, int count, bool again)
{
	int64_t id = tasks[0].id;
	struct store_edit given = {.op.done = on_edited, .kind = kind, .count = 1, .ids = &id, .actor = "me", .reason = ""};

	edited = 0;
	edit_tasks(core->edits, &given);
	struct store_edit *op = fake_take(FAKE_EDIT);
	cr_assert_not_null(op);
	op->tasks = tasks;
	op->found = count;
	op->op.again = again;
	fake_ok(op);
	cr_expect_eq(edited, 1);
}

static void edit(enum store_edit_kind kind, struct store_edited *tasks, int count)
{
	edit_tried(kind, tasks, count, false);
}

Test(edit, a_cancelled_task_is_no_candidate_and_its_waiters_are_notified)
{
	struct store_edited task = {.id = 7, .status = "cancelled", .changed = true, .ended = true};
	int ended;

	begin();
	ready_note(core->cache, route, 0, 7, fake_db_us(), fake_db_us(), 10);
	wait_for(7, &ended);
	cr_expect_eq(ready_size(core->cache), 1);
	edit(STORE_CANCEL, &task, 1);
	cr_expect_eq(ready_size(core->cache), 0);
	cr_expect_eq(ended, 1);
	cr_expect_eq(core->base.counters.ended, 1);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_end(core);
}

Test(edit, the_worker_of_a_running_task_is_notified)
{
	struct store_edited task = {.id = 7, .status = "executing", .changed = true, .commanded_worker = 1, .token = 12};

	begin();
	edit(STORE_CANCEL, &task, 1);
	cr_expect_eq(fetch.answered, 1);
	cr_expect_eq(fetch.commands, 1);
	fake_end(core);
}

Test(edit, a_retried_task_is_a_candidate)
{
	begin();
	int64_t now = fake_db_us();
	struct store_edited task = {
	    .id = 7, .status = "queued", .changed = true, .waits = true, .route = route, .version = now, .due_us = now};

	edit(STORE_RETRY, &task, 1);
	fake_page(fake_page_taken(route, 0), 1, &(struct store_candidate){7, now, now, 10}, 0);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 7);
	fake_end(core);
}

/* An edit whose connection broke during the first try: the database only knows that the edit was made, not what it
 * changed. */
Test(edit, after_an_unknown_try_everything_is_read)
{
	struct store_edited task = {.id = 7, .status = "queued", .changed = true};

	begin();
	edit_tried(STORE_UPDATE, &task, 1, true);
	cr_expect_eq(fake_count(FAKE_STREAMS), 1);
	fake_end(core);
}

/* Another manager has just created the route. */
Test(edit, the_routes_are_read_if_the_task_has_one_that_is_not_known_here)
{
	begin();
	fake_pass(core, 100); /* the pause after the first load */
	int64_t now = fake_db_us();
	struct store_edited task = {.id = 7,
	    .status = "queued",
	    .changed = true,
	    .waits = true,
	    .route = fake_route("new", "t"),
	    .version = now,
	    .due_us = now};

	edit(STORE_RETRY, &task, 1);
	core_turn(core);
	cr_expect_eq(fake_count(FAKE_ROUTES), 1);
	fake_turn(core);
	fake_stream(task.route, 0);
	fake_page(fake_page_taken(task.route, 0), 1, &(struct store_candidate){7, now, now, 10}, 0);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 7);
	fake_end(core);
}

Test(submit, a_pipelines_task_is_as_its_first_stage_says)
{
	struct store_task task = {.queue = "q",
	    .type = "",
	    .details = "d",
	    .pipeline = "p",
	    .priority = 3,
	    .own_priority = true,
	    .timeout_ms = 1};
	struct store_pipeline_start start = {
	    .pipeline_id = 9, .stage = "one", .type = "t", .max_attempts = 7, .timeout_ms = 50, .retry_max_ms = 20};
	struct told told = {0};

	begin();
	submit_tasks(core->submits, request, &task, 1, fake.now_ms + 5000, 0, on_submitted, &told);
	struct store_pipelines_start *lookup = fake_take(FAKE_PIPELINES);
	cr_assert_not_null(lookup);
	cr_assert_eq(lookup->count, 1);
	cr_assert_str_eq(lookup->names[0], "p");
	cr_assert_str_eq(lookup->queues[0], "q");
	lookup->starts = &start;
	fake_ok(lookup);
	struct store_submit *op = fake_take(FAKE_SUBMIT);
	cr_assert_not_null(op);
	const struct store_task *t = &op->tasks[0];
	cr_assert_eq(t->pipeline_id, 9);
	cr_assert_str_eq(t->stage, "one");
	cr_assert_str_eq(t->type, "t");
	cr_assert_eq(t->route, route);
	cr_assert_eq(t->priority, 3, "the stage says none");
	cr_assert_eq(t->max_attempts, 7);
	cr_assert_eq(t->timeout_ms, 50);
	cr_assert_eq(t->retry_base_ms, 0, "the queue's resting period is not its");
	cr_assert_eq(t->retry_max_ms, 20);
	struct store_created created = {.id = 5, .created = true, .version = fake_db_us(), .run_at_us = fake_db_us()};
	op->created = &created;
	op->created_count = 1;
	fake_ok(op);
	cr_assert_eq(told.id, 5);
	fake_end(core);
}

Test(submit, an_unknown_pipeline_is_reported)
{
	struct store_task task = {.queue = "q", .type = "", .details = "d", .pipeline = "p"};
	struct told told = {0};

	begin();
	submit_tasks(core->submits, request, &task, 1, fake.now_ms + 5000, 0, on_submitted, &told);
	struct store_pipelines_start *lookup = fake_take(FAKE_PIPELINES);
	cr_assert_not_null(lookup);
	fake_fail(lookup, STATUS(NOT_FOUND));
	cr_assert_eq(told.calls, 1);
	cr_assert_eq(told.code, STATUS(NOT_FOUND));
	fake_end(core);
}
