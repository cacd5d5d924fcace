/*
 * Every job of a manager. Intervals are in milliseconds. What one job finds makes others run: the tick compares fingerprints of
 * routes and queues, counts says whether arrivals and callbacks wait.
 */
#include "manager/jobs/jobs.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND };

const struct job_spec manager_jobs[JOBS] = {
    /* Says that this manager lives, reads the database's clock; not later than half a heartbeat. */
    [JOB_TICK] = {.name = "tick", .scope = JOB_EACH, .every_ms = SECOND},
    /* Watches the workers' heartbeats; not later than a quarter of one. */
    [JOB_WATCH] = {.name = "watch", .scope = JOB_EACH, .every_ms = 400},
    /* Takes tasks back from lost workers. */
    [JOB_SWEEP] = {.name = "sweep", .scope = JOB_ANY, .every_ms = 500, .more_ms = 10},
    /* Ends attempts that have run longer than they may. */
    [JOB_EXPIRE] = {.name = "expire", .scope = JOB_ANY, .every_ms = 500, .more_ms = 10},
    /* Adds up how many tasks there are of which kind. */
    [JOB_COUNTS] = {.name = "counts", .scope = JOB_ONE, .every_ms = SECOND, .more_ms = 10},
    /* Takes batches through their phases. The more batches live the more a look costs: requests wait for a multiple of that. */
    [JOB_BATCHES] = {.name = "batches", .scope = JOB_ANY, .every_ms = SECOND, .pause_ms = 10, .pause_times = 4},
    /* Submits what schedules have due. The database costs it next to nothing to be asked. */
    [JOB_SCHEDULES] = {.name = "schedules", .scope = JOB_ANY, .every_ms = 2 * SECOND, .pause_ms = 50, .retry_ms = SECOND,
        .retry_max_ms = SECOND},
    /* Admits tasks that were submitted by SQL. Rows that an old transaction keeps from being cleaned up make a walk long. */
    [JOB_ARRIVALS] = {.name = "arrivals", .scope = JOB_ANY, .first_ms = JOB_NEVER, .pause_ms = 50, .pause_times = 2},
    /* Reads the settings of queues. */
    [JOB_QUEUES] = {.name = "queues", .scope = JOB_EACH, .first_ms = JOB_NEVER, .pause_ms = 50},
    /* Ends the tasks of queues that are being stopped. */
    [JOB_QUEUE_STOPS] = {.name = "queue stops", .scope = JOB_ANY, .every_ms = 500},
    /* Reads the pairs of queue and type. */
    [JOB_ROUTES] = {.name = "routes", .scope = JOB_EACH, .every_ms = MINUTE, .pause_ms = 50, .pause_times = 10,
        .pause_max_ms = SECOND},
    /* Adds up the statistics of executions. */
    [JOB_STATISTICS] = {.name = "statistics", .scope = JOB_ONE, .every_ms = 30 * SECOND, .more_ms = 10, .retry_ms = 5 * SECOND,
        .retry_max_ms = 30 * SECOND},
    /* Makes and drops partitions, forgets what is over. */
    [JOB_TABLES] = {.name = "tables", .scope = JOB_ANY, .every_ms = MINUTE, .more_ms = SECOND, .retry_ms = 5 * SECOND,
        .retry_max_ms = MINUTE},
    /* Takes callbacks that are due. What fails is tried again when counts finds them. */
    [JOB_CALLBACKS] = {.name = "callbacks", .scope = JOB_ANY, .first_ms = JOB_NEVER},
    /* Writes parts of the history to files. */
    [JOB_ARCHIVE] = {.name = "archive", .scope = JOB_ONE, .every_ms = MINUTE},
    /* Writes this manager's counters to the metrics. */
    [JOB_COUNTERS] = {.name = "counters", .scope = JOB_EACH, .first_ms = SECOND, .every_ms = 10 * SECOND},
    /* Notifies other managers of tasks that wait. */
    [JOB_NOTIFY] = {.name = "notify", .scope = JOB_EACH, .first_ms = JOB_NEVER, .retry_ms = 500, .retry_max_ms = 500},
    /* Streams with something due, or to be looked at. */
    [JOB_STREAMS] = {.name = "streams", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Which streams there are, where that could not be read. */
    [JOB_STREAMS_LIST] = {.name = "list of streams", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* The last seconds of all streams, on a notification that names none. */
    [JOB_STREAMS_LATE] = {.name = "late tasks", .scope = JOB_EACH, .first_ms = JOB_NEVER, .pause_ms = SECOND},
    /* All streams from the top. */
    [JOB_STREAMS_ALL] = {.name = "all streams", .scope = JOB_EACH, .first_ms = MINUTE, .every_ms = MINUTE},
    /* A worker's waiting period is over: it may be given its first task. */
    [JOB_DISPATCH] = {.name = "dispatch", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Fetches that have waited long enough, profiles that nobody has had for long. */
    [JOB_FETCHES] = {.name = "fetches", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Calls that have waited long enough for tasks to end; */
    [JOB_WAITS] = {.name = "waits", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* … tasks that other managers have ended. */
    [JOB_WAITS_OTHERS] = {.name = "ended elsewhere", .scope = JOB_EACH, .every_ms = 500},
    /* Operations that have waited too long for the database. */
    [JOB_DEADLINES] = {.name = "deadlines", .scope = JOB_EACH, .every_ms = 100},
    /* Forgets workers that were not heard from for long. */
    [JOB_SESSIONS] = {.name = "sessions", .scope = JOB_EACH, .every_ms = MINUTE},
    /* Returns free memory to the system. */
    [JOB_MEMORY] = {.name = "memory", .scope = JOB_EACH, .first_ms = 10 * SECOND, .every_ms = 10 * SECOND},
};
