/* Handlers that run only so many attempts at once, and what Fetches may bring of their types. */
#include "worker/rooms.h"

#include "common/mem.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct handler *table;
static struct in_flight in_flight;

static struct handler *add(const char *type, int max_running)
{
	struct handler *handler = mem_calloc(1, sizeof *handler);
	struct reeve_error error;

	handler_init(handler, type);
	handler->max_running = max_running;
	cr_assert(handler_add(&table, handler, &error));
	return handler;
}

static void receive(struct attempt *attempt, int64_t id, struct handler *handler, enum attempt_place place)
{
	*attempt = (struct attempt){.key.task_id = id, .handler = handler, .place = place};
	HASH_ADD(hh, in_flight.all, key, sizeof attempt->key, attempt);
}

Test(rooms, without_a_limit_nothing_is_promised)
{
	add("free", 0);
	cr_expect_null(rooms_promise(table, &in_flight, 5));
	cr_expect_null(rooms_type_slots(NULL, 5));
	cr_expect_not(rooms_grown(NULL, &in_flight, 5));
	rooms_end(NULL);
	handlers_free(&table);
}

Test(rooms, a_fetch_brings_no_more_than_can_start)
{
	struct handler *heavy = add("heavy", 3), *wide = add("wide", 9);
	struct attempt attempts[3];
	struct promises *first, *second;
	struct type_slots *limits;

	add("free", 0);
	receive(&attempts[0], 1, heavy, PLACE_TAKEN);
	receive(&attempts[1], 2, heavy, PLACE_UNACKED);
	receive(&attempts[2], 3, wide, PLACE_READY);
	first = rooms_promise(table, &in_flight, 5);
	limits = rooms_type_slots(first, 5);
	cr_assert_eq(limits->count, 1, "of wide there is room for more than the Fetch's slots");
	cr_expect_str_eq(limits->list[0]->type, "heavy");
	cr_expect_eq(limits->list[0]->slots, 2, "one runs");
	type_slots_free(limits);
	/* What is promised to one Fetch no other one may bring. */
	second = rooms_promise(table, &in_flight, 5);
	limits = rooms_type_slots(second, 5);
	cr_assert_eq(limits->count, 2);
	cr_expect_eq(limits->list[0]->slots, 0);
	cr_expect_eq(limits->list[1]->slots, 3);
	type_slots_free(limits);
	cr_expect_not(rooms_grown(second, &in_flight, 5));
	rooms_end(first);
	cr_expect(rooms_grown(second, &in_flight, 5), "the first one has brought none");
	attempts[1].place = PLACE_READY;
	attempts[2].place = PLACE_UNACKED;
	HASH_DEL(in_flight.all, &attempts[0]);
	rooms_end(second);
	cr_expect_eq(heavy->promised, 0);
	cr_expect_eq(wide->promised, 0);
	HASH_CLEAR(hh, in_flight.all);
	handlers_free(&table);
}
