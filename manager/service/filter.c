/* Looks up names, checks filters, and limits them to the tasks that a change can apply to. */
#include "manager/service/filter.h"

#include "common/field.h"
#include "common/limits.h"
#include "common/text.h"
#include "manager/core/routes.h"
#include "manager/service/check.h"

#include <sql/sql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(status) (1U << REEVE__V1__TASK_STATUS__TASK_STATUS_##status)
#define LIVE (BIT(QUEUED) | BIT(EXECUTING) | BIT(FAILED))
#define WAITING (BIT(QUEUED) | BIT(FAILED))
#define ENDED (BIT(COMPLETED) | BIT(DEAD) | BIT(CANCELLED))

enum { STATUSES_MAX = 100 };

/* A look-up of names, after which the method is called again. */
struct names_wait {
	struct store_read op;
	struct services *services;
	struct rpc_call *call;
	const ProtobufCMessage *message;
	rpc_method *method;
	Reeve__V1__CheckRequest names;
};

/* The statement sets a manager if the names are known. */
bool names_known(const Reeve__V1__CheckRequest *names, const Reeve__V1__CheckResponse *found, struct reeve_error *error)
{
	const char *queue = names->queue;
	if (*found->manager)
		return true;
	if (*names->type)
		return error_set(error, STATUS(NOT_FOUND), "there has never been a task of type \"%s\"%s%s%s", names->type,
		    *queue ? " in queue \"" : "", queue, *queue ? "\"" : "");
	return error_set(error, STATUS(NOT_FOUND), "queue: there is no queue \"%s\"", queue);
}

static void on_names(struct store_op *op, const struct reeve_error *error)
{
	struct names_wait *w = (struct names_wait *)op;
	struct reeve_error unknown;
	if (error) {
		rpc_call_fail_error(w->call, error);
	} else {
		bool known = names_known(&w->names, (const Reeve__V1__CheckResponse *)w->op.response, &unknown);
		w->services->names_warning = known ? "" : unknown.message;
		w->method(w->services, w->call, w->message);
		w->services->names_warning = NULL;
	}
	protobuf_c_message_free_unpacked(w->op.response, NULL);
	free(w);
}

bool names_wait(struct services *s, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const char *queue, const char *type)
{
	if (s->names_warning ||
	    ((!*queue || routes_have_queue(s->core->routes, queue)) && (!*type || routes_have_type(s->core->routes, type))))
		return false;
	Reeve__V1__CheckResponse *response = mem_malloc(sizeof *response);
	reeve__v1__check_response__init(response);
	struct names_wait *w = mem_calloc(1, sizeof *w);
	w->services = s;
	w->call = call;
	w->message = message;
	w->method = method;
	reeve__v1__check_request__init(&w->names);
	w->names.queue = queue;
	w->names.type = type;
	w->op = (struct store_read){
	    .op = service_op(s, call, on_names),
	    .kind = STORE_BOUND,
	    .statement = &sql_statements[SQL_CHECK],
	    .quick = true,
	    .request = &w->names.base,
	    .response = &response->base,
	};
	store_read(s->core->base.store, &w->op);
	return true;
}

bool filter_wait(struct services *s, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const Reeve__V1__TaskFilter *filter)
{
	return filter && names_wait(s, call, message, method, filter->queue, filter->type);
}

static bool check_error_text(const char *field, const char *text, struct reeve_error *error)
{
	size_t length = strlen(text);
	return length <= LIMIT_ERROR_BYTES ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "%s has %zu bytes; at most %d are allowed", field, length,
	        LIMIT_ERROR_BYTES);
}

static unsigned statuses_of(const Reeve__V1__TaskFilter *filter)
{
	unsigned statuses = 0;
	for (size_t i = 0; i < filter->n_statuses; i++)
		statuses |= 1U << filter->statuses[i];
	return statuses;
}

static bool check_statuses(const Reeve__V1__TaskFilter *f, struct reeve_error *error)
{
	if (!check_range("filter.statuses", (int64_t)f->n_statuses, 0, STATUSES_MAX, error))
		return false;
	for (size_t i = 0; i < f->n_statuses; i++) {
		char field[48];
		if (f->statuses[i] >= REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED &&
		    f->statuses[i] <= REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED)
			continue;
		snprintf(field, sizeof field, "filter.statuses[%zu]", i);
		return check_range(field, f->statuses[i], REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED,
		    REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED, error);
	}
	return true;
}

static bool check_details(const Reeve__V1__TaskFilter *f, struct reeve_error *error)
{
	if (!check_range("filter.details", (int64_t)f->n_details, 0, LIMIT_DETAILS_CONDITIONS, error))
		return false;
	for (size_t i = 0; i < f->n_details; i++) {
		char field[48];
		snprintf(field, sizeof field, "filter.details[%zu].path", i);
		if (!check_name(field, f->details[i]->path, false, error))
			return false;
		snprintf(field, sizeof field, "filter.details[%zu].value", i);
		if (!check_error_text(field, f->details[i]->value, error))
			return false;
	}
	return true;
}

bool filter_check(const Reeve__V1__TaskFilter *f, struct reeve_error *error)
{
	const int64_t longest = DAYS_MS(LIMIT_AGE_DAYS);
	if (!check_statuses(f, error) || !check_name("filter.queue", f->queue, true, error) ||
	    !check_name("filter.type", f->type, true, error) || !check_error_text("filter.error", f->error, error) ||
	    !check_error_text("filter.error_contains", f->error_contains, error) ||
	    !check_name("filter.error_code", f->error_code, true, error) ||
	    !check_name("filter.key", f->key, true, error) || !check_name("filter.source", f->source, true, error) ||
	    !check_name("filter.pipeline", f->pipeline, true, error) ||
	    !check_name("filter.stage", f->stage, true, error) ||
	    !check_range("filter.older_ms", f->older_ms, 0, longest, error) ||
	    !check_range("filter.newer_ms", f->newer_ms, 0, longest, error) ||
	    !check_range("filter.running_longer_ms", f->running_longer_ms, 0, longest, error) ||
	    !check_range("filter.batch_id", f->batch_id, 0, INT64_MAX, error) ||
	    !check_range("filter.parent_id", f->parent_id, 0, INT64_MAX, error) || !check_details(f, error) ||
	    !check_range("filter.after_id", f->after_id, 0, INT64_MAX, error))
		return false;
	if (f->running_longer_ms && statuses_of(f) & ~BIT(EXECUTING))
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "filter.running_longer_ms is for executing tasks, and filter.statuses selects others");
	return true;
}

/* Returns whether a filter has no condition. */
static bool is_empty(const Reeve__V1__TaskFilter *filter)
{
	const ProtobufCMessageDescriptor *d = filter->base.descriptor;
	for (unsigned i = 0; i < d->n_fields; i++)
		if (strcmp(d->fields[i].name, "after_id") != 0 && field_is_set(&filter->base, &d->fields[i]))
			return false;
	return true;
}

static bool check_possible(unsigned statuses, unsigned possible, struct reeve_error *error)
{
	if (possible == ENDED && statuses & ~ENDED)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "filter.statuses selects tasks that have not ended; only ended ones can be purged");
	if (possible != ENDED && statuses & ENDED)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "filter.statuses selects tasks that have ended; they can be retried or purged");
	return !(statuses & ~possible) ||
	    error_set(error, STATUS(INVALID_ARGUMENT),
	        "filter.statuses selects executing tasks; only their priority and attempts can be changed");
}

bool filter_executing(const Reeve__V1__TaskFilter *filter)
{
	return filter->running_longer_ms || statuses_of(filter) == BIT(EXECUTING);
}

bool filter_narrow(const Reeve__V1__TaskFilter *filter, enum store_edit_kind kind, bool waiting_only,
    struct filter_narrowed *out, struct reeve_error *error)
{
	unsigned statuses = filter->running_longer_ms ? BIT(EXECUTING) : statuses_of(filter);
	unsigned possible = kind == STORE_PURGE ? ENDED : waiting_only ? WAITING : LIVE;
	if (is_empty(filter))
		return error_set(error, STATUS(INVALID_ARGUMENT), "filter is empty: it must select tasks");
	if (kind != STORE_RETRY && !check_possible(statuses, possible, error))
		return false;
	if (!statuses)
		statuses = kind == STORE_RETRY ? BIT(FAILED) | BIT(DEAD) | BIT(CANCELLED) : possible;
	out->filter = *filter;
	out->filter.statuses = out->statuses;
	out->filter.n_statuses = 0;
	for (unsigned i = REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED; i <= REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED;
	     i++)
		if (statuses & 1U << i)
			out->statuses[out->filter.n_statuses++] = (Reeve__V1__TaskStatus)i;
	out->executing = statuses & BIT(EXECUTING);
	return true;
}
