/* The client's public functions. client_internal.h describes the parts. */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/text.h"

#include <assert.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <utlist.h>

enum {
	DEFAULT_MESSAGE_BYTES = 64 << 20, /* a high default: the manager's limit, which its ping reports, decides */
	DEFAULT_PING_INTERVAL_MS = 500,
	DEFAULT_PING_LIMIT_MS = 1500,
};

void client_lock(struct rpc_client *client)
{
	int result = pthread_mutex_lock(&client->lock);

	assert(result == 0);
}

void client_unlock(struct rpc_client *client)
{
	pthread_mutex_unlock(&client->lock);
}

uint32_t client_random(struct rpc_client *client, uint32_t bound)
{
	client->random ^= client->random << 13;
	client->random ^= client->random >> 7;
	client->random ^= client->random << 17;
	return (uint32_t)(client->random >> 32) % bound;
}

int64_t client_now_ms(const struct rpc_client *client)
{
	if (!client->clock_known)
		return clock_wall_us() / 1000;
	return client->clock_ms + clock_monotonic_ms() - client->clock_read_ms;
}

/* Returns "user@host". */
static char *default_actor(void)
{
	char host[256] = "", buffer[4096];
	struct passwd entry, *found = NULL;

	gethostname(host, sizeof host - 1);
	if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
		return mem_asprintf("%s@%s", found->pw_name, host);
	return mem_asprintf("%u@%s", (unsigned)geteuid(), host);
}

static void create_locks(struct rpc_client *client)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;

	/* A thread that locks twice breaks a rule of client_internal.h: make its second lock fail. */
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&client->lock, &mutex);
	pthread_mutexattr_destroy(&mutex);
	pthread_condattr_init(&condition);
	pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
	pthread_cond_init(&client->work_changed, &condition);
	pthread_cond_init(&client->alive_changed, &condition);
	pthread_condattr_destroy(&condition);
}

/* Creates a manager for each URL of a list. */
static bool create_managers(struct rpc_client *client, const char *urls, struct reeve_error *error)
{
	char *list = mem_strdup(urls), *rest = list, *url;
	size_t max = 1;

	for (const char *at = urls; *at; at++)
		max += *at == ',';
	client->managers = mem_calloc(max, sizeof *client->managers);
	while ((url = strsep(&rest, ","))) {
		struct manager *manager = &client->managers[client->n_managers];

		url += strspn(url, " ");
		url[strcspn(url, " ")] = 0;
		if (!*url)
			continue;
		manager->client = client;
		manager->url = mem_strdup(url);
		client->n_managers++;
	}
	free(list);
	if (client->n_managers == 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "\"%s\" names no manager (tcp://HOST:PORT)", urls);
	return true;
}

static const char *path_of(const char *option, const char *variable)
{
	return text_given(option) ? option : getenv(variable);
}

/* Reads the certificates if a manager's URL needs them. */
static bool create_tls(struct rpc_client *client, const struct tls_files *files, struct reeve_error *error)
{
	const struct tls_files used = {
	    .certificate = path_of(files->certificate, "REEVE_TLS_CERT"),
	    .key = path_of(files->key, "REEVE_TLS_KEY"),
	    .ca = path_of(files->ca, "REEVE_TLS_CA"),
	    .crl = path_of(files->crl, "REEVE_TLS_CRL"),
	};

	for (int i = 0; i < client->n_managers && !client->tls; i++) {
		if (strncmp(client->managers[i].url, "tls+tcp://", 10) != 0)
			continue;
		client->tls = tls_create(TLS_CLIENT, &used, error);
		if (!client->tls)
			return false;
	}
	return true;
}

const char *rpc_client_managers(const char *option)
{
	const char *urls = option ? option : getenv("REEVE_MANAGER");

	return text_given(urls) ? urls : "tcp://127.0.0.1:7171";
}

struct rpc_client *rpc_client_create(const struct rpc_client_options *options, struct reeve_error *error)
{
	struct rpc_client *client = mem_calloc(1, sizeof *client);

	create_locks(client);
	client->actor = options->actor ? mem_strdup(options->actor) : default_actor();
	client->max_message_bytes = options->max_message_bytes ? options->max_message_bytes : DEFAULT_MESSAGE_BYTES;
	client->ping_interval_ms = options->ping_interval_ms > 0 ? options->ping_interval_ms : DEFAULT_PING_INTERVAL_MS;
	client->ping_limit_ms = options->ping_limit_ms > 0 ? options->ping_limit_ms : DEFAULT_PING_LIMIT_MS;
	client->created_ms = clock_monotonic_ms();
	client->sleep_until_ms = INT64_MIN;
	if (getrandom(&client->random, sizeof client->random, 0) != sizeof client->random || !client->random)
		client->random = (uint64_t)clock_wall_us() | 1;
	if (!client_token_open(client, options, error) || !create_managers(client, options->urls, error) ||
	    !create_tls(client, &options->tls, error))
		goto failed;
	client->preferred = &client->managers[client_random(client, (uint32_t)client->n_managers)];
	for (int i = 0; i < client->n_managers; i++) {
		if (!manager_open(&client->managers[i], error))
			goto failed;
	}
	if (pthread_create(&client->control_thread, NULL, client_run, client) != 0) {
		error_set(error, STATUS(RESOURCE_EXHAUSTED),
		    "cannot start the client's thread: raise the limit of processes (ulimit -u)");
		goto failed;
	}
	client->control_runs = true;
	return client;

failed:
	rpc_client_destroy(client);
	return NULL;
}

void rpc_client_destroy(struct rpc_client *client)
{
	struct call *call, *next;

	if (!client)
		return;
	client_lock(client);
	client->closing = true;
	HASH_ITER (hh, client->calls, call, next) {
		call_end(call, STATUS(CANCELLED), "the client was closed");
	}
	client_wake_control(client);
	client_unlock(client);
	if (client->control_runs)
		pthread_join(client->control_thread, NULL);
	for (int i = 0; i < client->n_managers; i++)
		manager_destroy(&client->managers[i]);
	assert(!client->calls && client->n_unfinished == 0);
	deadlines_free(&client->timers);
	pthread_cond_destroy(&client->work_changed);
	pthread_cond_destroy(&client->alive_changed);
	pthread_mutex_destroy(&client->lock);
	tls_destroy(client->tls);
	free(client->managers);
	client_token_free(client);
	free(client->actor);
	free(client);
}

/* Checks the length of a call; if it is too long, sets its answer. */
static bool startable(struct call *call)
{
	struct rpc_client *client = call->client;
	struct rpc_answer *answer = &call->answer;

	if (call->size <= client->max_message_bytes)
		return true;
	answer->code = STATUS(INVALID_ARGUMENT);
	snprintf(answer->message, sizeof answer->message, "the call is %zu bytes long; at most %zu can be sent", call->size,
	    client->max_message_bytes);
	return false;
}

rpc_call_id rpc_client_start(struct rpc_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    ProtobufCMessage *request, const struct rpc_call_options *options, rpc_done *done, void *arg)
{
	struct call *call = call_create(client, service, method, request, options, done, arg);
	struct manager *manager;
	rpc_call_id id;

	client_lock(client);
	id = call->id = ++client->last_id;
	client->n_unfinished++;
	if (!startable(call)) {
		client_unlock(client);
		call_finish(call);
		return id;
	}
	HASH_ADD(hh, client->calls, id, sizeof call->id, call);
	deadlines_set(&client->timers, &call->timer, call->deadline_ms);
	if (call->deadline_ms < client->sleep_until_ms)
		client_wake_control(client);
	manager = choice_make(client, NULL);
	if (client->closing) {
		call->state = CALL_PAUSED;
		call_end(call, STATUS(CANCELLED), "the client was closed");
	} else if (manager) {
		call->state = CALL_PREPARING;
	} else {
		call_wait(call);
	}
	manager = client->closing ? NULL : manager;
	client_unlock(client);
	if (manager)
		call_send(call, manager);
	return id;
}

void rpc_client_cancel(struct rpc_client *client, rpc_call_id id)
{
	struct call *call;

	client_lock(client);
	HASH_FIND(hh, client->calls, &id, sizeof id, call);
	if (call)
		call_end(call, STATUS(CANCELLED), "cancelled by the caller");
	client_unlock(client);
}

/* The state that rpc_client_call waits for. */
struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool done;
	struct rpc_answer answer;
};

static void wake_waiter(void *arg, struct rpc_answer *answer)
{
	struct waiter *waiter = arg;

	pthread_mutex_lock(&waiter->lock);
	waiter->answer = *answer;
	waiter->done = true;
	pthread_cond_signal(&waiter->over);
	pthread_mutex_unlock(&waiter->lock);
}

ProtobufCMessage *rpc_client_call(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const struct rpc_call_options *options, struct reeve_error *error)
{
	struct waiter waiter = {.lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER};

	rpc_client_start(client, service, method, request, options, wake_waiter, &waiter);
	pthread_mutex_lock(&waiter.lock);
	while (!waiter.done)
		pthread_cond_wait(&waiter.over, &waiter.lock);
	pthread_mutex_unlock(&waiter.lock);
	if (waiter.answer.code != STATUS(OK))
		error_set(error, waiter.answer.code, "%s", waiter.answer.message);
	return waiter.answer.response;
}

bool rpc_client_alive(struct rpc_client *client, int64_t wait_ms)
{
	int64_t until_ms = clock_monotonic_ms() + wait_ms;
	struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
	bool alive;

	client_lock(client);
	while (!(alive = choice_make(client, NULL) || choice_refusal(client)) && wait_ms > 0) {
		if (pthread_cond_timedwait(&client->alive_changed, &client->lock, &until) != 0)
			wait_ms = 0;
	}
	client_unlock(client);
	return alive;
}

void rpc_client_absence(struct rpc_client *client, char *out, size_t size)
{
	client_lock(client);
	client_absence(client, out, size);
	client_unlock(client);
}

bool rpc_client_obstacle(struct rpc_client *client, rpc_call_id id, char *out, size_t size)
{
	const struct manager *manager;
	struct call *call;
	bool found = false;

	client_lock(client);
	HASH_FIND(hh, client->calls, &id, sizeof id, call);
	manager = call ? call->manager : NULL;
	if (call && call->message) {
		snprintf(out, size, "%s", call->message);
		found = true;
	} else if (manager && manager_alive(manager) && manager->health != HEALTH_SERVES) {
		snprintf(out, size, "%s",
		    manager->health == HEALTH_FULL ? "the manager has no room for another call"
		                                   : "the manager does not reach its database");
		found = true;
	}
	client_unlock(client);
	return found;
}

int64_t rpc_client_now_ms(struct rpc_client *client)
{
	int64_t now_ms;

	client_lock(client);
	now_ms = client_now_ms(client);
	client_unlock(client);
	return now_ms;
}

const char *rpc_client_actor(const struct rpc_client *client)
{
	return client->actor;
}

uint32_t rpc_client_max_details(struct rpc_client *client)
{
	uint32_t bytes;

	client_lock(client);
	bytes = client->max_details;
	client_unlock(client);
	return bytes;
}

uint32_t rpc_client_max_message(struct rpc_client *client)
{
	uint32_t bytes;

	client_lock(client);
	bytes = client->max_message;
	client_unlock(client);
	return bytes;
}
