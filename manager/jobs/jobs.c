/* The runner of the jobs. Each job has the time of its next run, and a flag for a request to run earlier. */
#include "manager/jobs/jobs.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOG_EVERY_MS = 10 * 1000,     /* minimum time between logged failures of one job */
	LOG_SAME_MS = 60 * 60 * 1000, /* minimum time between logs of the same failure */
};

struct job {
	const struct job_spec *spec;
	job_run *run; /* NULL: the job never runs */
	void *arg;
	int64_t every_ms;
	int64_t due_ms;   /* when it runs next, by its interval or jobs_at */
	bool asked;       /* jobs_ask: it runs at pause_ms or later */
	int64_t pause_ms; /* the end of the pause after its last run */
	int64_t held_ms;  /* the end of the retry delay; it does not run earlier, whatever the reason */
	bool running;
	unsigned pass; /* the last pass in which it ran */
	int64_t began_ms;
	int64_t found_ms; /* see jobs_found; 0: not yet */
	int failures;     /* in a row */
	int64_t logged_ms;
	char logged[sizeof((struct reeve_error *)NULL)->message]; /* the last failure that was logged; "": none */
};

struct jobs {
	struct jobs_host host;
	struct job *all;
	int count;
	unsigned pass;
	bool stopped;
};

int64_t jobs_now(const struct jobs *jobs)
{
	return jobs->host.now_ms();
}

struct jobs *jobs_create(const struct job_spec *table, int count, const struct jobs_host *host)
{
	struct jobs *jobs = mem_calloc(1, sizeof *jobs);
	jobs->host = *host;
	jobs->count = count;
	jobs->all = mem_calloc((size_t)count, sizeof *jobs->all);
	for (int i = 0; i < count; i++) {
		jobs->all[i].spec = &table[i];
		jobs->all[i].every_ms = table[i].every_ms;
		jobs->all[i].due_ms = table[i].first_ms == JOB_NEVER ? JOB_NEVER : jobs_now(jobs) + table[i].first_ms;
	}
	return jobs;
}

void jobs_destroy(struct jobs *jobs)
{
	if (jobs)
		free(jobs->all);
	free(jobs);
}

void jobs_stop(struct jobs *jobs)
{
	jobs->stopped = true;
}

static struct job *job_of(struct jobs *jobs, int job)
{
	assert(job >= 0 && job < jobs->count);
	return &jobs->all[job];
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Returns when the job must run, or JOB_NEVER, also while it is running. */
static int64_t runs_at(const struct job *job)
{
	if (job->running || !job->run)
		return JOB_NEVER;
	return later(job->held_ms, job->asked ? earlier(job->pause_ms, job->due_ms) : job->due_ms);
}

static void timer_set(struct jobs *jobs, const struct job *job)
{
	int64_t at_ms = runs_at(job);
	if (at_ms != JOB_NEVER && !jobs->stopped)
		jobs->host.alarm(jobs->host.arg, at_ms);
}

void jobs_bind(struct jobs *jobs, int number, job_run *run, void *arg)
{
	struct job *job = job_of(jobs, number);
	job->run = run;
	job->arg = arg;
	timer_set(jobs, job);
}

void jobs_every(struct jobs *jobs, int number, int64_t every_ms)
{
	job_of(jobs, number)->every_ms = every_ms;
}

void jobs_ask(struct jobs *jobs, int number)
{
	struct job *job = job_of(jobs, number);
	if (job->asked)
		return;
	job->asked = true;
	timer_set(jobs, job);
}

void jobs_at(struct jobs *jobs, int number, int64_t at_ms)
{
	struct job *job = job_of(jobs, number);
	if (at_ms >= job->due_ms)
		return;
	job->due_ms = at_ms;
	timer_set(jobs, job);
}

/* --- runs ------------------------------------------------------------------------------------------------------- */

static void job_begin(struct jobs *jobs, struct job *job)
{
	job->began_ms = jobs_now(jobs);
	job->found_ms = 0;
	job->due_ms = job->every_ms ? job->began_ms + job->every_ms : JOB_NEVER;
	job->asked = false;
	job->running = true;
	job->pass = jobs->pass;
	if (!job->run(job->arg))
		job->running = false;
}

bool jobs_running(const struct jobs *jobs, int number)
{
	return jobs->all[number].running;
}

void jobs_found(struct jobs *jobs, int number)
{
	job_of(jobs, number)->found_ms = jobs_now(jobs);
}

/* Returns how long a request must wait after the run that ends now, in ms. */
static int64_t pause_of(const struct job *job, int64_t now_ms)
{
	const struct job_spec *spec = job->spec;
	int64_t took = (job->found_ms ? job->found_ms : now_ms) - job->began_ms, pause = spec->pause_times * took;
	if (spec->pause_max_ms && pause > spec->pause_max_ms)
		pause = spec->pause_max_ms;
	return later(pause, spec->pause_ms) - (job->found_ms ? now_ms - job->found_ms : 0);
}

static int64_t retry_of(const struct job *job)
{
	const struct job_spec *spec = job->spec;
	return spec->retry_max_ms ? clock_retry_ms(spec->retry_ms, spec->retry_max_ms, job->failures) : spec->retry_ms;
}

/* Limits logged failures. A first UNAVAILABLE is not logged, since another session may have held a lock for a moment;
 * it is if the next run fails, too. */
static bool worth_logging(const struct job *job, const struct reeve_error *error, int64_t now_ms)
{
	int64_t since = now_ms - job->logged_ms;
	if (error->code == STATUS(UNAVAILABLE) && job->failures < 2)
		return false;
	return !job->logged_ms || since >= LOG_SAME_MS ||
	    (since >= LOG_EVERY_MS && strcmp(error->message, job->logged) != 0);
}

static void log_failure(const struct job *job, const struct reeve_error *error, int64_t now_ms)
{
	const char *who = job->spec->scope == JOB_EACH ? "" : ", here or by another manager";
	char in[40];
	if (job->due_ms == JOB_NEVER)
		log_warn(job->spec->name, "%s; tried again when it is asked for%s", error->message, who);
	else
		log_warn(job->spec->name, "%s; tried again in %s%s", error->message,
		    duration_format(later(job->due_ms - now_ms, 0), in, sizeof in), who);
}

static void job_failed(struct job *job, const struct reeve_error *error, int64_t now_ms)
{
	job->failures++;
	int64_t retry = retry_of(job);
	if (retry) {
		job->held_ms = now_ms + retry;
		job->due_ms = earlier(job->due_ms, job->held_ms);
	}
	if (!worth_logging(job, error, now_ms))
		return;
	job->logged_ms = now_ms;
	snprintf(job->logged, sizeof job->logged, "%s", error->message);
	log_failure(job, error, now_ms);
}

static void job_succeeded(struct job *job)
{
	if (*job->logged)
		log_info(
		    job->spec->name, "works again, after %d %s", job->failures, job->failures == 1 ? "failure" : "failures");
	job->failures = 0;
	job->logged_ms = 0;
	*job->logged = 0;
}

void jobs_done(struct jobs *jobs, int number, const struct reeve_error *error, bool more)
{
	struct job *job = job_of(jobs, number);
	int64_t now_ms = jobs_now(jobs);
	assert(job->running);
	job->running = false;
	job->pause_ms = now_ms + pause_of(job, now_ms);
	if (jobs->stopped)
		return;
	if (error)
		job_failed(job, error, now_ms);
	else
		job_succeeded(job);
	if (!error && more)
		job->due_ms = earlier(job->due_ms, now_ms + job->spec->more_ms);
	timer_set(jobs, job);
}

/* --- passes ------------------------------------------------------------------------------------------------------ */

/* Returns the job that has been due longest among those that have not run in this pass, or NULL. */
static struct job *next_due(struct jobs *jobs, int64_t now_ms)
{
	struct job *first = NULL;
	for (int i = 0; i < jobs->count; i++) {
		struct job *job = &jobs->all[i];
		if (job->pass != jobs->pass && runs_at(job) <= now_ms && (!first || runs_at(job) < runs_at(first)))
			first = job;
	}
	return first;
}

void jobs_run(struct jobs *jobs)
{
	int64_t now_ms = jobs_now(jobs), next_ms = JOB_NEVER;
	jobs->pass++;
	for (struct job *job; !jobs->stopped && (job = next_due(jobs, now_ms));)
		job_begin(jobs, job);
	for (int i = 0; i < jobs->count; i++)
		next_ms = earlier(next_ms, runs_at(&jobs->all[i]));
	if (next_ms != JOB_NEVER && !jobs->stopped)
		jobs->host.alarm(jobs->host.arg, next_ms);
}
