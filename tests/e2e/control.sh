#!/usr/bin/env bash
# Remote control of workers: `reeve worker scale`, `reeve worker drain|pause|resume|stop`.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

QUICK=(--lease 3s --heartbeat 300ms --expiry-grace 5s)

begin() { # a database and a manager
	start_postgres
	start_manager "${QUICK[@]}"
}

worker() { # NAME FIELD: of `reeve worker list`
	reeve worker list --json | jq -r "select(.name == \"$1\").$2"
}

worker_events() { # NAME: what its incarnations met, in order
	reeve audit --json | jq -rs "map(select(.task_id == 0 and .worker == \"$1\").event) | join(\" \")"
}

began() { # how many $HOLD handlers have begun
	find "$DIR" -maxdepth 1 -name 'began.*' | wc -l
}

hold() { # N: submits so many tasks that run until they are released
	for _ in $(seq "$1"); do reeve submit sh "$HOLD"; done
}

test_one_worker_is_scaled_while_its_tasks_run() {
	begin
	start_worker one --concurrency 2 --prefetch 0
	start_worker two --concurrency 1 --prefetch 0 --queue elsewhere
	mapfile -t ids < <(hold 6)
	wait_until 20 '[ "$(began)" = 2 ]'
	expect_eq '2 running 2' "$(worker one concurrency) $(worker one mode) $(worker one holding)"
	expect_match '^one +concurrency 5$' "$(reeve worker scale one 5 | tail -n 1)"
	wait_until 20 '[ "$(began)" = 5 ]'
	wait_until 20 '[ "$(worker one concurrency)" = 5 ]'
	expect_eq 1 "$(worker two concurrency)"
	# With a lower concurrency running tasks continue, and no new ones begin.
	expect_eq '{"names":["one"],"notified":1}' "$(reeve worker scale one 1 --json)"
	wait_until 20 '[ "$(worker one concurrency)" = 1 ]'
	alone=$(reeve submit sh "[ ! -e $DIR/alone ] || echo overlap >>$DIR/overlaps; touch $DIR/alone; sleep 0.2; rm $DIR/alone")
	also=$(reeve submit sh "[ ! -e $DIR/alone ] || echo overlap >>$DIR/overlaps; touch $DIR/alone; sleep 0.2; rm $DIR/alone")
	expect_eq 5 "$(began)"
	expect_eq 5 "$(worker one holding)"
	release
	reeve wait "${ids[@]}" "$alone" "$also" >"$DIR/null"
	expect [ ! -e "$DIR/overlaps" ]
	expect_eq 'registered scaled scaled' "$(worker_events one)"
	expect_eq 'registered' "$(worker_events two)"
	expect_eq 'concurrency 5,concurrency 1' "$(reeve audit --json | jq -rs 'map(select(.event == "scaled").note) | join(",")')"
	expect_match '.@.' "$(reeve audit --json | jq -rs 'map(select(.event == "scaled").actor)[0]')"
	expect_match 'scaled .* one .*@.* concurrency 5' "$(reeve audit)"
	# Scaling to the current concurrency adds no event.
	reeve worker scale one 1
	expect_eq 'registered scaled scaled' "$(worker_events one)"
	# The worker counts its tasks.
	wait_until 20 '[ "$(worker one completed)" = 8 ]'
	reeve submit sh 'exit 65' --wait 2>"$DIR/null" || true
	wait_until 20 '[ "$(worker one failed)" = 1 ]'
	expect_match "one +alive +running +[0-9]+[sm] +1 +0 +8 +1 +[0-9]+[sm]" "$(reeve worker list)"
}

test_all_workers_are_scaled() {
	begin
	for i in 1 2 3; do start_worker "w$i" --concurrency 1 --prefetch 0; done
	mapfile -t ids < <(hold 8)
	wait_until 20 '[ "$(began)" = 3 ]'
	expect_eq '["w1","w2","w3"]' "$(reeve worker scale --all 2 --json | jq -c '.names | sort')"
	wait_until 20 '[ "$(began)" = 6 ]'
	expect_match 'w3 +concurrency 1' "$(reeve worker scale --all 1)"
	wait_until 20 '[ "$(reeve worker list --json | jq -s "map(.concurrency) | add")" = 3 ]'
	expect_eq 6 "$(began)"
	release
	reeve wait "${ids[@]}" >"$DIR/null"
}

# The file descriptors of a worker limit how many programs it can run: it runs as many as it can, logs that once, and no
# task fails because of it.
test_a_worker_is_scaled_beyond_what_it_can_run() {
	begin
	ulimit -n 300
	start_worker worker --concurrency 2 --prefetch 0
	reeve worker scale worker 1000 >"$DIR/null"
	wait_until 20 '[ "$(worker worker concurrency)" = 28 ]'
	expect_match 'is enough for 28 programs at once; running 28 at once instead of 1000' "$(cat "$DIR/log/worker.log")"
	mapfile -t ids < <(hold 40)
	wait_until 20 '[ "$(began)" = 28 ]'
	release
	reeve wait "${ids[@]}" >"$DIR/null"
	expect_eq 40 "$(sql "select count(*) from task_history where status = 'completed' and attempt = 1")"
	expect_eq 1 "$(grep -c 'instead of 1000' "$DIR/log/worker.log")" # though the order came with each heartbeat
	reeve worker scale worker 3 >"$DIR/null"
	wait_until 20 '[ "$(worker worker concurrency)" = 3 ]'
	reeve worker scale worker 1000 >"$DIR/null"
	wait_until 20 '[ "$(worker worker concurrency)" = 28 ]'
	stop worker
	launch_worker worker --concurrency 1000
	ended worker
	expect_eq 1 "$STATUS"
	expect_match 'error .*is enough for 28 programs at once' "$(tail -n 2 "$DIR/log/worker.log")"
}

test_a_workers_state_is_shown_before_its_next_heartbeat() {
	start_postgres
	start_manager --lease 90s --heartbeat 30s --expiry-grace 100s
	start_worker worker --concurrency 2
	for order in pause:paused resume:running; do
		reeve worker "${order%:*}" worker >"$DIR/null"
		wait_until 10 '[ "$(worker worker mode)" = "${order#*:}" ]'
	done
	reeve worker scale worker 3 >"$DIR/null"
	wait_until 10 '[ "$(worker worker concurrency)" = 3 ]'
	reeve submit sh 'exit 65' --wait 2>"$DIR/null" || true
	reeve submit nothing --wait
	wait_until 10 '[ "$(worker worker completed) $(worker worker failed)" = "1 1" ]'
}

test_a_worker_is_paused_and_resumed() {
	begin
	start_worker worker --concurrency 2
	id=$(hold 1)
	wait_began "$id"
	since=$(worker worker mode_since)
	reeve worker pause worker >"$DIR/null"
	wait_until 20 '[ "$(worker worker mode)" = paused ]'
	expect [ "$(worker worker mode_since)" '>' "$since" ]
	since=$(worker worker mode_since)
	waiting=$(reeve submit nothing)
	release
	reeve wait "$id" >"$DIR/null" # what runs finishes
	wait_until 20 '[ "$(worker worker completed)" = 1 ]'
	expect_eq queued "$(field "$waiting" status)"
	expect_eq "paused $since" "$(worker worker mode) $(worker worker mode_since)" # since then, whatever it was asked since
	reeve worker pause worker >"$DIR/null"
	reeve worker resume worker >"$DIR/null"
	reeve wait "$waiting" >"$DIR/null"
	wait_until 20 '[ "$(worker worker mode)" = running ]'
	reeve worker resume --all >"$DIR/null"
	expect_eq 'registered paused resumed' "$(worker_events worker)"
	expect_eq 0 "$(sql 'select count(*) from worker_commands')"
}

test_a_worker_is_drained() {
	begin
	start_worker leaver --concurrency 1 --prefetch 0
	id=$(hold 1)
	wait_began "$id"
	expect_eq 'leaver drain' "$(reeve worker drain leaver | tail -n 1 | xargs)"
	wait_until 20 '[ "$(worker leaver mode)" = draining ]'
	waiting=$(reeve submit nothing)
	sleep 1
	expect_eq "executing queued" "$(field "$id" status) $(field "$waiting" status)"
	release
	ended leaver
	expect_eq 0 "$STATUS"
	expect_eq 'completed 1 queued 0' "$(field "$id" status) $(field "$id" attempt) $(field "$waiting" status) $(reeve show "$waiting" --json | jq .attempt)"
	expect_eq 'registered drain_requested left' "$(worker_events leaver)"
	expect_fail 4 reeve worker drain leaver
	expect_match 'no worker named "leaver" is alive' "$OUTPUT"
	start_worker leaver # a new incarnation knows of no order
	reeve wait "$waiting" >"$DIR/null"
	expect_eq running "$(worker leaver mode)"
}

test_a_stopped_worker_returns_its_tasks() {
	begin
	start_worker first --concurrency 2
	mapfile -t ids < <(hold 2)
	wait_until 20 '[ "$(began)" = 2 ]'
	reeve worker stop first >"$DIR/null"
	ended first
	expect_eq 0 "$STATUS"
	for id in "${ids[@]}"; do
		expect_eq 'queued 0' "$(field "$id" status) $(reeve show "$id" --json | jq .attempt)"
		expect_eq 'submitted claimed returned' "$(events "$id")"
	done
	expect_eq 'registered stop_requested left' "$(worker_events first)"
	release
	start_worker second --concurrency 2
	reeve wait "${ids[@]}" >"$DIR/null"
	expect_eq '1 second' "$(field "${ids[0]}" attempt) $(field "${ids[0]}" worker)"
}

# Whichever manager is called, the worker gets the command at once, by its Fetch that is open at its own manager, long
# before the next heartbeat.
test_through_another_manager() {
	start_postgres
	start_manager first --lease 600s --heartbeat 150s --expiry-grace 700s
	one=$REEVE_MANAGER
	start_worker worker --concurrency 1 --prefetch 0 --manager "$one"
	start_manager second --lease 600s --heartbeat 150s --expiry-grace 700s
	mapfile -t ids < <(hold 1)
	wait_began "${ids[0]}"
	release
	reeve wait "${ids[0]}" >"$DIR/null"
	rm "$DIR/released"
	reeve worker scale worker 3 >"$DIR/null"
	mapfile -t ids < <(hold 3)
	wait_until 30 '[ "$(began)" = 4 ]'
	release
	reeve wait "${ids[@]}" >"$DIR/null"
	reeve worker drain worker >"$DIR/null"
	ended worker
	expect_eq 'registered scaled drain_requested left' "$(worker_events worker)"
}

# Commands are rows in the database: a manager that dies loses none.
test_with_a_manager_restarted_in_between() {
	begin
	start_worker worker --concurrency 1 --prefetch 0
	reeve worker pause worker >"$DIR/null"
	reeve worker scale worker 4 >"$DIR/null"
	wait_until 20 '[ "$(worker worker mode)" = paused ]'
	kill_manager
	start_manager "${QUICK[@]}"
	mapfile -t ids < <(hold 4)
	wait_until 10 '[ "$(worker worker state) $(worker worker mode) $(worker worker concurrency)" = "alive paused 4" ]'
	expect_eq 0 "$(began)"
	expect_eq 2 "$(sql 'select count(*) from worker_commands')"
	sql "$(cat "$STATEMENTS/purge_worker_commands.sql")"
	expect_eq 2 "$(sql 'select count(*) from worker_commands')" 'commands of a worker that lives'
	expect_eq 1 "$(sql 'select count(*) from workers')" # it is the same incarnation all the time
	reeve worker resume worker >"$DIR/null"
	wait_until 20 '[ "$(began)" = 4 ]'
	release
	reeve wait "${ids[@]}" >"$DIR/null"
	# Commands belong to the incarnation, not to the name: a restarted worker has its own concurrency and is not paused.
	reeve worker pause worker >"$DIR/null"
	stop worker
	start_worker worker --concurrency 2
	reeve submit nothing --wait
	expect_eq 'running 2' "$(worker worker mode) $(worker worker concurrency)"
	expect_eq 2 "$(sql 'select count(*) from worker_commands')"
	sql "$(cat "$STATEMENTS/purge_worker_commands.sql")"
	expect_eq 0 "$(sql 'select count(*) from worker_commands')" 'commands of one that is gone'
}

# Many commands at once, through two managers: each is stored, and the last one applies.
test_many_worker_commands_at_once() {
	begin
	one=$REEVE_MANAGER
	start_manager second "${QUICK[@]}"
	for i in 1 2 3; do start_worker "w$i" --concurrency 1; done
	pids=()
	for i in $(seq 8); do
		for url in "$one" "$REEVE_MANAGER"; do
			(
				export REEVE_MANAGER=$url
				reeve worker scale --all $((1 + i)) && reeve worker pause --all && reeve worker resume --all
			) >"$DIR/said.$i" 2>&1 &
			pids+=($!)
		done
	done
	for pid in "${pids[@]}"; do wait "$pid" || fail "$(cat "$DIR"/said.*)"; done
	expect_no_match deadlock "$(cat "$DIR/log/postgres.log")"
	reeve worker scale --all 4 >"$DIR/null"
	reeve worker resume --all >"$DIR/null"
	wait_until 20 '[ "$(reeve worker list --json | jq -c "[.mode, .concurrency]" | sort -u)" = "[\"running\",4]" ]'
	expect_eq 'concurrency 4|3' "$(sql "select kind || ' ' || value, count(*) from worker_commands group by 1")"
	# Each pause has one event, and so has its end.
	expect_eq "$(sql "select count(*) from worker_events where event = 'paused'")" "$(sql "select count(*) from worker_events where event = 'resumed'")"
}

# Commands to workers that do not exist, and invalid commands, are refused, and nothing is stored.
test_invalid_worker_commands() {
	begin
	start_worker worker --queue default
	reeve submit nothing --queue hands >"$DIR/null"
	reeve fetch --queue hands --name hand >"$DIR/null"
	while IFS='|' read -r code regex words; do
		eval "expect_fail $code reeve $words"
		expect_match "$regex" "$OUTPUT" "$words"
	done <<-'END'
		4|no worker named "nobody" is alive|worker scale nobody 3
		4|no worker named "hand" is alive \(pull clients take no commands\)|worker pause hand
		2|"1.5" is not a number of tasks; it must be a whole number from 0 to 10000|worker scale worker 1.5
		2|"10001" is not a number|worker scale worker 10001
		2|"x" is not a number|worker scale --all x
		2|"worker" is not a number|worker scale worker
		2|the worker's name is missing|worker scale 3
		2|the worker's name and the number of tasks are missing|worker scale
		2|either --all or a worker's name, not both \("worker"\)|worker scale worker 3 --all
		2|unexpected argument "other": give one worker|worker scale worker other 3
		2|reeve worker: the verb is missing|worker
		2|unknown verb "halt"|worker halt worker
		2|the worker's name is missing|worker drain
		2|the worker's name is empty|worker drain ''
		4|name is longer than 255 bytes|worker drain "$(head -c 256 /dev/zero | tr '\0' x)"
	END
	expect_eq 0 "$(sql 'select count(*) from worker_commands')"
	expect_eq 'registered' "$(worker_events worker)"
	raw() { # ControlWorkers with these bytes
		printf "$1" | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.AdminService/ControlWorkers
	}
	expect_match '^3 action is 0; it must be from 1 to 5' "$(raw '\x10\x01')"
	expect_match '^3 action is 6; it must be from 1 to 5' "$(raw '\x10\x01\x18\x06')"
	expect_match '^3 name and all cannot be combined' "$(raw '\x0a\x01w\x10\x01\x18\x01')"
	expect_match '^3 name is empty' "$(raw '\x18\x01')"
	expect_match '^3 concurrency is 10001; it must be from 0 to 10000' "$(raw '\x10\x01\x18\x05\x20\x91\x4e')"
	expect_match '^3 concurrency is 2; only SCALE takes one' "$(raw '\x10\x01\x18\x01\x20\x02')"
	stop worker
	expect_fail 4 reeve worker pause --all
	expect_match 'no worker is alive' "$OUTPUT"
}

run_tests
