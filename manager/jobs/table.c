/*
 * The jobs of a manager. Intervals are in milliseconds. Some jobs make others run: "heartbeat" compares fingerprints of
 * routes and queues, and "counts" finds out whether tasks in the inbox or callbacks wait.
 */
#include "manager/jobs/jobs.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND };

const struct job_spec manager_jobs[JOBS] = {
    /* Records this manager's heartbeat and reads the database's clock. The interval is at most half that of workers'
     * heartbeats. */
    [JOB_HEARTBEAT] = {.name = "heartbeat", .scope = JOB_EACH, .every_ms = SECOND},
    /* Checks the workers' heartbeats. The interval is at most a quarter of the heartbeats' interval. */
    [JOB_WATCH] = {.name = "watch", .scope = JOB_EACH, .every_ms = 400},
    /* Reclaims the tasks of lost workers. */
    [JOB_SWEEP] = {.name = "sweep", .scope = JOB_ANY, .every_ms = 500, .more_ms = 10},
    /* Reclaims attempts whose expiry has passed. */
    [JOB_EXPIRE] = {.name = "expire", .scope = JOB_ANY, .every_ms = 500, .more_ms = 10},
    /* Adds up the numbers of tasks of each kind. */
    [JOB_COUNTS] = {.name = "counts", .scope = JOB_ONE, .every_ms = SECOND, .more_ms = 10},
    /* Moves batches through their phases. The query costs more with more live batches, so requests wait a multiple of
     * its time. */
    [JOB_BATCHES] = {.name = "batches", .scope = JOB_ANY, .every_ms = SECOND, .pause_ms = 10, .pause_times = 4},
    /* Fires due schedules. The query costs the database almost nothing. */
    [JOB_SCHEDULES] = {.name = "schedules",
        .scope = JOB_ANY,
        .every_ms = 2 * SECOND,
        .pause_ms = 50,
        .retry_ms = SECOND,
        .retry_max_ms = SECOND},
    /* Ingests tasks that were submitted by SQL. A run is long if an old transaction prevents the clean-up of the
     * inbox's dead rows. */
    [JOB_INBOX] = {.name = "inbox", .scope = JOB_ANY, .first_ms = JOB_NEVER, .pause_ms = 50, .pause_times = 2},
    /* Reads the settings of queues. */
    [JOB_QUEUES] = {.name = "queues", .scope = JOB_EACH, .first_ms = JOB_NEVER, .pause_ms = 50},
    /* Reads how many more tasks of queues with a limit may execute, while Fetches wait for that. */
    [JOB_LIMITS] = {.name = "limits", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Ends the tasks of stopped queues. */
    [JOB_QUEUE_STOPS] = {.name = "queue stops", .scope = JOB_ANY, .every_ms = 500},
    /* Reads the pairs of queue and type. */
    [JOB_ROUTES] = {.name = "routes",
        .scope = JOB_EACH,
        .every_ms = MINUTE,
        .pause_ms = 50,
        .pause_times = 10,
        .pause_max_ms = SECOND},
    /* Adds up the statistics of executions. */
    [JOB_STATISTICS] = {.name = "statistics",
        .scope = JOB_ONE,
        .every_ms = 30 * SECOND,
        .more_ms = 10,
        .retry_ms = 5 * SECOND,
        .retry_max_ms = 30 * SECOND},
    /* Adds what this manager has done to the history of it. A failure is tried again the next time. */
    [JOB_ACTIVITY] = {.name = "activity", .scope = JOB_EACH, .first_ms = 5 * SECOND, .every_ms = 5 * SECOND},
    /* Samples how many tasks there are, unless a manager has done so in this minute. */
    [JOB_DEPTHS] = {.name = "depths", .scope = JOB_ONE, .every_ms = 10 * SECOND},
    /* Creates and drops partitions, and deletes old rows. */
    [JOB_TABLES] = {.name = "tables",
        .scope = JOB_ANY,
        .every_ms = MINUTE,
        .more_ms = SECOND,
        .retry_ms = 5 * SECOND,
        .retry_max_ms = MINUTE},
    /* Takes due callbacks. After a failure it runs again when "counts" finds them. */
    [JOB_CALLBACKS] = {.name = "callbacks", .scope = JOB_ANY, .first_ms = JOB_NEVER},
    /* Writes partitions of the history to files. */
    [JOB_ARCHIVE] = {.name = "archive", .scope = JOB_ONE, .every_ms = MINUTE},
    /* Writes this manager's counters to the metrics. */
    [JOB_COUNTERS] = {.name = "counters", .scope = JOB_EACH, .first_ms = SECOND, .every_ms = 10 * SECOND},
    /* Answers scrapes of metrics without the numbers of the database, which has not answered in time. */
    [JOB_SCRAPES] = {.name = "scrapes", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Sends spans of traces. */
    [JOB_TRACES] = {.name = "traces", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Notifies other managers of waiting tasks. */
    [JOB_NOTIFY] = {.name = "notify", .scope = JOB_EACH, .first_ms = JOB_NEVER, .retry_ms = 500, .retry_max_ms = 500},
    /* Handles expired timers of streams: due tasks, scans and retries. */
    [JOB_STREAMS] = {.name = "streams", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Repeats the discovery of streams after a failure. */
    [JOB_STREAMS_LIST] = {.name = "list of streams", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Rescans the last seconds of all streams, or from the notified time on, after a notification that names no
     * stream. */
    [JOB_STREAMS_LATE] = {.name = "late tasks", .scope = JOB_EACH, .first_ms = JOB_NEVER, .pause_ms = SECOND},
    /* Reads all streams from the top. */
    [JOB_STREAMS_ALL] = {.name = "all streams", .scope = JOB_EACH, .first_ms = MINUTE, .every_ms = MINUTE},
    /* Dispatches again when a worker's waiting period has ended, as the worker may get its first task. */
    [JOB_DISPATCH] = {.name = "dispatch", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Answers Fetches whose fetch wait has ended, and forgets unused profiles. */
    [JOB_FETCHES] = {.name = "fetches", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Answers calls whose wait for the end of tasks has timed out. */
    [JOB_WAITS] = {.name = "waits", .scope = JOB_EACH, .first_ms = JOB_NEVER},
    /* Finds tasks that other managers have ended, for these calls. */
    [JOB_WAITS_OTHERS] =
        {.name = "ended elsewhere", .scope = JOB_EACH, .first_ms = JOB_NEVER, .retry_ms = 500, .retry_max_ms = 500},
    /* Ends operations that have waited too long for the database. */
    [JOB_DEADLINES] = {.name = "deadlines", .scope = JOB_EACH, .every_ms = 100},
    /* Forgets workers that have been silent for a long time. */
    [JOB_SESSIONS] = {.name = "sessions", .scope = JOB_EACH, .every_ms = MINUTE},
    /* Returns free memory to the system. */
    [JOB_MEMORY] = {.name = "memory", .scope = JOB_EACH, .first_ms = 10 * SECOND, .every_ms = 10 * SECOND},
    /* Reads the identities if they have changed. */
    [JOB_IDENTITIES] = {.name = "identities", .scope = JOB_EACH, .every_ms = SECOND, .pause_ms = 50},
    /* Records when identities were used. */
    [JOB_IDENTITY_USES] = {.name = "uses of identities", .scope = JOB_EACH, .first_ms = MINUTE, .every_ms = MINUTE},
};
