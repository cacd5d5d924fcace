#!/usr/bin/env bash
# Workers of each language keep the rules of the worker protocol; tests/conformance/run checks any other.
# parts 3
# timeout 400
. "$(dirname "$0")/lib.sh"

LEASE=15 # long enough for a worker that gets little processor time
start_postgres
REEVE_URL=http://127.0.0.1:$(free_port)
export REEVE_URL REEVE_WORKER=tested
start_manager manager --http "$REEVE_URL" --lease ${LEASE}s --heartbeat 1s

status_of() { # ID
	reeve show "$1" --json | jq -r .status
}

soon() { # SECONDS CONDITION: whether it holds within that time
	local end=$((SECONDS + $1))
	until eval "$2"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

ticks_stand() { # FILE: whether its handler has stopped
	local before
	before=$(wc -l <"$1")
	sleep 1
	[ "$(wc -l <"$1")" = "$before" ]
}

begin_worker() {
	BEFORE=$(worker_incarnation tested) # it may seem alive until its lease ends
	start worker bash -c "exec $COMMAND"
}

is_up() {
	reeve worker list --json | jq -e "select(.state == \"alive\" and .name == \"tested\" and .incarnation > $BEFORE)" >/dev/null
}

echoes() { # TEXT: whether a task with that result is run in time
	local id
	id=$(reeve submit echo "$1")
	soon 40 "[ \$(status_of $id) = completed ]" && [ "$(reeve show "$id" --json | jq -r .result)" = "$1" ]
}

begin_ticks() { # SECONDS [OPTION…]: starts a task that ticks in $FILE; sets $ID
	FILE=$(mktemp "$DIR/ticks.XXXXXX")
	ID=$(reeve submit ticks "$FILE $1" "${@:2}")
	soon 20 '[ -s "$FILE" ]'
}

# The points. Each is a command that fails if the worker does.

takes_tasks_and_reports_results() {
	local i
	for i in {1..10}; do echoes "text $i" || return 1; done
}

reports_failures_which_are_retried() {
	local id
	id=$(reeve submit fail why --max-attempts 2 --backoff fixed:100ms)
	soon 30 "[ \$(status_of $id) = dead ]" && [ "$(reeve show "$id" --json | jq -r .attempt)" = 2 ]
}

runs_no_more_tasks_than_it_has_slots() {
	local begin=${EPOCHREALTIME/./}
	FILE=$(mktemp "$DIR/ticks.XXXXXX")
	for _ in {1..6}; do reeve submit ticks "$FILE 2" --queue "six$TEST_NUMBER" >/dev/null; done
	soon 40 "[ \"\$(sql \"select count(*) from task_history where queue = 'six$TEST_NUMBER' and status = 'completed'\")\" = 6 ]" &&
		[ $((${EPOCHREALTIME/./} - begin)) -ge 5900000 ] # six times two seconds, two at a time
}

keeps_its_lease_while_a_handler_runs() {
	begin_ticks $((LEASE + 2)) && reeve wait "$ID" >/dev/null && [ "$(reeve show "$ID" --json | jq -r .attempt)" = 1 ]
}

stops_a_cancelled_handler() {
	begin_ticks 60 && reeve cancel "$ID" >/dev/null && soon 10 '[ "$(status_of "$ID")" = cancelled ]' && ticks_stand "$FILE"
}

stops_a_handler_at_its_timeout() {
	local timeout
	for timeout in 1 5 20; do begin_ticks 60 --timeout ${timeout}s --max-attempts 1 && break; done && soon 30 '[ "$(status_of "$ID")" = dead ]' && ticks_stand "$FILE"
}

keeps_a_result_until_a_manager_takes_it() {
	begin_ticks 1 || return 1
	signal manager STOP
	sleep 2
	signal manager CONT
	reeve wait "$ID" >/dev/null && [ "$(reeve show "$ID" --json | jq -r .attempt)" = 1 ]
}

stops_its_handlers_before_its_lease_ends() {
	local stopped
	begin_ticks 60 --max-attempts 1 || return 1
	signal manager STOP
	sleep $((LEASE + 1))
	ticks_stand "$FILE"
	stopped=$?
	signal manager CONT
	[ $stopped = 0 ] && again
}

reports_too_late_and_goes_on() { # after the point before this one
	reeve cancel "$ID" >/dev/null # an attempt whose lease ended does not count: the task may run again
	echoes late && soon 20 '[ "$(reeve list --status executing --json)" = "" ]'
}

does_not_go_on_after_a_lost_lease() {
	local stopped
	begin_ticks 60 --queue held || return 1
	signal worker STOP
	soon 30 '[ "$(status_of "$ID")" != executing ]' || return 1
	reeve queue pause held >/dev/null
	signal worker CONT
	soon 10 'ticks_stand "$FILE"'
	stopped=$?
	reeve cancel "$ID" >/dev/null
	reeve queue resume held >/dev/null
	[ $stopped = 0 ] && again && echoes back
}

drains_by_command() {
	begin_ticks 2 && reeve worker drain tested >/dev/null && soon 20 '! alive worker' && ended worker 5 && [ "$STATUS" = 0 ] &&
		[ "$(status_of "$ID")" = completed ] && again
}

drains_at_sigterm() {
	begin_ticks 2 && signal worker TERM && soon 20 '! alive worker' && ended worker 5 && [ "$STATUS" = 0 ] &&
		[ "$(status_of "$ID")" = completed ] && ! is_up
}

POINTS=(takes_tasks_and_reports_results reports_failures_which_are_retried runs_no_more_tasks_than_it_has_slots
	keeps_its_lease_while_a_handler_runs stops_a_cancelled_handler stops_a_handler_at_its_timeout
	keeps_a_result_until_a_manager_takes_it stops_its_handlers_before_its_lease_ends reports_too_late_and_goes_on
	does_not_go_on_after_a_lost_lease drains_by_command drains_at_sigterm)

again() { # a supervisor starts a worker that has ended
	soon 30 '{ alive worker || begin_worker; } && is_up'
}

check_points() { # COMMAND: sets $FAILED, those that it fails
	local point
	COMMAND=$1 FAILED=()
	begin_worker
	soon 30 is_up || fail "the worker does not register within 30 s"
	for point in "${POINTS[@]}"; do
		if ! $point; then
			FAILED+=("${point//_/ }")
			note "$point: $(reeve show "${ID:-0}" 2>&1; reeve audit "${ID:-0}" 2>&1; reeve list --status executing)"
			again || break
		fi
	done
}

conform() { # COMMAND
	check_points "$1"
	[ ${#FAILED[@]} = 0 ] || fail "it fails these points: $(printf '%s; ' "${FAILED[@]}")"
}

test_reeve_worker() {
	conform "$TOP/tests/conformance/c"
}

test_clients_python() {
	conform "python3 $TOP/tests/conformance/python.py"
}

test_clients_node() {
	conform "node $TOP/tests/conformance/node.mjs"
}

# Only the points that take little time; the suite grpc_worker has its lease.
test_examples_grpc_worker() {
	local POINTS=(takes_tasks_and_reports_results reports_failures_which_are_retried stops_a_cancelled_handler
		stops_a_handler_at_its_timeout drains_by_command drains_at_sigterm)
	export GENERATED=$DIR/generated
	conform "/usr/bin/python3 -B $TOP/tests/conformance/grpc_worker.py"
}

# Only some points: most that a worker fails take long.
test_the_points_that_a_worker_fails_are_named() {
	local POINTS=(takes_tasks_and_reports_results reports_failures_which_are_retried drains_by_command)
	sed 's/lambda task: task.details/lambda task: "x"/; s/raise RuntimeError(task.details)/raise Fatal(task.details)/; s/import Client/import Fatal, Client/' \
		"$TOP/tests/conformance/python.py" >"$DIR/wrong.py"
	check_points "env PYTHONPATH=$TOP/clients/python python3 $DIR/wrong.py"
	expect_eq 'takes tasks and reports results,reports failures which are retried' "$(IFS=, && echo "${FAILED[*]}")"
}

test_the_given_worker() {
	[ -z "${REEVE_CONFORMANCE_COMMAND:-}" ] || conform "$REEVE_CONFORMANCE_COMMAND"
}

run_tests
