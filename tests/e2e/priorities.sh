#!/usr/bin/env bash
# Which task runs next: by priority, then in the order of submission, and not before its due time; and each worker takes
# only tasks that it serves.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager

# Sets the handlers. Each task of these tests appends its label to the test's file `order`; `one` and `two` do the same.
types() {
	handlers <<-END
		[handler one]
		exec = /bin/bash
		[handler two]
		exec = /bin/bash
		[handler nothing]
		exec = /bin/true
	END
}

label() { # TEXT: the details of a task with that label
	printf 'echo "%s" >>"$REEVE_TEST_DIR/order"' "$1"
}

line() { # TYPE QUEUE PRIORITY LABEL: a line for a bulk file
	jq -nc --arg type "$1" --arg queue "$2" --argjson priority "$3" --arg details "$(label "$4")" '$ARGS.named'
}

# Starts a worker whose only slot runs a task until `release`, so that all later tasks wait in the manager's memory.
busy_worker() { # QUEUE
	types
	start_worker "busy-$1" --concurrency 1 --queue "$1"
	held=$(reeve submit one "$HOLD" --queue "$1" --priority 1000)
	wait_began "$held"
}

history_of() { # QUEUE COUNT: waits until so many of its tasks have ended, all well
	wait_until 60 "[ \"\$(sql \"select count(*) from task_history where queue = '$1'\")\" = $2 ]"
	expect_eq "$2" "$(sql "select count(*) from task_history where queue = '$1' and status = 'completed' and attempt = 1")"
}

test_higher_priorities_go_first_and_equal_ones_first_come() {
	local priorities=(0 -1 7 -1000000 1 1000000 -5) n p
	for n in $(seq 1 42); do
		p=${priorities[n * 5 % 7]}
		line one order "$p" "$p $n"
	done >"$DIR/tasks"
	head -n 20 "$DIR/tasks" | reeve submit --bulk - >"$DIR/ids"
	tail -n +21 "$DIR/tasks" | reeve submit --bulk - >>"$DIR/ids"
	for p in 7 0 -5 7 0 -5; do # and each by a call of its own
		n=$((n + 1))
		reeve submit one "$(label "$p $n")" --queue order --priority "$p" >>"$DIR/ids"
	done
	types
	start_worker order --concurrency 1 --queue order
	reeve wait - <"$DIR/ids" >/dev/null
	sort -k1,1nr -k2,2n "$DIR/order" >"$DIR/want"
	expect_eq 48 "$(wc -l <"$DIR/want")"
	expect diff "$DIR/want" "$DIR/order"
	expect_eq "$(cut -d' ' -f1 "$DIR/order")" "$(sql "select priority from task_history where queue = 'order' order by started")"
}

test_a_higher_priority_goes_first_whatever_its_type_and_queue() {
	for n in $(seq 1 10); do
		line one 'across 1' $((n * 3 % 10)) "$((n * 3 % 10))"
		line two 'across 1' $((n * 7 % 10)) "$((n * 7 % 10))"
		line one 'across 2' $((n * 9 % 10)) "$((n * 9 % 10))"
	done | reeve submit --bulk - >"$DIR/ids"
	types
	start_worker across --concurrency 1 --queue 'across 1,across 2'
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 30 "$(wc -l <"$DIR/order")"
	expect sort -nrc "$DIR/order"
}

test_priorities_have_bounds() {
	for p in 1000001 -1000001 99999999999 1.5 high ''; do
		expect_fail 2 reeve submit nothing --queue bounds --priority "$p"
	done
	expect_eq 0 "$(sql "select count(*) from all_tasks where queue = 'bounds'")"
	for p in 1000000 -1000000; do
		id=$(reeve submit nothing --queue bounds --delay 1h --priority=$p)
		expect_eq $p "$(field "$id" priority)"
	done
}

# First with tasks that no manager has read for a worker yet, then with tasks that wait in memory while another one
# runs.
test_a_priority_changed_in_the_queue_changes_the_order() {
	submit_letters() {
		for letter in a b c d e; do ids[$letter]=$(reeve submit one "$(label $letter)" --queue changed); done
	}
	change_order() {
		reeve update "${ids[d]}" --priority 5 >/dev/null
		reeve update "${ids[a]}" --priority -1 >/dev/null
		expect_eq 5 "$(field "${ids[d]}" priority)"
		expect_eq 'submitted updated' "$(events "${ids[d]}")"
	}
	local -A ids
	submit_letters
	change_order
	types
	start_worker busy --concurrency 1 --queue changed
	reeve wait "${ids[@]}" >/dev/null
	expect_eq 'd b c e a' "$(xargs <"$DIR/order")"
	stop busy
	rm "$DIR/order"
	busy_worker changed
	submit_letters
	change_order
	release
	reeve wait "${ids[@]}" >/dev/null
	expect_eq 'd b c e a' "$(xargs <"$DIR/order")"
}

test_a_late_comer_of_a_higher_priority_overtakes() {
	busy_worker overtake
	line one overtake 0 low | reeve submit --bulk - >"$DIR/ids"
	line two overtake -3 lowest | reeve submit --bulk - >>"$DIR/ids"
	line two overtake 3 high | reeve submit --bulk - >>"$DIR/ids"
	release
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 'high low lowest' "$(xargs <"$DIR/order")"
}

# Compares only times of the database: the submit, the due time, and the start of the attempt.
test_a_task_starts_at_its_time_and_not_before() {
	types
	start_worker idle --concurrency 4 --queue times
	for delay in 300ms 700ms 1s 1500ms 2s; do
		reeve submit nothing --queue times --source "$delay" --delay "$delay"
	done >"$DIR/ids"
	at=$(date -u -d '3 seconds' +%Y-%m-%dT%H:%M:%SZ)
	reeve submit nothing --queue times --at "$at" --source "$at" >>"$DIR/ids"
	reeve submit nothing --queue times --at +1s --source about >>"$DIR/ids"
	reeve submit nothing --queue times --at 2001-01-01T00:00:00Z --source past >>"$DIR/ids"
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 8 "$(sql "select count(*) from task_history where queue = 'times' and attempt = 1")"
	expect_eq '' "$(sql "select source, started - run_at from task_history where queue = 'times' and started < run_at")" 'too early'
	expect_eq '' "$(sql "select source, started - run_at from task_history where queue = 'times'
		and started > run_at + interval '10s'")" 'too late'
	expect_eq 5 "$(sql "select count(*) from task_history where queue = 'times' and source ~ '^[0-9]+m?s$'
		and run_at = created + source::interval")"
	expect_eq t "$(sql "select run_at = greatest('$at', created) from task_history where queue = 'times' and source = '$at'")"
	expect_eq t "$(sql "select run_at - created between '-1s' and '10s' from task_history where queue = 'times' and source = 'about'")"
	expect_eq t "$(sql "select run_at = created from task_history where queue = 'times' and source = 'past'")"
}

test_a_delayed_task_is_created_due_manually() {
	types
	start_worker hand --concurrency 2 --queue hand
	now=$(reeve submit nothing --queue hand --delay 1h)
	soon=$(reeve submit nothing --queue hand --delay 1h)
	later=$(reeve submit nothing --queue hand --delay 1m)
	reeve update "$later" --delay 1h >/dev/null
	expect_eq 'queued 0' "$(reeve show "$now" --json | jq -r '"\(.status) \(.attempt)"')"
	reeve update "$soon" --delay 1s >/dev/null
	reeve retry "$now" >/dev/null
	reeve wait "$now" "$soon" >/dev/null
	expect_eq 'submitted retried claimed completed' "$(events "$now")"
	expect_eq 'submitted updated claimed completed' "$(events "$soon")"
	expect_eq '' "$(sql "select task_id, started - run_at from task_history where queue = 'hand'
		and not started - run_at between '0s' and '10s'")"
	expect_eq t "$(sql "select started < created + interval '30s' from task_history where task_id = $now")"
	wait_until 10 "[ \"\$(sql \"select clock_timestamp() > created + interval '6s' from tasks where id = $later\")\" = t ]"
	expect_eq 'submitted updated' "$(events "$later")"
	expect_eq 'queued 0' "$(reeve show "$later" --json | jq -r '"\(.status) \(.attempt)"')"
}

# A task that is not due delays no other task, however high its priority; once it is due, it goes first.
test_tasks_that_are_not_due_delay_no_other() {
	types
	far=$(reeve submit one "$(label far)" --queue far --delay 1h --priority 100)
	near=$(reeve submit one "$(label near)" --queue far)
	start_worker far --concurrency 1 --queue far
	reeve wait "$near" >/dev/null
	stop far
	busy_worker far
	low=$(reeve submit one "$(label low)" --queue far)
	reeve retry "$far" >/dev/null
	release
	reeve wait "$far" "$low" >/dev/null
	expect_eq 'near far low' "$(xargs <"$DIR/order")"
}

# Tasks that a worker does not serve have higher priorities and were submitted first; still they neither delay its tasks
# nor are taken by it.
test_workers_take_only_what_they_serve() {
	types
	local queue type
	for queue in left right else; do
		for type in one two; do
			p=0
			case $queue-$type in left-one | right-one) p=-10 ;; esac
			for i in 1 2 3 4 5; do line $type $queue $p "$queue $type"; done
		done
	done >"$DIR/tasks"
	tac "$DIR/tasks" | reeve submit --bulk - >"$DIR/ids"
	start_worker narrow --concurrency 2 --queue left,right --type one
	wait_until 30 "[ \"\$(wc -l <$DIR/order)\" = 10 ]"
	wait_until 30 '[ "$(sql "select count(*) from task_history where queue in ('"'left', 'right', 'else'"')")" = 10 ]'
	sleep 1
	expect_eq $'left one\nright one' "$(sort -u "$DIR/order")"
	expect_eq 20 "$(sql "select count(*) from tasks where queue in ('left', 'right', 'else') and status = 'queued' and attempt = 0")"
	# An idle worker leaves tasks that it does not serve to a worker that serves them.
	start_worker other --concurrency 2 --queue else
	history_of else 10
	expect_eq 'other' "$(sql "select distinct w.name from task_history h join workers w on w.id = h.worker_id where queue = 'else'")"
	# While `narrow` has more tasks than it can run, tasks of the other type are completed.
	busy=$(line one left 1000 busy)
	for i in $(seq 1 200); do echo "$busy"; done | reeve submit --bulk - >/dev/null
	start_worker two --concurrency 1 --type two --queue left,right
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 30 "$(grep -vc busy "$DIR/order")"
	expect_eq 'narrow|one
two|two' "$(sql "select distinct w.name, h.type from task_history h join workers w on w.id = h.worker_id
		where queue in ('left', 'right') order by 1")"
	history_of left 210
}

# There are more streams than tasks that the manager keeps in memory: it reads them in parts, and still in order.
test_hundreds_of_priorities_in_several_queues_all_get_done() {
	stop manager # with several the order is exact only within each one's share
	start_manager manager --ready-cache 100
	types
	for n in $(seq 1 200); do
		p=$((n * 77 % 200 * 1000 - 100000))
		printf '{"queue":"many 1","priority":%d}\n' $p
		[ $n -gt 100 ] || printf '{"queue":"many 2","priority":%d}\n{"queue":"many 3","priority":%d}\n' $p $((p + 1))
	done | reeve submit --bulk - nothing >"$DIR/ids"
	expect_eq 200 "$(sql "select count(distinct priority) from tasks where queue = 'many 1'")"
	start_worker many --concurrency 1 --queue 'many 1,many 2,many 3'
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 400 "$(sql "select count(*) from task_history where queue like 'many _' and status = 'completed' and attempt = 1")"
	expect_eq '' "$(sql "select * from (select queue, priority, lag(priority) over (partition by queue order by started) as before
		from task_history where queue like 'many _') x where priority > before")" 'out of order'
	# And with many slots.
	start_worker more --concurrency 8 --queue 'many 1,many 2,many 3'
	for n in $(seq 1 600); do
		printf '{"queue":"many %d","priority":%d}\n' $((n % 3 + 1)) $((n * 7 % 200))
	done | reeve submit --bulk - nothing >"$DIR/ids"
	reeve wait - <"$DIR/ids" >/dev/null
	expect_eq 0 "$(sql "select count(*) from tasks where queue like 'many _'")"
}

streams() { # the number of streams in the manager's memory
	reeve stats --json | jq '.counters[] | select(.name == "ready_cache_streams").value'
}

# One task of each of 20,000 priorities. After a restart the manager starts tasks of others at once, and keeps the highest
# priorities when they are wanted.
# measures time
test_many_invented_priorities_delay_no_other() {
	types
	seq 1 20000 | awk '{ printf "{\"queue\":\"invented\",\"priority\":%d}\n", $1 * 77 % 20000 }' |
		reeve submit --bulk - nothing >/dev/null
	expect [ "$(streams)" -lt 100 ]
	stop manager
	start_manager
	start_worker other --concurrency 1 --queue other
	reeve submit nothing --queue other --wait
	expect [ "$(streams)" -lt 100 ]
	start_worker invented --concurrency 1 --queue invented
	wait_until 60 "[ \"\$(sql \"select count(*) from task_history where queue = 'invented'\")\" -ge 100 ]"
	expect [ "$(streams)" -le 2200 ]
	expect_eq '' "$(sql "select * from (select priority, lag(priority) over (order by started, priority desc) as before
		from task_history where queue = 'invented') x where priority > before")" 'out of order'
}

run_tests
