#!/usr/bin/env bash
# Managers that are not up yet, were killed, or are frozen: callers keep waiting, and nothing is done twice.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

test_workers_and_submitters_may_come_first() {
	start_postgres
	PORT[manager]=$(free_port)
	export REEVE_MANAGER=tcp://127.0.0.1:${PORT[manager]}
	launch_worker
	start submitter "$REEVE_BIN/reeve" submit echo 'at last' --wait --connect-timeout 60s
	sleep 1
	alive worker || fail 'the worker has not waited'
	alive submitter || fail 'the submitter has not waited'
	start_manager
	ended submitter
	expect_eq 0 "$STATUS"
	expect_eq 'at last' "$(cat "$DIR/log/submitter.log")"
	stop worker
}

# A caller that waits for a task does not notice that the manager is killed and restarted, and the task is not affected.
test_waiting_goes_on_through_a_restart() {
	start_postgres
	start_manager
	start_worker worker --concurrency 3
	id=$(reeve submit sh "$HOLD")
	start waiting "$REEVE_BIN/reeve" wait "$id" --json
	start following "$REEVE_BIN/reeve" submit sh "$HOLD" --wait
	wait_began "$id"
	wait_began $((id + 1))
	kill_manager
	sleep 1
	start_manager
	release
	ended waiting
	expect_eq 0 "$STATUS"
	expect_eq "$id completed attempt 1" "$(jq -r '"\(.id) \(.status) \(.result)"' "$DIR/log/waiting.log")"
	ended following
	expect_eq 0 "$STATUS"
	expect_eq 'attempt 1' "$(cat "$DIR/log/following.log")"
	expect_eq 'submitted claimed completed' "$(events "$id")"
	stop worker
}

# The manager is frozen for longer than leases and expiries. When it resumes, a live worker reports before the manager
# reclaims anything from it.
test_a_manager_that_was_frozen_reclaims_nothing_from_live_workers() {
	start_postgres
	start_manager --lease 4s --heartbeat 400ms --expiry-grace 5s --fetch-wait 300ms
	start_worker worker --concurrency 2
	jq -nc --arg hold "$HOLD" 'range(2) | {details: $hold}' | reeve submit --bulk - sh --timeout 5s --max-attempts 1 >"$DIR/ids"
	{ read -r one && read -r two; } <"$DIR/ids"
	wait_began "$one"
	wait_began "$two"
	signal manager STOP
	release
	wait_until 30 "[ \"\$(sql \"select count(*) from tasks where expiry < clock_timestamp() - interval '1s'\")\" = 2 ]"
	signal manager CONT
	reeve wait "$one" "$two"
	expect_eq 'submitted claimed completed' "$(events "$one")"
	expect_eq 'submitted claimed completed' "$(events "$two")"
	reeve submit nothing --wait
}

# One of two managers freezes with a worker's Fetch open. The worker moves to the other one, and when the first resumes
# nothing runs twice.
test_one_of_two_managers_is_frozen() {
	start_postgres
	start_manager one
	start_manager two
	REEVE_MANAGER="${URL[one]},${URL[two]}" start_worker worker --concurrency 2
	reeve submit nothing --wait
	for round in 1 2; do
		for name in one two; do
			signal $name STOP
			for i in 1 2 3; do
				id=$(REEVE_MANAGER="${URL[one]},${URL[two]}" reeve submit sh "echo \$REEVE_TASK_ID >>$DIR/runs")
				REEVE_MANAGER="${URL[one]},${URL[two]}" reeve wait "$id" --max-wait 30s >/dev/null
			done
			signal $name CONT
		done
	done
	expect_eq 12 "$(wc -l <"$DIR/runs")"
	expect_eq 12 "$(sort -u "$DIR/runs" | wc -l)"
	expect_eq 0 "$(sql "select count(*) from task_attempts where outcome <> 'requeued'")" # a claim for the connection that was left
	stop worker
}

run_tests
