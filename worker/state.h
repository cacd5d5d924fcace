/* The worker: all its parts (shared.h has the threads and the lock). */
#ifndef REEVE_WORKER_STATE_H
#define REEVE_WORKER_STATE_H

#include "worker/commands.h"
#include "worker/drain.h"
#include "worker/extensions.h"
#include "worker/fetcher.h"
#include "worker/heartbeats.h"
#include "worker/progress.h"
#include "worker/reporter.h"
#include "worker/watchdog_check.h"

struct reeve_worker {
	struct shared shared;
	struct life life;
	struct supervisor_client *supervisor; /* NULL: none */
	struct heartbeat_timer timer;
	struct handler_set handlers;
	struct fetches fetches;
	struct in_flight in_flight;
	struct slots slots;
	struct session session;
	struct extensions extensions;
	struct progress progress;
	struct commands commands;
	struct fetcher fetcher;
	struct reporter reporter;
	struct heartbeats heartbeats;
	struct watchdog_check watchdog_check;
	struct drain drain;
	char *result_store; /* the directory for long results; NULL: none */
};

#endif
