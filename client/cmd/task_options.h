/* The options that describe a task, for all commands that submit one, now or later. */
#ifndef REEVE_CLIENT_TASK_OPTIONS_H
#define REEVE_CLIENT_TASK_OPTIONS_H

#include "client/cmd/backoff.h"
#include "common/limits.h"
#include "common/options.h"

#include <reeve/client.h>
#include <reeve/v1/batch.pb-c.h>

/* The values of those options that are no fields of a TaskSpec. */
struct task_options {
	const char *backoff;
	int64_t retry_limit;   /* NOT_GIVEN if not set */
	struct backoff growth; /* from --backoff */
};

#define TASK_AT_HELP "time when it becomes due: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), +5m"
#define TASK_VERSION_HELP                                                                                              \
	"with --key: if N, or the time of a change, is greater than the key's version, its task runs again with these "    \
	"settings, after its end if it is executing; if not, nothing changes"

/* The entries of the options. They fill in a TaskSpec: the fields of the target's option_message that begin with
 * `prefix`. Its member `task` is a struct task_options. The help of --at and --key-version is NULL if they are known
 * only in order to refuse them with a reason. */
#define TASK_OPTIONS(target, prefix, at_help, version_help)                                                            \
	OPT_NAME('q', "queue", OPTION_FIELD(prefix "queue"), "NAME", "its queue; if not set, \"default\""),                \
	    OPT_INTEGER('p', "priority", OPTION_FIELD(prefix "priority"), -LIMIT_PRIORITY, LIMIT_PRIORITY, "N",            \
	        "higher priorities go first; if not set, the queue's, or 0"),                                              \
	    OPT_SPAN(0, "delay", OPTION_FIELD(prefix "delay_ms"), 0, 0,                                                    \
	        "time from now until it becomes due: 30s, 5m, 1h30m, 2d"),                                                 \
	    OPT_TIME(0, "at", OPTION_FIELD(prefix "run_at_us"), at_help),                                                  \
	    OPT_NAME('k', "key", OPTION_FIELD(prefix "key"), "KEY",                                                        \
	        "idempotency key: if the queue has it, no task is created and the first task's id is printed"),            \
	    OPT_SPAN(0, "key-ttl", OPTION_FIELD(prefix "key_ttl_ms"), 0, 0,                                                \
	        "how long the key is kept; if not set, as the queue sets it, else as long as the task is kept"),           \
	    OPTION(OPTION_VERSION, 0, "key-version", OPTION_FIELD(prefix "version"), "N|TIME", version_help, .min = 1,     \
	        .max = INT64_MAX),                                                                                         \
	    OPT_INTEGER('b', "batch", OPTION_FIELD(prefix "batch_id"), 1, INT64_MAX, "ID",                                 \
	        "its open batch; without --queue it goes to that batch's queue"),                                          \
	    OPT_NAME(0, "pipeline", OPTION_FIELD(prefix "pipeline"), "NAME",                                               \
	        "its pipeline, instead of a TYPE: the stages set type, attempts, timeout and retry delays"),               \
	    OPT_NAME(0, "stage", OPTION_FIELD(prefix "stage"), "NAME",                                                     \
	        "with --pipeline: the stage that it begins with; if not set, the first"),                                  \
	    OPT_INTEGER(0, "max-attempts", OPTION_FIELD(prefix "max_attempts"), 1, LIMIT_ATTEMPTS, "N",                    \
	        "maximum number of attempts; if not set, the queue's, or 5"),                                              \
	    OPT_INTEGER(0, "retry-limit", OPTION_AT(target, task.retry_limit), 0, LIMIT_ATTEMPTS - 1, "N",                 \
	        "attempts after the first: same as --max-attempts N + 1"),                                                 \
	    OPT_SPAN(0, "timeout", OPTION_FIELD(prefix "timeout_ms"), 1, DAYS_MS(LIMIT_TIMEOUT_DAYS),                      \
	        "how long an attempt may run; if not set, the queue's, or 1m"),                                            \
	    OPT_SPAN(0, "retry-base", OPTION_FIELD(prefix "retry.base_ms"), 0, 0,                                          \
	        "delay after the first failed attempt, doubled after each; if not set, 1s"),                               \
	    OPT_SPAN(0, "retry-max", OPTION_FIELD(prefix "retry.max_ms"), 0, 0,                                            \
	        "maximum delay; if not set, 1h, for fixed and list a year"),                                               \
	    OPT_TEXT(0, "backoff", OPTION_AT(target, task.backoff), "POLICY",                                              \
	        "retry delays: fixed:D, linear:STEP[:BASE], exp:BASE[:CAP], poly:BASE[:EXPONENT] or list:D,D,…; the "    \
	        "delay after the n-th failed attempt is D; BASE + (n - 1) STEP; BASE doubled each time, up to CAP; "       \
	        "BASE times n to the EXPONENT (2); the n-th D, then the last"),                                            \
	    OPT_INTEGER(0, "jitter", OPTION_FIELD(prefix "retry.jitter_percent"), 0, 100, "PERCENT",                       \
	        "maximum random part that is subtracted from each delay; if not set, " LIMIT_TEXT(                         \
	            DEFAULT_JITTER_PERCENT)),                                                                              \
	    OPT_NAME(0, "source", OPTION_FIELD(prefix "source"), "NAME",                                                   \
	        "the submitter, for the record; if not set, user@host")

/* Checks the combination of options (not whether a key is missing) and completes the task. It points into `options`. */
bool task_options_complete(const struct option_message *message, const char *prefix, struct task_options *options,
    Reeve__V1__TaskSpec *task, struct reeve_error *error);

/* Reads a batch, for its queue. Returns NULL with *code set after an error message. Free with reeve_free(). */
Reeve__V1__BatchReportResponse *task_options_batch(struct reeve_client *client, int64_t id, int *code);

/* Reads details from standard input, up to the managers' limit. Returns NULL with *code set after an error message. The
 * caller must free() them. */
char *task_details_read(struct reeve_client *client, int *code);

#endif
