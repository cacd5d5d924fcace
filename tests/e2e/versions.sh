#!/usr/bin/env bash
# Restart on change: a known key submitted with a newer version runs its task again, whatever its status; an older or
# equal version changes nothing.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres -c log_lock_waits=on -c deadlock_timeout=3s
start_manager

submit() { # VERSION DETAILS [OPTION…]: prints the answer
	reeve submit sh "$2" --key "$KEY" --key-version "$1" --json "${@:3}"
}

first() { # VERSION DETAILS [OPTION…]: prints the id
	submit "$@" | jq -r 'if .existing then error("it was there already") else .id end'
}

expect_restarted() { # ID VERSION DETAILS [OPTION…]
	expect_eq "{\"id\":$1,\"existing\":true,\"restarted\":true}" "$(submit "${@:2}")" "a newer version"
}

expect_refused() { # ID VERSION: that and its equals change nothing
	local before after
	before=$(row "$1")
	for version in "$2" 1; do
		expect_eq "{\"id\":$1,\"existing\":true,\"restarted\":false}" "$(submit "$version" 'echo old' --priority 9)" "an older version"
	done
	after=$(row "$1")
	expect_eq "$before" "$after" "older versions changed it"
}

row() { # ID: all that the tables say of it
	sql "select t::text, k::text from all_tasks t left join keys k on k.task_id = t.id where t.id = $1"
}

# Sets the test's key, and starts a worker for the test, which may end it.
begin() { # KEY [WORKER-OPTION…]
	KEY=$1
	start_worker "worker_$1" --concurrency 2 "${@:2}"
}

result() { # ID
	reeve wait "$1" >/dev/null
	field "$1" result
}

test_the_command_says_what_happened_with_a_version() {
	begin said
	id=$(reeve submit echo one --key said --key-version 17 2>"$DIR/said")
	expect_eq '' "$(cat "$DIR/said")"
	reeve wait "$id" >/dev/null
	expect_eq "$id" "$(reeve submit echo one --key said --key-version 17 2>"$DIR/said")"
	expect_match "key \"said\" was known already: task $id is the earlier one" "$(cat "$DIR/said")"
	expect_eq "$id" "$(reeve submit echo two --key said --key-version 18 2>"$DIR/said")"
	expect_match "version 18 is newer: task $id, which has the key \"said\", is run again" "$(cat "$DIR/said")"
	expect_eq two "$(result "$id")"
	# In a file, and with --wait.
	echo '{"details":"three","key":"said","version":19}' | reeve submit --bulk - echo 2>"$DIR/said"
	expect_match '1 newer version of known keys: their tasks are run again' "$(cat "$DIR/said")"
	expect_eq three "$(result "$id")"
	expect_eq four "$(reeve submit echo four --key said --key-version 20 --wait 2>/dev/null)"
	expect_eq "submitted claimed completed restarted claimed completed restarted claimed completed restarted claimed completed" \
		"$(events "$id")"
	expect_match "version 18" "$(event_field "$id" restarted note)"
}

test_versions_are_times_of_changes() {
	KEY=timed
	id=$(first 2026-01-14T08:00:00Z 'echo one' --queue timed)
	expect_eq 1768377600000000 "$(field "$id" version)"
	expect_eq true "$(submit 2026-01-14T08:00:00.000001Z 'echo two' --queue timed | jq .restarted)"
	expect_eq false "$(submit '2026-01-14 09:00:00+01:00' 'echo old' --queue timed | jq .restarted)"
	expect_eq true "$(submit 1768377600000002 'echo three' --queue timed | jq .restarted)"
	printf '%s\n' '{"type": "sh", "queue": "timed", "key": "timed", "version": "2027-01-14T08:00:00Z"}' \
		'{"type": "sh", "queue": "timed", "key": "timed", "version": "1768377600000003"}' >"$DIR/lines"
	expect_eq 'true false' "$(reeve submit --bulk "$DIR/lines" --json | jq .restarted | xargs)"
	expect_eq 1799913600000000 "$(field "$id" version)"
	echo '{"type": "sh", "key": "timed", "version": "yesterday"}' >"$DIR/lines"
	expect_fail 4 reeve submit --bulk "$DIR/lines"
	expect_match 'version "yesterday" is neither a time like 2026-01-14T08:00:00Z nor a whole number' "$OUTPUT"
}

test_bad_versions_are_refused_and_change_nothing() {
	expect_fail 2 reeve submit echo --key-version 1
	expect_match 'version needs a --key' "$OUTPUT"
	for version in 0 -1 x 1.5 9223372036854775808 '' now 1969-01-14T08:00:00Z 2026-13-14; do
		expect_fail 2 reeve submit echo --key bad --key-version "$version"
		expect_match 'whole number' "$OUTPUT"
	done
	echo '{"details":"x","version":2}' >"$DIR/lines"
	expect_fail 4 reeve submit --bulk "$DIR/lines" echo
	expect_match 'version needs a key' "$OUTPUT"
	echo '{"details":"x","key":"bad","version":-2}' >"$DIR/lines"
	expect_fail 4 reeve submit --bulk "$DIR/lines" echo
	expect_match 'version is negative' "$OUTPUT"
	# TaskSpecs with a version, as a caller in another language may send them.
	expect_match '^3 tasks\[0\].version needs a key' \
		"$(printf '\x0a\x05\x12\x01t\x68\x01' | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.TaskService/Submit)"
	expect_match '^3 tasks\[0\].version is -1' \
		"$(printf '\x0a\x11\x12\x01t\x3a\x01k\x68\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01' |
			"$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.TaskService/Submit)"
	expect_eq '' "$(sql "select * from keys where key in ('bad', 'k')")"
}

test_a_newer_version_of_a_queued_task_takes_its_place() {
	KEY=queued
	id=$(first 1 'echo one' --queue later --priority 7 --max-attempts 2 --timeout 5s --source ann)
	expect_eq "$id" "$(submit 2 'printf two' --queue later --priority -3 --max-attempts 9 --timeout 7s --backoff fixed:3s \
		--source bob | jq .id)"
	expect_eq 'printf two|-3|9|7000|bob|2|3000|fixed|0' "$(sql "select details, priority, max_attempts, timeout_ms, source, version,
		retry_base_ms, retry_policy ->> 'kind', attempt from tasks where id = $id")"
	start_worker worker_queued --queue later
	expect_eq two "$(result "$id")"
	expect_eq 'submitted restarted claimed completed' "$(events "$id")"
	expect_eq bob "$(event_field "$id" restarted actor)"
}

test_a_newer_version_clears_a_delay() {
	begin delayed
	id=$(first 1 'printf one' --delay 1h)
	expect_restarted "$id" 2 'printf two'
	expect_eq two "$(result "$id")"
	# The newer version may have a delay of its own, short or long.
	expect_restarted "$id" 3 'printf three' --delay 1h
	expect_eq t "$(sql "select run_at - clock_timestamp() between '59m' and '61m' from tasks where id = $id")"
	expect_restarted "$id" 4 'printf four' --at 2001-01-01
	expect_eq four "$(result "$id")"
}

test_a_newer_version_clears_attempts_and_error_of_a_failed_task() {
	begin failed
	id=$(first 1 'echo bad thing >&2; exit 3' --retry-base 1h --jitter 0 --max-attempts 2)
	wait_status 20 "$id" failed
	expect_match 'bad thing' "$(field "$id" last_error)"
	expect_refused "$id" 1
	expect_restarted "$id" 2 "$HOLD"
	wait_began "$id"
	expect_eq '1 ' "$(field "$id" attempt) $(field "$id" last_error)$(field "$id" error_code)"
	release
	expect_eq 'attempt 1' "$(result "$id")"
	expect_eq '' "$(field "$id" last_error)"
	expect_eq 'submitted claimed failed restarted claimed completed' "$(events "$id")"
}

test_ended_tasks_run_again_under_their_ids_completed_dead_and_cancelled() {
	begin ended
	id=$(first 1 'printf one')
	expect_eq one "$(result "$id")"
	expect_refused "$id" 1
	expect_restarted "$id" 2 'exit 65'
	expect_fail 1 reeve wait "$id"
	expect_eq dead "$(field "$id" status)"
	expect_refused "$id" 2
	expect_restarted "$id" 3 'printf three' --delay 1h
	reeve cancel "$id" >/dev/null
	expect_eq cancelled "$(field "$id" status)"
	expect_refused "$id" 3
	expect_restarted "$id" 4 'printf four'
	expect_eq four "$(result "$id")"
	expect_eq 'submitted claimed completed restarted claimed dead restarted cancel_requested cancelled restarted claimed completed' \
		"$(events "$id")"
	reeve audit "$id" --json | jq -r .token | sort -nc
	# The result of each run is kept.
	expect_eq 'one' "$(sql "select result from task_attempts where task_id = $id and status = 'completed'")"
	expect_eq 1 "$(sql "select count(*) from all_tasks where key = 'ended'")"
}

# Submits two newer versions while the task runs, and expects that after the end of its attempt, whatever the outcome,
# the newest one runs once.
runs_once_more() { # KEY SCRIPT OUTCOME [OPTION…]: $ID is set
	begin "$1"
	ID=$(first 5 "until [ -e \"\$REEVE_TEST_DIR/go.$KEY\" ]; do touch \"\$REEVE_TEST_DIR/began.$KEY\"; sleep 0.05; done; $2" "${@:4}")
	wait_until 20 "[ -e $DIR/began.$KEY ]"
	token=$(field "$ID" token)
	expect_restarted "$ID" 6 'printf six' --priority 5
	expect_restarted "$ID" 8 'printf eight' --max-attempts 4 --timeout 9s
	expect_eq "executing $token" "$(field "$ID" status) $(field "$ID" token)"
	# A version that is older than the one to run next.
	expect_refused "$ID" 7
	touch "$DIR/go.$KEY"
	expect_eq eight "$(result "$ID")"
	expect_eq "$3|queued" "$(sql "select outcome, status from task_attempts where task_id = $ID")"
	expect_eq '8|1|4|9000|' "$(sql "select version, attempt, max_attempts, timeout_ms, last_error from task_history where task_id = $ID")"
	expect_eq "submitted claimed newer_version newer_version $3 restarted claimed completed" "$(events "$ID")"
	expect_refused "$ID" 8
}

test_an_executing_task_runs_once_more_after_its_success() {
	runs_once_more success 'printf done' completed
	expect_eq 'done' "$(sql "select result from task_attempts where task_id = $ID")"
}

test_an_executing_task_runs_once_more_after_its_failure() {
	runs_once_more failure 'echo oh no >&2; exit 1' failed --max-attempts 1
	expect_match 'oh no' "$(sql "select error from task_attempts where task_id = $ID")"
}

test_an_executing_task_runs_once_more_after_a_fatal_error() {
	runs_once_more fatal 'exit 65' fatal
}

test_an_executing_task_runs_once_more_after_a_cancel_that_came_before() {
	begin cancelled
	id=$(first 1 "trap '' TERM; touch \"\$REEVE_TEST_DIR/began.cancelled\"; until [ -e \"\$REEVE_TEST_DIR/go.cancelled\" ]; do sleep 0.05; done; exit 1")
	wait_until 20 "[ -e $DIR/began.cancelled ]"
	reeve cancel "$id" >/dev/null
	expect_restarted "$id" 2 'printf two'
	expect_eq false "$(reeve show "$id" --json | jq .cancel_requested)"
	touch "$DIR/go.cancelled"
	expect_eq two "$(result "$id")"
	expect_match '^submitted claimed cancel_requested newer_version (failed|cancelled|returned) restarted claimed completed$' "$(events "$id")"
}

# A cancel also cancels the version that was to run next; a still newer version restarts the task.
test_a_cancel_that_comes_after_the_newer_version_ends_both() {
	begin after
	id=$(first 1 "$HOLD")
	wait_status 20 "$id" executing
	expect_restarted "$id" 2 'printf two'
	reeve cancel "$id" >/dev/null
	expect_fail 1 reeve wait "$id"
	expect_eq cancelled "$(field "$id" status)"
	expect_refused "$id" 2
	expect_restarted "$id" 3 'printf three'
	expect_eq three "$(result "$id")"
}

test_an_executing_task_runs_once_more_after_its_worker_was_killed() {
	begin killed
	id=$(first 1 "$HOLD")
	wait_status 20 "$id" executing
	expect_restarted "$id" 2 'printf two' --queue default
	kill_worker worker_killed
	start_worker another
	expect_eq two "$(result "$id")"
	expect_eq 'lost|queued' "$(sql "select outcome, status from task_attempts where task_id = $id")"
	expect_match '^submitted claimed newer_version lost reclaimed restarted claimed completed$' "$(events "$id")"
}

test_a_newer_version_of_a_task_whose_history_is_gone_creates_a_new_one_under_the_key() {
	begin gone
	id=$(first 1 'printf one')
	expect_eq one "$(result "$id")"
	sql "delete from task_history where task_id = $id"
	expect_eq "{\"id\":$id,\"existing\":true,\"restarted\":false}" "$(submit 1 'printf old')"
	answer=$(submit 2 'printf two')
	new=$(jq .id <<<"$answer")
	expect [ "$new" -gt "$id" ]
	expect_eq 'true true' "$(jq -r '"\(.existing) \(.restarted)"' <<<"$answer")"
	expect_eq two "$(result "$new")"
	expect_eq "$new|2" "$(sql "select task_id, version from keys where key = 'gone'")"
	expect_refused "$new" 2
	expect_restarted "$new" 3 'printf three'
	expect_eq three "$(result "$new")"
}

# An ordinary key is kept until a day after its task has ended; a key with a version is kept for a year after the last
# newer version.
test_older_or_equal_changes_nothing_long_after_the_first_run() {
	begin long
	id=$(first 5 'printf five')
	expect_eq five "$(result "$id")"
	for days in 2 100 364; do
		sql "update keys set expires_at = expires_at - interval '1 day' * $days where key = 'long'"
		expect_refused "$id" 5
		sql "delete from keys where expires_at <= statement_timestamp()" # as maintenance does
		sql "update keys set expires_at = expires_at + interval '1 day' * $days where key = 'long'"
	done
	# The year begins again with each newer version; after it, the key is free.
	sql "update keys set expires_at = clock_timestamp() + '1 minute' where key = 'long'"
	expect_restarted "$id" 6 'printf six'
	expect_eq six "$(result "$id")"
	expect_eq t "$(sql "select expires_at > clock_timestamp() + '364 days' from keys where key = 'long'")"
	sql "update keys set expires_at = clock_timestamp() where key = 'long'"
	new=$(first 1 'printf one')
	expect [ "$new" -gt "$id" ]
	# A submit can set a longer lifetime.
	expect_restarted "$new" 2 'printf two' --key-ttl 800d
	expect_eq t "$(sql "select expires_at > clock_timestamp() + '799 days' from keys where key = 'long'")"
	reeve wait "$new" >/dev/null
}

test_a_key_that_was_created_without_a_version_takes_any() {
	begin plain
	id=$(reeve submit sh 'printf plain' --key plain)
	expect_eq plain "$(result "$id")"
	expect_restarted "$id" 1 'printf one'
	expect_eq one "$(result "$id")"
	# A submit without a version is never newer.
	expect_eq "{\"id\":$id,\"existing\":true,\"restarted\":false}" "$(reeve submit sh 'printf no' --key plain --json)"
	expect_eq 't|1' "$(sql "select expires_at > clock_timestamp() + '364 days', version from keys where key = 'plain'")"
}

test_the_same_request_sent_twice_restarts_once_and_is_answered_alike() {
	start_manager other
	begin twice
	reeve submit nothing --key again --key-version 1 --wait 2>/dev/null
	id=$(sql "select task_id from keys where key = 'again'")
	request=$("$REEVE_BIN/resend" id)
	for _ in 1 2 3; do
		expect_eq "$id!"$'\n'"$id!" "$("$REEVE_BIN/resend" submit "$request" default again@2 1 "${URL[manager]}" "${URL[other]}")"
	done
	reeve wait "$id" >/dev/null
	expect_eq "$id!" "$("$REEVE_BIN/resend" submit "$request" default again@2 1 "${URL[other]}")"
	expect_eq 'submitted claimed completed restarted claimed completed' "$(events "$id")"
}

test_doubles_in_one_submit_leave_the_newest() {
	for i in 3 1 5 5 2 4; do
		for key in a b c; do echo "{\"queue\":\"doubles\",\"type\":\"sh\",\"key\":\"$key\",\"version\":$i,\"details\":\"printf $key$i\"}"; done
	done | shuf >"$DIR/lines"
	reeve submit --bulk "$DIR/lines" --json >"$DIR/told"
	expect_eq 3 "$(sql "select count(*) from tasks where queue = 'doubles'")"
	expect_eq "$(sql "select key || ' ' || task_id from keys where queue = 'doubles'" | sort)" \
		"$(paste -d' ' <(jq -r .key "$DIR/lines") <(jq -r .id "$DIR/told") | sort -u)"
	expect_eq 3 "$(jq -r 'select(.existing | not) | .id' "$DIR/told" | wc -l)"
	start_worker worker_doubles --queue doubles
	jq -r .id "$DIR/told" | reeve wait - >/dev/null
	expect_eq $'a5|5\nb5|5\nc5|5' "$(sql "select result, version from task_history where queue = 'doubles' order by 1")"
	expect_eq 3 "$(sql "select count(*) from audit_log l join task_history h using (task_id) where h.queue = 'doubles' and l.event = 'claimed'")"
}

# Submits the same keys to two managers in several waves, while workers run the tasks: each wave has a race for each
# key.
waves() { # QUEUE WAVES KEYS
	local wave i k v url pids=()
	for ((wave = 1; wave <= $2; wave++)); do
		for i in 1 2; do # the two never have the same version; now the one is the newer, now the other
			for ((k = 1; k <= $3; k++)); do
				v=$((100 * wave + (RANDOM % 45) * 2 + i))
				echo "{\"queue\":\"$1\",\"type\":\"record\",\"key\":\"k$k\",\"version\":$v,\"details\":\"k$k $v\"}"
			done | shuf >"$DIR/wave.$wave.$i"
			[ $i = 1 ] && url=${URL[one]} || url=${URL[two]}
			reeve submit --bulk "$DIR/wave.$wave.$i" --json --manager "$url" --max-attempts 2 --retry-base 10ms \
				>"$DIR/told.$wave.$i" 2>/dev/null &
			pids+=($!)
		done
		[ $((wave % 2)) = 0 ] || sleep "0.$((RANDOM % 4))"
	done
	for i in "${pids[@]}"; do wait "$i"; done
}

begin_race() { # QUEUE SCRIPT: what a run does with its "$line", "KEY VERSION"
	start_manager one
	start_manager two
	handlers <<-END
		[handler record]
		exec = /bin/sh -c 'read -r line; echo "\$line" >>"\$REEVE_TEST_DIR/ran"; $2'
	END
	for w in one two; do
		REEVE_MANAGER=${URL[$w]} start_worker "racer_$1_$w" --queue "$1" --concurrency 8
	done
	# Also uses keys that are known without a version, whose tasks end during the race.
	for ((k = 1; k <= 40; k++)); do echo "{\"queue\":\"$1\",\"type\":\"record\",\"key\":\"k$k\",\"details\":\"k$k 0\"}"; done |
		reeve submit --bulk - --json >"$DIR/told.0"
}

all_have_ended() { # QUEUE KEYS
	cat "$DIR"/wave.* | jq -r '"\(.key) \(.version)"' | sort -k1,1 -k2,2nr | sort -u -k1,1 >"$DIR/newest"
	jq -r .id "$DIR"/told.* | sort -u >"$DIR/ids"
	expect_eq "$2" "$(wc -l <"$DIR/ids")"
	reeve wait - <"$DIR/ids" >/dev/null || true
	expect_eq "$2" "$(sql "select count(*) from task_history where queue = '$1'")"
	expect_eq "$(cat "$DIR/newest")" "$(sql "select key || ' ' || version from keys where queue = '$1'" | sort -k1,1)"
	expect_eq '' "$(grep -E 'deadlock|still waiting' "$SUITE_DIR/log/postgres.log" || true)"
	note "$(wc -l <"$DIR/ran") runs of $(cat "$DIR"/wave.* | wc -l) versions"
}

expect_newest_ran() { # QUEUE
	expect_eq "$(cat "$DIR/newest")" "$(sql "select key || ' ' || version from task_history where queue = '$1'" | sort -k1,1)"
	expect_eq "$(cat "$DIR/newest")" "$(sql "select details from task_history where queue = '$1'" | sort -k1,1)"
	expect_eq '' "$(comm -23 <(sort "$DIR/newest") <(sort -u "$DIR/ran"))" "newest versions that have not run"
}

test_of_two_submits_at_once_the_newest_version_wins_and_runs_at_the_end() {
	begin_race calm true
	waves calm 10 60
	all_have_ended calm 60
	expect_newest_ran calm
	# No version ran twice.
	expect_eq '' "$(sort "$DIR/ran" | uniq -d)"
}

test_newer_versions_race_with_failures_and_manual_retries() {
	begin_race wild '[ "${line#*[37]}" = "$line" ]'
	(until [ -e "$DIR/enough" ]; do jq -r .id "$DIR/told.0" | reeve retry - >/dev/null 2>&1 || true; done) &
	retries=$!
	waves wild 10 60
	touch "$DIR/enough"
	wait "$retries"
	all_have_ended wild 60
	expect_newest_ran wild
}

# Cancelled versions do not run; but the keys have the newest versions, and the next version restarts all tasks.
test_newer_versions_race_with_cancels() {
	begin_race cancels true
	(until [ -e "$DIR/enough" ]; do jq -r .id "$DIR/told.0" | reeve cancel - >/dev/null 2>&1 || true; done) &
	cancels=$!
	waves cancels 6 60
	touch "$DIR/enough"
	wait "$cancels"
	all_have_ended cancels 60
	rm "$DIR"/wave.* # all of which are older
	for ((k = 1; k <= 60; k++)); do
		echo "{\"queue\":\"cancels\",\"type\":\"record\",\"key\":\"k$k\",\"version\":9999,\"details\":\"k$k 9999\"}"
	done >"$DIR/wave.last"
	reeve submit --bulk "$DIR/wave.last" --json >"$DIR/told.last" 2>/dev/null
	expect_eq 60 "$(jq -r 'select(.restarted) | .id' "$DIR/told.last" | wc -l)"
	all_have_ended cancels 60
	expect_newest_ran cancels
}

run_tests
