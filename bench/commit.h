/* Measures the bare commit of one row, for comparison with the latency of the entire system: the same table, on a
 * connection of its own. The tasks have a type that no worker runs. */
#ifndef REEVE_BENCH_COMMIT_H
#define REEVE_BENCH_COMMIT_H

#include "bench/database.h"

struct commit {
	PGconn *pg;
	struct params params;
	int route;
};

void commit_begin(struct commit *commit, const char *conninfo);

/* Creates one task, by a plain insert or by the manager's submit statement. Returns how long it took, in ns. */
int64_t commit_plain(struct commit *commit, const char *details);
int64_t commit_submit(struct commit *commit, const char *details);

/* Deletes the tasks and closes the connection. */
void commit_end(struct commit *commit);

#endif
