#include "worker/handler_set.h"

#include "common/limits.h"
#include "common/log.h"
#include "common/rpc/client.h"

#include <string.h>

void handler_set_clear(struct handler_set *set)
{
	handlers_free(&set->table);
	names_free(&set->files);
	names_free(&set->requested);
	accepts_drop(set->accepts);
	set->accepts = NULL;
}

bool handler_set_start(struct handler_set *set, struct reeve_error *error)
{
	set->accepts = accepts_create(&set->requested, set->table, set->supervisor, error);
	return set->accepts != NULL;
}

bool handler_set_may_start_processes(const struct handler_set *set)
{
	const struct handler *handler;

	for (handler = set->table; handler; handler = handler->hh.next)
		if (handler->processes)
			return true;
	return set->files.count > 0; /* a reload may add one */
}

static void move_file_handlers(struct handler **from, struct handler **to)
{
	struct handler *handler, *next;

	HASH_ITER (hh, *from, handler, next) {
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
			return !handler_refuse_second(fresh->type, error);
	return false;
}

/* Checks the managers' limits: a list that a manager refused would leave the worker without tasks. */
static bool small_enough(const struct accepts *accepts, struct reeve_error *error)
{
	size_t bytes = 0;

	for (size_t i = 0; i < accepts->types.count; i++)
		bytes += strlen(accepts->types.list[i]);
	return (accepts->types.count <= LIMIT_ACCEPTED && bytes <= LIMIT_ACCEPTED_BYTES) ||
	    error_set(error, STATUS(INVALID_ARGUMENT),
	        "there are %zu types of %zu bytes together; at most %d and %d are allowed", accepts->types.count, bytes,
	        LIMIT_ACCEPTED, LIMIT_ACCEPTED_BYTES);
}

/* Replaces the handlers from files. Afterwards *fresh has the handlers that are not in use: the old ones, or after an
 * error the new ones. Called with the lock. */
static bool replace(struct handler_set *set, struct handler **fresh, struct reeve_error *error)
{
	struct handler *old = NULL;
	struct accepts *accepts = NULL;

	move_file_handlers(&set->table, &old);
	if (!clashes(set->table, *fresh, error)) {
		move_file_handlers(fresh, &set->table);
		accepts = accepts_create(&set->requested, set->table, set->supervisor, error);
	}
	if (accepts && !small_enough(accepts, error)) {
		accepts_drop(accepts);
		accepts = NULL;
	}
	if (!accepts)
		move_file_handlers(&set->table, fresh);
	move_file_handlers(&old, accepts ? fresh : &set->table);
	if (!accepts)
		return false;
	accepts_drop(set->accepts);
	set->accepts = accepts;
	set->types_sent = false;
	heartbeat_timer_soon(set->timer, true);
	return true;
}

static bool read_files(const struct names *files, struct handler **fresh, struct reeve_error *error)
{
	for (size_t i = 0; i < files->count; i++)
		if (!handlers_read_file(fresh, files->list[i], error))
			return false;
	return true;
}

void handler_set_step(struct handler_set *set)
{
	int requests = atomic_load(&set->reload_requests);
	struct handler *fresh = NULL;
	struct reeve_error error;
	bool replaced;

	if (requests == set->reloads)
		return;
	set->reloads = requests;
	rpc_client_reload(set->shared->rpc);
	if (!set->files.count)
		return;
	replaced = read_files(&set->files, &fresh, &error);
	shared_lock(set->shared);
	replaced = replaced && replace(set, &fresh, &error);
	handlers_free(&fresh);
	shared_unlock(set->shared);
	if (replaced)
		log_info(set->shared->object, "reloaded: %zu type%s", set->accepts->types.count,
		    set->accepts->types.count == 1 ? "" : "s");
	else
		log_error(set->shared->object, "reloading: %s; the handlers stay as they were", error.message);
}
