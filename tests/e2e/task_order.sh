#!/usr/bin/env bash
# Hard cases of task order: urgent tasks after a backlog, changes while tasks wait or run, tasks of high priority that
# no worker can run, and two managers. (priorities.sh has the ordinary cases.)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/ledger.bash"

# Prints a column of the ended tasks of a queue, in the order in which their last attempts began.
begun() { # QUEUE [COLUMN]
	sql "select ${2:-task_id} from task_history where queue = '$1' order by token"
}

# The slot has at most one task when the urgent one is submitted, and may already have been assigned one more.
test_an_urgent_task_overtakes_a_backlog() {
	start_postgres
	start_manager
	for i in $(seq 1 300); do echo '{}'; done | reeve submit --bulk - nothing --queue q >"$DIR/ids"
	start_worker worker --concurrency 1
	wait_until 20 '[ "$(sql "select count(*) from task_history")" -ge 10 ]'
	urgent=$(reeve submit nothing --queue q --priority 1)
	known=$(sql 'select clock_timestamp()')
	reeve wait "$urgent" >/dev/null
	expect_eq t "$(sql "select count(*) <= 2 from task_history l join task_history u on u.task_id = $urgent
		where l.token > '$known' and l.token < u.token")"
	expect_eq t "$(sql "select count(*) < 300 from task_history where token < (select token from task_history where task_id = $urgent)")"
	reeve wait - <"$DIR/ids" >/dev/null
}

# The order is that of due times: a task that was submitted later for an earlier time runs first.
test_what_is_due_earlier_goes_first() {
	start_postgres
	start_manager
	base=$(date +%s)
	at() { # SECONDS after the beginning
		date -u -d "@$((base + $1))" +%Y-%m-%dT%H:%M:%SZ
	}
	a=$(reeve submit nothing --queue q --at "$(at 6)")
	b=$(reeve submit nothing --queue q --at "$(at 4)")
	c=$(reeve submit nothing --queue q --at "$(at 5)")
	d=$(reeve submit nothing --queue q --at "$(at 7)" --priority 1)
	wait_until 20 "[ \"\$(sql 'select count(*) from tasks where run_at > clock_timestamp()')\" = 0 ]"
	start_worker worker --concurrency 1
	reeve wait "$a" "$b" "$c" "$d" >/dev/null
	expect_eq "$d $b $c $a" "$(begun q | xargs)"
}

test_priorities_change_while_tasks_wait() {
	start_postgres
	start_manager
	start_worker worker --concurrency 1
	hold=$(reeve submit sh "$HOLD")
	wait_began "$hold"
	a=$(reeve submit nothing --queue q)
	b=$(reeve submit nothing --queue q --priority 5)
	c=$(reeve submit nothing --queue q)
	d=$(reeve submit nothing --queue q --delay 1h --priority 100)
	reeve update "$c" "$d" --priority 10 >/dev/null
	reeve update "$b" --priority=-1 >/dev/null
	reeve update "$d" --at now >/dev/null
	reeve update "$hold" --priority 7 >/dev/null
	release
	reeve wait "$a" "$b" "$c" "$d" "$hold" >/dev/null
	expect_eq "$c $d $a $b" "$(begun q | xargs)"
	expect_eq 'priority 0 -> 10' "$(event_field "$c" updated note)"
	expect_match '.@.' "$(event_field "$c" updated actor)"
	expect_eq 'submitted updated claimed completed' "$(events "$b")"
	expect_eq 'submitted claimed updated completed' "$(events "$hold")"
	expect_eq 7 "$(field "$hold" priority)"
	expect_eq 1 "$(field "$hold" attempt)" # the attempt was left alone
	expect_fail 4 reeve update "$a" --priority 1
	expect_match 'it has ended' "$OUTPUT"
}

test_due_times_change_while_tasks_wait() {
	start_postgres
	start_manager
	start_worker worker --concurrency 1
	later=$(reeve submit nothing --delay 5s)
	reeve update "$later" --delay 1h >/dev/null
	id=$(reeve submit nothing --delay 1h)
	reeve update "$id" --delay 1s >/dev/null
	reeve wait "$id" >/dev/null
	expect_eq t "$(sql "select token - created >= '1s' and token - created < '10s' from task_history where task_id = $id")"
	id=$later
	wait_until 10 "[ \"\$(sql \"select clock_timestamp() > created + interval '6s' from tasks where id = $id\")\" = t ]"
	expect_eq queued "$(field "$id" status)"
	reeve retry "$id" >/dev/null
	reeve wait "$id" >/dev/null
	hold=$(reeve submit sh "$HOLD")
	wait_began "$hold"
	expect_fail 4 reeve update "$hold" --delay 1h
	expect_match 'executing' "$OUTPUT"
	release
	reeve wait "$hold" >/dev/null
}

# Tasks of high priority that no worker can run are more than the ready cache holds; the other tasks are not delayed.
test_tasks_without_a_worker_delay_no_other() {
	start_postgres
	start_manager --ready-cache 100
	start_worker
	{
		for i in $(seq 1 2000); do echo '{"type":"nobody","priority":100}'; done
		for i in $(seq 1 200); do echo "{\"type\":\"nobody $i\",\"queue\":\"nobody $((i % 20))\",\"priority\":$i}"; done
	} | reeve submit --bulk - >/dev/null
	for i in 1 2 3; do
		id=$(reeve submit nothing)
		expect timeout 10 "$REEVE_BIN/reeve" wait "$id" --max-wait 5s >/dev/null
	done
	for i in $(seq 1 300); do echo '{}'; done | reeve submit --bulk - nothing --wait >/dev/null
	expect_eq 2200 "$(sql 'select count(*) from tasks')"
	# The same with filters: a worker takes one queue, and all tasks of higher priority are in another.
	for i in $(seq 1 1000); do echo '{"queue":"other","priority":50}'; done | reeve submit --bulk - echo >/dev/null
	stop worker
	start_worker picky --queue mine --type echo
	id=$(reeve submit echo hi --queue mine --priority=-5)
	reeve wait "$id" --max-wait 5s >/dev/null
	id=$(reeve submit nothing --queue mine) # not its type
	expect_fail 1 reeve wait "$id" --max-wait 500ms
}

# Twenty thousand tasks are due in 30 days, and one is due now.
test_far_off_tasks_delay_no_other() {
	start_postgres
	start_manager --ready-cache 100
	yes '{"delay":"30d","priority":9}' 2>/dev/null | head -n 20000 >"$DIR/tasks" || true
	reeve submit --bulk "$DIR/tasks" nothing >/dev/null
	start_worker
	for i in 1 2 3; do
		id=$(reeve submit nothing)
		reeve wait "$id" --max-wait 5s >/dev/null
	done
	kill_manager
	start_manager --ready-cache 100
	id=$(reeve submit nothing)
	reeve wait "$id" --max-wait 10s >/dev/null
	expect_eq 20000 "$(reeve queue list --json | jq .delayed)"
	stop worker
}

# They all start when they are due, and not before.
test_two_thousand_are_due_at_one_time() {
	local due
	start_postgres
	start_manager
	start_ledger worker --concurrency 8
	ledger_tasks 1 2000 | reeve submit --bulk - --delay 1h >/dev/null
	stop manager
	due=$(sql "select date_trunc('second', clock_timestamp()) + interval '6 s'")
	sql "update tasks set run_at = '$due'"
	start_manager
	await_history 60 2000
	expect_each_once 2000
	expect_eq '2000 t' "$(sql "select count(*), min(token) >= '$due' from task_history where run_at = '$due'" | tr '|' ' ')"
}

# A manager learns of a type from its own submit, after another manager has created an older type: it overlooks neither.
test_new_types_at_three_managers_are_run_at_once() {
	start_postgres
	start_manager one
	start_manager three
	start_manager two
	handlers < <(for i in $(seq 1 12); do printf '[handler %s_%d]\nexec = /bin/true\n' one "$i" two "$i" three "$i"; done)
	start_worker worker --manager "${URL[two]}" --concurrency 4
	for i in $(seq 1 12); do
		reeve submit one_$i --manager "${URL[one]}" >>"$DIR/ids.one" &
		pids=$!
		reeve submit three_$i --manager "${URL[three]}" >>"$DIR/ids.three"
		reeve submit two_$i --manager "${URL[two]}" >>"$DIR/ids.two"
		wait "$pids"
	done
	expect_eq 36 "$(cat "$DIR"/ids.* | wc -l)"
	wait_until 30 '[ "$(sql "select count(*) from task_history")" = 36 ]'
	expect_eq t "$(sql "select max(token - created) < '20s' from task_history")"
}

# A worker is at one manager, submitters are at another: tasks that are submitted, changed or due there run at once
# here.
test_two_managers_are_one() {
	start_postgres
	start_manager one
	start_worker worker --concurrency 1
	start_worker marker --type echo
	start_manager two
	id=$(reeve submit nothing) # at the second: it was started last
	reeve wait "$id" --max-wait 10s >/dev/null
	for i in 1 2 3 4 5; do
		id=$(reeve submit nothing --queue q --delay 300ms)
		reeve wait "$id" --max-wait 10s >/dev/null
	done
	expect_eq t "$(sql "select percentile_cont(0.5) within group (order by token - run_at) < '5s' from task_history where queue = 'q'")"
	hold=$(reeve submit sh "$HOLD")
	wait_began "$hold"
	a=$(reeve submit nothing --queue p)
	b=$(reeve submit nothing --queue p --manager "${URL[one]}")
	c=$(reeve submit nothing --queue p)
	reeve update "$c" --priority 9 >/dev/null
	reeve cancel "$b" >/dev/null
	reeve submit echo --queue p2 --wait # the other has read what came before
	release
	reeve wait "$a" "$c" >/dev/null
	expect_eq "$c $a" "$(sql "select task_id from task_history where queue = 'p' and token is not null order by token" | xargs)"
	running=$(reeve submit sh 'sleep 1000')
	wait_status 10 "$running" executing
	reeve cancel "$running" >/dev/null
	expect_fail 1 reeve wait "$running" --max-wait 15s
	expect_eq cancelled "$(field "$running" status)"
}

run_tests
