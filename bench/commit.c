/* One-row commits, by a plain insert and by the submit statement. */
#include "bench/commit.h"

#include "bench/report.h"
#include "common/uuid.h"

#include <stdio.h>
#include <time.h>

void commit_begin(struct commit *commit, const char *conninfo)
{
	*commit = (struct commit){.pg = database_connect(conninfo, true, true)};
	commit->route = database_route(commit->pg, "default", "commit");
	PQclear(PQprepare(commit->pg, "plain",
	    "insert into tasks (route_id, queue, type, details, run_at, created, last_updated)"
	    " values ($1::int, 'default', 'commit', $2, now(), now(), now())",
	    0, NULL));
}

int64_t commit_plain(struct commit *commit, const char *details)
{
	char route[16];
	const char *values[2] = {route, details};

	snprintf(route, sizeof route, "%d", commit->route);
	int64_t t0 = now_ns();
	PGresult *result = PQexecPrepared(commit->pg, "plain", 2, values, NULL, NULL, 0);
	int64_t took = now_ns() - t0;

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		give_up("%s", PQerrorMessage(commit->pg));
	PQclear(result);
	return took;
}

/* Adds an array of one element; for PARAMS_TIME a null. */
static void add_one(struct params *p, enum params_type type, const char *text, int64_t number)
{
	params_array_begin(p, type);
	if (type == PARAMS_TEXT && text)
		params_add_text(p, text);
	else if (type == PARAMS_INT4)
		params_add_int4(p, (int32_t)number);
	else if (type == PARAMS_INT8)
		params_add_int8(p, number);
	else
		params_add_null(p);
	params_array_end(p);
}

int64_t commit_submit(struct commit *commit, const char *details)
{
	struct params *p = &commit->params;
	uint8_t request[UUID_BYTES];
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	uuid7_make(t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000, request);
	params_array_begin(p, PARAMS_UUID);
	params_add_uuid(p, request);
	params_array_end(p);
	add_one(p, PARAMS_INT4, NULL, 1);
	add_one(p, PARAMS_INT4, NULL, commit->route);
	add_one(p, PARAMS_TIME, NULL, 0);
	add_one(p, PARAMS_INT8, NULL, 0);
	add_one(p, PARAMS_TEXT, "default", 0);
	add_one(p, PARAMS_TEXT, "commit", 0);
	add_one(p, PARAMS_TEXT, details, 0);
	add_one(p, PARAMS_TEXT, "bench", 0);
	add_one(p, PARAMS_INT4, NULL, 0);
	add_one(p, PARAMS_INT4, NULL, 5);
	add_one(p, PARAMS_INT8, NULL, 60000);
	add_one(p, PARAMS_INT8, NULL, 1000);
	add_one(p, PARAMS_INT8, NULL, 3600000);
	int64_t t0 = now_ns();
	PGresult *result = database_call(commit->pg, SQL_SUBMIT_PLAIN, p);
	int64_t took = now_ns() - t0;

	PQclear(result);
	return took;
}

void commit_end(struct commit *commit)
{
	database_run(commit->pg, "delete from tasks where type = 'commit'");
	params_free(&commit->params);
	PQfinish(commit->pg);
}
