/* The bare commit of one row, to measure a whole system's latency against: the same table on a connection of its own. The
 * tasks made are of a type that no worker runs. */
#ifndef REEVE_BENCH_COMMIT_H
#define REEVE_BENCH_COMMIT_H

#include "bench/database.h"

struct commit {
	PGconn *pg;
	struct params params;
	int route;
};

void commit_begin(struct commit *commit, const char *conninfo);

/* One task by a plain insert, and one by the manager's submit statement; each returns how long it took, in ns. */
int64_t commit_plain(struct commit *commit, const char *details);
int64_t commit_submit(struct commit *commit, const char *details);

/* Removes the tasks. */
void commit_end(struct commit *commit);

#endif
