#!/usr/bin/env bash
# A forgotten transaction keeps every dead row in the tables, and PostgreSQL reads these rows in each scan that meets
# them: finding and claiming tasks must not become slower with their number.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ledger.bash"
. "$(dirname "$0")/locks.bash"

COUNT=50000

# Prints the CPU time, in ticks, that PostgreSQL has spent on finding, claiming and completing tasks. Elapsed time would
# include other work of the machine.
spent() {
	local pid total=0 stat
	for pid in $(sql "select pid from pg_stat_activity where application_name ~ '^reeve-manager (window|claim|report)$'"); do
		stat=$(cat "/proc/$pid/stat")
		read -ra stat <<<"${stat##*) }"
		total=$((total + stat[11] + stat[12]))
	done
	echo $total
}

test_a_forgotten_transaction_slows_nothing_down() {
	LEDGER=$DIR/ledger
	start_postgres
	start_manager submits
	start_manager claims # and finds all that it claims in the tables
	REEVE_MANAGER=${URL[submits]}
	ledger_tasks 1 100 | reeve submit --bulk - >/dev/null
	hold forgotten 'set transaction isolation level repeatable read; select count(*) from tasks'
	for name in a b; do
		REEVE_MANAGER=${URL[claims]} start_ledger $name --concurrency 8 --prefetch 50
	done
	wait_until 20 'begun 100'
	ledger_tasks 101 $COUNT >"$DIR/tasks"
	start submit "$REEVE_BIN/reeve" submit --bulk "$DIR/tasks"
	at_first=$(spent)
	wait_until 120 "begun $((COUNT / 2))"
	in_between=$(spent)
	wait_until 120 "begun $COUNT"
	await_history 60 $COUNT
	at_last=$(spent)
	expect_eq 1 "$(sql "select count(*) from pg_stat_activity
		where application_name = 'hold-forgotten' and backend_xmin is not null")" 'the forgotten transaction'
	expect_each_once $COUNT
	expect_eq t "$(sql "select n_dead_tup > $COUNT from pg_stat_user_tables where relname = 'tasks'")" 'dead rows are there'
	note "ticks: the first half $((in_between - at_first)), the second $((at_last - in_between))"
	[ $((2 * (at_last - in_between))) -le $((3 * (in_between - at_first))) ] ||
		fail "the first half took $((in_between - at_first)) ticks, the second $((at_last - in_between))"
	let_go forgotten
}

run_tests
