/* The workers of bench-scale, and those that return after they were lost. */
#include "bench/scale.h"

#include "common/error.h"

#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

/* A heartbeat without an answer yet. The next one may be sent before the answer comes. */
struct beat {
	struct timed timed;
	struct worker *worker;
	struct beat *prev, *next; /* of the same worker */
};

struct worker {
	int number;
	int64_t incarnation, seq, fetch_id;
	struct event *timer;
	struct beat *beats;
	bool parked, returning;
};

struct workers workers;

static struct worker *list;
static struct peer *elsewhere;
static int registered, refused; /* refused: of the returning workers' Fetches */
static uint32_t heartbeat_ms;

static void fetch(struct worker *w, bool again);

/* --- heartbeats --------------------------------------------------------------------------------------------------- */

static void on_beat(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	struct beat *call = arg;

	timed_answered(&call->timed, code == 0);
	DL_DELETE(call->worker->beats, call);
	free(call);
	if (code) {
		fprintf(stderr, "bench-scale: a heartbeat: %u %.*s\n", code, (int)length, (const char *)bytes);
		return;
	}
	Reeve__V1__HeartbeatResponse *r = reeve__v1__heartbeat_response__unpack(NULL, length, bytes);
	workers.lost += r->lost;
	reeve__v1__heartbeat_response__free_unpacked(r, NULL);
}

static void beat(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	struct beat *call = calloc(1, sizeof *call);
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
	timed_sent(&call->timed, &beats);
	peer_call(connection_of(w->number), WORKER("Heartbeat"), &r.base, on_beat, call);
	event_add(w->timer, &next);
}

static void beats_start(struct worker *w)
{
	const struct timeval first = {rand() % (int)heartbeat_ms / 1000, rand() % 1000 * 1000};

	w->timer = evtimer_new(base, beat, w);
	event_add(w->timer, &first);
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

static void on_reported(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	if (code)
		give_up("a report: %u %.*s", code, (int)length, (const char *)bytes);
	Reeve__V1__ReportResponse *r = reeve__v1__report_response__unpack(NULL, length, bytes);
	workers.completed += (int)r->n_acks;
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
	peer_call(connection_of(w->number), WORKER("Report"), &r.base, on_reported, w);
	free(r.results);
	free(results);
}

static void on_fetched(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	struct worker *w = arg;

	w->parked = false;
	workers.fetches += measuring;
	if (w->returning) {
		refused += code == STATUS(FAILED_PRECONDITION);
		return;
	}
	if (code == STATUS(FAILED_PRECONDITION)) {
		workers.lost++;
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
	peer_call(connection_of(w->number), WORKER("Fetch"), &r.base, on_fetched, w);
}

/* --- all workers -------------------------------------------------------------------------------------------------- */

static void on_registered(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	struct worker *w = arg;

	if (code)
		give_up("a Register: %u %.*s", code, (int)length, (const char *)bytes);
	Reeve__V1__RegisterResponse *r = reeve__v1__register_response__unpack(NULL, length, bytes);
	w->incarnation = r->incarnation;
	w->seq = w->fetch_id = 0;
	heartbeat_ms = r->heartbeat_ms;
	workers.lease_ms = r->lease_ms;
	registered++;
	reeve__v1__register_response__free_unpacked(r, NULL);
	if (w->returning)
		return;
	beats_start(w);
	if (workers.fetching)
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
	peer_call(w->returning && elsewhere ? elsewhere : connection_of(w->number), WORKER("Register"), &r.base,
	    on_registered, w);
}

static int count_all(void)
{
	return options.workers + options.returning;
}

void workers_create(void)
{
	list = calloc((size_t)count_all(), sizeof *list);
	for (int i = 0; i < count_all(); i++) {
		list[i].number = i;
		list[i].returning = i >= options.workers;
	}
	if (options.elsewhere)
		elsewhere = connect_to(options.elsewhere);
}

double workers_register(void)
{
	int64_t began = now_ns();

	registered = 0;
	connections_open();
	for (int i = 0; i < count_all(); i++)
		register_one(&list[i]);
	turn_until("registered", &registered, count_all());
	workers.registered_ns = now_ns();
	return (double)(workers.registered_ns - began) / 1e9;
}

void workers_disconnect(void)
{
	for (int i = 0; i < count_all(); i++) {
		struct beat *call, *next;

		if (list[i].timer)
			event_free(list[i].timer);
		list[i].timer = NULL;
		DL_FOREACH_SAFE (list[i].beats, call, next)
			free(call); /* no answer comes on a closed connection */
		list[i].beats = NULL;
	}
	connections_close();
}

void workers_fetch(void)
{
	workers.fetching = true;
	for (int i = 0; i < options.workers; i++)
		fetch(&list[i], false);
}

double workers_come_back(void)
{
	int64_t began = now_ns();

	for (int i = options.workers; i < count_all(); i++) {
		list[i].fetch_id = 1;
		fetch(&list[i], true);
	}
	turn_until("refused", &refused, options.returning);
	return (double)(now_ns() - began) / 1e9;
}
