/*
 * Connections and their turns. A connection has to greet in time, to send its messages without long breaks, to take its
 * answers, and to be heard of now and then; one that does not is closed, so that silence costs nobody else a
 * descriptor. A peer that sends faster than the loop serves, or does not take its answers, is not read from for a
 * while. Each peer has a queue of its own, and they are served in turn: a flood delays its sender.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

enum {
	WAITING_MOST = 256,       /* frames of one peer that are not looked at */
	WAITING_MESSAGES = 2,     /* … and bytes, in longest messages */
	TURN_FRAMES = 256,        /* frames looked at in one turn of the loop */
	TURN_MS = 10,             /* … and for how long: then other events have their turn */
	BACKLOG_MESSAGES = 4,     /* a peer with longer unsent answers is not served */
	GREETING_MS = 5000,       /* how long a newcomer may take to greet */
	FRAME_MS = 10000,         /* how long a message may take to come … */
	FRAME_BYTES_PER_MS = 100, /* … and how much longer if it is long */
	QUIET_MS = 300000,        /* how long nothing need be heard of a peer; Reeve's own are heard of more often */
	STUCK_MS = 10000,         /* how long a peer may take no answers */
	TURNED_AWAY_MS = 3000,    /* how long one that was turned away has to hear why */
	PARTIAL_MS = 1000,     /* a message that has taken so long may be cut off when there is no memory for others … */
	FREE_PART = 8,         /* … until such a part of it is free */
	CLOSE_GRACE_MS = 1000, /* how long answers given before the end may take to leave */
};

/* When the loop has looked at its sockets once more: who has sent something by then has his turn, too. */
void server_wake(struct rpc_server *server)
{
	if (server->woken)
		return;
	server->woken = true;
	event_add(server->wake, &(struct timeval){0, 0});
}

/* Puts a peer at the end of those whose frames may be looked at. */
static void queue_up(struct peer *peer)
{
	struct rpc_server *server = peer->server;

	if (peer->heavy)
		return;
	peer->next_ready = NULL;
	if (server->ready)
		server->ready_last->next_ready = peer;
	else
		server->ready = peer;
	server->ready_last = peer;
	server_wake(server);
}

static bool peer_arrived(void *arg, struct frame *frames)
{
	struct peer *peer = arg;
	struct rpc_server *server = peer->server;
	size_t limit = WAITING_MESSAGES * server->options.max_message_bytes;
	struct frame *last = frames;
	int64_t now_ms = clock_monotonic_ms();
	size_t bytes = 0;
	int count = 0;
	bool go_on;

	for (struct frame *frame = frames; frame; frame = frame->next) {
		frame->at_ms = now_ms;
		bytes += frame->length;
		count++;
		last = frame;
	}
	*peer->frames_end = frames;
	peer->frames_end = &last->next;
	if (peer->waiting == 0)
		queue_up(peer);
	peer->waiting += count;
	peer->waiting_bytes += bytes;
	go_on = peer->waiting < WAITING_MOST && peer->waiting_bytes < limit && !peer->stalled &&
	        atomic_load(&server->budget.incoming) < server->budget.incoming_most;
	peer->stalled = !go_on;
	return go_on;
}

static void peer_closed(void *arg)
{
	struct peer *peer = arg;
	struct rpc_server *server = peer->server;

	LL_PREPEND2(server->closed, peer, next_closed);
	server_wake(server);
}

/* It takes its answers again. */
static void peer_eased(void *arg)
{
	struct peer *peer = arg;

	if (!peer->heavy)
		return;
	peer->heavy = false;
	if (peer->waiting > 0)
		queue_up(peer);
}

static const struct conn_events peer_events = {NULL, peer_arrived, peer_closed, peer_eased};

struct peer *peers_add(struct rpc_server *server, int fd, const struct sockaddr *from)
{
	struct peer *peer = calloc(1, sizeof *peer);

	if (peer)
		peer->address = limits_connect(server, from);
	if (!peer || !peer->address) {
		close(fd);
		free(peer);
		return NULL;
	}
	peer->server = server;
	peer->frames_end = &peer->frames;
	peer->since_ms = clock_monotonic_ms();
	peer->conn = conn_make_on_loop(
	    server->base, fd, CONN_REPLIES, server->options.max_message_bytes, &server->budget, &peer_events, peer);
	if (!peer->conn) {
		peer->address->connections--;
		limits_forget(server, peer->address);
		free(peer);
		return NULL;
	}
	peer->number = ++server->last_number;
	DL_APPEND(server->peers, peer);
	server->n_peers++;
	return peer;
}

void peers_keep(struct peer *peer)
{
	peer->open_calls++;
}

void peers_release(struct peer *peer)
{
	if (--peer->open_calls > 0 || !peer->over)
		return;
	limits_forget(peer->server, peer->address);
	free(peer);
}

/* A connection is over, and its frames have all been looked at. */
static void remove_peer(struct rpc_server *server, struct peer *peer)
{
	if (peer->dirty)
		LL_DELETE2(server->dirty, peer, next_dirty);
	peer->dirty = false;
	DL_DELETE(server->peers, peer);
	if (peer->refusal) {
		server->n_turned_away--;
	} else {
		server->n_peers--;
		peer->address->connections--;
	}
	conn_free(peer->conn);
	peer->conn = NULL;
	peer->over = true;
	peers_keep(peer); /* the calls' owners may answer them all */
	peer->walk = peer->calls;
	while (peer->walk) {
		struct rpc_call *call = peer->walk;

		peer->walk = call->next_beside;
		server_tell_closed(call);
	}
	peers_release(peer);
}

/* Takes a peer's next frame; the peer goes to the end of the line if it has more. */
static struct frame *take_from(struct peer *peer)
{
	struct frame *frame = peer->frames;

	peer->frames = frame->next;
	if (!peer->frames)
		peer->frames_end = &peer->frames;
	peer->waiting--;
	peer->waiting_bytes -= frame->length;
	if (peer->waiting > 0)
		queue_up(peer);
	return frame;
}

/* Takes the next frame of the peer whose turn it is. Peers that do not take their answers leave the line until they do.
 * NULL: there is none. *resume: the peer, who was too fast, may be read from again. */
static struct frame *take_frame(struct rpc_server *server, struct peer **taken, bool *resume)
{
	size_t most = BACKLOG_MESSAGES * server->options.max_message_bytes;
	struct frame *frame = NULL;
	struct peer *peer;

	while (!frame && (peer = server->ready)) {
		server->ready = peer->next_ready;
		peer->heavy = conn_heavy(peer->conn, most);
		if (peer->heavy)
			continue;
		frame = take_from(peer);
		*resume = peer->stalled && peer->waiting == 0;
		*taken = peer;
	}
	return frame;
}

/* Reads on from a peer. */
static void resume_peer(struct peer *peer)
{
	peer->stalled = false;
	conn_resume(peer->conn);
}

static void free_frame(struct rpc_server *server, struct frame *frame)
{
	atomic_fetch_sub(&server->budget.incoming, FRAME_HEAD_BYTES + frame->length);
	free(frame);
}

/* Serves peers in turn, as long as one turn of the loop may take. */
static void serve_frames(struct rpc_server *server)
{
	int64_t until_ms = clock_monotonic_ms() + TURN_MS;

	for (int i = 0; i < TURN_FRAMES && clock_monotonic_ms() < until_ms; i++) {
		struct peer *peer;
		bool resume;
		struct frame *frame = take_frame(server, &peer, &resume);

		if (!frame)
			return;
		server_dispatch(server, peer, frame);
		free_frame(server, frame);
		if (resume)
			resume_peer(peer);
	}
}

/* Removes peers whose connection is over, but for those that have frames left. */
static void remove_closed(struct rpc_server *server)
{
	struct peer *closed = server->closed, *peer, *next;

	server->closed = NULL;
	LL_FOREACH_SAFE2(closed, peer, next, next_closed)
	{
		peer_eased(peer);
		if (peer->waiting > 0)
			LL_PREPEND2(server->closed, peer, next_closed);
		else
			remove_peer(server, peer);
	}
}

void peers_take(struct rpc_server *server)
{
	serve_frames(server);
	remove_closed(server);
	server->woken = false;
	if (server->ready || server->closed)
		server_wake(server);
}

/* Unread answers take more memory than there is for them: closes the connections that have most. */
static void cut_unread(struct rpc_server *server)
{
	while (atomic_load(&server->budget.unsent) > server->budget.unsent_most) {
		struct peer *peer, *worst = NULL;
		size_t most = 0;

		DL_FOREACH(server->peers, peer)
		{
			size_t backlog = conn_look(peer->conn).backlog;

			if (backlog > most) {
				most = backlog;
				worst = peer;
			}
		}
		if (!worst)
			return;
		log_debug("rpc", "closing a connection with %zu bytes of unread answers", most);
		conn_close(worst->conn);
	}
}

void peers_reply(struct peer *peer, struct frame *frame)
{
	struct rpc_server *server = peer->server;

	if (peer->over) {
		free(frame);
		return;
	}
	conn_queue(peer->conn, frame);
	if (atomic_load(&server->budget.unsent) > server->budget.unsent_most)
		cut_unread(server);
	if (peer->dirty)
		return;
	peer->dirty = true;
	if (!server->dirty)
		event_active(server->flush, EV_TIMEOUT, 0);
	LL_PREPEND2(server->dirty, peer, next_dirty);
}

void peers_flush(struct rpc_server *server)
{
	struct peer *dirty = server->dirty, *peer, *next;

	server->dirty = NULL;
	LL_FOREACH_SAFE2(dirty, peer, next, next_dirty)
	{
		peer->dirty = false;
		conn_flush(peer->conn);
	}
}

/* Why a peer is to be closed, or NULL. `read`: it is being read from. */
static const char *unwanted(const struct peer *peer, const struct conn_state *state, bool read)
{
	if (!state->opened)
		return state->quiet_ms > GREETING_MS ? "does not greet" : NULL;
	if (peer->refusal)
		return clock_monotonic_ms() - peer->since_ms > TURNED_AWAY_MS ? "was turned away" : NULL;
	if (state->stuck_ms > STUCK_MS)
		return "does not take its answers";
	if (read && state->frame_ms > FRAME_MS + (int64_t)state->frame / FRAME_BYTES_PER_MS)
		return "does not finish its message";
	return state->quiet_ms > QUIET_MS ? "says nothing" : NULL;
}

/* There is no memory left for messages that come in: closes the connections whose unfinished messages have taken most,
 * until a part is free again. Those that have just begun are given time. */
static void cut_largest(struct rpc_server *server)
{
	size_t most = server->budget.incoming_most - server->budget.incoming_most / FREE_PART;
	size_t incoming = atomic_load(&server->budget.incoming), freed = 0;
	struct peer *peer;

	for (size_t least = server->options.max_message_bytes / 2; least > 0; least /= 2) {
		DL_FOREACH(server->peers, peer)
		{
			struct conn_state state = conn_look(peer->conn);

			if (incoming - freed <= most || freed >= incoming)
				return;
			if (state.held < least || state.frame_ms <= PARTIAL_MS)
				continue;
			log_debug("rpc", "closing a connection with %zu bytes of a message that is not finished for %lld ms",
			    state.held, (long long)state.frame_ms);
			freed += state.held;
			conn_close(peer->conn);
		}
	}
}

void peers_sweep(struct rpc_server *server)
{
	bool starved = false;
	struct peer *peer;

	DL_FOREACH(server->peers, peer)
	{
		struct conn_state state = conn_look(peer->conn);
		const char *reason;
		bool stalled = peer->stalled && peer->waiting == 0;

		reason = unwanted(peer, &state, !peer->stalled && !state.starved);
		starved |= state.starved;
		if (reason) {
			log_debug("rpc", "closing a connection whose peer %s", reason);
			conn_close(peer->conn);
		} else if (stalled) {
			resume_peer(peer);
		} else if (state.starved) {
			conn_resume(peer->conn);
		}
	}
	if (starved)
		cut_largest(server);
}

/* Lets answers that were given reach their callers, for a moment. */
static void drain(struct rpc_server *server)
{
	int64_t until_ms = clock_monotonic_ms() + CLOSE_GRACE_MS;
	struct peer *peer;

	peers_flush(server);
	DL_FOREACH(server->peers, peer)
	conn_drain(peer->conn, until_ms);
	DL_FOREACH(server->peers, peer)
	conn_await_end(peer->conn, until_ms);
}

void peers_destroy(struct rpc_server *server)
{
	struct peer *peer;

	server_listen_no_more(server);
	drain(server);
	DL_FOREACH(server->peers, peer)
	conn_close(peer->conn);
	while ((peer = server->closed)) {
		LL_DELETE2(server->closed, peer, next_closed);
		frame_free_all(peer->frames);
		remove_peer(server, peer);
	}
}
