/* Measures bare calls: Pings, 64 of them open at any time. */
#include "bench/drive.h"
#include "common/rpc/client.h"

#include <pthread.h>
#include <reeve/v1/admin.pb-c.h>

enum { CALLS = 100000, OPEN = 64 };

struct pings {
	struct rpc_client *client;
	_Atomic int left;
	pthread_mutex_t lock;
	pthread_cond_t over;
	int open;
};

static void ping(struct pings *pings);

static void on_ping(void *arg, struct rpc_answer *answer)
{
	struct pings *pings = arg;

	if (answer->code != STATUS(OK))
		give_up("Ping: %s", answer->message);
	protobuf_c_message_free_unpacked(answer->response, NULL);
	ping(pings);
}

static void ping(struct pings *pings)
{
	Reeve__V1__PingRequest request = REEVE__V1__PING_REQUEST__INIT;

	if (atomic_fetch_sub(&pings->left, 1) > 0) {
		rpc_client_start(
		    pings->client, &reeve__v1__admin_service__descriptor, "Ping", &request.base, NULL, on_ping, pings);
		return;
	}
	pthread_mutex_lock(&pings->lock);
	if (--pings->open == 0)
		pthread_cond_signal(&pings->over);
	pthread_mutex_unlock(&pings->lock);
}

void bench_rpc(struct bench *bench)
{
	struct pings pings = {
	    .left = CALLS, .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER, .open = OPEN};
	struct reeve_error error;
	int64_t t0;

	pings.client = rpc_client_create(&(struct rpc_client_options){.urls = bench->manager}, &error);
	if (!pings.client || !rpc_client_alive(pings.client, 5000))
		give_up("no manager at %s", bench->manager);
	t0 = now_ns();
	for (int i = 0; i < OPEN; i++)
		ping(&pings);
	pthread_mutex_lock(&pings.lock);
	while (pings.open)
		pthread_cond_wait(&pings.over, &pings.lock);
	pthread_mutex_unlock(&pings.lock);
	report("rpc", CALLS * 1e9 / (double)(now_ns() - t0), "calls/s");
	rpc_client_destroy(pings.client);
}
