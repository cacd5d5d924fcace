/* Shared by options.c, options_values.c and options_help.c. */
#ifndef REEVE_COMMON_OPTIONS_INTERNAL_H
#define REEVE_COMMON_OPTIONS_INTERNAL_H

#include "common/options.h"

/* Writes a number as a user would type it for this option ("1m30s", "1MiB", "5") into `out` and returns it. */
const char *option_number(const struct option_spec *spec, int64_t value, char *out, size_t size);

/* Writes "it takes a whole number from 1 to 10" or the like into `out` and returns it. `field`: the option's, or NULL.
 */
const char *option_takes(const struct option_spec *spec, const ProtobufCFieldDescriptor *field, char *out, size_t size);

/* Checks `text` and stores its value. `where` names the option in errors, as the user wrote it. */
bool option_set(const struct option_spec *spec, void *target, const char *where, const char *text, bool is_default,
    struct reeve_error *error);

/* Returns a copy of a string that is kept until exit, since options point into it. */
const char *option_keep(const char *text, size_t length);

/* Writes an option's help with its default and variable, as in "help (default: 5; REEVE_MANAGER)", into `out`. */
void option_help(const struct option_spec *spec, char *out, size_t size);

/* Returns whether a table has an option of this name. */
bool option_declared(const struct option_table *table, const char *name);

#endif
