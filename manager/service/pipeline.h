/* Pipelines' definitions, as calls give them and as the tables keep them. */
#ifndef REEVE_MANAGER_SERVICE_PIPELINE_H
#define REEVE_MANAGER_SERVICE_PIPELINE_H

#include "common/error.h"
#include "manager/store/store.h"

#include <reeve/v1/pipeline.pb-c.h>

enum { STAGES_MOST = 100, STEPS_MOST = 10000, STEPS_DEFAULT = 100 };

/* The name with which a handler ends a pipeline, and a stage says that none follows. */
#define STAGE_END "end"

/* Whether a definition is whole: names, stages that follow, no way that goes round for ever. *error names the field. */
bool pipeline_check(const Reeve__V1__Pipeline *pipeline, struct reeve_error *error);

/* The column `stages` of a definition that has been checked: JSON, to be freed. */
char *pipeline_stages_json(const Reeve__V1__Pipeline *pipeline);

/* A message of a row, on the heap: protobuf_c_message_free_unpacked frees it. */
Reeve__V1__Pipeline *pipeline_message(const struct store_pipeline *row);

#endif
