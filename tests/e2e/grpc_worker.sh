#!/usr/bin/env bash
# examples/grpc-worker: a worker by gRPC. The suite conformance checks its rules, too.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/open_calls.bash"

export PYTHONDONTWRITEBYTECODE=1 GENERATED=$DIR/generated
start_postgres
A=127.0.0.1:$(free_port)
start_manager manager --http "http://$A" --lease 3s --heartbeat 500ms --max-result 64KiB
"$TOP/examples/grpc-worker/generate" "$GENERATED"

launch_example() { # NAME [MANAGERS]: the example with handlers that the tests need
	cat >"$DIR/$1.py" <<-END
		import os, sys, time
		sys.path.insert(0, "$TOP/examples/grpc-worker")
		from worker import run
		def patient(text, report):
		    report(50, "begun")
		    while not os.path.exists("$DIR/seen"):
		        time.sleep(0.05)
		    report(0, "over again")
		    return text
		def ledger(text, report):
		    with open("$DIR/ledger", "a") as file:
		        file.write(text + "\n")
		def talks(text, report):
		    for i in range(3000):
		        report(i / 30, "x" * 100 + "\0")
		    return "x" * (64 << 10)
		run({"patient": patient, "ledger": ledger, "talks": talks,
		     "echo": lambda text, report: text, "long": lambda text, report: "ä" * int(text), "bytes": lambda text, report: b"\0\xff",
		     "fail": lambda text, report: int("\0ü" + "x" * 100000)})
	END
	REEVE_GRPC=${2:-$A} REEVE_WORKER=$1 start "$1" /usr/bin/python3 "$DIR/$1.py"
}

start_example() {
	launch_example "$@"
	wait_until 60 "[ \"\$(worker_incarnation '$1')\" -gt 0 ]"
}

test_it_runs_tasks() {
	REEVE_GRPC=$A start example /usr/bin/python3 "$TOP/examples/grpc-worker/worker.py"
	expect_eq olleh "$(reeve submit reverse hello --wait)"
	id=$(reeve submit reverse $'abc\ndef')
	expect_eq $'cba\nfed' "$(reeve wait "$id" --result)"
	expect_eq '100 line 1 line 2' "$(reeve show "$id" --json | jq .progress) $(reeve logs "$id" --json | jq -r .text | xargs)"
	stop example
	expect_eq 0 "$STATUS"
}

test_it_reports_what_its_handler_says() {
	start_example patient
	id=$(reeve submit patient hello)
	wait_until 60 '[ "$(reeve show "$id" --json | jq .progress)" = 50 ] && [ "$(reeve logs "$id" --json | jq -r .text)" = begun ]'
	touch "$DIR/seen"
	expect_eq hello "$(reeve wait "$id" --result)"
	expect_eq '0 begun over again' "$(reeve show "$id" --json | jq .progress) $(reeve logs "$id" --json | jq -r .text | xargs)"
	stop patient
}

# It goes on after results that managers do not take.
test_results_above_the_limits_end_their_tasks() {
	local id
	start_example limits
	expect_eq 32768 "$(reeve submit long 32768 --wait | wc -m)"
	id=$(reeve submit long 32769)
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead result-too-long' "$(field "$id" status) $(field "$id" error_code)"
	expect_eq 65536 "$(reeve submit talks --wait | tr -d '\n' | wc -c)"
	reeve submit bytes --wait | cmp - <(printf '\0\xff')
	id=$(reeve submit fail --max-attempts 1)
	expect_fail 1 reeve wait "$id"
	expect_match '^ValueError: ' "$(field "$id" last_error)"
	expect_eq end "$(reeve submit echo end --wait)"
	stop limits
}

# It gets a task while it is frozen, and wakes after its lease: the task may run elsewhere by then.
test_it_begins_nothing_without_a_lease() {
	local id before calls
	calls=$(calm_calls)
	start_example frozen
	before=$(worker_incarnation frozen)
	wait_until 60 "[ \"\$(calm_calls)\" -gt $calls ]" # its Fetch waits
	signal frozen STOP
	id=$(reeve submit ledger once --queue held)
	wait_status 60 "$id" executing
	reeve queue pause held >/dev/null
	wait_until 60 '[ "$(field "$id" status)" != executing ]'
	signal frozen CONT
	wait_until 60 "[ \"\$(worker_incarnation frozen)\" -gt $before ]"
	expect [ ! -e "$DIR/ledger" ]
	reeve queue resume held >/dev/null
	reeve wait "$id" --max-wait 30s >/dev/null
	expect_eq once "$(cat "$DIR/ledger")"
	stop frozen
}

# A manager that is frozen costs no lease, and one that has gone is left at once.
test_it_leaves_managers_that_do_not_answer() {
	local B id before
	B=127.0.0.1:$(free_port)
	start_manager second --http "http://$B" --lease 3s --heartbeat 500ms
	start_example several "$B,$A"
	REEVE_MANAGER=${URL[manager]}
	id=$(reeve submit patient hello --max-attempts 1)
	wait_status 60 "$id" executing
	signal second STOP
	before=$(worker_incarnation several)
	sleep 4
	touch "$DIR/seen"
	expect_eq hello "$(reeve wait "$id" --result)"
	signal second CONT
	stop second KILL
	expect_eq end "$(reeve submit echo end --wait)"
	expect_eq "$before" "$(worker_incarnation several)"
	stop several
	expect_eq 0 "$STATUS"
}

test_a_second_one_with_the_name_waits_and_can_be_stopped() {
	start_example name
	REEVE_GRPC=$A REEVE_WORKER=name start other /usr/bin/python3 "$DIR/name.py"
	wait_until 60 "grep -q 'cannot register yet: ' '$DIR/log/other.log'"
	stop other
	expect_eq 0 "$STATUS"
	stop name
}

run_tests
