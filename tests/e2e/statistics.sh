#!/usr/bin/env bash
# What Reeve shows of a task's attempts; executions counted by hour, exactly once and beyond the history; views.
# timeout 500
. "$(dirname "$0")/lib.sh"
HISTORY_DAYS=30
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager other
start_manager manager

told() { # ID: error count, recoverable, whether it took time
	reeve show "$1" --json | jq -r '"\(.error_count) \(.recoverable) \(.processing_ms > 0)"'
}

test_results_show_errors_retries_and_times() {
	start_worker
	good=$(reeve submit sh 'sleep 0.3')
	twice=$(reeve submit sh '[ $REEVE_ATTEMPT = 2 ] || { sleep 0.2; exit 3; }' --retry-base 1ms)
	used_up=$(reeve submit sh 'sleep 0.01; exit 3' --max-attempts 3 --retry-base 1ms)
	fatal=$(reeve submit sh 'sleep 0.01; exit 65')
	waits=$(reeve submit sh 'sleep 0.01; exit 3' --retry-base 1h)
	killed=$(reeve submit sh true --delay 1h)
	expect_fail 1 reeve wait "$good" "$twice" "$used_up" "$fatal"
	wait_status 20 "$waits" failed
	expect_eq '0 null false' "$(told "$killed")" 'one that has not begun'
	reeve discard "$killed" >/dev/null
	expect_eq '0 null true' "$(told "$good")"
	expect_eq '1 true true' "$(told "$twice")"
	expect_eq '3 true true' "$(told "$used_up")"
	expect_eq '1 false true' "$(told "$fatal")"
	expect_eq '1 true true' "$(told "$waits")"
	expect_eq '0 null false' "$(told "$killed")" 'ended manually'
	# For an ended task the time is that of its last attempt; times equal those in the tables.
	for id in "$good" "$twice" "$fatal"; do
		expect_eq "$(sql "select round(extract(epoch from last_updated - token) * 1000) from task_history where task_id = $id")" \
			"$(field "$id" processing_ms)"
	done
	expect [ "$(field "$good" processing_ms)" -ge 300 ]
	expect_eq "$(sql "select round(extract(epoch from last_updated - token) * 1000) from task_attempts where task_id = $waits")" \
		"$(field "$waits" processing_ms)"
	expect_eq t "$(sql "select created <= first_started and first_started < started and started <= last_updated from task_history where task_id = $twice")"
	for name in created first_started started ended source; do
		expect_match . "$(field "$twice" $name)" "$name"
	done
	# Lists show the same.
	for id in "$good" "$twice" "$used_up" "$fatal" "$waits" "$killed"; do
		expect_eq "$(reeve show "$id" --json | jq -c '{error_count, recoverable, processing_ms}')" \
			"$(reeve list --json | jq -c "select(.id == $id) | {error_count, recoverable, processing_ms}")" 'in the list'
	done
	# So do the views.
	expect_eq "3|t|worker|t" "$(sql "select error_count, processing_ms > 0, operator_id, last_failed = last_updated from all_tasks where id = $used_up")"
	expect_eq "1|t|worker|t" "$(sql "select error_count, processing_ms > 0, operator_id, last_failed = last_updated from all_tasks where id = $waits")"
	expect_eq "1|t" "$(sql "select error_count, last_failed < last_updated from all_tasks where id = $twice")"
	expect_eq "0|t" "$(sql "select error_count, last_failed is null from all_tasks where id = $good")"
	expect_no_match 'SubPlan' "$(sql 'explain select id, status from all_tasks')" 'what is not asked for'
	expect_match "^$(sql "select to_char(last_failed at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') from all_tasks where id = $waits")" "$(field "$waits" last_failed)"
	expect_eq "$(field "$twice" last_failed)" "$(reeve list --json | jq -r "select(.id == $twice).last_failed")"
	expect_eq '' "$(field "$good" last_failed)"
	expect_match $'errors +3\n.*recoverable +yes' "$(reeve show "$used_up")"
	expect_match 'recoverable +no' "$(reeve show "$fatal")"
	expect_no_match 'recoverable' "$(reeve show "$good")"
	# After a manual retry the errors continue to count.
	reeve retry "$fatal" >/dev/null
	expect_fail 1 reeve wait "$fatal"
	expect_eq '2 false true' "$(told "$fatal")"
}

test_the_submitter_of_a_task_is_kept() {
	start_worker
	id=$(reeve submit nothing --source 'the till')
	mine=$(reeve submit nothing)
	reeve wait "$id" "$mine" >/dev/null
	expect_eq 'the till' "$(field "$id" source)"
	expect_match '.@.' "$(field "$mine" source)"
	expect_eq "$id" "$(reeve list --where "source='the till'" --json | jq .id)"
}

# ---- hourly counts ----

# Inserts tasks of three types that ended in the last five hours, and failed attempts, as the manager's statements leave
# them.
made_up_past() {
	sql "insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
			timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, started, created, last_updated)
		select (at at time zone 'UTC')::date + 31, -n, (select min(id) from routes), 0, 'past', 't' || n % 3, '',
			case when n % 7 = 0 then 'dead' else 'completed' end, at, 1, 5, 1, 1, 1, true, '', at - took, at - took, at - took, at
		from (select n, now() - interval '5 hours' + interval '9 s' * n as at, interval '1 ms' * (n % 977) + interval '7 us' as took
			from generate_series(1, 2000) n) x;
		insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated)
		select -n, at - interval '33 ms', 1, case when n % 10 = 0 then 'requeued' else 'failed' end, 'failed', true, at
		from (select n, now() - interval '5 hours' + interval '9 s' * n - interval '1 s' as at from generate_series(5, 2000, 5) n) x"
}

known() { # QUEUE TYPE…: so that they may be asked for
	local queue=$1 type
	shift
	for type in "$@"; do
		sql "select route_of('$queue', '$type')" >/dev/null
		# A manager takes up to a minute to see it, and this read is not cheap.
		wait_until 70 "reeve stats --by type --queue $queue --type $type || { pause 0.5 && false; }"
	done
}

counted() { # everything that is told of that queue, in several ways
	local since
	for since in '5h30m ago' "$1" "$2"; do
		reeve stats --by hour --queue past --since "$since" --status all --json
		reeve stats --by type --queue past --since "$since" --status all --json
		reeve stats --by type --type t1 --since "$since" --status all --json
		reeve stats --by hour --queue past --since "$since" --json
		reeve stats --by type --all-queues --since "$since" --status failed --json
	done
}

rolled_beyond() { # TIME: whether the managers have come there
	[ "$(sql "select until > $1 from executions_rolled")" = t ]
}

test_hours_counted_once_are_what_the_rows_say_and_stay_when_these_go() {
	known past t0 t1 t2
	made_up_past
	# First, no hour is counted in advance. Reads since two times within hours, and again when all hours have been
	# counted in advance.
	recount_from "now() - interval '6 hours'"
	first=$(date -u -d '-200 minutes' +%Y-%m-%dT%H:%M:%S.123456Z) second=$(date -u -d '-75 minutes' +%Y-%m-%dT%H:%M:07Z)
	counted "$first" "$second" >"$DIR/raw"
	expect_eq "$(sql "select (select count(*) from task_history where task_id < 0) +
		(select count(*) from task_attempts where task_id < 0 and outcome <> 'requeued')")" \
		"$(reeve stats --by hour --queue past --since '7h ago' --status all --json | jq -s 'map(.count) | add')" 'all of them'
	recount_from "now() - interval '6 hours'"
	wait_until 150 "rolled_beyond \"now() - interval '20 minutes'\""
	counted "$first" "$second" >"$DIR/rolled"
	expect_eq "$(cat "$DIR/raw")" "$(cat "$DIR/rolled")" 'what was counted ahead and what the rows say'
	expect [ "$(sql "select sum(count) from executions where queue = 'past'")" -gt 2000 ]
	# An attempt of a retried task moves to another table, and is counted once.
	dead=$(sql "select max(task_id) from task_history where task_id < 0 and status = 'dead' and last_updated < now() - interval '1 hour'")
	sql "update task_history set task_id = 1000000 where task_id = $dead"
	reeve retry 1000000 >/dev/null
	counted "$first" "$second" >"$DIR/again"
	expect_eq "$(cat "$DIR/raw")" "$(cat "$DIR/again")" 'after a task was run again'
	# After the history is removed, whole hours are still shown.
	whole=$(sql "select to_char(date_trunc('hour', now() - interval '4 hours') at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SSZ')")
	reeve stats --by hour --queue past --since "$whole" --status all --json >"$DIR/before"
	sql "delete from task_history where task_id < 0 and last_updated < now() - interval '30 minutes';
		delete from task_attempts where task_id < 0 and last_updated < now() - interval '30 minutes'"
	expect_eq "$(cat "$DIR/before")" "$(reeve stats --by hour --queue past --since "$whole" --status all --json)" 'after the history has forgotten'
}

# A commit may come long after the time in its row.
test_what_commits_late_is_counted_too() {
	known late t
	mkfifo "$DIR/talk"
	start late "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve -f "$DIR/talk"
	exec 7>"$DIR/talk"
	echo "set search_path = reeve; begin;
		insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
			timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated)
		select (now() at time zone 'UTC')::date + 31, 2000000, (select min(id) from routes), 0, 'late', 't', '', 'completed', now(), 1,
			1, 1, 1, 1, true, '', now() - interval '91 minutes', now(), now() - interval '90 minutes'
		returning 'written';" >&7
	wait_until 20 'grep -q written "$DIR/log/late.log"'
	recount_from "now() - interval '3 hours'"
	from=$(sql "select until from executions_rolled")
	for _ in 1 2 3 4 5 6; do # as managers do, and they themselves
		sql 'select executions_roll()' >/dev/null
	done
	expect_eq "$from" "$(sql "select until from executions_rolled")" 'counted beyond what is not committed'
	expect_eq 0 "$(reeve stats --by type --queue late --since '3h ago' --json | wc -l)"
	echo 'commit; select $$over$$;' >&7
	wait_until 20 'grep -q over "$DIR/log/late.log"'
	exec 7>&-
	ended late
	expect_eq 1 "$(reeve stats --by type --queue late --since '3h ago' --json | jq .count)"
	wait_until 120 "sql 'select executions_roll()' && rolled_beyond \"now() - interval '30 minutes'\""
	expect_eq 1 "$(reeve stats --by type --queue late --since '3h ago' --json | jq .count)"
	expect_eq 1 "$(sql "select sum(count) from executions where queue = 'late'")"
}

test_a_clock_that_was_ahead_hides_nothing() {
	start_worker
	reeve submit nothing --queue ahead --wait >/dev/null
	# The state that such a clock leaves: everything is counted up to two days ahead, including a task that has ended.
	sql "insert into executions select date_trunc('hour', last_updated, 'UTC'), queue, type, true, 1, 1, 1, 1, last_updated, 1
			from task_history where queue = 'ahead';
		update executions_rolled set until = now() + interval '2 days', settled = now() + interval '2 days', next_at = null, next_xid = null"
	reeve submit nothing --queue ahead --wait >/dev/null
	wait_until 60 "sql 'select executions_roll()' && [ \"\$(sql 'select settled < now() from executions_rolled')\" = t ]"
	expect_eq 2 "$(reeve stats --by type --queue ahead --json | jq .count)"
}

# A dump that was made while the count waited for open transactions has a transaction id of another cluster.
test_counting_goes_on_after_a_dump_was_restored() {
	sql "update executions_rolled set until = now() - interval '20 minutes', settled = now() - interval '20 minutes',
		next_at = now() - interval '10 minutes', next_xid = '500000000'"
	wait_until 60 "sql 'select executions_roll()' && [ \"\$(sql \"select settled > now() - interval '7 minutes' from executions_rolled\")\" = t ]"
}

past_is_there() { # as it was made, also if an earlier test removed a part of it
	[ "$(sql 'select count(*) from task_history where task_id < 0')" -gt 1000 ] || { sql 'delete from task_attempts where task_id < 0;
		delete from task_history where task_id < 0' && made_up_past; }
}

test_many_managers_count_at_the_same_time() {
	known past t0 t1 t2
	past_is_there
	recount_from "now() - interval '6 hours'"
	reeve stats --by type --queue past --since '7h ago' --status all --json >"$DIR/raw"
	recount_from "now() - interval '6 hours'"
	for n in 1 2 3 4 5 6; do
		start "roller-$n" bash -c 'for _ in $(seq 60); do "$0" -XAtq -h "$1" -U postgres -d reeve -c "set search_path = reeve; select executions_roll()"; done' \
			"$REEVE_TEST_PG_BIN/psql" "$PGDIR"
	done
	for n in 1 2 3 4 5 6; do ended "roller-$n" 120; done
	wait_until 120 "rolled_beyond \"now() - interval '20 minutes'\""
	expect_eq "$(cat "$DIR/raw")" "$(reeve stats --by type --queue past --since '7h ago' --status all --json)"
}

test_statistics_are_kept_for_a_year() {
	sql "insert into executions select date_trunc('hour', now() - interval '1 day' * d, 'UTC'), 'old', 't', true, 1, 10 * d, d, d,
			now() - interval '1 day' * d, 7 * d
		from (values (364), (400), (500)) v(d)"
	start_manager third
	wait_until 60 "[ \"\$(sql \"select count(*) from executions where queue = 'old' and hour > '1970-01-03'\")\" = 1 ]"
	# Older ones are added up.
	expect_eq '2|9000|400|500|2800|400' "$(sql "select count, total_us, fastest_us, slowest_us, last_us, extract(day from now() - last)
		from executions where queue = 'old' and hour = '1970-01-02 00:00+00'")"
	expect_eq 1 "$(reeve stats --by type --queue old --since '365d ago' --json | jq .count)"
	expect_eq 3 "$(reeve stats --by type --queue old --all --json | jq .count)"
}

# Failed and expired attempts are not among the times of those that completed.
test_times_are_those_of_completed_attempts() {
	start_worker
	for queue in fast slow; do
		reeve submit nothing --queue $queue --wait >/dev/null
		expect_fail 1 reeve submit sh 'sleep 0.5; exit 65' --queue $queue --wait
	done
	reeve submit sh 'sleep 0.3' --queue slow --wait >/dev/null
	expect_eq true "$(reeve stats --by hour --queue fast --json | jq '.count == 1 and .slowest_ms == .fastest_ms')"
	expect_eq '1 1' "$(reeve stats --by type --queue fast --json | jq -r '"\(.count) \(.completed)"')"
	expect_eq '1 0 true' "$(reeve stats --by type --queue fast --status failed --json | jq -r '"\(.count) \(.completed // 0) \(.fastest_ms >= 500)"')"
	expect_eq '2 1' "$(reeve stats --by hour --queue fast --status all --json | jq -rs '"\(map(.count) | add) \(map(.completed // 0) | add)"')"
	# The last execution: when, and how long it took.
	expect_eq "$(sql "select round(extract(epoch from last_updated - token) * 1000) from task_history
		where queue = 'slow' and status = 'completed' order by last_updated desc limit 1")" "$(reeve stats --by type --queue slow --type sh --json | jq .last_ms)"
	expect_match 'LATEST +LAST' "$(reeve stats --by type --queue slow)"
	expect_fail 2 reeve stats --by hour --all-queues
	expect_match '--all-queues goes with --by type' "$OUTPUT"
	expect_fail 2 reeve stats --by hour --status dead
}

test_totals_of_each_type_over_all_queues_and_all_time() {
	sql "insert into executions select '1970-01-02 00:00+00', q, 'ever', true, 3, 3000, 900, 1100, now() - interval '2 years', 950 from (values ('e1'), ('e2')) v(q);
		insert into executions select date_trunc('hour', now() - interval '90 days', 'UTC'), 'e1', 'ever', true, 1, 5000, 5000, 5000, now() - interval '90 days', 5000;
		insert into executions select date_trunc('hour', now() - interval '90 days', 'UTC'), 'e1', 'ever', false, 1, 9000, 9000, 9000, now() - interval '90 days', 9000"
	expect_eq ' 7 11 2 1 5 5' "$(reeve stats --by type --all-queues --all --type ever --json |
		jq -r '"\(.queue // "") \(.count) \(.total_ms) \(.average_ms) \(.fastest_ms) \(.slowest_ms) \(.last_ms)"')"
	expect_eq $'e1 4\ne2 3' "$(reeve stats --by type --all --type ever --json | jq -r '"\(.queue) \(.count)"')"
	expect_no_match QUEUE "$(reeve stats --by type --all-queues --all --type ever)"
	expect_eq '' "$(reeve stats --by type --type ever --json 2>/dev/null)" 'within a day'
	expect_eq 8 "$(reeve stats --by hour --all --status all --type ever --json | jq -s 'map(.count) | add')"
	expect_fail 2 reeve stats --by type --all --since '1h ago'
	expect_fail 2 reeve stats --all
}

test_an_attempt_counts_for_the_type_that_its_task_had_then() {
	start_worker
	first=$(reeve submit nothing --queue v --key k --key-version 1)
	reeve wait "$first" >/dev/null
	expect_eq "$first" "$(reeve submit sh true --queue v --key k --key-version 2)"
	reeve wait "$first" >/dev/null
	expect_eq $'nothing 1\nsh 1' "$(reeve stats --by type --queue v --json | jq -r '"\(.type) \(.count)"')"
}

# Whatever the planner's statistics are, recent ends are found by their times, not by a scan of all tasks of a day.
test_what_ended_lately_is_found_by_its_time() {
	day=$(sql "select to_char(now() at time zone 'UTC' + interval '31 days', 'YYYYMMDD')")
	sql "insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
			timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated)
		select to_date('$day', 'YYYYMMDD'), 5000000 + n, 1, 0, 'plans', 't', repeat('x', 200),
			case when n % 10 = 0 then 'dead' else 'completed' end, now(), 1, 1, 1, 1, 1, true, '', at - interval '1 s', at, at
		from (select n, now() - interval '20 hours' + interval '0.7 s' * n as at from generate_series(1, 100000) n) x"
	sql 'analyze task_history'
	sql 'select history_summarize()' >/dev/null # or the manager just has
	expect_eq 0 "$(sql 'select history_summarize()')"
	for name in errors executions; do
		[ $name = errors ] && by=code more=', null, 10, 4000000' || by=type more=', null, 4000000, '"'all'"', false'
		plan=$(
			{
				explain_what_follows
				printf 'set search_path = reeve; set plan_cache_mode = force_generic_plan; prepare p as\n%s;\n' "$(cat "$STATEMENTS/$name.sql")"
				echo "execute p('$by', null, null, now() - interval '40 minutes'$more);"
			} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve 2>&1 | grep -v 'never executed'
		)
		expect_match "Index Scan (on|using) task_history_${day}_last_updated_idx" "$plan" "$name"
		expect_no_match "Seq Scan on task_history_$day" "$plan" "$name"
	done
	plan=$(sql "set enable_seqscan = on; explain select * from executions_raw(now() - interval '10 minutes', now() - interval '5 minutes', (now() at time zone 'UTC')::date, true)")
	expect_no_match "Seq Scan on task_history_$day" "$plan" 'counting'
	sql 'delete from task_history where task_id >= 5000000'
}

# ---- views ----

test_dead_and_long_running_tasks_are_views_and_commands() {
	start_worker worker --concurrency 4
	dead=$(reeve submit sh 'echo broken >&2; exit 65')
	first=$(reeve submit sh "$HOLD" --timeout 10m)
	wait_began "$first"
	second=$(reeve submit sh "$HOLD")
	wait_began "$second"
	expect_fail 1 reeve wait "$dead"
	expect_eq "$dead|default|sh|exit:65|broken|f|1|worker|t" "$(sql "select id, queue, type, error_code, error, recoverable, attempt, worker, died > created from dead_tasks where id = $dead")"
	expect_eq "$dead" "$(reeve list --where 'status=dead type=sh error=broken' --json | jq .id | head -n 1)"
	expect_eq "$first $second" "$(sql 'select id from long_running_tasks' | xargs)" 'the longest first'
	expect_eq '10 worker true' "$(sql "select extract(minute from timeout)::int || ' ' || worker || ' ' || (running > '0' and since + running <= clock_timestamp()) from long_running_tasks where id = $first")"
	wait_until 20 "[ \"\$(reeve list --running-longer 1s --json | jq .id | sort -n | xargs)\" = '$first $second' ]"
	# They are stopped and retried while they execute; then one is cancelled, and one is killed.
	rm "$DIR/began.$first.1" "$DIR/began.$second.1"
	reeve retry --where 'running_longer=1s type=sh' >/dev/null
	for id in "$first" "$second"; do
		wait_began "$id"
		expect_match 'claimed .*restarted .*claimed' "$(events "$id")"
	done
	reeve cancel "$first" >/dev/null
	reeve discard "$second" >/dev/null
	wait_status 60 "$first" cancelled
	wait_status 60 "$second" dead
	expect_eq '' "$(sql 'select id from long_running_tasks')"
	expect_eq "discarded||$second" "$(sql "select error_code, recoverable, id from dead_tasks where id = $second")"
}

# Reads the executions page by page, with several filters and lengths of pages: each filter with each length, but not all
# filters with each other. Fails if the sum is not that of the rows, or if a page begins where another has begun.
walks() {
	sql "do \$\$
		declare
			way record;
			page text;
			begun text[];
			n numeric;
			total numeric;
			wanted numeric;
			latest constant timestamptz := (select max(last_updated) from task_history where task_id < 0);
		begin
			for way in
				select * from (values (null::text), ('past'), ('none')) q(queue), (values (null::text), ('t1'), ('none')) t(type),
					(values (true), (false)) b(by_type), (values (null::boolean), (true), (false)) w(well), (values (now() - interval '200 minutes', 4000000), (now() - interval '200 minutes', 3000),
						(latest - interval '90 s', 1)) s(since, most)
				where (queue is not null or type is not null) and (well is null or by_type)
					and (by_type and well is null or 'none' <> all (array_remove(array[queue, type], null)))
			loop
				select count(*) into wanted from executions_raw(way.since, 'infinity', current_date - 1, true) e
					where (way.queue is null or e.queue = way.queue) and (way.type is null or e.type = way.type) and (way.well is null or e.well = way.well);
				page := null;
				begun := '{}';
				total := 0;
				loop
					select coalesce(sum(p.count), 0), max(p.next_page) into n, page
						from executions_page(way.queue, way.type, way.well, way.by_type, way.since, page, way.most) p;
					total := total + n;
					exit when page is null;
					if page = any (begun) then
						raise exception '%: page % again', way, page;
					end if;
					begun := begun || page;
				end loop;
				if total <> wanted then
					raise exception '%: % instead of %, on % pages', way, total, wanted, cardinality(begun) + 1;
				end if;
			end loop;
		end \$\$"
}

asked() { # OPTION…
	timeout 30 "$REEVE_BIN/reeve" stats --since '5h ago' --json "$@"
}

# Whatever is asked for, each page begins behind the one before, also if a stretch has only attempts of others or none.
test_pages_advance_whatever_is_asked_for() {
	sql "select route_of('past', 't1')" >/dev/null
	past_is_there
	recount_from "now() - interval '6 hours'"
	walks
	known past t1 none
	known none t1 none
	wait_until 150 "rolled_beyond \"now() - interval '20 minutes'\""
	walks
	expect_eq '' "$(asked --by type --queue past --type none)" 'nothing of that type'
	expect_eq '' "$(asked --by type --queue none --type t1)" 'nothing in that queue'
	expect_eq '' "$(asked --by hour --queue none --type none)" 'no such attempts'
	expect_eq t1 "$(asked --by type --type t1 | jq -r .type)" 'one of three types'
}

# A quarter of a million attempts that end within two seconds are still read in pages of about 50 ms.
test_many_attempts_that_end_at_once_are_read_in_parts() {
	sql "insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
			timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated)
		select (now() at time zone 'UTC')::date + 1, -1000000 - n, 1, 0, 'burst', 't', '', 'completed', now(), 1, 5, 1, 1, 1, true, '',
			now() - interval '10 s', now(), now() - interval '5 s' + interval '8 us' * n from generate_series(1, 250000) n"
	sql "create table pages (n int, counted bigint);
		do \$\$ declare page text; counted bigint; n int := 0; begin loop
			select sum(p.count), max(p.next_page) into counted, page from executions_page('burst', null, null, true, now() - interval '1 minute', page, 4000000) p;
			n := n + 1;
			insert into pages values (n, counted);
			exit when page is null;
		end loop; end \$\$"
	note "$(sql 'select n, counted from pages' | xargs)"
	expect_eq 250000 "$(sql 'select sum(counted) from pages')"
	expect [ "$(sql 'select max(counted) from pages')" -lt 150000 ]
	sql 'drop table pages; delete from task_history where task_id < -1000000'
}

run_tests
