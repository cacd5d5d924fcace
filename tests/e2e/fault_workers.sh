#!/usr/bin/env bash
# Workers that die or freeze: other workers do their tasks in time, and none of their handlers outlives its lease.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"

begin() {
	start_postgres
	start_manager "${SHORT[@]}"
}

# Starts two workers, and submits four tasks for each, which run until `go` exists.
begin_two() { # exec|function
	begin
	start_fault_"$1" a --concurrency 4
	start_fault_"$1" b --concurrency 4
	TYPE=fault-$1 submit_scripts script 8 "until=$DIR/go"
	wait_until 20 '[ "$(starts)" = 8 ]'
}

# Expects that `b` finished in time what `a` ran at the time of the fault, SINCE_US, and that no handler of `a` gave a
# sign of life after its lease, which began before.
expect_taken_over() { # SINCE_US
	local held
	wait_until 20 'worker_lost a'
	touch "$DIR/go"
	wait_until 20 all_ended
	mapfile -t held < <(running_of a "$1")
	expect_eq 4 "${#held[@]}" 'held by the worker'
	expect_within "$LEASE_US" "$1" "$(last_sign a)" "the last sign of the worker's handlers"
	expect_within "$BACK_US" "$1" "$(last_end "${held[@]}")" 'its tasks finished by the other'
	expect_eq 'lost 4' "$(outcomes)"
	expect_eq '1 4|2 4' "$(sql 'select attempt, count(*) from task_history group by 1 order by 1' | tr '|\n' ' |' | sed 's/|$//')"
}

killed() { # exec|function
	begin_two "$1"
	kill_now a
	expect_taken_over "$KILLED_US"
	expect_eq '' "$(jq -r 'select(.ev == "start").pid' "$LEDGERS/a.handler" | while read -r p; do birth "$p"; done)" \
		'handlers that still run'
	for id in "${IDS[@]}"; do
		[ "$(sql "select attempt from task_history where task_id = $id")" = 2 ] || continue
		expect_match 'its worker a was lost|lost; last heartbeat of worker a' "$(event_field "$id" reclaimed note)"
	done
	conclude b
}

test_a_worker_is_killed_in_the_middle_of_programs() {
	killed exec
}

test_a_worker_is_killed_in_the_middle_of_functions() {
	killed function
}

# The watchdog kills the programs while the worker is frozen. When the worker resumes, its lease has ended, and it
# registers again.
test_a_worker_with_programs_freezes_past_its_lease() {
	begin_two exec
	signal a STOP
	frozen=$(now_us)
	expect_taken_over "$frozen"
	before=$(worker_incarnation a)
	signal a CONT
	wait_until 20 "[ \"\$(worker_incarnation a)\" -gt $before ]"
	stop b
	submit_scripts again 4 run=50
	wait_until 20 all_ended
	expect_eq 4 "$(sql "select count(*) from task_history h join workers w on w.id = h.worker_id
		where h.details like 'again%' and w.name = 'a' and h.attempt = 1")"
	conclude a
}

# Functions cannot be killed alone: the watchdog kills the worker.
test_a_worker_with_functions_freezes_past_its_lease() {
	begin_two function
	signal a STOP
	frozen=$(now_us)
	expect_taken_over "$frozen"
	ended a 20
	expect_eq 137 "$STATUS" 'exit code of the worker'
	conclude b
}

# A freeze that is shorter than the lease costs nothing.
test_a_worker_freezes_for_a_moment() {
	local SHORT=("${CALM[@]}")
	begin_two exec
	for round in 1 2; do
		signal a STOP
		sleep 1.4
		signal a CONT
		sleep 0.5
	done
	touch "$DIR/go"
	submit_scripts more 8 run=200
	wait_until 20 all_ended
	expect_eq '' "$(outcomes)"
	expect_eq 2 "$(sql 'select count(*) from workers')"
	conclude a b
}

run_tests
