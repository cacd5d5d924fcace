#!/usr/bin/env bash
# The client for Python: submits, waits and a worker, by HTTP.
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/e2e/bad_managers.bash"
. "$TOP/tests/e2e/client_libraries.bash"

export PYTHONPATH=$TOP/clients/python PYTHONDONTWRITEBYTECODE=1
start_postgres
start_long_leases

SHELL_OF_WORKER=()
python() { # CODE: with a client
	H=$H python3 -c "
import os, sys, time
from reeve import *
client = Client(os.environ['H'])
$1"
}

# Starts a worker with some handlers. `patient`, `slow` and `deaf` write the file NAME.ID when they begin.
worker() { # NAME [TOKEN FILE]
	local name=$1 before
	cat >"$DIR/$name.py" <<END
import os, threading, time
from reeve import *
def again(task):
    if task.attempt < 3:
        raise Retry('not yet', 0.1)
    return task.attempt
def fatal(task):
    raise Fatal('never')
def broken(task):
    return 1 // 0
def begin(task):
    open('$DIR/$name.%s' % task.id, 'w').close()
def patient(task):
    begin(task)
    task.stopped.wait(60)
    raise RuntimeError('stopped')
def slow(task):
    begin(task)
    time.sleep(float(task.details))
    return {'slept': task.json()}
def raw(task):
    prefixed = b'data:application/octet-stream;base64,\\xff'
    return {'bytes': b'\\xff\\x00', 'prefixed': prefixed, 'nul': 'a\\0b'}.get(task.details, task.details)
def vexed(task):
    if task.attempt == 1:
        raise Retry('at once', 0)
    raise RuntimeError('a\\0b' + 'x' * 3000000)
def deaf(task):
    begin(task)
    time.sleep(60)
together = threading.Barrier(4)
def large(task):
    together.wait(30)
    return 'x' * 1000000
def huge(task):
    return {'letters': 'ä' * 600000, 'quotes': '"' * 900000, 'value': ['ж' * 400000]}[task.details]
def talks(task):
    task.progress(25, 'page 1 of 4')
    task.progress(float('nan'))
    task.log('one\\ntwo')
    while not os.path.exists('$DIR/go'):
        time.sleep(0.05)
    for i in range(3000):
        task.log('line %d \\0\\ud800' % i)
    task.progress(0)
    return 'said'
worker = Worker(Client('$H'.split()), concurrency=4, name='$name')
for function in (again, fatal, broken, vexed, patient, slow, raw, deaf, large, huge, talks):
    worker.handle(function.__name__, function)
worker.run()
END
	before=$(worker_incarnation "$name")
	start "$name" env REEVE_ACCESS_TOKEN_FILE="${2:-}" "${SHELL_OF_WORKER[@]}" python3 "$DIR/$name.py"
	wait_until 60 "[ \$(worker_incarnation $name) -gt $before ]"
}

test_tasks_run_and_are_awaited() {
	worker one
	expect_eq '{"slept": 0.2}' "$(python 'print(client.wait(client.submit("slow", 0.2), 30))')"
	expect_eq 3 "$(python 'print(client.wait(client.submit("again", queue="q", key="k"), 30))')"
	expect_eq "b'\\xff\\x00' b'data:application/octet-stream;base64,\\xff' data:application/octet-stream;base64,AA==" \
		"$(python 'print(*(client.submit_and_wait("raw", text) for text in ("bytes", "prefixed", "data:application/octet-stream;base64,AA==")))')"
	expect_eq "b'a\\x00b'" "$(python 'print(client.submit_and_wait("raw", "nul"))')"
	# JSON has letters as they are, and no NaN.
	expect_eq '{"ж": [null, null, "NaN"]}' "$(python 'print(client.submit_and_wait("raw", {"ж": [float("nan"), float("-inf"), "NaN"]}))')"
	expect_eq 400000 "$(python 'print(client.submit_and_wait("huge", "value").count("ж"))')"
	# In one call, if the task ends soon.
	expect_eq "{\"slept\": 0.1} ['TaskService/SubmitAndWait']" "$(python '
calls, call = [], client.call
client.call = lambda method, *rest: calls.append(method) or call(method, *rest)
print(client.submit_and_wait("slow", 0.1, queue="q"), calls)')"
	# Results that are too long for a manager, or for its messages, end their tasks and stop no others.
	for kind in letters quotes; do
		id=$(python "print(client.submit('huge', '$kind'))")
		expect_fail 1 reeve wait "$id" --max-wait 30s
		expect_eq 'dead result-too-long' "$(reeve show "$id" --json | jq -r '"\(.status) \(.error_code)"')"
	done
	expect_eq invalid_argument "$(python '
try:
    client.submit("slow", "x" * 1600000)
except Error as error:
    print(error.code)')"
	expect_match '^[0-9]+$' "$(python '
try:
    client.submit_and_wait("nobody", timeout=0.1)
except TimeoutError as error:
    print(error.id)')"
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
	# An error of any length and text is one, and a delay of 0 is none.
	id=$(python 'print(client.submit("vexed", max_attempts=3, retry={"kind": "RETRY_KIND_LIST", "delays_ms": [3600000, 1]}))')
	expect_fail 1 reeve wait "$id" --max-wait 60s
	expect_eq 'dead 3 RuntimeError a�b' "$(reeve show "$id" --json | jq -r '"\(.status) \(.attempt) \(.error_code) \(.last_error[:3])"')"
	expect_eq not_found "$(python '
try:
    client.get(999999)
except Error as error:
    print(error.code)')"
	expect_eq 50 "$(python '
ids = client.submit_all([{"type": "slow", "details": "0"}] * 50)
print(sum(client.wait(id, 60) == "{\"slept\": 0}" for id in ids))')"
	expect_eq '4000000 1 3 True' "$(python '
ids = client.submit_all([{"type": "large"}] * 4)
length = sum(len(client.wait(id, 60)) for id in ids)
answer = client.call("TaskService/Wait", {"ids": ids})
print(length, len(answer["ended"]), answer["pending"], answer["more"])')" 'one report with all of them is too long, and one answer'
}

test_a_result_that_a_manager_omits_is_an_error() {
	worker one
	id=$(python 'print(client.submit("raw", "x" * 900000))')
	expect_eq 900000 "$(python "print(len(client.wait($id, 30)))")"
	start_short_messages
	expect_match "^failed_precondition: the result of task $id has 900000 bytes, too long" "$(python "
try:
    client.wait($id, 30)
except Error as error:
    print(error)")"
}

test_another_manager_is_called() {
	local kind
	for kind in unavailable page silent slow stale; do bad_manager $kind $kind; done
	python "
import threading
silent, stale = '${BAD[silent]}', '${BAD[stale]}'
def ping(*urls, **request):
    client = Client(urls, timeout=4)
    return client, client.call('AdminService/Ping', request)
assert 'nowUs' in ping('${BAD[unavailable]}', '$H')[1], 'one has no database'
assert 'nowUs' in ping('${BAD[page]}', '$H')[1], 'one is no manager'
client = Client([silent, '$H'], timeout=4)
threads = [threading.Thread(target=client.call, args=['AdminService/Ping']) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
begin = time.monotonic()
client.call('AdminService/Ping')
assert time.monotonic() - begin < 1.5, 'two calls have left the one that does not answer'
client = Client('${BAD[slow]}', timeout=0.5)
assert client.call('AdminService/Ping', {'text': 'x' * 100000}) == {'from': 'slow'}, 'a message is on its way'
client, answer = ping(stale, silent)
time.sleep(0.3)
assert client.call('AdminService/Ping') == answer, 'its connection is closed'
for url, code in (silent, 'deadline_exceeded'), ('http://127.0.0.1:1', 'unavailable'):
    try:
        Client(url, timeout=0.5).call('AdminService/Ping')
    except Error as error:
        assert error.code == code and url in error.message and error.key, error
"
}

test_a_fault_of_a_manager_ends_no_worker() {
	bad_manager faulty faulty "$H"
	H=${BAD[faulty]} worker one
	id=$(python 'print(client.submit("slow", 0))')
	expect_first_attempt "$id"
	stop one
	expect_eq 0 "$STATUS"
}

test_a_worker_without_its_thread_for_results_ends() {
	expect_fail 1 python '
import reeve.worker, signal
reeve.worker.REPORT_LAST = 0
signal.alarm(30)
call = client.call
def broken(method, *rest, **named):
    if method == "WorkerService/Report":
        raise ValueError("no report")
    return call(method, *rest, **named)
client.call = broken
worker = Worker(client)
worker.handle("lost", lambda task: None)
client.submit("lost")
worker.run()'
	expect_match 'ValueError: no report' "$OUTPUT"
}

test_a_worker_leaves_a_frozen_manager() {
	local other both
	other=http://127.0.0.1:$(free_port)
	start_manager other --http "$other" --lease 15s --heartbeat 1s
	REEVE_MANAGER=${URL[manager]}
	both="$other $H"
	H=$both worker two
	id=$(python 'print(client.submit("slow", 4))')
	wait_until 20 '[ -e "$DIR/two.$id" ]'
	signal other STOP
	reeve wait "$id" --max-wait 30s >/dev/null
	signal other CONT
	expect_eq 1 "$(reeve show "$id" --json | jq -r .attempt)"
}

test_handlers_report_progress_and_log_lines() {
	worker one
	id=$(python 'print(client.submit("talks"))')
	wait_until 20 '[ "$(reeve logs "$id" --json | jq -r .text | xargs)" = "one two" ]'
	expect_eq 'executing 25 page 1 of 4' "$(reeve show "$id" --json | jq -r '"\(.status) \(.progress) \(.remark)"')"
	touch "$DIR/go"
	expect_eq said "$(python "print(client.wait($id, 30))")"
	expect_eq '0 page 1 of 4' "$(reeve show "$id" --json | jq -r '"\(.progress) \(.remark)"')"
	reeve logs "$id" --json >"$DIR/lines"
	expect_eq '3002 line 2999 �?' "$(tail -n 1 "$DIR/lines" | jq -r '"\(.number) \(.text)"')" 'NUL and half a character are replaced'
	expect_eq t "$(jq -s -r 'length | if . >= 1000 and . <= 2000 then "t" else . end' "$DIR/lines")"
	stop one
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
	expect_match '^[0-9]+ [0-9]+$' "$(IPC=$ipc python '
ids = [client.submit("nothing")]
reeve, file = ["env", "-u", "REEVE_ACCESS_TOKEN_FILE", os.environ["REEVE_BIN"] + "/reeve", "--manager", os.environ["IPC"], "token"], os.environ["REEVE_ACCESS_TOKEN_FILE"]
os.system(" ".join(reeve + ["rotate", "py", "--output", file + ".new", ">&2"]))
os.rename(file + ".new", file)
print(*ids, client.submit("nothing"))')"
	expect_match '^[0-9]+$' "$(REEVE_ACCESS_TOKEN=$(cat "$DIR/token") REEVE_ACCESS_TOKEN_FILE='' python 'print(client.submit("nothing"))')"
}

test_a_worker_whose_calls_are_refused_says_so_and_ends() {
	ipc=ipc://$DIR/socket
	H=http://127.0.0.1:$(free_port)
	start required "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$ipc" --http "$H" --auth required --lease 20s --heartbeat 1s
	wait_until 60 '"$REEVE_BIN/reeve" --manager "$ipc" stats >/dev/null'
	"$REEVE_BIN/reeve" --manager "$ipc" token create refused --role worker --output "$DIR/token"
	worker refused "$DIR/token"
	id=$("$REEVE_BIN/reeve" --manager "$ipc" submit patient)
	wait_until 20 '[ -e "$DIR/refused.$id" ]'
	"$REEVE_BIN/reeve" --manager "$ipc" token revoke refused
	ended refused 20
	expect_eq 1 "$STATUS"
	expect_match 'Error: unauthenticated: ' "$(cat "$DIR/log/refused.log")"
	reeve cancel "$id"
}

test_what_a_handler_submits_has_a_parent() {
	printf '[handler submits]\nexec = python3 -c "from reeve import Client; print(Client(%s).submit(%s), end=str())"\nenv = PYTHONPATH PYTHONDONTWRITEBYTECODE\n' \
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
	wait_until 20 '[ -e "$DIR/one.$id" ]'
	reeve cancel "$id"
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = cancelled ]"
	id=$(python 'print(client.submit("patient", timeout_ms=500, max_attempts=1))')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = dead ]"
	expect_eq timeout "$(reeve show "$id" --json | jq -r .error_code)"
}

test_a_worker_finishes_what_runs_before_it_leaves() {
	worker one
	id=$(python 'print(client.submit("slow", 2))')
	wait_until 20 '[ -e "$DIR/one.$id" ]'
	stop one
	expect_eq 0 "$STATUS"
	expect_eq completed "$(reeve show "$id" --json | jq -r .status)"
	expect_eq '' "$(alive_workers)"
}

test_a_worker_whose_name_is_in_use_waits_and_can_be_stopped() {
	worker one
	start same python3 "$DIR/one.py"
	wait_until 20 'grep -q "cannot register yet: already_exists" "$DIR/log/same.log"'
	stop same
	expect_eq 0 "$STATUS"
}

test_a_worker_that_has_lost_its_lease_registers_again() {
	start_short_leases
	worker one
	before=$(sql "select count(*) from workers where name = 'one'")
	signal one STOP
	id=$(reeve submit slow 0 --queue late) # for its waiting Fetch
	wait_until 20 '[ "$(sql "select lost from workers where name = '"'one'"' order by id desc limit 1")" = t ]'
	reeve queue pause late >/dev/null
	signal one CONT
	expect_eq '{"slept": 0}' "$(python 'print(client.wait(client.submit("slow", 0), 30))')"
	expect_eq $((before + 1)) "$(sql "select count(*) from workers where name = 'one'")"
	expect [ ! -e "$DIR/one.$id" ]
	reeve queue resume late >/dev/null
}

test_a_frozen_worker_does_not_go_on_with_its_tasks() {
	start_short_leases
	worker one
	id=$(python 'print(client.submit("deaf"))')
	wait_until 20 '[ -e "$DIR/one.$id" ]'
	signal one STOP
	worker two
	wait_until 20 '[ -e "$DIR/two.$id" ]'
	signal one CONT
	ended one 20
	expect_eq 75 "$STATUS"
	signal two KILL
	reeve cancel "$id"
}

test_a_handler_that_does_not_stop_ends_its_worker() {
	local SHELL_OF_WORKER=(bash -c 'exec "$@" 2> >(:)' -) # nobody reads its standard error
	start_short_leases
	worker one
	id=$(python 'print(client.submit("deaf", timeout_ms=60000))')
	wait_until 20 '[ -e "$DIR/one.$id" ]'
	signal short STOP
	ended one 20
	expect_eq 75 "$STATUS"
	signal short CONT
}

test_a_worker_that_gets_no_thread_returns_the_task() {
	expect_eq '1 2' "$(python '
import threading
start, begun = threading.Thread.start, []
def scarce(thread):
    if thread._target.__name__ == "_execute":
        begun.append(thread)
        if len(begun) == 1:
            raise RuntimeError("no thread can be started")
    start(thread)
threading.Thread.start = scarce
worker = Worker(client)
def handle(task):
    worker.stop()
    return task.attempt
worker.handle("scarce", handle)
id = client.submit("scarce")
worker.run()
print(client.wait(id, 30), len(begun))')"
}

test_signals_are_the_programs_own_after_run() {
	python '
import signal
def handlers():
    return signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
before = handlers()
worker = Worker(client)
worker.handle("nothing", lambda task: None)
worker.stop()
worker.run()
assert handlers() == before, handlers()'
}

test_what_cannot_work_is_said_at_once() {
	expect_fail 1 python 'Client("tcp://127.0.0.1:7171")'
	expect_match 'ValueError: "tcp://127.0.0.1:7171" is no URL for calls by HTTP' "$OUTPUT"
	expect_fail 1 python 'Client([])'
	expect_fail 1 python 'Worker(client).run()'
	expect_match 'ValueError: the worker has no handlers' "$OUTPUT"
	expect_eq "['mail']" "$(python 'print(Worker(client, queues="mail").queues)')"
	[ "$(id -u)" = 0 ] || return 0
	# A user without a name, as in a container.
	cp -r "$TOP/clients/python/reeve" "$DIR" && chmod -R a+rX "$DIR"
	expect_eq "54321@$(hostname)" "$(cd "$DIR" && setpriv --reuid 54321 --clear-groups env -u LOGNAME -u USER -u LNAME -u USERNAME PYTHONPATH="$DIR" \
		/usr/bin/python3 -c 'from reeve import Client; print(Client("http://localhost").actor)')"
}

test_it_can_be_installed_from_a_checkout() {
	cp -r "$TOP/clients/python" "$DIR/checkout" # pip writes into it
	/usr/bin/python3 -m pip install -q --no-index --no-build-isolation --disable-pip-version-check --target "$DIR/site" "$DIR/checkout" \
		>"$DIR/pip" 2>&1 || fail "$(cat "$DIR/pip")"
	expect_eq "$DIR/site/reeve True" "$(cd / && PYTHONPATH=$DIR/site /usr/bin/python3 -c "
import os, reeve
print(os.path.dirname(reeve.__file__), reeve.Client('$H').call('AdminService/Ping')['databaseUp'])")"
}

run_tests
