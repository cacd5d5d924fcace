/*
 * The state machine of a connection: down -> resolving -> connecting -> setting up -> ready. If it breaks in any state,
 * it is down again, until a timer with a growing delay starts the next try.
 */
#include "manager/store/conn.h"

#include "common/log.h"
#include "common/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/store/background.h"
#include "manager/store/resolve.h"

enum { RETRY_FIRST_MS = 50, RETRY_LONGEST_MS = 1000, CONNECT_LIMIT_MS = 10000, CANCEL_LIMIT_MS = 5000, OPTIONS_MAX = 64 };

enum state { DOWN, RESOLVING, CONNECTING, SETUP, READY };

struct conn {
	struct event_base *base;
	struct conn_settings settings;
	struct conn_listener listener;
	char *conninfo, *name;
	enum state state;
	PGconn *pg;
	struct resolve *resolve;
	struct event *io;    /* on libpq's socket */
	struct event *timer; /* the next try while down, the timeout while connecting or cancelling */
	int retry_ms;
	bool reported;       /* that it is down has been logged */
	char problem[400];

	/* the statement in flight */
	bool busy, preparing, flushing, unsent;
	bool unreplicated;   /* it was committed here, but the synchronous standby may not have it */
	enum sql_id statement;
	conn_done *done;
	void *arg;
	PGresult *result;    /* its latest one */
	struct params kept;  /* parameters, while the statement is being prepared */
	bool prepared[SQL_COUNT];
	int ahead;             /* how many of settings.first were prepared during setup, or refused */
	struct background *cancel; /* a request to cancel is in flight */
	bool unwanted;         /* conn_cancel was called for the statement in flight */
};

static void setup_next(struct conn *c);

/* Continues the setup after a statement was prepared. A refusal is met again when the statement is used. */
static void prepared_ahead(void *arg, const struct conn_result *result)
{
	struct conn *c = arg;
	if (result->kind == CONN_LOST)
		return; /* broken() handles it */
	c->ahead++;
	setup_next(c);
}

static void timer_set(struct conn *c, int ms)
{
	struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	event_add(c->timer, &tv);
}

static void problem_set(struct conn *c, const char *text)
{
	snprintf(c->problem, sizeof c->problem, "%s", text);
	size_t n = strcspn(c->problem, "\n");
	c->problem[n] = 0;
}

static void disconnect(struct conn *c)
{
	if (c->cancel)
		background_abandon(c->cancel);
	c->cancel = NULL;
	if (c->resolve)
		resolve_cancel(c->resolve);
	c->resolve = NULL;
	if (c->io)
		event_free(c->io);
	c->io = NULL;
	if (c->result)
		PQclear(c->result);
	c->result = NULL;
	if (c->pg)
		PQfinish(c->pg);
	c->pg = NULL;
	memset(c->prepared, 0, sizeof c->prepared);
	c->ahead = 0;
	c->preparing = c->flushing = c->unsent = c->unreplicated = false;
}

/* Closes a broken connection, notifies the statement's caller and the owner, and schedules the next try. */
static void broken(struct conn *c, const char *why)
{
	bool was_ready = c->state == READY;
	if (why)
		problem_set(c, why);
	disconnect(c);
	c->state = DOWN;
	if (!c->reported)
		log_warn(c->name, "no database: %s", c->problem[0] ? c->problem : "connection lost");
	c->reported = true;
	timer_set(c, c->retry_ms);
	c->retry_ms = c->retry_ms * 2 > RETRY_LONGEST_MS ? RETRY_LONGEST_MS : c->retry_ms * 2;
	if (c->busy) {
		struct conn_result lost = {.kind = CONN_LOST};
		snprintf(lost.message, sizeof lost.message, "%s", c->problem);
		c->busy = false;
		c->done(c->arg, &lost);
	}
	if (was_ready)
		c->listener.lost(c->listener.arg);
}

static void io_want(struct conn *c, short events);

static void statement_send(struct conn *c, const struct params *p)
{
	const char *values[PARAMS_MAX];
	int formats[PARAMS_MAX];
	for (int i = 0; i < p->count; i++) {
		values[i] = p->size[i] < 0 ? NULL : p->data + p->start[i];
		formats[i] = 1;
	}
	if (!PQsendQueryPrepared(c->pg, sql_statements[c->statement].name, p->count, values, p->size, formats, 1)) {
		problem_set(c, PQerrorMessage(c->pg));
		c->unsent = true;
	}
}

/* Writes what libpq has not written yet. If some is left, waits until the socket is writable, or has input. */
static void flush(struct conn *c)
{
	int left = PQflush(c->pg);
	c->flushing = left > 0;
	io_want(c, left > 0 ? EV_READ | EV_WRITE : EV_READ);
	if (left < 0) {
		problem_set(c, PQerrorMessage(c->pg));
		c->unsent = true;
	}
	if (c->unsent) /* no event would come: let on_io find the connection broken */
		event_active(c->io, EV_READ, 0);
}

/* Returns a prefix that names a full disk in English, because the server's message may be in another language. */
static const char *full_disk(const char *state)
{
	return state && !strcmp(state, "53100") ? "the database's disk is full: " : "";
}

static void result_describe(const PGresult *result, struct conn_result *out)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	out->kind = CONN_REFUSED;
	snprintf(out->sqlstate, sizeof out->sqlstate, "%s", state ? state : "");
	snprintf(out->message, sizeof out->message, "%s%s%s%s", full_disk(state), message ? message : PQresultErrorMessage(result),
	    detail ? ": " : "", detail ? detail : "");
}

/* Handles the end of the statement in flight, or of its preparation. */
static void statement_over(struct conn *c)
{
	PGresult *result = c->result;
	c->result = NULL;
	struct conn_result out = {.kind = CONN_OK, .rows = result};
	ExecStatusType status = PQresultStatus(result);
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		result_describe(result, &out);
	if (c->preparing && out.kind == CONN_OK) {
		PQclear(result);
		c->preparing = false;
		c->prepared[c->statement] = true;
		result = NULL;
		if (c->unwanted) {
			out = (struct conn_result){.kind = CONN_REFUSED, .sqlstate = "57014", .message = "cancelled"};
		} else if (c->done == prepared_ahead) {
			out.rows = NULL;
		} else {
			statement_send(c, &c->kept);
			flush(c);
			return;
		}
	}
	c->preparing = false;
	c->busy = false;
	c->done(c->arg, &out);
	PQclear(result);
}

/* True for SQLSTATEs after which the server closes the connection or cannot be used: it shuts down, is a standby
 * now, or the transaction was idle for too long. */
static bool fatal_state(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	return state && (!strcmp(state, "57P01") || !strcmp(state, "57P02") || !strcmp(state, "57P03") ||
	    !strcmp(state, "25006") || !strcmp(state, "25P03"));
}

static void results_take(struct conn *c)
{
	while (c->pg && c->busy && !PQisBusy(c->pg)) {
		PGresult *result = PQgetResult(c->pg);
		if (PQstatus(c->pg) == CONNECTION_BAD || (result && fatal_state(result))) {
			char why[400];
			snprintf(why, sizeof why, "%s%s", full_disk(result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL),
			    result ? PQresultErrorMessage(result) : PQerrorMessage(c->pg));
			PQclear(result);
			broken(c, why);
			return;
		}
		if (result) {
			PQclear(c->result);
			c->result = result;
			continue;
		}
		if (c->unreplicated) { /* its outcome is unknown, as if the connection had broken in COMMIT: it is repeated */
			broken(c, "the server did not wait until a synchronous standby had the commit");
			return;
		}
		if (!c->result) { /* a statement that could not even be sent */
			broken(c, c->problem[0] ? c->problem : PQerrorMessage(c->pg));
			return;
		}
		statement_over(c);
	}
}

static void notifications_take(struct conn *c)
{
	PGnotify *note;
	while (c->pg && (note = PQnotifies(c->pg))) {
		if (c->listener.notified)
			c->listener.notified(c->listener.arg, note->extra);
		PQfreemem(note);
	}
}

static void connecting(struct conn *c);

static void on_io(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	(void)fd;
	if (c->state == CONNECTING) {
		connecting(c);
		return;
	}
	if (what & EV_WRITE)
		flush(c);
	if (what & EV_READ) {
		if (c->unsent || !PQconsumeInput(c->pg)) {
			char why[400];
			snprintf(why, sizeof why, "%s", PQerrorMessage(c->pg));
			broken(c, why);
			return;
		}
		if (c->flushing)
			flush(c);
		notifications_take(c);
		results_take(c);
	}
}

/* Sets the socket's events. Replaces the event object only if the socket or the events have changed. */
static void io_want(struct conn *c, short events)
{
	events |= EV_PERSIST;
	int fd = PQsocket(c->pg);
	if (c->io && event_get_fd(c->io) == fd && event_get_events(c->io) == events)
		return;
	if (c->io)
		event_free(c->io);
	c->io = event_new(c->base, fd, events, on_io, c);
	event_add(c->io, NULL);
}

static void prepare_send(struct conn *c)
{
	c->preparing = true;
	if (!PQsendPrepare(c->pg, sql_statements[c->statement].name, sql_statements[c->statement].text, 0, NULL)) {
		problem_set(c, PQerrorMessage(c->pg));
		c->unsent = true;
	}
}

static void begin_run(struct conn *c, enum sql_id statement, conn_done *done, void *arg)
{
	assert(c->state >= SETUP && !c->busy);
	c->unwanted = false;
	c->busy = true;
	c->statement = statement;
	c->done = done;
	c->arg = arg;
}

void conn_run(struct conn *c, enum sql_id statement, const struct params *params, conn_done *done, void *arg)
{
	begin_run(c, statement, done, arg);
	if (c->prepared[statement]) {
		statement_send(c, params);
	} else {
		struct params *kept = &c->kept;
		params_reset(kept);
		free(kept->data);
		*kept = *params;
		kept->data = mem_malloc(params->length ? params->length : 1);
		memcpy(kept->data, params->data ? params->data : "", params->length);
		kept->capacity = params->length;
		prepare_send(c);
	}
	flush(c);
}

/* Continues the session's setup, whose statements run one after another. */
static void setup_done(void *arg, const struct conn_result *result)
{
	struct conn *c = arg;
	if (result->kind == CONN_LOST)
		return; /* broken() handles it */
	if (result->kind == CONN_REFUSED) {
		log_error(c->name, "cannot set the session up: %s (%s)", result->message, sql_statements[c->statement].name);
		conn_reset(c);
		return;
	}
	setup_next(c);
}

static void setup_next(struct conn *c)
{
	struct params p = {0};
	params_reset(&p);
	if (!c->prepared[SQL_SESSION]) {
		params_int4(&p, c->settings.statement_timeout_ms);
		params_int4(&p, c->settings.lock_timeout_ms);
		params_int4(&p, c->settings.idle_timeout_ms);
		params_bool(&p, c->settings.planned_once);
		conn_run(c, SQL_SESSION, &p, setup_done, c);
	} else if (c->settings.hot && !c->prepared[SQL_SESSION_HOT]) {
		params_bool(&p, c->settings.hash_joins);
		conn_run(c, SQL_SESSION_HOT, &p, setup_done, c);
	} else if (c->settings.listens && !c->prepared[SQL_NOTIFICATIONS_LISTEN]) {
		conn_run(c, SQL_NOTIFICATIONS_LISTEN, &p, setup_done, c);
	} else if (c->ahead < c->settings.first_count) {
		begin_run(c, c->settings.first[c->ahead], prepared_ahead, c);
		prepare_send(c);
		flush(c);
	} else {
		c->state = READY;
		c->retry_ms = RETRY_FIRST_MS;
		c->problem[0] = 0;
		event_del(c->timer);
		if (c->reported)
			log_info(c->name, "the database is back");
		c->reported = false;
		c->listener.ready(c->listener.arg);
	}
	params_free(&p);
}

static void connecting(struct conn *c)
{
	/* libpq may close its socket and open another with the same number, so the event must be freed first. */
	if (c->io)
		event_free(c->io);
	c->io = NULL;
	switch (PQconnectPoll(c->pg)) {
	case PGRES_POLLING_READING:
		io_want(c, EV_READ);
		break;
	case PGRES_POLLING_WRITING:
		io_want(c, EV_WRITE);
		break;
	case PGRES_POLLING_OK:
		PQsetnonblocking(c->pg, 1);
		c->state = SETUP;
		io_want(c, EV_READ);
		setup_next(c);
		break;
	default: {
		char why[400];
		snprintf(why, sizeof why, "%s", PQerrorMessage(c->pg));
		broken(c, why);
	}
	}
}

/* Detects the notice that the server stopped waiting for the synchronous standby. Checks the source function,
 * because the message may be in any language. Other notices are only logged. */
static void on_notice(void *arg, const PGresult *result)
{
	struct conn *c = arg;
	const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
	if (function && !strcmp(function, "SyncRepWaitForLSN"))
		c->unreplicated = true;
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	log_debug(c->name, "%s", message ? message : "notice");
}

/* Starts a connection to `hosts` at `addresses`; both are NULL if libpq needs no resolved names. */
static void connect_start(struct conn *c, const char *hosts, const char *addresses)
{
	const char *keys[OPTIONS_MAX], *values[OPTIONS_MAX];
	char *wrong = NULL;
	PQconninfoOption *given = PQconninfoParse(c->conninfo, &wrong);
	if (!given) {
		broken(c, wrong ? wrong : "the connection string cannot be read");
		PQfreemem(wrong);
		return;
	}
	char name[64];
	snprintf(name, sizeof name, "reeve-manager %s", c->name);
	/* Later entries override earlier ones: defaults first, then the connection string, then the required values. */
	const char *const fixed[][2] = {{"connect_timeout", "10"}, {"keepalives_idle", "10"}, {"keepalives_interval", "5"},
	    {"keepalives_count", "3"}, {"tcp_user_timeout", "15000"}};
	int n = 0;
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++, n++)
		keys[n] = fixed[i][0], values[n] = fixed[i][1];
	for (PQconninfoOption *o = given; o->keyword && n < OPTIONS_MAX - 5; o++)
		if (o->val)
			keys[n] = o->keyword, values[n++] = o->val;
	if (addresses) {
		keys[n] = "host", values[n++] = hosts;
		keys[n] = "hostaddr", values[n++] = addresses;
	}
	keys[n] = "client_encoding", values[n++] = "UTF8";
	keys[n] = "application_name", values[n++] = name;
	keys[n] = NULL;
	values[n] = NULL;
	c->state = CONNECTING;
	timer_set(c, CONNECT_LIMIT_MS);
	c->pg = PQconnectStartParams(keys, values, 0);
	PQconninfoFree(given);
	mem_check(c->pg);
	if (PQstatus(c->pg) == CONNECTION_BAD) {
		char why[400];
		snprintf(why, sizeof why, "%s", PQerrorMessage(c->pg));
		broken(c, why);
		return;
	}
	PQsetNoticeReceiver(c->pg, on_notice, c);
	io_want(c, EV_WRITE);
}

static void on_resolved(void *arg, const char *hosts, const char *addresses, const char *problem)
{
	struct conn *c = arg;
	c->resolve = NULL;
	if (addresses)
		connect_start(c, hosts, addresses);
	else
		broken(c, problem);
}

/* Returns the hosts that must be resolved, which the caller frees; NULL if there are none, as for socket directories
 * and addresses. */
static char *hosts_to_resolve(const char *conninfo)
{
	char *host = NULL;
	bool address = false;
	PQconninfoOption *given = PQconninfoParse(conninfo, NULL);
	for (PQconninfoOption *o = given; o && o->keyword; o++) {
		if (o->val && *o->val && !strcmp(o->keyword, "hostaddr"))
			address = true;
		if (o->val && *o->val && !strcmp(o->keyword, "host"))
			host = mem_strdup(o->val);
	}
	PQconninfoFree(given);
	if (!host && getenv("PGHOST") && !getenv("PGHOSTADDR"))
		host = mem_strdup(getenv("PGHOST"));
	if (host && !address && !strchr(host, '/') && !strchr(host, '@'))
		return host;
	free(host);
	return NULL;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	(void)fd, (void)what;
	if (c->state != DOWN) {
		broken(c, c->cancel ? "no answer to a request to cancel" : "no answer while connecting");
		return;
	}
	char *hosts = hosts_to_resolve(c->conninfo);
	if (hosts) {
		c->state = RESOLVING;
		timer_set(c, CONNECT_LIMIT_MS);
		c->resolve = resolve_start(c->base, hosts, on_resolved, c);
		free(hosts);
	} else {
		connect_start(c, NULL, NULL);
	}
}

struct conn *conn_create(
    struct event_base *base, const struct conn_settings *settings, const struct conn_listener *listener)
{
	struct conn *c = mem_calloc(1, sizeof *c);
	c->base = base;
	c->settings = *settings;
	c->listener = *listener;
	c->conninfo = mem_strdup(settings->conninfo);
	c->name = mem_strdup(settings->name);
	c->retry_ms = RETRY_FIRST_MS;
	c->timer = evtimer_new(base, on_timer, c);
	timer_set(c, 0);
	return c;
}

void conn_destroy(struct conn *c)
{
	disconnect(c);
	event_free(c->timer);
	free(c->kept.data);
	free(c->conninfo);
	free(c->name);
	free(c);
}

/* --- cancelling ------------------------------------------------------------------------------------------------- */

struct cancel {
	struct conn *conn; /* only for the loop's thread */
	PGcancel *request;
};

/* Returns when the server has signalled its process, or is unreachable. */
static void cancel_work(void *data)
{
	struct cancel *cancel = data;
	char problem[256];
	PQcancel(cancel->request, problem, sizeof problem);
}

static void cancel_done(void *data, bool started)
{
	struct conn *c = ((struct cancel *)data)->conn;
	(void)started;
	c->cancel = NULL;
	event_del(c->timer);
	if (conn_idle(c))
		c->listener.ready(c->listener.arg);
}

static void cancel_release(void *data)
{
	struct cancel *cancel = data;
	PQfreeCancel(cancel->request);
	free(cancel);
}

void conn_cancel(struct conn *c)
{
	static const struct background_kind kind = {cancel_work, cancel_done, cancel_release};
	if (c->state != READY || !c->busy || c->cancel)
		return;
	c->unwanted = true;
	PGcancel *request = PQgetCancel(c->pg);
	if (!request)
		return;
	struct cancel *cancel = mem_malloc(sizeof *cancel);
	*cancel = (struct cancel){c, request};
	timer_set(c, CANCEL_LIMIT_MS);
	c->cancel = background_start(c->base, &kind, cancel);
}

bool conn_idle(const struct conn *c)
{
	return c->state == READY && !c->busy && !c->cancel;
}

bool conn_up(const struct conn *c)
{
	return c->state == READY;
}

bool conn_in_transaction(const struct conn *c)
{
	return c->pg && PQtransactionStatus(c->pg) != PQTRANS_IDLE;
}

void conn_reset(struct conn *c)
{
	broken(c, NULL);
}

const char *conn_problem(const struct conn *c)
{
	return c->state == READY ? "" : c->problem[0] ? c->problem : "not connected yet";
}
