#!/usr/bin/env bash
# Waiting tasks are edited: details, timeout, key, and the queue, while they are claimed, submitted and stopped.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/locks.bash"

# Whether the counts of live tasks equal those of a recount.
expect_counted() {
	local totals='select * from live_totals(null) t where (queued, delayed, executing, failed) <> (0, 0, 0, 0) order by 1' before
	before=$(sql "$totals")
	sql 'select counts_recount()' >/dev/null
	expect_eq "$(sql "$totals")" "$before" 'the counts'
}

test_a_waiting_task_can_be_edited_until_it_starts() {
	local id other busy batch
	start_postgres
	start_manager
	start_manager second
	start_worker worker --queue urgent
	id=$(reeve submit sh 'echo wrong' --queue later --key k1)
	reeve update "$id" --details 'printf %s right' --timeout 2m --max-attempts 7 --key k2 >/dev/null
	expect_eq 'printf %s right|120000|7|k2' "$(sql "select details, timeout_ms, max_attempts, key from tasks where id = $id")"
	expect_eq 'later|k2' "$(sql "select queue, key from keys where task_id = $id")"
	expect_match 'max_attempts 5 -> 7, details of 10 bytes -> 15 bytes, timeout 60000 ms -> 120000 ms, key k1 -> k2' \
		"$(reeve audit "$id" --event updated --json | jq -r .note)"
	expect_eq "$id" "$(reeve submit nothing --queue later --key k2 2>/dev/null)"
	other=$(reeve submit nothing --queue later --key k1)
	expect [ "$other" != "$id" ]
	expect_fail 4 reeve update "$other" --key k2
	expect_match 'another task of the queue has the key' "$OUTPUT"
	# Another queue, whose workers get it at once; its key goes with it.
	expect_eq 2 "$(reeve queue list --json | jq -s 'map(select(.queue == "later").queued) | add')"
	reeve update "$id" --queue urgent >/dev/null
	reeve wait "$id" --max-wait 20s >/dev/null
	expect_eq 'right urgent' "$(field "$id" result) $(field "$id" queue)"
	expect_eq "$id" "$(reeve submit nothing --queue urgent --key k2 2>/dev/null)"
	expect_eq 1 "$(reeve queue list --json | jq -s 'map(select(.queue == "later").queued) | add')"
	expect_eq 0 "$(reeve queue list --json | jq -s 'map(select(.queue == "urgent") | .queued + .delayed + .failed + .executing) | add')"
	# All that match, also those that failed.
	busy=$(reeve submit sh 'exit 1' --queue urgent --retry-base 1h)
	wait_status 20 "$busy" failed
	expect_eq '1 task changed' "$(reeve update --where 'queue=urgent status=failed' --details 'exit 0' --queue other)"
	expect_eq '0|1' "$(reeve queue list --json | jq -rs '"\(map(select(.queue == "urgent").failed) | add)|\(map(select(.queue == "other").failed) | add)"')"
	reeve update "$busy" --queue urgent >/dev/null
	reeve retry "$busy" >/dev/null
	reeve wait "$busy" --max-wait 20s >/dev/null
	# Not of an executing task, nor the queue of a task in a batch, nor a stopped queue.
	busy=$(reeve submit sh "$HOLD" --queue urgent)
	wait_began "$busy"
	for option in '--details x' '--queue later' '--timeout 1m' '--key z'; do
		expect_fail 4 reeve update "$busy" $option
		expect_match 'it is executing: only its priority and attempts can be changed' "$OUTPUT"
	done
	release
	batch=$(reeve batch open b --queue later)
	id=$(reeve submit nothing --batch "$batch")
	expect_fail 4 reeve update "$id" --queue urgent
	expect_match 'it stays in its queue' "$OUTPUT"
	printf 'from\ninput' | reeve update "$id" --details - >/dev/null
	expect_eq $'from\ninput' "$(field "$id" details)"
	for ids in - "$id -"; do
		expect_fail 2 reeve update $ids --details -
		expect_match 'the ids and --details cannot both come from standard input' "$OUTPUT"
	done
	reeve update "$id" --details new >/dev/null
	reeve queue set gone --verbose no >/dev/null
	reeve queue stop gone --wait >/dev/null
	expect_fail 4 reeve update "$other" --queue gone
	expect_match 'the queue is stopped' "$OUTPUT"
	expect_fail 4 reeve update "$other" "$id" --key z
	expect_match 'key is for one task' "$OUTPUT"
}

# A submit by SQL has locked a new key and waits for the task of another one. An update of that task to the new key must not
# wait for the submit.
test_an_update_does_not_wait_for_a_key() {
	local id
	start_postgres
	start_manager
	id=$(reeve submit nothing --queue q --key old --key-version 1 --delay 1h)
	hold gate 'select pg_advisory_lock(77)'
	start submitter "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve -c "begin;
		select reeve.submit('nothing', queue => 'q', key => 'new');
		select pg_advisory_lock(77);
		select reeve.submit('nothing', queue => 'q', key => 'old', version => 2, delay => '1 h');
		commit"
	waits() { sql "select count(*) from pg_stat_activity where wait_event = 'advisory'"; }
	wait_until 20 '[ "$(waits)" = 1 ]'
	expect_fail 4 reeve update "$id" --key new
	expect_match 'another task of the queue has the key' "$OUTPUT"
	expect_eq 1 "$(waits)" 'the submit that still has the key'
	let_go gate
	ended submitter 20
	expect_eq 0 "$STATUS" 'the submit'
	expect_eq 0 "$(cat "$DIR"/log/postgres* | grep -c 'deadlock detected')"
	expect_eq 'old|2 new|' "$(sql "select key, version from keys order by key desc" | xargs)"
	reeve update "$id" --key third >/dev/null
	expect_eq "third|2" "$(sql "select key, version from keys where task_id = $id")"
}

# Tasks are moved and edited while workers take them: each change happens before an attempt, or not at all.
test_updates_race_with_claims() {
	local round moved=0
	start_postgres
	start_manager
	start_manager second
	start_worker one --concurrency 3 --queue a
	# The worker goes on when the first of them have been moved.
	for _ in $(seq 150); do
		echo '{"type": "sh", "details": "until [ -e $REEVE_TEST_DIR/moved ]; do sleep 0.01; done; echo $REEVE_QUEUE old"}'
	done | reeve submit --bulk - --queue a >"$DIR/ids"
	for round in 1 2 3 4 5; do
		# shellcheck disable=SC2046
		reeve update $(sed -n "$((round * 25 + 1)),$((round * 25 + 25))p" "$DIR/ids") --details 'echo new' --queue b --json >"$DIR/changed" || true
		n=$(jq -s 'map(select(.changed)) | length' "$DIR/changed")
		moved=$((moved + n))
		touch "$DIR/moved"
	done
	expect [ "$moved" -gt 0 ]
	start_worker two --concurrency 3 --queue b
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq "$moved" "$(sql "select count(*) from task_history where queue = 'b' and details = 'echo new' and result ~ '^new'")"
	expect_eq $((150 - moved)) "$(sql "select count(*) from task_history where queue = 'a' and details ~ 'old' and attempt = 1")"
	expect_eq "$moved" "$(sql "select count(*) from task_events where event = 'updated' and note ~ 'queue a -> b'")"
	expect_counted
}

# Executing tasks are repeated while their results come, through two managers: both lock the tasks in the same order.
test_repeating_executing_tasks_races_with_results() {
	local round repeated=0
	start_postgres -c deadlock_timeout=200ms
	start_manager
	start_manager second
	start_worker worker --concurrency 16
	for _ in $(seq 300); do echo '{"type": "sh", "details": "sleep 0.1$((RANDOM % 10))"}'; done | reeve submit --bulk - >"$DIR/ids"
	wait_until 20 "[ \"\$(sql \"select count(*) from tasks where status = 'executing'\")\" != 0 ]"
	for round in $(seq 12); do
		reeve retry --where 'status=executing' --json >"$DIR/changed.$round" || expect_eq 4 $? # none runs just now
	done
	repeated=$(cat "$DIR"/changed.* | jq -s 'map(select(.changed)) | length')
	expect [ "$repeated" -gt 0 ]
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 300 "$(sql "select count(*) from task_history where status = 'completed'")"
	expect_eq 0 "$(cat "$DIR"/log/postgres* | grep -c 'deadlock detected')"
}

# The limits of both queues stay exact (invariant I9), and paused queues give out nothing.
test_tasks_move_between_queues_with_limits() {
	local n id
	start_postgres
	start_manager
	start_manager second
	start_worker worker --concurrency 8
	reeve queue set narrow --max-running 1 >/dev/null
	reeve queue set wide --max-running 3 >/dev/null
	reeve queue pause rests >/dev/null
	id=$(reeve submit nothing --queue narrow --delay 1h)
	reeve update "$id" --queue rests --delay 0s >/dev/null
	for n in $(seq 80); do echo '{"type": "sh", "details": "sleep 0.05"}'; done | reeve submit --bulk - --queue narrow >"$DIR/ids"
	for n in 1 2 3 4 5 6 7 8; do
		reeve update --where 'queue=narrow' --queue wide --delay 0s >/dev/null 2>&1 || true
		expect [ "$(sql "select bool_and(l.taken = (select count(*) from tasks t where t.status = 'executing' and t.queue = l.queue)
			and l.taken <= l.maximum) from limits l")" = t ]
		reeve update --where 'queue=wide' --queue narrow --delay 0s >/dev/null 2>&1 || true
		expect [ "$(sql "select bool_and(l.taken = (select count(*) from tasks t where t.status = 'executing' and t.permits = array[l.id])
			and l.taken <= l.maximum) from limits l")" = t ]
	done
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 0 "$(sql 'select sum(taken) from limits')"
	expect_eq 80 "$(sql "select count(*) from task_history where status = 'completed' and attempt = 1")"
	expect_eq 'queued rests' "$(field "$id" status) $(field "$id" queue)"
	reeve queue resume rests >/dev/null
	reeve wait "$id" --max-wait 20s >/dev/null
	expect_counted
}

test_keys_move_with_their_tasks() {
	local a b free
	start_postgres
	start_manager
	a=$(reeve submit nothing --queue a --key k --delay 1h)
	free=$(reeve submit nothing --queue a --key free --delay 1h --key-ttl 2h)
	b=$(reeve submit nothing --queue b --key k --delay 1h)
	expect_fail 4 reeve update "$a" "$free" --queue b
	expect_match "$a.*another task of the queue has the key" "$OUTPUT"
	expect_eq "a|$a b|$b" "$(sql "select queue, task_id from keys where key = 'k' order by 1" | xargs)"
	expect_eq "b|7200000|t" "$(sql "select queue, keep_ms, expires_at < now() + interval '2 hours' from keys where key = 'free'")"
	# A filter changes those that it can.
	expect_eq '1 task changed' "$(reeve update --where 'queue=a' --queue c)"
	expect_eq "$a" "$(reeve submit nothing --queue c --key k 2>/dev/null)"
	expect [ "$(reeve submit nothing --queue a --key k --delay 1h)" != "$a" ]
	# A key whose lifetime is over is free, and one that is taken is not lost.
	sql "update keys set expires_at = now() where task_id = $b"
	reeve update "$a" --queue b >/dev/null
	expect_eq "$a" "$(sql "select task_id from keys where queue = 'b' and key = 'k'")"
	reeve update "$b" --key other >/dev/null
	expect_eq "$b" "$(sql "select task_id from keys where queue = 'b' and key = 'other'")"
	# A version goes along: in the new queue a newer one runs the task again.
	a=$(reeve submit nothing --queue a --key v --key-version 5 --delay 1h)
	reeve update "$a" --queue d >/dev/null
	expect_eq "$a" "$(reeve submit sh 'echo new' --queue d --key v --key-version 6 --delay 1h 2>/dev/null)"
	expect_eq "d sh echo new" "$(field "$a" queue) $(field "$a" type) $(field "$a" details)"
	expect_eq "$a" "$(reeve submit sh 'echo old' --queue d --key v --key-version 4 2>/dev/null)"
	expect_eq 'echo new' "$(field "$a" details)"
	reeve cancel "$a" >/dev/null
	expect_counted
}

test_what_cannot_be_edited() {
	local id inbox
	start_postgres
	start_manager --max-details 1000
	id=$(reeve submit nothing --delay 1h)
	expect_fail 4 reeve update "$id" --details "$(printf '%01001d' 0)"
	expect_match 'details has 1001 bytes; at most 1000 are allowed' "$OUTPUT"
	expect_fail 4 reeve update "$id" --details "$(printf 'a\xff')"
	expect_match 'details is not valid UTF-8' "$OUTPUT"
	expect_fail 2 reeve update "$id" --queue ''
	expect_fail 2 reeve update "$id" --timeout 31d
	expect_fail 2 reeve update "$id"
	expect_eq '' "$(sql "select note from task_events where task_id = $id")"
	reeve update "$id" --details '' >/dev/null
	expect_eq 0 "$(sql "select octet_length(details) from tasks where id = $id")"
	# A task by SQL stays in its queue until a manager has ingested it.
	stop manager
	inbox=$(sql "select submit('nothing', 'x', queue => 'new', delay => '1 h')")
	sql "select tasks_update(array[$inbox], '{\"queue\": \"other\"}', 'x')" >"$DIR/refused"
	expect_match batch "$(cat "$DIR/refused")"
	start_manager
	wait_until 20 "[ \"\$(sql \"select blocked_run_at is null from tasks where id = $inbox\")\" = t ]"
	reeve update "$inbox" --queue other --details y >/dev/null
	expect_eq 'other y' "$(field "$inbox" queue) $(field "$inbox" details)"
	expect_counted
}

run_tests
