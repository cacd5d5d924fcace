#!/usr/bin/env bash
# Entry, exit and callback tasks of batches: each runs once, and at its time.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/batches.bash"

test_entry_and_exit_tasks_run_once_before_the_first_and_after_the_last() {
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler prepare]
		exec = /bin/bash -c "cat >> $REEVE_TEST_DIR/prepared; until [ -e $REEVE_TEST_DIR/go ]; do sleep 0.05; done; echo begin >> $REEVE_TEST_DIR/log.txt"
		[handler finish]
		exec = /bin/bash -c "cat >> $REEVE_TEST_DIR/finished; echo end >> $REEVE_TEST_DIR/log.txt"
	END
	start_postgres
	start_manager
	start_worker worker --concurrency 8
	id=$(reeve batch open both --queue q --entry prepare --exit finish)
	for i in $(seq 1 20); do echo "{\"details\":\"echo $i >> \$REEVE_TEST_DIR/log.txt\"}"; done >"$DIR/tasks"
	reeve submit sh --bulk "$DIR/tasks" --batch "$id" >"$DIR/ids"
	late=$(reeve submit sh 'echo late >> $REEVE_TEST_DIR/log.txt' --batch "$id" --delay 1500ms)
	expect_eq 'open 21 21 0 0' "$(totals "$id")"
	due=$(sql "select blocked_run_at from tasks where id = $late")
	touch "$DIR/go"
	reeve batch close "$id" >/dev/null
	expect reeve batch wait "$id" --max-wait 30s
	expect_eq 'ended 21 0 21 0' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq 23 "$(wc -l <"$DIR/log.txt")"
	expect_eq 'begin end' "$(sed -n '1p;$p' "$DIR/log.txt" | xargs)"
	expect_eq 1 "$(grep -cx late "$DIR/log.txt")"
	expect_eq "completed completed" "$(batch "$id" entry_status exit_status)"
	expect_eq "batch_entry $id both q" "$(jq -r '[.event, .batch_id, .batch, .queue] | join(" ")' "$DIR/prepared")"
	expect_eq "batch_exit $id 21 21 0" "$(jq -r '[.event, .batch_id, .submitted, .completed, .failed] | join(" ")' "$DIR/finished")"
	# Entry and exit tasks have the batch's id, but are not counted in it.
	expect_eq "$id prepare $id finish" "$(sql "select batch_id, type from all_tasks where type <> 'sh' order by id" | tr '|' ' ' | xargs)"
	expect_eq 21 "$(reeve batch report "$id" --json | jq '.tasks | length')"
	expect_eq t "$(sql "select e.ended <= min(t.started) from all_tasks e, all_tasks t where e.type = 'prepare' and t.type = 'sh' group by e.ended")"
	expect_eq t "$(sql "select x.started >= max(t.ended) from all_tasks x, all_tasks t where x.type = 'finish' and t.type = 'sh' group by x.started")"
	expect_eq '00:00:01.5|t' "$(sql "select timestamptz '$due' - created, started >= '$due' from all_tasks where id = $late")"
}

test_a_newer_version_of_a_running_task_waits_for_the_entry_task() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve submit sh "$HOLD" --queue q --key k --key-version 1)
	wait_began "$id"
	batch=$(reeve batch open late --queue q --entry prepare)
	expect_eq "$id" "$(reeve submit sh 'printf newer' --queue q --key k --key-version 2 --batch "$batch" 2>/dev/null)"
	release
	wait_event 20 "$id" restarted
	expect_eq 'queued infinity entry' "$(sql "select t.status, t.run_at, b.phase from tasks t join batches b on b.id = t.batch_id where t.id = $id" | tr '|' ' ')"
	expect_eq '0 1 0' "$(reeve stats --json | jq -r '"\(.executing) \(.delayed) \(.completed)"')"
	sql "select reeve.complete(id, token) from reeve.fetch(types => '{prepare}')" >/dev/null
	expect reeve wait "$id" --max-wait 20s
	expect_eq 'completed newer' "$(field "$id" status) $(field "$id" result)"
	reeve batch close "$batch" >/dev/null
	wait_batch 20 "$batch"
	expect_eq 'ended 1 0 1 0' "$(totals "$batch")"
	expect_consistent "$batch"
}

test_an_entry_task_that_fails_ends_the_batch() {
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler broken]
		exec = /bin/bash -c "echo no disk >&2; exit 65"
		[handler finish]
		exec = /bin/cat
	END
	start_postgres
	start_manager
	id=$(reeve batch open bad --queue q --entry broken --exit finish)
	for i in $(seq 1 2500); do echo '{"details":"exit 0"}'; done | reeve submit sh --bulk - --batch "$id" >"$DIR/ids"
	delayed=$(reeve submit sh 'exit 0' --batch "$id" --delay 1h)
	expect_eq 2501 "$(sql "select count(*) from tasks where run_at = 'infinity'")"
	reeve wait "$delayed" 2>"$DIR/waited" &
	waiter=$!
	start_worker
	# The failure of the entry task closed the batch.
	wait_batch 30 "$id"
	expect_eq 'ended 2501 0 0 2501' "$(totals "$id")"
	expect_consistent "$id"
	status=0
	wait $waiter || status=$?
	expect_eq 1 $status
	expect_eq "2501|entry_failed|the entry task $(batch "$id" entry_id) of batch $id ended dead" \
		"$(sql "select count(*), error_code, last_error from task_history where status = 'dead' and type = 'sh' group by 2, 3")"
	expect_eq 'dead completed' "$(batch "$id" entry_status exit_status)"
	expect_eq 'submitted discard_requested dead' "$(events "$delayed")"
	expect_fail 4 reeve submit sh --batch "$id"
	expect_match "batch $id was closed at [-0-9]+T[:.0-9]+Z: its entry task [0-9]+ ended dead" "$OUTPUT"
	expect_fail 4 reeve batch close "$id"
	# A cancelled entry task fails the batch, too.
	stop worker
	id=$(reeve batch open worse --queue q --entry broken)
	task=$(reeve submit sh 'exit 0' --batch "$id")
	reeve cancel "$(batch "$id" entry_id)" >/dev/null
	wait_batch 10 "$id"
	expect_eq 'dead entry_failed cancelled' "$(field "$task" status) $(field "$task" error_code) $(batch "$id" entry_status)"
}

test_callback_tasks_report_the_begin_each_task_and_the_end() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve batch open told --queue q --callback-type told --entry nothing --exit nothing --callback http://127.0.0.1:1/x --callback-tasks)
	a=$(reeve submit echo one --batch "$id")
	b=$(reeve submit sh 'echo bad >&2; exit 65' --batch "$id")
	c=$(reeve submit sh --batch "$id" --delay 1h)
	expect_eq "batch_begin $id told q new" "$(told | jq -r '[.event, .batch.id, .batch.name, .batch.queue, .batch.phase] | join(" ")' | sed 's/entry/new/')"
	expect_fail 1 reeve wait "$a" "$b"
	reeve cancel "$c" >/dev/null
	reeve batch close "$id" >/dev/null
	expect_fail 1 reeve batch wait "$id" --max-wait 20s
	expect_eq 'batch_begin batch_end' "$(told | jq -r .event | sed -n '1p;$p' | xargs)"
	expect_eq 5 "$(told | wc -l)"
	told task_end | jq -c .task >"$DIR/ends"
	expect_eq "$(sql "select details from all_tasks where id = $a")" "$(jq -r "select(.id == $a).details" "$DIR/ends")"
	expect_eq "$(sql "select result from all_tasks where id = $a")" "$(jq -r "select(.id == $a).result" "$DIR/ends")"
	expect_eq 'worker true true true' "$(told task_end | jq -r "select(.task.id == $a).worker |
		[.name, (.registered | length > 20), (.uptime_ms > 0), (.completed + .failed >= 0)] | join(\" \")")"
	expect_eq "$(told batch_end | jq -c '[.tasks[] | select(.status == "completed").id]')" "$(told batch_end | jq -c .completed)"
	expect_eq "$(told batch_end | jq -c '[.tasks[] | select(.status != "completed").id]')" "$(told batch_end | jq -c .failed)"
	expect_eq "$a completed worker" "$(jq -r "select(.id == $a) | [.id, .status, .worker] | join(\" \")" "$DIR/ends")"
	expect_eq "$b dead exit:65 bad" "$(jq -r "select(.id == $b) | [.id, .status, .error_code, .last_error] | join(\" \")" "$DIR/ends")"
	expect_eq "$c cancelled" "$(jq -r "select(.id == $c) | [.id, .status] | join(\" \")" "$DIR/ends")"
	expect_eq "ended 3 1 2 $a,$b,$c" "$(told batch_end | jq -r '[.batch.state, .batch.submitted, .batch.completed, .batch.failed,
		([.tasks[].id] | map(tostring) | join(","))] | join(" ")')"
	# The HTTP callbacks have the same events and payloads.
	expect_eq "batch_begin task_end task_end task_end batch_end" "$(sql "select event from callbacks order by id" | xargs)"
	expect_eq "$(told task_end | sort)" "$(sql "select payload from callbacks where event = 'task_end'" | jq -c . | sort)"
}

test_an_empty_batch_ends_without_callbacks() {
	start_postgres
	start_manager
	id=$(reeve batch open empty --queue q --callback-type told --entry nothing --exit nothing --callback http://127.0.0.1:1/)
	reeve batch close "$id" >/dev/null
	expect reeve batch wait "$id" --max-wait 10s
	expect_eq 'ended 0 0 0 0' "$(totals "$id")"
	expect_eq 0 "$(sql 'select (select count(*) from all_tasks) + (select count(*) from callbacks)')"
	expect_eq '[]' "$(reeve batch report "$id" --json | jq -c .tasks)"
	expect_eq null "$(reeve batch report "$id" --json | jq -c .batch.started)"
}

# The types of entry, exit and callback tasks may be new to every manager. The tasks still start at once.
# measures time
test_submitted_by_the_manager_itself_they_do_not_wait() {
	for i in sh entry{1..5} exit{1..5}; do printf '[handler %s]\nexec = /bin/true\n' "$i"; done | handlers
	start_postgres
	start_manager one
	start_manager two
	start_worker worker --concurrency 4
	for i in 1 2 3 4 5; do
		id=$(reeve batch open "b$i" --queue q --entry "entry$i" --exit "exit$i")
		reeve submit sh 'exit 0' --batch "$id" >/dev/null
		reeve batch close "$id" >/dev/null
		expect reeve batch wait "$id" --max-wait 20s
	done
	# The time from each step's cause to its claim, in ms: entry task, first task, exit task. Without notifications each
	# would be a second.
	sql "select round(1000 * extract(epoch from s.started - s.created)) from all_tasks s where type <> 'sh'
		union all select round(1000 * extract(epoch from t.started - e.ended)) from all_tasks t
			join batches b on b.id = t.batch_id join all_tasks e on e.id = b.entry_id where t.type = 'sh'" >"$DIR/waited"
	note "ms: $(sort -n "$DIR/waited" | xargs)"
	expect [ "$(sort -n "$DIR/waited" | sed -n 8p)" -lt 400 ]
}

run_tests
