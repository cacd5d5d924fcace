#!/usr/bin/env bash
# reeve doctor: each finding is caused, and gone when its advice has been followed.
# parts 4
. "$(dirname "$0")/lib.sh"
HISTORY_DAYS=30
. "$(dirname "$0")/locks.bash"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/raw.bash"

doctor() { # EXIT_CODE [OPTION…]: sets FOUND to the findings, a line each, and ADVICE to the advice of all
	local want=$1 code=0
	shift
	"$REEVE_BIN/reeve" doctor --json "$@" >"$DIR/doctor.json" || code=$?
	FOUND=$(jq -r '.findings[] | "\(.severity) \(.area) \(.subject)"' "$DIR/doctor.json")
	ADVICE=$(jq -r '.findings[].advice' "$DIR/doctor.json" | sort -u)
	expect_eq "$want" "$code" "$FOUND"
}

setting() { # NAME VALUE: for all sessions, at once
	sql "alter system set $1 = $2"
	sql 'select pg_reload_conf()' >/dev/null
	wait_until 10 "[ \"\$(sql \"select setting from pg_settings where name = '$1'\")\" = $2 ]"
}

# Nothing is wrong then: test clusters have fsync off, and the managers' role may not see other sessions.
start_healthy() { # [OPTION…]: of PostgreSQL
	start_postgres "$@"
	setting fsync on
	setting idle_in_transaction_session_timeout 3600000
	sql 'grant pg_read_all_stats to reeve'
	start_manager
	doctor 0
	expect_eq '' "$FOUND"
}

test_a_new_system_has_notes_at_most() {
	start_postgres
	start_manager
	start_worker
	doctor 2
	expect_eq 'critical settings fsync
note rights reeve
note settings idle_in_transaction_session_timeout' "$FOUND"
	expect_fail 2 reeve doctor
	expect_match '^critical settings: fsync: fsync is off: a crash' "$OUTPUT"
	expect_match $'\n +set fsync = on and reload PostgreSQL' "$OUTPUT"
	setting fsync on
	doctor 0
	expect_match 'nothing is wrong, as manager .* sees it' "$(reeve doctor)"
	sql 'grant pg_read_all_stats to reeve'
	setting idle_in_transaction_session_timeout 600000
	doctor 0
	expect_eq '' "$FOUND"
	# Errors, with the code of `reeve check` for what is not known.
	expect_fail 3 reeve doctor --older never
	expect_fail 3 reeve doctor now
	expect_match '^nothing' "$(reeve doctor --older 1h)"
	stop manager
	expect_fail 3 reeve doctor --connect-timeout 300ms
	expect_match 'no manager' "$OUTPUT"
}

test_the_schema() {
	start_healthy
	sql 'drop index tasks_ready; drop table archives; drop view dead_tasks; alter table metrics set unlogged'
	sql 'drop function batch_closed; update schema_definitions set hash = 0 where name = $$functions/keep_days$$'
	# A unique index that cannot be created stays, invalid.
	sql "insert into task_events (task_id, version, event) values (1, now(), 'x'), (1, now(), 'x')"
	! PGAPPNAME=index sql 'create unique index concurrently twice on task_events (task_id)' 2>"$DIR/null" || fail 'it was created'
	doctor 2
	expect_eq 'critical schema archives
critical schema batch_closed
critical schema dead_tasks
critical schema metrics
warning schema archives_partition
warning schema definitions
warning schema tasks_ready
warning schema twice' "$FOUND"
	# What it advises helps.
	sql "$(grep '^set search_path.*index tasks_ready ' <<<"$ADVICE")"
	sql "$(grep '^alter table reeve.metrics' <<<"$ADVICE")"
	sql "$(grep -o '^delete from .*batch_closed.;' <<<"$ADVICE")"
	sql "$(grep -o '^delete from .*dead_tasks.;' <<<"$ADVICE")"
	sql 'drop index twice'
	stop manager
	start_manager
	doctor 2
	expect_eq 'critical schema archives
warning schema archives_partition' "$FOUND"
	sql 'update schema_migrations set version = version - 1'
	expect_match 'critical schema version' "$(reeve doctor --json | jq -r '.findings[] | "\(.severity) \(.area) \(.subject)"' || true)"
}

test_the_rights() {
	start_healthy
	sql 'revoke insert, delete on metrics from reeve; revoke all on sequence batches_id_seq from reeve'
	sql 'revoke execute on function submit_internal from public, reeve'
	sql 'alter table pipelines owner to postgres; grant all on pipelines to reeve'
	doctor 2
	expect_eq 'critical rights batches_id_seq
critical rights metrics
critical rights pipelines_id_seq
critical rights submit_internal
warning rights postgres' "$FOUND"
	expect_match '"role \\"reeve\\" lacks insert, delete"' "$(cat "$DIR/doctor.json")"
	sql "$(grep '^grant all on all tables' <<<"$ADVICE"); $(grep '^grant all on all seq' <<<"$ADVICE"); $(grep '^grant execute' <<<"$ADVICE")"
	sql 'alter table pipelines owner to reeve'
	doctor 0
	expect_eq '' "$FOUND"
}

test_settings_of_postgresql() {
	start_healthy -c max_connections=30
	setting full_page_writes off
	setting synchronous_commit off
	setting autovacuum off
	setting track_counts off
	sql 'alter table tasks set (autovacuum_enabled = off)'
	wait_until 10 '[ "$(reeve doctor --json | jq ".findings | length")" = 5 ]'
	doctor 2
	expect_eq 'critical settings autovacuum
critical settings full_page_writes
critical settings synchronous_commit
critical settings track_counts
warning settings tasks' "$FOUND"
	for name in full_page_writes synchronous_commit autovacuum track_counts; do setting $name on; done
	sql "$(grep '^alter table reeve.tasks' <<<"$ADVICE")"
	wait_until 10 '[ -z "$(reeve doctor --json | jq -r ".findings[].subject")" ]'
	# So many connections that managers get no more.
	for n in {1..30}; do
		[ "$(sql "select count(*) from pg_stat_activity where backend_type = 'client backend'")" -lt 24 ] || break
		hold "crowd$n" 'select 1'
	done
	doctor 1
	expect_match 'warning settings max_connections' "$FOUND"
}

test_dead_rows_and_what_keeps_them() {
	start_healthy -c max_prepared_transactions=2 -c autovacuum_naptime=1h
	hold forgotten 'select pg_current_xact_id()'
	sql 'begin; insert into reeve.metrics (category, name, value) values ($$a$$, $$b$$, 1); prepare transaction $$half$$'
	sql "select pg_create_physical_replication_slot('gone', true)" >/dev/null
	PGAPPNAME=rows sql "insert into task_events (task_id, version, event) select 1, now(), 'x' from generate_series(1, 100001); delete from task_events"
	wait_until 10 '[[ "$(reeve doctor)" == *bloat:\ task_events:* ]]'
	doctor 1
	expect_eq 'warning bloat task_events
warning snapshots gone' "$FOUND" 'no transaction is old yet'
	sleep 1
	doctor 1 --older 1s
	pid=$(sql "select pid from pg_stat_activity where application_name = 'hold-forgotten'")
	expect_eq "warning bloat task_events
warning snapshots gone
warning snapshots half
warning snapshots pid $pid" "$FOUND"
	expect_match "select pg_terminate_backend\($pid\)" "$ADVICE"
	sql "select pg_terminate_backend($pid)" >/dev/null
	ended forgotten
	sql "select pg_drop_replication_slot('gone')" >/dev/null
	sql "rollback prepared 'half'"
	PGAPPNAME=vacuum sql 'vacuum task_events'
	wait_until 10 '[ -z "$(reeve doctor --json --older 1s | jq -r ".findings[].subject")" ]'
	# Without the right to see the sessions of other roles, a snapshot is noticed by its age in transactions.
	sql 'revoke pg_read_all_stats from reeve'
	hold forgotten 'set transaction isolation level repeatable read; select 1'
	PGAPPNAME=ages sql "do \$\$ begin for n in 1 .. 100100 loop perform pg_current_xact_id(); commit; end loop; end \$\$"
	doctor 1
	expect_eq "warning snapshots pid $(sql "select pid from pg_stat_activity where application_name = 'hold-forgotten'")
note rights reeve" "$FOUND"
}

test_standbys() {
	local standby=$DIR/standby
	start_healthy
	standby_absent
	doctor 2
	expect_eq 'critical replication synchronous_standby_names' "$FOUND"
	standby_back
	wait_until 10 '[ -z "$(reeve doctor --json | jq -r ".findings[].subject")" ]'
	# A standby that applies nothing falls behind.
	install -d -m 0700 -o "$REEVE_TEST_PG_USER" "$standby"
	(as "$REEVE_TEST_PG_USER" "$REEVE_TEST_PG_BIN/pg_basebackup" -h "$PGDIR" -U postgres -D "$standby" -R -c fast --no-sync 2>"$DIR/log/basebackup.log")
	rm "$standby"/.s.PGSQL*
	start standby as "$REEVE_TEST_PG_USER" "$REEVE_TEST_PG_BIN/postgres" -D "$standby" -k "$standby" -c recovery_min_apply_delay=1h
	wait_until 20 "[ \"\$(sql \"select state from pg_stat_replication\")\" = streaming ]"
	doctor 0
	PGAPPNAME=wal sql "insert into task_events (task_id, version, event, note) select 1, now(), 'x', repeat('x', 900) from generate_series(1, 100000)"
	wait_until 20 "[ \"\$(sql 'select replay_lsn is not null and pg_current_wal_lsn() - replay_lsn > 67108864 from pg_stat_replication')\" = t ]"
	doctor 1
	expect_eq 'warning replication walreceiver' "$FOUND"
	# A manager that is connected to it could not write.
	stop standby
}

# A worker of another release registers by a message made manually, since there is only one release to build.
test_managers_and_workers() {
	start_healthy
	start_manager two
	REEVE_MANAGER=${URL[manager]}
	start_worker gone
	id=$(reeve submit nobody-does-this --queue jobs)
	wait_until 10 '[[ "$(reeve doctor)" == *nobody-does-this* ]]'
	# name "old", one slot, type "x", version "0.0.1"
	raw_hex WorkerService/Register 0a 03 6f 6c 64 20 01 32 01 78 3a 05 30 2e 30 2e 31 >"$DIR/null"
	doctor 1
	expect_eq 'warning versions worker old
warning workers nobody-does-this in queue jobs' "$FOUND"
	kill_worker gone
	stop two KILL
	wait_until 60 "[ \"\$(sql \"select lost from workers where name = 'gone'\")\" = t ]"
	wait_until 20 '[[ "$(reeve doctor)" == *managers:* ]]'
	sql "update managers set version = '0.0.2' where name = (select name from managers order by id limit 1)"
	doctor 1
	expect_match 'warning managers ' "$FOUND"
	expect_match 'warning versions manager ' "$FOUND"
	expect_match 'warning workers gone' "$FOUND"
	start_worker gone
	doctor 1
	expect_no_match 'workers gone' "$FOUND"
}

test_clocks_and_the_counting_of_executions() {
	start_postgres_with_clock
	setting fsync on
	setting idle_in_transaction_session_timeout 3600000
	sql 'grant pg_read_all_stats to reeve'
	start_manager
	doctor 0
	hold counting 'select from executions_rolled for update'
	jump 3600
	wait_until 20 '[[ "$(reeve doctor --older 2h)" == *clock:* ]]'
	doctor 1 --older 2h
	expect_eq 'warning clock manager
warning maintenance statistics' "$FOUND"
	expect_match 'clock is (01:00:0.|00:59:5.) behind the database' "$(cat "$DIR/doctor.json")"
	jump 0
	let_go counting
	wait_until 20 '[[ "$(reeve doctor --older 2h)" == *clock:\ database:* ]]'
	doctor 1 --older 2h
	expect_eq 'warning clock database' "$FOUND"
}

test_a_manager_that_has_just_started_knows_no_difference_of_clocks() {
	start_postgres
	launch_clockless
	wait_until 30 'reeve doctor >"$DIR/doctor" 2>&1 || [ $? -le 2 ]'
	expect_no_match 'clock' "$(cat "$DIR/doctor")"
	let_go heartbeats
}

test_the_maintenance() {
	local tomorrow
	start_healthy
	hold tables "select from locks where name in ('counts', 'history') for update"
	tomorrow=$(sql "select 'task_history_' || to_char((now() at time zone 'UTC')::date + 2 + history_keep(1), 'YYYYMMDD')")
	sql "drop table $tomorrow"
	PGAPPNAME=rows sql "insert into count_changes (route_id) select 0 from generate_series(1, 100001)"
	sql "insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
		timeout_ms, retry_base_ms, retry_max_ms, by_report, source, created, last_updated)
		values ('2099-01-01', 1, 0, 0, 'q', 't', '', 'dead', now(), 1, 1, 1, 1, 1, false, '', now(), now())"
	doctor 1
	expect_eq 'warning maintenance count_changes
warning maintenance task_history
warning maintenance task_history_default' "$FOUND"
	sql 'truncate count_changes; delete from task_history_default'
	let_go tables
	wait_until 100 '[ -z "$(reeve doctor --json | jq -r ".findings[].subject")" ]'
}

run_tests
