#!/usr/bin/env bash
# The RPC library under the thread sanitizer: managers die and come back while many threads make calls.
. "$(dirname "$0")/lib.sh"

test_no_two_threads_collide_in_a_storm() {
	cmake -S "$TOP" -B "$DIR/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSANITIZE=thread -DREEVE_TESTS=ON >"$DIR/log/configure.log"
	ninja -C "$DIR/build" -j2 rpc-storm >"$DIR/log/build.log"
	TSAN_OPTIONS="$TSAN_OPTIONS:suppressions=$TOP/tests/threads.supp" "$DIR/build/bin/rpc-storm" 5
}

run_tests
