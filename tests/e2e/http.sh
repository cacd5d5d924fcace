#!/usr/bin/env bash
# Calls by HTTP.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/open_calls.bash"

start_postgres
PORT_OF_HTTP=$(free_port)
H=http://127.0.0.1:$PORT_OF_HTTP
start_manager manager --http "$H" --http-origins https://example.org
start_worker worker

call() { # SERVICE/METHOD JSON [OPTION…]: prints the answer
	curl -sS -m 20 -H 'content-type: application/json' -d "$2" "${@:3}" "$H/reeve.v1.$1"
}

status() { # the same, but prints the HTTP status; the answer is in $DIR/answer
	call "$@" -o "$DIR/answer" -w '%{http_code}'
}

page() { # PATH [OPTION…]: prints a page's HTTP status; the page is in $DIR/answer
	curl -sS -m 20 -o "$DIR/answer" -w '%{http_code}' "${@:2}" "$H$1"
}

error_of() { # prints code and message of the error in $DIR/answer
	jq -r '"\(.code): \(.message)"' "$DIR/answer"
}

submit() { # SCRIPT: prints the id of a new task
	call TaskService/Submit "$(jq -nc --arg s "$1" '{tasks: [{queue: "q", type: "sh", details: $s}]}')" | jq -r '.tasks[0].id'
}

raw() { # TEXT [SECONDS]: sends it, and prints what comes until the connection ends
	exec 3<>"/dev/tcp/127.0.0.1/$PORT_OF_HTTP"
	printf '%b' "$1" >&3 || true
	timeout "${2:-10}" cat <&3 || true
	exec 3>&-
}

test_a_task_is_submitted_awaited_and_shown() {
	id=$(submit 'echo done by HTTP')
	expect_match '^[0-9]+$' "$id"
	answer=$(call TaskService/Wait "{\"ids\":[\"$id\"],\"waitMs\":\"10000\"}")
	expect_eq 'TASK_STATUS_COMPLETED' "$(jq -r '.ended[0].status' <<<"$answer")"
	expect_eq 'done by HTTP' "$(jq -r '.ended[0].result' <<<"$answer")"
	answer=$(call TaskService/Get "{\"id\":$id}")
	expect_eq "$id" "$(jq -r '.task.id | strings' <<<"$answer")" 'a string, since it has 64 bits'
	expect_match '^[0-9]{16}$' "$(jq -r '.task.createdUs | strings' <<<"$answer")"
	expect_eq null "$(jq -r '.task.errorCode' <<<"$answer")" 'a default is left out'
	expect_eq 'done by HTTP' "$(reeve show "$id" --json | jq -r .result)"
}

# Whatever comes of the wait, the answer has the id.
test_a_call_submits_and_waits() {
	task() { printf '{"tasks":[{"queue":"q","type":"sh","details":"%s"}],"waitMs":%s}' "$1" "${2:-60000}"; }
	answer=$(call TaskService/SubmitAndWait "$(task 'echo at once')" -H 'idempotency-key: both')
	id=$(jq -r '.tasks[0].id' <<<"$answer")
	expect_eq "$id TASK_STATUS_COMPLETED at once null" "$(jq -r '.ended[0] | "\(.id) \(.status) \(.result)"' <<<"$answer") $(jq .pending <<<"$answer")"
	expect_eq "$answer" "$(call TaskService/SubmitAndWait "$(task 'echo at once')" -H 'idempotency-key: both')"
	expect_eq 409 "$(status TaskService/SubmitAndWait "$(task 'echo other')" -H 'idempotency-key: both')"
	expect_eq 400 "$(status TaskService/SubmitAndWait "$(task true -1)")"
	expect_match '^invalid_argument: wait_ms ' "$(error_of)"
	expect_eq 400 "$(status TaskService/SubmitAndWait '{"tasks":[]}')"
	# Not in time: by the request, and by the deadline of the call.
	hold="until [ -e $DIR/go ]; do sleep 0.1; done; printf late"
	answer=$(call TaskService/SubmitAndWait "$(task "$hold" 100)" -H 'idempotency-key: late')
	id=$(jq -r '.tasks[0].id' <<<"$answer")
	expect_eq '1 null' "$(jq -r '"\(.pending) \(.ended)"' <<<"$answer")"
	answer=$(call TaskService/SubmitAndWait "$(task true | sed 's/"q"/"never"/;s/"sh"/"none"/')" -H 'connect-timeout-ms: 2000')
	expect_eq 1 "$(jq .pending <<<"$answer")"
	reeve cancel "$(jq -r '.tasks[0].id' <<<"$answer")" >/dev/null
	# A caller that gave up repeats the call, and waits for the same task.
	expect_fail 28 call TaskService/SubmitAndWait "$(task "$hold")" -H 'idempotency-key: again' -m 1
	call TaskService/SubmitAndWait "$(task "$hold")" -H 'idempotency-key: again' >"$DIR/again" &
	touch "$DIR/go"
	wait $!
	expect_eq '["late"]' "$(jq -c '[.ended[].result]' "$DIR/again")"
	expect_eq 2 "$(sql "select count(*) from all_tasks where details like '%go %'")" 'the first and the repeated one'
	expect_eq late "$(call TaskService/Wait "{\"ids\":[\"$id\"],\"waitMs\":10000}" | jq -r '.ended[0].result')"
	# Of several, also with one key.
	answer=$(call TaskService/SubmitAndWait '{"tasks":[{"type":"nothing","key":"k"},{"type":"sh","details":"exit 65"},{"type":"nothing","key":"k"}],"waitMs":60000}')
	expect_eq 'COMPLETED DEAD' "$(jq -r '[.ended[].status[12:]] | join(" ")' <<<"$answer")"
	expect_eq '3 2' "$(jq -r '"\(.tasks | length) \([.tasks[].id] | unique | length)"' <<<"$answer")"
}

test_bodies_may_be_binary() {
	id=$(submit 'echo binary')
	call TaskService/Wait "{\"ids\":[$id],\"wait_ms\":10000}" >/dev/null
	[ "$id" -lt 128 ] || fail 'the id needs a longer number'
	printf '\x08%b' "$(printf '\\x%x' "$id")" >"$DIR/request"
	expect_eq '200 application/proto' "$(curl -sS -H 'content-type: application/proto' --data-binary "@$DIR/request" \
		-o "$DIR/answer" -w '%{http_code} %{content_type}' "$H/reeve.v1.TaskService/Get")"
	grep -q 'echo binary' "$DIR/answer"
	printf '\xff\xff' >"$DIR/request"
	expect_eq '400 application/json' "$(curl -sS -H 'content-type: application/proto' --data-binary "@$DIR/request" \
		-o "$DIR/answer" -w '%{http_code} %{content_type}' "$H/reeve.v1.TaskService/Get")"
	expect_match '^invalid_argument: ' "$(error_of)"
}

test_errors_are_those_of_connect() {
	expect_eq 404 "$(status TaskService/Get '{"id":999999}')"
	expect_match '^not_found: ' "$(error_of)"
	expect_eq 501 "$(status TaskService/Nothing '{}')"
	expect_eq 'unimplemented: no method "/reeve.v1.TaskService/Nothing"' "$(error_of)"
	expect_eq 400 "$(status TaskService/Submit '{"tasks":[{"type":"sh","priority":"high"}]}')"
	expect_eq 'invalid_argument: tasks[0].priority must be a whole number of 64 bits' "$(error_of)"
	expect_eq 400 "$(status TaskService/Submit '{"tasks":[{"typ":"sh"}]}')"
	expect_match '^invalid_argument: tasks\[0\].typ is not a known field: TaskSpec has queue,' "$(error_of)"
	expect_eq 400 "$(status TaskService/Submit '{"tasks":[],"tasks":[]}')"
	expect_match 'duplicate object key' "$(error_of)"
	expect_eq 400 "$(status TaskService/Submit "$(printf '[%.0s' {1..100})")"
	expect_eq 'invalid_argument: the JSON is nested deeper than 40' "$(error_of)"
	expect_eq 400 "$(status TaskService/Submit '{"tasks":')"
	expect_match '^invalid_argument: invalid JSON in line 1' "$(error_of)"
}

test_a_repeated_call_takes_effect_once() {
	task='{"tasks":[{"queue":"q","type":"sh","details":"echo once"}]}'
	for key in 019ac2f0-1f2e-7abc-8def-0123456789ab 00000000-0000-4000-8000-000000000000; do
		first=$(call TaskService/Submit "$task" -H "idempotency-key: $key")
		expect_eq "$first" "$(call TaskService/Submit "$task" -H "idempotency-key: $key")"
		expect_eq 409 "$(status TaskService/Submit '{"tasks":[{"queue":"q","type":"none"}]}' -H "idempotency-key: $key")"
	done
	expect_no_match "^$first\$" "$(call TaskService/Submit "$task")"
}

# Only calls that may change something store a key.
test_keys_are_stored_only_for_changes() {
	before=$(sql 'select count(*) from call_keys')
	id=$(submit 'echo $REEVE_ATTEMPT_ACCESS_TOKEN')
	token=$(call TaskService/Wait "{\"ids\":[\"$id\"],\"waitMs\":\"10000\"}" -H 'idempotency-key: read' | jq -r '.ended[0].result')
	expect_match '^reeve_a0_' "$token"
	expect_eq "$before" "$(sql 'select count(*) from call_keys')"
	# The attempt has ended.
	task='{"tasks":[{"queue":"kept","type":"none"}]}'
	expect_eq 403 "$(status TaskService/Submit "$task" -H "authorization: Bearer $token" -H 'idempotency-key: late')"
	expect_match 'the attempt of task [0-9]+ has ended' "$(error_of)"
	expect_eq "$before" "$(sql 'select count(*) from call_keys')"
	# One that runs may use keys.
	call="curl -sS -H 'content-type: application/json' -H 'idempotency-key: mine' -H \"authorization: Bearer \$REEVE_ATTEMPT_ACCESS_TOKEN\" -d '$task' $H/reeve.v1.TaskService/Submit"
	id=$(submit "$call; $call")
	expect_eq 1 "$(call TaskService/Wait "{\"ids\":[\"$id\"],\"waitMs\":\"10000\"}" | jq -r '.ended[0].result' | grep -o '"id":"[0-9]*"' | sort -u | wc -l)"
	expect_eq $((before + 1)) "$(sql 'select count(*) from call_keys')"
}

test_an_idempotency_key_may_be_any_text() {
	task='{"tasks":[{"queue":"keyed","type":"none"}]}'
	first=$(call TaskService/Submit "$task" -H 'idempotency-key: order 17')
	expect_eq "$first" "$(call TaskService/Submit "$task" -H 'idempotency-key: order 17')"
	same=' {"tasks" : [{"type":"none","queue":"keyed","priority":0}]}'
	expect_eq "$first" "$(call TaskService/Submit "$same" -H 'idempotency-key: order 17')"
	expect_eq 409 "$(status TaskService/Submit '{"tasks":[{"queue":"other","type":"none"}]}' -H 'idempotency-key: order 17')"
	expect_eq 'already_exists: the idempotency key was used for a call with another request' "$(error_of)"
	expect_no_match "^$first\$" "$(call TaskService/Submit "$task" -H 'idempotency-key: order 18')"
	id=$(jq -r '.tasks[0].id' <<<"$first")
	expect_eq 200 "$(status TaskService/Cancel "{\"ids\":[$id]}" -H 'idempotency-key: order 17')" # another method
	expect_eq 400 "$(status TaskService/Submit "$task" -H "idempotency-key: $(printf 'x%.0s' {1..256})")"
	for i in {1..40}; do # at once, of a few keys
		call TaskService/Submit "$task" -H "idempotency-key: at once $((i % 4))" >"$DIR/answer.$i" &
	done
	wait
	expect_eq 4 "$(jq -r '.tasks[0].id' "$DIR"/answer.* | sort -u | wc -l)"
	expect_eq 6 "$(sql "select count(*) from all_tasks where queue = 'keyed'")"
	for value in 1 2 1; do # ignored: the method has no request id
		expect_eq 200 "$(status MetricService/Put "{\"metrics\":[{\"category\":\"keyed\",\"name\":\"m\",\"value\":$value}]}" -H 'idempotency-key: order 19')"
		expect_eq "$value" "$(sql "select value from metrics where category = 'keyed'")"
	done
	sql "update call_keys set request_id = '01900000-0000-7000-8000-000000000000'"
	expect_eq 400 "$(status TaskService/Submit "$task" -H 'idempotency-key: order 18')"
	expect_match '^failed_precondition: the request id is more than a day old' "$(error_of)"
}

test_what_changes_nothing_may_be_a_get() {
	id=$(submit 'echo read')
	expect_eq 200 "$(page "/reeve.v1.TaskService/Get?connect=v1&encoding=json&message=%7B%22id%22%3A$id%7D")"
	expect_eq "$id" "$(jq -r .task.id "$DIR/answer")"
	message=$(printf '{"id":%s}' "$id" | base64 | tr -d = | tr '+/' '-_')
	expect_eq 200 "$(page "/reeve.v1.TaskService/Get?encoding=json&base64=1&message=$message")"
	expect_eq "$id" "$(jq -r .task.id "$DIR/answer")"
	expect_eq 200 "$(page '/reeve.v1.AdminService/Ping?encoding=proto&message=')"
	expect_eq 405 "$(page '/reeve.v1.TaskService/Submit?encoding=json&message=%7B%7D')"
	expect_match '^unimplemented: calls are made by POST' "$(error_of)"
	expect_eq 405 "$(page /reeve.v1.TaskService/Get -X DELETE)"
	expect_eq 400 "$(page '/reeve.v1.TaskService/Get?message=%7B%7D')"
	expect_eq 'invalid_argument: the query needs "encoding": json or proto' "$(error_of)"
	expect_eq 400 "$(page '/reeve.v1.TaskService/Get?encoding=xml&message=%7B%7D')"
	expect_eq 400 "$(page '/reeve.v1.TaskService/Get?encoding=json&message=%7')"
	expect_eq 'invalid_argument: the query has no valid "message"' "$(error_of)"
}

test_contents_may_be_compressed() {
	details=$(printf 'x%.0s' {1..5000})
	printf '{"tasks":[{"queue":"gz","type":"none","details":"%s"}]}' "$details" | gzip >"$DIR/request.gz"
	answer=$(curl -sS -H 'content-type: application/json' -H 'content-encoding: gzip' --data-binary "@$DIR/request.gz" \
		"$H/reeve.v1.TaskService/Submit")
	id=$(jq -r '.tasks[0].id' <<<"$answer")
	expect_eq "$details" "$(reeve show "$id" --json | jq -r .details)"
	size=$(curl -sS -H 'content-type: application/json' -H 'accept-encoding: gzip' -d "{\"id\":$id}" -o "$DIR/answer.gz" \
		-w '%{size_download}' "$H/reeve.v1.TaskService/Get")
	[ "$size" -lt 2000 ] || fail "$size bytes"
	expect_eq "$details" "$(gunzip <"$DIR/answer.gz" | jq -r .task.details)"
	head -c 20000000 /dev/zero | gzip >"$DIR/bomb.gz"
	expect_eq 429 "$(curl -sS -H 'content-type: application/json' -H 'content-encoding: gzip' --data-binary "@$DIR/bomb.gz" \
		-o "$DIR/answer" -w '%{http_code}' "$H/reeve.v1.TaskService/Submit")"
	expect_match '^resource_exhausted: the content has more than 8388608 bytes' "$(error_of)"
	expect_eq 400 "$(status AdminService/Ping '{}' -H 'content-encoding: gzip')"
	expect_eq 'invalid_argument: the content is not one stream of gzip' "$(error_of)"
	expect_eq 501 "$(status AdminService/Ping '{}' -H 'content-encoding: br')"
}

test_a_caller_may_be_named() {
	id=$(call TaskService/Submit '{"tasks":[{"queue":"named","type":"none"}]}' -H 'reeve-actor: ann@web' | jq -r '.tasks[0].id')
	expect_eq 'ann@web' "$(reeve show "$id" --json | jq -r .source)"
}

test_the_callers_trace_context_goes_with_its_tasks() {
	trace=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 own=00-1bf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	tasks="{\"tasks\":[{\"queue\":\"q\",\"type\":\"sh\",\"details\":\"echo \$TRACEPARENT\"},{\"queue\":\"traced\",\"type\":\"none\",\"traceparent\":\"$own\"}]}"
	ids=$(call TaskService/Submit "$tasks" -H "traceparent: $trace" | jq -r '.tasks[].id')
	id=$(head -1 <<<"$ids")
	reeve wait "$id"
	expect_eq "$trace" "$(reeve show "$id" --json | jq -r .result)"
	expect_eq "$own" "$(reeve show "$(tail -1 <<<"$ids")" --json | jq -r .traceparent)"
	id=$(call TaskService/Submit "$tasks" -H 'traceparent: 00-wrong' | jq -r '.tasks[0].id')
	expect_eq '' "$(reeve show "$id" --json | jq -r .traceparent)"
}

test_a_pull_client_takes_extends_and_reports_a_task() {
	worker=$(call WorkerService/Register '{"name":"curl","concurrency":1,"types":["pulled"],"manual":true}' | jq -r .incarnation)
	id=$(call TaskService/Submit '{"tasks":[{"queue":"pulled","type":"pulled","details":"\u00e4"}]}' | jq -r '.tasks[0].id')
	answer=$(call WorkerService/Fetch "{\"incarnation\":\"$worker\",\"fetchId\":1,\"slots\":1,\"types\":[\"pulled\"],\"waitMs\":20000}")
	expect_eq "$id ä" "$(jq -r '.assignments[0] | "\(.taskId) \(.details)"' <<<"$answer")"
	attempt="\"taskId\":\"$id\",\"token\":$(jq '.assignments[0].token' <<<"$answer")"
	expect_eq 7200000 "$(call WorkerService/Extend "{\"incarnation\":\"$worker\",$attempt,\"runMs\":7200000}" | jq -r .runMs)"
	for only in where:'{"type":"other"}' waitRetries:true; do # of a Fetch within a Report
		expect_eq 400 "$(status WorkerService/Report "{\"incarnation\":\"$worker\",\"results\":[{$attempt,\"outcome\":\"OUTCOME_COMPLETED\"}],
			\"fetch\":{\"incarnation\":\"$worker\",\"fetchId\":2,\"slots\":1,\"${only%%:*}\":${only#*:}}}")"
		expect_match '^invalid_argument: fetch[.](where|wait_retries) cannot be used in a report' "$(error_of)"
	done
	answer=$(call WorkerService/Report "{\"incarnation\":\"$worker\",\"results\":[{$attempt,\"outcome\":\"OUTCOME_COMPLETED\",\"result\":\"ok\"}]}")
	expect_eq RESULT_STATUS_ACCEPTED "$(jq -r '.acks[0].status' <<<"$answer")"
	expect_eq 'completed ok' "$(reeve show "$id" --json | jq -r '"\(.status) \(.result)"')"
}

test_pages_say_whether_the_manager_can_serve() {
	expect_eq 200 "$(page /healthz)"
	expect_eq 200 "$(page /healthz -I)"
	wait_until 20 '[ "$(page /readyz)" = 200 ]'
	expect_eq ready "$(cat "$DIR/answer")"
	expect_eq 404 "$(page /nothing)"
	expect_eq 405 "$(page /healthz -X POST)"
}

test_the_contract_is_served() {
	expect_eq 200 "$(page /proto/)"
	for file in "$TOP"/proto/reeve/v1/*.proto; do
		grep -qx "/proto/reeve/v1/$(basename "$file")" "$DIR/answer"
		curl -sS "$H/proto/reeve/v1/$(basename "$file")" | cmp - "$file"
	done
	expect_eq 404 "$(page /proto/reeve/v1/other.proto)"
}

test_web_pages_need_a_listed_origin() {
	ping=AdminService/Ping
	expect_eq 403 "$(status $ping '{}' -H 'origin: https://elsewhere.example')"
	expect_match '^permission_denied: ' "$(error_of)"
	expect_eq 403 "$(page /reeve.v1.$ping -X OPTIONS -H 'origin: https://elsewhere.example' -H 'access-control-request-method: POST')"
	expect_eq 204 "$(page /reeve.v1.$ping -X OPTIONS -H 'origin: https://example.org' -H 'access-control-request-method: POST' -D "$DIR/head")"
	grep -qi '^access-control-allow-origin: https://example.org' "$DIR/head"
	grep -qi '^access-control-allow-methods: GET, POST' "$DIR/head"
	grep -qi '^access-control-allow-headers: .*traceparent' "$DIR/head"
	expect_eq 200 "$(status $ping '{}' -H 'origin: https://example.org' -D "$DIR/head")"
	grep -qi '^access-control-allow-origin: https://example.org' "$DIR/head"
	expect_eq 421 "$(status $ping '{}' -H 'host: rebound.example:80')"
	expect_eq 200 "$(status $ping '{}' -H 'host: localhost:80')"
	# Nor may a page call without an Origin, as by an image.
	get="/reeve.v1.$ping?encoding=json&message=%7B%7D"
	for site in cross-site same-site; do
		expect_eq 403 "$(page "$get" -H "sec-fetch-site: $site" -H 'sec-fetch-mode: no-cors')"
	done
	expect_eq 403 "$(page "$get" --http2-prior-knowledge -H 'sec-fetch-site: cross-site')"
	for site in same-origin none; do expect_eq 200 "$(page "$get" -H "sec-fetch-site: $site")"; done
	expect_eq 200 "$(status $ping '{}' -H 'origin: https://example.org' -H 'sec-fetch-site: cross-site')"
	expect_eq 200 "$(page /healthz -H 'sec-fetch-site: cross-site')"
	# What is not an access token does not help such a page.
	expect_eq 401 "$(status TaskService/List '{}' -H 'host: rebound.example:80' -H 'authorization: Bearer reeve_a0_1_1_1_')"
}

test_other_machines_need_insecure() {
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "tcp://127.0.0.1:$(free_port)" --http "http://0.0.0.0:$(free_port)"
	expect_match 'other machines can reach http://0.0.0.0' "$OUTPUT"
}

test_callers_show_an_access_token() {
	ipc=ipc://$DIR/socket
	H=http://127.0.0.1:$(free_port)
	start required "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$ipc" --http "$H" --auth required
	wait_until 60 '"$REEVE_BIN/reeve" --manager "$ipc" stats >/dev/null'
	token=$("$REEVE_BIN/reeve" --manager "$ipc" token create web --role submitter)
	task='{"tasks":[{"queue":"tokens","type":"none"}]}'
	expect_eq 401 "$(status TaskService/Submit "$task" -D "$DIR/head")"
	expect_match '^unauthenticated: the call has no access token' "$(error_of)"
	grep -qi '^www-authenticate: Bearer' "$DIR/head"
	expect_eq 401 "$(status TaskService/Submit "$task" -H "authorization: Bearer ${token}x")"
	expect_match '^unauthenticated: the access token is not valid' "$(error_of)"
	# The keys of callers whom nobody knows are not stored.
	before=$(sql 'select count(*) from call_keys')
	expect_eq 200 "$(status AdminService/Ping '{}' -H 'idempotency-key: of a stranger')"
	expect_eq "$before" "$(sql 'select count(*) from call_keys')"
	expect_eq 200 "$(status TaskService/Submit "$task" -H "authorization: Bearer $token" -H 'reeve-actor: ann' -H 'host: tasks.example')"
	# A key counts for its identity.
	other=$("$REEVE_BIN/reeve" --manager "$ipc" token create other --role submitter)
	key='idempotency-key: 019ac2f0-1f2e-7abc-8def-0123456789ac'
	expect_eq 2 "$(for t in "$token" "$other" "$token"; do call TaskService/Submit "$task" -H "authorization: Bearer $t" -H "$key" | jq .tasks; done | sort -u | grep -c id)"
	expect_eq 200 "$(status TaskService/Submit "$task" -H "authorization: Bearer $token" -H 'reeve-actor: ann')"
	expect_eq web/ann "$("$REEVE_BIN/reeve" --manager "$ipc" show "$(jq -r '.tasks[0].id' "$DIR/answer")" --json | jq -r .source)"
	expect_eq 403 "$(status QueueService/Set '{"queue":"tokens"}' -H "authorization: Bearer $token")"
	expect_match '^permission_denied: "web" may not call /reeve.v1.QueueService/Set' "$(error_of)"
	expect_eq 200 "$(page /healthz)"
	# The same by gRPC and by HTTP/2.
	grpc() { # METHOD [OPTION…]: calls it with an empty message, and prints the status
		printf '\0\0\0\0\0' | curl -sS -m 20 --http2-prior-knowledge -H 'te: trailers' -H 'content-type: application/grpc' "${@:2}" \
			--data-binary @- -D - -o /dev/null "$H/reeve.v1.$1" | sed -n 's/^grpc-status: \([0-9]*\).*/\1/p'
	}
	expect_eq 16 "$(grpc TaskService/Submit)"
	expect_eq 16 "$(grpc TaskService/Submit -H "authorization: Bearer ${token}x")"
	expect_eq 3 "$(grpc TaskService/Submit -H "authorization: Bearer $token")" 'a Submit without a task'
	expect_eq 7 "$(grpc QueueService/Set -H "authorization: Bearer $token")"
	expect_eq 401 "$(status TaskService/Submit "$task" --http2-prior-knowledge)"
	expect_eq 200 "$(status TaskService/Submit "$task" --http2-prior-knowledge -H "authorization: Bearer $token")"
}

test_it_is_off_by_default() {
	start_manager second
	listening=$(ss -Hltnp | grep -c "pid=$(pid second),")
	expect_eq 1 "$listening"
}

# --- what is wrong ---

head_of() { # LENGTH [LINE…]: prints the head of a Ping with a content of that length
	printf 'POST /reeve.v1.AdminService/Ping HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\nContent-Length: %s\\r\\n' "$1"
	[ $# = 1 ] || printf '%s\\r\\n' "${@:2}"
	printf '\\r\\n'
}

test_contents_of_another_type_are_refused() {
	expect_eq 415 "$(curl -sS -d '{}' -o "$DIR/answer" -w '%{http_code}' "$H/reeve.v1.AdminService/Ping")"
	expect_match '^invalid_argument: Content-Type must be' "$(error_of)"
	expect_eq 415 "$(page /reeve.v1.AdminService/Ping -d '{}' -H 'content-type: application/jsonl')"
	expect_eq 200 "$(page /reeve.v1.AdminService/Ping -d '{}' -H 'content-type: Application/JSON; charset=utf-8')"
	expect_eq 400 "$(status AdminService/Ping '{}' -H 'content-type: application/proto')" # twice
}

test_headers_of_connect_are_checked() {
	expect_eq 400 "$(status AdminService/Ping '{}' -H 'connect-protocol-version: 2')"
	expect_eq 200 "$(status AdminService/Ping '{}' -H 'connect-protocol-version: 1')"
	expect_eq 400 "$(status AdminService/Ping '{}' -H 'connect-timeout-ms: soon')"
	expect_eq 400 "$(status AdminService/Ping '{}' -H 'connect-timeout-ms: 12345678901')"
	expect_eq 401 "$(status AdminService/Ping '{}' -H 'authorization: Basic YTpi')"
	expect_eq 400 "$(status AdminService/Ping '{}' -H "authorization: Bearer $(printf 'x%.0s' {1..5000})")"
	expect_match '^invalid_argument: token has 5000 bytes' "$(error_of)"
	expect_eq 400 "$(status AdminService/Ping '{}' -H "reeve-actor: $(printf 'x%.0s' {1..300})")"
	# Blanks after a value are not part of it.
	expect_match '^HTTP/1.1 200 ' "$(raw "$(head_of 2 'Connect-Timeout-Ms: 5000 ' 'Content-Encoding: identity \t' 'Connection: close'){}" | head -n 1)"
}

test_what_is_not_http_is_refused() {
	for header in 'Authorization : Bearer x' 'Content-Length : 2' 'Host : localhost' 'X-A b: c'; do
		expect_match '^HTTP/1.1 400 ' "$(raw "POST /reeve.v1.AdminService/Ping HTTP/1.1\r\nHost: x\r\n$header\r\nContent-Type: application/json\r\n\r\n{}" 3 | head -n 1)"
	done
	expect_match '^HTTP/1.1 400 Bad Request' "$(raw 'hello\r\n\r\n')"
	expect_match '^HTTP/1.1 400 Bad Request' "$(raw '\0SP\0\0\x30\0\0')"
	expect_match '^HTTP/1.1 400 Bad Request' "$(raw 'GET /healthz HTTP/1.1\r\n\r\n')" # no host
	expect_match '^HTTP/1.1 400 Bad Request' "$(raw 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n')"
	expect_match '^HTTP/1.1 505 ' "$(raw 'GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n')"
	expect_match '^HTTP/1.1 400 Bad Request' "$(raw "$(head_of 2 'Transfer-Encoding: chunked'){}")" # a length twice
	expect_match '^HTTP/1.1 400 Bad Request' "$(raw "$(head_of 2 'Content-Length: 3'){}")"
	expect_match '^HTTP/1.1 417 ' "$(raw "$(head_of 2 'Expect: a miracle'){}")"
	expect_match '^HTTP/1.1 200 ' "$(raw 'GET /healthz HTTP/1.0\r\n\r\n')"
}

test_long_contents_and_heads_are_refused() {
	expect_match '^HTTP/1.1 413 ' "$(raw "$(head_of 8388609)")"
	head -c 9000000 /dev/zero | tr '\0' x >"$DIR/long"
	expect_eq 413 "$(status AdminService/Ping @"$DIR/long")"
	expect_match '^resource_exhausted: the content is longer than --max-message' "$(error_of)"
	expect_eq 413 "$(status AdminService/Ping @"$DIR/long" -H 'transfer-encoding: chunked' -H 'expect:')"
	expect_match '^HTTP/1.1 413 ' "$(raw 'POST /reeve.v1.AdminService/Ping HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFF\r\n')"
	expect_eq 431 "$(status AdminService/Ping '{}' -H "x: $(printf 'x%.0s' {1..20000})")"
	many=()
	for i in {1..3000}; do many+=(-H "x$i: y"); done
	expect_eq 431 "$(status AdminService/Ping '{}' "${many[@]}")"
	expect_eq 200 "$(status AdminService/Ping '{}')"
}

flood() { # HEAD TEXT: sends the head, and then the text again and again until an answer comes; prints the answer's first line
	timeout 60 python3 - "$PORT_OF_HTTP" "$1" "$2" <<-'END'
		import select, socket, sys
		port, head, text = (argument.encode().decode("unicode_escape").encode() for argument in sys.argv[1:])
		connection = socket.create_connection(("127.0.0.1", int(port)))
		connection.settimeout(30)
		connection.sendall(b"POST /reeve.v1.AdminService/Ping HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + head)
		for _ in range(100000):
		    if select.select([connection], [], [], 0)[0]:
		        break
		    connection.sendall(text)
		else:
		    sys.exit("it takes everything")
		print(connection.recv(1000).decode().splitlines()[0])
	END
}

test_what_has_no_end_is_refused() {
	chunked='Transfer-Encoding: chunked\r\n\r\n'
	thousand=$(printf 'x%.0s' {1..1000})
	expect_match ' 413 ' "$(flood "$chunked" "3e8\r\n$thousand\r\n")" 'chunks'
	expect_match ' 431 ' "$(flood "${chunked}2;" "$thousand")" 'the extension of a chunk'
	expect_match ' 431 ' "$(flood "${chunked}2\r\n{}\r\n0\r\n" "x: $thousand\r\n")" 'trailers'
	expect_match ' 431 ' "$(flood '' "x: $thousand\r\n")" 'headers'
	expect_match ' 431 ' "$(flood 'x: ' "$thousand")" 'a header'
	expect_match ' 431 ' "$(flood "$chunked" '00000000000000000000')" 'the length of a chunk'
	expect_eq 200 "$(status AdminService/Ping '{}')"
}

test_several_requests_may_follow_each_other() {
	one='GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'
	last='GET /proto/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
	answers=$(raw "$one$one$(head_of 2){}$one$last$one")
	expect_eq 5 "$(grep -o 'HTTP/1.1 200 OK' <<<"$answers" | wc -l)"
	expect_eq 3 "$(grep -c '^alive' <<<"$answers")"
	expect_match '/proto/reeve/v1/[a-z]+.proto$' "$answers"
	id=$(submit 'sleep 1')
	wait="{\"ids\":[$id],\"waitMs\":9000}"
	calls="POST /reeve.v1.TaskService/Wait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${#wait}\r\n\r\n$wait"
	answers=$(raw "$calls$one$last")
	expect_match 'TASK_STATUS_COMPLETED.*alive.*/proto/reeve/v1/worker.proto' "$(tr -d '\r\n' <<<"$answers")"
}

test_a_caller_that_hangs_up_withdraws_its_call() {
	id=$(call TaskService/Submit '{"tasks":[{"queue":"never","type":"none"}]}' | jq -r '.tasks[0].id')
	before=$(calm_calls)
	wait="{\"ids\":[$id],\"waitMs\":60000}"
	start first curl -sS -H 'content-type: application/json' -d "$wait" "$H/reeve.v1.TaskService/Wait"
	exec 4<>"/dev/tcp/127.0.0.1/$PORT_OF_HTTP"
	printf 'POST /reeve.v1.TaskService/Wait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#wait}" "$wait" >&4
	wait_until 20 "[ \$(open_calls) = $((before + 2)) ]"
	stop first KILL
	wait_until 20 "[ \$(open_calls) = $((before + 1)) ]"
	exec 4>&-
	wait_until 20 "[ \$(open_calls) = $before ]"
}

test_a_call_ends_at_its_deadline() {
	id=$(call TaskService/Submit '{"tasks":[{"queue":"never","type":"none"}]}' | jq -r '.tasks[0].id')
	before=$(calm_calls)
	begin=$(date +%s%N)
	expect_eq 504 "$(status TaskService/Wait "{\"ids\":[$id],\"waitMs\":60000}" -H 'connect-timeout-ms: 700')"
	took=$((($(date +%s%N) - begin) / 1000000))
	expect_match '^deadline_exceeded: ' "$(error_of)"
	[ "$took" -ge 700 ] || fail "$took ms"
	wait_until 20 "[ \$(open_calls) = $before ]"
}

test_slow_callers_are_disconnected() {
	exec 4<>"/dev/tcp/127.0.0.1/$PORT_OF_HTTP" # says nothing
	exec 5<>"/dev/tcp/127.0.0.1/$PORT_OF_HTTP" # does not finish its head
	printf 'GET /healthz HTTP/1.1\r\nHost' >&5
	exec 6<>"/dev/tcp/127.0.0.1/$PORT_OF_HTTP" # nor its content
	printf '%b{' "$(head_of 2)" >&6
	exec 7<>"/dev/tcp/127.0.0.1/$PORT_OF_HTTP" # sends a byte each second
	printf 'GET /healthz HTTP/1.1\r\nHost: ' >&7
	(until [ -e "$DIR/closed.7" ]; do printf x >&7 && sleep 1 || break; done) &
	for fd in 4 5 6 7; do
		(timeout 25 cat <&$fd >"$DIR/answer.$fd" && touch "$DIR/closed.$fd") &
	done
	wait
	for fd in 4 5 6 7; do
		[ -e "$DIR/closed.$fd" ] || fail "$fd is still open"
		expect_eq '' "$(cat "$DIR/answer.$fd")"
	done
	exec 4>&- 5>&- 6>&- 7>&-
}

test_long_polls_cost_no_thread() {
	id=$(call TaskService/Submit '{"tasks":[{"queue":"never","type":"none"}]}' | jq -r '.tasks[0].id')
	before=$(calm_calls) threads=$(ls "/proc/$(pid manager)/task" | wc -l)
	wait="{\"ids\":[$id],\"waitMs\":60000}"
	printf 'POST /reeve.v1.TaskService/Wait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#wait}" "$wait" >"$DIR/request"
	for i in {1..400}; do
		exec {fd}<>"/dev/tcp/127.0.0.1/$PORT_OF_HTTP"
		cat "$DIR/request" >&$fd
	done
	wait_until 20 "[ \$(open_calls) = $((before + 400)) ]"
	expect_eq "$threads" "$(ls "/proc/$(pid manager)/task" | wc -l)"
	reeve cancel "$id"
	expect_match 'TASK_STATUS_CANCELLED' "$(timeout 10 head -c 400 <&$fd | tr '\r\n' '  ')"
	wait_until 20 "[ \$(open_calls) = $before ]"
}

run_tests
