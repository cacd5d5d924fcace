#!/usr/bin/env bash
# Callers that use more than their share: their effect on others is limited (invariant I8), memory is bounded
# (I7), and errors name the limit that they reached.
# timeout 600
# parts 2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

greedy() { # NAME ARGUMENT…: starts it and waits until it has done what it does
	local name=$1
	start "$name" python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" "${@:2}"
	wait_until 60 "grep -qx ready $DIR/log/$name.log"
}

resident() { # NAME: KiB
	awk '/^VmRSS:/ { print $2 }' "/proc/$(pid "$1")/status"
}

forget_peak() { # NAME: most_resident counts from now on
	echo 5 >"/proc/$(pid "$1")/clear_refs"
}

most_resident() { # NAME: KiB, the most that it was at any moment
	awk '/^VmHWM:/ { print $2 }' "/proc/$(pid "$1")/status"
}

told() { # NAME TEXT: how many answers of a greedy program said so
	awk -v text="$2" 'index($0, text) { n += $1 } END { print n + 0 }' "$DIR/log/$1.log"
}

counter() { # NAME: of the manager
	reeve stats --json | jq ".counters[] | select(.name == \"$1\").value"
}

# Limits the freed memory that the sanitizer keeps for a while, because it would count in these measurements.
export_asan() {
	ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1:thread_local_quarantine_size_kb=16
}

# The flood lasts longer than two leases of 3 s: without answers to its heartbeats the worker would be lost twice.
# measures time
test_one_connection_cannot_take_all_calls() {
	start_postgres
	start_manager --lease 3s --heartbeat 1s
	start_worker
	id=$(reeve submit nothing --delay 1h)
	greedy flood waits 20500 "$id"
	wait_until 10 "grep -q -- '--connection-share of --max-calls' $DIR/log/flood.log"
	before=$(worker_incarnation worker)
	for _ in 1 2 3 4 5 6; do
		expect_eq x "$(reeve submit echo x --wait --timeout 20s)"
		expect_match '^REEVE OK' "$(reeve check --longest-running 1h)"
		sleep 1
	done
	expect_eq "$before" "$(worker_incarnation worker)" "the worker was lost"
	expect_no_match 'is lost' "$(cat "$DIR/log/manager.log")"
	# A closed connection releases its calls, so there is room for 2,000 calls again, though not for 4,000.
	start_manager small --max-calls 2500 --connection-share 100
	greedy first waits 2000 "$id"
	wait_until 10 '[ "$(counter open_calls)" -ge 2000 ]'
	stop first KILL
	wait_until 10 '[ "$(counter open_calls)" -lt 100 ]'
	greedy again waits 2000 "$id"
	wait_until 10 '[ "$(counter open_calls)" -ge 2000 ]'
	expect_eq 0 "$(counter calls_refused)"
}

# Waits have taken all calls: others still get through. A worker registers, fetches, sends heartbeats, reports, has an
# attempt extended and leaves; operators' calls and submits are served, and a task is awaited.
# measures time
test_leases_are_kept_when_all_calls_are_taken() {
	start_postgres
	start_manager --lease 3s --heartbeat 1s --max-calls 1000 --connection-share 100
	id=$(reeve submit nothing --delay 1h)
	start_worker worker --concurrency 1 # no Fetch comes and goes while its task runs: the floods have all calls
	task=$(reeve submit sh "until [ -e $DIR/enough ]; do sleep 0.1; done; echo done")
	wait_until 10 '[ "$(sql "select status from tasks where id = $task")" = executing ]'
	for i in 1 2 3; do greedy "flood$i" waits 600 "$id"; done
	expect_match executing "$(reeve show "$task")"
	reeve worker list | grep -q worker
	wait_until 10 "grep -q '1000 calls are open.*--max-calls' $DIR/log/flood3.log"
	launch_worker another
	wait_until 10 '[ "$(worker_incarnation another)" -gt 0 ]'
	expect_eq x "$(reeve submit echo x --wait --timeout 20s)"
	expect_match '^1h' "$(reeve extend "$task" "$(field "$task" token)" 1h)"
	kill_worker another # by itself it would wait for the answer to its Fetch
	printf "\\x08\\x$(printf %02x "$(worker_incarnation another)")" |
		"$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.WorkerService/Leave >/dev/null
	expect_eq 'registered left' "$(sql "select string_agg(event, ' ' order by id) from worker_events where worker_id = $(worker_incarnation another)")"
	pause 4 # more than a lease
	: >"$DIR/enough"
	wait_until 20 '[ "$(sql "select count(*) from task_history where task_id = $task and attempt = 1 and status = '"'completed'"'")" = 1 ]'
	expect_no_match 'is lost' "$(cat "$DIR/log/manager.log")"
}

# Operators' calls, up to their maximum, wait for a locked table: the calls of another operator are still answered.
test_operators_reads_leave_room_for_other_operators() {
	start_postgres
	start_manager --max-calls 200 --connection-share 100
	start holder "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve \
		-c begin -c 'lock table reeve.schedules in access exclusive mode' -c 'select pg_sleep(600)'
	wait_until 10 '[ "$(sql "select count(*) from pg_locks where mode = '"'AccessExclusiveLock'"' and relation = '"'schedules'"'::regclass and granted")" = 1 ]'
	greedy flood reads 10 100
	wait_until 10 "grep -q 'max-calls' $DIR/log/flood.log"
	for n in $(seq 10); do
		expect [ "$(reeve stats --json | jq '[.counters[].value] | length')" -gt 0 ]
		reeve worker list >/dev/null
	done
	sql "select pg_terminate_backend(pid) from pg_locks where mode = 'AccessExclusiveLock' and relation = 'schedules'::regclass" >/dev/null
}

test_announced_messages_take_no_memory() {
	export_asan
	start_postgres
	start_manager
	before=$(resident manager)
	greedy flood announce 150 1000000
	sleep 1
	after=$(resident manager)
	[ $((after - before)) -lt 60000 ] || fail "$before KiB before, $after KiB after"
	# The manager closes these connections after a while.
	wait_until 30 "grep -q closed $DIR/log/flood.log"
	reeve stats >/dev/null
}

ten_thousand_tasks() { # sets `first` to the first one's id; the others follow
	first=$(reeve submit nothing --delay 1d)
	sql "insert into tasks (route_id, queue, type, details, run_at, created, last_updated)
		select r.id, r.queue, r.type, '', now() + interval '1 day', now(), now() from routes r, generate_series(2, 10000) where r.type = 'nothing'"
	expect_eq "$first|$((first + 9999))" "$(sql 'select min(id), max(id) from tasks')"
}

# 300 Waits for 10,000 tasks each would use more memory than one connection may: the manager counts what each Wait uses.
test_what_waits_hold_is_bounded() {
	local before after
	export_asan
	start_postgres
	start_manager manager --max-message 4MiB
	ten_thousand_tasks
	before=$(resident manager)
	greedy flood waits 300 "$first" 10000
	wait_until 20 '[ "$(told flood "--connection-share of 64 times --max-message")" -ge 250 ]'
	after=$(resident manager)
	note "$before KiB before, $after KiB after; $(told flood 'open calls of one connection hold') Waits of 300 were refused"
	[ $((after - before)) -lt 60000 ] || fail "$before KiB before, $after KiB after"
	expect_fail 1 reeve wait "$first" --max-wait 1s # another connection's is taken
	expect_no_match 'the maximum (' "$OUTPUT"
}

test_long_tokens_are_refused() {
	start_postgres
	start_manager
	greedy caller token 7000000
	wait_until 10 "grep -q '3 token has 7000000 bytes; at most 4096 are allowed' $DIR/log/caller.log"
}

test_a_caller_learns_that_all_connections_are_taken() {
	start_postgres
	start_manager --max-connections 50
	reeve submit nothing --delay 1h >/dev/null
	greedy flood connections 60
	wait_until 10 "grep -q -- 'all connections that it takes are in use (--max-connections)' $DIR/log/flood.log"
	expect_eq 1 "$(grep -c 'turning a caller away' "$DIR/log/manager.log")" # of eleven
	expect_fail 3 reeve submit nothing
	expect_match 'max-connections' "$OUTPUT"
	stop flood
	wait_until 10 'reeve submit nothing >/dev/null'
}

# One address has all connections, each with an open Wait: connections from another address are still accepted, and a
# worker keeps its lease.
# measures time
test_one_address_with_all_connections_keeps_no_other_out() {
	start_postgres
	start_manager manager --max-connections 50 --lease 3s --heartbeat 1s
	reeve submit nothing --delay 1h >/dev/null
	GREEDY_FROM=127.0.0.2 greedy flood connections 60
	wait_until 10 "grep -q -- 'all connections that it takes are in use (--max-connections)' $DIR/log/flood.log"
	start_worker
	for _ in 1 2 3; do
		reeve submit nothing --wait
		reeve check
	done
	pause 4 # more than a lease
	expect_eq 0 "$(sql 'select count(*) from workers where lost')"
	expect_eq 1 "$(grep -c 'closing a connection in use (logged at most every 10 s): its address has [0-9]* of 50' "$DIR/log/manager.log")"
	# More connections from the same address are refused.
	GREEDY_FROM=127.0.0.2 greedy another connections 5
	wait_until 10 "grep -q -- '--max-connections' $DIR/log/another.log"
	stop worker
}

# Callers from four addresses of this machine: each address gets only its share, however many connections it has.
# measures time
test_one_address_has_its_share() {
	start_postgres
	start_manager --max-calls 1000 --max-connections 100 --address-share 10
	id=$(reeve submit nothing --delay 1h)
	GREEDY_FROM=127.0.0.2 greedy full connections 30
	wait_until 10 '[ "$(told full "its address has as many connections as one may have (--address-share of --max-connections)")" -ge 20 ]'
	GREEDY_FROM=127.0.0.3 greedy first waits 100 "$id"
	GREEDY_FROM=127.0.0.3 greedy second waits 100 "$id"
	wait_until 10 '[ "$(told second "99 calls of one address are open, its share of the 990 that others leave (--address-share of --max-calls)")" = 99 ]'
	GREEDY_FROM=127.0.0.4 greedy other waits 90 "$id"
	wait_until 10 '[ "$(counter open_calls)" -ge 200 ]'
	pause 1.5 # longer than the programs take to say what they were told
	expect_eq 'ready ready' "$(cat "$DIR/log/first.log" "$DIR/log/other.log" | xargs)"
	expect_eq 20 "$(told full --address-share)"
	reeve submit nothing >/dev/null
}

# There are 400 MiB of errors; for one call the manager reads only a few MiB of them.
test_long_errors_are_read_in_parts() {
	local before after
	export_asan
	start_postgres
	start_manager
	id=$(reeve batch open b --queue batched)
	for _ in $(seq 400); do echo '{}'; done | reeve submit --bulk - nothing --queue batched --batch "$id" --delay 1h >/dev/null
	reeve discard --where queue=batched >/dev/null
	sql "update task_history set last_error = task_id || repeat(' too long', (1 << 20) / 9)"
	expect_eq "400|t" "$(sql "select count(*), sum(octet_length(last_error)) > 399 << 20 from task_history where batch_id = $id and status = 'dead'")"
	forget_peak manager
	before=$(most_resident manager)
	printf "\\x08\\x$(printf %02x "$id")" | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.BatchService/Report >"$DIR/report"
	"$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.TaskService/Errors </dev/null >"$DIR/errors"
	after=$(most_resident manager)
	note "$before KiB before, $after KiB at most"
	for name in report errors; do # each has a whole error, in hexadecimal
		expect [ "$(tr -d '\n' <"$DIR/$name" | wc -c)" -gt 2000000 ]
	done
	[ $((after - before)) -le 65536 ] || fail "$before KiB before, up to $after KiB while errors were read"
}

executing() {
	sql "select count(*) from tasks where status = 'executing'"
}

# 300 pull clients fetch one task each, with details of 1 MiB, all at once over one connection, which does not read the
# answers at first; then all of them send these Fetches again. A claim, and what is delivered again, have the details of 16
# in memory. There is no next one before the connection has read most of these.
test_details_of_many_fetches_take_a_bounded_amount_of_memory() {
	local before after again count
	export_asan
	start_postgres
	start_manager manager --fetch-wait 60s
	reeve submit nothing --delay 1d >/dev/null
	sql "insert into workers (id, name, host, manual) overriding system value
		select 800000000 + n, 'puller ' || n, '', true from generate_series(1, 300) n"
	sql "insert into tasks (route_id, queue, type, details, timeout_ms, run_at, created, last_updated)
		select r.id, r.queue, r.type, repeat('x', 1 << 20), 3600000, now(), now(), now() from routes r, generate_series(1, 300) where r.type = 'nothing'"
	forget_peak manager
	before=$(most_resident manager)
	for again in '' again; do
		touch "$DIR/unread"
		GREEDY_UNREAD=$DIR/unread greedy "pullers$again" fetches 300 800000001 $again
		[ "$again" ] || wait_until 60 '[ "$(executing)" -gt 0 ]'
		count=
		until [ "$count" = "$(executing)" ]; do
			count=$(executing)
			pause 2 # the manager could claim more
		done
		rm "$DIR/unread"
		note "$count tasks were assigned before the connection read anything"
		wait_until 60 "[ \"\$(told pullers$again ' 0 ')\" = 300 ]"
		after=$(most_resident manager)
		note "$before KiB before, $after KiB at most"
		expect_eq 300 "$(executing)"
		[ $((after - before)) -le 65536 ] || fail "$before KiB before, up to $after KiB while details were fetched${again:+ again}"
		[ "$again" ] || expect [ "$count" -lt 100 ]
	done
	expect_eq 300 "$(counter redelivered)"
}

# Waiting tasks are in the database; the manager keeps up to --ready-cache candidates in memory.
test_memory_does_not_grow_with_the_backlog() {
	local small large
	export_asan
	start_postgres
	start_manager
	start_worker worker --concurrency 2
	for _ in $(seq 200); do echo '{"details": "sleep 0.2"}'; done | reeve submit --bulk - sh >/dev/null
	wait_until 20 '[ "$(sql "select count(*) from task_history")" -ge 20 ]'
	small=$(resident manager)
	reeve discard --where status=queued >/dev/null
	sql "insert into tasks (route_id, queue, type, details, run_at, created, last_updated)
		select r.id, r.queue, r.type, 'sleep 0.2', now(), now(), now() from routes r, generate_series(1, 200000) where r.type = 'sh';
		select pg_notify('reeve_notify', format('0 %s 0 %s', id, time_us(now()))) from routes where type = 'sh'" >/dev/null
	sql 'select counts_recount()' >/dev/null
	wait_until 20 '[ "$(sql "select count(*) from task_history")" -ge 220 ]'
	large=$(resident manager)
	note "$small KiB with 200 tasks, $large KiB with 200,000"
	[ $((large - small)) -le 16384 ] || fail "$small KiB with 200 tasks, $large KiB with 200,000"
}

# The process has fewer descriptors than --max-connections needs: the manager closes idle connections for an operator
# before it has no descriptors left.
test_idle_connections_exclude_no_other() {
	start_postgres
	ulimit -n 400
	start_manager
	grep -q 'takes 235 connections, not 10000 (--max-connections): it may have 400 descriptors' "$DIR/log/manager.log"
	for i in 1 2; do greedy "flood$i" idle 250; done
	wait_until 10 "grep -q 'turning a caller away' $DIR/log/manager.log"
	sleep 11
	timeout 10 "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" stats >/dev/null
	expect_no_match 'cannot accept' "$(cat "$DIR/log/manager.log")"
}

check_ms() { # prints how long a check takes
	local begin
	begin=$(ms)
	expect_match '^REEVE OK' "$(reeve check --longest-running 1h)"
	echo $(($(ms) - begin))
}

quick_check() { # MS [COUNT]: fails if the shortest of so many checks takes longer; a busy machine makes a check longer
	local took
	took=$(for _ in $(seq "${2:-1}"); do check_ms; done | sort -n | head -n 1)
	note "a check took $took ms"
	[ "$took" -lt "$1" ] || fail "a check took $took ms"
}

# 900 connections always have a Get in flight: the manager answers a few at a time, so that other calls are served soon.
# measures time
test_reads_over_many_connections_keep_no_operator_waiting() {
	local id
	start_postgres
	start_manager
	id=$(reeve submit nothing --delay 1h)
	greedy flood gets 900 "$id"
	sleep 1
	quick_check 1500 3
	expect_eq "$id" "$(reeve show "$id" --json | jq .id)"
	expect [ "$(told flood ' 0 ')" -gt 900 ]
}

# 900 connections have a Wait for 10,000 tasks each, as many of them as fit in memory: neither reading these calls nor looking
# the tasks up, nor the end of all these connections, keeps an operator waiting for longer than a lease and two seconds.
# measures time
test_long_waits_over_many_connections_keep_no_operator_waiting() {
	start_postgres
	start_manager manager --lease 3s --heartbeat 1s
	start_worker
	ten_thousand_tasks
	greedy flood connections 900 "$first" 10000
	for _ in $(seq 10); do quick_check 5000; done
	wait_until 20 '[ "$(counter open_calls)" -gt 100 ]'
	stop flood
	quick_check 5000
	expect_eq x "$(reeve submit echo x --wait --timeout 20s)"
	expect_eq 0 "$(sql 'select count(*) from workers where lost')"
}

# Prints SQL that sends notifications of about every kind, in batches of 100, until it is ended. Those about the route name
# invented priorities, each of which may be a stream of its own: some three new ones, and some a hundred each time.
flood_of_notifications() { # ROUTE INCARNATION
	cat <<-END
		do \$\$
		declare
			hundred text := (select string_agg(format('$1 %s 0', p), ';') from generate_series(1, 100) p);
		begin
			for batch in 0 .. 1000000000 loop
				perform pg_notify('reeve_notify', case n % 10
					when 0 then format('999 $1 %s 0;$1 %s 0;$1 %s 0', n, n + 1, n + 2)
					when 1 then format('0 $1 0 %s %s', n, n + 1)
					when 2 then format('%s %s', n, hundred)
					when 3 then format('999 %s 0 0', n)
					when 4 then format('999 $1 0 %s', (array[-9223372036854775807, -1, 0, 9223372036854775806])[1 + n / 10 % 4])
					when 5 then format('command 999 $2 %s', n)
					when 6 then format('%s %s', n, repeat('x', n % 7000))
					when 7 then md5(n::text)
					else (array['queues', 'schedules', 'inbox', '', '999 0 0 0'])[1 + n / 10 % 5] end)
					from generate_series(100 * batch, 100 * batch + 99) n;
				commit;
				if batch % 50 = 49 then raise notice '% sent', 100 * (batch + 1); end if;
				perform pg_sleep(0.02);
			end loop;
		end \$\$
	END
}

# A role that may only connect sends thousands of invented notifications a second, for longer than two leases.
# alone
test_a_flood_of_notifications_delays_no_task() {
	local begin end took longest=0 incarnation route seconds sent
	start_postgres
	start_manager manager --lease 3s --heartbeat 1s
	start_worker
	reeve submit nothing --wait
	incarnation=$(worker_incarnation worker)
	route=$(sql "select id from routes where type = 'nothing'")
	sql 'revoke all on database reeve from public; create role stranger login; grant connect on database reeve to stranger'
	flood_of_notifications "$route" "$incarnation" >"$DIR/flood.sql"
	start flood "$REEVE_TEST_PG_BIN/psql" -Xq -h "$PGDIR" -U stranger -d reeve -f "$DIR/flood.sql"
	wait_until 10 "grep -q sent $DIR/log/flood.log"
	begin=$(ms)
	end=$((begin + 8000))
	while [ "$(ms)" -lt "$end" ]; do
		took=$(ms)
		reeve submit nothing --wait --timeout 20s
		took=$(($(ms) - took))
		longest=$((took > longest ? took : longest))
	done
	seconds=$((($(ms) - begin) / 1000))
	expect alive flood
	sent=$(awk '$NF == "sent" { n = $(NF - 1) } END { print n + 0 }' "$DIR/log/flood.log")
	stop flood
	note "$sent notifications within $seconds s; the longest task took $longest ms"
	expect [ "$sent" -ge $((1000 * seconds)) ]
	expect [ "$longest" -lt 1000 ]
	expect [ "$(counter ready_cache_streams)" -le 11000 ] # of which notifications have added 10,000
	expect_eq "$incarnation" "$(worker_incarnation worker)" 'the worker was lost'
	expect_eq 0 "$(sql 'select count(*) from workers where lost')"
	expect_eq '' "$(awk '$2 == "warn" || $2 == "error"' "$DIR/log/manager.log")"
}

# One connection sends twenty submits of 10,000 tasks: a single task of another connection does not wait for them.
test_a_small_submit_is_not_behind_a_flood() {
	start_postgres
	start_manager
	reeve submit nothing >/dev/null
	start flood python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" submits 20 10000
	wait_until 30 '[ "$(sql "select count(*) from tasks where queue = '"'flood'"'")" -gt 0 ]'
	begin=$(date +%s%N)
	for _ in 1 2 3; do reeve submit nothing >/dev/null; done
	took=$((($(date +%s%N) - begin) / 3000000))
	count=$(sql "select count(*) from tasks where queue = 'flood'")
	note "a submit took $took ms; $count of 200000 tasks of the flood were there"
	[ "$count" -lt 200000 ] || fail "the flood was over before the others were made"
}

# One connection sends twenty submits of 2,000 new types each: another connection's new type, and a worker that
# registers, do not wait for them.
test_new_types_and_workers_are_not_behind_a_flood_of_types() {
	local count
	start_postgres
	start_manager
	start flood python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" types 20 2000
	wait_until 30 '[ "$(sql "select count(*) from routes where queue = '"'flood'"'")" -gt 0 ]'
	reeve submit mine >/dev/null
	start_worker
	count=$(sql "select count(*) from routes where queue = 'flood'")
	note "$count of 40000 types of the flood were there"
	[ "$count" -lt 40000 ] || fail "the flood was over before the others were served"
}

# For each kind of call, one connection sends a backlog, and then another connection a single call: it is answered before
# a third of the backlog is, however fast the machine. Without turns it would be answered among the last.
test_a_single_call_of_any_kind_is_not_behind_a_backlog() {
	local id kind before count took quiet code codes
	start_postgres
	start_manager
	id=$(reeve submit nothing --delay 1h)
	timeout 500 python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" turns "$id" >"$DIR/turns"
	while read -r kind before count took quiet code codes; do
		note "$kind: after $before open calls of $count, in $took ms, without the backlog in $quiet ms"
		[ "$before" -lt $((count / 3)) ] || fail "$kind: the single call was answered after $before of $count"
		expect_eq "$code" "$codes" "$kind: the codes of the backlog" # none was refused for want of room
	done <"$DIR/turns"
	expect_eq 10 "$(grep -c . "$DIR/turns")"
}

run_tests
