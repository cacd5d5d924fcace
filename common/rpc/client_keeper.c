/*
 * The thread that watches over a client: dials managers, pings them, moves calls off those that are gone, ends calls
 * whose time is over, sends what waits, and gives the answers that no manager gave. It sleeps until the earliest of all
 * that, or until it is woken.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"

#include <utlist.h>

/* A sleep that took so much longer than planned means that this process stood still (stopped, or its machine was). */
enum { OVERSLEPT_MS = 1000 };

void client_wake_keeper(struct rpc_client *client)
{
	client->work = true;
	pthread_cond_signal(&client->work_changed);
}

/* Ends or wakes the calls whose timers are over. Returns when the next one is. */
static int64_t run_timers(struct rpc_client *client, int64_t now_ms)
{
	struct deadline *timer;

	while ((timer = deadlines_first(&client->timers)) && timer->at_ms <= now_ms) {
		struct call *call = (struct call *)((char *)timer - offsetof(struct call, timer));

		if (now_ms >= call->deadline_ms) {
			/* A call that is just being packed is ended by its packer, soon. */
			deadlines_remove(&client->timers, timer);
			call_expire(call);
		} else {
			deadlines_set(&client->timers, timer, call->deadline_ms);
			if (call->state == CALL_PAUSED)
				call_wait(call);
		}
	}
	return timer ? timer->at_ms : INT64_MAX;
}

/* Sends the calls that wait, while somebody is alive. Lets go of the lock in between. */
static void send_waiting(struct rpc_client *client)
{
	struct call *call;

	while ((call = client->waiting)) {
		struct manager *manager = manager_choose(client, call->avoid ? call->manager : NULL);

		if (!manager)
			return;
		DL_DELETE(client->waiting, call);
		call->state = CALL_PREPARING;
		client_unlock(client);
		call_send(call, manager);
		client_lock(client);
	}
}

/* Gives the answers of ended calls. Lets go of the lock in between. */
static void finish_ended(struct rpc_client *client)
{
	struct call *call;

	while ((call = client->ended)) {
		DL_DELETE(client->ended, call);
		client_unlock(client);
		call_finish(call);
		client_lock(client);
	}
}

/* Sleeps until `until_ms` or until there is work. */
static void sleep_until(struct rpc_client *client, int64_t until_ms)
{
	struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
	int64_t now_ms;

	client->planned_ms = until_ms;
	while (!client->work) {
		if (pthread_cond_timedwait(&client->work_changed, &client->lock, &until) != 0)
			break;
	}
	now_ms = clock_monotonic_ms();
	client->planned_ms = INT64_MIN;
	if (now_ms - until_ms < OVERSLEPT_MS)
		return;
	for (int i = 0; i < client->n_managers; i++)
		client->managers[i].listening_ms = now_ms;
}

void *client_keep(void *arg)
{
	struct rpc_client *client = arg;

	client_lock(client);
	while (!client->closing || client->n_unfinished > 0) {
		int64_t now_ms = clock_monotonic_ms();
		int64_t until_ms = now_ms + client->ping_interval_ms;
		int64_t next_ms;

		client->work = false;
		for (int i = 0; i < client->n_managers; i++) {
			next_ms = manager_tend(&client->managers[i], now_ms);
			until_ms = next_ms < until_ms ? next_ms : until_ms;
		}
		next_ms = run_timers(client, now_ms);
		until_ms = next_ms < until_ms ? next_ms : until_ms;
		send_waiting(client);
		finish_ended(client);
		if (!client->work)
			sleep_until(client, until_ms);
	}
	client_unlock(client);
	return NULL;
}
