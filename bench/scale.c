/*
 * Measures many workers and many routes at a running manager: what they cost, and whether leases hold.
 *
 *	bench-scale --manager tcp://127.0.0.1:7171 [OPTION…]
 *
 *	--workers N      workers of the type scale_none, each with a parked Fetch and its heartbeats (default 100)
 *	--connections N  the connections that they share (default: one each)
 *	--routes N       tasks of this many types that no worker takes (default 0)
 *	--tasks N        submits this many tasks of the workers' type and drains them (default 0: the workers stay idle)
 *	--slots N        slots that a Fetch offers (default 10)
 *	--invented N     this many Fetches of invented incarnations at any time, a new one after each answer (default 0)
 *	--returning N    this many workers that fall silent until they are lost, and then resend their Fetches (default 0)
 *	--elsewhere URL  where those registered, if not at the same manager
 *	--seconds N      length of the measurement (default 10), unless SIGINT ends it before; longer if the manager would
 *	                 not report lost workers within that time
 *	--pid N          the manager's, for its CPU usage
 *	--reconnect      afterwards, all workers disconnect at once and immediately return
 *
 * One thread. Each figure is a line `name value unit`; the exit code is 1 if something could not be done.
 *	register_time       until the last worker is registered, when all connect and register at once
 *	cpu                 of the manager during the measurement, in percent of a core
 *	heartbeat_p50 …     the time of heartbeats that were answered without an error; also heartbeat_max
 *	heartbeat_errors    heartbeats that were answered with an error
 *	heartbeat_unanswered   heartbeats that were not answered within a lease
 *	ping_p50 …          the same for a caller that does nothing else; also ping_max
 *	ping_errors, ping_unanswered   the same as for heartbeats
 *	fetches             answered Fetches per second
 *	lost                workers that were reported lost without having been silent. They are watched for a lease
 *	                    and 2 s: the manager reports no loss earlier
 *	drain_rate          tasks of --tasks completed per second
 *	refused             answers to invented Fetches per second
 *	returned_time       from the resending of the returning workers' Fetches until the last one is refused
 *	reconnect_time      like register_time, just after all connections were closed;
 *	                    also reconnect_heartbeat_p50 and so on
 */
#include "bench/scale.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMIT_S = 180, LOST_MS = 2000 };

struct scale_options options = {.workers = 100, .slots = 10, .seconds = 10};
struct event_base *base;
bool measuring;
struct timings beats = {.name = "heartbeat"}, pings = {.name = "ping"};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	interrupted = number;
}

void turn(int64_t until_ns)
{
	int64_t left = until_ns - now_ns();
	const struct timeval after = {left < 0 ? 0 : left / 1000000000, left < 0 ? 0 : left % 1000000000 / 1000};

	event_base_loopexit(base, &after);
	event_base_dispatch(base);
}

void turn_until(const char *what, const int *count, int wanted)
{
	int64_t began = now_ns();

	while (*count < wanted) {
		if (now_ns() - began > LIMIT_S * INT64_C(1000000000))
			give_up("%s: %d of %d after %d s", what, *count, wanted, LIMIT_S);
		turn(now_ns() + 1000000);
	}
}

static double cpu_seconds(void)
{
	char path[64], text[1024] = "";
	unsigned long user = 0, system = 0;

	if (!options.pid)
		return 0;
	snprintf(path, sizeof path, "/proc/%d/stat", options.pid);
	FILE *file = fopen(path, "r");
	if (!file || !fgets(text, sizeof text, file))
		give_up("no process %d", options.pid);
	fclose(file);
	const char *at = strrchr(text, ')');
	if (!at || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
		give_up("%s is unlike it should be", path);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Starts to measure heartbeats and pings that are sent from now on. */
static void measure_begin(void)
{
	timings_begin(&beats);
	timings_begin(&pings);
	measuring = true;
}

/* Waits until the manager would have reported a lost worker. */
static void turn_until_told(void)
{
	turn(workers.registered_ns + (workers.lease_ms + LOST_MS) * INT64_C(1000000));
}

/* Stops measuring. Calls not answered yet get one more lease. */
static void measure_end(void)
{
	int64_t until = now_ns() + workers.lease_ms * INT64_C(1000000);

	measuring = false;
	timings_end(&beats);
	timings_end(&pings);
	while (beats.open + pings.open > 0 && now_ns() < until)
		turn(now_ns() + 1000000);
}

static void measured_report(const char *prefix)
{
	char line[64];

	timings_report(&beats, prefix);
	timings_report(&pings, prefix);
	snprintf(line, sizeof line, "%slost", prefix);
	report(line, workers.lost, "workers");
}

static void measure(void)
{
	double cpu = cpu_seconds();
	int64_t began = now_ns();

	measure_begin();
	fprintf(stderr, "bench-scale: measures\n");
	if (options.returning) {
		turn(now_ns() + (workers.lease_ms + LOST_MS) * INT64_C(1000000)); /* then they are lost */
		report("returned_time", workers_come_back(), "s");
	}
	if (options.tasks) {
		workers_fetch();
		turn_until("completed", &workers.completed, options.tasks);
		report("drain_rate", options.tasks / ((double)(now_ns() - began) / 1e9), "tasks/s");
	} else {
		while (!interrupted && now_ns() < began + options.seconds * INT64_C(1000000000))
			turn(now_ns() + 20 * 1000000);
	}
	turn_until_told();
	double seconds = (double)(now_ns() - began) / 1e9;
	if (options.pid)
		report("cpu", 100 * (cpu_seconds() - cpu) / seconds, "%");
	report("fetches", (double)workers.fetches / seconds, "/s");
	if (options.invented)
		report("refused", (double)callers_refused() / seconds, "/s");
	measure_end();
	measured_report("");
}

static void run(void)
{
	base = event_base_new();
	callers_begin();
	workers_create();
	callers_submit();
	workers.fetching = !options.tasks;
	report("register_time", workers_register(), "s");
	if (options.invented)
		callers_invent();
	turn(now_ns() + 2 * INT64_C(1000000000));
	measure();
	if (options.reconnect) {
		measure_begin();
		workers_disconnect();
		report("reconnect_time", workers_register(), "s");
		turn_until_told();
		measure_end();
		measured_report("reconnect_");
	}
}

int main(int argc, char **argv)
{
	static const struct option known[] = {{"manager", required_argument, NULL, 'm'},
	    {"workers", required_argument, NULL, 'w'}, {"connections", required_argument, NULL, 'c'},
	    {"routes", required_argument, NULL, 'r'}, {"tasks", required_argument, NULL, 't'},
	    {"slots", required_argument, NULL, 's'}, {"invented", required_argument, NULL, 'i'},
	    {"returning", required_argument, NULL, 'R'}, {"seconds", required_argument, NULL, 'S'},
	    {"pid", required_argument, NULL, 'p'}, {"elsewhere", required_argument, NULL, 'e'},
	    {"reconnect", no_argument, NULL, 'x'}, {0}};
	struct rlimit files;

	for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (option) {
		case 'm': options.manager = optarg; break;
		case 'w': options.workers = atoi(optarg); break;
		case 'c': options.connections = atoi(optarg); break;
		case 'r': options.routes = atoi(optarg); break;
		case 't': options.tasks = atoi(optarg); break;
		case 's': options.slots = atoi(optarg); break;
		case 'i': options.invented = atoi(optarg); break;
		case 'R': options.returning = atoi(optarg); break;
		case 'S': options.seconds = atoi(optarg); break;
		case 'p': options.pid = atoi(optarg); break;
		case 'e': options.elsewhere = optarg; break;
		case 'x': options.reconnect = true; break;
		default: return 1;
		}
	}
	if (!options.manager || options.workers < 1 || options.slots < 1 || optind != argc)
		give_up("usage: bench-scale --manager URL [OPTION…]; see bench/scale.c");
	if (options.connections < 1)
		options.connections = options.workers + options.returning;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGINT, interrupt);
	run();
	return 0;
}
