#!/usr/bin/env bash
# deploy/quickstart, on files whose names are as bad as they can be.
# timeout 900
# shellcheck disable=SC1091,SC2016,SC2164
. "$(dirname "$0")/lib.sh"

story_every_file_is_hashed_whatever_its_name() {
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

story_kept_up_it_can_be_used_and_stopped() {
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

run_stories
