/* Creates or upgrades the schema, then replaces its functions and views by this program's. Refuses a database with a
 * newer schema version, so that an old manager cannot harm it. */
#include "manager/store/migrate.h"

#include "common/log.h"

#include <libpq-fe.h>
#include <sql/sql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_SERVER = 140000 };

/* The schema of a database. */
struct schema {
	int version;      /* 0: no schema */
	int differ;       /* functions and views that differ from this program's; counted at SQL_VERSION only */
	char release[32]; /* the newer release that wrote some of them; "": none did */
};

static bool refused(PGconn *pg, const PGresult *result, const char *doing, struct reeve_error *error)
{
	const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	char message[300];
	snprintf(message, sizeof message, "%s",
	    result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)
	            ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)
	            : ""
	           : PQerrorMessage(pg));
	message[strcspn(message, "\n")] = 0;
	if (state && !strcmp(state, "42501"))
		return error_set(error, STATUS(PERMISSION_DENIED),
		    "the database role \"%s\" lacks a right for %s: %s; let its owner run "
		    "GRANT CREATE ON DATABASE \"%s\" TO \"%s\", or, where the schema is there already, what --print-schema prints and "
		    "GRANT ALL ON SCHEMA reeve and on all its tables and sequences, and start with --no-migrate",
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

/* Reads the schema's version; 0: there is no schema. */
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

/* True if the database has the same source of a definition. */
static bool definition_there(const PGresult *rows, const struct sql_definition *d)
{
	for (int i = 0; i < PQntuples(rows); i++)
		if (!strcmp(PQgetvalue(rows, i, 0), d->name))
			return !strcmp(PQgetvalue(rows, i, 1), d->hash);
	return false;
}

/* Returns the definitions recorded in the database, which the caller clears. NULL: *error has the reason. */
static PGresult *definitions_read(PGconn *pg, struct reeve_error *error)
{
	const char *values[1] = {REEVE_VERSION};
	PGresult *rows = PQexecParams(pg, sql_statements[SQL_SCHEMA_DEFINITIONS].text, 1, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(rows) == PGRES_TUPLES_OK)
		return rows;
	refused(pg, rows, "reading the schema's functions", error);
	PQclear(rows);
	return NULL;
}

static bool schema_read(PGconn *pg, struct schema *have, struct reeve_error *error)
{
	PGresult *rows;
	*have = (struct schema){0};
	if (!version_read(pg, &have->version, error))
		return false;
	if (have->version != SQL_VERSION)
		return true;
	if (!(rows = definitions_read(pg, error)))
		return false;
	for (int i = 0; i < sql_definition_count; i++)
		have->differ += !definition_there(rows, &sql_definitions[i]);
	for (int i = 0; i < PQntuples(rows); i++)
		if (*PQgetvalue(rows, i, 3) == 't')
			snprintf(have->release, sizeof have->release, "%s", PQgetvalue(rows, i, 2));
	PQclear(rows);
	return true;
}

const struct sql_migration *migration_from(int version)
{
	for (int i = 0; i < sql_migration_count; i++)
		if (sql_migrations[i].from == version)
			return &sql_migrations[i];
	return NULL;
}

static bool note(PGconn *pg, enum sql_id statement, const char *const *values, int count, const char *doing,
    struct reeve_error *error)
{
	PGresult *result = PQexecParams(pg, sql_statements[statement].text, count, NULL, values, NULL, NULL, 0);
	bool good = PQresultStatus(result) == PGRES_COMMAND_OK || refused(pg, result, doing, error);
	PQclear(result);
	return good;
}

/* Creates the tables or upgrades them to a version, and records it. */
static bool tables_bring(PGconn *pg, const char *sql, int version, const char *name, struct reeve_error *error)
{
	char doing[128], number[16];
	snprintf(doing, sizeof doing, "schema change %s", name);
	snprintf(number, sizeof number, "%d", version);
	const char *values[2] = {number, name};
	if (!run(pg, sql, doing, error) || !note(pg, SQL_SCHEMA_NOTE, values, 2, doing, error))
		return false;
	log_info("schema", "applied %s: version %d", name, version);
	return true;
}

static bool define(PGconn *pg, const struct sql_definition *d, struct reeve_error *error)
{
	char doing[128];
	const char *values[3] = {d->name, d->hash, REEVE_VERSION};
	snprintf(doing, sizeof doing, "creating %s", d->name);
	return run(pg, d->text, doing, error) && note(pg, SQL_SCHEMA_DEFINE, values, 3, doing, error);
}

/* Replaces the functions and views that differ; after a change of the tables, which may have dropped some, all of
 * them. */
static bool definitions_bring(PGconn *pg, bool all, struct reeve_error *error)
{
	int replaced = 0;
	PGresult *rows = definitions_read(pg, error);
	bool good = rows && run(pg, sql_statements[SQL_SCHEMA_DEFINE_BEGIN].text, "creating functions", error);
	for (int i = 0; good && i < sql_definition_count; i++)
		if (all || !definition_there(rows, &sql_definitions[i])) {
			good = define(pg, &sql_definitions[i], error);
			replaced++;
		}
	if (good)
		log_info("schema", "%d functions and views have the text of Reeve %s", replaced, REEVE_VERSION);
	PQclear(rows);
	return good;
}

/* True if this program can work with the schema as it is or, unless `check_only`, can upgrade it to its own version. */
static bool usable(const struct schema *have, bool check_only, struct reeve_error *error)
{
	if (have->version > SQL_VERSION)
		return error_set(error, STATUS(FAILED_PRECONDITION),
		    "the database's schema is version %d, newer than this program's %d; use a newer reeve-manager",
		    have->version, SQL_VERSION);
	if (have->version && have->version < SQL_VERSION && !migration_from(have->version))
		return error_set(error, STATUS(FAILED_PRECONDITION),
		    "the database's schema is version %d, which no release had and this program cannot upgrade to its %d; it upgrades "
		    "version %d and newer releases",
		    have->version, SQL_VERSION, sql_migrations[0].from);
	if (have->version < SQL_VERSION && check_only)
		return error_set(error, STATUS(FAILED_PRECONDITION),
		    "the database's schema is version %d, this program needs %d; start once without --no-migrate, or let its owner run "
		    "what --print-schema --schema-from %d prints",
		    have->version, SQL_VERSION, have->version);
	if (have->differ && !*have->release && check_only)
		return error_set(error, STATUS(FAILED_PRECONDITION),
		    "the text of %d functions and views of the database's schema is not this program's; start once without "
		    "--no-migrate, or let its owner run what --print-schema --schema-from %d prints",
		    have->differ, SQL_VERSION);
	return true;
}

static bool apply(PGconn *pg, struct reeve_error *error)
{
	struct schema have;
	if (!run(pg, sql_statements[SQL_BEGIN].text, "opening a transaction", error) ||
	    !run(pg, sql_statements[SQL_SCHEMA_BEGIN].text, "making the schema \"reeve\"", error) ||
	    !schema_read(pg, &have, error) || !usable(&have, false, error)) /* again: another manager may have been first */
		return false;
	int version = have.version;
	if (version == 0 && !tables_bring(pg, sql_tables, version = SQL_VERSION, "tables", error))
		return false;
	for (const struct sql_migration *m; (m = migration_from(version)); version = m->to)
		if (!tables_bring(pg, m->text, m->to, m->name, error))
			return false;
	if ((version != have.version || (have.differ && !*have.release)) &&
	    !definitions_bring(pg, version != have.version, error))
		return false;
	return run(pg, sql_statements[SQL_COMMIT].text, "committing the schema", error);
}

static void quiet(void *arg, const char *message)
{
	(void)arg, (void)message;
}

/* Creates the history's partitions. While this waits for a table's lock, all later transactions on the table wait,
 * too. So it gives up soon, and a maintenance job does it later. */
static void partitions_make(PGconn *pg, int history_days)
{
	char days[16];
	snprintf(days, sizeof days, "%d", history_days);
	const char *values[1] = {days};
	PQclear(PQexec(pg, "set search_path = reeve; set lock_timeout = '300ms'; set statement_timeout = '60s'"));
	PGresult *result =
	    PQexecParams(pg, sql_statements[SQL_HISTORY_MAKE_PARTITIONS].text, 1, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		log_warn(
		    "schema", "cannot make partitions of the history: %s", PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
	PQclear(result);
}

static bool connected(PGconn *pg, struct reeve_error *error)
{
	if (PQstatus(pg) != CONNECTION_OK) {
		char message[400];
		snprintf(message, sizeof message, "%s", PQerrorMessage(pg));
		message[strcspn(message, "\n")] = 0;
		if (strncmp(message, "invalid ", 8) == 0) /* libpq did not try to connect: an option's value is wrong */
			return error_set(error, STATUS(INVALID_ARGUMENT), "--database: %s", message);
		return error_set(error, STATUS(UNAVAILABLE), "no database: %s", message);
	}
	return PQserverVersion(pg) >= OLDEST_SERVER ||
	    error_set(error, STATUS(FAILED_PRECONDITION), "PostgreSQL %d is too old; Reeve needs %d or newer",
	        PQserverVersion(pg) / 10000, OLDEST_SERVER / 10000);
}

bool migrate(const char *conninfo, bool check_only, int history_days, struct reeve_error *error)
{
	PGconn *pg = PQconnectdb(conninfo);
	struct schema have;
	PQsetNoticeProcessor(pg, quiet, NULL);
	bool good = connected(pg, error) && schema_read(pg, &have, error) && usable(&have, check_only, error);
	if (good && *have.release)
		log_info("schema", "the functions and views are those of Reeve %s, and stay", have.release);
	else if (good && (have.version < SQL_VERSION || have.differ))
		good = apply(pg, error);
	if (good)
		partitions_make(pg, history_days);
	PQfinish(pg);
	return good;
}
