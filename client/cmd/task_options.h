/* The options that describe a task, for all subcommands that submit one, now or later. */
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
	    "due at this time: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), +5m",                          \
	    "with --key: if N is greater than the version the key has, its task is run again as given now, after its " \
	    "end if it is executing; if not, nothing changes")

/* The same, with the help of --at and --version: NULL if they are only known in order to refuse them with a reason. */
#define TASK_OPTION_SPECS_BUT(target, member, says_at, says_version)                                                   \
	TASK_OPTION(target, member.queue, "queue", OPTION_TEXT, 0, 0, "NAME", 'q',                                     \
	    "the queue it goes to; without it \"default\""),                                                           \
	    TASK_OPTION(target, member.priority, "priority", OPTION_INTEGER, -1000000, 1000000, "N", 'p',              \
	        "higher goes first; without it 0"),                                                                    \
	    TASK_OPTION(target, member.delay_ms, "delay", OPTION_DURATION, 0, 0, "DURATION", 0,                        \
	        "due so much later: 30s, 5m, 1h30m, 2d"),                                                              \
	    TASK_OPTION(target, member.at_us, "at", OPTION_TIME, 0, 0, "TIME", 0, says_at),                            \
	    TASK_OPTION(target, member.key, "key", OPTION_TEXT, 0, 0, "KEY", 'k',                                      \
	        "idempotency key: if the queue knows it, nothing is made and the first task's id is printed"),         \
	    TASK_OPTION(target, member.key_ttl_ms, "key-ttl", OPTION_DURATION, 0, 0, "DURATION", 0,                    \
	        "how long the key is kept; without it until a day after the task ended"),                              \
	    TASK_OPTION(target, member.version, "version", OPTION_INTEGER, 1, INT64_MAX, "N", 0, says_version),        \
	    TASK_OPTION(target, member.batch, "batch", OPTION_INTEGER, 1, INT64_MAX, "ID", 'b',                        \
	        "the open batch that it is to be in; without --queue it goes to that batch's queue"),                  \
	    TASK_OPTION(target, member.pipeline, "pipeline", OPTION_TEXT, 0, 0, "NAME", 0,                              \
	        "the pipeline that it passes through, instead of a TYPE: its stages say type, attempts, time-out "     \
	        "and rests"),                                                                                          \
	    TASK_OPTION(target, member.max_attempts, "max-attempts", OPTION_INTEGER, 1, 10000, "N", 0,                 \
	        "attempts in all; without it the queue's, or 5"),                                                      \
	    TASK_OPTION(target, member.retry_limit, "retry-limit", OPTION_INTEGER, 0, 9999, "N", 0,                    \
	        "attempts after the first: the same as --max-attempts N + 1"),                                         \
	    TASK_OPTION(target, member.timeout_ms, "timeout", OPTION_DURATION, 1, LONGEST_TIMEOUT_MS, "DURATION", 0,   \
	        "how long an attempt may run; without it 1m"),                                                         \
	    TASK_OPTION(target, member.retry_base_ms, "retry-base", OPTION_DURATION, 0, 0, "DURATION", 0,              \
	        "the rest after the first failed attempt, doubled after each; without it 1s"),                         \
	    TASK_OPTION(target, member.retry_max_ms, "retry-max", OPTION_DURATION, 0, 0, "DURATION", 0,                \
	        "the longest rest; without it 1h, for fixed and list a year"),                                         \
	    TASK_OPTION(target, member.backoff, "backoff", OPTION_TEXT, 0, 0, BACKOFF_ARGUMENT, 0,                     \
	        "how the rest after the n-th failed attempt grows: D; BASE + (n - 1) STEP; BASE doubled each time, "   \
	        "at most CAP; BASE times n to the EXPONENT (2); the n-th D of a list, then its last"),                 \
	    TASK_OPTION(target, member.jitter, "jitter", OPTION_INTEGER, 0, 100, "PERCENT", 0,                         \
	        "at most so much of a rest is taken off at random; without it 25"),                                    \
	    TASK_OPTION(target, member.source, "source", OPTION_TEXT, 0, 0, "NAME", 0,                                 \
	        "who posts it, for the record; without it user@host")

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

/* Returns the task that the options describe, without details; it points into them. */
struct reeve_task_spec task_options_spec(const struct task_options *options, const char *type);

/* Reads details from standard input, up to the managers' limit. Returns NULL with *code set after an error message. The
 * caller must free() them. */
char *task_details_read(struct reeve_client *client, size_t *length, int *code);

#endif
