# shellcheck shell=bash
# For tests that count what actually ran: tasks of the type `ledger`, in workers whose handler is a C function that
# writes a line to $LEDGER for each attempt (tests/tools/ledger_worker.c describes the line). Sourced after lib.sh.
#
#	ledger_tasks FROM TO [MS]    prints JSON lines for `reeve submit --bulk`: tasks t<FROM> … t<TO>, which take MS each
#	start_ledger NAME [OPTION…]  starts a worker at $REEVE_MANAGER and waits until it is registered
#	ledger_names                 prints the name of each attempt that has begun, in the ledger's order
#	await_history SECONDS COUNT  waits until COUNT tasks have ended
#	expect_each_once COUNT       expects that each of t1 … t<COUNT> has begun exactly once, and nothing else has
#	expect_ended COUNT [STATUS]  expects that COUNT tasks have ended with STATUS (`completed` unless set), and that
#	                             there is no other task
#	expect_journal_closed        expects that every attempt is in the journal exactly once, and that every journal row
#	                             is closed

ledger_tasks() {
	awk -v from="$1" -v to="$2" -v ms="${3:-}" 'BEGIN {
		for (i = from; i <= to; i++)
			printf "{\"type\":\"ledger\",\"details\":\"t%d%s\"}\n", i, ms == "" ? "" : " " ms }'
}

start_ledger() {
	local name=$1 before end=$((SECONDS + 61))
	shift
	before=$(worker_incarnation "$name")
	LEDGER=${LEDGER:-$DIR/ledger}
	start "$name" "$REEVE_BIN/ledger-worker" --manager "$REEVE_MANAGER" --ledger "$LEDGER" --name "$name" "$@"
	until [ "$(worker_incarnation "$name")" -gt "$before" ]; do
		alive "$name" || fail "$name has ended; its log: $(tail -n 5 "$DIR/log/$name.log")"
		[ "$SECONDS" -lt "$end" ] || fail "$name is not registered within 60 s"
		sleep 0.1
	done
}

ledger_names() {
	awk '$1 != "done" { print $5 }' "$LEDGER"
}

await_history() {
	wait_until "$1" "[ \"\$(sql 'select count(*) from task_history')\" -ge $2 ]"
}

expect_each_once() {
	expect_eq '' "$(ledger_names | sort | uniq -d | head -n 5)" 'run more than once'
	expect_eq '' "$(comm -3 <(ledger_names | sort) <(seq 1 "$1" | sed 's/^/t/' | sort) | head -n 5)" \
		'not run, or nobody knows why'
}

expect_ended() {
	expect_eq "${2:-completed}|$1" "$(sql 'select status, count(*) from task_history group by 1')"
	expect_eq 0 "$(sql 'select count(*) from tasks')" 'tasks not ended'
}

expect_journal_closed() {
	expect_eq 0 "$(sql 'select count(*) from assignments where open <> 0 or closed_at is null')" 'open journal rows'
	expect_eq '' "$(sql "
		select * from (
		  (select a.id, task_id from assignments a, unnest(task_ids) task_id
		   except all
		   (select assignment_id, task_id from task_history where token is not null
		    union all select assignment_id, task_id from task_attempts))
		  union all
		  ((select assignment_id, task_id from task_history where token is not null
		    union all select assignment_id, task_id from task_attempts)
		   except all
		   select a.id, task_id from assignments a, unnest(task_ids) task_id)) x limit 5")" \
		'the journal and the attempts differ'
}

# Submitters under load.
#
#	submit_steadily FROM STEP [MS [OPTION…]]    (with `start`) submits t<FROM> and following, STEP in a call, one call
#	                             after the other, even after errors, until the file $DIR/enough exists.
#	                             $DIR/acknowledged.FROM gets the acknowledged ids, its log the errors
#	begun COUNT                  whether at least COUNT attempts have begun
#	count_of FILE                prints the number of lines of a file, 0 if it does not exist
#	expect_nothing_lost          expects that every acknowledged task has completed
#	expect_nothing_doubled       expects that no details became two tasks, that no task began twice, and that all tasks
#	                             that were created have ended

submit_steadily() {
	local n code
	for ((n = $1; ; n += $2)); do
		[ ! -e "$DIR/enough" ] || return 0
		code=0
		ledger_tasks $n $((n + $2 - 1)) "${3:-}" |
			"$REEVE_BIN/reeve" submit --bulk - "${@:4}" >>"$DIR/acknowledged.$1" || code=$?
		[ $code = 0 ] || echo "submit of t$n and following: exit code $code"
	done
}

begun() {
	[ "$(count_of "$LEDGER")" -ge "$1" ]
}

count_of() {
	cat "$1" 2>/dev/null | wc -l
}

expect_nothing_lost() {
	cat "$DIR"/acknowledged.* | sort >"$DIR/acknowledged"
	expect_eq '' "$(uniq -d "$DIR/acknowledged" | head -n 5)" 'ids told twice'
	sql "select id from all_tasks where status = 'completed'" | sort >"$DIR/completed"
	expect_eq '' "$(comm -23 "$DIR/acknowledged" "$DIR/completed" | head -n 5)" 'acknowledged, and not completed'
}

expect_nothing_doubled() {
	expect_eq '' "$(sql 'select details from all_tasks group by 1 having count(*) > 1 limit 5')" 'made twice'
	expect_eq '' "$(ledger_names | sort | uniq -d | head -n 5)" 'begun twice'
	expect_eq '' "$(comm -3 <(ledger_names | sort) <(sql "select split_part(details, ' ', 1) from task_history" | sort) |
		head -n 5)" 'begun and not ended, or the other way round'
	expect_eq 0 "$(sql 'select count(*) from tasks')" 'tasks not ended'
}

# Sessions of managers.
#
#	sessions_gone ROLE           whether no session with that role is left, so that no statement of a killed manager
#	                             continues in PostgreSQL
#	last_ran ROLE TEXT           whether the last statement of that role has ended and contained this text

sessions_gone() {
	[ "$(sql "select count(*) from pg_stat_activity where application_name = 'reeve-manager $1'")" = 0 ]
}

last_ran() {
	[ "$(sql "select count(*) from pg_stat_activity where application_name = 'reeve-manager $1'
		and state like 'idle%' and query like '%$2%'")" != 0 ]
}
