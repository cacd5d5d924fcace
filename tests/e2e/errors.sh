#!/usr/bin/env bash
# Errors in groups, and executions by hour and by type: compares the reported numbers with the tables.
# timeout 400
. "$(dirname "$0")/lib.sh"
HISTORY_DAYS=30
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager --lease 30s --heartbeat 400ms --expiry-grace 40s --fetch-wait 300ms
start_worker worker --concurrency 4 --queue default,mail,night,lines,short,count

many() { # COUNT JSON
	for _ in $(seq "$1"); do echo "$2"; done | reeve submit --bulk - sh
}

group() { # ERROR FIELDS [OPTION…]: fields of the group of that text
	local text=$1 fields=$2
	shift 2
	reeve errors --limit 10000 "$@" --json | jq -r --arg e "$text" "select(.error == \$e) | \"$fields\""
}

NUMBERS='\(.attempts) \(.waiting) \(.dead) \(.error_code)'

test_errors_are_grouped_by_their_text() {
	many 3 '{"queue":"mail","max_attempts":2,"retry":{"base":"1ms"},"details":"echo no route to host >&2; exit 3"}' >"$DIR/a"
	many 2 '{"queue":"mail","retry":{"base":"1h","max":"1h"},"details":"echo no route to host >&2; exit 4"}' >"$DIR/b"
	many 1 '{"queue":"night","details":"echo bad data >&2; exit 65"}' >"$DIR/c"
	id=$(reeve submit sh '[ $REEVE_ATTEMPT = 3 ] || { printf "first line\nsecond line" >&2; exit 3; }' --retry-base 1ms)
	expect_fail 1 reeve wait - < <(cat "$DIR/a" "$DIR/c")
	while read -r task; do wait_status 20 "$task" failed; done <"$DIR/b"
	reeve wait "$id" >/dev/null
	expect_match '^8 2 3 exit:[34]$' "$(group 'no route to host' "$NUMBERS")"
	expect_eq '1 0 1 exit:65' "$(group 'bad data' "$NUMBERS")"
	expect_eq '2 0 0 exit:3' "$(group $'first line\nsecond line' "$NUMBERS")"
	expect_eq "$id" "$(group $'first line\nsecond line' '\(.example_id)')"
	# The first and last occurrence, compared with the tables.
	for what in min max; do
		[ $what = min ] && name=first || name=last
		want=$(sql "select to_char($what(at) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') from (
			select last_updated as at from task_attempts where error = 'no route to host'
			union all select last_updated from task_history where last_error = 'no route to host') x")
		expect_eq "$want" "$(group 'no route to host' "\\(.$name)")" "$what"
	done
	# By queue and by type.
	expect_eq 'bad data' "$(reeve errors --queue night --json | jq -r .error)"
	expect_eq $'no route to host|5\nbad data|1' "$(sql "select last_error, count(*) from all_tasks where status in ('failed', 'dead')
		group by 1 order by 2 desc")"
	expect_eq '' "$(group 'bad data' x --queue mail)"
	expect_match '^8 2 3 ' "$(group 'no route to host' "$NUMBERS" --queue mail --type sh)"
	# By code.
	reeve errors --by code --queue mail --json | jq -r '"\(.error_code) \(.attempts) \(.waiting) \(.dead)"' | sort >"$DIR/codes"
	expect_eq 'exit:3 6 0 3 exit:4 2 2 0' "$(xargs <"$DIR/codes")"
	# The table for people has the groups with the most attempts first.
	expect_match 'ATTEMPTS +WAITING +DEAD.* 8 +2 +3 .*exit:[34] +no route to host' "$(reeve errors --limit 1 2>&1)"
	expect_match 'there are more groups than the 1 shown' "$(reeve errors --limit 1 2>&1)"
	expect_eq '' "$(reeve errors --since '+1h' --json)"
	expect_match '^no errors$' "$(reeve errors --since '+1h' 2>&1)"
}

test_lists_have_an_error_short_and_its_code() {
	id=$(reeve submit sh "head -c 3000 /dev/zero | tr '\\0' e >&2; exit 7" --queue short --max-attempts 1)
	expect_fail 1 reeve wait "$id"
	expect_eq 'exit:7 200' "$(reeve list --queue short --json | jq -r "select(.id == $id) | \"\(.error_code) \(.last_error | length)\"")"
	expect_eq 'exit:7 3000' "$(reeve show "$id" --json | jq -r '"\(.error_code) \(.last_error | length)"')"
}

test_texts_are_not_cut_where_nobody_sees_columns() {
	batch=$(reeve batch open texts)
	# shellcheck disable=SC2016
	id=$(reeve submit sh 'printf "€%.0s" {1..300} >&2; exit 3' --max-attempts 1 --batch "$batch")
	expect_fail 1 reeve wait "$id"
	text="exit:3: $(printf '€%.0s' {1..300})"
	expect_match "exit:3: $(printf '€%.0s' {1..200})" "$(reeve list --where "batch=$batch")" # lists have 200 letters of an error
	expect_match "$text" "$(reeve batch report "$batch")"
	expect_match "$text" "$(reeve batch report "$batch" --full)"
}

# The error of a group can be used as a condition that selects the group's tasks.
test_all_tasks_of_a_group_with_one_command() {
	echo $'it\'s "bad"\n\\back' >"$DIR/said"
	many 4 "$(jq -nc --arg said "$DIR/said" '{queue: "lines", max_attempts: 1, details: "cat \($said) >&2; exit 3"}')" >"$DIR/ids"
	expect_fail 1 reeve wait - <"$DIR/ids"
	text=$(reeve errors --queue lines --json | jq -r .error)
	expect_eq $'it\'s "bad"\n\\back' "$text"
	expect_eq '4 0 4 exit:3' "$(group "$text" "$NUMBERS" --queue lines)"
	expect_eq '4 tasks started again' "$(reeve retry --where "status=dead error='${text//\'/\'\'}'")"
	expect_fail 1 reeve wait - <"$DIR/ids"
	# Both attempts of each task count; each task is dead once.
	expect_eq '8 0 4 exit:3' "$(group "$text" "$NUMBERS" --queue lines)"
	quoted=$(reeve errors --queue lines --json | jq -r '.error | @json') # "…" as JSON has it
	expect_eq '4 tasks started again' "$(reeve retry --where "status=dead error=$quoted")"
	expect_fail 1 reeve wait - <"$DIR/ids"
}

test_lost_expired_and_killed_ones_count_too() {
	start_worker doomed --queue doomed
	lost=$(reeve submit sh "$HOLD" --queue doomed --max-attempts 1)
	wait_began "$lost"
	kill_worker doomed
	killed=$(reeve submit nothing --queue doomed --delay 1h)
	reeve discard "$killed" --reason 'no longer wanted' >/dev/null
	expect_fail 1 reeve wait "$killed"
	expect_eq '0 0 1 discarded' "$(group 'no longer wanted' "$NUMBERS")"
	wait_status 60 "$lost" dead
	expect_eq 'lost 1 0 1' "$(reeve errors --by code --queue doomed --json | jq -r 'select(.error_code == "lost") | "\(.error_code) \(.attempts) \(.waiting) \(.dead)"')"
	# Completed, returned and cancelled attempts do not count as errors.
	expect_eq 0 "$(reeve errors --limit 10000 --json | jq -r 'select(.error_code == "" or .error_code == "cancelled").error' | wc -l)"
}

executions() { # BY FIELDS [OPTION…]
	local by=$1 fields=$2
	shift 2
	reeve stats --by "$by" --status all "$@" --json | jq -r "\"$fields\""
}

test_executions_by_hour_and_by_type() {
	many 5 '{"queue":"count","details":"sleep 0.2"}' >"$DIR/good"
	many 2 '{"queue":"count","max_attempts":2,"retry":{"base":"1ms"},"details":"exit 3"}' >"$DIR/bad"
	reeve wait - <"$DIR/good" >/dev/null
	expect_fail 1 reeve wait - <"$DIR/bad"
	expect_eq 'count sh 9 5' "$(executions type '\(.queue) \(.type) \(.count) \(.completed)' --queue count)"
	want=$(sql "select concat_ws(' ', count(*), round(sum(ms)), round(avg(ms)), round(min(ms)), round(max(ms))) from (
		select extract(epoch from last_updated - token) * 1000 as ms from task_history where queue = 'count'
		union all
		select extract(epoch from a.last_updated - a.token) * 1000 from task_attempts a join task_history h using (task_id)
		where h.queue = 'count') x")
	expect_eq "$want" "$(executions type '\(.count) \(.total_ms) \(.average_ms) \(.fastest_ms) \(.slowest_ms)' --queue count --type sh)"
	expect [ "$(executions type '\(.slowest_ms)' --queue count)" -ge 200 ]
	expect_eq "$(sql "select to_char(max(last_updated) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') from task_history where queue = 'count'")" \
		"$(executions type '\(.last)' --queue count)"
	# Moves some of them to the hour before the last.
	sql "update task_history set last_updated = date_trunc('hour', now()) - interval '110 minutes',
		token = date_trunc('hour', now()) - interval '110 minutes' - (last_updated - token)
		where task_id in ($(head -n 3 "$DIR/good" | paste -sd,))"
	recount_from "now() - interval '4 hours'"
	hour=$(sql "select to_char(date_trunc('hour', min(last_updated) at time zone 'UTC'), 'YYYY-MM-DD\"T\"HH24:MI:SS.000000\"Z\"')
		from task_history where queue = 'count'")
	expect_eq "$hour 3 3" \
		"$(executions hour '\(.hour) \(.count) \(.completed)' --queue count | head -n 1)"
	expect_eq 9 "$(executions hour '\(.count)' --queue count | jq -s add)"
	expect_eq 6 "$(executions hour '\(.count)' --queue count --since '1h ago' | jq -s add)"
	expect_match 'HOUR +ATTEMPTS +COMPLETED +TOTAL +AVERAGE +FASTEST +SLOWEST +LATEST +LAST.*[0-9]+:00Z +3 +3 ' "$(reeve stats --by hour --queue count)"
	expect_match '^no attempts$' "$(reeve stats --by type --since '+1h' 2>&1)"
	# All attempts, including those of the tests before.
	want=$(sql "select count(*) from (select from task_history where token is not null union all
		select from task_attempts where outcome <> 'requeued') x")
	expect_eq "$want" "$(executions type '\(.count)' | jq -s add)"
	expect_eq "$want" "$(executions hour '\(.count)' | jq -s add)"
	expect_match 'TASKS AND WORKERS' "$(reeve stats)"
}

# Partitions of days before --since are not scanned.
test_partitions_of_before_are_left_out() {
	for name in errors executions; do
		plan=$(
			{
				explain_what_follows
				printf 'set search_path = reeve; prepare p as\n%s;\n' "$(cat "$STATEMENTS/$name.sql")"
				[ $name = errors ] && by=text more=', null, 10, 4000000' || by=hour more=', null, 4000000, '"'all'"', false'
				echo "execute p('$by', null, null, now() + interval '20 days'$more);"
			} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve 2>&1 | grep -v 'never executed'
		)
		expect_no_match "task_history_$(date -u -d '+5 days' +%Y%m%d)" "$plan" "$name"
		expect_match "task_history_$(date -u -d '+25 days' +%Y%m%d)" "$plan" "$name"
	done
}

test_what_is_no_such_request() {
	before=$(counts)
	expect_fail 2 reeve errors --by colour
	expect_match 'it takes text or code' "$OUTPUT"
	expect_fail 2 reeve stats --by day
	expect_match 'it takes hour or type' "$OUTPUT"
	expect_fail 2 reeve stats --queue mail
	expect_match '--status, --since, --all, --queue and --type go with --by' "$OUTPUT"
	expect_fail 2 reeve errors --since soon
	expect_fail 2 reeve errors --limit 0
	expect_fail 2 reeve errors --queue ''
	expect_fail 2 reeve errors 17
	expect_fail 2 reeve stats --by hour --type ''
	expect_eq "$before" "$(counts)"
}

run_tests
