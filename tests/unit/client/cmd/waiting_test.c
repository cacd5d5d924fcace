/* The text that explains why a task waits. */
#include "client/cmd/waiting.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define NOW_US INT64_C(1768377600000000)

static const char *text(struct reeve_task task)
{
	static char out[WAITING_TEXT];

	return waiting_text(&task, NOW_US, out);
}

#define SAYS(words, ...) cr_assert(eq(str, (char *)text((struct reeve_task){__VA_ARGS__}), words))
#define WAITING(...) .waiting = {__VA_ARGS__}

Test(waiting, every_reason_has_words)
{
	SAYS("", .status = REEVE_TASK_EXECUTING);
	SAYS("its queue is stopped", WAITING(REEVE_WAITS_QUEUE_STOPPED));
	SAYS("its queue is paused", WAITING(REEVE_WAITS_QUEUE_PAUSED));
	SAYS("its queue has not been started", WAITING(REEVE_WAITS_QUEUE_NOT_STARTED));
	SAYS("no manager has admitted it yet", WAITING(REEVE_WAITS_INBOX));
	SAYS("task 17, the entry task of its batch, has not ended", WAITING(REEVE_WAITS_BATCH_ENTRY, .task_id = 17));
	SAYS("attempt 2 failed, due again in 5m", .attempt = 2, .run_at_us = NOW_US + INT64_C(300000000),
	    WAITING(REEVE_WAITS_RETRY_DELAY));
	SAYS("due in 5m", .run_at_us = NOW_US + INT64_C(300000000), WAITING(REEVE_WAITS_NOT_DUE));
	SAYS("no worker takes its type in its queue", WAITING(REEVE_WAITS_NO_WORKER));
	SAYS("the worker that takes it is paused or drains", WAITING(REEVE_WAITS_WORKERS_PAUSED, .workers = 1));
	SAYS("the 2 workers that take it are paused or drain", WAITING(REEVE_WAITS_WORKERS_PAUSED, .workers = 2));
	SAYS("the only slot of the worker that takes it is busy",
	    WAITING(REEVE_WAITS_WORKERS_BUSY, .workers = 1, .slots = 1, .busy = 1));
	SAYS("all 8 slots of the 2 workers that take it are busy",
	    WAITING(REEVE_WAITS_WORKERS_BUSY, .workers = 2, .slots = 8, .busy = 8));
	SAYS("it waits its turn: the worker that takes it has 1 free slot",
	    WAITING(REEVE_WAITS_TURN, .workers = 1, .slots = 4, .busy = 3));
	SAYS("it waits its turn: the 2 workers that take it have 5 free slots",
	    WAITING(REEVE_WAITS_TURN, .workers = 2, .slots = 8, .busy = 3));
}

Test(waiting, of_a_manager_that_does_not_say_why_the_time_is_known)
{
	SAYS("due in 5m", .status = REEVE_TASK_QUEUED, .run_at_us = NOW_US + INT64_C(300000000));
	SAYS("attempt 1 failed, due again in 5m", .status = REEVE_TASK_FAILED, .attempt = 1,
	    .run_at_us = NOW_US + INT64_C(300000000));
	SAYS("", .status = REEVE_TASK_QUEUED, .run_at_us = NOW_US);
	SAYS("", .status = REEVE_TASK_CANCELLED, .run_at_us = NOW_US + INT64_C(300000000));
}

Test(waiting, a_reason_of_a_later_manager_has_none)
{
	SAYS("", WAITING((enum reeve_wait_reason)99));
}
