#!/usr/bin/env bash
# The archive: ended tasks are written to files before they are removed, once each, whatever fails.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/retention.bash"
. "$(dirname "$0")/locks.bash"

fill() { # DAYS TASKS [BYTES]: so many tasks, made up, whose day was so many days ago; some with attempts and events
	sql "set role reeve; select make_history_partitions((clock_timestamp() at time zone 'UTC')::date - $1, 1);
		with made as (
			insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
				timeout_ms, retry_base_ms, retry_max_ms, by_report, source, created, last_updated)
			select (clock_timestamp() at time zone 'UTC')::date - $1, nextval('tasks_id_seq'), 1, 0, 'made', 'up', repeat('é', ${3:-10}),
				'completed', now(), 2, 5, 1, 1, 1, true, '', now(), now() from generate_series(1, $2) returning task_id),
		tried as (
			insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated)
			select task_id, now(), 1, 'failed', 'failed', true, now() from made where task_id % 3 = 0)
		insert into task_events (task_id, version, event, note) select task_id, now(), 'noted', 'a \"note\"' from made where task_id % 5 = 0" >/dev/null
}

archived() { # prints the ids in the archive's files that have their names
	find "$DIR/archive" -name 'task_history_*.jsonl' -exec cat {} + | jq -r .task_id | sort -n
}

test_what_goes_is_written_to_a_file_before() {
	start_postgres
	start_manager
	start_worker
	end_some default
	stop worker
	ids=$(printf '%s\n' "${ID[@]}" | sort -n)
	want=$(sql "select count(*) from task_events")
	is_over 2 true
	day=$(day 2)
	stop manager
	mkdir "$DIR/archive"
	start_manager manager --archive "$DIR/archive"
	all_gone
	file=$DIR/archive/task_history_$day.jsonl
	expect_eq "$file" "$(find "$DIR/archive" -type f)"
	expect_eq "$ids" "$(jq -r .task_id "$file")"
	expect_eq "done completed 1" "$(jq -r "select(.task_id == ${ID[default completed]}) | \"\(.result) \(.status) \(.attempt)\"" "$file")"
	expect_eq "exit:3: bad failed 1" \
		"$(jq -r "select(.task_id == ${ID[default dead]}) | .attempts[] | \"\(.error_code): \(.error) \(.outcome) \(.attempt)\"" "$file")"
	expect_eq cancel_requested "$(jq -r "select(.task_id == ${ID[default cancelled]}) | .events[].event" "$file")"
	expect_eq "$want" "$(jq -s 'map(.events | length) | add' "$file")"
	expect_eq "task_history_$day|$file|3|t" "$(sql 'select partition, file, tasks, dropped is not null from archives')"
	expect_match "task_history_$day: 3 tasks are in $file" "$(cat "$DIR/log/manager.log")"
	expect_eq '0 0 0' "$(sql "select (select count(*) from all_tasks) || ' ' || (select count(*) from task_attempts) || ' ' ||
		(select count(*) from task_events)")"
}

test_the_default_partitions_rows_are_archived_too() {
	start_postgres
	start_manager
	start_worker
	end_some default
	stop worker
	stop manager
	# The rows are of two days without partitions.
	sql "update task_history set keep_until = '2020-01-01' where status = 'dead'; update task_history set keep_until = '2020-01-02' where status = 'completed'"
	expect_eq 2 "$(sql 'select count(*) from task_history_default')"
	mkdir "$DIR/archive"
	start_manager manager --archive "$DIR/archive"
	wait_until 30 '[ "$(sql "select count(*) from task_history")" = 1 ]'
	expect_eq "${ID[default dead]}" "$(jq .task_id "$DIR/archive/task_history_20200101.jsonl")"
	expect_eq "${ID[default completed]}" "$(jq .task_id "$DIR/archive/task_history_20200102.jsonl")"
	all_gone
}

test_a_missing_or_full_directory_keeps_the_partition_and_is_logged_once() {
	start_postgres
	start_manager
	stop manager
	fill 2 300 1000
	start_manager manager --archive "$DIR/archive"
	wait_until 20 'grep -q "is not archived, and stays: opening .*No such file" "$DIR/log/manager.log"'
	expect_match 'archive: No such file or directory; nothing is archived' "$(cat "$DIR/log/manager.log")"
	stop manager
	expect_eq '1 300' "$(old_partitions) $(sql 'select count(*) from task_history')"
	mkdir "$DIR/archive"
	# The manager writes nothing through a symbolic link.
	echo theirs >"$DIR/theirs"
	ln -s "$DIR/theirs" "$DIR/archive/task_history_$(day 2).jsonl.part"
	start_manager manager --archive "$DIR/archive"
	wait_until 20 'grep -q "is not archived, and stays: opening .*[Ss]ymbolic" "$DIR/log/manager.log"'
	stop manager
	expect_eq theirs "$(cat "$DIR/theirs")"
	rm "$DIR"/archive/*
	: >"$DIR/log/manager.log"
	trap '' XFSZ
	ulimit -S -f 100 # a full disk's stand-in: files end at 100 KiB
	start_manager manager --archive "$DIR/archive"
	ulimit -S -f unlimited
	wait_until 20 'grep -q "is not archived, and stays: writing .*File too large" "$DIR/log/manager.log"'
	sql "select pg_sleep(1)" >/dev/null
	expect_eq 1 "$(grep -c 'is not archived' "$DIR/log/manager.log")"
	expect_eq '1 300' "$(old_partitions) $(sql 'select count(*) from task_history')"
	expect_eq 100 "$(sql 'select count(*) from task_attempts')"
	expect_eq '' "$(find "$DIR/archive" -type f)"
	reeve stats >/dev/null
	stop manager
	start_manager manager --archive "$DIR/archive"
	all_gone
	expect_eq 300 "$(archived | wc -l)"
}

test_a_manager_without_an_archive_leaves_the_dropping_to_those_with_one() {
	start_postgres
	mkdir "$DIR/archive"
	start_manager one --archive "$DIR/none"
	fill 2 10
	start_manager two
	sql "select pg_sleep(2)" >/dev/null
	expect_eq 1 "$(old_partitions)"
	stop one
	stop two
	# No manager archives any more, so the partition is dropped.
	start_manager two
	all_gone
}

test_a_frozen_manager_does_not_prevent_archiving() {
	start_postgres
	mkdir "$DIR/archive"
	start_manager
	stop manager
	fill 2 10
	sql "insert into managers (name, hb_at) values ('frozen', clock_timestamp() + interval '1 hour');
		update locks set holder = (select max(id) from managers) where name = 'archive'" >/dev/null
	start_manager manager --archive "$DIR/archive"
	sleep 3
	expect_eq 1 "$(old_partitions)" 'while the other ticks'
	sql "update managers set hb_at = clock_timestamp() - interval '11 s' where name = 'frozen'" >/dev/null
	all_gone
	expect_eq 10 "$(archived | wc -l)"
}

# An existing file is never overwritten, nor one to which a link leads.
test_a_file_of_another_database_is_left_alone() {
	start_postgres
	mkdir "$DIR/archive"
	start_manager
	stop manager
	fill 2 10
	file=$DIR/archive/task_history_$(day 2)
	echo "another's" >"$file.jsonl"
	echo far >"$DIR/far"
	ln -s "$DIR/far" "$file.jsonl.part"
	start_manager manager --archive "$DIR/archive"
	wait_until 20 'grep -q "\.part: Too many levels of symbolic links" "$DIR/log/manager.log"'
	stop manager
	expect_eq far "$(cat "$DIR/far")"
	rm "$file.jsonl.part"
	echo rubbish >"$file.jsonl.part"
	start_manager manager --archive "$DIR/archive"
	all_gone
	expect_eq "another's" "$(cat "$file.jsonl")"
	expect_eq 10 "$(jq -r .task_id "$file.2.jsonl" | wc -l)"
	expect_eq 2 "$(find "$DIR/archive" -type f | wc -l)"
}

# What the file contains is not deleted between the row in `archives` and the kill: the attempts and events are locked,
# too.
test_a_file_that_was_written_but_not_noted_is_found_again() {
	start_postgres
	mkdir "$DIR/archive"
	start_manager
	stop manager
	fill 2 1200
	name=task_history_$(day 2)
	start holder "$REEVE_TEST_PG_BIN/psql" -h "$PGDIR" -U postgres -d reeve \
		-c "begin; lock table reeve.task_attempts, reeve.task_events in share mode; select from reeve.$name; select pg_sleep(600)"
	wait_until 20 "[ \"\$(sql \"select count(*) from pg_locks where relation = 'reeve.$name'::regclass\")\" -gt 0 ]"
	start_manager manager --archive "$DIR/archive"
	wait_until 20 '[ "$(sql "select count(*) from archives")" = 1 ]'
	kill_manager
	# The manager's last statement continues until its lock timeout.
	wait_until 20 '[ "$(sql "select count(*) from pg_stat_activity where application_name like '\''reeve-manager%'\''")" = 0 ]'
	sql 'delete from archives' # as if it had died a moment before
	sql "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(600)%' and pid <> pg_backend_pid()" >/dev/null
	ended holder
	start_manager manager --archive "$DIR/archive"
	all_gone
	expect_eq "$DIR/archive/$name.jsonl" "$(find "$DIR/archive" -type f)"
	expect_eq 1200 "$(archived | uniq | wc -l)"
}

# What a task's attempts have left counts for a page, which is in memory. One task may have more than fits into a jsonb.
test_tasks_with_long_attempts_are_read_in_small_pages() {
	start_postgres
	start_manager
	stop manager
	fill 2 500
	name=task_history_$(day 2)
	tried() { # TASKS TIMES BYTES
		sql "insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated, details, result)
			select task_id, now() + interval '1 s' * n, n, 'completed', 'queued', true, now(), repeat('x', $3), repeat('y', $3)
			from generate_series(1, $2) n cross join (select task_id from task_history order by task_id limit $1) t"
	}
	tried 500 2 25000
	expect_eq '10 t' "$(sql "select count(*) || ' ' || (sum(octet_length(line)) between 1000000 and 1050000)::text::char
		from history_page('$name', 0, 1000000)")"
	sql 'delete from task_attempts'
	tried 1 150 1000000
	expect_eq '1 t' "$(sql "select count(*) || ' ' || (sum(octet_length(line)) > 300000000)::text::char from history_page('$name', 0, 1000000)")"
}

# The day was over by a clock that was ahead: more tasks come before the partition is dropped.
test_tasks_that_come_after_the_file_are_archived_too() {
	start_postgres
	mkdir "$DIR/archive"
	fill 2 10
	hold dump 'lock table task_history in access share mode'
	start_manager manager --archive "$DIR/archive"
	wait_until 20 '[ "$(sql "select tasks from archives")" = 10 ]'
	stop manager
	let_go dump
	note_again() { # its answer was lost; prints the partitions that count as archived
		sql "update locks set holder = 7 where name = 'archive';
			prepare note(text, text, bigint, text, bigint) as $(cat "$STATEMENTS/archive_note.sql");
			execute note('task_history_$(day 2)', '$DIR/archive/task_history_$(day 2).jsonl', 10, 'it', 7);
			deallocate note; select count(*) from archives where dropped is null" | grep .
	}
	expect_eq 1 "$(note_again)"
	fill 2 5
	start_manager manager --archive "$DIR/archive"
	all_gone
	expect_eq 15 "$(archived | uniq | wc -l)"
	stop manager
	expect_eq 0 "$(note_again)"
}

# Two managers at a time are killed, again and again: in the end every task is in the files, once.
test_managers_that_die_leave_no_gap() {
	start_postgres
	mkdir "$DIR/archive"
	start_manager
	stop manager
	for days in 2 3 4 5 6 7; do fill $days 1500 200; done
	sql 'select task_id from task_history order by 1' >"$DIR/ids"
	for _ in $(seq 1 8); do
		launch_manager one --archive "$DIR/archive"
		launch_manager two --archive "$DIR/archive"
		sleep "0.$((RANDOM % 9))"
		signal one KILL
		sleep "0.$((RANDOM % 5))"
		signal two KILL
		ended one
		ended two
		# Every task that has left the database is in a file.
		expect_eq '' "$(comm -23 <(sort "$DIR/ids") <({ archived && sql 'select task_id from task_history'; } | sort -u))"
	done
	start_manager one --archive "$DIR/archive"
	start_manager two --archive "$DIR/archive"
	all_gone
	expect_eq "$(cat "$DIR/ids")" "$(archived)"
	expect_eq 6 "$(find "$DIR/archive" -type f | wc -l)"
	expect_eq 3000 "$(cat "$DIR/archive"/* | jq -s 'map(.attempts | length) | add')"
	expect_eq 0 "$(sql 'select count(*) from task_attempts')"
}

# measures time
test_tasks_with_long_details_are_archived_page_by_page() {
	start_postgres
	mkdir "$DIR/archive"
	start_manager
	stop manager
	fill 2 60 500000 # a megabyte each
	start_manager manager --archive "$DIR/archive"
	while [ "$(old_partitions)" != 0 ]; do
		timeout 5 "$REEVE_PLAIN" stats >/dev/null # the manager answers in that time
	done
	expect_eq 60 "$(archived | uniq | wc -l)"
	expect_eq 500000 "$(jq -r '.details | length' "$DIR/archive"/* | sort -u)"
}

run_tests
