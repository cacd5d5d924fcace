#!/usr/bin/env bash
# Queues: their settings, and the actions pause, resume, purge and delete. (queue_stops.sh: start and stop.)
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/queues.bash"

start_postgres
H=http://127.0.0.1:$(free_port)
start_manager other --http "$H"
start_manager manager

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
	reeve wait "$b" "$c" --max-wait 30s >/dev/null
	expect_eq finished "$(state pausing)"
	expect_eq 'queue_paused queue_resumed' "$(reeve audit --json | jq -r 'select(.note == "queue pausing") | .event' | xargs)"
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
	wait_until 30 '[ "$(at_other queue describe limited --json | jq .settings.retry_limit)" = 2 ]'
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
# period after each one. That period begins at the handler's end.
test_workers_keep_waiting_and_resting_periods() {
	reeve queue set rested --waiting 3s --resting 1s >/dev/null
	for _ in 1 2 3; do echo '{"details":"date +%s%3N"}'; done | reeve submit --bulk - sh --queue rested >"$DIR/ids"
	start_worker worker --concurrency 1
	reeve wait - --max-wait 30s <"$DIR/ids"
	sql "select token - registered > '2.5s' from task_history h join workers w on w.id = h.worker_id
			where h.queue = 'rested' order by token limit 1;
		select min(gap) >= 1000 from (select result::bigint - lag(result::bigint) over (order by token) as gap
			from task_history where queue = 'rested') g" >"$DIR/out"
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
	for line in "queue \"loud\": task $a \(sh\): submitted by" \
		"task $a \(sh\): claimed by worker [0-9]+, attempt 1 of 2" \
		"task $a \(sh\): failed, attempt 1: exit:3: exit status 3; due again in" \
		"task $a \(sh\): completed, attempt 2: " \
		"task $b \(sh\): dead, attempt 1: exit:65: exit status 65"; do
		wait_until 20 'grep -qE "$line" "$SUITE_DIR"/log/{manager,other}.log'
	done
	expect_no_match "queue \"quiet\"" "$(cat "$SUITE_DIR"/log/{manager,other}.log)"
	# Also the waits of workers, and their end.
	reeve queue set loud --batches yes --waiting 2s --resting 1s >/dev/null
	d=$(reeve submit sh 'exit 0' --queue loud)
	reeve wait "$d" >/dev/null
	number=$(worker_incarnation worker)
	stop worker
	wait_until 30 "grep -q 'worker $number has ended' '$SUITE_DIR/log/manager.log'"
	cat "$SUITE_DIR"/log/{manager,other}.log >"$DIR/logs"
	expect_match 'queue "loud": no task is assigned for [0-9.ms]+: its waiting period' "$(cat "$DIR/logs")"
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
		wait_state 30 counted finished
	done
	counts='reeve queue status counted --json | jq -r ".workers[] | select(.name == \"worker\")
		| [.batch_completed, .batch_failed, .queue_completed, .queue_failed, .completed, .failed] | join(\" \")"'
	wait_until 10 "[ \"\$($counts)\" = '2 1 4 2 5 3' ]"
	expect_match ' worker +alive +running +[^ ]+ +0 +2 +1 ' "$(reeve queue status counted)"
	# The batch alone: its counts, and none of a queue.
	batch=$(sql "select max(id) from batches where queue = 'counted'")
	expect_eq '2 1 null null' "$(curl -sS -m 20 -H 'content-type: application/json' -d "{\"batchId\":$batch}" "$H/reeve.v1.AdminService/ListWorkers" |
		jq -r '.workers[] | select(.name == "worker") | "\(.batchCompleted) \(.batchFailed) \(.queueCompleted) \(.queueFailed)"')"
	wait_until 10 '[ "$(reeve queue status counted-too --json | jq -r ".workers[] | select(.name == \"worker\")
		| [.queue_completed, .queue_failed] | join(\" \")")" = "1 1" ]'
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
	expect_match 'WORKER.*COMPLETED +FAILED +UP' "$(cat "$DIR/out")"
	reeve queue progress shown --once --running >"$DIR/out"
	expect_match "$a +sh +1 .*worker" "$(cat "$DIR/out")"
	start follower "$REEVE_BIN/reeve" queue progress shown --interval 100ms
	wait_until 30 'grep -q "2 pending" "$DIR/log/follower.log"'
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
	expect_eq 11 "$(grep -c '^\$ ' "$DIR/example")" 'documented commands'
	# What the page leaves out.
	expect_eq 'queue settings|state created|retries N after the first attempt|backoff fixed:N|jitter N %|max running any number|priority N|timeout N|'\
'resting none|waiting none|batches on|autostart on|verbose off|callback -|callback type -|entry -|exit -|keeps completed as all queues|'\
'keeps dead as all queues|keeps cancelled as all queues|keeps keys as long as their tasks|changed T' \
		"$(reeve queue set settings --retry-limit 2 --backoff fixed:1s --batches yes | shape | paste -sd '|')"
	while read -r line; do
		case $line in
		'$ reeve queue resume mail')
			expect_eq 'mail: paused for N; N waiting, N running, N ended (N completed, N failed)
batch N mail, open: N submitted, N pending, N completed, N failed; N, remaining time unknown
ID WORKER STATE MODE SINCE HOLDS COMPLETED FAILED UP
N worker alive running N N N N N' "$(reeve queue status mail | shape)"
			;;
		'$ reeve queue stop mail --wait') # the other task waits for its time
			wait_status 20 "$(sql "select id from tasks where queue = 'mail' and details = 'sleep 100'")" executing
			;;
		'$ '*) ;;
		*) continue ;;
		esac
		want=$(awk -v command="$line" '$0 == command { on = 1; next } /^\$ / { on = 0 } on' "$DIR/example" | shape)
		expect_eq "$want" "$( (eval "${line#\$ }" 2>&1 || true) | shape)" "$line"
	done <"$DIR/example"
	expect_eq 'cancelled cancelled dead queue_stopped' "$(sql "select string_agg(concat_ws(' ', status, error_code), ' ' order by task_id)
		from (select * from task_history where queue = 'mail' order by task_id desc limit 2) t")"
}

# Each change is followed by another call to the same manager at once.
test_a_call_finds_the_settings_that_its_caller_has_just_made() {
	for n in $(seq 20); do
		reeve queue set "new$n" --batches yes --retry-limit 6 >/dev/null
		reeve submit nothing --queue "new$n" >/dev/null
		reeve queue pause "new$n" >/dev/null
		reeve queue resume "new$n" >/dev/null
		expect_match ' nothing ' "$(reeve fetch --queue "new$n")"
		reeve queue set "old$n" --batches yes --retry-limit 6 >/dev/null
		reeve queue delete "old$n" >/dev/null
		reeve submit nothing --queue "old$n" >/dev/null
	done
	expect_eq 'new 7 t 20, old 5 f 20' "$(sql "select string_agg(concat_ws(' ', q, max_attempts, batched, n), ', ' order by q) from (
		select left(queue, 3) as q, max_attempts, batch_id is not null as batched, count(*) as n from all_tasks
		where queue ~ '^(new|old)[0-9]' group by 1, 2, 3) t")"
}

run_tests
