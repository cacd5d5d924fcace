#!/usr/bin/env bash
# `reeve dev`: one command starts everything, Ctrl-C ends it, and nothing is left however it ends.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/disk.bash"

# Starts `reeve dev` on $DIR/data, for the first time or again, and waits until it is up. Only the first test creates a
# cluster, which takes longer than all the rest; the others, unless they have made the folder, go on with a copy of it.
start_dev() { # [OPTION…]
	local before
	default_handlers
	[ -e "$DIR/data" ] || [ ! -e "$SUITE_DIR/data" ] || cp -a "$SUITE_DIR/data" "$DIR/data"
	port=${port:-$(free_port)}
	export REEVE_MANAGER=${url:-tcp://127.0.0.1:$port}
	before=$(times_up)
	start dev "${AS[@]}" "$REEVE_BIN/reeve" dev --data "$DIR/data" --listen "$REEVE_MANAGER" --handlers "$HANDLERS" "$@"
	wait_until 60 "[ \"\$(times_up)\" -gt $before ] || ! alive dev"
	alive dev || fail "reeve dev has ended: $(cat "$DIR/log/dev.log")"
}
port='' url=''
AS=()

times_up() {
	grep -sc 'Reeve is up' "$DIR/log/dev.log" || [ -e "$DIR/log/dev.log" ] || echo 0
}

result_of() { # ID
	reeve show "$1" --json | jq -r .result
}

test_a_task_runs_and_ctrl_c_ends_it_all() {
	start_dev --workers 2 --concurrency 2
	id=$(reeve submit sha256 hello)
	reeve wait "$id"
	expect_eq 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 "$(result_of "$id" | cut -d' ' -f1)"
	wait_until 20 '[ "$(reeve worker list --json | jq -s length)" = 2 ]'
	# The dashboard's overview shows nothing to repair.
	expect_eq '' "$(reeve doctor --json | jq -r '.findings[] | select(.area == "rights" or .area == "settings").subject')"
	stop dev INT
	expect_eq 0 "$STATUS"
	expect_eq '' "$(descendants)" 'processes left behind'
	cp -a "$DIR/data" "$SUITE_DIR/data"
}

test_it_prints_the_dashboards_address() {
	http=http://127.0.0.1:$(free_port)
	start_dev --http "$http"
	wait_until 20 'grep -q "^Ctrl-C ends it all" "$DIR/log/dev.log"'
	code=$(sed -n "s,^Dashboard: $http/#code=,,p" "$DIR/log/dev.log")
	expect_match '^reeve_[0-9]+_' "$code"
	expect_match '<title>Reeve' "$(curl -sSf "$http/")"
	expect_eq ROLE_ADMIN "$(curl -sS -H 'content-type: application/json' -H "authorization: Bearer $code" -d '{}' \
		"$http/reeve.v1.AdminService/WhoAmI" | jq -r '.roles[]')"
	expect_eq unauthenticated "$(curl -sS -H 'content-type: application/json' -d '{}' "$http/reeve.v1.AdminService/WhoAmI" | jq -r .code)"
	expect_eq '' "$(find "$DIR" -name '*.code')" 'files with codes'
	# Programs in other languages show the token.
	token=$(sed -n 's/^Its access token, for this user, is in //p' "$DIR/log/dev.log")
	expect_match '^[0-9]+$' "$(REEVE_ACCESS_TOKEN_FILE=$token PYTHONPATH=$TOP/clients/python python3 -B -c \
		"from reeve import Client; print(Client('$http').submit('nothing'))")"
	stop dev
	expect_eq 0 "$STATUS"
}

test_what_was_submitted_is_there_again() {
	start_dev
	done_before=$(reeve submit echo 'kept')
	reeve wait "$done_before"
	later=$(reeve submit echo 'later' --delay 1h)
	stop dev
	start_dev
	expect_eq kept "$(result_of "$done_before")"
	expect_eq queued "$(reeve show "$later" --json | jq -r .status)"
}

# On SIGHUP its workers reload their handlers, and nothing is restarted.
test_its_workers_read_their_handlers_again() {
	start_dev
	wait_until 20 '[ "$(reeve worker list --json | jq -s length)" = 1 ]'
	before=$(reeve worker list --json | jq .pid)
	handlers <<-END
		[handler shout]
		exec = /usr/bin/tr a-z A-Z
	END
	signal dev HUP
	id=$(reeve submit shout hello)
	reeve wait "$id"
	expect_eq HELLO "$(result_of "$id")"
	expect_eq "$before" "$(reeve worker list --json | jq .pid)"
	stop dev
	expect_eq 0 "$STATUS"
}

# When its terminal is closed it ends, as with Ctrl-C.
test_it_ends_with_its_terminal() {
	default_handlers
	start terminal python3 -c '
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
	os.execv(sys.argv[1], sys.argv[1:])
seen = b""
while b"Ctrl-C ends it all" not in seen:
	seen += os.read(fd, 4096)
os.close(fd)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))' \
		"$REEVE_BIN/reeve" dev --data "$DIR/data" --listen "tcp://127.0.0.1:$(free_port)" --handlers "$HANDLERS"
	ended terminal 60
	expect_eq 0 "$STATUS"
	expect_eq '' "$(descendants)" 'processes left behind'
}

# measures time
test_killed_it_leaves_nothing_and_starts_again() {
	start_dev --concurrency 1
	running=$(reeve submit sh "echo \$\$ >$DIR/handler.pid; exec sleep 1000" --timeout 5s)
	waiting=$(reeve submit echo 'still here')
	wait_until 20 '[ -s "$DIR/handler.pid" ]'
	stop dev KILL
	wait_until 20 '[ -z "$(descendants)" ]'
	wait_until 20 '[ -z "$(birth "$(cat "$DIR/handler.pid")")" ]'

	rm "$DIR/handler.pid"
	# The former worker's name is free when its lease has ended; leases are short here.
	start_dev --concurrency 2
	since=$EPOCHSECONDS
	reeve wait "$waiting"
	expect_eq 'still here' "$(result_of "$waiting")"
	[ $((EPOCHSECONDS - since)) -le 10 ] || fail "the worker was idle for $((EPOCHSECONDS - since)) s"
	reeve cancel "$running"
}

test_a_process_that_dies_is_restarted() {
	start_dev --workers 2
	wait_until 20 '[ "$(reeve worker list --json | jq -s length)" = 2 ]'
	before=$(reeve worker list --json | jq -r 'select(.name == "dev-1").pid')
	kill -s KILL "$before"
	wait_until 20 "reeve worker list --json | jq -e 'select(.name == \"dev-1\" and .pid != $before)'"
	expect_match 'dev-1: was killed by signal 9' "$(cat "$DIR/log/dev.log")"

	manager=$(tr ' ' '\n' <"/proc/$(pid dev)/task/$(pid dev)/children" | while read -r child; do
		[ "$(cat "/proc/$child/comm" 2>/dev/null)" != reeve-manager ] || echo "$child"
	done)
	kill -s KILL "$manager"
	id=$(reeve submit echo 'by the new one')
	reeve wait "$id"
	expect_eq 'by the new one' "$(result_of "$id")"
}

test_an_ordinary_user_runs_it_too() {
	mkdir "$DIR/data"
	if [ "$(id -u)" = 0 ]; then
		mkdir "$DIR/home/user"
		chown "$USER_NAME" "$DIR/data" "$DIR/home/user"
		AS=(as "$USER_NAME" env HOME="$DIR/home/user")
	fi
	start_dev
	# Other users need the token, which is in a file of that user.
	expect_fail 4 env HOME=/nonexistent "$REEVE_BIN/reeve" stats
	expect_match 'the call has no access token' "$OUTPUT"
	token=$(find "$DIR/home" -path '*/reeve/tokens/*')
	expect_eq "600 $USER_NAME" "$(stat -c '%a %U' "$token")"
	export REEVE_ACCESS_TOKEN_FILE=$token
	expect_eq "$USER_NAME" "$(stat -c %U "$DIR/data/postgres")"
	id=$(reeve submit sh 'id -un')
	reeve wait "$id"
	expect_eq "$USER_NAME" "$(result_of "$id")"
	# Its handlers submit tasks.
	id=$(reeve submit sh "'$REEVE_BIN/reeve' submit sh true")
	reeve wait "$id"
	expect_eq "$id" "$(reeve show "$(result_of "$id")" --json | jq .parent_id)"
	stop dev
	expect_eq 0 "$STATUS"
	expect [ ! -e "$token" ]
}

test_its_folder_and_its_port_are_its_own() {
	start_dev
	expect_fail 4 reeve dev --data "$DIR/data" --listen "tcp://127.0.0.1:$(free_port)"
	expect_match "in use by process $(pid dev)" "$OUTPUT"
	expect_fail 4 reeve dev --data "$DIR/other" --listen "$REEVE_MANAGER"
	expect_match "another manager answers at $REEVE_MANAGER" "$OUTPUT"
	reeve stats >/dev/null
}

# The umask does not matter.
test_its_socket_is_its_users_alone() {
	url=ipc://$DIR/socket
	umask 000
	start_dev
	umask 022
	expect_eq 600 "$(stat -c %a "$DIR/socket")"
	expect_eq here "$(reeve submit echo here --wait)"
}

test_wrong_usage_is_refused() {
	expect_fail 2 reeve dev --workers many
	expect_match workers "$OUTPUT"
	expect_fail 2 reeve dev --handlers /nowhere/handlers.ini
	expect_match '/nowhere/handlers.ini' "$OUTPUT"
	expect_fail 2 reeve dev something
	expect_match something "$OUTPUT"
	handlers <<<'[handler sh'
	expect_fail 2 reeve dev --data "$DIR/data" --handlers "$HANDLERS" --listen "tcp://127.0.0.1:$(free_port)"
	expect_match "$HANDLERS" "$OUTPUT"
	expect_no_match 'starting PostgreSQL|Reeve is up' "$OUTPUT" 'it began all the same'
	expect [ ! -e "$DIR/data/postgres" ]
}

test_a_full_disk_is_named() {
	local data=$DIR/disk/data listen full disk dev told up
	default_handlers
	listen=tcp://127.0.0.1:$(free_port)
	# There is too little for a new cluster.
	start small with_disk 8 "$REEVE_BIN/reeve" dev --data "$data" --listen "$listen" --handlers "$HANDLERS"
	ended small 60
	expect_eq 3 "$STATUS"
	expect_match 'initdb exited with code 1 .*No space left on device.*; its disk is full, with [0-9]+ KiB left' "$(cat "$DIR/log/small.log")"
	expect_no_match 'Reeve is up' "$(cat "$DIR/log/small.log")"

	# The disk fills up later. It outlives `reeve dev`, as a disk does: a sleeping process holds it.
	start holder with_disk 120 sleep 600
	wait_until 20 "[ -n \"\$(grep \"$DIR/disk\" /proc/$(pid holder)/mounts)\" ]"
	dev=(nsenter -t "$(pid holder)" -U --preserve-credentials -m "$REEVE_BIN/reeve" dev --data "$data" --listen "$listen" --handlers "$HANDLERS")
	[ "$(id -u)" != 0 ] || dev=(nsenter -t "$(pid holder)" -m -r "${dev[@]:6}")
	export REEVE_MANAGER=$listen
	start dev "${dev[@]}"
	wait_until 60 '[ "$(times_up)" = 1 ] || ! alive dev'
	id=$(reeve submit echo before --wait)
	expect_eq before "$id"
	disk=/proc/$(pid holder)/root$DIR/disk
	cat /dev/zero >"$disk/fill" 2>/dev/null || true
	full='the database.s disk is full: .*No space left on device'
	expect_fail 3 reeve submit echo - --call-timeout 5s < <(head -c 700000 /dev/urandom | base64 -w 0)
	expect_match "$full" "$OUTPUT"
	expect_match "$full" "$(grep '^.* error reeve-manager: ' "$DIR/log/dev.log" | head -n 1)"
	stop dev INT
	# It is started again before there is room, and afterwards.
	told=$(grep -c 'disk is full' "$DIR/log/dev.log")
	start dev "${dev[@]}"
	wait_until 60 '[ "$(grep -c "disk is full" "$DIR/log/dev.log")" -gt "$told" ]'
	rm "$disk/fill"
	if alive dev; then stop dev INT; fi
	up=$(times_up)
	start dev "${dev[@]}"
	wait_until 60 '[ "$(times_up)" -gt "$up" ]'
	expect_eq after "$(reeve submit echo after --wait)"
	stop dev INT
	expect_eq 0 "$STATUS"
	stop holder
	! mountpoint -q "$DIR/disk" || umount "$DIR/disk" # of a shared file system around a chroot
}

# A restart that would fail again is not announced.
test_a_worker_that_cannot_come_back_ends_it() {
	start_dev
	wait_until 20 '[ "$(reeve worker list --json | jq -s length)" = 1 ]'
	handlers <<<'[handler sh'
	kill -s KILL "$(reeve worker list --json | jq .pid)"
	ended dev 60
	expect_eq 2 "$STATUS"
	expect_match 'dev-1: exited with code 2; starting it again would not help' "$(cat "$DIR/log/dev.log")"
	expect_eq 1 "$(grep -c 'starting it again in' "$DIR/log/dev.log")"
}

test_without_handlers_it_writes_examples() {
	port=$(free_port)
	export REEVE_MANAGER=tcp://127.0.0.1:$port
	start dev "$REEVE_BIN/reeve" dev --data "$DIR/data" --listen "$REEVE_MANAGER"
	wait_until 60 'grep -q "Reeve is up" "$DIR/log/dev.log"'
	expect_match "export REEVE_MANAGER=$REEVE_MANAGER" "$(cat "$DIR/log/dev.log")"
	id=$(reeve submit echo 'hello')
	reeve wait "$id"
	expect_eq hello "$(result_of "$id")"
	grep -q '^\[handler sha256\]' "$DIR/data/handlers.ini"
}

run_tests
