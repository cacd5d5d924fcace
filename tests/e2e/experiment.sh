#!/usr/bin/env bash
# The published experiment of a batch service queue, a tenth as long: seven tasks in a batch, a waiting period before the
# batch's first task, a resting period between tasks, five retries with a linear backoff; one worker, then three. The
# workers are there before the batches, and stay.
. "$(dirname "$0")/lib.sh"

# Submits four tasks that succeed at once, one that must never be retried, one that never succeeds, and one that
# succeeds in the end.
seven_tasks() { # BATCH
	local n
	for n in 1 2 3 4; do
		reeve submit script "well $n" --queue lab --batch "$1"
	done
	reeve submit script fatal --queue lab --batch "$1"
	reeve submit script never --queue lab --batch "$1"
	reeve submit script late --queue lab --batch "$1"
}

scripts() {
	cat >"$DIR/script" <<-'END'
		#!/bin/sh
		began=$(date +%s%N)
		trap 'echo "$REEVE_TASK_ID $REEVE_ATTEMPT $began $(date +%s%N)" >>ATTEMPTS' EXIT
		details=$(cat)
		sleep 0.3
		case $details in
		fatal) echo '{"directive": "NO_RETRY", "remark": "no use", "error": "the input is wrong"}' >&3 ;;
		never) echo '{"directive": "RETRY", "remark": "attempt '"$REEVE_ATTEMPT"'", "error": "not yet"}' >&3 ;;
		late)
			[ "$REEVE_ATTEMPT" -ge 4 ] || { echo '{"directive": "RETRY", "error": "too early"}' >&3; exit 0; }
			echo '{"directive": "SUCCESS", "remark": "at last"}' >&3
			;;
		*) echo '{"directive": "SUCCESS", "remark": "as it should be"}' >&3 ;;
		esac
	END
	sed -i "s|ATTEMPTS|$DIR/attempts|" "$DIR/script"
	chmod +x "$DIR/script"
	handlers <<-END
		[handler script]
		exec = $DIR/script
	END
}

report() { # BATCH FILTER
	reeve batch report "$1" --json | jq -r "$2"
}

# Runs a batch from its opening to its end; sets $batch to its id.
experiment() { # NAME
	batch=$(reeve batch open "$1" --queue lab)
	seven_tasks "$batch" >/dev/null
	reeve batch close "$batch" >/dev/null
	expect_fail 1 reeve batch wait "$batch" --max-wait 2m # some have failed
}

check_report() { # BATCH
	expect_eq '7 0 5 2' "$(report "$1" '.batch | "\(.submitted) \(.pending) \(.completed) \(.failed)"')"
	expect_eq 1 "$(report "$1" '.tasks[] | select(.remark == "no use") | .attempt')" 'never retried'
	expect_eq dead "$(report "$1" '.tasks[] | select(.remark == "no use") | .status')"
	expect_eq 'dead 6 attempt 6' "$(report "$1" '.tasks[] | select(.last_error == "not yet") | "\(.status) \(.attempt) \(.remark)"')" \
		'used up after five retries'
	expect_eq 'completed 4' "$(report "$1" '.tasks[] | select(.remark == "at last") | "\(.status) \(.attempt)"')" \
		'succeeds in the end'
	expect_eq 4 "$(report "$1" '[.tasks[] | select(.remark == "as it should be" and .status == "completed")] | length')"
}

test_the_published_experiment() {
	local batch one three attempts
	start_postgres
	start_manager
	scripts
	reeve queue set lab --waiting 1s --resting 500ms --retry-limit 5 --backoff linear:300ms --jitter 0
	start_worker w1 --concurrency 1 --queue lab
	sleep 1.5 # the waiting period of the worker itself is over
	experiment 'with 1'
	one=$batch
	check_report "$one"
	start_worker w2 --concurrency 1 --queue lab
	start_worker w3 --concurrency 1 --queue lab
	sleep 1.5
	experiment 'with 3'
	three=$batch
	check_report "$three"
	# The n-th retry delay is the resting period plus (n − 1) times the backoff.
	expect_eq '500 800 1100 1400 1700' "$(sql "select string_agg(round(extract(epoch from a.run_at - a.last_updated) * 1000)::text, ' ' order by a.attempt)
		from task_attempts a join task_history h using (task_id) where h.batch_id = $one and h.details = 'never'")"
	# No worker begins a task within the waiting period of the batch, or two tasks without a resting period between them,
	# by the handlers' clock.
	expect_eq 0 "$(sql "select count(*) from batches b join task_history h on h.batch_id = b.id
		where h.first_started < b.started_at + interval '1 s'")" 'begun before the waiting period'
	attempts=$(awk '{ printf "%s(%s, %s, %s, %s)", n++ ? ", " : "", $1, $2, $3, $4 }' "$DIR/attempts")
	expect_eq 't 30' "$(sql "select min(began - ended_before) >= 500000000, count(*) from (
		select began, lag(ended) over (partition by worker_id order by began) as ended_before
		from (values $attempts) v(task_id, attempt, began, ended) join (
			select task_id, attempt, worker_id from task_history union select task_id, attempt, worker_id from task_attempts) w
			using (task_id, attempt)) x" | tr '|' ' ')" 'a rest between two tasks of a slot'
	note "one worker and three took $(sql "select ended_at - started_at from batches where id in ($one, $three) order by id" | xargs)"
	expect_eq '1 3' "$(for batch in $one $three; do
		sql "select count(distinct w.worker_id) from (select task_id, worker_id from task_history union select task_id, worker_id from task_attempts) w
			join task_history h using (task_id) where h.batch_id = $batch"
	done | xargs)" 'workers that took part'
}

run_tests
