#!/usr/bin/env bash
# Managers at their limits: they log and count the calls that they refuse, and the error names the limit.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

counter() { # NAME
	reeve stats --json | jq ".counters[] | select(.name == \"$1\").value"
}

refused_calls() {
	counter calls_refused
}

refusals_said() { # REGEX: how many lines of the log tell of one
	grep -c "warn .*refusing a call (logged at most every 10 s): $1" "$DIR/log/manager.log" || true
}

answers_to() { # NAME of a overload.py: how many it has received
	awk '{ n += $1 } END { print n + 0 }' "$DIR/log/$1.log"
}

# Waits take all calls, and many more are refused: the log has one line, and the counter has all of them. Each connection
# may have two in addition.
test_calls_over_the_limit_are_logged_and_counted() {
	start_postgres
	start_manager --max-calls 100 --connection-share 100
	expect_eq 0 "$(refused_calls)"
	id=$(reeve submit nothing --delay 1h)
	start flood python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" waits 400 "$id"
	# Without a call of ours before all are answered: it would have one of the 100 places, and leave it free.
	wait_until 20 '[ "$(answers_to flood)" -ge 298 ]'
	expect [ "$(refused_calls)" -ge 298 ]
	expect_eq 1 "$(refusals_said '100 calls are open, the maximum (--max-calls)')"
	wait_until 20 '[ "$(reeve metric list manager --json | jq "select(.name | endswith(\"/calls_refused\")).value >= 298")" = true ]'
	reeve submit nothing >/dev/null
}

test_a_backlog_over_the_limit_is_logged_and_counted() {
	start_postgres
	start_manager --max-pending 1MiB --max-details 2MiB
	expect_fail 3 reeve submit nothing - < <(head -c 1500000 /dev/zero | tr '\0' x)
	expect_match 'waiting for the database .--max-pending' "$OUTPUT"
	expect [ "$(refusals_said 'too much is waiting for the database (--max-pending)')" -ge 1 ]
	expect [ "$(refused_calls)" -ge 5 ]
}

# One connection's submits exceed its share of what may wait for the database: its calls are refused with that reason,
# and another connection is served.
test_a_backlog_over_a_connections_share_is_logged_and_counted() {
	local share='too much of one connection is waiting for the database (--connection-share of --max-pending)'
	start_postgres
	start_manager --max-pending 16MiB
	reeve submit nothing --queue flood --delay 1h >/dev/null
	start flood python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" submits 30 10000
	wait_until 20 "grep -qF '$share' '$DIR/log/flood.log'"
	expect_eq 0 "$(grep -c 'database (--max-pending)' "$DIR/log/flood.log")" 'refused for want of room for all'
	expect [ "$(refusals_said "$share")" -ge 1 ]
	expect [ "$(refused_calls)" -ge 1 ]
	reeve submit nothing --delay 1h >/dev/null
}

# The submits of 40 connections, each less than a connection's share, wait for a session of the database that stands
# still: together they have no more than --max-pending, and the others are refused. What waited is done later; calls that
# need other sessions are answered in that time.
test_what_waits_of_all_connections_is_bounded() {
	local session open
	start_postgres
	start_manager --max-pending 8MiB
	id=$(reeve submit nothing --queue flood --delay 1h)
	session=$(sql "select pid from pg_stat_activity where application_name = 'reeve-manager submit'")
	kill -STOP "$session"
	open=$(counter open_calls)
	start first python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" large 1 1 # is in flight, so that the others wait
	wait_until 10 "[ \"\$(counter open_calls)\" -gt $open ]"
	start flood python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" large 40 524288
	wait_until 10 '[ "$(answers_to flood)" -ge 25 ]'
	reeve cancel "$id" >/dev/null
	kill -CONT "$session"
	wait_until 10 '[ "$(answers_to flood)" = 40 ]'
	# 15 submits of 512 KiB and some bytes each fit into 8 MiB.
	expect_eq 25 "$(awk '/too much is waiting for the database \(--max-pending\)/ { n += $1 } END { print n + 0 }' "$DIR/log/flood.log")"
	expect_eq 16 "$(sql "select count(*) from tasks where queue = 'flood'")"
	expect_eq 1 "$(refusals_said 'too much is waiting for the database (--max-pending)')"
	expect_eq 25 "$(refused_calls)"
}

# Retrying would not make room for another pair of queue and type.
test_a_new_route_over_the_limit_is_refused_for_good() {
	start_postgres
	start_manager --max-routes 2
	reeve submit nothing >/dev/null
	reeve submit sh >/dev/null
	expect_fail 4 reeve submit other
	expect_eq 1 "$(refused_calls)" 'tries'
	expect_match 'there would be more than 2 .--max-routes' "$OUTPUT"
	expect_eq 1 "$(refusals_said 'with 1 new pairs of queue and type there would be more than 2 (--max-routes)')"
	expect_eq 1 "$(refused_calls)"
	reeve submit sh >/dev/null
}

run_tests
