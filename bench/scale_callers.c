/* The callers of bench-scale that are no workers: one that submits, one that pings, one with invented incarnations. */
#include "bench/scale.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>

enum { BULK = 1000, PING_EVERY_MS = 20 };

static struct peer *control, *forger;
static int submitted;
static int64_t refused; /* invented Fetches, while measuring */

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
		char(*names)[32] = calloc((size_t)bulk, sizeof *names);

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

void callers_submit(void)
{
	submit(0, options.routes, true);
	submit(0, options.tasks, false);
	turn_until("submitted", &submitted, options.routes + options.tasks);
}

static struct timed ping_call; /* one at a time */

static void on_ping(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	const struct timeval next = {0, PING_EVERY_MS * 1000};

	(void)bytes, (void)length;
	timed_answered(&ping_call, code == 0);
	event_add(arg, &next);
}

static void ping(evutil_socket_t fd, short what, void *arg)
{
	Reeve__V1__PingRequest r = REEVE__V1__PING_REQUEST__INIT;

	(void)fd, (void)what;
	timed_sent(&ping_call, &pings);
	peer_call(control, "/reeve.v1.AdminService/Ping", &r.base, on_ping, arg);
}

void callers_begin(void)
{
	control = connect_to(options.manager);
	ping(-1, 0, evtimer_new(base, ping, event_self_cbarg()));
}

static void invent(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	static const char *type = "scale_none";
	static int64_t next_incarnation = INT64_C(1) << 40;
	Reeve__V1__FetchRequest r = REEVE__V1__FETCH_REQUEST__INIT;

	(void)code, (void)bytes;
	refused += measuring && length;
	r.incarnation = next_incarnation++;
	r.fetch_id = 1;
	r.slots = (uint32_t)options.slots;
	r.types = &type;
	r.n_types = 1;
	r.wait_ms = PARK_MS;
	peer_call(forger, WORKER("Fetch"), &r.base, invent, arg);
}

void callers_invent(void)
{
	forger = connect_to(options.manager);
	for (int i = 0; i < options.invented; i++)
		invent(NULL, 0, NULL, 0);
}

int64_t callers_refused(void)
{
	return refused;
}
