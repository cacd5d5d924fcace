/* The database as bare libpq sees it: the manager's own tables, statements and session settings, one blocking call at a
 * time. Everything gives up with a message when it fails. */
#ifndef REEVE_BENCH_DATABASE_H
#define REEVE_BENCH_DATABASE_H

#include "manager/store/params.h"
#include "manager/store/row.h"

#include <libpq-fe.h>
#include <sql/sql.h>

/* Brings the schema up to date, as the manager does at its start. */
void database_migrate(const char *conninfo);

/* Connects with the settings of every connection; `hot`: and with those of the hot ones. */
PGconn *database_connect(const char *conninfo, bool hot, bool hash_joins);

/* Runs text that is no statement of the project ("analyze"). */
void database_run(PGconn *pg, const char *sql);

/* Runs a statement of the project, prepared at its first use on this connection. Parameters and results are binary; the
 * parameters are used up. PQclear() the result. */
PGresult *database_call(PGconn *pg, enum sql_id statement, struct params *params);

/* One number. */
int64_t database_number(PGconn *pg, const char *sql);

/* A route's id, made if need be. */
int database_route(PGconn *pg, const char *queue, const char *type);

#endif
