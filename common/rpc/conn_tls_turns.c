/* The order in which the connections of a loop do the TLS work that takes long. */
#include "common/rpc/conn_tls_internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <poll.h>
#include <stdlib.h>
#include <utlist.h>

enum {
	TURN_MS = 2,           /* for the turns of one iteration of the loop; one may exceed it */
	HANDSHAKES_MAX = 1024, /* unfinished at the same time: about 50 KB each */
};

static void want(struct tls_layer *layer)
{
	struct tls_turns *turns = layer->turns;

	if (layer->list)
		return;
	if (layer->state == LAYER_NEW) {
		if (!layer->address->newest)
			DL_APPEND(turns->later, layer->address);
		layer->list = &layer->address->newest;
		DL_PREPEND(*layer->list, layer);
	} else {
		layer->list = layer->state == LAYER_HANDSHAKE ? &turns->first : &turns->open;
		DL_APPEND(*layer->list, layer);
	}
	if (!event_pending(turns->event, EV_TIMEOUT, NULL))
		event_add(turns->event, &(struct timeval){0, 0});
}

static void leave_list(struct tls_layer *layer)
{
	if (!layer->list)
		return;
	DL_DELETE(*layer->list, layer);
	if (layer->list == &layer->address->newest && !layer->address->newest)
		DL_DELETE(layer->turns->later, layer->address);
	layer->list = NULL;
}

static void finish(struct tls_layer *layer)
{
	if (!layer->begun)
		return;
	layer->begun = false;
	DL_DELETE2(layer->turns->begun, layer, prev_begun, next_begun);
	layer->turns->n_begun--;
	layer->address->begun--;
}

static void begin(struct tls_layer *layer)
{
	struct tls_turns *turns = layer->turns;

	layer->begun = true;
	DL_APPEND2(turns->begun, layer, prev_begun, next_begun);
	turns->n_begun++;
	layer->address->begun++;
}

static void leave(struct tls_layer *layer)
{
	leave_list(layer);
	finish(layer);
}

static void handshake_step(struct tls_layer *layer)
{
	tls_pool_add(layer->turns->pool, layer);
}

/* Returns true if the other end has closed the connection. Its handshake would be useless. */
static bool has_hung_up(const struct rpc_conn *conn)
{
	struct pollfd hangup = {.fd = conn->fd, .events = POLLRDHUP};

	return poll(&hangup, 1, 0) > 0;
}

/* Returns whose turn it is, or NULL: all open ones have had theirs in this iteration of the loop, and the pool has
 * enough to do. */
static struct tls_layer *next_of(struct tls_turns *turns)
{
	struct tls_queue *address = turns->later;

	if (turns->open && turns->open->round != turns->round)
		return turns->open;
	if (!tls_pool_has_room(turns->pool))
		return NULL;
	if (turns->first || !address)
		return turns->first;
	DL_DELETE(turns->later, address);
	DL_APPEND(turns->later, address);
	return address->newest;
}

static void take_turn(struct tls_layer *layer)
{
	leave_list(layer);
	if (layer->state == LAYER_NEW && has_hung_up(layer->conn)) {
		rpc_conn_close(layer->conn);
		return;
	}
	layer->round = layer->turns->round;
	layer->has_turn = true;
	layer->burst = 0;
	if (layer->state == LAYER_OPEN)
		layer_check(layer);
	layer_pump(layer);
	layer->has_turn = false;
}

/* Returns the oldest unfinished handshake of the address with the most of them. */
static struct tls_layer *greediest(const struct tls_turns *turns)
{
	struct tls_layer *layer, *worst = turns->begun;

	DL_FOREACH2 (turns->begun, layer, next_begun)
		if (layer->address->begun > worst->address->begun)
			worst = layer;
	return worst;
}

static void on_turns(evutil_socket_t fd, short what, void *arg)
{
	struct tls_turns *turns = arg;
	int64_t until_us = clock_monotonic_us() + TURN_MS * 1000;
	struct tls_layer *layer;

	(void)fd, (void)what;
	turns->round++;
	while (clock_monotonic_us() < until_us && (layer = next_of(turns))) {
		take_turn(layer);
		if (turns->n_begun > HANDSHAKES_MAX)
			rpc_conn_close(greediest(turns)->conn);
	}
	if (turns->open || (tls_pool_has_room(turns->pool) && (turns->first || turns->later)))
		event_add(turns->event, &(struct timeval){0, 0});
}

static void take_finished(struct tls_turns *turns)
{
	struct tls_layer *layer;

	while ((layer = tls_pool_take(turns->pool)))
		layer_stepped(layer);
}

static void on_stepped(evutil_socket_t fd, short what, void *arg)
{
	struct tls_turns *turns = arg;

	(void)fd, (void)what;
	take_finished(turns);
	on_turns(-1, 0, turns);
}

struct tls_turns *tls_turns_create(struct event_base *base)
{
	struct tls_turns *turns = mem_calloc(1, sizeof *turns);

	turns->want = want;
	turns->leave = leave;
	turns->begin = begin;
	turns->finish = finish;
	turns->handshake_step = handshake_step;
	turns->pool = tls_pool_create();
	turns->event = event_new(base, -1, 0, on_turns, turns);
	turns->stepped = event_new(base, tls_pool_wake(turns->pool), EV_READ | EV_PERSIST, on_stepped, turns);
	mem_check(turns->event && turns->stepped && event_add(turns->stepped, NULL) == 0);
	return turns;
}

void tls_turns_stop(struct tls_turns *turns)
{
	tls_pool_stop(turns->pool);
	take_finished(turns);
}

int tls_turns_unfinished(const struct tls_turns *turns)
{
	return turns->n_begun;
}

void tls_turns_destroy(struct tls_turns *turns)
{
	if (!turns)
		return;
	event_free(turns->event);
	event_free(turns->stepped);
	tls_pool_destroy(turns->pool);
	free(turns);
}
