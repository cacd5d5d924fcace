/*
 * What a task of the fault tests does: told by its details, done the same way by a program (fault-handler) and by a C
 * function (fault-worker), and kept in the ledger.
 *
 *	NAME [run=MS] [then=complete|fail|fatal|hang|crash] [fail=N] [crash=N] [stubborn]
 *
 * It runs for MS, then ends as `then` says: completed with the result "NAME TOKEN", failed with the error "failed
 *TOKEN", fatally with "fatal TOKEN"; `hang` runs until it is told to stop, `crash` kills its process by SIGKILL (a C
 *function's is the worker). In the first N attempts it crashes or fails instead (crash before fail). When it is told to
 *stop it ends at once, unless it is stubborn.
 */
#ifndef TESTS_FAULTS_DEED_H
#define TESTS_FAULTS_DEED_H

#include <stdbool.h>
#include <stdint.h>

enum deed_end { DEED_COMPLETE, DEED_FAIL, DEED_FATAL, DEED_HANG, DEED_CRASH, DEED_STOPPED };

struct deed {
	char name[128];
	int64_t run_ms;
	enum deed_end then;
	unsigned fail, crash; /* in so many attempts at first */
	bool stubborn;
};

/* One attempt, as the ledger names it. */
struct deed_attempt {
	int ledger; /* its descriptor */
	int64_t task, token;
	unsigned attempt;
	const char *host, *worker;
	/* Waits for up to so long; whether it has been told to stop, now or before. */
	bool (*told)(void *arg, int wait_ms);
	void *arg;
};

/* Reads details. False: there is no name, or a word means nothing. */
bool deed_parse(struct deed *deed, const char *details);

/* Does it, with its ledger lines: `start`, `alive` every 15 ms, `told`, `end`. How it ended; after DEED_CRASH (which
 * has no `end`) the caller kills its process. */
enum deed_end deed_perform(const struct deed *deed, const struct deed_attempt *attempt);

#endif
