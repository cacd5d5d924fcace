/* The manager: its event loop and the parts that run on it. */
#ifndef REEVE_MANAGER_MANAGER_H
#define REEVE_MANAGER_MANAGER_H

#include "common/rpc/server.h"
#include "manager/access/access.h"
#include "manager/archive/archive.h"
#include "manager/callbacks/callbacks.h"
#include "manager/core/core.h"
#include "manager/http/http.h"
#include "manager/options.h"
#include "manager/service/counters.h"
#include "manager/service/services.h"
#include "manager/traces/traces.h"

struct manager {
	struct event_base *base;
	struct event *timer, *dispatch, *terminate, *interrupt, *hangup;
	int argc; /* the command line, which SIGHUP reads again */
	char **argv;
	int64_t timer_ms;   /* when `timer`, the timer of the jobs, expires; monotonic. INT64_MAX: not set */
	int64_t resume_ms;  /* when it may claim again after it was frozen; monotonic */
	bool dispatch_held; /* a dispatch waits for that time */
	struct jobs *jobs;
	struct store *store;
	struct store_stop shutdown_notice; /* the shutdown notice to the other managers */
	bool stopping;
	int stop_steps; /* that have not ended yet */
	bool outdated;  /* it stops because a newer manager has upgraded the schema */
	struct core *core;
	struct callbacks *callbacks;
	struct traces *traces;   /* NULL: none are made */
	struct archive *archive; /* NULL: no archive is kept */
	struct rpc_server *server;
	struct access *access;
	struct http_api *http; /* NULL: it takes no calls by HTTP */
	struct tls *tls;       /* NULL: no certificate */
	struct services services;
	struct counters_writer *counters;
	char name[256];
};

/* Opens all parts and listens. The caller sets argc and argv before, which are kept. Returns false with *error; then
 * call manager_close. */
bool manager_open(struct manager *manager, const struct manager_options *options, struct reeve_error *error);

/* Runs until SIGTERM or SIGINT. Returns false, and logs it, if it stopped because the database's schema is newer than
 * this program's. SIGHUP reads the log level and the certificates again. */
bool manager_run(struct manager *manager);

/* Closes all parts that are open. The manager may be zeroed or partly opened. */
void manager_close(struct manager *manager);

#endif
