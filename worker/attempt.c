/*
 * Attempts: their assignment, their outcome, and the checks that every result passes before it is reported.
 */
#include "worker/attempt.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/result_text.h"
#include "common/text.h"
#include "worker/handler.h"
#include "worker/lease.h"
#include "worker/news.h"
#include "worker/result_store.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	/* A handler must have ended this long before its attempt expires, so that the report still counts. */
	EXPIRY_MARGIN_MS = 1000,
	/* An attempt counts as roomy if it could wait this long for a slot. So an attempt that starts promptly is never
	 * returned, however little time beyond its timeout it has. */
	ROOMY_WAIT_MS = 1000,
};

enum { ERROR_MAX_BYTES = 16 * 1024 }; /* longer ones are cut */

struct attempt *attempt_create(Reeve__V1__Assignment *assignment, struct handler *handler, const struct lease *lease,
    size_t max_result_bytes, int64_t claimed_ms, int64_t now_ms)
{
	struct attempt *attempt = mem_calloc(1, sizeof *attempt);
	int64_t expires_in = assignment->expires_in_ms;

	attempt->assignment = assignment;
	attempt->handler = handler;
	handler_use(handler);
	attempt->lease = lease;
	attempt->event_fd = -1;
	attempt->max_result_bytes = max_result_bytes;
	attempt->key = (struct attempt_key){assignment->task_id, assignment->token};
	atomic_init(&attempt->expires_ms,
	    expires_in > 0 && expires_in < INT64_MAX - claimed_ms ? claimed_ms + expires_in : INT64_MAX);
	attempt->timeout_ms = assignment->timeout_ms > 0 ? assignment->timeout_ms : INT64_MAX;
	if (handler && handler->timeout_ms > 0 && handler->timeout_ms < attempt->timeout_ms)
		attempt->timeout_ms = handler->timeout_ms;
	atomic_init(&attempt->timeout_at_ms, INT64_MAX);
	atomic_init(&attempt->stop, STOP_NONE);
	attempt->public = (struct reeve_attempt){
	    .task_id = assignment->task_id,
	    .token = assignment->token,
	    .queue = assignment->queue,
	    .type = assignment->type,
	    .key = assignment->key,
	    .details = assignment->details,
	    .stage = assignment->stage,
	    .traceparent = assignment->traceparent,
	    .attempt = assignment->attempt,
	    .max_attempts = assignment->max_attempts,
	    .timeout_ms = attempt->timeout_ms,
	    .user_data = handler ? handler->user_data : NULL,
	};
	attempt->roomy = true;
	attempt->roomy = now_ms + ROOMY_WAIT_MS < attempt_stale_ms(attempt);
	return attempt;
}

/* Removes the result, error and code; keeps the remark, stack, stage and retry delay. */
static void outcome_clear(struct reeve_outcome *outcome)
{
	free(outcome->result);
	free(outcome->error);
	free(outcome->code);
	outcome->kind = REEVE__V1__OUTCOME__OUTCOME_UNSPECIFIED;
	outcome->result = outcome->error = outcome->code = NULL;
	outcome->result_length = 0;
}

void attempt_free(struct attempt *attempt)
{
	if (!attempt)
		return;
	outcome_clear(&attempt->outcome);
	free(attempt->outcome.remark);
	free(attempt->outcome.stack_trace);
	free(attempt->outcome.stage);
	news_free(atomic_load(&attempt->news));
	protobuf_c_message_free_unpacked(&attempt->assignment->base, NULL);
	handler_drop(attempt->handler);
	free(attempt);
}

bool attempt_stop(struct attempt *attempt, enum stop_reason reason)
{
	int was = atomic_load(&attempt->stop);

	while (was == STOP_NONE || ((int)reason >= STOP_LOST && (int)reason > was))
		if (atomic_compare_exchange_weak(&attempt->stop, &was, reason))
			return true;
	return false;
}

bool reeve_attempt_cancelled(const struct reeve_attempt *public)
{
	struct attempt *attempt = (struct attempt *)public; /* ours; only the handler's view of it is const */
	int64_t now_ms;

	if (atomic_load(&attempt->stop) != STOP_NONE)
		return true;
	now_ms = clock_monotonic_ms();
	/* The worker itself may have been frozen, so that no thread could set `stop`. */
	if (!lease_runs(attempt->lease, now_ms))
		attempt_stop(attempt, STOP_LEASE);
	return atomic_load(&attempt->stop) != STOP_NONE || now_ms >= atomic_load(&attempt->timeout_at_ms);
}

int64_t attempt_stale_ms(const struct attempt *attempt)
{
	int64_t last_ms = attempt_last_moment(attempt);

	/* An attempt that had too little time on arrival would have no more if it were assigned again: it runs, limited by
	 * attempt_last_moment. */
	if (!attempt->roomy || last_ms == INT64_MAX)
		return INT64_MAX;
	return attempt->timeout_ms == INT64_MAX ? last_ms : last_ms - attempt->timeout_ms + 1;
}

void attempt_end_stale(struct attempt *attempt)
{
	attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "waited",
	    "waited too long at the worker to be started before it expires");
}

int64_t attempt_last_moment(const struct attempt *attempt)
{
	int64_t expires_ms = atomic_load(&attempt->expires_ms);

	return expires_ms == INT64_MAX ? INT64_MAX : expires_ms - EXPIRY_MARGIN_MS;
}

static char *copy(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

static int outcome_set(
    struct reeve_outcome *outcome, Reeve__V1__Outcome kind, const char *result, const char *code, const char *error)
{
	char *new_result = copy(result), *new_error = copy(error), *new_code = copy(code); /* these may be the old ones */

	outcome_clear(outcome);
	outcome->kind = kind;
	outcome->result = new_result;
	outcome->result_length = new_result ? strlen(new_result) : 0;
	outcome->error = new_error;
	outcome->code = new_code;
	return 0;
}

int reeve_outcome_complete(struct reeve_outcome *outcome, const char *result)
{
	/* An empty result, the usual one, needs no memory. */
	return outcome_set(outcome, REEVE__V1__OUTCOME__OUTCOME_COMPLETED, text_given(result), NULL, NULL);
}

int reeve_outcome_complete_bytes(struct reeve_outcome *outcome, const void *result, size_t length)
{
	struct attempt *attempt = (struct attempt *)((char *)outcome - offsetof(struct attempt, outcome));
	char *bytes = length ? mem_malloc(length + 1) : NULL;

	if (length)
		memcpy(bytes, result, length);
	attempt_complete(attempt, bytes, length);
	return 0;
}

int reeve_outcome_fail(struct reeve_outcome *outcome, const char *code, const char *error)
{
	return outcome_set(outcome, REEVE__V1__OUTCOME__OUTCOME_FAILED, NULL, code, error);
}

int reeve_outcome_fatal(struct reeve_outcome *outcome, const char *code, const char *error)
{
	return outcome_set(outcome, REEVE__V1__OUTCOME__OUTCOME_FATAL, NULL, code, error);
}

int reeve_outcome_skip(struct reeve_outcome *outcome, const char *reason)
{
	return outcome_set(outcome, REEVE__V1__OUTCOME__OUTCOME_RETURNED, NULL, ATTEMPT_SKIPPED,
	    reason && *reason ? reason : "its handler declined it");
}

static void replace(char **text, const char *with)
{
	char *copied = copy(with);

	free(*text);
	*text = copied;
}

void reeve_outcome_stack_trace(struct reeve_outcome *outcome, const char *stack_trace)
{
	replace(&outcome->stack_trace, stack_trace);
}

void reeve_outcome_stage(struct reeve_outcome *outcome, const char *stage)
{
	replace(&outcome->stage, text_given(stage));
}

void reeve_outcome_retry_in(struct reeve_outcome *outcome, int64_t ms)
{
	outcome->retry_in_ms = ms <= 0 ? 1 : ms < DAYS_MS(LIMIT_RETRY_DAYS) ? ms : DAYS_MS(LIMIT_RETRY_DAYS);
}

void attempt_complete(struct attempt *attempt, char *result, size_t length)
{
	outcome_clear(&attempt->outcome);
	attempt->outcome.kind = REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
	if (!result)
		return;
	result[length] = '\0';
	attempt->outcome.result = result;
	attempt->outcome.result_length = length;
}

void attempt_end(struct attempt *attempt, Reeve__V1__Outcome kind, const char *code, const char *format, ...)
{
	va_list args;
	char *error;

	va_start(args, format);
	error = mem_vasprintf(format, args);
	va_end(args);
	outcome_clear(&attempt->outcome);
	attempt->outcome.kind = kind;
	attempt->outcome.error = error;
	attempt->outcome.code = copy(code);
}

void attempt_end_stopped(struct attempt *attempt, enum stop_reason reason)
{
	switch (reason) {
	case STOP_CANCEL: attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_CANCELLED, "cancelled", "cancelled"); break;
	case STOP_DRAIN: attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "drained", "the worker stops"); break;
	case STOP_LEASE:
	case STOP_LOST:
	case STOP_ABANDON: /* never reported */
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_LEASE_ENDED, "lease", "stopped: lease ended");
		break;
	case STOP_NONE: assert(!"an attempt that was not stopped");
	}
}

void attempt_end_late(struct attempt *attempt, const char *message)
{
	if (atomic_load(&attempt->timeout_at_ms) == attempt_last_moment(attempt))
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "timeout", "not done before it expires%s%s",
		    *message ? ": " : "", message);
	else
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "timeout", "not done after %lld ms%s%s",
		    (long long)(atomic_load(&attempt->timeout_at_ms) - attempt->started_ms), *message ? ": " : "", message);
}

int attempt_cost(const struct attempt *attempt)
{
	int cost = attempt->handler ? atomic_load_explicit(&attempt->handler->cost_us, memory_order_relaxed) : 0;

	if (attempt->assignment->resting_ms > 0) /* its slot is then in a resting period */
		return HANDLER_COST_FULL_US;
	return cost > 0 ? cost : 1;
}

void attempt_notify(const struct attempt *attempt)
{
	uint64_t one = 1;

	if (attempt->event_fd >= 0 && write(attempt->event_fd, &one, sizeof one) < 0)
		assert(errno == EAGAIN);
}

/* Returns a copy of up to `limit` bytes of a string, with invalid UTF-8 repaired. */
static char *clean_copy(const char *text, size_t limit)
{
	size_t length = strlen(text);
	char *repaired = utf8_repair(text, length > limit ? utf8_cut(text, limit) : length);

	repaired[utf8_cut(repaired, strlen(repaired) < limit ? strlen(repaired) : limit)] = '\0';
	return repaired;
}

/* Repairs invalid UTF-8 and cuts the string to `limit` bytes. A NULL string stays NULL. */
static void clean(char **text, size_t limit)
{
	char *cleaned;

	if (!*text)
		return;
	cleaned = clean_copy(*text, limit);
	free(*text);
	*text = cleaned;
}

/* Repairs and cuts the strings to what can be reported; replaces an invalid error code. */
static void clean_strings(struct attempt *attempt)
{
	struct reeve_outcome *outcome = &attempt->outcome;

	clean(&outcome->error, attempt->max_result_bytes < ERROR_MAX_BYTES ? attempt->max_result_bytes : ERROR_MAX_BYTES);
	clean(&outcome->remark, LIMIT_REMARK_BYTES);
	clean(&outcome->stack_trace, LIMIT_STACK_BYTES);
	if (outcome->code && name_problem(outcome->code, true)) {
		free(outcome->code);
		outcome->code = copy("error");
	}
}

/* Stores the result, and returns the text that is reported in its place; NULL: the attempt has ended without it. */
static char *store_result(struct attempt *attempt)
{
	struct reeve_outcome *outcome = &attempt->outcome;
	struct reeve_error error;
	char *address = result_store_put(attempt->result_store, attempt->key.task_id, attempt->key.token, outcome->result,
	    outcome->result_length, &error);

	if (!address)
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "result-store", "%s", error.message);
	return address;
}

/* Turns the result into text that can be reported, or ends the attempt. */
static void seal_result(struct attempt *attempt)
{
	struct reeve_outcome *outcome = &attempt->outcome;
	size_t length = outcome->result_length;
	char *text = length ? result_encode(outcome->result, length) : NULL;
	size_t text_length = text ? strlen(text) : length;

	if (text_length > attempt->max_result_bytes && attempt->result_store) {
		free(text);
		text = store_result(attempt);
		text_length = text ? strlen(text) : 0;
	} else if (text_length > attempt->max_result_bytes) {
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "result-too-long",
		    "the result of %zu bytes%s is longer than the manager accepts (%zu bytes)", text_length,
		    text ? " of base64" : "", attempt->max_result_bytes);
		free(text);
		return;
	}
	if (text) {
		free(outcome->result);
		outcome->result = text;
		outcome->result_length = text_length;
	}
}

void attempt_seal(struct attempt *attempt, int64_t run_ms)
{
	struct reeve_outcome *outcome = &attempt->outcome;
	Reeve__V1__Result result = REEVE__V1__RESULT__INIT;
	struct news *news = atomic_load(&attempt->news);
	size_t logged = news ? news_seal(news, &result, &outcome->remark) : 0;

	assert(outcome->kind != REEVE__V1__OUTCOME__OUTCOME_UNSPECIFIED);
	seal_result(attempt);
	if (outcome->kind == REEVE__V1__OUTCOME__OUTCOME_COMPLETED && outcome->stage && name_problem(outcome->stage, false))
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "bad_stage", "the stage that is to follow %s",
		    name_problem(outcome->stage, false));
	clean_strings(attempt);
	result.task_id = attempt->key.task_id;
	result.token = attempt->key.token;
	result.outcome = outcome->kind;
	result.result = outcome->result ? outcome->result : "";
	result.error = outcome->error ? outcome->error : "";
	result.error_code = outcome->code ? outcome->code : "";
	result.run_ms = run_ms;
	result.remark = outcome->remark ? outcome->remark : "";
	if (outcome->kind != REEVE__V1__OUTCOME__OUTCOME_COMPLETED && outcome->stack_trace)
		result.stack_trace = outcome->stack_trace;
	if (outcome->kind == REEVE__V1__OUTCOME__OUTCOME_COMPLETED && outcome->stage)
		result.stage = outcome->stage;
	if (outcome->kind == REEVE__V1__OUTCOME__OUTCOME_FAILED)
		result.retry_in_ms = outcome->retry_in_ms;
	attempt->result = result;
	attempt->result_bytes = 48 + strlen(result.result) + strlen(result.error) + strlen(result.error_code) +
	    strlen(result.remark) + strlen(result.stack_trace) + strlen(result.stage) + logged;
}

bool reeve_attempt_access_token(const struct reeve_attempt *public, char token[REEVE_ATTEMPT_TOKEN_BYTES])
{
	const struct credential_signer *signer = &((const struct attempt *)public)->signer;
	const struct credential credential = {signer->identity, signer->incarnation, public->task_id, public->token};

	_Static_assert((int)REEVE_ATTEMPT_TOKEN_BYTES == (int)CREDENTIAL_BYTES, "as credential_write takes it");
	if (signer->known)
		credential_write(&credential, signer->key, token);
	return signer->known;
}

char **attempt_environment(const struct attempt *attempt)
{
	const struct reeve_attempt *public = &attempt->public;
	char token[REEVE_ATTEMPT_TOKEN_BYTES] = "";

	reeve_attempt_access_token(public, token);
	char *variables[] = {
	    mem_asprintf("REEVE_TASK_ID=%lld", (long long)public->task_id),
	    mem_asprintf("REEVE_TASK_TYPE=%s", public->type),
	    mem_asprintf("REEVE_QUEUE=%s", public->queue),
	    mem_asprintf("REEVE_KEY=%s", public->key),
	    mem_asprintf("REEVE_STAGE=%s", public->stage),
	    mem_asprintf("REEVE_ATTEMPT=%u", public->attempt),
	    mem_asprintf("REEVE_TOKEN=%lld", (long long)public->token),
	    mem_asprintf("TRACEPARENT=%s", public->traceparent),
	    mem_asprintf("REEVE_ATTEMPT_ACCESS_TOKEN=%s", token),
	    NULL,
	};

	return memcpy(mem_malloc(sizeof variables), variables, sizeof variables);
}

const char *attempt_name(const struct attempt *attempt, char out[48])
{
	snprintf(out, 48, "task %lld/%u", (long long)attempt->key.task_id, attempt->public.attempt);
	return out;
}
