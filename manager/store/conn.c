/*
 * The state machine of a connection: down -> resolving -> connecting -> setting up -> ready. If it breaks in any state,
 * it is down again, until a timer with a growing delay starts the next try.
 */
#include "manager/store/conn_internal.h"

#include "common/log.h"
#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOO_MANY_CONNECTIONS "53300"

enum { RETRY_MIN_MS = 50, RETRY_MAX_MS = 1000, CONNECT_LIMIT_MS = 10000, OPTIONS_MAX = 64 };

static void setup_next(struct conn *c);

/* Continues the setup after a statement was prepared. A refusal is met again when the statement is used. */
static void prepared_ahead(void *arg, const struct conn_result *result)
{
	struct conn *c = arg;
	if (result->kind == CONN_LOST)
		return; /* conn_broken() handles it */
	c->ahead++;
	setup_next(c);
}

void conn_timer_set(struct conn *c, int ms)
{
	struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	event_add(c->timer, &tv);
}

void conn_problem_set(struct conn *c, const char *text)
{
	snprintf(c->problem, sizeof c->problem, "%s", text);
	size_t n = strcspn(c->problem, "\n");
	c->problem[n] = 0;
}

static void disconnect(struct conn *c)
{
	statement_drop(c);
	if (c->resolve)
		resolve_cancel(c->resolve);
	c->resolve = NULL;
	if (c->io)
		event_free(c->io);
	c->io = NULL;
	if (c->pg)
		PQfinish(c->pg);
	c->pg = NULL;
	c->ahead = 0;
}

void conn_broken(struct conn *c, const char *why)
{
	bool was_ready = c->state == READY;
	if (why)
		conn_problem_set(c, why);
	disconnect(c);
	c->state = DOWN;
	if (!c->reported)
		log_warn(c->name, "no database: %s", c->problem[0] ? c->problem : "connection lost");
	c->reported = true;
	conn_timer_set(c, c->retry_ms);
	c->retry_ms = c->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : c->retry_ms * 2;
	if (c->busy) {
		struct conn_result lost = {.kind = CONN_LOST};
		snprintf(lost.message, sizeof lost.message, "%s", c->problem);
		c->busy = false;
		c->done(c->arg, &lost);
	}
	if (was_ready)
		c->listener.lost(c->listener.arg);
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
		statement_flush(c);
	if (what & EV_READ) {
		if (c->unsent || !PQconsumeInput(c->pg)) {
			char why[400];
			snprintf(why, sizeof why, "%s", PQerrorMessage(c->pg));
			conn_broken(c, why);
			return;
		}
		if (c->flushing)
			statement_flush(c);
		notifications_take(c);
		statement_results(c);
		notifications_take(c); /* those behind a result */
	}
}

/* Replaces the event object only if the socket or the events have changed. */
void conn_want(struct conn *c, short events)
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

/* Continues the session's setup, whose statements run one after another. */
static void setup_done(void *arg, const struct conn_result *result)
{
	struct conn *c = arg;
	if (result->kind == CONN_LOST)
		return; /* conn_broken() handles it */
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
		params_bool(&p, c->settings.generic_plans);
		conn_run(c, SQL_SESSION, &p, setup_done, c);
	} else if (c->settings.hot && !c->prepared[SQL_SESSION_HOT]) {
		params_bool(&p, c->settings.hash_joins);
		conn_run(c, SQL_SESSION_HOT, &p, setup_done, c);
	} else if (c->settings.listens && !c->prepared[SQL_NOTIFICATIONS_LISTEN]) {
		conn_run(c, SQL_NOTIFICATIONS_LISTEN, &p, setup_done, c);
	} else if (c->ahead < c->settings.first_count) {
		statement_prepare(c, c->settings.first[c->ahead], prepared_ahead, c);
	} else {
		c->state = READY;
		c->retry_ms = RETRY_MIN_MS;
		c->problem[0] = 0;
		event_del(c->timer);
		if (c->reported)
			log_info(c->name, "the database is back");
		c->reported = false;
		c->listener.ready(c->listener.arg);
	}
	params_free(&p);
}

/* Moves the SQLSTATE out of libpq's text, as in "FATAL:  53300: sorry, too many clients already". */
static void sqlstate_take(char *text, char sqlstate[6])
{
	char *code = strstr(text, ":  ");
	*sqlstate = 0;
	if (!code || strspn(code + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 || strncmp(code + 8, ": ", 2) != 0)
		return;
	snprintf(sqlstate, 6, "%s", code + 3);
	memmove(code + 2, code + 9, strlen(code + 9) + 1);
}

static void connecting_failed(struct conn *c)
{
	char why[400], sqlstate[6];
	snprintf(why, sizeof why, "%s", PQerrorMessage(c->pg));
	sqlstate_take(why, sqlstate);
	conn_broken(c, why);
	if (!strcmp(sqlstate, TOO_MANY_CONNECTIONS))
		c->listener.refused(c->listener.arg);
}

static void connecting(struct conn *c)
{
	/* libpq may close its socket and open another with the same number, so the event must be freed first. */
	if (c->io)
		event_free(c->io);
	c->io = NULL;
	switch (PQconnectPoll(c->pg)) {
	case PGRES_POLLING_READING: conn_want(c, EV_READ); break;
	case PGRES_POLLING_WRITING: conn_want(c, EV_WRITE); break;
	case PGRES_POLLING_OK:
		PQsetnonblocking(c->pg, 1);
		PQsetErrorVerbosity(c->pg, PQERRORS_DEFAULT);
		c->state = SETUP;
		conn_want(c, EV_READ);
		setup_next(c);
		break;
	default: connecting_failed(c);
	}
}

/* Starts a connection to `hosts` at `addresses`; both are NULL if libpq needs no resolved names. */
static void connect_start(struct conn *c, const char *hosts, const char *addresses)
{
	const char *keys[OPTIONS_MAX], *values[OPTIONS_MAX];
	char *wrong = NULL;
	PQconninfoOption *options = PQconninfoParse(c->conninfo, &wrong);
	if (!options) {
		conn_broken(c, wrong ? wrong : "the connection string cannot be read");
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
	for (PQconninfoOption *o = options; o->keyword && n < OPTIONS_MAX - 5; o++)
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
	conn_timer_set(c, CONNECT_LIMIT_MS);
	c->pg = PQconnectStartParams(keys, values, 0);
	PQconninfoFree(options);
	mem_check(c->pg);
	if (PQstatus(c->pg) == CONNECTION_BAD) {
		char why[400];
		snprintf(why, sizeof why, "%s", PQerrorMessage(c->pg));
		conn_broken(c, why);
		return;
	}
	PQsetNoticeReceiver(c->pg, statement_on_notice, c);
	PQsetErrorVerbosity(c->pg, PQERRORS_VERBOSE); /* with the SQLSTATE, until it is connected */
	conn_want(c, EV_WRITE);
}

static void on_resolved(void *arg, const char *hosts, const char *addresses, const char *problem)
{
	struct conn *c = arg;
	c->resolve = NULL;
	if (addresses)
		connect_start(c, hosts, addresses);
	else
		conn_broken(c, problem);
}

/* Returns the hosts that must be resolved, which the caller frees; NULL if there are none, as for socket directories
 * and addresses. */
static char *hosts_to_resolve(const char *conninfo)
{
	char *host = NULL;
	bool address = false;
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	for (PQconninfoOption *o = options; o && o->keyword; o++) {
		if (o->val && *o->val && !strcmp(o->keyword, "hostaddr"))
			address = true;
		if (o->val && *o->val && !strcmp(o->keyword, "host"))
			host = mem_strdup(o->val);
	}
	PQconninfoFree(options);
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
	if (c->state == READY && !c->cancel) {
		if (c->unwanted) /* the statement in flight, if there is one */
			conn_cancel(c);
		return;
	}
	if (c->state != DOWN) {
		conn_broken(c, c->cancel ? "no answer to a request to cancel" : "no answer while connecting");
		return;
	}
	char *hosts = hosts_to_resolve(c->conninfo);
	if (hosts) {
		c->state = RESOLVING;
		conn_timer_set(c, CONNECT_LIMIT_MS);
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
	c->retry_ms = RETRY_MIN_MS;
	c->timer = evtimer_new(base, on_timer, c);
	conn_timer_set(c, 0);
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
	conn_broken(c, NULL);
}

void conn_pause(struct conn *c, int ms, const char *why)
{
	bool reported = c->reported;
	c->reported = true; /* the caller logs it */
	conn_broken(c, why);
	c->reported = reported;
	c->retry_ms = RETRY_MIN_MS;
	conn_timer_set(c, ms);
}

const char *conn_problem(const struct conn *c)
{
	return c->state == READY ? "" : c->problem[0] ? c->problem : "not connected yet";
}
