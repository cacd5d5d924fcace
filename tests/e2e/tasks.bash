# shellcheck shell=bash
# Functions about tasks for several suites, in addition to lib.sh: . "$(dirname "$0")/tasks.bash"
#
#	field ID NAME           prints a field of `reeve show ID --json`; an empty line if it has none
#	events ID               prints the events of its audit in order, on one line: "submitted claimed completed"
#	event_field ID EVENT NAME   prints that field of all such events of its audit, one on each line
#	wait_status SECONDS ID STATUS   polls, by SQL, until the task has that status
#	wait_event SECONDS ID EVENT     polls, by SQL, until its audit has such an event
#	wait_began ID [ATTEMPT]     waits until a $HOLD handler of the task runs (in attempt 1 unless set)
#	wait_ended ID [ATTEMPT]     waits until that handler's process has ended
#	release                 lets all $HOLD handlers of the test end
#	letter_handlers         sets the handlers a and b, which append their letter to the details
#	counts                  prints the number of rows of each table, for a comparison of before and after
#	recount_from TIME       counts the executions again from that time (an SQL expression) on: for an invented past
#	at_other COMMAND…       reeve, at the manager `other`
#	kill_managers SECONDS   for that time kills `manager` or `two` at random (RANDOM), and starts it again
#	ms                      prints the time in milliseconds, for measurements
#
# $HOLD is a script for the handler `sh`: it writes its process id to the file began.ID.ATTEMPT, and runs until
# `release`; its result is "attempt N". SIGTERM ends it at once.

HOLD='echo $$ >"$REEVE_TEST_DIR/began.$REEVE_TASK_ID.$REEVE_ATTEMPT"
until [ -e "$REEVE_TEST_DIR/released" ]; do sleep 0.05; done
printf "attempt %s" "$REEVE_ATTEMPT"'

field() { # ID NAME
	reeve show "$1" --json | jq -r ".$2 // empty"
}

events() { # ID
	reeve audit "$1" --json | jq -sr '[.[].event] | join(" ")'
}

event_field() { # ID EVENT NAME
	reeve audit "$1" --json | jq -r "select(.event == \"$2\").$3"
}

wait_status() { # SECONDS ID STATUS
	wait_until "$1" "[ \"\$(sql \"select status from all_tasks where id = $2\")\" = $3 ]"
}

wait_event() { # SECONDS ID EVENT
	wait_until "$1" "[ \"\$(sql \"select count(*) from audit_log where task_id = $2 and event = '$3'\")\" != 0 ]"
}

wait_began() { # ID [ATTEMPT]
	wait_until 20 "[ -e \"$DIR/began.$1.${2:-1}\" ]"
}

wait_ended() { # ID [ATTEMPT]
	local began=$DIR/began.$1.${2:-1}
	wait_until 10 "[ -s \"$began\" ] && [ -z \"\$(birth \"\$(cat \"$began\")\")\" ]"
}

release() {
	touch "$DIR/released"
}

letter_handlers() {
	handlers <<-'END'
		[handler a]
		exec = /bin/bash -c "cat; printf a"
		[handler b]
		exec = /bin/bash -c "cat; printf b"
	END
}

counts() {
	local table
	for table in tasks task_history task_attempts task_events requests keys routes workers assignments worker_commands; do
		echo "$table $(sql "select count(*) from $table")"
	done
}

recount_from() { # TIME
	sql "update executions_rolled set until = date_trunc('hour', $1), settled = date_trunc('hour', $1), next_at = null, next_xid = null;
		delete from executions"
}

at_other() { # COMMAND…
	local manager=${URL[other]}
	REEVE_MANAGER=$manager reeve "$@"
}

ms() {
	echo $((${EPOCHREALTIME/./} / 1000))
}

kill_managers() { # SECONDS: one after the other, while the other one serves
	local kills=0 end=$((SECONDS + $1)) name other
	while [ $SECONDS -lt $end ]; do
		name=$([ $((RANDOM % 2)) = 0 ] && echo manager || echo two)
		other=$([ $name = two ] && echo manager || echo two)
		sleep "0.$((RANDOM % 9))"
		wait_until 30 "reeve stats --manager '${URL[$other]}' >/dev/null 2>&1"
		kill_manager "$name"
		sleep "0.$((RANDOM % 9))"
		launch_manager "$name"
		kills=$((kills + 1))
	done
	note "$kills kills"
}
