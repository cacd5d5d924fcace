/* Finds programs. */
#ifndef REEVE_COMMON_PROGRAMS_H
#define REEVE_COMMON_PROGRAMS_H

#include <stdbool.h>

/* Returns true if this is the path of a file that can be executed. */
bool program_exists(const char *path);

/* Returns the path of the program with this name (without '/') in PATH, or in the usual directories if PATH is not set;
 * NULL: there is none. The caller must free it. */
char *program_in_path(const char *name);

#endif
