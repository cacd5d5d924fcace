# shellcheck shell=bash
# States of queues, for the end-to-end tests that source this file.

state() { # QUEUE
	reeve queue status "$1" --json | jq -r .state
}

status_of() { # QUEUE FIELD,…: of its status, in one line
	reeve queue status "$1" --json | jq -r "[.${2//,/,.}] | join(\" \")"
}

wait_state() { # SECONDS QUEUE STATE
	wait_until "$1" "[ \"\$(state $2)\" = $3 ]"
}

how_ended() { # QUEUE: how its tasks have ended, "completed 3, dead queue_stopped 5"
	sql "select string_agg(x, ', ' order by x) from (
		select concat_ws(' ', status, error_code, count(*)) as x from task_history where queue = '$1' group by status, error_code) y"
}
