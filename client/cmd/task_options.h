/* The options that describe a task, for all commands that submit one, now or later. */
#ifndef REEVE_CLIENT_TASK_OPTIONS_H
#define REEVE_CLIENT_TASK_OPTIONS_H

#include "client/cmd/backoff.h"
#include "common/options.h"

#include <reeve/client.h>

/* The value of a numeric option that is not set. */
#define NOT_GIVEN INT64_MIN

/* The options' values. Initialize with task_options_none before parsing. */
struct task_options {
	const char *queue, *key, *source, *backoff, *pipeline;
	int64_t priority, max_attempts, retry_limit, jitter, version, batch;
	int64_t delay_ms, key_ttl_ms, timeout_ms, retry_base_ms, retry_max_ms;
	int64_t at_us;
	struct backoff
	    growth; /* from --backoff, --jitter, --retry-base and --retry-max; set by task_options_growth */
};

extern const struct task_options task_options_none;

/* The options' entries in an option table whose `target` struct has them as `member`. */
#define TASK_OPTION_SPECS(target, member)                                                                              \
	TASK_OPTION_SPECS_BUT(target, member,                                                                          \
	    "time when it becomes due: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), +5m",                  \
	    "with --key: if N is greater than the key's version, its task runs again with these settings, after its end if " \
	    "it is executing; if not, nothing changes")

/* The same, with the help of --at and --version: NULL if they are only known in order to refuse them with a reason. */
#define TASK_OPTION_SPECS_BUT(target, member, at_help, version_help)                                                   \
	TASK_OPTION(target, member.queue, "queue", OPTION_TEXT, 0, 0, "NAME", 'q', "its queue; if not set, \"default\""), \
	    TASK_OPTION(target, member.priority, "priority", OPTION_INTEGER, -1000000, 1000000, "N", 'p',              \
	        "higher priorities go first; if not set, 0"),                                                          \
	    TASK_OPTION(target, member.delay_ms, "delay", OPTION_DURATION, 0, 0, "DURATION", 0,                        \
	        "time from now until it becomes due: 30s, 5m, 1h30m, 2d"),                                             \
	    TASK_OPTION(target, member.at_us, "at", OPTION_TIME, 0, 0, "TIME", 0, at_help),                            \
	    TASK_OPTION(target, member.key, "key", OPTION_TEXT, 0, 0, "KEY", 'k',                                      \
	        "idempotency key: if the queue has it, no task is created and the first task's id is printed"),        \
	    TASK_OPTION(target, member.key_ttl_ms, "key-ttl", OPTION_DURATION, 0, 0, "DURATION", 0,                    \
	        "how long the key is kept; if not set, until a day after the task's end"),                             \
	    TASK_OPTION(target, member.version, "version", OPTION_INTEGER, 1, INT64_MAX, "N", 0, version_help),        \
	    TASK_OPTION(target, member.batch, "batch", OPTION_INTEGER, 1, INT64_MAX, "ID", 'b',                        \
	        "its open batch; without --queue it goes to that batch's queue"),                                      \
	    TASK_OPTION(target, member.pipeline, "pipeline", OPTION_TEXT, 0, 0, "NAME", 0,                             \
	        "its pipeline, instead of a TYPE: the stages set type, attempts, timeout and retry delays"),           \
	    TASK_OPTION(target, member.max_attempts, "max-attempts", OPTION_INTEGER, 1, 10000, "N", 0,                 \
	        "maximum number of attempts; if not set, the queue's, or 5"),                                          \
	    TASK_OPTION(target, member.retry_limit, "retry-limit", OPTION_INTEGER, 0, 9999, "N", 0,                    \
	        "attempts after the first: same as --max-attempts N + 1"),                                             \
	    TASK_OPTION(target, member.timeout_ms, "timeout", OPTION_DURATION, 1, LONGEST_TIMEOUT_MS, "DURATION", 0,   \
	        "how long an attempt may run; if not set, 1m"),                                                        \
	    TASK_OPTION(target, member.retry_base_ms, "retry-base", OPTION_DURATION, 0, 0, "DURATION", 0,              \
	        "delay after the first failed attempt, doubled after each; if not set, 1s"),                           \
	    TASK_OPTION(target, member.retry_max_ms, "retry-max", OPTION_DURATION, 0, 0, "DURATION", 0,                \
	        "maximum delay; if not set, 1h, for fixed and list a year"),                                           \
	    TASK_OPTION(target, member.backoff, "backoff", OPTION_TEXT, 0, 0, "POLICY", 0,                             \
	        "retry delays: fixed:D, linear:STEP[:BASE], exp:BASE[:CAP], poly:BASE[:EXPONENT] or list:D,D,…; the delay after " \
	        "the n-th failed attempt is D; BASE + (n - 1) STEP; BASE doubled each time, up to CAP; BASE times n to the " \
	        "EXPONENT (2); the n-th D, then the last"),                                                            \
	    TASK_OPTION(target, member.jitter, "jitter", OPTION_INTEGER, 0, 100, "PERCENT", 0,                         \
	        "maximum random part that is subtracted from each delay; if not set, 25"),                             \
	    TASK_OPTION(target, member.source, "source", OPTION_TEXT, 0, 0, "NAME", 0,                                 \
	        "the submitter, for the record; if not set, user@host")

#define TASK_OPTION(target, field, called, kind, least, most, value, short_form, says)                                 \
	{                                                                                                              \
		.name = (called), .type = (kind), .offset = offsetof(target, field), .min = (least), .max = (most),    \
		.argument = (value), .letter = (short_form), .help = (says)                                        \
	}

#define LONGEST_TIMEOUT_MS (INT64_C(30) * 24 * 3600 * 1000)

/* Returns what is wrong with the combination of options, as a sentence, or NULL. A missing --key is not reported. */
const char *task_options_problem(const struct task_options *options);

/* Combines the options of the retry policy. */
bool task_options_growth(struct task_options *options, struct reeve_error *error);

/* Returns true if any option of the retry policy is set. */
bool task_options_retry_given(const struct task_options *options);

/* Returns the task that the options describe, without details; it points into them. task_options_growth must have
 * succeeded. */
Reeve__V1__TaskSpec task_options_spec(struct task_options *options, const char *type);

/* Reads details from standard input, up to the managers' limit. Returns NULL with *code set after an error message. The
 * caller must free() them. */
char *task_details_read(struct reeve_client *client, int *code);

#endif
