#!/usr/bin/env bash
# PostgreSQL fails under load and comes back: all programs reconnect, nothing acknowledged is lost, and nothing is
# created or run twice.
# parts 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ledger.bash"
. "$(dirname "$0")/tasks.bash"

# Starts a submitter and a worker at each manager, and submits a backlog.
begin() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager one
	start_manager two
	REEVE_MANAGER=${URL[one]} start_ledger a --concurrency 8
	REEVE_MANAGER=${URL[two]} start_ledger b --concurrency 8 --prefetch 50
	REEVE_MANAGER=${URL[one]} start submitter-1 submit_steadily 1 40
	REEVE_MANAGER=${URL[two]} start submitter-2 submit_steadily 500001 7
	ledger_tasks 1000001 1006000 4 | reeve submit --bulk - >"$DIR/acknowledged.1000001"
}

# Stops the submitters, and expects every task to have completed once, in its first attempt.
finish() {
	touch "$DIR/enough"
	for name in submitter-1 submitter-2; do
		ended $name 60
		expect_eq '' "$(sed -n '/^submit of/{/ 3$/!p}' "$DIR/log/$name.log")" "exit codes of $name"
	done
	wait_until 60 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_nothing_lost
	expect_nothing_doubled
	expect_journal_closed
	expect_eq '' "$(sql 'select task_id, attempt from task_history where attempt <> 1 limit 5')" 'attempted again'
	expect_eq 0 "$(sql 'select count(*) from task_attempts')" 'attempts that did not end their task'
	expect_eq 0 "$(sql 'select count(*) from task_events')" 'events out of the ordinary'
	for name in a b; do
		stop $name
		expect_eq 0 "$STATUS" "exit code of worker $name"
	done
}

test_killed_and_started_again_under_load() {
	begin
	for round in 1 2 3; do
		wait_until 60 "begun $((round * 1500))"
		stop_postgres immediate
		start_postgres
	done
	finish
	expect_match 'the database is back' "$(cat "$DIR/log/one.log")"
}

test_every_connection_is_cut_again_and_again() {
	begin
	for round in 1 2 3 4 5 6 7 8 9 10; do
		wait_until 60 "begun $((round * 500))"
		sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'reeve-manager%'" >/dev/null
	done
	finish
}

# A manager that missed notifications while its listening connection was cut finds the tasks by polling.
test_a_task_submitted_without_a_listener_is_found() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager one
	start_manager two
	REEVE_MANAGER=${URL[two]} start_ledger a
	for n in 1 2 3; do
		sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'reeve-manager listen'" >/dev/null
		id=$(reeve --manager "${URL[one]}" submit ledger t$n)
		expect reeve --manager "${URL[one]}" wait "$id" --max-wait 10s
	done
	expect_each_once 3
	stop a
}

# As after a restore to a time before the manager's start.
test_a_manager_whose_row_is_gone_registers_again() {
	start_postgres
	start_manager one
	start_manager two
	for gone in 'id = (select min(id) from managers)' true; do
		sql "delete from managers where $gone" >/dev/null
		wait_until 10 "[ \"\$(sql 'select count(*) from managers where hb_seq >= 2')\" = 2 ]"
	done
	grep 'the database has no manager [0-9]*, which is this one' "$DIR/log/one.log"
}

# The manager b reads the answer to its own notification together with one of a, about a priority that b does not know.
# measures time
test_a_notification_behind_an_answer_is_taken() {
	local backend before='' state=''
	start_postgres
	start_manager a
	start_manager b
	start_worker
	reeve submit nothing --wait >/dev/null
	backend=$(sql "select pid from pg_stat_activity where application_name = 'reeve-manager listen' order by backend_start desc limit 1")
	while [ "$state" != idle ]; do # until b was stopped after it had sent its notification
		[ -z "$before" ] || signal b CONT
		before=$(sql "select query_start from pg_stat_activity where pid = $backend")
		kill -s STOP "$backend"
		reeve submit other >/dev/null # b tells a
		pause 0.2
		signal b STOP
		kill -s CONT "$backend"
		pause 0.2
		state=$(sql "select state from pg_stat_activity where pid = $backend and query_start > '$before'")
	done
	id=$(reeve --manager "${URL[a]}" submit nothing --priority 7)
	pause 0.3
	signal b CONT
	expect reeve --manager "${URL[a]}" wait "$id" --max-wait 5s
}

manager_connections() {
	sql "select count(*) from pg_stat_activity where application_name like 'reeve-manager%'"
}

lacking() { # MANAGER: whether it lacks connections, by the end of its log
	grep -oE 'room for only|connections again' "$DIR/log/$1.log" | tail -n 1 | grep -qx 'room for only'
}

# PostgreSQL has room for one manager's 19 connections, and for some of the other's.
test_with_connections_for_one_manager_one_works() {
	start_postgres
	start_manager one
	start_manager two
	both=${URL[one]},${URL[two]}
	REEVE_MANAGER=$both start_worker
	expect_eq 38 "$(manager_connections)" 'connections of two managers'
	sql 'alter role reeve connection limit 24'
	# In turns, so that each manager gets about half of the new ones.
	sql "select pg_terminate_backend(pid) from (select pid from pg_stat_activity where application_name like 'reeve-manager%'
		order by application_name offset 0) a" >/dev/null
	expect "$REEVE_BIN/reeve" submit nothing --manager "$both" --wait
	# The other one tries again, which does not disturb the one that works.
	for name in one two; do cp "$DIR/log/$name.log" "$DIR/$name.before"; done
	for n in $(seq 1 40); do
		expect timeout 15 "$REEVE_PLAIN" submit nothing --manager "$both" --wait
		sleep 0.2
	done
	works=one lacks=two
	! lacking one || works=two lacks=one
	expect reeve check --manager "${URL[$works]}"
	# That the other one is silent shows after three seconds, so perhaps only now; but once. The first submit does not need all
	# connections: some may come back after it. That one breaks is a line of its own.
	expect_eq '' "$(tail -n "+$(($(wc -l <"$DIR/$works.before") + 1))" "$DIR/log/$works.log" |
		sed '0,/is silent; its share of the tasks is taken over$/{//d}; / info .*: the database is back$/d')" 'it was disturbed'
	lack='PostgreSQL has room for only [0-9]* of the 19 connections that a manager needs: .*too many connections for role "reeve"'
	wait_until 20 '{ reeve check --manager "${URL[$lacks]}" --call-timeout 2s || true; } | grep -q "^REEVE UNKNOWN - .*does not reach its database: $lack"'
	grep "$lack; it leaves them to others, and tries again from time to time" "$DIR/log/$lacks.log"
	sql 'alter role reeve connection limit -1'
	wait_until 30 'reeve check --manager "${URL[$lacks]}" --call-timeout 2s'
	expect_eq 38 "$(manager_connections)" 'connections of two managers'
}

# A manager that starts while another has all connections does not take a share of the tasks.
test_a_manager_without_connections_takes_no_tasks() {
	start_postgres
	start_manager one
	start_worker
	sql 'alter role reeve connection limit 30'
	launch_manager two
	export REEVE_MANAGER=${URL[one]}
	wait_until 20 'grep -q "room for only" "$DIR/log/two.log"'
	expect_eq 1 "$(sql 'select count(*) from managers')" 'managers that have begun to work'
	sql 'alter role reeve connection limit -1'
	wait_until 30 'reeve check --manager "${URL[two]}" --call-timeout 2s'
}

# Without another manager it keeps the connections that it has, as long as it has some.
test_a_single_manager_works_with_too_few_connections() {
	start_postgres
	start_manager
	start_worker
	sql 'alter role reeve connection limit 18'
	sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'reeve-manager maintenance'" >/dev/null
	wait_until 20 'grep -q "PostgreSQL has room for only 18 of the 19 connections that a manager needs: " "$DIR/log/manager.log"'
	expect timeout 15 "$REEVE_BIN/reeve" submit nothing --wait
	sql 'alter role reeve connection limit -1'
	wait_until 10 'reeve check --call-timeout 2s'
	wait_until 20 'grep -q "room for the manager.s connections again" "$DIR/log/manager.log"'
}

# Calls wait for the database until their callers' timeout; then the error names the database.
test_callers_learn_that_it_is_down() {
	start_postgres
	start_manager
	id=$(reeve submit nothing)
	stop_postgres immediate
	start submit "$REEVE_BIN/reeve" submit nothing
	start show "$REEVE_BIN/reeve" show "$id"
	start list "$REEVE_BIN/reeve" list
	start cancel "$REEVE_BIN/reeve" cancel "$id"
	start stats "$REEVE_BIN/reeve" stats
	for name in submit show list cancel stats; do
		ended $name 60
		expect_eq 3 "$STATUS" "exit code of $name"
		expect_match 'database' "$(cat "$DIR/log/$name.log")" "what $name was told"
	done
	start_postgres
	expect_eq queued "$(reeve show "$id" --json | jq -r .status)"
	expect_eq 1 "$(sql 'select count(*) from tasks')" 'tasks'
	reeve cancel "$id"
}

test_the_page_readyz_shows_an_outage() {
	start_postgres
	port=$(free_port)
	start_manager one --http "http://127.0.0.1:$port"
	page() { curl -sS -o "$DIR/page" -w '%{http_code}' "http://127.0.0.1:$port$1"; }
	wait_until 20 '[ "$(page /readyz)" = 200 ]'
	stop_postgres immediate
	wait_until 20 '[ "$(page /readyz)" = 503 ]'
	expect_eq 'the manager does not reach its database' "$(jq -r .message "$DIR/page")"
	expect_eq 200 "$(page /healthz)"
	start_postgres
	wait_until 20 '[ "$(page /readyz)" = 200 ]'
}

run_tests
