#!/usr/bin/env bash
# Workers that end on their own, keep resting and waiting periods, and obey worker commands.
# timeout 400
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager manager --heartbeat 200ms
default_handlers

mode_worker() { # NAME OPTION…: runs to its end; its exit code is $STATUS
	local name=$1
	launch_worker "$@"
	ended "$name" 60
}

set_queue() { # NAME 'COLUMN = VALUE, …'
	sql "insert into queues (name) values ('$1') on conflict do nothing;
		update queues set $2, updated = clock_timestamp() where name = '$1';
		select pg_notify('reeve_notify', 'queues')" >/dev/null
	sleep 1.5 # a worker that missed the notice has polled by then
}

expect_left() { # NAME
	expect_eq '' "$(reeve worker list --json | jq -r "select(.name == \"$1\" and .state == \"alive\").name")" 'still a worker'
	expect_eq 1 "$(sql "select count(*) from worker_events where worker_id = $(worker_incarnation "$1") and event = 'left'")" \
		'times it left'
}

worker_is() { # NAME FIELD: of the living one of that name
	reeve worker list --json | jq -r "select(.name == \"$1\" and .state == \"alive\").$2"
}

test_once_runs_one_task_and_sets_the_exit_code() {
	one=$(reeve submit sh 'echo one' --queue once)
	two=$(reeve submit sh 'exit 3' --queue once --max-attempts 1)
	three=$(reeve submit sh 'echo three' --queue once)
	mode_worker first --once --queue once --concurrency 8 --prefetch 100
	expect_eq 0 "$STATUS"
	expect_eq 'completed queued queued' "$(field "$one" status) $(field "$two" status) $(field "$three" status)"
	expect_eq 'submitted' "$(events "$two")" 'it took no more than the one'
	expect_left first
	mode_worker second --once --queue once
	expect_eq 1 "$STATUS"
	expect_eq 'dead queued' "$(field "$two" status) $(field "$three" status)"
	expect_left second
	# A worker that has to wait for its task.
	reeve cancel "$three" >/dev/null
	launch_worker third --once --queue once
	wait_until 20 '[ "$(worker_incarnation third)" -gt 0 ]'
	id=$(reeve submit sh "$HOLD" --queue once)
	wait_began "$id"
	later=$(reeve submit sh 'echo later' --queue once)
	release
	ended third
	expect_eq '0 completed queued' "$STATUS $(field "$id" status) $(field "$later" status)"
	expect_left third
	reeve cancel "$later" >/dev/null
}

test_once_can_be_stopped_before_and_within_its_task() {
	start_worker idle --once --queue nobody
	stop idle
	expect_eq 5 "$STATUS"
	expect_left idle
	id=$(reeve submit sh "$HOLD" --queue stopped --max-attempts 1)
	launch_worker busy --once --queue stopped --drain-timeout 200ms --kill-grace 200ms
	wait_began "$id"
	stop busy
	expect_eq '5 queued 0' "$STATUS $(field "$id" status) $(field "$id" attempt)"
	expect_left busy
}

# An empty queue is a success, too.
# measures time
test_until_empty_ends_at_once_if_the_queue_is_empty() {
	begin=$(ms)
	mode_worker none --until-empty --queue none
	expect_eq 0 "$STATUS"
	expect [ $(($(ms) - begin)) -lt 5000 ]
	expect_left none
}

test_until_empty_does_all_that_wait_and_are_due() {
	for i in $(seq 1 60); do echo "{\"details\":\"echo $i\"}"; done | reeve submit --bulk - sh --queue many >"$DIR/ids"
	later=$(reeve submit sh 'echo later' --queue many --delay 1h)
	other=$(reeve submit sh 'echo other' --queue another)
	# A task submits another one while it runs: the worker does that one, too.
	more=$(reeve submit sh "sleep 0.5; '$REEVE_BIN/reeve' submit sh 'echo more' --queue many --key more >/dev/null" --queue many)
	mode_worker all --until-empty --queue many --concurrency 4
	expect_eq 0 "$STATUS"
	expect_eq 62 "$(sql "select count(*) from task_history where queue = 'many' and status = 'completed'")"
	expect_eq 'completed queued queued' "$(field "$more" status) $(field "$later" status) $(field "$other" status)"
	expect_left all
	reeve cancel "$later" "$other" >/dev/null
	# A failed task is retried later. The worker does not wait for that, and reports the failure by its exit code.
	id=$(reeve submit sh 'exit 3' --queue many --retry-base 1h)
	mode_worker failing --until-empty --queue many
	expect_eq '1 failed' "$STATUS $(field "$id" status)"
	reeve cancel "$id" >/dev/null
}

test_until_empty_is_not_confused_by_others() {
	for _ in $(seq 1 200); do echo '{"details":"exit 0"}'; done | reeve submit --bulk - sh --queue shared >"$DIR/ids"
	for name in a b c; do launch_worker "$name" --until-empty --queue shared --concurrency 2; done
	for name in a b c; do
		ended "$name" 60
		expect_eq 0 "$STATUS"
	done
	expect_eq 200 "$(sql "select count(*) from task_history where queue = 'shared' and status = 'completed'")"
}

test_until_empty_stops_on_a_signal() {
	id=$(reeve submit sh "$HOLD" --queue signal)
	launch_worker worker --until-empty --queue signal --concurrency 1
	wait_began "$id"
	later=$(reeve submit sh 'echo later' --queue signal --priority -1)
	signal worker TERM
	wait_until 20 "grep -q 'draining: ' '$DIR/log/worker.log'"
	release
	ended worker
	expect_eq '0 completed' "$STATUS $(field "$id" status)"
	expect_left worker
	reeve cancel "$later" >/dev/null
}

test_until_empty_waits_for_retries_on_request() {
	id=$(reeve submit sh '[ "$REEVE_ATTEMPT" = 3 ]' --queue again --retry-base 700ms)
	other=$(reeve submit sh 'exit 1' --queue elsewhere --retry-base 1h)
	wait_elsewhere() { launch_worker elsewhere --until-empty --queue elsewhere && ended elsewhere; }
	wait_elsewhere
	mode_worker patient --until-empty --wait-retries --queue again
	expect_eq 'completed 3' "$(field "$id" status) $(field "$id" attempt)"
	expect_eq 1 "$STATUS" # two attempts did not complete
	expect_eq failed "$(field "$other" status)"
	expect_left patient
	reeve cancel "$other" >/dev/null
	expect_fail 2 "$REEVE_BIN/reeve-worker" --handlers "$HANDLERS" --wait-retries
	expect_match 'needs --until-empty' "$OUTPUT"
}

# Started every minute by cron, such workers do not pile up while no manager is there.
test_a_worker_gives_up_without_a_manager() {
	begin=$(ms)
	launch_worker lonely --manager "tcp://127.0.0.1:$(free_port)" --until-empty --manager-timeout 2s
	ended lonely 20
	expect_eq 6 "$STATUS"
	expect [ $(($(ms) - begin)) -ge 2000 ]
	expect_match 'no manager at tcp://127.0.0.1:[0-9]+ has answered for [2-9][0-9]{3} ms' "$(cat "$DIR/log/lonely.log")"
	# So does one that has had a manager. While that answers, it goes on.
	start_manager short --heartbeat 500ms
	start_worker served --manager "${URL[short]}" --queue served --manager-timeout 4s
	wait_until 30 '[ "$(sql "select hb_seq from workers where id = $(worker_incarnation served)")" -ge 12 ]'
	alive served || fail 'it ended although its manager answers'
	kill_manager short
	ended served 20
	expect_eq 6 "$STATUS"
}

test_both_at_once_are_wrong() {
	expect_fail 2 "$REEVE_BIN/reeve-worker" --handlers "$HANDLERS" --once --until-empty
	expect_match 'cannot be combined' "$OUTPUT"
	expect_match '--until-empty' "$("$REEVE_BIN/reeve-worker" --help)"
}

# Compares the times that the handlers print when they run.
test_slots_keep_the_resting_period() {
	set_queue resting 'resting_ms = 600000'
	for _ in 1 2 3; do reeve submit sh 'date +%s%3N' --queue resting; done >"$DIR/ids"
	# The slot rests for this queue only: between two of its tasks it runs those of another one.
	for _ in 1 2 3; do reeve submit nothing --queue lively --priority -1; done >"$DIR/lively"
	start_worker worker --queue resting,lively --concurrency 1
	reeve wait - <"$DIR/lively" >/dev/null
	expect_eq 'resting lively lively lively' "$(sql "select queue from task_history
		where task_id in ($(cat "$DIR/ids" "$DIR/lively" | paste -sd,)) order by token" | xargs)"
	stop worker
	set_queue resting 'resting_ms = 1500'
	start_worker worker --queue resting --concurrency 1
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq '3|t' "$(sql "select count(*), min(gap) filter (where place = 3) >= 1500 from (
		select result::bigint - lag(result::bigint) over w as gap, row_number() over w as place from task_history
		where task_id in ($(paste -sd, "$DIR/ids")) window w as (order by task_id)) g")"
	stop worker
	# With three slots, three tasks run at once, before the resting period.
	reeve queue set resting --resting 1m >/dev/null
	for i in 1 2 3; do reeve submit sh "echo $i" --queue resting; done >"$DIR/three"
	start_worker three --queue resting --concurrency 3
	reeve wait - <"$DIR/three" >/dev/null
	expect_eq t "$(sql "select max(started) - min(started) < '1m' from task_history where task_id in ($(paste -sd, "$DIR/three"))")"
	stop three
	expect_eq 0 "$STATUS"
}

# measures time
test_a_worker_waits_before_its_first_task() {
	set_queue patient 'waiting_ms = 3000'
	id=$(reeve submit sh 'echo 1' --queue patient)
	begin=$(ms)
	mode_worker worker --until-empty --queue patient
	expect [ $(($(ms) - begin)) -ge 3000 ]
	expect_eq '0 completed' "$STATUS $(field "$id" status)"
	# It waits only once; and a worker that has run a task has waited.
	start_worker again --queue patient,other
	reeve wait "$(reeve submit sh 'echo 2' --queue other)" >/dev/null
	id=$(reeve submit sh 'echo 3' --queue patient)
	reeve wait "$id" >/dev/null
	expect_eq t "$(sql "select token - created < '2500ms' from task_history where task_id = $id")"
}

# Also a worker that has been up for long waits before the first task of each batch, and after each start of the queue.
test_each_batch_and_start_has_its_waiting_period() {
	start_worker worker --queue batches,other,patience --concurrency 2
	reeve queue set patience --batches yes --waiting 1h >/dev/null
	id=$(reeve submit nothing --queue patience)
	expect_match 'the waiting period of its queue is not over' "$(reeve show "$id")"
	reeve cancel "$id" >/dev/null
	reeve queue set batches --batches yes --waiting 3s >/dev/null
	reeve submit sh 'echo 1' --queue other --wait >/dev/null
	for _ in 1 2; do
		read -r a b < <(printf '{"details": "echo 1"}\n%.0s' 1 2 | reeve submit sh --bulk - --queue batches | xargs)
		reeve submit sh 'echo 1' --queue other --wait >/dev/null
		reeve wait "$a" "$b" >/dev/null
		expect_eq t "$(sql "select min(h.token) - b.started_at between '3s' and '20s' from task_history h join batches b on b.id = h.batch_id
			where h.task_id in ($a, $b) group by b.started_at")"
		wait_until 20 '[ "$(reeve queue status batches --json | jq -r .state)" = finished ]'
	done
	# An explicit batch, and a task by SQL.
	batch=$(reeve batch open mine --queue batches)
	a=$(sql "select reeve.submit('sh', 'echo 2', queue => 'batches', batch_id => $batch)")
	wait_until 10 "[ \"\$(sql \"select batch_id from tasks where id = $a\")\" = $batch ]" # ingested
	reeve batch close "$batch" >/dev/null
	wait_status 20 "$a" completed
	expect_eq t "$(sql "select h.token - b.started_at >= '3s' from task_history h join batches b on b.id = h.batch_id where task_id = $a")"
	# A start.
	reeve queue set batches --autostart no >/dev/null
	a=$(reeve submit sh 'echo 3' --queue batches)
	sleep 3.2 # the waiting period of the batch
	reeve queue start batches >/dev/null
	reeve wait "$a" >/dev/null
	expect_eq t "$(sql "select token - (select max(at) from queue_events where queue = 'batches' and event = 'queue_started')
		between '3s' and '20s' from task_history where task_id = $a")"
	stop worker
}

test_one_is_paused_and_resumed_from_afar() {
	start_worker worker --queue paused
	reeve worker pause worker >/dev/null
	wait_until 20 '[ "$(worker_is worker mode)" = paused ]'
	id=$(reeve submit sh 'echo 1' --queue paused)
	sleep 2 # many heartbeats, each with the order
	expect_eq queued "$(field "$id" status)"
	expect_eq 1 "$(grep -c 'paused by the manager' "$DIR/log/worker.log")" 'times it was told'
	reeve worker resume worker >/dev/null
	reeve wait "$id" >/dev/null
	wait_until 20 '[ "$(worker_is worker mode)" = running ]'
	wait_until 20 '[ "$(worker_is worker completed)" = 1 ]'
	reeve wait "$(reeve submit sh 'exit 1' --queue paused --max-attempts 1)" >/dev/null 2>&1 || true
	wait_until 20 '[ "$(worker_is worker failed)" = 1 ]'
	# A task that runs when the worker is paused finishes.
	id=$(reeve submit sh "$HOLD" --queue paused)
	wait_began "$id"
	reeve worker pause worker >/dev/null
	wait_until 20 '[ "$(worker_is worker mode)" = paused ]'
	later=$(reeve submit sh 'echo later' --queue paused)
	release
	reeve wait "$id" >/dev/null
	sleep 1
	expect_eq queued "$(field "$later" status)"
	stop worker
	expect_eq 0 "$STATUS"
	expect_left worker
	reeve cancel "$later" >/dev/null
}

test_one_is_drained_from_afar() {
	start_worker worker --queue drained --concurrency 2 --drain-timeout 100ms
	id=$(reeve submit sh "$HOLD" --queue drained)
	wait_began "$id"
	reeve worker drain worker >/dev/null
	wait_until 20 '[ "$(worker_is worker mode)" = draining ]'
	later=$(reeve submit sh 'echo later' --queue drained)
	sleep 1
	alive worker || fail 'it has not waited for what runs'
	release
	ended worker
	expect_eq '0 completed queued' "$STATUS $(field "$id" status) $(field "$later" status)"
	expect_left worker
	reeve cancel "$later" >/dev/null
}

test_one_is_stopped_from_afar() {
	start_worker worker --queue halted --concurrency 2 --prefetch 2 --kill-grace 300ms
	for i in 1 2 3; do reeve submit sh "$HOLD" --queue halted --max-attempts 1; done >"$DIR/ids"
	wait_until 20 '[ "$(sql "select count(*) from tasks where queue = '\''halted'\'' and status = '\''executing'\''")" = 3 ]'
	reeve worker stop worker >/dev/null
	ended worker
	expect_eq 0 "$STATUS"
	expect_eq '3|0|0' "$(sql "select count(*), max(attempt), count(*) filter (where status <> 'queued') from tasks where queue = 'halted'")"
	expect_left worker
	mapfile -t ids <"$DIR/ids"
	reeve cancel "${ids[@]}" >/dev/null
}

test_slots_are_more_and_fewer_while_it_runs() {
	start_worker worker --queue scaled --concurrency 1
	for i in 1 2 3 4 5 6; do reeve submit sh "$HOLD" --queue scaled --max-attempts 1; done >"$DIR/ids"
	executing='sql "select count(*) from tasks where queue = '\''scaled'\'' and status = '\''executing'\''"'
	wait_until 20 "[ \"\$($executing)\" = 1 ]"
	reeve worker scale worker 4 >/dev/null
	wait_until 20 "[ \"\$($executing)\" = 4 ]"
	wait_until 20 '[ "$(worker_is worker concurrency)" = 4 ]'
	# Fewer slots: running tasks continue.
	reeve worker scale worker 2 >/dev/null
	wait_until 20 '[ "$(worker_is worker concurrency)" = 2 ]'
	expect_eq 4 "$(eval "$executing")"
	release
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 6 "$(sql "select count(*) from task_history where queue = 'scaled' and status = 'completed' and attempt = 1")"
	rm "$DIR/released"
	for i in 1 2 3 4 5; do reeve submit sh "$HOLD" --queue scaled --max-attempts 1; done >"$DIR/more"
	wait_until 20 "[ \"\$($executing)\" = 2 ]"
	sleep 1
	expect_eq 2 "$(eval "$executing")"
	release
	reeve wait - <"$DIR/more" >/dev/null
}

test_a_worker_without_slots_takes_nothing() {
	start_worker worker --queue none --concurrency 2 --prefetch 3
	for i in 1 2 3 4; do reeve submit sh "$HOLD" --queue none; done >"$DIR/ids"
	executing='sql "select count(*) from tasks where queue = '\''none'\'' and status = '\''executing'\''"'
	wait_until 20 "[ \"\$($executing)\" = 4 ]"
	expect_match 'concurrency 0' "$(reeve worker scale worker 0)"
	wait_until 20 '[ "$(worker_is worker concurrency)" = 0 ]'
	wait_until 20 "[ \"\$($executing)\" = 2 ]" # what had not started is returned; what runs goes on
	release
	wait_until 20 "[ \"\$($executing)\" = 0 ]"
	later=$(reeve submit sh 'echo 1' --queue none)
	sleep 1
	expect_eq 'queued 2' "$(field "$later" status) $(sql "select count(*) from task_history where queue = 'none'")"
	reeve worker scale --all 3 >/dev/null
	reeve wait - <"$DIR/ids" >/dev/null
	reeve wait "$later" >/dev/null
	wait_until 20 '[ "$(worker_is worker concurrency)" = 3 ]'
	expect_fail 2 reeve worker scale worker 10001
}

run_tests
