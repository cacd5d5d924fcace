/* The option --callback-secret-file. */
#ifndef REEVE_CLIENT_CMD_SECRET_H
#define REEVE_CLIENT_CMD_SECRET_H

#include "common/error.h"

#include <stddef.h>

enum { SECRET_BYTES = 4096 };

/* Reads the first line of a file. Returns false with *error set. */
bool secret_read(const char *path, char secret[SECRET_BYTES], struct reeve_error *error);

#endif
