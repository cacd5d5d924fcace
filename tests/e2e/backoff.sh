#!/usr/bin/env bash
# Retry delays: every kind of backoff against its formula, jitter, defaults of queues, and very many attempts.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager
start_worker worker --concurrency 8

# Waits until the task is dead, and makes failed tasks due at once, so that no retry delay has to pass. The condition is
# checked with the change: `reeve retry ID` would start a task over that has just ended dead.
end_dead() { # ID
	until [ "$(field "$1" status)" = dead ]; do
		reeve retry --where status=failed >/dev/null 2>&1 || true
	done
}

rests() { # ID: the rests of its attempts in ms, in one line
	sql "select string_agg(round(extract(epoch from run_at - last_updated) * 1000)::bigint::text, ' ' order by token)
		from task_attempts where task_id = $1 and status = 'failed'"
}

# Submits a task with these options that fails six times; prints its five retry delays in ms.
rests_of() { # OPTION…
	local id
	id=$(reeve submit sh 'exit 1' --retry-limit 5 "$@")
	end_dead "$id"
	expect_eq 6 "$(field "$id" attempt)"
	rests "$id"
}

test_fixed_delays_are_equal() {
	expect_eq '90000 90000 90000 90000 90000' "$(rests_of --backoff fixed:1m30s --jitter 0)"
	expect_eq '7200000 7200000 7200000 7200000 7200000' "$(rests_of --backoff fixed:2h --jitter 0)" # beyond the cap of others
}

test_linear_delays_grow_by_a_step() {
	expect_eq '0 60000 120000 180000 240000' "$(rests_of --backoff linear:1m --jitter 0)"
	expect_eq '5000 65000 125000 185000 245000' "$(rests_of --backoff linear:1m:5s --jitter 0)"
	expect_eq '5000 5000 5000 5000 5000' "$(rests_of --backoff linear:0s:5s --jitter 0)"
	expect_eq '0 0 0 0 0' "$(rests_of --backoff linear:0s --jitter 0)"
	expect_eq '5000 65000 100000 100000 100000' "$(rests_of --backoff linear:1m:5s --jitter 0 --retry-max 100s)"
}

test_polynomial_delays_grow_by_a_power() {
	expect_eq '2000 8000 18000 32000 50000' "$(rests_of --backoff poly:2s --jitter 0)"
	expect_eq '2000 16000 54000 128000 250000' "$(rests_of --backoff poly:2s:3 --jitter 0)"
	expect_eq "$(awk 'BEGIN { for (n = 1; n <= 5; n++) printf "%s%d", (n > 1 ? " " : ""), 60000 * sqrt(n) + 0.5 }')" \
		"$(rests_of --backoff poly:1m:0.5 --jitter 0)"
}

test_exponential_delays_double_up_to_the_maximum() {
	expect_eq '10000 20000 40000 60000 60000' "$(rests_of --backoff exp:10s:1m --jitter 0)"
	expect_eq '1800000 3600000 3600000 3600000 3600000' "$(rests_of --backoff exp:30m --jitter 0)" # 1 h unless set
	expect_eq '10000 20000 30000 30000 30000' "$(rests_of --retry-base 10s --retry-max 30s --jitter 0)"
	expect_eq '1000 2000 4000 8000 16000' "$(rests_of --jitter 0)"
}

test_a_list_of_delays_repeats_its_last() {
	expect_eq '60000 300000 1800000 7200000 7200000' "$(rests_of --backoff list:1m,5m,30m,2h --jitter 0)"
	expect_eq '0 5000 0 0 0' "$(rests_of --backoff list:0,5s,0 --jitter 0)"
	expect_eq '31536000000 31536000000 31536000000 31536000000 31536000000' "$(rests_of --backoff list:365d --jitter 0)"
}

# Makes 60 retry delays of 1000 s, less jitter. Prints four booleans: none is below LEAST-MS, none is above 1000 s, they
# cover more than half of that range, and more than 50 of them are different.
jittered() { # LEAST-MS OPTION…
	local least=$1
	shift
	for _ in $(seq 1 60); do echo '{"details":"exit 1"}'; done |
		reeve submit --bulk - sh --backoff fixed:1000s --max-attempts 2 "$@" >"$DIR/ids"
	ids=$(paste -sd , "$DIR/ids")
	wait_until 60 "[ \"\$(sql \"select count(*) from tasks where id in ($ids) and status = 'failed'\")\" = 60 ]"
	sql "select min(ms) >= $least, max(ms) <= 1000000, max(ms) - min(ms) > (1000000 - $least) / 2,
		count(distinct ms) > 50 from (select extract(epoch from run_at - last_updated) * 1000 as ms
		from task_attempts where task_id in ($ids)) x"
}

test_jitter_is_subtracted_as_configured() {
	expect_eq 't|t|t|t' "$(jittered 750000)" "a quarter unless set"
	expect_eq 't|t|t|t' "$(jittered 0 --jitter 100)"
	expect_eq 't|t|t|t' "$(jittered 900000 --jitter 10)"
}

test_lines_of_a_file_have_their_own_backoffs() {
	{
		echo '{"details":"exit 1","retry_limit":5,"retry":{"backoff":"linear:3s:1s","jitter":0}}'
		echo '{"details":"exit 1","max_attempts":6,"retry":{"jitter":0}}'
		echo '{"details":"exit 1","max_attempts":6}'
	} | reeve submit --bulk - sh --backoff list:2s,9s --jitter 0 >"$DIR/ids"
	while read -r id; do
		end_dead "$id"
		rests "$id"
	done <"$DIR/ids" >"$DIR/rests"
	expect_eq '1000 4000 7000 10000 13000
2000 9000 9000 9000 9000
2000 9000 9000 9000 9000' "$(cat "$DIR/rests")"
}

# Settings that a task does not have come from its queue; the task's own settings take precedence.
test_a_queue_has_defaults_for_tasks_that_do_not_say() {
	sql "insert into queues (name, max_attempts, retry_base_ms, retry_max_ms, retry_policy) values
		('own', 4, 7000, 20000, '{\"kind\": \"linear\", \"step_ms\": 9000, \"jitter_percent\": 0}');
		select pg_notify('reeve_notify', 'queues')" >/dev/null
	wait_until 20 '[ "$(reeve submit sh --queue own --delay 1h >/dev/null; sql "select max_attempts from tasks where queue = '"'own'"' order by id desc limit 1")" = 4 ]'
	id=$(reeve submit sh 'exit 1' --queue own)
	end_dead "$id"
	expect_eq '7000 16000 20000' "$(rests "$id")"
	id=$(reeve submit sh 'exit 1' --queue own --max-attempts 3)
	end_dead "$id"
	expect_eq '7000 16000' "$(rests "$id")"
	id=$(reeve submit sh 'exit 1' --queue own --backoff fixed:1s --jitter 0)
	end_dead "$id"
	expect_eq '1000 1000 1000' "$(rests "$id")"
}

test_the_functions_of_very_many_attempts_neither_overflow_nor_fail() {
	year=31536000000
	expect_eq "exponential|$year|t
fixed|$year|t
linear|$year|t
list|7|t
none|$year|t
polynomial|$year|t" "$(sql "
		select coalesce(p ->> 'kind', 'none'), max(retry_delay_ms(p, $year, $year, n))::bigint,
			bool_and(retry_delay_ms(p, $year, $year, n) between 0 and $year)
		from generate_series(1, 10000) n, (values (null::jsonb), ('{\"kind\": \"fixed\"}'), ('{\"kind\": \"linear\", \"step_ms\": $year}'),
			('{\"kind\": \"polynomial\", \"exponent\": 10}'), ('{\"kind\": \"exponential\"}'), ('{\"kind\": \"list\", \"delays_ms\": [5, 7]}')) v(p)
		group by 1 order by 1")"
	# The minimum of every parameter.
	expect_eq 't' "$(sql "select bool_and(retry_delay_ms(p, 1, 1, n) between 0 and 1)
		from generate_series(1, 10000) n, (values (null::jsonb), ('{\"kind\": \"linear\", \"step_ms\": 0}'),
			('{\"kind\": \"polynomial\", \"exponent\": 0.001}')) v(p)")"
	# An attempt with a very high number gets its retry delay as any other.
	id=$(reeve submit sh 'exit 1' --backoff poly:1m:10 --jitter 0 --max-attempts 10000)
	wait_status 20 "$id" failed
	sql "update tasks set attempt = 9998 where id = $id"
	reeve retry "$id" >/dev/null
	wait_until 20 "[ \"\$(field $id attempt)\" = 9999 ] && [ \"\$(field $id status)\" = failed ]"
	expect_eq '60000 3600000' "$(rests "$id")"
}

test_bad_backoffs_are_refused_and_nothing_is_created() {
	before=$(sql 'select count(*) from all_tasks')
	for bad in '' fixed fixed: fixed:0 fixed:-1s fixed:1s:2s linear:x linear:1s:y exp:1s:0 exp:0 exp:366d \
		exp:99999999999999999999d poly:1s:0 poly:1s:11 poly:1s:nan poly:1s:inf list: 'list:1m,' 'list:1m,,2m' 'list:1m;2m' \
		"list:$(seq -s s, 1 101)s" list:400d nonsense:1s; do
		expect_fail 2 reeve submit sh --backoff "$bad"
		expect_match '^reeve submit: --backoff: .' "$OUTPUT" "$bad"
	done
	expect_fail 2 reeve submit sh --jitter 101
	expect_match 'from 0 to 100' "$OUTPUT"
	expect_fail 2 reeve submit sh --max-attempts 3 --retry-limit 2
	expect_match 'cannot be combined' "$OUTPUT"
	expect_fail 2 reeve submit sh --retry-limit 10000
	expect_fail 2 reeve submit sh --backoff fixed:1s --retry-base 1s
	expect_fail 2 reeve submit sh --backoff exp:1s:5s --retry-max 1s
	printf '%s\n' '{"details":"ok"}' '{"retry":{"backoff":"list:x"}}' '{"retry":{"jitter":200}}' '{"retry":{"base":"366d"}}' \
		'{"retry_limit":1,"max_attempts":2}' >"$DIR/lines"
	expect_fail 4 reeve submit --bulk "$DIR/lines" sh
	expect_match '4 lines cannot be submitted; nothing was' "$OUTPUT"
	# The manager also refuses such values from other callers: a TaskSpec with a RetryPolicy.
	retry() { # BYTES of the policy
		printf "\\x0a\\x$(printf %02x $((5 + $1)))\\x12\\x01t\\x5a\\x$(printf %02x "$1")$2" |
			"$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.TaskService/Submit
	}
	expect_match '^3 tasks\[0\].retry.kind is 9' "$(retry 2 '\x18\x09')"
	expect_match '^3 tasks\[0\].retry.delays_ms has 0 elements' "$(retry 2 '\x18\x05')"
	expect_match '^3 tasks\[0\].retry.step_ms is for kind linear, not fixed' "$(retry 4 '\x18\x02\x20\x01')"
	expect_match '^3 tasks\[0\].retry.jitter_percent is 101' "$(retry 3 '\x38\xca\x01')"
	expect_match '^3 tasks\[0\].retry.exponent is nan' "$(retry 11 '\x18\x04\x29\x00\x00\x00\x00\x00\x00\xf8\x7f')"
	expect_match '^3 tasks\[0\].retry.base_ms is 106751991167d' "$(retry 10 '\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f')"
	expect_eq "$before" "$(sql 'select count(*) from all_tasks')"
}

run_tests
