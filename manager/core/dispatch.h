/*
 * The dispatcher: brings parked Fetches and candidates together, and claims. One claim is under way at a time; what has
 * gathered meanwhile makes up the next. A Fetch is answered when its claim is committed, when it has waited long enough,
 * or when there is an order for its worker.
 */
#ifndef REEVE_MANAGER_CORE_DISPATCH_H
#define REEVE_MANAGER_CORE_DISPATCH_H

#include "manager/core/base.h"

struct session;
struct verbose;
struct window;

/* What a Fetch is answered. The pointers live during the callback. */
struct fetch_answer {
	const struct store_claimed *const *won;
	int won_count;
	const struct store_order *orders;
	int order_count;
	int64_t parked_ms;           /* how long it had been here when the claim was sent */
	int64_t again_in_ms;         /* nothing, but tasks may wait for it all the same: ask again after so long; 0: none does */
};

/* `error` not NULL: FAILED_PRECONDITION if the incarnation is lost, else why it cannot be answered. */
typedef void fetch_done(void *arg, const struct fetch_answer *answer, const struct reeve_error *error);

struct fetch_request {
	int64_t incarnation, fetch_id;
	int slots;
	int queue_count, type_count; /* none: all */
	char *const *queues, *const *types;
	int exclude_count;
	const int64_t *exclude;
	int64_t wait_ms;             /* how long it may be parked; 0: answered with what is at hand */
	bool again;
	int64_t max_bytes;           /* 0: the core's own bound */
	int64_t idle_ms;             /* how long its worker, which has begun no task yet, had been up; 0: it has */
	uint64_t origin;             /* whose turn the questions about it take; as struct store_op has it */
};

struct dispatch_neighbours {
	struct window *window;
	struct routes *routes;
	struct queues *queues;
	struct sessions *sessions;
	const struct verbose *verbose;
};

struct dispatch *dispatch_create(struct base *base, const struct dispatch_neighbours *neighbours);
void dispatch_destroy(struct dispatch *dispatch);

/* Takes a Fetch; the request is copied. `done` is called exactly once, perhaps before this returns. */
void dispatch_fetch(struct dispatch *dispatch, const struct fetch_request *request, fetch_done *done, void *arg);

/* Claims what can be claimed now. */
void dispatch_run(struct dispatch *dispatch);

/* A route that was not known before. */
void dispatch_route(struct dispatch *dispatch, int route);

/* One that is not known any more. */
void dispatch_forget_route(struct dispatch *dispatch, int route);

/* True if a Fetch is waiting for work. */
bool dispatch_waiting(const struct dispatch *dispatch);

/* True if a Fetch is waiting that may be given tasks of this route now. */
bool dispatch_wants(struct dispatch *dispatch, int route);

/* True if a task of the route is about to be claimed here: Fetches that accept it wait, or come again after the claim under way, and
 * there is room for all that is at hand. */
bool dispatch_takes(struct dispatch *dispatch, int route);

/* Orders stand for this incarnation: a Fetch that it has parked here is answered with them. If they are for the worker itself,
 * all that it has parked here are, so that none of them is given what it may not want any more. */
void dispatch_orders(struct dispatch *dispatch, int64_t incarnation, const struct store_order *orders, int count);

/* Nobody will hear the answer to this Fetch any more: it is given nothing from now on, and `done` is called soon. */
void dispatch_gone(struct dispatch *dispatch, int64_t incarnation, int64_t fetch_id, void *arg);

/* The session's incarnation is over: its Fetches are answered FAILED_PRECONDITION, those that are being claimed for with what
 * that wins, if it does. */
void dispatch_lost(struct session *session);

#endif
