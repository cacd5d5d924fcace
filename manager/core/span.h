/* A span of a task's life, for tracing: see spans.h. */
#ifndef REEVE_MANAGER_CORE_SPAN_H
#define REEVE_MANAGER_CORE_SPAN_H

#include <stdbool.h>
#include <stdint.h>

enum { TRACEPARENT_BYTES = 56 };

enum span_kind { SPAN_SUBMIT, SPAN_WAIT, SPAN_RUN };

struct span {
	enum span_kind kind;
	const char *traceparent; /* the task's */
	bool root; /* the trace begins with this span, whose id is in the traceparent; else that is its parent */
	int64_t task;
	const char *queue, *type;
	int attempt;    /* not of a submit */
	int64_t worker; /* its incarnation; only of an attempt */
	int64_t from_us, to_us;
	const char *outcome;    /* only of an attempt */
	const char *problem;    /* why it did not succeed, or NULL */
	const char *error_code; /* or NULL */
};

#endif
