/*
 * The limits and defaults of the contract, for clients, managers, workers and SQL. proto/ says what they mean.
 *
 * sql/embed replaces the names LIMIT_… and DEFAULT_… in tables, functions and views by their numbers.
 */
#ifndef REEVE_COMMON_LIMITS_H
#define REEVE_COMMON_LIMITS_H

#include <stdint.h>

/* Texts. */
#define LIMIT_NAME_BYTES 255 /* names, types, keys, sources, error codes */
#define LIMIT_CRON_BYTES 255
#define LIMIT_REMARK_BYTES 4096
#define LIMIT_STACK_BYTES 65536
#define LIMIT_LOG_LINES 1000 /* of a task */
#define LIMIT_LOG_BYTES 65536
#define LIMIT_LOG_LINE_BYTES 4096
#define LIMIT_ERROR_BYTES 65536 /* by which tasks are chosen */
#define LIMIT_REASON_BYTES 1000 /* of a cancel, a discard, or a worker that leaves */

/* A call. */
#define LIMIT_CALL_TASKS 10000 /* tasks, ids, results, slots */
#define LIMIT_CALL_EVENTS 100000
#define DEFAULT_CALL_EVENTS 1000
#define LIMIT_EVENT_KINDS 100       /* by which events are chosen */
#define LIMIT_DETAILS_CONDITIONS 20 /* by which tasks are chosen */
#define LIMIT_CALL_METRICS 1000     /* to put */
#define LIMIT_METRICS 10000         /* of applications */
#define LIMIT_LIST 1000             /* items of an answer */
#define DEFAULT_LIST 100
#define LIMIT_LIST_LONG 10000 /* tasks of a batch, metrics, groups of errors */
#define LIMIT_PREVIEW 1000    /* scheduled times */

/* A task. */
#define LIMIT_PRIORITY 1000000 /* and as far below 0 */
#define LIMIT_ATTEMPTS 10000
#define LIMIT_TIMEOUT_DAYS 30
#define LIMIT_DELAY_DAYS 36500 /* until it is due; and how long it, or its key, is kept */
#define LIMIT_RETRY_DAYS 365   /* until the next attempt */
#define LIMIT_RETRY_DELAYS 100
#define LIMIT_RETRY_EXPONENT 10
#define LIMIT_STAGES 100
#define LIMIT_STEPS 10000
#define LIMIT_AGE_DAYS 36500 /* by which tasks are chosen */
#define DEFAULT_ATTEMPTS 5
#define DEFAULT_TIMEOUT_MS 60000
#define DEFAULT_RETRY_BASE_MS 1000
#define DEFAULT_RETRY_MAX_MS 3600000
#define DEFAULT_RETRY_EXPONENT 2
#define DEFAULT_JITTER_PERCENT 25
#define DEFAULT_STEPS 100
#define LIMIT_TIME_US INT64_C(253402300799000000) /* 9999-12-31 23:59:59 UTC */

/* A queue, and a schedule. */
#define LIMIT_MAX_RUNNING 1000000 /* tasks of a queue that execute at once */
#define LIMIT_PERIOD_DAYS 365     /* resting and waiting */
#define LIMIT_EVERY_DAYS 3650
#define LIMIT_EVERY_MIN_MS 100 /* the shortest interval */
#define LIMIT_CATCH_UP 1000
#define LIMIT_MISSED 1000 /* times by cron that are counted */

/* An identity: its name, and how long the old secret of a token may stay valid. */
#define LIMIT_IDENTITY_BYTES 100
#define LIMIT_GRACE_DAYS 30

#define LIMIT_REPORT_TASKS 10000 /* of a batch, in the body of its callback */

/* A worker. */
#define LIMIT_CONCURRENCY 10000
#define LIMIT_PREFETCH 20000
#define LIMIT_ACCEPTED 1000               /* queues, and types */
#define LIMIT_ACCEPTED_BYTES (128 * 1024) /* of the names of both */
#define LIMIT_EXCLUDED 1000               /* tasks that a Fetch excludes */
#define LIMIT_RUN_DAYS 365                /* of an attempt, extended */
#define LIMIT_SQL_GRACE_MS 30000          /* after its timeout, until an attempt that was fetched by SQL expires */
#define LIMIT_PROGRESS_MS 1000            /* between two writes of an attempt's progress */
#define LIMIT_IN_FLIGHT 200000 /* attempts that it holds: waiting, running, or with an unacknowledged result */
#define LIMIT_WAITING_FETCHES 10000

/* A limit's number as text: "at most " LIMIT_TEXT(LIMIT_STAGES). */
#define LIMIT_TEXT(limit) LIMIT_TEXT_OF(limit)
#define LIMIT_TEXT_OF(number) #number

#define DAY_MS INT64_C(86400000)
#define DAYS_MS(days) ((days)*DAY_MS)

#endif
