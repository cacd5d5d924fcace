/*
 * What a task of the fault tests does: told by its details, done the same way by a program (fault-handler) and by a C
 * function (fault-worker), and kept in the ledger.
 *
 *	NAME [run=MS] [then=complete|fail|fatal|hang|crash] [fail=N] [crash=N] [stubborn] [plan=STEP/…] [loop]
 *	     [from=TOKEN]
 *
 * It runs for MS, then ends as `then` says: completed with the result "NAME TOKEN", failed with the error
 * "failed TOKEN", fatally with "fatal TOKEN"; `hang` runs until it is told to stop, `crash` kills its process
 * by SIGKILL (a C function's is the worker). In the first N attempts it crashes or fails instead (crash before
 * fail). When it is told to stop it ends at once, unless it is stubborn.
 *
 * A task of a pipeline has a plan, one STEP for each stage that it passes through, and from the second on
 * from=TOKEN: of the attempt that ended the stage before. A STEP is [MS][fN][>STAGE|.|!|-]: it runs for MS,
 * fails in its first N attempts, and then completes and goes on in order; or to the stage of that name,
 * wherever it is; or completes and ends the task here; or fails fatally; or fails in each attempt. The result
 * of such a task is what the next stage is to do: "NAME plan=REST from=TOKEN" and a tail that is hard to
 * carry; `loop` puts the STEP at the plan's end again. When the plan is over it goes on in order.
 */
#ifndef TESTS_FAULTS_DEED_H
#define TESTS_FAULTS_DEED_H

#include <stdbool.h>
#include <stdint.h>

enum deed_end { DEED_COMPLETE, DEED_FAIL, DEED_FATAL, DEED_HANG, DEED_CRASH, DEED_STOPPED };

enum { DEED_PLAN = 256, DEED_RESULT = 512 };

struct deed {
	char name[128];
	int64_t run_ms;
	enum deed_end then;
	unsigned fail, crash; /* in so many attempts at first */
	bool stubborn;
	bool piped, loop;     /* it is of a pipeline, */
	char plan[DEED_PLAN]; /* has this to do in the stages after this one, */
	char stage[64];       /* and chooses this stage for the next; "": goes on in order */
	bool ends_here;       /* or chooses to end the task after this stage */
};

/* One attempt, as the ledger names it. */
struct deed_attempt {
	int ledger; /* its descriptor */
	int64_t task, token;
	unsigned attempt;
	const char *host, *worker;
	const char *type, *details; /* as they came */
	/* Waits for up to so long; whether it has been told to stop, now or before. */
	bool (*told)(void *arg, int wait_ms);
	void *arg;
};

/* Reads details. False: there is no name, or a word means nothing. */
bool deed_parse(struct deed *deed, const char *details);

/* The result of an attempt that completes. `text` has DEED_RESULT bytes. */
void deed_result(const struct deed *deed, int64_t token, char *text);

/* Does it, with its ledger lines: `start`, `alive` every 15 ms, `told`, `end`. How it ended; after DEED_CRASH (which
 * has no `end`) the caller kills its process. */
enum deed_end deed_perform(const struct deed *deed, const struct deed_attempt *attempt);

#endif
