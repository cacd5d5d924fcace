#!/usr/bin/env bash
# Batches: tasks that are counted together, from the first submit to the last end. (batch_tasks.sh: entry, exit and
# callback tasks; batch_counts.sh: the counts while much happens at once.)
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/batches.bash"

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
	start shown script -qefc "'$REEVE_BIN/reeve' --manager '$REEVE_MANAGER' batch wait $id" /dev/null
	wait_until 20 'grep -qE "waiting \[#* *\] [0-9]+/[0-9]+" "$DIR/log/shown.log"'
	release
	ended shown
	expect_eq 1 "$STATUS"
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
	local rests delays slots took before got
	# The remaining time is that until the failed task runs, and so much more.
	expect_left() { # MS
		before=$(sql "select (1000 * extract(epoch from run_at - clock_timestamp()))::bigint from tasks where status = 'failed'")
		got=$(batch "$delays" remaining_ms)
		expect [ "$got" -le $((before + $1 + 10000)) ] # with the time that the attempts take
		expect [ "$got" -ge $(($(sql "select (1000 * extract(epoch from run_at - clock_timestamp()))::bigint from tasks
			where status = 'failed'") + $1 - 1000)) ]
	}
	start_postgres
	start_manager
	start_worker worker --concurrency 2
	reeve queue set rests --resting 1m >/dev/null
	reeve queue set slots --resting 0s >/dev/null
	rests=$(reeve batch open rests --queue rests) delays=$(reeve batch open delays --queue delays) slots=$(reeve batch open slots --queue slots)
	expect_eq '-1' "$(batch "$rests" remaining_ms)"
	# Nine tasks that take no time, on two slots that rest for a minute: after the first two there are at least three more rests.
	for _ in 1 2 3 4 5 6 7 8 9; do reeve submit nothing --queue rests --batch "$rests"; done >/dev/null
	wait_until 20 '[ "$(batch "$rests" pending)" = 7 ]'
	expect [ "$(batch "$rests" remaining_ms)" -ge 144000 ]
	expect [ "$(batch "$rests" remaining_ms)" -le 216000 ]
	reeve queue stop rests --wait >/dev/null
	# A failed task is tried again in an hour, once.
	reeve submit nothing --queue delays --batch "$delays" >/dev/null
	reeve submit sh 'exit 1' --queue delays --batch "$delays" --backoff fixed:1h --jitter 0 --max-attempts 2 >/dev/null
	wait_until 20 '[ "$(reeve list --where "batch=$delays status=failed" --json)" ]'
	expect_left 0
	# Tasks that may fail, too: of two attempts one has failed.
	reeve submit nothing --queue delays --batch "$delays" --delay 1h --backoff fixed:1h --jitter 0 --max-attempts 2 >/dev/null
	expect_left 1800000
	# Each takes a bit more than a second, on two slots. The report of one tells how much.
	reeve submit sh 'sleep 1' --queue slots --batch "$slots" --wait >/dev/null
	took=$(sql "select extract(epoch from ended - started) * 1000 from all_tasks where queue = 'slots'")
	took=${took%.*}
	reeve queue pause slots >/dev/null
	for _ in 1 2 3 4 5 6 7 8; do reeve submit sh 'sleep 1' --queue slots --batch "$slots"; done >/dev/null
	expect [ "$(batch "$slots" remaining_ms)" -ge 4000 ]
	expect [ "$(batch "$slots" remaining_ms)" -le $((took * 4 + 100)) ]
	start_worker more --concurrency 6
	expect [ "$(batch "$slots" remaining_ms)" -le $((took + 100)) ]
	expect [ "$(batch "$slots" remaining_ms)" -ge 1000 ]
	# The queue's limit lets only one run at once, more than there are slots, none.
	reeve queue set slots --max-running 1 >/dev/null
	expect [ "$(batch "$slots" remaining_ms)" -ge 8000 ]
	reeve queue set slots --max-running 100 >/dev/null
	expect [ "$(batch "$slots" remaining_ms)" -le $((took + 100)) ]
	reeve queue set slots --max-running 0 >/dev/null
	expect_eq -1 "$(batch "$slots" remaining_ms)"
}

test_the_example_in_c_as_it_is_documented() {
	start_postgres
	start_manager
	start remarks "$REEVE_BIN/example-remarks-worker" "$REEVE_MANAGER"
	wait_until 20 '[ -n "$(reeve worker list --json)" ]'
	shape() { sed -E 's/[0-9]+ ms/N ms/'; }
	awk '/^    \$ example-batch/ { on = 1; next } /^$/ { on = 0 } on { print substr($0, 5) }' "$TOP/docs/client.md" >"$DIR/documented"
	eval "set -- $(sed -n 's/^    \$ example-batch [^ ]* //p' "$TOP/docs/client.md")"
	"$REEVE_BIN/example-batch" "$REEVE_MANAGER" "$@" >"$DIR/printed"
	expect_eq "$(shape <"$DIR/documented")" "$(shape <"$DIR/printed")"
	expect_fail 1 "$REEVE_BIN/example-batch" tcp://127.0.0.1:1 book '{}'
	expect_match '^UNAVAILABLE: no manager reachable' "$OUTPUT"
	# A refused submit leaves no batch open.
	expect_fail 1 "$REEVE_BIN/example-batch" "$REEVE_MANAGER" '' '{}'
	expect_match '^INVALID_ARGUMENT: ' "$OUTPUT"
	expect_eq '' "$(reeve batch list --open --json)"
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
	wait_batch 20 1
	expect_eq 'ended 2 0 1 1' "$(totals 1)"
	expect_eq "" "$(sql "select batch_id from queues where name = 'q'")"
	expect_eq completed "$(batch 1 exit_status)"
	# The next task opens another batch, also from a bulk file. Callback tasks are in no batch.
	for i in $(seq 1 50); do echo '{}'; done | reeve submit nothing --bulk - --queue q | reeve wait - >/dev/null
	wait_until 20 '[ "$(sql "select count(*) from batches where phase <> '"'ended'"'")" = 0 ]'
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
	wait_batch 20 1
	expect_eq "$id" "$(reeve submit nothing --queue q --key k 2>/dev/null)"
	wait_until 20 '[ "$(sql "select count(*) from batches where phase <> '"'ended'"'")" = 0 ]'
	expect_eq '2|0|' "$(sql 'select id, submitted, started_at from batches where id > 1')"
	# A newer version is a task of the batch that is open now.
	reeve submit sh 'exit 65' --queue q --key k --key-version 2 >/dev/null
	wait_batch 20 3
	expect_eq "ended 1 0 0 1" "$(totals 3)"
	expect_eq "$id" "$(reeve batch report 3 --json | jq '.tasks[].id')"
	expect_eq "ended 1 0 1 0" "$(totals 1)"
}

test_errors_name_the_invalid_input() {
	start_postgres
	start_manager
	id=$(reeve batch open x --queue q)
	reeve batch close "$id" >/dev/null
	wait_batch 20 "$id"
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
	printf 'sixteen bytes or more' >"$DIR/secret"
	for option in tasks secret-file="$DIR/secret" attempts; do
		expect_fail 4 reeve batch open x --queue no-callbacks --callback-$option
		expect_match "callback.${option%%-*}:? needs a .*callback" "$OUTPUT"
	done
	reeve queue set calls-back --batches yes --callback http://127.0.0.1:1/ >/dev/null
	reeve batch open x --queue calls-back --callback-tasks --callback-attempts >/dev/null
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
		'$ reeve batch wait'*)
			expect_match $'\nstate +closed \(entry\)\n.*\nentry +task [0-9]+, not ended yet\n' "$(reeve batch report "$id")"
			release
			;;
		'$ '*) ;;
		*) continue ;;
		esac
		want=$(awk -v command="$line" '$0 == command { on = 1; next } /^\$ / { on = 0 } on' example | shape)
		eval "${line#\$ }" >said 2>&1 || true # in this shell: it remembers the id
		expect_eq "$want" "$(shape <said)" "$line"
	done <example
	cd "$TOP"
}

run_tests
