/* A pipeline's definition as written by people: a JSON file. */
#ifndef REEVE_CLIENT_PIPELINE_FILE_H
#define REEVE_CLIENT_PIPELINE_FILE_H

#include "common/error.h"

#include <reeve/v1/pipeline.pb-c.h>

struct pipeline_file;

/* Parses a file; "-" is standard input. Returns NULL with *error set, naming the field, if it is invalid; the manager
 * checks whether the names fit together. Free with pipeline_file_free(). */
struct pipeline_file *pipeline_file_read(const char *path, struct reeve_error *error);
void pipeline_file_free(struct pipeline_file *file);

/* Returns the definition, which lives as long as the file. */
Reeve__V1__Pipeline *pipeline_file_pipeline(struct pipeline_file *file);

#endif
