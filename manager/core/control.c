/* Answers parked Fetches with worker commands. See control.h. */
#include "manager/core/control.h"

#include "manager/core/dispatch.h"
#include "manager/core/sessions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Notifications cause up to so many reads of an incarnation's commands at once, and after that one for each
 * NOTIFIED_MS. */
enum { AT_ONCE = 10, NOTIFIED_MS = 50 };

struct control {
	struct base *base;
	struct dispatch *dispatch;
	struct sessions *sessions;
};

struct control *control_create(struct base *base, struct dispatch *dispatch, struct sessions *sessions)
{
	struct control *c = mem_calloc(1, sizeof *c);
	*c = (struct control){base, dispatch, sessions};
	return c;
}

void control_destroy(struct control *control)
{
	free(control);
}

static bool ends_fetching(const char *kind)
{
	return !strcmp(kind, "pause") || !strcmp(kind, "drain") || !strcmp(kind, "stop");
}

void control_standing(
    struct control *control, int64_t incarnation, const struct store_worker_command *commands, int count)
{
	for (int i = 0; i < count; i++)
		if (commands[i].task_id == 0 && ends_fetching(commands[i].kind))
			dispatch_commands(control->dispatch, incarnation, &commands[i], 1);
}

/* Reads the commands of an incarnation that has a Fetch parked here. */
struct standing {
	struct store_worker_commands op;
	struct control *control;
};

static void on_standing(struct store_op *op, const struct reeve_error *error)
{
	struct standing *s = (struct standing *)op;
	struct store_worker_command *own = mem_calloc((size_t)s->op.command_count + 1, sizeof *own);
	int n = 0;
	for (int i = 0; !error && i < s->op.command_count; i++)
		if (s->op.commands[i].task_id == 0) /* a cancel comes with the next heartbeat */
			own[n++] = s->op.commands[i];
	if (n)
		dispatch_commands(s->control->dispatch, s->op.incarnation, own, n);
	free(own);
	free(s);
}

void control_on_notification(struct control *control, const char *text)
{
	int64_t manager, incarnation, now_ms = base_now(control->base);
	if (sscanf(text, "%" SCNd64 " %" SCNd64 " ", &manager, &incarnation) != 2 ||
	    manager == store_manager_id(control->base->store))
		return;
	struct session *session = sessions_find(control->sessions, incarnation);
	if (!session || !session->fetches || now_ms <= session->commands_ms)
		return;
	if (session->commands_ms < now_ms - AT_ONCE * NOTIFIED_MS)
		session->commands_ms = now_ms - AT_ONCE * NOTIFIED_MS;
	session->commands_ms += NOTIFIED_MS;
	struct standing *s = mem_calloc(1, sizeof *s);
	s->control = control;
	s->op = (struct store_worker_commands){.op.done = on_standing, .incarnation = incarnation};
	store_worker_commands(control->base->store, &s->op);
}
