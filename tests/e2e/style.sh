#!/usr/bin/env bash
# Checks of the sources by tools for style and common mistakes.
# quick
. "$(dirname "$0")/lib.sh"

scripts() { # all files that a shell runs
	find . \( -path './build*' -o -name .git \) -prune -o -type f -exec awk '/^#!.*sh$/ { print FILENAME } { nextfile }' {} +
}

story_shellcheck_finds_nothing_in_scripts() {
	cd "$TOP"
	scripts >"$DIR/scripts"
	[ "$(wc -l <"$DIR/scripts")" -gt 80 ] || fail "few scripts: $(cat "$DIR/scripts")"
	grep -qx './tests/run' "$DIR/scripts" || fail 'tests/run is not among them'
	xargs -n 12 -P 2 shellcheck --severity warning --external-sources <"$DIR/scripts" || fail 'see above'
}

run_stories
