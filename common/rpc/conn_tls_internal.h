/*
 * The parts of the TLS of connections: conn_tls.c is the carrier, conn_tls_turns.c the order of the work on a loop,
 * conn_tls_pool.c the threads for the steps of its handshakes.
 */
#ifndef REEVE_COMMON_RPC_CONN_TLS_INTERNAL_H
#define REEVE_COMMON_RPC_CONN_TLS_INTERNAL_H

#include "common/rpc/conn_internal.h"
#include "common/rpc/conn_tls.h"
#include "common/rpc/tls_filter.h"

enum { SCRATCH_BYTES = 65536 }; /* of one read of the carrier below */

enum layer_state {
	LAYER_NEW,       /* nothing has arrived */
	LAYER_HANDSHAKE, /* has a filter */
	LAYER_OPEN,
	LAYER_REFUSED, /* an alert may be on its way; what arrives is dropped */
	LAYER_CLOSED,
};

struct tls_layer {
	struct rpc_conn *conn;
	struct tls *tls;
	char *host;
	const struct carrier *below;
	pthread_mutex_t lock;
	enum layer_state state;
	struct tls_filter filter;
	uint8_t *scratch; /* its own, or that of the turns */
	int problem;
	bool awaits_close; /* REFUSED: waits for the other end to close */
	bool closing;      /* rpc_conn_close was called, or is */
	/* The connection's operations in flight. */
	bool reading, writing;
	struct iovec read_places[IOV_MAX], write_places[IOV_MAX];
	unsigned read_count, write_count;
	size_t encrypted; /* bytes of the write that are in `filter.out` or `sending` */
	/* Those of the carrier below. */
	bool below_reading, below_writing;
	struct tls_bytes sending;
	bool pumping, again; /* layer_pump runs; must go on */
	bool shaking;        /* `filter` is at the pool's threads, for a step of the handshake */
	int burst;           /* writes since the last turn */
	bool unlimited;      /* without turns */
	/* Only on a loop. */
	struct tls_turns *turns; /* or NULL */
	struct tls_queue *address;
	struct tls_layer **list; /* of those that wait for a turn, in which it is; or NULL */
	struct tls_layer *prev, *next;
	struct tls_layer *prev_begun, *next_begun;
	struct tls_layer *next_step; /* in the pool's lists */
	enum tls_step step;          /* the result of the step */
	uint64_t round;              /* the iteration of the loop of its last turn */
	bool has_turn, begun;        /* begun: in the turns' list of that name */
};

/* Pointers to functions, so that programs without a loop need no libevent. */
struct tls_turns {
	void (*want)(struct tls_layer *layer);           /* puts it into a queue for a turn */
	void (*leave)(struct tls_layer *layer);          /* removes it from queues and lists */
	void (*begin)(struct tls_layer *layer);          /* adds an unfinished handshake */
	void (*finish)(struct tls_layer *layer);         /* removes that */
	void (*handshake_step)(struct tls_layer *layer); /* gives a step of the handshake to the pool */
	struct tls_pool *pool;
	struct event *event, *stepped; /* stepped: the pool has finished steps */
	struct tls_layer *open;        /* open connections */
	struct tls_layer *first;       /* unfinished handshakes */
	struct tls_queue *later;       /* others, by address: the queues that are not empty */
	struct tls_layer *begun;       /* unfinished handshakes, oldest first */
	int n_begun;
	uint64_t round; /* counts the iterations of the loop with turns */
	uint8_t scratch[SCRATCH_BYTES];
};

/* Threads that take steps of handshakes. All but layer_step is for the loop's thread. */
struct tls_pool *tls_pool_create(void);

/* Returns a descriptor that is readable while steps are finished. */
int tls_pool_wake(const struct tls_pool *pool);

/* Returns false while the threads have enough to do. */
bool tls_pool_has_room(const struct tls_pool *pool);

/* Starts a step. Until tls_pool_take returns the layer, its filter belongs to the pool. */
void tls_pool_add(struct tls_pool *pool, struct tls_layer *layer);

/* Returns a layer whose step is finished, or NULL. */
struct tls_layer *tls_pool_take(struct tls_pool *pool);

/* Finishes all steps and ends the threads. Nothing may be added any more. */
void tls_pool_stop(struct tls_pool *pool);

/* Call it when all steps were taken. */
void tls_pool_destroy(struct tls_pool *pool);

/* Takes a step of the handshake, on any thread. */
enum tls_step layer_step(struct tls_layer *layer);

/* Applies the result of the pool's step. */
void layer_stepped(struct tls_layer *layer);

/* Does what is possible. */
void layer_pump(struct tls_layer *layer);

/* Checks the other end's certificate again; if it is not valid any more, the next layer_pump closes the connection. */
void layer_check(struct tls_layer *layer);

#endif
