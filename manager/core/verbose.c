/* Nothing is put together for queues that are not verbose. What is from outside is escaped by the log. */
#include "manager/core/verbose.h"

#include "common/clock.h"
#include "common/log.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 200 }; /* of a result, an error or a remark */

static bool wanted(const struct core *core, int route)
{
	return route && (core->options.log_tasks || queues_of_route(core->queues, route)->verbose);
}

void verbose_say(struct core *core, int route, int64_t task, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	const struct route *r = routes_get(core->routes, route);
	if (!r || !wanted(core, route)) /* one of another manager's may not be known here yet */
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	log_info(NULL, "queue \"%s\": task %lld (%s): %s", r->queue, (long long)task, r->type, text);
}

/* Its beginning, cut between characters. */
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

void verbose_result(struct core *core, const struct store_result *r)
{
	char rest[40], first[TEXT_BYTES + 8], second[TEXT_BYTES + 8];
	if (!wanted(core, r->route))
		return;
	int64_t rest_ms = (r->due_us - core_database_us(core)) / 1000;
	const char *code = r->error_code && *r->error_code ? r->error_code : store_outcome_name(r->outcome);
	if (r->outcome == STORE_COMPLETED && !strcmp(r->becomes, "completed"))
		verbose_say(core, r->route, r->id, "completed, attempt %d: %s%s%s", r->attempt, cut(r->result, first),
		    r->remark ? "; remark: " : "", cut(r->remark, second));
	else if (r->outcome == STORE_COMPLETED && !r->ended)
		verbose_say(core, r->route, r->id, "completed, attempt %d: %s; runs again, as what follows", r->attempt,
		    cut(r->result, first));
	else if (r->ended)
		verbose_say(core, r->route, r->id, "%s, attempt %d: %s: %s", r->becomes, r->attempt, code, cut(r->error, first));
	else
		verbose_say(core, r->route, r->id, "%s, attempt %d: %s: %s; due again in %s", r->becomes, r->attempt, code,
		    cut(r->error, first), duration_format(rest_ms > 0 ? rest_ms : 0, rest, sizeof rest));
}
