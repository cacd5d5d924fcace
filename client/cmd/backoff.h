/* Retry policies as written on the command line: exp:1s:1h. */
#ifndef REEVE_CLIENT_BACKOFF_H
#define REEVE_CLIENT_BACKOFF_H

#include "common/error.h"
#include "common/limits.h"

#include <reeve/client.h>

/* The metavar of --backoff in option tables. */
#define BACKOFF_ARGUMENT "fixed:D|linear:STEP[:BASE]|exp:BASE[:CAP]|poly:BASE[:EXPONENT]|list:D,D,…"

struct backoff {
	Reeve__V1__RetryPolicy policy; /* its delays are the ones below: must not be copied */
	int64_t delays_ms[LIMIT_RETRY_DELAYS];
};

/* Parses one of the forms above. A linear one without BASE uses the queue's resting period. `jitter_percent`: as typed,
 * 0 to 100; negative: not set. Returns false with *error set, without the option's name, if the string is invalid. */
bool backoff_parse(struct backoff *backoff, const char *text, int64_t jitter_percent, struct reeve_error *error);

/* Writes a policy in the same form, "exp:1s:1h", without its jitter. The caller must free() the string. */
char *backoff_format(const Reeve__V1__RetryPolicy *policy);

#endif
