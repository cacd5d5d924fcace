/*
 * The client's background thread: dials and pings managers, moves calls off dead ones, ends calls whose deadline has
 * passed, sends waiting calls, and delivers answers that came from no manager. It sleeps until the earliest due time of
 * these, or until it is woken.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"

#include <utlist.h>

/* A sleep that overruns by this much means that the process was stopped, or its machine suspended. */
enum { OVERSLEPT_MS = 1000 };

void client_wake_control(struct rpc_client *client)
{
	client->work = true;
	pthread_cond_signal(&client->work_changed);
}

/* Ends or wakes the calls whose timers have expired. Returns when the next timer expires. */
static int64_t run_timers(struct rpc_client *client, int64_t now_ms)
{
	struct deadline *timer;

	while ((timer = deadlines_first(&client->timers)) && timer->at_ms <= now_ms) {
		struct call *call = (struct call *)((char *)timer - offsetof(struct call, timer));

		if (now_ms >= call->deadline_ms) {
			/* If the call is being packed, the packing thread ends it soon. */
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

/* Sends the waiting calls while a manager is alive, or ends them if all refuse them. Releases the lock temporarily. */
static void send_waiting(struct rpc_client *client)
{
	const char *refusal;
	struct call *call;

	while ((call = client->waiting) && (refusal = choice_refusal(client)))
		call_end(call, STATUS(UNIMPLEMENTED), "%s", refusal);
	while ((call = client->waiting)) {
		struct manager *manager = choice_make(client, call->avoid ? call->manager : NULL);

		if (!manager)
			return;
		DL_DELETE(client->waiting, call);
		call->state = CALL_PREPARING;
		client_unlock(client);
		call_send(call, manager);
		client_lock(client);
	}
}

/* Delivers the answers of ended calls. Releases the lock temporarily. */
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

	client->sleep_until_ms = until_ms;
	while (!client->work) {
		if (pthread_cond_timedwait(&client->work_changed, &client->lock, &until) != 0)
			break;
	}
	now_ms = clock_monotonic_ms();
	client->sleep_until_ms = INT64_MIN;
	if (now_ms - until_ms < OVERSLEPT_MS)
		return;
	for (int i = 0; i < client->n_managers; i++)
		client->managers[i].listening_ms = now_ms;
}

void *client_run(void *arg)
{
	struct rpc_client *client = arg;

	client_lock(client);
	while (!client->closing || client->n_unfinished > 0) {
		int64_t now_ms = clock_monotonic_ms();
		int64_t until_ms = now_ms + client->ping_interval_ms;
		int64_t next_ms;

		client->work = false;
		for (int i = 0; i < client->n_managers; i++) {
			next_ms = manager_run(&client->managers[i], now_ms);
			until_ms = next_ms < until_ms ? next_ms : until_ms;
		}
		client_token_check(client, now_ms);
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
