#!/usr/bin/env bash
# Queues: start and stop, and what is submitted during a stop.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/queues.bash"
. "$(dirname "$0")/pipelines.bash"
. "$(dirname "$0")/locks.bash"

start_postgres
start_manager other
start_manager manager

test_with_autostart_off_a_batch_waits_for_start() {
	start_worker worker --concurrency 4
	reeve queue set held --autostart no >"$DIR/out"
	expect_match 'batches +on' "$(cat "$DIR/out")"
	a=$(reeve submit echo a --queue held)
	b=$(at_other submit echo b --queue held)
	expect_eq 'not_started 2 0' "$(status_of held state,waiting,running)"
	expect_fail 1 reeve wait "$a" --max-wait 1s
	# After a pause and a resume it still waits for its start.
	reeve queue pause held >/dev/null
	expect_eq 'held: resumed; it waits to be started' "$(reeve queue resume held)"
	expect_fail 4 reeve queue resume held
	expect_match 'it waits to be started' "$OUTPUT"
	expect_eq not_started "$(state held)"
	expect_eq 'held: started' "$(at_other queue start held)"
	reeve wait "$a" "$b" --max-wait 30s >/dev/null
	wait_state 30 held finished
	expect_eq 'ended 2 0 2 0' "$(reeve queue status held --json | jq -r '.batch | [.state, .submitted, .pending, .completed, .failed] | join(" ")')"
	# The next batch waits again, and so does one that begins while the queue is paused.
	c=$(reeve submit echo c --queue held)
	expect_eq not_started "$(state held)"
	reeve queue start held >/dev/null
	reeve wait "$c" --max-wait 30s >/dev/null
	wait_state 30 held finished
	reeve queue pause held >/dev/null
	d=$(reeve submit echo d --queue held)
	expect_eq 'held: resumed; it waits to be started' "$(reeve queue resume held)"
	expect_eq queued "$(field "$d" status)"
	reeve queue start held >/dev/null
	reeve wait "$d" --max-wait 30s >/dev/null
}

test_a_stop_ends_everything_and_the_next_submit_starts_again() {
	start_worker worker --concurrency 4
	reeve queue set stopping --batches yes --exit nothing >/dev/null
	explicit=$(reeve batch open mine --queue stopping)
	running=$(reeve submit sh "$HOLD" --queue stopping)
	wait_began "$running"
	reeve queue pause stopping >/dev/null
	queued=$(reeve submit echo x --queue stopping --key k)
	late=$(at_other submit echo x --queue stopping --delay 1h)
	own=$(reeve submit echo x --queue stopping --batch "$explicit")
	expect_eq 'stopping: stopped' "$(reeve queue stop stopping --wait)"
	expect_eq 'cancelled dead dead dead' "$(for id in $running $queued $late $own; do field "$id" status; done | xargs)"
	expect_eq 'queue_stopped queue_stopped' "$(field "$queued" error_code) $(field "$own" error_code)"
	expect_eq 'queue "stopping" was stopped' "$(field "$late" last_error)"
	expect_match '^submitted discard_requested dead$' "$(events "$queued")"
	wait_until 30 '[ "$(reeve batch list --queue stopping --json | jq -r "[.state, .submitted, .failed] | join(\" \")" | xargs)" = "ended 3 3 ended 1 1" ]'
	expect_eq 'queue_stop_requested queue_stopped' "$(reeve audit --json | jq -r 'select(.note == "queue stopping") | .event' | tail -n 2 | xargs)"
	expect_eq 0 "$(sql "select count(*) from all_tasks where queue = 'stopping' and type = 'nothing'")" 'exit tasks'
	expect_match 'batch [0-9]+ .*, stopped: [13] submitted, 0 pending' "$(reeve queue status stopping)"
	expect_fail 4 reeve queue pause stopping
	expect_match 'is stopped; start it' "$OUTPUT"
	expect_fail 4 reeve submit echo x --queue stopping --batch "$explicit"
	expect_eq stopped "$(state stopping)"
	# The next submit opens a new batch, and its task runs. The key of an ended task still returns that task.
	expect_eq "$queued" "$(reeve submit echo x --queue stopping --key k 2>/dev/null)"
	next=$(at_other submit echo x --queue stopping)
	reeve wait "$next" --max-wait 30s >/dev/null
	wait_state 30 stopping finished
	expect_eq 'ended 1 1' "$(reeve queue status stopping --json | jq -r '.batch | [.state, .submitted, .completed] | join(" ")')"
	expect_eq 1 "$(sql "select count(*) from all_tasks where queue = 'stopping' and type = 'nothing'")" 'exit tasks'
}

# Between the end of a batch's last task and the end of the batch, a manager may submit its exit task.
test_a_queue_is_not_finished_before_its_batch() {
	start_worker worker
	reeve queue set emptied --batches yes >/dev/null
	reeve submit echo x --queue emptied --wait >/dev/null
	wait_state 30 emptied finished
	expect_eq running "$(sql "begin; update batches set phase = 'running', ended_at = null where queue = 'emptied';
		select state from queue_view('emptied'); rollback")"
}

# A manager that does not know of the stop yet creates a task: the task is not lost, and does not stay queued.
test_a_task_committed_during_a_stop_runs() {
	start_worker worker --concurrency 4
	reeve submit echo x --queue behind --wait >/dev/null
	reeve queue stop behind --wait >/dev/null
	sql "insert into tasks (route_id, queue, type, run_at, created, last_updated)
		select id, queue, type, now(), now(), clock_timestamp() from routes where queue = 'behind'"
	wait_until 30 "[ \"\$(sql \"select count(*) from task_history where queue = 'behind' and status = 'completed'\")\" = 2 ]"
	expect_eq finished "$(state behind)"
	# A task whose submit was in progress when the queue was stopped ends like the others.
	reeve queue stop behind --wait >/dev/null
	sql "update queues set stopped_id = stopped_id + 1 where name = 'behind';
		insert into tasks (route_id, queue, type, run_at, created, last_updated)
		select id, queue, type, now(), now(), now() - interval '1 hour' from routes where queue = 'behind'"
	wait_until 30 "[ \"\$(sql \"select count(*) from task_history where queue = 'behind' and error_code = 'queue_stopped'\")\" = 1 ]"
	expect_eq stopped "$(state behind)"
}

# What is retried or opened later comes after the stop, whatever time the clock showed at the stop.
test_a_task_is_retried_after_a_stop_by_a_clock_that_was_ahead() {
	start_worker worker
	id=$(reeve submit sh '[ -e "$REEVE_TEST_DIR/released" ] || exit 65' --queue early)
	expect_fail 1 reeve wait "$id" --max-wait 30s
	reeve queue stop early --wait >/dev/null
	sql "update queues set stopped_at = now() + interval '1 hour' where name = 'early'"
	wait_until 10 "[ \"\$(sql \"select stopped_at < clock_timestamp() from queues where name = 'early'\")\" = t ]"
	release
	reeve retry "$id" >/dev/null
	reeve wait "$id" --max-wait 30s >/dev/null
	expect_eq completed "$(field "$id" status)"
}

# Reeve's callback tasks, which report a batch's end, start no queue. No other task can have their source.
test_a_source_of_any_name_starts_its_queue() {
	start_worker worker
	reeve submit echo x --queue called --wait >/dev/null
	reeve queue stop called --wait >/dev/null
	sql "begin; select reeve.submit('echo', 'x', queue => 'called', source => 'callback of batch x'); commit" >/dev/null
	wait_until 30 "[ \"\$(sql \"select count(*) from task_history where queue = 'called' and status = 'completed'\")\" = 2 ]"
	id=$(reeve batch open told --queue called --callback-type echo) # three callback tasks: begin, task, end
	reeve submit echo x --queue called --batch "$id" >/dev/null
	reeve batch close "$id" >/dev/null
	wait_until 30 "[ \"\$(sql \"select count(*) from task_history where queue = 'called' and source = 'callback of batch $id'\")\" = 3 ]"
	wait_until 30 "[ \"\$(sql \"select count(*) from tasks where queue = 'called'\")\" = 0 ]"
	reeve queue stop called --wait >/dev/null
	expect_match 'source is reserved' "$(sql "select reeve.submit('echo', 'y', queue => 'called', source => 'callback of batch $id')" 2>&1 || true)"
	expect_fail 4 reeve submit echo y --queue called --source "callback of batch $id"
	expect_match 'source is reserved: it marks the callback tasks' "$OUTPUT"
	expect_eq 0 "$(sql "select count(*) from tasks where queue = 'called'")"
}

# A task that runs again keeps its id, so a stop takes it for an older one. So a newer version waits for the end of the stop.
test_a_newer_version_by_sql_is_refused_during_a_stop() {
	start_worker worker
	submit_by_sql() { # KEY VERSION DETAILS
		sql "select reeve.submit('echo', '$3', queue => 'renewed', key => '$1', version => $2)"
	}
	ended=$(submit_by_sql ended 1 one)
	reeve wait "$ended" --max-wait 30s >/dev/null
	held=$(reeve submit by-hand --queue renewed --key held --key-version 1)
	token=$(reeve fetch --json --max-wait 20s --queue renewed | jq .token)
	reeve queue stop renewed >/dev/null
	for key in ended held; do
		expect_fail 1 submit_by_sql $key 2 two
		expect_match 'queue "renewed" is being stopped; try again' "$OUTPUT"
	done
	expect_eq "$ended" "$(submit_by_sql ended 1 old)"
	expect_eq stopping "$(state renewed)"
	reeve report "$held" "$token" --completed by-hand >/dev/null
	wait_state 30 renewed stopped
	for key in ended held; do
		id=$(submit_by_sql $key 2 two)
		reeve wait "$id" --max-wait 30s >/dev/null
		expect_eq "${!key} two" "$id $(field "$id" result)"
	done
}

# The key of a task stays in the queue in which it began; a stop of the queue in which it executes would end it, too.
test_a_newer_version_waits_for_the_stop_of_the_task_s_queue() {
	define '{"name": "p", "stages": [{"name": "a", "type": "by-hand", "queue": "begin"}, {"name": "b", "type": "by-hand", "queue": "next"}]}' >/dev/null
	reeve submit --pipeline p one --key k --key-version 1 >/dev/null
	for _ in 1 2; do
		take --queue begin,next
		[ "$stage" = b ] || reeve report "$id" "$token" --completed one >/dev/null
	done
	reeve queue stop next >/dev/null
	expect_fail 1 sql "select reeve.submit(pipeline => 'p', details => 'two', key => 'k', version => 2)"
	expect_match 'queue "next" is being stopped; try again' "$OUTPUT"
	reeve report "$id" "$token" --completed two >/dev/null
	wait_state 30 next stopped
	expect_eq "$id" "$(sql "select reeve.submit(pipeline => 'p', details => 'two', key => 'k', version => 2)")"
	take --queue begin
	expect_eq 'a two' "$stage $input"
	reeve report "$id" "$token" --fatal over >/dev/null
}

# 5,000 tasks wait and one runs; the manager that stops the queue dies in the middle of that.
test_a_stop_continues_when_its_manager_dies() {
	start_worker worker --concurrency 4
	start_manager doomed
	reeve queue set big --batches yes >/dev/null
	a=$(reeve submit sh "$HOLD" --queue big)
	wait_began "$a"
	reeve queue pause big >/dev/null
	for _ in $(seq 1 5000); do echo '{}'; done | reeve submit --bulk - echo --queue big >/dev/null
	# A locked row keeps the stop from completing.
	hold row "select from tasks where queue = 'big' order by id desc limit 1 for update"
	reeve queue stop big >"$DIR/out"
	expect_eq 'big: being stopped' "$(cat "$DIR/out")"
	wait_until 30 "[ \"\$(sql \"select count(*) from task_history where queue = 'big'\")\" -gt 1000 ]"
	kill_manager doomed
	export REEVE_MANAGER=${URL[manager]}
	expect_eq stopping "$(state big)"
	expect_fail 4 reeve queue pause big
	expect_match 'queue "big" is being stopped' "$OUTPUT"
	let_go row
	wait_state 30 big stopped
	expect_eq 'cancelled cancelled 1, dead queue_stopped 5000' "$(how_ended big)"
	expect_eq 5001 "$(sql "select count(distinct task_id) from task_history where queue = 'big'")"
	wait_until 30 '[ "$(reeve queue status big --json | jq -r ".batch | [.state, .submitted, .pending, .failed] | join(\" \")")" = "ended 5001 0 5001" ]'
	expect_eq 1 "$(sql "select count(*) from queue_events where queue = 'big' and event = 'queue_stopped'")"
}

# A submit during a stop waits until the queue is stopped, and then starts it again.
test_a_submit_waits_for_the_end_of_a_stop() {
	start_worker worker --concurrency 4
	reeve queue set waiting --batches yes >/dev/null
	a=$(reeve submit sh 'trap "touch $REEVE_TEST_DIR/told" TERM; touch "$REEVE_TEST_DIR/began.$REEVE_TASK_ID.1"
		until [ -e "$REEVE_TEST_DIR/end" ]; do sleep 0.05; done' --queue waiting)
	wait_began "$a"
	reeve queue stop waiting >/dev/null
	start late "$REEVE_BIN/reeve" submit echo x --queue waiting --wait
	sleep 1
	expect_eq stopping "$(state waiting)"
	wait_until 10 '[ -e "$DIR/told" ]' # before that its worker may report it as completed
	expect alive late
	expect_eq 1 "$(sql "select count(*) from tasks where queue = 'waiting'")"
	touch "$DIR/end"
	ended late 30
	expect_eq 0 "$STATUS"
	expect_eq cancelled "$(field "$a" status)"
	expect_eq '1 0, 0 1' "$(sql "select string_agg(failed || ' ' || completed, ', ' order by id) from batches where queue = 'waiting'")"
}

run_tests
