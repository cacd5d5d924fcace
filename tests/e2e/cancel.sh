#!/usr/bin/env bash
# Cancelling: waiting tasks end at once, running ones are stopped, ended ones do not change.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

LEASES=(--lease 30s --heartbeat 400ms --expiry-grace 40s --fetch-wait 300ms) # workers stand still for a while

begin() { # [WORKER'S OPTION…]
	start_postgres
	start_manager "${LEASES[@]}"
	start_worker worker "$@"
}

# Expects that no journal row is open, no task is left to run, and no task has ended twice.
expect_nothing_open() {
	wait_until 10 '[ "$(sql "select count(*) from assignments where closed_at is null")" = 0 ]'
	expect_eq 0 "$(sql 'select count(*) from tasks')" 'live tasks'
	expect_eq 0 "$(sql 'select count(*) from (select task_id from task_history group by 1 having count(*) > 1) twice')"
}

test_what_waits_ends_at_once() {
	begin --queue none
	queued=$(reeve submit sh 'exit 0')
	delayed=$(reeve submit sh 'exit 0' --delay 1h --key k)
	reeve cancel "$queued" "$delayed" --reason 'a slip of the pen' >"$DIR/told"
	expect_match "$queued +cancelled +yes.*$delayed +cancelled +yes" "$(cat "$DIR/told")"
	for id in "$queued" "$delayed"; do
		expect_fail 1 reeve wait "$id"
		expect_eq 'cancelled 0' "$(field "$id" status) $(field "$id" attempt)"
		expect_eq 'submitted cancel_requested cancelled' "$(events "$id")"
		expect_eq 'a slip of the pen' "$(event_field "$id" cancel_requested note)"
		expect_match '.@.' "$(event_field "$id" cancel_requested actor)"
	done
	start_worker other # it has nothing to do
	other=$(reeve submit nothing)
	reeve wait "$other" >/dev/null
	expect_eq 0 "$(sql "select count(*) from task_history where token is not null and task_id <> $other")"
	expect_nothing_open
}

test_a_failed_task_is_not_retried() {
	begin
	id=$(reeve submit sh 'echo no >&2; exit 3' --retry-base 1h)
	wait_status 20 "$id" failed
	reeve cancel "$id" >/dev/null
	expect_fail 1 reeve wait "$id"
	expect_eq 'cancelled 1 exit:3 no' "$(field "$id" status) $(field "$id" attempt) $(field "$id" error_code) $(field "$id" last_error)"
	expect_eq 'submitted claimed failed cancel_requested cancelled' "$(events "$id")"
	expect_nothing_open
}

# A worker with a free slot gets the command as the answer to its open Fetch; one without gets it with its heartbeat.
test_a_running_handler_is_stopped_with_all_its_children() {
	begin --concurrency 2
	for busy in no yes; do
		[ $busy = no ] || other=$(reeve submit sh "$HOLD")
		id=$(reeve submit sh "bash -c 'sleep 1000 & echo \$! >$DIR/child; wait' & $HOLD")
		wait_began "$id"
		wait_until 10 "[ -s $DIR/child ]"
		reeve cancel "$id" --reason enough >"$DIR/told"
		expect_match "$id +executing +yes +its worker stops it" "$(cat "$DIR/told")"
		expect_fail 1 reeve wait "$id" --max-wait 10s
		expect_eq 'cancelled 1 cancelled: enough' "$(field "$id" status) $(field "$id" attempt) $(field "$id" error_code): $(field "$id" last_error)"
		expect_eq 'submitted claimed cancel_requested cancelled' "$(events "$id")"
		expect_eq enough "$(event_field "$id" cancel_requested note)"
		expect_eq worker "$(event_field "$id" cancelled worker)"
		wait_until 10 "[ -z \"\$(birth \$(cat $DIR/child))\" ]"
		rm "$DIR/child"
	done
	release
	reeve wait "$other"
	expect_nothing_open
}

test_a_handler_that_will_not_end_is_killed() {
	begin --kill-grace 500ms
	id=$(reeve submit sh "trap '' TERM; echo \$\$ >$DIR/handler; $HOLD")
	wait_began "$id"
	reeve cancel "$id" >/dev/null
	expect_fail 1 reeve wait "$id" --max-wait 15s
	expect_eq cancelled "$(field "$id" status)"
	wait_until 20 "[ -z \"\$(birth \$(cat $DIR/handler))\" ]"
}

# The handler completed before the worker got the command: its result counts, and the audit shows the order of events.
test_a_completion_wins_over_a_cancel() {
	begin --concurrency 1
	id=$(reeve submit sh "$HOLD")
	wait_began "$id"
	signal worker STOP
	reeve cancel "$id" >/dev/null
	release
	wait_ended "$id"
	signal worker CONT
	reeve wait "$id"
	expect_eq 'completed attempt 1' "$(field "$id" status) $(field "$id" result)"
	expect_eq 'submitted claimed cancel_requested completed' "$(events "$id")"
	expect_nothing_open
}

test_failing_after_a_cancel_is_being_cancelled() {
	begin
	for code in 3 65; do
		id=$(reeve submit sh "trap 'exit $code' TERM; $HOLD" --retry-base 1ms)
		wait_began "$id"
		reeve cancel "$id" >/dev/null
		expect_fail 1 reeve wait "$id"
		expect_eq 'cancelled 1' "$(field "$id" status) $(field "$id" attempt)"
	done
	expect_nothing_open
}

test_what_has_ended_stays_as_it_is() {
	begin
	id=$(reeve submit echo hello)
	reeve wait "$id" >/dev/null
	before=$(reeve show "$id" --json)$(reeve audit "$id" --json)
	expect_fail 4 reeve cancel "$id"
	expect_match "$id +completed +no +it has ended" "$OUTPUT"
	expect_eq "$before" "$(reeve show "$id" --json)$(reeve audit "$id" --json)"
	id=$(reeve submit sh 'exit 65')
	expect_fail 1 reeve wait "$id"
	expect_fail 4 reeve cancel "$id"
	id=$(reeve submit echo --delay 1h)
	reeve cancel "$id" >/dev/null
	reeve cancel "$id" >"$DIR/told" # as it was wanted
	expect_match "$id +cancelled +no" "$(cat "$DIR/told")"
	expect_eq 'submitted cancel_requested cancelled' "$(events "$id")"
	expect_nothing_open
}

# The worker that would get the command has died: reclaiming the attempt ends the task.
test_a_cancelled_attempt_of_a_dead_worker_is_not_run_again() {
	start_postgres
	start_manager --lease 4s --heartbeat 800ms --expiry-grace 6s --fetch-wait 300ms
	start_worker
	id=$(reeve submit sh "$HOLD" --timeout 1s)
	wait_began "$id"
	kill_worker
	reeve cancel "$id" >/dev/null # before the lease ends
	start_worker other
	expect_fail 1 reeve wait "$id" --max-wait 20s
	expect_eq 'cancelled 1' "$(field "$id" status) $(field "$id" attempt)"
	expect_match 'claimed cancel_requested .*cancelled' "$(events "$id")"
	expect_match 'last heartbeat of worker worker' "$(event_field "$id" reclaimed note)"
	expect_nothing_open
}

# The command stays in the database until it is carried out. The worker's only slot is taken, so it has no open Fetch,
# and while it is frozen it cannot get the command before the manager is gone.
test_a_cancel_outlives_the_manager() {
	begin --concurrency 1
	id=$(reeve submit sh "$HOLD")
	wait_began "$id"
	signal worker STOP
	reeve cancel "$id" >/dev/null
	kill_manager
	start_manager "${LEASES[@]}"
	signal worker CONT
	expect_fail 1 reeve wait "$id" --max-wait 20s
	expect_eq 'cancelled 1' "$(field "$id" status) $(field "$id" attempt)"
	expect_eq worker "$(event_field "$id" cancelled worker)"
	expect_nothing_open
	stop worker
}

# A drained worker returns its task. A task that was cancelled before that ends cancelled.
test_a_drained_attempt_that_was_cancelled_ends_cancelled() {
	begin --drain-timeout 300ms
	id=$(reeve submit sh "$HOLD")
	wait_began "$id"
	signal worker STOP # so that the cancel cannot come first
	reeve cancel "$id" >/dev/null
	signal worker TERM
	signal worker CONT
	expect_fail 1 reeve wait "$id" --max-wait 20s
	expect_eq cancelled "$(field "$id" status)"
	expect_nothing_open
}

# Hundreds of tasks are cancelled while they wait, start, run and end: each ends once, with one status.
test_cancels_race_with_the_tasks() {
	begin --concurrency 4
	for i in $(seq 1 400); do
		echo '{"details":"sleep 0.0'$((i % 5))'; [ '$((i % 7))' != 3 ]","key":"'"$i"'"}'
	done | reeve submit --bulk - sh --max-attempts 2 --retry-base 20ms >"$DIR/ids"
	local pids=()
	for i in 0 1 2 3; do
		(sed -n "$i~4p" "$DIR/ids" | shuf | xargs -n 20 "$REEVE_BIN/reeve" cancel >/dev/null 2>&1 || true) &
		pids+=($!)
	done
	wait "${pids[@]}"
	reeve wait - <"$DIR/ids" >/dev/null 2>&1 || true
	expect_eq 400 "$(sql "select count(distinct task_id) from task_history where status in ('completed', 'cancelled', 'dead')")"
	expect_eq 0 "$(sql "select count(*) from task_history h where status = 'cancelled'
		and not exists (select from task_events e where e.task_id = h.task_id and e.event = 'cancel_requested')")"
	expect_nothing_open
	expect_eq 0 "$(reeve worker list --json | jq .holding)"
	note "$(sql 'select status, count(*) from task_history group by 1')"
}

run_tests
