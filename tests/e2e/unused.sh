#!/usr/bin/env bash
# What nothing uses any more goes: definitions of pipelines that were replaced.
# shellcheck disable=SC1091,SC2016,SC2034,SC2154
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

story_a_replaced_pipeline_goes_when_no_task_has_it() {
	start_postgres
	start_manager
	letter_handlers
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
