/* The statements with text parameters, each answered before the next is sent, and the tests' own queries. */
#include "state_sql.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_MAX = 4096 };

PGconn *db, *other;
char trying[200];
int failures, checks, fetches;
const char *worker, *route;
static char *kept[KEPT_MAX]; /* the strings */
static int kept_count;

/* ---- Statements and checks ---- */

void forget_texts(void)
{
	while (kept_count)
		free(kept[--kept_count]);
}

const char *text(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (kept_count == KEPT_MAX || vasprintf(&kept[kept_count++], format, args) < 0)
		exit(2);
	va_end(args);
	return kept[kept_count - 1];
}

void wrong(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("%s: ", trying);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	failures++;
}

void expect(const char *what, const char *want, const char *got)
{
	checks++;
	if (strcmp(want, got) != 0)
		wrong("%s: wanted '%s', got '%s'", what, want, got);
}

PGresult *good(PGconn *pg, PGresult *result, const char *what)
{
	ExecStatusType status = PQresultStatus(result);
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
		printf("%s: %s: %s", trying, what, PQerrorMessage(pg));
		exit(2);
	}
	return result;
}

/* Prepares a statement of the manager at its first use, as the manager does. */
PGresult *run(PGconn *pg, enum sql_id id, const char *const *values, size_t count)
{
	static bool prepared[SQL_COUNT];
	const char *name = sql_statements[id].name;
	if (pg != db)
		return good(pg, PQexecParams(pg, sql_statements[id].text, (int)count, NULL, values, NULL, NULL, 0), name);
	if (!prepared[id])
		PQclear(good(pg, PQprepare(pg, name, sql_statements[id].text, 0, NULL), name));
	prepared[id] = true;
	return good(pg, PQexecPrepared(pg, name, (int)count, values, NULL, NULL, 0), name);
}

int rows_of(PGresult *result)
{
	int rows = PQntuples(result);
	PQclear(result);
	return rows;
}

void plainly(PGconn *pg, enum sql_id id)
{
	PQclear(good(pg, PQexec(pg, sql_statements[id].text), sql_statements[id].name));
}

const char *ask(const char *format, ...)
{
	char *query;
	va_list args;
	va_start(args, format);
	if (vasprintf(&query, format, args) < 0)
		exit(2);
	va_end(args);
	PGresult *result = good(db, PQexec(db, query), query);
	const char *answer = text("%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	free(query);
	return answer;
}

const char *ask_about(const char *query, const char *value)
{
	enum { QUERIES_MAX = 16 };
	static const char *prepared[QUERIES_MAX]; /* planned once: planning takes longer than to execute them */
	int n = 0;
	while (n < QUERIES_MAX && prepared[n] && prepared[n] != query)
		n++;
	if (n == QUERIES_MAX)
		exit(2);
	char name[16];
	snprintf(name, sizeof name, "about_%d", n);
	if (!prepared[n])
		PQclear(good(db, PQprepare(db, name, query, 0, NULL), query));
	prepared[n] = query;
	PGresult *result = good(db, PQexecPrepared(db, name, 1, &value, NULL, NULL, 0), query);
	const char *answer = text("%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	return answer;
}

PGconn *connection(const char *conninfo)
{
	PGconn *pg = PQconnectdb(conninfo);
	if (PQstatus(pg) != CONNECTION_OK) {
		printf("%s", PQerrorMessage(pg));
		exit(2);
	}
	PQclear(RUN(pg, SQL_SESSION, "30000", "0", "30000", "true"));
	PQclear(RUN(pg, SQL_SESSION_HOT, "t"));
	return pg;
}

/* ---- Two connections ---- */

void begin_case(const char *name)
{
	forget_texts();
	snprintf(trying, sizeof trying, "%s", name);
}

void start_waiting(enum sql_id id, const char *const *values, size_t n)
{
	if (!PQsendQueryParams(other, sql_statements[id].text, (int)n, NULL, values, NULL, NULL, 0))
		wrong("%s: %s", sql_statements[id].name, PQerrorMessage(other));
	for (;;) {
		const char *blockers = ask("select cardinality(pg_blocking_pids(%d))", PQbackendPID(other));
		if (strcmp(blockers, "0") != 0)
			return;
		PQconsumeInput(other);
		if (!PQisBusy(other)) {
			wrong("%s did not wait for the lock", sql_statements[id].name);
			return;
		}
		poll(NULL, 0, 5);
	}
}

PGresult *let_go_anyhow(void)
{
	plainly(db, SQL_COMMIT);
	PGresult *result = NULL, *next;
	while ((next = PQgetResult(other))) {
		PQclear(result);
		result = next;
	}
	return result;
}

PGresult *let_go(void)
{
	return good(other, let_go_anyhow(), "the statement that waited");
}

/* ---- A task ---- */

void refresh(struct task *t)
{
	t->version = ask_about("select last_updated from all_tasks where id = $1", t->id);
}

const char *submit(const char *request, const char *key, const char *max_attempts)
{
	PGresult *result = RUN(db, SQL_SUBMIT, text("{%s}", request), "{1}", text("{%s}", route), "{NULL}", "{0}", "{q}",
	    "{t}", "{details}", "{tester}", "{0}", text("{%s}", max_attempts), "{60000}", "{1000}", "{60000}", "{NULL}",
	    "{NULL}", "{NULL}", "{NULL}", "{f}", NULL, NULL, NULL, text("{%s}", key ? key : "NULL"), "{NULL}");
	const char *id = text("%s", PQntuples(result) ? PQgetvalue(result, 0, 2) : "none");
	PQclear(result);
	return id;
}

const char *submit_by(enum sql_id statement)
{
	PGresult *result = RUN(db, statement, text("{%s}", ask("select gen_random_uuid()")), "{1}", text("{%s}", route),
	    "{NULL}", "{0}", "{q}", "{t}", "{details}", "{tester}", "{0}", "{5}", "{60000}", "{1000}", "{60000}");
	const char *id = text("%s", PQgetvalue(result, 0, 2));
	PQclear(result);
	return id;
}

struct task submitted(const char *max_attempts)
{
	struct task t = {.key = text("key-%d", ++fetches)};
	t.id = submit(ask("select gen_random_uuid()"), t.key, max_attempts);
	refresh(&t);
	return t;
}

int claim_for(PGconn *pg, const char *incarnation, const struct task *t, const struct task *too, const char *buffer)
{
	const char *ids = too ? text("{%s,%s}", t->id, too->id) : text("{%s}", t->id);
	const char *versions = too ? text("{%s,%s}", t->version, too->version) : text("{%s}", t->version);
	return rows_of(RUN(pg, SQL_CLAIM, ids, versions, too ? "{1,1}" : "{1}", text("{%s}", incarnation),
	    text("{%d}", ++fetches), buffer));
}

int claim(struct task *t, const struct task *too, const char *buffer)
{
	int rows = claim_for(db, worker, t, too, buffer);
	refresh(t);
	t->token = t->version;
	return rows;
}

int complete(PGconn *pg, const struct task *t, const char *token)
{
	return complete_by(pg, SQL_COMPLETE, t, token);
}

int complete_by(PGconn *pg, enum sql_id plain, const struct task *t, const char *token)
{
	const char *ids = text("{%s}", t->id), *tokens = text("{%s}", token);
	int rows = rows_of(RUN(pg, plain, ids, tokens, "{well}", "30"));
	/* Both statements, as the manager does, and so that the second checks on its own what the first did not
	 * complete. */
	return rows + rows_of(RUN(pg, SQL_COMPLETE_ALL, ids, tokens, "{well}", "30", NULL));
}

int end_attempt(PGconn *pg, const struct task *t, const char *token, const char *outcome)
{
	return rows_of(RUN(pg, SQL_END_ATTEMPTS, text("{%s}", t->id), text("{%s}", token), text("{%s}", outcome),
	    text("{%s-error}", outcome), text("{%s-code}", outcome),
	    strcmp(outcome, "expired") && strcmp(outcome, "lost") && strcmp(outcome, "requeued") ? "t" : "f", "30", NULL,
	    NULL, NULL, "{well}", NULL));
}

/* Returns true if the task is marked now. */
static bool mark(PGconn *pg, const struct task *t, const char *code)
{
	PGresult *result = RUN(pg, SQL_CANCEL_MARK, text("{%s}", t->id), "tester", "enough", code);
	bool marked = PQntuples(result) && !strcmp(PQgetvalue(result, 0, 4), "t");
	PQclear(result);
	return marked;
}

bool cancel_mark(PGconn *pg, const struct task *t)
{
	return mark(pg, t, NULL);
}

bool discard_mark(PGconn *pg, const struct task *t)
{
	return mark(pg, t, "discarded");
}

bool restart_mark(PGconn *pg, const struct task *t, bool hanged)
{
	PGresult *result = RUN(pg, SQL_RESTART_MARK, text("{%s}", t->id), "tester", hanged ? "t" : "f");
	bool marked = PQntuples(result) && !strcmp(PQgetvalue(result, 0, 3), "t");
	PQclear(result);
	return marked;
}

int submit_newer(PGconn *pg, const struct task *t)
{
	PGresult *result = RUN(pg, SQL_SUBMIT_NEWER,
	    text("{\"{\\\"queue\\\": \\\"q\\\", \\\"key\\\": \\\"%s\\\", \\\"type\\\": \\\"t\\\", \\\"details\\\": "
	         "\\\"newer\\\", \\\"version\\\": %d, \\\"delay_ms\\\": 0, \\\"priority\\\": 3, \\\"route_id\\\": %s, "
	         "\\\"max_attempts\\\": 6, \\\"timeout_ms\\\": 60000, \\\"retry_base_ms\\\": 1000, \\\"retry_max_ms\\\": "
	         "60000, \\\"retry_policy\\\": null, \\\"source\\\": \\\"tester\\\"}\"}",
	        t->key, ++fetches, route));
	int newer = PQntuples(result) && !strcmp(PQgetvalue(result, 0, 2), "t");
	PQclear(result);
	return newer;
}

int cancel_waiting(PGconn *pg, const struct task *t)
{
	return rows_of(RUN(pg, SQL_CANCEL_WAITING, text("{%s}", t->id), "30", "enough"));
}

const char *status_of(const struct task *t)
{
	return ask_about("select string_agg(status, ' and ') from all_tasks where id = $1", t->id);
}

void expect_journal(const struct task *t)
{
	expect("journal rows with a wrong `open` or `closed_at`", "0",
	    ask("select count(*) from assignments a where %s = any(task_ids) and ((open > 0) <> (closed_at is null) or "
	        "open <> (select count(*) from tasks t where t.assignment_id = a.id and t.status = 'executing'))",
	        t->id));
}

bool found_expired(const struct task *t)
{
	PGresult *result = RUN(db, SQL_EXPIRED_FIND, "100000", "infinity", "0", "0", "-infinity", "0");
	bool found = false;
	for (int row = 0; row < PQntuples(result); row++)
		found |= !strcmp(PQgetvalue(result, row, 0), t->id);
	PQclear(result);
	return found;
}

void advance_expiries(void)
{
	PQclear(RUN(db, SQL_EXPIRED_ADVANCE, "0", "0", "-infinity", "0", ask("select clock_timestamp()"), "0"));
}

const char *everything(const struct task *t)
{
	return ask_about("select jsonb_build_array("
	                 "(select jsonb_agg(x) from tasks x where id = task),"
	                 "(select jsonb_agg(x) from task_history x where task_id = task),"
	                 "(select jsonb_agg(x order by token) from task_attempts x where task_id = task),"
	                 "(select jsonb_agg(x order by id) from task_events x where task_id = task),"
	                 "(select jsonb_agg(x order by id) from assignments x where task = any(task_ids)),"
	                 "(select jsonb_agg(x) from worker_commands x where task_id = task),"
	                 "(select jsonb_agg(x) from keys x where task_id = task or key = split_part($1, ' ', 2))) "
	                 "from (select split_part($1, ' ', 1)::bigint as task offset 0) t",
	    text("%s %s", t->id, t->key));
}

const char *audit(const struct task *t)
{
	return ask_about("select string_agg(format('%s %s %s %s', event, version, attempt, actor), E'\\n' order by "
	                 "version, place) "
	                 "from audit_log where task_id = $1",
	    t->id);
}

const char *attempt_of(const struct task *t)
{
	return ask_about("select attempt from all_tasks where id = $1", t->id);
}

const char *count(const char *table, const struct task *t)
{
	return ask("select count(*) from %s where task_id = %s", table, t->id);
}
