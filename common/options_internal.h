/* Shared by options.c and options_help.c. */
#ifndef REEVE_COMMON_OPTIONS_INTERNAL_H
#define REEVE_COMMON_OPTIONS_INTERNAL_H

#include "common/options.h"

/* Writes a number as a user would type it for this option ("1m30s", "1MiB", "5") into `out` and returns it. */
const char *option_number(const struct option_spec *spec, int64_t value, char *out, size_t size);

#endif
