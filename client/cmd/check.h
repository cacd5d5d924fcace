/* The outcome of `reeve check`, and its output. */
#ifndef REEVE_CLIENT_CMD_CHECK_H
#define REEVE_CLIENT_CMD_CHECK_H

#include <reeve/client.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIND(name) REEVE__V1__CHECK_KIND__CHECK_KIND_##name

/* The exit codes of a plugin, which differ from those of the other commands. */
enum state { STATE_OK, STATE_WARNING, STATE_CRITICAL, STATE_UNKNOWN };

enum { NO_BOUND = -1 };

/* A value above a bound is a warning, or critical; NO_BOUND: never. */
struct bounds {
	int64_t warning, critical;
};

/* A condition that can be checked. */
struct condition {
	const char *option;
	const char *label; /* in the plugin's numbers, and in JSON */
	Reeve__V1__CheckKind kind;
	bool is_time; /* the value is the longest time; otherwise a count */
	size_t offset;
	const char *one, *many;         /* "%s" is the duration */
	const struct bounds *by_itself; /* the bounds if no condition is requested; NULL: checked only on request */
};

enum { CONDITIONS_MAX = 11 };

/* A requested condition and its outcome. */
struct asked {
	const struct condition *condition;
	struct bounds bounds;
	int64_t value;
	enum state state;
	char *text; /* a sentence without a full stop */
};

struct outcome {
	enum state state;
	char *summary;
	const char *manager;                      /* or NULL */
	Reeve__V1__CheckMeasure *const *measures; /* or NULL */
	struct asked asked[CONDITIONS_MAX];
	size_t count;
};

/* Formats a duration in full seconds, or in milliseconds if it is shorter than one. Returns `out`. */
const char *check_span(int64_t ms, char *out, size_t size);

/* Print the outcome: as a plugin, for which the client finds out why tasks wait, or as JSON. */
void check_print_plugin(struct reeve_client *client, const struct outcome *outcome);
void check_print_json(const struct outcome *outcome);

#endif
