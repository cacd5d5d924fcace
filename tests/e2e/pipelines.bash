# shellcheck shell=bash
# Pipelines, for the end-to-end tests that source this file.

define() { # JSON: prints what the command says
	printf '%s' "$1" | reeve pipeline define -
}

# Fetches a waiting task manually; sets $id, $token, $stage and $input.
take() { # [OPTION…]
	local task
	task=$(reeve fetch --json --max-wait 20s "$@")
	id=$(jq .task_id <<<"$task") token=$(jq .token <<<"$task") stage=$(jq -r .stage <<<"$task") input=$(jq -r .details <<<"$task")
}

at() { # ID: status, stage, step
	reeve show "$1" --json | jq -r '[.status, .stage, .step] | join(" ")'
}
