/*
 * Brings the database's schema to what this program needs, before the loop starts: synchronous, on a connection of its
 * own, all migrations in one transaction.
 */
#ifndef REEVE_MANAGER_STORE_MIGRATE_H
#define REEVE_MANAGER_STORE_MIGRATE_H

#include "common/error.h"

#include <stdio.h>

/* Applies the migrations that are missing, or, with `check_only`, requires that none is. Makes the history's partitions
 * for tasks kept `history_days`, before the first one can end (a failure of that is only logged). False: *error is UNAVAILABLE
 * (no database there), PERMISSION_DENIED (a right is missing; says which), FAILED_PRECONDITION (PostgreSQL or the schema
 * is too old, or newer than this program), or INTERNAL. */
bool migrate(const char *conninfo, bool check_only, int history_days, struct reeve_error *error);

/* Writes the SQL that does to a database of schema version `from` (0: none) what migrate() would, in one transaction. False:
 * there is no such version; says so on standard error. */
bool schema_print(int from, FILE *out);

#endif
