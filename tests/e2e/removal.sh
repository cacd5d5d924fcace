#!/usr/bin/env bash
# Removal of what is no longer used: routes, and replaced definitions of pipelines.
. "$(dirname "$0")/lib.sh"
HISTORY_DAYS=30
. "$(dirname "$0")/tasks.bash"

# Removes the history, as if its days had passed, and waits until all changes are counted.
forget_history() {
	sql 'delete from task_history'
	wait_until 20 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
}

two_days_pass() {
	sql "update routes set used = used - interval '2 days'"
}

retire() { # QUEUE
	forget_history
	two_days_pass
	sql 'select routes_retire(0)' >/dev/null
	expect_eq t "$(sql "select retired is not null from routes where queue = '$1'")" "$1 is retired"
}

last_of() { # QUEUE [MANAGER]: what the manager has said last about the route
	grep ": queue \"$1\"" "$DIR/log/${2:-manager}.log" | tail -n 1
}

known() { # QUEUE MANAGER
	[[ "$(last_of "$@")" = *known:* ]]
}

unknown() { # QUEUE [MANAGER]
	[[ "$(last_of "$@")" = *forgotten:* ]]
}

# Expects that the route is back: all managers know it, and nothing is left of its counts.
expect_back() { # QUEUE NUMBER
	wait_until 10 "[ \"\$(sql \"select id, retired is null from routes where queue = '$1'\")\" = '$2|t' ]"
	wait_until 10 "known $1 one && known $1 two"
	wait_until 10 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
	expect_eq '' "$(sql 'select * from live_counts where live <> 0 or retrying <> 0 or delayed <> 0')"
	expect_eq "$2" "$(sql "select distinct route_id from task_history where queue = '$1'")"
	expect_eq '' "$(sql 'select task_id from task_history h where not exists (select from routes r where r.id = h.route_id and r.retired is null)')"
}

# Begins a transaction that stays open until end_transaction.
begin_transaction() { # SQL: what it prints is in $DIR/application
	mkfifo "$DIR/statements"
	"$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U reeve -d reeve <"$DIR/statements" >"$DIR/application" 2>&1 &
	APPLICATION=$!
	exec 7>"$DIR/statements"
	echo "set application_name = 'application'; set search_path = reeve; begin; $1;" >&7
	wait_until 10 '[ "$(sql "select state from pg_stat_activity where application_name = '"'application'"'")" = "idle in transaction" ] && [ -s "$DIR/application" ]'
}

end_transaction() {
	echo 'commit;' >&7
	exec 7>&-
	wait "$APPLICATION"
	rm "$DIR/statements"
}

test_a_route_without_tasks_retires_and_comes_back() {
	start_postgres
	start_manager manager --max-routes 2 --log-level debug
	start_worker
	reeve submit sh --queue once true --wait >/dev/null
	reeve submit sh --queue waits true --delay 1h >/dev/null
	expect_fail 4 reeve submit sh --queue other true
	way=$(sql "select id from routes where queue = 'once'")
	wait_until 20 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
	two_days_pass
	expect_eq 0 "$(sql 'select gone from routes_retire(0)')" 'one is in the history, one waits'
	forget_history
	# Managers retire routes without being asked.
	stop manager
	start_manager manager --max-routes 2 --log-level debug
	wait_until 20 'unknown once'
	expect_eq once "$(sql 'select queue from routes where retired is not null')"
	expect_eq waits "$(reeve queue list --json | jq -r .queue | sort -u)"
	expect_eq "$(sql "select id from routes where queue = 'waits'")" "$(sql 'select route_id from live_counts')"
	expect reeve list --queue waits >/dev/null
	# A retired route makes room for another one.
	reeve submit sh --queue other true --wait >/dev/null
	expect_fail 4 reeve submit sh --queue another true
	# The route comes back under its old id.
	id=$(sql "select reeve.submit('sh', 'printf again', queue => 'once')")
	expect_eq again "$(timeout 20 "$REEVE_BIN/reeve" wait "$id" --json | jq -r .result)"
	wait_until 10 '! unknown once'
	expect_eq "$way|" "$(sql "select id, retired from routes where queue = 'once'")"
	# It stays for a day, even if its tasks are gone.
	forget_history
	expect_eq 0 "$(sql 'select gone from routes_retire(0)')"
	# A manual recount may come before the changes are added up, and must restore retired routes, too.
	sql 'begin; update routes set retired = now(); select counts_recount(); commit' >/dev/null
	expect_eq waits "$(sql 'select queue from routes where retired is null')"
}

test_a_task_that_comes_while_its_route_retires_is_not_lost() {
	start_postgres
	start_manager one --log-level debug
	start_manager two --log-level debug
	start_worker worker --manager "${URL[one]},${URL[two]}"
	expect_eq first "$(reeve submit echo first --queue late --wait)"
	way=$(sql "select id from routes where queue = 'late'")
	# The task begins and ends before the retirement is visible, and before anything of it is counted.
	forget_history
	begin_transaction "update routes set used = used - interval '2 days'; select gone from routes_retire(0)"
	expect_eq 1 "$(cat "$DIR/application")"
	expect_eq second "$(reeve submit echo second --queue late --wait)"
	expect [ "$(sql 'select count(*) from count_changes')" -ge 2 ]
	end_transaction
	expect_back late "$way"
	# A task is submitted by a transaction that commits only when all managers have forgotten the route.
	begin_transaction "select reeve.submit('echo', 'third', queue => 'late')"
	retire late
	wait_until 10 'unknown late one && unknown late two'
	end_transaction
	expect_eq third "$(timeout 20 "$REEVE_BIN/reeve" wait "$(cat "$DIR/application")" --json | jq -r .result)"
	expect_back late "$way"
	# A task is submitted to a manager that was frozen during the retirement.
	signal one STOP
	retire late
	wait_until 10 'unknown late two'
	start frozen "$REEVE_BIN/reeve" submit echo fourth --queue late --manager "${URL[one]}"
	pause 0.3
	signal one CONT
	ended frozen 20
	expect_eq fourth "$(timeout 20 "$REEVE_BIN/reeve" wait "$(cat "$DIR/log/frozen.log")" --manager "${URL[two]}" --json | jq -r .result)"
	expect_back late "$way"
	# A task is submitted to a manager that must query the route: the route is back at once, before anything is counted.
	retire late
	wait_until 10 'unknown late one && unknown late two'
	begin_transaction "select name from locks where name = 'counts' for no key update"
	expect_eq fifth "$(reeve submit echo fifth --queue late --manager "${URL[two]}" --wait)"
	expect_eq t "$(sql "select retired is null from routes where queue = 'late'")"
	end_transaction
	expect_back late "$way"
}

# Routes retire as fast as possible while their tasks are submitted, at two managers and by SQL.
test_routes_that_retire_while_tasks_are_submitted_lose_none() {
	start_postgres
	start_manager one
	start_manager two
	handlers <<-END
		[handler mark]
		exec = /bin/bash -c "echo \$REEVE_TASK_ID >>'$DIR/ran'"
	END
	start_worker worker --manager "${URL[one]},${URL[two]}" --concurrency 4
	start retire bash -c "until [ -e '$DIR/enough' ]; do
		PGOPTIONS='-c search_path=reeve' '$REEVE_TEST_PG_BIN/psql' -XAtq -h '$PGDIR' -U postgres -d reeve -c 'delete from task_history' \
			-c \"update routes set used = used - interval '2 days'\" -c 'select gone from routes_retire(0)'
		done"
	for name in one two; do
		start "submit-$name" bash -c "for ((n = 0; ; n++)); do
			[ ! -e '$DIR/enough' ] || break
			'$REEVE_BIN/reeve' submit mark --queue \"q\$((n % 4))\" --manager '${URL[$name]}' || echo failed
			sleep 0.\$((1 + RANDOM % 9))
		done"
	done
	end=$((SECONDS + 60))
	for ((n = 0; $(awk '{ n += $1 } END { print n + 0 }' "$DIR/log/retire.log") < 5; n++)); do
		[ "$SECONDS" -lt "$end" ] || fail 'hardly any route ever retired'
		sql "select reeve.submit('mark', queue => 'q$((n % 4))')" >>"$DIR/log/submit-sql.log"
		sleep 0.1
	done
	touch "$DIR/enough"
	ended submit-one 20
	ended submit-two 20
	ended retire
	sort -n "$DIR"/log/submit-*.log >"$DIR/submitted"
	expect_eq '' "$(grep -v '^[0-9]*$' "$DIR/submitted")" 'submits that failed'
	note "retired: 5 times or more during $(wc -l <"$DIR/submitted") submits"
	wait_until 30 'sort -n "$DIR/ran" | cmp -s "$DIR/submitted"'
	wait_until 20 '[ "$(sql "select count(*) from count_changes")" = 0 ]'
	expect_eq '' "$(sql 'select task_id, r.id from task_history h left join routes r on r.id = h.route_id where r.retired is not null or r.id is null')"
	expect_eq 4 "$(sql 'select count(*) from routes')"
}

test_a_replaced_pipeline_goes_when_no_task_has_it() {
	start_postgres
	start_manager
	letter_handlers
	for stages in '"a"}, {"name": "two", "type": "b"' '"b"' '"a"'; do
		echo "{\"name\": \"p\", \"stages\": [{\"name\": \"one\", \"type\": $stages}]}" | reeve pipeline define - >/dev/null
		[ -n "${id:-}" ] || id=$(reeve submit --pipeline p x --delay 1h)
	done
	# Three definitions: the first has a task, the second never had any, the third is current.
	sql "update pipelines set replaced_at = replaced_at - interval '2 days'"
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select string_agg(id::text, '"','"') from pipelines where unused_since is not null")" = 2 ]'
	sql "update pipelines set unused_since = unused_since - interval '60 days'"
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select string_agg(id::text, '"','"' order by id) from pipelines")" = 1,3 ]'
	# The task keeps its definition, also in a retry just before the definition would be removed.
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

# After the retention was shortened, dead tasks may stay for longer than it says, and need their definition in a retry.
test_a_replaced_pipeline_stays_for_dead_tasks() {
	start_postgres
	start_manager
	start_worker
	echo '{"name": "p", "stages": [{"name": "one", "type": "sh"}, {"name": "two", "type": "echo"}]}' >"$DIR/pipeline"
	reeve pipeline define "$DIR/pipeline" >/dev/null
	id=$(reeve submit --pipeline p '[ -e "$REEVE_TEST_DIR/again" ] || exit 65; printf two')
	expect_fail 1 reeve wait "$id"
	reeve pipeline define "$DIR/pipeline" >/dev/null
	sql "update pipelines set replaced_at = now() - interval '60 days', unused_since = now() - interval '60 days', unused_xid = '3' where id = 1;
		update task_history set last_updated = last_updated - interval '61 days', keep_until = keep_until + 60"
	stop manager
	start_manager
	wait_until 20 '[ "$(sql "select unused_since > now() - interval '"'1 hour'"' from pipelines where id = 1")" = t ]'
	touch "$DIR/again"
	reeve retry "$id" >/dev/null
	expect_eq two "$(reeve wait "$id" --json | jq -r .result)"
}

# For rows that depend on no queue's setting, the manager with the longest retention decides.
test_managers_with_different_days_forget_by_the_longest() {
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

run_tests
