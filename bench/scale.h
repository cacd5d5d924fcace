/* What the parts of bench-scale share. */
#ifndef REEVE_BENCH_SCALE_H
#define REEVE_BENCH_SCALE_H

#include "bench/peer.h"
#include "bench/report.h"
#include "bench/timings.h"

#define WORKER(method) "/reeve.v1.WorkerService/" method

enum { PARK_MS = 10000 };

extern struct scale_options {
	const char *manager, *elsewhere;
	int workers, connections, routes, tasks, slots, invented, returning, seconds, pid;
	bool reconnect;
} options;

extern struct event_base *base;
extern bool measuring;
extern struct timings beats, pings; /* heartbeats, and the pings of a caller that does nothing else */

/* Runs the loop until a time, or until a count reaches a number; gives up after three minutes. */
void turn(int64_t until_ns);
void turn_until(const char *what, const int *count, int wanted);

/* --- the connections of workers, and others ----------------------------------------------------------------------- */

/* Connects to an address. The end of such a connection ends the program, unless those of the workers are being closed.
 */
struct peer *connect_to(const char *url);

/* Opens the connections of all workers, which ping as workers do; returns that of a worker; closes them all. */
void connections_open(void);
struct peer *connection_of(int worker);
void connections_close(void);

/* --- workers ------------------------------------------------------------------------------------------------------ */

extern struct workers {
	uint32_t lease_ms;
	bool fetching;         /* they fetch as soon as they are registered */
	int64_t registered_ns; /* when all were registered */
	int lost;              /* workers told so that were not silent */
	int completed;         /* tasks */
	int64_t fetches;       /* answered while measuring */
} workers;

void workers_create(void);

/* Connects and registers all of them. Returns how long that took, in seconds. */
double workers_register(void);

/* Sends their first Fetches. */
void workers_fetch(void);

/* Closes all their connections. */
void workers_disconnect(void);

/* Resends the Fetches of the returning workers, which are lost. Returns how long it took until all were refused, in
 * seconds. */
double workers_come_back(void);

/* --- other callers ------------------------------------------------------------------------------------------------ */

/* Connects, and pings from now on. */
void callers_begin(void);

/* Submits the tasks of --routes and --tasks. */
void callers_submit(void);

/* Sends the Fetches of invented incarnations, from now on. */
void callers_invent(void);

/* Returns how many of these were answered while measuring. */
int64_t callers_refused(void);

#endif
