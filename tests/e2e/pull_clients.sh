#!/usr/bin/env bash
# A queue without workers, with pull clients: `reeve fetch`, `reeve report`, `reeve extend`.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/open_calls.bash"

start_postgres
start_manager

take() { # [OPTION…]: takes one; its $id and $token
	local task
	task=$(reeve fetch --json "$@")
	expect_eq 1 "$(wc -l <<<"$task")" 'tasks taken'
	id=$(jq .task_id <<<"$task") token=$(jq .token <<<"$task")
}

test_a_task_is_fetched_and_reported() {
	submitted=$(reeve submit letter 'to ann' --queue letters --key k1)
	task=$(reeve fetch --queue letters --json)
	expect_eq "$submitted letters letter to ann k1 1" \
		"$(jq -r '"\(.task_id) \(.queue) \(.type) \(.details) \(.key) \(.attempt)"' <<<"$task")"
	token=$(jq .token <<<"$task")
	expect_eq "executing $token" "$(field "$submitted" status) $(field "$submitted" token)"
	expect_fail 1 reeve fetch --queue letters
	expect_eq 'reeve: no task waits' "$OUTPUT"
	expect_eq '{"task_id":'"$submitted"',"token":'"$token"',"status":"accepted"}' \
		"$(reeve report "$submitted" "$token" --completed 'sent' --remark 'by pigeon' --json)"
	expect_eq 'completed sent by pigeon' "$(field "$submitted" status) $(field "$submitted" result) $(field "$submitted" remark)"
	expect_eq 'submitted claimed completed' "$(events "$submitted")"
	expect_eq "$(reeve worker list --all --json | jq -r 'select(.incarnation == 1).name')" "$(event_field "$submitted" claimed worker)"
}

test_a_table_for_people() {
	submitted=$(reeve submit letter 'to bob' --queue table --timeout 2m)
	OUTPUT=$(reeve fetch --queue table)
	expect_match '^ *ID +TOKEN  QUEUE  TYPE    ATTEMPT   EXPIRES  DETAILS' "$OUTPUT"
	expect_match "$submitted  [0-9]{16}  table  letter      1/5  in 2m[0-9]+s  to bob" "$OUTPUT"
	first=$(field "$submitted" token)
	expect_match 'manual' "$(reeve worker list)"
	expect_eq '' "$(reeve report "$submitted" "$first" --returned)"
	take --queue table
	expect [ "$id $token" != "$submitted $first" ]
	printf 'from\nstandard input' | reeve report "$id" "$(field "$id" token)" --completed -
	expect_eq $'from\nstandard input' "$(field "$id" result)"
}

test_progress_is_reported_before_and_with_the_outcome() {
	reeve submit letter x --queue progress >/dev/null
	take --queue progress
	reeve report "$id" "$token" --progress 40 --remark 'two of five' --log $'bought paper\nand ink'
	expect_eq 'executing 40 two of five' "$(field "$id" status) $(field "$id" progress) $(field "$id" remark)"
	expect_eq 'bought paper and ink' "$(reeve logs "$id" --json | jq -r .text | xargs)"
	# The next write is a second later; the command waits for it.
	expect_eq '{"task_id":'"$id"',"token":'"$token"',"status":"accepted"}' "$(reeve report "$id" "$token" --progress 0 --json)"
	expect_eq 'executing 0 two of five' "$(field "$id" status) $(field "$id" progress) $(field "$id" remark)"
	reeve report "$id" "$token" --completed --progress 100 --log posted
	expect_eq 'completed 100 posted' "$(field "$id" status) $(field "$id" progress) $(reeve logs "$id" --json | jq -r .text | tail -n 1)"
	expect_fail 4 reeve report "$id" "$token" --log late
	expect_match 'is not held by token' "$OUTPUT"
	expect_fail 2 reeve report "$id" "$token"
	expect_match 'and --returned, or --progress, --remark or --log' "$OUTPUT"
	expect_fail 2 reeve report "$id" "$token" --progress 101
	expect_fail 2 reeve report "$id" "$token" --log x --stage y
}

test_a_bulk_submit_waits() {
	for key in one two; do
		reeve submit letter x --queue bulk --key "$key" >/dev/null
		take --queue bulk
		reeve report "$id" "$token" --completed "$key"
	done
	printf '{"key": "one"}\n{"key": "two"}\n{"key": "one"}\n' >"$DIR/keys"
	expect_match '2 completed, 0 dead' "$(reeve submit letter --bulk "$DIR/keys" --queue bulk --wait 2>&1)"
	expect_eq 'one two' "$(reeve submit letter --bulk "$DIR/keys" --queue bulk --wait --json | jq -r .result | sort | xargs)"
	# More than one call may have are sent as a stream.
	jq -nc 'range(1001) | {key: "one"}' >"$DIR/keys"
	expect_eq 1001 "$(reeve submit letter --bulk "$DIR/keys" --queue bulk --wait 2>"$DIR/said" | wc -l)"
	expect_match '1 completed, 0 dead' "$(cat "$DIR/said")"
}

test_every_outcome() {
	submitted=$(reeve submit letter x --queue outcomes --retry-base 100ms --max-attempts 3)
	take --queue outcomes
	reeve report "$id" "$token" --returned
	expect_eq 'queued 0' "$(field "$id" status) $(reeve show "$id" --json | jq .attempt)" # it cost no attempt
	take --queue outcomes
	reeve report "$id" "$token" --failed 'no paper' --error-code paper --stack-trace 'at the desk' --remark 'came back'
	expect_eq 'failed 1 paper no paper at the desk came back' "$(field "$id" status) $(field "$id" attempt) \
$(field "$id" error_code) $(field "$id" last_error) $(field "$id" stack_trace) $(field "$id" remark)"
	take --queue outcomes --max-wait 20s
	expect_eq "$submitted" "$id"
	reeve report "$id" "$token" --failed 'no ink' --retry-in 1h
	due=$(sql "select extract(epoch from run_at - now())::int from tasks where id = $id")
	expect [ "$due" -gt 3500 ]
	expect [ "$due" -le 3600 ]
	reeve retry "$id" >"$DIR/null"
	take --queue outcomes --max-wait 20s
	reeve report "$id" "$token" --fatal 'no such address'
	expect_eq 'dead no such address' "$(field "$id" status) $(field "$id" last_error)"
	expect_eq 'submitted claimed returned claimed failed claimed failed retried claimed dead' "$(events "$id")"
}

test_fetched_tasks_are_chosen_by_type_and_id() {
	a=$(reeve submit red 1 --queue chosen-a) b=$(reeve submit blue 2 --queue chosen-b --priority 3)
	c=$(reeve submit red 3 --queue chosen-b)
	expect_fail 1 reeve fetch --queue chosen-a --type blue
	expect_fail 1 reeve fetch --queue chosen-b --type red --exclude "$c"
	take --queue chosen-a,chosen-b --exclude "$a" --exclude "$c" --type red,blue
	expect_eq "$b" "$id"
	expect_eq "$a $c" "$(reeve fetch --queue chosen-a --queue chosen-b -n 10 --json | jq -s 'sort_by(.task_id) | map(.task_id) | @text "\(.[0]) \(.[1])"' -r)"
	expect_fail 1 reeve fetch --queue chosen-a --queue chosen-b
	expect_eq 0 "$(reeve worker list --json | jq -s 'map(select(.manual and .holding == 0 and .state == "alive" and .registered > "'"$(date -u +%FT%T)"'")) | length')"
}

# One answer has the tasks of all priorities, in their order, also right after the manager's start and beside another one.
test_one_fetch_takes_all_priorities_in_order() {
	start_manager second
	for p in 5 1 9 1; do reeve submit letter "$p" --queue sorted --priority $p; done >"$DIR/ids"
	expect_eq '9 5 1 1' "$(reeve fetch --queue sorted -n 10 --json | jq -r .details | xargs)"
	for i in $(seq 1 40); do echo "{\"details\":\"$((i * 7 % 13))\",\"priority\":$((i * 7 % 13))}"; done |
		reeve submit --bulk - letter --queue mixed >/dev/null
	all=$(for i in $(seq 1 40); do echo $((i * 7 % 13)); done | sort -rn | xargs)
	expect_eq "$(cut -d' ' -f1-25 <<<"$all")" "$(reeve fetch --queue mixed -n 25 --max-wait 5s --json | jq -r .details | xargs)"
	expect_eq "$(cut -d' ' -f26- <<<"$all")" "$(reeve fetch --queue mixed -n 25 --json | jq -r .details | xargs)"
	expect_fail 1 reeve fetch --queue mixed
}

# Also those that another manager prefers, which has no work for them.
test_one_fetch_takes_the_highest_priorities_beside_another_manager() {
	start_manager second
	for i in $(seq 1 40); do echo "{\"details\":\"$((i * 7 % 13))\",\"priority\":$((i * 7 % 13))}"; done >"$DIR/mixed"
	all=$(for i in $(seq 1 40); do echo $((i * 7 % 13)); done | sort -rn | xargs)
	sleep 2 # both managers have sent heartbeats, so each knows of the other
	for n in 10 20 25 40; do
		reeve submit --bulk "$DIR/mixed" letter --queue "mixed-$n" >"$DIR/null"
		expect_eq "$(cut -d' ' -f1-$n <<<"$all")" "$(reeve fetch --queue "mixed-$n" -n $n --json | jq -r .details | xargs)"
	done
}

test_fetched_tasks_are_chosen_by_a_filter() {
	start_manager second
	a=$(reeve submit letter 1 --queue filtered --source shop --priority 1)
	b=$(reeve submit letter 2 --queue filtered --source shop --priority 2)
	c=$(reeve submit letter 3 --queue filtered --source bank --priority 3 --key k)
	d=$(reeve submit letter 4 --queue filtered --source shop --delay 1h)
	e=$(reeve submit letter 5 --queue filtered-too --source shop --priority 9)
	fetched() { reeve fetch --json "$@" | jq -r .task_id | xargs; }
	expect_eq "$e $b $a" "$(fetched --where 'source=shop' -n 10)"
	expect_fail 1 reeve fetch --where 'source=shop' -n 10
	expect_eq "$c" "$(fetched --queue filtered --where key=k)"
	for id in $e $b $a $c; do reeve report "$id" "$(field "$id" token)" --failed "busy $id" --retry-in 1ms; done
	sleep 0.1
	expect_eq "$a" "$(fetched --queue filtered --type letter --where "status=failed error~'busy $a'" -n 10)"
	expect_eq "$b" "$(fetched --queue filtered --where 'source=shop older=1ms' --exclude "$e")"
	reeve queue set filtered --max-running 2 >/dev/null
	expect_fail 1 reeve fetch --queue filtered --where 'source=bank'
	reeve report "$a" "$(field "$a" token)" --completed
	(sleep 1; reeve update "$d" --at now >/dev/null) &
	expect_eq "$d" "$(fetched --where "source=shop" --queue filtered --max-wait 20s)"
	wait $!
	expect_eq 'submitted claimed failed claimed completed' "$(events "$a")"
	f=$(reeve submit letter '{"user": 17}' --queue json) g=$(reeve submit letter '{"user": 18, "vip": true}' --queue json --priority 1)
	reeve submit letter 'no JSON' --queue json --priority 2 >/dev/null
	expect_eq "$f" "$(fetched --queue json -n 10 --where 'details.user=17')"
	expect_fail 1 reeve fetch --queue json --where 'details.user=18 details.vip=false'
	expect_eq "$g" "$(fetched --queue json -n 10 --where 'details.user=18 details.vip=true')"
	expect_fail 2 reeve fetch --where 'colour=red'
	expect_fail 4 reeve fetch --where 'status=dead'
	expect_match 'only queued and failed ones can be fetched' "$OUTPUT"
}

test_waiting_for_a_task() {
	reeve fetch --queue waits --max-wait 30s --name waiter --json >"$DIR/taken" 2>"$DIR/said" &
	pid=$!
	wait_until 10 'reeve worker list --all --json | jq -se "any(.name == \"waiter\" and .manual and .state == \"alive\")"'
	submitted=$(reeve submit letter later --queue waits)
	wait "$pid"
	expect_eq "$submitted" "$(jq .task_id "$DIR/taken")"
	expect [ "$(jq .expires_in_ms "$DIR/taken")" -gt 60000 ]
	begin=$(ms)
	expect_fail 1 reeve fetch --queue waits --max-wait 700ms
	expect_eq 'reeve: no task came' "$OUTPUT"
	expect [ $(($(ms) - begin)) -ge 700 ]
}

test_a_caller_that_stops_waiting_leaves() {
	local before
	before=$(calm_calls)
	start hand "$REEVE_BIN/reeve" fetch --queue nowhere --max-wait 60s --name impatient
	wait_until 10 'reeve worker list --all --json | jq -se "any(.name == \"impatient\")"'
	wait_until 20 "[ \"\$(open_calls)\" = $((before + 1)) ]" # so it knows its incarnation
	stop hand
	expect_eq '130 reeve: interrupted' "$STATUS $(cat "$DIR/log/hand.log")"
	expect_eq gone "$(reeve worker list --all --json | jq -r 'select(.name == "impatient").state')"
}

# Two pull clients never get one task, whichever managers they use.
test_two_pull_clients_never_get_one_task() {
	first=$REEVE_MANAGER
	start_manager second
	for i in $(seq 40); do echo '{"type":"letter","queue":"hands","details":"'$i'"}'; done >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" >"$DIR/ids"
	hand() { # N URL
		while reeve fetch --queue hands --json -n $((1 + $1 % 3)) --manager "$2" 2>"$DIR/said.$1"; do :; done >"$DIR/hand.$1"
	}
	pids=()
	for i in 1 2 3 4; do
		hand $i "$first" &
		pids+=($!)
		hand $((i + 4)) "$REEVE_MANAGER" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || true; done
	cat "$DIR"/hand.? >"$DIR/all"
	expect_eq "$(sort "$DIR/ids")" "$(jq .task_id "$DIR/all" | sort)" 'each task once'
	expect_eq 40 "$(sql "select count(*) from tasks where queue = 'hands' and status = 'executing' and attempt = 1")"
	# Any manager accepts a report of any task.
	while read -r task; do
		reeve report "$(jq .task_id <<<"$task")" "$(jq .token <<<"$task")" --completed --manager "$first"
	done < <(head -n 4 "$DIR/all")
	expect_eq 4 "$(sql "select count(*) from task_history where queue = 'hands' and status = 'completed'")"
}

# Pull clients send no heartbeats: an attempt runs until its expiry, whatever the lease is.
test_an_attempt_ends_with_its_time_alone() {
	start_manager short --lease 1s --heartbeat 400ms --expiry-grace 2500ms
	submitted=$(reeve submit letter x --queue short --timeout 3s --retry-base 10ms)
	take --queue short
	expect_eq "$submitted" "$id"
	wait_status 30 "$id" failed
	expect_eq 'submitted claimed expired reclaimed' "$(events "$id")"
	expect_eq t "$(sql "select max(at) filter (where event = 'expired') - max(at) filter (where event = 'claimed') >= interval '5.5 s'
		from audit_log where task_id = $id")"
	before=$token
	sql "update tasks set timeout_ms = 600000 where id = $id" # the next attempt does not expire within this test
	take --queue short --max-wait 20s
	expect_eq "$submitted 2" "$id $(field "$id" attempt)"
	sleep 2 # more than a lease
	expect_eq alive "$(reeve worker list --json | jq -r 'select(.manual and .holding == 1 and (.incarnation == '"$(sql "select worker_id from tasks where id = $id")"')).state')"
	expect_eq 0 "$(sql "select count(*) from worker_events e join workers w on w.id = e.worker_id where w.manual and e.event = 'lost'")"
	# The first client reports late: its token is refused, and the task does not change.
	expect_fail 4 reeve report "$id" "$before" --completed late
	expect_match "reeve: task $id is not held by token $before: .*; nothing was changed" "$OUTPUT"
	expect_eq "executing $token" "$(field "$id" status) $(field "$id" token)"
	expect_match late_result "$(events "$id")"
	reeve report "$id" "$token" --completed 'in time'
	expect_eq 'completed in time' "$(field "$id" status) $(field "$id" result)"
	# A repeated report is accepted as the first one was.
	reeve report "$id" "$token" --completed 'in time'
}

test_an_attempt_is_extended() {
	submitted=$(reeve submit letter x --queue long --timeout 2s)
	take --queue long
	expect_eq "$submitted" "$id"
	expect_match '^1h' "$(reeve extend "$id" "$token" 1h)"
	left=$(sql "select extract(epoch from expiry - now())::int from tasks where id = $id")
	expect [ "$left" -gt 3500 ]
	expect_eq '0 true' "$(reeve extend "$id" "$token" 10s --json | jq -r '"\(.run_ms) \(.expires_in_ms > 3500000)"')" 'it had more time'
	long=$REEVE_MANAGER
	start_manager short --max-runtime 1s
	sql "select pg_sleep_until(last_updated + interval '1.01 s') from tasks where id = $id" >/dev/null
	expect_eq '0 true' "$(reeve extend "$id" "$token" 1h --json | jq -r '"\(.run_ms) \(.expires_in_ms > 3400000)"')" 'no more, and it had more'
	stop short
	REEVE_MANAGER=$long
	expect_fail 4 reeve extend "$id" $((token - 1)) 1h
	expect_match "task $id is not held" "$OUTPUT"
	reeve report "$id" "$token" --completed
	expect_fail 4 reeve extend "$id" "$token" 1h
}

# A pull client takes no commands: a restart ends its attempt at once, and its report comes too late.
test_a_restart_takes_the_lock_from_a_pull_client() {
	submitted=$(reeve submit letter x --queue taken --timeout 10m --max-attempts 2)
	take --queue taken
	expect_match "$submitted +queued +yes +-" "$(reeve retry "$submitted" --executing)"
	expect_eq '|0|queued' "$(sql "select expiry, attempt, status from tasks where id = $submitted")"
	expect_fail 4 reeve report "$id" "$token" --completed late
	expect_eq 'submitted claimed restart_requested returned restarted late_result' "$(events "$submitted")"
	take --queue taken
	expect_eq "$submitted 1" "$id $(field "$id" attempt)"
	expect_match "$id +failed +yes" "$(reeve retry "$id" --hanged)"
	expect_eq 'failed 1 hanged' "$(field "$id" status) $(field "$id" attempt) $(field "$id" error_code)"
	take --queue taken --max-wait 20s
	expect_match "$id +dead +yes" "$(reeve retry "$id" --hanged)"
	expect_eq 'dead hanged' "$(field "$id" status) $(field "$id" last_error)"
	expect_eq 0 "$(sql "select count(*) from worker_commands where task_id = $id")"
	expect_eq 0 "$(sql "select count(*) from assignments where $id = any(task_ids) and (open <> 0 or closed_at is null)")"
}

# An attempt that no worker, no expiry and no journal row has would never end.
test_sql_alone_cannot_make_a_task_execute() {
	id=$(reeve submit letter x --queue stuck)
	OUTPUT=$(sql "update tasks set status = 'executing' where id = $id" 2>&1) && fail 'it was accepted'
	expect_match 'violates check constraint "tasks_executing"' "$OUTPUT"
	expect_eq queued "$(field "$id" status)"
	reeve cancel "$id" >"$DIR/null"
}

# Registrations of pull clients end at once if the fetch got no task, and after a day if they hold none.
test_registrations_of_pull_clients_are_removed() {
	expect_fail 1 reeve fetch --queue nothing-there --name empty-handed
	expect_eq 'gone' "$(reeve worker list --all --json | jq -r 'select(.name == "empty-handed").state')"
	expect_eq 'registered left' "$(sql "select string_agg(event, ' ' order by e.id) from worker_events e join workers w on w.id = e.worker_id where w.name = 'empty-handed'")"
	reeve submit letter x --queue go >"$DIR/null"
	reeve submit letter y --queue go >"$DIR/null"
	for _ in 1 2; do reeve fetch --queue go --name twice --json >>"$DIR/both"; done # names may repeat
	expect_eq 2 "$(reeve worker list --json | jq -s 'map(select(.name == "twice")) | length')"
	reeve report "$(head -n 1 "$DIR/both" | jq .task_id)" "$(head -n 1 "$DIR/both" | jq .token)" --completed
	expect_eq 1 "$(reeve worker list --json | jq -s 'map(select(.name == "twice")) | length')" # each fetch is one: only those that hold something
	expect_eq 'alive alive' "$(reeve worker list --all --json | jq -rs 'map(select(.name == "twice").state) | join(" ")')"
	sql "update workers set registered = now() - interval '25 hours' where name = 'twice'"
	sql "$(cat "$STATEMENTS/purge_pull_clients.sql")" >"$DIR/null"
	expect_eq 'gone alive' "$(reeve worker list --all --json | jq -rs 'map(select(.name == "twice").state) | join(" ")')"
	expect_eq 0 "$(reeve stats --json | jq .workers_alive)" # hands are no workers
}

test_contradicting_options_are_refused() {
	id=$(reeve submit letter x --queue refused)
	while IFS='|' read -r code regex words; do
		eval "expect_fail $code reeve $words"
		expect_match "$regex" "$OUTPUT" "$words"
	done <<-'END'
		2|the outcome is missing: give one of --completed, --failed, --fatal and --returned|report 1 2
		2|too many outcomes: give one of|report 1 2 --completed --returned
		2|the task's id and its token are missing|report 1 --completed
		2|"x" is not a task id|report x 2 --completed
		2|"0" is not a token|report 1 0 --completed
		2|unexpected argument "more"|report 1 2 --completed result more
		2|unexpected argument "result"|report 1 2 --failed why result
		2|--error-code needs --failed or --fatal|report 1 2 --completed --error-code x
		2|--retry-in needs --failed|report 1 2 --fatal x --retry-in 5m
		2|retry-in: "0s?" is out of range|report 1 2 --failed x --retry-in 0
		4|task 1 is not held by token 2: .* never was; nothing was changed|report 1 2 --completed
		4|error_code is longer than 255 bytes|report 1 2 --failed x --error-code "$(head -c 256 /dev/zero | tr '\0' x)"
		2|exclude: "x" is not a task id|fetch --exclude 1,x
		2|queue: "a,,b" holds an empty name|fetch --queue a,,b
		2|-n: "0" is out of range|fetch -n 0
		2|max-wait: "-1s" is negative|fetch --max-wait -1s
		2|unexpected argument "letters"|fetch letters
		4|queues\[0\] holds a control character|fetch --queue $'a\tb'
		4|name is longer than 255 bytes|fetch --name "$(head -c 256 /dev/zero | tr '\0' x)"
		2|DURATION is missing|extend 1 2
		2|"never" is not a time to run|extend 1 2 never
		4|task 1 is not held|extend 1 2 1h
	END
	expect_eq queued "$(field "$id" status)"
	expect_eq 0 "$(sql "select count(*) from tasks where queue = 'refused' and status <> 'queued'")"
}

run_tests
