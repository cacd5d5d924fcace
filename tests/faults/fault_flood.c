/*
 * One client that floods a manager. It keeps COUNT calls (or connections) open for SECONDS and replaces those that end,
 * up to RATE_MAX per second. Then it closes all of them and exits.
 *
 *	fault-flood --manager URL --kind KIND --count N --seconds S [--types A,B] [--lease MS]
 *
 *	waits        Waits for a task that is due in an hour; it is cancelled at the end
 *	fetches      Fetches of incarnations that never existed, for the types
 *	lost         registers N workers that send no heartbeats; after they are lost (--lease), Fetches of these
 *	parked       registers N manual workers and parks a Fetch of each, for types without tasks
 *	reads        searches of the complete audit
 *	gets         Gets of tasks that do not exist, over 64 connections
 *	connections  N connections that send nng's protocol header and then nothing
 *	garbage      connections that send random bytes, one after another, N in total
 *
 * URL is tcp://ADDRESS:PORT. It prints "begins" when the flood begins, and at the end a line with the number of calls
 * and how they ended. Exit codes: 0: success; 1: less than 90 % of the workers registered, a refusal did not name the
 * limit that was reached, or the manager was not flooded (another line says which); 2: the options are invalid; 3: no
 * manager answers, or the task for `waits` could not be created.
 */
#include "common/clock.h"
#include "common/rpc/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	COUNT_MAX = 50000,
	RATE_MAX = 20000,
	REGISTERS_OPEN = 64,
	CLIENTS = 8,          /* connections for `parked` and `lost` */
	CLIENTS_OF_GETS = 64, /* connections for `gets` */
	TYPES_MAX = 16,
	CALL_MS = 60000,
	REGISTER_MS = 20000,
	TURN_US = 2000,
	CODES = 17,
	ENOUGH_PERCENT = 90,  /* of --count */
	GARBAGE_ENOUGH = 100, /* connections; these come one after another */
};

#define TASKS &reeve__v1__task_service__descriptor
#define WORKERS &reeve__v1__worker_service__descriptor

static struct {
	const char *manager, *kind;
	int count, seconds, lease_ms, n_types;
	char *types[TYPES_MAX];
} options = {.count = 1000, .seconds = 5, .lease_ms = 15000};

static struct rpc_client *clients[CLIENTS_OF_GETS];
static int n_clients = 1;
static int64_t incarnations[COUNT_MAX], fetch_ids[COUNT_MAX];
static int places[COUNT_MAX]; /* places[i] == i; arguments of callbacks point to these */
static int64_t waited_for;    /* the task for `waits` */
static atomic_bool place_open[COUNT_MAX];
static atomic_int open_calls, registered;
static atomic_long made, ended[CODES];
static atomic_long told, untold; /* refusals at a limit that name its option; those that do not */
static long closed;              /* connections that the manager has closed */
static char untold_message[512]; /* of the first refusal in untold */

static bool is(const char *kind)
{
	return strcmp(options.kind, kind) == 0;
}

static void count_end(const struct rpc_answer *answer)
{
	if (answer->code == STATUS(RESOURCE_EXHAUSTED)) {
		if (strstr(answer->message, "--max-"))
			atomic_fetch_add(&told, 1);
		else if (atomic_fetch_add(&untold, 1) == 0)
			snprintf(untold_message, sizeof untold_message, "%s", answer->message);
	}
	atomic_fetch_add(&ended[(unsigned)answer->code < CODES ? (int)answer->code : CODES - 1], 1);
	if (answer->response)
		protobuf_c_message_free_unpacked(answer->response, NULL);
	atomic_fetch_sub(&open_calls, 1);
}

static void call_done(void *arg, struct rpc_answer *answer)
{
	atomic_store(&place_open[*(int *)arg], false);
	count_end(answer);
}

static void start(int place, const ProtobufCServiceDescriptor *service, const char *method, ProtobufCMessage *request)
{
	const struct rpc_call_options call = {.timeout_ms = CALL_MS};

	atomic_store(&place_open[place], true);
	atomic_fetch_add(&open_calls, 1);
	atomic_fetch_add(&made, 1);
	rpc_client_start(clients[place % n_clients], service, method, request, &call, call_done, &places[place]);
}

/* Creates the task for `waits`. Exits on a failure. */
static void waited_for_make(void)
{
	Reeve__V1__TaskSpec spec = REEVE__V1__TASK_SPEC__INIT, *specs[] = {&spec};
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__SubmitResponse *response;

	spec.type = (char *)"fault-flood";
	spec.queue = (char *)"fault-flood";
	spec.delay_ms = 3600000;
	request.tasks = specs;
	request.n_tasks = 1;
	response = (Reeve__V1__SubmitResponse *)rpc_client_call(clients[0], TASKS, "Submit", &request.base, NULL, NULL);
	if (!response) {
		fprintf(stderr, "fault-flood: the task to wait for was not made\n");
		exit(3);
	}
	waited_for = response->tasks[0]->id;
	reeve__v1__submit_response__free_unpacked(response, NULL);
}

static void waited_for_cancel(void)
{
	Reeve__V1__CancelRequest request = REEVE__V1__CANCEL_REQUEST__INIT;
	struct rpc_client_options options_of = {.urls = options.manager};
	struct rpc_client *client = rpc_client_create(&options_of, NULL); /* clients[0] may be at its limit of calls */
	ProtobufCMessage *response;

	request.ids = &waited_for;
	request.n_ids = 1;
	response = rpc_client_call(client, TASKS, "Cancel", &request.base, NULL, NULL);
	if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	rpc_client_destroy(client);
}

static void start_wait(int place)
{
	Reeve__V1__WaitRequest request = REEVE__V1__WAIT_REQUEST__INIT;

	request.ids = &waited_for;
	request.n_ids = 1;
	request.wait_ms = CALL_MS;
	start(place, TASKS, "Wait", &request.base);
}

static void start_fetch(int place)
{
	Reeve__V1__FetchRequest request = REEVE__V1__FETCH_REQUEST__INIT;
	char idle[32];
	const char *idle_type[] = {idle};

	request.incarnation = incarnations[place];
	request.fetch_id = ++fetch_ids[place];
	request.slots = 1;
	request.wait_ms = 15000;
	request.types = (const char **)options.types;
	request.n_types = (size_t)options.n_types;
	if (is("parked")) {
		snprintf(idle, sizeof idle, "fault-idle-%d", place % 100);
		request.types = idle_type;
		request.n_types = 1;
	}
	start(place, WORKERS, "Fetch", &request.base);
}

static void start_read(int place)
{
	Reeve__V1__AuditRequest request = REEVE__V1__AUDIT_REQUEST__INIT;

	request.since_us = 1;
	request.limit = 100;
	start(place, TASKS, "Audit", &request.base);
}

static void start_get(int place)
{
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;

	request.id = INT64_C(1000000000000) + place;
	start(place, TASKS, "Get", &request.base);
}

/* ---- registered workers ---- */

static void register_done(void *arg, struct rpc_answer *answer)
{
	int *place = arg;

	if (answer->code == STATUS(OK)) {
		incarnations[*place] = ((const Reeve__V1__RegisterResponse *)answer->response)->incarnation;
		atomic_fetch_add(&registered, 1);
	}
	count_end(answer);
}

static void register_all(void)
{
	const struct rpc_call_options call = {.timeout_ms = REGISTER_MS};
	int64_t until_ms = clock_monotonic_ms() + REGISTER_MS;

	for (int i = 0; i < options.count && clock_monotonic_ms() < until_ms; i++) {
		Reeve__V1__RegisterRequest request = REEVE__V1__REGISTER_REQUEST__INIT;
		char name[64];

		while (atomic_load(&open_calls) >= REGISTERS_OPEN && clock_monotonic_ms() < until_ms)
			usleep(TURN_US);
		snprintf(name, sizeof name, "flood-%d-%d", (int)getpid(), i);
		request.name = name;
		request.host = (char *)"flood";
		request.pid = (int32_t)getpid();
		request.concurrency = 1;
		request.manual = is("parked");
		atomic_fetch_add(&open_calls, 1);
		rpc_client_start(clients[i % n_clients], WORKERS, "Register", &request.base, &call, register_done, &places[i]);
	}
	while (atomic_load(&open_calls) > 0 && clock_monotonic_ms() < until_ms)
		usleep(TURN_US);
}

static void leave_done(void *arg, struct rpc_answer *answer)
{
	(void)arg;
	count_end(answer);
}

static void leave_all(void)
{
	const struct rpc_call_options call = {.timeout_ms = REGISTER_MS};
	int64_t until_ms = clock_monotonic_ms() + REGISTER_MS;

	for (int i = 0; i < options.count && clock_monotonic_ms() < until_ms; i++) {
		Reeve__V1__LeaveRequest request = REEVE__V1__LEAVE_REQUEST__INIT;

		if (!incarnations[i])
			continue;
		while (atomic_load(&open_calls) >= REGISTERS_OPEN && clock_monotonic_ms() < until_ms)
			usleep(TURN_US);
		request.incarnation = incarnations[i];
		atomic_fetch_add(&open_calls, 1);
		rpc_client_start(clients[i % n_clients], WORKERS, "Leave", &request.base, &call, leave_done, NULL);
	}
	while (atomic_load(&open_calls) > 0 && clock_monotonic_ms() < until_ms)
		usleep(TURN_US);
}

/* ---- floods ---- */

static void flood_calls(void)
{
	int64_t until_ms;
	bool lost = is("lost"), parked = is("parked");

	n_clients = parked || lost ? CLIENTS : is("gets") ? CLIENTS_OF_GETS : 1;
	for (int i = 0; i < n_clients; i++) {
		struct rpc_client_options client = {.urls = options.manager};

		clients[i] = rpc_client_create(&client, NULL);
		if (!clients[i] || !rpc_client_alive(clients[i], 10000)) {
			fprintf(stderr, "fault-flood: no manager at %s\n", options.manager);
			exit(3);
		}
	}
	for (int i = 0; i < options.count; i++)
		incarnations[i] = lost || parked ? 0 : 1000000000 + i;
	if (lost || parked)
		register_all();
	if (lost)
		usleep((useconds_t)options.lease_ms * 1000 + 1500000);
	if (is("waits"))
		waited_for_make();
	printf("begins\n");
	fflush(stdout);
	until_ms = clock_monotonic_ms() + (int64_t)options.seconds * 1000;
	while (clock_monotonic_ms() < until_ms) {
		int budget = RATE_MAX * TURN_US / 1000000;

		for (int i = 0; i < options.count && budget > 0; i++) {
			if (atomic_load(&place_open[i]) || !incarnations[i])
				continue;
			budget--;
			if (is("waits"))
				start_wait(i);
			else if (is("reads"))
				start_read(i);
			else if (is("gets"))
				start_get(i);
			else
				start_fetch(i);
		}
		usleep(TURN_US);
	}
	if (is("waits"))
		waited_for_cancel();
	if (parked) { /* Fetches end with their connections; the workers leave over new ones */
		for (int i = 0; i < n_clients; i++) {
			struct rpc_client_options client = {.urls = options.manager};

			rpc_client_destroy(clients[i]);
			clients[i] = rpc_client_create(&client, NULL);
		}
		leave_all();
	}
	for (int i = 0; i < n_clients; i++)
		rpc_client_destroy(clients[i]);
}

static int dial(void)
{
	static struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (address.sin_port == 0) {
		char host[64];
		unsigned port;

		if (sscanf(options.manager, "tcp://%63[0-9.]:%u", host, &port) != 2 ||
		    inet_pton(AF_INET, host, &address.sin_addr) != 1) {
			fprintf(stderr, "fault-flood: %s is no tcp://ADDRESS:PORT\n", options.manager);
			exit(2);
		}
		address.sin_port = htons((uint16_t)port);
	}
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
		atomic_fetch_add(&made, 1);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns whether the manager has closed a connection. Discards what it sent. */
static bool hung_up(int fd)
{
	char bytes[256];
	ssize_t length;

	do
		length = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
	while (length > 0);
	return length == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static void flood_connections(void)
{
	static const char greeting[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* the header of a REQ socket */
	static int fds[COUNT_MAX];
	int64_t until_ms = clock_monotonic_ms() + (int64_t)options.seconds * 1000;
	int opened = 0;

	printf("begins\n");
	fflush(stdout);
	while (clock_monotonic_ms() < until_ms) {
		for (int budget = RATE_MAX * TURN_US / 1000000; budget > 0 && opened < options.count; budget--) {
			int fd = dial();

			if (fd < 0)
				break;
			if (send(fd, greeting, sizeof greeting, MSG_NOSIGNAL) < 0)
				atomic_fetch_add(&ended[CODES - 1], 1);
			fds[opened++] = fd;
		}
		usleep(TURN_US);
	}
	for (int i = 0; i < opened; i++) {
		closed += hung_up(fds[i]);
		close(fds[i]);
	}
}

static void flood_garbage(void)
{
	int64_t until_ms = clock_monotonic_ms() + (int64_t)options.seconds * 1000;
	unsigned seed = (unsigned)options.count;

	printf("begins\n");
	fflush(stdout);
	for (int i = 0; i < options.count && clock_monotonic_ms() < until_ms; i++) {
		unsigned char bytes[512];
		size_t length = 1 + (size_t)rand_r(&seed) % sizeof bytes;
		int fd = dial();

		for (size_t j = 0; j < length; j++)
			bytes[j] = (unsigned char)rand_r(&seed);
		if (seed % 2) /* a valid header, so that the manager reads a length and a message */
			memcpy(bytes, "\0SP\0\0\x30\0\0", length < 8 ? length : 8);
		if (fd >= 0) {
			if (send(fd, bytes, length, MSG_NOSIGNAL) < 0)
				atomic_fetch_add(&ended[CODES - 1], 1);
			close(fd);
		}
		usleep(TURN_US);
	}
}

static bool read_options(int argc, char **argv)
{
	static const struct option known[] = {{"manager", required_argument, NULL, 'm'},
	    {"kind", required_argument, NULL, 'k'}, {"count", required_argument, NULL, 'c'},
	    {"seconds", required_argument, NULL, 's'}, {"types", required_argument, NULL, 't'},
	    {"lease", required_argument, NULL, 'l'}, {0}};

	for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (option) {
		case 'm': options.manager = optarg; break;
		case 'k': options.kind = optarg; break;
		case 'c': options.count = atoi(optarg); break;
		case 's': options.seconds = atoi(optarg); break;
		case 't':
			for (char *rest = NULL, *type = strtok_r(optarg, ",", &rest); type && options.n_types < TYPES_MAX;
			     type = strtok_r(NULL, ",", &rest))
				options.types[options.n_types++] = type;
			break;
		case 'l': options.lease_ms = atoi(optarg); break;
		default: return false;
		}
	}
	return optind == argc && options.manager && options.kind && options.count > 0 && options.count <= COUNT_MAX &&
	    options.seconds > 0 && options.seconds <= 600;
}

/* Returns why this was not a flood, or why the manager's answers were wrong; NULL without a problem. */
static const char *problem(void)
{
	bool registers = is("lost") || is("parked");
	long refused = atomic_load(&told);

	if (registers && atomic_load(&registered) < options.count * ENOUGH_PERCENT / 100)
		return "too few workers could be registered";
	if (atomic_load(&untold))
		return "a refusal does not name the limit that was reached";
	if (atomic_load(&made) < (registers              ? atomic_load(&registered)
	                                 : is("garbage") ? GARBAGE_ENOUGH
	                                                 : options.count * ENOUGH_PERCENT / 100))
		return "there was no time for as many as there were to be";
	if (is("waits") && refused == 0)
		return "no Wait was refused at a limit";
	if (is("parked") && refused > 0)
		return "a Fetch of a worker that may park it was refused at a limit";
	if ((is("fetches") || is("lost")) && atomic_load(&ended[STATUS(FAILED_PRECONDITION)]) == 0)
		return "no Fetch was refused";
	if (is("connections") && closed == 0)
		return "the manager has closed no connection";
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const of_calls[] = {"waits", "fetches", "lost", "parked", "reads", "gets"};
	const char *wrong;
	bool known = true;

	if (!read_options(argc, argv)) {
		fprintf(stderr, "fault-flood: wrong options; its head says which there are\n");
		return 2;
	}
	for (int i = 0; i < COUNT_MAX; i++)
		places[i] = i;
	if (is("connections")) {
		flood_connections();
	} else if (is("garbage")) {
		flood_garbage();
	} else {
		known = false;
		for (size_t i = 0; i < sizeof of_calls / sizeof *of_calls; i++)
			known = known || is(of_calls[i]);
		if (!known) {
			fprintf(stderr, "fault-flood: there is no kind %s\n", options.kind);
			return 2;
		}
		flood_calls();
	}
	printf("%s: %ld made, %d registered, %ld refused at a limit, %ld connections closed; ended by code", options.kind,
	    atomic_load(&made), atomic_load(&registered), atomic_load(&told) + atomic_load(&untold), closed);
	for (int code = 0; code < CODES; code++)
		if (atomic_load(&ended[code]))
			printf(" %d: %ld", code, atomic_load(&ended[code]));
	printf("\n");
	wrong = problem();
	if (wrong)
		printf("fault-flood: %s%s%s\n", wrong, *untold_message ? ": " : "", untold_message);
	return wrong ? 1 : 0;
}
