#!/usr/bin/env bash
# A manager frozen within a transaction: the others go on, and what it locked is let go.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/pace.bash"

# Prints the process ids of sessions of frozen managers, in that role, that stand still within a transaction and
# have locked something.
in_transaction() { # [ROLE]
	sql "select pid from pg_stat_activity where application_name like 'reeve-manager ${1:-%}' and state like 'idle in transaction%'
		and backend_xid is not null and state_change < clock_timestamp() - interval '100 ms'"
}

# Freezes a manager within a transaction of ROLE (any unless it is given), in up to 100 tries. Sets $FROZEN to the time
# in ms, ${HOLDERS[@]} to the sessions, and $LOGGED to the lines of PostgreSQL's log until then.
freeze() { # NAME [ROLE]
	local tries
	for tries in $(seq 1 100); do
		LOGGED=$(wc -l <"$DIR/log/postgres.log")
		FROZEN=$(ms)
		signal "$1" STOP
		sleep 0.2
		mapfile -t HOLDERS < <(in_transaction "${2:-%}")
		[ ${#HOLDERS[@]} = 0 ] || return 0
		signal "$1" CONT
		sleep 0.0$((RANDOM % 10))
	done
	fail "$1 was never within a transaction"
}

# The same, until a submit of another manager has met what that one locked: it may have frozen before it locked a batch.
freeze_in_the_way() { # NAME
	local tries
	for tries in $(seq 1 20); do
		freeze "$1" submit
		while [ $(($(ms) - FROZEN)) -lt 1200 ]; do
			[ "$(waits_of submit "${HOLDERS[@]}")" = 0 ] || return 0
			sleep 0.1
		done
		signal "$1" CONT
		sleep 0.1
	done
	fail "no submit met what $1 had locked"
}

# Expects that tasks of these callers are submitted and end while the locks are there. Then waits until two seconds have
# passed since the freeze: retries would wait for the locks again.
expect_others_go_on() { # NAME…
	expect_they_go_on 2 "$FROZEN" "$@"
	expect_eq ${#HOLDERS[@]} "$(in_transaction | grep -cxF "$(printf '%s\n' "${HOLDERS[@]}")")" 'sessions of the frozen manager'
	while [ $(($(ms) - FROZEN)) -lt 2000 ]; do sleep 0.1; done
}

# The frozen manager locks a batch, which concerns submits into it. It does not affect tasks of another queue, in a batch
# or not. Its locks stay for 5 s, a quarter of the lease.
# measures time
test_a_manager_freezes_within_a_transaction_and_the_others_go_on() {
	local round batch
	local long=(--lease 20s --heartbeat 2s --expiry-grace 25s)
	start_postgres "${LOCK_LOG[@]}"
	start_manager one "${long[@]}"
	# With its database 10 ms away a manager is within a transaction for much of its time.
	start_proxy away postgres
	tell away delay up 5
	tell away delay down 5
	start_manager two --database "${PROXY[away]}" "${long[@]}"
	REEVE_MANAGER=${URL[one]}
	start_worker worker --concurrency 8
	start_calls plain plain
	batch=$(reeve batch open beside --queue beside)
	start_calls beside beside "$batch"
	batch=$(reeve batch open both --queue grouped)
	start_calls mixed grouped "$batch"
	REEVE_MANAGER=${URL[two]} start_calls grouped grouped "$batch"
	started plain mixed beside grouped
	for round in 1 2; do
		freeze_in_the_way two
		expect_others_go_on plain beside
		# A submit with others, then each alone, then in a role of its own; results wait once, and are careful then.
		expect_lock_waits submit 1 6 "${HOLDERS[@]}"
		expect_lock_waits report 0 3 "${HOLDERS[@]}"
		expect_lock_waits claim 0 1 "${HOLDERS[@]}"
		signal two CONT
		wait_until 20 "[ \$(ended_since mixed $FROZEN) -ge 2 ] && [ \$(ended_since grouped $FROZEN) -ge 2 ]"
	done
	# The work that it was about to do is done, once.
	stop_calls plain mixed beside grouped
	wait_until 30 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_eq "$(awk '$3 == "submit" { print $4 }' "$DIR"/log/{plain,mixed,beside,grouped}.log | sort -u | wc -l)" "$(sql 'select count(*) from task_history')"
	expect_eq "$(sql "select count(*) from task_history where batch_id is not null")" "$(sql 'select sum(submitted) from batches')"
	expect_eq 0 "$(sql 'select sum(pending) from batches')"
}

# A manager edits 1,000 waiting tasks again and again, and freezes with them locked; claims of the other manager meet
# the locks. Tasks of another queue go on, and each task of this queue runs once in the end.
# measures time
test_a_manager_freezes_within_an_edit_and_the_others_claims_go_on() {
	local round ended
	local long=(--lease 20s --heartbeat 2s --expiry-grace 25s)
	start_postgres "${LOCK_LOG[@]}"
	start_manager two "${long[@]}"
	start_manager one "${long[@]}"
	for n in $(seq 1000); do echo '{}'; done | reeve submit --bulk - nothing --queue edited >/dev/null
	reeve queue pause edited >/dev/null
	start_worker claims --concurrency 1 --queue edited
	start_worker worker --concurrency 8 --queue plain
	start_calls plain plain
	start edits bash -c "until [ -e '$DIR/no-more' ]; do '$REEVE_BIN/reeve' update --where queue=edited --priority \$((RANDOM % 9)) --manager '${URL[two]}' || sleep 0.1; done"
	wait_until 20 'grep -q "^1000 tasks" "$DIR/log/edits.log"'
	started plain
	for round in 1 2; do
		freeze two edit
		[ $round != 1 ] || reeve queue resume edited >/dev/null
		expect_others_go_on plain
		expect_lock_waits claim 0 3 "${HOLDERS[@]}"
		signal two CONT
		ended=$(sql "select count(*) from task_history where queue = 'edited'")
		[ "$ended" -lt 1000 ] || fail 'all edited tasks have ended'
		wait_until 20 "[ \"\$(sql \"select count(*) from task_history where queue = 'edited'\")\" -gt $ended ]"
	done
	touch "$DIR/no-more"
	ended edits
	stop_calls plain
	expect_eq '1000|1' "$(sql "select count(*), max(attempt) from all_tasks where queue = 'edited'")"
}

# A quarter of this lease, 3 s, lies between the minimum (1 s) and the maximum (5 s) of the limit for idle transactions.
# PostgreSQL says how long that was.
test_what_a_frozen_manager_locked_is_let_go_after_a_quarter_of_its_lease() {
	local since=$DIR/since ended took
	start_postgres
	start_manager manager --lease 12s --heartbeat 3s --expiry-grace 15s
	reeve queue set grouped --batches yes >/dev/null
	start_worker worker --concurrency 8
	for name in grouped1 grouped2 grouped3; do start_calls $name grouped; done
	started grouped1 grouped2 grouped3
	freeze manager
	sql "select extract(epoch from state_change) from pg_stat_activity where pid = ${HOLDERS[0]}" >"$since"
	wait_until 20 '[ -z "$(in_transaction)" ]'
	signal manager CONT
	ended=$(sed -n "s/^\([0-9: .-]*\) UTC \[${HOLDERS[0]}\] .*terminating connection due to idle-in-transaction timeout/\1/p" "$DIR/log/postgres.log")
	took=$(awk -v since="$(cat "$since")" -v ended="$(date -ud "$ended" +%s.%N)" 'BEGIN { print int(1000 * (ended - since)) }')
	expect_at_most 3500 "$took" 'the frozen manager kept its locks'
	expect [ "$took" -ge 2900 ]
	stop_calls grouped1 grouped2 grouped3
}

run_tests
