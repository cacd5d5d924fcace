#!/usr/bin/env bash
# Rows of tasks and batches that another session keeps locked: they delay no other task, result, batch or claim.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/locks.bash"
. "$(dirname "$0")/pace.bash"

# A lock stays for this time: it shows statements that wait for it again and again.
LONG=5 # s

# Results wait for the lock twice in the first two seconds; then reports are careful for 10 s.
expect_few_waits_of_reports() { # PID MS: when it was locked
	expect_lock_waits report 1 $((3 + ($(ms) - $2) / 10000)) "$1"
}

test_a_locked_task_delays_no_other_result() {
	start_postgres "${LOCK_LOG[@]}"
	start_manager manager "${SHORT[@]}"
	start_worker other --queue plain
	start_calls plain plain
	start_worker worker --queue default --concurrency 30
	for _ in $(seq 30); do jq -cn --arg hold "$HOLD" '$hold'; done | reeve submit --bulk - --type sh >"$DIR/ids"
	while read -r id; do wait_began "$id"; done <"$DIR/ids"
	started plain
	locked=$(sed -n 7p "$DIR/ids")
	from=$(ms)
	hold holder "select from tasks where id = $locked for update"
	pid=$(holder holder)
	release
	wait_until 20 '[ "$(sql "select count(*) from tasks where queue = '"'default'"'")" = 1 ]'
	sleep $LONG
	expect_they_go_on 30 "$from" plain
	expect_eq executing "$(field "$locked" status)"
	expect_few_waits_of_reports "$pid" "$from"
	let_go holder
	wait_status 20 "$locked" completed
	stop_calls plain
	expect_eq 0 "$(sql "select count(*) from task_events where event = 'late_result'")"
}

# A task is locked, so that reports are careful. Another session locks the row of a batch again and again, each time for
# some milliseconds, as a second manager does: reports wait for it.
test_a_locked_task_delays_no_batch_that_two_managers_share() {
	local b pid from
	start_postgres "${LOCK_LOG[@]}"
	start_manager two "${SHORT[@]}"
	start_worker far --queue batched --concurrency 4
	start_manager one "${SHORT[@]}"
	b=$(reeve batch open b --queue batched)
	start_worker near --queue batched --concurrency 4
	start_worker holding --queue default
	id=$(reeve submit sh "$HOLD")
	wait_began "$id"
	start_calls beside batched "$b"
	REEVE_MANAGER=${URL[two]} start_calls other batched "$b"
	started beside other
	hold holder "select from tasks where id = $id for update"
	pid=$(holder holder)
	release
	wait_until 20 "[ \$(waits_of report $pid) -ge 1 ]"
	from=$(ms)
	PGAPPNAME=hold-second PGOPTIONS='-c search_path=reeve' start second bash -c "while echo 'begin;
		select from batches where id = $b for no key update; select pg_sleep(0.02); commit; select pg_sleep(0.02);'; do :; done |
		'$REEVE_TEST_PG_BIN/psql' -XAtq -h '$PGDIR' -U postgres -d reeve"
	# What is waited for, and then acquired.
	wait_until 60 "[ \$(grep -A 3 'reeve-manager report LOG: .* acquired ' '$DIR/log/postgres.log' | grep -c 'function batches_try_lock') -ge 5 ]"
	let_go second
	expect_they_go_on 30 "$from" beside other
	expect_eq executing "$(field "$id" status)"
	let_go holder
	wait_status 20 "$id" completed
	stop_calls beside other
	expect_eq "$(cat "$DIR"/log/{beside,other}.log | grep -c wait)" "$(sql "select completed from batches where id = $b")"
}

# The row of a task's batch is locked. Tasks of another queue, and of another batch of the queue, are not delayed.
test_a_locked_batch_delays_no_other_result() {
	local a b pid from
	start_postgres "${LOCK_LOG[@]}"
	start_manager manager "${SHORT[@]}"
	a=$(reeve batch open a --queue batched)
	b=$(reeve batch open b --queue batched)
	start_worker worker --concurrency 8
	start_calls plain plain
	start_calls beside batched "$b"
	reeve submit sh "$HOLD" --queue batched --batch "$a" >"$DIR/a"
	wait_began "$(cat "$DIR/a")"
	started plain beside
	hold holder "select from batches where id = $a for update"
	pid=$(holder holder)
	from=$(ms)
	release
	start into "$REEVE_BIN/reeve" submit nothing --queue batched --batch "$a" --call-timeout 5m
	sleep $LONG
	expect_they_go_on 30 "$from" plain beside
	expect_eq executing "$(field "$(cat "$DIR/a")" status)"
	expect alive into
	expect_few_waits_of_reports "$pid" "$from"
	expect_lock_waits submit 0 3 "$pid"
	let_go holder
	wait_status 20 "$(cat "$DIR/a")" completed
	ended into 10
	expect_eq 0 "$STATUS" 'exit code of the submit into the locked batch'
	stop_calls plain beside
	wait_until 10 '[ "$(sql "select completed from batches where id = $a")" = 2 ]'
	expect_eq "$(grep -c wait "$DIR/log/beside.log")" "$(sql "select completed from batches where id = $b")"
}

# Simulates a manager that froze while it submitted into a batch: a submit into another batch of the queue does not
# wait.
test_a_submit_into_a_batch_delays_no_other_batch_of_the_queue() {
	local a b pid
	start_postgres "${LOCK_LOG[@]}"
	start_manager manager "${SHORT[@]}"
	reeve queue set batched --autostart yes >/dev/null # a row to be locked
	a=$(reeve batch open a --queue batched)
	b=$(reeve batch open b --queue batched)
	reeve submit nothing --queue batched --batch "$b" >/dev/null
	hold holder "select submit_batches(gen_random_uuid(), array['batched'], array[$a], array[null::text])"
	pid=$(holder holder)
	reeve submit nothing --queue batched --batch "$b" >/dev/null
	expect_eq 0 "$(grep -c "holding the lock: $pid\." "$DIR/log/postgres.log")" 'waits for the other batch'
	# Stopping the queue waits for the lock, because it closes the batches.
	expect_fail 3 reeve queue stop batched --call-timeout 1s
	expect_eq running "$(sql "select state from queues")"
	let_go holder
	reeve queue stop batched >/dev/null
	wait_until 10 '[ "$(sql "select state from queues")" = stopped ]'
	expect_eq 't|t' "$(sql 'select bool_and(closed_at is not null), bool_and(stopped) from batches')"
}

# If the queue is stopped while a submit waits for its batch, the submit is refused.
test_a_submit_that_waits_for_its_batch_hears_that_the_queue_was_stopped() {
	local a
	start_postgres
	start_manager manager "${SHORT[@]}"
	reeve queue set batched --autostart yes >/dev/null
	a=$(reeve batch open a --queue batched)
	stop manager
	hold holder "select from batches where id = $a for update"
	start into "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve -c 'set search_path = reeve' \
		-c "select submit_batches(gen_random_uuid(), array['batched'], array[$a], array[null::text])"
	wait_until 10 '[ "$(sql "select count(*) from pg_locks where not granted")" -ge 1 ]'
	sql "update queues set state = 'stopping', stopped_id = 0, stopped_at = clock_timestamp() where name = 'batched'"
	let_go holder
	ended into 10
	expect_eq 1 "$STATUS" 'exit code of the submit'
	expect_match 'queue "batched" is being stopped; try again' "$(cat "$DIR/log/into.log")"
}

# There are more locked batches than one poll reads. Stopping their queue gives each of them a step.
# measures time
test_locked_batches_hide_no_others() {
	start_postgres
	start_manager manager "${SHORT[@]}"
	start_worker worker
	reeve queue set locked --batches yes >/dev/null
	sql "insert into batches (name, queue, implicit) select 'b' || n, 'locked', false from generate_series(1, 130) n"
	sql "insert into batches (name, queue, implicit) select 'idle' || n, 'batched', false from generate_series(1, 10) n"
	other=$(reeve batch open other --queue batched)
	reeve submit nothing --queue batched --batch "$other" --wait >/dev/null
	hold holder "select from batches where queue = 'locked' for update"
	sql "update queues set state = 'stopped', stopped_id = 0, stopped_at = clock_timestamp() where name = 'locked'"
	sleep 1.5
	reeve batch close "$other" >/dev/null
	begin=$(ms)
	wait_until 40 '[ "$(sql "select phase from batches where id = $other")" = ended ]'
	expect_at_most 3000 $(($(ms) - begin)) 'the end of a batch of another queue'
	expect_eq 0 "$(sql "select count(*) from batches where name like 'idle%' and xmax <> 0")" 'locked though there is nothing to do'
	let_go holder
	wait_until 40 '[ "$(sql "select count(*) from batches where queue = '\''locked'\'' and closed_at is null")" = 0 ]'
}

test_a_task_that_waits_and_is_locked_delays_no_claim() {
	local pid from
	start_postgres "${LOCK_LOG[@]}"
	start_manager manager "${SHORT[@]}"
	for n in 1 2 3; do reeve submit nothing --queue plain >>"$DIR/ids"; done
	hold holder "select from tasks where id = $(head -n 1 "$DIR/ids") for update"
	pid=$(holder holder)
	start_worker worker --concurrency 4
	wait_until 10 '[ "$(sql "select count(*) from tasks")" = 1 ]'
	from=$(ms)
	start_calls plain plain
	sleep $LONG
	expect_they_go_on 30 "$from" plain
	stop_calls plain
	# After the first lock timeout, claims do not wait for the locked task any more, however often they try it.
	expect_lock_waits claim 0 1 "$pid"
	let_go holder
	wait_until 20 '[ "$(sql "select count(*) from tasks")" = 0 ]'
}

# measures time
test_what_a_dead_worker_held_is_requeued_though_its_batch_is_locked() {
	start_postgres
	start_manager manager --lease 2s --heartbeat 400ms --expiry-grace 3s
	a=$(reeve batch open a --queue batched)
	reeve submit sh "$HOLD" --queue batched --batch "$a" --max-attempts 1 >"$DIR/a"
	plain=$(reeve submit sh "$HOLD")
	start_worker worker --concurrency 4
	wait_began "$plain"
	wait_began "$(cat "$DIR/a")"
	hold holder "select from batches where id = $a for update"
	kill_worker worker
	begin=$(ms)
	start_worker second --concurrency 4
	wait_began "$plain" 2
	expect_at_most 4000 $(($(ms) - begin)) 'the plain task, begun again: the lease and two seconds'
	let_go holder
	wait_status 10 "$(cat "$DIR/a")" dead
	release
	reeve wait "$plain" >/dev/null
}

# Selects the tasks of all open journal rows but the last five.
all_but_five="select t.id from tasks t join assignments a on a.id = t.assignment_id
	where t.status = 'executing' and a.id < (select min(id) from (select id from assignments where closed_at is null order by id desc limit 5) x)"

# There are more locked tasks than one poll reads, each in a journal row of its own.
# measures time
test_locked_tasks_of_a_dead_worker_hide_none_of_its_others() {
	start_postgres
	start_manager manager --lease 2s --heartbeat 400ms --expiry-grace 3s
	start_worker worker --concurrency 70
	for n in $(seq 70); do
		reeve submit sh "$HOLD" >>"$DIR/ids"
		wait_until 20 "[ \"\$(sql \"select count(*) from tasks where status = 'executing'\")\" = $n ]"
	done
	expect_eq 70 "$(sql "select count(*) from assignments where closed_at is null")"
	hold holder "select from tasks where id in ($all_but_five) for update"
	kill_worker worker
	begin=$(ms)
	wait_until 10 '[ "$(sql "select count(*) from tasks where status <> '"'executing'"'")" = 5 ]'
	expect_at_most 4000 $(($(ms) - begin)) 'taking back those that nobody had locked'
	let_go holder
	begin=$(ms)
	wait_until 10 '[ "$(sql "select count(*) from tasks where status <> '"'executing'"'")" = 70 ]'
	expect_at_most 2500 $(($(ms) - begin)) 'taking back the others, after the lock went'
}

# measures time
test_locked_attempts_past_their_expiry_hide_no_others() {
	start_postgres
	start_manager manager --lease 1s --heartbeat 400ms --expiry-grace 1500ms
	for n in $(seq 230); do echo '{}'; done >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" sh --timeout 1h >/dev/null
	for n in 1 2; do
		start "hand$n" bash -c "for n in \$(seq 115); do '$REEVE_BIN/reeve' fetch --manager '$REEVE_MANAGER' >/dev/null; done"
	done
	for n in 1 2; do ended "hand$n" 120; done
	expect_eq 230 "$(sql "select count(*) from assignments where closed_at is null")"
	# Sets all expiries to 4 s from now. The attempts that will be locked expire first.
	sql "begin; update tasks set expiry = now() + '4s' where status = 'executing';
		update assignments set next_expiry = now() + '4s' + interval '1us' * id where closed_at is null; commit"
	begin=$(ms)
	hold holder "select from tasks where id in ($all_but_five) for update"
	wait_until 15 '[ "$(sql "select count(*) from tasks where status <> '"'executing'"'")" = 5 ]'
	expect_at_most 7000 $(($(ms) - begin)) 'taking back those that nobody had locked'
	let_go holder
	begin=$(ms)
	wait_until 10 '[ "$(sql "select count(*) from tasks where status <> '"'executing'"'")" = 230 ]'
	expect_at_most 2500 $(($(ms) - begin)) 'taking back the others, after the lock went'
}

run_tests
