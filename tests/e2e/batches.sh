#!/usr/bin/env bash
# Batches: tasks that are counted together, from the first's submit to the last's end, and what happens around them.
# timeout 600
# shellcheck disable=SC1091,SC2016
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

batch() { # ID FIELD…: those fields of the batch in one line
	local id=$1
	shift
	reeve batch report "$id" --json | jq -r "[.batch | $(printf '.%s,' "$@" | sed 's/,$//')] | join(\" \")"
}

totals() { # ID: state, submitted, pending, passed, failed
	batch "$1" state submitted pending success failed
}

wait_batch() { # SECONDS ID: until it has ended
	wait_until "$1" "[ \"\$(sql 'select phase from batches where id = $2')\" = ended ]"
}

set_queue() { # NAME COLUMN=VALUE,…: settings, and the managers know them
	sql "insert into queues (name) values ('$1') on conflict do nothing;
		update queues set $2, updated = clock_timestamp() where name = '$1';
		select pg_notify('reeve_wake', 'queues')" >/dev/null
	sleep 1.2 # nobody tells when every manager has read them
}

# The numbers of a batch are those of its tasks, whatever happened.
expect_consistent() { # [ID]
	expect_eq '' "$(sql "select b.id, b.submitted, b.pending, b.success, b.failed, t.*
		from batches b cross join lateral (
			select count(*) as n, count(*) filter (where a.status in ('queued', 'executing', 'failed')) as live,
				count(*) filter (where a.status = 'completed') as good, count(*) filter (where a.status in ('dead', 'cancelled')) as bad
			from all_tasks a where a.batch_id = b.id and a.id is distinct from b.entry_id and a.id is distinct from b.exit_id) t
		where (b.submitted, b.pending, b.success, b.failed) is distinct from (t.n, t.live, t.good, t.bad)
			and b.id = coalesce(nullif('${1:-}', '')::bigint, b.id)")"
}

story_a_batch_is_opened_filled_closed_and_reported() {
	start_postgres
	start_manager
	start_worker
	id=$(reeve batch open nightly --queue q)
	expect_eq 'open 0 0 0 0' "$(totals "$id")"
	expect_eq '-1' "$(batch "$id" remaining_ms)"
	a=$(reeve submit echo one --batch "$id")
	b=$(reeve submit sh 'exit 65' --queue q --batch "$id")
	expect_fail 1 reeve wait "$a" "$b"
	expect_eq 'open 2 0 1 1' "$(totals "$id")"
	c=$(reeve submit sh "$HOLD" --batch "$id")
	wait_began "$c"
	expect_eq 'open 3 1 1 1' "$(totals "$id")"
	expect [ "$(batch "$id" remaining_ms)" -gt 0 ]
	expect_match 'remaining +about [0-9]' "$(reeve batch report "$id")"
	reeve batch close "$id" >"$DIR/closed"
	expect_match 'state +closed \(running\)' "$(cat "$DIR/closed")"
	expect_fail 1 reeve batch wait "$id" --timeout 300ms
	release
	expect_fail 1 reeve batch wait "$id" --timeout 20s
	expect_match 'tasks +3 submitted, 0 pending, 2 passed, 1 failed' "$OUTPUT"
	expect_consistent "$id"
	reeve batch report "$id" --json >"$DIR/report"
	expect_eq "ended ended nightly q false 3 0 2 1 0" "$(jq -r '.batch | [.state, .phase, .name, .queue, .implicit, .submitted, .pending,
		.success, .failed, .remaining_ms] | join(" ")' "$DIR/report")"
	expect_eq true "$(jq '.batch | .created < .started and .started < .closed and .closed < .ended and .duration_ms > 0' "$DIR/report")"
	expect_eq "$a completed 1 worker $b dead 1 worker $c completed 1 worker" "$(jq -r '[.tasks[] |
		[.id, .status, .attempt, .worker] | join(" ")] | join(" ")' "$DIR/report")"
	expect_eq true "$(jq '[.tasks[] | .created < .started and .started < .finished] | all' "$DIR/report")"
	expect_match "$b +dead +sh +1/5 .* exit:65" "$(reeve batch report "$id")"
	expect_match "batch +$id" "$(reeve show "$a")"
	expect_eq "$id" "$(field "$a" batch_id)"
	# In the list, newest first.
	two=$(reeve batch open other)
	expect_eq "$two $id" "$(reeve batch list --json | jq -r .id | xargs)"
	expect_eq "$two" "$(reeve batch list --json --open | jq -r .id | xargs)"
	expect_eq "$id" "$(reeve --json batch list --queue q | jq -r .id | xargs)"
	expect_match "$id +nightly +q +ended +ended +3 +0 +2 +1" "$(reeve batch list)"
}

story_entry_and_exit_tasks_run_once_before_the_first_and_after_the_last() {
	handlers <<-'END'
		[handler sh]
		exec = /bin/bash
		[handler prepare]
		exec = /bin/bash -c "cat >> $REEVE_TEST_DIR/prepared; sleep 0.5; echo begin >> $REEVE_TEST_DIR/log.txt"
		[handler finish]
		exec = /bin/bash -c "cat >> $REEVE_TEST_DIR/finished; echo end >> $REEVE_TEST_DIR/log.txt"
	END
	start_postgres
	start_manager
	start_worker worker --concurrency 8
	id=$(reeve batch open both --queue q --entry prepare --exit finish)
	for i in $(seq 1 20); do echo "{\"details\":\"echo $i >> \$REEVE_TEST_DIR/log.txt\"}"; done >"$DIR/tasks"
	reeve submit sh --bulk "$DIR/tasks" --batch "$id" >"$DIR/ids"
	late=$(reeve submit sh 'echo late >> $REEVE_TEST_DIR/log.txt' --batch "$id" --delay 1500ms)
	expect_eq 'open 21 21 0 0' "$(totals "$id")"
	reeve batch close "$id" >/dev/null
	expect reeve batch wait "$id" --timeout 30s
	expect_eq 'ended 21 0 21 0' "$(totals "$id")"
	expect_consistent "$id"
	expect_eq 23 "$(wc -l <"$DIR/log.txt")"
	expect_eq 'begin end' "$(sed -n '1p;$p' "$DIR/log.txt" | xargs)"
	expect_eq late "$(sed -n 22p "$DIR/log.txt")"
	expect_eq "completed completed" "$(batch "$id" entry_status exit_status)"
	expect_eq "batch_entry $id both q" "$(jq -r '[.event, .batch_id, .batch, .queue] | join(" ")' "$DIR/prepared")"
	expect_eq "batch_exit $id 21 21 0" "$(jq -r '[.event, .batch_id, .submitted, .success, .failed] | join(" ")' "$DIR/finished")"
	# They are in the batch, and count for themselves.
	expect_eq "$id prepare $id finish" "$(sql "select batch_id, type from all_tasks where type <> 'sh' order by id" | tr '|' ' ' | xargs)"
	expect_eq 21 "$(reeve batch report "$id" --json | jq '.tasks | length')"
	expect_eq t "$(sql "select e.finished <= min(t.started) from all_tasks e, all_tasks t where e.type = 'prepare' and t.type = 'sh' group by e.finished")"
	expect_eq t "$(sql "select x.started >= max(t.finished) from all_tasks x, all_tasks t where x.type = 'finish' and t.type = 'sh' group by x.started")"
	expect_eq t "$(sql "select finished - created >= '1500ms' from all_tasks where id = $late")"
}

run_stories
