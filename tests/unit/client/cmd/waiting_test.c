/* The text that explains why a task waits. */
#include "client/cmd/waiting.h"

#include "client/cmd/command.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>

#define NOW_US INT64_C(1768377600000000)

static const char *text(Reeve__V1__Task task)
{
	static char out[WAITING_TEXT];

	return waiting_text(&task, NOW_US, out);
}

#define SAYS(words, ...) cr_assert(eq(str, (char *)text((Reeve__V1__Task){__VA_ARGS__}), words))
#define WAITING(name, ...)                                                                                             \
	.waiting = &(Reeve__V1__Waiting)                                                                                   \
	{                                                                                                                  \
		.reason = REEVE__V1__WAIT_REASON__WAIT_REASON_##name, ##__VA_ARGS__                                            \
	}

Test(waiting, every_reason_has_a_text)
{
	SAYS("", .status = TASK(EXECUTING));
	SAYS("its queue is stopped", WAITING(QUEUE_STOPPED));
	SAYS("its queue is paused", WAITING(QUEUE_PAUSED));
	SAYS("its queue has not been started", WAITING(QUEUE_NOT_STARTED));
	SAYS("no manager has ingested it yet", WAITING(INBOX));
	SAYS("task 17, the entry task of its batch, has not ended", WAITING(BATCH_ENTRY, .task_id = 17));
	SAYS("attempt 2 failed, due again in 5m", .attempt = 2, .run_at_us = NOW_US + INT64_C(300000000),
	    WAITING(RETRY_DELAY));
	SAYS("attempt 2 failed, due again now", .attempt = 2, .run_at_us = NOW_US + 100000, WAITING(RETRY_DELAY));
	SAYS("due in 5m", .run_at_us = NOW_US + INT64_C(300000000), WAITING(NOT_DUE));
	SAYS("its details are too long for the manager's messages (--max-message)", WAITING(DETAILS_TOO_LONG));
	SAYS("no worker takes its type in its queue", WAITING(NO_WORKER));
	SAYS("the worker that takes it is paused or drains", WAITING(WORKERS_PAUSED, .workers = 1));
	SAYS("the 2 workers that take it are paused or drain", WAITING(WORKERS_PAUSED, .workers = 2));
	SAYS("the only slot of the worker that takes it is busy",
	    WAITING(WORKERS_BUSY, .workers = 1, .slots = 1, .busy = 1));
	SAYS("all 8 slots of the 2 workers that take it are busy",
	    WAITING(WORKERS_BUSY, .workers = 2, .slots = 8, .busy = 8));
	SAYS("it waits its turn: the worker that takes it has 1 free slot",
	    WAITING(TURN, .workers = 1, .slots = 4, .busy = 3));
	SAYS("it waits its turn: the 2 workers that take it have 5 free slots",
	    WAITING(TURN, .workers = 2, .slots = 8, .busy = 3));
}

Test(waiting, of_a_manager_that_does_not_say_why_the_time_is_known)
{
	SAYS("due in 5m", .status = TASK(QUEUED), .run_at_us = NOW_US + INT64_C(300000000));
	SAYS("attempt 1 failed, due again in 5m", .status = TASK(FAILED), .attempt = 1,
	    .run_at_us = NOW_US + INT64_C(300000000));
	SAYS("", .status = TASK(QUEUED), .run_at_us = NOW_US);
	SAYS("", .status = TASK(CANCELLED), .run_at_us = NOW_US + INT64_C(300000000));
}

Test(waiting, a_reason_of_a_later_manager_has_none)
{
	SAYS("", .waiting = &(Reeve__V1__Waiting){.reason = (Reeve__V1__WaitReason)99});
}
