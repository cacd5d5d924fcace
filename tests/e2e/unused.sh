#!/usr/bin/env bash
# What nothing uses any more goes: routes, and definitions of pipelines that were replaced. What comes back just then is not lost.
# shellcheck disable=SC1091,SC2016,SC2034,SC2154
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

# The history is over, as if its days had passed.
forget_history() {
	sql 'delete from task_history'
	wait_until 20 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
}

two_days_pass() {
	sql "update routes set used = used - interval '2 days', unused_since = unused_since - interval '2 days'"
}

purge() { # prints how many it found unused, or deleted
	sql 'select gone from routes_purge(0)'
}

delete_unused() { # HOW-MANY: routes
	forget_history
	two_days_pass
	expect_eq "$1" "$(purge)"
	two_days_pass
	expect_eq "$1" "$(purge)"
}

# A transaction of an application, which is open until end_transaction.
begin_transaction() { # SQL: what it prints is in $DIR/application
	mkfifo "$DIR/statements"
	"$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U reeve -d reeve <"$DIR/statements" >"$DIR/application" 2>&1 &
	APPLICATION=$!
	exec 7>"$DIR/statements"
	echo "set application_name = 'application'; begin; $1;" >&7
	wait_until 10 '[ "$(sql "select state from pg_stat_activity where application_name = '"'application'"'")" = "idle in transaction" ] && [ -s "$DIR/application" ]'
}

end_transaction() {
	echo 'commit;' >&7
	exec 7>&-
	wait "$APPLICATION"
	rm "$DIR/statements"
}

story_a_route_without_tasks_goes_and_comes_back() {
	start_postgres
	start_manager
	start_worker
	reeve submit sh --queue once true --wait >/dev/null
	reeve submit sh --queue waits true --delay 1h >/dev/null
	way=$(sql "select id from routes where queue = 'once'")
	wait_until 20 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
	two_days_pass
	expect_eq 0 "$(purge)" 'one is in the history, one waits'
	forget_history
	expect_eq 1 "$(purge)"
	expect_eq "$way" "$(sql 'select id from routes where unused_since is not null')"
	expect_eq 0 "$(purge)" 'a day has not passed'
	wait_until 10 '! reeve list --queue once'
	expect_fail 4 reeve list --queue once
	expect reeve list --queue waits >/dev/null
	# It is the same one.
	expect_eq again "$(reeve submit sh --queue once 'printf again' --wait)"
	expect_eq "$way|" "$(sql "select id, unused_since from routes where queue = 'once'")"
	expect reeve list --queue once >/dev/null
	# The managers do all of that.
	forget_history
	two_days_pass
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select count(*) from routes where unused_since is not null")" = 1 ]'
	two_days_pass
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select string_agg(queue, '"','"') from routes")" = waits ]'
	expect_eq 0 "$(sql "select (select count(*) from live_counts where route_id = $way) + (select count(*) from history_counts where route_id = $way)")"
	expect_eq anew "$(reeve submit sh --queue once 'printf anew' --wait)"
}

story_a_task_that_comes_to_a_deleted_route_runs() {
	start_postgres
	start_manager
	start_worker
	reeve submit echo first --queue late --wait >/dev/null
	way=$(sql "select id from routes where queue = 'late'")
	begin_transaction "select reeve.submit('echo', 'second', queue => 'late')"
	delete_unused 1
	expect_eq 0 "$(sql 'select count(*) from routes')"
	end_transaction
	expect_eq second "$(timeout 20 "$REEVE_BIN/reeve" wait "$(cat "$DIR/application")" --json | jq -r .result)"
	# The next look at the counts brings it back, with its number.
	wait_until 10 "[ \"\$(sql \"select id from routes where queue = 'late'\")\" = $way ]"
	# By now somebody else has made it anew.
	begin_transaction "select reeve.submit('echo', 'third', queue => 'late')"
	delete_unused 1
	wait_until 10 '! reeve list --queue late'
	expect_eq fourth "$(reeve submit echo fourth --queue late --wait)"
	other=$(sql "select id from routes where queue = 'late'")
	[ "$other" != "$way" ] || fail "it has the number of the deleted one"
	end_transaction
	id=$(cat "$DIR/application")
	expect_eq third "$(timeout 20 "$REEVE_BIN/reeve" wait "$id" --json | jq -r .result)"
	expect_eq "$other" "$(sql "select route_id from task_history where task_id = $id")"
	wait_until 20 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
	expect_eq '' "$(sql 'select * from live_counts where live <> 0 or retrying <> 0 or delayed <> 0')"
}

# Routes are deleted as fast as they can be while tasks of them are submitted, at two managers and by SQL.
story_a_purge_that_races_submits_loses_nothing() {
	start_postgres
	start_manager one
	start_manager two
	handlers <<-END
		[handler mark]
		exec = /bin/bash -c "echo \$REEVE_TASK_ID >>'$DIR/ran'"
	END
	start_worker worker --manager "${URL[one]},${URL[two]}" --concurrency 4
	start purge bash -c "until [ -e '$DIR/enough' ]; do
		PGOPTIONS='-c search_path=reeve' '$REEVE_TEST_PG_BIN/psql' -XAtq -h '$PGDIR' -U postgres -d reeve -c 'delete from task_history' \
			-c \"update routes set used = used - interval '2 days', unused_since = unused_since - interval '2 days'\" -c 'select gone from routes_purge(0)'
		done"
	for name in one two; do
		start "submit-$name" bash -c "for n in \$(seq 40); do
			'$REEVE_BIN/reeve' submit mark --queue \"q\$((n % 4))\" --manager '${URL[$name]}' || echo failed; done"
	done
	for n in $(seq 40); do
		sql "select reeve.submit('mark', queue => 'q$((n % 4))')" >>"$DIR/log/submit-sql.log"
	done
	ended submit-one 60
	ended submit-two 60
	sort -n "$DIR"/log/submit-*.log >"$DIR/submitted"
	expect_eq 120 "$(grep -c '^[0-9]*$' "$DIR/submitted")"
	wait_until 30 'sort -n "$DIR/ran" | cmp -s "$DIR/submitted"'
	touch "$DIR/enough"
	ended purge
	[ "$(sql 'select max(id) from routes')" -gt 8 ] || fail 'no route was ever deleted'
}

story_a_replaced_pipeline_goes_when_no_task_has_it() {
	start_postgres
	start_manager
	handlers <<-'END'
		[handler a]
		exec = /bin/bash -c "cat; printf a"
		[handler b]
		exec = /bin/bash -c "cat; printf b"
	END
	for stages in '"a"}, {"name": "two", "type": "b"' '"b"' '"a"'; do
		echo "{\"name\": \"p\", \"stages\": [{\"name\": \"one\", \"type\": $stages}]}" | reeve pipeline define - >/dev/null
		[ -n "${id:-}" ] || id=$(reeve submit --pipeline p x --delay 1h)
	done
	# Three definitions: the first has a task, the second never had any, the third stands.
	sql "update pipelines set replaced_at = replaced_at - interval '2 days'"
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select string_agg(id::text, '"','"') from pipelines where unused_since is not null")" = 2 ]'
	sql "update pipelines set unused_since = unused_since - interval '60 days'"
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select string_agg(id::text, '"','"' order by id) from pipelines")" = 1,3 ]'
	# The task goes on as it began, and once more when its definition is about to go.
	start_worker
	reeve retry "$id" >/dev/null
	expect_eq xab "$(reeve wait "$id" --json | jq -r .result)"
	stop worker
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select id from pipelines where unused_since is not null")" = 1 ]'
	sql "update pipelines set unused_since = unused_since - interval '60 days'"
	reeve retry "$id" >/dev/null
	stop manager
	start_manager
	launch_worker
	expect_eq completed "$(reeve wait "$id" --json | jq -r .status)"
	expect_eq 1,3 "$(sql "select string_agg(id::text, ',' order by id) from pipelines")"
}

# What is not a queue's to say goes by the manager that keeps it longest.
story_managers_with_different_days_forget_by_the_longest() {
	start_postgres
	start_manager long --history-days 30
	sql "insert into queue_events (queue, at, event) select 'q', now() - interval '1 day' * d, 'queue_set' from unnest(array[10, 50]) d;
		insert into schedule_events (schedule_id, schedule, at, event) select 1, 's', now() - interval '1 day' * d, 'schedule_added' from unnest(array[10, 50]) d;
		insert into worker_events (worker_id, at, event) select 1, now() - interval '1 day' * d, 'left' from unnest(array[10, 50]) d;
		insert into callbacks (batch_id, event, url, payload, state, ended_at)
			select 1, 'task_end', 'http://127.0.0.1/', '{}', 'delivered', now() - interval '1 day' * d from unnest(array[10, 50]) d"
	left="select (select count(*) from queue_events where queue = 'q'), (select count(*) from schedule_events),
		(select count(*) from worker_events where worker_id = 1), (select count(*) from callbacks)"
	start_manager short --history-days 2
	wait_until 20 '[ "$(sql "$left")" = "1|1|1|1" ]'
	stop short
	stop long
	start_manager short --history-days 2
	wait_until 20 '[ "$(sql "$left")" = "0|0|0|0" ]'
}

run_stories
