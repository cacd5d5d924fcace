/*
 * Handlers that are functions of the program itself. They run on the slot's own thread. Stopping one means asking it
 * (reeve_attempt_cancelled).
 */
#include "common/clock.h"
#include "common/mem.h"
#include "worker/attempt.h"
#include "worker/handler.h"

#include <stdio.h>
#include <stdlib.h>

struct function_handler {
	struct handler base;
	reeve_handler *function;
};

/* Sets the final outcome once the function has returned. */
static void set_outcome(struct attempt *attempt, int returned)
{
	struct reeve_outcome *outcome = &attempt->outcome;
	int64_t end = atomic_load_explicit(&attempt->timeout_at_ms, memory_order_relaxed);
	enum stop_reason stop = atomic_load(&attempt->stop);
	char code[32];

	if (outcome->kind == REEVE__V1__OUTCOME__OUTCOME_UNSPECIFIED) {
		if (returned == 0) {
			outcome->kind = REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
		} else {
			snprintf(code, sizeof code, "return:%d", returned);
			attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, code, "the handler returned %d", returned);
		}
	}
	if (end != INT64_MAX && clock_monotonic_ms() >= end && stop == STOP_NONE)
		attempt_end_late(attempt, "");
	else if (stop != STOP_NONE && outcome->kind != REEVE__V1__OUTCOME__OUTCOME_COMPLETED)
		attempt_end_stopped(attempt, stop);
}

static void run(struct handler *handler, const struct handler_context *context, struct attempt *attempt)
{
	reeve_handler *function = ((struct function_handler *)handler)->function;

	(void)context;
	set_outcome(attempt, function(&attempt->public, &attempt->outcome));
}

struct handler *function_handler_create(const char *type, reeve_handler *function, void *user_data)
{
	struct function_handler *handler = mem_calloc(1, sizeof *handler);

	handler_init(&handler->base, type);
	handler->base.user_data = user_data;
	handler->base.run = run;
	handler->function = function;
	return &handler->base;
}
