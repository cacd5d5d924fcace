/* A scrape that needs new numbers from the database waits for them, but not for long. */
#include "manager/service/scrape.h"

#include "manager/service/exposition.h"
#include "manager/service/scrape_text.h"

#include <reeve/v1/admin.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum {
	FRESH_MS = 5000, /* the database is asked again after this time */
	WAIT_MS = 2000,  /* … and a scrape waits so long for its answer */
	FORMATS = 2,
	TEXT_FRESH_MS = 1000,
};

struct waiting {
	struct rpc_call *call;
	bool open_metrics;
	struct waiting *next;
};

struct scrape {
	const struct services *services;
	struct store_fleet op;
	bool asking;
	struct waiting *waiting;
	struct scrape_fleet fleet;
	int64_t fleet_ms; /* when that was read; monotonic; 0: never */
	char *text[FORMATS];
	int64_t text_ms[FORMATS];
};

static int64_t now_ms(const struct scrape *s)
{
	return core_now(s->services->core);
}

static bool is_fresh(const struct scrape *s)
{
	return s->fleet_ms && now_ms(s) - s->fleet_ms < FRESH_MS;
}

/* Returns the metrics. While they are a moment old, they are not written again. */
static char *text_of(struct scrape *s, bool open_metrics)
{
	bool has_fleet = s->fleet_ms && now_ms(s) - s->fleet_ms < FRESH_MS + WAIT_MS;

	if (s->text[open_metrics] && now_ms(s) - s->text_ms[open_metrics] < TEXT_FRESH_MS &&
	    s->text_ms[open_metrics] >= s->fleet_ms)
		return s->text[open_metrics];
	free(s->text[open_metrics]);
	s->text[open_metrics] = scrape_text(s->services, has_fleet ? &s->fleet : NULL, open_metrics);
	s->text_ms[open_metrics] = now_ms(s);
	return s->text[open_metrics];
}

static void answer(struct scrape *s, struct rpc_call *call, bool open_metrics)
{
	Reeve__V1__ScrapeResponse response = REEVE__V1__SCRAPE_RESPONSE__INIT;

	response.content_type = open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
	                                     : "text/plain; version=0.0.4; charset=utf-8";
	response.text = text_of(s, open_metrics);
	rpc_call_reply(call, &response.base);
}

static bool answer_waiting(void *arg)
{
	struct scrape *s = arg;

	while (s->waiting) {
		struct waiting *w = s->waiting;

		s->waiting = w->next;
		answer(s, w->call, w->open_metrics);
		free(w);
	}
	return false;
}

static void on_fleet(struct store_op *op, const struct reeve_error *error)
{
	struct scrape *s = (struct scrape *)((char *)op - offsetof(struct scrape, op));

	s->asking = false;
	if (error) { /* perhaps the store is being closed: the job does not run any more then */
		jobs_at(s->services->core->base.jobs, JOB_SCRAPES, 0);
		return;
	}
	scrape_fleet_take(&s->fleet, &s->op);
	s->fleet_ms = now_ms(s);
	answer_waiting(s);
}

static void ask(struct scrape *s)
{
	if (s->asking)
		return;
	s->asking = true;
	s->op = (struct store_fleet){
	    .op.done = on_fleet,
	    .op.deadline_ms = now_ms(s) + WAIT_MS,
	    .routes = s->services->core->base.options.traffic_routes,
	};
	store_fleet(s->services->core->base.store, &s->op);
}

void scrape_method(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct scrape *s = ((const struct services *)service)->scrape;
	const Reeve__V1__ScrapeRequest *request = (const Reeve__V1__ScrapeRequest *)message;
	struct waiting *w;

	if (is_fresh(s) || !core_database_fresh(s->services->core)) {
		answer(s, call, request->open_metrics);
		return;
	}
	w = mem_calloc(1, sizeof *w);
	*w = (struct waiting){call, request->open_metrics, s->waiting};
	s->waiting = w;
	jobs_at(s->services->core->base.jobs, JOB_SCRAPES, now_ms(s) + WAIT_MS);
	ask(s);
}

struct scrape *scrape_create(const struct services *services)
{
	struct scrape *s = mem_calloc(1, sizeof *s);

	s->services = services;
	jobs_bind(services->core->base.jobs, JOB_SCRAPES, answer_waiting, s);
	return s;
}

void scrape_destroy(struct scrape *s)
{
	if (!s)
		return;
	while (s->waiting) { /* their calls belong to the server */
		struct waiting *w = s->waiting;

		s->waiting = w->next;
		free(w);
	}
	scrape_fleet_drop(&s->fleet);
	for (int i = 0; i < FORMATS; i++)
		free(s->text[i]);
	free(s);
}
