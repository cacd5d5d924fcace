/*
 * Periodic work: one runner, and a table of jobs (table.c). A job runs at its interval, earlier when somebody asks for it, again
 * soon while there is more to do, and later after a failure. It never runs twice at the same time. Modules bind what runs it.
 *
 * Each job that is due runs once in a pass, the one that has been due longest first; then the loop has its turn. So a job that
 * always has more to do delays the others by one run, not for ever.
 *
 * All functions are called on the loop's thread. Times are of the monotonic clock, in milliseconds.
 */
#ifndef REEVE_MANAGER_JOBS_JOBS_H
#define REEVE_MANAGER_JOBS_JOBS_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

/* The jobs of a manager, as table.c describes them. */
enum job_name {
	JOB_TICK,
	JOB_WATCH,
	JOB_SWEEP,
	JOB_EXPIRE,
	JOB_COUNTS,
	JOB_BATCHES,
	JOB_SCHEDULES,
	JOB_ARRIVALS,
	JOB_QUEUES,
	JOB_QUEUE_STOPS,
	JOB_ROUTES,
	JOB_STATISTICS,
	JOB_TABLES,
	JOB_CALLBACKS,
	JOB_ARCHIVE,
	JOB_COUNTERS,
	JOB_NOTIFY,
	JOB_STREAMS,
	JOB_STREAMS_LIST,
	JOB_STREAMS_LATE,
	JOB_STREAMS_ALL,
	JOB_DISPATCH,
	JOB_FETCHES,
	JOB_WAITS,
	JOB_WAITS_OTHERS,
	JOB_DEADLINES,
	JOB_SESSIONS,
	JOB_MEMORY,
	JOBS
};

/* Which managers do it, where there are several. */
enum job_scope {
	JOB_EACH, /* each for itself: what it keeps in memory, or a row of its own */
	JOB_ANY,  /* all of them: each piece of work is done once, by whichever locks its row first */
	JOB_ONE,  /* one at a time, which has locked a row of the table `locks`; the others find that, and do nothing */
};

/* A time that never comes. */
#define JOB_NEVER INT64_MAX

struct job_spec {
	const char *name; /* in the log */
	enum job_scope scope;
	int64_t first_ms;     /* after the start; JOB_NEVER: not before somebody asks for it */
	int64_t every_ms;     /* from the beginning of one run to that of the next; 0: only when somebody asks for it */
	int64_t more_ms;      /* from the end of a run that left work to the next one */
	int64_t pause_ms;     /* a request waits so long after the last run, */
	int64_t pause_times;  /* … or so many times what that took, if that is longer, */
	int64_t pause_max_ms; /* … but no longer than this; 0: without a limit */
	int64_t retry_ms;     /* after a failure, doubled with each further one; 0: a failure changes nothing */
	int64_t retry_max_ms;
};

extern const struct job_spec manager_jobs[JOBS];

/* Does the work. True: jobs_done is called when it has ended, perhaps before this returns. False: there was nothing to do. */
typedef bool job_run(void *arg);

struct jobs_host {
	int64_t (*now_ms)(void);
	void (*alarm)(void *arg, int64_t at_ms); /* call jobs_run at this time or earlier; it may have passed */
	void *arg;
};

struct jobs;

/* The table is kept, not copied. A job's number is its place in the table. */
struct jobs *jobs_create(const struct job_spec *table, int count, const struct jobs_host *host);
void jobs_destroy(struct jobs *jobs);

/* Says what runs a job; without this it never runs. `arg` lives as long as the runner, or until jobs_stop. */
void jobs_bind(struct jobs *jobs, int job, job_run *run, void *arg);

/* Another interval than the table's. */
void jobs_every(struct jobs *jobs, int job, int64_t every_ms);

/* There may be work: the job runs as soon as its pause is over. If it is running it runs once more after that, as it may have
 * looked too early. */
void jobs_ask(struct jobs *jobs, int job);

/* The job runs at this time, or earlier: for work whose time is known. No pause keeps it, a failure does. */
void jobs_at(struct jobs *jobs, int job, int64_t at_ms);

/* The run under way has found out what there is to do, and does it now: the pause goes by what it took to get here. */
void jobs_found(struct jobs *jobs, int job);

/* A run has ended. `error`: why it failed, which is logged here and nowhere else; NULL: it did not. `more`: it left work. */
void jobs_done(struct jobs *jobs, int job, const struct reeve_error *error, bool more);

/* Whether a run is under way. */
bool jobs_running(const struct jobs *jobs, int job);

/* Runs what is due: call it when the alarm goes off. */
void jobs_run(struct jobs *jobs);

/* Nothing runs any more, and runs that end are not logged: their modules may go. */
void jobs_stop(struct jobs *jobs);

/* Now. */
int64_t jobs_now(const struct jobs *jobs);

#endif
