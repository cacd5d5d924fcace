/* Batches the operations of a role on its connection. See role.h. */
#include "manager/store/role.h"

#include "common/clock.h"
#include "common/log.h"
#include "manager/store/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { TRIES_MAX = 20, DOWN_LIMIT_MS = 2000 };

/* The size of the parts into which a batch is split that could not get a lock in time. Halving it would wait for the
 * lock timeout at each step. */
enum { LOCKED_PART = 32 };

enum {
	CAREFUL_MS = 1000, /* how long a role is careful after it met a lock */
	PAUSE_MS = 250,    /* how long it pauses before it retries an operation that waits for a lock */
};

#define LOCKED_OUT "another transaction holds a lock that this needs (%s); try again"

/* How long the role `lock_wait` tries an operation without a deadline before it fails. */
enum { PATIENCE_MS = 10000 };

static void pump(struct role *role);

/* True if `role` takes operations that wait for `home`. */
static bool takes(const struct role *role, const struct role *home)
{
	for (int i = 0; i < ROLE_LISTS; i++)
		if (role->takes[i] == home)
			return true;
	return false;
}

/* Starts batches of a role's waiting operations on the idle roles that take them. */
static void offer(struct role *home)
{
	struct role *roles = home->store->roles;
	for (int i = 0; i < ROLE_COUNT && home->waiting; i++)
		if (takes(&roles[i], home))
			pump(&roles[i]);
}

/* True if some role that takes from `home` is connected. */
static bool served(const struct role *home)
{
	const struct role *roles = home->store->roles;
	for (int i = 0; i < ROLE_COUNT; i++)
		if (takes(&roles[i], home) && conn_up(roles[i].conn))
			return true;
	return false;
}

/* Adds an operation to the sums of what waits, or with -1 subtracts it. */
static void count_waiting(struct role *role, const struct store_op *op, int sign)
{
	role->waiting_count += (size_t)sign;
	role->waiting_weight += sign * op->weight;
	role->waiting_bytes += (size_t)sign * op->bytes;
	role->waiting_urgent += (size_t)sign * !op->can_wait;
}

static void unlink_waiting(struct role *role, struct store_op *op)
{
	DL_DELETE(role->waiting, op);
	fair_leave(&role->fair, op);
	count_waiting(role, op, -1);
}

static bool is_over(const struct store_op *op, int64_t now_ms)
{
	return op->deadline_ms && op->deadline_ms <= now_ms;
}

/* Chooses the next batch from the operations that wait for `home`: those of the first one's kind, in order, as many
 * as fit. Those whose deadline has passed are left to role_expire: a caller gives up at its deadline, and what it then
 * takes for not done must not begin. */
static void batch_choose(struct role *role, struct role *home)
{
	const struct op_kind *kind = NULL;
	struct store_op *op, *tmp;
	int64_t now_ms = clock_monotonic_ms();
	int weight = 0, limit = ROLE_BATCH_OPS;
	size_t bytes = 0;
	DL_FOREACH_SAFE (home->waiting, op, tmp) {
		if (role->count >= limit || role->count >= ROLE_BATCH_OPS)
			break;
		if (is_over(op, now_ms))
			continue;
		kind = kind ? kind : op->kind;
		if (op->kind != kind || (kind->joins && role->count && !kind->joins(role, op)))
			continue;
		if (role->count && (weight + op->weight > role->weight_limit || bytes + op->bytes > STORE_BATCH_BYTES))
			break;
		if (op->batch_limit) {
			if (role->count >= op->batch_limit)
				break;
			limit = op->batch_limit < limit ? op->batch_limit : limit;
		}
		weight += op->weight;
		bytes += op->bytes;
		unlink_waiting(home, op);
		role->batch[role->count++] = op;
	}
}

/* Starts a pause. `until_weight`: it ends early when operations of this weight wait; 0: it does not end early. */
static void pause_start(struct role *role, int us, int until_weight)
{
	const struct timeval wait = {.tv_usec = us};
	role->pause_until_weight = until_weight;
	event_add(role->pause, &wait);
}

/* True if the role pauses, and the pause does not end early (op_kind.gather_ms). */
static bool pauses(const struct role *role)
{
	if (!evtimer_pending(role->pause, NULL))
		return false;
	if (!role->pause_until_weight)
		return true;
	return role->waiting_weight < role->pause_until_weight && !role->waiting_urgent &&
	       !(role->waiting && role->waiting->batch_limit);
}

static void pump(struct role *role)
{
	if (role->count || !conn_idle(role->conn) || pauses(role))
		return;
	for (int i = 0; i < ROLE_LISTS && !role->count; i++)
		if (role->takes[i] && role->takes[i]->waiting)
			batch_choose(role, role->takes[i]);
	if (!role->count)
		return;
	role->batches++;
	role->operations += role->count;
	params_reset(&role->params);
	role->batch[0]->kind->start(role);
}

void role_add(struct role *role, struct store_op *op)
{
	op->role = role;
	op->tries = 0;
	op->batch_limit = 0;
	op->again = op->blocked = false;
	fair_add(&role->fair, &role->waiting, op);
	count_waiting(role, op, 1);
	offer(role);
}

void role_take(struct role *role, struct role *first, struct role *second)
{
	role->takes[0] = first;
	role->takes[1] = second;
}

void role_drop(struct role *home, struct store_op *op)
{
	struct role *roles = home->store->roles;
	for (int i = 0; i < ROLE_COUNT; i++)
		for (int k = 0; k < roles[i].count; k++) {
			if (roles[i].batch[k] != op)
				continue;
			op->deadline_ms = 1; /* it must not be tried again */
			if (roles[i].count == 1)
				conn_cancel(roles[i].conn);
			return;
		}
	struct reeve_error error;
	error_set(&error, STATUS(CANCELLED), "the caller has gone");
	unlink_waiting(home, op);
	op->done(op, &error);
}

/* Moves the batch out of the role, which is then free for the next one; returns the number of operations. The caller
 * must free *state when the operations are done, because their results are in it. */
static int batch_take(struct role *role, struct store_op **ops, void **state)
{
	int n = role->count;
	memcpy(ops, role->batch, sizeof *ops * (size_t)n);
	role->count = 0;
	*state = role->state;
	role->state = NULL;
	return n;
}

static bool all_can_wait(struct store_op *const *ops, int n)
{
	for (int i = 0; i < n; i++)
		if (!ops[i]->can_wait)
			return false;
	return true;
}

/* Pauses after a batch of this kind, until enough operations wait: a full batch, or less if the kind says so. */
static void gather(struct role *role, const struct op_kind *kind)
{
	pause_start(role, kind->gather_ms * 1000, kind->gather_weight ? kind->gather_weight : role->weight_limit);
}

void role_done(struct role *role)
{
	struct store_op *ops[ROLE_BATCH_OPS];
	void *state;
	int n = batch_take(role, ops, &state);
	if (n && ops[0]->kind->gather_ms && all_can_wait(ops, n))
		gather(role, ops[0]->kind);
	/* Send the next batch first, so that PostgreSQL works while the answers are created. */
	pump(role);
	for (int i = 0; i < n; i++)
		ops[i]->done(ops[i], NULL);
	free(state);
}

/* Returns the batch to the head of the list it came from, in the same order. */
static void batch_requeue(struct role *role, int batch_limit, bool again)
{
	struct store_op *ops[ROLE_BATCH_OPS];
	void *state;
	int n = batch_take(role, ops, &state);
	free(state);
	for (int i = n - 1; i >= 0; i--) {
		struct store_op *op = ops[i];
		op->again |= again;
		op->batch_limit = batch_limit;
		DL_PREPEND(op->role->waiting, op);
		fair_return(&op->role->fair, op);
		count_waiting(op->role, op, 1);
	}
}

static void batch_fail(struct role *role, reeve_status code, const char *message)
{
	struct store_op *ops[ROLE_BATCH_OPS];
	struct reeve_error error;
	void *state;
	int n = batch_take(role, ops, &state);
	free(state);
	error_set(&error, code, "%s", message);
	for (int i = 0; i < n; i++)
		ops[i]->done(ops[i], &error);
	pump(role);
}

static reeve_status status_of_sqlstate(const char *state)
{
	/* RV: raised by Reeve's SQL functions. The last three digits are HTTP status codes, except 440 (exists already). */
	if (!strcmp(state, "RV400") || !strncmp(state, "22", 2))
		return STATUS(INVALID_ARGUMENT);
	if (!strncmp(state, "53", 2) || !strncmp(state, "58", 2))
		return STATUS(UNAVAILABLE); /* out of disk, of memory, of connections */
	if (!strcmp(state, "RV404"))
		return STATUS(NOT_FOUND);
	if (!strcmp(state, "RV409") || !strcmp(state, "RV429"))
		return STATUS(FAILED_PRECONDITION); /* 429: too many of something; waiting does not help */
	if (!strcmp(state, "RV440"))
		return STATUS(ALREADY_EXISTS);
	if (!strcmp(state, "RV503"))
		return STATUS(UNAVAILABLE);
	if (!strcmp(state, "55P03"))
		return STATUS(UNAVAILABLE); /* lock_timeout */
	if (!strcmp(state, "57014"))
		return STATUS(DEADLINE_EXCEEDED); /* statement_timeout */
	if (!strcmp(state, "42501"))
		return STATUS(UNAVAILABLE); /* the database's owner must grant the rights */
	return STATUS(INTERNAL);
}

/* Why a batch was refused. Within a transaction it is kept in role->state until the rollback. */
struct refusal {
	reeve_status code;
	bool retry, locked, starved; /* starved: PostgreSQL lacks disk, memory or the like */
	char message[400];
};

bool role_careful(const struct role *role)
{
	return clock_monotonic_ms() < role->careful_until_ms;
}

/* Makes the role careful, because its batch could not get a lock in time. */
static void be_careful(struct role *role)
{
	int64_t now_ms = clock_monotonic_ms(), over_ms = now_ms - role->careful_until_ms;
	bool again = role->careful_until_ms && over_ms >= 0 && over_ms < CAREFUL_MS;
	int64_t until_ms = now_ms + (again ? role->batch[0]->kind->careful_again_ms : CAREFUL_MS);
	if (until_ms > role->careful_until_ms)
		role->careful_until_ms = until_ms;
}

/* Passes the only operation of the batch, which could not get a lock, to the role `lock_wait`. */
static void batch_hand_on(struct role *role)
{
	struct store_op *ops[ROLE_BATCH_OPS];
	void *state;
	batch_take(role, ops, &state);
	free(state);
	bool again = ops[0]->again;
	if (role == role->lock_wait)
		role_pause(role);
	role_add(role->lock_wait, ops[0]);
	ops[0]->again = again;
	ops[0]->blocked = true;
	pump(role);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	pump(arg);
}

void role_pause(struct role *role)
{
	pause_start(role, PAUSE_MS * 1000 / (1 + (int)role->waiting_count), 0);
}

static bool patience_ends(const struct store_op *op)
{
	int64_t now = clock_monotonic_ms();
	return op->deadline_ms ? op->deadline_ms <= now : op->given_ms + PATIENCE_MS <= now;
}

static void refusal_settle(struct role *role, const struct refusal *refusal)
{
	int n = role->count;
	if (refusal->locked && role->batch[0]->kind->careful_again_ms && !role_careful(role)) {
		be_careful(role);
		batch_requeue(role, 0, false);
		pump(role);
	} else if (refusal->retry && role->batch[0]->tries++ < TRIES_MAX) {
		batch_requeue(role, 0, false);
		pump(role);
	} else if (n > 1) {
		int part = refusal->locked ? (n > LOCKED_PART ? LOCKED_PART : 1) : (n + 1) / 2;
		batch_requeue(role, part, false);
		pump(role);
	} else if (refusal->locked && role->batch[0]->kind->blocked) {
		struct store_op *ops[ROLE_BATCH_OPS];
		void *state;
		batch_take(role, ops, &state);
		free(state);
		ops[0]->kind->blocked(role->store, ops[0], refusal->message);
		pump(role);
	} else if (refusal->locked && role->lock_wait && !patience_ends(role->batch[0])) {
		batch_hand_on(role);
	} else if (refusal->locked && role->batch[0]->kind->careful_again_ms && role->batch[0]->tries++ < TRIES_MAX) {
		be_careful(role); /* it was locked after the check */
		batch_requeue(role, 0, false);
		pump(role);
	} else {
		if (refusal->code == STATUS(INTERNAL) ||
		    (refusal->starved && log_again(&role->starved_ms, clock_monotonic_ms())))
			log_error(role->name, "%s: %s", op_name(role->batch[0]), refusal->message);
		char message[400];
		if (refusal->locked)
			snprintf(message, sizeof message, LOCKED_OUT, op_name(role->batch[0]));
		batch_fail(role, refusal->code, refusal->locked ? message : refusal->message);
	}
}

static void after_rollback(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	if (result->kind == CONN_LOST) {
		role_refused(role, result);
		return;
	}
	struct refusal refusal = *(struct refusal *)role->state;
	refusal_settle(role, &refusal);
}

/* Requeues the batch after the connection broke. Other roles that take from the same list continue with it. */
static void requeue_lost(struct role *role)
{
	struct role *home = role->batch[0]->role;
	batch_requeue(role, role->batch[0]->batch_limit, true);
	offer(home);
}

void role_refused(struct role *role, const struct conn_result *result)
{
	assert(role->count > 0 && result->kind != CONN_OK);
	if (result->kind == CONN_LOST) {
		if (role->batch[0]->kind->reports_unknown)
			batch_fail(role, STATUS(UNKNOWN), result->message);
		else
			requeue_lost(role);
		return;
	}
	struct refusal refusal = {
	    .code = status_of_sqlstate(result->sqlstate),
	    .retry = !strcmp(result->sqlstate, "40P01") || !strcmp(result->sqlstate, "40001"),
	    .locked = !strcmp(result->sqlstate, "55P03"),
	    .starved = !strncmp(result->sqlstate, "53", 2) || !strncmp(result->sqlstate, "58", 2),
	};
	memcpy(refusal.message, result->message, sizeof refusal.message);
	if (!conn_in_transaction(role->conn)) {
		refusal_settle(role, &refusal);
		return;
	}
	free(role->state);
	role->state = mem_malloc(sizeof refusal);
	*(struct refusal *)role->state = refusal;
	params_reset(&role->params);
	role_try(role, SQL_ROLLBACK, after_rollback);
}

void role_on_done(struct role *role, const PGresult *rows)
{
	(void)rows;
	role_done(role);
}

void role_try(struct role *role, enum sql_id statement, conn_done *next)
{
	conn_run(role->conn, statement, &role->params, next, role);
	params_reset(&role->params);
}

static void on_result(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	if (result->kind == CONN_OK)
		role->next(role, result->rows);
	else
		role_refused(role, result);
}

void role_run(struct role *role, enum sql_id statement, role_next *next)
{
	role->next = next;
	role_try(role, statement, on_result);
}

static void on_ready(void *arg)
{
	struct role *role = arg;
	if (role == &role->store->roles[ROLE_LISTEN])
		role->store->listener.listening(role->store->listener.arg);
	pump(role);
}

/* The batch in flight has its result already; the other operations wait for the next connection. */
static void on_lost(void *arg)
{
	(void)arg;
}

static void on_notified(void *arg, const char *payload)
{
	struct role *role = arg;
	role->store->listener.notified(role->store->listener.arg, payload);
}

void role_open(struct role *role, struct store *store, const struct conn_settings *settings, int weight_limit)
{
	role->store = store;
	role->name = settings->name;
	role->weight_limit = weight_limit;
	role->takes[0] = role;
	struct conn_listener listener = {on_ready, on_lost, on_notified, role};
	role->pause = evtimer_new(store->base, on_pause_over, role);
	role->conn = conn_create(store->base, settings, &listener);
}

void role_close(struct role *role)
{
	struct reeve_error error;
	conn_destroy(role->conn);
	error_set(&error, STATUS(UNAVAILABLE), "the manager stops");
	struct store_op *op, *tmp;
	for (int i = 0; i < role->count; i++)
		role->batch[i]->done(role->batch[i], &error);
	role->count = 0;
	DL_FOREACH_SAFE (role->waiting, op, tmp) {
		unlink_waiting(role, op);
		op->done(op, &error);
	}
	event_free(role->pause);
	free(role->state);
	params_free(&role->params);
}

void role_expire(struct role *role, int64_t now_ms)
{
	struct store_op *op, *tmp;
	bool up = served(role);
	DL_FOREACH_SAFE (role->waiting, op, tmp) {
		if (!op->deadline_ms)
			continue;
		/* While the database is down, callers are answered early: another manager may reach it. */
		bool in_vain = !up && !op->again && now_ms - op->given_ms > DOWN_LIMIT_MS;
		if (!is_over(op, now_ms) && !in_vain)
			continue;
		struct reeve_error error;
		if (op->again)
			error_set(&error, STATUS(DEADLINE_EXCEEDED),
			    "the database went away while it worked on this; ask again with the same request id");
		else if (!up)
			error_set(&error, STATUS(UNAVAILABLE), "no database: %s", conn_problem(role->conn));
		else if (op->kind->waits_for)
			error_set(&error, STATUS(UNAVAILABLE), "%s", op->kind->waits_for(op));
		else if (op->blocked)
			error_set(&error, STATUS(UNAVAILABLE), LOCKED_OUT, op_name(op));
		else
			error_set(&error, STATUS(UNAVAILABLE),
			    "it waited %lld ms for its turn on the database connection \"%s\", which works on: %s; try again",
			    (long long)(now_ms - op->given_ms), role->name, role->count ? op_name(role->batch[0]) : "nothing");
		unlink_waiting(role, op);
		op->done(op, &error);
	}
}
