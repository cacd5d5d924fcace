#!/usr/bin/env bash
# Unusual workers: at every kind of address, with the same name, with a killed supervisor, with a missing program.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

test_managers_listen_at_every_kind_of_address() {
	start_postgres
	default_handlers
	six=$(free_port) four=$(free_port)
	urls=("ipc://$DIR/socket" "tcp://127.0.0.1:$four" "tcp://localhost:$four")
	listen="ipc://$DIR/socket,tcp://127.0.0.1:$four"
	if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
		urls+=("tcp://[::1]:$six")
		listen+=",tcp://[::1]:$six"
	fi
	umask 000 # what a service is started with must not let everybody in
	start manager "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$listen"
	umask 022
	for i in "${!urls[@]}"; do
		export REEVE_MANAGER=${urls[i]}
		reeve stats --connect-timeout 60s >/dev/null
		start_worker "worker$i" --queue "queue $i"
		reeve submit nothing --queue "queue $i" --wait
	done
	expect_eq "$(tr , '\n' <<<"$listen")" "$(sed -n 's/.*listening on //p' "$DIR/log/manager.log")"
	expect_eq 600 "$(stat -c %a "$DIR/socket")"
	expect_eq "${#urls[@]}" "$(reeve worker list --json | jq -s 'map(select(.state == "alive")) | length')"
	# A second manager gets the error that the address is in use. The socket that a killed manager has left does not
	# matter.
	expect_fail 1 timeout 30 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "ipc://$DIR/socket"
	expect_match "ipc://$DIR/socket: address in use" "$OUTPUT"
	kill_manager
	[ -S "$DIR/socket" ]
	start manager "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$listen" --socket-mode 0660
	reeve stats --connect-timeout 60s --manager "${urls[0]}" >/dev/null
	reeve submit nothing --queue 'queue 0' --wait --manager "${urls[0]}"
	expect_eq 660 "$(stat -c %a "$DIR/socket")"
	for i in "${!urls[@]}"; do stop "worker$i"; done
}

# A name belongs to one worker: a second worker with that name waits, logs that once, and registers when the first one
# has left.
test_a_second_worker_of_a_name_waits_for_the_first_to_go() {
	local name=a-worker-whose-name-is-as-long-as-those-of-containers
	start_postgres
	start_manager
	start_worker "$name" --concurrency 1
	launch_worker other --name "$name" --concurrency 1
	wait_until 20 'grep -q "is already running" "$DIR/log/other.log"'
	id=$(reeve submit sh 'printf "%s" "$REEVE_ATTEMPT"')
	reeve wait "$id"
	expect_eq 1 "$(reeve worker list --json | jq -s 'map(select(.state == "alive")) | length')"
	sleep 1
	expect_eq 1 "$(grep -c "is already running" "$DIR/log/other.log")"
	stop "$name"
	expect_eq 0 "$STATUS"
	wait_until 20 'grep -q "registered as incarnation" "$DIR/log/other.log"'
	reeve submit nothing --wait
}

# On SIGHUP a worker reads its handlers file and its log level again. Running tasks continue; an invalid file changes
# nothing.
test_a_worker_reads_its_handlers_again() {
	start_postgres
	start_manager
	printf '[worker]\nlog-level = warn\n' >"$DIR/worker.ini"
	start_worker worker --concurrency 2 --config "$DIR/worker.ini"
	running=$(reeve submit sh "$HOLD" --timeout 1h)
	wait_began "$running"
	waiting=$(reeve submit shout 'hello')
	handlers <<-END
		[handler sh]
		exec = /bin/bash
		[handler shout]
		exec = /usr/bin/tr a-z A-Z
	END
	printf '[worker]\nlog-level = info\n' >"$DIR/worker.ini"
	signal worker HUP
	reeve wait "$waiting"
	expect_eq HELLO "$(field "$waiting" result)"
	wait_until 10 'grep -q "info .*worker worker: reloaded: 2 types" "$DIR/log/worker.log"'
	wait_until 10 '[ "$(sql "select types from workers")" = "{sh,shout}" ]' # the manager knows it
	removed=$(reeve submit echo 'nobody does that any more')

	handlers <<<'[handler sh'
	printf '[worker]\nlog-level = loud\n' >"$DIR/worker.ini"
	signal worker HUP
	wait_until 10 'grep -q "error .*reloading: $HANDLERS:1: a section without its ]; the handlers stay as they were" "$DIR/log/worker.log"'
	wait_until 20 "grep -q 'error .*reloading on SIGHUP: .*/worker.ini:2: log-level: \"loud\" is invalid; it takes error, warn, info or debug; the log level stays as it was' '$DIR/log/worker.log'"
	again=$(reeve submit shout 'as before')
	reeve wait "$again"
	expect_eq 'AS BEFORE' "$(field "$again" result)"

	release
	reeve wait "$running"
	expect_match '^attempt 1' "$(field "$running" result)"
	expect_eq queued "$(field "$removed" status)"
	expect_eq 1 "$(sql 'select count(*) from workers')" 'incarnations'
	printf '[worker]\nlog-level = info\n' >"$DIR/worker.ini"
	handlers <<<$'[handler sh]\nexec = /bin/bash'
	signal worker HUP
	wait_until 10 'grep -q "reloaded: 1 type$" "$DIR/log/worker.log"'
	stop worker
	expect_eq 0 "$STATUS"
}

# On SIGHUP a manager reads its log level again, and continues.
test_a_manager_reads_its_log_level_again() {
	start_postgres
	printf '[manager]\nlog-level = warn\n' >"$DIR/manager.ini"
	CONNINFO+=' password=secret'
	start_manager manager --config "$DIR/manager.ini"
	expect_eq '' "$(cat "$DIR/log/manager.log")"
	# All users can see a process's arguments. The password is not among them, and the manager still has it when it
	# reads its options again.
	expect_match "reeve-manager --database \*+ --listen ${URL[manager]} " "$(ps -ww -o args= -p "$(pid manager)")"
	printf '[manager]\nlog-level = info\n' >"$DIR/manager.ini"
	signal manager HUP
	wait_until 10 'grep -q "info .*reloaded on SIGHUP: the log level is info" "$DIR/log/manager.log"'
	printf '[manager]\nlog-level = loud\n' >"$DIR/manager.ini"
	signal manager HUP
	wait_until 10 'grep -q "error .*reloading on SIGHUP: .*/manager.ini:2: log-level: .loud. is invalid.*; the log level stays as it was" "$DIR/log/manager.log"'
	reeve stats >/dev/null
	stop manager
	expect_eq 0 "$STATUS"
	expect_match 'info .*stopping' "$(cat "$DIR/log/manager.log")"
}

# The supervisor is killed, perhaps by one of the programs that it started: the programs die with it, their attempts
# fail, and the worker logs why it ends.
test_a_supervisor_that_is_killed_costs_what_ran_an_attempt() {
	start_postgres
	start_manager
	start_worker worker --concurrency 1 --prefetch 1
	id=$(reeve submit sh "set -m; sleep 1000 & echo \$! >$DIR/job; echo \$\$ >$DIR/handler; $HOLD" --max-attempts 2 --retry-base 10ms)
	wait_began "$id"
	waiting=$(reeve submit sh 'echo never')
	wait_status 10 "$waiting" executing
	supervisor=$(xargs <"/proc/$(pid worker)/task/$(pid worker)/children")
	expect_eq reeve-superviso "$(cat "/proc/$supervisor/comm")"
	expect_match '^reeve-supervisor +--manager ' "$(ps -ww -o args= -p "$supervisor")"
	kill -s KILL "$supervisor"
	ended worker
	expect_eq 1 "$STATUS"
	expect_match 'the supervisor process has died' "$(cat "$DIR/log/worker.log")"
	wait_until 20 '[ -z "$(birth "$(cat "$DIR/handler")")" ]'
	wait_until 20 '[ -z "$(birth "$(cat "$DIR/job")")" ]' # which has a group of its own
	expect_eq 'failed 1 supervisor' "$(field "$id" status) $(field "$id" attempt) $(field "$id" error_code)"
	expect_eq 'submitted claimed failed' "$(events "$id")"
	expect_eq 'queued 0' "$(field "$waiting" status) $(field "$waiting" attempt)" # it had not begun
	release
	start_worker other
	reeve wait "$id" "$waiting"
	expect_eq 'completed 2 other' "$(field "$id" status) $(field "$id" attempt) $(field "$id" worker)"
}

# A task that kills its supervisor is given up like a task that crashes.
test_a_task_that_kills_its_supervisor_again_and_again_ends_dead() {
	start_postgres
	start_manager
	id=$(reeve submit sh 'kill -KILL $PPID; sleep 1000' --max-attempts 3 --retry-base 10ms)
	for i in 1 2 3; do
		launch_worker "worker$i" --concurrency 1
		ended "worker$i"
		expect_eq 1 "$STATUS" "exit code of worker$i"
	done
	expect_eq 'dead 3 supervisor' "$(field "$id" status) $(field "$id" attempt) $(field "$id" error_code)"
	expect_eq 'submitted claimed failed claimed failed claimed dead' "$(events "$id")"
}

test_a_program_that_has_gone_is_a_failure_that_may_pass() {
	start_postgres
	start_manager
	cp /bin/cat "$DIR/program"
	handlers <<-END
		[handler program]
		exec = $DIR/program
	END
	start_worker
	mv "$DIR/program" "$DIR/elsewhere"
	id=$(reeve submit program hello --retry-base 1h --retry-max 1h)
	wait_status 20 "$id" failed
	expect_eq exec "$(field "$id" error_code)"
	expect_match "cannot start $DIR/program: No such file" "$(field "$id" last_error)"
	mv "$DIR/elsewhere" "$DIR/program"
	reeve retry "$id" >/dev/null
	reeve wait "$id"
	expect_eq 'completed hello' "$(field "$id" status) $(field "$id" result)"
}

# A process that leaves the handler's process group no longer belongs to the worker; the task does not wait for it.
test_a_daemon_that_a_handler_starts_holds_up_nothing() {
	start_postgres
	start_manager
	start_worker
	# The daemon must have left the group before its parent ends.
	expect_eq result "$(reeve submit sh "setsid sleep 60 & echo \$! >$DIR/daemon
		until [ \"\$(cut -d' ' -f6 /proc/\$!/stat)\" = \$! ]; do sleep 0.01; done; printf result" --wait)"
	kill "$(cat "$DIR/daemon")" # it still runs
}

# What a program has put into another process group, as `timeout` and a shell's jobs do, ends with it: the task may run
# again. The innermost process has a group of its own, too, and no parent that could pass on a signal.
test_other_process_groups_of_a_program_end_with_it() {
	local handler
	start_postgres
	start_manager
	start_worker
	handler="timeout 1000 sh -c 'timeout 1000 sh -c \"echo \\\$\\\$ >$DIR/NAME; exec sleep 1000\"; true'; true"
	id=$(reeve submit sh "${handler/NAME/late}" --timeout 2s --max-attempts 1)
	wait_status 20 "$id" dead
	expect_eq timeout "$(field "$id" error_code)"
	expect_eq '' "$(birth "$(cat "$DIR/late")")" 'after its timeout'
	id=$(reeve submit sh "${handler/NAME/cancelled}")
	wait_until 20 '[ -s "$DIR/cancelled" ]'
	reeve cancel "$id"
	wait_status 20 "$id" cancelled
	wait_until 20 '[ -z "$(birth "$(cat "$DIR/cancelled")")" ]'
	expect_eq result "$(reeve submit sh "set -m; sleep 1000 & echo \$! >$DIR/job; printf result" --wait)"
	expect_eq '' "$(birth "$(cat "$DIR/job")")" 'after its end'
}

# Whatever counts a heartbeat has, it renews the lease, and those of other workers with it.
test_counts_of_one_queue_may_come_twice() {
	start_postgres
	start_manager
	id=$(sql "insert into workers (name) values ('odd') returning id")
	most='\xff\xff\xff\xff\xff\xff\xff\xff\x7f'
	for seq in 1 2; do
		expect_match '^0 ' "$(printf "\\x08\\x0$id\\x10\\x0$seq\\x72\\x05\\x0a\\x01q\\x18\\x01\\x72\\x17\\x0a\\x01q\\x18$most\\x20$most" |
			"$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.WorkerService/Heartbeat)"
	done
	expect_eq '2 9223372036854775807' "$(sql "select hb_seq from workers where id = $id") $(sql "select failed from worker_counts where worker_id = $id")"
}

# A result must name an attempt; one that cannot leaves no trace in the audit.
test_results_name_attempts() {
	start_postgres
	start_manager
	report() { # TOKEN, as a varint in printf's format, of so many bytes
		printf "\\x08\\x01\\x12\\x$(printf %02x $((5 + $2)))\\x08\\x01\\x10$1\\x18\\x01" |
			"$REEVE_BIN/raw-call" "$REEVE_MANAGER" /reeve.v1.WorkerService/Report
	}
	id=$(reeve submit nothing)
	expect_eq 1 "$id"
	for token in '\x00 1' '\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01 10' '\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01 10'; do
		expect_match "^3 results\\[0\\].token is " "$(report ${token})" "token ${token}"
	done
	expect_eq submitted "$(events 1)"
	expect_match '^0 ' "$(report '\x01' 1)" # one of 1970: no attempt ever had it, so that it leaves no row
	expect_eq submitted "$(events 1)"
	expect_eq queued "$(field 1 status)"
}

run_tests
