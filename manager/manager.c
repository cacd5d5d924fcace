/* Opens the manager's parts and closes them, and passes the loop's events and signals to them. */
#include "manager/manager.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "manager/core/activity.h"
#include "manager/memory.h"
#include "manager/service/call_keys.h"
#include "manager/service/scrape.h"
#include "manager/store/admin_token.h"

#include <assert.h>
#include <event2/event.h>
#include <signal.h>
#include <sql/sql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ANSWER_BYTES = 4 << 20,
	ENVELOPE_BYTES = 64 << 10,
	STOP_MS = 1000,
	PRIORITIES_LIMIT = 1024,
	STREAMS_LIMIT = 100000
};

/* Tasks that a Fetch excludes must not hide others. */
static_assert(PRIORITIES_LIMIT > LIMIT_EXCLUDED, "of each priority kept, a Fetch may exclude a task");

enum {
	FROZEN_MS = 1000,     /* a timer that expires this late shows that the process was frozen */
	RESUME_AFTER_MS = 50, /* for how long it then does not claim */
};

/* Detects that this process was frozen: the timer of the jobs is much too late. The manager then reads its sockets for
 * RESUME_AFTER_MS before it claims: an old Fetch may be followed by the end of its connection, because its worker has
 * gone to another manager. A second freeze does not prolong a pause that a dispatch waits for. */
static void freeze_detect(struct manager *m, int64_t now_ms)
{
	if (now_ms - m->timer_ms > FROZEN_MS && !m->dispatch_held)
		m->resume_ms = now_ms + RESUME_AFTER_MS;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct manager *m = arg;
	(void)fd, (void)what;
	freeze_detect(m, clock_monotonic_ms());
	m->timer_ms = INT64_MAX;
	core_turn(m->core);
}

static void timer_start(struct event *timer, int64_t wait_ms)
{
	const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
	event_add(timer, &wait);
}

/* Sets the timer of the jobs to this time (monotonic, in ms; now, if it has passed), unless it expires earlier. */
static void timer_set(void *arg, int64_t at_ms)
{
	struct manager *m = arg;
	int64_t now_ms = clock_monotonic_ms();
	freeze_detect(m, now_ms);
	if (at_ms >= m->timer_ms)
		return;
	m->timer_ms = at_ms > now_ms ? at_ms : now_ms;
	timer_start(m->timer, m->timer_ms - now_ms);
}

/* Writes answers before it claims: a claim wakes a backend of PostgreSQL, which may take the processor before the
 * answers are written. */
static void on_dispatch(evutil_socket_t fd, short what, void *arg)
{
	struct manager *m = arg;
	int64_t now_ms = clock_monotonic_ms();
	(void)fd, (void)what;
	rpc_server_flush(m->server);
	freeze_detect(m, now_ms);
	m->dispatch_held = now_ms < m->resume_ms;
	if (m->dispatch_held)
		timer_start(m->dispatch, m->resume_ms - now_ms);
	else
		core_dispatch(m->core);
}

static void dispatch_due(void *arg)
{
	struct manager *m = arg;
	event_active(m->dispatch, EV_TIMEOUT, 0);
}

static int64_t database_us(void *arg)
{
	const struct manager *m = arg;
	return m->core ? core_database_us(m->core) : 0;
}

/* Returns the time for request ids. An id of 1970 would be taken for one that has expired. */
static int64_t call_us(void *arg)
{
	const struct manager *m = arg;
	return services_now_us(&m->services);
}

/* Ends the loop after the last step of the stop. */
static void on_stop_step(void *arg)
{
	struct manager *m = arg;
	if (!--m->stop_steps)
		event_base_loopbreak(m->base);
}

static void on_shutdown_notice(struct store_op *op, const struct reeve_error *error)
{
	(void)error; /* without the notice the other managers detect the stop a little later */
	on_stop_step((char *)op - offsetof(struct manager, shutdown_notice));
}

/* Sends the shutdown notice, so that the other managers take over this one's tasks at once, and the numbers and spans
 * that wait, and then ends the loop. Ends it without that if the database is not connected, on a second signal, or
 * after STOP_MS. */
static void stop(struct manager *m)
{
	if (m->stopping || !store_up(m->store)) {
		event_base_loopbreak(m->base);
		return;
	}
	m->stopping = true;
	m->stop_steps = m->outdated ? 2 : 3;
	jobs_bind(m->jobs, JOB_HEARTBEAT, NULL, NULL); /* it would revoke the notice */
	m->shutdown_notice = (struct store_stop){.op.done = on_shutdown_notice};
	store_stop(m->store, &m->shutdown_notice);
	traces_finish(m->traces, on_stop_step, m);
	if (!m->outdated)
		activity_finish(m->core->activity, on_stop_step, m);
	const struct timeval limit = {.tv_sec = STOP_MS / 1000};
	event_base_loopexit(m->base, &limit);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct manager *m = arg;
	(void)what;
	log_info(NULL, "stopping: %s", strsignal(number));
	stop(m);
}

/* Reads all options again and applies the log level, and reads the files of certificates again. Other changes in the
 * file take effect at the next start. */
static void on_hangup(evutil_socket_t number, short what, void *arg)
{
	const struct manager *m = arg;
	struct manager_options options = {0};
	struct reeve_error error;
	char wants = 0;
	(void)number, (void)what;
	if (!manager_options_read(&options, m->argc, m->argv, &wants, &error)) {
		log_error(NULL, "reloading on SIGHUP: %s; the log level stays as it was", error.message);
		return;
	}
	log_set_level(log_level_named(options.log_level));
	log_info(NULL, "reloaded on SIGHUP: the log level is %s", options.log_level);
	if (m->tls && tls_reload(m->tls, &error))
		log_info(NULL, "reloaded on SIGHUP: the certificates");
	else if (m->tls)
		log_error(NULL, "reloading on SIGHUP: %s; what was read of it before stays in use", error.message);
}

/* Stops the manager: a newer program has changed the tables, so its own writes to them would be wrong. */
static void on_outdated(void *arg, int schema)
{
	struct manager *m = arg;
	if (m->outdated)
		return;
	m->outdated = true;
	log_error(NULL,
	    "stopping: the database's schema is version %d now, newer than this program's %d; use a newer reeve-manager",
	    schema, SQL_VERSION);
	stop(m);
}

static void on_notified(void *arg, const char *payload)
{
	struct manager *m = arg;
	core_notified(m->core, payload);
}

static void on_listening(void *arg)
{
	struct manager *m = arg;
	core_listening(m->core);
}

/* Listens on a list of URLs, for nng or for HTTP. */
static bool listen_all(struct manager *m, const char *urls, bool http, struct reeve_error *error)
{
	char *list = mem_strdup(urls), *rest = NULL;
	bool good = true;
	for (char *url = strtok_r(list, ",", &rest); good && url; url = strtok_r(NULL, ",", &rest)) {
		good = http ? http_api_listen(m->http, m->server, url, error) : rpc_server_listen(m->server, url, error);
		if (good)
			log_info(NULL, "listening on %s", rpc_server_url(m->server));
	}
	free(list);
	return good;
}

/* Says who may call without an access token. If some callers need one, an admin must have one. */
static bool callers_check(struct manager *m, const struct manager_options *o, struct reeve_error *error)
{
	const char *exposed = rpc_server_exposed(m->server, true);
	bool required = !strcmp(o->auth, "required"), created = false;
	if (exposed && !o->insecure)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "other machines can reach %s, and connections, with their access tokens, are not encrypted; use TLS (tls+…) or, if "
		    "their network is trusted, start with --insecure",
		    exposed);
	if (exposed)
		log_warn(NULL, "--insecure: other machines can reach %s, and connections are not encrypted", exposed);
	log_info(NULL, "callers on this machine without an access token may do %s (--auth %s)",
	    required ? "nothing" : "everything", o->auth);
	if ((required || rpc_server_exposed(m->server, false)) &&
	    !admin_token_create(o->database, true, o->admin_token_file, &created, error))
		return false;
	if (created)
		log_info(NULL, "created the first admin's access token, in %s",
		    o->admin_token_file ? o->admin_token_file : "the standard output");
	return true;
}

static void name_set(struct manager *m, const char *name)
{
	char host[128] = "localhost";
	gethostname(host, sizeof host - 1);
	if (name)
		snprintf(m->name, sizeof m->name, "%s", name);
	else
		snprintf(m->name, sizeof m->name, "%s/%d", host, (int)getpid());
}

static void on_eased(void *arg)
{
	const struct manager *m = arg;
	if (m->core)
		core_eased(m->core);
}

static void loop_open(struct manager *m)
{
	event_set_mem_functions(mem_malloc, mem_realloc, free);
	m->base = event_base_new();
	m->timer = evtimer_new(m->base, on_timer, m);
	m->timer_ms = INT64_MAX;
	m->dispatch = event_new(m->base, -1, 0, on_dispatch, m);
	m->terminate = evsignal_new(m->base, SIGTERM, on_signal, m);
	m->interrupt = evsignal_new(m->base, SIGINT, on_signal, m);
	m->hangup = evsignal_new(m->base, SIGHUP, on_hangup, m);
	event_add(m->hangup, NULL);
	event_add(m->terminate, NULL);
	event_add(m->interrupt, NULL);
	const struct jobs_host host = {clock_monotonic_ms, timer_set, m};
	m->jobs = jobs_create(manager_jobs, JOBS, &host);
	memory_watch(m->jobs);
}

static bool server_open(struct manager *m, const struct manager_options *o, struct reeve_error *error)
{
	const struct tls_files *files = &o->tls;
	bool secure = files->certificate || files->key || files->ca || files->crl;

	if (secure)
		m->tls = tls_create(TLS_SERVER, files, error);
	if (secure && !m->tls)
		return false;
	const struct rpc_server_options options = {
	    .max_message_bytes = (size_t)o->max_message,
	    .max_open_calls = (int)o->max_calls,
	    .max_connections = (int)o->max_connections,
	    .connection_percent = (int)o->connection_share,
	    .address_percent = (int)o->address_share,
	    .socket_mode = o->socket_mode,
	    .tls = m->tls,
	    .eased = on_eased,
	    .eased_arg = m,
	};
	m->server = rpc_server_create(m->base, &options);
	return true;
}

static void database_open(struct manager *m, const struct manager_options *o)
{
	const struct store_options options = {
	    .conninfo = o->database,
	    .manager_name = m->name,
	    .history_days = (int)o->history_days,
	    .archives = o->archive != NULL,
	    .lease_ms = o->lease_ms,
	    .expiry_grace_ms = o->expiry_grace_ms,
	    .max_details = o->max_details,
	    .waiting_bytes = (size_t)o->pending_bytes,
	    .origin_percent = (int)o->connection_share,
	};
	const struct store_listener listener = {on_notified, on_listening, m};
	m->store = store_open(m->base, &options, &listener);
}

static void access_open(struct manager *m, const struct manager_options *o)
{
	const struct access_options options = {
	    .required = !strcmp(o->auth, "required"),
	    .database_us = database_us,
	    .arg = m,
	};
	m->access = access_create(m->server, m->store, m->jobs, &options);
}

static bool callbacks_open(struct manager *m, const struct manager_options *o, struct reeve_error *error)
{
	const struct callbacks_options options = {
	    .attempts = (int)o->callback_tries,
	    .timeout_ms = o->callback_timeout_ms,
	    .ca_file = o->callback_ca,
	    .hosts = o->callback_hosts,
	    .private = o->callback_private,
	    .database_us = database_us,
	    .arg = m,
	};
	m->callbacks = callbacks_create(m->base, m->store, m->jobs, &options, error);
	return m->callbacks;
}

static void on_span(void *arg, const struct span *span)
{
	const struct manager *m = arg;
	traces_add(m->traces, span);
}

static bool traces_open(struct manager *m, const struct manager_options *o, struct reeve_error *error)
{
	const struct traces_options options = {
	    .url = o->traces, .sample = (double)o->trace_sample / 100, .manager = m->name, .ca_file = o->callback_ca};
	if (o->traces)
		m->traces = traces_create(m->base, m->jobs, &options, error);
	return !o->traces || m->traces;
}

static void core_open(struct manager *m, const struct manager_options *o)
{
	const struct core_options options = {
	    .lease_ms = o->lease_ms,
	    .heartbeat_ms = o->heartbeat_ms,
	    .expiry_grace_ms = o->expiry_grace_ms,
	    .max_runtime_ms = o->max_runtime_ms,
	    .fetch_wait_ms = o->fetch_wait_ms,
	    .max_details_bytes = o->max_details,
	    .max_result_bytes = o->max_result,
	    .max_answer_bytes = o->max_message - ENVELOPE_BYTES < ANSWER_BYTES ? o->max_message / 2 : ANSWER_BYTES,
	    .max_sent_bytes = o->max_message - ENVELOPE_BYTES,
	    .ready_limit = (int)o->ready_cache,
	    .priorities_limit = PRIORITIES_LIMIT,
	    .streams_limit = STREAMS_LIMIT,
	    .claim_limit = (int)o->claim_batch,
	    .max_routes = o->max_routes,
	    .log_tasks = o->log_tasks,
	    .traffic_routes = (int)o->metrics_routes,
	};
	const struct core_host host = {clock_monotonic_ms, dispatch_due, on_outdated, m->traces ? on_span : NULL, m};
	m->core = core_create(m->store, m->jobs, &options, &host);
}

static bool archive_open(struct manager *m, const char *folder, struct reeve_error *error)
{
	if (folder)
		m->archive = archive_create(m->base, m->store, m->jobs, folder, error);
	return !folder || m->archive;
}

static void services_open(struct manager *m, const struct manager_options *o)
{
	m->services = (struct services){
	    .core = m->core,
	    .callbacks = m->callbacks,
	    .traces = m->traces,
	    .server = m->server,
	    .access = m->access,
	    .tls = m->tls,
	    .manager_name = m->name,
	    .max_message_bytes = (size_t)o->max_message,
	    .started_us = clock_wall_us(),
	};
	services_add(&m->services);
	if (o->metrics_open)
		rpc_server_open_method(m->server, SCRAPE_METHOD);
	m->services.scrape = scrape_create(&m->services);
	rpc_server_keys(m->server, call_key_find, &m->services);
	m->counters = counters_writer_create(&m->services);
}

static const char *problem(void *arg)
{
	const struct manager *m = arg;
	if (m->stopping)
		return "the manager is stopping";
	return store_up(m->store) && core_database_fresh(m->core) ? NULL : "the manager does not reach its database";
}

static bool http_open(struct manager *m, const struct manager_options *o, struct reeve_error *error)
{
	const struct http_options options = {
	    .base = m->base,
	    .origins = o->http_origins,
	    .metrics_open = o->metrics_open,
	    .max_message_bytes = (size_t)o->max_message,
	    .now_us = call_us,
	    .problem = problem,
	    .arg = m,
	};
	if (!o->http)
		return true;
	m->http = http_api_create(&options, error);
	return m->http && listen_all(m, o->http, true, error);
}

bool manager_open(struct manager *m, const struct manager_options *o, struct reeve_error *error)
{
	signal(SIGPIPE, SIG_IGN);
	name_set(m, o->name);
	loop_open(m);
	if (!server_open(m, o, error))
		return false;
	database_open(m, o);
	access_open(m, o);
	if (!callbacks_open(m, o, error) || !traces_open(m, o, error))
		return false;
	core_open(m, o);
	if (!archive_open(m, o->archive, error))
		return false;
	services_open(m, o);
	return http_open(m, o, error) && listen_all(m, o->listen, false, error) && callers_check(m, o, error);
}

bool manager_run(struct manager *m)
{
	event_base_dispatch(m->base);
	return !m->outdated;
}

void manager_close(struct manager *m)
{
	m->stopping = true; /* problem() must not ask the store any more */
	if (m->jobs)
		jobs_stop(m->jobs);
	/* Operations in flight end here, while the core and the calls that they belong to still exist. */
	if (m->store)
		store_close(m->store);
	if (m->core)
		core_destroy(m->core);
	m->core = NULL;
	counters_writer_destroy(m->counters);
	scrape_destroy(m->services.scrape);
	callbacks_destroy(m->callbacks);
	traces_destroy(m->traces);
	archive_destroy(m->archive);
	if (m->server)
		rpc_server_destroy(m->server);
	access_destroy(m->access);
	http_api_destroy(m->http);
	tls_destroy(m->tls);
	jobs_destroy(m->jobs);
	if (m->timer)
		event_free(m->timer);
	if (m->dispatch)
		event_free(m->dispatch);
	if (m->terminate)
		event_free(m->terminate);
	if (m->interrupt)
		event_free(m->interrupt);
	if (m->hangup)
		event_free(m->hangup);
	if (m->base)
		event_base_free(m->base);
}
