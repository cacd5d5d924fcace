#!/usr/bin/env bash
# Two managers on one database that compete for the same rows: whatever both try, one succeeds, and the other goes on.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ledger.bash"

start_managers() { # one and two, with $ONE and $TWO their URLs
	start_postgres
	start_manager one
	start_manager two
	ONE=${URL[one]} TWO=${URL[two]}
}

test_each_task_is_claimed_once() {
	start_managers
	ledger_tasks 1 15000 >"$DIR/first"
	ledger_tasks 15001 30000 >"$DIR/second"
	REEVE_MANAGER=$ONE start submit-one "$REEVE_BIN/reeve" submit --bulk "$DIR/first"
	REEVE_MANAGER=$TWO start submit-two "$REEVE_BIN/reeve" submit --bulk "$DIR/second"
	ended submit-one 60
	expect_eq 0 "$STATUS"
	ended submit-two 60
	expect_eq 0 "$STATUS"
	expect_eq 30000 "$(sql 'select count(*) from tasks')"
	for name in a b c d; do
		case $name in a | b) REEVE_MANAGER=$ONE ;; *) REEVE_MANAGER=$TWO ;; esac
		start_ledger $name --concurrency 8 --prefetch 100
	done
	await_history 120 30000
	expect_each_once 30000
	expect_ended 30000
	expect_journal_closed
	expect_eq 0 "$(sql 'select count(*) from task_history where attempt <> 1')" 'attempted more than once'
	# What was claimed for a worker that had just left its manager is requeued at no cost.
	expect_eq 0 "$(sql "select count(*) from task_attempts where outcome <> 'requeued'")" 'attempts that did not end their task'
	expect_eq 0 "$(sql "select count(*) from task_events where event <> 'requeued'")" 'events out of the ordinary'
	expect_eq 4 "$(sql 'select count(distinct worker_id) from assignments')" 'workers that were given something'
	note "$(sql "select count(*) || ' claims won, on average ' || round(avg(cardinality(task_ids)), 1) from assignments")"
	# Claims touch no index. (Only claims update rows here; completions delete them.)
	for name in a b c d one two; do stop $name; done
	hot() { sql "select n_tup_upd, n_tup_hot_upd = n_tup_upd from pg_stat_user_tables where schemaname = 'reeve' and relname = 'tasks'"; }
	wait_until 20 '[ "$(hot)" = "30000|t" ]' # sessions that end add their numbers a bit later
}

# Each task ends once: completed after one run, or cancelled.
test_cancels_race_claims() {
	start_managers
	ledger_tasks 1 4000 10 >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" >"$DIR/ids"
	tail -n 3000 "$DIR/ids" | tac >"$DIR/backwards"
	tail -n 3000 "$DIR/ids" | shuf >"$DIR/shuffled"
	REEVE_MANAGER=$ONE start_ledger a --concurrency 8 --prefetch 8
	REEVE_MANAGER=$TWO start_ledger b --concurrency 8 --prefetch 8
	REEVE_MANAGER=$ONE start cancel-one xargs -a "$DIR/backwards" -n 100 "$REEVE_BIN/reeve" cancel
	REEVE_MANAGER=$TWO start cancel-two xargs -a "$DIR/shuffled" -n 50 "$REEVE_BIN/reeve" cancel
	for name in cancel-one cancel-two; do # 123: some had ended before
		ended $name 60
		expect_match '^(0|123)$' "$STATUS" "$name"
		expect_no_match 'reeve' "$(cat "$DIR/log/$name.log")" "$name"
	done
	await_history 60 4000
	expect_eq 0 "$(sql 'select count(*) from tasks')" 'tasks not ended'
	expect_eq '' "$(ledger_names | sort | uniq -d | head -n 5)" 'run more than once'
	expect_journal_closed
	awk '$1 != "done" { print $2 }' "$LEDGER" | sort >"$DIR/ran"
	sql 'select task_id from task_history where token is not null' | sort >"$DIR/given"
	sql "select task_id from task_history where status = 'completed'" | sort >"$DIR/completed"
	expect_eq '' "$(comm -23 "$DIR/ran" "$DIR/given" | head -n 5)" 'ran, but never given to anybody'
	expect_eq '' "$(comm -23 "$DIR/completed" "$DIR/ran" | head -n 5)" 'completed, but never ran'
	expect_eq 4000 "$(sql "select count(*) from task_history where status = 'completed' and token is not null
		or status = 'cancelled'")"
	expect_eq 0 "$(sql "select count(*) from task_history h where status = 'cancelled' and not exists (
		select from task_events e where e.task_id = h.task_id and e.event = 'cancel_requested')")" 'cancelled unasked'
	expect_eq 0 "$(sql "select count(*) from (select from task_events where event = 'cancel_requested'
		group by task_id having count(*) > 1) x")" 'cancels noted twice'
	expect_eq 0 "$(sql 'select count(*) from worker_commands o join tasks t on t.id = o.task_id')" 'commands of tasks that run'
}

test_a_retry_from_history_by_both_happens_once() {
	start_managers
	ledger_tasks 1 1000 >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" >"$DIR/ids"
	start_ledger a --concurrency 8
	await_history 60 1000
	stop a
	tac "$DIR/ids" >"$DIR/backwards"
	REEVE_MANAGER=$ONE start retry-one xargs -a "$DIR/ids" -n 500 "$REEVE_BIN/reeve" retry
	REEVE_MANAGER=$TWO start retry-two xargs -a "$DIR/backwards" -n 200 "$REEVE_BIN/reeve" retry
	ended retry-one 60
	expect_eq 0 "$STATUS"
	ended retry-two 60
	expect_eq 0 "$STATUS"
	expect_eq 'queued|0|1000' "$(sql 'select status, attempt, count(*) from tasks group by 1, 2')"
	expect_eq 0 "$(sql 'select count(*) from task_history')"
	REEVE_MANAGER=$ONE start_ledger b --concurrency 8
	REEVE_MANAGER=$TWO start_ledger c --concurrency 8
	await_history 60 1000
	expect_eq 1000 "$(sort -u "$DIR/ids" | wc -l)"
	expect_eq '2 1000' "$(ledger_names | sort | uniq -c | awk '{ n[$1]++ } END { for (i in n) print i, n[i] }')" \
		'how often how many have run'
	expect_ended 1000
	expect_journal_closed
}

run_tests
