#!/usr/bin/env bash
# Hung tasks: found by a condition, killed, discarded and started again.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/filters.bash"

# Kills the worker. The managers need not wait for the end of its lease: nothing of it runs.
lose_worker() {
	kill_worker
	end_lease worker
}

test_a_killed_task_ends_dead_though_its_worker_is_gone() {
	begin
	id=$(reeve submit sh "$HOLD")
	wait_began "$id"
	signal worker STOP
	reeve discard "$id" >/dev/null
	lose_worker
	expect_fail 1 reeve wait "$id" --max-wait 30s
	expect_eq 'dead discarded discarded by request' "$(field "$id" status) $(field "$id" error_code) $(field "$id" last_error)"
}

test_hung_tasks_are_found_and_started_again() {
	begin --concurrency 4
	hung=$(reeve submit sh "[ \$REEVE_ATTEMPT = 1 ] && [ ! -e $DIR/second ] && { touch $DIR/second; $HOLD; }; printf done" --timeout 10m)
	fresh=$(reeve submit sh "$HOLD" --timeout 10m)
	wait_began "$hung"
	wait_began "$fresh"
	expect_fail 4 reeve retry "$hung"
	expect_match 'executing +no +it is executing: only a retry with .executing. set starts it again' "$OUTPUT"
	wait_until 10 "[ \"\$(reeve list --running-longer 1s --json | jq .id | sort -n | xargs)\" = '$hung $fresh' ]"
	expect_match 'runs for [0-9]+s' "$(reeve list --running-longer 1s)"
	expect_fail 4 reeve retry --running-longer 1h
	expect_eq 'reeve: no task matches' "$OUTPUT"
	reeve retry "$hung" --executing >"$DIR/told"
	expect_match "$hung +executing +yes +its worker stops it; then it starts again" "$(cat "$DIR/told")"
	reeve wait "$hung" --max-wait 20s >/dev/null
	expect_eq 'completed done 1' "$(field "$hung" status) $(field "$hung" result) $(field "$hung" attempt)"
	expect_eq 'submitted claimed restart_requested returned restarted claimed completed' "$(events "$hung")"
	expect_eq executing "$(field "$fresh" status)"
	# A task that completes before its worker gets the command has completed.
	last=$(reeve submit sh "$HOLD")
	wait_began "$last"
	signal worker STOP
	expect_eq '2 tasks started again' "$(reeve retry --where 'status=executing type=sh')"
	release
	wait_ended "$last"
	signal worker CONT
	reeve wait "$fresh" "$last" --max-wait 20s >/dev/null
	expect_eq 'submitted claimed restart_requested completed' "$(events "$last")"
	wait_until 10 '[ "$(sql "select count(*) from assignments where closed_at is null")" = 0 ]'
}

test_a_hung_attempt_counts_and_fails_as_hanged() {
	begin
	hung=$(reeve submit sh "[ \$REEVE_ATTEMPT = 2 ] || { $HOLD; }; printf done" --timeout 10m --retry-base 10ms)
	last=$(reeve submit sh "$HOLD" --timeout 10m --max-attempts 1 --delay 1h)
	wait_began "$hung"
	expect_fail 4 reeve retry --where 'status=dead' --hanged
	expect_match 'hanged is for executing tasks: the filter needs their status alone' "$OUTPUT"
	expect_fail 4 reeve retry "$last" --hanged
	expect_match "$last +queued +no +it is not executing" "$OUTPUT"
	expect_eq '1 task stopped as hanged' "$(reeve retry --running-longer 1ms --hanged)"
	reeve wait "$hung" --max-wait 20s >/dev/null
	expect_eq 'completed done 2' "$(field "$hung" status) $(field "$hung" result) $(field "$hung" attempt)"
	expect_eq 'submitted claimed restart_requested failed claimed completed' "$(events "$hung")"
	expect_eq 'hanged: hanged' "$(event_field "$hung" failed note)"
	expect_eq 1 "$(reeve errors --by code --json | jq -r 'select(.error_code == "hanged").attempts')"
	# Without an attempt left the task is dead.
	reeve retry "$last" >/dev/null
	wait_began "$last"
	expect_match "$last +executing +yes +its worker stops it; then the attempt has failed .hanged." "$(reeve retry "$last" --hanged)"
	expect_fail 1 reeve wait "$last" --max-wait 20s
	expect_eq 'dead hanged hanged true' "$(field "$last" status) $(field "$last" last_error) $(field "$last" error_code) $(field "$last" recoverable)"
	# A cancel takes the place of it, and it that of a restart.
	other=$(reeve submit sh "$HOLD" --timeout 10m)
	wait_began "$other"
	signal worker STOP
	reeve retry "$other" --executing >/dev/null
	reeve retry "$other" --hanged >/dev/null || true
	expect_eq 'hanged|' "$(sql "select stop_code, restart from tasks where id = $other")"
	reeve cancel "$other" --reason enough >/dev/null
	signal worker CONT
	expect_fail 1 reeve wait "$other" --max-wait 20s
	expect_eq 'cancelled enough' "$(field "$other" status) $(field "$other" last_error)"
}

test_a_restart_survives_the_workers_end() {
	begin
	id=$(reeve submit sh "[ -e $DIR/second ] || { touch $DIR/second; $HOLD; }; printf done" --max-attempts 1)
	wait_began "$id"
	signal worker STOP
	reeve retry "$id" --executing >/dev/null
	lose_worker
	start_worker other
	reeve wait "$id" --max-wait 30s >/dev/null
	expect_eq 'completed done' "$(field "$id" status) $(field "$id" result)"
	expect_match 'lost reclaimed restarted claimed completed$|lost restarted reclaimed claimed completed$' "$(events "$id")"
}

run_tests
