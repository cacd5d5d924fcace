#!/usr/bin/env bash
# Stages of pipelines that have queues of their own: listed, counted, moved, paused, limited, fetched.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/pipelines.bash"

test_a_stage_has_its_own_queue() {
	local id other
	start_postgres
	start_manager
	start_worker one --queue first
	reeve pipeline define - <<<'{"name": "queued", "stages": [{"name": "a", "type": "echo"}, {"name": "b", "type": "echo", "queue": "second"},
		{"name": "c", "type": "echo"}, {"name": "d", "type": "echo", "queue": "first"}]}' >/dev/null
	expect_match 'second' "$(reeve pipeline show queued --json | jq -r '.stages[1].queue')"
	id=$(reeve submit --pipeline queued text --queue first --key k)
	wait_until 20 '[ "$(field "$id" stage)" = b ]'
	expect_eq 'second queued' "$(field "$id" queue) $(field "$id" status)"
	expect_eq "$id" "$(reeve submit --pipeline queued other --queue first --key k 2>/dev/null)" # its key stays there
	expect_eq "$id" "$(reeve fetch --queue second --json --max-wait 5s | jq .task_id)"
	reeve report "$id" "$(field "$id" token)" --completed text >/dev/null
	start_worker two --queue second
	reeve wait "$id" --max-wait 20s >/dev/null
	expect_eq 'first d text' "$(field "$id" queue) $(field "$id" stage) $(field "$id" result)"
	expect_eq first "$(sql "select queue from keys where task_id = $id")"
	# The first stage's queue replaces that of the submit.
	reeve pipeline define - <<<'{"name": "begins", "stages": [{"name": "a", "type": "echo", "queue": "second"}]}' >/dev/null
	other=$(reeve submit --pipeline begins x --queue nowhere)
	reeve wait "$other" --max-wait 20s >/dev/null
	expect_eq second "$(field "$other" queue)"
	other=$(sql "select submit(pipeline => 'begins', details => 'y', queue => 'nowhere')")
	reeve wait "$other" --max-wait 20s >/dev/null
	expect_eq second "$(field "$other" queue)"
	expect_eq 0 "$(sql "select coalesce(sum(l.queued + l.delayed + l.executing + l.failed), 0) from live_totals(null) l")"
}

test_tasks_are_listed_counted_and_moved_by_stage() {
	local a b c
	start_postgres
	start_manager
	reeve pipeline define - <<<'{"name": "p", "stages": [{"name": "one", "type": "t1", "max_attempts": 3}, {"name": "two", "type": "t2", "timeout": "7s"},
		{"name": "three", "type": "echo", "queue": "last"}]}' >/dev/null
	a=$(reeve submit --pipeline p A)
	b=$(reeve submit --pipeline p B --stage two)
	c=$(reeve submit --pipeline p C --stage two --delay 1h)
	reeve submit t2 plain >/dev/null
	expect_eq 'two 7000' "$(field "$b" stage) $(field "$b" timeout_ms)"
	expect_eq "$c $b" "$(reeve list --where 'pipeline=p stage=two' --json | jq .id | xargs)"
	expect_eq '' "$(reeve list --where 'pipeline=q' --json)"
	expect_eq 'one 1 0,two 1 1,three 0 0' "$(reeve pipeline status p --json | jq -r '[.stages[] | "\(.stage) \(.queued // 0) \(.delayed // 0)"] | join(",")')"
	expect_match 'two +t2 +- +1 +1 +0 +0' "$(reeve pipeline status p)"
	expect_fail 4 reeve pipeline status q
	expect_fail 4 reeve submit --pipeline p x --stage four
	expect_match 'pipeline "p" has no stage "four"' "$OUTPUT"
	expect_fail 2 reeve submit t2 x --stage two
	# An operator moves them.
	expect_fail 4 reeve update "$a" --stage four
	expect_match 'it is in no pipeline with such a stage' "$OUTPUT"
	reeve update "$a" --stage two >/dev/null
	expect_eq 'two t2 7000 5' "$(field "$a" stage) $(field "$a" type) $(field "$a" timeout_ms) $(field "$a" max_attempts)"
	expect_match 'stage one -> two' "$(reeve audit "$a" --json | jq -r .note)"
	start_worker worker
	expect_eq '3 tasks changed' "$(reeve update --where 'pipeline=p stage=two' --stage three)"
	reeve wait "$a" "$b" --max-wait 20s >/dev/null
	expect_eq 'A last' "$(field "$a" result) $(field "$a" queue)"
	expect_eq three "$(field "$c" stage)"
	# A failed task of a stage goes to another one at once.
	reeve pipeline define - <<<'{"name": "f", "stages": [{"name": "bad", "type": "sh", "backoff": "fixed:1h"}, {"name": "good", "type": "echo"}]}' >/dev/null
	a=$(reeve submit --pipeline f 'exit 3')
	wait_status 20 "$a" failed
	reeve update "$a" --stage good >/dev/null
	reeve wait "$a" --max-wait 20s >/dev/null
	expect_eq 'exit 3' "$(field "$a" result)"
	reeve cancel "$c" >/dev/null
	reeve cancel --where type=t2 >/dev/null
	expect_eq 0 "$(sql "select coalesce(sum(l.queued + l.delayed + l.executing + l.failed), 0) from live_totals(null) l")"
}

test_queues_of_stages_that_are_paused_stopped_limited_and_deleted() {
	local a b c
	start_postgres
	start_manager
	start_worker
	reeve pipeline define - <<<'{"name": "p", "stages": [{"name": "a", "type": "echo"}, {"name": "b", "type": "echo", "queue": "second"}]}' >/dev/null
	reeve queue set second --max-running 1 >/dev/null
	reeve queue pause second >/dev/null
	a=$(reeve submit --pipeline p one --queue first)
	wait_until 20 '[ "$(field "$a" stage)" = b ]'
	expect_eq 'queued second queue_paused' "$(field "$a" status) $(field "$a" queue) $(reeve show "$a" --json | jq -r .waiting.reason)"
	reeve queue resume second >/dev/null
	reeve wait "$a" --max-wait 20s >/dev/null
	expect_eq '0 second' "$(sql "select taken from limits where queue = 'second'") $(field "$a" queue)"
	# What comes to a stopped queue starts it, as a submit does; an operator moves nothing there.
	reeve queue stop second --wait >/dev/null
	c=$(reeve submit --pipeline p three --queue first --delay 1h)
	expect_fail 4 reeve update "$c" --stage b
	expect_match 'the queue is stopped' "$OUTPUT"
	b=$(reeve submit --pipeline p two --queue first)
	reeve wait "$b" --max-wait 20s >/dev/null
	expect_eq finished "$(reeve queue status second --json | jq -r .state)"
	# Without settings it is a queue like any other.
	reeve queue delete second >/dev/null
	reeve update "$c" --delay 0s >/dev/null
	reeve wait "$c" --max-wait 20s >/dev/null
	expect_eq 'second three' "$(field "$c" queue) $(field "$c" result)"
	# A stop ends what is in that queue, wherever it began.
	reeve queue pause second >/dev/null
	a=$(reeve submit --pipeline p four --queue first)
	wait_until 20 '[ "$(field "$a" stage)" = b ]'
	reeve queue stop first --wait >/dev/null
	expect_eq queued "$(field "$a" status)"
	reeve queue stop second --wait >/dev/null
	expect_eq dead "$(field "$a" status)"
}

test_keys_of_tasks_that_change_their_queue() {
	local id moved
	start_postgres
	start_manager
	start_worker
	reeve pipeline define - <<<'{"name": "p", "stages": [{"name": "a", "type": "echo"}, {"name": "b", "type": "echo", "queue": "second"},
		{"name": "c", "type": "echo", "queue": "third"}]}' >/dev/null
	id=$(reeve submit --pipeline p text --queue first --key k)
	reeve wait "$id" --max-wait 20s >/dev/null
	expect_eq "third $id" "$(field "$id" queue) $(reeve submit --pipeline p text --queue first --key k 2>/dev/null)"
	# The key goes with the task.
	reeve purge "$id" >/dev/null
	expect_eq 0 "$(sql 'select count(*) from keys')"
	# A newer version begins again in the first queue, also while the task executes.
	id=$(reeve submit --pipeline p text --queue first --key v --key-version 1)
	reeve wait "$id" --max-wait 20s >/dev/null
	reeve queue pause first >/dev/null
	expect_eq "$id" "$(reeve submit --pipeline p more --queue first --key v --key-version 2 2>/dev/null)"
	expect_eq 'first a queued' "$(field "$id" queue) $(field "$id" stage) $(field "$id" status)"
	reeve queue pause second >/dev/null
	reeve queue resume first >/dev/null
	wait_until 20 '[ "$(field "$id" stage)" = b ]'
	reeve queue pause first >/dev/null
	expect_eq "$id" "$(reeve submit --pipeline p most --queue first --key v --key-version 3 2>/dev/null)"
	expect_eq 'first a most' "$(field "$id" queue) $(field "$id" stage) $(field "$id" details)"
	# An operator takes the key along.
	moved=$(reeve submit --pipeline p text --queue first --key m)
	reeve update "$moved" --stage b >/dev/null
	expect_eq "second|$moved" "$(sql "select queue, task_id from keys where key = 'm'")"
	reeve update "$moved" --queue fourth --delay 1h >/dev/null
	expect_eq "fourth|$moved" "$(sql "select queue, task_id from keys where key = 'm'")"
	reeve cancel "$id" "$moved" >/dev/null
	expect_eq 0 "$(sql "select coalesce(sum(l.queued + l.delayed + l.executing + l.failed), 0) from live_totals(null) l")"
}

test_a_fetch_takes_tasks_of_a_stage() {
	local a b
	start_postgres
	start_manager
	reeve pipeline define - <<<'{"name": "p", "stages": [{"name": "a", "type": "t"}, {"name": "b", "type": "t"}]}' >/dev/null
	a=$(reeve submit --pipeline p one)
	b=$(reeve submit --pipeline p two --stage b)
	expect_eq '' "$(reeve fetch --where 'pipeline=q' --json)"
	expect_eq "$b" "$(reeve fetch --where 'stage=b' -n 5 --json | jq .task_id)"
	expect_eq "$a" "$(reeve fetch --where 'pipeline=p' -n 5 --json | jq .task_id)"
}

run_tests
