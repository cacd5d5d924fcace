#!/usr/bin/env bash
# Listings, the dashboard's pages, and the jobs that remove old rows touch about as many pages when there are ten times as many
# waiting and ended tasks. tests/scale/reads measures listings with millions, tests/scale/web the dashboard.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/web.bash"
HISTORY_DAYS=30

load() { # WAITING ENDED
	"$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -v waiting="$1" -v ended="$2" -f "$TOP/tests/scale/load.sql" \
		"host=$PGDIR user=postgres dbname=reeve"
}

# Inserts rows that retention must keep yet, in the tables that it scans. Also inserts rows that it must remove:
# workers, and attempts and events of a live task, of which PostgreSQL's statistics do not show yet that they are many.
young() { # COUNT
	sql "insert into assignments (worker_id, fetch_id, task_ids, open, closed_at) select 1, n, '{}', 0, now() from generate_series(1, $1) n;
		insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated)
			select -n, now(), 1, 'completed', 'queued', true, now() from generate_series(1, $1) n;
		insert into task_events (task_id, version, event) select -n, now(), 'updated' from generate_series(1, $1) n;
		insert into workers (name, lost, registered, gone_at) select 'gone', true, gone - interval '15 s', gone
			from generate_series(1, 1000), (values (now() - interval '2 days'), (now() - interval '60 days')) v(gone);
		insert into batches (name, queue, implicit, phase, ended_at) select n, 'young', false, 'ended', now() from generate_series(1, $1) n;
		analyze assignments, task_attempts, task_events, batches, workers;
		insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated)
			select id, at, 1, 'completed', 'queued', true, at from (select min(id) as id from tasks) t, generate_series(1, 6000) n
			cross join lateral (select now() - interval '60 days' + n * interval '1 s' as at) x;
		insert into task_events (task_id, version, at, event) select task_id, token, token, 'newer_version'
			from task_attempts where last_updated < now() - interval '50 days'"
}

pages() { # STATEMENT PARAMETERS: how many pages it touches; the plan stays in $DIR/log/plans
	{
		echo "set search_path = reeve; set jit = off; set plan_cache_mode = force_generic_plan;"
		printf 'prepare s as\n%s;\n' "$(cat "$STATEMENTS/$1.sql")"
		echo "explain (analyze, buffers, costs off, timing off, summary off) execute s($2);"
	} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 "host=$PGDIR user=reeve dbname=reeve" | tee -a "$DIR/log/plans" | pages_touched
}

pages_touched() { # <PLAN
	awk -F '[ =]' '/Buffers: shared/ && !seen++ { for (i = 1; i < NF; i++) if ($i == "hit" || $i == "read") n += $(i + 1) } END { print n }'
}

# Prints the maximum of several measurements, for statements that also end after some time: on a busy machine they may do
# little in that time.
most_pages() { # STATEMENT PARAMETERS
	for _ in 1 2 3 4 5; do pages "$@"; done | sort -n | tail -n 1
}

measure() { # each listing with its pages, a line each
	local all="null,null,null,9223372036854775807,100,null,null,null"
	local rest="null,null,null,null,null,null,null,null,null,null,0,1000"
	echo "list $(pages list_tasks "$all,null,null,null,null,null,null,null,null,null,0,true,4000000,10000,1,null,'{}','{}',null,null,null")"
	echo "list-in-vain $(pages list_tasks "$all,'none',null,null,null,null,null,null,null,null,0,true,4000000,10000,1,null,'{}','{}',null,null,null")"
	echo "list-error-part $(pages list_tasks "$all,null,'none',null,null,null,null,null,null,null,0,true,4000000,10000,1,null,'{}','{}',null,null,null")"
	echo "list-error-code $(pages list_tasks "$all,null,null,'none',null,null,null,null,null,null,0,true,4000000,10000,1,null,'{}','{}',null,null,null")"
	echo "list-key $(pages list_tasks "$all,null,null,null,null,null,null,null,'none',null,0,true,4000000,10000,1,null,'{}','{}',null,null,null")"
	echo "list-executing $(pages list_tasks "$all,null,null,null,null,null,null,null,null,null,0,false,4000000,10000,2,null,'{}','{}',null,null,null")"
	echo "dry-run-cancel-in-vain $(pages find_tasks "'{queued,executing,failed}','none',$rest,'cancel',10000,'{}','{}',null,null,null")"
	echo "dry-run-retry-in-vain $(pages find_tasks "'{failed,dead,cancelled}','none',$rest,'retry',10000,'{}','{}',null,null,null")"
	echo "dry-run-update $(pages find_tasks "'{queued,failed}','queue3',$rest,'update',10000,'{}','{}',null,null,null")"
	echo "ready-page $(pages ready_page "'{1}','{0}','{-infinity}','{0}','{-infinity}','{100}','{2}','{0}','{1000000}'")"
	echo "ready-page-other-shard $(pages ready_page "'{1}','{0}','{-infinity}','{0}','{-infinity}','{100}','{2}','{1}','{1000000}'")"
	echo "audit $(most_pages audit_page "null,now() - interval '10 days',null,500,null,null,null,null,null")"
	echo "audit-newest $(most_pages audit_newest "null,null,1000")"
	echo "audit-newest-until $(most_pages audit_newest "null,now() - interval '1 hour',1000")"
	echo "queues $(most_pages queue_counts "null,null,4000000")"
	echo "queue-status $(pages queue_status "'queue3'")"
	echo "stats $(pages stats 60000)"
	echo "errors $(most_pages errors "'text',null,null,now() - interval '10 days',null,100,4000000")"
	echo "errors-of-none $(most_pages errors "'text','none',null,now() - interval '10 days',null,100,4000000")"
	echo "workers $(pages worker_list "false,60000,null,0,100,5000,4000000,null")"
	echo "workers-all $(pages worker_list "true,60000,null,0,10,5000,4000000,null")"
	echo "batches $(pages batch_list "null,false,9223372036854775807,10,10000,null")"
	echo "batches-of-queue $(pages batch_list "'queue0',false,9223372036854775807,1,10000,null")"
	echo "batches-open $(pages batch_list "'queue0',true,9223372036854775807,1,10000,null")"
	echo "callbacks $(pages callbacks_list "null,null,9223372036854775807,100,10000")"
	echo "callbacks-given-up $(pages callbacks_list "null,'given_up',9223372036854775807,10,10000")"
	echo "callbacks-of-batch $(pages callbacks_list "2,'given_up',9223372036854775807,10,10000")"
	echo "pipelines $(pages pipeline_list "'',2,4000000")"
	echo "schedules $(pages schedule_list "'',2,4000000")"
	echo "schedules-of-few-with-runs $(pages schedule_list "'',100,4000000")"
	echo "purge-assignments $(pages purge_assignments "30,null,0")"
	echo "purge-workers $(pages purge_workers 30)"
	echo "purge-unused-workers $(pages purge_unused_workers "30,'-infinity',0")"
	echo "purge-batches $(pages purge_batches "30,null,0")"
	echo "purge-attempts $(pages purge_attempts "30,'-infinity',0")"
	echo "purge-events $(pages purge_events "30,'-infinity',0")"
	echo "schedule-runs $(pages schedule_runs "'schedule-1',9223372036854775807,100")"
	echo "batch-report $(pages batch_report "2,0,100,4000000,null,false,null,1000000")"
	echo "metrics $(pages metrics_list "null,'','',10")"
	echo "executions-by-hour $(most_pages executions "'hour',null,null,now() - interval '10 days',null,4000000,'all',false")"
	echo "executions-by-type $(most_pages executions "'type',null,null,now() - interval '10 days',null,4000000,'all',false")"
	echo "check $(pages check "null,null,'{dead,failed,oldest_queued,running,schedules,callbacks,unserved,halted,missed,refused,queue_length}','{0,0,0,3600000,60000,0,0,0,0,0,0}'")"
}

# Goes through the dashboard; prints each statement that this needed with the most pages that it touched.
walk() { # TASKS: how many wait, and how many have ended
	: >"$DIR/log/postgres.log"
	start_manager --http "$H"
	drive "$TOP/tests/scale/walk.mjs" "$H" "$1" "$1" >>"$DIR/log/walk"
	stop manager
	awk '/^[0-9][0-9][0-9][0-9]-/ { mine = / reeve-manager (read|poll)/; name = "" }
		mine && /Query Text: -- / { name = $0; sub(/.*Query Text: -- /, "", name); gsub(/[^a-zA-Z]+/, "-", name); name = substr(name, 1, 60) }
		name && /Buffers: shared/ { n = 0; split($0, part, /[ =]/); for (i in part) if (part[i] == "hit" || part[i] == "read") n += part[i + 1]
			if (n > most[name]) most[name] = n; name = "" }
		END { for (name in most) print name, most[name] }' "$DIR/log/postgres.log" | sort
}

test_ten_times_as_much_costs_the_same() {
	H=http://127.0.0.1:$(free_port)
	start_postgres -c autovacuum=off -c shared_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 \
		-c auto_explain.log_analyze=on -c auto_explain.log_buffers=on -c auto_explain.log_timing=off
	start_manager
	stop manager
	load 20000 20000
	young 10000
	measure >"$DIR/small"
	sql "truncate reeve.tasks; truncate reeve.task_history; truncate reeve.assignments; select reeve.counts_recount()"
	load 200000 200000
	young 100000
	measure >"$DIR/large"
	note "$(paste "$DIR/small" "$DIR/large")"
	while read -r name before _ after; do
		[ "$after" -lt $((2 * before + 100)) ] || fail "$name touches $after pages, and $before with a tenth of the tasks"
	done < <(paste -d ' ' "$DIR/small" "$DIR/large")
	# 20,000 tasks are executing: these statements count them by the journal, and do not read them.
	for name in queues queue-status stats; do
		after=$(awk -v name=$name '$1 == name { print $2 }' "$DIR/large")
		[ "$after" -lt 30000 ] || fail "$name touches $after pages"
	done
	# Of a batch of which only few tasks are wanted, an answer checks a thousand.
	pages=$(pages batch_report "2,0,100,4000000,null,false,'failed',1000000")
	[ "$pages" -lt 3000 ] || fail "a report of failed tasks touches $pages pages"
	for name in purge-attempts purge-events; do
		after=$(awk -v name=$name '$1 == name { print $2 }' "$DIR/large")
		[ "$after" -lt 60000 ] || fail "$name touches $after pages"
	done
	expect_eq 42 "$(wc -l <"$DIR/large")"
	walk 200000 >"$DIR/large-walk" # after the measurements: a manager removes old rows
	sql "truncate reeve.tasks; truncate reeve.task_history; truncate reeve.assignments; select reeve.counts_recount()"
	load 20000 20000
	walk 20000 >"$DIR/small-walk"
	join "$DIR/small-walk" "$DIR/large-walk" >"$DIR/walk"
	note "$(cat "$DIR/walk")"
	[ "$(wc -l <"$DIR/walk")" -ge 15 ] || fail 'the dashboard needs more statements'
	# A statement that walked all tasks would touch more than 6,000. A page of errors has up to 5,000 attempts and as many
	# dead tasks, if they take less than 50 ms; there are fewer in the small one.
	while read -r name before after; do
		most=$((3 * before + 1500))
		case $name in Returns-errors-*) most=30000 ;; esac
		[ "$after" -lt $most ] || fail "of the dashboard, $name touches $after pages, and $before with a tenth of the tasks"
	done <"$DIR/walk"
}

# Prints the most pages that one of the manager's listings of tasks has touched.
listing_pages() {
	awk -F '[ =]' '/Query Text: -- Lists tasks that match/ { listing = 1 }
		listing && /Buffers: shared/ { n = 0; for (i = 1; i < NF; i++) if ($i == "hit" || $i == "read") n += $(i + 1); print n; listing = 0 }' \
		"$DIR/log/postgres.log" | sort -n | tail -n 1
}

# Each task of the batch is on a page of its own.
test_a_page_of_a_batch_reads_few_of_its_tasks() {
	start_postgres -c shared_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 \
		-c auto_explain.log_analyze=on -c auto_explain.log_buffers=on
	start_manager
	sql "select make_history_partitions((now() at time zone 'UTC')::date, 40);
		insert into routes (queue, type) values ('q', 't');
		insert into batches (name, queue, implicit, phase, ended_at) values ('scattered', 'q', false, 'ended', now());
		insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
			max_attempts, timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, batch_id, created, last_updated)
			select (now() at time zone 'UTC')::date + 31, n, r.id, 0, 'q', 't', repeat('x', 1500), 'completed', now(), 1,
				5, 1, 1, 1, true, '', now(), case when n % 6 = 0 then b.id end, now(), now()
			from generate_series(1, 36000) n, routes r, batches b where r.queue = 'q';
		analyze task_history"
	expect_eq 100 "$(reeve list --where batch=1 --limit 100 --json | wc -l)"
	expect_eq 1 "$(grep -c 'Query Text: -- Lists tasks that match' "$DIR/log/postgres.log")" 'one call'
	all=$(listing_pages)
	[ "$all" -gt 100 ] && [ "$all" -lt 1000 ] || fail "a page of a batch touches $all pages"
	expect_eq '' "$(reeve list --where 'batch=1 error~none' --limit 100 --json)"
	pages=$(listing_pages)
	note "$all pages, $pages pages in vain"
	[ "$pages" -gt 1000 ] && [ "$pages" -lt 3000 ] || fail "a page of a batch of which no task matches touches $pages pages"
}

# The estimate reads tasks of the batch, so a report makes it once, and not for each task that it returns.
test_a_report_estimates_the_remaining_time_once() {
	local id calls
	start_postgres
	start_manager
	id=$(reeve batch open big)
	seq -f '{"type":"t","details":"%.0f"}' 100 | reeve submit --bulk - --batch "$id" >/dev/null
	calls=$({
		echo "set search_path = reeve; set track_functions = 'all';"
		printf 'prepare s as\n%s;\n' "$(cat "$STATEMENTS/batch_report.sql")"
		echo "execute s($id,0,100,4000000,null,false,null,1000000);"
		echo "select 'calls', calls from pg_stat_xact_user_functions where funcname = 'batch_remaining_ms';"
	} | "$REEVE_TEST_PG_BIN/psql" -XAt -v ON_ERROR_STOP=1 "host=$PGDIR user=postgres dbname=reeve" | tee "$DIR/log/report")
	expect_eq 100 "$(grep -c '|t|' <<<"$calls")"
	expect_eq 'calls|1' "$(grep '^calls' <<<"$calls")"
}

# The counts of all routes are read once, not once for each type of the queue.
test_a_queue_of_many_types_is_counted_at_once() {
	local read count=()
	start_postgres
	start_manager
	stop manager
	sql "insert into routes (queue, type) select 'many', n from generate_series(1, 20000) n;
		insert into live_counts select id, 1, 0, 0 from routes on conflict do nothing;
		analyze routes, live_counts"
	for read in "queue_view('many')" 'live_totals(null)'; do
		count+=("$(sql "explain (analyze, buffers, costs off, timing off, summary off) select * from $read" | pages_touched)")
	done
	note "${count[*]} pages"
	[ "${count[1]}" -gt 100 ] && [ "${count[0]}" -lt $((4 * count[1])) ] ||
		fail 'a queue with all of 20,000 types touches more than four times as many pages as the counts of all queues'
}

# For each type one probe of the index finds its first task, and one that it has no other priority. A probe touches three
# or four pages.
test_a_check_of_many_types_probes_each_twice() {
	start_postgres -c autovacuum=off
	start_manager
	seq -f '{"type":"type%.0f"}' 2000 | reeve submit --bulk - >/dev/null
	stop manager
	sql 'analyze tasks'
	pages=$(pages check "null,null,'{oldest_queued}','{0}'")
	note "$pages pages"
	[ "$pages" -gt 4000 ] && [ "$pages" -lt 16000 ] || fail "a check of 2,000 types touches $pages pages"
}

run_tests
