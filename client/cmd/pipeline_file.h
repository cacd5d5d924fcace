/* A pipeline's definition as written by people: a JSON file. */
#ifndef REEVE_CLIENT_PIPELINE_FILE_H
#define REEVE_CLIENT_PIPELINE_FILE_H

#include "common/error.h"

#include <reeve/v1/pipeline.pb-c.h>

/* Parses a file; "-" is standard input. Returns NULL with *error set, naming the field, if it is invalid; the manager
 * checks whether the names fit together. Free with reeve__v1__pipeline__free_unpacked(). */
Reeve__V1__Pipeline *pipeline_file_read(const char *path, struct reeve_error *error);

#endif
