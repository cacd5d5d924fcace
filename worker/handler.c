/* The table of handlers. */
#include "worker/handler.h"

#include "common/mem.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>

void handler_init(struct handler *handler, const char *type)
{
	handler->type = mem_strdup(type);
	handler->users = 1;
	atomic_init(&handler->cost_us, HANDLER_COST_FULL_US);
}

bool handler_refuse_second(const char *type, struct reeve_error *error)
{
	return error_set(error, STATUS(ALREADY_EXISTS), "type %s has two handlers: remove one", type);
}

bool handler_add(struct handler **handlers, struct handler *handler, struct reeve_error *error)
{
	const char *problem = name_problem(handler->type, false);

	if (problem)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the handler's type %s", problem);
	if (handler_find(*handlers, handler->type))
		return handler_refuse_second(handler->type, error);
	HASH_ADD_KEYPTR(hh, *handlers, handler->type, strlen(handler->type), handler);
	return true;
}

struct handler *handler_find(struct handler *handlers, const char *type)
{
	struct handler *handler;

	HASH_FIND_STR(handlers, type, handler);
	return handler;
}

void handler_free(struct handler *handler)
{
	if (handler->release)
		handler->release(handler);
	free(handler->type);
	free(handler);
}

void handler_use(struct handler *handler)
{
	if (handler)
		handler->users++;
}

void handler_drop(struct handler *handler)
{
	if (handler && --handler->users == 0)
		handler_free(handler);
}

void handlers_free(struct handler **handlers)
{
	struct handler *handler, *next;

	HASH_ITER (hh, *handlers, handler, next) {
		HASH_DEL(*handlers, handler);
		handler_drop(handler);
	}
}
