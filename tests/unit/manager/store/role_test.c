/* How a role collects operations into batches, over a fake connection. */
#include "manager/store/store_internal.h"

#include "common/clock.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>

enum { LIMIT = 100, OPS = 300, BATCH_WAIT_MS = 40 };

/* --- A connection whose results the test supplies ----------------------------------------------------------------- */

static struct conn_listener owner;
static conn_done *next; /* of the statement in flight; NULL: there is none */
static void *next_arg;
static enum sql_id running;
static bool paused; /* a connection has been closed, because there are too many */

struct conn *conn_create(
    struct event_base *base, const struct conn_settings *settings, const struct conn_listener *listener)
{
	(void)base, (void)settings;
	owner = *listener;
	return NULL;
}

void conn_destroy(struct conn *conn)
{
	(void)conn;
}

bool conn_idle(const struct conn *conn)
{
	(void)conn;
	return !next;
}

bool conn_up(const struct conn *conn)
{
	(void)conn;
	return true;
}

void conn_run(struct conn *conn, enum sql_id statement, const struct params *params, conn_done *done, void *arg)
{
	(void)conn, (void)params;
	running = statement;
	next = done;
	next_arg = arg;
}

void conn_cancel(struct conn *conn)
{
	(void)conn;
}

bool conn_in_transaction(const struct conn *conn)
{
	(void)conn;
	return false;
}

void conn_pause(struct conn *conn, int ms, const char *why)
{
	(void)conn, (void)ms, (void)why;
	paused = true;
}

const char *conn_problem(const struct conn *conn)
{
	(void)conn;
	return "";
}

/* --- A role with operations that gather --------------------------------------------------------------------------- */

static struct store store;
static struct role *role = &store.roles[ROLE_HEARTBEAT];
static struct store_op ops[OPS];
static int given, ended;
static struct reeve_error last_error;
static bool can_wait = true;
static int weight = 1;

static void start(struct role *r)
{
	role_run(r, SQL_HEARTBEAT, role_on_done);
}

static void done(struct store_op *op, const struct reeve_error *error)
{
	(void)op;
	if (error)
		last_error = *error;
	ended++;
}

static void begin(void)
{
	static const struct conn_settings settings = {.name = "heartbeat"};
	store.group =
	    (struct role_group){.store = &store, .base = event_base_new(), .roles = store.roles, .count = ROLE_COUNT};
	conn_set_open(&store.group.conns, store.group.base);
	store.group.conns.collecting = false;
	role_open(role, &store.group, &settings, LIMIT);
}

static void end(void)
{
	role_close(role);
	conn_set_close(&store.group.conns);
	event_base_free(store.group.base);
}

static void give(int count)
{
	static const struct op_kind kind = {
	    .name = "test", .start = start, .batch_wait_ms = BATCH_WAIT_MS, .batch_weight = LIMIT};
	for (; count > 0; count--) {
		struct store_op *op = &ops[given++];
		*op = (struct store_op){.done = done, .kind = &kind, .weight = weight, .can_wait = can_wait};
		role_add(role, op);
	}
}

/* Answers the statement in flight with PostgreSQL's result. */
static void answer_with(enum conn_kind kind, const char *sqlstate, const PGresult *rows)
{
	struct conn_result result = {.kind = kind, .rows = rows};
	conn_done *told = next;
	snprintf(result.sqlstate, sizeof result.sqlstate, "%s", sqlstate);
	cr_assert(told != NULL, "no statement is in flight");
	next = NULL;
	told(next_arg, &result);
}

static void answer(enum conn_kind kind, const char *sqlstate)
{
	answer_with(kind, sqlstate, NULL);
}

/* Returns the number of operations in flight. */
static int in_flight(void)
{
	return next ? role->count : 0;
}

Test(role, operations_wait_for_a_while_after_a_batch)
{
	begin();
	give(1);
	cr_expect(eq(int, in_flight(), 1), "nothing goes before it: it goes at once");
	give(2);
	answer(CONN_OK, "");
	give(3);
	cr_expect(eq(int, in_flight(), 0), "it pauses");
	event_base_loop(store.group.base, EVLOOP_ONCE);
	cr_expect(eq(int, in_flight(), 5));
	answer(CONN_OK, "");
	cr_expect(eq(int, ended, 6));
	end();
}

Test(role, what_the_connection_lost_goes_when_the_role_has_paused)
{
	begin();
	give(1);
	answer(CONN_OK, "");
	give(1);
	owner.lost(owner.arg);
	owner.ready(owner.arg);
	cr_expect(eq(int, in_flight(), 0));
	event_base_loop(store.group.base, EVLOOP_ONCE);
	cr_expect(eq(int, in_flight(), 1));
	answer(CONN_LOST, "");
	cr_expect(eq(int, in_flight(), 1), "it is asked again");
	answer(CONN_OK, "");
	cr_expect(eq(int, ended, 2));
	end();
}

/* Otherwise a lock that was held for a moment would keep all heartbeats waiting for much longer. */
Test(role, the_parts_of_a_batch_that_was_split_follow_each_other_at_once)
{
	int batches = 0;
	begin();
	give(1);
	give(LIMIT - 1);
	answer(CONN_OK, "");
	event_base_loop(store.group.base, EVLOOP_ONCE);
	cr_assert(eq(int, in_flight(), LIMIT - 1));
	answer(CONN_REFUSED, "55P03");
	answer(CONN_REFUSED, "55P03"); /* a part of 32: its operations are sent one by one */
	for (; in_flight(); batches++)
		answer(CONN_OK, "");
	cr_expect(eq(int, ended, LIMIT));
	cr_expect(gt(int, batches, 32));
	end();
}

Test(role, only_who_called_is_asked_to_try_again)
{
	begin();
	give(1);
	answer(CONN_REFUSED, "55P03");
	cr_expect(eq(str, last_error.message, "another transaction holds a lock that this needs (test)"), "a job's");
	can_wait = false;
	give(2);
	ops[2].deadline_ms = clock_monotonic_ms() + 60000;
	answer(CONN_REFUSED, "55P03");
	answer(CONN_REFUSED, "55P03");
	cr_expect(
	    eq(str, last_error.message, "another transaction holds a lock that this needs (test); try again"), "a call's");
	end();
}

Test(role, a_full_batch_waits_for_no_more)
{
	begin();
	give(1);
	give(LIMIT);
	answer(CONN_OK, "");
	cr_expect(eq(int, in_flight(), LIMIT));
	answer(CONN_OK, "");
	cr_expect(eq(int, ended, LIMIT + 1));
	end();
}

Test(role, operations_wait_only_until_they_are_enough)
{
	weight = 10;
	begin();
	give(1);
	answer(CONN_OK, "");
	give(LIMIT / 10 - 1);
	cr_expect(eq(int, in_flight(), 0), "it pauses");
	give(1);
	cr_expect(eq(int, in_flight(), LIMIT / 10));
	answer(CONN_REFUSED, "40P01");
	cr_expect(eq(int, in_flight(), LIMIT / 10), "a deadlock: at once again");
	answer(CONN_OK, "");
	give(LIMIT / 10 - 1);
	cr_expect(eq(int, in_flight(), 0), "it pauses again");
	give(1);
	cr_expect(eq(int, in_flight(), LIMIT / 10));
	answer(CONN_OK, "");
	cr_expect(eq(int, ended, 1 + 2 * LIMIT / 10));
	end();
}

Test(role, operations_do_not_wait_with_one_that_cannot_wait)
{
	begin();
	give(1);
	answer(CONN_OK, "");
	give(1);
	cr_expect(eq(int, in_flight(), 0), "it pauses");
	can_wait = false;
	give(1);
	cr_expect(eq(int, in_flight(), 2));
	event_base_loop(store.group.base, EVLOOP_ONCE); /* the pause that ended early */
	answer(CONN_OK, "");
	can_wait = true;
	give(1);
	cr_expect(eq(int, in_flight(), 1), "no pause follows a batch with one that cannot wait");
	answer(CONN_OK, "");
	end();
}

Test(role, one_that_is_no_longer_wanted_ends_with_its_batch)
{
	begin();
	give(1);
	give(2);
	answer(CONN_OK, "");
	event_base_loop(store.group.base, EVLOOP_ONCE);
	cr_assert(eq(int, in_flight(), 2));
	role_drop(role, &ops[2]);
	cr_expect(eq(int, ended, 1), "the other one is in the same statement");
	answer(CONN_OK, "");
	cr_expect(eq(int, ended, 3));
	cr_expect(eq(int, (int)role->waiting_count, 0));
	end();
}

/* An operation that waited for a lock until its deadline, and whose caller has been told so, must not be done. */
Test(role, nothing_begins_after_its_deadline)
{
	begin();
	give(1);
	give(1);
	give(1);
	ops[1].deadline_ms = clock_monotonic_ms();
	answer(CONN_OK, "");
	event_base_loop(store.group.base, EVLOOP_ONCE);
	cr_expect(eq(int, in_flight(), 1), "the one without a deadline");
	cr_expect(eq(int, (int)role->waiting_count, 1));
	role_expire(role, clock_monotonic_ms());
	cr_expect(eq(int, ended, 2));
	answer(CONN_OK, "");
	cr_expect(eq(int, ended, 3));
	end();
}

static void done_and_freed(struct store_op *op, const struct reeve_error *error)
{
	(void)error;
	free(op);
}

static void on_nothing_left(struct role *r, const PGresult *rows)
{
	(void)rows;
	free(r->batch[0]);
	r->count = 0; /* like a kind that returns all its operations to the list */
	role_done(r);
}

static void start_nothing(struct role *r)
{
	role_run(r, SQL_HEARTBEAT, on_nothing_left);
}

Test(role, a_batch_may_end_without_operations)
{
	static const struct op_kind kinds[] = {
	    {.name = "freed", .start = start}, {.name = "none left", .start = start_nothing}};
	begin();
	for (int i = 0; i < 2; i++) {
		struct store_op *op = mem_calloc(1, sizeof *op);
		op->done = done_and_freed;
		op->kind = &kinds[i];
		role_add(role, op);
		answer(CONN_OK, "");
	}
	cr_expect(eq(int, in_flight(), 0));
	end();
}

/* --- What heartbeats bring ---------------------------------------------------------------------------------------- */

enum { HELD = 200000, HOLDERS = 40 };

static int refused;

static void on_requeued(struct store_op *op, const struct reeve_error *error)
{
	(void)op;
	refused += error && error->code == STATUS(RESOURCE_EXHAUSTED);
}

/* Heartbeats may claim any number of attempts. Workers that stand still are marked lost all the same. */
Test(role, no_heartbeat_keeps_lost_workers_waiting)
{
	static const struct conn_settings settings = {.name = "lease"};
	static struct store_requeue requeues[HOLDERS];
	static int64_t held[HELD];
	struct store_beat still = {.incarnation = 1, .seq = 1};
	struct store_lose lose = {.op.done = done, .count = 1, .beats = &still};
	begin();
	role_open(&store.roles[ROLE_LEASE], &store.group, &settings, 1);
	store.roles[ROLE_REQUEUE].group = &store.group; /* it has no connection, so that what it gets waits */
	store.options.waiting_bytes = 64 << 20;
	store.options.origin_percent = 12;
	for (int i = 0; i < HOLDERS; i++) {
		requeues[i] = (struct store_requeue){.op.done = on_requeued,
		    .op.origin = i < HOLDERS - 1 ? 7 : 8,
		    .op.deadline_ms = clock_monotonic_ms() + 60000,
		    .holding = {.incarnation = i + 1, .held_count = HELD, .held_ids = held, .held_tokens = held}};
		store_requeue(&store, &requeues[i]);
	}
	cr_expect(eq(int, refused, HOLDERS - 4), "three of one connection, which fill its share, and one of the other");
	cr_expect(ge(int, requeues[0].op.weight, REQUEUE_WEIGHT), "no other joins such a one");
	cr_expect(eq(int, store.roles[ROLE_LEASE].count, 0));
	store_lose(&store, &lose);
	cr_expect(eq(int, running, SQL_WORKER_LOSE));
	answer(CONN_OK, "");
	cr_expect(eq(int, ended, 1));
	role_expire(&store.roles[ROLE_REQUEUE], INT64_MAX);
	role_close(&store.roles[ROLE_LEASE]);
	end();
}

/* Many connections ask for as much as they can get of what may wait for the database. Each gets a share of what the
 * others leave, so that there is room for another one. */
Test(role, many_greedy_origins_leave_room_for_others)
{
	enum { GREEDY = 20, EACH = 20 };
	static const struct op_kind kind = {.name = "test"};
	static struct store_op some[GREEDY * EACH + 1];
	struct store_op *last = &some[GREEDY * EACH];
	int before;
	begin();
	store.roles[ROLE_REQUEUE].group = &store.group; /* it has no connection, so that what it gets waits */
	store.options.waiting_bytes = 64 << 20;
	store.options.origin_percent = 12;
	for (int i = 0; i <= GREEDY * EACH; i++) {
		some[i] = (struct store_op){
		    .done = on_requeued, .origin = (uint64_t)(1 + i / EACH), .deadline_ms = clock_monotonic_ms() + 60000};
		before = refused;
		store_give(&store, ROLE_REQUEUE, &kind, &some[i], 1, 1 << 20);
	}
	cr_expect(gt(int, refused, GREEDY *EACH - 64));
	cr_expect(eq(int, refused, before), "there was no room for %d", (int)last->origin);
	role_expire(&store.roles[ROLE_REQUEUE], INT64_MAX);
	end();
}

/* A long operation shares no batch with others, which would wait for it. */
Test(role, long_operations_share_no_batch)
{
	begin();
	give(1); /* in flight */
	for (int i = 0; i < 3; i++) {
		static const struct op_kind kind = {.name = "long", .start = start};
		ops[given] = (struct store_op){.done = done, .kind = &kind, .bytes = i == 1 ? 100 : 8 << 20};
		role_add(role, &ops[given++]);
	}
	for (int i = 1; i <= 3; i++) {
		answer(CONN_OK, "");
		cr_expect(eq(int, role->count, 1));
		cr_expect(eq(int, ended, i));
	}
	answer(CONN_OK, "");
	end();
}

/* --- Reports, whose batches take several statements --------------------------------------------------------------- */

/* Returns a row of int8 values, except that the last column has `last_bytes` bytes; its value must be small. */
static PGresult *row_of(int count, const int64_t *values, int last_bytes)
{
	PGresAttDesc attributes[8] = {0};
	PGresult *rows = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	for (int i = 0; i < count; i++)
		attributes[i] = (PGresAttDesc){.name = (char *)"x", .format = 1};
	cr_assert(PQsetResultAttrs(rows, count, attributes));
	for (int i = 0; i < count; i++) {
		uint64_t v = htobe64((uint64_t)values[i]);
		int bytes = i == count - 1 ? last_bytes : 8;
		cr_assert(PQsetvalue(rows, 0, i, (char *)&v + 8 - bytes, bytes));
	}
	return rows;
}

/* Otherwise the end of the task would never be reported: when the operation is retried, the task is no longer there. */
Test(role, what_one_statement_has_ended_stays_so_if_the_next_is_blocked)
{
	struct store_result results[] = {
	    {.id = 1, .token = 10, .outcome = STORE_COMPLETED}, {.id = 2, .token = 20, .outcome = STORE_COMPLETED}};
	struct store_report op = {.op.done = done, .incarnation = 1, .count = 2, .results = results};
	PGresult *completed = row_of(4, (int64_t[]){1, pgtime_from_us(10), 0, 1}, 2);
	PGresult *locked = row_of(5, (int64_t[]){1, 0, 0, 0, 0}, 1); /* the first of those that are left */

	role = &store.roles[ROLE_REPORT];
	store.options.waiting_bytes = 1 << 20;
	begin();
	store_report(&store, &op);
	cr_assert(eq(int, (int)running, SQL_COMPLETE));
	answer_with(CONN_OK, "", completed);
	cr_assert(eq(int, (int)running, SQL_COMPLETE_ALL));
	answer(CONN_REFUSED, "55P03");
	cr_assert(eq(int, (int)running, SQL_BEGIN), "it is tried again, with care");
	answer(CONN_OK, "");
	cr_assert(eq(int, (int)running, SQL_ATTEMPTS_LOCK));
	answer_with(CONN_OK, "", locked);
	cr_expect(eq(int, ended, 1));
	cr_expect(eq(int, (int)results[0].ack, STORE_ACCEPTED));
	cr_expect(results[0].ended);
	cr_expect(eq(int, (int)results[1].ack, STORE_LATER));
	PQclear(completed);
	PQclear(locked);
	end();
}

/* PostgreSQL refuses a connection for long. Returns whether the manager then closes all. */
static bool closes_all(void)
{
	owner.refused(owner.arg);
	paused = false;
	event_active(store.group.conns.limit, EV_TIMEOUT, 0);
	event_base_loop(store.group.base, EVLOOP_NONBLOCK);
	return paused;
}

/* Two managers would keep a part each, and neither could work. */
Test(role, a_manager_without_heartbeats_does_not_take_itself_for_the_only_one)
{
	begin();
	role->heartbeats = true;
	store_others(&store, false);
	cr_expect_not(closes_all());
	store_others(&store, true);
	cr_expect(closes_all());
	store.group.conns.collecting = false;
	store_others(&store, false);
	owner.lost(owner.arg);
	cr_expect(closes_all());
	end();
}
