#!/usr/bin/env bash
# Workers and submitters that know several managers: they move to another one within a second when theirs dies, and
# within the ping's limit when it freezes; managers that are down, or whose names do not resolve, cost them no time.
# alone
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

# A ping every 500 ms must be answered within 1.5 s (docs/protocol.md).
PING_LIMIT_MS=1500
KILLED_MS=1000
FROZEN_MS=$((PING_LIMIT_MS + 400)) # and what a call takes by itself, where everybody shares two processors
MOMENT_MS=1000                     # the same for a command; the time-out for a silent address is five times as long
TOLD_MS=1000 # what the other manager has not been told of, or has left to the frozen one, it takes within this time

start_two() { # and the addresses of both for all that follows; each task `nothing` that is run is a line of $DIR/ran
	handlers <<-'END'
		[handler nothing]
		exec = /bin/sh -c "echo $REEVE_TASK_ID >>$REEVE_TEST_DIR/ran"
		[handler echo]
		exec = /bin/cat
	END
	start_postgres
	start_manager one
	start_manager two
	export REEVE_MANAGER=${URL[one]},${URL[two]}
}

# ---- steady callers ----

# Runs the command again and again; prints lines like those of tests/tools/steady_calls.c.
command_steadily() {
	local at id
	while [ ! -e "$DIR/enough" ]; do
		at=$(ms)
		id=$("$REEVE_BIN/reeve" submit nothing) || id="exit $?"
		echo "$at $(($(ms) - at)) submit $id"
		at=$(ms)
		"$REEVE_BIN/reeve" wait "$id" >/dev/null || id="exit $?"
		echo "$at $(($(ms) - at)) wait $id"
	done
}

start_callers() {
	start_worker worker --concurrency 4
	start library "$REEVE_BIN/steady-calls" 3
	start command command_steadily
	wait_until 20 '[ "$(cat "$DIR/log/library.log" | wc -l)" -gt 30 ]'
}

stop_callers() {
	touch "$DIR/enough"
	ended command
	expect_eq 0 "$STATUS" 'exit code of the command'
	stop library
	expect_eq 0 "$STATUS" 'exit code of the library'
	stop worker
	expect_eq 0 "$STATUS" 'exit code of the worker'
}

# Prints the longest call, in ms, within SECONDS after FROM. A call that had begun before FROM counts from there.
longest_call() { # FROM SECONDS NAMES, a pattern
	awk -v from="$1" -v to=$(($1 + $2 * 1000)) -v names="^($3)\$" '
		{ took = $1 < from ? $1 + $2 - from : $2 }
		took >= longest && $1 <= to && $3 ~ names { longest = took; line = FILENAME ": " $0 }
		END { print line > "/dev/stderr"; print longest + 0 }' "$DIR/log/library.log" "$DIR/log/command.log"
}

# Prints the longest time without a result, in ms, by the tables, that overlaps the SECONDS after FROM.
longest_gap() { # FROM SECONDS
	sql "select coalesce(max(extract(epoch from last_updated - before) * 1000), 0)::bigint from (
			select last_updated, lag(last_updated, 1, to_timestamp($1 / 1000.0)) over (order by last_updated) as before
			from task_history where last_updated >= to_timestamp($1 / 1000.0)) x
		where before <= to_timestamp(($1 + $2 * 1000) / 1000.0)"
}

# Expects each acknowledged task to have completed in its first attempt and run once, and no other task to exist. Tasks
# that a frozen manager claims when it resumes, for a worker that has left it, are requeued without having run.
expect_each_call_once() {
	local logs=("$DIR/log/library.log" "$DIR/log/command.log")
	expect_eq '' "$(cat "${logs[@]}" | grep -vE '^[0-9]+ [0-9]+ (submit|get|wait) [0-9]+$' || true)" 'calls that failed'
	cat "${logs[@]}" | awk '$3 == "submit" { print $4 }' | sort >"$DIR/acknowledged"
	sql "select id from all_tasks where status = 'completed' and attempt = 1" | sort >"$DIR/completed"
	expect_eq '' "$(diff "$DIR/acknowledged" "$DIR/completed" | head -n 5)" 'acknowledged and not completed, or the other way round'
	expect_eq '' "$(sort "$DIR/ran" | diff "$DIR/acknowledged" - | head -n 5)" 'acknowledged and not run once'
	expect_eq '' "$(sql "select task_id, outcome, error from task_attempts where outcome <> 'requeued' limit 5")" \
		'attempts that did not end their task'
}

expect_below() { # MOST GOT WHAT
	note "$3: $2 ms"
	[ "$2" -lt "$1" ] || fail "$3: $2 ms, not below $1"
}

test_a_manager_is_killed_and_its_callers_are_with_the_other_within_a_second() {
	start_two
	start_callers
	for victim in one two one; do
		at=$(ms)
		kill_manager $victim
		sleep 1.5
		expect_below $KILLED_MS "$(longest_call "$at" 2 'submit|get|wait')" "longest call when $victim was killed"
		expect_below $KILLED_MS "$(longest_gap "$at" 2)" "longest time without a result when $victim was killed"
		start_manager $victim
		sleep 0.5
	done
	stop_callers
	expect_each_call_once
}

test_a_manager_freezes_and_its_callers_are_with_the_other_within_the_pings_limit() {
	start_two
	start_callers
	for victim in one two; do
		at=$(ms)
		signal $victim STOP
		sleep 2.5
		expect_below $FROZEN_MS "$(longest_call "$at" 3 'submit|get')" "longest call when $victim froze"
		expect_below $((FROZEN_MS + TOLD_MS)) "$(longest_call "$at" 3 wait)" "longest way of a task when $victim froze"
		expect_below $FROZEN_MS "$(longest_gap "$at" 3)" "longest time without a result when $victim froze"
		at=$(ms)
		signal $victim CONT
		sleep 1.5
		expect_below $KILLED_MS "$(longest_call "$at" 2 'submit|get|wait')" "longest call when $victim went on"
	done
	stop_callers
	expect_each_call_once
}

# ---- idle workers ----

# Prints how long the task waited for its start, in ms.
waited() { # ID
	sql "select (extract(epoch from first_started - created) * 1000)::bigint from task_history where task_id = $1"
}

# The worker's Fetch is open at one of the managers; the task is submitted at the other.
test_what_comes_to_the_other_manager_is_started_by_a_worker_whose_own_was_killed_or_froze() {
	local other id
	start_two
	start_worker worker --concurrency 2
	export REEVE_MANAGER
	for victim in one two; do
		other=one
		[ $victim = two ] || other=two
		REEVE_MANAGER=${URL[$other]}
		kill_manager $victim
		id=$(reeve submit nothing)
		reeve wait "$id" --max-wait 10s >/dev/null
		expect_below $KILLED_MS "$(waited "$id")" "wait for a start when $victim was killed"
		start_manager $victim
	done
	for victim in one two; do
		other=one
		[ $victim = two ] || other=two
		REEVE_MANAGER=${URL[$other]}
		sleep 0.7 # a ping after whatever was before
		signal $victim STOP
		id=$(reeve submit nothing)
		reeve wait "$id" --max-wait 10s >/dev/null
		expect_below $FROZEN_MS "$(waited "$id")" "wait for a start when $victim froze"
		signal $victim CONT
	done
	expect_eq 'completed|1|4' "$(sql 'select status, attempt, count(*) from task_history group by 1, 2')"
	expect_eq 4 "$(sort -u "$DIR/ran" | wc -l)"
	expect_eq 4 "$(wc -l <"$DIR/ran")"
	stop worker
}

# ---- unreachable addresses ----

each_command_takes_a_moment() {
	local at id
	for _ in 1 2 3; do
		at=$(ms)
		id=$(reeve submit nothing --delay 1h)
		expect_below $MOMENT_MS $(($(ms) - at)) "submit by $REEVE_MANAGER"
		at=$(ms)
		reeve show "$id" >/dev/null
		expect_below $MOMENT_MS $(($(ms) - at)) "show by $REEVE_MANAGER"
	done
}

test_addresses_that_lead_nowhere_cost_nothing() {
	local nobody
	nobody=tcp://127.0.0.1:$(free_port)
	start_two
	signal one STOP
	for REEVE_MANAGER in "$nobody,${URL[two]}" "tcp://no-such-host.invalid:7171,${URL[two]}" "${URL[one]},${URL[two]}" \
		"$nobody,tcp://no-such-host.invalid:7171,${URL[one]},$nobody,${URL[two]}"; do
		each_command_takes_a_moment
	done
	start_worker worker
	expect_eq here "$(reeve submit echo here --wait)"
	at=$(ms)
	stop worker
	expect_below 2000 $(($(ms) - at)) 'the worker that stops'
	signal one CONT
}

run_tests
