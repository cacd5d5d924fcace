/* Nothing is put together for queues that are not verbose. */
#include "manager/core/verbose.h"

#include "common/clock.h"
#include "common/log.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void verbose_say(struct core *core, int route, int64_t task, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	if (!route || !queues_of_route(core->queues, route)->verbose)
		return;
	const struct route *r = routes_get(core->routes, route);
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	log_info(NULL, "queue \"%s\": task %lld (%s): %s", r->queue, (long long)task, r->type, text);
}

void verbose_result(struct core *core, const struct store_result *r)
{
	char rest[40];
	if (!r->route || !queues_of_route(core->queues, r->route)->verbose)
		return;
	int64_t rest_ms = (r->due_us - core_database_us(core)) / 1000;
	const char *code = r->error_code && *r->error_code ? r->error_code : store_outcome_name(r->outcome);
	if (r->outcome == STORE_COMPLETED && !strcmp(r->becomes, "completed"))
		verbose_say(core, r->route, r->id, "completed%s%s", r->remark ? ": " : "", r->remark ? r->remark : "");
	else if (r->outcome == STORE_COMPLETED && !r->ended)
		verbose_say(core, r->route, r->id, "completed; runs again, as what follows");
	else if (r->ended)
		verbose_say(core, r->route, r->id, "%s: %s: %s", r->becomes, code, r->error ? r->error : "");
	else
		verbose_say(core, r->route, r->id, "%s: %s: %s; due again in %s", r->becomes, code, r->error ? r->error : "",
		    duration_format(rest_ms > 0 ? rest_ms : 0, rest, sizeof rest));
}
