#!/usr/bin/env bash
# Checks of the documentation and the sources: the tests that docs/reliability.md and docs/features.md name exist, no
# modules include each other in a circle, READMEs list dependencies, and reads are declared as such.
# quick
. "$(dirname "$0")/lib.sh"

test_links_and_references_lead_somewhere() {
	local check="$TOP/tests/tools/references.py" tree="$DIR/references" md=md i=I # so that the check finds nothing here
	expect "$check"
	mkdir -p "$tree/docs" "$tree/worker"
	printf '%s\n' '# Invariants' "| ${i}1 | a |" "| ${i}2 | b |" "[a](gone.$md) [b](#nowhere) [c](invariants.md#invariants)" >"$tree/docs/invariants.md"
	echo "/* keeps ${i}1 and ${i}3: docs/invariants.$md, missing.$md */" >"$tree/worker/a.c"
	expect_fail 1 "$check" "$tree"
	expect_eq "docs/invariants.md: a link leads to gone.$md, which does not exist
docs/invariants.md: a link leads to the heading #nowhere, which invariants.md does not have
docs/invariants.md: no source refers to ${i}2
worker/a.c: ${i}3 is not in docs/invariants.md
worker/a.c: names missing.$md, which does not exist" "$OUTPUT"
}

# The tests that docs/invariants.md names in its last column.
test_every_invariant_names_tests_that_exist() {
	local number tests name
	while IFS='|' read -r _ number _ _ tests _; do
		grep -oE '`[^`]+`' <<<"$tests" | tr -d '`' >"$DIR/names"
		[ -s "$DIR/names" ] || fail "invariant$number names no test"
		while read -r name; do
			case $name in
			tests/*) [ -e "$TOP/$name" ] ;;
			units/*) grep -rqE "^[A-Za-z]*Test\(${name#*/}, " "$TOP/tests/unit" ;;
			*/*) grep -qE "^test_[a-z0-9_]*${name#*/}" "$TOP/tests/e2e/${name%%/*}.sh" ;;
			*) [ -x "$TOP/tests/e2e/$name.sh" ] || grep -qE "^def $name\(run, rng\)" "$TOP"/tests/faults/{fault_kinds,outside_faults}.py ;;
			esac || fail "invariant$number names $name, which does not exist"
		done <"$DIR/names"
	done < <(grep '^| I[0-9]' "$TOP/docs/invariants.md")
}

# SUITE/WORDS names an end-to-end test, `units/SUITE` a suite of the unit tests, `faults/KIND` a kind of fault of
# tests/faults/run.
test_the_tests_that_the_pages_name_are_there() {
	local names suite words missing=()
	names=$(grep -ohE '`[a-z_]+/[a-z_]+`' "$TOP"/docs/{reliability,features,security}.md | tr -d '`' | sort -u)
	[ "$(wc -l <<<"$names")" -gt 80 ] || fail "few names: $names"
	while IFS=/ read -r suite words; do
		case $suite in
		units) grep -rqE "^[A-Za-z]*Test\($words, " "$TOP/tests/unit" || missing+=("units/$words") ;;
		faults) grep -qE "^def $words\(run, rng\)" "$TOP"/tests/faults/{fault_kinds,outside_faults}.py || missing+=("faults/$words") ;;
		*) grep -qsE "^test_[a-z0-9_]*$words" "$TOP/tests/e2e/$suite.sh" || missing+=("$suite/$words") ;;
		esac
	done <<<"$names"
	[ ${#missing[@]} = 0 ] || fail "tests that are not there: ${missing[*]}"
}

# A folder of unit tests belongs to a part in tests/CMakeLists.txt; otherwise nothing would build or run it.
test_every_unit_test_is_built() {
	local part folders file
	folders=$(sed -n 's/^reeve_unit_tests([a-z]* \([^ ]*\) .*/\1/p' "$TOP/tests/CMakeLists.txt")
	for file in $(cd "$TOP/tests/unit" && find . -name '*_test.c' -printf '%P\n'); do
		for part in $folders; do
			[[ $file != "$part"/* ]] || continue 2
		done
		fail "no part in tests/CMakeLists.txt has $file"
	done
}

test_every_promise_names_its_tests() {
	local promises shown
	promises=$(sed -n '/^## Guarantees/,/^## Limits of the guarantees/p' "$TOP/docs/reliability.md")
	shown=$(grep -c '^\*Shown by\* `' <<<"$promises")
	expect_eq "$(grep -cE '^\*\*[A-Z]' <<<"$promises")" "$shown" 'paragraphs that name a test'
}

test_each_section_of_the_page_on_security_names_its_tests() {
	expect_eq '' "$(awk '/^##/ { heading = $0; sub(/^#+ /, "", heading); names[heading] = 0; order[++n] = heading }
		/`[a-z_0-9]+\/[a-z_]+`/ { names[heading] = 1 }
		END { for (i = 1; i <= n; i++) if (!names[order[i]]) print order[i] }' "$TOP/docs/security.md")"
}

test_the_page_of_states_is_what_the_manager_prints() {
	expect_eq "$("$REEVE_BIN/reeve-manager" --print-states)" "$(cat "$TOP/docs/states.md")"
}

test_the_tables_of_options_are_what_the_programs_print() {
	local program page
	while read -r program page; do
		expect_eq "$("$REEVE_BIN/$program" --print-options)" "$(sed -n '/^| option | default |/,/^$/p' "$TOP/docs/$page")" "$page"
	done <<-END
		reeve-manager config.md
		reeve-worker worker.md
	END
}

# An option has one meaning, and a letter belongs to one option. Those whose help differs between commands although they
# mean the same are in data/options: name, number of texts, meaning.
test_an_option_means_one_thing_everywhere() {
	local command commands shown='
		match($0, /^  (-[a-zA-Z], |    )--[a-z-]+/) {
			if (name)
				print name "\t" help
			name = substr($0, 7, RLENGTH - 6)
			help = substr($0, 7 + length(name))
			if ($0 ~ /^  -/)
				print substr($0, 3, 2) "\t" name
			next
		}
		name && /^ {20}/ { help = help $0; next }
		name { print name "\t" help; name = "" }
		END { if (name) print name "\t" help }'
	mapfile -t commands < <(sed -nE 's/.*(COMMAND|CALL)\((NULL|"([a-z]+)"), "([a-z]+)",.*/\3 \4/p; s/^\t +NULL, "([a-z]+)".*/\1/p' "$TOP/client/cmd/command_table.h")
	[ ${#commands[@]} -gt 60 ] || fail "few commands: ${commands[*]}"
	for command in "${commands[@]}"; do
		reeve $command --help
	done >"$DIR/help"
	"$REEVE_BIN/reeve-manager" --help >>"$DIR/help"
	"$REEVE_BIN/reeve-worker" --help >>"$DIR/help"
	awk "$shown" "$DIR/help" | sed 's/  */ /g' | sort -u >"$DIR/options"
	[ "$(cut -f 1 "$DIR/options" | sort -u | wc -l)" -gt 150 ] || fail 'few options'
	expect_eq "$(cut -d '|' -f 1,2 "$(dirname "$0")/data/options")" "$(cut -f 1 "$DIR/options" | uniq -c | awk '$1 > 1 { print $2 "|" $1 }')" \
		'options with several texts: one meaning? Then write it into data/options'
}

test_every_page_begins_with_its_title() {
	local page
	for page in "$TOP"/docs/*.md; do
		expect_match '^# ' "$(head -n 1 "$page")" "first line of $page"
	done
}

small_tree() { # in $DIR/tree: modules a and b, of which a includes b, and one of another folder
	mkdir -p "$DIR"/tree/{common,manager/core,worker,client}
	touch "$DIR"/tree/common/c.h "$DIR"/tree/manager/core/{a,b}.h
	echo '#include "manager/core/a.h"' >"$DIR/tree/manager/core/a_internal.h"
	printf '#include "%s"\n' manager/core/a_internal.h manager/core/b.h common/c.h >"$DIR/tree/manager/core/a_part.c"
	echo 'Depends on: nothing.' >"$DIR/tree/common/README.md"
	echo 'Depends on: `common`.' >"$DIR/tree/manager/core/README.md"
}

test_no_modules_include_each_other_in_a_circle() {
	local check="$TOP/tests/tools/includes.py" tree="$DIR/tree"
	expect "$check"
	# The check finds a circle. What a part of a module includes counts as included by the module.
	small_tree
	expect_eq '3 modules' "$("$check" "$tree")"
	printf '#include "%s"\n' manager/core/a.h common/c.h >"$tree/manager/core/b.c"
	expect_fail 1 "$check" "$tree"
	expect_match 'in a circle: manager/core/a manager/core/b$' "$OUTPUT"
	# Folders form one even if their modules do not.
	echo '#include "manager/core/b.h"' >"$tree/common/d.c"
	expect_fail 1 "$check" "$tree"
	expect_match 'in a circle: common manager/core' "$OUTPUT"
}

test_the_glossary_defines_each_term_once() {
	local terms
	terms=$(sed -nE 's/^- ([^:]*): .*/\1/p; s/^- ([^:]*):$/\1/p' "$TOP/docs/glossary.md" | grep -oE '\[[^]]+\]' | sort)
	expect [ "$(wc -l <<<"$terms")" -gt 80 ]
	expect_eq '' "$(uniq -d <<<"$terms")"
}

# The glossary's retired words do not come back.
test_no_retired_word_is_used() {
	expect "$TOP/tests/tools/words.py"
	mkdir -p "$DIR/words/worker" "$DIR/words/sql/migrations"
	local er=er als=als box=box # because the check reads this file, too
	echo "int client_of_the_Spawn$er;" >"$DIR/words/worker/a.c"
	echo "alter table arriv$als rename to inbox;" >"$DIR/words/sql/migrations/1.sql"
	touch "$DIR/words/worker/out$box.h"
	expect_fail 1 "$TOP/tests/tools/words.py" "$DIR/words"
	expect_eq "worker/a.c:1: Spawn$er -> supervisor
worker/out$box.h: out$box -> unacknowledged results" "$OUTPUT"
}

# Each folder's README lists what its files include.
test_readmes_list_the_dependencies_of_their_folders() {
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
	# Other folders have one, too.
	echo 'Depends on: nothing.' >"$tree/common/README.md"
	echo 'Depends on: `common`, `libpq`.' >"$tree/manager/core/README.md"
	mkdir -p "$tree/examples/small"
	touch "$tree/examples/small/a.sql"
	expect_fail 1 "$check" "$tree"
	expect_match 'examples/small has no README.md' "$OUTPUT"
}

# The fields of each message are numbered from 1, the values of each enum from 0, in their order in the file.
test_numbers_in_the_contract_follow_each_other() {
	local numbers='
		FNR == 1 { block = "" }
		/^(enum|message) / { block = $2; last = $1 == "enum" ? -1 : 0 }
		block && match($0, /^ *[A-Za-z_0-9. ]+ = [0-9]+/) {
			if ($0 !~ " = " ++last "[; ]")
				print block ": not " last ":" $0
			n++
		}
		/^}/ { block = "" }
		END { print n }'
	expect_match '^[0-9]{3,4}$' "$(awk "$numbers" "$TOP"/proto/reeve/v1/*.proto)"
	printf '%s\n' 'enum E {' '  A = 0;' '  B = 2;' '}' 'message M {' '  int64 a = 1;' '  repeated bool b = 3;' '}' >"$DIR/wrong.proto"
	expect_eq $'E: not 1:  B = 2;\nM: not 2:  repeated bool b = 3;\n4' "$(awk "$numbers" "$DIR/wrong.proto")"
}

# What programs of the same version rely on stays: a manager refuses only other versions.
test_an_incompatible_contract_has_another_version() {
	local recorded="$TOP/tests/e2e/data/contract" list="$TOP/tests/tools/contract.awk"
	broken() { # PROTO-FILE…: prints the lines that are gone although the version is the same
		awk -f "$list" "$@" | LC_ALL=C sort >"$DIR/contract"
		[ "$(grep '^version ' "$recorded")" != "$(grep '^version ' "$DIR/contract")" ] || LC_ALL=C comm -23 "$recorded" "$DIR/contract"
	}
	expect_eq '' "$(broken "$TOP"/proto/reeve/v1/*.proto)" 'raise CONTRACT_CURRENT of envelope.proto, because this has changed'
	expect_eq "$(cat "$recorded")" "$(cat "$DIR/contract")" 'record what was added, or the new version: the head of contract.awk says how'
	# The check finds a field with another type, and accepts a new field, and all of another version.
	mkdir "$DIR/v1"
	cp "$TOP"/proto/reeve/v1/*.proto "$DIR/v1"
	sed -i '/^message AuditRequest/,/^}/s/ int64 task_id = 1;/ string task_id = 1;\n  bool more = 77;/' "$DIR/v1/task.proto"
	expect_eq 'AuditRequest 1 int64 task_id' "$(broken "$DIR"/v1/*.proto)"
	sed -i 's/CONTRACT_CURRENT = [0-9]*/CONTRACT_CURRENT = 99/' "$DIR/v1/envelope.proto"
	expect_eq '' "$(broken "$DIR"/v1/*.proto)"
}

# The audit's events are those that the states' table and the SQL write.
test_the_audits_events_are_in_the_contract() {
	local kinds outcomes event
	kinds=$(sed -n 's/^  AUDIT_EVENT_KIND_\([A-Z_]*\) = [1-9][0-9]*;/\L\1/p' "$TOP/proto/reeve/v1/task.proto")
	expect_eq '' "$(sed -n '/^## Why a task waits/q; s/^|.*| `\([a-z_]*\)` |.*/\1/p; s/^| `\([a-z_]*\)` |.*/\1/p' "$TOP/docs/states.md" | sort -u |
		grep -vxF "$kinds")" 'events that the contract lacks'
	outcomes=$(sed -n 's/^  outcome text not null, *-- \(completed,.*\)/\1/p' "$TOP/sql/tables/tasks.sql" | tr -d ' ' | tr , '\n')
	expect_match fatal "$outcomes"
	expect_eq '' "$(grep -vxF "$kinds" <<<"$outcomes")" 'outcomes of attempts that the contract lacks'
	while read -r event; do
		case $event in
		schedule_paused | schedule_resumed) ;; # schedule_control.sql composes them
		*) grep -rqE "'$event'" "$TOP/sql/statements" "$TOP/sql/functions" || fail "no SQL writes the event $event" ;;
		esac
	done <<<"$kinds"
}

# Each method of the contract has a row in the table of its service, as read_method if and only if the .proto file
# declares that it changes nothing. A method that changes something takes a request id, unless the .proto file declares
# it idempotent. A row whose function is its own can be either.
test_reads_are_declared_without_side_effects() {
	local file service method serve statement line rows=0 declared=0
	for file in "$TOP"/proto/reeve/v1/*.proto; do
		service=${file##*/} service=${service%.proto}
		grep -E '^  rpc ' "$file" >"$DIR/methods" || continue
		sed -n "/^const struct rpc_entry ${service}_methods/,/^};/p" "$TOP"/manager/service/*.c >"$DIR/table"
		while read -r line; do
			method=${line#*rpc } method=${method%%(*}
			serve=$(sed -n "s/^ *{\"$method\", \([a-z_]*\),.*/\1/p" "$DIR/table")
			[ -n "$serve" ] || fail "$file has $method, and the manager's table of ${service}_methods has not"
			case $serve:$line in
			read_method:*NO_SIDE_EFFECTS*) declared=$((declared + 1)) ;;
			read_method:*) fail "$file does not say that $method changes nothing" ;;
			write_method:*NO_SIDE_EFFECTS*) fail "$file says that $method changes nothing, and it does" ;;
			write_method:*)
				statement=$(grep -A1 "^ *{\"$method\"," "$DIR/table" | grep -o 'METHOD(SQL_[A-Z_]*' | head -1)
				statement=${statement#*SQL_}
				statement=$STATEMENTS/${statement,,}.sql
				case $(grep -c '@request_id' "$statement"):$line in
				0:*IDEMPOTENT* | 1:*\;) ;;
				*) fail "$file and $statement do not agree on the request id of $method" ;;
				esac
				;;
			esac
			rows=$((rows + 1))
		done <"$DIR/methods"
	done
	[ "$rows" -ge 40 ] && [ "$declared" -ge 8 ] || fail "$rows methods, $declared of them declared as reads"
}

constant() { # NAME FILE: the value of an enum's constant
	grep -oE "\b$1 = [0-9]+" "$TOP/$2" | grep -oE '[0-9]+$'
}

# The table of docs/reliability.md with the times of leases: what the code makes of each lease and heartbeat. Times are
# rounded, the first one up, the last one down.
test_the_times_of_leases_are_the_codes() {
	local rows lease heartbeat defaults
	cat >"$DIR/times.c" <<-'END'
		#include "worker/lease.h"
		#include <stdio.h>
		#include <stdlib.h>
		static const char *tenths(long long n)
		{
			static char texts[4][32];
			static int next;
			char *text = texts[next++ % 4];
			snprintf(text, sizeof texts[0], n % 10 ? "%lld.%lld s" : "%lld s", n / 10, n % 10);
			return text;
		}
		int main(int argc, char **argv)
		{
			long long length = atoll(argv[1]), heartbeat = atoll(argv[2]), check = atoll(argv[argc - 1]);
			struct lease lease = {0};
			lease_set(&lease, length, length);
			check = heartbeat / 4 < check ? heartbeat / 4 : check;
			printf("%s | %s, %s | %s |\n", tenths((length + 2 * check + 99) / 100), tenths((lease.stop_ms + 50) / 100),
			    tenths((lease.kill_ms + 50) / 100), tenths((lease.stop_ms - heartbeat) / 100));
		}
	END
	cc -I"$TOP" -o "$DIR/times" "$DIR/times.c"
	rows=$(sed -n '/^| lease, heartbeat |/,/^$/p' "$TOP/docs/reliability.md" | sed 1,2d)
	expect [ "$(wc -l <<<"$rows")" = 3 ]
	while read -r _ lease _ heartbeat _; do
		expect_match "^\| $lease s, $heartbeat s( \(default\))? \| $("$DIR/times" "${lease}000" "${heartbeat}000" \
			"$(constant WATCH_MAX_MS manager/core/leases.c)" | sed 's/[.|]/\\&/g')\$" "$(grep "^| $lease s," <<<"$rows")"
	done <<<"$rows"
	defaults=$("$REEVE_BIN/reeve-manager" --print-options | sed -n 's/^| `--\(lease\|heartbeat\) .* `\([0-9]*\)s` .*/\2/p' | xargs)
	expect_match "^\| ${defaults/ / s, } s \(default\) " "$rows"
}

# Both measure commands of `reeve`. No manager is there, so that one with valid arguments ends with exit code 3.
test_the_commands_whose_times_are_measured_exist() {
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

# bench-growth itself fails if a job of manager/jobs/table.c is missing in it.
test_every_statement_of_a_job_is_measured_with_many_tasks() {
	local files=(maintenance access reclaim archive statistics schedule inbox callback ready) used other
	mapfile -t files < <(printf "$TOP/manager/store/%s_ops.c\n" "${files[@]}" | sed 's/reclaim_ops/reclaim/')
	# Transactions, single tasks' ends, starts and stops, and calls of clients.
	other='begin|commit|version|attempts_lock|end_attempts|cancel_mark|cancel_waiting|manager_start|manager_stop|notifications_send'
	other+='|metrics_put|routes_add|routes_find|foreign_find'
	used=$(grep -ohE '\bSQL_[A-Z_]+' "${files[@]}" | sed 's/^SQL_//' | tr '[:upper:]' '[:lower:]' | sort -u | grep -vxE "$other")
	[ "$(wc -l <<<"$used")" -gt 40 ] || fail "few statements: $used"
	"$REEVE_BIN/bench-growth" >"$DIR/measured" || fail "a job is not measured"
	expect_eq '' "$(comm -23 <(echo "$used") <(sort -u "$DIR/measured"))" 'statements that are not measured'
}

run_tests
