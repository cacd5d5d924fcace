#!/usr/bin/env bash
# Pipelines: tasks that pass through stages, the result of one being the input of the next.
# timeout 900
# shellcheck disable=SC1091,SC2016
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

define() { # JSON: prints what the command says
	printf '%s' "$1" | reeve pipeline define -
}

# Handlers by type: each adds its letter to its input; `choose` names the stage that its input says.
chain_handlers() {
	handlers <<-'END'
		[handler a]
		exec = /bin/bash -c "cat; printf a"
		[handler b]
		exec = /bin/bash -c "cat; printf b"
		[handler c]
		exec = /bin/bash -c "cat; printf c"
		[handler echo]
		exec = /bin/cat
		[handler sh]
		exec = /bin/bash
		[handler choose]
		exec = /bin/bash -c "read -r stage rest; printf '{\"stage\": \"%s\"}' \"$stage\" >&3; printf '%s' \"$rest\""
	END
}

ABC='{"name": "abc", "stages": [{"name": "one", "type": "a"}, {"name": "two", "type": "b"}, {"name": "three", "type": "c"}]}'

# What was kept of each stage: stage, type, input, result.
stages_of() { # ID
	sql "select concat_ws(' ', stage, type, details, result) from task_attempts where task_id = $1 order by token" | paste -sd ,
}

story_a_task_passes_through_the_stages_in_order() {
	chain_handlers
	start_postgres
	start_manager
	start_worker
	expect_eq 'pipeline abc: 3 stages, defined' "$(define "$ABC")"
	expect_eq 'pipeline abc: 3 stages, unchanged' "$(define "$ABC")"
	id=$(reeve submit --pipeline abc x)
	expect_eq xabc "$(reeve wait "$id" --json | jq -r .result)"
	expect_eq 'completed abc three 3 c 1' "$(reeve show "$id" --json | jq -r '[.status, .pipeline, .stage, .step, .type, .attempt] | join(" ")')"
	expect_match 'pipeline +abc.*stage +three' "$(reeve show "$id" | tr '\n' ' ')"
	expect_eq "abc three" "$(reeve list --json | jq -r '[.pipeline, .stage] | join(" ")')"
	expect_eq 'one a x xa,two b xa xab' "$(stages_of "$id")"
	expect_eq 'submitted claimed completed stage claimed completed stage claimed completed' "$(events "$id")"
	expect_eq 'one -> two,two -> three' "$(event_field "$id" stage note | paste -sd ,)"
	expect_eq 0 "$(sql "select count(*) from assignments where open > 0")"
	expect_eq "$(sql "select string_agg(type, ' ' order by id) from routes")" 'a b c'
	# Times of an early and of a late stage are counted by their types.
	expect_eq 'a 1 1 b 1 1 c 1 1' "$(reeve stats --by type --json | jq -sr '[.[] | .counts[]? // . | [.type, .count, .completed] | join(" ")] | sort | join(" ")')"
	# A pipeline of one stage is a task like any other.
	define '{"name": "lone", "stages": [{"name": "all", "type": "b"}]}'
	expect_eq yb "$(reeve submit --pipeline lone y --wait)"
}

run_stories
