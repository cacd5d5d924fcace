#!/usr/bin/env bash
# Bugs that clang-tidy finds in C files. `tests/run quick` checks the files that have changed, other runs check all.
# quick
# timeout 1800
# background
. "$(dirname "$0")/lib.sh"
TIDY=$TOP/tests/tools/tidy.py
BUILD=$(dirname "$REEVE_BIN")

# Prints the C files that have changed since the main branch, or since the last commit on it, and those that include a
# changed header. Fails if that is unknown, or if the checks themselves have changed.
changed() {
	local base files
	base=$(git merge-base HEAD origin/HEAD || git merge-base HEAD origin/main) || base=$(git rev-parse HEAD)
	[ "$base" != "$(git rev-parse HEAD)" ] || base=HEAD~1
	files=$(git diff --name-only --diff-filter=d "$base" && git ls-files --others --exclude-standard) || return 1
	! grep -qE '(^|/)(\.clang-tidy|tidy\.(py|sh))$' <<<"$files" || return 1
	grep '\.c$' <<<"$files" || true
	grep -o '[^/]*\.h$' <<<"$files" | sed 's/.*/["\/]&"/' >"$DIR/headers" || true
	git grep --untracked -lf "$DIR/headers" -- '*.c' || true
}

test_clang_tidy_finds_no_bugs() {
	local files=()
	cd "$TOP"
	if [ -n "${REEVE_TEST_QUICK:-}" ] && changed >"$DIR/changed" 2>"$DIR/unknown"; then
		mapfile -t files < <(sort -u "$DIR/changed")
		[ ${#files[@]} != 0 ] || return 0
	fi
	"$TIDY" "$BUILD" "${files[@]}" | tee "$DIR/report" || fail 'see above'
	[ ${#files[@]} != 0 ] || [ "$(sed -n '$s/ files.*//p' "$DIR/report")" -gt 350 ] || fail 'few files'
}

source_file() { # LINE: source.c in $DIR, with this line in a function, and how to compile it
	cp "$TOP/.clang-tidy" "$DIR"
	cat >"$DIR/source.c" <<-END
		#include <stdlib.h>
		#include <string.h>
		void *f(int n);
		void *f(int n)
		{
			char *p = malloc(8);
			$1
			return p;
		}
	END
	jq -n --arg folder "$DIR" '[{directory: $folder, file: "source.c", command: "cc -o source.o -c source.c"}]' \
		>"$DIR/compile_commands.json"
}

test_clang_tidy_reports_bugs() {
	source_file 'if (p && n) memset(p, 1000, 8);'
	expect_fail 1 "$TIDY" "$DIR"
	expect_match bugprone-suspicious-memset-usage "$OUTPUT"
	source_file 'if (n) free(p);'
	expect_fail 1 "$TIDY" "$DIR"
	expect_match clang-analyzer-unix.Malloc "$OUTPUT"
	expect_fail 1 "$TIDY" "$DIR" # again: it did not pass
}

test_a_file_that_passed_is_checked_again_when_it_changes() {
	source_file ''
	expect_eq '1 files, 1 checked' "$("$TIDY" "$DIR")"
	touch "$DIR/source.c"
	expect_eq '1 files, 0 checked' "$("$TIDY" "$DIR")"
	echo '# other' >>"$DIR/.clang-tidy"
	expect_eq '1 files, 1 checked' "$("$TIDY" "$DIR")"
	source_file 'if (n) free(p);'
	expect_fail 1 "$TIDY" "$DIR"
}

run_tests
