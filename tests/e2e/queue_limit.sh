#!/usr/bin/env bash
# The limit of a queue: no more of its tasks run at once than `reeve queue set --max-running` says, over all workers and
# managers, exactly, and other queues do not notice.
# timeout 500
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager other
start_manager manager

executing() { # QUEUE
	sql "select count(*) from tasks where queue = '$1' and status = 'executing'"
}

wait_executing() { # QUEUE N
	wait_until 20 "[ \"\$(executing $1)\" = $2 ]"
}

# Whether the permits taken are those of the tasks that execute, in one snapshot.
expect_exact() { # QUEUE
	expect_eq t "$(sql "select l.taken = (select count(*) from tasks t where t.status = 'executing' and t.permits = array[l.id])
		and l.taken = (select count(*) from tasks t where t.status = 'executing' and t.queue = l.queue)
		from limits l where queue = '$1'")" "permits of $1"
}

# How many attempts of a queue ran at once at most, from the times in the tables; with SINCE (and UNTIL), only counted
# when an attempt began in that time. The end of an attempt is before the begin of the next one that its permit lets.
most_at_once() { # QUEUE [SINCE [UNTIL]]
	sql "with spans as (
			select token as from_at, last_updated as to_at from task_history where queue = '$1' and token is not null
			union all select token, last_updated from task_attempts where queue = '$1'),
		steps as (select from_at as at, 1 as step from spans union all select to_at, -1 from spans)
		select max(n) from (select at, step, sum(step) over (order by at, step) as n from steps) s
		where step = 1 and at > '${2:--infinity}' and at < '${3:-infinity}'"
}

test_as_many_run_as_may() {
	start_worker worker --concurrency 8
	expect_match 'max running +2' "$(reeve queue set some --max-running 2)"
	for _ in 1 2 3 4 5; do reeve submit sh "$HOLD" --queue some; done >"$DIR/ids"
	wait_executing some 2
	# The other slots are free for other queues, also of lower priority.
	reeve submit nothing --queue free --priority -5 --wait --timeout 20s >/dev/null
	sleep 1
	expect_eq 2 "$(executing some)"
	expect_exact some
	waiting=$(sql "select max(id) from tasks where queue = 'some' and status = 'queued'")
	expect_match '2 tasks of its queue run, the maximum' "$(reeve show "$waiting")"
	expect_eq queue_limit "$(reeve show "$waiting" --json | jq -r .waiting.reason)"
	release
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq '2 t' "$(most_at_once some) $(sql "select taken = 0 from limits where queue = 'some'")"
	expect_match 'max running +any number' "$(reeve queue set some --max-running=-1)"
	expect_eq 0 "$(sql "select count(*) from limits where queue = 'some'")"
}

test_none_and_more_and_fewer_while_tasks_run() {
	start_worker worker --concurrency 8
	reeve queue set many --max-running 0 >/dev/null
	for _ in $(seq 1 12); do reeve submit sh "$HOLD" --queue many; done >"$DIR/ids"
	sleep 1
	expect_eq 0 "$(executing many)"
	expect_match 'no task of its queue may run' "$(reeve show "$(head -n 1 "$DIR/ids")")"
	reeve queue set many --max-running 5 >/dev/null
	wait_executing many 5
	reeve --manager "${URL[other]}" queue set many --max-running 3 >/dev/null
	since=$(sql 'select clock_timestamp()')
	reeve cancel "$(sql "select min(id) from tasks where queue = 'many' and status = 'executing'")" >/dev/null
	wait_executing many 4
	sleep 1
	expect_eq 4 "$(executing many)" # none begins in its place
	expect_exact many
	release
	reeve wait - <"$DIR/ids" >/dev/null 2>&1 || true
	expect_eq '5 3' "$(most_at_once many) $(most_at_once many "$since")"
	expect_eq 0 "$(sql "select taken from limits where queue = 'many'")"
}

# Attempts that run when the limit is first set count, too.
test_a_first_limit_counts_what_runs() {
	start_worker worker --concurrency 8
	for _ in 1 2 3 4; do reeve submit sh "$HOLD" --queue late; done >"$DIR/ids"
	wait_executing late 4
	reeve queue set late --max-running 2 >/dev/null
	expect_eq 4 "$(sql "select taken from limits where queue = 'late'")"
	expect_exact late
	reeve submit sh "$HOLD" --queue late >>"$DIR/ids"
	sleep 1
	expect_eq 4 "$(executing late)"
	release
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 0 "$(sql "select taken from limits where queue = 'late'")"
}

# A first limit counts the claims of open transactions, so it is not set before their end. All else goes on.
test_a_first_limit_does_not_stop_the_fleet_while_a_transaction_is_open() {
	start_worker worker --queue busy --concurrency 4
	reeve submit nothing --queue pulled-by-sql >/dev/null
	start open "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve -c "begin; select id from reeve.fetch(queues => '{pulled-by-sql}'); select pg_sleep(60)"
	wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and wait_event = 'PgSleep'\")\" = 1 ]"
	start set "$REEVE_BIN/reeve" queue set limited --max-running 1 --call-timeout 60s
	wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where application_name like 'reeve-manager %' and wait_event_type = 'Lock'\")\" != 0 ]"
	for _ in 1 2 3 4; do reeve submit nothing --queue busy --wait; done
	stop set # fails if it has ended
	expect_fail 3 reeve queue set limited --max-running 1 --call-timeout 8s
	expect_match 'another transaction holds a lock' "$OUTPUT"
	expect_eq 0 "$(sql "select count(*) from limits where queue = 'limited'")"
	sql "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(60)%' and wait_event = 'PgSleep'" >/dev/null
	ended open
	reeve queue set limited --max-running 1 >/dev/null
	expect_eq 1 "$(sql "select maximum from limits where queue = 'limited'")"
}

# However an attempt ends, its permit is returned.
test_each_end_returns_its_permit() {
	start_worker worker --queue ends --concurrency 8 --kill-grace 100ms
	reeve queue set ends --max-running 3 --batches yes >/dev/null
	reeve submit sh 'exit 3' --queue ends --max-attempts 2 --retry-base 100ms >"$DIR/ids"
	reeve submit sh 'exit 65' --queue ends >>"$DIR/ids"
	reeve submit sh 'sleep 100' --queue ends --timeout 200ms --max-attempts 1 >>"$DIR/ids"
	cancelled=$(reeve submit sh 'sleep 100' --queue ends)
	wait_status 20 "$cancelled" executing
	reeve cancel "$cancelled" >/dev/null
	for i in 1 2 3 4 5 6; do reeve submit sh "echo $i" --queue ends --key "$i"; done >>"$DIR/ids"
	reeve wait - <"$DIR/ids" >/dev/null 2>&1 || true
	wait_until 20 '[ "$(sql "select count(*) from tasks where queue = '\''ends'\''")" = 0 ]'
	expect_eq '0 t' "$(sql "select taken from limits where queue = 'ends'") $(sql "select $(most_at_once ends) <= 3")"
	# Expiry: a pull client holds a task and goes away.
	reeve submit nothing --queue pulled --timeout 1s --max-attempts 1 >/dev/null
	reeve submit nothing --queue pulled --priority -1 >/dev/null
	reeve queue set pulled --max-running 1 >/dev/null
	taken=$(reeve fetch --queue pulled -n 5 --json)
	expect_eq 1 "$(wc -l <<<"$taken")"
	expect_fail 1 reeve fetch --queue pulled -n 5
	reeve report "$(jq .task_id <<<"$taken")" "$(jq .token <<<"$taken")" --returned
	expect_eq "$(jq .task_id <<<"$taken")" "$(reeve fetch --queue pulled -n 5 --max-wait 10s --json | jq .task_id)"
	expect_exact pulled
}

# Two managers with a worker each, a change of the limit, the crash of a worker, the crash of a manager.
test_two_managers_and_crashes() {
	local manager=$REEVE_MANAGER
	start_worker a --manager "${URL[other]},${URL[manager]}" --concurrency 8
	start_worker b --manager "${URL[manager]},${URL[other]}" --concurrency 8
	start_manager third --lease 2s --heartbeat 500ms
	REEVE_MANAGER=$manager
	start_worker c --manager "${URL[third]},${URL[manager]}" --concurrency 8
	reeve queue set fleet --max-running 3 >/dev/null
	for _ in $(seq 1 500); do echo '{"details":"sleep 0.05","max_attempts":20}'; done |
		reeve submit --bulk - sh --queue fleet >"$DIR/ids"
	ended='sql "select count(*) from task_history where queue = '\''fleet'\''"'
	wait_until 60 "[ \"\$($ended)\" -ge 40 ]"
	expect_exact fleet
	kill_worker c
	wait_until 60 "[ \"\$($ended)\" -ge 80 ]"
	kill_manager third
	wait_until 60 "[ \"\$($ended)\" -ge 140 ]"
	expect_exact fleet
	expect_eq 3 "$(most_at_once fleet)"
	reeve queue set fleet --max-running 6 >/dev/null
	for _ in $(seq 1 8); do reeve submit sh "$HOLD" --queue fleet --priority 1 --max-attempts 20; done >"$DIR/held"
	wait_until 20 '[ "$(sql "select count(*) from tasks where status = '"'executing'"' and priority = 1")" = 6 ]'
	release
	wait_until 60 "[ \"\$($ended)\" -ge 280 ]"
	expect_eq 6 "$(most_at_once fleet)"
	reeve queue set fleet --max-running 1 >/dev/null
	since=$(sql 'select clock_timestamp()')
	enough=$(($(eval "$ended") + 20))
	wait_until 60 "[ \"\$($ended)\" -ge $enough ]"
	before=$(sql 'select clock_timestamp()')
	reeve queue set fleet --max-running 6 >/dev/null
	wait_until 60 "[ \"\$($ended)\" = 508 ]"
	expect_eq 508 "$(sql "select count(*) from task_history where queue = 'fleet' and status = 'completed'")"
	expect_eq 6 "$(most_at_once fleet)"
	expect_eq 1 "$(most_at_once fleet "$since" "$before")"
	wait_until 20 "[ \"\$(sql \"select taken from limits where queue = 'fleet'\")\" = 0 ]"
}

# Workers and programs that have only SQL take permits of one limit, in transactions of any length.
test_programs_with_sql_keep_to_the_limit() {
	start_worker a --queue shared --concurrency 1
	start_worker b --manager "${URL[other]}" --queue shared --concurrency 1
	reeve queue set shared --max-running 3 >/dev/null
	for _ in $(seq 1 200); do echo '{"details":"sleep 0.02"}'; done | reeve submit --bulk - sh --queue shared >"$DIR/ids"
	pids=()
	for n in 1 2 3 4; do
		for _ in $(seq 12); do
			echo "begin; select id, token from reeve.fetch(queues => '{shared}', max_tasks => 1) \\gset t
				select pg_sleep(0.0$n); commit;
				select reeve.complete(:tid, :ttoken); select pg_sleep(0.1);"
		done >"$DIR/program.$n"
		"$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve -f "$DIR/program.$n" >"$DIR/pulled.$n" 2>&1 &
		pids+=($!)
	done
	for limit in 2 3 1 3; do
		sleep 0.5
		reeve queue set shared --max-running $limit >/dev/null
	done
	for pid in "${pids[@]}"; do wait "$pid" || true; done
	reeve wait - <"$DIR/ids" >/dev/null
	expect [ "$(cat "$DIR"/pulled.* | grep -c '^completed')" -gt 0 ]
	expect [ "$(most_at_once shared)" -le 3 ]
	expect_eq '0 200' "$(sql "select taken from limits where queue = 'shared'") $(sql "select count(*) from task_history where queue = 'shared' and status = 'completed'")"
}

# The higher priority goes first, and tasks of all types share the limit.
test_the_order_is_by_priority() {
	reeve queue set order --max-running 1 >/dev/null
	for p in 1 9 5; do reeve submit sh "echo $p" --queue order --priority $p; done >"$DIR/ids"
	reeve submit nothing --queue order --priority 7 >>"$DIR/ids"
	start_worker worker --queue order --concurrency 4
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq '9 7 5 1' "$(sql "select priority from task_history where queue = 'order' order by token" | xargs)"
	expect_eq 1 "$(most_at_once order)"
}

# A queue whose limit is reached holds back neither other queues nor lower priorities, however many tasks it has.
test_other_queues_go_on() {
	start_worker worker --concurrency 4
	reeve queue set big --max-running 1 >/dev/null
	hold=$(reeve submit sh "$HOLD" --queue big --priority 100)
	wait_began "$hold"
	yes '{"priority":50}' 2>/dev/null | head -n 20000 >"$DIR/tasks" || true
	reeve submit --bulk "$DIR/tasks" nothing --queue big >/dev/null
	for _ in 1 2 3 4 5; do reeve submit nothing --queue small --wait --timeout 10s >/dev/null; done
	for _ in $(seq 1 500); do echo '{}'; done | reeve submit --bulk - nothing --queue small --wait --timeout 60s >/dev/null
	expect_eq 1 "$(executing big)"
	reeve queue purge big >/dev/null
	release
	reeve wait "$hold" >/dev/null
}

test_what_is_wrong() {
	expect_fail 2 reeve queue set x --max-running -2
	expect_fail 2 reeve queue set x --max-running 1000001
	reeve queue set gone --max-running 2 >/dev/null
	reeve queue delete gone >/dev/null
	expect_eq 0 "$(sql "select count(*) from limits where queue = 'gone'")"
}

run_tests
