#!/usr/bin/env bash
# A queue of managers and workers on one table that is its own audit trail: one test for each statement of that design,
# and tests of callers' own ids, times, and fatal errors.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager manager --lease 30s --heartbeat 500ms --expiry-grace 40s --fetch-wait 500ms

# Runs the manager's statement NAME manually, with ARGUMENTS in SQL, and prints its rows.
statement() { # NAME ARGUMENTS
	{
		printf 'set search_path = reeve; prepare s as\n%s;\n' "$(cat "$STATEMENTS/$1.sql")"
		echo "execute s($2);"
	} | "$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U reeve -d reeve
}

version() { # ID
	sql "select last_updated from tasks where id = $1"
}

# Registers a pull client and sets $HAND to its id. It sends no heartbeats, so its attempts are reclaimed only at their
# expiry.
start_hand() {
	HAND=$(sql "insert into workers (name, manual) values ('hand', true) returning id")
}

test_a_task_is_queued_then_executing_then_completed() {
	id=$(reeve submit sh "$HOLD" --queue states)
	expect_eq queued "$(field "$id" status)"
	start_worker states --queue states
	wait_began "$id"
	expect_eq executing "$(field "$id" status)"
	expect_eq "$id" "$(reeve list --status executing --queue states --json | jq .id)"
	expect_eq "$id executing t t" "$(sql "select id, status, details like '%released%', expiry > last_updated and last_updated > created
		from tasks where queue = 'states'" | tr '|' ' ')"
	release
	reeve wait "$id" >/dev/null
	expect_eq completed "$(field "$id" status)"
	expect_eq 'submitted claimed completed' "$(events "$id")"
	stop states
}

test_candidates_are_those_queued_or_executing_and_expired() {
	start_hand
	queued=$(reeve submit nothing --queue candidates)
	later=$(reeve submit nothing --queue candidates --delay 1h)
	held=$(reeve submit nothing --queue candidates --timeout 1h)
	expired=$(reeve submit nothing --queue candidates --timeout 1s)
	# Two tasks are claimed by a client that does not report; the attempt of one of them expires.
	for id in "$held" "$expired"; do
		expect_match "^$id\|" "$(statement claim "'{$id}', '{\"$(version "$id")\"}', '{1}', '{$HAND}', '{$id}', 500")"
	done
	expect_eq "$queued $later" "$(sql "select id from tasks where (status = 'queued' or (status = 'executing' and expiry <= now()))
		and queue = 'candidates' and id <> $expired order by id" | xargs)"
	wait_until 30 '[ "$(field "$expired" status)" != executing ]'
	expect_eq "expired" "$(sql "select outcome from task_attempts where task_id = $expired")"
	# A worker now gets the queued task, and again the expired one.
	start_worker candidates_all --queue candidates
	reeve wait "$queued" "$expired" >/dev/null
	expect_eq 'submitted claimed expired reclaimed claimed completed' "$(events "$expired")"
	expect_eq 'queued executing' "$(field "$later" status) $(field "$held" status)"
	stop candidates_all
}

test_the_lock_is_an_update_whose_row_count_shows_who_won() {
	start_hand
	for round in $(seq 1 5); do
		id=$(reeve submit nothing --queue lock --timeout 1h)
		seen=$(version "$id")
		pids=()
		for i in $(seq 1 6); do
			statement claim "'{$id}', '{\"$seen\"}', '{1}', '{$HAND}', '{$round$i}', 30000" >"$DIR/won.$i" &
			pids+=($!)
		done
		for p in "${pids[@]}"; do wait "$p"; done
		expect_eq 1 "$(cat "$DIR"/won.* | wc -l)" "rows of six who had read the same candidate"
		expect_eq 1 "$(field "$id" attempt)"
		expect_eq 1 "$(sql "select count(*) from assignments where $id = any(task_ids)")"
	done
}

test_completion_is_under_the_same_check() {
	start_hand
	id=$(reeve submit nothing --queue completion --timeout 1h)
	seen=$(version "$id")
	# A completion is refused for a queued task, and under a version that was read before the claim.
	expect_eq '' "$(statement complete "'{$id}', '{\"$seen\"}', '{mine}', 30")"
	statement claim "'{$id}', '{\"$seen\"}', '{1}', '{$HAND}', '{1}', 30000" >/dev/null
	token=$(version "$id")
	expect_eq '' "$(statement complete "'{$id}', '{\"$seen\"}', '{mine}', 30")"
	expect_eq executing "$(field "$id" status)"
	# Of six completions under the right version, one succeeds.
	pids=()
	for i in $(seq 1 6); do
		statement complete "'{$id}', '{\"$token\"}', '{result $i}', 30" >"$DIR/done.$i" &
		pids+=($!)
	done
	for p in "${pids[@]}"; do wait "$p"; done
	expect_eq 1 "$(cat "$DIR"/done.* | wc -l)"
	expect_eq "result $(basename "$(find "$DIR" -name 'done.*' -size +0)" | cut -d. -f2)" "$(field "$id" result)"
	expect_eq 1 "$(sql "select count(*) from task_history where task_id = $id")"
	expect_eq 'completed|t' "$(sql "select status, expiry is null from all_tasks where id = $id")"
}

test_the_worker_of_an_executing_task_is_shown() {
	start_worker operator --queue operated
	id=$(reeve submit sh "$HOLD" --queue operated)
	wait_began "$id"
	expect_eq operator "$(field "$id" worker)"
	expect_eq "$(worker_incarnation operator)" "$(sql "select worker_id from tasks where id = $id and status = 'executing'")"
	expect_match "executing.* operator" "$(reeve list --queue operated)"
	release
	reeve wait "$id" >/dev/null
	# The worker is shown after the end, too.
	expect_eq "operator|$(worker_incarnation operator)" "$(sql "select w.name, h.worker_id from task_history h join workers w on w.id = h.worker_id
		where task_id = $id")"
	stop operator
}

test_the_tables_are_the_audit_trail() {
	start_worker auditor --queue audited
	id=$(reeve submit sh 'exit 1' --queue audited --max-attempts 3 --retry-base 1ms --source ann)
	expect_fail 1 reeve wait "$id"
	expect_eq 'submitted claimed failed claimed failed claimed dead' "$(events "$id")"
	# The caller, the workers and the attempts, in the order of the versions; plain SQL gives the same events.
	expect_eq 'ann auditor auditor auditor auditor auditor auditor' \
		"$(reeve audit "$id" --json | jq -r '[(select(.event == "submitted") | .actor), (select(.event != "submitted") | .worker)] | .[]' | xargs)"
	expect_eq '1 1 2 2 3 3' "$(reeve audit "$id" --json | jq -r 'select(.attempt > 0).attempt' | xargs)"
	reeve audit "$id" --json | jq -r .token | sort -nc
	expect_eq "$(events "$id")" "$(sql "select string_agg(event, ' ' order by version, place) from audit_log where task_id = $id")"
	# Another run removes none of the events.
	reeve retry "$id" >/dev/null
	expect_fail 1 reeve wait "$id"
	expect_match '^submitted claimed failed claimed failed claimed dead retried claimed failed' "$(events "$id")"
	stop auditor
}

test_a_failed_task_is_retried_until_its_attempts_are_used_up() {
	start_worker retrier --queue retried
	good=$(reeve submit sh '[ "$REEVE_ATTEMPT" = 3 ]' --queue retried --retry-base 1ms)
	bad=$(reeve submit sh 'exit 1' --queue retried --retry-base 1ms --retry-limit 1)
	expect_fail 1 reeve wait "$good" "$bad"
	expect_eq 'completed 3' "$(field "$good" status) $(field "$good" attempt)"
	expect_eq 'dead 2' "$(field "$bad" status) $(field "$bad" attempt)"
	stop retrier
}

worker_events() { # NAME: its events, in order
	reeve audit --since '1h ago' --json | jq -sr "[.[] | select(.worker == \"$1\") | .event] | join(\" \")"
}

test_workers_coming_going_loss_and_scaling_are_in_the_audit() {
	start_worker comer --queue coming --concurrency 2
	reeve worker scale comer 3 >/dev/null
	wait_until 20 '[ "$(reeve worker list --json | jq -r "select(.name == \"comer\" and .state == \"alive\").concurrency")" = 3 ]'
	stop comer
	start_worker comer --queue coming
	kill_worker comer
	end_lease comer
	wait_until 30 '[ "$(worker_events comer)" = "registered scaled left registered lost" ]'
	expect_eq 'gone left,gone lost' "$(reeve worker list --all --json | jq -rs 'map(select(.name == "comer") | "\(.state) \(.mode)") | join(",")')"
	expect_match 'concurrency 3' "$(reeve audit --since '1h ago' --json | jq -r 'select(.worker == "comer" and .event == "scaled").note')"
	expect_match '@' "$(reeve audit --since '1h ago' --json | jq -r 'select(.worker == "comer" and .event == "scaled").actor')"
}

test_a_callers_own_id_that_exists_does_nothing() {
	id=$(reeve submit echo one --queue own --key my-own-id-17)
	before=$(sql "select t::text from tasks t where id = $id")
	expect_eq "{\"id\":$id,\"existing\":true,\"restarted\":false}" "$(reeve submit sh two --queue own --key my-own-id-17 --priority 9 --json)"
	expect_eq "$before" "$(sql "select t::text from tasks t where id = $id")"
	expect_eq 1 "$(sql "select count(*) from all_tasks where queue = 'own'")"
	expect_eq submitted "$(events "$id")"
	expect_eq my-own-id-17 "$(field "$id" key)"
}

test_created_updated_begin_and_end_are_shown() {
	id=$(reeve submit sh '[ "$REEVE_ATTEMPT" = 2 ]' --queue times --retry-base 1ms --delay 100ms)
	start_worker timer --queue times
	reeve wait "$id" >/dev/null
	reeve show "$id" --json >"$DIR/task"
	expect_eq true "$(jq '.created < .first_started and .first_started < .started and .started < .ended' "$DIR/task")"
	# Times are those of the database's clock. The version of each change is its time.
	expect_eq t "$(sql "select created < first_started and first_started < started and started < last_updated
		and last_updated <= clock_timestamp() from task_history where task_id = $id")"
	updated=$(reeve audit "$id" --json | jq -s 'map(.token) | . == (sort | unique) or (. == sort)')
	expect_eq true "$updated"
	waits=$(reeve submit nothing --queue times_later --delay 1h)
	before=$(version "$waits")
	reeve update "$waits" --priority 3 >/dev/null
	expect_eq t "$(sql "select last_updated > '$before' and created < last_updated from tasks where id = $waits")"
	stop timer
}

test_fatal_errors_are_not_retried() {
	start_worker fatal --queue fatal
	id=$(reeve submit sh 'echo no way >&2; exit 65' --queue fatal --max-attempts 9 --retry-base 1ms)
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead 1' "$(field "$id" status) $(field "$id" attempt)"
	expect_match 'no way' "$(field "$id" last_error)"
	expect_eq 'submitted claimed dead' "$(events "$id")"
	stop fatal
}

run_tests
