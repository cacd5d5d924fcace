#!/usr/bin/env bash
# Reads: a slow one does not delay others, and one whose caller has gone ends. (counts.sh and audit.sh: what they say.)
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/locks.bash"

# Only reads of the audit of all tasks wait for the table of workers' events.
lock_worker_events() {
	hold events 'lock table worker_events in access exclusive mode'
}

statements_running() { # of the manager's that read
	sql "select count(*) from pg_stat_activity where application_name in
		('reeve-manager read', 'reeve-manager poll', 'reeve-manager poll-more') and state = 'active'"
}

took_ms() { # COMMAND…: how long it took; it must succeed
	local begin=${EPOCHREALTIME/./}
	"$@" >"$DIR/took" || fail "exit code $? of: $*"
	echo $(((${EPOCHREALTIME/./} - begin) / 1000))
}

# measures time
test_slow_reads_do_not_delay_quick_ones() {
	start_postgres
	start_manager
	reeve submit sh true >/dev/null
	lock_worker_events
	for i in 1 2 3 4 5 6; do
		start "audit$i" "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" audit --limit 100
	done
	wait_until 10 '[ "$(statements_running)" = 2 ]'
	for words in 'check --failed-waiting 5' 'show 1' 'audit 1'; do
		took=$(took_ms reeve $words)
		[ "$took" -lt 1500 ] || fail "reeve $words took $took ms"
	done
	let_go events
	for i in 1 2 3 4 5 6; do
		ended "audit$i"
		expect_eq 0 "$STATUS" "audit $i"
	done
}

# measures time
test_reads_of_callers_who_have_gone_end() {
	start_postgres
	start_manager
	reeve submit sh true >/dev/null
	lock_worker_events
	for i in 1 2 3 4 5 6 7 8; do
		start "audit$i" "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" audit --limit 100
	done
	wait_until 10 '[ "$(statements_running)" = 2 ]'
	sleep 0.3
	for i in 1 2 3 4 5 6 7 8; do
		stop "audit$i"
	done
	for words in 'check --failed-waiting 5' list; do
		took=$(took_ms reeve $words)
		[ "$took" -lt 1500 ] || fail "reeve $words took $took ms"
	done
	for _ in 1 2 3 4 5; do # a cancel takes a moment; by itself a statement would wait a second for the lock
		[ "$(statements_running)" != 0 ] || break
		sleep 0.1
	done
	expect_eq 0 "$(statements_running)" 'statements of callers who have gone'
	let_go events
	reeve audit >"$DIR/audit"
	expect_match submitted "$(cat "$DIR/audit")"
}

# PostgreSQL's process ignores a cancel that it receives before it has read the statement. So the manager repeats it.
# Otherwise the statement would end by itself, after a second's wait for the lock.
test_a_cancel_that_overtakes_its_statement_is_repeated() {
	local pids
	start_postgres
	start_manager
	reeve submit sh true >/dev/null
	for _ in 1 2 3 4; do reeve audit >/dev/null; done
	pids=$(sql "select pid from pg_stat_activity where application_name in ('reeve-manager poll', 'reeve-manager poll-more')")
	lock_worker_events
	kill -STOP $pids
	start audit "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" audit --limit 100
	wait_until 10 'ss -xnp | grep -E "pid=($(tr "\n" "|" <<<"$pids")0)," | awk "\$3 > 0" | grep -q .' # bytes not read yet
	stop audit
	wait_until 10 'for pid in $pids; do awk "/^ShdPnd/ { print \$2 }" "/proc/$pid/status"; done | grep "[2367abef]$"' # SIGINT
	kill -CONT $pids
	wait_until 10 'grep -q "poll.* ERROR:  canceling statement due to" "$DIR/log/postgres.log"'
	expect_match 'poll[-a-z]* ERROR:  canceling statement due to user request' "$(cat "$DIR/log/postgres.log")"
	let_go events
}

# Two reads wait for the lock, and the others for these two. The caller's timeout is 700 ms for each, and PostgreSQL
# ends a statement that waits for a lock after a second.
test_one_whose_turn_does_not_come_is_refused() {
	start_postgres
	start_manager
	lock_worker_events
	printf '\x0a\x1b/reeve.v1.TaskService/Audit\x18\xbc\x05\x38\x01' | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" - 6 >"$DIR/said"
	let_go events
	expect_eq 6 "$(grep -cE '^14 .*(its turn|holds a lock)' "$DIR/said")" "$(cat "$DIR/said")"
	expect_match '14 it waited [0-9]+ ms for its turn on the database connection "poll", which works on: [a-z ]+; try again' "$(cat "$DIR/said")"
	expect_no_match 'no database' "$(cat "$DIR/said")"
}

# A cancel of one statement must never end the next one.
test_a_cancel_ends_nothing_else() {
	start_postgres
	start_manager
	seq 300 | sed 's/.*/{"type":"none","details":"&"}/' >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" >/dev/null
	# A client that is killed during its leak check at exit leaves an empty report, so these clients do not check.
	(for ((i = 0; i < 60; i++)); do
		ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout -s KILL "0.0$((RANDOM % 9 + 1))" "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" audit --limit 10000 >/dev/null || true
	done) &
	for ((i = 0; i < 40; i++)); do
		expect_eq 100 "$(reeve list --json --limit 100 2>"$DIR/said" | wc -l)" "listed the ${i}th time: $(cat "$DIR/said")"
	done
	wait $!
	wait_until 10 '[ "$(statements_running)" = 0 ]' # the last client's cancel may still be on its way
}

# Over all pages, each matching task is listed once, wherever the other tasks of its queue are.
test_every_task_is_listed_once() {
	start_postgres
	start_manager
	stop manager
	sql "insert into routes (queue, type) values ('a', 't'), ('b', 't');
		insert into tasks (route_id, queue, type, run_at, created, last_updated)
			select r.id, r.queue, r.type, now(), now(), now() from generate_series(1, 150) n
			join routes r on r.queue = case when n % 5 < 2 then 'a' else 'b' end order by n;
		with ended as (delete from tasks where id > 110 and queue = 'b' or id < 60 and queue = 'a' or id % 4 = 0 returning *)
		insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
			max_attempts, timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated)
		select current_date + 2, id, route_id, priority, queue, type, '', 'completed', run_at, 1, 5, 1, 1, 1, true, '', now(), now(), now()
		from ended" >/dev/null
	for queue in a b; do
		local before=9223372036854775807 rows
		: >"$DIR/listed"
		for _ in $(seq 200); do
			rows=$(sql "set role reeve; prepare s as $(<"$STATEMENTS/list_tasks.sql")
				; execute s(null, '$queue', null, $before, 5, null, null, null, null, null, null, null, null, null, null, null, null, 0, true, 4000000, 7, 1, null, '{}', '{}', null, null, null)")
			awk -F '|' '$1 { print $1 }' <<<"$rows" >>"$DIR/listed"
			before=$(head -n 1 <<<"$rows" | awk -F '|' '{ print $NF }')
			[ "$before" != 0 ] || break
		done
		expect_eq 0 "$before" 'it comes to an end'
		expect_eq "$(sql "select id from (select id, queue from tasks union all select task_id, queue from task_history) t
			where queue = '$queue' order by id desc")" "$(cat "$DIR/listed")"
	done
}

run_tests
