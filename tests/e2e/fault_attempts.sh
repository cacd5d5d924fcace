#!/usr/bin/env bash
# What is a task's own fault costs it an attempt, and what is nobody's does not: tasks that kill their worker, drains, lost
# answers, outages.
# shellcheck disable=SC1091,SC2016,SC2034,SC2153,SC2154
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"

begin() {
	start_postgres
	start_manager "${SHORT[@]}"
}

# ---- poison ----

story_a_function_that_crashes_its_worker_again_and_again_ends_dead() {
	begin
	start supervisor respawn "$DIR/enough" "$REEVE_BIN/fault-worker" --manager "$REEVE_MANAGER" --ledger "$DIR/ledgers" --name p
	fault_folder
	id=$(submit_deed poison-1 'run=20 then=crash' --type fault-function --max-attempts 3)
	wait_status 40 "$id" dead
	expect_eq 3 "$(field "$id" attempt)"
	expect_match '^submitted claimed .*claimed .*claimed .*dead' "$(events "$id")"
	expect_eq 3 "$(event_field "$id" claimed worker | wc -l)"
	expect_eq 3 "$(event_field "$id" reclaimed note | grep -c 'worker p')" 'reclaimed, and told why'
	# Whatever else is there is none the worse.
	healthy=$(submit_deed healthy-1 run=20 --type fault-function)
	wait_status 20 "$healthy" completed
	touch "$DIR/enough"
	kill "$(sql "select pid from workers where name = 'p' order by id desc limit 1")"
	ended supervisor
	check_faults --one-clock
}

story_a_program_that_kills_its_worker_again_and_again_ends_dead() {
	begin
	default_handlers
	start supervisor respawn "$DIR/enough" "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" --handlers "$HANDLERS" --name p
	id=$(reeve submit sh 'kill -s KILL "$(sed -n "s/^PPid:\t//p" /proc/$PPID/status)"; sleep 10' --max-attempts 2)
	wait_status 40 "$id" dead
	expect_eq '2 lost' "$(field "$id" attempt) $(field "$id" error_code)"
	expect_eq 2 "$(event_field "$id" reclaimed note | grep -c 'worker p')" 'reclaimed, and told why'
	wait_until 20 'reeve submit nothing --wait'
	touch "$DIR/enough"
	kill "$(sql "select pid from workers where name = 'p' order by id desc limit 1")"
	ended supervisor
}

# ---- what costs no attempt: each task here may have one ----

story_a_drain_costs_no_attempt() {
	begin
	start_fault_exec a --concurrency 4 --drain-timeout 200ms
	submit_deeds deed 4 run=1500 '"max_attempts":1'
	wait_until 10 '[ "$(starts)" = 4 ]'
	stop a
	expect_eq 0 "$STATUS"
	start_fault_exec b --concurrency 4
	wait_until 10 all_ended
	expect_eq 'returned 4' "$(outcomes)"
	expect_eq 'completed|1|4' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	conclude b
}

# The tasks were claimed for a Fetch whose answer vanished, and then the connection; and so again when they were given again.
story_a_lost_answer_costs_no_attempt() {
	start_postgres
	start_proxy network manager
	start_manager "${SHORT[@]}" --park 10s
	tell network answer lose WorkerService/Fetch 3
	REEVE_MANAGER=${PROXY[network]} start_fault_exec a --concurrency 4
	submit_deeds deed 4 run=50 '"max_attempts":1'
	for n in 1 2 3; do
		wait_until 5 "[ \"\$(applied network)\" = $n ]"
		expect_eq 'executing|1|4' "$(sql 'select status, attempt, count(*) from tasks group by 1, 2')"
		tell network cut
	done
	wait_until 10 all_ended
	expect_eq '' "$(outcomes)"
	expect_eq 'completed|1|4' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	expect_eq '1|1' "$(sql 'select (select count(*) from workers), (select count(*) from assignments)')"
	conclude a
}

# Its handlers are stopped with the lease, which nobody could renew; what had ended meanwhile is kept and reported.
story_an_outage_of_the_database_longer_than_two_leases_costs_no_attempt() {
	begin
	start_fault_exec a --concurrency 6
	submit_deeds short 2 run=600 '"max_attempts":1'
	short=("${IDS[@]}")
	submit_deeds long 4 run=2500 '"max_attempts":1,"timeout":"3s"'
	wait_until 10 '[ "$(starts)" = 6 ]'
	outage=$(now_us)
	stop_postgres immediate
	# Much longer than two leases: the attempts are past their expiry, and whoever was refused again and again rests for long.
	wait_until 20 "[ \$(now_us) -gt $((outage + 6 * LEASE_US + 300000)) ]"
	expect_within $((LEASE_US + 300000)) "$outage" "$(last_sign a)" 'the last sign of handlers in the outage'
	start_postgres
	back=$(now_us)
	wait_until 10 all_ended
	expect_within $((2500000 + 2000000)) "$back" "$(last_end "${IDS[@]}")" 'done after the outage'
	expect_eq 'completed|1|6' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	expect_eq 'lease_ended 4' "$(outcomes)"
	expect_eq 6 "$(last_end "${short[@]}" >/dev/null; cat "$LEDGERS"/*.handler | grep -c '"outcome":"completed"')"
	expect_eq 0 "$(sql 'select count(*) from workers where lost and gone_at is null')"
	conclude a
}

# A worker made by hand, that fetches and says with its next heartbeat that nothing arrived.
call() { # METHOD HEX…
	printf "$(printf '\\x%s' "${@:2}")" | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" "/reeve.v1.WorkerService/$1"
}

story_what_never_arrives_is_taken_back_and_counts_the_third_time_in_a_row() {
	start_postgres
	start_manager # leases are long: nothing is lost here
	call Register 0a 03 72 61 77 20 01 >/dev/null # "raw", one slot
	incarnation=$(printf %02x "$(worker_incarnation raw)")
	id=$(submit_deed deed-1 run=50 --max-attempts 2 --retry-base 10ms)
	for n in 1 2 3; do
		expect_match '^0 ' "$(call Fetch 08 "$incarnation" 10 0$n 18 01 38 b8 17)" # parked for 3 s at most
		expect_eq executing "$(sql 'select status from tasks')"
		begun=$(now_us)
		expect_match '^0 ' "$(call Heartbeat 08 "$incarnation" 10 0$n 20 0$n)"
		wait_until 5 "[ \"\$(sql 'select status from tasks')\" != executing ]"
		expect_within 2000000 "$begun" "$(now_us)" 'taken back'
		[ $n = 3 ] || expect_eq 'queued|0' "$(sql 'select status, attempt from tasks')"
	done
	expect_eq 'failed|1' "$(sql 'select status, attempt from tasks')"
	expect_eq 'taken_back 3' "$(outcomes)"
	start_fault_exec a
	wait_status 10 "$id" completed
	expect_eq 2 "$(field "$id" attempt)"
	expect_eq 'claimed taken_back claimed taken_back claimed taken_back claimed' "$(events "$id" | grep -oE 'claimed|taken_back' | xargs)"
	conclude a
}


run_stories
