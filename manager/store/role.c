/* Batches the operations of a role on its connection. See role.h. */
#include "manager/store/role.h"

#include "common/clock.h"
#include "common/log.h"
#include "manager/store/role_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { DOWN_LIMIT_MS = 2000 };

/* How long a role pauses before it retries an operation that waits for a lock. */
enum { PAUSE_MS = 250 };

/* True if `role` takes operations that wait for `home`. */
static bool takes(const struct role *role, const struct role *home)
{
	for (int i = 0; i < ROLE_LISTS; i++)
		if (role->takes[i] == home)
			return true;
	return false;
}

void role_offer(struct role *home)
{
	struct role *roles = home->group->roles;
	for (int i = 0; i < home->group->count && home->waiting; i++)
		if (takes(&roles[i], home))
			role_pump(&roles[i]);
}

/* True if some role that takes from `home` is connected. */
static bool served(const struct role *home)
{
	const struct role *roles = home->group->roles;
	for (int i = 0; i < home->group->count; i++)
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
		fair_begin(&home->fair, op);
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

/* True if the role pauses, and the pause does not end early (op_kind.batch_wait_ms). */
static bool pauses(const struct role *role)
{
	if (!evtimer_pending(role->pause, NULL))
		return false;
	if (!role->pause_until_weight)
		return true;
	return role->waiting_weight < role->pause_until_weight && !role->waiting_urgent &&
	    !(role->waiting && role->waiting->batch_limit);
}

void role_pump(struct role *role)
{
	if (role->count || role->group->conns.collecting || !conn_idle(role->conn) || pauses(role))
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
	role_offer(role);
}

void role_take(struct role *role, struct role *first, struct role *second)
{
	role->takes[0] = first;
	role->takes[1] = second;
}

void role_drop(struct role *home, struct store_op *op)
{
	struct role *roles = home->group->roles;
	for (int i = 0; i < home->group->count; i++)
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

int role_batch_take(struct role *role, struct store_op **ops, void **state)
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
static void wait_for_more(struct role *role, const struct op_kind *kind)
{
	pause_start(role, kind->batch_wait_ms * 1000, kind->batch_weight ? kind->batch_weight : role->weight_limit);
}

void role_done(struct role *role)
{
	struct store_op *ops[ROLE_BATCH_OPS];
	void *state;
	int n = role_batch_take(role, ops, &state);
	if (n && ops[0]->kind->batch_wait_ms && all_can_wait(ops, n))
		wait_for_more(role, ops[0]->kind);
	/* Send the next batch first, so that PostgreSQL works while the answers are created. */
	role_pump(role);
	for (int i = 0; i < n; i++)
		ops[i]->done(ops[i], NULL);
	free(state);
}

void role_batch_requeue(struct role *role, int batch_limit, bool again)
{
	struct store_op *ops[ROLE_BATCH_OPS];
	void *state;
	int n = role_batch_take(role, ops, &state);
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

void role_batch_fail(struct role *role, reeve_status code, const char *message)
{
	struct store_op *ops[ROLE_BATCH_OPS];
	struct reeve_error error;
	void *state;
	int n = role_batch_take(role, ops, &state);
	free(state);
	error_set(&error, code, "%s", message);
	for (int i = 0; i < n; i++)
		ops[i]->done(ops[i], &error);
	role_pump(role);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	role_pump(arg);
}

void role_pause(struct role *role)
{
	pause_start(role, PAUSE_MS * 1000 / (1 + (int)role->waiting_count), 0);
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
	const struct role_group *group = role->group;
	if (role->listens)
		group->listening(group->arg);
	if (conn_set_ready(&role->group->conns))
		for (int i = 0; i < group->count; i++)
			role_pump(&group->roles[i]);
	else
		role_pump(role);
}

/* The batch in flight has its result already; the other operations wait for the next connection. */
static void on_lost(void *arg)
{
	const struct role *role = arg;
	conn_set_lost(&role->group->conns);
	if (role->heartbeats)
		role->group->conns.others = true; /* there may be some: it would not learn of them */
}

static void on_refused(void *arg)
{
	const struct role *role = arg;
	conn_set_refused(&role->group->conns, conn_problem(role->conn));
}

static void on_notified(void *arg, const char *payload)
{
	const struct role_group *group = ((struct role *)arg)->group;
	group->notified(group->arg, payload);
}

void role_open(struct role *role, struct role_group *group, const struct conn_settings *settings, int weight_limit)
{
	role->group = group;
	role->store = group->store;
	role->name = settings->name;
	role->listens = settings->listens;
	role->weight_limit = weight_limit;
	role->takes[0] = role;
	struct conn_listener listener = {on_ready, on_lost, on_refused, on_notified, role};
	role->pause = evtimer_new(group->base, on_pause_over, role);
	role->conn = conn_create(group->base, settings, &listener);
	conn_set_add(&group->conns, role->conn);
}

const char *role_group_problem(const struct role_group *group)
{
	for (int i = 0; i < group->count; i++)
		if (!conn_up(group->roles[i].conn))
			return conn_problem(group->roles[i].conn);
	return "";
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
	bool up = served(role) && !role->group->conns.collecting;
	DL_FOREACH_SAFE (role->waiting, op, tmp) {
		if (!op->deadline_ms)
			continue;
		/* While the database is down, callers are answered early: another manager may reach it. */
		bool in_vain = !up && !op->again && now_ms - op->added_ms > DOWN_LIMIT_MS;
		if (!is_over(op, now_ms) && !in_vain)
			continue;
		struct reeve_error error;
		if (op->again)
			error_set(&error, STATUS(DEADLINE_EXCEEDED),
			    "the connection to the database broke during the call; repeat it with the same request id");
		else if (!up)
			error_set(&error, STATUS(UNAVAILABLE), "no database: %s",
			    conn_up(role->conn) ? role_group_problem(role->group) : conn_problem(role->conn));
		else if (op->kind->waits_for)
			error_set(&error, STATUS(UNAVAILABLE), "%s", op->kind->waits_for(op));
		else if (op->blocked)
			error_set(&error, STATUS(UNAVAILABLE), LOCKED_OUT "; try again", op_name(op));
		else
			error_set(&error, STATUS(UNAVAILABLE),
			    "it waited %lld ms for its turn on the database connection \"%s\", which works on: %s; try again",
			    (long long)(now_ms - op->added_ms), role->name, role->count ? op_name(role->batch[0]) : "nothing");
		unlink_waiting(role, op);
		op->done(op, &error);
	}
}
