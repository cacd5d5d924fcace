/*
 * Periodic work: a runner, and a table of jobs (table.c). A job runs at its interval, earlier on request, soon again
 * while there is more to do, and later after a failure. Two runs of a job never overlap. Modules bind a function to
 * each job.
 *
 * In one pass each due job runs once, the one that has been due longest first; then the event loop continues. So a job
 * that always has more to do delays the others by only one run.
 *
 * All functions must be called on the loop's thread. Times are monotonic, in milliseconds.
 */
#ifndef REEVE_MANAGER_JOBS_JOBS_H
#define REEVE_MANAGER_JOBS_JOBS_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

/* The jobs of a manager. table.c describes them. */
enum job_name {
	JOB_HEARTBEAT,
	JOB_WATCH,
	JOB_SWEEP,
	JOB_EXPIRE,
	JOB_COUNTS,
	JOB_BATCHES,
	JOB_SCHEDULES,
	JOB_INBOX,
	JOB_QUEUES,
	JOB_LIMITS,
	JOB_QUEUE_STOPS,
	JOB_ROUTES,
	JOB_STATISTICS,
	JOB_ACTIVITY,
	JOB_DEPTHS,
	JOB_TABLES,
	JOB_CALLBACKS,
	JOB_ARCHIVE,
	JOB_COUNTERS,
	JOB_SCRAPES,
	JOB_TRACES,
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
	JOB_IDENTITIES,
	JOB_IDENTITY_USES,
	JOBS
};

/* Which managers run a job. */
enum job_scope {
	JOB_EACH, /* each, for its own memory or its own row */
	JOB_ANY,  /* all: each piece of work is done once, by the manager that locks its row first */
	JOB_ONE,  /* one at a time, which has locked a row of the table `locks`; the others find the lock and do nothing */
};

/* The time of a job that is not due. */
#define JOB_NEVER INT64_MAX

struct job_spec {
	const char *name; /* in the log */
	enum job_scope scope;
	int64_t first_ms;     /* from the start to the first run; JOB_NEVER: only on request */
	int64_t every_ms;     /* from the beginning of a run to that of the next; 0: only on request */
	int64_t more_ms;      /* from the end of a run that left work to the next run */
	int64_t pause_ms;     /* how long a request waits after the last run */
	int64_t pause_times;  /* this multiple of that run's duration, if it is longer than pause_ms */
	int64_t pause_max_ms; /* the maximum; 0: none */
	int64_t retry_ms;     /* the retry delay, doubled after each further failure; 0: a failure changes nothing */
	int64_t retry_max_ms; /* the limit of the retry delay; 0: it is not doubled */
};

extern const struct job_spec manager_jobs[JOBS];

/* Runs a job. Returns true if the run calls jobs_done when it ends, which may be before this returns, and false if the
 * run has ended or there was nothing to do. */
typedef bool job_run(void *arg);

struct jobs_host {
	int64_t (*now_ms)(void);
	void (*alarm)(void *arg, int64_t at_ms); /* schedules jobs_run for this time, which may have passed, or earlier */
	void *arg;
};

struct jobs;

/* Creates a runner. The table is kept, not copied; a job's number is its index there. */
struct jobs *jobs_create(const struct job_spec *table, int count, const struct jobs_host *host);
void jobs_destroy(struct jobs *jobs);

/* Sets the function of a job, which never runs without one. `arg` must live as long as the runner, or until
 * jobs_stop. */
void jobs_bind(struct jobs *jobs, int job, job_run *run, void *arg);

/* Overrides the table's interval. */
void jobs_every(struct jobs *jobs, int job, int64_t every_ms);

/* Requests a run, as there may be work: the job runs as soon as its pause has ended. If it is running, it runs once
 * more after the pause, as it may have read its data too early. */
void jobs_ask(struct jobs *jobs, int job);

/* Requests a run at this time or earlier, for work whose time is known. The pause does not delay it; a retry delay
 * does. */
void jobs_at(struct jobs *jobs, int job, int64_t at_ms);

/* Marks the end of the search for work in the current run. The pause is then computed from the search's duration and
 * begins now; the work itself does not lengthen it. */
void jobs_found(struct jobs *jobs, int job);

/* Ends a run. `error` is why it failed, which only this function logs, or NULL. `more`: it left work. */
void jobs_done(struct jobs *jobs, int job, const struct reeve_error *error, bool more);

/* Returns true while the job is running. */
bool jobs_running(const struct jobs *jobs, int job);

/* Runs the due jobs. Call it when the host's timer expires. */
void jobs_run(struct jobs *jobs);

/* Stops the runner: no job begins, and ends of runs are not logged. Their modules may be destroyed. */
void jobs_stop(struct jobs *jobs);

/* Returns the host's current time. */
int64_t jobs_now(const struct jobs *jobs);

#endif
