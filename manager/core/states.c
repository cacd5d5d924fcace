/* The table of transitions, and the page of the documentation that shows it. */
#include "manager/core/states.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static const char *const names[STATE_COUNT] = {"–", "queued", "executing", "failed", "completed", "dead", "cancelled"};

const struct transition transitions[] = {
    {STATE_NONE, "submit", STATE_QUEUED, "submitted", "submit", "A submit was committed."},
    {STATE_QUEUED, "claim", STATE_EXECUTING, "claimed", "claim", "A worker claimed the task: an attempt begins."},
    {STATE_FAILED, "claim", STATE_EXECUTING, "claimed", "claim", "A worker claimed the task: an attempt begins."},
    {STATE_EXECUTING, "complete", STATE_COMPLETED, "completed", "complete",
        "The handler succeeded: the task has its result, even after a request to cancel."},
    {STATE_EXECUTING, "fail", STATE_FAILED, "failed", "end_attempts", "The handler failed. A retry follows."},
    {STATE_EXECUTING, "fail for the last time", STATE_DEAD, "dead", "end_attempts",
        "The handler failed, and no attempt is left."},
    {STATE_EXECUTING, "fail fatally", STATE_DEAD, "dead", "end_attempts", "The handler reported a fatal error."},
    {STATE_EXECUTING, "return", STATE_QUEUED, "returned", "end_attempts",
        "The worker returned the task. The attempt does not count."},
    {STATE_EXECUTING, "end with the lease", STATE_QUEUED, "lease_ended", "end_attempts",
        "The worker's lease ended, so it stopped the handler. The attempt does not count."},
    {STATE_EXECUTING, "end with the lease once more", STATE_FAILED, "lease_ended", "end_attempts",
        "The third time in a row: the attempt counts, and a retry follows."},
    {STATE_EXECUTING, "end with the lease for the last time", STATE_DEAD, "dead", "end_attempts",
        "The third time in a row, and no attempt is left."},
    {STATE_EXECUTING, "requeue", STATE_QUEUED, "requeued", "end_attempts",
        "By the worker's heartbeat the task never arrived. The attempt does not count."},
    {STATE_EXECUTING, "requeue once more", STATE_FAILED, "requeued", "end_attempts",
        "The third time in a row: the attempt counts, and a retry follows."},
    {STATE_EXECUTING, "requeue for the last time", STATE_DEAD, "dead", "end_attempts",
        "The third time in a row, and no attempt is left."},
    {STATE_EXECUTING, "lose the worker", STATE_FAILED, "lost", "end_attempts",
        "No heartbeat came for a lease. The attempt counts, and the task is due at once."},
    {STATE_EXECUTING, "lose the worker for the last time", STATE_DEAD, "dead", "end_attempts",
        "No heartbeat came for a lease, and no attempt is left."},
    {STATE_EXECUTING, "expire", STATE_FAILED, "expired", "end_attempts",
        "A manager reclaimed the attempt at its expiry. The task is due at once."},
    {STATE_EXECUTING, "expire for the last time", STATE_DEAD, "dead", "end_attempts",
        "The same, and no attempt is left."},
    {STATE_EXECUTING, "end after a cancel", STATE_CANCELLED, "cancelled", "end_attempts",
        "After a request to cancel the attempt did not succeed, or completed a stage that is not the last."},
    {STATE_EXECUTING, "end after a discard", STATE_DEAD, "dead", "end_attempts",
        "The same after a request to discard (`discarded`, `queue_stopped`)."},
    {STATE_EXECUTING, "end after a restart", STATE_QUEUED, "returned", "end_attempts",
        "After a request to restart the attempt did not succeed; it does not count."},
    {STATE_EXECUTING, "hang", STATE_FAILED, "failed", "end_attempts",
        "The attempt was stopped by `reeve retry --hanged`: it counts, with the error `hanged`."},
    {STATE_EXECUTING, "hang for the last time", STATE_DEAD, "dead", "end_attempts",
        "The same, and no attempt is left."},
    {STATE_EXECUTING, "complete after a newer version", STATE_QUEUED, "completed", "end_attempts",
        "A newer version came during the attempt. The task runs again, as that describes it."},
    {STATE_EXECUTING, "fail after a newer version", STATE_QUEUED, "failed", "end_attempts",
        "The same, however the attempt ended. No attempt is counted."},
    {STATE_EXECUTING, "complete a stage", STATE_QUEUED, "completed", "end_attempts",
        "Another stage of the pipeline follows, with the result as its input and no attempts counted."},
    {STATE_EXECUTING, "complete the last stage", STATE_COMPLETED, "completed", "end_attempts",
        "The pipeline's last stage succeeded, even after a request to cancel."},
    {STATE_EXECUTING, "complete one stage too many", STATE_DEAD, "dead", "end_attempts",
        "The task would enter more stages than its pipeline allows (`too_many_steps`), or its handler named an "
        "unknown stage (`unknown_stage`)."},
    {STATE_QUEUED, "cancel", STATE_CANCELLED, "cancelled", "cancel_waiting", "A cancel ended the waiting task."},
    {STATE_FAILED, "cancel", STATE_CANCELLED, "cancelled", "cancel_waiting", "A cancel ended the waiting task."},
    {STATE_EXECUTING, "cancel", STATE_EXECUTING, "cancel_requested", "cancel_mark",
        "The worker gets a command to stop. The outcome of the attempt decides."},
    {STATE_QUEUED, "discard", STATE_DEAD, "dead", "cancel_waiting", "A discard ended the waiting task."},
    {STATE_FAILED, "discard", STATE_DEAD, "dead", "cancel_waiting", "A discard ended the waiting task."},
    {STATE_EXECUTING, "discard", STATE_EXECUTING, "discard_requested", "cancel_mark",
        "The worker gets a command to stop. Unless the attempt succeeds, the task ends dead."},
    {STATE_EXECUTING, "restart", STATE_EXECUTING, "restart_requested", "restart_mark",
        "The worker gets a command to stop; the attempt of a pull client ends at once. Unless the attempt succeeds, the "
        "task starts again, or if it hung (`--hanged`) the attempt has failed."},
    {STATE_QUEUED, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "The task is as the newer version describes it. Attempts, retry delay and error are cleared."},
    {STATE_FAILED, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "The task is as the newer version describes it. Attempts, retry delay and error are cleared."},
    {STATE_EXECUTING, "newer version", STATE_EXECUTING, "newer_version", "submit_newer",
        "The task keeps it and runs again after this attempt. The token stays. An earlier request to cancel is "
        "withdrawn."},
    {STATE_COMPLETED, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "The task starts over under its id, as the newer version describes it."},
    {STATE_DEAD, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "The task starts over under its id, as the newer version describes it."},
    {STATE_CANCELLED, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "The task starts over under its id, as the newer version describes it."},
    {STATE_QUEUED, "manual retry", STATE_QUEUED, "retried", "retry_waiting", "The task is due now."},
    {STATE_FAILED, "manual retry", STATE_FAILED, "retried", "retry_waiting", "The task is due now."},
    {STATE_COMPLETED, "manual retry", STATE_QUEUED, "retried", "retry_ended",
        "The task starts over under its id, with no attempts counted."},
    {STATE_DEAD, "manual retry", STATE_QUEUED, "retried", "retry_ended",
        "The task starts over under its id, with no attempts counted."},
    {STATE_CANCELLED, "manual retry", STATE_QUEUED, "retried", "retry_ended",
        "The task starts over under its id, with no attempts counted."},
    {STATE_COMPLETED, "purge", STATE_NONE, "purged", "purge_ended", "The task is deleted, except for this event."},
    {STATE_DEAD, "purge", STATE_NONE, "purged", "purge_ended", "The task is deleted, except for this event."},
    {STATE_CANCELLED, "purge", STATE_NONE, "purged", "purge_ended", "The task is deleted, except for this event."},
    {STATE_QUEUED, "update", STATE_QUEUED, "updated", "update_tasks",
        "What an operator has given changes: priority, due time, attempts, timeout, details, queue, key."},
    {STATE_FAILED, "update", STATE_FAILED, "updated", "update_tasks",
        "What an operator has given changes: priority, due time, attempts, timeout, details, queue, key."},
    {STATE_EXECUTING, "update", STATE_EXECUTING, "updated", "update_tasks",
        "Priority or attempts change. The token stays."},
    {0},
};

const char *state_name(enum task_state state)
{
	assert(state < STATE_COUNT);
	return names[state];
}

static bool stays(const struct transition *t)
{
	return t->from == t->to;
}

/* Returns true if the page shows two transitions in one row. */
static bool same_row(const struct transition *a, const struct transition *b)
{
	return b->event && (a->to == b->to || (stays(a) && stays(b))) && strcmp(a->event, b->event) == 0 &&
	    strcmp(a->audit, b->audit) == 0 && strcmp(a->help, b->help) == 0;
}

/* Prints the transitions from executing, or all others. */
static void rows_print(FILE *out, bool executing)
{
	for (const struct transition *t = transitions; t->event; t++) {
		if ((t->from == STATE_EXECUTING) != executing)
			continue;
		if (!executing) {
			fprintf(out, "| %s", state_name(t->from));
			for (; same_row(t, t + 1); t++)
				fprintf(out, ", %s", state_name(t[1].from));
			fputc(' ', out);
		}
		fprintf(
		    out, "| %s | %s | `%s` | %s |\n", t->event, stays(t) ? "unchanged" : state_name(t->to), t->audit, t->help);
	}
}

static void waiting_print(FILE *out)
{
	fputs(
	    "\n"
	    "## Why a task waits\n\n"
	    "`reeve show`, `list`, `wait`, `submit --wait` and, of a batch's first waiting task, `batch list` and `report` show\n"
	    "the current reason, the first of these that applies.\n\n"
	    "| `waiting.reason` | meaning | the task continues when |\n"
	    "|---|---|---|\n"
	    "| `queue_stopped` | Its queue is stopped or stopping. | the stop ends it dead (`queue_stopped`), or the "
	    "queue is started |\n"
	    "| `queue_paused` | Its queue is paused. | `reeve queue resume` |\n"
	    "| `queue_not_started` | Its queue has not been started (`--autostart no`). | `reeve queue start` |\n"
	    "| `inbox` | No manager has ingested it since its submit by SQL. | a moment after the commit |\n"
	    "| `batch_entry` | The entry task of its batch (`task_id`) has not ended. | that ends; it has its own reason "
	    "|\n"
	    "| `retry_delay` | Its last attempt failed. | the delay is over (`run_at`), or `reeve retry` |\n"
	    "| `not_due` | Its time has not come. | it comes (`run_at`), or `reeve update --at now` |\n"
	    "| `details_too_long` | Its details do not fit into the messages of the manager that answers. | another manager "
	    "assigns it, or you raise [`--max-message`](operations.md#when-a-manager-refuses-calls) |\n"
	    "| `waiting_period` | The waiting period of its queue is not over. | it is over |\n"
	    "| `no_worker` | No live worker takes its type in its queue. Pull clients do not count. | a worker starts, or "
	    "a pull client fetches it |\n"
	    "| `workers_paused` | All workers that take it (`workers`) are paused or draining. | `reeve worker resume` |\n"
	    "| `queue_limit` | As many tasks of its queue run (`slots`) as its limit allows. | one of them ends, or `reeve "
	    "queue set --max-running` |\n"
	    "| `workers_busy` | All slots (`slots`) of workers that take it, except paused and draining ones, are "
	    "busy. | a slot is free |\n"
	    "| `turn` | A slot is free (`slots` minus `busy`). | a manager assigns the task: in a moment, unless more "
	    "urgent tasks come first or the slot is in its resting period |\n",
	    out);
}

void states_print(FILE *out)
{
	fputs(
	    "# States\n\n"
	    "A task's statuses, and why it waits. `reeve-manager --print-states` prints this page; a test compares the table "
	    "with the\n"
	    "SQL.\n\n"
	    "A queued or failed task waits for a worker if it is due, else for its time (`run_at`). Completed, dead and "
	    "cancelled\n"
	    "tasks are in the history. `last_updated` is the task's version and the token of its running attempt: every "
	    "change\n"
	    "increases it, unless the table says that the token stays.\n\n"
	    "| from | event | to | audit event | meaning |\n"
	    "|---|---|---|---|---|\n",
	    out);
	rows_print(out, false);
	fputs("\n"
	      "From executing:\n\n"
	      "| event | to | audit event | meaning |\n"
	      "|---|---|---|---|\n",
	    out);
	rows_print(out, true);
	fputs(
	    "\n"
	    "These audit events change no state:\n\n"
	    "| audit event | meaning |\n"
	    "|---|---|\n"
	    "| `erased` | The details and results of an ended task were erased. |\n"
	    "| `late_result` | A result came after its attempt had lost the lock. It changed nothing. |\n"
	    "| `reclaimed` | Next to `expired` and `lost`: the reason and the last heartbeat of the worker. |\n"
	    "| `reported` | Next to the claim: another caller than the one that registered the worker reports the attempt. |\n"
	    "| `restarted` | Next to the end of an attempt: a newer version runs next, or the same task again. |\n"
	    "| `result_refused` | An identity reported an attempt that it does not hold. It changed nothing. |\n"
	    "| `stage` | Next to the end of an attempt: the pipeline's next stage runs next. |\n",
	    out);
	waiting_print(out);
}
