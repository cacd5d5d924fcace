/* One function per worker command. */
#include "worker/commands.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"

static void stop_one(struct commands *commands, const Reeve__V1__WorkerCommand *command, enum stop_reason reason)
{
	struct attempt *attempt = in_flight_find(commands->in_flight, command->task_id, command->token);
	char name[48] = "";

	if (!attempt)
		return;
	attempt_name(attempt, name); /* in_flight_stop may free it */
	if (in_flight_stop(commands->in_flight, attempt, reason))
		log_info(name, "%s", reason == STOP_CANCEL ? "a cancel was requested" : "taken away by the manager");
}

static void drain(struct commands *commands)
{
	if (life_draining(commands->life))
		return;
	log_info(commands->shared->object, "draining: the manager commands it");
	life_drain(commands->life, INT64_MAX);
}

/* Like a drain whose timeout is over at once: running attempts are stopped and returned. */
static void stop(struct commands *commands)
{
	int64_t now_ms = clock_monotonic_ms();

	if (commands->life->stop_at_ms <= now_ms)
		return;
	log_info(commands->shared->object, "stopping: the manager commands it");
	life_drain(commands->life, now_ms);
}

/* Pauses or resumes a worker that is not draining. */
static void set_paused(struct commands *commands, bool paused)
{
	enum life_phase phase = paused ? LIFE_PAUSED : LIFE_RUNNING;

	if (life_draining(commands->life) || commands->life->phase == phase)
		return;
	log_info(commands->shared->object, "%s", paused ? "paused by the manager" : "resumed by the manager");
	commands->life->phase = phase;
}

static void set_concurrency(struct commands *commands, uint32_t value)
{
	struct slots *slots = commands->slots;
	int wanted = value < LIMIT_CONCURRENCY ? (int)value : LIMIT_CONCURRENCY;

	/* The command stays in force, and each heartbeat's answer repeats it: if it could not be applied, do not try again
	 * and again. */
	if (wanted == slots->requested || commands->life->once)
		return;
	slots->requested = wanted;
	if (wanted == slots->concurrency)
		return;
	log_info(commands->shared->object, "concurrency is %d from now on, as the manager requests", wanted);
	slots_set_concurrency(slots, wanted);
}

/* Applies the commands. `paused`: whether the worker is to be paused unless they say otherwise. `settings`: also those
 * that a later command can reverse. */
static void apply(
    struct commands *commands, Reeve__V1__WorkerCommand *const *list, size_t count, bool paused, bool settings)
{
	enum life_phase phase = commands->life->phase;
	int concurrency = commands->slots->concurrency;

	for (size_t i = 0; i < count; i++) {
		switch (list[i]->kind) {
		case REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_CANCEL:
			stop_one(commands, list[i], STOP_CANCEL);
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_ABANDON:
			stop_one(commands, list[i], STOP_ABANDON);
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_DRAIN: drain(commands); break;
		case REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_PAUSE: paused = true; break;
		case REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_RESUME: paused = false; break;
		case REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_CONCURRENCY:
			if (settings)
				set_concurrency(commands, list[i]->value);
			break;
		case REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_STOP: stop(commands); break;
		case REEVE__V1__WORKER_COMMAND_KIND__WORKER_COMMAND_KIND_UNSPECIFIED:
		default: break; /* from a newer manager */
		}
	}
	if (settings)
		set_paused(commands, paused);
	/* Report the effect at once: the operator who issued the command checks for it. */
	if (phase != commands->life->phase || concurrency != commands->slots->concurrency)
		heartbeat_timer_soon(commands->timer, true);
	else if (commands->life->phase == LIFE_PAUSED || !commands->slots->concurrency) /* no Fetch is parked that could
	                                                                                  bring the next command */
		heartbeat_timer_soon(commands->timer, false);
	if (count || phase != commands->life->phase)
		shared_wake(commands->shared);
}

void commands_apply_new(struct commands *commands, Reeve__V1__WorkerCommand *const *list, size_t count)
{
	if (count)
		commands->new_ms = clock_monotonic_ms();
	apply(commands, list, count, commands->life->phase == LIFE_PAUSED, true);
}

void commands_apply_all(struct commands *commands, Reeve__V1__WorkerCommand *const *list, size_t count, int64_t sent_ms)
{
	apply(commands, list, count, false, sent_ms > commands->new_ms);
}
