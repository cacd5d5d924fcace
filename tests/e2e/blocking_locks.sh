#!/usr/bin/env bash
# Locks that another session keeps for long: a manager frozen within a transaction, a forgotten psql, a dump. Work that
# does not need them goes on as before, and the other work goes on when they are released.
# timeout 600
# long
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/faults.bash"
. "$(dirname "$0")/locks.bash"

SHORT=(--lease 4s --heartbeat 800ms --expiry-grace 6s)

expect_at_most() { # MS GOT WHAT
	note "$3: $2 ms (at most $1)"
	[ "$2" -le "$1" ] || fail "$3: $2 ms; expected at most $1 ms"
}

# Submits a steady stream of tasks to a queue until the file $DIR/enough exists.
start_stream() { # NAME QUEUE URL
	start "$1" bash -c "until [ -e '$DIR/enough' ]; do
		'$REEVE_BIN/reeve' submit nothing --queue '$2' --manager '$3' >>'$DIR/$1.ids' || echo failed >>'$DIR/$1.failed'; done"
}

# Starts two callers that submit tasks, each the next one 40 ms after its last has ended; see p99.
start_calls() { # NAME [QUEUE [BATCH]]
	start "$1" "$REEVE_BIN/steady-calls" 2 nothing "${@:2}"
}

stop_calls() { # NAME…
	local name
	for name; do
		stop "$name"
		expect_eq 0 "$STATUS" "exit code of $name"
	done
}

FOR_EVER=60000 # ms: what so few tasks take that p99 does not count them

# Prints the p99, in ms, of the time from the submit call of start_calls NAME to the answer that the task has ended. It
# counts the tasks that were in flight between FROM and UNTIL by the callers' clock, as if one were submitted every 40
# ms: a caller that waits a second submits one task in that second, where others would have submitted 25.
p99() { # NAME FROM UNTIL [LEAST]: fails with fewer tasks, 16 unless given
	awk -v from="$2" -v until="$3" -v least="${4:-16}" '
		$3 == "submit" { begun[$4] = $1 }
		$3 == "wait" && ($4 in begun) && begun[$4] < until && $1 + $2 >= from {
			tasks++
			for (ms = $1 + $2 - begun[$4]; ms > 0; ms -= 40) {
				count[ms]++
				all++
				if (ms > longest) longest = ms
			}
		}
		END {
			if (tasks < least) exit 1
			for (ms = longest; above + count[ms] <= all / 100; ms--) above += count[ms]
			print ms
		}' "$DIR/log/$1.log" || fail "fewer than ${4:-16} tasks of $1 in $(($3 - $2)) ms"
}

longest() { # NAME: the longest that any of its tasks took, in ms
	awk '$3 == "submit" { begun[$4] = $1 }
		$3 == "wait" && $1 + $2 - begun[$4] > longest { longest = $1 + $2 - begun[$4] }
		END { print longest + 0 }' "$DIR/log/$1.log"
}

parts() { # NAME FROM UNTIL [LEAST]: prints the p99 of each fifth of that time, FOR_EVER if it has too few tasks
	local part fifth=$((($3 - $2) / 5))
	for part in 0 1 2 3 4; do
		(p99 "$1" $(($2 + part * fifth)) $(($2 + (part + 1) * fifth)) "${4:-16}") || echo $FOR_EVER
	done
}

# Prints the p99 of NAME that is usual before something is locked: the median of fifths. The p99 of the entire time is up
# to three times as long, because programs that have just been started are slow at first.
usual() { # NAME FROM UNTIL
	local median
	median=$(parts "$1" "$2" "$3" 8 | sort -n | sed -n 3p)
	[ "$median" -lt $FOR_EVER ] || fail "few tasks of $1 in $(($3 - $2)) ms"
	echo "$median"
}

# Expects the p99 of NAME to be within 50 ms of MS, or twice MS on a machine so busy that this is more, in four of five
# parts of FROM to UNTIL. The first two waits for a lock, or a burst of other load, can spoil one part. What a lock causes
# again and again, such as a wait for it at each retry, shows in more.
expect_as_before() { # NAME MS FROM UNTIL
	local got bad=0
	got=$(parts "$1" "$3" "$4")
	note "99 of 100 tasks of $1: $2 ms before, and then in each fifth: $(xargs <<<"$got")"
	bad=$(awk -v most=$(($2 > 50 ? 2 * $2 : $2 + 50)) '$1 > most { n++ } END { print n + 0 }' <<<"$got")
	[ "$bad" -le 1 ] || fail "tasks of $1 take longer than before"
}

pace() { # CONDITION FROM UNTIL: how many such tasks have ended in a second of that time
	echo $(($(sql "select count(*) from task_history where $1
		and last_updated between to_timestamp($2 / 1000.0) and to_timestamp($3 / 1000.0)") * 1000 / ($3 - $2)))
}

in_transaction() { # [ROLE] how many sessions of frozen managers, in that role, stand still within one
	sql "select count(*) from pg_stat_activity where application_name like 'reeve-manager ${1:-%}' and state like 'idle in transaction%'
		and state_change < clock_timestamp() - interval '100 ms'"
}

# Freezes a manager within a transaction of ROLE (any unless given), in up to 50 tries; sets $FROZEN to the time in ms.
freeze() { # NAME [ROLE]
	local tries
	for tries in $(seq 1 50); do
		FROZEN=$(ms)
		signal "$1" STOP
		sleep 0.2
		[ "$(in_transaction "${2:-%}")" = 0 ] || return 0
		signal "$1" CONT
		sleep 0.$((RANDOM % 5))
	done
	fail "$1 was never within a transaction"
}

# The frozen manager locks batches of one queue, which concerns submits into them. It does not affect tasks of another
# queue, in a batch or not.
# alone
test_a_manager_freezes_within_a_transaction_and_the_others_go_on() {
	local good=0 round batch name slower least
	local -A before during pace
	start_postgres
	start_manager one "${SHORT[@]}"
	# With its database 10 ms away a manager is within a transaction for much of its time.
	start_proxy away postgres
	tell away delay up 5
	tell away delay down 5
	start_manager two --database "${PROXY[away]}" "${SHORT[@]}"
	REEVE_MANAGER=${URL[one]}
	reeve queue set grouped --batches yes >/dev/null
	start_worker worker --concurrency 8
	start_calls plain plain
	start_calls mixed grouped
	batch=$(reeve batch open beside --queue beside)
	start_calls beside beside "$batch"
	REEVE_MANAGER=${URL[two]} start_calls grouped grouped
	sleep 1
	from=$(ms)
	sleep 4
	until=$(ms)
	sleep 1 # nothing of this time is still under way when the manager freezes
	for name in plain beside; do
		before[$name]=$(p99 $name "$from" "$until" 8)
		pace[$name]=$(pace "queue = '$name'" "$from" "$until")
	done
	for round in 1 2 3; do
		freeze two
		wait_until 10 '[ "$(in_transaction)" = 0 ]'
		until=$(ms)
		expect_at_most 1500 $((until - FROZEN)) 'the frozen manager kept its locks'
		sleep 1
		slower=''
		for name in plain beside; do
			least=$((pace[$name] * (until - FROZEN) / 2000)) # half as many as before
			during[$name]=$(p99 $name "$FROZEN" "$until" $((least < 20 ? least + 1 : 20))) || during[$name]=$FOR_EVER
			note "99 of 100 tasks of $name: ${before[$name]} ms before, ${during[$name]} ms while one manager was frozen"
			[ "${during[$name]}" -le $((before[$name] + 50)) ] || slower=yes
		done
		expect_at_most 3000 "$(sql "select (extract(epoch from max(last_updated - first_started)) * 1000)::bigint
			from task_history where last_updated >= to_timestamp($FROZEN / 1000.0)")" 'the longest that a result took to be accepted'
		signal two CONT
		[ "$slower" ] || good=$((good + 1))
		[ $good -lt 2 ] || break
		sleep 1
	done
	[ $good -ge 2 ] || fail 'plain tasks, or those of a batch of another queue, take longer than before'
	# The work that it was about to do is done, once.
	sleep 1
	stop_calls plain mixed beside grouped
	expect_at_most 2000 "$(longest plain)" 'the longest that a plain task took'
	expect_at_most 3000 "$(longest mixed)" 'the longest that a task of the locked queue took through the other manager'
	wait_until 30 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_eq "$(awk '$3 == "submit" { print $4 }' "$DIR"/log/{plain,mixed,beside,grouped}.log | sort -u | wc -l)" "$(sql 'select count(*) from task_history')"
	expect_eq "$(sql "select count(*) from task_history where batch_id is not null")" "$(sql 'select sum(submitted) from batches')"
	expect_eq 0 "$(sql 'select sum(pending) from batches')"
}

# A manager edits 1,000 waiting tasks again and again, and freezes with them locked; claims of the other manager meet
# the locks. Tasks of another queue take as long as before, and each task of this queue runs once in the end.
# alone
test_a_manager_freezes_within_an_edit_and_the_others_claims_go_on() {
	local good=0 round before during ended
	start_postgres
	start_manager two "${SHORT[@]}"
	start_manager one "${SHORT[@]}"
	for n in $(seq 1000); do echo '{}'; done | reeve submit --bulk - nothing --queue edited >/dev/null
	reeve queue pause edited >/dev/null
	start_worker claims --concurrency 1 --queue edited
	start_worker worker --concurrency 8 --queue plain
	start_calls plain plain
	start edits bash -c "until [ -e '$DIR/no-more' ]; do '$REEVE_BIN/reeve' update --where queue=edited --priority \$((RANDOM % 9)) --manager '${URL[two]}' || sleep 0.1; done"
	wait_until 20 'grep -q "^1000 tasks" "$DIR/log/edits.log"'
	from=$(ms)
	sleep 3
	until=$(ms)
	sleep 1 # nothing of this time is still under way when the manager freezes
	before=$(p99 plain "$from" "$until")
	for round in 1 2 3; do
		freeze two edit
		[ $round != 1 ] || reeve queue resume edited >/dev/null
		wait_until 10 '[ "$(in_transaction edit)" = 0 ]'
		until=$(ms)
		expect_at_most 2000 $((until - FROZEN)) 'the frozen manager kept its locks'
		sleep 1
		during=$(p99 plain "$FROZEN" "$until" 1) || during=$FOR_EVER
		signal two CONT
		note "99 of 100 plain tasks: $before ms before, $during ms while the manager that edits was frozen"
		[ "$during" -gt $((before + 50)) ] || good=$((good + 1))
		[ $good -lt 2 ] || break
		sleep 1
	done
	[ $good -ge 2 ] || fail 'plain tasks take longer than before'
	ended=$(sql "select count(*) from task_history where queue = 'edited'")
	wait_until 10 "[ \"\$(sql \"select count(*) from task_history where queue = 'edited'\")\" -gt $ended ]"
	touch "$DIR/no-more"
	ended edits
	stop_calls plain
	expect_eq '1000|1' "$(sql "select count(*), max(attempt) from all_tasks where queue = 'edited'")"
}

# A quarter of this lease, 3 s, lies between the minimum (1 s) and the maximum (5 s) of the limit for idle transactions.
# measures time
test_what_a_frozen_manager_locked_is_let_go_after_a_quarter_of_its_lease() {
	local name
	start_postgres
	start_manager manager --lease 12s --heartbeat 3s --expiry-grace 15s
	reeve queue set grouped --batches yes >/dev/null
	for name in grouped1 grouped2 grouped3; do
		start_stream $name grouped "$REEVE_MANAGER"
	done
	freeze manager
	wait_until 10 '[ "$(in_transaction)" = 0 ]'
	took=$(($(ms) - FROZEN))
	expect_at_most 3500 "$took" 'the frozen manager kept its locks'
	expect [ "$took" -ge 2500 ]
	touch "$DIR/enough"
	signal manager CONT
	for name in grouped1 grouped2 grouped3; do ended $name 30; done
}

# Results wait for a lock twice in the first two seconds; then reports are careful for 10 s.
expect_few_lock_waits() {
	local waits
	waits=$(grep -c 'reeve-manager report ERROR:  canceling statement due to lock timeout' "$DIR/log/postgres.log")
	expect [ "$waits" -ge 1 ] && expect [ "$waits" -le 3 ]
}

# alone
test_a_locked_task_delays_no_other_result() {
	start_postgres
	start_manager manager "${SHORT[@]}"
	start_worker other --queue plain
	start_calls plain plain
	wait_until 10 '[ -s "$DIR/log/plain.log" ]'
	from=$(ms)
	sleep 5
	until=$(ms)
	start_worker worker --queue default --concurrency 30
	for n in $(seq 30); do reeve submit sh "$HOLD" >>"$DIR/ids"; done
	while read -r id; do wait_began "$id"; done <"$DIR/ids"
	before=$(usual plain "$from" "$until")
	locked=$(sed -n 7p "$DIR/ids")
	hold holder "select from tasks where id = $locked for update"
	release
	begin=$(ms)
	wait_until 20 '[ "$(sql "select count(*) from tasks where queue = '"'default'"'")" = 1 ]'
	expect_at_most 1000 $(($(ms) - begin)) 'the results of the others'
	# This lasts: retries for the locked task delay no other result.
	from=$(ms)
	sleep 10
	until=$(ms)
	expect_eq executing "$(field "$locked" status)"
	expect_few_lock_waits
	let_go holder
	begin=$(ms)
	wait_status 10 "$locked" completed
	expect_at_most 2500 $(($(ms) - begin)) 'its own, after the lock went'
	stop_calls plain
	expect_as_before plain "$before" "$from" "$until"
	expect_at_most 2000 "$(longest plain)" 'the longest that a plain task took'
	expect_eq 0 "$(sql "select count(*) from task_events where event = 'late_result'")"
}

# A task of the first manager is locked, so that its reports are careful. Both managers end tasks of another batch all
# the time, whose row each finds locked by the other.
# alone
test_a_locked_task_delays_no_batch_that_two_managers_share() {
	local b before from until
	start_postgres
	start_manager two "${SHORT[@]}"
	start_worker far --queue batched --concurrency 4
	start_manager one "${SHORT[@]}"
	b=$(reeve batch open b --queue batched)
	start_worker near --queue batched --concurrency 4
	start_worker holding --queue default
	id=$(reeve submit sh "$HOLD")
	wait_began "$id"
	start_calls beside batched "$b"
	REEVE_MANAGER=${URL[two]} start_calls other batched "$b"
	wait_until 10 '[ -s "$DIR/log/beside.log" ] && [ -s "$DIR/log/other.log" ]'
	from=$(ms)
	sleep 5
	until=$(ms)
	sleep 1
	before=$(usual beside "$from" "$until")
	hold holder "select from tasks where id = $id for update"
	release
	from=$(ms)
	sleep 10
	until=$(ms)
	expect_eq executing "$(field "$id" status)"
	let_go holder
	wait_status 10 "$id" completed
	stop_calls beside other
	expect_as_before beside "$before" "$from" "$until"
	expect_at_most 1000 "$(longest beside)" 'the longest that a task of the batch took'
	expect_eq "$(cat "$DIR"/log/{beside,other}.log | grep -c wait)" "$(sql "select completed from batches where id = $b")"
}

# The row of a task's batch is locked. Tasks of another queue, and of another batch of the queue, are not delayed.
# alone
test_a_locked_batch_delays_no_other_result() {
	start_postgres
	start_manager manager "${SHORT[@]}"
	a=$(reeve batch open a --queue batched)
	b=$(reeve batch open b --queue batched)
	start_worker worker --concurrency 8
	start_calls plain plain
	start_calls beside batched "$b"
	wait_until 10 '[ -s "$DIR/log/plain.log" ] && [ -s "$DIR/log/beside.log" ]'
	from=$(ms)
	sleep 5
	until=$(ms)
	reeve submit sh "$HOLD" --queue batched --batch "$a" >"$DIR/a"
	wait_began "$(cat "$DIR/a")"
	before=$(usual plain "$from" "$until")
	before_beside=$(usual beside "$from" "$until")
	hold holder "select from batches where id = $a for update"
	from=$(ms)
	release
	start into "$REEVE_BIN/reeve" submit nothing --queue batched --batch "$a"
	sleep 10
	until=$(ms)
	expect_eq executing "$(field "$(cat "$DIR/a")" status)"
	expect alive into
	expect_few_lock_waits
	let_go holder
	wait_status 10 "$(cat "$DIR/a")" completed
	ended into 10
	expect_eq 0 "$STATUS" 'exit code of the submit into the locked batch'
	stop_calls plain beside
	expect_as_before plain "$before" "$from" "$until"
	expect_as_before beside "$before_beside" "$from" "$until"
	wait_until 10 '[ "$(sql "select completed from batches where id = $a")" = 2 ]'
	expect_eq "$(grep -c wait "$DIR/log/beside.log")" "$(sql "select completed from batches where id = $b")"
}

# Simulates a manager that froze while it submitted into a batch: a submit into another batch of the queue does not
# wait.
test_a_submit_into_a_batch_delays_no_other_batch_of_the_queue() {
	local a b begin
	start_postgres
	start_manager manager "${SHORT[@]}"
	reeve queue set batched --autostart yes >/dev/null # a row to be locked
	a=$(reeve batch open a --queue batched)
	b=$(reeve batch open b --queue batched)
	reeve submit nothing --queue batched --batch "$b" >/dev/null
	hold holder "select submit_batches(gen_random_uuid(), array['batched'], array[$a], array[null::text])"
	begin=$(ms)
	reeve submit nothing --queue batched --batch "$b" >/dev/null
	expect_at_most 500 $(($(ms) - begin)) 'a submit into another batch'
	# Stopping the queue waits for the lock, because it closes the batches.
	expect_fail 3 reeve queue stop batched --call-timeout 1s
	expect_eq running "$(sql "select state from queues")"
	let_go holder
	reeve queue stop batched >/dev/null
	wait_until 10 '[ "$(sql "select state from queues")" = stopped ]'
	expect_eq 't|t' "$(sql 'select bool_and(closed_at is not null), bool_and(stopped) from batches')"
}

# If the queue is stopped while a submit waits for its batch, the submit is refused.
test_a_submit_that_waits_for_its_batch_hears_that_the_queue_was_stopped() {
	local a
	start_postgres
	start_manager manager "${SHORT[@]}"
	reeve queue set batched --autostart yes >/dev/null
	a=$(reeve batch open a --queue batched)
	stop manager
	hold holder "select from batches where id = $a for update"
	start into "$REEVE_TEST_PG_BIN/psql" -XAtq -h "$PGDIR" -U postgres -d reeve -c 'set search_path = reeve' \
		-c "select submit_batches(gen_random_uuid(), array['batched'], array[$a], array[null::text])"
	wait_until 10 '[ "$(sql "select count(*) from pg_locks where not granted")" -ge 1 ]'
	sql "update queues set state = 'stopping', stopped_id = 0, stopped_at = clock_timestamp() where name = 'batched'"
	let_go holder
	ended into 10
	expect_eq 1 "$STATUS" 'exit code of the submit'
	expect_match 'queue "batched" is being stopped; try again' "$(cat "$DIR/log/into.log")"
}

# The statement that adds a route waits until the other session has committed the same route. It cannot see that row
# yet, but the manager then finds it.
test_a_type_that_another_manager_creates_is_found() {
	local ms add=$STATEMENTS/routes_add.sql
	start_postgres
	local psql=("$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve -c 'set search_path = reeve')
	start_manager manager "${SHORT[@]}"
	for ms in 20 40 60 80 100 120 140 160 180 200; do
		start other$ms "${psql[@]}" -c begin -c "insert into routes (queue, type) values ('default', 'fresh$ms')" \
			-c "select pg_sleep(0.2 + 0.001 * $ms)" -c commit
		sleep 0.2
		expect_eq "$(reeve submit fresh$ms --call-timeout 10s)" "$(sql 'select max(id) from tasks')"
		ended other$ms 10
	done
	expect_eq 10 "$(sql "select count(distinct r.type) from tasks t join routes r on r.id = t.route_id where r.type like 'fresh%'")"
	start another "${psql[@]}" -c begin -c "insert into routes (queue, type) values ('default', 'last')" -c 'select pg_sleep(1)' -c commit
	wait_until 10 "[ \"\$(sql \"select count(*) from pg_stat_activity where query like 'select pg_sleep%'\")\" = 1 ]"
	start second "${psql[@]}" -c "prepare add as $(cat "$add")" -c "execute add('{default,default,default}', '{fresh20,last,made}')"
	ended second 10
	expect_eq "$(sql "select id, queue, type from routes where type = 'fresh20'"; echo '|default|last'; sql "select id, queue, type from routes where type = 'made'")" \
		"$(sort -t '|' -k 3 "$DIR/log/second.log")"
}

# There are more locked batches than one poll reads. Stopping their queue gives each of them a step.
# measures time
test_locked_batches_hide_no_others() {
	start_postgres
	start_manager manager "${SHORT[@]}"
	start_worker worker
	reeve queue set locked --batches yes >/dev/null
	sql "insert into batches (name, queue, implicit) select 'b' || n, 'locked', false from generate_series(1, 130) n"
	sql "insert into batches (name, queue, implicit) select 'idle' || n, 'batched', false from generate_series(1, 10) n"
	other=$(reeve batch open other --queue batched)
	reeve submit nothing --queue batched --batch "$other" --wait >/dev/null
	hold holder "select from batches where queue = 'locked' for update"
	sql "update queues set state = 'stopped', stopped_id = 0, stopped_at = clock_timestamp() where name = 'locked'"
	sleep 1.5
	reeve batch close "$other" >/dev/null
	begin=$(ms)
	wait_until 40 '[ "$(sql "select phase from batches where id = $other")" = ended ]'
	expect_at_most 3000 $(($(ms) - begin)) 'the end of a batch of another queue'
	expect_eq 0 "$(sql "select count(*) from batches where name like 'idle%' and xmax <> 0")" 'locked though there is nothing to do'
	let_go holder
	wait_until 40 '[ "$(sql "select count(*) from batches where queue = '\''locked'\'' and closed_at is null")" = 0 ]'
}

# alone
test_a_task_that_waits_and_is_locked_delays_no_claim() {
	start_postgres
	start_manager manager "${SHORT[@]}"
	start_worker worker --concurrency 4
	start_calls plain plain
	wait_until 10 '[ -s "$DIR/log/plain.log" ]'
	from=$(ms)
	sleep 5
	until=$(ms)
	stop_calls plain
	before=$(usual plain "$from" "$until")
	stop worker
	for n in 1 2 3; do reeve submit nothing --queue plain >>"$DIR/ids"; done
	hold holder "select from tasks where id = $(head -n 1 "$DIR/ids") for update"
	start_worker worker --concurrency 4
	wait_until 10 '[ "$(sql "select count(*) from tasks")" = 1 ]'
	start_calls plain plain
	wait_until 10 '[ "$(wc -l <"$DIR/log/plain.log")" -gt 100 ]' # so many calls of programs that have just been started
	from=$(ms)
	sleep 10
	until=$(ms)
	stop_calls plain
	expect_as_before plain "$before" "$from" "$until"
	expect_at_most 2000 "$(longest plain)" 'the longest that a plain task took'
	# After the first lock timeout, claims do not wait for the locked task any more, however often they try it.
	expect_eq 1 "$(grep -c 'canceling statement due to lock timeout' "$DIR/log/postgres.log")"
	let_go holder
	begin=$(ms)
	wait_until 10 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_at_most 2000 $(($(ms) - begin)) 'the locked one, after the lock went'
}

# measures time
test_what_a_dead_worker_held_is_requeued_though_its_batch_is_locked() {
	start_postgres
	start_manager manager --lease 2s --heartbeat 400ms --expiry-grace 3s
	a=$(reeve batch open a --queue batched)
	reeve submit sh "$HOLD" --queue batched --batch "$a" --max-attempts 1 >"$DIR/a"
	plain=$(reeve submit sh "$HOLD")
	start_worker worker --concurrency 4
	wait_began "$plain"
	wait_began "$(cat "$DIR/a")"
	hold holder "select from batches where id = $a for update"
	kill_worker worker
	begin=$(ms)
	start_worker second --concurrency 4
	wait_began "$plain" 2
	expect_at_most 4000 $(($(ms) - begin)) 'the plain task, begun again: the lease and two seconds'
	let_go holder
	wait_status 10 "$(cat "$DIR/a")" dead
	release
	reeve wait "$plain" >/dev/null
}

# Selects the tasks of all open journal rows but the last five.
all_but_five="select t.id from tasks t join assignments a on a.id = t.assignment_id
	where t.status = 'executing' and a.id < (select min(id) from (select id from assignments where closed_at is null order by id desc limit 5) x)"

# There are more locked tasks than one poll reads, each in a journal row of its own.
# measures time
test_locked_tasks_of_a_dead_worker_hide_none_of_its_others() {
	start_postgres
	start_manager manager --lease 2s --heartbeat 400ms --expiry-grace 3s
	start_worker worker --concurrency 70
	for n in $(seq 70); do reeve submit sh "$HOLD" >>"$DIR/ids"; done
	wait_until 30 '[ "$(sql "select count(*) from tasks where status = '"'executing'"'")" = 70 ]'
	expect [ "$(sql "select count(*) from assignments where closed_at is null")" -gt 60 ]
	hold holder "select from tasks where id in ($all_but_five) for update"
	kill_worker worker
	begin=$(ms)
	wait_until 10 '[ "$(sql "select count(*) from tasks where status <> '"'executing'"'")" = 5 ]'
	expect_at_most 4000 $(($(ms) - begin)) 'taking back those that nobody had locked'
	let_go holder
	begin=$(ms)
	wait_until 10 '[ "$(sql "select count(*) from tasks where status <> '"'executing'"'")" = 70 ]'
	expect_at_most 2500 $(($(ms) - begin)) 'taking back the others, after the lock went'
}

# measures time
test_locked_attempts_past_their_expiry_hide_no_others() {
	start_postgres
	start_manager manager --lease 1s --heartbeat 400ms --expiry-grace 1500ms
	for n in $(seq 230); do echo '{}'; done >"$DIR/tasks"
	reeve submit --bulk "$DIR/tasks" sh --timeout 1h >/dev/null
	for n in 1 2; do
		start "hand$n" bash -c "for n in \$(seq 115); do '$REEVE_BIN/reeve' fetch --manager '$REEVE_MANAGER' >/dev/null; done"
	done
	for n in 1 2; do ended "hand$n" 120; done
	expect_eq 230 "$(sql "select count(*) from assignments where closed_at is null")"
	# Sets all expiries to 4 s from now. The attempts that will be locked expire first.
	sql "begin; update tasks set expiry = now() + '4s' where status = 'executing';
		update assignments set next_expiry = now() + '4s' + interval '1us' * id where closed_at is null; commit"
	begin=$(ms)
	hold holder "select from tasks where id in ($all_but_five) for update"
	wait_until 15 '[ "$(sql "select count(*) from tasks where status <> '"'executing'"'")" = 5 ]'
	expect_at_most 7000 $(($(ms) - begin)) 'taking back those that nobody had locked'
	let_go holder
	begin=$(ms)
	wait_until 10 '[ "$(sql "select count(*) from tasks where status <> '"'executing'"'")" = 230 ]'
	expect_at_most 2500 $(($(ms) - begin)) 'taking back the others, after the lock went'
}

# measures time
test_a_locked_row_of_a_worker_costs_no_other_its_lease() {
	start_postgres
	start_manager manager --lease 2s --heartbeat 400ms --expiry-grace 3s
	start_worker locked --queue none
	start_worker worker --concurrency 4
	hold holder "select from workers where name = 'locked' for update"
	sleep 4
	id=$(reeve submit nothing)
	begin=$(ms)
	reeve wait "$id" >/dev/null
	expect_at_most 1000 $(($(ms) - begin)) 'a task'
	expect_eq 0 "$(sql "select count(*) from worker_events e join workers w on w.id = e.worker_id where w.name = 'worker' and e.event <> 'registered'")"
	let_go holder
	wait_until 20 '[ "$(sql "select count(*) from workers where name = '\''locked'\'' and not lost")" = 1 ]'
}

# One manager counts the other as gone, since it sees no heartbeats of it, and does not notify it.
# measures time
test_a_manager_whose_row_is_locked_finds_the_others_tasks_by_itself() {
	local id
	start_postgres
	start_manager two
	start_manager one
	start_worker worker --queue mine
	reeve submit nothing --queue mine --wait --manager "${URL[two]}"
	# By then the other has seen two of its heartbeats, and so that it lives.
	wait_until 10 '[ "$(sql "select max(hb_seq) from managers where id = (select max(id) from managers)")" -ge 4 ]'
	hold row 'select from managers where id = (select max(id) from managers) for update'
	wait_until 10 'grep -q "is silent; its share of the tasks is taken over" "$DIR/log/two.log"'
	for _ in 1 2 3 4; do
		id=$(reeve submit nothing --queue mine --manager "${URL[two]}")
		wait_status 10 "$id" completed
		expect_at_most 1500 "$(sql "select (1000 * extract(epoch from token - created))::int from task_history where task_id = $id")" 'its start'
	done
	let_go row
}

# measures time
test_a_locked_edit_does_not_block_registrations_and_submits() {
	start_postgres
	start_manager manager "${SHORT[@]}"
	id=$(reeve submit sh 'exit 0' --queue later --delay 1h)
	other=$(reeve submit sh 'exit 0' --queue later --delay 1h)
	hold holder "select from tasks where id = $id for update"
	start cancel "$REEVE_BIN/reeve" cancel "$id"
	sleep 1
	begin=$(ms)
	reeve submit nothing --queue another-new-one >/dev/null
	expect_at_most 1000 $(($(ms) - begin)) 'the first task of a new queue'
	begin=$(ms)
	start_worker worker
	expect_at_most 3000 $(($(ms) - begin)) 'a worker that registers'
	begin=$(ms)
	reeve cancel "$other" >/dev/null
	expect_at_most 1500 $(($(ms) - begin)) 'another edit'
	let_go holder
	ended cancel 10
	expect_eq 0 "$STATUS"
	expect_eq cancelled "$(field "$id" status)"
}

test_an_edit_that_waits_for_its_lock_until_the_end_changes_nothing_and_says_why() {
	local ids=() listed
	start_postgres
	start_manager manager "${SHORT[@]}"
	for _ in 1 2 3; do ids+=("$(reeve submit sh 'exit 0' --queue later --delay 1h)"); done
	listed=${ids[0]},${ids[1]},${ids[2]}
	hold again "select from tasks where id = ${ids[1]} for update"
	expect_fail 3 reeve cancel "${ids[@]}"
	expect_match 'another transaction holds a lock' "$OUTPUT"
	let_go again
	expect_eq '3 queued, 0 marked' "$(sql "select count(*) || ' ' || string_agg(distinct status, ' ') || ', '
		|| count(*) filter (where cancel_requested) || ' marked' from all_tasks where id in ($listed)")"
	expect_eq 0 "$(sql "select count(*) from task_events where task_id in ($listed)")" 'events'
	expect_eq 0 "$(sql "select count(*) from requests where kind = 'cancel'")" 'calls that took effect'
	reeve cancel "${ids[@]}" >/dev/null
}

lock_waits() { # of the statements that callers asked for: the maintenance waits for locks at any time
	sql "select count(*) from pg_stat_activity where application_name like 'reeve-manager %'
		and application_name <> 'reeve-manager maintenance' and wait_event_type = 'Lock'"
}

# Runs a command, interrupts it while it waits for a lock, and sets $OUTPUT to what it printed.
interrupt() { # COMMAND…
	rm -f "$DIR/log/change.log"
	start change env --default-signal=INT "$REEVE_BIN/reeve" "$@"
	wait_until 10 '[ "$(lock_waits)" -gt 0 ]'
	stop change INT
	expect_eq 130 "$STATUS" "exit code of $*"
	OUTPUT=$(cat "$DIR/log/change.log")
}

# The manager has received the changes, and carries them out when the lock is released.
test_an_interrupted_change_says_that_it_may_still_happen() {
	local said='reeve: interrupted; the change may still be made'
	start_postgres
	start_manager manager "${SHORT[@]}"
	id=$(reeve submit nothing --delay 1h)
	hold holder "select from tasks where id = $id for update"
	interrupt discard "$id"
	expect_eq "$said" "$OUTPUT"
	let_go holder
	wait_status 30 "$id" dead
	for n in $(seq 1100); do echo '{}'; done | reeve submit --bulk - nothing --delay 1h >"$DIR/ids"
	last=$(tail -n 1 "$DIR/ids")
	hold holder "select from tasks where id = $last for update"
	interrupt update --where status=queued --priority 3
	expect_eq "$said"$'\n''reeve: 1000 tasks changed before that; the same command goes on with the rest' "$OUTPUT"
	let_go holder
	wait_until 30 '[ "$(sql "select count(*) from tasks where priority = 3")" = 1100 ]'
	hold holder "select from tasks where id = $last for update"
	interrupt queue purge default
	expect_eq "$said" "$OUTPUT"
	let_go holder
	hold holder "select reeve.submit('nothing', key => 'k')"
	interrupt submit nothing --key k
	expect_eq 'reeve: interrupted reeve: the task may have been stored all the same; with a --key a submit can be repeated safely' \
		"$(xargs <<<"$OUTPUT")"
	let_go holder
	# A client that has reached no manager has sent nothing.
	rm "$DIR/log/change.log"
	start change env --default-signal=INT "$REEVE_BIN/reeve" --manager tcp://127.0.0.1:1 --connect-timeout 60s cancel "$id"
	sleep 1
	stop change INT
	expect_eq 130 "$STATUS"
	expect_eq 'reeve: interrupted' "$(cat "$DIR/log/change.log")"
}

# Prints the tasks of a dry run in one line: "3 queued 4 queued".
dry_run() { # COMMAND CONDITIONS
	timeout 10 "$REEVE_BIN/reeve" $1 --where "$2" --dry-run --json | jq -r '"\(.id) \(.status)"' | xargs
}

test_a_dry_run_locks_nothing_and_waits_for_no_row() {
	local waiting ended round
	start_postgres
	start_manager
	waiting="$(reeve submit nothing --queue due --delay 1h) queued $(reeve submit nothing --queue due --delay 1h) queued"
	ended=$(reeve submit nothing --queue over --delay 1h)
	reeve cancel "$ended" >/dev/null
	sql 'vacuum full tasks, task_history'
	for round in free locked; do
		[ $round = free ] || hold others 'select from tasks for update; select from task_history for update'
		for command in cancel discard 'update --priority 3'; do
			expect_eq "$waiting" "$(dry_run "$command" queue=due)" "$command, $round"
		done
		expect_eq "$ended cancelled" "$(dry_run retry status=cancelled)" "retry, $round"
		expect_fail 4 timeout 10 "$REEVE_BIN/reeve" cancel --where queue=over --dry-run
		expect_eq 'reeve: no task matches' "$OUTPUT"
		[ $round = locked ] ||
			expect_eq 0 "$(sql "select count(*) from (select xmax from tasks union all select xmax from task_history) r where xmax <> '0'")" 'rows locked'
	done
	let_go others
	expect_eq '2 tasks cancelled or being stopped' "$(reeve cancel --where queue=due)"
}

# measures time
test_a_dry_run_ends_with_its_caller() {
	local i
	start_postgres
	start_manager
	reeve cancel "$(reeve submit nothing --delay 1h)" >/dev/null
	hold others 'lock table task_history in access exclusive mode'
	for i in $(seq 12); do
		start "dry$i" "$REEVE_BIN/reeve" --manager "$REEVE_MANAGER" retry --where status=cancelled --dry-run
	done
	wait_until 10 '[ "$(lock_waits)" -ge 1 ]'
	sleep 0.3
	for i in $(seq 12); do stop "dry$i"; done
	wait_until 1 '[ "$(lock_waits)" = 0 ]'
	for i in $(seq 10); do
		expect_eq 0 "$(lock_waits)" 'statements whose callers have gone'
		sleep 0.1
	done
	let_go others
	expect_match cancelled "$(reeve retry --where status=cancelled --dry-run)"
}

# To create the partition, the starting manager must lock a table; statements that need the table queue up after it.
# measures time
test_a_dump_while_a_partition_is_missing() {
	start_postgres
	start_manager one
	start_worker worker
	sql "do \$\$ begin execute (select format('drop table reeve.%I', max(c.relname)) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = 'reeve.task_history'::regclass and c.relname ~ '^task_history_[0-9]+\$'); end \$\$"
	hold dump 'lock table task_history, task_history_default in access share mode'
	start_calls calls
	wait_until 10 '[ "$(grep -c wait "$DIR/log/calls.log")" -ge 20 ]'
	begin=$(ms)
	start_manager two
	expect_at_most 4000 $(($(ms) - begin)) 'a manager that starts'
	wait_until 10 "grep -q 'canceling statement due to lock timeout' '$DIR/log/postgres.log'"
	sleep 1
	stop_calls calls
	expect_at_most 1000 "$(longest calls)" 'the longest that a task of the other took'
	let_go dump
}

# A manager's heartbeat, on which leases depend, runs each second. It must not read these tables, in which a forgotten
# transaction keeps dead rows.
# measures time
test_firings_wait_neither_for_tasks_by_sql_nor_for_callbacks() {
	start_postgres
	start_manager
	hold table 'lock table inbox, callbacks in access exclusive mode'
	before=$(sql 'select hb_seq from managers')
	wait_until 10 "[ \"\$(sql 'select hb_seq from managers')\" -ge $((before + 3)) ]"
	let_go table
}

# measures time
test_advisory_locks_stop_nothing() {
	start_postgres
	start_manager one
	stop one
	sql "create role nobody_much login" >/dev/null
	hold stranger "set role nobody_much; select pg_advisory_lock(hashtext(name)) from unnest(array['reeve.task_history partitions', 'reeve.schema_migrations',
			'reeve.metrics', 'reeve.archive']) name;
		select pg_advisory_lock(hashtext('reeve.worker'), hashtext('worker')),
			pg_advisory_lock(hashtextextended('reeve.queue default', 0))"
	sql "do \$\$ begin execute (select format('drop table reeve.%I', max(c.relname)) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = 'reeve.task_history'::regclass and c.relname ~ '^task_history_[0-9]+\$'); end \$\$"
	begin=$(ms)
	start_manager two
	start_worker worker
	expect_at_most 6000 $(($(ms) - begin)) 'a manager and a worker that start'
	reeve metric put group name 1 >/dev/null
	reeve submit nothing --delay 1h >/dev/null
	reeve queue purge default >/dev/null
	wait_until 10 '[ "$(sql "select count(*) from tasks")" = 0 ]'
	expect_fail 1 "$REEVE_TEST_PG_BIN/psql" -Xq -h "$PGDIR" -U nobody_much -d reeve -v ON_ERROR_STOP=1 -c 'select from reeve.locks for update'
	let_go stranger
}

test_a_late_result_is_noted_once() {
	start_postgres
	start_manager manager --lease 1s --heartbeat 400ms --expiry-grace 1500ms
	id=$(reeve submit sh x --timeout 1s --max-attempts 2 --retry-base 1h)
	token=$(reeve fetch --json | jq .token)
	wait_status 20 "$id" failed
	for n in 1 2 3 4 5; do
		expect_fail 4 reeve report "$id" "$token" --completed late
		expect_fail 4 reeve report "$id" $((token - n)) --completed never
	done
	expect_eq 1 "$(events "$id" | tr ' ' '\n' | grep -c late_result)"
	expect_eq 1 "$(sql "select count(*) from task_events where event = 'late_result'")"
}

run_tests
