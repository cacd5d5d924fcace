/* One function per worker command. */
#include "worker/commands.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/heartbeat.h"
#include "worker/held.h"

static void stop_one(struct reeve_worker *worker, const Reeve__V1__WorkerCommand *command, enum stop_reason reason)
{
	struct attempt *attempt = held_find(worker, command->task_id, command->token);
	char name[48] = "";

	if (!attempt)
		return;
	attempt_name(attempt, name); /* held_stop may free it */
	if (held_stop(worker, attempt, reason))
		log_info(name, "%s", reason == STOP_CANCEL ? "a cancel was requested" : "taken away by the manager");
}

static void drain(struct reeve_worker *worker)
{
	if (worker->draining)
		return;
	log_info(worker->object, "draining: the manager commands it");
	worker->draining = true;
	worker->drain_until_ms = INT64_MAX;
}

/* Like a drain whose timeout is over at once: running attempts are stopped and returned. */
static void stop(struct reeve_worker *worker)
{
	if (worker->draining && worker->drain_until_ms <= clock_monotonic_ms())
		return;
	log_info(worker->object, "stopping: the manager commands it");
	worker->draining = true;
	worker->drain_until_ms = clock_monotonic_ms();
}

static void pause_fetching(struct reeve_worker *worker, bool paused)
{
	if (worker->paused == paused)
		return;
	log_info(worker->object, "%s", paused ? "paused by the manager" : "resumed by the manager");
	worker->paused = paused;
}

static void set_concurrency(struct reeve_worker *worker, uint32_t value)
{
	int wanted = value < WORKER_CONCURRENCY_MAX ? (int)value : WORKER_CONCURRENCY_MAX;

	/* The command stays in force, and each heartbeat's answer repeats it: if it could not be applied, do not try again
	 * and again. */
	if (wanted == 0 || wanted == worker->slots.ordered || worker->once)
		return;
	worker->slots.ordered = wanted;
	if (wanted == worker->slots.wanted)
		return;
	log_info(worker->object, "concurrency is %d from now on, as the manager requests", wanted);
	worker->slots.wanted = wanted;
	worker->slots.changed = true;
}

void commands_apply(struct reeve_worker *worker, Reeve__V1__WorkerCommand *const *commands, size_t count, bool all)
{
	bool paused = all ? false : worker->paused, changed = count > 0;
	bool draining = worker->draining;
	int wanted = worker->slots.wanted;

	for (size_t i = 0; i < count; i++) {
		switch (commands[i]->kind) {
		case REEVE__V1__WORKER_COMMAND_KIND__COMMAND_CANCEL:
			stop_one(worker, commands[i], STOP_CANCEL);
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__COMMAND_ABANDON:
			stop_one(worker, commands[i], STOP_ABANDON);
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__COMMAND_DRAIN:
			drain(worker);
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__COMMAND_PAUSE:
			paused = true;
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__COMMAND_RESUME:
			paused = false;
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__COMMAND_CONCURRENCY:
			set_concurrency(worker, commands[i]->value);
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__COMMAND_STOP:
			stop(worker);
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__COMMAND_UNSPECIFIED:
		default:
			break; /* from a newer manager */
		}
	}
	changed |= paused != worker->paused;
	/* Report the effect at once: the operator who issued the command checks for it. */
	if (paused != worker->paused || draining != worker->draining || wanted != worker->slots.wanted)
		heartbeat_soon(worker, true);
	else if (paused) /* no Fetch is parked that could bring the command to resume */
		heartbeat_soon(worker, false);
	pause_fetching(worker, paused);
	if (changed)
		worker_wake(worker);
}
