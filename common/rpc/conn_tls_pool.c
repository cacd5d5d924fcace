/* Threads take the steps of handshakes, since each costs a millisecond or two, for which calls would wait. */
#include "common/rpc/conn_tls_internal.h"

#include "common/mem.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

enum {
	THREADS_MAX = 8,
	THREAD_STEPS = 2, /* so that a thread finds its next one without the loop */
};

struct tls_pool {
	pthread_mutex_t lock;
	pthread_cond_t added;
	struct tls_layer *waiting, *finished;
	bool stopping;
	int wake;  /* eventfd: some are finished */
	int count; /* used only by the loop: those that were added and not taken yet */
	int n_threads;
	pthread_t threads[THREADS_MAX];
};

/* Takes steps until the pool is stopped. */
static void *run(void *arg)
{
	struct tls_pool *pool = arg;
	struct tls_layer *layer;

	pthread_mutex_lock(&pool->lock);
	while (pool->waiting || !pool->stopping) {
		layer = pool->waiting;
		if (!layer) {
			pthread_cond_wait(&pool->added, &pool->lock);
			continue;
		}
		LL_DELETE2(pool->waiting, layer, next_step);
		pthread_mutex_unlock(&pool->lock);
		layer->step = layer_step(layer);
		pthread_mutex_lock(&pool->lock);
		LL_PREPEND2(pool->finished, layer, next_step);
		mem_check(eventfd_write(pool->wake, 1) == 0);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Returns half of the machine's processors: the others are for the loop and for PostgreSQL. */
static int thread_count(void)
{
	long half = sysconf(_SC_NPROCESSORS_ONLN) / 2;

	return half < 1 ? 1 : half > THREADS_MAX ? THREADS_MAX : (int)half;
}

struct tls_pool *tls_pool_create(void)
{
	struct tls_pool *pool = mem_calloc(1, sizeof *pool);
	int count = thread_count();
	sigset_t all, before;

	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->added, NULL);
	pool->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mem_check(pool->wake >= 0);
	/* The program's signals are not for these threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; pool->n_threads < count; pool->n_threads++)
		mem_check(pthread_create(&pool->threads[pool->n_threads], NULL, run, pool) == 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pool;
}

int tls_pool_wake(const struct tls_pool *pool)
{
	return pool->wake;
}

bool tls_pool_has_room(const struct tls_pool *pool)
{
	return pool->count < pool->n_threads * THREAD_STEPS;
}

void tls_pool_add(struct tls_pool *pool, struct tls_layer *layer)
{
	pool->count++;
	pthread_mutex_lock(&pool->lock);
	LL_APPEND2(pool->waiting, layer, next_step);
	pthread_cond_signal(&pool->added);
	pthread_mutex_unlock(&pool->lock);
}

struct tls_layer *tls_pool_take(struct tls_pool *pool)
{
	struct tls_layer *layer;
	eventfd_t number;

	pthread_mutex_lock(&pool->lock);
	eventfd_read(pool->wake, &number);
	layer = pool->finished;
	if (layer)
		LL_DELETE2(pool->finished, layer, next_step);
	pthread_mutex_unlock(&pool->lock);
	pool->count -= layer != NULL;
	return layer;
}

void tls_pool_stop(struct tls_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->stopping = true;
	pthread_cond_broadcast(&pool->added);
	pthread_mutex_unlock(&pool->lock);
	while (pool->n_threads > 0)
		pthread_join(pool->threads[--pool->n_threads], NULL);
}

void tls_pool_destroy(struct tls_pool *pool)
{
	tls_pool_stop(pool);
	pthread_cond_destroy(&pool->added);
	pthread_mutex_destroy(&pool->lock);
	close(pool->wake);
	free(pool);
}
