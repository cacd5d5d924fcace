#!/usr/bin/env bash
# When schedules fire, what a firing does, and that each happens once. (missed_runs.sh: those that were missed.)
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/firings.bash"

# ---- exactly once ----

# Expects that each schedule has at least AT_LEAST runs on its grid, without gaps or duplicates, each with its task.
expect_each_once() { # AT_LEAST
	local name
	while read -r name; do
		expect_eq 't' "$(sql "select count(*) >= $1 and count(*) = count(distinct scheduled_at)
			and extract(epoch from max(scheduled_at) - min(scheduled_at)) * 1000 / min(s.every_ms) = count(*) - 1
			and bool_and(outcome = 'submitted') and count(distinct task_id) = count(*)
			from schedule_runs r join schedules s on s.id = schedule_id where name = '$name'")" "$name: $(outcomes "$name")"
		expect_eq "$(outcomes "$name" | wc -w)" "$(tasks_of "$name")" "tasks of $name"
	done < <(sql 'select name from schedules')
}

# Creates schedules whose tasks have no keys, so that no key prevents a second task.
every_200ms() { # NAME…
	local name
	for name in "$@"; do
		schedule "$name" every_ms 200 concurrency_policy "'allow'" catch_up "'all'" max_catch_up 1000 \
			spec '$${"type": "nothing", "key": ""}$$'
	done
}

test_three_managers_fire_each_time_once() {
	start_postgres
	start_manager one
	start_manager two
	start_manager three
	every_200ms a b c
	wait_until 60 '[ "$(tasks_of c)" -ge 30 ]'
	sql 'update schedules set paused = true, last_updated = clock_timestamp()'
	expect_each_once 20
	wait_until 20 '[ "$(cat "$DIR"/log/{one,two,three}.log | grep -c "schedule \"a\": the run of .* submitted task")" = "$(tasks_of a)" ]'
}

test_firings_while_managers_are_killed() {
	local n name
	start_postgres
	start_manager one
	start_manager two
	start_manager three
	every_200ms a b
	for n in 1 2 3; do
		for name in one two three; do
			n=$(tasks_of a)
			kill_manager "$name"
			wait_until 60 "[ \"\$(tasks_of a)\" -gt $((n + 1)) ]"
			start_manager "$name"
		done
	done
	# All managers at once: missed firings are caught up.
	for name in one two three; do signal "$name" KILL; done
	for name in one two three; do ended "$name"; done
	n=$(tasks_of a)
	start_manager one
	wait_until 60 "[ \"\$(tasks_of a)\" -gt $((n + 10)) ]"
	sql 'update schedules set paused = true, last_updated = clock_timestamp()'
	expect_each_once 25
}

# Tests the check itself: a session that read a schedule before another one changed it does not fire. Nothing else
# prevents the firing here: scheduled times may occur twice, and tasks have no keys.
test_a_row_that_has_changed_is_not_fired() {
	tables_only
	sql 'alter table schedule_runs drop constraint schedule_runs_schedule_id_scheduled_at_key'
	schedule a every_ms 3600000 concurrency_policy "'allow'" spec '$${"type": "nothing", "key": ""}$$'
	sql "create table found as select s as row from schedules s"
	expect_eq 1 "$(sql "select count(*) from schedules_fire(10) where task_id is not null")"
	expect_eq 0 "$(sql 'select count(*) from found, schedule_fire(row, clock_timestamp())')"
	sql 'truncate found; insert into found select s from schedules s; update schedules set paused = true, last_updated = clock_timestamp()'
	expect_eq 0 "$(sql 'select count(*) from found, schedule_fire(row, clock_timestamp())')"
	expect_eq 1 "$(tasks_of a)"
}

# If a row returns to an earlier scheduled time, as after a restore of this table alone, the run exists already.
test_a_scheduled_time_has_one_run() {
	tables_only
	schedule a cron "'0 2 * * *'" next_at "'2026-01-14T02:00Z'" concurrency_policy "'allow'" spec '$${"type": "nothing", "key": ""}$$'
	sql 'select count(*) from schedules_fire(10)' >"$DIR/null"
	expect_eq 'missed submitted' "$(outcomes a)"
	n=$(tasks_of a)
	sql "update schedules set next_at = last_at, last_updated = clock_timestamp()"
	sql 'select count(*) from schedules_fire(10)' >"$DIR/null"
	expect_eq 'missed submitted' "$(outcomes a)"
	expect_eq "$n" "$(tasks_of a)"
	expect_eq t "$(sql 'select next_at > clock_timestamp() from schedules')"
}

test_a_frozen_manager_holds_nothing() {
	local n
	start_postgres
	start_manager one
	start_manager two
	every_200ms a
	for n in 1 2 3; do
		n=$(tasks_of a)
		wait_until 60 "[ \"\$(tasks_of a)\" -gt $((n + 2)) ]"
		signal one STOP
		n=$(tasks_of a)
		wait_until 60 "[ \"\$(tasks_of a)\" -gt $((n + 10)) ]"
		signal one CONT
	done
	sql 'update schedules set paused = true, last_updated = clock_timestamp()'
	expect_each_once 30
}

# ---- overlap ----

# On a busy machine some firings come too late, and are missed.
test_overlap() {
	local first
	done_of() { outcomes "$1" | sed 's/^missed //; s/ missed//g'; }
	start_postgres
	start_manager
	start_worker worker --concurrency 20
	for overlap in forbid queue allow; do
		schedule $overlap every_ms 300 concurrency_policy "'$overlap'" catch_up "'one'" spec \
			"jsonb_build_object('type', 'sh', 'details', '${HOLD//\'/\'\'}')"
	done
	# One task runs: firings are skipped, or wait, or happen anyway.
	wait_until 60 '[[ $(done_of forbid) = "submitted overlapped overlapped overlapped"* ]]'
	wait_until 60 '[[ $(done_of allow) = "submitted submitted submitted"* ]]'
	wait_until 60 '[ "$(done_of queue)" = submitted ]'
	first=$(sql "select task_id from schedule_runs r join schedules s on s.id = schedule_id
		where name = 'queue' and outcome = 'submitted' order by r.id limit 1")
	expect_match "^task [0-9]+ of an earlier run had not ended" "$(notes forbid | grep -v 'missed, from' | sed -n 2p)"
	release
	wait_until 60 "[ \"\$(tasks_of queue)\" -gt 2 ] && [ \"\$(tasks_of forbid)\" -gt 2 ]"
	sql 'update schedules set paused = true, last_updated = clock_timestamp()'
	# Tasks of a schedule that must not overlap were never live at the same time, and skipped firings are recorded.
	for overlap in forbid queue; do
		expect_eq 0 "$(sql "select count(*) from all_tasks a join all_tasks b on b.source = a.source and b.id > a.id
			and b.created < coalesce(a.ended, 'infinity') where a.source = 'schedule $overlap'")"
	done
	expect_match '(^| )submitted missed submitted' "$(outcomes queue)"
	expect_eq completed "$(field "$first" status)"
}

# A late schedule is not checked less often because it is late: the interval depends on the age of the task for which it
# waits.
test_overlap_is_checked_soon_after_young_tasks() {
	tables_only
	schedule behind every_ms 500 concurrency_policy "'queue'" start_at "now() - interval '1 hour'" next_at "now() - interval '10 minutes'" \
		last_task_id "(select id from submit_task('{\"type\": \"nothing\"}'))"
	expect_eq t "$(sql "update tasks set created = clock_timestamp();
		select t.scheduled < clock_timestamp() + interval '100 ms' from schedules_fire(5) t where schedule = ''")"
	sql "update tasks set created = created - interval '1 hour'"
	expect_eq t "$(sql "select t.scheduled > clock_timestamp() + interval '300 ms' from schedules_fire(5) t where schedule = ''")"
}

# The limit of a call's time does not include the search for due schedules: otherwise a search that takes longer would
# prevent all firings. The clock here advances by 250 ms with each look at it.
test_a_long_search_for_due_schedules_prevents_no_firing() {
	local name
	tables_only
	sql "create schema slow; create sequence slow.looks;
		create function slow.clock_timestamp() returns timestamptz language sql as
		'select pg_catalog.clock_timestamp() + nextval(''slow.looks'') * interval ''250 ms'''"
	schedule a every_ms 3600000
	schedule b every_ms 3600000
	for name in a b; do
		expect_eq "$name submitted" "$(sql "set local search_path = slow, pg_catalog, reeve;
			select schedule || ' ' || outcome from schedules_fire(50) where schedule <> ''")"
	done
}

# The next scheduled time is the last one plus the interval, however long a task takes. The next firing is scheduled
# when the task ends.
test_a_periodic_task() {
	start_postgres
	start_manager
	start_worker
	schedule period every_ms 2000 start_at "date_trunc('second', clock_timestamp()) + interval '2 s'" \
		next_at "date_trunc('second', clock_timestamp()) + interval '2 s'" spec '$${"type": "sh", "details": "sleep 0.3"}$$'
	wait_until 60 '[ "$(tasks_of period)" -ge 3 ]'
	sql 'update schedules set paused = true, last_updated = clock_timestamp()'
	expect_eq t "$(sql "select coalesce(bool_and(scheduled_at = start_at + (n - 1) * interval '2 s'), true) from (
		select scheduled_at, start_at, row_number() over (order by r.id) as n
		from schedule_runs r join schedules s on s.id = schedule_id where outcome = 'submitted') x
		where not exists (select from schedule_runs where outcome = 'missed')")"
	expect_eq 0 "$(sql "select count(*) from schedule_runs where at < scheduled_at")"
}

# ---- effects of a firing ----

test_a_schedule_acts_on_queues() {
	start_postgres
	start_manager
	reeve submit nothing --queue night --delay 1h >"$DIR/null"
	schedule pause queue_action "'pause'" action_queue "'night'" cron "'0 2 * * *'"
	wait_outcomes pause acted
	expect_eq 'queue "night" is paused' "$(notes pause)"
	expect_eq paused "$(sql "select state from queues where name = 'night'")"
	schedule resume queue_action "'resume'" action_queue "'night'" cron "'0 2 * * *'"
	wait_outcomes resume acted
	expect_eq running "$(sql "select state from queues where name = 'night'")"
	schedule stop queue_action "'stop'" action_queue "'night'" cron "'0 2 * * *'"
	wait_outcomes stop acted
	# The queue is being stopped, or is stopped: a start waits for that, and a pause has no effect.
	schedule start queue_action "'start'" action_queue "'night'" cron "'0 2 * * *'"
	wait_outcomes start acted
	expect_eq running "$(sql "select state from queues where name = 'night'")"
	reeve queue stop night --wait >"$DIR/null"
	wait_until 60 "[ \"\$(sql \"select state from queues where name = 'night'\")\" = stopped ]"
	sql "update schedules set next_at = clock_timestamp(), last_updated = clock_timestamp() where name = 'pause'"
	wait_outcomes pause 'acted acted'
	expect_eq 'queue "night" is stopped; start it, or submit a task' "$(notes pause | tail -n 1)"
	expect_eq stopped "$(sql "select state from queues where name = 'night'")"
	schedule nowhere queue_action "'stop'" action_queue "'nowhere'" cron "'0 2 * * *'"
	wait_outcomes nowhere refused
	expect_match 'there is no queue "nowhere"' "$(notes nowhere)"
	expect_eq 'schedule stop' "$(sql "select actor from queue_events where event = 'queue_stop_requested' order by id limit 1")"
}

test_every_option_of_a_submit() {
	local batch task
	start_postgres
	start_manager
	batch=$(sql "insert into batches (name, queue, implicit) values ('b', 'q', false) returning id")
	schedule full cron "'0 2 * * *'" zone "'America/New_York'" next_at "date_trunc('second', clock_timestamp())" spec '$${"type": "t", "queue": "q",
		"details": "{name} stays", "priority": 7, "delay_ms": 3600000, "key": "k-{name}-{date}-{time}", "key_ttl_ms": 5000, "version": 3,
		"max_attempts": 9, "timeout_ms": 1234, "retry_base_ms": 5, "retry_max_ms": 6, "retry_policy": {"kind": "fixed"},
		"batch_id": '"$batch"', "source": "me"}$$'
	wait_outcomes full submitted
	task=$(sql "select task_id from schedule_runs")
	expect_eq "t|q|{name} stays|7|t|3|9|1234|5|6|{\"kind\": \"fixed\"}|$batch|me" "$(sql "select type, queue, details, priority,
		run_at > now() + interval '59 min', version, max_attempts, timeout_ms, retry_base_ms, retry_max_ms, retry_policy, batch_id, source
		from tasks where id = $task")"
	expect_eq t "$(sql "select t.key = 'k-full-' || to_char(scheduled_at at time zone 'America/New_York', 'YYYY-MM-DD') || '-'
		|| to_char(scheduled_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from tasks t join schedule_runs on task_id = t.id")"
	expect_eq 5000 "$(sql 'select keep_ms from keys')"
	sql "insert into pipelines (name, stages) values ('p', '[{\"name\": \"one\", \"type\": \"first\"}]')"
	schedule piped cron "'0 2 * * *'" spec '$${"pipeline": "p", "details": "in"}$$'
	wait_outcomes piped submitted
	expect_eq 'first|in|one' "$(sql "select type, details, stage from tasks where source = 'schedule piped'")"
	# The default key has the date if the schedule fires once a day, and the time if it fires more often.
	expect_match '^piped:20..-..-..$' "$(sql "select key from tasks where source = 'schedule piped'")"
	schedule often every_ms 3600000 next_at "timestamptz '2026-01-14 02:00:00.25Z'" catch_up "'one'" start_at "timestamptz '2026-01-14 02:00:00.25Z'"
	wait_outcomes often 'missed submitted'
	expect_match '^often:20..-..-..T..:00:00.25Z$' "$(sql "select key from tasks where source = 'schedule often'")"
}

test_a_key_that_is_there_already() {
	local task at
	start_postgres
	start_manager
	at=$(sql 'select schedule_time_text(clock_timestamp())')
	task=$(reeve submit nothing --key "report:${at%T*}")
	schedule report cron "'${at:14:2} ${at:11:2} * * *'" next_at "'$at'"
	wait_outcomes report existing
	expect_eq "$task" "$(sql 'select task_id from schedule_runs')"
	expect_eq 0 "$(tasks_of report)"
}

# A refused firing is recorded and not repeated; a temporary obstacle is waited for. Neither delays other schedules.
test_a_firing_that_is_refused() {
	local batch
	start_postgres
	start_manager
	batch=$(sql "insert into batches (name, queue, implicit, closed_at) values ('b', 'default', false, now()) returning id")
	start holder env PGOPTIONS='-c search_path=reeve' "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve \
		-c "begin; insert into keys (queue, key, task_id, expires_at) values ('default', 'taken', 1, 'infinity'); select pg_sleep(600)"
	wait_until 20 "[ \"\$(sql \"select count(*) from pg_stat_activity where query like '%pg_sleep%' and state = 'active' and pid <> pg_backend_pid()\")\" = 1 ]"
	sql "begin;
		insert into schedules (name, every_ms, spec, next_at) values
		('none', 1000, '{\"pipeline\": \"none\"}', clock_timestamp()),
		('closed', 1000, '{\"type\": \"nothing\", \"batch_id\": $batch}', clock_timestamp()),
		('locked', 3600000, '{\"type\": \"nothing\", \"key\": \"taken\"}', clock_timestamp()),
		('odd', 1000, '{\"type\": \"nothing\", \"priority\": \"high\"}', clock_timestamp()),
		('good', 1000, '{\"type\": \"nothing\"}', clock_timestamp());
		insert into schedules (name, cron, zone, spec, next_at) values
		('gone', '0 2 * * *', 'Atlantis/Capital', '{\"type\": \"nothing\"}', clock_timestamp());
		update schedules set start_at = next_at, concurrency_policy = 'allow';
		commit"
	wait_until 60 '[ "$(tasks_of good)" -ge 3 ]'
	wait_until 60 "[[ \$(outcomes none) = *refused*refused* ]]"
	expect_eq 'there is no pipeline "none"' "$(notes none | grep pipeline | sort -u)"
	wait_until 60 "[[ \$(outcomes closed) = *refused*refused* ]]"
	wait_until 60 "[[ \$(outcomes odd) = *refused*refused* ]]"
	expect_eq '' "$(outcomes locked)$(outcomes gone)"
	wait_until 60 "grep -q 'schedule \"locked\": the run of .* waits: canceling statement due to lock timeout' \"$DIR/log/manager.log\""
	expect_eq 1 "$(grep -c 'schedule "locked": the run of' "$DIR/log/manager.log")" # said once
	wait_until 60 "grep -q 'schedule \"gone\": the run of .* waits: time zone \"Atlantis/Capital\" not recognized' \"$DIR/log/manager.log\""
	sql "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(600)%' and pid <> pg_backend_pid()" >"$DIR/null"
	ended holder
	wait_outcomes locked submitted
	sql "update schedules set zone = 'UTC', retry_at = null, last_updated = clock_timestamp() where name = 'gone'"
	wait_outcomes gone submitted
}

# A short lock on a table that a firing reads, here the history, does not delay a schedule by a minute, as the
# schedule's own errors do: its firings would be missed by then.
test_a_lock_keeps_a_schedule_away_only_while_it_is_there() {
	start_postgres
	start_manager
	every_200ms a
	wait_until 60 '[ "$(tasks_of a)" -ge 2 ]'
	start holder env PGOPTIONS='-c search_path=reeve' "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve \
		-c "begin; lock table task_history in access exclusive mode; select pg_sleep(600)"
	wait_until 60 "grep -q 'schedule \"a\": the run of .* waits: canceling statement due to lock timeout' \"$DIR/log/manager.log\""
	expect_eq t "$(sql "select retry_at < clock_timestamp() + interval '10 s' from schedules")"
	sql "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(600)%' and pid <> pg_backend_pid()" >"$DIR/null"
	ended holder
	made=$(tasks_of a)
	wait_until 60 '[ "$(tasks_of a)" -ge $((made + 5)) ]'
	stop manager
	expect_each_once 7
}

# ---- manual runs, changes, retention ----

test_a_manual_run_happens_once_for_each_request() {
	local request=01990000-0000-7000-8000-000000000001
	tables_only
	schedule manual next_at null paused true
	expect_eq 'submitted|1' "$(sql "select outcome, task_id from schedule_run('$request', 'manual', 'ann')")"
	expect_eq 'submitted|1' "$(sql "select outcome, task_id from schedule_run('$request', 'manual', 'ann')")"
	expect_eq "submitted|2" "$(sql "select outcome, task_id from schedule_run('${request%1}2', 'manual', 'ann')")" # whatever still runs
	expect_eq "manual:manual:$request schedule manual" "$(sql "select key || ' ' || source from tasks where id = 1")"
	expect_eq '|submitted|1|ann' "$(sql 'select scheduled_at, outcome, task_id, actor from schedule_runs order by id limit 1')"
	expect_fail 1 sql "select schedule_run('${request%1}3', 'none', 'ann')"
	expect_match 'there is no schedule "none"' "$OUTPUT"
	# A key without a date or a time is that of all its runs.
	schedule named next_at null paused true spec '$${"type": "nothing", "key": "{name}"}$$'
	expect_eq submitted "$(sql "select outcome from schedule_run('${request%1}5', 'named', 'ann')")"
	expect_eq 'existing|key "named" is that of an earlier task' "$(sql "select outcome, note from schedule_run('${request%1}6', 'named', 'ann')")"
	# A name that is too long for its key.
	schedule "$(printf 'n%.0s' {1..212})" next_at null paused true
	sql "select outcome from schedule_run('${request%1}4', repeat('n', 212), 'ann')" >/dev/null
	expect_eq "manual:${request%1}4" "$(sql 'select key from tasks order by id desc limit 1')"
}

test_changes_without_a_notification_are_found_soon() {
	start_postgres
	start_manager
	schedule told every_ms 3600000
	wait_outcomes told submitted
	sql "insert into schedules (name, every_ms, spec, next_at) values ('untold', 3600000, '{\"type\": \"nothing\"}', clock_timestamp())"
	wait_outcomes untold submitted
	every_200ms measured
	wait_until 60 '[ "$(tasks_of measured)" -ge 30 ]'
	note "    $(sql "select format('ticks came %s ms after their planned time in the middle, %s at most',
		round(extract(epoch from percentile_cont(0.5) within group (order by at - scheduled_at)) * 1000),
		round(extract(epoch from max(at - scheduled_at)) * 1000)) from schedule_runs r join schedules s on s.id = schedule_id where name = 'measured'")"
	expect_eq t "$(sql 'select bool_and(at >= scheduled_at) from schedule_runs')"
	wait_until 20 '[ "$(reeve stats --json | jq ".counters[] | select(.name == \"schedule_firings\").value")" -ge 30 ]'
}

test_old_runs_are_forgotten_but_the_last_ten() {
	tables_only
	sql "insert into schedules (name, every_ms, spec) values ('a', 1000, '{}'), ('b', 1000, '{}');
		insert into schedule_runs (schedule_id, scheduled_at, at, outcome)
		select s.id, t, t, 'submitted' from schedules s, generate_series(now() - interval '100 days', now() - interval '60 days', '1 hour') t;
		insert into schedule_runs (schedule_id, scheduled_at, at, outcome)
		select id, now() - n * interval '1 minute', now(), 'submitted' from schedules, generate_series(1, 3) n where name = 'b';
		insert into schedule_runs (schedule_id, scheduled_at, at, outcome)
		select -1, t, t, 'submitted' from (values (now() - interval '60 days'), (now())) removed(t)"
	start_manager
	wait_until 60 '[ "$(sql "select count(*) from schedule_runs")" = 21 ]'
	expect_eq '1 10 10' "$(sql "select string_agg(n::text, ' ') from (select count(*) as n from schedule_runs group by schedule_id order by schedule_id) x")"
	expect_eq 4 "$(sql "select count(*) from schedule_runs where at > now() - interval '1 day'")"
}

run_tests
