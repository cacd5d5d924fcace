/*
 * A random stress test ("storm") of the core on a database that is a table in memory. Another manager works on the same
 * rows, and every operation begins, commits and is answered at random times. The core must not lose sight of a task:
 * when all has become quiet, every due task is claimed within seconds, without the full rescan that runs once a minute.
 * And no version of a task is claimed twice.
 *
 * There are up to three other managers, and they come and go, so that the core has one of up to four shards of the ids.
 *
 * A statement reads its data and the time when it begins; its changes become visible when it commits; its answer
 * arrives later.
 *
 * A number determines each storm: the same number gives the same storm. REEVE_STORM=NUMBER runs only that one.
 */
#include "common/uuid.h"
#include "manager/core/edit.h"
#include "manager/core/report.h"
#include "manager/core/submit.h"
#include "manager/core/window.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROWS = 4000,
	OPS = 64,
	WAKES = 64,
	WORKERS = 4,
	STORMS = 150,
	STEPS = 1500,
	QUIET_MS = 6000,
	LONG_QUIET_MS = 20000
};

enum row_state { ROW_UNSEEN, ROW_WAITS, ROW_RUNS, ROW_OVER };

struct row {
	enum row_state state; /* as committed */
	int route;
	int32_t priority;
	int64_t version, run_at;
	int worker; /* our worker that has it, from 1; 0: the other manager's */
	int64_t fetch_id;
	bool locked; /* by a statement that has not committed */
};

/* An operation of the core that has not been answered. */
struct under_way {
	enum fake_kind kind;
	void *op;
	bool begun, committed;
	int64_t began_us;
	struct store_candidate *rows; /* a page's rows, as they were when it began */
	int count;
	struct store_candidate other;
	int64_t next_due_us;
	struct store_stream *streams;
	struct store_made *made;
	struct store_claimed *won;
	struct store_edited edited;
};

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
};

static struct core *core;
static struct row rows[ROWS + 1];
static int row_count;
static struct under_way ops[OPS];
static int op_count;
static struct foreign foreign[16];
static int foreign_count;
static char notifier[WAKES][96];
static int wake_count;
static struct hand hands[WORKERS + 1];
static int routes[3];
static uint64_t seed;
static bool quiet;          /* no new work is created */
static uint32_t priorities; /* number of them; if there are many, the ready cache keeps only two of a route */

static uint32_t chance(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 33) % below;
}

static int64_t later(int64_t version, int64_t now)
{
	return now > version ? now : version + 1;
}

static void wake(int route, int32_t priority, int64_t run_at)
{
	static int64_t earliest; /* of the undelivered notifications */

	earliest = wake_count && earliest < run_at ? earliest : run_at;
	if (wake_count == WAKES) /* too many: replaced by one about any stream */
		wake_count = 0, route = 0, run_at = earliest;
	snprintf(notifier[wake_count++], sizeof *notifier, "%d %d %d %lld", FAKE_MANAGER + 1, route, priority,
	    (long long)run_at);
}

/* --- The database ------------------------------------------------------------------------------------------------- */

static int by_due(const void *a, const void *b)
{
	const struct store_candidate *x = a, *y = b;

	if (x->run_at_us != y->run_at_us)
		return x->run_at_us < y->run_at_us ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/* Adds a due row after the cursor, or notes it as the first of another shard. */
static void page_add(struct under_way *u, const struct store_candidate *c)
{
	const struct store_page *page = u->op;

	if (page->slices == 1 || window_shard_of(c->id, page->slices) == page->shard)
		u->rows[u->count++] = *c;
	else if (!u->other.id || by_due(c, &u->other) < 0)
		u->other = *c;
}

static void page_begin(struct under_way *u)
{
	struct store_page *page = u->op;
	int64_t due = u->began_us > page->due_us ? u->began_us : page->due_us;

	u->rows = calloc((size_t)row_count + 1, sizeof *u->rows);
	u->next_due_us = STORE_TIME_NEVER;
	for (int id = 1; id <= row_count; id++) {
		const struct row *r = &rows[id];
		if (r->state != ROW_WAITS || r->route != page->route || r->priority != page->priority)
			continue;
		if (r->run_at > due)
			u->next_due_us = r->run_at < u->next_due_us ? r->run_at : u->next_due_us;
		else if (r->run_at > page->after_run_at_us || (r->run_at == page->after_run_at_us && id > page->after_id))
			page_add(u, &(struct store_candidate){id, r->version, r->run_at, 10});
	}
	qsort(u->rows, (size_t)u->count, sizeof *u->rows, by_due);
	u->count = u->count < page->limit ? u->count : page->limit;
}

/* Finds the route's highest priority below this one. */
static bool stream_below(int route, int32_t below, struct store_stream *found)
{
	*found = (struct store_stream){route, INT32_MIN, STORE_TIME_NEVER};
	for (int id = 1; id <= row_count; id++) {
		const struct row *r = &rows[id];
		if (r->route != route || r->priority >= below || r->priority < found->priority || r->state != ROW_WAITS)
			continue;
		if (r->priority > found->priority || r->run_at < found->first_us)
			found->first_us = r->run_at;
		found->priority = r->priority;
	}
	return found->priority > INT32_MIN;
}

static void streams_begin(struct under_way *u)
{
	struct store_streams *look = u->op;
	struct store_stream s;

	u->streams = calloc((size_t)look->count * (size_t)look->most, sizeof *u->streams);
	for (int i = 0; i < look->count; i++) {
		s.priority = look->below[i];
		for (int n = 0; n < look->most && stream_below(look->routes[i], s.priority, &s); n++)
			u->streams[u->count++] = s;
	}
}

/* Chooses the winners; others see them as running when the claim commits. */
static bool claim_begin(struct under_way *u)
{
	struct store_claim *claim = u->op;

	for (int i = 0; i < claim->count; i++)
		if (rows[claim->tries[i].id].locked)
			return false; /* it waits for the lock */
	u->won = calloc((size_t)claim->count + 1, sizeof *u->won);
	for (int i = 0; i < claim->count; i++) {
		struct row *r = &rows[claim->tries[i].id];
		if (r->state != ROW_WAITS || r->version != claim->tries[i].version)
			continue;
		r->locked = true;
		u->won[u->count++] = (struct store_claimed){.id = claim->tries[i].id,
		    .token = later(r->version, u->began_us),
		    .details = "",
		    .route = r->route,
		    .slot = claim->tries[i].slot};
	}
	return true;
}

static void claim_commit(struct under_way *u)
{
	struct store_claim *claim = u->op;

	for (int i = 0; i < u->count; i++) {
		struct row *r = &rows[u->won[i].id];
		cr_assert_eq(r->state, ROW_WAITS, "claimed twice");
		r->state = ROW_RUNS;
		r->version = u->won[i].token;
		r->worker = (int)claim->fetches[u->won[i].slot].incarnation;
		r->fetch_id = claim->fetches[u->won[i].slot].fetch_id;
		r->locked = false;
	}
}

static void redeliver_begin(struct under_way *u)
{
	struct store_redeliver *ask = u->op;

	u->won = calloc(FAKE_WON_MAX, sizeof *u->won);
	for (int id = 1; id <= row_count; id++)
		if (rows[id].state == ROW_RUNS && rows[id].worker == ask->fetch.incarnation &&
		    rows[id].fetch_id == ask->fetch.fetch_id)
			u->won[u->count++] = (struct store_claimed){
			    .id = id, .token = rows[id].version, .details = "", .queue = "q", .type = "t", .route = rows[id].route};
}

static void submit_begin(struct under_way *u)
{
	struct store_submit *submit = u->op;

	u->made = calloc((size_t)submit->count, sizeof *u->made);
	for (int i = 0; i < submit->count; i++) {
		const struct store_task *t = &submit->tasks[i];
		rows[++row_count] = (struct row){.route = t->route,
		    .priority = t->priority,
		    .version = u->began_us,
		    .run_at = u->began_us + t->delay_ms * 1000};
		u->made[i] = (struct store_made){
		    .id = row_count, .made = true, .version = u->began_us, .run_at_us = rows[row_count].run_at};
	}
}

static void submit_commit(struct under_way *u)
{
	struct store_submit *submit = u->op;

	for (int i = 0; i < submit->count; i++)
		rows[u->made[i].id].state = ROW_WAITS;
}

/* Reports end running attempts; their results are filled in at once. */
static bool report_begin(struct under_way *u)
{
	struct store_report *report = u->op;

	for (int i = 0; i < report->count; i++) {
		struct store_result *r = &report->results[i];
		struct row *row = &rows[r->id];
		row->locked = true;
		r->ended = r->outcome == STORE_COMPLETED;
		r->becomes = r->ended ? "completed" : "failed";
		r->route = row->route;
		r->priority = row->priority;
		r->version = later(row->version, u->began_us);
		r->due_us = r->version + (r->outcome == STORE_FAILED ? (int64_t)chance(2000000) : 0);
	}
	return true;
}

static void report_commit(struct under_way *u)
{
	struct store_report *report = u->op;

	for (int i = 0; i < report->count; i++) {
		struct store_result *r = &report->results[i];
		struct row *row = &rows[r->id];
		row->state = r->ended ? ROW_OVER : ROW_WAITS;
		row->version = r->version;
		row->run_at = r->due_us;
		row->locked = false;
	}
}

/* The only manual change here is of the priority. */
static bool edit_begin(struct under_way *u)
{
	struct store_edit *edit = u->op;
	struct row *r = &rows[edit->ids[0]];

	if (r->locked)
		return false;
	u->edited = (struct store_edited){.id = edit->ids[0], .status = "executing", .changed = true};
	if (r->state != ROW_WAITS)
		return true;
	r->locked = true;
	strcpy(u->edited.status, "queued");
	u->edited.waits = true;
	u->edited.route = r->route;
	u->edited.priority = edit->priority;
	u->edited.version = later(r->version, u->began_us);
	u->edited.due_us = r->run_at;
	return true;
}

static void edit_commit(struct under_way *u)
{
	struct row *r = &rows[u->edited.id];

	if (!u->edited.waits)
		return;
	r->priority = u->edited.priority;
	r->version = u->edited.version;
	r->locked = false;
}

/* --- Operations --------------------------------------------------------------------------------------------------- */

static void begin_op(struct under_way *u)
{
	bool can = true;

	u->began_us = fake_db_us();
	switch (u->kind) {
	case FAKE_PAGE: page_begin(u); break;
	case FAKE_STREAMS: streams_begin(u); break;
	case FAKE_CLAIM: can = claim_begin(u); break;
	case FAKE_REDELIVER: redeliver_begin(u); break;
	case FAKE_SUBMIT: submit_begin(u); break;
	case FAKE_REPORT: can = report_begin(u); break;
	case FAKE_EDIT: can = edit_begin(u); break;
	default: break;
	}
	u->begun = can;
}

static void commit_op(struct under_way *u)
{
	switch (u->kind) {
	case FAKE_CLAIM: claim_commit(u); break;
	case FAKE_SUBMIT: submit_commit(u); break;
	case FAKE_REPORT: report_commit(u); break;
	case FAKE_EDIT: edit_commit(u); break;
	default: break;
	}
	u->committed = true;
}

static void answer_op(int index)
{
	struct under_way u = ops[index];

	ops[index] = ops[--op_count];
	switch (u.kind) {
	case FAKE_PAGE: {
		struct store_page *page = u.op;
		page->candidates = u.rows;
		page->count = u.count;
		page->other = u.other;
		page->next_due_us = u.next_due_us;
		break;
	}
	case FAKE_STREAMS: {
		struct store_streams *look = u.op;
		look->streams = u.streams;
		look->found = u.count;
		break;
	}
	case FAKE_CLAIM: {
		struct store_claim *claim = u.op;
		claim->won = u.won;
		claim->won_count = u.count;
		break;
	}
	case FAKE_REDELIVER: {
		struct store_redeliver *ask = u.op;
		ask->life = STORE_LIFE_LIVES;
		ask->won = u.won;
		ask->won_count = u.count;
		break;
	}
	case FAKE_SUBMIT: {
		struct store_submit *submit = u.op;
		submit->made = u.made;
		submit->made_count = submit->count;
		break;
	}
	case FAKE_EDIT: {
		struct store_edit *edit = u.op;
		edit->tasks = &u.edited;
		edit->found = 1;
		break;
	}
	default: break;
	}
	if (u.kind == FAKE_CLAIM && chance(20) == 0)
		fake_fail(u.op, STATUS(UNKNOWN)); /* the connection broke before the answer arrived */
	else
		fake_ok(u.op);
	free(u.rows);
	free(u.streams);
	free(u.won);
	free(u.made);
}

/* Collects the operations that the core has started. */
static void gather(void)
{
	static const enum fake_kind kinds[] = {
	    FAKE_PAGE, FAKE_STREAMS, FAKE_CLAIM, FAKE_REDELIVER, FAKE_SUBMIT, FAKE_REPORT, FAKE_EDIT, FAKE_POLL};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (void *op; op_count < OPS && (op = fake_take(kinds[i])); op_count++)
			ops[op_count] = (struct under_way){.kind = kinds[i], .op = op};
}

static void move_some_op(void)
{
	if (!op_count)
		return;
	int i = (int)chance((uint32_t)op_count);
	struct under_way *u = &ops[i];

	if (!u->begun)
		begin_op(u);
	else if (!u->committed)
		commit_op(u);
	else
		answer_op(i);
}

/* --- Sources of work ---------------------------------------------------------------------------------------------- */

struct own_submit {
	struct store_task tasks[3];
};

static void on_submitted(void *arg, const struct store_made *made, const struct reeve_error *error)
{
	(void)made, (void)error;
	free(arg);
}

static void submit_some(void)
{
	static const char *const types[] = {"a", "b", "c"};
	struct own_submit *s = calloc(1, sizeof *s);
	uint8_t request[UUID_BYTES];
	int count = 1 + (int)chance(3);

	for (int i = 0; i < count; i++)
		s->tasks[i] = (struct store_task){.queue = "q",
		    .type = types[chance(3)],
		    .details = "0123456789",
		    .priority = (int32_t)chance(priorities),
		    .delay_ms = chance(4) ? 0 : chance(2000)};
	uuid7_make(fake_db_us() / 1000, request);
	submit_tasks(core->submits, request, s->tasks, count, fake.now_ms + 60000, 0, on_submitted, s);
}

struct own_edit {
	struct store_edit op;
	int64_t id;
};

static void on_edited(struct store_op *op, const struct reeve_error *error)
{
	(void)error;
	free(op);
}

static void edit_some(void)
{
	struct own_edit *e = calloc(1, sizeof *e);

	e->id = 1 + (int64_t)chance((uint32_t)row_count);
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
	    .set_priority = true,
	    .priority = (int32_t)chance(priorities)};
	edit_tasks(core->edits, &e->op);
}

/* The other manager submits, claims, ends and changes tasks. If a committed change matters to others, it sends a
 * notification. */
static void other_begins(void)
{
	struct foreign *f = &foreign[foreign_count];
	int64_t now = fake_db_us();

	if (foreign_count == sizeof foreign / sizeof *foreign || row_count >= ROWS - 10)
		return;
	if (!quiet && chance(4) == 0) {
		rows[++row_count] =
		    (struct row){.route = routes[chance(3)], .priority = (int32_t)chance(priorities), .locked = true};
		*f = (struct foreign){
		    row_count, ROW_WAITS, rows[row_count].priority, now, now + (chance(4) ? 0 : chance(2000000))};
		foreign_count++;
		return;
	}
	f->row = 1 + (int)chance((uint32_t)row_count);
	struct row *r = &rows[f->row];
	if (r->locked || (quiet && r->state == ROW_WAITS))
		return;
	*f = (struct foreign){f->row, r->state, r->priority, later(r->version, now), r->run_at};
	if (r->state == ROW_WAITS && chance(3) == 0) {
		f->priority = (int32_t)chance(priorities);
	} else if (r->state == ROW_WAITS && r->run_at <= now) {
		f->state = ROW_RUNS;
	} else if (r->state == ROW_RUNS && r->worker == 0) {
		f->state = chance(3) ? ROW_OVER : ROW_WAITS;
		f->run_at = f->version + (chance(2) ? 0 : chance(1500000));
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
	int i = (int)chance((uint32_t)foreign_count);
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
	if (hand->count && (quiet || chance(2))) {
		struct own_report *report = calloc(1, sizeof *report);
		report->op = (struct store_report){
		    .op.done = on_reported, .incarnation = w, .count = hand->count, .results = report->results};
		for (int i = 0; i < hand->count; i++)
			report->results[i] = (struct store_result){.id = hand->held[i],
			    .token = rows[hand->held[i]].version,
			    .outcome = quiet || chance(3) ? STORE_COMPLETED
			        : chance(2)               ? STORE_FAILED
			                                  : STORE_RETURNED};
		hand->count = 0;
		report_results(core->reports, &report->op);
	}
	if (!hand->fetching && (quiet || chance(3) == 0)) {
		hand->fetching = true;
		bool again = hand->fetch.answered && hand->fetch.code != STATUS(OK);
		fake_fetch_only(core, &hand->fetch,
		    (struct fetch_request){.incarnation = w,
		        .fetch_id = again ? hand->fetch_id : ++hand->fetch_id,
		        .again = again,
		        .slots = quiet ? 50 : 1 + (int)chance(6),
		        .wait_ms = chance(3) ? 3000 : -1});
	}
}

/* The next heartbeat reports other managers. */
static void draw_managers(void)
{
	fake.other_managers = (int)chance(4);
	fake.own_place = (int)chance((uint32_t)fake.other_managers + 1);
}

/* --- A storm ------------------------------------------------------------------------------------------------------ */

static void step(void)
{
	gather();
	switch (chance(16)) {
	case 0:
		if (!quiet && row_count < ROWS - 10)
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
	case 6: work(1 + (int)chance(WORKERS)); break;
	case 7:
		fake.now_ms += chance(20);
		if (!quiet && chance(40) == 0)
			draw_managers();
		break;
	default: move_some_op(); break;
	}
	gather();
	fake_turn(core);
}

/* Lets all activity end. Returns the number of due tasks that are still unclaimed; *first is one of them. */
static int calm(int64_t quiet_ms, int *first)
{
	int left = 0;

	quiet = true;
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

	seed = number * 0x9e3779b97f4a7c15 + 1;
	row_count = op_count = foreign_count = wake_count = 0;
	quiet = false;
	bool many = number % 6 == 0;
	priorities = many ? 200 : 3;
	memset(rows, 0, sizeof rows);
	memset(hands, 0, sizeof hands);
	core = fake_core_with(
	    &(struct core_options){.window_limit = 60, .claim_limit = 10, .priorities_limit = many ? 2 : 1024});
	draw_managers();
	fake_pass(core, 1100); /* a heartbeat reports them */
	/* An old backlog. */
	for (int i = 0; i < 400; i++) {
		int64_t at = fake_db_us() - 600000000 + i / 3;
		rows[++row_count] = (struct row){.state = ROW_WAITS,
		    .route = routes[i % 3],
		    .priority = (int32_t)chance(priorities),
		    .version = at,
		    .run_at = at};
	}
	for (int i = 0; i < STEPS; i++)
		step();
	int left = calm(many ? LONG_QUIET_MS : QUIET_MS, &first);
	cr_assert_eq(left, 0,
	    "storm %d: %d due tasks were not seen, the first is %d of route %d, priority %d, due %lld ms ago", (int)number,
	    left, first, rows[first].route, rows[first].priority, (long long)(fake_db_us() - rows[first].run_at) / 1000);
	while (op_count) /* what is left of queries and the like */
		ops[op_count - 1].begun ? ops[op_count - 1].committed ? answer_op(op_count - 1) : commit_op(&ops[op_count - 1])
		                        : begin_op(&ops[op_count - 1]);
	fake_end(core);
}

Test(storm, no_task_is_lost_from_sight, .timeout = 120)
{
	const char *one = getenv("REEVE_STORM");

	routes[0] = fake_route("q", "a");
	routes[1] = fake_route("q", "b");
	routes[2] = fake_route("q", "c");
	if (one) {
		storm((uint64_t)atoi(one));
		return;
	}
	for (uint64_t number = 1; number <= STORMS; number++)
		storm(number);
}
