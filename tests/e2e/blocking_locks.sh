#!/usr/bin/env bash
# Locks that another session keeps for long: a forgotten psql, an edit, a dry run, a dump. Work that does not need them
# goes on as before, and the other work goes on when they are released. (locked_tasks.sh: locked rows of tasks and
# batches; frozen_transactions.sh: managers frozen within a transaction.)
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/locks.bash"
. "$(dirname "$0")/pace.bash"

# The statement that adds a route waits until the other session has committed the same route. It cannot see that row
# yet, but the manager then finds it.
test_a_type_that_another_manager_creates_is_found() {
	local ms add=$STATEMENTS/routes_add.sql
	start_postgres
	local psql=("$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve -c 'set search_path = reeve')
	start_manager manager "${SHORT[@]}"
	for ms in 20 40 60 80 100 120 140 160 180 200; do
		start other$ms "${psql[@]}" -c begin -c "insert into routes (queue, type) values ('default', 'fresh$ms')" \
			-c "\\! touch $DIR/added$ms" -c "$UNTIL_AWAITED" -c "select pg_sleep(0.001 * $ms)" -c commit
		wait_until 10 '[ -e $DIR/added$ms ]'
		expect_eq "$(reeve submit fresh$ms --call-timeout 10s)" "$(sql 'select max(id) from tasks')"
		ended other$ms 10
		expect_eq 0 "$STATUS"
	done
	expect_eq 10 "$(sql "select count(distinct r.type) from tasks t join routes r on r.id = t.route_id where r.type like 'fresh%'")"
	start another "${psql[@]}" -c begin -c "insert into routes (queue, type) values ('default', 'last')" \
		-c "\\! touch $DIR/added" -c "$UNTIL_AWAITED" -c commit
	wait_until 10 '[ -e $DIR/added ]'
	start second "${psql[@]}" -c "prepare add as $(cat "$add")" -c "execute add('{default,default,default}', '{fresh20,last,made}')"
	ended second 10
	expect_eq "$(sql "select id, queue, type from routes where type = 'fresh20'"; echo '|default|last'; sql "select id, queue, type from routes where type = 'made'")" \
		"$(sort -t '|' -k 3 "$DIR/log/second.log")"
}

# measures time
test_a_locked_row_of_a_worker_costs_no_other_its_lease() {
	start_postgres
	start_manager manager --lease 2s --heartbeat 400ms --expiry-grace 3s
	start_worker locked --queue none
	start_worker worker --concurrency 4
	hold holder "select from workers where name = 'locked' for update"
	sleep 4
	id=$(reeve submit nothing)
	begin=$(ms)
	reeve wait "$id" >/dev/null
	expect_at_most 1000 $(($(ms) - begin)) 'a task'
	expect_eq 0 "$(sql "select count(*) from worker_events e join workers w on w.id = e.worker_id where w.name = 'worker' and e.event <> 'registered'")"
	let_go holder
	wait_until 20 '[ "$(sql "select count(*) from workers where name = '\''locked'\'' and not lost")" = 1 ]'
}

# One manager counts the other as gone, since it sees no heartbeats of it, and does not notify it.
# measures time
test_a_manager_whose_row_is_locked_finds_the_others_tasks_by_itself() {
	local id
	start_postgres
	start_manager two
	start_manager one
	start_worker worker --queue mine
	reeve submit nothing --queue mine --wait --manager "${URL[two]}"
	# By then the other has seen two of its heartbeats, and so that it lives.
	wait_until 10 '[ "$(sql "select max(hb_seq) from managers where id = (select max(id) from managers)")" -ge 4 ]'
	hold row 'select from managers where id = (select max(id) from managers) for update'
	wait_until 10 'grep -q "is silent; its share of the tasks is taken over" "$DIR/log/two.log"'
	for _ in 1 2 3 4; do
		id=$(reeve submit nothing --queue mine --manager "${URL[two]}")
		wait_status 10 "$id" completed
		expect_at_most 1500 "$(sql "select (1000 * extract(epoch from token - created))::int from task_history where task_id = $id")" 'its start'
	done
	let_go row
}

# measures time
test_a_locked_edit_does_not_block_registrations_and_submits() {
	start_postgres
	start_manager manager "${SHORT[@]}"
	id=$(reeve submit sh 'exit 0' --queue later --delay 1h)
	other=$(reeve submit sh 'exit 0' --queue later --delay 1h)
	hold holder "select from tasks where id = $id for update"
	start cancel "$REEVE_BIN/reeve" cancel "$id"
	wait_until 20 '[ "$(lock_waits)" -gt 0 ]'
	begin=$(ms)
	reeve submit nothing --queue another-new-one >/dev/null
	expect_at_most 1000 $(($(ms) - begin)) 'the first task of a new queue'
	begin=$(ms)
	start_worker worker
	expect_at_most 3000 $(($(ms) - begin)) 'a worker that registers'
	begin=$(ms)
	reeve cancel "$other" >/dev/null
	expect_at_most 1500 $(($(ms) - begin)) 'another edit'
	let_go holder
	ended cancel 10
	expect_eq 0 "$STATUS"
	expect_eq cancelled "$(field "$id" status)"
}

test_an_edit_that_waits_for_its_lock_until_the_end_changes_nothing_and_says_why() {
	local ids=() listed
	start_postgres
	start_manager manager "${SHORT[@]}"
	for _ in 1 2 3; do ids+=("$(reeve submit sh 'exit 0' --queue later --delay 1h)"); done
	listed=${ids[0]},${ids[1]},${ids[2]}
	hold again "select from tasks where id = ${ids[1]} for update"
	expect_fail 3 reeve cancel "${ids[@]}"
	expect_match 'another transaction holds a lock' "$OUTPUT"
	let_go again
	expect_eq '3 queued, 0 marked' "$(sql "select count(*) || ' ' || string_agg(distinct status, ' ') || ', '
		|| count(*) filter (where cancel_requested) || ' marked' from all_tasks where id in ($listed)")"
	expect_eq 0 "$(sql "select count(*) from task_events where task_id in ($listed)")" 'events'
	expect_eq 0 "$(sql "select count(*) from requests where kind = 'cancel'")" 'calls that took effect'
	reeve cancel "${ids[@]}" >/dev/null
}

lock_waits() { # of the statements that callers asked for: the maintenance waits for locks at any time
	sql "select count(*) from pg_stat_activity where application_name like 'reeve-manager %'
		and application_name <> 'reeve-manager maintenance' and wait_event_type = 'Lock'"
}

# Runs a command, interrupts it while it waits for a lock, and sets $OUTPUT to what it printed.
interrupt() { # COMMAND…
	rm -f "$DIR/log/change.log"
	start change env --default-signal=INT "$REEVE_BIN/reeve" "$@"
	wait_until 10 '[ "$(lock_waits)" -gt 0 ]'
	stop change INT
	expect_eq 130 "$STATUS" "exit code of $*"
	OUTPUT=$(cat "$DIR/log/change.log")
}

# The manager has received the changes, and carries them out when the lock is released.
test_an_interrupted_change_says_that_it_may_still_happen() {
	local said='reeve: interrupted; the change may still be made'
	start_postgres
	start_manager manager "${SHORT[@]}"
	id=$(reeve submit nothing --delay 1h)
	hold holder "select from tasks where id = $id for update"
	interrupt discard "$id"
	expect_eq "$said" "$OUTPUT"
	let_go holder
	wait_status 30 "$id" dead
	for n in $(seq 1100); do echo '{}'; done | reeve submit --bulk - nothing --delay 1h >"$DIR/ids"
	last=$(tail -n 1 "$DIR/ids")
	hold holder "select from tasks where id = $last for update"
	interrupt update --where status=queued --priority 3
	expect_eq "$said"$'\n''reeve: 1000 tasks changed before that; the same command goes on with the rest' "$OUTPUT"
	let_go holder
	wait_until 30 '[ "$(sql "select count(*) from tasks where priority = 3")" = 1100 ]'
	hold holder "select from tasks where id = $last for update"
	interrupt queue purge default
	expect_eq "$said" "$OUTPUT"
	let_go holder
	hold holder "select reeve.submit('nothing', key => 'k')"
	interrupt submit nothing --key k
	expect_eq 'reeve: interrupted reeve: the task may have been stored all the same; with a --key a submit can be repeated safely' \
		"$(xargs <<<"$OUTPUT")"
	let_go holder
	# A client that has reached no manager has sent nothing. It has three threads when it looks for one: its own, one that
	# takes the signals, and the connection's.
	rm "$DIR/log/change.log"
	start change env --default-signal=INT "$REEVE_BIN/reeve" --manager tcp://127.0.0.1:1 --connect-timeout 60s cancel "$id"
	wait_until 10 '[ "$(cat "/proc/$(pid change)"/task/*/comm | grep -cx reeve)" = 3 ]'
	stop change INT
	expect_eq 130 "$STATUS"
	expect_eq 'reeve: interrupted' "$(cat "$DIR/log/change.log")"
}

# Prints the tasks of a dry run in one line: "3 queued 4 queued".
dry_run() { # COMMAND CONDITIONS
	timeout 10 "$REEVE_BIN/reeve" $1 --where "$2" --dry-run --json | jq -r '"\(.id) \(.status)"' | xargs
}

test_a_dry_run_locks_nothing_and_waits_for_no_row() {
	local waiting ended round
	start_postgres
	start_manager
	waiting="$(reeve submit nothing --queue due --delay 1h) queued $(reeve submit nothing --queue due --delay 1h) queued"
	ended=$(reeve submit nothing --queue over --delay 1h)
	reeve cancel "$ended" >/dev/null
	sql 'vacuum full tasks, task_history'
	for round in free locked; do
		[ $round = free ] || hold others 'select from tasks for update; select from task_history for update'
		for command in cancel discard 'update --priority 3'; do
			expect_eq "$waiting" "$(dry_run "$command" queue=due)" "$command, $round"
		done
		expect_eq "$ended cancelled" "$(dry_run retry status=cancelled)" "retry, $round"
		expect_fail 4 timeout 10 "$REEVE_BIN/reeve" cancel --where queue=over --dry-run
		expect_eq 'reeve: no task matches' "$OUTPUT"
		[ $round = locked ] ||
			expect_eq 0 "$(sql "select count(*) from (select xmax from tasks union all select xmax from task_history) r where xmax <> '0'")" 'rows locked'
	done
	let_go others
	expect_eq '2 tasks cancelled or being stopped' "$(reeve cancel --where queue=due)"
}

# measures time
test_a_dry_run_ends_with_its_caller() {
	local i
	start_postgres
	start_manager
	reeve cancel "$(reeve submit nothing --delay 1h)" >/dev/null
	hold others 'lock table task_history in access exclusive mode'
	for i in $(seq 12); do
		start "dry$i" "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" retry --where status=cancelled --dry-run
	done
	wait_until 10 '[ "$(lock_waits)" -ge 1 ]'
	sleep 0.3
	for i in $(seq 12); do stop "dry$i"; done
	wait_until 1 '[ "$(lock_waits)" = 0 ]'
	for i in $(seq 10); do
		expect_eq 0 "$(lock_waits)" 'statements whose callers have gone'
		sleep 0.1
	done
	let_go others
	expect_match cancelled "$(reeve retry --where status=cancelled --dry-run)"
}

# To create the partition, the starting manager must lock a table; statements that need the table queue up after it.
# measures time
test_a_dump_while_a_partition_is_missing() {
	start_postgres
	start_manager one
	start_worker worker
	sql "do \$\$ begin execute (select format('drop table reeve.%I', max(c.relname)) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = 'reeve.task_history'::regclass and c.relname ~ '^task_history_[0-9]+\$'); end \$\$"
	hold dump 'lock table task_history, task_history_default in access share mode'
	start_calls calls
	wait_until 10 '[ "$(grep -c wait "$DIR/log/calls.log")" -ge 20 ]'
	begin=$(ms)
	start_manager two
	expect_at_most 4000 $(($(ms) - begin)) 'a manager that starts'
	wait_until 10 "grep -q 'canceling statement due to lock timeout' '$DIR/log/postgres.log'"
	sleep 1
	stop_calls calls
	expect_at_most 1000 "$(longest calls)" 'the longest that a task of the other took'
	let_go dump
}

# A manager's heartbeat, on which leases depend, runs each second. It must not read these tables, in which a forgotten
# transaction keeps dead rows.
# measures time
test_firings_wait_neither_for_tasks_by_sql_nor_for_callbacks() {
	start_postgres
	start_manager
	hold table 'lock table inbox, callbacks in access exclusive mode'
	before=$(sql 'select hb_seq from managers')
	wait_until 10 "[ \"\$(sql 'select hb_seq from managers')\" -ge $((before + 3)) ]"
	let_go table
}

# measures time
test_advisory_locks_stop_nothing() {
	start_postgres
	start_manager one
	stop one
	sql "create role nobody_much login" >/dev/null
	hold stranger "set role nobody_much; select pg_advisory_lock(hashtext(name)) from unnest(array['reeve.task_history partitions', 'reeve.schema_migrations',
			'reeve.metrics', 'reeve.archive']) name;
		select pg_advisory_lock(hashtext('reeve.worker'), hashtext('worker')),
			pg_advisory_lock(hashtextextended('reeve.queue default', 0))"
	sql "do \$\$ begin execute (select format('drop table reeve.%I', max(c.relname)) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = 'reeve.task_history'::regclass and c.relname ~ '^task_history_[0-9]+\$'); end \$\$"
	begin=$(ms)
	start_manager two
	start_worker worker
	expect_at_most 6000 $(($(ms) - begin)) 'a manager and a worker that start'
	reeve metric put group name 1 >/dev/null
	reeve submit nothing --delay 1h >/dev/null
	reeve queue purge default >/dev/null
	wait_until 10 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_fail 1 "$REEVE_TEST_PG_BIN/psql" -Xq -h "$PGDIR" -U nobody_much -d reeve -v ON_ERROR_STOP=1 -c 'select from reeve.locks for update'
	let_go stranger
}

test_a_late_result_is_noted_once() {
	start_postgres
	start_manager manager --lease 1s --heartbeat 400ms --expiry-grace 1500ms
	id=$(reeve submit sh x --timeout 1s --max-attempts 2 --retry-base 1h)
	token=$(reeve fetch --json | jq .token)
	wait_status 20 "$id" failed
	for n in 1 2 3 4 5; do
		expect_fail 4 reeve report "$id" "$token" --completed late
		expect_fail 4 reeve report "$id" $((token - n)) --completed never
	done
	expect_eq 1 "$(events "$id" | tr ' ' '\n' | grep -c late_result)"
	expect_eq 1 "$(sql "select count(*) from task_events where event = 'late_result'")"
}

run_tests
