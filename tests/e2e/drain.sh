#!/usr/bin/env bash
# Workers that leave: running tasks may finish, tasks that have not begun are returned, and no result is lost.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

draining() { # NAME
	signal "$1" TERM
	wait_until 20 "grep -q 'draining: ' '$DIR/log/$1.log'"
}

expect_gone() { # NAME
	expect_eq '' "$(reeve worker list --json | jq -r "select(.name == \"$1\" and .state == \"alive\").name")" 'still a worker'
	expect_eq 1 "$(reeve audit --limit 100000 --json | jq -s "[.[] | select(.event == \"left\" and .worker == \"$1\")] | length")" \
		'times it left'
}

status_count() { # STATUS
	sql "select count(*) from tasks where status = '$1'"
}

times_begun() { # how often handlers with $HOLD have begun
	find "$DIR" -maxdepth 1 -name 'began.*' | wc -l
}

# measures time
test_an_idle_worker_leaves_at_once() {
	start_postgres
	start_manager
	start_worker
	expect_eq worker "$(reeve worker list --json | jq -r 'select(.state == "alive").name')"
	begin=$(ms)
	stop worker
	expect_eq 0 "$STATUS"
	expect [ $(($(ms) - begin)) -lt 5000 ]
	expect_gone worker
}

test_what_runs_finishes() {
	start_postgres
	start_manager
	start_worker worker --concurrency 3
	one=$(reeve submit sh "$HOLD" --max-attempts 1)
	two=$(reeve submit sh "$HOLD" --max-attempts 1)
	wait_began "$one"
	wait_began "$two"
	draining worker
	later=$(reeve submit nothing) # the worker has a slot free, and takes nothing more
	sleep 0.5
	alive worker || fail 'it has not waited for what runs'
	expect_eq 'executing executing queued' "$(field "$one" status) $(field "$two" status) $(field "$later" status)"
	release
	ended worker
	expect_eq 0 "$STATUS"
	for id in $one $two; do
		expect_eq 'completed 1 attempt 1' "$(field "$id" status) $(field "$id" attempt) $(field "$id" result)"
		expect_eq 'submitted claimed completed' "$(events "$id")"
	done
	expect_eq queued "$(field "$later" status)"
	expect_gone worker
	start_worker other
	reeve wait "$later"
	expect_eq other "$(field "$later" worker)"
}

# The return does not use up the only attempt that the tasks have.
test_what_does_not_finish_in_time_is_returned() {
	start_postgres
	start_manager
	start_worker worker --concurrency 2 --drain-timeout 300ms --kill-grace 500ms
	polite=$(reeve submit sh "$HOLD" --max-attempts 1)
	deaf=$(reeve submit sh "trap '' TERM; $HOLD" --max-attempts 1)
	wait_began "$polite"
	wait_began "$deaf"
	stop worker
	expect_eq 0 "$STATUS"
	expect_gone worker
	for id in $polite $deaf; do
		expect_eq queued "$(field "$id" status)"
		expect_eq 0 "$(field "$id" attempt)"
		expect_eq 'submitted claimed returned' "$(events "$id")"
		expect_eq worker "$(event_field "$id" returned worker)"
		expect_eq 'returned|1' "$(sql "select outcome, attempt from task_attempts where task_id = $id")"
		rm "$DIR/began.$id.1"
	done
	start_worker other --concurrency 2
	wait_began "$polite"
	wait_began "$deaf"
	release
	reeve wait "$polite" "$deaf"
	for id in $polite $deaf; do
		expect_eq 'completed 1 attempt 1' "$(field "$id" status) $(field "$id" attempt) $(field "$id" result)"
		expect_eq other "$(field "$id" worker)"
		expect_eq 'submitted claimed returned claimed completed' "$(events "$id")"
	done
}

test_a_second_signal_stops_at_once() {
	start_postgres
	start_manager
	start_worker worker --drain-timeout 10m
	id=$(reeve submit sh "$HOLD" --max-attempts 1)
	wait_began "$id"
	draining worker
	stop worker
	expect_eq 0 "$STATUS"
	expect_eq 'queued 0' "$(field "$id" status) $(field "$id" attempt)"
	expect_eq 'submitted claimed returned' "$(events "$id")"
	expect_gone worker
}

# The tasks are returned while the running one continues.
test_what_has_not_begun_is_returned_at_once() {
	start_postgres
	start_manager
	start_worker worker --concurrency 1 --prefetch 5
	for _ in 1 2 3 4 5 6; do
		jq -nc --arg script "$HOLD" '{type: "sh", details: $script, max_attempts: 1}'
	done | reeve submit --bulk - >"$DIR/ids"
	wait_until 20 '[ "$(status_count executing)" = 6 ] && [ "$(times_begun)" = 1 ]'
	draining worker
	wait_until 20 '[ "$(status_count queued)" = 5 ]'
	expect_eq 1 "$(times_begun)"
	start_worker other --concurrency 5
	wait_until 20 '[ "$(times_begun)" = 6 ]'
	alive worker || fail 'it has not waited for what runs'
	release
	reeve wait - <"$DIR/ids" >/dev/null
	ended worker
	expect_eq 0 "$STATUS"
	expect_eq $'other|5\nworker|1' "$(sql "select w.name, count(*) from task_history h join workers w on w.id = h.worker_id
		where status = 'completed' and attempt = 1 and result = 'attempt 1' group by 1 order by 1")"
	expect_eq 6 "$(times_begun)" 'handlers begun'
	expect_eq 5 "$(reeve audit --limit 100000 --json | jq -s '[.[] | select(.event == "returned" and .worker == "worker")] | length')"
	expect_gone worker
}

# The beginning of a script that appends a line for each of its runs.
ONCE='echo "$REEVE_TASK_ID" >>"$REEVE_TEST_DIR/ran"
'

test_results_outlast_a_manager() {
	start_postgres
	start_manager
	start_worker worker --concurrency 4
	for _ in 1 2 3 4; do
		reeve submit sh "$ONCE$HOLD"'; touch "$REEVE_TEST_DIR/ended.$REEVE_TASK_ID"' --max-attempts 1
	done >"$DIR/ids"
	wait_until 20 '[ "$(times_begun)" = 4 ]'
	kill_manager
	release
	wait_until 20 '[ "$(find "$DIR" -maxdepth 1 -name "ended.*" | wc -l)" = 4 ]'
	expect_eq 4 "$(status_count executing)"
	start_manager
	reeve wait - <"$DIR/ids" >/dev/null
	mapfile -t ids <"$DIR/ids"
	for id in "${ids[@]}"; do
		expect_eq 'completed 1 attempt 1' "$(field "$id" status) $(field "$id" attempt) $(field "$id" result)"
		expect_eq 'submitted claimed completed' "$(events "$id")"
	done
	expect_eq "$(sort "$DIR/ids")" "$(sort "$DIR/ran")" 'what ran'
	stop worker
	expect_eq 0 "$STATUS"
	expect_gone worker
}

# The worker gets SIGTERM while no manager runs, and waits for one.
test_a_leaving_worker_reports_its_results_first() {
	start_postgres
	start_manager
	start_worker worker --concurrency 2
	one=$(reeve submit sh "$ONCE$HOLD" --max-attempts 1)
	two=$(reeve submit sh "$ONCE$HOLD" --max-attempts 1)
	wait_began "$one"
	wait_began "$two"
	kill_manager
	draining worker
	release
	sleep 1
	alive worker || fail 'it has not waited for a manager'
	start_manager
	ended worker
	expect_eq 0 "$STATUS"
	expect_eq 'completed completed' "$(field "$one" status) $(field "$two" status)"
	expect_eq "$one"$'\n'"$two" "$(sort -n "$DIR/ran")" 'what ran'
	expect_gone worker
}

# No manager starts: the worker ends anyway, with an exit code for that, and another worker runs its task again.
test_results_that_no_manager_accepts_are_logged() {
	local options=(--lease 4s --heartbeat 400ms --expiry-grace 5s)
	start_postgres
	start_manager "${options[@]}"
	start_worker worker --drain-timeout 1s
	id=$(reeve submit sh "$ONCE$HOLD" --timeout 5s --retry-base 10ms)
	wait_began "$id"
	kill_manager
	release
	stop worker
	expect_eq 3 "$STATUS" 'exit code of the worker'
	start_manager "${options[@]}"
	start_worker other
	reeve wait "$id"
	expect_eq 'completed 2 attempt 2' "$(field "$id" status) $(field "$id" attempt) $(field "$id" result)"
	expect_eq other "$(field "$id" worker)"
	expect_eq "$id"$'\n'"$id" "$(cat "$DIR/ran")"
}

run_tests
