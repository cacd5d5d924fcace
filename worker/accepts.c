#include "worker/accepts.h"

#include "common/mem.h"
#include "worker/handler.h"

#include <stdlib.h>
#include <string.h>

/* Checks that each type in `requested` has a handler, that there is a handler at all, and that the worker can run all
 * of them. False: *error has the reason. */
static bool runnable(const struct names *requested, struct handler *handlers, bool may_start, struct reeve_error *error)
{
	const struct handler *handler;

	for (size_t i = 0; i < requested->count; i++)
		if (!handler_find(handlers, requested->list[i]))
			return error_set(error, STATUS(INVALID_ARGUMENT), "type %s has no handler: add one, or leave the type out",
			    requested->list[i]);
	if (!handlers)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the worker has no handlers");
	for (handler = handlers; handler; handler = handler->hh.next)
		if (handler->processes && !may_start)
			return error_set(error, STATUS(INVALID_ARGUMENT),
			    "the handler of type %s starts processes, but the worker has no supervisor", handler->type);
	return true;
}

struct accepts *accepts_create(
    const struct names *requested, struct handler *handlers, bool may_start, struct reeve_error *error)
{
	struct accepts *accepts;

	if (!runnable(requested, handlers, may_start, error))
		return NULL;
	accepts = mem_calloc(1, sizeof *accepts);
	accepts->users = 1;
	for (size_t i = 0; i < requested->count; i++)
		names_add(&accepts->types, requested->list[i], strlen(requested->list[i]));
	for (const struct handler *handler = requested->count ? NULL : handlers; handler; handler = handler->hh.next)
		names_add(&accepts->types, handler->type, strlen(handler->type));
	return accepts;
}

struct accepts *accepts_use(struct accepts *accepts)
{
	accepts->users++;
	return accepts;
}

void accepts_drop(struct accepts *accepts)
{
	if (!accepts || --accepts->users)
		return;
	names_free(&accepts->types);
	free(accepts);
}
