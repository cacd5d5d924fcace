#!/usr/bin/env bash
# A worker's host is cut off from the network, and connected again.
# measures time
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"

# Starts a database, a manager, and the worker `far` on a host of its own. (The worker `near` is on this host.)
begin_far() { # [MANAGER'S OPTION…]
	start_host host
	start_postgres
	near_host host manager
	start_manager "$@" "${NEAR[@]}"
	start_fault_exec_on host far manager --concurrency 4
}

test_a_host_is_cut_off_for_half_a_lease() {
	begin_far --lease 8s --heartbeat 1s --expiry-grace 10s --fetch-wait 500ms
	for n in 1 2; do
		submit_scripts "short$n" 2 run=1000 '"max_attempts":1'
		submit_scripts "long$n" 2 run=6000 '"max_attempts":1'
		wait_until 10 "[ \"\$(starts)\" = $((n * 4)) ]"
		link host down
		cut=$(now_us)
		wait_until 10 "[ \$(now_us) -ge $((cut + 4000000)) ]"
		link host up
		joined=$(now_us)
		wait_until 15 all_ended
		expect_within 4000000 "$joined" "$(now_us)" 'all reported'
	done
	expect_eq '' "$(outcomes)"
	expect_eq 'completed|1|8' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	expect_eq '1|f' "$(sql 'select count(*), bool_or(lost) from workers')"
	conclude far
}

test_a_host_is_cut_off_for_two_leases() {
	begin_far "${SHORT[@]}"
	submit_scripts script 4 run=2500
	wait_until 10 '[ "$(starts)" = 4 ]'
	start_fault_exec near --concurrency 4
	link host down
	cut=$(now_us)
	wait_until 10 "[ \$(now_us) -ge $((cut + 2 * LEASE_US)) ]"
	expect_within "$LEASE_US" "$cut" "$(last_sign far)" "the last sign of its handlers"
	wait_until 10 all_ended
	expect_within $((BACK_US + 2000000)) "$cut" "$(last_end "${IDS[@]}")" 'done elsewhere'
	expect_eq 'lost 4' "$(outcomes)"
	link host up
	joined=$(now_us)
	wait_until 10 '[ "$(sql "select count(*) from workers where name = '\''far'\'' and not lost")" = 1 ]'
	expect_within 5000000 "$joined" "$(now_us)" 'it is back'
	stop near
	submit_scripts more 4 run=50
	wait_until 10 all_ended
	expect_eq 'far|4' "$(sql "select w.name, count(*) from task_history h join workers w on w.id = worker_id
		where details like 'more%' group by 1")"
	conclude far
}

run_tests
