/* A slot that takes several attempts at once. */
#include "fixture.h"

#include <stdatomic.h>

static struct fixture fixture;
static _Atomic bool blocks, starts, is_held, goes_on, others_go_on;
static _Atomic pthread_t held_thread;

/* The program is linked with --wrap=pthread_mutex_unlock. After "hold" has returned, its slot takes a batch and
 * releases the lock; it stays there, as if it did not get the processor, until the test lets it go on. */
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int code = __real_pthread_mutex_unlock(mutex);

	if (atomic_load(&starts) && pthread_equal(atomic_load(&held_thread), pthread_self()) &&
	    !atomic_exchange(&is_held, true))
		while (!atomic_load(&goes_on))
			usleep(1000);
	return code;
}

static int quick(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)attempt;
	(void)outcome;
	return 0;
}

static int hold(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)attempt;
	(void)outcome;
	atomic_store(&held_thread, pthread_self());
	while (!atomic_load(&starts))
		usleep(1000);
	return 0;
}

static int block(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)attempt;
	(void)outcome;
	atomic_store(&blocks, true);
	while (!atomic_load(&others_go_on))
		usleep(1000);
	return 0;
}

Test(batch, another_slot_may_run_all_of_it_before_its_own_slot_runs)
{
	enum { LEARN = 1000, COUNT = 10 };

	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = 2, .prefetch = 500});
	reeve_worker_handle(fixture.worker, "quick", quick, NULL);
	reeve_worker_handle(fixture.worker, "hold", hold, NULL);
	reeve_worker_handle(fixture.worker, "block", block, NULL);
	fixture.script.heartbeat_ms = 20;
	for (int i = 0; i < LEARN; i++)
		script_add(&fixture.script, "quick", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == LEARN));
	script_add(&fixture.script, "hold", "");
	script_add(&fixture.script, "block", "");
	cr_assert(script_wait(&fixture.script, atomic_load(&blocks) && atomic_load(&held_thread)));
	for (int i = 0; i < COUNT; i++)
		script_add(&fixture.script, "quick", "");
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == COUNT + 2));
	atomic_store(&starts, true);
	cr_assert(script_wait(&fixture.script, atomic_load(&is_held)));
	atomic_store(&others_go_on, true);
	cr_expect(script_wait(&fixture.script, fixture.script.n_done == LEARN + COUNT + 2));
	atomic_store(&goes_on, true);
	cr_expect_eq(fixture_close(&fixture), 0);
}
