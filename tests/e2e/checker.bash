# shellcheck shell=bash
# Helpers for tests of the checker (tests/faults/check): . "$TOP/tests/e2e/checker.bash". The suite makes a
# run without violations. Each test copies the run, inserts a violation, and expects the checker to report it.
#
#	start_fleet                  starts a database, two managers, programs and functions, for the run
#	start_batches                starts a receiver of callbacks, and the submitter b, which opens batches
#	end_run [WORKER…]            waits until the submitters s and b and all tasks have ended, and stops the programs and
#	                             these workers
#	copy                         copies the run: $COPY is the copy's database, $LEDGERS the folder of its ledgers
#	change STATEMENT             changes the copy's database
#	line KIND LINE, edit SED     appends a line to the copy's ledger of that kind; edits all its ledgers
#	some 'NAMES…' QUERY          sets variables from one row of the run
#	check [OPTION…]              runs the checker on the copy; sets $OUTPUT and $CODE
#	expect_nothing_found         expects no violation in a copy of the run, and none while it ran
#	expect_found KIND REGEX [and others]   expects the checker to have reported such a violation

. "$TOP/tests/faults/faults.bash"
CHECK=$TOP/tests/faults/check
UNHURRIED=(--lease 15s --heartbeat 400ms --expiry-grace 20s --fetch-wait 300ms) # so long that a busy machine ends no lease

start_fleet() {
	start_postgres
	start_manager one "${UNHURRIED[@]}"
	start_manager two "${UNHURRIED[@]}"
	export REEVE_MANAGER=${URL[one]},${URL[two]}
	start_fault_exec programs --concurrency 4
	start_fault_function functions --concurrency 8 --prefetch 4
}

start_batches() {
	port=$(free_port)
	start receiver python3 "$TOP/tests/tools/http_receiver.py" --port "$port" --log "$LEDGERS/http.received"
	wait_until 20 "curl -s -o /dev/null -d '{}' http://127.0.0.1:$port/status/200"
	: >"$LEDGERS/http.received"
	start_submitter b --count 40 --rate 100 --seed 3 --cancel 5 --batches 100 --callback "http://127.0.0.1:$port/fail/1" \
		--mix short=10,recover=2,fail=2
}

end_run() { # [WORKER…]
	"$CHECK" --database "$CONNINFO" --ledgers "$LEDGERS" --running --one-clock >"$DIR/while" 2>&1 || true
	ended s 60
	ended b 60
	wait_until 60 all_ended
	for name in programs functions "$@" one two; do
		stop $name
		expect_eq 0 "$STATUS" "exit code of $name"
	done
}

# Copies the run: $COPY is the copy's database, $LEDGERS the folder of its ledgers.
COPIES=0
copy() {
	COPY=copy$((++COPIES))_$TEST_NUMBER
	sql_let_go
	in_database postgres "create database $COPY template reeve"
	rm -rf "$DIR/ledgers"
	cp -r "$SUITE_DIR/ledgers" "$DIR/ledgers"
	LEDGERS=$DIR/ledgers
}

in_database() { # NAME STATEMENT
	PGOPTIONS='-c search_path=reeve,public' "$REEVE_TEST_PG_BIN/psql" -XAtq -F ' ' -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d "$1" -c "$2"
}

change() { # STATEMENT…: changes something in the copy, where tasks are counted as they are then
	in_database "$COPY" "$1" >/dev/null
	in_database "$COPY" 'select counts_recount()' >/dev/null
}

line() { # KIND LINE
	printf '%s\n' "$2" >>"$LEDGERS/programs.$1"
}

check() { # [OPTION…]
	OUTPUT=$("$CHECK" --database "host=$PGDIR user=reeve dbname=$COPY" --ledgers "$LEDGERS" --all "$@" 2>&1) && CODE=0 || CODE=$?
}

expect_nothing_found() {
	expect_match ' 0 violations$' "$(cat "$SUITE_DIR/while")" 'while it ran'
	copy
	check --one-clock
	expect_match '^[0-9]+ tasks, [0-9]+ attempts, 0 violations$' "$OUTPUT"
	expect_eq 0 "$CODE"
}

# Expects a violation of KIND whose line matches REGEX and, without `and others`, no other violation.
expect_found() { # KIND REGEX [and others]
	[ "$CODE" = 1 ] || fail "exit code $CODE; it said: $OUTPUT"
	grep -qE "^$1: .*($2)" <<<"$OUTPUT" || fail "no '$1: …$2' in: $OUTPUT"
	[ -n "${3:-}" ] || expect_match ', 1 violations$' "$OUTPUT" "it found more than it should have"
}

# Sets the variables NAMES (`id`, `name`, `token` and so on) from the first row of QUERY; fails if there is none.
some() { # 'NAMES…' QUERY
	local row
	row=$(in_database reeve "$2 limit 1")
	[ -n "$row" ] || fail "the run has no such thing: $2"
	# shellcheck disable=SC2229
	read -r $1 <<<"$row"
}

TOKEN='(extract(epoch from token) * 1000000)::bigint'
NAME="split_part(details, ' ', 1)"

time_of() { # ID TOKEN EVENT: when the ledger says that it was, the last of such lines
	sed -n "s/.*\"ev\":\"$3\",\"task\":$1,\"token\":$2,.*\"t\":\([0-9]*\).*/\1/p" "$LEDGERS"/*.handler | tail -n 1
}

edit() { # SED-SCRIPT: of all ledgers
	sed -i "$1" "$LEDGERS"/*.handler "$LEDGERS"/*.submit
}
