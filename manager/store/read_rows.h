/* Readers of rows (for read.c) that no statement's head describes. They fill response messages, which the caller has
 * initialized. */
#ifndef REEVE_MANAGER_STORE_READ_ROWS_H
#define REEVE_MANAGER_STORE_READ_ROWS_H

#include <libpq-fe.h>
#include <stdint.h>

void take_matching(const PGresult *rows, void *response);
void take_check(const PGresult *rows, void *response);

#endif
