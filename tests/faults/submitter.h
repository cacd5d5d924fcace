/* What the parts of fault-submitter share. */
#ifndef TESTS_FAULTS_SUBMITTER_H
#define TESTS_FAULTS_SUBMITTER_H

#include <pthread.h>
#include <reeve/v1/batch_calls.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CALL_TASKS = 4,
	CHOICES_MAX = 1024,
	RECENT = 64, /* acknowledged tasks that a thread remembers, to cancel and query them */
};

struct choice {
	char name[64];
	unsigned weight;
};

struct choices {
	struct choice list[CHOICES_MAX];
	int count;
	unsigned total;
};

extern struct submitter_options {
	const char *managers, *folder, *name;
	uint64_t seed;
	double rate;
	int64_t count, patience_ms;
	struct choices types, mix;
	unsigned cancel, keyed, again, look, batches, piped; /* percentages */
	const char *callback, *queue, *pipeline;
	int threads, ledger, priority;
	bool clock_jumps;
} options;

extern struct reeve_client *client;
extern atomic_bool patience_over;
extern atomic_long numbers; /* of tasks so far */

/* The numbers of what happened. */
extern struct outcomes {
	atomic_long submitted, acknowledged, cancels, calls_again, unanswered, too_old, wrong;
} outcomes;

/* A thread of the submitter. */
struct submitter {
	pthread_t thread;
	uint64_t random;
	int64_t recent[RECENT];
	long n_recent;
};

/* One call. It keeps its request id when it is sent again. */
struct call {
	uint8_t request_id[REEVE_REQUEST_ID];
	size_t count;
	int64_t batch; /* 0: none */
	Reeve__V1__TaskSpec specs[CALL_TASKS];
	char names[CALL_TASKS][160], details[CALL_TASKS][256]; /* the specs point to these */
	Reeve__V1__SubmittedTask answered[CALL_TASKS];
};

/* --- what is submitted (submitter_tasks.c) ------------------------------------------------------------------------ */

/* Returns a random number below `below`. */
uint64_t draw(struct submitter *me, uint64_t below);

/* Parses "A=3,B=1". */
bool read_choices(struct choices *choices, const char *text);

bool known_kinds(const struct choices *mix);

/* Adds a random task to a call. */
void add_task(struct submitter *me, struct call *call);

/* --- calls (submitter_calls.c) ------------------------------------------------------------------------------------ */

/* Submits random tasks; `batch` 0: to none. Returns false if it gave up. */
bool submit(struct submitter *me, size_t count, int64_t batch);

/* Opens, fills and closes a batch. */
void whole_batch(struct submitter *me);

/* Cancels the task that was submitted last. */
void cancel(struct submitter *me);

/* Queries an acknowledged task, for the checker: the task must always exist, and must not change once it has ended. */
void look(struct submitter *me);

#endif
