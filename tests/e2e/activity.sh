#!/usr/bin/env bash
# The history of what managers do, by minute and hour, queue and type, and of how many tasks there were.
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
	totals() { for field in submitted begun completed failed retried dead ended; do total $field "$1" --queue sums; done | paste -sd' '; }
	wait_until 60 '[ "$(totals type)" = "6 7 5 2 1 1 6" ]' # each manager adds its own
	for by in minute hour type; do
		expect_eq '6 7 5 2 1 1 6' "$(totals $by)" "by $by"
		# Every attempt is in a bucket.
		expect_eq '7 7' "$(reeve stats --activity $by --queue sums --since '3h ago' --json |
			jq -rs '[([.[].waited | add] | add), ([.[].took | add] | add)] | join(" ")')" "histograms by $by"
	done
	expect_eq "$(sql 'select min(cardinality(waited)), max(cardinality(took)) from activity' | tr '|' ' ')" \
		"$(reeve stats --activity type --queue sums --json | jq -r '"\(.waited | length) \(.took | length)"')" 'buckets'
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

test_a_stopping_manager_adds_its_numbers() {
	start_manager stopping
	for n in 1 2 3; do reeve submit nothing --queue stopped >/dev/null; done
	stop stopping
	REEVE_MANAGER=${URL[manager]}
	wait_until 30 '[ "$(total submitted type --queue stopped)" = 3 ]'
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
	sql "insert into depths select hourly, at, 'old', 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0 from activity a join routes r on r.id = a.route_id where r.queue = 'old'"
	start_manager third # its maintenance runs soon
	wait_until 90 '[ "$(sql "select count(*) from activity a join routes r on r.id = a.route_id where r.queue = '"'old'"'")" = 3 ]'
	expect_eq 1 "$(sql "select count(*) from activity a join routes r on r.id = a.route_id where r.queue = 'old' and not hourly")"
	wait_until 90 '[ "$(sql "select count(*) filter (where hourly), count(*) from depths where queue = '"'old'"'")" = "2|3" ]'
	stop third
	REEVE_MANAGER=${URL[manager]}
}

test_few_queues_have_depths_of_their_own() {
	wait_until 180 '[[ $(date +%M) != @(59|00) ]]' # so that all of this is in one hour
	stop other
	stop manager
	sql "delete from depths; delete from count_changes; delete from live_counts; delete from history_counts" # in place of a manager that counts:
	sql "insert into routes (queue, type) values ('a', 't'), ('b', 't'), ('b', 'u'), ('c', 't'), ('other', 't')"
	of() { sql "insert into live_counts select id, $3, 0, 0 from routes where queue = '$1' and type = '$2' on conflict (route_id) do update set live = $3"; }
	of a t 5 && of b t 4 && of b u 3 && of c t 1 && of other t 2
	in_all() { sql "select string_agg(queue || '=' || queued, ' ' order by queue) from depths where $1 and at = (select max(at) from depths where $1)"; }
	local n pids=()
	for n in 1 2 3 4; do sql 'select depths_sample(2)' >/dev/null & pids+=($!); done
	wait "${pids[@]}"
	expect_eq '=15 a=5 b=7 other=3' "$(in_all 'not hourly')"
	expect_eq "$(sql "select count(*) from depths where not hourly and queue = ''")" "$(sql "select samples from depths where hourly and queue = ''")"
	# Within an hour others do not take their place, so that a queue's line has no holes.
	of c t 100 && of a t 1
	sql "update depths set at = at - interval '10 minutes' where not hourly; select depths_sample(2)" >/dev/null
	expect_eq '=110 a=1 b=7 other=102' "$(in_all 'not hourly')"
	start_manager manager --metrics-routes 2
	expect_eq 7 "$(reeve stats --depth minute --queue b --json | jq -s 'map(.depth.queued) | max')"
	expect_eq '' "$(reeve stats --depth minute --queue c --json | jq '.depth | select(.)')" 'it is among the others'
	sql 'select counts_recount()' >/dev/null
}

depths() { # FIELD BY [QUEUE]: the numbers of tasks of the last sample
	reeve stats --depth "$2" --since '2h ago' ${3:+--queue "$3"} --json | jq -rs "map(.$1 | select(.)) | last | \"\(.queued) \(.delayed) \(.executing) \(.failed) \(.dead)\""
}

sample_again() { # MINUTES: makes all samples so much older, and waits for another one
	sql "update depths set at = at - interval '$1 minutes' where not hourly"
	wait_until 60 '[ "$(sql "select count(*) > '"$(sql "select count(*) from depths where not hourly and queue = ''")"' from depths where not hourly and queue = '"''"'")" = t ]'
}

expect_added_up() { # the hour has the average and the maximum of its minutes, one sample each
	local of="from depths where not hourly and queue = 'deep'"
	wait_until 30 '[ "$(depths depth hour deep)" = "$(sql "select round(avg(queued)), round(avg(delayed)), round(avg(executing)), round(avg(failed)), round(avg(dead)) $of" | tr "|" " ")" ]'
	expect_eq '3 4 1 1 1' "$(depths max hour deep)"
	expect_eq t "$(sql "select samples = (select count(*) from depths where not hourly and queue = '') from depths where hourly and queue = ''")" 'one sample a minute'
}

test_depths_are_sampled_each_minute_and_added_up_by_hour() {
	wait_until 180 '[[ $(date +%M) != @(57|58|59|00) ]]'
	start_manager other
	start_manager manager
	start_worker deep
	reeve submit sh 'sleep 1000' --queue deep >/dev/null
	reeve submit sh 'exit 1' --queue deep --retry-limit 3 --backoff fixed:1d >/dev/null
	expect_fail 1 reeve wait "$(reeve submit sh 'exit 65' --queue deep)"
	for n in 1 2 3; do reeve submit nobody --queue deep >/dev/null; done
	later=$(for n in 1 2 3 4; do reeve submit nobody --queue deep --delay 1d; done)
	wait_until 60 '[ "$(reeve queue list --json | jq -s "map(select(.queue == \"deep\")) | [map(.queued), map(.delayed), map(.executing), map(.failed)] | map(add)" -c)" = "[3,4,1,1]" ]'
	sql 'delete from depths'
	wait_until 60 '[ "$(depths depth minute deep)" = "3 4 1 1 1" ]'
	expect_eq '3 4 1 1 1' "$(depths max minute deep)"
	expect_eq '3 4 1 1 1' "$(depths depth hour deep)"
	expect_eq '0 0 0 0 0' "$(depths depth minute empty)" 'a queue without tasks'
	expect_eq "$(reeve stats --json | jq -r '"\(.queued) \(.delayed) \(.executing) \(.failed) \(.dead)"')" "$(depths depth minute)" 'of all queues'
	reeve cancel $later >/dev/null
	sample_again 10
	expect_eq '3 0 1 1 1' "$(depths depth minute deep)"
	expect_added_up
	expect_match 'TIME +QUEUED +DELAYED +EXECUTING +FAILED +DEAD .*[0-9]:[0-9]+Z? +3 +4 +1 +1 +1 .*[0-9]:[0-9]+Z? +3 +0 +1 +1 +1' "$(reeve stats --depth minute --queue deep | tr '\n' ' ')"
	expect_match 'TIME +QUEUED +MAX +DELAYED +MAX .*:00Z? +3 +3 +[123] +4 ' "$(reeve stats --depth hour --queue deep | tr '\n' ' ')"
	# The same answer has what managers did, but of one type there are no depths.
	expect_match '^[0-9]+$' "$(reeve stats --activity minute --queue deep --json | jq -s 'map(.depth.queued) | last')"
	expect_eq 0 "$(reeve stats --activity minute --queue deep --type sh --json | jq -s 'map(select(.depth)) | length')"
	# A manager that starts again goes on.
	stop other
	stop manager
	start_manager manager
	sample_again 25
	expect_eq '3 0 1 1 1' "$(depths depth minute deep)"
	expect_added_up
}

test_options_that_do_not_go_together_are_refused() {
	expect_fail 2 reeve stats --activity day
	expect_fail 2 reeve stats --activity minute --by hour
	expect_match '--activity goes with --since, --queue and --type alone' "$OUTPUT"
	expect_fail 2 reeve stats --activity minute --all
	expect_fail 2 reeve stats --activity minute --status failed
	expect_fail 2 reeve stats --activity minute --queue ''
	expect_fail 2 reeve stats --depth type
	for option in '--type sh' '--by hour' '--activity minute' --all '--status failed'; do
		expect_fail 2 reeve stats --depth minute $option
		expect_match '--depth goes with --since and --queue alone' "$OUTPUT"
	done
}

run_tests
