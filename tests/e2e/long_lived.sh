#!/usr/bin/env bash
# Handlers whose process stays and runs one task after another: children, services, plugins.
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

# docs/handlers.md shows all of its program.
test_the_example() {
	expect grep -qzF "$(sed 's/^\(.\)/    \1/' "$TOP/examples/stdio/words")" "$TOP/docs/handlers.md"
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
		env = PATH
	END
	SECRET=x start_worker other
	expect_eq "nobody HOME=$(getent passwd nobody | cut -d: -f6) LOGNAME=nobody PATH=$PATH USER=nobody denied" \
		"$(reeve submit who --wait | xargs)"
}

# Tasks for which no child is free wait at the manager, and leave the other slots to other types.
test_busy_children_leave_slots_to_other_types() {
	local id
	child heavy <<-'END'
		until [ -e "$REEVE_TEST_DIR/go" ]; do sleep 0.02; done
		answer result done
	END
	handlers <<-END
		[handler heavy]
		stdio = $DIR/heavy
		children = 1
		[handler light]
		exec = cat
	END
	seq 5 | reeve submit --bulk - --type heavy >"$DIR/heavies"
	start_worker mixed --concurrency 3
	wait_until 20 '[ "$(sql "select count(*) from tasks where status = '"'executing'"' and type = '"'heavy'"'")" = 1 ]'
	for _ in 1 2 3; do reeve wait "$(reeve submit light)" --max-wait 60s >/dev/null; done
	expect_eq 'executing 1 queued 4' "$(sql 'select status, count(*) from tasks where type = '"'heavy'"' group by 1 order by 1' | tr '|\n' '  ' | sed 's/ $//')"
	touch "$DIR/go"
	while read -r id; do reeve wait "$id" --max-wait 60s >/dev/null; done <"$DIR/heavies"
	# The parked Fetch, which had no room for it, is sent again.
	reeve wait "$(reeve submit heavy)" --max-wait 60s >/dev/null
}

# An answer in time counts, even if the worker reads it after the timeout.
test_an_answer_in_time_counts() {
	child timely <<-'END'
		kill -s STOP "$(cat "$REEVE_TEST_DIR/worker")"
		answer result done
		touch "$REEVE_TEST_DIR/answered"
	END
	handlers <<-END
		[handler timely]
		stdio = $DIR/timely
	END
	start_worker timely --concurrency 1
	pid timely >"$DIR/worker"
	id=$(reeve submit timely --timeout 2s --max-attempts 1)
	wait_until 20 "[ -e $DIR/answered ]"
	sleep 2.2
	signal timely CONT
	reeve wait "$id" --max-wait 20s >/dev/null || fail "$(reeve show "$id")"
	expect_eq 'completed done' "$(field "$id" status) $(field "$id" result)"
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

#
# http
#

service() { # starts the service, and a worker whose handler `call` calls it
	local port
	port=$(free_port)
	start service python3 "$TOP/tests/tools/http_service.py" --folder "$DIR" --port "$port"
	wait_until 20 "(: </dev/tcp/127.0.0.1/$port)"
	handlers <<-END
		[handler call]
		http = http://ann:s3cret@127.0.0.1:$port/tasks?of=reeve
		max-output = 100KiB
	END
	start_worker caller --concurrency 2 "$@"
}

ran() { # DETAILS [OPTION…]: runs it to its end, prints what became of it
	local id details=$1
	shift
	id=$(reeve submit call "$details" --retry-base 10ms --max-attempts 2 "$@")
	reeve wait "$id" >/dev/null 2>&1 || true
	reeve show "$id" --json | jq -r '[.status, .attempt, .error_code // "", .last_error // "", .result // ""] | join("|")'
}

test_the_status_of_the_answer_decides() {
	service
	expect_eq 'completed|1|||done ünïcödé' "$(ran '{"body": "done ünïcödé"}')"
	expect_eq 'completed|1|||' "$(ran '{"status": 204}')"
	expect_eq 'dead|1|http:400|the service answered 400: no such account|' "$(ran '{"status": 400, "body": "no such account\n"}')"
	expect_eq 'dead|1|http:404|the service answered 404|' "$(ran '{"status": 404}')"
	for status in 302 408 425 429 500 502 503; do
		expect_eq "dead|2|http:$status|the service answered $status: busy|" "$(ran "{\"status\": $status, \"body\": \"busy\"}")"
	done
	expect_eq 'completed|1|||data:application/octet-stream;base64,Yeli' "$(ran '{"do": "raw", "body": "a\u00e9b"}')"
}

test_the_service_sets_the_time_of_the_retry() {
	service
	for status in 429 503; do
		id=$(reeve submit call "{\"status\": $status, \"headers\": {\"Retry-After\": \"1\"}}" --retry-base 1h --max-attempts 2)
		expect_fail 1 reeve wait "$id"
		expect_eq t "$(sql "select run_at - last_updated between '900ms' and '1100ms' from task_attempts where task_id = $id and attempt = 1")"
	done
}

test_the_headers_have_the_task() {
	service
	names='["Reeve-Task-Id", "Reeve-Task-Type", "Reeve-Queue", "Reeve-Key", "Reeve-Stage", "Reeve-Attempt", "Reeve-Token", "Content-Type", "Traceparent"]'
	id=$(reeve submit call "{\"echo\": $names}" --queue 'a queue' --key "k: 1" --traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01)
	reeve wait "$id" >/dev/null
	expect_eq "$id
call
a queue
k: 1
-
1
$(event_field "$id" claimed token)
application/json
00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" "$(field "$id" result)"
	# The next call has the same connection.
	expect_eq completed "$(ran '{}' | cut -d'|' -f1)"
	expect_eq 1 "$(sort -u "$DIR/calls" | wc -l)"
}

test_a_service_submits_tasks_with_the_access_token_in_the_header() {
	service
	id=$(reeve submit call "{\"run\": [\"$REEVE_BIN/reeve\", \"submit\", \"later\", \"--queue\", \"later\", \"--delay\", \"1h\"]}")
	reeve wait "$id" >/dev/null
	expect_eq "$(field "$id" result | xargs)" "$(reeve list --where "parent=$id" --json | jq -r .id)"
	expect_match '^[0-9]+$' "$(field "$id" result | xargs)"
}

# An error shows the scheme, host and port of the URL. It does not show the rest, which may be secret.
test_answers_that_are_none() {
	service
	expect_eq 'dead|1|output-too-long|the answer is longer than 102400 bytes (max-output)|' "$(ran '{"do": "endless"}')"
	expect_match '^dead\|2\|http\|the answer.s head is longer than 64 KiB' "$(ran '{"do": "head"}')"
	expect_match '^dead\|2\|http\|http://127.0.0.1:[0-9]*/: .*(transfer closed|bytes remaining)' "$(ran '{"do": "half"}')"
	expect_match '^dead\|2\|http\|http://127.0.0.1:[0-9]*/: Empty reply' "$(ran '{"do": "close"}')"
	stop service
	expect_match '^dead\|2\|http\|http://127.0.0.1:[0-9]*/: .*Failed to connect' "$(ran '{}')"
}

all_closed() { # whether the worker has closed the connection of each call
	[ "$(wc -l <"$DIR/closed")" = "$(wc -l <"$DIR/calls")" ]
}

called() { # submits a task, and waits until its call is there; sets id
	local before
	before=$(wc -l <"$DIR/calls")
	id=$(reeve submit call '{"after": 60}')
	wait_until 20 "[ \"\$(wc -l <'$DIR/calls')\" = $((before + 1)) ]"
}

test_timeout_cancel_and_stop_close_the_connection() {
	service --drain-timeout 1s
	expect_eq 'dead|2|timeout|not done after 500 ms|' "$(ran '{"after": 60}' --timeout 500ms)"
	expect [ -s "$DIR/calls" ]
	wait_until 10 "all_closed"
	called
	reeve cancel "$id"
	wait_until 10 "all_closed"
	expect_fail 1 reeve wait "$id"
	expect_eq cancelled "$(field "$id" status)"
	called
	stop caller
	wait_until 10 "all_closed"
	expect_eq "$id queued 0" "$(reeve show "$id" --json | jq -r '"\(.id) \(.status) \(.attempt)"')"
}

test_a_service_at_a_unix_socket() {
	start service python3 "$TOP/tests/tools/http_service.py" --folder "$DIR" --socket "$DIR/service.sock"
	wait_until 20 "[ -S $DIR/service.sock ]"
	handlers <<-END
		[handler call]
		http = http://unix:$DIR/service.sock:/tasks
	END
	start_worker local
	expect_eq 'completed|1|||done' "$(ran '{"body": "done"}')"
	stop service
	rm -f "$DIR/service.sock"
	expect_match "^dead\|2\|http\|http://unix:$DIR/service.sock: .*connect" "$(ran '{}')"
}

#
# Plugins.
#

build_plugin() { # NAME SOURCE
	cc -shared -fPIC -I"$TOP/worker/include" -o "$DIR/$1.so" "$2"
}

# As it is: with the header alone, outside the tree, and without the worker's sanitizers.
test_the_plugin_of_the_example() {
	build_plugin greet "$TOP/examples/plugin/greet.c"
	handlers <<-END
		[handler greet]
		plugin = $DIR/greet.so
	END
	start_worker greeter
	expect_eq 'Hello, Ann!' "$(reeve submit greet Ann --wait)"
	id=$(reeve submit greet)
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead nobody' "$(field "$id" status) $(field "$id" error_code)"
	# The loader would take another file in its place for the same one: it is refused. With another name it is loaded.
	sed 's/Hello/Good evening/' "$TOP/examples/plugin/greet.c" >"$DIR/evening.c"
	build_plugin evening "$DIR/evening.c"
	cp "$DIR/evening.so" "$DIR/new.so"
	mv "$DIR/new.so" "$DIR/greet.so"
	signal greeter HUP
	wait_until 10 "grep -q 'greet.so has changed since this worker loaded it' $DIR/log/greeter.log"
	expect_eq 'Hello, Ann!' "$(reeve submit greet Ann --wait)"
	sed -i s/greet.so/evening.so/ "$HANDLERS"
	signal greeter HUP
	wait_until 10 "grep -q reloaded $DIR/log/greeter.log"
	expect_eq 'Good evening, Ann!' "$(reeve submit greet Ann --wait)"
}

test_a_plugin_reports_progress_and_a_binary_result() {
	cat >"$DIR/talks.c" <<-END
		#include <reeve/worker.h>
		#include <unistd.h>
		static int talks(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
		{
			reeve_attempt_progress(attempt, 40, "page 2 of 5");
			reeve_attempt_log(attempt, "opened\nread");
			while (access("$DIR/seen", F_OK) && !reeve_attempt_cancelled(attempt))
				usleep(20000);
			reeve_attempt_progress(attempt, 0, NULL);
			reeve_attempt_log(attempt, "over again");
			return reeve_outcome_complete_bytes(outcome, "\377\0b", 3);
		}
		const struct reeve_plugin reeve_plugin = {REEVE_PLUGIN_ABI, talks};
	END
	build_plugin talks "$DIR/talks.c"
	handlers <<-END
		[handler talks]
		plugin = $DIR/talks.so
	END
	start_worker talker
	id=$(reeve submit talks)
	wait_until 20 '[ "$(field "$id" progress)" = 40 ]'
	expect_eq 'executing page 2 of 5' "$(field "$id" status) $(field "$id" remark)"
	wait_until 20 '[ "$(reeve logs "$id" --json | jq -r .text | xargs)" = "opened read" ]' # of a later call, perhaps
	touch "$DIR/seen"
	expect_eq 'ff0062' "$(reeve wait "$id" --result | xxd -p)"
	expect_eq '0 opened read over again' "$(field "$id" progress) $(reeve logs "$id" --json | jq -r .text | xargs)"
}

# The watchdog's rules for functions hold for plugins.
test_a_plugin_polls_and_is_stopped() {
	cat >"$DIR/slow.c" <<-'END'
		#include <reeve/worker.h>
		#include <unistd.h>
		static int slow(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
		{
			reeve_outcome_remark(outcome, "begun");
			while (!reeve_attempt_cancelled(attempt))
				usleep(10000);
			return reeve_outcome_fail(outcome, NULL, "stopped");
		}
		const struct reeve_plugin reeve_plugin = {REEVE_PLUGIN_ABI, slow};
	END
	build_plugin slow "$DIR/slow.c"
	handlers <<-END
		[handler slow]
		plugin = $DIR/slow.so
		timeout = 400ms
	END
	start_worker slow
	id=$(reeve submit slow --max-attempts 1)
	expect_fail 1 reeve wait "$id"
	expect_eq 'dead timeout begun' "$(field "$id" status) $(field "$id" error_code) $(field "$id" remark)"
}

test_plugins_that_are_none_are_refused() {
	export PATH=$REEVE_BIN:$PATH
	refused() { # FILE ERROR
		printf '[handler t]\nplugin = %s\n' "$1" >"$DIR/wrong.ini"
		expect_fail 2 reeve-worker --check --handlers "$DIR/wrong.ini"
		expect_match "^reeve-worker: $DIR/wrong.ini:1: \\[handler t\\]: plugin: $2" "$OUTPUT"
	}
	echo 'int reeve;' >"$DIR/empty.c"
	echo 'struct { int abi; void *handler; } reeve_plugin = {7, 0};' >"$DIR/old.c"
	echo 'struct { int abi; void *handler; } reeve_plugin = {1, 0};' >"$DIR/without.c"
	echo 'extern int missing(void); struct { int abi; int (*handler)(void); } reeve_plugin = {1, missing};' >"$DIR/undefined.c"
	for name in empty old without undefined; do build_plugin $name "$DIR/$name.c"; done
	echo 'no object' >"$DIR/text.so"
	refused "$DIR/empty.so" ".*/empty.so is no plugin: it does not export reeve_plugin"
	refused "$DIR/old.so" ".*/old.so was built for version 7 of plugins, and this worker has version 1: build it again"
	refused "$DIR/without.so" ".*/without.so has no handler in reeve_plugin"
	refused "$DIR/undefined.so" ".*undefined symbol: missing"
	refused "$DIR/text.so" ".*/text.so: (file too short|invalid ELF header)"
	refused "$DIR/nothing.so" ".*/nothing.so: No such file or directory"
	refused nothing.so "nothing.so is not a path: it has no /"
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
	WANT='1: [handler t]: http: ftp://localhost/ is not a URL with http:// or https://' check 'http = ftp://localhost/'
	WANT='1: [handler t]: http: http://unix:a:/b is not http://unix:SOCKET:/PATH, with an absolute path' check 'http = http://unix:a:/b'
	WANT='1: [handler t]: http handlers have no directory, env or user' check 'http = http://localhost/' 'env ='
	WANT='3: [handler t]: children: 0 is not a number from 1 to 10000' check 'stdio = true' 'children = 0'
}

run_tests
