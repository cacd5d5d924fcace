#!/usr/bin/env bash
# A manager that logs each event of every task in one line.
# quick
. "$(dirname "$0")/lib.sh"

start_postgres
start_manager --log-tasks
start_worker worker --queue default,elsewhere

test_each_event_of_a_task_has_one_line() {
	a=$(reeve submit sh '[ $REEVE_ATTEMPT = 2 ] && printf "fine\tthank you" || exit 3' --retry-base 1ms)
	b=$(reeve submit sh 'printf "no\nway" >&2; exit 65' --queue elsewhere)
	c=$(reeve submit sh "head -c 1000 /dev/zero | tr '\\0' x")
	d=$(reeve submit sh 'printf later' --delay 1h)
	expect_fail 1 reeve wait "$a" "$b" "$c"
	reeve retry "$d" >/dev/null
	reeve wait "$d" >/dev/null
	once() { # REGEX
		wait_until 20 "grep -qE '$1' '$SUITE_DIR/log/manager.log'"
		expect_eq 1 "$(grep -Ec "$1" "$SUITE_DIR/log/manager.log")" "lines like $1"
	}
	once "queue \"default\": task $a \(sh\): claimed by worker [0-9]+, attempt 1 of 5\$"
	once "queue \"default\": task $a \(sh\): failed, attempt 1: exit:3: exit status 3; due again in "
	once "queue \"default\": task $a \(sh\): claimed by worker [0-9]+, attempt 2 of 5\$"
	once "queue \"default\": task $a \(sh\): completed, attempt 2: fine\\\\x09thank you\$"
	once "queue \"elsewhere\": task $b \(sh\): dead, attempt 1: exit:65: no\\\\x0away\$"
	once "queue \"default\": task $c \(sh\): completed, attempt 1: x{200}\.\.\.\$"
	once "queue \"default\": task $d \(sh\): retried by .+@"
	once "queue \"default\": task $d \(sh\): completed, attempt 1: later\$"
}

# The option is for all tasks; it takes no queue or type. A queue can be verbose before it has had a task.
test_it_takes_no_names() {
	expect_match 'log each step of every task; of one queue.s: reeve queue set NAME --verbose yes' "$("$REEVE_BIN/reeve-manager" --help | tr -s ' \n' ' ')"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --log-tasks nosuch/sh
	expect_match 'unexpected argument "nosuch/sh"' "$OUTPUT"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --log-tasks=nosuch/sh
	expect_match '^reeve-manager: --log-tasks: "nosuch/sh" is neither yes nor no' "$OUTPUT"
	start_manager quiet
	reeve submit sh true --queue other --delay 1h >/dev/null
	reeve queue set nosuch --verbose yes >/dev/null
	a=$(reeve submit sh true --queue nosuch --delay 1h)
	reeve cancel "$a" >/dev/null
	wait_until 10 'grep -q "queue \"nosuch\": task $a (sh): cancelled, as it waited" "$DIR/log/quiet.log"'
	expect_no_match 'queue "other"' "$(cat "$DIR/log/quiet.log")"
}

test_lines_have_fields_in_other_formats() {
	start_manager fields --log-format json --log-level debug
	start_worker writer --log-format json
	expect_eq fine "$(reeve submit sh 'printf fine' --queue fields --wait)"
	stop writer
	stop fields
	for log in writer fields; do
		jq -e 'select(.time and .level and .program and .message | not)' "$DIR/log/$log.log" >"$DIR/bad" || true
		expect_eq '' "$(cat "$DIR/bad")" "$log"
	done
	expect_eq 'reeve-manager info' "$(jq -r 'select(.message | startswith("listening on tcp://")) | "\(.program) \(.level)"' "$DIR/log/fields.log")"
	expect_eq reeve-worker "$(jq -r .program "$DIR/log/writer.log" | sort -u)"
	REEVE_LOG_FORMAT=logfmt start_manager logfmt
	expect_match '^time=[0-9T:.-]+Z level=info program=reeve-manager message="listening on tcp://' "$(grep listening "$DIR/log/logfmt.log")"
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --log-format xml
	expect_match 'log-format.*text, logfmt or json|log-format.*text\|logfmt\|json' "$OUTPUT"
}

run_tests
