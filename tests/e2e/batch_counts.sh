#!/usr/bin/env bash
# The counts of batches: exact after cancels and manual retries, with many callers, and while managers die.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/ledger.bash"
. "$(dirname "$0")/batches.bash"

test_tasks_retried_manually_count_again_until_the_batch_has_ended() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve batch open x --queue q --callback-type told --exit nothing)
	a=$(reeve submit sh '[ -e $REEVE_TEST_DIR/good ] || exit 65' --batch "$id")
	b=$(reeve submit sh "$HOLD" --batch "$id")
	expect_fail 1 reeve wait "$a"
	wait_began "$b"
	expect_eq 'open 2 1 0 1' "$(totals "$id")"
	reeve batch close "$id" >/dev/null
	expect_eq 'closed 2 1 0 1' "$(totals "$id")"
	touch "$DIR/good"
	reeve retry "$a" >/dev/null
	reeve wait "$a" >/dev/null
	expect_eq 'closed 2 1 1 0' "$(totals "$id")"
	# A completed task can be retried as well, and counts again.
	reeve retry "$a" >/dev/null
	reeve wait "$a" >/dev/null
	expect_eq 'closed 2 1 1 0' "$(totals "$id")"
	release
	expect reeve batch wait "$id" --max-wait 20s
	expect_eq 'ended 2 0 2 0' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq 4 "$(told task_end | wc -l)" "each end is told"
	# A batch that has ended does not change any more.
	rm "$DIR/good"
	reeve retry "$a" >/dev/null
	expect_fail 1 reeve wait "$a"
	reeve retry "$(batch "$id" exit_id)" >/dev/null
	reeve wait "$(batch "$id" exit_id)" >/dev/null
	expect_eq 'ended 2 0 2 0' "$(totals "$id")"
	expect_eq "1 4 1" "$(told batch_begin | wc -l) $(told task_end | wc -l) $(told batch_end | wc -l)"
	expect_eq dead "$(reeve batch report "$id" --json | jq -r ".tasks[] | select(.id == $a).status")"
}

test_cancelled_tasks_have_failed_also_while_they_are_held() {
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler wait]
		exec = /bin/bash -c "until [ -e $REEVE_TEST_DIR/go ]; do sleep 0.05; done"
	END
	start_postgres
	start_manager
	start_worker
	id=$(reeve batch open x --queue q --entry wait)
	a=$(reeve submit sh 'exit 0' --batch "$id")
	b=$(reeve submit sh 'exit 0' --batch "$id")
	c=$(reeve submit sh "$HOLD" --batch "$id")
	reeve cancel "$a" >/dev/null
	expect_eq 'open 3 2 0 1' "$(totals "$id")"
	# A retried task is blocked again. Neither a retry nor an update lets a task run before the entry task has ended.
	reeve retry "$a" "$b" >/dev/null || true
	reeve update "$b" --delay 0s >/dev/null
	expect_eq 'open 3 3 0 0' "$(totals "$id")"
	expect_eq 3 "$(sql "select count(*) from tasks where run_at = 'infinity' and blocked_run_at is not null")"
	reeve cancel "$b" >/dev/null
	touch "$DIR/go"
	reeve wait "$a" >/dev/null
	wait_began "$c"
	reeve cancel "$c" >/dev/null
	reeve batch close "$id" >/dev/null
	expect_fail 1 reeve batch wait "$id" --max-wait 20s
	expect_eq 'ended 3 0 1 2' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq t "$(sql "select min(t.started) >= e.ended from all_tasks t, all_tasks e where e.type = 'wait' and t.type = 'sh' group by e.ended")"
}

test_thousands_of_tasks_in_bulk_with_two_managers() {
	start_postgres
	start_manager one
	start_manager two
	export REEVE_MANAGER="${URL[one]},${URL[two]}"
	id=$(reeve batch open big --queue q --entry nothing --exit nothing --callback-type told)
	ledger_tasks 1 3000 | reeve submit --bulk - --batch "$id" >"$DIR/ids"
	expect_eq 'open 3000 3000 0 0' "$(totals "$id")"
	reeve batch close "$id" >/dev/null
	start_worker
	start_ledger a --concurrency 16
	start_ledger b --concurrency 16
	expect reeve batch wait "$id" --max-wait 200s
	expect_each_once 3000
	expect_eq 'ended 3000 0 3000 0' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq "1 3000 1" "$(told batch_begin | wc -l) $(told task_end | wc -l) $(told batch_end | wc -l)"
	reeve batch report "$id" --json | jq '.tasks[].id' >"$DIR/reported"
	expect diff <(sort -n "$DIR/ids") "$DIR/reported"
	expect_eq true "$(told batch_end | jq .truncated)"
}

# Everything that locks the batch's row, concurrently: submits, ends of attempts, cancels, manual retries, newer
# versions, steps of the batch.
test_many_callers_use_one_batch() {
	start_postgres
	start_manager one
	start_manager two
	start_worker worker --concurrency 8
	export REEVE_MANAGER="${URL[one]},${URL[two]}"
	local id pids=() i
	id=$(reeve batch open busy --queue q --entry nothing --exit nothing --callback-type told)
	for i in 1 2 3 4; do
		[ $((i % 2)) = 0 ] && url=${URL[one]} || url=${URL[two]}
		(
			for k in $(seq 1 12); do
				for n in $(seq 1 10); do
					printf '{"details":"exit %s","key":"k%s","version":%s}\n' $((n % 3 == 0 ? 65 : 0)) $((RANDOM % 60)) $k
				done | reeve submit sh --bulk - --queue q --batch "$id" --manager "$url" >"$DIR/ids.$i" 2>/dev/null
				sort -u "$DIR/ids.$i" | shuf | head -n 4 | reeve cancel - --manager "$url" >/dev/null 2>&1 || true
				sort -u "$DIR/ids.$i" | shuf | head -n 4 | reeve retry - --manager "$url" >/dev/null 2>&1 || true
			done
		) &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i"; done
	reeve batch close "$id" >/dev/null
	reeve batch wait "$id" --max-wait 60s >/dev/null || true
	expect_eq ended "$(batch "$id" state)"
	expect_consistent "$id"
	expect_eq "$(sql 'select count(*) from keys')" "$(batch "$id" submitted)"
	expect_eq "1 1" "$(told batch_begin | wc -l) $(told batch_end | wc -l)"
	expect_eq "$(batch "$id" submitted)" "$(told task_end | jq .task.id | sort -u | wc -l)"
	# All transactions take their locks in one order.
	expect_eq 0 "$(grep -c 'deadlock detected' "$DIR/log/postgres.log")"
}

# Managers are killed again and again while batches of all kinds begin and end: everything happens once.
test_managers_are_killed_again_and_again() {
	local i pids=() ids=() seed=${REEVE_TEST_SEED:-$RANDOM}
	note "REEVE_TEST_SEED=$seed"
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler entry]
		exec = /bin/true
		[handler exit]
		exec = /bin/true
		[handler bad]
		exec = /bin/bash -c "exit 65"
	END
	start_postgres
	start_manager manager
	set_queue implicit "batches = true, entry_type = 'entry', exit_type = 'exit', callback_type = 'told', callback_url = 'http://127.0.0.1:1/', callback_tasks = true"
	start_manager two
	export REEVE_MANAGER="${URL[manager]},${URL[two]}"
	start_worker worker --concurrency 8
	for i in 1 2 3 4 5 6; do
		(
			for k in 1 2 3; do
				entry=entry
				[ $((i % 3)) != 0 ] || [ $k != 2 ] || entry=bad
				id=$(reeve batch open "b$i.$k" --queue q$i --entry $entry --exit exit --callback-type told --callback http://127.0.0.1:1/ --callback-tasks)
				for n in $(seq 1 15); do printf '{"details":"exit %s"}\n' $((n % 5 == 0 ? 65 : 0)); done >"$DIR/tasks.$i"
				reeve submit sh --bulk "$DIR/tasks.$i" --batch "$id" >/dev/null
				# The batch is closed already if its entry task has failed.
				reeve batch close "$id" >/dev/null || [ $entry = bad ]
				reeve submit --bulk "$DIR/tasks.$i" sh --queue implicit >/dev/null
			done
		) &
		pids+=($!)
	done
	RANDOM=$seed
	kill_managers 12
	export REEVE_MANAGER="${URL[manager]},${URL[two]}"
	for i in "${pids[@]}"; do wait "$i"; done
	wait_until 90 '[ "$(sql "select count(*) from batches where phase <> '"'ended'"'")" = 0 ]'
	expect_consistent
	expect_eq "18 540" "$(sql "select count(*) filter (where not implicit) || ' ' || sum(submitted) from batches")"
	# Each of these happens once: begin, end, entry, exit, and the end of every task.
	sql "select b.id, b.submitted,
			(select count(*) from callbacks c where c.batch_id = b.id and event = 'batch_begin'),
			(select count(*) from callbacks c where c.batch_id = b.id and event = 'batch_end'),
			(select count(*) from callbacks c where c.batch_id = b.id and event = 'task_end'),
			(select count(*) from all_tasks t where t.batch_id = b.id and t.source = 'entry of batch ' || b.id),
			(select count(*) from all_tasks t where t.batch_id = b.id and t.source = 'exit of batch ' || b.id),
			(select count(*) from all_tasks t where t.source = 'callback of batch ' || b.id and details::jsonb ->> 'event' = 'batch_begin'),
			(select count(*) from all_tasks t where t.source = 'callback of batch ' || b.id and details::jsonb ->> 'event' = 'batch_end'),
			(select count(*) from all_tasks t where t.source = 'callback of batch ' || b.id and details::jsonb ->> 'event' = 'task_end')
		from batches b where submitted > 0 order by 1" >"$DIR/counts"
	expect_eq '' "$(awk -F'|' '$3 != 1 || $4 != 1 || $5 != $2 || $6 != 1 || $7 != 1 || $8 != 1 || $9 != 1 || $10 != $2' "$DIR/counts")"
	# Entry tasks run before the first task, exit tasks after the last.
	expect_eq 0 "$(sql "select count(*) from batches b join all_tasks e on e.id = b.entry_id join all_tasks t on t.batch_id = b.id
		where t.id <> e.id and t.started < e.ended")"
	expect_eq 0 "$(sql "select count(*) from batches b join all_tasks e on e.id = b.exit_id join all_tasks t on t.batch_id = b.id
		where t.id <> e.id and t.ended > e.started")"
}

run_tests
