/*
 * Traces: sends spans of tasks' lives to a collector of OpenTelemetry, as OTLP over HTTP with JSON. Spans wait for a
 * second, or for the end of the previous request, and are sent together. At most 4 MiB of them wait. Spans that the
 * collector does not accept are lost: tracing delays nothing.
 */
#ifndef REEVE_MANAGER_TRACES_TRACES_H
#define REEVE_MANAGER_TRACES_TRACES_H

#include "common/error.h"
#include "manager/core/span.h"
#include "manager/jobs/jobs.h"

#include <event2/event.h>

struct traces;

struct traces_options {
	const char *url;     /* of the collector: http://host:4318, or with its path */
	double sample;       /* the share of tasks without a trace context whose trace begins here, from 0 to 1 */
	const char *manager; /* the manager's name */
	const char *ca_file; /* certificates to trust, PEM; NULL: the system's */
};

/* Binds the job "traces". Copies the options, except the CA file. Returns NULL with *error. */
struct traces *traces_create(
    struct event_base *base, struct jobs *jobs, const struct traces_options *options, struct reeve_error *error);
void traces_destroy(struct traces *traces); /* NULL is allowed */

/* Decides whether a new trace begins. If so, writes its traceparent and returns true. */
bool traces_begin(struct traces *traces, char traceparent[TRACEPARENT_BYTES]);

/* Adds a span. */
void traces_add(struct traces *traces, const struct span *span);

struct traces_counts {
	int64_t sent, lost; /* spans since the start */
};

struct traces_counts traces_counts(const struct traces *traces);

typedef void traces_done(void *arg);

/* Sends the waiting spans at once. Calls `done` once when that has ended, possibly before this returns. `traces` may be
 * NULL. */
void traces_finish(struct traces *traces, traces_done *done, void *arg);

#endif
