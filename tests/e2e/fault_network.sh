#!/usr/bin/env bash
# The network loses everything in one direction, for long or for moments.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"

# The loss lasts so long that the worker must stop and another one takes over.
one_way() { # up|down
	start_postgres
	start_proxy network manager
	start_manager "${SHORT[@]}"
	REEVE_MANAGER=${PROXY[network]} start_fault_exec a --concurrency 4
	submit_scripts script 4 "until=$DIR/go"
	wait_until 10 '[ "$(starts)" = 4 ]'
	start_fault_exec b --concurrency 4
	tell network drop "$1"
	cut=$(now_us)
	wait_until 15 '[ "$(starts b)" = 4 ]'
	expect_within "$BACK_US" "$cut" "$(now_us)" 'begun elsewhere'
	expect_within "$LEASE_US" "$cut" "$(last_sign a)" 'the last sign of its handlers'
	touch "$DIR/go"
	wait_until 15 all_ended
	# Calls that arrived may have reported the end of the lease before the worker was lost.
	expect_match '^(lost 4|lease_ended 4|lease_ended [123] lost [123])$' "$(outcomes)"
	tell network pass
	wait_until 10 '[ "$(sql "select count(*) from workers where name = '\''a'\'' and not lost")" = 1 ]'
	stop b
	submit_scripts more 4 run=50
	wait_until 10 all_ended
	conclude a
}

# Otherwise it would count as alive, and its name as in use, until its lease ends.
# measures time
test_a_worker_that_stops_while_it_registers_leaves() {
	start_postgres
	start_proxy network manager
	start_manager "${CALM[@]}"
	tell network delay down 400
	start idle "$REEVE_BIN/reeve-worker" --manager "${PROXY[network]}" --handlers "$(fault_handlers)" --name idle
	wait_until 10 '[ "$(sql "select count(*) from workers")" = 1 ]'
	stop idle
	expect_eq 0 "$STATUS" 'exit code'
	expect_eq 'left' "$(reeve worker list --all --json | jq -r .mode)"
	# Without an answer it does not wait for long.
	start_proxy silent manager
	tell silent drop down
	start deaf "$REEVE_BIN/reeve-worker" --manager "${PROXY[silent]}" --handlers "$(fault_handlers)" --name deaf
	sleep 0.5
	begin=$(ms)
	stop deaf
	expect [ $(($(ms) - begin)) -lt 3000 ]
}

test_answers_are_lost_for_longer_than_a_lease() {
	one_way down
}

test_calls_are_lost_for_longer_than_a_lease() {
	one_way up
}

# Short losses under load: lost calls are repeated, and nothing is done twice.
test_moments_without_answers_or_calls() {
	start_postgres
	start_proxy workers manager
	start_proxy submitters manager
	start_manager --lease 6s --heartbeat 500ms --expiry-grace 8s --fetch-wait 500ms
	REEVE_MANAGER=${PROXY[workers]} start_fault_exec a --concurrency 8
	REEVE_MANAGER=${PROXY[workers]} start_fault_function b --concurrency 8 --prefetch 8
	REEVE_MANAGER=${PROXY[submitters]} start_submitter load --rate 40 --mix short=6,medium=3,long=1
	wait_until 20 '[ "$(starts)" -gt 30 ]'
	for round in 1 2 3; do
		for way in down up both; do
			tell workers drop $way
			tell submitters drop $way
			sleep 0.4
			tell workers pass
			tell submitters pass
			at=$(starts)
			wait_until 10 "[ \"\$(starts)\" -gt $((at + 20)) ]"
		done
	done
	end_load
	expect_eq '' "$(sql "select outcome, count(*) from task_attempts where outcome <> 'cancelled' group by 1")"
	expect_eq 2 "$(sql 'select count(*) from workers')" 'incarnations'
	conclude a b
}


run_tests
