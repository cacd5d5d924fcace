/*
 * Upgrades the database's schema to this program's version before the loop starts: synchronously, on a connection of
 * its own, in one transaction, one manager at a time.
 *
 * The tables have a version: a new database gets sql/tables/, an older one the migrations from its version on.
 * Functions, views and triggers are compared by their source: those that differ from this program's are replaced,
 * unless a newer release wrote them.
 */
#ifndef REEVE_MANAGER_STORE_MIGRATE_H
#define REEVE_MANAGER_STORE_MIGRATE_H

#include "common/error.h"

#include <sql/sql.h>

/* Creates or upgrades the schema; with `check_only`, fails if that would be necessary. Creates the history's
 * partitions for tasks kept `history_days`, before the first task can end (a failure of this is only logged).
 * Returns false with *error UNAVAILABLE (no database), PERMISSION_DENIED (a right is missing, which the message
 * names), FAILED_PRECONDITION (PostgreSQL or the schema is too old, or the schema is newer than this program), or
 * INTERNAL. */
bool migrate(const char *conninfo, bool check_only, int history_days, struct reeve_error *error);

/* Returns the migration that starts from this version of the schema; NULL: there is none. */
const struct sql_migration *migration_from(int version);

#endif
