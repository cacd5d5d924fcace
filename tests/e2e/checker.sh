#!/usr/bin/env bash
# The checker of the fault tests: it finds nothing in a run where all went well, and each violation that is put there.
# shellcheck disable=SC1091,SC2016,SC2034
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/faults/faults.bash"

story_nothing_is_found_where_all_went_well() {
	start_postgres
	start_manager one
	start_manager two
	export REEVE_MANAGER=${URL[one]},${URL[two]}
	start_fault_exec e1 --concurrency 4
	start_fault_function f1 --concurrency 8 --prefetch 4
	start_submitter s1 --count 150 --rate 60 --seed 7
	wait_until 10 '[ "$(cat "$LEDGERS"/*.handler | grep -c start)" -ge 20 ]'
	check_faults --running --one-clock
	ended s1 60
	wait_until 60 all_ended
	check_faults --one-clock
}

run_stories
