#!/usr/bin/env bash
# The client for Python: submits, waits and a worker, by HTTP.
. "$(dirname "$0")/lib.sh"

export PYTHONPATH=$TOP/clients/python PYTHONDONTWRITEBYTECODE=1
start_postgres
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H" --lease 3s --heartbeat 500ms

python() { # CODE: with a client
	H=$H python3 -c "
import os, sys, time
from reeve import *
client = Client(os.environ['H'])
$1"
}

worker() { # NAME [TOKEN FILE]: starts a worker with some handlers
	local name=$1
	cat >"$DIR/$name.py" <<END
import os, time
from reeve import *
def again(task):
    if task.attempt < 3:
        raise Retry('not yet', 0.1)
    return task.attempt
def fatal(task):
    raise Fatal('never')
def broken(task):
    return 1 // 0
def patient(task):
    task.stopped.wait(60)
    raise RuntimeError('stopped')
def slow(task):
    time.sleep(float(task.details))
    return {'slept': task.json()}
def deaf(task):
    time.sleep(60)
worker = Worker(Client('$H'), concurrency=4, name='$name')
for function in (again, fatal, broken, patient, slow, deaf):
    worker.handle(function.__name__, function)
worker.run()
END
	start "$name" env REEVE_ACCESS_TOKEN_FILE="${2:-}" python3 "$DIR/$name.py"
	wait_until 20 "alive_workers | grep -qx $name"
}

alive_workers() {
	reeve worker list --json | jq -r 'select(.state == "alive").name'
}

test_tasks_run_and_are_awaited() {
	worker one
	expect_eq '{"slept": 0.2}' "$(python 'print(client.wait(client.submit("slow", 0.2), 30))')"
	expect_eq 3 "$(python 'print(client.wait(client.submit("again", queue="q", key="k"), 30))')"
	python '
try:
    client.wait(client.submit("fatal"), 30)
except TaskFailed as error:
    print(error)' >"$DIR/out"
	expect_match '^task [0-9]+ is dead: never$' "$(cat "$DIR/out")"
	id=$(python 'print(client.submit("broken", max_attempts=1))')
	expect_fail 1 reeve wait "$id"
	expect_eq ZeroDivisionError "$(reeve show "$id" --json | jq -r .error_code)"
	expect_match 'return 1 // 0' "$(reeve show "$id" --json | jq -r .stack_trace)"
	expect_eq not_found "$(python '
try:
    client.get(999999)
except Error as error:
    print(error.code)')"
	expect_eq 50 "$(python '
ids = client.submit_all([{"type": "slow", "details": "0"}] * 50)
print(sum(client.wait(id, 60) == "{\"slept\": 0}" for id in ids))')"
}

test_a_token_comes_from_the_environment() {
	ipc=ipc://$DIR/socket
	H=http://127.0.0.1:$(free_port)
	start required "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$ipc" --http "$H" --auth required
	wait_until 60 '"$REEVE_BIN/reeve" --manager "$ipc" stats >/dev/null'
	expect_fail 1 python 'client.submit("nothing")'
	expect_match 'unauthenticated: ' "$OUTPUT"
	"$REEVE_BIN/reeve" --manager "$ipc" token create py --role submitter --output "$DIR/token"
	export REEVE_ACCESS_TOKEN_FILE=$DIR/token
	expect_match '^[0-9]+$' "$(python 'print(client.submit("nothing"))')"
	expect_match '^[0-9]+$' "$(REEVE_ACCESS_TOKEN=$(cat "$DIR/token") REEVE_ACCESS_TOKEN_FILE='' python 'print(client.submit("nothing"))')"
}

test_a_worker_whose_calls_are_refused_says_so_and_ends() {
	ipc=ipc://$DIR/socket
	H=http://127.0.0.1:$(free_port)
	start required "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$ipc" --http "$H" --auth required --lease 3s --heartbeat 500ms
	wait_until 60 '"$REEVE_BIN/reeve" --manager "$ipc" stats >/dev/null'
	"$REEVE_BIN/reeve" --manager "$ipc" token create refused --role worker --output "$DIR/token"
	worker refused "$DIR/token"
	id=$("$REEVE_BIN/reeve" --manager "$ipc" submit patient)
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	"$REEVE_BIN/reeve" --manager "$ipc" token revoke refused
	ended refused 20
	expect_eq 1 "$STATUS"
	expect_match 'Error: unauthenticated: ' "$(cat "$DIR/log/refused.log")"
	reeve cancel "$id"
}

test_what_a_handler_submits_has_a_parent() {
	printf '[handler submits]\nexec = python3 -c "from reeve import Client; print(Client(%s).submit(%s), end=str())"\nenvironment = PYTHONPATH PYTHONDONTWRITEBYTECODE\n' \
		"'$H'" "'nothing'" >"$DIR/handlers.ini"
	start submitter "$REEVE_BIN/reeve-worker" --handlers "$DIR/handlers.ini"
	id=$(reeve submit submits)
	reeve wait "$id" >/dev/null
	child=$(reeve show "$id" --json | jq -r .result)
	expect_eq "$id" "$(reeve show "$child" --json | jq -r .parent_id)"
}

test_a_running_task_can_be_cancelled_or_time_out() {
	worker one
	id=$(python 'print(client.submit("patient"))')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	reeve cancel "$id"
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = cancelled ]"
	id=$(python 'print(client.submit("patient", timeout_ms=500, max_attempts=1))')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = dead ]"
	expect_eq timeout "$(reeve show "$id" --json | jq -r .error_code)"
}

test_a_worker_finishes_what_runs_before_it_leaves() {
	worker one
	id=$(python 'print(client.submit("slow", 2))')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	stop one
	expect_eq 0 "$STATUS"
	expect_eq completed "$(reeve show "$id" --json | jq -r .status)"
	expect_eq '' "$(alive_workers)"
}

test_a_worker_that_has_lost_its_lease_registers_again() {
	worker one
	before=$(sql "select count(*) from workers where name = 'one'")
	signal one STOP
	wait_until 20 '[ "$(sql "select lost from workers where name = '"'one'"' order by id desc limit 1")" = t ]'
	signal one CONT
	expect_eq '{"slept": 0}' "$(python 'print(client.wait(client.submit("slow", 0), 30))')"
	expect_eq $((before + 1)) "$(sql "select count(*) from workers where name = 'one'")"
}

test_a_frozen_worker_does_not_go_on_with_its_tasks() {
	worker one
	id=$(python 'print(client.submit("deaf"))')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	signal one STOP
	worker two
	wait_until 20 "[ \$(reeve show $id --json | jq -r .worker) = two ]"
	signal one CONT
	ended one 10
	expect_eq 75 "$STATUS"
	signal two KILL
	reeve cancel "$id"
}

test_a_handler_that_does_not_stop_ends_its_worker() {
	worker one
	id=$(python 'print(client.submit("deaf", timeout_ms=60000))')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	signal manager STOP
	ended one 20
	expect_eq 75 "$STATUS"
	signal manager CONT
}

run_tests
