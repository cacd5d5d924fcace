#!/usr/bin/env bash
# The worked examples (examples/README.md) as they are, with short nights; and handlers that submit tasks.
# timeout 400
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager manager --heartbeat 300ms

example() { # NAME: its worker and its tables, in a database of its own, or in Reeve's
	local name=$1 database=${2:-$1}
	export PATH=$TOP/examples/$name:$REEVE_BIN:$REEVE_TEST_PG_BIN:$PATH
	database=${database//-/_}
	[ "$database" = reeve ] || sql "create database $database"
	export APP_DATABASE="host=$PGDIR user=postgres dbname=$database"
	psql "$APP_DATABASE" -Xq -v ON_ERROR_STOP=1 -f "$TOP/examples/$name/schema.sql"
	HANDLERS=$TOP/examples/$name/handlers.ini
	# The worker gets the managers only by its option, so that its handlers know them only from the worker.
	where=$REEVE_MANAGER
	unset REEVE_MANAGER
	start "$name" "$REEVE_BIN/reeve-worker" --manager "$where" --handlers "$HANDLERS" --concurrency 4 --name "$name"
	wait_until 20 "[ \"\$(worker_incarnation '$name')\" -gt 0 ]"
	export REEVE_MANAGER=$where
}

app() {
	psql "$APP_DATABASE" -XAtq -v ON_ERROR_STOP=1 -c "$1"
}

run_now() { # SCHEDULE: and wait for its task; prints its result
	local id
	id=$(reeve schedule run "$1" --json | jq -r .task_id)
	reeve wait "$id" --max-wait 60s >/dev/null
	reeve show "$id" --json | jq -r '.result | rtrimstr("\n")'
}

tick() { # SCHEDULE 'TIME': its next tick is that one, and due; waits until it has come of it
	local before
	before=$(sql "select count(*) from schedule_runs r join schedules s on s.id = r.schedule_id where s.name = '$1'")
	sql "update schedules set next_at = $2, last_updated = last_updated + interval '1us' where name = '$1'"
	wait_until 20 "[ \"\$(sql \"select count(*) from schedule_runs r join schedules s on s.id = r.schedule_id where s.name = '$1'\")\" -gt $before ]"
}

ticks() { # SCHEDULE: what came of its ticks, in order
	sql "select string_agg(r.outcome, ' ' order by r.id) from schedule_runs r join schedules s on s.id = r.schedule_id
		where s.name = '$1'"
}

# Prints a time zone in which it is early in the afternoon. The examples plan for the night and the morning: in that zone
# nothing becomes due by itself while a test runs, and no clock is put forward or back.
afternoon() {
	printf 'Etc/GMT%+d' $((10#$(date -u +%H) - 14))
}

queue_done() { # QUEUE: nothing of it is live
	wait_until 60 "[ \"\$(sql \"select count(*) from tasks where queue = '$1'\")\" = 0 ]"
}

#
# Handlers that submit tasks.
#

test_a_handler_submits_to_the_managers_of_its_worker_as_its_task() {
	local where=$REEVE_MANAGER id made
	default_handlers
	export PATH=$REEVE_BIN:$PATH
	unset REEVE_MANAGER
	start worker "$REEVE_BIN/reeve-worker" --manager "$where" --handlers "$HANDLERS" --name worker
	export REEVE_MANAGER=$where
	id=$(reeve submit sh 'echo "$REEVE_MANAGER"; reeve submit echo made --key "$REEVE_TASK_ID:1"; reeve submit echo --source me')
	reeve wait "$id" >/dev/null
	{
		read -r manager
		read -r made
		read -r named
	} < <(reeve show "$id" --json | jq -r .result)
	expect_eq "$where" "$manager"
	expect_eq "task $id" "$(field "$made" source)"
	expect_eq me "$(field "$named" source)"
	expect_eq "$made" "$(reeve list --where "source=\"task $id\"" --json | jq -r .id)"
	# The actor of its changes is its task, too.
	made=$(reeve submit echo --queue later --delay 1h)
	id=$(reeve submit sh "reeve cancel $made")
	reeve wait "$id" >/dev/null
	expect_eq "task $id" "$(event_field "$made" cancelled actor | grep . || event_field "$made" cancel_requested actor)"
	# A nested submit names the task that submits it, not the first one.
	id=$(reeve submit sh 'reeve submit sh "reeve submit echo deep"')
	wait_until 20 '[ "$(reeve list --type echo --limit 1 --json | jq -r .status)" = completed ] && [ "$(sql "select count(*) from tasks")" = 0 ]'
	made=$(reeve list --type sh --limit 1 --json | jq -r .id)
	expect_eq "task $id" "$(field "$made" source)"
	expect_eq "task $made" "$(reeve list --type echo --limit 1 --json | jq -r .source)"
}

test_what_a_handler_submits_is_there_once_though_it_runs_twice() {
	local id
	default_handlers
	export PATH=$REEVE_BIN:$PATH
	start_worker first
	# As in docs/worker.md: a task for each line. The first attempt is killed, with its worker, after its submits.
	cat >"$DIR/fan-out" <<-'END'
		#!/bin/bash
		jq -Rc '{details: ., key: (env.REEVE_TASK_ID + ":" + (input_line_number | tostring))}' | reeve submit --bulk - echo --queue lines
		touch "$REEVE_TEST_DIR/submitted.$REEVE_ATTEMPT"
		[ "$REEVE_ATTEMPT" = 2 ] || sleep 60
	END
	chmod +x "$DIR/fan-out"
	printf '[handler fan-out]\nexec = %s/fan-out\n[handler echo]\nexec = /bin/cat\n' "$DIR" >"$DIR/fan-out.ini"
	stop first
	HANDLERS=$DIR/fan-out.ini
	start_worker second
	id=$(printf 'one\ntwo\nthree\n' | reeve submit fan-out -)
	wait_until 20 '[ -e "$DIR/submitted.1" ]'
	queue_done lines
	kill_worker second
	end_lease second
	start_worker third
	reeve wait "$id" --max-wait 30s >/dev/null
	expect_eq 2 "$(field "$id" attempt)"
	expect_eq 'one,three,two' "$(sql "select string_agg(details, ',' order by details) from task_history where queue = 'lines'")"
	expect_eq 3 "$(grep -c . <<<"$(reeve show "$id" --json | jq -r .result)")" 'the ids that the second attempt was told'
}

test_a_c_function_submits_tasks() {
	local id
	start planner "$REEVE_BIN/example-planner" "$REEVE_MANAGER"
	id=$(reeve submit plan 3)
	reeve wait "$id" --max-wait 30s >/dev/null
	expect_eq '3 created' "$(field "$id" result)"
	expect_eq '0,1,2' "$(sql "select string_agg(details, ',' order by id) from tasks where source = 'task $id' and parent_id = $id")"
	# A second run finds all of them.
	sql "update task_history set status = 'dead' where task_id = $id"
	reeve retry "$id" >/dev/null
	reeve wait "$id" --max-wait 30s >/dev/null
	expect_eq '0 created' "$(field "$id" result)"
	expect_eq 3 "$(sql "select count(*) from tasks where source = 'task $id'")"
	reeve cancel --where "source=\"task $id\"" >/dev/null
	# One that is stopped half-way is not done.
	id=$(reeve submit plan 1000000)
	wait_until 20 "[ \"\$(sql \"select count(*) from tasks where source = 'task $id'\")\" -gt 0 ]"
	reeve worker stop "$(field "$id" worker)" >/dev/null
	ended planner
	expect_eq queued "$(field "$id" status)"
	reeve cancel --where "source=\"task $id\"" >/dev/null
	reeve cancel "$id" >/dev/null
}

#
# The examples.
#

test_nightly_analytics() {
	local day yesterday
	ZONE=$(afternoon)
	export ZONE
	example nightly-analytics
	day=$(TZ=$ZONE date +%F)
	yesterday=$(date -d "$day - 1 day" +%F)
	app "insert into accounts select n, 'account ' || n, n <> 13 from generate_series(1, 20) n;
		insert into orders select 1 + n % 20, date '$yesterday' + interval '1 minute' * n, 10 from generate_series(1, 100) n"
	"$TOP/examples/nightly-analytics/set-up" >/dev/null
	expect_eq 'analytics left-over night-closes night-opens' "$(reeve schedule list --json | jq -r .name | sort | xargs)"

	expect_eq '0 wait for the next night, 0 ended dead' "$(run_now left-over)" # there was no night yet

	# The plan runs while the night's queue is closed: its tasks wait. The plan runs twice, and creates each task once.
	tick analytics "((timestamp '$day 00:01') at time zone '$ZONE')"
	wait_until 20 '[ "$(sql "select count(*) from task_history where type = '"'plan-analytics'"'")" = 1 ]'
	expect_eq 19 "$(reeve queue status night --json | jq .waiting)"
	expect_eq "analytics:$yesterday:1" "$(sql "select key from tasks where queue = 'night' order by id limit 1")"
	expect_eq "{\"account\":1,\"day\":\"$yesterday\"}" "$(sql "select details from tasks where queue = 'night' order by id limit 1")"
	run_now analytics >/dev/null
	expect_eq 19 "$(reeve queue status night --json | jq .waiting)"

	# The schedule of 00:01 opens the queue, even if it fires late.
	tick night-opens "((timestamp '$day 00:01') at time zone '$ZONE')"
	expect_eq acted "$(ticks night-opens)"
	queue_done night
	expect_eq '19 95 950' "$(app "select count(*), sum(orders), sum(total)::int from analytics where day = '$yesterday'" | tr '|' ' ')"
	expect_eq 0 "$(app 'select count(*) from analytics where account = 13')"
	expect_eq '0 wait for the next night, 0 ended dead' "$(run_now left-over)"

	# At 08:00 running tasks may finish; the others wait for the next night, and are reported.
	reeve schedule run night-closes >/dev/null
	expect_eq paused "$(reeve queue status night --json | jq -r .state)"
	app "insert into accounts values (21, 'late')"
	app "delete from analytics where account = 1"
	run_now analytics >/dev/null
	id=$(reeve schedule run left-over --json | jq -r .task_id)
	expect_fail 1 reeve wait "$id" --max-wait 30s
	expect_match '1 wait for the next night, 0 ended dead' "$(field "$id" last_error)"
	expect_fail 2 reeve check --dead-per-hour 0 --type left-over
	reeve schedule run night-opens >/dev/null
	queue_done night
	expect_eq 1 "$(app 'select count(*) from analytics where account = 21')"

	# The alternative: a stopped queue keeps no tasks.
	reeve schedule run night-closes >/dev/null
	app "insert into accounts values (22, 'later')"
	run_now analytics >/dev/null
	reeve schedule add night-stops --manual --queue-action stop --queue night
	reeve schedule run night-stops >/dev/null
	queue_done night
	expect_eq "analytics:$yesterday:22" "$(reeve list --where 'queue=night code=queue_stopped newer=1h' --json | jq -r .key)"
	# A task that an earlier night has left over, and that ended dead in this one, is reported, too.
	sql "update task_history set created = created - interval '1 day' where queue = 'night' and status = 'dead'"
	id=$(reeve schedule run left-over --json | jq -r .task_id)
	expect_fail 1 reeve wait "$id" --max-wait 30s
	expect_match '0 wait for the next night, 1 ended dead' "$(field "$id" last_error)"
}

test_reminders() {
	example reminders reeve
	printf '#!/bin/sh\necho "$1 $4" >>"%s/mails"\n[ "$1" != bounces@example.org ]\n' "$DIR" >"$DIR/send-mail"
	chmod +x "$DIR/send-mail"
	stop reminders
	export SEND_MAIL=$DIR/send-mail
	start reminders-again "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" --handlers "$HANDLERS" --concurrency 4
	reeve queue set reminders --backoff exp:1h:2h --retry-limit 10 >/dev/null
	reeve schedule add reminders --cron '0 9 * * *' --zone "$(afternoon)" select-accounts >/dev/null
	sql "insert into public.accounts values
		(1, 'ann@example.org', true, now() + interval '2 days', now() - interval '1 week'),
		(2, 'here@example.org', true, now() + interval '2 days', now()),
		(3, 'pays@example.org', true, null, now() - interval '1 week'),
		(4, 'quiet@example.org', false, now() + interval '2 days', now() - interval '1 week'),
		(5, 'bounces@example.org', true, now() + interval '1 day', now() - interval '1 week'),
		(6, 'later@example.org', true, now() + interval '9 days', now() - interval '1 week')"
	tick reminders "now() - interval '1 second'"
	wait_until 20 '[ "$(sql "select count(*) from public.reminders")" = 1 ]'
	wait_until 20 "[ \"\$(sql \"select count(*) from tasks where queue = 'reminders' and status = 'failed'\")\" = 1 ]"
	expect_eq '2 accounts pass the filter' "$(sql "select rtrim(result, e'\n') from task_history where type = 'select-accounts'")"
	expect_match '^task [0-9]+$' "$(sql "select source from task_history where type = 'remind'")"
	# Again: one account was reminded; the other one still passes the filter, and has its task already.
	expect_eq '1 accounts pass the filter' "$(run_now reminders)"
	sql 'delete from public.reminders' # as if it had not been written: the key knows
	expect_eq '2 accounts pass the filter' "$(run_now reminders)"
	expect_eq 2 "$(sql "select count(*) from all_tasks where queue = 'reminders'")"
	expect_eq 'ann@example.org bounces@example.org' "$(cut -d' ' -f1 "$DIR/mails" | sort | xargs)"
	# A longer trial leads to another reminder; an account that has paid by then gets none.
	sql "update public.accounts set trial_ends = trial_ends + interval '12 hours' where id = 1"
	reeve queue pause reminders >/dev/null
	expect_eq '2 accounts pass the filter' "$(run_now reminders)"
	sql 'update public.accounts set trial_ends = null where id = 1'
	reeve queue resume reminders >/dev/null
	wait_until 20 "[ \"\$(sql \"select count(*) from task_history where queue = 'reminders' and result like 'nobody%'\")\" = 1 ]"
	expect_eq 2 "$(grep -c . "$DIR/mails")"
	reeve cancel --where 'queue=reminders status=failed' >/dev/null
}

events() { # COUNT [DAY]: that many, of three accounts, in two hours
	awk -v n="$1" -v day="${2:-14}" 'BEGIN { for (i = 0; i < n; i++)
		printf "{\"account\": %d, \"endpoint\": \"/v1/orders\", \"at\": \"2026-01-%dT0%d:30:00Z\"}\n", i % 3, day, 8 + i % 2 }'
}

test_api_events() {
	local id
	example api-events
	{
		events 2500
		# A thousand long lines do not fit into an argument of a program.
		for _ in $(seq 1000); do printf '{"account": 9, "endpoint": "/v1/%0200d", "at": "2026-01-14T08:00:00Z", "agent": "a\\tb"}\n' 0; done
	} >"$DIR/access.1"
	expect_eq 4 "$(ship "$DIR/access.1")"
	queue_done events
	expect_eq '3500 7' "$(app 'select sum(calls), count(*) from api_counts' | tr '|' ' ')"
	expect_eq '0|08:00|417' "$(app "select account, to_char(hour at time zone 'UTC', 'HH24:MI'), calls from api_counts order by account, hour limit 1")"
	# Shipped again, each chunk is known, even if the file has another name by then; and the next day's file, which has the
	# name, has other chunks.
	ship "$DIR/access.1" >/dev/null
	mv "$DIR/access.1" "$DIR/access.2"
	events 10 15 >"$DIR/access.1"
	ship "$DIR/access.1" "$DIR/access.2" >/dev/null
	queue_done events
	expect_eq 3510 "$(app 'select sum(calls) from api_counts')"
	# A task whose effect was committed, but not acknowledged, counts nothing when it runs again.
	id=$(sql "select min(task_id) from task_history where queue = 'events'")
	sql "update task_history set status = 'dead' where task_id = $id"
	reeve retry "$id" >/dev/null
	reeve wait "$id" >/dev/null
	expect_eq 'counted before' "$(field "$id" result)"
	expect_eq 3510 "$(app 'select sum(calls) from api_counts')"
	# A chunk that cannot be read is not counted, not even in part.
	{
		events 5
		echo nonsense
	} >"$DIR/access.3"
	reeve queue set events --retry-limit 0 >/dev/null
	ship "$DIR/access.3" >/dev/null
	queue_done events
	expect_eq 3510 "$(app 'select sum(calls) from api_counts')"
	expect_eq '6|dead' "$(sql "select count(*), max(status) filter (where details like '%nonsense%') from task_history where queue = 'events'")"
}

test_a_cleanup_at_two() {
	local id zone
	zone=$(afternoon)
	example cleanup
	app "insert into sessions (last_used) select now() - interval '1 day' * (n % 60) from generate_series(1, 6000) n"
	reeve schedule add cleanup --cron '0 2 * * *' --zone "$zone" --catch-up one --concurrency-policy forbid cleanup >/dev/null
	expect_eq '02:00' "$(sql "select to_char(next_at at time zone '$zone', 'HH24:MI') from schedules where name = 'cleanup'")"
	# After three nights without a manager, one run catches up.
	tick cleanup "((date_trunc('day', now() at time zone '$zone') - interval '2 days' + interval '2 hours') at time zone '$zone')"
	wait_until 30 "[ \"\$(sql \"select count(*) from task_history where type = 'cleanup'\")\" = 1 ]"
	expect_eq 'missed submitted' "$(ticks cleanup)"
	expect_eq 0 "$(app "select count(*) from sessions where last_used < now() - interval '1 month'")"
	expect [ "$(app 'select count(*) from sessions')" -gt 2900 ]
	id=$(sql "select task_id from task_history where type = 'cleanup'")
	expect_match '^[0-9]+ deleted$' "$(field "$id" remark)"
	expect_eq '02:00 t' "$(sql "select to_char(next_at at time zone '$zone', 'HH24:MI'), next_at > now() from schedules where name = 'cleanup'" | tr '|' ' ')"
	# A run that is still live the next night is not joined by another one. Here it waits, because its queue is paused.
	# (The key has the date, and today's key is taken, unlike that of another night: so the test deletes it.)
	reeve queue pause default >/dev/null
	sql "delete from keys where key like 'cleanup:%'"
	tick cleanup "now() - interval '2 seconds'"
	tick cleanup "now() - interval '1 second'"
	expect_eq 'missed submitted submitted overlapped' "$(ticks cleanup)"
	reeve queue resume default >/dev/null
	wait_until 30 "[ \"\$(sql \"select count(*) from task_history where type = 'cleanup'\")\" = 2 ]"
}

test_a_weekly_report_from_sign_up_on() {
	example weekly-report
	# Accounts that signed up a week ago, whose report is due in half an hour, that have left, and that signed up
	# yesterday; and one whose third week ended two hours ago, when no schedule ran.
	app "insert into accounts values
		(1, 'ann@example.org', now() - interval '168 hours 1 minute', null),
		(2, 'bob@example.org', now() - interval '167 hours 30 minutes', null),
		(3, 'gone@example.org', now() - interval '168 hours 1 minute', now()),
		(4, 'new@example.org', now() - interval '1 day', null),
		(5, 'old@example.org', now() - interval '506 hours', null)"
	reeve schedule add weekly-reports --every 30m --concurrency-policy forbid plan-reports >/dev/null
	expect_eq 3 "$(run_now weekly-reports)"
	wait_until 20 '[ "$(app "select count(*) from reports")" = 2 ]'
	expect_eq '1:1 5:3' "$(app "select string_agg(account || ':' || week, ' ' order by account) from reports")"
	# The report that is due in half an hour exists already, for its exact second.
	expect_eq 'report:2:1 t' "$(sql "select key, run_at between now() + interval '25 minutes' and now() + interval '30 minutes'
		from tasks where type = 'weekly-report'" | tr '|' ' ')"
	# Later runs that find it again create nothing; nor do they when the reports are lost, while the key is kept.
	run_now weekly-reports >/dev/null
	app 'delete from reports where account = 5'
	run_now weekly-reports >/dev/null
	expect_eq 3 "$(sql "select count(*) from all_tasks where type = 'weekly-report'")"
	# A week later.
	app "update accounts set signed_up = signed_up - interval '168 hours'; insert into reports values (5, 3, 'again')"
	reeve update --where 'type=weekly-report status=queued' --at now >/dev/null 2>&1 || reeve cancel --where 'type=weekly-report status=queued' >/dev/null
	run_now weekly-reports >/dev/null
	wait_until 20 "[ \"\$(app \"select string_agg(account || ':' || week, ' ' order by account, week) from reports where account in (1, 5)\")\" = '1:1 1:2 5:3 5:4' ]"
	# The alternative from the README: a schedule for each account.
	reeve schedule add weekly:17 --every 7d --start 2026-01-14T08:15:00Z weekly-report '{"account": 17}' >/dev/null
	expect_eq '08:15:00 3' "$(sql "select to_char(next_at at time zone 'UTC', 'HH24:MI:SS'), extract(isodow from next_at at time zone 'UTC')
		from schedules where name = 'weekly:17'" | tr '|' ' ')"
	reeve schedule remove weekly:17 >/dev/null
}

run_tests
