/*
 * Worker commands: drain, pause, resume, stop, and the number of handlers that run at once. Each is a row that
 * exists until it is revoked (resume revokes a pause) or the incarnation has ended. The answer to every heartbeat has
 * these rows. A manager where the worker has parked a Fetch answers it with them at once.
 */
#ifndef REEVE_MANAGER_CORE_CONTROL_H
#define REEVE_MANAGER_CORE_CONTROL_H

#include "manager/core/base.h"

struct control;
struct dispatch;
struct sessions;

struct control *control_create(struct base *base, struct dispatch *dispatch, struct sessions *sessions);
void control_destroy(struct control *control);

/* Answers a worker's parked Fetches with those commands of a heartbeat's answer that stop it from taking tasks (pause,
 * drain, stop), so that a Fetch parked before the worker knew of them brings no task. */
void control_standing(
    struct control *control, int64_t incarnation, const struct store_worker_command *commands, int count);

/* Handles another manager's notification of a worker command: "MANAGER INCARNATION". Any role of the
 * database can send one, so this does not trust its content: if the incarnation has a Fetch parked here, this reads its
 * commands from the database and answers the Fetch with those. */
void control_on_notification(struct control *control, const char *text);

#endif
