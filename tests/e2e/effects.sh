#!/usr/bin/env bash
# Handlers whose effect happens once (examples/effects, docs/reliability.md): each is killed between its effect and its
# report, and its task runs again. Without such care the effect happens twice.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

# Runs a handler so that it can be stopped at a point: `held WHEN COMMAND…`, where WHEN is `before` or `after` the
# command. The N-th attempt writes its process id to $GATE/held.N when it gets there, and waits while $GATE/hold.N
# exists; $GATE/code.N has the exit code of the command.
HELD='#!/usr/bin/env bash
hold() {
	echo $$ >"$GATE/new.$REEVE_ATTEMPT"
	mv "$GATE/new.$REEVE_ATTEMPT" "$GATE/held.$REEVE_ATTEMPT"
	while [ -e "$GATE/hold.$REEVE_ATTEMPT" ]; do sleep 0.05; done
}
when=$1
shift
[ "$when" = after ] || hold
result=$("$@")
code=$?
echo $code >"$GATE/code.$REEVE_ATTEMPT"
[ "$when" = before ] || hold
printf %s "$result"
exit $code'

# Handlers that were written without such care: no key, no row, no token.
CARELESS='#!/usr/bin/env bash
set -eu
read -r account amount <<<"$(cat)"
psql "$APP_DATABASE" -Xq -c "update accounts set balance = balance + $amount where name = '\''$account'\''"
curl -fsS -d "account=$account&amount=$amount" "$PROVIDER/charges"'
UNFENCED='#!/usr/bin/env bash
set -eu
psql "$APP_DATABASE" -Xq -v ON_ERROR_STOP=1 -v task="$REEVE_TASK_ID" -v token="$REEVE_TOKEN" -v content="$(cat), by attempt $REEVE_ATTEMPT" <<-SQL
	insert into documents values (:task, :token, :'\''content'\'')
	on conflict (task_id) do update set token = excluded.token, content = excluded.content;
SQL'

start_postgres
start_manager --lease 30s --heartbeat 300ms --expiry-grace 40s # so long that a busy machine ends none; see end_lease
export PATH=$REEVE_TEST_PG_BIN:$PATH APP_DATABASE="host=$PGDIR user=postgres dbname=app"
sql 'create database app'
psql "$APP_DATABASE" -Xq -v ON_ERROR_STOP=1 -f "$TOP/examples/effects/schema.sql"
export UNANSWERED=$DIR/unanswered # while this file is there the provider charges, and does not answer
port=$(free_port)
export PROVIDER=http://127.0.0.1:$port
start provider "$TOP/examples/effects/provider" "$port" "$UNANSWERED"
wait_until 20 'curl -fsS "$PROVIDER/charges"'

app() {
	psql "$APP_DATABASE" -XAtq -v ON_ERROR_STOP=1 -c "$1"
}

charges() { # ACCOUNT
	curl -fsS "$PROVIDER/charges" | jq "map(select(.account == \"$1\")) | length"
}

begin() {
	expect_eq 0 "$(sql 'select count(*) from tasks')" 'tasks left by an earlier test'
	export GATE=$DIR/gate REPORTS=$DIR/reports
	mkdir "$GATE" "$REPORTS"
	printf '%s\n' "$HELD" >"$DIR/held"
	printf '%s\n' "$CARELESS" >"$DIR/careless"
	printf '%s\n' "$UNFENCED" >"$DIR/unfenced"
	chmod +x "$DIR/held" "$DIR/careless" "$DIR/unfenced"
	handlers <<-INI
		[handler unique-row]
		exec = $DIR/held after $TOP/examples/effects/unique-row
		[handler provider-key]
		exec = $DIR/held after $TOP/examples/effects/provider-key
		[handler write-then-rename]
		exec = $DIR/held after $TOP/examples/effects/write-then-rename
		[handler fenced-write]
		exec = $DIR/held before $TOP/examples/effects/fenced-write
		[handler careless]
		exec = $DIR/held after $DIR/careless
		[handler unfenced]
		exec = $DIR/held before $DIR/unfenced
	INI
	touch "$GATE/hold.1"
	start_worker first --concurrency 1
}

result() { # ID
	reeve wait "$1" >/dev/null
	field "$1" result
}

gone() { # PID
	[ -z "$(birth "$1")" ]
}

# Waits until attempt N has reached its point, starts OTHER, and kills WORKER, and with it the handler.
kill_held() { # N WORKER OTHER
	local handler
	wait_until 20 "[ -e $GATE/held.$1 ]"
	handler=$(cat "$GATE/held.$1")
	start_worker "$3" --concurrency 1
	! gone "$handler" || fail "attempt $1 is not there any more"
	kill_worker "$2"
	end_lease "$2"
	wait_until 5 "gone $handler"
}

expect_outcomes() { # ID STATUS-OF-TASK OUTCOMES-OF-ATTEMPTS-BEFORE
	expect_eq "$2" "$(field "$1" status)"
	expect_eq "$3" "$(sql "select string_agg(outcome, ' ' order by token) from task_attempts where task_id = $1")"
}

test_without_a_recipe_the_effect_happens_twice() {
	begin
	app "insert into accounts values ('twice', 0)"
	id=$(reeve submit careless 'twice 5')
	kill_held 1 first second
	wait_status 20 "$id" completed
	expect_outcomes "$id" completed lost
	expect_eq 10 "$(app "select balance from accounts where name = 'twice'")"
	expect_eq 2 "$(charges twice)"
}

test_a_unique_row_with_the_effect() {
	begin
	app "insert into accounts values ('row', 0)"
	id=$(reeve submit unique-row 'row 5')
	kill_held 1 first second
	expect_eq 'row has 5' "$(result "$id")"
	expect_outcomes "$id" completed lost
	expect_eq '0 0' "$(cat "$GATE/code.1" "$GATE/code.2" | xargs)" 'both attempts had done their work'
	expect_eq '5|1' "$(app "select balance, (select count(*) from effects) from accounts where name = 'row'")"
}

# The handler alone is killed after its effect. Later another task asks for the same effect, after the key of the first
# has been forgotten.
test_a_unique_row_named_after_the_callers_key() {
	begin
	app "insert into accounts values ('key', 0)"
	id=$(reeve submit unique-row 'key 5' --key invoice-17 --retry-base 10ms)
	wait_until 20 '[ -e $GATE/held.1 ]'
	kill -s KILL "$(cat "$GATE/held.1")"
	expect_eq 'key has 5' "$(result "$id")"
	expect_outcomes "$id" completed failed
	expect_eq "$id" "$(reeve submit unique-row 'key 5' --key invoice-17)"
	sql "delete from keys"
	rm "$GATE/hold.1"
	again=$(reeve submit unique-row 'key 5' --key invoice-17)
	expect [ "$again" != "$id" ]
	expect_eq 'key has 5' "$(result "$again")"
	expect_eq 5 "$(app "select balance from accounts where name = 'key'")"
}

# A row that cannot be inserted leaves no effect, and an effect that fails leaves no row.
test_a_unique_row_whose_effect_fails_is_not_there() {
	begin
	rm "$GATE/hold.1"
	id=$(reeve submit unique-row 'nobody 5' --max-attempts 1)
	wait_status 20 "$id" dead
	expect_eq 3 "$(cat "$GATE/code.1")"
	expect_eq 0 "$(app "select count(*) from effects where id = 'task $id'")"
}

test_a_providers_idempotency_key() {
	begin
	id=$(reeve submit provider-key 'ann 5')
	kill_held 1 first second
	expect_match '"account": "ann", "amount": "5"' "$(result "$id")"
	expect_outcomes "$id" completed lost
	expect_eq '0 0' "$(cat "$GATE/code.1" "$GATE/code.2" | xargs)" 'both attempts were answered'
	expect_eq 1 "$(charges ann)"
}

# The handler is killed, with its worker, while it waits for the answer: the charge is made, and the handler never
# learns of it.
test_a_provider_that_has_not_answered_yet() {
	begin
	touch "$UNANSWERED"
	id=$(reeve submit provider-key 'bob 5')
	wait_until 20 '[ "$(charges bob)" = 1 ]'
	start_worker second --concurrency 1
	supervisor=$(pgrep -P "$(pid first)")
	kill_worker first
	wait_until 10 "gone $supervisor" # it has killed the handler
	end_lease first
	rm "$UNANSWERED"
	wait_until 20 '[ -e $GATE/held.2 ]'
	expect [ ! -e "$GATE/code.1" ]
	expect_match '"account": "bob"' "$(result "$id")"
	expect_outcomes "$id" completed lost
	expect_eq 1 "$(charges bob)"
}

test_a_charge_that_is_refused_is_not_retried() {
	begin
	rm "$GATE/hold.1"
	reeve submit provider-key 'eve 5' --queue one --key invoice-18 --wait >/dev/null
	id=$(reeve submit provider-key 'eve 6' --queue two --key invoice-18)
	wait_status 20 "$id" dead
	expect_match '422.*another charge' "$(field "$id" last_error)"
	expect_eq 1 "$(charges eve)"
}

# The worker and its handler are killed before the rename, then after it.
test_a_temporary_file_and_a_rename() {
	mkdir "$DIR/bin"
	printf '%s\n' '#!/bin/sh' 'while [ "$REEVE_ATTEMPT" = 1 ]; do echo $PPID >"$GATE/renames"; sleep 0.05; done' 'exec /bin/mv "$@"' >"$DIR/bin/mv"
	chmod +x "$DIR/bin/mv"
	PATH=$DIR/bin:$PATH begin
	id=$(reeve submit write-then-rename $'pear\napple\nfig')
	wait_until 20 '[ -s $GATE/renames ]'
	expect_eq '' "$(ls "$REPORTS")" 'what is there before the rename'
	expect_eq "3 .report-$id.$(sql 'select (extract(epoch from last_updated) * 1000000)::bigint from tasks')" \
		"$(cd "$REPORTS" && wc -l .report-*)"
	touch "$GATE/hold.2"
	start_worker second --concurrency 1
	kill_worker first
	end_lease first
	kill_held 2 second third
	expect_eq "$(printf 'apple\nfig\npear')" "$(cat "$REPORTS/report-$id")"
	inode=$(stat -c %i "$REPORTS/report-$id")
	expect_eq "report-$id" "$(result "$id")"
	expect_outcomes "$id" completed 'lost lost'
	expect_eq "report-$id $inode" "$(find "$REPORTS" -type f -printf '%f %i\n')" 'what is left'
}

# A host freezes: worker, supervisor and handler. Another worker does the task. Then the handler is the first to resume,
# and writes.
former_attempt_writes() { # TYPE
	begin
	id=$(reeve submit "$1" text)
	wait_until 20 '[ -e $GATE/held.1 ]'
	handler=$(cat "$GATE/held.1")
	supervisor=$(sed -n 's/^PPid:\t//p' "/proc/$handler/status")
	expect_eq reeve-superviso "$(cat "/proc/$supervisor/comm")"
	kill -s STOP -- "$supervisor" "-$handler"
	signal first STOP
	start_worker second --concurrency 1
	end_lease first
	reeve wait "$id" >/dev/null
	expect_outcomes "$id" completed lost
	expect_eq 'text, by attempt 2' "$(app "select content from documents where task_id = $id")"
	rm "$GATE/hold.1"
	kill -s CONT -- "-$handler"
	wait_until 10 '[ -s $GATE/code.1 ] && gone $handler'
}

# Its late report changes nothing either.
expect_late() {
	kill -s CONT "$supervisor"
	signal first CONT
	wait_event 10 "$id" late_result
	expect_outcomes "$id" completed lost
}

test_a_fence_refuses_writes_of_an_earlier_attempt() {
	former_attempt_writes fenced-write
	expect_eq 1 "$(cat "$GATE/code.1")"
	expect_eq 'text, by attempt 2' "$(app "select content from documents where task_id = $id")"
	expect_late
}

test_without_a_fence_an_earlier_attempt_overwrites() {
	former_attempt_writes unfenced
	expect_eq 0 "$(cat "$GATE/code.1")"
	expect_eq 'text, by attempt 1' "$(app "select content from documents where task_id = $id")"
	expect_late
}

run_tests
