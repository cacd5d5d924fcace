#!/usr/bin/env bash
# A task's own failure costs it an attempt, and other failures do not: tasks that kill their worker, drains, lost
# answers, outages.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/raw.bash"

begin() {
	start_postgres
	start_manager "${SHORT[@]}"
}

# ---- tasks that kill their worker ----

test_a_function_that_crashes_its_worker_again_and_again_ends_dead() {
	begin
	start supervisor respawn "$DIR/enough" "$REEVE_BIN/fault-worker" --manager "$REEVE_MANAGER" --ledger "$DIR/ledgers" --name p
	fault_folder
	id=$(submit_script poison-1 'run=20 then=crash' --type fault-function --max-attempts 3)
	wait_status 40 "$id" dead
	expect_eq 3 "$(field "$id" attempt)"
	expect_match '^submitted claimed .*claimed .*claimed .*dead' "$(events "$id")"
	expect_eq 3 "$(event_field "$id" claimed worker | wc -l)"
	expect_eq 3 "$(event_field "$id" reclaimed note | grep -c 'worker p')" 'reclaimed, and told why'
	# Other tasks are not affected.
	healthy=$(submit_script healthy-1 run=20 --type fault-function)
	wait_status 20 "$healthy" completed
	touch "$DIR/enough"
	kill "$(sql "select pid from workers where name = 'p' order by id desc limit 1")"
	ended supervisor
	check_faults --one-clock
}

test_a_program_that_kills_its_worker_again_and_again_ends_dead() {
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

# ---- faults that cost no attempt: the limit of each task here is one ----

test_a_drain_costs_no_attempt() {
	begin
	start_fault_exec a --concurrency 4 --drain-timeout 200ms
	submit_scripts script 4 "until=$DIR/go" '"max_attempts":1'
	wait_until 20 '[ "$(starts)" = 4 ]'
	stop a
	expect_eq 0 "$STATUS"
	touch "$DIR/go"
	start_fault_exec b --concurrency 4
	wait_until 20 all_ended
	expect_eq 'returned 4' "$(outcomes)"
	expect_eq 'completed|1|4' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	conclude b
}

# The answer to the Fetch for which the tasks were claimed is lost, and then the connection; the same happens to the
# next two answers with these tasks.
test_a_lost_answer_costs_no_attempt() {
	start_postgres
	start_proxy network manager
	start_manager "${LONG[@]}" --fetch-wait 10s
	tell network answer lose WorkerService/Fetch 3
	REEVE_MANAGER=${PROXY[network]} start_fault_exec a --concurrency 4
	submit_scripts script 4 run=50 '"max_attempts":1'
	for n in 1 2 3; do
		wait_until 20 "[ \"\$(applied network)\" = $n ]"
		expect_eq 'executing|1|4' "$(sql 'select status, attempt, count(*) from tasks group by 1, 2')"
		tell network cut
	done
	wait_until 20 all_ended
	expect_eq '' "$(outcomes)"
	expect_eq 'completed|1|4' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	expect_eq '1|1' "$(sql 'select (select count(*) from workers), (select count(*) from assignments)')"
	conclude a
}

# The lease cannot be renewed, so the handlers are stopped when it ends; results of those that ended before are kept and
# reported.
test_an_outage_of_the_database_longer_than_two_leases_costs_no_attempt() {
	begin
	start_fault_exec a --concurrency 6
	submit_scripts short 2 run=600 '"max_attempts":1'
	short=("${IDS[@]}")
	submit_scripts long 4 "until=$DIR/go" '"max_attempts":1,"timeout":"5s"'
	wait_until 20 '[ "$(starts)" = 6 ]'
	stop_postgres immediate
	outage=$(now_us)
	# Much longer than two leases: the attempts are past their expiry, and callers that were refused repeatedly back off
	# for long.
	wait_until 20 "[ \$(now_us) -gt $((outage + 6 * LEASE_US + 300000)) ]"
	expect_within $((LEASE_US + 300000)) "$outage" "$(last_sign a)" 'the last sign of handlers in the outage'
	touch "$DIR/go"
	start_postgres
	back=$(now_us)
	wait_until 30 all_ended
	expect_within "$BACK_US" "$back" "$(last_end "${IDS[@]}")" 'done after the outage'
	expect_eq 'completed|1|6' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	expect_eq 'lease_ended 4' "$(outcomes)"
	expect_eq 6 "$(last_end "${short[@]}" >/dev/null; cat "$LEDGERS"/*.handler | grep -c '"outcome":"completed"')"
	expect_eq 0 "$(sql 'select count(*) from workers where lost and gone_at is null')"
	conclude a
}

# Makes a raw call for a simulated worker, which fetches and whose next heartbeat shows that nothing arrived.
call() { # METHOD HEX…
	raw_hex "WorkerService/$1" "${@:2}"
}

test_what_never_arrives_is_requeued_and_counts_the_third_time_in_a_row() {
	start_postgres
	start_manager # leases are long: nothing is lost here
	call Register 0a 03 72 61 77 20 01 >/dev/null # "raw", one slot
	incarnation=$(printf %02x "$(worker_incarnation raw)")
	id=$(submit_script script-1 run=50 --max-attempts 2 --retry-base 10ms)
	for n in 1 2 3; do
		expect_match '^0 ' "$(call Fetch 08 "$incarnation" 10 0$n 18 01 38 b8 17)" # parked for 3 s at most
		expect_eq executing "$(sql 'select status from tasks')"
		begun=$(now_us)
		expect_match '^0 ' "$(call Heartbeat 08 "$incarnation" 10 0$n 20 0$n)"
		wait_until 20 "[ \"\$(sql 'select status from tasks')\" != executing ]"
		expect_within 10000000 "$begun" "$(now_us)" 'requeued'
		[ $n = 3 ] || expect_eq 'queued|0' "$(sql 'select status, attempt from tasks')"
	done
	expect_eq 'failed|1' "$(sql 'select status, attempt from tasks')"
	expect_eq 'requeued 3' "$(outcomes)"
	start_fault_exec a
	wait_status 20 "$id" completed
	expect_eq 2 "$(field "$id" attempt)"
	expect_eq 'claimed requeued claimed requeued claimed requeued claimed' "$(events "$id" | grep -oE 'claimed|requeued' | xargs)"
	conclude a
}

# Prints the workers whose journals were searched, one line per statement, from PostgreSQL's log.
looks() {
	awk '/\] reeve-manager requeue LOG: / { look = / execute requeue_find:/ }
		/\] reeve-manager requeue DETAIL:  parameters: / && look { split($0, quoted, "\047"); print quoted[2] }' \
		"$DIR/log/postgres.log" | tr -d '{}'
}

# Twelve simulated workers have an attempt each, and their heartbeats come at once: at two it never arrived, five wait
# for their Fetch, five hold it. One statement checks all that have gathered, instead of twelve statements in sequence: one
# may begin in each 400 ms, which is how long its answer takes, from the first heartbeat to the last.
test_undelivered_tasks_of_many_workers_are_found_by_one_statement() {
	local n name incarnation id token held begun took calls=()
	start_postgres
	start_proxy away postgres
	start_manager manager --database "${PROXY[away]}" --lease 60s --heartbeat 20s --expiry-grace 70s
	for n in {1..12}; do echo '{"type": "none"}'; done | reeve submit --bulk - >/dev/null
	sql "alter system set log_min_duration_statement = 0"
	sql 'select pg_reload_conf()' >/dev/null
	for n in {10..21}; do
		name=w$n
		call Register 0a 03 $(printf %s "$name" | od -An -tx1) 20 01 >/dev/null
		incarnation=$(printf %02x "$(worker_incarnation "$name")")
		expect_match '^0 ' "$(call Fetch 08 "$incarnation" 10 01 18 01 38 b8 17)"
		calls+=("08 $incarnation 10 01 20 01")
	done
	for n in {2..6}; do calls[n]+=' 2a 01 01'; done
	for n in {7..11}; do
		read -r id token < <(sql "select id, (extract(epoch from last_updated) * 1000000)::bigint from tasks
			where worker_id = $((16#$(cut -d ' ' -f 2 <<<"${calls[n]}")))" | tr '|' ' ')
		calls[n]+=" $(message_field 3 "$(int_field 1 "$id")$(int_field 2 "$token")")"
	done
	tell away delay up 200
	tell away delay down 200
	begun=$(now_us)
	for n in {0..11}; do
		call Heartbeat ${calls[n]} >"$DIR/beat$n" &
		calls[n]=$!
	done
	wait "${calls[@]}"
	took=$(($(now_us) - begun))
	expect_eq 12 "$(cat "$DIR"/beat* | grep -c '^0 ')" 'heartbeats that were answered'
	wait_until 60 '[ "$(looks | tr , "\n" | sort -u | grep -c .)" = 12 ] && [ "$(outcomes)" = "requeued 2" ]'
	note "statements that looked, and at whom: $(looks | xargs); the heartbeats took $((took / 1000)) ms"
	expect [ "$(looks | grep -c .)" -le $((took / 400000 + 1)) ]
	tell away delay up 0
	tell away delay down 0
	expect_eq 'executing 10 queued 2' "$(sql 'select status, count(*) from tasks group by 1 order by 1' | tr '|' ' ' | xargs)"
	expect_eq 2 "$(sql "select count(*) from task_attempts a where a.outcome = 'requeued'
		and a.task_id in (select id from tasks where status = 'queued')")"
}

run_tests
