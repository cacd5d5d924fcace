/*
 * An exec handler for the fault tests. It does the job that its details describe (script.h) and writes the ledger
 * FAULT_LEDGER/FAULT_WORKER.handler.
 *
 * In addition to the environment of every handler (REEVE_TASK_ID, REEVE_TASK_TYPE, REEVE_TOKEN, REEVE_ATTEMPT), the
 * worker's environment must have FAULT_LEDGER, the folder, and FAULT_WORKER, the worker's registered name. It may have
 * FAULT_HOST; the default is this machine's name.
 */
#include "tests/faults/ledger.h"
#include "tests/faults/script.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

static bool told(void *arg, int wait_ms)
{
	bool *was_told = arg;
	struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000L};
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	if (sigtimedwait(&term, NULL, &wait) == SIGTERM)
		*was_told = true;
	return *was_told;
}

static int64_t number(const char *variable)
{
	const char *text = getenv(variable);

	return text ? strtoll(text, NULL, 10) : 0;
}

int main(void)
{
	static char details[64 * 1024], result[SCRIPT_RESULT], host[256], worker[256], machine[256] = "localhost";
	const char *folder = getenv("FAULT_LEDGER"), *said_host = getenv("FAULT_HOST"),
	           *said_worker = getenv("FAULT_WORKER"), *type = getenv("REEVE_TASK_TYPE");
	bool was_told = false;
	struct script script;
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	details[fread(details, 1, sizeof details - 1, stdin)] = '\0';
	bool event = details[0] == '{'; /* submitted by Reeve: an entry or exit task, or a callback */
	if (event) {
		script = (struct script){.run_ms = 5, .then = SCRIPT_COMPLETE};
		snprintf(script.name, sizeof script.name, "event.%" PRId64, number("REEVE_TASK_ID"));
	}
	if (!folder || !said_worker || (!event && !script_parse(&script, details))) {
		fprintf(stderr, "FAULT_LEDGER or FAULT_WORKER is missing, or the details mean nothing\n");
		return EX_DATAERR;
	}
	gethostname(machine, sizeof machine - 1);
	ledger_name(host, sizeof host, said_host ? said_host : machine);
	ledger_name(worker, sizeof worker, said_worker);
	struct script_attempt attempt = {.ledger = ledger_open(folder, worker, "handler"),
	    .task = number("REEVE_TASK_ID"),
	    .token = number("REEVE_TOKEN"),
	    .attempt = (unsigned)number("REEVE_ATTEMPT"),
	    .host = host,
	    .worker = worker,
	    .type = type ? type : "",
	    .details = details,
	    .told = told,
	    .arg = &was_told};

	switch (script_perform(&script, &attempt)) {
	case SCRIPT_COMPLETE:
		if (script.ends_here || script.stage[0])
			dprintf(3, "{\"stage\": \"%s\"}", script.ends_here ? "end" : script.stage);
		script_result(&script, attempt.token, result);
		fputs(result, stdout);
		return 0;
	case SCRIPT_FAIL: fprintf(stderr, "failed %" PRId64, attempt.token); return 1;
	case SCRIPT_FATAL: fprintf(stderr, "fatal %" PRId64, attempt.token); return EX_DATAERR;
	case SCRIPT_CRASH: raise(SIGKILL); abort();
	default: return 128 + SIGTERM;
	}
}
