/*
 * Compares the table of transitions (manager/core/states.c) with the effects of the SQL. Every event is tried on a task
 * in every state, with the actual statements of the manager, on a database that a manager has set up and left:
 *
 *	state-table CONNINFO pairs      every state and event, whether the table has the pair or not
 *	state-table CONNINFO locks      two connections that want the same rows of tasks at once
 *	state-table CONNINFO batches    the same for rows of batches and queues
 *
 * Each difference is printed as a line; then the exit code is 1. It is 2 if a statement failed.
 *
 * Each pair is tried in two ways: plain, and with a longer history: the attempt is the second one, another task was
 * assigned by the same Fetch and still runs, and a cancelled task was cancelled while it ran.
 */
#include "manager/core/states.h"

#include "state_sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The states ---- */

struct event {
	const char *name;
	const char *outcome; /* for end_attempts */
	const char *way;     /* of a submit: the statement or function, instead of `submit` */
	bool one;            /* complete_one instead of complete */
	bool last;           /* no attempt is left */
	bool expires;
	bool discarded;    /* the task was discarded before */
	bool newer;        /* a newer version was submitted before */
	bool again;        /* a restart was requested before */
	bool hung;         /* the same, as it hung */
	bool marked;       /* a cancel was requested before */
	bool third;        /* it has happened twice before, in a row */
	bool found;        /* no report has it: the manager has found it */
	const char *stage; /* of a pipeline, which the task is in */
	int step;
};

static const struct event events[] = {
    {.name = "submit"},
    {.name = "submit", .way = "submit_plain"},
    {.name = "submit", .way = "submit_one"},
    {.name = "submit", .way = "submit('t', 'details', queue => 'q')"},
    {.name = "submit", .way = "submit_task('{\"queue\": \"q\", \"type\": \"t\"}')"},
    {.name = "submit", .way = "submit_internal('q', 't', 'details', null, 'tester')"},
    {.name = "claim"},
    {.name = "complete"},
    {.name = "complete", .one = true},
    {.name = "fail", .outcome = "failed"},
    {.name = "fail for the last time", .outcome = "failed", .last = true},
    {.name = "fail fatally", .outcome = "fatal"},
    {.name = "return", .outcome = "returned"},
    {.name = "end with the lease", .outcome = "lease_ended"},
    {.name = "end with the lease once more", .outcome = "lease_ended", .third = true},
    {.name = "end with the lease for the last time", .outcome = "lease_ended", .third = true, .last = true},
    {.name = "requeue", .outcome = "requeued", .found = true},
    {.name = "requeue once more", .outcome = "requeued", .third = true, .found = true},
    {.name = "requeue for the last time", .outcome = "requeued", .third = true, .last = true, .found = true},
    {.name = "lose the worker", .outcome = "lost", .found = true},
    {.name = "lose the worker for the last time", .outcome = "lost", .last = true, .found = true},
    {.name = "expire", .outcome = "expired", .expires = true, .found = true},
    {.name = "expire for the last time", .outcome = "expired", .last = true, .expires = true, .found = true},
    {.name = "return", .outcome = "cancelled"},
    {.name = "end after a cancel", .outcome = "cancelled", .marked = true},
    {.name = "end after a cancel", .outcome = "failed", .marked = true},
    {.name = "end after a cancel", .outcome = "fatal", .marked = true},
    {.name = "end after a cancel", .outcome = "returned", .marked = true},
    {.name = "end after a cancel", .outcome = "lease_ended", .marked = true},
    {.name = "end after a cancel", .outcome = "expired", .expires = true, .marked = true, .found = true},
    {.name = "end after a cancel", .outcome = "lost", .marked = true, .found = true},
    {.name = "end after a cancel", .outcome = "requeued", .marked = true, .found = true},
    {.name = "end after a cancel", .outcome = "requeued", .third = true, .marked = true, .found = true},
    {.name = "end after a discard", .outcome = "failed", .discarded = true},
    {.name = "end after a discard", .outcome = "cancelled", .discarded = true},
    {.name = "end after a discard", .outcome = "lost", .discarded = true, .found = true},
    {.name = "complete after a newer version", .outcome = "completed", .newer = true},
    {.name = "fail after a newer version", .outcome = "failed", .newer = true},
    {.name = "fail after a newer version", .outcome = "failed", .last = true, .newer = true},
    {.name = "fail after a newer version", .outcome = "fatal", .newer = true},
    {.name = "fail after a newer version", .outcome = "cancelled", .newer = true},
    {.name = "fail after a newer version", .outcome = "lost", .newer = true, .found = true},
    {.name = "fail after a newer version", .outcome = "returned", .newer = true},
    {.name = "complete after a newer version", .outcome = "completed", .newer = true, .stage = "one", .step = 1},
    {.name = "complete a stage", .outcome = "completed", .stage = "one", .step = 99},
    {.name = "complete a stage", .outcome = "completed", .stage = "one", .step = 1, .last = true},
    {.name = "complete a stage", .outcome = "completed", .stage = "one", .step = 1, .again = true},
    {.name = "complete a stage", .outcome = "completed", .stage = "one", .step = 1, .hung = true},
    {.name = "complete the last stage", .outcome = "completed", .stage = "two", .step = 2},
    {.name = "complete the last stage", .outcome = "completed", .stage = "two", .step = 2, .marked = true},
    {.name = "complete the last stage", .outcome = "completed", .stage = "two", .step = 2, .again = true},
    {.name = "complete one stage too many", .outcome = "completed", .stage = "one", .step = 100},
    {.name = "end after a cancel", .outcome = "completed", .stage = "one", .step = 1, .marked = true},
    {.name = "end after a cancel", .outcome = "failed", .stage = "two", .step = 2, .marked = true},
    {.name = "end after a discard", .outcome = "completed", .stage = "one", .step = 1, .discarded = true},
    {.name = "complete", .again = true},
    {.name = "end after a restart", .outcome = "cancelled", .again = true},
    {.name = "end after a restart", .outcome = "failed", .again = true},
    {.name = "end after a restart", .outcome = "failed", .last = true, .again = true},
    {.name = "end after a restart", .outcome = "fatal", .again = true},
    {.name = "end after a restart", .outcome = "lease_ended", .third = true, .again = true},
    {.name = "end after a restart", .outcome = "expired", .expires = true, .again = true, .found = true},
    {.name = "end after a restart", .outcome = "lost", .again = true, .found = true},
    {.name = "hang", .outcome = "cancelled", .hung = true},
    {.name = "hang", .outcome = "returned", .hung = true},
    {.name = "hang for the last time", .outcome = "cancelled", .last = true, .hung = true},
    {.name = "fail", .outcome = "failed", .hung = true},
    {.name = "complete", .hung = true},
    {.name = "cancel"},
    {.name = "discard"},
    {.name = "restart"},
    {.name = "newer version"},
    {.name = "manual retry"},
    {.name = "update"},
    {.name = "purge"},
    {0},
};

static struct task reach(enum task_state state, const struct event *e, bool longer)
{
	if (state == STATE_NONE)
		return (struct task){
		    .id = ask("select nextval('tasks_id_seq')"), .version = "2020-01-01", .key = text("key-%d", ++fetches)};
	bool last = e->last && state == STATE_EXECUTING;
	struct task t = submitted(last ? (longer ? "2" : "1") : "5"), too = {0};
	if (longer) {
		too.id = submit(ask("select gen_random_uuid()"), NULL, "5");
		refresh(&too);
	}
	if (longer && (state == STATE_EXECUTING || state == STATE_FAILED)) {
		claim(&t, NULL, "0");
		end_attempt(db, &t, t.token, "failed");
		refresh(&t);
	}
	if (state != STATE_QUEUED && (state != STATE_CANCELLED || longer))
		claim(&t, longer ? &too : NULL, e->expires && state == STATE_EXECUTING ? "-61000" : "0");
	switch (state) {
	case STATE_EXECUTING:
		if (e->stage)
			ask("update tasks set pipeline_id = (select max(id) from pipelines), stage = '%s', step = %d where id = %s",
			    e->stage, e->step, t.id);
		if (e->marked)
			cancel_mark(db, &t);
		if (e->discarded)
			discard_mark(db, &t);
		if (e->newer)
			submit_newer(db, &t);
		if (e->again || e->hung)
			restart_mark(db, &t, e->hung);
		if (e->third)
			ask("update tasks set returns = 2 where id = %s returning 1", t.id);
		break;
	case STATE_FAILED: end_attempt(db, &t, t.token, "failed"); break;
	case STATE_COMPLETED: complete(db, &t, t.token); break;
	case STATE_DEAD: end_attempt(db, &t, t.token, "fatal"); break;
	case STATE_CANCELLED:
		cancel_mark(db, &t);
		if (longer)
			end_attempt(db, &t, t.token, "cancelled");
		else
			cancel_waiting(db, &t);
		break;
	default: break;
	}
	refresh(&t);
	expect("the state before", state_name(state), status_of(&t));
	return t;
}

/* ---- The events ---- */

static const char *in_transaction(const char *did)
{
	plainly(db, SQL_COMMIT);
	return did;
}

/* Submits a task in another way than with `submit`. */
static const char *submit_as(struct task *t, const char *way)
{
	if (!strcmp(way, "submit_plain"))
		t->id = submit_by(SQL_SUBMIT_PLAIN);
	else if (!strcmp(way, "submit_one"))
		t->id = submit_by(SQL_SUBMIT_ONE);
	else
		t->id = ask("select * from %s", way);
	return "submit";
}

/* Applies the event as the manager does. Returns the name of the statement that changed something, or NULL. */
static const char *happen(struct task *t, const struct event *e, const char *token)
{
	if (e->outcome)
		return end_attempt(db, t, token, e->outcome) ? "end_attempts" : NULL;
	if (e->way)
		return submit_as(t, e->way);
	if (!strcmp(e->name, "submit")) {
		const char *request = ask("select gen_random_uuid()");
		const char *id = submit(request, t->key, "5");
		expect("a submit sent again", "none", submit(request, t->key, "5"));
		if (!*id)
			return NULL;
		t->id = id;
		return "submit";
	}
	if (!strcmp(e->name, "claim"))
		return claim_for(db, worker, t, NULL, "0") ? "claim" : NULL;
	if (!strcmp(e->name, "complete"))
		return complete_by(db, e->one ? SQL_COMPLETE_ONE : SQL_COMPLETE, t, token) ? "complete" : NULL;
	if (!strcmp(e->name, "update")) {
		PGresult *result =
		    RUN(db, SQL_UPDATE_TASKS, text("{%s}", t->id), "{\"priority\": 7, \"max_attempts\": 9}", "tester");
		bool did = PQntuples(result) && PQgetisnull(result, 0, 2);
		PQclear(result);
		return did ? "update_tasks" : NULL;
	}
	if (!strcmp(e->name, "purge"))
		return rows_of(RUN(db, SQL_PURGE_ENDED, text("{%s}", t->id), "tester", "enough")) ? "purge_ended" : NULL;
	if (!strcmp(e->name, "restart"))
		return restart_mark(db, t, false) ? "restart_mark" : NULL;
	if (!strcmp(e->name, "newer version"))
		return *ask("select 1 from keys where key = '%s'", t->key) && submit_newer(db, t) ? "submit_newer" : NULL;
	plainly(db, SQL_BEGIN);
	if (!strcmp(e->name, "cancel") || !strcmp(e->name, "discard")) {
		bool marked = !strcmp(e->name, "discard") ? discard_mark(db, t) : cancel_mark(db, t);
		if (cancel_waiting(db, t))
			return in_transaction("cancel_waiting");
		return in_transaction(marked ? "cancel_mark" : NULL);
	}
	if (strcmp(e->name, "manual retry") != 0)
		wrong("no such event");
	if (rows_of(RUN(db, SQL_RETRY_WAITING, text("{%s}", t->id), "tester")))
		return in_transaction(
		    rows_of(RUN(db, SQL_RETRY_ENDED, text("{%s}", t->id), "tester")) ? "both" : "retry_waiting");
	return in_transaction(rows_of(RUN(db, SQL_RETRY_ENDED, text("{%s}", t->id), "tester")) ? "retry_ended" : NULL);
}

/* Checks the columns of the row that has the ended attempt. */
static void check_ended_attempt(const struct task *t, const struct event *e, const struct transition *want,
    const struct task *before, const char *attempt)
{
	bool hung = e->hung && e->outcome && strcmp(e->outcome, "failed") != 0 && strcmp(e->outcome, "completed") != 0;
	const char *said = hung ? "failed" : e->outcome ? e->outcome : "completed";
	const char *error = hung ? "hanged" : text("%s-error", said), *code = hung ? "hanged" : text("%s-code", said);
	const char *outcome = strcmp(said, "cancelled") || e->marked ? said : "returned", *report = e->found ? "f" : "t";
	const char *first =
	    ask("select coalesce(min(token), '%s') from task_attempts where task_id = %s", before->version, t->id);
	if (want->to == STATE_FAILED || want->to == STATE_QUEUED) {
		expect("the attempt",
		    text("%s|%s|%s|%s|%s|%s|%s|t", attempt, outcome, state_name(want->to), report, error, code, t->version),
		    ask("select concat_ws('|', a.attempt, outcome, a.status, by_report, error, a.error_code, "
		        "a.last_updated, a.run_at = t.run_at) "
		        "from task_attempts a join tasks t on t.id = task_id where task_id = %s and token = '%s'",
		        t->id, before->version));
		expect("the task", text("%s|%s|t|t|3|t", first, before->version),
		    ask("select concat_ws('|', first_started, started, assignment_id is null, expiry is null, "
		        "num_nulls(cancel_requested_at, stop_code, restart), "
		        "case when status = 'failed' and '%s' in ('failed', 'lease_ended', 'requeued') then run_at - last_updated between "
		        "interval '750ms' * power(2, attempt - 1) and interval '1s' * power(2, attempt - 1) "
		        "else run_at = last_updated end) from tasks where id = %s",
		        outcome, t->id));
		return;
	}
	expect("the history",
	    text("%s|%s|%s|%s|%s|%s", attempt, before->version, first, before->version, report,
	        want->to == STATE_COMPLETED ? "well"
	            : e->step == 100        ? "stage \"two\" would be the 101. that is begun; pipeline \"p\" allows 100"
	            : e->discarded || want->to == STATE_CANCELLED ? "enough"
	                                                          : error),
	    ask("select concat_ws('|', attempt, token, first_started, started, by_report, "
	        "case when status = 'completed' then result else coalesce(last_error, '') end) from task_history where "
	        "task_id = %s",
	        t->id));
}

/* Nothing is left of a purged task but one event; a key with a version stays. */
static void check_purged(const struct task *t)
{
	expect("what is left", "0 1 purged tester enough 0",
	    ask("select format('%%s %%s %%s', (select count(*) from task_attempts where task_id = %1$s), "
	        "(select format('%%s %%s %%s %%s', count(*), min(event), min(actor), min(note)) from task_events where task_id = %1$s), "
	        "(select count(*) from keys where task_id = %1$s and version is null))",
	        t->id));
}

static void check_transition(struct task *t, const struct event *e, const struct transition *want,
    const struct task *before, const char *audit_before, int attempt, int attempts)
{
	if (want->to == STATE_NONE) {
		check_purged(t);
		return;
	}
	bool stays = want->from == STATE_EXECUTING && want->to == STATE_EXECUTING;
	bool ends = want->to >= STATE_COMPLETED, restarts = want->from >= STATE_COMPLETED;
	refresh(t);
	expect("last_updated", stays ? "it stays" : "it grew",
	    ask("select case when timestamptz '%s' > '%s' then 'it grew' when '%s' = '%s' then 'it stays' end", t->version,
	        before->version, t->version, before->version));
	expect("rows in the history", ends ? "1" : "0", count("task_history", t));
	expect("rows in tasks", ends ? "0" : "1", ask("select count(*) from tasks where id = %s", t->id));

	int now = attempt;
	if (!strcmp(e->name, "claim"))
		now++;
	else if (restarts || e->newer || (e->stage && want->to == STATE_QUEUED) || !strcmp(e->name, "newer version"))
		now = stays ? attempt : 0;
	else if (want->from == STATE_EXECUTING && want->to == STATE_QUEUED)
		now--;
	expect("attempt", text("%d", now), attempt_of(t));

	bool ended = want->from == STATE_EXECUTING && want->to != STATE_EXECUTING;
	bool kept_attempt = (ended && !ends) || (restarts && before->token);
	expect("rows in task_attempts", text("%d", attempts + kept_attempt), count("task_attempts", t));
	if (ended)
		check_ended_attempt(t, e, want, before, text("%d", attempt));
	if (ends && !ended)
		expect("a history without an attempt", "t",
		    ask("select token is null and not by_report and assignment_id is null from task_history where "
		        "task_id = %s",
		        t->id));
	if (!strcmp(e->name, "claim"))
		expect("the attempt's expiry and journal", "t",
		    ask("select t.expiry - t.last_updated between interval '59s' and interval '61s' and a.next_expiry "
		        "= t.expiry and "
		        "a.worker_id = t.worker_id and t.worker_id = %s and a.task_ids = array[t.id] "
		        "from tasks t join assignments a on a.id = t.assignment_id where t.id = %s",
		        worker, t->id));
	if (!strcmp(e->name, "cancel") || !strcmp(e->name, "discard") || !strcmp(e->name, "restart"))
		expect("worker commands", text("%d", stays ? 1 : 0),
		    ask("select count(*) from worker_commands where task_id = %s and token = '%s' and worker_id = %s", t->id,
		        t->version, worker));
	if (!strcmp(e->name, "manual retry"))
		expect("due", "t", ask("select run_at <= clock_timestamp() from tasks where id = %s", t->id));
	if (!strcmp(e->name, "update"))
		expect(
		    "what was changed", "7 9", ask("select priority || ' ' || max_attempts from tasks where id = %s", t->id));
	bool versioned = e->newer || !strcmp(e->name, "newer version");
	if (!e->way)
		expect("the key is kept", versioned ? "for a while" : "with the task",
		    ask("select case when expires_at is null then 'with the task' else 'for a while' end from keys where task_id = "
		        "%s",
		        t->id));

	const char *after = audit(t);
	size_t same = strlen(audit_before);
	if (strncmp(audit_before, after, same) != 0) {
		wrong("the audit before:\n%s\nis not the beginning of that after:\n%s", audit_before, after);
		return;
	}
	const char *added = after + same + (same > 0 && after[same]);
	/* the event with the caller comes first */
	if ((!strcmp(e->name, "cancel") || !strcmp(e->name, "discard")) && ends) {
		const char *asked = text("%s_requested %s  tester\n", e->name, before->version);
		expect("who asked for the cancel", asked, text("%.*s", (int)strlen(asked), added));
		added = strchr(added, '\n') ? strchr(added, '\n') + 1 : "";
	}
	/* Whichever way the attempt ended before a newer version or a restart, the audit has that way. */
	bool stage_follows = !strcmp(e->name, "complete a stage");
	bool goes_on = e->outcome && (e->newer || (e->again && !e->stage));
	const char *audited = !goes_on ? want->audit : strcmp(e->outcome, "cancelled") ? e->outcome : "returned";
	const char *event = text("%s %s ", audited, t->version), *more = strchr(added, '\n');
	expect("the event in the audit", event, text("%.*s", (int)strlen(event), added));
	bool told = e->outcome && (!strcmp(e->outcome, "expired") || !strcmp(e->outcome, "lost"));
	const char *reclaimed = told ? text("reclaimed %s  ", t->version) : "";
	const char *again = goes_on ? text("restarted %s  ", t->version)
	    : stage_follows         ? text("stage %s  ", t->version)
	                            : "";
	expect("further events", text("%s%s%s", reclaimed, *reclaimed && *again ? "\n" : "", again), more ? more + 1 : "");
}

/* ---- The pairs ---- */

static const struct transition *transition_of(enum task_state from, const char *event)
{
	for (const struct transition *t = transitions; t->event; t++)
		if (t->from == from && !strcmp(t->event, event))
			return t;
	return NULL;
}

static void try_pair(enum task_state from, const struct event *e, bool longer)
{
	const struct transition *want = transition_of(from, e->name);
	const char *how = e->outcome ? e->outcome : e->way;
	snprintf(trying, sizeof trying, "%s, %s%s%s%s%s", state_name(from), e->name, how ? " (" : "", how ? how : "",
	    how ? ")" : "", longer ? ", longer" : "");
	struct task t = reach(from, e, longer), before = t;
	const char *was = everything(&t), *audited = audit(&t);
	int attempt = atoi(attempt_of(&t));
	int attempts = atoi(count("task_attempts", &t));
	if (e->expires)
		expect("it is found as expired", from == STATE_EXECUTING ? "yes" : "no", found_expired(&t) ? "yes" : "no");

	const char *did = happen(&t, e, t.version);
	expect("the statement that did it", want ? want->statement : "none", did ? did : "none");
	expect("the state afterwards", state_name(want ? want->to : from),
	    *status_of(&t) ? status_of(&t) : state_name(STATE_NONE));
	if (want) {
		check_transition(&t, e, want, &before, audited, attempt, attempts);
		/* The same report again, as after a lost answer. */
		if (from == STATE_EXECUTING && (e->outcome || want->to == STATE_COMPLETED)) {
			const char *now = everything(&t);
			happen(&t, e, before.version);
			expect("what there is after the same report again", now, everything(&t));
		}
	} else {
		expect("what there is of the task", was, everything(&t));
		if (t.token) { /* nor must the latest attempt's own token have an effect */
			happen(&t, e, t.token);
			expect("what there is of the task after its old token", was, everything(&t));
		}
	}
	if (e->expires)
		advance_expiries();
	expect_journal(&t);
	forget_texts();
}

/* Compares the counts of all tasks with the tables, which takes as long as a pair. */
static void expect_counts(void)
{
	expect("what is miscounted, after this pair or one of those before it", "",
	    ask_about("select string_agg(m::text, '; ') from public.miscounted m where $1 <> ''", "all"));
	forget_texts();
}

static void pairs(void)
{
	for (const struct transition *t = transitions; t->event; t++) {
		const struct event *e = events;
		while (e->name && strcmp(e->name, t->event) != 0)
			e++;
		snprintf(trying, sizeof trying, "%s, %s", state_name(t->from), t->event);
		if (!e->name)
			wrong("an event that is not tried");
		if (transition_of(t->from, t->event) != t)
			wrong("twice in the table");
	}
	expect("tasks that no queue keeps for hours", "0", text("%d", rows_of(run(db, SQL_PURGE_HOURS, NULL, 0))));
	int tried = 0;
	for (int longer = 0; longer < 2; longer++)
		for (int from = STATE_NONE; from < STATE_COUNT; from++)
			for (const struct event *e = events; e->name; e++)
				if (!e->way || (from == STATE_NONE && !longer)) {
					try_pair((enum task_state)from, e, longer);
					if (++tried % 8 == 0)
						expect_counts();
				}
	expect_counts();
}

int main(int argc, char **argv)
{
	if (argc != 3 || (strcmp(argv[2], "pairs") && strcmp(argv[2], "locks") && strcmp(argv[2], "batches"))) {
		fprintf(stderr, "usage: state-table CONNINFO pairs|locks|batches\n");
		return 2;
	}
	db = connection(argv[1]);
	char worker_id[24], route_id[24];
	PQclear(RUN(db, SQL_ROUTES_ADD, "{q}", "{t}"));
	PGresult *result = RUN(db, SQL_ROUTES_FIND, "{q}", "{t}");
	snprintf(route_id, sizeof route_id, "%s", PQgetvalue(result, 0, 0));
	PQclear(result);
	/* With a negative lease, so that the expiry of a claim depends on the test's buffer. */
	result = RUN(db, SQL_REGISTER, "{w}", "{host}", "{1}", "{0}", "{4}", "{1}", "{1}", "{0}", "{f}", "{q}", "{t}",
	    "-3600000", "{NULL}", "{w}");
	snprintf(worker_id, sizeof worker_id, "%s", PQgetvalue(result, 0, 1));
	PQclear(result);
	worker = worker_id;
	route = route_id;
	const char *stage =
	    "\"type\": \"t\", \"max_attempts\": 5, \"timeout_ms\": 60000, \"retry_base_ms\": 1000, \"retry_max_ms\": 60000";
	ask("insert into pipelines (name, stages) values ('p', '[{\"name\": \"one\", \"next\": \"two\", %s}, {\"name\": \"two\", %s}]') "
	    "returning id",
	    stage, stage);
	if (!strcmp(argv[2], "pairs"))
		pairs();
	else if (!strcmp(argv[2], "locks"))
		try_locks(argv[1]);
	else
		try_batches(argv[1]);
	forget_texts();
	PQfinish(db);
	printf("%d checks, %d failures\n", checks, failures);
	return failures > 0;
}
