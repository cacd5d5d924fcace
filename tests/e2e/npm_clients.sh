#!/usr/bin/env bash
# Public clients of Node, unmodified, call a manager: Connect's and gRPC's. Without npm, or without its packages, there is no test.
. "$(dirname "$0")/lib.sh"

. "$TOP/tests/e2e/npm.bash"

if ! npm_packages; then
	test_connect() { :; }
	test_grpc() { :; }
	run_tests
fi

start_postgres
A=127.0.0.1:$(free_port)
start_manager manager --http "http://$A"
start_worker worker

test_connect() {
	protoc-c --descriptor_set_out="$DIR/contract.bin" -I "$TOP/proto" "$TOP"/proto/reeve/v1/*.proto
	line='true bigint 3000 NotFound DeadlineExceeded Canceled 40'
	expect_eq "connect $line
connect $line
connect $line
connect $line
grpc $line
connect $line
connect $line
connect $line
connect $line
grpc $line" "$(node "$NPM/connect.mjs" "http://$A" "$DIR/contract.bin")"
}

test_grpc() {
	expect_eq 'TASK_STATUS_COMPLETED grpc-js
NOT_FOUND
DEADLINE_EXCEEDED
CANCELLED
SERVING
true
1
true' "$(node "$NPM/grpc.mjs" "$A" "$TOP/proto")"
}

run_tests
