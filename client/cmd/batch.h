/* Batches as text. */
#ifndef REEVE_CLIENT_CMD_BATCH_H
#define REEVE_CLIENT_CMD_BATCH_H

#include <reeve/v1/batch.pb-c.h>
#include <stdint.h>

/* Describes a batch in lines. */
void batch_print(const Reeve__V1__Batch *batch, int64_t now_us);

#endif
