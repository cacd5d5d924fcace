#!/usr/bin/env bash
# Hard cases of idempotency keys: files with the same keys that race, keys that expire during submits, and keys whose
# tasks have ended. (idempotency.sh has the ordinary cases.)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

test_a_second_submit_answers_the_first_tasks_id_and_says_so() {
	start_postgres
	start_manager
	start_worker
	first=$(reeve submit echo one --key k 2>"$DIR/said")
	expect_eq '' "$(cat "$DIR/said")"
	second=$(reeve submit echo two --key k --priority 5 --delay 1h 2>"$DIR/said")
	expect_eq "$first" "$second"
	expect_match "key \"k\" was known already: task $first is the earlier one" "$(cat "$DIR/said")"
	expect_eq "{\"id\":$first,\"existing\":true,\"restarted\":false}" "$(reeve submit sh --key k --json 2>"$DIR/said")"
	expect_eq '' "$(cat "$DIR/said")"
	expect_eq false "$(reeve submit echo --key another --json | jq .existing)"
	reeve wait "$first" >/dev/null
	# The values of the first submit count. The key is also known after its task has ended, and --wait then prints the
	# task's result.
	expect_eq 'echo one 0' "$(reeve show "$first" --json | jq -r '"\(.type) \(.result) \(.priority)"')"
	expect_eq "$first" "$(reeve submit echo three --key k 2>/dev/null)"
	expect_eq one "$(reeve submit echo four --key k --wait 2>/dev/null)"
	expect_eq 2 "$(sql 'select count(*) from all_tasks')"
	expect_eq 'submitted claimed completed' "$(events "$first")"
}

test_a_key_outlives_dead_and_cancelled_tasks_and_restarts() {
	start_postgres
	start_manager
	start_worker
	dead=$(reeve submit sh 'exit 65' --key dead)
	cancelled=$(reeve submit sh --delay 1h --key cancelled)
	expect_fail 1 reeve wait "$dead"
	reeve cancel "$cancelled" >/dev/null
	kill_manager
	start_manager
	expect_eq "$dead" "$(reeve submit sh 'exit 0' --key dead 2>/dev/null)"
	expect_eq "$cancelled" "$(reeve submit sh --key cancelled 2>/dev/null)"
	# The keys are kept as long as their tasks, and go with them.
	expect_eq 2 "$(sql 'select count(*) from keys where expires_at is null')"
	sql "set role reeve; select make_history_partitions((clock_timestamp() at time zone 'UTC')::date - 1, 1);
		update task_history set keep_until = (clock_timestamp() at time zone 'UTC')::date - 1 where task_id = $dead" >/dev/null
	stop manager
	start_manager # its maintenance drops the partition
	wait_until 30 '[ -z "$(sql "select 1 from task_history where task_id = $dead")" ]'
	expect_eq cancelled "$(sql 'select string_agg(key, chr(32)) from keys')"
	again=$(reeve submit sh 'exit 0' --key dead)
	expect [ "$again" != "$dead" ]
	reeve wait "$again" >/dev/null
	expect_eq "$cancelled" "$(reeve submit sh --key cancelled 2>/dev/null)"
	stop worker
}

test_a_key_may_have_a_lifetime() {
	start_postgres
	start_manager
	first=$(reeve submit nothing --key k --key-ttl 5s)
	expect_eq "$first" "$(reeve submit nothing --key k 2>/dev/null)"
	wait_until 20 '[ "$(reeve submit nothing --key k --key-ttl 1h 2>/dev/null)" -gt "$first" ]'
	second=$(reeve submit nothing --key k 2>/dev/null)
	expect_eq t "$(sql "select b.created - a.created >= '5s' from tasks a, tasks b where a.id = $first and b.id = $second")"
	expect_eq "$second" "$(reeve submit nothing --key k 2>/dev/null)"
	# The first task has not run yet. Neither its end nor its retry changes the key of the second task.
	start_worker
	reeve wait "$first" "$second" >/dev/null
	reeve retry "$first" >/dev/null
	reeve wait "$first" >/dev/null
	expect_eq "$second" "$(reeve submit nothing --key k 2>/dev/null)"
	# A lifetime counts from the submit, whether the task has long ended or still runs.
	expect_eq t "$(sql "select expires_at - created between '59m' and '61m' from keys join task_history using (task_id) where keys.key = 'k'")"
}

# Files with the same keys in different orders, at two managers: no deadlock, no error, and one task for each key.
test_files_with_the_same_keys_race() {
	start_postgres
	start_manager one
	start_manager two
	start_worker worker --concurrency 4
	for i in $(seq 1 400); do echo "{\"type\":\"nothing\",\"key\":\"k$i\"}"; done >"$DIR/tasks"
	local pids=()
	for i in $(seq 1 8); do
		[ $((i % 2)) = 0 ] && url=${URL[one]} || url=${URL[two]}
		shuf "$DIR/tasks" >"$DIR/tasks.$i"
		reeve submit --bulk "$DIR/tasks.$i" --json --manager "$url" >"$DIR/told.$i" &
		pids+=($!)
	done
	for p in "${pids[@]}"; do wait "$p"; done
	expect_eq 400 "$(sql 'select count(*) from all_tasks')"
	expect_eq 400 "$(cat "$DIR"/told.? | jq -r 'select(.existing | not) | .id' | wc -l)"
	expect_eq 3200 "$(cat "$DIR"/told.? | wc -l)"
	# Every caller got the right task for each line.
	for i in 1 8; do
		paste -d' ' <(jq -r .key "$DIR/tasks.$i") <(jq -r .id "$DIR/told.$i") | sort >"$DIR/pairs.$i"
	done
	expect cmp "$DIR/pairs.1" "$DIR/pairs.8"
	expect_eq "$(sql "select key || ' ' || task_id from keys" | sort)" "$(cat "$DIR/pairs.1")"
	jq -r .id "$DIR/told.1" | reeve wait - >/dev/null
	expect_eq 400 "$(sql 'select count(*) from task_history')"
}

# Six callers submit with a key that expires again and again: a task is created whenever the key is free, and every call
# is answered.
test_keys_that_expire_while_they_are_asked_for() {
	start_postgres
	start_manager one
	start_manager two
	local pids=()
	for i in 1 2 3 4 5 6; do
		[ $((i % 2)) = 0 ] && url=${URL[one]} || url=${URL[two]}
		(for _ in $(seq 1 25); do reeve submit nothing --key k --key-ttl 30ms --json --manager "$url"; done) >"$DIR/told.$i" &
		pids+=($!)
	done
	for p in "${pids[@]}"; do wait "$p"; done
	expect_eq 150 "$(cat "$DIR"/told.? | wc -l)"
	expect_eq "$(sql 'select count(*) from tasks')" "$(cat "$DIR"/told.? | jq -r 'select(.existing | not) | .id' | sort -u | wc -l)"
	expect_eq "$(sql 'select id from tasks order by 1')" "$(cat "$DIR"/told.? | jq -r .id | sort -nu)"
	# No two tasks were created within one lifetime.
	expect_eq 0 "$(sql "select count(*) from (select created - lag(created) over (order by created) as gap from tasks) x where gap < '30ms'")"
}

run_tests
