#!/usr/bin/env bash
# deploy/quickstart on files with difficult names; and a test that needs its build, which has no sanitizers.
# timeout 900
. "$(dirname "$0")/lib.sh"

test_every_file_is_hashed_whatever_its_name() {
	mkdir -p "$DIR/files/a folder"
	cd "$DIR/files"
	echo 1 >plain
	echo 2 >'with  spaces '
	echo 3 >$'two\nlines\n'
	echo 4 >"it's \"quoted\" \\ and \$(touch injected)"
	echo 5 >$'\xff not UTF-8'
	echo 6 >'ünïcödé'
	echo 7 >'a folder/-n'
	ln -s plain link
	: >empty
	cd "$TOP"
	out=$(deploy/quickstart "$DIR/files" 2>&1) || fail "$out"
	expect_match '8 of 8 agree' "$out"
	expect_match 'not UTF-8: .*\\377' "$out"
	expect_match 'submitted' "$out"
	expect_eq '' "$(find . "$DIR" -name injected)" 'a name was run as a command'
	expect_eq '' "$(descendants)" 'processes left behind'
}

test_kept_up_it_can_be_used_and_stopped() {
	cd "$TOP"
	out=$(deploy/quickstart --keep 2>&1) || fail "$out"
	process=$(sed -n 's/^Stop it: *kill \([0-9]*\);.*/\1/p' <<<"$out")
	work=$(sed -n 's/.*the data is then still in \(.*\)$/\1/p' <<<"$out")
	manager=$(sed -n 's/.*REEVE_MANAGER=\(tcp:[^ ]*\)$/\1/p' <<<"$out")
	id=$(reeve submit sha256 /usr/share/common-licenses/GPL-3 --manager "$manager")
	reeve wait "$id" --manager "$manager"
	kill "$process"
	wait_until 60 '[ -z "$(descendants)" ]'
	rm -rf "$work"
}

resident() { # KiB of the manager
	awk '/^VmRSS:/ { print $2 }' "/proc/$(pid manager)/status"
}

# 2,400 Waits for 1,000 tasks each, and one more that came after them and stays: in the heap, their memory lies below
# its memory, and must still be returned to the system.
test_the_memory_of_a_flood_goes_back_to_the_system() {
	local before most n
	"$TOP/deploy/build" # done already, unless this test runs alone
	start_postgres
	REEVE_BIN=$TOP/build/bin start_manager manager --connection-share 100
	first=$(reeve submit nothing --delay 1d)
	sql "insert into tasks (route_id, queue, type, details, run_at, created, last_updated)
		select r.id, r.queue, r.type, '', now() + interval '1 day', now(), now() from routes r, generate_series(2, 1000) where r.type = 'nothing'"
	expect_eq "$first|$((first + 999))" "$(sql 'select min(id), max(id) from tasks')"
	before=$(resident)
	for n in 1 2 3 4 5; do
		start flood$n python3 "$TOP/tests/tools/overload.py" "$REEVE_MANAGER" waits $((n < 5 ? 600 : 1)) "$first" 1000
		wait_until 20 "[ \"\$(reeve stats --json | jq '.counters[] | select(.name == \"open_calls\").value')\" -ge $((n < 5 ? 600 * n : 2401)) ]"
	done
	most=$(resident)
	for n in 1 2 3 4; do stop flood$n KILL; done
	note "$before KiB before, $most KiB with the flood"
	expect [ $((most - before)) -ge 80000 ]
	wait_until 20 "[ \"\$(resident)\" -le $((before + 40000)) ]"
	note "$(resident) KiB afterwards"
}

run_tests
