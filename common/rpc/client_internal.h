/*
 * The parts of the client. client.c is the door; client_call.c is a call's life; client_manager.c a manager's
 * connection, pings and contexts; client_keeper.c the thread that watches over both.
 *
 * One lock, `client->lock`, guards everything. It is never held while a callback of the caller's runs or a message is
 * packed or sent. nng runs our callbacks from its own threads only, never from inside a call into it, so that aborting
 * an operation under the lock is safe.
 */
#ifndef REEVE_COMMON_RPC_CLIENT_INTERNAL_H
#define REEVE_COMMON_RPC_CLIENT_INTERNAL_H

#include "common/rpc/client.h"
#include "common/rpc/deadlines.h"
#include "common/rpc/envelope.h"

#include <nng/nng.h>
#include <pthread.h>
#include <uthash.h>

/* A context of a manager's socket; carries one call or ping at a time: it sends, then it receives. */
struct slot {
	struct manager *manager;
	nng_ctx ctx;
	nng_aio *aio;
	struct slot *prev, *next; /* idle or busy */
	bool receiving;    /* the sending is over */
	bool given_up;     /* what it carried has left; nobody waits for the answer */
	bool ping;
	struct call *call; /* what it carries, unless a ping */
};

struct manager {
	struct rpc_client *client;
	char *url;
	nng_socket socket;
	bool open;
	bool connected; /* there is a pipe */
	nng_pipe pipe;
	bool lost;      /* a pipe went away: the keeper has yet to move the calls */
	bool alive;     /* connected, and answers pings */
	bool shy;       /* the last connection was lost before it answered */
	struct slot *idle, *busy;
	struct slot *ping;         /* the ping that is not answered yet */
	int64_t ping_due_ms;       /* when the next is sent */
	int64_t waited_from_ms;    /* since when nothing was heard although a ping waits */
	size_t bytes_open;         /* of the calls that are sent and not answered */
	uint32_t max_message;      /* the longest it takes, 0: not known */
};

enum call_state {
	CALL_WAITING,   /* for any manager */
	CALL_PAUSED,    /* for its wake_ms */
	CALL_PREPARING, /* some thread packs it and has it for itself; whoever ends it leaves a note in `answer` */
	CALL_SENT,      /* in a slot */
	CALL_ENDED,     /* its answer is to be given */
};

struct call {
	struct rpc_client *client;
	rpc_call_id id;
	UT_hash_handle hh;
	struct call *prev, *next; /* waiting or ended */
	enum call_state state;
	struct deadline timer; /* the deadline, or while paused the end of the pause if it comes first */
	int64_t deadline_ms;
	int64_t wake_ms;
	struct slot *slot;
	struct manager *last; /* to which it was sent, NULL before */
	bool avoid_last;      /* that one answered UNAVAILABLE … */
	char *said;           /* … with this message */
	struct rpc_answer answer;
	const ProtobufCMethodDescriptor *method;
	ProtobufCMessage *request; /* with before_resend */
	void (*before_resend)(ProtobufCMessage *request, void *arg);
	rpc_done *done;
	void *arg;
	uint8_t *body; /* the packed request */
	size_t body_length;
	size_t size; /* of the envelope */
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

/* Tells the keeper to look again. */
void client_wake_keeper(struct rpc_client *client);

/* The keeper's thread. Without the lock. */
void *client_keep(void *client);

/* A random number below `bound`. */
uint32_t client_random(struct rpc_client *client, uint32_t bound);

/* The managers' time; this machine's before any ping. */
int64_t client_now_ms(const struct rpc_client *client);

/* Opens a manager's socket and begins to dial. Without the lock, once. False: *error says what is wrong with its URL. */
bool manager_open(struct manager *manager, struct reeve_error *error);

/* Closes the socket and frees the slots, when no call is left. Without the lock. */
void manager_close(struct manager *manager);

/* The alive manager a call is to go to, if possible another than `avoid` (may be NULL); NULL: none is alive. */
struct manager *manager_choose(struct rpc_client *client, const struct manager *avoid);

/* Moves what was sent to the manager on to wherever it can go now. */
void manager_move_calls(struct manager *manager);

/* Sends the next ping if it is due, or finds that the last was not answered in time and cuts the connection. Lets go of
 * the lock in between. Returns when it wants to be called again. */
int64_t manager_tend(struct manager *manager, int64_t now_ms);

/* Takes a slot for a call or a ping; NULL: no memory. */
struct slot *slot_take(struct manager *manager);

/* Sends what slot_take has begun. Without the lock. */
void slot_send(struct slot *slot, nng_msg *msg);

/* Takes the call or ping out of a slot whose answer has not come; the slot goes back to the idle ones by itself. */
void slot_give_up(struct slot *slot);

/* Makes a call with its request packed. Without the lock. NULL: no memory. */
struct call *call_make(struct rpc_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    ProtobufCMessage *request, const struct rpc_call_options *options, rpc_done *done, void *arg);

/* Sends a call that is CALL_PREPARING to a manager, or hands it back to the keeper if that has died meanwhile. Without
 * the lock; the call may be gone afterwards. */
void call_send(struct call *call, struct manager *manager);

/* What became of a call that was sent: an answer, or NULL if it got lost on the way. Returns the call if it has ended
 * with this answer, for call_deliver. */
struct call *call_answered(struct call *call, const struct envelope_reply *reply);

/* Unpacks the answer and gives it to the caller. Without the lock; the call is gone afterwards. */
void call_deliver(struct call *call, const struct envelope_reply *reply);

/* Waits for a manager; the keeper sends it on. */
void call_wait(struct call *call);

/* Ends a call without an answer of a manager's: `done` runs on the keeper's thread. */
void call_end(struct call *call, reeve_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Ends a call whose time is over. */
void call_expire(struct call *call);

/* Runs `done` with what `answer` holds and frees the call. Without the lock. */
void call_finish(struct call *call);

#endif
