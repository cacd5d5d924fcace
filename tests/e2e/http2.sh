#!/usr/bin/env bash
# Calls by HTTP/2: of Connect and of gRPC.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/open_calls.bash"

start_postgres
A=127.0.0.1:$(free_port)
start_manager manager --http "http://$A" --max-message 4MiB
start_worker worker
protoc-c --descriptor_set_out="$DIR/reflection.bin" -I "$TOP/proto" "$TOP"/proto/grpc/reflection/*/reflection.proto
REFLECTION=$DIR/reflection.bin

grpc() { # COMMAND…: by grpcio, of Debian's Python
	PYTHONDONTWRITEBYTECODE=1 timeout 60 /usr/bin/python3 "$TOP/tests/tools/grpc_call.py" "$REFLECTION" "$A" "$@"
}

call() { # SERVICE/METHOD JSON [OPTION…]: by Connect, and prints the answer
	curl -sS -m 20 --http2-prior-knowledge -H 'content-type: application/json' -d "$2" "${@:3}" "http://$A/reeve.v1.$1"
}

test_connect_works_over_http_2() {
	id=$(call TaskService/Submit '{"tasks":[{"queue":"q","type":"sh","details":"echo done"}]}' | jq -r '.tasks[0].id')
	expect_eq "done" "$(call TaskService/Wait "{\"ids\":[$id],\"waitMs\":10000}" | jq -r '.ended[0].result')"
	expect_eq '2 404 not_found' "$(call TaskService/Get '{"id":999999}' -o "$DIR/answer" -w '%{http_version} %{http_code} ')$(
		jq -r .code "$DIR/answer")"
	expect_eq '2 200' "$(call AdminService/Ping '{}' -o "$DIR/answer" -w '%{http_version} %{http_code}')"
	id=$(call TaskService/Submit '{"tasks":[{"queue":"never","type":"none"}]}' | jq -r '.tasks[0].id')
	expect_eq '2 504' "$(call TaskService/Wait "{\"ids\":[$id],\"waitMs\":10000}" -H 'connect-timeout-ms: 200' -o "$DIR/answer" \
		-w '%{http_version} %{http_code}')"
	for path in /healthz /readyz /proto/ "/reeve.v1.AdminService/Ping?encoding=json&message=%7B%7D"; do
		expect_eq '2 200' "$(curl -sS -m 20 --http2-prior-knowledge -o "$DIR/answer" -w '%{http_version} %{http_code}' "http://$A$path")"
	done
	expect_eq '2 405' "$(curl -sS -m 20 --http2-prior-knowledge -X DELETE -o "$DIR/answer" -w '%{http_version} %{http_code}' "http://$A/healthz")"
	curl -sS -m 20 --http2-prior-knowledge -I "http://$A/healthz" | grep -qx $'content-length: 6\r'
}

test_long_contents_pass_in_both_directions() {
	head -c 675000 /dev/urandom | base64 -w0 >"$DIR/details"
	jq -Rc '{tasks: [{queue: "long", type: "none", details: .}]}' "$DIR/details" >"$DIR/request"
	id=$(call TaskService/Submit "@$DIR/request" | jq -r '.tasks[0].id')
	call TaskService/Get "{\"id\":$id}" | jq -rj .task.details | cmp - "$DIR/details"
	call TaskService/Get "{\"id\":$id}" -H 'accept-encoding: gzip' | gunzip | jq -rj .task.details | cmp - "$DIR/details"
	head -c 5000000 /dev/zero | tr '\0' ' ' >"$DIR/request"
	expect_eq '2 413' "$(call TaskService/Submit "@$DIR/request" -o "$DIR/answer" -w '%{http_version} %{http_code}')"
	expect_eq '2 431' "$(call AdminService/Ping '{}' -H "x-long: $(printf '%020000d' 1)" -o "$DIR/answer" -w '%{http_version} %{http_code}')"
	expect_eq '2 200' "$(call AdminService/Ping '{}' -o "$DIR/answer" -w '%{http_version} %{http_code}')"
}

test_grpc_calls_and_their_errors() {
	id=$(grpc call reeve.v1.TaskService/Submit '{"tasks":[{"queue":"q","type":"sh","details":"echo by gRPC"}]}' | jq -r '.tasks[0].id')
	expect_eq 'by gRPC' "$(grpc call reeve.v1.TaskService/Wait "{\"ids\":[$id],\"wait_ms\":10000}" | jq -r '.ended[0].result')"
	expect_eq 'in one call' "$(grpc call reeve.v1.TaskService/SubmitAndWait '{"tasks":[{"type":"sh","details":"echo in one call"}],"wait_ms":20000}' | jq -r '.ended[0].result')"
	expect_match '^NOT_FOUND: ' "$(grpc call reeve.v1.TaskService/Get '{"id":999999}')"
	expect_eq 'INVALID_ARGUMENT: tasks[0].type is empty' "$(grpc call reeve.v1.TaskService/Submit '{"tasks":[{"queue":"ü%"}]}')"
	id=$(grpc call reeve.v1.TaskService/Submit '{"tasks":[{"queue":"never","type":"none"}]}' | jq -r '.tasks[0].id')
	expect_match '^DEADLINE_EXCEEDED: ' "$(grpc call reeve.v1.TaskService/Wait "{\"ids\":[$id],\"wait_ms\":20000}" timeout=0.3)"
	details=$(printf 'x%.0s' {1..5000})
	id=$(grpc call reeve.v1.TaskService/Submit "{\"tasks\":[{\"queue\":\"gz\",\"type\":\"none\",\"details\":\"$details\"}]}" gzip |
		jq -r '.tasks[0].id')
	expect_eq "$details" "$(grpc call reeve.v1.TaskService/Get "{\"id\":$id}" | jq -r .task.details)"
	first=$(grpc call reeve.v1.TaskService/Submit '{"tasks":[{"queue":"k","type":"none"}]}' 'idempotency-key: once')
	expect_eq "$first" "$(grpc call reeve.v1.TaskService/Submit '{"tasks":[{"queue":"k","type":"none"}]}' 'idempotency-key: once')"
	trace=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	id=$(grpc call reeve.v1.TaskService/Submit '{"tasks":[{"queue":"q","type":"sh","details":"echo $TRACEPARENT"}]}' "traceparent: $trace" | jq -r '.tasks[0].id')
	expect_eq "$trace" "$(reeve show "$id" --json | jq -r .traceparent)"
	expect_eq "$trace" "$(reeve wait "$id" --result)"
}

framed() { # 0|1 FILE: prints it as a message of gRPC; 1: it is compressed
	printf '%b' "\\$1$(printf '%08x' "$(stat -c %s "$2")" | sed 's/../\\x&/g')" && cat "$2"
}

test_what_is_not_grpc_is_refused() {
	said() { # CONTENT|@FILE [TYPE] [OPTION…]: prints the status of a call of $METHOD (Ping) with this content
		if [ "${1::1}" = @ ]; then cp "${1:1}" "$DIR/content"; else printf '%b' "$1" >"$DIR/content"; fi
		curl -sS -m 20 --http2-prior-knowledge -H 'te: trailers' -H "content-type: ${2:-application/grpc}" "${@:3}" --data-binary "@$DIR/content" \
			-D - -o /dev/null "http://$A/reeve.v1.${METHOD:-AdminService/Ping}" | tr -d '\r' | sed -n 's/^grpc-status: //p;s/^grpc-message: //p' | paste -sd' '
	}
	empty='\0\0\0\0\0'
	expect_eq 0 "$(said "$empty" | xargs)"
	expect_match '^12 Content-Type .*application/grpc.xml' "$(said "$empty" application/grpc+xml)"
	expect_match '^12 grpc-encoding .*br' "$(said "$empty" application/grpc -H 'grpc-encoding: br')"
	for timeout in soon 1 123456789S -1S; do
		expect_match '^3 grpc-timeout must be' "$(said "$empty" application/grpc -H "grpc-timeout: $timeout")"
	done
	for content in '' '\0\0\0' '\0\0\0\0\5a' "$empty$empty" '\2\0\0\0\0' '\0\xff\xff\xff\xff'; do
		expect_match '^3 the content is not one message' "$(said "$content")"
	done
	expect_match '^13 the message is compressed' "$(said '\1\0\0\0\0')"
	expect_match '^3 ' "$(said '\0\0\0\0\2\xff\xff')"
	expect_match '^3 ' "$(said '\0\0\0\0\5[[[[[' application/grpc+json)"
	# Longer than --max-message, at once or when decompressed.
	jq -nc '{tasks: [{type: "none", details: ("x" * 5000000)}]}' >"$DIR/long"
	for gzip in no gzip; do expect_match '^RESOURCE_EXHAUSTED: the content ' "$(grpc call reeve.v1.TaskService/Submit "@$DIR/long" $gzip)"; done
	# The manager keeps the deadline of a caller that does not.
	id=$(call TaskService/Submit '{"tasks":[{"queue":"never","type":"none"}]}' | jq -r '.tasks[0].id')
	echo "{\"ids\":[$id],\"waitMs\":60000}" >"$DIR/wait"
	framed 0 "$DIR/wait" >"$DIR/framed"
	expect_match '^4 ' "$(METHOD=TaskService/Wait said "@$DIR/framed" application/grpc+json -H 'grpc-timeout: 300m')"
	expect_eq 0 "$(said "$empty" | xargs)"
}

# Each program that reaches the manager may ping it, and ask for its health.
test_what_a_stranger_compresses_stays_short() {
	local A
	A=127.0.0.1:$(free_port)
	start required "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "ipc://$DIR/required" --http "http://$A" --auth required
	wait_until 60 'curl -sSf "http://$A/readyz" >/dev/null'
	{ printf '{"a":"' && head -c 1000000 /dev/zero | tr '\0' x && printf '"}'; } | gzip >"$DIR/long.gz"
	expect_eq 429 "$(curl -sS -m 20 -H 'content-type: application/json' -H 'content-encoding: gzip' --data-binary "@$DIR/long.gz" \
		-o "$DIR/answer" -w '%{http_code}' "http://$A/reeve.v1.AdminService/Ping")"
	expect_match 'more than 65536 bytes when decompressed' "$(cat "$DIR/answer")"
	expect_eq 200 "$(call AdminService/Ping '{}' -o "$DIR/answer" -w '%{http_code}')"
	head -c 1000000 /dev/zero | gzip >"$DIR/zeros.gz"
	framed 1 "$DIR/zeros.gz" >"$DIR/framed"
	curl -sS -m 20 --http2-prior-knowledge -H 'te: trailers' -H 'content-type: application/grpc' -H 'grpc-encoding: gzip' \
		--data-binary "@$DIR/framed" -D "$DIR/head" "http://$A/grpc.health.v1.Health/Check"
	expect_eq 8 "$(tr -d '\r' <"$DIR/head" | sed -n 's/^grpc-status: //p')"
	stop required
}

test_a_cancelled_call_is_withdrawn() {
	id=$(call TaskService/Submit '{"tasks":[{"queue":"never","type":"none"}]}' | jq -r '.tasks[0].id')
	before=$(calm_calls)
	PYTHONDONTWRITEBYTECODE=1 start cancels /usr/bin/python3 "$TOP/tests/tools/grpc_call.py" "$REFLECTION" "$A" \
		call reeve.v1.TaskService/Wait "{\"ids\":[$id],\"wait_ms\":60000}" cancel=0.5 keep=60
	wait_until 30 'grep -qx cancelled "$DIR/log/cancels.log"'
	wait_until 10 "[ \$(open_calls) = $before ]"
	alive cancels || fail 'its connection has ended, too'
	stop cancels
}

test_health_and_reflection() {
	expect_eq "$(sed -n 's/^service \([A-Za-z]*\).*/reeve.v1.\1/p' "$TOP"/proto/reeve/v1/*.proto | sort)" \
		"$(grpc list | grep '^reeve')"
	expect_match 'grpc.health.v1.Health' "$(grpc list)"
	expect_eq "$(grpc list)" "$(grpc list-alpha)"
	expect_match 'Submit\(reeve.v1.SubmitRequest\) reeve.v1.SubmitResponse' "$(grpc describe reeve.v1.TaskService)"
	expect_match 'traceparent = 16' "$(grpc describe reeve.v1.TaskSpec)"
	expect_match '^5: ' "$(grpc describe reeve.v1.Nothing 2>&1)"
	expect_eq '{"status": "SERVING"}' "$(grpc call grpc.health.v1.Health/Check '{}')"
	expect_eq '{"status": "SERVING"}' "$(grpc call grpc.health.v1.Health/Check '{"service":"reeve.v1.TaskService"}')"
	expect_match '^NOT_FOUND: ' "$(grpc call grpc.health.v1.Health/Check '{"service":"no"}')"
}

test_a_watch_of_the_health_goes_on_until_the_manager_stops() {
	local A
	A=127.0.0.1:$(free_port)
	start_manager second --http "http://$A"
	watch() { # NAME REQUEST
		start "$1" /usr/bin/python3 -B "$TOP/tests/tools/grpc_call.py" "$REFLECTION" "$A" call grpc.health.v1.Health/Watch "$2" timeout=300
	}
	watch unknown '{"service":"no"}'
	watch known '{}'
	wait_until 30 "grep -q SERVICE_UNKNOWN '$DIR/log/unknown.log' && grep -q '\"SERVING' '$DIR/log/known.log'"
	sql 'alter role reeve nologin'
	sql "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'reeve'" >/dev/null
	wait_until 60 "grep -q NOT_SERVING '$DIR/log/known.log'"
	sql 'alter role reeve login'
	wait_until 60 "sed 1,/NOT_SERVING/d '$DIR/log/known.log' | grep -q '\"SERVING'"
	# It stops while it has no database, too.
	sql 'alter role reeve nologin'
	sql "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'reeve'" >/dev/null
	wait_until 60 "[ \"\$(grep -c NOT_SERVING '$DIR/log/known.log')\" = 2 ]"
	stop second
	sql 'alter role reeve login'
	expect_eq 0 "$STATUS" 'exit code of the manager'
	ended known
	ended unknown
	expect_eq 'UNAVAILABLE: the manager stops' "$(tail -n 1 "$DIR/log/known.log")"
	expect_eq '{"status": "SERVICE_UNKNOWN"}
UNAVAILABLE: the manager stops' "$(cat "$DIR/log/unknown.log")"
}

frames() { # PORT: prints what the last frame of an idle connection is
	timeout 60 python3 - "$1" <<-'END'
		import socket, sys
		connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
		connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
		data = connection.recv(65536)
		print("connected", end=" ", flush=True)
		while part := connection.recv(65536):
		    data += part
		while data:
		    kind, data = data[3], data[9 + int.from_bytes(data[:3], "big") :]
		print("GOAWAY" if kind == 7 else kind)
	END
}

test_calls_that_wait_are_answered_when_the_manager_stops() {
	local A before wait first second third
	A=127.0.0.1:$(free_port)
	start_manager second --http "http://$A"
	id=$(call TaskService/Submit '{"tasks":[{"queue":"never","type":"none"}]}' | jq -r '.tasks[0].id')
	before=$(calm_calls)
	wait="{\"ids\":[$id],\"waitMs\":60000}"
	curl -sS -m 60 -H 'content-type: application/json' -d "$wait" -w ' %{http_version} %{http_code}' "http://$A/reeve.v1.TaskService/Wait" >"$DIR/first" &
	first=$!
	call TaskService/Wait "$wait" -m 60 -w ' %{http_version} %{http_code}' >"$DIR/second" &
	second=$!
	grpc call reeve.v1.TaskService/Wait "$wait" timeout=50 >"$DIR/third" &
	third=$!
	frames "${A##*:}" >"$DIR/frames" &
	wait_until 30 "[ \$(open_calls) = $((before + 3)) ] && [ -s '$DIR/frames' ]"
	stop second
	wait $first $second $third $!
	expect_match '^\{"code":"unavailable","message":"the manager stops"\} 1.1 503$' "$(cat "$DIR/first")"
	expect_match '^\{"code":"unavailable","message":"the manager stops"\} 2 503$' "$(cat "$DIR/second")"
	expect_match '^UNAVAILABLE: the manager stops$' "$(cat "$DIR/third")"
	expect_eq 'connected GOAWAY' "$(cat "$DIR/frames")"
}

abuse() { # WHAT [ARGUMENT]: prints how the connection ended
	timeout 60 python3 "$TOP/tests/tools/http2_abuse.py" "${A##*:}" "$@"
}

# measures time
test_a_caller_that_abuses_http_2_harms_no_other() {
	local abusers=()
	jq -nc '{tasks: [{queue: "long", type: "none", details: ("x" * 900000)}]}' >"$DIR/request"
	id=$(call TaskService/Submit "@$DIR/request" | jq -r '.tasks[0].id')
	start good bash -c "while true; do curl -sSf -m 5 --http2-prior-knowledge 'http://$A/healthz' >>$DIR/good || echo bad >>$DIR/good; sleep 0.1; done"
	before=$(calm_calls)
	expect_eq 'closed closed' "$(abuse resets) $(abuse overflows)"
	wait_until 10 "[ \$(open_calls) -le $before ]"
	for what in refused reflects hoard holds flood halves garbage pings settings leaves; do
		abuse "$what" "$id" >"$DIR/ended.$what" &
		abusers+=($!)
	done
	wait "${abusers[@]}"
	expect_eq 'closed
closed
closed
closed
closed
closed
closed
closed
closed
closed' "$(cat "$DIR"/ended.*)"
	wait_until 10 "[ \$(open_calls) -le $before ]"
	stop good
	expect_eq alive "$(sort -u "$DIR/good")"
}

run_tests
