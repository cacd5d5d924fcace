/*
 * Remarks about what callers get wrong: each about the same thing is logged once, and not more than a few a second, however
 * often it comes, so that nobody can fill the log. Memory is bounded: what was remarked long ago may be again.
 */
#ifndef REEVE_MANAGER_CORE_REMARKS_H
#define REEVE_MANAGER_CORE_REMARKS_H

#include <stdbool.h>
#include <stdint.h>

enum { REMARKS_KEPT = 256, REMARKS_A_SECOND = 10 };

/* Zeroed, it is ready. */
struct remarks {
	uint64_t said[REMARKS_KEPT];
	int64_t second;
	int in_second;
};

/* Whether to say it: what is said is named by two numbers and a kind. */
bool remarks_new(struct remarks *remarks, int kind, int64_t a, int64_t b, int64_t now_ms);

#endif
