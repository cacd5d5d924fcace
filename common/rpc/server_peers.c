/*
 * Connections, and the order in which they are served. A connection must send its hello in time, send its messages
 * without long breaks, take its answers, and not be silent for too long; otherwise it is closed, so that it does not
 * use up a descriptor. While a peer sends faster than the loop serves it, or does not take its answers, reading from it
 * is suspended. Each peer has its own queue of frames, and they are served in turn: a flood delays only its sender, and
 * short frames pass long ones.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/conn_tls.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	WAITING_MAX = 256,        /* unprocessed frames of one peer */
	WAITING_MESSAGES = 2,     /* … and bytes, in longest messages */
	TURN_FRAMES = 256,        /* frames processed in one iteration of the loop */
	TURN_MS = 10,             /* … and for how long; then other events run */
	FRAME_WORK = 1 << 10,     /* the work of serving a frame */
	BYTES_WORK_MAX = 1 << 15, /* the maximum work of its bytes */
	WORK_UNIT = 1 << 10,      /* of turns */
	BACKLOG_MESSAGES = 4,     /* a peer with longer unsent answers is not served */
	HELLO_MS = 5000,          /* for a newcomer's hello */
	FRAME_MS = 10000,         /* for a message to arrive */
	FRAME_BYTES_PER_MS = 100, /* a long one has more time: that of its bytes at this rate */
	STUCK_MS = 10000,         /* maximum time in which a peer takes no answers */
	TURNED_AWAY_MS = 3000,    /* for a peer that was turned away to read the reason */
	END_MS = 3000,            /* for a peer to close the connection after its last answer */
	CLOSE_GRACE_MS = 1000,    /* for outgoing answers to leave at the end */
};

/* Runs peers_take after the loop has polled its sockets once more, so that peers that have sent something by then get
 * their turns, too. */
void server_wake(struct rpc_server *server)
{
	if (server->woken)
		return;
	server->woken = true;
	event_add(server->wake, &(struct timeval){0, 0});
}

static int64_t work_of(const struct frame *frame)
{
	size_t bytes = frame->length < BYTES_WORK_MAX ? frame->length : BYTES_WORK_MAX;

	return WORK_UNIT * (FRAME_WORK + (int64_t)bytes);
}

/* Adds a peer to those with frames to process. Its turn is when its next frame would be done if all these peers were
 * served at once, each as fast as the others (weighted fair queueing). `after`: the turn of its previous frame, if that
 * has just been taken. A peer that makes one call after the other owes nothing for those before. */
static void queue_up(struct peer *peer, int64_t after)
{
	struct rpc_server *server = peer->server;

	if (peer->heavy || peer_suspended(peer))
		return;
	peer->turn = (after > server->turn ? after : server->turn) + work_of(peer->frames);
	deadlines_set(&server->ready, &peer->ready, peer->turn);
	server_wake(server);
}

static bool peer_arrived(void *arg, struct frame *frames)
{
	struct peer *peer = arg;
	struct rpc_server *server = peer->server;
	size_t limit = peer->identity ? WAITING_MESSAGES * server->options.max_message_bytes : RPC_STRANGER_BYTES;
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
		queue_up(peer, 0);
	peer->waiting += count;
	peer->waiting_bytes += bytes;
	go_on = peer->waiting < WAITING_MAX && peer->waiting_bytes < limit && !peer->stalled &&
	    atomic_load(&server->budget.incoming) < server->budget.incoming_max;
	peer->stalled = !go_on;
	return go_on;
}

static void peer_closed(void *arg)
{
	struct peer *peer = arg;
	struct rpc_server *server = peer->server;

	server_tls_note(peer);
	LL_PREPEND2(server->closed, peer, next_closed);
	server_wake(server);
}

/* Serves the peer again if it was not served because of unsent answers. */
static void serve_again(struct peer *peer)
{
	if (!peer->heavy)
		return;
	peer->heavy = false;
	if (peer->waiting > 0)
		queue_up(peer, 0);
}

/* The peer takes its answers again. */
static void peer_eased(void *arg)
{
	struct peer *peer = arg;
	const struct rpc_server_options *options = &peer->server->options;

	serve_again(peer);
	if (options->eased)
		options->eased(options->eased_arg);
}

/* Answers a wrong token of a peer, and serves it again if that has suspended it. */
static void answer_guess(struct peer *peer, int64_t now_ms)
{
	bool paused = peer->paused;

	guesses_answer(peer, now_ms);
	if (paused && peer->waiting > 0)
		queue_up(peer, 0);
}

/* The peer does not want the answer to a call any more. */
static void peer_withdrawn(void *arg, uint32_t id)
{
	struct peer *peer = arg;
	struct rpc_call *call;

	DL_SEARCH_SCALAR2(peer->calls, call, id, id, next_of_peer);
	if (call)
		server_withdraw(call);
}

static const struct rpc_conn_events peer_events = {NULL, peer_arrived, peer_closed, peer_eased, peer_withdrawn};

struct peer *peers_add(const struct listener *listener, int fd, const struct sockaddr *from)
{
	struct rpc_server *server = listener->server;
	struct peer *peer = mem_calloc(1, sizeof *peer);

	peer->address = limits_connect(server, from);
	guard_note_origin(peer, fd, from);
	peer->server = server;
	peer->transport = listener->transport;
	peer->transport_arg = listener->transport_arg;
	peer->frames_end = &peer->frames;
	peer->since_ms = clock_monotonic_ms();
	peer->conn = rpc_conn_create_on_loop(
	    server->base, fd, RPC_CONN_REPLIES, server->options.max_message_bytes, &server->budget, &peer_events, peer);
	if (peer->transport->protocol)
		rpc_conn_use(peer->conn, peer->transport->protocol, peer->transport_arg);
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
	if (--peer->open_calls > 0 || !peer->closed)
		return;
	limits_forget(peer->server, peer->address);
	guard_forget_peer(peer);
	free(peer);
}

static void free_frame(struct rpc_server *server, struct frame *frame)
{
	atomic_fetch_sub(&server->budget.incoming, FRAME_HEAD_BYTES + frame->length);
	free(frame);
}

/* Removes a peer whose connection has ended and whose frames have all been processed. */
static void remove_peer(struct rpc_server *server, struct peer *peer)
{
	if (peer->dirty)                                 /* then it is in the list, which the analyzer does not know */
		LL_DELETE2(server->dirty, peer, next_dirty); /* NOLINT(clang-analyzer-core.NullDereference) */
	peer->dirty = false;
	deadlines_remove(&server->ready, &peer->ready);
	DL_DELETE(server->peers, peer);
	if (peer->refusal) {
		server->n_turned_away--;
	} else {
		server->n_peers--;
		peer->address->connections--;
	}
	if (peer->checked_frame)
		free_frame(server, peer->checked_frame);
	rpc_conn_free(peer->conn);
	peer->conn = NULL;
	peer->closed = true;
	peers_keep(peer); /* the callbacks may answer all its calls */
	while (peer->guesses)
		guesses_answer(peer, 0);
	peer->walk = peer->calls;
	while (peer->walk) {
		struct rpc_call *call = peer->walk;

		peer->walk = call->next_of_peer;
		server_notify_closed(call);
	}
	peers_release(peer);
}

/* Removes and returns a peer's next frame. The peer gets another turn if it has more. */
static struct frame *take_from(struct peer *peer)
{
	struct frame *frame = peer->frames;

	peer->frames = frame->next;
	if (!peer->frames)
		peer->frames_end = &peer->frames;
	peer->waiting--;
	peer->waiting_bytes -= frame->length;
	if (peer->waiting > 0)
		queue_up(peer, peer->turn);
	return frame;
}

/* Removes and returns the next frame of the peer whose turn it is, or NULL. Peers that do not take their answers leave
 * the queue until they do. Sets *resume if the peer was suspended and may be read from again. */
static struct frame *take_frame(struct rpc_server *server, struct peer **taken, bool *resume)
{
	size_t max = BACKLOG_MESSAGES * server->options.max_message_bytes;
	struct frame *frame = NULL;
	struct deadline *first;

	while (!frame && (first = deadlines_first(&server->ready))) {
		struct peer *peer = (struct peer *)((char *)first - offsetof(struct peer, ready));
		int64_t count = (int64_t)server->ready.count;

		deadlines_remove(&server->ready, first);
		peer->heavy = rpc_conn_heavy(peer->conn, max);
		if (peer->heavy || peer_suspended(peer))
			continue;
		server->turn += work_of(peer->frames) / count;
		frame = take_from(peer);
		*resume = peer->stalled && peer->waiting == 0;
		*taken = peer;
	}
	return frame;
}

/* Resumes reading from a peer. */
static void resume_peer(struct peer *peer)
{
	peer->stalled = false;
	rpc_conn_resume(peer->conn);
}

/* Makes a frame the next one of its peer again. */
static void put_back(struct peer *peer, struct frame *frame)
{
	frame->next = peer->frames;
	if (!frame->next)
		peer->frames_end = &frame->next;
	peer->frames = frame;
	peer->waiting++;
	peer->waiting_bytes += frame->length;
}

void rpc_server_identify_again(struct rpc_server *server)
{
	struct peer *peer;

	if (!server->identifying)
		return;
	server->identifying = false;
	DL_FOREACH (server->peers, peer) {
		if (!peer->identifying && !peer->checked_frame)
			continue;
		peer->identifying = false;
		if (peer->checked_frame)
			put_back(peer, peer->checked_frame);
		peer->checked_frame = NULL;
		if (peer->waiting > 0)
			queue_up(peer, 0);
	}
}

/* Keeps a frame whose caller must be identified again. A peer with another identity is suspended at its second one. */
static void keep_for_identification(struct peer *peer, struct frame *frame)
{
	peer->identifying = !peer->identity || peer->identity->ended || peer->checked_frame;
	if (peer->identifying)
		put_back(peer, frame);
	else
		peer->checked_frame = frame;
}

/* Serves peers in turn, within the limits of one iteration of the loop. */
static void serve_frames(struct rpc_server *server)
{
	int64_t until_ms = clock_monotonic_ms() + TURN_MS;

	for (int i = 0; i < TURN_FRAMES && clock_monotonic_ms() < until_ms; i++) {
		struct peer *peer;
		bool resume;
		struct frame *frame = take_frame(server, &peer, &resume);

		if (!frame)
			return;
		if (!server_dispatch(server, peer, frame)) {
			keep_for_identification(peer, frame);
			continue;
		}
		free_frame(server, frame);
		if (resume)
			resume_peer(peer);
	}
}

/* Drops what a peer has sent that is suspended and has closed its connection. */
static void drop_frames(struct rpc_server *server, struct peer *peer)
{
	struct frame *frame, *next;

	LL_FOREACH_SAFE (peer->frames, frame, next)
		free_frame(server, frame);
	deadlines_remove(&server->ready, &peer->ready);
	peer->frames = NULL;
	peer->frames_end = &peer->frames;
	peer->waiting = 0;
	peer->waiting_bytes = 0;
}

/* Removes peers whose connection has ended, except those that still have frames. As the end of their calls can take a
 * while, this leaves some to the next iteration of the loop if there are many. */
static void remove_closed(struct rpc_server *server)
{
	struct peer *closed = server->closed, *peer, *next;
	int64_t until_ms = clock_monotonic_ms() + TURN_MS;

	server->closed = NULL;
	LL_FOREACH_SAFE2 (closed, peer, next, next_closed) {
		serve_again(peer);
		if (peer_suspended(peer))
			drop_frames(server, peer);
		if (peer->waiting > 0 || clock_monotonic_ms() > until_ms)
			LL_PREPEND2(server->closed, peer, next_closed);
		else
			remove_peer(server, peer);
	}
}

void peers_take(struct rpc_server *server)
{
	serve_frames(server);
	if (!server->ready.count)
		server->turn = 0; /* so that it never overflows */
	remove_closed(server);
	server->woken = false;
	if (server->ready.count || server->closed)
		server_wake(server);
}

void peers_reply(struct peer *peer, struct frame *frame)
{
	struct rpc_server *server = peer->server;

	if (peer->closed) {
		free(frame);
		return;
	}
	if (peer->transport->send)
		peer->transport->send(peer->conn, frame);
	else
		rpc_conn_queue(peer->conn, frame);
	if (atomic_load(&server->budget.unsent) > server->budget.unsent_max)
		peers_close_unread(server);
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
	LL_FOREACH_SAFE2 (dirty, peer, next, next_dirty) {
		peer->dirty = false;
		rpc_conn_flush(peer->conn);
	}
}

/* Returns whether a peer that should have shown a certificate has not, and has made no call without one, either. */
static bool is_stranger(const struct peer *peer)
{
	return !peer->identity && rpc_conn_uncertified(peer->conn);
}

/* Returns why a peer must be closed, or NULL. `read`: reading from it is not suspended. */
static const char *unwanted(const struct peer *peer, const struct rpc_conn_state *state, bool read)
{
	if (!state->opened)
		return state->quiet_ms > HELLO_MS ? "sends no hello" : NULL;
	if (peer->refusal)
		return clock_monotonic_ms() - peer->since_ms > TURNED_AWAY_MS ? "was turned away" : NULL;
	if (guard_identity_ended(peer))
		return "has an identity that has ended";
	if (is_stranger(peer) && clock_monotonic_ms() - peer->since_ms > HELLO_MS)
		return "shows no certificate";
	if (state->ended_ms > END_MS)
		return "does not close it after the last answer";
	if (state->stuck_ms > STUCK_MS)
		return "does not take its answers";
	if (read && state->frame_ms > FRAME_MS + (int64_t)state->frame / FRAME_BYTES_PER_MS)
		return "does not finish its message";
	return state->quiet_ms > peer->server->options.quiet_ms ? "says nothing" : NULL;
}

void peers_sweep(struct rpc_server *server)
{
	int64_t now_ms = clock_monotonic_ms();
	bool starved = atomic_exchange(&server->budget.exceeded, false);
	struct peer *peer;

	if (server->options.tls)
		tls_refresh(server->options.tls);
	rpc_server_identify_again(server);
	DL_FOREACH (server->peers, peer) {
		struct rpc_conn_state state = rpc_conn_poll(peer->conn);
		const char *reason;

		if (peer->guesses && now_ms >= peer->guess_ms)
			answer_guess(peer, now_ms);
		reason = unwanted(peer, &state, !peer->stalled && !state.starved);
		starved |= state.starved;
		if (reason) {
			log_debug("rpc", "closing a connection whose peer %s", reason);
			if (is_stranger(peer))
				server_tls_note_uncertified(peer);
			rpc_conn_close(peer->conn);
		} else if (peer->stalled && peer->waiting == 0) {
			resume_peer(peer);
		} else if (state.starved) {
			rpc_conn_resume(peer->conn);
		}
		rpc_conn_recheck(peer->conn);
		server_maintain(peer, false);
	}
	if (starved)
		peers_close_largest(server);
}

/* Gives outgoing answers a moment to reach their callers. */
static void drain(struct rpc_server *server)
{
	int64_t until_ms = clock_monotonic_ms() + CLOSE_GRACE_MS;
	struct peer *peer;

	peers_flush(server);
	DL_FOREACH (server->peers, peer)
		rpc_conn_drain(peer->conn, until_ms);
	DL_FOREACH (server->peers, peer)
		rpc_conn_await_end(peer->conn, until_ms);
}

void peers_destroy(struct rpc_server *server)
{
	struct peer *peer;

	server_listen_no_more(server);
	server_tls_stop(server);
	drain(server);
	DL_FOREACH (server->peers, peer)
		rpc_conn_close(peer->conn);
	while ((peer = server->closed)) {
		LL_DELETE2(server->closed, peer, next_closed);
		frame_free_all(peer->frames);
		remove_peer(server, peer);
	}
	deadlines_free(&server->ready);
	server_tls_free(server);
}
