#!/usr/bin/env bash
# The RPC under the thread sanitizer: managers that die and come back while many threads call.
. "$(dirname "$0")/lib.sh"

story_no_two_threads_collide_in_a_storm() {
	cmake -S "$TOP" -B "$DIR/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSANITIZE=thread -DREEVE_TESTS=ON >"$DIR/log/configure.log"
	ninja -C "$DIR/build" -j2 rpc-storm >"$DIR/log/build.log"
	TSAN_OPTIONS="$TSAN_OPTIONS:suppressions=$TOP/tests/threads.supp" "$DIR/build/bin/rpc-storm" 10
}

run_stories
