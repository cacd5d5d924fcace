/* A pipeline's definition as people write it: a JSON file. */
#ifndef REEVE_CLIENT_PIPELINE_FILE_H
#define REEVE_CLIENT_PIPELINE_FILE_H

#include "common/error.h"

#include <reeve/client.h>

struct pipeline_file;

/* Reads a file, "-" for standard input. NULL: *error says what is wrong, naming the field; whether names fit together the
 * manager says. pipeline_file_free() it. */
struct pipeline_file *pipeline_file_read(const char *path, struct reeve_error *error);
void pipeline_file_free(struct pipeline_file *file);

/* What it defines; lives as long as the file. */
const struct reeve_pipeline *pipeline_file_pipeline(const struct pipeline_file *file);

#endif
