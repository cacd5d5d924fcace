#!/usr/bin/env bash
# The checker of the fault tests (tests/faults/check): it finds nothing in a run without violations, and each violation
# that a test inserts into a copy of the ledgers or of the database. (checker_batches.sh: batches; checker_schedules.sh:
# pipelines, schedules and SQL.)
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/e2e/checker.bash"

# Makes the run: two managers, programs and functions, all kinds of tasks, cancels, keys, a function that kills its
# worker, and batches with callbacks.
the_run() {
	start_fleet
	start_fault_function doomed --type doomed
	start_batches
	start_submitter s --count 150 --rate 60 --seed 7 --cancel 20 --look 20 \
		--mix short=40,medium=10,recover=20,fail=10,fatal=10,delayed=5,hang=2
	submit_script killer-1 'run=10 crash=1' --type doomed --timeout 2s --retry-base 1ms >/dev/null
	ended doomed
	end_lease doomed
	start_fault_function heir --type doomed
	end_run heir
}

some_completed() { # a task of s that completed at its first attempt
	some 'id token name' "select task_id, $TOKEN, $NAME from task_history
		where status = 'completed' and attempt = 1 and details like 's-%' and key is null order by task_id"
}

some_repeated() { # one with an attempt before that failed: `first` is its token
	some 'id token name first' "select task_id, $TOKEN, $NAME,
		(select min($TOKEN) from task_attempts a where a.task_id = h.task_id)
		from task_history h where status = 'completed' and attempt = 3 and details like 's-%' order by task_id"
}

test_nothing_is_found_where_all_went_well() {
	expect_nothing_found
	check --running
	expect_match ' 0 violations$' "$OUTPUT"
	# The run has everything that the other tests need.
	expect_eq 'cancelled completed dead' "$(sql 'select distinct status from task_history order by 1' | xargs)"
}

test_undecidable_cases_are_no_violation() {
	copy
	COPY=nowhere check
	expect_eq 2 "$CODE"
	expect_match 'the tables cannot be read' "$OUTPUT"
	line handler 'this is no line'
	check
	expect_eq 2 "$CODE"
	expect_match "programs.handler:[0-9]+: not a ledger's line" "$OUTPUT"
	rm "$LEDGERS"/*
	check
	expect_eq 2 "$CODE"
	expect_match 'no ledgers' "$OUTPUT"
}

test_an_incomplete_line_is_ignored() {
	copy
	some_completed
	sed -i '1s/^/{"ev":"alive","task":'"$id"',"tok/' "$LEDGERS/programs.handler"
	check
	expect_match ' 0 violations$' "$OUTPUT"
	expect_match '1 lines were torn' "$OUTPUT"
}

# ---- I1 ----

test_an_acknowledged_task_is_lost() {
	copy
	some_completed
	change "delete from task_history where task_id = $id"
	check
	expect_found 'I1 lost' "$name was acknowledged as task $id at .*no table has it" and others
}

test_an_acknowledged_task_is_not_found_by_a_query() {
	copy
	some_completed
	line submit "{\"ev\":\"seen\",\"id\":$id,\"status\":\"\",\"t\":1}"
	check
	expect_found 'I1 lost' "task $id was acknowledged, and not found"
}

test_a_task_is_created_twice() {
	copy
	some_completed
	change "create temp table twin as select * from task_history where task_id = $id;
		update twin set task_id = 1000000, assignment_id = null, token = null; insert into task_history select * from twin"
	check
	expect_found 'I1 made-twice' "$name has become the tasks \[$id, 1000000\]" and others
}

test_a_task_is_acknowledged_twice() {
	copy
	some_completed
	some 'other other_name' "select task_id, $NAME from task_history where task_id <> $id and details like 's-%'"
	line submit "{\"ev\":\"ack\",\"name\":\"$name\",\"id\":$other,\"existing\":true,\"t\":1}"
	check
	expect_found 'I1 made-twice' "$name was acknowledged as the tasks \[" and others
	expect_found 'I1 mixed-up' "task $other was acknowledged to .*$name" and others
}

test_a_key_has_two_tasks() {
	copy
	some 'id key' "select task_id, key from task_history where key is not null"
	some_completed
	change "update task_history set key = '$key' where task_id = $id"
	check
	expect_found 'I1 made-twice' "the key $key of queue default has made the tasks"
}

test_a_task_exists_without_a_submit() {
	copy
	some_completed
	edit "/\"ev\":\"submit\",\"name\":\"$name\"/d"
	check
	expect_found 'I1 made-of-nothing' "task $id \($name\) was submitted by nobody"
}

test_a_request_was_answered_a_task_that_is_not_there() {
	copy
	change "update requests set task_ids = task_ids || 999999 where id = (select id from requests where kind = 'submit' limit 1)"
	check
	expect_found 'I1 lost' 'a request was answered task 999999'
}

# ---- I2 ----

test_two_workers_hold_a_task_at_once() {
	copy
	some_repeated
	last=$(sql "select $TOKEN from task_history where task_id = $id")
	second=$(time_of "$id" "$last" start)
	line handler "{\"ev\":\"alive\",\"task\":$id,\"token\":$first,\"t\":$((second + 1000))}"
	check
	expect_found 'I2 two-holders' "task $id .*token $first\) gave a sign of life .*, 1.0 ms after attempt 3 .*token $last\)" and others
	# A sign of life before the next attempt begins is no violation.
	copy
	line handler "{\"ev\":\"alive\",\"task\":$id,\"token\":$first,\"t\":$(($(time_of "$id" "$first" end) + 1))}"
	check
	expect_match ' 0 violations$' "$OUTPUT"
}

test_a_token_is_begun_twice() {
	copy
	some_completed
	line handler "$(sed -n "/\"ev\":\"start\",\"task\":$id,/s/\"pid\":[0-9]*/\"pid\":1/p" "$LEDGERS"/*.handler)"
	check
	expect_found 'I2 begun-twice' "task $id .*process 1\)"
}

test_an_attempt_is_begun_by_a_worker_that_it_was_not_given_to() {
	copy
	some_completed
	edit "/\"ev\":\"start\",\"task\":$id,/s/\"worker\":\"[a-z]*\"/\"worker\":\"heir\"/"
	check
	expect_found 'I2 wrong-worker' "task $id .* of worker heir .* was given to worker"
	copy
	some 'assignment worker' "select assignment_id, worker_id from task_history where task_id = $id"
	change "update assignments set worker_id = worker_id + 1000 where id = $assignment"
	check
	expect_found 'I2 wrong-worker' "is of incarnation $worker, its assignment of $((worker + 1000))" and others
}

test_a_handler_outlives_its_lock() {
	copy
	some_completed
	line handler "{\"ev\":\"alive\",\"task\":$id,\"token\":$token,\"t\":$(($(time_of "$id" "$token" end) + 60000000))}"
	check
	expect_match ' 0 violations$' "$OUTPUT"
	check --one-clock
	expect_found 'I2 outlived' "task $id .*after it had ended \(completed\)"
	copy
	edit "/\"ev\":\"start\",\"task\":$id,/s/\"t\":[0-9]*/\"t\":$(($(time_of "$id" "$token" start) - 60000000))/"
	check --one-clock
	expect_found 'I2 before-its-claim' "task $id"
}

# Nothing kills a C function that was asked to stop before its attempt expired.
test_a_function_goes_on_past_its_expiry() {
	copy
	some 'id token' "select task_id, $TOKEN from task_history where status = 'completed' and attempt = 1 and type = 'fault-function'
		and details like 's-%' and key is null order by task_id"
	change "update task_history set status = 'dead', error_code = 'expired', last_error = '', by_report = false where task_id = $id"
	end=$(time_of "$id" "$token" end)
	line handler "{\"ev\":\"alive\",\"task\":$id,\"token\":$token,\"t\":$((end + 60000000))}"
	check --one-clock
	expect_found 'I2 outlived' "task $id .*after it had ended \(dead\)" and others
	line handler "{\"ev\":\"told\",\"task\":$id,\"token\":$token,\"t\":$((end - 1000))}"
	check --one-clock
	expect_no_match 'I2 outlived' "$OUTPUT"
}

# ---- I3 ----

test_a_task_is_completed_without_a_handler() {
	copy
	some_completed
	edit "/\"ev\":\"end\",\"task\":$id,/d"
	check
	expect_found 'I3 unearned' "task $id .*its handler ended it: not at all"
	copy
	edit "/\"task\":$id,/d"
	check
	expect_found 'I3 unearned' "task $id .*no handler has begun it"
	copy
	some 'id' "select task_id from task_attempts where outcome = 'failed' and error like 'failed %'"
	edit "/\"ev\":\"end\",\"task\":$id,/s/\"outcome\":\"failed\"/\"outcome\":\"completed\"/"
	check
	expect_found 'I3 unearned' "task $id .* is said failed; its handler did not say so" and others
}

test_a_result_is_that_of_another_attempt() {
	copy
	some_repeated
	change "update task_history set result = '$name $first' where task_id = $id"
	check
	expect_found 'I3 stale-result' "task $id .*attempt 3 .* has the result of token $first"
	copy
	change "update task_attempts set error = 'failed $token' where task_id = $id and attempt = 1"
	check
	expect_found 'I3 stale-result' "task $id .*attempt 1 .* has the error of token $token"
	copy
	change "update task_history set result = 'something else' where task_id = $id"
	check
	expect_found 'I3 stale-result' "task $id .* has the result 'something else'"
}

test_a_cancel_overrules_a_completion() {
	copy
	some_completed
	change "update task_history set status = 'cancelled', result = null where task_id = $id;
		insert into task_events (task_id, version, event) select task_id, token, 'cancel_requested' from task_history where task_id = $id"
	line submit "{\"ev\":\"cancel\",\"id\":$id,\"t\":$(($(time_of "$id" "$token" end) + 600000))}"
	edit "/\"ev\":\"seen\",\"id\":$id,/d"
	check
	expect_found 'I3 overruled' "task $id .* had completed at" and others
}

test_a_late_result_counted() {
	copy
	some_completed
	change "insert into task_events (task_id, version, event) select task_id, token, 'late_result' from task_history where task_id = $id"
	check
	expect_found 'I3 late-counted' "task $id"
}

test_a_task_has_two_states() {
	copy
	some_completed
	change "insert into task_history select * from task_history where task_id = $id"
	check
	expect_found 'I3 two-states' "task $id .* is there 2 times: completed, completed" and others
	copy
	revive "$id" queued
	check --running
	expect_found 'I3 two-states' "task $id .* is there 2 times: queued, completed" and others
}

# Adds the ended task ID to the live ones, with STATUS.
revive() { # ID STATUS [EXTRA-COLUMN VALUE]
	change "insert into tasks (id, route_id, queue, type, details, status, run_at, attempt, max_attempts, created, last_updated
		${3:+, $3}) overriding system value
		select task_id, route_id, queue, type, details, '$2', run_at, attempt, max_attempts, created, last_updated ${4:+, $4}
		from task_history where task_id = $1"
}

test_a_final_state_changes() {
	copy
	some_completed
	line submit "{\"ev\":\"seen\",\"id\":$id,\"status\":\"dead\",\"t\":1}"
	check
	expect_found 'I3 final-changed' "task $id .* was seen dead at .*, and is completed"
	copy
	line submit "{\"ev\":\"cancelled\",\"id\":$id,\"status\":\"cancelled\",\"changed\":false,\"t\":1}"
	check
	expect_found 'I3 final-changed' "task $id .* was seen cancelled at .*, and is completed"
	copy
	some_repeated
	change "update task_attempts set status = 'dead' where task_id = $id and attempt = 2"
	check
	expect_found 'I3 final-changed' "task $id .*attempt 2 .* ended it \(dead\); nobody retried it, and another attempt followed" and others
	copy
	change "update task_attempts set last_updated = last_updated + interval '1 hour' where task_id = $id and attempt = 2"
	check
	expect_found 'I3 final-changed' "task $id .*completed at version .*attempt 2 .* is later" and others
}

test_a_cancelled_task_is_claimed() {
	copy
	some_repeated
	change "insert into task_events (task_id, version, event) select task_id, last_updated, 'cancel_requested'
		from task_attempts where task_id = $id and attempt = 1"
	check
	expect_found 'I3 claimed-after-cancel' "task $id .*claimed as attempt 2" and others
}

# ---- I4 ----

test_a_task_is_stuck() {
	copy
	some_completed
	worker=$(sql "select id from workers where name = 'doomed'")
	revive "$id" executing 'worker_id, assignment_id, expiry' "$worker, assignment_id, clock_timestamp() + interval '1 hour'"
	change "delete from task_history where task_id = $id; update workers set lost = true, gone_at = clock_timestamp() - interval '6 s' where id = $worker"
	check --running
	expect_found 'I4 stuck' "task $id .*its worker, incarnation $worker, is gone for ([6-9]|[1-5][0-9])[.][0-9] s" and others
	check
	expect_found 'I4 stuck' "task $id .* is executing, attempt 1, of worker doomed" and others
	check --running --slack 60
	expect_no_match 'I4 stuck' "$OUTPUT"
	change "update tasks set expiry = clock_timestamp() - interval '61 s'"
	check --running --slack 60
	expect_found 'I4 stuck' "task $id .* (6[1-9]|[7-9][0-9])[.][0-9] s past its expiry" and others
	change 'update tasks set worker_id = 999'
	check --running
	expect_found 'I4 stuck' 'incarnation 999, is unknown' and others
}

test_a_task_has_not_ended() {
	copy
	some_completed
	revive "$id" queued
	change "delete from task_history where task_id = $id"
	check
	expect_found 'I4 not-ended' "task $id .* is queued" and others
}

test_the_journal_says_that_more_is_open_than_runs() {
	copy
	some assignment 'select id from assignments'
	change "update assignments set open = 1, closed_at = null where id = $assignment"
	check
	expect_found 'I4 journal-open' "assignment $assignment .*says that 1 of its .* attempts are open; 0 run"
	change "update assignments set open = 0 where id = $assignment"
	check
	expect_found 'I4 journal-open' "assignment $assignment .*says that 0 of its"
}

# ---- I5 ----

test_a_task_is_retried_for_ever() {
	copy
	some_repeated
	change "update task_history set max_attempts = 2 where task_id = $id"
	check
	expect_found 'I5 endless' "task $id .*attempt 3 .* of at most 2"
	copy
	change "update task_attempts set outcome = 'requeued', status = 'queued', attempt = 1 where task_id = $id;
		insert into task_attempts (task_id, token, attempt, worker_id, assignment_id, outcome, status, by_report, last_updated)
			select task_id, last_updated + interval '1 us', 1, worker_id, assignment_id, 'lease_ended', 'queued', true,
				last_updated + interval '2 us' from task_attempts where task_id = $id order by token desc limit 1;
		update task_history set attempt = 1 where task_id = $id"
	check
	expect_found 'I5 endless' "task $id .* is the third in a row" and others
}

test_a_task_is_dead_too_early() {
	copy
	some 'id attempt' "select task_id, attempt from task_history where status = 'dead' and last_error like 'failed %'"
	change "update task_history set max_attempts = attempt + 1 where task_id = $id"
	check
	expect_found 'I5 dead-too-early' "task $id .* is dead after attempt $attempt of $((attempt + 1))"
	copy
	some 'id token' "select task_id, $TOKEN from task_history where status = 'dead' and last_error like 'fatal %'"
	edit "/\"ev\":\"end\",\"task\":$id,/s/\"outcome\":\"fatal\"/\"outcome\":\"failed\"/"
	check
	expect_found 'I5 dead-too-early' "task $id " and others
}

# ---- I6 ----

test_an_attempt_is_missing_from_the_audit() {
	copy
	some_repeated
	change "delete from task_attempts where task_id = $id and attempt = 1"
	check
	expect_found 'I6 attempt-missing' "task $id .*token $first\) ran from .*the tables know of no attempt" and others
	expect_found 'I6 attempt-missing' "task $id .*attempt 2 .*its number should be 1" and others
	expect_found 'I6 attempt-missing' "task $id .* was given to incarnation .*no attempt tells what became of that" and others
	copy
	change "update task_attempts set attempt = 7 where task_id = $id and attempt = 2"
	check
	expect_found 'I6 attempt-missing' "task $id .*attempt 7 .*its number should be 2" and others
	expect_found 'I6 attempt-missing' "task $id .*attempt 2 of worker .* is attempt 7" and others
}

test_the_journal_and_the_attempts_differ() {
	copy
	some_completed
	assignment=$(sql "select assignment_id from task_history where task_id = $id")
	change "update assignments set task_ids = array_remove(task_ids, $id) where id = $assignment"
	check
	expect_found 'I6 journal-differs' "task $id .*is of assignment $assignment, whose row does not name it"
	copy
	change "update assignments set task_ids = task_ids || 999999 where id = $assignment"
	check
	expect_found 'I6 attempt-missing' "task 999999 was given to incarnation"
}

test_an_event_is_missing() {
	copy
	some 'id' "select task_id from task_history where status = 'cancelled'"
	change "delete from task_events where task_id = $id and event = 'cancel_requested'"
	check
	expect_found 'I6 event-missing' "task $id .* is cancelled, and nobody asked for it" and others
	expect_found 'I6 event-missing' "task $id .*its cancel was acknowledged at" and others
	copy
	id=$(sql "select task_id from task_attempts a join task_history h using (task_id)
		where a.outcome in ('lost', 'expired') and h.details like 'killer-1 %'")
	change "delete from task_events where task_id = $id and event = 'reclaimed'"
	check
	expect_found 'I6 event-missing' "task $id \(killer-1\).* was taken away; no event says why"
	copy
	change "delete from worker_events where event = 'registered' and worker_id = (select id from workers where name = 'heir')"
	check
	expect_found 'I6 event-missing' 'worker heir, incarnation [0-9]+, was registered 0 times'
	copy
	change "insert into worker_events (worker_id, event) select id, 'lost' from workers where name = 'heir'"
	check
	expect_found 'I6 event-missing' 'worker heir, incarnation [0-9]+, is lost; its events are registered left lost'
	copy
	change "delete from workers where name = 'heir'"
	check
	expect_found 'I6 event-missing' "task $id .* is of incarnation [0-9]+, which is nowhere" and others
}

# The checker reads the audit by its view, as operators do: what the view leaves out is missing.
test_the_audits_view_leaves_something_out() {
	copy
	some_repeated
	change "do \$\$ begin execute format('create or replace view audit_log as %s',
		replace(rtrim(pg_get_viewdef('audit_log'), ';'), '''claimed''::text', '''clamed''::text')); end \$\$"
	check
	expect_found 'I6 event-missing' "task $id .*its audit is submitted clamed failed" and others
}

test_the_events_are_out_of_order() {
	copy
	some_repeated
	change "update task_attempts set last_updated = token - interval '1 us' where task_id = $id and attempt = 2"
	check
	expect_found 'I6 order' "task $id .*attempt 2 .*ended at version" and others
	copy
	change "update task_history set created = last_updated where task_id = $id"
	check
	expect_found 'I6 order' "task $id .*attempt 1 .*has a token that is not later than" and others
}

test_miscounted() {
	copy
	change 'select 1'
	in_database "$COPY" "update history_counts set count = count + 1
		where (route_id, status) = (select route_id, status from history_counts order by 1, 2 limit 1)" >/dev/null
	check
	expect_found 'I6 miscounted' 'tasks in all in the history, and'
	copy
	change 'select 1'
	in_database "$COPY" "insert into count_changes (route_id, live) select max(id), 2 from routes" >/dev/null
	check
	expect_found 'I6 miscounted' 'route .* has 0 waiting tasks, and 2 are counted'
}

the_run
run_tests
