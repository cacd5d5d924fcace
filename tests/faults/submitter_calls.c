/* The calls of fault-submitter: each is repeated until it is answered, and the ledger gets what was acknowledged. */
#include "tests/faults/ledger.h"
#include "tests/faults/submitter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	PAUSE_US = 50 * 1000, /* before a call is sent again */
	FUTURE_MAX = 1000,    /* consecutive refusals without a submit, of all threads: some seconds */
};

struct outcomes outcomes;

static atomic_long batches;
static atomic_long from_the_future; /* calls refused for this reason since the last submit */

static bool worth_trying_again(enum reeve_code code)
{
	return code == REEVE_DEADLINE_EXCEEDED || code == REEVE_UNAVAILABLE || code == REEVE_ABORTED ||
	    code == REEVE_RESOURCE_EXHAUSTED;
}

/* Counts a failed call. Returns whether to send it again. */
static bool go_on(const char *what, const struct reeve_failure *failure)
{
	if (atomic_load(&patience_over)) {
		atomic_fetch_add(&outcomes.unanswered, 1);
		return false;
	}
	if (options.clock_jumps && failure->code == REEVE_FAILED_PRECONDITION &&
	    strstr(failure->message, "more than a day old")) {
		atomic_fetch_add(&outcomes.too_old, 1);
		return false;
	}
	/* Until all managers have noticed that the clock was set, one may not know the time that another has returned.
	 * FUTURE_MAX limits this. */
	if (options.clock_jumps && failure->code == REEVE_INVALID_ARGUMENT && strstr(failure->message, "from the future") &&
	    atomic_fetch_add(&from_the_future, 1) < FUTURE_MAX) {
		atomic_fetch_add(&outcomes.too_old, 1);
		return false;
	}
	if (!worth_trying_again(failure->code)) {
		fprintf(stderr, "fault-submitter: %s: %s: %s\n", what, reeve_code_name(failure->code), failure->message);
		atomic_fetch_add(&outcomes.wrong, 1);
		return false;
	}
	atomic_fetch_add(&outcomes.calls_again, 1);
	usleep(PAUSE_US);
	return true;
}

static bool new_request(struct call *call)
{
	struct reeve_failure failure;

	while (!reeve_request_id(client, call->request_id, &failure))
		if (!go_on("a request id", &failure))
			return false;
	return true;
}

/* Sends a call until it is answered, and records what was acknowledged. Returns false if it gave up. */
static bool send_call(struct call *call)
{
	struct reeve_failure failure;

	while (!reeve_submit(client, call->specs, call->count, call->request_id, call->answered, &failure))
		if (!go_on("submit", &failure)) {
			for (size_t i = 0; i < call->count; i++)
				ledger_write(options.ledger, "{\"ev\":\"refused\",\"name\":\"%s\",\"t\":%" PRId64 "}", call->names[i],
				    ledger_now_us());
			return false;
		}
	atomic_store(&from_the_future, 0);
	for (size_t i = 0; i < call->count; i++)
		ledger_write(options.ledger,
		    "{\"ev\":\"ack\",\"name\":\"%s\",\"id\":%" PRId64 ",\"existing\":%s,\"batch\":%" PRId64 ",\"t\":%" PRId64
		    "}",
		    call->names[i], call->answered[i].id, call->answered[i].existing ? "true" : "false", call->batch,
		    ledger_now_us());
	return true;
}

/* Submits the tasks with keys again, in a new call. The answer must have the same tasks. */
static void send_keys_again(const struct call *call)
{
	struct call again = {0};

	for (size_t i = 0; i < call->count; i++) {
		if (!call->specs[i].key)
			continue;
		memcpy(again.names[again.count], call->names[i], sizeof call->names[i]);
		again.specs[again.count++] = call->specs[i];
	}
	if (again.count && new_request(&again))
		send_call(&again);
}

static void note_submit(const struct call *call, size_t i)
{
	char piped[320] = "", print[LEDGER_PRINT];

	if (call->specs[i].pipeline)
		snprintf(piped, sizeof piped, ",\"pipeline\":\"%.255s\",\"input\":\"%s\"", call->specs[i].pipeline,
		    ledger_print(call->details[i], print));
	ledger_write(options.ledger, "{\"ev\":\"submit\",\"name\":\"%s\",\"t\":%" PRId64 "%s}", call->names[i],
	    ledger_now_us(), piped);
}

bool submit(struct submitter *me, size_t count, int64_t batch)
{
	struct call call = {.batch = batch};

	while (call.count < count)
		add_task(me, &call);
	for (size_t i = 0; i < count; i++)
		note_submit(&call, i);
	atomic_fetch_add(&outcomes.submitted, (long)count);
	bool again = draw(me, 100) < options.again;

	if (!new_request(&call) || !send_call(&call))
		return false;
	atomic_fetch_add(&outcomes.acknowledged, (long)count);
	for (size_t i = 0; i < count; i++)
		me->recent[me->n_recent++ % RECENT] = call.answered[i].id;
	if (again)
		send_call(&call);
	if (!batch) /* a batch may be closed by then */
		send_keys_again(&call);
	return true;
}

void whole_batch(struct submitter *me)
{
	char name[160];
	struct call opening = {0};
	struct reeve_failure failure;
	Reeve__V1__OpenBatchResponse *opened;
	Reeve__V1__CloseBatchResponse *closed;
	bool adorned = draw(me, 2), called = draw(me, 2);

	snprintf(name, sizeof name, "%.120s.batch-%ld", options.name, atomic_fetch_add(&batches, 1) + 1);
	Reeve__V1__OpenBatchRequest spec = {.name = name,
	    .queue = options.queue,
	    .entry_type = adorned ? "fault-entry" : NULL,
	    .exit_type = adorned ? "fault-exit" : NULL,
	    .callback_type = adorned || !called ? "fault-told" : NULL,
	    .callback_url = called ? options.callback : NULL,
	    .callback_tasks = called && options.callback};

	if (!new_request(&opening))
		return;
	while (!(opened = reeve_batch_open(
	             client, &spec, &(struct reeve_call_options){.request_id = opening.request_id}, &failure)))
		if (!go_on("open a batch", &failure))
			return;
	int64_t id = opened->id;
	Reeve__V1__CloseBatchRequest closing = {.id = id};

	reeve_free(opened);
	ledger_write(options.ledger, "{\"ev\":\"batch\",\"name\":\"%s\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", name, id,
	    ledger_now_us());
	for (uint64_t calls = 1 + draw(me, 3); calls > 0; calls--)
		if (!submit(me, 1 + (size_t)draw(me, CALL_TASKS), id))
			return;
	/* FAILED_PRECONDITION: an earlier copy of this call has closed it, and its answer was lost. */
	while (!(closed = reeve_batch_close(client, &closing, NULL, &failure)) && failure.code != REEVE_FAILED_PRECONDITION)
		if (!go_on("close a batch", &failure))
			return;
	reeve_free(closed);
	ledger_write(options.ledger, "{\"ev\":\"closed\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", id, ledger_now_us());
}

/* Returns a random task of those that were last acknowledged to this thread. */
static int64_t pick(struct submitter *me)
{
	return me->recent[draw(me, (uint64_t)(me->n_recent < RECENT ? me->n_recent : RECENT))];
}

void cancel(struct submitter *me)
{
	int64_t id = me->recent[(me->n_recent - 1) % RECENT];
	struct reeve_failure failure;
	Reeve__V1__CancelResponse *changes;

	ledger_write(options.ledger, "{\"ev\":\"cancel\",\"id\":%" PRId64 ",\"t\":%" PRId64 "}", id, ledger_now_us());
	while (!(changes = reeve_cancel(client, &id, 1, "a cancel of the fault tests", &failure)))
		if (!go_on("cancel", &failure))
			return;
	for (size_t i = 0; i < changes->n_tasks; i++)
		ledger_write(options.ledger,
		    "{\"ev\":\"cancelled\",\"id\":%" PRId64 ",\"status\":\"%s\",\"changed\":%s,\"t\":%" PRId64 "}", id,
		    reeve_task_status_name(changes->tasks[i]->status), changes->tasks[i]->changed ? "true" : "false",
		    ledger_now_us());
	atomic_fetch_add(&outcomes.cancels, 1);
	reeve_free(changes);
}

void look(struct submitter *me)
{
	int64_t id = pick(me);
	struct reeve_failure failure;
	Reeve__V1__Task *task;

	while (!(task = reeve_get(client, id, &failure)) && failure.code != REEVE_NOT_FOUND)
		if (!go_on("get", &failure))
			return;
	ledger_write(options.ledger, "{\"ev\":\"seen\",\"id\":%" PRId64 ",\"status\":\"%s\",\"t\":%" PRId64 "}", id,
	    task ? reeve_task_status_name(task->status) : "", ledger_now_us());
	reeve_free(task);
}
