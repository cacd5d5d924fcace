/* How failed attempts rest, as it is written on the command line: exp:1s:1h. */
#ifndef REEVE_CLIENT_BACKOFF_H
#define REEVE_CLIENT_BACKOFF_H

#include "common/error.h"

#include <reeve/client.h>

enum { BACKOFF_DELAYS_MOST = 100 };

/* What option tables call the value of --backoff. */
#define BACKOFF_ARGUMENT "fixed:D|linear:STEP[:BASE]|exp:BASE[:CAP]|poly:BASE[:EXPONENT]|list:D,D,…"

struct backoff {
	struct reeve_retry_policy policy; /* its delays are those below: must not be copied */
	int64_t delays_ms[BACKOFF_DELAYS_MOST];
};

/* Reads one of the forms above. Where a linear one has no BASE, the queue's resting period is it. `jitter_percent`: as
 * typed, 0 to 100; negative: not given. False: *error says what is wrong with the text, without the option's name. */
bool backoff_parse(struct backoff *backoff, const char *text, int64_t jitter_percent, struct reeve_error *error);

/* Writes a policy in the same form, "exp:1s:1h", without its jitter. free() it. */
char *backoff_format(const struct reeve_retry_policy *policy);

#endif
