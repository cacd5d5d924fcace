/*
 * The dispatcher: matches parked Fetches with candidates, and claims. One claim is in flight at a time; the next one
 * has what has come since. A Fetch is answered when its claim is committed, when its wait is over, or when there is
 * a command for its worker.
 */
#ifndef REEVE_MANAGER_CORE_DISPATCH_H
#define REEVE_MANAGER_CORE_DISPATCH_H

#include "manager/core/base.h"

#include <protobuf-c/protobuf-c.h>

struct db_clock;
struct session;
struct spans;
struct verbose;
struct ready_cache;

/* The answer to a Fetch. Its pointers are valid during the callback. */
struct fetch_answer {
	const struct store_claimed *const *won;
	int won_count;
	const struct store_worker_command *commands;
	int command_count;
	int64_t parked_ms;      /* from the Fetch's arrival until its claim was sent */
	int64_t retry_after_ms; /* of an empty answer: tasks may wait, come again after this time; 0: none waits */
};

/* `error` is NULL, or FAILED_PRECONDITION if the incarnation is lost, or another reason why the Fetch has no answer. */
typedef void fetch_done(void *arg, const struct fetch_answer *answer, const struct reeve_error *error);

/* Of how many tasks of a queue, or of a type, a Fetch has room for. */
struct fetch_limit {
	const char *queue, *type; /* the other one is NULL */
	int slots;
	int granted; /* for the dispatcher: see fetch.granted */
};

struct fetch_request {
	int64_t incarnation, fetch_id;
	int slots;
	int queue_count, type_count; /* 0: all */
	const char *const *queues, *const *types;
	int exclude_count;
	const int64_t *exclude;
	int limit_count;
	const struct fetch_limit *limits; /* of what it takes fewer tasks than `slots` */
	int64_t wait_ms;                  /* fetch wait; 0: does not park, and is answered with what is ready */
	bool continues;                   /* its worker sends another one at once if the answer leaves slots free */
	bool again;
	int64_t max_bytes; /* of the answer; 0: the core's limit */
	/* FetchRequest with a filter, or NULL. Such a Fetch does not park. Copied. */
	const ProtobufCMessage *where;
	int64_t idle_ms; /* uptime of its worker if that has begun no task yet; 0: it has */
	uint64_t origin; /* of its store operations: see struct store_op */
	/* Returns true if the caller has more than `max` bytes of answers unread. Then the host calls dispatch_eased when
	 * it has read half of that. NULL: it reads all at once. */
	bool (*backlogged)(const void *caller, int64_t max);
	const void *caller; /* lives until `done` is called */
};

struct dispatch_neighbours {
	const struct db_clock *clock;
	struct ready_cache *cache;
	struct routes *routes;
	struct queues *queues;
	struct sessions *sessions;
	const struct verbose *verbose;
	struct spans *spans;
};

struct dispatch *dispatch_create(struct base *base, const struct dispatch_neighbours *neighbours);
void dispatch_destroy(struct dispatch *dispatch);

/* Adds a Fetch; copies the request. Calls `done` exactly once, perhaps before this returns. */
void dispatch_fetch(struct dispatch *dispatch, const struct fetch_request *request, fetch_done *done, void *arg);

/* Claims what can be claimed now. */
void dispatch_run(struct dispatch *dispatch);

/* A backlogged caller takes its answers again: its Fetches may get tasks. */
void dispatch_eased(struct dispatch *dispatch);

/* Adds a new route. */
void dispatch_route(struct dispatch *dispatch, int route);

/* Removes a route that is not known any more. */
void dispatch_forget_route(struct dispatch *dispatch, int route);

/* Returns true if a Fetch waits for tasks. */
bool dispatch_waiting(const struct dispatch *dispatch);

/* Returns true if a waiting Fetch can get tasks of this route now. */
bool dispatch_wants(struct dispatch *dispatch, int route);

/* Returns true if tasks of the route are about to be claimed here: Fetches that accept it wait, or come again after the
 * claim in flight or their last answer, and have room for so many candidates of the route; and Fetches have room for
 * `all` candidates. */
bool dispatch_takes(struct dispatch *dispatch, int route, int candidates, int all);

/* Answers a parked Fetch of this incarnation with commands. If they are for the worker, and not for an attempt, answers
 * all its parked Fetches, so that none of them gets tasks that the worker may not want any more. */
void dispatch_commands(
    struct dispatch *dispatch, int64_t incarnation, const struct store_worker_command *commands, int count);

/* Ends a Fetch whose caller has gone, with ABORTED, so that no later claim includes it. `arg` is that of
 * dispatch_fetch. Calls its `done` before this returns. */
void dispatch_gone(struct dispatch *dispatch, int64_t incarnation, int64_t fetch_id, void *arg);

/* Answers the Fetches of an incarnation that has ended with FAILED_PRECONDITION. Those in a claim get what that wins,
 * if anything, and those that query the journal end when that answers. */
void dispatch_lost(struct session *session);

#endif
