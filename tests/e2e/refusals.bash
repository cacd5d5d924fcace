# shellcheck shell=bash
# Refused commands, for the end-to-end tests that source this file after tasks.bash.

rows() {
	sql 'select (select count(*) from tasks), (select count(*) from task_history), (select count(*) from task_attempts),
		(select count(*) from task_events), (select count(*) from requests), (select count(*) from keys),
		(select count(*) from routes), (select count(*) from worker_commands)'
}

# Runs a command that must exit with CODE, print a match of REGEX, and leave no row.
refused() { # CODE REGEX COMMAND…
	local want=$1 regex=$2 before
	shift 2
	before=$(rows)
	expect_fail "$want" "$@"
	expect_match "$regex" "$OUTPUT" "what '$*' said"
	expect_eq "$before" "$(rows)" "rows after '$*'"
}
