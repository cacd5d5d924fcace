/*
 * The session: the life of one incarnation, from Register until it is lost or left, and its lease.
 *
 *     UNREGISTERED ⇄ REGISTERING → SERVING → LOST → UNREGISTERED
 *
 * A worker that has lost its incarnation first stops every handler and gives up every Fetch. It registers again only
 * when none of its handlers runs. Unacknowledged results are kept: managers accept them by their tokens, whichever
 * incarnation reports them.
 */
#ifndef REEVE_WORKER_SESSION_H
#define REEVE_WORKER_SESSION_H

#include "common/credential.h"
#include "common/rpc/tls.h"
#include "common/token_file.h"
#include "worker/backoff.h"
#include "worker/fetches.h"
#include "worker/handler_set.h"
#include "worker/in_flight.h"
#include "worker/slots.h"
#include "worker/supervisor_client.h"

enum session_phase {
	SESSION_UNREGISTERED,
	SESSION_REGISTERING, /* a Register is in flight */
	SESSION_SERVING,     /* there is an incarnation */
	SESSION_LOST,        /* the incarnation is over; handlers are being stopped */
};

/* Guarded by the worker's lock, except the fields marked. */
struct session {
	struct shared *shared;
	struct life *life;
	struct in_flight *in_flight;
	struct fetches *fetches;
	struct slots *slots;
	struct handler_set *handlers;
	struct heartbeat_timer *timer;
	struct supervisor_client *supervisor; /* NULL: none */

	/* What a Register carries; read-only. */
	char *managers;
	struct token_source token;
	struct tls_files tls;
	char *name;
	char host[256];
	struct names queues; /* empty: all */

	enum session_phase phase;
	int64_t incarnation; /* the current or last one; 0 before the first */
	struct credential_signer signer;
	int64_t lease_ms;
	int64_t heartbeat_ms;
	size_t max_result_bytes;
	int64_t lease_until_ms; /* on the monotonic clock, counted from before the acknowledged call was sent */
	bool lease_stopped;     /* the lease is about to end, or over: running handlers were stopped */

	int64_t manager_timeout_ms; /* how long no manager may answer; 0: for ever; read-only */
	int64_t answered_ms;        /* when a manager last answered a Register or a heartbeat; at first, the start */

	uint64_t register_call;     /* rpc_call_id of the Register in flight; 0: unknown or given up */
	int64_t give_up_ms;         /* when a stopping worker gives it up; 0: it is not stopping */
	int register_failures;      /* in a row */
	bool name_taken;            /* another worker has our name; logged */
	int64_t unauthenticated_ms; /* when it was last logged that the access token is refused; 0: never */
	struct backoff retry;       /* before the next Register */
};

/* Frees the strings. */
void session_clear(struct session *session);

/* Starts a Register if one is due, or gives up one in flight, else does nothing. Called by control without the lock. */
void session_step(struct session *session);

/* Reports to a manager that the incarnation, which holds nothing, is over. Waits up to 5 s for the answer. Called by
 * control without the lock, after heartbeats have ended. */
void session_leave(struct session *session);

/* The functions below are called with the lock. */

/* Ends the incarnation, for the reason `why` (for the log): stops every handler and gives up every Fetch. Does nothing
 * if it was over already. */
void session_lost(struct session *session, const char *why);

/* Handles a call that was refused for its access token. Ends the worker if the token cannot change; else waits until
 * its file has another one. */
void session_unauthenticated(struct session *session, const char *why);

/* Returns true if the incarnation is the one that the worker has. */
static inline bool session_serves(const struct session *session, int64_t incarnation)
{
	return session->phase == SESSION_SERVING && session->incarnation == incarnation;
}

/* Returns true if the worker may request new tasks. */
static inline bool session_takes(const struct session *session)
{
	return session->phase == SESSION_SERVING && life_takes(session->life);
}

/* Renews the lease, counted from `sent_ms`; if handlers were stopped for its end, the worker continues. */
void session_renew(struct session *session, int64_t sent_ms);

/* Stops the running attempts once the lease is about to end. Those not started stay, in case it is renewed. */
void session_check_lease(struct session *session, int64_t now_ms);

/* Ends the worker if no manager has answered for manager_timeout_ms. */
void session_check_manager(struct session *session, int64_t now_ms);

/* Returns the part of a log line between "the lease" and the milliseconds until its end, or since. */
const char *session_lease_ends(const struct session *session, int64_t now_ms);

/* Returns when session_step, session_check_lease or session_check_manager has something to do, which may be over;
 * INT64_MAX: when something has changed. */
int64_t session_next_ms(const struct session *session);

#endif
