#!/usr/bin/env bash
# Programs and managers whose versions of the contract differ: each is told so, and nothing happens. The proxy changes
# the version in the messages of real programs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/faults.bash"

start_postgres

ALL=1000000
CURRENT=$(sed -n 's/.*CONTRACT_CURRENT = \([0-9]*\);.*/\1/p' "$TOP/proto/reeve/v1/envelope.proto")
OLDER="this program has no version of Reeve's contract, the manager has version $CURRENT: upgrade this program"
NEWER="this program has version $((CURRENT + 1)) of Reeve's contract, the manager has version $CURRENT: upgrade the manager"

rows() {
	sql 'select (select count(*) from tasks), (select count(*) from requests), (select count(*) from workers)'
}

# Prints the answer to a Stats of a plain REQ socket.
stats_as() { # VERSION
	RAW_CALL_CONTRACT=$1 "$REEVE_BIN/raw-call" "${URL[manager]}" /reeve.v1.AdminService/Stats </dev/null
}

test_a_manager_refuses_calls_of_all_other_versions() {
	start_manager
	for version in 0 $((CURRENT + 1)) $((CURRENT + 2)) 2147483648 4294967295; do
		expect_match "^12 this program has .*version.*the manager has version $CURRENT: upgrade" "$(stats_as "$version")"
	done
	expect_eq "12 $OLDER" "$(stats_as 0)"
	expect_eq "12 $NEWER" "$(stats_as $((CURRENT + 1)))"
	expect_match '^0 ' "$(stats_as "$CURRENT")"
	expect_match 'refusing the calls of .*, with the message: this program has no version' "$(cat "$DIR/log/manager.log")"
}

# A command that must be refused at once, and change nothing.
refused() { # MESSAGE
	local before
	before=$(rows)
	expect_fail 4 timeout 60 "$REEVE_BIN/reeve" --manager "${PROXY[wire]}" --connect-timeout 10m submit nothing # it does not try again
	expect_eq "reeve: $1" "$OUTPUT"
	expect_eq "$before" "$(rows)"
}

begin() { # OPTION…
	start_manager "$@"
	start_proxy wire manager
}

test_a_client_from_before_versions_is_refused() {
	begin
	tell wire message contract /reeve.v1. 0 $ALL
	refused "$OLDER"
}

test_a_client_newer_than_the_manager_is_refused() {
	begin
	tell wire message contract /reeve.v1. $((CURRENT + 1)) $ALL
	refused "$NEWER"
}

test_a_client_does_not_use_a_manager_from_before_versions() {
	begin
	tell wire answer contract Ping 0 $ALL
	refused "this program has version $CURRENT of Reeve's contract, the manager has no version: upgrade the manager"
}

test_a_client_uses_the_manager_of_its_version() {
	begin
	start_manager other
	tell wire message contract /reeve.v1. $((CURRENT + 1)) $ALL
	for i in 1 2 3 4 5; do
		timeout 30 "$REEVE_BIN/reeve" --manager "${PROXY[wire]},${URL[other]}" submit nothing >/dev/null
	done
	expect_eq 5 "$(sql 'select count(*) from tasks')"
}

test_a_worker_of_another_version_does_not_start() {
	local before
	begin
	handlers <<<$'[handler sh]\nexec = /bin/sh'
	tell wire message contract /reeve.v1. 0 $ALL
	before=$(rows)
	expect_fail 4 timeout 60 "$REEVE_BIN/reeve-worker" --manager "${PROXY[wire]}" --handlers "$HANDLERS" --name old
	expect_match "the manager refuses this worker: $OLDER" "$OUTPUT"
	expect_eq "$before" "$(rows)"
}

# Its tasks go to the workers of the new version.
test_a_worker_stops_when_the_managers_were_upgraded() {
	begin "${SHORT[@]}"
	REEVE_MANAGER=${PROXY[wire]} start_worker old
	id=$(reeve submit sh "echo \$PPID >>$DIR/ran; [ -e $DIR/go ] && exit; touch $DIR/go; sleep 60")
	wait_until 20 "[ -e $DIR/go ]"
	tell wire message contract /reeve.v1. 0 $ALL
	tell wire cut
	ended old 20
	expect_eq 4 "$STATUS"
	expect_match "the manager refuses this worker: $OLDER" "$(cat "$DIR/log/old.log")"
	start_worker new
	timeout 60 "$REEVE_BIN/reeve" wait "$id" >/dev/null
	expect_eq 2 "$(wc -l <"$DIR/ran")"
}

run_tests
