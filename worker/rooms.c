#include "worker/rooms.h"

#include "common/limits.h"
#include "common/mem.h"

#include <stdlib.h>

/* Returns how many more attempts the handler could run than it has, and were promised to Fetches. */
static int64_t room(const struct handler *handler, const struct in_flight *in_flight)
{
	int64_t left = handler->max_running - handler->promised;

	for (const struct attempt *attempt = in_flight->all; attempt; attempt = attempt->hh.next)
		left -= attempt->handler == handler && (attempt->place == PLACE_READY || attempt->place == PLACE_TAKEN);
	return left > 0 ? left : 0;
}

struct promises *rooms_promise(struct handler *table, const struct in_flight *in_flight, uint32_t slots)
{
	size_t limited = 0;
	struct promises *promises;

	for (const struct handler *handler = table; handler; handler = handler->hh.next)
		limited += handler->max_running > 0;
	if (!limited)
		return NULL;
	promises = mem_calloc(1, sizeof *promises + limited * sizeof *promises->items);
	for (struct handler *handler = table; handler; handler = handler->hh.next) {
		int64_t left = handler->max_running ? room(handler, in_flight) : 0;
		struct promise *promise = &promises->items[promises->count];

		if (!handler->max_running)
			continue;
		*promise = (struct promise){handler, left < slots ? (uint32_t)left : slots};
		handler_use(handler);
		handler->promised += (int)promise->slots;
		promises->count++;
	}
	return promises;
}

void rooms_end(struct promises *promises)
{
	for (size_t i = 0; promises && i < promises->count; i++) {
		promises->items[i].handler->promised -= (int)promises->items[i].slots;
		handler_drop(promises->items[i].handler);
	}
	free(promises);
}

bool rooms_grown(const struct promises *promises, const struct in_flight *in_flight, uint32_t slots)
{
	for (size_t i = 0; promises && i < promises->count; i++)
		if (promises->items[i].slots < slots && room(promises->items[i].handler, in_flight))
			return true;
	return false;
}

struct type_slots *rooms_type_slots(const struct promises *promises, uint32_t slots)
{
	struct type_slots *limits;

	if (!promises)
		return NULL;
	limits = mem_calloc(1, sizeof *limits + promises->count * sizeof *limits->items);
	limits->list = mem_malloc(promises->count * sizeof *limits->list);
	for (size_t i = 0; i < promises->count && limits->count < LIMIT_ACCEPTED; i++) {
		const struct promise *promise = &promises->items[i];
		Reeve__V1__TypeSlots *item = &limits->items[limits->count];

		if (promise->slots >= slots)
			continue;
		reeve__v1__type_slots__init(item);
		item->type = mem_strdup(promise->handler->type);
		item->slots = promise->slots;
		limits->list[limits->count++] = item;
	}
	return limits;
}

void type_slots_free(struct type_slots *slots)
{
	if (!slots)
		return;
	for (size_t i = 0; i < slots->count; i++)
		free((char *)slots->items[i].type);
	free(slots->list);
	free(slots);
}
