/*
 * A fake manager for tests of RPC: Ping, Stats, Get, Wait, Submit and Report. The test sets how it answers, and can
 * read while it runs what has arrived.
 */
#ifndef REEVE_TESTS_FAKE_MANAGER_H
#define REEVE_TESTS_FAKE_MANAGER_H

#include "common/clock.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "common/uuid.h"
#include "tests/unit/fake_host.h"

#include <criterion/criterion.h>
#include <pthread.h>

enum { FAKE_PARKED_MAX = 20000, FAKE_IDENTITIES = 16 };

/* The role of all callers, except those with the token "other". */
#define FAKE_ROLE 1

#define LOOPBACK "tcp://127.0.0.1:0"

struct fake_parked {
	struct fake_manager *manager;
	struct rpc_call *call; /* NULL: answered or closed */
	int64_t id;            /* the first id of the request */
	uint8_t request_id[UUID_BYTES];
	bool closed;
};

struct fake_manager {
	struct fake_host host;
	struct rpc_guard guard;
	/* Set by the test, under the lock or before calls are made. */
	reeve_status get_answers;   /* not OK: every Get fails with it */
	size_t get_bytes;           /* bytes of details in a Get's answer */
	uint32_t max_message_bytes; /* sent in the answer to a ping */
	int64_t now_us;             /* sent in the answer to a ping */
	uint32_t idle_ping_ms;      /* sent in the answer to a ping */
	uint32_t contract;          /* sent in the answer to a ping */
	reeve_status ping_answers;  /* not OK: every ping fails with it */
	bool frozen;                /* pings are not answered */
	bool database_down;         /* sent in the answer to a ping; every Get then stays open */
	bool doubts;                /* the identity of the token "unknown" may appear */
	bool answer_closed;         /* a parked call whose connection closes is answered, as are those next to it */
	/* Read by the test, under the lock. */
	int pings;
	int six_at;                                       /* the number of the last Get of task 6 */
	int gets, mute_gets, submits, n_parked, n_closed; /* mute_gets: of an actor named "mute" */
	int64_t submitted;
	char actor[64], token[64];                       /* token: of the last caller that was identified */
	int identified;                                  /* how often a caller was identified */
	int asked_to_wait, suspects;                     /* … and how often may_appear was called; of those, suspects */
	struct rpc_identity identities[FAKE_IDENTITIES]; /* by the length of the token */
	uint8_t last_id[UUID_BYTES];
	bool had_id;
	int64_t remaining_ms;
	struct fake_parked parked[FAKE_PARKED_MAX];
};

/* The result of a call that a test has started. */
struct fake_result {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int done; /* how often `done` was called */
	reeve_status code;
	char message[512];
	int sends;
	uint32_t pending; /* from a Wait's answer */
	int resent;       /* how often before_resend was called */
	int64_t done_ms;
};

/* Creates the server, without a thread yet. */
struct fake_manager *fake_manager_make(const char *url, const struct rpc_server_options *options);

/* Returns the guard of its server, for another one. */
const struct rpc_guard *fake_manager_guard(struct fake_manager *manager);

void fake_manager_run(struct fake_manager *manager);

struct fake_manager *fake_manager_start(const char *url, const struct rpc_server_options *options);

/* Ends the loop's thread: from now on nothing is read. */
void fake_manager_halt(struct fake_manager *manager);

/* Ends the server as a dying manager would: open calls get no answer. The recorded values stay until
 * fake_manager_free. */
void fake_manager_stop(struct fake_manager *manager);

void fake_manager_free(struct fake_manager *manager);

/* Waits until a counter of the manager has reached a number; fails the test after a minute. */
void fake_manager_await(struct fake_manager *manager, const int *counter, int number);

/* Reads a counter of the manager. */
int fake_manager_read(struct fake_manager *manager, const int *counter);

/* Runs a function on the loop's thread and waits for it. */
void fake_manager_do(struct fake_manager *manager, void (*run)(struct fake_manager *manager, void *arg), void *arg);

/* Closes all its connections. It goes on listening. */
void fake_manager_cut(struct fake_manager *manager);

/* Answers a parked Wait; `pending` is the requested id. */
void fake_answer(struct fake_manager *manager, void *arg);

/* Calls Get through a client and returns the answer's code. The answer must have the same id. */
reeve_status fake_call_get(struct rpc_client *client, int64_t id, struct reeve_error *error);

struct rpc_client *fake_client(const char *urls);

void fake_result_init(struct fake_result *result);

void fake_done(void *arg, struct rpc_answer *answer);

/* Returns true if the call has ended. */
bool fake_result_done(struct fake_result *result);

/* Waits until the call has ended; fails the test after ten seconds. */
void fake_result_await(struct fake_result *result);

rpc_call_id fake_start_wait(
    struct rpc_client *client, int64_t id, const struct rpc_call_options *options, struct fake_result *result);

void pause_ms(int ms);

#endif
