/* Times of calls of one kind that are sent during a measurement, such as all heartbeats. */
#ifndef REEVE_BENCH_TIMINGS_H
#define REEVE_BENCH_TIMINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timings {
	const char *name;
	int64_t *spans; /* ns, of calls that were answered without an error */
	size_t count;
	int open, errors;
	bool measuring;
	int measurement; /* the number of the last one; 0: none has begun */
};

/* A call whose answer is timed. */
struct timed {
	struct timings *timings;
	int64_t sent_ns;
	int measurement; /* the one in which it was sent; 0: none */
};

/* Starts a measurement of calls that are sent from now on. Calls of the one before are not counted anymore. */
void timings_begin(struct timings *timings);

/* Stops measuring: calls sent from now on are not counted. */
void timings_end(struct timings *timings);

/* Note that a call was sent, and that it was answered. */
void timed_sent(struct timed *call, struct timings *timings);
void timed_answered(struct timed *call, bool good);

/* Writes the figures PREFIX NAME_p50 and so on, NAME_max, NAME_errors, NAME_unanswered. */
void timings_report(struct timings *timings, const char *prefix);

#endif
