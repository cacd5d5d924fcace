/* What reads answer: each takes the rows of its statement (read.c) into a response message, which the caller has initialized. */
#ifndef REEVE_MANAGER_STORE_READ_ROWS_H
#define REEVE_MANAGER_STORE_READ_ROWS_H

#include <libpq-fe.h>
#include <stdint.h>

/* Of several tasks that were asked for together, this one; none if there is none. */
void take_got(const PGresult *rows, int64_t id, void *response);

void take_tasks(const PGresult *rows, void *response);
void take_list(const PGresult *rows, void *response);
void take_matching(const PGresult *rows, void *response);
void take_audit(const PGresult *rows, void *response);
void take_queues(const PGresult *rows, void *response);
void take_workers(const PGresult *rows, void *response);
void take_queue_status(const PGresult *rows, void *response);
void take_queue_workers(const PGresult *rows, void *response);
void take_stats(const PGresult *rows, void *response);
void take_callbacks(const PGresult *rows, void *response);
void take_errors(const PGresult *rows, void *response);
void take_executions(const PGresult *rows, void *response);
void take_metrics(const PGresult *rows, void *response);
void take_batches(const PGresult *rows, void *response);
void take_batch_report(const PGresult *rows, void *response);
void take_check(const PGresult *rows, void *response);

#endif
