#!/usr/bin/env bash
# Submits with a known key, and resent calls: each takes effect once.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager

resend() { # see tests/tools/resend.c
	"$REEVE_BIN/resend" "$@"
}

tasks_in() { # QUEUE: how many were ever made there
	sql "select count(*) from all_tasks where queue = '$1'"
}

expire_keys() { # CONDITION: lets their lifetimes be over
	sql "update keys set expires_at = clock_timestamp() - interval '1s' where $1"
}

test_a_known_key_answers_the_first_id() {
	answer=$(reeve submit nothing first --queue known --key k --json)
	id=$(jq .id <<<"$answer")
	expect_eq false "$(jq .existing <<<"$answer")"
	expect_eq "$id" "$(reeve submit nothing second --queue known --key k 2>/dev/null)"
	expect_eq "$id true" "$(reeve submit sh third --queue known --key k --priority 5 --json | jq -r '"\(.id) \(.existing)"')"
	expect_eq 1 "$(tasks_in known)"
	expect_eq 'nothing first 0' "$(reeve show "$id" --json | jq -r '"\(.type) \(.details) \(.priority)"')"
	expect_eq submitted "$(events "$id")"
}

test_a_key_belongs_to_its_queue() {
	one=$(reeve submit nothing --queue mine --key shared --json)
	other=$(reeve submit nothing --queue yours --key shared --json)
	expect_eq 'false false' "$(jq -rs '[.[].existing] | join(" ")' <<<"$one$other")"
	expect [ "$(jq .id <<<"$one")" != "$(jq .id <<<"$other")" ]
	expect [ "$(reeve submit nothing --queue mine --key Shared)" != "$(jq .id <<<"$one")" ]
	expect_eq '2 1' "$(tasks_in mine) $(tasks_in yours)"
}

test_a_race_for_a_key_has_one_winner() {
	start_manager second
	for round in 1 2 3; do
		racers=()
		for n in $(seq 1 20); do
			url=${URL[manager]}
			if [ $round != 1 ] && [ $((n % 2)) = 0 ]; then url=${URL[second]}; fi
			reeve submit nothing "$n" --queue race --key "key $round" --json --manager "$url" >"$DIR/answer.$round.$n" &
			racers+=($!)
		done
		for racer in "${racers[@]}"; do wait "$racer"; done
		expect_eq 1 "$(cat "$DIR/answer.$round."* | jq .id | sort -u | wc -l)" 'different ids answered'
		expect_eq '1 19' "$(cat "$DIR/answer.$round."* | jq -rs '"\(map(select(.existing | not)) | length) \(map(select(.existing)) | length)"')"
		expect_eq $round "$(tasks_in race)"
		# The task is that of the caller whose answer says that it created the task.
		winner=$(jq -r 'select(.existing | not) | input_filename' "$DIR/answer.$round."*)
		expect_eq "${winner##*.}" "$(field "$(jq .id "$winner")" details)"
	done
}

# A lifetime counts from the submit, whether or not the task has ended. The next task with the key sets a lifetime of
# its own.
test_a_key_is_forgotten_after_its_lifetime() {
	short=$(reeve submit nothing --queue ttl --key k --key-ttl 10m --delay 1h)
	long=$(reeve submit nothing --queue ttl --key l --key-ttl 1h --delay 1h)
	expect_eq t "$(sql "select k.expires_at = t.created + interval '10m' from keys k join tasks t on t.id = k.task_id where t.id = $short")"
	expire_keys "task_id = $short"
	answer=$(reeve submit nothing --queue ttl --key k --key-ttl 1h --json)
	expect_eq false "$(jq .existing <<<"$answer")"
	expect [ "$(jq .id <<<"$answer")" != "$short" ]
	expect_eq "$(jq .id <<<"$answer")" "$(reeve submit nothing --queue ttl --key k)"
	expect_eq "$long" "$(reeve submit nothing --queue ttl --key l)"
	expect_eq 3 "$(tasks_in ttl)"
	expect_eq queued "$(field "$short" status)"
}

test_a_key_is_remembered_after_the_task_ended() {
	start_worker
	declare -A ids
	ids[completed]=$(reeve submit nothing --queue after --key completed)
	ids[dead]=$(reeve submit sh 'exit 65' --queue after --key dead)
	ids[cancelled]=$(reeve submit nothing --queue after --key cancelled --delay 1h)
	ids[short]=$(reeve submit nothing --queue after --key short --key-ttl 10m)
	reeve cancel "${ids[cancelled]}" >/dev/null
	reeve wait "${ids[@]}" >/dev/null || true
	for key in completed dead cancelled; do
		expect_eq $key "$(field "${ids[$key]}" status)"
		expect_eq "${ids[$key]} true" "$(reeve submit nothing --queue after --key $key --json | jq -r '"\(.id) \(.existing)"')"
	done
	expect_eq 3 "$(sql "select count(*) from keys k join task_history h using (task_id) where k.queue = 'after'
		and k.expires_at is null")" 'keys that are kept as long as their tasks'
	expire_keys "task_id = ${ids[short]}"
	expect [ "$(reeve submit nothing --queue after --key short)" != "${ids[short]}" ]
	# A retry runs the same task, which keeps its key.
	reeve retry "${ids[completed]}" >/dev/null
	reeve wait "${ids[completed]}" >/dev/null
	expect_eq "${ids[completed]}" "$(reeve submit nothing --queue after --key completed)"
	expect_eq "${ids[completed]}" "$(reeve submit nothing --queue after --key completed)"
}

test_a_queue_may_set_the_lifetime_of_keys() {
	reeve queue set lifetimes --key-ttl 10m >"$DIR/settings"
	expect_match 'keeps keys +10m' "$(cat "$DIR/settings")"
	a=$(reeve submit nothing --queue lifetimes --key a)
	b=$(reeve submit nothing --queue lifetimes --key b --key-ttl 1h)
	c=$(sql "select submit('nothing', queue => 'lifetimes', key => 'c')")
	reeve schedule add keyed --manual nothing --queue lifetimes --key d >/dev/null
	d=$(reeve schedule run keyed)
	expect_eq 'a 600000,b 3600000,c 600000,d 600000' "$(sql "select string_agg(key || ' ' || keep_ms, ',' order by key) from keys where queue = 'lifetimes'")"
	expect_eq 4 "$(sql "select count(*) from keys k join tasks t on t.id = k.task_id where k.queue = 'lifetimes'
		and k.expires_at - t.created between interval '1ms' * (k.keep_ms - 60000) and interval '1ms' * (k.keep_ms + 60000)")"
	expire_keys "queue = 'lifetimes' and keep_ms = 600000"
	for key in a c d; do
		expect_eq false "$(reeve submit nothing --queue lifetimes --key $key --json | jq .existing)" "$key"
	done
	expect_eq "$b true" "$(reeve submit nothing --queue lifetimes --key b --json | jq -r '"\(.id) \(.existing)"')"
	reeve queue set lifetimes --key-ttl 0 >"$DIR/settings"
	expect_match 'keeps keys +as long as their tasks' "$(cat "$DIR/settings")"
	reeve submit nothing --queue lifetimes --key e >/dev/null
	expect_eq 1 "$(sql "select count(*) from keys where key = 'e' and keep_ms is null and expires_at is null")"
}

test_doubled_keys_in_a_bulk_file_make_one_task_each() {
	for n in $(seq 1 2500); do
		printf '{"type":"nothing","key":"key %d","queue":"bulk %d","details":"%d"}\n' $((n * 7 % 50)) $((n % 2)) "$n"
	done >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" --json >"$DIR/answers"
	expect_eq 2500 "$(wc -l <"$DIR/answers")"
	expect_eq 50 "$(jq 'select(.existing | not) | .id' "$DIR/answers" | sort -u | wc -l)"
	expect_eq 2450 "$(jq 'select(.existing) | .id' "$DIR/answers" | wc -l)"
	expect_eq 50 "$(sql "select count(*) from tasks where queue like 'bulk _'")"
	# Each line is answered with the task of its key, which the first line with that key created.
	paste <(jq -r '"\(.queue)/\(.key)"' "$DIR/tasks") <(jq .id "$DIR/answers") | sort -u >"$DIR/got"
	sql "select queue || '/' || key || E'\t' || id from tasks where queue like 'bulk _'" | sort >"$DIR/want"
	expect diff "$DIR/want" "$DIR/got"
	expect_eq "$(seq 1 50)" "$(sql "select details from tasks where queue like 'bulk _' order by details::int")"
	# Submitting the file again creates no tasks.
	reeve submit --bulk "$DIR/tasks" 2>/dev/null | diff - <(jq .id "$DIR/answers")
	expect_eq 50 "$(sql "select count(*) from all_tasks where queue like 'bulk _'")"
}

test_a_resent_call_is_carried_out_once() {
	id=$(resend id)
	answer=$(resend submit "$id" again '' 3 "$REEVE_MANAGER")
	expect_match '^[0-9]+ [0-9]+ [0-9]+$' "$answer"
	for i in 1 2 3; do
		expect_eq "$answer" "$(resend submit "$id" again '' 3 "$REEVE_MANAGER")"
	done
	expect_eq "$(tr ' ' '\n' <<<"$answer" | sort -n)" "$(sql "select id from all_tasks where queue = 'again' order by 1")"
	# With keys, the repeated answer also marks the tasks that already existed.
	keyed=$(resend id)
	answer=$(resend submit "$keyed" again key 2 "$REEVE_MANAGER")
	expect_match '^([0-9]+) ([0-9]+)\+$' "$answer"
	expect_eq "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
	expect_eq "$answer" "$(resend submit "$keyed" again key 2 "$REEVE_MANAGER")"
	# A cancel changes the task once, and a resent call gets the same answer.
	cancel=$(resend id)
	task=${BASH_REMATCH[1]}
	expect_eq "$task" "$(resend cancel "$cancel" "$task" "$REEVE_MANAGER")"
	expect_eq "$task" "$(resend cancel "$cancel" "$task" "$REEVE_MANAGER")"
	expect_eq "$task+" "$(resend cancel "$(resend id)" "$task" "$REEVE_MANAGER")"
	expect_eq 'submitted cancel_requested cancelled' "$(events "$task")"
	expect_eq 4 "$(tasks_in again)"
}

test_a_resent_call_after_a_restart_is_carried_out_once() {
	start_manager mortal
	id=$(resend id)
	keyed=$(resend id)
	answer=$(resend submit "$id" restart '' 5 "${URL[mortal]}")
	answer_keyed=$(resend submit "$keyed" restart key 2 "${URL[mortal]}")
	kill_manager mortal
	start_manager mortal
	expect_eq "$answer" "$(resend submit "$id" restart '' 5 "${URL[mortal]}")"
	expect_eq "$answer_keyed" "$(resend submit "$keyed" restart key 2 "${URL[mortal]}")"
	expect_eq 6 "$(tasks_in restart)"
}

# The manager is killed while PostgreSQL executes its statement. Without keys that is a single statement, which
# PostgreSQL completes although no connection waits for it. With keys it is a transaction that is never committed. The
# caller cannot know which, and its client resends the call.
test_a_manager_killed_in_the_middle_of_a_call_leaves_nothing_double() {
	start_manager mortal
	for key in '' key; do
		queue=killed$key
		start "lock$key" "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve \
			-c 'lock table reeve.requests in exclusive mode; select pg_sleep(600)'
		wait_until 30 '[ "$(sql "select count(*) from pg_locks where relation = '"'requests'"'::regclass and mode = '"'ExclusiveLock'"' and granted")" = 1 ]'
		start "sender$key" "$REEVE_BIN/resend" submit "$(resend id)" "$queue" "$key" 3000 "${URL[mortal]}"
		wait_until 30 '[ "$(sql "select count(*) from pg_locks where relation = '"'requests'"'::regclass and not granted")" = 1 ]'
		kill_manager mortal
		sql "select pg_terminate_backend(pid) from pg_locks where relation = 'requests'::regclass and mode = 'ExclusiveLock'" >/dev/null
		ended "lock$key"
		start_manager mortal
		ended "sender$key" 60
		expect_eq 0 "$STATUS"
		expect_eq 3000 "$(wc -w <"$DIR/log/sender$key.log")"
		expect_eq "$(tr -d + <"$DIR/log/sender$key.log" | tr ' ' '\n' | sort -nu)" \
			"$(sql "select id from all_tasks where queue = '$queue' order by 1")"
	done
	expect_eq '3000 1' "$(tasks_in killed) $(tasks_in killedkey)"
}

test_a_call_sent_to_two_managers_at_once_is_carried_out_once() {
	start_manager other
	urls=("${URL[manager]}" "${URL[other]}" "${URL[manager]}" "${URL[other]}" "${URL[manager]}" "${URL[other]}")
	for round in $(seq 1 8); do
		resend submit "$(resend id)" two '' 20 "${urls[@]}" >"$DIR/answers"
		expect_eq '6 1' "$(wc -l <"$DIR/answers") $(sort -u "$DIR/answers" | wc -l)"
		expect_eq $((round * 20)) "$(tasks_in two)"
		resend submit "$(resend id)" keyed "key $round" 3 "${urls[@]}" >"$DIR/answers"
		expect_eq '6 1' "$(wc -l <"$DIR/answers") $(sort -u "$DIR/answers" | wc -l)"
		expect_match '^([0-9]+) ([0-9]+)\+ ([0-9]+)\+' "$(cat "$DIR/answers")"
		expect_eq $round "$(tasks_in keyed)"
	done
}

test_request_ids_that_say_nothing_are_refused() {
	refused() { # CODE WORDS ID COUNT
		code=0
		said=$(resend submit "$3" refused '' "$4" "$REEVE_MANAGER") || code=$?
		expect_eq 4 $code
		expect_match "^$1: .*$2" "$said"
	}
	refused FAILED_PRECONDITION 'more than a day old' "$(resend id $((-24 * 3600 - 60)))" 1
	refused FAILED_PRECONDITION 'more than a day old' 00000000-0000-7000-8000-000000000000 1
	refused INVALID_ARGUMENT 'future' "$(resend id $((3600 + 60)))" 1
	refused INVALID_ARGUMENT 'future' ffffffff-ffff-7fff-bfff-ffffffffffff 1
	refused INVALID_ARGUMENT 'version 7' 3fa85f64-5717-4562-b3fc-2c963f66afa6 1
	refused INVALID_ARGUMENT 'version 7' 00000000-0000-0000-0000-000000000000 1
	expect_eq 0 "$(tasks_in refused)"
	# Ids just within the bounds are accepted.
	for seconds in $((-23 * 3600)) 3000; do
		id=$(resend id $seconds)
		answer=$(resend submit "$id" taken '' 2 "$REEVE_MANAGER")
		expect_eq "$answer" "$(resend submit "$id" taken '' 2 "$REEVE_MANAGER")"
		# An id that was used for another call creates no task.
		refused INVALID_ARGUMENT 'used for another call' "$id" 3
		refused INVALID_ARGUMENT 'used for another call' "$id" 1
	done
	expect_eq '4 0' "$(tasks_in taken) $(tasks_in refused)"
	# A cancel with an id that is too old changes no task.
	old=$(resend id $((-24 * 3600 - 60)))
	task=${answer%% *}
	expect_match '^FAILED_PRECONDITION: ' "$(resend cancel "$old" "$task" "$REEVE_MANAGER" || true)"
	expect_eq submitted "$(events "$task")"
}

run_tests
