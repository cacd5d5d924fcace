#!/usr/bin/env bash
# Queues: their settings, and the actions start, stop, pause, resume, purge and delete.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager other
start_manager manager

state() { # QUEUE
	reeve queue status "$1" --json | jq -r .state
}

status_of() { # QUEUE FIELD,…: of its status, in one line
	reeve queue status "$1" --json | jq -r "[.${2//,/,.}] | join(\" \")"
}

wait_state() { # SECONDS QUEUE STATE
	wait_until "$1" "[ \"\$(state $2)\" = $3 ]"
}

at_other() { # COMMAND…: reeve, at the other manager
	local manager=${URL[other]}
	REEVE_MANAGER=$manager reeve "$@"
}

how_ended() { # QUEUE: how its tasks have ended, "completed 3, dead queue_stopped 5"
	sql "select string_agg(x, ', ' order by x) from (
		select concat_ws(' ', status, error_code, count(*)) as x from task_history where queue = '$1' group by status, error_code) y"
}

test_settings_are_set_shown_and_left_alone() {
	reeve queue set letters --retry-limit 5 --resting 5s --waiting 10s --backoff linear:3s --verbose yes >"$DIR/out"
	expect_match 'retries +5 after the first attempt' "$(cat "$DIR/out")"
	expect_match 'backoff +linear:3s:5s' "$(cat "$DIR/out")"
	reeve queue set letters --jitter 0 --backoff linear:3s --keep completed=7d --keep dead=90d,cancelled=1d >/dev/null
	expect_eq '5 5000 10000 true true linear 5000 3000 -1 604800000 7776000000 86400000 created' "$(reeve queue describe letters --json |
		jq -r '[.settings | .retry_limit, .resting_ms, .waiting_ms, .autostart, .verbose, .retry.kind, .retry.base_ms, .retry.step_ms,
			.retry.jitter_percent, .keep_completed_ms, .keep_dead_ms, .keep_cancelled_ms] + [.state] | join(" ")')"
	# A linear backoff without a base begins with the resting period, even if that changes later.
	reeve queue set letters --resting 2s >/dev/null
	expect_eq 2000 "$(reeve queue describe letters --json | jq .settings.retry.base_ms)"
	reeve queue set letters --backoff default --retry-limit -1 --keep completed=default >/dev/null
	expect_eq '4 exponential 1000 3600000 25 0' "$(reeve queue describe letters --json |
		jq -r '.settings | [.retry_limit, .retry.kind, .retry.base_ms, .retry.max_ms, .retry.jitter_percent, .keep_completed_ms // 0] | join(" ")')"
	expect_eq 4 "$(reeve --manager "${URL[other]}" audit --json | jq -r 'select(.event == "queue_set") | .note' | grep -c '^queue letters')"
}

test_a_paused_queue_gives_no_task_until_it_is_resumed() {
	start_worker worker --concurrency 4
	a=$(reeve submit sh "$HOLD" --queue pausing)
	wait_began "$a"
	expect_eq 'pausing: paused' "$(reeve queue pause pausing)"
	expect_eq paused "$(state pausing)"
	b=$(reeve submit echo b --queue pausing)
	c=$(at_other submit echo c --queue pausing)
	reeve submit echo d --queue elsewhere --wait >/dev/null
	expect_eq 'paused 2 1' "$(status_of pausing state,waiting,running)"
	release
	reeve wait "$a" >/dev/null
	# Tasks of other queues are taken during the pause, those of this queue by neither manager.
	for _ in 1 2 3; do at_other submit echo d --queue elsewhere --wait >/dev/null; done
	expect_eq 'queued queued' "$(field "$b" status) $(field "$c" status)"
	expect_eq 'pausing: paused' "$(at_other queue pause pausing)" # what is so already stays so
	expect_eq 'pausing: resumed' "$(at_other queue resume pausing)"
	reeve wait "$b" "$c" --max-wait 5s >/dev/null
	expect_eq finished "$(state pausing)"
	expect_eq 'queue_paused queue_resumed' "$(reeve audit --json | jq -r 'select(.note == "queue pausing") | .event' | xargs)"
}

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
	reeve wait "$a" "$b" --max-wait 5s >/dev/null
	wait_state 5 held finished
	expect_eq 'ended 2 0 2 0' "$(reeve queue status held --json | jq -r '.batch | [.state, .submitted, .pending, .completed, .failed] | join(" ")')"
	# The next batch waits again, and so does one that begins while the queue is paused.
	c=$(reeve submit echo c --queue held)
	expect_eq not_started "$(state held)"
	reeve queue start held >/dev/null
	reeve wait "$c" --max-wait 5s >/dev/null
	wait_state 5 held finished
	reeve queue pause held >/dev/null
	d=$(reeve submit echo d --queue held)
	expect_eq 'held: resumed; it waits to be started' "$(reeve queue resume held)"
	expect_eq queued "$(field "$d" status)"
	reeve queue start held >/dev/null
	reeve wait "$d" --max-wait 5s >/dev/null
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
	wait_until 5 '[ "$(reeve batch list --queue stopping --json | jq -r "[.state, .submitted, .failed] | join(\" \")" | xargs)" = "ended 3 3 ended 1 1" ]'
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
	reeve wait "$next" --max-wait 5s >/dev/null
	wait_state 5 stopping finished
	expect_eq 'ended 1 1' "$(reeve queue status stopping --json | jq -r '.batch | [.state, .submitted, .completed] | join(" ")')"
	expect_eq 1 "$(sql "select count(*) from all_tasks where queue = 'stopping' and type = 'nothing'")" 'exit tasks'
}

# Between the end of a batch's last task and the end of the batch, a manager may submit its exit task.
test_a_queue_is_not_finished_before_its_batch() {
	start_worker worker
	reeve queue set emptied --batches yes >/dev/null
	reeve submit echo x --queue emptied --wait >/dev/null
	wait_state 5 emptied finished
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
	wait_until 5 "[ \"\$(sql \"select count(*) from task_history where queue = 'behind' and status = 'completed'\")\" = 2 ]"
	expect_eq finished "$(state behind)"
	# A task whose submit was in progress when the queue was stopped ends like the others.
	reeve queue stop behind --wait >/dev/null
	sql "update queues set stopped_id = stopped_id + 1 where name = 'behind';
		insert into tasks (route_id, queue, type, run_at, created, last_updated)
		select id, queue, type, now(), now(), now() - interval '1 hour' from routes where queue = 'behind'"
	wait_until 5 "[ \"\$(sql \"select count(*) from task_history where queue = 'behind' and error_code = 'queue_stopped'\")\" = 1 ]"
	expect_eq stopped "$(state behind)"
}

# Reeve's callback tasks, which report a batch's end, start no queue. No other task can have their source.
test_a_source_of_any_name_starts_its_queue() {
	start_worker worker
	reeve submit echo x --queue called --wait >/dev/null
	reeve queue stop called --wait >/dev/null
	sql "begin; select reeve.submit('echo', 'x', queue => 'called', source => 'callback of batch x'); commit" >/dev/null
	wait_until 5 "[ \"\$(sql \"select count(*) from task_history where queue = 'called' and status = 'completed'\")\" = 2 ]"
	id=$(reeve batch open told --queue called --callback-type echo) # three callback tasks: begin, task, end
	reeve submit echo x --queue called --batch "$id" >/dev/null
	reeve batch close "$id" >/dev/null
	wait_until 10 "[ \"\$(sql \"select count(*) from task_history where queue = 'called' and source = 'callback of batch $id'\")\" = 3 ]"
	wait_until 10 "[ \"\$(sql \"select count(*) from tasks where queue = 'called'\")\" = 0 ]"
	reeve queue stop called --wait >/dev/null
	expect_match 'source is reserved' "$(sql "select reeve.submit('echo', 'y', queue => 'called', source => 'callback of batch $id')" 2>&1 || true)"
	expect_fail 4 reeve submit echo y --queue called --source "callback of batch $id"
	expect_match 'source is reserved: it marks the callback tasks' "$OUTPUT"
	expect_eq 0 "$(sql "select count(*) from tasks where queue = 'called'")"
}

test_a_purge_cancels_what_waits() {
	start_worker worker --concurrency 4
	a=$(reeve submit sh "$HOLD" --queue purged)
	wait_began "$a"
	reeve queue pause purged >/dev/null
	for _ in $(seq 1 2500); do echo '{}'; done | reeve submit --bulk - echo --queue purged --delay 1h >/dev/null
	expect_eq 'purged: purged, 2500 tasks cancelled' "$(at_other queue purge purged)"
	expect_eq '{"queue":"purged","state":"paused","tasks":0}' "$(reeve queue purge purged --json)"
	expect_eq executing "$(field "$a" status)"
	expect_eq 'cancelled 2500' "$(how_ended purged)"
	release
	reeve wait "$a" >/dev/null
	expect_eq completed "$(field "$a" status)"
}

test_a_queue_with_live_tasks_is_not_deleted() {
	start_worker worker --concurrency 4
	reeve queue set deleted --retry-limit 7 >/dev/null
	reeve queue pause deleted >/dev/null
	a=$(reeve submit echo x --queue deleted)
	reeve submit echo x --queue deleted >/dev/null
	expect_fail 4 reeve queue delete deleted
	expect_match 'queue "deleted" has 2 live tasks; purge or stop it first' "$OUTPUT"
	reeve queue purge deleted >/dev/null
	expect_eq 'deleted: deleted' "$(reeve queue delete deleted)"
	expect_eq 'false 4' "$(reeve queue describe deleted --json | jq -r '[.is_set, .settings.retry_limit] | join(" ")')"
	expect_eq cancelled "$(field "$a" status)"
	reeve queue delete deleted >/dev/null # nothing to do
	reeve submit echo x --queue deleted --wait >/dev/null
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
	PGOPTIONS='-c search_path=reeve' "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve >/dev/null <<-END &
		begin;
		select id from tasks where queue = 'big' order by id desc limit 1 for update;
		select pg_sleep(3);
		commit;
	END
	holder=$!
	reeve queue stop big >"$DIR/out"
	expect_eq 'big: being stopped' "$(cat "$DIR/out")"
	wait_until 10 "[ \"\$(sql \"select count(*) from task_history where queue = 'big'\")\" -gt 1000 ]"
	kill_manager doomed
	export REEVE_MANAGER=${URL[manager]}
	expect_eq stopping "$(state big)"
	expect_fail 4 reeve queue pause big
	expect_match 'queue "big" is being stopped' "$OUTPUT"
	wait "$holder"
	wait_state 20 big stopped
	expect_eq 'cancelled cancelled 1, dead queue_stopped 5000' "$(how_ended big)"
	expect_eq 5001 "$(sql "select count(distinct task_id) from task_history where queue = 'big'")"
	wait_until 5 '[ "$(reeve queue status big --json | jq -r ".batch | [.state, .submitted, .pending, .failed] | join(\" \")")" = "ended 5001 0 5001" ]'
	expect_eq 1 "$(sql "select count(*) from queue_events where queue = 'big' and event = 'queue_stopped'")"
}

# A transaction that changed a queue first is committed after that of another queue, without a notification.
test_managers_learn_of_a_change_that_is_committed_late() {
	start_worker worker --queue slow
	reeve queue set quick --retry-limit 2 >/dev/null
	reeve queue pause slow >/dev/null
	waiting=$(reeve submit nothing --queue slow)
	PGAPPNAME=late sql "begin; update queues set state = 'running', updated = clock_timestamp() where name = 'slow';
		select pg_sleep(3); commit" >/dev/null &
	late=$!
	wait_until 10 "[ \"\$(sql \"select count(*) from pg_stat_activity where application_name = 'late' and wait_event = 'PgSleep'\")\" = 1 ]"
	reeve queue set quick --retry-limit 3 >/dev/null
	wait "$late"
	expect reeve wait "$waiting" --max-wait 10s >/dev/null
}

test_settings_go_for_the_tasks_that_follow() {
	start_worker worker --concurrency 4
	reeve queue set limited --retry-limit 2 --backoff fixed:100ms --jitter 0 >/dev/null
	wait_until 3 '[ "$(at_other queue describe limited --json | jq .settings.retry_limit)" = 2 ]'
	a=$(reeve submit sh 'exit 3' --queue limited)
	b=$(reeve submit sh 'exit 3' --queue limited --max-attempts 1)
	expect_fail 1 reeve wait "$a" "$b"
	expect_eq '3 1' "$(field "$a" attempt) $(field "$b" attempt)"
	expect_eq '00:00:00.1 00:00:00.1' "$(sql "select run_at - last_updated from task_attempts where task_id = $a order by attempt" | xargs)"
	# Linear: first the resting period, then a step more each time. A task with a policy of its own keeps it.
	reeve queue set limited --resting 200ms --backoff linear:100ms --jitter 0 --retry-limit 3 >/dev/null
	a=$(reeve submit sh 'exit 3' --queue limited)
	b=$(reeve submit sh 'exit 3' --queue limited --backoff linear:300ms --jitter 0 --max-attempts 3)
	expect_fail 1 reeve wait "$a" "$b"
	expect_eq '00:00:00.2 00:00:00.3 00:00:00.4' "$(sql "select run_at - last_updated from task_attempts where task_id = $a order by attempt" | xargs)"
	expect_eq '00:00:00.2 00:00:00.5' "$(sql "select run_at - last_updated from task_attempts where task_id = $b order by attempt" | xargs)"
}

# A worker waits once, from its start, before its first task of the queue; and its slot takes no task for the resting
# period after each one. That period begins at the handler's end, a little earlier than the time in the tables.
test_workers_keep_waiting_and_resting_periods() {
	reeve queue set slow --waiting 3s --resting 1s >/dev/null
	for _ in 1 2 3; do echo '{}'; done | reeve submit --bulk - echo --queue slow >"$DIR/ids"
	start_worker worker --concurrency 1
	reeve wait - --max-wait 30s <"$DIR/ids"
	sql "select token - registered > '2.5s' from task_history h join workers w on w.id = h.worker_id
			where h.queue = 'slow' order by token limit 1;
		select min(gap) > '0.9s' from (select token - lag(last_updated) over (order by token) as gap
			from task_history where queue = 'slow') g" >"$DIR/out"
	expect_eq 't t' "$(xargs <"$DIR/out")" 'the first after waiting, the others after rests'
}

# A resent call, as after a lost answer, changes nothing more.
test_a_resent_call_changes_nothing() {
	local now # ids of long ago are forgotten
	now=$(sql "select lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0')")
	reeve queue set twice --verbose no >/dev/null
	again() { # ACTION
		sql "select state from queue_control('${now}70008000000000000001', 'twice', '$1', 'me')"
	}
	expect_eq paused "$(again pause)"
	reeve queue resume twice >/dev/null
	expect_eq running "$(again pause)"
	expect_eq created "$(state twice)"
	expect_eq 'queue_paused queue_resumed' "$(sql "select event from queue_events where queue = 'twice' and event <> 'queue_set' order by id" | xargs)"
	OUTPUT=$(sql "insert into requests (id, task_ids) values ('${now}70008000000000000002', '{}');
		select queue_control('${now}70008000000000000002', 'twice', 'pause', 'me')" 2>&1) && fail 'another call id was taken'
	expect_match 'the request id was used for another call' "$OUTPUT"
}

test_a_verbose_queue_is_in_the_log_and_others_are_not() {
	start_worker worker --concurrency 4
	reeve queue set loud --verbose yes --retry-limit 1 --backoff fixed:10ms >/dev/null
	a=$(reeve submit sh '[ $REEVE_ATTEMPT = 2 ] || exit 3' --queue loud)
	b=$(reeve submit sh 'exit 65' --queue loud)
	c=$(reeve submit echo x --queue quiet)
	expect_fail 1 reeve wait "$a" "$b" "$c"
	cat "$SUITE_DIR"/log/{manager,other}.log >"$DIR/logs"
	expect_match "queue \"loud\": task $a \(sh\): submitted by" "$(cat "$DIR/logs")"
	expect_match "task $a \(sh\): claimed by worker [0-9]+, attempt 1 of 2" "$(cat "$DIR/logs")"
	expect_match "task $a \(sh\): failed, attempt 1: exit:3: exit status 3; due again in" "$(cat "$DIR/logs")"
	expect_match "task $a \(sh\): completed, attempt 2: " "$(cat "$DIR/logs")"
	expect_match "task $b \(sh\): dead, attempt 1: exit:65: exit status 65" "$(cat "$DIR/logs")"
	expect_no_match "queue \"quiet\"" "$(cat "$DIR/logs")"
	# Also the waits of workers, and their end.
	reeve queue set loud --batches yes --waiting 2s --resting 1s >/dev/null
	d=$(reeve submit sh 'exit 0' --queue loud)
	reeve wait "$d" >/dev/null
	number=$(worker_incarnation worker)
	stop worker
	wait_until 5 "grep -q 'worker $number has ended' '$SUITE_DIR/log/manager.log'"
	cat "$SUITE_DIR"/log/{manager,other}.log >"$DIR/logs"
	expect_match 'queue "loud": no task is assigned for (2s|1\.[0-9]+s|1s[0-9]+ms): its waiting period' "$(cat "$DIR/logs")"
	expect_match "task $d \(sh\): its slot rests for 1s" "$(cat "$DIR/logs")"
}

# What a worker did for this queue and this batch, whatever else it does.
test_workers_count_by_queue_and_batch() {
	start_worker worker --concurrency 2
	reeve queue set counted --batches yes --retry-limit 0 >/dev/null
	reeve submit sh 'exit 0' --queue counted-too --wait >/dev/null
	expect_fail 1 reeve submit sh 'exit 1' --queue counted-too --max-attempts 1 --wait
	for _ in 1 2; do
		printf '{"details":"exit %d"}\n' 0 0 1 | reeve submit --bulk - sh --queue counted >"$DIR/ids" # together: one batch
		expect_fail 1 reeve wait - <"$DIR/ids"
		wait_state 5 counted finished
	done
	counts='reeve queue status counted --json | jq -r ".workers[] | select(.name == \"worker\")
		| [.batch_succeeded, .batch_failed, .queue_succeeded, .queue_failed, .succeeded, .failed] | join(\" \")"'
	wait_until 10 "[ \"\$($counts)\" = '2 1 4 2 5 3' ]"
	expect_match ' worker +alive +running +[^ ]+ +0 +2 +1 ' "$(reeve queue status counted)"
	wait_until 10 '[ "$(reeve queue status counted-too --json | jq -r ".workers[] | select(.name == \"worker\")
		| [.queue_succeeded, .queue_failed] | join(\" \")")" = "1 1" ]'
	expect_match ' worker +alive +running +[^ ]+ +0 +1 +1 ' "$(reeve queue status counted-too)"
}

test_tasks_get_the_queues_defaults() {
	reeve queue set d --priority 7 --timeout 5m --retry-limit 2 >/dev/null
	expect_match 'priority +7' "$(reeve queue describe d)"
	expect_match 'timeout +5m' "$(reeve queue describe d)"
	of() { sql "select priority, timeout_ms, max_attempts from tasks where id = $1"; }
	expect_eq '7|300000|3' "$(of "$(reeve submit nothing --queue d)")"
	expect_eq '0|1000|1' "$(of "$(reeve submit nothing --queue d --priority 0 --timeout 1s --max-attempts 1)")"
	expect_eq '0|300000|3' "$(of "$(echo '{"type": "nothing", "priority": 0}' | reeve submit --bulk - --queue d)")"
	expect_eq '7|300000|3' "$(of "$(sql "select submit('nothing', queue => 'd')")")"
	expect_eq '2|2000|3' "$(of "$(sql "select submit('nothing', queue => 'd', priority => 2, timeout => '2 s')")")"
	expect_eq '0|300000|3' "$(of "$(sql "select submit('nothing', queue => 'd', priority => 0)")")"
	reeve schedule add plain --manual nothing --queue d >/dev/null
	reeve schedule add own --manual nothing --queue d --priority 0 >/dev/null
	expect_eq '7|300000|3' "$(of "$(reeve schedule run plain --json | jq .task_id)")"
	expect_eq '0|300000|3' "$(of "$(reeve schedule run own --json | jq .task_id)")"
	reeve queue set d --priority 0 --timeout 0 >/dev/null
	expect_eq '0|60000|3' "$(of "$(reeve submit nothing --queue d)")"
	expect_eq '0|60000|5' "$(of "$(reeve submit nothing --queue other)")"
	expect_fail 2 reeve queue set d --priority 1000001
}

test_status_counts_what_completed_and_failed() {
	start_worker
	reeve submit nothing --queue plain --wait >/dev/null
	reeve submit nothing --queue plain --wait >/dev/null
	expect_fail 1 reeve submit sh 'exit 65' --queue plain --wait
	reeve cancel "$(reeve submit nothing --queue plain --delay 1h)" >/dev/null
	reeve submit nothing --queue plain --delay 1h >/dev/null
	expect_eq '1 0 4 2 2' "$(reeve queue status plain --json | jq -r '[.waiting, .running, .ended, .completed, .failed] | join(" ")')"
	expect_match '1 waiting, 0 running, 4 ended \(2 completed, 2 failed\)' "$(reeve queue status plain)"
}

test_status_and_progress_show_batch_and_workers() {
	start_worker worker --concurrency 4
	reeve queue set shown --batches yes --retry-limit 0 >/dev/null
	expect_eq '0 true' "$(reeve queue describe shown --json | jq -r '.settings | "\(.retry_limit) \(.batches)"')"
	expect_eq created "$(state shown)"
	a=$(reeve submit sh "$HOLD" --queue shown)
	wait_began "$a"
	expect_fail 1 reeve submit sh 'exit 3' --queue shown --wait
	b=$(reeve submit echo x --queue shown --delay 1h)
	expect_eq 'running 1 1 1 worker running' "$(reeve queue status shown --json |
		jq -r '[.state, .waiting, .running, .ended, .workers[0].name, .workers[0].mode] | join(" ")')"
	reeve queue status shown >"$DIR/out"
	expect_match 'shown: running for .*; 1 waiting, 1 running, 1 ended' "$(cat "$DIR/out")"
	expect_match 'batch [0-9]+ shown, open: 3 submitted, 2 pending, 0 completed, 1 failed; .* left' "$(cat "$DIR/out")"
	expect_match 'WORKER.*SUCCEEDED +FAILED +UP' "$(cat "$DIR/out")"
	reeve queue progress shown --once --running >"$DIR/out"
	expect_match "$a +sh +1 .*worker" "$(cat "$DIR/out")"
	start follower "$REEVE_BIN/reeve" queue progress shown --interval 100ms
	wait_until 5 'grep -q "2 pending" "$DIR/log/follower.log"'
	reeve update "$b" --delay 0s >/dev/null
	release
	wait_until 10 '! alive follower'
	expect_match 'shown: finished' "$(cat "$DIR/log/follower.log")"
	expect_match ', ended: 3 submitted, 0 pending, 2 completed, 1 failed' "$(cat "$DIR/log/follower.log")"
	expect_eq 2 "$(reeve queue status shown --json | jq '.batch.completed')"
}

# A queue has more than its last batch: later tasks, and other open batches.
test_status_shows_the_queue() {
	local batch other
	start_worker worker
	batch=$(reeve batch open first --queue beside)
	reeve submit nothing --queue beside --batch "$batch" >/dev/null
	expect_fail 1 reeve submit sh 'exit 3' --queue beside --batch "$batch" --max-attempts 1 --wait
	reeve batch close "$batch" >/dev/null
	expect_fail 1 reeve queue progress beside --interval 100ms
	expect_match 'beside: finished for .*; 0 waiting, 0 running, 2 ended' "$OUTPUT"
	for _ in 1 2 3; do reeve submit nothing --queue beside; done >"$DIR/ids"
	reeve wait - <"$DIR/ids" >/dev/null
	expect reeve queue progress beside --interval 100ms # the batch that failed is none that was watched
	reeve queue status beside >"$DIR/out"
	expect_match 'beside: finished; 0 waiting, 0 running, 5 ended' "$(cat "$DIR/out")"
	expect_match "batch $batch first, ended: 2 submitted" "$(cat "$DIR/out")"
	other=$(reeve batch open second --queue beside)
	batch=$(reeve batch open third --queue beside)
	expect_match '2 batches have not ended' "$(reeve queue status beside)"
	expect_eq '2 5' "$(status_of beside open_batches,ended)"
	reeve batch close "$other" >/dev/null
	reeve batch close "$batch" >/dev/null
}

test_invalid_input_is_refused() {
	refused() { # CODE REGEX COMMAND…
		expect_fail "$1" "${@:3}"
		expect_match "$2" "$OUTPUT"
	}
	refused 2 "the queue's name is missing" reeve queue pause
	refused 2 'the verb is missing' reeve queue
	refused 2 'unknown verb "park"' reeve queue park x
	refused 2 'unexpected argument "b": give one queue' reeve queue pause a b
	refused 2 'nothing is to be changed' reeve queue set x
	refused 2 'backoff: "fixd:1s" is invalid' reeve queue set x --backoff fixd:1s
	refused 2 'longer than 365 days' reeve queue set x --backoff fixed:9999d
	refused 2 'jitter needs a --backoff' reeve queue set x --jitter 5
	refused 2 'autostart: "maybe" is neither yes nor no' reeve queue set x --autostart maybe
	refused 2 'keep: "dead=90m" is not in whole hours' reeve queue set x --keep dead=90m
	refused 2 'keep: "lost=1d" is not like' reeve queue set x --keep lost=1d
	refused 2 'is negative' reeve queue set x --resting -1s
	refused 2 'out of range' reeve queue set x --retry-limit 10000
	refused 2 'No such file' reeve queue set x --callback-secret-file "$DIR/nowhere"
	refused 4 '--callback ' reeve queue set x --callback ftp://example.org
	refused 4 '--callback-tasks needs a callback_url, and the queue has none' reeve queue set x --callback-tasks yes
	refused 4 'batches is off, and autostart is off' reeve queue set x --autostart no --batches no
	refused 4 '--entry holds a control character' reeve queue set x --entry $'a\nb'
	refused 4 'queue holds a control character' reeve queue set $'a\nb' --verbose yes
	for action in start resume stop purge delete describe status; do
		refused 4 'there is no queue "never"' reeve queue $action never
	done
	refused 4 'there is no queue "never"' reeve queue progress never
	refused 4 'queue holds a control character' reeve queue pause $'a\nb'
	# A queue can be paused before its first task, and then runs none.
	reeve queue pause early >/dev/null
	expect_match 'its queue is paused' "$(reeve show "$(reeve submit nothing --queue early)")"
	expect_eq 0 "$(sql "select count(*) from queues where name in ('x', 'never')")"
	reeve queue set x --callback http://127.0.0.1:9/ --callback-tasks yes >/dev/null
	refused 4 'batches is off, and callback_url is set' reeve queue set x --batches no
	reeve queue set x --callback '' --batches no >"$DIR/out"
	expect_match 'batches +off' "$(cat "$DIR/out")"
	# The manager itself checks the rules of the protocol.
	expect_match 'fields is empty' "$("$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.QueueService/Set < <(printf '\x0a\x01x') 2>&1 || true)"
	expect_match 'there is no such setting' "$("$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.QueueService/Set < <(printf '\x0a\x01x\x1a\x05speed') 2>&1 || true)"
	expect_match 'action is 0' "$("$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.QueueService/Control < <(printf '\x0a\x01x') 2>&1 || true)"
	expect_match 'action is 9' "$("$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.QueueService/Control < <(printf '\x0a\x01x\x10\x09') 2>&1 || true)"
}

# A submit during a stop waits until the queue is stopped, and then starts it again.
test_a_submit_waits_for_the_end_of_a_stop() {
	start_worker worker --concurrency 4
	reeve queue set waiting --batches yes >/dev/null
	a=$(reeve submit sh 'trap "" TERM; touch "$REEVE_TEST_DIR/began.$REEVE_TASK_ID.1"; sleep 4' --queue waiting)
	wait_began "$a"
	reeve queue stop waiting >/dev/null
	start late "$REEVE_BIN/reeve" submit echo x --queue waiting --wait
	sleep 1
	expect_eq stopping "$(state waiting)"
	expect alive late
	expect_eq 1 "$(sql "select count(*) from tasks where queue = 'waiting'")"
	ended late 30
	expect_eq 0 "$STATUS"
	expect_eq cancelled "$(field "$a" status)"
	expect_eq '1 0, 0 1' "$(sql "select string_agg(failed || ' ' || completed, ', ' order by id) from batches where queue = 'waiting'")"
}

# Replaces numbers and times, and removes the widths of columns, because these differ between runs.
shape() {
	sed -E 's/[0-9]{4}-[0-9-]+ [0-9:.]+Z/T/g; s/[0-9]+([.][0-9]+)?(ms|s|m|h|d)?([0-9.]+s)?/N/g; s/ +/ /g; s/^ //; s/ $//'
}

# The example of docs/queues.md, command by command.
test_the_worked_example() {
	handlers <<-END
		[handler send]
		exec = /bin/bash
	END
	start_worker worker
	awk '/^## An example/ { on = 1; next } /^## / { on = 0 } on && /^    / { print substr($0, 5) }' "$TOP/docs/queues.md" >"$DIR/example"
	expect_eq 12 "$(grep -c '^\$ ' "$DIR/example")" 'documented commands'
	while read -r line; do
		case $line in '$ '*) ;; *) continue ;; esac
		want=$(awk -v command="$line" '$0 == command { on = 1; next } /^\$ / { on = 0 } on' "$DIR/example" | shape)
		expect_eq "$want" "$( (eval "${line#\$ }" 2>&1 || true) | shape)" "$line"
	done <"$DIR/example"
	expect_eq 'cancelled cancelled dead queue_stopped' "$(sql "select string_agg(concat_ws(' ', status, error_code), ' ' order by task_id)
		from (select * from task_history where queue = 'mail' order by task_id desc limit 2) t")"
}

waiting() { # ID: why it waits, as numbers
	reeve show "$1" --json | jq -c '.waiting | if . then [.reason, .task_id, .workers, .slots, .busy] else "no" end'
}

waits() { # ID: the same in words
	reeve show "$1" | sed -n 's/^waits *//p'
}

test_the_reason_why_a_task_waits_is_shown() {
	local lonely a b c id entry manager=${URL[other]}
	lonely=$(reeve submit lonely --queue why)
	expect_eq '["no_worker",0,0,0,0]' "$(waiting "$lonely")"
	expect_eq 'no worker takes its type in its queue' "$(waits "$lonely")"
	expect_match "$lonely +queued .* no worker takes its type in its queue" "$(reeve list --queue why)"
	# A worker at the other manager counts, but only for its types and queues.
	REEVE_MANAGER=$manager start_worker worker --queue why --concurrency 1
	expect_eq '["no_worker",0,0,0,0]' "$(waiting "$lonely")"
	a=$(reeve submit sh "$HOLD" --queue why)
	wait_began "$a"
	expect_eq '"no"' "$(waiting "$a")"
	expect_eq '' "$(waits "$a")"
	b=$(reeve submit sh true --queue why)
	c=$(reeve submit sh true --queue elsewhere-why)
	expect_eq '["workers_busy",0,1,1,1]' "$(waiting "$b")"
	expect_eq 'the only slot of the worker that takes it is busy' "$(waits "$b")"
	expect_eq '["no_worker",0,0,0,0]' "$(waiting "$c")"
	# A list shows the same for all tasks at once, from either manager.
	expect_eq "$b workers_busy,$a null,$lonely no_worker" \
		"$(at_other list --queue why --json | jq -sr '[.[] | "\(.id) \(.waiting.reason)"] | join(",")')"
	reeve worker pause worker >/dev/null
	wait_until 10 "[ \"\$(waits $b)\" = 'the worker that takes it is paused or drains' ]"
	expect_eq '["workers_paused",0,1,0,0]' "$(waiting "$b")"
	# The state of the queue takes precedence over that of the workers.
	reeve queue pause why >/dev/null
	expect_eq 'its queue is paused' "$(waits "$b")"
	expect_eq '["queue_paused",0,0,0,0]' "$(waiting "$lonely")"
	reeve queue resume why >/dev/null
	reeve worker resume worker >/dev/null
	release
	reeve wait "$a" "$b" >/dev/null
	expect_eq '"no" "no"' "$(waiting "$a") $(waiting "$b")"
	# Due times.
	a=$(reeve submit sh true --queue why --delay 1h)
	expect_eq '["not_due",0,0,0,0]' "$(waiting "$a")"
	expect_match '^due in [56][0-9]m$' "$(waits "$a")"
	b=$(reeve submit sh 'exit 3' --queue why --retry-base 1h --jitter 0)
	wait_status 10 "$b" failed
	expect_eq '["retry_delay",0,0,0,0]' "$(waiting "$b")"
	expect_match '^attempt 1 failed, due again in [56][0-9]m$' "$(waits "$b")"
	expect_match "$b +failed .* attempt 1 failed, due again in [0-9]+m, exit:3" "$(reeve list --queue why)"
	# Once it is due again, it waits like any other task.
	stop worker
	reeve retry "$b" >/dev/null
	expect_match "$b +failed .* no worker takes its type in its queue, exit:3" "$(reeve list --queue why)"
	# A batch's entry task, which itself has a reason for waiting.
	id=$(reeve batch open first --queue why --entry lonely)
	c=$(reeve submit sh true --batch "$id")
	entry=$(reeve batch report "$id" --json | jq .batch.entry_id)
	expect_eq "[\"batch_entry\",$entry,0,0,0]" "$(waiting "$c")"
	expect_eq "task $entry, the entry task of its batch, has not ended" "$(waits "$c")"
	expect_eq '["no_worker",0,0,0,0]' "$(waiting "$entry")"
	# A queue that has not been started.
	reeve queue set why-held --autostart no >/dev/null
	expect_eq 'its queue has not been started' "$(waits "$(reeve submit sh true --queue why-held)")"
	# Short-lived reasons: a queue that is being stopped, and a task by SQL that no manager has ingested yet.
	expect_eq '{{1,0,0,0,0}}' "$(sql "begin; update queues set state = 'stopping' where name = 'why-held';
		select tasks_waiting(array[max(id)], null) from tasks where queue = 'why-held'; rollback")"
	expect_eq '{{4,0,0,0,0}}' "$(sql "begin; create temp table x as select submit('sh', queue => 'new to all') as id;
		select tasks_waiting(array[id], null) from x; rollback")"
}

batch_waits() { # ID: what is told of its first task that waits, by its report and in the list, which must be the same
	local said
	said=$(reeve batch report "$1" | sed -n 's/^waits *//p')
	expect_eq "${said:--}" "$(reeve batch list --queue why-batches | sed -n "s/^ *$1 .* \\(-\\|task [0-9]*: .*\\)$/\\1/p")" 'in the list'
	expect_eq "$(reeve batch report "$1" --json | jq -c .batch.first_waiting)" \
		"$(reeve batch list --queue why-batches --json | jq -c "select(.id == $1).first_waiting")" 'in the list'
	echo "$said"
}

test_a_batch_says_why_its_first_task_waits() {
	local id other a b entry
	id=$(reeve batch open first --queue why-batches --entry lonely)
	expect_eq '' "$(batch_waits "$id")"
	a=$(reeve submit sh "$HOLD" --batch "$id")
	b=$(reeve submit sh true --batch "$id" --delay 1h)
	entry=$(reeve batch report "$id" --json | jq .batch.entry_id)
	expect_eq "task $entry: no worker takes its type in its queue" "$(batch_waits "$id")"
	expect_eq "[$entry,\"no_worker\"]" "$(reeve batch report "$id" --json | jq -c '.batch.first_waiting | [.id, .waiting.reason]')"
	reeve queue pause why-batches >/dev/null
	expect_eq "task $entry: its queue is paused" "$(batch_waits "$id")"
	# Another batch in the same list, without an entry task: its own first task.
	other=$(reeve batch open second --queue why-batches)
	reeve submit sh true --batch "$other" >"$DIR/first"
	reeve submit sh true --batch "$other" >/dev/null
	expect_eq "task $(cat "$DIR/first"): its queue is paused" "$(batch_waits "$other")"
	reeve queue resume why-batches >/dev/null
	reeve batch close "$other" >/dev/null
	# A running task is skipped; a task that is due later shows when.
	handlers <<-END
		[handler sh]
		exec = /bin/bash
		[handler lonely]
		exec = /bin/true
	END
	start_worker worker --queue why-batches --concurrency 2
	reeve batch wait "$other" >/dev/null
	expect_eq '' "$(batch_waits "$other")"
	wait_began "$a"
	expect_match "^task $b: due in [56][0-9]m$" "$(batch_waits "$id")"
	release
	reeve wait "$a" >/dev/null
	reeve cancel "$b" >/dev/null
	reeve batch close "$id" >/dev/null
	wait_until 10 "[ \"\$(reeve batch report $id --json | jq -r .batch.state)\" = ended ]"
	expect_eq '' "$(batch_waits "$id")"
	stop worker
}

test_a_command_that_waits_says_why_once_for_each_reason() {
	local id waiter status=0
	"$REEVE_BIN/reeve" submit lonely --queue patience --wait >"$DIR/out" 2>"$DIR/said" &
	waiter=$!
	wait_until 10 'grep -q "waits: no worker" "$DIR/said"'
	reeve queue pause patience >/dev/null
	wait_until 10 'grep -q "waits: its queue" "$DIR/said"'
	pause 4 # it looks every three seconds
	id=$(reeve list --queue patience --json | jq .id)
	reeve cancel "$id" >/dev/null
	wait "$waiter" || status=$?
	expect_eq 1 "$status"
	expect_eq '' "$(cat "$DIR/out")" 'on standard output'
	expect_eq "reeve: task $id (lonely in queue patience) waits: no worker takes its type in its queue
reeve: task $id (lonely in queue patience) waits: its queue is paused" "$(grep -v 'is cancelled' "$DIR/said")"
}

# Of several tasks, the command names one that waits, not one that runs; also on a terminal, where it draws a progress
# bar.
test_a_command_that_waits_for_several_says_why_one_of_them_does() {
	local failed waiter status=0
	start_worker worker --queue several --concurrency 2
	jq -nc --arg hold "$HOLD" '{details: $hold}, {details: "exit 3"}, {details: "true"}' >"$DIR/tasks"
	script -qec "'$REEVE_BIN/reeve' --manager '$REEVE_MANAGER' submit --bulk '$DIR/tasks' sh --queue several --retry-base 1h --jitter 0 --wait" \
		/dev/null >"$DIR/said" &
	waiter=$!
	wait_until 20 'grep -q "waits: attempt 1 failed" "$DIR/said"'
	failed=$(reeve list --queue several --status failed --json | jq .id)
	reeve cancel "$failed" >/dev/null
	release
	wait "$waiter" || status=$?
	expect_eq 1 "$status"
	expect_match 'waiting \[#* *\] [0-9]/3' "$(cat "$DIR/said")"
	expect_match "reeve: task $failed \(sh in queue several\) waits: attempt 1 failed, due again in [56][0-9]m" "$(cat "$DIR/said")"
	expect_eq 1 "$(grep -c 'waits: ' "$DIR/said")"
	stop worker
}

run_tests
