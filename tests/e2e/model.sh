#!/usr/bin/env bash
# A model of the lease protocol, checked in all its states by spin (tests/model). Needs no PostgreSQL.
# timeout 1800
# background
. "$(dirname "$0")/lib.sh"

# Runs the model, and expects that each run has ended with the expected result. JOBS is at most two: a run needs up to a
# gigabyte.
run_model() { # KIND
	"$TOP/tests/model/run" "$1" | tee "$DIR/runs"
	expect_eq 0 "$(grep -cv '^ok ' "$DIR/runs" || true)" "runs that are not ok"
}

test_the_protocol_keeps_its_promises_in_every_state() {
	run_model protocol
	expect_no_match 'not all' "$(cat "$DIR/runs")"
}

test_without_any_one_of_its_safeguards_a_promise_breaks() {
	run_model variants
}

test_the_checker_finds_what_is_broken_and_says_how_it_came_about() {
	# The test must notice if one safeguard is replaced by another: the result is not only that some promise was broken,
	# but which one.
	local trail
	trail=$("$TOP/tests/model/run" --trail waiting)
	expect_match 'broken: requeue_never_hits_what_will_be_accepted' "$trail"
	expect_match 'Heartbeat 1 of incarnation 1.*requeue_find.*end_attempts: [12], requeued' "$(tr '\n' ' ' <<<"$trail")"
}

run_tests
