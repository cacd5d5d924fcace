/* Blocking libpq calls with the manager's statements and parameter encoding. */
#include "bench/database.h"

#include "bench/report.h"
#include "manager/store/migrate.h"

#include <stdlib.h>

enum { HISTORY_DAYS = 30, STATEMENT_TIMEOUT_MS = 30000 };

static PGresult *checked(PGconn *pg, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		give_up("%s", PQerrorMessage(pg));
	return result;
}

void database_migrate(const char *conninfo)
{
	struct reeve_error error;

	if (!migrate(conninfo, false, HISTORY_DAYS, &error))
		give_up("%s", error.message);
}

PGconn *database_connect(const char *conninfo, bool hot, bool hash_joins)
{
	struct params params = {0};
	PGconn *pg = PQconnectdb(conninfo);

	if (PQstatus(pg) != CONNECTION_OK)
		give_up("%s", PQerrorMessage(pg));
	params_int4(&params, STATEMENT_TIMEOUT_MS);
	params_int4(&params, 0); /* no lock timeout */
	params_int4(&params, 0); /* no timeout between statements */
	params_bool(&params, hot);
	PQclear(database_call(pg, SQL_SESSION, &params));
	if (hot) {
		params_bool(&params, hash_joins);
		PQclear(database_call(pg, SQL_SESSION_HOT, &params));
	}
	params_free(&params);
	return pg;
}

void database_run(PGconn *pg, const char *sql)
{
	PQclear(checked(pg, PQexec(pg, sql)));
}

PGresult *database_call(PGconn *pg, enum sql_id statement, struct params *params)
{
	const char *name = sql_statements[statement].name, *values[PARAMS_MAX];
	int formats[PARAMS_MAX];
	PGresult *result;

	for (int i = 0; i < params->count; i++) {
		values[i] = params->size[i] < 0 ? NULL : params->data + params->start[i];
		formats[i] = 1;
	}
	for (;;) {
		result = PQexecPrepared(pg, name, params->count, values, params->size, formats, 1);
		const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

		if (!state || strcmp(state, "26000")) /* no such prepared statement */
			break;
		PQclear(result);
		PQclear(checked(pg, PQprepare(pg, name, sql_statements[statement].text, 0, NULL)));
	}
	params_reset(params);
	return checked(pg, result);
}

int64_t database_number(PGconn *pg, const char *sql)
{
	PGresult *result = checked(pg, PQexec(pg, sql));
	int64_t number = PQntuples(result) ? atoll(PQgetvalue(result, 0, 0)) : 0;

	PQclear(result);
	return number;
}

int database_route(PGconn *pg, const char *queue, const char *type)
{
	static const enum sql_id statements[] = {SQL_ROUTES_ADD, SQL_ROUTES_FIND};
	struct params params = {0};
	PGresult *result = NULL;

	for (int i = 0; i < 2; i++) {
		PQclear(result);
		params_array_begin(&params, PARAMS_TEXT);
		params_add_text(&params, queue);
		params_array_end(&params);
		params_array_begin(&params, PARAMS_TEXT);
		params_add_text(&params, type);
		params_array_end(&params);
		result = database_call(pg, statements[i], &params);
	}
	if (PQntuples(result) != 1)
		give_up("no route for %s %s", queue, type);
	int route = row_int4(result, 0, 0);

	PQclear(result);
	params_free(&params);
	return route;
}
