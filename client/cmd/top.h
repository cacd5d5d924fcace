/* What `reeve top` shows. */
#ifndef REEVE_CLIENT_TOP_H
#define REEVE_CLIENT_TOP_H

#include <reeve/client.h>
#include <reeve/v1/admin.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum top_sort {
	TOP_BY_WAITING,
	TOP_BY_OLDEST,
	TOP_BY_EXECUTING,
	TOP_BY_NAME,
	TOP_SORTS, /* the number of them */
};

/* The state at one time. */
struct top_data {
	int64_t now_us;
	Reeve__V1__StatsResponse *stats;
	Reeve__V1__ListQueuesResponse *queues;
	Reeve__V1__ListWorkersResponse *workers;
	Reeve__V1__ListResponse *running;   /* the newest of them */
	double completed_rate, failed_rate; /* tasks per second, over the last seconds; negative: not known yet */
};

/* Reads everything; returns false with *failure set. */
bool top_read(struct top_data *data, struct reeve_client *client, struct reeve_failure *failure);
void top_free(struct top_data *data);

/* What the screen says beside that. */
struct top_view {
	int rows, columns;
	enum top_sort sort;
	bool paused;
	int64_t interval_ms;
	const char *problem; /* why there is no newer data; "": there is */
};

/* Returns the screen's text, which the caller must free: `rows` lines, none longer than `columns`. `data` may be NULL.
 * It sorts what is in the data. */
char *top_text(const struct top_view *view, struct top_data *data);

#endif
