# shellcheck shell=bash
# The calls that a manager has open, for the end-to-end tests that source this file.
#
#	open_calls                   prints their number
#	calm_calls                   prints that number when it does not change: a heartbeat may be under way

open_calls() {
	reeve stats --json | jq -r '.counters[] | select(.name == "open_calls") | .value'
}

calm_calls() {
	local some
	until some=$(for _ in 1 2 3 4 5; do open_calls; pause 0.05; done | uniq) && [ "$(wc -l <<<"$some")" = 1 ]; do :; done
	echo "$some"
}
