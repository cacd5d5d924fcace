#!/usr/bin/env bash
# Handlers whose process stays and runs one task after another.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager

child() { # NAME: a program whose lines run for each task; $1 is the task's line, `answer NAME VALUE` answers
	cat >"$DIR/$1" <<-END
		#!/bin/bash
		task() { jq -r ".\$1" <<<"\$line"; }
		answer() { jq -nc --arg id "\$(task id)" --arg name "\$1" --arg value "\$2" '{id: \$id, (\$name): \$value}'; }
		while IFS= read -r line; do
			$(cat)
		done
	END
	chmod +x "$DIR/$1"
}

# docs/worker.md shows all of its program.
test_the_example() {
	expect grep -qzF "$(sed 's/^\(.\)/    \1/' "$TOP/examples/stdio/words")" "$TOP/docs/worker.md"
	export PATH=$TOP/examples/stdio:$PATH
	HANDLERS=$TOP/examples/stdio/handlers.ini
	start_worker words --concurrency 2
	expect_eq 6 "$(reeve submit words 'to be or not to be' --wait)"
	expect_eq 0 "$(reeve submit words --wait)"
	expect_eq 4 "$(reeve submit words $'a "b"\n\\c ünïcödé' --wait)"
	# One process after the other: one was enough.
	expect_eq 1 "$(pgrep -cf "python3 $TOP/examples/stdio/words")"
}

test_a_child_submits_tasks_with_the_access_token_in_the_line() {
	local id made
	child plan <<-'END'
		answer result "$(REEVE_TASK_ID=$(task task_id) REEVE_ATTEMPT_ACCESS_TOKEN=$(task access_token) reeve submit later --queue later --delay 1h)"
	END
	handlers <<-END
		[handler plan]
		stdio = $DIR/plan
	END
	export PATH=$REEVE_BIN:$PATH
	start_worker planner --concurrency 1
	for _ in 1 2; do
		id=$(reeve submit plan)
		reeve wait "$id" >/dev/null
		made=$(field "$id" result)
		expect_eq "$made" "$(reeve list --where "parent=$id" --json | jq -r .id)"
		expect_eq "task $id" "$(field "$made" source)"
	done
}

test_a_child_runs_as_another_user() {
	[ "$(id -u)" = 0 ] || return 0
	chmod 755 "$DIR"
	child who <<-'END'
		answer result "$(id -un; env | grep -vE '^(PWD|SHLVL|_|OLDPWD|REEVE_MANAGER)=' | sort | xargs; ls /root 2>&1 | grep -o denied)"
	END
	handlers <<-END
		[handler who]
		stdio = $DIR/who
		user = nobody
		environment = PATH
	END
	SECRET=x start_worker other
	expect_eq "nobody HOME=$(getent passwd nobody | cut -d: -f6) LOGNAME=nobody PATH=$PATH USER=nobody denied" \
		"$(reeve submit who --wait | xargs)"
}

# A line is never longer in the worker's memory than max-output.
test_a_line_of_a_gigabyte_is_not_kept() {
	handlers <<-'END'
		[handler endless]
		stdio = /bin/sh -c 'read line; printf "{"; exec head -c 1073741824 /dev/zero'
		max-output = 1MiB
	END
	start_worker bounded --concurrency 1
	before=$(awk '/^VmHWM/ { print $2 }' "/proc/$(pid bounded)/status")
	id=$(reeve submit endless)
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead output-too-long' "$(field "$id" status) $(field "$id" error_code)"
	after=$(awk '/^VmHWM/ { print $2 }' "/proc/$(pid bounded)/status")
	expect [ $((after - before)) -lt 65536 ]
}

test_a_child_that_dies_is_replaced_and_its_task_is_retried() {
	child fragile <<-'END'
		[ "$(task attempt)" -gt 2 ] || { echo "attempt $(task attempt) breaks" >&2; exit 7; }
		answer result $$
	END
	handlers <<-END
		[handler fragile]
		stdio = $DIR/fragile
	END
	start_worker fragile --concurrency 1
	id=$(reeve submit fragile --retry-base 10ms)
	reeve wait "$id" >/dev/null
	expect_eq 'completed 3' "$(field "$id" status) $(field "$id" attempt)"
	expect_eq "$(printf 'exit:7: the child ended before its answer: exit status 7\nattempt %d breaks\n' 1 2)" \
		"$(event_field "$id" failed note)"
}

test_the_file_is_checked() {
	check() { # LINE…: the error of a section with these lines
		printf '%s\n' '[handler t]' "$@" >"$DIR/wrong.ini"
		expect_fail 2 reeve-worker --check --handlers "$DIR/wrong.ini"
		expect_eq "reeve-worker: $DIR/wrong.ini:$WANT" "$OUTPUT"
	}
	export PATH=$REEVE_BIN:$PATH
	WANT='3: [handler t]: has both exec and stdio' check 'exec = true' 'stdio = true'
	WANT='3: [handler t]: stdio is given twice' check 'stdio = true' 'stdio = true'
	WANT='1: [handler t]: stdio: there is no program /no/such that can be run' check 'stdio = /no/such'
	WANT='1: [handler t]: only stdio handlers have children' check 'exec = true' 'children = 2'
	WANT='3: [handler t]: children: 0 is not a number from 1 to 10000' check 'stdio = true' 'children = 0'
}

run_tests
