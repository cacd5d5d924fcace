/* Messages are formatted only for verbose queues. The log escapes text from outside. */
#include "manager/core/verbose.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "manager/core/db_clock.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 200 }; /* the maximum of a result, error or remark */

struct verbose {
	const struct base *base;
	const struct db_clock *clock;
	struct routes *routes;
	struct queues *queues;
};

struct verbose *verbose_create(
    const struct base *base, const struct db_clock *clock, struct routes *routes, struct queues *queues)
{
	struct verbose *v = mem_calloc(1, sizeof *v);
	*v = (struct verbose){base, clock, routes, queues};
	return v;
}

void verbose_destroy(struct verbose *v)
{
	free(v);
}

static bool wanted(const struct verbose *v, int route)
{
	return route && (v->base->options.log_tasks || queues_of_route(v->queues, route)->verbose);
}

void verbose_log(const struct verbose *v, int route, int64_t task, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	const struct route *r = routes_get(v->routes, route);
	if (!r || !wanted(v, route)) /* another manager may have created the route: not known here yet */
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	log_info(NULL, "queue \"%s\": task %lld (%s): %s", r->queue, (long long)task, r->type, text);
}

/* Copies the beginning of a text, without splitting a character. */
static const char *cut(const char *text, char out[TEXT_BYTES + 8])
{
	size_t length = text ? strlen(text) : 0;
	bool longer = length > TEXT_BYTES;
	if (longer)
		for (length = TEXT_BYTES; length > TEXT_BYTES - 4 && ((unsigned char)text[length] & 0xc0) == 0x80;)
			length--;
	snprintf(out, TEXT_BYTES + 8, "%.*s%s", (int)length, text ? text : "", longer ? "..." : "");
	return out;
}

void verbose_worker_ended(const struct verbose *v, int64_t incarnation)
{
	if (v->base->options.log_tasks || queues_verbose(v->queues))
		log_info(NULL, "worker %lld has ended", (long long)incarnation);
}

void verbose_result(const struct verbose *v, const struct store_result *r)
{
	char delay[40], first[TEXT_BYTES + 8], second[TEXT_BYTES + 8];
	if (!wanted(v, r->route))
		return;
	int64_t delay_ms = (r->due_us - db_clock_us(v->clock)) / 1000;
	const char *code = text_given(r->error_code) ? r->error_code : store_outcome_name(r->outcome);
	if (r->outcome == STORE_COMPLETED && !strcmp(r->becomes, "completed"))
		verbose_log(v, r->route, r->id, "completed, attempt %d: %s%s%s", r->attempt, cut(r->result, first),
		    r->remark ? "; remark: " : "", cut(r->remark, second));
	else if (r->outcome == STORE_COMPLETED && !r->ended)
		verbose_log(v, r->route, r->id, "completed, attempt %d: %s; runs again, as what follows", r->attempt,
		    cut(r->result, first));
	else if (r->ended)
		verbose_log(v, r->route, r->id, "%s, attempt %d: %s: %s", r->becomes, r->attempt, code, cut(r->error, first));
	else
		verbose_log(v, r->route, r->id, "%s, attempt %d: %s: %s; due again in %s", r->becomes, r->attempt, code,
		    cut(r->error, first), duration_format(delay_ms > 0 ? delay_ms : 0, delay, sizeof delay));
	int64_t resting_ms = queues_of_route(v->queues, r->route)->resting_ms;
	if (resting_ms && r->outcome <= STORE_FATAL)
		verbose_log(v, r->route, r->id, "its slot rests for %s", duration_format(resting_ms, delay, sizeof delay));
}
