#!/usr/bin/env bash
# `reeve top`, on a pseudo terminal.
. "$(dirname "$0")/lib.sh"

start_postgres
start_manager

top() { # SIZE STEP…: runs it on a terminal of that size, with these steps (tests/tools/terminal.py)
	"$TOP/tests/tools/terminal.py" "$@" -- "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" top --interval 200ms
}

test_it_shows_all_at_80_columns_and_takes_keys() {
	start_worker builder --concurrency 3
	for i in 1 2 3; do reeve submit none --queue "queue-$i" --key "$i" >/dev/null; done
	reeve submit none --queue queue-2 >/dev/null
	reeve submit none --queue queue-3 --delay 1h >/dev/null
	id=$(reeve submit sh "echo '{\"remark\": \"half\"}' >&3; until [ -e '$DIR/go' ]; do sleep 0.1; done" --queue busy)
	wait_until 20 '[ "$(reeve show "$id" --json | jq -r .status)" = executing ]'
	sql "update tasks set run_at = run_at - interval '10 minutes' where queue = 'queue-1'; select counts_recount()" >/dev/null
	top 24x80 'wait:tasks: 4 queued, 1 delayed, 1 executing, 0 failed   oldest: 1[0-9]m in queue-1' 'wait:workers: 1 alive, 1 of 3 slots busy' \
		'wait:throughput: [0-9.]+ completed/s, ' show \
		'key:s' 'wait:by oldest\n(.*\n)*QUEUE.*\nqueue-1' show 'key:s' 'wait:by executing\n(.*\n)*QUEUE.*\nbusy' show 'key:s' 'wait:by name' 'key:s' 'wait:by waiting' \
		'key:p' 'wait:PAUSED' 'key:p' 'wait:by waiting$' 'key:q' end >"$DIR/said"
	expect_eq 'exit 0' "$(tail -n 1 "$DIR/said")"
	for line in '^QUEUE +TYPE +QUEUED +DELAYED +EXECUTING +FAILED +OLDEST$' '^builder +alive +running +3 +1 ' "^ *$id +busy +sh +1 +[0-9]+s +builder"; do
		grep -qE "$line" "$DIR/said" || fail "no line is like '$line': $(head -n 24 "$DIR/said")"
	done
	expect_eq 'q quit   s sort   p pause' "$(sed -n 24p "$DIR/said")" 'in the last row'
	expect_eq 'queue-2 queue-3 queue-1 busy' "$(head -n 24 "$DIR/said" | grep -oE '^(queue-.|busy)' | xargs)"
	expect_eq 'queue-1' "$(sed -n '25,48p' "$DIR/said" | grep -oE '^(queue-.|busy)' | head -n 1)"
	expect_eq 'busy' "$(sed -n '49,72p' "$DIR/said" | grep -oE '^(queue-.|busy)' | head -n 1)"
	touch "$DIR/go"
	reeve wait "$id" >/dev/null
}

# However small, each screen is complete, no line is too long, and what does not fit is counted.
test_it_follows_the_size_of_the_terminal() {
	for i in $(seq 40); do echo "{\"type\":\"none\",\"queue\":\"a-long-name-of-a-queue-with-a-number-$i\"}"; done | reeve submit --bulk - >/dev/null
	top 24x80 'wait:\u2026 [0-9]+ more' size:50x120 'wait:(.*\n){49}q quit' size:10x30 'wait:^(.*\n){9}q quit' size:3x10 'wait:^(.*\n){2}' \
		size:40x200 'wait:(.*\n){39}q quit' 'key:q' end >"$DIR/said"
	expect_eq 'exit 0' "$(cat "$DIR/said")"
}

test_signals_give_the_terminal_back() {
	for signal in INT TERM HUP; do
		number=$(kill -l $signal)
		expect_eq "exit $((128 + number))" "$(top 24x80 'wait:tasks: ' "signal:$signal" end)"
	done
	expect_eq 'exit 130' "$(top 24x80 'wait:tasks: ' "key:$(printf '\003')" end)" 'Ctrl-C'
	# After Ctrl-Z the shell has its terminal, and `fg` draws again.
	expect_eq 'exit 0' "$(top 24x80 'wait:tasks: ' "key:$(printf '\032')" stopped signal:CONT 'wait:tasks: ' key:q end)"
}

# Keys work all the same.
test_without_a_manager_it_says_so() {
	start_manager other
	top() {
		"$TOP/tests/tools/terminal.py" "$@" -- "$REEVE_BIN/reeve" --manager tcp://127.0.0.1:1 --connect-timeout 100ms top --interval 200ms
	}
	expect_eq 'exit 0' "$(top 24x80 'wait:no manager .*127.0.0.1:1' 'key:s' 'wait:by oldest' 'key:q' end)"
}

test_it_needs_a_terminal() {
	expect_fail 2 reeve top
	expect_match 'top needs a terminal; without one see reeve queue list' "$OUTPUT"
	expect_fail 2 reeve top --json
	expect_match '^reeve top: --json does not go with it' "$OUTPUT"
	expect_fail 2 reeve top --interval 1ms
	expect_match 'interval' "$OUTPUT"
}

run_tests
