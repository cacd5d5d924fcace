#!/usr/bin/env bash
# A standby that does not answer, so that COMMITs wait, and a clock that is set: no live worker is marked lost, no dead
# one is kept, and nothing is acknowledged that is not safe.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"

# The worker dies with its Fetch open at `one`, which does not notice and claims a task for it. That COMMIT waits for
# the standby, while `two` marks the worker lost and finds nothing to reclaim: the claim is committed only later.
test_a_claim_is_committed_after_its_worker_was_lost() {
	start_postgres
	start_proxy network one
	CONNINFO="$CONNINFO options=-csynchronous_commit=local" start_manager two "${LONG[@]}"
	start_manager one "${LONG[@]}" --fetch-wait 15s
	tell network message copy /Fetch "$DIR/fetch"
	REEVE_MANAGER=${PROXY[network]} start_fault_exec a --concurrency 1
	wait_until 10 '[ -e "$DIR/fetch" ]' # a is registered before its Fetch is on its way
	tell network drop up
	stop a KILL
	standby_absent
	REEVE_MANAGER=${URL[two]} submit_scripts script 1 run=50
	wait_until 5 waits_for_standby\ claim
	sql "set synchronous_commit = local; update workers set lease_ms = 500 where name = 'a'" >/dev/null
	wait_until 10 'worker_lost a'
	expect_eq 'queued|0' "$(sql 'select status, attempt from tasks')"
	waits_for_standby claim || fail 'the claim does not wait any more'
	sleep 1 # for sweeps
	standby_back
	REEVE_MANAGER=${URL[two]} start_fault_exec b --concurrency 1
	back=$(now_us)
	wait_until 10 all_ended
	expect_within 6000000 "$back" "$(last_end "${IDS[0]}")" 'done by another'
	expect_eq 'lost 1' "$(outcomes)"
	expect_eq a "$(sql 'select w.name from task_attempts join workers w on w.id = worker_id')"
	conclude b
}

waits_for_standby() { # ROLE
	[ "$(sql "select count(*) from pg_stat_activity where application_name = 'reeve-manager $1' and wait_event = 'SyncRep'")" != 0 ]
}

# After the cancel PostgreSQL answers as if the COMMIT had succeeded, with a warning: it is committed here, and perhaps
# nowhere else.
test_a_wait_for_the_standby_that_was_cancelled_acknowledges_nothing() {
	start_postgres
	start_manager "${SHORT[@]}"
	first=$(reeve submit nothing)
	standby_absent
	start submit "$REEVE_BIN/reeve" submit nothing
	start edit "$REEVE_BIN/reeve" queue set q --priority 3
	for round in 1 2 3; do
		for call in submit edit; do
			wait_until 5 "waits_for_standby $call"
			sql "select pg_cancel_backend(pid) from pg_stat_activity where application_name = 'reeve-manager $call'" >/dev/null
		done
		sleep 0.7
		for call in submit edit; do
			alive $call || fail "acknowledged: $(cat "$DIR/log/$call.log")"
		done
	done
	standby_back
	ended edit
	expect_eq 0 "$STATUS"
	ended submit
	expect_eq 0 "$STATUS"
	expect_eq 2 "$(sql 'select count(*) from tasks')" 'tasks'
	expect_eq "$(sql "select id from tasks where id <> $first")" "$(tail -n 1 "$DIR/log/submit.log")"
}

# ---- the database's clock ----

# Before each jump there are running attempts, a failed task that waits for its retry, a delayed task, and steady load.
# All of this goes on as if nothing had happened, later tasks wait as long as they should, and a worker that dies right
# after the jump is noticed.
test_its_clock_jumps_an_hour_each_way() {
	start_postgres_with_clock
	start_manager "${LONG[@]}"
	start_fault_exec a --concurrency 12
	start_fault_exec b --concurrency 12
	start_submitter load --rate 10 --mix short=1 --cancel 0 --types fault-exec=1
	for clock in 3600 0; do
		submit_scripts "running$clock" 4 "until=$DIR/running$clock" '"timeout":"1m"'
		submit_scripts "delayed$clock" 1 run=20 '"delay_ms":2500'
		submit_scripts "resting$clock" 1 'run=20 fail=1' '"retry":{"base_ms":6000}'
		wait_until 10 "[ \"\$(sql \"select count(*) from tasks where status = 'executing' and details like 'running%'\")\" = 4 ]"
		wait_until 10 "[ \"\$(sql \"select count(*) from task_attempts where task_id = ${IDS[0]} and outcome = 'failed'\")\" = 1 ]"
		jump "$clock"
		jumped=$(now_us)
		# What goes wrong by the clock is wrong by an hour.
		wait_until 15 "[ \"\$(sql \"select count(*) from tasks where details ~ '^(resting|delayed)'\")\" = 0 ]"
		expect_eq 4 "$(sql "select count(*) from tasks where status = 'executing' and details like 'running%'")" 'still running'
		touch "$DIR/running$clock"
		wait_until 15 "[ \"\$(sql \"select count(*) from tasks where details like 'running%'\")\" = 0 ]"
		expect_within "$BACK_US" 0 "$(longest_wait "$jumped")" 'the longest that a task waited since'
		expect_eq "failed $(sql "select count(*) from task_history where details like 'resting%'")" "$(outcomes)" 'after the jump'
		expect_eq 2 "$(sql 'select count(*) from workers where not lost')" 'workers'
		# Tasks after the jump have their own delays and retry delays, by the clock as it is now.
		asked=$(now_us)
		submit_scripts "later$clock" 1 run=20 '"delay_ms":2000'
		later=("${IDS[@]}")
		submit_scripts "resting-later$clock" 1 'run=20 fail=1' '"retry":{"base_ms":2400}'
		wait_until 15 "[ \"\$(sql \"select count(*) from tasks where details like '%later%'\")\" = 0 ]"
		for id in "${later[@]}" "${IDS[@]}"; do expect [ $(($(last_end "$id") - asked)) -ge 1800000 ]; done
		expect_eq 00:00:02 "$(sql "select run_at - created from task_history where task_id = ${later[0]}")"
		expect_eq t "$(sql "select run_at - last_updated between '1.8s' and '2.4s' from task_attempts where task_id = ${IDS[0]}")"
	done
	for clock in 3600 0; do
		submit_scripts "dead$clock" 2 "until=$DIR/dead$clock"
		wait_until 10 "[ \"\$(sql \"select count(*) from tasks where status = 'executing' and details like 'dead%'\")\" = 2 ]"
		jump "$clock"
		victim=$(sql "select w.name from tasks t join workers w on w.id = t.worker_id where details like 'dead%' limit 1")
		kill_now "$victim"
		end_lease "$victim"
		touch "$DIR/dead$clock"
		wait_until 30 "[ \"\$(sql \"select count(*) from tasks where details like 'dead%'\")\" = 0 ]"
		expect_within $((BACK_US + 1000000)) "$KILLED_US" "$(last_end "${IDS[@]}")" 'the tasks of a dead worker done'
		start_fault_exec "${victim}x" --concurrency 12
	done
	end_load
	conclude --jumped $(sql "select name from workers where not lost")
}


# One manager has seen the clock ahead, the other was not running: each accepts request ids of the time that the other
# returns, and of its own. A call from before the clock was set forward is not carried out again.
test_its_clock_jumps_by_hours_with_two_managers() {
	start_postgres_with_clock
	for hours in 2 26; do
		jump 0
		start_manager old "${SHORT[@]}"
		start_manager new "${SHORT[@]}"
		before=$("$REEVE_BIN/resend" id)
		"$REEVE_BIN/resend" submit "$before" jumps '' 1 "${URL[old]}"
		stop new
		jump $((hours * 3600))
		wait_until 10 "grep -q 'has jumped by [0-9]' '$DIR/log/old.log'"
		REEVE_MANAGER=${URL[old]} reeve submit nothing --queue jumps >/dev/null
		jump 0
		wait_until 10 "grep -q 'has jumped by -' '$DIR/log/old.log'"
		start_manager new "${SHORT[@]}"
		for round in $(seq 1 5); do
			for urls in "${URL[old]},${URL[new]}" "${URL[new]},${URL[old]}"; do
				printf '{"type":"nothing","queue":"jumps"}\n%.0s' 1 2 3 | reeve submit --bulk - --manager "$urls" >/dev/null
			done
			id=$("$REEVE_BIN/resend" id)
			answer=$("$REEVE_BIN/resend" submit "$id" jumps '' 1 "${URL[old]}")
			expect_eq "$answer" "$("$REEVE_BIN/resend" submit "$id" jumps '' 1 "${URL[new]}")"
		done
		expect_eq $((1 + 1 + 5 * 7)) "$(sql "select count(*) from tasks where queue = 'jumps'")"
		sql "delete from tasks" >/dev/null
		if [ $hours = 26 ]; then
			code=0
			said=$("$REEVE_BIN/resend" submit "$before" jumps '' 1 "${URL[old]}") || code=$?
			expect_match '^FAILED_PRECONDITION: .*more than a day old' "$said"
		fi
		stop new
		stop old
		rm -f "$DIR"/log/old.log
	done
}

quoted() {
	printf "'%s'" "$1"
}

forget_clock() { # the first time it may note when the clock was set back, and which transactions were before
	for _ in 1 2; do
		sql "$(cat "$STATEMENTS/clock_forget.sql")"
		sql "update managers set clock_set_back = clock_set_back - interval '11 minutes'" >/dev/null
	done
	sql "$(cat "$STATEMENTS/clock_forget.sql")"
}

# Tasks that were submitted while the clock was ahead do not wait until it shows that time again, although the only
# manager that has seen it ahead was killed: before the clock was set back, or after. Pull clients get them, too, with a
# filter and by SQL. A waiting period that began then is not longer than it should be.
test_tasks_of_a_clock_that_was_ahead_do_not_wait_for_it() {
	start_postgres_with_clock
	for killed in before after; do # the clock is set back
		jump 7200
		start_manager old "${SHORT[@]}"
		wait_until 10 '[ "$(sql "select count(*) from managers where hb_at - to_timestamp($(date +%s)) > make_interval(hours => 1) and hb_seq > 1")" -gt 0 ]'
		for n in 1 2 3; do reeve submit echo "$n" >/dev/null; done
		three_s=$(reeve submit echo delayed --delay 3s)
		reeve queue set slow --waiting 1s >/dev/null
		reeve queue pause slow >/dev/null
		reeve queue start slow >/dev/null
		reeve submit echo waited --queue slow >/dev/null
		reeve submit by-sql x >/dev/null
		filtered=$(reeve submit by-filter x)
		start late "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve -c begin -c "select reeve.submit('echo', 'late')" \
			-c "\\! until [ -e $DIR/$killed ]; do sleep 0.1; done" -c commit
		wait_until 10 '[ -s "$DIR/log/late.log" ]'
		if [ $killed = before ]; then
			kill_now old
			sql "update managers set hb_at = hb_at - interval '2 s', clock_estimate = clock_estimate - interval '2 s'" # before the submits
			jump 0
		else
			jump 0
			wait_until 10 "grep -q 'has jumped by -' '$DIR/log/old.log'"
			pause 1
			kill_now old
		fi
		start_manager new "${SHORT[@]}"
		for type in by-sql by-filter; do reeve submit $type 'not due' --delay 30m >"$DIR/$type"; done
		wait_until 10 "[ \"\$(sql \"select reeve.complete(id, token) from reeve.fetch('{by-sql}', max_tasks => 2)\")\" = completed ]"
		reeve fetch --type by-filter --where status=queued -n 2 --max-wait 10s --json >"$DIR/fetched"
		expect_eq "$filtered" "$(jq .task_id "$DIR/fetched")"
		reeve report "$filtered" "$(jq .token "$DIR/fetched")" --completed x
		reeve cancel - <<<"$(cat "$DIR/by-sql" "$DIR/by-filter")" >/dev/null
		start_worker
		wait_until 10 '[ "$(sql "select count(*) from tasks")" = 0 ]'
		expect_eq completed "$(reeve show "$three_s" --json | jq -r .status)"
		# A task that is delayed from now on waits as long as it should.
		reeve submit echo later --delay 2s --wait >/dev/null
		expect_eq t "$(sql "select run_at - created = '2s' and token between run_at and run_at + interval '1 minute' from task_history
			where details = 'later' order by task_id desc limit 1")"
		# Queries for the last hours go by the clock as it is now.
		expect_fail 1 reeve submit sh 'exit 3' --max-attempts 1 --wait
		expect_match 'exit' "$(reeve errors)"
		expect_match 'dead' "$(reeve audit)"
		# No row of that time is left, but a transaction is open that wrote then.
		forget_clock
		expect_eq 1 "$(sql 'select count(*) from managers where greatest(hb_at, clock_ahead_until) > clock_timestamp()')"
		: >"$DIR/$killed"
		ended late
		wait_until 10 '[ "$(sql "select count(*) from tasks")$(sql "select count(*) from task_history where details = $(quoted late) and status = $(quoted completed)")" = 01 ]'
		forget_clock
		wait_until 20 '[ "$(sql "select count(*) from managers where greatest(hb_at, clock_ahead_until) > clock_timestamp()")" = 0 ]'
		sql 'delete from task_history' >/dev/null
		stop worker
		stop new
		rm "$DIR/log/late.log"
	done
}

beaten() { # waits until the manager started last has sent several heartbeats
	wait_until 20 '[ "$(sql "select hb_seq from managers order by id desc limit 1")" -ge 3 ]'
}

# The clock is set back twice, some time apart, and no manager is left that saw it. The last manager accepts new calls.
test_its_clock_is_set_back_twice() {
	start_postgres_with_clock
	jump 200000
	start_manager first "${SHORT[@]}"
	beaten
	jump 3600
	wait_until 10 "grep -q 'has jumped by -' '$DIR/log/first.log'"
	pause 1
	kill_now first
	start_manager second "${SHORT[@]}"
	beaten
	jump 0
	wait_until 10 "grep -q 'has jumped by -' '$DIR/log/second.log'"
	kill_now second
	start_manager third "${SHORT[@]}"
	beaten
	start_worker
	reeve submit echo later --wait >/dev/null
}

# A token that is valid for an hour, while the clock is two hours ahead: at a manager that saw its end, and at one that started then.
test_a_token_is_valid_again_after_its_clock_was_ahead() {
	local token
	start_postgres_with_clock
	start_manager first "${SHORT[@]}"
	token=$(reeve token create soon --role reader --expires 1h)
	REEVE_ACCESS_TOKEN=$token reeve list >/dev/null
	jump 7200
	start_manager second "${SHORT[@]}"
	for name in first second; do
		wait_until 10 "expect_fail 4 env REEVE_ACCESS_TOKEN=$token '$REEVE_BIN/reeve' --manager ${URL[$name]} list"
	done
	beaten
	jump 0
	for name in first second; do wait_until 10 "grep -q 'has jumped by -' '$DIR/log/$name.log'"; done
	forget_clock
	for name in first second; do
		wait_until 20 "REEVE_ACCESS_TOKEN=$token '$REEVE_BIN/reeve' --manager ${URL[$name]} list >/dev/null"
	done
}

# The database's clock is an hour ahead of its managers' clock, then two hours, then equal to it.
test_schedules_go_by_its_clock() {
	start_postgres_with_clock
	jump 3600
	start_manager "${SHORT[@]}"
	start_worker
	reeve schedule add often --every 500ms echo tick >/dev/null
	wait_until 30 "[ \"\$(sql \"select count(*) from schedule_runs where outcome = 'submitted'\")\" -ge 3 ]"
	expect_eq t "$(sql "select bool_and(scheduled_at > to_timestamp($(date +%s)) + interval '50 minutes' and at >= scheduled_at) from schedule_runs")"
	# Set forward: the times in between are missed, and then the schedule goes on.
	jump 7200
	wait_until 30 "[ \"\$(sql \"select count(*) from schedule_runs where outcome = 'missed' and note ~ '^7... were missed'\")\" = 1 ]"
	wait_until 30 "[ \"\$(sql \"select count(*) from schedule_runs where outcome = 'submitted' and at > clock_timestamp() - interval '2 s'\")\" -ge 2 ]"
	# Set back: no run comes before the next scheduled time, while delays pass as they did.
	jump 0
	id=$(reeve submit echo first)
	reeve wait "$id" >/dev/null
	runs=$(sql 'select count(*) from schedule_runs')
	id=$(reeve submit echo second --delay 2s)
	reeve wait "$id" >/dev/null
	expect_eq "$runs" "$(sql 'select count(*) from schedule_runs')" 'runs'
	expect_eq 0 "$(sql 'select count(*) - count(distinct scheduled_at) from schedule_runs')" 'planned times that came twice'
}

run_tests
