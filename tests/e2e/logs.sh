#!/usr/bin/env bash
# What handlers report while they run: progress, remarks and log lines.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H"
start_worker worker --concurrency 4 --queue default

call() { # SERVICE/METHOD JSON: prints the answer of a call by HTTP
	curl -sS -m 20 -H 'content-type: application/json' ${TOKEN:+-H "authorization: Bearer $TOKEN"} -d "$2" "$H/reeve.v1.$1"
}

progress() { # ID TOKEN JSON [INCARNATION]: sends progress of an attempt; prints the status
	call WorkerService/Progress "$(jq -nc --argjson more "$3" "{attempts: [{taskId: $1, token: $2} + \$more], incarnation: ${4:-$worker}}")" |
		jq -r '(.acks[0].status // .message) | sub("RESULT_STATUS_"; "")'
}

claim() { # QUEUE: submits a task and fetches it manually; sets $id, $token, and the incarnation, $worker
	id=$(reeve submit nothing --queue "$1")
	token=$(reeve fetch --queue "$1" --json | jq .token)
	worker=$(sql "select worker_id from tasks where id = $id")
}

texts() { # ID: the texts of its log lines
	reeve logs "$1" --json | jq -r .text
}

test_lines_and_progress_are_seen_while_it_runs() {
	id=$(reeve submit sh 'say() { echo "$1" >&3; }; until_is() { until [ -e "'"$DIR"'/$1" ]; do sleep 0.05; done; }
		say "{\"progress\": 12.5, \"message\": \"page 1 of 8\", \"log\": \"opened\"}"; until_is half
		say "{\"log\": \"one\\ntwo\"}"; say "{\"progress\": 50}"; until_is rest
		say "{\"log\": \"closed\", \"progress\": 99}"')
	wait_until 20 '[ "$(field "$id" progress)" = 12.5 ] && [ "$(texts "$id")" = opened ]'
	expect_eq 'executing page 1 of 8' "$(field "$id" status) $(field "$id" remark)"
	expect_match 'progress +12.5 %' "$(reeve show "$id")"
	reeve logs "$id" --follow >"$DIR/followed" 2>"$DIR/problems" &
	follower=$!
	reeve wait "$id" --follow >"$DIR/waited" 2>"$DIR/waiting" &
	waiter=$!
	wait_until 20 'grep -q opened "$DIR/followed" && grep -q opened "$DIR/waiting"'
	touch "$DIR/half"
	wait_until 20 '[ "$(texts "$id")" = $'\''opened\none\ntwo'\'' ] && grep -q two "$DIR/followed" && grep -q "50 %" "$DIR/waiting"'
	touch "$DIR/rest"
	wait "$follower" "$waiter"
	expect_match '^[0-9-]{10} [0-9:.]{12}Z  opened$' "$(sed -n 1p "$DIR/followed")"
	expect_eq 'opened one two closed' "$(awk '{print $3}' "$DIR/followed" | xargs)"
	expect_eq '' "$(cat "$DIR/problems")"
	expect_match 'completed' "$(cat "$DIR/waited")"
	expect_eq 'opened 12.5 % page 1 of 8 one two 50 % page 1 of 8 closed 99 % page 1 of 8' "$(sed 's/^.*Z  //' "$DIR/waiting" | xargs)"
	expect_eq '99 page 1 of 8' "$(field "$id" progress) $(field "$id" remark)"
	expect_eq '1:1 2:1 3:1 4:1' "$(reeve logs "$id" --json | jq -r '"\(.number):\(.attempt)"' | xargs)"
	expect_eq 'two closed' "$(reeve logs "$id" --limit 2 --json | jq -r .text | xargs)"
}

test_what_nobody_reads_is_not_followed() {
	id=$(reeve submit sh 'echo "LOG | one" >&3; until [ -e "'"$DIR"'/end" ]; do sleep 0.05; done')
	line=$(timeout 60 "$REEVE_BIN/reeve" logs "$id" --follow | head -n 1)
	expect_match ' one$' "$line"
	line=$(timeout 60 "$REEVE_BIN/reeve" queue progress default --interval 100ms --json | head -n 1)
	expect_eq default "$(jq -r .queue <<<"$line")"
	ended=$(reeve submit nothing)
	line=$({ timeout 60 "$REEVE_BIN/reeve" wait "$id" "$ended" --json 2>"$DIR/problems" || expect_eq 1 $?; } | head -n 1)
	expect_eq "$ended" "$(jq .id <<<"$line")"
	expect_eq '' "$(cat "$DIR/problems")"
	touch "$DIR/end"
	reeve wait "$id" >/dev/null
}

test_each_attempt_has_its_lines() {
	id=$(reeve submit sh 'echo "{\"log\": \"attempt $REEVE_ATTEMPT\", \"progress\": $((40 * REEVE_ATTEMPT))}" >&3; exit $((2 - REEVE_ATTEMPT))' --retry-base 10ms)
	reeve wait "$id" >/dev/null
	expect_eq 'attempt 1,-- attempt 2,attempt 2' "$(reeve logs "$id" | sed 's/^[0-9].*Z  //' | paste -sd,)"
	expect_eq 80 "$(field "$id" progress)"
	expect_eq '40 80' "$(sql "select progress from task_progress where task_id = $id order by token" | xargs)"
}

test_a_line_of_words_reports_too() {
	id=$(reeve submit sh 'echo "LOG | \"quoted\" and | barred" >&3; echo "PROGRESS | 30" >&3; echo "PROGRESS | 70 page 7 of 10" >&3')
	reeve wait "$id" >/dev/null
	expect_eq '70 page 7 of 10 "quoted" and | barred' "$(field "$id" progress) $(field "$id" remark) $(texts "$id")"
	id=$(reeve submit sh 'echo "PROGRESS | most" >&3; exit 3' --max-attempts 1)
	expect_fail 1 reeve wait "$id"
	expect_match 'progress must be a number' "$(field "$id" last_error)"
}

# However much a handler writes, there is a write a second; and the last lines are kept.
test_at_most_one_write_a_second() {
	sql "create table public.writes (task_id bigint, at timestamptz);
		create function public.note_write() returns trigger language plpgsql security definer as
			'begin insert into public.writes values (new.task_id, new.at); return null; end';
		create trigger note_write after insert or update on task_progress for each row execute function public.note_write()" >/dev/null
	id=$(reeve submit sh 'i=0; until [ -e "'"$DIR"'/enough" ]; do i=$((i + 1)); echo "{\"log\": \"line $i\", \"progress\": $((i % 100)), \"message\": \"$i\"}"; done >&3; echo $i')
	wait_until 60 '[ "$(sql "select count(*) from writes where task_id = $id")" -ge 4 ]'
	touch "$DIR/enough"
	reeve wait "$id" >/dev/null
	# Its end brings what is left.
	expect_eq 0 "$(sql "select count(*) from (select at - lag(at) over (order by at) as gap, lead(at) over (order by at) as later
		from writes where task_id = $id) g where gap < interval '1s' and later is not null")"
	last=$(field "$id" result)
	expect_eq "line $last" "$(texts "$id" | tail -n 1)"
	expect_match '^[0-9]+$' "$(field "$id" remark)"
	expect_eq t "$(sql "select sum(last - first + 1) between 1000 and 2000 from task_logs where task_id = $id")"
	expect_match '^-- [0-9]+ lines were dropped$' "$(reeve logs "$id" | head -n 1)"
	# A worker that sends more often is told to wait.
	claim rates
	send() { said=$(progress "$id" "$token" "{\"lines\": [{\"text\": \"$1\"}], \"firstLine\": $1}"); }
	send 1
	expect_eq ACCEPTED "$said"
	n=1
	while [ "$said" = ACCEPTED ] && [ $n -lt 20 ]; do send $((++n)); done # on a busy machine a call may take more than a second
	expect_eq LATER "$said"
	wait_until 20 'send $n && [ "$said" = ACCEPTED ]'
	expect_eq "$(seq $n | xargs)" "$(texts "$id" | xargs)"
	reeve report "$id" "$token" --completed
	sql 'drop trigger note_write on task_progress; drop function public.note_write; drop table public.writes' >/dev/null
}

test_a_resend_changes_nothing_and_a_gap_is_seen() {
	claim resent
	lines='{"firstLine": 3, "lines": [{"text": "three", "ageMs": 5000}, {"text": "four"}], "progress": 7.125, "remark": "well"}'
	expect_eq ACCEPTED "$(progress "$id" "$token" "$lines")"
	wait_until 20 '[ "$(progress "$id" "$token" "$lines")" = ACCEPTED ]'
	wait_until 20 '[ "$(progress "$id" "$token" "{\"firstLine\": 4, \"lines\": [{\"text\": \"four\"}, {\"text\": \"five\"}]}")" = ACCEPTED ]'
	expect_eq '3three 4four 5five' "$(reeve logs "$id" --json | jq -r '"\(.number)\(.text)"' | xargs)"
	expect_eq '-- 2 lines were dropped' "$(reeve logs "$id" | head -n 1)"
	expect_eq '7.13 well' "$(field "$id" progress) $(field "$id" remark)"
	# Those of the result as well.
	call WorkerService/Report "{\"incarnation\": $worker, \"results\": [{\"taskId\": $id, \"token\": $token, \"outcome\": \"OUTCOME_COMPLETED\",
		\"firstLine\": 5, \"lines\": [{\"text\": \"five\"}, {\"text\": \"six\"}], \"progress\": 100}]}" >/dev/null
	expect_eq 'completed 100 three four five six' "$(field "$id" status) $(field "$id" progress) $(texts "$id" | xargs)"
}

# Only a worker numbers its lines: those that a handler sends itself do not stand in for them.
test_lines_of_a_handler_and_its_worker_do_not_collide() {
	claim both
	expect_eq ACCEPTED "$(progress "$id" "$token" '{"firstLine": 1, "lines": [{"text": "one"}]}')"
	wait_until 20 '[ "$(progress "$id" "$token" "{\"lines\": [{\"text\": \"mine\"}, {\"text\": \"too\"}]}" 0)" = ACCEPTED ]'
	lines='{"firstLine": 2, "lines": [{"text": "two"}]}'
	for _ in first resent; do wait_until 20 '[ "$(progress "$id" "$token" "$lines")" = ACCEPTED ]'; done
	expect_eq '1one 2mine 3too 4two' "$(reeve logs "$id" --json | jq -r '"\(.number)\(.text)"' | xargs)"
	expect_match 'attempts\[0\].first_line needs the request.s incarnation: only workers' "$(progress "$id" "$token" "$lines" 0)"
	call WorkerService/Report "{\"results\": [{\"taskId\": $id, \"token\": $token, \"outcome\": \"OUTCOME_COMPLETED\", \"lines\": [{\"text\": \"last\"}]}]}" >/dev/null
	expect_eq 'completed one mine too two last' "$(field "$id" status) $(texts "$id" | xargs)"
	# A program that calls itself, and writes to descriptor 3.
	id=$(reeve submit sh 'echo "LOG | first" >&3; until '"$REEVE_BIN"'/reeve logs $REEVE_TASK_ID 2>&1 | grep first; do sleep 0.1; done
		'"$REEVE_BIN"'/reeve report $REEVE_TASK_ID $REEVE_TOKEN --log "second
third" --progress 50; echo "LOG | fourth" >&3')
	reeve wait "$id" >/dev/null
	expect_eq '50 first second third fourth' "$(field "$id" progress) $(texts "$id" | xargs)"
}

# A handler that starts over says so.
test_progress_goes_back_to_0() {
	claim again
	expect_eq ACCEPTED "$(progress "$id" "$token" '{"remark": "none yet"}')"
	expect_eq '' "$(field "$id" progress)"
	wait_until 20 '[ "$(progress "$id" "$token" "{\"progress\": 50}")" = ACCEPTED ]'
	wait_until 20 '[ "$(progress "$id" "$token" "{\"progress\": 0}")" = ACCEPTED ]'
	expect_eq 0 "$(field "$id" progress)"
	expect_match 'progress +0 %' "$(reeve show "$id")"
	expect_eq 0 "$(call TaskService/Logs "{\"taskId\": $id}" | jq .progress)"
	reeve report "$id" "$token" --completed
	expect_eq 0 "$(field "$id" progress)" 'it stays as it is'
	id=$(reeve submit sh 'echo "PROGRESS | 70" >&3; until [ -e "'"$DIR"'/over" ]; do sleep 0.05; done; echo "PROGRESS | 0 again" >&3')
	wait_until 20 '[ "$(field "$id" progress)" = 70 ]'
	reeve wait "$id" --follow >/dev/null 2>"$DIR/waiting" &
	wait_until 20 'grep -q "70 %" "$DIR/waiting"'
	touch "$DIR/over"
	wait $!
	expect_eq '0 again' "$(field "$id" progress) $(field "$id" remark)"
	expect_match '^0 %  again$' "$(tail -n 1 "$DIR/waiting")"
}

# The lock fences: what comes late, or from one who does not hold the task, changes nothing.
test_late_lines_are_refused() {
	claim late
	first=$token
	expect_eq ACCEPTED "$(progress "$id" "$first" '{"lines": [{"text": "in time"}]}')"
	reeve report "$id" "$first" --failed 'again' --retry-in 1ms
	wait_until 20 'reeve fetch --queue late --json >"$DIR/fetched"'
	token=$(sql "select time_us(last_updated) from tasks where id = $id")
	expect_eq LOST "$(progress "$id" "$first" '{"progress": 99, "remark": "late", "lines": [{"text": "late"}]}')"
	expect_eq LOST "$(progress "$id" "$((token + 1))" '{"lines": [{"text": "early"}]}')"
	call WorkerService/Report "{\"results\": [{\"taskId\": $id, \"token\": $first, \"outcome\": \"OUTCOME_COMPLETED\", \"lines\": [{\"text\": \"late\"}]}]}" >/dev/null
	expect_eq 'in time' "$(texts "$id")"
	reeve report "$id" "$token" --completed
	expect_eq LOST "$(progress "$id" "$token" '{"lines": [{"text": "after the end"}]}')"
	expect_eq 'in time' "$(texts "$id")"
	expect_eq '' "$(field "$id" remark)"
}

test_invalid_progress_is_refused() {
	claim invalid
	expect_eq 'attempts[0].progress must be from 0 to 100' "$(progress "$id" "$token" '{"progress": 101}')"
	expect_match 'attempts\[0\].progress' "$(progress "$id" "$token" '{"progress": "NaN"}')"
	expect_match 'attempts\[0\].first_line' "$(progress "$id" "$token" '{"firstLine": -1}')"
	expect_match 'attempts\[0\].lines is 1001' "$(progress "$id" "$token" "$(jq -nc '{lines: [range(1001) | {text: "x"}]}')")"
	expect_match 'both from 1' "$(progress 0 "$token" '{}')"
	expect_match 'attempts is 0' "$(call WorkerService/Progress '{}' | jq -r .message)"
	expect_match 'NUL|u0000' "$(progress "$id" "$token" '{"lines": [{"text": "\u0000"}]}')"
	# More than is kept: the last 64 KiB, each line up to 4 KiB.
	expect_eq ACCEPTED "$(progress "$id" "$token" "$(jq -nc '{lines: [range(20) | {text: ("\(.) " + "ü" * 2500)}]}')")"
	expect_eq '16 19' "$(reeve logs "$id" --json | jq -s -r '"\(length) \(.[-1].text | split(" ")[0])"')"
	expect_eq t "$(sql "select bool_and(octet_length(l) <= 4096) from task_logs, unnest(lines) l where task_id = $id")"
	reeve report "$id" "$token" --completed
	expect_match 'there is no task 999' "$(reeve logs 999 2>&1 || true)"
	expect_fail 2 reeve logs
	expect_fail 2 reeve logs x
}

# Garbage of any size ends in a bounded log that cannot control a terminal.
test_hostile_lines_are_harmless() {
	id=$(reeve submit sh 'head -c 30000 /dev/urandom | base64 -w 0 | jq -Rc "{log: .}" >&3
		jq -nc "{log: \"\u001b[2Jcleared\u202e\u0007\"}" >&3; printf "{\"log\": \"\xff\xfe\"}\n" >&3; exit 0')
	reeve wait "$id" >/dev/null 2>&1 || true
	expect_eq '4096' "$(texts "$id" | head -n 1 | tr -d '\n' | wc -c)"
	expect_match '  \\x1b\[2Jcleared\\xe2\\x80\\xae\\x07$' "$(reeve logs "$id" | sed -n 2p)"
	# A message that is not JSON is a problem of the message, as before.
	expect_eq bad_message "$(field "$id" error_code)"
}

test_logs_go_with_their_task() {
	id=$(reeve submit sh 'echo "{\"log\": \"private\", \"progress\": 1}" >&3')
	reeve wait "$id" >/dev/null
	reeve purge "$id" --details-only >/dev/null
	expect_eq 0 "$(sql "select count(*) from task_logs where task_id = $id")"
	id=$(reeve submit sh 'echo "{\"log\": \"private\", \"progress\": 1}" >&3')
	reeve wait "$id" >/dev/null
	expect_eq '1 1' "$(sql "select (select count(*) from task_logs where task_id = $id), (select count(*) from task_progress where task_id = $id)" | tr '|' ' ')"
	reeve purge "$id" >/dev/null
	expect_eq '0 0' "$(sql "select (select count(*) from task_logs where task_id = $id), (select count(*) from task_progress where task_id = $id)" | tr '|' ' ')"
}

run_tests
