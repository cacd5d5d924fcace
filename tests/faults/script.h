/*
 * The job of a task in the fault tests. The task's details describe it. A program (fault-handler) and a C function
 * (fault-worker) do it in the same way and record it in the ledger.
 *
 *	NAME [run=MS] [until=FILE] [then=complete|fail|fatal|hang|crash] [fail=N] [crash=N] [stubborn] [plan=STEP/…]
 *	     [loop] [from=TOKEN]
 *
 * It runs for MS, and further until FILE exists. Then it ends as `then` says: it completes with the result "NAME
 * TOKEN", fails with the error "failed TOKEN", or fails fatally with the error "fatal TOKEN". `hang` runs until a
 * request to stop. `crash` kills its process by SIGKILL (for a C function, this is the worker). In the first N attempts
 * it crashes or fails instead (crash has precedence over fail). After a request to stop it ends at once, unless it is
 * stubborn.
 *
 * A task of a pipeline has a plan with one STEP for each stage that it passes through. From the second stage on it also
 * has from=TOKEN, the token of the attempt that ended the previous stage. A STEP is [MS][fN][>STAGE|.|!|-]: it runs for
 * MS and fails in its first N attempts. Then it completes and the task goes on:
 *
 *	without a sign  to the next stage in order
 *	>STAGE          to the stage of that name, wherever it is
 *	.               to its end
 *
 * With `!` it fails fatally instead, with `-` in every attempt. The result of such a task is the input of the next
 * stage: "NAME plan=REST from=TOKEN" and a tail of bytes that are hard to transport. `loop` appends the STEP to the
 * plan again. When the plan is empty, the task goes on in order.
 */
#ifndef TESTS_FAULTS_SCRIPT_H
#define TESTS_FAULTS_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

enum script_end { SCRIPT_COMPLETE, SCRIPT_FAIL, SCRIPT_FATAL, SCRIPT_HANG, SCRIPT_CRASH, SCRIPT_STOPPED };

enum { SCRIPT_PLAN = 256, SCRIPT_RESULT = 512 };

struct script {
	char name[128];
	int64_t run_ms;
	char until[256]; /* "": it waits for no file */
	enum script_end then;
	unsigned fail, crash; /* the number of first attempts that end so */
	bool stubborn;
	bool piped, loop;       /* piped: the task belongs to a pipeline */
	char plan[SCRIPT_PLAN]; /* the STEPs of the stages after this one */
	char stage[64];         /* the next stage; "": the next in order */
	bool ends_here;         /* the task ends after this stage */
};

/* One attempt, as the ledger identifies it. */
struct script_attempt {
	int ledger; /* descriptor */
	int64_t task, token;
	unsigned attempt;
	const char *host, *worker;
	const char *type, *details; /* as received */
	/* Waits for up to wait_ms. Returns whether a stop has been requested, now or before. */
	bool (*told)(void *arg, int wait_ms);
	void *arg;
};

/* Parses details. Returns false if the name is missing or too long, or if a word is invalid. */
bool script_parse(struct script *script, const char *details);

/* Writes the result of an attempt that completes to `text`, which has SCRIPT_RESULT bytes. */
void script_result(const struct script *script, int64_t token, char *text);

/* Does the job and writes its ledger lines: `start`, `alive` every 15 ms, `told`, `end`. Returns how it ended. After
 * SCRIPT_CRASH (which has no `end`) the caller must kill its process. */
enum script_end script_perform(const struct script *script, const struct script_attempt *attempt);

#endif
