/* What follows a batch that PostgreSQL has refused, or whose connection broke: see role_refused. */
#include "common/clock.h"
#include "common/log.h"
#include "manager/store/role_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES_MAX = 20 };

/* The size of the parts into which a batch is split that could not get a lock in time. Halving it would wait for the
 * lock timeout at each step. */
enum { LOCKED_PART = 32 };

/* How long a role is careful after it met a lock. */
enum { CAREFUL_MS = 1000 };

/* How long the role `lock_wait` tries an operation without a deadline before it fails. */
enum { LOCK_WAIT_MS = 10000 };

static reeve_status status_of_sqlstate(const char *state)
{
	/* RV: raised by Reeve's SQL functions. The last three digits are HTTP status codes, except 440 (exists already). */
	if (!strcmp(state, "RV400") || !strncmp(state, "22", 2))
		return STATUS(INVALID_ARGUMENT);
	if (!strncmp(state, "53", 2) || !strncmp(state, "58", 2))
		return STATUS(UNAVAILABLE); /* out of disk, of memory, of connections */
	if (!strcmp(state, "RV403"))
		return STATUS(PERMISSION_DENIED);
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
static void batch_pass_on(struct role *role)
{
	struct store_op *ops[ROLE_BATCH_OPS];
	void *state;
	role_batch_take(role, ops, &state);
	free(state);
	bool again = ops[0]->again;
	if (role == role->lock_wait)
		role_pause(role);
	role_add(role->lock_wait, ops[0]);
	ops[0]->again = again;
	ops[0]->blocked = true;
	role_pump(role);
}

static bool lock_wait_over(const struct store_op *op)
{
	int64_t now = clock_monotonic_ms();
	return op->deadline_ms ? op->deadline_ms <= now : op->added_ms + LOCK_WAIT_MS <= now;
}

static void refusal_apply(struct role *role, const struct refusal *refusal)
{
	int n = role->count;
	if (refusal->locked && role->batch[0]->kind->careful_again_ms && !role_careful(role)) {
		be_careful(role);
		role_batch_requeue(role, 0, false);
		role_pump(role);
	} else if (refusal->retry && role->batch[0]->tries++ < TRIES_MAX) {
		role_batch_requeue(role, 0, false);
		role_pump(role);
	} else if (n > 1) {
		int part = refusal->locked ? (n > LOCKED_PART ? LOCKED_PART : 1) : (n + 1) / 2;
		role_batch_requeue(role, part, false);
		role_pump(role);
	} else if (refusal->locked && role->batch[0]->kind->blocked) {
		struct store_op *ops[ROLE_BATCH_OPS];
		void *state;
		role_batch_take(role, ops, &state);
		free(state);
		ops[0]->kind->blocked(role->store, ops[0], refusal->message);
		role_pump(role);
	} else if (refusal->locked && role->lock_wait && !lock_wait_over(role->batch[0])) {
		batch_pass_on(role);
	} else if (refusal->locked && role->batch[0]->kind->careful_again_ms && role->batch[0]->tries++ < TRIES_MAX) {
		be_careful(role); /* it was locked after the check */
		role_batch_requeue(role, 0, false);
		role_pump(role);
	} else {
		if (refusal->code == STATUS(INTERNAL) ||
		    (refusal->starved && log_again(&role->starved_ms, clock_monotonic_ms())))
			log_error(role->name, "%s: %s", op_name(role->batch[0]), refusal->message);
		char message[400];
		if (refusal->locked)
			snprintf(message, sizeof message, LOCKED_OUT "%s", op_name(role->batch[0]),
			    role->batch[0]->deadline_ms ? "; try again" : ""); /* a job is tried again by itself */
		role_batch_fail(role, refusal->code, refusal->locked ? message : refusal->message);
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
	refusal_apply(role, &refusal);
}

/* Requeues the batch after the connection broke. Other roles that take from the same list continue with it. */
static void requeue_lost(struct role *role)
{
	struct role *home = role->batch[0]->role;
	role_batch_requeue(role, role->batch[0]->batch_limit, true);
	role_offer(home);
}

void role_refused(struct role *role, const struct conn_result *result)
{
	assert(role->count > 0 && result->kind != CONN_OK);
	if (result->kind == CONN_LOST) {
		if (role->batch[0]->kind->reports_unknown)
			role_batch_fail(role, STATUS(UNKNOWN), result->message);
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
		refusal_apply(role, &refusal);
		return;
	}
	free(role->state);
	role->state = mem_malloc(sizeof refusal);
	*(struct refusal *)role->state = refusal;
	params_reset(&role->params);
	role_try(role, SQL_ROLLBACK, after_rollback);
}
