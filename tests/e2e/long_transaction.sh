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
	# shellcheck disable=SC2046
	ticks_of $(sql "select pid from pg_stat_activity where application_name ~ '^reeve-manager (ready|claim|report)$'")
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

# Very many dead rows at the beginning of a queue are as if, for the session that looks for tasks, each of its rows took longer
# than a statement may. A manager that starts then finds the others.
test_a_queue_that_cannot_be_read_in_time_delays_no_other() {
	local slow other
	start_postgres
	start_manager
	slow=$(reeve submit sh 'exit 0' --queue slow)
	other=$(reeve submit sh 'exit 0' --queue other)
	stop manager
	sql "alter table tasks enable row level security, force row level security;
		create policy slow on tasks using (case when queue = 'slow' and current_setting('application_name') = 'reeve-manager ready'
			then (select true from pg_sleep(6)) else true end) with check (true)"
	start_manager
	start_worker
	reeve wait "$other" --max-wait 60s >/dev/null
	expect_eq queued "$(sql "select status from all_tasks where id = $slow")"
	# Later tasks of this queue do not wait for it, either.
	reeve wait "$(reeve submit sh 'exit 0' --queue slow)" --max-wait 60s >/dev/null
	expect_eq queued "$(sql "select status from all_tasks where id = $slow")"
	sql "drop policy slow on tasks; alter table tasks disable row level security, no force row level security"
	reeve wait "$slow" --max-wait 60s >/dev/null
}

run_tests
