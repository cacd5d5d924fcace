#!/usr/bin/env bash
# Invalid input is refused: with an error that names it, with the right exit code, and without side effects.
# (manager_refusals.sh: what managers refuse at their start, and what they say without a database.)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/raw.bash"
. "$(dirname "$0")/refusals.bash"

start_postgres
start_manager
start_worker

test_names_must_be_names() {
	local long
	long=$(head -c 256 /dev/zero | tr '\0' q)
	refused 4 'type is empty' reeve submit ''
	for bad in $'a\nb' $'a\tb' $'\e[31mred' $'\x7f'; do
		refused 4 'type holds a control character' reeve submit "$bad"
		refused 4 'queue holds a control character' reeve submit nothing --queue "$bad"
		refused 4 'key holds a control character' reeve submit nothing --key "$bad"
	done
	refused 4 'source holds a control character' reeve submit nothing --source $'a\rb'
	refused 4 'type is longer than 255 bytes' reeve submit "$long"
	refused 4 'queue is longer than 255 bytes' reeve submit nothing --queue "$long"
	refused 4 'key is longer than 255 bytes' reeve submit nothing --key "$long"
	refused 4 'source is longer than 255 bytes' reeve submit nothing --source "$long"
	refused 4 'type is not UTF-8' reeve submit $'\xff'
	refused 4 'queue is not UTF-8' reeve submit nothing --queue $'\xc3\x28'
	expect_no_match $'\e' "$(reeve submit $'\e[31mred' 2>&1 || true)" 'an escape sequence, repeated'
	refused 2 'key is empty' reeve submit nothing --key ''
}

details_from() { # FILE
	"$REEVE_BIN/reeve" submit nothing - <"$1"
}

test_details_must_be_text_within_the_limit() {
	head -c 1048577 /dev/zero | tr '\0' x >"$DIR/long"
	refused 4 'details is longer than 1048576 bytes' details_from "$DIR/long"
	head -c 20000000 /dev/zero | tr '\0' x >"$DIR/longer"
	refused 4 'details is longer than 1048576 bytes' details_from "$DIR/longer"
	printf 'a\0b' >"$DIR/nul"
	refused 4 'details holds a NUL byte' details_from "$DIR/nul"
	for bad in '\xff' 'a\xc3' '\xc0\xaf' '\xed\xa0\x80' '\xf4\x90\x80\x80'; do
		printf "$bad" >"$DIR/bytes"
		refused 4 'details is not UTF-8' details_from "$DIR/bytes"
	done
	refused 4 'details is not UTF-8' reeve submit nothing $'\xff'
	refused 2 'standard input' details_from /
}

test_numbers_and_times_have_their_ranges() {
	refused 2 'delay: "-5s" is negative' reeve submit nothing --delay -5s
	refused 2 'delay: "soon"' reeve submit nothing --delay soon
	refused 2 'at: ' reeve submit nothing --at yesterday-ish
	refused 2 'delay and --at cannot be combined' reeve submit nothing --delay 1s --at +5m
	refused 2 'delay: "99999d"' reeve submit nothing --delay 99999d
	for bad in 1000001 -1000001; do
		refused 2 'priority: .* out of range; .* -1000000 to 1000000' reeve submit nothing --priority "$bad"
	done
	refused 2 'priority: "9{20}" .* -1000000 to 1000000' reeve submit nothing --priority 99999999999999999999
	refused 2 'priority: "high" is not a whole number' reeve submit nothing --priority high
	refused 2 'max-attempts: ' reeve submit nothing --max-attempts 0
	refused 2 'max-attempts: ' reeve submit nothing --max-attempts 10001
	refused 2 'timeout: ' reeve submit nothing --timeout 0
	refused 2 'timeout: ' reeve submit nothing --timeout 31d
	refused 2 'retry-base: ' reeve submit nothing --retry-base -1s
	refused 4 'retry-base is 366d; it must be from 0 to 365 days' reeve submit nothing --retry-base 366d
	refused 2 'key-ttl needs a --key' reeve submit nothing --key-ttl 1h
}

test_ids_are_numbers_of_tasks_that_are_there() {
	for command in show wait cancel retry 'update --priority 1' audit; do
		for bad in abc 0 -1 1.5 12x 0x10 99999999999999999999 ''; do
			refused 2 "\"$bad\" is not a task id" reeve $command -- "$bad"
		done
	done
	for command in show wait audit; do
		refused 4 'there is no task 999999999' reeve $command 999999999
	done
	for command in cancel discard retry 'update --priority 1'; do # that the call was answered so is remembered, nothing else
		before=$(rows | cut -d'|' -f1-4,6-)
		expect_fail 4 reeve $command 999999999
		expect_match 'there is no task 999999999' "$OUTPUT"
		expect_eq "$before" "$(rows | cut -d'|' -f1-4,6-)"
	done
	refused 2 "the tasks' ids are missing" reeve cancel
	id=$(reeve submit no-handler) # a task that starts over stays as it is
	for command in cancel discard retry 'update --priority 1'; do # those that are there are changed all the same
		expect_fail 4 reeve $command 999999999 "$id"
		expect_match 'there is no task 999999999' "$OUTPUT"
	done
	refused 2 'update' reeve update "$id"
	refused 2 'priority: ' reeve update "$id" --priority 1000001
}

test_filters_name_what_there_is() {
	id=$(reeve submit nothing --delay 1h)
	expect_eq "$id" "$(reeve list --json --limit 1 | jq .id)"
	for filter in '--queue nosuch' '--type nosuch'; do
		expect_match 'warning: .*nosuch' "$(reeve list $filter 2>&1)"
		expect_eq '' "$(reeve list $filter --json 2>/dev/null)"
	done
	expect_eq "$id" "$(reeve list --queue default --type nothing --limit 1 --json | jq .id)"
	expect_eq '' "$(reeve list --queue default --status dead --json)"
	expect_match '^no tasks$' "$(reeve list --queue default --status dead 2>&1)"
	refused 2 'status: "nosuch"' reeve list --status nosuch
	refused 2 'limit: ' reeve list --limit many
	refused 4 'queue holds a control character' reeve list --queue $'\n'
	refused 4 'type is not valid UTF-8' reeve list --type $'\xff'
	refused 4 'queue is longer than 255 bytes' reeve list --queue "$(head -c 256 /dev/zero | tr '\0' q)"
}

bulk_with() { # LINE: the fifth of nine
	{
		for i in 1 2 3 4; do echo '{"type":"nothing","key":"good'$i'"}'; done
		printf '%b\n' "$1"
		for i in 6 7 8 9; do echo '{"type":"nothing","key":"good'$i'"}'; done
	} >"$DIR/tasks.jsonl"
}

test_a_bulk_file_is_taken_whole_or_not_at_all() {
	while IFS='|' read -r line regex; do
		bulk_with "$line"
		refused 4 "tasks.jsonl:5: .*$regex" reeve submit --bulk "$DIR/tasks.jsonl"
		expect_match '1 line cannot be submitted; nothing was' "$OUTPUT"
	done <<-'LINES'
		{"type":"nothing"|.
		nothing|.
		["nothing"]|object
		{"details":"x"}|type is empty
		{"type":7}|type must be a string
		{"type":"a\\u0001b"}|type holds a control character
		{"type":"nothing","details":"a\\u0000b"}|NUL
		{"type":"nothing","details":"\xff"}|0xff
		{"type":"nothing","delay":"-5s"}|delay is negative
		{"type":"nothing","delay_ms":-5}|delay_ms is negative
		{"type":"nothing","priority":1000001}|priority
		{"type":"nothing","priority":"high"}|priority must be a whole number
		{"type":"nothing","max_attempts":10001}|max_attempts
		{"type":"nothing","retry":{"base":"often"}}|base must be a duration
		{"type":"nothing","run_at":"soon"}|run_at must be a time
		{"type":"nothing","pirority":1}|pirority
	LINES
	bulk_with '{"type":""}'
	sed -i '8s/.*/{"type":"nothing","priority":0.5}/' "$DIR/tasks.jsonl"
	refused 4 'tasks.jsonl:5: .*type is empty.*tasks.jsonl:8: .*priority .*2 lines cannot be submitted' \
		reeve submit --bulk "$DIR/tasks.jsonl"
	printf '{"type":"nothing","details":"%s"}\n' "$(head -c 1048577 /dev/zero | tr '\0' x)" >"$DIR/long.jsonl"
	refused 4 'long.jsonl:1: .*details is longer than 1048576 bytes' reeve submit --bulk "$DIR/long.jsonl"
	refused 2 'No such file' reeve submit --bulk "$DIR/nowhere.jsonl"
}

worker_with() { # OPTION…: one that ends by itself
	timeout 30 "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" --handlers "$HANDLERS" --name refused "$@"
}

test_a_worker_with_wrong_handlers_does_not_start() {
	local workers
	workers=$(sql 'select count(*) from workers')
	default_handlers
	refused 2 'type nosuch has no handler' worker_with --type nosuch
	refused 2 'type nosuch has no handler' worker_with --type sh,nosuch
	refused 2 'types: name 2 is empty' worker_with --type sh,
	refused 2 'concurrency: ' worker_with --concurrency -1
	refused 2 'drain-timeout: ' worker_with --drain-timeout soon
	handlers <<<$'[handler sh]\nexec = /nowhere/program'
	refused 2 "$HANDLERS:.*handler sh.*/nowhere/program" worker_with
	touch "$DIR/program"
	handlers <<<$'[handler sh]\nexec = '"$DIR/program"
	refused 2 "$HANDLERS:.*handler sh.*$DIR/program" worker_with
	handlers <<<$'[handler sh]\nexec = /bin/sh\ntime-out = 5s'
	refused 2 "$HANDLERS:3: .*handler sh.*unknown key time-out" worker_with
	handlers <<<$'[handler sh]\nexec = /bin/sh\ntimeout = soon'
	refused 2 "$HANDLERS:3: .*timeout: soon" worker_with
	handlers <<<$'[handler sh]\ntimeout = 5s'
	refused 2 "$HANDLERS:1: .*handler sh.*exec" worker_with
	handlers <<<$'[handler sh]\nexec = /bin/sh "'
	refused 2 "$HANDLERS:2?.*handler sh" worker_with
	handlers <<<$'[handler sh]\nexec = /bin/sh\n[handler sh]\nexec = /bin/cat'
	refused 2 "$HANDLERS:3: .*sh" worker_with
	handlers <<<''
	refused 2 'no handlers' worker_with
	rm "$HANDLERS"
	refused 2 "$HANDLERS: No such file" worker_with
	expect_eq "$workers" "$(sql 'select count(*) from workers')" 'workers registered'
}

# ---- the wire protocol ----

# Prints a SubmitRequest with one task. TYPE and DETAILS are formats of printf, with outputs of less than 100 bytes.
submit_of() { # TYPE DETAILS
	local type details
	type=$(printf "$1" | wc -c)
	details=$(printf "$2" | wc -c)
	printf "\\x0a\\x$(printf %02x $((type + details + 4)))"
	printf "\\x12\\x$(printf %02x "$type")$1"
	printf "\\x1a\\x$(printf %02x "$details")$2"
}

raw_submit() { # TYPE DETAILS [COUNT]
	submit_of "$1" "$2" | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.TaskService/Submit "${@:3}"
}

test_an_ordinary_req_socket_can_call() {
	answer=$(raw_submit echo 'from nng')
	expect_match '^0 [0-9]+$' "$answer"
	reeve wait "${answer#0 }" >/dev/null
	expect_eq 'from nng' "$(field "${answer#0 }" result)"
	# Many calls at once, each in its own context.
	raw_submit echo 'from nng' 200 >"$DIR/answers"
	expect_eq 200 "$(sort -u "$DIR/answers" | grep -cE '^0 [0-9]+$')"
	cut -d' ' -f2 "$DIR/answers" | reeve wait - >/dev/null
	expect_eq 201 "$(sql "select count(*) from task_history where result = 'from nng'")"
}

raw_call() { # METHOD BODY, a format of printf
	printf "$2" | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" "$1"
}

# Prints a ListRequest, as a format of printf, whose filter names a status COUNT times. Each of them costs time in the
# manager's event loop.
statuses_of() { # COUNT
	message_field 6 "$(message_field 1 "$(printf '01%.0s' $(seq "$1"))")" | sed 's/../\\x&/g'
}

# The sender need not be Reeve's client: the manager validates every call itself.
test_the_manager_does_not_trust_its_callers() {
	refused 0 '^3 tasks\[0\].details holds a NUL byte' raw_submit nothing 'a\0b'
	refused 0 '^3 tasks\[0\].details is not valid UTF-8' raw_submit nothing 'a\xff'
	refused 0 '^3 tasks\[0\].details is not valid UTF-8' raw_submit nothing 'cut \xe2\x82'
	refused 0 '^3 tasks\[0\].type holds a NUL byte' raw_submit 'a\0b' x
	refused 0 '^3 tasks\[0\].type holds a control character' raw_submit 'a\nb' x
	refused 0 '^3 tasks\[0\].type is empty' raw_submit '' x
	refused 0 '^3 tasks has 0 elements' raw_call /reeve.v1.TaskService/Submit ''
	refused 0 '^3 ' raw_call /reeve.v1.TaskService/Submit '\x0a\x7fcut'
	refused 0 '^3 ' raw_call /reeve.v1.TaskService/Submit '\xff\xff\xff\xff'
	refused 0 '^12 .*Nonsense' raw_call /reeve.v1.TaskService/Nonsense ''
	refused 0 '^12 ' raw_call '' ''
	refused 0 '^3 ' raw_call - '\xff\xff\xff\xff'
	refused 0 '^12 ' raw_call - ''
	refused 0 '^3 filter.statuses is 101; it must be from 0 to 100' raw_call /reeve.v1.TaskService/List "$(statuses_of 101)"
	expect_match '^0 ' "$(raw_call /reeve.v1.TaskService/List "$(statuses_of 100)")"
	refused 0 '^5 there is no task 2147483647' raw_call /reeve.v1.TaskService/Get '\x08\xff\xff\xff\xff\x07'
}

# ---- false claims of workers ----

worker_call() { # METHOD HEX: what was answered, and the exit code of raw-call
	raw_hex "WorkerService/$1" "$2"
}

# Prints what `rows` counts and everything else that such a call could change, except what also changes without it.
state_of_things() {
	sql "select id, name, lost, gone_at, concurrency from workers order by id"
	sql "select id, status, attempt, token, expiry, run_at, worker_id, result from (
		select id, status, attempt, last_updated as token, expiry, run_at, worker_id, result from all_tasks) x order by id"
	sql "select * from assignments order by id"
	sql "select * from task_attempts order by task_id, token"
	sql "select count(*) from worker_events"
	rows
}

# Makes a call three times: each answer must match, and nothing may change.
without_effect() { # REGEX METHOD HEX
	local before
	before=$(state_of_things)
	for _ in 1 2 3; do
		expect_match "$1" "$(worker_call "$2" "$3")" "answer to $2"
	done
	expect_eq "$before" "$(state_of_things)" "what is there after $2"
}

said() { # REGEX: how often the manager has logged it
	grep -cE "$1" "$SUITE_DIR/log/manager.log" || true
}

test_an_unknown_incarnation_is_refused() {
	local nobody=987654321
	without_effect '^0 0801$' Heartbeat "$(int_field 1 $nobody)$(int_field 2 7)" # lost
	expect_eq 1 "$(said "incarnation $nobody")" 'lines in the log'
	reeve submit odd >/dev/null # which the worker that is there cannot run
	without_effect '^9 .*register' Fetch "$(int_field 1 $nobody)$(int_field 2 1)$(int_field 3 1)$(message_field 5 6f6464)$(int_field 7 2000)"
	without_effect '^0 $' Leave "$(int_field 1 $nobody)"
	for bad in '' "$(int_field 1 0)$(int_field 2 1)" "$(int_field 1 $nobody)"; do
		without_effect '^3 (incarnation|seq) is 0' Heartbeat "$bad"
	done
}

# Prints a ReportRequest with one result: COMPLETED, with an output.
report_of() { # INCARNATION TASK TOKEN
	message_field 2 "$(int_field 1 "$2")$(int_field 2 "$3")$(int_field 3 1)$(message_field 4 6576696c)" |
		cat <(int_field 1 "$1") -
}

ack_lost() { # TASK TOKEN: a ReportResponse begins so
	local ack
	ack=$(int_field 1 "$1")$(int_field 2 "$2")$(int_field 3 2)
	printf '^0 0a..%s' "$ack"
}

token_of() { # TASK
	sql "select (extract(epoch from last_updated) * 1000000)::bigint from all_tasks where id = $1"
}

test_a_report_for_what_was_never_assigned_changes_nothing() {
	local id token stranger=987654321
	id=$(reeve submit nothing --delay 1h)
	token=$(token_of "$id") # its version, which is no attempt's
	for worker in $(worker_incarnation worker) $stranger; do
		without_effect "$(ack_lost "$id" "$token")" Report "$(report_of "$worker" "$id" "$token")"
	done
	expect_eq 1 "$(said "task $id: a result \\(completed\\)")" 'lines in the log'
	without_effect "$(ack_lost 987654321 "$token")" Report "$(report_of $stranger 987654321 "$token")"
	expect_eq queued "$(field "$id" status)"
	reeve cancel "$id" >/dev/null
	token=$(token_of "$id") # of the version that is in the history now
	without_effect "$(ack_lost "$id" "$token")" Report "$(report_of $stranger "$id" "$token")"
	expect_eq cancelled "$(field "$id" status)"
}

test_a_token_of_another_opens_nothing() {
	local mine yours token stranger=987654321
	start_worker second --concurrency 2
	mine=$(reeve submit sh "until [ -e '$DIR/released' ]; do sleep 0.05; done; printf mine")
	yours=$(reeve submit sh "until [ -e '$DIR/released' ]; do sleep 0.05; done; printf yours")
	wait_status 20 "$mine" executing
	wait_status 20 "$yours" executing
	for token in "$(token_of "$yours")" $(($(token_of "$mine") - 1)) $(($(token_of "$mine") + 1)) 1; do
		without_effect "$(ack_lost "$mine" "$token")" Report "$(report_of "$(worker_incarnation worker)" "$mine" "$token")"
		without_effect "$(ack_lost "$mine" "$token")" Report "$(report_of $stranger "$mine" "$token")"
		without_effect '^9 ' Extend "$(int_field 1 $stranger)$(int_field 2 "$mine")$(int_field 3 "$token")$(int_field 4 99999)"
	done
	expect_eq 4 "$(said "task $mine: a result")" 'lines in the log'
	release
	reeve wait "$mine" "$yours" >/dev/null
	expect_eq mine "$(field "$mine" result)"
	expect_eq yours "$(field "$yours" result)"
	token=$(token_of "$yours") # nor does one whose attempt has ended
	without_effect "$(ack_lost "$mine" "$token")" Report "$(report_of $stranger "$mine" "$token")"
}

test_a_name_is_one_workers_at_a_time() {
	local before
	start_worker twin
	before=$(worker_incarnation twin)
	start other "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" --handlers "$HANDLERS" --name twin
	wait_until 20 'grep -q "a worker named \"twin\" is already running, process $(pid twin) on" "$DIR/log/other.log"'
	sleep 3 # it tries again and again
	alive other || fail 'it has not waited'
	expect_eq "$before" "$(worker_incarnation twin)" 'the latest of that name'
	expect_eq 1 "$(grep -c 'is already running' "$DIR/log/other.log")" 'lines in its log'
	expect_eq 1 "$(said 'a worker named "twin" is already running')" "lines in the manager's"
	expect_eq 'alive' "$(reeve worker list --json | jq -r 'select(.name == "twin").state')"
	stop twin
	wait_until 10 '[ "$(worker_incarnation twin)" -gt '"$before"' ]'
	stop other
	expect_eq 0 "$STATUS"
}

# ---- foreign connections ----

# Connects to the manager, sends the bytes (a format of printf), and waits until the manager closes the connection.
# Prints the bytes received, in hexadecimal; before them "open" if the manager has not closed it within SECONDS (20
# unless set).
stranger() { # BYTES [SECONDS]
	local socket code=0
	trap '' PIPE
	exec {socket}<>"/dev/tcp/127.0.0.1/${PORT[manager]}"
	{ printf "$1" >&"$socket"; } 2>/dev/null || true
	timeout "${2:-20}" od -An -v -tx1 <&"$socket" >"$DIR/came" 2>/dev/null || code=$?
	exec {socket}>&-
	[ $code != 124 ] || echo open
	tr -d ' \n' <"$DIR/came"
}

submit_until_enough() { # one call after the other; each id is a line
	while [ ! -e "$DIR/enough" ]; do
		"$REEVE_BIN/reeve" submit nothing --queue doors --wait --json --connect-timeout 10s | jq -r '"\(.id) \(.status)"' ||
			echo "exit code $?"
	done
}

test_garbage_is_disconnected_and_delays_no_other() {
	local greeting=00535000 answer sockets=() socket
	trap '' PIPE
	start submitter submit_until_enough
	wait_until 20 '[ -s "$DIR/log/submitter.log" ]'
	manager=$(pid manager)
	for bytes in 'garbage that is long enough to be looked at' 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n' \
		'\0SP\x01\0\x30\0\0' '\0SP\0\0\x31\0\0' '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03'; do
		answer=$(stranger "$bytes")
		expect_match "^(${greeting}00310000)?$" "$answer" "answer to $bytes"
	done
	# A hello, then a frame of 2^62 bytes, of one byte more than allowed, of none, one without an id, and one of
	# 2^64 - 1 bytes.
	for bytes in '\x40\0\0\0\0\0\0\0' '\0\0\0\0\0\x80\0\x05\x80\0\0\x01' '\0\0\0\0\0\0\0\0' '\0\0\0\0\0\0\0\x03abc' \
		'\xff\xff\xff\xff\xff\xff\xff\xff'; do
		answer=$(stranger "\\0SP\\0\\0\\x30\\0\\0$bytes")
		expect_match "^(${greeting}00310000)?$" "$answer" "answer to the frame $bytes"
	done
	# The manager closes connections that send nothing, or stop in the middle of the hello, after 5 s.
	for bytes in '' '\0' '\0SP\0'; do
		exec {socket}<>"/dev/tcp/127.0.0.1/${PORT[manager]}"
		printf "$bytes" >&"$socket"
		sockets+=("$socket")
	done
	for socket in "${sockets[@]}"; do
		expect timeout 20 cat <&"$socket" >/dev/null
		exec {socket}>&-
	done
	# Connections that are opened and closed in quick succession.
	for _ in $(seq 1 100); do
		exec {socket}<>"/dev/tcp/127.0.0.1/${PORT[manager]}"
		printf '\0SP\0\0\x30\0\0\0\0\0' >&"$socket" || true
		exec {socket}>&-
	done
	before=$(wc -l <"$DIR/log/submitter.log")
	wait_until 20 "[ \"\$(wc -l <'$DIR/log/submitter.log')\" -gt $((before + 2)) ]"
	touch "$DIR/enough"
	ended submitter
	expect_eq 0 "$STATUS"
	expect_eq '' "$(grep -vE '^[0-9]+ completed$' "$DIR/log/submitter.log" || true)" 'what the submitter was told'
	expect_eq "$(wc -l <"$DIR/log/submitter.log")" "$(sql "select count(*) from task_history where queue = 'doors'")"
	expect_eq "$manager" "$(pid manager)"
	alive manager || fail 'the manager has ended'
	expect_eq 0 "$(sql "select count(*) from tasks where queue = 'doors'")"
}

run_tests
