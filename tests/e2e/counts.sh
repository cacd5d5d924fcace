#!/usr/bin/env bash
# Counts of live and ended tasks: exact after every operation, whatever the clocks show.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/locks.bash"

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
	wait_until 20 '[ "$(sql "select count(*) from reeve.count_changes")" = 0 ]'
	expect_eq "$(sql "$kept")" "$(sql "$totals")"
	expect_eq "$(sql "$kept" | tr '\n' ' ')" "$(reeve stats --json | jq -r '"cancelled|\(.cancelled) completed|\(.completed) dead|\(.dead) "')"
	expect_eq 41 "$(reeve queue status default --json | jq .ended)"
	# A partition that is dropped takes its counts along.
	reeve submit nothing --wait >/dev/null
	day=$(sql "select min(keep_until) from reeve.task_history")
	# Another session adds up changes, and commits during the drop.
	start adds "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve \
		-c begin -c 'set search_path = reeve' -c 'select counts_fold()' -c "$UNTIL_AWAITED" -c commit
	wait_until 10 '[ "$(sql "select count(*) from pg_stat_activity where application_name = '\''psql'\'' and wait_event = '\''PgSleep'\''")" = 1 ]'
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
	plain_sql "select reeve.counts_recount()" >/dev/null
	expect_eq "$was" "$(plain_sql "$totals")" 'counted again'
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
	wait_until 20 '[ "$(sql "select count(*) from count_changes")|$(sql "select count(*) from live_due")" = "0|2" ]'
	reeve cancel "$far" >/dev/null
	wait_until 20 '[ "$(sql "select count(*) from count_changes")|$(sql "select count(*) from live_due")" = "0|1" ]'
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
	fails=$(reeve submit sh 'exit 1' --delay 1h --retry-base 1h --retry-max 1h)
	dies=$(reeve submit sh 'exit 1' --delay 1h --max-attempts 1)
	ends=$(reeve submit sh true --delay 1h)
	remarks=$(reeve submit sh 'echo "{\"remark\": \"well\"}" >&3' --delay 1h)
	steps=$(reeve submit --pipeline steps true --delay 1h)
	expect_eq 5 "$(sql "select count(*) from tasks")"
	reeve submit sh true --delay 3h >/dev/null
	reeve update "$fails" "$dies" "$ends" "$remarks" "$steps" --delay 20s >/dev/null
	# One becomes due before the clock is corrected, so it has ceased to count as delayed.
	reeve submit sh true --delay 1s >/dev/null
	wait_until 12 '[ "$(sql "select count(*) from count_changes")|$(sql "select sum(count) from live_due")" = "0|6" ]'
	wait_until 5 '[ "$(sql "select count(*) from tasks where run_at <= clock_timestamp()")" = 1 ]' # live_due has whole seconds
	expect_eq 6 "$(sql "select count(*) from tasks where run_at > clock_timestamp()")" 'not due before the clock is corrected'
	jump 0
	start_worker
	wait_until 40 '[ "$(sql "select count(*) from task_attempts")|$(sql "select count(*) from task_history")" = "2|5" ]'
	expect_eq 6 "$(sql "select (select count(*) from task_history where started < run_at) + (select count(*) from task_attempts)")"
	expect_eq failed "$(reeve show "$fails" --json | jq -r .status)"
	expect_eq '' "$(miscounted)"
	wait_until 20 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
	expect_eq '' "$(miscounted)"
	expect_eq '2|1' "$(sql "select sum(live), sum(retrying) from live_counts")"
	expect_eq '1|1' "$(sql "select sum(delayed), (select count(*) from live_due where count <> 0) from live_counts")"
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
	wait_until 20 '[ "$(sql "select count(*) from assignments where closed_at is null")" = 0 ]'
	expect_eq '' "$(miscounted)"
	touch "$DIR/again"
	held=$(reeve submit sh "while [ ! -e '$DIR/go' ]; do sleep 0.1; done" --queue mixed)
	wait_until 20 '[ "$(sql "select count(*) from tasks where status = '\''executing'\''")" = 1 ]' # in an assignment of its own
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

run_tests
