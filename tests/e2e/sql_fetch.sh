#!/usr/bin/env bash
# Tasks pulled by SQL: fetch, complete and fail, for programs that have only the database.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/sql_app.bash"

begin() {
	start_postgres
	start_manager
	sql "create role app login; grant usage on schema reeve to app;
		grant execute on function reeve.fetch, reeve.complete, reeve.fail, reeve.extend to app"
	sql "create view public.miscounted as $(cat "$TOP/tests/faults/live_counts.sql"); grant select on public.miscounted to public"
}

take() { # ARGUMENTS: fetches one; its $id and $token
	local row
	row=$(app "select id, token from reeve.fetch($1)")
	expect_match '^[0-9]+\|[0-9]+$' "$row" 'one task'
	id=${row%|*} token=${row#*|}
}

# All counts of live tasks equal a full count, and each open journal row the attempts that it has.
expect_counted() {
	expect_eq '' "$(sql 'select * from public.miscounted')" 'counts that are wrong'
	expect_eq 0 "$(sql "select count(*) from assignments a where (open > 0) <> (closed_at is null)
		or open <> (select count(*) from tasks t where t.assignment_id = a.id and t.status = 'executing')")" 'journal rows that are wrong'
}

test_a_task_is_fetched_and_completed() {
	begin
	submitted=$(reeve submit letter 'to ann' --queue letters --key k1 --priority 3)
	task=$(app "select id, queue, type, details, attempt, max_attempts, key, batch_id, stage, expires > now() + '85 s' from reeve.fetch(client => 'scribe')")
	expect_eq "$submitted|letters|letter|to ann|1|5|k1|||t" "$task"
	token=$(field "$submitted" token)
	expect_eq 'executing scribe' "$(field "$submitted" status) $(field "$submitted" worker)"
	expect_eq "$submitted" "$(reeve list --status executing --json | jq .id)"
	expect_counted
	expect_eq '' "$(app 'select * from reeve.fetch()')" 'a second fetch'
	expect_eq completed "$(app "select reeve.complete($submitted, $token, 'sent', remark => 'by pigeon')")"
	expect_eq 'completed sent by pigeon' "$(field "$submitted" status) $(field "$submitted" result) $(field "$submitted" remark)"
	expect_eq 'submitted claimed completed' "$(events "$submitted")"
	expect_eq scribe "$(event_field "$submitted" completed worker)"
	# A repeated report is answered like the first.
	expect_eq completed "$(app "select reeve.complete($submitted, $token, 'sent')")"
	expect_eq 0 "$(sql "select count(*) from task_events where event = 'late_result'")"
	expect_counted
	expect_eq 1 "$(sql "select sum(count) from history_totals where status = 'completed'")"
	# The session of a program is one client.
	for _ in 1 2 3; do reeve submit letter x >/dev/null; done
	app "select count(*) from reeve.fetch(); select count(*) from reeve.fetch(max_tasks => 2); select count(*) from reeve.fetch()" >"$DIR/taken"
	expect_eq '1 2 0' "$(xargs <"$DIR/taken")"
	expect_eq 2 "$(sql 'select count(distinct id) from workers where manual')"
	expect_eq 'registered registered' "$(sql "select string_agg(event, ' ') from worker_events")"
}

test_tasks_are_chosen_in_order() {
	begin
	low=$(reeve submit red 1 --queue a) high=$(reeve submit blue 2 --queue b --priority 9)
	same=$(reeve submit red 3 --queue b --priority 9)
	reeve submit red 4 --queue b --priority 20 --delay 1h >/dev/null
	reeve submit red 5 --queue halted --priority 20 >/dev/null
	reeve queue pause halted >/dev/null
	expect_eq "$high $same" "$(app "select id from reeve.fetch(max_tasks => 2)" | xargs)"
	reeve submit red 6 --queue c >/dev/null
	expect_eq '' "$(app "select id from reeve.fetch('{blue}')")"
	expect_eq '' "$(app "select id from reeve.fetch('{red}', queues => '{b}')")"
	expect_eq '' "$(app "select id from reeve.fetch('{red}', array[$low], queues => '{a}')")" 'an excluded task'
	# Not due at a time in the past; a time in the future is as good as now.
	expect_eq '' "$(app "select id from reeve.fetch(ref_now => now() - interval '1 h')")"
	expect_eq "$low" "$(app "select id from reeve.fetch('{red}', '{}', 1, now() + interval '2 h', queues => '{a, b}')")"
	expect_eq 1 "$(app "select count(*) from reeve.fetch(max_tasks => 10)")"
	expect_counted
	while IFS='|' read -r state message call; do
		expect_fail 1 app "select * from reeve.fetch($call)"
		expect_match "$state:.*$message" "$OUTPUT" "$call"
	done <<-'END'
		22023|max_tasks is 0; it must be from 1 to 10000|max_tasks => 0
		22023|max_tasks is NULL|max_tasks => null
		22023|types is empty|array['']
		22004|queues is NULL|queues => array[null]
		22023|client is empty|client => ''
	END
}

# Tasks that may not run are neither tried one after another nor locked, whatever keeps them back.
test_a_long_queue_that_gives_nothing_costs_nothing() {
	begin
	reeve queue set limited --max-running 2 >/dev/null
	reeve queue set waiting --waiting 1h >/dev/null
	reeve queue pause waiting >/dev/null
	reeve queue start waiting >/dev/null
	for queue in limited waiting; do
		yes "{\"type\":\"letter\",\"queue\":\"$queue\"}" 2>/dev/null | head -n 20000 >"$DIR/tasks" || true
		reeve submit --bulk "$DIR/tasks" >/dev/null
	done
	reeve submit red --queue limited --priority -1 >/dev/null
	low=$(reeve submit letter --priority -5)
	expect_eq 2 "$(app "select count(*) from reeve.fetch(max_tasks => 5, queues => '{limited}')")"
	held() { # SQL: how many tasks of the long queues a transaction locks
		start holder "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U app -d reeve -c "begin; $1; select pg_sleep(30)"
		wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where query like '%pg_sleep(30)%' and usename = 'app' and wait_event = 'PgSleep'\")\" = 1 ]"
		sql "select count(*) from tasks where queue in ('limited', 'waiting') and status = 'queued'
			and id not in (select id from tasks where queue in ('limited', 'waiting') for update skip locked)"
		sql "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(30)%' and usename = 'app'" >/dev/null
		ended holder
	}
	for call in "queues => '{limited}'" "max_tasks => 50, queues => '{limited,waiting}'" "'{letter}', exclude => array[$low, null]"; do
		expect_eq 0 "$(held "select id from reeve.fetch($call)")" "$call"
	done
	# One permit is free; others have all tasks but the last ones.
	sql "update limits set maximum = 3 where queue = 'limited'"
	last=$(sql "select max(id) from tasks where queue = 'limited' and type = 'letter'")
	start others "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve -c "begin;
		select count(*) from (select from reeve.tasks where queue = 'limited' and id < $last - 10 for update) l; select pg_sleep(60)"
	wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and wait_event = 'PgSleep'\")\" = 1 ]"
	expect_eq "$((last - 10))" "$(timeout 20 "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U app -d reeve -c "select id from reeve.fetch('{letter}', max_tasks => 5, queues => '{limited}')")"
	expect_eq "$low" "$(app 'select id from reeve.fetch(max_tasks => 5)')"
	stop others
	expect_counted
	for level in 'repeatable read' serializable; do
		expect_fail 1 app "begin isolation level $level; select * from reeve.fetch()"
		expect_match "0A000:.*$level" "$OUTPUT"
	done
}

test_an_attempt_is_extended() {
	begin
	reeve submit letter x --timeout 1m >/dev/null
	take ''
	expect_eq t "$(app "select reeve.extend($id, $token, '2 h') between now() + '119 min' and now() + '121 min'")"
	expect_eq t "$(sql "select expiry between now() + '119 min' and now() + '121 min' from tasks where id = $id")"
	expect_eq t "$(app "select reeve.extend($id, $token, '1 s') > now() + '119 min'")" 'never shorter'
	app "select reeve.extend($id, $token, '30 d')" >/dev/null
	expect_eq '30 days 00:00:30' "$(sql "select expiry - last_updated from tasks where id = $id")" 'the longest time'
	expect_eq '' "$(app "select reeve.extend($id, $token - 1, '1 h')")" 'another attempt'
	expect_eq completed "$(app "select reeve.complete($id, $token)")"
	expect_eq '' "$(app "select reeve.extend($id, $token, '1 h')")"
	while IFS='|' read -r state message call; do
		expect_fail 1 app "select reeve.extend($call)"
		expect_match "$state:.*$message" "$OUTPUT" "$call"
	done <<-'END'
		22023|run_for is 31 days|1, 1, '31 d'
		22023|run_for is -00:00:01|1, 1, '-1 s'
		22004|run_for is NULL|1, 1, null
		22004|token is NULL|1, null, '1 s'
	END
}

# Fetches of open transactions hold tasks, and delay neither other fetches nor managers.
test_no_two_get_one_task_and_none_waits() {
	begin
	for i in $(seq 60); do echo '{"type":"letter","queue":"hands","details":"'"$i"'"}'; done >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" | sort >"$DIR/ids"
	pids=()
	for i in 1 2 3 4 5 6; do
		(for _ in 1 2 3 4; do app "begin; select id from reeve.fetch(max_tasks => 2); select pg_sleep(0.2); commit" | { grep . || true; }; done >"$DIR/hand.$i") &
		pids+=($!)
		(for _ in 1 2 3 4; do { reeve fetch --queue hands --json || true; } 2>"$DIR/null" | jq .task_id; done >"$DIR/hand.m$i") &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid"; done
	expect [ "$(cat "$DIR"/hand.? | wc -l)" -ge 20 ]
	app "select id from reeve.fetch(max_tasks => 100)" >"$DIR/hand.last"
	expect_eq "$(cat "$DIR/ids")" "$(cat "$DIR"/hand.* | grep . | sort)" 'each task once'
	expect_counted
	# What is rolled back was not fetched.
	back=$(reeve submit letter x --queue hands)
	app "begin; select id from reeve.fetch(); rollback" >/dev/null
	expect_eq 'queued 0' "$(field "$back" status) $(reeve show "$back" --json | jq .attempt)"
	expect_eq submitted "$(events "$back")"
}

# The purge of old clients sees neither the attempt nor the transaction that begins it.
test_a_purged_client_keeps_the_task_that_it_claims_at_that_time() {
	begin
	reeve submit letter x >/dev/null
	submitted=$(reeve submit letter y)
	sql 'create table public.go (n int)'
	PGAPPNAME=old start client sql "select reeve.complete(id, token) from reeve.fetch(client => 'old');
		update workers set registered = registered - interval '25 hours' where name = 'old'; commit;
		begin; select id from reeve.fetch(client => 'old');
		do \$\$ begin while not exists (select from public.go) loop perform pg_sleep(0.05); end loop; end \$\$; commit"
	wait_until 20 "[ \"\$(sql \"select wait_event from pg_stat_activity where application_name = 'old' and wait_event = 'PgSleep'\")\" ]"
	sql "$(cat "$STATEMENTS/purge_pull_clients.sql")"
	sql 'insert into public.go values (1)'
	ended client 20
	expect_eq 'executing|old|t' "$(sql "select t.status, w.name, w.lost from tasks t join workers w on w.id = t.worker_id where t.id = $submitted")"
	sql "prepare f as $(cat "$STATEMENTS/lost_find.sql"); execute f(100, null, 0, 0)" >"$DIR/found"
	expect_eq '' "$(cat "$DIR/found")" 'what is taken from it'
	expect_eq completed "$(app "select reeve.complete($submitted, $(field "$submitted" token))")"
	expect_counted
}

test_late_results_are_refused_and_attempts_expire() {
	begin
	submitted=$(reeve submit letter x --retry-base 10ms --max-attempts 3)
	take "'{letter}'"
	first=$token
	# The attempt's time is over: a manager reclaims it.
	sql "update tasks set expiry = now() where id = $id; update assignments set next_expiry = now() where $id = any(task_ids)" >/dev/null
	wait_status 30 "$id" failed
	take "'{letter}'"
	expect_eq "$submitted" "$id"
	for _ in 1 2; do
		expect_eq '' "$(app "select reeve.complete($id, $first, 'late')")"
		expect_eq '' "$(app "select reeve.fail($id, $first, 'late')")"
	done
	expect_eq "executing $token" "$(field "$id" status) $(field "$id" token)"
	expect_eq 1 "$(sql "select count(*) from task_events where task_id = $id and event = 'late_result'")"
	expect_fail 1 app "select reeve.complete(999999, 1)"
	expect_match 'P0002:.*there is no task 999999' "$OUTPUT"
	expect_eq completed "$(app "select reeve.complete($id, $token)")"
	expect_eq '' "$(app "select reeve.complete($id, $first, 'late')")"
	expect_eq 'submitted claimed expired reclaimed claimed late_result completed' "$(events "$id")"
	expect_counted
}

test_failures_follow_the_retry_policy() {
	begin
	submitted=$(reeve submit nothing x --queue q --backoff fixed:1h --jitter 0 --max-attempts 3)
	take "queues => '{q}'"
	expect_eq failed "$(app "select reeve.fail($id, $token, 'no paper', 'paper', remark => 'came back', stack_trace => 'at the desk')")"
	expect_eq 'failed 1 paper no paper at the desk came back' "$(field "$id" status) $(field "$id" attempt) \
$(field "$id" error_code) $(field "$id" last_error) $(field "$id" stack_trace) $(field "$id" remark)"
	expect_eq 3600 "$(sql "select round(extract(epoch from run_at - last_updated)) from tasks where id = $id")"
	reeve retry "$id" >/dev/null
	take "queues => '{q}'"
	expect_eq failed "$(app "select reeve.fail($id, $token, 'no ink', delay => '300 ms')")"
	expect_counted
	# The managers learn when it is due: a worker that waits gets it.
	start_worker worker --queue q
	reeve wait "$submitted" --max-wait 20s >/dev/null
	stop worker
	reeve submit letter x --queue q2 --max-attempts 1 >/dev/null
	take "queues => '{q2}'"
	expect_eq dead "$(app "select reeve.fail($id, $token, 'no paper')")"
	other=$(reeve submit letter x --queue q2)
	take "queues => '{q2}'"
	expect_eq dead "$(app "select reeve.fail($id, $token, 'no such address', retry => false)")"
	expect_eq 'dead false' "$(field "$other" status) $(reeve show "$other" --json | jq .recoverable)"
	expect_eq 2 "$(sql "select count(*) from dead_tasks where queue = 'q2'")"
	expect_counted
	while IFS='|' read -r state message call; do
		expect_fail 1 app "select reeve.fail($call)"
		expect_match "$state:.*$message" "$OUTPUT" "$call"
	done <<-'END'
		22023|delay needs retry|1, 1, 'x', retry => false, delay => '1 s'
		22023|delay is 00:00:00|1, 1, 'x', delay => '0'
		22023|code is empty|1, 1, 'x', ''
		22004|token is NULL|1, null, 'x'
		22004|retry is NULL|1, 1, 'x', retry => null
		22001|error has 1048577 bytes; at most 1048576|1, 1, repeat('x', 1048577)
	END
}

test_batches_pipelines_and_newer_versions() {
	begin
	batch=$(reeve batch open b --queue b)
	for _ in 1 2 3; do reeve submit letter x --queue b --batch "$batch" >/dev/null; done
	reeve batch close "$batch" >/dev/null
	take "queues => '{b}'"
	app "select reeve.complete($id, $token)" >/dev/null
	take "queues => '{b}'"
	app "select reeve.fail($id, $token, 'x', retry => false)" >/dev/null
	expect_eq '3 1 1 1' "$(reeve batch report "$batch" --json | jq -r '.batch | [.submitted, .pending, .completed, .failed] | join(" ")')"
	take "queues => '{b}'"
	expect_match "$id +executing +yes +its pull client takes no commands" "$(reeve cancel "$id")"
	expect_eq cancelled "$(app "select reeve.fail($id, $token, 'x')")"
	expect_fail 1 reeve batch wait "$batch" --max-wait 20s
	expect_eq '3 0 1 2' "$(reeve batch report "$batch" --json | jq -r '.batch | [.submitted, .pending, .completed, .failed] | join(" ")')"
	# Stage by stage.
	echo '{"name": "abc", "stages": [{"name": "one", "type": "a"}, {"name": "two", "type": "b"}, {"name": "three", "type": "c"}]}' |
		reeve pipeline define - >/dev/null
	piped=$(reeve submit --pipeline abc x)
	take "'{a}'"
	expect_eq queued "$(app "select reeve.complete($id, $token, 'xa')")"
	expect_eq "$piped|b|xa|two" "$(app "select id, type, details, stage from reeve.fetch('{a, b, c}')")"
	token=$(field "$piped" token)
	expect_eq queued "$(app "select reeve.complete($piped, $token, 'xab', stage => 'one')")"
	take "'{a}'"
	expect_eq dead "$(app "select reeve.complete($id, $token, 'xa', stage => 'four')")"
	expect_eq unknown_stage "$(field "$id" error_code)"
	# A newer version that came during the attempt runs next.
	reeve submit letter one --key k --key-version 1 >/dev/null
	take "'{letter}'"
	reeve submit letter two --key k --key-version 2 2>/dev/null >&2
	expect_eq queued "$(app "select reeve.complete($id, $token, 'done')")"
	expect_eq two "$(app "select details from reeve.fetch('{letter}')")"
	expect_counted
}

# The program's own work and the end of the attempt are one transaction.
test_an_effect_and_its_completion_commit_together() {
	begin
	sql 'create table public.balance (amount int); insert into public.balance values (0); grant all on public.balance to app'
	reeve submit credit 5 >/dev/null
	take "'{credit}'"
	app "begin; update public.balance set amount = amount + 5; select reeve.complete($id, $token); rollback" >/dev/null
	expect_eq '0 executing' "$(sql 'select amount from public.balance') $(field "$id" status)"
	app "begin; update public.balance set amount = amount + 5; select reeve.complete($id, $token); commit" >/dev/null
	expect_eq '5 completed' "$(sql 'select amount from public.balance') $(field "$id" status)"
	# While the transaction is open, other tasks end.
	for _ in 1 2; do reeve submit letter x >/dev/null; done
	start open "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U app -d reeve \
		-c "begin; select reeve.complete(id, token) from reeve.fetch('{letter}'); select pg_sleep(30)"
	wait_until 10 "[ \"\$(sql \"select count(*) from pg_stat_activity where query like '%pg_sleep(30)%' and usename = 'app'\")\" = 1 ]"
	task=$(reeve fetch --type letter --max-wait 10s --json)
	reeve report "$(jq .task_id <<<"$task")" "$(jq .token <<<"$task")" --completed
	stop open
	expect_counted
}

# Both ends change the fetch's journal row and the batch, in the same order.
test_tasks_of_one_fetch_and_one_batch_end_in_several_sessions() {
	begin
	batch=$(reeve batch open b --queue b)
	for _ in 1 2 3; do reeve submit letter x --queue b --batch "$batch" >/dev/null; done
	take "queues => '{b}'"
	mapfile -t rest < <(app "select id || ', ' || token from reeve.fetch(max_tasks => 2, queues => '{b}')")
	for name in other failing completing; do open_session "$name"; done
	say other "begin; select reeve.complete($id, $token)" >/dev/null
	say_later failing "select reeve.fail(${rest[0]}, 'x', retry => false)"
	waits_or_said failing
	say_later completing "select reeve.complete(${rest[1]})"
	waits_or_said completing
	say other commit
	expect_eq dead "$(said failing)"
	expect_eq completed "$(said completing)"
	expect_eq '3|0|2|1' "$(totals "$batch")"
	expect_counted
}

run_tests
