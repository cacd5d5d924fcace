#include "fake_manager.h"

#include "common/rpc/server_internal.h"

#include <assert.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

static void fake_ping(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	struct fake_manager *manager = arg;
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;

	(void)request;
	pthread_mutex_lock(&manager->host.lock);
	manager->pings++;
	pthread_cond_broadcast(&manager->host.changed);
	response.idle_ping_ms = manager->idle_ping_ms;
	response.contract = manager->contract;
	if (manager->frozen) { /* never answered */
		pthread_mutex_unlock(&manager->host.lock);
		return;
	}
	if (manager->ping_answers != STATUS(OK)) {
		pthread_mutex_unlock(&manager->host.lock);
		rpc_call_fail(call, manager->ping_answers, "as the test wants it");
		return;
	}
	response.now_us = manager->now_us;
	response.manager = (char *)"fake";
	response.max_message_bytes = manager->max_message_bytes;
	response.max_details_bytes = 1000;
	response.database_up = !manager->database_down;
	pthread_mutex_unlock(&manager->host.lock);
	rpc_call_reply(call, &response.base);
}

static void fake_get(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	struct fake_manager *manager = arg;
	const Reeve__V1__GetRequest *get = (const void *)request;
	Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
	Reeve__V1__Task task = REEVE__V1__TASK__INIT;
	char *details = NULL;
	reeve_status answers;
	size_t bytes;

	pthread_mutex_lock(&manager->host.lock);
	manager->gets++;
	manager->six_at = get->id == 6 ? manager->gets : manager->six_at;
	manager->mute_gets += !strcmp(rpc_call_actor(call), "mute");
	snprintf(manager->actor, sizeof manager->actor, "%s", rpc_call_actor(call));
	manager->had_id = rpc_call_request_id(call);
	if (manager->had_id)
		memcpy(manager->last_id, rpc_call_request_id(call), UUID_BYTES);
	manager->remaining_ms = rpc_call_remaining_ms(call);
	answers = manager->get_answers;
	bytes = manager->get_bytes;
	pthread_cond_broadcast(&manager->host.changed);
	if (manager->database_down) { /* never answered */
		pthread_mutex_unlock(&manager->host.lock);
		return;
	}
	pthread_mutex_unlock(&manager->host.lock);
	if (answers != STATUS(OK)) {
		rpc_call_fail(call, answers, "as the test \"%s\" wants it", "caf\xc3\xa9");
		return;
	}
	response.task = &task;
	task.id = get->id;
	if (bytes) {
		task.details = details = malloc(bytes + 1);
		memset(details, 'x', bytes);
		details[bytes] = 0;
	}
	rpc_call_reply(call, &response.base);
	free(details);
}

static void fake_submit(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	struct fake_manager *manager = arg;
	const Reeve__V1__SubmitRequest *submit = (const void *)request;
	Reeve__V1__SubmitResponse response = REEVE__V1__SUBMIT_RESPONSE__INIT;

	pthread_mutex_lock(&manager->host.lock);
	manager->submits++;
	manager->submitted += (int64_t)submit->n_tasks;
	pthread_cond_broadcast(&manager->host.changed);
	pthread_mutex_unlock(&manager->host.lock);
	rpc_call_reply(call, &response.base);
}

static void fake_closed(void *arg)
{
	struct fake_parked *parked = arg;
	struct fake_manager *manager = parked->manager;

	pthread_mutex_lock(&manager->host.lock);
	for (int i = -1; i <= 1 && manager->answer_closed; i++) {
		struct fake_parked *other = parked + i;

		if (other < manager->parked || !other->call)
			continue;
		rpc_call_fail(other->call, STATUS(ABORTED), "nobody hears it");
		other->call = NULL;
	}
	parked->closed = true;
	manager->n_closed++;
	pthread_cond_broadcast(&manager->host.changed);
	pthread_mutex_unlock(&manager->host.lock);
}

/* Parks a call (Wait, Stats, Report) until the test answers it. */
static void fake_park(struct fake_manager *manager, struct rpc_call *call, int64_t id)
{
	struct fake_parked *parked;

	pthread_mutex_lock(&manager->host.lock);
	assert(manager->n_parked < FAKE_PARKED_MAX);
	parked = &manager->parked[manager->n_parked++];
	parked->manager = manager;
	parked->call = call;
	parked->id = id;
	if (rpc_call_request_id(call))
		memcpy(parked->request_id, rpc_call_request_id(call), UUID_BYTES);
	rpc_call_on_closed(call, fake_closed, parked);
	pthread_cond_broadcast(&manager->host.changed);
	pthread_mutex_unlock(&manager->host.lock);
}

static void fake_stats(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	(void)request;
	fake_park(arg, call, 0);
}

static void fake_wait(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	const Reeve__V1__WaitRequest *wait = (const void *)request;

	fake_park(arg, call, wait->n_ids ? wait->ids[0] : 0);
}

static void fake_report(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	(void)request;
	fake_park(arg, call, 0);
}

static void keep_identity(struct rpc_identity *identity)
{
	cr_assert_eq(identity->references, 0);
}

/* Every caller has an identity, except with the token "unknown". */
static struct rpc_identity *identify(void *arg, const struct rpc_caller *caller, struct reeve_error *error)
{
	struct fake_manager *manager = arg;
	struct rpc_identity *identity = &manager->identities[caller->token_length % FAKE_IDENTITIES];

	pthread_mutex_lock(&manager->host.lock);
	snprintf(manager->token, sizeof manager->token, "%.*s", (int)caller->token_length, caller->token);
	manager->identified++;
	pthread_cond_broadcast(&manager->host.changed);
	pthread_mutex_unlock(&manager->host.lock);
	if (caller->token_length == 7 && !memcmp(caller->token, "unknown", 7)) {
		error_set(error, STATUS(UNAUTHENTICATED), "an unknown token");
		return NULL;
	}
	identity->free = keep_identity;
	identity->name = "";
	identity->roles = caller->token_length == 5 && !memcmp(caller->token, "other", 5) ? FAKE_ROLE << 1 : FAKE_ROLE;
	identity->ended = false;
	identity->references++;
	return identity;
}

static bool may_appear(void *arg, const struct rpc_caller *caller, struct reeve_error *error)
{
	struct fake_manager *manager = arg;

	(void)error;
	pthread_mutex_lock(&manager->host.lock);
	manager->asked_to_wait += manager->doubts;
	manager->suspects += manager->doubts && caller->suspect;
	pthread_cond_broadcast(&manager->host.changed);
	pthread_mutex_unlock(&manager->host.lock);
	return manager->doubts;
}

static void denied(
    void *arg, struct rpc_identity *identity, const char *method, uint32_t roles, struct reeve_error *error)
{
	(void)arg;
	error_set(error, STATUS(PERMISSION_DENIED), "%s takes %u, not %u", method, roles, identity->roles);
}

const struct rpc_guard *fake_manager_guard(struct fake_manager *manager)
{
	manager->guard =
	    (struct rpc_guard){.identify = identify, .may_appear = may_appear, .denied = denied, .arg = manager};
	return &manager->guard;
}

struct fake_manager *fake_manager_make(const char *url, const struct rpc_server_options *options)
{
	static const struct rpc_server_options defaults;
	static const struct rpc_entry admin[] = {
	    {"Ping", fake_ping, RPC_LEASE, RPC_ANYONE, NULL},
	    {"Stats", fake_stats, RPC_OPERATOR, FAKE_ROLE, NULL},
	    {0},
	};
	static const struct rpc_entry tasks[] = {
	    {"Submit", fake_submit, RPC_ORDINARY, FAKE_ROLE, NULL},
	    {"Get", fake_get, RPC_ORDINARY, FAKE_ROLE, NULL},
	    {"Wait", fake_wait, RPC_WAITING, FAKE_ROLE, NULL},
	    {0},
	};
	static const struct rpc_entry workers[] = {
	    {"Report", fake_report, RPC_LEASE, FAKE_ROLE, NULL},
	    {0},
	};
	struct fake_manager *manager = calloc(1, sizeof *manager);

	fake_host_init(&manager->host);
	fake_host_open(&manager->host, options ? options : &defaults);
	manager->now_us = clock_wall_us();
	manager->contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	rpc_server_guard(manager->host.server, fake_manager_guard(manager));
	rpc_server_add(manager->host.server, &reeve__v1__admin_service__descriptor, admin, manager);
	rpc_server_add(manager->host.server, &reeve__v1__task_service__descriptor, tasks, manager);
	rpc_server_add(manager->host.server, &reeve__v1__worker_service__descriptor, workers, manager);
	fake_host_listen(&manager->host, url);
	return manager;
}

void fake_manager_run(struct fake_manager *manager)
{
	fake_host_run(&manager->host);
}

struct fake_manager *fake_manager_start(const char *url, const struct rpc_server_options *options)
{
	struct fake_manager *manager = fake_manager_make(url, options);

	fake_manager_run(manager);
	return manager;
}

void fake_manager_halt(struct fake_manager *manager)
{
	fake_host_halt(&manager->host);
}

void fake_manager_stop(struct fake_manager *manager)
{
	fake_host_close(&manager->host);
}

void fake_manager_free(struct fake_manager *manager)
{
	fake_host_free(&manager->host);
	free(manager);
}

void fake_manager_await(struct fake_manager *manager, const int *counter, int number)
{
	cr_assert_geq(fake_host_await(&manager->host, counter, number), number);
}

int fake_manager_read(struct fake_manager *manager, const int *counter)
{
	return fake_host_read(&manager->host, counter);
}

/* A function to call with the manager. */
struct fake_job {
	struct fake_manager *manager;
	void (*run)(struct fake_manager *manager, void *arg);
	void *arg;
};

static void fake_run_job(void *arg)
{
	struct fake_job *job = arg;

	job->run(job->manager, job->arg);
}

void fake_manager_do(struct fake_manager *manager, void (*run)(struct fake_manager *manager, void *arg), void *arg)
{
	struct fake_job job = {manager, run, arg};

	fake_host_do(&manager->host, fake_run_job, &job);
}

static void close_connections(struct fake_manager *manager, void *arg)
{
	struct peer *peer, *next;

	(void)arg;
	DL_FOREACH_SAFE (manager->host.server->peers, peer, next)
		rpc_conn_close(peer->conn);
}

void fake_manager_cut(struct fake_manager *manager)
{
	fake_manager_do(manager, close_connections, NULL);
}

void fake_answer(struct fake_manager *manager, void *arg)
{
	struct fake_parked *parked = arg;
	Reeve__V1__WaitResponse response = REEVE__V1__WAIT_RESPONSE__INIT;

	(void)manager;
	response.pending = (uint32_t)parked->id;
	rpc_call_reply(parked->call, &response.base);
	parked->call = NULL;
}

reeve_status fake_call_get(struct rpc_client *client, int64_t id, struct reeve_error *error)
{
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
	Reeve__V1__GetResponse *response;

	request.id = id;
	error->code = STATUS(OK);
	response = (void *)rpc_client_call(client, &reeve__v1__task_service__descriptor, "Get", &request.base, NULL, error);
	if (!response)
		return error->code;
	cr_assert_eq(response->task->id, id);
	protobuf_c_message_free_unpacked(&response->base, NULL);
	return STATUS(OK);
}

struct rpc_client *fake_client(const char *urls)
{
	struct rpc_client_options options = {.urls = urls, .token = "secret", .actor = "ann@host"};
	struct reeve_error error = {0};
	struct rpc_client *client = rpc_client_create(&options, &error);

	cr_assert(client, "%s", error.message);
	return client;
}

void fake_result_init(struct fake_result *result)
{
	memset(result, 0, sizeof *result);
	pthread_mutex_init(&result->lock, NULL);
	pthread_cond_init(&result->changed, NULL);
}

void fake_done(void *arg, struct rpc_answer *answer)
{
	struct fake_result *result = arg;

	pthread_mutex_lock(&result->lock);
	result->done++;
	result->code = answer->code;
	result->sends = answer->sends;
	result->done_ms = clock_monotonic_ms();
	snprintf(result->message, sizeof result->message, "%s", answer->message);
	if (answer->response) {
		if (answer->response->descriptor == &reeve__v1__wait_response__descriptor)
			result->pending = ((Reeve__V1__WaitResponse *)answer->response)->pending;
		protobuf_c_message_free_unpacked(answer->response, NULL);
	}
	pthread_cond_broadcast(&result->changed);
	pthread_mutex_unlock(&result->lock);
}

bool fake_result_done(struct fake_result *result)
{
	bool done;

	pthread_mutex_lock(&result->lock);
	done = result->done;
	pthread_mutex_unlock(&result->lock);
	return done;
}

void fake_result_await(struct fake_result *result)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&result->lock);
	while (!result->done && pthread_cond_timedwait(&result->changed, &result->lock, &until) == 0)
		;
	cr_assert_eq(result->done, 1, "the call is not over");
	pthread_mutex_unlock(&result->lock);
}

rpc_call_id fake_start_wait(
    struct rpc_client *client, int64_t id, const struct rpc_call_options *options, struct fake_result *result)
{
	Reeve__V1__WaitRequest request = REEVE__V1__WAIT_REQUEST__INIT;

	fake_result_init(result);
	request.n_ids = 1;
	request.ids = &id;
	return rpc_client_start(
	    client, &reeve__v1__task_service__descriptor, "Wait", &request.base, options, fake_done, result);
}

void pause_ms(int ms)
{
	usleep((useconds_t)ms * 1000);
}
