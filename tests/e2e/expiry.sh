#!/usr/bin/env bash
# Timeouts and expiries: handlers that run too long, and attempts whose worker has died or is frozen.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

SHORT_LEASES=(--lease 4s --heartbeat 400ms --expiry-grace 5s --fetch-wait 300ms)

begin() { # [WORKER'S OPTION…]
	start_postgres
	start_manager "${SHORT_LEASES[@]}"
	start_worker worker "$@"
}

gone() { # FILE of process ids
	local p
	while read -r p; do
		[ -z "$(birth "$p")" ] || return 1
	done <"$1"
}

# Runs a script that does not end, with the first timeout in which it writes that many process ids: a busy machine needs a
# longer one. Sets id and timeout.
time_out() { # PIDS SCRIPT
	for timeout in 500 5000 30000; do
		rm -f "$DIR/pids"
		id=$(reeve submit sh "$2" --timeout "${timeout}ms" --max-attempts 1)
		expect_fail 1 reeve wait "$id"
		expect_eq 'dead timeout' "$(field "$id" status) $(field "$id" error_code)"
		[ "$(cat "$DIR/pids" | wc -l)" != "$1" ] || return 0
	done
	fail "not $1 process ids: $(xargs <"$DIR/pids")"
}

test_a_timeout_ends_the_handler_and_its_grandchildren() {
	begin
	time_out 4 "echo started >&2
		bash -c 'sleep 1000 & echo \$! >>$DIR/pids; echo \$\$ >>$DIR/pids; wait' &
		echo \$\$ >>$DIR/pids; sleep 1000 & echo \$! >>$DIR/pids; wait"
	expect_match "$timeout ms: started" "$(field "$id" last_error)"
	wait_until 20 'gone "$DIR/pids"'
	expect_eq t "$(sql "select last_updated - token >= '${timeout}ms' from task_history where task_id = $id")"
}

test_one_that_ignores_the_polite_signal_is_killed() {
	begin --kill-grace 500ms
	time_out 2 "trap '' TERM
		bash -c 'echo \$\$ >>$DIR/pids; sleep 1000; sleep 1000' & echo \$\$ >>$DIR/pids; while :; do sleep 0.1; done"
	wait_until 20 'gone "$DIR/pids"'
}

test_a_handler_leaves_no_children_behind() {
	begin
	id=$(reeve submit sh "sleep 1000 & echo \$! >$DIR/pids; sleep 1001 >/dev/null 2>&1 & echo \$! >>$DIR/pids; printf done")
	expect_eq "done" "$(reeve wait "$id" --json | jq -r .result)"
	wait_until 20 'gone "$DIR/pids"'
}

test_a_timed_out_task_is_retried() {
	begin
	id=$(reeve submit sh '[ $REEVE_ATTEMPT -ge 3 ] || sleep 1000; printf third' --timeout 300ms --retry-base 10ms --max-attempts 30)
	expect_eq third "$(reeve wait "$id" --json | jq -r .result)"
	# A busy machine does not end every further attempt within the timeout.
	expect_match '^submitted claimed failed claimed failed (claimed failed )*claimed completed$' "$(events "$id")"
}

test_a_handlers_own_timeout_counts_if_it_is_shorter() {
	handlers <<-END
		[handler sh]
		exec = /bin/bash
		timeout = 300ms
	END
	begin
	id=$(reeve submit sh 'sleep 1000' --timeout 1h --max-attempts 1)
	expect_fail 1 reeve wait "$id"
	expect_match '300 ms' "$(field "$id" last_error)"
}

# The lease is renewed while a handler runs, however much longer it takes; nothing is reclaimed from a live worker.
test_a_long_task_of_a_living_worker_is_left_alone() {
	begin --concurrency 2
	long=$(reeve submit sh 'sleep 6; printf long' --timeout 30s)
	other=$(reeve submit sh 'sleep 5; printf other' --timeout 30s)
	reeve wait "$long" "$other" >/dev/null
	expect_eq 'submitted claimed completed' "$(events "$long")"
	expect_eq 'submitted claimed completed' "$(events "$other")"
}

test_a_killed_workers_task_is_run_by_another() {
	begin
	id=$(reeve submit sh "echo \$\$ >>$DIR/pids; $HOLD" --timeout 5s)
	wait_began "$id"
	expect_eq worker "$(field "$id" worker)"
	kill_worker
	wait_until 20 'gone "$DIR/pids"' # its handlers do not outlive it
	release
	start_worker other
	reeve wait "$id" --max-wait 30s
	last_seen=$(sql "select time_text(hb_at) from workers where name = 'worker'") # it stays
	expect_eq 'completed 2 other' "$(field "$id" status) $(field "$id" attempt) $(field "$id" worker)"
	expect_eq 'attempt 2' "$(field "$id" result)"
	expect_eq 'submitted claimed lost reclaimed claimed completed' "$(events "$id")"
	expect_eq 'worker other' "$(event_field "$id" claimed worker | xargs)"
	expect_eq worker "$(event_field "$id" lost worker)"
	expect_eq "lost; last heartbeat of worker worker at $last_seen" "$(event_field "$id" reclaimed note)"
	expect_eq t "$(sql "select gone_at - hb_at between '4s' and '10s' from workers where name = 'worker'")"
	expect_eq 0 "$(sql 'select count(*) from assignments where closed_at is null')"
	expect_match 'worker +(late|gone)' "$(reeve worker list --all)"
}

test_attempts_lost_with_their_worker_are_used_up_too() {
	begin
	id=$(reeve submit sh "$HOLD" --timeout 5s --max-attempts 1)
	wait_began "$id"
	kill_worker
	start_worker other
	expect_fail 1 reeve wait "$id" --max-wait 30s
	expect_eq 'dead lost 1' "$(field "$id" status) $(field "$id" error_code) $(field "$id" attempt)"
	expect_match 'claimed .*dead|claimed dead' "$(events "$id")"
	expect_match 'last heartbeat of worker worker' "$(event_field "$id" reclaimed note)"
	expect_eq 0 "$(sql 'select count(*) from assignments where closed_at is null')"
}

# A worker ends its handlers in time; the test sets the expiry as if the worker's clock were wrong.
test_an_attempt_past_its_expiry_is_requeued_from_a_living_worker() {
	begin --concurrency 1
	id=$(reeve submit sh "[ \$REEVE_ATTEMPT = 2 ] || { touch $DIR/began.\$REEVE_TASK_ID.1
		until [ -e $DIR/end_first ]; do sleep 0.05; done; printf first; exit 0; }; printf second" --timeout 20s)
	wait_began "$id"
	sql "update tasks set expiry = clock_timestamp() - interval '1 minute' where id = $id;
		update assignments set next_expiry = clock_timestamp() - interval '1 minute' where closed_at is null" >/dev/null
	wait_until 10 "[ \"\$(events $id)\" = 'submitted claimed expired reclaimed' ]"
	expect_match '^expired; last heartbeat of worker worker' "$(event_field "$id" reclaimed note)"
	touch "$DIR/end_first"
	reeve wait "$id" --max-wait 30s >/dev/null
	expect_eq second "$(field "$id" result)"
	expect_match 'late_result' "$(events "$id")"
}

# The clock may have jumped, so a manager that starts cannot know how long the attempts that it finds have been running.
test_a_manager_that_starts_watches_attempts_for_their_whole_time() {
	begin --concurrency 2
	id=$(reeve submit sh "$HOLD" --timeout 2s --max-attempts 3)
	wait_began "$id"
	stop manager
	sql "update tasks set expiry = clock_timestamp() - interval '1 minute', timeout_ms = 2000 where id = $id;
		update assignments set next_expiry = clock_timestamp() - interval '1 minute' where closed_at is null" >/dev/null
	start_manager "${SHORT_LEASES[@]}"
	wait_until 20 "events $id | grep -qE 'expired|failed'"
	expect_eq t "$(sql "select last_updated - token >= '2s' from task_attempts where task_id = $id order by token limit 1")"
	release
}

# The complete case: a worker freezes, and its handler succeeds; the attempt is reclaimed and another worker runs the
# task; then the first worker resumes and reports. Its completion is refused, whatever the second one does at that
# moment.
test_a_late_completion_changes_nothing() {
	begin --concurrency 1 # nothing more is given to it while it stands still
	id=$(reeve submit sh "[ \$REEVE_ATTEMPT = 2 ] || { touch $DIR/began.\$REEVE_TASK_ID.1
		until [ -e $DIR/end_first ]; do sleep 0.05; done; touch $DIR/ended; printf first; exit 0; }; $HOLD" --timeout 60s)
	wait_began "$id"
	signal worker STOP
	touch "$DIR/end_first"
	wait_until 10 '[ -e "$DIR/ended" ]'
	start_worker other
	wait_until 30 "[ \"\$(sql \"select attempt, status from tasks where id = $id\")\" = '2|executing' ]"
	reeve update "$id" --max-attempts 2 >/dev/null # so that an expiry of the second would be seen
	before=$(reeve show "$id" --json)
	signal worker CONT
	wait_event 30 "$id" late_result
	expect_eq "$before" "$(reeve show "$id" --json)"
	expect_eq worker "$(event_field "$id" late_result worker)"
	expect_eq "$(event_field "$id" claimed token | head -n 1)" "$(event_field "$id" late_result token)"
	expect_match '(lost|expired).* late_result' "$(events "$id")"
	release
	reeve wait "$id"
	expect_eq 'completed 2 other attempt 2' "$(field "$id" status) $(field "$id" attempt) $(field "$id" worker) $(field "$id" result)"
	expect_eq 1 "$(events "$id" | grep -o late_result | wc -l)"
	expect_eq 1 "$(sql "select count(*) from task_history where task_id = $id")"
	expect_eq 0 "$(sql 'select count(*) from assignments where closed_at is null')"
}

test_a_late_completion_after_the_end_changes_nothing_either() {
	begin --concurrency 1 # nothing more is given to it while it stands still
	id=$(reeve submit sh "[ \$REEVE_ATTEMPT = 2 ] && printf second && exit; touch $DIR/began.\$REEVE_TASK_ID.1
		until [ -e $DIR/end_first ]; do sleep 0.05; done; touch $DIR/ended; printf first" --timeout 60s)
	wait_began "$id"
	signal worker STOP
	touch "$DIR/end_first"
	wait_until 10 '[ -e "$DIR/ended" ]'
	start_worker other
	reeve wait "$id" --max-wait 30s
	before=$(reeve show "$id" --json)
	signal worker CONT
	wait_event 30 "$id" late_result
	expect_eq "$before" "$(reeve show "$id" --json)"
	expect_eq second "$(field "$id" result)"
	expect_match ' completed late_result$' "$(events "$id")"
	expect_eq "$(events "$id")" "$(reeve audit --json | jq -sr "[.[] | select(.task_id == $id).event] | join(\" \")")" 'among those of all'
	# The worker still runs tasks.
	stop other
	reeve submit nothing --wait
}

# A worker is frozen until another one runs its task. When it resumes, its handler is stopped, or its result is refused.
test_two_workers_never_both_complete_a_task() {
	begin --concurrency 1 # nothing more is given to it while it stands still
	id=$(reeve submit sh "echo \$REEVE_ATTEMPT \$REEVE_TOKEN >>$DIR/runs; $HOLD; echo \$REEVE_ATTEMPT >>$DIR/ends" --timeout 60s \
		--retry-base 10ms)
	wait_began "$id"
	signal worker STOP
	start_worker other
	wait_began "$id" 2
	signal worker CONT
	wait_until 20 "events $id | grep -q 'late_result' || [ \"\$(sql \"select count(*) from workers\")\" -gt 2 ] ||
		[ \"\$(sql \"select hb_at > clock_timestamp() - interval '300ms' from workers where name = 'worker'\")\" = t ]"
	release
	reeve wait "$id" --max-wait 30s
	winner=$(event_field "$id" completed token)
	expect_eq 1 "$(event_field "$id" completed token | wc -l)"
	expect [ -n "$winner" ]
	expect_eq "attempt $(field "$id" attempt)" "$(field "$id" result)"
}

run_tests
