/* The reasons are numbers, so that each front end has phrases of its own; these are the command's. */
#include "client/cmd/waiting.h"

#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <stdio.h>

/* "the worker that takes it" or "the 3 workers that take it". */
static const char *takers(const struct reeve_waiting *waiting, char *out, size_t size)
{
	if (waiting->workers == 1)
		snprintf(out, size, "the worker that takes it");
	else
		snprintf(out, size, "the %" PRIu32 " workers that take it", waiting->workers);
	return out;
}

/* If the manager sent no reason, it follows from the task's due time. */
static enum reeve_wait_reason reason_of(const struct reeve_task *task, int64_t now_us)
{
	if (task->waiting.reason || task->run_at_us <= now_us)
		return task->waiting.reason;
	return task->status == REEVE_TASK_QUEUED   ? REEVE_WAITS_NOT_DUE
	       : task->status == REEVE_TASK_FAILED ? REEVE_WAITS_RETRY_DELAY
	                                           : REEVE_WAITS_NOT;
}

const char *waiting_text(const struct reeve_task *task, int64_t now_us, char out[WAITING_TEXT])
{
	const struct reeve_waiting *waiting = &task->waiting;
	char who[64], when[32];

	*out = '\0';
	switch (reason_of(task, now_us)) {
	case REEVE_WAITS_NOT:
		break;
	case REEVE_WAITS_QUEUE_STOPPED:
		snprintf(out, WAITING_TEXT, "its queue is stopped");
		break;
	case REEVE_WAITS_QUEUE_PAUSED:
		snprintf(out, WAITING_TEXT, "its queue is paused");
		break;
	case REEVE_WAITS_QUEUE_NOT_STARTED:
		snprintf(out, WAITING_TEXT, "its queue has not been started");
		break;
	case REEVE_WAITS_INBOX:
		snprintf(out, WAITING_TEXT, "no manager has admitted it yet");
		break;
	case REEVE_WAITS_BATCH_ENTRY:
		snprintf(out, WAITING_TEXT, "task %" PRId64 ", the entry task of its batch, has not ended", waiting->task_id);
		break;
	case REEVE_WAITS_RETRY_DELAY:
		snprintf(out, WAITING_TEXT, "attempt %" PRIu32 " failed, due again %s", task->attempt,
		    terminal_age(now_us, task->run_at_us, when, sizeof when));
		break;
	case REEVE_WAITS_NOT_DUE:
		snprintf(out, WAITING_TEXT, "due %s", terminal_age(now_us, task->run_at_us, when, sizeof when));
		break;
	case REEVE_WAITS_NO_WORKER:
		snprintf(out, WAITING_TEXT, "no worker takes its type in its queue");
		break;
	case REEVE_WAITS_WORKERS_PAUSED:
		snprintf(out, WAITING_TEXT, "%s %s or drain%s", takers(waiting, who, sizeof who),
		    waiting->workers == 1 ? "is paused" : "are paused", waiting->workers == 1 ? "s" : "");
		break;
	case REEVE_WAITS_WORKERS_BUSY:
		if (waiting->slots == 1)
			snprintf(out, WAITING_TEXT, "the only slot of %s is busy", takers(waiting, who, sizeof who));
		else
			snprintf(out, WAITING_TEXT, "all %" PRIu32 " slots of %s are busy", waiting->slots,
			    takers(waiting, who, sizeof who));
		break;
	case REEVE_WAITS_TURN:
		snprintf(out, WAITING_TEXT, "it waits its turn: %s %s %" PRIu32 " free slot%s", takers(waiting, who, sizeof who),
		    waiting->workers == 1 ? "has" : "have", waiting->slots - waiting->busy,
		    waiting->slots - waiting->busy == 1 ? "" : "s");
		break;
	}
	return out;
}
