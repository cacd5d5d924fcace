/* Definitions of pipelines: checks, and conversion to the JSON of their table. */
#ifndef REEVE_MANAGER_SERVICE_PIPELINE_H
#define REEVE_MANAGER_SERVICE_PIPELINE_H

#include "common/error.h"
#include "manager/store/store.h"

#include <reeve/v1/pipeline.pb-c.h>

/* The name by which a handler ends a pipeline, and a stage states that it has no successor. */
#define STAGE_END "end"

/* Checks a definition: the names, that successors exist, and that the stages have no cycle. *error names the field. */
bool pipeline_check(const Reeve__V1__Pipeline *pipeline, struct reeve_error *error);

/* Returns the column `stages` of a checked definition: JSON, which the caller frees. */
char *pipeline_stages_json(const Reeve__V1__Pipeline *pipeline);

#endif
