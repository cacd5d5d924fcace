#!/usr/bin/env bash
# Retention of ended tasks, by queue and outcome, and what is removed with them. (archive.sh: the files to which they
# are written.)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/retention.bash"
. "$(dirname "$0")/locks.bash"

set_keep() { # QUEUE COMPLETED DEAD CANCELLED, each in days or null
	sql "insert into queues (name, keep_completed_hours, keep_dead_hours, keep_cancelled_hours) values ('$1', $2 * 24, $3 * 24, $4 * 24)
		on conflict (name) do update set keep_completed_hours = $2 * 24, keep_dead_hours = $3 * 24, keep_cancelled_hours = $4 * 24,
		updated = clock_timestamp(); select pg_notify('reeve_notify', 'queues')" >/dev/null
}

kept_for() { # ID: days from today to the day it may go, which is the day after the last
	sql "select keep_until - (clock_timestamp() at time zone 'UTC')::date - 1 from task_history where task_id = $1"
}

test_each_queue_and_outcome_is_kept_for_its_own_time() {
	start_postgres
	start_manager manager --history-days 7
	set_keep short 1 3 null
	set_keep long null 90 400
	start_worker worker --queue short,long,plain
	end_some short long plain
	stop worker
	for queue in short long plain; do
		for outcome in completed dead cancelled; do
			echo "$queue $outcome $(kept_for "${ID[$queue $outcome]}")"
		done
	done >"$DIR/kept"
	expect_eq 'short completed 1
short dead 3
short cancelled 7
long completed 7
long dead 90
long cancelled 400
plain completed 7
plain dead 7
plain cancelled 7' "$(cat "$DIR/kept")"
	# Tasks of a day without a partition are in the default partition, and the next maintenance run moves them.
	stop manager
	start_manager manager --history-days 7
	wait_until 20 '[ "$(sql "select count(*) from task_history_default")" = 0 ]'
	expect_eq 9 "$(sql 'select count(*) from task_history')"
	# There are partitions ahead for the longest retention, too, but not for every day until then.
	for days in 91 400 409; do
		expect_eq 1 "$(sql "select count(*) from pg_class where relname = 'task_history_$(day -$days)'")" "$days days"
	done
	expect_eq 0 "$(sql "select count(*) from pg_class where relname = 'task_history_$(day -200)'")"
}

test_a_queue_may_keep_tasks_for_hours() {
	start_postgres
	start_manager
	reeve queue set fast --keep completed=1h,dead=36h >"$DIR/settings"
	expect_match $'keeps completed +1h\nkeeps dead +1d12h\nkeeps cancelled +as all queues' "$(cat "$DIR/settings")"
	start_worker worker --queue fast,plain
	end_some fast plain
	keyed=$(reeve submit nothing --queue fast --key k)
	reeve wait "$keyed" >/dev/null
	young=$(reeve submit nothing --queue fast)
	reeve wait "$young" >/dev/null
	stop worker
	sql "update task_history set last_updated = last_updated - interval '61 min' where task_id <> $young"
	stop manager
	start_manager
	wait_until 20 "[ -z \"\$(sql \"select 1 from task_history where task_id = $keyed\")\" ]"
	expect_eq "$(printf '%s\n' "${ID[fast dead]}" "${ID[fast cancelled]}" "${ID[plain completed]}" "${ID[plain dead]}" "${ID[plain cancelled]}" "$young" | sort -n)" \
		"$(sql 'select task_id from task_history order by 1')"
	expect_eq '' "$(sql 'select * from keys')"
	# A day and a half: the partition is that of the second day, and the row goes before.
	expect_eq 2 "$(sql "select keep_until - (clock_timestamp() at time zone 'UTC')::date from task_history where task_id = ${ID[fast dead]}")"
	sql "set role reeve; select make_history_partitions((clock_timestamp() at time zone 'UTC')::date, 2);
		update task_history set last_updated = last_updated - interval '36 h', keep_until = keep_until - 1 where task_id = ${ID[fast dead]}" >/dev/null
	stop manager
	start_manager
	wait_until 20 "[ -z \"\$(sql \"select 1 from task_history where task_id = ${ID[fast dead]}\")\" ]"
	expect_eq 0 "$(sql "select count(*) from task_attempts where task_id = ${ID[fast dead]}")"
	expect_eq "$(sql 'select count(*) from task_history')" "$(sql 'select sum(count) from history_totals')"
	expect_fail 2 reeve queue set fast --keep completed=90m
	expect_match 'is not in whole hours, like completed=12h or 30d' "$OUTPUT"
}

test_two_sessions_make_the_same_partitions() {
	start_postgres
	start_manager
	start first "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U reeve -d reeve -c 'set search_path = reeve' -c begin \
		-c "select from locks where name = 'history' for no key update" -c "$UNTIL_AWAITED" \
		-c "select 'made ' || make_history_partitions('2099-01-01', 3)" -c commit
	wait_until 10 '[ "$(sql "select count(*) from pg_stat_activity where application_name = '\''psql'\'' and wait_event = '\''PgSleep'\''")" = 1 ]'
	expect_eq 0 "$(sql "set role reeve; select make_history_partitions('2099-01-01', 3)")" # it waits for the other one
	ended first
	grep -qx 'made 3' "$DIR/log/first.log"
}

test_what_other_tables_have_of_a_task_goes_with_it() {
	start_postgres
	start_manager
	set_keep short 1 1 1
	set_keep long 90 90 90
	start_worker worker --queue short,long
	end_some short long
	stop worker
	# In each queue two batches ended three days ago: one with a task, which goes in `short` and stays in `long`, and an
	# empty one.
	for queue in short long; do
		sql "with b as (insert into batches (name, queue, implicit, phase, ended_at)
				select 'b$queue' || n, '$queue', false, 'ended', clock_timestamp() - interval '3 days' from generate_series(1, 2) n
				returning id, name)
			update task_history set batch_id = (select id from b where name = 'b${queue}1') where task_id = ${ID[$queue completed]}"
		sql "insert into callbacks (batch_id, event, url, state, ended_at) select id, 'batch_end', 'http://x', 'delivered',
			clock_timestamp() - interval '3 days' from batches where queue = '$queue'"
	done
	sql "update task_attempts set last_updated = last_updated - interval '3 days'; update task_events set at = at - interval '3 days'"
	is_over 1 "queue = 'short'"
	stop manager
	start_manager
	all_gone
	wait_until 20 '[ "$(sql "select count(*) from batches")" = 2 ]'
	expect_eq 3 "$(sql 'select count(*) from all_tasks')"
	expect_eq "${ID[long dead]}" "$(sql 'select distinct task_id from task_attempts')"
	expect_eq 0 "$(sql "select count(*) from task_events where task_id not in (select id from all_tasks)")"
	expect_eq 1 "$(sql "select count(distinct task_id) from task_events")"
	expect_eq $'blong1\nblong2' "$(sql 'select name from batches order by 1')"
	expect_eq 2 "$(sql 'select count(*) from callbacks')"
	for outcome in completed dead cancelled; do
		expect_fail 4 reeve show "${ID[short $outcome]}"
		expect_match 'there is no task' "$OUTPUT"
		expect reeve show "${ID[long $outcome]}" >/dev/null
	done
	expect_match 'dropped the history.s partition task_history_' "$(cat "$DIR/log/manager.log")"
}

old_history() { # COUNT [DAY]: of two days that are over, or of that day
	sql "insert into routes (queue, type) values ('q', 't') on conflict do nothing;
		insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
			max_attempts, timeout_ms, retry_base_ms, retry_max_ms, by_report, source, created, last_updated)
		select ${2:-current_date - 2 - n % 2}, n, 1, 0, 'q', 't', '', 'dead', now(), 1, 5, 1, 1, 1, true, '', now(), now()
		from generate_series(1, $1) n; select counts_recount()" >/dev/null
}

# More rows than one step moves, of days that are over and of a coming day, whose rows stay until it is over.
test_a_full_default_partition_is_emptied_in_steps() {
	local coming="(current_date at time zone 'UTC')::date + 3"
	start_postgres
	sql "create table steps (rows bigint);
		create function note_step() returns trigger language plpgsql as \$\$ begin
			insert into steps select count(*) from gone; return null; end \$\$;
		create trigger note_step after delete on task_history_default referencing old table as gone
			for each statement execute function note_step();
		grant insert on steps to reeve;
		do \$\$ begin
			execute 'drop table if exists reeve.task_history_' || to_char($coming, 'YYYYMMDD');
			execute 'drop table if exists reeve.task_history_' || to_char($coming + 1, 'YYYYMMDD');
		end \$\$;
		alter table task_history_default set (autovacuum_enabled = off)"
	old_history 120000
	old_history 60000 "$coming"
	old_history 10 "$coming + 1"
	start_manager
	# No session reads the history now: a partition cannot be dropped while a session reads it.
	wait_until 60 '[ "$(grep -c "dropped the history.s partition" "$DIR/log/manager.log")" = 2 ]'
	wait_until 60 '[ "$(sql "select sum(count) from history_totals")" = 60010 ]'
	expect_eq '60010|0' "$(sql 'select count(*), count(*) filter (where keep_until < current_date) from task_history')"
	expect_no_match 'warn' "$(cat "$DIR/log/manager.log")"
	expect_eq 60000 "$(sql 'select count(*) from task_history_default')"
	expect_eq 50000 "$(sql 'select max(rows) from steps')"
	# The coming day is over.
	sql 'update task_history_default set keep_until = current_date - 4; select counts_recount()' >/dev/null
	stop manager
	start_manager
	wait_until 60 '[ "$(sql "select count(*) from task_history_default")" = 0 ]'
	expect_eq 50000 "$(sql 'select max(rows) from steps')"
}

# One manager waits until no session reads the default partition; the other must not wait for it.
test_two_managers_empty_the_default_partition_at_once() {
	start_postgres
	old_history 10
	hold other "select from locks where name = 'history' for no key update"
	expect_eq f "$(sql 'select history_take_over(current_date, 1000)')"
	let_go other
	for more in t f; do expect_eq $more "$(sql 'select history_take_over(current_date, 1000)')"; done
	expect_eq '0|2' "$(sql "select (select count(*) from task_history_default), count(*) from history_over(current_date)")"
	# Long tasks move in steps, too: what a step writes fits into the time of a statement.
	local day="current_date - 40"
	sql "create temp table long as select * from task_history limit 1;
		update long set keep_until = $day, details = repeat('x', 30000000);
		insert into task_history select l.* from long l, generate_series(1, 5)"
	expect_eq 0 "$(sql "select make_history_partitions($day, 1)")"
	expect_eq 't 2' "$(sql "select history_take_over(current_date, 1000)") $(sql 'select count(*) from task_history_default')"
	expect_eq 'f 0' "$(sql "select history_take_over(current_date, 1000)") $(sql 'select count(*) from task_history_default')"
}

# A task lives forever, because its key gets newer versions: the last hundred of its old attempts and events stay. Pages
# without rows to remove do not stop the removal of rows in later pages.
test_old_rows_go_page_by_page() {
	start_postgres
	sql "insert into routes (queue, type) values ('q', 't');
		insert into tasks (route_id, queue, type, run_at, created, last_updated) values (1, 'q', 't', 'infinity', now(), now());
		insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated)
			select 1, at, 1, 'completed', 'queued', true, at from generate_series(1, 12000) n cross join lateral (
				select now() - interval '60 days' + n * interval '1 s' as at) x;
		insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated)
			select 2, at, 1, 'failed', 'dead', true, at from generate_series(1, 3) n cross join lateral (
				select now() - interval '59 days' + n * interval '1 s' as at) x;
		insert into task_attempts select 1, now(), 1, null, null, 'completed', 'queued', true, null, null, null, now();
		insert into task_events (task_id, version, at, event)
			select task_id, token, token, 'newer_version' from task_attempts where last_updated < now() - interval '1 day' order by token;
		insert into workers (name, lost, gone_at) select 'w' || n, true, now() - interval '60 days' from generate_series(1, 6000) n;
		insert into managers (name, stopped, hb_at) values ('old', true, now() - interval '60 days'), ('late', true, now() - interval '2 days');
		insert into assignments (worker_id, fetch_id, at, task_ids, open, closed_at)
			select 1, n, at, '{}', case when n = 1 then 1 else 0 end, case when n > 1 then at end
			from generate_series(1, 12000) n cross join lateral (select now() - interval '60 days' + n * interval '1 s' as at) x;
		insert into batches (name, queue, implicit, phase, created, ended_at) select 'b' || n, 'q', false,
			case when n < 700 then 'running' else 'ended' end, now() - interval '60 days', case when n >= 700 then now() - interval '59 days' end
			from generate_series(1, 1500) n" >/dev/null
	start_manager
	wait_until 60 '[ "$(sql "select (select count(*) from task_attempts), (select count(*) from task_events), (select count(*) from assignments),
		(select count(*) from batches)")" = "100|100|1|699" ]'
	expect_eq 1 "$(sql 'select distinct task_id from task_attempts')"
	wait_until 20 '[ "$(sql "select (select count(*) from workers), (select max(name) from managers where stopped), (select count(*) from managers)")" = "1|late|2" ]'
	expect_eq 1 "$(reeve show 1 --json | jq .id)"
}

# 1,500 workers lived for one lease, two days ago. Three of them stay: w700 has a claim among those of four days, the
# last heartbeat of w900 reported a completed task, and w1000 is of today.
test_workers_that_were_never_given_anything_go_after_a_day() {
	start_postgres
	sql "insert into workers (name, lost, registered, gone_at)
			select 'w' || n, true, at - interval '15 s', at from generate_series(1, 1500) n cross join lateral (
				select now() - interval '2 days' + n * interval '10 ms' as at) x;
		update workers set completed = 1 where id = 900;
		update workers set registered = now() - interval '15 s', gone_at = now() where id = 1000;
		insert into assignments (worker_id, fetch_id, at, task_ids, open, closed_at)
			select case when n = 10164 then 700 else 0 end, n, at, '{}', 0, at from generate_series(1, 20000) n cross join lateral (
				select now() - interval '4 days' + n * interval '17 s' as at) x" >/dev/null
	start_manager
	wait_until 20 '[ "$(sql "select string_agg(name, '"' ' order by id"') from workers")" = "w700 w900 w1000" ]'
	expect_eq 20000 "$(sql 'select count(*) from assignments')"
}

test_requests_keys_and_journal_rows_go_in_their_time() {
	start_postgres
	start_manager
	start_worker
	set_keep long 90 90 90
	old=$(reeve submit nothing --key old)
	young=$(reeve submit nothing --key young)
	reeve wait "$old" "$young" >/dev/null
	stop worker
	sql "update keys set expires_at = clock_timestamp() where key = 'old'"
	sql "update assignments set closed_at = closed_at - interval '60 days'"
	at=$(printf '%012x' $(($(date +%s%3N) - 24 * 3600000))) # a day ago
	sql "insert into requests (id, task_ids) values ('019a0000-0000-7000-8000-000000000000', '{0}'), ('${at:0:8}-${at:8}-7000-8000-000000000000', '{0}')"
	sql "insert into call_keys (key, request_id, request) select gen_random_uuid(), id, gen_random_uuid() from requests where task_ids = '{0}'"
	before=$(sql 'select count(*) from requests')
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select count(*) from keys")" = 1 ]'
	wait_until 20 "[ \"\$(sql 'select count(*) from requests')\" = $((before - 1)) ]"
	# An idempotency key of a call by HTTP is kept as long as its request id.
	expect_eq "${at:0:8}-${at:8}-7000-8000-000000000000" "$(sql 'select request_id from call_keys')"
	# The journal is kept as long as the tasks of any queue.
	expect [ "$(sql 'select count(*) from assignments')" -gt 0 ]
	sql "update assignments set closed_at = closed_at - interval '60 days'"
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select count(*) from assignments")" = 0 ]'
}

test_a_task_whose_time_is_over_does_not_start_again() {
	start_postgres
	start_manager
	start_worker
	dead=$(reeve submit sh 'exit 65' --key k)
	versioned=$(reeve submit sh 'exit 65' --key v --key-version 1)
	expect_fail 1 reeve wait "$dead" "$versioned"
	stop worker
	# A manager that archives keeps the partition from being dropped; what belongs to its tasks is deleted before that.
	sql "insert into managers (name, archives) values ('archivist', true)"
	is_over 1 true
	sql "select history_forget('task_history_$(day 1)', 0, 5000)" >/dev/null
	expect_fail 4 reeve retry "$dead"
	expect_match "$dead +dead +no +its time in the history is over" "$OUTPUT"
	again=$(reeve submit sh true --key k)
	newer=$(reeve submit sh true --key v --key-version 2 2>/dev/null)
	sql "update managers set stopped = true where name = 'archivist'"
	stop manager
	start_manager
	all_gone
	expect_eq "$again k,$newer v" "$(sql "select string_agg(concat_ws(' ', id, key), ',' order by id) from all_tasks")"
	expect_eq "$again k,$newer v" "$(sql "select string_agg(concat_ws(' ', task_id, key), ',' order by task_id) from keys")"
}

run_tests
