# shellcheck shell=bash
# Functions for tests of faults, with ledgers and their checker (README.md). Source this file after lib.sh.
#
#	$LEDGERS                     the folder of the test's ledgers
#	start_fault_exec NAME [OPTION…]      starts a reeve-worker at $REEVE_MANAGER for the type `fault-exec` (a program)
#	start_fault_function NAME [OPTION…]  starts a fault-worker there for the type `fault-function` (a C function)
#	launch_fault_exec, launch_fault_function   the same, but they do not wait until it is registered
#	start_submitter NAME [OPTION…]       starts a fault-submitter at $REEVE_MANAGER
#	now_us                       prints CLOCK_MONOTONIC in µs, the ledgers' time
#	submit_script NAME DETAILS [OPTION…]   submits one task with the details "NAME DETAILS", writes its ledger lines and
#	                             prints its id. Its type is `fault-exec`; --type as the first OPTION sets another
#	ledger ID EVENT [N]          prints the times (in µs) of that event in the task's N-th attempt (default: in all)
#	begun ID [N]                 returns whether the task's N-th attempt (default: 1) has begun
#	all_ended                    returns whether all tasks, closed batches and callbacks have ended
#	check_faults [OPTION…]       runs the checker; the test fails if it finds a violation or cannot read the facts

LEDGERS=$DIR/ledgers

fault_folder() {
	LEDGERS=$DIR/ledgers
	mkdir -p "$LEDGERS"
}

fault_handlers() { # the handlers file
	fault_folder
	[ -e "$DIR/fault-handlers.ini" ] || for type in fault-exec fault-entry fault-exit fault-told stage-b stage-d; do
		printf '[handler %s]\nexec = %s\n' "$type" "$REEVE_BIN/fault-handler"
	done >"$DIR/fault-handlers.ini"
	echo "$DIR/fault-handlers.ini"
}

launch_fault_exec() {
	local name=$1
	shift
	fault_folder
	FAULT_LEDGER=$LEDGERS FAULT_WORKER=$name start "$name" "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" \
		--handlers "$(fault_handlers)" --name "$name" "$@"
}

launch_fault_function() {
	local name=$1
	shift
	fault_folder
	start "$name" "$REEVE_BIN/fault-worker" --manager "$REEVE_MANAGER" --ledger "$LEDGERS" --name "$name" "$@"
}

await_registered() { # NAME BEFORE
	local end=$((SECONDS + 61))
	until [ "$(worker_incarnation "$1")" -gt "$2" ]; do
		alive "$1" || fail "$1 has ended; its log: $(tail -n 5 "$DIR/log/$1.log")"
		[ "$SECONDS" -lt "$end" ] || fail "$1 is not registered within 60 s"
		sleep 0.1
	done
}

start_fault_exec() {
	local before
	before=$(worker_incarnation "$1")
	launch_fault_exec "$@"
	await_registered "$1" "$before"
}

start_fault_function() {
	local before
	before=$(worker_incarnation "$1")
	launch_fault_function "$@"
	await_registered "$1" "$before"
}

start_submitter() {
	local name=$1
	shift
	fault_folder
	start "$name" "$REEVE_BIN/fault-submitter" --managers "$REEVE_MANAGER" --ledger "$LEDGERS" --name "$name" "$@"
}

# The time is exact: everything that a test has seen before the call happened before this time.
now_us() {
	"$REEVE_BIN/ledger-clock"
}

submit_script() {
	local name=$1 details=$2 type=fault-exec id
	shift 2
	if [ "${1:-}" = --type ]; then type=$2 && shift 2; fi
	fault_folder
	printf '{"ev":"submit","name":"%s","t":%s}\n' "$name" "$(now_us)" >>"$LEDGERS/test.submit"
	id=$(reeve submit "$type" "$name $details" "$@")
	printf '{"ev":"ack","name":"%s","id":%s,"existing":false,"t":%s}\n' "$name" "$id" "$(now_us)" >>"$LEDGERS/test.submit"
	echo "$id"
}

ledger() {
	cat "$LEDGERS"/*.handler 2>/dev/null | jq -rs --argjson id "$1" --arg event "$2" --argjson n "${3:-0}" '
		[.[] | select(.task == $id)] | (map(select(.ev == "start")) | sort_by(.t) | map(.token)) as $tokens
		| sort_by(.t)[] | select(.ev == $event and ($n == 0 or .token == $tokens[$n - 1])) | .t'
}

begun() {
	[ "$(ledger "$1" start | wc -l)" -ge "${2:-1}" ]
}

all_ended() {
	[ "$(sql "$(cat "$TOP/tests/faults/unended.sql")")" = 0 ]
}

check_faults() {
	local status=0
	"$TOP/tests/faults/check" --database "$CONNINFO" --ledgers "$LEDGERS" "$@" || status=$?
	[ $status = 0 ] || fail "the checker ended with $status"
}
