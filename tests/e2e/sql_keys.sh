#!/usr/bin/env bash
# Keys of tasks by SQL: a key of an open transaction keeps only those waiting who want it.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/locks.bash"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/sql_app.bash"

test_a_newer_version_by_sql_runs_the_task_again() {
	start_postgres
	start_manager
	start_worker
	grant_app
	id=$(app "select reeve.submit('echo', 'one', key => 'site', version => 1)")
	wait_ended 20 "$id"
	expect_eq "$id" "$(app "select reeve.submit('echo', 'same', key => 'site', version => 1)")"
	expect_eq "$id" "$(app "begin; select reeve.submit('echo', 'undone', key => 'site', version => 9); rollback")"
	expect_eq 'one 1' "$(field "$id" result) $(field "$id" version)"
	expect_eq "$id" "$(app "select reeve.submit('echo', 'two', key => 'site', version => 2)")"
	wait_until 20 "[ \"\$(sql \"select result from task_history where task_id = $id\")\" = two ]"
	expect_eq 'submitted claimed completed restarted claimed completed' "$(events "$id")"
	# A type that nobody knew before; the manager creates its route. And a queue with batches of its own.
	app "select reeve.submit('sha256', 'three', key => 'site', version => 3)" >/dev/null
	wait_until 20 "[ \"\$(sql \"select type from task_history where task_id = $id\")\" = sha256 ]"
	reeve queue set own --batches yes >/dev/null
	batched=$(app "select reeve.submit('echo', 'one', queue => 'own', key => 'k', version => 1)")
	wait_until 20 "[ \"\$(sql \"select phase from batches where queue = 'own'\")\" = ended ]"
	app "select reeve.submit('echo', 'two', queue => 'own', key => 'k', version => 2)" >/dev/null
	wait_until 20 "[ \"\$(sql \"select string_agg(phase || submitted || pending || completed, ' ') from batches where queue = 'own'\")\" = 'ended101 ended101' ]"
	expect_eq two "$(field "$batched" result)"
	# While it executes it runs again afterwards, also as a type that nobody knew.
	held=$(app "select reeve.submit('sh', 'until [ -e $DIR/go ]; do sleep 0.05; done', key => 'held', version => reeve.version_of('2026-01-14 08:00Z'))")
	wait_status 20 "$held" executing
	expect_eq "$held" "$(app "select reeve.submit('echo', 'again', queue => 'default', key => 'held', version => reeve.version_of('2026-01-14 08:00:01Z'))")"
	expect_eq false "$(reeve submit echo old --key held --key-version 2026-01-14T08:00:00.5Z --json | jq .restarted)"
	touch "$DIR/go"
	wait_until 20 "[ \"\$(sql \"select result from task_history where task_id = $held\")\" = again ]"
	expect_eq 'submitted claimed newer_version completed restarted claimed completed' "$(events "$held")"
	# A waiting one; and one that is submitted twice in a transaction, before a manager has seen it.
	later=$(app "select reeve.submit('nothing', 'x', key => 'later', version => 1, delay => '1 day')")
	app "select reeve.submit('echo', 'now', key => 'later', version => 2)" >/dev/null
	twice=$(app "begin; select reeve.submit('new', 'x', queue => 'unknown', key => 'twice', version => 1);
		select reeve.submit('newer', 'y', queue => 'unknown', key => 'twice', version => 2); commit" | sort -u)
	wait_ended 20 "$later"
	wait_ingested
	expect_eq 'newer y' "$(field "$twice" type) $(field "$twice" details)"
	expect_eq '' "$(sql "$(cat "$TOP/tests/faults/live_counts.sql")")"
}

test_an_open_key_keeps_only_those_waiting_who_want_it() {
	start_postgres
	start_manager
	start_manager second
	start_worker worker --concurrency 8
	grant_app
	reeve submit nothing --queue q --wait >/dev/null
	open_session shop
	open_session rival
	id=$(say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'k')")
	say_later rival "begin; select reeve.submit('nothing', queue => 'q', key => 'k')"
	for n in 1 2 3; do
		url=${URL[manager]}
		[ $n = 3 ] || url=${URL[second]}
		reeve submit nothing --queue q --key k --manager "$url" --call-timeout 10m >"$DIR/same.$n" 2>"$DIR/same.$n.log" &
		same[n]=$!
	done
	wait_until 20 'blocked keys'
	# At the same time, more than a thousand submits with other keys, through both managers.
	began=$(ms)
	for n in $(seq 500); do echo "{\"key\": \"key $n\"}"; done >"$DIR/keyed"
	for name in manager second; do
		timeout 60 "$REEVE_BIN/reeve" submit nothing --queue q --bulk "$DIR/keyed" --manager "${URL[$name]}" >"$DIR/ids.$name" 2>"$DIR/bulk.log"
		expect_eq 500 "$(sort -u "$DIR/ids.$name" | wc -l)"
	done
	expect_eq "$(cat "$DIR/ids.manager")" "$(cat "$DIR/ids.second")"
	pids=()
	for n in $(seq 40); do
		url=${URL[manager]}
		[ $((n % 2)) = 0 ] || url=${URL[second]}
		timeout 60 "$REEVE_BIN/reeve" submit nothing --queue q --key "single $n" --manager "$url" >>"$DIR/single" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid"; done
	figure "others took $(($(ms) - began)) ms"
	expect_eq 40 "$(sort -u "$DIR/single" | wc -l)"
	expect_eq 540 "$(sql "select count(*) from keys where key <> 'k'")"
	for n in 1 2 3; do expect_eq '' "$(cat "$DIR/same.$n")"; done
	say shop commit >/dev/null
	for n in 1 2 3; do
		wait "${same[n]}"
		expect_eq "$id" "$(cat "$DIR/same.$n")"
	done
	expect_eq "$id" "$(said rival)"
	say rival commit
	wait_ended 20 "$id"
	expect_eq 1 "$(sql "select count(*) from all_tasks where key = 'k'")"
	# After a rollback, the key goes to the next submit.
	gone=$(say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'r')")
	say_later rival "select reeve.submit('nothing', queue => 'q', key => 'r')"
	wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where usename = 'app' and wait_event_type = 'Lock'\")\" = 1 ]"
	say shop rollback
	next=$(said rival)
	expect [ "$next" != "$gone" ]
	expect_eq "$next" "$(reeve submit nothing --queue q --key r 2>/dev/null)"
	# A submit whose key stays locked is answered with an error in the end: the caller may try again.
	say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'never')" >/dev/null
	expect_fail 3 timeout 60 "$REEVE_BIN/reeve" submit nothing --queue q --key never
	expect_match 'its key is used by a transaction that is not committed yet' "$OUTPUT"
}

# Sixty callers each want a different key of an open transaction. Without the shorter lock timeout, it takes 300 ms to
# find each of them.
# measures time
test_many_open_keys_keep_no_others_waiting() {
	local n=60 pids=() began
	start_postgres
	start_manager
	grant_app
	reeve submit nothing --queue q >/dev/null
	open_session shop
	say shop "begin; select count(reeve.submit('nothing', queue => 'q', key => 'k' || i)) from generate_series(1, $n) i" >/dev/null
	for i in $(seq $n); do
		"$REEVE_BIN/reeve" submit nothing --queue q --key "k$i" >>"$DIR/same" 2>>"$DIR/same.log" &
		pids+=($!)
	done
	wait_until 20 'blocked submit'
	began=$(ms)
	timeout 60 "$REEVE_BIN/reeve" submit nothing --queue other >/dev/null
	figure "it took $(($(ms) - began)) ms"
	expect [ $(($(ms) - began)) -lt $((n * 300 / 2)) ]
	say shop commit
	for pid in "${pids[@]}"; do wait "$pid" || true; done
	expect_eq $((n + 2)) "$(sql 'select count(*) from tasks')"
}

test_who_waits_for_an_open_key_holds_no_batch_and_no_edit() {
	start_postgres
	start_manager
	grant_app
	batch=$(reeve batch open b --queue q)
	open_session shop
	id=$(say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'k')")
	"$REEVE_BIN/reeve" submit nothing --batch "$batch" --queue q --key k --call-timeout 10m >"$DIR/same" 2>"$DIR/same.log" &
	caller=$!
	for _ in $(seq 30); do
		wait_until 20 'blocked keys'
		expect_eq '' "$(sql "select pid from pg_locks where relation = 'batches'::regclass and mode <> 'AccessShareLock'")"
		expect_eq "$batch" "$(sql "select id from batches where id = $batch for update nowait")"
	done
	say shop commit
	wait "$caller"
	expect_eq "$id" "$(cat "$DIR/same")"
	# Nor does a manual run of a schedule: it gets an error, and the other operations of its connection are executed.
	reeve schedule add export --manual nothing --queue q --key fixed >/dev/null
	id=$(say shop "begin; select reeve.submit('nothing', queue => 'q', key => 'fixed')")
	expect_fail 3 timeout 100 "$REEVE_BIN/reeve" schedule run export
	expect_match 'is used by a transaction that is not committed yet; try again' "$OUTPUT"
	say shop commit
	expect_eq "$id" "$(reeve schedule run export)"
}

test_a_key_whose_lifetime_is_over_is_free() {
	start_postgres
	start_manager
	start_worker
	grant_app
	one=$(app "select reeve.submit('nothing', key => 'k', key_ttl => '10 ms')")
	wait_ended 20 "$one"
	two=$(app "select reeve.submit('nothing', key => 'k')")
	expect [ "$one" != "$two" ]
	expect_eq "$two" "$(app "select reeve.submit('nothing', key => 'k')")"
	# An ended task can be retried even while an open transaction gives its key to another task.
	three=$(app "select reeve.submit('nothing', key => 'other')")
	wait_ended 20 "$three"
	sql "update keys set expires_at = clock_timestamp() where key = 'other'"
	open_session shop
	four=$(say shop "begin; select reeve.submit('nothing', key => 'other')")
	expect [ "$three" != "$four" ]
	expect timeout 20 "$REEVE_BIN/reeve" retry "$three" >/dev/null
	say shop commit
	wait_ended 20 "$three" "$four"
}

run_tests
