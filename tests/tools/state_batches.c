/* Two connections that want the same batch or queue: the decision of one must still be right when the other's statement
 * gets the lock. */
#include "state_sql.h"

#include <stdlib.h>
#include <string.h>

static const char *explicit_batch(const char *in_queue, const char *entry_type)
{
	return ask(
	    "insert into batches (name, queue, implicit, entry_type) values ('b', '%s', false, nullif('%s', '')) returning id",
	    in_queue, entry_type);
}

/* Creates a queue with implicit batches, of which `batch` is open. */
static void queue_with(const char *name, const char *batch)
{
	ask("insert into queues (name, batches, batch_id) values ('%s', true, %s)", name, batch);
}

/* Creates a task in a batch and sets the batch's phase. */
static struct task in_batch(const char *batch, const char *phase)
{
	struct task t = submitted("5");
	ask("update tasks set batch_id = %s where id = %s", batch, t.id);
	ask("update batches set submitted = submitted + 1, pending = pending + 1, phase = '%s' where id = %s", phase,
	    batch);
	return t;
}

static void submit_in(PGconn *pg, const char *request, const char *batch)
{
	PQclear(RUN(pg, SQL_SUBMIT, text("{%s}", request), "{1}", text("{%s}", route), "{NULL}", "{0}", "{q}", "{t}",
	    "{details}", "{tester}", "{0}", "{5}", "{60000}", "{1000}", "{60000}", "{NULL}", "{NULL}", "{NULL}",
	    text("{%s}", batch), "{f}", NULL, NULL, NULL, "{NULL}", "{NULL}"));
}

/* Checks that no other session has locked the row while the other connection waits. */
static void expect_unlocked(const char *table, const char *id)
{
	expect("the row of higher id is free", id,
	    ask("select coalesce((select id::text from %s where id = %s for no key update skip locked), 'locked')", table,
	        id));
}

static void retry_waits_for_the_batchs_end(void)
{
	begin_case("a manual retry while the batch is just ending");
	const char *batch = explicit_batch("q", "entry");
	struct task t = in_batch(batch, "entry");
	cancel_mark(db, &t);
	expect("tasks that waited", "1", text("%d", cancel_waiting(db, &t)));
	ask("update batches set closed_at = clock_timestamp(), entry_id = 0, entry_status = 'completed' where id = %s",
	    batch);
	plainly(db, SQL_BEGIN);
	PQclear(RUN(db, SQL_BATCH_STEP, batch));
	START(SQL_RETRY_ENDED, text("{%s}", t.id), "tester");
	expect("retried", "1", text("%d", rows_of(let_go())));
	expect("the batch", "ended 0", ask("select phase || ' ' || pending from batches where id = %s", batch));
	expect("it is due, with nobody left to let it go later", "t",
	    ask("select blocked_run_at is null and run_at < 'infinity' from tasks where id = %s", t.id));
}

static void submits_lock_batches_in_order(void)
{
	begin_case("a submit into two queues with batches");
	const char *low = explicit_batch("order-b", ""), *high = explicit_batch("order-a", "");
	queue_with("order-a", high);
	queue_with("order-b", low);
	plainly(db, SQL_BEGIN);
	ask("select 1 from batches where id = %s for no key update", low);
	START(SQL_SUBMIT_BATCHES, ask("select gen_random_uuid()"), "{order-a,order-b}", "{NULL,NULL}", "{NULL,NULL}");
	expect_unlocked("batches", high);
	expect("tasks", "2", text("%d", rows_of(let_go())));
}

static void newer_versions_lock_batches_in_order(void)
{
	begin_case("newer versions of tasks of two batches");
	const char *low = explicit_batch("q", ""), *high = explicit_batch("q", "");
	/* The batch of the first key has the higher id. */
	struct task first = in_batch(high, "running"), second = in_batch(low, "running");
	struct task both[] = {first, second};
	for (int i = 0; i < 2; i++) {
		cancel_mark(db, &both[i]);
		cancel_waiting(db, &both[i]);
	}
	plainly(db, SQL_BEGIN);
	ask("select 1 from batches where id = %s for no key update", low);
	const char *spec =
	    "\\\"type\\\": \\\"t\\\", \\\"details\\\": \\\"\\\", \\\"version\\\": 1000000, \\\"delay_ms\\\": 0, "
	    "\\\"priority\\\": 0, \\\"max_attempts\\\": 5, \\\"timeout_ms\\\": 60000, \\\"retry_base_ms\\\": 1000, "
	    "\\\"retry_max_ms\\\": 60000, \\\"source\\\": \\\"tester\\\"";
	START(SQL_SUBMIT_NEWER,
	    text("{\"{\\\"queue\\\": \\\"q\\\", \\\"key\\\": \\\"%s\\\", \\\"route_id\\\": %s, %s}\","
	         "\"{\\\"queue\\\": \\\"q\\\", \\\"key\\\": \\\"%s\\\", \\\"route_id\\\": %s, %s}\"}",
	        first.key, route, spec, second.key, route, spec));
	expect_unlocked("batches", high);
	expect("taken", "2", text("%d", rows_of(let_go())));
	expect("pending", "1 1", ask("select string_agg(pending::text, ' ') from batches where id in (%s, %s)", low, high));
}

static void a_copy_of_a_submit_waits(void)
{
	begin_case("a copy of a submit while the batch is filled by the first and closed");
	const char *batch = explicit_batch("q", ""), *request = ask("select gen_random_uuid()");
	plainly(db, SQL_BEGIN);
	PQclear(RUN(db, SQL_SUBMIT_BATCHES, request, "{q}", text("{%s}", batch), "{NULL}"));
	submit_in(db, request, batch);
	START(SQL_SUBMIT_BATCHES, request, "{q}", text("{%s}", batch), "{NULL}");
	PQclear(RUN(db, SQL_BATCH_CLOSE, ask("select gen_random_uuid()"), batch));
	PGresult *result = let_go_anyhow();
	expect("to be begun again", "40001", text("%s", PQresultErrorField(result, PG_DIAG_SQLSTATE)));
	PQclear(result);
	PQclear(PQexec(other, "rollback"));
	expect("tasks", "1", ask("select count(*) from tasks where batch_id = %s", batch));
	result = PQexecParams(other, sql_statements[SQL_SUBMIT_BATCHES].text, 4, NULL,
	    (const char *const[]){ask("select gen_random_uuid()"), "{q}", text("{%s}", batch), "{NULL}"}, NULL, NULL, 0);
	expect("another call", "RV409", text("%s", PQresultErrorField(result, PG_DIAG_SQLSTATE)));
	PQclear(result);
}

static const char *queue_state(const char *name)
{
	return ask("select state from queues where name = '%s'", name);
}

static void a_pause_waits_for_a_stop(void)
{
	begin_case("a pause while a queue without settings is just being stopped");
	PQclear(RUN(db, SQL_ROUTES_ADD, "{plain}", "{t}"));
	plainly(db, SQL_BEGIN);
	PQclear(RUN(db, SQL_QUEUE_CONTROL, ask("select gen_random_uuid()"), "plain", "stop", "tester"));
	START(SQL_QUEUE_CONTROL, ask("select gen_random_uuid()"), "plain", "pause", "tester");
	PGresult *result = let_go_anyhow();
	expect("refused", "RV409", text("%s", PQresultErrorField(result, PG_DIAG_SQLSTATE)));
	PQclear(result);
	expect("the queue", "stopping", queue_state("plain"));
}

static void a_stop_is_for_closed_batches_too(void)
{
	begin_case("a stop of a queue with a closed batch that has an exit task");
	PQclear(RUN(db, SQL_ROUTES_ADD, "{stops}", "{t}"));
	const char *batch = explicit_batch("stops", "");
	ask("update batches set exit_type = 'exit', phase = 'running', submitted = 1, pending = 1, closed_at = clock_timestamp() "
	    "where id = %s",
	    batch);
	PQclear(RUN(db, SQL_QUEUE_CONTROL, ask("select gen_random_uuid()"), "stops", "stop", "tester"));
	/* The stop has ended its task, and the queue was started again before the batch's next step. */
	ask("update batches set pending = 0, failed = 1 where id = %s", batch);
	ask("update queues set state = 'running' where name = 'stops'");
	PQclear(RUN(db, SQL_BATCH_STEP, batch));
	expect("the batch", "ended", ask("select phase from batches where id = %s", batch));
}

static void ending_goes_on_past_what_was_taken(void)
{
	begin_case("a purge while one of its tasks is just being taken");
	struct task first = submitted("5"), second = submitted("5");
	const char *waiting = ask("select count(*) from tasks where queue = 'q' and status <> 'executing'");
	plainly(db, SQL_BEGIN);
	claim(&second, NULL, "0");
	START(SQL_QUEUE_TASKS_LOCK, "q", second.id, "f", waiting);
	PGresult *result = let_go();
	expect("locked", text("%d", PQntuples(result)), ask("select %s - 1", waiting));
	expect("chosen", waiting, PQgetvalue(result, 0, 2));
	PQclear(result);
	PQclear(RUN(db, SQL_CANCEL_MARK, text("{%s}", first.id), "tester", "", NULL));
	result = RUN(db, SQL_QUEUE_TASKS_LOCK, "nobody's", second.id, "f", "10");
	expect("of an empty queue", "1 t 0",
	    text("%d %s %s", PQntuples(result), PQgetisnull(result, 0, 0) ? "t" : "f", PQgetvalue(result, 0, 2)));
	PQclear(result);
}

/* Returns how many rows of `tasks` this transaction has read so far. */
static int rows_read(void)
{
	return (int)strtol(
	    ask("select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relid = 'tasks'::regclass"), NULL,
	    10);
}

static void other_queues_are_left_alone(void)
{
	begin_case("a look after a stopped queue while others have many tasks");
	PQclear(RUN(db, SQL_ROUTES_ADD, "{crowded,idle}", "{t,t}"));
	ask("insert into queues (name, state, stopped_at, stopped_id, stopped_by) "
	    "values ('idle', 'stopped', clock_timestamp(), 1000000000, '')");
	ask("insert into tasks (route_id, queue, type, details, run_at, max_attempts, timeout_ms, retry_base_ms, retry_max_ms, "
	    "source, created, last_updated) select r.id, 'crowded', 't', '', now(), 5, 60000, 1000, 60000, '', now(), now() "
	    "from routes r, generate_series(1, 5000) where r.queue = 'crowded'");
	plainly(db, SQL_BEGIN);
	int before = rows_read();
	PQclear(run(db, SQL_QUEUE_STOPS, NULL, 0));
	PQclear(RUN(db, SQL_QUEUE_TASKS_LOCK, "idle", "1000000000", "t", "100"));
	PQclear(RUN(db, SQL_QUEUE_STATUS, "idle"));
	PQclear(RUN(db, SQL_QUEUE_CONTROL, ask("select gen_random_uuid()"), "idle", "delete", "tester"));
	int read = rows_read() - before;
	plainly(db, SQL_COMMIT);
	expect("it reads few of them", "yes", read < 100 ? "yes" : text("%d", read));
}

void try_batches(const char *conninfo)
{
	other = connection(conninfo);
	retry_waits_for_the_batchs_end();
	submits_lock_batches_in_order();
	newer_versions_lock_batches_in_order();
	a_copy_of_a_submit_waits();
	a_pause_waits_for_a_stop();
	a_stop_is_for_closed_batches_too();
	ending_goes_on_past_what_was_taken();
	other_queues_are_left_alone();
	PQfinish(other);
}
