/* The reasons are numbers, so that each front end has phrases of its own; these are the command's. */
#include "client/cmd/waiting.h"

#include "client/cmd/command.h"
#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <stdio.h>

#define REASON(name) REEVE__V1__WAIT_REASON__WAIT_REASON_##name

/* "the worker that takes it" or "the 3 workers that take it". */
static const char *workers_text(const Reeve__V1__Waiting *waiting, char *out, size_t size)
{
	if (waiting->workers == 1)
		snprintf(out, size, "the worker that takes it");
	else
		snprintf(out, size, "the %" PRIu32 " workers that take it", waiting->workers);
	return out;
}

/* "in 5s" or "now". */
static const char *due_text(const Reeve__V1__Task *task, int64_t now_us, char *out, size_t size)
{
	return task->run_at_us > now_us + 500000 ? terminal_age(now_us, task->run_at_us, out, size) : "now";
}

/* If the manager sent no reason, it follows from the task's due time. */
static Reeve__V1__WaitReason reason_of(const Reeve__V1__Task *task, int64_t now_us)
{
	if (task->waiting && task->waiting->reason)
		return task->waiting->reason;
	if (task->run_at_us <= now_us)
		return REASON(UNSPECIFIED);
	return task->status == TASK(QUEUED) ? REASON(NOT_DUE)
	    : task->status == TASK(FAILED)  ? REASON(RETRY_DELAY)
	                                    : REASON(UNSPECIFIED);
}

const char *waiting_text(const Reeve__V1__Task *task, int64_t now_us, char out[WAITING_TEXT])
{
	static const Reeve__V1__Waiting none;
	const Reeve__V1__Waiting *waiting = task->waiting ? task->waiting : &none;
	char who[64], when[32];

	*out = '\0';
	switch (reason_of(task, now_us)) {
	default: break;
	case REASON(QUEUE_STOPPED): snprintf(out, WAITING_TEXT, "its queue is stopped"); break;
	case REASON(QUEUE_PAUSED): snprintf(out, WAITING_TEXT, "its queue is paused"); break;
	case REASON(QUEUE_NOT_STARTED): snprintf(out, WAITING_TEXT, "its queue has not been started"); break;
	case REASON(INBOX): snprintf(out, WAITING_TEXT, "no manager has ingested it yet"); break;
	case REASON(BATCH_ENTRY):
		snprintf(out, WAITING_TEXT, "task %" PRId64 ", the entry task of its batch, has not ended", waiting->task_id);
		break;
	case REASON(RETRY_DELAY):
		snprintf(out, WAITING_TEXT, "attempt %" PRIu32 " failed, due again %s", task->attempt,
		    due_text(task, now_us, when, sizeof when));
		break;
	case REASON(NOT_DUE): snprintf(out, WAITING_TEXT, "due %s", due_text(task, now_us, when, sizeof when)); break;
	case REASON(DETAILS_TOO_LONG):
		snprintf(out, WAITING_TEXT, "its details are too long for the manager's messages (--max-message)");
		break;
	case REASON(WAITING_PERIOD): snprintf(out, WAITING_TEXT, "the waiting period of its queue is not over"); break;
	case REASON(QUEUE_LIMIT):
		if (waiting->slots)
			snprintf(out, WAITING_TEXT, "%" PRIu32 " task%s of its queue run%s, the maximum (--max-running)",
			    waiting->slots, waiting->slots == 1 ? "" : "s", waiting->slots == 1 ? "s" : "");
		else
			snprintf(out, WAITING_TEXT, "no task of its queue may run (--max-running 0)");
		break;
	case REASON(NO_WORKER): snprintf(out, WAITING_TEXT, "no worker takes its type in its queue"); break;
	case REASON(WORKERS_PAUSED):
		snprintf(out, WAITING_TEXT, "%s %s or drain%s", workers_text(waiting, who, sizeof who),
		    waiting->workers == 1 ? "is paused" : "are paused", waiting->workers == 1 ? "s" : "");
		break;
	case REASON(WORKERS_BUSY):
		if (waiting->slots == 1)
			snprintf(out, WAITING_TEXT, "the only slot of %s is busy", workers_text(waiting, who, sizeof who));
		else
			snprintf(out, WAITING_TEXT, "all %" PRIu32 " slots of %s are busy", waiting->slots,
			    workers_text(waiting, who, sizeof who));
		break;
	case REASON(TURN):
		snprintf(out, WAITING_TEXT, "it waits its turn: %s %s %" PRIu32 " free slot%s",
		    workers_text(waiting, who, sizeof who), waiting->workers == 1 ? "has" : "have",
		    waiting->slots - waiting->busy, waiting->slots - waiting->busy == 1 ? "" : "s");
		break;
	}
	return out;
}
