/* Batches as messages. */
#ifndef REEVE_MANAGER_STORE_BATCH_ROWS_H
#define REEVE_MANAGER_STORE_BATCH_ROWS_H

#include <libpq-fe.h>
#include <reeve/v1/queue.pb-c.h>

/* So many columns has the view batches_shown. */
enum { BATCH_COLUMNS = 23 };

/* A new message from `select * from batches_shown`, whose columns begin at `column`; freed by
 * protobuf_c_message_free_unpacked. */
Reeve__V1__Batch *batch_from_row(const PGresult *rows, int row, int column);

#endif
