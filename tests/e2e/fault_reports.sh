#!/usr/bin/env bash
# Reports and heartbeats that arrive late, twice, at two managers, or after newer ones change nothing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"

# ---- reports ----

# The worker's report and its heartbeats are delayed until another worker runs its task, or has completed it.
late_report() { # during|after
	start_postgres
	start_proxy network manager
	start_manager "${CALM[@]}"
	REEVE_MANAGER=${PROXY[network]} start_fault_exec a --concurrency 1
	submit_scripts script 1 "until=$DIR/go"
	wait_until 20 '[ "$(starts)" = 1 ]'
	tell network hold up
	held=$(now_us)
	touch "$DIR/go"
	wait_until 20 'grep -q \"completed\" "$LEDGERS/a.handler"'
	rm "$DIR/go"
	start_fault_exec b --concurrency 1
	wait_until 20 '[ "$(starts b)" = 1 ]'
	expect_within "$BACK_US" "$held" "$(now_us)" 'begun by the other'
	[ "$1" = during ] || { touch "$DIR/go" && wait_until 20 all_ended; }
	before=$(reeve show "${IDS[0]}" --json)
	tell network pass
	wait_event 20 "${IDS[0]}" late_result
	touch "$DIR/go"
	# It may come over both the old connection and a new one.
	expect_eq a "$(event_field "${IDS[0]}" late_result worker | sort -u)"
	wait_until 30 all_ended
	[ "$1" = during ] || expect_eq "$before" "$(reeve show "${IDS[0]}" --json)"
	expect_eq 'b 2 completed' "$(field "${IDS[0]}" worker) $(field "${IDS[0]}" attempt) $(field "${IDS[0]}" status)"
	expect_eq 'lost 1' "$(outcomes)"
	# The worker is back as another incarnation.
	stop b
	submit_scripts more 1 run=20
	wait_until 30 all_ended
	conclude a
}

test_a_report_that_comes_while_another_runs_the_task() {
	late_report during
}

test_a_report_that_comes_after_another_has_done_the_task() {
	late_report after
}

# One report is duplicated on its way. One is copied and one is intercepted; both go to both managers at the same
# moment, and once more when all tasks have ended. The worker resends the intercepted one, too.
test_the_same_report_comes_twice_and_to_two_managers() {
	start_postgres
	start_proxy network one
	start_manager one "${LONG[@]}"
	start_manager two "${LONG[@]}"
	REEVE_MANAGER=${PROXY[network]} start_fault_exec a --concurrency 1
	tell network message double /Report
	submit_scripts doubled 1 run=50
	wait_until 20 all_ended
	expect_eq 1 "$(applied network)"
	tell network message copy /Report "$DIR/well"
	submit_scripts well 1 run=50
	wait_until 20 all_ended
	tell network message take /Report "$DIR/badly"
	submit_scripts badly 1 'run=50 fail=1' '"retry":{"base_ms":3600000,"max_ms":3600000}'
	wait_until 20 '[ -e "$DIR/badly" ]'
	brought 1
	expect_eq 'failed|1' "$(sql 'select status, attempt from tasks')"
	tell network cut
	reeve retry "${IDS[0]}" >/dev/null
	wait_until 30 all_ended
	brought 2
	expect_eq 'failed 1' "$(outcomes)"
	expect_eq '1 1 2' "$(sql 'select attempt from task_history order by 1' | xargs)"
	expect_eq 0 "$(sql "select count(*) from task_events where event = 'late_result'")"
	conclude a
}

brought() { # ROUND: everything to both at once
	local name
	for name in well badly; do
		start "one-$name-$1" send "$DIR/$name" "${URL[one]}"
		start "two-$name-$1" send "$DIR/$name" "${URL[two]}"
	done
	for name in well badly; do
		for manager in one two; do
			ended "$manager-$name-$1"
			expect_match '^0 ' "$(cat "$DIR/log/$manager-$name-$1.log")" "what $manager said"
		done
	done
}

# ---- heartbeats ----

# Old heartbeats are answered, but change neither the lease nor the worker's attempts. The first was sent before the
# worker had any.
test_a_heartbeat_delayed_past_newer_ones() {
	start_postgres
	start_proxy network one
	start_manager one "${CALM[@]}"
	start_manager two "${CALM[@]}"
	REEVE_MANAGER=${PROXY[network]} start_fault_exec a --concurrency 2
	tell network message take /Heartbeat "$DIR/old"
	wait_until 20 '[ -e "$DIR/old" ]'
	submit_scripts script 2 "until=$DIR/go"
	wait_until 20 '[ "$(starts)" = 2 ]'
	for n in 1 2 3; do
		tell network message late /Heartbeat 900
		wait_until 20 "[ \"\$(applied network)\" = $((n + 1)) ]"
		sequence=$(sql 'select hb_seq from workers')
		for manager in one two; do
			expect_match '^(0|10) ' "$(send "$DIR/old" "${URL[$manager]}")"
			expect [ "$(sql 'select hb_seq from workers')" -ge "$sequence" ]
		done
		wait_until 20 "[ \"\$(sql 'select hb_seq from workers')\" -gt $sequence ]" # newer ones pass
	done
	touch "$DIR/go"
	wait_until 20 all_ended
	expect_eq '' "$(outcomes)"
	expect_eq 4 "$(applied network)" 'heartbeats delayed'
	expect_eq '1 f' "$(sql 'select count(*), bool_or(lost) from workers' | tr '|' ' ')"
	conclude a
}

# Nor do old heartbeats keep a dead worker alive.
test_replayed_heartbeats_keep_no_dead_worker_alive() {
	start_postgres
	start_proxy network one
	start_manager one "${SHORT[@]}"
	start_manager two "${SHORT[@]}"
	REEVE_MANAGER=${PROXY[network]} start_fault_exec a --concurrency 2
	submit_scripts script 2 "until=$DIR/go"
	wait_until 20 '[ "$(starts)" = 2 ]'
	for n in 1 2; do
		tell network message copy /Heartbeat "$DIR/old$n"
		wait_until 20 "[ -e '$DIR/old$n' ]"
	done
	kill_now a
	start_fault_exec c --concurrency 2
	start replay respawn "$DIR/enough" replay_once
	wait_until 30 '[ "$(starts c)" = 2 ]'
	expect_within "$BACK_US" "$KILLED_US" "$(jq -s 'map(.t) | min' "$LEDGERS/c.handler")" 'its tasks begun elsewhere'
	touch "$DIR/enough" "$DIR/go"
	ended replay
	wait_until 20 all_ended
	expect_eq 'lost 2' "$(outcomes)"
	conclude c
}

replay_once() {
	local manager n
	for manager in one two; do
		for n in 1 2; do
			send "$DIR/old$n" "${URL[$manager]}"
		done
	done
}


run_tests
