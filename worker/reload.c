/*
 * Reloading: all files are read into a table of their own. It replaces the handlers from files only if all of it is
 * valid. Attempts that the worker already holds keep their handlers.
 *
 * The next heartbeat, and the parked Fetch, which is resent (fetch_report.c), report new types to the managers.
 */
#include "worker/reload.h"

#include "common/log.h"
#include "worker/heartbeat.h"
#include "worker/state.h"

#include <string.h>

/* The managers' limits. A list that a manager refused would leave the worker without tasks. */
enum { TYPES_MAX = 1000, TYPES_BYTES_MAX = 128 * 1024 };

static void move_file_handlers(struct handler **from, struct handler **to)
{
	struct handler *handler, *next;

	HASH_ITER(hh, *from, handler, next)
	{
		if (!handler->from_file)
			continue;
		HASH_DEL(*from, handler);
		HASH_ADD_KEYPTR(hh, *to, handler->type, strlen(handler->type), handler);
	}
}

/* Returns true if a type has both a function and a program from the files. */
static bool clashes(struct handler *functions, const struct handler *fresh, struct reeve_error *error)
{
	for (; fresh; fresh = fresh->hh.next)
		if (handler_find(functions, fresh->type))
			return !error_set(error, STATUS(ALREADY_EXISTS), "type %s has two handlers", fresh->type);
	return false;
}

static bool small_enough(const struct accepts *accepts, struct reeve_error *error)
{
	size_t bytes = 0;

	for (size_t i = 0; i < accepts->types.count; i++)
		bytes += strlen(accepts->types.list[i]);
	return (accepts->types.count <= TYPES_MAX && bytes <= TYPES_BYTES_MAX) ||
	       error_set(error, STATUS(INVALID_ARGUMENT), "there are %zu types of %zu bytes together; %d and %d are taken",
	           accepts->types.count, bytes, TYPES_MAX, TYPES_BYTES_MAX);
}

/* Replaces the handlers from files. Afterwards *fresh has the handlers that are not in use: the old ones, or after an
 * error the new ones. Called with the lock. */
static bool take_over(struct reeve_worker *worker, struct handler **fresh, struct reeve_error *error)
{
	struct handler *old = NULL;
	struct accepts *accepts = NULL;

	move_file_handlers(&worker->handlers, &old);
	if (!clashes(worker->handlers, *fresh, error)) {
		move_file_handlers(fresh, &worker->handlers);
		accepts = accepts_make(&worker->asked, worker->handlers, worker->supervisor != NULL, error);
	}
	if (accepts && !small_enough(accepts, error)) {
		accepts_drop(accepts);
		accepts = NULL;
	}
	if (!accepts)
		move_file_handlers(&worker->handlers, fresh);
	move_file_handlers(&old, accepts ? fresh : &worker->handlers);
	if (!accepts)
		return false;
	accepts_drop(worker->accepts);
	worker->accepts = accepts;
	worker->accepts_sent = false;
	heartbeat_soon(worker, true);
	return true;
}

static bool read_files(const struct names *files, struct handler **fresh, struct reeve_error *error)
{
	for (size_t i = 0; i < files->count; i++)
		if (!handlers_read_file(fresh, files->list[i], error))
			return false;
	return true;
}

void reload_step(struct reeve_worker *worker)
{
	struct handler *fresh = NULL;
	struct reeve_error error;
	int asked = atomic_load(&worker->reloads);
	bool good;

	if (asked == worker->reloaded || !worker->files.count)
		return;
	worker->reloaded = asked;
	good = read_files(&worker->files, &fresh, &error);
	pthread_mutex_lock(&worker->lock);
	good = good && take_over(worker, &fresh, &error);
	handlers_free(&fresh);
	pthread_mutex_unlock(&worker->lock);
	if (good)
		log_info(worker->object, "reloaded: %zu type%s", worker->accepts->types.count,
		    worker->accepts->types.count == 1 ? "" : "s");
	else
		log_error(worker->object, "reloading: %s; the handlers stay as they were", error.message);
}
