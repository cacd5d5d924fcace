#!/usr/bin/env bash
# Request ids: each names one call. (idempotency.sh tests resent calls.)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager

resend() { # see tests/tools/resend.c
	"$REEVE_BIN/resend" "$@"
}

expect_used() { # COMMAND…: it is refused because its id names another call
	local said code=0
	said=$("$@") || code=$?
	expect_eq 4 $code
	expect_match '^INVALID_ARGUMENT: .*request id was used for another call' "$said"
}

test_an_id_of_a_submit_is_no_id_of_a_cancel() {
	id=$(resend id)
	task=$(resend submit "$id" kinds '' 1 "$REEVE_MANAGER")
	expect_used resend cancel "$id" "$task" "$REEVE_MANAGER"
	expect_eq queued "$(field "$task" status)"
	expect_eq submitted "$(events "$task")"
	expect_eq "$task" "$(resend submit "$id" kinds '' 1 "$REEVE_MANAGER")"
}

# Otherwise the submit would be answered with tasks that it did not create.
test_an_id_of_a_cancel_is_no_id_of_a_submit() {
	task=$(reeve submit nothing --queue kinds2)
	other=$(reeve submit nothing --queue kinds2)
	id=$(resend id)
	expect_eq "$task" "$(resend cancel "$id" "$task" "$REEVE_MANAGER")"
	expect_used resend submit "$id" kinds2 '' 1 "$REEVE_MANAGER"
	expect_used resend submit "$id" kinds2 '' 2 "$REEVE_MANAGER"
	expect_eq 2 "$(sql "select count(*) from all_tasks where queue = 'kinds2'")"
	# The same kind of call for another task changes nothing either.
	code=0
	said=$(resend cancel "$id" "$other" "$REEVE_MANAGER") || code=$?
	expect_match "^$other\+$|request id was used for another call" "$said"
	expect_eq queued "$(field "$other" status)"
}

test_changing_calls_need_an_id() {
	# An envelope without field 2; its body submits a task of the type "nothing".
	said=$(printf '\x0a\x1c/reeve.v1.TaskService/Submit\x32\x0b\x0a\x09\x12\x07nothing\x38\x01' | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" -)
	expect_match '^3 request_id is missing' "$said"
	for bytes in '\x0f123456789012345' '\x1112345678901234567' '\x00'; do
		said=$(printf '\x0a\x1c/reeve.v1.TaskService/Submit\x12'"$bytes"'\x32\x0b\x0a\x09\x12\x07nothing\x38\x01' |
			"$REEVE_BIN/raw-call" "$REEVE_MANAGER" -)
		expect_match '^3 .*request_id' "$said"
	done
	task=$(reeve submit nothing)
	for method in Cancel Retry; do
		said=$(printf "\\x0a\\x$(printf %02x $((22 + ${#method})))/reeve.v1.TaskService/$method\\x32\\x03\\x0a\\x01\\x$(printf %02x "$task")\\x38\\x01" |
			"$REEVE_BIN/raw-call" "$REEVE_MANAGER" -)
		expect_match '^3 request_id is missing' "$said"
	done
	expect_eq submitted "$(events "$task")"
}

run_tests
