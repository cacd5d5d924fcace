#!/usr/bin/env bash
# Schedules added and removed by SQL, in an application's own transaction.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager
sql "create role app login; grant usage on schema reeve to app; grant execute on function reeve.schedule, reeve.unschedule to app"

app() { # SQL: as the application
	"$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -h "$PGDIR" -U app -d reeve -c "$1"
}

definition() { # NAME: what defines the schedule
	sql "select to_jsonb(s) - '{id,name,created,updated,last_updated,next_at,start_at,source}'::text[] from schedules s where name = '$1'"
}

test_a_schedule_is_there_when_its_transaction_commits() {
	app "begin; select reeve.schedule('undone', 'echo', every => '1 h'); rollback" >/dev/null
	app "begin; select reeve.schedule('ticks', 'echo', '{\"account\": 17}'::jsonb, every => '300 ms'); commit" >/dev/null
	expect_eq ticks "$(reeve schedule list --json | jq -r .name)"
	expect_eq 'app schedule_added' "$(sql "select actor || ' ' || event from schedule_events")"
	start_worker
	wait_until 20 "[ \"\$(sql \"select count(*) >= 2 from task_history where result = '{\\\"account\\\": 17}'\")\" = t ]"
	expect_eq 't|f' "$(app "select reeve.unschedule('ticks'), reeve.unschedule('ticks')")"
	expect_eq '' "$(reeve schedule list --json)"
	expect_eq 1 "$(sql "select count(*) from schedule_events where event = 'schedule_removed' and actor = 'app'")"
}

# A role that does not own the schema cannot take another caller's name.
test_the_role_is_part_of_the_source() {
	app "select reeve.schedule('with', 'nothing', manual => true, source => 'billing/app'), reeve.schedule('without', 'nothing', manual => true)" >/dev/null
	sql "select reeve.schedule('of the owner', 'nothing', manual => true, source => 'billing/app')" >/dev/null
	for name in with without 'of the owner'; do reeve schedule run "$name" >/dev/null; done
	expect_eq 'app/billing/app
schedule without
billing/app' "$(sql "select source from all_tasks where source <> 'schedule ticks' order by id")"
	expect_eq 'app/billing/app
app
billing/app' "$(sql "select actor from schedule_events where event = 'schedule_added' order by id desc limit 3" | tac)"
	app "select reeve.unschedule('with'), reeve.unschedule('without'), reeve.unschedule('of the owner')" >/dev/null
}

# It is the same as what the command adds.
test_every_parameter_arrives() {
	echo '{"name": "ab", "stages": [{"name": "one", "type": "a"}]}' | reeve pipeline define - >/dev/null
	while IFS='|' read -r arguments options; do
		app "select reeve.schedule('by sql', $arguments)" >/dev/null
		eval "reeve schedule add 'by command' $options" >/dev/null
		expect_eq "$(definition 'by command')" "$(definition 'by sql')" "$arguments"
		app "select reeve.unschedule('by sql'), reeve.unschedule('by command')" >/dev/null
	done <<-'END'
		'nothing', cron => '0 8 * * 1', zone => 'Europe/Berlin'|nothing --cron '0 8 * * 1' --zone Europe/Berlin
		'nothing', 'some text', every => '90 min', start => '2020-01-01 00:00Z'|nothing 'some text' --every 90m --start 2020-01-01T00:00:00Z
		'nothing', manual => true, queue => 'q', priority => 7, delay => '1 h', key => '{name}/{date}', key_ttl => '2 h', max_attempts => 3, timeout => '5 s', backoff => 'linear:5s', jitter => 10|nothing --manual --queue q --priority 7 --delay 1h --key '{name}/{date}' --key-ttl 2h --max-attempts 3 --timeout 5s --backoff linear:5s --jitter 10
		pipeline => 'ab', every => '1 day', catch_up => 'all:5', concurrency_policy => 'forbid'|--pipeline ab --every 1d --catch-up all:5 --concurrency-policy forbid
	END
}

test_invalid_input_is_refused() {
	app "select reeve.schedule('taken', 'nothing', manual => true)" >/dev/null
	while IFS='|' read -r state message arguments; do
		expect_fail 1 app "select reeve.schedule($arguments)"
		expect_match "ERROR:  $state: $message" "$OUTPUT" "$arguments"
	done <<-'END'
		42710|there is a schedule "taken" already|'taken', 'nothing', every => '1 h'
		22023|one of cron, every and manual must be given|'x', 'nothing'
		22023|one of cron, every and manual must be given|'x', 'nothing', every => '1 h', cron => '* * * * *'
		22023|every is 00:00:00.05; it must be from|'x', 'nothing', every => '50 ms'
		22023|cron: hour: there is no 25|'x', 'nothing', cron => '0 25 * * *'
		22023|zone: |'x', 'nothing', cron => '0 5 * * *', zone => 'Europe/Nowhere'
		22023|start needs every|'x', 'nothing', cron => '0 5 * * *', start => now()
		22023|key is "k", the same for all its tasks|'x', 'nothing', every => '1 h', key => 'k'
		22023|catch_up is "all"; it must be skip, one or all:N|'x', 'nothing', every => '1 h', catch_up => 'all'
		22023|concurrency_policy is "none"|'x', 'nothing', every => '1 h', concurrency_policy => 'none'
		22023|backoff is "x"|'x', 'nothing', every => '1 h', backoff => 'x'
		22023|there is no pipeline "none"|'x', every => '1 h', pipeline => 'none'
		22004|type is NULL|'x', every => '1 h'
		22004|name is NULL|null, 'nothing', every => '1 h'
		22001|details has|'x', 'nothing', repeat('x', 2000000), every => '1 h'
	END
	expect_eq taken "$(sql "select string_agg(name, ' ') from schedules")"
	sql 'create role other login; grant usage on schema reeve to other'
	for call in "schedule('x', 'nothing', manual => true)" "unschedule('taken')"; do
		OUTPUT=$("$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U other -d reeve -c "select reeve.$call" 2>&1) && fail 'it has the right'
		expect_match 'permission denied for function' "$OUTPUT"
	done
}

run_tests
