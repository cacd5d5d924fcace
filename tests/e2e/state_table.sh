#!/usr/bin/env bash
# Compares the table of states with the SQL: every event of a task in every state, and two connections that compete for
# a row.
# quick
. "$(dirname "$0")/lib.sh"
HISTORY_DAYS=30

try() { # PART
	start_postgres
	start_manager # sets the database up
	stop manager
	# The planner considers each partition of the history in most of the statements: with few of them these take half the time.
	sql "do \$\$ declare name text; begin
			for name in select inhrelid::regclass from pg_inherits where inhparent = 'task_history'::regclass
					and inhrelid::regclass::text ~ '[0-9]{8}\$'
					and to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') - (now() at time zone 'UTC')::date not between 30 and 32 loop
				execute 'drop table ' || name;
			end loop;
		end \$\$"
	expect_eq 4 "$(sql "select count(*) from pg_inherits where inhparent = 'task_history'::regclass")" 'partitions, with the default one'
	sql "alter table reeve.count_changes add check (count <> 0 or live <> 0 or retrying <> 0)" # nobody adds a row that says nothing
	sql "create view public.miscounted as $(cat "$TOP/tests/faults/live_counts.sql"); grant select on public.miscounted to public"
	expect "$REEVE_BIN/state-table" "$CONNINFO" "$1"
}

test_every_event_in_every_state() {
	try pairs
}

# All SQL that sets a status is among what state-table runs, or is called by it.
test_every_statement_that_sets_a_status_is_compared() {
	local check="$TOP/tests/tools/status_sql.py"
	expect "$check"
	mkdir -p "$DIR/tree/sql/functions" "$DIR/tree/sql/statements"
	echo "update tasks set status = 'failed' where id = any(\$1)" >"$DIR/tree/sql/statements/claim.sql"
	expect_eq '1 set a status' "$("$check" "$DIR/tree")"
	echo "select revive(\$1)" >"$DIR/tree/sql/statements/tasks_revive.sql"
	echo "… update tasks t set priority = 1, status = 'queued' where …" >"$DIR/tree/sql/functions/revive.sql"
	expect_fail 1 "$check" "$DIR/tree"
	expect_eq $'2 set a status\nfunctions/revive' "$OUTPUT"
}

test_two_connections_after_the_same_row() {
	try locks
}

test_two_connections_after_the_same_batch_or_queue() {
	try batches
}

run_tests
