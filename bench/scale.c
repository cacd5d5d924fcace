/*
 * Measures many workers and many routes at a running manager: what they cost, and whether leases hold.
 *
 *	bench-scale --manager tcp://127.0.0.1:7171 [OPTION…]
 *
 *	--workers N      workers of the type scale_none, each with a parked Fetch and its heartbeats (default 100)
 *	--connections N  the connections that they share (default: one each)
 *	--ping-ms N      interval of each connection's pings (default: as workers ping); 0: never
 *	--routes N       tasks of this many types that no worker takes (default 0)
 *	--tasks N        submits this many tasks of the workers' type and drains them (default 0: the workers stay idle)
 *	--slots N        slots that a Fetch offers (default 10)
 *	--invented N     this many Fetches of invented incarnations at any time, a new one after each answer (default 0)
 *	--returning N    this many workers that fall silent until they are lost, and then resend their Fetches (default 0)
 *	--elsewhere URL  where those registered, if not at the same manager
 *	--seconds N      length of the measurement (default 10); longer if the manager would not report lost workers
 *	                 within that time
 *	--pid N          the manager's, for its CPU usage
 *	--reconnect      afterwards, all workers disconnect at once and immediately return
 *
 * One thread. Each figure is a line `name value unit`; the exit code is 1 if something could not be done.
 *	register_time       until the last worker is registered, when all connect and register at once
 *	cpu                 of the manager during the measurement, in percent of a core
 *	heartbeat_p50 …     the time of heartbeats that were answered without an error; also heartbeat_max
 *	heartbeat_errors    heartbeats that were answered with an error
 *	heartbeat_unanswered   heartbeats that were not answered within a lease
 *	ping_p50 …          the same for a caller that does nothing else; also ping_max
 *	ping_errors, ping_unanswered   the same as for heartbeats
 *	fetches             answered Fetches per second
 *	lost                workers that were reported lost without having been silent. They are watched for a lease
 *	                    and 2 s: the manager reports no loss earlier
 *	drain_rate          tasks of --tasks completed per second
 *	refused             answers to invented Fetches per second
 *	returned_time       from the resending of the returning workers' Fetches until the last one is refused
 *	reconnect_time      like register_time, just after all connections were closed;
 *	                    also reconnect_heartbeat_p50 and so on
 */
#include "bench/peer.h"
#include "bench/report.h"

#include <getopt.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utlist.h>

enum { PARK_MS = 10000, BULK = 1000, LIMIT_S = 180, PING_EVERY_MS = 20, PING_MIN_MS = 500, HEARD_PINGS = 4, LOST_MS = 2000 };

#define WORKER(method) "/reeve.v1.WorkerService/" method

struct line { /* a connection */
	struct peer *peer;
	struct event *ping;
	int64_t pinged_ns;
};

/* A call whose answer is timed. The next one may be sent before the answer comes. */
struct timed {
	struct worker *worker;
	struct timings *timings;
	int64_t sent_ns;
	int measurement; /* the one in which it was sent; 0: none */
	struct timed *prev, *next; /* of the same worker */
};

/* The results of calls of one kind that were sent during the measurement. */
struct timings {
	const char *name;
	int64_t *spans; /* ns, of calls that were answered without an error */
	size_t count;
	int open, errors;
};

struct worker {
	int number;
	struct line *line;
	int64_t incarnation, seq, fetch_id;
	struct event *beat;
	struct timed *beats; /* not answered yet */
	bool parked, returning, refused;
};

static struct {
	const char *manager, *elsewhere;
	int workers, connections, ping_ms, routes, tasks, slots, invented, returning, seconds, pid;
	bool reconnect;
} options = {.workers = 100, .ping_ms = -1, .slots = 10, .seconds = 10};

static struct event_base *base;
static struct peer *control, *forger, *elsewhere;
static struct line *lines;
static struct worker *workers;
static int registered, refused, lost, submitted, completed;
static int64_t fetches, invented_answers;
static uint32_t heartbeat_ms, lease_ms;
static bool fetching, measuring, closing;
static int measurement; /* the current one; 0: none has begun */
static struct timings beats = {.name = "heartbeat"}, pings = {.name = "ping"};
static size_t span_room = 4000000;
static int64_t registered_ns; /* when all were registered */

static void fetch(struct worker *w, bool again);

static void on_ended(void *arg, const char *why)
{
	(void)arg;
	if (!closing)
		give_up("a connection has ended: %s", why);
}

static void turn(int64_t until_ns)
{
	int64_t left = until_ns - now_ns();
	const struct timeval after = {left < 0 ? 0 : left / 1000000000, left < 0 ? 0 : left % 1000000000 / 1000};

	event_base_loopexit(base, &after);
	event_base_dispatch(base);
}

static void turn_until(const char *what, const int *count, int wanted)
{
	int64_t began = now_ns();

	while (*count < wanted) {
		if (now_ns() - began > LIMIT_S * INT64_C(1000000000))
			give_up("%s: %d of %d after %d s", what, *count, wanted, LIMIT_S);
		turn(now_ns() + 1000000);
	}
}

/* --- timing of calls ---------------------------------------------------------------------------------------------- */

static void timed_begin(struct timed *call, struct timings *timings)
{
	call->sent_ns = now_ns();
	call->timings = timings;
	call->measurement = measuring ? measurement : 0;
	if (measuring)
		timings->open++;
}

static void timed_end(struct timed *call, bool good)
{
	struct timings *timings = call->timings;

	if (!call->measurement || call->measurement != measurement)
		return;
	timings->open--;
	if (!good)
		timings->errors++;
	else if (timings->count < span_room)
		timings->spans[timings->count++] = now_ns() - call->sent_ns;
}

static void timings_begin(struct timings *timings)
{
	timings->count = 0;
	timings->open = timings->errors = 0;
}

static void timings_report(struct timings *timings, const char *prefix)
{
	char name[64], line[80];

	snprintf(name, sizeof name, "%s%s", prefix, timings->name);
	if (timings->count) {
		report_percentiles(name, timings->spans, timings->count);
		snprintf(line, sizeof line, "%s_max", name);
		report(line, (double)timings->spans[timings->count - 1] / 1e6, "ms"); /* sorted now */
	}
	snprintf(line, sizeof line, "%s_errors", name);
	report(line, timings->errors, "calls");
	snprintf(line, sizeof line, "%s_unanswered", name);
	report(line, timings->open, "calls");
}

/* --- a worker ---------------------------------------------------------------------------------------------------- */

static void on_beat(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	struct timed *call = arg;

	timed_end(call, code == 0);
	DL_DELETE(call->worker->beats, call);
	free(call);
	if (code) {
		fprintf(stderr, "bench-scale: a heartbeat: %u %.*s\n", code, (int)length, (const char *)bytes);
		return;
	}
	Reeve__V1__HeartbeatResponse *r = reeve__v1__heartbeat_response__unpack(NULL, length, bytes);
	lost += r->lost;
	reeve__v1__heartbeat_response__free_unpacked(r, NULL);
}

static void beat(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	struct timed *call = calloc(1, sizeof *call);
	Reeve__V1__HeartbeatRequest r = REEVE__V1__HEARTBEAT_REQUEST__INIT;
	const struct timeval next = {heartbeat_ms / 1000, heartbeat_ms % 1000 * 1000};

	(void)fd, (void)what;
	r.incarnation = w->incarnation;
	r.seq = ++w->seq;
	r.highest_fetch_id = w->fetch_id;
	r.waiting_fetch_ids = &w->fetch_id;
	r.n_waiting_fetch_ids = w->parked;
	r.concurrency = (uint32_t)options.slots;
	call->worker = w;
	DL_APPEND(w->beats, call);
	timed_begin(call, &beats);
	peer_call(w->line->peer, WORKER("Heartbeat"), &r.base, on_beat, call);
	event_add(w->beat, &next);
}

static void beat_start(struct worker *w)
{
	const struct timeval first = {rand() % (int)heartbeat_ms / 1000, rand() % 1000 * 1000};

	w->beat = evtimer_new(base, beat, w);
	event_add(w->beat, &first);
}

static void on_reported(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	if (code)
		give_up("a report: %u %.*s", code, (int)length, (const char *)bytes);
	Reeve__V1__ReportResponse *r = reeve__v1__report_response__unpack(NULL, length, bytes);
	completed += (int)r->n_acks;
	reeve__v1__report_response__free_unpacked(r, NULL);
	fetch(arg, false);
}

/* Reports the assigned tasks as completed at once. */
static void carry_out(struct worker *w, const Reeve__V1__FetchResponse *given)
{
	Reeve__V1__ReportRequest r = REEVE__V1__REPORT_REQUEST__INIT;
	Reeve__V1__Result *results = calloc(given->n_assignments, sizeof *results);

	r.incarnation = w->incarnation;
	r.results = calloc(given->n_assignments, sizeof *r.results);
	r.n_results = given->n_assignments;
	for (size_t i = 0; i < r.n_results; i++) {
		r.results[i] = &results[i];
		reeve__v1__result__init(&results[i]);
		results[i].task_id = given->assignments[i]->task_id;
		results[i].token = given->assignments[i]->token;
		results[i].outcome = REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
	}
	peer_call(w->line->peer, WORKER("Report"), &r.base, on_reported, w);
	free(r.results);
	free(results);
}

static void on_fetched(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	struct worker *w = arg;

	w->parked = false;
	fetches += measuring;
	if (w->returning) {
		refused += code == 9;
		w->refused = true;
		return;
	}
	if (code == 9) {
		lost++;
		return;
	}
	if (code) {
		fprintf(stderr, "bench-scale: a Fetch: %u %.*s\n", code, (int)length, (const char *)bytes);
		fetch(w, true);
		return;
	}
	Reeve__V1__FetchResponse *r = reeve__v1__fetch_response__unpack(NULL, length, bytes);
	if (r->n_assignments)
		carry_out(w, r);
	else
		fetch(w, false);
	reeve__v1__fetch_response__free_unpacked(r, NULL);
}

static void fetch(struct worker *w, bool again)
{
	static const char *type = "scale_none";
	Reeve__V1__FetchRequest r = REEVE__V1__FETCH_REQUEST__INIT;

	r.incarnation = w->incarnation;
	r.fetch_id = again ? w->fetch_id : ++w->fetch_id;
	r.resend = again;
	r.slots = (uint32_t)options.slots;
	r.types = &type;
	r.n_types = 1;
	r.wait_ms = PARK_MS;
	w->parked = true;
	peer_call(w->line->peer, WORKER("Fetch"), &r.base, on_fetched, w);
}

static void on_registered(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	struct worker *w = arg;

	if (code)
		give_up("a Register: %u %.*s", code, (int)length, (const char *)bytes);
	Reeve__V1__RegisterResponse *r = reeve__v1__register_response__unpack(NULL, length, bytes);
	w->incarnation = r->incarnation;
	w->seq = w->fetch_id = 0;
	heartbeat_ms = r->heartbeat_ms;
	lease_ms = r->lease_ms;
	registered++;
	reeve__v1__register_response__free_unpacked(r, NULL);
	if (w->returning)
		return;
	beat_start(w);
	if (fetching)
		fetch(w, false);
}

static void register_one(struct worker *w)
{
	static const char *type = "scale_none";
	Reeve__V1__RegisterRequest r = REEVE__V1__REGISTER_REQUEST__INIT;
	char name[64];

	snprintf(name, sizeof name, "scale/%d/%d", (int)getpid(), w->number);
	r.name = name;
	r.host = (char *)"bench";
	r.pid = w->number + 1;
	r.concurrency = (uint32_t)options.slots;
	r.types = &type;
	r.n_types = 1;
	r.version = (char *)"bench";
	r.previous = w->incarnation;
	peer_call(w->returning && elsewhere ? elsewhere : w->line->peer, WORKER("Register"), &r.base, on_registered, w);
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static void line_ping_in(struct line *line, int64_t ms)
{
	const struct timeval next = {ms / 1000, ms % 1000 * 1000};

	event_add(line->ping, &next);
}

static int64_t idle_ping_ms = PING_MIN_MS; /* the manager's last answer */

static void on_line_ping(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	struct line *line = arg;
	Reeve__V1__PingResponse *r = code ? NULL : reeve__v1__ping_response__unpack(NULL, length, bytes);

	if (r)
		idle_ping_ms = r->idle_ping_ms > PING_MIN_MS ? r->idle_ping_ms : PING_MIN_MS;
	reeve__v1__ping_response__free_unpacked(r, NULL);
	line_ping_in(line, options.ping_ms < 0 ? idle_ping_ms : options.ping_ms);
}

/* Returns how long no ping is needed, because the manager has sent other answers; 0: a ping is due. */
static int64_t line_ping_left_ms(const struct line *line)
{
	int64_t interval = idle_ping_ms * 1000000, due = peer_heard_ns(line->peer) + interval;

	if (!line->pinged_ns || options.ping_ms > 0)
		return 0;
	if (due > line->pinged_ns + HEARD_PINGS * interval)
		due = line->pinged_ns + HEARD_PINGS * interval;
	return due > now_ns() ? (due - now_ns()) / 1000000 + 1 : 0;
}

/* Pings like a worker's connection: at once, then at the interval that the manager sets, if no other answer arrives
 * (common/rpc/client_manager.c). */
static void line_ping(evutil_socket_t fd, short what, void *arg)
{
	struct line *line = arg;
	int64_t left_ms = line_ping_left_ms(line);
	Reeve__V1__PingRequest r = REEVE__V1__PING_REQUEST__INIT;

	(void)fd, (void)what;
	if (left_ms) {
		line_ping_in(line, left_ms);
		return;
	}
	line->pinged_ns = now_ns();
	peer_call(line->peer, "/reeve.v1.AdminService/Ping", &r.base, on_line_ping, line);
}

static void lines_open(void)
{
	for (int i = 0; i < options.connections; i++) {
		/* Let earlier connections send their hello: those of separate workers would not delay each other. */
		event_base_loop(base, EVLOOP_NONBLOCK);
		lines[i].peer = peer_connect(base, options.manager, on_ended, NULL);
		if (!options.ping_ms)
			continue;
		lines[i].pinged_ns = 0;
		lines[i].ping = evtimer_new(base, line_ping, &lines[i]);
		line_ping(-1, 0, &lines[i]);
	}
}

static void lines_close(void)
{
	for (int i = 0; i < options.workers + options.returning; i++) {
		struct timed *call, *next;

		if (workers[i].beat)
			event_free(workers[i].beat);
		workers[i].beat = NULL;
		DL_FOREACH_SAFE(workers[i].beats, call, next)
		free(call); /* no answer comes on a closed connection */
		workers[i].beats = NULL;
	}
	for (int i = 0; i < options.connections; i++) {
		if (lines[i].ping)
			event_free(lines[i].ping);
		lines[i].ping = NULL;
		peer_close(lines[i].peer);
	}
}

static double register_all(void)
{
	int64_t began = now_ns();

	registered = 0;
	lines_open();
	for (int i = 0; i < options.workers + options.returning; i++)
		register_one(&workers[i]);
	turn_until("registered", &registered, options.workers + options.returning);
	registered_ns = now_ns();
	return (double)(registered_ns - began) / 1e9;
}

/* --- other callers ------------------------------------------------------------------------------------------------ */

static void on_submitted(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	if (code)
		give_up("a Submit: %u %.*s", code, (int)length, (const char *)bytes);
	submitted += *(int *)arg;
	free(arg);
}

/* Submits `count` tasks from number `first` on, BULK per call; each of its own type (`types`) or all of the workers'
 * type. */
static void submit(int first, int count, bool types)
{
	for (int end = first + count; first < end; first += BULK) {
		int bulk = end - first < BULK ? end - first : BULK, *size = malloc(sizeof *size);
		Reeve__V1__SubmitRequest r = REEVE__V1__SUBMIT_REQUEST__INIT;
		Reeve__V1__TaskSpec *specs = calloc((size_t)bulk, sizeof *specs);
		char (*names)[32] = calloc((size_t)bulk, sizeof *names);

		*size = bulk;
		r.n_tasks = (size_t)bulk;
		r.tasks = calloc(r.n_tasks, sizeof *r.tasks);
		for (int i = 0; i < bulk; i++) {
			r.tasks[i] = &specs[i];
			reeve__v1__task_spec__init(&specs[i]);
			snprintf(names[i], sizeof names[i], types ? "scale_%d" : "scale_none", first + i);
			specs[i].type = names[i];
			specs[i].details = (char *)"{}";
		}
		peer_call(control, "/reeve.v1.TaskService/Submit", &r.base, on_submitted, size);
		free(r.tasks);
		free(specs);
		free(names);
	}
}

static struct timed ping_call; /* one at a time */

static void on_ping(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	const struct timeval next = {0, PING_EVERY_MS * 1000};

	(void)bytes, (void)length;
	timed_end(&ping_call, code == 0);
	event_add(arg, &next);
}

static void ping(evutil_socket_t fd, short what, void *arg)
{
	Reeve__V1__PingRequest r = REEVE__V1__PING_REQUEST__INIT;

	(void)fd, (void)what;
	timed_begin(&ping_call, &pings);
	peer_call(control, "/reeve.v1.AdminService/Ping", &r.base, on_ping, arg);
}

static void invent(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	static const char *type = "scale_none";
	static int64_t next_incarnation = INT64_C(1) << 40;
	Reeve__V1__FetchRequest r = REEVE__V1__FETCH_REQUEST__INIT;

	(void)code, (void)bytes;
	invented_answers += measuring && length;
	r.incarnation = next_incarnation++;
	r.fetch_id = 1;
	r.slots = (uint32_t)options.slots;
	r.types = &type;
	r.n_types = 1;
	r.wait_ms = PARK_MS;
	peer_call(forger, WORKER("Fetch"), &r.base, invent, arg);
}

static double cpu_seconds(void)
{
	char path[64], text[1024] = "";
	unsigned long user = 0, system = 0;

	if (!options.pid)
		return 0;
	snprintf(path, sizeof path, "/proc/%d/stat", options.pid);
	FILE *file = fopen(path, "r");
	if (!file || !fgets(text, sizeof text, file))
		give_up("no process %d", options.pid);
	fclose(file);
	const char *at = strrchr(text, ')');
	if (!at || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
		give_up("%s is unlike it should be", path);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* --- the measurement ---------------------------------------------------------------------------------------------- */

/* Starts to measure heartbeats and pings that are sent from now on. */
static void measure_begin(void)
{
	measurement++;
	timings_begin(&beats);
	timings_begin(&pings);
	measuring = true;
}

/* Waits until the manager would have reported a lost worker. */
static void turn_until_told(void)
{
	turn(registered_ns + (lease_ms + LOST_MS) * INT64_C(1000000));
}

/* Stops measuring. Calls not answered yet get one more lease. */
static void measure_end(void)
{
	int64_t until = now_ns() + lease_ms * INT64_C(1000000);

	measuring = false;
	while (beats.open + pings.open > 0 && now_ns() < until)
		turn(now_ns() + 1000000);
}

static void measured_report(const char *prefix)
{
	char line[64];

	timings_report(&beats, prefix);
	timings_report(&pings, prefix);
	snprintf(line, sizeof line, "%slost", prefix);
	report(line, lost, "workers");
}

/* Waits until the returning workers are lost, then resends their Fetches. */
static void returning_come_back(void)
{
	struct worker *first = workers + options.workers;

	turn(now_ns() + (lease_ms + 2000) * INT64_C(1000000));
	int64_t began = now_ns();
	for (int i = 0; i < options.returning; i++) {
		first[i].fetch_id = 1;
		fetch(&first[i], true);
	}
	turn_until("refused", &refused, options.returning);
	report("returned_time", (double)(now_ns() - began) / 1e9, "s");
}

static void measure(void)
{
	double cpu = cpu_seconds();
	int64_t began = now_ns();

	measure_begin();
	if (options.returning)
		returning_come_back();
	if (options.tasks) {
		fetching = true;
		for (int i = 0; i < options.workers; i++)
			fetch(&workers[i], false);
		turn_until("completed", &completed, options.tasks);
		report("drain_rate", options.tasks / ((double)(now_ns() - began) / 1e9), "tasks/s");
	} else {
		turn(began + options.seconds * INT64_C(1000000000));
	}
	turn_until_told();
	double seconds = (double)(now_ns() - began) / 1e9;
	if (options.pid)
		report("cpu", 100 * (cpu_seconds() - cpu) / seconds, "%");
	report("fetches", (double)fetches / seconds, "/s");
	if (options.invented)
		report("refused", (double)invented_answers / seconds, "/s");
	measure_end();
	measured_report("");
}

static void run(void)
{
	struct event *pinging;

	base = event_base_new();
	control = peer_connect(base, options.manager, on_ended, NULL);
	pinging = evtimer_new(base, ping, event_self_cbarg());
	ping(-1, 0, pinging);
	if (options.elsewhere)
		elsewhere = peer_connect(base, options.elsewhere, on_ended, NULL);
	lines = calloc((size_t)options.connections, sizeof *lines);
	workers = calloc((size_t)(options.workers + options.returning), sizeof *workers);
	beats.spans = malloc(sizeof *beats.spans * span_room);
	pings.spans = malloc(sizeof *pings.spans * span_room);
	for (int i = 0; i < options.workers + options.returning; i++) {
		workers[i].number = i;
		workers[i].line = &lines[i % options.connections];
		workers[i].returning = i >= options.workers;
	}
	submit(0, options.routes, true);
	submit(0, options.tasks, false);
	turn_until("submitted", &submitted, options.routes + options.tasks);
	fetching = !options.tasks;
	report("register_time", register_all(), "s");
	if (options.invented) {
		forger = peer_connect(base, options.manager, on_ended, NULL);
		for (int i = 0; i < options.invented; i++)
			invent(NULL, 0, NULL, 0);
	}
	turn(now_ns() + 2 * INT64_C(1000000000));
	measure();
	if (options.reconnect) {
		closing = true;
		measure_begin();
		lines_close();
		turn(now_ns()); /* libevent closes them in its loop; there may not be enough descriptors for both sets */
		closing = false;
		report("reconnect_time", register_all(), "s");
		turn_until_told();
		measure_end();
		measured_report("reconnect_");
	}
}

int main(int argc, char **argv)
{
	static const struct option known[] = {{"manager", required_argument, NULL, 'm'},
	    {"workers", required_argument, NULL, 'w'}, {"connections", required_argument, NULL, 'c'},
	    {"ping-ms", required_argument, NULL, 'P'}, {"routes", required_argument, NULL, 'r'},
	    {"tasks", required_argument, NULL, 't'}, {"slots", required_argument, NULL, 's'},
	    {"invented", required_argument, NULL, 'i'}, {"returning", required_argument, NULL, 'R'},
	    {"seconds", required_argument, NULL, 'S'}, {"pid", required_argument, NULL, 'p'},
	    {"elsewhere", required_argument, NULL, 'e'}, {"reconnect", no_argument, NULL, 'x'}, {0}};
	struct rlimit files;

	for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (option) {
		case 'm': options.manager = optarg; break;
		case 'w': options.workers = atoi(optarg); break;
		case 'c': options.connections = atoi(optarg); break;
		case 'P': options.ping_ms = atoi(optarg); break;
		case 'r': options.routes = atoi(optarg); break;
		case 't': options.tasks = atoi(optarg); break;
		case 's': options.slots = atoi(optarg); break;
		case 'i': options.invented = atoi(optarg); break;
		case 'R': options.returning = atoi(optarg); break;
		case 'S': options.seconds = atoi(optarg); break;
		case 'p': options.pid = atoi(optarg); break;
		case 'e': options.elsewhere = optarg; break;
		case 'x': options.reconnect = true; break;
		default: return 1;
		}
	}
	if (!options.manager || options.workers < 1 || options.slots < 1 || optind != argc)
		give_up("usage: bench-scale --manager URL [OPTION…]; see bench/scale.c");
	if (options.connections < 1)
		options.connections = options.workers + options.returning;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	run();
	return 0;
}
