/* Batches as text. */
#ifndef REEVE_CLIENT_CMD_BATCH_H
#define REEVE_CLIENT_CMD_BATCH_H

#include "client/cmd/fields.h"

#include <reeve/v1/batch.pb-c.h>
#include <stdint.h>

/* Describes a batch in lines. */
void batch_print(const Reeve__V1__Batch *batch, int64_t now_us);

/* The state of a batch, for a column: `stopped` if it ended with a stop of its queue. */
void batch_show_end(const void *message, int64_t now_us, struct shown *out);

#endif
