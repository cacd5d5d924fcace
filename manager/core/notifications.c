/* Parses notifications. Any role of the database can send any payload, so what cannot be parsed is ignored. */
#include "manager/core/notifications.h"

#include "common/limits.h"
#include "manager/core/control.h"
#include "manager/core/ready.h"
#include "manager/core/rescan.h"
#include "manager/core/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Notifications that request a job. */
static const struct word {
	const char *payload;
	enum job_name job;
} words[] = {
    {"queues", JOB_QUEUES}, {"schedules", JOB_SCHEDULES}, {"inbox", JOB_INBOX}, {"identities", JOB_IDENTITIES}};

enum { WORDS = sizeof words / sizeof *words };

struct notifications {
	struct base *base;
	struct routes *routes;
	struct ready_cache *cache;
	struct late *late;
	struct control *control;
};

struct notifications *notifications_create(struct base *base, const struct notifications_neighbours *to)
{
	struct notifications *n = mem_calloc(1, sizeof *n);
	*n = (struct notifications){base, to->routes, to->cache, to->late, to->control};
	return n;
}

void notifications_destroy(struct notifications *n)
{
	free(n);
}

static void stream_notified(struct notifications *n, int route, int32_t priority, int64_t run_at_us)
{
	if (route == 0)
		ready_poll_again(n->cache, run_at_us);
	else if (!routes_known(n->routes, route))
		jobs_ask(n->base->jobs, JOB_ROUTES); /* the job then looks for its streams */
	else
		ready_rewind(n->cache, route, priority, run_at_us);
}

/* Maps a time from a notification into the range that can be passed to the database. */
static int64_t notified_time(int64_t us)
{
	return us < 0 ? STORE_TIME_BEGIN : us > LIMIT_TIME_US ? STORE_TIME_NEVER : us;
}

/* Reads "MANAGER ROUTE PRIORITY RUN_AT…", and ignores what cannot be parsed. */
static void streams_notified(struct notifications *n, const char *payload)
{
	int64_t manager, run_at, until;
	int32_t priority;
	int route, length, found;
	if (sscanf(payload, "%" SCNd64 "%n", &manager, &length) != 1 || manager == store_manager_id(n->base->store))
		return;
	if (manager == 0 &&
	    sscanf(payload + length, " %d %" SCNd32 " %" SCNd64 " %" SCNd64, &route, &priority, &run_at, &until) == 4 &&
	    routes_known(n->routes, route)) {
		rescan_rewind(n->late, route, priority, notified_time(run_at), notified_time(until));
	} else {
		for (const char *at = payload + length; *at; at += found + (at[found] == ';')) {
			if (sscanf(at, " %d %" SCNd32 " %" SCNd64 "%n", &route, &priority, &run_at, &found) != 3)
				break;
			stream_notified(n, route, priority, notified_time(run_at));
			if (at[found] && at[found] != ';')
				break;
		}
	}
	base_dispatch(n->base);
}

void notifications_receive(struct notifications *n, const char *payload)
{
	for (int i = 0; i < WORDS; i++)
		if (!strcmp(payload, words[i].payload)) {
			jobs_ask(n->base->jobs, words[i].job);
			return;
		}
	if (!strncmp(payload, "command ", 8))
		control_on_notification(n->control, payload + 8);
	else
		streams_notified(n, payload);
}
