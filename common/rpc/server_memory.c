/* Which connections are closed when the memory for messages, or for answers, is used up. */
#include "common/rpc/server_internal.h"

#include "common/log.h"

#include <utlist.h>

enum {
	PARTIAL_MS = 1000, /* a message that takes longer may be cut off */
	FREE_PART = 8,     /* messages are cut off until this part of the memory is free */
};

void peers_close_unread(struct rpc_server *server)
{
	while (atomic_load(&server->budget.unsent) > server->budget.unsent_max) {
		struct peer *peer, *worst = NULL;
		size_t max = 0;

		DL_FOREACH (server->peers, peer) {
			size_t backlog = rpc_conn_poll(peer->conn).backlog;

			if (backlog > max) {
				max = backlog;
				worst = peer;
			}
		}
		if (!worst)
			return;
		log_debug("rpc", "closing a connection with %zu bytes of unread answers", max);
		rpc_conn_close(worst->conn);
	}
}

void peers_close_largest(struct rpc_server *server)
{
	size_t max = server->budget.incoming_max - server->budget.incoming_max / FREE_PART;
	size_t incoming = atomic_load(&server->budget.incoming), freed = 0;
	struct peer *peer;

	for (size_t min = server->options.max_message_bytes / 2; min > 0; min /= 2) {
		DL_FOREACH (server->peers, peer) {
			struct rpc_conn_state state = rpc_conn_poll(peer->conn);
			bool suspended = peer_suspended(peer) && !peer->identity;
			size_t held = state.held + (suspended ? peer->waiting_bytes : 0);

			if (incoming - freed <= max || freed >= incoming)
				return;
			if (held < min || (state.held_ms <= PARTIAL_MS && !suspended))
				continue;
			log_debug("rpc", "closing a connection with %zu bytes of a message that is not finished for %lld ms", held,
			    (long long)state.held_ms);
			freed += held;
			rpc_conn_close(peer->conn);
		}
	}
}
