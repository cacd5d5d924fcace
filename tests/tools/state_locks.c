/* Two connections that want the same row: one waits for the other's transaction, and must then act correctly on the row
 * as that has left it. */
#include "state_sql.h"

#include <stdio.h>
#include <string.h>

static void expect_state(const struct task *t, const char *want)
{
	expect("the state", want, status_of(t));
	expect_journal(t);
}

static struct task executing(const char *buffer)
{
	struct task t = submitted("5");
	claim(&t, NULL, buffer);
	return t;
}

static void cancel_waits_for_a_failure(void)
{
	begin_case("a cancel while the task is just failing");
	struct task t = executing("0");
	plainly(db, SQL_BEGIN);
	end_attempt(db, &t, t.token, "failed");
	plainly(other, SQL_BEGIN);
	START(SQL_CANCEL_MARK, text("{%s}", t.id), "tester", "", NULL);
	PGresult *result = let_go();
	expect("rows marked", "1", text("%d", PQntuples(result)));
	expect("the status that it met", "failed", PQgetvalue(result, 0, 1));
	PQclear(result);
	expect("tasks that waited", "1", text("%d", cancel_waiting(other, &t)));
	plainly(other, SQL_COMMIT);
	expect_state(&t, "cancelled");
	expect("worker commands", "0", count("worker_commands", &t));
	expect("attempts", "1", count("task_attempts", &t));
}

static void failure_waits_for_a_cancel(void)
{
	begin_case("a failure while the task is just being cancelled");
	struct task t = executing("0");
	plainly(db, SQL_BEGIN);
	cancel_mark(db, &t);
	expect("tasks that waited", "0", text("%d", cancel_waiting(db, &t)));
	START(SQL_END_ATTEMPTS, text("{%s}", t.id), text("{%s}", t.token), "{failed}", "{e}", "{c}", "t", "30", NULL, NULL,
	    NULL, NULL, NULL);
	PGresult *result = let_go();
	expect("what it became", "cancelled", PQntuples(result) ? PQgetvalue(result, 0, 2) : "");
	PQclear(result);
	expect_state(&t, "cancelled");
}

static void cancel_comes_too_late(void)
{
	begin_case("a cancel while the task is just completing");
	struct task t = executing("0");
	plainly(db, SQL_BEGIN);
	complete(db, &t, t.token);
	plainly(other, SQL_BEGIN);
	START(SQL_CANCEL_MARK, text("{%s}", t.id), "tester", "", NULL);
	expect("rows marked", "0", text("%d", rows_of(let_go())));
	expect("tasks that waited", "0", text("%d", cancel_waiting(other, &t)));
	plainly(other, SQL_COMMIT);
	expect_state(&t, "completed");
	expect("worker commands", "0", count("worker_commands", &t));
	expect("events", "0", count("task_events", &t));
}

static void claim_waits_for_a_cancel(void)
{
	begin_case("a claim while the task is just being cancelled");
	struct task t = submitted("5");
	plainly(db, SQL_BEGIN);
	cancel_mark(db, &t);
	START(SQL_CLAIM, text("{%s}", t.id), text("{%s}", t.version), "{1}", text("{%s}", worker), "{1}", "0");
	cancel_waiting(db, &t);
	expect("tasks won", "0", text("%d", rows_of(let_go())));
	expect_state(&t, "cancelled");
	expect("journal rows", "0", ask("select count(*) from assignments where %s = any(task_ids)", t.id));
}

static void claim_waits_for_a_claim(void)
{
	begin_case("two claims at a time");
	struct task t = submitted("5");
	plainly(db, SQL_BEGIN);
	expect("tasks won by the first", "1", text("%d", claim_for(db, worker, &t, NULL, "0")));
	START(SQL_CLAIM, text("{%s}", t.id), text("{%s}", t.version), "{1}", text("{%s}", worker), "{1}", "0");
	expect("tasks won by the second", "0", text("%d", rows_of(let_go())));
	expect_state(&t, "executing");
	expect("attempt", "1", ask("select attempt from tasks where id = %s", t.id));
}

static void retry_waits_for_a_failure(void)
{
	begin_case("a manual retry while the task is just failing");
	struct task t = executing("0");
	plainly(db, SQL_BEGIN);
	end_attempt(db, &t, t.token, "failed");
	START(SQL_RETRY_WAITING, text("{%s}", t.id), "tester");
	expect("tasks hurried", "1", text("%d", rows_of(let_go())));
	expect_state(&t, "failed");
	expect("due", "t", ask("select run_at <= clock_timestamp() from tasks where id = %s", t.id));
}

/* A retry of three tasks: its first statement has locked two; the second task was in the history then, and another
 * session has retried it since. A report of the second and the third task has locked the second, and waits for the
 * third: the retry must not wait for that report. */
static void restart_waits_for_no_report(void)
{
	begin_case("a retry of executing tasks while a result of one that came to life again waits for it");
	struct task first = executing("0"), second = executing("0"), third = executing("0");
	plainly(db, SQL_BEGIN);
	/* The second is not in the table yet. */
	PQclear(RUN(db, SQL_RETRY_WAITING, text("{%s,%s}", first.id, third.id), "tester"));
	START(SQL_COMPLETE_ALL, text("{%s,%s}", second.id, third.id), text("{%s,%s}", second.token, third.token),
	    "{well,well}", "30", NULL);
	PGresult *result = RUN(db, SQL_RESTART_MARK, text("{%s,%s,%s}", first.id, second.id, third.id), "tester", "f");
	expect("tasks that are started again", "2", text("%d", PQntuples(result)));
	PQclear(result);
	expect("results accepted", "2", text("%d", rows_of(let_go()))); /* a task that has completed does not run again */
	expect_state(&first, "executing");
	expect_state(&second, "completed");
	expect_state(&third, "completed");
}

/* All statements that complete attempts check the token on their own. */
static int start_completing(enum sql_id statement, const struct task *t)
{
	if (statement != SQL_COMPLETE_ALL)
		START(statement, text("{%s}", t->id), text("{%s}", t->token), "{stale}", "30");
	else
		START(SQL_COMPLETE_ALL, text("{%s}", t->id), text("{%s}", t->token), "{stale}", "30", NULL);
	return rows_of(let_go());
}

static void old_token_after_a_new_attempt(enum sql_id statement)
{
	char name[100];
	snprintf(
	    name, sizeof name, "%s: a result while the attempt is just being replaced", sql_statements[statement].name);
	begin_case(name);
	struct task t = executing("0"), again = t;
	plainly(db, SQL_BEGIN);
	end_attempt(db, &t, t.token, "lease_ended");
	refresh(&again);
	claim(&again, NULL, "0");
	expect("attempts ended", "0", text("%d", start_completing(statement, &t)));
	expect_state(&t, "executing");
	expect("attempts ended by the new token", "1", text("%d", complete(db, &again, again.token)));
	expect_state(&t, "completed");
}

/* Postpones the expiry directly in the table: no statement of the manager does that today, but the check must not
 * depend on that. */
static void expiry_was_put_off(void)
{
	begin_case("an expiry that is put off while the manager takes the attempt back");
	struct task t = executing("-61000");
	expect("it is found as expired", "yes", found_expired(&t) ? "yes" : "no");
	plainly(db, SQL_BEGIN);
	ask("update tasks set expiry = clock_timestamp() + interval '1 hour' where id = %s", t.id);
	START(SQL_END_ATTEMPTS, text("{%s}", t.id), text("{%s}", t.token), "{expired}", "{e}", "{c}", "f", "30", NULL, NULL,
	    NULL, NULL, NULL);
	expect("attempts ended", "0", text("%d", rows_of(let_go())));
	expect_state(&t, "executing");
	expect("the token", t.token, ask("select last_updated from tasks where id = %s", t.id));
	advance_expiries();
	expect("it is found as expired", "no", found_expired(&t) ? "yes" : "no");
}

static void lost_worker_claims_nothing(void)
{
	begin_case("claims of a worker that is lost and of one that lives");
	struct task t = submitted("5"), too = submitted("5");
	const char *lost = ask("insert into workers (name) values ('lost') returning id");
	expect("workers that left", "1", text("%d", rows_of(RUN(db, SQL_LEAVE, text("{%s}", lost), "{gone}", "{w}"))));
	PGresult *result = RUN(db, SQL_CLAIM, text("{%s,%s}", t.id, too.id), text("{%s,%s}", t.version, too.version),
	    "{1,2}", text("{%s,%s}", lost, worker), "{1,2}", "0");
	expect("tasks won", "1", text("%d", PQntuples(result)));
	expect("the one of the living", too.id, PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	expect_state(&t, "queued");
	expect_state(&too, "executing");
	expect("tasks won by nobody", "0", text("%d", claim_for(db, "999999", &t, NULL, "0")));
	expect("journal rows", "0", ask("select count(*) from assignments where %s = any(task_ids)", t.id));
}

/* Until a manager hears that a queue was halted, only the statement itself keeps it from the queue's tasks. */
static void halted_queue_gives_no_task(const char *state)
{
	char name[100];
	snprintf(name, sizeof name, "claims of a queue that is %s, and of one that runs", state);
	begin_case(name);
	struct task halted = submitted("5"), failed = executing("0"), running = submitted("5");
	end_attempt(db, &failed, failed.token, "failed");
	refresh(&failed);
	PQclear(RUN(db, SQL_ROUTES_ADD, "{running}", "{t}"));
	ask("update tasks set queue = 'running', route_id = (select id from routes where queue = 'running') where id = %s",
	    running.id);
	ask("insert into queues (name, state) values ('q', '%s')", state);
	PGresult *result = RUN(db, SQL_CLAIM, text("{%s,%s,%s}", halted.id, failed.id, running.id),
	    text("{%s,%s,%s}", halted.version, failed.version, running.version), "{1,2,3}",
	    text("{%s,%s,%s}", worker, worker, worker), text("{%d,%d,%d}", fetches + 1, fetches + 2, fetches + 3), "0");
	fetches += 3;
	expect("tasks won", "1", text("%d", PQntuples(result)));
	expect("the one of the queue that runs", running.id, PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	expect_state(&halted, "queued");
	expect_state(&failed, "failed");
	ask("update queues set state = 'running' where name = 'q'");
	expect("tasks won when it runs again", "2", text("%d", claim_for(db, worker, &halted, &failed, "0")));
	ask("delete from queues where name = 'q'");
}

/* Claims two tasks under a limit. Returns how many are won; the others must be told to wait for it. */
static int claim_under_limit(const struct task *t, const struct task *too)
{
	PGresult *result = RUN(db, SQL_CLAIM_LIMITED, text("{%s,%s}", t->id, too->id),
	    text("{%s,%s}", t->version, too->version), "{1,1}", text("{%s}", worker), text("{%d}", ++fetches), "0", "f");
	int won = 0;
	for (int row = 0; row < PQntuples(result); row++)
		won += !strcmp(PQgetvalue(result, row, 10), "0");
	expect("tasks in the answer", "2", text("%d", PQntuples(result)));
	PQclear(result);
	return won;
}

static const char *permits_taken(void)
{
	return ask("select taken from limits where queue = 'q'");
}

static void limit_gives_permits(void)
{
	begin_case("claims under a limit, and the ends of attempts");
	struct task first = submitted("9"), second = submitted("5");
	ask("insert into queues (name, max_running) values ('q', 1)");
	ask("insert into limits (queue, maximum) values ('q', 1)");
	expect("tasks won by a claim that knows no limit", "0", text("%d", claim_for(db, worker, &first, &second, "0")));
	expect("tasks won", "1", text("%d", claim_under_limit(&first, &second)));
	expect("permits taken", "1", permits_taken());
	refresh(&first);
	refresh(&second);
	bool is_first = !strcmp(ask("select status from tasks where id = %s", first.id), "executing");
	struct task runs = is_first ? first : second, waits = is_first ? second : first;
	expect("attempts ended", "1", text("%d", end_attempt(db, &runs, runs.version, "failed")));
	expect("permits taken after a failure", "0", permits_taken());
	refresh(&runs);
	ask("update limits set maximum = 2 where queue = 'q'");
	expect("tasks won of two", "2", text("%d", claim_under_limit(&runs, &waits)));
	expect("permits taken", "2", permits_taken());
	refresh(&runs);
	refresh(&waits);
	expect("attempts completed", "1", text("%d", complete(db, &runs, runs.version)));
	expect("permits taken after a success", "1", permits_taken());
	expect("attempts ended", "1", text("%d", end_attempt(db, &waits, waits.version, "fatal")));
	expect("permits taken after a fatal error", "0", permits_taken());
	ask("delete from limits where queue = 'q'");
	ask("delete from queues where name = 'q'");
}

static void completion_waits_for_a_newer_version(enum sql_id statement)
{
	char name[100];
	snprintf(name, sizeof name, "%s: a completion while a newer version is just being noted",
	    sql_statements[statement].name);
	begin_case(name);
	struct task t = executing("0");
	plainly(db, SQL_BEGIN);
	expect("taken", "1", text("%d", submit_newer(db, &t)));
	expect("attempts ended well", "0", text("%d", start_completing(statement, &t)));
	expect("attempts ended so that it runs again", "1", text("%d", end_attempt(db, &t, t.token, "completed")));
	expect_state(&t, "queued");
	expect("what it is now", "newer", ask("select details from tasks where id = %s", t.id));
}

static void newer_version_waits_for_a_completion(void)
{
	begin_case("a newer version while the task is just completing");
	struct task t = executing("0");
	plainly(db, SQL_BEGIN);
	complete(db, &t, t.token);
	const char *spec =
	    text("{\"{\\\"queue\\\": \\\"q\\\", \\\"key\\\": \\\"%s\\\", \\\"type\\\": \\\"t\\\", \\\"details\\\": "
	         "\\\"newer\\\", \\\"version\\\": 1000000, \\\"delay_ms\\\": 0, \\\"priority\\\": 0, "
	         "\\\"route_id\\\": %s, \\\"max_attempts\\\": 5, \\\"timeout_ms\\\": 60000, "
	         "\\\"retry_base_ms\\\": 1000, \\\"retry_max_ms\\\": 60000, \\\"source\\\": \\\"tester\\\"}\"}",
	        t.key, route);
	START(SQL_SUBMIT_NEWER, spec);
	expect("taken", "1", text("%d", rows_of(let_go())));
	expect_state(&t, "queued");
	expect("what it is now", "newer", ask("select details from tasks where id = %s", t.id));
	expect("the attempt before", "completed", ask("select outcome from task_attempts where task_id = %s", t.id));
}

/* Returns "REPORTED KNOWN", the result's two flags. */
static const char *late(const struct task *t, const char *token, const char *identity)
{
	PGresult *result = RUN(db, SQL_LATE_RESULTS, text("{%s}", t->id), text("{%s}", token), "{completed}",
	    text("{%s}", worker), identity, "{w}");
	const char *answer =
	    PQntuples(result) == 1 ? text("%s %s", PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 2)) : "no row";
	PQclear(result);
	return answer;
}

static void late_and_repeated_results(void)
{
	begin_case("reports that match no attempt");
	struct task t = executing("0");
	const char *foreign = ask("select timestamptz '%s' - interval '1us'", t.token);
	expect("attempts ended by a foreign token", "0",
	    text("%d", complete(db, &t, foreign) + end_attempt(db, &t, foreign, "failed")));
	expect("a foreign token", "f t", late(&t, foreign, "{NULL}"));
	expect_state(&t, "executing");
	complete(db, &t, t.token);
	expect("its own, again", "t t", late(&t, t.token, "{NULL}"));
	expect("another identity", "f t", late(&t, t.token, "{7}"));
	expect("another identity, again", "f t", late(&t, t.token, "{7}"));
	expect("events", "1",
	    ask("with gone as (delete from task_events where event = 'result_refused' and task_id = %s returning 1) select count(*) from gone",
	        t.id));
	expect("a foreign token, afterwards", "f t", late(&t, foreign, "{NULL}"));
	expect("events of an attempt that never was", "0", count("task_events", &t));

	t = executing("0");
	end_attempt(db, &t, t.token, "failed");
	expect("its own after a failure", "t t", late(&t, t.token, "{NULL}"));
	t = executing("-61000");
	end_attempt(db, &t, t.token, "expired");
	expect("its own after it was requeued", "f t", late(&t, t.token, "{NULL}"));
	expect("the same again", "f t", late(&t, t.token, "{NULL}"));
	expect("events", "1", ask("select count(*) from task_events where event = 'late_result' and task_id = %s", t.id));
	t.id = ask("select nextval('tasks_id_seq')");
	expect("a task that there is not", "f f", late(&t, t.token, "{NULL}"));
	expect("events", "0", count("task_events", &t));
}

void try_locks(const char *conninfo)
{
	other = connection(conninfo);
	cancel_waits_for_a_failure();
	failure_waits_for_a_cancel();
	cancel_comes_too_late();
	claim_waits_for_a_cancel();
	claim_waits_for_a_claim();
	retry_waits_for_a_failure();
	restart_waits_for_no_report();
	old_token_after_a_new_attempt(SQL_COMPLETE);
	old_token_after_a_new_attempt(SQL_COMPLETE_ONE);
	old_token_after_a_new_attempt(SQL_COMPLETE_ALL);
	expiry_was_put_off();
	lost_worker_claims_nothing();
	halted_queue_gives_no_task("paused");
	halted_queue_gives_no_task("stopping");
	halted_queue_gives_no_task("stopped");
	halted_queue_gives_no_task("not_started");
	limit_gives_permits();
	completion_waits_for_a_newer_version(SQL_COMPLETE);
	completion_waits_for_a_newer_version(SQL_COMPLETE_ONE);
	completion_waits_for_a_newer_version(SQL_COMPLETE_ALL);
	newer_version_waits_for_a_completion();
	late_and_repeated_results();
	PQfinish(other);
}
