/*
 * Deadlines of calls whose callers rely on an answer in time, as those of HTTP do (nng's callers keep their own time,
 * and resend), calls that their callers have withdrawn, and the end of all calls with the server.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <utlist.h>

/* Sets the timer to the earliest deadline. */
static void set_timer(struct rpc_server *server)
{
	const struct deadline *first = deadlines_first(&server->expiries);
	int64_t ms = first ? first->at_ms - clock_monotonic_ms() : 0;

	ms = ms > 0 ? ms : 0;
	if (first)
		event_add(server->expire, &(struct timeval){ms / 1000, ms % 1000 * 1000});
	else
		event_del(server->expire);
}

static void on_expire(evutil_socket_t fd, short what, void *arg)
{
	struct rpc_server *server = arg;
	struct deadline *first;

	(void)fd, (void)what;
	while ((first = deadlines_first(&server->expiries)) && first->at_ms <= clock_monotonic_ms()) {
		struct rpc_call *call = (struct rpc_call *)((char *)first - offsetof(struct rpc_call, expiry));

		deadlines_remove(&server->expiries, first);
		if (call->withdrawn) {
			call->answered = true;
			server_notify_closed(call);
		} else {
			server_answer_early(
			    call, STATUS(DEADLINE_EXCEEDED), "the call was not done by its deadline; it may still happen");
		}
	}
	set_timer(server);
}

void server_withdraw(struct rpc_call *call)
{
	if (call->answered)
		return;
	call->withdrawn = true;
	deadlines_set(&call->server->expiries, &call->expiry, 0);
	set_timer(call->server);
}

void expire_add(struct rpc_call *call)
{
	struct rpc_server *server = call->server;

	deadlines_set(&server->expiries, &call->expiry, call->arrived_ms + call->deadline_ms);
	if (deadlines_first(&server->expiries) == &call->expiry)
		set_timer(server);
}

void expire_remove(struct rpc_call *call)
{
	deadlines_remove(&call->server->expiries, &call->expiry);
}

void expire_open(struct rpc_server *server)
{
	server->expire = event_new(server->base, -1, 0, on_expire, server);
	mem_check(server->expire);
}

void expire_close(struct rpc_server *server)
{
	event_free(server->expire);
	deadlines_free(&server->expiries);
}

void rpc_call_on_closed(struct rpc_call *call, void (*closed)(void *arg), void *arg)
{
	call->closed = closed;
	call->closed_arg = arg;
}

void server_notify_closed(struct rpc_call *call)
{
	void (*closed)(void *arg) = call->closed;

	if (share_awaited(call))
		return;
	share_leave(call); /* equal calls must not join it any more */
	call->closed = NULL;
	if (closed)
		closed(call->closed_arg);
}

void server_maintain(struct peer *peer, bool stopping)
{
	if (peer->transport->maintain)
		peer->transport->maintain(peer->transport_arg, peer->conn, stopping);
}

void expire_all(struct rpc_server *server)
{
	struct rpc_call *call;
	struct peer *peer;

	share_end_all(server);
	while ((call = server->open)) {
		server_notify_closed(call);
		if (server->open == call) /* it was not answered */
			server_drop_call(call);
		assert(server->open != call);
	}
	DL_FOREACH (server->peers, peer)
		server_maintain(peer, true);
}
