/* Applies migrations. A database of a newer Reeve is refused, so that an old manager cannot harm it. */
#include "manager/store/migrate.h"

#include "common/log.h"

#include <libpq-fe.h>
#include <sql/sql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_SERVER = 140000 };

static bool refused(PGconn *pg, const PGresult *result, const char *doing, struct reeve_error *error)
{
	const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	char message[300];
	snprintf(message, sizeof message, "%s", result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)
	                                                   ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)
	                                                   : ""
	                                               : PQerrorMessage(pg));
	message[strcspn(message, "\n")] = 0;
	if (state && !strcmp(state, "42501"))
		return error_set(error, STATUS(PERMISSION_DENIED),
		    "the database role \"%s\" lacks a right for %s: %s; let its owner run "
		    "GRANT CREATE ON DATABASE \"%s\" TO \"%s\", or, where the schema is there already, GRANT ALL ON SCHEMA reeve "
		    "and on all its tables and sequences, and start with --no-migrate",
		    PQuser(pg), doing, message, PQdb(pg), PQuser(pg));
	if (!state || !strncmp(state, "08", 2) || !strncmp(state, "57P", 3))
		return error_set(error, STATUS(UNAVAILABLE), "%s: %s", doing, message);
	return error_set(error, STATUS(INTERNAL), "%s: %s (SQLSTATE %s)", doing, message, state);
}

static bool run(PGconn *pg, const char *sql, const char *doing, struct reeve_error *error)
{
	PGresult *result = PQexec(pg, sql);
	ExecStatusType status = PQresultStatus(result);
	bool good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
	if (!good)
		refused(pg, result, doing, error);
	PQclear(result);
	return good;
}

/* The newest migration the database has; 0: none. */
static bool version_read(PGconn *pg, int *version, struct reeve_error *error)
{
	PGresult *result = PQexec(pg, sql_statements[SQL_SCHEMA_VERSION].text);
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	bool good = true;
	*version = 0;
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
		*version = atoi(PQgetvalue(result, 0, 0));
	else if (!state || (strcmp(state, "42P01") && strcmp(state, "3F000"))) /* no such table, no such schema */
		good = refused(pg, result, "reading the schema's version", error);
	PQclear(result);
	return good;
}

static bool apply_one(PGconn *pg, const struct sql_migration *m, struct reeve_error *error)
{
	char doing[128], number[16];
	snprintf(doing, sizeof doing, "migration %s", m->name);
	if (!run(pg, m->text, doing, error))
		return false;
	snprintf(number, sizeof number, "%d", m->version);
	const char *values[2] = {number, m->name};
	PGresult *result =
	    PQexecParams(pg, sql_statements[SQL_SCHEMA_NOTE].text, 2, NULL, values, NULL, NULL, 0);
	bool good = PQresultStatus(result) == PGRES_COMMAND_OK || refused(pg, result, doing, error);
	PQclear(result);
	if (good)
		log_info("schema", "applied %s", m->name);
	return good;
}

static bool apply(PGconn *pg, struct reeve_error *error)
{
	int have = 0;
	if (!run(pg, sql_statements[SQL_BEGIN].text, "opening a transaction", error) ||
	    !run(pg, sql_statements[SQL_SCHEMA_BEGIN].text, "making the schema \"reeve\"", error) ||
	    !version_read(pg, &have, error))
		return false;
	for (int i = 0; i < sql_migration_count; i++)
		if (sql_migrations[i].version > have && !apply_one(pg, &sql_migrations[i], error))
			return false;
	return run(pg, sql_statements[SQL_COMMIT].text, "committing the migrations", error);
}

static void quiet(void *arg, const char *message)
{
	(void)arg, (void)message;
}

/* While this waits for a table, everybody who comes later waits behind it: it gives up soon, and upkeep does it again. */
static void partitions_make(PGconn *pg, int history_days)
{
	char days[16];
	snprintf(days, sizeof days, "%d", history_days);
	const char *values[1] = {days};
	PQclear(PQexec(pg, "set search_path = reeve; set lock_timeout = '300ms'; set statement_timeout = '60s'"));
	PGresult *result =
	    PQexecParams(pg, sql_statements[SQL_HISTORY_MAKE_PARTITIONS].text, 1, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		log_warn("schema", "cannot make partitions of the history: %s", PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
	PQclear(result);
}

bool migrate(const char *conninfo, bool check_only, int history_days, struct reeve_error *error)
{
	PGconn *pg = PQconnectdb(conninfo);
	bool good = false;
	int have, newest = sql_migrations[sql_migration_count - 1].version;
	PQsetNoticeProcessor(pg, quiet, NULL);
	if (PQstatus(pg) != CONNECTION_OK) {
		char message[400];
		snprintf(message, sizeof message, "%s", PQerrorMessage(pg));
		message[strcspn(message, "\n")] = 0;
		error_set(error, STATUS(UNAVAILABLE), "no database: %s", message);
	} else if (PQserverVersion(pg) < OLDEST_SERVER) {
		error_set(error, STATUS(FAILED_PRECONDITION), "PostgreSQL %d is too old; Reeve needs %d or newer",
		    PQserverVersion(pg) / 10000, OLDEST_SERVER / 10000);
	} else if (!version_read(pg, &have, error)) {
		/* *error says it */
	} else if (have > newest) {
		error_set(error, STATUS(FAILED_PRECONDITION),
		    "the database's schema is version %d, newer than this program's %d; use a newer reeve-manager", have, newest);
	} else if (have < newest && check_only) {
		error_set(error, STATUS(FAILED_PRECONDITION),
		    "the database's schema is version %d, this program needs %d; start once without --no-migrate", have, newest);
	} else {
		good = have == newest || apply(pg, error);
	}
	if (good)
		partitions_make(pg, history_days);
	PQfinish(pg);
	return good;
}

/* As apply(), on paper. That the database is of that version is checked by the script itself. */
bool schema_print(int from, FILE *out)
{
	int newest = sql_migrations[sql_migration_count - 1].version;
	if (from >= newest) {
		fprintf(stderr, "reeve-manager: --schema-from is %d; the newest schema this program knows is %d\n", from, newest);
		return false;
	}
	fprintf(out, "-- The database objects of Reeve %s, schema version %d; for a database ", REEVE_VERSION, newest);
	fprintf(out, from ? "of version %d.\n" : "without any.\n", from);
	fprintf(out, "-- Whoever runs this owns them. psql -v ON_ERROR_STOP=1 stops at what is refused.\n");
	fprintf(out, "%s;\nset local client_min_messages = warning;\n%s;\n", sql_statements[SQL_BEGIN].text,
	    sql_statements[SQL_SCHEMA_BEGIN].text);
	fprintf(out,
	    "do $check$ begin\n"
	    "  if coalesce((select max(version) from reeve.schema_migrations), 0) <> %d then\n"
	    "    raise exception 'this is for a schema of version %d, and it is %%',\n"
	    "      coalesce((select max(version) from reeve.schema_migrations), 0);\n"
	    "  end if;\n"
	    "end $check$;\n",
	    from, from);
	fprintf(out, "prepare reeve_schema_note(text, text) as\n%s;\n", sql_statements[SQL_SCHEMA_NOTE].text);
	for (int i = 0; i < sql_migration_count; i++)
		if (sql_migrations[i].version > from)
			fprintf(out, "\n%s;\nexecute reeve_schema_note('%d', '%s');\n", sql_migrations[i].text,
			    sql_migrations[i].version, sql_migrations[i].name);
	fprintf(out, "\ndeallocate reeve_schema_note;\n%s;\n", sql_statements[SQL_COMMIT].text);
	return true;
}
