#!/usr/bin/env bash
# Large numbers: idle workers, types that no worker takes, Fetches of incarnations that never existed, and reconnects of
# all workers at once.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.bash"

scale() { # OUTPUT OPTION…: simulated workers at the manager named `manager`, and what that cost
	begin_scale "$1" manager "${@:2}"
	end_scale "$1"
}

begin_scale() { # OUTPUT MANAGER OPTION…
	start "$1" timeout 240 "$REEVE_BIN/bench-scale" --manager "${URL[$2]}" --pid "$(pid "$2")" --connections 20 "${@:3}"
}

end_scale() { # OUTPUT
	local out=$DIR/$1
	ended "$1" 240
	expect_eq 0 "$STATUS" "exit code of bench-scale $1"
	grep -E '^[a-z_0-9]+ [0-9.-]+' "$DIR/log/$1.log" >"$out"
	note "$1:" "$(tr '\n' ';' <"$out")"
	expect_match '^heartbeat_errors 0.*heartbeat_unanswered 0.*ping_errors 0.*ping_unanswered 0' "$(grep -E '_(errors|unanswered) ' "$out" | xargs)"
	expect_eq '' "$(awk '/_(errors|unanswered) / && $2 != 0' "$out")" 'calls that failed or were not answered'
}

figure() { # OUTPUT NAME
	awk -v name="$2" '$1 == name { print $2 }' "$DIR/$1"
}

expect_that() { # CONDITION, with figures in it
	[ "$(awk "BEGIN { print ($1) ? 1 : 0 }")" = 1 ] || fail "not so: $1"
}

# The other tests rely on this benchmark: it must not count a heartbeat as fast because the next one is fast, because it
# failed, or because it was not answered.
test_heartbeats_that_are_slow_or_fail_or_are_not_answered_are_seen() {
	start_postgres
	start_manager manager --lease 3s --heartbeat 300ms --expiry-grace 5s
	start bench "$REEVE_BIN/bench-scale" --manager "${URL[manager]}" --workers 20 --connections 20 --seconds 120
	wait_until 60 'grep -q "^bench-scale: measures" "$DIR/log/bench.log"'
	signal manager STOP
	sleep 1.5
	signal manager CONT
	stop_postgres immediate
	sleep 3
	start_postgres
	wait_until 30 'reeve stats >/dev/null 2>&1'
	signal manager STOP
	sleep 1.5 # several heartbeats
	signal bench INT
	ended bench 60
	signal manager CONT
	expect_eq 0 "$STATUS"
	note "$(grep -v '^bench' "$DIR/log/bench.log" | tr '\n' ';')"
	expect_that "$(figure log/bench.log heartbeat_max) > 1400"
	expect_that "$(figure log/bench.log heartbeat_errors) > 0"
	expect_that "$(figure log/bench.log heartbeat_unanswered) > 0"
	expect_that "$(figure log/bench.log ping_unanswered) >= 1"
}

# Five hundred workers wait, and none takes the waiting tasks, of a thousand types: that costs about as little as no tasks,
# at a manager with as many workers at the same time.
# measures time
test_types_without_a_worker_cost_nothing() {
	start_postgres
	sql 'create database apart owner reeve'
	start_manager apart --database "${CONNINFO/dbname=reeve/dbname=apart}" --lease 3s --heartbeat 1s
	start_manager manager --lease 3s --heartbeat 1s
	begin_scale without apart --workers 500 --seconds 10
	begin_scale with manager --workers 500 --routes 1000 --seconds 10
	end_scale without
	end_scale with
	expect_eq 0.000 "$(figure with lost)"
	expect_that "$(figure with cpu) < 2 * $(figure without cpu) + 5"
	expect_that "$(figure with heartbeat_p50) < 3 * $(figure without heartbeat_p50) + 50"
	expect_that "$(figure with heartbeat_max) < 3000"
}

# Fetches of incarnations that never existed are refused, and workers continue. Some heartbeats are sent at the same
# time. An invented Fetch that took part in claims would win none of the tasks that a claim tries for it.
# measures time
test_fetches_of_unknown_workers_delay_no_other() {
	local won vain
	start_postgres
	start_manager manager --lease 3s --heartbeat 300ms --expiry-grace 5s
	scale with --workers 4 --tasks 20000 --slots 100 --invented 64
	expect_eq 0.000 "$(figure with lost)"
	expect_that "$(figure with refused) > 20"
	expect_that "$(figure with heartbeat_max) < 3000"
	won=$(counter manager claims_won)
	vain=$(($(counter manager claims_tried) - won))
	note "$won tasks were claimed, $vain in vain"
	expect [ "$won" -ge 20000 ]
	expect [ "$vain" -le 200 ]
}

# Workers that were cut off for longer than their lease resend their Fetches to another manager.
# measures time
test_workers_that_come_back_after_their_lease_harm_no_other() {
	start_postgres
	start_manager other --lease 3s --heartbeat 1s
	start_manager manager --lease 3s --heartbeat 1s
	scale back --workers 1 --tasks 5000 --slots 100 --returning 500 --elsewhere "${URL[other]}"
	expect_eq 500 "$(sql 'select count(*) from workers where lost')"
	expect_eq 0.000 "$(figure back lost)" 'the one that lives'
	expect_that "$(figure back returned_time) < 3"
	expect_eq 5000 "$(sql "select count(*) from task_history where status = 'completed' and attempt = 1")"
}

# All workers disconnect at once and reconnect: each soon has a lease, and keeps it.
# measures time
test_a_thousand_that_reconnect_at_once_are_served() {
	start_postgres
	start_manager manager --lease 3s --heartbeat 1s
	scale again --workers 1000 --connections 200 --seconds 2 --reconnect
	expect_eq 0.000 "$(figure again reconnect_lost)"
	expect_that "$(figure again register_time) < 10 && $(figure again reconnect_time) < 10"
	expect_eq 1000 "$(sql 'select count(*) from workers where not lost')"
	expect_eq 1000 "$(sql "select count(*) from worker_events where event = 'returned'")"
}

of() { # MANAGERS NAME: the figure with one manager, or two
	figure "log/streams_$1.log" "$2"
}

counter() { # MANAGER NAME
	reeve stats --manager "${URL[$1]}" --json | jq ".counters[] | select(.name == \"$2\").value"
}

# Prints how many statements PostgreSQL has executed, by its log. ROLE, of the managers' connection, and NAME, of the
# statement, are patterns.
statements() { # ROLE NAME
	grep -cE "\] reeve-manager ($1) LOG:  duration: .* execute ($2):" "$DIR/log/postgres.log" || true
}

# Tasks of 400 new types, and a database 10 ms away in each direction: two managers start them like one manager, which has
# a database of its own and as many tasks at the same time. The tasks are few, so that the round trips to the database
# take most of the time. The medians were equal to a tenth, also beside 24 busy processes; they differ by three quarters
# if a manager leaves each task of the other's shard to it.
# measures time
test_two_managers_keep_up_with_many_types() {
	local name median
	start_postgres
	sql 'create database apart owner reeve'
	start_proxy away postgres
	tell away delay up 10
	tell away delay down 10
	start_manager apart --database "${PROXY[away]/dbname=reeve/dbname=apart}"
	start_manager one --database "${PROXY[away]}"
	start_manager two --database "${PROXY[away]}"
	start streams_1 timeout 120 "$REEVE_BIN/bench-streams" types "${URL[apart]}" 400 60 10
	start streams_2 timeout 120 "$REEVE_BIN/bench-streams" types "${URL[one]},${URL[two]}" 400 60 10
	for name in streams_1 streams_2; do
		ended $name 120
		expect_eq 0 "$STATUS" "exit code of $name"
		note "$name:" "$(grep '^types_' "$DIR/log/$name.log" | tr '\n' ';')"
	done
	for median in types_p50 types_later_p50; do
		expect_that "$(of 2 $median) < 1.4 * $(of 1 $median)"
	done
	expect_that "$(of 2 types_p95) < $(of 1 types_p95) + 500"
	expect_eq 0 "$(sql "select count(*) from tasks t where status = 'queued' and exists (
		select from task_history h where h.type = t.type and h.created > t.created + interval '5s')")" 'tasks that later ones of their type overtook'
	expect_that "$(of 2 types_rate) > 0.9 * $(of 1 types_rate)"
	# Each manager reads each stream at intervals; a notification that names no stream does not cause a read of all
	# streams.
	pages=$(($(counter one pages_read) + $(counter two pages_read)))
	tasks=$(sql 'select count(*) from task_history')
	note "$pages pages for $tasks tasks"
	expect [ "$tasks" -ge 500 ]
	expect [ "$pages" -le $((15 * 2 * 400)) ] # fifteen of each of 400 streams by each manager
	sql "alter system set log_min_duration_statement = 0"
	sql 'select pg_reload_conf()' >/dev/null
	one_statement_reads_many_types
	one_statement_looks_many_strangers_up
	one_statement_looks_many_lost_workers_up
	one_caller_looks_up_beside_a_flood_of_strangers
}

# A cold start with a task of each of 2,000 types, and a database 4 ms away in each direction, beside one with a database that is
# near, so that other load on the machine delays both. If each statement read one stream, the last task would start after 16 s.
# measures time
test_thousands_of_types_start_soon_with_a_slow_database() {
	local name
	start_postgres
	sql 'create database apart owner reeve'
	start_proxy away postgres
	start_manager near --database "${CONNINFO/dbname=reeve/dbname=apart}"
	start_manager far
	for name in near far; do "$REEVE_BIN/bench-streams" fill "${URL[$name]}" 2000 fill 1 2>>"$DIR/log/fill.log"; done
	stop near
	stop far
	tell away delay up 4
	tell away delay down 4
	start_manager near --database "${CONNINFO/dbname=reeve/dbname=apart}"
	start_manager far --database "${PROXY[away]}"
	for name in near far; do start "$name-cold" timeout 60 "$REEVE_BIN/bench-streams" cold "${URL[$name]}" 2000 cold 2; done
	for name in near far; do
		ended "$name-cold" 60
		expect_eq 0 "$STATUS" "exit code of $name-cold"
		note "$name:" "$(grep '^cold_' "$DIR/log/$name-cold.log" | tr '\n' ';')"
	done
	expect_that "$(figure log/far-cold.log cold_first) < $(figure log/near-cold.log cold_first) + 1000"
	expect_that "$(figure log/far-cold.log cold_backlog) < $(figure log/near-cold.log cold_backlog) + 2000"
	expect_that "$(figure log/far-cold.log cold_later_p50) < 3 * $(figure log/near-cold.log cold_later_p50) + 50"
}

# 400 more types are submitted at once, to the manager that has no worker: their first pages are read together.
one_statement_reads_many_types() {
	local n first
	for n in $(seq 400); do printf '[handler more%d]\nexec = /bin/true\n' "$n"; done | handlers
	REEVE_MANAGER=${URL[one]} start_worker worker --concurrency 16
	for n in $(seq 400); do echo "{\"type\": \"more$n\"}"; done | reeve submit --bulk - --manager "${URL[two]}" >/dev/null
	wait_until 30 '[ "$(sql "select count(*) from task_history where type ~ '"'^more'"'")" = 400 ]'
	first=$(sql "select min(id) from routes where type ~ '^more'")
	# A statement's first parameter has its routes.
	awk -v first="$first" '
		/\] reeve-manager ready LOG: / { page = / execute ready_page:/ }
		/\] reeve-manager ready DETAIL:  parameters: / && page {
			split($0, quoted, "\047")
			n = split(substr(quoted[2], 2, length(quoted[2]) - 2), routes, ",")
			new = 0
			for (i = 1; i <= n; i++) if (routes[i] >= first && !seen[routes[i]]++) new++
			if (new) print new
		}' "$DIR/log/postgres.log" >"$DIR/first-pages"
	note "statements that read first pages, and of how many types: $(xargs <"$DIR/first-pages")"
	expect_eq 400 "$(awk '{ n += $1 } END { print n }' "$DIR/first-pages")"
	expect [ "$(grep -c . "$DIR/first-pages")" -le 20 ]
	stop worker
}

# 500 Fetches of incarnations that never existed: one statement checks up to 100 of them, on a database connection that
# nothing else needs. While it is under way (100 ms) more Fetches arrive, which wait for the next one.
one_statement_looks_many_strangers_up() {
	local looks all
	looks=$(statements lookup 'redeliver|worker_lookup')
	all=$(statements '.*' 'redeliver|worker_lookup')
	tell away delay up 50
	tell away delay down 50
	start outside_faults python3 "$TOP/tests/tools/overload.py" "${URL[one]}" fetches 500
	wait_until 20 '[ "$(grep -c "9 incarnation .* register again" "$DIR/log/outside_faults.log")" = 500 ]'
	looks=$(($(statements lookup 'redeliver|worker_lookup') - looks))
	all=$(($(statements '.*' 'redeliver|worker_lookup') - all))
	note "$looks statements have looked outside_faults up"
	expect [ "$looks" -ge 5 ]
	expect [ "$looks" -le 10 ]
	expect_eq "$looks" "$all" 'look-ups of all connections'
}

# 200 Fetches wait, and their workers are lost without a notification to this manager, as pull clients are. The manager
# finds out when their claim returns no rows; one statement checks many of them.
one_statement_looks_many_lost_workers_up() {
	local looks asked
	looks=$(statements lookup worker_lookup)
	asked=$(counter one lookup_operations)
	reeve cancel --where status=queued >/dev/null || [ $? = 4 ] # 4: the workers of before have left none
	sql "insert into workers (id, name, host, manual) overriding system value select 800000000 + n, 'lost ' || n, '', true from generate_series(1, 200) n"
	start lost python3 "$TOP/tests/tools/overload.py" "${URL[one]}" fetches 200 800000001
	wait_until 20 "[ \"\$(counter one lookup_operations)\" -ge $((asked + 200)) ]"
	pause 0.5 # the last of them has been answered: they all live
	sql 'update workers set lost = true, gone_at = clock_timestamp() where id > 800000000'
	for _ in $(seq 200); do echo '{"type": "odd"}'; done | reeve submit --bulk - --manager "${URL[one]}" >/dev/null
	wait_until 20 '[ "$(grep -c "9 incarnation .* register again" "$DIR/log/lost.log")" = 200 ]'
	looks=$(($(statements lookup worker_lookup) - looks))
	note "$looks statements have looked lost workers up"
	expect [ "$looks" -ge 1 ]
	expect [ "$looks" -le 20 ]
}

# 2,000 Fetches of one connection need 20 queries, which take 4 s; a Fetch of another connection does not wait for
# these.
one_caller_looks_up_beside_a_flood_of_strangers() {
	local answered open
	tell away delay up 100
	tell away delay down 100
	read -r _ answered open _ < <(timeout 60 python3 "$TOP/tests/tools/overload.py" "${URL[one]}" strangers)
	note "$answered of the flood's $open open Fetches had been answered when the other was"
	expect [ "$answered" -lt $((open * 3 / 4)) ]
}

# The tests of speed compare with this: the manager's statements, executed by plain libpq.
test_the_floor_runs() {
	start_postgres
	"$REEVE_BIN/bench-floor" "$CONNINFO" 10000 500 1 >"$DIR/floor" || fail "bench-floor: exit code $?"
	expect_eq 'insert drain cycle' "$(awk '$2 > 0 { print $1 }' "$DIR/floor" | xargs)"
	expect_eq 20000 "$(sql 'select count(*) from task_history')"
}

test_new_types_are_refused_over_the_limit() {
	start_postgres
	start_manager manager --max-routes 50
	for i in $(seq 50); do echo "{\"type\": \"t$i\"}"; done >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" >/dev/null
	expect_match '^9 .*there would be more than 50 \(--max-routes\)' "$(printf '\x0a\x0a\x12\x08one_more' |
		"$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.TaskService/Submit)"
	reeve submit --bulk "$DIR/tasks" >/dev/null
	expect_eq 100 "$(sql 'select count(*) from tasks')"
	expect_eq 50 "$(sql 'select count(*) from routes')"
}

run_tests
