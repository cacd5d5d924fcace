/*
 * The parts of the client. client.c is the door; client_call.c is a call's life; client_manager.c a manager's
 * connection and its pings; client_keeper.c the thread that watches over both.
 *
 * One lock, `client->lock`, guards everything. It is never held while a callback of the caller's runs, while a message is
 * packed, or during a system call.
 */
#ifndef REEVE_COMMON_RPC_CLIENT_INTERNAL_H
#define REEVE_COMMON_RPC_CLIENT_INTERNAL_H

#include "common/hash.h"
#include "common/rpc/client.h"
#include "common/rpc/conn.h"
#include "common/deadlines.h"
#include "common/rpc/envelope.h"
#include "common/rpc/lookup.h"

#include <nng/nng.h>
#include <pthread.h>

enum line_state {
	LINE_DOWN,    /* dialled again at redial_ms */
	LINE_LOOKING, /* for the first address of the manager's name */
	LINE_DIALING,
	LINE_DIALED,  /* there is a stream: the keeper is to make a connection of it */
	LINE_OPENING, /* the other end has not greeted yet */
	LINE_OPEN,
	LINE_CLOSING, /* nothing is sent any more; `closed` will come */
	LINE_CLOSED,  /* the keeper is to free the connection */
};

struct manager {
	struct rpc_client *client;
	char *url;
	/* Of a manager that has a name; without one the URL itself is dialled. The addresses are dialled in turn, and the name
	 * is looked up again each time they have all been: they go on being dialled meanwhile. */
	char *host, *port;
	struct lookup *lookup;
	bool looked_up; /* the lookup is over, its addresses not taken yet */
	char addresses[LOOKUP_ADDRESSES_MOST][LOOKUP_ADDRESS_BYTES];
	int n_addresses, next_address;
	nng_stream_dialer *dialer; /* NULL until there is an address */
	nng_aio *dial_aio;
	nng_stream *stream; /* of LINE_DIALED */
	enum line_state line;
	struct conn *conn;  /* from LINE_OPENING on */
	int users;          /* threads that use `conn` without the lock; it is freed at 0 */
	int64_t since_ms;   /* when `line` became what it is */
	const char *problem; /* why the line did not come about the last time, a constant text; NULL: not known */
	int64_t redial_ms, redial_pause_ms;
	bool alive;         /* open, and a ping on this connection was answered */
	bool served;        /* its database answers it, it says */
	bool full;          /* … or not even that, since it has no room for the question */
	int64_t steady_ms;  /* from when on calls that could do without it return to it */
	struct call *sent;  /* by frame id: calls sent and not answered */
	uint32_t last_frame_id;
	uint32_t ping_frame_id; /* of the ping that is not answered yet, or 0 */
	int64_t ping_due_ms;    /* when the next is sent; 0: at once */
	int64_t pinged_ms;      /* when the last was */
	int64_t idle_ping_ms;   /* how often one is enough while no call is open that is to be answered soon */
	int quick_calls;        /* such calls in `sent` */
	int64_t listening_ms;   /* silence counts from here at the earliest: before, this process itself stood still */
	size_t bytes_open;      /* of the calls in `sent` */
	uint32_t max_message;   /* the longest it takes, 0: not known */
};

enum call_state {
	CALL_WAITING,   /* for any manager */
	CALL_PAUSED,    /* for its wake_ms */
	CALL_PREPARING, /* some thread packs it and has it for itself; whoever ends it leaves a note in `answer` */
	CALL_SENT,      /* in its manager's `sent` */
	CALL_ENDED,     /* its answer is to be given */
};

struct call {
	struct rpc_client *client;
	rpc_call_id id;
	UT_hash_handle hh;      /* in the client's `calls` */
	UT_hash_handle hh_sent; /* in the manager's `sent` */
	struct call *prev, *next; /* waiting or ended */
	enum call_state state;
	struct deadline timer; /* the deadline, or while paused the end of the pause if it comes first */
	int64_t deadline_ms;
	int64_t wake_ms;
	uint32_t frame_id;
	struct manager *manager; /* to which it was last sent, NULL before */
	bool avoid;              /* that one answered UNAVAILABLE … */
	char *said;              /* … with this message */
	struct rpc_answer answer;
	const ProtobufCMethodDescriptor *method;
	ProtobufCMessage *request; /* with before_resend */
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
	char *token, *actor;
	size_t max_message_bytes;
	int64_t ping_interval_ms, ping_limit_ms;
	struct manager *managers;
	int n_managers;
	int64_t created_ms;
	struct manager *favourite; /* chosen by lot, so that many clients spread */

	pthread_mutex_t lock;
	pthread_cond_t work_changed;  /* on the monotonic clock */
	pthread_cond_t alive_changed; /* likewise */
	pthread_t keeper;
	bool keeper_runs;
	/* Behind the lock. */
	bool closing;
	bool work;          /* the keeper is to look again */
	int64_t planned_ms; /* until when the keeper sleeps */
	rpc_call_id last_id;
	uint64_t random;
	struct manager *current; /* where calls go while it is alive */
	struct call *calls;      /* by id: those that have not ended */
	int n_unfinished;        /* those whose `done` has not returned */
	struct call *waiting, *ended;
	struct deadlines timers;
	bool clock_known; /* a ping has told the time */
	int64_t clock_ms, clock_read_ms;
	uint32_t max_details, max_message;
};

void client_lock(struct rpc_client *client);
void client_unlock(struct rpc_client *client);

/* Everything below is called with the lock held, unless it says otherwise. */

/* A manager that was away, or has said UNAVAILABLE, is one to return to when it has been there for so many pings. */
enum { STEADY_PINGS = 20 };

/* As rpc_client_absence. */
void client_absence(struct rpc_client *client, char *out, size_t size);

/* Tells the keeper to look again. */
void client_wake_keeper(struct rpc_client *client);

/* The keeper's thread. Without the lock. */
void *client_keep(void *client);

/* A random number below `bound`. */
uint32_t client_random(struct rpc_client *client, uint32_t bound);

/* The managers' time; this machine's before any ping. */
int64_t client_now_ms(const struct rpc_client *client);

/* Makes what is needed to dial a manager. Without the lock, once. False: *error says what is wrong with its URL. */
bool manager_open(struct manager *manager, struct reeve_error *error);

/* Gives everything up, when no call is left and the keeper has ended. Without the lock. */
void manager_destroy(struct manager *manager);

/* Why the manager is not alive, in words: a constant text. */
const char *manager_absence(const struct manager *manager);

/* The alive manager a call is to go to, if possible another than `avoid` (may be NULL); NULL: none is alive. */
struct manager *manager_choose(struct rpc_client *client, const struct manager *avoid);

/* Does what is due: dials, greets, pings, or gives up a connection. The keeper's; lets go of the lock in between. Returns
 * when it wants to be called again. */
int64_t manager_tend(struct manager *manager, int64_t now_ms);

/* A call that is to be answered soon has been sent: pings come often again. */
void manager_hurry(struct manager *manager);

/* Begins a sending: queues a frame under a new id, which is returned. */
uint32_t manager_queue(struct manager *manager, struct frame *frame);

/* Ends it: flushes. Without the lock. */
void manager_flush(struct manager *manager);

/* Makes a call with its request packed. Without the lock. NULL: no memory. */
struct call *call_make(struct rpc_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    ProtobufCMessage *request, const struct rpc_call_options *options, rpc_done *done, void *arg);

/* Sends a call that is CALL_PREPARING to a manager, or hands it back to the keeper if that has died meanwhile. Without
 * the lock; the call may be gone afterwards. */
void call_send(struct call *call, struct manager *manager);

/* A call that was sent has been answered. Returns true if it has ended with this answer, for call_deliver. */
bool call_answered(struct call *call, const struct envelope_reply *reply);

/* Unpacks the answer and gives it to the caller. Without the lock; the call is gone afterwards. */
void call_deliver(struct call *call, const struct envelope_reply *reply);

/* A call that was sent has lost its manager. */
void call_move(struct call *call);

/* Waits for a manager; the keeper sends it on. */
void call_wait(struct call *call);

/* Ends a call without an answer of a manager's: `done` runs on the keeper's thread. */
void call_end(struct call *call, reeve_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Ends a call whose time is over. */
void call_expire(struct call *call);

/* Runs `done` with what `answer` holds and frees the call. Without the lock. */
void call_finish(struct call *call);

#endif
