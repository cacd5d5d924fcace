#!/usr/bin/env bash
# PostgreSQL is killed, cuts connections, and leaves open whether a statement was executed, under load: nothing
# acknowledged is lost, and nothing is done twice.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"

ALL='short=50,medium=15,long=3,recover=8,fail=6,fatal=4,delayed=4'

start_load() { # [SUBMITTER'S OPTION…]
	start_fault_exec a --concurrency 8
	start_fault_function b --concurrency 8
	start_submitter load --rate 40 --mix "$ALL" "$@"
	wait_until 20 '[ "$(starts)" -gt 30 ]'
}

# Expects that attempts ended only by their handlers or by a cancel, no worker registered again, and no result was late.
expect_no_fault_felt() {
	expect_eq '' "$(sql "select outcome, count(*) from task_attempts where outcome not in ('failed', 'cancelled') group by 1")" \
		'attempts that ended otherwise'
	expect_eq 2 "$(sql 'select count(*) from workers')" 'incarnations'
	expect_eq 0 "$(sql "select count(*) from task_events where event = 'late_result'")" 'late results'
}

test_stopped_immediately_and_started_under_load() {
	start_postgres
	start_manager "${LONG[@]}"
	start_load
	for round in 1 2 3; do
		sleep 1
		stop_postgres immediate
		down=$(now_us)
		start_postgres
		back_after_restart "$down" "$(now_us)" 20
	done
	expect_fastest_back
	end_load
	expect_no_fault_felt
	conclude a b
}

test_every_roles_connection_is_cut_under_load() {
	start_postgres
	start_manager "${CALM[@]}"
	start_load
	mapfile -t roles < <(sql "select distinct split_part(application_name, ' ', 2) from pg_stat_activity
		where application_name like 'reeve-manager %'")
	expect [ ${#roles[@]} -ge 10 ]
	for round in 1 2 3; do
		for role in "${roles[@]}"; do
			expect_eq t "$(sql "select bool_and(pg_terminate_backend(pid)) from pg_stat_activity
				where application_name = 'reeve-manager $role'")" "cut $role"
			sleep 0.2
			wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where application_name = 'reeve-manager $role'\")\" = 1 ]"
		done
	done
	end_load
	expect_no_fault_felt
	conclude a b
}

# The connection breaks after the statement was executed and before its answer is read, or before the statement is
# executed. The manager cannot tell which.
test_the_outcome_of_a_statement_is_unknown() {
	start_postgres
	start_proxy database postgres
	CONNINFO=${PROXY[database]} start_manager "${CALM[@]}"
	start_load --cancel 30
	for round in 1 2; do
		for statement in submit submit_plain claim complete end_attempts heartbeat cancel_mark commit; do
			for what in answer message; do
				count=$(applied database)
				tell database $what lose $statement
				wait_until 10 "[ \"\$(applied database)\" -gt $count ]"
			done
		done
	done
	end_load
	expect_no_fault_felt
	conclude a b
}
# The same for a dead worker: for the statements that mark it lost and that end its attempts.
test_it_is_unknown_whether_a_dead_workers_tasks_were_requeued() {
	start_postgres
	start_proxy database postgres
	CONNINFO=${PROXY[database]} start_manager "${SHORT[@]}"
	start_fault_exec a --concurrency 4
	submit_scripts script 4 "until=$DIR/go"
	wait_until 20 '[ "$(starts)" = 4 ]'
	tell database message lose worker_lose
	tell database answer lose worker_lose
	tell database message lose end_attempts
	tell database answer lose end_attempts
	kill_now a
	touch "$DIR/go"
	start_fault_exec b --concurrency 4
	wait_until 30 all_ended
	expect_within "$BACK_US" "$KILLED_US" "$(last_end "${IDS[@]}")" 'done by another'
	expect_eq 4 "$(applied database)" 'statements lost'
	expect_eq 'lost 4' "$(outcomes)"
	expect_eq 1 "$(sql "select count(*) from worker_events where event = 'lost'")"
	conclude b
}

run_tests
