#!/usr/bin/env bash
# Managers are killed, stopped and restarted under load: no acknowledged task is lost, and running tasks continue.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ledger.bash"
. "$(dirname "$0")/locks.bash"

# Stops the workers while their manager runs. At the end of the test, the harness would stop a manager that was started
# after them first.
stop_workers() { # NAME...
	local name
	for name; do
		stop "$name"
		expect_eq 0 "$STATUS" "exit code of worker $name"
	done
}

# Expects that each task has completed in its first attempt. Attempts expire after a minute and a half, so that none is
# reclaimed by its expiry during a test: each first attempt was kept, or delivered again to the same worker.
expect_first_attempts() {
	expect_eq '' "$(sql 'select task_id, attempt from task_history where attempt <> 1 limit 5')" 'attempted again'
	expect_eq 0 "$(sql 'select count(*) from task_attempts')" 'attempts that did not end their task'
}

begin_load() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager
	start_ledger a --concurrency 8
	start_ledger b --concurrency 8 --prefetch 50
	start submitter submit_steadily 1 40 0
	ledger_tasks 1000001 1006000 4 | reeve submit --bulk - >"$DIR/acknowledged.1000001"
}

end_load() {
	touch "$DIR/enough"
	ended submitter 60
	expect_eq '' "$(sed -n '/^submit of/{/ 3$/!p}' "$DIR/log/submitter.log")" 'exit codes of the submitter'
	wait_until 60 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_nothing_lost
	expect_nothing_doubled
	expect_first_attempts
	expect_journal_closed
	stop_workers a b
}

test_killed_again_and_again_under_load() {
	begin_load
	for round in 1 2 3 4; do
		wait_until 60 "begun $((round * 1250))"
		kill_manager
		wait_until 20 'sessions_gone claim && sessions_gone report && sessions_gone submit'
		launch_manager
	done
	end_load
}

test_stopped_in_good_order_under_load() {
	begin_load
	for round in 1 2 3 4; do
		wait_until 60 "begun $((round * 1250))"
		stop manager
		expect_eq 0 "$STATUS" 'exit code of the manager'
		wait_until 20 'sessions_gone claim'
		start_manager
	done
	end_load
}

test_running_attempts_are_adopted_and_results_kept() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager
	start_ledger a --concurrency 40
	{ ledger_tasks 1 20 4000 && ledger_tasks 21 40 8000; } >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" >"$DIR/acknowledged.1"
	wait_until 20 '[ "$(ledger_names | wc -l)" -ge 40 ]'
	kill_manager
	# The short tasks end while no manager runs, and the long ones continue.
	wait_until 20 '[ "$(grep -c ^done "$LEDGER")" -ge 20 ]'
	expect_eq 'executing|40' "$(sql 'select status, count(*) from tasks group by 1')"
	start_manager
	wait_until 20 '[ "$(sql "select count(*) from task_history")" = 40 ]'
	expect_nothing_lost
	expect_nothing_doubled
	expect_first_attempts
	expect_journal_closed
	expect_eq 40 "$(grep -c ^done "$LEDGER")" 'ran to their end'
	stop_workers a
}

# Makes each claim wait until `quick_claims`.
slow_claims() {
	sql "create table public.gate as select true; grant select on public.gate to public;
		create function public.slow() returns trigger language plpgsql as 'begin
			while exists (select from public.gate) loop perform pg_sleep(0.1); end loop; return null; end';
		create trigger slow after insert on assignments for each statement execute function public.slow()" >/dev/null
}

quick_claims() {
	sql 'delete from public.gate'
	sql 'drop trigger slow on assignments' >/dev/null
}

claims_slowly() {
	[ "$(sql "select wait_event from pg_stat_activity where application_name = 'reeve-manager claim'")" = PgSleep ]
}

# Loses the answer of a claim of twenty tasks for a worker: the manager is killed while PostgreSQL executes the claim.
lose_an_answer() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager
	ledger_tasks 1 20 | reeve submit --bulk - >/dev/null
	slow_claims
	start_ledger a --concurrency 30
	wait_until 20 claims_slowly
	kill_manager
	quick_claims
	wait_until 20 '[ "$(sql "select count(*) from tasks where status = '\''executing'\''")" = 20 ]'
	expect_eq 0 "$(count_of "$LEDGER")" 'begun before'
}

expect_given_again() {
	wait_until 20 '[ "$(sql "select count(*) from task_history")" = 20 ]'
	expect_each_once 20
	expect_ended 20
	expect_first_attempts
	expect_journal_closed
	expect_eq 1 "$(sql 'select count(*) from assignments')" 'claims'
	stop_workers a
}

# The tasks are delivered again to the worker for which they were claimed.
test_an_answer_that_was_lost_is_given_again() {
	lose_an_answer
	start_manager
	wait_until 20 '[ "$(sql "select count(*) from task_history")" = 20 ]'
	expect_eq 20 "$(reeve stats --json | jq '.counters[] | select(.name == "redelivered").value')" 'given again'
	expect_given_again
}

# The same with a manager that has not read their queue and type yet.
test_what_is_given_again_is_complete() {
	lose_an_answer
	hold routes 'lock table routes in access exclusive mode'
	launch_manager
	wait_until 20 'last_ran lookup "Returns what Fetches were assigned"'
	let_go routes
	expect_given_again
}

# The answer is lost with its database connection, and the manager continues.
test_a_claim_whose_connection_broke_is_asked_about() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager
	ledger_tasks 1 20 | reeve submit --bulk - >/dev/null
	slow_claims
	start_ledger a --concurrency 30
	wait_until 20 claims_slowly
	sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'reeve-manager claim'" >/dev/null
	quick_claims
	wait_until 20 '[ "$(sql "select count(*) from task_history")" = 20 ]'
	expect_each_once 20
	expect_first_attempts
	expect_journal_closed
	stop_workers a
}

# Workers and submitters that know both managers continue with the other one. A claim of a killed manager may still
# complete in PostgreSQL, for a Fetch that has moved to the other manager, and no manager delivers its tasks. The
# worker's next heartbeat shows that they never arrived, and they are requeued, which uses up no attempt.
test_one_of_two_managers_is_killed() {
	local options=(--lease 20s --heartbeat 2s --expiry-grace 25s)
	LEDGER=$DIR/ledger
	start_postgres
	start_manager one "${options[@]}"
	start_manager two "${options[@]}"
	export REEVE_MANAGER=${URL[one]},${URL[two]}
	start_ledger a --concurrency 8
	start_ledger b --concurrency 8 --prefetch 50
	start submitter submit_steadily 1 40 0 --timeout 10s
	ledger_tasks 1000001 1006000 4 | reeve submit --bulk - --timeout 10s >"$DIR/acknowledged.1000001"
	at=0
	for victim in one two one two; do
		wait_until 60 "begun $((at += 1000))"
		kill_manager $victim
		wait_until 60 "begun $((at += 300))" # without it
		start_manager $victim "${options[@]}"
		export REEVE_MANAGER=${URL[one]},${URL[two]}
	done
	touch "$DIR/enough"
	ended submitter 60
	expect_eq '' "$(cat "$DIR/log/submitter.log")" 'what the submitter was told'
	wait_until 60 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_nothing_lost
	expect_nothing_doubled
	expect_journal_closed
	sql "select (extract(epoch from token) * 1000000)::bigint from task_attempts where outcome = 'requeued'" | sort >"$DIR/taken"
	expect_eq "$(count_of "$DIR/taken")" "$(sql "select count(*) from task_attempts")" 'attempts that did not end their task'
	expect_eq '' "$(awk '{ print $3 }' "$LEDGER" | sort | comm -12 - "$DIR/taken")" 'requeued, although they had begun'
	expect_eq 0 "$(sql 'select count(*) from task_history where attempt > 1')" 'attempts that counted twice'
	stop_workers a b
}

# It does not know the database's clock yet. The id that it gives a call has the time of today all the same: it counts when
# the clock is known, and for a repeated call.
test_a_manager_that_has_just_started_takes_calls_by_http() {
	local url answer
	start_postgres
	url=http://127.0.0.1:$(free_port)
	launch_clockless --http "$url"
	submit() {
		curl -sS -m 20 -H 'content-type: application/json' -H 'idempotency-key: early' -d '{"tasks":[{"type":"nothing"}]}' \
			"$url/reeve.v1.TaskService/Submit"
	}
	wait_until 30 'submit >"$DIR/answer" 2>/dev/null'
	answer=$(cat "$DIR/answer")
	expect_match '"id":' "$answer"
	let_go heartbeats
	wait_until 20 '[ "$(sql "select max(hb_seq) from managers")" -gt 1 ]'
	expect_eq "$answer" "$(submit)"
	expect_eq 1 "$(sql 'select count(*) from tasks')"
}

run_tests
