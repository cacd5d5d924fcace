/*
 * Limits log messages about callers' mistakes: one message for each subject, and up to REMARKS_A_SECOND in a second, so
 * that callers cannot fill the log. Memory is bounded: a subject can be logged again after others have replaced it.
 */
#ifndef REEVE_MANAGER_CORE_REMARKS_H
#define REEVE_MANAGER_CORE_REMARKS_H

#include <stdbool.h>
#include <stdint.h>

enum { REMARKS_KEPT = 256, REMARKS_A_SECOND = 10 };

/* Ready for use when zeroed. */
struct remarks {
	uint64_t seen[REMARKS_KEPT];
	int64_t second;
	int in_second;
};

/* Returns whether to log a message. Its subject is a kind and two numbers. */
bool remarks_new(struct remarks *remarks, int kind, int64_t a, int64_t b, int64_t now_ms);

#endif
