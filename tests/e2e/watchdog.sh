#!/usr/bin/env bash
# No handler runs beyond its worker's lease, whatever happens to the worker or the managers; and a handler can extend
# its timeout.
# alone
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

LEASE=1000 # ms
SHORT_LEASES=(--lease 1s --heartbeat 300ms --expiry-grace 2s --fetch-wait 300ms)

# A script for tasks. Each attempt appends its token to tokens.ID. The first attempt then writes the time to breath.ID
# every 20 ms, forever. A child of it, in its own session and with its parent gone, does the same with escaped.ID. Both
# append their process ids to pids.ID and ignore SIGTERM. A later attempt ends at once.
BREATHE='echo "$REEVE_TOKEN" >>"$REEVE_TEST_DIR/tokens.$REEVE_TASK_ID"
[ "$REEVE_ATTEMPT" = 1 ] || { printf "attempt %s" "$REEVE_ATTEMPT"; exit; }
cd "$REEVE_TEST_DIR"
(setsid bash -c "trap \"\" TERM; echo \$\$ >>pids.$REEVE_TASK_ID; while :; do echo \$EPOCHREALTIME >escaped.$REEVE_TASK_ID; sleep 0.02; done" </dev/null >/dev/null 2>&1 &)
trap "" TERM
echo $$ >>pids.$REEVE_TASK_ID
while :; do echo "$EPOCHREALTIME" >breath.$REEVE_TASK_ID; sleep 0.02; done'

wait_breathing() { # ID
	wait_until 20 "[ -s $DIR/breath.$1 ] && [ -s $DIR/escaped.$1 ]"
}

gone() { # ID: everything of its first attempt
	local p
	while read -r p; do
		[ -z "$(birth "$p")" ] || return 1
	done <"$DIR/pids.$1"
}

# Expects that all processes of the first attempt have died, and that each wrote its last time within AT_MOST_MS after
# SINCE_MS.
expect_last_breath() { # ID SINCE_MS AT_MOST_MS
	local file last
	wait_until 5 "gone $1"
	expect_eq 2 "$(wc -l <"$DIR/pids.$1")"
	for file in breath escaped; do
		last=$(tr -d . <"$DIR/$file.$1")
		expect [ "$((last / 1000 - $2))" -le "$3" ]
	done
}

# Freezes a worker whose handlers breathe: they, and a further process, die with its lease, and not before they have to.
# The manager marks the worker lost. When that continues, it registers again, and the task runs again.
expect_freeze_ends() { # NAME ID [PROCESS]
	local at first
	first=$(worker_incarnation "$1")
	at=$(ms)
	signal "$1" STOP
	expect_last_breath "$2" "$at" $LEASE
	expect [ "$(($(ms) - at))" -ge 400 ]
	[ -z "${3:-}" ] || wait_until 5 "[ -z \"\$(birth $3)\" ]"
	wait_until 10 '[ "$(sql "select lost from workers where id = '"$first"'")" = t ]'
	signal "$1" CONT
	reeve wait "$2" --max-wait 20s
	expect [ "$(worker_incarnation "$1")" -gt "$first" ]
	expect_eq 'completed attempt 2' "$(field "$2" status) $(field "$2" result)"
	expect_eq "$(event_field "$2" claimed token | xargs)" "$(xargs <"$DIR/tokens.$2")"
}

# Freezes the manager: the watchdog kills the worker of a function that does not stop.
expect_lease_costs_the_life() { # NAME ID
	local at
	signal m STOP
	at=$(ms)
	ended "$1" 5
	expect_eq 137 "$STATUS"
	expect [ "$(($(ms) - at))" -le $((LEASE + 200)) ]
	signal m CONT
	wait_event 20 "$2" lost
	reeve cancel "$2" >/dev/null
}

start_postgres
start_manager m "${SHORT_LEASES[@]}"

test_a_frozen_workers_programs_are_dead_when_its_lease_ends() {
	start_worker frozen --concurrency 1 --prefetch 1
	id=$(reeve submit sh "$BREATHE")
	wait_breathing "$id"
	waiting=$(reeve submit sh "$BREATHE") # lies in the worker, not begun
	wait_status 10 "$waiting" executing
	expect_freeze_ends frozen "$id"
	wait_until 20 "[ -n \"\$(field $waiting result)\" ] || [ -s $DIR/breath.$waiting ]"
	expect_eq "$(event_field "$waiting" claimed token | tail -n 1)" "$(cat "$DIR/tokens.$waiting")" 'ran under'
}

# Children that stay end with the lease like all programs, and so does what has left their groups. New ones go on.
test_a_frozen_workers_children_are_dead_when_its_lease_ends() {
	cat >"$DIR/child" <<-'END'
		#!/bin/bash
		while IFS= read -r line; do
			for name in TASK_ID TOKEN ATTEMPT; do
				export "REEVE_$name=$(jq -r ".${name,,}" <<<"$line")"
			done
			jq -c --arg r "$(bash -c "$(jq -r .details <<<"$line")" </dev/null)" '{id, result: $r}' <<<"$line"
		done
	END
	chmod +x "$DIR/child"
	handlers <<-END
		[handler breathe]
		stdio = $DIR/child
		[handler idle]
		stdio = $DIR/child
	END
	start_worker frozen --concurrency 1
	idle=$(reeve submit idle 'echo $PPID' --wait)
	id=$(reeve submit breathe "$BREATHE")
	wait_breathing "$id"
	expect_freeze_ends frozen "$id" "$idle"
	expect_eq yes "$(reeve submit idle 'echo yes' --wait)"
}

# A frozen worker cannot close its connections: the watchdog ends the worker, and the service sees that.
test_a_frozen_workers_calls_end_with_its_lease() {
	local port
	port=$(free_port)
	start service python3 "$TOP/tests/tools/http_service.py" --folder "$DIR" --port "$port"
	wait_until 20 "(: </dev/tcp/127.0.0.1/$port)"
	handlers <<-END
		[handler call]
		http = http://127.0.0.1:$port/
	END
	start_worker frozen --concurrency 1
	id=$(reeve submit call '{"after": 60}' --max-attempts 1)
	wait_until 20 "[ -s $DIR/calls ]"
	at=$(ms)
	signal frozen STOP
	wait_until 5 "[ -s $DIR/closed ]"
	expect [ "$(($(ms) - at))" -le $((LEASE + 200)) ] # the service looks every 20 ms
	ended frozen
	expect_eq 137 "$STATUS"
	expect_fail 1 reeve wait "$id" --max-wait 20s
}

# The worker is frozen for longer than the watchdog has to kill the handlers. When it continues, it must read the
# watchdog's messages before it may conclude that the watchdog hangs.
# measures time
test_a_worker_frozen_for_long_does_not_blame_its_watchdog() {
	start_worker icy --concurrency 8
	for round in 1 2 3; do
		ids=$(for _ in 1 2 3 4 5 6 7 8; do reeve submit sh 'sleep 30' --timeout 60s --max-attempts 1; done)
		wait_until 20 "[ \"\$(sql \"select count(*) from tasks where status = 'executing'\")\" = 8 ]"
		before=$(worker_incarnation icy)
		signal icy STOP
		wait_until 20 '[ "$(sql "select count(*) from tasks")" = 0 ]' # dead: it was lost
		sleep 2.5 # beyond the lease's end and two seconds
		signal icy CONT
		wait_until 20 '[ "$(worker_incarnation icy)" -gt "$before" ]'
	done
	expect alive icy
	expect_no_match 'the watchdog does not kill them' "$(cat "$DIR/log/icy.log")"
	expect_eq completed "$(id=$(reeve submit sh true) && reeve wait "$id" >/dev/null && field "$id" status)"
}

processors() { # the first two that this process may use
	local n found=()
	for n in $(seq 0 1023); do
		! taskset -c "$n" true 2>/dev/null || found+=("$n")
		[ "${#found[@]}" -lt 2 ] || break
	done
	echo "${found[@]}"
}

# Sets the niceness of a process that leads a session, and that of the session, by which the kernel may schedule.
set_niceness() { # PID NICENESS
	renice -n "$2" "$1" >/dev/null
	[ ! -e "/proc/$1/autogroup" ] || echo "$2" >"/proc/$1/autogroup"
}

# The worker and its watchdog have the lowest priority, on a processor that programs of the highest ordinary one fill.
# The handler runs on another. Only root may give processes precedence.
test_a_watchdog_acts_in_time_on_a_busy_host() {
	read -r busy free < <(processors)
	[ "$(id -u)" = 0 ] && [ -n "$free" ] || return 0
	default_handlers
	start starved setsid nice -n 19 taskset -c "$busy" "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" \
		--handlers "$HANDLERS" --name starved
	id=$(reeve submit sh "cd $DIR; read -ra stat <\"/proc/\$\$/stat\"; echo \"\${stat[18]} \${stat[40]}\" >priority
		taskset -pc $free \$\$ >/dev/null; renice -n -20 \$\$ >/dev/null; $BREATHE")
	wait_breathing "$id"
	expect_eq '19 0' "$(cat "$DIR/priority")" 'niceness and policy of the handler, which are those of the worker'
	for n in 1 2 3 4; do
		start "hog$n" setsid taskset -c "$busy" bash -c 'while :; do :; done'
		wait_until 5 "[ \"\$(ps -o sid= $(pid "hog$n") | xargs)\" = $(pid "hog$n") ]"
		set_niceness "$(pid "hog$n")" -20
	done
	set_niceness "$(pid starved)" 19
	supervisor=$(pgrep -P "$(pid starved)")
	set_niceness "$supervisor" 19
	read -ra stat <"/proc/$supervisor/stat"
	expect_eq 2 "${stat[40]}" 'policy of the supervisor: SCHED_RR'
	signal m STOP
	at=$(ms)
	expect_last_breath "$id" "$at" $LEASE
	for n in 1 2 3 4; do
		stop "hog$n" KILL
	done
	kill_worker starved
	signal m CONT
	reeve cancel "$id" >/dev/null
}

test_a_worker_that_comes_to_in_time_goes_on() {
	start_worker blinking
	id=$(reeve submit sh "$HOLD")
	wait_began "$id"
	for _ in 1 2 3; do
		signal blinking STOP
		sleep 0.2
		signal blinking CONT
		sleep 0.4
	done
	release
	reeve wait "$id"
	expect_eq 'submitted claimed completed' "$(events "$id")"
	expect_eq 1 "$(sql "select count(*) from workers where name = 'blinking'")"
}

test_a_killed_workers_programs_die_with_it() {
	start_worker killed
	id=$(reeve submit sh "$BREATHE")
	wait_breathing "$id"
	at=$(ms)
	kill_worker killed
	expect_last_breath "$id" "$at" 500
	reeve cancel "$id" >/dev/null
}

start_counting() { # NAME
	start counting "$REEVE_BIN/lease-worker" --manager "$REEVE_MANAGER" --counting "$DIR/counting" --name "$1"
	wait_until 20 '[ "$(worker_incarnation '"$1"')" -gt 0 ]'
}

counted() {
	od -An -td4 -j4 -N4 "$DIR/counting" | tr -d ' '
}

dying() { # NAME: it has been killed, though its memory may take a while to be freed
	local stat
	read -r stat 2>/dev/null <"/proc/$(pid "$1")/stat" || return 0
	read -ra stat <<<"${stat##*) }"
	[ $((stat[6] & 4)) != 0 ] # PF_EXITING
}

test_a_frozen_worker_never_goes_on_with_its_function() {
	start_counting iced
	id=$(reeve submit count x)
	wait_until 20 '[ "$(counted)" -gt 0 ]'
	signal counting STOP
	at=$(ms)
	sleep 0.1
	count=$(counted)
	wait_until 5 'dying counting'
	expect [ "$(($(ms) - at))" -le $((LEASE + 200)) ]
	ended counting 5
	expect_eq 137 "$STATUS"
	expect_eq "$count" "$(counted)"
	reeve cancel "$id" >/dev/null
}

# ---- extensions ----

# Asks for an extension six times, and takes 3 s in total.
LONG='for i in 1 2 3 4 5 6; do echo "{\"extend\": \"2s\", \"news\": $i}" >&3; sleep 0.5; done; printf done'

# measures time
test_a_program_may_ask_for_more_time() {
	start_worker patient
	id=$(reeve submit sh "$LONG" --timeout 2s --max-attempts 1)
	reeve wait "$id" --max-wait 20s
	expect_eq 'completed done' "$(field "$id" status) $(field "$id" result)"
	expect_eq 'submitted claimed completed' "$(events "$id")"
	expect_eq t "$(sql "select last_updated - token >= '3s' from task_history where task_id = $id")"
}

# All handlers ask at the same moment, so that their requests wait together.
# measures time
test_many_may_ask_at_once() {
	start_worker crowd --concurrency 24
	for i in $(seq 1 24); do
		echo "{\"type\":\"sh\",\"details\":\"until [ -e $DIR/now ]; do sleep 0.02; done; echo '{\\\"extend\\\": \\\"6s\\\"}' >&3; sleep 3\",\"timeout\":\"3s\",\"max_attempts\":1,\"queue\":\"crowd\"}"
	done | reeve submit --bulk - >"$DIR/crowd"
	wait_until 20 "[ \"\$(sql \"select count(*) from tasks where queue = 'crowd' and status = 'executing'\")\" = 24 ]"
	touch "$DIR/now"
	reeve wait - <"$DIR/crowd" --max-wait 30s >/dev/null
	expect_eq 'completed|24' "$(sql "select status, count(*) from task_history where queue = 'crowd' group by 1")"
	rm "$DIR/now"
}

# measures time
test_but_no_more_than_there_is() {
	start_manager short "${SHORT_LEASES[@]}" --max-runtime 2s
	start_worker bounded
	id=$(reeve submit sh "$LONG" --timeout 1500ms --max-attempts 1)
	expect_fail 1 reeve wait "$id" --max-wait 20s
	expect_eq 'dead timeout' "$(field "$id" status) $(field "$id" error_code)"
	expect_eq t "$(sql "select last_updated - token between '1.8s' and '2.9s' from task_history where task_id = $id")"
	expect_eq 'submitted claimed dead' "$(events "$id")"
}

# measures time
test_a_function_may_too() {
	start_counting extending
	id=$(reeve submit extend 6 --timeout 2s --max-attempts 1)
	reeve wait "$id" --max-wait 20s
	expect_eq 'completed 6' "$(field "$id" status) $(field "$id" result)"
}

# ---- frozen managers ----

# The worker ends its programs in time, reports that afterwards, and keeps its incarnation.
test_a_worker_cut_off_ends_its_programs_before_its_lease() {
	start_worker alone --concurrency 3
	id=$(reeve submit sh "trap 'date +%s%3N >$DIR/asked; exit 0' TERM; touch $DIR/began.\$REEVE_TASK_ID.\$REEVE_ATTEMPT
		[ \$REEVE_ATTEMPT = 2 ] || [ -e $DIR/asked ] || while :; do sleep 0.02; done; printf again" --max-attempts 1)
	stubborn=$(reeve submit sh "[ ! -e $DIR/asked ] || exit 0; $BREATHE" --max-attempts 1)
	wait_began "$id"
	wait_breathing "$stubborn"
	signal m STOP
	at=$(ms)
	expect_last_breath "$stubborn" "$at" $LEASE
	expect [ "$(($(cat "$DIR/asked") - at))" -le $((LEASE * 4 / 5)) ]
	sleep 1
	signal m CONT
	reeve wait "$id" "$stubborn" --max-wait 20s
	expect_eq 'submitted claimed lease_ended claimed completed' "$(events "$id")"
	expect_eq 'submitted claimed lease_ended claimed completed' "$(events "$stubborn")"
	expect_eq 1 "$(field "$id" attempt)"
	expect_eq 1 "$(sql "select count(*) from workers where name = 'alone'")"
	expect_match 'stopping the 2 tasks' "$(cat "$DIR/log/alone.log")"
	expect_match 'the lease is renewed: going on' "$(cat "$DIR/log/alone.log")"
}

test_a_function_that_does_not_stop_costs_its_worker_the_life() {
	start_counting stubborn
	id=$(reeve submit count x)
	wait_until 20 '[ "$(counted)" -gt 0 ]'
	expect_lease_costs_the_life counting "$id"
	expect_match 'watchdog: the lease is over and a function still runs: killing the worker' "$(cat "$DIR/log/counting.log")"
}

test_so_does_a_plugin() {
	cat >"$DIR/deaf.c" <<-END
		#include <fcntl.h>
		#include <reeve/worker.h>
		#include <unistd.h>
		static int deaf(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
		{
			(void)attempt, (void)outcome;
			close(creat("$DIR/deaf", 0600));
			for (;;)
				pause();
		}
		const struct reeve_plugin reeve_plugin = {REEVE_PLUGIN_ABI, deaf};
	END
	cc -shared -fPIC -I"$TOP/worker/include" -o "$DIR/deaf.so" "$DIR/deaf.c"
	handlers <<-END
		[handler deaf]
		plugin = $DIR/deaf.so
	END
	start_worker deaf --concurrency 1
	id=$(reeve submit deaf)
	wait_until 20 "[ -e '$DIR/deaf' ]"
	expect_lease_costs_the_life deaf "$id"
}

run_tests
