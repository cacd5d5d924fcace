/*
 * The statement in flight: prepared before its first use, run, perhaps cancelled. When it ends, or its connection
 * breaks, its callback is called.
 */
#include "manager/store/conn_internal.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANCEL_LIMIT_MS = 5000, CANCEL_AGAIN_MS = 100 };

static void statement_send(struct conn *c, const struct params *p)
{
	const char *values[PARAMS_MAX];
	int formats[PARAMS_MAX];
	for (int i = 0; i < p->count; i++) {
		values[i] = p->size[i] < 0 ? NULL : p->data + p->start[i];
		formats[i] = 1;
	}
	if (!PQsendQueryPrepared(c->pg, sql_statements[c->statement].name, p->count, values, p->size, formats, 1)) {
		conn_problem_set(c, PQerrorMessage(c->pg));
		c->unsent = true;
	}
}

void statement_flush(struct conn *c)
{
	int left = PQflush(c->pg);
	c->flushing = left > 0;
	conn_want(c, left > 0 ? EV_READ | EV_WRITE : EV_READ);
	if (left < 0) {
		conn_problem_set(c, PQerrorMessage(c->pg));
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
	snprintf(out->message, sizeof out->message, "%s%s%s%s", full_disk(state),
	    message ? message : PQresultErrorMessage(result), detail ? ": " : "", detail ? detail : "");
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
		} else if (c->prepare_only) {
			out.rows = NULL;
		} else {
			statement_send(c, &c->kept);
			statement_flush(c);
			return;
		}
	}
	c->preparing = false;
	c->busy = false;
	c->settings.times[c->statement].count++;
	c->settings.times[c->statement].us += clock_monotonic_us() - c->begun_us;
	c->done(c->arg, &out);
	PQclear(result);
}

/* True for SQLSTATEs after which the server closes the connection or cannot be used: it shuts down, is a standby
 * now, or the transaction was idle for too long. */
static bool fatal_state(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	return state &&
	    (!strcmp(state, "57P01") || !strcmp(state, "57P02") || !strcmp(state, "57P03") || !strcmp(state, "25006") ||
	        !strcmp(state, "25P03"));
}

void statement_results(struct conn *c)
{
	while (c->pg && c->busy && !PQisBusy(c->pg)) {
		PGresult *result = PQgetResult(c->pg);
		if (PQstatus(c->pg) == CONNECTION_BAD || (result && fatal_state(result))) {
			char why[400];
			snprintf(why, sizeof why, "%s%s", full_disk(result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL),
			    result ? PQresultErrorMessage(result) : PQerrorMessage(c->pg));
			PQclear(result);
			conn_broken(c, why);
			return;
		}
		if (result) {
			PQclear(c->result);
			c->result = result;
			continue;
		}
		if (c->unreplicated) { /* its outcome is unknown, as if the connection had broken in COMMIT: it is repeated */
			conn_broken(c, "the server did not wait until a synchronous standby had the commit");
			return;
		}
		if (!c->result) { /* a statement that could not even be sent */
			conn_broken(c, c->problem[0] ? c->problem : PQerrorMessage(c->pg));
			return;
		}
		statement_over(c);
	}
}

static void prepare_send(struct conn *c)
{
	c->preparing = true;
	if (!PQsendPrepare(c->pg, sql_statements[c->statement].name, sql_statements[c->statement].text, 0, NULL)) {
		conn_problem_set(c, PQerrorMessage(c->pg));
		c->unsent = true;
	}
}

static void begin_run(struct conn *c, enum sql_id statement, conn_done *done, void *arg)
{
	assert(c->state >= SETUP && !c->busy);
	c->unwanted = c->prepare_only = false;
	c->busy = true;
	c->statement = statement;
	c->begun_us = clock_monotonic_us();
	c->done = done;
	c->arg = arg;
}

void statement_prepare(struct conn *c, enum sql_id statement, conn_done *done, void *arg)
{
	begin_run(c, statement, done, arg);
	c->prepare_only = true;
	prepare_send(c);
	statement_flush(c);
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
	statement_flush(c);
}

/* Detects the notice that the server stopped waiting for the synchronous standby. Checks the source function,
 * because the message may be in any language. Other notices are only logged. */
void statement_on_notice(void *arg, const PGresult *result)
{
	struct conn *c = arg;
	const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
	if (function && !strcmp(function, "SyncRepWaitForLSN"))
		c->unreplicated = true;
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	log_debug(c->name, "%s", message ? message : "notice");
}

void statement_drop(struct conn *c)
{
	if (c->cancel)
		background_abandon(c->cancel);
	c->cancel = NULL;
	if (c->result)
		PQclear(c->result);
	c->result = NULL;
	memset(c->prepared, 0, sizeof c->prepared);
	c->preparing = c->flushing = c->unsent = c->unreplicated = false;
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
	/* A process ignores a request that arrives before it has read the statement. */
	if (c->busy)
		conn_timer_set(c, CANCEL_AGAIN_MS);
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
	conn_timer_set(c, CANCEL_LIMIT_MS);
	c->cancel = background_start(c->base, &kind, cancel);
}
