#!/usr/bin/env bash
# PostgreSQL fails under load and comes back: all programs reconnect, nothing acknowledged is lost, and nothing is
# created or run twice.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ledger.bash"

# Starts a submitter and a worker at each manager, and submits a backlog.
begin() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager one
	start_manager two
	REEVE_MANAGER=${URL[one]} start_ledger a --concurrency 8
	REEVE_MANAGER=${URL[two]} start_ledger b --concurrency 8 --prefetch 50
	REEVE_MANAGER=${URL[one]} start submitter-1 submit_steadily 1 40
	REEVE_MANAGER=${URL[two]} start submitter-2 submit_steadily 500001 7
	ledger_tasks 1000001 1012000 4 | reeve submit --bulk - >"$DIR/acknowledged.1000001"
}

# Stops the submitters, and expects every task to have completed once, in its first attempt.
finish() {
	touch "$DIR/enough"
	for name in submitter-1 submitter-2; do
		ended $name 60
		expect_eq '' "$(sed -n '/^submit of/{/ 3$/!p}' "$DIR/log/$name.log")" "exit codes of $name"
	done
	wait_until 60 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_nothing_lost
	expect_nothing_doubled
	expect_journal_closed
	expect_eq '' "$(sql 'select task_id, attempt from task_history where attempt <> 1 limit 5')" 'attempted again'
	expect_eq 0 "$(sql 'select count(*) from task_attempts')" 'attempts that did not end their task'
	expect_eq 0 "$(sql 'select count(*) from task_events')" 'events out of the ordinary'
	for name in a b; do
		stop $name
		expect_eq 0 "$STATUS" "exit code of worker $name"
	done
}

story_killed_and_started_again_under_load() {
	begin
	for round in 1 2 3; do
		wait_until 60 "begun $((round * 3000))"
		stop_postgres immediate
		start_postgres
	done
	finish
	expect_match 'the database is back' "$(cat "$DIR/log/one.log")"
}

story_every_connection_is_cut_again_and_again() {
	begin
	for round in 1 2 3 4 5 6 7 8 9 10; do
		wait_until 60 "begun $((round * 1000))"
		sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'reeve-manager%'" >/dev/null
	done
	finish
}

# A manager that missed notifications while its listening connection was cut finds the tasks by polling.
story_a_task_submitted_while_nobody_listens_is_found() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager one
	start_manager two
	REEVE_MANAGER=${URL[two]} start_ledger a
	for n in 1 2 3; do
		sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'reeve-manager listen'" >/dev/null
		id=$(reeve --manager "${URL[one]}" submit ledger t$n)
		expect reeve --manager "${URL[one]}" wait "$id" --timeout 10s
	done
	expect_each_once 3
	stop a
}

# Calls wait for the database until their callers' timeout; then the error names the database.
story_callers_are_told_that_it_is_down() {
	start_postgres
	start_manager
	id=$(reeve submit nothing)
	stop_postgres immediate
	start submit "$REEVE_BIN/reeve" submit nothing
	start show "$REEVE_BIN/reeve" show "$id"
	start list "$REEVE_BIN/reeve" list
	start cancel "$REEVE_BIN/reeve" cancel "$id"
	start stats "$REEVE_BIN/reeve" stats
	for name in submit show list cancel stats; do
		ended $name 60
		expect_eq 3 "$STATUS" "exit code of $name"
		expect_match 'database' "$(cat "$DIR/log/$name.log")" "what $name was told"
	done
	start_postgres
	expect_eq queued "$(reeve show "$id" --json | jq -r .status)"
	expect_eq 1 "$(sql 'select count(*) from tasks')" 'tasks'
	reeve cancel "$id"
}

run_stories
