#!/usr/bin/env bash
# What runs when: priorities, delays, first come first served; and that nothing waits behind what nobody can run.
# shellcheck disable=SC1091,SC2016,SC2153
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

# The finished tasks of a queue in the order in which their last attempts began; what is printed of each.
begun() { # QUEUE [COLUMN]
	sql "select ${2:-task_id} from task_history where queue = '$1' order by token"
}

all_done() { # QUEUE
	[ "$(sql "select count(*) from tasks where queue = '$1'")" = 0 ]
}

story_higher_priorities_go_first_and_equal_ones_in_their_order() {
	start_postgres
	start_manager
	for i in $(seq 1 120); do
		echo "{\"priority\":$((i * 7919 % 6 - 3))}"
	done | reeve submit --bulk - nothing --queue q >"$DIR/ids"
	reeve submit nothing --queue q --priority 1000000 >>"$DIR/ids"
	reeve submit nothing --queue q --priority=-1000000 >>"$DIR/ids"
	want=$(sql "select id from tasks where queue = 'q' order by priority desc, id")
	start_worker worker --concurrency 1
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq "$want" "$(begun q)"
}

# Five hundred priorities, each a stream of its own, through a window that holds a hundred tasks.
story_many_priorities_through_a_small_window() {
	start_postgres
	start_manager --window 100
	for i in $(seq 1 1000); do
		echo "{\"priority\":$((i * 7919 % 500))}"
	done | reeve submit --bulk - nothing --queue q >"$DIR/ids"
	want=$(sql "select id from tasks where queue = 'q' order by priority desc, id")
	start_worker worker --concurrency 1
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq "$want" "$(begun q)"
}

# A slot has at most one task in hand when the urgent one comes, and may have been given one more.
story_an_urgent_task_overtakes_a_backlog() {
	start_postgres
	start_manager
	for i in $(seq 1 300); do echo '{}'; done | reeve submit --bulk - nothing --queue q >"$DIR/ids"
	start_worker worker --concurrency 1
	wait_until 20 '[ "$(sql "select count(*) from task_history")" -ge 10 ]'
	urgent=$(reeve submit nothing --queue q --priority 1)
	reeve wait "$urgent" >/dev/null
	expect_eq t "$(sql "select count(*) <= 2 from task_history l join task_history u on u.task_id = $urgent
		where l.token > u.created and l.token < u.token")"
	expect_eq t "$(sql "select count(*) < 300 from task_history where token < (select token from task_history where task_id = $urgent)")"
	reeve wait - <"$DIR/ids" >/dev/null
}

story_delayed_tasks_run_when_they_are_due() {
	start_postgres
	start_manager
	start_worker worker --concurrency 4
	{
		for i in $(seq 1 20); do echo "{\"delay_ms\":$((i * 211 % 20 * 100 + 500))}"; done |
			reeve submit --bulk - nothing --queue q
		reeve submit nothing --queue q --at +1s
		reeve submit nothing --queue q --at "$(date -u -d '+2 seconds' +%FT%T.%NZ)"
		reeve submit nothing --queue q --at "$(TZ=Asia/Tokyo date -d '+2 seconds' +'%F %T.%N%:z')"
	} >"$DIR/ids"
	expect_eq 20 "$(sql "select count(*) from all_tasks where queue = 'q' and run_at - created between '0.5s' and '2.4s'
		and extract(milliseconds from run_at - created)::int % 100 = 0")"
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq '0 t' "$(sql "select count(*) filter (where token < run_at),
		percentile_cont(0.5) within group (order by token - run_at) < '300ms' from task_history" | tr '|' ' ')"
	# Not before, also when it was due in between and the worker was idle for long.
	id=$(reeve submit nothing --delay 3s)
	expect_match 'due in [23]' "$(reeve list --status queued)"
	reeve wait "$id" >/dev/null
	expect_eq t "$(sql "select token - created >= '3s' and token - created < '5s' from task_history where task_id = $id")"
}

story_a_time_in_the_past_is_now() {
	start_postgres
	start_manager
	start_worker
	for at in 1970-01-02 '5m ago' 2020-01-01T00:00:00Z now; do
		id=$(reeve submit nothing --at "$at")
		reeve wait "$id" >/dev/null
		expect_eq t "$(sql "select run_at >= created from task_history where task_id = $id")"
	done
}

# First come is first due: what was submitted later for an earlier time goes first.
story_what_is_due_earlier_goes_first() {
	start_postgres
	start_manager
	a=$(reeve submit nothing --queue q --delay 1500ms)
	b=$(reeve submit nothing --queue q --delay 500ms)
	c=$(reeve submit nothing --queue q --delay 1s)
	d=$(reeve submit nothing --queue q --delay 2s --priority 1)
	wait_until 20 "[ \"\$(sql 'select count(*) from tasks where run_at > clock_timestamp()')\" = 0 ]"
	start_worker worker --concurrency 1
	reeve wait "$a" "$b" "$c" "$d" >/dev/null
	expect_eq "$d $b $c $a" "$(begun q | xargs)"
}

story_priorities_change_while_tasks_wait() {
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

story_due_times_change_while_tasks_wait() {
	start_postgres
	start_manager
	start_worker worker --concurrency 1
	id=$(reeve submit nothing --delay 1h)
	reeve update "$id" --delay 1s >/dev/null
	reeve wait "$id" >/dev/null
	expect_eq t "$(sql "select token - created >= '1s' and token - created < '10s' from task_history where task_id = $id")"
	id=$(reeve submit nothing --delay 2s)
	reeve update "$id" --delay 1h >/dev/null
	expect_fail 1 reeve wait "$id" --timeout 3s
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

# Tasks of high priority that nobody can run fill the window, and more; the others do not notice.
story_what_nobody_can_run_keeps_nobody_waiting() {
	start_postgres
	start_manager --window 100
	start_worker
	{
		for i in $(seq 1 2000); do echo '{"type":"nobody","priority":100}'; done
		for i in $(seq 1 200); do echo "{\"type\":\"nobody $i\",\"queue\":\"nobody $((i % 20))\",\"priority\":$i}"; done
	} | reeve submit --bulk - >/dev/null
	for i in 1 2 3; do
		id=$(reeve submit nothing)
		expect timeout 10 "$REEVE_BIN/reeve" wait "$id" --timeout 5s >/dev/null
	done
	for i in $(seq 1 300); do echo '{}'; done | reeve submit --bulk - nothing --wait >/dev/null
	expect_eq 2200 "$(sql 'select count(*) from tasks')"
	# The same behind filters: a worker for one queue, and all that is in front of it in another.
	for i in $(seq 1 1000); do echo '{"queue":"other","priority":50}'; done | reeve submit --bulk - echo >/dev/null
	stop worker
	start_worker picky --queue mine --type echo
	id=$(reeve submit echo hi --queue mine --priority=-5)
	reeve wait "$id" --timeout 5s >/dev/null
	id=$(reeve submit nothing --queue mine) # not its type
	expect_fail 1 reeve wait "$id" --timeout 500ms
}

# Twenty thousand far-off tasks, and one that is due.
story_far_off_tasks_are_in_nobodys_way() {
	start_postgres
	start_manager --window 100
	yes '{"delay":"30d","priority":9}' 2>/dev/null | head -n 20000 >"$DIR/tasks" || true
	reeve submit --bulk "$DIR/tasks" nothing >/dev/null
	start_worker
	for i in 1 2 3; do
		id=$(reeve submit nothing)
		reeve wait "$id" --timeout 5s >/dev/null
	done
	kill_manager
	start_manager --window 100
	id=$(reeve submit nothing)
	reeve wait "$id" --timeout 10s >/dev/null
	expect_eq 20000 "$(reeve queues --json | jq .delayed)"
	stop worker
}

# Ten queues, four types, five priorities, and workers that serve only some: each task is run, by one who may.
story_workers_take_what_they_serve_and_nothing_else() {
	start_postgres
	start_manager --window 150
	for i in $(seq 1 2000); do
		types=(nothing echo sh sha256)
		echo "{\"queue\":\"q$((i * 13 % 10))\",\"type\":\"${types[$((i * 7 / 3 % 4))]}\",\"priority\":$((i % 5)),\"details\":\"\"}"
	done | reeve submit --bulk - >"$DIR/ids"
	expect_eq 40 "$(sql 'select count(*) from routes')"
	start_worker by_queue --queue q1,q2,q3 --concurrency 4
	start_worker by_type --type echo,sh --concurrency 4
	start_worker by_both --queue q4,q5,q6,q7 --type nothing --concurrency 4
	start_worker one --queue q8,q9,q0 --type sha256,nothing --concurrency 2
	mine="(w.name = 'by_queue' and t.queue in ('q1', 'q2', 'q3') or w.name = 'by_type' and t.type in ('echo', 'sh') or
		w.name = 'by_both' and t.queue in ('q4', 'q5', 'q6', 'q7') and t.type = 'nothing' or
		w.name = 'one' and t.queue in ('q8', 'q9', 'q0') and t.type in ('sha256', 'nothing'))"
	left="queue not in ('q1', 'q2', 'q3') and type not in ('echo', 'sh') and
		not (queue in ('q4', 'q5', 'q6', 'q7') and type = 'nothing') and
		not (queue in ('q8', 'q9', 'q0') and type in ('sha256', 'nothing'))"
	wait_until 60 "[ \"\$(sql \"select count(*) from tasks where not ($left)\")\" = 0 ]"
	expect_eq 0 "$(sql "select count(*) from task_history t join workers w on w.id = t.worker_id where not $mine")"
	expect_eq 4 "$(sql 'select count(distinct worker_id) from task_history')"
	expect_eq 2000 "$(sql "select (select count(*) from tasks where $left) + (select count(*) from task_history where status = 'completed')")"
	expect_no_match '^0$' "$(sql "select count(*) from tasks where $left")"
	start_worker all
	reeve wait - --timeout 60s <"$DIR/ids" >/dev/null
}

# A worker at one manager, submitters at another: what is submitted, changed or due there is run at once here.
story_two_managers_are_one() {
	start_postgres
	start_manager one
	start_worker worker --concurrency 1
	start_manager two
	id=$(reeve submit nothing) # at the second: it was started last
	reeve wait "$id" --timeout 10s >/dev/null
	for i in 1 2 3 4 5; do
		id=$(reeve submit nothing --queue q --delay 300ms)
		reeve wait "$id" --timeout 10s >/dev/null
	done
	expect_eq t "$(sql "select percentile_cont(0.5) within group (order by token - run_at) < '1s' from task_history where queue = 'q'")"
	hold=$(reeve submit sh "$HOLD")
	wait_began "$hold"
	a=$(reeve submit nothing --queue p)
	b=$(reeve submit nothing --queue p --manager "${URL[one]}")
	c=$(reeve submit nothing --queue p)
	reeve update "$c" --priority 9 >/dev/null
	reeve cancel "$b" >/dev/null
	sleep 0.3
	release
	reeve wait "$a" "$c" >/dev/null
	expect_eq "$c $a" "$(sql "select task_id from task_history where queue = 'p' and token is not null order by token" | xargs)"
	running=$(reeve submit sh 'sleep 1000')
	wait_status 10 "$running" executing
	reeve cancel "$running" >/dev/null
	expect_fail 1 reeve wait "$running" --timeout 15s
	expect_eq cancelled "$(field "$running" status)"
}

run_stories
