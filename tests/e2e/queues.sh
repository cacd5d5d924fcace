#!/usr/bin/env bash
# Queues: their settings, and what can be done with them whole: start, stop, pause, resume, purge, delete.
# timeout 600
# shellcheck disable=SC1091,SC2016,SC2086
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager other
start_manager manager
start_worker worker --concurrency 4

state() { # QUEUE
	reeve queue status "$1" --json | jq -r .state
}

status_of() { # QUEUE FIELD…: of its status, in one line
	reeve queue status "$1" --json | jq -r "[.${2//,/,.}] | map(tostring) | join(\" \")"
}

story_settings_are_set_shown_and_left_alone() {
	reeve queue set mail --retry-limit 5 --resting 5s --waiting 10s --backoff linear:3s --verbose yes >"$DIR/out"
	expect_match 'retries +5 after the first attempt' "$(cat "$DIR/out")"
	expect_match 'backoff +linear:3s:5s' "$(cat "$DIR/out")"
	reeve queue set mail --jitter 0 --backoff linear:3s --keep completed=7d --keep dead=90d,cancelled=1d >/dev/null
	expect_eq '5 5000 10000 true true linear 5000 3000 -1 604800000 7776000000 86400000 created' "$(reeve queue describe mail --json |
		jq -r '[.settings | .retry_limit, .resting_ms, .waiting_ms, .autostart, .verbose, .retry.kind, .retry.base_ms, .retry.step_ms,
			.retry.jitter_percent, .keep_completed_ms, .keep_dead_ms, .keep_cancelled_ms] + [.state] | join(" ")')"
	# A linear backoff without a base begins with the resting period, also when that changes later.
	reeve queue set mail --resting 2s >/dev/null
	expect_eq 2000 "$(reeve queue describe mail --json | jq .settings.retry.base_ms)"
	reeve queue set mail --backoff default --retry-limit -1 --keep completed=default >/dev/null
	expect_eq '4 exponential 1000 3600000 0' "$(reeve queue describe mail --json |
		jq -r '.settings | [.retry_limit, .retry.kind, .retry.base_ms, .retry.max_ms, .keep_completed_ms // 0] | join(" ")')"
	expect_eq 4 "$(reeve --manager "${URL[other]}" audit --json | jq -r 'select(.event == "queue_set") | .note' | grep -c '^queue mail')"
}

run_stories
