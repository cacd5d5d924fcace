#!/usr/bin/env bash
# Two minutes of random faults under steady load (tests/faults/run): no task is lost, created twice or held twice, and
# everything else has recovered within a lease and two seconds. Longer runs, with other seeds, are manual.
# timeout 1200
# alone
. "$(dirname "$0")/lib.sh"

test_two_minutes_of_faults_at_random() {
	local status=0 kept=${REEVE_BIN%/bin}/results/storm-run
	"$TOP/tests/faults/run" --seed 1 --minutes 2 --keep "$DIR/run" || status=$?
	rm -rf "$kept"
	[ $status = 0 ] || {
		cp -a "$DIR/run" "$kept" # with its ledgers and its database
		fail "exit code $status; all of it is kept in $kept"
	}
}

run_tests
