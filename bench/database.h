/* The database through bare libpq: the manager's own tables, statements and session settings, one blocking call at a
 * time. All functions give up with a message on failure. */
#ifndef REEVE_BENCH_DATABASE_H
#define REEVE_BENCH_DATABASE_H

#include "manager/store/params.h"
#include "manager/store/row.h"

#include <libpq-fe.h>
#include <sql/sql.h>

/* Upgrades the schema, as a manager does at its start. */
void database_migrate(const char *conninfo);

/* Connects with the session settings common to all of the manager's connections. `hot`: also those of the hot
 * connections. `hash_joins` matters only then. */
PGconn *database_connect(const char *conninfo, bool hot, bool hash_joins);

/* Runs SQL that is not a statement of the project ("analyze"). */
void database_run(PGconn *pg, const char *sql);

/* Runs a statement of the project, prepared at its first use on this connection. Parameters and results are binary;
 * `params` is reset. The caller must PQclear() the result. */
PGresult *database_call(PGconn *pg, enum sql_id statement, struct params *params);

/* Runs a query and returns the number in its first row and column, or 0 without a row. */
int64_t database_number(PGconn *pg, const char *sql);

/* Returns the id of a route, and creates the route if necessary. */
int database_route(PGconn *pg, const char *queue, const char *type);

#endif
