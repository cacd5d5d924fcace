/*
 * A worker for the fault tests whose handler is a C function. It does the job that a task's details describe (script.h)
 * and writes the ledger FOLDER/NAME.handler.
 *
 *	fault-worker --manager URL[,URL] --ledger FOLDER --name NAME [--host HOST] [--type TYPE[,TYPE]] [--concurrency N]
 *	             [--prefetch N] [--drain-timeout MS] [--kill-grace MS] [--handlers FILE]
 *
 * The default types are fault-function, stage-a and stage-c. With --handlers it also runs programs, like reeve-worker.
 */
#include "tests/faults/ledger.h"
#include "tests/faults/script.h"

#include <getopt.h>
#include <inttypes.h>
#include <reeve/worker.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct place {
	int ledger;
	char host[256], worker[256];
};

/* Waits, and returns whether a stop was requested. The wait is short, so that a request is noticed soon. */
static bool told(void *arg, int wait_ms)
{
	usleep((useconds_t)wait_ms * 1000);
	return reeve_attempt_cancelled(arg);
}

static int perform(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	const struct place *place = attempt->user_data;
	struct script_attempt doing = {.ledger = place->ledger,
	    .task = attempt->task_id,
	    .token = attempt->token,
	    .attempt = attempt->attempt,
	    .host = place->host,
	    .worker = place->worker,
	    .type = attempt->type,
	    .details = attempt->details,
	    .told = told,
	    .arg = (void *)attempt};
	struct script script;
	char text[SCRIPT_RESULT];

	if (!script_parse(&script, attempt->details))
		return reeve_outcome_fatal(outcome, "details", "the details mean nothing");
	switch (script_perform(&script, &doing)) {
	case SCRIPT_COMPLETE:
		if (script.ends_here || script.stage[0])
			reeve_outcome_stage(outcome, script.ends_here ? "end" : script.stage);
		script_result(&script, attempt->token, text);
		return reeve_outcome_complete(outcome, text);
	case SCRIPT_FAIL:
		snprintf(text, sizeof text, "failed %" PRId64, attempt->token);
		return reeve_outcome_fail(outcome, "fault", text);
	case SCRIPT_FATAL:
		snprintf(text, sizeof text, "fatal %" PRId64, attempt->token);
		return reeve_outcome_fatal(outcome, "fault", text);
	case SCRIPT_CRASH: raise(SIGKILL); abort();
	default: return reeve_outcome_fail(outcome, "stopped", "told to stop");
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"manager", required_argument, NULL, 'm'},
	    {"ledger", required_argument, NULL, 'l'},
	    {"name", required_argument, NULL, 'n'},
	    {"host", required_argument, NULL, 'o'},
	    {"type", required_argument, NULL, 't'},
	    {"concurrency", required_argument, NULL, 'c'},
	    {"prefetch", required_argument, NULL, 'p'},
	    {"drain-timeout", required_argument, NULL, 'd'},
	    {"kill-grace", required_argument, NULL, 'g'},
	    {"handlers", required_argument, NULL, 'h'},
	    {0},
	};
	struct reeve_worker_options wanted = {.concurrency = 4};
	const char *folder = NULL, *host = NULL, *handlers = NULL;
	char machine[256] = "localhost", default_types[] = "fault-function,stage-a,stage-c", *types = default_types,
	     *rest = NULL;
	struct place place;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (option) {
		case 'm': wanted.managers = optarg; break;
		case 'l': folder = optarg; break;
		case 'n': wanted.name = optarg; break;
		case 'o': host = optarg; break;
		case 't': types = optarg; break;
		case 'c': wanted.concurrency = atoi(optarg); break;
		case 'p': wanted.prefetch = atoi(optarg); break;
		case 'd': wanted.drain_timeout_ms = atoll(optarg); break;
		case 'g': wanted.kill_grace_ms = atoll(optarg); break;
		case 'h': handlers = optarg; break;
		default: return 2;
		}
	}
	if (!folder || !wanted.name || optind < argc) {
		fprintf(stderr, "fault-worker: --ledger FOLDER and --name NAME are needed\n");
		return 2;
	}
	gethostname(machine, sizeof machine - 1);
	ledger_name(place.host, sizeof place.host, host ? host : machine);
	ledger_name(place.worker, sizeof place.worker, wanted.name);
	place.ledger = ledger_open(folder, place.worker, "handler");
	struct reeve_worker *worker = reeve_worker_create(&wanted);

	for (char *type = strtok_r(types, ",", &rest); type; type = strtok_r(NULL, ",", &rest))
		reeve_worker_handle(worker, type, perform, &place);
	if (handlers)
		reeve_worker_handle_file(worker, handlers);
	reeve_worker_stop_on_signals(worker);
	int code = reeve_worker_run(worker);

	if (code)
		fprintf(stderr, "fault-worker: %s\n", reeve_worker_error(worker));
	reeve_worker_destroy(worker);
	close(place.ledger);
	return code;
}
