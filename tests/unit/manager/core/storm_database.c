/*
 * The database of the storm: a table in memory, and the core's operations on it. A statement reads its data and the
 * time when it begins; its changes become visible when it commits; its answer arrives later.
 */
#include "tests/unit/manager/core/storm.h"

#include "manager/core/ready.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { OPS = 64 };

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
	struct store_created *created;
	struct store_claimed *won;
	struct store_edited edited;
};

struct row rows[STORM_ROWS + 1];
int row_count;

static struct under_way ops[OPS];
static int op_count;
static uint64_t seed;

void storm_begin(uint64_t number)
{
	seed = number * 0x9e3779b97f4a7c15 + 1;
	row_count = op_count = 0;
	memset(rows, 0, sizeof rows);
}

uint32_t storm_chance(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 33) % below;
}

int64_t storm_later(int64_t version, int64_t now)
{
	return now > version ? now : version + 1;
}

/* --- Statements --------------------------------------------------------------------------------------------------- */

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

	if (page->shards == 1 || ready_shard_of(c->id, page->shards) == page->shard)
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

	u->streams = calloc((size_t)look->count * (size_t)look->max, sizeof *u->streams);
	for (int i = 0; i < look->count; i++) {
		s.priority = look->below[i];
		for (int n = 0; n < look->max && stream_below(look->routes[i], s.priority, &s); n++)
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
		    .token = storm_later(r->version, u->began_us),
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

	u->created = calloc((size_t)submit->count, sizeof *u->created);
	for (int i = 0; i < submit->count; i++) {
		const struct store_task *t = &submit->tasks[i];
		rows[++row_count] = (struct row){.route = t->route,
		    .priority = t->priority,
		    .version = u->began_us,
		    .run_at = u->began_us + t->delay_ms * 1000};
		u->created[i] = (struct store_created){
		    .id = row_count, .created = true, .version = u->began_us, .run_at_us = rows[row_count].run_at};
	}
}

static void submit_commit(struct under_way *u)
{
	struct store_submit *submit = u->op;

	for (int i = 0; i < submit->count; i++)
		rows[u->created[i].id].state = ROW_WAITS;
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
		r->version = storm_later(row->version, u->began_us);
		r->due_us = r->version + (r->outcome == STORE_FAILED ? (int64_t)storm_chance(2000000) : 0);
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
	u->edited.priority = (int32_t)strtol(strchr(edit->change, ':') + 1, NULL, 10);
	u->edited.version = storm_later(r->version, u->began_us);
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
		submit->created = u.created;
		submit->created_count = submit->count;
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
	if (u.kind == FAKE_CLAIM && storm_chance(20) == 0)
		fake_fail(u.op, STATUS(UNKNOWN)); /* the connection broke before the answer arrived */
	else
		fake_ok(u.op);
	free(u.rows);
	free(u.streams);
	free(u.won);
	free(u.created);
}

/* Collects the operations that the core has started. */
void storm_gather(void)
{
	static const enum fake_kind kinds[] = {
	    FAKE_PAGE, FAKE_STREAMS, FAKE_CLAIM, FAKE_REDELIVER, FAKE_SUBMIT, FAKE_REPORT, FAKE_EDIT, FAKE_POLL};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (void *op; op_count < OPS && (op = fake_take(kinds[i])); op_count++)
			ops[op_count] = (struct under_way){.kind = kinds[i], .op = op};
}

void storm_move_some_op(void)
{
	if (!op_count)
		return;
	int i = (int)storm_chance((uint32_t)op_count);
	struct under_way *u = &ops[i];

	if (!u->begun)
		begin_op(u);
	else if (!u->committed)
		commit_op(u);
	else
		answer_op(i);
}

void storm_end_ops(void)
{
	while (op_count)
		ops[op_count - 1].begun ? ops[op_count - 1].committed ? answer_op(op_count - 1) : commit_op(&ops[op_count - 1])
		                        : begin_op(&ops[op_count - 1]);
}
