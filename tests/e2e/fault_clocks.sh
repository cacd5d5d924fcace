#!/usr/bin/env bash
# The clocks of managers, workers and clients: the time they show has no effect, and their rate hardly any.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/clocks.bash"

# Handlers that write a ledger use the true clock.
true_clock_handlers() {
	fault_folder
	printf '[handler fault-exec]\nexec = /usr/bin/env -u LD_PRELOAD %s\n' "$REEVE_BIN/fault-handler" >"$DIR/true.ini"
}

# The manager's clock is 26 h fast, the worker's 30 h slow, and clients' clocks are 40 days fast and slow: delays, retry
# delays, keys and the times in answers are right.
test_what_other_clocks_show_means_nothing() {
	start_postgres
	off_by +26h start_manager "${LONG[@]}"
	true_clock_handlers
	FAULT_LEDGER=$LEDGERS FAULT_WORKER=a off_by -30h start a "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" --handlers "$DIR/true.ini" \
		--name a --concurrency 4
	await_registered a 0
	submit_scripts plain 3 run=20
	submit_scripts delayed 1 run=20 '"delay_ms":1500'
	delayed=${IDS[0]}
	submit_scripts resting 1 'run=20 fail=1' '"retry":{"base_ms":1000}'
	resting=${IDS[0]}
	submit_scripts slow 1 run=2500 '"timeout":"10s"'
	wait_until 20 all_ended # what goes wrong by a clock is wrong by a day
	expect_eq '00:00:01.5|t' "$(sql "select run_at - created, token >= run_at from task_history where task_id = $delayed")" 'delay'
	expect_eq 't|t' "$(sql "select a.run_at - a.last_updated between '0.75s' and '1s', h.token >= a.run_at
		from task_attempts a join task_history h using (task_id) where task_id = $resting")" 'retry delay'
	expect_eq 'failed 1' "$(outcomes)"
	expect_eq t "$(sql "select bool_and(created between clock_timestamp() - interval '1 minute' and clock_timestamp()) from task_history")"
	for offset in +40d -40d; do
		id=$(off_by $offset reeve submit fault-exec "clock$offset run=10" --key "key$offset")
		expect_eq "$id" "$(reeve submit fault-exec "clock$offset run=10" --key "key$offset")"
		off_by $offset reeve wait "$id" >/dev/null
	done
	expect_eq 1 "$(sql 'select count(*) from workers where not lost')" 'workers'
	stop a
	check_faults --one-clock
}

# With a rate that is off by 1/500, the handlers of a worker that is cut off have ended before another worker gets their
# tasks. For larger errors nothing is promised.
test_a_workers_clock_runs_at_another_rate() {
	start_postgres
	start_manager "${SHORT[@]}"
	start_proxy wire manager
	true_clock_handlers
	for rate in 0.998 1.002; do
		FAULT_LEDGER=$LEDGERS FAULT_WORKER=off$rate at_rate $rate start "off$rate" "$REEVE_BIN/reeve-worker" --manager "${PROXY[wire]}" \
			--handlers "$DIR/true.ini" --name "off$rate" --concurrency 4
		await_registered "off$rate" 0
		submit_scripts "held$rate" 4 'run=60000 stubborn' '"timeout":"90s"'
		wait_until 10 "[ \"\$(starts off$rate)\" = 4 ]"
		tell wire drop both
		cut=$(now_us)
		start_fault_exec "true$rate" --concurrency 4
		wait_until 20 "[ \"\$(starts true$rate)\" = 4 ]"
		expect_within "$LEASE_US" "$cut" "$(last_sign "off$rate")" 'the last sign of handlers of the worker that was cut off'
		kill_now "off$rate"
		tell wire pass
		for id in "${IDS[@]}"; do reeve cancel "$id" >/dev/null; done
		stop "true$rate"
		wait_until 10 all_ended
	done
	check_faults --one-clock
}

# The managers' estimate of the time is ahead of a clock that was set back. Then the clock decides when a task is due that was
# delayed since, to the microsecond.
test_a_clock_that_was_set_back_makes_no_later_task_due_early() {
	start_postgres
	start_manager manager
	reeve submit echo --delay 1h >/dev/null
	stop manager
	due() { # TIME: how many tasks are due then, if the estimate is 2 h ahead
		sql "update tasks set run_at = statement_timestamp() + interval '$1', last_updated = statement_timestamp() - interval '1s';
			select count(*) from ready_pages((select array[route_id] from tasks), '{0}', '{-infinity}', '{0}', array[statement_timestamp() + interval '2h'],
				'{10}', '{1}', '{0}', '{null}') where id > 0" # both statements have the same time
	}
	expect_eq '0 1' "$(due 1us) $(due 0us)"
}

run_tests
