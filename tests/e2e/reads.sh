#!/usr/bin/env bash
# Reads: a slow one does not delay others, and one whose caller has gone ends.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/locks.bash"
. "$(dirname "$0")/raw.bash"

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
	wait_until 10 'for pid in $pids; do awk "/^ShdPnd/ { print \$2 }" "/proc/$pid/status"; done | grep -q "[2367abef]$"' # SIGINT
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

# Prints where the counts of live or ended tasks differ from the rows.
miscounted() {
	sql "$(PYTHONPATH=$TOP/tests/faults python3 -c 'import count_rules; print(f"select * from ({count_rules.LIVE}) l; select * from ({count_rules.COUNTS}) c")')"
}

# The maintained counts equal the numbers of rows.
test_counts_are_exact() {
	start_postgres
	start_manager
	start_worker
	sql "insert into reeve.routes (queue, type) select 'q' || n, 'none' from generate_series(1, 3) n"
	sql "insert into reeve.tasks (route_id, queue, type, priority, status, run_at, created, last_updated)
		select r.id, r.queue, r.type, n % 3, case when n % 100 = 1 then 'failed' else 'queued' end,
			case when n % 50 = 0 then now() + interval '1 day' when n % 50 = 3 then 'infinity' else date_trunc('minute', now()) end,
			now(), now()
		from generate_series(1, 45000) n join reeve.routes r on r.queue = case when n <= 41000 then 'q1' when n <= 44000 then 'q2' else 'q3' end;
		select reeve.counts_recount()" >/dev/null
	counted="select queue, count(*) filter (where status = 'queued' and run_at <= now()), count(*) filter (where status = 'queued' and run_at > now()),
		count(*) filter (where status = 'failed') from reeve.tasks group by 1 order by 1"
	expect_eq "$(sql "$counted")" "$(reeve queue list --json | jq -r 'select(.queue | test("^q[0-9]")) | [.queue, .queued, .delayed, .failed] | join("|")')"
	wait_until 10 'reeve queue list --queue q1 >/dev/null 2>&1' # the manager has read the routes
	expect_eq "$(sql "$counted" | grep q1)" "$(reeve queue list --queue q1 --json | jq -r '[.queue, .queued, .delayed, .failed] | join("|")')"
	expect_eq 45000 "$(reeve stats --json | jq '.queued + .delayed + .failed')"
	expect_eq 41000 "$(reeve queue status q1 --json | jq .waiting)"
	sql "delete from reeve.tasks; select reeve.counts_recount()" >/dev/null

	ids=$(for i in $(seq 40); do echo '{"details":"exit '$((i % 2))'","max_attempts":1}'; done | reeve submit --bulk - sh)
	reeve wait - <<<"$ids" >/dev/null || true
	reeve retry $(head -n 4 <<<"$ids") >/dev/null
	reeve wait - <<<"$ids" >/dev/null || true
	later=$(reeve submit nothing --delay 1h)
	reeve cancel "$later" >/dev/null
	kept="select status, count(*) from reeve.task_history group by 1 order by 1"
	totals="select status, sum(count) from reeve.history_totals group by 1 having sum(count) <> 0 order by 1"
	expect_eq "$(sql "$kept")" "$(sql "$totals")"
	expect_eq '' "$(miscounted)"
	# The manager adds up the changes every second.
	wait_until 5 '[ "$(sql "select count(*) from reeve.count_changes")" = 0 ]'
	expect_eq "$(sql "$kept")" "$(sql "$totals")"
	expect_eq "$(sql "$kept" | tr '\n' ' ')" "$(reeve stats --json | jq -r '"cancelled|\(.cancelled) completed|\(.completed) dead|\(.dead) "')"
	expect_eq 41 "$(reeve queue status default --json | jq .ended)"
	# A partition that is dropped takes its counts along.
	reeve submit nothing --wait >/dev/null
	day=$(sql "select min(keep_until) from reeve.task_history")
	# Another session adds up changes, and commits during the drop.
	start adds "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve \
		-c begin -c 'set search_path = reeve' -c 'select counts_fold()' -c 'select pg_sleep(2)' -c commit
	wait_until 10 '[ "$(sql "select count(*) from pg_stat_activity where query like '\''select pg_sleep%'\''")" = 1 ]'
	sql "select reeve.drop_history_partition('task_history_' || to_char('$day'::date, 'YYYYMMDD'))" >/dev/null
	ended adds
	expect_eq "$(sql "$kept")" "$(sql "$totals")"
	expect_eq '' "$(miscounted)"
}

# Every operation that creates, changes or ends a task updates the counts.
test_live_counts() {
	start_postgres
	start_manager
	start_worker
	sql "create role app login; grant usage on schema reeve to app; grant execute on function reeve.submit to app"
	app() { PGOPTIONS='-c search_path=public' "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U app -d reeve -c "$1"; }
	counted() { # WHAT
		expect_eq '' "$(miscounted)" "after $1"
	}
	shown() { reeve queue list --queue "$1" --json | jq -sr 'map([.queued, .delayed, .executing, .failed]) | transpose | map(add) | join(" ")'; }
	later=$(reeve submit nothing --queue away --delay 1h)
	reeve queue pause away >/dev/null
	reeve submit nothing --queue away >/dev/null
	for i in $(seq 30); do echo '{"type":"nothing","queue":"away","delay":"'$((i % 3))'h","key":"k'"$i"'"}'; done |
		jq -c 'if .delay == "0h" then del(.delay) else . end' | reeve submit --bulk - >/dev/null
	counted submits
	expect_eq '11 21 0 0' "$(shown away)"
	reeve update "$later" --delay 2h --priority 5 >/dev/null
	counted 'an update'
	reeve retry "$later" >/dev/null
	counted 'a hurried one'
	expect_eq '12 20 0 0' "$(shown away)"
	reeve queue purge away >/dev/null
	counted 'a purge'
	expect_eq '0 0 0 0' "$(shown away)"
	# By SQL: with an existing route, with a new one, rolled back, with a key.
	app "select reeve.submit('nothing', queue => 'away'); select reeve.submit('new', queue => 'new', delay => '1 h');
		select reeve.submit('nothing', queue => 'away', delay => '1 h', key => 'sql'), reeve.submit('nothing', queue => 'away', key => 'sql')" >/dev/null
	app "begin; select reeve.submit('nothing', queue => 'away'); rollback" >/dev/null
	wait_until 10 '[ "$(sql "select count(*) from inbox")" = 0 ]'
	counted 'submits by SQL'
	expect_eq '1 1 0 0|0 1 0 0' "$(shown away)|$(shown new)"
	# Failures, further attempts, cancels, and retries of ended tasks.
	failing=$(reeve submit sh 'exit 1' --max-attempts 3 --retry-base 1h)
	wait_until 20 '[ "$(reeve show "$failing" --json | jq -r .status)" = failed ]'
	counted 'a failure'
	expect_eq '0 0 0 1' "$(shown default)"
	reeve retry "$failing" >/dev/null
	wait_until 20 '[ "$(reeve show "$failing" --json | jq -r .attempt)" = 2 ] && [ "$(reeve show "$failing" --json | jq -r .status)" = failed ]'
	counted 'a second failure'
	held=$(reeve submit sh "while [ ! -e '$DIR/go' ]; do sleep 0.1; done")
	wait_until 20 '[ "$(reeve show "$held" --json | jq -r .status)" = executing ]'
	counted 'a claim'
	expect_eq '0 0 1 1' "$(shown default)"
	reeve cancel "$failing" >/dev/null
	counted 'a cancel'
	touch "$DIR/go"
	reeve wait "$held" >/dev/null
	reeve retry "$held" "$failing" >/dev/null
	counted 'a retry of what has ended'
	reeve wait "$held" >/dev/null
	reeve cancel "$failing" >/dev/null || true
	# Newer versions of a waiting, an executing and an ended task.
	versioned=$(reeve submit sh true --key v --key-version 1 --delay 1h)
	reeve submit sh "while [ ! -e '$DIR/on' ]; do sleep 0.1; done" --key v --key-version 2 >/dev/null
	counted 'a newer version of one that waits'
	wait_until 20 '[ "$(reeve show "$versioned" --json | jq -r .status)" = executing ]'
	reeve submit nothing --queue default --key v --key-version 3 --delay 1h >/dev/null
	counted 'a newer version of one that executes'
	touch "$DIR/on"
	wait_until 20 '[ "$(reeve show "$versioned" --json | jq -r .status)" = queued ]'
	counted 'its end'
	reeve cancel "$versioned" >/dev/null
	reeve submit sh true --key v --key-version 4 >/dev/null
	counted 'a newer version of one that has ended'
	# A batch whose tasks are blocked, and a pipeline.
	batch=$(reeve batch open b --queue batched --entry nothing --exit nothing)
	reeve submit nothing --queue batched --batch "$batch" --delay 1h >/dev/null
	reeve submit nothing --queue batched --batch "$batch" >/dev/null
	counted 'a batch'
	wait_until 20 '[ "$(shown batched)" = "0 1 0 0" ]'
	counted 'the release of its tasks'
	echo '{"name":"p","stages":[{"name":"a","type":"nothing"},{"name":"b","type":"sh"}]}' | reeve pipeline define - >/dev/null
	reeve wait "$(reeve submit --pipeline p true)" >/dev/null || true
	counted 'a pipeline'
	# A delayed task counts as queued once it is due, even if its change was added up before.
	reeve submit unknown --queue none --delay 3s >/dev/null
	sql "select reeve.counts_fold(), reeve.counts_fold()" >/dev/null
	counted 'adding up'
	wait_until 10 '[ "$(shown none)" = "1 0 0 0" ]'
	sql "select reeve.counts_fold()" >/dev/null
	expect_eq '1 0 0 0' "$(shown none)"
	counted 'adding up again'
	totals="select * from reeve.live_totals(null) where queued + delayed + executing + failed > 0 order by 1"
	was=$(sql "$totals")
	as_superuser() { "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve -c "$1"; } # no search_path is set
	as_superuser "select reeve.counts_recount()" >/dev/null
	expect_eq "$was" "$(as_superuser "$totals")" 'counted again'
}

# Claims one task as a manager does, whatever the database's clock shows.
claim_manually() { # ID
	sql "insert into reeve.workers (name, lease_ms) values ('w', 60000)"
	{
		printf 'prepare s as\n%s;\n' "$(cat "$STATEMENTS/claim.sql")"
		sql "select format('execute s(array[%s], array[%L::timestamptz], ''{1}'', array[%s], ''{1}'', 5000);', id, last_updated,
			(select max(id) from reeve.workers)) from reeve.tasks where id = $1"
	} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 "host=$PGDIR user=reeve dbname=reeve options=-csearch_path=reeve"
}

# A manager claims by its own estimate of the time: after the database's clock was set back, it may claim a task before
# that clock says that the task is due.
test_live_counts_are_never_below_0() {
	start_postgres
	start_manager
	totals() { sql "select queued, delayed, executing, failed from reeve.live_totals(null) where queued + delayed + executing + failed <> 0"; }
	expect_eq 't' "$(sql "select bool_and(delayed_to(at, 'epoch') <= at and delayed_to(at, 'epoch') > at - interval '1 s')
		from generate_series(now(), now() + '10 s', '0.1 s') at")" 'due not later than it may be claimed'
	far=$(reeve submit nothing --delay 90000h)
	early=$(reeve submit nothing --delay 1h)
	wait_until 5 '[ "$(sql "select count(*) from count_changes")|$(sql "select count(*) from live_due")" = "0|2" ]'
	reeve cancel "$far" >/dev/null
	wait_until 5 '[ "$(sql "select count(*) from count_changes")|$(sql "select count(*) from live_due")" = "0|1" ]'
	stop manager
	expect_eq '0|1|0|0' "$(totals)"
	expect_match "^${early}[|]" "$(claim_manually "$early")"
	expect_eq '0|0|1|0' "$(totals)"
	expect_eq '' "$(miscounted)"
	# A task was counted as due while the clock was ahead, and ends after the clock was set back.
	sql "delete from tasks; update assignments set open = 0, closed_at = now(); select counts_recount();
		insert into count_changes (route_id, due, live) select 1, now() + '1 h', -1;
		insert into live_counts values (1, 1, 0, 0)" >/dev/null
	expect_eq '' "$(totals)"
}

# Tasks that were submitted with a delay while the clock was ahead are claimed an hour before the corrected clock says
# that they are due. Whatever happens to such a task, it no longer counts as delayed.
test_tasks_claimed_before_they_are_due_are_counted() {
	start_postgres_with_clock
	jump 3600
	start_manager
	wait_until 10 '[ "$(sql "select count(*) from managers where hb_seq > 1")" = 1 ]'
	reeve pipeline define - <<<'{"name":"steps","stages":[{"name":"a","type":"sh"},{"name":"b","type":"sh"}]}' >/dev/null
	fails=$(reeve submit sh 'exit 1' --delay 3s --retry-base 1h --retry-max 1h)
	dies=$(reeve submit sh 'exit 1' --delay 3s --max-attempts 1)
	ends=$(reeve submit sh true --delay 3s)
	remarks=$(reeve submit sh 'echo "{\"remark\": \"well\"}" >&3' --delay 3s)
	steps=$(reeve submit --pipeline steps true --delay 3s)
	expect_eq 5 "$(sql "select count(*) from tasks")"
	jump 0
	start_worker
	wait_until 15 '[ "$(sql "select count(*) from task_attempts")|$(sql "select count(*) from task_history")" = "2|4" ]'
	expect_eq 5 "$(sql "select (select count(*) from task_history where started < run_at) + (select count(*) from task_attempts)")"
	expect_eq failed "$(reeve show "$fails" --json | jq -r .status)"
	expect_eq '' "$(miscounted)"
	wait_until 5 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
	expect_eq '' "$(miscounted)"
	expect_eq '1|1' "$(sql "select sum(live), sum(retrying) from live_counts")"
	expect_eq '0|0' "$(sql "select sum(delayed), (select count(*) from live_due where count <> 0) from live_counts")"
}

# Executing tasks are counted by the journal, including tasks that failed before and tasks of several types.
test_executing_tasks_are_counted_by_the_journal() {
	start_postgres
	start_manager
	start_worker
	for n in 1 2 3; do
		for type in sh nothing; do
			echo '{"type":"'$type'","details":"test -e '"$DIR/again"' && while [ ! -e '"$DIR/go"' ]; do sleep 0.1; done","queue":"mixed"}'
		done
	done | reeve submit --bulk - --retry-base 1h >"$DIR/ids"
	wait_until 20 '[ "$(reeve queue list --queue mixed --json | jq -sr "map(.failed) | add")" = 3 ]'
	expect_eq '' "$(miscounted)"
	expect_eq 0 "$(sql "select count(*) from assignments where closed_at is null")"
	touch "$DIR/again"
	held=$(reeve submit sh "while [ ! -e '$DIR/go' ]; do sleep 0.1; done" --queue mixed)
	reeve retry $(sql "select id from tasks where status = 'failed' limit 1") >/dev/null
	wait_until 20 '[ "$(sql "select count(*) from tasks where status = '\''executing'\''")" = 2 ]'
	expect_eq '0 0 2 2' "$(reeve queue list --queue mixed --json | jq -sr 'map([.queued, .delayed, .executing, .failed]) | transpose | map(add) | join(" ")')"
	expect_eq '1|1' "$(sql "select count(plain_route), count(*) - count(plain_route) from assignments where closed_at is null")"
	expect_eq '' "$(miscounted)"
	sql "select counts_recount()" >/dev/null
	expect_eq '' "$(miscounted)"
	touch "$DIR/go"
	reeve wait "$held" >/dev/null
	expect_eq '' "$(miscounted)"
}

# A session that adds new rows of the history to the index of their times, perhaps for seconds, does not keep others
# from adding up counts.
test_statistics_do_not_delay_the_counts() {
	start_postgres
	start_manager
	stop manager
	hold rolls "$(cat "$STATEMENTS/executions_roll.sql")"
	expect_eq counts "$(sql "select name from reeve.locks where name = 'counts' for no key update skip locked")"
	let_go rolls
}

# If the search for the oldest tasks takes long, the counts of all tasks come with the first page, once.
test_counts_come_with_the_first_page() {
	start_postgres
	start_manager
	stop manager
	sql "insert into routes (queue, type) select 'q' || n, 't' from generate_series(1, 3) n;
		insert into tasks (route_id, priority, queue, type, run_at, created, last_updated)
			select r.id, n, r.queue, r.type, now() - interval '1 s' * n, now(), now() from generate_series(1, 15000) n join routes r on r.type = 't';
		select counts_recount()" >/dev/null
	local page=null pages=0
	: >"$DIR/rows"
	while [ "$page" ]; do
		sql "select $pages, * from reeve.queue_counts(null, $page, 4000000)" >"$DIR/page"
		grep -v '^[0-9]*||' "$DIR/page" >>"$DIR/rows" || true
		page=$(sed -n "s/^[0-9]*||.*|\([0-9]*|[0-9]*|[0-9]*\)$/'\1'/p" "$DIR/page")
		pages=$((pages + 1))
		[ $pages -lt 200 ] || fail 'it has no end'
	done
	note "$pages pages"
	expect [ $pages -gt 1 ]
	expect_eq '15000 15000 15000' "$(awk -F '|' '$4 && !$1 { printf "%s%s", sep, $4; sep = " " }' "$DIR/rows")"
	expect_eq '' "$(awk -F '|' '$4 && $1' "$DIR/rows")" 'numbers of later pages'
	expect_eq "$(sql "select 'q' || n, (select min(run_at) from tasks) from generate_series(1, 3) n")" \
		"$(awk -F '|' '$8 && (!($2 in min) || $8 < min[$2]) { min[$2] = $8 } END { for (q in min) print q "|" min[q] }' "$DIR/rows" | sort)"
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

# The audit of all tasks, read in pages, has the same events as the views and tables.
test_all_events_come_once() {
	HISTORY_DAYS=30 # an event here is 20 days old
	start_postgres
	start_manager
	start_worker
	for i in $(seq 800); do echo '{"details":"exit '$((i % 40 == 0))'","max_attempts":2}'; done | reeve submit --bulk - sh --retry-base 1ms >"$DIR/ids"
	reeve wait - <"$DIR/ids" >/dev/null || true
	reeve cancel "$(reeve submit nothing --delay 1h)" >/dev/null
	reeve queue pause default >/dev/null
	wait_until 10 '[ "$(sql "select count(*) from reeve.tasks")" = 0 ]'
	sql "insert into worker_events (worker_id, at, event) values (1, now() - interval '20 days', 'left')" >/dev/null
	sql "select task_id || ' ' || event from (select task_id, event from reeve.audit_log union all select 0, event from reeve.worker_events
		union all select 0, event from reeve.queue_events) e" | sort >"$DIR/wanted"
	reeve audit --limit 100000 --json >"$DIR/events"
	jq -r '"\(.task_id) \(.event)"' "$DIR/events" | sed 's/^null /0 /' | sort >"$DIR/got"
	expect diff "$DIR/wanted" "$DIR/got"
	expect jq -sr 'map(.token) | . == sort | if . then empty else error("not in order") end' "$DIR/events"
	# All events in pages, and the newest ones.
	expect diff <(sort "$DIR/events") <(reeve audit --all --json | sort)
	for limit in 1 7 500 2000; do
		expect diff <(tail -n $limit "$DIR/events" | sort) <(reeve audit --limit $limit --json 2>"$DIR/said" | sort)
		expect_match 'older events' "$(cat "$DIR/said")"
	done
	# Submits whose ids and times are in different orders, as those of several managers.
	sql "insert into tasks (route_id, queue, type, run_at, created, last_updated)
		select 1, 'q', 't', 'infinity', now() - interval '1 minute' * ((n + 1) % 2), now() from generate_series(1, 300) n" >/dev/null
	expect_eq 300 "$(timeout 60 "$REEVE_BIN/reeve" audit --since "1h ago" --limit 100000 --json | jq -r 'select(.event == "submitted" and .task_id > 801) | .task_id' | sort -u | wc -l)"
	for limit in 20 21 22 23; do expect timeout 60 "$REEVE_BIN/reeve" audit --since "1h ago" --limit $limit; done
	sql "delete from tasks where run_at = 'infinity'" >/dev/null
	# Events since a time.
	since=$(sql "select to_char(created at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') from reeve.task_history order by task_id offset 400 limit 1")
	sql "select task_id || ' ' || event from reeve.audit_log where at >= '$since'" | sort >"$DIR/wanted"
	reeve audit --since "$since" --limit 100000 --json | jq -r 'select(.task_id > 0) | "\(.task_id) \(.event)"' | sort >"$DIR/got"
	expect diff "$DIR/wanted" "$DIR/got"
	expect diff <(grep -v '^0 ' "$DIR/wanted") <(reeve audit --since "$since" --all --json | jq -r 'select(.task_id > 0) | "\(.task_id) \(.event)"' | sort)
}

times() { # FILE: the events in it, each with its time
	jq -r '"\(.at) \(.task_id) \(.event)"' "$1" | sort
}

hex() { # TEXT
	printf %s "$1" | od -An -v -tx1 | tr -d ' \n'
}

# The events before a time, of all tasks: those that a read up to now has before that time; claims of attempts that
# ended later may be missing.
test_the_audit_is_filtered() {
	local a b
	start_postgres
	start_manager
	start_worker first --queue mail --concurrency 1
	start_worker second --queue print --concurrency 1
	a=$(reeve submit sh 'exit 65' --queue mail)
	b=$(reeve submit nothing --queue print)
	expect_fail 1 reeve wait "$a" "$b"
	reeve queue pause mail >/dev/null
	id=$(reeve submit nothing --queue mail)
	reeve update "$id" --priority 3 >/dev/null
	reeve cancel "$id" >/dev/null
	heard() { reeve audit "$@" --json | jq -r '"\(.task_id // 0) \(.event)"' | paste -sd,; }
	expect_eq "$a submitted,$a claimed,$a dead,0 queue_paused,$id submitted,$id updated,$id cancel_requested,$id cancelled" "$(heard --queue mail)"
	expect_eq "$(heard --queue mail)" "$(heard --queue mail --all)"
	expect_eq "$a submitted,$a claimed,$a dead" "$(heard --type sh)"
	expect_eq "$b claimed,$b completed" "$(heard --worker second --event claimed,completed)"
	expect_eq "$a dead,$id cancelled" "$(heard --event dead,cancelled)"
	expect_eq "$id cancelled" "$(heard --event dead,cancelled --limit 1)"
	expect_eq "0 queue_paused" "$(heard --queue mail --event queue_paused)"
	expect_eq "$id updated" "$(heard --queue mail --type nothing --event updated)"
	expect_eq '' "$(heard --queue mail --until '1h ago')"
	expect_eq "$a dead" "$(heard "$a" --event dead)"
	expect_eq "$a claimed,$a dead" "$(heard "$a" --worker first)"
	# One that is older than many others is found, too.
	sql "insert into queue_events (queue, event) select 'other', 'queue_set' from generate_series(1, 30000)"
	expect_eq "$a dead" "$(heard --event dead --limit 5)"
	expect_match 'there is no queue "nosuch"' "$(reeve audit --queue nosuch 2>&1)"
	expect_fail 2 reeve audit --event dead,buried
	expect_match '--event: "dead,buried" has an unknown event; there are submitted, claimed' "$OUTPUT"
	expect_fail 2 reeve audit "$a" --queue mail
	expect_match 'cannot be combined with an ID' "$OUTPUT"
}

test_the_audit_may_end_before_a_time() {
	local since until hour limit answer page
	HISTORY_DAYS=30 # events here are 20 days old
	start_postgres
	start_manager
	start_worker
	for i in $(seq 600); do echo '{"details":"exit '$((i % 40 == 0))'","max_attempts":2}'; done | reeve submit --bulk - sh --retry-base 1ms >"$DIR/ids"
	reeve wait - <"$DIR/ids" >/dev/null || true
	sql "insert into queue_events (at, queue, event) values (now() - interval '20 days', 'old', 'queue_paused'),
		(now() - interval '20 days 30 min', 'old', 'queue_resumed'), (now() - interval '20 days 90 min', 'old', 'queue_set')" >/dev/null
	reeve audit --all --json >"$DIR/events"
	for place in 700 1000 1300; do
		until=$(times "$DIR/events" | sed -n "${place}p" | cut -d' ' -f1)
		since=$(times "$DIR/events" | sed -n "$((place - 150))p" | cut -d' ' -f1)
		jq -cs --arg until "$until" '
			(map(select(.at < $until and .event != "claimed") | {key: "\(.task_id)/\(.attempt)", value: true}) | from_entries) as $over
			| .[] | select(.at < $until and (.event != "claimed" or $over["\(.task_id)/\(.attempt)"]))' "$DIR/events" >"$DIR/wanted"
		reeve audit --until "$until" --all --json >"$DIR/all"
		expect_eq '' "$(comm -23 <(times "$DIR/wanted") <(times "$DIR/all"))" 'missing events'
		expect_eq '' "$(comm -13 <(times "$DIR/events" | awk -v until="$until" '$1 < until') <(times "$DIR/all"))" 'other events'
		expect_eq "$(times "$DIR/all")" "$(reeve audit --until "$until" --limit 100000 --json >"$DIR/newest"; times "$DIR/newest")"
		expect_eq "$(times "$DIR/all" | awk -v since="$since" '$1 >= since')" \
			"$(reeve audit --since "$since" --until "$until" --all --json >"$DIR/between"; times "$DIR/between")"
		for limit in 1 7 150; do
			expect_eq "$(tail -n $limit "$DIR/newest")" "$(reeve audit --until "$until" --limit $limit --json 2>"$DIR/said")"
			expect_match 'older events' "$(cat "$DIR/said")"
		done
	done
	# A time in the future is now; the hour before a time is that of the time.
	expect_eq "$(jq -cs 'sort_by(.at, .task_id)[-20:][]' "$DIR/events")" "$(reeve audit --until +1h --limit 20 --json 2>/dev/null | jq -c .)"
	until=$(sql "select to_char((now() - interval '20 days' + interval '1 min') at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
	expect_eq 'queue_set queue_resumed queue_paused' "$(reeve audit --until "$until" --json | jq -r .event | xargs)"
	hour='' page=''
	while answer=$(raw_hex TaskService/Audit "$(int_field 3 "$(date -d "$until" +%s%6N)")" "$page"); do # a page may be empty
		hour+=$answer
		[[ $answer =~ 10011a(..([0-9a-f]{2})*)$ ]] || break # more, next_page
		page=2a${BASH_REMATCH[1]}
	done
	expect_match "$(int_field 4 32)4a.*$(int_field 4 31)4a" "$hour" # queue_resumed, queue_paused
	expect_no_match "$(int_field 4 29)4a" "$hour"                   # queue_set
	# One task.
	until=$(jq -r 'select(.task_id == 40 and .attempt == 2 and .event == "claimed").at' "$DIR/events")
	expect_eq 'submitted claimed failed' "$(reeve audit 40 --until "$until" --json | jq -r .event | xargs)"
	expect_eq 'submitted claimed failed' "$(reeve audit 40 --until "$until" --all --json | jq -r .event | xargs)"
	expect_eq 'failed' "$(reeve audit 40 --until "$until" --limit 1 --json 2>/dev/null | jq -r .event | xargs)"
	expect_eq '' "$(reeve audit 40 --until '1h ago' --json)"
	expect_fail 2 reeve audit --since '1h ago' --until '2h ago'
	expect_match 'until is not after --since' "$OUTPUT"
	expect_eq '3 until_us is not after since_us' "$(raw_hex TaskService/Audit "$(int_field 2 2)$(int_field 3 2)")"
}

# A task has more events than an answer, and many of them at one moment.
test_all_events_of_a_task() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve submit nothing)
	reeve wait "$id" >/dev/null
	sql "insert into task_events (task_id, version, at, event, note)
		select task_id, last_updated, last_updated, 'updated', n from task_history, generate_series(1, 1100) n" >/dev/null
	reeve audit "$id" --all --json >"$DIR/events"
	expect_eq 1103 "$(sort -u "$DIR/events" | wc -l)"
	expect_eq 1103 "$(wc -l <"$DIR/events")"
	expect_eq 'submitted claimed completed updated' "$(jq -r .event "$DIR/events" | uniq | xargs)"
	expect_eq "$(tail -n 1000 "$DIR/events")" "$(reeve audit "$id" --json 2>"$DIR/said")"
	expect_match 'older events' "$(cat "$DIR/said")"
	expect_eq "$(tail -n 3 "$DIR/events")" "$(reeve audit "$id" --limit 3 --json 2>/dev/null)"
	expect_eq "$(cat "$DIR/events")" "$(reeve audit "$id" --limit 1103 --json)"
	expect_fail 4 reeve audit 99 --all
	expect_fail 4 reeve audit 99
}

run_tests
