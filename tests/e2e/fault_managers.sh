#!/usr/bin/env bash
# Managers that die, freeze and come back under load: nothing runs twice, and nothing waits long.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"

GOOD='short=6,medium=3,long=1' # tasks that end well

# Starts two workers and a steady load of tasks that succeed, at $REEVE_MANAGER.
start_load() {
	start_fault_exec a --concurrency 8
	start_fault_function b --concurrency 24
	start_submitter load --rate 20 --mix "$GOOD" --cancel 0
	wait_until 20 '[ "$(starts)" -gt 20 ]'
}

# Expects that every task succeeded in its first attempt and began once, and that no worker registered again. What a
# manager had claimed, and could not give away any more, is requeued.
expect_all_well() {
	end_load
	expect_eq '' "$(sql "select task_id, outcome, error from task_attempts where outcome <> 'requeued' limit 5")" 'outcomes'
	expect_eq "$(sql 'select count(*) from task_history')" "$(starts)" 'starts'
	expect_first_attempts
	expect_eq completed "$(sql 'select distinct status from task_history')"
	expect_eq 2 "$(sql 'select count(*) from workers')" 'incarnations'
	conclude a b
}

test_restarted_under_load_and_what_runs_is_adopted() {
	start_postgres
	start_manager "${LONG[@]}"
	start_load
	for round in 1 2; do
		sleep 1
		kill_now manager
		running=$(running_of a "$KILLED_US" | wc -l)
		start_manager "${LONG[@]}"
		note "adopts $running programs"
		back_after_restart "$KILLED_US" "$(now_us)" 15
	done
	expect_fastest_back
	expect_all_well
}

test_one_of_two_is_killed_and_the_other_takes_its_shards_over() {
	start_postgres
	start_manager one "${LONG[@]}"
	start_manager two "${LONG[@]}"
	export REEVE_MANAGER=${URL[one]},${URL[two]}
	start_load
	for victim in one two; do
		sleep 1
		kill_now $victim
		sleep 1
		wait_until 30 "all_begun $(now_us)"
		expect_within "$BACK_US" 0 "$(longest_wait "$KILLED_US")" "the longest that a task waited after $victim was killed"
		start_manager $victim "${LONG[@]}"
		export REEVE_MANAGER=${URL[one]},${URL[two]}
	done
	expect_all_well
}

# The manager resumes although much has changed without it, and reclaims nothing from any worker. Workers move to the
# other one when its pings have failed, which must be well within a lease.
test_one_of_two_freezes_past_the_leases() {
	start_postgres
	start_manager one "${CALM[@]}"
	start_manager two "${CALM[@]}"
	export REEVE_MANAGER=${URL[one]},${URL[two]}
	start_load
	signal one STOP
	frozen=$(now_us)
	sleep 7
	wait_until 30 "all_begun $(now_us)"
	expect_within "$BACK_US" 0 "$(longest_wait "$frozen")" 'the longest that a task waited while it was frozen'
	signal one CONT
	sleep 1
	expect_all_well
}

# No manager can renew a lease: the handlers are stopped when it ends, at no cost, and no worker is lost when the
# manager resumes.
test_the_only_one_freezes_past_the_leases() {
	start_postgres
	start_manager "${SHORT[@]}"
	start_fault_exec a --concurrency 4
	start_fault_function b --concurrency 4
	submit_scripts program 4 "until=$DIR/go" '"max_attempts":1'
	TYPE=fault-function submit_scripts function 4 "until=$DIR/go" '"max_attempts":1'
	wait_until 20 '[ "$(starts)" = 8 ]'
	signal manager STOP
	frozen=$(now_us)
	sleep 4.5
	for name in a b; do
		expect_within "$LEASE_US" "$frozen" "$(last_sign $name)" "the last sign of handlers of $name"
	done
	touch "$DIR/go"
	signal manager CONT
	back=$(now_us)
	wait_until 30 all_ended
	expect_within "$BACK_US" "$back" "$(last_end $(sql 'select task_id from task_history'))" 'done afterwards'
	expect_eq 'lease_ended 8' "$(outcomes)"
	expect_eq 'completed|1|8' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	expect_eq 0 "$(sql "select count(*) from worker_events where event = 'lost'")"
	conclude a b
}

# One manager is killed, one is cut off from the database; the third goes on alone.
test_three_managers_and_one_is_left() {
	start_postgres
	start_proxy database postgres
	start_manager one "${CALM[@]}"
	start_manager two "${CALM[@]}"
	CONNINFO=${PROXY[database]} start_manager three "${CALM[@]}"
	export REEVE_MANAGER=${URL[one]},${URL[two]},${URL[three]}
	start_load
	kill_now one
	tell database drop both
	cut=$(now_us)
	sleep 1
	wait_until 30 "all_begun $(now_us)"
	expect_within "$BACK_US" 0 "$(longest_wait "$cut")" 'the longest that a task waited while one was left'
	tell database pass
	start_manager one "${CALM[@]}"
	sleep 1
	expect_all_well
}

# Its sockets stay open, and so does its transaction, which has locked a batch that also has tasks at the other manager.
test_a_host_dies_within_a_transaction_and_others_go_on() {
	local tries=0
	start_postgres
	start_proxy database postgres
	start_manager one "${CALM[@]}"
	CONNINFO=${PROXY[database]} start_manager two "${CALM[@]}"
	export REEVE_MANAGER=${URL[one]}
	reeve queue set grouped --batches yes >/dev/null
	start_load
	start_submitter shared --rate 10 --mix medium=1 --queue grouped --cancel 0 --types fault-exec=1
	tell database delay both 10
	REEVE_MANAGER=${URL[two]} start_submitter grouped --rate 40 --mix short=1 --threads 6 --queue grouped --cancel 0 --types fault-exec=1
	sleep 1
	until
		tell database drop both
		sleep 0.3
		[ "$(sql "select count(*) from pg_stat_activity where state = 'idle in transaction' and application_name like 'reeve-manager %'
			and state_change < clock_timestamp() - interval '100 ms'")" -gt 0 ]
	do
		tell database pass
		tell database delay both 10
		tries=$((tries + 1))
		[ $tries -lt 40 ] || fail 'no transaction was ever open'
		sleep 0.3
	done
	kill_now two
	sleep 7
	wait_until 30 "all_begun $(now_us)"
	expect_within "$BACK_US" 0 "$(longest_wait "$KILLED_US")" 'the longest that a task of another waited'
	expect_eq 0 "$(sql "select count(*) from worker_events where event = 'lost'")" 'workers lost'
	tell database pass
	start_manager two "${CALM[@]}"
	end_load load shared grouped
	conclude a b
}

run_tests
