#!/usr/bin/env bash
# The history of what managers do, by minute and hour, queue and type.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager other
start_manager manager

total() { # FIELD ARGUMENT…: its sum over the points of reeve stats --activity
	reeve stats --activity "${@:2}" --since '3h ago' --json | jq -s "map(.$1) | add // 0"
}

test_what_managers_do_is_added_up() {
	start_worker
	for n in 1 2 3; do reeve submit sh 'exit 0' --queue sums >/dev/null; done
	REEVE_MANAGER=${URL[other]} reeve submit sh 'exit 0' --queue sums >/dev/null
	dead=$(reeve submit sh 'sleep 0.3; exit 65' --queue sums)
	reeve submit sh '[ $REEVE_ATTEMPT = 2 ] || exit 3' --retry-base 1ms --queue sums >/dev/null
	expect_fail 1 reeve wait "$dead"
	wait_until 60 '[ "$(total ended type --queue sums)" = 6 ]'
	for by in minute hour type; do
		expect_eq '6 7 5 2 1 1 6' "$(for field in submitted begun completed failed retried dead ended; do
			total $field $by --queue sums
		done | paste -sd' ')" "by $by"
		# Every attempt is in a bucket.
		expect_eq '7 7' "$(reeve stats --activity $by --queue sums --since '3h ago' --json |
			jq -rs '[([.[].waited | add] | add), ([.[].took | add] | add)] | join(" ")')" "histograms by $by"
	done
	expect_eq '6' "$(total ended type --queue sums --type sh)"
	expect_eq '0' "$(total ended type --queue sums --type other 2>/dev/null)"
	expect_match 'there has never been a task of type "never-used"' "$(reeve stats --activity type --type never-used 2>&1)"
	# The slow attempt is in the bucket of 0.5 s, and the quantiles show it.
	expect_match '^[0-9]+$' "$(reeve stats --activity type --queue sums --since '3h ago' --json | jq .duration_p95_ms)"
	expect [ "$(reeve stats --activity type --queue sums --since '3h ago' --json | jq .duration_p95_ms)" -gt 250 ]
	expect_match 'TIME +SUBMITTED +BEGUN +COMPLETED +FAILED +DEAD +WAIT +95 % +DURATION +95 %' "$(reeve stats --activity minute --queue sums)"
	expect_match 'QUEUE +TYPE .*sums +sh +6 +7 +5 +2 +1 ' "$(reeve stats --activity type --queue sums)"
	expect_match '[0-9]{4}-[0-9-]+ [0-9]+:00' "$(reeve stats --activity hour --queue sums)"
}

test_a_killed_manager_loses_only_the_last_seconds() {
	start_manager victim
	for n in 1 2 3; do reeve submit nothing --queue killed >/dev/null; done
	wait_until 60 '[ "$(total submitted type --queue killed)" = 3 ]'
	kill_manager victim
	REEVE_MANAGER=${URL[manager]}
	reeve submit nothing --queue killed >/dev/null
	wait_until 60 '[ "$(total submitted type --queue killed)" = 4 ]'
}

test_minutes_are_kept_for_a_day_and_hours_for_a_year() {
	local at
	sql "insert into routes (queue, type) values ('old', 'kept')"
	for at in "false, now() - interval '26 hours'" "false, now() - interval '24 hours'" "true, now() - interval '26 hours'" \
		"true, now() - interval '365 days'" "true, now() - interval '367 days'"; do
		sql "insert into activity select h, date_trunc('hour', t), (select id from routes where queue = 'old'), 1, 0, 0, 0, 0, 0, 0,
			array_fill(0, array[21]), 0, array_fill(0, array[21]), 0 from (values ($at)) v(h, t)"
	done
	expect_eq 4 "$(reeve stats --activity hour --queue old --since '400d ago' --json | jq -s 'map(.submitted) | add + 1')"
	start_manager third # its maintenance runs soon
	wait_until 90 '[ "$(sql "select count(*) from activity a join routes r on r.id = a.route_id where r.queue = '"'old'"'")" = 3 ]'
	expect_eq 1 "$(sql "select count(*) from activity a join routes r on r.id = a.route_id where r.queue = 'old' and not hourly")"
}

test_options_that_do_not_go_together_are_refused() {
	expect_fail 2 reeve stats --activity day
	expect_fail 2 reeve stats --activity minute --by hour
	expect_match '--activity goes with --since, --queue and --type alone' "$OUTPUT"
	expect_fail 2 reeve stats --activity minute --all
	expect_fail 2 reeve stats --activity minute --status failed
	expect_fail 2 reeve stats --activity minute --queue ''
}

run_tests
