#!/usr/bin/env bash
# Checks of the sources by tools for style and common mistakes.
# quick
# timeout 1800
# background
. "$(dirname "$0")/lib.sh"

scripts() { # all files that a shell runs, or that such files source
	find . \( -path './build*' -o -name .git \) -prune -o -type f -exec awk '/^#!.*sh$|^# shellcheck shell=/ { print FILENAME } { nextfile }' {} +
}

test_shellcheck_finds_nothing_in_scripts() {
	cd "$TOP"
	scripts >"$DIR/scripts"
	[ "$(wc -l <"$DIR/scripts")" -gt 80 ] || fail "few scripts: $(cat "$DIR/scripts")"
	grep -qx './tests/run' "$DIR/scripts" || fail 'tests/run is not among them'
	# What a script sources is checked by itself, once, and not again in each that sources it.
	xargs -n 12 -P 2 shellcheck --severity warning <"$DIR/scripts" || fail 'see above'
}

test_c_files_have_the_layout_of_clang_format() {
	cd "$TOP"
	find . \( -path './build*' -o -name .git \) -prune -o -type f -name '*.[ch]' -print >"$DIR/files"
	[ "$(wc -l <"$DIR/files")" -gt 500 ] || fail "few files: $(cat "$DIR/files")"
	xargs -n 40 -P 2 clang-format --dry-run --Werror <"$DIR/files" || fail 'see above'
}

test_no_c_file_has_over_500_lines_and_no_header_over_400() {
	cd "$TOP"
	find . \( -path './build*' -o -name .git \) -prune -o -type f -name '*.[ch]' -exec wc -l {} + | grep -v ' total$' >"$DIR/lines"
	[ "$(wc -l <"$DIR/lines")" -gt 500 ] || fail "few files: $(cat "$DIR/lines")"
	expect_eq '' "$(awk '$1 > (/\.h$/ ? 400 : 500) { print $2 }' "$DIR/lines")" 'to be split by purpose'
}

test_no_script_has_over_500_lines() {
	cd "$TOP"
	find . \( -path './build*' -o -name .git -o -name node_modules \) -prune -o -type f -exec awk '
		FNR == 1 && (/^#!.*(sh|python3)$/ || FILENAME ~ /\.(bash|py)$/) { print FILENAME } { nextfile }' {} + >"$DIR/scripts"
	[ "$(wc -l <"$DIR/scripts")" -gt 200 ] || fail "few scripts: $(cat "$DIR/scripts")"
	expect_eq '' "$(xargs wc -l <"$DIR/scripts" | awk '$2 != "total" && $1 > 500 { print $2 }')" 'to be split by topic'
}

run_tests
