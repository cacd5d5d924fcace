#!/usr/bin/env bash
# Traces: spans of tasks' lives, sent to a collector of OpenTelemetry.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_collector() { # NAME PORT [OPTION…]
	start "$1" "$TOP/tests/tools/http_receiver.py" --port "$2" --log "$SUITE_DIR/received" "${@:3}"
	wait_until 20 "(exec 3<>/dev/tcp/127.0.0.1/$2) 2>/dev/null"
}

start_postgres
COLLECTOR=$(free_port)
start_collector collector "$COLLECTOR"
T=http://127.0.0.1:$COLLECTOR

spans() { # prints all spans that have come, each as NAME TRACE SPAN PARENT STATUS KIND FROM TO
	[ ! -e "$SUITE_DIR/received" ] || jq -r '.body | fromjson | .resourceSpans[].scopeSpans[].spans[] |
		[.name, .traceId, .spanId, .parentSpanId // "-", .status.code // 0, .kind, .startTimeUnixNano, .endTimeUnixNano] |
		map(tostring) | join("|")' "$SUITE_DIR/received"
}

of_trace() { # TRACE: the names of its spans, sorted
	spans | awk -F'|' -v t="$1" '$2 == t { print $1 }' | sort | paste -sd,
}

test_a_tasks_life_is_a_trace() {
	start_manager manager --traces "$T" --trace-sample 100
	start_worker
	trace=$(reeve submit sh '[ $REEVE_ATTEMPT = 2 ] || exit 3; printf %s "$TRACEPARENT"' --retry-base 1ms --queue traced --wait)
	expect_match '^00-[0-9a-f]{32}-[0-9a-f]{16}-01$' "$trace" 'the handler gets the trace'
	id=${trace:3:32}
	wait_until 30 '[ "$(of_trace "$id")" = "run sh,run sh,submit sh,wait sh,wait sh" ]'
	spans | grep -F "|$id|" >"$DIR/spans"
	# The submit is the root; the others are its children.
	expect_eq "submit sh|$id|${trace:36:16}|-|0|4" "$(grep '^submit' "$DIR/spans" | cut -d'|' -f1-6)"
	expect_eq "${trace:36:16}" "$(grep -v '^submit' "$DIR/spans" | cut -d'|' -f4 | sort -u)"
	expect_eq 5 "$(cut -d'|' -f3 "$DIR/spans" | sort -u | wc -l)" 'ids'
	expect_eq '0 2' "$(grep '^run' "$DIR/spans" | cut -d'|' -f5 | sort | paste -sd' ')" 'the first attempt failed'
	awk -F'|' '$7 > $8 { exit 1 }' "$DIR/spans" || fail 'a span ends before it begins'
	jq -r '.body | fromjson | .resourceSpans[]' "$SUITE_DIR/received" >"$DIR/received"
	expect_match reeve "$(jq -r '.resource.attributes[] | select(.key == "service.name").value.stringValue' "$DIR/received" | sort -u)"
	attributes=$(jq -r --arg id "$id" '.scopeSpans[].spans[] | select(.traceId == $id and .status.code == 2) |
		.attributes[] | "\(.key)=\(.value.stringValue // .value.intValue)"' "$DIR/received")
	for want in messaging.system=reeve messaging.destination.name=traced reeve.type=sh reeve.attempt=1 reeve.outcome=failed error.type=exit:3; do
		grep -qxF "$want" <<<"$attributes" || fail "no $want: $attributes"
	done
	# A task with a trace context continues that, if it is sampled.
	yes=11111111111111111111111111111111 no=22222222222222222222222222222222
	reeve submit nothing --traceparent "00-$yes-1234567890abcdef-01" --wait
	reeve submit nothing --traceparent "00-$no-1234567890abcdef-00" --wait
	wait_until 30 '[ "$(of_trace $yes)" = "run nothing,submit nothing,wait nothing" ]'
	expect_eq 1234567890abcdef "$(spans | grep -F "|$yes|" | cut -d'|' -f4 | sort -u)"
	stop manager # which sends all that it has
	expect_eq '' "$(of_trace $no)"
}

test_no_trace_begins_unless_sampled() {
	start_manager manager --traces "$T" --trace-sample 0
	start_worker
	expect_eq '' "$(reeve submit sh 'printf %s "$TRACEPARENT"' --wait)"
	stop manager
	start_manager manager # off
	expect_eq '' "$(reeve submit sh 'printf %s "$TRACEPARENT"' --wait)"
	trace=33333333333333333333333333333333
	reeve submit nothing --traceparent "00-$trace-1234567890abcdef-01" --wait
	stop manager
	expect_eq '' "$(of_trace $trace)"
}

test_a_stopping_manager_sends_its_spans() {
	start_manager manager --traces "$T"
	trace=44444444444444444444444444444444
	reeve submit nothing --traceparent "00-$trace-1234567890abcdef-01" >/dev/null
	stop manager
	wait_until 30 '[ "$(of_trace $trace)" = "submit nothing" ]'
}

test_a_collector_with_tls_must_have_a_certificate_that_is_trusted() {
	local port trace=55555555555555555555555555555555 untrusted=66666666666666666666666666666666
	port=$(free_port)
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$DIR/key" -out "$DIR/certificate" -subj /CN=collector -days 2 \
		-addext 'subjectAltName = IP:127.0.0.1' 2>/dev/null
	start_collector secure "$port" --certificate "$DIR/certificate" --key "$DIR/key"
	start_manager manager --traces "https://127.0.0.1:$port"
	reeve submit nothing --traceparent "00-$untrusted-1234567890abcdef-01" >/dev/null
	wait_until 30 'grep -q "traces: https://127.0.0.1:$port: .*certificate.*; spans lost: 1" "$DIR/log/manager.log"'
	stop manager
	start_manager manager --traces "https://127.0.0.1:$port" --callback-ca "$DIR/certificate"
	reeve submit nothing --traceparent "00-$trace-1234567890abcdef-01" >/dev/null
	wait_until 30 '[ "$(of_trace $trace)" = "submit nothing" ]'
	expect_eq '' "$(of_trace $untrusted)"
}

test_a_collector_that_fails_delays_nothing() {
	start_manager manager --traces "$T/hang" --trace-sample 100
	start_worker
	for n in 1 2 3; do expect_eq "$n" "$(reeve submit sh "printf $n" --wait)"; done
	stop manager
	local http
	http=http://127.0.0.1:$(free_port)
	start_manager manager --traces "$T/status/503" --trace-sample 100 --http "$http"
	expect_eq 4 "$(reeve submit sh 'printf 4' --wait)"
	wait_until 30 'grep -q "traces: $T answered with HTTP status 503; spans lost: " "$DIR/log/manager.log"'
	wait_until 30 'curl -sS "$http/metrics" | grep -x "reeve_spans_total{result=\"lost\"} 3" >/dev/null'
	curl -sS "$http/metrics" | grep -x 'reeve_spans_total{result="sent"} 0' >/dev/null
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen tcp://127.0.0.1:0 --traces nonsense
	expect_match '--traces nonsense: it ' "$OUTPUT"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --trace-sample 101
	expect_match '--trace-sample' "$OUTPUT"
}

run_tests
