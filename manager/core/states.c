/* The table of transitions, and its page in the documentation. */
#include "manager/core/states.h"

#include <assert.h>

static const char *const names[STATE_COUNT] = {"–", "queued", "executing", "failed", "completed", "dead", "cancelled"};

const struct transition transitions[] = {
    {STATE_NONE, "submit", STATE_QUEUED, "submitted", "submit",
        "A submit was committed; the task waits for a worker or for its time."},
    {STATE_QUEUED, "claim", STATE_EXECUTING, "claimed", "claim", "A worker was given the task; a new attempt begins."},
    {STATE_FAILED, "claim", STATE_EXECUTING, "claimed", "claim", "The task is tried again; a new attempt begins."},
    {STATE_EXECUTING, "complete", STATE_COMPLETED, "completed", "complete",
        "The handler ended well; the task has its result. It wins over a cancel that came too late."},
    {STATE_EXECUTING, "fail", STATE_FAILED, "failed", "end_attempts",
        "The handler ended badly; the task rests and is tried again."},
    {STATE_EXECUTING, "fail for the last time", STATE_DEAD, "dead", "end_attempts",
        "The handler ended badly and the attempts are used up."},
    {STATE_EXECUTING, "fail fatally", STATE_DEAD, "dead", "end_attempts",
        "The handler said that trying again will not help."},
    {STATE_EXECUTING, "return", STATE_QUEUED, "returned", "end_attempts",
        "A draining worker gave the task back; the attempt does not count."},
    {STATE_EXECUTING, "end with the lease", STATE_QUEUED, "lease_ended", "end_attempts",
        "The worker stopped the handler because its own lease had ended; the attempt does not count."},
    {STATE_EXECUTING, "end with the lease once more", STATE_FAILED, "lease_ended", "end_attempts",
        "That has happened for the third time in a row: the attempt counts, and the task rests."},
    {STATE_EXECUTING, "end with the lease for the last time", STATE_DEAD, "dead", "end_attempts",
        "That has happened for the third time in a row, and the attempts are used up."},
    {STATE_EXECUTING, "take back", STATE_QUEUED, "taken_back", "end_attempts",
        "The worker's heartbeat shows that the task never arrived there; the attempt does not count."},
    {STATE_EXECUTING, "take back once more", STATE_FAILED, "taken_back", "end_attempts",
        "That has happened for the third time in a row: the attempt counts, and the task rests."},
    {STATE_EXECUTING, "take back for the last time", STATE_DEAD, "dead", "end_attempts",
        "That has happened for the third time in a row, and the attempts are used up."},
    {STATE_EXECUTING, "lose the worker", STATE_FAILED, "lost", "end_attempts",
        "The worker sent no heartbeat for a whole lease; the attempt counts, and the task is due at once."},
    {STATE_EXECUTING, "lose the worker for the last time", STATE_DEAD, "dead", "end_attempts",
        "The worker sent no heartbeat for a whole lease, and the attempts are used up."},
    {STATE_EXECUTING, "expire", STATE_FAILED, "expired", "end_attempts",
        "The attempt ran past its expiry and was taken back; the task is due at once."},
    {STATE_EXECUTING, "expire for the last time", STATE_DEAD, "dead", "end_attempts",
        "The attempt ran past its expiry and the attempts are used up."},
    {STATE_EXECUTING, "end after a cancel", STATE_CANCELLED, "cancelled", "end_attempts",
        "A cancel had been asked for, and the attempt ended in any way but well, or it ended a stage and not the task."},
    {STATE_EXECUTING, "end after a kill", STATE_DEAD, "dead", "end_attempts",
        "It was to end dead (`killed`, `queue_stopped`); likewise."},
    {STATE_EXECUTING, "end after a restart", STATE_QUEUED, "returned", "end_attempts",
        "It was to be started again, and the attempt ended in any way but well; it does not count."},
    {STATE_EXECUTING, "complete after a newer version", STATE_QUEUED, "completed", "end_attempts",
        "A newer version was submitted while the attempt ran: the task runs once more, as that describes it."},
    {STATE_EXECUTING, "fail after a newer version", STATE_QUEUED, "failed", "end_attempts",
        "Likewise, however the attempt ended; no attempt is counted."},
    {STATE_EXECUTING, "complete a stage", STATE_QUEUED, "completed", "end_attempts",
        "The task is of a pipeline, and another stage follows: it waits for that, with its result as the input and no "
        "attempts counted."},
    {STATE_EXECUTING, "complete the last stage", STATE_COMPLETED, "completed", "end_attempts",
        "The task is of a pipeline, and no stage follows. It wins over a cancel that came too late."},
    {STATE_EXECUTING, "complete one stage too many", STATE_DEAD, "dead", "end_attempts",
        "More stages than its pipeline allows (`too_many_steps`), or its handler named one that is not there "
        "(`unknown_stage`)."},
    {STATE_QUEUED, "cancel", STATE_CANCELLED, "cancelled", "cancel_waiting", "The task waited; a cancel ended it."},
    {STATE_FAILED, "cancel", STATE_CANCELLED, "cancelled", "cancel_waiting",
        "The task waited to be tried again; a cancel ended it."},
    {STATE_EXECUTING, "cancel", STATE_EXECUTING, "cancel_requested", "cancel_mark",
        "The worker is told to stop; the attempt decides."},
    {STATE_QUEUED, "kill", STATE_DEAD, "dead", "cancel_waiting", "The task waited; it was to end dead."},
    {STATE_FAILED, "kill", STATE_DEAD, "dead", "cancel_waiting",
        "The task waited to be tried again; it was to end dead."},
    {STATE_EXECUTING, "kill", STATE_EXECUTING, "kill_requested", "cancel_mark",
        "The worker is told to stop; unless the attempt ends well the task ends dead."},
    {STATE_EXECUTING, "restart", STATE_EXECUTING, "restart_requested", "restart_mark",
        "The worker is told to stop; unless the attempt ends well the task is started again."},
    {STATE_QUEUED, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "A newer version of the key's task was submitted: it is as that describes it."},
    {STATE_FAILED, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "Likewise: attempts, rest and error are cleared."},
    {STATE_EXECUTING, "newer version", STATE_EXECUTING, "newer_version", "submit_newer",
        "It is noted with the task, which runs once more after this attempt; the token stays. A cancel asked for before is "
        "taken back."},
    {STATE_COMPLETED, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "The task starts afresh under its id, as the newer version describes it."},
    {STATE_DEAD, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "The task starts afresh under its id, as the newer version describes it."},
    {STATE_CANCELLED, "newer version", STATE_QUEUED, "restarted", "submit_newer",
        "The task starts afresh under its id, as the newer version describes it."},
    {STATE_QUEUED, "retry by hand", STATE_QUEUED, "retried", "retry_waiting", "The task is due now."},
    {STATE_FAILED, "retry by hand", STATE_FAILED, "retried", "retry_waiting", "The task is due now."},
    {STATE_COMPLETED, "retry by hand", STATE_QUEUED, "retried", "retry_ended",
        "The task starts afresh under its id, with no attempts counted."},
    {STATE_DEAD, "retry by hand", STATE_QUEUED, "retried", "retry_ended",
        "The task starts afresh under its id, with no attempts counted."},
    {STATE_CANCELLED, "retry by hand", STATE_QUEUED, "retried", "retry_ended",
        "The task starts afresh under its id, with no attempts counted."},
    {STATE_QUEUED, "update", STATE_QUEUED, "updated", "update_tasks", "Priority, due time or attempts were changed."},
    {STATE_FAILED, "update", STATE_FAILED, "updated", "update_tasks", "Priority, due time or attempts were changed."},
    {STATE_EXECUTING, "update", STATE_EXECUTING, "updated", "update_tasks",
        "Priority or attempts were changed; the attempt's token stays."},
    {0},
};

const char *state_name(enum task_state state)
{
	assert(state < STATE_COUNT);
	return names[state];
}

static void waiting_print(FILE *out)
{
	fputs(
	    "\n## Why a task waits\n\nA task that is queued or failed tells why it does: `reeve show`, `reeve list`, and who waits for it "
	    "(`reeve wait`,\n`reeve submit --wait`) after a few seconds. It is worked out when the task is read, from what the database "
	    "knows then. Of several\nreasons the first in this table is told.\n\n"
	    "| `waiting.reason` | | it goes on when |\n|---|---|---|\n"
	    "| `queue_stopped` | Its queue is stopped, or being stopped. | it ends dead (`queue_stopped`), or the queue is started |\n"
	    "| `queue_paused` | Its queue is paused. | `reeve queue resume` |\n"
	    "| `queue_held` | Its queue has not been started (`--autostart no`). | `reeve queue start` |\n"
	    "| `admission` | It was submitted by SQL, and no manager has admitted it yet. | a moment after the commit |\n"
	    "| `batch_entry` | The entry task of its batch (`task_id`) has not ended. | that has; why that waits, it tells itself |\n"
	    "| `retry_delay` | Its last attempt failed. | the delay is over (`run_at`), or `reeve retry` |\n"
	    "| `not_due` | Its time has not come. | it comes (`run_at`), or `reeve update --at now` |\n"
	    "| `no_worker` | No worker that is alive takes its type in its queue. Who pulls by hand is none. | one is started, or "
	    "somebody pulls it |\n"
	    "| `workers_paused` | All workers that take it (`workers`) are paused or drain. | `reeve worker resume` |\n"
	    "| `workers_busy` | All slots (`slots`) of the workers that take it are busy, without those that are paused or drain. "
	    "| a slot is free |\n"
	    "| `turn` | A slot is free (`slots` less `busy`). | a manager gives it out: in a moment, unless more urgent tasks come "
	    "first, or the slot rests |\n",
	    out);
}

void states_print(FILE *out)
{
	fputs(
	    "# States\n\nMade by `reeve-manager --print-states` from `manager/core/states.c`; a test holds the table "
	    "against the "
	    "SQL.\n\nA task that is queued or failed waits: for a worker when it is due, else for its time (`run_at`). "
	    "Completed, dead and\ncancelled tasks are in the history. Every change sets `last_updated`, the task's "
	    "version and "
	    "its running attempt's token,\nto a later value, except where the sentence says that the token stays.\n\n"
	    "| from | event | to | in the audit | done by | |\n|---|---|---|---|---|---|\n",
	    out);
	for (const struct transition *t = transitions; t->event; t++)
		fprintf(out, "| %s | %s | %s | `%s` | `sql/statements/%s.sql` | %s |\n", state_name(t->from), t->event,
		    state_name(t->to), t->audit, t->statement, t->sentence);
	fputs(
	    "\nFurther events in the audit change no state: `late_result` (a result came after its attempt's lock had "
	    "been "
	    "lost;\nnothing was changed) and `reclaimed` (beside `expired` and `lost`: why, with the worker's last heartbeat).\n"
	    "Beside the end of an attempt after which a newer version runs, or the same once more, stands `restarted`; beside one\n"
	    "after which its pipeline's next stage runs, `stage`.\n",
	    out);
	waiting_print(out);
}
