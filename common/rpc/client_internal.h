/*
 * The parts of the client: client.c has the public functions, client_call.c the states of a call, client_manager.c a
 * manager's connection, client_dial.c its dialing, client_health.c its pings, client_choice.c the choice of a manager,
 * client_control.c the background thread, client_token.c the access token.
 *
 * One lock, `client->lock`, guards everything. It is never held during a caller's callback, while a message is packed,
 * or during a system call.
 */
#ifndef REEVE_COMMON_RPC_CLIENT_INTERNAL_H
#define REEVE_COMMON_RPC_CLIENT_INTERNAL_H

#include "common/deadlines.h"
#include "common/hash.h"
#include "common/lookup.h"
#include "common/rpc/client.h"
#include "common/rpc/conn.h"
#include "common/rpc/envelope.h"

#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>

enum manager_state {
	MANAGER_DOWN,      /* dialed again at redial_ms */
	MANAGER_RESOLVING, /* looking up the first address of the manager's name */
	MANAGER_DIALING,
	MANAGER_DIALED,    /* has a stream, from which the background thread creates a connection */
	MANAGER_HANDSHAKE, /* waiting for the other end's hello */
	MANAGER_OPEN,
	MANAGER_CLOSING, /* sends nothing more; `closed` follows */
	MANAGER_CLOSED,  /* the background thread frees the connection */
};

/* What the last ping has shown. From HEALTH_FULL on the manager is alive. */
enum manager_health {
	HEALTH_UNKNOWN, /* no ping was answered on this connection */
	HEALTH_REFUSES, /* its version of the contract is another: it gets no calls */
	HEALTH_FULL,    /* it refused the ping, for lack of room */
	HEALTH_NO_DATABASE,
	HEALTH_SERVES,
};

struct manager {
	struct rpc_client *client;
	char *url;
	/* Only for a manager with a host name; without one the URL itself is dialed. */
	char *host, *port;
	char *tls_host; /* the URL's host, which the certificate must name; NULL: no TLS */
	struct lookup *lookup;
	bool lookup_done; /* the lookup has ended; its addresses are not copied yet */
	char addresses[LOOKUP_ADDRESSES_MAX][LOOKUP_ADDRESS_BYTES];
	int n_addresses, next_address;
	nng_stream_dialer *dialer; /* NULL until an address is known */
	nng_aio *dial_aio;
	nng_stream *stream; /* of MANAGER_DIALED */
	enum manager_state state;
	struct rpc_conn *conn; /* from MANAGER_HANDSHAKE on */
	int users;             /* threads that use `conn` without the lock; `conn` is freed at 0 */
	int64_t since_ms;      /* when `state` last changed */
	const char *problem;   /* why the last attempt to connect failed, a constant string; NULL: unknown */
	int tls_problem;       /* of the last connection; logged at */
	int64_t tls_logged_ms, tls_checked_ms;
	char refusal[256]; /* of HEALTH_REFUSES: both versions, and what to upgrade */
	int64_t redial_ms, redial_pause_ms;
	enum manager_health health;
	int64_t stable_ms; /* from this time on the client may return to it as the preferred one */
	struct call *sent; /* by frame id: calls in flight */
	uint32_t last_frame_id;
	uint32_t ping_frame_id; /* of the ping in flight, or 0 */
	int64_t ping_due_ms;    /* when to send the next ping; 0: at once */
	int64_t pinged_ms;      /* when the last ping was sent */
	int64_t proved_ms;      /* when the last answered ping was sent: what was sent before has arrived */
	int64_t idle_ping_ms;   /* ping interval while all calls in flight may wait long */
	int quick_calls;        /* calls in `sent` that must be answered soon */
	int64_t listening_ms;   /* silence counts from here at the earliest: this process was stopped before */
	size_t bytes_open;      /* of the calls in `sent` */
	uint32_t max_message;   /* its longest accepted message; 0: unknown */
};

enum call_state {
	CALL_WAITING,   /* for any manager */
	CALL_PAUSED,    /* until wake_ms */
	CALL_PREPARING, /* a thread packs it, without the lock; call_end only sets `answer` */
	CALL_SENT,      /* in its manager's `sent` */
	CALL_ENDED,     /* `done` is about to run */
};

/* An access token. It lives as long as the client, because calls may be being packed with it. */
struct client_token {
	const struct client_token *previous;
	size_t length;
	char text[];
};

struct call {
	struct rpc_client *client;
	rpc_call_id id;
	UT_hash_handle hh;        /* in the client's `calls` */
	UT_hash_handle hh_sent;   /* in the manager's `sent` */
	struct call *prev, *next; /* in `waiting` or `ended` */
	enum call_state state;
	struct deadline timer; /* the deadline, or the end of the pause if that is earlier */
	int64_t deadline_ms;
	int64_t wake_ms;
	uint32_t frame_id;
	struct manager *manager; /* the last one it was sent to; NULL before */
	bool avoid;              /* the next manager must be another one, if there is one */
	char *message;           /* the message of an UNAVAILABLE answer, or NULL */
	struct rpc_answer answer;
	const ProtobufCMethodDescriptor *method;
	const struct client_token *token; /* the one that it was packed with */
	ProtobufCMessage *request;        /* only with before_resend */
	void (*before_resend)(ProtobufCMessage *request, void *arg);
	rpc_done *done;
	void *arg;
	uint8_t *body; /* the packed request */
	size_t body_length;
	size_t size; /* of the envelope */
	bool parks;
	bool has_request_id;
	uint8_t request_id[UUID_BYTES];
	size_t name_length;
	char name[]; /* the method's full name */
};

struct rpc_client {
	struct token_source token_source;
	_Atomic(const struct client_token *) token; /* the current one, which points to those before */
	char *actor;
	struct tls *tls; /* NULL: no manager has a URL with TLS */
	size_t max_message_bytes;
	int64_t ping_interval_ms, ping_limit_ms;
	struct manager *managers;
	int n_managers;
	int64_t created_ms;
	struct manager *preferred; /* chosen at random, to spread clients over the managers */

	pthread_mutex_t lock;
	pthread_cond_t work_changed;  /* on the monotonic clock */
	pthread_cond_t alive_changed; /* on the monotonic clock */
	pthread_t control_thread;
	bool control_runs;
	/* Guarded by the lock. */
	bool closing;
	bool work;              /* the background thread must check again */
	int64_t sleep_until_ms; /* the end of the background thread's sleep */
	rpc_call_id last_id;
	uint64_t random;
	struct manager *current; /* gets the calls while it is alive */
	struct call *calls;      /* by id: those that have not ended */
	int n_unfinished;        /* calls whose `done` has not returned */
	struct call *waiting, *ended;
	struct deadlines timers;
	bool clock_known; /* a ping has reported the time */
	int64_t clock_ms, clock_read_ms;
	uint32_t max_details, max_message;
	int64_t token_checked_ms; /* when its file was last read */
	bool token_failed;        /* its file could not be read; logged */
};

void client_lock(struct rpc_client *client);
void client_unlock(struct rpc_client *client);

/* Call everything below with the lock held, unless its comment says otherwise. */

/* The client returns to its preferred manager this many ping intervals after that has come alive, answered
 * UNAVAILABLE, or lost its database. */
enum { STABLE_PINGS = 20 };

/* rpc_client_absence, with the lock held. */
void client_absence(struct rpc_client *client, char *out, size_t size);

/* Makes the background thread check again. */
void client_wake_control(struct rpc_client *client);

/* The background thread. Call without the lock. */
void *client_run(void *client);

/* Sets the token, or reads its file. Call once, without the lock. */
bool client_token_open(struct rpc_client *client, const struct rpc_client_options *options, struct reeve_error *error);

/* Frees all tokens. Call without the lock. */
void client_token_free(struct rpc_client *client);

/* Reads the token's file again if the last time is some seconds ago. Releases the lock temporarily. */
void client_token_check(struct rpc_client *client, int64_t now_ms);

/* Returns a random number below `bound`. */
uint32_t client_random(struct rpc_client *client, uint32_t bound);

/* Returns the managers' time; this machine's before any ping. */
int64_t client_now_ms(const struct rpc_client *client);

/* Prepares a manager for dialing. Call once, without the lock. Returns false with *error set if the URL is invalid. */
bool manager_open(struct manager *manager, struct reeve_error *error);

/* Frees a manager's resources when no call is left and the background thread has ended. Call without the lock. */
void manager_destroy(struct manager *manager);

/* Returns why the manager is not alive, for people. The string lives until the lock is released. */
const char *manager_absence(const struct manager *manager);

/* Does what is due: dials, sends a hello, pings, or closes a connection. Only for the background thread. Releases the
 * lock temporarily. Returns the time of the next call. */
int64_t manager_run(struct manager *manager, int64_t now_ms);

void manager_set_state(struct manager *manager, enum manager_state state);

/* Moves the calls in flight and closes the connection. Releases the lock temporarily. */
void manager_disconnect(struct manager *manager, const char *why);

/* Dials the manager, or first looks up its name. Releases the lock temporarily. */
void manager_dial(struct manager *manager);

/* Pings the manager of an open connection, or closes that if it is silent. Returns the time of the next call. Releases
 * the lock temporarily. */
int64_t manager_check(struct manager *manager, int64_t now_ms);

/* Applies the answer to a ping. */
void manager_pinged(struct manager *manager, const struct envelope_reply *reply);

/* Counts a call, just sent, that must be answered soon: pings become frequent again. */
void manager_ping_now(struct manager *manager);

static inline bool manager_alive(const struct manager *manager)
{
	return manager->health >= HEALTH_FULL;
}

/* Returns the alive manager that gets the next call, if possible another one than `avoid` (may be NULL). Returns NULL
 * if none is alive. */
struct manager *choice_make(struct rpc_client *client, const struct manager *avoid);

/* Returns true if a manager other than `avoid` is alive and has its database. */
bool choice_serves(const struct rpc_client *client, const struct manager *avoid);

/* Returns why calls are refused: all managers have another version of the contract. Otherwise returns NULL. The string
 * lives until the lock is released. */
const char *choice_refusal(const struct rpc_client *client);

/* Queues a frame under a new id, which it returns. The caller must call manager_flush afterwards. */
uint32_t manager_queue(struct manager *manager, struct frame *frame);

/* Flushes the queued frames and ends the use that manager_queue began. Call without the lock. */
void manager_flush(struct manager *manager);

/* Creates a call and packs its request. Call without the lock. */
struct call *call_create(struct rpc_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    ProtobufCMessage *request, const struct rpc_call_options *options, rpc_done *done, void *arg);

/* Sends a call in the state CALL_PREPARING to a manager, or returns it to the background thread if the manager has
 * died. Call without the lock. The call may be freed when this returns. */
void call_send(struct call *call, struct manager *manager);

/* Handles the answer to a call. Returns true if the answer ends the call; the caller then passes it to call_deliver. */
bool call_answered(struct call *call, const struct envelope_reply *reply);

/* Unpacks the answer, passes it to the caller, and frees the call. Call without the lock. */
void call_deliver(struct call *call, const struct envelope_reply *reply);

/* Moves a sent call off its manager; the background thread sends it again. */
void call_move(struct call *call);

/* Makes a call wait for a manager; the background thread sends it. */
void call_wait(struct call *call);

/* Ends a call without a manager's answer: `done` runs on the background thread. */
void call_end(struct call *call, reeve_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Ends a call whose deadline has passed. */
void call_expire(struct call *call);

/* Runs `done` with `answer` and frees the call. Call without the lock. */
void call_finish(struct call *call);

#endif
