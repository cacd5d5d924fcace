/* The manager as a whole: the loop, and what hangs on it. */
#ifndef REEVE_MANAGER_MANAGER_H
#define REEVE_MANAGER_MANAGER_H

#include "common/rpc/server.h"
#include "manager/archive/archive.h"
#include "manager/callbacks/callbacks.h"
#include "manager/core/core.h"
#include "manager/options.h"
#include "manager/service/counters.h"
#include "manager/service/services.h"

struct manager {
	struct event_base *base;
	struct event *alarm, *dispatch, *terminate, *interrupt, *hangup;
	int argc;                    /* the command line, to be read again on SIGHUP */
	char **argv;
	int64_t alarm_ms;            /* when the alarm of the jobs is set to go off; monotonic */
	struct jobs *jobs;
	struct store *store;
	struct store_stop farewell;  /* tells the other managers that this one stops */
	bool stopping;
	bool outdated;               /* it stops because a newer one has brought the schema up */
	struct core *core;
	struct callbacks *callbacks;
	struct archive *archive;     /* NULL: none is kept */
	struct rpc_server *server;
	struct services services;
	struct counters_writer *counters;
	char name[256];
};

/* Sets the log up by the options. */
bool manager_log_setup(const struct manager_options *options, struct reeve_error *error);

/* Opens everything and listens. argc and argv are set before, and kept. */
bool manager_open(struct manager *manager, const struct manager_options *options, struct reeve_error *error);

/* Runs until SIGTERM or SIGINT, SIGHUP reads the log level again; or until the database's schema is newer than this program's: false, and the log says it. */
bool manager_run(struct manager *manager);

/* Closes what is open; a zeroed or half-opened manager too. */
void manager_close(struct manager *manager);

#endif
