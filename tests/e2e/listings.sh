#!/usr/bin/env bash
# Listings in pages: all rows are listed, each once, and no answer is too long or reads too many rows.
# timeout 600
. "$(dirname "$0")/lib.sh"

set_up() {
	start_postgres
	start_manager
}

# The workers' rows together are longer than the maximum message.
test_all_workers_are_listed() {
	set_up
	sql "insert into workers (name, queues, types, lost, gone_at)
		select 'w' || n, case when n % 100 = 0 then array_fill(repeat('q', 255), array[200]) when n % 10 = 1 then '{mail}' else '{}' end,
			case when n % 100 = 0 then array_fill(repeat('t', 255), array[200]) else '{}' end,
			n % 4 = 0, case when n % 4 = 0 then now() end
		from generate_series(1, 12000) n"
	expect_eq "$(sql 'select id from workers where not lost order by id')" "$(reeve worker list --json | jq .incarnation)"
	expect_eq "$(sql 'select id from workers order by id')" "$(reeve worker list --all --json | jq .incarnation)"
	sql "update workers set queues = '{other}' where queues = '{}' and id % 1000 > 5"
	expect_eq "$(sql "select id from workers where not lost and (queues = '{}' or 'mail' = any(queues)) order by id")" \
		"$(reeve worker list --queue mail --json | jq .incarnation)"
	# Only few of the workers that are read match.
	sql "update workers set queues = case when id < 11999 then array['other'] else '{mail}' end"
	expect_eq "$(sql 'select id from workers where not lost and id >= 11999')" "$(reeve worker list --queue mail --json | jq .incarnation)"
	# A queue's status has the first 100 of them.
	sql "insert into queues (name) values ('other')"
	expect_eq 100 "$(reeve queue status other --json | jq '.workers | length')"
	expect_match 'these are the first 100; reeve worker list --queue lists them all' "$(reeve queue status other)"
	# Pull clients count only if they have tasks.
	sql "update workers set manual = true where id > 5"
	sql "insert into assignments (worker_id, fetch_id, task_ids, open) values (10001, 1, '{1}', 1)"
	expect_eq "1 2 3 5 10001" "$(reeve worker list --json | jq .incarnation | xargs)"
}

test_names_of_a_worker_are_bounded_together() {
	set_up
	for i in $(seq 200); do printf '[handler %d%s]\nexec = /bin/true\n' "$i" "$(printf 't%.0s' $(seq 240))"; done | handlers
	names=$(for i in $(seq 100 499); do printf '%d%s,' "$i" "$(printf 'q%.0s' $(seq 240))"; done)
	expect_fail 4 timeout 20 "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" --handlers "$HANDLERS" --queue "${names%,}"
	expect_match 'queues and types have [0-9]+ bytes together; at most 131072 are allowed' "$OUTPUT"
}

# The workers' names together are longer than the maximum message.
test_a_command_to_very_many_workers_is_answered() {
	set_up
	sql "insert into workers (name) select repeat('w', 240) || n from generate_series(1, 40000) n"
	expect_match 'and 39000 more' "$(reeve worker pause --all | tail -n 1)"
	expect_eq 40000 "$(sql "select count(*) from worker_commands where kind = 'pause'")"
	expect_eq '1000 40000' "$(reeve worker resume --all --json | jq -r '"\(.names | length) \(.notified)"')"
}

test_callbacks_are_found_among_many() {
	set_up
	sql "insert into batches (name, queue, implicit, phase, ended_at) select 'b' || n, 'q', false, 'ended', now() from generate_series(1, 3) n"
	sql "insert into callbacks (batch_id, event, url, state, ended_at)
		select 1 + n % 2, 'task_end', 'http://127.0.0.1/x', case when n in (7, 8, 15000) then 'given_up' else 'delivered' end, now()
		from generate_series(1, 30000) n"
	expect_eq '15000 8 7' "$(reeve callback list --state given_up --json | jq .id | xargs)"
	expect_eq '15000 8' "$(reeve callback list --batch 1 --state given_up --json | jq .id | xargs)"
	expect_eq "$(sql "select id from callbacks where state = 'delivered' and batch_id = 2 order by id desc limit 2500")" \
		"$(reeve callback list --batch 2 --state delivered --limit 2500 --json | jq .id)"
	expect_eq "$(sql 'select id from callbacks order by id desc')" "$(reeve callback list --limit 100000 --json | jq .id)"
	# The few delivered callbacks are far down: several answers contain none.
	sql "update callbacks set state = 'given_up' where id > 3"
	expect_eq '3 2 1' "$(reeve callback list --state delivered --json | jq .id | xargs)"
	expect_eq '2' "$(reeve callback list --batch 1 --state delivered --json | jq .id | xargs)"
	expect_match 'no callbacks' "$(reeve callback list --batch 3 2>&1)"
	# A batch's callbacks are counted up to 1,000.
	expect_eq 1000 "$(reeve batch list --json | jq 'select(.id == 1).callbacks_given_up')"
}

test_batches_are_found_among_many() {
	set_up
	sql "insert into batches (name, queue, implicit, phase, ended_at)
		select 'b' || n, case when n in (4, 5, 11000) then 'rare' else 'q' end, false, case when n % 2 = 1 then 'ended' else 'new' end, now()
		from generate_series(1, 25000) n"
	expect_eq '11000 5 4' "$(reeve batch list --queue rare --json | jq .id | xargs)"
	expect_eq '11000 4' "$(reeve batch list --queue rare --open --json | jq .id | xargs)"
	expect_eq "$(sql 'select id from batches order by id desc limit 1234')" "$(reeve batch list --limit 1234 --json | jq .id)"
	expect_eq "$(sql "select id from batches where phase <> 'ended' order by id desc limit 700")" \
		"$(reeve batch list --open --limit 700 --json | jq .id)"
}

# The definitions together are longer than the maximum answer.
test_pipelines_and_schedules_are_listed() {
	set_up
	long=$(printf 'x%.0s' $(seq 200))
	sql "insert into pipelines (name, stages)
		select 'p' || to_char(n, 'FM00000'), (select jsonb_agg(jsonb_build_object('name', 's' || k || '$long', 'type', 't', 'max_attempts', 5,
			'timeout_ms', 60000, 'retry_base_ms', 1000, 'retry_max_ms', 60000)) from generate_series(1, case when n % 5 = 0 then 100 else 1 end) k)
		from generate_series(1, 1200) n"
	expect_eq "$(sql 'select name from pipelines order by name')" "$(reeve pipeline list --json | jq -r .name)"
	expect_eq 100 "$(reeve pipeline show p00005 --json | jq '.stages | length')"
	sql "insert into schedules (name, every_ms, spec, paused)
		select 's' || to_char(n, 'FM00000'), 60000, jsonb_build_object('type', repeat('t', 255), 'queue', repeat('q', 255), 'details', 'x', 'key',
			repeat('k', 250), 'source', repeat('s', 255), 'retry_policy', jsonb_build_object('kind', 'list', 'delays_ms',
			(select jsonb_agg(1000000000 + k) from generate_series(1, case when n % 2 = 0 then 900 else 1 end) k))), true
		from generate_series(1, 1000) n"
	expect_eq "$(sql 'select name from schedules order by name')" "$(reeve schedule list --json | jq -r .name)"
	sql "insert into schedule_runs (schedule_id, scheduled_at, outcome)
		select (select id from schedules where name = 's00001'), now() - interval '1 minute' * n, 'missed' from generate_series(1, 950) n"
	expect_eq "$(sql 'select id from schedule_runs order by id desc limit 900')" "$(reeve schedule runs s00001 --limit 900 --json | jq .id)"
}

# Rows of every listing, with names and texts as long as can be.
long_rows() {
	sql "create function public.name(text, int) returns text language sql as \$\$ select rpad(\$1 || \$2, 250, 'x') \$\$;
		insert into routes (queue, type) select name('q', n % 3), name('t', n) from generate_series(1, 400) n;
		insert into batches (name, queue, implicit) select name('b', n), name('q', n % 3), false from generate_series(1, 300) n;
		insert into tasks (route_id, priority, queue, type, key, source, run_at, created, last_updated, batch_id, status, started, last_error, error_code)
			select id, 0, queue, type, name('k', id), name('s', id), now() + interval '1 h', now(), now(), 1, 'failed',
				now() - interval '1 s' + interval '1ms' * id, repeat('e', 1000), name('c', id)
			from routes;
		insert into task_attempts (task_id, token, attempt, outcome, status, by_report, error, error_code, last_updated, queue, type)
			select id, started, 1, 'failed', 'failed', true, last_error, error_code, started + interval '2 s', queue, type from tasks;
		insert into executions select date_trunc('hour', now(), 'UTC') - interval '1 h' * h, queue, type, true, 1, 1000, 1000, 1000, now(), 1000
			from routes, generate_series(1, 3) h;
		update executions_rolled set until = now(), settled = now(), next_at = null, next_xid = null;
		insert into callbacks (batch_id, event, url, state, last_error, ended_at)
			select 1, 'task_end', 'http://' || name('u', n), 'given_up', repeat('e', 900), now() from generate_series(1, 300) n;
		insert into workers (name, host, version) select name('w', n), name('h', n), '1' from generate_series(1, 300) n;
		insert into worker_events (worker_id, event, actor, note) select id, 'registered', name('a', 1), name('n', 2) from workers;
		insert into queue_events (queue, event, actor, note) select name('q', 1), 'queue_set', name('a', n), repeat('n', 1000)
			from generate_series(1, 300) n;
		insert into metrics (category, name, value, source) select name('c', n % 3), name('m', n), n, name('s', n) from generate_series(1, 300) n;
		insert into pipelines (name, stages, source) select name('p', n), jsonb_build_array(jsonb_build_object('name', name('s', 1),
			'type', name('t', 1), 'max_attempts', 5, 'timeout_ms', 60000, 'retry_base_ms', 1000, 'retry_max_ms', 60000)), name('s', n)
			from generate_series(1, 300) n;
		insert into schedules (name, every_ms, spec, paused) select name('s', n), 60000, jsonb_build_object('type', name('t', n),
			'queue', name('q', 1), 'details', 'x', 'source', name('s', n)), true from generate_series(1, 300) n;
		insert into schedule_runs (schedule_id, scheduled_at, outcome, actor, note)
			select 1, now() - interval '1 minute' * n, 'refused', name('a', n), repeat('n', 900) from generate_series(1, 300) n;
		select counts_recount()" >/dev/null
}

# Prints how many rows a listing has.
listed() { # COMMAND…
	reeve "$@" --json | jq -s length
}

test_every_listing_comes_with_the_smallest_messages() {
	start_postgres
	start_manager
	stop manager
	long_rows
	start_manager --max-details 1 --max-result 1 --max-message 65537
	local schedule
	schedule=$(sql 'select name from schedules where id = 1')
	expect_eq 400 "$(listed queue list)"
	expect_eq 400 "$(listed list --limit 1000)"
	expect_eq 300 "$(listed batch list --limit 1000)"
	expect_eq 400 "$(reeve batch report 1 --json | jq '.tasks | length')"
	expect_eq 300 "$(listed callback list --limit 1000)"
	expect_eq 300 "$(listed worker list --all)"
	expect_eq 300 "$(reeve metric list --json | jq -s 'map(select(.category != "manager")) | length')"
	expect_eq 300 "$(listed pipeline list)"
	expect_eq 300 "$(listed schedule list)"
	expect_eq 300 "$(listed schedule runs "$schedule" --limit 1000)"
	expect_eq 400 "$(listed errors --by code --limit 1000)"
	expect_eq 600 "$(reeve audit --since '1h ago' --limit 10000 --json | jq -s 'map(select(.event == "registered" or .event == "queue_set")) | length')"
	expect_eq '400 4' "$(reeve stats --by type --status all --since '24h ago' --json | jq -rs '"\(length) \(map(.count) | max)"')"
	expect_eq 1600 "$(reeve stats --by hour --status all --since '24h ago' --json | jq -s 'map(.count) | add')"
	expect_eq 400 "$(reeve cancel --where status=failed --dry-run --json | jq -s length)"
	reeve queue status "$(sql "select name('q', 1)")" >/dev/null
}

# Their names take several messages of the default length.
test_twenty_thousand_types_are_listed() {
	start_postgres
	start_manager
	stop manager
	sql "insert into routes (queue, type) select 'wide', rpad('t' || n, 250, 'x') from generate_series(1, 20000) n;
		insert into executions select date_trunc('hour', now(), 'UTC') - interval '1 h', queue, type, true, 1, 1000, 1000, 1000, now(), 1000 from routes;
		insert into task_attempts (task_id, token, attempt, outcome, status, by_report, last_updated, queue, type)
			select id, now(), 1, 'completed', 'completed', true, now() + interval '1us' * id, queue, type from routes where id <= 10000;
		update executions_rolled set until = now(), settled = now(), next_at = null, next_xid = null;
		analyze" >/dev/null
	start_manager
	wait_until 60 'reeve stats >/dev/null' # it reads all types first
	expect_eq '20000 30000' "$(reeve stats --by type --json | jq -rs '"\(length) \(map(.count) | add)"')"
	expect_eq 20000 "$(listed queue list)"
}

errors_of() { # SQL-WHERE: what reeve errors should say
	sql "select error, sum(attempts), sum(waiting), sum(dead), count(*) over () from (
			select a.error, 1 as attempts, (exists (select from tasks t where t.id = a.task_id and t.status = 'failed' and t.started = a.token))::int
				as waiting, 0 as dead, a.error_code as code, a.queue, a.type
			from task_attempts a where outcome = 'failed' and last_updated >= now() - interval '10 hours'
			union all
			select last_error, 1, 0, 1, error_code, queue, type from task_history where status = 'dead' and last_updated >= now() - interval '10 hours') x
		where $1 group by error order by 1"
}

told_errors() { # [OPTION…]
	reeve errors --since '10h ago' --limit 10000 "$@" --json |
		jq -rs 'length as $n | sort_by(.error)[] | [.error, .attempts, .waiting, .dead, $n] | map(. // 0) | join("|")'
}

test_errors_of_many_pages_are_added_up() {
	set_up
	sql "insert into routes (queue, type) values ('q0', 't'), ('q1', 't')"
	sql "insert into tasks (route_id, queue, type, status, run_at, attempt, last_error, error_code, started, created, last_updated)
		select 1 + n % 2, 'q' || n % 2, 't', 'failed', now() + interval '1 day', 2, 'e' || n % 50, 'c' || n % 3,
			now() - interval '1 s' * n, now(), now() - interval '1 s' * n
		from generate_series(1, 20000) n order by n"
	sql "insert into task_attempts (task_id, token, attempt, outcome, status, by_report, error, error_code, queue, type, last_updated)
		select id, started - interval '1 s' * k, 2 - k, 'failed', 'failed', true, last_error, error_code, queue, type, last_updated - interval '1 s' * k
		from tasks, generate_series(0, 1) k"
	sql "insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
			timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, last_error, error_code, created, last_updated)
		select (now() at time zone 'UTC')::date + 31, 100000 + n, 1 + n % 2, 0, 'q' || n % 2, 't', '', 'dead', now(), 1, 1, 1, 1, 1, true, '',
			at - interval '1 s', 'e' || n % 70, 'c' || n % 3, at, at
		from (select n, now() - interval '1.3 s' * (n / 100 * 100) as at from generate_series(1, 20000) n) x" # a hundred at a time
	expect diff <(errors_of true) <(told_errors)
	expect diff <(errors_of "queue = 'q1'") <(told_errors --queue q1)
	expect_eq "$(sql "select sum(n) from (select count(*) as n from task_attempts where last_updated >= now() - interval '10 hours'
		union all select count(*) from task_history where status = 'dead') x")" \
		"$(reeve errors --since '10h ago' --by code --json | jq -s 'map(.attempts) | add')"
	expect_eq 3 "$(reeve errors --since '10h ago' --by code --json | wc -l)"
	# An error that is as long as an answer occurs many times.
	sql "update task_attempts set error = repeat('long ', 100000) where last_updated > now() - interval '100 s'"
	expect_eq "$(sql "select count(*) from task_attempts where error like 'long %'")" \
		"$(reeve errors --limit 10000 --json | jq 'select(.error | startswith("long ")).attempts')"
}

test_executions_of_many_pages_are_added_up() {
	set_up
	sql "insert into routes (queue, type) values ('q0', 't'), ('q1', 't')"
	# Half of the hours are in the statistics already.
	sql "insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
			timeout_ms, retry_base_ms, retry_max_ms, by_report, source, token, created, last_updated)
		select (now() at time zone 'UTC')::date + 31, n, 1 + n % 2, 0, 'q' || n % 2, 't', '', case when n % 10 = 0 then 'dead' else 'completed' end,
			now(), 1, 1, 1, 1, 1, true, '', at - interval '1 ms' * (n % 1000), at, at
		from (select n, now() - interval '0.6 s' * n as at from generate_series(1, 60000) n) x"
	sql "update executions_rolled set until = date_trunc('hour', now()) - interval '5 hours', settled = date_trunc('hour', now()) - interval '5 hours'"
	sql "insert into executions
		select date_trunc('hour', last_updated), queue, type, status = 'completed', count(*), sum(us), min(us), max(us), max(last_updated), 1
		from (select *, (extract(epoch from last_updated - token) * 1000000)::bigint as us from task_history) h
		where last_updated < (select until from executions_rolled) group by 1, 2, 3, 4"
	for since in 9 7.3 0.4; do
		at=$(sql "select to_char((now() - interval '1 hour' * $since) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
		expect diff <(sql "select queue, count(*), count(*) filter (where status = 'completed'), min(ms), max(ms)
				from (select *, round(extract(epoch from last_updated - token) * 1000) as ms from task_history) h
				where last_updated >= '$at' group by 1 order by 1") \
			<(reeve stats --by type --status all --since "$at" --json | jq -r '[.queue, .count, .completed, .fastest_ms // 0, .slowest_ms] | map(tostring) | join("|")')
		expect diff <(sql "select to_char(date_trunc('hour', last_updated at time zone 'UTC'), 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), count(*) from task_history
				where last_updated >= '$at' and queue = 'q1' group by 1 order by 1") \
			<(reeve stats --by hour --status all --queue q1 --since "$at" --json | jq -r '"\(.hour)|\(.count)"' | sed 's/\.000000Z/Z/')
	done
}

# There is one task in each of 5,000 queues, and a worker for every second queue.
test_reasons_are_shown_with_many_queues_and_workers() {
	set_up
	sql "insert into routes (queue, type) select 'q' || n, 't' from generate_series(1, 5000) n;
		insert into workers (name, queues, types) select 'w' || n, array['q' || n], case when n % 3 = 0 then '{t}' else array[]::text[] end
			from generate_series(1, 5000, 2) n;
		insert into tasks (route_id, queue, type, run_at, created, last_updated)
			select id, queue, type, now(), now(), now() from routes where queue ~ '^q[0-9]+\$';
		select counts_recount()" >/dev/null
	expect_eq '2500 no_worker 2500 turn' "$(reeve list --limit 5000 --json | jq -r .waiting.reason | sort | uniq -c | xargs)"
	expect_eq "$(sql "select id from tasks where substring(queue from 2)::int % 2 = 0 order by id desc")" \
		"$(reeve list --limit 5000 --json | jq 'select(.waiting.reason == "no_worker").id')"
	expect_eq 2500 "$(reeve check --unserved 10000 --json | jq '.conditions[0].value')"
	expect_eq 10 "$(reeve check --unserved 10000 --json | jq '.conditions[0].examples | length')"
	# With a worker that takes everything, no task lacks a worker. That worker and w1 are busy, so that only in q1 all
	# slots of two workers are busy.
	sql "insert into workers (name) values ('all');
		insert into assignments (worker_id, fetch_id, task_ids, open) select id, 1, '{1}', 1 from workers where name in ('all', 'w1')"
	expect_eq '2499 ["turn",2,2,1] 2500 ["workers_busy",1,1,1] 1 ["workers_busy",2,2,2]' "$(reeve list --limit 5000 --json |
		jq -c '.waiting | [.reason, .workers, .slots, .busy]' | sort | uniq -c | sed 's/^ *//' | paste -sd ' ')"
}

run_tests
