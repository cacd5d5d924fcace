/*
 * A directory for results that are longer than a manager takes. A file is complete when its name appears: it is written
 * under another one (with a dot in front), synced and renamed. The name begins with the attempt, and has 64 random
 * bits: no two results share one, also of several databases, and nobody can foresee it.
 */
#ifndef REEVE_WORKER_RESULT_STORE_H
#define REEVE_WORKER_RESULT_STORE_H

#include "common/error.h"
#include <stddef.h>
#include <stdint.h>

/* Returns the absolute path of the directory, which the caller must free; NULL with *error set: it is no directory in
 * which this process may create files. */
char *result_store_open(const char *directory, struct reeve_error *error);

/* Stores the result of an attempt. Returns the text that is reported in its place, which the caller must free:
 * {"address": "file:///…", "bytes": N, "sha256": "…"}. NULL with *error set: it could not be stored, and left nothing.
 */
char *result_store_put(const char *directory, int64_t task_id, int64_t token, const char *result, size_t length,
    struct reeve_error *error);

#endif
