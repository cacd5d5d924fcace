#!/usr/bin/env bash
# Batches: tasks that are counted together, from the first submit to the last end, with entry tasks, exit tasks and
# callbacks.
# timeout 600
# long
# parts 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/ledger.bash"

batch() { # ID FIELD…: those fields of the batch in one line
	local id=$1
	shift
	reeve batch report "$id" --json | jq -r "[.batch | $(printf '.%s,' "$@" | sed 's/,$//')] | join(\" \")"
}

totals() { # ID: state, submitted, pending, completed, failed
	batch "$1" state submitted pending completed failed
}

wait_batch() { # SECONDS ID: until it has ended
	wait_until "$1" "[ \"\$(sql 'select phase from batches where id = $2')\" = ended ]"
}

set_queue() { # NAME COLUMN=VALUE,…: settings, which the manager (started again) knows
	sql "insert into queues (name) values ('$1') on conflict do nothing; update queues set $2 where name = '$1'"
	stop manager
	start_manager
}

# Prints the details of the callback tasks (type `told`), one per line, of all events or of EVENT. No handler of that
# type needs to run.
told() { # [EVENT]
	sql "select details from all_tasks where type = 'told' order by id" | jq -c "select(.event == \"${1:-}\" or \"${1:-}\" == \"\")"
}

# Expects the counters of all batches, or of batch ID, to agree with their tasks.
expect_consistent() { # [ID]
	expect_eq '' "$(sql "select b.id, b.submitted, b.pending, b.completed, b.failed, t.*
		from batches b cross join lateral (
			select count(*) as n, count(*) filter (where a.status in ('queued', 'executing', 'failed')) as live,
				count(*) filter (where a.status = 'completed') as good, count(*) filter (where a.status in ('dead', 'cancelled')) as bad
			from all_tasks a where a.batch_id = b.id and a.id is distinct from b.entry_id and a.id is distinct from b.exit_id) t
		where (b.submitted, b.pending, b.completed, b.failed) is distinct from (t.n, t.live, t.good, t.bad)
			and b.id = coalesce(nullif('${1:-}', '')::bigint, b.id)")"
}

test_a_batch_is_opened_filled_closed_and_reported() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve batch open nightly --queue q)
	expect_eq 'open 0 0 0 0' "$(totals "$id")"
	expect_eq '-1' "$(batch "$id" remaining_ms)"
	a=$(reeve submit echo one --batch "$id")
	b=$(reeve submit sh 'exit 65' --queue q --batch "$id")
	expect_fail 1 reeve wait "$a" "$b"
	expect_eq 'open 2 0 1 1' "$(totals "$id")"
	c=$(reeve submit sh "$HOLD" --batch "$id")
	wait_began "$c"
	expect_eq 'open 3 1 1 1' "$(totals "$id")"
	expect [ "$(batch "$id" remaining_ms)" -gt 0 ]
	expect_match 'remaining +about [0-9]' "$(reeve batch report "$id")"
	reeve batch close "$id" >"$DIR/closed"
	expect_match 'state +closed \(running\)' "$(cat "$DIR/closed")"
	expect_fail 1 reeve batch wait "$id" --max-wait 300ms
	expect_fail 1 script -qec "'$REEVE_BIN/reeve' --manager '$REEVE_MANAGER' batch wait $id --max-wait 300ms" /dev/null
	expect_match 'waiting \[#* *\] [0-9]+/[0-9]+' "$OUTPUT"
	release
	expect_fail 1 reeve batch wait "$id" --max-wait 20s
	expect_match 'tasks +3 submitted, 0 pending, 2 completed, 1 failed' "$OUTPUT"
	expect_consistent "$id"
	reeve batch report "$id" --json >"$DIR/report"
	expect_eq "ended ended nightly q false 3 0 2 1 0" "$(jq -r '.batch | [.state, .phase, .name, .queue, .implicit, .submitted, .pending,
		.completed, .failed, .remaining_ms] | join(" ")' "$DIR/report")"
	expect_eq true "$(jq '.batch | .created < .started and .started < .closed and .closed < .ended and .duration_ms > 0' "$DIR/report")"
	expect_eq "$a completed 1 worker $b dead 1 worker $c completed 1 worker" "$(jq -r '[.tasks[] |
		[.id, .status, .attempt, .worker] | join(" ")] | join(" ")' "$DIR/report")"
	expect_eq true "$(jq '[.tasks[] | .created < .started and .started < .ended] | all' "$DIR/report")"
	expect_match "$b +dead +sh +1/5 .* exit:65" "$(reeve batch report "$id")"
	expect_match "batch +$id" "$(reeve show "$a")"
	expect_eq "$id" "$(field "$a" batch_id)"
	# The newest batch is listed first.
	two=$(reeve batch open other)
	expect_eq "$two $id" "$(reeve batch list --json | jq -r .id | xargs)"
	expect_eq "$two" "$(reeve batch list --json --open | jq -r .id | xargs)"
	expect_eq "$id" "$(reeve --json batch list --queue q | jq -r .id | xargs)"
	early=$(reeve batch open early --queue no-tasks-yet)
	expect_eq "$early" "$(reeve batch list --queue no-tasks-yet --json 2>&1 | jq .id)"
	expect_match "$id +nightly +q +ended +ended +3 +0 +2 +1" "$(reeve batch list)"
}

test_a_full_report_has_details_and_results() {
	local id a b c
	start_postgres
	start_manager --max-details 3000 --max-result 3000 --max-message 70000
	start_worker
	id=$(reeve batch open full --queue q)
	a=$(reeve submit echo '{"name":"Tuhin1"}' --batch "$id")
	b=$(reeve submit sh 'echo no >&2; exit 65' --batch "$id")
	expect_fail 1 reeve wait "$a" "$b"
	c=$(reeve submit sh true --batch "$id" --delay 1h)
	expect_eq '{"name":"Tuhin1"} {"name":"Tuhin1"}' "$(reeve batch report "$id" --full --json | jq -r ".tasks[] | select(.id == $a) | \"\(.details) \(.result)\"")"
	expect_eq 'null null' "$(reeve batch report "$id" --json | jq -r '.tasks[0] | "\(.details) \(.result)"')"
	expect_match 'details +\{"name":"Tuhin1"\}
result +\{"name":"Tuhin1"\}' "$(reeve batch report "$id" --full)"
	# As separate lists.
	expect_eq "$a" "$(reeve batch report "$id" --tasks completed --json | jq '.tasks[].id')"
	expect_eq "$b" "$(reeve batch report "$id" --tasks failed --json | jq '.tasks[].id')"
	expect_eq "$c" "$(reeve batch report "$id" --tasks pending --full --json | jq '.tasks[].id')"
	expect_match "$b +dead" "$(reeve batch report "$id" --tasks failed)"
	expect_no_match "$a +completed +sh" "$(reeve batch report "$id" --tasks failed)"
	expect_fail 2 reeve batch report "$id" --tasks other
	# On many pages: each message holds about 70 kB.
	for n in $(seq 120); do jq -cn "{type: \"echo\", details: (\"$n\" * 900)}"; done | reeve submit --bulk - --batch "$id" --wait >/dev/null
	reeve batch report "$id" --full --json >"$DIR/report"
	expect_eq "123 $(sql "select sum(length(details)), sum(length(result)) from all_tasks where batch_id = $id" | tr '|' ' ')" \
		"$(jq -r '.tasks | "\(length) \(map(.details | length) | add) \(map(.result // "" | length) | add)"' "$DIR/report")"
	expect_eq 121 "$(reeve batch report "$id" --tasks completed --json | jq '.tasks | length')"
	# Failed ones among many that completed.
	sql "insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
			timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated, batch_id)
		select (now() at time zone 'UTC')::date + 31, 1000000 + n, 1, 0, 'q', 'sh', '', case when n = 11000 then 'dead' else 'completed' end, now(), 1, 1, 1, 1, 1, true, '',
			now(), now(), now(), $id from generate_series(1, 11000) n"
	expect_eq "$b 1011000" "$(reeve batch report "$id" --tasks failed --json | jq '.tasks[].id' | xargs)"
}

test_a_stopped_batch_is_distinguished() {
	local first second
	start_postgres
	start_manager
	start_worker
	first=$(reeve batch open first --queue q) second=$(reeve batch open second --queue q)
	reeve submit nothing --batch "$first" --wait >/dev/null
	reeve batch close "$first" >/dev/null
	wait_until 20 '[ "$(batch "$first" state)" = ended ]'
	reeve submit nothing --batch "$second" --delay 1h >/dev/null
	reeve queue stop q --wait >/dev/null
	wait_until 20 '[ "$(batch "$second" state)" = ended ]'
	expect_eq 'false true' "$(batch "$first" stopped) $(batch "$second" stopped)"
	expect_match 'state +ended' "$(reeve batch report "$first")"
	expect_match 'state +stopped' "$(reeve batch report "$second")"
	expect_match "$second +second +q +stopped +ended" "$(reeve batch list)"
}

test_the_remaining_time_has_rests_delays_and_slots() {
	local rests delays slots
	start_postgres
	start_manager
	start_worker worker --concurrency 2
	reeve queue set rests --resting 5s >/dev/null
	reeve queue set slots --resting 0s >/dev/null
	rests=$(reeve batch open rests --queue rests) delays=$(reeve batch open delays --queue delays) slots=$(reeve batch open slots --queue slots)
	expect_eq '-1' "$(batch "$rests" remaining_ms)"
	# Nine tasks that take no time, on two slots that rest for 5 s: after the first two there are at least three more rests.
	reeve queue pause rests >/dev/null # the submits may take longer than a rest
	for _ in 1 2 3 4 5 6 7 8 9; do reeve submit nothing --queue rests --batch "$rests"; done >/dev/null
	reeve queue resume rests >/dev/null
	wait_until 20 '[ "$(batch "$rests" pending)" = 7 ]'
	expect [ "$(batch "$rests" remaining_ms)" -ge 12000 ]
	expect [ "$(batch "$rests" remaining_ms)" -le 18000 ]
	reeve queue stop rests --wait >/dev/null
	# A failed task is tried again in an hour, once.
	reeve submit nothing --queue delays --batch "$delays" >/dev/null
	reeve submit sh 'exit 1' --queue delays --batch "$delays" --backoff fixed:1h --jitter 0 --max-attempts 2 >/dev/null
	wait_until 20 '[ "$(reeve list --where "batch=$delays status=failed" --json)" ]'
	expect [ "$(batch "$delays" remaining_ms)" -ge 3590000 ]
	expect [ "$(batch "$delays" remaining_ms)" -le 3601000 ]
	# Tasks that may fail, too: of two attempts one has failed.
	reeve submit nothing --queue delays --batch "$delays" --delay 1h --backoff fixed:1h --jitter 0 --max-attempts 2 >/dev/null
	expect [ "$(batch "$delays" remaining_ms)" -ge 5390000 ]
	expect [ "$(batch "$delays" remaining_ms)" -le 5401000 ]
	# Each takes a second, on two slots.
	reeve submit sh 'sleep 1' --queue slots --batch "$slots" --wait >/dev/null
	reeve queue pause slots >/dev/null
	for _ in 1 2 3 4 5 6 7 8; do reeve submit sh 'sleep 1' --queue slots --batch "$slots"; done >/dev/null
	expect [ "$(batch "$slots" remaining_ms)" -ge 4000 ]
	expect [ "$(batch "$slots" remaining_ms)" -le 6000 ]
	start_worker more --concurrency 6
	expect [ "$(batch "$slots" remaining_ms)" -le 2000 ]
	expect [ "$(batch "$slots" remaining_ms)" -ge 1000 ]
	# The queue's limit lets only one run at once, more than there are slots, none.
	reeve queue set slots --max-running 1 >/dev/null
	expect [ "$(batch "$slots" remaining_ms)" -ge 8000 ]
	reeve queue set slots --max-running 100 >/dev/null
	expect [ "$(batch "$slots" remaining_ms)" -le 2000 ]
	reeve queue set slots --max-running 0 >/dev/null
	expect_eq -1 "$(batch "$slots" remaining_ms)"
}

test_entry_and_exit_tasks_run_once_before_the_first_and_after_the_last() {
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler prepare]
		exec = /bin/bash -c "cat >> $REEVE_TEST_DIR/prepared; until [ -e $REEVE_TEST_DIR/go ]; do sleep 0.05; done; echo begin >> $REEVE_TEST_DIR/log.txt"
		[handler finish]
		exec = /bin/bash -c "cat >> $REEVE_TEST_DIR/finished; echo end >> $REEVE_TEST_DIR/log.txt"
	END
	start_postgres
	start_manager
	start_worker worker --concurrency 8
	id=$(reeve batch open both --queue q --entry prepare --exit finish)
	for i in $(seq 1 20); do echo "{\"details\":\"echo $i >> \$REEVE_TEST_DIR/log.txt\"}"; done >"$DIR/tasks"
	reeve submit sh --bulk "$DIR/tasks" --batch "$id" >"$DIR/ids"
	late=$(reeve submit sh 'echo late >> $REEVE_TEST_DIR/log.txt' --batch "$id" --delay 1500ms)
	expect_eq 'open 21 21 0 0' "$(totals "$id")"
	touch "$DIR/go"
	reeve batch close "$id" >/dev/null
	expect reeve batch wait "$id" --max-wait 30s
	expect_eq 'ended 21 0 21 0' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq 23 "$(wc -l <"$DIR/log.txt")"
	expect_eq 'begin end' "$(sed -n '1p;$p' "$DIR/log.txt" | xargs)"
	expect_eq late "$(sed -n 22p "$DIR/log.txt")"
	expect_eq "completed completed" "$(batch "$id" entry_status exit_status)"
	expect_eq "batch_entry $id both q" "$(jq -r '[.event, .batch_id, .batch, .queue] | join(" ")' "$DIR/prepared")"
	expect_eq "batch_exit $id 21 21 0" "$(jq -r '[.event, .batch_id, .submitted, .completed, .failed] | join(" ")' "$DIR/finished")"
	# Entry and exit tasks have the batch's id, but are not counted in it.
	expect_eq "$id prepare $id finish" "$(sql "select batch_id, type from all_tasks where type <> 'sh' order by id" | tr '|' ' ' | xargs)"
	expect_eq 21 "$(reeve batch report "$id" --json | jq '.tasks | length')"
	expect_eq t "$(sql "select e.ended <= min(t.started) from all_tasks e, all_tasks t where e.type = 'prepare' and t.type = 'sh' group by e.ended")"
	expect_eq t "$(sql "select x.started >= max(t.ended) from all_tasks x, all_tasks t where x.type = 'finish' and t.type = 'sh' group by x.started")"
	expect_eq t "$(sql "select ended - created >= '1500ms' from all_tasks where id = $late")"
}


test_an_entry_task_that_fails_ends_the_batch() {
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler broken]
		exec = /bin/bash -c "echo no disk >&2; exit 65"
		[handler finish]
		exec = /bin/cat
	END
	start_postgres
	start_manager
	id=$(reeve batch open bad --queue q --entry broken --exit finish)
	for i in $(seq 1 2500); do echo '{"details":"exit 0"}'; done | reeve submit sh --bulk - --batch "$id" >"$DIR/ids"
	delayed=$(reeve submit sh 'exit 0' --batch "$id" --delay 1h)
	expect_eq 2501 "$(sql "select count(*) from tasks where run_at = 'infinity'")"
	reeve wait "$delayed" 2>"$DIR/waited" &
	waiter=$!
	start_worker
	# The failure of the entry task closed the batch.
	wait_batch 30 "$id"
	expect_eq 'ended 2501 0 0 2501' "$(totals "$id")"
	expect_consistent "$id"
	status=0
	wait $waiter || status=$?
	expect_eq 1 $status
	expect_eq "2501|entry_failed|the entry task $(batch "$id" entry_id) of batch $id ended dead" \
		"$(sql "select count(*), error_code, last_error from task_history where status = 'dead' and type = 'sh' group by 2, 3")"
	expect_eq 'dead completed' "$(batch "$id" entry_status exit_status)"
	expect_eq 'submitted discard_requested dead' "$(events "$delayed")"
	expect_fail 4 reeve submit sh --batch "$id"
	expect_match "batch $id was closed at [-0-9]+T[:.0-9]+Z: its entry task [0-9]+ ended dead" "$OUTPUT"
	expect_fail 4 reeve batch close "$id"
	# A cancelled entry task fails the batch, too.
	stop worker
	id=$(reeve batch open worse --queue q --entry broken)
	task=$(reeve submit sh 'exit 0' --batch "$id")
	reeve cancel "$(batch "$id" entry_id)" >/dev/null
	wait_batch 10 "$id"
	expect_eq 'dead entry_failed cancelled' "$(field "$task" status) $(field "$task" error_code) $(batch "$id" entry_status)"
}

test_the_example_in_c_as_it_is_documented() {
	start_postgres
	start_manager
	start remarks "$REEVE_BIN/example-remarks-worker" "$REEVE_MANAGER"
	wait_until 10 '[ -n "$(reeve worker list --json)" ]'
	shape() { sed -E 's/[0-9]+ ms/N ms/'; }
	awk '/^    \$ example-batch/ { on = 1; next } /^$/ { on = 0 } on { print substr($0, 5) }' "$TOP/docs/client.md" >"$DIR/documented"
	eval "set -- $(sed -n 's/^    \$ example-batch [^ ]* //p' "$TOP/docs/client.md")"
	"$REEVE_BIN/example-batch" "$REEVE_MANAGER" "$@" >"$DIR/printed"
	expect_eq "$(shape <"$DIR/documented")" "$(shape <"$DIR/printed")"
	expect_fail 1 "$REEVE_BIN/example-batch" tcp://127.0.0.1:1 book '{}'
	expect_match '^UNAVAILABLE: no manager reachable' "$OUTPUT"
	stop remarks
}

test_implicit_batches_open_with_the_first_task_and_close_when_all_have_ended() {
	start_postgres
	start_manager
	set_queue q "batches = true, callback_type = 'told', exit_type = 'nothing'"
	a=$(reeve submit sh "$HOLD" --queue q)
	b=$(reeve submit sh 'exit 65' --queue q)
	other=$(reeve submit sh 'exit 0' --queue plain)
	expect_eq "1 q true open 2 2" "$(batch 1 id name implicit state submitted pending)"
	expect_eq '' "$(sql "select batch_id from tasks where id = $other")"
	start_worker worker --concurrency 4
	wait_began "$a"
	expect_fail 1 reeve wait "$b"
	expect_eq 'open 2 1 0 1' "$(totals 1)"
	release
	wait_batch 10 1
	expect_eq 'ended 2 0 1 1' "$(totals 1)"
	expect_eq "" "$(sql "select batch_id from queues where name = 'q'")"
	expect_eq completed "$(batch 1 exit_status)"
	# The next task opens another batch, also from a bulk file. Callback tasks are in no batch.
	for i in $(seq 1 50); do echo '{}'; done | reeve submit nothing --bulk - --queue q | reeve wait - >/dev/null
	wait_until 10 '[ "$(sql "select count(*) from batches where phase <> '"'ended'"'")" = 0 ]'
	expect_consistent
	expect_eq 52 "$(sql "select sum(submitted) from batches")"
	expect_eq 0 "$(sql "select count(*) from all_tasks where type = 'told' and batch_id is not null")"
	expect_eq 52 "$(told task_end | wc -l)"
	expect_eq "$(sql "select count(*) from batches")" "$(told batch_end | jq .batch.id | sort -u | wc -l)"
}

# A submit of known keys opens a batch that gets no task; the batch ends.
test_an_implicit_batch_without_tasks_does_not_stay() {
	start_postgres
	start_manager
	set_queue q 'batches = true'
	start_worker
	id=$(reeve submit nothing --queue q --key k)
	reeve wait "$id" >/dev/null
	wait_batch 10 1
	expect_eq "$id" "$(reeve submit nothing --queue q --key k 2>/dev/null)"
	wait_until 10 '[ "$(sql "select count(*) from batches where phase <> '"'ended'"'")" = 0 ]'
	expect_eq '2|0|' "$(sql 'select id, submitted, started_at from batches where id > 1')"
	# A newer version is a task of the batch that is open now.
	reeve submit sh 'exit 65' --queue q --key k --key-version 2 >/dev/null
	wait_batch 10 3
	expect_eq "ended 1 0 0 1" "$(totals 3)"
	expect_eq "$id" "$(reeve batch report 3 --json | jq '.tasks[].id')"
	expect_eq "ended 1 0 1 0" "$(totals 1)"
}

test_callback_tasks_report_the_begin_each_task_and_the_end() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve batch open told --queue q --callback-type told --entry nothing --exit nothing --callback http://127.0.0.1:1/x --callback-tasks)
	a=$(reeve submit echo one --batch "$id")
	b=$(reeve submit sh 'echo bad >&2; exit 65' --batch "$id")
	c=$(reeve submit sh --batch "$id" --delay 1h)
	expect_eq "batch_begin $id told q new" "$(told | jq -r '[.event, .batch.id, .batch.name, .batch.queue, .batch.phase] | join(" ")' | sed 's/entry/new/')"
	expect_fail 1 reeve wait "$a" "$b"
	reeve cancel "$c" >/dev/null
	reeve batch close "$id" >/dev/null
	expect_fail 1 reeve batch wait "$id" --max-wait 20s
	expect_eq 'batch_begin batch_end' "$(told | jq -r .event | sed -n '1p;$p' | xargs)"
	expect_eq 5 "$(told | wc -l)"
	told task_end | jq -c .task >"$DIR/ends"
	expect_eq "$(sql "select details from all_tasks where id = $a")" "$(jq -r "select(.id == $a).details" "$DIR/ends")"
	expect_eq "$(sql "select result from all_tasks where id = $a")" "$(jq -r "select(.id == $a).result" "$DIR/ends")"
	expect_eq 'worker true true true' "$(told task_end | jq -r "select(.task.id == $a).worker |
		[.name, (.registered | length > 20), (.uptime_ms > 0), (.succeeded + .failed >= 0)] | join(\" \")")"
	expect_eq "$(told batch_end | jq -c '[.tasks[] | select(.status == "completed").id]')" "$(told batch_end | jq -c .completed)"
	expect_eq "$(told batch_end | jq -c '[.tasks[] | select(.status != "completed").id]')" "$(told batch_end | jq -c .failed)"
	expect_eq "$a completed worker" "$(jq -r "select(.id == $a) | [.id, .status, .worker] | join(\" \")" "$DIR/ends")"
	expect_eq "$b dead exit:65 bad" "$(jq -r "select(.id == $b) | [.id, .status, .error_code, .last_error] | join(\" \")" "$DIR/ends")"
	expect_eq "$c cancelled" "$(jq -r "select(.id == $c) | [.id, .status] | join(\" \")" "$DIR/ends")"
	expect_eq "ended 3 1 2 $a,$b,$c" "$(told batch_end | jq -r '[.batch.state, .batch.submitted, .batch.completed, .batch.failed,
		([.tasks[].id] | map(tostring) | join(","))] | join(" ")')"
	# The HTTP callbacks have the same events and payloads.
	expect_eq "batch_begin task_end task_end task_end batch_end" "$(sql "select event from callbacks order by id" | xargs)"
	expect_eq "$(told task_end | sort)" "$(sql "select payload from callbacks where event = 'task_end'" | jq -c . | sort)"
}

test_an_empty_batch_ends_without_callbacks() {
	start_postgres
	start_manager
	id=$(reeve batch open empty --queue q --callback-type told --entry nothing --exit nothing --callback http://127.0.0.1:1/)
	reeve batch close "$id" >/dev/null
	expect reeve batch wait "$id" --max-wait 10s
	expect_eq 'ended 0 0 0 0' "$(totals "$id")"
	expect_eq 0 "$(sql 'select (select count(*) from all_tasks) + (select count(*) from callbacks)')"
	expect_eq '[]' "$(reeve batch report "$id" --json | jq -c .tasks)"
	expect_eq null "$(reeve batch report "$id" --json | jq -c .batch.started)"
}

test_errors_name_the_invalid_input() {
	start_postgres
	start_manager
	id=$(reeve batch open x --queue q)
	reeve batch close "$id" >/dev/null
	wait_batch 10 "$id"
	expect_fail 4 reeve batch close "$id"
	expect_match "batch $id was closed at 20[-0-9]+T[:.0-9]+Z" "$OUTPUT"
	expect_fail 4 reeve batch close 999
	expect_match 'there is no batch 999' "$OUTPUT"
	expect_fail 4 reeve batch report 999
	expect_match 'there is no batch 999' "$OUTPUT"
	expect_fail 4 reeve submit echo --batch 999
	expect_match 'there is no batch 999' "$OUTPUT"
	expect_fail 4 reeve submit echo --batch 999 --queue q
	expect_match 'there is no batch 999' "$OUTPUT"
	expect_fail 4 reeve submit echo --batch "$id"
	expect_match "batch $id was closed at" "$OUTPUT"
	open=$(reeve batch open y --queue q)
	expect_fail 4 reeve submit echo --batch "$open" --queue r
	expect_match "batch $open is of queue \"q\", the task of \"r\"" "$OUTPUT"
	# A chunk of a bulk file is submitted completely or not at all.
	printf '{"type":"echo","queue":"q","batch_id":%s}\n' "$open" "$id" >"$DIR/mixed"
	expect_fail 4 reeve submit --bulk "$DIR/mixed"
	expect_match "batch $id was closed at" "$OUTPUT"
	expect_eq 0 "$(sql 'select count(*) from all_tasks')"
	expect_eq 'open 0 0 0 0' "$(totals "$open")"
	echo '{"type":"echo","batch_id":-3}' >"$DIR/negative"
	expect_fail 4 reeve submit --bulk "$DIR/negative"
	expect_match 'batch_id is negative' "$OUTPUT"
	# Invalid usage.
	expect_fail 2 reeve batch
	expect_fail 2 reeve batch shut 1
	expect_match 'unknown verb "shut"' "$OUTPUT"
	expect_fail 2 reeve batch close
	expect_fail 2 reeve batch close x
	expect_match '"x" is not a batch' "$OUTPUT"
	expect_fail 2 reeve batch open
	expect_fail 2 reeve batch open x --entry ''
	expect_fail 2 reeve batch open x --callback-secret-file "$DIR/none"
	expect_fail 2 reeve submit echo --batch 0
	expect_fail 4 reeve batch open x --callback ftp://host/
	expect_match '--callback ' "$OUTPUT"
	expect_match '  close +close a batch' "$(reeve batch --help)"
	for word in open close list report wait; do expect_match "reeve batch $word" "$(reeve batch $word --help)"; done
}

test_a_close_that_is_resent_is_answered_as_the_first() {
	start_postgres
	start_manager
	id=$(reeve batch open x)
	at=$(printf '%012x' "$(date +%s%3N)") # the maintenance deletes requests with an older time
	sql "select batch_close('${at:0:8}-${at:8}-7000-8000-000000000001', $id), batch_close('${at:0:8}-${at:8}-7000-8000-000000000001', $id)" >/dev/null
	expect_match 'was closed at' "$(sql "select batch_close('${at:0:8}-${at:8}-7000-8000-000000000002', $id)" 2>&1 || true)"
	# A refused close was not carried out; a resend is refused as well.
	expect_match 'was closed at' "$(sql "select batch_close('${at:0:8}-${at:8}-7000-8000-000000000002', $id)" 2>&1 || true)"
	expect_match 'used for another call' "$(sql "select batch_open('${at:0:8}-${at:8}-7000-8000-000000000001', 'x', 'q', null, null, false, null, null, null, '', false)" 2>&1 || true)"
	again="select batch_open('${at:0:8}-${at:8}-7000-8000-000000000003', 'x', 'q', null, null, false, null, null, null, '', false)"
	expect_eq "$(sql "$again")" "$(sql "$again")"
	expect_eq 2 "$(sql 'select count(*) from batches')"
}

test_tasks_retried_manually_count_again_until_the_batch_has_ended() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve batch open x --queue q --callback-type told --exit nothing)
	a=$(reeve submit sh '[ -e $REEVE_TEST_DIR/good ] || exit 65' --batch "$id")
	b=$(reeve submit sh "$HOLD" --batch "$id")
	expect_fail 1 reeve wait "$a"
	wait_began "$b"
	expect_eq 'open 2 1 0 1' "$(totals "$id")"
	reeve batch close "$id" >/dev/null
	expect_eq 'closed 2 1 0 1' "$(totals "$id")"
	touch "$DIR/good"
	reeve retry "$a" >/dev/null
	reeve wait "$a" >/dev/null
	expect_eq 'closed 2 1 1 0' "$(totals "$id")"
	# A completed task can be retried as well, and counts again.
	reeve retry "$a" >/dev/null
	reeve wait "$a" >/dev/null
	expect_eq 'closed 2 1 1 0' "$(totals "$id")"
	release
	expect reeve batch wait "$id" --max-wait 20s
	expect_eq 'ended 2 0 2 0' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq 4 "$(told task_end | wc -l)" "each end is told"
	# A batch that has ended does not change any more.
	rm "$DIR/good"
	reeve retry "$a" >/dev/null
	expect_fail 1 reeve wait "$a"
	reeve retry "$(batch "$id" exit_id)" >/dev/null
	reeve wait "$(batch "$id" exit_id)" >/dev/null
	expect_eq 'ended 2 0 2 0' "$(totals "$id")"
	expect_eq "1 4 1" "$(told batch_begin | wc -l) $(told task_end | wc -l) $(told batch_end | wc -l)"
	expect_eq dead "$(reeve batch report "$id" --json | jq -r ".tasks[] | select(.id == $a).status")"
}

test_cancelled_tasks_have_failed_also_while_they_are_held() {
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler wait]
		exec = /bin/bash -c "until [ -e $REEVE_TEST_DIR/go ]; do sleep 0.05; done"
	END
	start_postgres
	start_manager
	start_worker
	id=$(reeve batch open x --queue q --entry wait)
	a=$(reeve submit sh 'exit 0' --batch "$id")
	b=$(reeve submit sh 'exit 0' --batch "$id")
	c=$(reeve submit sh "$HOLD" --batch "$id")
	reeve cancel "$a" >/dev/null
	expect_eq 'open 3 2 0 1' "$(totals "$id")"
	# A retried task is blocked again. Neither a retry nor an update lets a task run before the entry task has ended.
	reeve retry "$a" "$b" >/dev/null || true
	reeve update "$b" --delay 0s >/dev/null
	expect_eq 'open 3 3 0 0' "$(totals "$id")"
	expect_eq 3 "$(sql "select count(*) from tasks where run_at = 'infinity' and blocked_run_at is not null")"
	reeve cancel "$b" >/dev/null
	touch "$DIR/go"
	reeve wait "$a" >/dev/null
	wait_began "$c"
	reeve cancel "$c" >/dev/null
	reeve batch close "$id" >/dev/null
	expect_fail 1 reeve batch wait "$id" --max-wait 20s
	expect_eq 'ended 3 0 1 2' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq t "$(sql "select min(t.started) >= e.ended from all_tasks t, all_tasks e where e.type = 'wait' and t.type = 'sh' group by e.ended")"
}

# The types of entry, exit and callback tasks may be new to every manager. The tasks still start at once.
test_submitted_by_the_manager_itself_they_do_not_wait() {
	for i in sh entry{1..5} exit{1..5}; do printf '[handler %s]\nexec = /bin/true\n' "$i"; done | handlers
	start_postgres
	start_manager one
	start_manager two
	start_worker worker --concurrency 4
	for i in 1 2 3 4 5; do
		id=$(reeve batch open "b$i" --queue q --entry "entry$i" --exit "exit$i")
		reeve submit sh 'exit 0' --batch "$id" >/dev/null
		reeve batch close "$id" >/dev/null
		expect reeve batch wait "$id" --max-wait 20s
	done
	# The time from each step's cause to its claim, in ms: entry task, first task, exit task. Without notifications each
	# would be a second.
	sql "select round(1000 * extract(epoch from s.started - s.created)) from all_tasks s where type <> 'sh'
		union all select round(1000 * extract(epoch from t.started - e.ended)) from all_tasks t
			join batches b on b.id = t.batch_id join all_tasks e on e.id = b.entry_id where t.type = 'sh'" >"$DIR/waited"
	note "ms: $(sort -n "$DIR/waited" | xargs)"
	expect [ "$(sort -n "$DIR/waited" | sed -n 8p)" -lt 400 ]
}

test_thousands_of_tasks_in_bulk_with_two_managers() {
	start_postgres
	start_manager one
	start_manager two
	export REEVE_MANAGER="${URL[one]},${URL[two]}"
	id=$(reeve batch open big --queue q --entry nothing --exit nothing --callback-type told)
	ledger_tasks 1 3000 | reeve submit --bulk - --batch "$id" >"$DIR/ids"
	expect_eq 'open 3000 3000 0 0' "$(totals "$id")"
	reeve batch close "$id" >/dev/null
	start_worker
	start_ledger a --concurrency 16
	start_ledger b --concurrency 16
	expect reeve batch wait "$id" --max-wait 200s
	expect_each_once 3000
	expect_eq 'ended 3000 0 3000 0' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq "1 3000 1" "$(told batch_begin | wc -l) $(told task_end | wc -l) $(told batch_end | wc -l)"
	reeve batch report "$id" --json | jq '.tasks[].id' >"$DIR/reported"
	expect diff <(sort -n "$DIR/ids") "$DIR/reported"
	expect_eq true "$(told batch_end | jq .truncated)"
}

# Everything that locks the batch's row, concurrently: submits, ends of attempts, cancels, manual retries, newer
# versions, steps of the batch.
test_many_callers_use_one_batch() {
	start_postgres
	start_manager one
	start_manager two
	start_worker worker --concurrency 8
	export REEVE_MANAGER="${URL[one]},${URL[two]}"
	local id pids=() i
	id=$(reeve batch open busy --queue q --entry nothing --exit nothing --callback-type told)
	for i in 1 2 3 4; do
		[ $((i % 2)) = 0 ] && url=${URL[one]} || url=${URL[two]}
		(
			for k in $(seq 1 12); do
				for n in $(seq 1 10); do
					printf '{"details":"exit %s","key":"k%s","version":%s}\n' $((n % 3 == 0 ? 65 : 0)) $((RANDOM % 60)) $k
				done | reeve submit sh --bulk - --queue q --batch "$id" --manager "$url" >"$DIR/ids.$i" 2>/dev/null
				sort -u "$DIR/ids.$i" | shuf | head -n 4 | reeve cancel - --manager "$url" >/dev/null 2>&1 || true
				sort -u "$DIR/ids.$i" | shuf | head -n 4 | reeve retry - --manager "$url" >/dev/null 2>&1 || true
			done
		) &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i"; done
	reeve batch close "$id" >/dev/null
	reeve batch wait "$id" --max-wait 60s >/dev/null || true
	expect_eq ended "$(batch "$id" state)"
	expect_consistent "$id"
	expect_eq "$(sql 'select count(*) from keys')" "$(batch "$id" submitted)"
	expect_eq "1 1" "$(told batch_begin | wc -l) $(told batch_end | wc -l)"
	expect_eq "$(batch "$id" submitted)" "$(told task_end | jq .task.id | sort -u | wc -l)"
	# All transactions take their locks in one order.
	expect_eq 0 "$(grep -c 'deadlock detected' "$DIR/log/postgres.log")"
}

# Makes outputs comparable: replaces numbers and times with N, and drops user names and extra blanks.
shape() {
	sed -E 's/-?[0-9]+([.][0-9]+)?(ms|s|m[0-9]|m|h|d)?([0-9.]+s)?/N/g; s/source .*/source/; s/ +/ /g; s/^ //; s/ $//'
}

# The example of docs/batches.md, command by command.
test_the_worked_example() {
	local line want id
	handlers <<-END
		[handler report]
		exec = /bin/bash
		[handler prepare]
		exec = /bin/bash -c "until [ -e $DIR/released ]; do sleep 0.05; done"
		[handler publish]
		exec = /bin/true
	END
	start_postgres
	start_manager
	start_worker dev-1 --concurrency 4
	cd "$DIR"
	for i in 'exit 0' 'exit 0' 'echo no such customer >&2; exit 65'; do echo "{\"type\":\"report\",\"details\":\"$i\"}"; done >reports.jsonl
	awk '/^## Run a batch/ { on = 1; next } /^## / { on = 0 } on && /^    / { print substr($0, 5); next } on && /^$/ { print }' \
		"$TOP/docs/batches.md" | cat -s | awk '/^\$/ { began = 1 } began' >example
	expect_eq 6 "$(grep -c '^\$ ' example)" 'documented commands'
	while read -r line; do
		case $line in
		'$ reeve batch wait'*) release ;;
		'$ '*) ;;
		*) continue ;;
		esac
		want=$(awk -v command="$line" '$0 == command { on = 1; next } /^\$ / { on = 0 } on' example | shape)
		eval "${line#\$ }" >said 2>&1 || true # in this shell: it remembers the id
		expect_eq "$want" "$(shape <said)" "$line"
	done <example
	cd "$TOP"
}

# Managers are killed again and again while batches of all kinds begin and end: everything happens once.
test_managers_are_killed_again_and_again() {
	local name i pids=() ids=() seed=${REEVE_TEST_SEED:-$RANDOM}
	note "REEVE_TEST_SEED=$seed"
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler entry]
		exec = /bin/true
		[handler exit]
		exec = /bin/true
		[handler bad]
		exec = /bin/bash -c "exit 65"
	END
	start_postgres
	start_manager manager
	set_queue implicit "batches = true, entry_type = 'entry', exit_type = 'exit', callback_type = 'told', callback_url = 'http://127.0.0.1:1/', callback_tasks = true"
	start_manager two
	export REEVE_MANAGER="${URL[manager]},${URL[two]}"
	start_worker worker --concurrency 8
	for i in 1 2 3 4 5 6; do
		(
			for k in 1 2 3; do
				entry=entry
				[ $((i % 3)) != 0 ] || [ $k != 2 ] || entry=bad
				id=$(reeve batch open "b$i.$k" --queue q$i --entry $entry --exit exit --callback-type told --callback http://127.0.0.1:1/ --callback-tasks)
				for n in $(seq 1 15); do printf '{"details":"exit %s"}\n' $((n % 5 == 0 ? 65 : 0)); done >"$DIR/tasks.$i"
				reeve submit sh --bulk "$DIR/tasks.$i" --batch "$id" >/dev/null
				# The batch is closed already if its entry task has failed.
				reeve batch close "$id" >/dev/null || [ $entry = bad ]
				reeve submit --bulk "$DIR/tasks.$i" sh --queue implicit >/dev/null
			done
		) &
		pids+=($!)
	done
	RANDOM=$seed
	local kills=0 end=$((SECONDS + 12))
	while [ $SECONDS -lt $end ]; do
		name=$([ $((RANDOM % 2)) = 0 ] && echo manager || echo two)
		sleep "0.$((RANDOM % 9))"
		kill_manager "$name"
		sleep "0.$((RANDOM % 9))"
		launch_manager "$name"
		kills=$((kills + 1))
	done
	export REEVE_MANAGER="${URL[manager]},${URL[two]}"
	note "$kills kills"
	for i in "${pids[@]}"; do wait "$i"; done
	wait_until 90 '[ "$(sql "select count(*) from batches where phase <> '"'ended'"'")" = 0 ]'
	expect_consistent
	expect_eq "18 540" "$(sql "select count(*) filter (where not implicit) || ' ' || sum(submitted) from batches")"
	# Each of these happens once: begin, end, entry, exit, and the end of every task.
	sql "select b.id, b.submitted,
			(select count(*) from callbacks c where c.batch_id = b.id and event = 'batch_begin'),
			(select count(*) from callbacks c where c.batch_id = b.id and event = 'batch_end'),
			(select count(*) from callbacks c where c.batch_id = b.id and event = 'task_end'),
			(select count(*) from all_tasks t where t.batch_id = b.id and t.source = 'entry of batch ' || b.id),
			(select count(*) from all_tasks t where t.batch_id = b.id and t.source = 'exit of batch ' || b.id),
			(select count(*) from all_tasks t where t.source = 'callback of batch ' || b.id and details::jsonb ->> 'event' = 'batch_begin'),
			(select count(*) from all_tasks t where t.source = 'callback of batch ' || b.id and details::jsonb ->> 'event' = 'batch_end'),
			(select count(*) from all_tasks t where t.source = 'callback of batch ' || b.id and details::jsonb ->> 'event' = 'task_end')
		from batches b where submitted > 0 order by 1" >"$DIR/counts"
	expect_eq '' "$(awk -F'|' '$3 != 1 || $4 != 1 || $5 != $2 || $6 != 1 || $7 != 1 || $8 != 1 || $9 != 1 || $10 != $2' "$DIR/counts")"
	# Entry tasks run before the first task, exit tasks after the last.
	expect_eq 0 "$(sql "select count(*) from batches b join all_tasks e on e.id = b.entry_id join all_tasks t on t.batch_id = b.id
		where t.id <> e.id and t.started < e.ended")"
	expect_eq 0 "$(sql "select count(*) from batches b join all_tasks e on e.id = b.exit_id join all_tasks t on t.batch_id = b.id
		where t.id <> e.id and t.ended > e.started")"
}

run_tests
