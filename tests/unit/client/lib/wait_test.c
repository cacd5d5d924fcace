/* Waiting: each end is reported once, however many tasks there are, and a wait can be interrupted. */
#include "common/clock.h"
#include "tests/unit/client/lib/fixture.h"
#include "tests/unit/compare.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 10500, COMPLETED = REEVE__V1__TASK_STATUS__TASK_STATUS_COMPLETED };

static bool give(void *arg, Reeve__V1__TaskSpec *spec)
{
	int *left = arg;

	spec->type = "t";
	spec->details = "d";
	return (*left)-- > 0;
}

static void make_tasks(int count)
{
	struct reeve_stream stream = {.next = give, .arg = &count};

	cr_assert(reeve_submit_stream(client, &stream, &failure), "%s", failure.message);
}

struct told {
	int times[MANY + 1];
	int n_ended, n_polls;
	size_t pending;
	bool enough;
	int most_polls;   /* 0: any number */
	int64_t end_next; /* a task to end at the next call of `polled`; 0: none */
};

static void ended(void *arg, const Reeve__V1__Task *task)
{
	struct told *told = arg;

	cr_assert(reeve_task_status_ended(task->status));
	told->times[task->id]++;
	told->n_ended++;
}

static bool polled(void *arg, size_t pending)
{
	struct told *told = arg;

	told->n_polls++;
	told->pending = pending;
	if (told->end_next)
		fake_server_end(fake_server, told->end_next, COMPLETED, "r");
	told->end_next = 0;
	return !told->enough && told->n_polls != told->most_polls;
}

static struct told told;

Test(wait, reports_each_once_however_many, .init = begin, .fini = finish)
{
	struct reeve_wait wait = {.timeout_ms = -1, .ended = ended, .polled = polled, .arg = &told};
	int64_t *ids = calloc(2 * MANY, sizeof *ids);
	size_t pending = 77, most;

	fake_server_end_tasks_as(fake_server, COMPLETED);
	make_tasks(MANY);
	for (int i = 0; i < 2 * MANY; i++)
		ids[i] = MANY - i % MANY;
	fake_server_cut_waits(fake_server, 3000);
	cr_assert(reeve_wait(client, ids, (size_t)2 * MANY, &wait, &pending, &failure), "%s", failure.message);
	cr_assert(eq(sz, pending, 0));
	cr_assert(eq(int, told.n_ended, MANY));
	for (int i = 1; i <= MANY; i++)
		cr_assert(eq(int, told.times[i], 1));
	fake_server_waits(fake_server, &most);
	cr_assert(eq(sz, most, REEVE_MAX_BATCH));
	free(ids);
}

Test(wait, an_open_task_holds_back_no_other, .init = begin, .fini = finish)
{
	struct reeve_wait wait = {.timeout_ms = -1, .poll_ms = 50, .ended = ended, .polled = polled, .arg = &told};
	int64_t ids[MANY];
	size_t pending;

	make_tasks(MANY);
	for (int i = 0; i < MANY; i++)
		ids[i] = i + 1;
	for (int i = 2; i <= 11; i++)
		fake_server_end(fake_server, i, COMPLETED, "r");
	fake_server_cut_waits(fake_server, 3);
	told.most_polls = 1;
	cr_assert(reeve_wait(client, ids, 11, &wait, &pending, &failure), "%s", failure.message);
	cr_assert(eq(int, told.n_ended, 10), "the first poll tells all that have ended");
	fake_server_end(fake_server, MANY, COMPLETED, "r");
	told.most_polls = 5;
	cr_assert(reeve_wait(client, ids, MANY, &wait, &pending, &failure), "%s", failure.message);
	cr_assert(eq(int, told.times[MANY], 1), "it is among the ids of a later call");
}

Test(wait, only_queries, .init = begin, .fini = finish)
{
	struct reeve_wait wait = {.timeout_ms = 0, .ended = ended, .arg = &told};
	int64_t *ids = calloc(MANY, sizeof *ids);
	size_t pending, most;

	make_tasks(MANY);
	for (int i = 0; i < MANY; i++)
		ids[i] = i + 1;
	fake_server_end(fake_server, 5, COMPLETED, "r");
	fake_server_end(fake_server, MANY, REEVE__V1__TASK_STATUS__TASK_STATUS_DEAD, "e");
	cr_assert(reeve_wait(client, ids, MANY, &wait, &pending, &failure), "%s", failure.message);
	cr_assert(eq(sz, pending, MANY - 2));
	cr_assert(told.times[5] == 1 && told.times[MANY] == 1 && told.n_ended == 2);
	cr_assert(lt(sz, fake_server_waits(fake_server, &most), 6));
	cr_assert(reeve_wait(client, ids, 0, &wait, &pending, &failure));
	cr_assert(eq(sz, pending, 0));
	free(ids);
}

Test(wait, requests_only_the_remainder_and_times_out, .init = begin, .fini = finish)
{
	const int64_t ids[] = {1, 2, 3};
	struct reeve_wait wait = {.timeout_ms = 300, .poll_ms = 50, .ended = ended, .polled = polled, .arg = &told};
	int64_t begun = clock_monotonic_ms();
	size_t pending;

	make_tasks(3);
	told.end_next = 2;
	cr_assert(reeve_wait(client, ids, 3, &wait, &pending, &failure), "%s", failure.message);
	cr_assert(ge(i64, clock_monotonic_ms() - begun, 300));
	cr_assert(eq(sz, pending, 2));
	cr_assert(told.n_ended == 1 && told.times[2] == 1);
	cr_assert(ge(int, told.n_polls, 2));
	cr_assert(eq(sz, told.pending, 2));
	told.enough = true;
	wait.timeout_ms = -1;
	cr_assert(reeve_wait(client, ids, 3, &wait, &pending, &failure));
	cr_assert(eq(sz, pending, 2));
}

Test(wait, unknown_tasks_are_reported, .init = begin, .fini = finish)
{
	const int64_t ids[] = {1, 9};
	struct reeve_wait wait = {.timeout_ms = -1};

	make_tasks(1);
	cr_assert(not(reeve_wait(client, ids, 2, &wait, NULL, &failure)));
	cr_assert(eq(int, failure.code, REEVE_NOT_FOUND));
	cr_assert(eq(str, failure.message, "there is no task 9"));
}

static void *interrupt_soon(void *arg)
{
	size_t most;

	(void)arg;
	/* Only after the manager has the call. */
	while (fake_server_waits(fake_server, &most) == 0)
		sched_yield();
	reeve_client_interrupt(client);
	return NULL;
}

Test(wait, can_be_interrupted, .init = begin, .fini = finish)
{
	const int64_t ids[] = {1};
	struct reeve_wait wait = {.timeout_ms = -1};
	Reeve__V1__SubmittedTask submitted;
	pthread_t thread;

	make_tasks(1);
	pthread_create(&thread, NULL, interrupt_soon, NULL);
	cr_assert(not(reeve_wait(client, ids, 1, &wait, NULL, &failure)));
	pthread_join(thread, NULL);
	cr_assert(eq(int, failure.code, REEVE_CANCELLED));
	cr_assert(eq(str, failure.message, "interrupted"));
	cr_assert(not(reeve_submit(client, &(Reeve__V1__TaskSpec){.type = "t"}, 1, NULL, &submitted, &failure)));
	cr_assert(eq(int, failure.code, REEVE_CANCELLED));
}
