#!/usr/bin/env bash
# The ordinary life of a task: it is submitted, a program runs it, and its result is read; and how `reeve` shows it.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/locks.bash"

start_postgres
start_manager
start_worker worker --concurrency 4

test_a_task_runs_and_has_a_result() {
	id=$(reeve submit sha256 hello 2>"$DIR/said")
	expect_match '^[0-9]+$' "$id"
	expect_eq '' "$(cat "$DIR/said")" 'on standard error'
	reeve wait "$id"
	expect_eq "$(printf hello | sha256sum)" "$(field "$id" result)"
	expect_eq completed "$(field "$id" status)"
	expect_eq 1 "$(field "$id" attempt)"
	expect_eq 'submitted claimed completed' "$(events "$id")"
	expect_eq 1 "$(sql "select count(*) from task_history where task_id = $id")"
	expect_eq 0 "$(sql "select count(*) from tasks where id = $id")"
}

# Details are input, never a command: the handler gets exactly these bytes.
test_details_are_standard_input_and_nothing_else() {
	local details=('' ' ' '-' '--help' '$(touch '"$DIR"'/injected)' '`touch '"$DIR"'/injected`' "it's \"quoted\" \\ \\n %s"
		$'lines\n\nand\ttabs\r\n' 'ünïcödé 🦀' '{"json": [1, null, "\u0000"]}' '; touch '"$DIR"'/injected')
	for text in "${details[@]}"; do
		printf %s "$text" >"$DIR/want"
		reeve submit echo - --wait <"$DIR/want" >"$DIR/got"
		expect cmp "$DIR/want" "$DIR/got"
		id=$(reeve submit echo - <"$DIR/want")
		reeve show "$id" --json | jq -j .details | cmp - "$DIR/want"
	done
	expect_eq --dashes "$(reeve submit echo --wait -- --dashes)"
	[ ! -e "$DIR/injected" ] || fail 'the details were run'
}

test_details_of_a_mebibyte_come_back_whole() {
	head -c 786432 /dev/urandom | base64 -w 0 >"$DIR/want"
	expect_eq 1048576 "$(stat -c %s "$DIR/want")"
	reeve submit echo - --wait <"$DIR/want" >"$DIR/got"
	expect cmp "$DIR/want" "$DIR/got"
}

test_a_handler_that_does_not_read_its_input_is_not_harmed() {
	head -c 1048576 /dev/zero | tr '\0' x | reeve submit nothing - --wait
}

test_the_environment_names_the_task() {
	script='for v in TASK_ID TASK_TYPE QUEUE KEY ATTEMPT TOKEN; do v=REEVE_$v; printf "%s=<%s>\n" "$v" "${!v-not set}"; done'
	id=$(reeve submit sh "$script" --queue 'a queue, ünïcödé' --key "a 'key' = \$x")
	reeve wait "$id"
	want="REEVE_TASK_ID=<$id>
REEVE_TASK_TYPE=<sh>
REEVE_QUEUE=<a queue, ünïcödé>
REEVE_KEY=<a 'key' = \$x>
REEVE_ATTEMPT=<1>
REEVE_TOKEN=<$(event_field "$id" claimed token)>"
	expect_eq "$want" "$(field "$id" result)"
	id=$(reeve submit sh "$script")
	reeve wait "$id"
	expect_match $'REEVE_QUEUE=<default>\nREEVE_KEY=<>\n' "$(field "$id" result)"
}

# A worker of root runs programs as other users: nothing of the worker's comes along.
test_a_handler_runs_as_another_user() {
	[ "$(id -u)" = 0 ] || return 0
	local supervisor sleeper
	handlers <<-END
		[handler who]
		exec = /bin/sh -c 'id -un; id -Gn; echo seen >/dev/stderr; ls /root 2>&1 | grep -o denied'
		user = nobody
		env =
		[handler what]
		exec = /usr/bin/env
		user = nobody
		env = PATH
		[handler has]
		exec = /bin/sh -c 'ls /proc/self/fd; grep -E "^Cap(Prm|Eff|Amb)" /proc/self/status | cut -f 2 | sort -u'
		user = nobody
		env = PATH
		[handler stays]
		exec = /bin/sleep 1000
		user = nobody
		env =
	END
	SECRET=x start_worker other --type who,what,has,stays
	expect_eq "nobody $(id -Gn nobody) denied" "$(reeve submit who --wait | xargs)"
	expect_eq "HOME=$(getent passwd nobody | cut -d: -f6) LOGNAME=nobody PATH=$PATH USER=nobody" \
		"$(reeve submit what --wait | grep -vE '^(REEVE_|TRACEPARENT=)' | sort | xargs)"
	# Its descriptors (3: for remarks, 4: that of `ls`) and capabilities.
	expect_eq '0 1 2 3 4 0000000000000000' "$(reeve submit has --wait | xargs)"
	expect_eq 'dead timeout' "$(id=$(reeve submit stays --timeout 1s --retry-limit 0) && { reeve wait "$id" >/dev/null || true; } &&
		reeve show "$id" --json | jq -r '"\(.status) \(.error_code)"')"
	# It ends with the supervisor.
	reeve submit stays >/dev/null
	supervisor=$(pgrep -P "$(pid other)")
	wait_until 20 'pgrep -u nobody -P "$supervisor" -x sleep >/dev/null'
	sleeper=$(pgrep -u nobody -P "$supervisor" -x sleep)
	kill -KILL "$supervisor"
	wait_until 10 '! kill -0 "$sleeper" 2>/dev/null'
	ended other
	for wrong in 'user = nobody' $'user = no-such-user\nenv =' $'user = nobody\nuser = nobody\nenv ='; do
		handlers <<<"[handler who]
exec = /usr/bin/env
$wrong"
		expect_fail 2 "$REEVE_BIN/reeve-worker" --check --handlers "$HANDLERS"
		expect_match 'user(:| needs env| is given twice)' "$OUTPUT"
	done
	printf '[handler who]\nexec = /usr/bin/env\nuser = root\nenv =\n' >"$DIR/handlers.other"
	chmod 755 "$DIR"
	chmod 644 "$DIR/handlers.other"
	expect_fail 2 as_user "$REEVE_BIN/reeve-worker" --check --handlers "$DIR/handlers.other"
	expect_match 'user: only a worker of root can run programs as another user' "$OUTPUT"
}

# Variables for the worker alone, such as a password, are not passed on.
test_a_handler_gets_the_variables_that_it_names() {
	handlers <<-END
		[handler some]
		exec = /usr/bin/env
		env = PATH OURS_* MISSING OURS_A REEVE_TASK_ID
		[handler none]
		exec = /usr/bin/env
		env =
		[handler all]
		exec = /usr/bin/env
	END
	export OURS_A=1 OURS_B='two words' OURS='' SECRET=x REEVE_TASK_ID=7
	start_worker chooser --type some,none,all
	for type in some none all; do
		reeve submit $type x --wait >"$DIR/$type"
		expect_match "REEVE_TASK_TYPE=$type" "$(cat "$DIR/$type")"
		expect_eq 1 "$(grep -c '^REEVE_TASK_ID=[1-9]' "$DIR/$type")"
	done
	variables() { # TYPE
		grep -vE '^(REEVE_|TRACEPARENT=$)' "$DIR/$1" | sort
	}
	expect_eq "OURS_A=1
OURS_B=two words
PATH=$PATH" "$(variables some)"
	expect_eq '' "$(variables none)"
	expect_match 'SECRET=x' "$(variables all)"
	for wrong in A=b '*' 'A*B' HOME,LANG; do
		handlers <<<"[handler some]
exec = /usr/bin/env
env = PATH $wrong"
		expect_fail 2 "$REEVE_BIN/reeve-worker" --check --handlers "$HANDLERS"
		expect_match 'env: .* is not the name of a variable' "$OUTPUT"
	done
	stop chooser
}

test_tokens_grow_with_the_attempts() {
	id=$(reeve submit sh 'echo "$REEVE_ATTEMPT $REEVE_TOKEN" >>"$REEVE_TEST_DIR/tokens.$REEVE_TASK_ID"; exit 1' --max-attempts 4 \
		--retry-base 10ms)
	expect_fail 1 reeve wait "$id"
	expect_eq '1 2 3 4' "$(cut -d' ' -f1 "$SUITE_DIR/tokens.$id" | xargs)"
	cut -d' ' -f2 "$SUITE_DIR/tokens.$id" | sort -nuc
	expect_eq "$(cut -d' ' -f2 "$SUITE_DIR/tokens.$id")" "$(event_field "$id" claimed token)"
}

test_wait_prints_the_result_and_only_that() {
	expect_eq 'a result' "$(reeve submit sh 'echo noise >&2; printf "a result"' --wait 2>"$DIR/said")"
	expect_eq '' "$(cat "$DIR/said")"
	expect_fail 1 reeve submit sh 'printf "because\nof this" >&2; exit 65' --wait
	expect_match 'dead after 1 attempt: exit:65: because of this' "$OUTPUT"
	expect_eq '' "$(reeve submit sh 'echo part; exit 65' --wait 2>/dev/null || true)" 'a failed attempt has no result'
	expect_eq 'completed 7' "$(reeve submit sh 'printf 7' --wait --json | jq -r '"\(.status) \(.result)"')"
	code=0
	OUTPUT=$(reeve submit sh 'exit 65' --wait --json) || code=$?
	expect_eq 1 $code
	expect_eq dead "$(jq -r .status <<<"$OUTPUT")"
}

test_wait_sets_the_exit_code() {
	good=$(reeve submit nothing)
	bad=$(reeve submit sh 'exit 65')
	late=$(reeve submit nothing --delay 1h)
	reeve wait "$good"
	reeve wait "$good" "$good"
	expect_fail 1 reeve wait "$bad"
	expect_fail 1 reeve wait "$good" "$bad"
	expect_match "$good +nothing +completed.*$bad +sh +dead" "$OUTPUT"
	expect_fail 1 reeve wait "$bad" "$good"
	expect_match "$bad +sh +dead.*$good +nothing +completed" "$OUTPUT" 'in the order given'
	expect_fail 1 reeve wait "$late" --max-wait 100ms
	expect_match 'not ended in time' "$OUTPUT"
	expect_fail 1 reeve wait "$good" "$late" --max-wait 0
	expect_match "$good +nothing +completed" "$OUTPUT"
	expect_fail 1 reeve wait "$late" --max-wait 0 --json
	expect_fail 4 reeve wait 999999999
	expect_match 'no task 999999999' "$OUTPUT"
	expect_fail 4 reeve wait "$good" 999999999
	expect_fail 2 reeve wait
	expect_fail 2 reeve wait none
	expect_fail 2 reeve wait 0
	expect_fail 2 reeve wait -- -1
	expect_fail 2 reeve wait 99999999999999999999
	expect_fail 3 reeve wait "$good" --manager "tcp://127.0.0.1:$(free_port)" --connect-timeout 300ms
	printf '%s\n' "$good" "$good" | reeve wait -
	expect_eq "$good completed" "$(reeve wait "$good" --json | jq -r '"\(.id) \(.status)"')"
	reeve cancel "$late" >/dev/null
	expect_fail 1 reeve wait "$late"
	expect_match "$late +nothing +cancelled" "$OUTPUT"
}

# A Wait that began before the task's end is answered at that end, not by polling.
# measures time
test_wait_returns_at_once() {
	id=$(reeve submit nothing --delay 2s)
	begin=$(ms)
	reeve wait "$id"
	expect_eq completed "$(field "$id" status)"
	finished=$(sql "select (extract(epoch from last_updated) * 1000)::bigint from task_history where task_id = $id")
	expect [ $(($(ms) - begin)) -ge 1000 ]
	expect [ $(($(ms) - finished)) -lt 5000 ]
}

# The end is committed at another manager. A caller learns it after at most the task's own time again; without other
# managers it would look for the end 500 ms after its call at the earliest.
# measures time
test_wait_returns_soon_if_another_managers_worker_runs_the_task() {
	start_manager other
	handlers <<-'END'
		[handler short]
		exec = /bin/sleep 0.1
	END
	start_worker away --queue away --concurrency 2
	REEVE_MANAGER=${URL[manager]} start far "$REEVE_BIN/steady-calls" 1 short away
	median() { awk '$3 == "wait" { print $2 }' "$DIR/log/far.log" | tail -n 7 | sort -n | sed -n 4p; } # of the last seven
	wait_until 60 '[ "$(grep -c wait "$DIR/log/far.log")" -ge 7 ] && [ "$(median)" -lt 400 ]'
	stop far
}

test_a_bulk_file_becomes_tasks_in_its_order() {
	for i in $(seq 1 300); do
		printf '{"type":"echo","details":{"n":%d},"queue":"bulk","priority":%d}\n' "$i" $((i % 3))
	done >"$DIR/tasks.jsonl"
	reeve submit --bulk "$DIR/tasks.jsonl" --wait >"$DIR/ids" 2>"$DIR/said"
	expect_match '300 completed, 0 dead, 0 cancelled' "$(cat "$DIR/said")"
	expect_eq 300 "$(sort -nu "$DIR/ids" | wc -l)"
	expect sort -nc "$DIR/ids"
	expect_eq "$(seq -f '{"n":%g}' 1 300)" "$(sql "select result from task_history where queue = 'bulk' order by task_id")"
	expect_eq "$(cat "$DIR/ids")" "$(sql "select task_id from task_history where queue = 'bulk' order by task_id")"
	expect_eq '100|100' "$(sql "select count(*) filter (where priority = 0), count(*) filter (where priority = 2)
		from task_history where queue = 'bulk'")"
	printf '{}\n\n{"type":"sh","details":"exit 65"}\n' >"$DIR/tasks.jsonl"
	expect_fail 1 reeve submit --bulk "$DIR/tasks.jsonl" nothing --wait
	expect_match '1 completed, 1 dead, 0 cancelled' "$OUTPUT"
	expect_eq 2 "$(printf '{"type":"nothing"}\n{"type":"nothing"}\n' | reeve submit --bulk - | wc -l)"
	expect_eq 'completed' "$(echo '{"type":"nothing"}' | reeve submit --bulk - --wait --json | jq -r .status)"
}

test_a_bulk_file_may_be_an_array_or_bare_details() {
	echo '[{"type": "echo", "details": "one"}, {"type": "echo", "details": {"n": 2}}]' | reeve submit --bulk - --queue array --wait >"$DIR/ids"
	echo '[{"name":"Tuhin1"},{"name":"Tuhin2"}]' | reeve submit --bulk - --type echo --queue array --wait >>"$DIR/ids"
	printf '{"name":"Tuhin3"}\n"text"\n' | reeve submit --bulk - --type echo --queue array --wait >>"$DIR/ids"
	expect_eq 'one|{"n":2}|{"name":"Tuhin1"}|{"name":"Tuhin2"}|{"name":"Tuhin3"}|text' \
		"$(sql "select string_agg(result, '|' order by task_id) from task_history where queue = 'array'")"
	expect_eq 6 "$(wc -l <"$DIR/ids")"
}

# What a file or a child writes as JSON is stored as it is written: no number is rounded, and none is too large.
test_numbers_keep_their_digits() {
	local numbers='{"p":19.99,"n":12345678901234567890,"f":1e400}'
	id=$(printf '{"type":"nothing","details":%s,"key":"digits"}\n' "$numbers" | reeve submit --bulk -)
	expect_eq "$numbers" "$(reeve show "$id" --json | jq -r .details)"
	expect_eq "$id" "$(reeve list --where 'details.p=19.99' --json | jq .id)"
	expect_eq "$id" "$(reeve list --where 'details.n=12345678901234567890' --json | jq .id)"
	id=$(printf '{"p": 0.1}\n' | reeve submit --bulk - --type nothing)
	expect_eq '{"p":0.1}' "$(reeve show "$id" --json | jq -r .details)"
	expect_fail 4 reeve submit --bulk - < <(printf '{"type":"nothing","details":{"p":1e400,"n":01}}\n')
	expect_match 'is not JSON: invalid token' "$OUTPUT"
	expect_fail 4 reeve submit --bulk - < <(printf '{"type":"nothing","priority":1e400}\n')
	expect_match 'is not JSON: real number overflow' "$OUTPUT"
	cat >"$DIR/handlers.ini" <<-'END'
		[handler decimal]
		stdio = jq -cr --unbuffered '"{\"id\":\(.id | tojson),\"result\":\(.details)}"'
	END
	start decimal "$REEVE_BIN/reeve-worker" --handlers "$DIR/handlers.ini" --name decimal
	expect_eq 0.1 "$(reeve submit decimal 0.1 --wait)"
	expect_eq "$numbers" "$(reeve submit decimal "$numbers" --wait)"
	stop decimal
}

# Programs depend on these names. A field without a value yet, such as `ended` of a waiting task, is left out.
test_json_has_stable_names() {
	names() { jq -sc '[.[] | keys] | flatten | unique'; }
	done=$(reeve submit echo hello --key json --queue json)
	reeve wait "$done" >/dev/null
	later=$(reeve submit echo hello --delay 1h --queue json)
	every='["attempt","batch_id","cancel_requested","created","details","ended","error_code","error_count","first_started","id","key","last_error","max_attempts","parent_id","pipeline","priority","processing_ms","queue","remark","result","run_at","source","stack_trace","stage","started","status","step","timeout_ms","token","traceparent","type","version","worker"]'
	expect_eq "$every" "$(reeve show "$done" --json | names)"
	expect_eq "$(jq -c '. - ["ended", "first_started", "started"] + ["waiting"] | sort' <<<"$every")" "$(reeve show "$later" --json | names)"
	expect_eq '["busy","reason","slots","task_id","workers"]' "$(reeve show "$later" --json | jq .waiting | names)"
	# A field that an answer does not contain is absent, not empty.
	expect_eq "$(jq -c '. - ["details"]' <<<"$every")" "$(reeve wait "$done" --json | names)"
	expect_eq hello "$(reeve wait "$done" --json | jq -r .result)"
	expect_eq "$(jq -c '. - ["details", "result", "stack_trace"] + ["waiting"] | sort' <<<"$every")" "$(reeve list --queue json --json | names)"
	expect_eq '["actor","at","attempt","event","note","task_id","token","worker","worker_id"]' "$(reeve audit "$done" --json | names)"
	expect_eq '["delayed","executing","failed","queue","queued","type"]' "$(reeve queue list --queue json --json | names)"
	expect_eq '["batch_completed","batch_failed","completed","concurrency","failed","heartbeat","holding","host","incarnation","manual","mode","mode_since","name","owner","pid","queue_completed","queue_failed","queues","registered","state","types","uptime_ms","version"]' \
		"$(reeve worker list --json | names)"
	expect_eq '["cancelled","completed","counters","dead","delayed","executing","failed","queued","workers_alive"]' \
		"$(reeve stats --json | names)"
	expect_eq '["existing","id","restarted"]' "$(reeve submit echo --key json --queue json --json | names)"
	expect_eq '["changed","id","note","status"]' "$(reeve update "$later" --priority 2 --json | names)"
	expect_eq '["changed","id","note","status"]' "$(reeve retry "$done" --json | names)"
	expect_eq '["changed","id","note","status"]' "$(reeve cancel "$later" --json | names)"
	expect_match '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z$' "$(field "$done" created)"
}

test_people_get_tables() {
	id=$(reeve submit sh 'printf "a result"' --key 'the key' --queue tables --priority 7 --source me)
	reeve wait "$id" >"$DIR/wait"
	expect_match "ID +TYPE +STATUS +ATTEMPTS +RAN +RESULT OR ERROR
 *$id +sh +completed +1 +[0-9.]+m?s +a result" "$(cat "$DIR/wait")"
	for word in "task +$id" 'status +completed' 'queue +tables' 'type +sh' 'key +the key' 'priority +7' 'source +me' \
		'attempts +1 of 5, each up to 1m' 'worker +worker' 'result:'$'\n''a result'; do
		expect_match "$word" "$(reeve show "$id")"
	done
	expect_match "ID +STATUS +QUEUE +TYPE +PRIO +TRIES +AGE +WORKER +NOTE
 *$id +completed +tables +sh +7 +1/5 " "$(reeve list --queue tables)"
	expect_match "TIME +EVENT +ATTEMPT +WORKER +ACTOR +NOTE
[^ ]+ [^ ]+ +submitted .* me .*
[^ ]+ [^ ]+ +claimed +1 +worker .*
[^ ]+ [^ ]+ +completed +1 +worker" "$(reeve audit "$id")"
	expect_match "TIME +TASK +EVENT .* +$id +completed" "$(reeve audit --limit 100000)"
	expect_fail 1 bash -c '"$1" show "$2" >/dev/full' - "$REEVE_BIN/reeve" "$id"
	expect_match 'cannot write to standard output: No space left on device' "$OUTPUT"
	# Output that is longer than the buffer fails before its end. The servers also print.
	for command in 'reeve submit --help' 'reeve-manager --help' 'reeve-manager --version' 'reeve-worker --help' \
		'reeve-worker --print-options'; do
		expect_fail 1 bash -c '"$1"/$2 >/dev/full' - "$REEVE_BIN" "$command"
		expect_eq "${command%% *}: cannot write to standard output: No space left on device" "$OUTPUT"
	done
	expect_match 'QUEUE +TYPE +QUEUED +DELAYED +EXECUTING +FAILED +OLDEST
tables +sh +0 +0 +0 +0' "$(reeve queue list --queue tables)"
	expect_match 'worker +alive +running +[0-9]+[sm] +4 +0 .* all +sh,echo,sha256,nothing' "$(reeve worker list)"
	expect_match 'completed +[1-9].*workers alive +1' "$(reeve stats)"
	# No table is wider than its terminal, however long its values are.
	long=a-name-that-is-much-longer-than-any-column-of-a-narrow-terminal
	reeve submit sh true --queue "$long" --wait >/dev/null
	reeve schedule add "$long" --manual sh true --queue "$long" >/dev/null
	reeve batch open "$long" --queue "$long" >/dev/null
	for words in 'schedule list' 'batch list' 'stats --by type'; do
		COLUMNS=60 NO_COLOR=1 script -qec "'$REEVE_BIN/reeve' --manager '$REEVE_MANAGER' $words" /dev/null | tr -d '\r' >"$DIR/table"
		expect_match $'\n *([0-9]+ +)?a-na' "$(cat "$DIR/table")" "$words"
		expect [ "$(wc -L <"$DIR/table")" -le 60 ]
	done
	expect_no_match $'\e' "$(reeve list; reeve stats; reeve show "$id")" 'colour though it is no terminal'
}

test_options_stand_before_or_after_the_command() {
	id=$(reeve --json --manager "$REEVE_MANAGER" submit echo hi | jq .id)
	expect_eq "$(reeve show "$id" --json | jq .created)" "$(reeve --json show "$id" | jq .created)"
	expect_eq "$id" "$(env -u REEVE_MANAGER "$REEVE_BIN/reeve" show "$id" --json --manager "$REEVE_MANAGER" | jq .id)"
	expect_eq "$id" "$(env REEVE_MANAGER=tcp://127.0.0.1:1 "$REEVE_BIN/reeve" --manager="$REEVE_MANAGER" show --json "$id" | jq .id)"
	# One reachable manager of several is enough.
	expect_eq "$id" "$(reeve show "$id" --json --manager "tcp://127.0.0.1:$(free_port),$REEVE_MANAGER" | jq .id)"
	for command in submit wait show list audit cancel discard retry update queue worker fetch report extend stats dev; do
		expect_match "reeve $command" "$(reeve "$command" --help)"
		expect_match "$command" "$(reeve --help)"
	done
	expect_match 'reeve-manager' "$("$REEVE_BIN/reeve-manager" --help)"
	expect_match 'reeve-worker' "$("$REEVE_BIN/reeve-worker" --help)"
	expect_fail 2 reeve
	expect_fail 2 reeve nonsense
	expect_fail 2 reeve submit
	expect_fail 2 reeve list extra
	expect_fail 2 reeve show 1 2
	expect_fail 2 reeve submit echo --nonsense
	expect_match nonsense "$OUTPUT"
	expect_fail 3 reeve stats --manager "tcp://127.0.0.1:$(free_port)" --connect-timeout 300ms
}

test_lists_are_filtered_newest_first_and_paged() {
	for i in $(seq 1 7); do
		printf '{"type":"echo","delay":"1h"}\n{"type":"sh","delay":"1h","queue":"filter too"}\n'
	done | reeve submit --bulk - --queue filter >"$DIR/ids"
	listed() { reeve list --json "$@" | jq -r .id; }
	expect_eq "$(sed -n 'p;n' "$DIR/ids" | sort -nr)" "$(listed --queue filter)"
	expect_eq "$(sed -n 'n;p' "$DIR/ids" | sort -nr)" "$(listed --type sh --queue 'filter too')"
	expect_eq '' "$(listed --type sh --queue filter)"
	expect_eq "$(sed -n 'p;n' "$DIR/ids" | sort -nr | head -n 3)" "$(listed --queue filter --limit 3)"
	reeve cancel "$(head -n 1 "$DIR/ids")" >/dev/null
	expect_eq "$(head -n 1 "$DIR/ids")" "$(listed --queue filter --status cancelled)"
	expect_eq 6 "$(listed --queue filter --status queued | wc -l)"
	expect_eq '7 0' "$(reeve queue list --queue 'filter too' --json | jq -r '"\(.delayed) \(.queued)"')"
	for status in queued executing failed completed dead cancelled; do
		reeve list --status $status >/dev/null
	done
	# More tasks than fit into one page or one answer.
	for i in $(seq 1 2500); do echo '{"type":"echo","delay":"1h"}'; done | reeve submit --bulk - --queue pages >"$DIR/ids"
	expect_eq "$(sort -nr "$DIR/ids")" "$(listed --queue pages --limit 10000)"
	expect_eq "$(sort -nr "$DIR/ids" | head -n 1234)" "$(listed --queue pages --limit 1234)"
}

test_the_audit_of_all_is_in_order_and_can_begin_later() {
	first=$(reeve submit nothing)
	reeve wait "$first" >/dev/null
	since=$(field "$first" ended)
	sleep 0.01
	second=$(reeve submit nothing)
	reeve wait "$second" >/dev/null
	reeve audit --since "$since" --limit 100000 --json >"$DIR/events"
	expect_eq 'submitted claimed completed' "$(jq -rs "[.[] | select(.task_id == $second) | .event] | join(\" \")" "$DIR/events")"
	expect_eq '' "$(jq -r "select(.task_id == $first and .event != \"completed\")" "$DIR/events")"
	jq -r .at "$DIR/events" | sort -c
	reeve audit --limit 100000 --json >"$DIR/events"
	expect_match registered "$(jq -r .event "$DIR/events" | head -n 1)"
	expect_eq "$(tail -n 2 "$DIR/events")" "$(reeve audit --limit 2 --json 2>"$DIR/said")" 'the newest'
	expect_match 'there are older events than these' "$(cat "$DIR/said")"
}

# A result of the maximum length is stored completely; one byte more is a fatal error that names the limit.
test_results_have_a_bound() {
	id=$(reeve submit sh 'head -c 1048576 /dev/zero | tr "\0" x')
	reeve wait "$id" >/dev/null
	expect_eq 1048576 "$(sql "select length(result) from task_history where task_id = $id")"
	reeve show "$id" --json | jq -j .result >"$DIR/got"
	expect_eq 1048576 "$(stat -c %s "$DIR/got")"
	id=$(reeve submit sh 'head -c 1048577 /dev/zero | tr "\0" x')
	expect_fail 1 reeve wait "$id"
	expect_eq dead "$(field "$id" status)"
	expect_eq 1 "$(field "$id" attempt)"
	expect_match 'longer than 1048576 bytes' "$(field "$id" last_error)"
	id=$(reeve submit sh 'cat /dev/zero') # it would never end by itself
	expect_fail 1 reeve wait "$id"
	expect_match 'longer than 1048576 bytes' "$(field "$id" last_error)"
}

test_names_may_be_long_and_hold_anything_printable() {
	local long type
	long=$(head -c 255 /dev/zero | tr '\0' q)
	id=$(reeve submit echo hi --queue "$long" --key "$long" --source "$long")
	reeve wait "$id" >/dev/null
	expect_eq "$long" "$(field "$id" queue)"
	expect_eq "$long" "$(field "$id" key)"
	expect_eq "$long" "$(field "$id" source)"
	type=$(head -c 127 /dev/zero | tr '\0' t | sed 's/t/ü/g')x # 255 bytes
	handlers <<-END
		[handler $type]
		exec = /bin/cat
	END
	start_worker long --type "$type"
	id=$(reeve submit "$type" hi)
	reeve wait "$id" >/dev/null
	expect_eq "$type" "$(field "$id" type)"
	expect_eq "$id" "$(reeve list --type "$type" --json | jq .id)"
}

# The lines that were not sent are named, and the exit code is not 0.
test_a_bulk_file_that_becomes_shorter_is_noticed() {
	local file=$DIR/tasks.jsonl stored before
	seq -f '{"type":"t","details":"%06.0f"}' 10000 >"$file"
	hold table 'lock table tasks in access exclusive mode'
	before=$(wc -l <"$SUITE_DIR/log/postgres.log")
	start bulk "$REEVE_BIN/reeve" submit --bulk "$file" --queue shorter
	wait_until 20 "tail -n +$before '$SUITE_DIR/log/postgres.log' | grep 'manager submit ERROR:  canceling statement due to lock'" # after 40 ms
	truncate -s 0 "$file"
	let_go table
	ended bulk 60
	expect_eq 4 "$STATUS"
	stored=$(grep -cx '[0-9]*' "$DIR/log/bulk.log")
	expect [ "$stored" -ge 1000 ]
	expect [ "$stored" -lt 10000 ]
	expect_eq "reeve: $file has become shorter while it was read
reeve: $file: the tasks from line $((stored + 1)) on were not sent
reeve: $stored of 10000 tasks were stored" "$(grep '^reeve: ' "$DIR/log/bulk.log")"
	expect_eq "$stored 000001 $(printf %06d "$stored")" "$(sql "select count(*), min(details), max(details) from all_tasks
		where queue = 'shorter'" | tr '|' ' ')"
	# One call with --wait: the file is cut before it is read again.
	printf '{"type":"t"}\n\n{"type":"t"}\n' >"$file"
	cat >"$DIR/cut.c" <<-'END'
		#include <stdio.h>
		#include <stdlib.h>
		#include <unistd.h>
		void rewind(FILE *file)
		{
			static int calls;
			if (++calls == 2 && truncate(getenv("TO_CUT"), 0))
				abort();
			fseek(file, 0, SEEK_SET);
		}
	END
	cc -shared -fPIC -o "$DIR/cut.so" "$DIR/cut.c"
	expect_fail 4 env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$DIR/cut.so" TO_CUT="$file" \
		"$REEVE_BIN/reeve" submit --bulk "$file" --queue cut --wait
	expect_eq "reeve: $file has become shorter while it was read
reeve: $file: the tasks from line 1 on were not sent
reeve: 0 of 2 tasks were stored" "$OUTPUT"
	expect_eq 0 "$(sql "select count(*) from all_tasks where queue = 'cut'")"
}

run_tests
