#!/usr/bin/env bash
# Checks of the documentation and the sources: the tests that docs/reliability.md and docs/features.md name exist, no
# modules include each other in a circle, READMEs list dependencies, and reads are declared as such.
# quick
. "$(dirname "$0")/lib.sh"

# SUITE/WORDS names an end-to-end test, `units/SUITE` a suite of the unit tests, `faults/KIND` a kind of fault of
# tests/faults/run.
story_the_tests_that_the_pages_name_are_there() {
	local names suite words missing=()
	names=$(grep -ohE '`[a-z_]+/[a-z_]+`' "$TOP/docs/reliability.md" "$TOP/docs/features.md" | tr -d '`' | sort -u)
	[ "$(wc -l <<<"$names")" -gt 80 ] || fail "few names: $names"
	while IFS=/ read -r suite words; do
		case $suite in
		units) grep -rqE "^[A-Za-z]*Test\($words, " "$TOP/tests/unit" || missing+=("units/$words") ;;
		faults) grep -qE "^def $words\(run, rng\)" "$TOP"/tests/faults/{mishaps,strangers}.py || missing+=("faults/$words") ;;
		*) grep -qsE "^story_[a-z0-9_]*$words" "$TOP/tests/e2e/$suite.sh" || missing+=("$suite/$words") ;;
		esac
	done <<<"$names"
	[ ${#missing[@]} = 0 ] || fail "tests that are not there: ${missing[*]}"
}

story_every_promise_names_its_tests() {
	local promises shown
	promises=$(sed -n '/^## Guarantees/,/^## Limits of the guarantees/p' "$TOP/docs/reliability.md")
	shown=$(grep -c '^\*Shown by\* `' <<<"$promises")
	expect_eq "$(grep -cE '^\*\*[A-Z]' <<<"$promises")" "$shown" 'paragraphs that name a test'
}

small_tree() { # in $DIR/tree: modules a and b, of which a includes b, and one of another folder
	mkdir -p "$DIR"/tree/{common,manager/core,worker,client}
	touch "$DIR"/tree/common/c.h "$DIR"/tree/manager/core/{a,b}.h
	echo '#include "manager/core/a.h"' >"$DIR/tree/manager/core/a_internal.h"
	printf '#include "%s"\n' manager/core/a_internal.h manager/core/b.h common/c.h >"$DIR/tree/manager/core/a_part.c"
	echo 'Depends on: nothing.' >"$DIR/tree/common/README.md"
	echo 'Depends on: `common`.' >"$DIR/tree/manager/core/README.md"
}

story_no_modules_include_each_other_in_a_circle() {
	local check="$TOP/tests/tools/includes.py" tree="$DIR/tree"
	expect "$check"
	# The check finds a circle. What a part of a module includes counts as included by the module.
	small_tree
	expect_eq '3 modules' "$("$check" "$tree")"
	printf '#include "%s"\n' manager/core/a.h common/c.h >"$tree/manager/core/b.c"
	expect_fail 1 "$check" "$tree"
	expect_match 'in a circle: manager/core/a manager/core/b$' "$OUTPUT"
}

# The glossary's retired words do not come back.
story_no_retired_word_is_used() {
	expect "$TOP/tests/tools/words.py"
	mkdir -p "$DIR/words/worker" "$DIR/words/sql/migrations"
	echo 'int client_of_the_Spawner; /* `guard/spawner_dies` */' >"$DIR/words/worker/a.c"
	echo 'alter table arrivals rename to inbox;' >"$DIR/words/sql/migrations/1.sql"
	expect_fail 1 "$TOP/tests/tools/words.py" "$DIR/words"
	expect_eq 'worker/a.c:1: Spawner -> supervisor' "$OUTPUT"
}

# Each folder's README lists what its files include.
story_readmes_list_the_dependencies_of_their_folders() {
	local check="$TOP/tests/tools/includes.py" tree="$DIR/tree"
	small_tree
	echo '#include <libpq-fe.h>' >>"$tree/manager/core/a_part.c"
	expect_fail 1 "$check" "$tree"
	expect_match 'manager/core depends on libpq; its README.md does not list that' "$OUTPUT"
	echo 'Depends on: `common`, `libpq`, `nng`.' >"$tree/manager/core/README.md"
	expect_fail 1 "$check" "$tree"
	expect_match 'manager/core does not depend on nng; its README.md lists it' "$OUTPUT"
	rm "$tree/common/README.md"
	expect_fail 1 "$check" "$tree"
	expect_match "common/README.md has no line 'Depends on: " "$OUTPUT"
}

# A method that the manager registers as a read changes nothing, and the .proto file must declare that.
story_reads_are_declared_without_side_effects() {
	local service method file
	grep -ohE '^const struct rpc_entry [a-z]+_methods|\{"[A-Za-z]+", read_method,' "$TOP"/manager/service/*.c >"$DIR/entries"
	[ "$(grep -c read_method "$DIR/entries")" -ge 8 ] || fail "few reads: $(cat "$DIR/entries")"
	while read -r line; do
		case $line in
		const*) service=${line##* } file=$TOP/proto/reeve/v1/${service%_methods}.proto ;;
		*)
			method=${line#*\"} method=${method%%\"*}
			grep -qE "rpc $method\(.*NO_SIDE_EFFECTS" "$file" || fail "$file does not say so of $method"
			;;
		esac
	done <"$DIR/entries"
}

# Both measure commands of `reeve`. No manager is there, so that one with valid arguments ends with exit code 3.
story_the_commands_whose_times_are_measured_exist() {
	local command commands
	mapfile -t commands < <(
		(. "$TOP/bench/scale.bash" && printf '%s\n' "${LISTINGS[@]}")
		sed -n '/^whole=(/,/)$/p; /^paged=(/,/)$/p' "$TOP/tests/scale/reads" | grep -o '"[^"]*"' | tr -d '"' |
			sed 's/\$since/2026-11-01T00:00:00Z/; s/\$ENDED/1/'
	)
	expect [ ${#commands[@]} -gt 40 ]
	for command in "${commands[@]}"; do
		(reeve $command --manager tcp://127.0.0.1:1 --call-timeout 1ms >/dev/null 2>&1 || echo "$? $command" >>"$DIR/codes") &
	done
	wait
	expect_eq "${#commands[@]}" "$(grep -c '^3 ' "$DIR/codes")" "$(grep -v '^3 ' "$DIR/codes")"
}

run_stories
