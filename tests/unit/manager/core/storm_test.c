/*
 * A random stress test ("storm") of the core on a database that is a table in memory. Another manager works on the same
 * rows, and every operation begins, commits and is answered at random times. The core must not lose sight of a task:
 * when all has become quiet, every due task is claimed within seconds, without the full rescan that runs once a minute.
 * And no version of a task is claimed twice.
 *
 * Workers do not read their answers at times. There are up to three other managers, and they come and go, so that the
 * core has one of up to four shards of the ids.
 *
 * A number determines each storm: the same number gives the same storm. REEVE_STORM=NUMBER runs only that one.
 */
#include "tests/unit/manager/core/storm.h"

#include "common/uuid.h"
#include "manager/core/edit.h"
#include "manager/core/report.h"
#include "manager/core/submit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NOTIFICATIONS = 64, WORKERS = 4, STORMS = 90, STEPS = 1500, QUIET_MS = 6000, LONG_QUIET_MS = 20000 };

/* A change that the other manager has begun and not committed. */
struct foreign {
	int row;
	enum row_state state;
	int32_t priority;
	int64_t version, run_at;
};

struct hand { /* a worker of ours */
	struct fake_fetch fetch;
	bool fetching;
	int64_t fetch_id;
	int held[FAKE_WON_MAX];
	int count;
	bool backlogged; /* it does not read its answers */
};

static struct core *core;
static struct foreign foreign[16];
static int foreign_count;
static char notifier[NOTIFICATIONS][96];
static int wake_count;
static struct hand hands[WORKERS + 1];
static int routes[3];
static bool quiet;          /* no new work is created */
static uint32_t priorities; /* number of them; if there are many, the ready cache keeps only two of a route */

static void wake(int route, int32_t priority, int64_t run_at)
{
	static int64_t earliest; /* of the undelivered notifications */

	earliest = wake_count && earliest < run_at ? earliest : run_at;
	if (wake_count == NOTIFICATIONS) /* too many: replaced by one about any stream */
		wake_count = 0, route = 0, run_at = earliest;
	snprintf(notifier[wake_count++], sizeof *notifier, "%d %d %d %lld", FAKE_MANAGER + 1, route, priority,
	    (long long)run_at);
}

/* --- Sources of work ---------------------------------------------------------------------------------------------- */

struct own_submit {
	struct store_task tasks[3];
};

static void on_submitted(void *arg, const struct store_created *created, const struct reeve_error *error)
{
	(void)created, (void)error;
	free(arg);
}

static void submit_some(void)
{
	static const char *const types[] = {"a", "b", "c"};
	struct own_submit *s = calloc(1, sizeof *s);
	uint8_t request[UUID_BYTES];
	int count = 1 + (int)storm_chance(3);

	for (int i = 0; i < count; i++)
		s->tasks[i] = (struct store_task){.queue = "q",
		    .type = types[storm_chance(3)],
		    .details = "0123456789",
		    .priority = (int32_t)storm_chance(priorities),
		    .delay_ms = storm_chance(4) ? 0 : storm_chance(2000)};
	uuid7_make(fake_db_us() / 1000, request);
	submit_tasks(core->submits, request, s->tasks, count, fake.now_ms + 60000, 0, on_submitted, s);
}

struct own_edit {
	struct store_edit op;
	int64_t id;
	char change[40];
};

static void on_edited(struct store_op *op, const struct reeve_error *error)
{
	(void)error;
	free(op);
}

static void edit_some(void)
{
	struct own_edit *e = calloc(1, sizeof *e);

	e->id = 1 + (int64_t)storm_chance((uint32_t)row_count);
	if (rows[e->id].state != ROW_WAITS) {
		free(e);
		return;
	}
	e->op = (struct store_edit){.op.done = on_edited,
	    .kind = STORE_UPDATE,
	    .count = 1,
	    .ids = &e->id,
	    .actor = "",
	    .reason = "",
	    .change = e->change};
	snprintf(e->change, sizeof e->change, "{\"priority\":%u}", storm_chance(priorities));
	edit_tasks(core->edits, &e->op);
}

/* The other manager submits, claims, ends and changes tasks. If a committed change matters to others, it sends a
 * notification. */
static void other_begins(void)
{
	struct foreign *f = &foreign[foreign_count];
	int64_t now = fake_db_us();

	if (foreign_count == sizeof foreign / sizeof *foreign || row_count >= STORM_ROWS - 10)
		return;
	if (!quiet && storm_chance(4) == 0) {
		rows[++row_count] = (struct row){
		    .route = routes[storm_chance(3)], .priority = (int32_t)storm_chance(priorities), .locked = true};
		*f = (struct foreign){
		    row_count, ROW_WAITS, rows[row_count].priority, now, now + (storm_chance(4) ? 0 : storm_chance(2000000))};
		foreign_count++;
		return;
	}
	f->row = 1 + (int)storm_chance((uint32_t)row_count);
	struct row *r = &rows[f->row];
	if (r->locked || (quiet && r->state == ROW_WAITS))
		return;
	*f = (struct foreign){f->row, r->state, r->priority, storm_later(r->version, now), r->run_at};
	if (r->state == ROW_WAITS && storm_chance(3) == 0) {
		f->priority = (int32_t)storm_chance(priorities);
	} else if (r->state == ROW_WAITS && r->run_at <= now) {
		f->state = ROW_RUNS;
	} else if (r->state == ROW_RUNS && r->worker == 0) {
		f->state = storm_chance(3) ? ROW_OVER : ROW_WAITS;
		f->run_at = f->version + (storm_chance(2) ? 0 : storm_chance(1500000));
	} else {
		return;
	}
	r->locked = true;
	foreign_count++;
}

static void other_commits(void)
{
	if (!foreign_count)
		return;
	int i = (int)storm_chance((uint32_t)foreign_count);
	struct foreign f = foreign[i];
	struct row *r = &rows[f.row];

	foreign[i] = foreign[--foreign_count];
	r->state = f.state;
	r->priority = f.priority;
	r->version = f.version;
	r->run_at = f.run_at;
	r->worker = 0;
	r->locked = false;
	if (f.state == ROW_WAITS)
		wake(r->route, r->priority, r->run_at);
}

static void hear_wake(void)
{
	char said[96];

	if (!wake_count)
		return;
	strcpy(said, notifier[0]);
	memmove(notifier, notifier + 1, sizeof *notifier * (size_t)(--wake_count));
	core_notified(core, said);
}

/* --- Our workers -------------------------------------------------------------------------------------------------- */

struct own_report {
	struct store_report op;
	struct store_result results[FAKE_WON_MAX];
};

static void on_reported(struct store_op *op, const struct reeve_error *error)
{
	(void)error;
	free(op);
}

static bool is_backlogged(const void *caller, int64_t max)
{
	(void)max;
	return ((const struct hand *)caller)->backlogged;
}

/* A worker stops reading its answers, or reads them again. */
static void turn_reader(int w)
{
	hands[w].backlogged = !hands[w].backlogged && !quiet;
	if (!hands[w].backlogged)
		dispatch_eased(core->dispatch);
}

static void work(int w)
{
	struct hand *hand = &hands[w];

	if (hand->fetching && hand->fetch.answered) {
		hand->fetching = false;
		for (int i = 0; i < hand->fetch.count; i++) {
			const struct row *r = &rows[hand->fetch.ids[i]];
			cr_assert(r->state == ROW_RUNS && r->worker == w, "given to worker %d, and not its", w);
			hand->held[hand->count++] = (int)hand->fetch.ids[i];
		}
	}
	if (hand->count && (quiet || storm_chance(2))) {
		struct own_report *report = calloc(1, sizeof *report);
		report->op = (struct store_report){
		    .op.done = on_reported, .incarnation = w, .count = hand->count, .results = report->results};
		for (int i = 0; i < hand->count; i++)
			report->results[i] = (struct store_result){.id = hand->held[i],
			    .token = rows[hand->held[i]].version,
			    .outcome = quiet || storm_chance(3) ? STORE_COMPLETED
			        : storm_chance(2)               ? STORE_FAILED
			                                        : STORE_RETURNED};
		hand->count = 0;
		report_results(core->reports, &report->op);
	}
	if (!hand->fetching && (quiet || storm_chance(3) == 0)) {
		hand->fetching = true;
		bool again = hand->fetch.answered && hand->fetch.code != STATUS(OK);
		fake_fetch_only(core, &hand->fetch,
		    (struct fetch_request){.incarnation = w,
		        .fetch_id = again ? hand->fetch_id : ++hand->fetch_id,
		        .again = again,
		        .slots = quiet ? 50 : 1 + (int)storm_chance(6),
		        .wait_ms = storm_chance(3) ? 3000 : -1,
		        .origin = (uint64_t)w,
		        .backlogged = is_backlogged,
		        .caller = hand});
	}
}

/* The next heartbeat reports other managers. */
static void draw_managers(void)
{
	fake.other_managers = (int)storm_chance(4);
	fake.own_place = (int)storm_chance((uint32_t)fake.other_managers + 1);
}

/* --- A storm ------------------------------------------------------------------------------------------------------ */

static void step(void)
{
	storm_gather();
	switch (storm_chance(16)) {
	case 0:
		if (!quiet && row_count < STORM_ROWS - 10)
			submit_some();
		break;
	case 1:
		if (!quiet)
			edit_some();
		break;
	case 2: other_begins(); break;
	case 3: other_commits(); break;
	case 4: hear_wake(); break;
	case 5:
	case 6: work(1 + (int)storm_chance(WORKERS)); break;
	case 7:
		fake.now_ms += storm_chance(20);
		if (!quiet && storm_chance(40) == 0)
			draw_managers();
		if (storm_chance(10) == 0)
			turn_reader(1 + (int)storm_chance(WORKERS));
		break;
	default: storm_move_some_op(); break;
	}
	storm_gather();
	fake_turn(core);
}

/* Lets all activity end. Returns the number of due tasks that are still unclaimed; *first is one of them. */
static int calm(int64_t quiet_ms, int *first)
{
	int left = 0;

	quiet = true;
	for (int w = 1; w <= WORKERS; w++)
		turn_reader(w);
	for (int64_t until = fake.now_ms + quiet_ms; fake.now_ms < until; fake.now_ms++) {
		for (int i = 0; i < 40; i++)
			step();
		for (int w = 1; w <= WORKERS; w++)
			work(w);
	}
	for (int id = 1; id <= row_count; id++)
		if (rows[id].state == ROW_WAITS && rows[id].run_at <= fake_db_us() - 2000000 && !left++)
			*first = id;
	return left;
}

static void storm(uint64_t number)
{
	int first = 0;

	storm_begin(number);
	foreign_count = wake_count = 0;
	quiet = false;
	bool many = number % 6 == 0;
	priorities = many ? 200 : 3;
	memset(hands, 0, sizeof hands);
	core = fake_core_with(
	    &(struct core_options){.ready_limit = 60, .claim_limit = 10, .priorities_limit = many ? 2 : 1024});
	draw_managers();
	fake_pass(core, 1100); /* a heartbeat reports them */
	/* An old backlog. */
	for (int i = 0; i < 400; i++) {
		int64_t at = fake_db_us() - 600000000 + i / 3;
		rows[++row_count] = (struct row){.state = ROW_WAITS,
		    .route = routes[i % 3],
		    .priority = (int32_t)storm_chance(priorities),
		    .version = at,
		    .run_at = at};
	}
	for (int i = 0; i < STEPS; i++)
		step();
	int left = calm(many ? LONG_QUIET_MS : QUIET_MS, &first);
	cr_assert_eq(left, 0,
	    "storm %d: %d due tasks were not seen, the first is %d of route %d, priority %d, due %lld ms ago", (int)number,
	    left, first, rows[first].route, rows[first].priority, (long long)(fake_db_us() - rows[first].run_at) / 1000);
	storm_end_ops(); /* what is left of queries and the like */
	fake_end(core);
}

/* It computes only, so its limit is time of the processor. */
Test(storm, no_task_is_lost_from_sight)
{
	const char *one = getenv("REEVE_STORM");
	clock_t began = clock();

	routes[0] = fake_route("q", "a");
	routes[1] = fake_route("q", "b");
	routes[2] = fake_route("q", "c");
	if (one) {
		storm((uint64_t)atoi(one));
		return;
	}
	for (uint64_t number = 1; number <= STORMS; number++) {
		storm(number);
		cr_assert_lt(clock() - began, 120 * CLOCKS_PER_SEC);
	}
}