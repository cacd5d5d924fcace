#!/usr/bin/env bash
# Callers with and without access tokens: those of the machine, wrong and ended tokens, the first admin.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tokens.bash"

test_the_audit_has_the_identity_of_the_caller() {
	local token id
	token=$(admin token create shop --role submitter,operator)
	id=$(with "$token" reeve submit nothing --queue audited)
	expect_match '^shop/.+@' "$(admin show "$id" --json | jq -r .source)"
	expect_match '^shop/.+@' "$(admin audit "$id" --json | jq -r 'select(.event == "submitted").actor')"
	id=$(with "$token" reeve submit nothing --queue audited --source 'root/of all')
	expect_eq 'shop/root/of all' "$(admin show "$id" --json | jq -r .source)"
	expect_eq 'shop/nightly' "$(admin show "$(with "$token" reeve submit nothing --queue audited --source shop/nightly)" --json | jq -r .source)"
	with "$token" reeve cancel "$id" >/dev/null
	expect_match '^shop/.+@' "$(admin audit "$id" --json | jq -r 'select(.event == "cancel_requested" or .event == "cancelled").actor' | grep . | head -n 1)"
	with "$token" reeve queue pause audited >/dev/null
	expect_match '^shop/.+@' "$(sql "select actor from queue_events where queue = 'audited' limit 1")"
	# So do the tasks of a schedule that says whose they are.
	with "$token" reeve schedule add hourly --every 1h nothing --source root >/dev/null
	expect_eq shop/root "$(admin schedule show hourly --json | jq -r .task.source)"
	with "$token" reeve schedule edit hourly --source admin >/dev/null
	expect_eq shop/admin "$(admin schedule show hourly --json | jq -r .task.source)"
	with "$token" reeve schedule remove hourly >/dev/null
	# Identities have events of their own.
	admin token rotate shop >/dev/null
	expect_eq 'token_created shop: submitter, operator token_rotated shop' "$(admin audit --event token_created,token_rotated --json |
		jq -r 'select(.note | startswith("shop")) | .event, .note' | tail -n 4 | xargs)"
	admin token create limited --role submitter --queue mail --callback-hosts example.org --expires 1d >/dev/null
	expect_match '^limited: submitter; queues mail; callback hosts example.org; expires 2[0-9-]+T[0-9:.]+Z$' \
		"$(admin audit --event token_created -n 1 --json | jq -r .note)"
	expect_match 'limited +submitter +- +mail +all +all +example.org .* in 2[34]h' "$(admin token list)"
	admin token revoke limited >/dev/null
	# What this user says of itself begins with its name.
	expect_match "^$(id -un)@" "$(admin show "$(admin submit nothing)" --json | jq -r .source)"
	admin token revoke shop >/dev/null
}

# Each event of the audit that a caller causes.
test_the_audit_has_who_changed_what() {
	local token id other old
	token=$(admin token create ops --role operator,submitter)
	ops() { with "$token" reeve "$@" >/dev/null; }
	admin token create works --role worker --output "$DIR/works"
	start_worker worker --access-token-file "$DIR/works"
	start_worker second --access-token-file "$DIR/works"
	id=$(with "$token" reeve submit nothing --queue away --key k --key-version 1 --delay 1h)
	ops submit nothing --queue away --key k --key-version 2 --delay 1h
	ops update "$id" --priority 3
	ops cancel "$id"
	ops retry "$id"
	admin wait "$id" >/dev/null
	for option in --details-only --reason=old; do
		id=$(with "$token" reeve submit nothing --queue away)
		admin wait "$id" >/dev/null
		ops purge "$id" $option
	done
	ops discard "$(with "$token" reeve submit nothing --queue away --delay 1h)"
	id=$(with "$token" reeve submit sh 'sleep 60' --queue away --key runs --key-version 1)
	wait_until 20 '[ "$(admin show "$id" --json | jq -r .status)" = executing ]'
	ops submit sh 'sleep 60' --queue away --key runs --key-version 2
	ops retry "$id" --executing
	wait_event 20 "$id" restarted
	ops queue set away --resting 0s
	for action in pause resume stop; do ops queue $action away; done
	wait_until 20 '[ "$(admin audit --event queue_stopped --json)" ]'
	for action in start purge delete; do ops queue $action away; done
	for action in 'scale worker 2' 'pause worker' 'resume worker' 'stop worker' 'drain second'; do ops worker $action; done
	ops schedule add nightly --every 1d nothing
	ops schedule edit nightly --every 2d
	for action in pause resume remove; do ops schedule $action nightly; done
	expect_eq 'cancel_requested discard_requested drain_requested erased newer_version paused purged queue_deleted queue_paused queue_purged queue_resumed queue_set queue_started queue_stop_requested queue_stopped restart_requested restarted resumed retried scaled schedule_added schedule_edited schedule_paused schedule_removed schedule_resumed stop_requested submitted updated' \
		"$(admin audit --actor ops --all --json | jq -r .event | sort -u | xargs)"
	for name in ops works; do admin token revoke $name >/dev/null; done
}

# What a worker does has the caller that registered it; what a manager does by itself has none.
test_the_audit_has_who_worked() {
	local token id incarnation
	token=$(admin token create fleet --role worker)
	export REEVE_ACCESS_TOKEN=$token
	start_worker
	unset REEVE_ACCESS_TOKEN
	id=$(admin submit sh 'exit 65' --queue worked)
	admin wait "$id" >/dev/null 2>&1 || true
	expect_match '^claimed fleet/worker dead fleet/worker$' "$(admin audit "$id" --json | jq -r 'select(.event != "submitted") | .event, .actor' | xargs)"
	expect_eq 'claimed dead' "$(admin audit "$id" --actor fleet --json | jq -r .event | xargs)"
	expect_eq 'claimed dead' "$(admin audit --queue worked --actor fleet --json | jq -r .event | xargs)"
	expect_eq 3 "$(sql "select count(*) from audit_log where task_id = $id and actor <> ''")"
	expect_match '^fleet/' "$(admin worker list --json | jq -r 'select(.name == "worker").owner')"
	expect_match 'OWNER .* fleet/' "$(admin worker list | xargs)"
	stop worker
	expect_eq 'registered left' "$(admin audit --event registered,left --worker worker --actor fleet --json | jq -r .event | xargs)"
	admin token revoke fleet >/dev/null
	# A pull client, by a manager and by SQL.
	token=$(admin token create hand --role manual_worker)
	id=$(admin submit nothing --queue worked --max-attempts 2)
	with "$token" reeve report "$id" "$(with "$token" reeve fetch --queue worked --json | jq .token)" --failed later --retry-in 1s >/dev/null
	wait_until 20 '[ "$(sql "select id from reeve.fetch(queues => '"'{worked}'"')")" ]'
	expect_match "^claimed hand/.* failed hand/.* claimed $(sql 'select session_user')$" \
		"$(admin audit "$id" --json | jq -r 'select(.event != "submitted") | .event, .actor' | xargs)"
	sql "update assignments set next_expiry = now() where closed_at is null; update tasks set expiry = now() where id = $id"
	wait_until 20 '[ "$(admin show "$id" --json | jq -r .status)" = dead ]'
	expect_eq 'reclaimed dead' "$(admin audit "$id" --json | jq -r 'select(.actor == "").event' | sort -r | xargs)"
	admin token revoke hand >/dev/null
}

identity_scans() {
	sql "select sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)) from pg_stat_user_tables where relname = 'identities'"
}

# 10,000 guesses on 20 connections: in ten seconds some hundreds are answered. A caller with a token notices nothing, nor does the
# database.
test_guesses_are_slow_and_logged_once() {
	local n token answered since before
	token=$(admin token create honest --role reader)
	for n in $(seq 20); do
		REEVE_ACCESS_TOKEN=reeve_1_$n start "guesser-$n" "$REEVE_BIN/raw-call" "$TCP" /reeve.v1.TaskService/List 500
	done
	with "$token" timeout 20 "$REEVE_BIN/reeve" list >/dev/null
	for n in $(seq 20); do ended "guesser-$n" 60; done
	answered=$(cat "$DIR"/log/guesser-*.log | grep -c "^16 " || true)
	expect [ "$answered" -le 500 ]
	expect_eq 1 "$(grep -c 'access tokens that are not valid' "$LOG")"
	# Each on a connection of its own, one after the other, is no faster.
	since=${EPOCHREALTIME/./}
	for n in 1 2 3 4 5; do
		expect_match '^16 the access token is not valid' "$(REEVE_ACCESS_TOKEN=reeve_1_x "$REEVE_BIN/raw-call" "$TCP" /reeve.v1.TaskService/List </dev/null)"
	done
	expect [ $((${EPOCHREALTIME/./} - since)) -ge 1500000 ]
	# The identities are read each second, and not for each of them.
	pause 1.5 # until the database has counted earlier reads
	before=$(identity_scans) since=$SECONDS
	for n in $(seq 40); do
		REEVE_ACCESS_TOKEN=reeve_1_$n start "stranger-$n" "$REEVE_BIN/raw-call" "$TCP" /reeve.v1.TaskService/List
		pause 0.06
	done
	for n in $(seq 40); do ended "stranger-$n" 60; done
	pause 1.5
	n=$(($(identity_scans) - before)) since=$((SECONDS - since))
	[ $n -le $((2 * since + 20)) ] || fail "the identities were read $n times in $since s"
	with "$token" reeve list >/dev/null
	admin token revoke honest
}

# An envelope with a token of so many bytes.
envelope() { # BYTES
	python3 -c '
import sys
def field(number, content):
	length, out = len(content), bytes([number << 3 | 2])
	while length > 127:
		out, length = out + bytes([length & 127 | 128]), length >> 7
	return out + bytes([length]) + content
sys.stdout.buffer.write(field(1, b"/reeve.v1.TaskService/List") + field(4, b"x" * int(sys.argv[1])) + bytes([7 << 3, 1]))' "$1"
}

test_a_long_token_is_refused() {
	expect_match '^16 the access token is not valid' "$(envelope 4096 | "$REEVE_BIN/raw-call" "$TCP" -)"
	for bytes in 4097 1048576; do
		expect_match "^3 token has $bytes bytes; at most 4096 are allowed" "$(envelope $bytes | "$REEVE_BIN/raw-call" "$TCP" -)"
	done
	# Nor does a program send one.
	head -c 1048576 /dev/zero | tr '\0' x >"$DIR/long"
	expect_fail 2 reeve --access-token-file "$DIR/long" list
	expect_match 'an access token has up to 4096 bytes' "$OUTPUT"
}

test_a_call_ends_with_its_token() {
	local token id
	token=$(admin token create waits --role reader)
	id=$(admin submit nothing --delay 1h)
	REEVE_ACCESS_TOKEN=$token start waiter "$REEVE_BIN/reeve" --manager "$TCP" wait "$id"
	wait_until 10 '[ "$(find "/proc/$(pid waiter)/fd" -lname "socket:*" 2>/dev/null)" ]'
	with "$token" reeve list >/dev/null
	admin token revoke waits
	ended waiter 20
	expect_eq 4 "$STATUS"
	expect_match 'the access token is not valid' "$(cat "$DIR/log/waiter.log")"
	admin cancel "$id" >/dev/null
}

test_users_of_the_machine_have_identities_on_ipc_sockets() {
	[ "$(id -u)" = 0 ] || return 0
	chmod 755 "$DIR"
	user() { as_user env HOME=/nonexistent "$REEVE_BIN/reeve" --manager "$IPC" "$@"; }
	expect_fail 4 user list
	expect_match 'has no identity' "$OUTPUT"
	admin token create nob --role reader --user "$USER_NAME"
	expect_match "nob +reader +$USER_NAME " "$(admin token list)"
	user list >/dev/null
	expect_fail 4 user submit nothing
	expect_match '"nob" may not call' "$OUTPUT"
	admin token revoke nob
	wait_until 10 'expect_fail 4 user list'
}

# Of a manager that is not root's, its own user and root are, and others are nobody.
test_the_managers_own_user_and_root_are_admins() {
	local own user socket=$DIR/own/socket
	[ "$(id -u)" = 0 ] || return 0
	own=$(stat -c %U "$PGDIR") # who can reach the database
	chmod 755 "$DIR"
	mkdir "$DIR/own"
	chown "$own" "$DIR/own"
	start own as "$own" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "ipc://$socket" --socket-mode 0666 --auth required
	user() { (as "$1" env HOME=/nonexistent "$REEVE_BIN/reeve" --manager "ipc://$socket" "${@:2}"); }
	wait_until 60 'user "$own" stats >/dev/null'
	for user in "$own" root; do
		user "$user" token list >/dev/null
		expect_match "^${user}[@/]" "$(user root show "$(user "$user" submit nothing)" --json | jq -r .source)"
	done
	expect_fail 4 user daemon list
	expect_match 'the user [0-9]+ of this machine has no identity' "$OUTPUT"
	stop own
}

test_programs_of_a_worker_do_not_get_its_token() {
	local token
	token=$(admin token create fleet --role worker)
	export REEVE_ACCESS_TOKEN=$token REEVE_ACCESS_TOKEN_FILE=$DIR/none
	start_worker
	unset REEVE_ACCESS_TOKEN REEVE_ACCESS_TOKEN_FILE
	expect_eq '' "$(admin submit sh 'env | grep ^REEVE_ACCESS_TOKEN || true' --wait)"
	# Nor do the environments of the supervisor and the worker show it.
	expect_eq '0 2' "$(admin submit sh 'read -r _ _ _ worker _ </proc/$PPID/stat
		cat /proc/$PPID/environ /proc/$worker/environ | tr "\0" "\n" >'"$DIR/seen"'
		echo $(grep -c "^REEVE_ACCESS_TOKEN=." '"$DIR/seen"') $(grep -c "^PATH=" '"$DIR/seen"')' --wait)"
	admin token revoke fleet
	stop worker KILL
}

# Runs a command in a network of its own, with the addresses 127.0.0.1 and 10.99.0.1.
in_network() { # COMMAND…
	exec nsenter --net="/proc/$(pid network)/ns/net" "$@"
}

test_a_manager_that_others_reach_starts_only_with_insecure() {
	[ "$(id -u)" = 0 ] || return 0
	start network unshare --net sleep 300
	wait_until 10 '[ "$(readlink "/proc/$(pid network)/ns/net")" != "$(readlink /proc/self/ns/net)" ]'
	(in_network ip link set lo up)
	(in_network ip address add 10.99.0.1/32 dev lo)
	other() { (in_network "$REEVE_BIN/reeve-manager" --database "$CONNINFO" "$@"); }
	for url in tcp://0.0.0.0:7000 tcp://10.99.0.1:7000 'tcp://[::]:7000'; do
		expect_fail 2 other --listen "tcp://127.0.0.1:7001,$url"
		expect_match "other machines can reach $(sed 's/[][]/./g' <<<"$url"), .* start with --insecure" "$OUTPUT"
	done
	sql 'delete from identities'
	start exposed nsenter --net="/proc/$(pid network)/ns/net" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen tcp://0.0.0.0:7000 \
		--insecure --admin-token-file "$DIR/first"
	wait_until 30 '[ -e "$DIR/first" ] && grep -q "without an access token may do everything" "$DIR/log/exposed.log"'
	expect_match 'warn .*--insecure: other machines can reach tcp://0.0.0.0:7000' "$(cat "$DIR/log/exposed.log")"
	expect_match 'callers on this machine without an access token may do everything' "$(cat "$DIR/log/exposed.log")"
	from() { (in_network "$REEVE_BIN/reeve" --manager "tcp://$1:7000" "${@:2}"); }
	wait_until 30 'from 127.0.0.1 list'
	expect_fail 4 from 10.99.0.1 list
	expect_match 'the call has no access token' "$OUTPUT"
	expect_match '^16 the call has no access token' "$( (in_network "$REEVE_BIN/raw-call" tcp://10.99.0.1:7000 /reeve.v1.TaskService/List) </dev/null)"
	expect_eq 600 "$(stat -c %a "$DIR/first")"
	from 10.99.0.1 --access-token-file "$DIR/first" token list >/dev/null
	stop exposed
	# At each start.
	start again nsenter --net="/proc/$(pid network)/ns/net" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen tcp://0.0.0.0:7000 --insecure
	wait_until 30 'grep -q "callers on this machine without an access token may do everything" "$DIR/log/again.log"'
	expect_match 'warn .*--insecure: other machines can reach tcp://0.0.0.0:7000' "$(cat "$DIR/log/again.log")"
	stop again
}

test_one_manager_creates_the_first_admins_token() {
	local n
	sql 'delete from identities'
	for n in 1 2 3; do
		start "first-$n" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "ipc://$DIR/first-$n" --auth required --admin-token-file "$DIR/admin-$n"
	done
	for n in 1 2 3; do wait_until 60 '"$REEVE_BIN/reeve" --manager "ipc://$DIR/first-$n" stats >/dev/null'; done
	expect_eq 1 "$(find "$DIR" -maxdepth 1 -name 'admin-*' | wc -l)"
	expect_eq 1 "$(sql 'select count(*) from identities')"
	# One that is lost is replaced.
	old=$(cat "$DIR"/admin-?)
	with "$old" reeve list >/dev/null
	new=$("$REEVE_BIN/reeve-manager" --database "$CONNINFO" --create-admin-token 2>/dev/null)
	with "$new" reeve token list >/dev/null
	wait_until 20 'expect_fail 4 with "$old" reeve list'
	expect_eq 1 "$(sql 'select count(*) from identities')"
	# Also after the name was used for something else.
	with "$new" reeve token create other --role admin >/dev/null
	OUTPUT=$(with "$new" reeve token revoke admin 2>&1)
	expect_eq 'admin: revoked' "$OUTPUT"
	"$REEVE_BIN/reeve" --manager "ipc://$DIR/first-1" token create admin --role reader --certificate
	OUTPUT=$("$REEVE_BIN/reeve" --manager "ipc://$DIR/first-1" token revoke other 2>&1)
	expect_match 'warning: this was the last identity with the role admin; .reeve-manager --create-admin-token' "$OUTPUT"
	new=$("$REEVE_BIN/reeve-manager" --database "$CONNINFO" --create-admin-token 2>/dev/null)
	with "$new" reeve token list >/dev/null
	for n in 1 2 3; do stop "first-$n"; done
}

# Managers read the identities again before they refuse a token that they do not know.
test_every_manager_knows_a_new_token_at_once() {
	local n token
	start elsewhere "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "ipc://$DIR/elsewhere" --auth required
	wait_until 30 '"$REEVE_BIN/reeve" --manager "ipc://$DIR/elsewhere" stats >/dev/null'
	for n in $(seq 20); do
		token=$("$REEVE_BIN/reeve-manager" --database "$CONNINFO" --create-admin-token 2>/dev/null)
		token=$(with "$token" reeve token create "new-$n" --role admin)
		with "$token" "$REEVE_BIN/reeve" --manager "ipc://$DIR/elsewhere" list >/dev/null
		# A caller that ends its own token gets the answer.
		with "$token" "$REEVE_BIN/reeve" --manager "ipc://$DIR/elsewhere" token revoke "new-$n"
	done
	stop elsewhere
}

# Also into a pipe or a file, while the manager runs.
test_the_first_admins_token_is_printed_at_once() {
	sql 'delete from identities'
	start prints "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "ipc://$DIR/prints" --auth required
	wait_until 30 'grep -qE "^reeve_[0-9]+_" "$DIR/log/prints.log"'
	with "$(grep -E '^reeve_' "$DIR/log/prints.log")" reeve token list >/dev/null
	stop prints
}

test_a_local_caller_needs_no_token_by_default() {
	start_manager open
	expect_match 'callers on this machine without an access token may do everything \(--auth local\)' "$(cat "$DIR/log/open.log")"
	reeve submit nothing >/dev/null
	expect_fail 4 with reeve_1_x reeve list
	expect_match 'the access token is not valid' "$OUTPUT"
	# Nor does what is not signed make its caller an admin.
	for bad in reeve_a0_1_1_1_ "reeve_a0_1_1_1_$(printf '%064d' 0)"; do
		expect_fail 4 with "$bad" reeve list
		expect_match 'the access token of the attempt is not valid' "$OUTPUT"
	done
	stop open
}

run_tests
