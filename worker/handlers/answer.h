/*
 * What a program says of its own end, by members of its messages on descriptor 3 (messages.h):
 *
 *     {"directive": "RETRY", "remark": "page 3 of 7", "error": "503 of the printer", "error_code": "busy",
 *      "stack": "…", "retry_in": "10m"}
 *     {"directive": "SUCCESS", "stage": "polish"}
 *
 * The last message that has a member counts for it. null is as good as not there.
 */
#ifndef REEVE_WORKER_HANDLERS_ANSWER_H
#define REEVE_WORKER_HANDLERS_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum directive {
	DIRECTIVE_NONE, /* its exit code says what became of it */
	DIRECTIVE_SUCCESS,
	DIRECTIVE_RETRY,
	DIRECTIVE_NO_RETRY,
};

/* All zero: nothing said. The texts are owned, NULL for none. */
struct answer {
	enum directive directive;
	char *remark;
	char *error;
	char *code;
	char *stack;
	int64_t retry_in_ms; /* above 0; 0: not said */
	char *stage;         /* of its pipeline, that is to follow a success */
};

/* Takes over what a message has of it. False: a member has a wrong value, which is left out; `problem` says which (the
 * first), and the others are taken all the same. Or a stage has been named by one that does not succeed. */
bool answer_take(struct answer *answer, const json_t *message, char *problem, size_t size);

/* A duration as programs write it: "90s", "10m", or a number of seconds. False: it is none, or negative. */
bool answer_duration(const json_t *value, int64_t *ms);

/* Frees the texts. */
void answer_clear(struct answer *answer);

#endif
