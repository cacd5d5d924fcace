/* Filters: which tasks a list shows, and which a change is made to. */
#ifndef REEVE_MANAGER_SERVICE_FILTER_H
#define REEVE_MANAGER_SERVICE_FILTER_H

#include "manager/service/services.h"

#include <reeve/v1/task.pb-c.h>

/* True if a name is not known here, perhaps since another manager has just made it: the routes are loaded, then the method is called
 * again, or the call fails. */
bool names_wait(struct services *services, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const char *queue, const char *type);

/* The same for the names of a filter, which may be NULL. */
bool filter_wait(struct services *services, struct rpc_call *call, const ProtobufCMessage *message, rpc_method *method,
    const Reeve__V1__TaskFilter *filter);

/* That the queue and the type, where given, have tasks, live or in the history: another name is probably a typing error.
 * `path` stands before the fields' names: "" or "filter.". */
bool check_known_names(const struct services *services, const char *path, const char *queue, const char *type,
    struct reeve_error *error);

/* That the filter's conditions can be met. */
bool filter_check(const struct services *services, const Reeve__V1__TaskFilter *filter, struct reeve_error *error);

/* A checked filter for the store; its text is the message's. */
struct store_filter filter_from(const Reeve__V1__TaskFilter *filter);

/* A checked filter's statuses become those that the change may touch: those asked for, or, if none are, those that it is
 * meant for. False: it has no condition, or asks for tasks that the change cannot be made to. `changes_due`: an update of
 * the due time. */
bool filter_narrow(struct store_filter *filter, enum store_edit_kind kind, bool changes_due, struct reeve_error *error);

#endif
