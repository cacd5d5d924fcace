#!/usr/bin/env bash
# How PostgreSQL executes the hot statements, whatever its statistics about the tables: by the right indexes, and
# quickly.
. "$(dirname "$0")/lib.sh"
HISTORY_DAYS=30

HOT="submit submit_plain ready_page ready_streams claim claim_limited claim_locked complete complete_all end_attempts late_results heartbeat redeliver expired_find cancel_mark
	worker_commands lost_find requeue_find expired_advance cancel_waiting retry_waiting retry_ended
	register submit_drop_expired_keys worker_lose extend attempts_lock callbacks_take callbacks_finish
	batches_due batch_release batch_blocked remarks_keep progress_keep attempts_own"
HASHED="submit submit_plain requeue_find" # they join arrays with what they have found by index

set_up() { # a database as a manager makes it; nothing else reads its tables
	start_postgres -c autovacuum=off
	start_manager
	stop manager
}

statement() { # NAME: as PREPARE takes it
	printf 'prepare %s as\n%s;\n' "$1" "$(cat "$STATEMENTS/$1.sql")"
}

parameters_of() { # NAME: how many
	grep -v '^--' "$STATEMENTS/$1.sql" | grep -o '\$[0-9]*' | tr -d '$' | sort -n | tail -n 1
}

# Runs psql with the settings of a manager's session, and then the statements from standard input.
session() { # DATABASE HASH-JOINS
	{
		echo '\o /dev/null'
		statement session
		echo "execute session('0', '0', '0', true);"
		statement session_hot
		echo "execute session_hot('$2');"
		echo '\o'
		cat
	} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 "host=$PGDIR user=reeve dbname=$1"
}

plan_of() { # NAME: the generic plan
	local nulls
	nulls=$(seq "$(parameters_of "$1")" | sed 's/.*/null/' | paste -sd ,)
	{
		statement "$1"
		echo "explain (costs off) execute $1($nulls);"
	} | session reeve "$([[ " $HASHED " = *" $1 "* ]] && echo on || echo off)"
}

# Prints what is wrong with a plan. Sequential scans are switched off in these sessions, so a missing index shows as a
# scan of another, complete index: an index scan without a condition.
faults_in() { # NAME <PLAN
	awk -v name="$1" -v hashed="$([[ " $HASHED " = *" $1 "* ]] && echo 1)" -v windows="$([[ $1 = ready_* ]] && echo 1)" '
		function close_scan() {
			# Those hold nothing but what is wanted: the few queues and batches, the first callback that waits.
			if (scan != "" && !condition && scan !~ /(queues_(halted|keeping)|batches_live|callbacks_due) /)
				print "no condition:" scan
			scan = ""; condition = 0
		}
		/->|CTE |InitPlan|SubPlan/ { close_scan() }
		/Seq Scan on/ { print "sequential:" $0 }
		/Bitmap (Heap|Index) Scan/ { print "bitmap:" $0 }
		/(Hash|Merge) .*Join/ && !hashed { print "join:" $0 }
		/Scan.* on tasks( |$)/ && !/ using tasks_(pkey|ready|blocked) on tasks/ { print "tasks reached otherwise:" $0 }
		/ using tasks_ready / && !windows { print "tasks reached by the ready index:" $0 }
		/ using tasks_pkey / && windows { print "tasks reached by their id:" $0 }
		/Sort( |$)/ && name == "ready_page" { print "sorted:" $0 }
		/Index (Only )?Scan/ { scan = $0 }
		/Index Cond:/ { condition = 1 }
		/Index Cond:/ && name == "ready_page" && !/route_id = .*priority = .*run_at/ { print "too much of the stream:" $0 }
		END { close_scan() }'
}

expect_good_plans() { # WHEN
	local name plan faults bad=0
	for name in $HOT; do
		plan=$(plan_of "$name")
		expect_match 'Scan|Insert|Update' "$plan" "$name"
		faults=$(faults_in "$name" <<<"$plan")
		if [ -n "$faults" ]; then
			note "$1: $name: $faults" "$plan"
			bad=1
		fi
	done
	[ $bad = 0 ] || fail "plans that will not do: $1"
}

fill() { # DATABASE TASKS: waiting tasks, and what there is beside them
	session "$1" on <<-END
		insert into routes (queue, type) values ('q', 't') on conflict do nothing;
		insert into workers (name) select 'w' || n from generate_series(1, 50) n;
		insert into tasks (route_id, priority, queue, type, details, run_at, key, created, last_updated)
			select (select min(id) from routes), n % 3, 'q', 't', repeat('x', 100), now() - interval '1 ms' * n, 'k' || n, now(), now()
			from generate_series(1, $2) n;
		insert into keys (queue, key, task_id) select queue, key, id from tasks;
		insert into requests (id, task_ids) select gen_random_uuid(), array[id] from tasks where id % 10 = 0;
		insert into assignments (worker_id, fetch_id, next_expiry, task_ids, open, closed_at)
			select 1 + id / 20 % 50, id, now() + interval '1 hour', array[id], 0, case when id % 20 > 0 then now() end
			from tasks where id % 10 = 0;
		insert into worker_commands (worker_id, task_id, token, kind) select 1 + id / 10 % 50, id, last_updated, 'cancel' from tasks where id % 10 = 0;
		insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated)
			select id, now(), 1, 'failed', 'failed', true, now() from tasks where id % 10 = 0;
		insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
			max_attempts, timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated)
			select (now() at time zone 'UTC')::date + 1 + (id % 30)::int, -id, route_id, priority, queue, type, details, 'completed', run_at, 1,
				5, 1, 1, 1, true, '', now(), now(), now()
			from tasks where id % 2 = 0;
	END
}

TABLES="tasks, keys, requests, assignments, worker_commands, task_attempts, task_history, workers"

drain() { # DATABASE: everything goes, and PostgreSQL is told that nothing is there
	{
		printf 'delete from %s;\n' ${TABLES//,/}
		echo "vacuum analyze $TABLES;"
	} | session "$1" on
}

test_plans_of_a_new_database() {
	set_up
	expect_good_plans 'empty'
	fill reeve 20000
	expect_good_plans 'filled, never analyzed'
	session reeve on <<<"analyze $TABLES"
	expect_good_plans 'filled and analyzed'
}

# The statement runs each minute, and has work only if a clock was set back.
test_nothing_is_walked_while_the_clock_is_right() {
	set_up
	fill reeve 1000
	sql 'analyze'
	expect_no_match 'on (tasks|callbacks)[^)]*actual' "$({
		echo 'set search_path = reeve;'
		statement clock_forget
		echo 'explain (analyze, timing off, costs off) execute clock_forget;'
	} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 "host=$PGDIR user=reeve dbname=reeve")"
}

test_plans_after_a_queue_was_drained() {
	set_up
	fill reeve 20000
	drain reeve
	expect_good_plans 'drained and analyzed'
	expect_eq 0 "$(sql 'select count(*) from tasks')"
	fill reeve 200000
	expect_good_plans 'drained, analyzed and filled again'
}

# Claims tasks as managers do, a hundred at a time; prints how many pages that touched.
claim() { # DATABASE TASKS
	session "$1" off >"$DIR/claims.sql" <<-END
		select format('execute claim(%L, %L, array_fill(1, array[%s]), ''{1}'', ''{%s}'', 5000);', array_agg(id order by id),
			array_agg(last_updated order by id), count(*), batch)
		from (select id, last_updated, (row_number() over (order by priority desc, run_at) - 1) / 100 as batch
			from tasks where status = 'queued' order by priority desc, run_at limit $2) x
		group by batch order by batch
	END
	calm
	pages "$1" >"$DIR/before"
	{ statement claim && echo '\o /dev/null' && cat "$DIR/claims.sql"; } | session "$1" off
	calm
	echo $(($(pages "$1") - $(cat "$DIR/before")))
}

sql_in() { # DATABASE STATEMENT: as `sql`, which uses the test's own
	"$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d "$1" -c "$2"
}

calm() { # until every session in the two databases has ended, and what it did is counted
	sql_let_go
	wait_until 20 '[ "$(sql_in postgres "select count(*) from pg_stat_activity where datname in ('"'reeve', 'refilled'"')")" = 0 ]'
}

pages() { # DATABASE: how many its sessions have looked at so far
	sql_in postgres "select blks_hit + blks_read from pg_stat_database where datname = '$1'"
}

median() { # <NUMBERS
	sort -n | sed -n 3p
}

hot() { # DATABASE: updates, and whether at least 95 of 100 were HOT
	sql_in "$1" "select n_tup_upd, n_tup_hot_upd >= 0.95 * n_tup_upd from pg_stat_user_tables
		where schemaname = 'reeve' and relname = 'tasks'"
}

# Compares the work and not the time, which also depends on the machine.
test_claims_touch_no_index_and_stay_quick() {
	set_up
	sql_let_go
	sql_in postgres 'create database refilled template reeve owner reeve'
	fill refilled 5000
	drain refilled
	fill reeve 50000
	fill refilled 50000
	sql 'select min(id) from workers' >"$DIR/worker"
	session refilled off <<<"insert into workers (id, name) overriding system value values (1, 'again') on conflict do nothing"
	expect_eq 1 "$(cat "$DIR/worker")"
	for _ in 1 2 3 4 5; do
		claim reeve 5000 >>"$DIR/fresh"
		claim refilled 5000 >>"$DIR/refilled"
	done
	expect_eq '25000|1' "$(sql "select count(*), max(attempt) from tasks where status = 'executing'")"
	wait_until 20 '[ "$(hot reeve | cut -d"|" -f1)" = 25000 ] && [ "$(hot refilled | cut -d"|" -f1)" = 25000 ]'
	expect_eq '25000|t' "$(hot reeve)" 'claims, and whether they were HOT'
	expect_eq '25000|t' "$(hot refilled)" 'claims after the refill, and whether they were HOT'
	note "pages that 5000 claims looked at: $(paste -sd ' ' "$DIR/fresh"), and after the refill $(paste -sd ' ' "$DIR/refilled")"
	expect [ "$(median <"$DIR/refilled")" -le $((11 * $(median <"$DIR/fresh") / 10)) ]
}

# PostgreSQL evaluates such a row again, in a separate plan. What belongs to the entire statement must not run again
# with it.
test_a_claim_that_waited_for_a_row_writes_one_line_for_a_fetch() {
	set_up
	fill reeve 20
	mkfifo "$DIR/go"
	session reeve off >"$DIR/other" 2>&1 <<-END &
		begin;
		update tasks set priority = priority + 5 where id in (1, 8);
		\! touch $DIR/locked
		\! cat $DIR/go
		commit;
	END
	local other=$! claim
	wait_until 10 '[ -e "$DIR/locked" ]'
	{
		statement claim
		sql "select format('execute claim(%L, %L, %L, ''{1,2}'', ''{90001,90002}'', 5000);', array_agg(id order by id),
			array_agg(last_updated order by id), array_agg(1 + id % 2 order by id)) from tasks"
	} | session reeve off >"$DIR/claimed" 2>&1 &
	claim=$!
	wait_until 10 "[ \"\$(sql \"select count(*) from pg_stat_activity where wait_event_type = 'Lock'\")\" = 1 ]"
	echo >"$DIR/go"
	wait "$other"
	wait "$claim"
	expect_eq 20 "$(sql "select count(*) from tasks where status = 'executing'")"
	expect_eq '90001|10|10
90002|10|10' "$(sql "select a.fetch_id, a.open, cardinality(a.task_ids) from assignments a where a.fetch_id > 90000 order by 1")"
	expect_eq 20 "$(sql "select count(*) from tasks t join assignments a on a.id = t.assignment_id and a.worker_id = t.worker_id
		where t.id = any(a.task_ids)")"
}

heartbeats() { # WHAT of the updates of workers
	sql "select $1 from pg_stat_user_tables where schemaname = 'reeve' and relname = 'workers'"
}

# Compares all attempts that the workers have with all that are theirs by the journal. If each were compared with each,
# the heartbeats of a hundred busy workers would take minutes.
test_attempts_that_workers_have_are_not_compared_each_with_each() {
	set_up
	fill reeve 8000
	session reeve on >"$DIR/held" <<-END
		update tasks set status = 'executing', assignment_id = 1, worker_id = 1, expiry = now();
		insert into assignments (id, worker_id, fetch_id, next_expiry, task_ids, open) overriding system value
			select 1, 1, 1, now(), array_agg(id), count(*) from tasks
			on conflict (id) do update set worker_id = 1, fetch_id = 1, task_ids = excluded.task_ids, open = excluded.open,
				closed_at = null;
		select format('explain (analyze, timing off) execute requeue_find(%L, %L, %L, %L, %L, %L, %L, %L);', array[1], array[2],
			array[1], array_fill(1, array[1000]), array(select generate_series(1001, 2000)), array_agg(1), array_agg(id),
			array_agg(last_updated)) from tasks where id % 100 <> 0;
	END
	{ statement requeue_find && cat "$DIR/held"; } | session reeve on >"$DIR/plan"
	note "$(<"$DIR/plan")"
	expect_match 'Sort .*rows=80(\.00)? loops' "$(<"$DIR/plan")"
	expect_eq 0 "$(awk -F: '/Rows Removed by Join Filter/ { n += $2 } END { print n + 0 }' "$DIR/plan")"
}

buffers() { # [NODE]: those that the statement, whose plan is in the file, read in all or until this node had its rows
	awk -v node="${1:-}" '$0 ~ node { seen = 1 } seen && /Buffers:/ { for (i = 1; i <= NF; i++) if ($i ~ /^(hit|read)=/) { split($i, n, "="); all += n[2] } print all; exit }' "$DIR/plan"
}

# The history has an index in each of its partitions. Calls that wait for a thousand tasks ask for all of them again and
# again, and most have not ended.
test_the_history_is_searched_only_for_tasks_that_have_ended() {
	set_up
	fill reeve 20000
	session reeve on <<<"analyze $TABLES"
	{
		statement wait_poll
		sql "select format('explain (analyze, buffers, timing off, costs off) execute wait_poll(%L);',
			(select array_agg(id) from (select id from tasks order by id limit 1000) t) || array[-2, -4])"
	} | session reeve on >"$DIR/plan"
	note "$(<"$DIR/plan")"
	expect_match 'rows=1002(\.00)? loops' "$(<"$DIR/plan")"
	expect [ "$(buffers)" -lt 5000 ]
	# Every minute: what queues keep for hours is at the end of the partitions of two days, however much others keep there.
	drain reeve
	session reeve on >"$DIR/plan" <<-END
		insert into queues (name, keep_completed_hours) values ('hours', 1);
		insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
			max_attempts, timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated)
			select (case when n > 8000 then at else now() end at time zone 'UTC')::date + case when n > 8000 then 1 else n % 2 end, -100000 - n, 1, 0,
				case when n > 8000 then 'hours' else 'q' end, 't', repeat('x', 1700), 'completed', at, 1, 5, 1, 1, 1, true, '', at, at, at
			from generate_series(1, 8010) n cross join lateral (
				select now() - case when n > 8000 then interval '2 hours' else interval '31 days' - interval '1 s' * n end as at) x;
		select from history_summarize();
		analyze task_history;
		$(statement purge_hours)
		reset enable_bitmapscan; reset enable_seqscan; -- as in the session for maintenance
		explain (analyze, buffers, timing off, costs off) execute purge_hours;
	END
	note "$(grep -v 'never executed\|Delete on\|^ *Index Cond\|Heap Fetches' "$DIR/plan")"
	expect_match 'CTE gone.*Delete on task_history t[_0-9]* [(]actual rows=10(\.00)? ' "$(tr '\n' ' ' <"$DIR/plan")"
	expect [ "$(buffers 'CTE Scan on gone')" -lt 300 ]
}

# Tasks that have had attempts and wait for the first one again may be many: they wait in a later stage of their pipeline, or
# were retried after they had ended.
test_a_wait_for_a_retry_is_found_among_tasks_with_earlier_attempts() {
	set_up
	fill reeve 20000
	sql 'update tasks set started = now(); delete from assignments; select live_recount()'
	session reeve on <<<"analyze $TABLES"
	looked_at() { # STATEMENT: how many pages
		{
			statement retries_wait
			printf 'prepare conditions as\n%s;\n' "$(<"$STATEMENTS/check.sql")"
			echo "reset enable_bitmapscan; reset enable_seqscan; explain (analyze, buffers, timing off, costs off) $1;"
		} | session reeve on >"$DIR/plan"
		note "$1: $(buffers) pages"
		buffers
	}
	expect_eq 'pending|20000' "$(sql "select state, waiting from queue_view('q')")"
	expect [ "$(looked_at "select * from queue_view('q')")" -lt 1000 ]
	expect [ "$(looked_at "execute retries_wait('{q}', '{}')")" -lt 1000 ]
	sql "update tasks set status = 'failed', retrying = true where id = (select max(id) from tasks);
		select live_recount()"
	expect_eq 'running|20000' "$(sql "select state, waiting from queue_view('q')")"
	expect [ "$(looked_at "execute conditions(null, null, '{failed}', '{0}')")" -lt 1000 ]
}

# Every worker sends a heartbeat every few seconds, with data about itself.
test_heartbeats_touch_no_index() {
	set_up
	fill reeve 100
	session reeve on >"$DIR/heartbeats" <<-END
		select format('execute heartbeat(%L, %L, %L, %L, %L, %L, %L, %L, %L);', array_agg(id order by id), array_agg(seq order by id),
			array_agg((array['running', 'paused', 'draining'])[1 + (id + seq) % 3] order by id),
			array_agg(1 + (id + seq) % 7 order by id), array_agg(seq * 3 order by id), array_agg(seq order by id),
			array_agg(0), array_agg(0), '{}')
		from workers, generate_series(1, 20) seq group by seq order by seq
	END
	{ statement heartbeat && cat "$DIR/heartbeats"; } | session reeve off >"$DIR/renewed"
	expect_eq 1000 "$(grep -c . "$DIR/renewed")"
	wait_until 20 '[ "$(heartbeats n_tup_upd)" = 1000 ]'
	expect_eq t "$(heartbeats 'n_tup_hot_upd >= 950')"
}

run_tests
