/*
 * Brings the database's schema to what this program needs, before the loop starts: synchronous, on a connection of its
 * own, in one transaction, one manager at a time.
 *
 * The tables have a version: a new database gets sql/tables/, an older one the migrations from its version on. Functions, views
 * and triggers have a text: those whose text differs from this program's are replaced, unless a newer release wrote them.
 */
#ifndef REEVE_MANAGER_STORE_MIGRATE_H
#define REEVE_MANAGER_STORE_MIGRATE_H

#include "common/error.h"

#include <sql/sql.h>

/* Creates or upgrades the schema, or, with `check_only`, requires that nothing is to be done. Makes the history's partitions
 * for tasks kept `history_days`, before the first one can end (a failure of that is only logged). False: *error is UNAVAILABLE
 * (no database there), PERMISSION_DENIED (a right is missing; says which), FAILED_PRECONDITION (PostgreSQL or the schema
 * is too old, or newer than this program), or INTERNAL. */
bool migrate(const char *conninfo, bool check_only, int history_days, struct reeve_error *error);

/* The migration that begins with this version of the schema; NULL: there is none. */
const struct sql_migration *migration_from(int version);

#endif
