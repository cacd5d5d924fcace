/*
 * What a program reports about its outcome, as members of its messages on descriptor 3 (messages.h):
 *
 *     {"directive": "RETRY", "remark": "page 3 of 7", "error": "503 of the printer", "error_code": "busy",
 *      "stack_trace": "…", "retry_in": "10m"}
 *     {"directive": "SUCCESS", "stage": "polish"}
 *     {"directive": "NO_RETRY | the address does not exist"}
 *
 * A text after the directive and a bar is the remark, and the error of an attempt that failed.
 *
 * The last message with a member decides its value. A null member is ignored.
 */
#ifndef REEVE_WORKER_HANDLERS_ANSWER_H
#define REEVE_WORKER_HANDLERS_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum directive {
	DIRECTIVE_NONE, /* the exit code decides */
	DIRECTIVE_SUCCESS,
	DIRECTIVE_RETRY,
	DIRECTIVE_NO_RETRY,
	DIRECTIVE_SKIP,    /* the handler declines the task */
	DIRECTIVE_UNKNOWN, /* it is none of these */
};

/* All zero: nothing reported. Strings are owned; NULL: not set. */
struct answer {
	enum directive directive;
	char *remark;
	char *error;
	char *code;
	char *stack_trace;
	int64_t retry_in_ms; /* greater than 0; 0: not set */
	char *stage;         /* the pipeline stage that follows a success */
};

/* Copies the members of a message. False: a member is invalid; it is ignored, `problem` describes the first one, and
 * the others are still copied. Also false if a stage is set together with a directive other than SUCCESS. */
bool answer_take(struct answer *answer, const json_t *message, char *problem, size_t size);

/* Parses a duration as programs write it: "90s", "10m", or a number of seconds. False: it is invalid or negative. */
bool answer_duration(const json_t *value, int64_t *ms);

/* Frees the strings. */
void answer_clear(struct answer *answer);

#endif
