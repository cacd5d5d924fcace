/* In a transaction: the statement, then the file, which gets its name after the commit. */
#include "manager/store/admin_token.h"

#include "common/access_token.h"
#include "common/mem.h"
#include "common/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <sql/sql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool failed(PGconn *pg, const char *doing, struct reeve_error *error)
{
	char message[300];
	snprintf(message, sizeof message, "%s", PQerrorMessage(pg));
	message[strcspn(message, "\n")] = 0;
	return error_set(
	    error, PQstatus(pg) == CONNECTION_OK ? STATUS(INTERNAL) : STATUS(UNAVAILABLE), "%s: %s", doing, message);
}

static bool run(PGconn *pg, const char *sql, struct reeve_error *error)
{
	PGresult *result = PQexec(pg, sql);
	bool good = PQresultStatus(result) == PGRES_COMMAND_OK || failed(pg, "creating the admin's access token", error);
	PQclear(result);
	return good;
}

/* Writes the token to a new file. */
static bool write_file(const char *path, const char *token, struct reeve_error *error)
{
	char line[ACCESS_TOKEN_BYTES + 1];
	int length = snprintf(line, sizeof line, "%s\n", token);
	return file_create(AT_FDCWD, path, line, (size_t)length, 0600) ||
	    error_set(
	        error, STATUS(PERMISSION_DENIED), "the admin's access token: cannot write %s: %s", path, strerror(errno));
}

/* Executes the statement. Sets *id; 0: there is an admin's token already. */
static bool create(PGconn *pg, const char *secret, bool only_first, int64_t *id, struct reeve_error *error)
{
	char hash[ACCESS_HASH_TEXT];
	const char *values[2] = {hash, only_first ? "t" : "f"};
	access_hash_text(secret, hash);
	PGresult *rows = PQexecParams(pg, sql_statements[SQL_TOKEN_ADMIN].text, 2, NULL, values, NULL, NULL, 0);
	bool good = PQresultStatus(rows) == PGRES_TUPLES_OK || failed(pg, "creating the admin's access token", error);
	*id = good && !PQgetisnull(rows, 0, 0) ? atoll(PQgetvalue(rows, 0, 0)) : 0;
	PQclear(rows);
	return good;
}

bool admin_token_create(
    const char *conninfo, bool only_first, const char *file, bool *created, struct reeve_error *error)
{
	char secret[ACCESS_SECRET_BYTES], token[ACCESS_TOKEN_BYTES];
	char *part = file ? mem_asprintf("%s.%d.new", file, (int)getpid()) : NULL;
	PGconn *pg = PQconnectdb(conninfo);
	int64_t id = 0;
	access_secret_make(secret);
	bool good = (PQstatus(pg) == CONNECTION_OK || failed(pg, "no database", error)) &&
	    run(pg, "set search_path = reeve", error) && run(pg, "begin", error) &&
	    create(pg, secret, only_first, &id, error);
	if (id) {
		access_token_write(id, secret, token);
		good = (!part || write_file(part, token, error)) && run(pg, "commit", error);
	}
	PQfinish(pg);
	if (good && id && part && rename(part, file) != 0)
		good = error_set(error, STATUS(PERMISSION_DENIED),
		    "the admin's access token is in %s: cannot rename it to %s: %s", part, file, strerror(errno));
	else if (!good && part)
		unlink(part);
	if (good && id && !part && (printf("%s\n", token) < 0 || fflush(stdout) != 0))
		good = error_set(error, STATUS(PERMISSION_DENIED),
		    "the admin's access token: cannot write the standard output: %s; --create-admin-token makes another one",
		    strerror(errno));
	*created = good && id;
	free(part);
	return good;
}
