/*
 * A stress test of the RPC for the thread sanitizer, under which the unit tests' framework cannot start. Two managers
 * die and come back in turn, while one client calls, parks, cancels and lets deadlines pass, and other clients come
 * and go. Every call must end exactly once, and no Get may fail.
 *
 *	rpc-storm [SECONDS]      default 5; exit code 0 if all went as required
 */
#include "common/clock.h"
#include "common/rpc/client.h"
#include "common/rpc/server.h"

#include <event2/thread.h>
#include <pthread.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANAGERS = 2, CALLERS = 4, PARKERS = 2, PARKED_MAX = 64, WAIT_ANSWERED_MS = 20 };

#define TASKS &reeve__v1__task_service__descriptor

struct storm_manager {
	char url[64];
	struct event_base *base;
	struct rpc_server *server;
	pthread_t thread;
};

static struct storm_manager managers[MANAGERS];
static struct rpc_client *client;
static atomic_bool over;
static atomic_int restarts, clients;
static atomic_llong started, ended, answered, failures;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "rpc-storm: %s: %s\n", what, why);
	atomic_fetch_add(&failures, 1);
}

/* ---- The managers ---- */

static void serve_ping(void *service, struct rpc_call *call, const ProtobufCMessage *request)
{
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;

	(void)service;
	(void)request;
	response.now_us = clock_wall_us();
	response.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	rpc_call_reply(call, &response.base);
}

static void serve_get(void *service, struct rpc_call *call, const ProtobufCMessage *request)
{
	const Reeve__V1__GetRequest *get = (const void *)request;
	Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
	Reeve__V1__Task task = REEVE__V1__TASK__INIT;

	(void)service;
	task.id = get->id;
	response.task = &task;
	rpc_call_reply(call, &response.base);
}

/* A parked call, which a timer answers unless the server ends first. */
struct parked {
	struct rpc_call *call;
	struct event *timer;
};

static void parked_closed(void *arg)
{
	struct parked *parked = arg;

	event_free(parked->timer);
	free(parked);
}

static void answer_parked(evutil_socket_t fd, short what, void *arg)
{
	struct parked *parked = arg;
	Reeve__V1__WaitResponse response = REEVE__V1__WAIT_RESPONSE__INIT;

	(void)fd;
	(void)what;
	rpc_call_reply(parked->call, &response.base);
	parked_closed(parked);
}

/* One call in five is never answered, so that there are calls for deadlines and cancels to end. */
static void serve_wait(void *service, struct rpc_call *call, const ProtobufCMessage *request)
{
	const Reeve__V1__WaitRequest *wait = (const void *)request;
	const struct timeval delay = {0, (wait->wait_ms % WAIT_ANSWERED_MS + 1) * 1000};
	struct parked *parked;

	if (wait->wait_ms % 5 == 0)
		return;
	parked = malloc(sizeof *parked);
	parked->call = call;
	parked->timer = evtimer_new(((struct storm_manager *)service)->base, answer_parked, parked);
	evtimer_add(parked->timer, &delay);
	rpc_call_on_closed(call, parked_closed, parked);
}

static void *run_loop(void *arg)
{
	event_base_loop(arg, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

static void start_manager(struct storm_manager *manager)
{
	static const struct rpc_entry admin[] = {
	    {"Ping", serve_ping, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {0},
	};
	static const struct rpc_entry tasks[] = {
	    {"Get", serve_get, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Wait", serve_wait, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {0},
	};
	const struct rpc_server_options options = {0};
	struct reeve_error error = {0};

	manager->base = event_base_new();
	manager->server = rpc_server_create(manager->base, &options);
	if (!rpc_server_listen(manager->server, *manager->url ? manager->url : "tcp://127.0.0.1:0", &error)) {
		fprintf(stderr, "rpc-storm: %s\n", error.message);
		exit(1);
	}
	snprintf(manager->url, sizeof manager->url, "%s", rpc_server_url(manager->server));
	rpc_server_add(manager->server, &reeve__v1__admin_service__descriptor, admin, manager);
	rpc_server_add(manager->server, &reeve__v1__task_service__descriptor, tasks, manager);
	pthread_create(&manager->thread, NULL, run_loop, manager->base);
}

static void leave_loop(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(arg);
}

static void stop_manager(struct storm_manager *manager)
{
	const struct timeval now = {0, 0};

	event_base_once(manager->base, -1, EV_TIMEOUT, leave_loop, manager->base, &now);
	pthread_join(manager->thread, NULL);
	rpc_server_destroy(manager->server);
	event_base_free(manager->base);
}

/* ---- The clients ---- */

static void *call(void *arg)
{
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;

	(void)arg;
	while (!atomic_load(&over)) {
		struct reeve_error error = {0};
		Reeve__V1__GetResponse *response;

		request.id = atomic_fetch_add(&started, 1);
		response = (void *)rpc_client_call(client, TASKS, "Get", &request.base, NULL, &error);
		atomic_fetch_add(&ended, 1);
		if (!response || response->task->id != request.id)
			fail("Get", response ? "another call's answer" : error.message);
		if (response)
			protobuf_c_message_free_unpacked(&response->base, NULL);
		atomic_fetch_add(&answered, 1);
	}
	return NULL;
}

struct parker {
	atomic_int open;
};

static void wait_done(void *arg, struct rpc_answer *answer)
{
	struct parker *parker = arg;

	if (answer->code == STATUS(OK))
		protobuf_c_message_free_unpacked(answer->response, NULL);
	else if (answer->code != STATUS(CANCELLED) && answer->code != STATUS(DEADLINE_EXCEEDED) &&
	    answer->code != STATUS(UNAVAILABLE))
		fail("Wait", answer->message);
	atomic_fetch_add(&ended, 1);
	atomic_fetch_sub(&parker->open, 1);
}

static void *park(void *arg)
{
	struct parker *parker = arg;
	Reeve__V1__WaitRequest request = REEVE__V1__WAIT_REQUEST__INIT;
	rpc_call_id ids[PARKED_MAX] = {0};
	unsigned seed = (unsigned)(uintptr_t)arg;

	while (!atomic_load(&over)) {
		int place = rand_r(&seed) % PARKED_MAX;
		struct rpc_call_options options = {.timeout_ms = 1 + rand_r(&seed) % 200};

		if (ids[place] && rand_r(&seed) % 2)
			rpc_client_cancel(client, ids[place]);
		if (atomic_load(&parker->open) >= PARKED_MAX) {
			usleep(500);
			continue;
		}
		request.wait_ms = rand_r(&seed) % 1000;
		atomic_fetch_add(&started, 1);
		atomic_fetch_add(&parker->open, 1);
		ids[place] = rpc_client_start(client, TASKS, "Wait", &request.base, &options, wait_done, parker);
	}
	return NULL;
}

/* Creates clients and destroys them with a call open, some before they have connected. */
static void *come_and_go(void *arg)
{
	struct parker parker = {0};
	Reeve__V1__WaitRequest request = REEVE__V1__WAIT_REQUEST__INIT;
	unsigned seed = 99;

	while (!atomic_load(&over)) {
		struct rpc_client_options options = {.urls = arg};
		struct rpc_client *guest = rpc_client_create(&options, NULL);

		atomic_fetch_add(&started, 1);
		atomic_fetch_add(&parker.open, 1);
		rpc_client_start(guest, TASKS, "Wait", &request.base, NULL, wait_done, &parker);
		usleep((useconds_t)rand_r(&seed) % 20000);
		rpc_client_destroy(guest);
		if (atomic_load(&parker.open) != 0)
			fail("destroy", "a call was left open");
		atomic_fetch_add(&clients, 1);
	}
	return NULL;
}

static void *restart_managers(void *arg)
{
	(void)arg;
	while (!atomic_load(&over)) {
		struct storm_manager *manager = &managers[atomic_load(&restarts) % MANAGERS];
		long long calls = atomic_load(&answered);

		stop_manager(manager);
		usleep(20000);
		start_manager(manager);
		atomic_fetch_add(&restarts, 1);
		while (atomic_load(&answered) < calls + 50 && !atomic_load(&over))
			usleep(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t callers[CALLERS], parkers[PARKERS], restarter, guests;
	struct parker parker[PARKERS] = {0};
	struct rpc_client_options options = {0};
	char urls[160];

	evthread_use_pthreads();
	for (int i = 0; i < MANAGERS; i++)
		start_manager(&managers[i]);
	snprintf(urls, sizeof urls, "%s,%s", managers[0].url, managers[1].url);
	options.urls = urls;
	client = rpc_client_create(&options, NULL);
	for (int i = 0; i < CALLERS; i++)
		pthread_create(&callers[i], NULL, call, NULL);
	for (int i = 0; i < PARKERS; i++)
		pthread_create(&parkers[i], NULL, park, &parker[i]);
	pthread_create(&restarter, NULL, restart_managers, NULL);
	pthread_create(&guests, NULL, come_and_go, urls);
	sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 5);
	atomic_store(&over, true);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(callers[i], NULL);
	for (int i = 0; i < PARKERS; i++)
		pthread_join(parkers[i], NULL);
	pthread_join(restarter, NULL);
	pthread_join(guests, NULL);
	rpc_client_destroy(client);
	for (int i = 0; i < MANAGERS; i++)
		stop_manager(&managers[i]);
	if (atomic_load(&started) != atomic_load(&ended))
		fail("calls", "some have not ended, or ended twice");
	printf("%lld calls, %lld answered Gets, %d restarts, %d clients, %lld failures\n", atomic_load(&started),
	    atomic_load(&answered), atomic_load(&restarts), atomic_load(&clients), atomic_load(&failures));
	return atomic_load(&failures) ? 1 : 0;
}
