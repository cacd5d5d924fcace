/* Names that requests ask for, and filters, which select the tasks of a list or a change. */
#ifndef REEVE_MANAGER_SERVICE_FILTER_H
#define REEVE_MANAGER_SERVICE_FILTER_H

#include "manager/service/services.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>

/* Returns true if a name is not known here: then it is looked up in the database, and the method is called again; the
 * call fails if that is not possible. The response of the second call has the warning, if no queue, task or schedule
 * has the name. To be called after all other checks, which do not need the database. Empty names are known. */
bool names_wait(struct services *services, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const char *queue, const char *type);

/* Like names_wait, for the names of a filter, which may be NULL. */
bool filter_wait(struct services *services, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const Reeve__V1__TaskFilter *filter);

/* Returns whether the names of a request are known, by the answer of the statement SQL_CHECK. */
bool names_known(
    const Reeve__V1__CheckRequest *names, const Reeve__V1__CheckResponse *found, struct reeve_error *error);

/* Checks that the filter is valid. */
bool filter_check(const Reeve__V1__TaskFilter *filter, struct reeve_error *error);

/* Returns whether a filter chooses executing tasks only. */
bool filter_executing(const Reeve__V1__TaskFilter *filter);

/* A filter with the statuses that a change can apply to. */
struct filter_narrowed {
	Reeve__V1__TaskFilter filter; /* for the store; its strings belong to the request */
	Reeve__V1__TaskStatus statuses[REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED];
	bool executing; /* they include EXECUTING */
};

/* Limits a checked filter to the statuses that a change can apply to: the requested ones, or, without any, the default
 * ones of the change. Returns false if the filter has no condition, or requests tasks to which the change cannot apply.
 * `waiting_only`: the change is an update that executing tasks do not allow. *out must not be moved. */
bool filter_narrow(const Reeve__V1__TaskFilter *filter, enum store_edit_kind kind, bool waiting_only,
    struct filter_narrowed *out, struct reeve_error *error);

#endif
